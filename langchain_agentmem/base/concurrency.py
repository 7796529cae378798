"""Async twins: coroutine functions that run a sync method in a worker thread.

    def get(self, key: str) -> str | None: ...

    aget = awaited(get)

A call of an async twin is an awaited call. The method runs in a copy of the caller's context. A coroutine that the
method needs, such as a model call, runs on the caller's event loop: see `run_on_callers_loop`. A cancelled call
finishes a database write that has begun, begins no other write, and cancels a model call.

The current call is stored in a thread-local variable, not in a context variable: user code may copy a context into
threads and event loops that are not workers. Such threads and loops must not wait for the caller's loop.

anyio's `to_thread` does most of this, but it stops waiting for the thread when `asyncio.Task.cancel` is called.

A forked child has only the thread that forked. A lock that another thread held stays locked there forever, and the
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
if hasattr(os, "register_at_fork"):  # a hook may fork in a worker; no event loop runs in the child
    os.register_at_fork(after_in_child=partial(setattr, _call_state, "call", None))


class PerProcess(Generic[T]):
    """An attribute with a separate value in each process, such as a lock.

        class Cache:
            _lock = PerProcess(threading.Lock)

    A forked child begins with a new value. The child keeps a reference to the parent's value, so garbage collection
    never closes that value.

    Args:
        create_value: Creates a value. It may be called twice if two threads read the attribute first at the same time.
    """

    def __init__(self, create_value: Callable[[], T]) -> None:
        self._create_value = create_value

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = f"{name} by process"

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        process_id = os.getpid()
        try:
            return instance.__dict__[self._attribute][process_id]  # type: ignore[no-any-return]  # has the type T
        except KeyError:
            values: dict[int, T] = instance.__dict__.setdefault(self._attribute, {})
            return values.setdefault(process_id, self._create_value())

    def __set__(self, instance: Any, value: T) -> None:
        instance.__dict__.setdefault(self._attribute, {})[os.getpid()] = value


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Pause garbage collection in a block that creates many long-lived objects.

    Otherwise the new objects soon move to the oldest generation, and Python runs a full collection every few reads. If
    collection is already off, it stays off. The block must not wait, because collection is off in all threads.
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
        writes: True to run the function in `write_workers`, False for `read_workers`. Default: False. A function that
            mostly reads may write in `read_workers`, because a write frees the slot of its thread (see `Workers`).
    """
    name = function.__name__
    owner, _, _ = function.__qualname__.rpartition(".")
    is_method = owner and not owner.endswith("<locals>")

    @wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        run = partial(getattr(args[0], name), *args[1:], **kwargs) if is_method else partial(function, *args, **kwargs)
        coroutine = run_in_worker(run, writes=writes)
        del args, kwargs, run  # a traceback shows locals, and an encryption key may be among them
        return await coroutine

    twin.__name__ = f"_a{name[1:]}" if name.startswith("_") else f"a{name}"
    twin.__qualname__ = f"{owner}.{twin.__name__}".lstrip(".")
    return twin


async def run_in_worker(function: Callable[[], T], *, writes: bool = False) -> T:
    """Call a function in a worker thread, in a copy of this context.

    Args:
        function: The function.
        writes: True if the function writes to the database, as for `awaited`.
    """
    context = contextvars.copy_context()
    if is_in_worker():  # user code runs an event loop in a worker: waiting for another worker could deadlock
        return context.run(function)
    call = _Call(asyncio.get_running_loop(), write_workers if writes else read_workers, partial(context.run, function))
    del function  # a traceback shows locals, and its arguments may contain an encryption key
    future: Future[T] = call.workers.submit(call.run)
    try:
        await _wait_for(future)
    except asyncio.CancelledError:
        if not future.cancel():
            call.cancel()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):  # only the first is raised, below
                    await _wait_for(future)
        raise
    try:
        return future.result()
    finally:
        del future  # breaks the reference cycle of the exception, its traceback and this frame


async def iterate_in_worker(iterator: Iterator[T]) -> AsyncIterator[T]:
    """Iterate over an iterator in a worker thread."""
    end = object()
    while (item := await run_in_worker(partial(next, iterator, end))) is not end:
        yield item


def is_in_worker() -> bool:
    """Return whether this thread runs an awaited call."""
    return _call_state.call is not None


def is_in_read_worker() -> bool:
    """Return whether this thread runs an awaited call that was declared to read."""
    return (call := _call_state.call) is not None and call.workers is read_workers


def check_cancelled() -> None:
    """Raise `asyncio.CancelledError` if the awaited call of this thread was cancelled."""
    if (call := _call_state.call) is not None:
        call.check()


def run_on_callers_loop(make: Callable[[], Coroutine[Any, Any, T]], *, always: bool = False) -> T:
    """Run a coroutine on the caller's event loop, from a worker, and wait for it.

    During the wait, another call may use the worker's slot.

    Args:
        make: Creates the coroutine.
        always: True to run the coroutine even after the call was cancelled, and never cancel it. Default: False.

    Raises:
        asyncio.CancelledError: The call was cancelled, or its event loop was closed.
        RuntimeError: No awaited call runs in this thread. With `always`: the event loop was closed.
    """
    if (call := _call_state.call) is None:
        raise RuntimeError("No awaited call runs in this thread.")
    if not always:
        call.check()
    future: Future[T] = Future()
    with contextlib.suppress(RuntimeError):  # the loop is closed
        call.loop.call_soon_threadsafe(partial(_start_coroutine, call, make, future, always=always))
    with call.workers.release_slot():
        while not future.done() and not call.loop.is_closed():
            wait([future], LOOP_CHECK_SECONDS)
    try:
        if future.done():
            return future.result()
    finally:
        del future  # breaks the reference cycle of the exception, its traceback and this frame
    call.cancelled = True
    raise RuntimeError("The event loop of the caller was closed.") if always else asyncio.CancelledError


def _start_coroutine(call: _Call, make: Callable[[], Coroutine[Any, Any, T]], done: Future[T], *, always: bool) -> None:
    """Start the coroutine of `run_on_callers_loop`; runs on the caller's event loop."""

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
    """Start a daemon thread that calls a function in a copy of this context."""
    future: Future[T] = Future()
    run = partial(contextvars.copy_context().run, function)
    threading.Thread(target=_settle_future, args=[future, run], name=f"{THREAD_NAME}-call", daemon=True).start()
    return future


def run_cancellable(function: Callable[[], T]) -> T:
    """Call a function that may take long and writes nothing.

    In a worker, cancelling the awaited call ends the wait; the function runs on in its thread.
    """
    if not is_in_worker():
        return function()
    future = run_in_new_thread(function)
    run_on_callers_loop(partial(_wait_for, future))
    return future.result()


def release_slot() -> contextlib.AbstractContextManager[None]:
    """Return a context manager for a wait. Another call may use a worker's slot meanwhile."""
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
    except BaseException as error:  # noqa: BLE001 - the reader of the future's result raises it
        future.set_exception(error)
    finally:
        del future, function  # breaks the reference cycle of the exception, its traceback and this frame


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
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(finish)

    future.add_done_callback(wake)
    await waiter


class _Call:
    """An awaited call whose function runs in a worker.

    Attributes:
        loop: The event loop of the caller.
        workers: The pool whose thread runs the function.
        function: The function. No local variable has it: tracebacks show locals, and its arguments may contain a key.
        cancelled: True if the caller cancelled the call, or its event loop was closed.
        task: The task on the event loop that the call waits for, if any.
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
        """Mark the call as cancelled, and cancel the task that it waits for."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class _PoolState:
    """The state of one pool of workers in one process.

    Attributes:
        lock: The lock for the other attributes.
        queue: The calls that wait for a thread.
        idle: The number of idle threads that are not reserved for a queued call.
        threads: The number of threads, not counting those that released their slot.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self.idle = self.threads = 0


class Workers:
    """A pool of daemon threads. Each working thread occupies a slot.

    A thread frees its slot while it waits in `release_slot`. A function in a worker makes further awaited calls in its
    own thread, so no thread with a slot waits for another thread.

    Args:
        size: The number of slots.
    """

    _state = PerProcess(_PoolState)

    def __init__(self, size: int) -> None:
        self.size = size

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Schedule a function in a thread of the pool.

        Raises:
            RuntimeError: The pool has no running thread, and none can be started.
        """
        future: Future[T] = Future()
        state = self._state
        with state.lock:
            if state.idle:
                state.idle -= 1
            else:
                self._start_thread(state)
            state.queue.put((future, function))
        return future

    @contextlib.contextmanager
    def release_slot(self) -> Iterator[None]:
        """Free this thread's slot during the block, so that another thread can run."""
        state = self._state
        try:
            with state.lock:
                state.threads -= 1
                if not state.queue.empty():
                    with contextlib.suppress(RuntimeError):  # no thread can be started: this one runs the call later
                        self._start_thread(state)
            yield
        finally:
            with state.lock:
                state.threads += 1  # does not wait for a free slot, so briefly one thread too many may run

    def _start_thread(self, state: _PoolState) -> None:
        """Start a thread if a slot is free; the caller holds the lock.

        A failed start is ignored while another thread of the pool runs.
        """
        if state.threads < self.size:
            with contextlib.suppress(RuntimeError) if state.threads else contextlib.nullcontext():
                threading.Thread(target=self._run_queue, args=[state], name=THREAD_NAME, daemon=True).start()
                state.threads += 1

    def _run_queue(self, state: _PoolState) -> None:
        while True:
            future, function = state.queue.get()
            if future.set_running_or_notify_cancel():
                _settle_future(future, function)
            del future, function
            with state.lock:
                if state.threads > self.size:
                    state.threads -= 1
                    return
                state.idle += state.queue.empty()  # else this thread runs the next queued call


read_workers = Workers(8)
"""The threads for calls that read. A larger `DatabaseOptions.pool_size` of PostgreSQL enlarges both pools."""
write_workers = Workers(4)
"""The threads for calls that write, so readers do not wait for writers."""


# --- Closable objects, and values that may be awaited ----------------------------------------------------------------


class Closable:
    """A context manager, both sync and async, with a `close` method."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close the object. Closing twice is harmless."""

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
