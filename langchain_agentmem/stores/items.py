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
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig, ensure_embeddings

from langchain_agentmem.closing import Closing
from langchain_agentmem.database import Database, database_of
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput
from langchain_agentmem.items import store
from langchain_agentmem.items.store import PAGE, Stored
from langchain_agentmem.items.values import ttl_of
from langchain_agentmem.retrieval.search import inquiry
from langchain_agentmem.storage import Operation
from langchain_agentmem.stores.configs import Ready
from langchain_agentmem.stores.operations import Batch, Fields, checked_fields
from langchain_agentmem.stores.sweeping import Sweeper

SWEEP_MINUTES = 5.0
"""Between two sweeps, unless something else is asked for."""


class AgentMemoryStore(Closing, BaseStore):
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

    supports_ttl = True

    def __init__(self, memory: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self.index_config, self._fields = _index(index)
        self.embeddings = _embeddings(self.index_config)
        self.ttl_config = _ttl(ttl)
        self.database: Database = database_of(memory)
        if self.embeddings is not None and self.index_config is not None:
            self.database.embed_with(self.embeddings, self.index_config["dims"])
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
        return f"AgentMemoryStore({self.database.engine.path!r})"

    # -- operations --------------------------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction.

        Args:
            ops: `GetOp`, `SearchOp`, `PutOp` and `ListNamespacesOp`, in any mixture.

        Returns:
            The result of each, in their order: an item or None, a list of items, None, or a list of namespaces.

        Raises:
            InvalidInput: An operation is wrong, or a value cannot be stored as JSON. Nothing was written.
            StorageError: The database failed. Nothing was written.
        """
        batch = self._batch(ops)
        now, tail = self.database.now(), self.database.tail
        self._embed(batch, now)
        if batch.writes:
            found = self.database.write(batch.name, lambda: batch.run(now, tail=tail), batch.shown)
        else:
            found = self.database.read(batch.name, lambda: batch.read(now), batch.shown)
            if found.touched:
                with contextlib.suppress(DatabaseReadOnly):  # who may only read still reads
                    self.database.engine.write(_touching(found.touched, now))
        return batch.answers(found)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, awaited."""
        batch = self._batch(ops)
        now, tail = self.database.now(), self.database.tail
        if (embedder := self.database.embedder) is not None and batch.asks:
            await embedder.in_thread(self._embed, batch, now)
        if batch.writes:
            found = await self.database.awrite(batch.name, lambda: batch.run(now, tail=tail), batch.shown)
        else:
            found = await self.database.aread(batch.name, lambda: batch.read(now), batch.shown)
            if found.touched:
                with contextlib.suppress(DatabaseReadOnly):
                    await self.database.engine.awrite(_touching(found.touched, now))
        return batch.answers(found)

    # -- expiry ------------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Delete what has expired, some hundred items in a transaction, so that nobody waits for long.

        Returns:
            How many items were deleted.
        """
        now, swept, count = self.database.now(), 0, PAGE
        while count == PAGE:
            count = self.database.write("store.sweep", lambda: store.sweep(now=now))
            swept += count
        return swept

    async def asweep_ttl(self) -> int:
        """`sweep_ttl`, awaited."""
        now, swept, count = self.database.now(), 0, PAGE
        while count == PAGE:
            count = await self.database.awrite("store.sweep", lambda: store.sweep(now=now))
            swept += count
        return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep in the background, until `stop_ttl_sweeper`, `close`, or the end of this store.

        Args:
            sweep_interval_minutes: Minutes between two sweeps. Default: those of the configuration, else 5.

        Returns:
            What is done when the sweeper has ended, and ends it when cancelled. While one runs, it stays the only one.

        Raises:
            InvalidInput: The interval is no positive number of minutes.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        given = configured if sweep_interval_minutes is None else sweep_interval_minutes
        minutes = ttl_of(given) or SWEEP_MINUTES
        if self._sweeper is None or not self._sweeper.running:
            self._sweeper = Sweeper(self, AgentMemoryStore.sweep_ttl, minutes * 60)
        return self._sweeper.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping in the background.

        Args:
            timeout: Seconds to wait for a sweep that has begun. Default: as long as it takes.

        Returns:
            Whether the sweeper has ended, or there was none.
        """
        return self._sweeper is None or self._sweeper.stop(timeout)

    def _embed(self, batch: Batch, now: int) -> None:
        embedder = self.database.embedder
        if embedder is not None and batch.asks:
            batch.embed(lambda look: embedder.near(inquiry(look.question, now), look.walls))

    def _batch(self, ops: Iterable[Op]) -> Batch:
        return Batch(ops, self.ttl_config or {}, self._fields)


def _touching(items: list[Stored], now: int) -> Operation[None]:
    return lambda: store.touch(items, now=now)


def _index(index: Any) -> tuple[IndexConfig | None, Fields | None]:
    """The configuration of the index, and the fields that it names."""
    if index is None:
        return None, None
    if not isinstance(index, Mapping):
        raise InvalidInput(f"index must be a dictionary such as {{'fields': ['text']}}, not {index!r:.100}.")
    dims = index.get("dims")
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise InvalidInput(f"index['dims'] must be a positive whole number, not {dims!r:.100}.")
    fields = checked_fields("index['fields']", index.get("fields") or index.get("text_fields") or ["$"])
    config = IndexConfig(**{**index, "fields": list(fields or ("$",))})  # type: ignore[typeddict-item]
    return config, fields


def _embeddings(index: IndexConfig | None) -> Embeddings | None:
    embed = None if index is None else index.get("embed")
    if embed is None:
        return None
    if not isinstance(embed, str) and not callable(embed) and not isinstance(embed, Embeddings):
        raise InvalidInput(
            f"index['embed'] must be Embeddings, a function or 'provider:model', not {type(embed).__name__}."
        )
    if index is None or index.get("dims") is None:
        raise InvalidInput("index['embed'] needs index['dims'], the numbers of a vector.")
    return ensure_embeddings(embed)


def _ttl(ttl: Any) -> TTLConfig | None:
    if ttl is None:
        return None
    if not isinstance(ttl, Mapping):
        raise InvalidInput(f"ttl must be a dictionary such as {{'default_ttl': 60}}, not {ttl!r:.100}.")
    ttl_of(ttl.get("default_ttl"))
    ttl_of(ttl.get("sweep_interval_minutes"))
    return TTLConfig(**ttl)  # type: ignore[typeddict-item]
