"""An export is a SQLite file; whatever is wrong with it, it is refused and nothing is written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.storage.queries import digest
from tests.upkeep.copies import rows
from tests.upkeep.test_integrity import told

DAMAGE = {
    "a trigger": "create trigger evil after insert on entry begin delete from namespace; end",
    "a view": "create view evil as select 1",
    "a table more": "create table evil (x)",
    "a column more": "alter table entry add column evil",
    "an index less": "drop index entry_position",
    "another program's": "pragma application_id = 7",
    "a version that nobody knows": "update agentmem_migration set name = '9999_later'",
    "a text for a time": "update entry set created_at = 'now'",
    "a time beyond all years": "update entry set created_at = 1 << 60",
    "a number for a name": "update checkpoint_line set ns = x'00' where id = (select max(id) from checkpoint_line)",
    "a NUL in a name": "update entry set sender = 'a' || char(0)",
    "an entry of a kind that nobody knows": "update entry set kind = 'spell'",
    "a text for bytes": "update content set body = 'text'",
    "another body": "update content set body = x'7b7d'",
    "a reference to nothing": "update place set branch_id = 99999",
    "a scope that is not there": "update memory set scope_id = 99999",
    "a branch that begins on itself": "update branch set parent_id = id, parent_position = 0 where kind = 'layers'",
    "a branch that begins on a younger one": (
        "update branch set parent_id = (select max(id) from branch), parent_position = 0 "
        "where id = (select min(id) from branch where kind = 'layers')"
    ),
    "a version that replaces a younger one": "update entry set replaces = (select max(id) from entry)",
    "a recipe that is none": "update channel_value set recipe = x'00'",
    "a missing part": "delete from part",
    "no JSON": "update memory set extra = '{'",
    "groups that are none": "update finished_task set groups = '[true]'",
    "bounds that are none": "update branch_base set groups = '[[1]]'",
    "an entry that is not in its place": "update audit set sequence = sequence + 1000",
    "an entry that was changed": "update audit set conversation = 'another'",
    "another value": "update item set value = x'7b7d'",
    "another value of a key": "update blob set value = x'00' where head = (select min(head) from blob)",
    "a correction without fields": "update memory set correction = '{}' where kind = 'core'",
    "another key": "update blob set head = x'00'",
    "a key behind all others": "update blob set head = x'ff' where head = (select max(head) from blob)",
    "a note that is none": "update prompt_note set body = x'7b7d'",
    "a namespace that is none": "update namespace set path = 'no end' where path = 'a' || char(31)",
}
"""What is done to the file of an export."""


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


class TestHostileFiles:
    def test_each_is_refused_and_nothing_is_imported(self, exported, url, tmp_path):
        with AgentMemory(url) as memory:
            memory.conversation("mine").add(role="user", content="mine")
            before = rows(url)
            for name, change in DAMAGE.items():
                file = damaged(exported, change, tmp_path / "damaged.db")
                with pytest.raises(InvalidInput):
                    pytest.fail(f"{name}: {memory.import_(file)}")
                assert rows(url) == before, name
            assert memory.import_(exported).entries > 100

    def test_a_body_that_is_no_message_is_refused(self, exported, tmp_path):
        body = b"no message"
        change = "update content set body = x'{}', hash = x'{}' where id = (select min(content_id) from entry)"
        file = damaged(exported, change.format(body.hex(), digest(body).hex()), tmp_path / "damaged.db")
        with AgentMemory() as memory:
            with pytest.raises(AgentMemoryError):
                memory.import_(file)
            assert memory.admin.stats()["messages"] == 0

    def test_bytes_that_were_cut_off_or_changed_are_refused(self, exported, tmp_path):
        whole, file = exported.read_bytes(), tmp_path / "damaged.db"
        with AgentMemory() as memory:
            for content in (
                b"",
                b"not a database",
                whole[:100],
                whole[: len(whole) // 2],
                whole[:-4096],
                *(whole[:place] + b"\xff" * 64 + whole[place + 64 :] for place in (16, 5_000)),
            ):
                file.write_bytes(content)
                with pytest.raises(InvalidInput):
                    memory.import_(file)
            assert memory.admin.stats()["messages"] == 0

    def test_a_namespace_takes_only_what_lies_there(self, exported, tmp_path):
        with AgentMemory() as memory:
            with pytest.raises(InvalidInput, match="is not within"):
                memory.within(("a",)).import_(exported)
            assert memory.admin.stats()["messages"] == 0


class TestExports:
    def test_one_that_was_used_as_a_database_is_not_replaced(self, exported, full):
        with AgentMemory(full) as memory:
            memory.export(exported)
            AgentMemory(exported).close()
            with pytest.raises(InvalidInput, match="is no export, and would be replaced"):
                memory.export(exported)

    def test_it_holds_one_namespace_and_nothing_of_others(self, full, tmp_path):
        with AgentMemory(full) as memory, AgentMemory() as other:
            memory.within(("a",)).export(tmp_path / "a.db")
            other.import_(tmp_path / "a.db")
            assert told(other)[0][("a",), "c"] == told(memory)[0][("a",), "c"] != []
            assert told(other)[0][(), "c"] == []
            facts = [[fact.text for fact in each.facts("user-42", ("a",)).latest()] for each in (memory, other)]
            assert facts[0] == facts[1] != []
            assert {each.namespace[0] for each in other.admin.namespaces()} == {"a"}
            assert other.admin.verify().problems == ()
