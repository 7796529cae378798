"""Long-term items: this package against LangGraph's SqliteStore and InMemoryStore, in one run.

    python tests/benchmarks/stores.py [--items 2000] [--postgres URL] [--cpu]

Needs the extra `[bench]`. Every contender does the same to an empty database in a temporary folder. Ours is indexed for
search by words; SqliteStore has no index here, since its vectors need loadable extensions, and InMemoryStore keeps
nothing. `--postgres` names an empty database, to measure that too. What counts are the ratios: machines differ and are
noisy. With `--cpu` the processor's time is measured, for a machine that others use too.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph.store.memory import InMemoryStore
from places import given_options

from langchain_agentmem import AgentMemory, AgentMemoryStore

ROUNDS = 5
BATCH = 100
NS = ("users", "ana", "memories")
SENTENCE = "memory number {} about the garden, the little dog that runs there all day, and what we ate on Sunday"

Opened = Callable[[Path], AbstractContextManager[BaseStore]]


def ours(folder: Path, **options: Any) -> AbstractContextManager[BaseStore]:
    return AgentMemoryStore.from_conn_string(folder / "ours.db", **options)


@contextmanager
def stock(folder: Path) -> Iterator[BaseStore]:
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(str(folder / "stock.db")) as store:
        store.setup()
        yield store


def postgres(url: str) -> Opened:
    @contextmanager
    def opened(folder: Path) -> Iterator[BaseStore]:
        del folder
        with AgentMemory(url) as memory:
            memory.erase(namespace=())
            yield memory.store

    return opened


def value(number: int) -> dict[str, Any]:
    return {"text": SENTENCE.format(number), "kind": f"kind{number % 50}", "stars": number % 5, "n": number}


def rates(store: BaseStore, count: int, clock: Callable[[], float]) -> dict[str, float]:
    """Operations a second, by what was done."""
    batches = range(0, count, BATCH)
    found: dict[str, float] = {}

    def timed(name: str, operations: int, work: Callable[[], object]) -> None:
        gc.collect()
        began = clock()
        work()
        found[name] = operations / (clock() - began)

    store.put(NS, "first", value(0))
    singles = max(100, count // 4)
    timed("put", singles, lambda: [store.put(NS, f"one{n}", value(n)) for n in range(singles)])
    timed(
        "batch put of 100",
        count,
        lambda: [store.batch([PutOp(NS, f"k{n}", value(n)) for n in range(at, at + BATCH)]) for at in batches],
    )
    timed("update", singles, lambda: [store.put(NS, f"one{n}", value(n + 1)) for n in range(singles)])
    timed("get", count, lambda: [store.get(NS, f"k{n}") for n in range(count)])
    timed(
        "batch get of 100",
        count,
        lambda: [store.batch([GetOp(NS, f"k{n}") for n in range(at, at + BATCH)]) for at in batches],
    )
    timed("search, newest 10", 200, lambda: [store.search(NS, limit=10) for _ in range(200)])
    timed("search, 10 by prefix", 200, lambda: [store.search(NS[:1], limit=10, offset=20) for _ in range(200)])
    one_in_50, nothing = {"kind": "kind7"}, {"kind": "none"}
    timed("filter, 10 of 1 in 50", 50, lambda: [store.search(NS, filter=one_in_50, limit=10) for _ in range(50)])
    timed("filter, nothing fits", 10, lambda: [store.search(NS, filter=nothing, limit=10) for _ in range(10)])
    timed("list namespaces", 200, lambda: [store.list_namespaces() for _ in range(200)])
    return found


def main() -> None:
    arguments = given_options(__doc__, "cpu", items=2_000, postgres=None)
    clock = time.process_time if arguments.cpu else time.perf_counter
    warnings.simplefilter("ignore")
    contenders: dict[str, Opened] = {
        "ours": ours,
        "ours, index of nothing": partial(ours, index={"fields": ["nothing"]}),
        "SqliteStore": stock,
        "InMemoryStore": lambda folder: nullcontext(InMemoryStore()),
    }
    if arguments.postgres:
        contenders["ours, PostgreSQL"] = postgres(arguments.postgres)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):  # in turns, so that a busy minute falls on all of them
        for name, opened in contenders.items():
            with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as store:
                runs[name].append(rates(store, arguments.items, clock))
    median = {
        name: {each: statistics.median(run[each] for run in done) for each in done[0]} for name, done in runs.items()
    }
    print(f"{'operations a second':<24}" + "".join(f"{name:>24}" for name in contenders) + "    ours / SqliteStore")
    for each, rate in median["ours"].items():
        row = "".join(f"{median[name][each]:>24,.0f}" for name in contenders)
        print(f"{each:<24}{row}{rate / median['SqliteStore'][each]:>21.2f} x")


if __name__ == "__main__":
    main()
