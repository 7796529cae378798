"""A database is copied whole into another place, on either engine, whatever interrupts it."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    StorageError,
)
from langchain_agentmem.storage import open_engine
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.storage.postgres_copy import PostgresPlace
from langchain_agentmem.storage.table_copy import TABLES, SqlitePlace, SqlitePortions, reading
from langchain_agentmem.upkeep import database_copy
from tests.everything import fill, with_vectors

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

MADE_ANEW = (
    "agentmem_migration", "search_total", "search_index", "search_waiting", "search_pgvector",
    "spent_branch", "receipt",
)  # fmt: skip
"""The beginnings of the names of tables that are not copied, those that FTS5 keeps for its index included."""


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> str:
    """A database that has everything."""
    path = str(tmp_path_factory.mktemp("full") / "full.db")
    with with_vectors(path) as memory:
        fill(memory)
        memory.settle()
    with AgentMemory(path) as memory:
        memory.conversation("late").add(role="user", content="it waits for its vector")
    return path


@pytest.fixture
def source(full, tmp_path) -> str:
    return str(shutil.copy(full, tmp_path / "source.db"))


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, new_database):
    url = new_database(request.param)
    yield url
    if request.param == "postgres":
        PostgresPlace(url).drop()


def copied(source: str, target: str, **options):
    with AgentMemory(source) as memory:
        return memory.admin.copy(target, **options)


def exported(url: str, path: Path) -> bytes:
    with AgentMemory(url) as memory:
        memory.export(path)
    return path.read_bytes()


def rows(url: str) -> dict:
    """Everything that is stored but the index."""
    with closing(open_engine(url)) as engine, reading(engine) as found:
        return {table.name: list(found.rows(found.shape(table))) for table in TABLES}


def same(one: str, other: str) -> bool:
    """Whether two databases hold the same, but for entries of the audit trail that have entered the indexes since."""
    mine, theirs = rows(one), rows(other)
    moving = {"audit", "audit_document", "audit_head", "search_series", "search_document", "search_scope"}
    return {name: mine[name] for name in mine if name not in moving} == {
        name: theirs[name] for name in theirs if name not in moving
    }


def filled(url: str) -> bool:
    """Whether anything is stored there, as others see it."""
    return bool(rows(url)["entry"])


class TestEverything:
    def test_both_ways_nothing_is_lost_and_nothing_differs(self, full, new_database, tmp_path):
        there, back = new_database("postgres"), str(tmp_path / "back.db")
        first = copied(full, there)
        second = copied(there, back)
        assert first.rows["entry"] == second.rows["entry"] > 100
        assert {name for name, count in first.rows.items() if not count} <= {"base_group"}
        assert first.documents == first.rows["search_document"]
        before = exported(full, tmp_path / "1")
        assert exported(there, tmp_path / "2") == before
        assert exported(back, tmp_path / "3") == before
        assert same(full, back)
        for url in (there, back):
            with AgentMemory(url) as memory:
                assert memory.admin.verify().problems == ()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "back.db"]

    @pytest.mark.slow
    def test_the_digest_says_what_is_stored_and_not_where(self, full, new_database, tmp_path):
        digests = {copied(full, new_database(kind)).digest for kind in ("sqlite", "postgres")}
        assert len(digests) == 1
        changed = shutil.copy(full, tmp_path / "changed.db")
        with AgentMemory(changed) as memory:
            memory.conversation("c").add(role="user", content="one more")
        assert copied(changed, str(tmp_path / "x.db")).digest not in digests

    @pytest.mark.slow("in every form")
    def test_what_was_copied_is_used_as_if_it_had_always_been_there(self, full, target):
        copied(full, target)
        with with_vectors(full) as memory, with_vectors(target) as copy:
            for query in ("herons and quinces", "where does Ana live", "medlars", "answer 139"):
                for kinds in (None, ["audit"]):
                    found = [
                        [(each.id, each.score) for each in one.search(query, kinds=kinds)] for one in (memory, copy)
                    ]
                    assert [id_ for id_, _ in found[0]] == [id_ for id_, _ in found[1]]
            assert copy.layers("deep", ("gardens",)).read() == memory.layers("deep", ("gardens",)).read()
            copy.settle()
            assert copy.search("it waits for its vector", limit=1)[0].conversation_id == "late"
            for n in range(70):
                copy.conversation("new").add(role="user", content=f"said to the copy, {n}")
            copy.checkpointer.copy_thread("chat", "chat again")
            copy.facts("user-42", ("a",)).add_fact("user", "Ana", "lives in", "Faro")
            copy.layers("deep").core.set("x", "y")
            copy.store.put(("docs",), "two", {"text": "two"})
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
            with psycopg.connect(url, autocommit=True) as connection:
                [[vectors, beside]] = connection.execute(
                    "select (select count(*) from agentmem.search_vector), "
                    "(select count(*) from agentmem.search_pgvector)"
                ).fetchall()
            assert vectors == beside > 100
            with with_vectors(url) as memory, with_vectors(full) as original:
                found = [[each.id for each in one.search("quinces", limit=5)] for one in (memory, original)]
                assert found[0] == found[1]
            copied(url, str(tmp_path / "back.db"))
            assert same(full, str(tmp_path / "back.db"))
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("drop schema agentmem cascade")
                connection.execute("drop extension vector")

    @pytest.mark.parametrize("engine", ["sqlite", "postgres"])
    def test_no_table_is_forgotten(self, engine, new_database):
        with AgentMemory(new_database(engine)) as memory:
            names = set(memory.database.engine.sizes().tables)
        known = {table.name for table in TABLES}
        assert {name for name in names if not name.startswith((*MADE_ANEW, "sqlite_"))} == known
        places = {table.name: place for place, table in enumerate(TABLES)}
        dialect = "".join(migration.sql for migration in migrations(engine))
        for name, place in places.items():
            body = dialect.split(f"create table {name} (")[1].split("\n)")[0]
            assert all(places[word.split()[0]] <= place for word in body.split("references ")[1:])

    @pytest.mark.slow
    async def test_the_awaited_twin(self, full, target):
        async with AgentMemory(full) as memory:
            report = await memory.admin.acopy(target)
        assert report.documents > 100
        assert same(full, target)


class TestInterruptions:
    @pytest.mark.slow
    @pytest.mark.parametrize(("doing", "portions"), [("copying", 12), ("checking", 5), ("indexing", 4)])
    def test_kill_9_loses_a_portion_at_most_and_the_next_call_goes_on(
        self, doing, portions, source, target, forks, tmp_path
    ):
        arguments = (source, target, doing, str(portions), str(int(signal.SIGKILL)))
        assert forks.run(INTERRUPTED, *arguments).returncode == -signal.SIGKILL
        assert not Path(target).exists() or not filled(target)  # the place is as it was
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

    @pytest.mark.slow
    def test_another_source_replaces_what_the_first_one_left(self, source, target, tmp_path):
        other = str(tmp_path / "other.db")
        with AgentMemory(other) as memory:
            memory.conversation("c").add({"role": "user", "content": "a whole other story", "message_id": "m1"})

        def stop(at):
            if at.doing == "checking":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copied(source, target, progress=stop)
        copied(other, target)
        assert same(other, target)

    @pytest.mark.slow
    def test_a_copy_that_is_complete_is_told_as_long_as_both_sides_are_the_same(self, source, target):
        assert not copied(source, target).was_complete
        again = copied(source, target)
        assert again.was_complete
        assert again.known == sum(again.rows.values()) > 100
        with AgentMemory(source) as memory:
            memory.conversation("c").add(role="user", content="later")
        with pytest.raises(InvalidInput, match="holds memories already"):
            copied(source, target)

    def test_a_source_whose_content_cannot_be_read_is_damaged(self, source, tmp_path):
        with closing(sqlite3.connect(source)) as connection:
            connection.execute("update content set body = x'7b7d' where id = (select min(content_id) from entry)")
            connection.commit()
        with pytest.raises(DatabaseUnreadable, match="verify"):
            copied(source, str(tmp_path / "copy.db"))

    def test_a_full_disk_is_told_and_the_next_call_goes_on(self, source, tmp_path, monkeypatch):
        target, whole = str(tmp_path / "t.db"), SqlitePlace.open

        def small(place):
            engine = whole(place)
            engine._writer.execute("pragma max_page_count = 160")
            return engine

        monkeypatch.setattr(database_copy, "PORTION_ROWS", 30)
        monkeypatch.setattr(SqlitePlace, "open", small)
        with pytest.raises(DatabaseFull):
            copied(source, target)
        assert not Path(target).exists()
        monkeypatch.undo()
        assert copied(source, target).known > 0
        assert same(source, target)

    def test_what_is_not_as_it_was_written_never_takes_its_place(self, source, tmp_path, monkeypatch):
        put = SqlitePortions.put

        def damaged(self, shape, new, changed):
            if shape.table.name == "entry":
                new = [(*row[:-1], 7) for row in new]
            put(self, shape, new, changed)

        monkeypatch.setattr(SqlitePortions, "put", damaged)
        with pytest.raises(StorageError, match="entry"):
            copied(source, str(tmp_path / "t.db"))
        assert not (tmp_path / "t.db").exists()


class TestOneMoment:
    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["sqlite", "postgres"])
    def test_what_is_written_meanwhile_is_not_in_it(self, engine, full, new_database, tmp_path, monkeypatch):
        monkeypatch.setattr(database_copy, "PORTION_ROWS", 100)
        if engine == "sqlite":
            source = str(shutil.copy(full, tmp_path / "source.db"))
        else:
            copied(full, source := new_database("postgres"))
        before = exported(source, tmp_path / "before")
        target = str(tmp_path / "target.db")
        with AgentMemory(source) as memory:

            def write(at):
                memory.conversation("c").add(role="user", content=f"meanwhile {at.done}")

            memory.admin.copy(target, progress=write)
            assert len(memory.conversation("c")) > 10
        assert exported(target, tmp_path / "after") == before


@contextmanager
def content(url, text):
    with AgentMemory(url) as memory:
        memory.conversation("here").add(role="user", content=text)
    yield


class TestPlaces:
    @pytest.mark.slow
    def test_what_is_stored_is_replaced_only_by_force(self, full, target):
        with content(target, "precious"):
            with pytest.raises(InvalidInput, match="holds memories already"):
                copied(full, target)
            with AgentMemory(target) as memory:
                assert memory.search("precious")
            copied(full, target, force=True)
        with AgentMemory(target) as memory:
            assert not memory.search("precious", namespace=())
            assert memory.admin.verify().problems == ()

    def test_a_damaged_database_can_be_replaced(self, full, tmp_path):
        target = tmp_path / "damaged.db"
        target.write_bytes(Path(full).read_bytes()[:5000] + b"\xff" * 9000)
        copied(full, str(target), force=True)
        assert same(full, str(target))

    @pytest.mark.parametrize("force", [False, True])
    def test_what_belongs_to_another_program_never_is(self, full, new_database, tmp_path, force):
        text, theirs = tmp_path / "notes.txt", tmp_path / "theirs.db"
        text.write_text("not a database " * 100)
        with closing(sqlite3.connect(theirs)) as connection:
            connection.execute("create table t (x)")
        for path in (text, theirs):
            before = path.read_bytes()
            with pytest.raises(ForeignDatabase):
                copied(full, str(path), force=force)
            assert path.read_bytes() == before

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

    @pytest.mark.slow
    @pytest.mark.parametrize("force", [False, True])
    def test_a_database_is_not_copied_onto_itself(self, target, force):
        with content(target, "precious"), pytest.raises(InvalidInput, match="the database itself"):
            copied(target, target, force=force)
        assert filled(target)

    @pytest.mark.parametrize("wrong", ["", ":memory:", "file:x.db", "mysql://x", "/no/such/folder/x.db", "a\0b", "/"])
    def test_no_place_at_all(self, full, wrong):
        with pytest.raises(InvalidInput):
            copied(full, wrong)

    def test_what_postgresql_cannot_store_is_named(self, tmp_path, new_database):
        with AgentMemory(tmp_path / "nul.db") as memory:
            memory.conversation("c").add(role="user", content="x")
        with closing(sqlite3.connect(tmp_path / "nul.db")) as connection:
            connection.execute("update entry set sender = 'a' || char(0) || 'b'")
            connection.commit()
        with AgentMemory(tmp_path / "nul.db") as memory, pytest.raises(InvalidInput, match="NUL"):
            memory.admin.copy(url := new_database("postgres"))
        PostgresPlace(url).drop()
