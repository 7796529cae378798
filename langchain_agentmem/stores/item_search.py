"""Looking for items: by filter, by words, and what namespaces there are.

Without a filter only the page that was asked for is read. With one, items are read page by page, in growing pages,
until there are enough that fit. A search for words asks the index for more until there are enough that fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.search import memory_search as retrieval
from langchain_agentmem.search.vectors import Near
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row
from langchain_agentmem.stores import item_filters
from langchain_agentmem.stores.item_indexing import KIND
from langchain_agentmem.stores.item_rows import Stored, stored
from langchain_agentmem.stores.item_values import read

FIRST_PAGE = 100
LARGEST_PAGE = 2_000
NEWEST = 2**62
"""A time behind every other."""


class Look(NamedTuple):
    """What to look for.

    Attributes:
        low: The first path of the namespaces to look in.
        high: The path behind the last.
        wanted: What `filters.checked` gave.
        question: Words to look for; empty for none.
        limit: Most results.
        offset: How many of the first results to leave out.
        dense: The words' vector, where there are embeddings.
    """

    low: str
    high: str
    wanted: Mapping[str, Any] | None
    question: str
    limit: int
    offset: int
    dense: Near | None = None

    @property
    def walls(self) -> retrieval.Walls:
        """Where the index is asked."""
        return retrieval.Walls(self.low, self.high, kinds=(KIND,))


class Found(NamedTuple):
    """An item that was found, with its value and, for a question, how well it fits."""

    item: Stored
    value: dict[str, Any]
    score: float | None


class Hit(NamedTuple):
    """What the index knows: the row of an item, and how well it fits."""

    id: int
    score: float


def find(look: Look, *, now: int) -> Steps[list[Found]]:
    """The items that fit: the best first for a question, else the newest first and those of one time by their keys."""
    if look.limit == 0:
        return []
    if look.question:
        return (yield from _answers(look, now))
    if look.wanted is None:
        rows = yield from _newest(look, now, look.limit, look.offset, None)
        return [_found(row) for row in rows]
    return (yield from _fitting(look, look.wanted, now))


def hits(look: Look, limit: int, now: int) -> Steps[list[Hit]]:
    """The best items for words."""
    asked = retrieval.inquiry(look.question, now)
    found = yield from retrieval.search(asked, look.walls, limit=limit, dense=look.dense)
    return [Hit(hit.owner, hit.score) for hit in found]


def namespaces(
    low: str,
    high: str,
    fits: Callable[[Namespace], bool],
    *,
    depth: int | None,
    limit: int,
    offset: int,
    now: int,
) -> Steps[list[Namespace]]:
    """The namespaces that hold items, in order.

    Args:
        low: The first path to look at.
        high: The path behind the last.
        fits: Says which namespaces are meant.
        depth: Cut them to so many labels.
        limit: Most namespaces.
        offset: How many of the first to leave out.
        now: When; what has expired does not count.
    """
    found: dict[Namespace, None] = {}
    after, size = "", FIRST_PAGE
    while len(found) < offset + limit:
        rows = yield query.namespaces_of_items(low=low, after=after, high=high, now=now, limit=size)
        whole = (namespace_of(row["path"]) for row in rows)
        found |= dict.fromkeys(namespace[:depth] for namespace in whole if fits(namespace))
        if len(rows) < size:
            break
        after, size = rows[-1]["path"], min(size * 4, LARGEST_PAGE)
    return list(found)[offset : offset + limit]


def _answers(look: Look, now: int) -> Steps[list[Found]]:
    enough = look.offset + look.limit
    size = enough if look.wanted is None else max(FIRST_PAGE, 2 * enough)
    while True:
        best = yield from hits(look, size, now)
        rows = yield query.items_by_id(ids=json.dumps([hit.id for hit in best]), now=now)
        known = {row["id"]: row for row in rows}
        found = [_found(known[hit.id], hit.score) for hit in best if hit.id in known]
        if look.wanted is not None:
            wanted = look.wanted
            found = [each for each in found if item_filters.fits(each.value, wanted)]
        if len(found) >= enough or len(best) < size:
            return found[look.offset : enough]
        size *= 4


def _fitting(look: Look, wanted: Mapping[str, Any], now: int) -> Steps[list[Found]]:
    found: list[Found] = []
    last: Row | None = None
    size = max(FIRST_PAGE, look.limit)
    while len(found) < look.offset + look.limit:
        rows = yield from _newest(look, now, size, 0, last)
        found += _that_fit(rows, wanted)
        if len(rows) < size:
            break
        last, size = rows[-1], min(size * 4, LARGEST_PAGE)
    return found[look.offset : look.offset + look.limit]


def _newest(look: Look, now: int, limit: int, offset: int, last: Row | None) -> Steps[Sequence[Row]]:
    """A page of items, the newest first, after the last one of the page before."""
    place: dict[str, Any] = {
        "updated_at": NEWEST if last is None else last["updated_at"],
        "key": "" if last is None else last["key"],
        "now": now,
        "limit": limit,
        "offset": offset,
        "needle": None if look.wanted is None else item_filters.needle(look.wanted),
    }
    # One namespace alone is read in the order of its index, however much it holds.
    within = yield query.namespaces_of_items(low=look.low, after="", high=look.high, now=now, limit=2)
    if not within:
        return ()
    if len(within) == 1:
        return (yield query.newest_items(namespace=within[0]["id"], **place))
    path = "" if last is None else last["path"]
    return (yield query.newest_items_within(low=look.low, high=look.high, path=path, **place))


def _that_fit(rows: Sequence[Row], wanted: Mapping[str, Any]) -> Iterator[Found]:
    for row in rows:
        value = read(bytes(row["value"]), row["path"], row["key"])
        if item_filters.fits(value, wanted):
            yield Found(stored(row, row["path"]), value, None)


def _found(row: Row, score: float | None = None) -> Found:
    item = stored(row, row["path"])
    return Found(item, read(item.value, *item.at), score)
