"""Rewind equality for a few seeds of each oracle; `full/test_any_run_at_length.py` runs more."""

from collections import Counter

import pytest

from .adapters import Real
from .oracle import World, followed
from .oracles import ORACLES, follow_all
from .worlds import crowded_script, kept_script, random_script, wide_script

EXPECTED_OPERATIONS = {
    random_script: "invoke go resume again update bulk copy end duplicate prune forget "
    "ask fail flaky task tasks call kept off apart send sub risky",
    wide_script: "zombie twice copies resume again go update reopen stop "
    "slip linger flaky fail ask task tasks two send sub",
    crowded_script: "crowd resume go update",
    kept_script: "inside within update copy resume shared keeper beside kept fail ask",
}
"""Operations that the scripts of each writer must contain."""

COMBINED_ORACLES = ("wide", "state", "few checkpoints")
"""Suffixes of the names of oracles that combine others."""


def test_memory_equals_state_at_checkpoints_and_in_nodes(url):
    outcomes = follow_all("one after the other", range(6 if url.startswith("postgres") else 20), url)
    assert outcomes["interrupted"] > 0
    assert outcomes["Broken"] > 0


@pytest.mark.parametrize("name", [each for each in [*ORACLES][1:] if not each.endswith(COMBINED_ORACLES)])
def test_each_oracle_finds_memory_equal_to_state(url, name):
    assert follow_all(name, range(2), url)


class NonRewindingMemory(Real):
    """A memory that does not rewind."""

    def recall(self, config):
        return self.memory.layers("one for all").recall


def test_a_memory_without_rewinding_fails_the_oracle():
    worlds = [followed(random_script(seed), lambda: World(NonRewindingMemory(":memory:"))) for seed in range(3)]
    assert all(world.differences for world in worlds)


@pytest.mark.parametrize("write", EXPECTED_OPERATIONS)
def test_random_scripts_cover_all_operations(write):
    done = Counter()
    for seed in range(100):
        script = write(seed)
        assert script == write(seed)
        done.update(action["do"] for action in script["actions"])
        done.update("shared" for action in script["actions"] if action.get("shared"))
        done.update(names(script))
    assert {name: done[name] for name in EXPECTED_OPERATIONS[write].split() if done[name] <= 5} == {}


def names(part):
    """Yield every name of an operation or kind of step in a script."""
    if isinstance(part, dict):
        yield from ([part["kind"]] if "kind" in part else [])
        for each in part.values():
            yield from names(each)
    elif isinstance(part, list):
        yield from ([part[0]] if part and isinstance(part[0], str) else [])
        for each in part:
            yield from names(each)
