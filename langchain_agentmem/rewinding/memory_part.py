"""Memory rows of whole namespaces: counted by their tables, verified, and erased, whatever state they are in."""

from __future__ import annotations

import json

from langchain_agentmem.rewinding import memory_rows, message_sources, thread_memory
from langchain_agentmem.rewinding.branches import KIND
from langchain_agentmem.rewinding.memory_rows import lost_groups
from langchain_agentmem.rewinding.sealing import drop_group
from langchain_agentmem.rewinding.thread_memory import BATCH
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Part


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete the branches of some namespaces with all that lies on them, after their threads are gone.

    Groups that belong to nobody, which only an accident leaves, go with any erasure.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.

    Returns:
        How many named branches there were.
    """
    branches = query.remembering_branches(tx, low=low, high=high)
    ids = json.dumps([row["id"] for row in branches])
    query.unhook_places(tx, ids=ids)
    query.unhook_bases(tx, ids=ids)
    query.unhook_branches(tx, ids=ids)
    for row in branches:
        while page := query.memory_on(tx, branch=row["id"], limit=BATCH):
            memory_rows.discard(tx, page)
        query.delete_branch(tx, branch=row["id"])
    for group in lost_groups(tx):
        drop_group(tx, group)
    for path in sorted({row["path"] for row in branches}):
        memory_rows.close(tx, path)
    return sum(row["kind"] == KIND for row in branches)


def _erase(tx: Transaction, erasure: Erasure) -> None:
    """Delete threads with what they remembered, branches, and what was learned from what is erased."""
    low, high, name = erasure.low, erasure.high, erasure.name
    [before] = query.memory_total(tx, last=None)
    if name is not None:
        message_sources.forget_corrections(tx, low, high, name, take_back=erasure.threads)
        message_sources.forget(tx, low, high, name)
    if erasure.threads:
        erasure.removed["threads"] += len(thread_memory.delete(tx, low, high, name))
        if name is not None:
            thread_memory.forget_authors(tx, low, high, name)
    if name is None:
        erasure.removed["branches"] += erase(tx, low, high)
    [after] = query.memory_total(tx, last=before["last"])  # what others write meanwhile does not count
    erasure.removed["memories"] += max(0, before["found"] - after["found"])


PART = Part(
    tables={
        "layers": (
            "author",
            "memory",
            "memory_source",
            "memory_group",
            "seal",
            "finished_task",
            "finished_group",
            "place",
            "branch_base",
            "base_group",
        )
    },
    verify={"memories": memory_rows.problems},
    erase=_erase,
)
