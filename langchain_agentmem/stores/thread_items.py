"""The items of a thread: kept as rows that rewind with it, and read as a view shows them.

An item is a row whose body is its value. When it ends is told by the row, and by a later row of another kind that says
that somebody read it: a reading puts the end off and leaves the item itself alone, so that a step that only read does
not undo what a step beside it wrote. Whether an item has ended is judged by the time of the view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import Kept, View, kept_of
from langchain_agentmem.rewinding.outlook import walls_around
from langchain_agentmem.rewinding.thread_memory import ThreadPoint
from langchain_agentmem.search.memory_search import Hit, Walls
from langchain_agentmem.search.search_index import Series
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.stores import item_search
from langchain_agentmem.stores.item_rows import MINUTE, ItemDraft, ItemPlace, StoredItem, read
from langchain_agentmem.stores.item_search import FoundItem, Look, NamespaceListing

KIND = "thread_item"
READ_KIND = "thread_item_read"
"""The kind of a row that puts off the end of an item."""

LONGEST_NAME = 1_000
"""Characters of a row's key; PostgreSQL's indexes have no room for many more."""
WORTHWHILE = 100
"""A reading is noted if it puts the end of an item off by more than the hundredth part of its time to live."""


class ThreadItems:
    """The items that a task of a thread sees, or a checkpoint shows. Made for one transaction, within which it stays.

    Args:
        point: The thread.
    """

    def __init__(self, point: ThreadPoint) -> None:
        self._point = point
        self._seen: View | None = None

    def get(self, tx: Transaction, places: Iterable[ItemPlace], *, now: int) -> dict[ItemPlace, StoredItem]:
        """The items at some places, but for those that are not there or have expired."""
        view = self._view(tx, now)
        names = {name_of(at): at for at in places}
        there = memory_rows.named(tx, view, KIND, names)
        living = alive(tx, view, list(there.values()))
        return {place_of(kept): _stored(kept) for kept in living}

    def find(self, tx: Transaction, look: Look, *, now: int) -> list[FoundItem]:
        """The items that fit: the best first for a question, else the newest first and those of one time by key."""
        if look.limit == 0:
            return []
        if look.question:
            return self._answers(tx, look, now)
        items = [_stored(kept) for kept in self._within(tx, look.low, look.high, now)]
        items.sort(key=lambda item: (-item.updated_at, item.at.key, item.at.path))
        found = map(_found, items)
        wanted = look.wanted
        fitting = found if wanted is None else (each for each in found if item_search.fits(each.value, wanted))
        return list(islice(fitting, look.offset, look.offset + look.limit))

    def namespaces(self, tx: Transaction, listing: NamespaceListing, *, now: int) -> list[Namespace]:
        """The namespaces that hold items, in order."""
        found: dict[Namespace, None] = {}
        listing.add(found, sorted({place_of(kept).path for kept in self._within(tx, listing.low, listing.high, now)}))
        return listing.page(found)

    def touch(self, tx: Transaction, items: Iterable[StoredItem], *, now: int, tail: int) -> None:
        """Put off the end of items that were read; outside of a task nothing can be noted, and nothing is."""
        if not self._point.writable:
            return
        names = {name_of(item.at): item for item in items if item.ttl is not None}
        view = self._view(tx, now)
        there = memory_rows.named(tx, view, KIND, names)
        ends = _ends(tx, view, list(there.values()))
        drafts = []
        for name, kept in there.items():
            until, end = _end(kept.extra["ttl"], now) if "ttl" in kept.extra else 0, ends.get(kept.number)
            if end is not None and (until - end) * WORTHWHILE > kept.extra["ttl"] * MINUTE:
                drafts.append(memory_rows.RowDraft(READ_KIND, name, b"", now, extra={"of": kept.number, "ends": until}))
        if drafts:
            _, place = self._point.open(tx, now)
            self._write(tx, place, drafts, now, tail)

    def lock(self, tx: Transaction, places: Iterable[ItemPlace]) -> None:
        """Do nothing: what others write meanwhile is not seen in this step."""
        del tx, places

    def write(
        self,
        tx: Transaction,
        changes: Mapping[ItemPlace, ItemDraft | None],
        locked: None = None,
        *,
        now: int,
        tail: int,
    ) -> None:
        """Write items, or delete them where there is no draft.

        Raises:
            InvalidInput: This is no task.
            StepIsOver: Another attempt of the task has taken its place.
        """
        del locked  # nothing is
        view, place = self._point.open(tx, now)
        names = {name_of(at): at for at in changes}
        there = memory_rows.named(tx, view, KIND, names)
        begun = {kept.key: kept.created_at for kept in alive(tx, view, list(there.values()))}
        reads = memory_rows.named(tx, view, READ_KIND, names)
        drafts = [memory_rows.RowDraft(READ_KIND, name, None, now) for name in reads]
        for name, at in names.items():
            draft = changes[at]
            if draft is not None:
                drafts.append(_draft(name, at, draft, begun.get(name, now), now))
            elif name in there:
                drafts.append(memory_rows.RowDraft(KIND, name, None, now))
        self._write(tx, place, drafts, now, tail)

    def walls(self, look: Look) -> Walls:
        """The thread's namespace: which of its items are meant is known when they are read."""
        del look
        return Walls(self._point.path, self._point.path + "\x1f", kinds=(KIND,))

    # -- the parts of the above ----------------------------------------------------------------------------------------

    def _view(self, tx: Transaction, now: int) -> View:
        if self._seen is None:
            self._seen = self._point.view(tx, now)
        return self._seen

    def _within(self, tx: Transaction, low: str, high: str, now: int) -> list[Kept]:
        """The items in a range of namespaces."""
        view = self._view(tx, now)
        every = memory_rows.current(tx, view, KIND)
        return alive(tx, view, [kept for kept in every if low <= place_of(kept).path < high])

    def _answers(self, tx: Transaction, look: Look, now: int) -> list[FoundItem]:
        view = self._view(tx, now)
        walls = walls_around(tx, self._point, view, (KIND,))

        def items_of(hits: Sequence[Hit]) -> Iterator[FoundItem]:
            scores = {hit.owner: hit.score for hit in hits}
            shown = self._shown(tx, view, list(scores))  # some may belong to other checkpoints
            return (_found(_stored(kept), scores[kept.number]) for kept in shown if look.within(place_of(kept).path))

        return item_search.best_items(tx, look, walls, now, items_of)

    @staticmethod
    def _shown(tx: Transaction, view: View, owners: Sequence[int]) -> list[Kept]:
        """Those of some rows that a view shows, in their order."""
        seen = memory_rows.shown(tx, view, owners)
        found = query.remembered(tx, ids=json.dumps([owner for owner in owners if owner in seen]))
        living = {kept.number: kept for kept in alive(tx, view, list(map(kept_of, found)))}
        return [living[owner] for owner in owners if owner in living]

    def _write(
        self, tx: Transaction, place: memory_rows.Place, drafts: Sequence[memory_rows.RowDraft], now: int, tail: int
    ) -> None:
        series = Series(self._point.path, KIND, self._point.name)
        memory_rows.write(tx, place, drafts, series=series, now=now, tail=tail)


def alive(tx: Transaction, view: View, items: Sequence[Kept]) -> list[Kept]:
    """Those of some items that have not expired, by the time of the view that shows them.

    Args:
        tx: The transaction.
        view: The view.
        items: Items that it shows.
    """
    ends = _ends(tx, view, items)
    return [kept for kept in items if (end := ends.get(kept.number)) is None or end > view.at]


def _ends(tx: Transaction, view: View, items: Sequence[Kept]) -> dict[int, int]:
    """When items end, by their numbers; those that do not end are not there."""
    ends = {kept.number: int(kept.extra["ends"]) for kept in items if "ends" in kept.extra}
    if ends:
        reads = memory_rows.named(tx, view, READ_KIND, [kept.key for kept in items if kept.number in ends])
        ends |= {each.extra["of"]: each.extra["ends"] for each in reads.values() if each.extra["of"] in ends}
    return ends


def name_of(at: ItemPlace) -> str:
    """The key of the row of an item."""
    name = as_json([namespace_of(at.path), at.key])
    return name if len(name) <= LONGEST_NAME else blake2b(name.encode(), digest_size=32).hexdigest()


def place_of(kept: Kept) -> ItemPlace:
    """Where an item is."""
    return ItemPlace(kept.label or "", kept.extra["key"])


def value_of(kept: Kept) -> dict[str, Any]:
    """The value of an item, made anew.

    Raises:
        DatabaseUnreadable: The stored bytes are damaged.
    """
    return read(kept.body, *place_of(kept))


def _draft(name: str, at: ItemPlace, draft: ItemDraft, begun: int, now: int) -> memory_rows.RowDraft:
    extra: dict[str, Any] = {"key": at.key, "words": draft.text}
    if draft.named is not None:
        extra["named"] = draft.named
    if draft.ttl is not None:
        extra |= {"ttl": draft.ttl, "ends": _end(draft.ttl, now)}
    return memory_rows.RowDraft(
        KIND, name, draft.value, begun, label=at.path, extra=extra, findable=bool(draft.text), source=draft.source,
        actor=draft.actor,
    )  # fmt: skip


def _end(ttl: float, now: int) -> int:
    return now + round(ttl * MINUTE)


def _stored(kept: Kept) -> StoredItem:
    return StoredItem(kept.number, place_of(kept), kept.body, kept.created_at, kept.written_at, kept.extra.get("ttl"))


def _found(item: StoredItem, score: float | None = None) -> FoundItem:
    return FoundItem(item, read(item.value, *item.at), score)
