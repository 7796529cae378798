"""Quality of lexical selection; tests with many experiences, bad files, processes or threads."""

import importlib
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from langchain_agentmem.experiences.experience import ExperienceFolder
from langchain_agentmem.experiences.lexical_choice import THRESHOLD, score_conditions
from langchain_agentmem.experiences.model_choice import read_selection
from tests.experiences.test_answers import CASES, IDS
from tests.experiences.test_files import BAD, GOOD, experience_yaml
from tests.experiences.test_lexical import ALL, CHART, ERROR, chosen
from tests.forking import ENVIRONMENT


@pytest.fixture(scope="module")
def measures():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield importlib.import_module("experiences")


def test_one_match_among_a_thousand_is_selected():
    conditions = [f"Use when appliance number {number} of the kitchen leaks." for number in range(999)]
    assert chosen("please draw a chart", conditions=[*conditions[:500], CHART, *conditions[500:]]) == [CHART]


@pytest.mark.slow
def test_selection_quality_meets_the_benchmark(measures):
    for name, f1, precision, quiet, with_model in (
        ("dev_a", 0.78, 0.83, 0.8, 0.9),
        ("dev_b", 0.6, 0.6, 0.5, 0.8),
        ("held_out", 0.57, 0.59, 0.57, 0.78),
        ("related", 0.76, 0.87, 0.6, 0.9),
    ):
        labels = measures.labelled(name)
        scores = measures.scored(measures.lexical, labels)
        found = measures.quality(scores, labels, THRESHOLD)
        assert found.f1 > f1, name
        assert found.precision > precision, name
        unrelated = [row for row, query in zip(scores, labels.queries, strict=True) if not any(query.expected)]
        assert sum(max(row) < THRESHOLD for row in unrelated) >= quiet * len(unrelated) > 0, name
        plain = measures.scored(measures.bm25, labels)
        assert found.f1 > measures.quality(plain, labels, measures.best_threshold(plain, labels)).f1, name
        share, answered = measures.with_model(labels)
        assert share < 0.7, name
        assert measures.quality(answered, labels, THRESHOLD).f1 > with_model, name


def test_selection_is_deterministic_across_processes():
    asked = ("file not found error, pod restarting, undo commits, draw a chart, billed twice", ERROR, ALL)
    program = (
        "import json, sys; from langchain_agentmem.experiences.lexical_choice import score_conditions\n"
        "scores = score_conditions(*json.loads(sys.argv[1]))\n"
        "print(json.dumps([[each.score, list(each.terms.items())] for each in scores]))"
    )
    here = [[each.score, [list(term) for term in each.terms.items()]] for each in score_conditions(*asked)]
    for seed in "12":
        command = [sys.executable, "-c", program, json.dumps(asked)]
        found = subprocess.check_output(command, env=ENVIRONMENT | {"PYTHONHASHSEED": seed})
        assert json.loads(found) == here, seed


def test_threads_never_read_partial_files(shelf):
    folder, done = ExperienceFolder(shelf.path), threading.Event()
    shelf.put("handcrafted_exp_a.yaml", experience_yaml("a", "Do. " * 100))

    def edit():
        for number in range(60):
            temporary = shelf.put("new", experience_yaml("a", f"Do {number}. " * 50))
            temporary.replace(shelf.path / "handcrafted_exp_a.yaml")
        done.set()

    def look():
        seen, over = [], False
        while not over:
            over, found = done.is_set(), folder.read()
            seen += [(len(each.what.split()), found.problems) for each in found.experiences]
        return seen

    with ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look) for _ in range(3)]
        pool.submit(edit).result()
        assert all({*each.result()} == {(100, ())} for each in looking)


@pytest.mark.timeout(60)  # what is quadratic takes many minutes
def test_parsing_time_is_linear():
    for piece in CASES["repeated"]:
        found = read_selection(piece * (8_000 // len(piece)), [*IDS, "1", "a"])
        assert found is None or set(found) <= {*IDS, "1", "a"}, piece


def test_each_bad_file_is_reported_with_its_reason(shelf):
    shelf.put("handcrafted_exp_0.yaml", GOOD)
    for name, text in BAD.items():
        shelf.put(f"handcrafted_exp_{name}.yaml", text)
    shelf.put(
        "handcrafted_exp_zz.yaml", b"\xef\xbb\xbf" + experience_yaml("last").encode()
    )  # with a mark of byte order
    look = ExperienceFolder(shelf.path).read()
    assert [each.exp_id for each in look.experiences] == ["good", "last"]
    assert {problem.path for problem in look.problems} == {f"handcrafted_exp_{name}.yaml" for name in BAD}
    for problem in look.problems:
        assert not problem.is_loaded
        assert 10 < len(problem.reason) < 500, problem
        assert "\n" not in problem.reason
