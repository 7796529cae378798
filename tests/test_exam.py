"""The exam of the benchmarks: transcripts of two formats are read, lived through, and asked about."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.sqlite_suffices

SAMPLE = Path(__file__).parent / "benchmarks" / "data" / "orchard.json"
OURS = {
    "name": "pond",
    "sessions": [
        {
            "id": "s1",
            "time": "2024-03-02T18:30+02:00",
            "turns": [{"id": "1", "speaker": "Ada", "text": "A heron!", "image": "a grey bird"}],
        },
        {"id": "s2", "time": "2024-03-03", "turns": [{"id": 2, "speaker": "Ben", "text": "It left."}]},
    ],
    "questions": [{"question": "Which bird?", "answer": "a heron", "evidence": ["1"], "category": "one turn"}],
}
LOCOMO = [
    {
        "sample_id": "pond-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Look.", "blip_caption": "a grey bird"}],
            "session_2_date_time": "12:05 am on 1 January, 2024",
            "session_1_date_time": "12:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "A heron!", "img_url": ["x"], "query": "heron"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Where?", "re-download": True},
            ],
            "session_10_date_time": "1:00 pm on 9 May, 2024",
        },
        "qa": [
            {"question": "Which bird?", "answer": "a heron", "evidence": ["D1:1"], "category": 4},
            {"question": "How many?", "answer": 1, "evidence": ["D1:1; D2:1", "D:1:02", "D9:9"], "category": 1},
            {"question": "Who slept?", "adversarial_answer": "Ada", "evidence": [], "category": 5},
            {"question": "Why?"},
        ],
    }
]


@pytest.fixture
def exam(monkeypatch):
    monkeypatch.syspath_prepend(str(SAMPLE.parents[1]))
    import exam

    yield exam
    for name in ("exam", "transcripts"):
        sys.modules.pop(name, None)


@pytest.fixture
def read(exam, tmp_path):
    def read(document):
        path = tmp_path / "transcript.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return exam.read_transcripts(path)

    return read


class TestReading:
    def test_our_own_format(self, read):
        [pond] = read(OURS)
        first, second = pond.sessions
        assert (pond.name, pond.turns, first.id) == ("pond", 2, "s1")
        assert first.time == datetime(2024, 3, 2, 16, 30, tzinfo=UTC)
        assert second.time == datetime(2024, 3, 3, tzinfo=UTC)
        assert first.turns[0].text == "A heron! [picture: a grey bird]"
        assert second.turns[0].id == "2"
        [question] = pond.questions
        assert (question.answer, question.evidence, question.category) == ("a heron", {"1"}, "one turn")

    def test_a_list_of_transcripts_and_none_of_the_optional_parts(self, read):
        assert [each.name for each in read([OURS, {"name": "lake", "sessions": []}])] == ["pond", "lake"]

    def test_the_format_of_locomo_with_its_quirks(self, read):
        [pond] = read(LOCOMO)
        assert [session.id for session in pond.sessions] == ["session_1", "session_2"]
        assert [session.time for session in pond.sessions] == [
            datetime(2023, 5, 8, 12, 56, tzinfo=UTC),
            datetime(2024, 1, 1, 0, 5, tzinfo=UTC),
        ]
        assert pond.sessions[1].turns[0].text == "Look. [picture: a grey bird]"
        assert [question.evidence for question in pond.questions] == [{"D1:1"}, {"D1:1", "D2:1", "D1:2"}, set(), set()]
        assert [question.answer for question in pond.questions] == ["a heron", "1", None, None]


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

    def test_fewer_questions_and_a_smaller_limit(self, exam, memory):
        answered = exam.sit_exam(memory, exam.read_transcripts(SAMPLE), questions=4, limit=2)
        assert len(answered) == 4
        assert max(len(each.recalled) for each in answered) == 2
        assert exam.sit_exam(memory, []) == []
