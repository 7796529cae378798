"""Exclusive edits of a file: in this process, and for shared files in all processes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.store.base import BaseStore, GetOp, PutOp

LOCK_TIMEOUT = 40.0
"""The seconds to wait for other edits: longer than the lifetime of a claim, which a process that died may leave."""

_CLAIM_MINUTES = 0.5
"""The lifetime of a claim in minutes."""

_POLL_SECONDS = (0.005, 0.1)
"""The first and the longest interval between two checks of a claim; too frequent checks slow down the other edit."""

_LOCKS = tuple(threading.Lock() for _ in range(64))


@contextmanager
def exclusive(path: str, namespace: tuple[str, ...], store: BaseStore | None) -> Iterator[bool]:
    """Exclude other edits of a path within a block; yield False if they took too long.

    Args:
        path: The path. In this process, all edits whose paths have the same lock exclude each other.
        namespace: The namespace of claims. A claim is an item with which a process reserves a path.
        store: The store that other processes share, or None if there is none.
    """
    end = time.monotonic() + LOCK_TIMEOUT
    lock = _LOCKS[hash(path) % len(_LOCKS)]
    if not lock.acquire(timeout=LOCK_TIMEOUT):
        yield False
        return
    try:
        if store is None:
            yield True
        elif not _make_claim(store, namespace, path, end):
            yield False
        else:
            try:
                yield True
            finally:
                store.delete(namespace, path)
    finally:
        lock.release()


def _make_claim(store: BaseStore, namespace: tuple[str, ...], path: str, end: float) -> bool:
    """Write a claim in a batch that finds no other claim. Return False if there is another until the time `end`."""
    get = GetOp(namespace, path, refresh_ttl=False)
    claim = PutOp(namespace, path, {"held": True}, index=False, ttl=_CLAIM_MINUTES)
    interval, longest = _POLL_SECONDS
    while store.batch([get])[0] is not None or store.batch([get, claim])[0] is not None:
        if time.monotonic() > end:
            return False
        time.sleep(interval * random.uniform(0.5, 1))  # noqa: S311 - no secret
        interval = min(interval * 2, longest)
    return True
