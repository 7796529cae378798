"""A thread that is deleted while it runs stays deleted, and meets nobody else's memory."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, CompactionState
from langchain_agentmem.errors import StepIsOver

ADA, BOB = ("users", "ada"), ("users", "bob")
ERASING = """
import sys
from langchain_agentmem import AgentMemory
with AgentMemory(sys.argv[1]) as memory:
    memory.erase(namespace=("users", "ada"))
"""


def at(thread, namespace):
    return {"configurable": {"thread_id": thread, "agentmem_namespace": namespace}}


def graph(memory, node):
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(memory.checkpointer)


def replied(state):
    return {"messages": [AIMessage("reply")]}


def deleted(memory, url, how):
    if how == "by another process":
        subprocess.run([sys.executable, "-c", ERASING, url], check=True)
    elif how == "deleted":
        memory.within(ADA).checkpointer.delete_thread("t")
    elif how == "pruned":
        memory.within(ADA).checkpointer.prune(["t"], strategy="delete")
    else:
        memory.erase(namespace=ADA)


WAYS = ("by another process", "deleted", "pruned", "erased")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_compaction_does_not_record_what_was_deleted(memory, durability):
    def ada(state):
        memory.within(ADA).checkpointer.delete_thread("t")

    builder = StateGraph(CompactionState).add_node("ada", ada).add_node("compact", memory.compaction())
    running = builder.add_edge(START, "ada").add_edge("ada", "compact").compile(memory.checkpointer)
    graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))
    running.invoke({"messages": [("user", "forget me")]}, at("t", ADA), durability=durability)
    assert memory.conversations(namespace=ADA) == memory.search("hello", namespace=ADA) == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("how", WAYS)
class TestDeletedMeanwhile:
    @pytest.mark.slow
    def test_whoever_begins_then_is_not_seen(self, url, how, durability):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))
            seen = []

            def bob(state):
                memory.layers().core.set("pin", "bob's")
                return replied(state)

            def ada(state):
                def others():
                    deleted(memory, url, how)
                    graph(memory, bob).invoke({"messages": [("user", "hi")]}, at("b", BOB))

                thread = threading.Thread(target=others)
                thread.start()
                thread.join()
                seen.append(memory.layers().core.get())
                return {"messages": [AIMessage("late")]}

            graph(memory, ada).invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            seen.append(memory.layers(at("t", ADA)).core.get())
            assert seen == [{}, {}]
            assert memory.layers(at("b", BOB)).core.get() == {"pin": "bob's"}
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_it_stays_deleted_and_its_id_can_be_used_again(self, url, how, durability, raw):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))

            def ada(state):
                deleted(memory, url, how)
                return {"messages": [AIMessage("late")]}

            running = graph(memory, ada)
            found = running.invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            assert [message.text for message in found["messages"]] == ["hello", "reply", "again", "late"]
            assert running.get_state(at("t", ADA)).values == {}
            assert len(memory.conversation("t", ADA).messages) == 0
            for table in ("thread", "checkpoint", "pending_write"):
                assert raw(memory, f"select 1 from {table}") == [], table
            found = graph(memory, replied).invoke({"messages": [("user", "hi")]}, at("t", ADA), durability=durability)
            assert [message.text for message in found["messages"]] == ["hi", "reply"]
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_its_run_neither_remembers_nor_changes_who_uses_its_id_meanwhile(self, url, how, durability):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))

            def other():
                graph(memory, replied).invoke({"messages": [("user", "hi")]}, at("t", ADA), durability=durability)

            def ada(state):
                deleted(memory, url, how)
                with pytest.raises(StepIsOver):
                    memory.layers().core.set("key", "value")
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
                with pytest.raises(StepIsOver):
                    memory.layers().core.set("key", "value")
                return {"messages": [AIMessage("late")]}

            running = graph(memory, ada)
            running.invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            texts = [message.text for message in running.get_state(at("t", ADA)).values["messages"]]
            assert texts == [message.text for message in memory.conversation("t", ADA).messages] == ["hi", "reply"]
            assert memory.layers(at("t", ADA)).core.get() == {}
            assert memory.admin.verify().problems == ()
