"""What a checkpoint shows is decided when it is put: by the edge from its parent to it.

The saver seals, in the transaction that puts a checkpoint, what the tasks have written that led to *that* checkpoint:
it gets a position on a branch, and the checkpoint that *place*. A checkpoint to which nothing was written shares its
parent's place. Where something lies behind the parent's place already, a new branch begins there. So a fork is one row,
and is made when something is first written behind a branch's end.

A subgraph's checkpoints have places on branches of their own, each of which stands on the place of the checkpoint
around it and on what the task around it had written when the subgraph began.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, InvalidInput, StepIsOver
from langchain_agentmem.messages.message import SOURCES
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.rewinding.graph_runs import (
    Execution,
    Finished,
    GraphRun,
    GraphTask,
    Groups,
    Live,
    Loop,
    Runs,
    Spot,
    levels_around,
)
from langchain_agentmem.rewinding.memory_rows import FOREVER, Author, InGroup, OnBranch, View
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Heard, Noted, Said, all_parts
from langchain_agentmem.storage.steps import Row, Rows
from langchain_agentmem.threads import checkpoint_head
from langchain_agentmem.threads.thread_lines import Thread, ThreadAt, find, make_thread

KIND = "thread"
"""The kind of a branch that a thread's memory lies on."""

STALE = 24 * 3_600 * 1_000_000
"""How long what a task wrote is kept whose checkpoint was never put, in microseconds: it may still be running."""

_NULL_TASK = "00000000-0000-0000-0000-000000000000"
_CONTROL = frozenset({"__error__", "__error_source_node__", "__interrupt__", "__resume__"})


class Parent(NamedTuple):
    """What a put has to know of the checkpoint before it.

    Attributes:
        step: The number of its step.
        versions: Its channels' versions.
        seen: The versions that each node has seen.
    """

    step: int | None
    versions: Mapping[str, Any]
    seen: Mapping[str, Any]


class Beforehand(NamedTuple):
    """What a put asks before it waits for anything; whoever wants to know more asks for it.

    Attributes:
        thread: The row of the thread, which nobody else changes until the transaction ends; none of a subgraph.
        head: The newest checkpoint but for the one that is put, with its place.
        beginnings: Where checkpoints stand that its loop began with, and what finished there, by their ids.
    """

    thread: Rows
    head: Rows
    beginnings: Mapping[str, Rows]


class Put(NamedTuple):
    """A checkpoint that is being put.

    Attributes:
        at: Its thread, as it was asked for.
        path: The path of the thread's namespace.
        thread: The row of that.
        ns: Its loop's name.
        line: The row of its line.
        parent: The id of the checkpoint before it.
        checkpoint: It.
        metadata: What LangGraph says about it.
        configurable: What the config says.
        before: Reads the checkpoint before it.
        looked: What was asked ahead.
        now: When.
        said: Reads the messages that it brings, or, with `everything`, all that it has and the one before had. None
            where they are not recorded.
        tail: How many documents may wait for the search index.
        stored: Gets the ids of those that were stored.
    """

    at: ThreadAt
    path: str
    thread: int
    ns: str
    line: int
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    configurable: Mapping[str, Any]
    before: Callable[[], Steps[Parent | None]]
    looked: Beforehand
    now: int
    said: Callable[..., Steps[Sequence[Said]]] | None
    tail: int
    stored: list[str]


class _Head(NamedTuple):
    """The head of a thread before a put.

    Attributes:
        name: The newest checkpoint but for the one that is put; None where there is none.
        spot: Its place.
        moves: Whether the checkpoint that is put is the head from now on.
        own: The author that the thread is, if it is one already.
    """

    name: str | None
    spot: Spot | None
    moves: bool
    own: Author | None = None


class Hidden(NamedTuple):
    """What does not count any more where a thread goes on from an earlier checkpoint.

    Attributes:
        newest: The checkpoint that was the newest.
        versions: How much of what counted there does not count now.
    """

    newest: str
    versions: int


class _Base(NamedTuple):
    """What a subgraph's branch stands on: the checkpoint around it, its place, and what was written beside that."""

    checkpoint: str
    spot: Spot | None
    groups: Groups


_UNORDERED = _Base("", None, {})
"""The base of a thread's own branch that begins with something older than what lies behind it."""


# -- what tasks see and write ----------------------------------------------------------------------------------------


def look(
    runs: Runs, configurable: Mapping[str, Any], at: ThreadAt, thread: Thread, checkpoint: str
) -> Steps[Beforehand]:
    """Ask for what a put has to know, and wait for nothing. Where it is a thread's own, that is held.

    Args:
        runs: The runs of this process.
        configurable: What the config says.
        at: The thread.
        thread: Its row, with its line.
        checkpoint: The id of the checkpoint that is put.
    """
    ns = configurable.get("checkpoint_ns") or ""
    held: Rows = ()
    head: Rows = ()
    if not ns:
        held = yield query.hold_thread.ahead(thread=thread.id)
        head = yield query.head_but.ahead(line=thread.line, checkpoint=checkpoint)
    beginnings: dict[str, Rows] = {}
    if (run := runs.of(configurable, at)) is not None and ns in run.loops:
        for loop, begun in runs.unknown(run):
            if loop.ns == ns:
                where = {"thread": thread.id, "line": thread.line, "ns": ns, "checkpoint": begun}
                beginnings[begun] = yield query.beginning.ahead(**where)
    return Beforehand(held, head, beginnings)


def prepare(runs: Runs, run: GraphRun, ns: str = "", beginnings: Mapping[str, Rows] | None = None) -> Steps[None]:
    """Read what a run does not know yet of the checkpoints that its loops began with.

    Args:
        runs: The runs of this process.
        run: The run.
        ns: One of its loops.
        beginnings: Where that began, as far as it was asked for.
    """
    for loop, checkpoint in runs.unknown(run):
        found: Rows | None = beginnings.get(checkpoint) if beginnings and loop.ns == ns else None
        if found is None:
            thread = yield from find(run.at, loop.ns)
            where = {"ns": loop.ns, "checkpoint": checkpoint}
            found = () if thread is None else (yield query.beginning(thread=thread.id, line=thread.line, **where))
        spot = next(((row["branch_id"], row["position"]) for row in found if row["branch_id"] is not None), None)
        earlier = tuple(
            Finished(row["task"], row["caller"], tuple(json.loads(row["groups"])))
            for row in found
            if row["task"] is not None and (loop.results is None or row["task"] in loop.results)
        )
        remembers = bool(earlier)
        if spot is not None and not (run.minded or remembers):  # what was said there is no task's
            remembers = bool((yield query.remembers(line=json.dumps((yield from _line(spot))), groups="[]")))
        with runs.lock:
            loop.spots.setdefault(checkpoint, spot)
            if checkpoint == loop.base:
                loop.earlier = earlier
            run.minded = run.minded or remembers


def _prepare_to_put(runs: Runs, run: GraphRun, put: Put, head: _Head) -> Steps[None]:
    known = put.parent in (None, head.name)
    if not (known or (yield query.checkpoint_there(line=put.line, checkpoint=put.parent))):
        runs.forget()  # the thread was deleted meanwhile, and begins anew with what this run has of it
    yield from prepare(runs, run, put.ns, put.looked.beginnings)


def view_of_task(runs: Runs, configurable: Mapping[str, Any], at: ThreadAt) -> Steps[tuple[GraphRun, Execution, View]]:
    """What a task sees: its line, what the steps before it wrote, and its callers, and itself; not its siblings.

    Returns:
        Its run, and which execution of it is asking, with what that sees.

    Raises:
        InvalidInput: The graph has another checkpointer.
        StepIsOver: Another attempt has taken its place.
    """
    run, levels, owners, execution = runs.asking(configurable, at)
    yield from prepare(runs, run)
    sight = runs.sight(run, levels, owners, execution)
    rows: list[Row] = []
    for spot in sight.spots:
        rows += yield query.line_from(branch=spot[0], position=spot[1], own=0, deepest=FOREVER)
    line = dict.fromkeys((row["branch_id"], row["up_to"]) for row in rows)
    descends = len(sight.spots) == 1 and all(row["based"] is None for row in rows)
    view = View(tuple(line), tuple(sorted(sight.groups.items())), time_of(sight.checkpoint), descends)
    return run, execution, view


def group_for(runs: Runs, run: GraphRun, execution: Execution, now: int) -> Steps[InGroup]:
    """Where an execution of a task writes.

    What former attempts of its own run wrote goes, and what runs left that have ended, or began a day ago. What another
    run writes, or a task had written when it finished, stays: its own checkpoint may still be put.

    Raises:
        StepIsOver: Another execution has taken its place; or its checkpoint was put: what it wrote is part of a line,
            and stays as it is; or its thread was deleted.
    """
    group, task = runs.group_of(run, execution), execution.task
    was_there = execution.there  # known before the look: a call beside this one may commit the group just after it
    if (yield query.hold_group(group=group)):
        execution.there = True
    else:
        if was_there or (yield query.is_sealed(group=group)):
            raise StepIsOver
        thread = yield from find(run.at)
        if run.has_lost(thread):
            raise StepIsOver
        if thread is None:
            runs.scopes.check_new(*run.at)
            thread = yield from make_thread(*run.at, now)
        for row in (yield query.groups_of_task(thread=thread.id, task=task.id)):
            # Its own group is there if another call of the same execution began at the same time.
            owned = row["owner"] not in (None, execution.owner) and not row["ended"] and row["created_at"] > now - STALE
            if row["id"] != group and not owned and row["id"] not in json.loads(row["finished"] or "[]"):
                yield from drop_group(row["id"])
        yield query.create_group(
            group=group,
            thread=thread.id,
            ns=task.ns,
            checkpoint=task.checkpoint,
            task=task.id,
            owner=execution.owner,
            now=now,
        )
        if not (yield query.hold_group(group=group)):
            raise BranchMoved
    return InGroup(group)


def drop_group(group: int) -> Steps[None]:
    """Delete what a group wrote that lies nowhere."""
    yield from memory_rows.discard((yield query.rows_of_group(group=group)))
    yield query.delete_group(group=group)


# -- what the saver tells --------------------------------------------------------------------------------------------


def carry(runs: Runs, run: GraphRun, loop: Loop, task: GraphTask) -> Steps[None]:
    """Note what the task around a subgraph has written when that begins, up to which row, and what that keeps."""
    yield from prepare(runs, run)
    live = runs.around(run, loop, task)
    if live.groups or live.spots:
        groups = yield from _all_groups(live)
        last = yield query.last_rows(ids=json.dumps([group for group in groups if group in live.groups]))
        loop.carried = groups | {row["group_id"]: row["row"] for row in last}
    if (spot := loop.spots.get(loop.base or "")) is None:
        return
    around = yield from _around(runs, run, run.at, loop.ns, loop.parents)
    if around is not None and (yield from _base_of(spot[0])).checkpoint != around.checkpoint:
        around.groups.update(loop.carried)
        thread = yield from find(run.at, loop.ns)
        if loop.read != loop.base and thread is not None and thread.line is not None:
            spot = None if loop.read is None else (yield from place_of(thread.line, loop.read))
        loop.kept = {} if spot is None else (yield from _unheld(spot, around))


def finish(
    runs: Runs,
    configurable: Mapping[str, Any],
    at: ThreadAt,
    thread: int,
    line: int,
    ns: str,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    now: int,
) -> Steps[None]:
    """A task is handing in what it wrote to the channels: what it remembered is finished with it.

    Of two runs that execute a task at once LangGraph keeps the first result; so it is the first one's memory, too.

    Args:
        runs: The runs of this process.
        configurable: What the config says.
        at: The thread.
        thread: The row of that.
        line: The row of the line.
        ns: The loop that it runs in.
        writes: Channels and values.
        task_id: The task.
        now: When.
    """
    run = runs.of(configurable, at)
    if run is None or task_id == _NULL_TASK:
        return
    success = is_result(channel for channel, _ in writes)
    if success:
        runs.wrote(run, task_id)
    if not run.minded:
        return
    if not success:
        if any(channel in ("__error__", "__interrupt__") for channel, _ in writes):
            yield query.end_groups(thread=thread, task=task_id, owner=run.token)
        return
    yield from prepare(runs, run)
    task, live = runs.finished(run, ns, task_id)
    groups = yield from _all_groups(live)
    ids = json.dumps(sorted(groups))
    yield query.insert_finished(
        thread=thread,
        line=line,
        task=task_id,
        ns=ns,
        checkpoint=configurable["checkpoint_id"],
        caller=None if task is None else task.caller,
        groups=ids,
        now=now,
    )
    if groups:
        yield query.insert_finished_groups(thread=thread, task=task_id, ids=ids)


def is_result(channels: Iterable[str]) -> bool:
    """Whether what a task wrote to the channels is its result, and no error, question or answer."""
    return any(channel not in _CONTROL for channel in channels)


def seal(runs: Runs, put: Put) -> Steps[Callable[[], None]]:
    """Give a checkpoint its place, and what led to it a position; where the head of its thread moves, so do marks.

    Returns:
        What is to be done when it is stored.
    """
    head = _head(put)
    spot, remember = yield from _sealed(runs, put, head)
    if head.moves and head.name is not None and head.name != put.parent:
        yield from move_marks(put.thread, head.spot, spot, put.now)
    return remember


def _head(put: Put) -> _Head:
    """The head of the thread, which nobody else moves until the transaction ends."""
    if put.ns:
        return _Head(None, None, moves=False)
    [thread] = put.looked.thread
    own = None if thread["author"] is None else Author(thread["author"], thread["scope"])
    if not put.looked.head:
        return _Head(None, None, moves=True, own=own)
    [row] = put.looked.head
    spot = None if row["branch_id"] is None else (row["branch_id"], row["position"])
    return _Head(row["name"], spot, moves=row["name"] < str(put.checkpoint["id"]), own=own)


def move_marks(thread: int, before: Spot | None, after: Spot | None, now: int) -> Steps[None]:
    """Have what a thread wrote count if its new head shows it, and cease to if not.

    Only segments of branches that one of the two lines shows and the other does not are looked at.

    Args:
        thread: The row of the thread.
        before: Where its head stood.
        after: Where it stands.
        now: When.
    """
    if before == after:
        return
    old = {} if before is None else dict((yield from _line(before)))
    new = {} if after is None else dict((yield from _line(after)))
    author = yield from author_of(thread)
    for branch in sorted(old.keys() | new.keys()):
        one, other = old.get(branch, 0), new.get(branch, 0)
        if one != other:
            yield query.move_marks(
                branch=branch, author=author.id, low=min(one, other), high=max(one, other), after=other, stamp=now
            )


def author_of(thread: int) -> Steps[Author]:
    """The author that a thread is; made if need be."""
    [row] = yield query.author_of_thread(thread=thread)
    made = [row] if row["id"] is not None else (yield query.create_author(thread=thread))
    if not made:
        raise BranchMoved  # somebody else made it: begin again
    return Author(made[0]["id"], row["scope"])


def _sealed(runs: Runs, put: Put, head: _Head) -> Steps[tuple[Spot | None, Callable[[], None]]]:
    """`seal`, but for what the head's moving means. Gives the place too."""
    run = runs.of(put.configurable, put.at)
    source = put.metadata.get("source")
    name = str(put.checkpoint["id"])
    if run is None and source == "fork":
        twin = yield query.place_of_twin(
            line=put.line,
            parent=put.parent,
            versions=checkpoint_head.written(checkpoint_head.versions_of(dict(put.checkpoint))),
            checkpoint=name,
        )
        spot = (twin[0]["branch_id"], twin[0]["position"]) if twin else None
        return (yield from _settle(put, name, spot, head)), _nothing
    loop = None if run is None else run.loops.get(put.ns)
    if run is None or loop is None:
        return (yield from _seal_outside(put, name, source, head)), _nothing
    with runs.lock:
        if put.parent not in (loop.last_put, loop.base):
            loop.begin(put.parent)
            run.resumed = True
    yield from _prepare_to_put(runs, run, put, head)
    if put.parent is not None and put.parent == loop.base and loop.last_put is None and source == "loop":
        yield from _go_on(runs, loop, put)
    around = yield from _around(runs, run, put.at, put.ns, put.metadata.get("parents") or {})
    # `prepare` has read it; but somebody may have amended the head since.
    spot = head.spot if put.parent == head.name else loop.spots.get(str(put.parent))
    steps = runs.open(run, loop, name)
    stood: list[tuple[str, Spot | None]] = []
    if around is not None:
        around.groups.update(loop.carried)
    if run.minded:
        spot = yield from _stand(put, spot, around, head, loop.kept if put.parent == loop.base else None)
        for step, live in steps:
            stood.append((step, spot))
            spot = yield from _advance(put, spot, (yield from _all_groups(live)), around, head)
    spot = yield from _settle(put, name, spot, head)

    def remember() -> None:
        with runs.lock:
            loop.last_put = name
            loop.spots[name] = spot
            for step, before in stood:  # those that are never put stand where their tasks began
                loop.spots.setdefault(step, before)

    return spot, remember


def amend(thread: Thread, now: int) -> Steps[OnBranch]:
    """Have the newest checkpoint of a thread stand behind what is about to be written from outside.

    A run that is under way may not see it; its next checkpoint does.

    Args:
        thread: The thread.
        now: When.

    Returns:
        Where to write.

    Raises:
        InvalidInput: It has no checkpoint.
    """
    yield query.hold_thread(thread=thread.id)
    found = [] if thread.line is None else (yield query.latest_checkpoint(line=thread.line))
    if thread.line is None or not found:
        raise InvalidInput(f"The thread {safe_repr(thread.name)} has no checkpoint yet.")
    spot = yield from place_of(thread.line, found[0]["name"])
    # As for messages, only its own branch goes on.
    if spot is None or not (yield query.extend_branch(branch=spot[0], position=spot[1], thread=thread.name)):
        spot = (yield from _begin(thread.path, thread.name, spot, now)), 0
        yield query.extend_branch(branch=spot[0], position=0, thread=thread.name)
    at = {"branch": spot[0], "position": spot[1] + 1}
    yield query.move_place(line=thread.line, checkpoint=found[0]["name"], **at)
    return OnBranch(spot[0], spot[1] + 1, forked=True, author=(yield from author_of(thread.id)))


def hidden(at: ThreadAt, checkpoint: str, newest: str | None = None) -> Steps[Hidden | None]:
    """What of a thread's memory does not count where it goes on from an earlier checkpoint.

    Args:
        at: The thread.
        checkpoint: From where it goes on.
        newest: The newest checkpoint. Default: the newest but for that one.

    Returns:
        None where everything that was remembered counts there too.
    """
    thread = yield from find(at)
    if thread is None or thread.line is None:
        return None
    if newest is None:
        found = yield query.newest_but(line=thread.line, checkpoint=checkpoint)
        newest = found[0]["name"] if found else checkpoint
    last = yield from place_of(thread.line, newest)
    here = yield from place_of(thread.line, checkpoint)
    if last is None or last == here:
        return None
    kept = {} if here is None else dict((yield from _line(here)))
    count = 0
    for branch, high in (yield from _line(last)):
        if (low := kept.get(branch, 0)) < high:
            [row] = yield query.count_between(branch=branch, low=low, high=high)
            count += row["found"]
    return Hidden(newest, count) if count else None


def place_of(line: int, checkpoint: str) -> Steps[Spot | None]:
    """Where a checkpoint stands, if anything was ever remembered up to it."""
    found = yield query.place_of(line=line, checkpoint=checkpoint)
    return (found[0]["branch_id"], found[0]["position"]) if found else None


def time_of(checkpoint: str) -> int:
    """When a checkpoint was made, in microseconds since 1970, as its id tells; 0 if it is no UUID of version 6."""
    try:
        number = int(checkpoint.replace("-", ""), 16)
    except ValueError:
        return 0
    if number >> 76 & 0xF != 6:  # noqa: PLR2004 - the version
        return 0
    ticks = (number >> 80 << 12) | (number >> 64 & 0xFFF)
    return (ticks - 0x01B21DD213814000) // 10


# -- the parts of the above ------------------------------------------------------------------------------------------


def _seal_outside(put: Put, name: str, source: Any, head: _Head) -> Steps[Spot | None]:
    """A checkpoint that no run puts, such as that of an update of the state. Gives its place."""
    if not put.ns and source != "update" and put.said is None:
        yield query.inherit_place(line=put.line, parent=put.parent, checkpoint=name)
        if put.parent is None or put.parent == head.name:
            return head.spot if put.parent is not None else None
        return (yield from place_of(put.line, put.parent))
    around = yield from _around(None, None, put.at, put.ns, put.metadata.get("parents") or {})
    spot = None if put.parent is None else (yield from place_of(put.line, put.parent))
    if around is not None and spot is not None:
        around.groups.update((yield from _base_of(spot[0])).groups)
    spot = yield from _stand(put, spot, around, head)
    if source == "update" and put.parent is not None:
        found = yield query.finished_at(thread=put.thread, ns=put.ns, checkpoint=put.parent)
        groups = {group for row in found if row["caller"] is None for group in json.loads(row["groups"])}
        before = (yield from put.before()) if groups else None
        if before is not None and any(
            seen and seen != before.seen.get(node) for node, seen in put.checkpoint["versions_seen"].items()
        ):
            spot = yield from _advance(put, spot, dict.fromkeys(groups, FOREVER), around, head)
    return (yield from _settle(put, name, spot, head))


def _go_on(runs: Runs, loop: Loop, put: Put) -> Steps[None]:
    """A run that went on where its base stopped seals what finished there before, though none of its tasks was seen."""
    if loop.base is None or loop.base in loop.steps:
        return
    step, versions = loop.step, loop.versions
    if step is None:
        before = yield from put.before()
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
    runs: Runs | None, run: GraphRun | None, at: ThreadAt, inner: str, parents: Mapping[str, str]
) -> Steps[_Base | None]:
    """Return the base of a subgraph's branch; None for a thread's own.

    Args:
        runs: The runs of this process.
        run: The run; None outside of runs.
        at: The thread.
        inner: The subgraph's name within the thread.
        parents: The checkpoints of the loops around it.
    """
    names = [level.ns for level in reversed(levels_around(inner, parents)) if level.ns != inner]
    if not inner or not names:
        return None
    around = _Base(parents[names[0]], None, {})
    for ns in names:  # where nothing was put around it yet, it stands on what is around that
        known = None if runs is None or run is None else runs.base_of(run, ns, parents[ns])
        if known is not None:
            around.groups.update((yield from _all_groups(known[1])))
            spot = known[0]
        else:
            thread = yield from find(at, ns)
            line = None if thread is None else thread.line
            spot = None if line is None else (yield from place_of(line, parents[ns]))
        if spot is not None:
            return around._replace(spot=spot)
        if run is not None and ns in run.loops:
            around.groups.update(run.loops[ns].carried)
    return around


def _stand(
    put: Put, spot: Spot | None, around: _Base | None, head: _Head, kept: Groups | None = None
) -> Steps[Spot | None]:
    """The place from which a checkpoint's memory goes on: for a subgraph, on a branch that stands where it stands.

    A subgraph that keeps its state goes on from its own checkpoint, whatever that around it was then. So what it showed
    there, and the new base does not, lies on its new branch once more.
    """
    if around is None:
        return spot
    here = None if spot is None else (yield from _base_of(spot[0]))
    if here is not None and here.checkpoint == around.checkpoint:
        return spot if here == around else ((yield from _branch(put, spot, around)), 0)
    if kept is None:
        kept = {} if spot is None else (yield from _unheld(spot, around))
    if around.spot is None and not around.groups and not kept:
        return None
    return (yield from _advance(put, ((yield from _branch(put, None, around)), 0), kept, around, head))


def _unheld(spot: Spot, around: _Base) -> Steps[Groups]:
    """Return the groups that a subgraph's place shows and a base does not, but not those of unfinished callers."""
    held = View((), (), 0) if around.spot is None else (yield from view_of(*around.spot, 0))
    shown = yield from view_of(*spot, 0)
    there = dict(held.line)
    line = json.dumps([level for level in shown.line if there.get(level[0], -1) < level[1]])
    found = yield query.groups_on(line=line, groups=json.dumps(shown.groups))
    groups = {row["group_id"]: FOREVER for row in found if row["group_id"] not in around.groups}
    rows = yield query.sealable(line=json.dumps(held.line), groups=json.dumps(sorted(groups.items())))
    return {row["group_id"]: FOREVER for row in rows}


def _advance(put: Put, spot: Spot | None, groups: Groups, around: _Base | None, head: _Head) -> Steps[Spot | None]:
    """Seal groups behind a place, unless they lie on its line already.

    Returns:
        The place behind them.
    """
    if not groups:
        return spot
    line = [] if spot is None else (yield from _line(spot))
    found = yield query.sealable(line=json.dumps(line), groups=json.dumps(sorted(groups.items())))
    if not found:
        return spot
    if spot is None:
        spot = (yield from _branch(put, None, around)), 0
    [row] = yield query.lock_head(branch=spot[0])
    thread = row["thread"]
    late = any(each["late"] for each in found)
    if late or row["head"] > spot[1]:
        base = _UNORDERED if late and around is None else around
        spot, thread = ((yield from _branch(put, spot, base)), 0), put.at.name
    branch, position = spot[0], spot[1] + 1
    own = head.own or (yield from author_of(put.thread))
    stamp = None
    if not put.ns:  # on its own line; what a subgraph wrote counts when it comes there
        ids = json.dumps([each["group_id"] for each in found])
        [row] = yield query.newest_stamp(scope=own.scope, ids=ids)
        stamp = max(put.now, (row["stamp"] or 0) + 1)
        if stamp > put.now:  # its view goes as far as what it shows
            yield query.see(line=put.line, name=str(put.checkpoint["id"]), stamp=stamp)
    for each in found:
        what = {"group": each["group_id"], "branch": branch, "position": position}
        writer = own if each["writer"] in (None, put.thread) else (yield from author_of(each["writer"]))
        heads = {"author": own.id, "stamp": stamp, "heads": int(head.moves)}
        yield query.seal_group(
            **what, scope=own.scope, author=writer.id, stamp=stamp, heads=int(head.moves and writer == own)
        )
        yield query.copy_group(**what, **heads)
        yield query.supersede_sealed(**what, **heads)
        yield query.insert_seal(**what, thread=None if each["series"] == thread else each["series"])
        yield query.delete_group(group=each["group_id"])
    if not (yield query.move_head(branch=branch, expected=spot[1], position=position, added=0)):
        raise BranchMoved
    return branch, position


def _record(put: Put, spot: Spot | None, head: _Head) -> Steps[Spot | None]:
    """Seal the messages that a checkpoint brings behind a place; gives the place behind them.

    Where a line shows no message yet, the thread was not recorded before: all that it has is. The same holds where a
    message without an id says what was said before, to know for which time.
    """
    if put.said is None:
        return spot
    listener = all_parts().listener
    messages: Mapping[str, Heard] = {}
    known: dict[str, bytes | None] = {}
    if spot is not None:
        messages = listener.named((yield from put.said(everything=False)))
        known = yield from _known(spot, messages, head)
    again = any(each.nameless and key in known for key, each in messages.items())
    if spot is None or again or (messages and not known):
        messages = listener.named((yield from put.said(everything=True)))
    if spot is not None and again:
        known = yield from _known(spot, messages, head)
    noted = yield from listener.note(put.path, put.at.name, messages, known, now=put.now, tail=put.tail)
    put.stored[:] = [each.key for each in noted if each.new]
    if not noted:
        return spot
    # Only the thread's own branch goes on, since a search finds what lies there by the thread that began it.
    if spot is None or not (yield query.extend_branch(branch=spot[0], position=spot[1], thread=put.at.name)):
        spot = (yield from _branch(put, spot, None)), 0
        yield query.extend_branch(branch=spot[0], position=0, thread=put.at.name)
    spot = spot[0], spot[1] + 1
    yield from _write_said(put, spot, noted, known, head)
    return spot


def _known(spot: Spot, messages: Mapping[str, Heard], head: _Head) -> Steps[dict[str, bytes | None]]:
    """The hashes of messages that the line behind a place shows, by their ids; and None where it shows any at all."""
    if not messages or head.own is None:
        return {}
    rows = yield query.said_on(branch=spot[0], position=spot[1], keys=json.dumps(list(messages)), author=head.own.id)
    return {row["key"]: None if row["hash"] is None else bytes(row["hash"]) for row in rows}


def _write_said(put: Put, spot: Spot, noted: Sequence[Noted], known: Mapping[str, Any], head: _Head) -> Steps[None]:
    branch, position = spot
    own = head.own or (yield from author_of(put.thread))
    stamp = put.now
    if again := [each.key for each in noted if each.key in known]:
        keys = json.dumps([("message", key) for key in again])
        [row] = yield query.newest_stamp_named(scope=own.scope, keys=keys)
        stamp = max(stamp, (row["stamp"] or 0) + 1)
        if stamp > put.now:
            yield query.see(line=put.line, name=str(put.checkpoint["id"]), stamp=stamp)
        ended = stamp if head.moves else None
        for key in again:
            yield query.supersede(branch=branch, position=position, kind="message", key=key, stamp=ended, author=own.id)
    yield query.insert_said.many(
        [
            {
                "branch": branch,
                "position": position,
                "key": each.key,
                "hash": each.hash,
                "created_at": each.created_at,
                "now": put.now,
                "scope": own.scope,
                "author": own.id,
                "stamp": stamp,
                "gone": FOREVER if head.moves else 0,
                "source": SOURCES.get(each.role or ""),
            }
            for each in noted
        ]
    )


def _begin(path: str, thread: str, parent: Spot | None, now: int) -> Steps[int]:
    """Begin a branch of a thread, behind a place or anew."""
    at, position = (None, None) if parent is None else parent
    [row] = yield query.begin_branch(path=path, kind=KIND, thread=thread, parent=at, position=position, now=now)
    return int(row["id"])


def _branch(put: Put, parent: Spot | None, around: _Base | None) -> Steps[int]:
    branch = yield from _begin(put.path, put.at.name, parent, put.now)
    if around is not None:
        yield query.insert_base(
            branch=branch,
            base=None if around.spot is None else around.spot[0],
            base_position=None if around.spot is None else around.spot[1],
            checkpoint=around.checkpoint,
            groups=json.dumps(sorted(around.groups.items())),
        )
        yield query.insert_base_group.many([{"group": group, "branch": branch} for group in sorted(around.groups)])
    return branch


def _settle(put: Put, name: str, spot: Spot | None, head: _Head) -> Steps[Spot | None]:
    """Give a checkpoint its place, behind the messages that it brings."""
    spot = yield from _record(put, spot, head)
    if spot is not None:
        yield query.insert_place(line=put.line, checkpoint=name, branch=spot[0], position=spot[1])
    return spot


def _base_of(branch: int) -> Steps[_Base]:
    found = yield query.base_of(branch=branch)
    if not found:
        return _Base("", None, {})
    row = found[0]
    spot = None if row["base_id"] is None else (row["base_id"], row["base_position"])
    return _Base(row["checkpoint"], spot, dict(json.loads(row["groups"])))


def _line(spot: Spot) -> Steps[list[Spot]]:
    """The branches that lead to a place, the nearest first."""
    found = yield query.line_from(branch=spot[0], position=spot[1], own=0, deepest=FOREVER)
    return [(row["branch_id"], row["up_to"]) for row in found]


def _all_groups(live: Live) -> Steps[Groups]:
    """The groups that count, those that lie on the lines of subgraphs included."""
    groups = dict(live.groups)
    for spot in live.spots:
        line = yield from _line(spot)
        found = yield query.groups_on(line=json.dumps(line), groups="[]")
        groups.update((row["group_id"], FOREVER) for row in found)
    return groups


def _nothing() -> None:
    """Nothing is to be done."""
