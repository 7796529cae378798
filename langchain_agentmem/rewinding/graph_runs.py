"""The graph runs of this process: their loops, their tasks, and the writes of each task so far.

LangGraph may put a checkpoint before, during or long after the execution of the tasks that lead to it, or never. So the
database alone does not determine which writes a task may see, or which writes a put adds to a lineage. This module uses
five terms:

- A *run* is known by a `RunIdentity` in the config of its loop. LangGraph derives the configs of tasks, subgraphs and
  puts from that config. If LangGraph's loop is not found, the run is known by its `RunControl`, which callers may
  share.
- A *loop* is the run of a graph, or of a subgraph that one of its tasks calls.
- A *task* runs in a loop, under the id of a checkpoint. The same task may be executed again after a failure or an
  interrupt, and by several runs at the same time.
- An *execution* owns its writes. Within a run only the newest execution of a task applies. No run changes the writes of
  another run.
- A *group* contains the rows that one execution wrote. A put that follows the task *seals* the group: its rows get a
  place on a branch.

A run stays in the thread that its saver loaded or created, even if its config names only the thread's id.

This module does not access the database: `sealing.py` reads what it needs and reports what was stored.
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
"""The prefix of the name of an error handler, which LangGraph runs for a task that failed."""
_IDENTITY_KEY = "__pregel_agentmem_run"
"""The key of a run's identity. LangGraph removes keys with this prefix from the configs that it returns."""
MOST_RUNS = 256
"""The number of known runs above which a new run makes the registry drop finished runs."""

Place: TypeAlias = tuple[int, int]
"""The row id of a branch, and a position on it."""
Groups: TypeAlias = dict[int, int]
"""The numbers of groups, each with the number of its last visible row."""
ExecutionKey: TypeAlias = tuple[Any, ...]
"""The key that distinguishes an execution of a task from the others of its run."""


class FinishedTask(NamedTuple):
    """A task that finished in an earlier run, with the groups it had written.

    Attributes:
        task: The id of the task.
        caller: The id of the task that called it; None if no task did.
        groups: The groups that it had written.
    """

    task: str
    caller: str | None
    groups: tuple[int, ...]


class LoopLevel(NamedTuple):
    """A loop or function call around a task.

    Attributes:
        ns: Its name within the thread: LangGraph's checkpoint namespace.
        checkpoint: The id of the checkpoint that it runs under.
    """

    ns: str
    checkpoint: str


@dataclass(slots=True, eq=False)
class TaskExecution:
    """One execution of a task, which owns its writes.

    Attributes:
        task: The task.
        key: The key that distinguishes it from the task's other executions.
        owner: The token of its run.
        group: The group that it writes to; None before its first write.
        was_stored: True if the group has been found in the database. If it is deleted later, it is not created again.
        is_over: True if it failed or another execution has replaced it. It cannot write any more.
    """

    task: GraphTask
    key: ExecutionKey
    owner: int
    group: int | None = None
    was_stored: bool = False
    is_over: bool = False


@dataclass(slots=True, eq=False)
class GraphTask:
    """One task of a run.

    Attributes:
        id: Its id.
        ns: The name of the loop that it runs in.
        checkpoint: The id of the checkpoint that it runs under.
        caller: The id of the task that called it, if the task is a called function.
        execution: Its newest execution; None before the first one is seen.
        loops: The loops of subgraphs that this task entered.
        failed: True if its newest attempt failed, or its error handler has started.
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
        ns: Its name within the thread; empty for the thread's own graph.
        base: The id of the checkpoint that it began with.
        last_input: The id of `base` or, if the input of `base` is unread, of its parent; None if there is none. A new
            input replaces an unread one.
        step: The step number of the base.
        versions: The channel versions of the base.
        owner: The id of the task that entered it, for a subgraph.
        pinned: True if the caller requested a certain checkpoint.
        superseded: True if the requested checkpoint was not the newest one. The writes of `finished_tasks` are then not
            visible.
        last_put: The id of the checkpoint that it put last.
        steps: The ids of the checkpoints under which its tasks ran. Their puts may still follow.
        parents: The checkpoint ids of the loops around it, by the names of the loops.
        outer_groups: The groups that the tasks around it had written when it began.
        own_groups: The groups that its base shows and the outer graph's checkpoint does not. None if the base lies on
            the branch that was created for the outer checkpoint.
        places: The places of the checkpoints that it put or began with.
        results: The ids of tasks whose results LangGraph found with the base. LangGraph may reuse these results instead
            of running the tasks. None if unknown.
        finished_tasks: These tasks with their groups; None before they are read.
        pregel: A weak reference to LangGraph's own loop.
    """

    ns: str
    base: str | None = None
    last_input: str | None = None
    step: int | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    owner: str | None = None
    pinned: bool = False
    superseded: bool = False
    last_put: str | None = None
    steps: set[str] = field(default_factory=set)
    parents: Mapping[str, str] = field(default_factory=dict)
    outer_groups: Groups = field(default_factory=dict)
    own_groups: Groups | None = None
    places: dict[str, Place | None] = field(default_factory=dict)
    results: Collection[str] | None = None
    finished_tasks: tuple[FinishedTask, ...] | None = None
    pregel: weakref.ref[Any] | None = None

    @property
    def head(self) -> str | None:
        """The newest checkpoint of the loop."""
        return self.last_put or self.base

    def restart(self, checkpoint: str | None) -> None:
        """Start again from a checkpoint that was not read before."""
        self.base, self.last_put, self.superseded, self.step, self.versions = checkpoint, None, False, None, {}
        self.results = self.finished_tasks = self.own_groups = None

    def called_functions(self, task_id: str) -> set[str] | None:
        """Return the functions that a task has called in this loop.

        Functions whose earlier results were reused are included. LangGraph does not report such a reuse; only its own
        loop knows.

        Returns:
            Their ids; None if LangGraph's loop is unknown, or has no such task.
        """
        pregel = None if self.pregel is None else self.pregel()
        tasks: Mapping[str, Any] = getattr(pregel, "tasks", {})
        caller = tasks.get(task_id)
        return None if caller is None else {each.id for each in list(tasks.values()) if each.path[1] == caller.path}

    def has_passed(self, step: str) -> bool:
        """Return whether the loop has already put a checkpoint that follows a step.

        That checkpoint cannot include further writes of the step.
        """
        return self.last_put is not None and step != self.last_put and (step == self.base or step < self.last_put)

    def open_steps(self, before: str | None = None) -> list[str]:
        """Return the steps that no put has sealed, in order; with `before`, only earlier ones."""

        def order(step: str) -> tuple[bool, str]:
            return step != self.base, step  # the ids of a loop's own steps ascend; its base may come from another loop

        first = order(self.head) if self.head is not None else (False, "")
        last = (True, "\U0010ffff") if before is None else order(before)
        return sorted((step for step in self.steps if first <= order(step) < last), key=order)


LevelOwner: TypeAlias = tuple[str, GraphLoop | None]
"""The id of the task that entered a level, and the loop that it entered; None for the call of a function."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class GraphRun:
    """One run of a graph, in one thread.

    Attributes:
        identity: The identity in its configs.
        at: Its thread.
        token: The owner of its executions' groups: a random number that no other run has, in any process.
        graph_run_ids: The ids of LangChain's runs of its graph and of subgraphs.
        loops: Its loops by name.
        tasks: Its tasks by id.
        step_tasks: The task ids of each step, by loop name and checkpoint id.
        calls: The ids of the functions that each task called.
        ran_tasks: The ids of tasks that are known to have run in it.
        replaced_executions: The executions that later ones have replaced.
        failed_tasks: The ids of tasks that failed, or whose callers failed. They cannot write until they are retried.
        attempts: The newest attempt of each task that has not ended.
        dropped_calls: The ids of functions that failed attempts called. Their writes are not part of the run.
        final_calls: The ids of functions that each successful task called, including functions whose earlier results
            were reused.
        resumed: True if LangGraph may reuse results of earlier runs in it.
        has_memory: True if its thread is known to have memory.
        thread_identity: The identity of its thread, if the thread existed when the run began.
        thread_deleted: True if that thread is known to be deleted.
    """

    identity: Any
    at: ThreadKey
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

    def is_thread_deleted(self, thread: Thread | None) -> bool:
        """Return whether the run's thread was deleted since the run began.

        Args:
            thread: The thread that has the id now; None if there is none.
        """
        known = self.thread_identity
        self.thread_deleted |= known is not None and (thread is None or thread.identity != known)
        return self.thread_deleted

    def ensure_task(self, task_id: str, ns: str, checkpoint: str, caller: str | None) -> GraphTask:
        """Return a task; register it if it is new."""
        task = self.tasks.get(task_id)
        if task is None:
            task = self.tasks[task_id] = GraphTask(task_id, ns, checkpoint, caller)
            if caller is None:
                self.step_tasks.setdefault((ns, checkpoint), []).append(task_id)
            elif task_id not in self.dropped_calls:
                self.calls.setdefault(caller, []).append(task_id)
        return task

    def end_execution(self, task: GraphTask) -> None:
        """End an execution of a task, and drop its writes and calls from the run.

        Within a run, LangGraph never reuses the calls of an earlier attempt. A later run may reuse their results, so
        the called functions keep their writes.
        """
        if task.execution is not None:
            self.replaced_executions.add((task.id, task.execution.key))
            task.execution.is_over = True
        task.execution, task.loops = None, []
        self.dropped_calls.update(self.calls.pop(task.id, ()))
        self.dropped_calls.update(self.called_functions(task.id) or ())

    def called_functions(self, task_id: str) -> set[str] | None:
        """Return the functions that a task has called; None if they are unknown."""
        return next((ids for loop in self.loops.values() if (ids := loop.called_functions(task_id)) is not None), None)

    def outermost_caller(self, task: GraphTask) -> GraphTask:
        """Return the task that called a function, directly or through other functions.

        A task without a caller is returned itself.
        """
        while task.caller is not None and task.caller in self.tasks:
            task = self.tasks[task.caller]
        return task

    def has_called(self, caller: str, task_id: str) -> bool:
        """Return whether a task has called a function in its present attempt.

        If so, LangGraph reused an earlier result. The result is also True if the calls are unknown.

        Args:
            caller: The task.
            task_id: The id of the function, which did not run in this run.
        """
        if task_id in self.dropped_calls:
            return False
        calls = self.final_calls.get(caller)
        calls = self.called_functions(caller) if calls is None else calls
        return calls is None or task_id in calls


@dataclass(frozen=True, slots=True, eq=False)
class RunIdentity:
    """The identity of one run of a thread's own graph.

    Attributes:
        pregel: A weak reference to LangGraph's loop of that graph.
    """

    pregel: weakref.ref[Any]


def add_identity(pregel: Any, ns: str) -> None:
    """Add an identity to the configs of a loop that begins.

    Loops of subgraphs, and loops that already have an identity, are left unchanged.

    Args:
        pregel: LangGraph's own loop, if one is calling.
        ns: The loop's name within the thread.
    """
    if pregel is None or ns:
        return
    configs = [each["configurable"] for each in (pregel.config, pregel.checkpoint_config)]
    identity = configs[0].get(_IDENTITY_KEY)  # a graph that a node calls in another thread inherits that of the caller
    if identity is None or identity.pregel() is not pregel:
        identity = RunIdentity(weakref.ref(pregel))
        for each in configs:
            each[_IDENTITY_KEY] = identity


def identity_of(configurable: Mapping[str, Any]) -> Any:
    """Return the identity of the run that a config belongs to; None if there is no run."""
    control = getattr(configurable.get("__pregel_runtime"), "control", None)
    return None if control is None else configurable.get(_IDENTITY_KEY, control)


class LiveWrites:
    """The current writes of tasks: groups, and the places up to which branches are visible."""

    __slots__ = ("groups", "places")

    def __init__(self, groups: Mapping[int, int] | None = None, places: Iterable[Place] = ()) -> None:
        self.groups: Groups = dict(groups or {})
        self.places: dict[Place, None] = dict.fromkeys(places)

    def add(self, other: LiveWrites) -> None:
        """Add the groups and places of another object."""
        self.groups.update(other.groups)
        self.places.update(other.places)


def runs_of(database: Database) -> RunRegistry:
    """Return the graph runs of this process that use a database.

    The memory of these runs follows their threads.
    """

    def make() -> RunRegistry:
        runs = RunRegistry(database.scopes)
        database.caches.add(runs)
        database.namespace_finders.append(runs.find_namespace)
        return runs

    return database.get_attachment(RunRegistry, make)


class RunRegistry:
    """The runs of this process that use one database.

    Args:
        scopes: The rules that resolve a call to its namespace.
    """

    lock = PerProcess(threading.RLock)

    def __init__(self, scopes: Scopes = Scopes()) -> None:  # noqa: B008 - a value
        self.scopes = scopes
        self._runs: dict[tuple[int, ThreadKey], GraphRun] = {}
        self._newest_runs: weakref.WeakValueDictionary[str, GraphRun] = weakref.WeakValueDictionary()
        self._runs_by_graph: weakref.WeakValueDictionary[UUID, GraphRun] = weakref.WeakValueDictionary()

    # -- finding runs -------------------------------------------------------------------------------------------

    def run_of(self, configurable: Mapping[str, Any], at: ThreadKey) -> GraphRun | None:
        """Return the run of a config, created if missing; None without an identity."""
        identity = identity_of(configurable)
        if identity is None:
            return None
        with self.lock:
            run = self._runs.get((id(identity), at))
            if run is None:
                if len(self._runs) >= MOST_RUNS:
                    self._drop_finished_runs()
                run = self._runs[id(identity), at] = GraphRun(identity, at)
            return run

    def find_namespace(self, configurable: Mapping[str, Any]) -> namespaces.Namespace:
        """Return the namespace of a run whose config names only a thread id.

        It is the namespace of the thread that the run's saver loaded.

        Args:
            configurable: The configurable of the config.
        """
        identity = identity_of(configurable)
        if identity is None or configurable.get("thread_id") is None:
            return ()
        name = str(configurable["thread_id"])  # another graph may use ids that are not valid here
        with self.lock:
            run = self._runs.get((id(identity), ThreadKey("", name)))
            if run is None:  # a saver that is bound to a namespace registers its run there
                runs = self._runs_of_task(configurable)
                run = runs[0] if len(runs) == 1 else None
            return () if run is None else namespaces.namespace_of(run.at.path)

    def uses_saver(self, configurable: Mapping[str, Any], at: ThreadKey) -> bool:
        """Return whether a config's run uses a saver of this database in this thread."""
        with self.lock:
            run = self._runs.get((id(identity_of(configurable)), at))
            return run is not None and "" in run.loops

    def start_checkpoint(self, configurable: Mapping[str, Any], at: ThreadKey) -> str | None:
        """Return the checkpoint that a thread's graph began with, if the input may be unstored.

        Args:
            configurable: The configurable of a task's config.
            at: The thread.

        Returns:
            Its id. None if the input is stored, the task runs under that checkpoint, or the run began without one.
        """
        run = self.run_of(configurable, at)
        with self.lock:
            loop = None if run is None else run.loops.get("")
            if loop is None or loop.base == _task_levels(configurable)[0].checkpoint:
                return None
            # The first checkpoint contains the raw input, and the second one the resulting messages.
            return None if len(loop.places.keys() - {loop.base}) > 1 else loop.base

    def saves_checkpoints(self, configurable: Mapping[str, Any], ns: str) -> bool:
        """Return whether a nested graph saves checkpoints.

        A graph whose saver does not belong to this memory is assumed to save checkpoints.

        Args:
            configurable: The configurable of a task's config.
            ns: The checkpoint namespace of the graph around the task.
        """
        with self.lock:
            loops = [run.loops.get(ns) for run in self._runs_of_task(configurable) if "" in run.loops]
        if not loops:
            return configurable.get("__pregel_checkpointer") is not None
        return any(loop is not None and loop.pregel is not None for loop in loops)

    def _drop_finished_runs(self) -> None:
        """Forget runs whose identity has no other reference."""
        counts: dict[int, int] = {}
        for run in {id(run): run for run in self._runs.values()}.values():
            counts[id(run.identity)] = counts.get(id(run.identity), 0) + 1
        live = {key for key, run in self._runs.items() if sys.getrefcount(run.identity) > 1 + counts[key[0]]}
        self._runs = {key: run for key, run in self._runs.items() if key in live}

    def is_thread_deleted(self, configurable: Mapping[str, Any]) -> bool:
        """Return whether a task's thread is known to have been deleted during its run."""
        with self.lock:
            return any(run.thread_deleted for run in self._runs_of_task(configurable))

    def _runs_of_task(self, configurable: Mapping[str, Any]) -> list[GraphRun]:
        """Return the runs that a task's config belongs to, in any namespace."""
        identity, name = identity_of(configurable), str(configurable["thread_id"])
        return [run for run in self._runs.values() if run.identity is identity and run.at.name == name]

    def forget(self, deleted: Collection[ThreadKey] = ()) -> None:
        """Forget the places of checkpoints after a deletion.

        Args:
            deleted: The deleted threads.
        """
        with self.lock:
            for run in self._runs.values():
                run.thread_deleted |= run.thread_identity is not None and run.at in deleted
                for loop in run.loops.values():
                    loop.places.clear()
                    loop.finished_tasks = None

    # -- reports of the saver ----------------------------------------------------------------------------------

    def register_loop(
        self,
        configurable: Mapping[str, Any],
        at: ThreadKey,
        found_key: ThreadKey,
        new_loop: GraphLoop,
        pregel: Any,
        thread: Thread | None,
    ) -> tuple[GraphRun, GraphLoop, GraphTask] | None:
        """Register a loop that has begun, with a checkpoint or without one.

        Args:
            configurable: The configurable of the config.
            at: The thread as the config names it.
            found_key: The thread that the saver loaded; `at` if it found none.
            new_loop: The loop in its initial state.
            pregel: LangGraph's own loop, if one is calling. Without it no subgraph is registered.
            thread: The row of the thread. The run of its own graph records its identity, to detect a later deletion.

        Returns:
            For a subgraph: its run, its loop, and the task around it. Otherwise None.
        """
        ns = new_loop.ns
        run = self.run_of(configurable, at)
        if run is None:
            return None
        with self.lock:
            if found_key != run.at and "" not in run.loops:  # the config names only the id
                run.at = found_key
                self._runs[id(run.identity), found_key] = run
            loop = run.loops.get(ns)
            run.resumed = run.resumed or bool(new_loop.results)
            if loop is not None and ns and (pregel is None or loop.pregel is None or loop.pregel() is not pregel):
                loop = None  # a subgraph that keeps its state has begun again
            self._bind_loop(run, loop or new_loop, pregel, thread)
            if ns == "":
                self._newest_runs[at.name] = run
                run.loops.setdefault(ns, new_loop)
            if loop is not None and loop.pinned and not loop.steps and not loop.last_put and not new_loop.pinned:
                loop.superseded = new_loop.base != loop.base
            if loop is not None or ns == "":
                return None
            owner, execution = configurable.get("__pregel_task_id"), _execution_key(configurable)
            if owner is None or execution is None or pregel is None:  # a caller only reads; no loop begins
                return None
            outer_levels = {level.ns: level.checkpoint for level in _task_levels(configurable) if level.ns != ns}
            parent_ns, *outer = [*reversed(outer_levels)] or [""]
            is_call = bool(outer) and outer_levels[parent_ns] == outer_levels[outer[0]]
            for key, step in outer_levels.items():
                if (other := run.loops.get(key)) is not None:
                    other.steps.add(step)
            caller = _task_id_of(parent_ns) if is_call else None
            task = self._claim_task(run, parent_ns, outer_levels.get(parent_ns, ""), owner, caller, execution)
            new_loop.owner, new_loop.parents, run.loops[ns] = owner, outer_levels, new_loop
            task.loops.append(new_loop)
            return run, new_loop, run.outermost_caller(task)

    def writes_around(self, run: GraphRun, loop: GraphLoop, task: GraphTask) -> LiveWrites:
        """Return the current writes of the task around a loop, without those of the loop."""
        with self.lock:
            return self._live_writes(run, task, without=(loop,))

    def _bind_loop(self, run: GraphRun, loop: GraphLoop, pregel: Any, thread: Thread | None) -> None:
        """Record LangGraph's own loop, LangChain's run of it, and the thread of the run."""
        if pregel is not None:
            if run.thread_identity is None and thread is not None and loop.ns == "":
                run.thread_identity = thread.identity
            loop.pregel = weakref.ref(pregel)
            if (graph := getattr(pregel.manager, "run_id", None)) is not None:
                run.graph_run_ids.add(graph)
                self._runs_by_graph[graph] = run

    # -- reports of callbacks -----------------------------------------------------------------------------------

    def find_run(self, graphs: Iterable[UUID], thread: str) -> GraphRun | None:
        """Return the run in which an attempt of a task was made.

        Args:
            graphs: The ids of LangChain's runs around it, the nearest first.
            thread: The id of its thread. The thread's newest run is used if the saver was called outside LangGraph's
                loop.
        """
        with self.lock:
            for graph in graphs:
                if (run := self._runs_by_graph.get(graph)) is not None:
                    return run
            newest = self._newest_runs.get(thread)
            return None if newest is None or newest.graph_run_ids else newest

    def is_graph_run(self, run_id: UUID | None) -> bool:
        """Return whether a LangChain run is that of a known graph."""
        return run_id in self._runs_by_graph

    def start_attempt(self, run: GraphRun, ns: str, step: int | None, attempt: UUID) -> None:
        """Record that an attempt of a task has begun.

        An earlier attempt that timed out may report its failure only later; it is marked as failed now.
        """
        task_id = _task_id_of(ns)
        with self.lock:
            if (previous := run.attempts.get(task_id)) is not None:
                self.fail_attempt(run, ns, previous, interrupted=False)
            outer_ns, _, name = ns.rpartition("|")
            if name.startswith(_ERROR_HANDLER):  # the handled attempt may have timed out and still run
                if (late_attempt := run.attempts.get(failed_id := _task_id_of(outer_ns))) is not None:
                    self.fail_attempt(run, outer_ns, late_attempt, interrupted=False)
                run.failed_tasks.add(failed_id)
                if failed_id in run.tasks:
                    run.tasks[failed_id].failed = True
            run.attempts[task_id] = attempt
            if (task := run.tasks.get(task_id)) is not None:  # its calls apply again from now on
                task.failed = False
            loop = run.loops.get(outer_ns)
            run.ran_tasks.add(task_id)
            run.failed_tasks.discard(task_id)
            run.final_calls.pop(task_id, None)
            if loop and loop.base and loop.last_put is None and loop.step is not None and step == loop.step + 1:
                loop.steps.add(loop.base)  # it continues where the base stopped

    def end_attempt(self, run: GraphRun, ns: str, attempt: UUID) -> None:
        """Record that an attempt of a task has succeeded and reuses no further results."""
        task_id = _task_id_of(ns)
        with self.lock:
            newest = run.attempts.get(task_id) == attempt
            if newest:
                del run.attempts[task_id]
            if newest and run.resumed and (calls := run.called_functions(task_id)) is not None:
                run.final_calls[task_id] = calls

    def fail_attempt(self, run: GraphRun, ns: str, attempt: UUID, *, interrupted: bool) -> None:
        """Record that an attempt of a task failed, so that its writes are dropped.

        Args:
            run: The run of the task.
            ns: The name of the task.
            attempt: The id of LangChain's run of the attempt. It is ignored if a newer attempt has begun.
            interrupted: True if the error was an interrupt. LangGraph then lets the called functions finish.
        """
        task_id = _task_id_of(ns)
        with self.lock:
            if run.attempts.get(task_id) != attempt:
                return
            del run.attempts[task_id]
            task = run.tasks.get(task_id)
            calls = {*run.calls.get(task_id, ()), *(run.called_functions(task_id) or ())}
            run.failed_tasks.add(task_id)
            if not interrupted:
                run.failed_tasks.update(calls)
            run.dropped_calls.update(calls)
            if task is not None:
                run.end_execution(task)
                task.failed = True

    # -- calls from tasks -----------------------------------------------------------------------------------------

    def resolve_execution(
        self, configurable: Mapping[str, Any], at: ThreadKey
    ) -> tuple[GraphRun, list[LoopLevel], list[LevelOwner], TaskExecution]:
        """Return a config's run, the levels around its task, their owners and its execution.

        Raises:
            InvalidInput: The graph uses another checkpointer.
            StepIsOver: Another execution of the task has replaced this one.
        """
        run = self.run_of(configurable, at)
        execution = _execution_key(configurable)
        with self.lock:
            if run is None or execution is None or "" not in run.loops:
                raise InvalidInput(
                    "The memory of a thread needs this memory's checkpointer: compile the graph with "
                    "checkpointer=memory.checkpointer of the same AgentMemory object."
                )
            levels = _task_levels(configurable)
            owners: list[LevelOwner] = []
            caller = None
            run.loops[""].steps.add(levels[0].checkpoint)
            for outer, level in pairwise(levels):
                loop = None
                if level.checkpoint == outer.checkpoint:
                    owner = _task_id_of(level.ns)
                    run.ensure_task(owner, *outer, caller)
                    caller = owner
                else:
                    owner, caller = self._loop_owner(run, level.ns, *outer), None
                    loop = run.loops[level.ns]
                    if loop.pregel is not None and loop not in run.tasks[owner].loops:
                        raise StepIsOver  # an earlier attempt has entered it
                    loop.steps.add(level.checkpoint)
                owners.append((owner, loop))
            task = self._claim_task(run, *levels[-1], configurable["__pregel_task_id"], caller, execution)
            run.has_memory = True
            assert task.execution is not None  # noqa: S101 - `_claim_task` has just set it
            return run, levels, owners, task.execution

    def visible_writes(
        self, run: GraphRun, levels: Sequence[LoopLevel], owners: Sequence[LevelOwner], execution: TaskExecution
    ) -> LiveWrites:
        """Return the groups and places that a task can see; the bases of its loops must be known.

        Raises:
            StepIsOver: Another execution of the task has replaced this one.
        """
        with self.lock:
            if execution.is_over:
                raise StepIsOver
            writes = self._loop_writes(run, run.loops[""], levels[0].checkpoint)
            loops = [loop for _, loop in owners]
            for level, (owner, loop) in zip(levels[1:], owners, strict=True):
                writes.add(self._live_writes(run, run.tasks[owner], without=loops))
                if loop is not None:
                    writes.add(self._loop_writes(run, loop, level.checkpoint))
            writes.add(self._live_writes(run, execution.task))
            return writes

    # -- current writes -------------------------------------------------------------------------------------------

    def place_at_step(self, run: GraphRun, ns: str, checkpoint: str) -> tuple[Place | None, LiveWrites] | None:
        """Return a loop's place at a step, and the further writes that are visible there.

        Returns:
            The place and the writes; None if the run has no such loop.
        """
        with self.lock:
            loop = run.loops.get(ns)
            if loop is None:
                return None
            base_writes = _writes_at(loop, checkpoint if checkpoint in loop.places else loop.head)
            other_writes = self._loop_writes(run, loop, checkpoint)
            for place in base_writes.places:
                del other_writes.places[place]
            return next(iter(base_writes.places), None), other_writes

    def steps_to_seal(self, run: GraphRun, loop: GraphLoop, before: str) -> list[tuple[str, LiveWrites]]:
        """Return the steps that a put seals, with the current writes of their tasks."""
        with self.lock:
            return [(step, self._step_writes(run, loop, step)) for step in loop.open_steps(before)]

    def group_of(self, run: GraphRun, execution: TaskExecution) -> int:
        """Return the group that an execution writes to.

        The group is a random number, so choosing it needs no transaction.

        Raises:
            StepIsOver: Another execution has replaced it, or a checkpoint that follows its step was put.
        """
        with self.lock:
            loop = run.loops.get(run.outermost_caller(execution.task).ns)
            if execution.is_over or (loop is not None and loop.has_passed(execution.task.checkpoint)):
                raise StepIsOver
            if execution.group is None:
                execution.group = secrets.randbits(62)
            return execution.group

    def task_writes(self, run: GraphRun, ns: str, task_id: str) -> tuple[GraphTask | None, LiveWrites]:
        """Return a task and its current writes."""
        with self.lock:
            task, loop = run.tasks.get(task_id), run.loops.get(ns)
            if task is None:
                return None, LiveWrites()
            return task, self._live_writes(run, task, superseded=loop.superseded if loop else False)

    def unread_checkpoints(self, run: GraphRun) -> list[tuple[GraphLoop, str]]:
        """Return the loops of a run with those of their checkpoints that must still be read."""
        with self.lock:
            return [
                (loop, checkpoint)
                for loop in run.loops.values()
                for checkpoint in dict.fromkeys((loop.base, loop.last_put))
                if checkpoint is not None
                and (checkpoint not in loop.places or (checkpoint == loop.base and loop.finished_tasks is None))
            ]

    def _live_writes(
        self, run: GraphRun, task: GraphTask, *, superseded: bool = False, without: Sequence[GraphLoop | None] = ()
    ) -> LiveWrites:
        """Return the current writes of a task and of the functions that it called.

        `superseded` omits the writes of functions that finished in earlier runs. `without` omits those of some loops.
        """
        writes = LiveWrites(task.groups)
        for loop in task.loops:
            if loop not in without:
                writes.add(self._loop_writes(run, loop))
        for other in run.calls.get(task.id, ()):
            writes.add(self._live_writes(run, run.tasks[other], superseded=superseded, without=without))
        if not superseded:
            for each in chain.from_iterable(loop.finished_tasks or () for loop in run.loops.values()):
                has_not_run = each.task not in run.tasks and each.task not in run.ran_tasks
                if each.caller == task.id and has_not_run and run.has_called(task.id, each.task):
                    writes.add(LiveWrites(dict.fromkeys(each.groups, FOREVER)))
        return writes

    def _step_writes(self, run: GraphRun, loop: GraphLoop, step: str) -> LiveWrites:
        writes = LiveWrites()
        for task_id in run.step_tasks.get((loop.ns, step), ()):
            writes.add(self._live_writes(run, run.tasks[task_id], superseded=loop.superseded))
        if step == loop.base and not loop.superseded:
            for each in loop.finished_tasks or ():
                known = run.tasks.get(each.task)
                has_no_writes = known is None or (known.execution is None and not known.failed and not known.loops)
                # A called function also applies if its caller ran again without using memory.
                applies = each.caller is None or (
                    each.caller in run.ran_tasks
                    and each.caller not in run.tasks
                    and run.has_called(each.caller, each.task)
                )
                if applies and each.task not in run.ran_tasks and has_no_writes:
                    writes.add(LiveWrites(dict.fromkeys(each.groups, FOREVER)))
        return writes

    def _loop_writes(self, run: GraphRun, loop: GraphLoop, checkpoint: str | None = None) -> LiveWrites:
        """Return the writes that a loop shows at a checkpoint, which may not have been put.

        Without a checkpoint, return the writes that the loop shows now.
        """
        if checkpoint in loop.places:
            return _writes_at(loop, checkpoint)
        writes = _writes_at(loop, loop.head)
        for step in loop.open_steps(checkpoint):
            writes.add(self._step_writes(run, loop, step))
        return writes

    # -- tasks -------------------------------------------------------------------------------------------------

    def _loop_owner(self, run: GraphRun, ns: str, outer_ns: str, outer_checkpoint: str) -> str:
        """Return the id of the task that entered a loop; register the loop if it is new.

        LangGraph does not report the start of a loop without a checkpointer.
        """
        loop = run.loops.get(ns)
        if loop is not None and loop.owner is not None:
            return loop.owner
        owner = ns[len(outer_ns) :].strip("|").split("|")[0].rpartition(":")[2]
        loop = run.loops[ns] = GraphLoop(ns, owner=owner)
        run.ensure_task(owner, outer_ns, outer_checkpoint, None).loops.append(loop)
        return owner

    def _claim_task(
        self, run: GraphRun, ns: str, checkpoint: str, task_id: str, caller: str | None, key: ExecutionKey
    ) -> GraphTask:
        """Return a task, with the calling execution as its newest one."""
        task = run.ensure_task(task_id, ns, checkpoint, caller)
        if task_id in run.failed_tasks:
            raise StepIsOver
        old = task.execution
        if old is None or old.key != key:
            if (task_id, key) in run.replaced_executions or (old is not None and _is_before(key, old.key)):
                raise StepIsOver
            if old is not None:
                run.end_execution(task)
            task.execution, task.failed = TaskExecution(task, key, run.token), False
        return task


def _writes_at(loop: GraphLoop, checkpoint: str | None) -> LiveWrites:
    if loop.own_groups is not None and checkpoint == loop.base:
        return LiveWrites(loop.own_groups)
    place = None if checkpoint is None else loop.places.get(checkpoint)
    return LiveWrites(places=() if place is None else (place,))


def _task_levels(configurable: Mapping[str, Any]) -> list[LoopLevel]:
    """Return the loops and calls around a task, outermost first, from LangGraph's config."""
    return levels_around(str(configurable.get("checkpoint_ns") or ""), configurable.get("checkpoint_map") or {})


def nested_graphs(configurable: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of the nested graphs around a task, the outermost first.

    The list is empty in a thread's own graph.

    Args:
        configurable: The configurable of the task's config. A called function runs in the graph of its caller.
    """
    return [inner.ns for outer, inner in pairwise(_task_levels(configurable)) if inner.checkpoint != outer.checkpoint]


def levels_around(inner: str, checkpoints: Mapping[str, str]) -> list[LoopLevel]:
    """Return the loops and calls around a loop or task, the outermost first.

    The loop or task itself is included if `checkpoints` contains it.

    Args:
        inner: Its name.
        checkpoints: Checkpoint ids by name, as in LangGraph's `checkpoint_map`. For a replayed subgraph the map lists
            the earlier entry first.
    """
    levels = {
        len(ns.split("|")) if ns else 0: LoopLevel(ns, checkpoint)
        for ns, checkpoint in checkpoints.items()
        if _is_around(ns, inner)
    }
    return [levels[depth] for depth in sorted(levels)]


def _is_around(ns: str, inner: str) -> bool:
    """Return whether a loop or task is the same as another one, or around it.

    Args:
        ns: The name of the loop or task. Subgraphs that keep their state have names without task ids.
        inner: The name of the other one.
    """
    names, others = ns.split("|"), inner.split("|")
    return ns == "" or (len(names) <= len(others) and all(map(_is_same_task, names, others)))


def _is_same_task(name: str, other: str) -> bool:
    (node, _, task), (other_node, _, other_task) = name.partition(":"), other.partition(":")
    return node == other_node and (task == other_task or not (task and other_task))


def _task_id_of(ns: str) -> str:
    """Return the id of the task at the end of a name."""
    return ns.rpartition("|")[2].rpartition(":")[2]


def _execution_key(configurable: Mapping[str, Any]) -> ExecutionKey | None:
    """Return the key that distinguishes a task's execution from the others of its run."""
    info = getattr(configurable.get("__pregel_runtime"), "execution_info", None)
    return None if info is None else (info.node_first_attempt_time, info.node_attempt)


def _is_before(key: ExecutionKey, other: ExecutionKey) -> bool:
    """Return whether an execution is an earlier attempt than another one of the same run."""
    return key[0] == other[0] and None not in (*key, *other) and key[1] < other[1]


def thread_key_of(config: Mapping[str, Any] | None, scopes: Scopes) -> ThreadKey:
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
