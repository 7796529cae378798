"""A second process remembers what the first was told."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.demo_story import PERSON, QUESTIONS, TALKS
from tests.forking import COMMAND, Forks

pytestmark = pytest.mark.sqlite_suffices

INTERPRETERS: list[Forks] = []


@pytest.fixture(autouse=True)
def _interpreter(forks) -> None:
    INTERPRETERS[:] = [forks]


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demo."""
    return INTERPRETERS[0].run(COMMAND, "demo", *arguments, **environment)


class TestTheStory:
    def test_a_second_process_remembers(self, url):
        run = demo("--database", url)
        assert (run.returncode, run.stderr) == (0, "")
        first, second = re.findall(r"^Process (\d+) (?:talks|is new)", run.stdout, re.MULTILINE)
        assert first != second
        told, answered = run.stdout.split("is new")
        for sayings in TALKS.values():
            for said in sayings:
                assert said in told
        for question in QUESTIONS:
            assert question in answered
        assert "“For years he has wanted a copper smoker for his bees.”" in answered
        assert "wanted +" in answered
        assert "I do not remember anything about that." in answered
        with AgentMemory(url) as memory:
            assert memory.stats()["messages"] == 2 * (6 + len(QUESTIONS))
            assert memory.verify().ok

    def test_as_json_it_is_one_object_a_line_and_what_is_kept_is_gone_on_with(self, tmp_path):
        database = str(tmp_path / "kept.db")
        run = demo("--database", database, "--json")
        assert (run.returncode, run.stderr) == (0, "")
        *exchanges, summary = map(json.loads, run.stdout.splitlines())
        assert summary == {"type": "summary", "messages": 22, "conversations": 3}
        sayings = [said for talk in TALKS.values() for said in talk]
        assert [each["said"] for each in exchanges] == [*sayings, *QUESTIONS]
        assert {each["type"] for each in exchanges} == {"exchange"}
        assert {each["speaker"] for each in exchanges} == {PERSON}
        assert len({each["process"] for each in exchanges}) == 2
        assert [each["conversation"] for each in exchanges[:6]] == [name for name, talk in TALKS.items() for _ in talk]
        asked = exchanges[6]
        assert "“For years he has wanted a copper smoker for his bees.”" in asked["answer"]
        arguments = ("search", QUESTIONS[0], "--database", database, "--namespace", "irena", "--json")
        searched = json.loads(INTERPRETERS[0].run(COMMAND, *arguments).stdout)
        assert asked["recalled"][0].keys() == searched[0].keys()
        again = demo("--database", database)
        assert again.returncode == 0
        assert again.stdout.count("not lived again") == len(TALKS)
        assert "“For years he has wanted a copper smoker for his bees.”" in again.stdout
        with AgentMemory(database) as memory:
            assert memory.stats()["conversations"] == len(TALKS) + 2

    def test_it_says_that_no_real_model_answers_and_leaves_nothing_behind(self, tmp_path):
        run = demo(TMPDIR=str(tmp_path), TEMP=str(tmp_path), TMP=str(tmp_path))
        assert run.returncode == 0
        assert "deterministic" in run.stdout
        assert list(tmp_path.iterdir()) == []
        assert tempfile.gettempdir() not in run.stdout

    def test_piped_output_is_plain_text(self):
        assert "\x1b" not in demo("--transcript", "sample").stdout

    @pytest.mark.parametrize("arguments", [("--database", ":memory:"), ("--model", "nobody:nothing")])
    def test_what_cannot_work_is_said_on_one_line(self, arguments, tmp_path):
        run = demo(*arguments, TMPDIR=str(tmp_path))
        assert run.returncode == 2
        assert len(run.stderr.splitlines()) == 1
        assert "Traceback" not in run.stderr
