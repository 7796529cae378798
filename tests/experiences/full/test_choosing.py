"""How well words choose, and what takes many experiences, bad files, processes or threads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from langchain_agentmem.experiences.experience import Folder
from langchain_agentmem.experiences.lexical_choice import THRESHOLD
from langchain_agentmem.experiences.model_choice import selected
from tests.experiences.test_answers import CASES, IDS
from tests.experiences.test_files import BAD, GOOD, written
from tests.experiences.test_lexical import CHART, chosen

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "experiences.py"


@pytest.fixture(scope="module")
def measures():
    spec = importlib.util.spec_from_file_location("benchmark_of_experiences", BENCHMARK)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_needle_is_found_among_a_thousand():
    conditions = [f"Use when appliance number {number} of the kitchen leaks." for number in range(999)]
    assert chosen("please draw a chart", conditions=[*conditions[:500], CHART, *conditions[500:]]) == [CHART]


@pytest.mark.slow
def test_words_are_as_good_as_measured_and_a_model_that_is_asked_what_they_leave_open_helps(measures):
    for name, f1, with_model in (("dev_a", 0.78, 0.9), ("dev_b", 0.6, 0.8), ("held_out", 0.57, 0.78)):
        labels = measures.labelled(name)
        assert measures.quality(measures.scored(measures.lexical, labels), labels, THRESHOLD).f1 > f1, name
        share, answered = measures.with_model(labels)
        assert share < 0.7, name
        assert measures.quality(answered, labels, THRESHOLD).f1 > with_model, name


@pytest.mark.timeout(60)  # what is quadratic takes many minutes
def test_takes_time_in_proportion_to_its_length():
    for piece in CASES["repeated"]:
        found = selected(piece * (8_000 // len(piece)), [*IDS, "1", "a"])
        assert found is None or set(found.chosen) <= {*IDS, "1", "a"}, piece


def test_each_is_reported_with_its_reason_and_the_others_load(shelf):
    shelf.put("handcrafted_exp_0.yaml", GOOD)
    for name, text in BAD.items():
        shelf.put(f"handcrafted_exp_{name}.yaml", text)
    shelf.put("handcrafted_exp_zz.yaml", b"\xef\xbb\xbf" + written("last").encode())  # with a mark of byte order
    look = Folder(shelf.path).look()
    assert [each.exp_id for each in look.experiences] == ["good", "last"]
    assert {problem.path for problem in look.problems} == {f"handcrafted_exp_{name}.yaml" for name in BAD}
    for problem in look.problems:
        assert not problem.is_loaded
        assert 10 < len(problem.reason) < 500, problem
        assert "\n" not in problem.reason
