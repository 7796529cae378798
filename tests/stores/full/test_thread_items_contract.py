"""The store of a thread does all that LangGraph's contract for stores says: within one task, and from run to run.

Each test has a thread of its own, whose store is empty whatever others hold that lie in the same database.
"""

import itertools

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.stores.agent_store import AgentMemoryThreadStore
from tests.conftest import ENGINES, SteppingClock
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_expiring import ExpiringStoreContract
from tests.contracts.store_indexing import IndexedStoreContract
from tests.living import InRuns, InTask, live_task, stop_time, thread

THREADS = map("thread {}".format, itertools.count())


@pytest.fixture(scope="module")
def memories(request, sqlite_databases, tmp_path_factory):
    """A memory on each engine for all tests of this file that share one, opened when it is first asked for, with its
    clock."""
    opened = {}

    def memory_of(kind):
        if kind not in opened:
            if kind == "postgres":
                url = request.getfixturevalue("postgres_databases").migrated("threads")
            else:
                url = tmp_path_factory.mktemp("threads") / "memory.db"
                sqlite_databases.migrated(url)
            clock = SteppingClock()
            opened[kind] = AgentMemory(url, clock=clock), clock
        return opened[kind]

    yield memory_of
    for memory, _ in opened.values():
        memory.close()


class TestInOneTask(StoreContract):
    """The store in one task, which runs as long as the test."""

    large = 300

    @pytest.fixture
    def store(self, memories, monkeypatch):
        memory, clock = memories("postgres")
        stop_time(monkeypatch, clock)
        with live_task(memory, thread(next(THREADS))) as task:
            yield InTask(memory.thread_store, task)

    @pytest.fixture
    def tick(self, memories):
        return lambda: memories("postgres")[1].pass_time(seconds=1)


class TestFromRunToRun(StoreContract):
    """The store with one run per call, so that writes go through a checkpoint."""

    @pytest.fixture
    def store(self, memories, monkeypatch):
        memory, clock = memories("sqlite")
        stop_time(monkeypatch, clock)
        return InRuns(memory.thread_store, memory, thread(next(THREADS)))

    @pytest.fixture
    def tick(self, memories):
        return lambda: memories("sqlite")[1].pass_time(seconds=1)


class TestWithVectors(IndexedStoreContract):
    """The store with vectors, in a separate database because of their dimensions."""

    @pytest.fixture
    def make_store(self, memory):
        with live_task(memory) as task:
            yield lambda index: InTask(AgentMemoryThreadStore(memory, index=index), task)


class TestExpiry(ExpiringStoreContract):
    """Expiry with one run per call, since time stands still within a task."""

    @pytest.fixture(params=ENGINES)
    def kind(self, request):
        return request.param

    @pytest.fixture
    def make_store(self, memories, kind, monkeypatch):
        memory, clock = memories(kind)
        stop_time(monkeypatch, clock)
        return lambda ttl: InRuns(AgentMemoryThreadStore(memory, ttl=ttl), memory, thread(next(THREADS)))

    @pytest.fixture
    def pass_minutes(self, memories, kind):
        return lambda minutes: memories(kind)[1].pass_time(minutes=minutes)
