"""What a fresh look at the audit trail found, and what holds since."""

import json

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_rows, audit_store, model_call_capture
from langchain_agentmem.audit.audit_todos import todos_in
from langchain_agentmem.errors import InvalidInput
from tests.audit.entries import BEGIN, add, call, entry, read, todo

pytestmark = pytest.mark.sqlite_suffices

FARTHEST = 2**40 - 1


@pytest.fixture
def filled(memory):
    add(memory, call(["Where are they?"], "In the orchard."), todo("fix the roof"), entry(conversation_id="c"))
    return memory


@pytest.fixture
def lying(filled, tmp_path):
    """Export what is there, change the model call, and import it into an empty memory."""
    path = tmp_path / "export.jsonl"
    filled.export(path)

    def make(change):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        change(next(each for each in records if each.get("record") == "audit_entry" and each["kind"] == "call"))
        path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
        return path

    return make


class TestAnImportThatLies:
    def test_about_tags_breaks_no_report(self, lying):
        path = lying(lambda told: told["body"].update(extra={"tags": 5}))
        with AgentMemory(":memory:") as other:
            other.import_(path)
            assert "3 entries" in str(other.audit.report())
            assert "orchard" in str(other.audit.last(1, kinds=["call"]))


class TestWhatVerifyFinds:
    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ("hidden = 1", "junk"), ("hidden = 7", "hidden"), ("junk = '[\"x\"]'", "junk"),
            ("status = 'open'", "status"), ("archived = null", "archived"), ("settled = null", "settled"),
            ("shelf_id = 5", "shelf_id"),
        ],
    )  # fmt: skip
    def test_an_entry_that_somebody_put_out_of_sight(self, filled, raw, change, name):
        filled.audit.filter_junk()  # nothing waits
        raw(filled, f"update audit set {change} where sequence = 3")
        [problem] = filled.audit.verify().problems
        assert problem.endswith(f"(number 3) is marked as no entry can be: {name}")

    def test_a_todo_that_is_neither_open_nor_done(self, filled, raw):
        filled.audit.filter_junk()
        [counted] = raw(filled, "select count(*) as todos from audit where kind = 'todo'")
        raw(filled, "update audit set status = null where kind = 'todo'")
        found = filled.audit.verify().problems
        assert len(found) == counted["todos"] > 0
        assert all(each.endswith("is marked as no entry can be: status") for each in found)

    def test_no_place_before_the_first(self):
        with pytest.raises(ValueError, match="-1"):
            audit_rows.number_at([(5, 9)], -1)

    def test_a_list_of_messages_without_an_end(self, filled, raw):
        raw(filled, f"update audit set messages = '[[1,{FARTHEST}]]' where sequence = 1")
        assert "is not what was stored" in filled.audit.verify().problems[0]


class TestWritingADocument:
    def test_never_replaces_a_database(self, tmp_path):
        path = tmp_path / "agent.db"
        with AgentMemory(path) as memory:
            memory.audit.add("Where are they?", "In the orchard.")
        with AgentMemory(path) as memory:
            for write in (memory.audit.export_document, memory.export):
                with pytest.raises(InvalidInput, match="is a database"):
                    write(path)
            assert len(read(memory, audit_store.last, "", 9)) == 1


class Mute:
    def __repr__(self):
        raise RuntimeError

    __eq__ = __str__ = __repr__
    __hash__ = None


class TestWhatARunIsCalled:
    @pytest.mark.parametrize("key", ["thread_id", "conversation_id", "agentmem_namespace"])
    def test_may_be_an_object_that_says_nothing_of_itself(self, key):
        told = {"thread_id": "t", key: Mute()}
        call = model_call_capture.begun(["Where are they?"], entry_id="e", run_id="r", created_at=BEGIN, metadata=told)
        assert (call.namespace, call.messages[0].text) == ((), "Where are they?")
        assert "Mute" in str(call.extra)


class TestTodos:
    @pytest.mark.slow("in every form")
    def test_what_asks_for_nothing_is_left_out_of_a_long_text(self):
        story = "We looked at the tree, and it was green as far as anybody could tell.\n"
        assert todos_in(f"{story * 4_000}Please fix the fence.\n{story * 4_000}") == ["Please fix the fence."]

    def test_long_words_and_addresses_hold_no_keyword(self):
        assert todos_in(f"see https://example.org/a?fix=1 or add/{'x' * 300}.txt or {'a' * 250}-fix") == []
        assert todos_in(f"{'a' * 300} we should fix the fence") == [f"{'a' * 300} we should fix the fence"]
