"""Waiting: for lists that other threads fill, for threads that begin together, and for tasks that are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

LIMIT = 60
"""Seconds after which a wait in vain fails."""


class Awaited(list[Any]):
    """A list that a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()

    def append(self, item: Any) -> None:
        with self._news:
            super().append(item)
            self._news.notify_all()

    def wait(self, count: int) -> None:
        """Return when so many items were appended."""
        with self._news:
            assert self._news.wait_for(lambda: len(self) >= count, LIMIT), f"no more than {self!r} came"


def all_at_once(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions in threads that begin together, and give what each gave."""
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and see that it ends so."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
