"""Where a thread goes on from an earlier checkpoint, a trace says so once, and how much of its memory is hidden."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory
from tests.tracing.trees import Collector

AT = {"thread_id": "t", "agentmem_namespace": ("ada",)}
REWIND, FORK = "memory.thread.rewind", "memory.thread.fork"


class Agent:
    """An agent of one node that notes what it is told, in the memory of its thread, and what traces show of it."""

    def __init__(self, url, clock, **options):
        self.memory = AgentMemory(url, clock=clock, **options)
        self.collector = Collector()
        builder = StateGraph(MessagesState)
        builder.add_node("note", self.note)
        builder.add_edge(START, "note")
        self.graph = builder.compile(checkpointer=self.memory.checkpointer)

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


@pytest.fixture
def small(new_database, clock):
    agent = Agent(new_database("sqlite"), clock)
    with agent.memory:
        yield agent


class TestARunThatBeginsEarlier:
    @pytest.mark.slow
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_is_shown_once_under_its_caller(self, agent, asynchronous):
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

    def test_at_the_newest_checkpoint_it_is_none(self, small):
        *_, newest = small.tell("one", "two")
        small.graph.invoke({"messages": [HumanMessage("three")]}, small.at(newest))
        small.graph.invoke({"messages": [HumanMessage("four")]}, small.at())
        assert small.shown == []

    def test_that_hides_nothing_is_not_shown(self, small):
        first, *_ = small.tell("one", "forget it", "forget it")
        small.graph.invoke({"messages": [HumanMessage("two")]}, small.at(first))
        assert small.shown == []

    def test_is_shown_each_time(self, small):
        first, *_ = small.tell("one", "two")
        for said in ("three", "four"):
            small.graph.invoke({"messages": [HumanMessage(said)]}, small.at(first))
        assert [(run.name, run.outputs["hidden"]) for run in small.shown] == [(REWIND, 2), (REWIND, 2)]

    def test_before_anything_was_remembered_all_of_it_is_hidden(self, small):
        first, *_ = small.tell("forget it", "one")
        small.graph.invoke({"messages": [HumanMessage("two")]}, small.at(first))
        assert [run.outputs["hidden"] for run in small.shown] == [2]

    def test_costs_no_query_while_nobody_looks(self, small, monkeypatch):
        first, *_ = small.tell("one", "two")
        asked = []
        monkeypatch.setattr("langchain_agentmem.rewinding.sealing.hidden", lambda *_: asked.append(1))
        small.graph.invoke({"messages": [HumanMessage("three")]}, {"configurable": {**AT, "checkpoint_id": first}})
        assert asked == []

    def test_goes_on_where_it_cannot_be_shown(self, small, monkeypatch):
        first, *_ = small.tell("one", "two")
        monkeypatch.setattr("langchain_agentmem.rewinding.sealing.hidden", lambda *_: 1 / 0)
        small.graph.invoke({"messages": [HumanMessage("three")]}, small.at(first))
        assert small.shown == []
        assert small.memory.layers(small.at(), namespace=("ada",)).core.get() == {"last": "three"}


class TestAnUpdateOfAnEarlierState:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_is_a_fork_and_the_run_that_follows_is_nothing_more(self, small, asynchronous):
        first, second = small.tell("one", "two")
        change = {"messages": [HumanMessage("changed")]}
        graph, at = small.graph, small.at(first)
        new = asyncio.run(graph.aupdate_state(at, change)) if asynchronous else graph.update_state(at, change)
        made = new["configurable"]["checkpoint_id"]
        graph.invoke({"messages": [HumanMessage("three")]}, small.at(made))
        [run] = small.shown
        assert (run.name, run.inputs["checkpoint_id"]) == (FORK, first)
        assert run.outputs == {"checkpoint_id": made, "newest_checkpoint_id": second, "hidden": 2}

    def test_a_copy_of_an_earlier_checkpoint_is_a_fork_too(self, small):
        first, second = small.tell("one", "two")
        # LangGraph hands on no callbacks of a config here; those of the run around it are heard.
        copy = RunnableLambda(lambda _: small.graph.update_state(small.at(first), None, as_node="__copy__"))
        copy.invoke(None, {"callbacks": [small.collector]})
        assert [(run.name, run.outputs["newest_checkpoint_id"]) for run in small.shown] == [(FORK, second)]

    def test_of_the_newest_state_is_none(self, small):
        small.tell("one", "two")
        small.graph.update_state(small.at(), {"messages": [HumanMessage("changed")]})
        assert small.shown == []
