"""The benchmarks measure what they say: their loaders, their metrics, and their own data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.sqlite_suffices

FOLDER = Path(__file__).parents[1] / "benchmarks"
SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I sold my cello yesterday."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Look at this!", "blip_caption": "a red canoe on a lake"},
        ],
        "session_2_date_time": "9:03 am on 2 June, 2023",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "The canoe leaks."}],
    },
    "qa": [
        {"question": "What happened to the canoe?", "answer": "…", "evidence": ["D1:2", "D2:1"], "category": 1},
        {"question": "What did Ada sell?", "answer": "…", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Ben sell?", "adversarial_answer": "…", "evidence": ["D1:1"], "category": 5},
        {"question": "What is the weather?", "answer": "…", "evidence": [], "category": 3},
    ],
}


class Benchmarks:
    """The scripts, imported as they import each other."""

    def __getattr__(self, name: str) -> ModuleType:
        return import_module(name)


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Benchmarks]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield Benchmarks()
    for name in set(sys.modules) - before:
        if (FOLDER / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture
def locomo_file(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    return path


class TestRecall:
    def test_recall_is_the_share_of_the_evidence_among_the_first(self, benchmarks, locomo_file):
        samples = benchmarks.recall.read_transcripts(locomo_file)
        found = ["x", "x", "x", "D1:1", "D1:2", "x", "D2:1"]
        report = benchmarks.recall.evaluate(lambda *asked: found, samples)
        parts = report.parts(lambda each: each.question.category)
        assert [parts["1"].recall(cut) for cut in (5, 10, 20)] == [0.5, 1, 1]
        assert [parts["4"].recall(cut) for cut in (5, 10, 20)] == [1, 1, 1]
        assert report.recall(5) == pytest.approx(5 / 6)

    def test_our_search_is_asked_in_the_namespace_of_the_sample(self, benchmarks, locomo_file, memory):
        samples = benchmarks.recall.read_transcripts(locomo_file)
        memory.conversation("session_1", namespace=("other",)).add_user_message("I sold my cello, my canoe and all.")
        benchmarks.recall.feed(memory, samples)
        assert benchmarks.recall.evaluate(benchmarks.recall.searching(memory), samples).recall(5) == 1

    @pytest.mark.slow
    def test_static_vectors_find_more_in_chats_than_words_alone(self, benchmarks):
        chats = benchmarks.recall.read_folder("chats")
        reports = []
        for _, index in benchmarks.recall.indexes(static=True):
            with AgentMemory(":memory:", clock=lambda: benchmarks.recall.NOW, index=index) as memory:
                benchmarks.recall.feed(memory, chats)
                memory.settle()
                reports.append(benchmarks.recall.evaluate(benchmarks.recall.searching(memory), chats))
        words, vectors = reports
        for cut in benchmarks.recall.CUTS:
            assert vectors.recall(cut) > words.recall(cut), f"of the first {cut}"

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("language", "least"), [("de", 0.48), ("en", 0.67), ("zh", 0.71)])
    def test_in_long_replies_a_search_finds_no_less_than_bm25(self, benchmarks, memory, language, least):
        recall = benchmarks.recall
        [transcript] = [each for each in recall.read_folder("long_replies") if each.name == f"{language}-long"]
        recall.feed(memory, [transcript])
        ours = recall.evaluate(recall.searching(memory), [transcript])
        assert ours.recall(5) >= least
        for title, make in recall.BASELINES.items():
            plain = recall.plainly(make, [transcript])
            for cut in recall.CUTS:
                assert ours.recall(cut) >= plain.recall(cut), f"{title}, of the first {cut}"


class TestStudio:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
    def test_every_page_is_asked_for(self, benchmarks, url, tmp_path, capsys):
        benchmarks.studio.run(url, tmp_path, threads=4, messages=40, checkpoints=60, rounds=1)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == 2 + len(benchmarks.studio.pages(60))
        with AgentMemory(url) as memory:
            stored = memory.admin.stats()
            assert (stored["threads"], stored["forks"], stored["messages"]) == (5, 2, 4 * 8 + 2 + 6)
            assert stored["checkpoints"] == 4 * 4 + 2 + 60


class TestSoak:
    @pytest.mark.slow
    def test_every_worker_does_everything_and_what_is_kept_verifies(self, benchmarks, tmp_path, capsys):
        benchmarks.soak.soak(str(tmp_path / "a.db"), minutes=0.06, workers=2, turns=3, seed=1)
        told = capsys.readouterr().out
        assert "verify(): 0 problems" in told
        for what in ("turn of a graph", "compacted view", "search", "erase a tenant"):
            assert f"{what}, ms" in told
