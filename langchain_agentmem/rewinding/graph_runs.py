"""The graph runs of this process: their loops, their tasks, and the writes of each task so far.

LangGraph may put a checkpoint before, during or long after the execution of the tasks that lead to it, or never. So the
database alone does not determine which writes a task may see, or which writes a checkpoint includes. This module uses
these terms:

- A *run* is one call of a graph. It is identified by the `RunIdentity` in its config, which LangGraph copies to the
  configs of tasks, subgraphs and `put` calls. A run without a `RunIdentity` is identified by LangGraph's `RunControl`,
  which several runs may share.
- A *loop* is LangGraph's execution of the graph, or of a subgraph that a task calls.
- A *step* is the set of tasks that continue one checkpoint. The id of that checkpoint also identifies the step.
- A *task* is a node, or a *function*: a function with LangGraph's `@task` decorator that a node or function calls. It
  may be executed again after a failure or an interrupt, and by several runs at the same time.
- An *execution* of a task owns its writes. Within a run only the newest execution of a task applies. No run changes the
  writes of another run. An *attempt* is LangChain's run of an execution, which callbacks report.
- A *group* contains the memory rows that one execution wrote. The next put *seals* the group: its rows get a *place*,
  which is a position on a branch.

A thread is identified by its namespace and its id. If a config names only the id, the namespace is that of the thread
that the run's saver loaded or created.

This module does not access the database. `sealing.py` does, and stores its results in the objects of this module.
"""

from __future__ import annotations

import secrets
import sys
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from langchain_agentmem.base import namespaces
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.namespaces import Scopes, ThreadKey
from langchain_agentmem.errors import InvalidInput, StepIsOver
from langchain_agentmem.rewinding.memory_rows import FOREVER
from langchain_agentmem.storage.database import Database
from langchain_agentmem.threads.thread_rows import Thread

_ERROR_HANDLER = "__error_handler__"
"""The prefix of the names of error handlers, which LangGraph runs for failed tasks."""
_IDENTITY_KEY = "__pregel_agentmem_run"
"""The config key of a run's identity. LangGraph removes keys that begin with "__pregel_" from configs it returns."""
CLEANUP_THRESHOLD = 256
"""The number of registered runs at which finished runs are dropped before a new run is added."""

Place: TypeAlias = tuple[int, int]
"""The row id of a branch, and a position on it."""
Groups: TypeAlias = dict[int, int]
"""The ids of groups, each with the id of its last visible row; `FOREVER` if all its rows are visible."""
ExecutionKey: TypeAlias = tuple[Any, ...]
"""The time of a task's first attempt, and the number of the attempt. They identify an execution within a run."""


class FinishedTask(NamedTuple):
    """A task that finished in an earlier run.

    Attributes:
        task: The id of the task.
        caller: The id of the task that called it, if the task is a function.
        groups: The groups that it wrote.
    """

    task: str
    caller: str | None
    groups: tuple[int, ...]


class LoopLevel(NamedTuple):
    """A loop or function call around a task.

    Attributes:
        ns: Its checkpoint namespace in LangGraph, which names it within the thread.
        checkpoint: The id of the checkpoint that identifies its current step.
    """

    ns: str
    checkpoint: str


@dataclass(slots=True, eq=False)
class TaskExecution:
    """One execution of a task, which owns its writes.

    Attributes:
        task: The task.
        key: The key that distinguishes it from the task's other executions.
        run_token: The token of its run.
        group: The group that it writes to; None before its first write.
        was_stored: True if the group was found in the database. A group that is deleted later is not created again.
        is_over: True if the execution failed, or another one has replaced it. It cannot write any more.
    """

    task: GraphTask
    key: ExecutionKey
    run_token: int
    group: int | None = None
    was_stored: bool = False
    is_over: bool = False


@dataclass(slots=True, eq=False)
class GraphTask:
    """One task of a run.

    Attributes:
        id: Its id.
        ns: The checkpoint namespace of its loop.
        checkpoint: The id of the checkpoint that identifies its step.
        caller: The id of the task that called it, if the task is a function.
        execution: Its newest execution; None before the first one is registered.
        loops: The loops of the subgraphs that the task called.
        failed: True if its newest execution failed, or its error handler has started.
    """

    id: str
    ns: str
    checkpoint: str
    caller: str | None
    execution: TaskExecution | None = None
    loops: list[GraphLoop] = field(default_factory=list)
    failed: bool = False

    @property
    def groups(self) -> Groups:
        """The group that the task has written to; empty if the task failed."""
        group = None if self.execution is None or self.failed else self.execution.group
        return {} if group is None else {group: FOREVER}


@dataclass(slots=True, eq=False)
class GraphLoop:
    """One loop of a run.

    Attributes:
        ns: Its checkpoint namespace; empty for the thread's own graph.
        start_id: The id of the checkpoint that it began with.
        last_read: The id of the newest checkpoint that nodes have read: `start_id`, or its parent if `start_id` holds
            an input that no node reads. None if there is no such checkpoint.
        step_number: LangGraph's number of the step that `start_id` ended.
        versions: The channel versions of `start_id`.
        parent_task: The id of the task that called it, for a subgraph.
        pinned: True if the config named `start_id`. False if it was the newest checkpoint.
        starts_in_past: True if the named checkpoint was not the newest one. Then `finished_tasks` do not apply.
        last_put: The id of the checkpoint that it put last.
        steps: The steps whose tasks have begun. The checkpoints that follow these steps may not be put yet.
        parents: The checkpoint ids of the loops around it, by checkpoint namespace.
        outer_groups: The groups that the tasks around it had written when it began.
        own_groups: For a subgraph that keeps its state and now runs under a new checkpoint of the outer graph: the
            groups of its earlier calls that the new checkpoint does not show. Otherwise None.
        places: The places of the checkpoints that it put or began with. A checkpoint without memory has the place None.
        tasks_with_results: The ids of tasks whose results are stored with `start_id`. LangGraph may reuse the results
            instead of running the tasks. None if unknown.
        finished_tasks: The tasks of `tasks_with_results` with their groups; None before they are read.
        pregel_ref: A weak reference to LangGraph's own loop.
    """

    ns: str
    start_id: str | None = None
    last_read: str | None = None
    step_number: int | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    parent_task: str | None = None
    pinned: bool = False
    starts_in_past: bool = False
    last_put: str | None = None
    steps: set[str] = field(default_factory=set)
    parents: Mapping[str, str] = field(default_factory=dict)
    outer_groups: Groups = field(default_factory=dict)
    own_groups: Groups | None = None
    places: dict[str, Place | None] = field(default_factory=dict)
    tasks_with_results: Collection[str] | None = None
    finished_tasks: tuple[FinishedTask, ...] | None = None
    pregel_ref: weakref.ref[Any] | None = None

    @property
    def head(self) -> str | None:
        """The newest checkpoint of the loop."""
        return self.last_put or self.start_id

    def restart(self, checkpoint: str | None) -> None:
        """Restart the loop at a checkpoint that it neither began with nor put last."""
        self.start_id, self.last_put, self.starts_in_past = checkpoint, None, False
        self.step_number, self.versions = None, {}
        self.tasks_with_results = self.finished_tasks = self.own_groups = None

    def list_calls(self, task_id: str) -> set[str] | None:
        """Return the ids of the functions that a task has called in this loop.

        Functions whose earlier results were reused are included. LangGraph does not report the reuse of a result, so
        the ids come from its own loop.

        Returns:
            The ids; None if LangGraph's loop is unknown, or has no task of this id.
        """
        pregel_loop = None if self.pregel_ref is None else self.pregel_ref()
        tasks: Mapping[str, Any] = getattr(pregel_loop, "tasks", {})
        caller = tasks.get(task_id)
        # The path of a function's task contains the path of its caller.
        return None if caller is None else {task.id for task in list(tasks.values()) if task.path[1] == caller.path}

    def has_passed(self, step: str) -> bool:
        """Return whether the loop has already put a checkpoint that follows a step.

        Further writes of the step would be missing in that checkpoint. The ids of a loop's checkpoints ascend, except
        that `start_id` may come from another loop.
        """
        return self.last_put is not None and step != self.last_put and (step == self.start_id or step < self.last_put)

    def list_open_steps(self, before: str | None = None) -> list[str]:
        """Return the steps that no put has sealed, in order; with `before`, only earlier ones."""

        def sort_key(step: str) -> tuple[bool, str]:
            return step != self.start_id, step  # `start_id` may come from another loop, but is the first step

        first = sort_key(self.head) if self.head is not None else (False, "")
        end = (True, "\U0010ffff") if before is None else sort_key(before)  # the string sorts after every id
        return sorted((step for step in self.steps if first <= sort_key(step) < end), key=sort_key)


LevelCaller: TypeAlias = tuple[str, GraphLoop | None]
"""The id of the task whose call began a level, and the loop of the level, or None for the level of a function."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class GraphRun:
    """One run of a graph, in one thread.

    Attributes:
        identity: The identity in its configs.
        thread_key: The key of its thread.
        token: A random number that is stored with the groups of its executions. No run of another process has it.
        graph_run_ids: The ids of LangChain's runs (of callbacks and traces) of its graph and subgraphs.
        loops: Its loops by checkpoint namespace.
        tasks: Its tasks by id.
        step_tasks: The task ids of each step, by the checkpoint namespace and checkpoint id.
        calls: The ids of the functions that each task called.
        ran_tasks: The ids of tasks that are known to have run in it.
        replaced_executions: The task ids and keys of executions that later ones have replaced.
        failed_tasks: The ids of tasks that failed, or whose callers failed. They cannot write until they are retried.
        attempts: The newest attempt of each task, unless it has ended: the id of LangChain's run, by task id.
        dropped_calls: The ids of functions that failed attempts called. Their writes are not part of the run.
        final_calls: The ids of functions that each successful task called, including functions whose earlier results
            were reused.
        resumed: True if LangGraph may reuse results of earlier runs in it.
        has_memory: True if tasks of its thread are known to use memory. Recording messages does not set it.
        thread_identity: The row id and creation time of its thread, if the thread existed when the run began.
        thread_deleted: True if that thread is known to be deleted.
        lineages: The rows of the lineages that its tasks saw last, by place. A lineage does not change. A branch in it
            may have been deleted meanwhile: queries then find no rows of the branch, as its id is not assigned again.
    """

    identity: Any
    thread_key: ThreadKey
    token: int = field(default_factory=lambda: secrets.randbits(62))
    graph_run_ids: set[UUID] = field(default_factory=set)
    loops: dict[str, GraphLoop] = field(default_factory=dict)
    tasks: dict[str, GraphTask] = field(default_factory=dict)
    step_tasks: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    ran_tasks: set[str] = field(default_factory=set)
    replaced_executions: set[tuple[str, ExecutionKey]] = field(default_factory=set)
    failed_tasks: set[str] = field(default_factory=set)
    attempts: dict[str, UUID] = field(default_factory=dict)
    dropped_calls: set[str] = field(default_factory=set)
    final_calls: dict[str, set[str]] = field(default_factory=dict)
    resumed: bool = False
    has_memory: bool = False
    thread_identity: tuple[int, int] | None = None
    thread_deleted: bool = False
    lineages: Mapping[Place, Sequence[Any]] = field(default_factory=dict)

    def is_thread_deleted(self, thread: Thread | None) -> bool:
        """Return whether the run's thread was deleted since the run began.

        Args:
            thread: The thread that has the id now; None if there is none.
        """
        original = self.thread_identity
        self.thread_deleted |= original is not None and (thread is None or thread.identity != original)
        return self.thread_deleted

    def ensure_task(self, task_id: str, ns: str, checkpoint: str, caller: str | None) -> GraphTask:
        """Return a task; register it if it is new."""
        if (task := self.tasks.get(task_id)) is None:
            task = self.tasks[task_id] = GraphTask(task_id, ns, checkpoint, caller)
            if caller is None:
                self.step_tasks.setdefault((ns, checkpoint), []).append(task_id)
            elif task_id not in self.dropped_calls:
                self.calls.setdefault(caller, []).append(task_id)
        return task

    def end_execution(self, task: GraphTask) -> None:
        """End the newest execution of a task, and drop its writes and calls from the run.

        Within a run, LangGraph never reuses results of functions that an earlier attempt called. A later run may reuse
        them, so the groups of the functions stay in the database.
        """
        if task.execution is not None:
            self.replaced_executions.add((task.id, task.execution.key))
            task.execution.is_over = True
        task.execution, task.loops = None, []
        self.dropped_calls.update(self.calls.pop(task.id, ()))
        self.dropped_calls.update(self.list_calls(task.id) or ())

    def list_calls(self, task_id: str) -> set[str] | None:
        """Return the ids of the functions that a task has called; None if they are unknown."""
        return next((ids for loop in self.loops.values() if (ids := loop.list_calls(task_id)) is not None), None)

    def find_outermost_caller(self, task: GraphTask) -> GraphTask:
        """Return the node that called a function, directly or through other functions.

        Return the task itself if no task called it.
        """
        while task.caller is not None and task.caller in self.tasks:
            task = self.tasks[task.caller]
        return task

    def has_called(self, caller: str, task_id: str) -> bool:
        """Return whether a task has called a function whose earlier result LangGraph reused.

        Only calls of the task's newest attempt apply. Return True if the calls are unknown.

        Args:
            caller: The id of the task.
            task_id: The id of the function, which was not executed in this run.
        """
        if task_id in self.dropped_calls:
            return False
        calls = self.final_calls.get(caller)
        calls = self.list_calls(caller) if calls is None else calls
        return calls is None or task_id in calls


@dataclass(frozen=True, slots=True, eq=False)
class RunIdentity:
    """The identity of one run of a thread's own graph.

    Attributes:
        pregel_ref: A weak reference to LangGraph's loop of that graph.
    """

    pregel_ref: weakref.ref[Any]


def add_identity(pregel_loop: Any, ns: str) -> None:
    """Add an identity to the configs of a loop that begins.

    Loops of subgraphs, and loops that already have an identity, are left unchanged.

    Args:
        pregel_loop: LangGraph's own loop; None if the saver was called outside of a loop.
        ns: The checkpoint namespace of the loop.
    """
    if pregel_loop is None or ns:
        return
    configs = [config["configurable"] for config in (pregel_loop.config, pregel_loop.checkpoint_config)]
    # A graph that a node calls in another thread inherits the identity of the caller's loop, which must be replaced.
    identity = configs[0].get(_IDENTITY_KEY)
    if identity is None or identity.pregel_ref() is not pregel_loop:
        identity = RunIdentity(weakref.ref(pregel_loop))
        for configurable in configs:
            configurable[_IDENTITY_KEY] = identity


def get_identity(configurable: Mapping[str, Any]) -> Any:
    """Return the identity of the run that a config belongs to; None if there is no run."""
    control = getattr(configurable.get("__pregel_runtime"), "control", None)
    return None if control is None else configurable.get(_IDENTITY_KEY, control)


class LiveWrites:
    """The current writes of tasks: unsealed groups, and places that show sealed groups."""

    __slots__ = ("groups", "places")

    def __init__(self, groups: Mapping[int, int] | None = None, places: Iterable[Place] = ()) -> None:
        self.groups: Groups = dict(groups or {})
        self.places: dict[Place, None] = dict.fromkeys(places)

    def add(self, other: LiveWrites) -> None:
        """Add the groups and places of another object."""
        self.groups.update(other.groups)
        self.places.update(other.places)


def get_run_registry(database: Database) -> RunRegistry:
    """Return the run registry of a database; create it if missing."""

    def create() -> RunRegistry:
        runs = RunRegistry(database.scopes)
        database.caches.add(runs)
        database.namespace_finders.append(runs.find_namespace)
        return runs

    return database.get_attachment(RunRegistry, create)


class RunRegistry:
    """The runs of this process that use one database.

    Args:
        scopes: The rules that resolve a call to its namespace.
    """

    lock = PerProcess(threading.RLock)

    def __init__(self, scopes: Scopes = Scopes()) -> None:  # noqa: B008 - a value
        self.scopes = scopes
        self._runs: dict[tuple[int, ThreadKey], GraphRun] = {}  # by the `id` of the identity, and by thread
        self._newest_runs: weakref.WeakValueDictionary[str, GraphRun] = weakref.WeakValueDictionary()  # by thread id
        self._runs_by_langchain_run: weakref.WeakValueDictionary[UUID, GraphRun] = weakref.WeakValueDictionary()

    # -- finding runs -------------------------------------------------------------------------------------------

    def ensure_run(self, configurable: Mapping[str, Any], thread_key: ThreadKey) -> GraphRun | None:
        """Return the run of a config, created if missing; None if the config has no identity."""
        identity = get_identity(configurable)
        if identity is None:
            return None
        with self.lock:
            if (run := self._runs.get((id(identity), thread_key))) is None:
                if len(self._runs) >= CLEANUP_THRESHOLD:
                    self._drop_finished_runs()
                run = self._runs[id(identity), thread_key] = GraphRun(identity, thread_key)
            return run

    def find_namespace(self, configurable: Mapping[str, Any]) -> namespaces.Namespace:
        """Return the namespace of a run whose config names only a thread id.

        It is the namespace of the thread that the run's saver loaded.

        Args:
            configurable: The configurable of the config.
        """
        identity = get_identity(configurable)
        if identity is None or configurable.get("thread_id") is None:
            return ()
        name = str(configurable["thread_id"])  # not checked: graphs with other savers may use ids that are invalid here
        with self.lock:
            run = self._runs.get((id(identity), ThreadKey("", name)))
            if run is None:  # a saver that is bound to a namespace registers its run there
                runs = self._find_runs_of_task(configurable)
                run = runs[0] if len(runs) == 1 else None
            return () if run is None else namespaces.namespace_of(run.thread_key.path)

    def uses_saver(self, configurable: Mapping[str, Any], thread_key: ThreadKey) -> bool:
        """Return whether a config's run uses a saver of this database in this thread."""
        with self.lock:
            run = self._runs.get((id(get_identity(configurable)), thread_key))
            return run is not None and "" in run.loops

    def find_start_checkpoint(self, configurable: Mapping[str, Any], thread_key: ThreadKey) -> str | None:
        """Return the checkpoint that a run began with, if the run's input may not be stored yet.

        Args:
            configurable: The configurable of a task's config.
            thread_key: The key of the thread.

        Returns:
            The id of the checkpoint. None if the input is stored, the task continues that checkpoint, or the run began
            without a checkpoint.
        """
        run = self.ensure_run(configurable, thread_key)
        with self.lock:
            loop = None if run is None else run.loops.get("")
            if loop is None or loop.start_id == _parse_levels(configurable)[0].checkpoint:
                return None
            # Of the checkpoints of a run, the first contains the raw input, and the second the resulting messages.
            return None if len(loop.places.keys() - {loop.start_id}) > 1 else loop.start_id

    def saves_checkpoints(self, configurable: Mapping[str, Any], ns: str) -> bool:
        """Return whether a nested graph saves checkpoints.

        A graph whose saver does not belong to this memory is assumed to save checkpoints.

        Args:
            configurable: The configurable of a task's config.
            ns: The checkpoint namespace of the nested graph.
        """
        with self.lock:
            loops = [run.loops.get(ns) for run in self._find_runs_of_task(configurable) if "" in run.loops]
        if not loops:
            return configurable.get("__pregel_checkpointer") is not None
        return any(loop is not None and loop.pregel_ref is not None for loop in loops)

    def _drop_finished_runs(self) -> None:
        """Drop the runs whose identity only this registry references: LangGraph ended them."""
        counts: dict[int, int] = {}  # the number of runs with each identity; a run may have several keys
        for run in {id(run): run for run in self._runs.values()}.values():
            counts[id(run.identity)] = counts.get(id(run.identity), 0) + 1
        # `getrefcount` also counts its own argument.
        live = {key for key, run in self._runs.items() if sys.getrefcount(run.identity) > 1 + counts[key[0]]}
        self._runs = {key: run for key, run in self._runs.items() if key in live}

    def is_thread_deleted(self, configurable: Mapping[str, Any]) -> bool:
        """Return whether a task's thread is known to have been deleted during its run."""
        with self.lock:
            return any(run.thread_deleted for run in self._find_runs_of_task(configurable))

    def _find_runs_of_task(self, configurable: Mapping[str, Any]) -> list[GraphRun]:
        """Return the runs that a task's config belongs to, in any namespace."""
        identity, name = get_identity(configurable), str(configurable["thread_id"])
        return [run for run in self._runs.values() if run.identity is identity and run.thread_key.name == name]

    def forget(self, deleted: Collection[ThreadKey] = ()) -> None:
        """Forget the known places and finished tasks, which a deletion may have changed.

        Args:
            deleted: The deleted threads. `thread_deleted` is set in their runs.
        """
        with self.lock:
            for run in self._runs.values():
                run.thread_deleted |= run.thread_identity is not None and run.thread_key in deleted
                run.lineages = {}
                for loop in run.loops.values():
                    loop.places.clear()
                    loop.finished_tasks = None

    # -- reports of the saver ----------------------------------------------------------------------------------

    def register_loop(
        self,
        configurable: Mapping[str, Any],
        thread_key: ThreadKey,
        loaded_key: ThreadKey,
        new_loop: GraphLoop,
        pregel_loop: Any,
        thread: Thread | None,
    ) -> tuple[GraphRun, GraphLoop, GraphTask] | None:
        """Register a loop that has begun, with a checkpoint or without one.

        Args:
            configurable: The configurable of the config.
            thread_key: The key of the thread, as the config names it.
            loaded_key: The key of the thread that the saver loaded; `thread_key` if it found none.
            new_loop: The loop in its initial state.
            pregel_loop: LangGraph's own loop; None if the saver was called outside of a loop. A subgraph needs it.
            thread: The row of the thread. The run records its identity, to detect a later deletion of the thread.

        Returns:
            The run, the loop, and the node that called it, directly or through functions; None if no subgraph begins.
        """
        ns = new_loop.ns
        run = self.ensure_run(configurable, thread_key)
        if run is None:
            return None
        with self.lock:
            if loaded_key != run.thread_key and "" not in run.loops:  # the config names only the thread's id
                run.thread_key = loaded_key
                self._runs[id(run.identity), loaded_key] = run
            loop = run.loops.get(ns)
            run.resumed = run.resumed or bool(new_loop.tasks_with_results)
            if ns and not (loop and loop.pregel_ref and pregel_loop is not None and loop.pregel_ref() is pregel_loop):
                loop = None  # a subgraph that keeps its state has begun again
            self._bind_loop(run, loop or new_loop, pregel_loop, thread)
            if ns == "":
                self._newest_runs[thread_key.name] = run
                run.loops.setdefault(ns, new_loop)
            # The loop began with a named checkpoint. This call reads the newest one, before the loop's first step.
            if loop is not None and loop.pinned and not loop.steps and not loop.last_put and not new_loop.pinned:
                loop.starts_in_past = new_loop.start_id != loop.start_id
            if loop is not None or ns == "":
                return None
            task_id, execution_key = configurable.get("__pregel_task_id"), _read_execution_key(configurable)
            if task_id is None or execution_key is None or pregel_loop is None:
                return None  # the call only reads; no loop begins
            outer_levels = {level.ns: level.checkpoint for level in _parse_levels(configurable) if level.ns != ns}
            parent_ns, *outer = [*reversed(outer_levels)] or [""]
            # A function has the same checkpoint as the loop around it.
            is_call = bool(outer) and outer_levels[parent_ns] == outer_levels[outer[0]]
            for outer_ns, step in outer_levels.items():
                if (outer_loop := run.loops.get(outer_ns)) is not None:
                    outer_loop.steps.add(step)
            caller = _parse_task_id(parent_ns) if is_call else None
            task = self._claim_task(run, parent_ns, outer_levels.get(parent_ns, ""), task_id, caller, execution_key)
            new_loop.parent_task, new_loop.parents, run.loops[ns] = task_id, outer_levels, new_loop
            task.loops.append(new_loop)
            return run, new_loop, run.find_outermost_caller(task)

    def collect_outer_writes(self, run: GraphRun, loop: GraphLoop, task: GraphTask) -> LiveWrites:
        """Return the current writes of the node that called a subgraph, except the subgraph's."""
        with self.lock:
            return self._collect_task_writes(run, task, without=(loop,))

    def _bind_loop(self, run: GraphRun, loop: GraphLoop, pregel_loop: Any, thread: Thread | None) -> None:
        """Record LangGraph's own loop, its LangChain run, and the thread of the graph run."""
        if pregel_loop is not None:
            if run.thread_identity is None and thread is not None and loop.ns == "":
                run.thread_identity = thread.identity
            loop.pregel_ref = weakref.ref(pregel_loop)
            if (graph_run_id := getattr(pregel_loop.manager, "run_id", None)) is not None:
                run.graph_run_ids.add(graph_run_id)
                self._runs_by_langchain_run[graph_run_id] = run

    # -- reports of callbacks -----------------------------------------------------------------------------------

    def find_run(self, ancestors: Iterable[UUID], thread: str) -> GraphRun | None:
        """Return the run that an attempt of a task belongs to.

        If no ancestor is the run of a registered loop, return the thread's newest run. But if the loops of the newest
        run are registered with their LangChain runs, the attempt belongs to another run: return None.

        Args:
            ancestors: The ids of LangChain's runs around the attempt, the nearest first.
            thread: The id of the thread.
        """
        with self.lock:
            for run_id in ancestors:
                if (run := self._runs_by_langchain_run.get(run_id)) is not None:
                    return run
            newest = self._newest_runs.get(thread)
            return None if newest is None or newest.graph_run_ids else newest

    def is_graph_run(self, run_id: UUID | None) -> bool:
        """Return whether a LangChain run is the run of a registered loop."""
        return run_id in self._runs_by_langchain_run

    def start_attempt(self, run: GraphRun, ns: str, step_number: int | None, attempt: UUID) -> None:
        """Record that an attempt of a task has begun.

        An earlier attempt that timed out may report its failure only later, so it is marked as failed now.
        """
        task_id = _parse_task_id(ns)
        with self.lock:
            if (previous := run.attempts.get(task_id)) is not None:
                self.fail_attempt(run, ns, previous, interrupted=False)
            outer_ns, _, name = ns.rpartition("|")
            if name.startswith(_ERROR_HANDLER):  # the handled attempt may have timed out and still run
                if (late_attempt := run.attempts.get(failed_id := _parse_task_id(outer_ns))) is not None:
                    self.fail_attempt(run, outer_ns, late_attempt, interrupted=False)
                run.failed_tasks.add(failed_id)
                if failed_id in run.tasks:
                    run.tasks[failed_id].failed = True
            run.attempts[task_id] = attempt
            if (task := run.tasks.get(task_id)) is not None:  # the new attempt replaces the failed one
                task.failed = False
            loop = run.loops.get(outer_ns)
            run.ran_tasks.add(task_id)
            run.failed_tasks.discard(task_id)
            run.final_calls.pop(task_id, None)
            start_number = None if loop is None or loop.last_put is not None else loop.step_number
            if loop and loop.start_id and start_number is not None and step_number == start_number + 1:
                loop.steps.add(loop.start_id)  # the attempt continues the step of this checkpoint

    def end_attempt(self, run: GraphRun, ns: str, attempt: UUID) -> None:
        """Record that an attempt of a task has succeeded, and which functions it called."""
        task_id = _parse_task_id(ns)
        with self.lock:
            is_newest = run.attempts.get(task_id) == attempt
            if is_newest:
                del run.attempts[task_id]
            if is_newest and run.resumed and (calls := run.list_calls(task_id)) is not None:
                run.final_calls[task_id] = calls

    def fail_attempt(self, run: GraphRun, ns: str, attempt: UUID, *, interrupted: bool) -> None:
        """Record that an attempt of a task failed, so that its writes are dropped.

        Args:
            run: The run of the task.
            ns: The checkpoint namespace of the task.
            attempt: The id of LangChain's run of the attempt. It is ignored if a newer attempt has begun.
            interrupted: True if the error was an interrupt. LangGraph then lets the called functions finish.
        """
        task_id = _parse_task_id(ns)
        with self.lock:
            if run.attempts.get(task_id) != attempt:
                return
            del run.attempts[task_id]
            task = run.tasks.get(task_id)
            calls = {*run.calls.get(task_id, ()), *(run.list_calls(task_id) or ())}
            run.failed_tasks.add(task_id)
            if not interrupted:
                run.failed_tasks.update(calls)
            run.dropped_calls.update(calls)
            if task is not None:
                run.end_execution(task)
                task.failed = True

    # -- calls from tasks -----------------------------------------------------------------------------------------

    def resolve_execution(
        self, configurable: Mapping[str, Any], thread_key: ThreadKey
    ) -> tuple[GraphRun, list[LoopLevel], list[LevelCaller], TaskExecution]:
        """Return a task's run, its levels, the callers of the inner levels, and its execution.

        Raises:
            InvalidInput: The graph uses another checkpointer.
            StepIsOver: Another execution of the task has replaced this one.
        """
        run = self.ensure_run(configurable, thread_key)
        key = _read_execution_key(configurable)
        with self.lock:
            if run is None or key is None or "" not in run.loops:
                raise InvalidInput(
                    "The memory of a thread needs this memory's checkpointer: compile the graph with "
                    "checkpointer=memory.checkpointer of the same AgentMemory object."
                )
            levels = _parse_levels(configurable)
            callers: list[LevelCaller] = []
            calling_function = None
            run.loops[""].steps.add(levels[0].checkpoint)
            for outer, level in pairwise(levels):
                loop = None
                if level.checkpoint == outer.checkpoint:  # the level is a function
                    task_id = _parse_task_id(level.ns)
                    run.ensure_task(task_id, *outer, calling_function)
                    calling_function = task_id
                else:
                    task_id, calling_function = self._find_loop_caller(run, level.ns, *outer), None
                    loop = run.loops[level.ns]
                    if loop.pregel_ref is not None and loop not in run.tasks[task_id].loops:
                        raise StepIsOver  # an earlier attempt of the task began this loop
                    loop.steps.add(level.checkpoint)
                callers.append((task_id, loop))
            task = self._claim_task(run, *levels[-1], configurable["__pregel_task_id"], calling_function, key)
            run.has_memory = True
            assert task.execution is not None  # noqa: S101 - `_claim_task` has just set it
            return run, levels, callers, task.execution

    def collect_visible_writes(
        self, run: GraphRun, levels: Sequence[LoopLevel], callers: Sequence[LevelCaller], execution: TaskExecution
    ) -> LiveWrites:
        """Return the groups and places that a task can see.

        The places of the checkpoints that its loops began with must have been read.

        Raises:
            StepIsOver: Another execution of the task has replaced this one.
        """
        with self.lock:
            if execution.is_over:
                raise StepIsOver
            writes = self._collect_loop_writes(run, run.loops[""], levels[0].checkpoint)
            loops = [loop for _, loop in callers]
            for level, (task_id, loop) in zip(levels[1:], callers, strict=True):
                writes.add(self._collect_task_writes(run, run.tasks[task_id], without=loops))
                if loop is not None:
                    writes.add(self._collect_loop_writes(run, loop, level.checkpoint))
            writes.add(self._collect_task_writes(run, execution.task))
            return writes

    # -- current writes -------------------------------------------------------------------------------------------

    def find_place_at_step(self, run: GraphRun, ns: str, checkpoint: str) -> tuple[Place | None, LiveWrites] | None:
        """Return a loop's place at a step, and the further writes that are visible there.

        Returns:
            The place and the writes; None if the run has no such loop.
        """
        with self.lock:
            loop = run.loops.get(ns)
            if loop is None:
                return None
            shown_writes = _get_writes_at(loop, checkpoint if checkpoint in loop.places else loop.head)
            further_writes = self._collect_loop_writes(run, loop, checkpoint)
            for place in shown_writes.places:
                del further_writes.places[place]
            return next(iter(shown_writes.places), None), further_writes

    def list_steps_to_seal(self, run: GraphRun, loop: GraphLoop, before: str) -> list[tuple[str, LiveWrites]]:
        """Return the steps that a put seals, with the current writes of their tasks."""
        with self.lock:
            return [(step, self._collect_step_writes(run, loop, step)) for step in loop.list_open_steps(before)]

    def choose_group(self, run: GraphRun, execution: TaskExecution) -> int:
        """Return the group that an execution writes to.

        The group is a random number, so choosing it needs no transaction.

        Raises:
            StepIsOver: Another execution has replaced this one, or a checkpoint that follows its step was put.
        """
        with self.lock:
            loop = run.loops.get(run.find_outermost_caller(execution.task).ns)
            if execution.is_over or (loop is not None and loop.has_passed(execution.task.checkpoint)):
                raise StepIsOver
            if execution.group is None:
                execution.group = secrets.randbits(62)
            return execution.group

    def find_task_writes(self, run: GraphRun, ns: str, task_id: str) -> tuple[GraphTask | None, LiveWrites]:
        """Return a task and its current writes."""
        with self.lock:
            task, loop = run.tasks.get(task_id), run.loops.get(ns)
            if task is None:
                return None, LiveWrites()
            return task, self._collect_task_writes(run, task, skip_finished=loop.starts_in_past if loop else False)

    def list_unread_checkpoints(self, run: GraphRun) -> list[tuple[GraphLoop, str]]:
        """Return the checkpoints whose places must still be read, with their loops."""
        with self.lock:
            return [
                (loop, checkpoint)
                for loop in run.loops.values()
                for checkpoint in dict.fromkeys((loop.start_id, loop.last_put))
                if checkpoint is not None
                and (checkpoint not in loop.places or (checkpoint == loop.start_id and loop.finished_tasks is None))
            ]

    def _collect_task_writes(
        self, run: GraphRun, task: GraphTask, *, skip_finished: bool = False, without: Sequence[GraphLoop | None] = ()
    ) -> LiveWrites:
        """Return the current writes of a task and of the functions that it called.

        With `skip_finished`, omit functions that finished in earlier runs. `without` lists loops to omit.
        """
        writes = LiveWrites(task.groups)
        for loop in task.loops:
            if loop not in without:
                writes.add(self._collect_loop_writes(run, loop))
        for call_id in run.calls.get(task.id, ()):
            writes.add(self._collect_task_writes(run, run.tasks[call_id], skip_finished=skip_finished, without=without))
        if not skip_finished:
            for finished in chain.from_iterable(loop.finished_tasks or () for loop in run.loops.values()):
                has_not_run = finished.task not in run.tasks and finished.task not in run.ran_tasks
                if finished.caller == task.id and has_not_run and run.has_called(task.id, finished.task):
                    writes.add(LiveWrites(dict.fromkeys(finished.groups, FOREVER)))
        return writes

    def _collect_step_writes(self, run: GraphRun, loop: GraphLoop, step: str) -> LiveWrites:
        """Return the writes of a step's tasks, including tasks of earlier runs."""
        writes = LiveWrites()
        for task_id in run.step_tasks.get((loop.ns, step), ()):
            writes.add(self._collect_task_writes(run, run.tasks[task_id], skip_finished=loop.starts_in_past))
        if step == loop.start_id and not loop.starts_in_past:
            for finished in loop.finished_tasks or ():
                task = run.tasks.get(finished.task)
                has_no_writes = task is None or (task.execution is None and not task.failed and not task.loops)
                # A called function also applies if its caller was executed again but did not use memory.
                applies = finished.caller is None or (
                    finished.caller in run.ran_tasks
                    and finished.caller not in run.tasks
                    and run.has_called(finished.caller, finished.task)
                )
                if applies and finished.task not in run.ran_tasks and has_no_writes:
                    writes.add(LiveWrites(dict.fromkeys(finished.groups, FOREVER)))
        return writes

    def _collect_loop_writes(self, run: GraphRun, loop: GraphLoop, checkpoint: str | None = None) -> LiveWrites:
        """Return the writes that a loop shows at a stored or future checkpoint.

        Without a checkpoint, return the writes that the loop shows now.
        """
        if checkpoint in loop.places:
            return _get_writes_at(loop, checkpoint)
        writes = _get_writes_at(loop, loop.head)
        for step in loop.list_open_steps(checkpoint):
            writes.add(self._collect_step_writes(run, loop, step))
        return writes

    # -- tasks -------------------------------------------------------------------------------------------------

    def _find_loop_caller(self, run: GraphRun, ns: str, outer_ns: str, outer_checkpoint: str) -> str:
        """Return the id of the task that called a subgraph; register the loop if it is new.

        LangGraph does not report the start of a loop without a checkpointer.
        """
        loop = run.loops.get(ns)
        if loop is not None and loop.parent_task is not None:
            return loop.parent_task
        # The first name below the outer namespace is "node:task id".
        task_id = ns[len(outer_ns) :].strip("|").split("|")[0].rpartition(":")[2]
        loop = run.loops[ns] = GraphLoop(ns, parent_task=task_id)
        run.ensure_task(task_id, outer_ns, outer_checkpoint, None).loops.append(loop)
        return task_id

    def _claim_task(
        self, run: GraphRun, ns: str, checkpoint: str, task_id: str, caller: str | None, key: ExecutionKey
    ) -> GraphTask:
        """Return a task, and make the execution of a key its newest one.

        Raises:
            StepIsOver: The task failed, or another execution has replaced this one.
        """
        task = run.ensure_task(task_id, ns, checkpoint, caller)
        if task_id in run.failed_tasks:
            raise StepIsOver
        newest = task.execution
        if newest is None or newest.key != key:
            if (task_id, key) in run.replaced_executions or (newest is not None and _is_before(key, newest.key)):
                raise StepIsOver
            if newest is not None:
                run.end_execution(task)
            task.execution, task.failed = TaskExecution(task, key, run.token), False
        return task


def _get_writes_at(loop: GraphLoop, checkpoint: str | None) -> LiveWrites:
    """Return the writes that a stored checkpoint of a loop shows."""
    if loop.own_groups is not None and checkpoint == loop.start_id:
        return LiveWrites(loop.own_groups)
    place = None if checkpoint is None else loop.places.get(checkpoint)
    return LiveWrites(places=() if place is None else (place,))


def _parse_levels(configurable: Mapping[str, Any]) -> list[LoopLevel]:
    """Return the loops and calls around a task, outermost first, from LangGraph's config."""
    return list_levels(str(configurable.get("checkpoint_ns") or ""), configurable.get("checkpoint_map") or {})


def list_nested_graphs(configurable: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of the nested graphs around a task, the outermost first.

    The list is empty in a thread's own graph.

    Args:
        configurable: The configurable of the task's config. A called function runs in the graph of its caller.
    """
    return [inner.ns for outer, inner in pairwise(_parse_levels(configurable)) if inner.checkpoint != outer.checkpoint]


def list_levels(inner: str, checkpoints: Mapping[str, str]) -> list[LoopLevel]:
    """Return the loops and calls around a loop or task, the outermost first.

    The loop or task itself is included if `checkpoints` contains it.

    Args:
        inner: The checkpoint namespace of the loop or task.
        checkpoints: Checkpoint ids by checkpoint namespace, as in LangGraph's `checkpoint_map`. For a replayed subgraph
            the map has two entries of one depth. The later one applies.
    """
    levels = {
        len(ns.split("|")) if ns else 0: LoopLevel(ns, checkpoint)
        for ns, checkpoint in checkpoints.items()
        if _is_around(ns, inner)
    }
    return [levels[depth] for depth in sorted(levels)]


def _is_around(ns: str, inner: str) -> bool:
    """Return whether a loop or task is the same as an inner one, or around it.

    Args:
        ns: The checkpoint namespace of the loop or task.
        inner: The checkpoint namespace of the inner loop or task.
    """
    names, inner_names = ns.split("|"), inner.split("|")
    return ns == "" or (len(names) <= len(inner_names) and all(map(_is_same_task, names, inner_names)))


def _is_same_task(name: str, other: str) -> bool:
    """Return whether two names "node:task id" are equal; a missing task id equals any."""
    # Subgraphs that keep their state have names without task ids.
    (node, _, task), (other_node, _, other_task) = name.partition(":"), other.partition(":")
    return node == other_node and (task == other_task or not (task and other_task))


def _parse_task_id(ns: str) -> str:
    """Return the task id at the end of a checkpoint namespace, "node:task id|node:task id"."""
    return ns.rpartition("|")[2].rpartition(":")[2]


def _read_execution_key(configurable: Mapping[str, Any]) -> ExecutionKey | None:
    """Return the key that distinguishes a task's execution from the others of its run."""
    info = getattr(configurable.get("__pregel_runtime"), "execution_info", None)
    return None if info is None else (info.node_first_attempt_time, info.node_attempt)


def _is_before(key: ExecutionKey, other: ExecutionKey) -> bool:
    """Return whether an execution is an earlier attempt than another one."""
    return key[0] == other[0] and None not in (*key, *other) and key[1] < other[1]


def parse_thread_key(config: Mapping[str, Any] | None, scopes: Scopes) -> ThreadKey:
    """Return the thread that a config names.

    Args:
        config: The config.
        scopes: The rules that resolve a config to its namespace.

    Raises:
        InvalidInput: The config names no thread.
    """
    name = namespaces.configurable_of(config).get("thread_id")
    if name is None:
        raise InvalidInput('A thread needs config["configurable"]["thread_id"].')
    return ThreadKey(namespaces.path_of(scopes.resolve(None, config)), namespaces.check_id(name, "thread"))
