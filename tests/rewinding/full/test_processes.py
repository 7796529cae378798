"""Several processes on one database: killed between statements, alternating and concurrent."""

import contextlib
import os
from collections import defaultdict

import pytest

from tests.rewinding.adapters import Real
from tests.rewinding.oracle import NEVER, World, state_of
from tests.rewinding.processes import Processes
from tests.rewinding.worlds import crowded_script, printed, random_script

NOTE = ["remember", 1, ""]
LAST = {"kind": "work", "look": "always", "ops": [NOTE]}
PLAN = [
    {"kind": "work", "look": "always", "ops": [NOTE, ["flaky", 1], NOTE]},
    {"kind": "two", "look": "always", "ops": [NOTE, ["task", [[NOTE]]]], "right": [["call", [LAST]]]},
    LAST,
]
REMEMBERED = 6
KILLS = {"sqlite": 10, "postgres": 4}
"""Number of killed runs per durability; AGENTMEM_KILLS=1000 kills before every statement."""


@pytest.fixture(scope="module")
def processes():
    with Processes() as processes:
        yield processes


@pytest.fixture(scope="module")
def two_processes(processes):
    with Processes() as other:
        yield processes, other


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_run_is_resumed_without_duplicates(kind, durability, new_database, processes):
    """After `kill -9` and a resume, memory equals state, without duplicates."""
    url, begun = new_database(kind), {"do": "invoke", "thread": "graph 1", "awaited": False, "durability": durability}
    begun |= {"plan": PLAN, "ops": []}
    with contextlib.closing(World(Real(url), "whole ")) as world:
        count = processes.perform(world, begun)
        assert world.differences == []
    assert count is not None
    kills = int(os.environ.get("AGENTMEM_KILLS", KILLS[kind]))
    for last in sorted({count * each // kills for each in range(kills)}):
        with contextlib.closing(World(Real(url), f"{last} ")) as world:
            assert processes.perform(world, begun, last) is None
            world.names = 1000  # whoever was killed told nobody which names it had given
            world.spaces, world.times = defaultdict(str), defaultdict(lambda: [0, NEVER])
            thread = f"{last} graph 1"
            world.stopped.add(thread)
            world.check([thread])
            world.perform(1, begun | ({"do": "go"} if world.here(thread) else {}))
            world.check([thread])
            [latest, *_] = world.here(thread)
            memory = world.adapter.remembered(latest.config)
            assert world.differences == []
            assert sorted(state_of(latest)) == sorted(memory)
            assert len(memory) == len(set(memory)) == REMEMBERED


@contextlib.contextmanager
def followed(url, seed, script):
    """Yield a world for a script, and assert at the end that memory equals state."""
    with contextlib.closing(World(Real(url), f"{seed} ")) as world:
        yield world
        world.check(world.threads)
        assert world.differences == [], f"seed {seed}\n{printed(script)}"


@pytest.mark.parametrize(("kind", "seeds"), [("sqlite", range(500, 503)), ("postgres", range(512, 513))])
def test_two_processes_see_each_others_memory(kind, seeds, new_database, processes):
    """Every second run is done by another process, on the file that this one holds open."""
    url = new_database(kind)
    for seed in seeds:
        script = random_script(seed)
        with followed(url, seed, script) as world:
            for number, action in enumerate(script["actions"]):
                processes.perform(world, action) if number % 2 else world.perform(number, action)


@pytest.mark.parametrize(("kind", "seeds"), [("sqlite", range(2)), ("postgres", range(1))])
def test_memory_equals_state_with_two_concurrent_processes(kind, seeds, new_database, two_processes):
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
