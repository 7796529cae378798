"""Parents and children of steps."""

import asyncio
import contextvars
from functools import partial

import pytest
from langchain_core.globals import set_debug
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config

from langchain_agentmem.base.concurrency import run_in_worker, run_on_callers_loop

from .trees import remember, shape


class TestNesting:
    def test_steps_and_models_are_children_of_their_step(self, tracing, collector, tracer_config):
        with tracing.step("memory.compaction.run", config=tracer_config):
            remember(tracing)
            FakeListChatModel(responses=["short"]).invoke("summarize")

        assert collector.shapes == [
            ("memory.compaction.run", [("memory.conversation.add", []), ("FakeListChatModel", [])])
        ]

    def test_context_is_restored_after_a_step(self, tracing, collector, tracer_config):
        def twice(_):
            before = var_child_runnable_config.get()
            remember(tracing)
            assert var_child_runnable_config.get() is before
            remember(tracing)

        RunnableLambda(twice).with_config(run_name="chain").invoke(None, tracer_config)

        add = ("memory.conversation.add", [])
        assert collector.shapes == [("chain", [add, add])]
        assert var_child_runnable_config.get() is None

        with pytest.raises(ValueError), tracing.step("memory.conversation.add", config=tracer_config):
            raise ValueError

        assert var_child_runnable_config.get() is None

    async def test_parallel_tasks_nest_under_their_own_steps(self, tracing, collector, tracer_config):
        def part(name):
            with tracing.step(name):
                remember(tracing)

        async def parts():
            names = "memory.facts.extract", "memory.archival.write"
            await asyncio.gather(*(run_in_worker(partial(part, name)) for name in names))

        def work():
            with tracing.step("memory.compaction.run", config=tracer_config):
                run_on_callers_loop(parts)

        await run_in_worker(work)
        (run,) = collector.roots
        add = [("memory.conversation.add", [])]
        assert sorted(shape(child) for child in run.child_runs) == [
            ("memory.archival.write", add),
            ("memory.facts.extract", add),
        ]

    def test_step_closed_in_another_context_ends(self, tracing, collector, tracer_config):
        step = tracing.step("memory.conversation.add", config=tracer_config)
        contextvars.copy_context().run(step.__enter__)
        contextvars.copy_context().run(step.__exit__, None, None, None)

        assert collector.roots[0].end_time is not None

    def test_global_debug_flag_prints_steps(self, tracing, capsys):
        set_debug(True)
        try:
            remember(tracing)
        finally:
            set_debug(False)

        assert "memory.conversation.add" in capsys.readouterr().out
