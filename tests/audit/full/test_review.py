"""Regression tests of the audit trail, from a review."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_store, model_call_capture
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.threads.value_store import LIST, pack
from tests.audit.entries import BEGIN, add, call, entry, read, todo

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def filled(memory):
    add(memory, call(["Where are they?"], "In the orchard."), todo("fix the roof"), entry(conversation_id="c"))
    return memory


class TestVerification:
    def test_verify_reports_impossible_column_values(self, filled, raw):
        filled.audit.filter_junk()  # nothing waits
        for change, back, name in (
            ("hidden = 1", "hidden = 0", "junk"), ("hidden = 7", "hidden = 0", "hidden"),
            ("junk = '[\"x\"]'", "junk = null", "junk"), ("status = 'open'", "status = null", "status"),
            ("archived = null", "archived = 0", "archived"),
            ("store_id = 5", "store_id = null", "store_id"),
        ):  # fmt: skip
            raw(filled, f"update audit set {change} where sequence = 3")
            [problem] = filled.audit.verify().problems
            assert problem.endswith(f"(number 3) has impossible values: {name}")
            raw(filled, f"update audit set {back} where sequence = 3")
        raw(filled, "update audit set status = null where kind = 'todo'")
        [problem] = filled.audit.verify().problems
        assert problem.endswith("has impossible values: status")

    def test_verify_reports_corrupt_message_list(self, filled, raw):
        raw(filled, "update audit set messages = :value where sequence = 1", value=pack([LIST, 1, 2**47]))
        assert "is damaged" in filled.audit.verify().problems[0]


def test_export_never_overwrites_a_database(tmp_path):
    path = tmp_path / "agent.db"
    with AgentMemory(path) as memory:
        memory.audit.add("Where are they?", "In the orchard.")
    with AgentMemory(path) as memory:
        for write in (memory.audit.export_document, memory.export):
            with pytest.raises(InvalidInput, match=r"is a database|is no export"):
                write(path)
        assert len(read(memory, audit_store.load_last, "", 9)) == 1


class Mute:
    def __repr__(self):
        raise RuntimeError

    __eq__ = __str__ = __repr__
    __hash__ = None


def test_run_ids_without_a_string_form_are_tolerated():
    for key in ("thread_id", "conversation_id", "agentmem_namespace"):
        told = {"thread_id": "t", key: Mute()}
        call = model_call_capture.start_entry(
            ["Where are they?"], entry_id="e", run_id="r", created_at=BEGIN, metadata=told
        )
        assert (call.namespace, call.messages[0].text) == ((), "Where are they?")
        assert "Mute" in str(call.extra)
