"""Where an assistant answers at length: what a search finds there, in three languages, next to plain BM25."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.sqlite_suffices

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LEAST = [("de", 0.48), ("en", 0.67), ("zh", 0.71)]
"""By language, what must be kept of the recall among the first five: two questions less than it was."""


@pytest.fixture
def recall(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("recall")
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


class TestLongReplies:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("language", "least"), LEAST)
    def test_a_search_finds_as_much_as_bm25_or_more_however_far_one_reads(
        self, recall: ModuleType, memory: AgentMemory, language: str, least: float
    ) -> None:
        [transcript] = [each for each in recall.read_folder("long_replies") if each.name == f"{language}-long"]
        recall.feed(memory, [transcript])
        ours = recall.evaluate(recall.searching(memory), [transcript])
        for title, make in recall.BASELINES.items():
            plain = recall.plainly(make, [transcript])
            for cut in recall.CUTS:
                assert ours.recall(cut) >= plain.recall(cut), f"{title}, of the first {cut}"
        assert ours.recall(5) >= least
