"""The steps of a checkpointer, under the run of the graph that it works for.

LangGraph hands a saver the config that the graph was called with, and not the run of the graph: what is told to the
callbacks of that config would stand beside the graph instead of beneath it. Only the loop knows its run (`loops.py`).
What a task wrote is put from a thread of its own, by when the run is known. Where no loop is found, the config is
believed.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Self, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import CheckpointTuple

from langchain_agentmem.base.namespaces import configurable_of
from langchain_agentmem.checkpoints.graph_loops import control_of, loop_of
from langchain_agentmem.tracing import Step, Thunk, Tracing


class Surrounded:
    """A step, and the config of its graph around it, where LangGraph's stream writer looks for it."""

    __slots__ = ("_config", "_step", "_token")

    def __init__(self, step: Step, config: RunnableConfig) -> None:
        self._step, self._config = step, config
        self._token: Token[RunnableConfig | None] | None = None

    def finish(self, outputs: Thunk) -> None:
        """Say what the operation gave back."""
        self._step.finish(outputs)

    def __enter__(self) -> Self:
        self._token = var_child_runnable_config.set(self._config)
        self._step.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._step.__exit__(kind, error, trace)
        finally:
            self._leave()

    async def __aenter__(self) -> Self:
        self._token = var_child_runnable_config.set(self._config)
        await self._step.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._step.__aexit__(kind, error, trace)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._token is not None:
            var_child_runnable_config.reset(self._token)


CheckpointStep: TypeAlias = Step | Surrounded


class CheckpointSteps:
    """Makes the steps of one saver. While checkpoints are not traced they are only measured.

    Args:
        tracing: The tracing of its database.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._runs: weakref.WeakValueDictionary[tuple[int, str], Any] = weakref.WeakValueDictionary()

    def step(self, verb: str, config: Mapping[str, Any] | None, inputs: Thunk) -> CheckpointStep:
        """One call of the saver, for `with` or `async with`.

        Args:
            verb: What it does, as in "memory.checkpoint.put".
            config: What `around` gave; None for a call that is given none.
            inputs: What it was given beside the config.
        """
        name = f"memory.checkpoint.{verb}"
        if not self._tracing.checkpoints:
            return self._tracing.unheard(name)
        given: Any = config
        step = self._tracing.step(name, inputs=lambda: {**_where(config), **inputs()}, config=given)
        return step if control_of(config) is None else Surrounded(step, given)

    def around(self, config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The config of what is done for a config: within a graph, that of the graph's run.

        Args:
            config: The config of a call, which must be in progress.
        """
        if not self._tracing.checkpoints or config is None or (control := control_of(config)) is None:
            return config
        configurable = {"checkpoint_ns": "", **config["configurable"]}
        key = id(control), str(configurable["checkpoint_ns"])  # no control ends before its runs do
        if (loop := loop_of(config)) is not None:
            run = self._runs[key] = loop.manager
        else:
            run = self._runs.get(key)
        return {
            **config,
            "configurable": configurable,
            "callbacks": config.get("callbacks") if run is None else run.get_child(),
        }


def found(read: CheckpointTuple | None) -> dict[str, Any]:
    """What a trace shows of a checkpoint that was read."""
    if read is None:
        return {"found": False}
    return {
        "found": True,
        "checkpoint_id": read.checkpoint["id"],
        "step": read.metadata.get("step"),
        "channels": len(read.checkpoint["channel_values"]),
        "pending_writes": len(read.pending_writes or ()),
    }


def _where(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Which checkpoint a config names, as inputs."""
    configurable = configurable_of(config)
    named = {name: configurable.get(name) for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    named["namespace"] = configurable.get("agentmem_namespace")
    return {name: value for name, value in named.items() if value}
