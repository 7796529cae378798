"""The sealing of memory: a put decides what its checkpoint shows, by the edge from the parent.

In the transaction that puts a checkpoint, the saver seals the writes of the tasks that led to *that* checkpoint: they
get a position on a branch, and the checkpoint gets that *place*. A checkpoint without such writes shares its parent's
place. If something lies behind the parent's place already, a new branch begins there. So a fork is one row, and is
made when something is first written from a place before a branch's end.

A subgraph's checkpoints have places on branches of their own, each of which stands on the place of the checkpoint
around it and on what the task around it had written when the subgraph began.
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
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.rewinding.graph_runs import (
    FinishedTask,
    GraphLoop,
    GraphRun,
    GraphTask,
    Groups,
    LiveWrites,
    Place,
    RunRegistry,
    TaskExecution,
    levels_around,
)
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, MemoryView, WriteTarget
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage, thread_recorder
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads.checkpoint_log import short_versions
from langchain_agentmem.threads.thread_rows import Thread, find_thread, make_thread

THREAD_BRANCH = "thread"
"""The kind of a branch that a thread's memory lies on."""

STALE_AFTER = 24 * 3_600 * 1_000_000
"""How long a task's writes without a checkpoint are kept, in microseconds: the task may still be running."""

_CONTROL_CHANNELS = frozenset({"__error__", "__error_source_node__", "__interrupt__", "__resume__"})


class ParentCheckpoint(NamedTuple):
    """The fields of the parent checkpoint that a put needs.

    Attributes:
        step: The number of its step.
        versions: Its channels' versions.
        versions_seen: The versions that each node has seen.
    """

    step: int | None
    versions: Mapping[str, Any]
    versions_seen: Mapping[str, Any]


Prefetched: TypeAlias = tuple[Rows, Rows, Mapping[str, Rows]]
"""The queries that a put sends before it waits for any: the row of the thread, which nobody else changes until the
transaction ends; the newest other checkpoint, with its place; and where the checkpoints stand that its loop began with,
and what finished there, by their ids. A subgraph has neither of the first two."""


@dataclass(slots=True)
class CheckpointPut:
    """A checkpoint that is being put, and the head of its thread before that.

    Attributes:
        at: Its thread, as it was requested.
        thread: The row of the thread, with its line.
        ns: Its loop's name.
        parent: The id of the checkpoint before it.
        checkpoint: The checkpoint.
        metadata: LangGraph's metadata of it.
        configurable: The configurable of the config.
        read_parent: Reads the checkpoint before it.
        prefetched: The queries that were sent ahead.
        now: The time, in microseconds since 1970.
        read_messages: Reads the messages that it brings, or, with `everything`, all that it has and its parent had.
            None if messages are not recorded.
        stored_ids: Gets the ids of the messages that were stored.
        head: The newest other checkpoint; None where there is none.
        head_place: Its place.
        moves_head: Whether the checkpoint that is put is the head from now on.
        author: The author that the thread is, if it is one already.
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
    def ns_id(self) -> int:
        """The row of its line."""
        return self.thread.ns_id or 0

    def read_head(self) -> None:
        """Read the head of the thread, which nobody else moves until the transaction ends."""
        if self.ns:
            return
        [thread], newest, _ = self.prefetched
        self.author = None if thread["author"] is None else Author(thread["author"], thread["scope"])
        self.moves_head = True
        for row in newest:
            self.head, self.moves_head = row["name"], row["name"] < str(self.checkpoint["id"])
            self.head_place = None if row["branch_id"] is None else (row["branch_id"], row["position"])


class _SubgraphBase(NamedTuple):
    """The base of a subgraph's branch: the checkpoint around it, its place, further writes."""

    checkpoint: str
    place: Place | None
    groups: Groups


_UNORDERED_BASE = _SubgraphBase("", None, {})
"""The base of a thread's own branch that begins with something older than what lies behind it."""


# -- views and groups of tasks ----------------------------------------------------------------------------------------


def prefetch(
    tx: Transaction, runs: RunRegistry, configurable: Mapping[str, Any], at: ThreadKey, thread: Thread, checkpoint: str
) -> Prefetched:
    """Send the queries that a put needs, without waiting for their results.

    A put of a thread's own graph also locks the thread.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        configurable: The configurable of the config.
        at: The thread.
        thread: Its row, with its line.
        checkpoint: The id of the checkpoint that is put.
    """
    ns = configurable.get("checkpoint_ns") or ""
    locked_thread: Rows = ()
    head: Rows = ()
    if not ns:
        locked_thread = query.lock_thread.lazy(tx, thread=thread.id)
        head = query.newest_other_checkpoint.lazy(tx, ns_id=thread.ns_id, checkpoint=checkpoint)
    beginnings: dict[str, Rows] = {}
    if (run := runs.run_of(configurable, at)) is not None and ns in run.loops:
        for loop, base_id in runs.unread_checkpoints(run):
            if loop.ns == ns:
                where = {"thread": thread.id, "ns_id": thread.ns_id, "ns": ns, "checkpoint": base_id}
                beginnings[base_id] = query.find_run_start.lazy(tx, **where)
    return locked_thread, head, beginnings


def load_beginnings(
    tx: Transaction, runs: RunRegistry, run: GraphRun, ns: str = "", beginnings: Mapping[str, Rows] | None = None
) -> None:
    """Read what a run does not know yet of the checkpoints that its loops began with.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        run: The run.
        ns: One of its loops.
        beginnings: Queries of where that loop began, as far as they were sent ahead.
    """
    for loop, checkpoint in runs.unread_checkpoints(run):
        rows: Rows | None = beginnings.get(checkpoint) if beginnings and loop.ns == ns else None
        if rows is None:
            thread = find_thread(tx, run.at, loop.ns)
            where = {"ns": loop.ns, "checkpoint": checkpoint}
            rows = () if thread is None else query.find_run_start(tx, thread=thread.id, ns_id=thread.ns_id, **where)
        place = next(((row["branch_id"], row["position"]) for row in rows if row["branch_id"] is not None), None)
        earlier = tuple(
            FinishedTask(row["task"], row["caller"], tuple(json.loads(row["groups"])))
            for row in rows
            if row["task"] is not None and (loop.results is None or row["task"] in loop.results)
        )
        has_memory = bool(earlier)
        if place is not None and not (run.has_memory or has_memory):  # what was said there is no task's
            has_memory = bool(query.has_task_memory(tx, lineage=json.dumps(_branches_to(tx, place)), groups="[]"))
        with runs.lock:
            loop.places.setdefault(checkpoint, place)
            if checkpoint == loop.base:
                loop.finished_tasks = earlier
            run.has_memory = run.has_memory or has_memory


def view_of_task(
    tx: Transaction, runs: RunRegistry, configurable: Mapping[str, Any], at: ThreadKey
) -> tuple[GraphRun, TaskExecution, MemoryView]:
    """Return the view of a task, with its run and its execution.

    A task sees its line, and what the steps before it, its callers and the task itself wrote; not its siblings.

    Returns:
        The run, the execution that is asking, and its view.

    Raises:
        InvalidInput: The graph has another checkpointer.
        StepIsOver: Another attempt has taken its place.
    """
    run, levels, owners, execution = runs.resolve_execution(configurable, at)
    load_beginnings(tx, runs, run)
    writes = runs.visible_writes(run, levels, owners, execution)
    rows: list[Row] = []
    for place in writes.places:
        rows += query.branch_lineage(tx, branch=place[0], position=place[1], with_bases=0)
    branches = dict.fromkeys((row["branch_id"], row["up_to"]) for row in rows)
    descends = len(writes.places) == 1 and all(row["with_base"] is None for row in rows)
    view = MemoryView(
        tuple(branches), tuple(sorted(writes.groups.items())), checkpoint_time(levels[-1].checkpoint), descends
    )
    return run, execution, view


def open_group(tx: Transaction, runs: RunRegistry, run: GraphRun, execution: TaskExecution, now: int) -> int:
    """Return the group that an execution of a task writes to.

    Groups of former attempts of the same run are deleted, and groups of runs that have ended, or began a day ago.
    Groups of other runs and of finished tasks stay: their own checkpoints may still be put.

    Raises:
        StepIsOver: Another execution has taken its place; or its checkpoint was put: what it wrote is part of a line,
            and stays as it is; or its thread was deleted.
    """
    group, task = runs.group_of(run, execution), execution.task
    was_stored = (
        execution.was_stored
    )  # known before the look: a call beside this one may commit the group just after it
    if query.lock_group(tx, group=group):
        execution.was_stored = True
    else:
        if was_stored or query.is_sealed(tx, group=group):
            raise StepIsOver
        thread = find_thread(tx, run.at)
        if run.is_thread_deleted(thread):
            raise StepIsOver
        if thread is None:
            runs.scopes.check_new(*run.at)
            thread = make_thread(tx, *run.at, now)
        for row in query.groups_of_task(tx, thread=thread.id, task=task.id):
            # Its own group is there if another call of the same execution began at the same time.
            owned = (
                row["owner"] not in (None, execution.owner)
                and not row["ended"]
                and row["created_at"] > now - STALE_AFTER
            )
            if row["id"] != group and not owned and row["id"] not in json.loads(row["finished"] or "[]"):
                drop_group(tx, row["id"])
        where = {"thread": thread.id, "ns": task.ns, "checkpoint": task.checkpoint, "task": task.id}
        query.create_group(tx, group=group, **where, owner=execution.owner, now=now)
        if not query.lock_group(tx, group=group):
            raise BranchMoved
    return group


def drop_group(tx: Transaction, group: int) -> None:
    """Delete a group, with its rows that have no place on a branch."""
    memory_rows.delete_rows(tx, query.rows_of_group(tx, group=group))
    query.delete_group(tx, group=group)


# -- reports of the saver --------------------------------------------------------------------------------------------


def note_outer_writes(tx: Transaction, runs: RunRegistry, run: GraphRun, loop: GraphLoop, task: GraphTask) -> None:
    """Note what the task around a subgraph has written when the subgraph begins.

    Each group counts up to its last row. What the subgraph keeps of its own state is noted too.
    """
    load_beginnings(tx, runs, run)
    live = runs.writes_around(run, loop, task)
    if live.groups or live.places:
        subgraph_groups = {group: up_to for group, up_to in _all_groups(tx, live).items() if group not in live.groups}
        last = query.last_rows_of_groups(tx, ids=json.dumps([*live.groups]))
        # A group without rows has no last one: what is written there later is no part of it.
        loop.outer_groups = subgraph_groups | {row["group_id"]: row["row"] for row in last}
    if (place := loop.places.get(loop.base or "")) is None:
        return
    base = _subgraph_base(tx, runs, run, run.at, loop.ns, loop.parents)
    if base is not None and _branch_base(tx, place[0]).checkpoint != base.checkpoint:
        base.groups.update(loop.outer_groups)
        thread = find_thread(tx, run.at, loop.ns)
        if loop.last_input != loop.base and thread is not None and thread.ns_id is not None:
            place = None if loop.last_input is None else place_of(tx, thread.ns_id, loop.last_input)
        loop.own_groups = {} if place is None else _missing_groups(tx, place, base)


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
    """Record that a task hands in its channel writes: its memory is finished with them.

    If two runs execute a task at the same time, LangGraph keeps the first result; so the first one's memory counts.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        configurable: The configurable of the config.
        at: The thread.
        thread: The row of the thread, with its line.
        writes: Channels and values.
        task_id: The task.
        now: The time, in microseconds since 1970.
    """
    run = runs.run_of(configurable, at)
    if run is None or task_id == "00000000-0000-0000-0000-000000000000":  # no task, but the input
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
    load_beginnings(tx, runs, run)
    ns = configurable.get("checkpoint_ns") or ""
    task, live = runs.task_writes(run, ns, task_id)
    groups = _all_groups(tx, live)
    ids, caller = json.dumps(sorted(groups)), None if task is None else task.caller
    where = {"thread": thread.id, "ns_id": thread.ns_id or 0, "ns": ns, "checkpoint": configurable["checkpoint_id"]}
    query.insert_finished_task(tx, **where, task=task_id, caller=caller, groups=ids, now=now)
    if groups:
        query.insert_finished_groups(tx, thread=thread.id, task=task_id, ids=ids)


def is_result(channels: Iterable[str]) -> bool:
    """Return whether a task wrote a result to the channels, not an error, question or answer."""
    return any(channel not in _CONTROL_CHANNELS for channel in channels)


def seal(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> Callable[[], None]:
    """Give a checkpoint its place, and the groups that led to it a position.

    If the head of its thread moves, the marks of what counts move too.

    Returns:
        The function to call when the checkpoint is stored.
    """
    put.read_head()
    place, note_stored = _seal_checkpoint(tx, runs, put)
    if put.moves_head and put.head not in (None, put.parent):
        move_marks(tx, put.thread.id, put.head_place, place, put.now)
    return note_stored


def move_marks(tx: Transaction, thread: int, before: Place | None, after: Place | None, now: int) -> None:
    """Make rows of a thread count if its new head shows them, and no longer count if not.

    Only segments of branches are read that one of the two lines shows and the other does not.

    Args:
        tx: The transaction.
        thread: The row of the thread.
        before: Where its head stood.
        after: Where it stands.
        now: The time, in microseconds since 1970.
    """
    if before == after:
        return
    old, new = dict(_branches_to(tx, before)), dict(_branches_to(tx, after))
    author = author_of(tx, thread)
    for branch in sorted(old.keys() | new.keys()):
        one, other = old.get(branch, 0), new.get(branch, 0)
        if one != other:
            query.update_visibility(
                tx, branch=branch, author=author.id, low=min(one, other), high=max(one, other), after=other, stamp=now
            )


def author_row(tx: Transaction, thread: int) -> Row:
    """Return the author of a thread as a row, with its scope.

    The number is None if the thread is no author yet.

    Raises:
        BranchMoved: The thread was deleted meanwhile; the operation begins again.
    """
    row: Row | None = next(iter(query.author_of_thread(tx, thread=thread)), None)
    if row is None:
        raise BranchMoved
    return row


def author_of(tx: Transaction, thread: int) -> Author:
    """Return the author of a thread; create it if missing."""
    row = author_row(tx, thread)
    rows = [row] if row["id"] is not None else query.create_author(tx, thread=thread)
    if not rows:
        raise BranchMoved  # somebody else made it: begin again
    return Author(rows[0]["id"], row["scope"])


def _seal_checkpoint(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> tuple[Place | None, Callable[[], None]]:
    """Do the work of `seal` except for moving marks. Return the place too."""
    run = runs.run_of(put.configurable, put.at)
    source = put.metadata.get("source")
    name = str(put.checkpoint["id"])
    loop = None if run is None else run.loops.get(put.ns)
    if run is None or loop is None:
        return _seal_without_run(tx, put, name, copied=run is None and source == "fork"), lambda: None
    with runs.lock:
        if put.parent not in (loop.last_put, loop.base):
            loop.restart(put.parent)
            run.resumed = True
    known = put.parent in (None, put.head)
    if not known and not query.checkpoint_exists(tx, ns_id=put.ns_id, checkpoint=put.parent):
        runs.forget()  # the thread was deleted meanwhile, and begins anew with what this run has of it
    load_beginnings(tx, runs, run, put.ns, put.prefetched[2])
    if put.parent is not None and put.parent == loop.base and loop.last_put is None and source == "loop":
        _resume_base(tx, runs, loop, put)
    base = _subgraph_base(tx, runs, run, put.at, put.ns, put.metadata.get("parents") or {})
    # `prepare` has read it; but somebody may have amended the head since.
    place = put.head_place if put.parent == put.head else loop.places.get(str(put.parent))
    steps = runs.steps_to_seal(run, loop, name)
    step_places: list[tuple[str, Place | None]] = []
    if base is not None:
        base.groups.update(loop.outer_groups)
    if run.has_memory:
        place = _start_place(tx, put, place, base, loop.own_groups if put.parent == loop.base else None)
        for step, live in steps:
            step_places.append((step, place))
            place = _seal_groups(tx, put, place, _all_groups(tx, live), base)
    place = _set_place(tx, put, name, place)

    def note_stored() -> None:
        with runs.lock:
            loop.last_put = name
            loop.places[name] = place
            for step, before in step_places:  # those that are never put stand where their tasks began
                loop.places.setdefault(step, before)

    return place, note_stored


def amend_head(tx: Transaction, thread: Thread, now: int) -> WriteTarget:
    """Move the newest checkpoint of a thread behind a write that follows from outside.

    A run that is under way may not see the write; its next checkpoint does.

    Args:
        tx: The transaction.
        thread: The thread.
        now: The time, in microseconds since 1970.

    Returns:
        The position to write to.

    Raises:
        InvalidInput: The thread has no checkpoint.
    """
    query.lock_thread(tx, thread=thread.id)
    rows = [] if thread.ns_id is None else query.latest_checkpoint(tx, ns_id=thread.ns_id)
    if thread.ns_id is None or not rows:
        raise InvalidInput(f"The thread {safe_repr(thread.name)} has no checkpoint yet.")
    place = place_of(tx, thread.ns_id, rows[0]["name"])
    # As for messages, only its own branch goes on.
    if place is None or not query.extend_branch(tx, branch=place[0], position=place[1], thread=thread.name):
        place = _insert_branch(tx, thread.path, thread.name, place, now), 0
        query.extend_branch(tx, branch=place[0], position=0, thread=thread.name)
    target = {"branch": place[0], "position": place[1] + 1}
    query.set_position(tx, ns_id=thread.ns_id, checkpoint=rows[0]["name"], **target)
    return WriteTarget(place[0], place[1] + 1, forked=True, author=author_of(tx, thread.id))


def place_of(tx: Transaction, ns_id: int, checkpoint: str) -> Place | None:
    """Return the place of a checkpoint; None if nothing was remembered up to it."""
    rows = query.find_position(tx, ns_id=ns_id, checkpoint=checkpoint)
    return (rows[0]["branch_id"], rows[0]["position"]) if rows else None


def checkpoint_time(checkpoint: str) -> int:
    """Return when a checkpoint was made, in microseconds since 1970, from its id.

    0 if the id is no UUID of version 6.
    """
    try:
        number = int(checkpoint.replace("-", ""), 16)
    except ValueError:
        return 0
    if number >> 76 & 0xF != 6:  # noqa: PLR2004 - the version
        return 0
    ticks = (number >> 80 << 12) | (number >> 64 & 0xFFF)
    return (ticks - 0x01B21DD213814000) // 10


# -- the parts of the above ------------------------------------------------------------------------------------------


def _seal_without_run(tx: Transaction, put: CheckpointPut, name: str, *, copied: bool) -> Place | None:
    """Give its place to a checkpoint that no run puts, such as that of an update.

    A copy has the place of its twin.
    """
    if copied:
        versions = as_json(short_versions(dict(put.checkpoint)))
        twin = query.sibling_position(tx, ns_id=put.ns_id, parent=put.parent, versions=versions, checkpoint=name)
        return _set_place(tx, put, name, (twin[0]["branch_id"], twin[0]["position"]) if twin else None)
    base = _subgraph_base(tx, None, None, put.at, put.ns, put.metadata.get("parents") or {})
    place = put.head_place
    if put.parent != put.head:
        place = None if put.parent is None else place_of(tx, put.ns_id, put.parent)
    if base is not None and place is not None:
        base.groups.update(_branch_base(tx, place[0]).groups)
    place = _start_place(tx, put, place, base)
    if put.metadata.get("source") == "update" and put.parent is not None:
        rows = query.finished_tasks(tx, thread=put.thread.id, ns=put.ns, checkpoint=put.parent)
        groups = {group for row in rows if row["caller"] is None for group in json.loads(row["groups"])}
        parent = put.read_parent(tx) if groups else None
        if parent is not None and any(
            seen and seen != parent.versions_seen.get(node) for node, seen in put.checkpoint["versions_seen"].items()
        ):
            place = _seal_groups(tx, put, place, dict.fromkeys(groups, FOREVER), base)
    return _set_place(tx, put, name, place)


def _resume_base(tx: Transaction, runs: RunRegistry, loop: GraphLoop, put: CheckpointPut) -> None:
    """Let a run that continues where its base stopped seal what finished there before.

    The tasks that finished there need not be known to the run.
    """
    if loop.base is None or loop.base in loop.steps:
        return
    step, versions = loop.step, loop.versions
    if step is None:
        parent = put.read_parent(tx)
        if parent is None or parent.step is None:
            return
        step, versions = parent.step, parent.versions
    seen = put.checkpoint["versions_seen"].get("__interrupt__", {})
    current = put.checkpoint["channel_versions"]
    resumed = all(seen.get(name) == version for name, version in versions.items()) and current.get(
        "__start__"
    ) == versions.get("__start__")
    if put.metadata["step"] == step + 1 or (resumed and not loop.pinned):
        with runs.lock:
            loop.steps.add(loop.base)


def _subgraph_base(
    tx: Transaction,
    runs: RunRegistry | None,
    run: GraphRun | None,
    at: ThreadKey,
    inner: str,
    parents: Mapping[str, str],
) -> _SubgraphBase | None:
    """Return the base of a subgraph's branch; None for a thread's own.

    Args:
        tx: The transaction.
        runs: The runs of this process.
        run: The run; None outside of runs.
        at: The thread.
        inner: The subgraph's name within the thread.
        parents: The checkpoints of the loops around it.
    """
    names = [level.ns for level in reversed(levels_around(inner, parents)) if level.ns != inner]
    if not inner or not names:
        return None
    base = _SubgraphBase(parents[names[0]], None, {})
    for ns in names:  # where nothing was put around it yet, it stands on what is around that
        known = None if runs is None or run is None else runs.place_at_step(run, ns, parents[ns])
        if known is not None:
            base.groups.update(_all_groups(tx, known[1]))
            place = known[0]
        else:
            thread = find_thread(tx, at, ns)
            place = None if thread is None or thread.ns_id is None else place_of(tx, thread.ns_id, parents[ns])
        if place is not None:
            return base._replace(place=place)
        if run is not None and ns in run.loops:
            base.groups.update(run.loops[ns].outer_groups)
    return base


def _start_place(
    tx: Transaction,
    put: CheckpointPut,
    place: Place | None,
    base: _SubgraphBase | None,
    own_groups: Groups | None = None,
) -> Place | None:
    """Return the place from which a checkpoint's memory continues.

    For a subgraph, this is a place on a branch that stands where the subgraph stands.

    A subgraph that keeps its state continues from its own checkpoint, whatever the checkpoint around it was then. So
    what it showed there, and the new base does not, is added to its new branch.
    """
    if base is None:
        return place
    own_base = None if place is None else _branch_base(tx, place[0])
    if own_base is not None and own_base.checkpoint == base.checkpoint:
        return place if own_base == base else (_new_branch(tx, put, place, base), 0)
    if own_groups is None:
        own_groups = {} if place is None else _missing_groups(tx, place, base)
    if base.place is None and not base.groups and not own_groups:
        return None
    return _seal_groups(tx, put, (_new_branch(tx, put, None, base), 0), own_groups, base)


def _missing_groups(tx: Transaction, place: Place, base: _SubgraphBase) -> Groups:
    """Return the groups that a subgraph's place shows and a base does not.

    Groups of unfinished callers are left out.
    """
    base_view = MemoryView((), (), 0) if base.place is None else view_of(tx, *base.place, 0)
    view = view_of(tx, *place, 0)
    base_positions = dict(base_view.branches)
    branches = json.dumps([level for level in view.branches if base_positions.get(level[0], -1) < level[1]])
    on_branches = query.groups_on_lineage(tx, lineage=branches, groups=json.dumps(view.groups))
    groups = {row["group_id"]: FOREVER for row in on_branches if row["group_id"] not in base.groups}
    rows = query.sealable_groups(tx, lineage=json.dumps(base_view.branches), groups=json.dumps(sorted(groups.items())))
    return {row["group_id"]: FOREVER for row in rows}


def _seal_groups(
    tx: Transaction, put: CheckpointPut, place: Place | None, groups: Groups, base: _SubgraphBase | None
) -> Place | None:
    """Seal groups behind a place, unless they are on its line already.

    Returns:
        The place behind them.
    """
    if not groups:
        return place
    branches = _branches_to(tx, place)
    found = query.sealable_groups(tx, lineage=json.dumps(branches), groups=json.dumps(sorted(groups.items())))
    if not found:
        return place
    if place is None:
        place = _new_branch(tx, put, None, base), 0
    [row] = query.lock_branch_head(tx, branch=place[0])
    thread = row["thread"]
    late = any(each["late"] for each in found)
    if late or row["head"] > place[1]:
        branch_base = _UNORDERED_BASE if late and base is None else base
        place, thread = (_new_branch(tx, put, place, branch_base), 0), put.at.name
    branch, position = place[0], place[1] + 1
    author = put.author or author_of(tx, put.thread.id)
    stamp = None
    if not put.ns:  # on its own line; what a subgraph wrote counts when it comes there
        ids = json.dumps([each["group_id"] for each in found])
        [row] = query.newest_stamp(tx, scope=author.scope, ids=ids)
        stamp = max(put.now, (row["stamp"] or 0) + 1)
        if stamp > put.now:  # its view goes as far as what it shows
            query.advance_view_stamp(tx, ns_id=put.ns_id, name=str(put.checkpoint["id"]), stamp=stamp)
    for each in found:
        target = {"group": each["group_id"], "branch": branch, "position": position}
        writer = author if each["writer"] in (None, put.thread.id) else author_of(tx, each["writer"])
        heads = {"author": author.id, "stamp": stamp, "at_head": int(put.moves_head)}
        counts = int(put.moves_head and writer == author)
        query.seal_group(tx, **target, scope=author.scope, author=writer.id, stamp=stamp, at_head=counts)
        if stamp is not None and each["writer"] is None:
            query.stamp_group(tx, group=each["group_id"], stamp=stamp)
        query.copy_group(tx, **target, **heads)
        query.supersede_sealed(tx, **target, **heads)
        query.insert_sealed_group(
            tx, **target, thread=None if each["search_thread"] == thread else each["search_thread"]
        )
        query.delete_group(tx, group=each["group_id"])
    if not query.move_head(tx, branch=branch, expected=place[1], position=position, added=0):
        raise BranchMoved
    return branch, position


def _record_messages(tx: Transaction, put: CheckpointPut, place: Place | None) -> Place | None:
    """Seal the messages that a checkpoint brings behind a place; return the place after them.

    If a line shows no message yet, the thread was not recorded before, and all its messages are recorded. The same
    holds if a message without an id repeats an earlier one, to count the repetitions.
    """
    if put.read_messages is None:
        return place
    recorder = thread_recorder()
    messages: Mapping[str, RecordedMessage] = {}
    known: dict[str, bytes | None] = {}
    if place is not None:
        messages = recorder.name_messages(put.read_messages(tx, everything=False), put.now)
        known = _known_hashes(tx, put, place, messages)
    repeats = any(each.has_no_id and key in known for key, each in messages.items())
    if place is None or repeats or (messages and not known):
        messages = recorder.name_messages(put.read_messages(tx, everything=True), put.now)
    if place is not None and repeats:
        known = _known_hashes(tx, put, place, messages)
    recorded = recorder.record_messages(tx, put.thread.path, put.at.name, messages, known, now=put.now)
    put.stored_ids[:] = [each.entry.key for each in recorded if each.new]
    if not recorded:
        return place
    # Only the thread's own branch goes on, since a search finds what lies there by the thread that began it.
    if place is None or not query.extend_branch(tx, branch=place[0], position=place[1], thread=put.at.name):
        place = _new_branch(tx, put, place, None), 0
        query.extend_branch(tx, branch=place[0], position=0, thread=put.at.name)
    place = place[0], place[1] + 1
    _write_messages(tx, put, place, recorded, known)
    return place


def _known_hashes(
    tx: Transaction, put: CheckpointPut, place: Place, messages: Mapping[str, RecordedMessage]
) -> dict[str, bytes | None]:
    """Return the hashes of messages that the line behind a place shows, by their ids.

    The key None means that the line shows any message at all.
    """
    if not messages or put.author is None:
        return {}
    rows = query.messages_on(
        tx, branch=place[0], position=place[1], keys=json.dumps(list(messages)), author=put.author.id
    )
    return {row["key"]: None if row["hash"] is None else bytes(row["hash"]) for row in rows}


def _write_messages(
    tx: Transaction, put: CheckpointPut, place: Place, recorded: Sequence[RecordedMessage], known: Mapping[str, Any]
) -> None:
    branch, position = place
    author = put.author or author_of(tx, put.thread.id)
    stamp = put.now
    if repeated := [each.entry.key for each in recorded if each.entry.key in known]:
        keys = json.dumps([("message", key) for key in repeated])
        [row] = query.newest_stamp_of_keys(tx, scope=author.scope, keys=keys)
        stamp = max(stamp, (row["stamp"] or 0) + 1)
        if stamp > put.now:
            query.advance_view_stamp(tx, ns_id=put.ns_id, name=str(put.checkpoint["id"]), stamp=stamp)
        ended = stamp if put.moves_head else None
        for key in repeated:
            query.end_version(
                tx, branch=branch, position=position, kind="message", key=key, stamp=ended, author=author.id
            )
    common = {"branch": branch, "position": position, "now": put.now, "scope": author.scope, "author": author.id}
    common |= {"stamp": stamp, "visible_until": FOREVER if put.moves_head else 0}
    rows = []
    for each in recorded:
        fields = {"key": each.entry.key, "hash": each.hash, "created_at": each.entry.created_at}
        rows.append(common | fields | {"source": ROLE_SOURCES.get(each.entry.role or "")})
    query.insert_thread_message.run_many(tx, rows)


def _insert_branch(tx: Transaction, path: str, thread: str, parent: Place | None, now: int) -> int:
    """Begin a branch of a thread, behind a place or without a parent."""
    parent_id, position = parent or (None, None)
    [row] = query.create_thread_branch(
        tx, path=path, kind=THREAD_BRANCH, thread=thread, parent=parent_id, position=position, now=now
    )
    return int(row["id"])


def _new_branch(tx: Transaction, put: CheckpointPut, parent: Place | None, base: _SubgraphBase | None) -> int:
    branch = _insert_branch(tx, put.thread.path, put.at.name, parent, put.now)
    if base is not None:
        base_branch, position = base.place or (None, None)
        groups = json.dumps(sorted(base.groups.items()))
        target = {"base": base_branch, "base_position": position, "checkpoint": base.checkpoint}
        query.insert_branch_base(tx, branch=branch, **target, groups=groups)
        query.insert_base_group.run_many(tx, [{"group": group, "branch": branch} for group in sorted(base.groups)])
    return branch


def _set_place(tx: Transaction, put: CheckpointPut, name: str, place: Place | None) -> Place | None:
    """Give a checkpoint its place, behind the messages that it brings."""
    place = _record_messages(tx, put, place)
    if place is not None:
        query.insert_position(tx, ns_id=put.ns_id, checkpoint=name, branch=place[0], position=place[1])
    return place


def _branch_base(tx: Transaction, branch: int) -> _SubgraphBase:
    rows = query.find_branch_base(tx, branch=branch)
    if not rows:
        return _UNORDERED_BASE
    row = rows[0]
    place = None if row["base_id"] is None else (row["base_id"], row["base_position"])
    return _SubgraphBase(row["checkpoint"], place, dict(json.loads(row["groups"])))


def _branches_to(tx: Transaction, place: Place | None) -> list[Place]:
    """Return the branches that lead to a place, nearest first; empty for no place."""
    rows = () if place is None else query.branch_lineage(tx, branch=place[0], position=place[1], with_bases=0)
    return [(row["branch_id"], row["up_to"]) for row in rows]


def _all_groups(tx: Transaction, live: LiveWrites) -> Groups:
    """Return the groups that count, including those on the lines of subgraphs."""
    groups = dict(live.groups)
    for place in live.places:
        branches = _branches_to(tx, place)
        rows = query.groups_on_lineage(tx, lineage=json.dumps(branches), groups="[]")
        groups.update((row["group_id"], FOREVER) for row in rows)
    return groups
