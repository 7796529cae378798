"""The search of items by filter or words, for shared items and for items of threads.

Without a filter, only the requested page is read. With a filter, items are read in growing pages until enough of them
match. A search for words requests more and more results from the index until enough items match.

Filters are evaluated in Python, so that both databases return the same:

    matches_filter({"kind": "note", "size": {"width": 3}}, {"kind": "note", "size.width": {"$gte": 2}})  # True

A condition is a plain value that must be equal, a dictionary of operators, or a dictionary of conditions on the keys of
a nested dictionary. `$and` and `$or` take a list of conditions, and `$not` takes one. These three may also be keys of
the filter itself. A missing key counts as None: None and `$ne` match it, and ordering operators do not. Ordering
operators do not match values that Python cannot order, such as text and numbers. Comparing items never raises an error.
`check_filter` reports an invalid filter before the first item is read.

An item of a thread is a row of memory whose body is its value, so it rewinds with the thread. The row holds the item's
expiry. If a read extends the expiry, a row of another kind records that, and the item's row stays unchanged. So a step
that only reads does not undo the writes of a parallel step. Items expire by the time of the view, not by the clock.
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
from langchain_agentmem.base.encoding import as_json, value_at, write_plain
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_range
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding import search_view as views
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView, VersionDraft, search_words, version_of
from langchain_agentmem.rewinding.search_view import SearchView
from langchain_agentmem.rewinding.thread_memory import ThreadPosition
from langchain_agentmem.search import memory_search as retrieval
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import Recollection, SearchFilter, SearchHit
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.search.vectors import VectorQuery
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.stores import byte_store, item_rows
from langchain_agentmem.stores.item_rows import ItemChanges, ItemDraft, ItemPlace, StoredItem, decode_value

Compare = Callable[[Any, Any], bool]

MAX_DEPTH = 64
"""Maximum depth of nested conditions."""


def check_filter(conditions: Any, limits: MemoryLimits) -> Mapping[str, Any] | None:
    """Check a filter.

    Args:
        conditions: Conditions by key, or None.
        limits: The limits, of which `conditions` applies.

    Returns:
        The filter; None for an empty one.

    Raises:
        InvalidInput: The filter is not a dictionary with string keys, is too large, or has an operator that does not
            exist or is not supported in its place.
    """
    if conditions is None:
        return None
    limits.check("conditions", _count_conditions(conditions, MAX_DEPTH + 1, is_filter=True), "The filter")
    return dict(conditions) or None


def required_text(conditions: Mapping[str, Any]) -> bytes | None:
    """Return the longest text that every matching value contains, as stored bytes.

    A database finds this text much faster than Python decodes values. None if no condition requires an equal text.
    """
    texts = sorted(_required_texts(conditions), key=len)
    return write_plain(texts[-1]) if texts else None


def _required_texts(condition: Any) -> Iterator[str]:
    if isinstance(condition, str):
        yield str(condition)
    elif isinstance(condition, Mapping):
        for key, inner in condition.items():
            if not _is_operator(key) or key == "$and" or (key == "$eq" and isinstance(inner, str)):
                yield from _required_texts(inner)
    elif isinstance(condition, list | tuple):
        for inner in condition:
            yield from _required_texts(inner)


def _count_conditions(condition: Any, depth: int, *, is_filter: bool = False) -> int:
    """Check a condition with its nested conditions, and return their number.

    Args:
        condition: The condition.
        depth: The remaining levels of nesting.
        is_filter: True for a filter, whose keys must be keys of the value or logical operators. Default: False.
    """
    if not depth:
        raise InvalidInput(f"A filter may have at most {MAX_DEPTH} nested levels.")
    if is_filter and not isinstance(condition, Mapping):
        raise InvalidInput(f"A filter must be a dictionary of conditions by key, not {type(condition).__name__}.")
    if isinstance(condition, list | tuple):
        return sum(_count_conditions(inner, depth - 1) for inner in condition)
    if not isinstance(condition, Mapping):
        return 1
    compares = any(_is_operator(key) and key not in _LOGICAL_OPERATORS for key in condition)
    count = 0
    for key, inner in condition.items():
        _check_filter_key(key, inner, is_filter=is_filter, compares=compares)
        if key in {"$and", "$or"}:
            count += sum(_count_conditions(each, depth - 1, is_filter=is_filter) for each in inner)
        elif _is_operator(key) and key != "$not":
            count += len(inner) if key in _LIST_OPERATORS else 1
        else:
            count += _count_conditions(inner, depth - 1, is_filter=is_filter and key == "$not")
    return count


def _check_filter_key(key: Any, inner: Any, *, is_filter: bool, compares: bool) -> None:
    """Raise an error for a key or an operator that is not supported in this place."""
    if is_filter and not isinstance(key, str):
        raise InvalidInput(f"The keys of a filter must be strings, not {safe_repr(key)}.")
    known = _LOGICAL_OPERATORS if is_filter else tuple(_OPERATORS)
    if (_is_operator(key) or (compares and not is_filter)) and key not in known:
        raise InvalidInput(
            f"Unsupported operator {safe_repr(key)} in a filter. Valid here: {', '.join(known)}. To compare a value, "
            'write {"<key>": {"$gte": …}}.'
        )
    if key in _LIST_OPERATORS and (not isinstance(inner, list | tuple) or not inner):
        raise InvalidInput(f"{key} must be a non-empty list, not {safe_repr(inner)}.")


def _is_operator(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("$")


def matches_filter(value: Any, condition: Any) -> bool:
    """Return true if a value matches a condition, or every condition of a filter.

    Args:
        value: The value of an item, or a part of it.
        condition: The filter that `check_filter` returned, or a part of it.
    """
    if isinstance(condition, Mapping):
        needs_mapping = not condition or not all(map(_is_operator, condition))
        return (isinstance(value, Mapping) or not needs_mapping) and all(
            _OPERATORS[key](value, inner) if _is_operator(key) else matches_filter(value_at(value, key), inner)
            for key, inner in condition.items()
        )
    if isinstance(condition, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(condition)
            and all(matches_filter(element, inner) for element, inner in zip(value, condition, strict=True))
        )
    return _is_equal(value, condition)


def _is_equal(value: Any, other: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_is_equal, value, other))
    try:
        return bool(value == other)
    except (ArithmeticError, ValueError):  # values that cannot be compared, such as a signalling NaN or arrays of numpy
        return False


def _safe_compare(compare: Compare) -> Compare:
    def compare_safely(value: Any, other: Any) -> bool:
        try:
            return bool(compare(value, other))
        except (TypeError, ArithmeticError, ValueError):  # such as text and numbers, NaN as a decimal, or arrays
            return False

    return compare_safely


_OPERATORS: dict[str, Compare] = {
    "$eq": _is_equal,
    "$ne": lambda value, other: not _is_equal(value, other),
    "$gt": _safe_compare(operator.gt),
    "$gte": _safe_compare(operator.ge),
    "$lt": _safe_compare(operator.lt),
    "$lte": _safe_compare(operator.le),
    "$in": lambda value, others: any(_is_equal(value, other) for other in others),
    "$nin": lambda value, others: not any(_is_equal(value, other) for other in others),
    "$and": lambda value, conditions: all(matches_filter(value, each) for each in conditions),
    "$or": lambda value, conditions: any(matches_filter(value, each) for each in conditions),
    "$not": lambda value, condition: not matches_filter(value, condition),
}
_LOGICAL_OPERATORS = ("$and", "$or", "$not")
_LIST_OPERATORS = frozenset({"$in", "$nin", "$and", "$or"})


FIRST_PAGE = 100
LARGEST_PAGE = 2_000
LATEST_TIME = 2**62
"""A time in microseconds that is later than any stored time, to begin with the newest item."""


class ItemQuery(NamedTuple):
    """A query for items.

    Attributes:
        low: The start of the path range of the namespaces.
        high: The end of the range, excluded.
        conditions: The result of `check_filter`.
        question: Words to search for; empty for none.
        limit: Maximum results.
        offset: The number of results to skip.
        dense: The vector of the question, or None without embeddings.
    """

    low: str
    high: str
    conditions: Mapping[str, Any] | None
    question: str
    limit: int
    offset: int
    dense: VectorQuery | None = None


class ItemHit(NamedTuple):
    """A search result: the item, its decoded value and, for a question, its score."""

    item: StoredItem
    value: dict[str, Any]
    score: float | None


def find(tx: Transaction, request: ItemQuery, *, now: int) -> list[ItemHit]:
    """Return the items that match a query.

    For a question, the best come first. Otherwise the most recently updated come first; items of the same time are
    sorted by key.
    """
    if request.limit == 0:
        return []
    if request.question:
        return _search_items(tx, request, now)
    if request.conditions is None:
        return list(map(_hit_from_row, _newest_rows(tx, request, now, request.limit, request.offset, None)))
    return _filter_items(tx, request, request.conditions, now)


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
    request: ItemQuery,
    search_filter: SearchFilter,
    now: int,
    items_of: Callable[[Sequence[SearchHit]], Iterable[ItemHit]],
) -> list[ItemHit]:
    """Return the items that match a question best, the best first.

    Args:
        tx: The transaction.
        request: The question, and the conditions that items must meet.
        search_filter: The filter for the index.
        now: The time, in microseconds since 1970.
        items_of: A function that returns the items of search hits, without hidden and expired ones.
    """
    analyzed = analyze_query(request.question, now)
    end = request.offset + request.limit
    size = max(FIRST_PAGE, 2 * end)
    while True:
        best = retrieval.search(tx, analyzed, search_filter, limit=size, dense=request.dense)
        found = list(items_of(best))
        if request.conditions is not None:
            found = [each for each in found if matches_filter(each.value, request.conditions)]
        if len(found) >= end or len(best) < size:
            return found[request.offset : end]
        size *= 4


def _search_items(tx: Transaction, request: ItemQuery, now: int) -> list[ItemHit]:
    def items_of(hits: Sequence[SearchHit]) -> Iterator[ItemHit]:
        rows = query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)
        known = {row["id"]: row for row in rows}
        return (_hit_from_row(known[hit.owner], hit.score) for hit in hits if hit.owner in known)

    return best_items(tx, request, _index_filter(request), now, items_of)


def _index_filter(request: ItemQuery) -> SearchFilter:
    """Return the filter for the namespaces of a query."""
    return SearchFilter(request.low, request.high, kinds=(item_rows.ITEM_KIND,))


def _filter_items(tx: Transaction, request: ItemQuery, conditions: Mapping[str, Any], now: int) -> list[ItemHit]:
    found: list[ItemHit] = []
    last: Row | None = None
    size = max(FIRST_PAGE, request.limit)
    while len(found) < request.offset + request.limit:
        rows = _newest_rows(tx, request, now, size, 0, last)
        found += [each for each in map(_hit_from_row, rows) if matches_filter(each.value, conditions)]
        if len(rows) < size:
            break
        last, size = rows[-1], min(size * 4, LARGEST_PAGE)
    return found[request.offset : request.offset + request.limit]


def _newest_rows(
    tx: Transaction, request: ItemQuery, now: int, limit: int, offset: int, last: Row | None
) -> Sequence[Row]:
    """Return a page of items, the most recently updated first.

    `last` is the last row of the previous page, or None for the first page.
    """
    params: dict[str, Any] = {
        "updated_at": LATEST_TIME if last is None else last["updated_at"],
        "key": "" if last is None else last["key"],
        "now": now,
        "limit": limit,
        "offset": offset,
        "needle": None if request.conditions is None else required_text(request.conditions),
    }
    # In a single namespace, an index provides the order, so only the page is read.
    namespace_rows = query.namespaces_of_items(tx, low=request.low, after="", high=request.high, now=now, limit=2)
    if not namespace_rows:
        return ()
    if len(namespace_rows) == 1:
        return query.newest_items(tx, namespace=namespace_rows[0]["id"], **params)
    path = "" if last is None else last["path"]
    return query.newest_items_within(tx, low=request.low, high=request.high, path=path, **params)


def _hit_from_row(row: Row, score: float | None = None) -> ItemHit:
    return _make_hit(item_rows.item_from_row(row, row["path"]), score)


def _make_hit(item: StoredItem, score: float | None = None) -> ItemHit:
    return ItemHit(item, decode_value(item.value, *item.place), score)


class SharedItems:
    """The items that belong to no thread. Implements `Items` for a batch."""

    get = staticmethod(item_rows.get)
    find = staticmethod(find)
    namespaces = staticmethod(namespaces)
    lock = staticmethod(item_rows.lock)
    touch = staticmethod(item_rows.touch)
    index_filter = staticmethod(_index_filter)
    write = staticmethod(item_rows.write)


THREAD_ITEM = "thread_item"
ITEM_READ = "thread_item_read"
"""The kind of a row that extends the expiry of an item that was read."""

MAX_NAME_CHARS = 1_000
"""Maximum characters of a row's key. Longer keys are hashed, since PostgreSQL limits the size of index entries."""
TOUCH_DIVISOR = 100
"""A read is recorded only if it extends the expiry of an item by more than 1/`TOUCH_DIVISOR` of its ttl."""


class ThreadItems:
    """The items of a thread, as a running task or a checkpoint sees them.

    Each object is used for one transaction, and caches its view of the thread.

    Args:
        position: The position in the thread: a running task or a checkpoint.
    """

    def __init__(self, position: ThreadPosition) -> None:
        self._position = position
        self._cached_view: MemoryView | None = None

    def get(self, tx: Transaction, places: Iterable[ItemPlace], *, now: int) -> dict[ItemPlace, StoredItem]:
        """Return the items at some places, except missing and expired ones."""
        view = self._view(tx, now)
        names = {row_key(at): at for at in places}
        found = memory_rows.load_named(tx, view, THREAD_ITEM, names)
        unexpired = unexpired_items(tx, view, list(found.values()))
        return {place_of(version): _item_from_version(version) for version in unexpired}

    def find(self, tx: Transaction, request: ItemQuery, *, now: int) -> list[ItemHit]:
        """Return the items that match a query, in the order of the function `find`."""
        if request.limit == 0:
            return []
        if request.question:
            return self._search_items(tx, request, now)
        items = list(map(_item_from_version, self._items_within(tx, request.low, request.high, now)))
        items.sort(key=lambda item: (-item.updated_at, item.place.key, item.place.path))
        found = map(_make_hit, items)
        conditions = request.conditions
        matching = found if conditions is None else (each for each in found if matches_filter(each.value, conditions))
        return list(islice(matching, request.offset, request.offset + request.limit))

    def namespaces(self, tx: Transaction, low: str, high: str, *, now: int) -> list[Namespace]:
        """Return the namespaces in a range of paths that hold unexpired items, in order."""
        paths = {place_of(version).path for version in self._items_within(tx, low, high, now)}
        return list(map(namespace_of, sorted(paths)))

    def touch(self, tx: Transaction, items: Iterable[StoredItem], *, now: int) -> None:
        """Postpone the expiry of items that were read. Do nothing outside of a running task."""
        if not self._position.writable:
            return
        names = {row_key(item.place): item for item in items if item.ttl is not None}
        view = self._view(tx, now)
        found = memory_rows.load_named(tx, view, THREAD_ITEM, names)
        ends = _expiries(tx, view, list(found.values()))
        drafts = []
        for name, version in found.items():
            ttl, end = version.extra.get("ttl", 0), ends.get(version.number)
            new_end = item_rows.expiry_of(ttl, now)
            if end is not None and (new_end - end) * TOUCH_DIVISOR > ttl * item_rows.MINUTE_MICROS:
                drafts.append(VersionDraft(ITEM_READ, name, b"", now, extra={"of": version.number, "ends": new_end}))
        if drafts:
            _, place = self._position.open_for_write(tx, now)
            self._write(tx, place, drafts, now)

    def lock(self, tx: Transaction, places: Iterable[ItemPlace]) -> None:
        """Do nothing. Parallel tasks do not see each other's writes, so they need no locks."""
        del tx, places

    def write(self, tx: Transaction, changes: ItemChanges, locked: None = None, *, now: int) -> None:
        """Write items, or delete those without a draft.

        Raises:
            InvalidInput: No task is running.
            StepIsOver: Another attempt of the task has replaced this one.
        """
        del locked  # thread items are not locked
        view, place = self._position.open_for_write(tx, now)
        names = {row_key(at): at for at in changes}
        found = memory_rows.load_named(tx, view, THREAD_ITEM, names)
        created = {version.key: version.created_at for version in unexpired_items(tx, view, list(found.values()))}
        reads = memory_rows.load_named(tx, view, ITEM_READ, names)
        drafts = [VersionDraft(ITEM_READ, name, None, now) for name in reads]
        for name, at in names.items():
            draft = changes[at]
            if draft is not None:
                drafts.append(_thread_item_draft(name, at, draft, created.get(name, now), now))
            elif name in found:
                drafts.append(VersionDraft(THREAD_ITEM, name, None, now))
        self._write(tx, place, drafts, now)

    def index_filter(self, request: ItemQuery) -> SearchFilter:
        """Return the filter for the namespace of the thread, including items of other threads."""
        del request
        return SearchFilter(self._position.path, self._position.path + "\x1f", kinds=(THREAD_ITEM,))

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _view(self, tx: Transaction, now: int) -> MemoryView:
        if self._cached_view is None:
            self._cached_view = self._position.view(tx, now)
        return self._cached_view

    def _items_within(self, tx: Transaction, low: str, high: str, now: int) -> list[MemoryVersion]:
        """Return the unexpired items in a range of namespaces."""
        view = self._view(tx, now)
        items = memory_rows.load_current(tx, view, THREAD_ITEM)
        return unexpired_items(tx, view, [version for version in items if low <= place_of(version).path < high])

    def _search_items(self, tx: Transaction, request: ItemQuery, now: int) -> list[ItemHit]:
        view = self._view(tx, now)
        search_filter = views.position_filter(tx, self._position, view, (THREAD_ITEM,))

        def items_of(hits: Sequence[SearchHit]) -> Iterator[ItemHit]:
            scores = {hit.owner: hit.score for hit in hits}
            visible = self._visible_items(tx, view, list(scores))  # the index also holds items of other checkpoints
            in_range = (version for version in visible if request.low <= place_of(version).path < request.high)
            return (_make_hit(_item_from_version(version), scores[version.number]) for version in in_range)

        return best_items(tx, request, search_filter, now, items_of)

    @staticmethod
    def _visible_items(tx: Transaction, view: MemoryView, owners: Sequence[int]) -> list[MemoryVersion]:
        """Return the unexpired items that a view shows, in the given order."""
        visible = memory_rows.visible_numbers(tx, view, owners)
        found = query.memory_hits(tx, ids=json.dumps([owner for owner in owners if owner in visible]))
        unexpired = {version.number: version for version in unexpired_items(tx, view, list(map(version_of, found)))}
        return [unexpired[owner] for owner in owners if owner in unexpired]

    def _write(self, tx: Transaction, place: memory_rows.WriteTarget, drafts: Sequence[VersionDraft], now: int) -> None:
        series = DocumentSeries(self._position.path, THREAD_ITEM, self._position.name)
        memory_rows.write(tx, place, drafts, series=series, now=now)


def unexpired_items(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> list[MemoryVersion]:
    """Return the items that have not expired at the time of the view.

    Args:
        tx: The transaction.
        view: The view.
        items: Items that the view shows.
    """
    ends = _expiries(tx, view, items)
    return [version for version in items if (end := ends.get(version.number)) is None or end > view.time]


def _expiries(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> dict[int, int]:
    """Return the times at which items expire, by their numbers. Other items have no entry."""
    ends = {version.number: int(version.extra["ends"]) for version in items if "ends" in version.extra}
    if ends:
        keys = [version.key for version in items if version.number in ends]
        reads = memory_rows.load_named(tx, view, ITEM_READ, keys)
        ends |= {each.extra["of"]: each.extra["ends"] for each in reads.values() if each.extra["of"] in ends}
    return ends


def row_key(at: ItemPlace) -> str:
    """Return the key of an item's row: its namespace and key as JSON, or a hash of that."""
    name = as_json([namespace_of(at.path), at.key])
    return name if len(name) <= MAX_NAME_CHARS else blake2b(name.encode(), digest_size=32).hexdigest()


def place_of(version: MemoryVersion) -> ItemPlace:
    """Return the namespace and the key of an item."""
    return ItemPlace(version.label or "", version.extra["key"])


def _thread_item_draft(name: str, at: ItemPlace, draft: ItemDraft, created_at: int, now: int) -> VersionDraft:
    extra: dict[str, Any] = {"key": at.key, "words": draft.text}
    if draft.field_texts is not None:
        extra["named"] = draft.field_texts
    if draft.ttl is not None:
        extra |= {"ttl": draft.ttl, "ends": item_rows.expiry_of(draft.ttl, now)}
    return VersionDraft(
        THREAD_ITEM, name, draft.value, created_at, label=at.path, extra=extra, findable=bool(draft.text),
        source=draft.source, actor=draft.actor,
    )  # fmt: skip


def _item_from_version(version: MemoryVersion) -> StoredItem:
    times = version.created_at, version.written_at
    return StoredItem(version.number, place_of(version), version.body, *times, version.extra.get("ttl"))


def load_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of items, by the ids of their rows.

    Args:
        tx: The transaction.
        owners: The ids of the rows.
    """
    rows = query.item_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: item_rows.indexed_texts(row["value"], row["indexed"]) for row in rows}


def to_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: object
) -> Mapping[int, Recollection]:
    """Convert hits to recollections, by document number.

    Args:
        tx: The transaction.
        hits: Items that a search found. Deleted and expired items are left out.
        now: The time.
        search_view: Ignored, since shared items are visible in every view.
    """
    del search_view
    rows = {row["id"]: row for row in query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)}
    values = {
        number: (
            "\n".join(item_rows.indexed_texts(row["value"], row["indexed"])),
            decode_value(bytes(row["value"]), row["path"], row["key"]),
        )
        for number, row in rows.items()
    }
    return views.recollections_of(hits, rows, values)


def load_thread_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of items of threads, by the ids of their rows.

    Args:
        tx: The transaction.
        owners: The ids of the rows.
    """
    found = query.memory_texts(tx, ids=json.dumps(list(owners)))
    extras = {row["id"]: memory_rows.extra_of(row) for row in found}
    return {number: tuple(extra.get("named") or (extra["words"],)) for number, extra in extras.items()}


def thread_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert visible and unexpired hits to recollections, by document number.

    Args:
        tx: The transaction.
        hits: Items of threads that a search found.
        now: The time.
        search_view: The view that determines which items are visible.
    """
    ids: dict[int, str] = {}

    def values_of(view: MemoryView | None, versions: list[MemoryVersion]) -> dict[int, tuple[str, Any]]:
        unexpired = [] if view is None else unexpired_items(tx, view, versions)
        ids.update({each.number: place_of(each).key for each in unexpired})
        return {
            each.number: (search_words(each.body, each.extra), decode_value(each.body, *place_of(each)))
            for each in unexpired
        }

    visible = views.visible_recollections(tx, hits, now, search_view, values_of)
    return {number: replace(found, kind="item", id=ids[found.row[1]]) for number, found in visible.items() if found.row}


def add_new_items(tx: Transaction, drafts: Mapping[ItemPlace, ItemDraft], *, now: int) -> int:
    """Write items, except expired ones and those that exist already.

    Args:
        tx: The transaction.
        drafts: The items.
        now: The time.

    Returns:
        The number of added items.
    """
    existing = item_rows.get(tx, drafts, now=now)
    new: dict[ItemPlace, ItemDraft | None] = {
        at: draft
        for at, draft in drafts.items()
        if at not in existing
        and (draft.times is None or draft.times.expires_at is None or draft.times.expires_at > now)
    }
    item_rows.write(tx, new, now=now)
    return len(new)


def _erase_items(tx: Transaction, erasure: Erasure) -> None:
    if erasure.name is None:  # items and values of byte stores belong to no thread
        erasure.removed["blobs"] += byte_store.erase(tx, erasure.low, erasure.high)
        erasure.removed["items"] += item_rows.erase(tx, erasure.low, erasure.high)


PART = Part(
    search_kinds={
        "item": (
            SearchableKind(index_name="item", texts=load_texts, recollections=to_recollections),
            SearchableKind(index_name="thread_item", texts=load_thread_texts, recollections=thread_recollections),
        )
    },
    tables={"items": ("item",), "blobs": ("blob",)},
    verify={
        "blobs": lambda tx: byte_store.find_problems(tx, *path_range(())),
        "items": lambda tx: item_rows.find_problems(tx, *path_range(())),
    },
    erase=_erase_items,
)
