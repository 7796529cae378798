"""What ranking knows of English, and that other languages do without."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.search.analysis import _SAID_WITH, BASE_FORMS, STOP_WORDS, _patterns, asks_for, says, tells


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


class TestAsksFor:
    def test_a_question_asks_for_this(self):
        for question, kinds in {
            "When did she move?": "time", "Do you know when she moved?": "time",
            "Since when does she live there?": "time", "What date was the party?": "time",
            "In which year did we meet?": "time advice", "How long ago was that?": "time",
            "How many cats has she?": "number", "and how much was it": "number", "HOW OLD IS HE": "number",
            "Who called?": "", "How should I store my files?": "advice", "I\u2019m looking for a new bicycle": "advice",
            "What did you suggest for the garden?": "advice reply", "What was your advice on sleep?": "reply",
            "Do you remember what I told you?": "", "Was hast du zum Garten vorgeschlagen?": "reply",
            "Welche Quitte war deine Empfehlung?": "reply", "Hast du Quitten?": "", "你当时建议种什么树?": "reply",
            "你的回答是什么?": "reply", "我说过要种什么树?": "", "In what order did I buy them?": "order course",
            "I turned back in order to order a pizza": "order", "What contradicts that?": "course", "Wann war das?": "",
            "Have I ever been to Rome?": "course", "Summarize how my garden has changed": "summary", "何時ですか": "",
            "How has my garden changed?": "summary", "Tell me where I live": "place",
            "Which city did we visit?": "place advice", "When and where did we meet?": "time place",
            "What did the man who called want?": "", "Why?": "", "": "", "What did she say when he left?": "",
            "the place where we met": "",
        }.items():  # fmt: skip
            assert asks_for(question) == set(kinds.split()), question


class TestTells:
    def test_a_message_tells_this(self):
        both = {"time", "number"}
        for text, kinds in {
            "We met yesterday.": {"time", "first person"}, "It was three years ago": both, "It opens at 8 pm": both,
            "It opens at 8:30": both, "five o'clock": both, "back in 1999": both, "on May 8": both,
            "the 8th of May": both, "see you on Monday": {"time"}, "you may march on": set(),
            "there are 12": {"number"}, "there are twelve": {"number"}, "the one there": set(),
            "She lives in Lisbon.": {"proper noun"}, "ask Mr. Smith": {"proper noun"},
            "She went. Then home. Good!": set(), "she works at NASA": {"proper noun"},
            "und \u00c9ric kam": {"proper noun"}, "Who is it?": {"question"}, "誰ですか\uff1f": {"question"},
            "من هذا؟": {"question"}, "": set(), "Then I'm late, and I know": {"first person"},
            "Our house is mine": {"first person"}, "they live in the US": {"proper noun"},
            "gestern war es schön": set(),
        }.items():  # fmt: skip
            assert tells(text) == kinds, text


class TestSays:
    def test_people_say_this_of_themselves(self):
        for text, kinds in {
            "Always give prices in euros when I ask about shops.": {"standing wish"},
            "Please never use tables": {"standing wish"},
            "It is fine. From now on, be brief.": {"standing wish"}, "He always comes late": set(),
            "I\u2019d rather walk": {"preference"}, "We took the bus instead of the car": {"preference",
            "introduction"},
            "I'm a nurse in Leeds": {"introduction"}, "As a beginner, I need help": {"introduction"},
            "Thanks. I am a nurse": set(), "ich möchte Tee": set(), "": set(),
        }.items():  # fmt: skip
            assert says(text) == kinds, text

    @pytest.mark.parametrize("name", _SAID_WITH)
    @given(st.data())
    def test_nobody_says_it_without_a_word_for_it(self, name, data):
        text = data.draw(st.from_regex(_patterns("says")[name]))
        assert any(word in text for word in _SAID_WITH[name])


@given(st.text())
def test_any_text_may_be_asked_told_and_said(text):
    assert asks_for(text) <= {"time", "number", "place", "advice", "reply", "order", "summary", "course"}
    assert tells(text) <= {"time", "number", "proper noun", "question", "first person"}
    assert ("question" in tells(text)) == any(mark in text for mark in "?\uff1f\u061f")
    assert says(text) <= {"standing wish", "preference", "introduction"}


def test_a_long_text_is_read_in_part():
    assert asks_for("! " * 100_000) == asks_for("what " * 100_000) == asks_for(" " * 100_000 + "when") == set()
    assert tells("a 1 Bo. " * 100_000) >= {"number", "proper noun"}
    assert says("so " * 100_000 + "always") == set()
