"""Where a thread goes on from an earlier checkpoint, a trace says so once, and how much of its memory is hidden."""

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from tests.support.graphs import line
from tests.tracing.trees import Collector

AT = {"thread_id": "t", "agentmem_namespace": ("ada",)}


class Agent:
    """An agent of one node that notes what it is told, in the memory of its thread, and what traces show of it."""

    def __init__(self, memory):
        self.memory, self.collector = memory, Collector()
        self.graph = line(memory.checkpointer, self.note)

    def note(self, state, config):
        said = state["messages"][-1].text
        here = {**config["configurable"], "checkpoint_ns": "", "checkpoint_id": None}
        self.memory.checkpointer.get_tuple({"configurable": here})  # the newest, as anybody may ask in a run
        if said != "forget it":
            layers = self.memory.layers(config)
            layers.core.set("last", said)
            layers.recall.append("said", said)
        return {"messages": [AIMessage("ok")]}

    def at(self, checkpoint=None):
        there = {} if checkpoint is None else {"checkpoint_id": checkpoint}
        return {"configurable": {**AT, **there}, "callbacks": [self.collector]}

    def tell(self, *said, checkpoint=None):
        """Tell it something, and give the ids of the checkpoints after each."""
        ids = []
        for each in said:
            self.graph.invoke({"messages": [("user", each)]}, self.at(checkpoint))
            ids.append(self.newest())
        return ids

    def newest(self):
        return self.graph.get_state(self.at()).config["configurable"]["checkpoint_id"]

    @property
    def last(self):
        return self.memory.layers(self.at(), namespace=("ada",)).core.get()["last"]

    @property
    def shown(self):
        return [run for run in self.collector.ours() if run.name.startswith("memory.thread.")]


@pytest.fixture
def agent(url, clock):
    with AgentMemory(url, clock=clock) as memory:
        yield Agent(memory)


async def test_a_run_that_begins_earlier_is_shown_once_under_its_caller(agent, do):
    first, _, third = agent.tell("one", "two", "three")
    given, at = {"messages": [("user", "four")]}, agent.at(first)

    await agent.collector.aunder(lambda: do(agent.graph, "invoke", given, at))
    [run] = agent.shown
    assert (run.name, run.run_type, run.error) == ("memory.thread.rewind", "chain", None)
    assert run.inputs == {"namespace": "ada", "thread_id": "t", "checkpoint_id": first}
    # The events "two" and "three", and the value that is not "one".
    assert run.outputs == {"checkpoint_id": first, "newest_checkpoint_id": third, "hidden": 3}
    shown = {"thread_id": "t", "checkpoint_id": first, "agentmem_namespace": "ada"}
    assert shown.items() <= run.extra["metadata"].items()
    assert agent.last == "four"


def test_how_much_is_hidden_is_shown_each_time_unless_nothing_is(agent):
    for told, place, then, hidden in (
        (["one", "two"], -1, ["three"], []),  # at the newest checkpoint
        (["one", "forget it", "forget it"], 0, ["two"], []),
        (["one", "two"], 0, ["three", "four"], [2, 2]),
        (["forget it", "one"], 0, ["two"], [2]),  # before anything was remembered
    ):
        there = agent.tell(*told)[place]
        agent.tell(*then, checkpoint=there)
        assert [run.outputs["hidden"] for run in agent.shown] == hidden, told
        agent.collector.roots.clear()
        agent.memory.erase(namespace=())


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_run_costs_no_query_while_nobody_looks_and_goes_on_where_it_cannot_be_shown(agent, monkeypatch, looked_at):
    first, *_ = agent.tell("one", "two")
    asked = []
    monkeypatch.setattr("langchain_agentmem.rewinding.sealing.hidden", lambda *_: asked.append(1) or 1 / 0)
    config = agent.at(first) if looked_at else {"configurable": agent.at(first)["configurable"]}
    agent.graph.invoke({"messages": [("user", "three")]}, config)
    assert bool(asked) == looked_at
    assert agent.shown == []
    assert agent.last == "three"


async def test_an_update_of_an_earlier_state_is_a_fork_and_the_run_that_follows_is_nothing_more(agent, do):
    first, _ = agent.tell("one", "two")
    graph, change = agent.graph, {"messages": [("user", "changed")]}
    graph.update_state(agent.at(), change)  # of the newest state it is none
    assert agent.shown == []
    second, at = agent.newest(), agent.at(first)
    new = await do(graph, "update_state", at, change)
    made = new["configurable"]["checkpoint_id"]
    [newest] = agent.tell("three", checkpoint=made)
    # LangGraph hands on no callbacks of a config here; those of the run around it are heard.
    copy = RunnableLambda(lambda _: graph.update_state(at, None, as_node="__copy__"))
    copy.invoke(None, {"callbacks": [agent.collector]})
    [run, copied] = agent.shown
    assert (run.name, run.inputs["checkpoint_id"]) == ("memory.thread.fork", first)
    assert run.outputs == {"checkpoint_id": made, "newest_checkpoint_id": second, "hidden": 2}
    assert (copied.name, copied.outputs["newest_checkpoint_id"]) == ("memory.thread.fork", newest)
