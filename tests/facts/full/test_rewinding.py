"""Rewind equality for facts: whatever a graph does, they are what state says, at every checkpoint and in every node.

The scripts of `tests/rewinding/`, in which nodes state facts, or have them extracted from a message.
`AGENTMEM_EXAMPLES=1000 pytest -o timeout=0` follows so many on each engine.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections import Counter

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from tests.facts.scripted import Scripted
from tests.rewinding.adapters import Real
from tests.rewinding.oracle import World, followed, report
from tests.rewinding.worlds import random_script

EXAMPLES = {"sqlite": 20, "postgres": 4}


def said(name: str) -> list[HumanMessage] | None:
    """A message that says what Maya saw; None of what is told without one."""
    return None if zlib.crc32(name.encode()) % 3 == 0 else [HumanMessage(f"Maya | saw | {name}", id=f"m{name}")]


class Facts(Real):
    """`memory.facts(config)` and `memory.remember_facts(model)`, on `memory.checkpointer`."""

    def remember(self, config: RunnableConfig, name: str) -> None:
        if (messages := said(name)) is None:
            self.memory.facts(config).add_fact("user", "Maya", "saw", name)
        else:
            self.memory.remember_facts(Scripted(), share_conversation=True).invoke(messages, config)

    async def aremember(self, config: RunnableConfig, name: str) -> None:
        if (messages := said(name)) is None:
            await self.memory.facts(config).aadd_fact("user", "Maya", "saw", name)
        else:
            await self.memory.remember_facts(Scripted(), share_conversation=True).ainvoke(messages, config)

    def remembered(self, config: RunnableConfig) -> list[str]:
        return [fact.object for fact in self.memory.facts(config).history("Maya")]

    async def aremembered(self, config: RunnableConfig) -> list[str]:
        return [fact.object for fact in await self.memory.facts(config).ahistory("Maya")]


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("kind", EXAMPLES)
def test_facts_are_what_state_says_at_every_checkpoint_and_in_every_node(kind, new_database):
    url, numbers = new_database(kind), itertools.count()

    def make():
        return World(Facts(url), f"{next(numbers)} ")

    outcomes, checks = Counter(), 0
    for seed in range(int(os.environ.get("AGENTMEM_EXAMPLES", EXAMPLES[kind]))):
        script = random_script(20_000 + seed)
        world = followed(script, make)
        if world.differences:
            pytest.fail(report(seed, script, world), pytrace=False)
        outcomes, checks = outcomes + world.outcomes, checks + world.checks
    assert checks > 100
    assert outcomes["invoke"] > 0


@pytest.mark.slow
def test_what_tasks_bring_side_by_side_each_extracts_itself(new_database):
    url = new_database("sqlite")
    for number in range(6):
        world = followed(random_script(109), lambda number=number: World(Facts(url), f"{number} "))
        assert world.differences == []
