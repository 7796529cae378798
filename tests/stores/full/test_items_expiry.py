"""The thread that sweeps expired items."""

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

OFTEN = 0.0001
"""Minutes between two sweeps."""
SECONDS = 120


@pytest.fixture
def store():
    with AgentMemoryStore.from_conn_string(":memory:") as store:
        yield store


@pytest.fixture
def sweeps(monkeypatch):
    """Tells of sweeps that have deleted something; an error that is put into `errors` is raised by the next sweep."""
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
            return deleted.acquire(timeout=SECONDS)

    sweeps = Sweeps()
    monkeypatch.setattr(AgentMemoryStore, "sweep_ttl", lambda store: sweeps(store))  # noqa: PLW0108 - a method is bound
    return sweeps


class TestTheSweeper:
    def test_it_sweeps_by_itself_until_it_is_stopped(self, store, sweeps):
        store.put(NS, "k", {}, ttl=OFTEN)
        future = store.start_ttl_sweeper(OFTEN)
        assert sweeps.delete()
        assert store.start_ttl_sweeper() is future
        assert store.stop_ttl_sweeper(timeout=SECONDS)
        assert future.result(timeout=SECONDS) is None
        assert store.stop_ttl_sweeper()
        future = store.start_ttl_sweeper(OFTEN)
        assert future.cancel()
        assert store.stop_ttl_sweeper(timeout=SECONDS)
        assert future.cancelled()

    async def test_it_is_started_and_stopped_as_that_of_an_async_store_is(self, store, sweeps):
        """Users of AsyncSqliteStore await what starts and what stops it, and the task that they are given."""
        store.put(NS, "k", {}, ttl=OFTEN)
        task = await store.start_ttl_sweeper(OFTEN)
        assert isinstance(task, asyncio.Task)
        assert not task.done()
        assert await asyncio.to_thread(sweeps.delete)
        assert await store.stop_ttl_sweeper(timeout=SECONDS) is True
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

    def test_one_that_was_started_in_a_loop_that_is_over_ends_quietly(self, store, caplog):
        async def start():
            return await store.start_ttl_sweeper(60)

        asyncio.run(start())
        assert store.stop_ttl_sweeper(timeout=SECONDS)
        assert caplog.text == ""

    def test_a_failure_does_not_end_it(self, store, sweeps, caplog):
        sweeps.errors = (sqlite3.OperationalError(),)
        store.put(NS, "k", {}, ttl=OFTEN)
        store.start_ttl_sweeper(OFTEN)
        assert sweeps.delete()
        assert "will be tried again" in caplog.text

    def test_it_keeps_no_forgotten_store_alive(self):
        store = AgentMemoryStore(":memory:")
        future, reference = store.start_ttl_sweeper(60), weakref.ref(store)
        del store
        gc.collect()
        assert reference() is None
        assert future.result(timeout=SECONDS) is None

    def test_a_wrong_interval_is_refused(self, store):
        for minutes in (0, -1, "1"):
            with pytest.raises(InvalidInput):
                store.start_ttl_sweeper(minutes)
