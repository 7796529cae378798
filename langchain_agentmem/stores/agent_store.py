"""`AgentMemoryStore`: LangGraph's store of long-term items, in the one database.

    with AgentMemoryStore.from_conn_string("agent.db", ttl={"default_ttl": 60 * 24}) as store:
        store.put(("users", "ana"), "home", {"city": "Lisbon"})
        store.search(("users",), query="Who lives in Lisbon?")

One class serves synchronous and asynchronous code, threads and processes. A batch is one transaction. Its reads see the
state before its writes, the last of several writes to one key wins, and after an error nothing is written. (A batch of
reads alone puts off the expiry of items with a ttl in a transaction of its own, so that readers do not wait for
writers.)

LangGraph's own stores disagree on some points. In this store, an update keeps an item's creation time. Expired items
are not readable, swept or not. Without a query, the last updated item comes first, then the order is by key. `$ne`
matches a missing key, and ordering operators do not. Conditions may be nested, and keys may have dots. Values are
stored exactly, and each result is a copy. A search by words needs no `index`, and returns only matching items.

Each call passes the namespace, as in LangGraph. The namespace of a run's config is not applied here.

Items are searchable by their words without any model. They expire after their ttl, and are unreadable from that moment
on.

    from langchain_agentmem import AgentMemoryStore

    with AgentMemoryStore.from_conn_string("agent.db", ttl={"default_ttl": 60 * 24 * 30}) as store:
        store.put(("users", "ana"), "home", {"city": "Lisbon", "since": 2020})
        store.put(("users", "ana"), "tea", {"likes": "green tea", "stars": 4}, ttl=None)  # this one stays
        print(store.get(("users", "ana"), "home").value)
        print(store.search(("users",), query="Who lives in Lisbon?")[0].key)
        print(store.search(("users",), filter={"stars": {"$gte": 4}})[0].key)

`AgentMemory("agent.db").store` is the same store, for `builder.compile(store=memory.store)`, and `memory.search`
finds its items next to messages. `store.start_ttl_sweeper()` deletes expired items in the background.

`AgentMemoryThreadStore`: LangGraph's store of long-term items, for one thread, and rewound with it.

    graph = builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)

    def node(state, runtime):
        runtime.store.put(("plan",), "step", {"text": "Buy a ticket to Lisbon."})

Use the store in the nodes of a graph. It belongs to the thread that runs there, and other threads do not see it. A
checkpoint shows the items of its time, so after a rewind to an earlier checkpoint, later items are not visible. A node
that is executed again puts once. The graph needs this memory's checkpointer.

    store = memory.thread_store.at(config)   # from outside, to look at a checkpoint: read-only

The store implements LangGraph's contract as `AgentMemoryStore` does, with two differences. Parallel nodes see each
other's puts only after the step. Expiry depends on the time of the checkpoint, so that a past checkpoint always shows
the same items.

The cost of `get` and of a search for words does not depend on the number of items of a thread. A search without words
and a list of namespaces read all items of the thread, so the store suits hundreds of items, or a few thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from langchain_core.embeddings import Embeddings
from langgraph.store import base as langgraph
from langgraph.store.base import BaseStore, IndexConfig, Op, PutOp, Result, TTLConfig
from pydantic import PositiveInt

from langchain_agentmem.base.argument_checks import check_timeout, check_value
from langchain_agentmem.base.concurrency import (
    AwaitableNumber,
    Closable,
    CompletedAwaitable,
    awaited,
    check_cancelled,
    run_in_worker,
)
from langchain_agentmem.base.namespaces import Namespace, ThreadLike, path_of, running_config
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, StepIsOver, safe_repr
from langchain_agentmem.rewinding.thread_memory import ThreadPosition, thread_position
from langchain_agentmem.search import vectors
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import make_vector_query
from langchain_agentmem.search.vectors import VectorQuery, embed_with, embedder_of
from langchain_agentmem.storage.background import Lease, Task, TaskKey
from langchain_agentmem.storage.database import Database, LazyDatabase, MemoryLike, database_of
from langchain_agentmem.storage.engine import DatabaseOptions, OpeningOptions
from langchain_agentmem.stores import item_rows, store_batch
from langchain_agentmem.stores.item_rows import PAGE_SIZE, check_ttl
from langchain_agentmem.stores.item_search import ItemQuery, SharedItems, ThreadItems
from langchain_agentmem.stores.store_batch import Answers, Batch, Fields, Items
from langchain_agentmem.tracing import RunType

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=BaseStore)


def _with_check(
    check: Callable[..., object],
    method: Callable[Concatenate[S, P], T],
    amethod: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Wrap a method of LangGraph's and its async version with a check of their arguments.

    LangGraph builds operations before a store sees the arguments, and refuses namespaces with its own errors.

    Args:
        check: Checks the arguments first, and raises an error of this package for an invalid namespace.
        method: The method.
        amethod: Its async version.
    """

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        check(*args, **kwargs)
        return method(self, *args, **kwargs)

    @wraps(amethod)
    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        check(*args, **kwargs)
        return await amethod(self, *args, **kwargs)

    return call, acall


# LangGraph's method reports missing or excess arguments under its own name.
def _check_namespaces(*args: Any, **kwargs: Any) -> None:
    namespaces = (*args[:1], kwargs.get("namespace", ()), kwargs.get("prefix") or (), kwargs.get("suffix") or ())
    for namespace in namespaces:
        store_batch.path_of_items(namespace)


def _check_put(namespace: Any = (), *_: Any, **__: Any) -> None:
    store_batch.path_of_items(namespace)
    if not namespace or namespace[0] == "langgraph":
        raise store_batch.InvalidNamespace(
            f"An item cannot be in {safe_repr(namespace)}: a namespace has a label, and its first is not 'langgraph'."
        )


class IndexOptions(IndexConfig, total=False):
    """LangGraph's `IndexConfig` with the options of this package; see `AgentMemoryStore`.

    Attributes:
        text_fields: Another name for "fields".
    """

    text_fields: list[str]


IndexLike: TypeAlias = IndexConfig | IndexOptions


class ItemStore(BaseStore):
    """A store of items.

    Args:
        memory: An `AgentMemory`, a `Database`, or a path or URL.
        index: LangGraph's `IndexConfig`.
        ttl: LangGraph's `TTLConfig`.

    Attributes:
        database: The database of the items.
        index_config: The configuration of the index, or None.
        embeddings: The embeddings of that configuration, or None.
        ttl_config: The configuration of expiry, or None.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    supports_ttl = True
    _part: str

    def __init__(self, memory: MemoryLike, index: IndexLike | None, ttl: TTLConfig | None) -> None:
        self.index_config, self._fields = parse_index(index)
        config: Any = self.index_config or {}
        self.embeddings: Embeddings | None = config.get("embed")
        self.ttl_config = _parse_ttl(ttl)
        self.database: Database = database_of(memory)
        if self.embeddings is not None:
            embed_with(self.database, self.embeddings, config["dims"])

    get, aget = _with_check(_check_namespaces, BaseStore.get, BaseStore.aget)
    search, asearch = _with_check(_check_namespaces, BaseStore.search, BaseStore.asearch)
    put, aput = _with_check(_check_put, BaseStore.put, BaseStore.aput)
    delete, adelete = _with_check(_check_namespaces, BaseStore.delete, BaseStore.adelete)
    list_namespaces, alist_namespaces = _with_check(
        _check_namespaces, BaseStore.list_namespaces, BaseStore.alist_namespaces
    )

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction.

        Args:
            ops: `GetOp`, `SearchOp`, `PutOp` and `ListNamespacesOp`, in any mixture.

        Returns:
            The result of each, in their order: an item or None, a list of items, None, or a list of namespaces.

        Raises:
            InvalidInput: An operation is invalid, or a value cannot be stored as JSON. Nothing was written.
            StorageError: The database failed. Nothing was written.
        """
        batch = Batch(ops, self.ttl_config or {}, self._fields, self._base_namespace(), self.database.limits)
        open_items = self._item_opener()
        now = self.database.now()
        run_type: RunType = "retriever" if batch.verb == "search" else "chain"
        with self.database.step(f"{self._part}.{batch.verb}", batch.trace_inputs, run_type) as step:
            results, touched = self._run(batch, open_items, now)
            step.finish(lambda: batch.trace_outputs(results))
        if touched:
            with contextlib.suppress(DatabaseReadOnly, StepIsOver):  # a read-only role can still read
                self.database.engine.write(lambda tx: open_items().touch(tx, touched, now=now))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async version of `batch`."""
        if not isinstance(ops, Iterable):
            return self.batch(ops)  # it is refused
        operations = list(ops)
        return await run_in_worker(
            lambda: self.batch(operations), writes=any(isinstance(op, PutOp) for op in operations)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.database.engine.path)})"

    def _run(self, batch: Batch, open_items: Callable[[], Items], now: int) -> Answers:
        check_cancelled()
        engine = self.database.engine

        def vector_of(item_query: ItemQuery) -> VectorQuery | None:
            return make_vector_query(
                self.database, analyze_query(item_query.question, now), open_items().index_filter(item_query)
            )

        batch.embed(vector_of)
        if not batch.changes:
            return engine.read(lambda tx: batch.read(tx, open_items(), now))
        answers = engine.write(lambda tx: batch.run(tx, open_items(), now))
        if (embedder := embedder_of(self.database)) is not None:
            embedder.wake(self.database)
        return answers

    def _item_opener(self) -> Callable[[], Items]:
        """Return a factory that opens the items, for each transaction anew.

        This call decides whose items they are.
        """
        raise NotImplementedError

    def _base_namespace(self) -> Namespace:
        """Return the namespace that precedes the namespaces of all operations."""
        return ()


_INDEX_KEYS = ("embed", "dims", "fields", "text_fields", "distance_type", "ann_index_config")
"""The keys of an index, which `IndexOptions` and LangGraph's store on PostgreSQL have."""


def _check_keys(name: str, value: Any, known: Collection[str], example: str) -> None:
    """Check that a value is a dictionary with known keys only."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a dictionary such as {example}, not {safe_repr(value)}.")
    if unknown := [key for key in value if key not in known]:
        raise InvalidInput(f"There is no option {safe_repr(unknown[0])}. Options: {', '.join(known)}.")


def parse_index(index: Any) -> tuple[IndexConfig | None, Fields | None]:
    """Check LangGraph's `IndexConfig`; return it and its fields.

    Its "embed" becomes the embeddings object.

    Raises:
        InvalidInput: The configuration is invalid.
    """
    if index is None:
        return None, None
    _check_keys("index", index, _INDEX_KEYS, "{'fields': ['text']}")
    embed, dims = index.get("embed"), check_value(PositiveInt | None, index.get("dims"), "index['dims']")
    fields = store_batch.check_fields(
        "index['fields']", index.get("fields") or index.get("text_fields") or [store_batch.WHOLE_VALUE]
    )
    config: IndexConfig = {**index, "fields": list(fields or (store_batch.WHOLE_VALUE,))}  # type: ignore[typeddict-item]
    if embed == vectors.STATIC_NAME:
        config["dims"] = dims or vectors.STATIC_DIMENSIONS
    if embed is not None:
        config["embed"] = _make_embeddings(embed, config.get("dims"))
    return config, fields


def _make_embeddings(embed: Any, dims: int | None) -> Embeddings:
    if not isinstance(embed, str) and not callable(embed) and not isinstance(embed, Embeddings):
        raise InvalidInput(
            f"index['embed'] must be Embeddings, a function, 'provider:model' or 'static', not {type(embed).__name__}."
        )
    if dims is None:
        raise InvalidInput("index['embed'] needs index['dims'], the numbers of a vector.")
    if embed != vectors.STATIC_NAME:
        try:
            return langgraph.ensure_embeddings(embed)
        except (ImportError, ValueError) as error:  # of a name: there is no such provider, or it is not installed
            raise InvalidInput(f"index['embed'] cannot be made of {safe_repr(embed)}: {error}") from error
    if dims != vectors.STATIC_DIMENSIONS:
        raise InvalidInput(
            f"The static embeddings have {vectors.STATIC_DIMENSIONS} dimensions, not {dims}: leave index['dims'] out."
        )
    return vectors.StaticEmbeddings()


def _parse_ttl(ttl: Any) -> TTLConfig | None:
    if ttl is None:
        return None
    _check_keys("ttl", ttl, TTLConfig.__annotations__, "{'default_ttl': 60}")
    check_ttl(ttl.get("default_ttl"))
    check_ttl(ttl.get("sweep_interval_minutes"))
    return TTLConfig(**ttl)  # type: ignore[typeddict-item]


SWEEP_MINUTES = 5.0
"""Minutes between two sweeps. Default of `start_ttl_sweeper`."""


class Sweeper(Future[None]):
    """A future whose background task sweeps a store periodically.

    It ends when it is cancelled or stopped, or when the store is gone, which it references weakly.

    The future is done when the task has ended. Awaiting it returns a task of asyncio immediately, and both end
    together.
    """

    def __init__(self, store: AgentMemoryStore, seconds: float) -> None:
        super().__init__()
        self._store, self._seconds = weakref.ref(store), seconds
        key = TaskKey(path_of(store._base_namespace()), "sweep")
        self._task = Task(store.database.background, key, lambda _: 0.0, self._sweep, on_stop=self._end)
        self.add_done_callback(lambda _: self._task.stop())
        weakref.finalize(store, self._task.stop).atexit = False
        self._task.wake_in(seconds)

    def __await__(self) -> Generator[Any, None, asyncio.Task[None]]:
        async def ended(future: asyncio.Future[None]) -> None:
            await future

        yield from ()
        task = asyncio.create_task(ended(asyncio.wrap_future(self)))
        task.add_done_callback(lambda _: self.cancel())  # it may be cancelled before it begins
        return task

    def stop(self, timeout: float | None) -> bool:
        """Stop sweeping and wait; return true if the sweeper has ended. None waits without limit."""
        self._task.stop()
        return self._task.wait(timeout)

    def _sweep(self, _: Lease) -> float:
        if (store := self._store()) is None:
            self._task.stop()
        else:
            store.sweep_ttl()
        return self._seconds

    def _end(self) -> None:
        with contextlib.suppress(InvalidStateError):  # it was cancelled
            self.set_result(None)


class AgentMemoryStore(Closable, ItemStore):
    """LangGraph's store of long-term items.

    Args:
        memory: An `AgentMemory`, or a path, ":memory:" or "postgresql://…". A file is shared with everything else in
            this process that was built from its path.
        index: LangGraph's `IndexConfig`: "fields" (also "text_fields"), the paths whose texts items are found by
            unless a put names its own (default: all text and numbers of the value); "embed" and "dims", the embeddings:
            LangChain `Embeddings`, a function, "provider:model", or "static" for those of the extra `[static]`, which
            know their "dims". Without any of them, items are searchable by their words. The score of an item combines
            words and, with embeddings, vectors. It is about 1 for a short text with every word of the query, more if
            vectors agree, and comparable within one search only.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl", "refresh_on_read" and "sweep_interval_minutes". Expired
            items are never read, whatever "omit_expired" says.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings of that configuration, or None.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    _part = "store"

    def __init__(self, memory: MemoryLike, *, index: IndexLike | None = None, ttl: TTLConfig | None = None) -> None:
        super().__init__(memory, index, ttl)
        self._sweeper: Sweeper | None = None
        self._owns_database = False

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str | os.PathLike[str],
        *,
        index: IndexLike | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[OpeningOptions],
    ) -> Self:
        """Open a database for this store alone, as the stock stores do.

        Args:
            conn_string: A path, ":memory:" or "postgresql://…".
            index: See the class.
            ttl: See the class.
            **options: Options for opening the database, as with `AgentMemory`: schema, pool_size, timeout, key and so
                on.

        Returns:
            The store. Use it with `with` or `async with`, or call `close`.
        """
        store = cls(LazyDatabase(conn_string, DatabaseOptions.of(options)), index=index, ttl=ttl)
        store._owns_database = True
        return store

    def setup(self) -> CompletedAwaitable:
        """Do nothing: an open database is ready. The result may be awaited."""
        return CompletedAwaitable()

    def close(self) -> None:
        """Stop the sweeper, and close the database if this store opened it for itself."""
        self.stop_ttl_sweeper()
        if self._owns_database:
            self.database.close()

    # -- expiry ------------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> AwaitableNumber:
        """Delete expired items, some hundred in a transaction, so that nobody waits for long.

        `await store.sweep_ttl()`, as users of `AsyncSqliteStore` write it, does the same, but it blocks the event loop.
        `await store.asweep_ttl()` does not.

        Returns:
            The number of deleted items, which may be awaited.
        """
        now, swept, count = self.database.now(), 0, PAGE_SIZE
        while count == PAGE_SIZE:
            count = self.database.write(
                "store.sweep", lambda tx: item_rows.sweep(tx, now=now), outputs=lambda count: {"deleted": count}
            )
            swept += count
        return AwaitableNumber(swept)

    asweep_ttl = awaited(sweep_ttl, writes=True)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Sweeper:
        """Sweep in the background, until `stop_ttl_sweeper`, `close`, or the end of this store.

        Args:
            sweep_interval_minutes: Minutes between two sweeps. Default: those of the configuration, else 5.

        Returns:
            A `concurrent.futures.Future` that is done when the sweeper has ended, and ends it when cancelled; `await
            store.start_ttl_sweeper()` returns an `asyncio.Task` for it. While a sweeper runs, no other one starts.

        Raises:
            InvalidInput: The interval is no positive number of minutes.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        interval = configured if sweep_interval_minutes is None else sweep_interval_minutes
        minutes = check_ttl(interval) or SWEEP_MINUTES
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = Sweeper(self, min(minutes * 60, threading.TIMEOUT_MAX))
        return self._sweeper

    def stop_ttl_sweeper(self, timeout: float | None = None) -> AwaitableNumber:
        """Stop sweeping in the background. The result may be awaited.

        Args:
            timeout: Seconds to wait for a sweep that has begun. Default: as long as it takes.

        Returns:
            True if the sweeper has ended, or none was running.

        Raises:
            InvalidInput: The time to wait is no number of seconds.
        """
        timeout = check_timeout(timeout)
        return AwaitableNumber(self._sweeper is None or self._sweeper.stop(timeout))

    def _item_opener(self) -> Callable[[], Items]:
        return SharedItems

    def _base_namespace(self) -> Namespace:
        return self.database.scopes.boundary or ()


class AgentMemoryThreadStore(ItemStore):
    """LangGraph's store of long-term items, of the thread that is running.

    Args:
        memory: The `AgentMemory` whose checkpointer the graph has.
        index: LangGraph's `IndexConfig`, see `AgentMemoryStore`.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl" and "refresh_on_read". Nothing is swept, since past
            checkpoints show items that have expired since.
        config: The thread whose items to use, see `at`. Default: the thread that is running when a method is called.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings of that configuration, or None.

    Raises:
        InvalidInput: An argument is wrong. Each method raises it too if no thread is running.
        StorageError: The database cannot be opened.
    """

    _part = "thread_store"

    def __init__(
        self,
        memory: MemoryLike,
        *,
        index: IndexLike | None = None,
        ttl: TTLConfig | None = None,
        config: ThreadLike | None = None,
    ) -> None:
        super().__init__(memory, index, ttl)
        self._config = config
        if config is not None:
            thread_position(self.database, config)  # reports errors immediately

    def at(self, config: ThreadLike) -> Self:
        """Return this store at a checkpoint, or at a thread's newest one. It is read-only.

        Args:
            config: A config that names the thread, and optionally a checkpoint. A node's config or `Runtime` refers to
                the node. So does, in a node, a config that names its thread and no checkpoint. For a node, the store is
                writable.

        Raises:
            InvalidInput: The config names no thread.
        """
        return type(self)(self.database, index=self.index_config, ttl=self.ttl_config, config=config)

    def _item_opener(self) -> Callable[[], Items]:
        if self._config is None:
            configurable = (running_config() or {}).get("configurable")
            if not isinstance(configurable, Mapping) or configurable.get("thread_id") is None:
                raise InvalidInput(
                    "The store of a thread is used in the nodes of a graph that runs with a thread_id; no thread is "
                    "running here. To look at one from outside, use thread_store.at(config)."
                )
        point = self._point()
        return lambda: ThreadItems(point)

    def _point(self) -> ThreadPosition:
        return thread_position(self.database, self._config)
