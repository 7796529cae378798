"""Statistics of PostgreSQL."""

import pytest
from psycopg_pool import ConnectionPool

from langchain_agentmem import AgentMemory
from langchain_agentmem.upkeep.admin import tables_by_part
from tests.word_embeddings import WordEmbeddings


@pytest.mark.sqlite_suffices
class TestParts:
    def test_the_tables_of_vectors_are_too(self, new_database):
        with AgentMemory(new_database("postgres"), index={"embed": WordEmbeddings(26), "dims": 26}) as memory:
            tables = memory.database.engine.sizes().tables
            assert set(tables) <= {table for part in tables_by_part().values() for table in part}


def test_a_diagnosis_through_a_pool_finds_the_same_server(new_database):
    with ConnectionPool(new_database("postgres"), open=True) as pool, AgentMemory(pool) as memory:
        assert {each.name: each.level for each in memory.admin.diagnose()}["schema"] == "ok"
