"""A step remembers once: whatever fails, is retried, interrupted, cancelled or killed, its last execution counts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading

import pytest
from langgraph.config import get_config
from langgraph.errors import NodeTimeoutError
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, TimeoutPolicy, interrupt

from langchain_agentmem.errors import AgentMemoryError, StepIsOver

from .adapters import Real
from .graphs import attempt_of
from .minds import AT, RETRY, Mind, State, failing
from .oracle import World, state_of
from .processes import Processes
from .worlds import printed, random_script


class TestRetries:
    @pytest.mark.slow
    def test_of_a_node_that_fails_twice_the_third_attempt_counts(self, mind):
        attempt = failing(2)

        def work(state):
            log = [mind.note("tried")]
            attempt()
            return {"log": [*log, mind.note("done")]}

        mind.run(mind.graph(work, retry=RETRY), {"log": []})
        assert mind.held() == ["tried 3", "done 1"]

    @pytest.mark.slow
    def test_nothing_stays_where_the_last_attempt_remembers_nothing(self, mind):
        attempt = failing(2)

        def work(state):
            if (mind.times.get("tried") or 0) < 2:
                mind.note("tried")
            attempt()
            return {"log": []}

        def after(state):
            return {"log": [mind.note("after")]}

        mind.run(mind.graph(work, after, retry=RETRY), {"log": []})
        assert mind.times["tried"] == 2
        assert mind.held() == ["after 1"]

    @pytest.mark.slow
    def test_an_attempt_sees_nothing_of_the_one_before(self, mind):
        attempt, seen = failing(2), []

        def work(state):
            config = get_config()
            seen.append(mind.adapter.remembered(config))
            log = [mind.note("tried")]
            seen.append(mind.adapter.remembered(config))
            attempt()
            return {"log": log}

        mind.run(mind.graph(work, retry=RETRY), {"log": []})
        assert seen == [[], ["tried 1"], [], ["tried 2"], [], ["tried 3"]]

    @pytest.mark.slow
    @pytest.mark.parametrize("caller_remembers", [True, False])
    def test_of_a_subgraph_under_a_retried_node_the_last_run_counts(self, mind, caller_remembers):
        attempt = failing(2)

        def inside(state):
            return {"log": [mind.note("inside")]}

        inner = mind.graph(inside, inner=True)

        def work(state):
            log = [mind.note("before")] if caller_remembers else []
            log = inner.invoke({"log": log})["log"]
            attempt()
            return {"log": log}

        mind.run(mind.graph(work, retry=RETRY), {"log": []})
        assert mind.held() == ["before 3", "inside 3"] if caller_remembers else ["inside 3"]

    @pytest.mark.slow
    @pytest.mark.parametrize("caller_remembers", ["before", "after", "never"])
    def test_of_tasks_of_a_retried_node_those_that_the_last_attempt_called_count(self, mind, caller_remembers):
        attempt = failing(2)

        @task
        def piece():
            return mind.note("piece")

        def work(state):
            log = [mind.note("before")] if caller_remembers == "before" else []
            log.append(piece().result())
            attempt()
            return {"log": [*log, mind.note("after")] if caller_remembers == "after" else log}

        mind.run(mind.graph(work, retry=RETRY), {"log": []})
        expected = {"before": ["before 3", "piece 3"], "after": ["piece 3", "after 1"], "never": ["piece 3"]}
        assert mind.held() == expected[caller_remembers]

    @pytest.mark.slow
    def test_a_node_that_gave_up_leaves_nothing_and_its_handler_remembers(self, mind):
        def work(state):
            mind.note("tried")
            raise ConnectionError

        def instead(state):
            return {"log": [mind.note("instead")]}

        builder = StateGraph(State)
        builder.add_node("work", work, retry_policy=RETRY, error_handler=instead).add_edge(START, "work")
        mind.run(builder.compile(checkpointer=mind.adapter.saver), {"log": []})
        assert mind.times["tried"] == 3
        assert mind.held() == ["instead 1"]


class TestGoingOn:
    @pytest.mark.slow
    def test_after_an_interrupt_the_node_runs_again_and_remembers_once(self, mind):
        def work(state):
            log = [mind.note("asked")]
            interrupt("?")
            return {"log": [*log, mind.note("answered")]}

        mind.run(mind.graph(work), {"log": []})
        assert mind.held() == []
        mind.reopen()
        mind.run(mind.graph(work), Command(resume="yes"))
        assert mind.held() == ["asked 2", "answered 1"]

    @pytest.mark.slow
    def test_a_resumed_execution_that_remembers_nothing_leaves_nothing_of_the_one_before(self, mind):
        def work(state):
            if "asked" not in mind.times:
                mind.note("asked")
            interrupt("?")
            return {"log": []}

        graph = mind.graph(work)
        mind.run(graph, {"log": []})
        mind.run(graph, Command(resume="yes"))
        assert mind.held() == []

    @pytest.mark.slow
    def test_of_a_finished_task_nothing_stays_that_only_a_failed_attempt_used_again(self, mind):
        @task
        def piece():
            return mind.note("piece")

        def work(state):
            log = [piece().result()]
            if attempt_of(get_config()) == 1:
                interrupt("?")
                raise ConnectionError
            return {"log": log}

        graph = mind.graph(work, retry=RETRY)
        mind.run(graph, {"log": []})
        mind.reopen()
        mind.run(mind.graph(work, retry=RETRY), Command(resume="yes"))
        assert mind.held() == ["piece 2"]

    @pytest.mark.slow
    def test_a_subgraph_goes_on_from_what_another_had_remembered_before_an_interrupt(self, mind):
        def kept(state):
            return {"log": [mind.note("kept")]}

        def other(state):
            return {"log": [mind.note("other")]}

        first = mind.graph(kept, inner=True, saves=True)
        second = mind.graph(other, inner=True)

        def work(state):
            log = first.invoke({"log": []})["log"]
            interrupt("?")
            return {"log": second.invoke({"log": log})["log"]}

        mind.run(mind.graph(work), {"log": []})
        mind.reopen()
        mind.run(mind.graph(work), Command(resume="yes"))
        assert mind.held() == ["kept 1", "other 1"]
        for each in mind.adapter.saver.list(AT):  # those of subgraphs too
            assert mind.adapter.remembered(each.config) == state_of(each)

    @pytest.mark.slow
    def test_after_an_interrupt_in_a_subgraph_both_remember_once(self, mind):
        def inside(state):
            log = [mind.note("asked")]
            interrupt("?")
            return {"log": log}

        def first(state):
            return {"log": [mind.note("first")]}

        inner = mind.graph(first, inside, inner=True)

        def work(state):
            found = inner.invoke({"log": []})["log"]
            return {"log": [*found, mind.note("work")]}

        mind.run(mind.graph(work), {"log": []})
        mind.reopen()
        mind.run(mind.graph(work), Command(resume="yes"))
        assert mind.held() == ["first 1", "asked 2", "work 1"]

    @pytest.mark.slow
    def test_a_finished_sibling_is_not_run_again_and_keeps_its_memory(self, mind):
        attempt, finished = failing(1), threading.Event()

        def left(state):
            found = {"log": [mind.note("left")]}
            finished.set()
            return found

        def right(state):
            assert finished.wait(120)
            log = [mind.note("right")]
            attempt()
            return {"log": log}

        builder = StateGraph(State)
        for node in (left, right):
            builder.add_node(node).add_edge(START, node.__name__)
        graph = builder.compile(checkpointer=mind.adapter.saver)
        with pytest.raises(ConnectionError):
            mind.run(graph, {"log": []})
        assert mind.held() == []
        mind.run(graph, None)
        held = mind.held()
        assert held[-1] == "right 2"
        assert sorted(held) == sorted([f"left {mind.times['left']}", "right 2"])

    @pytest.mark.slow
    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_where_only_the_checkpoint_was_missing_all_of_its_step_counts(self, mind, monkeypatch):
        def fails(saver, config, checkpoint, metadata, versions):
            if metadata["step"] == 1:
                raise ConnectionError
            return put(saver, config, checkpoint, metadata, versions)

        async def afails(saver, *given):
            return await asyncio.to_thread(fails, saver, *given)

        def work(state):
            return {"log": [mind.note("work")]}

        saver = type(mind.adapter.saver)
        put = saver.put
        with monkeypatch.context() as patch:
            patch.setattr(saver, "put", fails)
            patch.setattr(saver, "aput", afails)
            with pytest.raises(ConnectionError):
                mind.run(mind.graph(work), {"log": []})
        mind.reopen()
        mind.run(mind.graph(work), None)
        assert mind.times == {"work": 1}
        assert mind.held() == ["work 1"]

    @pytest.mark.slow
    def test_what_somebody_updates_in_a_subgraph_that_waits_still_stands_on_what_was_there_before_it(self, mind):
        def first(state):
            return {"log": [mind.note("first")]}

        def inside(state):
            return {"log": [mind.note("inside")]}

        def ask(state):
            interrupt("?")
            return {"log": [mind.note("answered")]}

        inner = mind.graph(inside, ask, inner=True)
        graph = StateGraph(State).add_sequence([("first", first), ("inner", inner)]).add_edge(START, "first")
        graph = graph.compile(checkpointer=mind.adapter.saver)
        mind.run(graph, {"log": []})
        [waiting] = graph.get_state(AT, subgraphs=True).tasks
        updated = graph.update_state(waiting.state.config, {"log": ["by hand"]})
        assert mind.adapter.remembered(updated) == ["first 1", "inside 1"]
        mind.run(graph, Command(resume="yes"))
        assert mind.adapter.remembered(AT) == ["first 1", "inside 1", "answered 1"]

    @pytest.mark.slow
    def test_a_finished_task_is_not_run_again_and_keeps_its_memory(self, mind):
        @task
        def piece():
            return mind.note("piece")

        def work(given, previous):
            log = [*(previous or []), piece().result()]
            interrupt("?")
            return entrypoint.final(value=None, save=[*log, mind.note("work")])

        def function():
            @entrypoint(checkpointer=mind.adapter.saver)
            def function(given, *, previous=None):
                return work(given, previous)

            return function

        mind.run(function(), 1)
        assert mind.held() == []
        mind.reopen()
        mind.run(function(), Command(resume="yes"))
        mind.run(function(), 2)
        mind.run(function(), Command(resume="yes"))
        assert mind.times == {"piece": 2, "work": 2}
        assert mind.held() == ["piece 1", "work 1", "piece 2", "work 2"]


class TestBeingStopped:
    @pytest.fixture
    def mind(self, url, durability):
        mind = Mind(url, durability)
        yield mind
        mind.adapter.close()

    async def test_a_cancelled_run_leaves_nothing_and_the_next_remembers_once(self, mind):
        waiting = asyncio.Event()

        async def work(state):
            log = [mind.note("work")]
            if not waiting.is_set():
                waiting.set()
                await asyncio.sleep(60)
            return {"log": log}

        graph = mind.graph(work)
        run = asyncio.create_task(graph.ainvoke({"log": []}, AT, durability=mind.durability))
        await waiting.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert mind.held() == []
        begun = bool(list(mind.adapter.saver.list(AT)))
        await graph.ainvoke(None if begun else {"log": []}, AT, durability=mind.durability)
        assert mind.held() == ["work 2"]

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

        retry = RetryPolicy(initial_interval=0.0, max_attempts=3, jitter=False, retry_on=NodeTimeoutError)
        builder = StateGraph(State)
        builder.add_node("work", work, retry_policy=retry, timeout=TimeoutPolicy(run_timeout=1_800))
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke({"log": []}, AT, durability=mind.durability)
        assert mind.held() == ["work 3"]

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False])
    async def test_one_that_goes_on_when_it_was_given_up_leaves_nothing(self, mind, time_is_up, before):
        handled, over, refused = threading.Event(), threading.Event(), []

        def late(config):
            assert handled.wait(120)
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
            assert await asyncio.to_thread(over.wait, 120)
            return {"log": []}

        builder = StateGraph(State)
        builder.add_node("work", work, error_handler=instead, timeout=TimeoutPolicy(run_timeout=1_800))
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke({"log": []}, AT, durability=mind.durability)
        assert mind.held() == []
        assert len(refused) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False])
    async def test_a_handler_keeps_what_it_remembers_while_the_other_still_ends(self, mind, time_is_up, before):
        handled, over = asyncio.Event(), asyncio.Event()

        async def work(state):
            if before:
                mind.note("work")
            try:
                await time_is_up()
                await asyncio.sleep(60)
            finally:
                await handled.wait()
                over.set()

        async def instead(state):
            log = [mind.note("instead")]
            handled.set()
            await over.wait()
            await asyncio.sleep(0.1)
            return {"log": [*log, mind.note("again")]}

        builder = StateGraph(State)
        builder.add_node("work", work, error_handler=instead, timeout=TimeoutPolicy(run_timeout=1_800))
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        state = await graph.ainvoke({"log": []}, AT, durability=mind.durability)
        assert mind.held() == state["log"] == ["instead 1", "again 1"]

    @pytest.mark.slow
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
                await asyncio.sleep(60)
            await over.wait()
            return {"log": []}

        async def instead(state):
            return {"log": [mind.note("instead")]}

        async def after(state):
            over.set()
            return {"log": [mind.note("after")]}

        builder = StateGraph(State).add_node("after", after).add_edge("work", "after")
        builder.add_node("work", work, error_handler=instead, timeout=TimeoutPolicy(run_timeout=1_800))
        graph = builder.add_edge(START, "work").compile(checkpointer=mind.adapter.saver)
        state = await graph.ainvoke({"log": []}, AT, durability=mind.durability)
        assert mind.held() == state["log"]

    async def test_what_an_abandoned_attempt_remembers_later_is_refused_or_not_shown(self, mind, time_is_up):
        let_go, over, refused = threading.Event(), threading.Event(), []

        def late(config):
            assert let_go.wait(120)
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
            assert await asyncio.to_thread(over.wait, 120)
            return {"log": [mind.note("after")]}

        retry = RetryPolicy(initial_interval=0.0, max_attempts=3, jitter=False, retry_on=NodeTimeoutError)
        builder = StateGraph(State)
        builder.add_node("work", work, retry_policy=retry, timeout=TimeoutPolicy(run_timeout=1_800))
        builder.add_node("after", after).add_edge(START, "work").add_edge("work", "after")
        graph = builder.compile(checkpointer=mind.adapter.saver)
        await graph.ainvoke({"log": []}, AT, durability=mind.durability)
        assert mind.held() == ["work 2", "after 1"]
        assert all(isinstance(error, AgentMemoryError) for error in refused)


PLAN = [
    {"kind": "work", "look": "always", "ops": [["remember", 1, ""], ["flaky", 1], ["remember", 1, ""]]},
    {
        "kind": "two",
        "look": "always",
        "ops": [["remember", 1, ""], ["task", [[["remember", 1, ""]]]]],
        "right": [["call", [{"kind": "work", "look": "always", "ops": [["remember", 1, ""]]}]]],
    },
    {"kind": "work", "look": "always", "ops": [["remember", 1, ""]]},
]
REMEMBERED = 6
KILLS = {"sqlite": 10, "postgres": 4}
"""How many runs are killed for each durability; AGENTMEM_KILLS=1000 kills before every statement."""


@pytest.fixture(scope="module")
def processes():
    with Processes() as processes:
        yield processes


class TestKilling:
    """`kill -9` between any two statements, and then again: what state says is remembered, once."""

    def run(self, durability, plan=PLAN):
        action = {"do": "invoke", "thread": "graph 1", "awaited": False, "durability": durability}
        return action | {"plan": plan, "ops": []}

    def after_a_kill(self, processes, url, label, durability, last):
        """Kill a run before a statement, go on, and give what there is then."""
        world = World(Real(url), label)
        try:
            ended = processes.perform(world, self.run(durability), last)
            world.names = 1000  # whoever was killed told nobody which names it had given
            world.spaces, world.times = Unknown(str), Unknown(lambda: [0, 1 << 60])
            thread = f"{label}graph 1"
            world.stopped.add(thread)
            world.check([thread])
            world.perform(1, self.run(durability) | ({"do": "go"} if world.here(thread) else {}))
            world.check([thread])
            [latest, *_] = world.here(thread)
            return ended, world.differences, state_of(latest), world.adapter.remembered(latest.config)
        finally:
            world.close()

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_between_any_two_statements_and_running_again_remembers_once(
        self, kind, durability, new_database, processes
    ):
        url, numbers = new_database(kind), itertools.count()
        with contextlib.closing(World(Real(url), "whole ")) as world:
            count = processes.perform(world, self.run(durability))
            assert world.differences == []
        assert count is not None
        kills = int(os.environ.get("AGENTMEM_KILLS", KILLS[kind]))
        for last in sorted({count * each // kills for each in range(kills)}):
            label = f"{next(numbers)} "
            ended, differences, state, memory = self.after_a_kill(processes, url, label, durability, last)
            assert ended is None
            assert differences == []
            assert sorted(state) == sorted(memory)
            assert len(memory) == len(set(memory)) == REMEMBERED


class Unknown(dict):
    """What is known of names, and what is assumed of those that a killed process gave."""

    def __init__(self, assumed) -> None:
        super().__init__()
        self.assumed = assumed

    def __missing__(self, name):
        return self.assumed()


class TestASecondProcess:
    """Every second run is done by a process of its own, on the file that this one holds open."""

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("kind", "seeds"), [("sqlite", range(500, 505)), ("postgres", range(512, 514))])
    def test_each_knows_what_the_other_remembered(self, kind, seeds, new_database, processes):
        url = new_database(kind)
        for seed in seeds:
            world, script = World(Real(url), f"{seed} "), random_script(seed)
            with contextlib.closing(world):
                for number, action in enumerate(script["actions"]):
                    if number % 2:
                        processes.perform(world, action)
                    else:
                        world.perform(number, action)
                world.check(world.threads)
                assert world.differences == [], f"seed {seed}\n{printed(script)}"
