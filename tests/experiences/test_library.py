"""`ExperienceLibrary`: what a folder holds, and how its experiences fare."""

from __future__ import annotations

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, Experience, ExperienceLibrary
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import section
from langchain_agentmem.experiences.experience_part import Tally

from .conftest import CHARTS, FILES, LOAD, PLOT, REFUNDS, WEATHER, Picky

pytestmark = pytest.mark.sqlite_suffices

REFUND = "A customer wants a refund."


def at(*labels, thread=None):
    configurable = {} if thread is None else {"thread_id": thread}
    return {"configurable": {**configurable, "agentmem_namespace": labels}}


def verdicts(library):
    return {usage.exp_id: usage.verdict for usage in library.report()}


class TestWhatItHolds:
    async def test_it_loads_what_the_folder_holds(self, library):
        assert library.load() == await library.aload() == [CHARTS, FILES, REFUNDS]
        assert library.validate() == await library.avalidate()
        assert library.validate().ok

    def test_it_opens_a_database_of_its_own(self, filled, url):
        library = ExperienceLibrary(url, str(filled.path))
        assert library.load() == [CHARTS, FILES, REFUNDS]
        assert library.directory == filled.path
        assert str(filled.path) in repr(library)

    def test_a_check_tells_bad_files_from_strange_ones(self, library, filled):
        filled.put("handcrafted_exp_typo.yaml", REFUNDS.to_yaml().replace("refunds", "typo") + "whom: all\n")
        check = library.validate()
        assert check.ok
        assert [problem.path for problem in check.problems] == ["handcrafted_exp_typo.yaml"]
        assert "typo" in {each.exp_id for each in check.experiences}
        filled.put("handcrafted_exp_bad.yaml", "{")
        check = library.validate()
        assert not check.ok
        assert [problem.path for problem in check.problems] == ["handcrafted_exp_bad.yaml", "handcrafted_exp_typo.yaml"]

    async def test_a_file_that_cannot_be_used_is_logged_once_however_experiences_are_loaded(
        self, library, filled, caplog
    ):
        bad = "exp_id: bad\nwhen: Use when asked to: refund\nwhat: Open a ticket.\n"
        filled.put("bad.yaml", bad)
        filled.put("mine/worse.yml", "{")
        filled.put("handcrafted_exp_typo.yaml", REFUNDS.to_yaml().replace("refunds", "typo") + "whom: all\n")
        library.validate()
        assert caplog.messages == []  # it returns what is wrong
        for _ in range(3):
            library.load()
            await library.aload()
            library.selector().select(LOAD)
            ExperienceLibrary(library.database, filled.path).load()
        [told] = caplog.messages
        assert str(filled.path) in told
        assert "bad.yaml: It is not YAML" in told
        library.load("mine")
        filled.put("bad.yaml", bad.replace("exp_id: bad\n", ""))
        library.load()
        assert ["worse.yml" in told for told in caplog.messages] == [False, True, False]

    def test_folders_below_can_be_read_alone(self, library, filled):
        filled.write(Experience("deep", [], "Use when deep.", "Dig."), below="mine/")
        assert [each.exp_id for each in library.load("mine")] == ["deep"]
        assert "deep" not in {each.exp_id for each in library.load()}
        assert [each.exp_id for each in library.load("mine/../mine/.")] == ["deep"]

    @pytest.mark.parametrize(
        "path",
        ["..", "mine/../..", "/", "/etc", "nowhere", "", "a\0b", "link", "x" * 5_000, 3, "handcrafted_exp_files.yaml"],
    )
    def test_a_path_that_leaves_it_or_is_not_there_is_refused(self, library, filled, path):
        (filled.path / "mine").mkdir()
        (filled.path / "link").symlink_to(filled.path.parent, target_is_directory=True)
        for look in (library.load, library.validate):
            with pytest.raises(InvalidInput):
                look(path)

    @pytest.mark.parametrize(
        ("directory", "options"),
        [
            ("nowhere", {}),
            ("", {}),
            (3, {}),
            (None, {}),
            ("x" * 5_000, {}),
            (".", {"subfolders": 1}),
            (".", {"namespace": 3}),
        ],
    )
    def test_wrong_arguments_are_refused(self, quick, tmp_path, directory, options):
        given = tmp_path / directory if directory in (".", "nowhere") else directory
        with pytest.raises(InvalidInput):
            quick.experiences(given, **options)

    def test_an_experience_can_be_added(self, library):
        new = Experience("a: b/../c ä", ["Planner"], "Use when:\n- it rains", "{Take} a 'coat'\t\n")
        path = library.add(new)
        assert path.parent == library.directory
        assert new in library.load()
        assert library.validate().problems == ()

    async def test_one_that_is_there_is_not_overwritten(self, library, filled):
        before = {path: path.read_bytes() for path in filled.path.iterdir()}
        with pytest.raises(InvalidInput, match=r"'files'.*handcrafted_exp_files\.yaml"):
            library.add(FILES)
        with pytest.raises(InvalidInput):
            await library.aadd({"exp_id": "a"})
        assert {path: path.read_bytes() for path in filled.path.iterdir()} == before
        (filled.path / "handcrafted_exp_other.yaml").write_text("{")
        path = library.add(Experience("other", (), "b", "c"))
        assert path.name == "handcrafted_exp_other-2.yaml"
        assert (filled.path / "handcrafted_exp_other.yaml").read_text() == "{"

    @pytest.mark.parametrize("exp_id", ["../../x", ".", "..", "/", "con", "ä" * 200, "\u202e", "a\\b", "*", "~"])
    def test_an_id_names_no_file_elsewhere(self, library, filled, exp_id):
        path = library.add(Experience(exp_id, (), "b", "c"))
        assert path.parent == filled.path
        assert path.resolve().parent == filled.path.resolve()
        assert exp_id in {each.exp_id for each in library.load()}


class TestHowTheyFare:
    @pytest.fixture
    def library(self, memory, filled):
        return memory.experiences(filled.path)

    def test_selections_are_counted(self, library):
        selector = library.selector()
        for query in (PLOT, PLOT, LOAD):
            selector.invoke(query)
        tallies = {usage.exp_id: usage.tally for usage in library.report()}
        assert [(each.considered, each.chosen) for each in tallies.values()] == [(3, 2), (3, 1), (3, 0)]
        assert list(tallies) == ["charts", "files", "refunds"]
        assert tallies["refunds"].last_chosen_at is None
        assert tallies["charts"].last_chosen_at < tallies["files"].last_chosen_at

    def test_only_candidates_are_counted(self, library):
        library.selector(role="Planner").invoke(PLOT)
        assert verdicts(library) == {"charts": "no feedback", "files": "never considered", "refunds": "never applies"}

    async def test_a_report_shows_what_helps_and_what_does_not(self, library):
        library.selector().invoke(f"{PLOT} {LOAD} {REFUND}")
        library.feedback("charts", helped=True, note="The axes were labelled.")
        library.feedback("files", helped=False, note="It was there.")
        await library.afeedback("refunds", helped=True)
        await library.afeedback("refunds", helped=False)
        assert verdicts(library) == {"charts": "helps", "files": "hurts", "refunds": "disputed"}
        assert library.report() == await library.areport()
        [said] = library.report()[0].notes
        assert (said.exp_id, said.helped, said.note) == ("charts", True, "The axes were labelled.")

    def test_a_report_shows_the_newest_notes(self, library):
        for number in range(9):
            library.feedback("files", helped=True, note=str(number))
        [notes] = [usage.notes for usage in library.report() if usage.exp_id == "files"]
        assert [said.note for said in notes] == ["8", "7", "6", "5", "4"]

    def test_what_the_folder_has_no_more_stands_at_the_end(self, library, filled):
        library.feedback("charts", helped=True)
        (filled.path / "handcrafted_exp_charts.yaml").unlink()
        *_, last = library.report()
        assert (last.exp_id, last.is_there, last.tally.helped) == ("charts", False, 1)
        assert all(usage.is_there for usage in library.report()[:-1])
        with pytest.raises(InvalidInput, match="'charts'"):
            library.feedback("charts", helped=True)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("nobody", True), "'nobody'.*'charts', 'files', 'refunds'"),
            (("", True), "id"),
            ((None, True), "id"),
            (("files", 1), "True or False"),
            (("files", "yes"), "True or False"),
            (("files", None), "True or False"),
            (("files", True, 3), "note"),
            (("files", True, "", ""), "conversation"),
        ],
    )
    async def test_wrong_feedback_is_refused(self, library, arguments, said):
        with pytest.raises(InvalidInput, match=said):
            library.feedback(*arguments)
        with pytest.raises(InvalidInput, match=said):
            await library.afeedback(*arguments)
        assert all(usage.tally == Tally() for usage in library.report())

    def test_feedback_on_what_a_session_chose_from_its_own_folder_is_kept(self, library, filled):
        filled.write(Experience("deep", [], "Use when deep.", "Dig."), below="mine/")
        library.feedback("deep", helped=True)
        [usage] = [usage for usage in library.report() if usage.exp_id == "deep"]
        assert usage.is_there
        assert usage.tally.helped == 1

    def test_feedback_is_ones_own_and_that_of_namespaces_below(self, memory, filled):
        for labels in (("acme",), ("acme", "ada"), ("other",)):
            memory.experiences(filled.path, labels).feedback("files", helped=True)
        helped = {
            labels: next(
                usage.tally.helped
                for usage in memory.experiences(filled.path, labels).report()
                if usage.exp_id == "files"
            )
            for labels in ((), ("acme",), ("acme", "ada"), ("other",), ("acme", "eve"))
        }
        assert helped == {(): 3, ("acme",): 2, ("acme", "ada"): 1, ("other",): 1, ("acme", "eve"): 0}

    async def test_the_database_tells_without_the_folder(self, memory, filled):
        library = memory.experiences(filled.path, ("acme",))
        library.feedback("files", helped=True, note="It was not there.")
        library.selector().select(PLOT)
        there = {usage.exp_id: usage for usage in memory.experience_report()}
        assert there == {usage.exp_id: usage._replace(is_there=None) for usage in library.report()}
        assert memory.experience_report(("acme",)) == await memory.aexperience_report() == list(there.values())
        assert memory.experience_report(("other",)) == memory.within(("other",)).experience_report() == []
        with pytest.raises(InvalidInput, match="acme"):
            memory.experience_report("acme")

    def test_selections_count_where_the_run_belongs(self, memory, filled):
        selector = memory.experiences(filled.path).selector()
        selector.invoke(PLOT, at("acme"))
        counted = {
            labels: memory.experiences(filled.path, labels).report()[0].tally.chosen
            for labels in ((), ("acme",), ("other",))
        }
        assert counted == {(): 1, ("acme",): 1, ("other",): 0}
        memory.experiences(filled.path, ("mine",)).selector().invoke(PLOT, at("acme"))
        assert memory.experiences(filled.path, ("mine",)).report()[0].tally.chosen == 1

    def test_in_a_run_the_thread_is_noted_and_erased_with_it(self, memory, library):
        def node(state):
            library.feedback("files", helped=False, note="secret")

        builder = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
        graph = builder.compile(checkpointer=memory.checkpointer)
        graph.invoke({"messages": ["hello"]}, {"configurable": {"thread_id": "t"}})
        library.feedback("files", helped=False, note="kept", conversation_id="c")
        notes = {said.note: said.conversation_id for usage in library.report() for said in usage.notes}
        assert notes == {"secret": "t", "kept": "c"}


class TestRanking:
    """Three conditions that say the same, so that only feedback tells them apart."""

    @pytest.fixture
    def alike(self, quick, shelf):
        shelf.write(*(Experience(name, (), "Use when a chart is wanted.", f"Do {name}.") for name in "abc"))
        return quick.experiences(shelf.path)

    def test_among_equals_the_order_is_that_of_the_library(self, alike):
        assert alike.selector(threshold=0.01).select(PLOT).ids == ("a", "b", "c")

    def test_what_helped_comes_first_and_what_did_not_last(self, alike):
        selector = alike.selector(threshold=0.01)
        alike.feedback("a", helped=False)
        alike.feedback("c", helped=True)
        assert selector.select(PLOT).ids == ("c", "b", "a")
        assert alike.selector(max_selected=1, threshold=0.01).select(PLOT).ids == ("c",)
        scores = selector.select(PLOT).scores
        assert scores["c"] > scores["b"] > scores["a"] > 0

    def test_it_decides_the_order_for_a_model_too(self, alike):
        alike.feedback("c", helped=True)
        picky = Picky(["a", "c"])
        assert alike.selector(model=picky).select(PLOT).ids == ("c", "a")
        assert picky.shown == ["a", "b", "c"]

    def test_more_reports_count_more_and_never_too_much(self, alike):
        selector = alike.selector(threshold=0)
        before = selector.select(PLOT).scores["a"]
        scores = []
        for _ in range(20):
            alike.feedback("a", helped=False)
            scores.append(selector.select(PLOT).scores["a"])
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 0.9 * before
        assert 0.75 * before <= scores[-1] < scores[0]

    def test_what_has_nothing_in_common_is_not_chosen_however_much_it_helped(self, alike):
        for _ in range(20):
            alike.feedback("a", helped=True)
        assert alike.selector().select(WEATHER).ids == ()

    def test_feedback_of_others_does_not_count(self, quick, alike):
        quick.experiences(alike.directory, ("other",)).feedback("c", helped=True)
        assert alike.selector(threshold=0.01).select(PLOT, config=at("mine")).ids == ("a", "b", "c")
        assert alike.selector(threshold=0.01).select(PLOT, config=at("other")).ids == ("c", "a", "b")

    def test_a_database_that_fails_costs_the_feedback_and_not_the_selection(self, filled, caplog):
        memory = AgentMemory(":memory:")
        selector = memory.experiences(filled.path).selector()
        memory.close()
        assert section([CHARTS]) in selector.invoke(PLOT)
        assert selector.invoke(WEATHER) == WEATHER
        assert [record.message.split(".")[0] for record in caplog.records if "xperiences" in record.message] == [
            "Experiences are selected without feedback", "Which experiences are chosen is not counted"
        ]  # fmt: skip
