"""The changes between two checkpoints."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import MessagesState

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.errors import CheckpointUnreadable, InvalidInput
from tests.checkpoints.graphs import Line
from tests.support.graphs import line
from tests.threads.own_store import aes


class State(MessagesState, total=False):
    numbers: Annotated[list[int], add]
    plan: dict[str, Any]


def at(checkpoint=None, thread="t"):
    return {"configurable": {"thread_id": thread} | ({"checkpoint_id": checkpoint} if checkpoint else {})}


def counting(saver):
    def answer(state):
        turn = len(state["messages"])
        gone = [RemoveMessage(id="h0")] if state["messages"][-1].content == "forget" else []
        edited = [HumanMessage("as it should be", id="h2")] if state["messages"][-1].content == "edit" else []
        return {"messages": [*gone, *edited, AIMessage(f"answer {turn}", id=f"a{turn}")], "numbers": [turn] * 20}

    return line(saver, answer, state=State)


def turns(graph, *texts, config=None):
    for text in texts:
        number = len(graph.get_state(config or at()).values.get("messages", ()))
        graph.invoke({"messages": [HumanMessage(text, id=f"h{number}")]}, config or at())


class TestChanges:
    def test_changes_work_with_an_encrypted_saver(self, url):
        with AgentMemory(url) as memory:
            saver = AgentMemorySaver(memory, serde=aes())
            turns(counting(saver), *"abc")
            changes = saver.changes(at())
            assert [each.id for each in changes.after.checkpoint["channel_values"]["messages"]] == ["a5"]

    def test_messages_with_several_encrypted_parts_are_no_changes(self, url):
        with AgentMemory(url) as memory:
            thread = Line(AgentMemorySaver(memory, serde=aes()))
            for more in ([], [HumanMessage("b", id="b")], []):
                thread.put({"messages": [HumanMessage("a", id="a"), *more]})
                changes = thread.saver.changes(thread.config)
                values = changes.after.checkpoint["channel_values"]
                assert not changes.before or values["messages"] == more

    def test_changes_of_a_damaged_checkpoint_raise_an_error(self, memory, raw):
        turns(counting(memory.checkpointer), "one")
        newest = memory.checkpointer.get_tuple(at()).config["configurable"]["checkpoint_id"]
        raw(memory, "update channel_value set recipe = :recipe", recipe=b"damaged")
        with pytest.raises(CheckpointUnreadable, match=newest):
            memory.checkpointer.changes(at())

    async def test_changes_contain_what_a_step_changed(self, memory):
        saver = memory.checkpointer
        turns(counting(saver), "one", "two", "edit", "forget")
        changes = saver.changes(at())
        added = changes.after.checkpoint["channel_values"]
        assert [each.id for each in added["messages"]] == ["a7"]
        assert changes.before.checkpoint["channel_values"]["messages"][0].id == "h0"
        assert await saver.achanges(at()) == changes

    def test_changes_between_two_checkpoints_are_their_difference(self, memory):
        saver = memory.checkpointer
        graph = counting(saver)
        turns(graph, "one", "two", "edit")
        first = saver.history(at()).checkpoints[-1].checkpoint_id
        turns(graph, "other", config=at(saver.history(at()).checkpoints[4].checkpoint_id))
        for each in saver.list(at()):
            name = each.config["configurable"]["checkpoint_id"]
            changes = saver.changes(each.config, first)
            then = saver.get_tuple(at(first)).checkpoint["channel_values"]
            now, told = each.checkpoint["channel_values"], changes.after.checkpoint["channel_values"]
            messages = [message for message in now.get("messages", []) if message not in then.get("messages", [])]
            assert told.get("messages", []) == messages, name
            assert told.get("numbers", now.get("numbers")) == now.get("numbers")

    def test_changes_of_the_first_checkpoint_are_complete(self, memory):
        saver = memory.checkpointer
        turns(counting(saver), "one")
        first = saver.history(at()).checkpoints[-1].checkpoint_id
        changes = saver.changes(at(first))
        assert changes.before is None
        assert changes.after == saver.get_tuple(at(first))

    def test_changes_after_a_pruned_parent_are_empty(self, memory):
        saver = memory.checkpointer
        turns(counting(saver), "one", "two")
        saver.prune(["t"])
        changes = saver.changes(at())
        assert changes.before is None
        assert changes.after.parent_config is not None
        assert changes.after.checkpoint["channel_values"] == {}

    def test_changes_of_unknown_checkpoints_are_none(self, memory):
        saver = memory.checkpointer
        assert saver.changes(at()) is None
        turns(counting(saver), "one")
        assert saver.changes(at("nowhere")) is None
        assert saver.changes(at(), "nowhere") is None
        for config, since in (({}, None), (at(), 3)):
            with pytest.raises(InvalidInput):
                saver.changes(config, since)
