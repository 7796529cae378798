"""Rewind equality, for a few seeds of each oracle; `full/test_any_run_at_length.py` follows more."""

from collections import Counter

import pytest

from .adapters import Real
from .oracle import World, followed
from .oracles import ORACLES, follow_all
from .worlds import crowded_script, kept_script, random_script, wide_script

DOES = {
    random_script: "invoke go resume again update bulk copy end duplicate prune forget "
    "ask fail flaky task tasks call kept off apart send sub risky",
    wide_script: "zombie twice copies resume again go update reopen stop "
    "slip linger flaky fail ask task tasks two send sub",
    crowded_script: "crowd resume go update",
    kept_script: "inside within update copy resume shared keeper beside kept fail ask",
}
"""What the scripts are to do, each time they are written anew."""

COMBINED = ("wide", "state", "few checkpoints")
"""Ends of the names of oracles that combine others."""


def test_memory_is_what_state_says_at_every_checkpoint_and_in_every_node(url):
    outcomes = follow_all("one after the other", range(6 if url.startswith("postgres") else 20), url)
    assert outcomes["interrupted"] > 0
    assert outcomes["Broken"] > 0


@pytest.mark.parametrize("name", [each for each in [*ORACLES][1:] if not each.endswith(COMBINED)])
def test_so_it_is_where_something_else_is_remembered_or_done(url, name):
    assert follow_all(name, range(2), url)


class Forgetful(Real):
    """A memory that does not rewind."""

    def recall(self, config):
        return self.memory.layers("one for all").recall


def test_a_memory_that_does_not_rewind_differs_from_state():
    worlds = [followed(random_script(seed), lambda: World(Forgetful(":memory:"))) for seed in range(3)]
    assert all(world.differences for world in worlds)


@pytest.mark.parametrize("write", DOES)
def test_the_scripts_do_everything_that_is_promised_to_hold(write):
    done = Counter()
    for seed in range(100):
        script = write(seed)
        assert script == write(seed)
        done.update(action["do"] for action in script["actions"])
        done.update("shared" for action in script["actions"] if action.get("shared"))
        done.update(names(script))
    assert {name: done[name] for name in DOES[write].split() if done[name] <= 5} == {}


def names(part):
    """Every name of an operation or a kind of step in a script."""
    if isinstance(part, dict):
        yield from ([part["kind"]] if "kind" in part else [])
        for each in part.values():
            yield from names(each)
    elif isinstance(part, list):
        yield from ([part[0]] if part and isinstance(part[0], str) else [])
        for each in part:
            yield from names(each)
