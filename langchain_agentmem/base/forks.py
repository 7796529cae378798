"""What a process has at hand when it forks goes on in both processes.

Only the thread that forks lives on in the child. What another one was in the midst of would stay so for ever there: a
lock that it held, a statement that SQLite had half done. So whatever `rests` is brought to rest before the fork, and
waits for its calls to end. In the child, locks that were made here are nobody's, and what is `renewed` begins again
without its threads.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any, Protocol, TypeVar

L = TypeVar("L", bound=Any)

PATIENCE = 10.0
"""Seconds that a fork waits for calls to end."""


class Renewed(Protocol):
    """Something that has threads, or state that is only this process's."""

    def renew(self) -> None:
        """Begin again, in a child of the process: no other thread is there, and no lock is held by one."""
        ...


class Rests(Protocol):
    """Something that must not be in the midst of anything when the process forks."""

    def rest(self, until: float) -> None:
        """Let calls end and none begin.

        Args:
            until: How long to wait for it, as `time.monotonic` tells.
        """
        ...

    def go_on(self, *, in_child: bool) -> None:
        """The process was forked."""
        ...


_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_renewed: weakref.WeakSet[Renewed] = weakref.WeakSet()
_resting: weakref.WeakSet[Rests] = weakref.WeakSet()
_at_rest: list[Rests] = []


def lock() -> threading.Lock:
    """A lock that nobody holds in a child of the process."""
    return _known(threading.Lock())


def rlock() -> threading.RLock:
    """The same, which a thread may take twice."""
    return _known(threading.RLock())


def condition() -> threading.Condition:
    """A condition that nobody holds or waits for in a child of the process."""
    return _known(threading.Condition())


def renewed(part: Renewed) -> None:
    """Have something begin again in a child of the process, as long as somebody else holds it."""
    _renewed.add(part)


def rests(part: Rests) -> None:
    """Have something come to rest before the process is forked, as long as somebody else holds it."""
    _resting.add(part)


def _known(lock: L) -> L:
    _locks.add(lock)
    return lock


def _before() -> None:
    _at_rest[:] = list(_resting)
    until = time.monotonic() + PATIENCE
    for each in _at_rest:
        each.rest(until)


def _in_parent() -> None:
    while _at_rest:
        _at_rest.pop().go_on(in_child=False)


def _in_child() -> None:
    for each in list(_locks):
        each._at_fork_reinit()  # noqa: SLF001 - as Python's own modules do
    for part in list(_renewed):
        part.renew()
    while _at_rest:
        _at_rest.pop().go_on(in_child=True)


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
