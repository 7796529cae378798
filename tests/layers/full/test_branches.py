"""Branches in long lines, under concurrency, and compared with a model that copies on every fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from random import Random

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from tests.layers.made import contents

pytestmark = pytest.mark.sqlite_suffices


SETTINGS = LayersConfig(recall_max_events=100)


def test_reads_work_across_a_hundred_fork_levels(main):
    layers = main
    for level in range(100):
        layers.core.set(f"k{level}", str(level))
        layers = layers.fork(f"level {level}")
    assert len(layers.core.get()) == 100
    assert len(layers.ancestors()) == 101


class TestConcurrency:
    def test_a_fork_during_writes_is_a_consistent_snapshot(self, main):
        """Core holds two keys that are always written together; no fork may see one without the other."""
        main.write(core={"a": "0", "b": "0"})

        def write() -> None:
            for number in range(30):
                main.write(core={"a": str(number), "b": str(number)})

        with ThreadPoolExecutor() as pool:
            writing, forks = pool.submit(write), []
            while not writing.done() or not forks:
                forks.append(main.fork(f"fork {len(forks)}"))
            writing.result()
        seen = [fork.core.get() for fork in forks]
        assert all(each["a"] == each["b"] for each in seen)
        assert [int(each["a"]) for each in seen] == sorted(int(each["a"]) for each in seen)

    def test_concurrent_creation_of_a_branch_loses_no_events(self, url):
        barrier = threading.Barrier(4)

        def write(name: str) -> None:
            with AgentMemory(url) as memory:
                layers = LayeredMemory(memory, "main", settings=SETTINGS)
                barrier.wait()
                for number in range(10):
                    layers.recall.append(name, str(number))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, "abcd"))
        with AgentMemory(url) as memory:
            recall = LayeredMemory(memory, "main").recall
            for name in "abcd":
                assert contents(recall.recent(None, kind=name)) == [str(number) for number in range(10)]


class Model:
    """Reference model of layered memory, in which every fork copies everything."""

    def __init__(self) -> None:
        self.core: dict[str, tuple[str, int]] = {}
        self.events: dict[str, str] = {}
        self.records: dict[str, tuple[str, tuple[str, ...]]] = {}


def act(random: Random, branches: dict[str, Model], at: Callable[[str], LayeredMemory]) -> None:
    """Apply one random operation to the model and to the layered memory."""
    name = random.choice(list(branches))
    model, layers = branches[name], at(name)
    match random.randrange(10):
        case 0:
            child = f"branch {len(branches)}"
            layers.fork(child)
            branches[child] = deepcopy(model)
        case 1 | 2 | 3:
            key, value, importance = random.choice("abcde"), str(random.random()), random.randint(1, 5)
            layers.core.set(key, value, importance)
            model.core[key] = value, importance
        case 4:
            key = random.choice("abcde")
            assert layers.core.delete(key) == (model.core.pop(key, None) is not None)
        case 5 | 6:
            content = f"event {random.random()}"
            model.events[layers.recall.append("k", content)] = content
        case 7:
            ids = random.sample(sorted(model.events), min(2, len(model.events)))
            archived = layers.recall.evict(ids=[*ids, "nobody"])
            assert archived == len(ids)
            for each in ids:
                content = model.events.pop(each)
                [record] = layers.archival.all(tags=[f"event:{each}"])
                assert content in record.content
                model.records[record.id] = record.content, record.tags
        case 8:
            content = f"record {random.random()}"
            model.records[layers.archival.write(content, tags=["t"])] = content, ("t",)
        case 9 if model.records:
            record_id = random.choice(sorted(model.records))
            if random.random() < 0.5:
                assert layers.archival.update(record_id, tags=["u"]) is True
                model.records[record_id] = model.records[record_id][0], ("u",)
            else:
                assert layers.archival.delete(record_id) is True
                del model.records[record_id]


@pytest.mark.parametrize("seed", range(8))
def test_random_operations_match_a_copying_model(memory, seed, raw):
    random = Random(seed)
    branches = {"main": Model()}

    def at(name: str) -> LayeredMemory:
        return LayeredMemory(memory, name, settings=SETTINGS)

    for _ in range(60):
        act(random, branches, at)
    for name, model in branches.items():
        layers = at(name)
        assert {each.key: (each.value, each.importance) for each in layers.core.entries()} == model.core
        assert {each.id: each.content for each in layers.recall.recent(None)} == model.events
        assert {each.id: (each.content, each.tags) for each in layers.archival.all()} == model.records
        assert {each.id for each in layers.archival.search("record event", limit=100)} == set(model.records)
        assert {each.id for each in layers.recall.search("event", limit=100)} == set(model.events)
    # Nothing is kept that nobody shows, and no search finds what is not kept.
    assert memory.admin.verify().problems == ()
    orphans = "select id from content where id not in (select content_id from memory where content_id is not null)"
    assert raw(memory, orphans) == []


def test_limits_return_the_newest_across_deep_forks(memory):
    layers = memory.layers("branch 0")
    for number in range(8):
        layers.recall.append(f"kind {number % 2}", f"event {number}")
        layers.archival.write(f"record {number}")
        layers = layers.fork(f"branch {number + 1}")
    assert contents(layers.recall.recent(3)) == ["event 5", "event 6", "event 7"]
    assert contents(layers.recall.recent(3, kind="kind 1")) == ["event 3", "event 5", "event 7"]
    assert contents(layers.archival.all(limit=3)) == ["record 5", "record 6", "record 7"]
