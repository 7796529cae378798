"""Threads and their lines: a thread's own series of checkpoints, and one for each call of a subgraph."""

from __future__ import annotations

from typing import NamedTuple

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.namespaces import namespace_of
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.threads.shelf import LOOSE, Counters, Place

OWN_LINE = ""
"""The name of a thread's own line."""


class ThreadAt(NamedTuple):
    """Which thread: the path of its namespace and its id. The empty path stands for any namespace."""

    path: str
    name: str


class Thread(NamedTuple):
    """A thread that was found, with its shelf as it is."""

    id: int
    path: str
    place: Place
    counters: Counters
    delta: bool
    litter: int


def find(at: ThreadAt, *, lock: bool = False, exact: bool = False) -> Steps[Thread | None]:
    """Find a thread.

    Args:
        at: Which. Under the empty path: the root's own, else the only one of this name.
        lock: Keep others from its shelf until the transaction ends.
        exact: The empty path stands for the root.

    Raises:
        InvalidInput: No namespace was given, and several have a thread of this name.
    """
    rows = yield (query.lock_threads if lock else query.find_threads)(path=at.path, name=at.name)
    if not rows or (exact and rows[0]["path"] != at.path):
        return None
    row = rows[0]
    if len(rows) > 1 and row["path"]:
        homes = ", ".join(repr(namespace_of(each["path"])) for each in rows[:3])
        raise InvalidInput(
            f"There is a thread {at.name!r} in several namespaces ({homes}, …): say which, with "
            'config["configurable"]["agentmem_namespace"].'
        )
    place = Place(row["shelf_id"], row["swept"])
    counters = Counters(row["listed"], row["loose"])
    return Thread(row["id"], row["path"], place, counters, bool(row["delta"]), row["litter"])


def make_thread(path: str, name: str, now: int, *, delta: bool = False) -> Steps[Thread]:
    """Make a thread with a shelf of its own."""
    yield query.create_namespace(path=path)
    [shelf] = yield query.create_shelf(loose=LOOSE)
    [row] = yield query.create_thread(path=path, name=name, shelf=shelf["id"], delta=int(delta), now=now)
    return Thread(row["id"], path, Place(shelf["id"], 0), Counters(0, LOOSE), delta, 0)


def line_of(thread: Thread, ns: str) -> Steps[int]:
    """A line of a thread; made if it is not there."""
    rows = yield query.find_line(thread=thread.id, ns=ns)
    if not rows:
        rows = yield query.create_line(thread=thread.id, ns=ns)
    return int(rows[0]["id"])


def has(at: ThreadAt, ns: str, name: str) -> Steps[bool]:
    """Whether a checkpoint is there."""
    thread = yield from find(at)
    found = (yield query.find_line(thread=thread.id, ns=ns)) if thread is not None else ()
    return bool(found and (yield query.checkpoint_named(line=found[0]["id"], name=name)))
