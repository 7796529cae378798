"""Threads and their lines: a thread's own series of checkpoints, and one for each call of a subgraph."""

from __future__ import annotations

from typing import NamedTuple

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, InvalidInput
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.threads.value_store import LOOSE, Place

OWN_LINE = ""
"""The name of a thread's own line."""


class ThreadAt(NamedTuple):
    """Which thread: the path of its namespace and its id. The empty path stands for any namespace."""

    path: str
    name: str


class Thread(NamedTuple):
    """A thread that was found, with its shelf as it is, and the id of the line that was asked for."""

    id: int
    path: str
    name: str
    place: Place
    delta: bool
    litter: int
    line: int | None


def find(at: ThreadAt, ns: str = OWN_LINE, *, exact: bool = False) -> Steps[Thread | None]:
    """Find a thread.

    Args:
        at: Which. Under the empty path: the root's own, else the only one of this name.
        ns: Which of its lines to look up too. Default: its own.
        exact: The empty path stands for the root.

    Raises:
        InvalidInput: No namespace was given, and several have a thread of this name.
    """
    rows = yield query.find_threads(path=at.path, name=at.name, ns=ns)
    if not rows or (exact and rows[0]["path"] != at.path):
        return None
    row = rows[0]
    if len(rows) > 1 and row["path"]:
        homes = ", ".join(repr(namespace_of(each["path"])) for each in rows[:3])
        raise InvalidInput(
            f"There is a thread {safe_repr(at.name)} in several namespaces ({homes}, …): say which, with "
            'config["configurable"]["agentmem_namespace"].'
        )
    place = Place(row["shelf_id"], row["swept"])
    return Thread(row["id"], row["path"], at.name, place, bool(row["delta"]), row["litter"], row["line"])


def make_thread(path: str, name: str, now: int, *, delta: bool = False) -> Steps[Thread]:
    """Make a thread with a shelf of its own."""
    yield query.create_namespace(path=path)
    [shelf] = yield query.create_shelf(loose=LOOSE)
    rows = yield query.create_thread(path=path, name=name, shelf=shelf["id"], delta=int(delta), now=now)
    if not rows:
        raise BranchMoved  # somebody else made it: begin again
    return Thread(rows[0]["id"], path, name, Place(shelf["id"], 0), delta, 0, None)


def line_of(thread: Thread, ns: str) -> Steps[int]:
    """A line of a thread; made if it is not there."""
    found = yield from find(ThreadAt(thread.path, thread.name), ns, exact=True)
    return found.line if found is not None and found.line is not None else (yield from make_line(thread, ns))


def make_line(thread: Thread, ns: str) -> Steps[int]:
    """A new line of a thread."""
    rows = yield query.create_line(thread=thread.id, ns=ns)
    if not rows:
        raise BranchMoved  # somebody else made it: begin again
    return int(rows[0]["id"])


def has(at: ThreadAt, ns: str, name: str) -> Steps[bool]:
    """Whether just this thread has a checkpoint."""
    thread = yield from find(at, ns, exact=True)
    return bool(
        thread is not None and thread.line is not None and (yield query.checkpoint_named(line=thread.line, name=name))
    )
