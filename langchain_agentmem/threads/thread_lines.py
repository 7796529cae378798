"""Threads and their lines: a thread's own series of checkpoints, and one for each call of a subgraph.

Here are threads as wholes, too: pruned, deleted, copied, or filled from elsewhere. No content is copied within a
database.

Whoever removes anything holds the shelf first: of two that took it last, each could wait for what the other removes.

Threads as a part of the database: verified, and merged with what another database has of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.namespaces import ThreadKey, namespace_of, range_of
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Part
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.threads import value_store as shelves
from langchain_agentmem.threads.value_store import LOOSE, DamagedValue, Range, StorePosition

OWN_LINE = ""
"""The name of a thread's own line."""


class Thread(NamedTuple):
    """A stored thread, with its shelf as it is, and the id of the requested line."""

    id: int
    path: str
    name: str
    place: StorePosition
    delta: bool
    litter: int
    line: int | None
    created_at: int

    @property
    def identity(self) -> tuple[int, int]:
        """The id and creation time, which differ for a new thread under the id of a deleted one."""
        return self.id, self.created_at


class ThreadDeleted(Exception):
    """The thread of a run was deleted while it ran."""


def find(tx: Transaction, at: ThreadKey, ns: str = OWN_LINE, *, exact: bool = False) -> Thread | None:
    """Find a thread.

    Args:
        tx: The transaction.
        at: The key. Under the empty path: the root's own thread, else the only one of this name.
        ns: The name of the line to look up too. Default: its own.
        exact: The empty path stands for the root.

    Raises:
        InvalidInput: No namespace was given, and several have a thread of this name.
    """
    rows = query.find_thread(tx, path=at.path, name=at.name, ns=ns)
    if not (rows or at.path or exact):
        rows = query.find_threads(tx, name=at.name, ns=ns)
    if not rows:
        return None
    row = rows[0]
    if len(rows) > 1 and row["path"]:
        homes = ", ".join(repr(namespace_of(each["path"])) for each in rows[:3])
        raise InvalidInput(
            f"There is a thread {safe_repr(at.name)} in several namespaces ({homes}, …): say which, with "
            'config["configurable"]["agentmem_namespace"].'
        )
    place = StorePosition(row["shelf_id"], row["swept"])
    delta, litter, line, created_at = (row[name] for name in ("delta", "litter", "line", "created_at"))
    return Thread(row["id"], row["path"], at.name, place, bool(delta), litter, line, created_at)


def make_thread(
    tx: Transaction, path: str, name: str, now: int, *, place: StorePosition | None = None, delta: bool = False
) -> Thread:
    """Create a thread, with its own shelf unless another one is given."""
    query.create_namespace(tx, path=path)
    if place is None:
        [shelf] = query.create_shelf(tx, loose=LOOSE)
        place = StorePosition(shelf["id"], 0)
    rows = query.create_thread(tx, path=path, name=name, shelf=place.shelf, delta=int(delta), now=now)
    if not rows:
        raise BranchMoved  # somebody else made it: begin again
    return Thread(rows[0]["id"], path, name, place, delta, 0, None, now)


def line_of(tx: Transaction, thread: Thread, ns: str) -> int:
    """Return a line of a thread; create it if it does not exist."""
    found = find(tx, ThreadKey(thread.path, thread.name), ns, exact=True)
    return found.line if found is not None and found.line is not None else make_line(tx, thread, ns)


def make_line(tx: Transaction, thread: Thread, ns: str) -> int:
    """Create a line of a thread."""
    rows = query.create_line(tx, thread=thread.id, ns=ns)
    if not rows:
        raise BranchMoved  # somebody else made it: begin again
    return int(rows[0]["id"])


MOST_LITTER = 32
"""Number of removed checkpoints after which the values that only they needed are swept."""
BATCH = 200
"""Checkpoints that one transaction removes, so that no writer waits for long."""


class DeletedThread(NamedTuple):
    """A thread that is gone, and the id of the shelf it had."""

    at: ThreadKey
    shelf: int


def prune(tx: Transaction, at: ThreadKey, *, keep: int) -> int:
    """Remove the oldest checkpoints of a thread, and what only they needed.

    A thread of DeltaChannels stays whole, since its checkpoints need their ancestors.

    Args:
        tx: The transaction.
        at: The thread; the empty path stands for the root.
        keep: The number of checkpoints of each line to keep.

    Returns:
        The number of removed checkpoints; if it is `BATCH`, there are more.
    """
    thread = find(tx, at, exact=True)
    if thread is None or thread.delta:
        return 0
    shelves.hold(tx, thread.place)
    removed = 0
    for line in query.lines_of(tx, thread=thread.id):
        rows = query.surplus_checkpoints(tx, line=line["id"], keep=keep, before=None, limit=BATCH - removed)
        _remove_oldest(tx, line["id"], [row["name"] for row in rows])
        removed += len(rows)
        if removed >= BATCH:
            break
    _sweep(tx, thread, removed, now=removed < BATCH)  # the last batch sweeps
    return removed


def _sweep(tx: Transaction, thread: Thread, removed: int, *, now: bool) -> None:
    """Sweep what only removed checkpoints needed, now or when there are more of them."""
    if now and thread.litter + removed:
        shelves.sweep(tx, thread.place.shelf)
    elif removed:
        query.add_litter(tx, shelf=thread.place.shelf, count=removed)


def delete(tx: Transaction, threads: Rows) -> list[DeletedThread]:
    """Delete threads with everything that belongs to them.

    Args:
        tx: The transaction.
        threads: The rows of the threads.

    Returns:
        The deleted threads.
    """
    used = sorted({row["shelf_id"] for row in threads})
    for shelf in used:
        query.clear_litter(tx, shelf=shelf)
    for row in threads:
        query.delete_thread(tx, thread=row["id"])
    for shelf in used:
        shelves.sweep(tx, shelf)
        query.delete_idle_shelf(tx, shelf=shelf)
    for path in sorted({row["path"] for row in threads}):
        query.delete_empty_namespaces(tx, path=path)
    return [DeletedThread(ThreadKey(row["path"], row["name"]), row["shelf_id"]) for row in threads]


def delete_for_runs(tx: Transaction, checkpoints: Rows, writes: Rows) -> None:
    """Remove the checkpoints that some runs made, with what was written towards the next ones.

    Pending writes of these runs to checkpoints of others are deleted too, or their next runs would take them over.

    Args:
        tx: The transaction.
        checkpoints: The rows of the checkpoints.
        writes: The rows of what the runs wrote.
    """
    emptied = sorted({row["shelf_id"] for row in (*checkpoints, *writes)})
    for shelf in emptied:
        query.clear_litter(tx, shelf=shelf)
    if checkpoints:
        names = [{"line": row["line_id"], "name": row["name"]} for row in checkpoints]
        query.delete_checkpoint.many(tx, names)
        query.delete_writes.many(tx, names)
    for row in writes:
        query.delete_writes_of_run(
            tx, line=row["line_id"], checkpoint=row["checkpoint"], task=row["task"], run_id=row["run_id"]
        )
    for shelf in emptied:
        shelves.sweep(tx, shelf)


def copy(tx: Transaction, thread: Thread, copied: Thread | None, target: str, *, now: int) -> Thread:
    """Copy a thread with all its lines, checkpoints and writes, and no content.

    Args:
        tx: The transaction.
        thread: The thread.
        copied: An earlier copy, which is added to; None for none.
        target: The id of the copy, which is in the same namespace.
        now: The time, in microseconds since 1970.

    Returns:
        The copy.

    Raises:
        InvalidInput: There is another thread of this id.
    """
    shelves.hold(tx, thread.place)
    if copied is None:
        copied = make_thread(tx, thread.path, target, now, place=thread.place, delta=thread.delta)
    elif copied.place.shelf != thread.place.shelf:
        raise InvalidInput(
            f"There is another thread {safe_repr(target)} already, which is no copy of {safe_repr(thread.name)}: copy "
            "it to an id that is free."
        )
    elif thread.delta and not copied.delta:
        query.mark_delta(tx, thread=copied.id)
    for each in query.lines_of(tx, thread=thread.id):
        line = line_of(tx, copied, each["ns"])
        add(tx, line, [{**row, "line": line} for row in _rows(tx, each["id"]).values()])
    return copied


def add(tx: Transaction, line: int, rows: Sequence[dict[str, Any]]) -> int:
    """Store those rows of a line that it has not.

    Args:
        tx: The transaction.
        line: The line.
        rows: Values, writes and checkpoints, as `dump` of `transfer` returns them.

    Returns:
        The number of added checkpoints.
    """
    known = _rows(tx, line)
    fresh = [row for row in rows if _place(row) not in known]
    if values := [row for row in fresh if "version" in row]:
        query.insert_value.many(tx, values)
    if writes := [row for row in fresh if "task" in row]:
        query.insert_write.many(tx, [{"run_id": None, **row} for row in writes])
    checkpoints = [row for row in fresh if "head" in row]
    if checkpoints:
        query.insert_checkpoint.many(tx, [{"now": row.pop("created_at"), **row} for row in map(dict, checkpoints)])
    return len(checkpoints)


def retain(tx: Transaction, thread: Thread, line: int, ns: str, current: str, retention: Retention, now: int) -> None:
    """Remove expired checkpoints, a few with every new one, so that nobody waits for long."""
    age = retention.max_age
    rows = query.surplus_checkpoints(
        tx,
        line=line,
        keep=retention.keep_last,
        before=None if age is None else now - int(age.total_seconds() * 1_000_000),
        limit=MOST_LITTER,
    )
    names = [row["name"] for row in rows if row["name"] != current]
    _remove_oldest(tx, line, names)
    removed = len(names)
    if ns == OWN_LINE:
        calls = query.old_calls(tx, thread=thread.id, limit=MOST_LITTER)
        for row in calls:
            query.delete_line(tx, line=row["id"])
        removed += len(calls)
    _sweep(tx, thread, removed, now=thread.litter + removed >= MOST_LITTER)


def _remove_oldest(tx: Transaction, line: int, names: Sequence[str]) -> None:
    """Remove the oldest checkpoints of a line, their writes, and late writes of removed ones."""
    if names:
        query.delete_checkpoint.many(tx, [{"line": line, "name": name} for name in names])
        query.delete_stray_writes(tx, line=line, up_to=max(names))


def _rows(tx: Transaction, line: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the checkpoints, values and writes of a line by their keys."""
    checkpoints = query.line_checkpoints(tx, line=line)
    values = query.line_values(tx, line=line)
    writes = query.line_writes(tx, line=line)
    rows = (*checkpoints, *values, *writes)
    # A row is that of a database, which is no dictionary.
    return {_place(row): row for row in ({name: row[name] for name in row.keys()} for row in rows)}  # noqa: SIM118


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a checkpoint, a value or a write within its line."""
    if "task" in row:
        return row["checkpoint"], row["task"], row["place"]
    return (row["channel"], row["version"]) if "version" in row else (row["name"],)


PAGE = 200


def problems(tx: Transaction, low: str, high: str) -> list[str]:
    """Return the problems of the threads of some namespaces.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.

    Returns:
        The problems, one sentence each; empty if there are none.
    """
    found: list[str] = []
    all_needed: dict[int, list[Range]] = {}
    threads = query.threads_within(tx, low=low, high=high, name=None)
    for thread in threads:
        for line in query.lines_of(tx, thread=thread["id"]):
            needed = _line(tx, line["id"], thread["name"], found)
            all_needed.setdefault(thread["shelf_id"], []).extend(needed)
    for shelf, needed in all_needed.items():
        there: list[Range] = []
        after = -1
        while page := query.parts_after(tx, shelf=shelf, after=after, limit=PAGE):
            there += [(row["number"], row["number"] + 1) for row in page]
            found += [
                f"part {row['number']} of shelf {shelf} is not what was stored"
                for row in page
                if row["body"] is None or zlib.crc32(bytes(row["body"])) != row["checksum"]
            ]
            there = shelves.covered(there)
            after = page[-1]["number"]
        if shelves.covered([*there, *needed]) != there:
            found.append(f"a value needs parts that are missing on shelf {shelf}")
    gaps = query.shelf_gaps(tx, loose=LOOSE)
    return found + [f"shelf {row['id']} has more parts than it counted" for row in gaps]


def _line(tx: Transaction, line: int, thread: str, found: list[str]) -> list[Range]:
    for row in query.line_checkpoints(tx, line=line):
        for name, beside in (("head", row["versions"]), ("metadata", "")):
            try:
                shelves.opened(row[name], beside)
            except DamagedValue as error:
                where = f"the checkpoint {safe_repr(row['name'])} of the thread {safe_repr(thread)}"
                found.append(f"the {name} of {where}: {error}")
    needed: list[Range] = []
    for row in (*query.line_values(tx, line=line), *query.line_writes(tx, line=line)):
        try:
            needed += shelves.ranges_of(shelves.unpack(row["recipe"]))
        except (DamagedValue, TypeError, ValueError, IndexError) as error:
            where = f"the channel {safe_repr(row['channel'])} of the thread {safe_repr(thread)}"
            found.append(f"a value of {where}: {error}")
    return needed


def merge(
    tx: Transaction,
    at: ThreadKey,
    parts: Iterable[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    delta: bool,
) -> int:
    """Add to a thread the checkpoints, values and writes that it lacks.

    Args:
        tx: The transaction.
        at: The thread, which exists.
        parts: The parts of the values in another database, with their bodies.
        rows: The rows of its lines there, each with the "ns" of its line.
        delta: True if its checkpoints need their ancestors.

    Returns:
        The number of added checkpoints.
    """
    thread = find(tx, at, exact=True)
    assert thread is not None  # noqa: S101 - for the type checker
    if delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    stored = {
        row["number"]: shelves.StoredPart(
            form=row["form"], name=row["name"], body=row["body"], loose=row["number"] >= LOOSE
        )
        for row in parts
    }
    numbers = shelves.adopt(tx, thread.place, stored)
    added = 0
    for ns in dict.fromkeys(row["ns"] for row in rows):
        line = line_of(tx, thread, ns)
        placed = [{**row, "line": line} for row in rows if row["ns"] == ns]
        for row in placed:
            if "recipe" in row:
                row["recipe"] = shelves.pack(shelves.moved(shelves.unpack(row["recipe"]), numbers.__getitem__))
        added += add(tx, line, placed)
    return added


PART = Part(
    tables={
        "checkpoints": ("thread", "shelf", "checkpoint_line", "part", "checkpoint", "channel_value", "pending_write")
    },
    verify={"threads": lambda tx: problems(tx, *range_of(()))},
)
"""Threads are erased with what they remembered: `rewinding` does that."""
