"""Async twins of methods: the method runs in a worker thread, with the context of the caller.

    def get(self, key: str) -> str | None: ...

    aget = awaited(get)

A coroutine that the method needs, such as a model call, runs on the caller's event loop: see `run_on_callers_loop`.
Cancelling waits for a database write that has begun, begins no other one, and cancels a model call.

The current call belongs to the thread, not to the context: user code may copy a context into threads and event loops
that are not workers, and these must not wait for the caller's loop.

anyio's `to_thread` would do most of this, but it stops waiting for the thread when a task is cancelled natively.

A forked child has only the thread that forked: a lock that another thread held stays locked there forever, and the
threads of the parent do not run. So locks and threads are `PerProcess`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, wait
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREAD_NAME = "agentmem-worker"
LOOP_CHECK_SECONDS = 5.0
"""Seconds after which a thread that waits for an event loop checks whether the loop was closed."""


class _CallState(threading.local):
    call: _Call | None = None
    """The awaited call that runs in this thread."""


_call_state = _CallState()
if hasattr(os, "register_at_fork"):  # a worker may fork, in a hook: its child has no event loop that runs
    os.register_at_fork(after_in_child=partial(setattr, _call_state, "call", None))


class PerProcess(Generic[T]):
    """An attribute with a separate value in each process, such as a lock.

    class Cache:
        _lock = PerProcess(threading.Lock)

    A forked child begins with a new value. That of its parent is kept, so that nothing of it is closed there.

    Args:
        make: Makes a value. It may be called twice, where two threads need the first one at the same time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"{name} by process"

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        process = os.getpid()
        try:
            return instance.__dict__[self._slot][process]  # type: ignore[no-any-return]  # what was set
        except KeyError:
            values: dict[int, T] = instance.__dict__.setdefault(self._slot, {})
            return values.setdefault(process, self._make())

    def __set__(self, instance: Any, value: T) -> None:
        instance.__dict__.setdefault(self._slot, {})[os.getpid()] = value


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Pause garbage collection in a block that creates many objects, all needed.

    Otherwise Python treats the objects of a long list as old while the list grows, and searches the whole process for
    garbage every few reads. A collector that is already off stays off. The block must not wait.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def awaited(function: Callable[P, T], *, writes: bool = False) -> Callable[P, Coroutine[Any, Any, T]]:
    """Create the async twin of a function or method.

    The twin calls a method by name, so subclasses may override the method.

    Args:
        function: The method or function.
        writes: True for a function that writes to the database. It then queues with the writers, not the readers. A
            call that mostly reads may write, too: it frees its place to another call meanwhile.
    """
    name = function.__name__
    owner, _, _ = function.__qualname__.rpartition(".")
    is_method = owner and not owner.endswith("<locals>")

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = (
            partial(getattr(args[0], name), *args[1:], **kwargs) if is_method else partial(function, *args, **kwargs)
        )
        coroutine = run_in_worker(bound, writes=writes)
        del args, kwargs, bound  # a traceback would show them, and a key may be among them
        return await coroutine

    call.__name__ = f"_a{name[1:]}" if name.startswith("_") else f"a{name}"
    call.__qualname__ = f"{owner}.{call.__name__}".lstrip(".")
    return call


async def run_in_worker(function: Callable[[], T], *, writes: bool = False) -> T:
    """Call a function in a worker thread, in a copy of this context.

    Args:
        function: What to call.
        writes: Whether it writes to the database, as for `awaited`.
    """
    context = contextvars.copy_context()
    if is_in_worker():  # user code runs an event loop in a worker: waiting for another worker could be a deadlock
        return context.run(function)
    call = _Call(asyncio.get_running_loop(), write_workers if writes else read_workers, partial(context.run, function))
    del function  # a traceback would show it, and a key may be among its arguments
    future: Future[T] = call.workers.submit(call.run)
    try:
        await _wait_for(future)
    except asyncio.CancelledError:
        if not future.cancel():
            call.cancel()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):  # the first one is raised
                    await _wait_for(future)
        raise
    try:
        return future.result()
    finally:
        del future  # it would keep the exception, whose traceback keeps this frame


async def iterate_in_worker(iterator: Iterator[T]) -> AsyncIterator[T]:
    """Iterate over something in a worker thread."""
    end = object()
    while (each := await run_in_worker(partial(next, iterator, end))) is not end:
        yield each


def is_in_worker() -> bool:
    """Return whether this thread runs an awaited call."""
    return _call_state.call is not None


def is_in_read_worker() -> bool:
    """Return whether this thread runs an awaited call that was declared to read."""
    return (call := _call_state.call) is not None and call.workers is read_workers


def check_cancelled() -> None:
    """Raise `asyncio.CancelledError` if the awaited call that runs here was cancelled."""
    if (call := _call_state.call) is not None:
        call.check()


def run_on_callers_loop(make: Callable[[], Coroutine[Any, Any, T]], *, always: bool = False) -> T:
    """From a worker, run a coroutine on the caller's event loop and wait for it.

    Another call may use the worker's place meanwhile.

    Args:
        make: Makes the coroutine.
        always: Run the coroutine even after the call was cancelled, and do not cancel the coroutine.

    Raises:
        asyncio.CancelledError: The call was cancelled, or its event loop was closed.
        RuntimeError: With `always`: the event loop was closed.
    """
    if (call := _call_state.call) is None:
        raise RuntimeError("No awaited call runs in this thread.")
    if not always:
        call.check()
    done: Future[T] = Future()
    with contextlib.suppress(RuntimeError):  # the loop is closed
        call.loop.call_soon_threadsafe(partial(_start_coroutine, call, make, done, always=always))
    with call.workers.release_slot():
        while not done.done() and not call.loop.is_closed():
            wait([done], LOOP_CHECK_SECONDS)
    try:
        if done.done():
            return done.result()
    finally:
        del done  # it would keep the exception, whose traceback keeps this frame
    call.cancelled = True
    raise RuntimeError("The event loop of the caller was closed.") if always else asyncio.CancelledError


def _start_coroutine(call: _Call, make: Callable[[], Coroutine[Any, Any, T]], done: Future[T], *, always: bool) -> None:
    """Begin a coroutine for `run_on_callers_loop`, on the loop."""

    async def run() -> T:
        return await make()

    def finish(task: asyncio.Task[T]) -> None:
        if call.task is task:
            call.task = None
        _settle_future(done, task.result)

    if call.cancelled and not always:
        done.set_exception(asyncio.CancelledError())
        return
    task = call.loop.create_task(run())
    task.add_done_callback(finish)
    if not always:
        call.task = task


def run_in_new_thread(function: Callable[[], T]) -> Future[T]:
    """Start calling a function in a new daemon thread, in a copy of this context."""
    future: Future[T] = Future()
    run = partial(contextvars.copy_context().run, function)
    threading.Thread(target=_settle_future, args=[future, run], name=f"{THREAD_NAME}-call", daemon=True).start()
    return future


def run_cancellable(function: Callable[[], T]) -> T:
    """Call a function that may take long and writes nothing; in a worker it can be cancelled."""
    if not is_in_worker():
        return function()
    future = run_in_new_thread(function)
    run_on_callers_loop(partial(_wait_for, future))
    return future.result()


def release_slot() -> contextlib.AbstractContextManager[None]:
    """Wait for something in the block: in a worker, another call may work meanwhile."""
    call = _call_state.call
    return contextlib.nullcontext() if call is None else call.workers.release_slot()


def callers_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread's awaited call, else the running loop, if any."""
    if _call_state.call is not None:
        return _call_state.call.loop
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _settle_future(future: Future[T], function: Callable[[], T]) -> None:
    """Call a function, and set its result or exception on a future."""
    try:
        future.set_result(function())
    except StopIteration:  # a coroutine cannot raise it
        future.set_exception(RuntimeError("StopIteration was raised in an awaited call."))
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    finally:
        del future, function  # they keep the exception, whose traceback keeps this frame


async def _wait_for(future: Future[Any]) -> None:
    """Wait on an event loop until a thread settles a future.

    Cancelling the wait does not change the future.
    """
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def finish() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(finish)

    future.add_done_callback(wake)
    await waiter


class _Call:
    """An awaited call whose function runs in a worker.

    Attributes:
        loop: The event loop of the caller.
        workers: The pool whose thread runs it.
        function: The function. It is no local variable of a frame: a traceback would show its arguments, such as a key.
        cancelled: No caller waits for the call any more.
        task: The task on the loop that the call waits for.
    """

    __slots__ = ("cancelled", "function", "loop", "task", "workers")

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Workers, function: Callable[[], Any]) -> None:
        self.loop, self.workers, self.function = loop, workers, function
        self.cancelled = False
        self.task: asyncio.Task[Any] | None = None

    def run(self) -> Any:
        """Call the function, in a worker."""
        _call_state.call = self
        try:
            self.check()
            return self.function()
        finally:
            _call_state.call = None

    def check(self) -> None:
        """Raise `asyncio.CancelledError` if the call was cancelled."""
        if self.cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        """Begin nothing more, and cancel what is waited for on the loop."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class _State:
    """The state that the workers of a process share.

    Attributes:
        lock: Guards the others.
        tasks: Calls that wait for a thread.
        idle: The number of threads that wait for a call and are not expected to take one of those that wait.
        threads: The number of threads, not counting those that wait for an event loop.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self.idle = self.threads = 0


class Workers:
    """A pool of daemon threads. A thread that waits for an event loop frees its place.

    A call makes further calls in its own thread, so that no thread that holds a place waits for another.

    Args:
        size: Maximum number of threads that work at the same time.
    """

    _state = PerProcess(_State)

    def __init__(self, size: int) -> None:
        self.size = size

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Schedule a function in a thread of the pool.

        Raises:
            RuntimeError: No thread works, and none can be started.
        """
        future: Future[T] = Future()
        state = self._state
        with state.lock:
            if state.idle:
                state.idle -= 1
            else:
                self._start_thread(state)
            state.tasks.put((future, function))
        return future

    @contextlib.contextmanager
    def release_slot(self) -> Iterator[None]:
        """Free this thread's place for another during the block."""
        state = self._state
        try:
            with state.lock:
                state.threads -= 1
                if not state.tasks.empty():
                    with contextlib.suppress(RuntimeError):  # no thread can be started: this one takes the next call
                        self._start_thread(state)
            yield
        finally:
            with state.lock:
                state.threads += 1  # it goes on immediately: for a moment one more than usual works

    def _start_thread(self, state: _State) -> None:
        """Start a thread if a place is free; the caller holds the lock.

        A failed start is ignored while another thread of the pool runs.
        """
        if state.threads < self.size:
            with contextlib.suppress(RuntimeError) if state.threads else contextlib.nullcontext():
                threading.Thread(target=self._run_tasks, args=[state], name=THREAD_NAME, daemon=True).start()
                state.threads += 1

    def _run_tasks(self, state: _State) -> None:
        while True:
            future, function = state.tasks.get()
            if future.set_running_or_notify_cancel():
                _settle_future(future, function)
            del future, function
            with state.lock:
                if state.threads > self.size:
                    state.threads -= 1
                    return
                state.idle += state.tasks.empty()


read_workers = Workers(8)
"""For calls that read. `PostgresOptions.pool_size` may allow more."""
write_workers = Workers(4)
"""For calls that write, so that readers do not wait behind them."""


# --- What is closed, and what may be awaited as well as used ---------------------------------------------------------


class Closable:
    """A context manager, both sync and async, with a `close` method."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it. Closing twice is harmless."""

    async def aclose(self) -> None:
        """Close like `close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class CompletedAwaitable:
    """A completed result that may be awaited or ignored."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class AwaitableNumber(int):
    """A number or boolean that may be awaited or used directly."""

    def __new__(cls, value: int) -> Self:
        """Create the number, and store the value for `await`."""
        number = super().__new__(cls, value)
        number._value = value
        return number

    _value: int

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._value
