"""One after the other: edits of one file, in this process and, where it is shared, in all processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.store.base import BaseStore, GetOp, PutOp

PATIENCE = 10.0
"""Seconds to wait for one's turn. Who goes on without it still sees what it overwrites, and mends that."""

_MINUTES = 0.5
"""How long the claim of a process lasts that ended in the midst of an edit."""

_TURNS = tuple(threading.Lock() for _ in range(64))


@contextmanager
def turn(path: str, namespace: tuple[str, ...], store: BaseStore | None) -> Iterator[None]:
    """A block in which nobody else edits a path.

    Args:
        path: Which. Files of other threads and namespaces that are called the same wait too, as do some others.
        namespace: Where claims of it are kept.
        store: The store that other processes share; None where there is none.
    """
    lock = _TURNS[hash(path) % len(_TURNS)]
    held = lock.acquire(timeout=PATIENCE)
    try:
        claimed = store is not None and _claimed(store, namespace, path)
        try:
            yield
        finally:
            if claimed and store is not None:
                store.delete(namespace, path)
    finally:
        if held:
            lock.release()


def _claimed(store: BaseStore, namespace: tuple[str, ...], path: str) -> bool:
    """Whether a claim could be made: whoever writes one and sees that there was none before has it."""
    get = GetOp(namespace, path, refresh_ttl=False)
    claim = PutOp(namespace, path, {"held": True}, index=False, ttl=_MINUTES)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if store.batch([get])[0] is None and store.batch([get, claim])[0] is None:
            return True
        time.sleep(0.002)
    return False
