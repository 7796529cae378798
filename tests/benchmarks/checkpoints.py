"""Checkpoints of a long conversation: our saver against LangGraph's, and against one that only keeps an object.

    python tests/benchmarks/checkpoints.py [--workload all] [--turns 1000] [--peers-turns 300] [--full] [--rounds 3]
                                           [--postgres] [--linear]

Needs the extra `[bench]`. Every saver runs the same graph with LangGraph's default durability, in a process of its own
(`checkpoint_savers.py`), which also checks that the state can be read again. The floor is the saver that keeps the last
checkpoint as an object: what it takes is LangGraph's, so what counts is how many times that time a saver takes. Savers
whose cost grows with the square of the turns run for `--peers-turns`, next to the floor and ours for as many, or with
`--full` for all: gigabytes. The floor and ours run `--rounds` times. `--postgres` measures PostgreSQL, against
PostgresSaver, and `--linear` only bytes a turn, at 200 and at 2,000 turns.

Columns: seconds in all · how many times the floor's · milliseconds a turn in the first and the last 100 turns (half of
them where there are fewer than 200) · how much more the last cost than the first · how many times what the floor's cost
more, where the floor's grew by a tenth · the last to the first · size of the closed database (SQLite's files; on
PostgreSQL all tables with their indexes, not vacuumed, without the log) · per byte of text · by how much the process
grew, at most.

Workloads, with 1,000 turns:
    chat      one conversation; a turn is two messages of 500 characters
    tools     100 turns of an agent, each with a tool that brings 20,000 characters
    branches  200 turns with five nodes in parallel, each of which appends a message, and a node that joins them
    threads   the chat in conversations of 10 turns, which shows whether memory grows with their number
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from places import given_options, postgres_server

MEASURE = Path(__file__).with_name("checkpoint_savers.py")
SHARES = {"chat": 1, "tools": 10, "branches": 5, "threads": 1}  # a workload has turns / share turns
WINDOW = 100

FLOOR, OURS, COLD, RECORDING = "floor", "ours", "ours, cold each turn", "ours, recording messages"
DELTA, IN_MEMORY, SQLITE, POSTGRES = "SqliteSaver, DeltaChannel", "InMemorySaver", "SqliteSaver", "PostgresSaver"
REPEATED = {FLOOR, OURS}  # the others are slow, or so far off that one run tells

COLUMNS = ("seconds", "floors", "first", "last", "growth", "floors", "last/first", "MB", "per byte", "memory MB")


class Result(NamedTuple):
    """What one run came to. `first` and `last` are milliseconds a turn, at the two ends of the conversation."""

    seconds: float
    first: float
    last: float
    memory: float
    stored: float
    text: float

    @property
    def growth(self) -> float:
        return self.last - self.first


class Failed(Exception):
    """The process of a saver ended with an error."""


def measure(saver: str, graph: str, turns: int, server: str | None) -> Result:
    """Runs one saver in a process of its own; this process stays small, because Linux hands down its peak of memory."""
    with tempfile.TemporaryDirectory() as folder:
        task = {"saver": saver, "graph": graph, "turns": turns, "where": server or folder}
        done = subprocess.run([sys.executable, MEASURE, json.dumps(task)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    seconds = found["seconds"]
    window = max(1, min(WINDOW, turns // 2))
    first, last = (statistics.mean(part) * 1e3 for part in (seconds[:window], seconds[-window:]))
    print(f"    {saver}, {graph}, {turns:,} turns: {sum(seconds):.2f} s", file=sys.stderr, flush=True)
    return Result(sum(seconds), first, last, found["memory"], found["stored"], found["text"])


def compare(savers: Sequence[str], graph: str, turns: int, server: str | None, rounds: int) -> bool:
    """Prints a table of savers, the floor first, each row the medians over the rounds. Whether all of them worked."""
    runs: dict[str, list[Result]] = {saver: [] for saver in savers}
    errors: dict[str, str] = {}
    for number in range(rounds):
        for saver in savers:
            if saver not in errors and (number == 0 or saver in REPEATED):
                try:
                    runs[saver].append(measure(saver, graph, turns, server))
                except Failed as error:
                    errors[saver] = str(error)
    found = {saver: median(results) for saver, results in runs.items() if results}
    place = " on PostgreSQL" if server else ""
    print(f"\n{graph}{place}, {turns:,} turns, {next(iter(found.values())).text / 1e6:.2f} MB of text")
    print(f"  {'':<26}" + "".join(f"{column:>11}" for column in COLUMNS))
    for saver in savers:
        print(f"  {saver:<26}" + (f"   {errors[saver]}" if saver in errors else row(found[saver], found[FLOOR])))
    sys.stdout.flush()
    return not errors


def median(results: Sequence[Result]) -> Result:
    return Result(*(statistics.median(values) for values in zip(*results, strict=True)))


def row(result: Result, floor: Result) -> str:
    stored = f"{result.stored / 1e6:.2f}", f"{result.stored / result.text:.2f}"
    cells = (
        f"{result.seconds:.2f}",
        f"{result.seconds / floor.seconds:.2f}",
        f"{result.first:.2f}",
        f"{result.last:.2f}",
        f"{result.growth:.2f}",
        f"{result.growth / floor.growth:.2f}" if floor.growth > floor.first / 10 else "-",  # else it is noise
        f"{result.last / result.first:.2f}",
        *(stored if result.stored else ("-", "-")),
        f"{result.memory / 1e6:.1f}",
    )
    return "".join(f"{cell:>11}" for cell in cells)


def linear(server: str | None) -> bool:
    """Prints what a turn of the chat adds to our database when there are few of them, and when there are many."""
    print("\nbytes that a turn of the chat adds to ours" + (" on PostgreSQL" if server else ""))
    least = 0.0
    for turns in (200, 2_000):
        try:
            each = measure(OURS, "chat", turns, server).stored / turns
        except Failed as error:
            print(f"  {error}")
            return False
        least = least or each
        print(f"  {turns:>6,} turns: {each:8,.0f}   {each / least:.2f} times the first", flush=True)
    return True


def compare_all(options: Namespace, server: str | None) -> bool:
    """Prints the tables of every workload asked for: all savers together where they can run for as many turns."""
    slow = (POSTGRES,) if server else (IN_MEMORY, SQLITE)
    fast = (FLOOR, OURS, COLD, RECORDING) if server else (FLOOR, OURS, COLD, RECORDING, DELTA)
    worked = True
    for graph in SHARES if options.workload == "all" else (options.workload,):
        turns = max(1, options.turns // SHARES[graph])
        fewer = turns if options.full or graph == "threads" else min(turns, options.peers_turns)
        tables = [((*fast, *slow), turns)] if fewer == turns else [(fast, turns), ((FLOOR, OURS, *slow), fewer)]
        for savers, number in tables:
            worked &= compare(savers, graph, number, server, options.rounds)
    return worked


def main() -> None:
    options = given_options(
        __doc__, "full postgres linear", workload=(*SHARES, "all"), turns=1_000, peers_turns=300, rounds=3
    )
    if options.postgres:
        with postgres_server() as server:
            worked = linear(server) if options.linear else compare_all(options, server)
    else:
        worked = linear(None) if options.linear else compare_all(options, None)
    sys.exit(not worked)


if __name__ == "__main__":
    main()
