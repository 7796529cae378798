"""What is done with experiences can be seen where it happens: what was chosen and why, and what was added."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, Experience
from langchain_agentmem.base.events import StepFinished
from langchain_agentmem.experiences.experience_selector import ExperienceSelector
from tests.experiences.conftest import FILES, PLOT, Picky
from tests.tracing.trees import Collector

SECRET = "Xanadu"
SELECT, CHOOSE = "memory.experience.select", "memory.experience.choose"
ANSWER = json.dumps({"charts": {"relevant": True, "reason": "it is a chart"}, "files": False})


class State(MessagesState):
    experiences: str


@pytest.fixture
def seen():
    return Collector()


def under(seen, call):
    """What a call gives that is made by a step of the user's own."""
    return RunnableLambda(lambda _: call()).with_config(run_name="mine").invoke(None, {"callbacks": [seen]})


async def aunder(seen, call):
    async def own(_):
        return await call()

    return await RunnableLambda(own).with_config(run_name="mine").ainvoke(None, {"callbacks": [seen]})


def only(seen):
    """The one run beneath the user's own, which has none beneath it."""
    [mine] = seen.roots
    [run] = mine.child_runs
    assert run.child_runs == []
    return run


class TestSelecting:
    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_in_a_graph_it_is_one_step_with_the_models_call_beneath(self, library, seen, asynchronous):
        builder = StateGraph(State)
        builder.add_node("experience", library.selector(role="Planner", model=Picky(lambda _: ANSWER)))
        builder.add_edge(START, "experience")
        graph, given = builder.compile(), {"messages": [HumanMessage(PLOT)]}
        config = {"callbacks": [seen], "configurable": {"thread_id": "t", "agentmem_namespace": ("ada",)}}
        await graph.ainvoke(given, config) if asynchronous else graph.invoke(given, config)
        node = ("experience", [("ExperienceSelector", [(SELECT, [(CHOOSE, [("Picky", [])])])])])
        assert seen.shapes == [("LangGraph", [node])]
        selected, chosen = seen.ours()
        assert selected.inputs == {"query": PLOT, "role": "Planner", "strategy": "model", "namespace": ["ada"]}
        scores = {each["exp_id"]: each["score"] for each in selected.outputs["candidates"]}
        assert selected.outputs == {
            "chosen": [{"exp_id": "charts", "score": scores["charts"], "reason": "it is a chart"}],
            "candidates": [{"exp_id": "charts", "score": scores["charts"]}, {"exp_id": "refunds", "score": 0.0}],
            "asked_ids": ["charts", "refunds"],
            "strategy": "model",
        }
        assert chosen.inputs["exp_ids"] == ["charts", "refunds"]
        assert chosen.outputs == {"answer": ANSWER}
        for run in seen.ours():
            metadata = run.extra["metadata"]
            assert (metadata["thread_id"], metadata["agentmem_namespace"]) == ("t", "ada")
            assert metadata["agentmem_database"] == "sqlite"

    def test_without_a_model_the_reasons_are_told_to_hooks_too(self, filled, seen):
        events = []
        with AgentMemory(":memory:", hooks=[events.append]) as memory:
            memory.experiences(filled.path).selector().invoke(PLOT, {"callbacks": [seen]})
        [step] = [event for event in events if isinstance(event, StepFinished) and event.name == SELECT]
        for outputs in (seen.run(SELECT).outputs, step.outputs):
            assert "chart" in outputs["chosen"][0]["reason"]
            assert {"exp_id": "refunds", "score": 0} in outputs["candidates"]
            assert "fell_back" not in outputs

    def test_a_fallback_is_told(self, library, seen):
        library.selector(model=Picky(ValueError("no"))).invoke(PLOT, {"callbacks": [seen]})
        assert seen.run(SELECT).outputs["fell_back"] == "The model failed: ValueError."
        assert "ValueError" in seen.run(CHOOSE).error

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_the_config_given_to_select_counts(self, library, seen, asynchronous):
        selector = library.selector(model=Picky(["charts"]))
        config = {"callbacks": [seen]}
        await selector.aselect(PLOT, config=config) if asynchronous else selector.select(PLOT, config=config)
        assert seen.shapes == [(SELECT, [(CHOOSE, [("Picky", [])])])]

    def test_one_that_is_off_shows_no_step(self, library, seen):
        library.selector(enabled=False).invoke(PLOT, {"callbacks": [seen]})
        assert seen.shapes == [("ExperienceSelector", [])]

    def test_a_model_that_was_asked_before_is_not_asked_again(self, library, seen):
        selector = library.selector(model=Picky(["charts"]))
        selector.invoke(PLOT)
        selector.invoke(PLOT, {"callbacks": [seen]})
        assert seen.shapes == [("ExperienceSelector", [(SELECT, [])])]

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_what_is_content_is_left_out_if_that_is_wanted(self, filled, seen, asynchronous):
        secret = Experience("chart-secrets", [], f"Use when a chart of {SECRET} is wanted.", f"Say {SECRET}.")
        steps = []
        with AgentMemory(":memory:", hooks=[steps.append], trace_content=False) as quiet:
            library = quiet.experiences(filled.path)
            under(seen, lambda: library.add(secret))
            said = json.dumps({"chart-secrets": {"relevant": True, "reason": SECRET}})
            selector = library.selector(model=Picky(lambda _: said))
            asked, config = f"Draw a chart of {SECRET}.", {"callbacks": [seen]}
            got = await selector.ainvoke(asked, config) if asynchronous else selector.invoke(asked, config)
        assert got.count(SECRET) == 2
        assert seen.shapes == [
            ("mine", [("memory.experience.add", [])]),
            (SELECT, [(CHOOSE, [])]),
        ]
        ours = seen.ours()
        assert SECRET not in str([run.model_dump() for run in ours])
        assert SECRET not in str([step for step in steps if isinstance(step, StepFinished)])
        assert ours[1].outputs["chosen"][0]["exp_id"] == "chart-secrets"

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_whoever_only_takes_notes_of_calls_still_hears_of_the_model(self, filled, asynchronous):
        with AgentMemory(":memory:", trace_content=False) as quiet:
            selector: ExperienceSelector = quiet.experiences(filled.path).selector(model=Picky(["charts"]))
            config = {"callbacks": [quiet.audit.handler()]}
            await selector.ainvoke(PLOT, config) if asynchronous else selector.invoke(PLOT, config)
            assert [entry.kind for entry in quiet.audit.last()] == ["call"]


class TestAdding:
    def test_one_that_is_added_is_told(self, library, seen):
        tea = Experience("tea", ["Planner"], "Use when somebody wants tea.", "Offer milk.")
        path = under(seen, lambda: library.add(tea))
        run = only(seen)
        assert run.name == "memory.experience.add"
        assert run.inputs == {"exp_id": "tea", "roles": ["Planner"], "when": tea.when, "what": tea.what}
        assert run.outputs == {"file": path.name}

    def test_one_that_is_there_already_is_an_error(self, library, seen):
        with pytest.raises(Exception, match="already"):
            under(seen, lambda: library.add(FILES))
        assert "already" in only(seen).error
