"""`AgentMemoryStore` fulfils the contract of LangGraph stores."""

import pytest

from langchain_agentmem.stores.agent_store import AgentMemoryStore
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_expiring import ExpiringStoreContract
from tests.contracts.store_indexing import IndexedStoreContract


@pytest.mark.encrypted_too
class TestAgentMemoryStore(StoreContract):
    """Ours, on both engines, and encrypted."""

    @pytest.fixture
    def store(self, memory):
        return AgentMemoryStore(memory)

    @pytest.fixture
    def tick(self, clock):
        return lambda: clock.pass_time(seconds=1)


@pytest.mark.encrypted_too
class TestAgentMemoryStoreWithVectors(IndexedStoreContract):
    """Ours with embeddings."""

    @pytest.fixture
    def make_store(self, memory):
        return lambda index: AgentMemoryStore(memory, index=index)


class TestAgentMemoryStoreWithExpiry(ExpiringStoreContract):
    """Ours with a time to live."""

    @pytest.fixture
    def make_store(self, memory):
        return lambda ttl: AgentMemoryStore(memory, ttl=ttl)

    @pytest.fixture
    def pass_minutes(self, clock):
        return lambda minutes: clock.pass_time(minutes=minutes)
