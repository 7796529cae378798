"""States and histories equal those of LangGraph's in-memory saver, whatever a graph does.

One graph follows a random script on our saver and on `InMemorySaver`, action by action. After each, what LangGraph
returned and the state that it left must be equal, and at the end all that the savers hold, to the last id, type and
order. `AGENTMEM_EXAMPLES=5000 pytest -o timeout=0` follows so many scripts per engine.

LangGraph's clock and ids count, anew for each side, and what it saves is saved at once. What is chance in LangGraph is
left out: of nodes that run at the same time none fails or changes an object in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import operator
import os
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, message
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.pregel import _checkpoint, _executor, _loop
from langgraph.types import Command, Overwrite, Send, StateSnapshot, interrupt

from langchain_agentmem import AgentMemorySaver
from tests.support.graphs import at, line
from tests.threads.full.test_values import MESSAGES, ODD, PLAIN, nested
from tests.threads.own_store import strict, told

IN_RELEASE = pytest.mark.slow("in every form")
names = itertools.count()

# Scripts.

SAID = st.tuples(MESSAGES, st.integers(0, 6)).map(lambda each: each[0].model_copy(update={"id": f"m{each[1]}"}))
SAME = st.sampled_from([1, True, 1.0, 0, False, -0.0, "1", b"1", [1], [True], {"a": 1}, {"a": 1.0}])
VALUES = SAME | nested(PLAIN | ODD | MESSAGES)
LISTS = st.sampled_from(["messages", "messages", "log"])
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), LISTS, st.lists(SAID.filter(lambda each: type(each) is not RemoveMessage), max_size=3)),
    st.tuples(st.just("remove"), LISTS, st.integers(0, 9)),
    st.tuples(st.just("keep"), st.sampled_from(["messages", "notes"]), st.sampled_from([(0, 2), (1, None), (0, 0)])),
    st.tuples(st.just("note"), st.lists(VALUES, max_size=3)),
    st.tuples(st.just("row"), st.dictionaries(st.sampled_from("abcdefgh"), VALUES, max_size=3)),
    st.tuples(st.just("box"), SAME) | st.tuples(st.just("box"), VALUES),
    st.tuples(st.just("share"), st.sampled_from(["messages", "notes", "table"])),
    st.tuples(st.just("ask"), st.integers(0, 9)),
)
ALONE = OPERATIONS | st.one_of(
    st.tuples(st.just("touch"), st.sampled_from(["messages", "notes", "table", "box"]), st.booleans()),
    st.tuples(st.just("fail"), st.integers(0, 99)),
)
UPDATES = st.lists(OPERATIONS.filter(lambda operation: operation[0] != "ask"), max_size=2)
PLANS = st.lists(
    st.tuples(st.sampled_from(["work", "work", "sub"]), st.lists(ALONE, max_size=3), st.lists(ALONE, max_size=1))
    | st.tuples(st.sampled_from(["two", "send"]), st.lists(OPERATIONS, max_size=2), st.lists(OPERATIONS, max_size=2)),
    min_size=1,
    max_size=3,
)
NODES = ("work", "left", "sub", "__copy__", "__end__", "__input__", None)
DOINGS = ["invoke", "invoke", "go", "resume", "resume", "update", "inside", "forget", "duplicate", "open", "other"]
ACTIONS = st.fixed_dictionaries(
    {
        "do": st.sampled_from(DOINGS),
        "back": st.none() | st.integers(0, 9),  # how many checkpoints ago
        "plan": PLANS,
        "ops": UPDATES,
        "node": st.sampled_from(NODES),
        "durability": st.sampled_from(["sync", "async", "exit"]),
    }
)
SCRIPTS = st.lists(ACTIONS, min_size=5, max_size=9).map(lambda actions: [{**actions[0], "do": "invoke"}, *actions[1:]])

# The graph.


class Now:
    """The side that is running, with its failures and its clock."""

    side: Any = None


def next_id(clock_seq: int) -> UUID:
    ticks = next(Now.side.clock)
    return UUID(int=(ticks >> 12) << 80 | (ticks & 0xFFF) << 64 | (clock_seq & 0x3FFF) << 48, version=6)


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch):
    submit = _executor.BackgroundExecutor.submit

    def saving(self, function, *arguments, **options):
        if "put" not in getattr(function, "__name__", ""):
            return submit(self, function, *arguments, **options)
        saved: Future[Any] = Future()
        saved.set_result(function(*arguments))
        return saved

    def now(_zone):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(Now.side.clock))

    monkeypatch.setattr(_executor.BackgroundExecutor, "submit", saving)
    monkeypatch.setattr(_checkpoint, "uuid6", next_id)
    monkeypatch.setattr(message, "uuid", type("Ids", (), {"uuid4": partial(next_id, 0)}))
    for module in (_checkpoint, _loop):
        monkeypatch.setattr(module, "datetime", type("Clock", (), {"now": staticmethod(now)}))


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    log: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]
    notes: Annotated[list[Any], operator.add]
    table: Annotated[dict[str, Any], operator.or_]
    box: Any
    plan: Annotated[list[Any], lambda _, new: new]
    step: Annotated[int, lambda _, new: new]


def follow(state: dict[str, Any], operations: list[Any]) -> dict[str, Any]:  # noqa: C901
    """Do the operations and return the update; the last update of a channel wins."""
    update: dict[str, Any] = {}
    for name, *rest in copy.deepcopy(operations):
        match name, *rest:
            case "add", channel, new:
                update[channel] = new
            case "remove", channel, index if there := state.get(channel):
                update[channel] = [RemoveMessage(id=there[index % len(there)].id)]
            case "keep", channel, (start, stop):
                update[channel] = Overwrite((state.get(channel) or [])[start:stop])
            case "note", new:
                update["notes"] = new
            case "row", new:
                update["table"] = new
            case "box", new:
                update["box"] = new
            case "share", channel if channel in state:
                update |= {"box": state[channel], "notes": [state[channel]]}
            case "ask", number:
                update["notes"] = [interrupt({"number": number, "about": (state.get("messages") or [])[-1:]})]
            case "touch", channel, returned if channel in state:
                spoil(state[channel])
                if returned and channel in ("box", "table"):
                    update[channel] = state[channel]
            case "fail", number if number not in Now.side.failed:
                Now.side.failed.add(number)
                raise ValueError(f"failed on purpose: {number}")
    return update


def spoil(value: Any) -> None:
    """Change every mutable part of a value in place."""
    if isinstance(value, BaseMessage):
        value.content = "spoiled"
        value.additional_kwargs.setdefault("deep", []).append("spoiled")
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value["spoiled"] = True
    elif isinstance(value, list | tuple):
        for each in value:
            spoil(each)
        if isinstance(value, list) and (not value or not isinstance(value[0], BaseMessage)):
            value.append("spoiled")


def told_and_spoiled(value: Any) -> Any:
    found = told(value)
    spoil(value)
    return found


def step_of(state: dict[str, Any]) -> Any:
    plan, step = state.get("plan") or [], state.get("step", 0)
    return plan[step] if step < len(plan) else (END, [], [])


def node(part: int, *, moves: bool = False) -> Any:
    def run(state: dict[str, Any]) -> dict[str, Any]:
        update = follow(state, state["ops"] if "ops" in state else step_of(state)[part] if part else [])
        return update | ({"step": state.get("step", 0) + 1} if moves else {})

    return run


def route(state: dict[str, Any]) -> Any:
    kind, *parts = step_of(state)
    if kind == "send":
        return [Send("left", {"messages": state.get("messages") or [], "ops": ops}) for ops in parts]
    return ["left", "right"] if kind == "two" else kind


def scripted_graph(saver: Any) -> Any:
    """Build a graph that runs one node, a subgraph of two, two parallel nodes, or one node twice."""
    graph = StateGraph(State).add_node("work", node(1, moves=True)).add_node("join", node(0, moves=True))
    graph.add_node("left", node(1)).add_node("right", node(2)).add_edge("left", "join").add_edge("right", "join")
    graph.add_node("sub", line(None, ("first", node(1)), ("second", node(2, moves=True)), state=State))
    for name in (START, "work", "join", "sub"):
        graph.add_conditional_edges(name, route, ["work", "left", "right", "sub", END])
    return graph.compile(checkpointer=saver)


# Two sides that do the same.

CHANNELS = ("values", "channel_values", "metadata", "checkpoint", "versions_seen")


def shown(value: Any, name: str = "") -> Any:
    """Return a state or checkpoint without saver-specific versions and channel order."""
    if hasattr(value, "_asdict"):
        return {key: shown(each, key) for key, each in value._asdict().items()}
    if name in ("config", "parent_config"):
        return value and {k: v for k, v in value["configurable"].items() if k.startswith(("thread_id", "checkpoint"))}
    if name.startswith("channel_versions"):
        return {key: int(str(each).split(".")[0]) for key, each in value.items()}
    if name in CHANNELS and value is not None:
        value = {"updated_channels": None, **value} if name == "checkpoint" else value
        inner = {"versions_seen": "channel_versions"}.get(name)
        return {key: shown(value[key], inner or (key if name == "checkpoint" else "")) for key in sorted(value)}
    if name == "tasks":
        return [shown(each) for each in value]
    return told(value)


class Side:
    """A saver, or two on one database, with a thread and its copy."""

    def __init__(self, opened: Any, name: str) -> None:
        self.opened, self.threads, self.turn = opened, [f"{name} a", f"{name} b"], 0
        self.failed, self.clock = set(), itertools.count()
        self.stacks = [contextlib.ExitStack(), contextlib.ExitStack()]
        self.savers: list[Any] = [None, None]

    @property
    def saver(self) -> Any:
        if self.savers[self.turn] is None:
            self.savers[self.turn] = self.stacks[self.turn].enter_context(self.opened())
        return self.savers[self.turn]

    def close(self) -> None:
        self.stacks[self.turn].close()
        self.savers[self.turn] = None

    def attempt(self, what: Any, *arguments: Any) -> Any:
        try:
            return what(*arguments)
        except Exception as raised:  # noqa: BLE001
            return f"raised {type(raised).__name__}: {raised}"

    def perform(self, action: dict[str, Any]) -> Any:
        """Do an action and return its result or error and the resulting state."""
        Now.side = self
        found = self.attempt(self.do, action)
        return [found, self.looked(scripted_graph(self.saver))]

    def looked(self, graph: Any) -> Any:
        """Return the state, then change the returned objects in place."""
        state = self.attempt(partial(graph.get_state, subgraphs=True), at(self.threads[0]))
        if isinstance(state, str):
            return state
        found = shown(state)
        spoil((state.values, state.metadata))
        if kept := self.saver.get_tuple(at(self.threads[0])):
            spoil((kept.checkpoint["channel_values"], kept.metadata, kept.pending_writes))
        return found

    def do(self, action: dict[str, Any]) -> Any:  # noqa: C901
        graph, here = scripted_graph(self.saver), at(self.threads[0])
        if action["back"] is not None and (found := list(self.saver.list(at(self.threads[0], checkpoint_ns="")))):
            here = found[action["back"] % len(found)].config
        state, durable = graph.get_state(here), {"durability": action["durability"]}
        match action["do"]:
            case "invoke":
                given = {**follow({}, action["ops"]), "plan": copy.deepcopy(action["plan"]), "step": 0}
                return told_and_spoiled(graph.invoke(given, here, **durable))
            case "go":
                return told_and_spoiled(graph.invoke(None, here, **durable))
            case "resume":
                answers = {each.id: ["answer", number] for number, each in enumerate(state.interrupts)}
                return told_and_spoiled(graph.invoke(Command(resume=answers), here, **durable))
            case "update":
                given = None if action["node"] in ("__copy__", "__end__") else follow(state.values, action["ops"])
                return shown(graph.update_state(here, given, as_node=action["node"]), "config")
            case "inside":
                tasks = graph.get_state(here, subgraphs=True).tasks
                for waiting in [task.state for task in tasks if isinstance(task.state, StateSnapshot)]:
                    graph.update_state(waiting.config, follow(waiting.values, action["ops"]))
            case "forget" | "duplicate":
                self.saver.delete_thread(self.threads[1])
                if action["do"] == "duplicate":
                    self.saver.copy_thread(*self.threads)
                self.threads.reverse()
            case "open":
                self.close()
            case "other":  # from now on a second saver on the same database, while the first stays open
                self.turn = 1 - self.turn
        return None

    def held(self) -> Any:
        """Return everything that the saver holds and its state history, sync and async."""
        Now.side = self
        graph, everything = scripted_graph(self.saver), []
        for config in map(at, self.threads):
            found = sorted(self.saver.list(config), key=lambda each: each.config["configurable"]["checkpoint_ns"])
            states = [*graph.get_state_history(config)]

            async def awaited(config=config):
                return [shown(state) async for state in graph.aget_state_history(config)]

            everything += [[*map(shown, found)], told_states := [*map(shown, states)]]
            assert asyncio.run(awaited()) == told_states
        return everything


class Memory(InMemorySaver):
    """The in-memory saver to compare with, extended by `copy_thread`."""

    def __init__(self) -> None:
        super().__init__(serde=strict())

    def copy_thread(self, source, target):
        for space, checkpoints in self.storage[source].items():
            self.storage[target][space].update(checkpoints)
        for kept in (self.writes, self.blobs):
            for key in [key for key in kept if key[0] == source]:
                kept[target, *key[1:]] = copy.copy(kept[key])


def check(script: list[dict[str, Any]], ours: Any) -> None:
    memory, name = Memory(), f"{next(names)}"
    sides = [Side(ours, name), Side(partial(contextlib.nullcontext, memory), name)]
    try:
        for number, action in enumerate(script):
            one, other = (side.perform(action) for side in sides)
            assert one == other, f"after action {number}, {action['do']}"
        one, other = (side.held() for side in sides)
        assert one == other
    finally:
        for stack in sides[0].stacks:
            stack.close()


@pytest.mark.parametrize(
    ("kind", "examples"),
    [("sqlite", 10), pytest.param("sqlite", 60, marks=IN_RELEASE), pytest.param("postgres", 15, marks=IN_RELEASE)],
)
def test_states_and_histories_match_the_in_memory_saver(kind, examples, new_database):
    url = new_database(kind)
    opened = partial(AgentMemorySaver.from_conn_string, url, strict=True)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    examples = int(os.environ.get("AGENTMEM_EXAMPLES", "0")) or examples

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=checks)
    @given(SCRIPTS)
    def run(script):
        check(script, opened)

    run()
