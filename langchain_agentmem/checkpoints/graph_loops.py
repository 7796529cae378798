"""LangGraph's own loop, which alone knows some of what it does: its run, and which results it took.

LangGraph hands a saver the config that the graph was called with, and not the run of the graph; and it tells nobody
when it takes the result of a function instead of running that. The loop is the caller of what reads and puts, so it is
looked for among the callers. Where none is found, the config has to do.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from langchain_agentmem.base.namespaces import configurable_of

FARTHEST = 12
"""Callers among whom the loop is looked for."""

_LANGGRAPH = "langgraph.pregel."


def control_of(config: Mapping[str, Any] | None) -> Any:
    """What LangGraph knows a run by, if a config is that of a loop or of a task."""
    return getattr(configurable_of(config).get("__pregel_runtime"), "control", None)


def loop_of(config: Mapping[str, Any] | None) -> Any:
    """The loop that is calling, if one is.

    Args:
        config: The config of the call, which must be in progress.
    """
    control = control_of(config)
    frame = None if control is None else inspect.currentframe()
    for _ in range(FARTHEST):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return None
        loop: Any = frame.f_locals.get("self")
        if type(loop).__module__.startswith(_LANGGRAPH) and getattr(loop, "manager", None) is not None:
            return loop if control_of(loop.config) is control else None
    return None
