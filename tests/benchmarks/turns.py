"""Whether a version is slower than another: single calls of both, in turns, each in a process of its own.

    git worktree add ../before COMMIT
    python tests/benchmarks/turns.py ../before [--rounds 200] [--postgres] [--large 1000000]

Each process has the package and the other scripts from its own worktree. Before they take turns, both have stored the
same 10,000 messages and 2,000 items; with `--large` so many messages, and only searches are made. Printed are medians
and p95 in milliseconds, before and now, and the median ratio of calls that followed each other: what else the machine
does hits both.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SMALL = 10_000
ITEMS = 2_000
THREAD = {"configurable": {"thread_id": "chat"}}
WARM_UP = 10
OWN = Path(__file__).resolve().parents[2]
Act = Callable[[], object]


def acts(url: str, messages: int) -> dict[str, Act]:
    """What is measured, with the package of this process."""
    import history
    import search
    import stores
    from checkpoint_savers import WORKLOADS, text
    from langchain_core.messages import HumanMessage
    from langgraph.store.base import GetOp, PutOp
    from natural import Language

    from langchain_agentmem import AgentMemory

    memory, language, numbers = AgentMemory(url), Language(), itertools.count(1)
    search.feed(memory, search.batches(language, ["tenant-0"], messages))
    find = search.ours(memory)

    def searching(questions: Sequence[str]) -> Act:
        asked = itertools.cycle(questions)
        return lambda: find("tenant-0", next(asked))

    found = {f"search, {kind}": searching(questions) for kind, questions in search._kinds(language).items()}
    if messages > SMALL:
        return found
    chat, store, graph = memory.conversation("chat"), memory.store, WORKLOADS["chat"].build(False)
    graph.checkpointer = memory.checkpointer

    def turn() -> None:
        graph.invoke({"messages": [HumanMessage(text("user", next(numbers)))]}, THREAD)

    def put(count: int) -> None:
        store.batch([PutOp(stores.NS, str(next(numbers) % ITEMS), stores.value(next(numbers))) for _ in range(count)])

    put(ITEMS)
    core, facts = memory.layers("main").core, memory.facts("main")
    return found | {
        "opened and closed": lambda: AgentMemory(url).close(),
        "append": lambda: chat.add_messages(history.messages(1, next(numbers))),
        "append 50": lambda: chat.add_messages(history.messages(50, next(numbers))),
        "a turn of a graph": turn,
        "state of a thread": lambda: graph.get_state(THREAD),
        "store, put": lambda: put(1),
        "store, put 50": lambda: put(50),
        "store, get": lambda: store.get(stores.NS, "7"),
        "store, get 100": lambda: store.batch([GetOp(stores.NS, str(number)) for number in range(100)]),
        "store, search": lambda: store.search(stores.NS, limit=10),
        "store, filter": lambda: store.search(stores.NS, filter={"kind": "kind7"}, limit=10),
        "core set": lambda: core.set(f"key {next(numbers) % 50}", "value"),
        "core get": lambda: core.get("key 1"),
        "fact added": lambda: facts.add_fact("user", f"she {next(numbers) % 50}", "likes", f"this {next(numbers)}"),
        "audit, add": lambda: memory.audit.add(f"question {next(numbers)} about the garden", "answer about the dog"),
    }


def serve(url: str, messages: int) -> None:
    """Do what a line names, and print how many seconds it took."""
    known = acts(url, messages)
    print("|".join(known), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        known[line.strip()]()
        print(time.perf_counter() - began, flush=True)


def compare(servers: Sequence[subprocess.Popen[str]], rounds: int) -> None:
    """Print what each call took, before and now."""

    def asked(server: subprocess.Popen[str], name: str) -> float:
        print(name, file=server.stdin, flush=True)
        return float(server.stdout.readline()) * 1e3

    names, _ = (server.stdout.readline().strip().split("|") for server in servers)
    print(f"{'':28}{'p50':>9}{'p95':>9}{'now: p50':>11}{'p95':>9}{'ratio':>9}   (milliseconds)")
    for name in names:
        pairs = [[asked(server, name) for server in servers] for _ in range(rounds + WARM_UP)][WARM_UP:]
        cells = [
            cell
            for times in zip(*pairs, strict=True)
            for cell in (statistics.median(times), sorted(times)[rounds * 95 // 100])
        ]
        ratio = statistics.median(now / before for before, now in pairs)
        print(f"{name:28}{cells[0]:9.2f}{cells[1]:9.2f}{cells[2]:11.2f}{cells[3]:9.2f}{ratio:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a worktree of the other version")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument("--large", type=int, default=SMALL, help="messages that are searched")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.large)
        return
    from places import databases

    with databases("postgres" if options.postgres else "sqlite") as new:
        servers = [
            subprocess.Popen(
                [sys.executable, __file__, str(options.before), "--serve", new(), "--large", str(options.large)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests/benchmarks")])},
            )
            for root in (options.before.resolve(), OWN)
        ]
        compare(servers, options.rounds)
        for server in servers:
            server.communicate()


if __name__ == "__main__":
    main()
