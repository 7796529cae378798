"""`CompactionMiddleware` among others, over many turns and threads, and at the edges of its limits."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel, Field

from langchain_agentmem import CompactionMiddleware
from langchain_agentmem.compaction.graph_compactor import Compactor, ContextView
from langchain_agentmem.testing import provider_problems
from tests.compaction.summarizers import Summarizer, budget
from tests.compaction.test_middleware import (
    COUNTER,
    LARGE,
    SMALL,
    TALK,
    Refused,
    Scripted,
    aask,
    agent_of,
    ask,
    calling,
    count,
    long_talk,
    on,
    question,
    questions,
    texts,
)

pytestmark = pytest.mark.sqlite_suffices

MIDDLING = budget(4_000)


@tool
def report() -> str:
    """A long report."""
    return "One line of the report. " * 1_000


class TestTheView:
    def test_is_of_the_thread(self, memory):
        model = Scripted()
        agent = agent_of(memory, model)
        with ThreadPoolExecutor(4) as pool:
            for turn in range(12):
                list(pool.map(lambda n, turn=turn: ask(agent, 100 * n + turn, on(f"thread-{n}")), range(4)))
        for shown in model.shown:
            assert len({each[:10] for each in questions(shown)}) == 1, "never what was said in another thread"
        for n in range(4):
            assert questions(memory.conversation(f"thread-{n}").messages) == [
                f"question-{100 * n + turn:03}" for turn in range(12)
            ]

    def test_leaves_room_for_the_system_message_and_the_tools(self, memory):
        def spare(**options):
            model = Scripted()
            agent = agent_of(memory, model, MIDDLING, **options)
            for turn in range(12):
                ask(agent, turn, on(repr(options)[:50]))
            return not model.asked

        @tool
        def look(where: str) -> str:
            """Look."""
            return where

        look.description = TALK * 55

        class Answer(BaseModel):
            text: str = Field(description=TALK * 55)

        assert spare()
        assert not spare(system_prompt=TALK * 55)
        assert not spare(tools=[look])
        model = Scripted(lambda messages: calling("Answer", key=f"c{len(messages)}-", text="seven"))
        agent = agent_of(memory, model, MIDDLING, response_format=ToolStrategy(Answer))
        for turn in range(12):
            ask(agent, turn, on("answers"))
        assert model.asked


class TestTheWindow:
    def test_is_each_models_own(self, memory):
        small = Scripted(profile={"max_input_tokens": 1_000}, name_="small")
        large = Scripted(profile={"max_input_tokens": 200_000}, name_="large")

        class Choosing(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(model=large if "007" in request.messages[-1].text else small))

        agent = agent_of(memory, small, LARGE, middleware=[Choosing()])
        for turn in range(7):
            ask(agent, turn)
        ask(agent, 7)
        assert not large.asked
        for turn in range(8, 12):
            ask(agent, turn)
        assert small.asked
        assert all(COUNTER.count(shown) <= 1_000 for shown in small.shown)


class TestARefusal:
    def test_is_answered_twice(self, memory):
        def script(messages):
            return (
                "Thank you."
                if messages[-1].type == "tool"
                else calling("report")
                if "005" in messages[-1].text
                else "Yes."
            )

        model = Scripted(script, limit=1_500)
        agent = agent_of(memory, model, LARGE, tools=[report])
        long_talk(agent, 6)
        assert agent.get_state(on()).values["messages"][-1].text == "Thank you."
        first, second, third = model.shown[-3:]
        assert COUNTER.count(first) > COUNTER.count(second) > 1_500 >= COUNTER.count(third)
        assert not provider_problems(third)
        assert "One line of the report." in third[-1].text
        assert len(agent.get_state(on()).values["messages"][-2].text) == 24_000

    @pytest.mark.slow
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_in_unknown_words_is_answered_once_where_the_window_was_nearly_full(self, memory, awaited):
        def refuse(call):
            return Refused(400, "E17") if COUNTER.count(model.shown[-1]) > 1_500 else None

        model = Scripted(refuse=refuse)
        agent = agent_of(memory, model, LARGE, window=1_700)
        for turn in range(30):
            await aask(agent, turn) if awaited else ask(agent, turn)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1, "what was taken is remembered"

    @pytest.mark.slow
    @pytest.mark.parametrize(("window", "calls"), [(1_700, 2), (17_000, 1), (None, 1)])
    def test_in_unknown_words_is_raised_where_that_does_not_help_or_is_not_likely_to(self, memory, window, calls):
        errors = [Refused(422, "E17"), Refused(422, "E17")]
        model = Scripted()
        agent = agent_of(memory, model, LARGE, window=window)
        turn = 0
        while not model.shown or COUNTER.count(model.shown[-1]) < 1_450:
            ask(agent, turn)
            turn += 1
        before = len(model.shown)
        model.refuse = lambda call: errors[call - before - 1]
        with pytest.raises(Refused) as raised:
            ask(agent, turn)
        assert len(model.shown) == before + calls
        assert raised.value in errors
        model.refuse = None
        for later in range(turn + 1, turn + 20):
            ask(agent, later)
        assert max(map(COUNTER.count, model.shown[-19:])) > 1_400, "what never succeeded lowers nothing"

    def test_in_unknown_words_is_never_answered_twice(self, memory, monkeypatch):
        def smaller(compactor, messages, at, **more):
            return ContextView(messages[:1], 99)
            yield

        monkeypatch.setattr(Compactor, "smaller", smaller)
        model = Scripted(refuse=lambda call: Refused(400, "E17"))
        with pytest.raises(Refused):
            ask(agent_of(memory, model, LARGE, window=70), 0)
        assert len(model.shown) == 2

    def test_that_no_smaller_context_helped_lowers_nothing(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 11)
        model.refuse = lambda call: ContextOverflowError("no")
        with pytest.raises(ContextOverflowError):
            ask(agent, 11)
        model.refuse = None
        long_talk(agent, 30, 12)
        assert COUNTER.count(model.shown[-1]) > COUNTER.count(model.shown[11])

    def test_of_a_small_context_does_not_make_all_others_tiny(self, memory):
        model = Scripted(refuse=lambda call: ContextOverflowError("no") if call == 4 else None)
        agent = agent_of(memory, model, LARGE, system_prompt=TALK * 3)
        long_talk(agent, 20)
        assert COUNTER.count(model.shown[3][1:]) < 500 < max(COUNTER.count(shown[1:]) for shown in model.shown[4:])

    def test_of_what_is_small_already_allows_no_more_than_before(self, memory):
        refuse = {6: ContextOverflowError("no")}.get
        model = Scripted(lambda messages: "Seven.", refuse=refuse)
        agent = agent_of(memory, model, budget(430))
        long_talk(agent, 20)
        assert len(model.shown) == 21
        assert max(map(COUNTER.count, model.shown)) <= 430

    def test_followed_by_an_error_of_another_kind_passes_that_on(self, memory):
        answers = {8: ContextOverflowError("too much"), 9: Refused(429, "slower")}
        model = Scripted(refuse=answers.get)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 7)
        with pytest.raises(Refused, match="slower"):
            ask(agent, 7)
        assert len(model.shown) == 9


class TestAsAContextEdit:
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_it_puts_the_view_in_the_place_of_the_messages(self, memory, awaited):
        model = Scripted()
        edits = [ContextEditingMiddleware(edits=[CompactionMiddleware(memory, Summarizer(), SMALL)])]
        agent = create_agent(model, [], middleware=edits, checkpointer=memory.checkpointer)
        for turn in range(12):
            await aask(agent, turn) if awaited else ask(agent, turn)
            assert COUNTER.count(model.shown[-1]) <= 1_000
        assert len(questions(agent.get_state(on()).values["messages"])) == 12
        assert len(questions(memory.conversation("t").messages)) == 12, "the thread is that of the run"

    def test_by_hand_it_changes_the_list_and_no_message(self, memory):
        history = [each for turn in range(12) for each in (question(turn), AIMessage(f"answer {TALK}", id=f"a-{turn}"))]
        messages, before, nothing = list(history), deepcopy(history), []
        for given in (messages, nothing):
            CompactionMiddleware(memory, Summarizer(), SMALL).apply(given, count_tokens=len)
        assert len(messages) < len(history)
        assert (messages[0] is history[0], messages[-1] is history[-1]) == (True, True)
        assert (history, nothing) == (before, [])


class TestAmongOthers:
    @pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
    def test_structured_answers(self, memory, how):
        class Sum(BaseModel):
            apples: int

        model = Scripted(
            lambda messages: (
                calling("Sum", key=f"s{len(messages)}", apples=7) if how is ToolStrategy else '{"apples": 7}'
            )
        )
        agent = agent_of(memory, model, response_format=how(Sum))
        for turn in range(15):
            state = agent.invoke({"messages": [question(turn)]}, on())
            assert state["structured_response"] == Sum(apples=7)
            assert not provider_problems(model.shown[-1])
        assert model.asked

    def test_a_person_in_the_loop(self, memory):
        def script(messages):
            if messages[-1].type == "tool":
                return f"So many. {TALK}"
            return calling("count", key=f"{messages[-1].text[:12]}-", basket="A")

        model = Scripted(script)
        asking = HumanInTheLoopMiddleware(interrupt_on={"count": True})
        agent = agent_of(memory, model, tools=[count], after=[asking])
        for turn in range(8):
            assert agent.invoke({"messages": [question(turn)]}, on())["__interrupt__"]
            decision = {"type": "approve"} if turn % 2 else {"type": "reject", "message": "No."}
            state = agent.invoke(Command(resume={"decisions": [decision]}), on())
            assert state["messages"][-1].text.startswith("So many.")
            assert not provider_problems(model.shown[-1])
        assert model.asked
        assert len(questions(agent.get_state(on()).values["messages"])) == 8

    def test_what_others_do_beside_it_stays_theirs(self, memory):
        class Reminding(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(messages=[*request.messages, HumanMessage("Be quick!")]))

        model = Scripted()
        idle = SummarizationMiddleware(model, trigger=None)
        agent = agent_of(memory, model, middleware=[idle, TodoListMiddleware()], after=[Reminding()])
        long_talk(agent)
        assert model.asked
        assert all(not provider_problems(shown) for shown in model.shown)
        assert model.shown[-1][-1].text == "Be quick!"
        assert "Be quick!" not in texts(memory.conversation("t").messages), "what is added to the view is not recorded"

    def test_a_refusal_goes_before_retries_and_other_models(self, memory):
        model, other = Scripted(limit=1_500), Scripted(name_="other")
        retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
        agent = agent_of(memory, model, LARGE, middleware=[ModelFallbackMiddleware(other), retry])
        long_talk(agent, 15)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1
        assert not other.shown

    def test_an_agent_with_no_messages_yet(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, system_prompt="Begin.")
        agent.invoke({"messages": []}, on())
        assert model.shown == [[SystemMessage("Begin.")]]


def test_without_langchain_the_package_is_importable_and_the_middleware_says_what_to_install():
    program = (
        "import sys; sys.modules['langchain'] = None; import langchain_agentmem\n"
        "try: import langchain_agentmem.compaction.compaction_middleware\n"
        "except langchain_agentmem.MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'langchain-agentmem[agents]'" in done.stdout
