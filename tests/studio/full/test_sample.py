"""The sample memory of the demo has data for every page of Studio."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.studio import sample

THREAD = {"configurable": {"thread_id": sample.GIFT, "agentmem_namespace": sample.IRENA}}


@pytest.fixture(scope="module")
def sample_memory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiences")
    with AgentMemory() as memory:
        yield memory, sample.play_story(memory, folder), folder


def test_conversation_forks_and_returns(sample_memory):
    memory, _, _ = sample_memory
    [thread] = memory.admin.threads(sample.IRENA, thread_id=sample.GIFT).threads
    assert thread.forks == 2
    newest = memory.checkpointer.get_tuple(THREAD).checkpoint["channel_values"]["messages"]
    assert newest[-1].text == sample.TALK[-1].reply
    found = memory.search("a book about bees", namespace=sample.IRENA, kinds=["message"])
    assert sample.ALTERNATIVE_TALK[0].text not in [each.text for each in found]


def test_prompts_are_compacted_and_have_notes(sample_memory):
    memory, _, _ = sample_memory
    assert memory.admin.stats()["compactions"] > 0
    notes = memory.conversation(sample.GIFT, sample.IRENA).prompt_notes()
    items = [item for note in notes for item in note.items]
    assert {"core", "record", "fact", "event"} <= {item.kind for item in items}
    assert any(item.signals for item in items)
    assert {note.part for note in notes} >= {"changes", "recall", "archival", "experiences"}


def test_audit_trail_has_calls_junk_and_a_todo(sample_memory):
    memory, _, _ = sample_memory
    trail = AuditTrail(memory, sample.IRENA)
    entries = list(trail.entries(include_junk=True))
    assert {each.kind for each in entries} >= {"call", "exchange", "todo"}
    assert [each.prompt for each in entries if each.junk] == ["hm"]
    assert trail.verify().ok
