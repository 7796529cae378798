"""Many asyncio users of one memory through PgBouncer in transaction mode, and directly, in one run.

    python -m tests.benchmarks.pooled [--users 1000] [--seconds 60] [--connections 10] [--memories 1]

A user says something, searches for it, puts an item and gets it, again and again without a pause, so the times are
those of a machine with too much to do. What counts is the ratio. In the end all that was acknowledged is looked for.
Each way takes `--seconds`; `--connections` is how many the pooler has to the server, and the users share
`--memories`, as on as many machines. Exits with 1 if something failed or is lost.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from langchain_agentmem import AgentMemory
from tests.benchmarks.places import given_options
from tests.distributed.poolers import pgbouncer
from tests.distributed.servers import postgres

PATIENCE = 300.0
"""Seconds that all of it may take beyond those that are measured; then it says where it hangs."""
CHAT, ITEMS = ("chat",), ("items",)
ROUNDS = 2


class Run(NamedTuple):
    """What users did.

    Attributes:
        seconds: How long.
        times: Seconds of each call.
        said: How many messages of each user are kept.
        put: How many items.
        errors: What failed.
    """

    seconds: float
    times: list[float]
    said: list[int]
    put: list[int]
    errors: list[str]

    @property
    def rate(self) -> float:
        """Calls in a second."""
        return len(self.times) / self.seconds

    def within(self, share: float) -> float:
        """Milliseconds in which a share of the calls was done."""
        return sorted(self.times)[int(len(self.times) * share)] * 1e3 if self.times else float("nan")


async def user(memory: AgentMemory, number: int, until: float, run: Run) -> None:
    """Be one user."""
    chat, items = memory.conversation(f"user {number}", CHAT), (*ITEMS, f"user {number}")

    async def timed(call) -> None:
        began = time.perf_counter()
        await call
        run.times.append(time.perf_counter() - began)

    while time.perf_counter() < until:
        try:
            await timed(chat.aadd_user_message(f"message {run.said[number]} of user {number}"))
            run.said[number] += 1
            await timed(memory.asearch("message", namespace=CHAT, conversation_id=f"user {number}", limit=3))
            await timed(memory.store.aput(items, str(run.put[number]), {"n": run.put[number]}, index=False))
            run.put[number] += 1
            await timed(memory.store.aget(items, "0"))
        except Exception as error:  # noqa: BLE001 - told in the end
            run.errors.append(str(error))
            return


def measure(url: str, users: int, seconds: float, memories: int) -> Run:
    """Let users use a memory at the same time."""

    async def all_users(opened: Sequence[AgentMemory]) -> Run:
        run, began = Run(0.0, [], [0] * users, [0] * users, []), time.perf_counter()
        each = (user(opened[number % memories], number, began + seconds, run) for number in range(users))
        await asyncio.gather(*each)
        return run._replace(seconds=time.perf_counter() - began)

    with ExitStack() as stack:
        return asyncio.run(all_users([stack.enter_context(AgentMemory(url)) for _ in range(memories)]))


def lost(url: str, run: Run) -> int:
    """How much of what was acknowledged is not there."""
    count = 0
    with AgentMemory(url) as memory:
        for number, (said, put) in enumerate(zip(run.said, run.put, strict=True)):
            texts = {each.text for each in memory.conversation(f"user {number}", CHAT).messages}
            count += len({f"message {n} of user {number}" for n in range(said)} - texts)
            items = memory.store.search((*ITEMS, f"user {number}"), limit=put + 1)
            count += len(set(range(put)) - {each.value["n"] for each in items})
    return count


def together(runs: Sequence[Run]) -> Run:
    """The rounds of a way as one run."""
    times = [each for run in runs for each in run.times]
    return Run(sum(run.seconds for run in runs), times, [], [], [each for run in runs for each in run.errors])


def main() -> None:
    """Print the table."""
    options = given_options(__doc__, users=1_000, seconds=60.0, connections=10, memories=1)
    faulthandler.dump_traceback_later(2 * options.seconds + PATIENCE, exit=True)
    runs: dict[str, list[Run]] = {"direct": [], "pooled": []}
    missing = dict.fromkeys(runs, 0)
    with postgres() as server, pgbouncer(server, default_pool_size=options.connections) as pooler:
        for _ in range(ROUNDS):
            for way, place in (("direct", server), ("pooled", pooler)):
                database = server.create()
                run = measure(place.url(database), options.users, options.seconds / ROUNDS, options.memories)
                missing[way] += lost(server.url(database), run)
                runs[way].append(run)
    ways = {way: together(each) for way, each in runs.items()}
    print(f"{options.users} users, {options.connections} connections of the pooler to the server; milliseconds")
    print(f"{'':8}{'calls':>9}{'calls/s':>9}{'p50':>9}{'p95':>9}{'p99':>9}{'lost':>7}{'failed':>8}")
    for way, run in ways.items():
        p50, p95, p99 = (run.within(share) for share in (0.5, 0.95, 0.99))
        print(f"{way:8}{len(run.times):>9,}{run.rate:>9,.0f}{p50:>9,.1f}{p95:>9,.1f}{p99:>9,.1f}", end="")
        print(f"{missing[way]:>7}{len(run.errors):>8}")
    print(f"pooled / direct: {ways['pooled'].rate / ways['direct'].rate:.2f} of the calls")
    errors = [error for run in ways.values() for error in run.errors]
    for error in sorted(set(errors))[:3]:
        print(f"  {error}")
    sys.exit(bool(errors or any(missing.values())))


if __name__ == "__main__":
    main()
