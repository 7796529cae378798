"""What is given up, by a timeout or a cancellation, may go on for a while: it adds nothing to what counts."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from langgraph.config import get_config
from langgraph.errors import NodeTimeoutError
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, TimeoutPolicy

from langchain_agentmem.errors import AgentMemoryError, StepIsOver
from tests.rewinding.minds import AT, EMPTY, PATIENCE, Mind, State

UP = TimeoutPolicy(run_timeout=1_800)
RETRY = RetryPolicy(initial_interval=0.0, max_attempts=3, jitter=False, retry_on=NodeTimeoutError)


class TestBeingGivenUp:
    @pytest.fixture
    def mind(self, url, durability):
        mind = Mind(url, durability)
        yield mind
        mind.close()

    @pytest.fixture
    async def time_is_up(self):
        """Lets an hour pass for whoever waits on the running loop."""
        loop = asyncio.get_running_loop()
        clock, late = loop.time, 0

        async def pass_an_hour():
            nonlocal late
            await asyncio.sleep(0)  # whoever was to wait has begun to
            late += 3_600

        loop.time = lambda: clock() + late
        return pass_an_hour

    async def test_an_attempt_that_ran_out_of_time_leaves_nothing(self, mind, time_is_up):
        async def work(state):
            log = [mind.note("work")]
            if mind.times["work"] < 3:
                await time_is_up()
                await asyncio.Event().wait()
            return {"log": log}

        builder = StateGraph(State)
        builder.add_node("work", work, retry_policy=RETRY, timeout=UP)
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        assert mind.held() == ["work 3"]

    @pytest.mark.parametrize("before", [True, False])
    async def test_one_that_goes_on_when_it_was_given_up_leaves_nothing(self, mind, time_is_up, before):
        handled, over, refused = threading.Event(), threading.Event(), []

        def late(config):
            assert handled.wait(PATIENCE)
            try:
                mind.note("late", config)
            except StepIsOver as error:
                refused.append(error)
            over.set()

        async def work(state):
            log = [mind.note("work")] if before else []
            with contextlib.suppress(asyncio.CancelledError):
                await time_is_up()
                await asyncio.to_thread(late, get_config())
            return {"log": log}

        async def instead(state):
            handled.set()
            assert await asyncio.to_thread(over.wait, PATIENCE)
            return EMPTY

        builder = StateGraph(State)
        builder.add_node("work", work, error_handler=instead, timeout=UP)
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        assert mind.held() == []
        assert len(refused) == 1

    @pytest.mark.parametrize("before", [True, False])
    async def test_a_handler_keeps_what_it_remembers_while_the_other_still_ends(self, mind, time_is_up, before):
        handled, over = asyncio.Event(), asyncio.Event()

        async def work(state):
            if before:
                mind.note("work")
            try:
                await time_is_up()
                await asyncio.Event().wait()
            finally:
                await handled.wait()
                over.set()

        async def instead(state):
            log = [mind.note("instead")]
            handled.set()
            await over.wait()
            for _ in range(20):  # the other ends meanwhile
                await asyncio.sleep(0)
            return {"log": [*log, mind.note("again")]}

        builder = StateGraph(State)
        builder.add_node("work", work, error_handler=instead, timeout=UP)
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        state = await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        assert mind.held() == state["log"] == ["instead 1", "again 1"]

    @pytest.mark.parametrize("called", ["a function", "a subgraph"])
    async def test_what_one_called_that_was_given_up_goes_with_it(self, mind, time_is_up, called):
        over = asyncio.Event()

        async def leaf(state):
            return {"log": [mind.note("leaf")]}

        below = StateGraph(State).add_node("leaf", leaf).add_edge(START, "leaf").compile()
        function = task(leaf)

        async def work(state):
            await (function({}) if called == "a function" else below.ainvoke({"log": []}))
            with contextlib.suppress(asyncio.CancelledError):
                await time_is_up()
                await asyncio.Event().wait()
            await over.wait()
            return EMPTY

        async def instead(state):
            return {"log": [mind.note("instead")]}

        async def after(state):
            over.set()
            return {"log": [mind.note("after")]}

        builder = StateGraph(State).add_node("after", after).add_edge("work", "after")
        builder.add_node("work", work, error_handler=instead, timeout=UP)
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        state = await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        assert mind.held() == state["log"]

    async def test_what_an_abandoned_attempt_remembers_later_is_refused_or_not_shown(self, mind, time_is_up):
        let_go, over, refused = threading.Event(), threading.Event(), []

        def late(config):
            assert let_go.wait(PATIENCE)
            try:
                mind.note("late", config)
            except Exception as error:  # noqa: BLE001 - the assertion says which it may be
                refused.append(error)
            over.set()

        async def work(state):
            log = [mind.note("work")]
            if mind.times["work"] == 1:
                await time_is_up()
                await asyncio.to_thread(late, get_config())
            return {"log": log}

        async def after(state):
            let_go.set()
            assert await asyncio.to_thread(over.wait, PATIENCE)
            return {"log": [mind.note("after")]}

        builder = StateGraph(State)
        builder.add_node("work", work, retry_policy=RETRY, timeout=UP)
        builder.add_node("after", after).add_edge(START, "work").add_edge("work", "after")
        graph = builder.compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        assert mind.held() == ["work 2", "after 1"]
        assert all(isinstance(error, AgentMemoryError) for error in refused)
