"""What 1,000 async calls that wait for a slow model do to others: `store.aget` beside them, and the event loop.

    python tests/benchmarks/awaiting.py [--calls 1000] [--writers 100]

In one run: the median of `store.aget` alone, beside the calls, and beside writers that wait while one transaction holds
the database; the longest time in which the event loop did nothing else; then all calls are cancelled.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from places import given_options

from langchain_agentmem import AgentMemory, Compressor
from langchain_agentmem.storage import Transaction

READS = 300
HELD = 1.0
"""Seconds that one transaction holds the database."""


async def reads(memory: AgentMemory) -> tuple[float, float]:
    """The median and the longest of many reads, one after the other, in milliseconds."""
    taken = []
    for _ in range(READS):
        begun = time.perf_counter()
        await memory.store.aget(("users", "ada"), "city")
        taken.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(taken), max(taken)


async def lags(longest: list[float]) -> None:
    """Keep how much later than asked the event loop came back, in milliseconds."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        longest.append((time.perf_counter() - begun) * 1e3 - 1)


def show(what: str, median: float, longest: float, alone: float, lag: list[float]) -> None:
    print(f"{what:<42}{median:>9.2f} ms{median / alone:>8.1f}{longest:>10.1f} ms{max(lag):>12.1f} ms", flush=True)
    lag.clear()


async def main() -> None:
    options = given_options(__doc__, calls=1_000, writers=100)
    begun = asyncio.Semaphore(0)

    async def slow(messages: Any) -> str:
        begun.release()
        await asyncio.sleep(3600)
        return "never"

    compressor, lag = Compressor(slow), [0.0]
    with TemporaryDirectory() as folder, AgentMemory(Path(folder) / "agent.db") as memory:
        memory.store.put(("users", "ada"), "city", {"name": "Porto"})
        watching = asyncio.create_task(lags(lag))
        await reads(memory)
        print(f"{'store.aget':<42}{'median':>12}{'ratio':>8}{'longest':>13}{'longest lag':>15}")
        alone, longest = await reads(memory)
        show("alone", alone, longest, alone, lag)
        calls = [asyncio.create_task(compressor.acompress(f"text {n} " * 40, 20)) for n in range(options.calls)]
        for _ in calls:
            await begun.acquire()
        print(f"  (until {options.calls:,} models were asked the loop lagged {max(lag):.1f} ms at most)")
        lag.clear()
        show(f"beside {options.calls:,} calls of a slow model", *await reads(memory), alone, lag)
        held = threading.Event()

        def hold(tx: Transaction) -> None:
            held.set()
            time.sleep(HELD)

        holder = threading.Thread(target=memory.database.engine.write, args=[hold])
        holder.start()
        held.wait()
        puts = [memory.store.aput(("users", "bob"), f"key {n}", {"n": n}) for n in range(options.writers)]
        writing = asyncio.gather(*puts)
        show(f"and {options.writers} writers that wait", *await reads(memory), alone, lag)
        await writing
        holder.join()
        print(f"{threading.active_count():,} threads")
        begun_at = time.perf_counter()
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        print(f"all cancelled in {time.perf_counter() - begun_at:.2f} s")
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(main())
