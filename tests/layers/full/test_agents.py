"""LangChain's agent keeps its memory with tools."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem.layers.layer_tools import layer_tools
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices


CONFIG = {"configurable": {"thread_id": "t"}}


def calls(*wanted):
    """A message that calls tools."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(wanted)]
    )


def results(state):
    return [message.text for message in state["messages"] if isinstance(message, ToolMessage)]


class TestInAGraph:
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_langchains_agent_uses_them(self, memory, awaited):
        model = ScriptedModel(
            *[
                calls(("mem_core_set", {"key": "user_name", "value": "Ada"}), ("mem_core_set", {"key": 1, "wrong": 2})),
                calls(("mem_core_get", {"keys": "user_name"})),
                AIMessage("You are Ada."),
            ]
        )
        graph = create_agent(model, tools=layer_tools(memory), checkpointer=memory.checkpointer)
        given = {"messages": [HumanMessage("Who am I?")]}
        state = await graph.ainvoke(given, CONFIG) if awaited else graph.invoke(given, CONFIG)
        told = results(state)
        assert told[0] == "The note 'user_name' is kept."
        assert "value: it is missing" in told[1]
        assert json.loads(told[2]) == {"core": {"user_name": "Ada"}}
        assert state["messages"][-1].text == "You are Ada."
