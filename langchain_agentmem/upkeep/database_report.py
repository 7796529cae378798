"""What `memory.stats()` tells: how much of everything there is, which part takes how much room, what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from langchain_agentmem.storage import Sizes, Steps, measuring, query
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.tracing.measures import Measured
from langchain_agentmem.upkeep import integrity

_TABLES: Mapping[str, tuple[str, ...]] = {
    "shared content": ("content",),
    "facts": (),
    "other": ("namespace", "job", "measure", "agentmem_migration", "sqlite_schema", "sqlite_sequence"),
}
"""Which tables are no feature's own. Facts lie in tables of the layers, and are told apart by how many rows are theirs.
"""

_HELD_TOGETHER = ("memory", "memory_source")
"""The tables that facts share with the layers."""


class CacheStats(TypedDict):
    """How often a cache was asked.

    Attributes:
        hits: How often it had what was wanted.
        misses: How often it had not.
    """

    hits: int
    misses: int


class OperationStats(TypedDict):
    """How often an operation ran, and how long it took.

    Attributes:
        name: "memory.<part>.<verb>", as traces name it.
        calls: How often it ended.
        failures: How often of these with an error.
        mean_ms: Milliseconds, on average.
        slowest_ms: Milliseconds of the slowest.
        total_ms: Milliseconds of all of them.
    """

    name: str
    calls: int
    failures: int
    mean_ms: float
    slowest_ms: float
    total_ms: float


class Stats(TypedDict):
    """What there is, what it takes, and what was measured.

    Attributes:
        namespaces: Namespaces in use.
        conversations: Conversations.
        messages: Messages, each once, however often it was edited.
        rounds: Rounds.
        edits: Later versions of messages and rounds.
        threads: LangGraph threads.
        checkpoints: Their checkpoints.
        writes: Their pending writes.
        parts: The parts of which their values are made.
        blobs: Values of byte stores.
        blob_bytes: How many bytes those are.
        items: Long-term items.
        jobs: Jobs that wait or run.
        compactions: Compactions that are kept.
        branches: Branches of memory with names.
        forks: Branches that began as a copy of another.
        memories: Versions of everything that layers and facts hold.
        core: Current entries of core memory.
        events: Current events.
        records: Current records.
        facts: Current facts.
        old_memories: Versions that others have replaced.
        waiting_groups: Tasks of graphs that have remembered something and are not sealed yet.
        experiences: Experiences with a tally.
        feedback: Feedback on experiences.
        audit: Entries of the audit trail.
        contents: Bodies of messages and others, each kept once.
        content_bytes: How many bytes those are.
        bytes: What the database takes.
        free_bytes: What of that is free for what comes next.
        log_bytes: What lies in SQLite's write-ahead log beside it.
        bytes_by_part: What each part takes, indexes included; together `bytes` without `free_bytes`. Bodies that
            several parts may share are "shared content".
        bytes_estimated: Whether the sizes of the parts are estimates, because this Python's SQLite cannot tell.
        tokens_kept_out: Tokens that compactions kept out of prompts: for each prompt that was given a compacted
            context, by how much that was shorter than the history. Where a graph's state itself is replaced by its
            context (`CompactionNode(shrink=True)`), that is once for each compaction.
        shortened_prompts: How many prompts that were.
        caches: How often each cache was asked, by what it holds.
        operations: How long operations took, the one with the slowest call first.
    """

    namespaces: int
    conversations: int
    messages: int
    rounds: int
    edits: int
    threads: int
    checkpoints: int
    writes: int
    parts: int
    blobs: int
    blob_bytes: int
    items: int
    jobs: int
    compactions: int
    branches: int
    forks: int
    memories: int
    core: int
    events: int
    records: int
    facts: int
    old_memories: int
    waiting_groups: int
    experiences: int
    feedback: int
    audit: int
    contents: int
    content_bytes: int
    bytes: int
    free_bytes: int
    log_bytes: int
    bytes_by_part: dict[str, int]
    bytes_estimated: bool
    tokens_kept_out: int
    shortened_prompts: int
    caches: dict[str, CacheStats]
    operations: list[OperationStats]


MEASURED = ("tokens_kept_out", "shortened_prompts", "caches", "operations")
"""What tells of the use of the database, and not of what lies in it."""


class Counted(TypedDict):
    """What one look at the database gives."""

    counts: dict[str, int]
    facts: int
    measured: Measured


def counting() -> Steps[Counted]:
    """Count what there is, and read what was measured."""
    counts = yield from integrity.statistics()
    [row] = yield query.fact_versions()
    measured = yield from measuring.load()
    return {"counts": counts, "facts": int(row["facts"]), "measured": measured}


def told(counted: Counted, sizes: Sizes, here: Measured) -> Stats:
    """What is told of it.

    Args:
        counted: What is in the database.
        sizes: How many bytes that takes.
        here: What this process measured and has not written yet.
    """
    measured = Measured()
    measured.add(counted["measured"])
    measured.add(here)
    counts = counted["counts"]
    operations = [
        OperationStats(
            name=name,
            calls=tally.calls,
            failures=tally.failures,
            mean_ms=_milliseconds(tally.total / tally.calls),
            slowest_ms=_milliseconds(tally.slowest),
            total_ms=_milliseconds(tally.total),
        )
        for name, tally in measured.operations.items()
    ]
    every: dict[str, Any] = {
        **counts,
        "bytes": sizes.total,
        "free_bytes": sizes.free,
        "log_bytes": sizes.log,
        "bytes_by_part": by_part(sizes, facts=counted["facts"], memories=counts["memories"]),
        "bytes_estimated": sizes.estimated,
        "tokens_kept_out": measured.kept_out,
        "shortened_prompts": measured.prompts,
        "caches": {
            name: CacheStats(hits=asked.hits, misses=asked.misses) for name, asked in sorted(measured.caches.items())
        },
        "operations": sorted(operations, key=lambda each: (-each["slowest_ms"], each["name"])),
    }
    return cast("Stats", every)


def tables_by_part() -> dict[str, Sequence[str]]:
    """Which tables are which part of the database."""
    return dict(_TABLES) | {name: tables for part in all_parts().all for name, tables in part.tables.items()}


def by_part(sizes: Sizes, *, facts: int, memories: int) -> dict[str, int]:
    """Bytes by part.

    Args:
        sizes: Bytes by table.
        facts: How many versions of facts there are.
        memories: How many versions of anything there are in the same tables.
    """
    found = {name: sum(sizes.tables.get(table, 0) for table in names) for name, names in tables_by_part().items()}
    shared = sum(sizes.tables.get(table, 0) for table in _HELD_TOGETHER)
    found["facts"] = shared * facts // memories if memories else 0
    found["layers"] -= found["facts"]
    # What belongs to no table, such as the pages in which SQLite notes where others lie.
    found["other"] += max(0, sizes.total - sizes.free - sum(found.values()))
    return found


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
