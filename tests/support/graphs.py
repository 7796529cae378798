"""Graphs for tests.

graph = line(memory.checkpointer, first, second)          # nodes in a row, over messages
graph = beside(saver, state=Log, a=…, b=…)                # nodes at the same time
graph.invoke({"messages": [("user", "Hello.")]}, at("t", namespace=("ada",)))
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

Node = Callable[..., Any] | Any


class Log(TypedDict):
    """A state to which each node adds a word."""

    log: Annotated[list[str], operator.add]


def names_of(nodes: tuple[Node, ...]) -> list[str]:
    """Return the names of functions and of pairs of a name and a node, or "node0" and so on."""
    found = [node[0] if isinstance(node, tuple) else getattr(node, "__name__", "") for node in nodes]
    return [
        name if name.isidentifier() and found.count(name) == 1 else f"node{number}" for number, name in enumerate(found)
    ]


def line(
    saver: Any,
    *nodes: Node,
    state: type = MessagesState,
    compiled: bool = True,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a graph of nodes in a row.

    Args:
        saver: Its checkpointer, or None.
        nodes: Functions, runnables or graphs, each alone or after its name, as a pair.
        state: The class of its state.
        compiled: Whether it is compiled; else it is the builder.
        settings: What `add_node` takes besides, as `retry_policy`.
        **options: What `compile` takes besides, as `store` and `interrupt_before`.
    """
    builder = StateGraph(state)
    names = names_of(nodes)
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node[1] if isinstance(node, tuple) else node, **(settings or {}))
    for before, after in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver, **options) if compiled else builder


def beside(saver: Any, *, state: type = Log, **nodes: Node) -> Any:
    """Return a graph of nodes that run at the same time."""
    builder = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def turn(saver: Any, config: dict[str, Any], act: Callable[[Any], Any]) -> Callable[[], Any]:
    """Run a function of the config in a node of a thread; return what takes the thread back to before that."""

    def node(state: Any, config: RunnableConfig) -> None:
        act(config)

    graph = line(saver, node, state=Log)
    graph.invoke({"log": []}, config)
    *_, first = graph.get_state_history(config)
    return lambda: graph.update_state(first.config, {"log": []})


def at(thread: str = "t", /, *, namespace: tuple[str, ...] | None = None, **keys: Any) -> dict[str, Any]:
    """Return the config of a thread, with further keys such as `user_id`."""
    more = {} if namespace is None else {"agentmem_namespace": namespace}
    return {"configurable": {"thread_id": thread, **more, **keys}}
