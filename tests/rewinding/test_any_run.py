"""Rewind equality: whatever a graph does, memory is what state says, at every checkpoint and in every node.

Random scripts (`worlds.py`) are followed by graphs (`graphs.py`) whose nodes return the ids of what they remember into
state; `oracle.py` compares. `AGENTMEM_EXAMPLES=5000 pytest -o timeout=0` runs so many seeds per engine. A seed that
fails is printed in the shortest form found in half a minute.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter

import pytest

from .adapters import Ancestors, HighWaterMark, Real
from .oracle import World, differences_of, followed, report
from .worlds import random_script

EXAMPLES = {"sqlite": 320, "postgres": 40}
PARTS = {"sqlite": 16, "postgres": 4}


def seeds_of(kind, part):
    examples = int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind]))
    return range(part, examples, PARTS[kind])


@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in PARTS.items() for part in range(parts)])
def test_memory_is_what_state_says_at_every_checkpoint_and_in_every_node(kind, part, new_database):
    url, numbers = new_database(kind), itertools.count()

    def make():
        """All runs share a database, and each has threads of its own."""
        return World(Real(url), f"{next(numbers)} ")

    outcomes, checks, excused = Counter(), 0, 0
    for seed in seeds_of(kind, part):
        script = random_script(seed)
        world = followed(script, make)
        outcomes += world.outcomes
        if world.differences:
            pytest.fail(report(seed, script, make), pytrace=False)
        checks, excused = checks + world.checks, excused + world.excused
    assert excused <= 0.1 * checks
    assert outcomes["interrupted"] > 0
    assert outcomes["Broken"] > 0


@pytest.mark.parametrize("seed", [275, 402, 563, 658, 921, 1289])
def test_what_once_was_wrong_is_right(seed, new_database):
    world = followed(random_script(seed), lambda: World(Real(new_database("sqlite"))))
    assert world.differences == []


class TestTheOracle:
    """It finds what is wrong with the rules that come to mind first, and so would find it here."""

    SEEDS = range(30)

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
