"""What takes a while is done beside an event loop, and not on it.

Encoding, analysing and redacting take as long as what they are given is large. With little it is done in the twinkling
of an eye, and to change the thread for it would take longer than doing it.

    entry = await aside(encoded, message)

A forked child has only the thread that forked. A lock that another thread held is held for ever there, and the threads
that the parent started do not run. So locks and threads are `PerProcess`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

from langchain_agentmem.errors import leaves_the_node

P = ParamSpec("P")
T = TypeVar("T")


class PerProcess(Generic[T]):
    """An attribute whose value each process makes for itself, such as a lock.

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


LARGE = 4_096
"""From how many characters or bytes on something is large."""
_EACH = 40  # what each value counts for besides
THREADS = 4
MOST_KINDS = 10_000

_beside: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("agentmem_beside", default=None)


async def aside(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function that only computes: here, or, if it is given much, in a thread.

    Args:
        function: What to call. It must not raise `StopIteration`.
        *arguments: What to call it with.
        **named: The same by name.
    """
    if not is_large((arguments, named)):
        return function(*arguments, **named)
    return await apart(partial(function, *arguments, **named))


async def apart(function: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for its end through cancellation."""
    context = contextvars.copy_context()
    context.run(_beside.set, asyncio.get_running_loop())
    return await ended(_threads.pool.submit(context.run, function))


async def led(work: Generator[Any, Any, T], answer: Callable[[Any], Awaitable[Any]]) -> T:
    """Lead a generator to its end: what it yields is answered here, and where it is given much, it goes on in a thread.

    Args:
        work: Yields what it wants, and is sent the answers. What goes wrong with one is raised in it, unless it is what
            LangGraph leaves a node by.
        answer: Gives the answer, awaited.
    """
    begin, much = partial(_sent, work, None), is_large(dict(inspect.getgeneratorlocals(work)))
    try:
        wish = await apart(begin) if much else begin()
        while not isinstance(wish, _Done):
            try:
                given = await answer(wish)
            except Exception as error:  # it is the work's to handle
                if leaves_the_node(error):
                    raise
                wish = await apart(partial(_thrown, work, error))
            else:
                go_on = partial(_sent, work, given)
                much = much or is_large(given)  # it may look at it again later
                wish = await apart(go_on) if much else go_on()
        return wish.value  # type: ignore[no-any-return]  # of any work
    finally:
        work.close()


def awaited(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A function that takes a while, as one that is awaited, called in a thread; its name begins with an `a`."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    call.__name__, call.__doc__ = f"a{function.__name__}", f"`{function.__name__}`, awaited."
    return call


class _Done(NamedTuple):
    """A generator has come to its end.

    Attributes:
        value: What it returned.
    """

    value: Any


def _sent(work: Generator[Any, Any, Any], answer: Any) -> Any:
    """What a generator wants next, as a value: no `StopIteration` leaves a thread."""
    try:
        return work.send(answer)
    except StopIteration as done:
        return _Done(done.value)


def _thrown(work: Generator[Any, Any, Any], error: Exception) -> Any:
    """The same after something went wrong."""
    try:
        return work.throw(error)
    except StopIteration as done:
        return _Done(done.value)


async def ended(future: Future[T]) -> T:
    """What a call in another thread gives. Cancelling is precise: one that has begun is seen to its end before."""
    try:
        return await asyncio.shield(asyncio.wrap_future(future))
    except asyncio.CancelledError:
        if not future.cancel():
            await _finished(future)
        raise


def at_home(function: Callable[[], object], patience: float) -> bool:
    """From within a call that is made `apart`, call a function on the loop beside which it is, and wait for it.

    Args:
        function: What to call.
        patience: Seconds to wait at most.

    Returns:
        False where it is not called, as this is no such call.
    """
    loop = _beside.get()
    if loop is None:
        return False
    done: Future[None] = Future()
    context = contextvars.copy_context()
    context.run(_beside.set, None)

    def there() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    with contextlib.suppress(TimeoutError):
        try:
            loop.call_soon_threadsafe(there, context=context)
        except RuntimeError:  # it is closed
            return False
        done.result(patience)
    return True


def is_large(given: Any) -> bool:
    """Whether something is large: a text, bytes, messages, any structure of these. It stops looking when it knows."""
    left, waiting = LARGE, [given]
    while waiting:
        each = waiting.pop()
        parts = _READERS.get(type(each), _NEW)
        if parts is _NEW:
            parts = _reader(type(each))
        if parts is not None:
            left -= _EACH + len(each) if parts is _LENGTH else _EACH
            if left <= 0:
                return True
            if parts is not _LENGTH:
                waiting += parts(each)
    return False


_Parts: TypeAlias = Callable[[Any], Iterable[Any]] | None

_NEW: _Parts = tuple
_LENGTH: _Parts = len  # type: ignore[assignment]  # stands for itself: a text is as large as it is long
_READERS: dict[type, _Parts] = {}
_ENDLESS = " " * LARGE
_STRUCTURES: dict[type[Any], Callable[[Any], Iterable[Any]]] = {
    dict: dict.values,
    **{each: each.__iter__ for each in (list, tuple, set, frozenset)},
}


def _many(base: type[Any], parts: Callable[[Any], Iterable[Any]], values: Any) -> Iterable[Any]:
    return parts(values) if base.__len__(values) * _EACH < LARGE else (_ENDLESS,)


def _attributes(value: Any) -> Iterable[Any]:
    return list(vars(value).values())


def _named(names: tuple[str, ...], value: Any) -> Iterable[Any]:
    return [getattr(value, name, None) for name in names]


def _reader(kind: type) -> _Parts:
    """What gives the parts of values of a kind; None for those that are small, and for handles of what is elsewhere."""
    found: _Parts = None
    if issubclass(kind, str | bytes | bytearray):
        found = _LENGTH
    elif bases := [each for each in _STRUCTURES if issubclass(kind, each)]:  # read as what it is, and not as it says
        found = partial(_many, bases[0], _STRUCTURES[bases[0]])
    elif hasattr(kind, "database"):
        found = None
    elif hasattr(kind, "__pydantic_fields__"):
        found = _attributes
    elif (fields := getattr(kind, "__dataclass_fields__", None)) is not None:
        found = partial(_named, tuple(fields))
    if len(_READERS) < MOST_KINDS:
        _READERS[kind] = found
    return found


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """A block that makes many objects, all of which are needed: Python looks for garbage after it.

    A long list would otherwise be taken for old objects while it is still being made, and every few readings the whole
    process would be searched for garbage. Where the collector is off already, it stays off. Nothing in it may wait.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _finished(future: Future[Any]) -> None:
    """Wait until a running call has ended, however often the waiting itself is cancelled."""
    done = asyncio.wrap_future(future)
    while not done.done():  # not `future`, which is done a moment before the loop hears of it
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:  # the caller re-raises the first one
            continue
    if not done.cancelled():
        done.exception()  # a failure that nobody is left to hear is not "never retrieved"


class _Threads:
    """The threads of what is done apart."""

    pool = PerProcess(partial(ThreadPoolExecutor, THREADS, thread_name_prefix="agentmem-apart"))


_threads = _Threads()
