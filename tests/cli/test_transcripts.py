"""Transcripts of both formats are read; what is wrong in one is said on one line, with its place."""

from __future__ import annotations

import copy
import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from langchain_agentmem.demo.reading import SAMPLE, read_transcripts
from langchain_agentmem.errors import InvalidInput

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
def written(tmp_path):
    def write(document) -> str:
        path = tmp_path / "transcript.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return str(path)

    return write


class TestReading:
    def test_our_own_format(self, written):
        [pond] = read_transcripts(written(OURS))
        first, second = pond.sessions
        assert (pond.name, pond.turns, first.id) == ("pond", 2, "s1")
        assert first.time == datetime(2024, 3, 2, 16, 30, tzinfo=UTC)
        assert second.time == datetime(2024, 3, 3, tzinfo=UTC)
        assert first.turns[0].text == "A heron! [picture: a grey bird]"
        assert second.turns[0].id == "2"
        [question] = pond.questions
        assert (question.answer, question.evidence, question.category) == ("a heron", {"1"}, "one turn")

    def test_a_list_of_transcripts_and_none_of_the_optional_parts(self, written):
        other = {"name": "lake", "sessions": []}
        assert [each.name for each in read_transcripts(written([OURS, other]))] == ["pond", "lake"]

    def test_the_format_of_locomo_with_its_quirks(self, written):
        [pond] = read_transcripts(written(LOCOMO))
        assert [session.id for session in pond.sessions] == ["session_1", "session_2"]
        assert [session.time for session in pond.sessions] == [
            datetime(2023, 5, 8, 12, 56, tzinfo=UTC),
            datetime(2024, 1, 1, 0, 5, tzinfo=UTC),
        ]
        assert pond.sessions[1].turns[0].text == "Look. [picture: a grey bird]"
        assert [question.evidence for question in pond.questions] == [{"D1:1"}, {"D1:1", "D2:1", "D1:2"}, set(), set()]
        assert [question.answer for question in pond.questions] == ["a heron", "1", None, None]

    def test_the_sample_that_is_shipped(self):
        [sample] = read_transcripts(SAMPLE)
        assert (len(sample.sessions), sample.turns, len(sample.questions)) == (4, 60, 15)
        assert all(question.evidence and question.answer for question in sample.questions)

    def test_a_large_file_of_somebody_else(self):
        """The file that AGENTMEM_LOCOMO names, where there is one; else the sample."""
        transcripts = read_transcripts(os.environ.get("AGENTMEM_LOCOMO") or SAMPLE)
        for each in transcripts:
            ids = [turn.id for session in each.sessions for turn in session.turns]
            assert len(ids) == len(set(ids)) == each.turns > 0
            times = [session.time for session in each.sessions]
            assert times == sorted(times)
            assert times[0] < times[-1] - timedelta(days=30)
        questions = [question for each in transcripts for question in each.questions]
        assert sum(1 for question in questions if question.evidence) > 0.99 * len(questions)


def changed(document, *way, to=None):
    """A copy with the value at the end of the way replaced, or removed."""
    copied = copy.deepcopy(document)
    inner = copied
    for step in way[:-1]:
        inner = inner[step]
    if to is None:
        del inner[way[-1]]
    else:
        inner[way[-1]] = to
    return copied


S, T, Q = "sessions", "turns", "questions"
MALFORMED = [
    ("", "line 1, column 1: this is not JSON"),
    ('{"name": "x",\n oops}', "line 2, column 2: this is not JSON"),
    ("[" * 100_000, "cannot be read as JSON"),
    ("[]", "there is no transcript in it"),
    ("7", "must be an object, not a number"),
    ([OURS, "lake"], "sample 2: this must be an object, not text"),
    ([OURS, OURS], "sample 2, name: another transcript has the id 'pond' already"),
    (changed(OURS, S), '"sessions"'),
    (changed(OURS, "name"), '"name" is missing'),
    (changed(OURS, "name", to="a\nb"), "name: .*cannot be the id"),
    (changed(OURS, "name", to="n" * 300), "name: .*cannot be part of a namespace"),
    (changed(OURS, S, to="none"), "sessions: this must be a list, not text"),
    (changed(OURS, S, 0, "time", to="May"), "session 1, time: 'May' is not a time"),
    (changed(OURS, S, 1, T), 'session 2: "turns" is missing'),
    (changed(OURS, S, 1, T, 0, "text"), 'session 2, turns, turn 1: "text" is missing'),
    (changed(OURS, S, 1, T, 0, "text", to=["x"]), "turn 1, text: this must be text, not a list"),
    (changed(OURS, S, 1, T, 0, "id", to=1), "turn 1, id: another turn has the id '1' already"),
    (changed(OURS, S, 1, T, 0, "id", to=True), "turn 1, id: this must be text, not true or false"),
    (changed(OURS, S, 1, T, 0, "speaker", to=" "), "turn 1, speaker: this must not be empty"),
    (changed(OURS, S, 1, "id", to="s1"), "session 2, id: another session has the id 's1' already"),
    (changed(OURS, Q, 0, "evidence", 0, to="9"), "question 1, evidence, id 1: no turn has the id '9'"),
    (changed(OURS, Q, 0, "question"), 'question 1: "question" is missing'),
    (changed(LOCOMO, 0, "conversation", to={"a": 1}), 'conversation: there is no "session_1"'),
    (changed(LOCOMO, 0, "sample_id"), 'sample 1: "sample_id" is missing'),
    (changed(LOCOMO, 0, "conversation", "session_1_date_time"), '"session_1_date_time" is missing'),
    (changed(LOCOMO, 0, "conversation", "session_1_date_time", to="8 May"), "session_1_date_time: '8 May' is not"),
    (changed(LOCOMO, 0, "conversation", "session_1_date_time", to="1:56 pm on 31 June, 2023"), "is not a time"),
    (changed(LOCOMO, 0, "conversation", "session_1", 1, "dia_id", to="D1:1"), "turn 2, dia_id: another turn"),
    (changed(LOCOMO, 0, "qa", 1, "evidence", to="D1:1"), "question 2, evidence: this must be a list, not text"),
]


class TestWhatIsWrong:
    @pytest.mark.parametrize(("document", "said"), MALFORMED)
    def test_is_said_with_its_place(self, written, document, said):
        path = written(document)
        with pytest.raises(InvalidInput, match=said) as caught:
            read_transcripts(path)
        assert str(caught.value).startswith(path)
        assert "\n" not in str(caught.value)

    def test_a_file_that_cannot_be_read(self, tmp_path):
        (tmp_path / "latin.json").write_bytes(b'{"name": "caf\xe9"}')
        for path in (tmp_path / "missing.json", tmp_path, tmp_path / "latin.json", "nul\0.json"):
            with pytest.raises(InvalidInput, match="cannot be read"):
                read_transcripts(str(path))
