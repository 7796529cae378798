"""Memory of a step is stored once: after failures, retries, interrupts and cancellations."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from langgraph.config import get_config
from langgraph.func import task

from tests.support.waiting import cancelled

from .minds import AT, EMPTY, RETRY, failing


class TestRetries:
    def test_only_the_successful_attempts_memory_is_kept(self, mind):
        attempt, seen = failing(2), []

        def work(state):
            config = get_config()
            seen.append(mind.adapter.remembered(config))
            log = [mind.note("tried")]
            seen.append(mind.adapter.remembered(config))
            attempt()
            return {"log": [*log, mind.note("done")]}

        mind.run(mind.graph(work, **RETRY), EMPTY)
        assert seen == [[], ["tried 1"], [], ["tried 2"], [], ["tried 3"]]
        assert mind.held() == ["tried 3", "done 1"]

    @pytest.mark.parametrize("called", ["a subgraph", "a function"])
    @pytest.mark.parametrize("caller_remembers", ["before", "after", "never"])
    def test_only_the_last_call_of_a_retry_counts(self, mind, called, caller_remembers):
        attempt, inside = failing(2), mind.noting("inside")
        inner, function = mind.graph(inside, inner=True), task(inside)

        def work(state):
            log = [mind.note("before")] if caller_remembers == "before" else []
            log += (inner.invoke(EMPTY) if called == "a subgraph" else function({}).result())["log"]
            attempt()
            return {"log": [*log, mind.note("after")] if caller_remembers == "after" else log}

        mind.run(mind.graph(work, **RETRY), EMPTY)
        expected = {"before": ["before 3", "inside 3"], "after": ["inside 3", "after 1"], "never": ["inside 3"]}
        assert mind.held() == expected[caller_remembers]

    @pytest.mark.parametrize("handled", [False, True])
    def test_failed_attempts_leave_no_memory(self, mind, handled):
        attempt = failing(3 if handled else 2)

        def work(state):
            if mind.times.get("tried", 0) < 2:
                mind.note("tried")
            attempt()
            return EMPTY

        handler = {"error_handler": mind.noting("instead")} if handled else {}
        mind.run(mind.graph(work, mind.noting("after"), **RETRY, **handler), EMPTY)
        assert mind.times["tried"] == 2
        assert mind.held() == (["instead 1"] if handled else ["after 1"])

    def test_failed_attempts_leave_nothing_with_threaded_savers(self, mind, monkeypatch):
        attempt, saver, read = failing(1), mind.adapter.saver, mind.adapter.saver.get_tuple

        def work(state):
            if not mind.times:
                mind.note("tried")
            attempt()
            return EMPTY

        with ThreadPoolExecutor(1) as pool:
            monkeypatch.setattr(saver, "get_tuple", lambda config: pool.submit(read, config).result())
            monkeypatch.setattr(saver, "aget_tuple", partial(asyncio.to_thread, read))
            mind.run(mind.graph(work, **RETRY), EMPTY)
        assert mind.times == {"tried": 1}
        assert mind.held() == []


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_missing_checkpoint_keeps_the_steps_memory(mind, monkeypatch):
    def fails(saver, config, checkpoint, metadata, versions):
        if metadata["step"] == 1:
            raise ConnectionError
        return put(saver, config, checkpoint, metadata, versions)

    async def afails(saver, *given):
        return await asyncio.to_thread(fails, saver, *given)

    saver = type(mind.adapter.saver)
    put = saver.put
    with monkeypatch.context() as patch:
        patch.setattr(saver, "put", fails)
        patch.setattr(saver, "aput", afails)
        with pytest.raises(ConnectionError):
            mind.run(mind.graph(mind.noting("work")), EMPTY)
    mind.reopen()
    mind.run(mind.graph(mind.noting("work")), None)
    assert mind.times == {"work": 1}
    assert mind.held() == ["work 1"]


async def test_a_cancelled_run_leaves_no_memory(mind):
    waiting = asyncio.Event()

    async def work(state):
        log = [mind.note("work")]
        if not waiting.is_set():
            waiting.set()
            await asyncio.Event().wait()
        return {"log": log}

    graph = mind.graph(work)
    run = asyncio.create_task(graph.ainvoke(EMPTY, AT, durability=mind.durability))
    await waiting.wait()
    await cancelled(run)
    assert mind.held() == []
    begun = bool(list(mind.adapter.saver.list(AT)))
    await graph.ainvoke(None if begun else EMPTY, AT, durability=mind.durability)
    assert mind.held() == ["work 2"]
