"""Core budget and recall window in memory that several threads share."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_agentmem import LayersConfig
from tests.support.graphs import at, turn

NS = ("users", "ada")
SMALL = LayersConfig(core_max_chars=100, recall_max_events=4)


@pytest.fixture
def run(memory):
    """Return a function that runs `act` in a node of a thread and returns what rewinds the thread."""

    def run(thread: str, act: Any):
        config = at(thread, namespace=NS)
        return turn(memory.checkpointer, config, lambda config: act(memory.layers(config, settings=SMALL)))

    return run


def test_two_threads_evicting_one_key_archive_it_once(memory, run):
    memory.layers(namespace=NS).core.set("old", "o" * 50, importance=1)
    rewind = []

    def both(layers):
        layers.core.set("a", "a" * 50)  # which b does not see yet
        rewind.append(run("b", lambda layers: layers.core.set("b", "b" * 50)))

    scope = memory.layers(namespace=NS)
    rewind.append(run("a", both))
    assert [each.content for each in scope.archival.all() if "old" in each.content] == [
        f"Core evicted: old\n{'o' * 50}"
    ]
    assert "old" not in scope.core.get()
    rewind[0]()
    assert "old" not in scope.core.get()
    rewind[1]()
    assert scope.core.get() == {"old": "o" * 50}
    assert scope.archival.all() == []


def test_a_task_summarizes_only_its_threads_events(memory, run):
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


def test_a_shared_record_survives_rewinding_one_thread(run, memory):
    ids = []
    rewind = [
        run(name, lambda layers, name=name: ids.append(layers.archival.write("Ada likes tea.", tags=[name])))
        for name in "ab"
    ]
    scope = memory.layers(namespace=NS).archival
    assert ids == [ids[0]] * 2
    assert [(each.id, each.tags) for each in scope.all()] == [(ids[0], ("a", "b"))]
    rewind[0]()
    assert [each.id for each in scope.all()] == ids[:1]
    rewind[1]()
    assert scope.all() == []
    assert memory.admin.verify().ok
