"""The oracle of rewinding: it runs a script on a database and compares memory with LangGraph's state.

What LangGraph hides from everybody is left out of the scripts: cache hits run no node, and `update_state(None, END)`
over `Send` tasks cannot be recognised. One thing is allowed for: a called graph keeps the state its caller passed in,
though the caller failed or was interrupted, ran again, and what it had remembered was replaced (`excused`). Where such
a graph then gives its state to another caller, memory may show there what has replaced it (`replaced`).

Nothing more is left out where two run a thread at once, in threads or in processes, or where a zombie goes on: each
run puts checkpoints of its own, and of what both finished, whoever goes on is given what was handed in first, by
LangGraph as by memory. Where two go on with the same step, a graph called in one may go on from what the other has
stored of it: it keeps the state of the other's caller, and memory is that of its own (`crowded`). Where it gives that
state to its caller, what the other caller had passed in is left out (`passed`). What a zombie sees does not matter;
which of two processes was first to remember, nobody knows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from langgraph.errors import EmptyInputError, InvalidUpdateError
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot, StateUpdate

from .adapters import Real
from .graphs import RUNNING, Broken, Flaky, Now, functions, graph_builder, merged
from .worlds import printed

NEVER = 1 << 60
PATIENCE = 60.0
"""Seconds that unattended nodes may take."""
MOST_EACH = 6
"""Maximum number of reported differences of one run."""


class World:
    """Knowledge of one run: its memory, its threads, and which task remembered what and when."""

    def __init__(self, adapter: Real, label: str = "") -> None:
        self.adapter, self.label = adapter, label
        self.durability, self.delay, self.awaited = "async", 0.0, False
        self.failed: set[int] = set()
        self.differences: list[str] = []
        self.checks, self.excused, self.outcomes = 0, 0, Counter[str]()
        self.failed_calls = False
        self.crowded = False
        """True if two runs have used a thread at the same time."""
        self.stubborn = False
        """True if nodes cannot be cancelled."""
        self.strangers = False
        """True if another process uses a thread at the same time, with memory that is unknown here."""
        self.running = threading.Condition()
        self.runs = 0
        """Executions that go on."""
        self.stopped: set[str] = set()
        """Threads that were stopped in the middle, and have not run since."""
        self.over: set[object] = set()
        """Executions that ended with an exception."""
        self.dead: set[str] = set()
        """Ids that went with these: graphs that they called may keep them in their state, and memory does not."""
        self.replaced: set[str] = set()
        """Ids without versions that a graph has of a caller that ran again since, and gave to another caller."""
        self.passed: set[tuple[str, int, str]] = set()
        """Ids that each execution of a task, by its id, had at its calls of a graph, by operation number."""
        self.shared, self.control = RunControl(), None
        """A control that several runs share, and what the present action gives to its runs."""
        self.where = "at the beginning"
        self.threads = [f"{label}{each}" for each in ("graph 1", "graph 2", "function")]
        self.names, self.moments, self.lock = 0, 0, threading.Lock()
        self.times: dict[str, list[int]] = {}
        self.spaces: dict[str, str] = {}
        """By id: the `checkpoint_ns` of the task that remembered it."""
        self.runner = asyncio.Runner()
        self.open()

    def open(self) -> None:
        """Build the graphs on the saver, which is slowed down."""
        saver = self.adapter.saver
        slow(saver, self)
        self.built = [graph_builder(stubborn=each).compile(checkpointer=saver) for each in (False, True)]
        self.functions = functions(saver)

    def graph(self, thread: str) -> Any:
        if is_function(thread):
            return self.functions[self.awaited and not self.stubborn]
        return self.built[self.stubborn]

    def apart(self, thread: str) -> str:
        name = f"{thread} apart"
        with self.lock:
            if name not in self.threads:
                self.threads.append(name)
        return name

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """An execution goes on."""
        with self.running:
            self.runs += 1
        try:
            yield
        finally:
            with self.running:
                self.runs -= 1
                self.running.notify_all()

    # -- what nodes tell ---------------------------------------------------------------------------------------

    def name(self, caller: str, config: Any) -> str:
        """A new id of a memory. One that its caller may replace says of what it is a version."""
        with self.lock:
            self.names += 1
            found = f"{caller}#n{self.names}" if caller else f"n{self.names}"
            self.spaces[found] = config["configurable"]["checkpoint_ns"]
            return found

    def goes_with(self, name: str, task: str) -> bool:
        """Return whether an id is lost with a failed task, given by its `checkpoint_ns`: no graph in it keeps state."""
        before, _, below = f"{self.spaces.get(name, '')}|".partition(f"{task}|")  # another process may have named it
        return not before and all(":" in part or part.isdigit() for part in below.split("|")[:-1])

    def living(self, names: Sequence[str], caller: str = "") -> list[str]:
        """Return the ids from a called graph that count: none of a caller that has run again since."""
        gone = [each for each in names if each in self.dead]
        others = [each for each in gone if "#" in each and each.partition(".")[0] != caller]
        self.replaced.update(each.partition("#")[0] for each in others)
        return [each for each in names if each not in gone]

    def new_of(self, names: Sequence[str], known: Sequence[str], caller: str, number: int) -> list[str]:
        """Return the ids from a called graph that no execution of the caller had passed in."""
        new = self.living([each for each in names if each not in known], caller)
        return [each for each in new if (caller, number, each) not in self.passed]

    def moment(self) -> int:
        """Return the next moment."""
        with self.lock:
            self.moments += 1
            return self.moments

    def begins(self, name: str) -> None:
        self.times[name] = [self.moment(), NEVER]

    def ended(self, name: str) -> None:
        self.times[name][1] = self.moment()

    def noted(self, config: Any, checkpoint: Any, begun: int) -> None:
        """A checkpoint was put, since a moment."""

    def looks(self, config: Any, known: list[str]) -> list[str]:
        """A task is about to look into its memory; gives what state says."""
        return known

    def looked(self, config: Any, moment: str, expected: list[str], got: list[str]) -> None:
        """A task looked into its memory.

        What it sees when its caller has failed meanwhile does not matter. And what a run left finished that was stopped
        before its next checkpoint, LangGraph takes in without a task: a memory cannot know of it before the next put.
        What a function that had finished remembered shows in its caller, which runs again, before that calls it again.
        """
        if not self.counts(config):
            return
        thread, space = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        self.compare(f"{thread!r} {space!r} {moment}", space, space.rpartition("|")[0], expected, got)

    def counts(self, config: Any) -> bool:
        """Return whether the memory that a task sees matters."""
        if self.over & set(RUNNING.get()):
            return False
        return config["configurable"]["thread_id"] not in self.stopped

    def compare(self, view: str, space: str, loop: str, expected: Iterable[str], got: list[str]) -> None:
        """Compare what a view shows with state. It may show what other `@task`s of its callers remember, or not.

        Args:
            view: What it is called.
            space: The `checkpoint_ns` of whoever looks.
            loop: That of the graph in which it looks.
            expected: The ids in state.
            got: The ids in memory.
        """
        if self.strangers:
            expected, got = ([each for each in names if each in self.spaces] for names in (expected, got))
        if space:
            expected, got = ([each for each in names if each not in self.dead] for names in (expected, got))
        wanted = sorted(set(expected))
        got = [each for each in got if each in wanted or not (beside(self.spaces[each], space) or self.stands_in(each))]
        with self.lock:
            self.checks += 1
            if sorted(got) != wanted:
                once = len(set(got)) == len(got)
                loops = [loop] if self.failed_calls else []
                if self.crowded and (graph := called_graph(space, loop)):
                    loops.append(graph)
                if once and any(self.own(got, each) == self.own(wanted, each) for each in loops):
                    self.excused += 1
                    return
                missing, more = sorted(set(wanted) - set(got)), sorted((Counter(got) - Counter(wanted)).elements())
                said = f"{self.where}: {view}\n    state  {wanted}\n    memory {got}\n    misses {missing} has {more}"
                self.differences.append(said)
            elif late := self.out_of_order(got):
                self.differences.append(f"{self.where}: {view}\n    {late} is behind what was remembered later: {got}")

    def stands_in(self, name: str) -> bool:
        """Return whether an id may show in place of one that a called graph has."""
        return name.partition("#")[0] in self.replaced

    def own(self, names: Iterable[str], loop: str) -> set[str]:
        """Return ids without the version that a caller may replace, except those of a called graph's callers."""
        root = loop.partition("|")[0]
        kept = [
            name
            for name in names
            if not root
            or not self.spaces[name].startswith(root)
            or (self.spaces[name].startswith(f"{loop}|") and not beside(self.spaces[name], loop))
        ]
        return {name.partition("#")[0] if "#" in name else name for name in kept}

    def out_of_order(self, got: list[str]) -> str | None:
        """An id that had been remembered before another began to be, and comes after it nevertheless."""
        latest = 0
        for name in got:
            begun, ended = self.times[name]
            if ended < latest:
                return name
            latest = max(latest, begun)
        return None

    # -- going on in another process ---------------------------------------------------------------------------

    KNOWN = ("label", "failed", "differences", "checks", "excused", "outcomes", "failed_calls", "threads", "stopped")
    KNOWN += ("names", "moments", "times", "spaces", "dead", "replaced", "passed", "crowded")

    def known(self) -> dict[str, Any]:
        """Return the data that another process needs to continue with this world."""
        return {name: getattr(self, name) for name in self.KNOWN}

    def learn(self, known: dict[str, Any]) -> None:
        """Continue with the data of another process."""
        self.__dict__.update(known)

    def learn_beside(self, known: Sequence[dict[str, Any]]) -> None:
        """Go on with what several processes know that went on from here at once: which was first, nobody knows."""
        for each in known:
            new = {name: [self.moments, NEVER] for name in each["times"].keys() - self.times.keys()}
            self.times |= new
            self.spaces |= each["spaces"]
            self.failed |= each["failed"]
            self.dead |= each["dead"]
            self.replaced |= each["replaced"]
            self.passed |= each["passed"]
            self.threads += [name for name in each["threads"] if name not in self.threads]
            self.failed_calls |= each["failed_calls"]
            self.outcomes += each["outcomes"]
            self.differences += each["differences"]
            self.checks, self.excused = self.checks + each["checks"], self.excused + each["excused"]
        self.crowded = True
        self.names, self.moments = (max(each[name] for each in known) for name in ("names", "moments"))
        self.stopped.intersection_update(*(each["stopped"] for each in known))

    # -- looking at checkpoints --------------------------------------------------------------------------------

    def check(self, threads: Iterable[str], most: int | None = None) -> None:
        """Compare memory with state at checkpoints, of the root and of subgraphs: all, or some of the newest."""
        for thread in threads:
            limit = None if most is None else 3 * most
            found = list(self.adapter.saver.list({"configurable": {"thread_id": thread}}, limit=limit))
            if most is not None and len(found) > most:
                found = random.Random(self.moments).sample(found, most)
            for each in found:
                at = address(each)
                view = f"checkpoint {at} (source {each.metadata.get('source')}, step {each.metadata.get('step')})"
                space = at["checkpoint_ns"]
                self.compare(view, space, space, state_of(each), self.adapter.remembered({"configurable": at}))

    # -- following a script ------------------------------------------------------------------------------------

    def follow(self, script: dict[str, Any]) -> None:
        for number, action in enumerate(script["actions"]):
            self.perform(number, copy.deepcopy(action))
            if len(self.differences) >= MOST_EACH:
                return
        self.where = "at the end"
        self.check(self.threads)

    def perform(self, number: int, action: dict[str, Any]) -> None:
        """Do one action of a script, and look at some checkpoints."""
        self.check(self.do(number, action), 3)

    def do(self, number: int, action: dict[str, Any]) -> list[str]:
        """Do one action of a script, and give the threads that it may have changed."""
        self.where = f"action {number} ({action['do']})"
        Now.world, self.awaited = self, action["awaited"]
        self.durability, self.delay = action.get("durability", "async"), action.get("delay", 0.0)
        self.control = self.shared if action.get("shared") else None
        threads = self.act(action)
        if action["do"] == "stop":
            self.stopped.update(threads)
        self.delay = 0.0
        return threads

    def thread_of(self, action: dict[str, Any]) -> str | None:
        """The thread of an action: one in which there is something, unless it begins one."""
        thread: str = self.label + action["thread"]
        if copies := [each for each in self.threads if action.get("in copy") and each.startswith(f"{thread} copy")]:
            thread = copies[-1]
        if action["do"] in ("invoke", "together") or self.here(thread, 1):
            return thread
        thread = f"{self.label}graph 1"
        return thread if self.here(thread, 1) else None

    def act(self, action: dict[str, Any]) -> list[str]:
        thread = self.thread_of(action)
        if thread is None or (action["do"] in ("update", "bulk") and is_function(thread)):
            self.outcomes["nothing there"] += 1
            return []
        try:
            self.outcomes[getattr(self, action["do"])(thread, action) or action["do"]] += 1
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - what a script does not cause is a finding
            self.failed_with(raised)
        return [thread]

    def failed_with(self, raised: BaseException) -> None:
        """A call ended with an exception: one that a script may cause, or a difference."""
        if isinstance(raised, Broken | Flaky | EmptyInputError | InvalidUpdateError | asyncio.CancelledError):
            self.outcomes[type(raised).__name__] += 1
        elif "multiple pending interrupts" not in str(raised):
            self.differences.append(f"{self.where} raised {type(raised).__name__}: {raised}")

    def call(self, target: Any, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method, or await its twin, whichever the action asks for."""
        if self.awaited:
            return self.runner.run(getattr(target, f"a{name}")(*arguments, **options))
        return getattr(target, name)(*arguments, **options)

    def here(self, thread: str, most: int | None = None) -> list[Any]:
        return list(self.adapter.saver.list({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, limit=most))

    def at(self, thread: str, action: dict[str, Any]) -> Any:
        """The config of a thread, or of an older checkpoint of it."""
        configurable: dict[str, Any] = {"thread_id": thread}
        if (back := action.get("back")) is not None and (found := self.here(thread)):
            configurable["checkpoint_id"] = found[back % len(found)].config["configurable"]["checkpoint_id"]
            configurable["checkpoint_ns"] = ""
        return {"configurable": configurable}

    def given(self, thread: str, action: dict[str, Any]) -> Any:
        return {"ops": action["ops"]} if is_function(thread) else {"plan": action["plan"], "at": {"fresh": 0}}

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that the present action passes to its runs."""
        return {"durability": self.durability, "control": self.control}

    def run(self, thread: str, given: Any, at: Any) -> None:
        try:
            found = self.call(self.graph(thread), "invoke", given, at, **self.options)
        finally:
            self.stopped.discard(thread)
        if isinstance(found, dict) and "__interrupt__" in found:
            self.outcomes["interrupted"] += 1

    def invoke(self, thread: str, action: dict[str, Any]) -> str | None:
        """Run a thread, go on with it, or answer an interrupt; "again": once more, however much has happened since."""
        given, at = self.wanted(thread, action)
        if given is None and action["do"] == "again":
            return "nothing was asked"
        self.run(thread, given, at)
        return "nothing to answer" if given is None and action["do"] == "resume" else None

    go = resume = again = invoke

    def answers(self, thread: str, action: dict[str, Any]) -> tuple[Command[Any] | None, Any]:
        """Return the answers to all or some interrupts, or None without interrupts."""
        at = self.at(thread, action)
        waiting = self.call(self.graph(thread), "get_state", at).interrupts
        if not waiting:
            return None, at
        answers = {each.id: f"answer {action['number']}" for each in waiting}
        some = dict(list(answers.items())[: action["number"]]) if action["number"] < 3 else answers
        return Command(resume=some), at

    def answers_again(self, thread: str, action: dict[str, Any]) -> tuple[Command[Any] | None, Any]:
        """Return a repeated answer to an interrupt, or None without an earlier interrupt."""
        waiting = [each for each in self.here(thread) if any(w[1] == "__interrupt__" for w in each.pending_writes)]
        if not waiting:
            return None, self.at(thread, {})
        chosen = waiting[action["number"] % len(waiting)].config["configurable"]["checkpoint_id"]
        at = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": chosen}}
        answers = {each.id: "again" for each in self.call(self.graph(thread), "get_state", at).interrupts}
        return Command(resume=answers or "again"), at

    def wanted(self, thread: str, action: dict[str, Any]) -> tuple[Any, Any]:
        """Return the input and the config of a call that is made twice."""
        match action["do"]:
            case "invoke":
                return self.given(thread, copy.deepcopy(action)), self.at(thread, action)
            case "resume":
                return self.answers(thread, action)
            case "again":
                return self.answers_again(thread, action)
        return None, self.at(thread, action)

    def stop(self, thread: str, action: dict[str, Any]) -> None:
        """Leave a run in the middle: close its stream, or cancel it and wait until the rest is stored."""
        graph, at, given = self.graph(thread), self.at(thread, action), self.given(thread, action)
        if self.awaited:

            async def cancelled() -> None:
                others = asyncio.all_tasks()
                task = asyncio.create_task(graph.ainvoke(given, at, **self.options))
                await asyncio.wait([task], timeout=action["number"] * 0.002)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                while rest := asyncio.all_tasks() - others:
                    await asyncio.wait(rest)

            self.runner.run(cancelled())
        else:
            stream = graph.stream(given, at, stream_mode="updates", **self.options)
            for _ in itertools.islice(stream, action["number"] % 4):
                pass
            stream.close()

    def zombie(self, thread: str, action: dict[str, Any]) -> str | None:
        """Cancel a run whose nodes continue anyway, and call it again immediately."""
        self.stubborn, token = True, object()
        given, at = self.wanted(thread, action["runs"][0])
        graph = self.graph(thread)

        async def cancelled() -> None:
            RUNNING.set((token,))
            run = asyncio.create_task(graph.ainvoke(given, at, **self.options))
            await asyncio.wait([run], timeout=action["number"] / 1000)
            if not run.done():
                self.over.add(token)
                run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run

        try:
            try:
                self.runner.run(cancelled())
            except Exception as raised:  # noqa: BLE001 - what a script does not cause is a finding
                self.failed_with(raised)
            self.run(thread, *self.wanted(thread, action["runs"][1]))
        finally:
            self.stubborn, cancelled_in_time = False, token in self.over
            self.over.add(token)  # a run that failed leaves those behind, too, who wait for a `@task` that never ends
            with self.running:
                assert self.running.wait_for(lambda: not self.runs, PATIENCE)
        return "zombie" if cancelled_in_time else "nobody was left"

    def twice(self, thread: str, action: dict[str, Any]) -> None:
        """Make the very same call twice, one after the other."""
        given, at = self.wanted(thread, action["runs"][0])
        for _ in range(2):
            try:
                self.run(thread, copy.deepcopy(given), at)
            except Exception as raised:  # noqa: BLE001 - what a script does not cause is a finding
                self.failed_with(raised)

    def copies(self, thread: str, action: dict[str, Any]) -> None:
        """Copy a thread, and run both at the same time."""
        self.duplicate(thread, action)
        both = (thread, self.threads[-1])
        self.at_once([(each, *self.wanted(each, run)) for each, run in zip(both, action["runs"], strict=True)])

    def crowd(self, thread: str, action: dict[str, Any]) -> None:
        """Run a thread twice at the same time."""
        self.crowded = True
        self.at_once([(thread, *self.wanted(thread, run)) for run in action["runs"]])

    def together(self, thread: str, action: dict[str, Any]) -> None:
        """Run two threads at the same time."""
        other = self.label + ("graph 1" if action["thread"] == "graph 2" else "graph 2")
        self.stopped -= {thread, other}
        self.at_once([(each, self.given(each, copy.deepcopy(action)), self.at(each, {})) for each in (thread, other)])

    def at_once(self, runs: Sequence[tuple[str, Any, Any]]) -> None:
        """Run several at the same time: threads, what they are given, and their configs."""
        if self.awaited:

            async def gathered() -> list[Any]:
                each = [self.graph(name).ainvoke(given, at, **self.options) for name, given, at in runs]
                return await asyncio.gather(*each, return_exceptions=True)

            ends = self.runner.run(gathered())
        else:
            with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
                each = [pool.submit(self.graph(name).invoke, given, at, **self.options) for name, given, at in runs]
            ends = [future.exception() for future in each]
        self.stopped -= {name for name, _, _ in runs}
        for end in ends:
            if isinstance(end, BaseException):
                self.failed_with(end)

    def edit(self, action: dict[str, Any]) -> dict[str, Any]:
        return {"plan": action["plan"], "at": {"fresh": 0}} if action.get("plan") else {}

    def update(self, thread: str, action: dict[str, Any]) -> None:
        at, values = self.at(thread, action), self.edit(action)
        self.call(self.graph(thread), "update_state", at, values, as_node=action["node"])

    def bulk(self, thread: str, action: dict[str, Any]) -> None:
        steps = [[StateUpdate(self.edit(action), "work")], [StateUpdate({}, "left"), StateUpdate({}, "right")]]
        self.call(self.graph(thread), "bulk_update_state", self.at(thread, action), steps)

    def copy(self, thread: str, action: dict[str, Any]) -> None:
        self.call(self.graph(thread), "update_state", self.at(thread, action), None, as_node="__copy__")

    def end(self, thread: str, action: dict[str, Any]) -> str | None:
        at = self.at(thread, action)
        if any(task.name == "sent" for task in self.call(self.graph(thread), "get_state", at).tasks):
            return "end over Send"
        self.call(self.graph(thread), "update_state", at, None, as_node="__end__")
        return None

    def inside(self, thread: str, action: dict[str, Any]) -> str | None:
        """Edit or copy the states of subgraphs that wait, but for an input that none has read: LangGraph drops that."""
        configs = [each for each in self.waiting(thread, action) if self.source(each) != "input"]
        values = None if action["node"] == "__copy__" else self.edit(action)
        for each in configs:
            node = action["node"] if action["node"] == "__copy__" else None
            self.call(self.graph(thread), "update_state", each, values, as_node=node)
        return None if configs else "no subgraph waits"

    def within(self, thread: str, action: dict[str, Any]) -> str | None:
        """Run a thread once more from within a subgraph that waits."""
        configs = self.waiting(thread, action)
        if configs:
            self.run(thread, None, configs[action["number"] % len(configs)])
        return None if configs else "no subgraph waits"

    def source(self, config: Any) -> Any:
        """The source of a checkpoint; that of none is as good as an input."""
        found = self.adapter.saver.get_tuple(config)
        return found.metadata["source"] if found else "input"

    def waiting(self, thread: str, action: dict[str, Any]) -> list[Any]:
        """The configs of the subgraphs that wait, the outermost first."""
        found, configs = [self.call(self.graph(thread), "get_state", self.at(thread, action), subgraphs=True)], []
        while found:
            inner = [each.state for each in found.pop(0).tasks if isinstance(each.state, StateSnapshot)]
            configs += [each.config for each in inner]
            found += inner
        return configs

    def duplicate(self, thread: str, action: dict[str, Any]) -> None:
        """Copy a thread, and go on with the copy as often as with the thread."""
        target = f"{thread} copy {len(self.threads)}"
        self.call(self.adapter.saver, "copy_thread", thread, target)
        self.threads.append(target)
        self.check([target])

    def prune(self, thread: str, action: dict[str, Any]) -> None:
        self.call(self.adapter.saver, "prune", [thread])
        self.check(self.threads)

    def forget(self, thread: str, action: dict[str, Any]) -> None:
        self.call(self.adapter.saver, "delete_thread", thread)
        self.check(self.threads)

    def reopen(self, thread: str, action: dict[str, Any]) -> None:
        self.adapter.reopen()
        self.open()

    def close(self) -> None:
        self.runner.close()
        self.adapter.close()


def address(found: Any) -> dict[str, str]:
    """Return the keys that identify a checkpoint."""
    return {key: found.config["configurable"][key] for key in ("thread_id", "checkpoint_ns", "checkpoint_id")}


def is_function(thread: str) -> bool:
    return "function" in thread and not thread.endswith("apart")


def called_graph(space: str, loop: str) -> str:
    """The graph in which somebody looks, if a task has called it: its `checkpoint_ns`; empty in a thread's own graph.

    Args:
        space: The `checkpoint_ns` of whoever looks. A `@task` looks in the graph of the node around it.
        loop: That of the graph or task around that; the same where a checkpoint is looked at.
    """
    if space == loop:
        return loop
    while space.rpartition("|")[2].startswith("piece:"):
        space = space.rpartition("|")[0]
    return space.rpartition("|")[0]


def beside(remembered: str, looking: str) -> bool:
    """Return whether a `@task`, given by its `checkpoint_ns`, was called by one of the reading tasks."""
    there, here = remembered.split("|"), looking.split("|")
    common = list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(there, here, strict=False)))
    return bool(common) and len(there) > len(common) and there[len(common)].startswith("piece:")


def state_of(found: Any) -> list[str]:
    """Return the ids in a checkpoint's state: of a graph, of a function, or of an unread input."""
    values = found.checkpoint["channel_values"]
    log = values.get("log") or values.get("__previous__") or []
    given = values.get("__start__")
    return merged(log, given["log"]) if isinstance(given, dict) and "log" in given else log


def slow(saver: Any, world: World) -> None:
    """Make a saver wait before each put, as a distant database would."""

    def waiting(method: Callable[..., Any], part: float) -> Callable[..., Any]:
        def wait(*arguments: Any, **options: Any) -> Any:
            time.sleep(world.delay * part)
            begun, found = world.moment(), method(*arguments, **options)
            if method.__name__ == "put":
                world.noted(*arguments[:2], begun)
            return found

        async def await_(*arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(world.delay * part)
            begun, found = world.moment(), await method(*arguments, **options)
            if method.__name__ == "aput":
                world.noted(*arguments[:2], begun)
            return found

        return await_ if method.__name__.startswith("a") else wait

    for name, part in (("put", 1.0), ("put_writes", 0.4), ("aput", 1.0), ("aput_writes", 0.4)):
        setattr(saver, name, waiting(getattr(saver, name), part))


def followed(script: dict[str, Any], make: Callable[[], World]) -> World:
    """Return the world after running a script."""
    world = make()
    try:
        world.follow(script)
    finally:
        world.close()
    return world


def report(seed: int, script: dict[str, Any], world: World) -> str:
    """Return the report of a failed seed: its script and the differences."""
    return "\n".join([f"seed {seed}", printed(script), *world.differences[:3]])
