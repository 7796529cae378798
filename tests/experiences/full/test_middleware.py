"""`ExperienceMiddleware` gives instructions to the agent's model and not to its state."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_tool_call
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from langchain_agentmem import ExperienceMiddleware
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import section
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.testing import assert_valid_for_providers
from tests.experiences.conftest import CHARTS, FILES, PLOT, SelectingModel
from tests.support.graphs import at
from tests.support.models import ScriptedModel, calling, kinds_shown, look

pytestmark = pytest.mark.sqlite_suffices


@tool
def load(name: str) -> str:
    """Load a file."""
    raise FileNotFoundError(name)


class TestModelRequest:
    def test_instructions_reach_the_model_not_the_state(self, memory, filled):
        model = ScriptedModel(calling("look", place="here"), AIMessage("a chart"))
        middleware = ExperienceMiddleware(memory.experiences(filled.path).selector())
        agent = create_agent(
            model, [look], system_prompt="Be kind.", middleware=[middleware], checkpointer=memory.checkpointer
        )
        state = agent.invoke({"messages": [HumanMessage(PLOT)]}, at())
        assert kinds_shown(model.asked[0]) == ["system", "experiences", "human"]
        assert [each.content for each in model.asked[0][:2]] == ["Be kind.", section([CHARTS])]
        assert kinds_shown(model.asked[1]) == ["system", "experiences", "human", "ai", "tool"]
        assert model.asked[1][:3] == model.asked[0]
        assert kinds_shown(state["messages"]) == ["human", "ai", "tool", "ai"]
        assert not any(is_injected(each) for each in agent.get_state(at()).values["messages"])
        for messages in model.asked:
            assert_valid_for_providers(messages)

    async def test_async_and_streamed_calls_are_equal(self, library):
        model = ScriptedModel("a chart")
        agent = create_agent(
            model, middleware=[ExperienceMiddleware(library.selector(model=SelectingModel(["charts"])))]
        )
        given = {"messages": [HumanMessage(PLOT, id="q")]}
        agent.invoke(given)
        await agent.ainvoke(given)
        streamed = [message for message, _ in agent.stream(given, stream_mode="messages")]
        streamed += [message async for message, _ in agent.astream(given, stream_mode="messages")]
        assert (
            "".join(message.text for message in streamed) == "a chart" * 2
        )  # the model that selects says nothing there
        assert model.asked == [model.asked[0]] * 4

    def test_roles_in_a_thread_get_instructions_once(self, in_memory, library):
        planner = library.selector(role="Planner")
        coder = library.selector(role="CodeInterpreter")
        said = [HumanMessage(PLOT, id="q1")]
        first = planner.invoke(said, at())
        assert kinds_shown(first) == ["experiences", "human"]
        assert coder.invoke(said, at()) == said
        said += [AIMessage("done", id="a1"), HumanMessage(f"{PLOT} Again.", id="q2")]
        assert planner.invoke(said, at()) == [*first, *said[1:]]
        [note] = in_memory.conversation("t").prompt_notes()
        assert [(each.kind, each.id) for each in note.items] == [("experience", "charts")]
        assert note.items[0].reason

    def test_selecting_model_is_asked_again_after_tool_failure(self, library):
        failed = ToolMessage("FileNotFoundError: x", tool_call_id="call-2", status="error")

        @wrap_tool_call
        def broken(request, handler):
            return failed if request.tool_call["name"] == "load" else handler(request)

        picky = SelectingModel(
            lambda messages: '["files"]' if "Error: FileNotFound" in messages[0].text else '["charts"]'
        )
        calls = (calling("look", place="x"), calling("load", "call-2", name="y"), calling("look", "call-3", place="z"))
        model = ScriptedModel(*calls, AIMessage("."))
        middleware = [ExperienceMiddleware(library.selector(model=picky)), broken]
        create_agent(model, [look, load], middleware=middleware).invoke({"messages": [HumanMessage(PLOT)]})
        assert [messages[0].content for messages in model.asked] == [
            section([each]) for each in (CHARTS, CHARTS, FILES, FILES)
        ]
        assert len(picky.asked) == 2


class TestConstruction:
    def test_invalid_arguments_are_rejected(self, library, filled):
        wrong = ((filled.path, {}), (None, {}), (library, {"rule": "Planner"}), (library, {"role": 3}))
        for given, options in (*wrong, (library.selector(), {"role": "Planner"})):
            with pytest.raises(InvalidInput):
                ExperienceMiddleware(given, **options)

    def test_agent_request_is_not_modified(self, library):
        seen, messages = [], [HumanMessage(PLOT)]
        request = ModelRequest(model=ScriptedModel(), messages=messages, system_message=SystemMessage("Be kind."))
        ExperienceMiddleware(library).wrap_model_call(request, seen.append)
        assert request.messages == messages == [HumanMessage(PLOT)]
        assert [each.text for each in seen[0].messages] == [section([CHARTS]), PLOT]
        assert seen[0].system_message.content == request.system_message.content == "Be kind."
