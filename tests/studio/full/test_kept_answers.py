"""What takes long is found beside the requests, once, and kept for a minute."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from langchain_agentmem.studio import application
from langchain_agentmem.studio.application import AnswerCache

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


async def test_nobody_waits_for_it_and_it_is_found_once(find):
    known = AnswerCache()
    assert await asyncio.gather(*(known.fetch("x", find, timeout=0) for _ in range(9))) == [None] * 9
    find.may.set()
    found = await known.fetch("x", find, timeout=LONG)
    assert (found.value, find.asked) == (1, 1)
    assert await known.fetch("x", find, timeout=0) == found


async def test_what_is_old_is_shown_until_there_is_something_new(find, monkeypatch):
    known = AnswerCache()
    find.may.set()
    old = await known.fetch("x", find, timeout=LONG)
    monkeypatch.setattr(application, "CACHE_AGE", timedelta(0))
    find.may.clear()
    assert await known.fetch("x", find, timeout=0) == old
    find.may.set()
    assert (await known.fetch("x", find, timeout=LONG)).value == 2


async def test_what_fails_is_told_and_tried_again(find):
    known, wrong = AnswerCache(), [OSError("no room")]

    def fail():
        if wrong:
            raise wrong.pop()
        return 3

    with pytest.raises(OSError, match="no room"):
        await known.fetch("x", fail, timeout=LONG)
    assert (await known.fetch("x", fail, timeout=LONG)).value == 3
