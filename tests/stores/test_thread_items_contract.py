"""The store of a thread does all that LangGraph's contract for stores says: within one task, and from run to run."""

from __future__ import annotations

import pytest

from langchain_agentmem.stores.thread_items import AgentMemoryThreadStore
from langchain_agentmem.testing import ExpiringStoreContract, IndexedStoreContract, StoreContract
from tests.living import InRuns, InTask, live_task, stop_time


class TestInOneTask(StoreContract):
    """A task goes on as long as the test."""

    @pytest.fixture
    def url(self, new_database):
        return new_database("postgres")

    @pytest.fixture
    def store(self, memory, clock, monkeypatch):
        stop_time(monkeypatch, clock)
        with live_task(memory) as task:
            yield InTask(memory.thread_store, task)

    @pytest.fixture
    def tick(self, clock):
        return lambda: clock.pass_time(seconds=1)


class TestFromRunToRun(StoreContract):
    """Each call is a run, so that what it puts goes through a checkpoint."""

    @pytest.fixture
    def url(self, new_database):
        return new_database("sqlite")

    @pytest.fixture
    def store(self, memory, clock, monkeypatch):
        stop_time(monkeypatch, clock)
        return InRuns(memory.thread_store, memory)

    @pytest.fixture
    def tick(self, clock):
        return lambda: clock.pass_time(seconds=1)


class TestWithVectors(IndexedStoreContract):
    @pytest.fixture
    def make_store(self, memory):
        with live_task(memory) as task:
            yield lambda index: InTask(AgentMemoryThreadStore(memory, index=index), task)


class TestExpiry(ExpiringStoreContract):
    """Within a task time stands still, so each call is a run."""

    @pytest.fixture
    def make_store(self, memory, clock, monkeypatch):
        stop_time(monkeypatch, clock)
        return lambda ttl: InRuns(AgentMemoryThreadStore(memory, ttl=ttl), memory)

    @pytest.fixture
    def pass_minutes(self, clock):
        return lambda minutes: clock.pass_time(minutes=minutes)
