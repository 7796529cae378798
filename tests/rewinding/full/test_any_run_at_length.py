"""Rewind equality for many seeds, on both engines.

`AGENTMEM_EXAMPLES=5000 pytest -o timeout=0 --full -m deep` follows so many of each oracle per engine.
"""

import os

import pytest

from tests.rewinding.oracles import ORACLES, follow_all

SEEDS = {"one after the other": ((100, 320), (10, 40)), "two run a thread at once": ((8, 100), (2, 40))}
"""Number of seeds of the full ring and in all, on SQLite and on PostgreSQL."""
OTHERS = (8, 400), (2, 60)
SLOW_ON_POSTGRES = ("heads of a scope", "the newest commit")
"""Prefixes of the names of oracles that are slow on PostgreSQL."""
SEEDS_PER_TEST = 20
"""Number of seeds that one test follows."""


def portions():
    """Yield the seeds of each test, by oracle and engine."""
    for name in ORACLES:
        for kind, (few, every) in zip(("sqlite", "postgres"), SEEDS.get(name, OTHERS), strict=True):
            deep = range(few, int(os.environ.get("AGENTMEM_EXAMPLES", every)), SEEDS_PER_TEST)
            for first in (*range(0, few, SEEDS_PER_TEST), *deep):
                seeds = range(first, min(first + SEEDS_PER_TEST, few if first < few else first + SEEDS_PER_TEST))
                slow = (
                    [pytest.mark.slow("in every form")]
                    if kind == "postgres" and name.startswith(SLOW_ON_POSTGRES)
                    else []
                )
                marks = [pytest.mark.deep] if first >= few else slow
                yield pytest.param(kind, name, seeds, marks=marks, id=f"{kind}, {name}, from {first}")


@pytest.mark.parametrize(("kind", "name", "seeds"), [*portions()])
def test_memory_equals_graph_state_for_many_seeds(kind, name, seeds, new_database):
    assert follow_all(name, seeds, new_database(kind))
