"""Lexical selection: what a query has in common with a condition, and how often that is right."""

from __future__ import annotations

import pytest

from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE, judged, leading

from .conftest import TEXTS

FILES = "Use when user requests file operations (read, write, rename, delete) or FileNotFoundError occurred."
REFUND = "Customer wants their money back, disputes a charge, or was billed twice."
CHART = "Use when a chart or any other visualization is to be drawn."
POD = "A pod keeps restarting, is in CrashLoopBackOff, or a service runs out of memory."
GIT = "Use when the user wants to undo commits or resolve merge conflicts."
ALL = (FILES, REFUND, CHART, POD, GIT)
ERROR = "Error: FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'"


def score(query, condition, context="", others=ALL):
    """Of one condition among others."""
    return judged(query, context, [condition, *(each for each in others if each != condition)])[0].score


def chosen(query, context="", conditions=ALL):
    found = judged(query, context, conditions)
    return [
        condition
        for condition, each, leads in zip(conditions, found, leading(found), strict=True)
        if leads and each.score >= THRESHOLD
    ]


# What it says


def test_what_applies_is_chosen():
    for query, expected in {
        "delete the old logs folder and rename that file": [FILES],
        "you billed me twice, I want my money back": [REFUND],
        "draw a bar chart": [CHART],
        "my pod keeps restarting": [POD],
        "there is a merge conflict": [GIT],
        "draw a chart of the refunds where we billed somebody twice": [REFUND, CHART],
        "who wrote Middlemarch?": [],
    }.items():
        assert chosen(query) == expected, query


def test_a_condition_with_nothing_in_common_scores_zero_and_gives_no_reason():
    for each in judged("who painted the night watch?", "User: hello\nExecution: done", ALL):
        assert each == (0.0, {})


def test_the_words_by_which_conditions_are_phrased_say_nothing():
    assert all(each.score == 0 for each in judged("When the user asks for help, use it if they want to.", "", ALL))


def test_a_word_that_only_shares_its_stem_with_them_says_something():
    assert score("my personal things", "A person mentions personal data.") > score(
        "a person", "A person mentions data."
    )
    assert score("important imports", "An import fails.") > THRESHOLD / 2


def test_a_common_word_alone_is_not_enough():
    assert 0 < score("what day is it in Peru?", "Use for questions about the opening day of the shop.") < THRESHOLD


def test_a_word_that_many_conditions_have_tells_less_than_a_rare_one():
    conditions = [f"The customer has a question about {thing}." for thing in ("toasters", "kettles", "lamps", "fans")]
    customer, kettle = judged("customer", "", conditions)[1], judged("kettle", "", conditions)[1]
    assert customer.score < kettle.score
    assert kettle.score >= THRESHOLD


def test_the_reasons_are_words_as_they_were_written_and_add_up_to_the_score():
    found = judged("Draw charts, I was billed twice", "", ALL)
    assert set(found[2].terms) >= {"draw", "charts"}
    assert {"billed", "twice"} <= set(found[1].terms)
    for each in found:
        assert sum(each.terms.values()) == pytest.approx(each.score)


def test_one_situation_of_many_is_enough():
    many = "Use when:\n- a kettle leaks\n- the toaster smokes\n- a lamp flickers\n- the oven door sticks"
    assert chosen("my lamp flickers", conditions=(many, REFUND, GIT)) == [many]


def test_of_two_with_a_word_in_common_the_one_that_explains_the_query_better_is_chosen():
    package = "A parcel or package was lost on its way."
    python = "A Python package must be installed."
    both = (package, python, *ALL)
    assert chosen("my package was lost on its way to me", conditions=both) == [package]
    assert chosen("install that python package", conditions=both) == [python]


REFUNDS = (
    "When the user asks for a refund.",
    *(
        f"When the user wants a refund {case}."
        for case in ("for a damaged item", "after thirty days", "to another card")
    ),
    "When the user asks for a refund of a gift.",
    "When the user wants a refund of shipping costs.",
    "When a refund was promised but has not arrived.",
    "When a business customer wants a refund with an invoice.",
)


def test_however_many_are_related_the_one_that_is_meant_is_chosen():
    for many in range(1, len(REFUNDS) + 1):
        related = (*REFUNDS[:many], *ALL)
        assert chosen("I want a refund", conditions=related) == [REFUNDS[0]], many
        if many > 1:
            assert chosen("I want a refund for a damaged item", conditions=related) == [REFUNDS[1]], many


# How words are spelled


def test_spellings_of_the_same_thing_meet():
    for query, condition in TEXTS["spellings"]:
        assert score(query, condition, others=(REFUND, GIT)) >= UNSURE[0], query


def test_the_name_of_an_error_says_more_than_the_words_it_is_made_of():
    assert score("FileNotFoundError", FILES) > score("the file", FILES)


def test_other_languages_are_found_by_their_words():
    for query, condition in TEXTS["languages"]:
        first, *others = judged(query, "", (condition, *ALL))
        assert first.score > 0.3, query
        assert all(each.score == 0 for each in others), query
    assert score("환불해 주세요", "고객이 환불을 요청할 때") > 0


# What speaks against


def test_what_a_condition_is_not_for_speaks_against_it():
    for denial in TEXTS["denials"]:
        condition, plain = f"Use when tests fail. {denial}", "Use when tests fail."
        assert score("my tests fail", condition) >= THRESHOLD, denial
        assert score("our A/B tests", condition) < min(THRESHOLD, score("our A/B tests", plain)), denial


def test_a_denial_ends_with_its_sentence_or_its_list():
    assert score("sort the kettles", "Not for lamps. Use for kettles.") >= THRESHOLD
    assert score("sort the kettles", "Not for:\n- lamps\n\nUse for kettles.") >= THRESHOLD


def test_only_the_denial_in_common_scores_zero():
    assert score("our surveys", "Use when tests fail. Not for surveys.") == 0


def test_a_not_that_is_part_of_the_situation_is_no_denial():
    assert score("the printer does not print", "Use when the printer does not print.") >= THRESHOLD
    assert score("I want to avoid luggage fees", "Use when somebody wants to avoid luggage fees.") >= THRESHOLD


# What went before


def test_the_name_of_an_error_is_found_at_the_end_of_a_long_traceback():
    frames = "\n".join(f'  File "/srv/step{number}.py", line {number}, in run' for number in range(2_000))
    context = f"User: go\nError: Traceback (most recent call last):\n{frames}\nFileNotFoundError: gone"
    assert FILES in chosen("and now?", context)


def test_errors_of_older_rounds_are_over():
    context = f"User: read it\n{ERROR}\nUser: never mind\nExecution: ok"
    assert chosen("thank you, that worked", context) == []
    assert score("do it again", FILES, context) == 0 < score("do it again", FILES, f"User: read it\n{ERROR}")


def test_what_was_run_says_nothing_of_what_is_asked():
    assert score("do it again", CHART, "User: go on\nExecution: draw a chart") == 0


def test_the_query_at_the_end_of_the_context_opens_no_new_round():
    assert FILES in chosen("try again", f"User: read it\n{ERROR}\nUser: try again")


def test_a_query_that_says_nothing_itself_is_about_what_was_asked_before():
    assert chosen("the same once more", "User: draw a chart\nExecution: done") == [CHART]
    assert chosen("no, check its colours first", "User: draw a chart\nExecution: done") == [CHART]
    assert chosen("undo those commits", "User: draw a chart\nExecution: done") == [GIT]


def test_a_query_about_something_else_leaves_what_went_before():
    context = f"User: draw a chart\n{ERROR}"
    assert chosen("great, now tell me a joke about penguins", context) == []
    assert chosen("do that again", context) == [FILES, CHART]


# Whatever is asked


def test_no_conditions_give_no_scores_and_empty_texts_score_zero():
    assert judged("draw a chart", "", []) == []
    assert [each.score for each in judged("", "", ["", " ", CHART])] == [0, 0, 0]
    assert [each.score for each in judged("chart", "", ["", "\n", CHART])][:2] == [0, 0]


def test_no_text_is_too_long_or_too_strange():
    for text in (
        "a", " ", "\n- a", "file error chart ", "aB", "FooBar", "_a", "e.g.", "(", "not when ", "User: a\nError: b\n",
        "删除文件", "😀\0\ud800", "{}%s\\1(?P<",
    ):  # fmt: skip
        long = text * (20_000 // len(text))
        for asked in ((long, "", ALL), ("draw a chart", long, ALL), ("draw a chart", "", [long, *ALL])):
            assert all(0 <= each.score <= 1 for each in judged(*asked)), text


# How well
