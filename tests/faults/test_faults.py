"""Faults during writes: acknowledged writes are kept, and nothing is half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import textwrap
from collections import Counter
from collections.abc import Iterator

import pytest

from langchain_agentmem import AgentMemory
from tests.checkpoints.graphs import at
from tests.forking import Forks

from .kills import ENGINES, FAULTS, IMPORTS, Databases, Striker, strike
from .states import committed
from .writers import KINDS

SEED = int(os.environ.get("AGENTMEM_SEED", "27"))
QUICK = {"sqlite": ("session", "checkpoints", "facts", "backup"), "postgres": ("items",)}
"""A few kinds of writers whose turn comes each time; the others come with `-m deep`."""


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """An interpreter that runs writers."""
    with Forks(tmp_path_factory.mktemp("writers"), *IMPORTS) as forks:
        yield forks


@pytest.fixture(scope="module", params=ENGINES)
def striker(
    request: pytest.FixtureRequest, writing: Forks, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Striker]:
    """Lets things go wrong for a few kinds of writers, on both engines."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else ""
    folder = tmp_path_factory.mktemp("faults")
    yield Striker(Databases(request.param, folder, server), writing, QUICK[request.param])
    shutil.rmtree(folder)


COUNTS = {"die": 2, "cancel": 1, "limit": 1, "full": 1, "cut": 1, "leap": 1}
"""The number of faults for each kind of writer."""


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "count"), COUNTS.items())
def test_faults_lose_and_half_write_nothing(striker, fault, count):
    kinds = striker.kinds(fault)
    outcome = strike(striker, fault, count * len(kinds), SEED)
    assert outcome.problems == []
    assert bool(outcome.strikes) == (FAULTS[fault] in (None, striker.databases.engine))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("fault", "count"), [(fault, 1000 if fault == "die" else 200) for fault in FAULTS])
def test_thousand_faults_lose_and_half_write_nothing(striker, fault, count):
    every = Striker(striker.databases, striker._forks)
    assert strike(every, fault, count, SEED).problems == []


class TestHarness:
    """The harness detects lost and half-written data."""

    @pytest.fixture
    def dishonest(self, striker, monkeypatch):
        """Has it believe something else of what a writer commits."""
        kind = KINDS[QUICK[striker.databases.engine][0]]

        def believe(change):
            course = striker.course(kind)
            monkeypatch.setattr(striker, "course", lambda _: course._replace(states=change(course.states)))

        return kind, believe

    @pytest.mark.slow
    def test_lost_write_is_detected(self, striker, dishonest):
        kind, believe = dishonest
        believe(lambda states: [states[0], *[states[-1]] * (len(states) - 1)])
        last = len(striker.course(kind).states) - 1
        assert striker.strike(kind, "die", 1).what == "lost"
        assert striker.strike(kind, "die", last) is None

    def test_half_write_is_detected(self, striker, dishonest):
        kind, believe = dishonest
        believe(lambda states: [each | {"entry": "", "item": "", "agentmem.item": ""} for each in states])
        assert striker.strike(kind, "die", 5).what == "half-written"


# Several processes that write to one thread, a graph's state included, until each has had its turns.
WORK = """
    import os, signal, sys
    from pathlib import Path
    from langchain_core.messages import HumanMessage
    from langchain_agentmem import AgentMemory
    from tests.checkpoints.graphs import at, logging_graph
    from tests.faults.steps import STEPS, dying_at

    url, workers, turns, last = sys.argv[1], *map(int, sys.argv[2:])

    def work(name):
        if name == 0 and last:  # the first one may be killed on its way
            STEPS.install(Path("/nowhere"))
            STEPS.before = dying_at(last)
        with AgentMemory(url) as memory:
            graph, config = logging_graph(memory.checkpointer, "a", "b"), at("t")
            chat, layers, facts = memory.conversation("t"), memory.layers("t"), memory.facts("t")
            for turn in range(turns):
                said = f"{name}-{turn}"
                graph.invoke({"log": [said]}, config, durability="sync")
                os.write(1, f"invoked {said}\\n".encode())
                chat.add_messages([HumanMessage("Hi", id=f"{said}-{n}") for n in range(3)])
                os.write(1, f"said {said}\\n".encode())
                layers.recall.append("turn", said)
                layers.core.set(f"of {name}", said)
                os.write(1, f"remembered {said}\\n".encode())
                facts.add_fact("user", f"worker {name}", "did", said)
                memory.store.put(("t",), said, {"turn": turn})
                os.write(1, f"told {said}\\n".encode())

    children = []
    for name in range(workers):
        children.append(os.fork())
        if not children[-1]:
            work(name)
            os._exit(0)
    print("codes", *(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
TURNS = 4


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "last"), [(2, 0), (4, 300)], ids=["two", "four, one of which is killed"])
def test_concurrent_processes_write_to_one_thread(url, workers, last, writing):
    done = writing.run(textwrap.dedent(WORK), url, str(workers), str(TURNS), str(last))
    assert (done.returncode, done.stderr) == (0, "")
    *lines, codes = done.stdout.splitlines()
    assert codes.split()[1:] == [str(-signal.SIGKILL.value) if last else "0", *["0"] * (workers - 1)]
    told = {
        verb: {line.split()[1] for line in lines if line.startswith(verb)}
        for verb in ("invoked", "said", "remembered", "told")
    }
    every = {f"{name}-{turn}" for name in range(1 if last else 0, workers) for turn in range(TURNS)}
    assert all(every <= names for names in told.values())
    with AgentMemory(url) as memory:
        assert memory.admin.verify().problems == ()
        said = Counter(message.id.rpartition("-")[0] for message in memory.conversation("t").messages)
        assert told["said"] <= set(said)
        assert set(said.values()) == {3}
        events = [event.content for event in memory.layers("t").recall.recent(limit=None)]
        assert told["remembered"] <= set(events)
        assert len(events) == len(set(events))
        facts = [fact.object for fact in memory.facts("t").as_of()]
        assert told["told"] <= set(facts)
        assert len(facts) == len(set(facts))
        assert told["told"] <= {item.key for item in memory.store.search(("t",), limit=100)}
        logs = [found.checkpoint["channel_values"].get("log", []) for found in memory.checkpointer.list(at("t"))]
        assert told["invoked"] <= {said for log in logs for said in log}


@pytest.mark.slow
def test_second_process_completes_an_interrupted_creation(striker, writing):
    """The second process finishes the work of the first."""
    kind, databases = KINDS["create"], striker.databases
    course = striker.course(kind)
    place = databases.fresh(kind.base)
    program = """
        import os, sys
        from tests.faults import running

        given = sys.argv
        killed = os.fork()
        sys.argv = [*given[:-1], "-1" if killed else given[-1]]
        sys.argv[-2] = "live" if killed else "die"
        running.main()
        if killed:
            print("killed", os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]))
    """
    step = str(len(course.states) // 2)
    done = writing.run(
        textwrap.dedent(program), place.url, kind.name, str(place.folder), str(place.folder / "seen"), "live", step
    )
    assert (done.returncode, done.stderr) == (0, "")
    databases.alone(place.url)
    assert json.dumps(committed(place.url)) == json.dumps(course.states[-1])
    databases.drop(place)
