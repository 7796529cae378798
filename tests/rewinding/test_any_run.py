"""Rewind equality: whatever a graph does, memory is what state says, at every checkpoint and in every node.

Random scripts (`worlds.py`) are followed by graphs (`graphs.py`) whose nodes return the ids of what they remember into
state; `oracle.py` compares. `AGENTMEM_EXAMPLES=5000 pytest -o timeout=0` runs so many seeds per engine. A seed that
fails is printed in the shortest form found in half a minute.

What several do at the same time, and what goes on when its run is over, stands in scripts of its own, of which
`pytest -m deep` follows many and every other run of the tests a few.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter

import pytest

from .adapters import Ancestors, HighWaterMark, Real
from .diary import without_tasks
from .oracle import World, differences_of, followed, report
from .processes import Processes
from .scopes import CoreScope, Scope, Shared, SharedCore
from .worlds import crowded_script, kept_script, printed, random_script, wide_script

EXAMPLES = {"sqlite": 320, "postgres": 40}
PARTS = {"sqlite": 16, "postgres": 4}


def seeds_of(kind, part):
    examples = int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind]))
    return range(part, examples, PARTS[kind])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in PARTS.items() for part in range(parts)])
def test_memory_is_what_state_says_at_every_checkpoint_and_in_every_node(kind, part, new_database):
    outcomes = followed_all(random_script, seeds_of(kind, part), new_database(kind))
    assert outcomes["interrupted"] > 0
    assert outcomes["Broken"] > 0


def followed_all(write, seeds, url):
    """Follow the scripts of some seeds, on one database, each with threads of its own, and give what became of them."""
    numbers = itertools.count()

    def make():
        return World(Real(url), f"{next(numbers)} ")

    outcomes, checks, excused = Counter(), 0, 0
    for seed in seeds:
        script = write(seed)
        world = followed(script, make)
        outcomes += world.outcomes
        if world.differences:
            pytest.fail(report(seed, script, make), pytrace=False)
        checks, excused = checks + world.checks, excused + world.excused
    assert excused <= 0.1 * checks
    return outcomes


WIDE = {"sqlite": (8, 400), "postgres": (2, 60)}
CROWDED = {"sqlite": (8, 100), "postgres": (2, 40)}
KEPT = {"sqlite": (8, 400), "postgres": (2, 60)}
IN_PROCESSES = {"sqlite": (2, 20), "postgres": (1, 6)}
"""How many seeds are followed each time, and how many in all by `pytest -m deep`."""
TOGETHER = 20
"""Seeds that are followed by one test."""


def portions(examples):
    """The seeds of each test, on each engine."""
    for kind, (few, all_of_them) in examples.items():
        yield pytest.param(kind, range(few), id=kind)
        for first in range(few, all_of_them, TOGETHER):
            seeds = range(first, min(first + TOGETHER, all_of_them))
            yield pytest.param(kind, seeds, marks=pytest.mark.deep, id=f"{kind} from {first}")


@pytest.mark.slow("in every form")
@pytest.mark.parametrize(("kind", "seeds"), [*portions(KEPT)])
def test_memory_is_what_state_says_where_subgraphs_keep_their_state(kind, seeds, new_database):
    """Also where runs share one control, one after the other, at once and in nodes."""
    outcomes = followed_all(kept_script, seeds, new_database(kind))
    assert outcomes["interrupted"] > 0


@pytest.fixture(scope="module")
def two_processes():
    with Processes() as one, Processes() as other:
        yield one, other


class TestAtOnce:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("kind", "seeds"), [*portions(WIDE)])
    def test_memory_is_what_state_says_whoever_goes_on_when_its_run_is_over(self, kind, seeds, new_database):
        """Also where calls are repeated, `@task`s are called by what fails, and copies of a thread run at once."""
        outcomes = followed_all(wide_script, seeds, new_database(kind))
        assert outcomes["interrupted"] > 0

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("kind", "seeds"), [*portions(CROWDED)])
    def test_memory_is_what_state_says_where_two_run_a_thread_at_once(self, kind, seeds, new_database):
        outcomes = followed_all(crowded_script, seeds, new_database(kind))
        assert outcomes["crowd"] > 0

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("kind", "seeds"), [*portions(IN_PROCESSES)])
    def test_memory_is_what_state_says_where_two_processes_run_a_thread_at_once(
        self, kind, seeds, new_database, two_processes
    ):
        url, (one, other) = new_database(kind), two_processes
        for seed in seeds:
            world, script = World(Real(url), f"{seed} "), crowded_script(seed)
            with contextlib.closing(world):
                for number, action in enumerate(script["actions"]):
                    thread = world.thread_of(action)
                    if action["do"] != "crowd" or thread is None:
                        world.perform(number, action)
                        continue
                    one.perform_with(other, world, [action | run for run in action["runs"]])
                    world.check([thread])
                world.check(world.threads)
                assert world.differences == [], f"seed {seed}\n{printed(script)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [275, 402, 563, 658, 921, 1289])
def test_what_once_was_wrong_is_right(seed, new_database):
    world = followed(random_script(seed), lambda: World(Real(new_database("sqlite"))))
    assert world.differences == []


SCOPED = {"sqlite": (12, 400), "postgres": (3, 60)}


@pytest.mark.slow("in every form")
@pytest.mark.parametrize(("kind", "seeds"), [*portions(SCOPED)])
@pytest.mark.parametrize("write", [random_script, wide_script, kept_script])
def test_a_scope_shows_what_the_heads_of_its_threads_show(kind, seeds, write, new_database):
    numbers, url = itertools.count(), new_database(kind)

    def make():
        return Scope(Shared(url, f"scope {next(numbers)}"))

    for seed in seeds:
        script = without(write(seed), "zombie")
        if followed(script, make).differences:
            pytest.fail(report(seed, script, make), pytrace=False)


@pytest.mark.slow("in every form")
@pytest.mark.parametrize(("kind", "seeds"), [*portions(SCOPED)])
@pytest.mark.parametrize("write", [random_script, wide_script, kept_script])
def test_of_what_many_write_under_one_key_the_newest_commit_counts(kind, seeds, write, new_database):
    numbers, url = itertools.count(), new_database(kind)

    def make():
        return CoreScope(SharedCore(url, f"scope {next(numbers)}"))

    for seed in seeds:
        script = without(without_tasks(write(seed)), "zombie", "copies")
        if followed(script, make).differences:
            pytest.fail(report(seed, script, make), pytrace=False)


def without(script, *kinds):
    """The script without runs that go on when another has taken their place: when they commit is nobody's to say."""
    return {**script, "actions": [action for action in script["actions"] if action["do"] not in kinds]}


class TestTheOracle:
    """It finds what is wrong with the rules that come to mind first, and so would find it here."""

    SEEDS = range(30)

    def test_a_script_of_what_is_done_at_once_does_everything(self):
        outcomes, operations = Counter(), Counter()
        for seed in range(100):
            for write in (wide_script, crowded_script):
                assert write(seed) == write(seed)
                outcomes.update(action["do"] for action in write(seed)["actions"])
                operations.update(_names(write(seed)))
        for do in ("zombie", "twice", "copies", "crowd", "resume", "again", "go", "update", "reopen", "stop"):
            assert outcomes[do] > 5, do
        for name in ("slip", "linger", "flaky", "fail", "ask", "task", "tasks", "two", "send", "sub"):
            assert operations[name] > 5, name

    def test_a_script_of_subgraphs_that_keep_their_state_does_everything(self):
        outcomes, operations = Counter(), Counter()
        for seed in range(100):
            script = kept_script(seed)
            outcomes.update(action["do"] for action in script["actions"])
            outcomes.update(f"{action['do']} shared" for action in script["actions"] if action["shared"])
            operations.update(_names(script))
        for do in ("inside", "within", "update", "copy", "resume", "invoke shared", "together shared"):
            assert outcomes[do] > 5, do
        for name in ("keeper", "beside", "kept", "fail", "ask", "apart again"):
            assert operations[name] > 5, name

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", [HighWaterMark, Ancestors])
    def test_a_wrong_rule_does_not_pass(self, rule):
        found = differences_of(self.SEEDS, lambda: World(rule()))
        assert len(found) > len(self.SEEDS) * 0.7

    def test_a_script_is_the_same_each_time_it_is_made(self):
        assert [random_script(seed) for seed in range(20)] == [random_script(seed) for seed in range(20)]

    def test_the_scripts_do_everything_that_is_promised_to_hold(self):
        outcomes, operations = Counter(), Counter()
        for seed in range(200):
            script = random_script(seed)
            outcomes.update(action["do"] for action in script["actions"])
            operations.update(_names(script))
        for do in ("invoke", "go", "resume", "again", "update", "bulk", "copy", "end", "duplicate", "prune", "forget"):
            assert outcomes[do] > 5, do
        for name in ("ask", "fail", "flaky", "task", "tasks", "call", "kept", "off", "apart", "send", "sub", "risky"):
            assert operations[name] > 5, name


def _names(part):
    """Every name of an operation or a kind of step in a script."""
    if isinstance(part, dict):
        yield from ([part["kind"]] if "kind" in part else [])
        for each in part.values():
            yield from _names(each)
    elif isinstance(part, list):
        yield from ([part[0]] if part and isinstance(part[0], str) else [])
        for each in part:
            yield from _names(each)
