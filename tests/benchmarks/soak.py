"""Whether a process that works for hours stays as it was: memory, handles, threads, latency and database.

    python tests/benchmarks/soak.py [--minutes 120] [--workers 4] [--postgres] [--seed 1]

Workers, half of them threads and half of them tasks of one event loop, each serve one tenant: turns of a graph, a
conversation, items with a time to live, layered memory, facts, audit entries, compaction, prompts and searches, in an
order that the seed decides. After `--turns` turns a tenant is erased and the next one comes, so what is kept stays the
same. The last third of the time is compared with the third before it; that something is not flat is said, and ends
with 1.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from places import databases, given_options

from langchain_agentmem import AgentMemory, ManagedMemoryConfig

SAMPLES = 60
LEAST = 1.0
"""Seconds between two samples, at least."""
GROWTH = 1.10
"""How often the last third may be what the third before it was, of memory and of bytes."""
SLACK = 24_000_000
"""Bytes that memory and the database may differ by in any case: a tenant's, and what the allocator keeps."""
FEW = 4
"""Handles and threads that may be more in any case, as calls are under way."""
WORDS = ("heron", "quince", "lisbon", "garden", "window", "letter", "bridge", "winter", "market", "song")
Acts = dict[str, Callable[[], Awaitable[object]]]


class Sample(NamedTuple):
    """What the process was at one time.

    Attributes:
        memory: Bytes in memory.
        handles: Open files and sockets.
        threads: Running threads.
        stored: Bytes of the database.
        medians: Milliseconds of the median call since the sample before, by what was called.
    """

    memory: int
    handles: int
    threads: int
    stored: int
    medians: dict[str, float]


class Clock:
    """How long calls took, since it was last read."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._took: dict[str, list[float]] = defaultdict(list)

    def ended(self, name: str, seconds: float) -> None:
        with self._lock:
            self.calls[name] += 1
            self._took[name].append(seconds)

    def read(self) -> dict[str, float]:
        with self._lock:
            took, self._took = self._took, defaultdict(list)
        return {name: statistics.median(seconds) * 1e3 for name, seconds in took.items()}


def words(dice: random.Random) -> str:
    return " ".join(f"{dice.choice(WORDS)}{dice.randrange(300)}" for _ in range(12))


def graph(memory: AgentMemory) -> Any:
    """An agent of one node, which answers."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [AIMessage(f"About {state['messages'][-1].content}")]})
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=memory.checkpointer, store=memory.store)


def acts(memory: AgentMemory, agent: Any, tenant: tuple[str, ...], dice: random.Random) -> Acts:
    """What a tenant does, awaited."""
    ids = itertools.count(1)
    talk = memory.conversation("talk", tenant)
    managed = memory.managed_conversation(
        "managed", tenant, config=ManagedMemoryConfig(threshold_tokens=1_500, token_counter="estimate")
    )
    layers, facts, audit = memory.layers("main", tenant), memory.facts("main", tenant), memory.audit
    store, prompt = memory.store, memory.inject("main", namespace=tenant)
    config = {"configurable": {"thread_id": "t", "agentmem_namespace": tenant}}

    async def item() -> None:
        key = f"k{next(ids) % 40}"
        await store.aput((*tenant, "items"), key, {"text": words(dice)}, ttl=1.0)
        await store.aget((*tenant, "items"), key)
        await store.asearch(tenant, query=words(dice), limit=5)

    async def fact() -> None:
        await facts.aadd_fact("user", f"{dice.choice(WORDS)} {next(ids) % 50}", "likes", dice.choice(WORDS))

    return {
        "turn of a graph": lambda: agent.ainvoke({"messages": [HumanMessage(words(dice))]}, config),
        "append": lambda: talk.aadd(role="user", content=words(dice)),
        "compacted view": lambda: managed.aadd(role="user", content=words(dice) * 5),
        "item": item,
        "layers": lambda: layers.awrite({f"key{next(ids) % 20}": words(dice)}, words(dice), words(dice)),
        "fact": fact,
        "audit": lambda: audit.aadd(words(dice), words(dice), "talk"),
        "prompt": lambda: prompt.ainvoke([HumanMessage(words(dice))], config),
        "search": lambda: memory.asearch(words(dice), namespace=tenant, limit=10),
    }


async def work(number: int, memory: AgentMemory, clock: Clock, until: float, turns: int, dice: random.Random) -> None:
    """Serve one tenant after the other."""
    agent = graph(memory)
    for generation in itertools.count():
        tenant = ("tenants", f"w{number}g{generation}")
        doing = acts(memory, agent, tenant, dice)
        for _ in range(turns if generation else max(1, turns * (number + 1) // 8)):  # not all at the same time
            for name in dice.sample(sorted(doing), len(doing)):
                began = time.perf_counter()
                await doing[name]()
                clock.ended(name, time.perf_counter() - began)
            if time.monotonic() > until:
                return
        began = time.perf_counter()
        await memory.admin.aprune(namespace=tenant, keep_checkpoints=5)
        await memory.aerase(namespace=tenant)
        clock.ended("erase a tenant", time.perf_counter() - began)


def stored(memory: AgentMemory, url: str) -> int:
    """Bytes of the database."""
    if "://" not in url:
        return sum(each.stat().st_size for each in Path(url).parent.glob(f"{Path(url).name}*"))
    with psycopg.connect(url) as connection:
        [[size]] = connection.execute("select pg_database_size(current_database())").fetchall()
    return int(size)


def sample(memory: AgentMemory, url: str, clock: Clock) -> Sample:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path("/proc/self/fd").iterdir())), threading.active_count(),
        stored(memory, url), clock.read(),
    )  # fmt: skip


def soak(url: str, minutes: float, workers: int, turns: int, seed: int) -> bool:
    """Let workers work, and tell what became of the process; whether it stayed as it was."""
    clock, samples = Clock(), list[Sample]()
    failures: list[BaseException] = []
    with AgentMemory(url) as memory:
        until = time.monotonic() + minutes * 60
        jobs = [
            work(number, memory, clock, until, turns, random.Random(f"{seed} {number}")) for number in range(workers)
        ]

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for job in jobs[::2]:
                    group.create_task(job)

        def run(job: Callable[[], Any]) -> None:
            try:
                asyncio.run(job())
            except BaseException as error:  # noqa: BLE001 - raised below
                failures.append(error)

        threads = [threading.Thread(target=run, args=(together,))]
        threads += [threading.Thread(target=run, args=(lambda job=job: job,)) for job in jobs[1::2]]
        for thread in threads:
            thread.start()
        step = max(LEAST, minutes * 60 / SAMPLES)
        while (time.monotonic() < until or len(samples) < 3) and not failures:
            time.sleep(step)
            samples.append(sample(memory, url, clock))
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        problems = memory.admin.verify().problems
    print(f"{sum(clock.calls.values()):,} calls in {minutes:g} minutes; verify(): {len(problems)} problems")
    return told(samples) and not problems


def told(samples: list[Sample]) -> bool:
    """Prints the thirds of the time side by side; whether the last is as the one before."""
    third = max(1, len(samples) // 3)
    parts = [samples[:third], samples[third : 2 * third], samples[2 * third :]]
    flat = True
    print(f"  {'':<26}{'first third':>12}{'second':>12}{'last':>12}{'last/second':>12}")
    for name, unit in (("memory", 1e6), ("stored", 1e6), ("handles", 1), ("threads", 1)):
        found = [statistics.median(getattr(each, name) for each in part) for part in parts]
        bound = max(found[1] * GROWTH, found[1] + (FEW if unit == 1 else SLACK))
        ok = found[2] <= bound
        flat = flat and ok
        label = name + (", MB" if unit > 1 else "")
        row(label, [each / unit for each in found], "" if ok else "   NOT flat")
    for name in sorted({name for each in samples for name in each.medians}):
        found = [
            statistics.median([each.medians[name] for each in part if name in each.medians] or [0.0]) for part in parts
        ]
        row(f"{name}, ms", found, "")
    return flat


def row(label: str, found: list[float], remark: str) -> None:
    ratio = f"{found[2] / found[1]:.2f}" if found[1] else "-"
    print(f"  {label:<26}" + "".join(f"{each:>12,.1f}" for each in found) + f"{ratio:>12}{remark}")


def main() -> None:
    given = given_options(__doc__, "postgres", minutes=120.0, workers=4, turns=150, seed=1)
    print(f"seed {given.seed}")
    with databases("postgres" if given.postgres else "sqlite") as new:
        if not soak(new(), given.minutes, given.workers, given.turns, given.seed):
            sys.exit(1)


if __name__ == "__main__":
    main()
