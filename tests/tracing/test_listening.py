"""Detection of listeners: handlers, the environment and context variables."""

import sys
from unittest.mock import Mock

import pytest
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    UsageMetadataCallbackHandler,
    get_usage_metadata_callback,
)
from langchain_core.tracers.context import collect_runs
from langgraph.pregel._messages import StreamMessagesHandler

from langchain_agentmem import AgentMemory
from langchain_agentmem import tracing as tracing_module

from .conftest import forget_environment
from .trees import Collector


class Loud(BaseCallbackHandler):
    def on_chain_end(self, outputs, **_):
        """Hears what came of a run."""


class TestListeners:
    def test_model_and_graph_handlers_are_no_step_listeners(self):
        """Counting tokens, keeping calls and streaming messages must not cost what a tracer costs."""
        silent = [
            UsageMetadataCallbackHandler(), StreamMessagesHandler(lambda chunk: None, subgraphs=False),
            BaseCallbackHandler(), AsyncCallbackHandler(),
        ]  # fmt: skip
        assert not any(map(tracing_module.is_step_listener, silent))
        with AgentMemory() as memory:
            assert not tracing_module.is_step_listener(memory.audit.handler())
        assert all(map(tracing_module.is_step_listener, [Loud(), Collector(), Mock(ignore_steps=False), object()]))

    @pytest.mark.parametrize("name", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
    def test_environment_enables_tracing_before_langsmith_is_imported(self, monkeypatch, name):
        monkeypatch.delitem(sys.modules, "langsmith.utils")
        assert not tracing_module.may_be_traced(None)
        monkeypatch.setenv(name, "true")
        forget_environment()
        assert tracing_module.may_be_traced(None)

    def test_handlers_in_context_variables_are_found(self):
        with get_usage_metadata_callback():
            assert not tracing_module.may_be_traced(None)
        with collect_runs():
            assert tracing_module.may_be_traced(None)
        assert not tracing_module.may_be_traced(None)
