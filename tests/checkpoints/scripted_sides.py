"""Two sides that follow one script, each with its saver, and what of them is compared."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Send, StateSnapshot, StateUpdate

from tests.stores.scripts import Thing, value

from .scripted_graph import Now, World, answered, follow, scripted_graph

names = itertools.count()


class Different(AssertionError):
    """What the two sides gave, or held, differs."""


# What can be compared.

SIMPLE = {int, bool, float, bytes, type(None)}
"""Of these a type and a text is all there is. Most values are of them, so they are asked nothing else."""


def plain(given: Any, *, in_message: bool = False) -> Any:  # noqa: C901, PLR0911
    """A value as lists and strings that tell its types and order.

    Within a message tuples and lone surrogates may become lists and question marks, as msgpack makes them, and a dict
    whose keys are not all strings may lose its order. A bytearray may become bytes, as it does within another value.
    """
    kind = type(given)
    if kind is str:
        return f"'{given.encode(errors='replace').decode() if in_message and not given.isascii() else given}'"
    if kind in SIMPLE:
        return f"{kind.__name__} {given!r}"
    if kind is bytearray:
        return plain(bytes(given))
    if kind is dict:
        pairs = [[plain(key, in_message=in_message), plain(each, in_message=in_message)] for key, each in given.items()]
        if in_message and not all(isinstance(key, str) for key in given):
            pairs.sort(key=str)
        return ["dict", *pairs]
    if kind in (list, tuple, deque):
        name = "list" if in_message and kind is tuple else kind.__name__
        return [name, *[plain(each, in_message=in_message) for each in given]]
    if kind in (set, frozenset):
        return [kind.__name__, *sorted(repr(plain(each)) for each in given)]
    if isinstance(given, BaseMessage):
        fields = {**given.__dict__, **(given.__pydantic_extra__ or {})}
        return [kind.__name__, [[key, plain(fields[key], in_message=True)] for key in sorted(fields)]]
    if kind is Send:
        return ["Send", given.node, plain(given.arg)]
    fields = given._asdict() if hasattr(given, "_asdict") else {}
    if dataclasses.is_dataclass(given):
        fields = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    return [kind.__name__, plain(fields)] if fields else f"{kind.__name__} {given!r}"


def ordered(given: dict[str, Any] | None) -> Any:
    return given and {key: given[key] for key in sorted(given)}


def versions(given: dict[str, Any]) -> dict[str, int]:
    """Which version of each channel it is; what a saver adds to make it unique is its own."""
    return {key: int(str(given[key]).split(".")[0]) for key in sorted(given)}


def place(config: Any) -> Any:
    return config and plain(
        ordered({k: v for k, v in config["configurable"].items() if k[:10] in ("thread_id", "checkpoint")})
    )


def plain_tuple(found: Any) -> Any:
    if found is None:
        return None
    checkpoint = {**found.checkpoint, "channel_values": ordered(found.checkpoint["channel_values"])}
    checkpoint.setdefault("updated_channels", None)
    checkpoint["channel_versions"] = versions(checkpoint["channel_versions"])
    checkpoint["versions_seen"] = {key: versions(each) for key, each in sorted(checkpoint["versions_seen"].items())}
    parts = {"config": place(found.config), "parent": place(found.parent_config), "writes": found.pending_writes}
    return plain({**parts, "metadata": ordered(found.metadata), "checkpoint": ordered(checkpoint)})


def plain_snapshot(found: Any) -> Any:
    parts = {**found._asdict(), "config": place(found.config), "parent_config": place(found.parent_config)}
    parts |= {"metadata": ordered(found.metadata), "values": ordered(found.values)}
    states = [
        plain_snapshot(task.state) if isinstance(task.state, StateSnapshot) else task.state for task in found.tasks
    ]
    parts["tasks"] = [{**task._asdict(), "state": state} for task, state in zip(found.tasks, states, strict=True)]
    return plain(parts)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs) and ours != theirs:
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            named = number == 1 and len(ours) == 2 and isinstance(ours[0], str)
            yield from differences(one, other, f"{path}/{ours[0] if named else number}")
    elif ours != theirs:
        yield f"at {path}\n    ours   {str(ours)[:600]}\n    theirs {str(theirs)[:600]}"


def spoil(given: Any) -> None:
    """Change all that a caller was given and could change."""
    parts: Any = ()
    if type(given) is str or type(given) in SIMPLE:
        return
    if isinstance(given, BaseMessage):
        parts = [given.additional_kwargs, given.response_metadata, given.content]
        given.content, given.id = "spoiled", "spoiled"
    elif isinstance(given, dict):
        parts = list(given.values())
        given["spoiled"] = "spoiled"
    elif isinstance(given, list | tuple | deque):
        parts = list(given)
        if isinstance(given, list):
            given[:] = [*given[1:], "spoiled"]
    elif isinstance(given, set):
        given.add("spoiled")
    elif isinstance(given, bytearray):
        given.extend(b"spoiled")
    else:
        parts = [getattr(given, name) for name in ("arg", "value") if hasattr(given, name)]
    for each in parts:
        spoil(each)


# Two sides that do the same.


class Side:
    """A saver, or two on one database, the graphs on them, and the threads."""

    def __init__(self, opened: Any, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.opened, self.loop, self.threads = opened, loop, [f"{name} a", f"{name} b"]
        self.world, self.turn, self.savers = World(), 0, [None, None]
        self.stacks = [contextlib.ExitStack(), contextlib.ExitStack()]

    @property
    def saver(self) -> Any:
        if self.savers[self.turn] is None:
            self.savers[self.turn] = self.stacks[self.turn].enter_context(self.opened())
        return self.savers[self.turn]

    def close(self) -> None:
        self.stacks[self.turn].close()
        self.savers[self.turn] = None

    def call(self, target: Any, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method, or await its twin, whichever the action asks for."""
        if not self.awaited:
            found = getattr(target, name)(*arguments, **options)
            return list(found) if name in ("list", "get_state_history") else found
        found = getattr(target, f"a{name}")(*arguments, **options)

        async def wait() -> Any:
            return [each async for each in found] if hasattr(found, "__aiter__") else await found

        return self.loop.run_until_complete(wait())

    def perform(self, action: dict[str, Any]) -> Any:
        """Do an action and give what is to be compared: what it returned or raised, and the state that it left."""
        Now.world, self.awaited = self.world, action["awaited"]
        self.world.durability = action.get("durability", "async")
        self.world.saves.clear()
        self.graph, self.graph.checkpointer = scripted_graph(), self.saver
        self.thread = self.threads[action["thread"]]
        given = self.attempt(lambda: getattr(self, action["do"].replace(" ", "_"))(self.at(action.get("back")), action))
        state = self.attempt(lambda: plain_snapshot(self.call(self.graph, "get_state", self.at())))
        return [given, state, self.attempt(self.held) if action["do"] in ("history", "duplicate") else None]

    def attempt(self, what: Callable[[], Any]) -> Any:
        try:
            return what()
        except Exception as raised:  # noqa: BLE001
            return f"raised {type(raised).__name__}: {raised}"

    def at(self, back: int | None = None) -> Any:
        """The config of the thread, or of an older checkpoint of it."""
        configurable: dict[str, Any] = {"thread_id": self.thread}
        if back is not None:
            configurable["checkpoint_ns"] = ""
            if found := self.call(self.saver, "list", {"configurable": dict(configurable)}):
                configurable["checkpoint_id"] = found[back % len(found)].config["configurable"]["checkpoint_id"]
        return {"configurable": configurable}

    def held(self) -> Any:
        """All that the saver holds of the thread, and what LangGraph makes of it."""
        found = self.call(self.saver, "list", {"configurable": {"thread_id": self.thread}})
        found.sort(key=lambda each: each.config["configurable"]["checkpoint_ns"])
        tuples, states = [plain_tuple(each) for each in found], self.call(self.graph, "get_state_history", self.at())
        given = [tuples, [plain_snapshot(each) for each in states]]
        for each in found:
            spoil((each.checkpoint, each.metadata, each.pending_writes))
        spoil([(each.values, each.metadata, each.tasks) for each in states])
        return given

    def run(self, given: Any, at: Any, action: dict[str, Any]) -> Any:
        options = dict(action["options"])
        config = {
            **at,
            **{key: options.pop(key) for key in ("metadata", "recursion_limit", "run_id") if key in options},
        }
        result = self.call(self.graph, "invoke", given, config, durability=action["durability"], **options)
        if "__interrupt__" in result:  # in the order in which tasks stopped
            result["__interrupt__"].sort(key=lambda each: each.id)
        shown = plain(result)
        spoil([result, given])
        return shown

    def invoke(self, at: Any, action: dict[str, Any]) -> Any:
        return self.run(
            {**answered(follow({}, action["ops"])), "plan": copy.deepcopy(action["plan"]), "at": 0}, at, action
        )

    def go(self, at: Any, action: dict[str, Any]) -> Any:
        return self.run(None, at, action)

    def goto(self, at: Any, action: dict[str, Any]) -> Any:
        return self.run(Command(goto="work", update=answered(follow({}, action["ops"]))), at, action)

    def resume(self, at: Any, action: dict[str, Any]) -> Any:
        answer, update = value("dict", action["number"]), None
        if action["how"] == "each":
            asked = self.call(self.graph, "get_state", at).interrupts
            answer = {each.id: value("text", number) for number, each in enumerate(asked)}
        elif action["how"] == "update":
            update = answered(follow({}, action["ops"]))
        return self.run(Command(resume=answer, update=update), at, action)

    def stop(self, at: Any, action: dict[str, Any]) -> Any:
        """Stream, and turn away after a few values."""
        given = {**answered(follow({}, action["ops"])), "plan": copy.deepcopy(action["plan"]), "at": 0}
        options = {"stream_mode": "values", "durability": action["durability"]}
        many = action["number"] % 4
        if not self.awaited:
            stream = self.graph.stream(given, at, **options)
            shown = [plain(each) for each in itertools.islice(stream, many)]
            stream.close()
            return shown

        async def some() -> Any:
            stream, shown = self.graph.astream(given, at, **options), []
            while len(shown) < many and (each := await anext(stream, None)) is not None:
                shown.append(plain(each))
            await stream.aclose()
            return shown

        return self.loop.run_until_complete(some())

    def changes(self, at: Any, operations: Any) -> Any:
        return answered(follow(self.call(self.graph, "get_state", at).values, operations))

    def update(self, at: Any, action: dict[str, Any]) -> Any:
        given = self.changes(at, action["ops"])
        found = self.call(self.graph, "update_state", at, given, as_node=action["node"])
        spoil(given)
        return place(found)

    def bulk(self, at: Any, action: dict[str, Any]) -> Any:
        steps = [
            [StateUpdate(self.changes(at, step["ops"]), "left"), StateUpdate(self.changes(at, step["right"]), "right")]
            for step in action["steps"]
        ]
        return place(self.call(self.graph, "bulk_update_state", at, steps))

    def copy(self, at: Any, action: dict[str, Any]) -> Any:
        values = [(self.changes(at, action["ops"]), action["node"])] if action["node"] == "left" else None
        return place(self.call(self.graph, "update_state", at, values, as_node="__copy__"))

    def end(self, at: Any, action: dict[str, Any]) -> Any:
        return place(self.call(self.graph, "update_state", at, None, as_node="__end__"))

    def inside(self, at: Any, action: dict[str, Any]) -> Any:
        """Change the state of a subgraph that waits."""
        tasks = self.call(self.graph, "get_state", at, subgraphs=True).tasks
        spaces = [task.state.config for task in tasks if isinstance(task.state, StateSnapshot)]
        return [
            place(self.call(self.graph, "update_state", each, self.changes(each, action["ops"]))) for each in spaces
        ]

    def look(self, at: Any, action: dict[str, Any]) -> Any:
        state, found = self.call(self.graph, "get_state", at, subgraphs=True), self.call(self.saver, "get_tuple", at)
        given = [plain_snapshot(state), plain_tuple(found)]
        spoil((state.values, state.metadata, state.tasks, found and (found.checkpoint, found.metadata, found[4])))
        return given

    def list(self, at: Any, action: dict[str, Any]) -> Any:
        root, updates = {"configurable": {"thread_id": self.thread, "checkpoint_ns": ""}}, {"source": "update"}
        before = at if "checkpoint_id" in at["configurable"] else None
        options = ({"limit": 2}, {"before": before, "limit": 3}, {"filter": updates, "before": before})
        return [[plain_tuple(each) for each in self.call(self.saver, "list", root, **given)] for given in options]

    def history(self, at: Any, action: dict[str, Any]) -> Any:
        return None

    def forget(self, at: Any, action: dict[str, Any]) -> Any:
        return self.call(self.saver, "delete_thread", self.thread)

    def duplicate(self, at: Any, action: dict[str, Any]) -> Any:
        source, self.thread = self.thread, self.threads[not action["thread"]]
        self.call(self.saver, "delete_thread", self.thread)
        return self.call(self.saver, "copy_thread", source, self.thread)

    def open_again(self, at: Any, action: dict[str, Any]) -> Any:
        self.close()
        self.graph.checkpointer = self.saver

    def other_saver(self, at: Any, action: dict[str, Any]) -> Any:
        """From now on a second saver on the same database, while the first stays open."""
        self.turn = 1 - self.turn
        self.graph.checkpointer = self.saver

    def allow(self, at: Any, action: dict[str, Any]) -> Any:
        """The shallow copy that LangGraph makes when a graph's state names classes."""
        self.savers[self.turn] = self.saver.with_allowlist([(Thing.__module__, Thing.__name__)])
        self.graph.checkpointer = self.saver


def both_follow(script: dict[str, Any], ours: Any, theirs: Any) -> None:
    name = f"{next(names)}"
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        sides = [Side(opened, loop, name) for opened in (ours, theirs)]
        try:
            ends = [{"do": "history", "thread": thread, "awaited": bool(thread)} for thread in (0, 1)]
            for number, action in enumerate(script["actions"] + ends):
                one, other = (side.perform(action) for side in sides)
                if one != other:
                    found = "\n".join(itertools.islice(differences(one, other), 5))
                    raise Different(f"after action {number} ({action['do']}):\n{found}")
        finally:
            for side in sides:
                for stack in side.stacks:
                    stack.close()
            loop.run_until_complete(loop.shutdown_default_executor())
