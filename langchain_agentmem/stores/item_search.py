"""The search for items by filter and by words, and for namespaces with items; for items of threads, too.

Without a filter, only the requested page is read. With a filter, items are read in growing pages until enough of them
fit. A search for words reads more from the index until enough items fit.

Filters are evaluated in Python, so that both databases return the same:

    fits({"kind": "note", "size": {"width": 3}}, {"kind": "note", "size.width": {"$gte": 2}})  # True

A condition is a plain value (equal), a dictionary of operators, or a dictionary of further conditions on a nested one.
`$and` and `$or` take a list of conditions, and `$not` takes one; these three may stand next to a filter's keys, too.
A missing key counts as None: `$ne` and None match it, and ordering operators match neither. Values without an order
between them, such as text and numbers, match no ordering operator. Comparing items never raises an error. `checked`
reports an invalid filter before the first item is read.

An item of a thread is a row of memory whose body is its value, so it rewinds with the thread. The row holds the item's
expiry. A later row of another kind records a reading, which puts the expiry off and leaves the item itself unchanged,
so that a step that only reads does not undo the writes of a parallel step. Expiry depends on the time of the view.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import MemoryLimits
from langchain_agentmem.base.encoding import as_json, under, write_plain
from langchain_agentmem.base.namespaces import Namespace, namespace_of, range_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView, extra_of, version_of, words_of
from langchain_agentmem.rewinding.outlook import SearchView, recollections_of, seen_recollections, walls_around
from langchain_agentmem.rewinding.thread_memory import ThreadPosition
from langchain_agentmem.search import memory_search as retrieval
from langchain_agentmem.search.analysis import question
from langchain_agentmem.search.memory_search import Recollection, SearchFilter, SearchHit
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.search.vectors import VectorQuery
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.stores import byte_store, item_rows
from langchain_agentmem.stores.item_rows import (
    KIND,
    MINUTE,
    ItemDraft,
    ItemPlace,
    StoredItem,
    end_of,
    passages,
    read,
    stored,
)

Compare = Callable[[Any, Any], bool]

DEEPEST = 64
"""Maximum depth of nested conditions."""


def checked(wanted: Any, limits: MemoryLimits) -> Mapping[str, Any] | None:
    """Check a filter.

    Args:
        wanted: Conditions by key, or None.
        limits: The limit of the number of conditions.

    Returns:
        The filter; None for an empty one.

    Raises:
        InvalidInput: The filter is not a dictionary with text for keys, or has an operator that does not exist or
            belongs under a key.
    """
    if wanted is None:
        return None
    limits.check("conditions", _count(wanted, DEEPEST + 1, is_filter=True), "The filter")
    return dict(wanted) or None


def needle(wanted: Mapping[str, Any]) -> bytes | None:
    """Return the longest text that every fitting value must contain, as stored bytes.

    A database finds this text much faster than values are read. None if no condition requires an equal text.
    """
    texts = sorted(_needles(wanted), key=len)
    return write_plain(texts[-1]) if texts else None


def _needles(condition: Any) -> Iterator[str]:
    if isinstance(condition, str):
        yield str(condition)
    elif isinstance(condition, Mapping):
        for key, inner in condition.items():
            if not _is_operator(key) or key == "$and" or (key == "$eq" and isinstance(inner, str)):
                yield from _needles(inner)
    elif isinstance(condition, list | tuple):
        for inner in condition:
            yield from _needles(inner)


def _count(condition: Any, depth: int, *, is_filter: bool = False) -> int:
    """Check a condition and the conditions in it, and return their number.

    Args:
        condition: The condition.
        depth: The maximum depth of nesting.
        is_filter: True for a whole filter, which compares nothing by itself.
    """
    if not depth:
        raise InvalidInput(f"A filter may be nested {DEEPEST} levels deep.")
    if is_filter and not isinstance(condition, Mapping):
        raise InvalidInput(f"A filter is a dictionary of conditions by key, not {type(condition).__name__}.")
    if not isinstance(condition, Mapping):
        return sum(_count(inner, depth - 1) for inner in condition) if isinstance(condition, list | tuple) else 1
    compares = any(_is_operator(key) and key not in _LOGICAL for key in condition)
    count = 0
    for key, inner in condition.items():
        _check_key(key, inner, is_filter=is_filter, compares=compares)
        if key in {"$and", "$or"}:
            count += sum(_count(each, depth - 1, is_filter=is_filter) for each in inner)
        elif _is_operator(key) and key != "$not":
            count += len(inner) if key in _LISTS else 1
        else:
            count += _count(inner, depth - 1, is_filter=is_filter and key == "$not")
    return count


def _check_key(key: Any, inner: Any, *, is_filter: bool, compares: bool) -> None:
    """Raise an error for a key that a condition may not have, or not in this place."""
    if is_filter and not isinstance(key, str):
        raise InvalidInput(f"The keys of a filter are text, not {safe_repr(key)}.")
    known = _LOGICAL if is_filter else tuple(_OPERATORS)
    if (_is_operator(key) or (compares and not is_filter)) and key not in known:
        raise InvalidInput(
            f"Unsupported operator {safe_repr(key)} in a filter; here there are {', '.join(known)}. To compare the "
            'value of a key, write {"<key>": {"$gte": …}}.'
        )
    if key in _LISTS and (not isinstance(inner, list | tuple) or not inner):
        raise InvalidInput(f"{key} takes a list that is not empty, not {safe_repr(inner)}.")


def _is_operator(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("$")


def fits(value: Any, condition: Any) -> bool:
    """Return true if a value meets a condition, or every condition of a filter.

    Args:
        value: The value of an item, or a part of it.
        condition: The filter that `checked` returned, or a part of it.
    """
    if isinstance(condition, Mapping):
        named = not condition or not all(map(_is_operator, condition))
        return (isinstance(value, Mapping) or not named) and all(
            _OPERATORS[key](value, inner) if _is_operator(key) else fits(under(value, key), inner)
            for key, inner in condition.items()
        )
    if isinstance(condition, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(condition)
            and all(fits(mine, inner) for mine, inner in zip(value, condition, strict=True))
        )
    return _equal(value, condition)


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_equal, value, other))
    try:
        return bool(value == other)
    except (ArithmeticError, ValueError):  # a signalling NaN, which equals nothing; arrays of numpy
        return False


def _in_order(compare: Compare) -> Compare:
    def ordered(value: Any, other: Any) -> bool:
        try:
            return bool(compare(value, other))
        except (TypeError, ArithmeticError, ValueError):  # such as text and numbers; NaN as a decimal; arrays
            return False

    return ordered


_OPERATORS: dict[str, Compare] = {
    "$eq": _equal,
    "$ne": lambda value, other: not _equal(value, other),
    "$gt": _in_order(operator.gt),
    "$gte": _in_order(operator.ge),
    "$lt": _in_order(operator.lt),
    "$lte": _in_order(operator.le),
    "$in": lambda value, others: any(_equal(value, other) for other in others),
    "$nin": lambda value, others: not any(_equal(value, other) for other in others),
    "$and": lambda value, conditions: all(fits(value, each) for each in conditions),
    "$or": lambda value, conditions: any(fits(value, each) for each in conditions),
    "$not": lambda value, condition: not fits(value, condition),
}
_LOGICAL = ("$and", "$or", "$not")
_LISTS = frozenset({"$in", "$nin", "$and", "$or"})


FIRST_PAGE = 100
LARGEST_PAGE = 2_000
NEWEST = 2**62
"""A time later than any other."""


class ItemQuery(NamedTuple):
    """A query for items.

    Attributes:
        low: The first path of the namespaces to look in.
        high: The path behind the last.
        wanted: The result of `checked`.
        question: Words to search for; empty for none.
        limit: Maximum results.
        offset: The number of first results to leave out.
        dense: The vector of the words, or None without embeddings.
    """

    low: str
    high: str
    wanted: Mapping[str, Any] | None
    question: str
    limit: int
    offset: int
    dense: VectorQuery | None = None


class ItemHit(NamedTuple):
    """An item that was found, with its value and, for a question, its score."""

    item: StoredItem
    value: dict[str, Any]
    score: float | None


def find(tx: Transaction, look: ItemQuery, *, now: int) -> list[ItemHit]:
    """Return the items that fit a query.

    For a question, the best come first. Otherwise the newest come first, and items of one time are in the order of
    their keys.
    """
    if look.limit == 0:
        return []
    if look.question:
        return _answers(tx, look, now)
    if look.wanted is None:
        return list(map(_found, _newest(tx, look, now, look.limit, look.offset, None)))
    return _fitting(tx, look, look.wanted, now)


def namespaces(tx: Transaction, low: str, high: str, *, now: int) -> Iterator[Namespace]:
    """Yield the namespaces in a range of paths that hold unexpired items, in order."""
    after, size = "", FIRST_PAGE
    while rows := query.namespaces_of_items(tx, low=low, after=after, high=high, now=now, limit=size):
        yield from (namespace_of(row["path"]) for row in rows)
        if len(rows) < size:
            return
        after, size = rows[-1]["path"], min(size * 4, LARGEST_PAGE)


def best_items(
    tx: Transaction,
    look: ItemQuery,
    walls: retrieval.SearchFilter,
    now: int,
    items_of: Callable[[Sequence[retrieval.SearchHit]], Iterable[ItemHit]],
) -> list[ItemHit]:
    """Return the items that fit a question best, the best first.

    Args:
        tx: The transaction.
        look: The question, and the conditions that items must meet.
        walls: The filter for the index.
        now: The time.
        items_of: Reads the items of documents; some may be hidden or have expired.
    """
    asked = question(look.question, now)
    enough = look.offset + look.limit
    size = max(FIRST_PAGE, 2 * enough)
    while True:
        best = retrieval.search(tx, asked, walls, limit=size, dense=look.dense)
        found = [each for each in items_of(best) if look.wanted is None or fits(each.value, look.wanted)]
        if len(found) >= enough or len(best) < size:
            return found[look.offset : enough]
        size *= 4


def _answers(tx: Transaction, look: ItemQuery, now: int) -> list[ItemHit]:
    def items_of(hits: Sequence[retrieval.SearchHit]) -> Iterator[ItemHit]:
        rows = query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)
        known = {row["id"]: row for row in rows}
        return (_found(known[hit.owner], hit.score) for hit in hits if hit.owner in known)

    return best_items(tx, look, _walls(look), now, items_of)


def _walls(look: ItemQuery) -> SearchFilter:
    """Return the filter for the namespaces of a query."""
    return SearchFilter(look.low, look.high, kinds=(KIND,))


def _fitting(tx: Transaction, look: ItemQuery, wanted: Mapping[str, Any], now: int) -> list[ItemHit]:
    found: list[ItemHit] = []
    last: Row | None = None
    size = max(FIRST_PAGE, look.limit)
    while len(found) < look.offset + look.limit:
        rows = _newest(tx, look, now, size, 0, last)
        found += [each for each in map(_found, rows) if fits(each.value, wanted)]
        if len(rows) < size:
            break
        last, size = rows[-1], min(size * 4, LARGEST_PAGE)
    return found[look.offset : look.offset + look.limit]


def _newest(tx: Transaction, look: ItemQuery, now: int, limit: int, offset: int, last: Row | None) -> Sequence[Row]:
    """Return a page of items, the newest first, after the last one of the previous page."""
    place: dict[str, Any] = {
        "updated_at": NEWEST if last is None else last["updated_at"],
        "key": "" if last is None else last["key"],
        "now": now,
        "limit": limit,
        "offset": offset,
        "needle": None if look.wanted is None else needle(look.wanted),
    }
    # One namespace alone is read in the order of its index, however much it holds.
    within = query.namespaces_of_items(tx, low=look.low, after="", high=look.high, now=now, limit=2)
    if not within:
        return ()
    if len(within) == 1:
        return query.newest_items(tx, namespace=within[0]["id"], **place)
    path = "" if last is None else last["path"]
    return query.newest_items_within(tx, low=look.low, high=look.high, path=path, **place)


def _found(row: Row, score: float | None = None) -> ItemHit:
    return _with_value(stored(row, row["path"]), score)


def _with_value(item: StoredItem, score: float | None = None) -> ItemHit:
    return ItemHit(item, read(item.value, *item.at), score)


class SharedItems:
    """Items that belong to no thread, as a batch of operations sees them."""

    get = staticmethod(item_rows.get)
    find = staticmethod(find)
    namespaces = staticmethod(namespaces)
    lock = staticmethod(item_rows.lock)
    touch = staticmethod(item_rows.touch)
    walls = staticmethod(_walls)
    write = staticmethod(item_rows.write)


THREAD_ITEM = "thread_item"
READ_KIND = "thread_item_read"
"""The kind of a row that puts off the expiry of an item."""

LONGEST_NAME = 1_000
"""Characters of a row's key; PostgreSQL's indexes have no room for many more."""
WORTHWHILE = 100
"""A reading is recorded if it puts the expiry of an item off by more than a hundredth of its time to live."""


class ThreadItems:
    """The items that a task of a thread sees, or a checkpoint shows.

    Each object serves one transaction, within which its view stays the same.

    Args:
        point: The thread.
    """

    def __init__(self, point: ThreadPosition) -> None:
        self._point = point
        self._seen: MemoryView | None = None

    def get(self, tx: Transaction, places: Iterable[ItemPlace], *, now: int) -> dict[ItemPlace, StoredItem]:
        """Return the items at some places, without missing and expired ones."""
        view = self._view(tx, now)
        names = {name_of(at): at for at in places}
        there = memory_rows.named(tx, view, THREAD_ITEM, names)
        living = alive(tx, view, list(there.values()))
        return {place_of(kept): _stored(kept) for kept in living}

    def find(self, tx: Transaction, look: ItemQuery, *, now: int) -> list[ItemHit]:
        """Return the items that fit a query, in the order of the function `find`."""
        if look.limit == 0:
            return []
        if look.question:
            return self._answers(tx, look, now)
        items = [_stored(kept) for kept in self._within(tx, look.low, look.high, now)]
        items.sort(key=lambda item: (-item.updated_at, item.at.key, item.at.path))
        found = map(_with_value, items)
        wanted = look.wanted
        fitting = found if wanted is None else (each for each in found if fits(each.value, wanted))
        return list(islice(fitting, look.offset, look.offset + look.limit))

    def namespaces(self, tx: Transaction, low: str, high: str, *, now: int) -> list[Namespace]:
        """Return the namespaces in a range of paths that hold items, in order."""
        return [
            namespace_of(path) for path in sorted({place_of(kept).path for kept in self._within(tx, low, high, now)})
        ]

    def touch(self, tx: Transaction, items: Iterable[StoredItem], *, now: int) -> None:
        """Put off the expiry of items that were read. Do nothing outside of a task."""
        if not self._point.writable:
            return
        names = {name_of(item.at): item for item in items if item.ttl is not None}
        view = self._view(tx, now)
        there = memory_rows.named(tx, view, THREAD_ITEM, names)
        ends = _ends(tx, view, list(there.values()))
        drafts = []
        for name, kept in there.items():
            until, end = end_of(kept.extra["ttl"], now) if "ttl" in kept.extra else 0, ends.get(kept.number)
            if end is not None and (until - end) * WORTHWHILE > kept.extra["ttl"] * MINUTE:
                drafts.append(
                    memory_rows.VersionDraft(READ_KIND, name, b"", now, extra={"of": kept.number, "ends": until})
                )
        if drafts:
            _, place = self._point.open(tx, now)
            self._write(tx, place, drafts, now)

    def lock(self, tx: Transaction, places: Iterable[ItemPlace]) -> None:
        """Do nothing: other tasks' writes are not visible in this step."""
        del tx, places

    def write(
        self, tx: Transaction, changes: Mapping[ItemPlace, ItemDraft | None], locked: None = None, *, now: int
    ) -> None:
        """Write items, or delete them where there is no draft.

        Raises:
            InvalidInput: No task is running.
            StepIsOver: Another attempt of the task has taken its place.
        """
        del locked  # nothing is
        view, place = self._point.open(tx, now)
        names = {name_of(at): at for at in changes}
        there = memory_rows.named(tx, view, THREAD_ITEM, names)
        begun = {kept.key: kept.created_at for kept in alive(tx, view, list(there.values()))}
        reads = memory_rows.named(tx, view, READ_KIND, names)
        drafts = [memory_rows.VersionDraft(READ_KIND, name, None, now) for name in reads]
        for name, at in names.items():
            draft = changes[at]
            if draft is not None:
                drafts.append(_draft(name, at, draft, begun.get(name, now), now))
            elif name in there:
                drafts.append(memory_rows.VersionDraft(THREAD_ITEM, name, None, now))
        self._write(tx, place, drafts, now)

    def walls(self, look: ItemQuery) -> SearchFilter:
        """Return the filter for the thread's namespace; items are selected when they are read."""
        del look
        return SearchFilter(self._point.path, self._point.path + "\x1f", kinds=(THREAD_ITEM,))

    # -- the parts of the above ----------------------------------------------------------------------------------------

    def _view(self, tx: Transaction, now: int) -> MemoryView:
        if self._seen is None:
            self._seen = self._point.view(tx, now)
        return self._seen

    def _within(self, tx: Transaction, low: str, high: str, now: int) -> list[MemoryVersion]:
        """Return the items in a range of namespaces."""
        view = self._view(tx, now)
        every = memory_rows.current(tx, view, THREAD_ITEM)
        return alive(tx, view, [kept for kept in every if low <= place_of(kept).path < high])

    def _answers(self, tx: Transaction, look: ItemQuery, now: int) -> list[ItemHit]:
        view = self._view(tx, now)
        walls = walls_around(tx, self._point, view, (THREAD_ITEM,))

        def items_of(hits: Sequence[SearchHit]) -> Iterator[ItemHit]:
            scores = {hit.owner: hit.score for hit in hits}
            shown = self._shown(tx, view, list(scores))  # some may belong to other checkpoints
            within = (kept for kept in shown if look.low <= place_of(kept).path < look.high)
            return (_with_value(_stored(kept), scores[kept.number]) for kept in within)

        return best_items(tx, look, walls, now, items_of)

    @staticmethod
    def _shown(tx: Transaction, view: MemoryView, owners: Sequence[int]) -> list[MemoryVersion]:
        """Return the rows that a view shows, in the given order."""
        seen = memory_rows.shown(tx, view, owners)
        found = query.remembered(tx, ids=json.dumps([owner for owner in owners if owner in seen]))
        living = {kept.number: kept for kept in alive(tx, view, list(map(version_of, found)))}
        return [living[owner] for owner in owners if owner in living]

    def _write(
        self, tx: Transaction, place: memory_rows.WriteTarget, drafts: Sequence[memory_rows.VersionDraft], now: int
    ) -> None:
        series = DocumentSeries(self._point.path, THREAD_ITEM, self._point.name)
        memory_rows.write(tx, place, drafts, series=series, now=now)


def alive(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> list[MemoryVersion]:
    """Return the items that have not expired, by the time of the view that shows them.

    Args:
        tx: The transaction.
        view: The view.
        items: Items that the view shows.
    """
    ends = _ends(tx, view, items)
    return [kept for kept in items if (end := ends.get(kept.number)) is None or end > view.at]


def _ends(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> dict[int, int]:
    """Return the expiry of items by their numbers, without items that do not expire."""
    ends = {kept.number: int(kept.extra["ends"]) for kept in items if "ends" in kept.extra}
    if ends:
        reads = memory_rows.named(tx, view, READ_KIND, [kept.key for kept in items if kept.number in ends])
        ends |= {each.extra["of"]: each.extra["ends"] for each in reads.values() if each.extra["of"] in ends}
    return ends


def name_of(at: ItemPlace) -> str:
    """Return the key of the row of an item."""
    name = as_json([namespace_of(at.path), at.key])
    return name if len(name) <= LONGEST_NAME else blake2b(name.encode(), digest_size=32).hexdigest()


def place_of(kept: MemoryVersion) -> ItemPlace:
    """Return the place of an item."""
    return ItemPlace(kept.label or "", kept.extra["key"])


def _draft(name: str, at: ItemPlace, draft: ItemDraft, begun: int, now: int) -> memory_rows.VersionDraft:
    extra: dict[str, Any] = {"key": at.key, "words": draft.text}
    if draft.named is not None:
        extra["named"] = draft.named
    if draft.ttl is not None:
        extra |= {"ttl": draft.ttl, "ends": end_of(draft.ttl, now)}
    return memory_rows.VersionDraft(
        THREAD_ITEM, name, draft.value, begun, label=at.path, extra=extra, findable=bool(draft.text),
        source=draft.source, actor=draft.actor,
    )  # fmt: skip


def _stored(kept: MemoryVersion) -> StoredItem:
    return StoredItem(kept.number, place_of(kept), kept.body, kept.created_at, kept.written_at, kept.extra.get("ttl"))


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the texts by which items are found, by row.

    Args:
        tx: The transaction.
        owners: The rows.
    """
    rows = query.item_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: passages(row["value"], row["indexed"]) for row in rows}


def recollections(tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: object) -> Mapping[int, Recollection]:
    """Convert hits to recollections, by document number.

    Args:
        tx: The transaction.
        hits: Items that a search found. Deleted and expired items are left out.
        now: The time.
        outlook: Ignored, since shared items are visible in every view.
    """
    del outlook
    there = {row["id"]: row for row in query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)}
    values = {
        number: ("\n".join(passages(row["value"], row["indexed"])), read(bytes(row["value"]), row["path"], row["key"]))
        for number, row in there.items()
    }
    return recollections_of(hits, there, values)


def rewound_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the texts by which items of threads are found, by row.

    Args:
        tx: The transaction.
        owners: The rows.
    """
    found = query.memory_texts(tx, ids=json.dumps(list(owners)))
    extras = {row["id"]: extra_of(row) for row in found}
    return {number: tuple(extra.get("named") or (extra["words"],)) for number, extra in extras.items()}


def rewound_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert hits to recollections, by document number, without those that are not visible.

    Args:
        tx: The transaction.
        hits: Items of threads that a search found.
        now: The time.
        outlook: The view of the search.
    """
    ids: dict[int, str] = {}

    def values_of(view: MemoryView | None, kept: list[MemoryVersion]) -> dict[int, tuple[str, Any]]:
        living = [] if view is None else alive(tx, view, kept)
        ids.update({each.number: place_of(each).key for each in living})
        return {each.number: (words_of(each.body, each.extra), read(each.body, *place_of(each))) for each in living}

    shown = seen_recollections(tx, hits, now, outlook, values_of)
    return {number: replace(found, kind="item", id=ids[found.row[1]]) for number, found in shown.items() if found.row}


def add_new(tx: Transaction, drafts: Mapping[ItemPlace, ItemDraft], *, now: int) -> int:
    """Write items, except those whose key exists already or that have expired.

    Args:
        tx: The transaction.
        drafts: The items.
        now: The time.

    Returns:
        The number of added items.
    """
    there = item_rows.get(tx, drafts, now=now)
    new: dict[ItemPlace, ItemDraft | None] = {
        at: draft
        for at, draft in drafts.items()
        if at not in there and (draft.times is None or draft.times.expires_at is None or draft.times.expires_at > now)
    }
    item_rows.write(tx, new, now=now)
    return len(new)


def _erase(tx: Transaction, erasure: Erasure) -> None:
    if erasure.name is None:  # items and values of byte stores belong to no thread
        erasure.removed["blobs"] += byte_store.erase(tx, erasure.low, erasure.high)
        erasure.removed["items"] += item_rows.erase(tx, erasure.low, erasure.high)


PART = Part(
    found={
        "item": (
            SearchableKind(stored_as="item", texts=texts, recollections=recollections),
            SearchableKind(stored_as="thread_item", texts=rewound_texts, recollections=rewound_recollections),
        )
    },
    tables={"items": ("item",), "blobs": ("blob",)},
    verify={
        "blobs": lambda tx: byte_store.problems(tx, *range_of(())),
        "items": lambda tx: item_rows.problems(tx, *range_of(())),
    },
    erase=_erase,
)
