"""Where a thread goes on from an earlier checkpoint, a trace says so once, and how much of its memory is hidden."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from tests.support.graphs import line
from tests.tracing.trees import Collector

AT = {"thread_id": "t", "agentmem_namespace": ("ada",)}
REWIND, FORK = "memory.thread.rewind", "memory.thread.fork"


class Agent:
    """An agent of one node that notes what it is told, in the memory of its thread, and what traces show of it."""

    def __init__(self, url, clock, **options):
        self.memory = AgentMemory(url, clock=clock, **options)
        self.collector = Collector()
        self.graph = line(self.memory.checkpointer, self.note)

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
            self.graph.invoke({"messages": [HumanMessage(each)]}, self.at(checkpoint))
            ids.append(self.newest())
        self.collector.roots.clear()
        return ids

    def newest(self):
        return self.graph.get_state(self.at()).config["configurable"]["checkpoint_id"]

    @property
    def shown(self):
        return [run for run in self.collector.ours() if run.name.startswith("memory.thread.")]


@pytest.fixture
def agent(url, clock):
    agent = Agent(url, clock)
    with agent.memory:
        yield agent


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_that_begins_earlier_is_shown_once_under_its_caller(agent, asynchronous):
    first, _, third = agent.tell("one", "two", "three")
    again = {"messages": [HumanMessage("four")]}
    if asynchronous:

        async def turn(_):
            return await agent.graph.ainvoke(again, agent.at(first))

        asyncio.run(RunnableLambda(turn, name="turn").ainvoke(None, {"callbacks": [agent.collector]}))
    else:
        turn = RunnableLambda(lambda _: agent.graph.invoke(again, agent.at(first)), name="turn")
        turn.invoke(None, {"callbacks": [agent.collector]})
    [run] = agent.shown
    assert (run.name, run.run_type, run.error) == (REWIND, "chain", None)
    assert run.inputs == {"namespace": "ada", "thread_id": "t", "checkpoint_id": first}
    # The events "two" and "three", and the value that is not "one".
    assert run.outputs == {"checkpoint_id": first, "newest_checkpoint_id": third, "hidden": 3}
    metadata = run.extra["metadata"]
    assert (metadata["thread_id"], metadata["checkpoint_id"]) == ("t", first)
    assert metadata["agentmem_namespace"] == "ada"
    assert agent.memory.layers(agent.at(), namespace=("ada",)).core.get() == {"last": "four"}


@pytest.mark.parametrize(
    ("told", "place", "then", "hidden"),
    [
        (["one", "two"], -1, ["three"], []),  # at the newest checkpoint
        (["one", "forget it", "forget it"], 0, ["two"], []),
        (["one", "two"], 0, ["three", "four"], [2, 2]),
        (["forget it", "one"], 0, ["two"], [2]),  # before anything was remembered
    ],
)
def test_how_much_is_hidden_is_shown_each_time_unless_nothing_is(agent, told, place, then, hidden):
    there = agent.tell(*told)[place]
    for said in then:
        agent.graph.invoke({"messages": [HumanMessage(said)]}, agent.at(there))
    assert [run.outputs["hidden"] for run in agent.shown] == hidden


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_run_costs_no_query_while_nobody_looks_and_goes_on_where_it_cannot_be_shown(agent, monkeypatch, looked_at):
    first, *_ = agent.tell("one", "two")
    asked = []
    monkeypatch.setattr("langchain_agentmem.rewinding.sealing.hidden", lambda *_: asked.append(1) or 1 / 0)
    config = agent.at(first) if looked_at else {"configurable": agent.at(first)["configurable"]}
    agent.graph.invoke({"messages": [HumanMessage("three")]}, config)
    assert bool(asked) == looked_at
    assert agent.shown == []
    assert agent.memory.layers(agent.at(), namespace=("ada",)).core.get() == {"last": "three"}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_update_of_an_earlier_state_is_a_fork_and_the_run_that_follows_is_nothing_more(agent, asynchronous):
    first, _ = agent.tell("one", "two")
    change = {"messages": [HumanMessage("changed")]}
    graph, at = agent.graph, agent.at(first)
    graph.update_state(agent.at(), change)  # of the newest state it is none
    assert agent.shown == []
    second = agent.newest()
    new = asyncio.run(graph.aupdate_state(at, change)) if asynchronous else graph.update_state(at, change)
    made = new["configurable"]["checkpoint_id"]
    graph.invoke({"messages": [HumanMessage("three")]}, agent.at(made))
    # LangGraph hands on no callbacks of a config here; those of the run around it are heard.
    copy = RunnableLambda(lambda _: graph.update_state(agent.at(first), None, as_node="__copy__"))
    newest = agent.newest()
    copy.invoke(None, {"callbacks": [agent.collector]})
    [run, copied] = agent.shown
    assert (run.name, run.inputs["checkpoint_id"]) == (FORK, first)
    assert run.outputs == {"checkpoint_id": made, "newest_checkpoint_id": second, "hidden": 2}
    assert (copied.name, copied.outputs["newest_checkpoint_id"]) == (FORK, newest)
