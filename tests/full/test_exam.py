"""The exam of the benchmarks: transcripts are lived through, and asked about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.sqlite_suffices

SAMPLE = Path(__file__).parents[1] / "benchmarks" / "data" / "orchard.json"


@pytest.fixture
def exam(monkeypatch):
    monkeypatch.syspath_prepend(str(SAMPLE.parents[1]))
    import exam

    yield exam
    sys.modules.pop("exam", None)


class TestExam:
    def test_it_is_answered_from_what_was_recalled_and_feeding_it_twice_adds_nothing(self, exam, url):
        transcripts = exam.read_transcripts(SAMPLE)
        with AgentMemory(url) as memory:
            answered = exam.sit_exam(memory, transcripts)
            again = exam.sit_exam(memory, transcripts)
            third = memory.conversation("session_1", ("orchard",)).messages[2]
            lines = exam.lines(answered, memory)
        assert (third.id, third.name) == ("1.3", "Maya")
        assert len(answered) == 15
        for each in answered:
            texts = " ".join(found.text for found in each.recalled)
            for quote in each.answer.split("“")[1:]:
                assert quote.split("”")[0] in texts
        assert sum(each.recall() for each in answered) / len(answered) > 0.6
        assert [each.answer for each in again] == [each.answer for each in answered]
        told = [" ".join(line.split()) for line in lines]
        assert "questions 15 (15 with evidence)" in told
        assert "messages stored 60 in 4 conversations" in told
        assert any(line.startswith("category one turn: 0.") for line in told)
