"""Copies of databases during writes, and to PostgreSQL."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import ForeignDatabase, InvalidInput
from tests.everything import with_vectors
from tests.upkeep.copies import copied, rows, same


class TestCompleteness:
    @pytest.mark.slow("in every form")
    def test_copy_is_searchable_and_writable(self, full, target):
        copied(full, target)
        with with_vectors(full) as memory, with_vectors(target) as copy:
            for query in ("herons and quinces", "where does Ana live", "medlars", "answer 139"):
                for kinds in (None, ["audit"]):
                    found = [[each.id for each in one.search(query, kinds=kinds)] for one in (memory, copy)]
                    assert found[0] == found[1]
            copy.settle()
            assert copy.search("it waits for its vector", limit=1)[0].conversation_id == "late"
            copy.conversation("new").add(role="user", content="said to the copy")
            copy.checkpointer.copy_thread("chat", "chat again")
            copy.facts("user-42", ("a",)).add_fact("user", "Ana", "lives in", "Faro")
            assert copy.admin.verify().problems == ()

    @pytest.mark.slow
    def test_copy_fills_pgvector_if_installed(self, full, new_database, tmp_path):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create extension vector")
            try:
                copied(full, url)
                tables = ("search_vector", "search_pgvector")
                counts = [connection.execute(f"select count(*) from agentmem.{each}").fetchone()[0] for each in tables]
                assert counts[0] == counts[1] > 100
                with with_vectors(url) as memory, with_vectors(full) as original:
                    found = [[each.id for each in one.search("quinces", limit=5)] for one in (memory, original)]
                    assert found[0] == found[1]
                copied(url, str(tmp_path / "back.db"))
                assert same(full, str(tmp_path / "back.db"))
            finally:
                connection.execute("drop schema agentmem cascade")
                connection.execute("drop extension vector")


def test_copying_a_server_to_itself_is_refused(new_database):
    url = new_database("postgres")
    with AgentMemory(url) as memory:
        for force in (False, True):
            with pytest.raises(InvalidInput, match="is the source itself"):
                memory.admin.copy(url, force=force)


@pytest.mark.slow
def test_concurrent_writes_are_not_copied(source, tmp_path):
    before, copy = rows(source), str(tmp_path / "copy.db")
    with AgentMemory(source) as memory:
        memory.admin.copy(copy, progress=lambda at: memory.conversation("c").add(role="user", content="meanwhile"))
        assert len(memory.conversation("c")) > 10
    assert rows(copy)["entry"] == before["entry"]


class TestTargets:
    def test_foreign_schema_is_never_replaced(self, full, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop schema agentmem cascade; create schema agentmem; create table agentmem.t (x int)")
        try:
            with pytest.raises(ForeignDatabase):
                copied(full, url, force=True)
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("drop schema agentmem cascade")

    def test_nul_character_is_refused_by_postgres_copy(self, tmp_path, new_database):
        with AgentMemory(tmp_path / "nul.db") as memory:
            memory.conversation("c").add(role="user", content="x")
        with closing(sqlite3.connect(tmp_path / "nul.db")) as connection:
            connection.execute("update entry set sender = 'a' || char(0) || 'b'")
            connection.commit()
        with AgentMemory(tmp_path / "nul.db") as memory, pytest.raises(InvalidInput, match="NUL"):
            memory.admin.copy(new_database("postgres"))
