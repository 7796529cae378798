"""One open database, with what every part of the memory shares: its clock, ids, hooks and traces.

`AgentMemory` opens one and hands it to its parts. Parts that are built from a path share one among themselves, which
closes when the last of them is gone.

What was measured is kept in the database, so that it adds up over all processes that used it.

A process adds what it measured when it closes the database, and every ten minutes beside something that it writes
anyway. It only does so if it wrote something else there: who only reads goes on only reading. And it waits for nobody:
where the database is busy, full, read only or gone, it is the measures that are lost, and nothing else.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.clock import Clock, NewId, micros, new_uuid, utc_now
from langchain_agentmem.base.events import Hook, Hooks, MemoryEvent
from langchain_agentmem.base.limits import MemoryLimits
from langchain_agentmem.base.namespaces import Namespace, Scopes, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, StorageError
from langchain_agentmem.storage import (
    Engine,
    Opening,
    Operation,
    Steps,
    is_pool,
    is_postgres,
    name_of,
    open_engine,
    query,
)
from langchain_agentmem.storage.engine import AS_MADE
from langchain_agentmem.storage.jobs import Handler, WantedJob, Worker
from langchain_agentmem.storage.part import bring_up_to_date
from langchain_agentmem.tracing import Content, Step, Thunk, Tracing
from langchain_agentmem.tracing.measures import CacheTally, Measured, Measures, OperationTally

if TYPE_CHECKING:
    from langchain_agentmem.storage.shards import Shards

logger = logging.getLogger(__name__)

EVERY = 600.0
"""Seconds between two times that what was measured is written."""
MOST_ROWS = 500
"""Names that the database keeps, give or take those that were last written together."""

OPERATION, CACHE, TOKENS = "operation", "cache", "tokens"
_KEPT_OUT = "kept out of prompts"
_SECOND = 1_000_000


def add(measured: Measured, *, now: int) -> Steps[None]:
    """Add what was measured to what the database holds.

    Args:
        measured: What was measured.
        now: When, in microseconds since 1970.
    """
    rows = [
        _row(OPERATION, name, tally.calls, tally.failures, round(tally.total * _SECOND), round(tally.slowest * _SECOND))
        for name, tally in measured.operations.items()
    ]
    rows += [_row(CACHE, name, each.hits + each.misses, each.misses) for name, each in measured.caches.items()]
    if measured.prompts:
        rows.append(_row(TOKENS, _KEPT_OUT, measured.prompts, 0, measured.kept_out))
    # In one order everywhere, so that no two processes can wait for each other.
    rows.sort(key=lambda row: (row["kind"], row["name"]))
    yield query.add_measure.many([{**row, "since": measured.since, "until": now} for row in rows])
    yield query.forget_old_measures(limit=MOST_ROWS)


def load() -> Steps[Measured]:
    """What all processes wrote."""
    found = Measured()
    for row in (yield query.measures()):
        calls, failures, total = int(row["calls"]), int(row["failures"]), int(row["total"])
        if row["kind"] == OPERATION:
            found.operations[row["name"]] = OperationTally(
                calls=calls, failures=failures, total=total / _SECOND, slowest=int(row["slowest"]) / _SECOND
            )
        elif row["kind"] == CACHE:
            found.caches[row["name"]] = CacheTally(hits=calls - failures, misses=failures)
        elif row["kind"] == TOKENS:
            found.prompts, found.kept_out = found.prompts + calls, found.kept_out + total
        found.since = min(found.since, int(row["since"]))
    return found


def forget() -> Steps[None]:
    """Forget everything that was written."""
    yield query.delete_measures()


class Keeper:
    """Writes what was measured of one database. It may be called from any thread, and raises nothing of its own.

    Args:
        measures: What was measured.
    """

    def __init__(self, measures: Measures) -> None:
        self._engines: list[Engine] = []
        self._measures = measures
        self._next = time.monotonic() + EVERY
        self._writing = concurrency.lock()
        concurrency.renewed(self)

    def watch(self, engine: Engine) -> None:
        """Have a schema of the database call `now_and_then` after everything that it writes, until `close`.

        Args:
            engine: Its engine. What was measured is written into the first.
        """
        engine.afterwards = self.now_and_then
        self._engines.append(engine)

    def renew(self) -> None:
        """Begin with nothing: what was measured so far, the parent writes."""
        self._measures.take()

    def now_and_then(self) -> None:
        """Write what was measured, if that was not done lately."""
        if time.monotonic() >= self._next:
            self.keep()

    def keep(self) -> None:
        """Write what was measured, if anything else was written, and if it can be done without waiting."""
        engine = self._engines[0]
        wrote = engine.lasting and engine.usable and any(each.wrote for each in self._engines)
        if not wrote or not self._writing.acquire(blocking=False):
            return
        try:
            self._next = time.monotonic() + EVERY
            if measured := self._measures.take():
                try:
                    engine.write_at_once(lambda: add(measured, now=time.time_ns() // 1000))
                except BaseException:
                    self._measures.give_back(measured)
                    raise
        except Exception:  # measures are worth nobody's failure
            logger.debug("What was measured could not be written now.", exc_info=True)
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write what was measured; the engine is about to close."""
        for engine in self._engines:
            engine.afterwards = None
        self.keep()


def _row(kind: str, name: str, calls: int, failures: int, total: int = 0, slowest: int = 0) -> dict[str, object]:
    return {"kind": kind, "name": name, "calls": calls, "failures": failures, "total": total, "slowest": slowest}


A = TypeVar("A")
T = TypeVar("T")

Outputs: TypeAlias = Callable[[Any], Mapping[str, Any]]


class Remembering(Protocol):
    """Something that remembers what it read."""

    def forget(self) -> object:
        """Forget it."""
        ...


class Writing(Protocol):
    """Something that may have more to write."""

    def close(self) -> object:
        """Write it."""
        ...


class Draining(Protocol):
    """Something that has work done in the background."""

    def drain(self) -> object:
        """Have all of it done now, and wait for it."""
        ...


class InUse(Generic[T]):
    """Objects that are in use. Others may be made, in any thread, while somebody goes through them."""

    def __init__(self) -> None:
        self._parts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._changing = concurrency.lock()

    def add(self, part: T) -> None:
        """Keep a part as long as somebody else does."""
        with self._changing:
            self._parts.add(part)

    def __iter__(self) -> Iterator[T]:
        with self._changing:
            return iter(list(self._parts))


class Whole:
    """The engine of a sharded database as a whole, which runs nothing: an operation is that of a tenant.

    Args:
        shards: The schemas.
    """

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        home = shards.home
        self.dialect, self.path, self.opening, self.lasting = home.dialect, home.path, home.opening, home.lasting
        self.index_tail, self.in_thread, self.encrypted = home.index_tail, home.in_thread, home.encrypted

    @property
    def usable(self) -> bool:
        """Whether it is open, in this process."""
        return self.shards.home.usable

    def close(self) -> None:
        """Close every schema."""
        self.shards.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} is asked of no tenant: use Database.at(...), or each of Database.everywhere.")


class HasDatabase(Protocol):
    """What a part can be built from: an `AgentMemory`, or another part."""

    @property
    def database(self) -> Database:
        """Where it is kept."""
        ...


class Unopened:
    """A database for one part alone, which it opens when it has checked everything else.

    Args:
        url: What `Database` takes.
        opening: How it is opened.
    """

    def __init__(self, url: Any, opening: Opening) -> None:
        self._open = partial(Database, url, opening=opening)

    @cached_property
    def database(self) -> Database:
        """It, open."""
        return self._open()


MemoryLike: TypeAlias = "HasDatabase | Database | str | os.PathLike[str]"
"""What a part can be built from: an `AgentMemory` or another part; or the path or URL of a database."""


class Database:
    """An open database.

    Attributes:
        engine: The engine that runs its operations; where the database has shards, one of a tenant or a shard.
        tenant: Whose memory its operations are on, where the database has shards; None where that is not decided.
        measures: What was measured and is not written yet.
        remembering: Whoever holds something that was read here, and has to `forget` it when something is erased.
        on_write: Functions that are called when something was written, with where.
        homes: Functions that give the namespace of a run whose config does not say it; empty where they know none.
        writing: Whoever still has something to write, and does so when it is told to `close`.
        url: What it was opened by. It may hold a password.
        draining: Whoever has work done in the background that is no job of the queue, and all of it at once by `drain`.

    Args:
        url: A path, ":memory:", a `postgresql://` URL, or a psycopg pool.
        hooks: Functions that are called with every event.
        trace_content: How traces show what was said and remembered, see `Tracing`.
        trace_checkpoints: Whether they show the checkpointer's reads and writes.
        opening: How it is opened.
        clock: Gives the time.
        new_id: Makes ids for messages that have none.
        scopes: How calls are led to the namespace whose threads share their memory.

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
        trace_checkpoints: bool = False,
        opening: Opening = Opening(),  # noqa: B008 - a value
        clock: Clock = utc_now,
        new_id: NewId = new_uuid,
        scopes: Scopes = Scopes(),  # noqa: B008 - a value
    ) -> None:
        if not callable(clock) or not callable(new_id):
            raise InvalidInput("clock and new_id must be functions.")
        if not isinstance(hooks, Iterable):
            raise InvalidInput(f"hooks must be a list of functions, not {safe_repr(hooks)}.")
        self.url = url
        self.measures = Measures()
        self.hooks = Hooks(hooks)
        self.clock = clock
        self.new_id = new_id
        self.tracing = Tracing(self.hooks, measures=self.measures, content=trace_content, checkpoints=trace_checkpoints)
        self.engine: Engine
        self._shards, opening = _sharded(url, opening)
        if self._shards is None:
            self.engine = open_engine(url, opening)
            engines: Sequence[Engine] = (self.engine,)
        else:
            self.engine = cast("Engine", Whole(self._shards))  # none on purpose
            engines, scopes = self._shards.engines, scopes._replace(tenant_depth=self._shards.tenant_depth)
        self._workers: dict[Engine, Worker] = {}
        self._serving: Callable[[Engine, Worker], object] | None = None
        self._keeper = Keeper(self.measures)
        self._meet_all(engines)
        self.tracing.metadata["agentmem_database"] = self.engine.dialect
        self.remembering: InUse[Remembering] = InUse()
        self.writing: InUse[Writing] = InUse()
        self.draining: InUse[Draining] = InUse()
        self.on_write: list[Callable[[Database], object]] = []
        self.homes: list[Callable[[Mapping[str, Any]], Namespace]] = []
        self.scopes = scopes._replace(home=self._home)
        self.tenant: str | None = None
        self.whole: Database | None = None  # kept open by whoever sees a part of it
        self._attached: dict[type, object] = {}
        self._attaching = concurrency.rlock()
        self._closes_itself = weakref.finalize(self, _close, self._workers, self._keeper, self.engine)

    @property
    def worker(self) -> Worker:
        """Does the jobs of its queue, see `jobs.py`."""
        return self._workers[self.engine.home]

    def attempt(self, wanted: WantedJob, handler: Handler) -> float | None:
        """Do one job in this thread, wherever its tenant is; see `Worker.attempt`."""
        return self.worker.attempt(wanted, handler, self.engine)

    def serve(self, serving: Callable[[Engine, Worker], object]) -> None:
        """Have something do jobs in each schema, those included that are made later; it takes the place of another.

        Args:
            serving: Is called with the engine of each, and its worker.
        """
        before, self._serving = self._serving, serving
        try:
            for engine, worker in list(self._workers.items()):
                serving(engine, worker)
        except BaseException:
            self._serving = before
            raise

    @property
    def limits(self) -> MemoryLimits:
        """How much callers may give at most."""
        return self.engine.opening.limits

    @property
    def tail(self) -> int:
        """How many new entries may wait for the full-text index."""
        return self.engine.index_tail

    def now(self) -> int:
        """The time, in microseconds since 1970."""
        return micros(self.clock())

    def close(self) -> None:
        """Close the database; what runs is waited for."""
        if self.whole is not None:
            return
        for each in self.writing:
            each.close()
        self._closes_itself()

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        """The one object of a class that belongs to this database, made when it is first wanted."""
        found = self._attached.get(kind)
        if found is None:
            with self._attaching:
                found = self._attached.get(kind)
                if found is None:
                    found = make()
                    self.attach(found)
        return cast("A", found)

    def attachment(self, kind: type[A]) -> A | None:
        """The object of a class that belongs to this database, if there is one."""
        return cast("A | None", self._attached.get(kind))

    def attach(self, thing: object) -> None:
        """Have an object belong to this database; it takes the place of another of its class."""
        self._attached[type(thing)] = thing

    def within(self, scopes: Scopes) -> Database:
        """The same database, whose calls are led to a namespace otherwise. Closing it closes nothing.

        Args:
            scopes: How.
        """
        view = self._view()
        view.scopes = scopes
        return view

    @property
    def has_shards(self) -> bool:
        """Whether its tenants are spread over several schemas."""
        return self._shards is not None

    def at(self, path: str, name: str | None = None) -> Database:
        """The database where a tenant's memory is; it is this one where the database has no shards.

        Args:
            path: The path of the namespace whose memory it is.
            name: In the root, the id of the thread or conversation. Default: what has no such id.
        """
        if self._shards is None:
            return self
        tenant = self.scopes.tenant_of(path, name)
        return self._running(self._shards.of(tenant), tenant)

    def is_beside(self, other: Database) -> bool:
        """Whether both see one database."""
        return (self.whole or self) is (other.whole or other)

    def holds(self, path: str, name: str | None = None) -> bool:
        """Whether an operation here may look at something, too, since it is the same tenant's.

        Args:
            path: The path of its namespace.
            name: In the root, the id of the thread or conversation.
        """
        return self.tenant is None or self.tenant == self.scopes.tenant_of(path, name)

    def below(self, path: str) -> tuple[Database, ...]:
        """The databases where everything is that a namespace and those below it remember: one, if that is one tenant.

        Args:
            path: The path of the namespace.
        """
        if self._shards is None:
            return (self,)
        if self.scopes.one_tenant(path):
            return (self.at(path),)
        return tuple(map(self._running, self._shards.engines))

    @property
    def everywhere(self) -> tuple[Database, ...]:
        """The databases in which everything is that this one leads to: one for each shard."""
        return self.below(path_of(self.scopes.within or ()))

    def look_around(self) -> None:
        """Know the schemas that other processes made since this one opened the memory. It reads."""
        if self._shards is not None:
            self._shards.look_around()

    @contextlib.contextmanager
    def still(self, path: str) -> Iterator[tuple[Database, ...]]:
        """The databases below a path, to write in; where these are several, no tenant moves until the block ends.

        Args:
            path: The path of the namespace.

        Raises:
            DatabaseBusy: A tenant is being moved, and that takes too long.
        """
        moving = self._shards is not None and not self.scopes.one_tenant(path)
        with self._shards.still() if self._shards is not None and moving else contextlib.nullcontext():
            yield self.below(path)

    def keep_together(self, path: str, name: str, like: str) -> None:
        """Have a thread be where another one is whose content it is to share; it is moved there, if need be.

        Args:
            path: The path of the namespace of both.
            name: Its id.
            like: That of the other.
        """
        tenant, other = self.scopes.tenant_of(path, name), self.scopes.tenant_of(path, like)
        if self._shards is not None and tenant != other:
            self._shards.keep_together(tenant, other)

    def home_of(self, path: str, name: str | None = None) -> Engine:
        """The engine of the schema in which a tenant is now, whoever moved it.

        Args:
            path: The path of the namespace whose memory it is.
            name: In the root, the id of the thread or conversation.
        """
        if self._shards is None:
            return self.engine
        return self._shards.look_again(self.scopes.tenant_of(path, name))

    def emit(self, event: Callable[[], MemoryEvent]) -> None:
        """Tell the hooks what happened, if there are any."""
        if self.hooks:
            self.hooks.emit(event())

    def read(
        self,
        name: str,
        make: Operation[T],
        inputs: Thunk | None = None,
        outputs: Outputs | None = None,
        *,
        shown: bool = True,
    ) -> T:
        """Run a reading operation as the step `memory.<name>`.

        Args:
            name: Part and verb, "conversation.add".
            make: Makes the operation.
            inputs: What a trace shows of it; called only when somebody looks.
            outputs: What it shows of its value. Default: how much that is.
            shown: Whether it is a step. If not, it is a detail of another, and only measured.
        """
        with self._step(name, inputs, shown=shown) as step:
            value = self.engine.read(make)
            step.finish(lambda: (outputs or _outcome)(value))
        return value

    def write(
        self,
        name: str,
        make: Operation[T],
        inputs: Thunk | None = None,
        outputs: Outputs | None = None,
        *,
        shown: bool = True,
    ) -> T:
        """Run a writing operation as the step `memory.<name>`; arguments as for `read`."""
        with self._step(name, inputs, shown=shown) as step:
            value = self.engine.write(make)
            step.finish(lambda: (outputs or _outcome)(value))
        self._written()
        return value

    async def aread(
        self,
        name: str,
        make: Operation[T],
        inputs: Thunk | None = None,
        outputs: Outputs | None = None,
        *,
        shown: bool = True,
    ) -> T:
        """`read`, awaited."""
        async with self._step(name, inputs, shown=shown) as step:
            value = await self.engine.aread(make)
            step.finish(lambda: (outputs or _outcome)(value))
        return value

    async def awrite(
        self,
        name: str,
        make: Operation[T],
        inputs: Thunk | None = None,
        outputs: Outputs | None = None,
        *,
        shown: bool = True,
    ) -> T:
        """`write`, awaited."""
        async with self._step(name, inputs, shown=shown) as step:
            value = await self.engine.awrite(make)
            step.finish(lambda: (outputs or _outcome)(value))
        self._written()
        return value

    def run(self, name: str, function: Callable[[], T], *, shown: bool = True) -> T:
        """Run blocking work on the engine that is no operation, such as a backup, as the step `memory.<name>`."""
        with self._step(name, shown=shown) as step:
            value = function()
            step.finish(lambda: _outcome(value))
        return value

    async def arun(self, name: str, function: Callable[[], T], *, write: bool, shown: bool = True) -> T:
        """`run`, awaited, in a thread of the engine."""
        async with self._step(name, shown=shown) as step:
            value: T = await self.engine.in_thread(function, write=write)
            step.finish(lambda: _outcome(value))
        return value

    def _meet_all(self, engines: Iterable[Engine]) -> None:
        """Bring what was opened up to date, and begin with it; a database in which that fails is closed again."""
        try:
            for each in engines:
                self._meet(each)
        except Exception as error:
            self.engine.close()
            if isinstance(error, StorageError):
                raise
            problem = f"{DatabaseUnreadable()} ({safe_repr(self.engine.path)}: {safe_repr(error)})"
            raise DatabaseUnreadable(problem) from error
        if self._shards is not None:
            met = weakref.WeakMethod(self._meet)  # shards keep no database open
            self._shards.met = lambda engine: (meet := met()) and meet(engine)

    def _meet(self, engine: Engine) -> None:
        worker = Worker(engine)
        bring_up_to_date(engine, worker)
        if self._serving is not None:
            self._serving(engine, worker)
        self._workers[engine] = worker
        self._keeper.watch(engine)

    def _view(self) -> Database:
        view = copy.copy(self)
        view.whole = self.whole or self
        return view

    def _running(self, engine: Engine, tenant: str | None = None) -> Database:
        view = self._view()
        view.engine, view.tenant = engine, tenant
        return view

    def _home(self, configurable: Mapping[str, Any]) -> Namespace:
        return next((found for home in self.homes if (found := home(configurable))), ())

    def _step(self, name: str, inputs: Thunk | None = None, *, shown: bool = True) -> Step:
        whole = f"memory.{name}"
        return self.tracing.step(whole, inputs=inputs) if shown else self.tracing.unheard(whole)

    def _written(self) -> None:
        for each in self.on_write:
            each(self)


_shared: weakref.WeakValueDictionary[str, Database] = weakref.WeakValueDictionary()
_sharing = concurrency.lock()


def shared(url: str | os.PathLike[str]) -> Database:
    """The database that parts of this process share by its path or URL, opened now if need be.

    It is open as long as one of the parts that were built from the path is in use. An `AgentMemory` has a database of
    its own. A database in memory is never shared: each call opens a new one.

    Args:
        url: A path, ":memory:" or a `postgresql://` URL.

    Raises:
        InvalidInput: It is neither a path nor a URL.
        StorageError: The database cannot be opened.
    """
    text = name_of(url)
    if text == ":memory:":
        return Database(text)
    key = text if is_postgres(text) or text.startswith("file:") else os.path.realpath(text)
    if (database := _opened(key)) is not None:
        return database
    # Opening may take long, so others are not kept waiting for it; who opens the same second closes theirs again.
    new = Database(text)
    with _sharing:
        database = _opened(key)
        if database is None:
            _shared[key] = new
            return new
    new.close()
    return database


def _opened(key: str) -> Database | None:
    database = _shared.get(key)
    return database if database is not None and database.engine.usable else None


def database_of(memory: MemoryLike) -> Database:
    """The database behind whatever a part was built from.

    Args:
        memory: An `AgentMemory`, a `Database`, or a path or URL.

    Raises:
        InvalidInput: It is none of these.
    """
    if isinstance(memory, Database):
        return memory
    if isinstance(memory, str | os.PathLike):
        return shared(memory)
    database = getattr(memory, "database", None)
    if not isinstance(database, Database):
        raise InvalidInput(f"memory must be an AgentMemory, a path or a URL, not {type(memory).__name__}.")
    return database


def _sharded(url: Any, opening: Opening) -> tuple[Shards | None, Opening]:
    """The schemas of a memory that has several, and how it is opened where it has not."""
    if opening.shards is None:
        return None, opening
    one = opening._replace(shards=None)
    if not (is_pool(url) or is_postgres(name_of(url))):
        if opening.shards == AS_MADE:
            return None, one
        raise InvalidInput("shards are schemas of PostgreSQL: on SQLite, leave shards out.")
    from langchain_agentmem.storage.shards import Shards, is_sharded  # noqa: PLC0415 - an extra

    if opening.shards == AS_MADE:
        return (Shards(url, one) if is_sharded(url, one) else None), one
    return Shards(url, opening), opening


def _close(workers: Mapping[Engine, Worker], keeper: Keeper, engine: Engine) -> None:
    for worker in list(workers.values()):
        worker.close()
    keeper.close()
    engine.close()


def _outcome(value: Any) -> dict[str, Any]:
    """What a trace shows of a result: how much there was, not all of it."""
    if hasattr(value, "_asdict"):
        return {name: next(iter(_outcome(part).values())) for name, part in value._asdict().items()}
    if isinstance(value, list | tuple | dict):
        return {"count": len(value)}
    if value is None or isinstance(value, bool | int | float):
        return {"result": value}
    return {"result": str(value)[:1000] if isinstance(value, str) else type(value).__name__}
