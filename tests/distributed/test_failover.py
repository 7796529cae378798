"""Clients survive server failures: no lost write, no duplicate, no error.

Each process says, searches, puts and runs graphs, five things at once, and never handles an error. With `-s` it is
printed how long they waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict

import pytest

from langchain_agentmem import AgentMemory
from tests.distributed.clients import Process, missing
from tests.distributed.servers import Postgres, pair, postgres

PROCESSES, SECONDS = 3, 5.0
"""The number of processes, and the seconds that each works."""
CONNECTIONS = "400"
FROZEN, CUTS, FEW = 1.5, 10, 9
"""For how many seconds a server stands still, how often connections are cut, and how many it takes at least."""
CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
COUNTED = ("said", "shared", "items", "turns", "awaited")


def under_load(url: str, event: Callable[[], None]) -> None:
    """Let processes use a memory, and something happen to its server in the middle; see that all is well in the end.

    Args:
        url: Of the memory.
        event: What happens; it returns when the server takes writes again.
    """
    AgentMemory(url).close()
    with ExitStack() as stack:
        clients = [stack.enter_context(Process(url, f"client {number}")) for number in range(PROCESSES)]
        for client in clients:
            client.use(0.5)  # its process has begun
        for client in clients:
            client.begin(SECONDS)
        time.sleep(SECONDS / 3)
        began = time.monotonic()
        event()
        away = time.monotonic() - began
        reports = [client.end() for client in clients]
    acknowledged = sum(asdict(each)[kind] for each in reports for kind in COUNTED)
    slowest = max(each.slowest for each in reports)
    print(f"{acknowledged:,} writes acknowledged; away {away:.1f} s, the slowest step {slowest:.1f} s")
    assert [error for each in reports for error in each.errors] == []
    assert all(getattr(each, kind) > 0 for each in reports for kind in COUNTED)
    with AgentMemory(url) as memory:
        assert missing(memory, reports) == []
        assert memory.admin.verify().problems == ()


def failover() -> None:
    """The primary is killed, and its replica promoted."""
    with pair(synchronous=True, max_connections=CONNECTIONS) as both:  # the replica has whatever was acknowledged
        under_load(both.url(), both.fail_over)


def crash() -> None:
    """The server is killed, and started again."""
    _ended_by(Postgres.kill)


def restart() -> None:
    """The server is stopped as its operators do, and started again."""
    _ended_by(Postgres.stop)


def freeze() -> None:
    """The server stands still for a while, with all its connections open."""
    with postgres(max_connections=CONNECTIONS) as server:

        def stand_still() -> None:
            with server.frozen():
                time.sleep(FROZEN)

        under_load(server.url(), stand_still)


def cut() -> None:
    """All connections are cut, again and again."""
    with postgres(max_connections=CONNECTIONS) as server:

        def cut_all() -> None:
            for _ in range(CUTS):
                server.run_sql(CUT)
                time.sleep(0.1)

        under_load(server.url(), cut_all)


def crowd() -> None:
    """The server takes fewer connections than the processes want."""
    with postgres(max_connections=str(FEW)) as server:
        under_load(server.url(), lambda: None)


def _ended_by(end: Callable[[Postgres], None]) -> None:
    with postgres(max_connections=CONNECTIONS) as server:

        def again() -> None:
            end(server)
            server.start()

        under_load(server.url(), again)


QUICK, DEEP = (failover, crash, restart), (freeze, cut, crowd)


@pytest.mark.parametrize("event", [*QUICK, *(pytest.param(each, marks=pytest.mark.deep) for each in DEEP)])
def test_clients_survive_server_failures_without_losing_data(event):
    event()
