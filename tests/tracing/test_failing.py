"""Failing listeners do not change the traced operation."""

import logging

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from langchain_agentmem import tracing as tracing_module
from langchain_agentmem.tracing import logger

from .trees import aremember, remember


def unreadable():
    raise LookupError("this cannot be read")


def complaints(caplog):
    return [r for r in caplog.records if r.name == logger.name and r.levelno == logging.WARNING]


class Broken(BaseCallbackHandler):
    """Fails at every turn, and asks that its failures be raised."""

    raise_error = True

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return self.fail
        return super().__getattribute__(name)

    def fail(self, *args, **kwargs):
        raise RuntimeError("broken handler")


class BrokenAsync(AsyncCallbackHandler):
    raise_error = True

    async def on_chain_start(self, *args, **kwargs):
        raise RuntimeError("broken handler")

    on_chain_end = on_chain_start


class TestFailingListeners:
    async def test_failing_handler_breaks_no_operation(self, tracing):
        for broken in (Broken, BrokenAsync):
            remember(tracing, config={"callbacks": [broken()]})
            await aremember(tracing, config={"callbacks": [broken()]})

    def test_operation_error_survives_a_failing_handler(self, tracing):
        with (
            pytest.raises(ValueError, match="mine"),
            tracing.step("memory.conversation.add", config={"callbacks": [Broken()]}),
        ):
            raise ValueError("mine")

    def test_unreadable_values_are_omitted_and_logged_once(self, tracing, collector, tracer_config, caplog):
        for _ in range(2):
            with tracing.step("memory.conversation.add", inputs=unreadable, config=tracer_config) as step:
                step.finish(unreadable)

        assert [(run.inputs, run.outputs) for run in collector.roots] == [({}, {})] * 2
        (record, _) = complaints(caplog)
        assert "inputs of memory.conversation.add" in record.getMessage()
        assert record.exc_info[0] is LookupError

    @pytest.mark.parametrize("turn", ["build_manager", "start_run", "set_parent_run", "end_run"])
    def test_failing_tracing_mechanism_is_logged_once(self, tracing, tracer_config, monkeypatch, caplog, turn):
        def fail(*args, **kwargs):
            raise RuntimeError("the mechanism")

        monkeypatch.setattr(tracing_module, turn, fail)
        for _ in range(2):
            with tracing.step("memory.conversation.add", config=tracer_config):
                done = True

        assert done
        assert len(complaints(caplog)) == 1
        assert var_child_runnable_config.get() is None
