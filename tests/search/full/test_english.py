"""The English word lists and patterns of ranking."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.search.analysis import (
    _REQUIRED_WORDS,
    BASE_FORMS,
    STOP_WORDS,
    _patterns,
    answer_kinds,
    self_statements,
    text_features,
)

KINDS = yaml.safe_load((Path(__file__).parents[2] / "data" / "english.yaml").read_text(encoding="utf-8"))


def words(text):
    return text.split()


class TestWords:
    def test_meaningful_question_words_are_not_stop_words(self):
        assert STOP_WORDS.isdisjoint(words("won like name day year first last before after work home time"))

    def test_base_forms_are_final_lowercase_words(self):
        for form, base in BASE_FORMS.items():
            assert base not in BASE_FORMS
            assert form != base
            assert (form + base).islower()
            assert (form + base).isalpha()

    def test_ambiguous_words_have_no_base_form(self):
        assert not set(words("rose ground bore lay wound bit lives leaves does better")) & set(BASE_FORMS)
        assert STOP_WORDS.isdisjoint(BASE_FORMS)


@pytest.mark.parametrize("what", [answer_kinds, text_features, self_statements], ids=lambda what: what.__name__)
def test_texts_are_classified_as_expected(what):
    for text, *kinds in KINDS[what.__name__]:
        assert what(text) == set(kinds), text


@pytest.mark.parametrize("name", _REQUIRED_WORDS)
@given(st.data())
def test_self_statement_patterns_require_a_listed_word(name, data):
    pattern = _patterns("self_statements")[name]
    text = data.draw(st.from_regex(re.compile(pattern.pattern, pattern.flags)))
    assert any(word in text for word in _REQUIRED_WORDS[name])


@given(st.text())
def test_any_text_can_be_classified(text):
    assert answer_kinds(text) <= {"time", "number", "place", "advice", "reply", "order", "summary", "course"}
    assert text_features(text) <= {"time", "number", "proper noun", "question"}
    assert ("question" in text_features(text)) == any(mark in text for mark in "?\uff1f\u061f")
    assert self_statements(text) <= {"standing wish", "preference", "introduction"}


def test_long_texts_are_classified_by_their_beginning():
    assert (
        answer_kinds("! " * 100_000) == answer_kinds("what " * 100_000) == answer_kinds(" " * 100_000 + "when") == set()
    )
    assert text_features("a 1 Bo. " * 100_000) >= {"number", "proper noun"}
    assert self_statements("so " * 100_000 + "always") == set()
