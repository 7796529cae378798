"""The graph that follows a script, and the world in which it runs.

LangGraph's clock and ids come from the `World` of a run, so that two runs of one script can be compared to the last
id. What is chance in LangGraph is left out: an object is changed in place only when nothing else runs and nothing is
being saved, and of parallel tasks only the first may fail, after the others have finished.
"""

from __future__ import annotations

import asyncio
import functools
import operator
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base.id import UUID
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages
from langgraph.pregel import _checkpoint, _executor, _loop, _runner
from langgraph.types import Command, Overwrite, Send, interrupt

from tests.stores.scripts import message, messages, value


@dataclass
class World:
    """What one side knows: its clock, which tasks run together, which saves are in progress, what failed already."""

    clock: int = 0
    durability: str = "async"
    failed: set[int] = field(default_factory=set)
    mates: dict[str, list[str]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    lanes: Counter[str] = field(default_factory=Counter)
    saves: list[Any] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock)

    def uuid6(self, clock_seq: int) -> UUID:
        """The next id. Of parallel tasks each counts for itself, since their order is not fixed."""
        task = next((each for each in enclosing(var_child_runnable_config.get()) if len(self.mates[each]) > 1), "")
        self.lanes[task] += 1
        self.clock += not task
        lane = self.mates[task].index(task) + 1 if task else 0
        ticks = 0x1F0E6A000000000 + self.clock * 10_000_000 + (self.lanes[task] if task else 0)
        fields = (ticks >> 12) << 80 | (ticks & 0xFFF) << 64 | (clock_seq & 0x3FFF) << 48 | lane
        return UUID(int=fields, version=6)

    def begins(self, tasks: list[Any]) -> None:
        ids = [task.id for task in tasks]
        self.mates |= dict.fromkeys(ids, ids)
        self.written.difference_update(ids)

    def quiet(self) -> bool:
        return all(each.done() for each in tuple(self.saves))

    def asked(self, request: str, what: Any, config: Any) -> tuple[bool, Callable[[], bool]]:
        """Whether a node may do something, and when."""
        tasks = enclosing(config)
        others = {mate for task in tasks for mate in self.mates[task]} - set(tasks)
        if request == "touch":
            return not others, self.quiet if not others else lambda: True
        may = what not in self.failed and all(self.mates[task][0] == task for task in tasks)
        if not may or (others and self.durability == "exit"):
            return False, lambda: True
        self.failed.add(what)
        return True, lambda: others <= self.written


class Now:
    """Whose turn it is."""

    world = World()


def enclosing(config: Any) -> list[str]:
    """The ids of the task that runs, and of the tasks that it runs in."""
    spaces = ((config or {}).get("configurable") or {}).get("checkpoint_ns", "").split("|")
    ids = [space.partition(":")[2] for space in spaces]
    return [each for each in ids if each in Now.world.mates]


def take_over(monkeypatch: Any) -> None:
    """Let LangGraph take ids and time from the world whose turn it is, and tell it which tasks and saves begin."""

    def noting_saves(submit: Any) -> Any:
        def noted(self: Any, function: Any, *arguments: Any, **options: Any) -> Any:
            future = submit(self, function, *arguments, **options)
            if "put" in (name := getattr(function, "__name__", "")):
                Now.world.saves.append(future)
                if name.endswith("put_writes"):
                    Now.world.written.add(arguments[2])
            return future

        return noted

    def noting_tasks(tick: Any) -> Any:
        def noted(self: Any, tasks: Any, **options: Any) -> Any:
            Now.world.begins(tasks := list(tasks))
            return tick(self, tasks, **options)

        return noted

    clock = type("Clock", (), {"now": staticmethod(lambda _zone: Now.world.now())})
    monkeypatch.setattr(_checkpoint, "datetime", clock)
    monkeypatch.setattr(_loop, "datetime", clock)
    monkeypatch.setattr(_checkpoint, "uuid6", lambda clock_seq: Now.world.uuid6(clock_seq))  # noqa: PLW0108 - each its turn
    for executor in (_executor.BackgroundExecutor, _executor.AsyncBackgroundExecutor):
        monkeypatch.setattr(executor, "submit", noting_saves(executor.submit))
    for name in ("tick", "atick"):
        monkeypatch.setattr(_runner.PregelRunner, name, noting_tasks(getattr(_runner.PregelRunner, name)))


def merge(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, Any]:
    return {key: each for key, each in {**old, **new}.items() if not isinstance(each, str) or each != "gone"}


def latest(_old: Any, new: Any) -> Any:
    return new


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    log: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]
    notes: Annotated[list[Any], operator.add]
    table: Annotated[dict[Any, Any], merge]
    box: Any
    twin: Any
    plan: Annotated[list[Any], latest]
    at: Annotated[int, latest]


class Output(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    table: Annotated[dict[Any, Any], merge]
    at: Annotated[int, latest]


def follow(state: dict[str, Any], operations: list[Any]) -> Generator[Any, Any, Any]:  # noqa: C901, PLR0912, PLR0915
    """Do the operations and return the update. What must be waited for or called is asked for, with a yield."""
    update: dict[str, Any] = {}

    def give(channel: str, new: Any) -> None:
        old = update.get(channel)
        if channel in ("messages", "log", "notes") and isinstance(new, list) and isinstance(old, list):
            new = old + new
        if channel == "table" and isinstance(new, dict) and isinstance(old, dict):
            new = old | new
        update[channel] = old if isinstance(old, Overwrite) else new

    def pick(channel: str, index: int) -> Any:
        items = state.get(channel) or []
        return items[index % len(items)] if items else None

    for name, *rest in operations:
        match name, *rest:
            case "add", channel, number, count:
                give(channel, messages(number, count))
            case "both", number:
                [shared] = messages(number, 1)
                for channel in ("messages", "log", "notes"):
                    give(channel, [shared])
            case "edit", channel, index, number if found := pick(channel, index):
                give(channel, [message(found.id, number)])
            case "remove", channel, indexes:
                ids = {found.id for index in indexes if (found := pick(channel, index))}
                give(channel, [RemoveMessage(id=each) for each in sorted(ids)])
            case "clear", number, count:
                give("messages", [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages(number, count)])
            case "overwrite", channel, *cut:
                kept = state.get(channel) or []
                keys = list(kept)[slice(*cut)]
                give(channel, Overwrite({key: kept[key] for key in keys} if channel == "table" else keys))
            case "put", index, kind, number if kept := list(state.get("notes") or []):
                kept[index % len(kept)] = value(kind, number)
                give("notes", Overwrite(kept))
            case "retype", channel if channel in state:
                give(channel, Overwrite(retyped(state[channel])) if channel == "notes" else retyped(state[channel]))
            case "note", kind, number, count:
                give("notes", [value(kind, number + each) for each in range(count)])
            case "row", kind, number, count:
                give("table", {f"key {(number + each) % 100}": value(kind, number + each) for each in range(count)})
            case "drop", number, count:
                give("table", {f"key {(number + each) % 100}": "gone" for each in range(count)})
            case "box", channel, kind, number:
                give(channel, value(kind, number))
            case "share", channel, number:
                shared = state.get(channel) if number % 2 else value("list", number)
                give("box", shared)
                give("twin", shared if number % 3 else {"in": [shared, shared]})
                give("notes", [shared])
            case "touch", channel, index, number, returned if (yield "touch", None):
                touch(state.get(channel), index, number)
                changed = state.get(channel)
                if channel in ("messages", "log", "notes"):
                    changed = [found] if channel != "notes" and (found := pick(channel, index)) else []
                if returned and channel in state:
                    give(channel, changed)
            case "fail", key if (yield "fail", key):
                raise ValueError(f"failed on purpose: {key}")
            case "ask", number:
                answer = interrupt({"question": value("dict", number), "about": (state.get("messages") or [])[-1:]})
                give("notes", [answer])
            case "call", left, right:
                step = {"ops": left, "right": right}
                found = yield "call", {"messages": (state.get("messages") or [])[-2:], "plan": [step], "at": 0}
                give("messages", found["messages"])
    return update


def retyped(given: Any) -> Any:
    """An equal value of other types."""
    if isinstance(given, list):
        return [retyped(each) for each in given]
    if isinstance(given, dict):
        return {key: retyped(each) for key, each in given.items()}
    if isinstance(given, bool | int | float) and given in (0, 1):
        return {bool: int, int: float, float: bool}[type(given)](given)
    return given


def touch(target: Any, index: int, number: int) -> None:
    """Change an object in place, deeply where it has depth."""
    if isinstance(target, list):
        for each in target[index % 3 :: 5]:
            touch(each, index, number)
        if target and not hasattr(target[0], "content"):
            target.append(number)
    elif isinstance(target, dict):
        for each in list(target.values())[:2]:
            touch(each, index, number)
        target[f"key {number % 100}"] = value("list", number)
    elif hasattr(target, "additional_kwargs"):
        target.content = value("text", number) if number % 3 else [{"type": "text", "text": f"touched {number}"}]
        target.additional_kwargs.setdefault("deep", {}).setdefault("touched", []).append(number)
    elif isinstance(target, set):
        target.add(number)


def answered(steps: Generator[Any, Any, Any]) -> Any:
    """What operations give when no node runs them."""
    reply = None
    while True:
        try:
            request, _ = steps.send(reply)
        except StopIteration as done:
            return done.value
        reply = {"call": {"messages": []}, "touch": True, "fail": False}[request]


def step_of(state: dict[str, Any]) -> dict[str, Any]:
    plan, at = state.get("plan") or [], state.get("at", 0)
    return plan[at] if at < len(plan) else {}


def node(part: str, inner: Any = None, *, moves: bool = False, waits: bool = False) -> Any:  # noqa: C901
    """A node, for `invoke` and for `ainvoke`, that does one part of the plan's current step.

    A node before a barrier waits for the saves in progress, because LangGraph changes a barrier's set in place.
    """

    def work(state: dict[str, Any], config: RunnableConfig) -> Generator[Any, Any, Any]:
        """Yields conditions to wait for, and what to call the inner graph with."""
        if waits:
            yield Now.world.quiet
        given = state if part == "piece" else step_of(state)
        steps, reply = follow(state, given.get("ops" if part in ("boss", "piece") else part) or []), None
        while True:
            try:
                request, what = steps.send(reply)
            except StopIteration as done:
                update = done.value | ({"at": state.get("at", 0) + 1} if moves else {})
                return Command(update=update, goto=sends(state) or "join") if part == "boss" else update
            if request == "call":
                reply = (yield what) if inner else {"messages": []}
            else:
                reply, ready = Now.world.asked(request, what, config)
                yield ready

    def run(state: dict[str, Any], config: RunnableConfig) -> Any:
        steps, reply = work(state, config), None
        while True:
            try:
                what = steps.send(reply)
            except StopIteration as done:
                return done.value
            reply = wait_until(what) if callable(what) else inner.invoke(what)

    async def arun(state: dict[str, Any], config: RunnableConfig) -> Any:
        steps, reply = work(state, config), None
        while True:
            try:
                what = steps.send(reply)
            except StopIteration as done:
                return done.value
            reply = await (asyncio.to_thread(wait_until, what) if callable(what) else inner.ainvoke(what))

    return RunnableLambda(run, arun)


def wait_until(ready: Callable[[], bool]) -> None:
    while not ready():
        time.sleep(0.0002)


def sends(state: dict[str, Any]) -> list[Send]:
    shared = {key: state[key] for key in ("messages", "notes", "table", "box") if key in state}
    shared |= {"messages": (state.get("messages") or [])[-3:]}
    return [Send("sent", {**shared, "ops": ops}) for ops in step_of(state).get("pieces", [])]


def route(state: dict[str, Any]) -> Any:
    match step_of(state).get("kind"):
        case None:
            return END
        case "two":
            return ["left", "right"]
        case "send":
            return sends(state) or "join"
        case kind:
            return kind


def inner_graph(checkpointer: bool | None = None) -> Any:
    graph = StateGraph(State, output_schema=Output)
    graph.add_node("inner 1", node("ops")).add_node("inner 2", node("right", moves=True))
    return graph.add_edge(START, "inner 1").add_edge("inner 1", "inner 2").compile(checkpointer=checkpointer)


@functools.cache
def scripted_graph() -> Any:
    """Steps that run one node, two, one for each piece, a subgraph, or one that remembers its own state."""
    called = inner_graph()
    graph = StateGraph(State)
    graph.add_node("work", node("ops", called, moves=True)).add_node("join", node("none", moves=True))
    graph.add_node("left", node("ops", called, waits=True)).add_node("right", node("right", called, waits=True))
    graph.add_node("sent", node("piece", called)).add_node("boss", node("boss", called), destinations=("sent", "join"))
    graph.add_node("sub", inner_graph()).add_node("kept", inner_graph(checkpointer=True))
    graph.add_edge(["left", "right"], "join").add_edge("sent", "join")
    for name in (START, "work", "join", "sub", "kept"):
        graph.add_conditional_edges(name, route, ["work", "left", "right", "sent", "boss", "sub", "kept", "join", END])
    return graph.compile()
