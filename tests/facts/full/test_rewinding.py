"""Rewind equality for facts: they match the graph state at every checkpoint and node.

The scripts of `tests/rewinding/`, in which nodes state facts, or have them extracted from a message.
`AGENTMEM_EXAMPLES=1000 pytest -o timeout=0` follows so many on each engine.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from tests.facts.scripted import Scripted
from tests.rewinding.adapters import Real
from tests.rewinding.oracle import World, followed
from tests.rewinding.oracles import follow
from tests.rewinding.worlds import random_script

EXAMPLES = {"sqlite": 20, "postgres": 4}


def said(name: str) -> list[HumanMessage] | None:
    """A message about what Maya saw; None for facts without a message."""
    return None if zlib.crc32(name.encode()) % 3 == 0 else [HumanMessage(f"Maya | saw | {name}", id=f"m{name}")]


class Facts(Real):
    """`memory.facts(config)` and `memory.remember_facts(model)`, on `memory.checkpointer`."""

    def adding(self, config: RunnableConfig, name: str, a: str) -> Any:
        if (messages := said(name)) is None:
            return getattr(self.memory.facts(config), f"{a}add_fact")("user", "Maya", "saw", name)
        node = self.memory.remember_facts(Scripted(), share_conversation=True)
        return getattr(node, f"{a}invoke")(messages, config)

    def looking(self, config: RunnableConfig, a: str) -> Any:
        return getattr(self.memory.facts(config), f"{a}history")("Maya")

    def names(self, found: Any) -> list[str]:
        return [fact.object for fact in found]


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("kind", EXAMPLES)
def test_facts_match_state_at_every_checkpoint(kind, new_database):
    seeds = range(20_000, 20_000 + int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind])))
    outcomes = follow(random_script, lambda url, label: World(Facts(url), label), seeds, new_database(kind))
    assert outcomes["invoke"] > 0


@pytest.mark.slow
def test_parallel_tasks_extract_their_own_messages(new_database):
    url = new_database("sqlite")
    for number in range(6):
        world = followed(random_script(109), lambda number=number: World(Facts(url), f"{number} "))
        assert world.differences == []
