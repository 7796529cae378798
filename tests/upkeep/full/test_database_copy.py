"""Copies that are killed, of what changes meanwhile, and to PostgreSQL."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy, ForeignDatabase, InvalidInput
from langchain_agentmem.storage.postgres_copy import PostgresPlace
from langchain_agentmem.upkeep import database_copy
from tests.everything import with_vectors
from tests.upkeep.copies import copied, exported, rows, same

INTERRUPTED = """
import os, signal, sys
from langchain_agentmem import AgentMemory
from langchain_agentmem.upkeep import database_copy as copying
source, target, doing, portions, number = sys.argv[1:]
copying.PORTION_ROWS = 40
from langchain_agentmem.search import search_index as index
index.REBUILD_BATCH = 40
seen = 0
def progress(at):
    global seen
    seen += at.doing == doing
    if seen == int(portions):
        os.kill(os.getpid(), int(number))
with AgentMemory(source) as memory:
    memory.admin.copy(target, progress=progress)
"""


class TestEverything:
    def test_the_digest_says_what_is_stored_and_not_where(self, full, source, new_database):
        with AgentMemory(source) as memory:
            memory.conversation("c").add(role="user", content="one more")
        digests = [
            copied(each, new_database(kind)).digest for each in (full, source) for kind in ("sqlite", "postgres")
        ]
        assert digests[0] == digests[1] != digests[2] == digests[3]

    @pytest.mark.slow("in every form")
    def test_what_was_copied_is_used_as_if_it_had_always_been_there(self, full, target):
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
    def test_numbers_are_never_given_twice(self, source, target):
        with AgentMemory(source) as memory:
            memory.checkpointer.copy_thread("chat", "gone")
            memory.conversation("gone").add(role="user", content="x")
            memory.layers("gone").core.set("a", "b")
            gone = rows(source)
            memory.erase(conversation_id="gone")
            memory.layers("gone").core.delete("a")
        copied(source, target)
        with AgentMemory(target) as memory:
            memory.layers("newer").core.set("a", "b")
        newest = max(row[0] for row in gone["memory"])
        assert max(row[0] for row in rows(target)["memory"]) > newest

    @pytest.mark.slow
    def test_pgvector_has_the_vectors_too_where_it_is_installed(self, full, new_database, tmp_path):
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


class TestInterruptions:
    @pytest.mark.slow
    @pytest.mark.parametrize(("doing", "portions"), [("copying", 12), ("checking", 5), ("indexing", 4)])
    def test_kill_9_loses_a_portion_at_most_and_the_next_call_goes_on(
        self, doing, portions, source, target, forks, tmp_path
    ):
        arguments = (source, target, doing, str(portions), str(int(signal.SIGKILL)))
        assert forks.run(INTERRUPTED, *arguments).returncode == -signal.SIGKILL
        assert not Path(target).exists() or not rows(target)["entry"]  # the place is as it was
        report = copied(source, target)
        assert report.known >= min(portions - 1, 20)
        assert exported(target, tmp_path / "there") == exported(source, tmp_path / "here")
        assert same(source, target)
        with AgentMemory(target) as memory:
            assert memory.admin.verify().problems == ()
        assert not list(tmp_path.glob("*.copying*"))

    @pytest.mark.slow
    def test_what_changed_in_the_source_meanwhile_is_brought_up_to_date(self, source, target, tmp_path, monkeypatch):
        monkeypatch.setattr(database_copy, "PORTION_ROWS", 30)

        def stop(at):
            if at.doing == "indexing":
                raise KeyboardInterrupt

        with AgentMemory(source) as memory:
            with pytest.raises(KeyboardInterrupt):
                memory.admin.copy(target, progress=stop)
            memory.conversation("c").update("m1", content="edited once more")
            memory.erase(namespace=("a",))
            memory.erase(conversation_id="managed")
            memory.conversation("managed").add(role="user", content="begun anew")
            memory.checkpointer.delete_thread("chat")
            memory.byte_store().mdelete(["k\ud800"])
            for n in range(100):
                memory.conversation("more").add(role="user", content=f"came later, {n}")
            report = memory.admin.copy(target)
            assert report.known > 100
        assert same(source, target)
        assert exported(target, tmp_path / "there") == exported(source, tmp_path / "here")
        with AgentMemory(target) as memory:
            assert memory.admin.verify().problems == ()
            assert memory.search("came later", limit=1)


class TestOneMoment:
    @pytest.mark.slow
    def test_what_is_written_meanwhile_is_not_in_it_and_makes_it_incomplete(self, full, target, tmp_path, monkeypatch):
        monkeypatch.setattr(database_copy, "PORTION_ROWS", 100)
        copied(full, target)
        before, copy = exported(target, tmp_path / "before"), str(tmp_path / "copy.db")
        with AgentMemory(target) as memory:
            memory.admin.copy(copy, progress=lambda at: memory.conversation("c").add(role="user", content="meanwhile"))
            assert len(memory.conversation("c")) > 10
        assert exported(copy, tmp_path / "after") == before
        with pytest.raises(InvalidInput, match="holds memories already"):
            copied(target, copy)


class TestPlaces:
    def test_a_schema_of_another_program_never_is(self, full, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop schema agentmem cascade; create schema agentmem; create table agentmem.t (x int)")
        try:
            with pytest.raises(ForeignDatabase):
                copied(full, url, force=True)
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("drop schema agentmem cascade")

    @pytest.mark.slow
    def test_two_do_not_copy_to_one_place_at_a_time(self, full, target):
        with database_copy.place_of(target).alone(), pytest.raises(DatabaseBusy, match="copying"):
            copied(full, target)
        copied(full, target)

    def test_what_postgresql_cannot_store_is_named(self, tmp_path, new_database):
        with AgentMemory(tmp_path / "nul.db") as memory:
            memory.conversation("c").add(role="user", content="x")
        with closing(sqlite3.connect(tmp_path / "nul.db")) as connection:
            connection.execute("update entry set sender = 'a' || char(0) || 'b'")
            connection.commit()
        with AgentMemory(tmp_path / "nul.db") as memory, pytest.raises(InvalidInput, match="NUL"):
            memory.admin.copy(url := new_database("postgres"))
        PostgresPlace(url).drop()
