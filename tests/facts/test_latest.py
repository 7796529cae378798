"""Pages of the latest facts, of all or of one entity, now or at a past time."""

from datetime import UTC, datetime

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts.fact_store import FactView

NS = ("users", "ada")


def texts(facts):
    return [fact.text for fact in facts]


def pages(facts, size, **filters):
    """All pages, the latest facts first."""
    found, before = [], None
    while page := facts.latest(size, before=before, **filters):
        found.append(texts(page))
        before = page[-1].id
    return found


def test_latest_of_an_entity_includes_its_aliases(memory):
    facts = memory.facts("main")
    facts.add_fact("user", "Ana", "lives in", "Lisbon")
    facts.add_fact("user", "Ben", "knows", "Ana")
    facts.add_fact("user", "Anna", "likes", "tea")
    facts.add_fact("user", "Ben", "likes", "tea")
    assert texts(facts.latest(entity="ana")) == ["Ben knows Ana", "Ana lives in Lisbon"]
    facts.merge("Anna", "Ana")
    assert pages(facts, 2, entity="Ana") == [["Ana likes tea", "Ben knows Ana"], ["Ana lives in Lisbon"]]
    assert texts(facts.latest(entity="Ana", predicate="livesIn")) == ["Ana lives in Lisbon"]
    assert texts(facts.latest(predicate="likes")) == ["Ben likes tea", "Ana likes tea"]


def test_pages_at_a_time_are_complete(memory):
    """Even if few facts were valid then, and for any page size."""
    facts = memory.facts("main", NS)
    past, later = datetime(2020, 6, 1, tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC)
    for number in range(9):
        for year, place in enumerate(("Lisbon", "Porto", "Faro")):
            start = datetime(2020 + 2 * year, 1, 1, tzinfo=UTC)
            facts.add_fact("user", f"Friend {number}", "lives in", place, valid_from=start)
    facts.add_fact("user", "Friend 8", "likes", "tea", valid_from=datetime(2020, 1, 1, tzinfo=UTC), valid_to=later)
    for at, entity, count in ((past, None, 10), (later, None, 9), (None, "Faro", 9), (past, "Porto", 0)):
        held = facts.as_of(at, obj=entity)
        assert len(held) == count
        every = sorted(held, key=lambda fact: fact.recorded_at, reverse=True)
        for size in (1, 4, 100):
            at_that_time = facts.now if at is None else at
            found = pages(facts, size, entity=entity, valid=at_that_time)
            assert [text for page in found for text in page] == texts(every)
            assert all(len(page) == size for page in found[:-1])


def test_contradictions_of_several_entities(memory):
    facts = memory.facts("main")
    day = datetime(2024, 1, 1, tzinfo=UTC)
    for name in ("Ana", "Ben", "Cleo"):
        for place in ("Lisbon", "Porto"):
            facts.add_fact("user", name, "lives in", place, valid_from=day)
    found = facts.contradictions(["ana", "Ben"])
    assert sorted(each.facts[0].subject for each in found) == ["Ana", "Ben"]
    assert facts.contradictions([]) == []
    assert len(facts.contradictions()) == 3


def test_invalid_arguments_are_rejected(here):
    for told, values in {
        "no fact 'no-such'": [("before", "no-such")], "limit": [("limit", -1), ("limit", True)],
        "entity": [("entity", 1)], "predicate": [("predicate", b"x")],
        "recorded": [("recorded", "today")], "valid": [("valid", "today")],
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises(InvalidInput, match=told):
                here.facts("main").latest(**dict([value]))


def test_past_facts_are_looked_up_by_name(memory, monkeypatch):
    facts = memory.facts("main")
    moved = facts.add_fact("user", "Ana", "lives in", "Lisbon")
    then = facts.get(moved).recorded_at
    facts.update(moved, subject="Ben", obj="Porto")
    monkeypatch.setattr(FactView, "fact_rows", property(lambda _: pytest.fail("All facts are read.")))
    assert texts(facts.as_of(recorded=then, subject="Ana")) == ["Ana lives in Lisbon"]
    assert texts(facts.as_of(recorded=then, obj="Lisbon")) == texts(facts.history("Ana", recorded=then))
    assert facts.as_of(recorded=then, subject="Ben") == facts.history("Ana") == []
