"""Whoever may be listening is found where listeners can be; where that cannot be told, the answer is "maybe"."""

import sys
from types import ModuleType
from unittest.mock import Mock

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, UsageMetadataCallbackHandler
from langgraph.pregel._messages import StreamMessagesHandler

from langchain_agentmem import AgentMemory
from langchain_agentmem import tracing as tracing_module

from .conftest import forget_environment
from .trees import Collector


class Loud(BaseCallbackHandler):
    def on_tool_end(self, output, **_):
        """Hears what tools gave back."""


class TestListeners:
    def test_those_who_hear_only_models_or_only_graphs_are_nobody(self):
        """Counting tokens, keeping calls and streaming messages must not cost what a tracer costs."""
        silent = [
            UsageMetadataCallbackHandler(), StreamMessagesHandler(lambda chunk: None, subgraphs=False),
            BaseCallbackHandler(), AsyncCallbackHandler(),
        ]  # fmt: skip
        assert not any(map(tracing_module.listens, silent))
        with AgentMemory() as memory:
            assert not tracing_module.listens(memory.audit.handler())
        assert all(map(tracing_module.listens, [Loud(), Collector(), Mock(hears_nodes_only=False), object()]))

    def test_a_library_that_has_moved_its_switches_is_asked_itself(self, tracing, monkeypatch):
        monkeypatch.setitem(sys.modules, "langsmith._internal._context", ModuleType("moved"))
        assert tracing_module.may_be_traced(None)

    @pytest.mark.parametrize("name", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
    def test_the_environment_is_heard_before_langsmith_is_loaded(self, monkeypatch, name):
        assert not tracing_module._langsmith_may_listen({})
        monkeypatch.setenv(name, "true")
        forget_environment()
        assert tracing_module._langsmith_may_listen({})
