"""The original's four behaviours hold, and none of its faults T5 to T8 does."""

from __future__ import annotations

import itertools
import json
import os

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


class TestTheOriginalsBehaviours:
    def test_experiences_are_loaded(self, library):
        assert [each.exp_id for each in library.load()] == ["test-exp-1", "test-exp-2"]
        assert library.load()[0] == FIRST

    def test_a_model_selects(self, library):
        picky = Picky(["test-exp-2"])
        selection = library.selector(role="CodeInterpreter", model=picky).select(LOAD)
        assert selection.experiences == (SECOND,)
        assert SECOND.what in selection.section
        assert SECOND.when not in selection.section

    def test_roles_are_given_what_is_meant_for_them(self, library, shelf):
        picky = Picky(["test-exp-1", "test-exp-2", "test-exp-3"])
        assert library.selector(role="Planner", model=picky).select(PLOT).ids == ("test-exp-1",)
        assert picky.shown == ["test-exp-1"]
        shelf.write(Experience("test-exp-3", [], "Use always.", "Be kind."))
        assert set(library.selector(role="Planner", model=picky).select(PLOT).ids) == {"test-exp-1", "test-exp-3"}
        assert library.selector(role="WebSearch", model=picky).select(PLOT).ids == ("test-exp-3",)

    def test_nothing_is_injected_where_nothing_is_selected(self, library):
        selector = library.selector(role="Planner", model=Picky([]))
        selection = selector.select(PLOT)
        assert (selection.experiences, selection.section, selection.fell_back) == ((), "", "")
        assert selector.invoke({"input": PLOT}) == {"input": PLOT, "experiences": ""}


def both(one, two):
    return f'{{"test-exp-1": {one}, "test-exp-2": {two}}}'


class TestT5AnswersSayWhatTheySay:
    """The original took every quoted id of an answer in a code block for chosen, and any text for true."""

    def chosen(self, library, answer):
        selection = library.selector(model=lambda messages: answer).select(WEATHER)
        assert selection.fell_back == ""
        return sorted(each[-1] for each in selection.ids)

    @pytest.mark.parametrize(
        "frame", ["{}", "```json\n{}\n```", "```\n{}\n```", "Here it is:\n\n```json\n{}\n```\nDone.", "So: {} ."]
    )
    @pytest.mark.parametrize(
        ("answer", "chosen"),
        [
            (both("true", "false"), ["1"]),
            (both("false", "false"), []),
            (both("true", "true"), ["1", "2"]),
            (both('"true"', '"false"'), ["1"]),
            (both('"True"', '"False"'), ["1"]),
            (both("1", "0"), ["1"]),
            (both("null", "true"), ["2"]),
            ('["test-exp-2"]', ["2"]),
            ('["test-exp-2", "test-exp-2", "test-exp-1"]', ["1", "2"]),
            ("{}", []),
            ("[]", []),
        ],
    )
    def test_in_every_frame_false_is_false_and_text_is_read(self, library, frame, answer, chosen):
        assert self.chosen(library, frame.replace("{}", answer)) == chosen

    @pytest.mark.parametrize(
        ("answer", "chosen"),
        [
            ("test-exp-1", ["1"]),
            ("I would use test-exp-2 and test-exp-1.", ["1", "2"]),
            ("- test-exp-1: true\n- test-exp-2: false", ["1"]),
            ("test-exp-1 is not relevant.\ntest-exp-2 is.", ["2"]),
            ('"test-exp-1"', ["1"]),
            ("None of them applies.", []),
        ],
    )
    def test_plain_text_selects_what_it_names(self, library, answer, chosen):
        assert self.chosen(library, answer) == chosen

    def test_each_is_injected_once(self, library):
        model = Picky(lambda messages: '["test-exp-1", "test-exp-1"]')
        assert library.selector(model=model).invoke(PLOT).count(FIRST.what) == 1

    def test_an_id_within_another_is_not_named_by_it(self, library, shelf):
        shelf.write(Experience("test-exp-10", [], "Use never.", "Ten."))
        assert library.selector(model=lambda messages: "test-exp-10").select(WEATHER).ids == ("test-exp-10",)


class TestT6NoRoleIsGivenWhatIsMeantForAnother:
    """The original compared the answer with all experiences, not with those of the role."""

    @pytest.mark.parametrize(
        "answer",
        [both("true", "true"), '["test-exp-1", "test-exp-2"]', "test-exp-1, test-exp-2", '["nobody", "test-exp-1"]'],
    )
    def test_ids_of_other_roles_and_of_nobody_are_ignored(self, library, answer):
        selection = library.selector(role="Planner", model=lambda messages: answer).select(PLOT)
        assert selection.ids == ("test-exp-1",)
        assert selection.candidates == ("test-exp-1",)

    def test_without_a_model_the_same_holds(self, library):
        assert library.selector(role="Planner").select(f"{PLOT} {LOAD}").ids == ("test-exp-1",)

    def test_where_the_model_fails_the_same_holds(self, library):
        selector = library.selector(role="Planner", model=Picky(ValueError()))
        assert selector.select(f"{PLOT} {LOAD}").ids == ("test-exp-1",)


class TestT7EveryQueryIsSelectedFor:
    """The original selected once, and gave every later query the same."""

    def test_each_query_is_given_its_own(self, library):
        selector = library.selector()
        assert [selector.select(query).ids for query in (PLOT, LOAD, WEATHER, PLOT)] == [
            ("test-exp-1",), ("test-exp-2",), (), ("test-exp-1",)
        ]  # fmt: skip

    def test_a_model_is_asked_for_each(self, library):
        picky = Picky(lambda messages: json.dumps({"test-exp-1": "chart" in messages[1].text}))
        selector = library.selector(model=picky)
        assert [selector.select(query).ids for query in (LOAD, PLOT, LOAD)] == [(), ("test-exp-1",), ()]
        assert len(picky.asked) == 2

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

    def test_a_malformed_file_costs_only_itself(self, library, shelf):
        shelf.put("handcrafted_exp_bad.yaml", "exp_id: [\n\twhen: {")
        assert library.load() == [FIRST, SECOND]
        [problem] = library.validate().problems
        assert problem.path == "handcrafted_exp_bad.yaml"
        assert library.selector().select(PLOT).ids == ("test-exp-1",)

    @pytest.mark.parametrize("who", ["who: null", "who:", "who: ~", "who: []", ""])
    def test_null_for_the_roles_means_all(self, library, shelf, who):
        shelf.put(
            "handcrafted_exp_all.yaml", f"exp_id: all\n{who}\nwhen: Use when a chart or plot is wanted.\nwhat: x\n"
        )
        assert set(library.selector(role="Anybody").select(PLOT).ids) == {"all"}
        assert "all" in library.selector(role="Planner", model=Picky(["all"])).select(PLOT).ids

    @pytest.mark.parametrize(
        "answer", ['{"1": true}', '["1"]', "[1]", '```json\n{"1": true, "test-exp-1": false}\n```']
    )
    def test_a_number_as_an_id_is_found_in_an_answer(self, library, shelf, answer):
        shelf.put("handcrafted_exp_1.yaml", "exp_id: 1\nexperience_text: Use pandas.\n")
        selection = library.selector(model=lambda messages: answer).select(PLOT)
        assert [(each.exp_id, each.what) for each in selection.experiences] == [("1", "Use pandas.")]

    def test_which_duplicate_wins_is_no_accident_of_the_file_system(self, shelf, monkeypatch):
        for name in ("b", "a", "c"):
            text = Experience("same", [], "Use when deep.", f"From {name}.").to_yaml()
            shelf.put(f"handcrafted_exp_{name}.yaml", text)
        scan = os.scandir

        class Listed:
            def __init__(self, entries):
                self.entries = entries

            def __enter__(self):
                return iter(self.entries)

            def __exit__(self, *error):
                return None

        for order in itertools.islice(itertools.permutations(range(5)), 0, None, 17):
            entries = sorted(scan(shelf.path), key=lambda entry: entry.name)
            monkeypatch.setattr(os, "scandir", lambda path, e=[entries[place] for place in order]: Listed(e))
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
