"""Search in other languages: recall, spelling variants and term extraction."""

import re
from pathlib import Path

import pytest
import yaml

from langchain_agentmem import AgentMemory
from langchain_agentmem.search import analysis
from langchain_agentmem.search.analysis import MAX_TEXT_CHARS, analyze_query, analyze_text, extract_terms

ROOT = Path(__file__).parents[2]
SENTENCES, SPELLINGS = (
    yaml.safe_load((ROOT / "tests" / "data" / name).read_text(encoding="utf-8"))
    for name in ("languages.yaml", "spellings.yaml")
)
PAGE = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ranks():
    """The rank, 1 to 3, of each query's sentence among those of all languages, or None."""
    with AgentMemory(":memory:") as memory:
        archival = memory.layers().archival
        for pairs in SENTENCES.values():
            for sentence, _ in pairs:
                archival.write(sentence)
        return {language: [rank_of(memory, *pair) for pair in pairs] for language, pairs in SENTENCES.items()}


def rank_of(memory, sentence, query):
    found = [each.text for each in memory.search(query, limit=3)]
    return found.index(sentence) + 1 if sentence in found else None


class TestSentenceRecall:
    def test_data_has_twelve_sentences_per_language(self):
        assert len(SENTENCES) >= 20
        assert {len(pairs) for pairs in SENTENCES.values()} == {12}

    @pytest.mark.parametrize("language", SENTENCES)
    def test_at_least_ten_of_twelve_sentences_are_found(self, ranks, language):
        assert 12 - ranks[language].count(None) >= 10

    def test_documented_recall_matches_the_measured_recall(self, ranks):
        rows = re.findall(r"^\| (\w+) +\| (\d+) +\| (\d+) +\|", PAGE, re.MULTILINE)
        told = {language: (int(found), int(first)) for language, found, first in rows}
        assert told == {name: (12 - each.count(None), each.count(1)) for name, each in ranks.items()}


@pytest.mark.parametrize(("text", "queries"), [(text, queries) for text, *queries in SPELLINGS["found"]])
def test_query_spelling_matches_the_text(text, queries):
    assert [query for query in queries if set(analyze_query(query).terms).isdisjoint(extract_terms(text))] == []


@pytest.mark.parametrize(("text", "query"), SPELLINGS["apart"])
def test_different_words_do_not_match(text, query):
    assert analyze_query(query).terms == () or not set(analyze_query(query).terms) <= set(extract_terms(text))


class TestSpellings:
    @pytest.mark.parametrize("typed", ["München", "Muenchen", "munchen"])
    def test_spelling_variants_match_and_count_once(self, memory, typed):
        memory.layers().archival.write(f"We met in {typed} once.")
        memory.layers().archival.write("We met in Berlin once.")
        [found] = memory.search("München")
        assert typed in found.text
        assert set(found.why.terms) == {"munchen"}

    def test_spelling_variants_do_not_increase_word_count(self):
        assert analyze_text("Grüße aus München 👍👍").length == analyze_text("Gruesse aus Muenchen").length == 3
        assert analyze_text("서울에서 김치를 먹었다").length == 3
        assert analyze_query("München").is_lookup
        assert analyze_query("김치를").is_lookup


def test_long_unspaced_korean_text_is_indexed_completely():
    assert "김치" in extract_terms("가나다라마바사" * 20 + "김치를")


def test_character_folding_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(analysis, "_FOLDING", analysis._FoldingTable({32: " "}))
    monkeypatch.setattr(analysis, "_MAX_FOLDED", 10)
    assert extract_terms("".join(map(chr, range(0x4E00, 0x4E64)))) != []
    assert len(analysis._FOLDING) == 10


def test_folding_is_idempotent():
    for found in map(extract_terms, map(chr, range(0xA1, 0x2FA1, 7))):
        assert {term for one in found for term in extract_terms(one)} == set(found)


@pytest.mark.parametrize("character", ["é", "ü", "가", "ה", "ﷺ", "한 ", "😀", "ü\u200c", "\u0301"])
def test_term_size_grows_linearly_with_text(character):
    half, whole = (
        extract_terms((character * MAX_TEXT_CHARS)[:length]) for length in (MAX_TEXT_CHARS // 2, MAX_TEXT_CHARS)
    )
    assert sum(map(len, whole)) <= 2 * sum(map(len, half)) + 64 <= 8 * MAX_TEXT_CHARS
