"""LangChain's agent keeps facts with tools."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem import fact_tools
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices


AT = {"configurable": {"thread_id": "t"}}


def calls(*wanted):
    """A message that calls tools."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(wanted)]
    )


def lives_in(place, **more):
    return "fact_add", {"subject": "Maya", "predicate": "lives in", "object": place, **more}


def agent(memory, *script, **options):
    model = ScriptedModel(*script)
    return create_agent(model, tools=fact_tools(memory, **options), checkpointer=memory.checkpointer)


def results(state):
    return [message.text for message in state["messages"] if isinstance(message, ToolMessage)]


def on(text):
    """The beginning of a day as a model is told of it."""
    return f"{text}T00:00:00+00:00"


class TestInAGraph:
    @pytest.mark.parametrize("awaited", [False, True], ids=["waiting", "awaiting"])
    async def test_an_agent_keeps_facts_of_its_thread_and_no_other(self, memory, awaited):
        graph = agent(
            memory,
            calls(lives_in("Porto", valid_from="2024-01-01"), ("fact_add", {"subject": "Maya", "wrong": 2})),
            calls(lives_in("Lisbon", valid_from="2024-03-01")),
            calls(("fact_history", {"subject": "Maya"}), ("fact_search", {"query": "where does Maya live"})),
            AIMessage("She lives in Lisbon."),
        )
        given = {"messages": [HumanMessage("Where does Maya live?")]}
        state = await graph.ainvoke(given, AT) if awaited else graph.invoke(given, AT)
        added, wrong, moved, history, search = results(state)
        assert added.startswith("The fact is kept, ")
        assert "predicate: it is missing" in wrong
        assert "it ended: 'Maya lives in Porto'" in moved
        assert [each["valid_to"] for each in json.loads(history)["history"]] == [on("2024-03-01"), None]
        assert {each["text"] for each in json.loads(search)["found"]} == {"Maya lives in Porto", "Maya lives in Lisbon"}
        assert [fact.object for fact in await memory.facts(AT).aas_of(subject="Maya")] == ["Lisbon"]
        assert memory.facts({"configurable": {"thread_id": "u"}}).search("*") == []
