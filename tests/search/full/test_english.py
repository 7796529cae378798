"""What ranking knows of English, and that other languages do without."""

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
    def test_words_that_carry_a_question_are_no_stop_words(self):
        assert STOP_WORDS.isdisjoint(words("won like name day year first last before after work home time"))

    def test_a_base_has_no_other_base_and_every_form_is_one_lower_case_word(self):
        for form, base in BASE_FORMS.items():
            assert base not in BASE_FORMS
            assert form != base
            assert (form + base).islower()
            assert (form + base).isalpha()

    def test_what_is_a_word_of_its_own_keeps_its_meaning(self):
        assert not set(words("rose ground bore lay wound bit lives leaves does better")) & set(BASE_FORMS)
        assert STOP_WORDS.isdisjoint(BASE_FORMS)


@pytest.mark.parametrize("what", [answer_kinds, text_features, self_statements], ids=lambda what: what.__name__)
def test_a_text_is_of_these_kinds(what):
    for text, *kinds in KINDS[what.__name__]:
        assert what(text) == set(kinds), text


@pytest.mark.parametrize("name", _REQUIRED_WORDS)
@given(st.data())
def test_nobody_says_this_of_themselves_without_a_word_for_it(name, data):
    text = data.draw(st.from_regex(_patterns("says")[name]))
    assert any(word in text for word in _REQUIRED_WORDS[name])


@given(st.text())
def test_any_text_may_be_asked_told_and_said(text):
    assert answer_kinds(text) <= {"time", "number", "place", "advice", "reply", "order", "summary", "course"}
    assert text_features(text) <= {"time", "number", "proper noun", "question", "first person"}
    assert ("question" in text_features(text)) == any(mark in text for mark in "?\uff1f\u061f")
    assert self_statements(text) <= {"standing wish", "preference", "introduction"}


def test_a_long_text_is_read_in_part():
    assert (
        answer_kinds("! " * 100_000) == answer_kinds("what " * 100_000) == answer_kinds(" " * 100_000 + "when") == set()
    )
    assert text_features("a 1 Bo. " * 100_000) >= {"number", "proper noun"}
    assert self_statements("so " * 100_000 + "always") == set()
