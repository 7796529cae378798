"""Small graphs whose nodes write memory and return the same ids into state, so the two must be equal."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.config import get_config
from langgraph.types import Command, RetryPolicy, interrupt

from langchain_agentmem.errors import StepIsOver
from tests.support.graphs import at, beside, line

from .adapters import Real
from .graphs import merged
from .oracle import state_of

AT = at()
RETRY = {"retry_policy": RetryPolicy(initial_interval=0.0, backoff_factor=1.0, max_attempts=3, jitter=False)}
PATIENCE = 30.0
"""Seconds to wait for another thread."""


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

    def noting(self, what: str, *, waits: bool = False) -> Any:
        """Return a node that notes something and may interrupt afterwards."""

        def node(state: State) -> State:
            log = [self.note(what)]
            if waits:
                interrupt("?")
            return {"log": log}

        node.__name__ = what
        return node

    def graph(self, *nodes: Any, inner: bool = False, saves: bool | None = None, **settings: Any) -> Any:
        """Return a graph of sequential nodes with the same settings."""
        return line(saves if inner else self.adapter.saver, *nodes, state=State, settings=settings)

    def beside(self, *nodes: Any) -> Any:
        """Return a graph of parallel nodes."""
        return beside(self.adapter.saver, state=State, **{node.__name__: node for node in nodes})

    def run(self, graph: Any, given: Any, config: Any = AT, **options: Any) -> Any:
        if self.awaited:
            return asyncio.run(graph.ainvoke(given, config, durability=self.durability, **options))
        return graph.invoke(given, config, durability=self.durability, **options)

    def at_once(self, *runs: tuple[Any, ...], **options: Any) -> list[BaseException | None]:
        """Run several calls concurrently and return the exception of each, or None."""
        with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
            ends = [pool.submit(self.run, *each, **options) for each in runs]
        return [end.exception() for end in ends]

    def held(self, config: Any = AT) -> list[str]:
        """Check the memory of all checkpoints of a thread and return that of the newest."""
        found = self.found(config)
        for each in found:
            assert sorted(self.adapter.remembered(each.config)) == sorted(state_of(each)), each.metadata
        return self.adapter.remembered(found[0].config) if found else []

    def ends(self, config: Any = AT) -> list[list[str]]:
        """Return the memory at the end of each branch of a thread, newest first."""
        found = self.found(config)
        inner = [each.parent_config for each in found]
        return [self.adapter.remembered(each.config) for each in found if each.config not in inner]

    def found(self, config: Any = AT) -> list[Any]:
        """Return the checkpoints of a thread, without those of subgraphs."""
        return list(self.adapter.saver.list({"configurable": {**config["configurable"], "checkpoint_ns": ""}}))

    def reopen(self) -> None:
        self.adapter.reopen()

    def close(self) -> None:
        self.adapter.close()


def failing(times: int) -> Callable[[], int]:
    """Return a function that raises the given number of times."""
    count = itertools.count(1)

    def attempt() -> int:
        if (number := next(count)) <= times:
            raise ConnectionError(number)
        return number

    return attempt


def resumed(answer: str = "yes") -> Command[Any]:
    return Command(resume=answer)


class Late:
    """Code that continues after its run has ended; it records its notes and refusals."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.begun, self.let_go, self.over = threading.Event(), threading.Event(), threading.Event()
        self.refused: list[Exception] = []

    def note(self, config: Any, times: int = 1) -> list[str]:
        """Wait for `goes_on`, note something the given number of times, and return the notes."""
        noted = []
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        for _ in range(times):
            try:
                noted.append(self.mind.note("late", config))
            except StepIsOver as error:
                self.refused.append(error)
        self.over.set()
        return noted

    def goes_on(self) -> None:
        """Release the code and wait until it has finished."""
        self.let_go.set()
        assert self.over.wait(PATIENCE)
