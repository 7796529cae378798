"""`AgentMemoryStore`: LangGraph's store of long-term items, in the one database.

    with AgentMemoryStore.from_conn_string("agent.db", ttl={"default_ttl": 60 * 24}) as store:
        store.put(("users", "ana"), "home", {"city": "Lisbon"})
        store.search(("users",), query="Who lives in Lisbon?")

One class serves synchronous and asynchronous code, threads and processes. A batch is one transaction: its reads see
what was there before its writes, of several writes to one key the last counts, and when anything is wrong nothing is
written. (What a batch of reads alone has read is put off, where it has a ttl, in a transaction of its own, so that
readers do not wait for writers.)

Where the stores that come with LangGraph disagree: an update keeps the time at which the item was made; what has
expired is not read any more, swept or not; without a query the last updated comes first, then by key; `$ne` matches a
key that is not there and ordering operators do not; conditions may be nested and keys may have dots; values are kept
exactly, and what is returned is the caller's own. A search by words needs no `index`, and finds only what fits.

The namespace is given by each call, as LangGraph has it: that of a run's config is not applied here.

Items are found by their words without any model; they expire when they are told to, and are gone at that moment.

    from langchain_agentmem import AgentMemoryStore

    with AgentMemoryStore.from_conn_string("agent.db", ttl={"default_ttl": 60 * 24 * 30}) as store:
        store.put(("users", "ana"), "home", {"city": "Lisbon", "since": 2020})
        store.put(("users", "ana"), "tea", {"likes": "green tea", "stars": 4}, ttl=None)  # this one stays
        print(store.get(("users", "ana"), "home").value)
        print(store.search(("users",), query="Who lives in Lisbon?")[0].key)
        print(store.search(("users",), filter={"stars": {"$gte": 4}})[0].key)

`AgentMemory("agent.db").store` is the same store, for `builder.compile(store=memory.store)`, and `memory.search`
finds its items beside messages. `store.start_ttl_sweeper()` frees the room of what has expired.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

from langgraph.store.base import IndexConfig, TTLConfig

from langchain_agentmem.base.closing import Answer, Closing, Ready
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.base.sweeping import Ending, Sweeper
from langchain_agentmem.storage.database import Database
from langchain_agentmem.stores import item_rows
from langchain_agentmem.stores.item_rows import PAGE
from langchain_agentmem.stores.item_values import ttl_of
from langchain_agentmem.stores.serving import ItemStore
from langchain_agentmem.stores.shared_items import Items, SharedItems

SWEEP_MINUTES = 5.0
"""Between two sweeps, unless something else is asked for."""


class AgentMemoryStore(Closing, ItemStore):
    """LangGraph's store of long-term items.

    Args:
        memory: An `AgentMemory`, or a path, ":memory:" or "postgresql://…". A file is shared with everything else in
            this process that was built from its path.
        index: LangGraph's `IndexConfig`: "fields" (also "text_fields"), the paths whose texts items are found by
            unless a put names its own (default: all text and numbers of the value); "embed" and "dims", the embeddings.
            Items are found by their words without any of it.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl", "refresh_on_read" and "sweep_interval_minutes". What
            has expired is never read, whatever "omit_expired" says.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings that it names, or None.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    _part = "store"

    def __init__(self, memory: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        super().__init__(memory, index, ttl)
        self._sweeper: Sweeper | None = None
        self._owned = False

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Self:
        """Open a database for this store alone, as the stock stores do.

        Args:
            conn_string: A path, ":memory:" or "postgresql://…".
            index: See the class.
            ttl: See the class.

        Returns:
            The store, to be used with `with` or `async with`, or closed by hand.
        """
        database = Database(conn_string)
        try:
            opened = cls(database, index=index, ttl=ttl)
        except BaseException:
            database.close()
            raise
        opened._owned = True
        return opened

    def setup(self) -> Ready:
        """Do nothing: the database is ready when it is open. May be awaited too."""
        return Ready()

    def close(self) -> None:
        """Stop the sweeper, and close the database if this store opened it for itself."""
        self.stop_ttl_sweeper()
        if self._owned:
            self.database.close()

    def __repr__(self) -> str:
        return f"AgentMemoryStore({safe_repr(self.database.engine.path)})"

    # -- expiry ------------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> Answer:
        """Delete what has expired, some hundred items in a transaction, so that nobody waits for long.

        `await store.sweep_ttl()`, as users of `AsyncSqliteStore` write it, does the same; the event loop waits
        meanwhile, which it does not for `await store.asweep_ttl()`.

        Returns:
            How many items were deleted: a number that may be awaited.
        """
        now, swept, count = self.database.now(), 0, PAGE
        while count == PAGE:
            count = self.database.write("store.sweep", lambda: item_rows.sweep(now=now), outputs=_swept)
            swept += count
        return Answer(swept)

    async def asweep_ttl(self) -> int:
        """`sweep_ttl`, awaited."""
        now, swept, count = self.database.now(), 0, PAGE
        while count == PAGE:
            count = await self.database.awrite("store.sweep", lambda: item_rows.sweep(now=now), outputs=_swept)
            swept += count
        return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Ending:
        """Sweep in the background, until `stop_ttl_sweeper`, `close`, or the end of this store.

        Args:
            sweep_interval_minutes: Minutes between two sweeps. Default: those of the configuration, else 5.

        Returns:
            A `concurrent.futures.Future` that is done when the sweeper has ended, and ends it when cancelled; `await
            store.start_ttl_sweeper()` gives something that can be awaited and cancelled as an asyncio task. While one
            sweeper runs, it stays the only one.

        Raises:
            InvalidInput: The interval is no positive number of minutes.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        given = configured if sweep_interval_minutes is None else sweep_interval_minutes
        minutes = ttl_of(given) or SWEEP_MINUTES
        if self._sweeper is None or not self._sweeper.running:
            self._sweeper = Sweeper(self, AgentMemoryStore.sweep_ttl, minutes * 60)
        return self._sweeper.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Answer:
        """Stop sweeping in the background. May be awaited too.

        Args:
            timeout: Seconds to wait for a sweep that has begun. Default: as long as it takes.

        Returns:
            Whether the sweeper has ended, or there was none.
        """
        return Answer(self._sweeper is None or self._sweeper.stop(timeout))

    def _opened(self) -> Callable[[], Items]:
        return SharedItems


def _swept(count: int) -> dict[str, Any]:
    return {"deleted": count}
