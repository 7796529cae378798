"""What tells the memories of two checkpoints apart is read from what lies between, and is what reading both says."""

from __future__ import annotations

import contextlib
import itertools
import random
from datetime import UTC, datetime
from functools import partial

import pytest
from langgraph.checkpoint.base.id import uuid6

from langchain_agentmem.base.clock import micros
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.sealing import time_of
from tests.support.graphs import at, line

from .diary import Diary

WHOSE = ("users", "ada")
THREADS = ("one", "two")


config = partial(at, namespace=WHOSE)


@pytest.fixture
def diary(url):
    """One whose clock is the machine's, since that is what the ids of checkpoints tell."""
    with contextlib.closing(Diary(url, "apple")) as diary:
        yield diary


def remembering(diary, chance: random.Random):
    """A graph each turn of which does with its memory what a random number says."""

    def remember(state, config):
        if chance.random() < 0.15:
            diary.memory.facts(config).add_fact("user", "Ana", "likes", f"thing {chance.randrange(2)}")
        else:
            diary.remember(config, str(chance.random()))
        return {"messages": [("ai", "done")]}

    return line(diary.saver, remember)


def whole(*_):
    """Has a memory read all of both, as if nothing were known of what lies between."""


@pytest.mark.parametrize("seed", range(2))
def test_any_two_checkpoints_differ_as_their_memories_do(diary, monkeypatch, seed):
    chance, memory, saver = random.Random(seed), diary.memory, diary.saver
    graph = remembering(diary, chance)
    for turn in range(16):
        thread = chance.choice(THREADS)
        past = saver.history(config(thread)).checkpoints
        at = {"checkpoint_id": chance.choice(past).checkpoint_id} if past and chance.random() < 0.4 else {}
        graph.invoke({"messages": [("user", f"question {turn}")]}, config(thread, **at))
        if chance.random() < 0.3:
            memory.layers(namespace=WHOSE).core.set("key1", f"main {turn}")
    now = memory.database.clock()
    monkeypatch.setattr(memory.database, "clock", lambda: now)  # nothing ends between the one way and the other
    for thread in THREADS:
        points = [None, *(each.checkpoint_id for each in saver.history(config(thread)).checkpoints[::2])]
        views = [memory.layers(config(thread, **({"checkpoint_id": each} if each else {}))) for each in points]
        pairs = list(itertools.permutations(views, 2))
        quick = [one.diff(other) for one, other in pairs]
        with monkeypatch.context() as patch:
            patch.setattr(memory_rows, "keys_apart", whole)
            assert quick == [one.diff(other) for one, other in pairs]
        assert any(quick)


def test_of_a_step_only_what_it_wrote_is_read(diary, monkeypatch):
    def remember(state, config):
        diary.memory.layers(config).core.set(f"key {len(state['messages'])}", "value")

    graph = line(diary.saver, remember)
    for turn in range(12):
        graph.invoke({"messages": [("user", f"question {turn}")]}, config("one"))
    mine, before = (
        diary.memory.layers(config("one", checkpoint_id=each.checkpoint_id))
        for each in diary.saver.history(config("one"), limit=2).checkpoints
    )
    read, current = [], memory_rows.named

    def named(tx, view, kind, keys):
        read.extend(keys)
        return current(tx, view, kind, keys)

    monkeypatch.setattr(memory_rows, "named", named)
    monkeypatch.setattr(memory_rows, "current", None)
    mine.diff(before)
    assert len(set(read)) == 1


def test_the_id_of_a_checkpoint_holds_its_time_to_the_microsecond_unless_somebody_else_made_it():
    """By the example of RFC 9562, and one a microsecond later."""
    made = micros(datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC))
    assert time_of("1ec9414c-232a-6b00-b3c8-9f6bdeced846") == made
    assert time_of("1ec9414c-232a-6b0a-b3c8-9f6bdeced846") == made + 1
    assert time_of(str(uuid6())) > made
    for other in ("5b2c1b0e-8f0e-4e63-9d5c-0c2a8a1f6f11", "c8a2f6d2-c74c-11f0-9b3e-0242ac120002", "a checkpoint", ""):
        assert time_of(other) == 0, other
