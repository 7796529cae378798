"""Executions that continue after a timeout or cancellation add nothing to memory."""

import asyncio
import contextlib

import pytest
from langgraph.config import get_config
from langgraph.errors import NodeTimeoutError
from langgraph.func import task
from langgraph.types import RetryPolicy, TimeoutPolicy

from tests.rewinding.minds import AT, EMPTY, PATIENCE, Late, Mind

TIMEOUT_SETTINGS = {"timeout": TimeoutPolicy(run_timeout=1_800)}
RETRY = RetryPolicy(initial_interval=0.0, max_attempts=3, jitter=False, retry_on=NodeTimeoutError)


@pytest.fixture
def mind(url, durability):
    with contextlib.closing(Mind(url, durability)) as mind:
        yield mind


@pytest.fixture
async def pass_an_hour_of_loop_time():
    """Return a function that advances the clock of the running loop by an hour."""
    loop = asyncio.get_running_loop()
    clock, late = loop.time, 0

    async def pass_an_hour():
        nonlocal late
        await asyncio.sleep(0)  # whoever was to wait has begun to
        late += 3_600

    loop.time = lambda: clock() + late
    return pass_an_hour


async def ended(mind, *nodes, **settings):
    """Run nodes with a timeout of half an hour, check memory, and return the log of the state."""
    state = await mind.graph(*nodes, **TIMEOUT_SETTINGS, **settings).ainvoke(EMPTY, AT, durability=mind.durability)
    assert mind.held() == state["log"]
    return state["log"]


@pytest.mark.parametrize("before", [True, False])
async def test_writes_after_a_timeout_are_rejected(mind, pass_an_hour_of_loop_time, before):
    late = Late(mind)

    async def work(state):
        log = [mind.note("work")] if before else []
        with contextlib.suppress(asyncio.CancelledError):
            await pass_an_hour_of_loop_time()
            await asyncio.to_thread(late.note, get_config())
        return {"log": log}

    async def instead(state):
        await asyncio.to_thread(late.goes_on)
        return EMPTY

    assert await ended(mind, work, error_handler=instead) == []
    assert len(late.refused) == 1


@pytest.mark.parametrize("before", [True, False])
async def test_an_error_handler_keeps_its_own_writes(mind, pass_an_hour_of_loop_time, before):
    handled, over = asyncio.Event(), asyncio.Event()

    async def work(state):
        if before:
            mind.note("work")
        try:
            await pass_an_hour_of_loop_time()
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

    assert await ended(mind, work, error_handler=instead) == ["instead 1", "again 1"]


@pytest.mark.parametrize("called", ["a function", "a subgraph"])
async def test_a_timed_out_nodes_callees_are_discarded(mind, pass_an_hour_of_loop_time, called):
    over = asyncio.Event()

    async def leaf(state):
        return {"log": [mind.note("leaf")]}

    async def instead(state):
        over.set()
        return {"log": [mind.note("instead")]}

    below, function = mind.graph(leaf, inner=True), task(leaf)

    async def work(state):
        await (function({}) if called == "a function" else below.ainvoke(EMPTY))
        with contextlib.suppress(asyncio.CancelledError):
            await pass_an_hour_of_loop_time()
            await asyncio.Event().wait()
        await over.wait()
        return EMPTY

    assert await ended(mind, work, error_handler=instead) == ["instead 1"]


async def test_a_timed_out_attempt_leaves_no_memory(mind, pass_an_hour_of_loop_time):
    late = Late(mind)

    async def work(state):
        log = [mind.note("work")]
        if mind.times["work"] == 1:
            await pass_an_hour_of_loop_time()
            await asyncio.to_thread(late.note, get_config())
        return {"log": log}

    async def after(state):
        late.let_go.set()
        assert await asyncio.to_thread(late.over.wait, PATIENCE)
        return {"log": [mind.note("after")]}

    assert await ended(mind, work, after, retry_policy=RETRY) == ["work 2", "after 1"]
