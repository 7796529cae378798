"""The sealing of memory: each put stores the place of its checkpoint in memory.

This module uses five terms:

- A *group* holds the memory rows that one execution of a task wrote.
- A *place* is a position on a branch. A checkpoint with a place shows the lineage of the place.
- The *lineage* of a place is its branch up to that position, and the parents of the branch up to each fork.
- To *seal* a group is to give its rows a position on a branch.
- The *base* of a subgraph's branch is the visible memory of the graph that called the subgraph: the place of that
  graph's checkpoint, and the groups that the calling task had written when the subgraph began.

In the transaction that puts a checkpoint, the saver seals the groups of the tasks that led to the checkpoint. The place
of the checkpoint is the position of these groups. If there are none, the checkpoint shares its parent's place. If there
are groups and the parent's branch has later positions, the groups go to a new branch, which begins at the parent's
place. So a fork is one row, which the first write after the parent's place creates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.errors import BranchMoved, InvalidInput, StepIsOver, safe_repr
from langchain_agentmem.messages.message import ROLE_SOURCES
from langchain_agentmem.rewinding import graph_runs, memory_rows
from langchain_agentmem.rewinding.branches import load_view
from langchain_agentmem.rewinding.graph_runs import GraphLoop, GraphRun, GraphTask, Groups, Place, RunRegistry
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, MemoryView, WriteTarget
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage, thread_recorder
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads.checkpoint_log import short_versions
from langchain_agentmem.threads.thread_rows import Thread, find_thread, make_thread

THREAD_BRANCH = "thread"
"""The kind of the branches of threads."""

STALE_AFTER = 24 * 3_600 * 1_000_000
"""The age, in microseconds, up to which unsealed groups are kept. Their tasks may still be running."""

_INPUT_TASK = "00000000-0000-0000-0000-000000000000"
"""The task id under which LangGraph stores the input of a graph."""
_CONTROL_CHANNELS = frozenset({"__error__", "__error_source_node__", "__interrupt__", "__resume__"})


class ParentCheckpoint(NamedTuple):
    """The fields of the parent checkpoint that a put needs.

    Attributes:
        step: Its step number.
        versions: Its channel versions.
        versions_seen: The versions that each node has seen.
    """

    step: int | None
    versions: Mapping[str, Any]
    versions_seen: Mapping[str, Any]


Prefetched: TypeAlias = tuple[Rows, Rows, Mapping[str, Rows]]
"""The rows of three queries that a put sends before it waits for a result.

- The row of the thread, locked until the transaction ends. Empty for a subgraph.
- The newest other checkpoint of the thread, with its place. Empty for a subgraph.
- By the id of a checkpoint that the run began with or put last: its place, and the tasks that finished in its step.
"""


@dataclass(slots=True)
class CheckpointPut:
    """A checkpoint that is being put, and the previous head of its thread.

    Attributes:
        at: The key of the thread, as the config names it.
        thread: The row of the thread, with its checkpoint namespace.
        ns: The checkpoint namespace of the checkpoint.
        parent: The id of the parent checkpoint.
        checkpoint: The checkpoint.
        metadata: Its metadata.
        configurable: The configurable of the config.
        read_parent: The function that reads the parent checkpoint.
        prefetched: The rows of the queries that were already sent.
        now: The time, in microseconds since 1970.
        read_messages: The function that reads the new messages of the checkpoint. With `everything`, it reads all
            messages of the checkpoint and of its parent. None if messages are not recorded.
        stored_ids: The ids of the messages that are new in the conversation; empty before `seal`.
        head: The id of the newest other checkpoint of the thread; None if there is none, or for a subgraph.
        head_place: The place of the head.
        moves_head: True if this checkpoint becomes the head.
        author: The author that owns the thread's rows of memory; None if there is none yet.
    """

    at: ThreadKey
    thread: Thread
    ns: str
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    configurable: Mapping[str, Any]
    read_parent: Callable[[Transaction], ParentCheckpoint | None]
    prefetched: Prefetched
    now: int
    read_messages: Callable[..., Sequence[CheckpointMessage]] | None
    stored_ids: list[str] = field(default_factory=list)
    head: str | None = None
    head_place: Place | None = None
    moves_head: bool = False
    author: Author | None = None

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return str(self.checkpoint["id"])

    @property
    def ns_id(self) -> int:
        """The row id of its checkpoint namespace."""
        return self.thread.ns_id or 0

    def read_head(self) -> None:
        """Read the head of the thread, which is locked until the transaction ends."""
        if self.ns:
            return
        [thread], newest, _ = self.prefetched
        self.author = None if thread["author"] is None else Author(thread["author"], thread["scope"])
        self.moves_head = True
        for row in newest:
            self.head, self.moves_head = row["name"], row["name"] < self.id
            self.head_place = None if row["branch_id"] is None else (row["branch_id"], row["position"])


class _SubgraphBase(NamedTuple):
    """The base of a subgraph's branch.

    Attributes:
        checkpoint: The id of the outer graph's checkpoint.
        place: The place of that checkpoint, or of the next outer one that has a place.
        groups: The groups that are visible in addition to the lineage of the place.
    """

    checkpoint: str
    place: Place | None
    groups: Groups


_EMPTY_BASE = _SubgraphBase("", None, {})
"""No base. It is stored only for a fork of a thread's own graph with groups older than rows of its parent branch."""


# -- queries, views and groups ----------------------------------------------------------------------------------------


def prefetch(
    tx: Transaction, runs: RunRegistry, configurable: Mapping[str, Any], at: ThreadKey, thread: Thread, checkpoint: str
) -> Prefetched:
    """Send the queries that a put needs, without waiting for their results.

    A put also locks the thread, unless the graph is a subgraph.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        configurable: The configurable of the config.
        at: The key of the thread, from its namespace and id.
        thread: The row of the thread, with its checkpoint namespace.
        checkpoint: The id of the checkpoint that is put.
    """
    ns = configurable.get("checkpoint_ns") or ""
    locked_thread: Rows = ()
    head: Rows = ()
    if not ns:
        locked_thread = query.lock_thread.lazy(tx, thread=thread.id)
        head = query.newest_other_checkpoint.lazy(tx, ns_id=thread.ns_id, checkpoint=checkpoint)
    run_starts: dict[str, Rows] = {}
    if (run := runs.ensure_run(configurable, at)) is not None and ns in run.loops:
        for loop, checkpoint_id in runs.list_unread_checkpoints(run):
            if loop.ns == ns:
                start = {"thread": thread.id, "ns_id": thread.ns_id, "ns": ns, "checkpoint": checkpoint_id}
                run_starts[checkpoint_id] = query.find_run_start.lazy(tx, **start)
    return locked_thread, head, run_starts


def load_start_places(
    tx: Transaction, runs: RunRegistry, run: GraphRun, ns: str = "", prefetched: Mapping[str, Rows] | None = None
) -> None:
    """Read the unknown places of checkpoints that the loops of a run began with or put last.

    Also read the tasks that finished in the first step of each loop. The results are stored in the loops.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        run: The run.
        ns: The checkpoint namespace of the loop that `prefetched` belongs to.
        prefetched: The rows of queries that were already sent for that loop, by checkpoint id.
    """
    for loop, checkpoint in runs.list_unread_checkpoints(run):
        rows: Rows | None = prefetched.get(checkpoint) if prefetched and loop.ns == ns else None
        if rows is None:
            thread = find_thread(tx, run.thread_key, loop.ns)
            start = {"ns": loop.ns, "checkpoint": checkpoint}
            rows = () if thread is None else query.find_run_start(tx, thread=thread.id, ns_id=thread.ns_id, **start)
        place = next(((row["branch_id"], row["position"]) for row in rows if row["branch_id"] is not None), None)
        finished = tuple(
            graph_runs.FinishedTask(row["task"], row["caller"], tuple(json.loads(row["groups"])))
            for row in rows
            if row["task"] is not None and (loop.tasks_with_results is None or row["task"] in loop.tasks_with_results)
        )
        has_memory = bool(finished)
        if place is not None and not (run.has_memory or has_memory):  # a place may show only recorded messages
            has_memory = bool(query.has_task_memory(tx, branch=place[0], position=place[1]))
        with runs.lock:
            loop.places.setdefault(checkpoint, place)
            if checkpoint == loop.start_id:
                loop.finished_tasks = finished
            run.has_memory = run.has_memory or has_memory


def load_task_view(
    tx: Transaction, runs: RunRegistry, configurable: Mapping[str, Any], at: ThreadKey
) -> tuple[GraphRun, graph_runs.TaskExecution, MemoryView]:
    """Return the run, the execution and the view of the running task.

    A task sees the lineages of its graph and of outer graphs. It also sees its own unsealed writes, and those of its
    callers and of earlier steps. It does not see the writes of parallel tasks.

    Raises:
        InvalidInput: The graph uses another checkpointer.
        StepIsOver: Another attempt has replaced this one.
    """
    run, levels, callers, execution = runs.resolve_execution(configurable, at)
    load_start_places(tx, runs, run)
    writes = runs.collect_visible_writes(run, levels, callers, execution)
    known = run.lineages
    run.lineages = lineages = {place: known.get(place) or _load_lineage_rows(tx, place) for place in writes.places}
    rows = [row for lineage in lineages.values() for row in lineage]
    branches = dict.fromkeys((row["branch_id"], row["up_to"]) for row in rows)
    descends = len(writes.places) == 1 and all(row["with_base"] is None for row in rows)
    groups, time = sorted(writes.groups.items()), parse_id_time(levels[-1].checkpoint)
    return run, execution, MemoryView(tuple(branches), tuple(groups), time, descends)


def open_group(tx: Transaction, runs: RunRegistry, run: GraphRun, execution: graph_runs.TaskExecution, now: int) -> int:
    """Return the group that an execution of a task writes to; create it if missing.

    The following groups of the same task are deleted: groups of earlier attempts in the same run, groups of executions
    that ended without a result, and groups older than a day. Groups of other runs and of finished tasks are kept, since
    the checkpoints that follow them may still be put.

    Raises:
        StepIsOver: Another execution has replaced this one, its writes are already sealed, or its thread was deleted.
    """
    group, task = runs.choose_group(run, execution), execution.task
    was_stored = execution.was_stored  # read before the lookup: a parallel call may commit the group after it
    if query.lock_group(tx, group=group):
        execution.was_stored = True
    else:
        if was_stored or query.is_sealed(tx, group=group):
            raise StepIsOver
        thread = find_thread(tx, run.thread_key)
        if run.is_thread_deleted(thread):
            raise StepIsOver
        if thread is None:
            runs.scopes.check_new(*run.thread_key)
            thread = make_thread(tx, *run.thread_key, now)
        for row in query.groups_of_task(tx, thread=thread.id, task=task.id):
            # The group of this execution exists if another call of the execution began at the same time.
            has_other_owner = row["owner"] not in (None, execution.run_token)
            is_live = has_other_owner and not row["ended"] and row["created_at"] > now - STALE_AFTER
            if row["id"] != group and not is_live and row["id"] not in json.loads(row["finished"] or "[]"):
                drop_group(tx, row["id"])
        fields = {"thread": thread.id, "ns": task.ns, "checkpoint": task.checkpoint, "task": task.id}
        is_new = query.create_group(tx, group=group, **fields, owner=execution.run_token, now=now)
        if not is_new and not query.lock_group(tx, group=group):
            raise BranchMoved
    return group


def drop_group(tx: Transaction, group: int) -> None:
    """Delete a group with its unsealed rows."""
    memory_rows.delete_rows(tx, query.rows_of_group(tx, group=group))
    query.delete_group(tx, group=group)


# -- events of runs, and puts ----------------------------------------------------------------------------------------


def note_outer_writes(tx: Transaction, runs: RunRegistry, run: GraphRun, loop: GraphLoop, task: GraphTask) -> None:
    """Record the groups that the calling node has written when a subgraph begins.

    The subgraph sees each group up to its last row at that time. If the subgraph continues from its own checkpoint,
    also record the groups that the checkpoint shows and the outer graph's checkpoint does not.
    """
    load_start_places(tx, runs, run)
    outer = runs.collect_outer_writes(run, loop, task)
    if outer.groups or outer.places:
        subgraph_groups = {group: last for group, last in _list_groups(tx, outer).items() if group not in outer.groups}
        last_rows = query.last_rows_of_groups(tx, ids=json.dumps([*outer.groups]))
        # A group without rows is left out: the subgraph does not see rows that the task writes later.
        loop.outer_groups = subgraph_groups | {row["group_id"]: row["row"] for row in last_rows}
    if (place := loop.places.get(loop.start_id or "")) is None:
        return
    base = _find_subgraph_base(tx, runs, run, run.thread_key, loop.ns, loop.parents)
    if base is not None and _load_branch_base(tx, place[0]).checkpoint != base.checkpoint:
        base.groups.update(loop.outer_groups)
        thread = find_thread(tx, run.thread_key, loop.ns)
        if loop.last_read != loop.start_id and thread is not None and thread.ns_id is not None:
            place = None if loop.last_read is None else find_place(tx, thread.ns_id, loop.last_read)
        loop.own_groups = {} if place is None else _find_missing_groups(tx, place, base)


def finish_task(
    tx: Transaction,
    runs: RunRegistry,
    configurable: Mapping[str, Any],
    at: ThreadKey,
    thread: Thread,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    now: int,
) -> None:
    """Record that a task has finished, in the transaction that stores its channel writes.

    If two runs execute a task at the same time, LangGraph keeps the first result. So a put seals the groups of the
    first execution.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        configurable: The configurable of the config.
        at: The key of the thread, from its namespace and id.
        thread: The row of the thread, with its checkpoint namespace.
        writes: The pairs of channel and value.
        task_id: The id of the task.
        now: The time, in microseconds since 1970.
    """
    run = runs.ensure_run(configurable, at)
    if run is None or task_id == _INPUT_TASK:
        return
    success = is_result(channel for channel, _ in writes)
    if success:
        run.ran_tasks.add(task_id)
    if not run.has_memory:
        return
    if not success:
        if any(channel in ("__error__", "__interrupt__") for channel, _ in writes):
            query.end_groups(tx, thread=thread.id, task=task_id, owner=run.token)
        return
    load_start_places(tx, runs, run)
    ns = configurable.get("checkpoint_ns") or ""
    task, live_writes = runs.find_task_writes(run, ns, task_id)
    groups = _list_groups(tx, live_writes)
    ids, caller = json.dumps(sorted(groups)), None if task is None else task.caller
    step = {"thread": thread.id, "ns_id": thread.ns_id or 0, "ns": ns, "checkpoint": configurable["checkpoint_id"]}
    query.insert_finished_task(tx, **step, task=task_id, caller=caller, groups=ids, now=now)
    if groups:
        query.insert_finished_groups(tx, thread=thread.id, task=task_id, ids=ids)


def is_result(channels: Iterable[str]) -> bool:
    """Return whether a task wrote a result, not only an error, interrupt or resume value."""
    return any(channel not in _CONTROL_CHANNELS for channel in channels)


def seal(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> Callable[[], None]:
    """Seal the groups of the tasks that led to a checkpoint, and store its place.

    If the checkpoint becomes the head of the thread and does not follow the old head, update which rows are current.

    Returns:
        The function to call after the commit.
    """
    put.read_head()
    place, note_stored = _seal_checkpoint(tx, runs, put)
    if put.moves_head and put.head not in (None, put.parent):
        update_visibility(tx, put.thread.id, put.head_place, place, put.now)
    return note_stored


def update_visibility(tx: Transaction, thread: int, before: Place | None, after: Place | None, now: int) -> None:
    """Mark as current exactly the rows that the new head of a thread shows.

    Only the parts of branches that are in one of the two lineages are updated.

    Args:
        tx: The transaction.
        thread: The row id of the thread.
        before: The place of its old head; None if there is none.
        after: The place of its new head; None if there is none.
        now: The time, in microseconds since 1970.
    """
    if before == after:
        return
    old_lineage, new_lineage = dict(_load_lineage(tx, before)), dict(_load_lineage(tx, after))
    author = ensure_author(tx, thread)
    for branch in sorted(old_lineage.keys() | new_lineage.keys()):
        old_end, new_end = old_lineage.get(branch, 0), new_lineage.get(branch, 0)
        if old_end != new_end:
            low, high = sorted((old_end, new_end))
            query.update_visibility(tx, branch=branch, author=author.id, low=low, high=high, after=new_end, stamp=now)


def load_author_row(tx: Transaction, thread: int) -> Row:
    """Return the author and the scope of a thread; "id" is None if there is no author.

    Raises:
        BranchMoved: The thread was deleted meanwhile. The database then retries the transaction.
    """
    row: Row | None = next(iter(query.author_of_thread(tx, thread=thread)), None)
    if row is None:
        raise BranchMoved
    return row


def ensure_author(tx: Transaction, thread: int) -> Author:
    """Return the author of a thread; create it if missing."""
    row = load_author_row(tx, thread)
    rows = [row] if row["id"] is not None else query.create_author(tx, thread=thread)
    if not rows:
        raise BranchMoved  # another transaction created the row meanwhile; the database repeats this transaction
    return Author(rows[0]["id"], row["scope"])


def _seal_checkpoint(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> tuple[Place | None, Callable[[], None]]:
    """Seal the groups of a checkpoint, and store its place.

    Returns:
        The place, and the function to call after the commit.
    """
    run = runs.ensure_run(put.configurable, put.at)
    source = put.metadata.get("source")
    loop = None if run is None else run.loops.get(put.ns)
    if run is None or loop is None:
        return _seal_without_run(tx, put, is_copy=run is None and source == "fork"), lambda: None
    with runs.lock:
        if put.parent not in (loop.last_put, loop.start_id):
            loop.restart(put.parent)
            run.resumed = True
    has_known_parent = put.parent in (None, put.head)
    if not has_known_parent and not query.checkpoint_exists(tx, ns_id=put.ns_id, checkpoint=put.parent):
        runs.forget()  # the parent was deleted meanwhile, so the cached places may be wrong
    load_start_places(tx, runs, run, put.ns, put.prefetched[2])
    if put.parent is not None and put.parent == loop.start_id and loop.last_put is None and source == "loop":
        _resume_first_step(tx, runs, loop, put)
    base = _find_subgraph_base(tx, runs, run, put.at, put.ns, put.metadata.get("parents") or {})
    # A person's write (`amend_head`) may have moved the head to a new place since `loop.places` was filled.
    place = put.head_place if put.parent == put.head else loop.places.get(str(put.parent))
    steps = runs.list_steps_to_seal(run, loop, put.id)
    step_places: list[tuple[str, Place | None]] = []
    if base is not None:
        base.groups.update(loop.outer_groups)
    if run.has_memory:
        place = _choose_start_place(tx, put, place, base, loop.own_groups if put.parent == loop.start_id else None)
        for step, writes in steps:
            step_places.append((step, place))
            place = _seal_groups(tx, put, place, _list_groups(tx, writes), base)
    place = _store_place(tx, put, place)

    def note_stored() -> None:
        with runs.lock:
            loop.last_put = put.id
            loop.places[put.id] = place
            for step, step_place in step_places:  # LangGraph may never put the checkpoint of a step
                loop.places.setdefault(step, step_place)

    return place, note_stored


def amend_head(tx: Transaction, thread: Thread, now: int) -> WriteTarget:
    """Move the newest checkpoint of a thread to a new place for a person's write.

    A run in progress may not see the write. Its next checkpoint shows it.

    Args:
        tx: The transaction.
        thread: The thread.
        now: The time, in microseconds since 1970.

    Returns:
        The position to write to.

    Raises:
        InvalidInput: The thread has no checkpoint yet.
    """
    query.lock_thread(tx, thread=thread.id)
    rows = [] if thread.ns_id is None else query.latest_checkpoint(tx, ns_id=thread.ns_id)
    if thread.ns_id is None or not rows:
        raise InvalidInput(f"The thread {safe_repr(thread.name)} has no checkpoint yet.")
    place = find_place(tx, thread.ns_id, rows[0]["name"])
    branch, position = _extend_branch(tx, thread.path, thread.name, place, now)
    query.set_position(tx, ns_id=thread.ns_id, checkpoint=rows[0]["name"], branch=branch, position=position)
    return WriteTarget(branch, position, forked=True, author=ensure_author(tx, thread.id))


def find_place(tx: Transaction, ns_id: int, checkpoint: str) -> Place | None:
    """Return the place of a checkpoint; None if the thread had no memory up to it."""
    rows = query.find_position(tx, ns_id=ns_id, checkpoint=checkpoint)
    return (rows[0]["branch_id"], rows[0]["position"]) if rows else None


def parse_id_time(checkpoint: str) -> int:
    """Return the time in a checkpoint's id, in microseconds since 1970.

    The result is 0 if the id is not a UUID of version 6. Its upper 48 bits and 12 bits after the version count units of
    100 ns since October 15, 1582.
    """
    try:
        number = int(checkpoint.replace("-", ""), 16)
    except ValueError:
        return 0
    if number >> 76 & 0xF != 6:  # noqa: PLR2004 - the version of the UUID
        return 0
    ticks = (number >> 80 << 12) | (number >> 64 & 0xFFF)
    return (ticks - 0x01B21DD213814000) // 10  # the constant is the ticks from 1582 to 1970


# -- helpers --------------------------------------------------------------------------------------------------------


def _seal_without_run(tx: Transaction, put: CheckpointPut, *, is_copy: bool) -> Place | None:
    """Store the place of a checkpoint that is put outside of a run, such as a state update.

    With `is_copy`, the checkpoint is LangGraph's copy for a fork. The copy gets the place of the original, which has
    the same parent and versions.
    """
    if is_copy:
        versions = as_json(short_versions(dict(put.checkpoint)))
        rows = query.sibling_position(tx, ns_id=put.ns_id, parent=put.parent, versions=versions, checkpoint=put.id)
        return _store_place(tx, put, (rows[0]["branch_id"], rows[0]["position"]) if rows else None)
    base = _find_subgraph_base(tx, None, None, put.at, put.ns, put.metadata.get("parents") or {})
    place = put.head_place
    if put.parent != put.head:
        place = None if put.parent is None else find_place(tx, put.ns_id, put.parent)
    if base is not None and place is not None:
        base.groups.update(_load_branch_base(tx, place[0]).groups)
    place = _choose_start_place(tx, put, place, base)
    if put.metadata.get("source") == "update" and put.parent is not None:
        rows = query.finished_tasks(tx, thread=put.thread.id, ns=put.ns, checkpoint=put.parent)
        groups = {group for row in rows if row["caller"] is None for group in json.loads(row["groups"])}
        parent = put.read_parent(tx) if groups else None
        # The update applies the results of finished tasks if it changes the versions that a node has seen.
        if parent is not None and any(
            seen and seen != parent.versions_seen.get(node) for node, seen in put.checkpoint["versions_seen"].items()
        ):
            place = _seal_groups(tx, put, place, dict.fromkeys(groups, FOREVER), base)
    return _store_place(tx, put, place)


def _resume_first_step(tx: Transaction, runs: RunRegistry, loop: GraphLoop, put: CheckpointPut) -> None:
    """Add the step of `loop.start_id` to the loop's steps, if the loop continues that step.

    A loop with a new input does not continue that step. If the step is added, the put also seals the groups of tasks
    that finished in the step in an earlier run.
    """
    if loop.start_id is None or loop.start_id in loop.steps:
        return
    step_number, versions = loop.step_number, loop.versions
    if step_number is None:
        parent = put.read_parent(tx)
        if parent is None or parent.step is None:
            return
        step_number, versions = parent.step, parent.versions
    # LangGraph marks the versions at which it was interrupted as seen by "__interrupt__"; an input changes "__start__".
    seen = put.checkpoint["versions_seen"].get("__interrupt__", {})
    current = put.checkpoint["channel_versions"]
    is_resumed = all(seen.get(channel) == version for channel, version in versions.items())
    is_resumed = is_resumed and current.get("__start__") == versions.get("__start__")
    if put.metadata["step"] == step_number + 1 or (is_resumed and not loop.pinned):
        with runs.lock:
            loop.steps.add(loop.start_id)


def _find_subgraph_base(
    tx: Transaction,
    runs: RunRegistry | None,
    run: GraphRun | None,
    at: ThreadKey,
    subgraph_ns: str,
    parents: Mapping[str, str],
) -> _SubgraphBase | None:
    """Return the base of a subgraph's branch; None if the graph is not a subgraph.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        run: The run; None outside of runs.
        at: The key of the thread, from its namespace and id.
        subgraph_ns: The checkpoint namespace of the subgraph.
        parents: The checkpoint ids of the outer loops, by checkpoint namespace.
    """
    levels = reversed(graph_runs.list_levels(subgraph_ns, parents))
    outer_namespaces = [level.ns for level in levels if level.ns != subgraph_ns]
    if not subgraph_ns or not outer_namespaces:
        return None
    base = _SubgraphBase(parents[outer_namespaces[0]], None, {})
    for ns in outer_namespaces:  # if the nearest graph has no place yet, use the place of the next outer graph
        place_in_run = None if runs is None or run is None else runs.find_place_at_step(run, ns, parents[ns])
        if place_in_run is not None:
            place, further_writes = place_in_run
            base.groups.update(_list_groups(tx, further_writes))
        else:
            thread = find_thread(tx, at, ns)
            place = None if thread is None or thread.ns_id is None else find_place(tx, thread.ns_id, parents[ns])
        if place is not None:
            return base._replace(place=place)
        if run is not None and ns in run.loops:
            base.groups.update(run.loops[ns].outer_groups)
    return base


def _choose_start_place(
    tx: Transaction,
    put: CheckpointPut,
    place: Place | None,
    base: _SubgraphBase | None,
    own_groups: Groups | None = None,
) -> Place | None:
    """Return the place after which the groups of a checkpoint are sealed.

    For a subgraph, the place is on a branch with the subgraph's base.

    A subgraph that keeps its state continues from its own checkpoint, even if the outer checkpoint has changed. It then
    gets a new branch, to which this function adds the groups that its own checkpoint shows and the new base does not.

    Args:
        tx: The transaction.
        put: The checkpoint.
        place: The place of the parent checkpoint.
        base: The base of the subgraph; None if the graph is not a subgraph.
        own_groups: The groups to add to a new branch. Default: read them from the database.
    """
    if base is None:
        return place
    old_base = None if place is None else _load_branch_base(tx, place[0])
    if old_base is not None and old_base.checkpoint == base.checkpoint:
        return place if old_base == base else (_create_branch(tx, put, place, base), 0)
    if own_groups is None:
        own_groups = {} if place is None else _find_missing_groups(tx, place, base)
    if base.place is None and not base.groups and not own_groups:
        return None
    return _seal_groups(tx, put, (_create_branch(tx, put, None, base), 0), own_groups, base)


def _find_missing_groups(tx: Transaction, place: Place, base: _SubgraphBase) -> Groups:
    """Return the groups that a subgraph's place shows and a base does not.

    Unsealed groups of callers that have not finished are left out.
    """
    base_view = MemoryView((), (), 0) if base.place is None else load_view(tx, *base.place, 0)
    view = load_view(tx, *place, 0)
    base_ends = dict(base_view.branches)
    # Branches that the base shows up to the same position, or further, contain no missing groups.
    branches = json.dumps([(branch, end) for branch, end in view.branches if base_ends.get(branch, -1) < end])
    shown_groups = query.groups_on_lineage(tx, lineage=branches, groups=json.dumps(view.groups))
    groups = {row["group_id"]: FOREVER for row in shown_groups if row["group_id"] not in base.groups}
    rows = query.sealable_groups(tx, lineage=json.dumps(base_view.branches), groups=json.dumps(sorted(groups.items())))
    return {row["group_id"]: FOREVER for row in rows}


def _seal_groups(
    tx: Transaction, put: CheckpointPut, place: Place | None, groups: Groups, base: _SubgraphBase | None
) -> Place | None:
    """Seal groups at the position after a place, unless its lineage contains the groups.

    Returns:
        The place of the sealed groups; the unchanged place if there are none.
    """
    if not groups:
        return place
    branches = _load_lineage(tx, place)
    unsealed = query.sealable_groups(tx, lineage=json.dumps(branches), groups=json.dumps(sorted(groups.items())))
    if not unsealed:
        return place
    if place is None:
        place = _create_branch(tx, put, None, base), 0
    [row] = query.lock_branch_head(tx, branch=place[0])
    thread = row["thread"]
    is_unordered = any(group["late"] for group in unsealed)  # some rows are older than rows of the branch
    if is_unordered or row["head"] > place[1]:
        branch_base = _EMPTY_BASE if is_unordered and base is None else base
        place, thread = (_create_branch(tx, put, place, branch_base), 0), put.at.name
    branch, position = place[0], place[1] + 1
    author = put.author or ensure_author(tx, put.thread.id)
    stamp = None
    if not put.ns:  # rows of a subgraph become current only when the thread's own graph seals them
        ids = json.dumps([group["group_id"] for group in unsealed])
        [row] = query.newest_stamp(tx, scope=author.scope, ids=ids)
        stamp = max(put.now, (row["stamp"] or 0) + 1)
        if stamp > put.now:  # the view of the checkpoint must include the rows that it seals
            query.advance_view_stamp(tx, ns_id=put.ns_id, name=put.id, stamp=stamp)
    for row in unsealed:
        target = {"group": row["group_id"], "branch": branch, "position": position}
        # The rows of a copied thread may have been written by the original.
        writer = author if row["writer"] in (None, put.thread.id) else ensure_author(tx, row["writer"])
        visibility = {"author": author.id, "stamp": stamp, "at_head": int(put.moves_head)}
        is_current = int(put.moves_head and writer == author)
        query.seal_group(tx, **target, scope=author.scope, author=writer.id, stamp=stamp, at_head=is_current)
        if stamp is not None and row["writer"] is None:
            query.stamp_group(tx, group=row["group_id"], stamp=stamp)
        query.copy_group(tx, **target, **visibility)
        query.supersede_sealed(tx, **target, **visibility)
        query.insert_sealed_group(tx, **target, thread=None if row["search_thread"] == thread else row["search_thread"])
        query.delete_group(tx, group=row["group_id"])
    if not query.move_head(tx, branch=branch, expected=place[1], position=position, added=0):
        raise BranchMoved
    return branch, position


def _record_messages(tx: Transaction, put: CheckpointPut, place: Place | None) -> Place | None:
    """Record the new messages of a checkpoint after a place; return the place of the messages.

    If the lineage of the place shows no message yet, record all messages of the thread. Also read all messages if a
    message without an id repeats an earlier one, since its key contains the number of equal messages before it.
    """
    if put.read_messages is None:
        return place
    recorder = thread_recorder()
    messages: Mapping[str, RecordedMessage] = {}
    visible_hashes: dict[str, bytes | None] = {}
    if place is not None:
        messages = recorder.name_messages(put.read_messages(tx, everything=False), put.now)
        visible_hashes = _load_visible_hashes(tx, put, place, messages)
    repeats = any(message.has_no_id and key in visible_hashes for key, message in messages.items())
    if place is None or repeats or (messages and not visible_hashes):
        messages = recorder.name_messages(put.read_messages(tx, everything=True), put.now)
    if place is not None and repeats:
        visible_hashes = _load_visible_hashes(tx, put, place, messages)
    recorded = recorder.record_messages(tx, put.thread.path, put.at.name, messages, visible_hashes, now=put.now)
    put.stored_ids[:] = [message.entry.key for message in recorded if message.new]
    if not recorded:
        return place
    place = _extend_branch(tx, put.thread.path, put.at.name, place, put.now)
    _write_messages(tx, put, place, recorded, visible_hashes)
    return place


def _load_visible_hashes(
    tx: Transaction, put: CheckpointPut, place: Place, messages: Mapping[str, RecordedMessage]
) -> dict[str, bytes | None]:
    """Return the hashes of the given messages that a place shows, by their keys.

    The result also has the key None if the lineage shows any message of the thread.
    """
    if not messages or put.author is None:
        return {}
    rows = query.messages_on(tx, branch=place[0], position=place[1], keys=json.dumps([*messages]), author=put.author.id)
    return {row["key"]: None if row["hash"] is None else bytes(row["hash"]) for row in rows}


def _write_messages(
    tx: Transaction, put: CheckpointPut, place: Place, recorded: Sequence[RecordedMessage], hashes: Mapping[str, Any]
) -> None:  # `hashes` are the hashes of the visible messages, by key
    branch, position = place
    author = put.author or ensure_author(tx, put.thread.id)
    stamp = put.now
    if repeated := [message.entry.key for message in recorded if message.entry.key in hashes]:
        keys = json.dumps([("message", key) for key in repeated])
        [row] = query.newest_stamp_of_keys(tx, scope=author.scope, keys=keys)
        stamp = max(stamp, (row["stamp"] or 0) + 1)
        if stamp > put.now:
            query.advance_view_stamp(tx, ns_id=put.ns_id, name=put.id, stamp=stamp)
        version = {"branch": branch, "position": position, "kind": "message", "author": author.id}
        end_stamp = stamp if put.moves_head else None
        for key in repeated:
            query.end_version(tx, **version, key=key, stamp=end_stamp)
    common = {"branch": branch, "position": position, "now": put.now, "scope": author.scope, "author": author.id}
    common |= {"stamp": stamp, "visible_until": FOREVER if put.moves_head else 0}
    rows = []
    for message in recorded:
        fields = {"key": message.entry.key, "hash": message.hash, "created_at": message.entry.created_at}
        rows.append(common | fields | {"source": ROLE_SOURCES.get(message.entry.role or "")})
    query.insert_thread_message.run_many(tx, rows)


def _extend_branch(tx: Transaction, path: str, thread: str, place: Place | None, now: int) -> Place:
    """Add a position after a place, and return it.

    Extend only a branch that this thread created: a search finds rows by the thread that created the branch.
    """
    if place is None or not query.extend_branch(tx, branch=place[0], position=place[1], thread=thread):
        place = _insert_branch(tx, path, thread, place, now), 0
        query.extend_branch(tx, branch=place[0], position=0, thread=thread)
    return place[0], place[1] + 1


def _insert_branch(tx: Transaction, path: str, thread: str, parent: Place | None, now: int) -> int:
    """Create a branch of a thread, forked at a place or without a parent; return its row id."""
    parent_id, position = parent or (None, None)
    [row] = query.create_thread_branch(
        tx, path=path, kind=THREAD_BRANCH, thread=thread, parent=parent_id, position=position, now=now
    )
    return int(row["id"])


def _create_branch(tx: Transaction, put: CheckpointPut, parent: Place | None, base: _SubgraphBase | None) -> int:
    """Create a branch of a checkpoint's thread, and store its base, if any; return its row id."""
    branch = _insert_branch(tx, put.thread.path, put.at.name, parent, put.now)
    if base is not None:
        base_branch, position = base.place or (None, None)
        target = {"base": base_branch, "base_position": position, "checkpoint": base.checkpoint}
        query.insert_branch_base(tx, branch=branch, **target, groups=json.dumps(sorted(base.groups.items())))
        query.insert_base_group.run_many(tx, [{"group": group, "branch": branch} for group in sorted(base.groups)])
    return branch


def _store_place(tx: Transaction, put: CheckpointPut, place: Place | None) -> Place | None:
    """Record the new messages of a checkpoint; then store and return its place."""
    place = _record_messages(tx, put, place)
    if place is not None:
        query.insert_position(tx, ns_id=put.ns_id, checkpoint=put.id, branch=place[0], position=place[1])
    return place


def _load_branch_base(tx: Transaction, branch: int) -> _SubgraphBase:
    """Return the base of a branch; `_EMPTY_BASE` if it has none."""
    row = next(iter(query.find_branch_base(tx, branch=branch)), None)
    if row is None:
        return _EMPTY_BASE
    place = None if row["base_id"] is None else (row["base_id"], row["base_position"])
    return _SubgraphBase(row["checkpoint"], place, dict(json.loads(row["groups"])))


def _load_lineage(tx: Transaction, place: Place | None) -> list[Place]:
    """Return the lineage of a place, nearest branch first; empty for no place."""
    return [] if place is None else [(row["branch_id"], row["up_to"]) for row in _load_lineage_rows(tx, place)]


def _load_lineage_rows(tx: Transaction, place: Place) -> Rows:
    return query.branch_lineage(tx, branch=place[0], position=place[1], with_bases=0)


def _list_groups(tx: Transaction, writes: graph_runs.LiveWrites) -> Groups:
    """Return the groups of current writes, including sealed groups of subgraphs."""
    groups = dict(writes.groups)
    for place in writes.places:
        rows = query.groups_on_lineage(tx, lineage=json.dumps(_load_lineage(tx, place)), groups="[]")
        groups.update((row["group_id"], FOREVER) for row in rows)
    return groups
