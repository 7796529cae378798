"""What a tenant's calls cost in a database of many tenants, and beside one that has most of what is stored.

    python tests/benchmarks/tenants.py [--tenants 100000] [--messages 1000000] [--url postgresql://…]

A small tenant has 100 messages. What it costs such a one to append, to search and to put a checkpoint is measured while
there are four of them, then beside `--tenants` others of one message each, then beside one more of `--messages`; and
that large one itself, with the plans that the server keeps for statements by name, and with a plan made for each
call. Without a URL the PostgreSQL that comes from PyPI is used. Medians of calls that take turns count; p95 is told of
searches.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import psycopg
from checkpoints import postgres_server
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory

LARGE = ("tenants", "large")
PHASES = 4
LOOKS = (100, 1_000, 10_000)
"""After so many the server looks at what is there, as it does by itself within a minute: it keeps plans until then."""
FEW = 100
ROUNDS = 200
BATCH = 1_000
WORDS = ("heron", "quince", "lisbon", "garden", "window", "letter", "bridge", "winter", "market", "song")
RARE = 5_000
"""Of so many messages one holds a rare word."""
Act = Callable[[], object]


def message(number: int) -> HumanMessage:
    """A message of some eight words, of which one in so many is rare."""
    words = [WORDS[number * each % 97 % len(WORDS)] + str(number * each % 331) for each in (3, 7, 11, 13, 17)]
    if number % RARE == 0:
        words.append("pelican")
    return HumanMessage(" ".join([*words, "and", f"number{number}"]))


def fill(memory: AgentMemory, namespace: Sequence[str], count: int) -> None:
    """Say so many things in conversations of a tenant."""
    for first in range(0, count, BATCH):
        talk = memory.conversation(f"talk {first // BATCH % 100}", namespace)
        talk.add_messages([message(number) for number in range(first, min(first + BATCH, count))])


def acts(memory: AgentMemory, namespace: Sequence[str]) -> dict[str, Act]:
    """What is measured of a tenant."""
    numbers = itertools.count(1)
    talk = memory.conversation("now", namespace)
    saver = memory.checkpointer
    config = {"configurable": {"thread_id": "now", "checkpoint_ns": "", "agentmem_namespace": tuple(namespace)}}
    last = [config]

    def put() -> None:
        checkpoint = empty_checkpoint() | {"channel_values": {"n": next(numbers)}, "channel_versions": {"n": "1"}}
        last[0] = saver.put(last[0], checkpoint, {"source": "loop", "step": 1}, {"n": "1"})

    return {
        "append": lambda: talk.add(message(next(numbers) * RARE + 1)),
        "search": lambda: memory.search("pelican", namespace=namespace, limit=10),
        "put": put,
    }


def measured(given: dict[str, Act]) -> dict[str, list[float]]:
    """The milliseconds of calls that take turns."""
    took: dict[str, list[float]] = {name: [] for name in given}
    for number in range(ROUNDS + 10):
        for name, act in given.items():
            began = time.perf_counter()
            act()
            if number >= 10:  # by then the server keeps a plan for every call
                took[name].append((time.perf_counter() - began) * 1e3)
    return took


def tell(what: str, took: dict[str, list[float]], than: dict[str, list[float]] | None = None) -> None:
    """Print medians, and how many times those of something else they are."""
    print(what, flush=True)
    for name, times in took.items():
        middle = statistics.median(times)
        ratio = "" if than is None else f"   x{middle / statistics.median(than[name]):.2f}"
        last = f"   p95 {sorted(times)[int(len(times) * 0.95)]:.1f} ms" if name == "search" else ""
        print(f"  {name:8} {middle:8.2f} ms{ratio}{last}", flush=True)


def settle(url: str) -> None:
    """Let the server look at what is there, as it does by itself after a while."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def plans(url: str, mode: str) -> None:
    """Say which plans new connections make."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'alter database "{connection.info.dbname}" set plan_cache_mode = {mode}')


def run(url: str, tenants: int, messages: int) -> None:
    with AgentMemory(url) as memory:
        small = [("tenants", f"small {number}") for number in range(PHASES)]  # a measured one has grown
        for each in small:
            fill(memory, each, FEW)
        settle(url)
        alone = measured(acts(memory, small.pop()))
        tell("a small tenant", alone)
        began = time.perf_counter()
        for number in range(tenants):
            memory.conversation("talk", ("tenants", f"other {number}")).add(message(number))
            if number in LOOKS:
                settle(url)
        print(f"{tenants:,} others took {time.perf_counter() - began:.0f} s", flush=True)
        settle(url)
        tell(f"beside {tenants:,} others", measured(acts(memory, small.pop())), alone)
        began = time.perf_counter()
        fill(memory, LARGE, messages)
        print(f"{messages:,} messages of one more took {time.perf_counter() - began:.0f} s", flush=True)
        settle(url)
    for mode in ("auto", "force_custom_plan"):
        plans(url, mode)
        with AgentMemory(url) as memory:
            tell(
                f"beside one of {messages:,} messages, plan_cache_mode {mode}",
                measured(acts(memory, small.pop())),
                alone,
            )
            tell(f"that one, plan_cache_mode {mode}", measured(acts(memory, LARGE)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenants", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--url")
    given = parser.parse_args()
    if given.url:
        run(given.url, given.tenants, given.messages)
        return
    with postgres_server() as url:
        run(url, given.tenants, given.messages)


if __name__ == "__main__":
    main()
