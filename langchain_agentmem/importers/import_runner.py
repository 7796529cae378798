"""The implementation of `AgentMemory.import_from`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_agentmem.base.argument_checks import check_value, parse_texts
from langchain_agentmem.base.hooks import Watch, check_callable, report_progress
from langchain_agentmem.base.namespaces import Namespace, Scopes, parse_scopes, path_of
from langchain_agentmem.base.safe_repr import mask_passwords
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind, batches
from langchain_agentmem.importers.langchain_sources import read_histories, read_saver, read_store
from langchain_agentmem.importers.letta_and_mem0 import read_letta, read_mem0
from langchain_agentmem.importers.saved_files import read_marsys, read_memgpt, read_opus, read_taskweaver

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

READERS: Mapping[SourceKind, batches.Reader] = {
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
OWNED_KINDS = ("langgraph-saver", "chat-history", "letta", "taskweaver", "marsys")
"""The kinds of sources whose threads, conversations or agents can be imported into the namespaces of their owners."""
CONTAINERS = {"checkpoints": "threads", "messages": "conversations"}
"""The objects that contain checkpoints and messages. A report also counts these threads and conversations."""
MAX_SKIPPED = 1_000
"""The maximum number of skipped entries that a report lists."""


@dataclass(slots=True)
class ImportSummary:
    """The result of an import.

    Attributes:
        kind: The kind of the source.
        source: The path or URL of the source, without passwords.
        dry_run: True if nothing was written. The counts then show what an import would write.
        added: The number of new objects by kind: "messages", "items", "memories", audit "entries" or "checkpoints".
        known: The number of objects that already existed, by kind.
        added_to: The number of "threads" and "conversations" with new objects.
        left_out: The first 1,000 skipped entries, with their reasons.
        left: The number of all skipped objects.
        left_by: The number of skipped objects by kind, and the number of their "threads" and "conversations".
        places: The imported threads and conversations, each with its namespace. Existing ones are included.
    """

    kind: str
    source: str
    dry_run: bool
    added: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    added_to: dict[str, int] = field(default_factory=dict)
    left_out: list[batches.SkippedEntry] = field(default_factory=list)
    left: int = 0
    left_by: dict[str, int] = field(default_factory=dict)
    places: list[batches.ThreadTarget] = field(default_factory=list)


def _add_count(counts: dict[str, int], name: str, number: int) -> None:
    if number:
        counts[name] = counts.get(name, 0) + number


def _record_skipped(report: ImportSummary, entry: batches.SkippedEntry) -> None:
    report.left += entry.count
    _add_count(report.left_by, entry.holds, entry.count)
    if entry.holds in CONTAINERS:
        _add_count(report.left_by, CONTAINERS[entry.holds], 1)
    if len(report.left_out) < MAX_SKIPPED:
        report.left_out.append(entry)


def _store_batch(report: ImportSummary, batch: batches.ImportBatch, memory: AgentMemory) -> None:
    try:
        added, known = batch.store(memory, dry_run=report.dry_run)
    except InvalidInput as error:
        _record_skipped(report, batches.SkippedEntry(batch.what, batches.skip_reason(error), batch.count, batch.holds))
        return
    _add_count(report.added, batch.holds, added)
    _add_count(report.known, batch.holds, known)
    if batch.place is not None:
        report.places.append(batch.place)
    if added and batch.holds in CONTAINERS:
        _add_count(report.added_to, CONTAINERS[batch.holds], 1)


def check_source(memory: AgentMemory, kind: SourceKind, source: Any, **options: Any) -> None:
    """Check the options and the source of an import.

    The check opens the source and reads its first entry. The command line uses it to reject an invalid source before it
    creates the database.

    Args:
        memory: Any memory. Nothing is written to it.
        kind: The kind of the source.
        source: The source.
        **options: The options of `make_target`.

    Raises:
        InvalidInput: An option is invalid. Or the source is missing, unreadable, or of another kind.
        MissingExtra: The package that reads the source is not installed.
    """
    with closing(READERS[kind](source, make_target(memory, kind, **options))) as entries:
        batches.read_or_raise(_source_name(source), partial(next, entries, None))


def _source_name(source: Any) -> str:
    return mask_passwords(os.fspath(source)) if isinstance(source, str | os.PathLike) else safe_repr(source)


def make_target(
    memory: AgentMemory, kind: SourceKind, *, namespace: Any, only: Any, owners: Any, allow: Any
) -> batches.ImportTarget:
    """Return the target of an import. Check the options of `AgentMemory.import_from`.

    Raises:
        InvalidInput: An option is invalid.
    """
    if not isinstance(kind, str) or kind not in READERS:
        raise InvalidInput(f"Unknown kind {safe_repr(kind)} of sources. Valid kinds: {', '.join(READERS)}.")
    scopes, only_ids = memory.database.scopes, frozenset(parse_texts(only, "only"))
    resolved = _target_namespace(kind, namespace, scopes)
    if only_ids and kind == "memgpt":
        raise InvalidInput("Sources of the kind memgpt do not support only=…, since their branches share memory.")
    owner_map: Mapping[str, str] = check_value(Mapping[str, str] | None, owners, "owners") or {}
    if owner_map and len(Scopes(template=resolved).keys) != 1:
        raise InvalidInput('owners needs a namespace with exactly one key, such as ("users", "{user_id}").')
    now, limits, classes = memory.database.now(), memory.database.limits, tuple(parse_texts(allow, "allow"))
    if classes and kind != "langgraph-saver":
        raise InvalidInput(f"allow applies only to the kind langgraph-saver, not to {kind}. Omit it.")
    return batches.ImportTarget(kind, resolved, scopes, now, classes, only_ids, set(), owner_map, limits)


def run_import(
    memory: AgentMemory, kind: SourceKind, source: Any, *, dry_run: bool, progress: Watch | None, **options: Any
) -> ImportSummary:
    """Import a source batch by batch. The arguments are those of `AgentMemory.import_from`."""
    target, name = make_target(memory, kind, **options), _source_name(source)
    listener = check_callable(progress, "progress")
    inputs = {"kind": kind, "source": name, "namespace": list(target.namespace), "dry_run": dry_run}
    with memory.database.step("care.import_from", lambda: inputs) as step:
        report = ImportSummary(kind, name, dry_run)
        with closing(READERS[target.kind](source, target)) as entries:
            while (entry := batches.read_or_raise(name, partial(next, entries, None))) is not None:
                if isinstance(entry, batches.SkippedEntry):
                    _record_skipped(report, entry)
                else:
                    _store_batch(report, entry, memory)
                done = sum((*report.added.values(), *report.known.values(), report.left))
                report_progress(listener, entry.what, done, None)
        for each in sorted(target.only - target.found_ids):
            _record_skipped(report, batches.SkippedEntry(safe_repr(each), "the source has no object with this id."))
        step.finish(lambda: {"added": report.added, "known": report.known, "left": report.left})
    return report


def _target_namespace(kind: SourceKind, namespace: Any, scopes: Scopes) -> Namespace:
    """Return the namespace of an import. Its keys are not filled yet.

    Without a namespace of the caller or the run, `OWNED_KINDS` use the memory's template, as ("users", "{user_id}").

    Raises:
        InvalidInput: The namespace is invalid, or has keys that this kind does not support. Or the namespace is a
            parent of the users' namespaces, where this memory never looks for threads.
    """
    if namespace is None or not path_of(namespace):
        resolved = scopes.resolve(namespace, optional=True)
        per_owner = namespace is None and not resolved and kind in OWNED_KINDS and scopes.keys
        return (scopes.template or ()) if per_owner else resolved
    if keys := Scopes(template=tuple(namespace)).keys:
        if kind not in OWNED_KINDS:
            raise InvalidInput(
                f"A namespace with the key {', '.join(keys)} is supported only by the kinds {', '.join(OWNED_KINDS)}. "
                f"For {kind}, name the parent of all imported namespaces, such as users."
            )
        return parse_scopes(namespace).template or ()
    resolved = scopes.resolve(namespace)
    if kind in OWNED_KINDS and scopes.keys and resolved == (scopes.template or ())[: len(resolved)]:
        raise InvalidInput(
            f"Threads in {safe_repr(resolved)} would never be found, because each thread of this memory has an owner. "
            f"To import each thread into the namespace of its owner, pass namespace={safe_repr(scopes.template)}. "
            "If the source does not name the owners, pass owners={thread: owner}."
        )
    return resolved
