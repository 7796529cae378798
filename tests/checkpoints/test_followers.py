"""What follows a call of the saver happens in its transaction: with it, or not at all."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemorySaver, StorageError
from langchain_agentmem.storage import query

pytestmark = pytest.mark.sqlite_suffices

WITH_CONFIG = {"put", "put_writes", "get_tuple", "list"}


@pytest.fixture
def calls():
    return []


@pytest.fixture
def saver(memory, calls):
    def watch(call):
        calls.append(call)
        if call.method not in {"get_tuple", "list"}:
            yield query.create_namespace(path=f"{call.method}\x1f")

    return AgentMemorySaver(memory, followers=[watch])


def graph_with(saver):
    builder = StateGraph(MessagesState).add_node("chat", lambda state: {"messages": [AIMessage("yes")]})
    return builder.add_edge(START, "chat").compile(checkpointer=saver)


class TestFollowing:
    def test_every_method_is_followed_with_its_config(self, saver, calls):
        config = {"configurable": {"thread_id": "t", "mine": object()}}
        graph_with(saver).invoke({"messages": [("user", "hello")]}, config, durability="sync")
        list(saver.list(config))
        saver.copy_thread("t", "u")
        saver.prune(["u"])
        saver.delete_for_runs(["run"])
        saver.delete_thread("u")
        followed = {call.method for call in calls}
        assert followed == WITH_CONFIG | {"copy_thread", "prune", "delete_for_runs", "delete_thread"}
        for call in calls:
            if call.method in WITH_CONFIG:
                assert call.config["configurable"]["mine"] is config["configurable"]["mine"]
        puts = [call.config["configurable"] for call in calls if call.method == "put"]
        assert len({id(configurable["__pregel_runtime"].control) for configurable in puts}) == 1

    def test_a_call_without_config_tells_that_of_its_run(self, saver, calls):
        def tidy(state):
            saver.delete_thread("other")
            return {}

        graph = StateGraph(MessagesState).add_node("tidy", tidy).add_edge(START, "tidy").compile()
        graph.invoke({"messages": []}, {"configurable": {"mine": "this run"}})
        assert [call.config["configurable"]["mine"] for call in calls] == ["this run"]

    def test_what_it_writes_is_stored_with_the_call(self, saver, memory):
        before = memory.admin.stats()["namespaces"]
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {}, {})
        assert memory.admin.stats()["namespaces"] == before + 2  # the thread's own, and the follower's

    @pytest.mark.parametrize("method", ["put", "put_writes", "delete_thread", "copy_thread"])
    def test_a_failure_takes_the_call_with_it(self, memory, method):
        def refuse(call):
            yield query.create_namespace(path="half\x1f")
            if call.method == method:
                raise StorageError("not like this")

        plain = memory.checkpointer
        config = plain.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
        before = memory.admin.stats()
        saver = AgentMemorySaver(memory, followers=[refuse])
        with pytest.raises(StorageError, match="not like this"):
            {
                "put": lambda: saver.put(config, empty_checkpoint(), {}, {}),
                "put_writes": lambda: saver.put_writes(config, [("a", "b" * 1000)], "task"),
                "delete_thread": lambda: saver.delete_thread("t"),
                "copy_thread": lambda: saver.copy_thread("t", "u"),
            }[method]()
        after = memory.admin.stats()
        counts = [name for name, value in before.items() if isinstance(value, int) and "bytes" not in name]
        assert {name: after[name] for name in (*counts, "content_bytes")} == {
            name: before[name] for name in (*counts, "content_bytes")
        }
