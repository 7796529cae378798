"""The background sweeper of expired items."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref

import pytest

from langchain_agentmem import AgentMemoryStore
from langchain_agentmem.errors import InvalidInput
from tests.stores.test_items_expiry import NS

INTERVAL_MINUTES = 0.0001
"""Minutes between two sweeps."""
TIMEOUT = 120


@pytest.fixture
def store():
    with AgentMemoryStore.from_conn_string(":memory:") as store:
        yield store


@pytest.fixture
def sweeps(monkeypatch):
    """Signal sweeps that deleted something; the next sweep raises an error from `errors`."""
    deleted, real = threading.Semaphore(0), AgentMemoryStore.sweep_ttl

    class Sweeps:
        errors: tuple[Exception, ...] = ()

        def __call__(self, store):
            if self.errors:
                error, self.errors = self.errors[0], ()
                raise error
            if count := real(store):
                deleted.release()
            return count

        def delete(self):
            return deleted.acquire(timeout=TIMEOUT)

    sweeps = Sweeps()
    monkeypatch.setattr(AgentMemoryStore, "sweep_ttl", lambda store: sweeps(store))  # noqa: PLW0108 - a method is bound
    return sweeps


class TestSweeper:
    def test_sweeper_runs_until_stopped(self, store, sweeps):
        store.put(NS, "k", {}, ttl=INTERVAL_MINUTES)
        future = store.start_ttl_sweeper(INTERVAL_MINUTES)
        assert sweeps.delete()
        assert store.start_ttl_sweeper() is future
        assert store.stop_ttl_sweeper(timeout=TIMEOUT)
        assert future.result(timeout=TIMEOUT) is None
        assert store.stop_ttl_sweeper()
        future = store.start_ttl_sweeper(INTERVAL_MINUTES)
        assert future.cancel()
        assert store.stop_ttl_sweeper(timeout=TIMEOUT)
        assert future.cancelled()

    async def test_sweeper_start_and_stop_can_be_awaited(self, store, sweeps):
        """Users of AsyncSqliteStore await starting, stopping and the returned task."""
        store.put(NS, "k", {}, ttl=INTERVAL_MINUTES)
        task = await store.start_ttl_sweeper(INTERVAL_MINUTES)
        assert isinstance(task, asyncio.Task)
        assert not task.done()
        assert await asyncio.to_thread(sweeps.delete)
        assert await store.stop_ttl_sweeper(timeout=TIMEOUT) is True
        assert await task is None
        assert task.done()
        assert await store.stop_ttl_sweeper() is True
        future = store.start_ttl_sweeper(60)
        task = await future
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert future.cancelled()
        assert await store.stop_ttl_sweeper()

    def test_sweeper_of_closed_loop_stops_silently(self, store, caplog):
        async def start():
            return await store.start_ttl_sweeper(60)

        asyncio.run(start())
        assert store.stop_ttl_sweeper(timeout=TIMEOUT)
        assert caplog.text == ""

    def test_sweeper_continues_after_failure(self, store, sweeps, caplog):
        sweeps.errors = (sqlite3.OperationalError(),)
        store.put(NS, "k", {}, ttl=INTERVAL_MINUTES)
        store.start_ttl_sweeper(INTERVAL_MINUTES)
        assert sweeps.delete()
        assert "will be retried" in caplog.text

    def test_sweeper_does_not_keep_the_store_alive(self):
        store = AgentMemoryStore(":memory:")
        future, reference = store.start_ttl_sweeper(60), weakref.ref(store)
        del store
        gc.collect()
        assert reference() is None
        assert future.result(timeout=TIMEOUT) is None

    def test_invalid_interval_is_rejected(self, store):
        for minutes in (0, -1, "1"):
            with pytest.raises(InvalidInput):
                store.start_ttl_sweeper(minutes)
