"""`agentmem doctor`: each problem is found, explained, and has a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import engine, sqlite
from langchain_agentmem.upkeep.integrity import diagnose
from tests.word_embeddings import WordEmbeddings

from .commands import execute


@pytest.fixture
def database(path) -> str:
    with AgentMemory(path) as memory:
        memory.conversation("one").add(role="user", content="a heron")
    return path


def found(url, *, deep=False):
    findings = {each.name: each for each in diagnose(url, deep=deep)}
    assert all(each.remedy for each in findings.values() if each.level != "ok")
    return findings


def problem(url, name, *, deep=False):
    finding = found(url, deep=deep)[name]
    assert finding.level == "problem"
    return finding


class TestDoctorCommand:
    def test_healthy_database_passes_every_check(self, agentmem, database):
        assert "is up to date" in agentmem("migrate", database).stdout
        run = agentmem("doctor", database)
        assert (run.returncode, run.stderr, run.stdout.isascii()) == (0, "", True)
        assert all(each in run.stdout for each in ("ok    verify", "schema        up to date", "0 problems"))

    def test_json_lists_every_finding(self, agentmem, database):
        told = json.loads(agentmem("doctor", database, "--json", "--quick").stdout)
        assert told["ok"]
        names = {each["name"] for each in told["findings"]}
        assert {"python", "sqlite", "schema", "permissions"} <= names
        assert "verify" not in names
        assert all(each.keys() == {"name", "level", "text", "remedy"} for each in told["findings"])

    def test_problem_has_remedy_and_exit_code_one(self, agentmem, tmp_path):
        for place, code, told in (
            ([str(tmp_path / "nothing.db")], 1, ("does not exist", "remedy: Check the address")),
            ([], 0, ("full-text search", "No database was given, so none was checked")),
        ):
            run = agentmem("doctor", *place)
            assert (run.returncode, [each in run.stdout for each in told]) == (code, [True, True])
        assert list(tmp_path.iterdir()) == []


class TestFiles:
    def test_diagnosis_changes_nothing_and_finds_damage(self, database):
        before = Path(database).read_bytes()
        found(database, deep=True)
        assert Path(database).read_bytes() == before
        execute(database, "update entry set body = x'7b7d'")
        assert "is damaged" in problem(database, "verify", deep=True).text

    def test_damaged_pages_are_reported(self, database):
        path = Path(database)
        path.write_bytes(path.read_bytes()[:5000] + b"\xff" * 100_000)
        findings = list(diagnose(database))
        assert any(each.level == "problem" and each.remedy for each in findings)

    def test_database_of_another_program_is_reported(self, tmp_path):
        execute(path := str(tmp_path / "theirs.db"), "create table t (x)")
        assert "another program" in problem(path, "database").text

    def test_newer_and_older_schemas_are_reported(self, database, monkeypatch):
        execute(database, "insert into agentmem_migration values ('9999_from_the_future', 1)")
        assert "9999_from_the_future" in problem(database, "database", deep=True).text
        execute(database, "delete from agentmem_migration where name like '9999%'")
        every, later = engine.migrations, engine.Migration("0999_later", "create table later (id integer);")
        with monkeypatch.context() as patch:
            patch.setattr(engine, "migrations", lambda dialect: (*every(dialect), later))
            assert "older version" in problem(database, "database").text
        execute(database, "update agentmem_migration set name = '0001_log'")
        assert "development version" in problem(database, "database").text

    def test_read_only_file_is_a_note(self, database, monkeypatch):
        access, write = sqlite.os.access, sqlite.os.W_OK
        monkeypatch.setattr(sqlite.os, "access", lambda path, mode: mode != write and access(path, mode))
        assert found(database)["permissions"].level == "note"
        assert "database" not in found(f"file:{database}?mode=ro", deep=True)

    def test_file_that_is_not_a_database_is_reported(self, database):
        Path(database).write_bytes(b"x" * 5000)
        assert "backup" in problem(database, "database").remedy

    def test_missing_vectors_are_counted(self, database):
        with AgentMemory(database, index={"embed": WordEmbeddings(8), "dims": 8}) as memory:
            memory.settle()
        assert found(database)["vectors"].text == "every document has a vector of 8 dimensions"
        with AgentMemory(database) as memory:
            memory.conversation("one").add(role="user", content="another heron")
        assert found(database)["vectors"].text.startswith("Documents without a vector: 1.")


def test_outdated_sqlite_is_reported(monkeypatch):
    monkeypatch.setattr(sqlite, "MIN_SQLITE_VERSION", (9, 0))
    assert "too old" in problem(None, "sqlite").text
