"""Erasures on a server."""

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy
from tests.support.plans import sampled_columns
from tests.upkeep.test_integrity import put_secrets, stored_bytes, tell_secrets, traces


class TestErasing:
    def test_the_servers_statistics_sample_nothing_that_was_said(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            tell_secrets(memory)
            put_secrets(memory)
            sampled = sampled_columns(memory, raw)
        harmless = {"agentmem_migration.name", "branch.kind", "entry.kind", "entry.follows"}
        assert sampled <= harmless


class TestOldTransactions:
    """What the server keeps for a transaction that began before an erasure could still be read from its files."""

    @pytest.fixture
    def secrets(self, new_database):
        return new_database("postgres")

    def test_an_erasure_waits_for_one_that_reads_or_writes_anywhere_but_for_one_that_reads_elsewhere(
        self, secrets, new_database
    ):
        reading = ("set transaction isolation level repeatable read", "select 1")
        elsewhere, writing = new_database("postgres"), ("select pg_current_xact_id()",)
        for where, does in ((secrets, reading), (secrets, writing), (elsewhere, writing), (elsewhere, reading)):
            with AgentMemory(secrets, busy_timeout=0.2) as memory, psycopg.connect(where) as other:
                tell_secrets(memory, 20)
                for statement in does:
                    other.execute(statement)
                if (where, does) != (elsewhere, reading):
                    with pytest.raises(DatabaseBusy, match="older transaction"):
                        memory.erase(namespace=())
                    assert memory.admin.stats()["messages"] == 0
                    other.rollback()
                memory.erase(namespace=())
                assert traces(stored_bytes(memory, secrets)) == [], (where, does)
