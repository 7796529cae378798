"""The memory of a thread, as seen by a task or at a checkpoint.

A copy of a thread shares the branches of the original, so no rows are copied. The copy keeps its memory when the
original is deleted. When checkpoints are removed, exactly the rows that no remaining checkpoint, fork or subgraph can
see are deleted.

`PART` registers the tables of memory, their verification, and the erasure of whole namespaces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from langchain_agentmem.base import namespaces
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.rewinding import branches as named_branches
from langchain_agentmem.rewinding import graph_runs, memory_rows, message_sources, sealing
from langchain_agentmem.rewinding.branches import MAIN, BranchPosition, MemoryPosition, load_view, resolve_branch
from langchain_agentmem.rewinding.graph_runs import Place, RunRegistry, get_run_registry
from langchain_agentmem.rewinding.memory_rows import FOREVER, MemoryView, WriteTarget
from langchain_agentmem.rewinding.sealing import STALE_AFTER, drop_group
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Erasure, Part, thread_recorder
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads import thread_rows
from langchain_agentmem.threads.thread_rows import ROOT_NS, find_thread

WITHIN_HINT = "choose one with memory.within(...)"
"""The end of the error for a thread id that several namespaces contain."""
_TASK_KEY = "__pregel_task_id"
"""The key of the task id in LangGraph's configs; a config without this key is not the config of a task."""


class ThreadPosition(NamedTuple):
    """A thread at a checkpoint, or in a task.

    Attributes:
        runs: The runs of this process.
        at: The key of the thread, from its namespace and id.
        configurable: The configurable of the config.
        own_only: True to see only the thread's own lineage, without other memory of its scope. Default: False.
        amends: True for writes by a person outside of a run, at the newest checkpoint. Default: False.
    """

    runs: RunRegistry
    at: namespaces.ThreadKey
    configurable: Mapping[str, Any]
    own_only: bool = False
    amends: bool = False

    @property
    def follows_thread(self) -> bool:
        """True if rewinding the thread rewinds its memory; False with another checkpointer."""
        return _TASK_KEY not in self.configurable or self.runs.uses_saver(self.configurable, self.at)

    @property
    def path(self) -> str:
        """The path of the namespace."""
        return self.at.path

    @property
    def name(self) -> str:
        """The id of the thread."""
        return self.at.name

    @property
    def writable(self) -> bool:
        """True in a task, False at a checkpoint."""
        return _TASK_KEY in self.configurable

    def view(self, tx: Transaction, now: int) -> MemoryView:
        """Return the view of the task or checkpoint."""
        if _TASK_KEY in self.configurable:
            _, _, view = sealing.load_task_view(tx, self.runs, self.configurable, self.at)
            return self._with_scope(tx, view)
        thread = find_thread(tx, self.at, self.configurable.get("checkpoint_ns") or ROOT_NS)
        checkpoint_id = self.configurable.get("checkpoint_id")
        if thread is None or thread.ns_id is None:
            return self._with_scope(tx, MemoryView((), (), now))
        path = thread.path  # a config may name only the thread's id, so `self.at` may lack the namespace
        max_stamp = None
        if checkpoint_id is None:
            latest = query.latest_checkpoint(tx, ns_id=thread.ns_id)
            checkpoint_id = latest[0]["name"] if latest else ""
        elif not self.own_only:
            rows = query.find_view_stamp(tx, ns_id=thread.ns_id, name=checkpoint_id)
            max_stamp = rows[0]["stamp"] if rows else None
        place, time = sealing.find_place(tx, thread.ns_id, checkpoint_id), sealing.parse_id_time(checkpoint_id) or now
        view = MemoryView((), (), now) if place is None else load_view(tx, *place, time)
        return self._with_scope(tx, view, max_stamp, path)

    def _with_scope(self, tx: Transaction, view: MemoryView, stamp: int | None = None, path: str = "") -> MemoryView:
        """Add the memory of other threads in the namespace to a view, if they share memory.

        With a stamp, add the versions that were current at that stamp (see `MemoryView.max_stamp`).
        """
        path = path or self.at.path
        if self.own_only or not self.runs.scopes.is_shared(path):
            return view
        rows = query.scope_of_thread(tx, path=path, name=self.at.name)
        if not rows:
            return view
        [row] = rows
        return view._replace(scope=row["scope"], author=row["author"] or 0, max_stamp=stamp)

    def open_for_write(self, tx: Transaction, now: int) -> tuple[MemoryView, WriteTarget]:
        """Return the view of the task, and the group or position that it writes to.

        Raises:
            InvalidInput: The position is not a task, or the thread does not exist. At a checkpoint, only a person can
                write (`amends`).
            StepIsOver: Another attempt of the task has replaced this one.
        """
        if self.amends:
            thread = find_thread(tx, self.at, exact=True)
            if thread is None:
                namespace = namespaces.namespace_of(self.path)
                raise InvalidInput(f"There is no thread {safe_repr(self.name)} in {safe_repr(namespace)}.")
            target = sealing.amend_head(tx, thread, now)
            return self.view(tx, now), target
        if _TASK_KEY not in self.configurable:
            raise InvalidInput(
                "The memory of a thread is written by its nodes; outside of them it can only be read. In a node, pass "
                "the node's own config. For memory that is independent of threads, pass the name of a branch."
            )
        run, execution, view = sealing.load_task_view(tx, self.runs, self.configurable, self.at)
        group_id = sealing.open_group(tx, self.runs, run, execution, now)
        if all(group != group_id for group, _ in view.groups):
            view = view._replace(groups=(*view.groups, (group_id, FOREVER)))
        return self._with_scope(tx, view), WriteTarget(group=group_id)


def amending_position(database: Database, name: str, path: str) -> ThreadPosition:
    """Return the position for a person's writes at the newest checkpoint of a thread.

    Args:
        database: The database of the memory.
        name: The id of the thread.
        path: The path of its namespace.

    Raises:
        InvalidInput: The threads of the namespace share their memory, so people write to its branch "main" instead.
    """
    if database.scopes.is_shared(path):
        raise InvalidInput("The threads of this namespace share memory. To change it for all, leave out thread_id.")
    return ThreadPosition(get_run_registry(database), namespaces.ThreadKey(path, name), {}, amends=True)


def thread_position(database: Database, selector: Any, *, own_only: bool = False) -> ThreadPosition:
    """Return the memory position of the thread that a config or runtime of LangGraph names.

    Args:
        database: The database of the memory.
        selector: A config, a `Runtime` or a `ToolRuntime`; None for the run in which this function is called. In a task
            of the thread, a config without a checkpoint id refers to that task.
        own_only: True to see only the thread's own lineage. Default: False.

    Raises:
        InvalidInput: The config names no thread, or an id is not valid.
    """
    running, config, scopes = namespaces.running_config(), _resolve_config(selector), database.scopes
    if not isinstance(config, Mapping) or not isinstance(config.get("configurable") or {}, Mapping):
        raise InvalidInput(
            f"A thread must be given as the config of a node or as its runtime, got {safe_repr(selector)}. Outside of "
            "a run, and in OS threads without its context, pass the config or the name of a branch."
        )
    at = graph_runs.parse_thread_key(config, scopes)
    configurable: Mapping[str, Any] = config["configurable"]
    for key in ("checkpoint_id", "checkpoint_ns"):
        if not isinstance(configurable.get(key), str | UUID | None):
            raise InvalidInput(f"{key} must be a string, got {safe_repr(configurable[key])}.")
    if _TASK_KEY not in configurable and not configurable.get("checkpoint_id") and running is not None:
        current = running.get("configurable") or {}
        with suppress(InvalidInput):  # raised for a graph that uses other thread ids
            if _TASK_KEY in current and scopes.is_run_allowed() and graph_runs.parse_thread_key(running, scopes) == at:
                configurable = current
    return ThreadPosition(get_run_registry(database), at, configurable, own_only)


def _resolve_config(value: Any) -> Any:
    """Return a config unchanged, the config of a runtime, or else that of the current run."""
    return value if isinstance(value, Mapping) else getattr(value, "config", None) or namespaces.running_config()


def resolve_position(
    database: Database, selector: Any, namespace: Sequence[str] | None = None, *, own_only: bool = False
) -> MemoryPosition:
    """Return the memory position that a branch, config, namespace or current run selects.

    A branch name or config takes precedence over the thread of the current run. If no branch or thread is selected, the
    position is the branch "main" of the namespace.

    Args:
        database: The database of the memory.
        selector: The name of a branch; or a config or runtime, as for `thread_position`. Default: the current run.
        namespace: The namespace. Its branch "main" is selected if `selector` is None, or names a thread of another
            namespace.
        own_only: True to see only a thread's own lineage. Default: False.

    Raises:
        InvalidInput: Neither a thread nor a namespace is named, or an id is not valid.
    """
    scopes = database.scopes
    if isinstance(selector, str) or (selector is None and (namespace is not None or not scopes.is_run_allowed())):
        return resolve_branch(MAIN if selector is None else selector, namespace, scopes)
    config = _resolve_config(selector)
    if isinstance(config, Mapping) and namespaces.configurable_of(config).get("thread_id") is None:
        path = namespaces.path_of(scopes.resolve(namespace, config))
        if scopes.is_shared(path):
            return BranchPosition(path, MAIN, scopes)
    thread = thread_position(database, selector, own_only=own_only)
    path = thread.path
    if namespace is not None and namespaces.path_of(namespace):
        path = namespaces.path_of(scopes.resolve(namespace))
    if path != thread.path or (scopes.boundary is not None and not thread.follows_thread):
        return BranchPosition(path, MAIN, scopes)
    return thread


def conversation_of_run(database: Database, config: Mapping[str, Any] | None, *, of_caller: bool = False) -> str | None:
    """Return the id of the conversation that a run belongs to, or None.

    The thread's own graph has the conversation of the thread. A nested graph has its own conversation if it saves
    checkpoints; otherwise it has none. A run without a thread, or whose thread was deleted, has none.

    Args:
        database: The database of the memory.
        config: The config of the run.
        of_caller: True to return the conversation of the calling graph for a nested graph. Default: False.
    """
    configurable = namespaces.configurable_of(config)
    if (thread_id := configurable.get("thread_id")) is None:
        return None
    thread_id, graphs = namespaces.check_id(thread_id, "thread"), graph_runs.list_nested_graphs(configurable)
    if get_run_registry(database).is_thread_deleted(configurable):
        return None
    if not (graphs := graphs[:-1] if of_caller else graphs):
        return thread_id
    saves_checkpoints = get_run_registry(database).saves_checkpoints(configurable, graphs[-1])
    return namespaces.nested_conversation(thread_id, graphs[-1]) if saves_checkpoints else None


BATCH_SIZE = 500
"""The number of rows that a query of a deletion returns at most."""


class ThreadLeftovers(NamedTuple):
    """The data to check for invisible rows after a thread is deleted or pruned.

    Attributes:
        branches: The row ids of the thread's branches and of their ancestors.
        groups: The row ids of its unsealed groups.
        scope: The row id of its namespace, whose branch "main" is checked too.
    """

    branches: list[int]
    groups: list[int]
    scope: int


def copy_thread(tx: Transaction, source: namespaces.ThreadKey, target: str, *, now: int) -> None:
    """Copy a thread and its references to memory.

    Both threads share branches until one of them writes. The conversation is copied with its messages, so it remains
    when the other thread is deleted.

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
    author, copy_author = sealing.ensure_author(tx, thread.id), sealing.ensure_author(tx, copy_id)
    # Only messages get the copy as their author. Groups of the original that the copy seals keep their author.
    query.copy_thread_messages(tx, source=author.id, target=copy_author.id)
    thread_recorder().copy_thread_entries(tx, namespaces.ThreadKey(thread.path, source.name), target, now=now)
    query.copy_positions(tx, source=thread.id, target=copy_id)
    query.copy_finished_tasks(tx, source=thread.id, target=copy_id)
    query.copy_finished_groups(tx, source=thread.id, target=copy_id)
    sealing.update_visibility(tx, copy_id, old_head, head_place(tx, copy_id), now)


def lock_movable_branches(tx: Transaction, thread: int, name: str) -> list[int]:
    """Lock a thread before it moves to another namespace; return the row ids of its branches.

    Args:
        tx: The transaction.
        thread: The row id of the thread.
        name: The id of the thread.

    Raises:
        InvalidInput: The thread shares its memory with a copy, or with the branch it was forked from.
    """
    query.lock_thread(tx, thread=thread)
    sealing.ensure_author(tx, thread)
    branches: list[int] = []
    pending = {row["id"] for row in query.branches_of_checkpoints(tx, thread=thread)}
    while pending:  # add ancestors, and branches whose rows were copied to the branches found so far
        rows = query.ancestor_branches(tx, ids=json.dumps(sorted({*branches, *pending})))
        branches = sorted(row["id"] for row in rows)
        pending = {row["id"] for row in query.branches_of_originals(tx, ids=json.dumps(branches))} - {*branches}
    if query.has_other_references(tx, thread=thread, ids=json.dumps(branches)):
        raise InvalidInput(
            f"The thread {safe_repr(name)} shares its memory with a copy of it, or with the branch it was forked from. "
            "Both must stay in one namespace: delete one of them first."
        )
    return branches


def delete_threads(
    tx: Transaction, low: str, high: str, name: str | None, *, now: int = 0, scopes: namespaces.Scopes | None = None
) -> list[thread_rows.DeletedThread]:
    """Delete threads with everything that belongs to them, and with their memory.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        name: The id of the threads; None for all.
        now: The time, in microseconds since 1970. Needed only with `scopes`.
        scopes: The rules of namespaces. A namespace that shares memory may retain the memory of deleted threads on its
            branch "main". Default: no memory is retained.

    Returns:
        The deleted threads.

    Raises:
        InvalidInput: `low` is the root, `scopes` has a namespace template, and several namespaces have such a thread.
    """
    threads = query.threads_within(tx, low=low, high=high, name=name)
    if scopes is not None and name is not None and not low:
        scopes.check_unambiguous([row["path"] for row in threads], name, WITHIN_HINT)
    merged_places: list[Place] = []
    for row in threads:
        if scopes is not None and scopes.retains_deleted and scopes.is_shared(row["path"]):
            merged_places += _merge_into_main(tx, namespaces.ThreadKey(row["path"], row["name"]), now)
        else:
            _hide_memory(tx, row, forget_quotes=scopes is not None)
    leftovers = [_collect_leftovers(tx, row["id"]) for row in threads]
    deleted = thread_rows.delete_threads(tx, threads)
    for row in threads:
        thread_recorder().delete_thread_entries(tx, namespaces.ThreadKey(row["path"], row["name"]))
    for branch, position in merged_places:  # an original that nothing else uses replaces its copy on "main"
        rows = query.copies_to_replace(tx, branch=branch, position=position)
        query.replace_copy.run_many(tx, [{"copy": row["copy"], "original": row["original"]} for row in rows])
        query.delete_memory.run_many(tx, [{"id": row["copy"]} for row in rows])
    _sweep_leftovers(tx, leftovers)
    for path in sorted({row["path"] for row in threads}):
        memory_rows.clean_namespace(tx, path)
    return deleted


def _hide_memory(tx: Transaction, row: Row, *, forget_quotes: bool) -> None:
    """Mark the memory of a thread that is being deleted as no longer current.

    With `forget_quotes`, also remove the details of corrections that contain text of the thread.
    """
    author = sealing.load_author_row(tx, row["id"])
    if author["id"] is not None:
        query.hide_author_memory(tx, author=author["id"], branch=0)
    if forget_quotes:
        low = row["path"]  # the range up to low + "\x01" contains only this namespace
        message_sources.forget_corrections(tx, low, low + "\x01", row["name"], delete_restored=True)


def _merge_into_main(tx: Transaction, at: namespaces.ThreadKey, now: int) -> list[Place]:
    """Copy the current memory of a thread to the branch "main" of its namespace.

    Return a list with the place of the copies, or an empty list if no row is copied. Rows keep their author and stamps.
    """
    thread = find_thread(tx, at)
    if thread is None or (place := head_place(tx, thread.id)) is None:
        return []
    author = sealing.ensure_author(tx, thread.id)
    if not query.has_shared_memory(tx, author=author.id):
        query.hide_author_memory(tx, author=author.id, branch=0)
        return []
    view = load_view(tx, *place, now)
    branch, head = BranchPosition(at.path, MAIN).lock(tx, now)
    named_branches.ensure_main_author(tx, at.path)
    merged = query.copy_to_main(tx, **view.parameters(), from_author=author.id, branch=branch, position=head + 1)
    superseded = query.supersede_on_main(tx, branch=branch, position=head + 1, now=now)
    query.hide_author_memory(tx, author=author.id, branch=branch)
    if merged and not query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0):
        raise BranchMoved
    memory_rows.delete_unseen(tx, [row["id"] for row in superseded])
    return [(branch, head + 1)] if merged else []


def forget_authors(tx: Transaction, low: str, high: str, name: str) -> None:
    """Delete all memory that the threads of an id wrote, even from shared memory.

    In copies of the threads, deletion marks replace the deleted rows, so older versions do not become visible again.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        name: The id of the threads.
    """
    rows = query.memory_of_authors(tx, low=low, high=high, name=name)
    main_rows = [row for row in rows if row["on_main"]]
    memory_rows.delete_rows(tx, main_rows)
    deleted = {row["id"] for row in main_rows}
    deleted.update(memory_rows.delete_unseen(tx, [row["copy_of"] for row in main_rows if row["copy_of"] is not None]))
    memory_rows.mark_deleted(tx, [row for row in rows if row["id"] not in deleted], branch_only=True)
    authors = query.authors_without_thread(tx, low=low, high=high, name=name)
    query.anonymize_author.run_many(tx, [{"id": row["id"]} for row in authors])
    for path in sorted({row["path"] for row in authors}):
        memory_rows.clean_namespace(tx, path)


def head_place(tx: Transaction, thread: int) -> Place | None:
    """Return the place of the newest checkpoint of a thread; None if there is none."""
    rows = query.thread_head(tx, thread=thread)
    return (rows[0]["branch_id"], rows[0]["position"]) if rows and rows[0]["branch_id"] is not None else None


def delete_for_runs(tx: Transaction, runs: Sequence[str], low: str, high: str, *, now: int) -> int:
    """Delete the checkpoints of some runs, and the rows that only these checkpoints showed.

    Also delete the pending writes that the runs stored under checkpoints of other runs.

    Args:
        tx: The transaction.
        runs: The ids of the runs.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        now: The time, in microseconds since 1970.

    Returns:
        The number of deleted checkpoints.
    """
    selection = {"runs": json.dumps(sorted(set(runs))), "low": low, "high": high}
    heads = {row["id"]: head_place(tx, row["id"]) for row in query.threads_of_runs(tx, **selection)}
    writes = query.writes_of_runs(tx, **selection)
    thread_ids = sorted(heads.keys() | {row["thread_id"] for row in writes})
    leftovers = [_collect_leftovers(tx, thread) for thread in thread_ids]
    checkpoints = query.checkpoints_of_runs(tx, **selection)
    thread_rows.delete_for_runs(tx, checkpoints, writes)
    for thread, old_head in heads.items():
        sealing.update_visibility(tx, thread, old_head, head_place(tx, thread), now)
    dropped: set[int] = set()
    for row in writes:
        groups = query.groups_of_task(tx, thread=row["thread_id"], task=row["task"])
        dropped.update(group["id"] for group in groups if group["ended"])
        task = {name: row[name] for name in ("ns_id", "checkpoint", "task")}
        for finished in query.delete_finished_task(tx, thread=row["thread_id"], **task):
            dropped.update(json.loads(finished["groups"]))
    _sweep_leftovers(tx, leftovers)
    _drop_groups(tx, sorted(dropped))
    return len(checkpoints)


def prune_thread(tx: Transaction, at: namespaces.ThreadKey, *, keep: int, now: int) -> int:
    """Remove a batch of a thread's oldest checkpoints, and the rows that only these showed.

    Args:
        tx: The transaction.
        at: The thread; the empty path stands for the root.
        keep: The number of checkpoints of each checkpoint namespace to keep.
        now: The time, in microseconds since 1970.

    Returns:
        The number of deleted checkpoints; if it is `thread_rows.BATCH_SIZE`, there may be more.
    """
    thread = find_thread(tx, at, exact=True)
    if thread is None:
        return 0
    leftovers = _collect_leftovers(tx, thread.id)  # first, since some branches are found only by removed checkpoints
    removed = thread_rows.prune_thread(tx, at, keep=keep)
    _sweep_branches(tx, leftovers)
    sweep_thread(tx, thread.id, now)
    return removed


def sweep_thread(tx: Transaction, thread: int, now: int) -> None:
    """Delete rows that a thread's checkpoints no longer show, and stale groups of its tasks.

    A group that no checkpoint has sealed is stale after a day (`STALE_AFTER`).

    Args:
        tx: The transaction.
        thread: The row id of the thread.
        now: The time, in microseconds since 1970.
    """
    query.delete_stale_finished(tx, thread=thread, before=now - STALE_AFTER)
    stale = query.stale_groups(tx, thread=thread, before=now - STALE_AFTER)
    leftovers = _collect_leftovers(tx, thread)
    _sweep_branches(tx, leftovers)
    _sweep_main(tx, leftovers.scope)
    _drop_groups(tx, [row["id"] for row in stale])


def _collect_leftovers(tx: Transaction, thread: int) -> ThreadLeftovers:
    """Return the branches and groups of a thread, before it is deleted or pruned."""
    thread_branches = query.branches_of_thread(tx, thread=thread)
    branches = query.ancestor_branches(tx, ids=json.dumps([row["id"] for row in thread_branches]))
    groups = query.groups_of_thread(tx, thread=thread)  # for a copy, also groups of the original
    scope = sealing.load_author_row(tx, thread)["scope"]
    return ThreadLeftovers([row["id"] for row in branches], sorted(row["id"] for row in groups), scope)


def _sweep_leftovers(tx: Transaction, leftovers: Sequence[ThreadLeftovers]) -> None:
    """Delete the invisible rows of some threads, and the rows of their deleted groups."""
    for thread in leftovers:
        _sweep_branches(tx, thread)
        existing = {row["id"] for row in query.existing_groups(tx, ids=json.dumps(thread.groups))}
        _drop_groups(tx, [group for group in thread.groups if group not in existing])
    for scope in sorted({thread.scope for thread in leftovers}):
        _sweep_main(tx, scope)


def _sweep_branches(tx: Transaction, leftovers: ThreadLeftovers) -> None:
    """Delete invisible rows on some branches, and branches that are then empty and unused."""
    branches = leftovers.branches
    while branches:
        while page := query.unreferenced_memory(tx, ids=json.dumps(branches), limit=BATCH_SIZE):
            memory_rows.delete_rows(tx, page)
            copied = [row["copy_of"] for row in page if row["copy_of"] is not None]
            if copied:  # originals that were kept for these copies may be unused now
                original_branches = query.branches_of_memory(tx, ids=json.dumps(copied))
                branches = [*branches, *({row["id"] for row in original_branches} - {*branches})]
        idle = {row["id"] for row in query.idle_branches(tx, ids=json.dumps(branches))}
        for branch in sorted(idle):
            query.delete_branch(tx, branch=branch)
        if not idle:
            break
        branches = [branch for branch in branches if branch not in idle]


def _sweep_main(tx: Transaction, scope: int) -> None:
    """Delete rows on a branch "main" that are no longer current and that no checkpoint shows."""
    while page := query.superseded_memory(tx, scope=scope, limit=BATCH_SIZE):
        memory_rows.delete_rows(tx, page)


def _drop_groups(tx: Transaction, groups: Sequence[int]) -> None:
    """Delete the given groups, except those that a finished task or subgraph references."""
    if groups:
        referenced = {row["group_id"] for row in query.referenced_groups(tx, ids=json.dumps(groups))}
        for group in groups:
            if group not in referenced:
                drop_group(tx, group)


def erase_branches(tx: Transaction, low: str, high: str) -> int:
    """Delete the branches of some namespaces with all rows on them.

    The threads of the namespaces must be deleted already. Also delete groups that nothing references in the whole
    database; only damage leaves such groups.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.

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
    return sum(row["kind"] == named_branches.NAMED_BRANCH for row in rows)


def _erase(tx: Transaction, erasure: Erasure) -> None:
    """Delete threads and branches with their memory, and memory derived from messages."""
    low, high, name = erasure.low, erasure.high, erasure.name
    [before] = query.memory_total(tx, last=None)
    if name is not None:
        message_sources.forget_corrections(tx, low, high, name, delete_restored=erasure.threads)
        message_sources.forget(tx, low, high, name)
    if erasure.threads:
        erasure.removed["threads"] += len(delete_threads(tx, low, high, name))
        if name is not None:
            forget_authors(tx, low, high, name)
    if name is None:
        erasure.removed["branches"] += erase_branches(tx, low, high)
    [after] = query.memory_total(tx, last=before["last"])  # without rows that other connections added meanwhile
    erasure.removed["memories"] += max(0, before["total"] - after["total"])


_ROW_TABLES = ("author", "memory", "memory_source", "memory_group", "sealed_group")
_PLACE_TABLES = ("finished_task", "finished_group", "checkpoint_position", "branch_base", "base_group")
PART = Part(
    tables={"layers": (*_ROW_TABLES, *_PLACE_TABLES)}, verify={"memories": memory_rows.find_problems}, erase=_erase
)
