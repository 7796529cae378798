"""Statistics of PostgreSQL."""

import pytest
from langchain_core.embeddings import Embeddings

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import query
from langchain_agentmem.upkeep.database_report import tables_by_part


@pytest.mark.sqlite_suffices
class TestParts:
    def test_the_tables_of_vectors_are_too(self, new_database):
        with AgentMemory(new_database("postgres"), index={"embed": Letters(), "dims": 26}) as memory:
            tables = memory.database.engine.sizes().tables
            assert set(tables) <= {table for part in tables_by_part().values() for table in part}


def test_a_session_that_was_in_a_hurry_has_time_again(new_database):
    def operation():
        yield query.create_namespace(path="a")

    with AgentMemory(new_database("postgres")) as memory:
        engine = memory.database.engine
        engine.write_at_once(operation)
        memory.search("hello")
        assert all(session._patience > 60 for session, _ in engine._pool._idle)


class Letters(Embeddings):
    """How often each letter stands in a text."""

    def embed_documents(self, texts):
        return [[text.lower().count(chr(97 + n)) + 0.1 for n in range(26)] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]
