"""Text becomes terms the same way everywhere, and no text is invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.messages import Message, body_text, encode_body
from langchain_agentmem.retrieval.analysis import LONGEST_TERM, LONGEST_TEXT, STOP_WORDS, query_terms, terms


class TestTerms:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("Hello, World", ["hello", "world"]),
            ("snake_case and-dash", ["snake", "case", "and", "dash"]),
            ("Café ÉCOLE naïve", ["cafe", "ecole", "naive"]),
            ("STRASSE Straße", ["strasse", "strasse"]),
            ("\ufb01ne \uff12\uff10\uff12\uff16", ["fine", "2026"]),
            ("北京大学", ["北", "京", "大", "学", "北京", "京大", "大学"]),
            ("猫", ["猫"]),
            ("東京に行く", ["東", "京", "に", "行", "く", "東京", "京に", "に行", "行く"]),
            ("v2.0 x86", ["v2", "0", "x86"]),
            ("😀 ! \0 \ud800", []),
            ("", []),
        ],
    )
    def test_a_text_has_these_terms(self, text, found):
        assert terms(text) == found

    def test_thai_is_found_by_a_part(self):
        assert set(terms("ภาษา")) <= set(terms("ฉันพูดภาษาไทย"))

    @given(st.text())
    def test_every_text_is_valid_and_terms_hold_nothing_an_index_could_misread(self, text):
        for term in terms(text):
            assert term
            assert len(term) <= LONGEST_TERM
            assert not set(term) & set(" \"'*\\()\0")
        assert terms(text) == terms(text)

    @given(st.text(max_size=200))
    def test_case_and_form_do_not_matter(self, text):
        assert set(terms(text.upper().lower())) == set(terms(text.upper()))

    def test_a_very_long_text_is_cut(self):
        assert len(terms("ab " * LONGEST_TEXT)) <= LONGEST_TEXT
        assert terms("x" * 1000) == ["x" * LONGEST_TERM]


class TestQueryTerms:
    def test_each_counts_once_without_the_words_every_question_has(self):
        assert query_terms("Where is the cat? The CAT!") == ["cat"]

    def test_a_query_of_nothing_but_stop_words_is_kept(self):
        assert query_terms("To be or not to be") == ["to", "be", "or", "not"]

    def test_stop_words_are_terms(self):
        assert all(terms(word) == [word] for word in STOP_WORDS)


class TestWhatIsIndexed:
    @given(
        st.text() | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.text(), max_size=2), max_size=3),
        st.none() | st.text(),
    )
    def test_a_message_and_its_stored_body_have_the_same_text(self, content, name):
        """The index takes an entry out by its terms, so what went in must be what the body says."""
        message = Message(role="user", content=content, name=name)
        assert body_text(encode_body(message)) == message.text
