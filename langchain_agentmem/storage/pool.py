"""A few sessions of PostgreSQL, for as many threads as come.

The one that was given back last is lent first: what it prepared, and what the server knows of it, is used most.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from langchain_agentmem.errors import DatabaseBusy
from langchain_agentmem.storage.postgres_session import Session

_IDLE = 600.0
"""Seconds after which a session that nobody used is closed."""


class Pool:
    """Lends sessions.

    Args:
        connect: Opens one.
        size: How many there may be at once.
        timeout: Seconds to wait for one.
    """

    def __init__(self, connect: Callable[[], Session], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._free = threading.Condition(threading.Lock())
        self._idle: deque[tuple[Session, float]] = deque()  # with the time since when; the last one is lent first
        self._count = 0
        self._closed = False

    def take(self) -> Session:
        """Borrow a session.

        Raises:
            DatabaseBusy: All of them were in use for too long.
            psycopg.Error: The server cannot be reached.
        """
        with self._free:
            if not self._free.wait_for(lambda: self._idle or self._count < self._size, self._timeout):
                raise DatabaseBusy(f"All {self._size} connections to the database were in use for too long.")
            if self._idle:
                return self._idle.pop()[0]
            self._count += 1
        try:
            return self._connect()
        except BaseException:
            self._forget()
            raise

    def spare(self) -> Session | None:
        """Borrow a session that is open and that nobody uses, if there is one."""
        with self._free:
            return self._idle.pop()[0] if self._idle else None

    def give_back(self, session: Session) -> None:
        """Return a session that can be used again."""
        now = time.monotonic()
        stale: list[Session] = []
        with self._free:
            if self._closed:
                stale.append(session)
            else:
                self._idle.append((session, now))
                while self._idle[0][1] < now - _IDLE:
                    stale.append(self._idle.popleft()[0])
            self._count -= len(stale)
            self._free.notify()
        for each in stale:
            each.close()

    def drop(self, session: Session, *, stop: bool = False) -> None:
        """Close a session that is of no use any more; see `Session.close`."""
        try:
            session.close(stop=stop)
        finally:
            self._forget()

    def close(self) -> None:
        """Close all sessions; those that are in use, when they are given back."""
        with self._free:
            self._closed = True
            idle = [session for session, _ in self._idle]
            self._idle.clear()
            self._count -= len(idle)
        for session in idle:
            session.close()

    def _forget(self) -> None:
        with self._free:
            self._count -= 1
            self._free.notify()
