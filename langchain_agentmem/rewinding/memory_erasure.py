"""Erasing what is remembered in namespaces, whatever state it is in."""

from __future__ import annotations

import json
from typing import NamedTuple

from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import KIND
from langchain_agentmem.rewinding.memory_check import lost_groups
from langchain_agentmem.rewinding.sealing import drop_group
from langchain_agentmem.rewinding.thread_memory_lifecycle import BATCH
from langchain_agentmem.storage import Steps, query


class Total(NamedTuple):
    """How many rows there are, and the last of them."""

    rows: int
    last: int


def erase(low: str, high: str) -> Steps[int]:
    """Delete the branches of some namespaces with all that lies on them, after their threads are gone.

    Groups that belong to nobody, which only an accident leaves, go with any erasure.

    Args:
        low: The first namespace path.
        high: Path after the last.

    Returns:
        How many named branches there were.
    """
    branches = yield query.remembering_branches(low=low, high=high)
    ids = json.dumps([row["id"] for row in branches])
    yield query.unhook_places(ids=ids)
    yield query.unhook_bases(ids=ids)
    yield query.unhook_branches(ids=ids)
    for row in branches:
        while page := (yield query.memory_on(branch=row["id"], limit=BATCH)):
            yield from memory_rows.discard(page)
        yield query.delete_branch(branch=row["id"])
    for group in (yield from lost_groups()):
        yield from drop_group(group)
    for path in sorted({row["path"] for row in branches}):
        yield from memory_rows.close(path)
    return sum(row["kind"] == KIND for row in branches)


def total() -> Steps[Total]:
    """How much is remembered."""
    [row] = yield query.memory_total(last=None)
    return Total(row["found"], row["last"])


def fewer_than(before: Total) -> Steps[int]:
    """How many of the rows that there were are there no more; what others write meanwhile does not count."""
    [row] = yield query.memory_total(last=before.last)
    return max(0, before.rows - int(row["found"]))
