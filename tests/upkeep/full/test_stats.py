"""Statistics of PostgreSQL."""

import pytest
from psycopg_pool import ConnectionPool

from langchain_agentmem import AgentMemory
from langchain_agentmem.upkeep.admin import tables_by_part
from tests.word_embeddings import WordEmbeddings


@pytest.mark.sqlite_suffices
class TestParts:
    def test_vector_tables_belong_to_a_part(self, new_database):
        with AgentMemory(new_database("postgres"), index={"embed": WordEmbeddings(26), "dims": 26}) as memory:
            tables = memory.database.engine.sizes().tables
            assert set(tables) <= {table for part in tables_by_part().values() for table in part}


def test_diagnosis_through_a_pool_reports_the_schema(new_database):
    with ConnectionPool(new_database("postgres"), open=True) as pool, AgentMemory(pool) as memory:
        assert {each.name: each.level for each in memory.admin.diagnose()}["schema"] == "ok"
