"""Small graphs whose nodes remember, and return what they remembered into state: so state says what memory must be."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy

from .adapters import Real
from .graphs import merged
from .oracle import state_of

AT = {"configurable": {"thread_id": "t"}}
RETRY = RetryPolicy(initial_interval=0.0, backoff_factor=1.0, max_attempts=3, jitter=False)
PATIENCE = 30.0
"""Seconds that somebody waits for somebody else, who should come at once."""


class State(TypedDict):
    log: Annotated[list[str], merged]


EMPTY: State = {"log": []}


class Mind:
    """A memory, and a way to use it in nodes: each id that is remembered says how often it was.

    Args:
        url: The database.
        durability: That of all runs.
        awaited: Whether runs are awaited; nodes are functions that wait, and then run in threads.
        who: Stands before each id, where several use one database.
    """

    def __init__(self, url: str, durability: str = "async", *, awaited: bool = False, who: str = "") -> None:
        self.adapter, self.durability, self.awaited, self.who = Real(url), durability, awaited, who
        self.times: dict[str, int] = {}
        self.lock = threading.Lock()

    def note(self, what: str, config: Any = None) -> str:
        with self.lock:
            self.times[what] = self.times.get(what, 0) + 1
            name = f"{self.who}{what} {self.times[what]}"
        self.adapter.remember(config or get_config(), name)
        return name

    def graph(self, *nodes: Any, inner: bool = False, **options: Any) -> Any:
        """A graph of nodes, one after the other."""
        builder = StateGraph(State)
        builder.add_sequence([(node.__name__, node) for node in nodes])
        for node in nodes:
            builder.nodes[node.__name__].retry_policy = options.get("retry")
        builder.add_edge(START, nodes[0].__name__)
        return builder.compile(checkpointer=options.get("saves") if inner else self.adapter.saver)

    def beside(self, *nodes: Any, **options: Any) -> Any:
        """A graph of nodes that run at the same time."""
        builder = StateGraph(State)
        for node in nodes:
            builder.add_node(node, retry_policy=options.get("retry")).add_edge(START, node.__name__)
        return builder.compile(checkpointer=self.adapter.saver)

    def run(self, graph: Any, given: Any, config: Any = AT, **options: Any) -> Any:
        if self.awaited:
            return asyncio.run(graph.ainvoke(given, config, durability=self.durability, **options))
        return graph.invoke(given, config, durability=self.durability, **options)

    def at_once(self, *runs: tuple[Any, ...], **options: Any) -> list[BaseException | None]:
        """Run several at the same time, each in a thread of its own, and give how each has failed, if it has."""
        with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
            ends = [pool.submit(self.run, *each, **options) for each in runs]
        return [end.exception() for end in ends]

    def held(self, config: Any = AT) -> list[str]:
        """What a thread remembers, after a look at each of its checkpoints, on whatever branch."""
        found = list(self.adapter.saver.list({"configurable": {**config["configurable"], "checkpoint_ns": ""}}))
        for each in found:
            assert sorted(self.adapter.remembered(each.config)) == sorted(state_of(each)), each.metadata
        return self.adapter.remembered(found[0].config) if found else []

    def ends(self, config: Any = AT) -> list[list[str]]:
        """What is remembered where the branches of a thread end, the newest first."""
        found = list(self.adapter.saver.list({"configurable": {**config["configurable"], "checkpoint_ns": ""}}))
        inner = {each.parent_config["configurable"]["checkpoint_id"] for each in found if each.parent_config}
        return [
            self.adapter.remembered(each.config)
            for each in found
            if each.config["configurable"]["checkpoint_id"] not in inner
        ]

    def reopen(self) -> None:
        self.adapter.reopen()

    def close(self) -> None:
        self.adapter.close()


def failing(times: int) -> Callable[[], int]:
    """Raises so often, and then no more."""
    count = itertools.count(1)

    def attempt() -> int:
        if (number := next(count)) <= times:
            raise ConnectionError(number)
        return number

    return attempt


def at(thread: str, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **more}}


def resumed(answer: str = "yes") -> Command[Any]:
    return Command(resume=answer)
