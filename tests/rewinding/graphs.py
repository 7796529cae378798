"""Graphs that follow a script's plan and read memory as they run.

Every node returns the ids of what it remembered into the graph's state. State is LangGraph's own way of committing what
a step did, so it says what memory must be: at the start of a node, and after whatever the node itself has done since.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import time
from collections.abc import Callable, Generator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send, interrupt


class Broken(Exception):
    """A node that fails, once."""


class Flaky(Exception):
    """An attempt that fails and is retried."""


class Now:
    """The world in which nodes run: `oracle.World`."""

    world: Any = None


RUNNING: contextvars.ContextVar[tuple[object, ...]] = contextvars.ContextVar("running", default=())
"""The current executions, outermost first. Callees of a failed one may run on for a while."""


def merged(old: list[str], new: Any) -> list[str]:
    """Merge ids, each once; `{"fresh": ids}` starts again."""
    if isinstance(new, dict):
        return list(new["fresh"])
    return [*old, *(each for each in new if each not in old)]


def furthest(old: int, new: Any) -> int:
    """Return the later position in a plan; `{"fresh": position}` starts again."""
    return int(new["fresh"]) if isinstance(new, dict) else max(old, new)


class Found(TypedDict):
    """State of a graph: all ids, and those remembered in it since its start."""

    log: Annotated[list[str], merged]
    mine: Annotated[list[str], merged]


class State(Found):
    plan: list[dict[str, Any]]
    at: Annotated[int, furthest]


RETRY = RetryPolicy(initial_interval=0.0, backoff_factor=1.0, max_attempts=3, jitter=False, retry_on=Flaky)


CALLS = ("call", "kept", "off")
"""Operations that call a graph with the caller's state."""

# What a node does, as a generator of requests, so that it is written once for those who wait and for those who await.

Doing = Generator[tuple[Any, ...], Any, Any]


def attempt_of(config: Any) -> int:
    number: int = config["configurable"]["__pregel_runtime"].execution_info.node_attempt
    return number


def follow(log: list[str], ops: list[Any], config: Any, look: str) -> Doing:
    """Do the operations of a script and return the remembered ids.

    Args:
        log: What state says was remembered before.
        ops: The operations.
        config: Of the task.
        look: At which attempts to look when it starts: "always", "first" or "never".
    """
    world, execution = Now.world, object()
    mine: list[str] = []
    RUNNING.set((*RUNNING.get(), execution))
    try:
        with world.busy():
            return (yield from operate(log, ops, config, look, mine))
    except BaseException:
        world.over.add(execution)
        world.dead.update(each for each in mine if world.goes_with(each, config["configurable"]["checkpoint_ns"]))
        world.failed_calls |= any(op[0] in (*CALLS, "task", "tasks") for op in ops)
        raise


def operate(log: list[str], ops: list[Any], config: Any, look: str, mine: list[str]) -> Doing:  # noqa: C901, PLR0912
    """Do `follow` in its own execution."""
    world, own, attempt = Now.world, config["configurable"]["__pregel_task_id"], attempt_of(config)
    calls = any(op[0] in CALLS for op in ops)
    if look == "always" or (look == "first" and attempt == 1):
        world.looked(config, "at the start", world.looks(config, log), (yield "remembered", config))
    for number, op in enumerate(ops):
        match op:
            case "remember", count, when:
                if not calls and when == ("later" if attempt == 1 else "first"):
                    continue
                for each in range(count):
                    # What a caller remembered before a call may be in the called graph's state when the call goes on
                    # after an interrupt, and was replaced in memory since: its name says what it is replaced by.
                    name = world.name(f"{own}.{number}.{each}" if calls else "", config)
                    world.begins(name)
                    yield "remember", config, name
                    yield "linger", 0.0002
                    world.ended(name)
                    mine.append(name)
            case ("look",):
                known = world.looks(config, [*log, *mine])
                world.looked(config, f"at operation {number}", known, (yield "remembered", config))
            case "linger", milliseconds:
                yield "linger", milliseconds / 1000
            case ("ask",):
                interrupt(f"{own} {number}")
            case "fail", key if key not in world.failed:
                world.failed.add(key)
                raise Broken(key)
            case "flaky", times if attempt <= times:
                raise Flaky(attempt)
            case "slip", key if key not in world.failed:  # a resume does not fail again
                world.failed.add(key)
                raise Flaky(key)
            case (("task" | "tasks"), several):
                given = [{"log": [*log, *mine], "ops": each} for each in several]
                for found in (yield "tasks", given):
                    world.dead.difference_update(found)
                    mine += found
            case (("call" | "kept" | "off"), plan) if op[0] != "off" or world.durability != "sync":
                # LangGraph has no checkpoint to wait for in a graph without a checkpointer, and fails in "sync".
                known = [*log, *mine]  # "kept" has in its state, too, what it remembered in former calls
                world.passed.update((own, number, each) for each in known)
                given = {"log": known if op[0] == "kept" else {"fresh": known}, "mine": {"fresh": []}}
                found = yield "invoke", inner_graph(op[0]), given | {"plan": plan, "at": {"fresh": 0}}, None
                world.dead.difference_update(found["mine"])
                given = found["log"] if op[0] == "kept" else found["mine"]
                mine += world.new_of(given, known, own, number)
            case (("apart" | "apart again"), plan):
                thread, graph = world.apart(config["configurable"]["thread_id"]), world.graph("graph apart")
                given, at = {"plan": plan, "at": {"fresh": 0}}, {"configurable": {"thread_id": thread}}
                yield "invoke", graph, given, at
                if op[0] == "apart again":  # runs of a thread that share the control of the run around them
                    before = world.here(thread, 1)[0].config
                    yield "invoke", graph, given, at
                    yield "invoke", graph, given, before
    return mine


def result_of(future: Any) -> Any:
    """Return the result of a `@task`. One called by a zombie after its run never ends, and is given up."""
    while True:
        try:
            return future.result(timeout=0.05)
        except TimeoutError:
            if Now.world.over & set(RUNNING.get()):
                raise Broken from None


async def answered(request: Any, awaits: bool) -> Any:
    """Do a requested call, sync or async."""
    adapter = Now.world.adapter
    match request:
        case "remembered", config:
            return await adapter.aremembered(config) if awaits else adapter.remembered(config)
        case "remember", config, name:
            return await adapter.aremember(config, name) if awaits else adapter.remember(config, name)
        case "tasks", given:
            calls = [apiece(each) if awaits else piece(each) for each in given]
            return await asyncio.gather(*calls) if awaits else [result_of(each) for each in calls]
        case "invoke", graph, given, config:
            return await graph.ainvoke(given, config) if awaits else graph.invoke(given, config)
    _, seconds = request
    return await asyncio.sleep(seconds) if awaits else time.sleep(seconds)  # noqa: ASYNC251 - no loop runs this one


async def adone(doing: Doing, *, awaits: bool = True) -> Any:
    """Run a generator of requests, async."""
    reply, raised = None, None
    while True:
        try:
            request = doing.throw(raised) if raised is not None else doing.send(reply)
        except StopIteration as end:
            return end.value
        reply, raised = None, None
        try:
            reply = await answered(request, awaits)
        except BaseException as error:  # noqa: BLE001 - it is raised in the generator
            raised = error


def done(doing: Doing) -> Any:
    """Run a generator of requests, sync."""
    try:
        adone(doing, awaits=False).send(None)
    except StopIteration as end:
        return end.value


def both(doing: Callable[..., Doing]) -> Any:
    """Return a runnable with a sync and an async form."""

    def run(given: Any) -> Any:
        return done(doing(given))

    async def arun(given: Any) -> Any:
        return await adone(doing(given))

    return run, arun


piece, apiece = (
    task(name="piece", retry_policy=RETRY)(each)
    for each in both(lambda given: follow(given["log"], given["ops"], get_config(), "always"))
)


def step_of(state: dict[str, Any]) -> dict[str, Any]:
    plan, at = state.get("plan") or [], state.get("at", 0)
    return plan[at] if at < len(plan) else {}


def node(part: str, *, moves: bool = False, stubborn: bool = False) -> Any:
    """A node, for `invoke` and for `ainvoke`, that does one part of the plan's current step.

    Args:
        part: Which part.
        moves: Whether it ends the step.
        stubborn: Whether it waits in a thread of its own where it should be awaited, so that nothing can cancel it.
    """

    def work(state: dict[str, Any]) -> Doing:
        step = state if part == "piece" else step_of(state)
        ops = step.get("ops" if part == "piece" else part) or []
        mine = yield from follow(state["log"], ops, get_config(), step.get("look", "never"))
        return {"log": mine, "mine": mine} | ({"at": state.get("at", 0) + 1} if moves else {})

    return RunnableLambda(*both(work)[: 1 if stubborn else 2])


def route(state: dict[str, Any]) -> Any:
    step = step_of(state)
    match step.get("kind"):
        case None:
            return END
        case "two":
            return ["left", "right"]
        case "send":
            given = {"log": state["log"], "look": step["look"]}
            return [Send("sent", {**given, "ops": ops}) for ops in step["pieces"]] or "join"
        case "sub" | "keeper" if not step["plan"]:
            return "join"
        case "beside":
            return ["keeper", "guard"]
        case kind:
            return kind


def descend(state: dict[str, Any]) -> dict[str, Any]:
    return {"log": state["log"], "mine": {"fresh": []}, "plan": step_of(state).get("plan", []), "at": {"fresh": 0}}


def keeping(graph: Any) -> Any:
    """Return a node with a persistent subgraph, which returns the ids that its state lacks."""

    def work(state: dict[str, Any]) -> Doing:
        found = yield "invoke", graph, descend(state), None
        mine = Now.world.living([each for each in found["log"] if each not in state["log"]])
        return {"log": found["log"], "mine": mine}

    return RunnableLambda(*both(work))


def scripted(inside: Any = None, keeper: Any = None, *, stubborn: bool = False) -> Any:
    """Steps that run one node, two at a time, one for each piece, a graph, or one whose failure is handled.

    Args:
        inside: The graph.
        keeper: A graph that keeps its state from one step to another, alone or with a node beside it.
        stubborn: Whether nothing can cancel nodes.
    """
    made = functools.partial(node, stubborn=stubborn)
    graph: Any = StateGraph(State, output_schema=Found)
    graph.set_node_defaults(retry_policy=RETRY)
    graph.add_node("work", made("ops", moves=True)).add_node("join", made("none", moves=True))
    graph.add_node("left", made("ops")).add_node("right", made("right"))
    graph.add_node("sent", made("piece")).add_node("risky", made("ops"), error_handler=made("right"))
    graph.add_edge(["left", "right"], "join").add_edge("sent", "join").add_edge("risky", "join")
    ends = ["work", "left", "right", "sent", "risky", "join", END]
    if inside is not None:
        graph.add_node("sub", RunnableLambda(descend) | inside).add_edge("sub", "join")
        ends.append("sub")
    if keeper is not None:
        graph.add_node("keeper", keeping(keeper)).add_edge("keeper", "join")
        graph.add_node("guard", made("right"))
        ends += ["keeper", "guard"]
    for name in (START, "work", "join"):
        graph.add_conditional_edges(name, route, ends)
    return graph


@functools.cache
def inner_graph(kind: str, *, stubborn: bool = False) -> Any:
    """Return a graph that a node calls: "call", "kept" (persistent) or "off" (without a saver)."""
    checkpointer = {"kept": True, "kept leaf": True, "off": False}.get(kind)
    inside = () if "leaf" in kind else ("leaf", "kept leaf") if kind != "off" else ("leaf",)
    return scripted(*(inner_graph(each, stubborn=stubborn) for each in inside), stubborn=stubborn).compile(
        checkpointer=checkpointer
    )


@functools.cache
def graph_builder(*, stubborn: bool = False) -> Any:
    inside = [inner_graph(each, stubborn=stubborn) for each in ("call", "kept")]
    return scripted(*inside, stubborn=stubborn)


def functions(saver: Any) -> tuple[Any, Any]:
    """Return a functional entrypoint whose state is its previous results, sync and async."""

    def work(given: dict[str, Any], previous: list[str] | None) -> Doing:
        log = previous or []
        mine = yield from follow(log, given["ops"], get_config(), "always")
        return entrypoint.final(value=mine, save=[*log, *mine])

    @entrypoint(checkpointer=saver, retry_policy=RETRY)
    def function(given: dict[str, Any], *, previous: Any = None) -> Any:
        return done(work(given, previous))

    waiting = function

    @entrypoint(checkpointer=saver, retry_policy=RETRY)
    async def function(given: dict[str, Any], *, previous: Any = None) -> Any:
        return await adone(work(given, previous))

    return waiting, function
