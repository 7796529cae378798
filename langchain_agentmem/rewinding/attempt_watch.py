"""LangGraph retries a node without telling its saver. LangChain's callbacks do tell.

An attempt that remembered something, failed, and whose successor remembers nothing would otherwise be kept. The hook is
LangChain's public one, and costs some 20 µs for each node of a graph. An attempt is what a graph itself runs: the chain
of a node, or of a function that is called. That of a function lies in the chain that called it, under a longer name.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from langgraph.errors import GraphBubbleUp, ParentCommand

from langchain_agentmem.rewinding.graph_runs import Run, Runs


class _Watch(BaseCallbackHandler):
    """Hears of the attempts of all nodes and functions of all graphs in this process."""

    run_inline = hears_nodes_only = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_agent = ignore_custom_event = ignore_retry = True

    def __init__(self) -> None:
        self.told: weakref.WeakSet[Runs] = weakref.WeakSet()
        self._attempts: dict[UUID, tuple[str, list[tuple[Runs, Run]]]] = {}
        self._chains: dict[UUID, tuple[UUID | None, str]] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del serialized, inputs, rest
        ns = metadata.get("langgraph_checkpoint_ns") if metadata else None
        if ns is None or metadata is None:
            return
        self._chains[run_id] = parent_run_id, ns
        told = list(self.told)
        node = any(tag.startswith("graph:step:") for tag in tags or ())
        if (
            not node
            and not self._is_called(parent_run_id, ns)
            and not any(runs.is_graph(parent_run_id) for runs in told)
        ):
            return  # something that an attempt does, and not one itself
        graphs, thread = list(self._around(parent_run_id)), str(metadata.get("thread_id"))
        found = [(runs, run) for runs in told if (run := runs.watched(graphs, thread)) is not None]
        self._attempts[run_id] = ns, found
        for runs, run in found:
            runs.started(run, ns, metadata.get("langgraph_step"), run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        del outputs, rest
        for runs, run, ns in self._ended(run_id):
            runs.ended(run, ns, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        for runs, run, ns in self._ended(run_id):
            if isinstance(error, ParentCommand):
                runs.ended(run, ns, run_id)
            else:
                runs.failed(run, ns, run_id, stopped=isinstance(error, GraphBubbleUp))

    def _is_called(self, parent: UUID | None, ns: str) -> bool:
        """Whether a chain is that of a function, which another chain has called."""
        around = None if parent is None else self._chains.get(parent)
        return around is not None and ns.startswith(f"{around[1]}|")

    def _around(self, run_id: UUID | None) -> Iterator[UUID]:
        """The runs of LangChain around an attempt, the nearest first."""
        while run_id is not None:
            yield run_id
            run_id, _ = self._chains.get(run_id, (None, ""))

    def _ended(self, run_id: UUID) -> list[tuple[Runs, Run, str]]:
        """The runs in which an attempt was made that has ended, and where."""
        self._chains.pop(run_id, None)
        ns, found = self._attempts.pop(run_id, ("", []))
        return [(runs, run, ns) for runs, run in found]


_WATCH = _Watch()
register_configure_hook(ContextVar("agentmem_watch", default=_WATCH), inheritable=True)


def watch(runs: Runs) -> None:
    """Tell the runs of a database, from now on, which attempts begin and fail."""
    _WATCH.told.add(runs)
