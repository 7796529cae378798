"""`CompactionMiddleware` with other middleware, over many turns and threads, and at its limits."""

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
from langchain_agentmem.testing import provider_problems
from tests.compaction.summarizers import COUNTER, TALK, AgentModel, Summarizer, budget
from tests.compaction.test_middleware import (
    LARGE,
    SMALL,
    Refused,
    agent_of,
    ask,
    count,
    expected_questions,
    long_talk,
    question,
    questions,
    texts,
)
from tests.support.graphs import at
from tests.support.models import calling

pytestmark = pytest.mark.sqlite_suffices


@tool
def report() -> str:
    """A long report."""
    return "One line of the report. " * 1_000


class TestView:
    def test_view_holds_only_messages_of_its_thread(self, memory):
        model = AgentModel()
        agent = agent_of(memory, model)
        with ThreadPoolExecutor(4) as pool:
            for turn in range(12):
                list(pool.map(lambda n, turn=turn: ask(agent, 100 * n + turn, at(f"thread-{n}")), range(4)))
        assert all(len({each[:10] for each in questions(shown)}) == 1 for shown in model.asked)
        for n in range(4):
            said = questions(memory.conversation(f"thread-{n}").messages)
            assert said == [f"question-{100 * n + turn:03}" for turn in range(12)]

    def test_system_message_and_tools_count_toward_the_budget(self, memory):
        @tool(description=TALK * 55)
        def look(where: str) -> str:
            return where

        class Answer(BaseModel):
            text: str = Field(description=TALK * 55)

        def answer(messages):
            return calling("Answer", f"c{len(messages)}", text="seven")

        for number, (options, script, compacted) in enumerate(
            (
                ({}, None, False),
                ({"system_prompt": TALK * 55}, None, True),
                ({"tools": [look]}, None, True),
                ({"response_format": ToolStrategy(Answer)}, answer, True),
            )
        ):
            model = AgentModel(script)
            long_talk(agent_of(memory, model, budget(4_000), **options), config=at(f"t{number}"))
            assert bool(model.summarizer.asked) == compacted, number

    def test_view_fits_the_window_of_each_model(self, memory):
        small = AgentModel(profile={"max_input_tokens": 1_000}, kind="small")
        large = AgentModel(profile={"max_input_tokens": 200_000}, kind="large")

        class Choosing(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(model=large if "007" in request.messages[-1].text else small))

        long_talk(agent_of(memory, small, LARGE, middleware=[Choosing()]))
        assert (bool(small.summarizer.asked), large.summarizer.asked, len(large.asked)) == (True, [], 1)
        assert all(COUNTER.count(shown) <= 1_000 for shown in small.asked)


class TestContextOverflow:
    def test_overflow_is_retried_up_to_two_times(self, memory):
        def script(messages):
            if messages[-1].type == "tool":
                return "Thank you."
            return calling("report") if "005" in messages[-1].text else "Yes."

        model = AgentModel(script, limit=1_500)
        agent = agent_of(memory, model, LARGE, tools=[report])
        long_talk(agent, 6)
        *_, result, thanks = agent.get_state(at()).values["messages"]
        assert (thanks.text, len(result.text)) == ("Thank you.", 24_000)
        first, second, third = model.asked[-3:]
        assert COUNTER.count(first) > COUNTER.count(second) > 1_500 >= COUNTER.count(third)
        assert not provider_problems(third)
        assert "One line of the report." in third[-1].text

    @pytest.mark.parametrize(("window", "calls"), [(1_700, 2), (17_000, 1), (None, 1)])
    async def test_unclear_error_retries_once_near_the_window(self, memory, do, window, calls):
        model = AgentModel()
        agent = agent_of(memory, model, LARGE, window=window)
        history = [each for turn in range(11) for each in (question(turn), AIMessage(f"answer {TALK}", id=f"a-{turn}"))]
        agent.update_state(at(), {"messages": history})
        model.refuse = lambda call: Refused(400, "E17")
        with pytest.raises(Refused):
            await do(agent, "invoke", {"messages": [question(11)]}, at())
        assert len(model.asked) == calls, "never twice"
        model.refuse = None
        long_talk(agent, 24, 12)
        assert max(map(COUNTER.count, model.asked[calls:])) > 1_400, "what never succeeded lowers nothing"

    def test_overflow_of_small_context_keeps_later_views_large(self, memory):
        model = AgentModel(refuse={4: ContextOverflowError("no")}.get)
        long_talk(agent_of(memory, model, LARGE, system_prompt=TALK * 3), 20)
        assert COUNTER.count(model.asked[3][1:]) < 500 < max(COUNTER.count(shown[1:]) for shown in model.asked[4:])


class TestContextEdit:
    async def test_edit_replaces_messages_with_the_view(self, memory, do):
        model = AgentModel()
        edits = [ContextEditingMiddleware(edits=[CompactionMiddleware(memory, Summarizer(), SMALL)])]
        agent = create_agent(model, [], middleware=edits, checkpointer=memory.checkpointer)
        for turn in range(12):
            await do(agent, "invoke", {"messages": [question(turn)]}, at())
            assert COUNTER.count(model.asked[-1]) <= 1_000
        assert questions(agent.get_state(at()).values["messages"]) == expected_questions(12)
        assert len(questions(memory.conversation("t").messages)) == 12, "the thread is that of the run"

    def test_apply_changes_the_list_but_no_message(self, memory):
        history = [each for turn in range(12) for each in (question(turn), AIMessage(f"answer {TALK}", id=f"a-{turn}"))]
        messages, before, nothing = list(history), deepcopy(history), []
        for given in (messages, nothing):
            CompactionMiddleware(memory, Summarizer(), SMALL).apply(given, count_tokens=len)
        assert len(messages) < len(history)
        assert (messages[0] is history[0], messages[-1] is history[-1]) == (True, True)
        assert (history, nothing) == (before, [])


class TestOtherMiddleware:
    @pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
    def test_structured_output_works_with_compaction(self, memory, how):
        class Sum(BaseModel):
            apples: int

        def script(messages):
            return calling("Sum", f"s{len(messages)}", apples=7) if how is ToolStrategy else '{"apples": 7}'

        model = AgentModel(script)
        agent = agent_of(memory, model, response_format=how(Sum))
        for turn in range(15):
            state = agent.invoke({"messages": [question(turn)]}, at())
            assert state["structured_response"] == Sum(apples=7)
            assert not provider_problems(model.asked[-1])
        assert model.summarizer.asked

    def test_human_in_the_loop_works_with_compaction(self, memory):
        def script(messages):
            if messages[-1].type == "tool":
                return f"So many. {TALK}"
            return calling("count", messages[-1].text[:12], basket="A")

        model = AgentModel(script)
        asking = HumanInTheLoopMiddleware(interrupt_on={"count": True})
        agent = agent_of(memory, model, tools=[count], after=[asking])
        for turn in range(8):
            assert agent.invoke({"messages": [question(turn)]}, at())["__interrupt__"]
            decision = {"type": "approve"} if turn % 2 else {"type": "reject", "message": "No."}
            state = agent.invoke(Command(resume={"decisions": [decision]}), at())
            assert state["messages"][-1].text.startswith("So many.")
            assert not provider_problems(model.asked[-1])
        assert model.summarizer.asked
        assert questions(agent.get_state(at()).values["messages"]) == expected_questions(8)

    def test_changes_of_other_middleware_are_kept_unrecorded(self, memory):
        class Reminding(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(messages=[*request.messages, HumanMessage("Be quick!")]))

        model = AgentModel()
        idle = SummarizationMiddleware(model, trigger=None)
        long_talk(agent_of(memory, model, middleware=[idle, TodoListMiddleware()], after=[Reminding()]))
        assert model.summarizer.asked
        assert all(not provider_problems(shown) for shown in model.asked)
        assert model.asked[-1][-1].text == "Be quick!"
        assert "Be quick!" not in texts(memory.conversation("t").messages), "what is added to the view is not recorded"

    def test_overflow_is_handled_before_retries_and_fallbacks(self, memory):
        model, other = AgentModel(limit=1_500), AgentModel(kind="other")
        retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
        long_talk(agent_of(memory, model, LARGE, middleware=[ModelFallbackMiddleware(other), retry]), 15)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.asked) == 1
        assert not other.asked

    def test_agent_without_messages_gets_the_system_prompt(self, memory):
        model = AgentModel()
        agent_of(memory, model, system_prompt="Begin.").invoke({"messages": []}, at())
        assert model.asked == [[SystemMessage("Begin.")]]


def test_middleware_without_langchain_names_the_extra():
    program = (
        "import sys; sys.modules['langchain'] = None; import langchain_agentmem\n"
        "try: import langchain_agentmem.compaction.compaction_middleware\n"
        "except langchain_agentmem.MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'langchain-agentmem[agents]'" in done.stdout
