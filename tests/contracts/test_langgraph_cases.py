"""What LangGraph's own tests found with our checkpointer in place of the stock ones."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import pytest
from langchain_core.agents import AgentAction, AgentFinish
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Overwrite, interrupt
from pydantic import BaseModel

from langchain_agentmem import AgentMemorySaver

AT = {"configurable": {"thread_id": "t"}}


class Agent(TypedDict, total=False):
    question: str
    outcome: AgentAction | AgentFinish | None
    steps: Annotated[list[list[AgentAction | str]], operator.add]


class Form(BaseModel):
    name: str
    answer: str | None = None


@pytest.fixture
def saver(url):
    with AgentMemorySaver.from_conn_string(url) as saver:
        yield saver


def agent_graph(saver):
    """An agent that searches twice, waits before each search, and is done."""

    def decide(state):
        if len(state.get("steps", [])) < 2:
            return {"outcome": AgentAction("search", f"{len(state.get('steps', []))}", "log")}
        return {"outcome": AgentFinish({"answer": state["steps"][-1][1]}, "done")}

    def search(state):
        assert type(state["outcome"]) is AgentAction
        return {"steps": [[state["outcome"], f"found {state['outcome'].tool_input}"]]}

    builder = StateGraph(Agent)
    builder.add_node("decide", decide)
    builder.add_node("search", search)
    builder.add_edge(START, "decide")
    builder.add_edge("search", "decide")
    builder.add_conditional_edges("decide", lambda state: END if type(state["outcome"]) is AgentFinish else "search")
    return builder.compile(checkpointer=saver, interrupt_before=["search"])


def first(tool_input):
    return AgentAction("search", tool_input, "log")


DONE = {
    "question": "what?",
    "outcome": AgentFinish({"answer": "found 1"}, "done"),
    "steps": [[first("edited"), "found edited"], [first("1"), "found 1"]],
}


@pytest.mark.sqlite_suffices
class TestAgents:
    def test_a_pause_shows_the_agents_own_actions_and_takes_edited_ones(self, saver):
        graph = agent_graph(saver)
        graph.invoke({"question": "what?"}, AT)
        assert graph.get_state(AT).values["outcome"] == first("0")
        graph.update_state(AT, {"outcome": first("edited")})
        assert graph.get_state(AT).values["outcome"] == first("edited")
        graph.invoke(None, AT)
        assert graph.get_state(AT).values["steps"] == [[first("edited"), "found edited"]]
        assert graph.invoke(None, AT) == DONE
        assert [type(action) for action, _ in graph.get_state(AT).values["steps"]] == [AgentAction, AgentAction]

    async def test_awaited_it_takes_lists_that_overwrite(self, saver):
        graph = agent_graph(saver)
        await graph.ainvoke({"question": "what?"}, AT)
        await graph.aupdate_state(AT, {"outcome": first("edited"), "steps": Overwrite([])})
        await graph.ainvoke(None, AT)
        assert await graph.ainvoke(None, AT) == (await graph.aget_state(AT)).values == DONE


@pytest.mark.sqlite_suffices
class TestFunctions:
    def test_the_input_and_results_of_an_interrupted_entrypoint_are_models_when_it_goes_on(self, saver):
        seen = []

        @task
        def ask(form: Form) -> Form:
            seen.append(type(form))
            return Form(name=form.name, answer=interrupt("Your answer?"))

        @task
        def fill(form: Form) -> Form:
            return Form(name=form.name.title())

        @entrypoint(checkpointer=saver)
        def run(form: Form) -> Form:
            seen.append(type(form))
            filled = fill(form).result()
            seen.append(type(filled))
            return ask(filled).result()

        run.invoke(Form(name="ana"), AT)
        assert run.invoke(Command(resume="yes"), AT) == Form(name="Ana", answer="yes")
        assert seen == [Form] * 6


@pytest.mark.sqlite_suffices
class TestMetadata:
    def test_keys_with_hyphens_digits_and_dots_are_found(self, saver):
        metadata = {"access-level": "public", "1st": 1, "user": {"access-level": "nested", "1st": 2}}
        checkpoint = {**empty_checkpoint(), "id": "1f0"}
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, metadata, {})
        for key, value in {"access-level": "public", "1st": 1, "user.access-level": "nested", "user.1st": 2}.items():
            assert len(list(saver.list(None, filter={key: value}))) == 1
            assert list(saver.list(None, filter={key: "other"})) == []
