"""Rewind equality where runs are deleted between others: memory is what state says at every checkpoint that is left.

The scripts of rewind equality, in which each run has an id, and `delete_for_runs` takes one or two of the latest.
`AGENTMEM_EXAMPLES=400 pytest -o timeout=0` follows so many on each engine.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from .adapters import Real
from .oracle import World, followed, report
from .worlds import ACTIONS, Writer

EXAMPLES = {"sqlite": 12, "postgres": 3}


class RunsWriter(Writer):
    """Writes scripts in which steps stop often, are resumed, and lose runs in between."""

    actions = ACTIONS | {"resume": 6, "go": 4, "delete_runs": 4, "stop": 0.2}

    def write(self) -> dict[str, Any]:
        """Return a script in which a step stops, is finished by a run that is deleted, and goes on once more."""
        script = super().write()
        for _ in range(self.rng.choice((1, 2))):
            stop = self.rng.choice((["ask"], ["ask"], ["fail", self.key()]))
            step = {"kind": "two", "look": "always", "ops": [["remember", 1, ""], *self.operations(1, False)]}
            begun = self.action("invoke") | {"plan": [{**step, "right": [["remember", 1, ""], stop]}, *self.plan()]}
            some = [
                begun,
                *(self.action(do) for do in self.rng.choices(("resume", "go", "delete_runs"), (4, 2, 5), k=6)),
            ]
            where = self.rng.randrange(1, len(script["actions"]) + 1)
            script["actions"][where:where] = [{**each, "thread": "graph 1"} for each in some]
        return script

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do)
        return action | {"number": self.rng.randrange(12)} if do == "delete_runs" else action


def runs_script(seed: int) -> dict[str, Any]:
    return RunsWriter(seed).write()


class DeletedRuns(World):
    """A world whose runs have ids, by which they are deleted."""

    def __init__(self, adapter: Any, label: str = "") -> None:
        self.begun: dict[str, list[str]] = {}
        super().__init__(adapter, label)

    def at(self, thread: str, action: dict[str, Any]) -> Any:
        names = self.begun.setdefault(thread, [])
        names.append(f"{thread} run {len(names)}")
        return {**super().at(thread, action), "metadata": {"run_id": names[-1]}}

    def delete_runs(self, thread: str, action: dict[str, Any]) -> str | None:
        """Delete one or two of the latest runs of a thread."""
        names = self.begun.get(thread, [])
        held = {each.metadata.get("run_id") for each in self.here(thread)}
        if not (there := [name for name in names if name in held][-4:]):
            return "no run to delete"
        chosen = Random(action["number"]).sample(there, 1 + (len(there) > 1 and action["number"] % 3 == 0))
        if action["number"] > 5:  # the latest, which has sealed what others left finished
            chosen = there[-1:]
        self.call(self.adapter.saver, "delete_for_runs", chosen)
        self.check(self.threads)
        return None


def follow_all(seeds: range, url: str) -> Counter[str]:
    """Follow the scripts of some seeds on one database, and return how often each action was performed."""
    numbers, outcomes = itertools.count(), Counter[str]()

    def make() -> DeletedRuns:
        return DeletedRuns(Real(url), f"{next(numbers)} ")

    for seed in seeds:
        script = runs_script(seed)
        world = followed(script, make)
        outcomes += world.outcomes
        if world.differences:
            first = "\n".join(world.differences[:2])
            pytest.fail(f"{first}\n{report(seed, script, make)}", pytrace=False)
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_memory_is_what_state_says_at_every_checkpoint_that_is_left(kind, new_database):
    examples = int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind]))
    outcomes = follow_all(range(examples), new_database(kind))
    assert outcomes["delete_runs"] > 0
    assert outcomes["interrupted"] > 0
