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
from langchain_agentmem.messages.message import SOURCES
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.rewinding.graph_runs import (
    FinishedTask,
    GraphLoop,
    GraphRun,
    GraphTask,
    Groups,
    LiveWrites,
    RunRegistry,
    Spot,
    TaskExecution,
    levels_around,
)
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, MemoryView, WriteTarget
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage, thread_listener
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads.checkpoint_log import versions_of
from langchain_agentmem.threads.thread_lines import Thread, find, make_thread

KIND = "thread"
"""The kind of a branch that a thread's memory lies on."""

STALE = 24 * 3_600 * 1_000_000
"""How long a task's writes without a checkpoint are kept, in microseconds: the task may still be running."""

_CONTROL = frozenset({"__error__", "__error_source_node__", "__interrupt__", "__resume__"})


class ParentCheckpoint(NamedTuple):
    """The fields of the parent checkpoint that a put needs.

    Attributes:
        step: The number of its step.
        versions: Its channels' versions.
        seen: The versions that each node has seen.
    """

    step: int | None
    versions: Mapping[str, Any]
    seen: Mapping[str, Any]


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
        before: Reads the checkpoint before it.
        prefetched: The queries that were sent ahead.
        now: The time, in microseconds since 1970.
        said: Reads the messages that it brings, or, with `everything`, all that it has and its parent had. None if
            messages are not recorded.
        stored: Gets the ids of the messages that were stored.
        head: The newest other checkpoint; None where there is none.
        head_spot: Its place.
        moves: Whether the checkpoint that is put is the head from now on.
        own: The author that the thread is, if it is one already.
    """

    at: ThreadKey
    thread: Thread
    ns: str
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    configurable: Mapping[str, Any]
    before: Callable[[Transaction], ParentCheckpoint | None]
    prefetched: Prefetched
    now: int
    said: Callable[..., Sequence[CheckpointMessage]] | None
    stored: list[str] = field(default_factory=list)
    head: str | None = None
    head_spot: Spot | None = None
    moves: bool = False
    own: Author | None = None

    @property
    def line(self) -> int:
        """The row of its line."""
        return self.thread.line or 0

    def read_head(self) -> None:
        """Read the head of the thread, which nobody else moves until the transaction ends."""
        if self.ns:
            return
        [thread], newest, _ = self.prefetched
        self.own = None if thread["author"] is None else Author(thread["author"], thread["scope"])
        self.moves = True
        for row in newest:
            self.head, self.moves = row["name"], row["name"] < str(self.checkpoint["id"])
            self.head_spot = None if row["branch_id"] is None else (row["branch_id"], row["position"])


class _SubgraphBase(NamedTuple):
    """The base of a subgraph's branch: the checkpoint around it, its place, further writes."""

    checkpoint: str
    spot: Spot | None
    groups: Groups


_UNORDERED = _SubgraphBase("", None, {})
"""The base of a thread's own branch that begins with something older than what lies behind it."""


# -- views and groups of tasks ----------------------------------------------------------------------------------------


def look(
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
    held: Rows = ()
    head: Rows = ()
    if not ns:
        held = query.hold_thread.ahead(tx, thread=thread.id)
        head = query.head_but.ahead(tx, line=thread.line, checkpoint=checkpoint)
    beginnings: dict[str, Rows] = {}
    if (run := runs.of(configurable, at)) is not None and ns in run.loops:
        for loop, begun in runs.unknown(run):
            if loop.ns == ns:
                where = {"thread": thread.id, "line": thread.line, "ns": ns, "checkpoint": begun}
                beginnings[begun] = query.beginning.ahead(tx, **where)
    return held, head, beginnings


def prepare(
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
    for loop, checkpoint in runs.unknown(run):
        found: Rows | None = beginnings.get(checkpoint) if beginnings and loop.ns == ns else None
        if found is None:
            thread = find(tx, run.at, loop.ns)
            where = {"ns": loop.ns, "checkpoint": checkpoint}
            found = () if thread is None else query.beginning(tx, thread=thread.id, line=thread.line, **where)
        spot = next(((row["branch_id"], row["position"]) for row in found if row["branch_id"] is not None), None)
        earlier = tuple(
            FinishedTask(row["task"], row["caller"], tuple(json.loads(row["groups"])))
            for row in found
            if row["task"] is not None and (loop.results is None or row["task"] in loop.results)
        )
        remembers = bool(earlier)
        if spot is not None and not (run.minded or remembers):  # what was said there is no task's
            remembers = bool(query.remembers(tx, line=json.dumps(_line(tx, spot)), groups="[]"))
        with runs.lock:
            loop.spots.setdefault(checkpoint, spot)
            if checkpoint == loop.base:
                loop.earlier = earlier
            run.minded = run.minded or remembers


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
    run, levels, owners, execution = runs.asking(configurable, at)
    prepare(tx, runs, run)
    sight = runs.sight(run, levels, owners, execution)
    rows: list[Row] = []
    for spot in sight.spots:
        rows += query.line_from(tx, branch=spot[0], position=spot[1], own=0)
    line = dict.fromkeys((row["branch_id"], row["up_to"]) for row in rows)
    descends = len(sight.spots) == 1 and all(row["based"] is None for row in rows)
    view = MemoryView(tuple(line), tuple(sorted(sight.groups.items())), time_of(levels[-1].checkpoint), descends)
    return run, execution, view


def group_for(tx: Transaction, runs: RunRegistry, run: GraphRun, execution: TaskExecution, now: int) -> int:
    """Return the group that an execution of a task writes to.

    Groups of former attempts of the same run are deleted, and groups of runs that have ended, or began a day ago.
    Groups of other runs and of finished tasks stay: their own checkpoints may still be put.

    Raises:
        StepIsOver: Another execution has taken its place; or its checkpoint was put: what it wrote is part of a line,
            and stays as it is; or its thread was deleted.
    """
    group, task = runs.group_of(run, execution), execution.task
    was_there = execution.there  # known before the look: a call beside this one may commit the group just after it
    if query.hold_group(tx, group=group):
        execution.there = True
    else:
        if was_there or query.is_sealed(tx, group=group):
            raise StepIsOver
        thread = find(tx, run.at)
        if run.has_lost(thread):
            raise StepIsOver
        if thread is None:
            runs.scopes.check_new(*run.at)
            thread = make_thread(tx, *run.at, now)
        for row in query.groups_of_task(tx, thread=thread.id, task=task.id):
            # Its own group is there if another call of the same execution began at the same time.
            owned = row["owner"] not in (None, execution.owner) and not row["ended"] and row["created_at"] > now - STALE
            if row["id"] != group and not owned and row["id"] not in json.loads(row["finished"] or "[]"):
                drop_group(tx, row["id"])
        whose = {"thread": thread.id, "ns": task.ns, "checkpoint": task.checkpoint, "task": task.id}
        query.create_group(tx, group=group, **whose, owner=execution.owner, now=now)
        if not query.hold_group(tx, group=group):
            raise BranchMoved
    return group


def drop_group(tx: Transaction, group: int) -> None:
    """Delete a group, with its rows that have no place on a branch."""
    memory_rows.discard(tx, query.rows_of_group(tx, group=group))
    query.delete_group(tx, group=group)


# -- reports of the saver --------------------------------------------------------------------------------------------


def carry(tx: Transaction, runs: RunRegistry, run: GraphRun, loop: GraphLoop, task: GraphTask) -> None:
    """Note what the task around a subgraph has written when the subgraph begins.

    Each group counts up to its last row. What the subgraph keeps of its own state is noted too.
    """
    prepare(tx, runs, run)
    live = runs.around(run, loop, task)
    if live.groups or live.spots:
        below = {group: up_to for group, up_to in _all_groups(tx, live).items() if group not in live.groups}
        last = query.last_rows(tx, ids=json.dumps([*live.groups]))
        # A group without rows has no last one: what is written there later is no part of it.
        loop.carried = below | {row["group_id"]: row["row"] for row in last}
    if (spot := loop.spots.get(loop.base or "")) is None:
        return
    around = _around(tx, runs, run, run.at, loop.ns, loop.parents)
    if around is not None and _base_of(tx, spot[0]).checkpoint != around.checkpoint:
        around.groups.update(loop.carried)
        thread = find(tx, run.at, loop.ns)
        if loop.read != loop.base and thread is not None and thread.line is not None:
            spot = None if loop.read is None else place_of(tx, thread.line, loop.read)
        loop.kept = {} if spot is None else _unheld(tx, spot, around)


def finish(
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
    run = runs.of(configurable, at)
    if run is None or task_id == "00000000-0000-0000-0000-000000000000":  # no task, but the input
        return
    success = is_result(channel for channel, _ in writes)
    if success:
        run.ran.add(task_id)
    if not run.minded:
        return
    if not success:
        if any(channel in ("__error__", "__interrupt__") for channel, _ in writes):
            query.end_groups(tx, thread=thread.id, task=task_id, owner=run.token)
        return
    prepare(tx, runs, run)
    ns = configurable.get("checkpoint_ns") or ""
    task, live = runs.finished(run, ns, task_id)
    groups = _all_groups(tx, live)
    ids, caller = json.dumps(sorted(groups)), None if task is None else task.caller
    where = {"thread": thread.id, "line": thread.line or 0, "ns": ns, "checkpoint": configurable["checkpoint_id"]}
    query.insert_finished(tx, **where, task=task_id, caller=caller, groups=ids, now=now)
    if groups:
        query.insert_finished_groups(tx, thread=thread.id, task=task_id, ids=ids)


def is_result(channels: Iterable[str]) -> bool:
    """Return whether a task wrote a result to the channels, not an error, question or answer."""
    return any(channel not in _CONTROL for channel in channels)


def seal(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> Callable[[], None]:
    """Give a checkpoint its place, and the groups that led to it a position.

    If the head of its thread moves, the marks of what counts move too.

    Returns:
        The function to call when the checkpoint is stored.
    """
    put.read_head()
    spot, remember = _sealed(tx, runs, put)
    if put.moves and put.head not in (None, put.parent):
        move_marks(tx, put.thread.id, put.head_spot, spot, put.now)
    return remember


def move_marks(tx: Transaction, thread: int, before: Spot | None, after: Spot | None, now: int) -> None:
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
    old, new = dict(_line(tx, before)), dict(_line(tx, after))
    author = author_of(tx, thread)
    for branch in sorted(old.keys() | new.keys()):
        one, other = old.get(branch, 0), new.get(branch, 0)
        if one != other:
            query.move_marks(
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
    made = [row] if row["id"] is not None else query.create_author(tx, thread=thread)
    if not made:
        raise BranchMoved  # somebody else made it: begin again
    return Author(made[0]["id"], row["scope"])


def _sealed(tx: Transaction, runs: RunRegistry, put: CheckpointPut) -> tuple[Spot | None, Callable[[], None]]:
    """Do the work of `seal` except for moving marks. Return the place too."""
    run = runs.of(put.configurable, put.at)
    source = put.metadata.get("source")
    name = str(put.checkpoint["id"])
    loop = None if run is None else run.loops.get(put.ns)
    if run is None or loop is None:
        return _seal_outside(tx, put, name, copied=run is None and source == "fork"), lambda: None
    with runs.lock:
        if put.parent not in (loop.last_put, loop.base):
            loop.begin(put.parent)
            run.resumed = True
    known = put.parent in (None, put.head)
    if not known and not query.checkpoint_there(tx, line=put.line, checkpoint=put.parent):
        runs.forget()  # the thread was deleted meanwhile, and begins anew with what this run has of it
    prepare(tx, runs, run, put.ns, put.prefetched[2])
    if put.parent is not None and put.parent == loop.base and loop.last_put is None and source == "loop":
        _go_on(tx, runs, loop, put)
    around = _around(tx, runs, run, put.at, put.ns, put.metadata.get("parents") or {})
    # `prepare` has read it; but somebody may have amended the head since.
    spot = put.head_spot if put.parent == put.head else loop.spots.get(str(put.parent))
    steps = runs.open(run, loop, name)
    stood: list[tuple[str, Spot | None]] = []
    if around is not None:
        around.groups.update(loop.carried)
    if run.minded:
        spot = _stand(tx, put, spot, around, loop.kept if put.parent == loop.base else None)
        for step, live in steps:
            stood.append((step, spot))
            spot = _advance(tx, put, spot, _all_groups(tx, live), around)
    spot = _settle(tx, put, name, spot)

    def remember() -> None:
        with runs.lock:
            loop.last_put = name
            loop.spots[name] = spot
            for step, before in stood:  # those that are never put stand where their tasks began
                loop.spots.setdefault(step, before)

    return spot, remember


def amend(tx: Transaction, thread: Thread, now: int) -> WriteTarget:
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
    query.hold_thread(tx, thread=thread.id)
    found = [] if thread.line is None else query.latest_checkpoint(tx, line=thread.line)
    if thread.line is None or not found:
        raise InvalidInput(f"The thread {safe_repr(thread.name)} has no checkpoint yet.")
    spot = place_of(tx, thread.line, found[0]["name"])
    # As for messages, only its own branch goes on.
    if spot is None or not query.extend_branch(tx, branch=spot[0], position=spot[1], thread=thread.name):
        spot = _begin(tx, thread.path, thread.name, spot, now), 0
        query.extend_branch(tx, branch=spot[0], position=0, thread=thread.name)
    at = {"branch": spot[0], "position": spot[1] + 1}
    query.move_place(tx, line=thread.line, checkpoint=found[0]["name"], **at)
    return WriteTarget(spot[0], spot[1] + 1, forked=True, author=author_of(tx, thread.id))


def place_of(tx: Transaction, line: int, checkpoint: str) -> Spot | None:
    """Return the place of a checkpoint; None if nothing was remembered up to it."""
    found = query.place_of(tx, line=line, checkpoint=checkpoint)
    return (found[0]["branch_id"], found[0]["position"]) if found else None


def time_of(checkpoint: str) -> int:
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


def _seal_outside(tx: Transaction, put: CheckpointPut, name: str, *, copied: bool) -> Spot | None:
    """Give its place to a checkpoint that no run puts, such as that of an update.

    A copy has the place of its twin.
    """
    if copied:
        versions = as_json(versions_of(dict(put.checkpoint)))
        twin = query.place_of_twin(tx, line=put.line, parent=put.parent, versions=versions, checkpoint=name)
        return _settle(tx, put, name, (twin[0]["branch_id"], twin[0]["position"]) if twin else None)
    around = _around(tx, None, None, put.at, put.ns, put.metadata.get("parents") or {})
    spot = put.head_spot
    if put.parent != put.head:
        spot = None if put.parent is None else place_of(tx, put.line, put.parent)
    if around is not None and spot is not None:
        around.groups.update(_base_of(tx, spot[0]).groups)
    spot = _stand(tx, put, spot, around)
    if put.metadata.get("source") == "update" and put.parent is not None:
        found = query.finished_at(tx, thread=put.thread.id, ns=put.ns, checkpoint=put.parent)
        groups = {group for row in found if row["caller"] is None for group in json.loads(row["groups"])}
        before = put.before(tx) if groups else None
        if before is not None and any(
            seen and seen != before.seen.get(node) for node, seen in put.checkpoint["versions_seen"].items()
        ):
            spot = _advance(tx, put, spot, dict.fromkeys(groups, FOREVER), around)
    return _settle(tx, put, name, spot)


def _go_on(tx: Transaction, runs: RunRegistry, loop: GraphLoop, put: CheckpointPut) -> None:
    """Let a run that continues where its base stopped seal what finished there before.

    The tasks that finished there need not be known to the run.
    """
    if loop.base is None or loop.base in loop.steps:
        return
    step, versions = loop.step, loop.versions
    if step is None:
        before = put.before(tx)
        if before is None or before.step is None:
            return
        step, versions = before.step, before.versions
    seen = put.checkpoint["versions_seen"].get("__interrupt__", {})
    now = put.checkpoint["channel_versions"]
    resumed = all(seen.get(name) == version for name, version in versions.items()) and now.get(
        "__start__"
    ) == versions.get("__start__")
    if put.metadata["step"] == step + 1 or (resumed and not loop.addressed):
        with runs.lock:
            loop.steps.add(loop.base)


def _around(
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
    around = _SubgraphBase(parents[names[0]], None, {})
    for ns in names:  # where nothing was put around it yet, it stands on what is around that
        known = None if runs is None or run is None else runs.base_of(run, ns, parents[ns])
        if known is not None:
            around.groups.update(_all_groups(tx, known[1]))
            spot = known[0]
        else:
            thread = find(tx, at, ns)
            spot = None if thread is None or thread.line is None else place_of(tx, thread.line, parents[ns])
        if spot is not None:
            return around._replace(spot=spot)
        if run is not None and ns in run.loops:
            around.groups.update(run.loops[ns].carried)
    return around


def _stand(
    tx: Transaction, put: CheckpointPut, spot: Spot | None, around: _SubgraphBase | None, kept: Groups | None = None
) -> Spot | None:
    """Return the place from which a checkpoint's memory continues.

    For a subgraph, this is a place on a branch that stands where the subgraph stands.

    A subgraph that keeps its state continues from its own checkpoint, whatever the checkpoint around it was then. So
    what it showed there, and the new base does not, is added to its new branch.
    """
    if around is None:
        return spot
    here = None if spot is None else _base_of(tx, spot[0])
    if here is not None and here.checkpoint == around.checkpoint:
        return spot if here == around else (_branch(tx, put, spot, around), 0)
    if kept is None:
        kept = {} if spot is None else _unheld(tx, spot, around)
    if around.spot is None and not around.groups and not kept:
        return None
    return _advance(tx, put, (_branch(tx, put, None, around), 0), kept, around)


def _unheld(tx: Transaction, spot: Spot, around: _SubgraphBase) -> Groups:
    """Return the groups that a subgraph's place shows and a base does not.

    Groups of unfinished callers are left out.
    """
    held = MemoryView((), (), 0) if around.spot is None else view_of(tx, *around.spot, 0)
    shown = view_of(tx, *spot, 0)
    there = dict(held.line)
    line = json.dumps([level for level in shown.line if there.get(level[0], -1) < level[1]])
    found = query.groups_on(tx, line=line, groups=json.dumps(shown.groups))
    groups = {row["group_id"]: FOREVER for row in found if row["group_id"] not in around.groups}
    rows = query.sealable(tx, line=json.dumps(held.line), groups=json.dumps(sorted(groups.items())))
    return {row["group_id"]: FOREVER for row in rows}


def _advance(
    tx: Transaction, put: CheckpointPut, spot: Spot | None, groups: Groups, around: _SubgraphBase | None
) -> Spot | None:
    """Seal groups behind a place, unless they are on its line already.

    Returns:
        The place behind them.
    """
    if not groups:
        return spot
    line = _line(tx, spot)
    found = query.sealable(tx, line=json.dumps(line), groups=json.dumps(sorted(groups.items())))
    if not found:
        return spot
    if spot is None:
        spot = _branch(tx, put, None, around), 0
    [row] = query.lock_head(tx, branch=spot[0])
    thread = row["thread"]
    late = any(each["late"] for each in found)
    if late or row["head"] > spot[1]:
        base = _UNORDERED if late and around is None else around
        spot, thread = (_branch(tx, put, spot, base), 0), put.at.name
    branch, position = spot[0], spot[1] + 1
    own = put.own or author_of(tx, put.thread.id)
    stamp = None
    if not put.ns:  # on its own line; what a subgraph wrote counts when it comes there
        ids = json.dumps([each["group_id"] for each in found])
        [row] = query.newest_stamp(tx, scope=own.scope, ids=ids)
        stamp = max(put.now, (row["stamp"] or 0) + 1)
        if stamp > put.now:  # its view goes as far as what it shows
            query.see(tx, line=put.line, name=str(put.checkpoint["id"]), stamp=stamp)
    for each in found:
        what = {"group": each["group_id"], "branch": branch, "position": position}
        writer = own if each["writer"] in (None, put.thread.id) else author_of(tx, each["writer"])
        heads = {"author": own.id, "stamp": stamp, "heads": int(put.moves)}
        counts = int(put.moves and writer == own)
        query.seal_group(tx, **what, scope=own.scope, author=writer.id, stamp=stamp, heads=counts)
        if stamp is not None and each["writer"] is None:
            query.stamp_group(tx, group=each["group_id"], stamp=stamp)
        query.copy_group(tx, **what, **heads)
        query.supersede_sealed(tx, **what, **heads)
        query.insert_seal(tx, **what, thread=None if each["series"] == thread else each["series"])
        query.delete_group(tx, group=each["group_id"])
    if not query.move_head(tx, branch=branch, expected=spot[1], position=position, added=0):
        raise BranchMoved
    return branch, position


def _record(tx: Transaction, put: CheckpointPut, spot: Spot | None) -> Spot | None:
    """Seal the messages that a checkpoint brings behind a place; return the place after them.

    If a line shows no message yet, the thread was not recorded before, and all its messages are recorded. The same
    holds if a message without an id repeats an earlier one, to count the repetitions.
    """
    if put.said is None:
        return spot
    listener = thread_listener()
    messages: Mapping[str, RecordedMessage] = {}
    known: dict[str, bytes | None] = {}
    if spot is not None:
        messages = listener.named(put.said(tx, everything=False), put.now)
        known = _known(tx, put, spot, messages)
    again = any(each.nameless and key in known for key, each in messages.items())
    if spot is None or again or (messages and not known):
        messages = listener.named(put.said(tx, everything=True), put.now)
    if spot is not None and again:
        known = _known(tx, put, spot, messages)
    noted = listener.note(tx, put.thread.path, put.at.name, messages, known, now=put.now)
    put.stored[:] = [each.entry.key for each in noted if each.new]
    if not noted:
        return spot
    # Only the thread's own branch goes on, since a search finds what lies there by the thread that began it.
    if spot is None or not query.extend_branch(tx, branch=spot[0], position=spot[1], thread=put.at.name):
        spot = _branch(tx, put, spot, None), 0
        query.extend_branch(tx, branch=spot[0], position=0, thread=put.at.name)
    spot = spot[0], spot[1] + 1
    _write_said(tx, put, spot, noted, known)
    return spot


def _known(
    tx: Transaction, put: CheckpointPut, spot: Spot, messages: Mapping[str, RecordedMessage]
) -> dict[str, bytes | None]:
    """Return the hashes of messages that the line behind a place shows, by their ids.

    The key None means that the line shows any message at all.
    """
    if not messages or put.own is None:
        return {}
    rows = query.said_on(tx, branch=spot[0], position=spot[1], keys=json.dumps(list(messages)), author=put.own.id)
    return {row["key"]: None if row["hash"] is None else bytes(row["hash"]) for row in rows}


def _write_said(
    tx: Transaction, put: CheckpointPut, spot: Spot, noted: Sequence[RecordedMessage], known: Mapping[str, Any]
) -> None:
    branch, position = spot
    own = put.own or author_of(tx, put.thread.id)
    stamp = put.now
    if again := [each.entry.key for each in noted if each.entry.key in known]:
        keys = json.dumps([("message", key) for key in again])
        [row] = query.newest_stamp_named(tx, scope=own.scope, keys=keys)
        stamp = max(stamp, (row["stamp"] or 0) + 1)
        if stamp > put.now:
            query.see(tx, line=put.line, name=str(put.checkpoint["id"]), stamp=stamp)
        ended = stamp if put.moves else None
        for key in again:
            query.supersede(tx, branch=branch, position=position, kind="message", key=key, stamp=ended, author=own.id)
    same = {"branch": branch, "position": position, "now": put.now, "scope": own.scope, "author": own.id}
    same |= {"stamp": stamp, "gone": FOREVER if put.moves else 0}
    rows = []
    for each in noted:
        said = {"key": each.entry.key, "hash": each.hash, "created_at": each.entry.created_at}
        rows.append(same | said | {"source": SOURCES.get(each.entry.role or "")})
    query.insert_said.many(tx, rows)


def _begin(tx: Transaction, path: str, thread: str, parent: Spot | None, now: int) -> int:
    """Begin a branch of a thread, behind a place or without a parent."""
    at, position = parent or (None, None)
    [row] = query.begin_branch(tx, path=path, kind=KIND, thread=thread, parent=at, position=position, now=now)
    return int(row["id"])


def _branch(tx: Transaction, put: CheckpointPut, parent: Spot | None, around: _SubgraphBase | None) -> int:
    branch = _begin(tx, put.thread.path, put.at.name, parent, put.now)
    if around is not None:
        base, position = around.spot or (None, None)
        groups = json.dumps(sorted(around.groups.items()))
        at = {"base": base, "base_position": position, "checkpoint": around.checkpoint}
        query.insert_base(tx, branch=branch, **at, groups=groups)
        query.insert_base_group.many(tx, [{"group": group, "branch": branch} for group in sorted(around.groups)])
    return branch


def _settle(tx: Transaction, put: CheckpointPut, name: str, spot: Spot | None) -> Spot | None:
    """Give a checkpoint its place, behind the messages that it brings."""
    spot = _record(tx, put, spot)
    if spot is not None:
        query.insert_place(tx, line=put.line, checkpoint=name, branch=spot[0], position=spot[1])
    return spot


def _base_of(tx: Transaction, branch: int) -> _SubgraphBase:
    found = query.base_of(tx, branch=branch)
    if not found:
        return _UNORDERED
    row = found[0]
    spot = None if row["base_id"] is None else (row["base_id"], row["base_position"])
    return _SubgraphBase(row["checkpoint"], spot, dict(json.loads(row["groups"])))


def _line(tx: Transaction, spot: Spot | None) -> list[Spot]:
    """Return the branches that lead to a place, nearest first; empty for no place."""
    found = () if spot is None else query.line_from(tx, branch=spot[0], position=spot[1], own=0)
    return [(row["branch_id"], row["up_to"]) for row in found]


def _all_groups(tx: Transaction, live: LiveWrites) -> Groups:
    """Return the groups that count, including those on the lines of subgraphs."""
    groups = dict(live.groups)
    for spot in live.spots:
        line = _line(tx, spot)
        found = query.groups_on(tx, line=json.dumps(line), groups="[]")
        groups.update((row["group_id"], FOREVER) for row in found)
    return groups
