"""Where a step happens: the thread, the checkpoint, the namespace and the branch, as its metadata says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_agentmem.base.namespaces import running_config

WHERE = {
    "thread_id": "thread_id",
    "conversation_id": "conversation_id",
    "checkpoint_id": "checkpoint_id",
    "namespace": "agentmem_namespace",
    "branch": "agentmem_branch",
}
"""Inputs that say where a step happens, and what the metadata calls them. LangSmith groups by those of the thread."""


def of_run(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Where a run is: as the given config says, else as the running one does."""
    return {**_of_config(running_config()), **_of_config(config)}


def _of_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    configurable = None if config is None else config.get("configurable")
    if not isinstance(configurable, Mapping):
        return {}
    checkpoint_ns = configurable.get("checkpoint_ns")
    found = {
        "thread_id": configurable.get("thread_id"),
        "checkpoint_id": configurable.get("checkpoint_id") or _checkpoint_of_task(configurable),
        "checkpoint_ns": checkpoint_ns or None,
        "agentmem_namespace": _path(configurable.get("agentmem_namespace")),
    }
    return {name: value for name, value in found.items() if value is not None}


def of_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Where the inputs of a step say that it happens."""
    return {
        name: _path(inputs[key]) if key == "namespace" else inputs[key]
        for key, name in WHERE.items()
        if inputs.get(key) is not None
    }


def _path(namespace: Any) -> str | None:
    if namespace is None or isinstance(namespace, str):
        return namespace
    return "/".join(map(str, namespace))


def _checkpoint_of_task(configurable: Mapping[str, Any]) -> Any:
    """The checkpoint that a node of a graph runs on: that of the graph which it is a task of."""
    known = configurable.get("checkpoint_map")
    if not isinstance(known, Mapping):
        return None
    graph, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition("|")
    return known.get(graph)
