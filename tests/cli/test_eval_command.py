"""`agentmem eval`: the recall of any database and of files with conversations, and what was missed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from tests.forking import COMMAND

pytestmark = pytest.mark.sqlite_suffices

DATA = Path(__file__).parents[1] / "benchmarks" / "data"
QUESTIONS = [
    {"question": "Which bird did I see?", "evidence": ["a1"], "namespace": "ada", "category": "birds"},
    {"question": "Who bought a canoe?", "evidence": ["b1"], "namespace": ["ben"], "category": "boats"},
    {"question": "Who bought a canoe?", "evidence": ["b1"], "namespace": ["ada"], "category": "boats"},
    {"question": "Who slept?", "evidence": []},
]


@pytest.fixture
def agentmem(forks):
    return lambda *arguments, **environment: forks.run(COMMAND, "eval", *map(str, arguments), **environment)


@pytest.fixture
def database(tmp_path) -> Path:
    with AgentMemory(tmp_path / "memory.db") as memory:
        for label, texts in (("ada", ["I saw a heron, that bird."]), ("ben", ["My sister bought a canoe.", "Soup."])):
            memory.conversation("c", (label,)).add_messages(
                HumanMessage(
                    text,
                    id=f"{label[0]}{number}",
                    additional_kwargs={"created_at": datetime(2026, 3, number, tzinfo=UTC).isoformat()},
                )
                for number, text in enumerate(texts, 1)
            )
    return tmp_path / "memory.db"


@pytest.fixture
def questions(tmp_path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)))
    return path


def fine(run) -> str:
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


class TestEval:
    def test_it_tells_recall_next_to_plain_searches_and_what_was_missed(self, agentmem, database, questions):
        said = fine(agentmem("--database", database, "--questions", questions, "--baselines"))
        lines = [" ".join(line.split()) for line in said.splitlines()]
        assert lines[0] == "3 questions, evidence in 3 places; 1 without evidence were not asked."
        assert any(line.startswith("this memory 0.667 [0.000 1.000] 0.667") for line in lines)
        for name in ("BM25 0.667", "BM25, stems 0.667", "vectors alone 0.667"):
            assert any(line.startswith(name) for line in lines)
        assert "birds 1 1.000 1.000 1.000 1.000" in lines
        assert "boats 2 0.500 0.500 0.500 0.500" in lines
        assert "ben 1 1.000 1.000 1.000 1.000" in lines
        assert lines[-2:] == [
            "Who bought a canoe? ada boats",
            "missed: message b1: it is in ben, where the question does not look",
        ]

    def test_without_plain_searches_there_is_room_for_every_k(self, agentmem, database, questions):
        said = fine(agentmem("--database", database, "--questions", questions, "--k", "1,2,3"))
        lines = [" ".join(line.split()) for line in said.splitlines()]
        assert "category asked at 1 at 2 at 3" in lines
        assert "boats 2 0.500 0.500 0.500" in lines

    @pytest.mark.slow
    def test_json_has_everything_and_is_the_same_each_time_while_nothing_changes(self, agentmem, database, questions):
        before = database.read_bytes()
        given = ("--database", database, "--questions", questions, "--k", "1,3", "--baselines", "--json")
        first, again = fine(agentmem(*given)), fine(agentmem(*given))
        assert first == again
        assert database.read_bytes() == before
        told = json.loads(first)
        assert (told["questions"], told["unanswerable"], told["unmeasured"]) == (3, 1, {})
        assert told["all"]["this memory"]["recall"] == {"1": 2 / 3, "3": 2 / 3}
        assert told["all"]["BM25"]["interval"].keys() == {"1", "3"}
        assert told["by_namespace"]["ada"]["this memory"] == {"questions": 2, "recall": {"1": 0.5, "3": 0.5}}
        assert "by_kind" not in told
        [miss] = told["misses"]
        assert (miss["id"], miss["kind"], miss["namespace"], miss["found"]) == ("b1", "message", ["ada"], None)

    def test_questions_that_name_no_namespace_look_in_the_one_that_is_given(self, agentmem, database, tmp_path):
        path = tmp_path / "bare.jsonl"
        path.write_text('{"question": "Who bought a canoe?", "evidence": ["b1"]}')
        for given, recall in ((), 1.0), (("--namespace", "ada"), 0.0), (("--namespace", "/"), 1.0):
            told = json.loads(fine(agentmem("--database", database, "--questions", path, "--json", *given)))
            assert told["all"]["this memory"]["recall"]["5"] == recall

    @pytest.mark.slow("in every form")
    def test_vectors_are_made_where_they_are_asked_for(self, agentmem, database, questions):
        given = ("--database", database, "--questions", questions, "--json")
        plain, static = (json.loads(fine(agentmem(*given, *more))) for more in ((), ("--index", "static")))
        assert plain["all"] == static["all"]
        with AgentMemory(database) as memory:
            assert memory.stats()["bytes_by_part"]["vectors"] > 0

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("form", "file", "asked"),
        [("transcript", "orchard.json", 15), ("longmemeval", "longmemeval_sample.json", 2)],
    )
    def test_a_file_with_conversations_fills_a_database_that_is_gone_afterwards(
        self, agentmem, tmp_path, form, file, asked
    ):
        run = agentmem("--format", form, "--questions", DATA / file, "--json", TMPDIR=str(tmp_path))
        told = json.loads(fine(run))
        assert told["questions"] == asked
        assert told["all"]["this memory"]["recall"]["10"] > 0.9
        assert [*tmp_path.iterdir()] == []

    @pytest.mark.slow
    def test_what_is_wrong_is_told_in_a_line(self, agentmem, database, questions, tmp_path):
        for given, said in (
            (("--questions", questions), "Which database?"),
            (("--questions", questions, "--database", tmp_path / "typo.db"), "There is no database"),
            (("--questions", tmp_path / "typo", "--database", database), "cannot be read"),
            (("--questions", questions, "--database", database, "--k", "many"), "--k takes numbers such as 5,10"),
            (("--questions", questions, "--database", database, "--k", "0"), "ascending numbers"),
            (("--questions", DATA / "orchard.json", "--format", "beam"), "has not the format beam, but transcript"),
        ):
            run = agentmem(*given)
            assert run.returncode == 2
            [line] = run.stderr.splitlines()
            assert said in line
