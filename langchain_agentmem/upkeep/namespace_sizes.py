"""How much each namespace holds, and how much was written on each day.

    for each in memory.namespaces():
        print(each.namespace, each.messages, each.bytes)
    print([day.messages for day in memory.growth(days=7)])

Both read much of the database, and are for those who run one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta

from langchain_agentmem.base.clock import EPOCH, micros
from langchain_agentmem.base.namespaces import NESTED, Namespace, namespace_of, range_of
from langchain_agentmem.storage import Steps, query


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceSummary:
    """What one namespace holds itself, without those below it.

    Attributes:
        namespace: Which.
        schema: The schema of PostgreSQL in which it lies; None on SQLite.
        threads: LangGraph threads and conversations; those of one id are one.
        messages: Messages, each once, however often it was edited.
        checkpoints: Checkpoints of its threads.
        memories: Current entries of core memory, events, records and facts, on all branches.
        items: Long-term items.
        audit: Entries of the audit trail.
        bytes: What all of these take, and values of byte stores, without indexes. What several namespaces share
            counts for each.
    """

    namespace: Namespace
    schema: str | None
    threads: int
    messages: int
    checkpoints: int
    memories: int
    items: int
    audit: int
    bytes: int


_COUNTS = tuple(each.name for each in fields(NamespaceSummary) if each.name not in ("namespace", "schema"))


@dataclass(frozen=True, kw_only=True, slots=True)
class DayCounts:
    """What was written on one day in UTC and is still there.

    Attributes:
        day: The day.
        messages: Messages.
        checkpoints: Checkpoints.
        memories: Entries of core memory, events, records and facts, with those of their versions that are kept.
    """

    day: date
    messages: int = 0
    checkpoints: int = 0
    memories: int = 0


def list_namespaces(namespace: Sequence[str]) -> Steps[list[NamespaceSummary]]:
    """What a namespace holds, and each of those below it.

    Args:
        namespace: Which; empty for all.
    """
    low, high = range_of(namespace)
    [here] = yield query.schema_here()
    rows = yield query.namespace_sizes(low=low, high=high, mark=NESTED)
    return [
        NamespaceSummary(
            namespace=namespace_of(row["path"]), schema=here["schema"], **{name: int(row[name]) for name in _COUNTS}
        )
        for row in rows
    ]


def count_days(namespace: Sequence[str], days: int, now: datetime) -> Steps[list[DayCounts]]:
    """What was written on each of the last days in a namespace and all below it, the oldest day first.

    Args:
        namespace: Which; empty for all.
        days: How many days, this one included.
        now: When this is.
    """
    low, high = range_of(namespace)
    today = (now - EPOCH).days
    first = today - days + 1
    rows = yield query.written_by_day(low=low, high=high, since=micros(EPOCH + timedelta(days=first)))
    found: dict[int, dict[str, int]] = {}
    for row in rows:
        found.setdefault(int(row["day"]), {})[row["what"]] = row["written"]
    return [
        DayCounts(day=(EPOCH + timedelta(days=number)).date(), **found.get(number, {}))
        for number in range(first, today + 1)
    ]
