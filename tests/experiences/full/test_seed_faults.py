"""Faults T6 and T8 of the original; its T5 and T7 are in test_answers.py and test_selector.py."""

from __future__ import annotations

import itertools
import os
from contextlib import nullcontext

import pytest

from langchain_agentmem import Experience
from langchain_agentmem.experiences.experience import Folder
from tests.experiences.conftest import LOAD, PLOT, WEATHER, Picky

FIRST = Experience(
    "test-exp-1", ["Planner", "CodeInterpreter"], "Use when a chart or plot is wanted.", "Label the axes."
)
SECOND = Experience("test-exp-2", ["CodeInterpreter"], "Use for a file operation.", "Check that it exists.")


@pytest.fixture
def shelf(shelf):
    shelf.write(FIRST, SECOND)
    return shelf


@pytest.fixture
def library(quick, shelf):
    return quick.experiences(shelf.path)


def both(one, two):
    return f'{{"test-exp-1": {one}, "test-exp-2": {two}}}'


class TestT6NoRoleIsGivenWhatIsMeantForAnother:
    """The original compared the answer with all experiences, not with those of the role."""

    def test_ids_of_other_roles_and_of_nobody_are_ignored(self, library):
        answers = [
            both("true", "true"),
            '["test-exp-1", "test-exp-2"]',
            "test-exp-1, test-exp-2",
            '["nobody", "test-exp-1"]',
        ]
        for answer in [*answers, ValueError(), None]:  # a model that fails, and none
            model = None if answer is None else Picky(lambda messages, answer=answer: answer)
            selection = library.selector(role="Planner", model=model).select(f"{PLOT} {LOAD}")
            assert selection.ids == selection.candidates == ("test-exp-1",), answer

    def test_an_id_within_another_is_not_named_by_it(self, library, shelf):
        shelf.write(Experience("test-exp-10", [], "Use never.", "Ten."))
        assert library.selector(model=lambda messages: "test-exp-10").select(WEATHER).ids == ("test-exp-10",)


class TestT8FilesAreReadAsTheyAre:
    """The original let one bad file end the load, and read the folder once."""

    def test_which_duplicate_wins_is_no_accident_of_the_file_system(self, shelf, monkeypatch):
        for name in ("b", "a", "c"):
            text = Experience("same", [], "Use when deep.", f"From {name}.").to_yaml()
            shelf.put(f"handcrafted_exp_{name}.yaml", text)
        entries = sorted(os.scandir(shelf.path), key=lambda entry: entry.name)
        for order in itertools.islice(itertools.permutations(entries), 0, None, 17):
            monkeypatch.setattr(os, "scandir", lambda path, order=order: nullcontext(iter(order)))
            look = Folder(shelf.path).look()
            assert [each.what for each in look.experiences] == ["From a.", FIRST.what, SECOND.what]
            assert [problem.path for problem in look.problems] == ["handcrafted_exp_b.yaml", "handcrafted_exp_c.yaml"]

    def test_edits_and_deletions_count_from_the_next_selection(self, library, shelf):
        selector = library.selector(model=Picky(["test-exp-1", "test-exp-2", "new"]))
        assert selector.select(PLOT).ids == ("test-exp-1", "test-exp-2")
        shelf.write(Experience("test-exp-1", (), FIRST.when, "Use no axes."))
        assert selector.select(PLOT).experiences[0].what == "Use no axes."
        (shelf.path / "handcrafted_exp_test-exp-1.yaml").unlink()
        shelf.write(Experience("new", (), "Use when new.", "New."))
        assert set(selector.select(PLOT).ids) == {"new", "test-exp-2"}
        assert FIRST.what not in selector.invoke(PLOT)
