"""Subgraphs that keep their state (`compile(checkpointer=True)`), and runs that share one control.

The memory of such a subgraph is what its state says, whatever its thread did since it waits: so is that of the thread.
"""

import pytest
from langgraph.config import get_config
from langgraph.graph import START
from langgraph.runtime import RunControl, get_runtime
from langgraph.types import interrupt

from tests.support.graphs import at, beside, line

from .minds import AT, EMPTY, State, failing, resumed
from .oracle import state_of


def waiting(mind):
    """Return a graph that remembers something and waits, and keeps its state."""

    def ask(state):
        interrupt("?")
        return {"log": [mind.note("answered")]}

    return mind.graph(mind.noting("learned"), ask, inner=True, saves=True)


def nested(mind, depth, **others):
    """Return a graph with a subgraph that keeps its state, one or two levels deep."""
    inner = waiting(mind) if depth == 1 else beside(True, state=State, inner=waiting(mind))
    return beside(mind.adapter.saver, state=State, inner=inner, **others)


def innermost(graph):
    state = graph.get_state(AT, subgraphs=True)
    while state.tasks and state.tasks[0].state is not None:
        state = state.tasks[0].state
    return state.config


def agreed(mind):
    """Return what the newest checkpoint of a thread shows, after a look at all of them, those of subgraphs too."""
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


class TestSubgraphsThatKeepTheirState:
    @pytest.mark.parametrize("depth", [1, 2])
    @pytest.mark.parametrize("change", CHANGES)
    def test_one_loses_nothing_where_its_thread_is_changed_while_it_waits(self, mind, change, depth):
        mind.run(nested(mind, depth), EMPTY)
        CHANGES[change](mind, nested(mind, depth))
        mind.reopen()
        graph = nested(mind, depth)
        mind.run(graph, None)
        while graph.get_state(AT).interrupts:
            mind.run(graph, resumed())
        assert {"learned 1", "answered 1"} <= {*agreed(mind)}
        assert mind.adapter.memory.admin.verify().ok

    @pytest.mark.parametrize("depth", [1, 2])
    def test_one_loses_nothing_where_what_runs_beside_it_fails_and_its_thread_is_given_something_new(self, mind, depth):
        attempt = failing(1)

        def fails(state):
            log = [mind.note("tried")]
            attempt()
            return {"log": log}

        graph = nested(mind, depth, fails=fails)
        with pytest.raises(ConnectionError):
            mind.run(graph, EMPTY)
        mind.run(graph, EMPTY)
        mind.run(graph, resumed())
        held = agreed(mind)
        assert "tried 1" not in held
        assert {"tried 2", "answered 1"} <= {*held}

    def test_a_value_that_its_thread_has_set_since_its_last_turn_is_the_newer_one(self, mind):
        seen, towns = [], iter(["Lisbon", "Porto", "Faro"])

        def core():
            return mind.adapter.memory.layers(get_config()).core

        def outside(state):
            if state["log"]:
                core().set("city", next(towns))
            return EMPTY

        def inside(state):
            seen.append(core().get().get("city"))
            if not state["log"]:
                core().set("city", next(towns))
            return {"log": ["been here"]}

        graph = mind.graph(outside, mind.graph(inside, inner=True, saves=True))
        for _ in range(3):
            mind.run(graph, EMPTY)
        assert seen == [None, "Porto", "Faro"]
        assert mind.adapter.memory.layers(AT).core.get() == {"city": "Faro"}

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


class TestRunsThatShareAControl:
    @pytest.mark.parametrize("inside", [False, True])
    def test_one_that_goes_on_from_an_earlier_checkpoint_shows_nothing_of_the_others(self, mind, inside):
        """Also where a node runs them in another thread."""
        graph, there = mind.graph(mind.noting("said")), at("there")

        def runs(state):
            control = get_runtime().control if inside else RunControl()
            graph.invoke(EMPTY, there, control=None if inside else control)
            before = mind.adapter.saver.get_tuple(there).config
            for config in (there, before):
                graph.invoke(EMPTY, config, control=control)
            return {"log": [mind.note("called")] if inside else []}

        mind.run(mind.graph(runs), EMPTY) if inside else runs(EMPTY)
        assert mind.held(there) == ["said 1", "said 3"]
        assert mind.held() == ["called 1"] * inside

    def test_an_interrupt_that_is_answered_once_more_has_what_its_own_run_remembers(self, mind):
        graph, control = mind.graph(mind.noting("said", waits=True)), RunControl()
        mind.run(graph, EMPTY, control=control)
        waits = graph.get_state(AT).config
        mind.run(graph, resumed(), control=control)
        mind.run(graph, resumed("no"), waits, control=control)
        assert mind.ends() == [["said 3"], ["said 2"]]
        assert mind.held() == ["said 3"]
