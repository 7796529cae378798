"""Verification, erasure and import of facts."""

import json
import re

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts.fact import FactsConfig
from tests.facts.scripted import CASES
from tests.facts.test_sources import at, day, message_of, moved, objects, remembering, waiting_graph

NS = ("users", "ana")
FACTS = ("memories", "branches", "forks", "waiting_groups")


def fill_branches(memory):
    """Store facts of every kind on a branch and its fork."""
    facts = memory.facts("user", NS, description="About Ana.")
    chat = memory.conversation("chat", NS)
    for key in ("a", "b", "c"):
        chat.add(message_of(key, f"message {key}"))
    oslo, rome, lima = moved(facts)
    facts.add(message_of("said", "I moved to Lima."))
    facts.add_fact("user", "Maya", "likes", "tea", source="said", confidence=0.5)
    facts.merge("Maja", "Maya")
    facts.declare("speaks")
    fork = facts.fork("fork")
    fork.update(rome, obj="Roma")
    fork.undo(lima)
    fork.remove_by_id("said")
    fork.add_fact("user", "Maja", "lives in", "Lyon", valid_from=day(12), source=("b", "chat"))
    facts.undo(oslo)
    facts.update(lima, valid_to=day(25))
    once = FactsConfig(max_attempts=1)
    failing = memory.facts("failing", NS, model=lambda messages: "No idea of vexations.", settings=once)
    failing.add(message_of("hard", "Vexations."))
    failing.drain()
    return memory


def fill(memory):
    """Store the same, and facts of threads, their copies and pending tasks."""
    fill_branches(memory)
    graph = remembering(memory)
    for said in ("Maya lives in Oslo", "Maya lives in Rome"):
        graph.invoke({"messages": [HumanMessage(said, id=said)]}, at())
    early = list(memory.checkpointer.list(at()))[-2].config
    graph.invoke({"messages": [HumanMessage("Ben likes rice indeed", id="rice")]}, early)
    memory.checkpointer.copy_thread("t", "copy")
    graph.invoke({"messages": [HumanMessage("Ben likes figs indeed", id="figs")]}, at("copy"))
    waiting_graph(memory).invoke({"log": ["Oslo"]}, at("asking"), durability="sync")
    return memory


@pytest.fixture
def filled(memory):
    return fill(memory)


@pytest.fixture
def another(new_database, url, clock):
    """A memory on the other engine."""
    with AgentMemory(new_database("sqlite" if url.startswith("postgres") else "postgres"), clock=clock) as memory:
        yield memory


@pytest.mark.sqlite_suffices
class TestVerification:
    def test_verify_finds_no_problems_after_changes(self, filled):
        assert filled.admin.verify().problems == ()
        filled.conversation("t").clear()
        filled.conversation("chat", NS).clear()
        filled.erase(thread_id="t")
        assert filled.admin.verify().problems == ()

    @pytest.mark.parametrize("damage", CASES["damage"])
    def test_verify_finds_damage_that_can_be_erased(self, url, raw, damage):
        sql, says = CASES["damage"][damage]
        with AgentMemory(url) as memory:
            fill_branches(memory)
            raw(memory, sql)
            problems = " | ".join(memory.admin.verify().problems)
            assert re.search(says, problems), problems
            memory.erase(namespace=())
            assert {memory.admin.stats()[name] for name in FACTS} == {0}


def test_imported_facts_can_be_continued(filled, another, tmp_path):
    filled.export(tmp_path / "all.jsonl")
    another.import_(tmp_path / "all.jsonl")
    known = []
    for memory in (filled, another):
        facts, fork = memory.facts("user", NS), memory.facts("fork", NS)
        facts.add_fact("user", "Maya", "lives in", "Kyiv", valid_from=day(27), source=("z", "chat"))
        facts.undo(facts.history("Maya", "likes")[0].id)
        model = memory.facts("user", NS, model=lambda messages: json.dumps({"facts": []}))
        model.drain()
        remembering(memory).invoke({"messages": [HumanMessage("Ben lives in Kyiv", id="kyiv")]}, at())
        waiting_graph(memory).invoke(Command(resume="yes"), at("asking"), durability="sync")
        told = [(fact.text, fact.period, fact.sources) for each in (facts, fork) for fact in each.history("Maya")]
        known.append((told, facts.pending_count(), [objects(memory, at(thread)) for thread in ("t", "copy", "asking")]))
        assert memory.admin.verify().ok
    assert known[0] == known[1]
