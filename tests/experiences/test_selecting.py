"""Selection strategies (lexical, model, auto), the context of a session, and prompt logs."""

import asyncio
import json
import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory, Experience, ExperienceSelector
from langchain_agentmem.base.events import ExperienceSelectionFellBack
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.lexical_choice import UNSURE_RANGE
from langchain_agentmem.experiences.model_choice import SelectionTemplate
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, SharedMemoryEntry
from tests.support.graphs import at, line
from tests.support.models import calling
from tests.support.waiting import cancelled

from .conftest import CHARTS, FILES, LOAD, PLOT, REFUNDS, SelectingModel

pytestmark = pytest.mark.sqlite_suffices

ALL = ("charts", "files", "refunds")
NO_FILE = "FileNotFoundError: sales.csv"


def fell_back(events):
    return [event for event in events if isinstance(event, ExperienceSelectionFellBack)]


@pytest.fixture
def unsure(monkeypatch):
    """Makes scores between these two unsure for "auto"."""
    return lambda low, high: monkeypatch.setattr(
        "langchain_agentmem.experiences.experience_library.UNSURE_RANGE", (low, high)
    )


class TestLexicalStrategy:
    def test_matching_experience_is_selected_with_reason(self, library):
        selection = library.selector().select(PLOT)
        assert selection.experiences == (CHARTS,)
        assert (selection.query, selection.strategy, selection.candidates) == (PLOT, "lexical", ALL)
        assert selection.asked == ()
        assert selection.fell_back == ""
        assert "chart" in selection.reasons["charts"]
        assert selection.scores["charts"] > selection.scores["refunds"] == 0

    def test_selection_needs_no_namespace(self, library):
        with AgentMemory(":memory:", namespace=("users", "{user_id}")) as memory:
            assert memory.experiences(library.directory).selector().select(PLOT).ids == ("charts",)

    def test_empty_query_selects_nothing(self, library):
        for query in ("", " \n", []):
            picky = SelectingModel(ALL)
            selection = library.selector(model=picky).select(query)
            assert (selection.ids, selection.candidates, picky.asked) == ((), ALL, [])

    def test_max_selected_keeps_the_best(self, library):
        both = library.selector().select(f"{PLOT} {LOAD}")
        assert set(both.ids) == {"charts", "files"}
        assert library.selector(max_selected=1).select(f"{PLOT} {LOAD}").ids == both.ids[:1]

    def test_context_error_affects_selection(self, library):
        selector = library.selector()
        assert selector.select("Go on.", context=f"User: Load it.\nExecution: FAILURE\nError: {NO_FILE}").ids == (
            "files",
        )
        assert selector.select("Go on.", context="").ids == ()


class TestModelStrategy:
    def test_model_sees_only_conditions_and_context(self, library):
        picky = SelectingModel(["files"])
        selection = library.selector(model=picky).select(LOAD, context="User: Load it.\nExecution: SUCCESS")
        assert selection.ids == ("files",)
        assert (selection.strategy, selection.asked) == ("model", ALL)
        [[system, human]] = picky.asked
        assert isinstance(system, SystemMessage)
        assert isinstance(human, HumanMessage)
        assert human.content == f"Select relevant experiences for: {LOAD}"
        for number, each in enumerate((CHARTS, FILES, REFUNDS), 1):
            assert f"--- Experience {number} (ID: {each.exp_id}) ---\n{each.when}" in system.text
            assert each.what not in system.text
        assert "\n\nConversation Context:\nUser: Load it.\nExecution: SUCCESS" in system.text

    async def test_every_kind_of_model_is_accepted(self, library, do):
        async def awaited(messages):
            await asyncio.sleep(0)
            return AIMessage('{"files": true}')

        models = [
            lambda messages: '```json\n{"files": true, "charts": false}\n```',
            lambda messages: AIMessage([{"type": "text", "text": '["files"]'}]),
            RunnableLambda(lambda messages: {"content": "x"} and '{"files": "true"}'),
            awaited,
        ]
        for model in models:
            selector = library.selector(model=model)
            selection = await do(selector, "select", LOAD)
            assert (selection.ids, selection.fell_back) == (("files",), "")

    def test_template_can_be_replaced(self, library):
        picky = SelectingModel([])
        template = "{{literal}} {experiences} | {user_query} | {context}{context}"
        library.selector(model=picky, template=template).select("a {b} {{c}}", context="{d}")
        text = picky.asked[0][0].text
        assert text.startswith("{literal} --- Experience 1")
        assert text.endswith(" | a {b} {{c}} | \n\nConversation Context:\n{d}\n\nConversation Context:\n{d}")
        library.selector(model=picky, template=SelectionTemplate("{experiences}")).select("x")
        assert picky.asked[1][0].text.startswith("--- Experience 1")

    def test_role_never_gets_experiences_of_others(self, library):
        for answer in ('["charts", "files", "nobody"]', "charts, files", RuntimeError("down"), None):
            model = None if answer is None else SelectingModel(lambda messages, answer=answer: answer)
            selection = library.selector(role="Planner", model=model).select(f"{PLOT} {LOAD}")
            assert (selection.ids, selection.candidates) == (("charts",), ("charts", "refunds")), answer

    def test_max_selected_keeps_best_lexical_scores(self, library):
        assert library.selector(model=SelectingModel(ALL), max_selected=1).select(LOAD).ids == ("files",)


class TestCache:
    def test_repeated_question_is_answered_from_cache(self, library):
        picky = SelectingModel(["files"])
        selector = library.selector(model=picky)
        assert {selector.select(LOAD).ids for _ in range(3)} == {("files",)}
        assert asyncio.run(selector.aselect(LOAD)).ids == ("files",)
        assert len(picky.asked) == 1

    def test_changed_query_context_or_condition_asks_again(self, library, filled):
        picky = SelectingModel(["files"])
        selector = library.selector(model=picky)
        selector.select(LOAD)
        selector.select(PLOT)
        selector.select(LOAD, context="User: Hello")
        for each in (
            Experience("files", FILES.who, "Use when about files.", FILES.what),
            Experience("new", (), "New.", "N."),
        ):
            filled.write(each)
            selector.select(LOAD)
        (filled.path / "handcrafted_exp_charts.yaml").unlink()
        selector.select(LOAD)
        assert len(picky.asked) == 6

    def test_edited_instruction_is_used_without_asking(self, library, filled):
        picky = SelectingModel(["files"])
        selector = library.selector(model=picky)
        selector.select(LOAD)
        filled.write(Experience("files", FILES.who, FILES.when, "Something else."))
        assert [each.what for each in selector.select(LOAD).experiences] == ["Something else."]
        assert len(picky.asked) == 1

    def test_failure_is_not_cached(self, library):
        answers = iter([RuntimeError("down"), "What?", '["refunds"]'])
        selector = library.selector(model=SelectingModel(lambda messages: next(answers)))
        assert [selector.select(LOAD).ids for _ in range(4)] == [("files",), ("files",), ("refunds",), ("refunds",)]

    def test_cache_size_is_limited(self, library, monkeypatch):
        monkeypatch.setattr("langchain_agentmem.experiences.experience_library._CACHE_SIZE", 5)
        picky = SelectingModel([])
        selector = library.selector(model=picky)
        for number in range(6):
            selector.select(f"{number}")
        selector.select("5")
        assert len(picky.asked) == 6
        selector.select("0")
        assert len(picky.asked) == 7


class TestAutoStrategy:
    def test_clear_scores_skip_the_model(self, library, unsure):
        unsure(0.001, 0.002)
        picky = SelectingModel(["refunds"])
        selection = library.selector(model=picky, strategy="auto").select(PLOT)
        assert (selection.ids, selection.asked, picky.asked) == (("charts",), (), [])

    def test_only_unsure_candidates_are_asked_about(self, library, unsure):
        both = f"A chart. {LOAD}"
        score = library.selector().select(both).scores["charts"]
        unsure(score, score + 1e-9)
        for said, chosen in ((["charts"], {"charts", "files"}), ([], {"files"}), (["files", "refunds"], {"files"})):
            picky = SelectingModel(said)
            selection = library.selector(model=picky, strategy="auto").select(both)
            assert set(selection.ids) == chosen
            assert (selection.asked, picky.shown) == (("charts",), ["charts"])

    def test_good_match_beside_better_one_is_asked_about(self, shelf, in_memory):
        """Of related ones the words choose the best; whether others are meant as well, a model knows better."""
        vases = Experience("vases", [], "For a damaged vase.", "Ask for a picture.")
        murano = Experience("murano", [], "For a damaged vase from Murano with a crack.", "Ask for the certificate.")
        shelf.write(vases, murano)
        library = in_memory.experiences(shelf.path)
        query = "My vase from Murano is damaged, it has a crack."
        words = library.selector().select(query)
        assert words.ids == ("murano",)
        assert words.scores["vases"] > UNSURE_RANGE[1]
        picky = SelectingModel(["vases"])
        selection = library.selector(model=picky, strategy="auto").select(query)
        assert (selection.ids, picky.shown) == (("murano", "vases"), ["vases"])


NO_ANSWERS = (
    (ValueError("secret"), "The model failed: ValueError."),
    *((said, "parsed") for said in ("", "I am sorry, I cannot help with that.", "<html>502 Bad Gateway</html>")),
    *((said, "unknown ids") for said in ('{"nobody": true}', '["exp_99"]', "[1]")),  # of which nobody knows the ids
)


class TestFallback:
    async def test_failed_model_falls_back_with_an_event(self, library, events, do):
        for answer, reason in NO_ANSWERS:
            events.clear()
            picky = SelectingModel(lambda messages, answer=answer: answer)
            selection = await do(library.selector(role="Planner", model=picky), "select", PLOT)
            assert selection.ids == ("charts",)
            assert reason in selection.fell_back
            [event] = fell_back(events)
            assert (event.role, event.query, event.reason) == ("Planner", PLOT, selection.fell_back)
            assert event.error is (answer if isinstance(answer, ValueError) else None)
            assert "secret" not in event.reason
            assert len(picky.asked) == 1 or reason != "unknown ids"

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_hanging_model_times_out(self, library, events, asynchronous):
        released = threading.Event()

        async def hang(messages):
            await asyncio.to_thread(released.wait)

        model = hang if asynchronous else lambda messages: released.wait()
        selector = library.selector(model=model, timeout=0.05)
        try:
            selection = await selector.aselect(PLOT) if asynchronous else selector.select(PLOT)
        finally:
            released.set()
        assert selection.ids == ("charts",)
        assert isinstance(fell_back(events)[0].error, TimeoutError)

    def test_cancellation_is_not_a_failure(self, library, events):
        async def given_up():
            begun = asyncio.Event()

            async def hang(messages):
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(library.selector(model=hang).aselect(PLOT))
            await begun.wait()
            await cancelled(task)

        asyncio.run(given_up())
        assert fell_back(events) == []

    def test_truncated_answer_falls_back(self, library, events):
        picky = SelectingModel(lambda messages: '{"files": true, "charts": fa')
        assert library.selector(model=picky).select(PLOT).ids == ("charts",)
        assert len(fell_back(events)) == 1


WRONG = {
    "role": [3], "model": [3], "strategy": ["best", "model", "auto"], "template": ["", "no place", 3],
    "max_selected": [0, True, 1.5], "timeout": [-1, "soon", float("inf")], "session": [3, "s"], "query": ["input"],
    "enabled": ["yes", None],
}  # fmt: skip


class TestOptions:
    def test_invalid_options_are_rejected_when_built(self, library):
        for name, value in ((name, value) for name, values in WRONG.items() for value in values):
            with pytest.raises(InvalidInput):
                ExperienceSelector(library, **{"role": "Planner", name: value})

    def test_strategy_defaults_by_model_presence(self, library):
        assert library.selector().strategy == "lexical"
        assert library.selector(model=SelectingModel()).strategy == "model"
        picky = SelectingModel(["refunds"])
        selector = library.selector(model=picky, strategy="lexical")
        assert (selector.strategy, selector.select(PLOT).ids, picky.asked) == ("lexical", ("charts",), [])

    @pytest.mark.parametrize("on", [True, False])
    async def test_selector_can_be_disabled(self, library, on):
        picky = SelectingModel(["charts"])
        selector = library.selector(role="Planner", model=picky, enabled=on)
        assert (selector.invoke(PLOT) != PLOT) is on
        assert (await selector.ainvoke(PLOT) != PLOT) is on
        assert selector.invoke({"input": PLOT})["experiences"] == (selector.select(PLOT).section if on else "")
        assert bool(picky.asked) is on


class TestOriginalConfig:
    def test_four_original_keys_are_applied(self, library, tmp_path):
        (tmp_path / "prompt.yaml").write_text("content: 'MINE {experiences} {user_query} {context}'\n")
        config = {
            "planner.use_experience": True,
            "code_generator.use_experience": False,
            "experience.selection_prompt_path": str(tmp_path / "prompt.yaml"),
            "experience.llm_alias": "fast",
        }
        fast = SelectingModel(["charts"])
        planner = ExperienceSelector.from_config(config, library, role="Planner", models={"fast": fast})
        assert planner.select(PLOT).ids == ("charts",)
        assert fast.asked[0][0].text.startswith("MINE --- Experience 1 (ID: charts) ---")
        for role in ("CodeInterpreter", "CodeGenerator", "code_generator", "WebExplorer"):
            selector = ExperienceSelector.from_config(config, library, role=role, models={"fast": fast})
            assert not selector.enabled
            assert selector.role == role

    def test_code_interpreter_uses_code_generator_keys(self, library):
        for role in ("CodeInterpreter", "CodeGenerator", "code_generator", "Code Interpreter", "Web"):
            own = ("web" if role == "Web" else "code_generator") + ".use_experience"
            for key in ("code_generator.use_experience", "web.use_experience", "nothing"):
                selector = ExperienceSelector.from_config({key: True}, library, role=role)
                assert selector.enabled is (key == own), (role, key)

    def test_invalid_config_is_rejected_when_built(self, library):
        fast = {"experience.llm_alias": "fast"}
        for config, options in (
            ([], {}), ({"planner.use_experience": "yes"}, {}), (fast, {}), ({"experience.llm_alias": 3}, {}),
            (fast, {"models": {"slow": SelectingModel()}}), (fast, {"models": {"fast": 3}}), ({}, {"models": [3]}),
            ({"experience.selection_prompt_path": "/nowhere/prompt.yaml"}, {}), ({}, {"role": ""}), ({},
            {"role": None}),
            ({"experience.selection_prompt_path": 3}, {}), ({}, {"nonsense": 1}),
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                ExperienceSelector.from_config(config, library, **{"role": "Planner", **options})


def add_rounds(session, *rounds, state="finished"):
    """Write rounds: a query, to whom it went, and attachments."""
    for query, role, *attachments in rounds:
        made = session.create_round(query)
        session.add_post(made.id, send_from="User", send_to="Planner", message=query)
        if attachments:
            session.add_post(made.id, send_from=role, send_to="User", message="done", attachments=attachments)
        if state == "failed":
            session.fail_round(made.id)
        else:
            session.finish_round(made.id)


def status(text):
    return Attachment.create(AttachmentType.execution_status, text)


def error(text):
    return Attachment.create(AttachmentType.code_error, text)


def sub_path(path, scope="conversation"):
    return Attachment.create(
        AttachmentType.shared_memory_entry, "", extra=SharedMemoryEntry.create("experience_sub_path", scope, path)
    )


class TestSessionContext:
    @pytest.fixture
    def session(self, memory):
        return memory.session("s")

    @pytest.fixture
    def library(self, memory, filled):
        return memory.experiences(filled.path)

    async def test_context_has_last_three_rounds_of_role(self, library, session):
        add_rounds(
            session, ("one", "CodeInterpreter", status("SUCCESS")), ("two", "CodeInterpreter", status("SUCCESS"))
        )
        add_rounds(session, ("dead", "CodeInterpreter", error("boom")), state="failed")
        add_rounds(session, ("three", "Planner", error("hidden")))
        add_rounds(session, ("four", "CodeInterpreter", status("FAILURE"), error("line 1\n  FileNotFoundError: x")))
        context = (
            "User: two\nExecution: SUCCESS\nUser: three\nUser: four\n"
            "Execution: FAILURE\nError: line 1 FileNotFoundError: x"
        )
        for given in (session, lambda config: session):
            picky = SelectingModel([])
            selector = library.selector(role="CodeInterpreter", model=picky, session=given)
            selector.select(PLOT)
            await selector.aselect(f"{PLOT} again")
            for [system, _] in picky.asked:
                assert system.text.count("Conversation Context:") == 1
                assert f"Conversation Context:\n{context}" in system.text

    def test_last_question_replaces_an_empty_query(self, library, session):
        add_rounds(session, (PLOT, "Planner"))
        selector = library.selector(session=session)
        assert selector.select("").query == PLOT
        assert selector.invoke({"style": "a", "tone": "b"})["experiences"] == selector.select(PLOT).section != ""

    def test_round_scoped_entry_ends_with_its_round(self, library, session, filled):
        filled.write(Experience("deep", (), "Use when a chart is wanted.", "Dig."), below="mine/")
        selector = library.selector(session=session)
        add_rounds(session, ("dig", "Planner", sub_path(" mine\n", "round")))
        assert selector.select(PLOT).candidates == ("deep",)
        add_rounds(session, ("hello", "Planner"))
        assert selector.select(PLOT).candidates == ALL

    async def test_sub_path_outside_the_library_is_rejected(self, library, session, filled):
        filled.write(Experience("deep", (), "Use when a chart is wanted.", "Dig."), below="mine/")
        selector = library.selector(session=session)
        for path in ("..", "../experience/..", "/etc", "nowhere", "mine/../../x"):
            add_rounds(session, ("dig", "Planner", sub_path(path)))
            with pytest.raises(InvalidInput, match="older"):
                selector.select(PLOT)
            with pytest.raises(InvalidInput, match="older"):
                await selector.ainvoke(PLOT)
        with pytest.raises(InvalidInput, match="SessionMemory"):
            library.selector(session=lambda config: "s").select(PLOT)

    async def test_each_thread_has_its_own_context(self, memory, library, filled, do):
        filled.write(Experience("deep", (), "Use when a chart is wanted.", "Dig."), below="mine/")
        selector = library.selector(role="CodeInterpreter", session=memory.session)
        seen = []

        def work(state, config):
            attachments = [sub_path("mine")] if "dig" in state["messages"][-1].text else [error(NO_FILE)]
            add_rounds(memory.session(config), (state["messages"][-1].text, "CodeInterpreter", *attachments))

        async def select(state, config):
            seen.append(await do(selector, "select", "Go on: chart or plot", config=config))

        graph = line(memory.checkpointer, work, select)
        for thread, text in (("one", "load"), ("two", "dig")):
            await graph.ainvoke({"messages": [HumanMessage(text)]}, at(thread))
        assert [each.candidates for each in seen] == [("files", "refunds"), ("deep",)]
        assert seen[0].ids == ("files",)


class TestMessageContext:
    def test_only_tool_failures_enter_the_context(self, library):
        history = [
            *(HumanMessage("zero"), HumanMessage("one"), AIMessage("answer"), HumanMessage("two")),
            *(calling("load", "c"), ToolMessage("went well", tool_call_id="c"), HumanMessage("Go on.")),
            *(calling("load", "d"), ToolMessage(NO_FILE, tool_call_id="d", status="error")),
        ]
        picky = SelectingModel(["files"])
        assert library.selector(model=picky).select(history).query == "Go on."
        told = f"User: one\nUser: two\nUser: Go on.\nExecution: FAILURE\nError: {NO_FILE}"
        assert f"Conversation Context:\n{told}" in picky.asked[0][0].text
        assert library.selector().select(history).ids == ("files",)
        assert library.selector().select(history[:-2]).ids == ()


class TestPromptLogs:
    def test_selection_prompt_log_keeps_main_log(self, library, tmp_path):
        main = tmp_path / "planner_prompt_log_0_1.json"
        main.write_text("mine")
        picky = SelectingModel([])
        query = "half \ud83d a { } \x00"
        library.selector(role="Planner", model=picky).select(query, prompt_log_path=main)
        logged = json.loads((tmp_path / "planner_experience_selection_log_0_1.json").read_text())
        assert [each["role"] for each in logged] == ["system", "user"]
        assert logged[1]["content"] == f"Select relevant experiences for: {query}"
        assert main.read_text() == "mine"
        with pytest.raises(InvalidInput, match="prompt_log"):
            library.selector(model=picky).select("x", prompt_log_path=tmp_path / "other.json")

    @pytest.mark.parametrize("where", ["file/logs", "file"])
    async def test_unwritable_log_does_not_fail_selection(self, library, tmp_path, caplog, where):
        (tmp_path / "file").write_text("")
        selector = library.selector(model=SelectingModel(["files"]))
        log = tmp_path / where / "prompt_log.json"
        assert selector.select(PLOT, prompt_log_path=log).ids == ("files",)
        assert (await selector.aselect(LOAD, prompt_log_path=log)).ids == ("files",)
        assert [record.message for record in caplog.records] == [
            "The prompt of a selection cannot be logged. This is logged once."
        ]
