"""Validity periods of facts: ends, ties, contradictions, undo, corrections and aliases."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, MessageError

from .scripted import CASES


def day(number: int, month: int = 3) -> datetime:
    return datetime(2025, month, number, tzinfo=UTC)


@pytest.fixture
def memory(new_database, clock):
    numbers = itertools.count(999, -1)  # so that nothing can rest on the order of ids
    with AgentMemory(new_database("sqlite"), clock=clock, new_id=lambda: f"id-{next(numbers)}") as memory:
        yield memory


@pytest.fixture
def facts(memory):
    return memory.facts()


@pytest.fixture
def lives(facts):
    """Add where Maya lives; return the id of the fact."""

    def state(place, start=None, end=None, **more):
        return facts.add_fact("user", "Maya", "lives in", place, valid_from=start, valid_to=end, **more)

    return state


def places(found):
    return [fact.object for fact in found]


def periods(facts, subject="Maya", predicate="lives in"):
    return [(fact.object, fact.valid_from, fact.valid_to) for fact in facts.history(subject, predicate)]


RULES: dict[str, tuple[list[str], list[str], list[str]]] = CASES["rules"]
"""What is told, each by a message of its own; the periods that follow from it, and those of the contradictions."""


def span(text: str) -> list[datetime | None]:
    """The first and last day of a period: "1-5", or "1" without an end."""
    start, _, end = text.partition("-")
    return [day(int(start)), day(int(end)) if end else None]


@pytest.mark.parametrize("rule", RULES)
def test_validity_rules_give_expected_periods(facts, lives, rule):
    steps, held, clashes = RULES[rule]
    ids: dict[str, str] = {}
    for number, step in enumerate(steps):
        before = facts.now, facts.history("Maya")
        do, _, what = step.partition(" ")
        if do == "undo":
            facts.undo(ids[what])
        else:
            ids[do] = lives(do, *span(what), source=f"m{number}")
            told = facts.history("Maya")
            assert lives(do, *span(what), source=f"m{number}") == ids[do]  # who says it twice says it once
            assert facts.history("Maya") == told
        assert facts.history("Maya", recorded=before[0]) == before[1]
    assert periods(facts) == [(place, *span(what)) for place, what in map(str.split, held)]
    assert [[each.valid_from, each.valid_to] for each in facts.contradictions("maya", "lives_in")] == [
        span(each) for each in clashes
    ]


class TestEnds:
    def test_fact_starts_at_the_time_of_its_source(self, facts, lives, clock):
        said = facts.add(role="user", content="I have moved to Lisbon.")
        said_at = clock.now
        clock.pass_time(days=40)
        fact = facts.get(lives("Lisbon", source=said))
        assert fact.valid_from == said_at
        assert fact.recorded_at > said_at + timedelta(days=40)

    def test_past_end_without_start_gives_minimal_period(self, facts, lives):
        lives("Lisbon", end=day(1))
        assert periods(facts) == [("Lisbon", day(1) - timedelta(microseconds=1), day(1))]

    def test_end_before_start_is_rejected(self, facts, lives):
        with pytest.raises(InvalidInput, match="valid_to must come after"):
            lives("Eden", end=datetime.min)
        rome = lives("Rome", end=datetime.min + timedelta(days=1))
        assert rome == facts.history("Maya")[0].id
        with pytest.raises(InvalidInput, match="valid_to must come after"):
            facts.update(rome, valid_to=datetime.min)
        assert len(periods(facts)) == 1


class TestTies:
    def test_later_of_two_simultaneous_facts_wins(self, facts, lives):
        said = facts.add(role="user", content="I live in Lisbon. No, wait: in Porto.")
        lisbon, porto = lives("Lisbon", source=said), lives("Porto", source=said)
        assert facts.get(lisbon).valid_from == facts.get(lisbon).valid_to == facts.get(porto).valid_from
        assert places(facts.as_of()) == ["Porto"]
        assert places(facts.history("Maya")) == ["Lisbon", "Porto"]
        assert facts.contradictions() == []

    def test_last_fact_of_one_extraction_wins(self, memory):
        told = {"message": 1, "subject": "Maya", "predicate": "lives in"}
        answer = json.dumps({"facts": [{**told, "object": each} for each in ("Porto", "Faro")]})
        facts = memory.facts(model=lambda messages: answer)
        porto, faro = facts.extract_and_update_from_text("I live in Porto. Sorry, in Faro.")
        assert porto.recorded_at == faro.recorded_at
        assert places(facts.as_of()) == ["Faro"]
        facts.undo(faro.id)
        assert places(facts.as_of()) == ["Porto"]


def test_undone_fact_cannot_be_updated(facts, lives):
    key = lives("Lisbon")
    facts.undo(key)
    with pytest.raises(MessageError, match="was undone"):
        facts.update(key, obj="Porto")
    facts.undo(key)
    assert facts.get(key).object == "Lisbon"


def test_circular_merge_is_rejected(facts):
    facts.merge("Bob", "Robert")
    with pytest.raises(InvalidInput, match="already merged into"):
        facts.merge("Robert", "Bob")
    facts.merge("Bob", "Robert")
    assert [(alias.name, alias.into) for alias in facts.aliases()] == [("Bob", "Robert")]
