"""Where old checkpoints are removed as new ones are put, memory goes on, and what only they showed is swept away."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory, Retention
from tests.support.graphs import at, line

pytestmark = pytest.mark.sqlite_suffices


def talk(memory, turns, *, durability):
    """A graph whose one node remembers an event, and what is the newest, in each turn; gives the config."""

    def node(state, config):
        layers = memory.layers(config)
        assert len(layers.recall.recent(limit=None)) == len(state["messages"]) - 1
        layers.recall.append("turn", f"turn {len(state['messages'])}")
        layers.core.set("newest", state["messages"][-1].text)

    graph = line(memory.checkpointer, node)
    for turn in range(turns):
        graph.invoke({"messages": [("user", f"said {turn}")]}, at(), durability=durability)
    return at()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_thread_that_keeps_one_checkpoint_keeps_its_memory_and_no_versions_that_it_does_not_show(url, durability):
    with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
        config = talk(memory, 24, durability=durability)
        layers = memory.layers(config)
        assert [event.content for event in layers.recall.recent(limit=None)] == [f"turn {n}" for n in range(1, 25)]
        assert layers.core.get() == {"newest": "said 23"}
        assert memory.admin.stats()["checkpoints"] == 1
        assert memory.admin.stats()["memories"] < 24 + 24
        assert memory.admin.verify().ok
