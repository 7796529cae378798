"""`import_from`: the import of a source, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_agentmem.base.argument_checks import check_value, texts_given
from langchain_agentmem.base.events import Progress, Watch, listener_given
from langchain_agentmem.base.namespaces import Namespace, Scopes, path_of, scopes_given
from langchain_agentmem.base.safe_repr import without_passwords
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind, parcels
from langchain_agentmem.importers.langchain_sources import read_histories, read_saver, read_store
from langchain_agentmem.importers.letta_and_mem0 import read_letta, read_mem0
from langchain_agentmem.importers.saved_files import read_marsys, read_memgpt, read_opus, read_taskweaver

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

KINDS: Mapping[SourceKind, parcels.Reader] = {
    "langgraph-saver": read_saver,
    "langgraph-store": read_store,
    "langmem": read_store,
    "chat-history": read_histories,
    "mem0": read_mem0,
    "letta": read_letta,
    "memgpt": read_memgpt,
    "taskweaver": read_taskweaver,
    "marsys": read_marsys,
    "opus": read_opus,
}
"""The reader of each kind of source."""
OWNED = ("langgraph-saver", "chat-history", "letta", "taskweaver", "marsys")
"""Kinds whose threads and conversations may each go to a namespace of their own."""
WHOLES = {"checkpoints": "threads", "messages": "conversations"}
"""The containers of some kinds of objects, which are counted in reports."""
MOST_TOLD = 1_000
"""The maximum number of skipped entries in a report."""


@dataclass(slots=True)
class MovingReport:
    """The result of an import.

    Attributes:
        kind: The kind of the source.
        source: Its path or URL, without passwords.
        dry_run: True if nothing was written, and this is what an import would do.
        added: Number of new objects, by kind: "messages", "items", "memories", "entries", "checkpoints".
        known: Number of objects that existed already, by kind.
        added_to: Number of "threads" and "conversations" with new objects.
        left_out: The skipped entries with their reasons, at most 1,000.
        left: Number of all skipped objects.
        left_by: Number of skipped objects by kind, and of skipped "threads" and "conversations".
        places: The threads and conversations that are new or were here already, each with its namespace.
    """

    kind: str
    source: str
    dry_run: bool
    added: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    added_to: dict[str, int] = field(default_factory=dict)
    left_out: list[parcels.SkippedEntry] = field(default_factory=list)
    left: int = 0
    left_by: dict[str, int] = field(default_factory=dict)
    places: list[parcels.ThreadTarget] = field(default_factory=list)


def _count(counts: dict[str, int], name: str, number: int) -> None:
    if number:
        counts[name] = counts.get(name, 0) + number


def _leave(report: MovingReport, thing: parcels.SkippedEntry) -> None:
    report.left += thing.count
    _count(report.left_by, thing.holds, thing.count)
    if thing.holds in WHOLES:
        _count(report.left_by, WHOLES[thing.holds], 1)
    if len(report.left_out) < MOST_TOLD:
        report.left_out.append(thing)


def _bring(report: MovingReport, parcel: parcels.ImportBatch, memory: AgentMemory) -> None:
    try:
        added, known = parcel.store(memory, dry_run=report.dry_run)
    except InvalidInput as error:
        _leave(report, parcels.SkippedEntry(parcel.what, parcels.why(error), parcel.count, parcel.holds))
        return
    _count(report.added, parcel.holds, added)
    _count(report.known, parcel.holds, known)
    if parcel.place is not None:
        report.places.append(parcel.place)
    if added and parcel.holds in WHOLES:
        _count(report.added_to, WHOLES[parcel.holds], 1)


def check_source(memory: AgentMemory, kind: SourceKind, source: Any, **options: Any) -> None:
    """Open and close a source, so that a wrong one is rejected before a database is created.

    Args:
        memory: Any memory. Nothing is written to it.
        kind: The kind of the source.
        source: The source.
        **options: The options of `destination`.

    Raises:
        InvalidInput: An option is wrong, or the source is missing, unreadable, or of another kind.
        MissingExtra: The package that reads the source is not installed.
    """
    with closing(KINDS[kind](source, destination(memory, kind, **options))) as things:
        parcels.whole(_name_of(source), partial(next, things, None))


def _name_of(source: Any) -> str:
    return without_passwords(os.fspath(source)) if isinstance(source, str | os.PathLike) else safe_repr(source)


def destination(
    memory: AgentMemory,
    kind: SourceKind,
    *,
    namespace: Sequence[str] | None,
    only: Sequence[str],
    owners: Mapping[str, str] | None,
    allow: Sequence[str],
) -> parcels.ImportTarget:
    """Check the options of `AgentMemory.import_from`.

    Raises:
        InvalidInput: An option is wrong.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"There is no kind {safe_repr(kind)} of sources; there are {', '.join(KINDS)}.")
    scopes, chosen = memory.database.scopes, frozenset(texts_given(only, "only"))
    home = _home(kind, namespace, scopes)
    if chosen and kind == "memgpt":
        raise InvalidInput(
            "What is of the kind memgpt comes whole, without only: its branches show each other's memory."
        )
    given: Mapping[str, str] = check_value(Mapping[str, str] | None, owners, "owners") or {}
    if given and len(Scopes(template=home).keys) != 1:
        raise InvalidInput('owners fills the one key of a namespace: name one such as ("users", "{user_id}").')
    return parcels.ImportTarget(
        kind,
        home,
        scopes,
        memory.database.now(),
        tuple(texts_given(allow, "allow")),
        chosen,
        set(),
        given,
        memory.database.limits,
    )


def moving(
    memory: AgentMemory, kind: SourceKind, source: Any, *, dry_run: bool, progress: Watch | None, **options: Any
) -> MovingReport:
    """See `AgentMemory.import_from`."""
    to, tell, name = destination(memory, kind, **options), listener_given(progress, "progress"), _name_of(source)
    inputs = {"kind": kind, "source": name, "namespace": list(to.namespace), "dry_run": dry_run}
    with memory.database.step("care.import_from", lambda: inputs) as step:
        report = MovingReport(kind, name, dry_run)
        with closing(KINDS[to.kind](source, to)) as things:
            while (thing := parcels.whole(name, partial(next, things, None))) is not None:
                if isinstance(thing, parcels.SkippedEntry):
                    _leave(report, thing)
                else:
                    _bring(report, thing, memory)
                if tell is not None:
                    done = sum((*report.added.values(), *report.known.values(), report.left))
                    tell(Progress(thing.what, done, None))
        for each in sorted(to.only - to.met):
            _leave(report, parcels.SkippedEntry(safe_repr(each), "the source has nothing of this id."))
        step.finish(lambda: {"added": report.added, "known": report.known, "left": report.left})
    return report


def _home(kind: SourceKind, namespace: Any, scopes: Scopes) -> Namespace:
    """Return the namespace of an import, or its template if the namespace has keys.

    Raises:
        InvalidInput: The namespace is not valid, may not have keys, or is one in which no user's thread is found.
    """
    if namespace is None or not path_of(namespace):
        home = scopes.resolve(namespace, bare=True)
        each = namespace is None and not home and kind in OWNED and scopes.keys
        return (scopes.template or ()) if each else home
    if keys := Scopes(template=tuple(namespace)).keys:
        if kind not in OWNED:
            raise InvalidInput(
                f"A namespace with {', '.join(keys)} in braces is for threads and conversations, of the kinds "
                f"{', '.join(OWNED)}: of {kind} name the one below which everything goes, such as users."
            )
        return scopes_given(namespace).template or ()
    home = scopes.resolve(namespace)
    if kind in OWNED and scopes.keys and home == (scopes.template or ())[: len(home)]:
        raise InvalidInput(
            f"In {safe_repr(home)} no thread is looked for, since each has an owner in this memory: write namespace="
            f"{safe_repr(scopes.template)}, and each goes to its own. Where the source does not tell its owner, give "
            "owners={thread: owner}."
        )
    return home
