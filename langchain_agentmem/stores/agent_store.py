"""`AgentMemoryStore`: LangGraph's store of long-term items, in the database of the memory.

    from langchain_agentmem import AgentMemoryStore

    with AgentMemoryStore.from_conn_string("agent.db", ttl={"default_ttl": 60 * 24 * 30}) as store:
        store.put(("users", "ana"), "home", {"city": "Lisbon", "since": 2020})
        store.put(("users", "ana"), "tea", {"likes": "green tea", "stars": 4}, ttl=None)  # never expires
        print(store.get(("users", "ana"), "home").value)
        print(store.search(("users",), query="Who lives in Lisbon?")[0].key)
        print(store.search(("users",), filter={"stars": {"$gte": 4}})[0].key)

One class serves synchronous and asynchronous code, threads and processes. A batch is one transaction. Its reads see the
state before its writes. If a batch writes a key several times, the last write applies. After an error nothing is
written. A batch that only reads postpones the expiry of items in a separate transaction, so that readers do not wait
for writers.

LangGraph's own stores differ from each other in some points. In this store, an update keeps an item's creation time.
Expired items are not readable, even before they are swept. Without a query, the most recently updated items come first;
items of the same time are sorted by key. `$ne` matches a missing key, and ordering operators do not. Conditions may be
nested, and keys may have dots. A read returns the value exactly as it was put, as a new object. A search by words needs
neither `index` nor a model, and returns only matching items.

As in LangGraph, the namespace is an argument of each call. The namespace in the config of a run is ignored.

The attribute `store` of an `AgentMemory` is this store, for `builder.compile(store=memory.store)`. `memory.search`
returns both items and messages. `store.start_ttl_sweeper()` deletes expired items in the background.

`AgentMemoryThreadStore`: LangGraph's store of items, for one thread, and rewound with the thread.

    graph = builder.compile(checkpointer=memory.checkpointer, store=memory.thread_store)

    def node(state, runtime):
        runtime.store.put(("plan",), "step", {"text": "Buy a ticket to Lisbon."})

Use the store in the nodes of a graph. It belongs to the thread that runs there, and other threads do not see it. A
checkpoint shows the items of its time, so after a rewind to an earlier checkpoint, later items are not visible. If a
node is executed again, its puts replace those of the first attempt. The graph needs this memory's checkpointer.

    store = memory.thread_store.at(config)   # outside of runs: a read-only view of a checkpoint

The store differs from `AgentMemoryStore` in two more points. Parallel nodes see each other's puts only after the step.
Expiry depends on the time of the checkpoint, so that a past checkpoint always shows the same items.

The cost of `get` and of a search with a query does not depend on the number of items of a thread. A search without a
query and `list_namespaces` read all items of the thread, so the store suits hundreds of items, or a few thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from langchain_core.embeddings import Embeddings
from langgraph.store import base as langgraph
from langgraph.store.base import BaseStore, IndexConfig, Item, Op, PutOp, Result, TTLConfig
from pydantic import PositiveInt

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.argument_checks import check_timeout, check_value
from langchain_agentmem.base.concurrency import AwaitableNumber, Closable, CompletedAwaitable, awaited, run_in_worker
from langchain_agentmem.base.namespaces import Namespace, ThreadLike, path_of, running_config
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, StepIsOver, safe_repr
from langchain_agentmem.rewinding.thread_memory import thread_position
from langchain_agentmem.search import vectors
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import make_vector_query
from langchain_agentmem.search.vectors import VectorQuery, embed_with, embedder_of
from langchain_agentmem.storage import query
from langchain_agentmem.storage.background import Lease, Task, TaskKey
from langchain_agentmem.storage.database import Database, LazyDatabase, MemoryLike, database_of
from langchain_agentmem.storage.engine import DatabaseOptions, OpeningOptions
from langchain_agentmem.stores import item_rows, store_batch
from langchain_agentmem.stores.item_rows import PAGE_SIZE, StoredItem, check_ttl
from langchain_agentmem.stores.item_search import ItemQuery, SharedItems, ThreadItems
from langchain_agentmem.stores.store_batch import Batch, BatchResults, Fields, ItemAccess
from langchain_agentmem.tracing import NULL_STEP, RunType

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=BaseStore)


def _with_check(
    check: Callable[..., object],
    method: Callable[Concatenate[S, P], T],
    amethod: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Wrap a method of `BaseStore` and its async version with a check of the arguments.

    Without this check, LangGraph would check the namespaces first, and raise its own errors.

    Args:
        check: A function with the method's arguments, which raises an error of this package for an invalid namespace.
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


# This function accepts any arguments, since the wrapped method reports missing and excess ones.
def _check_paths(*args: Any, **kwargs: Any) -> None:
    namespaces = (*args[:1], kwargs.get("namespace", ()), kwargs.get("prefix") or (), kwargs.get("suffix") or ())
    for namespace in namespaces:
        store_batch.check_item_namespace(namespace)


def _check_put(namespace: Any = (), *_: Any, **__: Any) -> None:
    store_batch.check_item_namespace(namespace)
    if not namespace or namespace[0] == "langgraph":
        raise store_batch.InvalidNamespace(
            f"Invalid namespace {safe_repr(namespace)}: it needs a label, and the first cannot be 'langgraph'."
        )


class IndexOptions(IndexConfig, total=False):
    """An `IndexConfig` of LangGraph with this package's options; see `AgentMemoryStore`.

    Attributes:
        text_fields: Another name for "fields".
    """

    text_fields: list[str]


IndexLike: TypeAlias = IndexConfig | IndexOptions


class ItemStore(BaseStore):
    """The base class of `AgentMemoryStore` and `AgentMemoryThreadStore`.

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
    _step_prefix: str
    """The prefix of the names of the store's steps in a trace, such as "store" for "store.get"."""

    def __init__(self, memory: MemoryLike, index: IndexLike | None, ttl: TTLConfig | None) -> None:
        self.index_config, self._fields = parse_index(index)
        config: Any = self.index_config or {}
        self.embeddings: Embeddings | None = config.get("embed")
        self.ttl_config = _parse_ttl(ttl)
        self.database: Database = database_of(memory)
        if self.embeddings is not None:
            embed_with(self.database, self.embeddings, config["dims"])

    get, aget = _with_check(_check_paths, BaseStore.get, BaseStore.aget)
    search, asearch = _with_check(_check_paths, BaseStore.search, BaseStore.asearch)
    put, aput = _with_check(_check_put, BaseStore.put, BaseStore.aput)
    delete, adelete = _with_check(_check_paths, BaseStore.delete, BaseStore.adelete)
    list_namespaces, alist_namespaces = _with_check(_check_paths, BaseStore.list_namespaces, BaseStore.alist_namespaces)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction.

        Args:
            ops: Any of `GetOp`, `SearchOp`, `PutOp` and `ListNamespacesOp`.

        Returns:
            The result of each operation, in order: an item or None, a list of items, None, or a list of namespaces.

        Raises:
            InvalidInput: An operation is invalid, or a value cannot be stored as JSON. Nothing is written.
            StorageError: The database failed. Nothing is written.
        """
        batch = Batch(ops, self.ttl_config or {}, self._fields, self._base_namespace(), self.database.limits)
        open_items = self._make_item_opener()
        now = self.database.now()
        run_type: RunType = "retriever" if batch.trace_name == "search" else "chain"
        with self.database.step(f"{self._step_prefix}.{batch.trace_name}", batch.trace_inputs, run_type) as step:
            results, touched = self._run(batch, open_items, now)
            step.finish(lambda: batch.trace_outputs(results))
        if touched:
            self._touch(open_items, touched, now)
        return results

    def _touch(self, open_items: Callable[[], ItemAccess], items: Sequence[StoredItem], now: int) -> None:
        with contextlib.suppress(DatabaseReadOnly, StepIsOver):  # a read-only role can still read
            self.database.engine.write(lambda tx: open_items().touch(tx, items, now=now))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` asynchronously."""
        if not isinstance(ops, Iterable):
            return self.batch(ops)  # raises InvalidInput
        listed = list(ops)
        return await run_in_worker(lambda: self.batch(listed), writes=any(isinstance(op, PutOp) for op in listed))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.database.engine.path)})"

    def _run(self, batch: Batch, open_items: Callable[[], ItemAccess], now: int) -> BatchResults:
        concurrency.check_cancelled()
        engine = self.database.engine

        def make_query_vector(item_query: ItemQuery) -> VectorQuery | None:
            search_filter = open_items().index_filter(item_query)
            return make_vector_query(self.database, analyze_query(item_query.text, now), search_filter)

        batch.embed(make_query_vector)
        if not batch.changes:
            return engine.read(lambda tx: batch.read(tx, open_items(), now))
        results = engine.write(lambda tx: batch.run(tx, open_items(), now))
        if (embedder := embedder_of(self.database)) is not None:
            embedder.wake(self.database)
        return results

    def _make_item_opener(self) -> Callable[[], ItemAccess]:
        """Return a function that makes the `ItemAccess` of a transaction.

        The store of a thread determines the running thread now, not when the returned function is called.
        """
        raise NotImplementedError

    def _base_namespace(self) -> Namespace:
        """Return the namespace that precedes the namespaces of all operations."""
        return ()


_INDEX_KEYS = ("embed", "dims", "fields", "text_fields", "distance_type", "ann_index_config")
"""The keys of `IndexOptions` and of the index config of LangGraph's `PostgresStore`."""


def _check_options(name: str, value: Any, valid_keys: Collection[str], example: str) -> None:
    """Check that an argument is a dictionary with valid keys only."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a dictionary such as {example}, not {safe_repr(value)}.")
    if unknown := [key for key in value if key not in valid_keys]:
        raise InvalidInput(f"Unknown option {safe_repr(unknown[0])}. Valid options: {', '.join(valid_keys)}.")


def parse_index(index: Any) -> tuple[IndexConfig | None, Fields | None]:
    """Check LangGraph's `IndexConfig`; return it and its fields.

    In the result, "embed" is an `Embeddings` object.

    Raises:
        InvalidInput: The configuration is invalid.
    """
    if index is None:
        return None, None
    _check_options("index", index, _INDEX_KEYS, "{'fields': ['text']}")
    embed, dims = index.get("embed"), check_value(PositiveInt | None, index.get("dims"), "index['dims']")
    paths = index.get("fields") or index.get("text_fields") or [store_batch.WHOLE_VALUE]
    fields = store_batch.check_fields("index['fields']", paths)
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
        raise InvalidInput("index['embed'] needs index['dims'], the length of a vector.")
    if embed != vectors.STATIC_NAME:
        try:
            return langgraph.ensure_embeddings(embed)
        except (ImportError, ValueError) as error:  # the provider is unknown or not installed
            raise InvalidInput(f"index['embed'] cannot be created from {safe_repr(embed)}: {error}") from error
    if dims != vectors.STATIC_DIMENSIONS:
        raise InvalidInput(f"'static' has {vectors.STATIC_DIMENSIONS} dimensions, not {dims}: leave index['dims'] out.")
    return vectors.StaticEmbeddings()


def _parse_ttl(ttl: Any) -> TTLConfig | None:
    if ttl is None:
        return None
    _check_options("ttl", ttl, TTLConfig.__annotations__, "{'default_ttl': 60}")
    check_ttl(ttl.get("default_ttl"))
    check_ttl(ttl.get("sweep_interval_minutes"))
    return TTLConfig(**ttl)  # type: ignore[typeddict-item]


SWEEP_MINUTES = 5.0
"""Minutes between two sweeps. Default of `start_ttl_sweeper`."""


class Sweeper(Future[None]):
    """A future whose background task sweeps a store periodically.

    The task ends when the future is cancelled or stopped, or when the store is garbage-collected. The future is done
    when the task has ended. `await` returns an `asyncio.Task` without waiting; cancelling either one cancels both.
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
        async def wait_for_end(future: asyncio.Future[None]) -> None:
            await future

        yield from ()
        task = asyncio.create_task(wait_for_end(asyncio.wrap_future(self)))
        task.add_done_callback(lambda _: self.cancel())  # also if the task is cancelled before it begins
        return task

    def stop(self, timeout: float | None) -> bool:
        """Stop sweeping, and wait for the end of a running sweep.

        Args:
            timeout: The maximum number of seconds to wait. None: no limit.

        Returns:
            True if the sweeper has ended, False after the timeout.
        """
        self._task.stop()
        return self._task.wait(timeout)

    def _sweep(self, _: Lease) -> float:
        if (store := self._store()) is None:
            self._task.stop()
        else:
            store.sweep_ttl()
        return self._seconds

    def _end(self) -> None:
        with contextlib.suppress(InvalidStateError):  # the future is already cancelled
            self.set_result(None)


class AgentMemoryStore(Closable, ItemStore):
    """A LangGraph store of long-term items.

    Args:
        memory: An `AgentMemory`, a path, ":memory:" or "postgresql://…". Objects in this process with the same path
            share the database.
        index: LangGraph's `IndexConfig`. "fields", or "text_fields", are the paths of the texts to index, unless a put
            passes its own paths. Default: all text and numbers of the value. "embed" are the embeddings: LangChain
            `Embeddings`, a function, "provider:model", or "static" for the model of the extra `[static]`. "dims" is the
            length of a vector; "static" needs none. Without embeddings, items are searched by words only. The score
            of an item combines words and, with embeddings, vectors. It is about 1 for a short text with every word of
            the query, and higher if its vector is near. Scores are comparable only within one search.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl", "refresh_on_read" and "sweep_interval_minutes". Expired
            items are never returned; "omit_expired" is ignored.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings of that configuration, or None.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    _step_prefix = "store"

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
        """Open a database for this store alone, as LangGraph's own stores do.

        Args:
            conn_string: A path, ":memory:" or "postgresql://…".
            index: As in the class.
            ttl: As in the class.
            **options: The options of `AgentMemory` for opening the database: schema, pool_size, timeout, key and so on.

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

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return an item, as LangGraph's `BaseStore.get` does; None if it is missing or expired.

        Args:
            namespace: The namespace.
            key: The key.
            refresh_ttl: True to postpone the expiry. Default: "refresh_on_read" of `ttl`, else True.

        Raises:
            InvalidInput: The namespace or the key is invalid.
            StorageError: The database failed.
        """
        database, base = self.database, self._base_namespace()
        if not isinstance(key, str) or database.step("store.get") is not NULL_STEP:  # a batch checks and traces
            return super().get(namespace, key, refresh_ttl=refresh_ttl)
        place = store_batch.make_place(namespace, key, base)
        concurrency.check_cancelled()
        now = database.now()
        rows = database.engine.select(query.find_item, path=place.path, key=place.key, now=now)
        if not rows:
            return None
        stored = item_rows.item_from_row(rows[0], place)
        item = store_batch.make_item(stored, base)
        if stored.ttl is not None and store_batch.should_refresh(self.ttl_config or {}, refresh_ttl):
            self._touch(SharedItems, [stored], now)
        return item

    # -- expiry ------------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> AwaitableNumber:
        """Delete expired items in several short transactions, so that writers never wait long.

        In async code, use `await store.asweep_ttl()`. For compatibility with `AsyncSqliteStore`, `await
        store.sweep_ttl()` also works, but it blocks the event loop.

        Returns:
            The number of deleted items, which may be awaited.
        """
        write, now, deleted, count = self.database.write, self.database.now(), 0, PAGE_SIZE
        while count == PAGE_SIZE:  # a full page: more items may have expired
            count = write("store.sweep", lambda tx: item_rows.sweep(tx, now=now), outputs=lambda n: {"deleted": n})
            deleted += count
        return AwaitableNumber(deleted)

    asweep_ttl = awaited(sweep_ttl, writes=True)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Sweeper:
        """Sweep in the background, until `stop_ttl_sweeper` or `close`. Return the sweeper.

        Args:
            sweep_interval_minutes: Minutes between two sweeps. Default: "sweep_interval_minutes" of `ttl`, else 5.

        Returns:
            The running sweeper, or else a new one: a `concurrent.futures.Future` that is done when the sweeper has
            ended. Cancelling it stops the sweeper. `await store.start_ttl_sweeper()` returns an `asyncio.Task` for it.

        Raises:
            InvalidInput: The interval is not a positive number of minutes.
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
            timeout: Seconds to wait for a running sweep. Default: no limit.

        Returns:
            True if the sweeper has ended or none was running; False after the timeout.

        Raises:
            InvalidInput: The timeout is not a number of seconds.
        """
        timeout = check_timeout(timeout)
        return AwaitableNumber(self._sweeper is None or self._sweeper.stop(timeout))

    def _make_item_opener(self) -> Callable[[], ItemAccess]:
        return SharedItems

    def _base_namespace(self) -> Namespace:
        return self.database.scopes.boundary or ()


class AgentMemoryThreadStore(ItemStore):
    """A LangGraph store of long-term items for the running thread.

    Args:
        memory: The `AgentMemory` whose checkpointer the graph uses.
        index: LangGraph's `IndexConfig`, see `AgentMemoryStore`.
        ttl: LangGraph's `TTLConfig`, in minutes: "default_ttl" and "refresh_on_read". Expired items are not
            deleted, since checkpoints from before their expiry still show them.
        config: The thread whose items to use, see `at`. Default: the thread that is running when a method is called.

    Attributes:
        index_config: The configuration of the index, or None.
        embeddings: The embeddings of that configuration, or None.

    Raises:
        InvalidInput: An argument is wrong. Without `config`, each method also raises it if no thread is running.
        StorageError: The database cannot be opened.
    """

    _step_prefix = "thread_store"

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
            thread_position(self.database, config)  # raises InvalidInput now, not in the first call

    def at(self, config: ThreadLike) -> Self:
        """Return a store with the items at a checkpoint, by default the thread's newest one.

        The returned store is read-only, except in a running node.

        Args:
            config: A config with the thread_id, and optionally a checkpoint_id; or the config or `Runtime` of a running
                node. In a node, a config with only the thread_id of the node's own run refers to the running node.

        Raises:
            InvalidInput: The config names no thread.
        """
        return type(self)(self.database, index=self.index_config, ttl=self.ttl_config, config=config)

    def _make_item_opener(self) -> Callable[[], ItemAccess]:
        if self._config is None:
            configurable = (running_config() or {}).get("configurable")
            if not isinstance(configurable, Mapping) or configurable.get("thread_id") is None:
                raise InvalidInput(
                    "No thread is running. Use the thread store in a node of a graph that runs with a thread_id, or "
                    "thread_store.at(config)."
                )
        position = thread_position(self.database, self._config)
        return lambda: ThreadItems(position)
