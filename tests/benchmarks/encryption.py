"""What encryption costs: an encrypted and a plain file, by turns in one run.

python tests/benchmarks/encryption.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory

ROUNDS = 3
SINGLE, BATCHES, TOGETHER, SEARCHES, READS, OPENINGS = 300, 10, 100, 60, 40, 5
WORDS = "heron pond reeds grey morning boat house key door kitchen lisbon porto quince garden water bird".split()  # noqa: SIM905
PASSPHRASE = "a passphrase of a few words"
KEYS: dict[str, Any] = {"plain": None, "encrypted": bytes(range(32)), "encrypted, passphrase": PASSPHRASE}


def text(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 26)) + f" {number}"


def timed(work: Callable[[], object], count: int) -> float:
    """Microseconds that each of so many took."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / count * 1e6


def measured(path: Path, key: Any) -> dict[str, float]:
    found = {}
    with AgentMemory(path, key=key) as memory:
        chat = memory.conversation("single")
        found["append one"] = timed(lambda: [chat.add_user_message(text(n)) for n in range(SINGLE)], SINGLE)
        many = memory.conversation("batches")
        batches = [[HumanMessage(text(n * TOGETHER + each)) for each in range(TOGETHER)] for n in range(BATCHES)]
        found["append one of 100"] = timed(lambda: [many.add_messages(each) for each in batches], BATCHES * TOGETHER)
        memory.settle()
        found["search"] = timed(lambda: [memory.search(text(n)[:40]) for n in range(SEARCHES)], SEARCHES)
        found["read 300 messages"] = timed(lambda: [chat.messages for _ in range(READS)], READS)
        found["backup"] = timed(lambda: memory.admin.backup(path.with_name("backup.db")), 1)
        found["verify"] = timed(memory.admin.verify, 1)
    found["open"] = timed(lambda: [AgentMemory(path, key=key).close() for _ in range(OPENINGS)], OPENINGS)
    found["bytes"] = path.stat().st_size
    return found


def main() -> None:
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in KEYS}
    for number in range(ROUNDS + 1):
        for name, key in KEYS.items():
            with tempfile.TemporaryDirectory() as folder:
                found = measured(Path(folder) / "memory.db", key)
            if number:  # the first warms up
                taken[name].append(found)
    print(f"{'':<22}{'plain':>12}" + "".join(f"{name:>32}" for name in list(KEYS)[1:]))
    for what in taken["plain"][0]:
        plain, *others = (statistics.median(each[what] for each in taken[name]) for name in KEYS)
        unit = "kB" if what == "bytes" else "µs"
        line = "".join(
            f"{other / (1000 if unit == 'kB' else 1):>14,.0f} {unit}  {other / plain:>6.2f} times" for other in others
        )
        print(f"{what:<20}{plain / (1000 if unit == 'kB' else 1):>11,.0f} {unit}{line}")


if __name__ == "__main__":
    main()
