"""Rewind equality for many seeds, on both engines.

`AGENTMEM_EXAMPLES=5000 pytest -o timeout=0 --full -m deep` follows so many of each oracle per engine.
"""

import os

import pytest

from tests.rewinding.oracles import ORACLES, follow_all

SEEDS = {"one after the other": ((100, 320), (10, 40)), "two run a thread at once": ((8, 100), (2, 40))}
"""How many seeds the full ring follows, and how many are followed in all, on SQLite and on PostgreSQL."""
OTHERS = (8, 400), (2, 60)
OF_SCOPES = ("heads of a scope", "the newest commit")
"""How the names of oracles begin that are slow on PostgreSQL."""
TOGETHER = 20
"""Seeds that are followed by one test."""


def portions():
    """The seeds of each test, by oracle and engine."""
    for name in ORACLES:
        for kind, (few, every) in zip(("sqlite", "postgres"), SEEDS.get(name, OTHERS), strict=True):
            deep = range(few, int(os.environ.get("AGENTMEM_EXAMPLES", every)), TOGETHER)
            for first in (*range(0, few, TOGETHER), *deep):
                seeds = range(first, min(first + TOGETHER, few if first < few else first + TOGETHER))
                slow = [pytest.mark.slow("in every form")] if kind == "postgres" and name.startswith(OF_SCOPES) else []
                marks = [pytest.mark.deep] if first >= few else slow
                yield pytest.param(kind, name, seeds, marks=marks, id=f"{kind}, {name}, from {first}")


@pytest.mark.parametrize(("kind", "name", "seeds"), [*portions()])
def test_memory_is_what_state_says(kind, name, seeds, new_database):
    assert follow_all(name, seeds, new_database(kind))
