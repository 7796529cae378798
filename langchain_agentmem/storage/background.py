"""Background work: tasks of a database, each of which one process at a time does.

    task = database.background.task(TaskKey(path, "facts", name), due=seconds_until_due, work=learn)
    task.wake()

A task finds what is to be done in the database, so work that waits when a process is killed is done by the next one.
Who works holds a *lease*: a row that names its owner for some seconds, and is renewed meanwhile. What was done is
written only if `Lease.holds` is true in the same transaction: it is not after an erasure, or when another took over.

Threads and timers belong to the process, so any number of databases share them. Closing a database stops its tasks and
gives back its leases; a forked child has threads, timers and leases of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sched
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

from langchain_agentmem.base.concurrency import PerProcess, Workers, abandonable, check_cancelled
from langchain_agentmem.errors import AgentMemoryError, MemoryClosed
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.queries import Query, query
from langchain_agentmem.storage.transaction import Operation, Rows, Transaction

T = TypeVar("T")

LEASE = 15.0
"""Seconds after which the work of a process that died may be taken over."""
RENEW = 5.0
"""Seconds between two renewals of a lease."""
POLL = 5.0
"""Seconds between two looks at what other processes may have written."""
LONGEST_PAUSE = 60.0
"""Seconds between two attempts at what goes on failing."""
_SOON, _LATER = 0.02, 0.25  # seconds between two looks whether another has done its work

logger = logging.getLogger(__name__)

_working, _renewing = Workers(8), Workers(1)
_is_background: ContextVar[bool] = ContextVar("agentmem_background", default=False)


class TaskKey(NamedTuple):
    """The name of a task.

    Attributes:
        path: The path of its namespace.
        kind: The kind of work.
        key: What it is done to, such as the name of a branch.
    """

    path: str
    kind: str
    key: str = ""


def backoff(failures: int, longest: float = LONGEST_PAUSE) -> float:
    """Return the seconds until the next attempt after some failures: 1, 2, 4, and so on up to a longest."""
    return min(2.0 ** min(failures, 10), longest)


class _Timer:
    """Calls functions later, in a thread of its own."""

    _starting = PerProcess(threading.Lock)
    _started = PerProcess(bool)
    _changed = PerProcess(threading.Event)
    _calls = PerProcess(partial(sched.scheduler, time.monotonic))

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Call a function that does not wait after some seconds."""
        with self._starting:
            self._calls.enter(min(seconds, threading.TIMEOUT_MAX), 0, function)
            if not self._started:
                threading.Thread(target=self._run, name="agentmem-timer", daemon=True).start()
                self._started = True
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                self._changed.wait(self._calls.run(blocking=False))
            except Exception:
                logger.exception("A timer of the background failed.")


class _Loop:
    """An event loop in a thread of its own, which is started when it is first needed."""

    _starting = PerProcess(threading.Lock)
    _loop: PerProcess[asyncio.AbstractEventLoop | None] = PerProcess(lambda: None)

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="agentmem-loop", daemon=True).start()
            return self._loop


_timer, _loop = _Timer(), _Loop()


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop of the background, which stays the same, and wait for it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop.get()).result()


def _in_thread(function: Callable[[], object], workers: Workers = _working) -> None:
    """Call a function in a thread of the background, in a context of its own: no run is its parent."""
    context = Context()
    context.run(lambda: _is_background.set(True))
    with contextlib.suppress(RuntimeError):  # no thread can be started; it is called when the next one is
        workers.submit(partial(context.run, function))


def _end() -> int:
    """The end of a lease that is taken or renewed now, in microseconds since 1970."""
    return time.time_ns() // 1000 + int(LEASE * 1_000_000)


class Lease:
    """The right to do the work of a task. A `with` block holds it, once it is taken.

    Args:
        background: The background of the database.
        key: The name of the task.
    """

    def __init__(self, background: Background, key: TaskKey) -> None:
        self._background = background
        self._key = key
        self._owner = secrets.token_hex(16)

    def take(self) -> bool:
        """Take the lease if nobody else has it."""
        now = time.time_ns() // 1000
        return bool(self._background.engine.write(lambda tx: self._run(tx, query.take_lease, now=now, until=_end())))

    def holds(self, tx: Transaction) -> bool:
        """Renew the lease, and return whether it still is held. It is, then, to the end of the transaction."""
        return bool(self._run(tx, query.renew_lease, until=_end()))

    def release(self) -> None:
        """Give the lease back, as far as the database still answers."""
        with contextlib.suppress(AgentMemoryError):
            self._background.engine.write(lambda tx: self._run(tx, query.release_lease))

    def _run(self, tx: Transaction, query: Query, **times: int) -> Rows:
        return query(tx, **self._key._asdict(), owner=self._owner, **times)

    def __enter__(self) -> Self:
        self._background.renew(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._background.let_go(self)
        self.release()


class _Running:
    """The state of a task in one process; `changed` guards the rest."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.wanted = self.running = self.scheduled = self.overdue = self.busy = False
        self.begun = self.ended = self.failures = self.timer = 0
        self.not_before = 0.0
        self.at_work: set[int] = set()


class Task:
    """Work that is done in the background as soon as there is something to do.

    Args:
        background: The background of the database.
        key: The name of the task.
        due: Returns the seconds until there is something to do, 0 for now, None for nothing.
        work: Does it, under a lease, in any thread. It may return the seconds until there is more to do.
        poll: Seconds after which it looks again unasked. Default: it is always woken.
        on_stop: Called when the task is stopped.
    """

    _state = PerProcess(_Running)

    def __init__(
        self,
        background: Background,
        key: TaskKey,
        due: Operation[float | None],
        work: Callable[[Lease], object],
        *,
        poll: float | None = None,
        on_stop: Callable[[], object] = lambda: None,
    ) -> None:
        self.key = key
        self._background = background
        self._due, self._work = due, work
        self._poll, self._on_stop = poll, on_stop
        self._stopped = background.engine.opening.read_only

    def wake(self) -> None:
        """Look soon whether there is something to do. Never waits; a task that failed waits for its next attempt."""
        state = self._state
        with state.changed:
            if self._stopped or time.monotonic() < state.not_before:
                return
            state.wanted = True
            if state.running:
                return
            state.running = True
        _in_thread(self._run)

    def wake_in(self, seconds: float) -> None:
        """Look again after some seconds."""
        state = self._state
        with state.changed:
            state.timer += 1  # the timers of before count no more
            state.scheduled = seconds != self._poll
        _timer.call_later(seconds, partial(self._wake_anew, state.timer))

    def hurry(self, patience: float) -> None:
        """Do the work now, and wait some seconds for it. Who waits in vain spares the next ones the waiting."""
        state = self._state
        with state.changed:
            if self._stopped or state.overdue or threading.get_ident() in state.at_work:
                return
            mine = state.begun + 1
        self._wake_anew(state.timer)
        with state.changed:
            state.overdue = not state.changed.wait_for(lambda: self._stopped or state.ended >= mine, patience)

    def settle(self) -> None:
        """Do all that is due in this thread, after waiting for others who are at it.

        Raises:
            Exception: What the work raised.
        """
        delay = _SOON
        while (pause := self._attempt()) is not None:
            if pause:
                delay = _pause(min(pause, delay))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do, at most some seconds. Return whether there is nothing."""
        state = self._state
        if threading.get_ident() in state.at_work:
            return False
        with state.changed:
            return state.changed.wait_for(lambda: not state.running and (self._stopped or not state.scheduled), timeout)

    def stop(self) -> None:
        """Do no more in the background. What is being done is not waited for."""
        if not self._stopped:
            self._stopped = True
            with self._state.changed:
                self._state.changed.notify_all()
            self._on_stop()

    def _wake_anew(self, timer: int) -> None:
        if timer == self._state.timer:
            self._state.not_before, self._state.scheduled = 0.0, False
            self.wake()

    def _run(self) -> None:
        state, pause = self._state, None
        while not self._stopped and (state.wanted or pause == 0):
            with state.changed:
                state.wanted = False
                state.begun += 1
            pause = self._round(state)
            with state.changed:
                if not state.busy:
                    state.ended, state.overdue = state.begun, False
                state.changed.notify_all()
        if pause is not None and not self._stopped:
            self.wake_in(pause)
        with state.changed:
            state.running = False
            state.changed.notify_all()
        if state.wanted:
            self.wake()

    def _round(self, state: _Running) -> float | None:
        """Do what is due. Return the seconds until the next round; None if the task waits to be woken."""
        try:
            pause = self._attempt()
        except BaseException as error:
            if isinstance(error, MemoryClosed) or not self._background.engine.usable:
                self.stop()
                return None
            pause = backoff(state.failures)
            state.failures += 1
            state.not_before = time.monotonic() + pause
            logger.warning("Background work %r failed, and will be tried again.", self.key.kind, exc_info=error)
            return pause
        state.failures = 0
        return self._poll if pause is None else pause

    def _attempt(self) -> float | None:
        """Do what is due, unless another is at it. Return the seconds until another attempt makes sense."""
        state, thread = self._state, threading.get_ident()
        if thread in state.at_work:
            return None
        due, held = self._background.engine.read(self._look)
        state.busy = due == 0 and held > 0
        if state.busy:
            return min(held, _LATER)
        if due is None or due > 0:
            return due
        lease = Lease(self._background, self.key)
        if not lease.take():
            state.busy = True
            return _SOON
        with lease:
            state.at_work.add(thread)
            try:
                pause = self._work(lease)
            finally:
                state.at_work.discard(thread)
        return pause if isinstance(pause, float) else 0.0

    def _look(self, tx: Transaction) -> tuple[float | None, float]:
        return self._due(tx), held_for(tx, self.key)


def held_for(tx: Transaction, key: TaskKey) -> float:
    """Return the seconds for which somebody holds the lease of a task, 0 if nobody does."""
    rows = query.find_lease(tx, **key._asdict())
    return max(0.0, rows[0]["expires_at"] / 1_000_000 - time.time()) if rows else 0.0


def _pause(seconds: float) -> float:
    """Wait a moment for others, unless this call is cancelled. Return the seconds to wait the next time."""
    check_cancelled()
    abandonable(partial(time.sleep, seconds))
    return min(2 * seconds, _LATER)


class Background:
    """The background work of one open database.

    Args:
        engine: The database.
    """

    _lock = PerProcess(threading.Condition)  # guards what follows
    _leases: PerProcess[set[Lease]] = PerProcess(set)
    _begun: PerProcess[set[TaskKey]] = PerProcess(set)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._tasks: WeakSet[Task] = WeakSet()
        self._kept: dict[TaskKey, Task] = {}
        self._closed = False

    def task(self, key: TaskKey, due: Operation[float | None], work: Callable[[Lease], object], **options: Any) -> Task:
        """Return a new task, which stops when the database is closed; arguments as for `Task`."""
        task = Task(self, key, due, work, **options)
        with self._lock:
            self._tasks.add(task)
        return task

    def keep(self, key: TaskKey, due: Operation[float | None], work: Callable[[Lease], object]) -> Task:
        """Return the task of the whole database that has this name now; it also looks every few seconds."""
        self._kept[key] = self.task(key, due, work, poll=POLL)
        return self._kept[key]

    def settle(self) -> None:
        """Do all work of the whole database now.

        Raises:
            Exception: What the first task that failed has raised, after all were tried.
        """
        failures: list[Exception] = []
        for task in list(self._kept.values()):
            try:
                task.settle()
            except Exception as error:  # noqa: BLE001 - it is raised below
                failures.append(error)
        for failure in failures:
            raise failure

    def in_turn(self, key: TaskKey, work: Callable[[Lease], T]) -> T:
        """Call a function under a lease in this thread, once nobody else has it."""
        delay, lease = _SOON, Lease(self, key)
        while self.engine.read(lambda tx: held_for(tx, key)) or not lease.take():
            delay = _pause(delay)
        with lease:
            return work(lease)

    def begin(self, key: TaskKey, function: Callable[[], object]) -> None:
        """Call a function once in the background, under a lease; not while another of this name is. Never waits."""
        with self._lock:
            if key in self._begun:
                return
            self._begun.add(key)
        _in_thread(partial(self._call_once, key, function))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is under way that `begin` was given, at most some seconds. Return whether nothing is."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._begun, timeout)

    def renew(self, lease: Lease) -> None:
        """Renew a lease every few seconds.

        Raises:
            MemoryClosed: The database is closed.
        """
        with self._lock:
            if not self._closed:
                self._leases.add(lease)
                _timer.call_later(RENEW, partial(self._renew_soon, lease))
                return
        lease.release()
        raise MemoryClosed

    def let_go(self, lease: Lease) -> None:
        """Renew a lease no more."""
        with self._lock:
            self._leases.discard(lease)

    def close(self) -> None:
        """Stop the tasks and give the leases back. What is being done is not waited for."""
        self._closed = True
        for task in list(self._tasks):
            task.stop()
        if _is_background.get():  # a thread of the background may let go of a database within a transaction
            return
        with self._lock:
            leases = [*self._leases]
            self._leases.clear()
        for lease in leases:
            lease.release()

    def _renew_soon(self, lease: Lease) -> None:
        if lease in self._leases:
            _in_thread(partial(self._renew, lease), _renewing)

    def _renew(self, lease: Lease) -> None:
        try:
            self.engine.write(lease.holds)
        except Exception:
            if not self.engine.usable:
                return  # nobody renews anything here any more
            logger.warning("The lease of background work was not renewed.", exc_info=True)
        _timer.call_later(RENEW, partial(self._renew_soon, lease))

    def _call_once(self, key: TaskKey, function: Callable[[], object]) -> None:
        lease = Lease(self, key)
        try:
            with contextlib.suppress(MemoryClosed):
                if lease.take():
                    with lease:
                        function()
        except Exception:
            logger.warning("Background work %r failed; who needs it does it again.", key.kind, exc_info=True)
        finally:
            with self._lock:
                self._begun.discard(key)
                self._lock.notify_all()
