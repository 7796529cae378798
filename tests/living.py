"""A graph task that runs during a block, and stores that are used in such tasks."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypedDict

import langgraph.checkpoint.base.id as ids
import pytest
from langgraph.config import get_config
from langgraph.store.base import BaseStore

from langchain_agentmem import AgentMemory
from tests.support.graphs import at, line

PATIENCE = 60.0


class State(TypedDict, total=False):
    n: int


thread = at


def one_node(node: Any, memory: AgentMemory, **options: Any) -> Any:
    """Return a graph of one node."""
    return line(memory.checkpointer, node, state=State, **options)


Task = SimpleNamespace
"""A task that waits for the test: its `config`, and the `context` that it runs in."""


@contextmanager
def live_task(memory: AgentMemory, config: Any = None) -> Iterator[Task]:
    """Run a graph of one node, which goes on as long as the block."""
    task, begun, over = Task(), threading.Event(), threading.Event()

    def node(state: State) -> State:
        task.config, task.context = get_config(), contextvars.copy_context()
        begun.set()
        assert over.wait(PATIENCE)
        return {"n": 1}

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(one_node(node, memory).invoke, {"n": 0}, config or thread())
        run.add_done_callback(lambda _: begun.set())
        try:
            assert begun.wait(PATIENCE)
            assert not run.done(), run.exception()
            yield task
        finally:
            over.set()
        run.result(PATIENCE)


class InTask(BaseStore):
    """A store that is used in a task."""

    supports_ttl = True

    def __init__(self, store: BaseStore, task: Task) -> None:
        self.store, self.task = store, task
        self.ttl_config = store.ttl_config

    def batch(self, ops: Any) -> Any:
        return self.task.context.copy().run(self.store.batch, ops)

    async def abatch(self, ops: Any) -> Any:
        return await asyncio.create_task(self.store.abatch(ops), context=self.task.context.copy())


class InRuns(BaseStore):
    """A store each of whose batches is a run of its own, of a graph of one node, in one thread."""

    supports_ttl = True

    def __init__(self, store: BaseStore, memory: AgentMemory, config: Any = None) -> None:
        self.store, self.ttl_config, self.config = store, store.ttl_config, config or thread()
        self._ops: list[Any] = []
        self._results: Any = None
        self._one_at_a_time = asyncio.Lock()  # two runs of one thread at a time would be forks of each other
        self._graph, self._agraph = one_node(self._run, memory), one_node(self._arun, memory)

    def _run(self, state: State) -> State:
        self._results = self.store.batch(self._ops)
        return {"n": 1}

    async def _arun(self, state: State) -> State:
        self._results = await self.store.abatch(self._ops)
        return {"n": 1}

    def batch(self, ops: Any) -> Any:
        self._ops = list(ops)
        self._graph.invoke({"n": 0}, self.config)
        return self._results

    async def abatch(self, ops: Any) -> Any:
        async with self._one_at_a_time:
            self._ops = list(ops)
            await self._agraph.ainvoke({"n": 0}, self.config)
            return self._results


class Stopped:
    """LangGraph's time, by which it names checkpoints, as a clock of ours has it."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def time_ns(self) -> int:
        return int(self._clock.now.timestamp()) * 1_000_000_000


def stop_time(monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    """Have checkpoints be made at the time of a test's clock."""
    monkeypatch.setattr(ids, "time", Stopped(clock))
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)
