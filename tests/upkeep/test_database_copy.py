"""Copies of whole databases on either engine, despite interruptions."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseUnreadable, ForeignDatabase, InvalidInput, StorageError
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.storage.sqlite import _SqliteTransaction
from langchain_agentmem.storage.transfer import TABLES
from tests.upkeep.copies import copied, rows, same

NOT_COPIED = (
    "agentmem_migration", "lease", "search_index", "search_unindexed", "search_pgvector", "receipt",
)  # fmt: skip
"""The beginnings of the names of tables that are not copied, those that FTS5 keeps for its index included."""


class TestCompleteness:
    async def test_copy_round_trip_loses_nothing(self, full, target, tmp_path):
        there, back = target, str(tmp_path / "back.db")
        async with AgentMemory(full) as memory:
            first = await memory.admin.acopy(there)
        second = copied(there, back)
        assert first.rows["entry"] == second.rows["entry"] > 100
        assert {name for name, count in first.rows.items() if not count} <= {"base_group"}
        assert first.documents == first.rows["search_document"]
        assert same(full, back)
        for url in (there, back):
            with AgentMemory(url) as memory:
                assert memory.admin.verify().problems == ()
        assert {path.name for path in tmp_path.iterdir()} - {Path(target).name} == {"back.db"}

    def test_every_table_is_copied_in_reference_order(self, url):
        with AgentMemory(url) as memory:
            engine = memory.database.engine.dialect
            names = set(memory.database.engine.sizes().tables)
        known = {table.name for table in TABLES}
        assert {name for name in names if not name.startswith((*NOT_COPIED, "sqlite_"))} == known
        places = {table.name: place for place, table in enumerate(TABLES)}
        dialect = "".join(migration.sql for migration in migrations(engine))
        for name, place in places.items():
            body = dialect.split(f"create table {name} (")[1].split("\n)")[0]
            assert all(places[word.split()[0]] <= place for word in body.split("references ")[1:])


class TestInterruptions:
    def test_source_with_unreadable_content_is_refused(self, source, tmp_path):
        with closing(sqlite3.connect(source)) as connection:
            connection.execute("update content set body = x'7b7d' where id = (select min(content_id) from entry)")
            connection.commit()
        with pytest.raises(DatabaseUnreadable, match="verify"):
            copied(source, str(tmp_path / "copy.db"))

    def test_interrupted_copy_changes_nothing_and_can_be_repeated(self, source, target):
        for doing in ("copying", "checking"):

            def stop(at, doing=doing):
                if at.stage.startswith(doing) and at.done > at.total / 2:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                copied(source, target, progress=stop)
            assert not Path(target).exists() or doing == "checking" or not any(rows(target)["entry"])
        copied(source, target, force=True)
        assert same(source, target)

    def test_corrupted_copy_never_replaces_the_target(self, source, tmp_path, monkeypatch):
        insert = _SqliteTransaction.insert_rows

        def damaged(self, table, columns, values):
            at = list(columns).index("body") if table == "content" else 0
            insert(self, table, columns, [(*row[:at], b"{}", *row[at + 1 :]) for row in values] if at else values)

        monkeypatch.setattr(_SqliteTransaction, "insert_rows", damaged)
        with pytest.raises(StorageError, match="is damaged"):
            copied(source, str(tmp_path / "t.db"))
        assert not (tmp_path / "t.db").exists()


class TestTargets:
    def test_stored_memories_are_replaced_only_with_force(self, full, target):
        with AgentMemory(target) as memory:
            memory.conversation("here").add(role="user", content="precious")
        with pytest.raises(InvalidInput, match="already holds memories"):
            copied(full, target)
        with AgentMemory(target) as memory:
            assert memory.search("precious")
        copied(full, target, force=True)
        with AgentMemory(target) as memory:
            assert not memory.search("precious", namespace=())
            assert memory.admin.verify().problems == ()

    def test_damaged_target_is_replaced_and_foreign_file_kept(self, full, tmp_path):
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

    def test_source_itself_and_invalid_targets_are_refused(self, full):
        with pytest.raises(InvalidInput, match="the source itself"):
            copied(full, full, force=True)
        for wrong in ("", ":memory:", "file:x.db", "mysql://x", "/no/such/folder/x.db", "a\0b", "/"):
            with pytest.raises(InvalidInput):
                copied(full, wrong)
