"""Exports are SQLite files; a damaged one is refused and imports nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.storage.queries import digest
from tests.upkeep.copies import rows
from tests.upkeep.test_integrity import told

DAMAGE = yaml.safe_load(Path(__file__).with_name("export_damage.yaml").read_text(encoding="utf-8"))


def damaged(path: Path, change: str, copy: Path) -> Path:
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute(change)
    return copy


@pytest.fixture
def exported(full, tmp_path) -> Path:
    with AgentMemory(full) as memory:
        memory.export(tmp_path / "export.db")
    return tmp_path / "export.db"


class TestDamagedExports:
    def test_damaged_export_is_refused_and_imports_nothing(self, exported, url, tmp_path):
        with AgentMemory(url) as memory:
            memory.conversation("mine").add(role="user", content="mine")
            before = rows(url)
            for name, change in DAMAGE.items():
                file = damaged(exported, change, tmp_path / "damaged.db")
                with pytest.raises(InvalidInput):
                    pytest.fail(f"{name}: {memory.import_(file)}")
                assert rows(url) == before, name
            assert memory.import_(exported).entries > 100

    def test_invalid_message_body_is_refused(self, exported, tmp_path):
        body = b"no message"
        change = "update content set body = x'{}', hash = x'{}' where id = (select min(content_id) from entry)"
        file = damaged(exported, change.format(body.hex(), digest(body).hex()), tmp_path / "damaged.db")
        with AgentMemory() as memory:
            with pytest.raises(AgentMemoryError):
                memory.import_(file)
            assert memory.admin.stats()["messages"] == 0

    def test_truncated_or_changed_bytes_are_refused(self, exported, tmp_path):
        whole, file = exported.read_bytes(), tmp_path / "damaged.db"
        with AgentMemory() as memory:
            for content in (
                b"",
                b"not a database",
                whole[:100],
                whole[: len(whole) // 2],
                whole[:-4096],
                *(whole[:place] + b"\xff" * 64 + whole[place + 64 :] for place in (16, 4_096)),
            ):
                file.write_bytes(content)
                with pytest.raises(InvalidInput):
                    memory.import_(file)
            assert memory.admin.stats()["messages"] == 0

    def test_namespace_refuses_an_export_from_outside(self, exported, tmp_path):
        with AgentMemory() as memory:
            with pytest.raises(InvalidInput, match="is not within"):
                memory.within(("a",)).import_(exported)
            assert memory.admin.stats()["messages"] == 0


class TestExports:
    def test_export_that_became_a_database_is_not_replaced(self, exported, full):
        with AgentMemory(full) as memory:
            memory.export(exported)
            AgentMemory(exported).close()
            with pytest.raises(InvalidInput, match="exists and is no export"):
                memory.export(exported)

    def test_export_contains_only_its_namespace(self, full, tmp_path):
        with AgentMemory(full) as memory, AgentMemory() as other:
            memory.within(("a",)).export(tmp_path / "a.db")
            other.import_(tmp_path / "a.db")
            assert told(other)[0][("a",), "c"] == told(memory)[0][("a",), "c"] != []
            assert told(other)[0][(), "c"] == []
            facts = [[fact.text for fact in each.facts("user-42", ("a",)).latest()] for each in (memory, other)]
            assert facts[0] == facts[1] != []
            assert {each.namespace[0] for each in other.admin.namespaces()} == {"a"}
            assert other.admin.verify().problems == ()
