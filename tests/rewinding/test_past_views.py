"""What a node saw when it started its checkpoint shows ever after, whatever happens to the thread; and so do searches.

The scripts of rewind equality, with everything that a memory allows (`diary.py`): values with and without an end, what
moves to archival memory to make room, events that are evicted, consolidated and summed up, records that change.
`AGENTMEM_EXAMPLES=1000 pytest -o timeout=0` follows so many on each engine.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from typing import Any

import pytest

from langchain_agentmem.messages.role_rounds import Retention

from .diary import Diary, Witness, without_tasks
from .oracle import followed, report
from .scopes import PastScope, SharedCore
from .worlds import ACTIONS, Writer, random_script

EXAMPLES = {"sqlite": 24, "postgres": 4}
PARTS = {"sqlite": 4, "postgres": 2}


@pytest.mark.slow("in every form")
@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in PARTS.items() for part in range(parts)])
@pytest.mark.parametrize("retention", [None, Retention(keep_last=5)], ids=["keeping", "forgetting"])
def test_a_past_view_is_what_was_seen_there_and_searches_agree_with_it(kind, part, retention, new_database):
    url, numbers = new_database(kind), itertools.count()

    def make():
        number = next(numbers)
        return Witness(Diary(url, f"apple{number}x", retention), f"{number} ")

    examples, outcomes, checks = int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind])), Counter(), 0
    for seed in range(part + PARTS[kind] * (retention is None), examples, PARTS[kind] * 2):
        script = without_tasks(random_script(10_000 + seed))
        world = followed(script, make)
        if world.differences:
            pytest.fail(report(seed, script, make), pytrace=False)
        outcomes, checks = outcomes + world.outcomes, checks + world.checks
    assert checks > 10
    assert outcomes["invoke"] > 0


class MainWriter(Writer):
    """Writes scripts in which the branch "main" of the threads' namespace changes between the runs.

    Nothing runs beside something else: nobody could say in which order that was committed.
    """

    actions = ACTIONS | {"speak": 12, "stop": 0, "together": 0}

    def operation(self, depth: int, alone: bool) -> list[Any]:
        operation = super().operation(depth, alone)
        return ["remember", 1, ""] if operation[0] == "apart" else operation

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do)
        return action | {"number": self.rng.randrange(1, 5)} if do == "speak" else action


SPEAKING = {"sqlite": 8, "postgres": 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPEAKING)
def test_a_past_view_shows_what_main_said_last_before_it(kind, new_database):
    """`AGENTMEM_EXAMPLES=400 pytest -o timeout=0` follows so many on each engine."""
    url, numbers, outcomes = new_database(kind), itertools.count(), Counter()

    def make():
        return PastScope(SharedCore(url, f"scope {next(numbers)}"))

    for seed in range(int(os.environ.get("AGENTMEM_EXAMPLES", SPEAKING[kind]))):
        script = without_tasks(MainWriter(seed).write())
        world = followed(script, make)
        outcomes += world.outcomes
        if world.differences:
            first = "\n".join(world.differences[:2])
            pytest.fail(f"{first}\n{report(seed, script, make)}", pytrace=False)
    assert outcomes["speak"] > 0
