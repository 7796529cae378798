"""Sizes of namespaces, growth per day, and the diagnosis of a memory."""

from datetime import date

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.base.namespaces import nested_conversation
from tests.support.graphs import at, line

ADA, NOTES, BEN = ("users", "ada"), ("users", "ada", "notes"), ("users", "ben")


def say(memory, text, thread_id, namespace):
    graph = line(memory.checkpointer, lambda _: {"messages": [AIMessage("Yes.")]})
    graph.invoke({"messages": [HumanMessage(text)]}, at(thread_id, namespace=namespace))


@pytest.fixture
def filled(memory):
    say(memory, "x" * 10_000, "t", ADA)
    memory.conversation("t", ADA).add_user_message("again")
    memory.conversation("only", ADA).add_user_message("hello")
    memory.conversation(nested_conversation("t", "tools:1"), ADA).add_user_message("Look it up.")
    memory.layers(namespace=ADA).core.set("name", "Ada")
    memory.layers(namespace=ADA).core.set("name", "Ada L.")
    memory.layers(namespace=ADA).archival.write("A record.")
    memory.store.put(NOTES, "note", {"text": "y" * 5_000})
    AuditTrail(memory, BEN).add("Where?", "Here.")
    memory.conversation("root").add_user_message("hello")
    return memory


class TestNamespaces:
    def test_each_namespace_reports_its_own_sizes(self, filled):
        found = {each.namespace: each for each in filled.admin.namespaces()}
        ada, notes, ben = found[ADA], found[NOTES], found[BEN]
        assert (ada.threads, ada.messages, ada.checkpoints, ada.memories, ada.items, ada.audit) == (2, 5, 3, 2, 0, 0)
        assert (notes.threads, notes.items, ben.audit, ben.messages) == (0, 1, 1, 0)
        assert 10_000 < ada.bytes < 20_000
        assert 5_000 < notes.bytes < 6_000
        assert 0 < ben.bytes < 1_000

    async def test_namespace_filter_includes_descendants(self, filled):
        assert {each.namespace for each in filled.admin.namespaces(ADA)} == {ADA, NOTES}
        assert await filled.admin.anamespaces(NOTES) == filled.admin.namespaces(NOTES)
        assert {each.namespace for each in filled.within(ADA).admin.namespaces()} == {ADA, NOTES}
        assert filled.admin.namespaces(("nobody",)) == []
        with pytest.raises(InvalidInput):
            filled.admin.namespaces("users")


async def test_growth_counts_rows_per_day(filled, clock):
    clock.pass_time(days=2)
    filled.conversation("later", BEN).add_messages([HumanMessage("a"), AIMessage("b")])
    days = filled.admin.growth(days=4)
    assert [each.day for each in days] == [date(2025, 12, 31), *(date(2026, 1, day) for day in (1, 2, 3))]
    assert [each.messages for each in days] == [0, 6, 0, 2]
    assert [each.memories for each in days] == [0, 2, 0, 0]
    assert sum(each.checkpoints for each in days) == 3
    assert [each.messages for each in await filled.admin.agrowth(BEN, days=3)] == [0, 0, 2]
    assert [each.messages for each in filled.within(ADA).admin.growth(days=3)] == [5, 0, 0]

    assert len(filled.admin.growth()) == 30
    for wrong in (0, -1, True, 1.5, "3", 3_661, 10**30):
        with pytest.raises(InvalidInput, match="days"):
            filled.admin.growth(days=wrong)


async def test_diagnose_checks_the_database_and_the_environment(memory):
    found = {each.name: each.level for each in await memory.admin.adiagnose()}
    assert found["schema"] == "ok"
    assert "verify" not in found
    with pytest.raises(InvalidInput, match="whole database"):
        memory.within(ADA).admin.diagnose()
    with AgentMemory() as other:
        names = {each.name for each in other.admin.diagnose()}
    assert ("python" in names, "schema" in names) == (True, False)
