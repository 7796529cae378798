"""Concurrent runs, attempts and copies: each owns its memory."""

import asyncio
import contextlib
import contextvars
import itertools
import threading

import pytest
from langgraph.config import get_config
from langgraph.func import task
from langgraph.types import interrupt

from langchain_agentmem.errors import StepIsOver
from tests.rewinding.graphs import attempt_of
from tests.rewinding.minds import AT, EMPTY, PATIENCE, RETRY, Late, Mind, resumed
from tests.support.graphs import at
from tests.support.waiting import cancelled


class TestConcurrentRuns:
    """LangGraph lets two runs of the same step continue, each on its own branch."""

    @pytest.mark.parametrize("durability", ["sync"])  # what the graph has done must be stored when the other calls it
    def test_a_called_graph_shows_memory_of_its_caller(self, mind, durability):
        """LangGraph resumes it from the newest checkpoint of its task, whichever run put it."""
        waits, over, turns, looks = threading.Event(), threading.Event(), itertools.count(), []

        def around(state):
            turn = next(turns)
            assert turn == 0 or waits.wait(PATIENCE)
            log = [mind.note("around")]
            found = inner.invoke({"log": log})["log"]
            assert turn or over.wait(PATIENCE)
            return {"log": [*log, *(name for name in found if "around" not in name)]}

        def inside(state):
            config = get_config()
            checkpoint = config["configurable"]["__pregel_runtime"].execution_info.checkpoint_id
            looks.append([checkpoint, state["log"], sorted(mind.adapter.remembered(config))])
            if len(looks) == 1:
                waits.set()
                assert over.wait(PATIENCE)
            else:
                over.set()
            return {"log": [mind.note("inside")]}

        inner = mind.graph(mind.noting("before"), inside, inner=True)
        graph = mind.graph(around, mind.noting("after"))
        graph.update_state(AT, EMPTY, as_node="__start__")
        assert mind.at_once((graph, None), (graph, None)) == [None, None]
        (checkpoint, *first), second = looks
        assert first == [["around 1", "before 1"], ["around 1", "before 1"]]
        assert second == [checkpoint, ["around 1", "before 1"], ["around 2", "before 1"]]
        mind.held()
        ends = sorted(sorted(name for name in end if "after" not in name) for end in mind.ends())
        assert ends == [["around 1", "before 1", "inside 2"], ["around 2", "before 1", "inside 1"]]

    @pytest.mark.parametrize("called", [False, True], ids=["it remembers", "its task remembers"])
    @pytest.mark.parametrize("retried", [False, True], ids=["fails", "is retried"])
    @pytest.mark.parametrize("threads", [("t", "t"), ("t", "copy")], ids=["one thread", "a copy"])
    def test_a_failing_run_does_not_affect_a_concurrent_run(self, mind, threads, retried, called):
        """A copied thread has the checkpoints of the thread, and so its tasks have the same ids."""
        noted, over, turns = threading.Barrier(2), threading.Event(), itertools.count()

        @task
        def piece():
            return mind.note("work")

        def work(state):
            interrupt("?")
            log = [piece().result() if called else mind.note("work")]
            if attempt_of(get_config()) > 1:
                over.set()
            else:
                noted.wait(PATIENCE)
                if next(turns) == 0:
                    if not retried:
                        over.set()
                    raise ConnectionError
            assert over.wait(PATIENCE)
            return {"log": [*log, mind.note("more")]}

        graph = mind.graph(work, **(RETRY if retried else {}))
        mind.run(graph, EMPTY)
        mind.adapter.saver.copy_thread("t", "copy")
        ends = mind.at_once(*((graph, resumed(), at(thread)) for thread in threads))
        assert [type(end) for end in ends if end is not None] == [ConnectionError] * (not retried)
        for thread in threads:
            mind.held(at(thread))
        kept = [end for thread in {*threads} for end in mind.ends(at(thread)) if end]
        assert [len(end) for end in kept] == ([2, 2] if retried else [2])
        assert len({*itertools.chain(*kept)}) == 2 * len(kept)


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("before", [True, False], ids=["remembered before", "remembers late only"])
class TestZombies:
    """A blocking function cannot be cancelled: its run ends, but its thread continues."""

    @pytest.fixture
    def mind(self, url, durability):
        with contextlib.closing(Mind(url, durability)) as mind:
            yield mind

    @pytest.fixture
    def zombie(self, mind, before):
        """Wait once in its node and return the noted ids."""
        zombie = Late(mind)

        def wait():
            log = [mind.note("zombie")] if before else []
            return {"log": [*log, *zombie.note(get_config(), 2)]}

        zombie.wait = wait
        yield zombie
        zombie.let_go.set()

    async def again(self, mind, zombie, graph):
        """Cancel a run while the zombie waits in it, and return a function that calls the graph again."""
        run = asyncio.create_task(graph.ainvoke(EMPTY, AT, durability=mind.durability))
        assert await asyncio.to_thread(zombie.begun.wait, PATIENCE)
        await cancelled(run)
        begun = bool(list(mind.adapter.saver.list(AT)))
        return lambda: graph.ainvoke(None if begun else EMPTY, AT, durability=mind.durability)

    @pytest.mark.parametrize("when", ["before the next run", "before it remembers", "in its middle", "after it"])
    async def test_writes_of_a_superseded_execution_are_rejected(self, mind, zombie, when):
        def work(state):
            if not zombie.begun.is_set():
                return zombie.wait()
            if when == "before it remembers":
                zombie.goes_on()
            log = [mind.note("work")]
            if when == "in its middle":
                zombie.goes_on()
                assert mind.adapter.remembered(get_config()) == ["work 1"]
            return {"log": [*log, mind.note("more")]}

        call = await self.again(mind, zombie, mind.graph(work))
        if when == "before the next run":
            zombie.goes_on()
        await call()
        zombie.goes_on()
        assert mind.held() == ["work 1", "more 1"]
        assert len(zombie.refused) == 2


@pytest.mark.sqlite_suffices
class TestLateTasks:
    """A `@task` of a failed attempt may still run after the next attempt has finished."""

    @pytest.mark.parametrize("before", [True, False], ids=["remembered before", "remembers late only"])
    def test_writes_of_a_superseded_execution_are_rejected(self, mind, before):
        late = Late(mind)

        @task
        def slow():
            if late.begun.is_set():
                return [mind.note("slow")]
            return [*([mind.note("early")] if before else []), *late.note(get_config())]

        def work(state):
            found = slow()
            if attempt_of(get_config()) == 1:
                assert late.begun.wait(PATIENCE)
                raise ConnectionError
            log = found.result()
            late.goes_on()
            return {"log": [*log, mind.note("work")]}

        mind.run(mind.graph(work, **RETRY), EMPTY)
        assert mind.held() == ["slow 1", "work 1"]
        assert len(late.refused) == 1

    def test_a_former_attempts_subgraph_cannot_read_or_write(self, mind):
        late, callers = Late(mind), []

        def inside(state):
            if late.begun.is_set():
                return {"log": [mind.note("inside")]}
            config = get_config()
            late.note(config)
            with pytest.raises(StepIsOver):
                mind.adapter.remembered(config)
            late.refused.append("a look")
            return EMPTY

        inner = mind.graph(inside, inner=True)

        def work(state):
            if attempt_of(get_config()) == 1:
                callers.append(threading.Thread(target=contextvars.copy_context().run, args=(inner.invoke, EMPTY)))
                callers[0].start()
                assert late.begun.wait(PATIENCE)
                raise ConnectionError
            log = [mind.note("work")]
            late.let_go.set()
            callers[0].join(PATIENCE)
            return {"log": [*log, *inner.invoke(EMPTY)["log"]]}

        mind.run(mind.graph(work, **RETRY), EMPTY)
        assert len(late.refused) == 2
        assert mind.held() == ["work 1", "inside 1"]
