"""Servers that go away while processes use a memory: what they were told is kept, and how long they waited.

    python -m tests.distributed.failover [--processes 8] [--seconds 12] [--event cut]

Each process says, searches, puts and runs graphs, five things at once, and never handles an error. Exits with 1 if
something failed, is lost, or is there twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import NamedTuple

from langchain_agentmem import AgentMemory
from tests.distributed.clients import Process, Report, missing
from tests.distributed.servers import Pair, Postgres, pair, postgres

CONNECTIONS = "400"
FROZEN, CUTS, FEW = 1.5, 10, 9
"""For how many seconds a server stands still, how often connections are cut, and how many it takes at least."""
CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
COUNTED = ("said", "shared", "items", "turns", "awaited")


class Outcome(NamedTuple):
    """What processes met.

    Attributes:
        reports: What each did.
        away: Seconds until the server took writes again, as who ended it saw.
        problems: What is missing or too much in the end.
    """

    reports: list[Report]
    away: float
    problems: list[str]

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged."""
        return sum(asdict(each)[kind] for each in self.reports for kind in COUNTED)

    @property
    def waited(self) -> float:
        """Seconds of the slowest step."""
        return max(each.slowest for each in self.reports)

    @property
    def errors(self) -> list[str]:
        """What failed."""
        return [error for each in self.reports for error in each.errors]


def under_load(url: str, event: Callable[[], None], *, processes: int, seconds: float) -> Outcome:
    """Let processes use a memory, and something happen to its server in the middle.

    Args:
        url: Of the memory.
        event: What happens; it returns when the server takes writes again.
        processes: How many use it.
        seconds: How long each works.
    """
    AgentMemory(url).close()
    with ExitStack() as stack:
        clients = [stack.enter_context(Process(url, f"client {number}")) for number in range(processes)]
        for client in clients:
            client.use(0.5)  # its process has begun
        for client in clients:
            client.begin(seconds)
        time.sleep(seconds / 3)
        began = time.monotonic()
        event()
        away = time.monotonic() - began
        reports = [client.end() for client in clients]
    with AgentMemory(url) as memory:
        problems = [*missing(memory, reports), *memory.admin.verify().problems]
    return Outcome(reports, away, problems)


@contextmanager
def replicated() -> Iterator[Pair]:
    """A primary and a replica that has whatever was acknowledged."""
    with pair(synchronous=True, max_connections=CONNECTIONS) as both:
        yield both


def failover(processes: int, seconds: float) -> Outcome:
    """The primary is killed, and its replica promoted."""
    with replicated() as both:
        return under_load(both.url(), both.fail_over, processes=processes, seconds=seconds)


def crash(processes: int, seconds: float) -> Outcome:
    """The server is killed, and started again."""
    return _ended_by(Postgres.kill, processes, seconds)


def restart(processes: int, seconds: float) -> Outcome:
    """The server is stopped as its operators do, and started again."""
    return _ended_by(Postgres.stop, processes, seconds)


def freeze(processes: int, seconds: float) -> Outcome:
    """The server stands still for a while, with all its connections open."""
    with postgres(max_connections=CONNECTIONS) as server:

        def stand_still() -> None:
            with server.frozen():
                time.sleep(FROZEN)

        return under_load(server.url(), stand_still, processes=processes, seconds=seconds)


def cut(processes: int, seconds: float) -> Outcome:
    """All connections are cut, again and again."""
    with postgres(max_connections=CONNECTIONS) as server:

        def cut_all() -> None:
            for _ in range(CUTS):
                server.run_sql(CUT)
                time.sleep(0.1)

        return under_load(server.url(), cut_all, processes=processes, seconds=seconds)


def crowd(processes: int, seconds: float) -> Outcome:
    """The server takes fewer connections than the processes want."""
    with postgres(max_connections=str(FEW)) as server:
        return under_load(server.url(), lambda: None, processes=processes, seconds=seconds)


def _ended_by(end: Callable[[Postgres], None], processes: int, seconds: float) -> Outcome:
    with postgres(max_connections=CONNECTIONS) as server:

        def again() -> None:
            end(server)
            server.start()

        return under_load(server.url(), again, processes=processes, seconds=seconds)


EVENTS = (failover, crash, restart, freeze, cut, crowd)


def main() -> int:
    """Print what processes met at each event."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--event", choices=[event.__name__ for event in EVENTS])
    given = parser.parse_args()
    failed = False
    for event in EVENTS:
        if given.event not in (None, event.__name__):
            continue
        met = event(given.processes, given.seconds)
        failed |= bool(met.errors or met.problems)
        print(
            f"{event.__name__:9} {met.acknowledged:6} writes acknowledged, {len(met.problems)} lost or doubled, "
            f"{len(met.errors)} errors; away {met.away:.1f} s, the slowest step {met.waited:.1f} s"
        )
        for problem in (*met.problems, *met.errors):
            print(problem[-1000:], file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
