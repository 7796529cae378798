"""The demo as a process: two processes, Studio, and cleanup."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.demo import PERSON, QUESTIONS, TALKS
from tests.cli.commands import read_json, stdout_of
from tests.forking import COMMAND, ENVIRONMENT

pytestmark = pytest.mark.sqlite_suffices


COPPER = "“For years he has wanted a copper smoker for his bees.”"


@pytest.fixture
def demo(forks):
    return lambda *arguments, **environment: stdout_of(forks.run(COMMAND, "demo", *arguments, **environment))


class TestStory:
    def test_second_process_recalls_memories_of_the_first(self, demo, url):
        printed = demo(url)
        first, second = re.findall(r"^Process (\d+): (?:conversations|a new)", printed, re.MULTILINE)
        assert first != second
        said, answered = printed.split("a new process")
        for sayings in TALKS.values():
            for each in sayings:
                assert each in said
        for question in QUESTIONS:
            assert question in answered
        assert COPPER in answered
        assert "wanted +" in answered
        assert "I do not remember anything about that." in answered
        with AgentMemory(url) as memory:
            assert memory.admin.stats()["messages"] == 2 * (6 + len(QUESTIONS))
            assert memory.admin.verify().ok

    def test_json_has_one_object_per_line_and_resumes(self, demo, forks, tmp_path):
        database = str(tmp_path / "kept.db")
        *exchanges, summary = map(json.loads, demo(database, "--json").splitlines())
        assert summary == {"type": "summary", "messages": 22, "conversations": 3}
        sayings = [said for talk in TALKS.values() for said in talk]
        assert [each["said"] for each in exchanges] == [*sayings, *QUESTIONS]
        assert {each["type"] for each in exchanges} == {"exchange"}
        assert {each["speaker"] for each in exchanges} == {PERSON}
        assert len({each["process"] for each in exchanges}) == 2
        assert [each["conversation"] for each in exchanges[:6]] == [name for name, talk in TALKS.items() for _ in talk]
        asked = exchanges[6]
        assert COPPER in asked["answer"]
        arguments = ("search", database, QUESTIONS[0], "--namespace", "irena", "--json")
        searched = read_json(forks.run(COMMAND, *arguments))
        assert asked["recalled"][0].keys() == searched[0].keys()
        again = demo(database)
        assert again.count("is skipped") == len(TALKS)
        assert COPPER in again
        with AgentMemory(database) as memory:
            assert memory.admin.stats()["conversations"] == len(TALKS) + 2

    def test_demo_mentions_deterministic_model_and_deletes_its_database(self, demo, tmp_path):
        printed = demo(TMPDIR=str(tmp_path), TEMP=str(tmp_path), TMP=str(tmp_path))
        assert "deterministic" in printed
        assert list(tmp_path.iterdir()) == []
        assert tempfile.gettempdir() not in printed


def test_studio_serves_the_sample_and_deletes_its_database(tmp_path):
    command = [sys.executable, "-m", "langchain_agentmem", "demo", "--studio", "--no-open"]
    with subprocess.Popen(
        command, env={**ENVIRONMENT, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            where = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(where) as answer:
                page = answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
        printed, failed = process.communicate()
    assert f'<p class="who">{PERSON}</p>' in page
    assert (process.returncode, failed) == (0, "")
    assert printed.splitlines() == ["The temporary database was deleted."]
    assert list(tmp_path.iterdir()) == []
