"""A tracer that collects runs as trees that a test can compare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeAlias, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.graph import START, StateGraph

from langchain_agentmem.base.concurrency import run_in_worker

Shape: TypeAlias = "tuple[str, list[Shape]]"


class Collector(BaseTracer):
    """A LangChain tracer that keeps the finished trees."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)

    @property
    def shapes(self) -> list[Shape]:
        return [shape(run) for run in self.roots]

    @property
    def runs(self) -> list[Run]:
        return [run for root in self.roots for run in walk(root)]

    def run(self, name: str) -> Run:
        """The only run of this name."""
        (found,) = [run for run in self.runs if run.name == name]
        return found

    def under(self, call: Callable[[], Any]) -> Any:
        """Call a function in a step of the user's own, "mine"."""
        return RunnableLambda(lambda _: call(), name="mine").invoke(None, {"callbacks": [self]})

    async def aunder(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Do the same with a coroutine function."""

        async def own(_: None) -> Any:
            return await call()

        return await RunnableLambda(own, name="mine").ainvoke(None, {"callbacks": [self]})

    def only(self) -> Run:
        """The one run beneath the user's own, which has none beneath it."""
        [mine] = self.roots
        [run] = mine.child_runs
        assert run.child_runs == []
        return run

    def ours(self) -> list[Run]:
        return [run for run in self.runs if run.name.startswith("memory.")]


def shape(run: Run) -> Shape:
    """A run as (name, [children])."""
    return (run.name, [shape(child) for child in run.child_runs])


def walk(run: Run) -> Iterator[Run]:
    yield run
    for child in run.child_runs:
        yield from walk(child)


def remember(tracing: Any, **options: Any) -> Any:
    """An operation."""
    with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}, **options) as step:
        step.finish(lambda: {"ids": ["m1", "m2"]})
    return step


async def aremember(tracing: Any, **options: Any) -> Any:
    """The same, in an async call."""
    return await run_in_worker(partial(remember, tracing, **options))


async def traced(call: Callable[[], Awaitable[Any]]) -> Collector:
    """Return the trace of a coroutine function."""
    collector = Collector()
    await collector.aunder(call)
    return collector


def never() -> Any:
    pytest.fail("nobody listens, so this must not be computed")


class State(TypedDict):
    text: str


def graph_of(node: Any) -> Any:
    """A graph of one node."""
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile()


def drawn(tree: Shape, depth: int = 0) -> str:
    """A tree as a person draws it: each name on a line of its own, its children indented."""
    name, children = tree
    return "\n".join([f"{'  ' * depth}{name}", *(drawn(child, depth + 1) for child in children)])
