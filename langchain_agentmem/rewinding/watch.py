"""LangGraph retries a node without telling its saver. LangChain's callbacks do tell.

An attempt that remembered something, failed, and whose successor remembers nothing would otherwise be kept. The hook is
LangChain's public one, and costs some 20 µs for each node of a graph. An attempt is the outermost chain of its task.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from langgraph.errors import ParentCommand

from langchain_agentmem.rewinding.runs import Run, Runs


class _Watch(BaseCallbackHandler):
    """Hears of the attempts of all nodes and functions of all graphs in this process."""

    run_inline = hears_nodes_only = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_agent = ignore_custom_event = ignore_retry = True

    def __init__(self) -> None:
        self.told: weakref.WeakSet[Runs] = weakref.WeakSet()
        self._attempts: dict[UUID, tuple[str, list[tuple[Runs, Run]]]] = {}
        self._known: dict[UUID, tuple[str, UUID | None]] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del serialized, inputs, rest
        ns = metadata.get("langgraph_checkpoint_ns") if metadata else None
        if ns is None or metadata is None:
            return
        self._known[run_id] = ns, parent_run_id
        if parent_run_id is not None and self._known.get(parent_run_id, ("", None))[0] == ns:
            return  # something that an attempt does, and not one itself
        graphs, thread = list(self._around(parent_run_id)), str(metadata.get("thread_id"))
        found = [(runs, run) for runs in list(self.told) if (run := runs.watched(graphs, thread)) is not None]
        self._attempts[run_id] = ns, found
        for runs, run in found:
            runs.started(run, ns, metadata.get("langgraph_step"))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        del outputs, rest
        self._ended(run_id, failed=False)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        self._ended(run_id, failed=not isinstance(error, ParentCommand))

    def _around(self, run_id: UUID | None) -> Iterator[UUID]:
        """The runs of LangChain around an attempt, the nearest first."""
        while run_id is not None:
            yield run_id
            _, run_id = self._known.get(run_id, ("", None))

    def _ended(self, run_id: UUID, *, failed: bool) -> None:
        self._known.pop(run_id, None)
        ns, found = self._attempts.pop(run_id, ("", []))
        for runs, run in found:
            (runs.failed if failed else runs.ended)(run, ns)


_WATCH = _Watch()
register_configure_hook(ContextVar("agentmem_watch", default=_WATCH), inheritable=True)


def watch(runs: Runs) -> None:
    """Tell the runs of a database, from now on, which attempts begin and fail."""
    _WATCH.told.add(runs)
