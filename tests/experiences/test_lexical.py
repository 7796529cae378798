"""Lexical selection: scores of conditions for a query, and their quality."""

import pytest

from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE_RANGE, mark_best, score_conditions

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
    return score_conditions(query, context, [condition, *(each for each in others if each != condition)])[0].score


def chosen(query, context="", conditions=ALL):
    found = score_conditions(query, context, conditions)
    return [
        condition
        for condition, each, leads in zip(conditions, found, mark_best(found), strict=True)
        if leads and each.score >= THRESHOLD
    ]


# What it says


def test_matching_conditions_are_selected():
    for query, expected in {
        "delete the old logs folder and rename that file": [FILES],
        "you billed me twice, I want my money back": [REFUND],
        "draw a bar chart": [CHART],
        "my pod keeps restarting": [POD],
        "there is a merge conflict": [GIT],
        "draw a chart of the refunds where we billed somebody twice": [REFUND, CHART],
        "who wrote Middlemarch?": [],
        "book two seats on the night train to Vienna": [],
        "my personal trainer recommends more sleep": [],
        "translate this letter into Dutch": [],
    }.items():
        assert chosen(query) == expected, query


def test_unrelated_condition_scores_zero_without_reasons():
    for each in score_conditions("who painted the night watch?", "User: hello\nExecution: done", ALL):
        assert each == (0.0, {})


def test_phrasing_words_score_zero():
    assert all(
        each.score == 0 for each in score_conditions("When the user asks for help, use it if they want to.", "", ALL)
    )


def test_words_sharing_a_phrasing_stem_still_score():
    assert score("my personal things", "A person mentions personal data.") > score(
        "a person", "A person mentions data."
    )
    assert score("important imports", "An import fails.") > THRESHOLD / 2


def test_common_word_alone_is_below_threshold():
    assert 0 < score("what day is it in Peru?", "Use for questions about the opening day of the shop.") < THRESHOLD


def test_rare_words_score_more_than_common_ones():
    conditions = [f"The customer has a question about {thing}." for thing in ("toasters", "kettles", "lamps", "fans")]
    customer, kettle = score_conditions("customer", "", conditions)[1], score_conditions("kettle", "", conditions)[1]
    assert customer.score < kettle.score
    assert kettle.score >= THRESHOLD


def test_reasons_are_original_words_summing_to_the_score():
    found = score_conditions("Draw charts, I was billed twice", "", ALL)
    assert set(found[2].terms) >= {"draw", "charts"}
    assert {"billed", "twice"} <= set(found[1].terms)
    for each in found:
        assert sum(each.terms.values()) == pytest.approx(each.score)


def test_one_situation_of_several_suffices():
    many = "Use when:\n- a kettle leaks\n- the toaster smokes\n- a lamp flickers\n- the oven door sticks"
    assert chosen("my lamp flickers", conditions=(many, REFUND, GIT)) == [many]


def test_better_matching_condition_is_selected():
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


def test_best_of_related_conditions_is_selected():
    for many in range(1, len(REFUNDS) + 1):
        related = (*REFUNDS[:many], *ALL)
        assert chosen("I want a refund", conditions=related) == [REFUNDS[0]], many
        if many > 1:
            assert chosen("I want a refund for a damaged item", conditions=related) == [REFUNDS[1]], many


# How words are spelled


def test_spelling_variants_match():
    for query, condition in TEXTS["spellings"]:
        assert score(query, condition, others=(REFUND, GIT)) >= UNSURE_RANGE[0], query


def test_error_name_scores_more_than_its_words():
    assert score("FileNotFoundError", FILES) > score("the file", FILES)


def test_other_languages_match_by_words():
    for query, condition in TEXTS["languages"]:
        first, *others = score_conditions(query, "", (condition, *ALL))
        assert first.score > 0.3, query
        assert all(each.score == 0 for each in others), query
    assert score("환불해 주세요", "고객이 환불을 요청할 때") > 0


# What speaks against


def test_exclusions_lower_the_score():
    for denial in TEXTS["denials"]:
        condition, plain = f"Use when tests fail. {denial}", "Use when tests fail."
        assert score("my tests fail", condition) >= THRESHOLD, denial
        assert score("our A/B tests", condition) < min(THRESHOLD, score("our A/B tests", plain)), denial
    assert score("our surveys", "Use when tests fail. Not for surveys.") == 0


def test_exclusion_ends_with_its_sentence_or_list():
    for query, condition in (
        ("sort the kettles", "Not for lamps. Use for kettles."),
        ("sort the kettles", "Not for:\n- lamps\n\nUse for kettles."),
        ("the printer does not print", "Use when the printer does not print."),
        ("I want to avoid luggage fees", "Use when somebody wants to avoid luggage fees."),
    ):
        assert score(query, condition) >= THRESHOLD, query


# What went before


def test_error_name_after_long_traceback_is_found():
    frames = "\n".join(f'  File "/srv/step{number}.py", line {number}, in run' for number in range(2_000))
    context = f"User: go\nError: Traceback (most recent call last):\n{frames}\nFileNotFoundError: gone"
    assert FILES in chosen("and now?", context)


def test_context_counts_when_the_query_continues_it():
    drawn, failed = "User: draw a chart\nExecution: done", f"User: draw a chart\n{ERROR}"
    for query, context, expected in (
        ("thank you, that worked", f"User: read it\n{ERROR}\nUser: never mind\nExecution: ok", []),
        ("try again", f"User: read it\n{ERROR}\nUser: try again", [FILES]),
        ("do it again", "User: go on\nExecution: draw a chart", []),
        ("the same once more", drawn, [CHART]),
        ("no, check its colours first", drawn, [CHART]),
        ("undo those commits", drawn, [GIT]),
        ("great, now tell me a joke about penguins", failed, []),
        ("do that again", failed, [FILES, CHART]),
    ):
        assert chosen(query, context) == expected, query


# Whatever is asked


def test_empty_input_scores_zero():
    assert score_conditions("draw a chart", "", []) == []
    assert [each.score for each in score_conditions("", "", ["", " ", CHART])] == [0, 0, 0]
    assert [each.score for each in score_conditions("chart", "", ["", "\n", CHART])][:2] == [0, 0]


def test_long_and_unusual_texts_are_scored():
    for text in (
        "a", " ", "\n- a", "file error chart ", "aB", "FooBar", "_a", "e.g.", "(", "not when ", "User: a\nError: b\n",
        "删除文件", "😀\0\ud800", "{}%s\\1(?P<",
    ):  # fmt: skip
        long = text * (20_000 // len(text))
        for asked in ((long, "", ALL), ("draw a chart", long, ALL), ("draw a chart", "", [long, *ALL])):
            assert all(0 <= each.score <= 1 for each in score_conditions(*asked)), text
