"""Threads verified, exported and imported: whether every value can still be made of its parts, and threads as records.

Parts, recipes, heads and metadata travel as the bytes that they are stored as, so that what is encrypted stays
encrypted and nobody needs the serializer.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import CheckpointUnreadable, InvalidInput
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Import, Part, Record, WriteRecord
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.checkpoint_head import read, written
from langchain_agentmem.threads.thread_lines import ThreadAt, add, find, line_of, make_thread
from langchain_agentmem.threads.value_recipe import Damaged, Range, covered, moved, opened, pack, ranges_of, unpack
from langchain_agentmem.threads.value_store import LOOSE
from langchain_agentmem.threads.value_store import StoredPart as ValuePart

PAGE = 200


def problems(tx: Transaction, low: str, high: str) -> list[str]:
    """What is wrong with the threads of some namespaces.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.

    Returns:
        Sentences; empty when all is well.
    """
    found: list[str] = []
    shelves: dict[int, list[Range]] = {}
    threads = query.threads_within(tx, low=low, high=high, name=None)
    for thread in threads:
        for line in query.lines_of(tx, thread=thread["id"]):
            needed = _line(tx, line["id"], thread["name"], found)
            shelves.setdefault(thread["shelf_id"], []).extend(needed)
    for shelf, needed in shelves.items():
        there: list[Range] = []
        after = -1
        while page := query.parts_after(tx, shelf=shelf, after=after, limit=PAGE):
            for row in page:
                there.append((row["number"], row["number"] + 1))
                if row["body"] is None or zlib.crc32(bytes(row["body"])) != row["checksum"]:
                    found.append(f"part {row['number']} of shelf {shelf} is not what was stored")
            there = covered(there)
            after = page[-1]["number"]
        if covered([*there, *needed]) != there:
            found.append(f"a value needs parts that are missing on shelf {shelf}")
    gaps = query.shelf_gaps(tx, loose=LOOSE)
    return found + [f"shelf {row['id']} has more parts than it counted" for row in gaps]


def _line(tx: Transaction, line: int, thread: str, found: list[str]) -> list[Range]:
    for row in query.line_checkpoints(tx, line=line):
        for name, beside in (("head", row["versions"]), ("metadata", "")):
            try:
                opened(row[name], beside)
            except Damaged as error:
                found.append(
                    f"the {name} of the checkpoint {safe_repr(row['name'])} of the thread {safe_repr(thread)}: {error}"
                )
    values = query.line_values(tx, line=line)
    writes = query.line_writes(tx, line=line)
    return [*_needed(values, thread, found), *_needed(writes, thread, found)]


def _needed(rows: Iterable[Row], thread: str, found: list[str]) -> list[Range]:
    needed: list[Range] = []
    for row in rows:
        try:
            needed += ranges_of(unpack(row["recipe"]))
        except (Damaged, TypeError, ValueError, IndexError) as error:
            found.append(
                f"a value of the channel {safe_repr(row['channel'])} of the thread {safe_repr(thread)}: {error}"
            )
    return needed


_BYTES = ("head", "metadata", "recipe")


def dump(tx: Transaction, at: ThreadAt) -> list[dict[str, Any]]:
    """A thread with everything in it, as records that JSON can hold."""
    thread = find(tx, at, exact=True)
    if thread is None:
        return []
    records: list[dict[str, Any]] = []
    recipes = []
    for line in query.lines_of(tx, thread=thread.id):
        checkpoints = query.line_checkpoints(tx, line=line["id"])
        values = query.line_values(tx, line=line["id"])
        writes = query.line_writes(tx, line=line["id"])
        recipes += [unpack(row["recipe"]) for row in (*values, *writes)]
        for kind, rows in (("value", values), ("write", writes), ("checkpoint", checkpoints)):
            records += [{"record": kind, "ns": line["ns"], **_told(row)} for row in rows]
    parts = shelves.fetch(tx, thread.place.shelf, recipes, shelves.nothing_known)
    needed = sum(high - low for low, high in covered(each for recipe in recipes for each in ranges_of(recipe)))
    if len(parts) < needed or any(zlib.crc32(part.body) != part.checksum for part in parts.values()):
        raise CheckpointUnreadable(
            f"The thread {safe_repr(at.name)} is damaged and cannot be exported; verify() tells more."
        )
    return [
        {"record": "thread", "namespace": namespace_of(at.path), "id": at.name, "delta": thread.delta},
        *(
            {
                "record": "part",
                "number": number,
                "form": part.form,
                "name": part.name,
                "body": _text(part.body),
                "checksum": part.checksum,
            }
            for number, part in sorted(parts.items())
        ),
        *records,
    ]


def restore(tx: Transaction, at: ThreadAt, delta: bool, records: Sequence[Record], *, now: int) -> int:  # noqa: FBT001
    """Write records into a thread, keeping what is there.

    Args:
        tx: The transaction.
        at: The thread; made if it is not there.
        delta: Whether its checkpoints need their ancestors.
        records: What `dump` gave, without the first.
        now: When.

    Returns:
        How many checkpoints were added.

    Raises:
        InvalidInput: A record is damaged.
    """
    try:
        parts = {record["number"]: _part(record) for record in records if record["record"] == "part"}
        rows = [_row(record) for record in records if record["record"] != "part"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"A record of the thread {safe_repr(at.name)} is damaged: {safe_repr(error)}.") from error
    thread = find(tx, at, exact=True)
    if thread is None:
        thread = make_thread(tx, at.path, at.name, now, delta=delta)
    elif delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    numbers = shelves.adopt(tx, thread.place, parts)
    added = 0
    for ns in dict.fromkeys(row["ns"] for row in rows):
        line = line_of(tx, thread, ns)
        added += add(tx, line, [_placed(row, line, numbers, at) for row in rows if row["ns"] == ns])
    return added


def _told(row: Any) -> dict[str, Any]:
    told = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a database row, not a dict
    for name in _BYTES:
        if name in told:
            told[name] = _text(told[name])
    if "versions" in told:
        told["versions"] = read(told["versions"])
    return told


def _part(record: Record) -> ValuePart:
    number, form, name = record["number"], record["form"], record["name"]
    if not isinstance(number, int) or not isinstance(form, str) or not isinstance(name, str | None):
        raise InvalidInput(f"The part {safe_repr(number)} is damaged.")
    body = b64decode(record["body"], validate=True)
    if zlib.crc32(body) != record["checksum"]:
        raise InvalidInput(f"The part {number} is damaged.")
    return ValuePart(form=form, name=name, body=body, loose=number >= shelves.LOOSE)


_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "value": {"ns": str, "channel": str, "version": str, "recipe": bytes},
    "write": {
        "ns": str, "checkpoint": str, "task": str, "place": int, "path": str, "channel": str,
        "run_id": (str, type(None)), "recipe": bytes,
    },
    "checkpoint": {
        "ns": str, "name": str, "parent": (str, type(None)), "run_id": (str, type(None)), "versions": str,
        "head": bytes, "metadata": bytes, "created_at": int,
    },
}  # fmt: skip


def _row(record: Record) -> dict[str, Any]:
    fields = _FIELDS[record["record"]]
    if record["record"] == "write":
        record = {"run_id": None, **record}  # older exports do not tell whose a write was
    row = {name: record[name] for name in fields}
    if "versions" in row:
        row["versions"] = written(row["versions"])
    for name in _BYTES:
        if name in row:
            row[name] = b64decode(row[name], validate=True)
            opened(row[name], row["versions"] if name == "head" else "")
    for name, kind in fields.items():
        if not isinstance(row[name], kind) or (isinstance(row[name], str) and "\0" in row[name]):
            raise InvalidInput(f"{name} cannot be {safe_repr(row[name])}")
    return row


def _placed(row: dict[str, Any], line: int, numbers: Mapping[int, int], at: ThreadAt) -> dict[str, Any]:
    placed = {name: value for name, value in row.items() if name != "ns"} | {"line": line}
    if "recipe" in placed:
        try:
            placed["recipe"] = pack(moved(unpack(placed["recipe"]), numbers.__getitem__))
        except (Damaged, KeyError, TypeError, ValueError, IndexError) as error:
            raise InvalidInput(f"A value of the thread {safe_repr(at.name)} is damaged: {safe_repr(error)}.") from error
    return placed


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _dump(tx: Transaction, write: WriteRecord, low: str, high: str) -> Mapping[str, int]:
    written: Counter[str] = Counter()
    for row in query.threads_within(tx, low=low, high=high, name=None):
        records = dump(tx, ThreadAt(row["path"], row["name"]))
        for record in records:
            write(record)
        written.update(threads=1, checkpoints=sum(record["record"] == "checkpoint" for record in records))
    return written


def _load(tx: Transaction, into: Import, head: Record, records: Sequence[Record]) -> None:
    thread = ThreadAt(path_of(head.get("namespace")), id_of(head.get("id"), "thread"))
    added = restore(tx, thread, bool(head.get("delta")), records, now=into.now)
    into.added.update(threads=1, checkpoints=added)


PART = Part(
    tables={
        "checkpoints": (
            "thread",
            "shelf",
            "checkpoint_line",
            "part",
            "checkpoint",
            "channel_value",
            "pending_write",
        )
    },
    verify={"threads": lambda tx: problems(tx, *range_of(()))},
    records={"thread": {"part", "value", "write", "checkpoint"}},
    dump=_dump,
    load=_load,
)
"""Threads are erased with what they remembered: `rewinding` does that."""
