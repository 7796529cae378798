"""The schema: named steps, applied once, in order, whole or not at all.

`schema.sqlite.txt` and `schema.postgres.txt` hold the schema as the databases themselves tell it. After a change
that is meant, renew them and look at the difference:

    AGENTMEM_RENEW_SCHEMA=1 python -m pytest tests/storage/test_migrations.py
"""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import NewerDatabase, StorageError
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.engine import Migration
from langchain_agentmem.storage.sqlite import _split_statements
from tests.storage.sessions import add_texts, texts_of

pytestmark = pytest.mark.bare

HERE = Path(__file__).parent

POSTGRES_SCHEMA = """
    select 'table ' || table_name || ': ' || column_name || ' ' || data_type
        || case when collation_name is null then '' else ' collate ' || collation_name end
        || case when is_nullable = 'NO' then ' not null' else '' end
        || coalesce(' default ' || column_default, '')
        || case when is_identity = 'YES' then ' identity ' || identity_generation else '' end as line
    from information_schema.columns where table_schema = 'agentmem'
    union all
    select 'index ' || indexdef from pg_indexes where schemaname = 'agentmem'
    union all
    select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
    from pg_constraint where connamespace = 'agentmem'::regnamespace and contype in ('c', 'f', 'p', 'u')
    order by line
"""


def schema_of(memory, raw):
    if memory.database.engine.dialect == "sqlite":
        rows = raw(
            memory,
            "select sql from sqlite_master where sql is not null and name not like 'search_index/_%' escape '/' "
            "order by type desc, name",
        )
        return "\n\n".join(row["sql"] for row in rows) + "\n"
    return "\n".join(row["line"] for row in raw(memory, POSTGRES_SCHEMA)) + "\n"


@pytest.fixture
def later(monkeypatch):
    """Adds migrations, as a later release would."""
    real = engine.migrations

    def add(*more, patched=monkeypatch):
        patched.setattr(engine, "migrations", lambda dialect: (*real(dialect), *more))

    return add


class TestMigrationFiles:
    def test_dialects_have_the_same_numbered_migrations(self):
        names, others = ([migration.name for migration in engine.migrations(each)] for each in ("sqlite", "postgres"))
        assert names == others
        assert all(re.fullmatch(r"\d{4}_[a-z][a-z0-9_]*", name) for name in names)
        assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))

    def test_no_statement_of_a_script_is_skipped(self):
        for migration in engine.migrations("sqlite"):
            rest = migration.sql.removeprefix("".join(_split_statements(migration.sql)))
            assert [line for line in rest.splitlines() if line.strip() and not line.startswith("--")] == []


class TestSchema:
    def test_schema_matches_the_recorded_one(self, memory, raw):
        schema = schema_of(memory, raw)
        kept = HERE / f"schema.{memory.database.engine.dialect}.txt"
        if os.environ.get("AGENTMEM_RENEW_SCHEMA"):
            kept.write_text(schema, encoding="utf-8")
        assert schema == kept.read_text(encoding="utf-8"), f"renew it with: {__doc__.strip().splitlines()[-1].strip()}"

    def test_baseline_database_is_upgraded(self, url, new_database, raw, later):
        kind = "postgres" if url.startswith("postgresql") else "sqlite"
        with AgentMemory(old := url) as memory:
            memory.conversation("c").add(role="user", content="kept")
        later(
            Migration(
                "0999_more",
                "create table more (id integer);\n"
                "alter table entry add column more integer not null default 7;\n"
                "insert into more (id) select count(*) from entry where more = 7;",
            )
        )
        with AgentMemory(old) as upgraded, AgentMemory(new_database(kind)) as fresh:
            assert schema_of(upgraded, raw) == schema_of(fresh, raw)
            assert [row["id"] for row in raw(upgraded, "select id from more")] == [1]
            applied = raw(upgraded, "select name from agentmem_migration order by name")
            assert [row["name"] for row in applied] == [m.name for m in engine.migrations(kind)]
            assert upgraded.conversation("c").retrieve_all() == [{"role": "user", "content": "kept"}]
            assert upgraded.admin.verify().ok


def test_newer_database_is_rejected_and_unmodified(url, raw, tmp_path):
    with AgentMemory(url) as memory:
        memory.conversation("c").add(role="user", content="kept")
        raw(memory, "insert into agentmem_migration (name, applied_at) values ('0999_time_machine', 0)")
    before = [path.read_bytes() for path in tmp_path.iterdir()]
    with pytest.raises(NewerDatabase, match="0999_time_machine"):
        AgentMemory(url)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == before


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize(
    "change", ["update agentmem_migration set name = '0001_log'", "alter table part_store rename to shelf"]
)
def test_development_database_is_rejected_and_unmodified(change, url, raw):
    with AgentMemory(url) as memory:
        raw(memory, change)
    before = Path(url).read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(
            StorageError, match=r"development version .*, before 0\.1\.0\. It cannot be upgraded"
        ) as error:
            AgentMemory(url, **options)
        assert not isinstance(error.value, NewerDatabase)
    assert Path(url).read_bytes() == before


@pytest.mark.sqlite_suffices
def test_failing_migration_changes_nothing(url, raw, later, monkeypatch):
    bad = Migration("0998_good", "create table good (id integer);"), Migration("0999_bad", "create nonsense;")
    schemas = []
    for before in ([], ["kept"]):
        with monkeypatch.context() as patched:
            later(*bad, patched=patched)
            with pytest.raises(StorageError):
                AgentMemory(url)
        with closing(sqlite3.connect(url)) as connection:
            schemas.append(connection.execute("select name, sql from sqlite_master").fetchall())
        with AgentMemory(url) as memory:
            assert texts_of(memory) == before
            assert schema_of(memory, raw) == (HERE / "schema.sqlite.txt").read_text(encoding="utf-8")
            add_texts(memory, "kept")
            assert memory.admin.verify().ok
    assert schemas[0] == []
    assert "good" not in dict(schemas[1])
