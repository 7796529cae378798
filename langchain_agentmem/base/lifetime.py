"""What is opened is closed again: with `with`, with `async with`, or by hand.

A thread that looks after something as long as there is something to do, and is told when there may be more.

Whoever tells it never waits. What fails is tried again after a pause that grows; the thread ends when there is nothing
to do, and another begins with the next word.

A thread that does something every few minutes, until it is told to stop or its owner is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from types import TracebackType
from typing import Any, NamedTuple, Self

from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.errors import MemoryClosed


class Closing:
    """Something that is used with `with` or `async with`, and has a `close` of its own."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it. Closing twice is harmless."""

    async def aclose(self) -> None:
        """Async version of `close`."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Ready:
    """Nothing left to do, for those who await it and for those who do not."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class AwaitableNumber(int):
    """A number or a truth, for those who await it and for those who do not."""

    def __new__(cls, value: int) -> Self:
        """Keep what an await gives."""
        answer = super().__new__(cls, value)
        answer._value = value
        return answer

    _value: int

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._value


RETRIES = 8
"""How often what fails is tried again before the next word comes."""


class Looked(NamedTuple):
    """What a look came to.

    Attributes:
        again_in: The seconds after which another look makes sense; None if all is done.
        failed: Whether something failed.
        over: Whether there is nothing to be looked after any more.
    """

    again_in: float | None = None
    failed: bool = False
    over: bool = False


class Attendant:
    """Looks after something.

    Args:
        look: Looks, and does what there is to do.
        name: The name of the thread.
    """

    _news = PerProcess(threading.Condition)  # guards what follows
    _changed = PerProcess(bool)
    _thread: PerProcess[threading.Thread | None] = PerProcess(lambda: None)

    def __init__(self, look: Callable[[], Looked], name: str) -> None:
        self._look = look
        self._name = name
        self._started = False

    def start(self) -> bool:
        """Look from now on, when there is word. Returns whether it did not yet."""
        with self._news:
            begun, self._started = not self._started, True
            return begun

    def stop(self) -> None:
        """Look no more. Nothing is waited for."""
        with self._news:
            self._started = False
            self._news.notify_all()

    def notify(self) -> None:
        """There may be something to do. Does nothing unless started; never waits."""
        with self._news:
            if not self._started:
                return
            self._changed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._news.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do, or until time is up.

        Args:
            timeout: Seconds. Default: for ever.

        Returns:
            Whether there is nothing to do.
        """
        with self._news:
            return self._news.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        failures = 0
        while True:
            with self._news:
                if not (self._started and self._changed):
                    self._thread = None
                    self._news.notify_all()
                    return
                self._changed = False
            looked = self._look()
            if looked.over:
                self.stop()
            failures = failures + 1 if looked.failed else 0
            with self._news:
                if self._changed:
                    failures = 0
                elif looked.again_in is not None and failures <= RETRIES:
                    self._news.wait_for(lambda: self._changed or not self._started, looked.again_in)
                    self._changed = True


logger = logging.getLogger(__name__)


class SweepingTask:
    """A sweeper as asyncio's tasks are: it can be awaited and cancelled."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future
        self.cancel, self.cancelled, self.done = future.cancel, future.cancelled, future.done

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.wrap_future(self._future).__await__()


class SweepingEnd(Future[None]):
    """What is done when a sweeper has ended, and ends it when cancelled. Awaited, it gives its task at once."""

    def __await__(self) -> Generator[Any, None, SweepingTask]:
        yield from ()
        return SweepingTask(self)


class Sweeper:
    """A running thread.

    It holds the object that it works for weakly, so that it never keeps a database open, and ends with it.

    Args:
        owner: Whom it works for.
        work: What to do with the owner, every time. What it raises is logged, and the next time comes all the same.
        seconds: How long to wait between.
    """

    def __init__(self, owner: Any, work: Callable[[Any], object], seconds: float) -> None:
        self.future = SweepingEnd()
        stop = self._stop = threading.Event()
        self.future.add_done_callback(lambda _: stop.set())
        weakref.finalize(owner, stop.set).atexit = False
        arguments = (weakref.ref(owner), work, seconds, stop, self.future)
        self._thread = threading.Thread(target=_run, args=arguments, daemon=True, name="agentmem-sweeper")
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self, timeout: float | None) -> bool:
        """Let it end.

        Args:
            timeout: Seconds to wait for it; None for as long as it takes.

        Returns:
            Whether it has ended.
        """
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()


def _run(
    owner: Callable[[], Any], work: Callable[[Any], object], seconds: float, stop: threading.Event, future: Future[None]
) -> None:
    while not stop.wait(seconds):
        target = owner()
        if target is None:
            break
        try:
            work(target)
        except MemoryClosed:
            break
        except Exception:
            logger.exception("Sweeping failed; it is tried again in %s seconds.", seconds)
        del target
    with contextlib.suppress(InvalidStateError):  # it was cancelled
        future.set_result(None)
