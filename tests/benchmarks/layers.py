"""What layered memory costs as it grows: forks, depth and old versions. Ratios of one run count.

    python tests/benchmarks/layers.py [--rows 1000000] [--url postgresql://…]

- fork: the median time of a fork of a branch with 10 events, and of one with `--rows` events.
- levels: reading core memory of 100 keys that were set on one branch, and on 100 branches that were forked one from
  the other, a key on each; and appending an event there.
- reads: the newest 20 events, all events, the newest 20 records and core memory, of one branch on which 300 of each
  were written, and through 300 branches forked one from the other, with one of each.
- versions: reading core memory of 20 keys that were set once, and of 20 keys of which 1,000 old versions are still
  there because a fork shows each of them; and the same at a fork in the middle.
- steps: a whole call of a graph whose one node does nothing, and of one whose node writes core memory twice, appends an
  event and reads core memory twice, with a checkpoint after each step ("sync") and with one at the end ("exit").
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from places import compared, given_options, medians

from langchain_agentmem import AgentMemory
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition
from langchain_agentmem.rewinding.memory_rows import VersionDraft
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.storage import Transaction

FEW = 10
LEVELS = 100
FORKS = 300
NEWEST = 20
KEYS = 20
VERSIONS = 1_000
ROUNDS = 200
TURNS = 10  # of a conversation
BATCH = 10_000
SETTINGS = LayersConfig(recall_max_events=1_000_000, core_max_chars=100_000)


def measured(name: str, small: Callable[[], object], large: Callable[[], object]) -> None:
    """Print what each takes: the median of calls that take turns, so that both see the same machine."""
    compared(name, *medians([small, large], ROUNDS))


def filled(memory: AgentMemory, name: str, count: int) -> LayeredMemory:
    """A branch with so many events. They are not indexed; a fork does not look at the index."""
    database, point = memory.database, BranchPosition("", name)

    def written(tx: Transaction, many: int) -> None:
        _, place = point.open_for_write(tx, database.now())
        drafts = [VersionDraft("event", database.new_id(), b"it happened", 0, label="note") for _ in range(many)]
        memory_rows.write(tx, place, drafts, series=DocumentSeries("", "event", name), now=database.now())

    for begin in range(0, count, BATCH):
        database.engine.write(partial(written, many=min(BATCH, count - begin)))
    return LayeredMemory(memory, name, settings=SETTINGS)


def forks(memory: AgentMemory, count: int) -> None:
    few, many = filled(memory, "few", FEW), filled(memory, "many", count)
    names = iter(range(10**9))
    for layers in (few, many):
        layers.fork(f"warm {next(names)}")
    fork = [lambda layers=layers: layers.fork(f"fork {next(names)}") for layers in (few, many)]
    measured(f"fork of {FEW} and of {count:,} rows", *fork)


def levels(memory: AgentMemory) -> None:
    flat = LayeredMemory(memory, "flat", settings=SETTINGS)
    deep = LayeredMemory(memory, "deep", settings=SETTINGS)
    for number in range(LEVELS):
        flat.core.set(f"key {number}", "value")
        deep.core.set(f"key {number}", "value")
        if number < LEVELS - 1:
            deep = deep.fork(f"deep {number}")
    assert len(flat.core.get()) == len(deep.core.get()) == len(deep.ancestors()) == LEVELS
    measured(f"core through 1 and {LEVELS} levels", flat.core.get, deep.core.get)
    measured(
        f"an event appended at 1 and {LEVELS} levels",
        lambda: flat.recall.append("note", "it happened"),
        lambda: deep.recall.append("note", "it happened"),
    )


def reads(memory: AgentMemory) -> None:
    straight = LayeredMemory(memory, "straight", settings=SETTINGS)
    forked = LayeredMemory(memory, "forked", settings=SETTINGS)
    for number in range(FORKS):
        if number:
            forked = forked.fork(f"forked {number}")
        for layers in (straight, forked):
            layers.core.set(f"key {number}", "value")
            layers.recall.append("note", f"it happened {number}")
            layers.archival.write(f"It is known {number}.")
    assert len(forked.ancestors()) == FORKS
    assert [each.content for each in straight.recall.recent(limit=NEWEST)] == [
        each.content for each in forked.recall.recent(limit=NEWEST)
    ]
    for name, read in {
        f"the newest {NEWEST} events": lambda layers: layers.recall.recent(limit=NEWEST),
        "all events": lambda layers: layers.recall.recent(limit=None),
        f"the newest {NEWEST} records": lambda layers: layers.archival.all(limit=NEWEST),
        "core": lambda layers: layers.core.get(),
    }.items():
        measured(f"{name} through 1 and {FORKS} levels", partial(read, straight), partial(read, forked))


def versions(memory: AgentMemory) -> None:
    new = LayeredMemory(memory, "new", settings=SETTINGS)
    old = LayeredMemory(memory, "old", settings=SETTINGS)
    for number in range(KEYS):
        new.core.set(f"key {number}", "value")
        old.core.set(f"key {number}", "value")
    for number in range(VERSIONS):
        fork = old.fork(f"holds {number}")
        old.core.set(f"key {number % KEYS}", f"value {number}")
        if number == VERSIONS // 2:
            middle = fork
    measured(f"{KEYS} keys with 0 and {VERSIONS:,} old versions", new.core.get, old.core.get)
    measured("the same at a fork in the middle", new.fork("child of new").core.get, middle.core.get)


class Counted(TypedDict):
    number: int


def steps(memory: AgentMemory) -> None:
    def idle(state: Counted) -> Counted:
        return {"number": state["number"] + 1}

    def remembering(state: Counted, config: RunnableConfig) -> Counted:
        layers, number = memory.layers(config), state["number"]
        layers.core.set("name", f"Ada {number}")
        layers.core.get()
        layers.recall.append("note", f"it happened for the {number}th time")
        layers.core.set("city", f"Paris {number}")
        assert layers.core.get("name") == {"name": f"Ada {number}"}
        return {"number": number + 1}

    def calls(node: Any, durability: Literal["sync", "exit"]) -> Callable[[], object]:
        builder, turns = StateGraph(Counted).add_node("node", node).add_edge(START, "node"), iter(range(10**9))
        graph = builder.compile(checkpointer=memory.checkpointer)

        def call() -> object:
            turn = next(turns)
            thread: RunnableConfig = {"configurable": {"thread_id": f"{node.__name__} {durability} {turn // TURNS}"}}
            return graph.invoke({"number": turn}, thread, durability=durability)

        return call

    for durability in ("sync", "exit"):
        measured(
            f'a step, and one that remembers ("{durability}")', calls(idle, durability), calls(remembering, durability)
        )


def main() -> None:
    given = given_options(__doc__, rows=1_000_000, url=None)
    with tempfile.TemporaryDirectory() as folder, AgentMemory(given.url or Path(folder) / "layers.db") as memory:
        levels(memory)
        reads(memory)
        versions(memory)
        steps(memory)
        forks(memory, given.rows)


if __name__ == "__main__":
    main()
