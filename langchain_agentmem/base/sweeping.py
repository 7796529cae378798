"""A thread that does something every few minutes, until it is told to stop or its owner is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from typing import Any

from langchain_agentmem.errors import MemoryClosed

logger = logging.getLogger(__name__)


class Task:
    """A sweeper as asyncio's tasks are: it can be awaited and cancelled."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future
        self.cancel, self.cancelled, self.done = future.cancel, future.cancelled, future.done

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.wrap_future(self._future).__await__()


class Ending(Future[None]):
    """What is done when a sweeper has ended, and ends it when cancelled. Awaited, it gives its `Task` at once."""

    def __await__(self) -> Generator[Any, None, Task]:
        yield from ()
        return Task(self)


class Sweeper:
    """A running thread.

    It holds the object that it works for weakly, so that it never keeps a database open, and ends with it.

    Args:
        owner: Whom it works for.
        work: What to do with the owner, every time. What it raises is logged, and the next time comes all the same.
        seconds: How long to wait between.
    """

    def __init__(self, owner: Any, work: Callable[[Any], object], seconds: float) -> None:
        self.future = Ending()
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
