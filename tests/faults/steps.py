"""Hooks before the steps of a writing process.

A step is what may leave something half-done behind it: every statement that goes to a database, by whomever it is sent,
every commit, and every file that is opened to be written, renamed, linked or deleted in a folder that is watched.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from langchain_agentmem.storage.postgres_session import Session

_FILES = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate"}
_READS = {"r", "rb", None}


class Steps:
    """Calls a function before each step of this process, as long as there is one.

    Attributes:
        before: The function; it is told how many steps there were.
        count: How many there were.
    """

    def __init__(self) -> None:
        self.before: Callable[[int], object] | None = None
        self.count = 0
        self._folder = ""
        self._within = threading.local()
        self._installed = False

    def install(self, folder: Path) -> None:
        """Count from now on what happens in this process, for as long as it lasts, once.

        Args:
            folder: Where files are looked at.
        """
        self._folder = str(folder)
        if self._installed:
            return
        self._installed = True
        connect = sqlite3.connect

        def connected(*given: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*given, **options)
            connection.set_trace_callback(lambda _: self.step())
            return connection

        sqlite3.connect = connected
        for kind, name in ((Session, "_send"), (psycopg.Cursor, "execute"), (psycopg.Cursor, "copy")):
            self._count_calls(kind, name)
        sys.addaudithook(self._look)

    def step(self) -> None:
        """One begins."""
        if self.before is None or getattr(self._within, "it", False):
            return
        self._within.it = True  # what is done before a step has none
        try:
            self.before(self.count)
        finally:
            self._within.it = False
        self.count += 1

    def _count_calls(self, kind: Any, name: str) -> None:
        real = getattr(kind, name)

        def call(*given: Any, **named: Any) -> Any:
            self.step()
            return real(*given, **named)

        setattr(kind, name, call)

    def _look(self, event: str, given: tuple[Any, ...]) -> None:
        if self.before is None or event not in _FILES or (event == "open" and given[1] in _READS):
            return
        if isinstance(given[0], str | bytes | os.PathLike) and os.fsdecode(given[0]).startswith(self._folder):
            self.step()


STEPS = Steps()
"""The steps of this process."""


def dying_at(last: int) -> Callable[[int], None]:
    """Return a function that kills this process before a certain step, as `kill -9` does."""

    def before(number: int) -> None:
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return before
