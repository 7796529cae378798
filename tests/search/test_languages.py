"""Search in other languages: how people type there finds what was said, and the documentation says how often."""

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
def places():
    """The place, 1 to 3, at which each query finds its sentence among those of all languages, or none."""
    with AgentMemory(":memory:") as memory:
        archival = memory.layers().archival
        for pairs in SENTENCES.values():
            for sentence, _ in pairs:
                archival.write(sentence)
        return {language: [place(memory, *pair) for pair in pairs] for language, pairs in SENTENCES.items()}


def place(memory, sentence, query):
    found = [each.text for each in memory.search(query, limit=3)]
    return found.index(sentence) + 1 if sentence in found else None


class TestOrdinarySentences:
    def test_there_are_twelve_in_each_of_twenty_languages(self):
        assert len(SENTENCES) >= 20
        assert {len(pairs) for pairs in SENTENCES.values()} == {12}

    @pytest.mark.parametrize("language", SENTENCES)
    def test_at_least_ten_of_twelve_are_found(self, places, language):
        assert 12 - places[language].count(None) >= 10

    def test_the_documentation_has_the_numbers(self, places):
        rows = re.findall(r"^\| (\w+) +\| (\d+) +\| (\d+) +\|", PAGE, re.MULTILINE)
        told = {language: (int(found), int(first)) for language, found, first in rows}
        assert told == {name: (12 - each.count(None), each.count(1)) for name, each in places.items()}


@pytest.mark.parametrize(("text", "queries"), [(text, queries) for text, *queries in SPELLINGS["found"]])
def test_what_people_type_finds(text, queries):
    assert [query for query in queries if set(analyze_query(query).terms).isdisjoint(extract_terms(text))] == []


@pytest.mark.parametrize(("text", "query"), SPELLINGS["apart"])
def test_what_means_something_else_is_not_taken_for_the_same(text, query):
    assert analyze_query(query).terms == () or not set(analyze_query(query).terms) <= set(extract_terms(text))


class TestSpellings:
    @pytest.mark.parametrize("typed", ["München", "Muenchen", "munchen"])
    def test_two_spellings_of_a_word_count_as_one_and_find_each_other(self, memory, typed):
        memory.layers().archival.write(f"We met in {typed} once.")
        memory.layers().archival.write("We met in Berlin once.")
        [found] = memory.search("München")
        assert typed in found.text
        assert set(found.why.terms) == {"munchen"}

    def test_what_was_typed_in_quotation_marks_is_a_phrase_in_any_spelling(self):
        indexed = " ".join(extract_terms("김치를 서울에서 in München gegessen"))
        for quoted in ("in München gegessen", "김치를 서울에서"):
            [phrase] = analyze_query(f'"{quoted}"').phrases
            assert " ".join(phrase) in indexed

    def test_they_are_no_more_words(self):
        assert analyze_text("Grüße aus München 👍👍").length == analyze_text("Gruesse aus Muenchen").length == 3
        assert analyze_text("서울에서 김치를 먹었다").length == 3
        assert analyze_query("München").is_lookup
        assert analyze_query("김치를").is_lookup


def test_korean_without_spaces_is_found_to_its_end():
    assert "김치" in extract_terms("가나다라마바사" * 20 + "김치를")


def test_many_different_characters_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(analysis, "_FOLDING", analysis._FoldingTable({32: " "}))
    monkeypatch.setattr(analysis, "_MAX_FOLDED", 10)
    assert extract_terms("".join(map(chr, range(0x4E00, 0x4E64)))) != []
    assert len(analysis._FOLDING) == 10


def test_folding_what_was_folded_changes_nothing():
    for found in map(extract_terms, map(chr, range(0xA1, 0x2FA1, 7))):
        assert {term for one in found for term in extract_terms(one)} == set(found)


@pytest.mark.parametrize("character", ["é", "ü", "가", "ה", "ﷺ", "한 ", "😀", "ü\u200c", "\u0301"])
def test_terms_grow_with_the_text_and_no_faster(character):
    half, whole = (
        extract_terms((character * MAX_TEXT_CHARS)[:length]) for length in (MAX_TEXT_CHARS // 2, MAX_TEXT_CHARS)
    )
    assert sum(map(len, whole)) <= 2 * sum(map(len, half)) + 64 <= 8 * MAX_TEXT_CHARS
