"""Export of a whole database to JSON lines, and import. Every feature of `parts.py` takes part in them.

Each feature writes records that hold others, such as a conversation and its entries, and reads its own.

    with AgentMemory("agent.db") as memory:
        memory.export("everything.jsonl")
    with AgentMemory("postgresql://localhost/agent") as other:
        other.import_("everything.jsonl")
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from langchain_agentmem.base.encrypted_file import decrypted_text, is_encrypted
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.files import is_database, path_of_file, whole_file
from langchain_agentmem.base.limits import MemoryLimits
from langchain_agentmem.base.namespaces import Namespace, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Import, Part, Record, all_parts

FORMAT = "langchain-agentmem/export"
_HEAD = 100
"""Bytes of a file that tell whether it is an export."""
VERSION = 1
END = "end"
"""The last record of an export, so that one that was cut off is noticed."""
_TOLD = 100
"""After so many records it is told how far it has come."""
_COUNTED = ("messages", "rounds", "edits", "threads", "checkpoints", "blobs", "items", "branches", "memories",
            "audit")  # fmt: skip
"""What is written, about a record of each, by the names of the statistics."""


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
    audit: int = 0


class _Counting:
    """Tells how many of so many records were written."""

    def __init__(self, progress: Watch | None, within: Namespace) -> None:
        self.progress, self._within, self._done, self._total = progress, within, 0, 0

    def expect(self, tx: Transaction) -> None:
        """Learn how many there may be."""
        if self.progress is not None:
            low, high = range_of(self._within)
            [row] = query.statistics_within(tx, low=low, high=high)
            self._total = sum(row[name] for name in _COUNTED)

    def one(self) -> None:
        """One more was written."""
        self._done += 1
        if self.progress is not None and self._done % _TOLD == 0:
            self.progress(Progress("writing", min(self._done, self._total), self._total))


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Check that no file is replaced by an export but an older one.

    Raises:
        InvalidInput: Another is there.
    """
    target = path_of_file(path)
    with suppress(OSError):  # what nobody may read is said by whoever writes there
        if target.is_file() and not is_database(target) and not is_encrypted(target) and target.stat().st_size:
            with target.open("rb") as file:
                if FORMAT.encode() not in file.read(_HEAD):
                    raise InvalidInput(
                        f"{safe_repr(str(target))} is no export, and would be replaced. Write elsewhere, or remove it."
                    )


def export(
    tx: Transaction,
    path: str | os.PathLike[str],
    within: Namespace = (),
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> TransferReport:
    """Write everything to a file, one JSON object a line, as of one moment.

    Args:
        tx: The transaction.
        path: Where to. A file that is there is replaced, when the new one is whole.
        within: Only this namespace and all below it. Default: all.
        progress: Is told how many of the records were written.
        key: What encrypts the file. Default: nothing does.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: Something is damaged.
    """
    written: Counter[str] = Counter()
    counting = _Counting(progress, within)
    counting.expect(tx)
    with whole_file(path, key) as file:
        _write_line(file, {"format": FORMAT, "version": VERSION})

        def write(record: Record) -> None:
            _write_line(file, record)
            counting.one()

        for part in all_parts().all:
            if part.dump is not None:
                written.update(part.dump(tx, write, *range_of(within)))
        _write_line(file, {"record": END})
    return TransferReport(**written)


def load(
    tx: Transaction,
    path: str | os.PathLike[str],
    into: Import,
    within: Namespace = (),
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> TransferReport:
    """Write what an export holds into the database, keeping what is there.

    Args:
        tx: The transaction.
        path: A file that `export` wrote.
        into: The import; afterwards it knows what was written.
        within: The namespace in which all of it must lie, or below it. Default: anywhere.
        progress: Is told how many bytes of the file were read.
        key: What the file is encrypted with, if it is. Default: the environment's.

    Returns:
        What was added.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind, or a branch of memory has other content here.
            Nothing was imported.
        MessageError: A conversation holds other content under one of the ids. Nothing was imported.
    """
    readers: dict[str, list[Part]] = {}  # the features that take records, by the names of those that hold others
    for part in all_parts().all:
        for name in part.records:
            readers.setdefault(name, []).append(part)
    holds = {name: {each for part in several for each in part.records[name]} for name, several in readers.items()}
    for head, held in _groups(path, holds, into.limits, progress, key):
        if within:
            _check_within((head, *held), within)
        for part in readers[head["record"]]:
            if part.load is not None:
                part.load(tx, into, head, held)
    for part in all_parts().all:
        if part.finish is not None:
            part.finish(tx, into)
    return TransferReport(**into.added)


def _check_within(records: Iterable[Mapping[str, Any]], within: Namespace) -> None:
    low, high = range_of(within)
    for record in records:
        found = record.get("found")
        for told in (record, found if isinstance(found, Mapping) else {}):
            if "namespace" in told and not low <= path_of(told["namespace"]) < high:
                raise InvalidInput(
                    f"The file holds {safe_repr(told['namespace'])}, which is not within {safe_repr(within)}."
                )


def _write_line(file: TextIO, record: Mapping[str, Any]) -> None:
    file.write(json.dumps(record) + "\n")


def _groups(
    path: str | os.PathLike[str],
    holds: Mapping[str, Collection[str]],
    limits: MemoryLimits,
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each record of an export that holds others, with those."""
    head: dict[str, Any] | None = None
    held: list[dict[str, Any]] = []
    for number, record in _lines(path, limits, progress, key):
        limits.check("batch", len(held), f"What stands together before line {number} of {safe_repr(os.fspath(path))}")
        if number == 1:
            if record.get("format") != FORMAT:
                raise InvalidInput(f"{safe_repr(os.fspath(path))} is not an export of langchain-agentmem.")
            if record.get("version") != VERSION:
                raise InvalidInput(
                    f"{safe_repr(os.fspath(path))} was written by a newer version of langchain-agentmem."
                )
        elif record.get("record") in holds:
            if head is not None:
                yield head, held
            head, held = record, []
        elif head is not None and record.get("record") in holds[head["record"]]:
            held.append(record)
        else:
            raise InvalidInput(f"Line {number} of {safe_repr(os.fspath(path))} is damaged.")
    if head is not None:
        yield head, held


def _lines(
    path: str | os.PathLike[str], limits: MemoryLimits, progress: Watch | None, key: EncryptionKey | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered records of an export, without its end, which must be there."""
    number, ended, read = 0, False, 0
    try:
        with decrypted_text(path_of_file(path), key) as file:
            size = Path(path).stat().st_size
            for number, line in enumerate(iter(partial(file.readline, limits.import_bytes + 1), ""), 1):
                limits.check("import_bytes", len(line), f"Line {number} of {safe_repr(os.fspath(path))}")
                read += len(line)  # what we write is ASCII
                if progress is not None and number % _TOLD == 0:
                    progress(Progress("reading bytes", min(read, size), size))
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InvalidInput(
                        f"Line {number} of {safe_repr(os.fspath(path))} is not JSON: {error}."
                    ) from error
                if not isinstance(record, dict) or not isinstance(record.get("record", ""), str) or ended:
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
