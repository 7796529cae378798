"""The benchmarks: loaders, metrics and data."""

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
LOCOMO = Path(__file__).with_name("locomo.json")


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


class TestRecall:
    def test_recall_is_share_of_evidence_in_first_results(self, benchmarks):
        samples = benchmarks.recall.read_transcripts(LOCOMO)
        found = ["x", "x", "x", "D1:1", "D1:2", "x", "D2:1"]
        report = benchmarks.recall.evaluate(lambda *asked: found, samples)
        parts = report.parts(lambda each: each.question.category)
        assert [parts["1"].recall(cut) for cut in (5, 10, 20)] == [0.5, 1, 1]
        assert [parts["4"].recall(cut) for cut in (5, 10, 20)] == [1, 1, 1]
        assert report.recall(5) == pytest.approx(5 / 6)

    def test_questions_without_evidence_are_skipped(self, benchmarks):
        samples = benchmarks.recall.read_transcripts(LOCOMO)
        report = benchmarks.recall.evaluate(lambda *asked: [], samples)
        assert list(report.parts(lambda each: each.question.category)) == ["1", "4", "5"]

    def test_search_is_limited_to_the_samples_namespace(self, benchmarks, memory):
        samples = benchmarks.recall.read_transcripts(LOCOMO)
        memory.conversation("session_1", namespace=("other",)).add_user_message("I sold my cello, my canoe and all.")
        benchmarks.recall.feed(memory, samples)
        assert benchmarks.recall.evaluate(benchmarks.recall.searching(memory), samples).recall(5) == 1

    @pytest.mark.slow
    def test_static_vectors_improve_recall_in_chats(self, benchmarks):
        chats = benchmarks.recall.read_folder(benchmarks.recall.DATA / "chats")
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
    def test_search_matches_bm25_recall_in_long_replies(self, benchmarks, memory, language, least):
        recall = benchmarks.recall
        [transcript] = [
            each for each in recall.read_folder(recall.DATA / "long_replies") if each.name == f"{language}-long"
        ]
        recall.feed(memory, [transcript])
        ours = recall.evaluate(recall.searching(memory), [transcript])
        assert ours.recall(5) >= least
        for title, make in recall.BASELINES.items():
            plain = recall.plainly(make, [transcript])
            for cut in recall.CUTS:
                assert ours.recall(cut) >= plain.recall(cut), f"{title}, of the first {cut}"

    @pytest.mark.slow
    def test_benchmark_output_is_deterministic(self, benchmarks, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["recall.py", "--only", "alone", "--by-type"])
        printed = []
        for _ in range(2):
            benchmarks.recall.main()
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]
        assert "BM25" in printed[0]
        assert "zh" in printed[0]

    def test_beam_format_is_read_with_dates(self, benchmarks, tmp_path):
        said = [{"id": 0, "role": "user", "content": "I keep bees.", "time_anchor": "March-15-2024"}]
        asked = {"type": "knowledge_update", "question": "What do I keep?", "evidence": [0]}
        path = tmp_path / "beam.json"
        path.write_text(json.dumps([{"chat": 7, "batches": [{"batch": 1, "messages": said}], "questions": [asked]}]))
        [chat] = benchmarks.recall.read_transcripts(path)
        assert (chat.name, chat.turns, f"{chat.sessions[0].time:%Y-%m-%d}") == ("7", 1, "2024-03-15")
        assert [(each.category, each.evidence) for each in chat.questions] == [("knowledge update", {"0"})]


def read_corpus(benchmarks, name):
    recall = benchmarks.recall
    return recall.read_folder((recall.UNSEEN if name in ("notes", "long_queries") else recall.DATA) / name)


class TestChats:
    @pytest.mark.parametrize("folder", ["chats", "long_replies", "notes", "long_queries"])
    def test_evidence_ids_exist_and_are_unique(self, benchmarks, folder):
        for chat in read_corpus(benchmarks, folder):
            ids = [turn.id for session in chat.sessions for turn in session.turns]
            assert len(ids) == len(set(ids))
            assert all(question.evidence and question.evidence <= set(ids) for question in chat.questions)

    @pytest.mark.parametrize("folder", ["chats", "long_replies", "long_queries"])
    def test_chats_alternate_user_and_assistant_without_names(self, benchmarks, memory, folder):
        chat = read_corpus(benchmarks, folder)[0]
        benchmarks.recall.feed(memory, [chat])
        for session in chat.sessions:
            messages = memory.conversation(session.id, namespace=(chat.name,)).messages
            assert [message.type for message in messages] == ["human", "ai"] * (len(messages) // 2)
            assert all(message.name is None for message in messages)


class TestFacts:
    COUNT = 150

    def test_values_replace_earlier_ones_without_duplicates(self, benchmarks):
        told = list(benchmarks.facts.told(self.COUNT))
        now: dict[tuple[str, str], str] = {}
        for fact in told:
            if fact.predicate in benchmarks.facts.SINGLE:
                assert now.get((fact.subject, fact.predicate)) == fact.before
                now[fact.subject, fact.predicate] = fact.object
        assert [fact.number for fact in told] == list(range(self.COUNT))
        assert any(fact.before for fact in told)

    @pytest.mark.slow
    @pytest.mark.parametrize("peer", ["networkx", "sqlite3 by hand", "SqliteStore"])
    def test_peer_libraries_give_the_same_answers(self, benchmarks, tmp_path, peer):
        ours = benchmarks.facts.Ours(tmp_path / "ours.db")
        make, _ = benchmarks.facts.PEERS[peer]
        theirs = make(tmp_path / "theirs")
        for one in (ours, theirs):
            benchmarks.facts.filled(one, self.COUNT)
        benchmarks.facts.same_answers(ours, theirs, self.COUNT)
        assert any(ours.neighbours(name) for name in benchmarks.facts.names(self.COUNT)["Person"])
        for one in (ours, theirs):
            one.close()

    def test_own_queries_return_answers(self, benchmarks, tmp_path, monkeypatch):
        monkeypatch.setattr(benchmarks.facts, "ASKED", 2)
        ours = benchmarks.facts.Ours(tmp_path / "ours.db")
        _, learned = benchmarks.facts.filled(ours, self.COUNT)
        took = benchmarks.facts.asked_of_us(ours, self.COUNT, learned)
        took |= benchmarks.facts.hub(ours, 3) | benchmarks.facts.forked(ours, self.COUNT, 2)
        assert all(0 < median <= slow for median, slow in took.values())
        ours.close()


class TestStudio:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
    def test_every_studio_page_is_measured(self, benchmarks, url, tmp_path, capsys):
        benchmarks.studio.run(url, tmp_path, threads=4, messages=40, checkpoints=60, rounds=1)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == 2 + len(benchmarks.studio.pages(60))
        with AgentMemory(url) as memory:
            stored = memory.admin.stats()
            assert (stored["threads"], stored["forks"], stored["messages"]) == (5, 2, 4 * 8 + 2 + 6)
            assert stored["checkpoints"] == 4 * 4 + 2 + 60


class TestSoak:
    @pytest.mark.slow
    def test_soak_runs_every_operation_and_verifies(self, benchmarks, tmp_path, capsys):
        benchmarks.soak.soak(str(tmp_path / "a.db"), minutes=0.06, workers=2, turns=3, seed=1)
        told = capsys.readouterr().out
        assert "verify(): 0 problems" in told
        for what in ("turn of a graph", "compacted view", "search", "erase a tenant"):
            assert f"{what}, ms" in told

    @pytest.mark.parametrize("grows", ["memory", "stored", "handles", "threads"])
    def test_growing_metric_is_reported_as_not_flat(self, benchmarks, capsys, grows):
        still = benchmarks.soak.Sample(100_000_000, 20, 10, 50_000_000, {"append": 1.0})
        later = [still._replace(**{grows: getattr(still, grows) * (10 + number) // 10}) for number in range(30)]
        assert benchmarks.soak.told([still] * 30)
        assert not benchmarks.soak.told(later)
        assert "NOT flat" in capsys.readouterr().out
