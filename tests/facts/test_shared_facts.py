"""Facts that several threads of one scope state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.graphs import at, turn

NS = ("users", "ada")
MAY, JULY = datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)


@pytest.fixture
def rewind():
    """Functions that rewind each thread to its beginning, by name."""
    return {}


@pytest.fixture
def run(memory, rewind):
    """Run a function on the facts of a thread within a node."""

    def run(thread: str, act: Any):
        config = at(thread, namespace=NS)
        rewind[thread] = turn(memory.checkpointer, config, lambda config: act(memory.facts(config)))

    return run


def texts(facts):
    return [each.text for each in facts]


def lisbon(facts, **more):
    return facts.add_fact("user", "Ada", "lives in", "Lisbon", **more)


def test_shared_fact_lasts_until_both_threads_rewind(memory, run, rewind):
    run("a", lambda facts: lisbon(facts, source="of a"))
    run("b", lambda facts: lisbon(facts, source="of b"))
    facts = memory.facts(namespace=NS)
    [fact] = facts.as_of()
    assert fact.sources == ("of a", "of b")
    rewind["a"]()
    [fact] = facts.as_of()
    assert fact.sources == ("of b",)
    rewind["b"]()
    assert facts.as_of() == []


def test_concurrent_equal_facts_are_merged(memory, run, rewind):
    def both(facts):
        lisbon(facts, source="of a")
        run("b", lambda facts: lisbon(facts, source="of b", confidence=0.5))

    run("a", both)
    facts = memory.facts(namespace=NS)
    for found in (facts.as_of(), facts.history("Ada", "lives in"), facts.search("Lisbon"), facts.as_of(obj="Lisbon")):
        [fact] = found
        assert set(fact.sources) == {"of a", "of b"}
        assert fact.confidence == 0.5
    assert len(facts.neighbours("Ada")) == 1
    assert facts.format_for_prompt().count("Lisbon") == 1
    assert texts(memory.search("Lisbon", namespace=NS, kinds=["fact"])) == ["Ada lives in Lisbon"]
    assert facts.contradictions() == []
    seen: list[Any] = []
    run("c", lambda facts: seen.extend([texts(facts.as_of()), lisbon(facts, source="of c")]))
    assert seen[0] == ["Ada lives in Lisbon"]
    assert len(facts.as_of()) == 1
    for thread in "abc":
        assert len(facts.as_of()) == 1
        rewind[thread]()
    assert facts.as_of() == []


def test_recurring_value_is_a_separate_period(memory, run):
    facts = memory.facts(namespace=NS)
    for place in ("Lisbon", "Porto", "Lisbon"):
        facts.add_fact("user", "Ada", "lives in", place)
    run("a", lambda facts: facts.add_fact("user", "Ada", "lives in", "Faro"))
    assert [each.object for each in facts.history("Ada", "lives in")] == ["Lisbon", "Porto", "Lisbon", "Faro"]


def test_equal_values_neither_end_nor_contradict_each_other(memory, run):
    def both(facts):
        lisbon(facts, valid_from=MAY)
        run("b", lambda facts: lisbon(facts, valid_from=JULY))

    run("a", both)
    facts = memory.facts(namespace=NS)
    [fact] = facts.history("Ada", "lives in")
    assert (fact.valid_from, fact.valid_to) == (MAY, None)
    assert facts.contradictions() == []
    run("c", lambda facts: facts.add_fact("user", "Ada", "lives in", "Porto"))
    [first, second] = facts.history("Ada", "lives in")
    assert (first.object, first.ended_by, second.object) == ("Lisbon", second.id, "Porto")
