"""Locks on PostgreSQL: a test goes on when somebody waits for one."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

WAITED_FOR = "select exists (select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))"


def await_waiter(connection: Any, task: Future[Any]) -> None:
    """Return when somebody waits for a lock of this connection, or the task that was to wait is done."""
    while not task.done() and not connection.execute(WAITED_FOR).fetchone()[0]:
        pass
