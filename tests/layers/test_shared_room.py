"""Room in a memory that threads share: whoever needs it makes it, and each sums up what is its own."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph

from langchain_agentmem import LayersConfig

NS = ("users", "ada")
SMALL = LayersConfig(core_max_chars=100, recall_max_events=4)


class State(TypedDict):
    n: int


@pytest.fixture
def run(memory):
    """Runs a function in a node of a thread, and gives the graph."""

    def run(thread: str, act: Any):
        def node(state, config):
            act(memory.layers(config, settings=SMALL))
            return {"n": 1}

        built = StateGraph(State).add_node("node", node).add_edge(START, "node")
        graph = built.compile(checkpointer=memory.checkpointer)
        graph.invoke({"n": 0}, at(thread))
        return graph

    return run


def at(thread):
    return {"configurable": {"thread_id": thread, "agentmem_namespace": NS}}


def rewind(graph, thread):
    *_, first = graph.get_state_history(at(thread))
    graph.update_state(first.config, {"n": 0})


def test_two_threads_that_evict_the_same_archive_it_once(memory, run):
    memory.layers(namespace=NS).core.set("old", "o" * 50, importance=1)
    graphs = []

    def both(layers):
        layers.core.set("a", "a" * 50)  # which b does not see yet
        graphs.append(run("b", lambda layers: layers.core.set("b", "b" * 50)))

    scope = memory.layers(namespace=NS)
    graphs.append(run("a", both))
    assert [each.content for each in scope.archival.all() if "old" in each.content] == [
        f"Core evicted: old\n{'o' * 50}"
    ]
    assert "old" not in scope.core.get()
    rewind(graphs[0], "b")
    assert "old" not in scope.core.get()
    rewind(graphs[1], "a")
    assert scope.core.get() == {"old": "o" * 50}
    assert scope.archival.all() == []


def test_a_task_sums_up_its_own_events_and_main_all_that_count(memory, run):
    scope = memory.layers(namespace=NS, settings=SMALL)
    run("b", lambda layers: [layers.recall.append("note", f"of b {n}") for n in range(4)])
    run("a", lambda layers: [layers.recall.append("note", f"of a {n}") for n in range(4)])
    assert len(scope.recall.recent(limit=100)) == 8  # each thread has no more than it may
    run("c", lambda layers: layers.recall.summarize(keep=0))
    assert len(scope.recall.recent(limit=100)) == 8
    run("a", lambda layers: layers.recall.summarize(keep=0))
    assert {each.content for each in scope.recall.recent(limit=100)} == {f"of b {n}" for n in range(4)}
    scope.recall.summarize(keep=0)
    assert scope.recall.recent(limit=100) == []
    assert len(scope.archival.all()) == 2


def test_a_record_that_two_threads_wrote_stays_when_one_of_them_is_rewound(run, memory):
    ids = []
    graphs = [
        run(name, lambda layers, name=name: ids.append(layers.archival.write("Ada likes tea.", tags=[name])))
        for name in "ab"
    ]
    scope = memory.layers(namespace=NS).archival
    assert ids == [ids[0]] * 2
    assert [(each.id, each.tags) for each in scope.all()] == [(ids[0], ("a", "b"))]
    rewind(graphs[0], "a")
    assert [each.id for each in scope.all()] == ids[:1]
    rewind(graphs[1], "b")
    assert scope.all() == []
    assert memory.admin.verify().ok
