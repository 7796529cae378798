"""Entries come from the document's `agent_memory.json`, and go to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import OPEN, REFERENCE, TODO, AuditEntry
from langchain_agentmem.audit.audit_rows import Draft
from langchain_agentmem.audit.audit_todos import todo_key
from langchain_agentmem.audit.legacy_json import MARKS, DocumentEntry
from langchain_agentmem.base.namespaces import Namespace, id_of
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.queries import digest


class Imported(NamedTuple):
    """What came of reading a document.

    Attributes:
        added: Entries that were added.
        known: Entries that were here already.
        lost: What of the file could not be read, in sentences.
        kept: Where a copy of a damaged file lies; None where it was whole.
        notes: What was read otherwise than it stands there, in sentences.
    """

    added: int
    known: int
    lost: tuple[str, ...]
    kept: Path | None
    notes: tuple[str, ...] = ()


def drafts_of(
    documented: Iterable[DocumentEntry],
    namespace: Namespace,
    at: datetime,
    judged: Callable[[AuditEntry], AuditEntry],
) -> list[Draft]:
    """Entries of a document, with ids that are the same each time it is read.

    Args:
        documented: The entries, in their order.
        namespace: Where they go.
        at: When the first was written, if it does not say so.
        judged: Says of an entry whether it is junk.
    """
    drafts, times = [], Counter[bytes]()
    for each in documented:
        at = each.timestamp or at  # one that has no time was written after the one before it
        said = [each.kind, each.prompt, each.reply, str(each.timestamp), each.conversation_id or ""]
        told = digest("\x1f".join(said).encode("utf-8", "surrogatepass"))
        times[told] += 1
        name, extra = _named(each)
        mark = each.prompt.strip().removeprefix(MARKS[each.kind][0]).strip() if each.kind in MARKS else ""
        entry = AuditEntry(
            id=f"imported-{told.hex()[:32]}-{times[told]}",
            kind=each.kind,
            prompt=each.prompt,
            reply=each.reply,
            created_at=at,
            conversation_id=name,
            namespace=namespace,
            status=OPEN if each.kind == TODO else None,
            title=mark or None if each.kind == REFERENCE else None,
            extra=extra,
        )
        key = todo_key(mark) if each.kind == TODO else mark if each.kind == REFERENCE else ""
        drafts.append(Draft(judged(entry), key or None))
    return drafts


def bring(path: str, drafts: Sequence[Draft]) -> Steps[int]:
    """Add what a document holds. The original adds its guidelines at each start: the newest version is shown.

    Args:
        path: The path of the namespace.
        drafts: What `drafts_of` gave.

    Returns:
        How many entries are new.
    """
    added = yield from audit_store.add_new(path, drafts)
    new = {entry.id for entry in added if entry.kind == REFERENCE}
    marks = [mark for draft in drafts if draft.entry.id in new and (mark := audit_rows.mark_of(draft.mark)) is not None]
    yield from audit_store.show_newest(path, marks)
    return len(added)


def as_documented(entry: AuditEntry) -> DocumentEntry:
    """An entry as the document has it."""
    named = entry.conversation_id or entry.extra.get("conversation_id")  # see `_named`
    return DocumentEntry(
        prompt=entry.prompt,
        reply=entry.reply,
        timestamp=entry.created_at,
        conversation_id=named if isinstance(named, str) else None,
    )


def _named(documented: DocumentEntry) -> tuple[str | None, dict[str, Any]]:
    """The conversation of an entry, and what else is known of it: also a name that no conversation can have."""
    extra = dict(documented.extra)
    if documented.conversation_id is None:
        return None, extra
    try:
        return id_of(documented.conversation_id, "conversation"), extra
    except InvalidInput:
        return None, {**extra, "conversation_id": documented.conversation_id}
