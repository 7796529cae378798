"""Erasure on a PostgreSQL server."""

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy
from tests.support.plans import sampled_columns
from tests.upkeep.test_integrity import store_secret_items, store_secrets, stored_bytes, traces


def test_server_statistics_contain_no_stored_content(new_database, raw):
    with AgentMemory(new_database("postgres")) as memory:
        store_secrets(memory)
        store_secret_items(memory)
        sampled = sampled_columns(memory, raw)
    harmless = {"agentmem_migration.name", "branch.kind", "entry.kind", "entry.follows"}
    assert sampled <= harmless


class TestConcurrentTransactions:
    """Row versions kept for older transactions could still be read from the server's files."""

    @pytest.fixture
    def secrets(self, new_database):
        return new_database("postgres")

    def test_erasure_waits_for_older_transactions_on_its_data(self, secrets, new_database):
        reading = ("set transaction isolation level repeatable read", "select 1")
        elsewhere, writing = new_database("postgres"), ("select pg_current_xact_id()",)
        for where, does in ((secrets, reading), (secrets, writing), (elsewhere, writing), (elsewhere, reading)):
            with AgentMemory(secrets, busy_timeout=0.2) as memory, psycopg.connect(where) as other:
                store_secrets(memory, 20)
                for statement in does:
                    other.execute(statement)
                if (where, does) != (elsewhere, reading):
                    with pytest.raises(DatabaseBusy, match="older transaction"):
                        memory.erase(namespace=())
                    assert memory.admin.stats()["messages"] == 0
                    other.rollback()
                memory.erase(namespace=())
                assert traces(stored_bytes(memory, secrets)) == [], (where, does)
