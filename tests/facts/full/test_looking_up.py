"""The cost of fact queries: they use indexes and read only relevant facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact_store import PAGE_START
from langchain_agentmem.storage.sqlite import _SqliteTransaction
from tests.support.graphs import at
from tests.support.plans import plan_of

pytestmark = pytest.mark.sqlite_suffices

THINGS = json.dumps([["friend 1", "likes"], ["friend 2", "likes"]])
PAGE = {"limit": 10, "labels": None, "learned_at": PAGE_START[0], "number": PAGE_START[1]}
LOOKED_UP = {
    "facts_of_subjects": ({"keys": json.dumps(["friend 1", "friend 2"])}, {"memory_subject_learned"}),
    "facts_of_predicates": ({"keys": THINGS}, {"memory_subject"}),
    "facts_of_triples": ({"keys": json.dumps([["friend 1", "likes", "tea 1"]])}, {"memory_subject"}),
    "facts_of_objects": ({"keys": json.dumps(["tea 1"]), "labels": None}, {"memory_object"}),
    "latest_facts": (PAGE, {"memory_learned", "memory_visible_learned", "memory_formerly_visible"}),
    "latest_facts_of_entities": (
        {"keys": json.dumps(["tea 1"]), **PAGE},
        {"memory_subject_learned", "memory_object", "memory_visible_subject_learned", "memory_visible_object"},
    ),
    "versions_by_author_of": ({"keys": json.dumps(["fact 1"])}, {"memory_key", "memory_visible"}),
    "entities_in_range": ({"low": "frie", "high": "frif"}, {"memory_subject_learned", "memory_object"}),
    "memory_with_sources": ({"keys": json.dumps(["message m-1"]), "low": "", "high": "\x01"}, {"memory_source_source"}),
    "delete_sources": ({"row": 1}, set()),
    "delete_source": ({"row": 1, "source": "message m-1"}, set()),
    "set_extra": ({"id": 1, "extra": "{}"}, set()),
    "mark_memory_deleted": ({"id": 1, "hide": 0}, set()),
}
FEW_KEYS = "USING COVERING INDEX memory_key (branch_id=? AND kind=?)"
"""How it is found out which branches of a line hold little; of the others no more is read than tells so."""
FACTS = 150
FORKS = 40
NS = ("users", "ada")


@pytest.fixture
def view(memory):
    """The view of a fork, in a database with many other facts."""
    for user in range(4):
        batch(memory, f"user {user}", FACTS)
    memory.facts("user 2").add_fact("user", "Friend 1", "likes", "tea 1", source="m-1")
    fork = memory.facts("user 2").fork("fork")
    fork.add_fact("user", "Friend 1", "likes", "coffee")
    return memory.database.engine.read(lambda tx: fork._context.point.view(tx, memory.database.now()))


def batch(memory: AgentMemory, name: str, count: int, subject: str = "friend {}", obj: str = "tea {}") -> None:
    """Store many facts on a branch at once."""
    ground = memory.facts(name)._context

    def make(tx, change):
        facts = ground.changes(tx, change)
        for number in range(count):
            change.now += 1  # learned one after the other
            facts.written.clear()  # no two of them are about the same
            said = fact_store.FactStatement("user", subject.format(number), "likes", obj.format(number))
            facts.record_statement(said)

    ground.write("facts.add", make)


def count_steps(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    """Count the SQLite steps of a call, in tens."""
    ticks: list[int] = []
    enter = _SqliteTransaction.__enter__

    def watched(tx):
        tx._connection.set_progress_handler(lambda: ticks.append(1), 10)
        return enter(tx)

    with monkeypatch.context() as patch:
        patch.setattr(_SqliteTransaction, "__enter__", watched)
        act()
    return len(ticks)


def test_fact_queries_use_the_expected_indexes(memory, raw, view):
    through_all = ("INDEX memory_order", "INDEX memory_current", "(branch_id=?)", "(branch_id=? AND kind=?)")
    for name, (given, indexes) in LOOKED_UP.items():
        plan = plan_of(memory, raw, name, {**view.parameters(), "kind": "fact", **given})
        if memory.database.engine.dialect == "sqlite":
            scans = [line for line in plan if line.startswith("SCAN") and line.split()[1] in ("memory", "m", "n")]
            if name != "latest_facts":  # which is read from its end
                scans += [line for line in plan if any(each in line for each in through_all) and FEW_KEYS not in line]
            assert {index for index in indexes if any(f"INDEX {index} " in line for line in plan)} == indexes, name
        else:
            # of a page of groups, branches or sources a scan is the quicker way
            scans = [line for line in plan if "Seq Scan on memory " in line]
        assert plan, name
        assert scans == [], name


COSTS = {
    "add_fact": ({}, lambda facts: facts.add_fact("user", "Friend 7", "likes", "tea 7")),
    "as_of subject": ({}, lambda facts: facts.as_of(subject="Friend 7")),
    "as_of obj": ({}, lambda facts: facts.as_of(obj="tea 7")),
    "history": ({}, lambda facts: facts.history("Friend 7", "likes")),
    "neighbours": ({}, lambda facts: facts.neighbours("Friend 7", 2)),
    "recent": ({}, lambda facts: facts.retrieve_recent(5)),
    "latest": ({}, lambda facts: facts.latest(5)),
    "latest of": ({}, lambda facts: facts.latest(5, entity="tea 7", predicate="likes")),
    "latest that hold": ({}, lambda facts: facts.latest(5, valid=facts.now)),
    "contradictions": ({}, lambda facts: facts.contradictions(["Friend 7", "Friend 8"])),
    "entities": ({}, lambda facts: facts.entities("friend 0")),
    "what many like": ({"obj": "tea"}, lambda facts: facts.add_fact("user", "Newcomer", "likes", "tea")),
    "who likes much": ({"subject": "Newcomer"}, lambda facts: facts.add_fact("user", "Newcomer", "likes", "tea")),
    "contradictions of much": ({"subject": "Newcomer"}, lambda facts: facts.contradictions("Newcomer")),
}
"""What is asked, of facts about different things or, where that is named, of one."""


def growth(monkeypatch, folder, prepare, sizes=(200, 2_000), **options):
    """The ratio of SQLite steps in a large and a small memory; `prepare` returns the call."""
    steps = []
    for size in sizes:
        with AgentMemory(folder / f"{size}.db", **options) as memory:
            steps.append(count_steps(monkeypatch, prepare(memory, size)))
    assert steps[0] > 0
    return steps[1] / steps[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTS)
def test_query_cost_is_independent_of_other_facts(tmp_path, monkeypatch, name):
    """SQLite takes as many steps among 2,000 facts as among 200."""
    about, ask = COSTS[name]

    def prepare(memory, count):
        batch(memory, "main", count, **about)
        facts = memory.facts("main")
        if about:
            facts.add_fact("user", "Newcomer", "likes", "water")
        else:
            ask(facts)
        return partial(ask, facts)

    assert growth(monkeypatch, tmp_path, prepare) <= 1.3


@pytest.mark.slow
@pytest.mark.parametrize("hub", [{"obj": "tea"}, {"subject": "tea"}], ids=["object", "subject"])
@pytest.mark.parametrize("entity", ["tea", None], ids=["of it", "of anything"])
@pytest.mark.parametrize("whose", ["its own", "a thread's"])
def test_page_cost_is_independent_of_entity_size(tmp_path, monkeypatch, hub, entity, whose):
    """On the branch itself, and in a thread of the same scope."""

    def prepare(memory, count):
        batch(memory, "main", count, **hub)
        facts = memory.facts("main" if whose == "its own" else at())
        page = facts.latest(5, entity=entity, valid=facts.now)
        assert len(page) == 5
        return partial(facts.latest, 5, entity=entity, valid=facts.now, before=page[-1].id)

    assert growth(monkeypatch, tmp_path, prepare, namespace=NS) <= 1.3


def through_forks(memory: AgentMemory, each: int):
    """A branch behind many forks, each with `each` unrelated facts."""
    batch(memory, "main", FACTS, subject="Newcomer")
    facts = memory.facts("main")
    for number in range(FORKS):
        facts = facts.fork(f"fork {number}")
        batch(memory, facts.name, each, subject=f"fork {number} friend {{}}", obj="water {}")
    return facts


@pytest.mark.parametrize("each", [1, 10])
def test_small_forks_add_little_query_cost(tmp_path, monkeypatch, each):
    """Facts are looked up on large branches only, not on every ancestor."""
    with AgentMemory(tmp_path / "forks.db") as memory:
        facts = through_forks(memory, each)
        there = memory.facts("main"), facts
        steps = [count_steps(monkeypatch, lambda one=one: one.neighbours("Newcomer")) for one in there]
    assert steps[0] > FACTS
    assert steps[1] <= 4 * steps[0]


@pytest.mark.slow("in every form")
def test_fork_size_does_not_affect_query_cost(tmp_path, monkeypatch):
    """Reading stops once a branch is known to be large."""

    def prepare(memory, each):
        return partial(through_forks(memory, each).neighbours, "Newcomer")

    assert growth(monkeypatch, tmp_path, prepare, (30, 300)) <= 1.1
