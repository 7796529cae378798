"""Looking after a database: statistics, verification, erasure, export and import. Used through `AgentMemory`.

Whatever a later part of the memory stores, these functions cover it too.

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        assert memory.verify().ok
        memory.backup("copy.db")
        memory.export("everything.jsonl")
        memory.erase(namespace=("alice",))  # and nothing of it is left in the file
        print(memory.stats())

The command line does it too: `agentmem --help` (extra `[cli]`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, TextIO

from langchain_agentmem.audit import audit_part
from langchain_agentmem.audit import audit_store as audit
from langchain_agentmem.base.files import path_of_file, whole_file
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import compaction_records as compactions
from langchain_agentmem.conversations import conversation_transfer, message_log
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, MemoryClosed
from langchain_agentmem.experiences import experience_rows as experiences
from langchain_agentmem.experiences import experience_transfer
from langchain_agentmem.facts import fact_check as facts_check
from langchain_agentmem.rewinding import memory_check, message_sources
from langchain_agentmem.rewinding import memory_erasure as remembered
from langchain_agentmem.rewinding import memory_export as memory_transfer
from langchain_agentmem.rewinding import thread_memory_lifecycle as memories
from langchain_agentmem.rewinding.memory_import import Arrival
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Engine, Steps, content, job_queue, measuring, query
from langchain_agentmem.stores import byte_rows, item_transfer
from langchain_agentmem.stores import item_rows as items
from langchain_agentmem.stores.item_rows import Place
from langchain_agentmem.threads import thread_check, thread_transfer
from langchain_agentmem.threads.thread_lines import ThreadAt

FORMAT = "langchain-agentmem/export"
VERSION = 1
PAGE = 100

_HOLDS = {
    "conversation": {"entry", "compaction"},
    "thread": {"part", "value", "write", "checkpoint"},
    "blobs": {"blob"},
    "items": {"item"},
    **audit_part.HOLDS,
    **experience_transfer.HOLDS,
    **memory_transfer.HOLDS,
}
"""What the records of an export hold."""
END = "end"
"""The last record of an export, so that one that was cut off is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a check of the whole database found.

    Attributes:
        problems: What is wrong, in sentences; empty when all is well.
        checked: How much was looked at, by name.
    """

    problems: tuple[str, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """What an erasure removed.

    Attributes:
        conversations: How many conversations.
        entries: How many messages and rounds, versions included.
        threads: How many LangGraph threads.
        blobs: How many values of byte stores.
        items: How many long-term items.
        branches: How many named branches of memory.
        memories: How many versions of what was remembered, on branches and in threads.
        experiences: How many rows of what became of experiences: tallies, and feedback.
        audit: How many entries of the audit trail.
    """

    conversations: int = 0
    entries: int = 0
    threads: int = 0
    blobs: int = 0
    items: int = 0
    branches: int = 0
    memories: int = 0
    experiences: int = 0
    audit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """What an export wrote or an import added.

    Attributes:
        conversations: How many conversations were in the file.
        entries: How many messages and rounds were written, versions included.
        threads: How many LangGraph threads were in the file.
        checkpoints: How many of their checkpoints were written.
        blobs: How many values of byte stores were written.
        items: How many long-term items were written.
        branches: How many named branches of memory were written.
        memories: How many versions of what is remembered were written, on branches and in threads.
        experiences: How many rows of what became of experiences were written: tallies, and feedback.
        audit: How many entries of the audit trail were written.
    """

    conversations: int = 0
    entries: int = 0
    threads: int = 0
    checkpoints: int = 0
    blobs: int = 0
    items: int = 0
    branches: int = 0
    memories: int = 0
    experiences: int = 0
    audit: int = 0


def statistics() -> Steps[dict[str, int]]:
    """How much of everything there is."""
    [row] = yield query.statistics()
    return {name: int(row[name]) for name in row.keys()}  # noqa: SIM118 - a database row, not a dict


def verify(engine: Engine, checking: Callable[[str], object] | None = None) -> VerifyReport:
    """Check the pages of a database, and what it cannot check itself: digests, heads, versions, the index, and values.

    Each kind is checked by itself, as of one moment. What is so damaged that a check fails is a problem like others.

    Args:
        engine: The database.
        checking: Is told what is looked at next, "pages" and then each of `CHECKED`.

    Raises:
        MemoryClosed: It was closed.
    """
    problems: list[str] = []
    checked: dict[str, int] = {}

    def contents() -> list[str]:
        found, checked["contents"] = engine.read(_contents)
        return found

    def totals() -> list[str]:
        counted = engine.read(statistics)
        checked.update((name, counted[name]) for name in _COUNTED)
        return []

    looks: dict[str, Callable[[], list[str]]] = {"pages": engine.problems, CHECKED[0]: contents}
    looks |= {name: partial(engine.read, look) for name, look in _LOOKS.items()}
    for name, look in looks.items():
        if checking is not None:
            checking(name)
        problems += _found(name, look)
    problems += _found("totals", totals)
    return VerifyReport(problems=tuple(problems), checked=checked)


def _found(name: str, look: Callable[[], list[str]]) -> list[str]:
    """What a check finds, or that it cannot go on: there is no end of what damage can lead to."""
    try:
        return look()
    except MemoryClosed:
        raise
    except AgentMemoryError as error:
        return [f"the check of the {name} cannot go on: {error}"]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return [f"the check of the {name} cannot go on: {safe_repr(error)}"]


def _contents() -> Steps[tuple[list[str], int]]:
    """What is wrong with what conversations hold, and how many bodies there are."""
    problems: list[str] = []
    after, bodies = b"", 0
    while page := (yield query.contents_after(after=after, limit=PAGE)):
        problems += [
            f"the stored content {bytes(row['hash']).hex()} is not what was stored"
            for row in page
            if content.digest(bytes(row["body"])) != bytes(row["hash"])
        ]
        bodies += len(page)
        after = bytes(page[-1]["hash"])
    orphans = yield query.orphaned_contents()
    problems += [f"nothing refers to the stored content {bytes(row['hash']).hex()}" for row in orphans]
    heads = yield query.wrong_heads()
    problems += [f"the head of the conversation {safe_repr(row['name'])} is behind its newest entry" for row in heads]
    counts = yield query.wrong_counts()
    problems += [
        f"the conversation {safe_repr(row['name'])} counts {row['messages']} messages, not {row['found']}"
        for row in counts
    ]
    versions = yield query.wrong_versions()
    problems += [f"entry {row['id']} is a version of something it does not belong to" for row in versions]
    return problems, bodies


_LOOKS: Mapping[str, Callable[[], Steps[list[str]]]] = {
    "index": search_index.problems,
    "threads": partial(thread_check.problems, *range_of(())),
    "blobs": partial(byte_rows.problems, *range_of(())),
    "items": partial(items.problems, *range_of(())),
    "jobs": job_queue.problems,
    "compactions": compactions.problems,
    "memories": memory_check.problems,
    "facts": facts_check.problems,
    "experiences": partial(experience_transfer.problems, *range_of(())),
    "audit": audit_part.problems,
}
CHECKED = ("contents", *_LOOKS)
"""What `verify` looks at, in its order."""
_COUNTED = ("messages", "conversations", "threads", "checkpoints", "blobs", "items", "jobs", "compactions", "branches",
            "memories", "experiences", "feedback", "audit")  # fmt: skip


def is_everything(
    *, namespace: Sequence[str] | None = None, thread_id: str | None = None, conversation_id: str | None = None
) -> bool:
    """Whether `erase` with these arguments deletes all there is."""
    return namespace is not None and not namespace and thread_id is None and conversation_id is None


def erase(
    *, namespace: Sequence[str] | None = None, thread_id: str | None = None, conversation_id: str | None = None
) -> Steps[tuple[EraseReport, list[message_log.Address]]]:
    """Delete conversations and threads with everything that belongs to them; with everything, what was measured too.

    Args:
        namespace: This namespace and all below it; with an id, only there.
        thread_id: This thread, and what was said in it, in every namespace unless one is given.
        conversation_id: This conversation, in the root namespace unless one is given.

    Returns:
        What was removed, in numbers and by name.

    Raises:
        InvalidInput: Nothing was named, or an id and a thread both.
    """
    if namespace is None and thread_id is None and conversation_id is None:
        raise InvalidInput("Say what to erase: namespace=, thread_id= or conversation_id=.")
    if thread_id is not None and conversation_id is not None:
        raise InvalidInput("Erase a thread or a conversation, one at a time.")
    name = None
    low, high = range_of(() if namespace is None else namespace)
    if conversation_id is not None:
        name = id_of(conversation_id, "conversation")
        low = path_of(() if namespace is None else namespace)
        high = low + "\x01"
    elif thread_id is not None:
        name = id_of(thread_id, "thread")
    trail = yield from audit.erase(low, high, name)  # first, since who adds to it holds its end before anything else
    branches = yield query.list_branches(low=low, high=high, kind=message_log.CONVERSATION, name=name)
    erased = [message_log.Address(branch["path"], branch["name"]) for branch in branches]
    entries = 0
    for at in erased:
        entries += yield from message_log.clear(at, keep_description=False)
    before = yield from remembered.total()
    if name is not None:  # what was learned from it, wherever that lies
        yield from message_sources.forget(low, high, name)
    deleted = [] if conversation_id is not None else (yield from memories.delete(low, high, name))
    values = 0 if name is not None else (yield from byte_rows.erase(low, high))
    kept = 0 if name is not None else (yield from items.erase(low, high))
    named = 0 if name is not None else (yield from remembered.erase(low, high))
    known = yield from experiences.erase(low, high, name)
    if name is None:
        yield from job_queue.erase(low, high)
    if is_everything(namespace=namespace, thread_id=thread_id, conversation_id=conversation_id):
        yield from measuring.forget()
    report = EraseReport(
        conversations=len(erased),
        entries=entries,
        threads=len(deleted),
        blobs=values,
        items=kept,
        branches=named,
        memories=(yield from remembered.fewer_than(before)),
        experiences=known,
        audit=trail,
    )
    return report, erased


def export(path: str | os.PathLike[str]) -> Steps[TransferReport]:
    """Write everything to a file, one JSON object a line, as of one moment; but not what was measured of the database.

    Args:
        path: Where to. A file that is there is replaced, when the new one is whole.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: Something is damaged.
    """
    low, high = range_of(())
    branches = yield query.list_branches(low=low, high=high, kind=message_log.CONVERSATION, name=None)
    written = 0
    with whole_file(path) as file:
        _write_line(file, {"format": FORMAT, "version": VERSION})
        for branch in branches:
            at = message_log.Address(branch["path"], branch["name"])
            entries = yield from conversation_transfer.dump(at)
            _write_line(file, {"record": "conversation", "namespace": namespace_of(at.path), "id": at.name})
            for entry in entries:
                _write_line(file, {"record": "entry", **entry})
            for record in (yield from compactions.dump(branch["id"])):
                _write_line(file, {"record": "compaction", **record})
            written += len(entries)
        every = yield query.threads_within(low=low, high=high, name=None)
        checkpoints = 0
        for row in every:
            for record in (yield from thread_transfer.dump(ThreadAt(row["path"], row["name"]))):
                _write_line(file, record)
                checkpoints += record["record"] == "checkpoint"
        values = 0
        for at_path, held in (yield from byte_rows.counts(low, high)):
            values += held
            start: bytes | None = b""
            while start is not None:
                records, start = yield from byte_rows.dump(at_path, start)
                _write_line(file, {"record": "blobs", "namespace": namespace_of(at_path)})
                for record in records:
                    _write_line(file, record)
        kept = yield from _export_items(file, low, high)
        known = yield from experience_transfer.dump(low, high, partial(_write_line, file))
        moved = yield from memory_transfer.dump(low, high, partial(_write_line, file))
        trail = yield from audit_part.dump(low, high, partial(_write_line, file))
        _write_line(file, {"record": END})
    return TransferReport(
        conversations=len(branches),
        entries=written,
        threads=len(every),
        checkpoints=checkpoints,
        blobs=values,
        items=kept,
        branches=moved.branches,
        memories=moved.memories,
        experiences=known,
        audit=trail,
    )


def load(
    path: str | os.PathLike[str], *, now: int, tail: int
) -> Steps[tuple[TransferReport, list[tuple[message_log.Address, list[str]]]]]:
    """Write what an export holds into the database, keeping what is there.

    Args:
        path: A file that `export` wrote.
        now: When.
        tail: How many entries may wait for the index.

    Returns:
        What was added, in numbers, and the keys that were written by conversation.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind, or a branch of memory has other content here.
            Nothing was imported.
        MessageError: A conversation holds other content under one of the ids. Nothing was imported.
    """
    written: list[tuple[message_log.Address, list[str]]] = []
    every = checkpoints = values = kept = known = trail = 0
    arrival = Arrival(tail=tail)
    coming = audit_part.Arriving()
    for head, records in _groups(path):
        if head["record"] == "conversation":
            at = message_log.Address(path_of(head.get("namespace")), id_of(head.get("id"), "conversation"))
            said = [record for record in records if record["record"] == "entry"]
            keys = yield from conversation_transfer.restore(at, said, now=now, tail=tail)
            yield from compactions.restore(at, [record for record in records if record["record"] == "compaction"])
            written.append((at, keys))
        elif head["record"] == "blobs":
            values += yield from byte_rows.restore(path_of(head.get("namespace")), records)
        elif head["record"] == "items":
            kept += yield from item_transfer.restore(path_of(head.get("namespace")), records, now=now, tail=tail)
        elif head["record"] in audit_part.HOLDS:
            trail += yield from coming.take(path_of(head.get("namespace")), records)
        elif head["record"] in experience_transfer.HOLDS:
            known += yield from experience_transfer.restore(path_of(head.get("namespace")), records)
        elif head["record"] in memory_transfer.HOLDS:
            yield from arrival.take(head, records)
            if head["record"] == memory_transfer.MEMORIES:
                facts_check.refuse(records)
        else:
            thread = ThreadAt(path_of(head.get("namespace")), id_of(head.get("id"), "thread"))
            checkpoints += yield from thread_transfer.restore(thread, bool(head.get("delta")), records, now=now)
            every += 1
    moved = yield from arrival.finish()
    yield from coming.finish()
    report = TransferReport(
        conversations=len(written),
        entries=sum(len(keys) for _, keys in written),
        threads=every,
        checkpoints=checkpoints,
        blobs=values,
        items=kept,
        branches=moved.branches,
        memories=moved.memories,
        experiences=known,
        audit=trail,
    )
    return report, written


def _export_items(file: TextIO, low: str, high: str) -> Steps[int]:
    """Write every item, each page under the names of its namespaces, and say how many there were."""
    written = 0
    after: Place | None = Place(low, "")
    while after is not None:
        records, after = yield from item_transfer.dump(after, high)
        for namespace, group in groupby(records, lambda record: record["namespace"]):
            _write_line(file, {"record": "items", "namespace": namespace})
            for record in group:
                _write_line(file, record)
        written += len(records)
    return written


def _write_line(file: TextIO, record: Mapping[str, Any]) -> None:
    file.write(json.dumps(record) + "\n")


def _groups(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each conversation and thread of an export: its own record, and those of what it holds."""
    head: dict[str, Any] | None = None
    held: list[dict[str, Any]] = []
    for number, record in _lines(path):
        if number == 1:
            if record.get("format") != FORMAT:
                raise InvalidInput(f"{safe_repr(os.fspath(path))} is not an export of langchain-agentmem.")
            if record.get("version") != VERSION:
                raise InvalidInput(
                    f"{safe_repr(os.fspath(path))} was written by a newer version of langchain-agentmem."
                )
        elif record.get("record") in _HOLDS:
            if head is not None:
                yield head, held
            head, held = record, []
        elif head is not None and record.get("record") in _HOLDS[head["record"]]:
            held.append(record)
        else:
            raise InvalidInput(f"Line {number} of {safe_repr(os.fspath(path))} is damaged.")
    if head is not None:
        yield head, held


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered records of an export, without its end, which must be there."""
    number, ended = 0, False
    try:
        with path_of_file(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InvalidInput(
                        f"Line {number} of {safe_repr(os.fspath(path))} is not JSON: {error}."
                    ) from error
                if not isinstance(record, dict) or ended:
                    raise InvalidInput(f"Line {number} of {safe_repr(os.fspath(path))} is damaged.")
                ended = record.get("record") == END
                if not ended:
                    yield number, record
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} cannot be read: {error}.") from error
    if number == 0:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} is empty: not an export of langchain-agentmem.")
    if not ended:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} was cut off: its end is missing. Export it again.")
