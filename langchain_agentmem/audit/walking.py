"""A walk along the audit trail, entry by entry, for whoever counts or looks for something in it.

It reads in pages, each in a transaction of its own, so that of a million entries few are held at a time and nobody else
waits. Who walks along takes each entry, remembers what it needs, and must itself remember little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from langchain_agentmem.audit import audit_rows
from langchain_agentmem.audit.audit_entry import CALL, EXCHANGE, AuditEntry
from langchain_agentmem.language_models.model_calls import NO_STREAM, Do, Run, Work
from langchain_agentmem.storage import Steps, query

PAGE = 500
BYTES_AT_ONCE = 8_000_000
"""Bodies that go through memory together, but for a single one that is larger."""


class Seen(NamedTuple):
    """An entry, as one who walks along sees it.

    Attributes:
        entry: The entry, without the messages of a call.
        body: What is stored of it beside them, compressed where it is archived.
    """

    entry: AuditEntry
    body: bytes


class Walker(Protocol):
    """Who walks along."""

    def take(self, seen: Seen) -> object:
        """Look at an entry. Each is given once, in the order of the chain, hidden ones included."""


def walk(low: str, high: str, walkers: Sequence[Walker], *, page: int = PAGE) -> Work[int]:
    """Give every entry of the namespaces in a range of paths to some walkers.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        walkers: Who is given them.
        page: Most entries that are read at a time.

    Returns:
        How many entries there were.
    """
    after, count = 0, 0
    while True:
        seen, after = yield Run("audit.walk", partial(_page, low, high, after, page), shown=False)
        if not seen:
            return count
        count += len(seen)
        yield Do(partial(_give, seen, walkers))


def is_said(entry: AuditEntry) -> bool:
    """Whether an entry is something that a user asked: no todo and the like, and no call that memory makes itself."""
    tags = entry.extra.get("tags")  # another database may have sent anything
    is_own = isinstance(tags, list | tuple) and NO_STREAM in tags
    return entry.kind == EXCHANGE or (entry.kind == CALL and not is_own)


def _page(low: str, high: str, after: int, limit: int) -> Steps[tuple[list[Seen], int]]:
    lengths = yield query.audit_lengths_within(low=low, high=high, after=after, limit=limit)
    size, fitting = 0, 0
    for row in lengths:
        size += row["bytes"]
        if fitting and size > BYTES_AT_ONCE:
            break
        fitting += 1
    if not fitting:
        return [], after
    found = yield query.audit_within(low=low, high=high, after=after, limit=fitting)
    read = yield from audit_rows.entries(found, messages=False)
    seen = [Seen(entry, bytes(row["body"])) for row, entry in zip(found, read, strict=True)]
    return seen, found[-1]["sequence"] if found else after


def _give(seen: Sequence[Seen], walkers: Sequence[Walker]) -> None:
    for each in seen:
        for walker in walkers:
            walker.take(each)
