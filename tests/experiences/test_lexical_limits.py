"""Lexical selection: that no text breaks it, that it always says the same, and how often it is right."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE, judged

FILES = "Use when user requests file operations (read, write, rename, delete) or FileNotFoundError occurred."
CHART = "Use when a chart or any other visualization is to be drawn."
GIT = "Use when the user wants to undo commits or resolve merge conflicts."
ALL = (
    FILES,
    "Customer wants their money back, disputes a charge, or was billed twice.",
    CHART,
    "A pod keeps restarting, is in CrashLoopBackOff, or a service runs out of memory.",
    GIT,
)
ERROR = "Error: FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'"
BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "experiences.py"


def chosen(query, context="", conditions=ALL):
    found = judged(query, context, conditions)
    return [condition for condition, each in zip(conditions, found, strict=True) if each.score >= THRESHOLD]


@pytest.fixture(scope="module")
def measures():
    spec = importlib.util.spec_from_file_location("benchmark_of_experiences", BENCHMARK)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


# Whatever is asked


def test_no_conditions_give_no_scores_and_empty_texts_score_zero():
    assert judged("draw a chart", "", []) == []
    assert [each.score for each in judged("", "", ["", " ", CHART])] == [0, 0, 0]
    assert [each.score for each in judged("chart", "", ["", "\n", CHART])][:2] == [0, 0]


def test_there_is_one_score_for_each_condition_in_their_order():
    shuffled = list(ALL) * 200
    random.Random(3).shuffle(shuffled)
    expected = {each: judged("draw a chart of commits", "", shuffled)[shuffled.index(each)] for each in ALL}
    found = judged("draw a chart of commits", "", shuffled)
    assert [each.score for each in found] == [expected[each].score for each in shuffled]
    assert [each for each, one in zip(shuffled, found, strict=True) if one.score > 0] == [
        each for each in shuffled if each in {CHART, GIT}
    ]


def test_a_needle_is_found_among_a_thousand():
    conditions = [f"Use when appliance number {number} of the kitchen leaks." for number in range(999)]
    assert chosen("please draw a chart", conditions=[*conditions[:500], CHART, *conditions[500:]]) == [CHART]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        " " * 100_000,
        "\n" * 100_000 + "- a",
        "file error chart " * 6_000,
        "aB" * 50_000,
        "FooBar" * 16_000,
        "_a" * 50_000,
        "e.g." * 25_000,
        "(" * 100_000,
        "not when " * 11_000,
        "unless except " * 7_000,
        "User: a\nError: b\n" * 6_000,
        "删除文件" * 25_000,
        "😀\0\ud800" * 30_000,
        "{}%s\\1(?P<" * 10_000,
    ],
    ids=range(15),
)
def test_no_text_is_too_long_or_too_strange(text):
    for found in (
        judged(text, "", ALL),
        judged("draw a chart", text, ALL),
        judged("draw a chart", "", [text, *ALL]),
    ):
        assert all(0 <= each.score <= 1 for each in found)


def test_the_end_of_a_long_query_is_read():
    assert CHART in chosen("x = 1\n" * 20_000 + "Draw me a chart of that")


def test_the_same_question_gets_the_same_answer_in_every_process():
    asked = ("file not found error, pod restarting, undo commits, draw a chart, billed twice", ERROR, ALL)
    code = (
        "import json, sys; from langchain_agentmem.experiences.lexical_choice import judged\n"
        "print(json.dumps([[each.score, list(each.terms.items())] for each in judged(*json.loads(sys.argv[1]))]))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)],
        env=os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"},
        check=True,
        capture_output=True,
        text=True,
    )
    here = [[each.score, [list(term) for term in each.terms.items()]] for each in judged(*asked)]
    assert json.loads(other.stdout) == here


def test_the_threshold_is_where_it_is_unsure():
    assert 0 < UNSURE[0] < THRESHOLD < UNSURE[1] < 1


# How well


@pytest.mark.parametrize(
    ("name", "f1", "precision"), [("dev_a", 0.77, 0.83), ("dev_b", 0.6, 0.61), ("held_out", 0.59, 0.62)]
)
def test_it_is_as_good_as_measured(measures, name, f1, precision):
    labels = measures.labelled(name)
    found = measures.quality(measures.scored(measures.lexical, labels), labels, THRESHOLD)
    plain = measures.scored(measures.bm25, labels)
    assert found.f1 > f1
    assert found.precision > precision
    assert found.f1 > measures.quality(plain, labels, measures.best_threshold(plain, labels)).f1 * 1.04


def test_a_model_that_is_asked_where_the_words_are_unsure_changes_only_that(measures):
    labels = measures.labelled("dev_b")
    scores = measures.scored(measures.lexical, labels)
    share, answered = measures.with_model(scores, labels)
    low, below = UNSURE
    assert 0 < share < 1
    assert measures.quality(answered, labels, THRESHOLD).f1 > measures.quality(scores, labels, THRESHOLD).f1
    for row, other, query in zip(scores, answered, labels.queries, strict=True):
        assert other == [
            applies if low <= score < below else score for score, applies in zip(row, query.expected, strict=True)
        ]
