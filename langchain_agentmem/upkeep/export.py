"""Export of a whole database to JSON lines, and import. Every feature of `parts.py` takes part in them.

Each feature writes records that hold others, such as a conversation and its entries, and reads its own.

    with AgentMemory("agent.db") as memory:
        memory.export("everything.jsonl")
    with AgentMemory("postgresql://localhost/agent") as other:
        other.import_("everything.jsonl")
"""

from __future__ import annotations

import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO, TypeAlias

from langchain_agentmem.base.encrypted_file import LineSeal, decrypted_text, is_encrypted
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.files import is_database, path_of_file, whole_file
from langchain_agentmem.base.limits import MemoryLimits
from langchain_agentmem.base.namespaces import Namespace, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, In, Run, Work
from langchain_agentmem.storage import Engine, Steps, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Import, Part, Record, all_parts

FORMAT = "langchain-agentmem/export"
_HEAD = 100
"""Bytes of a file that tell whether it is an export."""
VERSION = 1
TOGETHER = 500
"""Records that one holds, of those that have no namespace."""
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
        corrections: How many corrections that people made were written.
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
    corrections: int = 0
    audit: int = 0


class _Counting:
    """Tells how many of so many records were written."""

    def __init__(self, progress: Watch | None, within: Namespace) -> None:
        self.progress, self._within, self._done, self._total = progress, within, 0, 0

    def expect(self) -> Steps[None]:
        """Learn how many there may be in one more database."""
        if self.progress is not None:
            low, high = range_of(self._within)
            [row] = yield query.statistics_within(low=low, high=high)
            self._total += sum(row[name] for name in _COUNTED)

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
    path: str | os.PathLike[str],
    within: Namespace = (),
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> Steps[TransferReport]:
    """Write everything to a file, one JSON object a line, as of one moment; but not what was measured of the database.

    Args:
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
    yield from counting.expect()
    with whole_file(path, key) as file:
        _write_line(file, {"format": FORMAT, "version": VERSION})

        def write(record: Record) -> None:
            _write_line(file, record)
            counting.one()

        for part in all_parts().all:
            if part.dump is not None:
                written.update((yield from part.dump(write, *range_of(within))))
        _write_line(file, {"record": END})
    return TransferReport(**written)


def exporting(
    databases: Iterable[Database],
    path: str | os.PathLike[str],
    within: Namespace = (),
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> Work[TransferReport]:
    """Write what several databases hold to one file, each as of a moment of its own; see `export`.

    Args:
        databases: Such as `Database.below` gives.
        path: Where to.
        within: Only this namespace and all below it. Default: all.
        progress: Is told how many of the records were written, of those of the databases so far.
        key: What encrypts the file. Default: nothing does.
    """
    written: Counter[str] = Counter()
    counting = _Counting(progress, within)
    with ExitStack() as stack:
        # An import takes all that is of one form together.
        heads = dict.fromkeys(name for part in all_parts().all for name in part.records)
        sealed = None if key is None else LineSeal()
        files = {name: _Spool(stack.enter_context(TemporaryFile("w+", encoding="utf-8")), sealed) for name in heads}
        begins: dict[str, list[int]] = {name: [0] for name in files}
        for each in databases:
            begun = {name: places[-1] for name, places in begins.items()}
            written.update(
                (yield In(each, Run("care.export", partial(_sorted, files, begun, within, counting), shown=False)))
            )
            for name, file in files.items():
                begins[name].append(file.tell())
        yield Do(partial(_joined, path, key, [(file, begins[name]) for name, file in files.items()]))
    return TransferReport(**written)


class _Spool:
    """Lines that wait in a file without a name until an export is put together.

    Args:
        file: The file.
        seal: What seals each line, where the export is encrypted. Default: nothing does.
    """

    def __init__(self, file: TextIO, seal: LineSeal | None) -> None:
        self._file, self._seal = file, seal
        self.seek, self.tell, self.truncate = file.seek, file.tell, file.truncate

    def write(self, line: str) -> None:
        """Write a line at the end."""
        self._file.write(line if self._seal is None else self._seal.close(line))

    def readline(self) -> str:
        """The next line; empty behind the last."""
        line = self._file.readline()
        return line if self._seal is None or not line else self._seal.open(line)


def _sorted(
    files: Mapping[str, _Spool], begun: Mapping[str, int], within: Namespace, counting: _Counting
) -> Steps[Counter[str]]:
    yield from counting.expect()
    for name, each in files.items():
        each.seek(begun[name])
        each.truncate()
    written: Counter[str] = Counter()
    file: _Spool | None = None

    def write(record: Mapping[str, Any]) -> None:
        nonlocal file
        file = files.get(record["record"], file)
        assert file is not None  # noqa: S101 - records come behind the one that holds them
        _write_line(file, record)
        counting.one()

    for part in all_parts().all:
        if part.dump is not None:
            written.update((yield from part.dump(write, *range_of(within))))
    return written


def _joined(
    path: str | os.PathLike[str], key: EncryptionKey | None, files: Iterable[tuple[_Spool, Sequence[int]]]
) -> None:
    with whole_file(path, key) as whole:
        _write_line(whole, {"format": FORMAT, "version": VERSION})
        for file, begins in files:
            file.seek(0)
            first = file.readline()
            if not first or "namespace" in json.loads(first):
                file.seek(0)
                whole.writelines(iter(file.readline, ""))
                continue
            # What no namespace holds comes in the order of its numbers, which schemas give by turns.
            parts = [_numbered(file, first, begin, end) for begin, end in pairwise(begins)]
            for count, (_, line) in enumerate(heapq.merge(*parts)):
                if count % TOGETHER == 0:
                    whole.write(first)
                whole.write(line)
        _write_line(whole, {"record": END})


def _numbered(file: _Spool, head: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """The records in a part of a file, with their numbers, without the head that holds them."""
    while begin < end:
        file.seek(begin)
        line, begin = file.readline(), file.tell()
        if line != head:
            yield json.loads(line)["number"], line


Whose: TypeAlias = tuple[str, str | None]
"""A path, and in the root the id of the thread or conversation."""


class Sorting:
    """Which records of an export belong to whom.

    Args:
        path: A file that `export` wrote.
        key: What it is encrypted with, if it is. Default: the environment's.

    Attributes:
        together: Threads and those whose content they share.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind.
    """

    def __init__(self, path: str | os.PathLike[str], limits: MemoryLimits, key: EncryptionKey | None = None) -> None:
        self._branches: dict[Any, Whose] = {}
        self._groups: dict[Any, Whose] = {}
        self._homes: dict[str, Engine] = {}  # of tenants
        self.together: list[tuple[str, str, str]] = []
        places: list[tuple[Whose, Any]] = []
        for head, records in _groups(path, _holds(_readers()), limits, key=key):
            for record in records:
                kind = record["record"]
                if kind == "branch":
                    self._branches[record.get("number")] = _whose(record)
                elif kind == "group":
                    self._groups[record.get("id")] = _whose(head)
                elif kind == "place":
                    places.append((_whose(head), record.get("branch")))
        for (at, name), branch in places:
            _, other = self._branches.get(branch, (at, name))
            if name is not None and other is not None and name != other:
                self.together.append((at, name, other))

    def of(self, database: Database, head: Record, records: Sequence[Record]) -> Sequence[Record] | None:
        """Those of some records that are of tenants of a database; None where what holds them is none's there.

        Args:
            database: The database.
            head: What holds them.
            records: They.
        """
        if "namespace" in head:
            return records if self._is_in(database, _whose(head)) else None
        return [each for each in records if self._is_in(database, self._owner(each))]

    def _is_in(self, database: Database, whose: Whose) -> bool:
        tenant = database.scopes.tenant_of(*whose)
        if tenant not in self._homes:
            self._homes[tenant] = database.home_of(*whose)
        return self._homes[tenant] is database.engine

    def _owner(self, record: Record) -> Whose:
        if "namespace" in record:
            return _whose(record)
        branch = record.get("branch")
        known = self._groups if branch is None else self._branches
        return known.get(record.get("group") if branch is None else branch, ("", None))


def _whose(record: Record) -> Whose:
    path, name = path_of(record.get("namespace")), record.get("id", record.get("thread"))
    return path, name if isinstance(name, str) else None


def load(
    path: str | os.PathLike[str],
    into: Import,
    within: Namespace = (),
    choose: Callable[[Record, Sequence[Record]], Sequence[Record] | None] = lambda _, records: records,
    progress: Watch | None = None,
    key: EncryptionKey | None = None,
) -> Steps[TransferReport]:
    """Write what an export holds into the database, keeping what is there.

    Args:
        path: A file that `export` wrote.
        into: The import; afterwards it knows what was written.
        within: The namespace in which all of it must lie, or below it. Default: anywhere.
        choose: Gives those records that are taken, of what holds them and all; None for none, not even what holds them.
            Default: all.
        progress: Is told how many bytes of the file were read.
        key: What the file is encrypted with, if it is. Default: the environment's.

    Returns:
        What was added.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind, or a branch of memory has other content here.
            Nothing was imported.
        MessageError: A conversation holds other content under one of the ids. Nothing was imported.
    """
    readers = _readers()
    for head, held in _groups(path, _holds(readers), into.limits, progress, key):
        if within:
            _check_within((head, *held), within)
        records = choose(head, held)
        if records is None:
            continue
        for part in readers[head["record"]]:
            if part.load is not None:
                yield from part.load(into, head, records)
    for part in all_parts().all:
        if part.finish is not None:
            yield from part.finish(into)
    return TransferReport(**into.added)


def _readers() -> dict[str, list[Part]]:
    """The features that take the records of an export, by the names of those that hold others."""
    readers: dict[str, list[Part]] = {}
    for part in all_parts().all:
        for name in part.records:
            readers.setdefault(name, []).append(part)
    return readers


def _holds(readers: Mapping[str, Sequence[Part]]) -> dict[str, Collection[str]]:
    return {name: {each for part in several for each in part.records[name]} for name, several in readers.items()}


def _check_within(records: Iterable[Mapping[str, Any]], within: Namespace) -> None:
    low, high = range_of(within)
    for record in records:
        found = record.get("found")
        for told in (record, found if isinstance(found, Mapping) else {}):
            if "namespace" in told and not low <= path_of(told["namespace"]) < high:
                raise InvalidInput(
                    f"The file holds {safe_repr(told['namespace'])}, which is not within {safe_repr(within)}."
                )


def _write_line(file: TextIO | _Spool, record: Mapping[str, Any]) -> None:
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
