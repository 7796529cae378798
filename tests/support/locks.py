"""Locks on PostgreSQL: wait until a connection waits for a lock."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

HELD_BY = "select exists (select from pg_locks where not granted and pg_blocking_pids(pid) && array({}))"
MINE = "select pg_backend_pid()"
ANYBODY = "select pid from pg_stat_activity where datname = current_database()"


def await_waiter(connection: Any, task: Future[Any], held_by: str = MINE) -> None:
    """Return when somebody waits for a lock, or the task that was to wait is done.

    Args:
        connection: An open one. Unless it is another's, the lock is this connection's.
        task: What is to wait.
        held_by: Whose lock it is.
    """
    while not task.done() and not connection.execute(HELD_BY.format(held_by)).fetchone()[0]:
        pass
