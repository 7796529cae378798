"""The thread that sweeps expired items."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
import weakref

import pytest

from langchain_agentmem import AgentMemoryStore
from langchain_agentmem.errors import InvalidInput
from tests.stores.test_items_expiry import NS


@pytest.fixture
def swept():
    """A store with a sweeper that turns quickly, and a way to wait for it."""
    with AgentMemoryStore.from_conn_string(":memory:") as store:
        yield store


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestTheSweeper:
    def test_it_sweeps_by_itself_until_it_is_stopped(self, swept):
        swept.put(NS, "k", {}, ttl=0.0001)
        future = swept.start_ttl_sweeper(0.0001)
        until(lambda: swept.database.engine.read(_count) == 0)
        assert swept.start_ttl_sweeper() is future
        assert swept.stop_ttl_sweeper(timeout=120)
        assert future.result(timeout=120) is None
        assert swept.stop_ttl_sweeper()

    def test_cancelling_its_future_stops_it(self, swept):
        future = swept.start_ttl_sweeper(0.0001)
        assert future.cancel()
        assert swept.stop_ttl_sweeper(timeout=120)
        assert future.cancelled()

    async def test_it_is_started_and_stopped_as_that_of_an_async_store_is(self, swept):
        """Users of AsyncSqliteStore await what starts and what stops it, and the task that they are given."""
        swept.put(NS, "k", {}, ttl=0.0001)
        task = await swept.start_ttl_sweeper(0.0001)
        assert not task.done()
        await asyncio.to_thread(until, lambda: swept.database.engine.read(_count) == 0)
        assert await swept.stop_ttl_sweeper(timeout=30) is True
        assert await task is None
        assert task.done()
        assert await swept.stop_ttl_sweeper() is True
        task = await swept.start_ttl_sweeper(60)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert await swept.stop_ttl_sweeper()

    def test_one_that_was_started_in_a_loop_that_is_over_ends_quietly(self, swept, caplog):
        async def start():
            return await swept.start_ttl_sweeper(60)

        task = asyncio.run(start())
        assert swept.stop_ttl_sweeper(timeout=30)
        assert task.done()
        assert caplog.text == ""

    def test_a_failure_does_not_end_it(self, swept, monkeypatch, caplog):
        turns = []
        real = AgentMemoryStore.sweep_ttl

        def failing(self):
            turns.append(1)
            if len(turns) == 1:
                raise sqlite3.OperationalError
            return real(self)

        monkeypatch.setattr(AgentMemoryStore, "sweep_ttl", failing)
        swept.start_ttl_sweeper(0.0001)
        until(lambda: len(turns) > 2)
        assert "Sweeping failed" in caplog.text

    def test_it_keeps_no_forgotten_store_alive(self):
        store = AgentMemoryStore(":memory:")
        future, reference = store.start_ttl_sweeper(60), weakref.ref(store)
        before = threading.active_count()
        del store
        gc.collect()
        assert reference() is None
        assert future.result(timeout=120) is None
        until(lambda: threading.active_count() < before)

    @pytest.mark.parametrize("minutes", [0, -1, "1"])
    def test_a_wrong_interval_is_refused(self, swept, minutes):
        with pytest.raises(InvalidInput):
            swept.start_ttl_sweeper(minutes)


def _count():
    from langchain_agentmem.storage import query

    [row] = yield query.statistics()
    return row["items"]
