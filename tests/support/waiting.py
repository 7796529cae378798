"""Waiting: for lists that other threads fill, until they hold enough, and for tasks that are cancelled."""

from __future__ import annotations

import asyncio
import threading
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


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and see that it ends so."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
