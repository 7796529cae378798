"""The original's four behaviours hold, and none of its faults T5 to T8 does."""

from __future__ import annotations

import itertools
import os
from contextlib import nullcontext

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import Experience
from langchain_agentmem.experiences.experience import Folder
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, SharedMemoryEntry
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


class TestT5AnswersSayWhatTheySay:
    """The original took every quoted id of an answer in a code block for chosen, and any text for true."""

    def chosen(self, library, answer):
        selection = library.selector(model=lambda messages: answer).select(WEATHER)
        assert selection.fell_back == ""
        return sorted(each[-1] for each in selection.ids)

    def test_in_every_frame_false_is_false_and_text_is_read(self, library):
        frames = ("{}", "```json\n{}\n```", "```\n{}\n```", "Here it is:\n\n```json\n{}\n```\nDone.", "So: {} .")
        answers = {
            both("true", "false"): "1", both("false", "false"): "", both("true", "true"): "12", both('"true"',
            '"false"'): "1",
            both('"True"', '"False"'): "1", both("1", "0"): "1", both("null", "true"): "2", '["test-exp-2"]': "2",
            '["test-exp-2", "test-exp-2", "test-exp-1"]': "12", "{}": "", "[]": "",
        }  # fmt: skip
        for frame, (answer, chosen) in itertools.product(frames, answers.items()):
            assert self.chosen(library, frame.replace("{}", answer)) == [*chosen], (frame, answer)

    def test_plain_text_selects_what_it_names(self, library):
        for answer, chosen in {
            "test-exp-1": "1", "I would use test-exp-2 and test-exp-1.": "12",
            "- test-exp-1: true\n- test-exp-2: false": "1",
            "test-exp-1 is not relevant.\ntest-exp-2 is.": "2", '"test-exp-1"': "1", "None of them applies.": "",
        }.items():  # fmt: skip
            assert self.chosen(library, answer) == [*chosen], answer

    def test_an_id_within_another_is_not_named_by_it(self, library, shelf):
        shelf.write(Experience("test-exp-10", [], "Use never.", "Ten."))
        assert library.selector(model=lambda messages: "test-exp-10").select(WEATHER).ids == ("test-exp-10",)


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


class TestT7EveryQueryIsSelectedFor:
    """The original selected once, and gave every later query the same."""

    def test_in_one_conversation_too(self, library):
        selector = library.selector()
        history = []
        for query, expected in ((PLOT, FIRST), (LOAD, SECOND), (WEATHER, None)):
            history = selector.invoke([*history, HumanMessage(query)])
            told = [each.what for each in (FIRST, SECOND) if any(each.what in message.text for message in history)]
            assert told == ([] if expected is None else [expected.what])
            history = [*history, AIMessage("done")]


class TestT8FilesAreReadAsTheyAre:
    """The original let one bad file end the load, and read the folder once."""

    def test_null_for_the_roles_means_all(self, library, shelf):
        for number, who in enumerate(["who: null", "who:", "who: ~", "who: []", ""]):
            when = "Use when a chart or plot is wanted."
            shelf.put(f"handcrafted_exp_{number}.yaml", f"exp_id: all{number}\n{who}\nwhen: {when}\nwhat: x\n")
        every = {f"all{number}" for number in range(5)}
        assert set(library.selector(role="Anybody").select(PLOT).ids) == every
        assert every <= set(library.selector(role="Planner", model=Picky(every)).select(PLOT).ids)

    def test_a_number_as_an_id_is_found_in_an_answer(self, library, shelf):
        shelf.put("handcrafted_exp_1.yaml", "exp_id: 1\nexperience_text: Use pandas.\n")
        for answer in ('{"1": true}', '["1"]', "[1]", '```json\n{"1": true, "test-exp-1": false}\n```'):
            selection = library.selector(model=Picky(answer)).select(PLOT)
            assert [(each.exp_id, each.what) for each in selection.experiences] == [("1", "Use pandas.")], answer

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

    def test_a_new_sub_path_counts_from_the_next_selection(self, library, quick, shelf):
        for name in ("one", "two"):
            shelf.write(Experience(name, (), "Use when a chart or plot is wanted.", f"Do {name}."), below=f"{name}/")
        session = quick.session("s")
        selector = library.selector(session=session)
        seen = [selector.select(PLOT).ids]
        for name in ("one", "two"):
            made = session.create_round(PLOT)
            entry = SharedMemoryEntry.create("experience_sub_path", "conversation", name)
            session.add_post(
                made.id, send_from="Planner", send_to="User", message="x",
                attachments=[Attachment.create(AttachmentType.shared_memory_entry, "", extra=entry)],
            )  # fmt: skip
            seen.append(selector.select(PLOT).ids)
        assert seen == [("test-exp-1",), ("one",), ("two",)]
