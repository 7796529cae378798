"""The search of items by filter or words, for shared items and for items of threads.

Without a filter, a search reads only the requested page. With a filter, it reads growing pages until enough items
match. A search for words requests more and more results from the index until enough items match.

Filters are evaluated in Python, so that SQLite and PostgreSQL return equal results:

    matches_filter({"kind": "note", "size": {"width": 3}}, {"kind": "note", "size.width": {"$gte": 2}})  # True

A condition is a plain value that must be equal, a dictionary of operators, or a dictionary of conditions on the keys of
a nested dictionary. `$and` and `$or` take a list of conditions, and `$not` takes one. These three may also be keys of
the filter itself. A missing key has the value None, so the condition None matches it, `$ne` matches it unless its
operand is None, and ordering operators do not. They also do not match values that Python cannot order. Comparing never
raises an error. `check_filter` reports an invalid filter before the first item is read.

An item of a thread is stored as a row of the thread's memory, so it rewinds with the thread. The row contains the time
of expiry. If a read postpones the expiry, a second row stores the new time, and the item's row stays unchanged. So a
step that only reads does not undo the writes of a parallel step. The items in a view of a checkpoint expire by the time
of the checkpoint, not by the clock.
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
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView, VersionDraft, read_version, search_words
from langchain_agentmem.rewinding.search_view import SearchView
from langchain_agentmem.rewinding.thread_memory import ThreadPosition
from langchain_agentmem.search import memory_search
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
        limits: The limits of the memory. `limits.conditions` is the maximum number of conditions.

    Returns:
        The filter; None for an empty one.

    Raises:
        InvalidInput: The filter is not a dictionary with string keys, is too large, or has an operator that is unknown
            or not supported at that level.
    """
    if conditions is None:
        return None
    limits.check("conditions", _count_conditions(conditions, MAX_DEPTH + 1, is_filter=True), "The filter")
    return dict(conditions) or None


def required_text(conditions: Mapping[str, Any]) -> bytes | None:
    """Return the longest text that every matching value contains, as stored bytes.

    With this text, the database excludes most values before Python decodes any. None if no condition requires a text.
    """
    texts = sorted(_required_texts(conditions), key=len)  # the longest is last
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
    has_comparison = any(_is_operator(key) and key not in _LOGICAL_OPERATORS for key in condition)
    count = 0
    for key, inner in condition.items():
        _check_filter_key(key, inner, is_filter=is_filter, has_comparison=has_comparison)
        if key in {"$and", "$or"}:
            count += sum(_count_conditions(each, depth - 1, is_filter=is_filter) for each in inner)
        elif _is_operator(key) and key != "$not":
            count += len(inner) if key in _LIST_OPERATORS else 1
        else:
            count += _count_conditions(inner, depth - 1, is_filter=is_filter and key == "$not")
    return count


def _check_filter_key(key: Any, inner: Any, *, is_filter: bool, has_comparison: bool) -> None:
    """Raise an error for an unsupported key or operator, or for an operator without its list.

    Next to a comparison such as `$gte`, a condition may have operators only.
    """
    if is_filter and not isinstance(key, str):
        raise InvalidInput(f"The keys of a filter must be strings, not {safe_repr(key)}.")
    supported = _LOGICAL_OPERATORS if is_filter else tuple(_OPERATORS)
    if (_is_operator(key) or (has_comparison and not is_filter)) and key not in supported:
        raise InvalidInput(
            f"Unsupported operator {safe_repr(key)} in a filter. Valid here: {', '.join(supported)}. To compare a "
            'value, write {"<key>": {"$gte": …}}.'
        )
    if key in _LIST_OPERATORS and (not isinstance(inner, list | tuple) or not inner):
        raise InvalidInput(f"{key} must be a non-empty list, not {safe_repr(inner)}.")


def _is_operator(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("$")


def matches_filter(value: Any, condition: Any) -> bool:
    """Return whether a value matches a condition, or every condition of a filter.

    Args:
        value: The value of an item, or a part of it.
        condition: The filter that `check_filter` returned, or a part of it.
    """
    if isinstance(condition, Mapping):
        needs_mapping = not condition or not all(map(_is_operator, condition))  # a condition on keys of the value
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
    except (ArithmeticError, ValueError):  # such as a signalling NaN or NumPy arrays
        return False


def _safe_compare(compare: Compare) -> Compare:
    """Return a comparison that is false for values that Python cannot order."""

    def compare_safely(value: Any, other: Any) -> bool:
        try:
            return bool(compare(value, other))
        except (TypeError, ArithmeticError, ValueError):  # such as text and a number, Decimal("NaN"), or arrays
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


FIRST_PAGE, LARGEST_PAGE = 100, 2_000
"""The number of rows in the first page of a search, and the maximum number. Pages grow by a factor of 4."""
LATEST_TIME = 2**62
"""A time in microseconds that is later than any stored time. The first page of items begins at this time."""


class ItemQuery(NamedTuple):
    """A query for items.

    Attributes:
        low: The first path of the range of namespaces to search.
        high: The end of the range, excluded.
        conditions: The result of `check_filter`.
        text: The text to search for. Empty: no search by words.
        limit: The maximum number of results.
        offset: The number of results to skip.
        dense: The embedding of the text, or None without embeddings.
    """

    low: str
    high: str
    conditions: Mapping[str, Any] | None
    text: str
    limit: int
    offset: int
    dense: VectorQuery | None = None


class ItemHit(NamedTuple):
    """A search result: the item, its decoded value and, for a query with a text, its score."""

    item: StoredItem
    value: dict[str, Any]
    score: float | None


def find(tx: Transaction, request: ItemQuery, *, now: int) -> list[ItemHit]:
    """Return the items that match a query.

    With a text, the best come first. Otherwise the most recently updated come first; items of the same time are
    sorted by key.
    """
    if request.limit == 0:
        return []
    if request.text:
        return _search_items(tx, request, now)
    if request.conditions is None:
        return list(map(_hit_from_row, _newest_rows(tx, request, now, request.limit, request.offset, None)))
    return _filter_items(tx, request, request.conditions, now)


def namespaces(tx: Transaction, low: str, high: str, *, now: int) -> Iterator[Namespace]:
    """Yield the namespaces in a range of paths that contain unexpired items, in order."""
    after, size = "", FIRST_PAGE
    while rows := query.namespaces_of_items(tx, low=low, after=after, high=high, now=now, limit=size):
        yield from (namespace_of(row["path"]) for row in rows)
        if len(rows) < size:
            return
        after, size = rows[-1]["path"], min(size * 4, LARGEST_PAGE)


def find_best_items(
    tx: Transaction,
    request: ItemQuery,
    search_filter: SearchFilter,
    now: int,
    load_hits: Callable[[Sequence[SearchHit]], Iterable[ItemHit]],
) -> list[ItemHit]:
    """Return the items that match the text of a query best, the best first.

    Args:
        tx: The transaction.
        request: The query, with the text, and the conditions that items must meet.
        search_filter: The filter for the index.
        now: The time, in microseconds since 1970.
        load_hits: A function that loads the items of search hits, without hidden and expired ones.
    """
    analyzed = analyze_query(request.text, now)
    end = request.offset + request.limit
    size = max(FIRST_PAGE, 2 * end)
    while True:
        search_hits = memory_search.search(tx, analyzed, search_filter, limit=size, dense=request.dense)
        items = list(load_hits(search_hits))
        if request.conditions is not None:
            items = [item for item in items if matches_filter(item.value, request.conditions)]
        if len(items) >= end or len(search_hits) < size:
            return items[request.offset : end]
        size *= 4


def _search_items(tx: Transaction, request: ItemQuery, now: int) -> list[ItemHit]:
    def load_hits(hits: Sequence[SearchHit]) -> Iterator[ItemHit]:
        rows = query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)
        rows_by_id = {row["id"]: row for row in rows}
        return (_hit_from_row(rows_by_id[hit.owner], hit.score) for hit in hits if hit.owner in rows_by_id)

    return find_best_items(tx, request, _index_filter(request), now, load_hits)


def _index_filter(request: ItemQuery) -> SearchFilter:
    """Return the filter for the namespaces of a query."""
    return SearchFilter(request.low, request.high, kinds=(item_rows.ITEM_KIND,))


def _filter_items(tx: Transaction, request: ItemQuery, conditions: Mapping[str, Any], now: int) -> list[ItemHit]:
    matching: list[ItemHit] = []
    last: Row | None = None
    size = max(FIRST_PAGE, request.limit)
    while len(matching) < request.offset + request.limit:
        rows = _newest_rows(tx, request, now, size, 0, last)
        matching += [hit for hit in map(_hit_from_row, rows) if matches_filter(hit.value, conditions)]
        if len(rows) < size:
            break
        last, size = rows[-1], min(size * 4, LARGEST_PAGE)
    return matching[request.offset : request.offset + request.limit]


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
    return _make_hit(item_rows.item_from_row(row, item_rows.ItemPlace(row["path"], row["key"])), score)


def _make_hit(item: StoredItem, score: float | None = None) -> ItemHit:
    return ItemHit(item, decode_value(item.value, *item.place), score)


class SharedItems:
    """The items that belong to no thread. Implements `ItemAccess` for a batch."""

    get = staticmethod(item_rows.get)
    find = staticmethod(find)
    namespaces = staticmethod(namespaces)
    lock = staticmethod(item_rows.lock)
    touch = staticmethod(item_rows.touch)
    index_filter = staticmethod(_index_filter)
    write = staticmethod(item_rows.write)


THREAD_ITEM = "thread_item"
ITEM_READ = "thread_item_read"
"""The kind of a row that stores the postponed expiry of an item after a read."""

MAX_ROW_KEY_CHARS = 1_000
"""The maximum length of a row's key. Longer keys are hashed, since PostgreSQL limits the size of index entries."""
TOUCH_DIVISOR = 100
"""A read postpones the expiry of an item only by more than 1/`TOUCH_DIVISOR` of its ttl, to limit the writes."""


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
        """Return the items at the given places, except missing and expired ones."""
        view = self._load_view(tx, now)
        versions = memory_rows.load_named(tx, view, THREAD_ITEM, dict.fromkeys(map(make_row_key, places)))
        unexpired = unexpired_items(tx, view, list(versions.values()))
        return {parse_place(version): _item_from_version(version) for version in unexpired}

    def find(self, tx: Transaction, request: ItemQuery, *, now: int) -> list[ItemHit]:
        """Return the items that match a query, in the order of the function `find`."""
        if request.limit == 0:
            return []
        if request.text:
            return self._search_items(tx, request, now)
        items = list(map(_item_from_version, self._items_within(tx, request.low, request.high, now)))
        items.sort(key=lambda item: (-item.updated_at, item.place.key, item.place.path))
        hits = map(_make_hit, items)
        conditions = request.conditions
        matching = hits if conditions is None else (hit for hit in hits if matches_filter(hit.value, conditions))
        return list(islice(matching, request.offset, request.offset + request.limit))

    def namespaces(self, tx: Transaction, low: str, high: str, *, now: int) -> list[Namespace]:
        """Return the namespaces in a range of paths that contain unexpired items, in order."""
        paths = {parse_place(version).path for version in self._items_within(tx, low, high, now)}
        return list(map(namespace_of, sorted(paths)))

    def touch(self, tx: Transaction, items: Iterable[StoredItem], *, now: int) -> None:
        """Postpone the expiry of items that were read. Do nothing outside of a running task."""
        if not self._position.writable:
            return
        row_keys = dict.fromkeys(make_row_key(item.place) for item in items if item.ttl is not None)
        view = self._load_view(tx, now)
        versions = memory_rows.load_named(tx, view, THREAD_ITEM, row_keys)
        expiries = _load_expiries(tx, view, list(versions.values()))
        drafts = []
        for row_key, version in versions.items():
            ttl, expiry = version.extra.get("ttl", 0), expiries.get(version.number)
            new_expiry = item_rows.compute_expiry(ttl, now)
            if expiry is not None and (new_expiry - expiry) * TOUCH_DIVISOR > ttl * item_rows.MINUTE_MICROS:
                extra = {"of": version.number, "ends": new_expiry}
                drafts.append(VersionDraft(ITEM_READ, row_key, b"", now, extra=extra))
        if drafts:
            _, target = self._position.open_for_write(tx, now)
            self._write(tx, target, drafts, now)

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
        view, target = self._position.open_for_write(tx, now)
        row_keys = {make_row_key(place): place for place in changes}
        existing = memory_rows.load_named(tx, view, THREAD_ITEM, row_keys)
        created = {version.key: version.created_at for version in unexpired_items(tx, view, list(existing.values()))}
        reads = memory_rows.load_named(tx, view, ITEM_READ, row_keys)
        drafts = [VersionDraft(ITEM_READ, row_key, None, now) for row_key in reads]  # a body of None deletes the row
        for row_key, place in row_keys.items():
            draft = changes[place]
            if draft is not None:
                drafts.append(_make_item_draft(row_key, place, draft, created.get(row_key, now), now))
            elif row_key in existing:
                drafts.append(VersionDraft(THREAD_ITEM, row_key, None, now))
        self._write(tx, target, drafts, now)

    def index_filter(self, request: ItemQuery) -> SearchFilter:
        """Return a filter for the namespace of the thread, which includes items of other threads."""
        del request  # the paths in a query apply to items, and the index has the path of the thread
        return SearchFilter(self._position.path, self._position.path + "\x1f", kinds=(THREAD_ITEM,))

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _load_view(self, tx: Transaction, now: int) -> MemoryView:
        if self._cached_view is None:
            self._cached_view = self._position.view(tx, now)
        return self._cached_view

    def _items_within(self, tx: Transaction, low: str, high: str, now: int) -> list[MemoryVersion]:
        """Return the unexpired items in a range of namespaces."""
        view = self._load_view(tx, now)
        items = memory_rows.load_current(tx, view, THREAD_ITEM)
        return unexpired_items(tx, view, [version for version in items if low <= parse_place(version).path < high])

    def _search_items(self, tx: Transaction, request: ItemQuery, now: int) -> list[ItemHit]:
        view = self._load_view(tx, now)
        search_filter = views.position_filter(tx, self._position, view, (THREAD_ITEM,))

        def load_hits(hits: Sequence[SearchHit]) -> Iterator[ItemHit]:
            scores = {hit.owner: hit.score for hit in hits}
            visible = self._visible_items(tx, view, list(scores))  # the index also has items of other checkpoints
            in_range = (version for version in visible if request.low <= parse_place(version).path < request.high)
            return (_make_hit(_item_from_version(version), scores[version.number]) for version in in_range)

        return find_best_items(tx, request, search_filter, now, load_hits)

    @staticmethod
    def _visible_items(tx: Transaction, view: MemoryView, row_ids: Sequence[int]) -> list[MemoryVersion]:
        """Return the unexpired items that a view shows, in the order of `row_ids`."""
        visible = memory_rows.visible_numbers(tx, view, row_ids)
        rows = query.memory_hits(tx, ids=json.dumps([row_id for row_id in row_ids if row_id in visible]))
        unexpired = {version.number: version for version in unexpired_items(tx, view, list(map(read_version, rows)))}
        return [unexpired[row_id] for row_id in row_ids if row_id in unexpired]

    def _write(self, tx: Transaction, target: memory_rows.WriteTarget, drafts: list[VersionDraft], now: int) -> None:
        series = DocumentSeries(self._position.path, THREAD_ITEM, self._position.name)
        memory_rows.write(tx, target, drafts, series=series, now=now)


def unexpired_items(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> list[MemoryVersion]:
    """Return the items that have not expired at the time of the view.

    Args:
        tx: The transaction.
        view: The view.
        items: Items that the view shows.
    """
    expiries = _load_expiries(tx, view, items)
    return [item for item in items if (expiry := expiries.get(item.number)) is None or expiry > view.time]


def _load_expiries(tx: Transaction, view: MemoryView, items: Sequence[MemoryVersion]) -> dict[int, int]:
    """Return the times at which items expire, by row id, without those that never expire."""
    expiries = {version.number: int(version.extra["ends"]) for version in items if "ends" in version.extra}
    if expiries:
        row_keys = [version.key for version in items if version.number in expiries]
        reads = memory_rows.load_named(tx, view, ITEM_READ, row_keys).values()
        expiries |= {read.extra["of"]: read.extra["ends"] for read in reads if read.extra["of"] in expiries}
    return expiries


def make_row_key(place: ItemPlace) -> str:
    """Return the key of an item's row: its namespace and key as JSON, or a hash of the JSON."""
    text = as_json([namespace_of(place.path), place.key])
    return text if len(text) <= MAX_ROW_KEY_CHARS else blake2b(text.encode(), digest_size=32).hexdigest()


def parse_place(version: MemoryVersion) -> ItemPlace:
    """Return the namespace and the key of an item."""
    return ItemPlace(version.label or "", version.extra["key"])


def _make_item_draft(row_key: str, place: ItemPlace, draft: ItemDraft, created_at: int, now: int) -> VersionDraft:
    extra: dict[str, Any] = {"key": place.key, "words": draft.text}
    if draft.field_texts is not None:
        extra["named"] = draft.field_texts
    if draft.ttl is not None:
        extra |= {"ttl": draft.ttl, "ends": item_rows.compute_expiry(draft.ttl, now)}
    return VersionDraft(
        THREAD_ITEM, row_key, draft.value, created_at, label=place.path, extra=extra, findable=bool(draft.text),
        source=draft.source, actor=draft.actor,
    )  # fmt: skip


def _item_from_version(version: MemoryVersion) -> StoredItem:
    times = version.created_at, version.written_at
    return StoredItem(version.number, parse_place(version), version.body, *times, version.extra.get("ttl"))


def load_texts(tx: Transaction, row_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of items, by the ids of their rows.

    Args:
        tx: The transaction.
        row_ids: The ids of the rows.
    """
    rows = query.item_texts(tx, ids=json.dumps(list(row_ids)))
    return {row["id"]: item_rows.indexed_texts(row["value"], row["indexed"]) for row in rows}


def to_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: object
) -> Mapping[int, Recollection]:
    """Convert search hits to `Recollection`s, and return these by their document numbers.

    Args:
        tx: The transaction.
        hits: Items that a search found. Deleted and expired items are left out.
        now: The time.
        search_view: Ignored, since shared items are visible in every view.
    """
    del search_view
    rows = {row["id"]: row for row in query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)}
    values: dict[int, tuple[str, Any]] = {}
    for row_id, row in rows.items():
        text = item_rows.indexed_text(row["value"], row["indexed"])
        values[row_id] = text, decode_value(bytes(row["value"]), row["path"], row["key"])
    return views.make_recollections(hits, rows, values)


def load_thread_texts(tx: Transaction, row_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of items of threads, by the ids of their rows.

    Args:
        tx: The transaction.
        row_ids: The ids of the rows.
    """
    rows = query.memory_texts(tx, ids=json.dumps(list(row_ids)))
    extras = {row["id"]: memory_rows.read_extra(row) for row in rows}
    return {row_id: tuple(extra.get("named") or (extra["words"],)) for row_id, extra in extras.items()}


def thread_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert the visible, unexpired hits to `Recollection`s, by document number.

    Args:
        tx: The transaction.
        hits: Items of threads that a search found.
        now: The time.
        search_view: The view that determines which items are visible.
    """
    keys: dict[int, str] = {}  # the keys of the items, by row id

    def load_values(view: MemoryView | None, versions: list[MemoryVersion]) -> dict[int, tuple[str, Any]]:
        unexpired = [] if view is None else unexpired_items(tx, view, versions)
        keys.update({each.number: parse_place(each).key for each in unexpired})
        return {
            each.number: (search_words(each.body, each.extra), decode_value(each.body, *parse_place(each)))
            for each in unexpired
        }

    visible = views.visible_recollections(tx, hits, now, search_view, load_values)
    return {document: replace(hit, kind="item", id=keys[hit.row[1]]) for document, hit in visible.items() if hit.row}


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
        place: draft
        for place, draft in drafts.items()
        if place not in existing
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
