"""One after the other: edits of one file, in this process and, where it is shared, in all processes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.store.base import BaseStore, GetOp, PutOp

PATIENCE = 40.0
"""Seconds to wait for one's turn: longer than the claim of a process lasts that ended in the midst of an edit."""

_MINUTES = 0.5
"""How long a claim lasts."""

_NAPS = (0.005, 0.1)
"""Seconds between two looks whether a claim is gone, at first and at most: who looks all the time slows who works."""

_TURNS = tuple(threading.Lock() for _ in range(64))


@contextmanager
def turn(path: str, namespace: tuple[str, ...], store: BaseStore | None) -> Iterator[bool]:
    """A block in which nobody else edits a path. Gives whether it is one: False if others went on for too long.

    Args:
        path: Which. Files of other threads and namespaces that are called the same wait too, as do some others.
        namespace: Where claims of it are kept.
        store: The store that other processes share; None where there is none.
    """
    end = time.monotonic() + PATIENCE
    lock = _TURNS[hash(path) % len(_TURNS)]
    if not lock.acquire(timeout=PATIENCE):
        yield False
        return
    try:
        if store is None:
            yield True
        elif not _claimed(store, namespace, path, end):
            yield False
        else:
            try:
                yield True
            finally:
                store.delete(namespace, path)
    finally:
        lock.release()


def _claimed(store: BaseStore, namespace: tuple[str, ...], path: str, end: float) -> bool:
    """Whether a claim could be made: whoever writes one and sees that there was none before has it."""
    get = GetOp(namespace, path, refresh_ttl=False)
    claim = PutOp(namespace, path, {"held": True}, index=False, ttl=_MINUTES)
    nap, longest = _NAPS
    while store.batch([get])[0] is not None or store.batch([get, claim])[0] is not None:
        if time.monotonic() > end:
            return False
        time.sleep(nap * random.uniform(0.5, 1))  # noqa: S311 - no secret, only not all at once
        nap = min(nap * 2, longest)
    return True
