"""What a trace shows of the audit trail: who asked what, in short, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.tracing import brief

if TYPE_CHECKING:
    from langchain_agentmem.audit.chain import ChainReport, Head
    from langchain_agentmem.audit.health import Health
    from langchain_agentmem.audit.imports import Imported
    from langchain_agentmem.audit.insights import Insights
    from langchain_agentmem.audit.reading import Listed

MOST = 20
"""Entries that are shown of many."""


def given(entry: AuditEntry) -> dict[str, Any]:
    """An entry that is to be added."""
    fields = {
        "namespace": entry.namespace,
        "conversation_id": entry.conversation_id,
        "thread_id": entry.thread_id,
        "kind": entry.kind,
        "prompt": brief(entry.prompt),
        "reply": brief(entry.reply),
        "model": entry.model,
        "of_run_id": entry.run_id,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "failure": None if entry.error is None else brief(entry.error),
    }
    return {name: value for name, value in fields.items() if value is not None}


def added(entry: AuditEntry) -> dict[str, Any]:
    """An entry that was added: whether it is shown, and if not, by which rules."""
    return {"entry_id": entry.id, "junk": entry.junk}


def listed(entries: Sequence[AuditEntry]) -> dict[str, Any]:
    """Entries that were read or made: the newest of them."""
    return {"count": len(entries), "entries": [_one(each) for each in entries[-MOST:]]}


def page(read: Listed) -> dict[str, Any]:
    """A page of entries."""
    return listed(read.entries)


def maybe(entry: AuditEntry | None) -> dict[str, Any]:
    """An entry, if there is one."""
    return listed([] if entry is None else [entry])


def changed(count: int) -> dict[str, Any]:
    """How many entries are otherwise than before."""
    return {"changed": count}


def head(end: Head) -> dict[str, Any]:
    """An end of the chain."""
    return {"entries": end.sequence, "head": str(end)}


def chain(report: ChainReport) -> dict[str, Any]:
    """How the chain was found."""
    return {"ok": report.ok, "entries": report.entries, "erased": report.erased, "problems": report.problems}


def health(found: Health) -> dict[str, Any]:
    """How the trail fares."""
    return {"entries": found.sizes.entries, "conversations": found.conversations, "open_todos": found.open_todos}


def insights(found: Insights) -> dict[str, Any]:
    """What the trail tells of its use."""
    return {"topics": len(found.topics), "prompts": sum(found.hours), "models": len(found.models)}


def imported(done: Imported) -> dict[str, Any]:
    """What came of reading a document."""
    return {"added": done.added, "known": done.known, "lost": len(done.lost)}


def _one(entry: AuditEntry) -> dict[str, Any]:
    told = {"id": entry.id, "kind": entry.kind, "prompt": brief(entry.prompt), "reply": brief(entry.reply)}
    return told if entry.status is None else {**told, "status": entry.status}
