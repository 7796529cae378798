"""The memory of a thread: in a task what the task can see, elsewhere what a checkpoint shows.

Copying a thread copies no rows. When checkpoints are removed, rows that no remaining checkpoint, fork or subgraph can
see are deleted, and no others. A copy of a thread shares its branches, and keeps what it shows when the original is
deleted. As a part of the database, the memory of whole namespaces is counted by its
tables, verified, and erased, whatever state it is in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from langchain_agentmem.base import namespaces
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.rewinding import memory_rows, message_sources, sealing
from langchain_agentmem.rewinding.branches import (
    MAIN,
    NAMED_BRANCH,
    BranchPosition,
    MemoryPosition,
    main_author,
    resolve_branch,
    view_of,
)
from langchain_agentmem.rewinding.graph_runs import Place, RunRegistry, nested_graphs, runs_of, thread_key_of
from langchain_agentmem.rewinding.memory_rows import FOREVER, MemoryView, WriteTarget
from langchain_agentmem.rewinding.sealing import STALE_AFTER, drop_group
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Erasure, Part, thread_recorder
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads import thread_rows
from langchain_agentmem.threads.thread_rows import ROOT_NS, find_thread

WITHIN_HINT = "say whose with memory.within(...)"
_TASK_KEY = "__pregel_task_id"


class ThreadPosition(NamedTuple):
    """A thread at a checkpoint, or in a task.

    Attributes:
        runs: The runs of this process.
        at: The thread.
        configurable: The configurable of the config.
        own_only: Whether only its own line is seen, without what else counts in its scope. Default: no.
        amends: Whether a person writes at its newest checkpoint, from outside. Default: only its tasks write.
    """

    runs: RunRegistry
    at: namespaces.ThreadKey
    configurable: Mapping[str, Any]
    own_only: bool = False
    amends: bool = False

    @property
    def follows_thread(self) -> bool:
        """True if memory follows the thread; the graph of a task may have another checkpointer."""
        return _TASK_KEY not in self.configurable or self.runs.uses_saver(self.configurable, self.at)

    @property
    def path(self) -> str:
        """The path of the namespace."""
        return self.at.path

    @property
    def name(self) -> str:
        """The thread's id."""
        return self.at.name

    @property
    def writable(self) -> bool:
        """True in a task, which can write."""
        return _TASK_KEY in self.configurable

    def view(self, tx: Transaction, now: int) -> MemoryView:
        """Return what the task sees, or what the checkpoint shows."""
        if _TASK_KEY in self.configurable:
            _, _, view = sealing.view_of_task(tx, self.runs, self.configurable, self.at)
            return self._with_scope(tx, view)
        ns = self.configurable.get("checkpoint_ns") or ROOT_NS
        thread = find_thread(tx, self.at, ns)
        name = self.configurable.get("checkpoint_id")
        if thread is None or thread.ns_id is None:
            return self._with_scope(tx, MemoryView((), (), now))
        path = thread.path  # the config may name the thread alone
        max_stamp = None
        if name is None:
            latest = query.latest_checkpoint(tx, ns_id=thread.ns_id)
            name = latest[0]["name"] if latest else ""
        elif not self.own_only:
            rows = query.find_view_stamp(tx, ns_id=thread.ns_id, name=name)
            max_stamp = rows[0]["stamp"] if rows else None
        place = sealing.place_of(tx, thread.ns_id, name)
        view = MemoryView((), (), now) if place is None else view_of(tx, *place, sealing.checkpoint_time(name) or now)
        return self._with_scope(tx, view, max_stamp, path)

    def _with_scope(
        self, tx: Transaction, view: MemoryView, max_stamp: int | None = None, path: str | None = None
    ) -> MemoryView:
        """Add to a view what counts of others in its scope, now or up to a stamp."""
        path = self.at.path if path is None else path
        if self.own_only or not self.runs.scopes.is_shared(path):
            return view
        rows = query.scope_of_thread(tx, path=path, name=self.at.name)
        if not rows:
            return view
        [row] = rows
        return view._replace(scope=row["scope"], author=row["author"] or 0, max_stamp=max_stamp)

    def open_for_write(self, tx: Transaction, now: int) -> tuple[MemoryView, WriteTarget]:
        """Return what the task sees, and the group or position that it writes to.

        Raises:
            InvalidInput: This is no task: what a checkpoint shows does not change.
            StepIsOver: Another attempt of the task has taken its place.
        """
        if self.amends:
            thread = find_thread(tx, self.at, exact=True)
            if thread is None:
                raise InvalidInput(
                    f"There is no thread {safe_repr(self.name)} in {safe_repr(namespaces.namespace_of(self.path))}."
                )
            target = sealing.amend_head(tx, thread, now)
            return self.view(tx, now), target
        if _TASK_KEY not in self.configurable:
            raise InvalidInput(
                "The memory of a thread is written by its nodes; outside of them it can only be read. In a node, give "
                "the node's own config. For memory that belongs to no thread, give the name of a branch."
            )
        run, execution, view = sealing.view_of_task(tx, self.runs, self.configurable, self.at)
        group_id = sealing.open_group(tx, self.runs, run, execution, now)
        if all(group != group_id for group, _ in view.groups):
            view = view._replace(groups=(*view.groups, (group_id, FOREVER)))
        return self._with_scope(tx, view), WriteTarget(group=group_id)


def amending_position(database: Database, name: str, path: str) -> ThreadPosition:
    """Return the position of a thread at whose newest checkpoint a person writes.

    Args:
        database: The database of the memory.
        name: The thread's id.
        path: The path of its namespace.

    Raises:
        InvalidInput: The thread shares its memory with others; people write on their branch "main".
    """
    if database.scopes.is_shared(path):
        raise InvalidInput(
            "The threads of a namespace share what they remember: leave out thread_id to change it for all."
        )
    return ThreadPosition(runs_of(database), namespaces.ThreadKey(path, name), {}, amends=True)


def thread_position(database: Database, given: Any, *, own_only: bool = False) -> ThreadPosition:
    """Return the thread that a config or runtime of LangGraph names.

    Args:
        database: The database of the memory.
        given: A config; a `Runtime` or `ToolRuntime`; None for the run this is called in. A config that names no
            checkpoint means, in a task of its thread, that task.
        own_only: Whether only its own line is seen. Default: no.

    Raises:
        InvalidInput: It names no thread, or something that can be no id.
    """
    running, config = namespaces.running_config(), _config_of(given)
    if not isinstance(config, Mapping) or not isinstance(config.get("configurable") or {}, Mapping):
        raise InvalidInput(
            f"A thread is named by the config of a node, or by its runtime, not by {safe_repr(given)}. Outside "
            "of a run, and in threads that do not carry its context, give the config, or the name of a branch."
        )
    at = thread_key_of(config, database.scopes)
    configurable: Mapping[str, Any] = config["configurable"]
    for key in ("checkpoint_id", "checkpoint_ns"):
        if not isinstance(configurable.get(key), str | UUID | None):
            raise InvalidInput(f"{key} is a text, not {safe_repr(configurable[key])}.")
    if _TASK_KEY not in configurable and not configurable.get("checkpoint_id") and running is not None:
        task = running.get("configurable") or {}
        with suppress(InvalidInput):  # the run is another graph's, which names nobody here
            if _TASK_KEY in task and database.scopes.is_run_allowed() and thread_key_of(running, database.scopes) == at:
                configurable = task
    return ThreadPosition(runs_of(database), at, configurable, own_only)


def _config_of(given: Any) -> Any:
    """Return a config as it is, or that of a LangGraph object; else that of the current run."""
    return given if isinstance(given, Mapping) else getattr(given, "config", None) or namespaces.running_config()


def resolve_position(
    database: Database, given: Any, namespace: Sequence[str] | None = None, *, own_only: bool = False
) -> MemoryPosition:
    """Return the branch or thread that is named; else the run's thread; else "main".

    The branch "main" is that of the namespace.

    Args:
        database: The database of the memory.
        given: The name of a branch, or an object that names a thread, see `thread_position`. Default: the current run.
        namespace: The namespace. One other than the thread's, or any if `given` is None, selects its branch "main".
        own_only: Whether only a thread's own line is seen. Default: no.

    Raises:
        InvalidInput: It names no thread and no namespace, or something that can be no id.
    """
    scopes = database.scopes
    if isinstance(given, str) or (given is None and (namespace is not None or not scopes.is_run_allowed())):
        return resolve_branch(MAIN if given is None else given, namespace, scopes)
    config = _config_of(given)
    if isinstance(config, Mapping) and namespaces.configurable_of(config).get("thread_id") is None:
        path = namespaces.path_of(scopes.resolve(namespace, config))
        if scopes.is_shared(path):
            return BranchPosition(path, MAIN, scopes)
    thread = thread_position(database, given, own_only=own_only)
    path = thread.path
    if namespace is not None and namespaces.path_of(namespace):
        path = namespaces.path_of(scopes.resolve(namespace))
    if path != thread.path or (scopes.boundary is not None and not thread.follows_thread):
        return BranchPosition(path, MAIN, scopes)
    return thread


def conversation_of_run(database: Database, config: Mapping[str, Any] | None, *, shared: bool = False) -> str | None:
    """Return the id of the conversation that a run belongs to.

    The thread's own graph has the conversation of the thread. A nested graph that saves checkpoints has its own; one
    that does not has none, nor has a run whose thread was deleted.

    Args:
        database: The database of the memory.
        config: The config of the run.
        shared: Whether a nested graph belongs to the conversation of the graph that calls it. Default False.

    Returns:
        The id; None where the run has no thread, or its messages are not to be recorded.
    """
    configurable = namespaces.configurable_of(config)
    if (thread := configurable.get("thread_id")) is None:
        return None
    thread, graphs = namespaces.check_id(thread, "thread"), nested_graphs(configurable)
    if runs_of(database).is_thread_deleted(configurable):
        return None
    if not (graphs := graphs[:-1] if shared else graphs):
        return thread
    saves = runs_of(database).saves_checkpoints(configurable, graphs[-1])
    return namespaces.nested_conversation(thread, graphs[-1]) if saves else None


BATCH_SIZE = 500


class ThreadLeftovers(NamedTuple):
    """The branches, groups and scope that a thread may leave behind.

    The branches include those before them; the scope stands for its namespace's past.
    """

    branches: list[int]
    groups: list[int]
    scope: int


def copy_thread(tx: Transaction, source: namespaces.ThreadKey, target: str, *, now: int) -> None:
    """Copy a thread, with the places of its memory. Both share branches until they differ.

    Messages belong to both: each thread has a conversation of its own, which stays when the other is deleted.

    Args:
        tx: The transaction.
        source: The thread.
        target: The id of the copy, which is in the same namespace.
        now: The time, in microseconds since 1970.
    """
    thread = find_thread(tx, source)
    if thread is None or target == source.name:
        return
    existing = find_thread(tx, namespaces.ThreadKey(thread.path, target), exact=True)
    old_head = None if existing is None else head_place(tx, existing.id)
    copy_id = thread_rows.copy_thread(tx, thread, existing, target, now=now).id
    author, copy_author = sealing.author_of(tx, thread.id), sealing.author_of(tx, copy_id)
    query.copy_thread_messages(
        tx, source=author.id, target=copy_author.id
    )  # what it wrote stays its own where the copy seals it
    thread_recorder().copy_thread_entries(tx, namespaces.ThreadKey(thread.path, source.name), target, now=now)
    query.copy_positions(tx, source=thread.id, target=copy_id)
    query.copy_finished_tasks(tx, source=thread.id, target=copy_id)
    query.copy_finished_groups(tx, source=thread.id, target=copy_id)
    sealing.move_marks(tx, copy_id, old_head, head_place(tx, copy_id), now)


def movable_branches(tx: Transaction, thread: int, name: str) -> list[int]:
    """Lock a thread; return the branches that move with it into another namespace.

    Args:
        tx: The transaction.
        thread: The row of the thread.
        name: Its id.

    Raises:
        InvalidInput: The thread shares its memory with a copy, or with the branch it was forked from.
    """
    query.lock_thread(tx, thread=thread)
    sealing.author_of(tx, thread)
    ids: list[int] = []
    pending = {row["id"] for row in query.branches_of_checkpoints(tx, thread=thread)}
    while pending:
        rows = query.ancestor_branches(tx, ids=json.dumps(sorted({*ids, *pending})))
        ids = sorted(row["id"] for row in rows)
        pending = {row["id"] for row in query.branches_of_originals(tx, ids=json.dumps(ids))} - {*ids}
    if query.has_other_references(tx, thread=thread, ids=json.dumps(ids)):
        raise InvalidInput(
            f"The thread {safe_repr(name)} shares what it remembers with a copy of it, or with the branch it was "
            "forked from. They stay in one namespace: delete one of them first."
        )
    return ids


def delete_threads(
    tx: Transaction, low: str, high: str, name: str | None, *, now: int = 0, scopes: namespaces.Scopes | None = None
) -> list[thread_rows.DeletedThread]:
    """Delete threads with everything that belongs to them, and with their memory.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.
        name: The threads' id; None for all.
        now: The time, in microseconds since 1970. Needed only if something is kept.
        scopes: Which namespaces share their memory, and keep on their branch "main" what a thread taught. Default:
            nothing is kept.

    Returns:
        The deleted threads.

    Raises:
        InvalidInput: Threads belong to users, several have one of this id, and nobody says whose is meant.
    """
    threads = query.threads_within(tx, low=low, high=high, name=name)
    if scopes is not None and name is not None and not low:
        scopes.check_unambiguous([row["path"] for row in threads], name, WITHIN_HINT)
    merged_places: list[Place] = []
    for row in threads:
        if scopes is not None and scopes.retains_deleted and scopes.is_shared(row["path"]):
            merged_places += _merge_into_main(tx, namespaces.ThreadKey(row["path"], row["name"]), now)
        else:
            _end_marks(tx, row, quoted=scopes is None)
    leftovers = [_collect_leftovers(tx, row["id"]) for row in threads]
    deleted = thread_rows.delete_threads(tx, threads)
    for row in threads:
        thread_recorder().delete_thread_entries(tx, namespaces.ThreadKey(row["path"], row["name"]))
    for branch, position in merged_places:  # what no copy of the thread stands on needs not be there twice
        if rows := query.copies_to_replace(tx, branch=branch, position=position):
            pairs = [{"copy": row["copy"], "original": row["original"]} for row in rows]
            query.replace_copy.run_many(tx, pairs)
            query.delete_memory.run_many(tx, [{"id": each["copy"]} for each in pairs])
    _sweep_leftovers(tx, leftovers)
    for path in sorted({row["path"] for row in threads}):
        memory_rows.clean_namespace(tx, path)
    return deleted


def _end_marks(tx: Transaction, row: Row, *, quoted: bool) -> None:
    """End the marks of a thread that is deleted: none of its memory counts any more.

    Corrections that quote the thread are forgotten, unless `quoted`: then the caller forgets them.
    """
    author = sealing.author_row(tx, row["id"])
    if author["id"] is not None:
        query.hide_author_memory(tx, author=author["id"], branch=0)
    if not quoted:
        low = row["path"]
        message_sources.forget_corrections(tx, low, low + "\x01", row["name"], take_back=True)


def _merge_into_main(tx: Transaction, at: namespaces.ThreadKey, now: int) -> list[Place]:
    """Give what counts of a thread to the branch "main" of its scope; return its places.

    Rows keep their author and stamps.
    """
    thread = find_thread(tx, at)
    if thread is None or (place := head_place(tx, thread.id)) is None:
        return []
    author = sealing.author_of(tx, thread.id)
    if not query.has_shared_memory(tx, author=author.id):
        query.hide_author_memory(tx, author=author.id, branch=0)
        return []
    view = view_of(tx, *place, now)
    branch, head = BranchPosition(at.path, MAIN).lock(tx, now)
    main_author(tx, at.path)
    merged = query.copy_to_main(tx, **view.parameters(), from_author=author.id, branch=branch, position=head + 1)
    superseded = query.supersede_on_main(tx, branch=branch, position=head + 1, now=now)
    query.hide_author_memory(tx, author=author.id, branch=branch)
    if merged and not query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0):
        raise BranchMoved
    memory_rows.delete_unseen(tx, [row["id"] for row in superseded])
    return [(branch, head + 1)] if merged else []


def forget_authors(tx: Transaction, low: str, high: str, name: str) -> None:
    """Remove what the threads of an id ever wrote and taught others.

    What it hid on lines of copies stays hidden.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.
        name: The threads' id.
    """
    rows = query.memory_of_authors(tx, low=low, high=high, name=name)
    main_rows = [row for row in rows if row["on_main"]]
    memory_rows.delete_rows(tx, main_rows)
    deleted = {row["id"] for row in main_rows}
    deleted.update(memory_rows.delete_unseen(tx, [row["copy_of"] for row in main_rows if row["copy_of"] is not None]))
    memory_rows.mark_deleted(tx, [row for row in rows if row["id"] not in deleted], hides_nothing=True)
    authors = query.authors_without_thread(tx, low=low, high=high, name=name)
    if authors:
        query.anonymize_author.run_many(tx, [{"id": row["id"]} for row in authors])
    for path in sorted({row["path"] for row in authors}):
        memory_rows.clean_namespace(tx, path)


def head_place(tx: Transaction, thread: int) -> Place | None:
    """Return the place of the newest checkpoint of a thread; None if it has none."""
    rows = query.thread_head(tx, thread=thread)
    return (rows[0]["branch_id"], rows[0]["position"]) if rows and rows[0]["branch_id"] is not None else None


def delete_for_runs(tx: Transaction, runs: Sequence[str], low: str, high: str, *, now: int) -> int:
    """Remove the checkpoints that some runs made, and what only they showed.

    What the runs wrote for other checkpoints is removed too.

    Args:
        tx: The transaction.
        runs: The runs' ids.
        low: The first namespace path.
        high: Path after the last.
        now: The time, in microseconds since 1970.

    Returns:
        The number of removed checkpoints.
    """
    wanted = {"runs": json.dumps(sorted(set(runs))), "low": low, "high": high}
    threads = query.threads_of_runs(tx, **wanted)
    heads = {row["id"]: head_place(tx, row["id"]) for row in threads}
    writes = query.writes_of_runs(tx, **wanted)
    leftovers = [
        _collect_leftovers(tx, thread) for thread in sorted(heads.keys() | {row["thread_id"] for row in writes})
    ]
    checkpoints = query.checkpoints_of_runs(tx, **wanted)
    thread_rows.delete_for_runs(tx, checkpoints, writes)
    for thread, old_head in heads.items():
        sealing.move_marks(tx, thread, old_head, head_place(tx, thread), now)
    dropped: set[int] = set()
    for row in writes:
        for each in query.groups_of_task(tx, thread=row["thread_id"], task=row["task"]):
            if each["ended"]:
                dropped.add(each["id"])
        for each in query.delete_finished_task(
            tx, thread=row["thread_id"], ns_id=row["ns_id"], checkpoint=row["checkpoint"], task=row["task"]
        ):
            dropped.update(json.loads(each["groups"]))
    _sweep_leftovers(tx, leftovers)
    _drop_groups(tx, sorted(dropped))
    return len(checkpoints)


def prune_thread(tx: Transaction, at: namespaces.ThreadKey, *, keep: int, now: int) -> int:
    """Remove the oldest checkpoints of a thread, a batch at a time, and what only they showed.

    Args:
        tx: The transaction.
        at: The thread; the empty path stands for the root.
        keep: How many of each line stay.
        now: The time, in microseconds since 1970.

    Returns:
        The number of removed checkpoints; if it is `thread_lines.BATCH`, more are left.
    """
    thread = find_thread(tx, at, exact=True)
    if thread is None:
        return 0
    leftovers = _collect_leftovers(tx, thread.id)  # afterwards nothing may tell of some of its branches
    removed = thread_rows.prune_thread(tx, at, keep=keep)
    _sweep_branches(tx, leftovers)
    sweep_thread(tx, thread.id, now)
    return removed


def sweep_thread(tx: Transaction, thread: int, now: int) -> None:
    """Delete what a thread's checkpoints no longer show, and old writes of its tasks.

    Writes are old after a day (`STALE_AFTER`) if no checkpoint will show them.

    Args:
        tx: The transaction.
        thread: The row of the thread.
        now: The time, in microseconds since 1970.
    """
    query.delete_stale_finished(tx, thread=thread, before=now - STALE_AFTER)
    stale = query.stale_groups(tx, thread=thread, before=now - STALE_AFTER)
    leftovers = _collect_leftovers(tx, thread)
    _sweep_branches(tx, leftovers)
    _sweep_main(tx, leftovers.scope)
    _drop_groups(tx, [row["id"] for row in stale])


def _collect_leftovers(tx: Transaction, thread: int) -> ThreadLeftovers:
    """Return what a thread has, before it is deleted or pruned."""
    thread_branches = query.branches_of_thread(tx, thread=thread)
    branches = query.ancestor_branches(tx, ids=json.dumps([row["id"] for row in thread_branches]))
    groups = query.groups_of_thread(tx, thread=thread)  # of a copy, also groups of a thread that may be gone
    row = sealing.author_row(tx, thread)
    return ThreadLeftovers([each["id"] for each in branches], sorted(each["id"] for each in groups), row["scope"])


def _sweep_leftovers(tx: Transaction, leftovers: Sequence[ThreadLeftovers]) -> None:
    """Delete what nobody can see any more of some threads, and groups of deleted threads."""
    for each in leftovers:
        _sweep_branches(tx, each)
        rows = query.existing_groups(tx, ids=json.dumps(each.groups))
        existing = {row["id"] for row in rows}
        _drop_groups(tx, [group for group in each.groups if group not in existing])
    for scope in sorted({each.scope for each in leftovers}):
        _sweep_main(tx, scope)


def _sweep_branches(tx: Transaction, leftovers: ThreadLeftovers) -> None:
    """Delete the rows on some branches that nobody can see any more."""
    branches = leftovers.branches
    while branches:
        while page := query.unreferenced_memory(tx, ids=json.dumps(branches), limit=BATCH_SIZE):
            memory_rows.delete_rows(tx, page)
            copied = [row["copy_of"] for row in page if row["copy_of"] is not None]
            if copied:  # originals that were kept for these copies may be needed no more
                found = query.branches_of_memory(tx, ids=json.dumps(copied))
                branches = [*branches, *({row["id"] for row in found} - {*branches})]
        idle = {row["id"] for row in query.idle_branches(tx, ids=json.dumps(branches))}
        for branch in sorted(idle):
            query.delete_branch(tx, branch=branch)
        if not idle:
            break
        branches = [branch for branch in branches if branch not in idle]


def _sweep_main(tx: Transaction, scope: int) -> None:
    """Delete rows that ended on a namespace's branch "main" and no checkpoint shows."""
    while page := query.superseded_memory(tx, scope=scope, limit=BATCH_SIZE):
        memory_rows.delete_rows(tx, page)


def _drop_groups(tx: Transaction, groups: Sequence[int]) -> None:
    """Drop groups without a place that nobody else needs."""
    if groups:
        mentioned = {row["group_id"] for row in query.referenced_groups(tx, ids=json.dumps(groups))}
        for group in groups:
            if group not in mentioned:
                drop_group(tx, group)


def erase_branches(tx: Transaction, low: str, high: str) -> int:
    """Delete the branches of some namespaces with all rows on them.

    The threads of the namespaces must be deleted already.

    Groups that belong to nobody, which only an accident leaves, go with any erasure.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.

    Returns:
        The number of named branches that were deleted.
    """
    rows = query.memory_branches(tx, low=low, high=high)
    ids = json.dumps([row["id"] for row in rows])
    query.delete_positions(tx, ids=ids)
    query.delete_branch_bases(tx, ids=ids)
    query.detach_branches(tx, ids=ids)
    for row in rows:
        while page := query.memory_of_branch(tx, branch=row["id"], limit=BATCH_SIZE):
            memory_rows.delete_rows(tx, page)
        query.delete_branch(tx, branch=row["id"])
    for row in query.lost_groups(tx):
        drop_group(tx, row["id"])
    for path in sorted({row["path"] for row in rows}):
        memory_rows.clean_namespace(tx, path)
    return sum(row["kind"] == NAMED_BRANCH for row in rows)


def _erase(tx: Transaction, erasure: Erasure) -> None:
    """Delete threads and branches with their memory, and what was learned from them."""
    low, high, name = erasure.low, erasure.high, erasure.name
    [before] = query.memory_total(tx, last=None)
    if name is not None:
        message_sources.forget_corrections(tx, low, high, name, take_back=erasure.threads)
        message_sources.forget(tx, low, high, name)
    if erasure.threads:
        erasure.removed["threads"] += len(delete_threads(tx, low, high, name))
        if name is not None:
            forget_authors(tx, low, high, name)
    if name is None:
        erasure.removed["branches"] += erase_branches(tx, low, high)
    [after] = query.memory_total(tx, last=before["last"])  # what others write meanwhile does not count
    erasure.removed["memories"] += max(0, before["total"] - after["total"])


PART = Part(
    tables={
        "layers": (
            "author",
            "memory",
            "memory_source",
            "memory_group",
            "sealed_group",
            "finished_task",
            "finished_group",
            "checkpoint_position",
            "branch_base",
            "base_group",
        )
    },
    verify={"memories": memory_rows.find_problems},
    erase=_erase,
)
