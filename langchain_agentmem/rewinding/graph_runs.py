"""The graph runs of this process: their loops, their tasks, and the writes of each task so far.

LangGraph may put a checkpoint before, while or long after the tasks run that lead to it, and puts some never.
So the database alone does not show what a task may see, and what a put makes part of a line. A *run* is known by
a `RunIdentity` in the config of its loop, from which LangGraph derives those of tasks, subgraphs and puts; where that
loop is not found, by its `RunControl`, which callers may share. A *loop* is the run of a graph, or of a
subgraph that one of its tasks calls; a *task* runs in a loop, under a checkpoint's id. The same task may be executed
again, after a failure or an interrupt, and by several runs at the same time. An *execution* owns what it writes:
within a run only the newest execution of a task counts, and no run touches what another one's write.

A run stays in the thread that its saver loaded or made, even where its config names the thread alone.

This module does not access the database: `sealing.py` reads what is needed, and reports what was stored.
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
from langchain_agentmem.threads.thread_lines import Thread

_HANDLER = "__error_handler__"
"""The prefix of the name of an error handler, which LangGraph runs for a task that failed."""
_IDENTITY = "__pregel_agentmem_run"
"""The key of a run's identity. LangGraph removes keys that begin so from the configs that it shows."""
MOST_RUNS = 256
"""The number of known runs from which a new run makes the registry drop those that are over."""

Spot: TypeAlias = tuple[int, int]
"""A position on a branch."""
Groups: TypeAlias = dict[int, int]
"""Groups, each with the last row of it that counts."""
ExecutionKey: TypeAlias = tuple[Any, ...]
"""The key that tells one execution of a task from the others of its run."""


class FinishedTask(NamedTuple):
    """A task that finished in an earlier run, with the groups it had written.

    Attributes:
        task: Its id.
        caller: The task that called it.
        groups: The groups it had written.
    """

    task: str
    caller: str | None
    groups: tuple[int, ...]


class LoopLevel(NamedTuple):
    """A loop around a task, or a call of a function: name within the thread, checkpoint id."""

    ns: str
    checkpoint: str


@dataclass(slots=True, eq=False)
class TaskExecution:
    """One execution of a task, which owns what it writes.

    Attributes:
        task: The task.
        key: The key that tells it from the task's other executions.
        owner: The token of its run.
        group: The group that it writes to; None before its first write.
        there: Whether the group was found in the database once, so that it is not created again after its deletion.
        over: Whether it failed, or another execution has replaced it: it can write no more.
    """

    task: GraphTask
    key: ExecutionKey
    owner: int
    group: int | None = None
    there: bool = False
    over: bool = False


@dataclass(slots=True, eq=False)
class GraphTask:
    """One task, as its run knows it.

    Attributes:
        id: Its id.
        ns: The loop that it runs in.
        checkpoint: The id of the checkpoint that it runs under.
        caller: The task that called it, if it is a function that was called.
        execution: Its newest execution; None before it was seen.
        loops: The loops of subgraphs that this task entered.
        failed: Whether its newest attempt has failed, or LangGraph gave it up.
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
        ns: Its name within the thread; empty for the thread's own.
        base: The checkpoint that it began with.
        read: The newest checkpoint up to `base` whose input it has read: other input replaces what waits there.
        step: The number of that checkpoint's step.
        versions: The versions of that checkpoint's channels.
        owner: The task that entered it, if it is a subgraph's.
        addressed: Whether it was asked to begin at a certain checkpoint.
        superseded: Whether that checkpoint was not the newest one.
        last_put: The checkpoint that it put last.
        steps: The checkpoints under which its tasks ran; their puts may still follow.
        parents: The checkpoints of the loops around it, by their names.
        carried: The groups that the tasks around it had written when it began.
        kept: The groups that its base shows and the checkpoint around it does not; None if its base stands on that one.
        spots: The places of the checkpoints that it put or began with.
        results: The tasks whose results LangGraph found with the checkpoint that it began with, and may take instead of
            running them; None if unknown.
        earlier: These tasks with their groups; None before they were read.
        pregel: LangGraph's own loop, as long as it exists.
    """

    ns: str
    base: str | None = None
    read: str | None = None
    step: int | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    owner: str | None = None
    addressed: bool = False
    superseded: bool = False
    last_put: str | None = None
    steps: set[str] = field(default_factory=set)
    parents: Mapping[str, str] = field(default_factory=dict)
    carried: Groups = field(default_factory=dict)
    kept: Groups | None = None
    spots: dict[str, Spot | None] = field(default_factory=dict)
    results: Collection[str] | None = None
    earlier: tuple[FinishedTask, ...] | None = None
    pregel: weakref.ref[Any] | None = None

    @property
    def head(self) -> str | None:
        """The checkpoint that it stands on."""
        return self.last_put or self.base

    def begin(self, checkpoint: str | None) -> None:
        """Begin anew, with a checkpoint that was never read."""
        self.base, self.last_put, self.superseded, self.step, self.versions = checkpoint, None, False, None, {}
        self.results = self.earlier = self.kept = None

    def called_by(self, task_id: str) -> set[str] | None:
        """Return the functions that a task has called in this loop.

        Functions whose results existed already are included.

        LangGraph does not report that it takes a result instead of running a function; only its loop knows.

        Returns:
            Their ids; None where LangGraph's loop is not known, or knows no such task.
        """
        pregel = None if self.pregel is None else self.pregel()
        tasks: Mapping[str, Any] = getattr(pregel, "tasks", {})
        caller = tasks.get(task_id)
        return None if caller is None else {each.id for each in list(tasks.values()) if each.path[1] == caller.path}

    def is_behind(self, step: str) -> bool:
        """Return whether a checkpoint was put that follows a step.

        Nothing of that step can become part of that checkpoint any more.
        """
        return self.last_put is not None and step != self.last_put and (step == self.base or step < self.last_put)

    def open_steps(self, before: str | None = None) -> list[str]:
        """Return the steps that no put has sealed, in order, or only those before another step."""

        def order(step: str) -> tuple[bool, str]:
            return step != self.base, step  # the ids of a loop's own steps ascend; its base may come from elsewhere

        first = order(self.head) if self.head is not None else (False, "")
        last = (True, "\U0010ffff") if before is None else order(before)
        return sorted((step for step in self.steps if first <= order(step) < last), key=order)


LevelOwner: TypeAlias = tuple[str, GraphLoop | None]
"""The task that entered a level within the outermost one, and the loop that it entered; None where it is a call."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class GraphRun:
    """One run of a graph, in one thread.

    Attributes:
        identity: The identity in its configs.
        at: Its thread.
        token: The owner of its executions' groups: a number that no other run has, in any process.
        graphs: The ids of LangChain's runs of its graph and of subgraphs.
        loops: Its loops by name.
        tasks: Its tasks by id.
        under: The ids of the tasks of each step: of a loop, and a checkpoint.
        called: The ids of the functions that each task called.
        ran: The tasks that are known to have run in it.
        over: Executions that others have replaced.
        failed: The tasks whose attempts failed, or those of their callers, until they are tried again: none can write.
        attempts: The newest attempts of tasks that have not ended.
        dropped: The functions that failed attempts had called: their writes are no part of the run.
        recalled: The functions that tasks had called when they ended, including those whose results existed already.
        resumed: Whether LangGraph may take results of earlier runs in it.
        minded: Whether anything was ever remembered in its thread, as far as is known.
        thread: The identity of its thread, if the thread existed when the run began.
        lost: Whether that thread is known to be deleted.
    """

    identity: Any
    at: ThreadKey
    token: int = field(default_factory=lambda: secrets.randbits(62))
    graphs: set[UUID] = field(default_factory=set)
    loops: dict[str, GraphLoop] = field(default_factory=dict)
    tasks: dict[str, GraphTask] = field(default_factory=dict)
    under: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    called: dict[str, list[str]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    over: set[tuple[str, ExecutionKey]] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    attempts: dict[str, UUID] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    recalled: dict[str, set[str]] = field(default_factory=dict)
    resumed: bool = False
    minded: bool = False
    thread: tuple[int, int] | None = None
    lost: bool = False

    def has_lost(self, thread: Thread | None) -> bool:
        """Return whether its thread was deleted since.

        Args:
            thread: The thread that has its id now.
        """
        self.lost |= self.thread is not None and (thread is None or thread.identity != self.thread)
        return self.lost

    def task(self, task_id: str, ns: str, checkpoint: str, caller: str | None) -> GraphTask:
        """Return a task; register it if it is new."""
        task = self.tasks.get(task_id)
        if task is None:
            task = self.tasks[task_id] = GraphTask(task_id, ns, checkpoint, caller)
            if caller is None:
                self.under.setdefault((ns, checkpoint), []).append(task_id)
            elif task_id not in self.dropped:
                self.called.setdefault(caller, []).append(task_id)
        return task

    def end(self, task: GraphTask) -> None:
        """End an execution of a task: its writes and its calls no longer count.

        LangGraph never goes on with what a former attempt of the same run called: it counts on. But a later run may
        take the results of these functions, so they keep what they have written.
        """
        if task.execution is not None:
            self.over.add((task.id, task.execution.key))
            task.execution.over = True
        task.execution, task.loops = None, []
        self.dropped.update(self.called.pop(task.id, ()))
        self.dropped.update(self.called_by(task.id) or ())

    def called_by(self, task_id: str) -> set[str] | None:
        """Return the functions that a task has called, as its loop knows; None if unknown."""
        return next((each for loop in self.loops.values() if (each := loop.called_by(task_id)) is not None), None)

    def outermost(self, task: GraphTask) -> GraphTask:
        """Return the task that called a function, directly or through other functions.

        A task that nobody called is returned itself.
        """
        while task.caller is not None and task.caller in self.tasks:
            task = self.tasks[task.caller]
        return task

    def took(self, caller: str, task_id: str) -> bool:
        """Return whether a task has called a function in its present attempt.

        If so, LangGraph took an earlier result. Also True if the calls are unknown.

        Args:
            caller: The task.
            task_id: The function, which did not run in this run.
        """
        if task_id in self.dropped:
            return False
        called = self.recalled.get(caller)
        called = self.called_by(caller) if called is None else called
        return called is None or task_id in called


@dataclass(frozen=True, slots=True, eq=False)
class RunIdentity:
    """The identity of one run of a thread's own graph.

    Attributes:
        pregel: LangGraph's loop of that graph.
    """

    pregel: weakref.ref[Any]


def identify(pregel: Any, ns: str) -> None:
    """Add an identity to the configs of a loop that begins.

    Subgraphs' loops, and loops that have an identity, are left as they are.

    Args:
        pregel: LangGraph's own loop, if one is calling.
        ns: The loop's name within the thread.
    """
    if pregel is None or ns:
        return
    configs = [each["configurable"] for each in (pregel.config, pregel.checkpoint_config)]
    known = configs[0].get(_IDENTITY)  # a graph that a node calls in another thread inherits that of the caller
    if known is None or known.pregel() is not pregel:
        known = RunIdentity(weakref.ref(pregel))
        for each in configs:
            each[_IDENTITY] = known


def identity_of(configurable: Mapping[str, Any]) -> Any:
    """Return the identity of the run that a config belongs to; None where it belongs to none."""
    control = getattr(configurable.get("__pregel_runtime"), "control", None)
    return None if control is None else configurable.get(_IDENTITY, control)


class LiveWrites:
    """The writes of tasks that count: groups, and places up to which subgraph lines count."""

    __slots__ = ("groups", "spots")

    def __init__(self, groups: Mapping[int, int] | None = None, spots: Iterable[Spot] = ()) -> None:
        self.groups: Groups = dict(groups or {})
        self.spots: dict[Spot, None] = dict.fromkeys(spots)

    def add(self, other: LiveWrites) -> None:
        """Add the groups and places of another object."""
        self.groups.update(other.groups)
        self.spots.update(other.spots)


def runs_of(database: Database) -> RunRegistry:
    """Return the graph runs of this process that use a database.

    The memory of these runs follows their threads.
    """

    def make() -> RunRegistry:
        runs = RunRegistry(database.scopes)
        database.remembering.add(runs)
        database.homes.append(runs.home)
        return runs

    return database.attached(RunRegistry, make)


class RunRegistry:
    """The runs of this process that use one database.

    Args:
        scopes: Resolves calls to the namespace whose threads share their memory.
    """

    lock = PerProcess(threading.RLock)

    def __init__(self, scopes: Scopes = Scopes()) -> None:  # noqa: B008 - a value
        self.scopes = scopes
        self._runs: dict[tuple[int, ThreadKey], GraphRun] = {}
        self._newest: weakref.WeakValueDictionary[str, GraphRun] = weakref.WeakValueDictionary()
        self._graphs: weakref.WeakValueDictionary[UUID, GraphRun] = weakref.WeakValueDictionary()

    # -- which run ---------------------------------------------------------------------------------------------

    def of(self, configurable: Mapping[str, Any], at: ThreadKey) -> GraphRun | None:
        """Return the run of a config, created if it is new; None without an identity."""
        identity = identity_of(configurable)
        if identity is None:
            return None
        with self.lock:
            run = self._runs.get((id(identity), at))
            if run is None:
                if len(self._runs) >= MOST_RUNS:
                    self._drop_those_that_are_over()
                run = self._runs[id(identity), at] = GraphRun(identity, at)
            return run

    def home(self, configurable: Mapping[str, Any]) -> namespaces.Namespace:
        """Return the namespace of a run whose config names a thread alone.

        It is the namespace of the thread that the run's saver loaded.

        Args:
            configurable: The configurable of the config.
        """
        identity = identity_of(configurable)
        if identity is None or configurable.get("thread_id") is None:
            return ()
        name = str(configurable["thread_id"])  # another graph's may be one that is none here
        with self.lock:
            run = self._runs.get((id(identity), ThreadKey("", name)))
            if run is None:  # its saver looks within a namespace
                found = [each for (of, at), each in self._runs.items() if of == id(identity) and at.name == name]
                run = found[0] if len(found) == 1 else None
            return () if run is None else namespaces.namespace_of(run.at.path)

    def knows(self, configurable: Mapping[str, Any], at: ThreadKey) -> bool:
        """Return whether a config's run uses a saver of this database in this thread."""
        with self.lock:
            run = self._runs.get((id(identity_of(configurable)), at))
            return run is not None and "" in run.loops

    def began_with(self, configurable: Mapping[str, Any], at: ThreadKey) -> str | None:
        """Return the checkpoint a thread's graph began with while its input may not be stored.

        Args:
            configurable: The configurable of a task's config.
            at: The thread.

        Returns:
            Its id; None where the input is stored, the run goes on from that checkpoint, or has none before it.
        """
        run = self.of(configurable, at)
        with self.lock:
            loop = None if run is None else run.loops.get("")
            if loop is None or loop.base == _levels(configurable)[0].checkpoint:
                return None
            # The first checkpoint holds the input as such, and the second one the messages that came of it.
            return None if len(loop.spots.keys() - {loop.base}) > 1 else loop.base

    def saves(self, configurable: Mapping[str, Any], ns: str) -> bool:
        """Return whether a nested graph saves checkpoints.

        A graph with a saver that is not of this memory is assumed to.

        Args:
            configurable: The configurable of a task's config.
            ns: The graph's namespace, which is around the task.
        """
        with self.lock:
            loops = [run.loops.get(ns) for run in self._runs_around(configurable) if "" in run.loops]
        if not loops:
            return configurable.get("__pregel_checkpointer") is not None
        return any(loop is not None and loop.pregel is not None for loop in loops)

    def _drop_those_that_are_over(self) -> None:
        """Forget runs whose identity has no other reference."""
        shared: dict[int, int] = {}
        for run in {id(run): run for run in self._runs.values()}.values():
            shared[id(run.identity)] = shared.get(id(run.identity), 0) + 1
        held = {key for key, run in self._runs.items() if sys.getrefcount(run.identity) > 1 + shared[key[0]]}
        self._runs = {key: run for key, run in self._runs.items() if key in held}

    def has_lost(self, configurable: Mapping[str, Any]) -> bool:
        """Return whether the thread of a task's config is known to be deleted since its run began."""
        with self.lock:
            return any(run.lost for run in self._runs_around(configurable))

    def _runs_around(self, configurable: Mapping[str, Any]) -> list[GraphRun]:
        """Return the runs that a task's config belongs to, in any namespace."""
        identity, name = identity_of(configurable), str(configurable["thread_id"])
        return [run for run in self._runs.values() if run.identity is identity and run.at.name == name]

    def forget(self, deleted: Collection[ThreadKey] = ()) -> None:
        """Forget where checkpoints stand, since something was erased.

        Args:
            deleted: The threads that are gone.
        """
        with self.lock:
            for run in self._runs.values():
                run.lost |= run.thread is not None and run.at in deleted
                for loop in run.loops.values():
                    loop.spots.clear()
                    loop.earlier = None

    # -- reports of the saver ----------------------------------------------------------------------------------

    def loaded(
        self,
        configurable: Mapping[str, Any],
        at: ThreadKey,
        home: ThreadKey,
        fresh: GraphLoop,
        pregel: Any,
        thread: Thread | None,
    ) -> tuple[GraphRun, GraphLoop, GraphTask] | None:
        """Note that a loop has begun with a checkpoint, or with none.

        Args:
            configurable: The configurable of the config.
            at: The thread as the config names it.
            home: The thread that was found.
            fresh: The loop, as it begins.
            pregel: LangGraph's own loop, if one is calling. Without it nothing begins below a thread's own.
            thread: The row of the thread, which the run of a thread's own graph goes with from now on.

        Returns:
            Of a subgraph: its run, its loop, and the task around it.
        """
        ns = fresh.ns
        run = self.of(configurable, at)
        if run is None:
            return None
        with self.lock:
            if home != run.at and "" not in run.loops:  # the config names the thread alone; what is put says more
                run.at = home
                self._runs[id(run.identity), home] = run
            loop = run.loops.get(ns)
            run.resumed = run.resumed or bool(fresh.results)
            if loop is not None and ns and (pregel is None or loop.pregel is None or loop.pregel() is not pregel):
                loop = None  # a subgraph that keeps its state has begun once more
            self._follow(run, loop or fresh, pregel, thread)
            if ns == "":
                self._newest[at.name] = run
                run.loops.setdefault(ns, fresh)
            if loop is not None and loop.addressed and not loop.steps and not loop.last_put and not fresh.addressed:
                loop.superseded = fresh.base != loop.base
            if loop is not None or ns == "":
                return None
            owner, execution = configurable.get("__pregel_task_id"), _key_of(configurable)
            if owner is None or execution is None or pregel is None:  # somebody looks at it, and no loop begins with it
                return None
            above = {level.ns: level.checkpoint for level in _levels(configurable) if level.ns != ns}
            around, *outer = [*reversed(above)] or [""]
            called = bool(outer) and above[around] == above[outer[0]]
            for key, step in above.items():
                if (other := run.loops.get(key)) is not None:
                    other.steps.add(step)
            caller = _task_of(around) if called else None
            task = self._touch(run, around, above.get(around, ""), owner, caller, execution)
            fresh.owner, fresh.parents, run.loops[ns] = owner, above, fresh
            task.loops.append(fresh)
            return run, fresh, run.outermost(task)

    def around(self, run: GraphRun, loop: GraphLoop, task: GraphTask) -> LiveWrites:
        """Return the writes that count of the task around a loop, without those of the loop."""
        with self.lock:
            return self._alive(run, task, but=(loop,))

    def _follow(self, run: GraphRun, loop: GraphLoop, pregel: Any, thread: Thread | None) -> None:
        """Note LangGraph's own loop, LangChain's run of it, and the thread that the run goes with."""
        if pregel is not None:
            if run.thread is None and thread is not None and loop.ns == "":
                run.thread = thread.identity
            loop.pregel = weakref.ref(pregel)
            if (graph := getattr(pregel.manager, "run_id", None)) is not None:
                run.graphs.add(graph)
                self._graphs[graph] = run

    # -- reports of callbacks -----------------------------------------------------------------------------------

    def watched(self, graphs: Iterable[UUID], thread: str) -> GraphRun | None:
        """Return the run in which an attempt of a task was made.

        Args:
            graphs: The runs of LangChain around it, the nearest first.
            thread: The id of its thread, whose newest run it is where the saver was called away from LangGraph's loop.
        """
        with self.lock:
            for graph in graphs:
                if (run := self._graphs.get(graph)) is not None:
                    return run
            newest = self._newest.get(thread)
            return None if newest is None or newest.graphs else newest

    def is_graph(self, run_id: UUID | None) -> bool:
        """Return whether a run of LangChain is that of a graph whose runs are known."""
        return run_id in self._graphs

    def started(self, run: GraphRun, ns: str, step: int | None, attempt: UUID) -> None:
        """Note that an attempt of a task has begun.

        An earlier attempt that ran out of time may report only later that it failed; it counts as failed now.
        """
        task_id = _task_of(ns)
        with self.lock:
            if (before := run.attempts.get(task_id)) is not None:
                self.failed(run, ns, before, stopped=False)
            around, _, name = ns.rpartition("|")
            if name.startswith(_HANDLER):  # in the place of one that ran out of time, maybe, and goes on
                if (late := run.attempts.get(given_up := _task_of(around))) is not None:
                    self.failed(run, around, late, stopped=False)
                run.failed.add(given_up)
                if given_up in run.tasks:
                    run.tasks[given_up].failed = True
            run.attempts[task_id] = attempt
            if (task := run.tasks.get(task_id)) is not None:  # what it calls from now on counts again
                task.failed = False
            loop = run.loops.get(around)
            run.ran.add(task_id)
            run.failed.discard(task_id)
            run.recalled.pop(task_id, None)
            if loop and loop.base and loop.last_put is None and loop.step is not None and step == loop.step + 1:
                loop.steps.add(loop.base)  # it goes on where the base stopped

    def ended(self, run: GraphRun, ns: str, attempt: UUID) -> None:
        """Note that an attempt of a task has ended well and takes no more results."""
        task_id = _task_of(ns)
        with self.lock:
            newest = run.attempts.get(task_id) == attempt
            if newest:
                del run.attempts[task_id]
            if newest and run.resumed and (called := run.called_by(task_id)) is not None:
                run.recalled[task_id] = called

    def failed(self, run: GraphRun, ns: str, attempt: UUID, *, stopped: bool) -> None:
        """Note that an attempt of a task ended with an error: its writes join no line.

        Args:
            run: Its run.
            ns: Its name.
            attempt: LangChain's run of it. Where a newer one has begun, it has failed already.
            stopped: Whether that was an interrupt, after which LangGraph lets the functions finish that it has called.
        """
        task_id = _task_of(ns)
        with self.lock:
            if run.attempts.get(task_id) != attempt:
                return
            del run.attempts[task_id]
            task = run.tasks.get(task_id)
            called = {*run.called.get(task_id, ()), *(run.called_by(task_id) or ())}
            run.failed.add(task_id)
            if not stopped:
                run.failed.update(called)
            run.dropped.update(called)
            if task is not None:
                run.end(task)
                task.failed = True

    # -- calls from tasks -----------------------------------------------------------------------------------------

    def asking(
        self, configurable: Mapping[str, Any], at: ThreadKey
    ) -> tuple[GraphRun, list[LoopLevel], list[LevelOwner], TaskExecution]:
        """Return a config's run, the levels around its task, their owners and the execution.

        Raises:
            InvalidInput: The graph has another checkpointer.
            StepIsOver: Another execution of the task has taken its place.
        """
        run = self.of(configurable, at)
        execution = _key_of(configurable)
        with self.lock:
            if run is None or execution is None or "" not in run.loops:
                raise InvalidInput(
                    "The memory of a thread needs this memory's checkpointer: compile the graph with "
                    "checkpointer=memory.checkpointer, of the very same AgentMemory."
                )
            levels = _levels(configurable)
            owners: list[LevelOwner] = []
            caller = None
            run.loops[""].steps.add(levels[0].checkpoint)
            for outer, level in pairwise(levels):
                loop = None
                if level.checkpoint == outer.checkpoint:
                    owner = _task_of(level.ns)
                    run.task(owner, *outer, caller)
                    caller = owner
                else:
                    owner, caller = self._entered(run, level.ns, *outer), None
                    loop = run.loops[level.ns]
                    if loop.pregel is not None and loop not in run.tasks[owner].loops:
                        raise StepIsOver  # a former attempt has entered it
                    loop.steps.add(level.checkpoint)
                owners.append((owner, loop))
            task = self._touch(run, *levels[-1], configurable["__pregel_task_id"], caller, execution)
            run.minded = True
            assert task.execution is not None  # noqa: S101 - `_touch` has just set it
            return run, levels, owners, task.execution

    def sight(
        self, run: GraphRun, levels: Sequence[LoopLevel], owners: Sequence[LevelOwner], execution: TaskExecution
    ) -> LiveWrites:
        """Return the groups and places that a task can see; the bases of its loops must be known.

        Raises:
            StepIsOver: Another execution of the task has taken its place.
        """
        with self.lock:
            if execution.over:
                raise StepIsOver
            seen = self._shown(run, run.loops[""], levels[0].checkpoint)
            around = [loop for _, loop in owners]
            for level, (owner, loop) in zip(levels[1:], owners, strict=True):
                seen.add(self._alive(run, run.tasks[owner], but=around))
                if loop is not None:
                    seen.add(self._shown(run, loop, level.checkpoint))
            seen.add(self._alive(run, execution.task))
            return seen

    # -- current writes -------------------------------------------------------------------------------------------

    def base_of(self, run: GraphRun, ns: str, checkpoint: str) -> tuple[Spot | None, LiveWrites] | None:
        """Return a loop's place at a step, and the further writes that count there.

        None if the run has no such loop.
        """
        with self.lock:
            loop = run.loops.get(ns)
            if loop is None:
                return None
            standing = _standing(loop, checkpoint if checkpoint in loop.spots else loop.head)
            beside = self._shown(run, loop, checkpoint)
            for spot in standing.spots:
                del beside.spots[spot]
            return next(iter(standing.spots), None), beside

    def open(self, run: GraphRun, loop: GraphLoop, before: str) -> list[tuple[str, LiveWrites]]:
        """Return the steps that a put seals, with the writes of their tasks that count."""
        with self.lock:
            return [(step, self._step(run, loop, step)) for step in loop.open_steps(before)]

    def group_of(self, run: GraphRun, execution: TaskExecution) -> int:
        """Return the group that an execution writes to.

        It is a random number that nothing else has, so that it needs no transaction.

        Raises:
            StepIsOver: Another execution has replaced it, or a checkpoint that follows its step was put.
        """
        with self.lock:
            loop = run.loops.get(run.outermost(execution.task).ns)
            if execution.over or (loop is not None and loop.is_behind(execution.task.checkpoint)):
                raise StepIsOver
            if execution.group is None:
                execution.group = secrets.randbits(62)
            return execution.group

    def finished(self, run: GraphRun, ns: str, task_id: str) -> tuple[GraphTask | None, LiveWrites]:
        """Return a task and its writes that count."""
        with self.lock:
            task, loop = run.tasks.get(task_id), run.loops.get(ns)
            if task is None:
                return None, LiveWrites()
            return task, self._alive(run, task, superseded=loop.superseded if loop else False)

    def unknown(self, run: GraphRun) -> list[tuple[GraphLoop, str]]:
        """Return the loops of a run, with their checkpoints of which too little is known."""
        with self.lock:
            return [
                (loop, checkpoint)
                for loop in run.loops.values()
                for checkpoint in dict.fromkeys((loop.base, loop.last_put))
                if checkpoint is not None
                and (checkpoint not in loop.spots or (checkpoint == loop.base and loop.earlier is None))
            ]

    def _alive(
        self, run: GraphRun, task: GraphTask, *, superseded: bool = False, but: Sequence[GraphLoop | None] = ()
    ) -> LiveWrites:
        """Return the writes that count of a task and of its calls, without some loops."""
        found = LiveWrites(task.groups)
        for loop in task.loops:
            if loop not in but:
                found.add(self._shown(run, loop))
        for other in run.called.get(task.id, ()):
            found.add(self._alive(run, run.tasks[other], superseded=superseded, but=but))
        if not superseded:
            for each in chain.from_iterable(loop.earlier or () for loop in run.loops.values()):
                idle = each.task not in run.tasks and each.task not in run.ran
                if each.caller == task.id and idle and run.took(task.id, each.task):
                    found.add(LiveWrites(dict.fromkeys(each.groups, FOREVER)))
        return found

    def _step(self, run: GraphRun, loop: GraphLoop, step: str) -> LiveWrites:
        found = LiveWrites()
        for task_id in run.under.get((loop.ns, step), ()):
            found.add(self._alive(run, run.tasks[task_id], superseded=loop.superseded))
        if step == loop.base and not loop.superseded:
            for each in loop.earlier or ():
                known = run.tasks.get(each.task)
                idle = known is None or (known.execution is None and not known.failed and not known.loops)
                # What was called counts too where its caller ran again, and has not asked for memory.
                first = each.caller is None or (
                    each.caller in run.ran and each.caller not in run.tasks and run.took(each.caller, each.task)
                )
                if first and each.task not in run.ran and idle:
                    found.add(LiveWrites(dict.fromkeys(each.groups, FOREVER)))
        return found

    def _shown(self, run: GraphRun, loop: GraphLoop, checkpoint: str | None = None) -> LiveWrites:
        """Return what a loop shows at a step, whether or not its checkpoint was put.

        Without a checkpoint, return what the loop shows now.
        """
        if checkpoint in loop.spots:
            return _standing(loop, checkpoint)
        found = _standing(loop, loop.head)
        for step in loop.open_steps(checkpoint):
            found.add(self._step(run, loop, step))
        return found

    # -- tasks -------------------------------------------------------------------------------------------------

    def _entered(self, run: GraphRun, ns: str, outer: str, above: str) -> str:
        """Return the task that entered a loop; register a loop that is not known.

        The beginning of a loop without a checkpointer is not reported.
        """
        loop = run.loops.get(ns)
        if loop is not None and loop.owner is not None:
            return loop.owner
        owner = ns[len(outer) :].strip("|").split("|")[0].rpartition(":")[2]
        loop = run.loops[ns] = GraphLoop(ns, owner=owner)
        run.task(owner, outer, above, None).loops.append(loop)
        return owner

    def _touch(
        self, run: GraphRun, ns: str, checkpoint: str, task_id: str, caller: str | None, key: ExecutionKey
    ) -> GraphTask:
        """Return a task with the execution that is asking as its newest one."""
        task = run.task(task_id, ns, checkpoint, caller)
        if task_id in run.failed:
            raise StepIsOver
        if task.execution is None or task.execution.key != key:
            if (task_id, key) in run.over or (task.execution is not None and _is_before(key, task.execution.key)):
                raise StepIsOver
            if task.execution is not None:
                run.end(task)
            task.execution, task.failed = TaskExecution(task, key, run.token), False
        return task


def _standing(loop: GraphLoop, checkpoint: str | None) -> LiveWrites:
    if loop.kept is not None and checkpoint == loop.base:
        return LiveWrites(loop.kept)
    spot = None if checkpoint is None else loop.spots.get(checkpoint)
    return LiveWrites(spots=() if spot is None else (spot,))


def _levels(configurable: Mapping[str, Any]) -> list[LoopLevel]:
    """Return the loops and calls around a task, outermost first, as LangGraph notes them."""
    return levels_around(str(configurable.get("checkpoint_ns") or ""), configurable.get("checkpoint_map") or {})


def nested_graphs(configurable: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of the nested graphs around a task, the outermost first.

    The list is empty in a thread's own graph.

    Args:
        configurable: The configurable of the task's config. A function runs in the graph of the task that called it.
    """
    return [inner.ns for outer, inner in pairwise(_levels(configurable)) if inner.checkpoint != outer.checkpoint]


def levels_around(inner: str, noted: Mapping[str, str]) -> list[LoopLevel]:
    """Return the loops and calls around a loop or task, the outermost first.

    The loop or task itself is included if it is noted.

    Args:
        inner: Its name.
        noted: Names with their checkpoints. Where a subgraph is replayed, LangGraph notes first what it was before.
    """
    levels = {
        len(ns.split("|")) if ns else 0: LoopLevel(ns, checkpoint)
        for ns, checkpoint in noted.items()
        if _is_around(ns, inner)
    }
    return [levels[depth] for depth in sorted(levels)]


def _is_around(ns: str, inner: str) -> bool:
    """Return whether a loop or task is another one, or is around it.

    Args:
        ns: Its name. Subgraphs that keep their state are named without the ids of their tasks.
        inner: The other's name.
    """
    names, others = ns.split("|"), inner.split("|")
    return ns == "" or (len(names) <= len(others) and all(map(_is_same_task, names, others)))


def _is_same_task(name: str, other: str) -> bool:
    (node, _, task), (other_node, _, other_task) = name.partition(":"), other.partition(":")
    return node == other_node and (task == other_task or not (task and other_task))


def _task_of(ns: str) -> str:
    """Return the id of the task at the end of a name."""
    return ns.rpartition("|")[2].rpartition(":")[2]


def _key_of(configurable: Mapping[str, Any]) -> ExecutionKey | None:
    """Return the key that tells a task's execution from the others of its run."""
    told = getattr(configurable.get("__pregel_runtime"), "execution_info", None)
    return None if told is None else (told.node_first_attempt_time, told.node_attempt)


def _is_before(key: ExecutionKey, other: ExecutionKey) -> bool:
    """Return whether an execution is an earlier attempt than another one of the same run."""
    return key[0] == other[0] and None not in (*key, *other) and key[1] < other[1]


def thread_of(config: Mapping[str, Any] | None, scopes: Scopes) -> ThreadKey:
    """Return the thread that a config names.

    Args:
        config: The config.
        scopes: Resolves the config to its namespace.

    Raises:
        InvalidInput: The config names no thread.
    """
    name = namespaces.configurable_of(config).get("thread_id")
    if name is None:
        raise InvalidInput('A thread needs config["configurable"]["thread_id"].')
    return ThreadKey(namespaces.path_of(scopes.resolve(None, config)), namespaces.id_of(name, "thread"))
