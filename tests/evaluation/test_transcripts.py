"""Transcripts: files of every format are read as they are, with their quirks, and stored as conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.evaluation import evaluate, feed, read_transcripts

pytestmark = pytest.mark.sqlite_suffices

LONGMEMEVAL = Path(__file__).parents[1] / "benchmarks" / "data" / "longmemeval_sample.json"
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
def read(tmp_path):
    def read(document, form=None):
        path = tmp_path / "transcript.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return read_transcripts(path, form)

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

    def test_the_format_of_beam_as_it_is(self, read):
        said = [
            {"id": "0", "role": "user", "content": "I keep bees.", "time_anchor": "March-15-2024"},
            {"id": "1", "role": "assistant", "content": "How many hives?"},
        ]
        asked = {"type": "knowledge_update", "question": "What do I keep?", "evidence": [0]}
        [chat] = read([{"chat": 7, "batches": [{"batch": 1, "messages": said}], "questions": [asked]}], "beam")
        assert (chat.name, chat.sessions[0].id) == ("7", "1")
        assert chat.sessions[0].time == datetime(2024, 3, 15, tzinfo=UTC)
        assert [(turn.id, turn.speaker) for turn in chat.sessions[0].turns] == [("0", "user"), ("1", "assistant")]
        [question] = chat.questions
        assert (question.category, question.evidence, question.namespace) == ("knowledge update", {"0"}, ("7",))

    def test_of_longmemeval_each_question_has_a_history_and_a_time_of_its_own(self):
        first, *_, unanswerable = read_transcripts(LONGMEMEVAL, "longmemeval")
        [question] = first.questions
        assert [session.id for session in first.sessions][:2] == ["answer_garden_1", "filler_1"]
        assert question.evidence == {"answer_garden_1_1", "answer_garden_2_1"}
        assert (question.at, question.namespace) == (datetime(2023, 5, 1, 10, 0, tzinfo=UTC), ("q1",))
        assert unanswerable.questions[0].evidence == set()

    def test_of_longmemeval_the_official_form_is_read_with_its_quirks(self, read, memory):
        said = [
            {"role": "user", "content": "I keep 3 hives."},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Now I keep 4 hives.", "has_answer": True},
            {"role": "assistant", "content": "Well done.", "has_answer": False},
        ]
        asked = {
            "question_id": "6aeb4375",
            "question_type": "knowledge-update",
            "question": "How many hives do I keep?",
            "answer": 4,
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_dates": ["2023/05/21 (Sun) 06:04", "2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 10:00"],
            "haystack_session_ids": ["answer_1a8a66a6_1", "sharegpt_yywfIrx_0", "ultrachat_403752"],
            "haystack_sessions": [said, [{"role": "user", "content": "My bees.", "has_answer": True}], []],
            "answer_session_ids": ["answer_1a8a66a6_1"],
        }
        unmarked = [{key: value for key, value in each.items() if key != "has_answer"} for each in said]
        absent = {**asked, "question_id": "6aeb4375_abs", "answer_session_ids": ["answer_1a8a66a6_1", "answer_gone"]}
        bare = {**absent, "question_id": "7b", "haystack_sessions": [unmarked, unmarked[:1], []]}
        histories = read([asked, absent, bare], "longmemeval")
        marked, nowhere, named = (each.questions[0] for each in histories)
        assert (marked.evidence, marked.answer, marked.category) == ({"answer_1a8a66a6_1_3"}, "4", "knowledge-update")
        assert (nowhere.evidence, nowhere.category) == (set(), "abstention")
        assert named.evidence == {"conversation:answer_1a8a66a6_1"}
        feed(memory, histories)
        found = evaluate(memory, [marked, nowhere, named], cuts=(1, 5), baselines=True)
        assert found.unanswerable == 1
        assert {each.recall(5) for title, each in found.reports.items() if "vectors" not in title} == {1}

    def test_a_session_that_a_history_has_twice_counts_once_where_it_came_first(self, read):
        [sample, *_] = json.loads(LONGMEMEVAL.read_text())
        for key in ("haystack_session_ids", "haystack_dates", "haystack_sessions"):
            sample[key].append(sample[key][0])
        [history] = read([sample])
        assert [session.id for session in history.sessions] == sample["haystack_session_ids"][:-1]

    @pytest.mark.parametrize(
        ("document", "form", "said"),
        [
            ("{", None, "is not JSON"),
            ([{"text": "what is this?"}], None, "has not the format locomo or beam or longmemeval or transcript"),
            ([3], None, "has not the format"),
            (OURS, "locomo", "has not the format locomo, but transcript"),
            ([OURS | {"sessions": [{"id": "s1"}]}], None, "is damaged, as transcript: KeyError('time')"),
            ([LOCOMO[0] | {"conversation": []}, 1], None, "Sample 2"),
        ],
    )
    def test_what_cannot_be_read_is_refused_with_its_place(self, read, document, form, said):
        with pytest.raises(InvalidInput) as refused:
            read(document, form)
        assert said in str(refused.value)

    def test_a_file_that_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_transcripts(tmp_path / "nothing.json")


class TestFeeding:
    def test_a_session_is_a_conversation_whose_turns_keep_their_order(self, read, memory):
        feed(memory, read(LOCOMO))
        first, second = memory.conversation("session_1", namespace=("pond-1",)).messages
        assert (first.id, first.name, first.content) == ("D1:1", "Ada", "A heron!")
        assert second.additional_kwargs["created_at"] == "2023-05-08T12:56:01+00:00"
        [third] = memory.conversation("session_2", namespace=("pond-1",)).messages
        assert "a grey bird" in third.content

    def test_a_user_and_an_assistant_have_no_names_and_feeding_twice_adds_nothing(self, memory):
        histories = read_transcripts(LONGMEMEVAL)
        feed(memory, histories)
        before = memory.stats()["messages"]
        feed(memory, histories)
        assert memory.stats()["messages"] == before
        messages = memory.conversation("answer_garden_1", namespace=("q1",)).messages
        assert [message.type for message in messages] == ["human", "ai"] * 2
        assert all(message.name is None for message in messages)
