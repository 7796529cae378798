"""The memory of a thread: in a task what the task can see, elsewhere what a checkpoint shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from langchain_agentmem.base.namespaces import running_config
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.rewinding import sealing
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.rewinding.graph_runs import Runs, thread_of
from langchain_agentmem.rewinding.memory_rows import FOREVER, Place, View
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.threads.thread_lines import OWN_LINE, ThreadAt, find

_TASK = "__pregel_task_id"


class ThreadPoint(NamedTuple):
    """A thread at a checkpoint, or in a task.

    Attributes:
        runs: The runs of this process.
        at: The thread.
        configurable: What the config says.
    """

    runs: Runs
    at: ThreadAt
    configurable: Mapping[str, Any]

    @property
    def follows(self) -> bool:
        """Whether memory follows it: a task's graph may have another checkpointer."""
        return _TASK not in self.configurable or self.runs.knows(self.configurable, self.at)

    @property
    def path(self) -> str:
        """The path of the namespace."""
        return self.at.path

    @property
    def name(self) -> str:
        """The thread's id."""
        return self.at.name

    @property
    def writable(self) -> bool:
        """Whether it is a task, which can write."""
        return _TASK in self.configurable

    def pinned(self) -> dict[str, Any]:
        """The checkpoint at which it is looked at, where that is not the one that a task runs on."""
        name = None if self.writable else self.configurable.get("checkpoint_id")
        return {} if name is None else {"checkpoint_id": name}

    def view(self, now: int, near: int = FOREVER) -> Steps[View]:
        """What the task sees, or the checkpoint shows."""
        if _TASK in self.configurable:
            _, _, view = yield from sealing.view_of_task(self.runs, self.configurable, self.at)
            return view
        ns = self.configurable.get("checkpoint_ns") or OWN_LINE
        thread = yield from find(self.at, ns)
        name = self.configurable.get("checkpoint_id")
        if thread is None or thread.line is None:
            return View((), (), now)
        if name is None:
            latest = yield query.latest_checkpoint(line=thread.line)
            name = latest[0]["name"] if latest else ""
        spot = yield from sealing.place_of(thread.line, name)
        return View((), (), now) if spot is None else (yield from view_of(*spot, sealing.time_of(name) or now, near))

    def thread_row(self) -> Steps[int | None]:
        """The row of the thread; None before there is any."""
        thread = yield from find(self.at)
        return None if thread is None else thread.id

    def open(self, now: int) -> Steps[tuple[View, Place]]:
        """What the task sees, and the group that it writes to.

        Raises:
            InvalidInput: This is no task: what a checkpoint shows does not change.
            StepIsOver: Another attempt of the task has taken its place.
        """
        if _TASK not in self.configurable:
            raise InvalidInput(
                "The memory of a thread is written by its nodes; outside of them it can only be read. In a node, give "
                "the node's own config. For memory that belongs to no thread, give the name of a branch."
            )
        run, execution, view = yield from sealing.view_of_task(self.runs, self.configurable, self.at)
        place = yield from sealing.group_for(self.runs, run, execution, now)
        if all(group != place.group for group, _ in view.groups):
            view = view._replace(groups=(*view.groups, (place.group, FOREVER)))
        return view, place


def thread_point(runs: Runs, given: Any) -> ThreadPoint:
    """The thread that something means which LangGraph hands out.

    Args:
        runs: The runs of this process.
        given: A config; a `Runtime` or `ToolRuntime`; None for the run this is called in. A config that names no
            checkpoint means, in a task of its thread, that task.

    Raises:
        InvalidInput: It names no thread, or something that can be no id.
    """
    running = running_config()
    config = given if isinstance(given, Mapping) else getattr(given, "config", None) or running
    if not isinstance(config, Mapping) or not isinstance(config.get("configurable") or {}, Mapping):
        raise InvalidInput(
            f"A thread is named by the config of a node, or by its runtime, not by {safe_repr(given)}. Outside "
            "of a run, and in threads that do not carry its context, give the config, or the name of a branch."
        )
    at = thread_of(config)
    configurable: Mapping[str, Any] = config["configurable"]
    for key in ("checkpoint_id", "checkpoint_ns"):
        if not isinstance(configurable.get(key), str | UUID | None):
            raise InvalidInput(f"{key} is a text, not {safe_repr(configurable[key])}.")
    if _TASK not in configurable and not configurable.get("checkpoint_id") and running is not None:
        within = running.get("configurable") or {}
        if _TASK in within and thread_of(running) == at:
            configurable = within
    return ThreadPoint(runs, runs.home(configurable, at), configurable)
