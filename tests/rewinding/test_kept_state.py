"""Persistent subgraphs (`compile(checkpointer=True)`).

The memory of such a subgraph is what its state says, whatever its thread did since it waits: so is that of the thread.
"""

import pytest
from langgraph.config import get_config
from langgraph.graph import START
from langgraph.types import interrupt

from tests.support.graphs import beside, line

from .minds import AT, EMPTY, State, resumed
from .oracle import state_of


def waiting(mind):
    """Return a persistent graph that remembers something and interrupts."""

    def ask(state):
        interrupt("?")
        return {"log": [mind.note("answered")]}

    return mind.graph(mind.noting("learned"), ask, inner=True, saves=True)


def nested(mind, depth):
    """Return a graph with a persistent subgraph, one or two levels deep."""
    inner = waiting(mind) if depth == 1 else beside(True, state=State, inner=waiting(mind))
    return beside(mind.adapter.saver, state=State, inner=inner)


def innermost(graph):
    state = graph.get_state(AT, subgraphs=True)
    while state.tasks and state.tasks[0].state is not None:
        state = state.tasks[0].state
    return state.config


def checked_memory(mind):
    """Check the memory of all checkpoints, including subgraphs, and return that of the newest."""
    for each in mind.adapter.saver.list(AT):
        assert sorted(mind.adapter.remembered(each.config)) == sorted(state_of(each)), each
    return sorted(mind.held())


CHANGES = {
    "run from within": lambda mind, graph: mind.run(graph, None, innermost(graph)),
    "edited within": lambda mind, graph: graph.update_state(innermost(graph), EMPTY),
    "copied within": lambda mind, graph: graph.update_state(innermost(graph), None, "__copy__"),
    "edited": lambda mind, graph: graph.update_state(AT, EMPTY, START),
    "copied": lambda mind, graph: graph.update_state(AT, None, "__copy__"),
    "given something new": lambda mind, graph: mind.run(graph, EMPTY),
}


class TestPersistentSubgraphs:
    @pytest.mark.parametrize("depth", [1, 2])
    @pytest.mark.parametrize("change", CHANGES)
    def test_memory_survives_changes_while_the_subgraph_waits(self, mind, change, depth):
        mind.run(nested(mind, depth), EMPTY)
        CHANGES[change](mind, nested(mind, depth))
        mind.reopen()
        graph = nested(mind, depth)
        mind.run(graph, None)
        while graph.get_state(AT).interrupts:
            mind.run(graph, resumed())
        assert {"learned 1", "answered 1"} <= {*checked_memory(mind)}
        assert mind.adapter.memory.admin.verify().ok

    def test_all_kinds_of_memory_are_kept(self, mind):
        def learn(state):
            memory, here = mind.adapter.memory, get_config()
            memory.layers(here).core.set("city", "Lisbon")
            memory.layers(here).archival.write("Ana lives in Lisbon.")
            memory.facts(here).add_fact("user", "Ana", "lives_in", "Lisbon")
            memory.thread_store.at(here).put(("notes",), "city", {"text": "Lisbon"})
            return EMPTY

        def ask(state):
            interrupt("?")

        graph = mind.graph(line(True, learn, ask, state=State))
        mind.run(graph, EMPTY)
        mind.run(graph, None, innermost(graph))
        mind.run(graph, resumed())
        memory = mind.adapter.memory
        assert memory.layers(AT).core.get() == {"city": "Lisbon"}
        assert [each.content for each in memory.layers(AT).archival.all()] == ["Ana lives in Lisbon."]
        assert [each.object for each in memory.facts(AT).latest()] == ["Lisbon"]
        assert memory.thread_store.at(AT).get(("notes",), "city").value == {"text": "Lisbon"}
