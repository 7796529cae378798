"""Memory operations that a model calls."""

import json

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.language_models.tool_factory import MAX_TEXT_LENGTH, format_answer
from langchain_agentmem.layers.layer_tools import OPERATIONS
from langchain_agentmem.layers.layered_memory import LayeredMemory

pytestmark = pytest.mark.sqlite_suffices

BY_NAME = {each.name: each for each in OPERATIONS}


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "user-42")


def do(layers, name, /, **given):
    operation = BY_NAME[name]
    return operation.run(layers, operation.arguments(**given))


def test_operations_match_the_documented_names():
    assert sorted(BY_NAME) == [
        "consolidate", "mem_archival_get", "mem_archival_search", "mem_archival_update", "mem_archival_write",
        "mem_core_del", "mem_core_get", "mem_core_set", "mem_node_fork", "mem_node_read", "mem_node_write",
        "mem_recall_append", "mem_recall_evict", "mem_recall_search", "mem_recall_summarize",
    ]  # fmt: skip


def test_core_notes_are_set_read_and_deleted(layers):
    assert do(layers, "mem_core_set", key="plan", value="Write.", importance=5) == "The note 'plan' is kept."
    [entry] = layers.core.entries()
    assert (entry.key, entry.value, entry.importance, entry.expires_at) == ("plan", "Write.", 5, None)
    assert do(layers, "mem_core_get") == {"core": {"plan": "Write."}}
    assert do(layers, "mem_core_get", keys="*") == {"core": {"plan": "Write."}}
    assert do(layers, "mem_core_get", keys=["other", "*"]) == {"core": {"plan": "Write."}, "missing": ["other"]}
    assert do(layers, "mem_core_del", key="plan") == "The note 'plan' is deleted."
    assert do(layers, "mem_core_del", key="plan") == "There is no note 'plan'."
    assert layers.core.get() == {}
    layers.core.set("a", "")  # what is empty is not missing
    assert do(layers, "mem_core_get", keys=["a", "b"]) == {"core": {"a": ""}, "missing": ["b"]}


def test_events_are_summarized_and_evicted(layers):
    for number in range(25):
        layers.recall.append("note", f"Thing {number} happened.")
    assert json.loads(format_answer(do(layers, "mem_recall_summarize")))["summarized"]["events"] >= 5
    assert do(layers, "mem_recall_evict", oldest=1) == "Removed 1 event from recall memory."
    assert len(layers.recall.recent(limit=None)) == 19


class TestArchival:
    def test_an_unknown_record_id_is_reported(self, layers):
        for name in ("mem_archival_get", "mem_archival_update"):
            more = {"content": "x"} if name == "mem_archival_update" else {}
            assert "There is no record 'x'" in do(layers, name, record_id="x", **more)

    def test_search_truncates_long_records_and_get_does_not(self, layers):
        text = "word " * MAX_TEXT_LENGTH
        record_id = layers.archival.write(text)
        [found] = do(layers, "mem_archival_search", query="word")["records"]
        assert len(found["content"]) < MAX_TEXT_LENGTH + 200
        assert f"mem_archival_get returns all of {record_id}" in found["content"]
        assert do(layers, "mem_archival_get", record_id=record_id)["content"] == text
        assert len(do(layers, "mem_archival_search", query="*", limit=-1)["records"]) == 1


class TestBranches:
    def test_a_branch_is_forked_written_and_read(self, layers):
        layers.core.set("plan", "old")
        assert "'attempt' is created" in do(layers, "mem_node_fork", child_node_name="attempt")
        do(layers, "mem_node_write", node_id="attempt", core={"plan": "new"}, recall="tried", archival=["it worked"])
        read = do(layers, "mem_node_read", node_id="attempt")
        assert read["core"] == {"plan": "new"}
        assert [event["content"] for event in read["recall"]] == ["tried"]
        assert [record["content"] for record in read["archival"]] == ["it worked"]
        assert do(layers, "mem_node_read") == {"core": {"plan": "old"}, "recall": [], "archival": []}
        assert do(layers, "mem_node_read", scope="core", node_id="user-42") == {"core": {"plan": "old"}}

    def test_non_text_values_are_written_as_json(self, layers):
        do(layers, "mem_node_write", core={"number": 5}, recall="It began.", archival=["A text.", {"n": 1}])
        assert layers.core.get() == {"number": "5"}
        assert [event.content for event in layers.recall.recent()] == ["It began."]
        assert [record.content for record in layers.archival.all()] == ["A text.", '{"n": 1}']

    def test_node_read_shows_the_newest_events_in_order(self, layers):
        for number in range(15):
            layers.recall.append("note", str(number))
        read = do(layers, "mem_node_read", scope="recall")
        assert [event["content"] for event in read["recall"]] == [str(number) for number in range(5, 15)]

    def test_branches_of_other_users_are_not_accessible(self, layers, memory):
        LayeredMemory(memory, "user-43").core.set("secret", "theirs")
        child, sibling = layers.fork("child"), layers.fork("sibling")
        sibling.core.set("secret", "its")
        for where, name in ((layers, "user-43"), (child, "sibling"), (child, "user-42"), (layers, "nowhere")):
            for operation, given in (
                ("mem_node_read", {}), ("mem_node_write", {"core": {"a": "x"}}), ("mem_node_fork", {"name": "mine"}),
            ):  # fmt: skip
                with pytest.raises(InvalidInput, match="There is no branch"):
                    do(where, operation, node_id=name, **given)
