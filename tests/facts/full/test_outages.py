"""Extraction during model outages: retries, pauses and reporting."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts import fact_extraction
from langchain_agentmem.facts.fact_extraction import MAX_PAUSE, PARKED_PAUSE
from tests.facts.scripted import Scripted
from tests.facts.test_learning import said

TOWNS = ("Oslo", "Rome", "Oslo", "Lima", "Kyoto", "Rome", "Oslo", "Bergen", "Lima", "Quito", "Turin", "Oslo")


class Provider(Scripted):
    """A model that is up or down, and always fails for some texts."""

    def __init__(self, *, up: bool = False, refuses: str | None = None) -> None:
        super().__init__(meanwhile=self._answer)
        self.up, self.refuses = up, refuses

    def _answer(self, before: int, some: Any) -> None:
        if not self.up or any(self.refuses and self.refuses in each.text for each in some):
            raise ConnectionError("no route")


def moves(*towns: str) -> list[str]:
    return [f"Maya | lives in | {town} | 2024-{month:02}-01" for month, town in enumerate(towns, 1)]


def lived(facts: Any) -> list[str]:
    return [fact.object for fact in facts.history("Maya", "lives in")]


def look_once(facts: Any) -> None:
    """Run one attempt of the background task."""
    facts._task._attempt()


def look(facts: Any, clock: Any, hours: float) -> None:
    """Run the background task every 30 seconds for some hours."""
    for _ in range(int(hours * 120)):
        clock.pass_time(seconds=30)
        look_once(facts)


@pytest.mark.usefixtures("alone")
class TestOutage:
    @pytest.mark.slow("in every form")
    def test_long_outage_loses_nothing_with_few_calls(self, memory, clock):
        provider = Provider()
        facts = memory.facts("b", model=provider)
        said(facts, *moves(*TOWNS))
        look(facts, clock, hours=6)
        assert facts.pending_count() == len(TOWNS)
        assert len(provider.calls) < 2 * (6 * 3_600 / MAX_PAUSE + 12)
        provider.up = True
        look(facts, clock, hours=MAX_PAUSE / 3_600 + 0.1)
        assert facts.pending_count() == 0
        assert lived(facts) == list(TOWNS)  # in the order in which they were said

    def test_first_retry_comes_soon(self, memory, clock):
        facts = memory.facts("b", model=(provider := Provider()))
        said(facts, *moves("Oslo"))
        look_once(facts)
        provider.up = True
        look(facts, clock, hours=0.01)
        assert lived(facts) == ["Oslo"]

    def test_immediate_extraction_ignores_the_outage_pause(self, memory):
        facts = memory.facts("b", model=(provider := Provider()))
        assert facts.extract_and_update_from_text(moves("Oslo")[0]) == []
        provider.up = True
        assert [fact.object for fact in facts.extract_and_update_from_text("Maya | likes | tea")] == ["tea"]

    def test_outage_pause_applies_to_other_processes(self, url, clock):
        provider, other = Provider(), Provider()
        with AgentMemory(url, clock=clock) as one, AgentMemory(url, clock=clock) as two:
            facts = one.facts("b", model=provider)
            said(facts, *moves(*TOWNS))
            look(facts, clock, hours=0.3)
            elsewhere = two.facts("b", model=other)
            said(elsewhere, "Maya | likes | tea", first=len(TOWNS))
            asked = len(provider.calls)
            look_once(elsewhere)
            look_once(facts)
            assert (len(other.calls), len(provider.calls)) == (0, asked)
            other.up = True
            look(elsewhere, clock, hours=0.3)
            assert lived(facts) == list(TOWNS)
            assert facts.pending_count() == 0

    def test_failing_message_alone_causes_no_pause(self, memory, clock):
        facts = memory.facts("b", model=Provider(up=True, refuses="poison"))
        said(facts, "poison", *moves("Oslo", "Rome"))
        look(facts, clock, hours=0.1)
        assert lived(facts) == ["Oslo", "Rome"]
        said(facts, *moves("Oslo", "Rome", "Lima")[2:], first=9)
        look(facts, clock, hours=0.02)
        assert lived(facts) == ["Oslo", "Rome", "Lima"]
        assert facts.pending_count() == 1


@pytest.mark.usefixtures("alone")
@pytest.mark.slow
def test_unusable_answers_are_retried_after_a_day(memory, clock):
    model = Scripted(lambda _: "Nice!")
    facts = memory.facts("b", model=model)
    said(facts, *moves("Oslo"))
    look(facts, clock, hours=20)
    assert len(model.calls) == 3
    clock.pass_time(seconds=PARKED_PAUSE)
    model.style = Scripted().style
    look_once(facts)
    assert lived(facts) == ["Oslo"]


@pytest.mark.usefixtures("alone")
class TestSettle:
    async def test_settle_extracts_facts_and_skips_failures(self, memory, do):
        facts, others = (memory.facts("b", space, model=Provider(up=True)) for space in (None, ("them",)))
        for each in (facts, others):
            said(each, *moves("Oslo", "Rome"))
        await do(memory, "settle")
        assert lived(facts) == lived(others) == ["Oslo", "Rome"]
        failing = memory.facts("c", model=Provider())
        said(failing, *moves("Oslo"))
        await do(memory, "settle")
        assert (failing.pending_count(), len(failing.failures())) == (1, 2)


@pytest.mark.usefixtures("alone")
class TestReporting:
    def test_outage_is_logged_once(self, caplog):
        caplog.set_level(logging.INFO, "langchain_agentmem.facts")
        for model in (Provider(), Scripted(lambda _: "Nice!"), Scripted(lambda _: "")):
            caplog.clear()
            with AgentMemory(":memory:") as memory:
                for branch in ("b", "c"):
                    facts = memory.facts(branch, model=model)
                    said(facts, *moves("Oslo"))
                    for _ in range(3):
                        facts.drain()
                failure = facts.failures()[0].error
            [record] = caplog.records
            assert record.levelname == "WARNING"
            assert "No facts were extracted from 1 messages" in record.getMessage()
            assert failure in record.getMessage()

    def test_statistics_count_pending_and_failed_messages(self, memory, monkeypatch):
        monkeypatch.setattr(fact_extraction, "MAX_BATCH_MESSAGES", 2)
        facts = memory.facts("b", ("us",), model=Provider())
        said(facts, *moves(*TOWNS))
        them = memory.within(("them",))
        for failed in (0, 3):
            for each, waiting, vain in ((memory, 12, failed), (memory.within(("us",)), 12, failed), (them, 0, 0)):
                stats = each.admin.stats()
                assert (stats["waiting_facts"], stats["failed_facts"]) == (waiting, vain)
            facts.drain()
