"""Extraction stores each fact of a long conversation exactly once."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts.kg_memory import KGMemory
from langchain_agentmem.storage import background
from langchain_agentmem.storage.background import Task
from tests.facts.scripted import Scripted, facts_in
from tests.support.waiting import all_at_once

SHORT_LEASE = 0.3
"""Seconds of a lease here, so that nobody waits long for another."""
SOME = 24
"""Messages, where not all are needed."""
PEOPLE = ("Maya Ortiz", "Tom", "Aiko", "Zoë", "Grandma", "the plumber")
TIMES = {"valid_from", "valid_to"}
SAYINGS = {"lives in": ["Lisbon", "Oslo", "Kyoto"], "works at": ["Acme", "Globex"], "likes": ["tea", "opera", "Tom"]}
FIRST_DAY = datetime(2024, 1, 1, 12, tzinfo=UTC)


def day(number: int) -> datetime:
    """The time of a message: one each day, at noon."""
    return FIRST_DAY + timedelta(days=number)


def conversation(count: int = 200) -> list[dict[str, Any]]:
    """A deterministic conversation with repeated and changed facts."""
    luck = random.Random(7)
    said = []
    for number in range(count):
        lines = []
        for person in luck.sample(PEOPLE, luck.randrange(4)):
            predicate, values = luck.choice([*SAYINGS.items()])
            told = [person, predicate, luck.choice(values), f"{day(number):%Y-%m-%d}"]
            lines.append(" | ".join(told[: luck.choice([3, 3, 4])]))
        stay = f"Tom | visited | town {number} | {day(number - 9):%Y-%m-%d} | {day(number - 7):%Y-%m-%d}"
        text = "\n".join([*lines, stay][: luck.choice([1, 9])]) or "How are you?"
        role = luck.choice(["user", "assistant"])
        said.append({"role": role, "content": text, "message_id": f"m{number}", "created_at": day(number).isoformat()})
    return said


def known_facts(facts: KGMemory) -> list[tuple[Any, ...]]:
    """The stored facts, in the same form."""
    every = (fact for person in PEOPLE for fact in facts.history(person))
    return sorted((each.text, each.valid_from, str(each.valid_to), each.sources) for each in every)


def add_and_extract(facts: KGMemory, said: list[dict[str, Any]]) -> None:
    """Add a conversation, and have its facts extracted."""
    for message in said:
        facts.add(message)
    facts.drain()


def expected_facts(said: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The facts expected of a conversation, each added by hand."""
    with AgentMemory(":memory:") as memory:
        facts = memory.facts("b")
        for message in said:
            source = facts.add(message)
            for fact in facts_in(message["content"]):
                times = {name: datetime.fromisoformat(fact[name]).replace(tzinfo=UTC) for name in TIMES & fact.keys()}
                what = fact["subject"], fact["predicate"], fact["object"]
                facts.add_fact(message["role"], *what, **times, source=source)
        return known_facts(facts)


SAID = conversation()
SCRIPT = expected_facts(SAID)


@pytest.fixture(autouse=True)
def short_leases(monkeypatch):
    monkeypatch.setattr(background, "LEASE_SECONDS", SHORT_LEASE)
    monkeypatch.setattr(background, "RENEW_SECONDS", SHORT_LEASE / 6)


def check(facts, script=SCRIPT):
    """Check that the facts are as expected and nothing is pending."""
    assert facts.pending_count() == 0
    assert facts.failures() == []
    assert known_facts(facts) == script


def test_script_has_repeats_and_changes():
    """Facts are repeated, changed and restored, some within one batch."""
    assert len(SCRIPT) > 150
    assert sum(len(fact[-1]) > 1 for fact in SCRIPT) > 20
    lives = [text for text, *_ in SCRIPT if " lives in " in text]
    assert len(lives) > len({*lives}) + 20


@pytest.mark.slow
def test_extraction_is_complete_and_repeating_is_idempotent(memory, raw):
    facts = memory.facts("b", model=Scripted())
    add_and_extract(facts, SAID)
    check(facts)
    rows = raw(memory, "select max(id) as last from memory")
    model = Scripted()
    again = memory.facts("b", model=model)
    add_and_extract(again, SAID)
    check(again)
    assert model.calls == []
    assert raw(memory, "select max(id) as last from memory") == rows


class TestConcurrentExtraction:
    def test_threads_and_background_task_extract_once(self, url):
        """Each with its own memory, as processes have it."""
        with AgentMemory(url) as one, AgentMemory(url) as other:
            hearers = [each.facts("b", model=Scripted()) for each in (one, one, other)]
            all_at_once([partial(add_and_extract, facts, SAID[:SOME]) for facts in hearers])
            for facts in hearers:
                check(facts, expected_facts(SAID[:SOME]))

    def test_extraction_without_lease_stores_facts_once(self, memory, monkeypatch):
        """Two callers extract the same messages; only one of them stores the facts."""
        monkeypatch.setattr(Task, "wake", lambda self: None)
        together, said = threading.Barrier(2), "Tom | lives in | Oslo\nTom | likes | tea"

        def wait(before, some):
            if before == 0:
                together.wait(60)

        rivals = [memory.facts("b", model=Scripted(meanwhile=wait)) for _ in range(2)]
        all_at_once([partial(facts.extract_and_update_from_text, said) for facts in rivals])
        facts = memory.facts("b")
        assert facts.pending_count() == 0
        assert {fact.object: len(fact.sources) for fact in facts.history("Tom")} == {"Oslo": 2, "tea": 2}

    def test_lost_lease_stores_nothing_and_drain_waits(self, memory, raw):
        def lose(before, some):
            if before == 0:
                raw(memory, "update lease set owner = 'rival', expires_at = 0")

        plain = memory.facts("b")
        for message in SAID[:SOME]:
            plain.add(message)
        model = Scripted(meanwhile=lose)
        facts = memory.facts("b", model=model)
        facts.drain()
        check(facts, expected_facts(SAID[:SOME]))
        assert model.texts[0] in model.texts[1:]  # what the first answer said was not kept
