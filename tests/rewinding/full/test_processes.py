"""Other processes on the same database: killed between any two statements, one after the other, and at once."""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest

from tests.rewinding.adapters import Real
from tests.rewinding.oracle import World, state_of
from tests.rewinding.processes import Processes
from tests.rewinding.worlds import crowded_script, printed, random_script

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


@pytest.fixture(scope="module")
def two_processes(processes):
    with Processes() as other:
        yield processes, other


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


@contextlib.contextmanager
def followed(url, seed, script):
    """A world that somebody else lets follow a script, and that differs from state nowhere."""
    with contextlib.closing(World(Real(url), f"{seed} ")) as world:
        yield world
        world.check(world.threads)
        assert world.differences == [], f"seed {seed}\n{printed(script)}"


@pytest.mark.parametrize(("kind", "seeds"), [("sqlite", range(500, 505)), ("postgres", range(512, 514))])
def test_each_of_two_processes_knows_what_the_other_remembered(kind, seeds, new_database, processes):
    """Every second run is done by a process of its own, on the file that this one holds open."""
    url = new_database(kind)
    for seed in seeds:
        script = random_script(seed)
        with followed(url, seed, script) as world:
            for number, action in enumerate(script["actions"]):
                processes.perform(world, action) if number % 2 else world.perform(number, action)


@pytest.mark.parametrize(("kind", "seeds"), [("sqlite", range(2)), ("postgres", range(1))])
def test_memory_is_what_state_says_where_two_processes_run_a_thread_at_once(kind, seeds, new_database, two_processes):
    url, (one, other) = new_database(kind), two_processes
    for seed in seeds:
        script = crowded_script(seed)
        with followed(url, seed, script) as world:
            for number, action in enumerate(script["actions"]):
                thread = world.thread_of(action)
                if action["do"] != "crowd" or thread is None:
                    world.perform(number, action)
                else:
                    one.perform_with(other, world, [action | run for run in action["runs"]])
                    world.check([thread])
