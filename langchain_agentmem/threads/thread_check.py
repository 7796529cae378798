"""Whether every value of every thread can still be made of its parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row
from langchain_agentmem.threads.value_recipe import Damaged, Range, covered, opened, ranges_of, unpack
from langchain_agentmem.threads.value_store import LOOSE

PAGE = 200


def problems(low: str, high: str) -> Steps[list[str]]:
    """What is wrong with the threads of some namespaces.

    Args:
        low: The first namespace path.
        high: Path after the last.

    Returns:
        Sentences; empty when all is well.
    """
    found: list[str] = []
    shelves: dict[int, list[Range]] = {}
    threads = yield query.threads_within(low=low, high=high, name=None)
    for thread in threads:
        for line in (yield query.lines_of(thread=thread["id"])):
            needed = yield from _line(line["id"], thread["name"], found)
            shelves.setdefault(thread["shelf_id"], []).extend(needed)
    for shelf, needed in shelves.items():
        there: list[Range] = []
        after = -1
        while page := (yield query.parts_after(shelf=shelf, after=after, limit=PAGE)):
            for row in page:
                there.append((row["number"], row["number"] + 1))
                if row["body"] is None or zlib.crc32(bytes(row["body"])) != row["checksum"]:
                    found.append(f"part {row['number']} of shelf {shelf} is not what was stored")
            there = covered(there)
            after = page[-1]["number"]
        if covered([*there, *needed]) != there:
            found.append(f"a value needs parts that are missing on shelf {shelf}")
    gaps = yield query.shelf_gaps(loose=LOOSE)
    return found + [f"shelf {row['id']} has more parts than it counted" for row in gaps]


def _line(line: int, thread: str, found: list[str]) -> Steps[list[Range]]:
    for row in (yield query.line_checkpoints(line=line)):
        for name, beside in (("head", row["versions"]), ("metadata", "")):
            try:
                opened(row[name], beside)
            except Damaged as error:
                found.append(
                    f"the {name} of the checkpoint {safe_repr(row['name'])} of the thread {safe_repr(thread)}: {error}"
                )
    values = yield query.line_values(line=line)
    writes = yield query.line_writes(line=line)
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
