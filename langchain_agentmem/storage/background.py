"""Background work: the tasks of a database, each run by one process at a time.

    task = Task(database.background, TaskKey(path, "facts", name), due=seconds_until_due, work=learn)
    task.wake()

A task finds its work in the database, so another process does the remaining work of a killed process. A worker holds a
*lease*: a row that names its owner and expires after some seconds unless it is renewed. Results are written only if
`Lease.renew` returns True in the same transaction. `renew` returns False after an erasure, or if the lease expired and
another worker took the lease.

All databases of a process share its worker threads and one event loop, which runs the timers. Closing a database stops
its tasks and releases its leases. A forked child has threads, timers and leases of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakSet

from langchain_agentmem.base.concurrency import THREAD_NAME, PerProcess, Workers, check_cancelled, run_cancellable
from langchain_agentmem.errors import AgentMemoryError, MemoryClosed
from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.queries import Query, query
from langchain_agentmem.storage.transaction import Operation, Rows, Transaction

T = TypeVar("T")

LEASE_SECONDS = 15.0
"""Seconds from the last renewal of a lease to its expiry. Then another process may continue the work."""
RENEW_SECONDS = 5.0
"""Seconds between two renewals of a lease."""
POLL_SECONDS = 5.0
"""Seconds between two checks for data that other processes wrote."""
_WAIT_SECONDS = 0.05
"""Seconds between two checks whether another worker has released its lease."""

logger = logging.getLogger(__name__)

_workers = Workers(8)  # at most 8 tasks run at a time


class TaskKey(NamedTuple):
    """The name of a task.

    Attributes:
        path: The path of its namespace.
        kind: The kind of work.
        key: The object to work on, such as the name of a branch. Default: the whole namespace.
    """

    path: str
    kind: str
    key: str = ""


def backoff(failures: int, maximum: float = 60.0) -> float:
    """Return the seconds to wait after a number of failures: 1, 2, 4, up to `maximum`."""
    return min(2.0 ** min(failures, 10), maximum)


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agentmem-loop", daemon=True).start()
    return loop


class _BackgroundLoop:
    """The event loop for background work, in a thread of its own."""

    loop = PerProcess(_start_loop)


_background_loop = _BackgroundLoop()


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop for background work, and return its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop.loop).result()


def _run_in_thread(function: Callable[[], object]) -> None:
    """Call a function in a background thread, in an empty context instead of the caller's."""
    _workers.submit(partial(Context().run, function))


class WeakRegistry(Generic[T]):
    """A thread-safe weak set of objects in use, which may grow during iteration."""

    _lock = PerProcess(threading.Lock)

    def __init__(self) -> None:
        self._members: WeakSet[T] = WeakSet()

    def add(self, member: T) -> None:
        """Add an object. The registry holds only a weak reference to it."""
        with self._lock:
            self._members.add(member)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._members))


class Lease:
    """The right to do the work of a task.

    Call `take` first. A `with` block then renews the lease, and releases it at the end.

    Args:
        background: The background work of the database.
        key: The name of the task.
    """

    def __init__(self, background: Background, key: TaskKey) -> None:
        self._background = background
        self._key = key
        self._owner = secrets.token_hex(16)
        self._released = threading.Event()

    def take(self) -> bool:
        """Acquire the lease if no other worker holds it, and return whether it was acquired."""
        times = {"now": _time_after(0), "until": _time_after(LEASE_SECONDS)}
        return bool(self._background.engine.write(lambda tx: self._run_query(tx, query.take_lease, **times)))

    def renew(self, tx: Transaction) -> bool:
        """Renew the lease, and return whether it is still held.

        After a renewal, no other worker can take the lease before the transaction ends.
        """
        return bool(self._run_query(tx, query.renew_lease, until=_time_after(LEASE_SECONDS)))

    def release(self) -> None:
        """Release the lease. If the database fails, the lease expires instead."""
        self._released.set()
        with contextlib.suppress(AgentMemoryError):
            self._background.engine.write(lambda tx: self._run_query(tx, query.release_lease))

    def _run_query(self, tx: Transaction, query: Query, **times: int) -> Rows:
        return query(tx, **self._key._asdict(), owner=self._owner, **times)

    def _renew_until_released(self) -> None:
        engine = self._background.engine
        while not self._released.wait(RENEW_SECONDS) and engine.is_open:
            try:
                engine.write(self.renew)
            except Exception:
                logger.warning("The lease of background work was not renewed.", exc_info=True)

    def __enter__(self) -> Self:
        self._background.leases.add(self)
        with contextlib.suppress(RuntimeError):  # no thread can be started: the lease may expire before the work ends
            threading.Thread(target=self._renew_until_released, name="agentmem-lease", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._background.leases.discard(self)
        self.release()


def _time_after(seconds: float) -> int:
    """Return the time `seconds` from now, in microseconds since 1970."""
    return time.time_ns() // 1000 + int(seconds * 1_000_000)


class _TaskState:
    """The state of a task in one process.

    Attributes:
        condition: The lock of the other attributes, notified when the task becomes idle or is stopped.
        check_requested: True to check for work once more.
        running: True while a thread runs the task.
        blocked: True if another worker held the lease at the last attempt.
        scheduled: True if a timer will continue the remaining work.
        overdue: True if a call of `run_now` timed out, and the task has not become idle since.
        failures: The number of consecutive failures.
        timer_count: The number of timers set so far. Earlier timers than the last one have no effect.
        worker_threads: The ids of the threads that run the work.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.check_requested = self.running = self.blocked = self.scheduled = self.overdue = False
        self.failures = self.timer_count = 0
        self.worker_threads: set[int] = set()


class Task:
    """A task that runs in the background as soon as it is due.

    Args:
        background: The background work of the database.
        key: The name of the task.
        due: Returns the seconds until work is due: 0 if it is due now, None if there is no work.
        work: Does the due work under a lease, in any thread. It may return the seconds until more work is due.
        poll: Seconds between checks without a wake-up. Default: no polling.
        on_stop: Called once, when the task is stopped.

    Attributes:
        stopped: True if the task does no more work.
    """

    _state = PerProcess(_TaskState)

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
        self.stopped = background.engine.options.read_only
        background.tasks.add(self)

    def wake(self) -> None:
        """Start a check for work in the background, unless a retry after a failure is scheduled."""
        if not (self._state.failures and self._state.scheduled):
            self._start()

    def wake_in(self, seconds: float) -> None:
        """Start a check for work in the background after some seconds."""
        state = self._state
        with state.condition:
            state.timer_count += 1
            loop = _background_loop.loop
            loop.call_soon_threadsafe(loop.call_later, seconds, self._on_timer, state.timer_count)
            state.scheduled = seconds != self._poll  # a poll does not mean that work remains

    def run_now(self, timeout: float) -> None:
        """Start the due work in the background, and wait at most `timeout` seconds for it.

        After a timeout, further calls return immediately until the task has become idle.
        """
        state = self._state
        if state.overdue or threading.get_ident() in state.worker_threads:
            return
        self._start()
        with state.condition:
            idle = state.condition.wait_for(lambda: self.stopped or not (state.running or state.blocked), timeout)
            state.overdue = not idle

    def settle(self) -> None:
        """Run all work in this thread, including work that is due later.

        The method waits while another worker runs the work. It returns when no work is left, so it also runs work that
        is submitted meanwhile.

        Raises:
            Exception: The exception of the work.
        """
        while (pause := self._attempt()) is not None:
            if pause:
                _wait_briefly()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds until no work is left; return whether none is left."""
        state = self._state
        if threading.get_ident() in state.worker_threads:
            return False
        with state.condition:
            return state.condition.wait_for(
                lambda: not state.running and (self.stopped or not state.scheduled), timeout
            )

    def stop(self) -> None:
        """Stop the task, without waiting for running work."""
        if not self.stopped:
            self.stopped = True
            with self._state.condition:
                self._state.condition.notify_all()
            self._on_stop()

    def _start(self) -> None:
        state = self._state
        with state.condition:
            if self.stopped:
                return
            state.check_requested = True
            if not state.running:
                with contextlib.suppress(RuntimeError):  # no thread can be started: the next call tries again
                    _run_in_thread(self._run)
                    state.running = True

    def _on_timer(self, timer_number: int) -> None:
        if timer_number == self._state.timer_count:
            self._start()

    def _run(self) -> None:
        """Run due work until none is left, in a background thread."""
        state, pause = self._state, None  # as `_attempt` returns it: 0 to continue, None if no work is left
        while True:
            with state.condition:
                if self.stopped or not (state.check_requested or pause == 0):
                    state.running = state.scheduled = False
                    state.overdue = state.overdue and state.blocked  # idle, unless another worker runs the task
                    if pause is not None and not self.stopped:
                        self.wake_in(pause)
                    state.condition.notify_all()
                    return
                state.check_requested = False
            try:
                pause = self._attempt()
                pause = self._poll if pause is None else pause
                state.failures = 0
            except BaseException as error:
                if isinstance(error, MemoryClosed) or not self._background.engine.is_open:
                    self.stop()
                    continue
                pause = backoff(state.failures)
                state.failures += 1
                logger.warning("Background work %r failed, and will be retried.", self.key.kind, exc_info=error)

    def _attempt(self) -> float | None:
        """Run the due work, unless another worker runs it.

        Returns:
            The seconds until the next attempt: 0 if work was done, since more may be due. None if there is no work.
        """
        state, thread = self._state, threading.get_ident()
        if thread in state.worker_threads:
            return None
        delay, lease_left = self._background.engine.read(lambda tx: (self._due(tx), lease_seconds_left(tx, self.key)))
        if delay is None or delay > 0:
            state.blocked = False
            return delay
        lease = Lease(self._background, self.key)
        state.blocked = lease_left > 0 or not lease.take()
        if state.blocked:  # another worker may run for minutes, so a longer pause saves queries
            return min(lease_left or _WAIT_SECONDS, 5 * _WAIT_SECONDS)
        with lease:
            state.worker_threads.add(thread)
            try:
                pause = self._work(lease)
            finally:
                state.worker_threads.discard(thread)
        return pause if isinstance(pause, float) else 0.0


def lease_seconds_left(tx: Transaction, key: TaskKey) -> float:
    """Return the seconds until the lease of a task expires; 0 if it is free."""
    rows = query.find_lease(tx, **key._asdict())
    return max(0.0, rows[0]["expires_at"] / 1_000_000 - time.time()) if rows else 0.0


def _wait_briefly() -> None:
    """Wait before the next check of another worker's lease. A cancelled call raises instead."""
    check_cancelled()
    run_cancellable(partial(time.sleep, _WAIT_SECONDS))


class Background:
    """The background work of one open database.

    Args:
        engine: The database.

    Attributes:
        engine: The database.
        leases: The leases held by this process. `close` releases them.
        tasks: The tasks. `close` stops them.
    """

    leases: PerProcess[set[Lease]] = PerProcess(set)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tasks = WeakRegistry[Task]()
        self._tasks_by_key: dict[TaskKey, Task] = {}

    def add_task(self, key: TaskKey, due: Operation[float | None], work: Callable[[Lease], object]) -> Task:
        """Create and return a task that `settle` runs, and that polls every `POLL_SECONDS`."""
        self._tasks_by_key[key] = Task(self, key, due, work, poll=POLL_SECONDS)
        return self._tasks_by_key[key]

    def wake(self, key: TaskKey) -> None:
        """Wake the tasks with this `path` and `kind` whose `TaskKey.key` begins with `key.key`."""
        for task in self.tasks:
            if task.key[:2] == key[:2] and task.key.key.startswith(key.key):
                task.wake()

    def settle(self) -> None:
        """Run the work of all tasks that `add_task` created, in this thread.

        Raises:
            Exception: The exception of the first task that failed.
        """
        for task in list(self._tasks_by_key.values()):
            task.settle()

    def run_exclusively(self, key: TaskKey, work: Callable[[Lease], T]) -> T:
        """Wait for a lease, and call a function under it in this thread."""
        lease = Lease(self, key)
        while self.engine.read(lambda tx: lease_seconds_left(tx, key)) or not lease.take():
            _wait_briefly()
        with lease:
            return work(lease)

    def start_once(self, key: TaskKey, function: Callable[[], object]) -> None:
        """Call a function once in the background, under a lease, without waiting.

        Skip the call while another call with this key runs.
        """
        with contextlib.suppress(RuntimeError):  # no thread can be started: the next call tries again
            _run_in_thread(partial(self._call_once, key, function))

    def close(self) -> None:
        """Stop the tasks and release the leases, without waiting for running work."""
        for task in self.tasks:
            task.stop()
        if threading.current_thread().name == THREAD_NAME:
            return  # garbage collection may close the database within a transaction: let the leases expire
        for lease in list(self.leases):
            lease.release()

    def _call_once(self, key: TaskKey, function: Callable[[], object]) -> None:
        lease = Lease(self, key)
        try:
            if lease.take():
                with lease:
                    function()
        except Exception:
            if self.engine.is_open:
                logger.warning("Background work %r failed. The next call starts it again.", key.kind, exc_info=True)
