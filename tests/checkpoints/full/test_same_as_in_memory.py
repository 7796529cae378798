"""Whatever a graph does, states and histories are those that LangGraph's own saver in memory gives.

Random scripts (`scripts.py`) are followed by one graph (`scripted_graph.py`) on our saver and on `InMemorySaver`,
action by action (`scripted_sides.py`). After each, what LangGraph returned and the state that it left must be equal,
and at the end all that the savers hold, to the last id, type and order. `AGENTMEM_EXAMPLES=5000 pytest -o timeout=0`
runs so many scripts per engine. A script that fails is printed in the shortest form found in half a minute.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_agentmem import AgentMemorySaver
from tests.checkpoints.scripted_graph import take_over
from tests.checkpoints.scripted_sides import Different, both_follow
from tests.stores.scripts import printed, random_script, shortened

EXAMPLES = {"sqlite": 40, "postgres": 12}
PARTS = 2

Opened = Callable[[], AbstractContextManager[Any]]


class Serializer(JsonPlusSerializer):
    """The stock one gives a bytearray itself to be kept."""

    def dumps_typed(self, obj):
        kind, found = super().dumps_typed(obj)
        return kind, bytes(found)


class Memory(InMemorySaver):
    """The saver to compare with, as strict or permissive as ours. Copying a thread is what it lacks."""

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__(serde=Serializer(allowed_msgpack_modules=None) if strict else Serializer())

    def copy_thread(self, source_thread_id, target_thread_id):
        for space, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][space].update(checkpoints)
        for kept in (self.writes, self.blobs):
            for key in [key for key in kept if key[0] == source_thread_id]:
                kept[target_thread_id, *key[1:]] = copy.copy(kept[key])

    async def acopy_thread(self, source_thread_id, target_thread_id):
        self.copy_thread(source_thread_id, target_thread_id)


def check(seeds: Iterable[int], ours: Opened, *, strict: bool) -> None:
    for seed in seeds:
        script = random_script(seed)
        if found := difference(script, ours, strict=strict):
            short = shortened(script, lambda shorter: bool(difference(shorter, ours, strict=strict)), 30)
            found = difference(short, ours, strict=strict) or f"{found}\nnow and then; last seen with this script"
            pytest.fail(f"script {seed}, {found}\n{printed(short)}", pytrace=False)


def difference(script: dict[str, Any], ours: Opened, *, strict: bool = False) -> str:
    try:
        both_follow(script, ours, partial(nullcontext, Memory(strict=strict)))
    except Different as found:
        return str(found)
    return ""


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch):
    take_over(monkeypatch)


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", EXAMPLES)
def test_states_and_histories_are_those_of_the_saver_in_memory(kind, part, new_database):
    examples = int(os.environ.get("AGENTMEM_EXAMPLES", "0")) or EXAMPLES[kind]
    strict = part == 1  # of either sort of reading, half of the scripts
    ours = partial(AgentMemorySaver.from_conn_string, new_database(kind), strict=strict)
    check(range(part, examples, PARTS), ours, strict=strict)


# Savers that are wrong, each in its own way, to show that the scripts would tell.


class Wrong(Memory):
    """Wrong in what it stores of a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Any, Any] = {}

    def put(self, config, checkpoint, metadata, new_versions):
        space = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        values = {name: self.stored((*space, name), each) for name, each in checkpoint["channel_values"].items()}
        return super().put(config, {**checkpoint, "channel_values": values}, metadata, new_versions)

    def stored(self, key: tuple[str, str, str], given: Any) -> Any:
        raise NotImplementedError

    def once(self, key: Any, given: Any) -> Any:
        """What was given when the key was new."""
        if key not in self.known:
            self.known[key] = self.serde.loads_typed(self.serde.dumps_typed(given)), given
        return self.known[key][0]


class KnowsObjects(Wrong):
    def stored(self, key, given):
        return self.once((key, id(given)), given) if key[2] in ("box", "twin") else given


class KnowsRows(Wrong):
    def stored(self, key, given):
        return {name: self.once((key, id(each)), each) for name, each in given.items()} if key[2] == "table" else given


class KnowsMessagesByIdentity(Wrong):
    def stored(self, key, given):
        return [self.once(id(each), each) for each in given] if key[2] == "messages" else given


class KnowsMessagesById(Wrong):
    def stored(self, key, given):
        return [self.once((key, each.id), each) for each in given] if key[2] == "messages" else given


class KnowsListsByLengthAndEnd(Wrong):
    def stored(self, key, given):
        return self.once((key, len(given), repr(given[-1:])), given) if key[2] == "notes" else given


class TakesEqualForSame(Wrong):
    def stored(self, key, given):
        if isinstance(given, list) and key[2] == "notes":
            return [self.stored(key, each) for each in given]
        return self.once((key, given), given) if isinstance(given, int | float) else given


class OnlyAppends(Wrong):
    def stored(self, key, given):
        if key[2] != "messages":
            return given
        messages = self.known.setdefault(key, {})
        messages |= {each.id: self.serde.loads_typed(self.serde.dumps_typed(each)) for each in given}
        return list(messages.values())


class OnlyAddsKeys(Wrong):
    def stored(self, key, given):
        if key[2] == "table":
            given = self.known[key] = {**self.known.get(key, {}), **given}
        return given


class SortsKeys(Wrong):
    def stored(self, key, given):
        return dict(sorted(given.items())) if key[2] == "table" else given


class GivesAwayWhatItKeeps(Wrong):
    def stored(self, key, given):
        return given

    def get_tuple(self, config):
        found = super().get_tuple(config)
        if found is None:
            return None
        place = config["configurable"]["thread_id"], found.checkpoint["id"], len(found.pending_writes)
        return self.known.setdefault(place, found)._replace(config=found.config)


class TrustsItsHead(Memory):
    """One of two on one database, each sure that nobody else writes."""

    def __init__(self, shared: Memory) -> None:
        super().__init__()
        self.storage, self.writes, self.blobs, self.heads = shared.storage, shared.writes, shared.blobs, {}

    def get_tuple(self, config):
        place = config["configurable"]
        space = {"thread_id": place["thread_id"], "checkpoint_ns": place.get("checkpoint_ns", "")}
        head = self.heads.get(tuple(space.values()))
        if head is None or place.get("checkpoint_id"):
            return super().get_tuple(config)
        return super().get_tuple({"configurable": {**space, "checkpoint_id": head}}) or super().get_tuple(config)

    def put(self, config, checkpoint, metadata, new_versions):
        self.heads[config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]] = checkpoint["id"]
        return super().put(config, checkpoint, metadata, new_versions)


class ReversesWrites(Memory):
    def _ordered_writes(self, thread_id, checkpoint_ns, checkpoint_id):
        return super()._ordered_writes(thread_id, checkpoint_ns, checkpoint_id)[::-1]


class KeepsTheLastWrites(Memory):
    def put_writes(self, config, writes, task_id, task_path=""):
        place = config["configurable"]
        kept = self.writes[place["thread_id"], place.get("checkpoint_ns", ""), place["checkpoint_id"]]
        for key in [key for key in kept if key[0] == task_id]:
            del kept[key]
        super().put_writes(config, writes, task_id, task_path)


class PutsAfterTheNewest(Memory):
    def put(self, config, checkpoint, metadata, new_versions):
        place = config["configurable"]
        newest = max(self.storage[place["thread_id"]][place["checkpoint_ns"]], default=None)
        config = {**config, "configurable": {**place, "checkpoint_id": place.get("checkpoint_id") and newest}}
        return super().put(config, checkpoint, metadata, new_versions)


OTHERS = [TrustsItsHead, ReversesWrites, KeepsTheLastWrites, PutsAfterTheNewest]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*Wrong.__subclasses__(), *OTHERS])
def test_a_saver_that_is_wrong_is_found_out(kind):
    shared = Memory()
    wrong = partial(nullcontext, kind()) if kind is not TrustsItsHead else lambda: nullcontext(kind(shared))
    assert any(difference(random_script(seed), wrong) for seed in range(EXAMPLES["sqlite"]))
