"""The agent lives through a transcript and answers its questions from memory, on both engines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.cli.screen import JsonScreen, Screen
from langchain_agentmem.demo.exam import live, sit_exam
from langchain_agentmem.demo.reading import SAMPLE, read_transcripts

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def printed():
    return io.StringIO()


@pytest.fixture
def sit(printed):
    def run(**changes):
        arguments = {"transcript": SAMPLE, "database": ":memory:", "model": None, "questions": None, "limit": 10}
        screen = Screen(Console(file=printed, markup=False, highlight=False, width=80))
        return sit_exam(screen, **(arguments | changes))

    return run


class TestExam:
    def test_every_question_is_answered_from_what_was_recalled(self, sit, url, printed):
        answered = sit(database=url)
        assert len(answered) == 15
        for each in answered:
            texts = " ".join(found.text for found in each.exchange.recalled)
            for quote in each.exchange.answer.split("“")[1:]:
                assert quote.split("”")[0] in texts

    def test_most_of_the_evidence_is_recalled(self, sit):
        answered = sit()
        assert sum(each.recall(10) for each in answered) / len(answered) > 0.6

    def test_turns_keep_their_ids_speakers_times_and_pictures(self, url):
        [orchard] = read_transcripts(SAMPLE)
        with AgentMemory(url) as memory:
            live(memory, orchard.sessions[0], namespace=("orchard",))
            third = memory.conversation("session_1", ("orchard",)).messages[2]
            [found] = memory.search("quince saplings", namespace=("orchard",), limit=1)
        assert (third.id, third.name) == ("1.3", "Maya")
        assert found.id == "1.3"
        assert found.created_at == orchard.sessions[0].time
        assert found.text.endswith("[picture: two thin saplings beside a stone wall]")

    def test_feeding_it_twice_adds_nothing(self, sit, url):
        first = sit(database=url)
        with AgentMemory(url) as memory:
            before = memory.stats()
        second = sit(database=url)
        with AgentMemory(url) as memory:
            after = memory.stats()
        sizes = {"bytes", "free_bytes", "log_bytes"}
        counts = {k for k, v in before.items() if isinstance(v, int)} - sizes
        assert {k: after[k] for k in counts} == {k: before[k] for k in counts}
        assert after["messages"] == 60
        assert [each.exchange.answer for each in first] == [each.exchange.answer for each in second]

    def test_other_words_under_a_turns_id_are_refused(self, sit, url, tmp_path):
        sit(database=url)
        path = tmp_path / "changed.json"
        turns = [{"id": "1.1", "speaker": "Maya", "text": "Something else."}]
        sessions = [{"id": "session_1", "time": "2024-03-02", "turns": turns}]
        path.write_text(json.dumps({"name": "orchard", "sessions": sessions}))
        with pytest.raises(InvalidInput, match=r"Turn '1.1' of 'session_1' cannot be stored"):
            sit(database=url, transcript=str(path))

    def test_a_malformed_file_stores_nothing(self, sit, tmp_path):
        path = tmp_path / "bad.json"
        path.write_text('[{"name": "a", "sessions": []}, {}]')
        with pytest.raises(InvalidInput):
            sit(transcript=str(path), database=str(tmp_path / "never.db"))
        assert not (tmp_path / "never.db").exists()

    def test_the_summary_counts(self, sit, printed):
        sit()
        lines = [" ".join(line.split()) for line in printed.getvalue().splitlines()]
        assert "questions 15 (15 with evidence)" in lines
        assert "messages stored 60 in 4 conversations" in lines
        for name in ("recall@10 0.", "category one turn: 0.", "ms per question", "database size"):
            assert any(line.startswith(name) for line in lines)

    def test_why_something_was_recalled_is_printed_and_evidence_is_marked(self, sit, printed):
        sit(questions=1)
        assert "   * recalled [session_1, 2024-03-02] Maya: I already have." in printed.getvalue()
        assert "why: plant +" in printed.getvalue()

    def test_the_deterministic_model_is_named_as_what_it_is(self, sit, printed):
        sit(questions=0)
        assert "deterministic" in printed.getvalue()

    def test_fewer_questions_and_a_smaller_limit(self, sit, printed):
        answered = sit(questions=4, limit=2)
        assert len(answered) == 4
        assert max(len(each.exchange.recalled) for each in answered) == 2
        assert "recall@2" in printed.getvalue()
        assert sit(questions=0) == []

    def test_as_json_every_question_is_told_and_what_came_of_all(self, capsys, url):
        arguments = {"transcript": SAMPLE, "database": url, "model": None, "questions": None, "limit": 10}
        answered = sit_exam(JsonScreen(), **arguments)
        *exchanges, summary = map(json.loads, capsys.readouterr().out.splitlines())
        assert [each["said"] for each in exchanges] == [each.question.text for each in answered]
        first = answered[0]
        assert (exchanges[0]["transcript"], exchanges[0]["category"]) == (first.transcript, first.question.category)
        assert (exchanges[0]["answer"], exchanges[0]["expected"]) == (first.exchange.answer, first.question.answer)
        assert exchanges[0]["evidence"] == sorted(first.question.evidence)
        assert [each["id"] for each in exchanges[0]["recalled"]] == [each.id for each in first.exchange.recalled]
        assert (summary["type"], summary["questions"], summary["messages"], summary["k"]) == ("summary", 15, 60, 10)
        assert summary["recall_at_k"] == pytest.approx(sum(each.recall(10) for each in answered) / 15)
        assert sum(each["questions"] for each in summary["by_category"].values()) == 15
        assert min(summary[name] for name in ("conversations", "bytes", "seconds", "ms_per_question")) > 0

    def test_as_json_an_exam_without_questions_has_no_shares(self, capsys):
        arguments = {"transcript": SAMPLE, "database": ":memory:", "model": None, "questions": 0, "limit": 10}
        sit_exam(JsonScreen(), **arguments)
        [summary] = map(json.loads, capsys.readouterr().out.splitlines())
        assert (summary["recall_at_k"], summary["ms_per_question"], summary["by_category"]) == (None, None, {})


class TestScreen:
    def test_what_memory_holds_cannot_command_the_terminal(self, printed):
        screen = Screen(Console(file=printed, force_terminal=True, color_system=None))
        screen.line("red \x1b[31m bell \x07 [bold]markup[/bold] \ud800 \x9b2J")
        assert printed.getvalue() == "red \\x1b[31m bell \\x07 [bold]markup[/bold] \\ud800 \\x9b2J\n"

    def test_where_somebody_watches_there_is_a_bar(self, printed):
        screen = Screen(Console(file=printed, force_terminal=True, width=80))
        assert list(screen.progress("Working", [1, 2], unit="things")) == [1, 2]
        assert "Working" in printed.getvalue()
        assert "2/2" in printed.getvalue()

    def test_where_nobody_watches_there_is_one_plain_line(self, printed):
        screen = Screen(Console(file=printed))
        assert list(screen.progress("Working", [1, 2], unit="things")) == [1, 2]
        assert printed.getvalue() == "Working: 2 things\n"
