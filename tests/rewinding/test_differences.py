"""What tells the memories of two checkpoints apart is read from what lies between, and is what reading both says."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.rewinding import memory_rows
from tests.support.graphs import at, line

WHOSE = ("users", "ada")
THREADS = ("one", "two")


config = partial(at, namespace=WHOSE)


def remembering(memory, chance: random.Random):
    """A graph each turn of which writes, changes, deletes and lets expire what a few random numbers say."""

    def remember(state, config):
        layers, number = memory.layers(config), len(state["messages"])
        key = f"key{chance.randrange(3)}"
        match chance.randrange(7):
            case 0:
                layers.core.set(key, f"value {number}", ttl=chance.random() / 4)
            case 1:
                layers.core.set(key, f"value {number}")
            case 2:
                layers.core.delete(key)
            case 3:
                layers.recall.append("asked", f"event {number}")
            case 4:
                layers.archival.write(f"record {number}")
            case 5:
                for record in layers.archival.all(limit=1):
                    layers.archival.delete(record.id)
            case 6:
                memory.facts(config).add_fact("user", "Ana", "likes", f"thing {chance.randrange(2)}")
        return {"messages": [("ai", f"answer {number}")]}

    return line(memory.checkpointer, remember)


@pytest.fixture
def memory(url):
    """One whose clock is the machine's, since that is what the ids of checkpoints tell."""
    with AgentMemory(url) as memory:
        yield memory


def whole(*_):
    """Has a memory read all of both, as if nothing were known of what lies between."""
    return None
    yield


@pytest.mark.parametrize("seed", range(2))
def test_any_two_checkpoints_differ_as_their_memories_do(memory, monkeypatch, seed):
    chance = random.Random(seed)
    graph, saver = remembering(memory, chance), memory.checkpointer
    for turn in range(16):
        thread = chance.choice(THREADS)
        past = saver.history(config(thread)).checkpoints
        at = {"checkpoint_id": chance.choice(past).checkpoint_id} if past and chance.random() < 0.4 else {}
        graph.invoke({"messages": [("user", f"question {turn}")]}, config(thread, **at))
        if chance.random() < 0.3:
            memory.layers(namespace=WHOSE).core.set("key1", f"main {turn}")
    for thread in THREADS:
        points = [None, *(each.checkpoint_id for each in saver.history(config(thread)).checkpoints[::2])]
        views = [memory.layers(config(thread, **({"checkpoint_id": each} if each else {}))) for each in points]
        pairs = list(itertools.permutations(views, 2))
        quick = [one.diff(other) for one, other in pairs]
        with monkeypatch.context() as patch:
            patch.setattr(memory_rows, "keys_apart", whole)
            assert quick == [one.diff(other) for one, other in pairs]
        assert any(quick)


def test_of_a_step_only_what_it_wrote_is_read(memory, monkeypatch):
    graph, saver = remembering(memory, random.Random(1)), memory.checkpointer
    for turn in range(12):
        graph.invoke({"messages": [("user", f"question {turn}")]}, config("one"))
    mine, before = (
        memory.layers(config("one", checkpoint_id=each.checkpoint_id))
        for each in saver.history(config("one"), limit=2).checkpoints
    )
    read, current = [], memory_rows.named

    def named(view, kind, keys):
        read.extend(keys)
        return current(view, kind, keys)

    monkeypatch.setattr(memory_rows, "named", named)
    monkeypatch.setattr(memory_rows, "current", None)
    mine.diff(before)
    assert len(set(read)) <= 1
