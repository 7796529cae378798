"""An open database, with the clock, hooks and traces that all parts of the memory share.

Here, parts are objects such as a conversation, a store or a checkpointer, not the `Part`s of `part.py`. `AgentMemory`
passes its database to its parts. Parts built from the same path share one database, which closes with the last of them.
"""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from langchain_agentmem.base.argument_checks import MemoryLimits
from langchain_agentmem.base.clock import Clock, NewId, new_uuid, to_micros, utc_now
from langchain_agentmem.base.concurrency import PerProcess, check_cancelled
from langchain_agentmem.base.hooks import Hook, Hooks
from langchain_agentmem.base.namespaces import Namespace, Scopes
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, StorageError, safe_repr
from langchain_agentmem.storage import DatabaseOptions, Engine, Operation, check_database_url, is_postgres, open_engine
from langchain_agentmem.storage.background import Background, WeakRegistry
from langchain_agentmem.tracing import NULL_STEP, Content, RunType, Step, Thunk, Tracing, format_result

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langchain_agentmem.base.events import MemoryEvent

T = TypeVar("T")

Outputs: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""A function that converts the result of an operation for the trace."""


class HasDatabase(Protocol):
    """An object that a part can be built from: an `AgentMemory`, or another part."""

    @property
    def database(self) -> Database:
        """The database of the object."""
        ...


class LazyDatabase:
    """A database that is opened when `database` is first read.

    It serves one part, which can check its other arguments before the database is opened.

    Args:
        url: The URL, as for `Database`.
        options: The options of the database.
    """

    def __init__(self, url: Any, options: DatabaseOptions) -> None:
        self._open_database = partial(Database, url, options=options)

    @cached_property
    def database(self) -> Database:
        """The open database."""
        return self._open_database()


MemoryLike: TypeAlias = "HasDatabase | Database | str | os.PathLike[str]"
"""The argument to build a part from: an `AgentMemory`, another part, or the path or URL of a database."""


class Database:
    """An open database.

    Attributes:
        engine: The engine that runs its operations.
        background: The background work of the database.
        caches: Caches of data from this database. Their `forget` is called after an erasure.
        on_write: Functions that are called with this `Database` after each write.
        namespace_finders: Functions that find the namespace of a run by its config's "configurable", if the config does
            not name the namespace. They return () if they do not know the run.
        pending_writers: Objects whose `close` stores their pending writes. It is called before the database closes.
        attachments: Objects that the database and its views (see `with_scopes`) share, by their class.
        original: The database that this object is a view of; None if it is not a view.
        url: The URL that the database was opened with. It may contain a password.
        fact_workers: Objects whose `drain` extracts all pending facts. `background.settle` does not extract them.

    Args:
        url: A path, ":memory:", a `postgresql://` URL, or a psycopg pool.
        hooks: Functions that are called with every event.
        trace_content: The form of messages and memory in traces, see `Tracing`.
        options: The options of the database.
        clock: Returns the current time.
        new_id: Creates ids for messages without one.
        scopes: The rules that determine the namespace of a call.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        url: Any,
        *,
        hooks: Sequence[Hook] = (),
        trace_content: Content = True,
        options: DatabaseOptions = DatabaseOptions(),  # noqa: B008 - immutable
        clock: Clock = utc_now,
        new_id: NewId = new_uuid,
        scopes: Scopes = Scopes(),  # noqa: B008 - immutable
    ) -> None:
        if not callable(clock) or not callable(new_id):
            raise InvalidInput("clock and new_id must be functions.")
        if not isinstance(hooks, Iterable):
            raise InvalidInput(f"hooks must be a list of functions, not {safe_repr(hooks)}.")
        self.url = url
        self.hooks = Hooks(hooks)
        self.clock = clock
        self.new_id = new_id
        self.tracing = Tracing(self.hooks, content=trace_content)
        self.engine = open_engine(url, options)
        self.background = Background(self.engine)
        self._rebuild_outdated_index()
        self.tracing.metadata["agentmem_database"] = self.engine.dialect
        self.caches = WeakRegistry[Any]()
        self.pending_writers = WeakRegistry[Any]()
        self.fact_workers = WeakRegistry[Any]()
        self.on_write: list[Callable[[Database], object]] = []
        self.namespace_finders: list[Callable[[Mapping[str, Any]], Namespace]] = []
        self.scopes = scopes._replace(find_namespace=self._find_namespace)
        self.original: Database | None = None  # a view keeps its original open
        self.attachments: dict[type, Any] = {}
        self._finalizer = weakref.finalize(self, _close, self.background, self.engine)

    @property
    def limits(self) -> MemoryLimits:
        """The upper limits of the values that callers pass."""
        return self.engine.options.limits

    def now(self) -> int:
        """Return the current time, in microseconds since 1970."""
        return to_micros(self.clock())

    def close(self) -> None:
        """Wait for running calls, then close the database. A view closes nothing."""
        if self.original is not None:
            return
        for writer in self.pending_writers:
            writer.close()
        self._finalizer()

    def get_attachment(self, kind: type[T], create: Callable[[], T]) -> T:
        """Return the object of a class in `attachments`. The first call creates the object."""
        if kind not in self.attachments:
            with _shared_databases.lock:
                if kind not in self.attachments:
                    self.attachments[kind] = create()
        return self.attachments[kind]  # type: ignore[no-any-return]  # the key is the object's class

    def with_scopes(self, scopes: Scopes) -> Database:
        """Return a view of this database with other rules for the namespace of a call.

        Closing the view closes nothing.

        Args:
            scopes: The rules of the view.
        """
        view = copy.copy(self)
        view.original, view.scopes = self.original or self, scopes
        return view

    def is_same_database(self, other: Database) -> bool:
        """Return whether both objects use the same database."""
        return (self.original or self) is (other.original or other)

    def emit(self, make_event: Callable[[], MemoryEvent]) -> None:
        """Create an event and pass it to the hooks. Without hooks, no event is created."""
        if self.hooks:
            self.hooks.emit(make_event())

    def read(
        self, name: str | None, operation: Operation[T], inputs: Thunk | None = None, outputs: Outputs | None = None
    ) -> T:
        """Run a reading operation as the step `memory.<name>` of the trace.

        Args:
            name: The part and the verb, such as "conversation.add". None to add no step to the trace.
            operation: The operation.
            inputs: Returns the inputs for the trace; called only if the step is traced.
            outputs: Converts the result of the operation for the trace. Default: a summary.
        """
        check_cancelled()
        with self.step(name, inputs) as step:
            value = self.engine.read(operation)
            step.finish(lambda: (outputs or format_result)(value))
        return value

    def write(
        self, name: str | None, operation: Operation[T], inputs: Thunk | None = None, outputs: Outputs | None = None
    ) -> T:
        """Run a writing operation as a step of the trace. The arguments are those of `read`."""
        check_cancelled()
        with self.step(name, inputs) as step:
            value = self.engine.write(operation)
            step.finish(lambda: (outputs or format_result)(value))
        for callback in self.on_write:
            callback(self)
        return value

    def step(
        self,
        name: str | None,
        inputs: Thunk | None = None,
        run_type: RunType = "chain",
        config: RunnableConfig | None = None,
    ) -> Step:
        """Return a context manager: the traced step `memory.<name>`, or no step if `name` is None.

        The other arguments are those of `Tracing.step`.
        """
        if name is None:
            return NULL_STEP
        return self.tracing.step(f"memory.{name}", run_type=run_type, inputs=inputs, config=config)

    def _rebuild_outdated_index(self) -> None:
        """Rebuild a search index of an older version. If that fails, close the database."""
        try:
            import_module("langchain_agentmem.search.search_index").rebuild_outdated_index(self.engine)
        except Exception as error:
            self.engine.close()
            if isinstance(error, StorageError):
                raise
            message = f"{DatabaseUnreadable()} ({safe_repr(self.engine.path)}: {safe_repr(error)})"
            raise DatabaseUnreadable(message) from error

    def _find_namespace(self, configurable: Mapping[str, Any]) -> Namespace:
        return next((namespace for find in self.namespace_finders if (namespace := find(configurable))), ())


class _SharedDatabases(weakref.WeakValueDictionary[str, Database]):
    """The databases that parts share, by path or URL. The lock also guards `attachments`."""

    lock = PerProcess(threading.RLock)


_shared_databases = _SharedDatabases()


def shared_database(url: str | os.PathLike[str]) -> Database:
    """Return the database that all parts with this path or URL share; open it if needed.

    The database stays open as long as a part that was built from the path is in use. An `AgentMemory` never shares its
    database with other objects of this path. ":memory:" is not shared either: each call opens a new database.

    Args:
        url: A path, ":memory:" or a `postgresql://` URL.

    Raises:
        InvalidInput: `url` is neither a path nor a URL.
        StorageError: The database cannot be opened.
    """
    text = check_database_url(url)
    if text == ":memory:":
        return Database(text)
    key = text if is_postgres(text) or text.startswith("file:") else os.path.realpath(text)
    database = _shared_databases.get(key)
    if database is None or not database.engine.is_open:
        new = Database(text)  # opened before the lock is taken, as this may take long
        with _shared_databases.lock:
            database = _shared_databases.get(key)
            if database is None or not database.engine.is_open:
                database = _shared_databases[key] = new
        if database is not new:
            new.close()
    return database


def database_of(memory: MemoryLike) -> Database:
    """Return the database of an object, a path or a URL.

    Args:
        memory: An `AgentMemory`, one of its parts, a `Database`, a path or a URL.

    Raises:
        InvalidInput: The argument is none of these.
    """
    if isinstance(memory, Database):
        return memory
    if isinstance(memory, str | os.PathLike):
        return shared_database(memory)
    database = getattr(memory, "database", None)
    if not isinstance(database, Database):
        raise InvalidInput(f"memory must be an AgentMemory, a path or a URL, not {type(memory).__name__}.")
    return database


def _close(background: Background, engine: Engine) -> None:
    background.close()
    engine.close()
