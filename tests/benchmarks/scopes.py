"""What it costs that threads share what they remember. Ratios of one run count.

    python tests/benchmarks/scopes.py [--threads 10000] [--scopes 100000] [--url postgresql://…] [--puts]

- reads: core memory, the newest 10 events and a search for a rare word, of a scope of 10 threads and of one of
  `--threads`, each of which wrote the same three keys of core memory, an event and a record: from outside, and as a
  thread sees it.
- beside: the same of the large scope before and after `--scopes` other scopes came into the database.
- puts, alone with `--puts`: a turn of a graph that remembers five things, in a scope and outside of one. To compare
  with an older version, run this there too: it uses nothing newer.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from places import compared, given_options, medians

from langchain_agentmem import AgentMemory
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition
from langchain_agentmem.rewinding.memory_rows import VersionDraft
from langchain_agentmem.search.search_index import DocumentSeries
from langchain_agentmem.storage import Transaction

FEW = 10
NEWEST = 10
ROUNDS = 100
PUTS = 300
BATCH = 500
SMALL, LARGE = ("users", "few threads"), ("users", "many threads")


class State(TypedDict):
    n: int


def config(thread: str, namespace: tuple[str, ...] = ()) -> Any:
    named = {"agentmem_namespace": namespace} if namespace else {}
    return {"configurable": {"thread_id": thread, **named}}


def graph_of(memory: AgentMemory) -> Any:
    """A graph of one node that remembers five things."""

    def node(state: State, config: RunnableConfig) -> State:
        layers, n = memory.layers(config), state["n"]
        layers.write(core={"city": f"city {n}", "name": f"name {n}", "pet": f"pet {n}"})
        layers.recall.append("note", f"heron{n} was seen at the pond")
        layers.archival.write(f"heron{n} lives at the pond")
        return {"n": n}

    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=memory.checkpointer)


def reads(memory: AgentMemory, namespace: tuple[str, ...]) -> dict[str, Callable[[], object]]:
    """What is read of a scope, by what it is called."""
    outside, thread = memory.layers(namespace=namespace), memory.layers(config("t 5", namespace))
    return {
        "core memory, from outside": outside.core.get,
        "core memory, as a thread sees it": thread.core.get,
        "the newest events, from outside": partial(outside.recall.recent, NEWEST),
        "the newest events, as a thread sees them": partial(thread.recall.recent, NEWEST),
        "a search": partial(memory.search, "heron7", namespace=namespace, limit=10),
    }


def others(memory: AgentMemory, count: int) -> None:
    """Scopes of which each holds something under the same keys."""
    database = memory.database

    def written(tx: Transaction, first: int, many: int) -> None:
        for number in range(first, first + many):
            point = BranchPosition(f"users\x1fother {number}\x1f", "main", database.scopes)
            _, place = point.open_for_write(tx, database.now())
            drafts = [VersionDraft("core", key, b"there", 0) for key in ("city", "name", "pet")]
            drafts += [VersionDraft("event", database.new_id(), b"it happened", 0, label="note") for _ in range(2)]
            series = DocumentSeries(point.path, "event", "main")
            memory_rows.write(tx, place, drafts, series=series, now=database.now())

    for first in range(0, count, BATCH):
        database.engine.write(partial(written, first=first, many=min(BATCH, count - first)))


def measure_reads(memory: AgentMemory, threads: int, scopes: int) -> None:
    graph = graph_of(memory)
    for namespace, many in ((SMALL, FEW), (LARGE, threads)):
        began = time.perf_counter()
        for number in range(many):
            graph.invoke({"n": number}, config(f"t {number}", namespace))
        print(f"{many:,} threads took {time.perf_counter() - began:.0f} s", flush=True)
    few, many_threads = reads(memory, SMALL), reads(memory, LARGE)
    print(f"a scope of {FEW} threads and one of {threads:,}")
    before = {}
    for name, act in few.items():
        one, other = medians([act, many_threads[name]], ROUNDS)
        before[name] = other
        compared(name, one, other)
    began = time.perf_counter()
    others(memory, scopes)
    print(
        f"{scopes:,} other scopes took {time.perf_counter() - began:.0f} s; that of {threads:,} before and after",
        flush=True,
    )
    for name, act in many_threads.items():
        [after] = medians([act], ROUNDS)
        compared(name, before[name], after)


def measure_puts(memory: AgentMemory) -> None:
    graph = graph_of(memory)
    for number in range(20):
        graph.invoke({"n": number}, config("warm", SMALL))
    numbers = iter(range(1_000_000))
    acts = [
        lambda: graph.invoke({"n": next(numbers)}, config("alone")),
        lambda: graph.invoke({"n": next(numbers)}, config("in a scope", SMALL)),
    ]
    took: dict[str, list[float]] = {"alone": [], "in a scope": []}
    put = memory.checkpointer.put

    def timed(given: Any, *rest: Any) -> Any:
        began = time.perf_counter()
        stored = put(given, *rest)
        if rest[1]["source"] == "loop" and rest[1]["step"] % 3 == 1:  # which seals what the node remembered
            took[given["configurable"]["thread_id"]].append((time.perf_counter() - began) * 1e6)
        return stored

    memory.checkpointer.put = timed  # type: ignore[method-assign]
    one, other = medians(acts, PUTS)
    compared("a turn that remembers, alone and in a scope", one, other)
    compared("its put that seals five things", *(statistics.median(times) for times in took.values()))


def main() -> None:
    given = given_options(__doc__, "puts", threads=10_000, scopes=100_000, url=None)
    with tempfile.TemporaryDirectory() as folder, AgentMemory(given.url or Path(folder) / "scopes.db") as memory:
        if not given.puts:
            measure_reads(memory, given.threads, given.scopes)
        measure_puts(memory)


if __name__ == "__main__":
    main()
