"""A database is copied whole into another place, on either engine, whatever interrupts it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseFull, DatabaseUnreadable, ForeignDatabase, InvalidInput, StorageError
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.storage.table_copy import TABLES, SqlitePlace, SqlitePortions
from langchain_agentmem.upkeep import database_copy
from tests.upkeep.copies import copied, exported, same

MADE_ANEW = (
    "agentmem_migration", "search_total", "search_index", "search_waiting", "search_pgvector",
    "receipt",
)  # fmt: skip
"""The beginnings of the names of tables that are not copied, those that FTS5 keeps for its index included."""


class TestEverything:
    async def test_both_ways_nothing_is_lost_and_nothing_differs(self, full, target, tmp_path):
        there, back = target, str(tmp_path / "back.db")
        async with AgentMemory(full) as memory:
            first = await memory.admin.acopy(there)
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
        assert {path.name for path in tmp_path.iterdir()} - {Path(target).name} == {"1", "2", "3", "back.db"}

    def test_no_table_is_forgotten(self, url):
        with AgentMemory(url) as memory:
            engine = memory.database.engine.dialect
            names = set(memory.database.engine.sizes().tables)
        known = {table.name for table in TABLES}
        assert {name for name in names if not name.startswith((*MADE_ANEW, "sqlite_"))} == known
        places = {table.name: place for place, table in enumerate(TABLES)}
        dialect = "".join(migration.sql for migration in migrations(engine))
        for name, place in places.items():
            body = dialect.split(f"create table {name} (")[1].split("\n)")[0]
            assert all(places[word.split()[0]] <= place for word in body.split("references ")[1:])


class TestInterruptions:
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


class TestPlaces:
    def test_what_is_stored_is_replaced_only_by_force(self, full, target, raw):
        with AgentMemory(target) as memory:
            memory.conversation("here").add(role="user", content="precious")
        with pytest.raises(InvalidInput, match="holds memories already"):
            copied(full, target)
        with AgentMemory(target) as memory:
            assert memory.search("precious")
        copied(full, target, force=True)
        with AgentMemory(target) as memory:
            assert not memory.search("precious", namespace=())
            assert memory.admin.verify().problems == ()
            raw(memory, "update entry set sender = 'x' where id = (select max(id) from entry)")
        with pytest.raises(InvalidInput, match="holds memories already"):  # as many rows, but not the same
            copied(full, target)

    def test_a_damaged_database_can_be_replaced_and_what_belongs_to_another_program_never_is(self, full, tmp_path):
        target, text, theirs = (tmp_path / name for name in ("damaged.db", "notes.txt", "theirs.db"))
        target.write_bytes(Path(full).read_bytes()[:5000] + b"\xff" * 9000)
        copied(full, str(target), force=True)
        assert same(full, str(target))
        text.write_text("not a database " * 100)
        with closing(sqlite3.connect(theirs)) as connection:
            connection.execute("create table t (x)")
        for path in (text, theirs):
            before = path.read_bytes()
            for force in (False, True):
                with pytest.raises(ForeignDatabase):
                    copied(full, str(path), force=force)
            assert path.read_bytes() == before

    def test_no_place_at_all(self, full):
        with pytest.raises(InvalidInput, match="the database itself"):
            copied(full, full, force=True)
        for wrong in ("", ":memory:", "file:x.db", "mysql://x", "/no/such/folder/x.db", "a\0b", "/"):
            with pytest.raises(InvalidInput):
                copied(full, wrong)
