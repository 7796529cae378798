"""The cache of Studio: slow values are computed once in the background, and kept for a minute."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from langchain_agentmem.studio import application
from langchain_agentmem.studio.application import ResultCache

LONG = 60


class Counting:
    """Finds a number, when it may, and counts how often it was asked."""

    def __init__(self) -> None:
        self.may, self.asked = threading.Event(), 0

    def __call__(self) -> int:
        self.asked += 1
        assert self.may.wait(LONG)
        return self.asked


@pytest.fixture
def find():
    find = Counting()
    yield find
    find.may.set()


async def test_value_is_computed_once_without_blocking_requests(find):
    known = ResultCache()
    assert await asyncio.gather(*(known.fetch("x", find, max_wait=0) for _ in range(9))) == [None] * 9
    find.may.set()
    found = await known.fetch("x", find, max_wait=LONG)
    assert (found.value, find.asked) == (1, 1)
    assert await known.fetch("x", find, max_wait=0) == found


async def test_stale_value_is_served_until_refresh(find, monkeypatch):
    known = ResultCache()
    find.may.set()
    old = await known.fetch("x", find, max_wait=LONG)
    monkeypatch.setattr(application, "CACHE_AGE", timedelta(0))
    find.may.clear()
    assert await known.fetch("x", find, max_wait=0) == old
    find.may.set()
    assert (await known.fetch("x", find, max_wait=LONG)).value == 2


async def test_failure_is_raised_and_retried(find):
    known, wrong = ResultCache(), [OSError("no room")]

    def fail():
        if wrong:
            raise wrong.pop()
        return 3

    with pytest.raises(OSError, match="no room"):
        await known.fetch("x", fail, max_wait=LONG)
    assert (await known.fetch("x", fail, max_wait=LONG)).value == 3
