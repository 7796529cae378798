"""A diagnosis through a pool of PostgreSQL."""

from __future__ import annotations

from psycopg_pool import ConnectionPool

from langchain_agentmem import AgentMemory


class TestDiagnosis:
    def test_through_a_pool_it_finds_the_same_server(self, new_database):
        with ConnectionPool(new_database("postgres"), open=True) as pool, AgentMemory(pool) as memory:
            assert {each.name: each.level for each in memory.admin.diagnose()}["schema"] == "ok"
