"""The rows of threads and of their checkpoint namespaces: the root namespace, and those of subgraphs.

The functions for whole threads prune, delete, copy and merge them. Within a database, a copy of a thread shares the
contents of the original.

A part store contains the parts of a thread's values (see `value_store`). Every removal locks the part store before it
deletes anything. Otherwise two transactions could deadlock.

`PART` registers the tables of threads and the function that verifies them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.namespaces import ThreadKey, namespace_of, path_range
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Part
from langchain_agentmem.storage.transaction import Rows
from langchain_agentmem.threads import value_store
from langchain_agentmem.threads.value_store import LOOSE_START, DamagedValue, Range, StoredPart, StorePosition

ROOT_NS = ""
"""The checkpoint namespace of a thread's own graph."""


class Thread(NamedTuple):
    """A thread as last read, with its part store and one of its checkpoint namespaces.

    Attributes:
        id: The row id of the thread.
        path: The path of its namespace.
        name: Its "thread_id" in LangGraph.
        store: The part store.
        delta: True if its checkpoints need their ancestors, because the graph has DeltaChannels.
        removed_count: The number of checkpoints and subgraph calls removed since the last sweep of the part store.
        ns_id: The row id of the checkpoint namespace; None if it is missing or unknown.
        created_at: The creation time, in microseconds since 1970.
    """

    id: int
    path: str
    name: str
    store: StorePosition
    delta: bool
    removed_count: int
    ns_id: int | None
    created_at: int

    @property
    def identity(self) -> tuple[int, int]:
        """The row id and the creation time: a new thread may get the row id of a deleted one."""
        return self.id, self.created_at


class ThreadDeleted(Exception):
    """The thread of a run was deleted during the run."""


def find_thread(tx: Transaction, at: ThreadKey, ns: str = ROOT_NS, *, exact: bool = False) -> Thread | None:
    """Find a thread; return None if it does not exist.

    Args:
        tx: The transaction.
        at: The key of the thread. If the path is empty and the root namespace lacks this thread, all namespaces are
            searched.
        ns: The checkpoint namespace whose row id is looked up too. Default: the root.
        exact: True to search only the namespace of `at`. Default: False.

    Raises:
        InvalidInput: All namespaces were searched, and several have a thread of this name.
    """
    rows = query.find_thread(tx, path=at.path, name=at.name, ns=ns)
    if not (rows or at.path or exact):
        rows = query.find_threads(tx, name=at.name, ns=ns)
    if not rows:
        return None
    row = rows[0]
    if len(rows) > 1 and row["path"]:
        namespaces = ", ".join(repr(namespace_of(each["path"])) for each in rows[:3])
        raise InvalidInput(
            f"There is a thread {safe_repr(at.name)} in several namespaces ({namespaces}, …): select one with "
            'config["configurable"]["agentmem_namespace"].'
        )
    store = StorePosition(row["store_id"], row["sweep_count"])
    delta, removed_count, ns_id, created_at = (row[name] for name in ("delta", "removed_count", "ns_id", "created_at"))
    return Thread(row["id"], row["path"], at.name, store, bool(delta), removed_count, ns_id, created_at)


def make_thread(
    tx: Transaction, path: str, name: str, now: int, *, store: StorePosition | None = None, delta: bool = False
) -> Thread:
    """Create a thread.

    Args:
        tx: The transaction.
        path: The path of its namespace.
        name: Its id in LangGraph.
        now: The time, in microseconds since 1970.
        store: The part store. Default: a new one.
        delta: True if its checkpoints need their ancestors. Default: False.

    Raises:
        BranchMoved: Another transaction has created the thread; the operation is retried.
    """
    query.create_namespace(tx, path=path)
    if store is None:
        [row] = query.create_store(tx, next_part=LOOSE_START)
        store = StorePosition(row["id"], 0)
    rows = query.create_thread(tx, path=path, name=name, store=store.store_id, delta=int(delta), now=now)
    if not rows:
        raise BranchMoved  # another transaction created it: retry
    return Thread(rows[0]["id"], path, name, store, delta, 0, None, now)


def ensure_ns(tx: Transaction, thread: Thread, ns: str) -> int:
    """Return the row id of a thread's checkpoint namespace, which is created if it is missing."""
    existing = find_thread(tx, ThreadKey(thread.path, thread.name), ns, exact=True)
    return existing.ns_id if existing is not None and existing.ns_id is not None else make_ns(tx, thread, ns)


def make_ns(tx: Transaction, thread: Thread, ns: str) -> int:
    """Create a checkpoint namespace of a thread; return its row id."""
    rows = query.create_ns(tx, thread=thread.id, ns=ns)
    if not rows:
        raise BranchMoved  # another transaction created it: retry
    return int(rows[0]["id"])


MAX_REMOVED = 32
"""The removals after which the part store is swept, and the most checkpoints or subgraph calls that a `put` removes."""
BATCH_SIZE = 200
"""The maximum number of checkpoints that `prune_thread` removes per transaction, so that no writer waits for long."""


class DeletedThread(NamedTuple):
    """A deleted thread, and the row id of its part store."""

    at: ThreadKey
    store_id: int


def prune_thread(tx: Transaction, at: ThreadKey, *, keep: int) -> int:
    """Remove the oldest checkpoints of a thread, with the values that only they needed.

    A thread with DeltaChannels is not pruned, because its checkpoints need their ancestors.

    Args:
        tx: The transaction.
        at: The thread. An empty path means the root namespace only.
        keep: The number of newest checkpoints to keep in each checkpoint namespace. The newest one is always kept.

    Returns:
        The number of removed checkpoints. If it is `BATCH_SIZE`, call again: there may be more to remove.
    """
    thread = find_thread(tx, at, exact=True)
    if thread is None or thread.delta:
        return 0
    value_store.lock_store(tx, thread.store)
    removed = 0
    for ns_row in query.list_ns(tx, thread=thread.id):
        surplus = query.surplus_checkpoints(tx, ns_id=ns_row["id"], keep=keep, before=None, limit=BATCH_SIZE - removed)
        _remove_oldest(tx, ns_row["id"], [row["name"] for row in surplus])
        removed += len(surplus)
        if removed >= BATCH_SIZE:
            break
    _sweep_or_count(tx, thread, removed, sweep_now=removed < BATCH_SIZE)  # the last batch sweeps
    return removed


def _sweep_or_count(tx: Transaction, thread: Thread, removed: int, *, sweep_now: bool) -> None:
    """Sweep the part store now, or only count the removed checkpoints for a later sweep."""
    if sweep_now and thread.removed_count + removed:
        value_store.sweep_store(tx, thread.store.store_id)
    elif removed:
        query.add_removed_count(tx, store=thread.store.store_id, count=removed)


def delete_threads(tx: Transaction, threads: Rows) -> list[DeletedThread]:
    """Delete threads with their checkpoints, values and pending writes.

    Part stores and namespaces that become empty are deleted too.

    Args:
        tx: The transaction.
        threads: The rows of the threads.

    Returns:
        The deleted threads.
    """
    store_ids = sorted({row["store_id"] for row in threads})
    for store_id in store_ids:
        query.reset_removed_count(tx, store=store_id)
    for row in threads:
        query.delete_thread(tx, thread=row["id"])
    for store_id in store_ids:
        value_store.sweep_store(tx, store_id)
        query.delete_idle_store(tx, store=store_id)
    for path in sorted({row["path"] for row in threads}):
        query.delete_empty_namespaces(tx, path=path)
    return [DeletedThread(ThreadKey(row["path"], row["name"]), row["store_id"]) for row in threads]


def delete_for_runs(tx: Transaction, checkpoints: Rows, writes: Rows) -> None:
    """Remove the checkpoints of some runs, with their pending writes.

    The writes of these runs to remaining checkpoints are deleted too. Otherwise later runs would apply them.

    Args:
        tx: The transaction.
        checkpoints: The rows of the checkpoints.
        writes: The rows of the pending writes of the runs.
    """
    store_ids = sorted({row["store_id"] for row in (*checkpoints, *writes)})
    for store_id in store_ids:
        query.reset_removed_count(tx, store=store_id)
    if checkpoints:
        names = [{"ns_id": row["ns_id"], "name": row["name"]} for row in checkpoints]
        query.delete_checkpoint.run_many(tx, names)
        query.delete_writes.run_many(tx, names)
    for row in writes:
        query.delete_writes_of_run(tx, **{name: row[name] for name in ("ns_id", "checkpoint", "task", "run_id")})
    for store_id in store_ids:
        value_store.sweep_store(tx, store_id)


def copy_thread(tx: Transaction, thread: Thread, copied: Thread | None, target: str, *, now: int) -> Thread:
    """Copy a thread with all its checkpoints and writes, without copying content.

    Args:
        tx: The transaction.
        thread: The thread.
        copied: An existing copy, to which missing rows are added; None to create a copy.
        target: The thread id of the copy, which is in the same namespace.
        now: The time, in microseconds since 1970.

    Returns:
        The copy.

    Raises:
        InvalidInput: `copied` is not a copy of the thread: it has another part store.
    """
    value_store.lock_store(tx, thread.store)
    if copied is None:
        copied = make_thread(tx, thread.path, target, now, store=thread.store, delta=thread.delta)
    elif copied.store.store_id != thread.store.store_id:
        raise InvalidInput(f"The thread {safe_repr(target)} is not a copy of {safe_repr(thread.name)}. Use another id.")
    elif thread.delta and not copied.delta:
        query.mark_delta(tx, thread=copied.id)
    for ns_row in query.list_ns(tx, thread=thread.id):
        ns_id = ensure_ns(tx, copied, ns_row["ns"])
        add_rows(tx, ns_id, [{**row, "ns_id": ns_id} for row in _load_rows_by_key(tx, ns_row["id"]).values()])
    return copied


def add_rows(tx: Transaction, ns_id: int, rows: Sequence[dict[str, Any]]) -> int:
    """Store the rows that a checkpoint namespace lacks.

    Args:
        tx: The transaction.
        ns_id: The row id of the checkpoint namespace.
        rows: Rows of values, writes and checkpoints. They are distinguished by their columns.

    Returns:
        The number of added checkpoints.
    """
    existing = _load_rows_by_key(tx, ns_id)
    new_rows = [row for row in rows if _get_row_key(row) not in existing]
    if values := [row for row in new_rows if "version" in row]:
        query.insert_value.run_many(tx, values)
    if writes := [row for row in new_rows if "task" in row]:
        query.insert_write.run_many(tx, [{"run_id": None, **row} for row in writes])
    checkpoints = [row for row in new_rows if "head" in row]
    if checkpoints:
        query.insert_checkpoint.run_many(tx, [{"now": row.pop("created_at"), **row} for row in map(dict, checkpoints)])
    return len(checkpoints)


def remove_expired(tx: Transaction, thread: Thread, ns_id: int, ns: str, new: str, rules: Retention, now: int) -> None:
    """Remove expired checkpoints and subgraph calls, at most `MAX_REMOVED` each.

    This function is called for every new checkpoint, so each call has little to remove.

    Args:
        tx: The transaction.
        thread: The thread.
        ns_id: The row id of the checkpoint namespace.
        ns: The checkpoint namespace. Ended subgraph calls are removed only for the root namespace.
        new: The id of the new checkpoint, which is kept.
        rules: The rules that determine which checkpoints have expired.
        now: The time, in microseconds since 1970.
    """
    before = None if rules.max_age is None else now - int(rules.max_age.total_seconds() * 1_000_000)
    rows = query.surplus_checkpoints(tx, ns_id=ns_id, keep=rules.keep_last, before=before, limit=MAX_REMOVED)
    names = [row["name"] for row in rows if row["name"] != new]
    _remove_oldest(tx, ns_id, names)
    removed = len(names)
    if ns == ROOT_NS:
        ended_calls = query.ended_subgraphs(tx, thread=thread.id, limit=MAX_REMOVED)
        for row in ended_calls:
            query.delete_ns(tx, ns_id=row["id"])
        removed += len(ended_calls)
    _sweep_or_count(tx, thread, removed, sweep_now=thread.removed_count + removed >= MAX_REMOVED)


def _remove_oldest(tx: Transaction, ns_id: int, names: Sequence[str]) -> None:
    """Remove the oldest checkpoints of a checkpoint namespace, with their pending writes.

    Stray pending writes, which arrived after an earlier removal of their checkpoint, are deleted too.
    """
    if names:
        query.delete_checkpoint.run_many(tx, [{"ns_id": ns_id, "name": name} for name in names])
        query.delete_stray_writes(tx, ns_id=ns_id, up_to=max(names))


def _load_rows_by_key(tx: Transaction, ns_id: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the checkpoints, values and writes of a checkpoint namespace by their keys."""
    checkpoints = query.ns_checkpoints(tx, ns_id=ns_id)
    values = query.ns_values(tx, ns_id=ns_id)
    writes = query.ns_writes(tx, ns_id=ns_id)
    rows = (*checkpoints, *values, *writes)
    # Convert the rows of the database driver to dictionaries, which `add_rows` needs.
    return {_get_row_key(row): row for row in ({name: row[name] for name in row.keys()} for row in rows)}  # noqa: SIM118


def _get_row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a checkpoint, value or write within its checkpoint namespace."""
    if "task" in row:
        return row["checkpoint"], row["task"], row["idx"]
    return (row["channel"], row["version"]) if "version" in row else (row["name"],)


PAGE_SIZE = 200
"""The number of parts that `find_problems` reads per query."""


def find_problems(tx: Transaction, low: str, high: str) -> list[str]:
    """Return the problems of the threads in a range of namespaces.

    The number series are checked for all part stores, regardless of the range.

    Args:
        tx: The transaction.
        low: The inclusive lower bound of the namespace paths.
        high: The exclusive upper bound of the namespace paths.

    Returns:
        The problems, one sentence each; empty if there are none.
    """
    problems: list[str] = []
    all_needed: dict[int, list[Range]] = {}
    threads = query.threads_within(tx, low=low, high=high, name=None)
    for thread in threads:
        for row in query.list_ns(tx, thread=thread["id"]):
            needed = _check_ns(tx, row["id"], thread["name"], problems)  # adds to `problems`
            all_needed.setdefault(thread["store_id"], []).extend(needed)
    for store_id, needed in all_needed.items():
        present: list[Range] = []
        last_number = -1
        while page := query.parts_after(tx, store=store_id, after=last_number, limit=PAGE_SIZE):
            present += [(part["number"], part["number"] + 1) for part in page]
            damaged = [row for row in page if row["body"] is None or zlib.crc32(bytes(row["body"])) != row["checksum"]]
            problems += [
                f"part {row['number']} of part store {store_id} is damaged (checksum mismatch)" for row in damaged
            ]
            present = value_store.union_ranges(present)
            last_number = page[-1]["number"]
        if value_store.union_ranges([*present, *needed]) != present:
            problems.append(f"a value needs parts that are missing in part store {store_id}")
    gaps = query.store_gaps(tx, next_part=LOOSE_START)
    return problems + [f"part store {row['id']} has part numbers above its counter" for row in gaps]


def _check_ns(tx: Transaction, ns_id: int, thread: str, problems: list[str]) -> list[Range]:
    for row in query.ns_checkpoints(tx, ns_id=ns_id):
        for name, extra_text in (("head", row["versions"]), ("metadata", "")):
            try:
                value_store.strip_checksum(row[name], extra_text)  # raises if the checksum does not match
            except DamagedValue as error:
                label = f"the checkpoint {safe_repr(row['name'])} of the thread {safe_repr(thread)}"
                problems.append(f"the {name} of {label}: {error}")
    needed: list[Range] = []
    for row in (*query.ns_values(tx, ns_id=ns_id), *query.ns_writes(tx, ns_id=ns_id)):
        try:
            needed += value_store.ranges_of(value_store.unpack(row["recipe"]))
        except (DamagedValue, TypeError, ValueError, IndexError) as error:
            label = f"the channel {safe_repr(row['channel'])} of the thread {safe_repr(thread)}"
            problems.append(f"a value of {label}: {error}")
    return needed


def merge_thread(
    tx: Transaction,
    at: ThreadKey,
    parts: Iterable[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    delta: bool,
) -> int:
    """Add checkpoints, values and writes from another database that a thread lacks.

    Args:
        tx: The transaction.
        at: The thread, which must exist.
        parts: The rows of the parts in the other database, with their bodies.
        rows: The rows of checkpoints, values and writes in the other database, each with its checkpoint namespace "ns".
        delta: True if the added checkpoints need their ancestors.

    Returns:
        The number of added checkpoints.
    """
    thread = find_thread(tx, at, exact=True)
    assert thread is not None  # noqa: S101 - for the type checker
    if delta and not thread.delta:
        query.mark_delta(tx, thread=thread.id)
    stored = {
        row["number"]: StoredPart(row["encoding"], row["name"], row["body"], loose=row["number"] >= LOOSE_START)
        for row in parts
    }
    numbers = value_store.import_parts(tx, thread.store, stored)
    added = 0
    for ns in dict.fromkeys(row["ns"] for row in rows):
        ns_id = ensure_ns(tx, thread, ns)
        own_rows = [{**row, "ns_id": ns_id} for row in rows if row["ns"] == ns]
        for row in own_rows:
            if "recipe" in row:
                recipe = value_store.renumber(value_store.unpack(row["recipe"]), numbers.__getitem__)
                row["recipe"] = value_store.pack(recipe)
        added += add_rows(tx, ns_id, own_rows)
    return added


_TABLES = ("thread", "part_store", "checkpoint_ns", "part", "checkpoint", "channel_value", "pending_write")
PART = Part(tables={"checkpoints": _TABLES}, verify={"threads": lambda tx: find_problems(tx, *path_range(()))})
"""The `Part` of threads. It has no `erase` function: `rewinding` erases threads with their memory."""
