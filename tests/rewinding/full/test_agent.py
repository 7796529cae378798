"""An agent that keeps its state in a thread loses nothing while it waits."""

from __future__ import annotations

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from tests.rewinding.minds import AT, resumed
from tests.rewinding.test_kept_state import innermost


@pytest.mark.parametrize("change", ["run from within", "given something new"])
def test_an_agent_loses_nothing_where_its_thread_is_changed_while_it_waits(mind, change):
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import FakeListChatModel

    class Waits(AgentMiddleware):
        def before_model(self, state, runtime):
            mind.note("learned")

        def after_model(self, state, runtime):
            interrupt("?")

    agent = create_agent(FakeListChatModel(responses=["Yes."]), [], middleware=[Waits()], checkpointer=True)
    builder = StateGraph(agent.builder.state_schema).add_node("agent", agent).add_edge(START, "agent")
    graph = builder.compile(checkpointer=mind.adapter.saver)
    given = {"messages": [("user", "Hello")]}
    mind.run(graph, given)
    mind.run(graph, *((None, innermost(graph)) if change == "run from within" else (given,)))
    mind.run(graph, resumed())
    learned = ["learned 1"] if change == "run from within" else ["learned 1", "learned 2"]
    assert mind.adapter.remembered(AT) == learned
