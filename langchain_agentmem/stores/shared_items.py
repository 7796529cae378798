"""What a batch asks of the place where items are kept, and the place that all threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from langchain_agentmem.base.namespaces import Namespace
from langchain_agentmem.search.memory_search import Walls
from langchain_agentmem.storage import Steps
from langchain_agentmem.stores import item_rows, item_search
from langchain_agentmem.stores.item_rows import Draft, Place, Stored
from langchain_agentmem.stores.item_search import Found, Look


class Items(Protocol):
    """Where items are kept. One is made for each transaction; `now` is always when, in microseconds since 1970."""

    def get(self, places: Iterable[Place], *, now: int) -> Steps[dict[Place, Stored]]:
        """The items at some places, but for those that are not there or have expired."""
        ...

    def find(self, look: Look, *, now: int) -> Steps[list[Found]]:
        """The items that fit: the best first for a question, else the newest first and those of one time by key."""
        ...

    def namespaces(
        self,
        low: str,
        high: str,
        fits: Callable[[Namespace], bool],
        *,
        depth: int | None,
        limit: int,
        offset: int,
        now: int,
    ) -> Steps[list[Namespace]]:
        """The namespaces that hold items, in order: see `search.namespaces`."""
        ...

    def touch(self, items: Iterable[Stored], *, now: int, tail: int) -> Steps[None]:
        """Put off the end of items that were read."""
        ...

    def lock(self, places: Iterable[Place]) -> Steps[None]:
        """What is read from now on at places that will be written stays as it is read until then."""
        ...

    def write(self, changes: Mapping[Place, Draft | None], *, now: int, tail: int) -> Steps[None]:
        """Write items, or delete them where there is no draft."""
        ...

    def walls(self, look: Look) -> Walls:
        """Where the index is asked for the words that are looked for."""
        ...


class SharedItems:
    """Items that belong to no thread."""

    def __init__(self) -> None:
        self._locked: item_rows.Locked | None = None

    def get(self, places: Iterable[Place], *, now: int) -> Steps[dict[Place, Stored]]:
        """The items at some places, but for those that are not there or have expired."""
        return (yield from item_rows.get(places, now=now))

    def find(self, look: Look, *, now: int) -> Steps[list[Found]]:
        """The items that fit."""
        return (yield from item_search.find(look, now=now))

    def namespaces(
        self,
        low: str,
        high: str,
        fits: Callable[[Namespace], bool],
        *,
        depth: int | None,
        limit: int,
        offset: int,
        now: int,
    ) -> Steps[list[Namespace]]:
        """The namespaces that hold items, in order."""
        return (yield from item_search.namespaces(low, high, fits, depth=depth, limit=limit, offset=offset, now=now))

    def touch(self, items: Iterable[Stored], *, now: int, tail: int) -> Steps[None]:
        """Put off the end of items that were read."""
        del tail  # their texts stay as they are
        yield from item_rows.touch(items, now=now)

    def lock(self, places: Iterable[Place]) -> Steps[None]:
        """What is read from now on at places that will be written stays as it is read until then."""
        self._locked = yield from item_rows.lock(places)

    def write(self, changes: Mapping[Place, Draft | None], *, now: int, tail: int) -> Steps[None]:
        """Write items, or delete them where there is no draft."""
        yield from item_rows.write(changes, self._locked, now=now, tail=tail)

    def walls(self, look: Look) -> Walls:
        """The namespaces that are looked in."""
        return look.walls
