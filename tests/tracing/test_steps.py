"""Steps as runs, with and without listeners."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langsmith import tracing_context
from langsmith.utils import get_env_var

from langchain_agentmem import tracing as tracing_module
from langchain_agentmem.base.concurrency import run_in_worker, run_on_callers_loop
from langchain_agentmem.base.hooks import Hooks
from langchain_agentmem.tracing import NULL_STEP, Tracing
from tests.support.waiting import cancelled

from .trees import aremember, never, remember


class TestWithoutListeners:
    def test_inputs_and_outputs_are_not_computed_without_listeners(self, tracing):
        with tracing.step("memory.conversation.add", inputs=never) as step:
            step.finish(never)

        assert not step.has_listeners

    def test_null_step_is_not_recorded(self, collector, tracer_config, heard):
        tracing = Tracing(Hooks([heard.append]))
        with tracing.step("memory.recall.inject", config=tracer_config), NULL_STEP as step:
            step.finish(never)

        assert collector.shapes == [("memory.recall.inject", [])]
        assert {event.name for event in heard} == {"memory.recall.inject"}

    def test_disabled_langsmith_context_records_nothing(self, tracing, monkeypatch):
        steps = []
        RunnableLambda(lambda _: steps.append(remember(tracing))).invoke(None)
        assert not steps[0].has_listeners
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        get_env_var.cache_clear()
        with tracing_context(enabled=False):
            assert not remember(tracing).has_listeners
            assert not tracing_module.may_be_traced(None)

    def test_possible_tracer_without_handlers_computes_nothing(self, tracing, monkeypatch):
        monkeypatch.setattr(tracing_module, "may_be_traced", lambda config: True)
        with tracing.step("memory.conversation.add", inputs=never) as step:
            step.finish(never)


class TestRuns:
    def test_step_is_a_run_with_inputs_and_outputs(self, tracing, collector, tracer_config):
        remember(tracing, config=tracer_config)

        (run,) = collector.roots
        assert (run.name, run.run_type, run.error) == ("memory.conversation.add", "chain", None)
        assert run.inputs == {"messages": 2}
        assert run.outputs == {"ids": ["m1", "m2"]}
        assert run.extra["metadata"] == {"agentmem_database": "sqlite"}

    def test_metadata_has_namespace_thread_and_checkpoint(self, tracing, collector):
        configurable = {"thread_id": "t", "agentmem_namespace": ("ada", "work"), "checkpoint_id": "c1"}
        config = {"configurable": configurable, "callbacks": [collector]}
        given = {"namespace": ("bob",), "thread_id": "u", "conversation_id": "v", "branch": "b"}
        remember(tracing, config=config)
        with tracing.step("memory.thread.fork", inputs=lambda: given, config=config):
            pass

        of_config, of_inputs = (run.extra["metadata"] for run in collector.roots)
        told = {"thread_id": "t", "agentmem_namespace": "ada/work", "checkpoint_id": "c1"}
        assert of_config == {"agentmem_database": "sqlite", **told}
        told = {"agentmem_namespace": "bob", "thread_id": "u", "conversation_id": "v", "agentmem_branch": "b"}
        assert of_inputs == of_config | told

    def test_search_is_a_retriever_run_with_documents(self, tracing, collector, tracer_config):
        given = [{"page_content": "a cat", "metadata": {"score": 0.5}, "id": "m1"}, Document("two cats", id="m2")]
        options = {"run_type": "retriever", "inputs": lambda: {"query": "cats", "limit": 2}, "config": tracer_config}
        with tracing.step("memory.recall.search", **options) as step:
            step.finish(lambda: {"documents": given})

        (run,) = collector.roots
        assert (run.run_type, run.inputs, run.extra["metadata"]["limit"]) == ("retriever", {"query": "cats"}, 2)
        first = Document("a cat", metadata={"score": 0.5}, id="m1")
        assert run.outputs == {"documents": [first, Document("two cats", id="m2")]}

    @pytest.mark.parametrize("run_type", ["chain", "retriever"])
    async def test_async_steps_match_and_errors_pass_unchanged(self, tracing, collector, tracer_config, run_type):
        await aremember(tracing, run_type=run_type, config=tracer_config)
        remember(tracing, run_type=run_type, config=tracer_config)
        mine = ValueError("mine")

        def fail():
            with tracing.step("memory.conversation.add", run_type=run_type, config=tracer_config) as step:
                step.finish(never)
                raise mine

        with pytest.raises(ValueError) as raised:
            fail()

        assert raised.value is mine
        assert mine.__context__ is None
        asynchronous, synchronous, failed = collector.roots
        assert asynchronous.run_type == run_type
        assert (asynchronous.inputs, asynchronous.outputs) == (synchronous.inputs, synchronous.outputs)
        assert "mine" in failed.error

    async def test_cancelled_step_is_recorded(self, tracing, collector, tracer_config, heard):
        begun = asyncio.Event()
        tracing = Tracing(Hooks([heard.append]))

        async def wait():
            begun.set()
            await asyncio.Event().wait()

        def operation():
            with tracing.step("memory.conversation.add", config=tracer_config):
                run_on_callers_loop(wait)

        task = asyncio.create_task(run_in_worker(operation))
        await begun.wait()
        await cancelled(task)

        assert "CancelledError" in collector.roots[0].error
        assert isinstance(heard[-1].error, asyncio.CancelledError)
