"""What a tenant's calls cost in a database of many tenants, and beside one that has most of what is stored.

    python tests/benchmarks/tenants.py [--tenants 100000] [--messages 1000000] [--url postgresql://…]

A small tenant has 100 messages. What it costs such a one to append, to search and to put a checkpoint is measured while
there are few of them, then beside `--tenants` others of one message each, then beside one more of `--messages`; and
that large one itself: on the connection that was opened first, and on one that is opened then. Without a URL the
PostgreSQL that comes from PyPI is used, with its autovacuum. Medians of calls that take turns count, and so each phase
has a tenant in a small database of its own to compare with; p95 is told of searches.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from places import given_options, in_turns, postgres_server
from search import settle

from langchain_agentmem import AgentMemory

LARGE = ("tenants", "large")
PHASES = 4
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


def tell(what: str, given: dict[str, dict[str, Act]]) -> None:
    """Print medians, and how many times those of the first they are."""
    print(what, flush=True)
    first: dict[str, float] = {}
    calls = {(who, name): act for who, each in given.items() for name, act in each.items()}
    took = in_turns(calls, ROUNDS, warm=10)
    for who, each in given.items():
        medians = {name: statistics.median(took[who, name]) / 1e3 for name in each}
        first = first or medians
        told = "   ".join(f"{name} {each:6.2f} ms x{each / first[name]:4.2f}" for name, each in medians.items())
        last = sorted(took[who, "search"])[int(ROUNDS * 0.95)] / 1e3
        print(f"  {who:24} {told}   (search p95 {last:.1f})", flush=True)


def run(url: str, tenants: int, messages: int) -> None:
    with AgentMemory(url, schema="alone") as alone, AgentMemory(url) as old:
        small = [("tenants", f"small {number}") for number in range(PHASES)]  # a measured one has grown
        for memory, each in itertools.product((alone, old), small):
            fill(memory, each, FEW)

        def phase(what: str, large: bool) -> None:
            settle(url)
            mine = small.pop()
            with AgentMemory(url) as new:
                given = {
                    "a small one alone": acts(alone, mine),
                    "opened at first": acts(old, mine),
                    "opened now": acts(new, small.pop()),
                }
                if large:
                    given["the large one itself"] = acts(new, LARGE)
                tell(what, given)

        began = time.perf_counter()
        for number in range(tenants):
            old.conversation("talk", ("tenants", f"other {number}")).add(message(number))
        print(f"{tenants:,} others took {time.perf_counter() - began:.0f} s", flush=True)
        phase(f"beside {tenants:,} others", large=False)
        began = time.perf_counter()
        fill(old, LARGE, messages)
        print(f"{messages:,} messages of one more took {time.perf_counter() - began:.0f} s", flush=True)
        phase(f"beside one of {messages:,} messages, too", large=True)


def main() -> None:
    given = given_options(__doc__, tenants=100_000, messages=1_000_000, url=None)
    if given.url:
        run(given.url, given.tenants, given.messages)
        return
    with postgres_server() as url:
        run(url, given.tenants, given.messages)


if __name__ == "__main__":
    main()
