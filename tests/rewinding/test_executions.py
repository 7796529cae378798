"""Executions own their memory: other runs and attempts of a step neither take it nor add to it."""

import contextlib
import threading
import uuid
from functools import partial

import pytest
from langgraph.config import get_config
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import StepIsOver
from langchain_agentmem.rewinding import graph_runs
from tests.support.graphs import at, beside, line

from .minds import AT, EMPTY, PATIENCE, RETRY, Mind, State, failing, resumed
from .oracle import state_of

NAMED = at(namespace=("ada",))


def run(mind, kind, body, given):
    """Run a retried node or function whose body returns the remembered ids."""
    if kind == "node":
        return mind.run(mind.graph(lambda _: {"log": body()}, **RETRY), given)

    @entrypoint(checkpointer=mind.adapter.saver, **RETRY)
    def function(given, *, previous=None):
        return entrypoint.final(value=None, save=[*(previous or []), *body()])

    return mind.run(function, given)


def resumed_twice(mind, piece, attempt):
    attempt()
    log = [piece("one").result()]
    interrupt("first")
    log.append(piece("two").result())
    interrupt("second")
    return [*log, mind.note("answered")]


def failed_beside_a_finished_one(mind, piece, attempt):
    @task(retry_policy=RetryPolicy(max_attempts=1))
    def second():
        found = mind.note("two")
        attempt()
        return found

    log = [piece("one").result(), second().result()]
    interrupt("?")
    return [*log, mind.note("answered")]


def failed_and_caught(mind, piece, attempt):
    @task
    def fails():
        mind.note("in vain")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        fails().result()
    return [mind.note("caller")]


def retried_after_a_call(mind, piece, attempt):
    @task(**RETRY)
    def retried():
        log = [piece("one").result(), mind.note("retried")]
        attempt()
        return log

    return retried().result()


SCENARIOS = {
    resumed_twice: (2, ["one 1", "two 1", "answered 1"]),
    failed_beside_a_finished_one: (1, ["one 1", "two 3", "answered 1"]),
    failed_and_caught: (0, ["caller 1"]),
    retried_after_a_call: (0, ["one 2", "retried 2"]),
}
"""Scenarios of a retried caller with `@task`s: number of resumes and expected memory."""


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("kind", ["node", "function"])
def test_memory_of_cached_tasks_survives_caller_retries(mind, kind, reopened, scenario):
    """LangGraph counts the `@task`s that a caller calls, in all its attempts; a resume begins to count anew.

    What an attempt of a `@task` that failed had remembered counts no more, whoever catches the error.
    """

    @task
    def piece(name):
        return mind.note(name)

    attempt, (resumes, expected) = failing(1), SCENARIOS[scenario]
    body = partial(scenario, mind, piece, attempt)
    run(mind, kind, body, EMPTY)
    for _ in range(resumes):
        assert mind.held() == []
        if reopened:
            mind.reopen()
        run(mind, kind, body, resumed())
    assert sorted(mind.held()) == sorted(expected)


@pytest.mark.parametrize("saves", [None, True], ids=["begins anew", "keeps its state"])
def test_a_called_graph_hides_later_caller_memory(mind, saves):
    """This holds even if the caller's earlier write left nothing, as a deletion of an unknown key."""
    inner = mind.graph(mind.noting("inside"), inner=True, saves=saves)

    def calls(state):
        mind.adapter.memory.layers(get_config()).core.delete("nothing")
        return {"log": [*inner.invoke(EMPTY)["log"], mind.note("afterwards")]}

    mind.run(mind.graph(calls), EMPTY)
    for each in mind.adapter.saver.list(AT):
        assert mind.adapter.remembered(each.config) == state_of(each), each
    assert mind.held() == ["inside 1", "afterwards 1"]
    assert mind.adapter.memory.admin.verify().ok


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("hours", [23, 25])
def test_a_superseded_execution_is_kept_for_a_day(url, clock, hours):
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

        graph = line(memory.checkpointer, work, state=State)
        graph.update_state(AT, EMPTY, as_node="__start__")
        with contextlib.nullcontext() if hours < 24 else pytest.raises(StepIsOver):
            graph.invoke(None, AT)
        assert len(runs) == 2
        ends = [each.config for each in memory.checkpointer.list(AT) if each.metadata["source"] == "loop"]
        noted = [[each.content for each in memory.layers(end).recall.recent()] for end in ends]
        assert sorted(noted) == [["run 0", "run 0", "run 0, later"], ["run 1", "run 1"]][hours > 24 :]


class TestDeleteRuns:
    """Runs that stop in one step, each with more finished tasks."""

    @pytest.fixture
    def raises(self):
        """True if nodes that stop raise an error. Default: they interrupt."""
        return False

    @pytest.fixture
    def run(self, mind, raises):
        """Return a function that runs a graph with three parallel nodes, of which some stop, and returns the run id."""
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

        builder = StateGraph(State).add_node(mind.noting("first")).add_edge(START, "first")
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

    @pytest.mark.parametrize("raises", [False, True], ids=["asking", "raising"])
    def test_deleting_a_run_keeps_other_runs_memory(self, mind, run, tmp_path):
        """Its export contains the memory too."""
        memory, kept = mind.adapter.memory, tmp_path / "file.jsonl"
        run("right")
        memory.checkpointer.delete_for_runs([run()])
        assert mind.held() == ["first 1"]
        memory.export(kept)
        memory.checkpointer.delete_thread("t")
        memory.import_(kept)
        run()
        assert mind.times["right"] == 3
        assert sorted(mind.held()) == [f"{name} {times}" for name, times in sorted(mind.times.items())]
        assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
def test_active_runs_stay_registered_and_finished_are_dropped(url, monkeypatch):
    monkeypatch.setattr(graph_runs, "CLEANUP_THRESHOLD", 12)
    mind = Mind(url)

    def work(state, config):
        log = [mind.note("before")]
        for number in range(8):  # somebody looks at other threads in its name
            there = {**config["configurable"], "thread_id": f"other {number}", "checkpoint_ns": ""}
            assert mind.adapter.saver.get_tuple({"configurable": there}) is None
        for number in range(20):
            inner.invoke(EMPTY, at(f"apart {number}"))
        return {"log": [*log, mind.note("after")]}

    inner = mind.graph(mind.noting("inside"))
    mind.run(mind.graph(work), EMPTY)
    assert mind.held() == ["before 1", "after 1"]
    assert len(graph_runs.get_run_registry(mind.adapter.memory.database)._runs) <= 12
    mind.close()


@pytest.mark.parametrize("look", [AT, NAMED], ids=["not named", "named"])
def test_memory_is_stored_in_the_threads_namespace(mind, look):
    seen, piece, inner = [], task(mind.noting("piece")), mind.graph(mind.noting("inside"), inner=True)

    def work(state):
        seen.append(mind.adapter.remembered(get_config()))
        log = [*piece(EMPTY).result()["log"], mind.note("asked")]
        interrupt("?")
        return {"log": [*log, *inner.invoke(EMPTY)["log"], mind.note("answered")]}

    first = ["piece 1", "asked 2", "inside 1", "answered 1"]
    names = [*first, "piece 2", "asked 4", "inside 2", "answered 2"]
    mind.run(mind.graph(work), EMPTY, NAMED)
    mind.reopen()
    graph = mind.graph(work)
    for given, config in ((resumed(), AT), (EMPTY, AT), (resumed(), NAMED)):
        mind.run(graph, given, config)
    assert (seen[0], seen[2]) == ([], first)
    assert mind.held(look) == names
    assert graph.get_state(look).values["log"] == names
    assert mind.adapter.memory.admin.verify().ok


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_parallel_nodes_rewind_to_the_last_write_of_a_key(mind, order):
    first_wrote, layers = threading.Event(), mind.adapter.memory.layers

    def first(_):
        layers().core.set("key", "first")
        first_wrote.set()

    def last(_):
        assert first_wrote.wait(PATIENCE)
        layers().core.set("key", "last")
        layers().core.delete("key")

    mind.run(beside(mind.adapter.saver, state=State, **dict(zip(order, (first, last), strict=True))), EMPTY)
    assert layers(AT).core.get() == layers(AT).core.get("key") == {}
