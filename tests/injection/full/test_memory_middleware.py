"""`MemoryMiddleware`: memory is in the requests to an agent's model, and never in the agent's state."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_agentmem.compaction import CompactionMiddleware, ManagedMemoryConfig
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.injection.memory_middleware import MemoryMiddleware
from langchain_agentmem.layers.layer_tools import ESSENTIAL_TOOLS
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.message import OWN_TOOLS
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.testing import assert_valid_for_providers
from tests.support.graphs import at
from tests.support.models import ScriptedModel, calling, kinds_shown, look

pytestmark = pytest.mark.sqlite_suffices

FACTS = ["fact_add", "fact_search", "fact_history"]
QUESTION = "Which fruit tree did I plant?"
SMALL = ManagedMemoryConfig(threshold_tokens=600, token_counter="estimate")


@pytest.fixture
def layers(memory):
    layers = LayeredMemory(memory, "user-42")
    layers.core.set("name", "Ada")
    layers.archival.write("Ada planted two quince trees.")
    return layers


class TestRequest:
    async def test_memory_is_in_the_request_not_the_state(self, memory, layers):
        model = ScriptedModel(calling("look", place="here"), AIMessage("a quince"))
        middleware = [MemoryMiddleware(memory, "user-42")]
        agent = create_agent(model, [look], middleware=middleware, checkpointer=memory.checkpointer)
        state = agent.invoke({"messages": [HumanMessage(QUESTION, id="q")]}, at())
        assert kinds_shown(model.asked[0]) == ["core", "recalled", "human"]
        assert kinds_shown(model.asked[1]) == ["core", "recalled", "human", "ai", "tool"]
        assert model.asked[1][:3] == model.asked[0]
        assert kinds_shown(state["messages"]) == ["human", "ai", "tool", "ai"]
        for messages in model.asked:
            assert_valid_for_providers(messages)
        await agent.ainvoke({"messages": [HumanMessage(QUESTION, id="q")]}, at("awaited"))
        assert model.asked[2] == model.asked[0]

    def test_system_role_puts_core_into_the_system_message(self, memory, layers):
        for role in ("system", "user"):
            for prompt in (None, "Be kind.", SystemMessage([{"type": "text", "text": "Be kind."}])):
                model = ScriptedModel("a quince")
                agent = create_agent(
                    model, system_prompt=prompt, middleware=[MemoryMiddleware(memory, "user-42", role=role)]
                )
                for _ in range(2):
                    agent.invoke({"messages": [HumanMessage(QUESTION)]})
                first, *rest = model.asked[0]
                assert model.asked[1][0].content == first.content
                if role == "system":
                    assert (first.type, "Be kind." in first.text) == ("system", prompt is not None)
                    assert "**name**: Ada" in first.text
                    assert kinds_shown(rest) == ["recalled", "human"]
                elif prompt is not None:
                    assert first.text == "Be kind."
                    assert kinds_shown(rest) == ["core", "recalled", "human"]


class TestAgentThread:
    def test_tools_option_selects_the_offered_tools(self, memory):
        compaction = CompactionMiddleware(memory, config=SMALL)
        for given, offered in ((True, ESSENTIAL_TOOLS), (["fact_*", "mem_core_get"], [*FACTS, "mem_core_get"])):
            model = ScriptedModel(AIMessage("Hello"))
            middleware = [compaction, MemoryMiddleware(memory, tools=given)]
            agent = create_agent(model, middleware=middleware, checkpointer=memory.checkpointer)
            agent.invoke({"messages": [HumanMessage("Hello")]}, at())
            assert model.tools == [["recall_dropped", "expand", *offered]]
        for wrong in ({"tools": ["recall_dropped"]}, {"role": "tool"}):
            with pytest.raises(InvalidInput, match=r"memory\.tools\(include|role must be"):
                MemoryMiddleware(memory, **wrong)

    def test_memory_tool_results_are_searchable_but_not_recalled(self, memory):
        assert {each.name for each in memory.tools(include=["*"])} == OWN_TOOLS
        memory.conversation("old", ("bob",)).add(role="user", content="My quince tree died.")
        talk = memory.conversation("old", ("ada",))
        talk.add(role="user", content="I planted a quince tree.")
        for name in ("mem_core_set", "look"):
            talk.add_message(calling(name, name))
            talk.add_message(ToolMessage(f"The quince tree, says {name}.", name=name, tool_call_id=name))
        model = ScriptedModel("a quince")
        agent = create_agent(model, middleware=[MemoryMiddleware(memory)], checkpointer=memory.checkpointer)
        agent.invoke({"messages": [HumanMessage("Which quince tree did I plant?")]}, at(namespace=("ada",)))
        [recalled] = [message.text for message in model.asked[0] if is_injected(message)]
        parts = ("I planted", "says look", "says mem_core_set", "died")
        assert [part in recalled for part in parts] == [True, True, False, False]
        found = [each.text for each in memory.search("quince", namespace=("ada",))]
        assert "The quince tree, says mem_core_set." in found

    def test_memory_of_an_abandoned_branch_is_not_shown(self, memory):
        def reply(messages):
            said = messages[-1].text
            if messages[-1].type == "human" and said.startswith("My name is "):
                return calling("mem_core_set", key="name", value=said.removeprefix("My name is "))
            return AIMessage("Hello")

        model = ScriptedModel(reply)
        agent = create_agent(model, middleware=[MemoryMiddleware(memory, tools=True)], checkpointer=memory.checkpointer)
        agent.invoke({"messages": [HumanMessage("My name is Ada", id="m")]}, at())
        [before] = [each for each in agent.get_state_history(at()) if each.next == ("__start__",)]
        agent.invoke({"messages": [HumanMessage("My name is Eve", id="m")]}, before.config)
        agent.invoke({"messages": [HumanMessage("Who am I?")]}, at())
        assert "**name**: Eve" in model.texts[-1]
        assert "Ada" not in model.texts[-1]

    def test_foreign_checkpointer_limits_memory_to_searches(self, memory, caplog):
        memory.conversation("old", ("ada",)).add(role="user", content="I planted a quince tree.")
        model = ScriptedModel(AIMessage("a quince"))
        agent = create_agent(model, middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
        for _ in range(2):
            agent.invoke({"messages": [HumanMessage(QUESTION)]}, at(namespace=("ada",)))
        assert kinds_shown(model.asked[0]) == ["recalled", "human"]
        assert [record.levelname for record in caplog.records if "injection" in record.name] == ["WARNING"]


@pytest.mark.parametrize("module", ["injection.memory_middleware", "experiences.experience_middleware"])
def test_missing_extra_is_named_in_the_error(monkeypatch, module):
    for absent in ("langchain.agents.middleware", "langchain.agents.middleware.types"):
        monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, f"langchain_agentmem.{module}", raising=False)
    with pytest.raises(MissingExtra, match=r"langchain-agentmem\[agents\]"):
        import_module(f"langchain_agentmem.{module}")
