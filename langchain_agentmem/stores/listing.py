"""What `list` of the checkpointer gives: checkpoints, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_agentmem.database import Database
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.items.filters import under
from langchain_agentmem.namespaces import config_given, configurable_of, range_of, resolve
from langchain_agentmem.safe_repr import safe_repr
from langchain_agentmem.storage import Steps
from langchain_agentmem.stores.checkpoint_steps import CheckpointStep
from langchain_agentmem.stores.coding import Coding, value_of
from langchain_agentmem.stores.configs import address, readable
from langchain_agentmem.threads import log
from langchain_agentmem.threads.lines import ThreadAt
from langchain_agentmem.threads.log import Key, Saved
from langchain_agentmem.tracing import Thunk

FIRST_KEYS, MOST_KEYS = 500, 8_000
"""Checkpoints whose places are asked for at once. A listing of many threads sorts them all each time, so these grow."""
LARGEST_PAGE = 16

Follow = Callable[[Sequence[str]], Steps[None]]


class Listing:
    """One call of `list`. Nothing is locked between its pages; they are small at first, for those who want few.

    Args:
        database: Where to look.
        coding: Makes what LangGraph is given of what was found.
        serde: The serializer.
        follow: Takes further steps in the transaction that reads a page, given the ids of its checkpoints.
        step: Makes the step of a trace that a page is.
        config: Which thread, and maybe which of its lines or checkpoints; None for all threads.
        wanted: Values that the metadata must have, by key, which may be the way to a nested one, with dots. None or
            empty for any.
        before: Only those before this one.
        limit: Most; None for all.

    Raises:
        InvalidInput: The config names no thread, the filter is no dictionary, or the limit is no number.
    """

    def __init__(
        self,
        database: Database,
        coding: Coding,
        serde: SerializerProtocol,
        follow: Follow,
        step: Callable[[Thunk], CheckpointStep],
        *,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._database = database
        self._coding = coding
        self._serde = serde
        self._follow = follow
        self._step = step
        at, ns, name = (None, None, None) if config is None else address(config, whole_thread=True)
        self._at, self._ns, self._name = at, ns, name
        self._given = None if config is None else config["configurable"]["thread_id"]
        self._low, self._high = range_of(resolve(None, config))
        self._wanted = {} if wanted is None else wanted
        self._before = configurable_of(config_given(before)).get("checkpoint_id")
        if not isinstance(self._wanted, Mapping):
            raise InvalidInput(f"filter must be a dictionary, not {safe_repr(wanted)}.")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise InvalidInput(f"limit must be a whole number, not {safe_repr(limit)}.")
        self._limit = limit

    def pages(self) -> Iterator[Sequence[CheckpointTuple]]:
        """The checkpoints, a page at a time.

        Raises:
            CheckpointUnreadable: One is damaged, or was written with another serializer.
        """
        size = 1
        for keys in self._keys():
            rest = keys
            while rest:
                yield self._load(rest[:size])
                rest, size = rest[size:], min(size * 4, LARGEST_PAGE)

    def _keys(self) -> Iterator[Sequence[Key]]:
        """The places of all that fits, many at a time."""
        left, many = self._limit, FIRST_KEYS
        after: Key | None = None
        while left is None or left > 0:
            most = many if left is None or self._wanted else min(left, many)
            find = partial(
                log.keys, self._at, low=self._low, high=self._high, ns=self._ns, name=self._name, before=self._before,
                after=after, limit=most,
            )  # fmt: skip
            with readable(self._at or ThreadAt(self._low, ""), self._name):
                found = self._database.engine.read(find)
            if not found:
                return
            after, many = found[-1], min(many * 4, MOST_KEYS)
            fitting = [key for key in found if self._fits(key)][:left]
            if left is not None:
                left -= len(fitting)
            yield fitting

    def _fits(self, key: Key) -> bool:
        if not self._wanted:
            return True
        with readable(ThreadAt(key.path, key.thread), key.name, decoding=True):
            metadata = value_of(self._serde, key.metadata)
        return all(under(metadata, name) == value for name, value in self._wanted.items())

    def _asked(self) -> dict[str, Any]:
        """What a trace shows of the call."""
        asked = {"before_id": self._before, "limit": self._limit, "filter": self._wanted or None}
        return {name: value for name, value in asked.items() if value is not None}

    def _load(self, page: Sequence[Key]) -> Sequence[CheckpointTuple]:
        def steps() -> Steps[Sequence[tuple[Key, Saved]]]:
            found = yield from log.load_keys(page, self._coding.prototypes.take)
            yield from self._follow([saved.name for _, saved in found])
            return found

        with readable(ThreadAt(page[0].path, page[0].thread), page[0].name), self._step(self._asked) as step:
            found = self._database.engine.read(steps)
            step.finish(lambda: {"count": len(found), "checkpoint_ids": [saved.name for _, saved in found]})
        return [
            self._coding.tuple(
                self._serde,
                saved,
                key.thread if self._given is None else self._given,
                ThreadAt(key.path, key.thread),
                key.ns,
            )
            for key, saved in found
        ]
