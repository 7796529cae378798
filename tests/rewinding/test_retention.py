"""Where old checkpoints are removed as new ones are put, memory goes on, and what only they showed is swept away."""

from __future__ import annotations

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, Retention

pytestmark = pytest.mark.sqlite_suffices


def talk(memory, turns, *, durability="async"):
    """A graph whose one node remembers an event, and what is the newest, in each turn; gives the config."""

    def node(state, config):
        layers = memory.layers(config)
        assert len(layers.recall.recent(limit=None)) == len(state["messages"]) - 1
        layers.recall.append("turn", f"turn {len(state['messages'])}")
        layers.core.set("newest", state["messages"][-1].text)

    graph = StateGraph(MessagesState).add_node(node).add_edge(START, "node").compile(checkpointer=memory.checkpointer)
    config = {"configurable": {"thread_id": "t"}}
    for turn in range(turns):
        graph.invoke({"messages": [("user", f"said {turn}")]}, config, durability=durability)
    return config


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_thread_that_keeps_one_checkpoint_keeps_its_memory(url, durability):
    with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
        config = talk(memory, 12, durability=durability)
        layers = memory.layers(config)
        assert [event.content for event in layers.recall.recent(limit=None)] == [f"turn {n}" for n in range(1, 13)]
        assert layers.core.get() == {"newest": "said 11"}
        assert memory.admin.stats()["checkpoints"] == 1
        assert memory.admin.verify().ok


def test_versions_that_no_kept_checkpoint_shows_are_swept(url):
    with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
        talk(memory, 24)
        assert memory.admin.stats()["memories"] < 24 + 24
        assert memory.admin.verify().ok
