"""LangGraph retries a node without telling its saver. LangChain's callbacks do tell.

An attempt that remembered something, failed, and whose successor remembers nothing would otherwise be kept. The hook is
LangChain's public one, and costs some 20 µs for each node of a graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from langgraph.errors import ParentCommand

from langchain_agentmem.rewinding.runs import Runs


class _Watch(BaseCallbackHandler):
    """Hears of the attempts of all nodes of all graphs in this process."""

    run_inline = hears_nodes_only = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_agent = ignore_custom_event = ignore_retry = True

    def __init__(self) -> None:
        self.told: weakref.WeakSet[Runs] = weakref.WeakSet()
        self._attempts: dict[UUID, str] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del serialized, inputs, rest
        ns = metadata.get("langgraph_checkpoint_ns") if metadata else None
        if ns is None or metadata is None or not any(tag.startswith("graph:step:") for tag in tags or ()):
            return
        self._attempts[run_id] = ns
        for runs in list(self.told):
            runs.started(str(metadata.get("thread_id")), ns, metadata.get("langgraph_step"))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        del outputs, rest
        self._attempts.pop(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        ns = self._attempts.pop(run_id, None)
        if ns is not None and not isinstance(error, ParentCommand):
            for runs in list(self.told):
                runs.failed(ns)


_WATCH = _Watch()
register_configure_hook(ContextVar("agentmem_watch", default=_WATCH), inheritable=True)


def watch(runs: Runs) -> None:
    """Tell the runs of a database, from now on, which attempts begin and fail."""
    _WATCH.told.add(runs)
