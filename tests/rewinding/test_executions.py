"""An execution owns what it remembers: neither another run of the same step nor another attempt takes or adds to it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
import uuid
from types import SimpleNamespace

import pytest
from langgraph.config import get_config
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import StepIsOver
from langchain_agentmem.rewinding import graph_runs
from langchain_agentmem.rewinding.sealing import group_for

from .graphs import attempt_of
from .minds import AT, EMPTY, PATIENCE, RETRY, Mind, State, failing


def at(thread, **more):
    return {"configurable": {"thread_id": thread, **more}}


def resumed(answer="yes"):
    return Command(resume=answer)


class Caller:
    """A node or a function that is retried, and what it does: that gives the ids of what was remembered."""

    def __init__(self, mind, kind, body):
        self.mind, self.kind, self.body = mind, kind, body

    def made(self):
        """The graph or the function, on the memory as it is open now."""
        if self.kind == "node":

            def work(state):
                return {"log": self.body()}

            return self.mind.graph(work, retry=RETRY)

        @entrypoint(checkpointer=self.mind.adapter.saver, retry_policy=RETRY)
        def function(given, *, previous=None):
            return entrypoint.final(value=None, save=[*(previous or []), *self.body()])

        return function

    def begin(self):
        self.mind.run(self.made(), EMPTY)

    def resume(self):
        self.mind.run(self.made(), resumed())


@pytest.fixture(params=["node", "function"])
def caller(request, mind):
    return lambda body: Caller(mind, request.param, body)


@pytest.fixture(params=[False, True], ids=["still open", "opened again"])
def reopen(request, mind):
    return mind.reopen if request.param else lambda: None


@pytest.mark.sqlite_suffices
class TestFunctionsThatFail:
    """What is remembered by an attempt of a `@task` that fails counts no more, whoever catches the error."""

    def test_what_one_remembered_is_dropped_where_its_caller_goes_on(self, mind, caller):
        @task
        def fails():
            mind.note("in vain")
            raise ConnectionError

        def body():
            with pytest.raises(ConnectionError):
                fails().result()
            return [mind.note("caller")]

        caller(body).begin()
        assert mind.held() == ["caller 1"]

    def test_what_an_attempt_remembered_is_dropped_whose_retry_remembers_nothing(self, mind, caller):
        attempt = failing(1)

        @task(retry_policy=RETRY)
        def retried():
            if mind.times == {}:
                mind.note("in vain")
            attempt()

        def body():
            retried().result()
            return [mind.note("caller")]

        caller(body).begin()
        assert mind.held() == ["caller 1"]

    @pytest.mark.slow
    def test_what_a_retry_calls_before_it_remembers_anything_itself_stays(self, mind, caller):
        attempt = failing(1)

        @task
        def called():
            return mind.note("called")

        @task(retry_policy=RETRY)
        def retried():
            log = [called().result(), mind.note("retried")]
            attempt()
            return log

        caller(lambda: retried().result()).begin()
        assert mind.held() == ["called 2", "retried 2"]


@pytest.mark.sqlite_suffices
class TestTasksOfRetriedCallers:
    """LangGraph counts the `@task`s that a caller calls, in all its attempts; a resume begins to count anew.

    So what a resumed caller is given again is what was called as the first, by whichever attempt that was.
    """

    @pytest.fixture
    def piece(self, mind):
        @task
        def piece(name):
            return mind.note(name)

        return piece

    @pytest.mark.slow
    def test_what_tasks_remembered_stays_that_a_second_attempt_had_called_before_an_interrupt(
        self, mind, caller, piece, reopen
    ):
        attempt = failing(1)

        def body():
            attempt()
            log = [each.result() for each in (piece("one"), piece("two"))]
            interrupt("?")
            return [*log, mind.note("answered")]

        runs = caller(body)
        runs.begin()
        assert mind.held() == []
        reopen()
        runs.resume()
        assert mind.times == {"one": 1, "two": 1, "answered": 1}
        assert sorted(mind.held()) == ["answered 1", "one 1", "two 1"]

    @pytest.mark.slow
    def test_it_stays_where_the_resumed_caller_fails_and_is_retried_too(self, mind, caller, piece, reopen):
        def body():
            if attempt_of(get_config()) == 1:
                raise ConnectionError
            log = [piece("one").result()]
            interrupt("?")
            return log

        runs = caller(body)
        runs.begin()
        reopen()
        runs.resume()
        assert mind.times == {"one": 1}
        assert mind.held() == ["one 1"]

    @pytest.mark.slow
    def test_it_stays_where_the_caller_is_resumed_twice(self, mind, caller, piece, reopen):
        attempt = failing(1)

        def body():
            attempt()
            log = [piece("one").result()]
            interrupt("first")
            log.append(piece("two").result())
            interrupt("second")
            return [*log, mind.note("answered")]

        runs = caller(body)
        runs.begin()
        for _ in range(2):
            assert mind.held() == []
            reopen()
            runs.resume()
        assert mind.times == {"one": 1, "two": 1, "answered": 1}
        assert mind.held() == ["one 1", "two 1", "answered 1"]

    @pytest.mark.slow
    def test_of_a_task_that_two_attempts_called_that_stays_which_langgraph_gives_again(
        self, mind, caller, piece, reopen
    ):
        attempt = failing(1)

        def body():
            log = [piece("one").result()]
            attempt()
            interrupt("?")
            return [*log, mind.note("answered")]

        runs = caller(body)
        runs.begin()
        assert mind.times == {"one": 2}
        reopen()
        runs.resume()
        assert mind.times == {"one": 2, "answered": 1}
        assert mind.held() == ["one 1", "answered 1"]

    @pytest.mark.slow
    def test_where_both_resumed_attempts_are_given_a_task_again_that_stays_which_the_last_was_given(
        self, mind, caller, piece, reopen
    ):
        def body():
            log = [piece("one").result()]
            if attempt_of(get_config()) == 1:
                raise ConnectionError
            interrupt("?")
            return log

        runs = caller(body)
        runs.begin()
        assert mind.times == {"one": 2}
        reopen()
        runs.resume()
        assert mind.times == {"one": 2}
        assert mind.held() == ["one 2"]

    @pytest.mark.slow
    def test_a_task_that_failed_is_called_again_beside_one_that_had_finished_before(self, mind, caller, piece, reopen):
        attempt = failing(1)

        @task(retry_policy=RetryPolicy(max_attempts=1))
        def second():
            found = mind.note("two")
            attempt()
            return found

        def body():
            log = [piece("one").result(), second().result()]
            interrupt("?")
            return [*log, mind.note("answered")]

        runs = caller(body)
        runs.begin()
        assert mind.times == {"one": 2, "two": 2}
        reopen()
        runs.resume()
        assert mind.times == {"one": 2, "two": 3, "answered": 1}
        assert mind.held() == ["one 1", "two 3", "answered 1"]

    @pytest.mark.slow
    def test_what_a_task_remembered_that_calls_others_stays_with_theirs(self, mind, caller, piece, reopen):
        attempt = failing(1)

        @task
        def several():
            return [mind.note("several"), piece("one").result(), mind.note("more")]

        def body():
            attempt()
            log = several().result()
            interrupt("?")
            return [*log, mind.note("answered")]

        runs = caller(body)
        runs.begin()
        reopen()
        runs.resume()
        assert mind.times == {"several": 1, "one": 1, "more": 1, "answered": 1}
        assert mind.held() == ["several 1", "one 1", "more 1", "answered 1"]

    @pytest.mark.slow
    def test_what_a_task_remembers_stays_where_none_of_those_that_called_it_remembers(self, mind, caller, piece):
        attempt = failing(1)

        @task
        def between():
            return [piece("one").result()]

        def body():
            log = between().result()
            attempt()
            return log

        caller(body).begin()
        assert mind.held() == ["one 2"]


class TestCallsOfOneTaskAtOnce:
    def test_one_that_looked_just_before_another_committed_goes_on(self):
        task = SimpleNamespace(ns="", checkpoint="1", id="a")
        execution = SimpleNamespace(there=False, task=task, owner=1)
        runs = SimpleNamespace(group_of=lambda run, execution: 7)
        late = group_for(runs, SimpleNamespace(at=None), execution, 0)
        assert next(late).query == "hold_group"
        other = group_for(runs, SimpleNamespace(at=None), execution, 0)
        assert next(other).query == "hold_group"
        with pytest.raises(StopIteration):
            other.send([{"id": 7}])  # what a third had made is committed, and this one sees it
        assert late.send([]).query == "is_sealed"


class TestTwoRunsOfOneStep:
    """A double click, or two workers that were given the same: LangGraph lets both go on, on branches of their own."""

    @pytest.fixture
    def both(self, mind):
        """A graph whose second node is run by two at once: each has remembered when the other goes on."""
        first_come, both_there = threading.Barrier(2), threading.Barrier(2)

        def first(state):
            return {"log": [mind.note("first")]}

        def work(state):
            log = [mind.note("asked")]
            interrupt("?")
            log.append(mind.note("answered"))
            first_come.wait(PATIENCE)
            log.append(mind.note("more"))
            both_there.wait(PATIENCE)
            return {"log": [*log, mind.note("last")]}

        def after(state):
            return {"log": [mind.note("after")]}

        return mind.graph(first, work, after)

    @pytest.mark.slow
    def test_two_that_answer_one_interrupt_each_keep_what_they_remember(self, mind, both):
        mind.run(both, EMPTY)
        assert mind.at_once((both, resumed("a")), (both, resumed("b"))) == [None, None]
        mind.held()
        one, other = mind.ends()
        assert set(one) & set(other) == {"first 1"}
        for end in (one, other):
            assert [name.split()[0] for name in end] == ["first", "asked", "answered", "more", "last", "after"]

    @pytest.mark.slow
    def test_two_that_begin_a_thread_at_once_each_keep_what_they_remember(self, mind):
        barrier = threading.Barrier(2)

        def work(state):
            log = [mind.note("one")]
            barrier.wait(PATIENCE)
            return {"log": [*log, mind.note("two")]}

        graph = mind.graph(work)
        assert mind.at_once((graph, EMPTY), (graph, EMPTY)) == [None, None]
        mind.held()
        one, other = mind.ends()
        assert not set(one) & set(other)
        assert len(one) == len(other) == 2

    @pytest.mark.slow
    def test_two_that_go_on_from_one_checkpoint_each_keep_what_they_remember(self, mind):
        barrier = threading.Barrier(2)

        def work(state):
            log = [mind.note(f"n{number}") for number in range(4)]
            barrier.wait(PATIENCE)
            return {"log": log}

        graph = mind.graph(work)
        graph.update_state(AT, EMPTY, as_node="__start__")
        assert mind.at_once((graph, None), (graph, None)) == [None, None]
        mind.held()
        one, other = mind.ends()
        assert sorted([*one, *other]) == sorted(f"n{number} {time}" for number in range(4) for time in (1, 2))

    @pytest.mark.sqlite_suffices
    @pytest.mark.parametrize("hours", [23, 25])
    def test_what_one_has_remembered_is_kept_for_a_day_whoever_executes_its_step_again(self, url, clock, hours):
        with AgentMemory(url, clock=clock) as memory:
            runs = []

            def work(state):
                runs.append(name := f"run {len(runs)}")
                recall = memory.layers().recall
                for _ in range(2):
                    recall.append("note", name)
                if name == "run 0":
                    clock.pass_time(hours=hours)
                    again = threading.Thread(target=lambda: graph.invoke(None, AT))
                    again.start()
                    again.join(PATIENCE)
                    recall.append("note", f"{name}, later")
                return EMPTY

            builder = StateGraph(State).add_node(work).add_edge(START, "work")
            graph = builder.compile(checkpointer=memory.checkpointer)
            graph.update_state(AT, EMPTY, as_node="__start__")
            with contextlib.nullcontext() if hours < 24 else pytest.raises(StepIsOver):
                graph.invoke(None, AT)
            assert len(runs) == 2
            ends = [each.config for each in memory.checkpointer.list(AT) if each.metadata["source"] == "loop"]
            noted = [[each.content for each in memory.layers(end).recall.recent()] for end in ends]
            assert sorted(noted) == [["run 0", "run 0", "run 0, later"], ["run 1", "run 1"]][hours > 24 :]

    @pytest.mark.slow
    def test_of_two_that_go_on_what_one_remembers_while_the_other_ends_is_its_own(self, mind):
        """The other's checkpoint, with the same step, is put between what one has remembered and what it does then."""
        begun, over, later = threading.Barrier(2), threading.Event(), threading.Lock()

        def work(state):
            log = [mind.note("one")]
            begun.wait(PATIENCE)
            if later.acquire(blocking=False):
                assert over.wait(PATIENCE)
            return {"log": [*log, mind.note("two")]}

        def after(state):
            log = [mind.note("after")]
            over.set()
            return {"log": log}

        graph = mind.graph(work, after)
        graph.update_state(AT, EMPTY, as_node="__start__")
        assert mind.at_once((graph, None), (graph, None)) == [None, None]
        mind.held()
        one, other = mind.ends()
        assert not set(one) & set(other)
        assert len(one) == len(other) == 3

    @pytest.mark.slow
    def test_a_finished_sibling_that_both_were_given_counts_for_both(self, mind):
        finished, barrier = threading.Event(), threading.Barrier(2)

        def left(state):
            log = [mind.note("left")]
            finished.set()
            return {"log": log}

        def right(state):
            assert finished.wait(PATIENCE)
            log = [mind.note("right")]
            interrupt("?")
            barrier.wait(PATIENCE)
            return {"log": log}

        graph = mind.beside(left, right)
        mind.run(graph, EMPTY)
        assert mind.at_once((graph, resumed()), (graph, resumed())) == [None, None]
        mind.held()
        assert mind.times == {"left": 1, "right": 3}
        assert sorted(map(sorted, mind.ends())) == [["left 1", "right 2"], ["left 1", "right 3"]]

    @pytest.mark.slow
    def test_where_both_stop_again_what_goes_on_has_the_first_that_finished(self, mind):
        """What finished in both, LangGraph takes from the one that handed it in first."""
        barrier = threading.Barrier(2)

        @task
        def piece():
            log = mind.note("piece")
            barrier.wait(PATIENCE)
            return log

        def work(state):
            log = []
            if interrupt("first") == "yes":
                log.append(piece().result())
            interrupt("second")
            return {"log": [*log, mind.note("work")]}

        graph = mind.graph(work)
        mind.run(graph, EMPTY)
        assert mind.at_once((graph, resumed()), (graph, resumed())) == [None, None]
        assert mind.times == {"piece": 2}
        mind.run(graph, resumed())
        held = mind.held()
        assert held in (["piece 1", "work 1"], ["piece 2", "work 1"])

    @pytest.mark.slow
    def test_what_fails_in_one_of_them_takes_nothing_from_the_other(self, mind):
        noted, failed = threading.Barrier(2), threading.Event()

        def work(state):
            log = [mind.note("work")]
            interrupt("?")
            noted.wait(PATIENCE)
            if log == ["work 2"]:
                failed.set()
                raise ConnectionError
            assert failed.wait(PATIENCE)
            return {"log": [*log, mind.note("more")]}

        graph = mind.graph(work)
        mind.run(graph, EMPTY)
        ends = mind.at_once((graph, resumed()), (graph, resumed()))
        assert [type(end) for end in ends if end is not None] == [ConnectionError]
        mind.held()
        assert mind.ends() == [["work 3", "more 1"]]

    @pytest.mark.slow
    def test_what_is_retried_in_one_of_them_takes_nothing_from_the_other(self, mind):
        noted, retried = threading.Barrier(2), threading.Event()

        def work(state):
            log = [mind.note("work")]
            interrupt("?")
            if attempt_of(get_config()) > 1:
                retried.set()
            else:
                noted.wait(PATIENCE)
                if log == ["work 2"]:
                    raise ConnectionError
            assert retried.wait(PATIENCE)
            return {"log": [*log, mind.note("more")]}

        graph = mind.graph(work, retry=RETRY)
        mind.run(graph, EMPTY)
        assert mind.at_once((graph, resumed()), (graph, resumed())) == [None, None]
        mind.held()
        assert {each[0] for each in mind.ends()} == {"work 3", "work 4"}

    @pytest.mark.sqlite_suffices
    def test_what_only_the_other_called_counts_there_alone_however_late_a_checkpoint_is_put(self, url, monkeypatch):
        mind = Mind(url, "async")
        begun, over, later = threading.Event(), threading.Event(), threading.Event()

        @task
        def piece():
            return mind.note("piece")

        def work(state):
            if not begun.is_set():
                begun.set()
                assert over.wait(PATIENCE)
                return EMPTY
            piece().result()
            return {"log": [interrupt("?")]}

        def after(state):
            later.set()
            return EMPTY

        def late(config, checkpoint, metadata, versions):
            assert metadata["source"] != "loop" or later.wait(PATIENCE)
            return put(config, checkpoint, metadata, versions)

        graph = mind.graph(work, after)
        graph.update_state(AT, EMPTY, as_node="__start__")
        put = mind.adapter.saver.put
        monkeypatch.setattr(mind.adapter.saver, "put", late)

        def other():
            assert begun.wait(PATIENCE)
            mind.run(graph, None)
            over.set()

        with concurrent.futures.ThreadPoolExecutor() as pool:
            ends = [pool.submit(mind.run, graph, None), pool.submit(other)]
        assert [end.exception() for end in ends] == [None, None]
        assert mind.times == {"piece": 1}
        assert mind.held() == []
        mind.close()

    @pytest.mark.slow
    def test_calls_of_one_subgraph_keep_apart(self, mind):
        barrier = threading.Barrier(2)

        def inside(state):
            log = [mind.note("inside")]
            interrupt("?")
            log.append(mind.note("answered"))
            barrier.wait(PATIENCE)
            return {"log": [*log, mind.note("last")]}

        def around(state):
            log = [mind.note("around")]
            return {"log": [*log, *inner.invoke(EMPTY)["log"]]}

        inner = mind.graph(inside, inner=True)
        graph = mind.graph(around)
        mind.run(graph, EMPTY)
        assert mind.at_once((graph, resumed()), (graph, resumed())) == [None, None]
        mind.held()
        one, other = mind.ends()
        assert not set(one) & set(other)
        for end in (one, other):
            assert [name.split()[0] for name in end] == ["around", "inside", "answered", "last"]


WORKER = """
import sys
from tests.rewinding.minds import Mind
from tests.rewinding.test_executions import Meeting, worked

url, durability, here, there = sys.argv[1:]
mind = Mind(url, durability, who="worker's ")
worked(mind, Meeting(there, here))
mind.close()
"""


class Meeting:
    """Two processes wait for each other, by two pipes that have names."""

    def __init__(self, here, there):
        self.here, self.there = (os.open(pipe, os.O_RDWR) for pipe in (here, there))  # neither waits for the other

    def wait(self):
        os.write(self.there, b".")
        assert os.read(self.here, 1) == b"."


def worked(mind, meeting):
    """Answer an interrupt, beside another process that does the same."""

    def work(state):
        log = [mind.note("asked")]
        interrupt("?")
        meeting.wait()
        log += [mind.note(f"n{number}") for number in range(3)]
        meeting.wait()
        return {"log": [*log, mind.note("last")]}

    graph = mind.graph(work)
    waiting = bool(graph.get_state(AT).next)
    mind.run(graph, resumed() if waiting else EMPTY)


class TestTwoProcesses:
    @pytest.mark.slow
    def test_two_that_answer_one_interrupt_each_keep_what_they_remember(self, url, durability, forks, tmp_path):
        here, there = (str(tmp_path / name) for name in ("here", "there"))
        for pipe in (here, there):
            os.mkfifo(pipe)
        mind = Mind(url, durability)
        worked(mind, None)
        assert mind.times == {"asked": 1}
        forks.start(WORKER, url, durability, here, there)
        worked(mind, Meeting(here, there))
        ended = forks.end()
        assert (ended.returncode, ended.stderr) == (0, "")
        mind.held()
        ends = sorted(mind.ends())
        own = ["asked 2", "n0 1", "n1 1", "n2 1", "last 1"]
        assert ends == [own, [f"worker's {name}" for name in ["asked 1", *own[1:]]]]
        mind.close()


class Zombie:
    """A node that waits, of a run that is cancelled: it remembers something late, and notes what became of that.

    Args:
        mind: Its memory.
        before: Whether it remembers something before its run is cancelled.
    """

    def __init__(self, mind, *, before):
        self.mind, self.before = mind, before
        self.begun, self.let_go, self.over = threading.Event(), threading.Event(), threading.Event()
        self.refused = []

    def wait(self):
        """To be called by its node, once."""
        log = [self.mind.note("zombie")] if self.before else []
        config = get_config()
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        for _ in range(2):
            try:
                log.append(self.mind.note("late", config))
            except StepIsOver as error:
                self.refused.append(error)
        self.over.set()
        return {"log": log}

    def goes_on(self):
        self.let_go.set()
        assert self.over.wait(PATIENCE)


@pytest.mark.sqlite_suffices
class TestZombies:
    """A function that waits cannot be cancelled: its run ends, and it goes on in its thread."""

    @pytest.fixture
    def mind(self, url, durability):
        mind = Mind(url, durability)
        yield mind
        mind.close()

    @pytest.fixture(params=[True, False], ids=["remembered before", "remembers late only"])
    def zombie(self, request, mind):
        zombie = Zombie(mind, before=request.param)
        yield zombie
        zombie.let_go.set()

    @pytest.fixture
    async def again(self, mind, zombie):
        """Cancels a run of a graph while the zombie waits in it, and gives what calls the graph again."""

        async def cancelled(graph, given):
            run = asyncio.create_task(graph.ainvoke(given, AT, durability=mind.durability))
            assert await asyncio.to_thread(zombie.begun.wait, PATIENCE)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            begun = bool(list(mind.adapter.saver.list(AT)))
            return lambda: graph.ainvoke(None if begun else given, AT, durability=mind.durability)

        return cancelled

    async def test_what_one_remembers_before_the_next_run_begins_is_refused(self, mind, zombie, again):
        def work(state):
            return {"log": [mind.note("work")]} if zombie.begun.is_set() else zombie.wait()

        call = await again(mind.graph(work), EMPTY)
        zombie.goes_on()
        await call()
        assert mind.held() == ["work 1"]
        assert len(zombie.refused) == 2

    async def test_what_one_remembers_in_the_middle_of_the_next_run_is_refused(self, mind, zombie, again):
        def work(state):
            if not zombie.begun.is_set():
                return zombie.wait()
            log = [mind.note("work")]
            zombie.goes_on()
            assert mind.adapter.remembered(get_config()) == ["work 1"]
            return {"log": [*log, mind.note("more")]}

        call = await again(mind.graph(work), EMPTY)
        await call()
        assert mind.held() == ["work 1", "more 1"]
        assert len(zombie.refused) == 2

    async def test_what_one_remembers_before_the_next_run_has_remembered_anything_is_refused(self, mind, zombie, again):
        def work(state):
            if not zombie.begun.is_set():
                return zombie.wait()
            zombie.goes_on()
            return {"log": [mind.note("work")]}

        call = await again(mind.graph(work), EMPTY)
        await call()
        assert mind.held() == ["work 1"]
        assert len(zombie.refused) == 2

    async def test_what_one_remembers_after_the_next_run_has_ended_is_refused(self, mind, zombie, again):
        def work(state):
            return {"log": [mind.note("work")]} if zombie.begun.is_set() else zombie.wait()

        call = await again(mind.graph(work), EMPTY)
        await call()
        zombie.goes_on()
        assert mind.held() == ["work 1"]
        assert len(zombie.refused) == 2

    async def test_one_below_an_interrupt_adds_nothing_to_what_was_answered(self, mind, zombie, again):
        def work(state):
            log = [mind.note("asked")]
            interrupt("?")
            if not zombie.begun.is_set():
                return zombie.wait()
            zombie.goes_on()
            return {"log": [*log, mind.note("answered")]}

        graph = mind.graph(work)
        await graph.ainvoke(EMPTY, AT, durability=mind.durability)
        await again(graph, resumed())
        await graph.ainvoke(resumed(), AT, durability=mind.durability)
        assert mind.held() == ["asked 3", "answered 1"]
        assert len(zombie.refused) == 2

    async def test_one_in_a_subgraph_adds_nothing(self, mind, zombie, again):
        def inside(state):
            log = [mind.note("inside")]
            if not zombie.begun.is_set():
                return zombie.wait()
            zombie.goes_on()
            return {"log": [*log, mind.note("last")]}

        inner = mind.graph(inside, inner=True)

        async def around(state):
            return {"log": (await inner.ainvoke(EMPTY))["log"]}

        call = await again(mind.graph(around), EMPTY)
        await call()
        assert mind.held() == ["inside 2", "last 1"]
        assert len(zombie.refused) == 2


@pytest.mark.sqlite_suffices
class TestCopies:
    """A copied thread has the checkpoints of the thread, and so its tasks have the same ids."""

    def copied(self, mind, graph):
        """Two threads that wait at the same interrupt."""
        mind.run(graph, EMPTY, at("t"))
        mind.adapter.saver.copy_thread("t", "copy")

    @pytest.mark.slow
    @pytest.mark.parametrize("which", ["t", "copy"])
    def test_what_fails_in_one_takes_nothing_from_the_other(self, mind, which):
        noted, failed = threading.Barrier(2), threading.Event()

        def work(state):
            log = [mind.note("work")]
            interrupt("?")
            noted.wait(PATIENCE)
            if get_config()["configurable"]["thread_id"] == which:
                failed.set()
                raise ConnectionError
            assert failed.wait(PATIENCE)
            return {"log": [*log, mind.note("more")]}

        graph = mind.graph(work)
        self.copied(mind, graph)
        ends = mind.at_once(*((graph, resumed(), at(thread)) for thread in ("t", "copy")))
        assert [type(end) for end in ends if end is not None] == [ConnectionError]
        held = {thread: mind.held(at(thread)) for thread in ("t", "copy")}
        assert held.pop(which) == []
        assert [len(each) for each in held.values()] == [2]

    @pytest.mark.slow
    @pytest.mark.parametrize("which", ["t", "copy"])
    def test_what_is_retried_in_one_takes_nothing_from_the_other(self, mind, which):
        noted, retried = threading.Barrier(2), threading.Event()

        def work(state):
            log = [mind.note("work")]
            interrupt("?")
            own = get_config()["configurable"]["thread_id"] == which
            if own and attempt_of(get_config()) > 1:
                retried.set()
            else:
                noted.wait(PATIENCE)
                if own:
                    raise ConnectionError
            assert retried.wait(PATIENCE)
            return {"log": [*log, mind.note("more")]}

        graph = mind.graph(work, retry=RETRY)
        self.copied(mind, graph)
        assert mind.at_once(*((graph, resumed(), at(thread)) for thread in ("t", "copy"))) == [None, None]
        held = [mind.held(at(thread)) for thread in ("t", "copy")]
        assert [len(each) for each in held] == [2, 2]
        assert not set(held[0]) & set(held[1])

    def test_tasks_of_a_caller_that_fails_in_one_take_nothing_from_those_of_the_other(self, mind):
        noted, failed = threading.Barrier(2), threading.Event()

        @task
        def piece():
            log = mind.note("piece")
            noted.wait(PATIENCE)
            return log

        def work(state):
            interrupt("?")
            log = [piece().result()]
            if get_config()["configurable"]["thread_id"] == "t":
                failed.set()
                raise ConnectionError
            assert failed.wait(PATIENCE)
            return {"log": log}

        graph = mind.graph(work)
        self.copied(mind, graph)
        ends = mind.at_once(*((graph, resumed(), at(thread)) for thread in ("t", "copy")))
        assert [type(end) for end in ends if end is not None] == [ConnectionError]
        assert mind.held(at("t")) == []
        [left] = mind.held(at("copy"))
        assert left in ("piece 1", "piece 2")


@pytest.mark.sqlite_suffices
class TestLateTasks:
    """A `@task` of an attempt that failed may still run when the next attempt has been through."""

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False], ids=["remembered before", "remembers late only"])
    def test_what_one_remembers_is_refused(self, mind, before):
        begun, let_go, over, refused = threading.Event(), threading.Event(), threading.Event(), []

        @task
        def slow():
            if begun.is_set():
                return [mind.note("slow")]
            log, config = [mind.note("early")] if before else [], get_config()
            begun.set()
            assert let_go.wait(PATIENCE)
            try:
                log.append(mind.note("late", config))
            except StepIsOver as error:
                refused.append(error)
            over.set()
            return log

        def work(state):
            found = slow()
            if attempt_of(get_config()) == 1:
                assert begun.wait(PATIENCE)
                raise ConnectionError
            log = found.result()
            let_go.set()
            assert over.wait(PATIENCE)
            return {"log": [*log, mind.note("work")]}

        mind.run(mind.graph(work, retry=RETRY), EMPTY)
        assert mind.held() == ["slow 1", "work 1"]
        assert len(refused) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("late", [False, True])
    def test_of_one_whose_result_a_resume_takes_that_stays_which_it_gives(self, mind, late):
        """LangGraph keeps what it gives, though its caller had failed, and gives that to the caller that is resumed."""
        begun, let_go, over = threading.Event(), threading.Event(), threading.Event()

        @task
        def slow():
            if begun.is_set():
                return [mind.note("slow")]
            log = [mind.note("early")]
            begun.set()
            assert let_go.wait(PATIENCE)
            try:
                return [*log, mind.note("late")] if late else log
            finally:
                over.set()

        def work(state):
            found = slow()
            if not let_go.is_set() and attempt_of(get_config()) == 1:
                assert begun.wait(PATIENCE)
                raise ConnectionError
            log = found.result()
            let_go.set()
            assert over.wait(PATIENCE)
            interrupt("?")
            return {"log": log}

        graph = mind.graph(work, retry=RETRY)
        mind.run(graph, EMPTY)
        mind.run(graph, resumed())
        assert mind.held() == (["slow 2"] if late else ["early 1"])

    @pytest.mark.slow
    @pytest.mark.parametrize("look", [True, False], ids=["it looks", "it remembers"])
    def test_a_node_of_a_subgraph_that_a_former_attempt_called_sees_nothing_of_the_next(self, mind, look):
        begun, let_go, over, refused = threading.Event(), threading.Event(), threading.Event(), []

        def inside(state):
            if begun.is_set():
                return {"log": [mind.note("inside")]}
            config = get_config()
            begun.set()
            assert let_go.wait(PATIENCE)
            try:
                refused.append(mind.adapter.remembered(config) if look else mind.note("late", config))
            except StepIsOver as error:
                refused.append(error)
            over.set()
            return EMPTY

        inner = mind.graph(inside, inner=True)

        def work(state):
            if attempt_of(get_config()) == 1:
                threading.Thread(target=contextvars.copy_context().run, args=(inner.invoke, EMPTY)).start()
                assert begun.wait(PATIENCE)
                raise ConnectionError
            log = [mind.note("work")]
            let_go.set()
            assert over.wait(PATIENCE)
            return {"log": [*log, *inner.invoke(EMPTY)["log"]]}

        mind.run(mind.graph(work, retry=RETRY), EMPTY)
        assert [type(each) for each in refused] == [StepIsOver]
        assert mind.held() == ["work 1", "inside 1"]


class TestDeletingRuns:
    """Some runs stop in one step, of which more has finished each time."""

    @pytest.fixture
    def raises(self):
        """Whether nodes that stop raise. Default: they ask."""
        return False

    @pytest.fixture
    def run(self, mind, raises):
        """Runs a graph with a step of three, of which some stop, and gives the id of the run."""
        stops = set()

        def node(name):
            def work(state):
                log = [mind.note(name)]
                if name in stops:
                    if raises:
                        raise ConnectionError
                    interrupt("?")
                return {"log": log}

            return work

        def first(state):
            return {"log": [mind.note("first")]}

        builder = StateGraph(State).add_node(first).add_edge(START, "first")
        for name in ("left", "middle", "right"):
            builder.add_node(name, node(name)).add_edge("first", name)
        graph = builder.compile(checkpointer=mind.adapter.saver, interrupt_before=["left", "middle", "right"])

        def run(*names, given=None, at=AT):
            stops.clear()
            stops.update(names)
            run_id = str(uuid.uuid4())
            with contextlib.suppress(ConnectionError):
                mind.run(graph, given, {**at, "run_id": uuid.UUID(run_id), "metadata": {"run_id": run_id}})
            return run_id

        run(given=EMPTY)
        return run

    @pytest.mark.slow
    def test_what_a_deleted_run_left_finished_goes_with_its_memory(self, mind, run):
        stopped = run("right")
        assert mind.times == {"first": 1, "left": 1, "middle": 1, "right": 1}
        mind.adapter.saver.delete_for_runs([stopped])
        assert mind.adapter.memory.admin.stats()["waiting_groups"] == 0
        run()
        assert mind.times == {"first": 1, "left": 2, "middle": 2, "right": 2}
        assert sorted(mind.held()) == ["first 1", "left 2", "middle 2", "right 2"]

    @pytest.mark.slow
    def test_what_another_run_left_finished_stays_with_its_memory(self, mind, run):
        run("middle", "right")
        stopped = run("right")
        assert mind.times == {"first": 1, "left": 1, "middle": 2, "right": 2}
        mind.adapter.saver.delete_for_runs([stopped])
        assert mind.adapter.memory.admin.stats()["waiting_groups"] == 1
        run()
        assert mind.times == {"first": 1, "left": 1, "middle": 3, "right": 3}
        assert sorted(mind.held()) == ["first 1", "left 1", "middle 3", "right 3"]

    @pytest.mark.parametrize("raises", [False, True], ids=["asking", "raising"])
    def test_what_another_run_left_finished_stays_when_the_run_that_sealed_it_is_deleted(self, mind, run):
        run("right")
        mind.adapter.saver.delete_for_runs([run()])
        assert mind.held() == ["first 1"]
        run()
        assert mind.times["right"] == 3
        assert sorted(mind.held()) == [f"{name} {times}" for name, times in sorted(mind.times.items())]
        assert mind.adapter.memory.admin.verify().ok

    @pytest.mark.slow
    def test_a_copy_keeps_what_a_task_left_finished_when_the_thread_that_sealed_it_is_gone(self, mind, run, raw):
        run("right")
        mind.adapter.saver.copy_thread("t", "copy")
        run()
        mind.adapter.saver.delete_thread("t")
        copy = {"configurable": {"thread_id": "copy"}}
        assert mind.held(copy) == ["first 1"]
        run(at=copy)
        assert mind.times == {"first": 1, "left": 1, "middle": 1, "right": 3}
        assert sorted(mind.held(copy)) == ["first 1", "left 1", "middle 1", "right 3"]
        mind.adapter.saver.delete_thread("copy")
        assert raw(mind.adapter.memory, "select 1 from memory union all select 1 from finished_group") == []

    @pytest.mark.slow
    def test_what_a_task_left_finished_is_exported_though_the_run_that_sealed_it_is_deleted(self, mind, run, tmp_path):
        run("right")
        mind.adapter.saver.delete_for_runs([run()])
        mind.adapter.memory.export(tmp_path / "file.jsonl")
        mind.adapter.saver.delete_thread("t")
        mind.adapter.memory.import_(tmp_path / "file.jsonl")
        run()
        assert sorted(mind.held()) == ["first 1", "left 1", "middle 1", "right 3"]


@pytest.mark.sqlite_suffices
class TestManyRuns:
    def test_one_that_goes_on_is_known_however_many_begin_meanwhile_and_those_that_are_over_are_not(
        self, url, monkeypatch
    ):
        monkeypatch.setattr(graph_runs, "MOST_RUNS", 12)
        mind = Mind(url)

        def inside(state):
            return {"log": [mind.note("inside")]}

        def work(state, config):
            log = [mind.note("before")]
            for number in range(8):  # somebody looks at other threads in its name
                there = {**config["configurable"], "thread_id": f"other {number}", "checkpoint_ns": ""}
                assert mind.adapter.saver.get_tuple({"configurable": there}) is None
            for number in range(20):
                inner.invoke(EMPTY, at(f"apart {number}"))
            return {"log": [*log, mind.note("after")]}

        inner = mind.graph(inside)
        mind.run(mind.graph(work), EMPTY)
        assert mind.held() == ["before 1", "after 1"]
        assert len(graph_runs.runs_of(mind.adapter.memory.database)._runs) <= 12
        mind.close()


class TestScopesOfRuns:
    """A run whose config names the thread alone, as servers' do: its thread may be in a namespace."""

    @pytest.fixture(params=[AT, at("t", agentmem_namespace=("ada",))], ids=["not named", "named"])
    def look(self, request):
        return request.param

    @pytest.mark.slow
    def test_what_nodes_remember_is_kept_where_the_thread_is(self, mind, look):
        seen = []

        def work(state):
            seen.append(mind.adapter.remembered(get_config()))
            log = [mind.note("work")]
            seen.append(mind.adapter.remembered(get_config()))
            return {"log": log}

        graph = mind.graph(work)
        mind.run(graph, EMPTY, at("t", agentmem_namespace=("ada",)))
        mind.run(graph, EMPTY, AT)
        mind.run(graph, EMPTY, at("t", agentmem_namespace=("ada",)))
        names = ["work 1", "work 2", "work 3"]
        assert seen == [names[:0], names[:1], names[:1], names[:2], names[:2], names]
        assert mind.held(look) == names
        assert graph.get_state(look).values["log"] == names
        assert mind.adapter.memory.admin.verify().ok

    @pytest.mark.slow
    def test_an_interrupt_is_answered_where_the_thread_is(self, mind, look):
        @task
        def piece():
            return mind.note("piece")

        def work(state):
            log = [piece().result(), mind.note("asked")]
            interrupt("?")
            return {"log": [*log, mind.note("answered")]}

        graph = mind.graph(work)
        mind.run(graph, EMPTY, at("t", agentmem_namespace=("ada",)))
        mind.reopen()
        mind.run(mind.graph(work), resumed(), AT)
        assert mind.held(look) == ["piece 1", "asked 2", "answered 1"]

    @pytest.mark.slow
    def test_a_subgraph_remembers_where_the_thread_is(self, mind, look):
        def inside(state):
            return {"log": [mind.note("inside")]}

        inner = mind.graph(inside, inner=True)

        def around(state):
            return {"log": [mind.note("around"), *inner.invoke(EMPTY)["log"]]}

        graph = mind.graph(around)
        for config in (at("t", agentmem_namespace=("ada",)), AT):
            mind.run(graph, EMPTY, config)
        assert mind.held(look) == ["around 1", "inside 1", "around 2", "inside 2"]

    @pytest.mark.slow
    def test_a_thread_in_no_namespace_is_another(self, mind):
        def work(state):
            return {"log": [mind.note("work")]}

        graph = mind.graph(work)
        mind.run(graph, EMPTY, AT)
        mind.run(graph, EMPTY, at("t", agentmem_namespace=("ada",)))
        mind.run(graph, EMPTY, AT)
        assert mind.held(AT) == ["work 1", "work 3"]
        assert mind.held(at("t", agentmem_namespace=("ada",))) == ["work 2"]
