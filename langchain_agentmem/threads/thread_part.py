"""Threads as a part of the database: verified, and merged with what another database has of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.namespaces import ThreadKey, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Part
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.thread_lines import add, find, line_of
from langchain_agentmem.threads.value_recipe import Damaged, Range, covered, moved, opened, pack, ranges_of, unpack
from langchain_agentmem.threads.value_store import LOOSE, StoredPart

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
            there += [(row["number"], row["number"] + 1) for row in page]
            found += [
                f"part {row['number']} of shelf {shelf} is not what was stored"
                for row in page
                if row["body"] is None or zlib.crc32(bytes(row["body"])) != row["checksum"]
            ]
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
                where = f"the checkpoint {safe_repr(row['name'])} of the thread {safe_repr(thread)}"
                found.append(f"the {name} of {where}: {error}")
    needed: list[Range] = []
    for row in (*query.line_values(tx, line=line), *query.line_writes(tx, line=line)):
        try:
            needed += ranges_of(unpack(row["recipe"]))
        except (Damaged, TypeError, ValueError, IndexError) as error:
            where = f"the channel {safe_repr(row['channel'])} of the thread {safe_repr(thread)}"
            found.append(f"a value of {where}: {error}")
    return needed


def merge(
    tx: Transaction,
    at: ThreadKey,
    parts: Iterable[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    delta: bool,
) -> int:
    """Add to a thread the checkpoints, values and writes that it lacks.

    Args:
        tx: The transaction.
        at: The thread, which exists.
        parts: The parts of the values in another database, with their bodies.
        rows: The rows of its lines there, each with the "ns" of its line.
        delta: Whether its checkpoints need their ancestors.

    Returns:
        How many checkpoints were added.
    """
    thread = find(tx, at, exact=True)
    assert thread is not None  # noqa: S101 - for the type checker
    if delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    stored = {
        row["number"]: StoredPart(form=row["form"], name=row["name"], body=row["body"], loose=row["number"] >= LOOSE)
        for row in parts
    }
    numbers = shelves.adopt(tx, thread.place, stored)
    added = 0
    for ns in dict.fromkeys(row["ns"] for row in rows):
        line = line_of(tx, thread, ns)
        placed = [{**row, "line": line} for row in rows if row["ns"] == ns]
        for row in placed:
            if "recipe" in row:
                row["recipe"] = pack(moved(unpack(row["recipe"]), numbers.__getitem__))
        added += add(tx, line, placed)
    return added


PART = Part(
    tables={
        "checkpoints": ("thread", "shelf", "checkpoint_line", "part", "checkpoint", "channel_value", "pending_write")
    },
    verify={"threads": lambda tx: problems(tx, *range_of(()))},
)
"""Threads are erased with what they remembered: `rewinding` does that."""
