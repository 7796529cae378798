"""Searches that need PostgreSQL, an agent or a separate process."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from tests.conftest import CountingIds, SteppingClock
from tests.search.test_walls import fill, random_query, random_scope, shown
from tests.support.graphs import at
from tests.support.models import ScriptedModel, calling

pytestmark = pytest.mark.sqlite_suffices

OFFLINE = """
import sys
from langchain_agentmem import AgentMemory

def no_network(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{event}{arguments}")

sys.addaudithook(no_network)
with AgentMemory(index={"embed": "static"}) as memory:
    memory.store.put(("a",), "cat", {"text": "My kitten sleeps on the sofa."})
    assert memory.store.search(("a",), query="Where is the cat?")[0].key == "cat"
assert "wordllama" not in sys.modules
"""


def test_static_embeddings_open_no_socket():
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sqlite_and_postgres_return_identical_results(new_database):
    answers = []
    for kind in ("sqlite", "postgres"):
        luck = random.Random(5)
        with AgentMemory(new_database(kind), clock=SteppingClock(), new_id=CountingIds()) as memory:
            fill(memory, luck, 200, [("a",), ("a", "b"), ("b",)])
            asked = [(random_query(luck), random_scope(luck)) for _ in range(50)]
            found = [memory.search(question, limit=100, everything=True) for question, _ in asked]
            found += [memory.search(question, limit=100, **where._asdict()) for question, where in asked]
            answers.append([shown(each) for each in found])
    assert sum(map(len, answers[0])) > 500
    assert answers[0] == answers[1]


def test_messages_dropped_by_compaction_are_found(memory):
    from langchain.agents import create_agent

    from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
    from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware

    def look(number: int) -> str:
        """Look."""
        return f"Shelf {number} has {'walnut ' * 60} jars."

    def find(query: str) -> list[str]:
        """Find."""
        found.append([each.text for each in memory.search(query, kinds=["message"], roles=["tool"])])
        return [str(len(found[-1]))]

    found = []
    calls = [calling("look", f"call-{each}", number=10**each) for each in range(9)]
    model = ScriptedModel(*calls, calling("find", "call-find", query="walnut jars"), AIMessage("done"))
    middleware = CompactionMiddleware(memory, config=ManagedMemoryConfig(threshold_tokens=900))
    agent = create_agent(model, [look, find], middleware=[middleware], checkpointer=memory.checkpointer)
    agent.invoke({"messages": [HumanMessage("Look at the shelves.")]}, at(namespace=("ada",)))
    every = {look(10**number) for number in range(9)}
    gone = {text for text in every if text not in model.texts[-2]}
    assert gone < every
    assert set() < set(found[0]) <= gone
