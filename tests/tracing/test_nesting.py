"""A step stands beneath what it happened in, and above what happened in it."""

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
    def test_steps_and_models_within_a_step_are_its_children(self, tracing, collector, traced_by):
        with tracing.step("memory.compaction.run", config=traced_by):
            remember(tracing)
            FakeListChatModel(responses=["short"]).invoke("summarize")

        assert collector.shapes == [
            ("memory.compaction.run", [("memory.conversation.add", []), ("FakeListChatModel", [])])
        ]

    def test_after_a_step_the_surroundings_are_as_before(self, tracing, collector, traced_by):
        def twice(_):
            before = var_child_runnable_config.get()
            remember(tracing)
            assert var_child_runnable_config.get() is before
            remember(tracing)

        RunnableLambda(twice).with_config(run_name="chain").invoke(None, traced_by)

        add = ("memory.conversation.add", [])
        assert collector.shapes == [("chain", [add, add])]
        assert var_child_runnable_config.get() is None

        with pytest.raises(ValueError), tracing.step("memory.conversation.add", config=traced_by):
            raise ValueError

        assert var_child_runnable_config.get() is None

    async def test_parallel_tasks_nest_each_under_its_own(self, tracing, collector, traced_by):
        def part(name):
            with tracing.step(name):
                remember(tracing)

        async def parts():
            names = "memory.facts.extract", "memory.archival.write"
            await asyncio.gather(*(run_in_worker(partial(part, name)) for name in names))

        def work():
            with tracing.step("memory.compaction.run", config=traced_by):
                run_on_callers_loop(parts)

        await run_in_worker(work)
        (run,) = collector.roots
        add = [("memory.conversation.add", [])]
        assert sorted(shape(child) for child in run.child_runs) == [
            ("memory.archival.write", add),
            ("memory.facts.extract", add),
        ]

    def test_a_step_closed_in_another_context_still_ends(self, tracing, collector, traced_by):
        step = tracing.step("memory.conversation.add", config=traced_by)
        contextvars.copy_context().run(step.__enter__)
        contextvars.copy_context().run(step.__exit__, None, None, None)

        assert collector.roots[0].end_time is not None

    def test_the_global_debug_switch_shows_steps(self, tracing, capsys):
        set_debug(True)
        try:
            remember(tracing)
        finally:
            set_debug(False)

        assert "memory.conversation.add" in capsys.readouterr().out
