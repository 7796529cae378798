"""Traces show selected experiences with reasons, and added experiences."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, Experience
from langchain_agentmem.base.events import StepFinished
from langchain_agentmem.compaction import CompactionState
from langchain_agentmem.experiences.experience_library import ExperienceSelector
from tests.experiences.conftest import FILES, PLOT, SelectingModel
from tests.support.graphs import at, line

SECRET = "Xanadu"
SELECT, CHOOSE = "memory.experience.select", "memory.experience.choose"
ANSWER = json.dumps({"charts": {"relevant": True, "reason": "it is a chart"}, "files": False})


class TestSelectionTraces:
    async def test_selection_in_graph_is_one_step(self, library, collector, do):
        selector = library.selector(role="Planner", model=SelectingModel(lambda _: ANSWER))
        graph, given = line(None, selector, state=CompactionState), {"messages": [HumanMessage(PLOT)]}
        config = {"callbacks": [collector], **at(namespace=("ada",))}
        await do(graph, "invoke", given, config)
        node = ("node0", [("ExperienceSelector", [(SELECT, [(CHOOSE, [("SelectingModel", [])])])])])
        assert collector.shapes == [("LangGraph", [node])]
        selected, chosen = collector.ours()
        assert selected.inputs == {"query": PLOT, "role": "Planner", "strategy": "model", "namespace": ["ada"]}
        [told] = selected.outputs["chosen"]
        assert (told["exp_id"], told["reason"]) == ("charts", "the model chose it")
        assert selected.outputs["candidate_ids"] == ["charts", "refunds"]
        assert selected.outputs["asked_ids"] == chosen.inputs["exp_ids"] == ["charts", "refunds"]
        assert chosen.outputs == {"answer": ANSWER}
        where = {"thread_id": "t", "agentmem_namespace": "ada", "agentmem_database": "sqlite"}
        assert all(run.extra["metadata"].items() >= where.items() for run in collector.ours())

    def test_fallback_is_traced(self, library, collector):
        library.selector(model=SelectingModel(ValueError("no"))).invoke(PLOT, {"callbacks": [collector]})
        assert collector.run(SELECT).outputs["fell_back"] == "The model failed: ValueError."
        assert "ValueError" in collector.run(CHOOSE).error

    async def test_content_is_omitted_on_request(self, filled, collector, do):
        secret = Experience("chart-secrets", [], f"Use when a chart of {SECRET} is wanted.", f"Say {SECRET}.")
        steps = []
        with AgentMemory(":memory:", hooks=[steps.append], trace_content=False) as quiet:
            library = quiet.experiences(filled.path)
            collector.under(lambda: library.add(secret))
            said = json.dumps({"chart-secrets": {"relevant": True, "reason": SECRET}})
            selector = library.selector(model=SelectingModel(lambda _: said))
            asked, config = f"Draw a chart of {SECRET}.", {"callbacks": [collector]}
            got = await do(selector, "invoke", asked, config)
        assert got.count(SECRET) == 2
        assert collector.shapes == [("mine", [("memory.experience.add", [])]), (SELECT, [(CHOOSE, [])])]
        ours = collector.ours()
        assert SECRET not in str([run.model_dump() for run in ours])
        assert SECRET not in str([step for step in steps if isinstance(step, StepFinished)])
        assert ours[1].outputs["chosen"][0]["exp_id"] == "chart-secrets"

    async def test_audit_handler_works_without_traced_content(self, filled, do):
        with AgentMemory(":memory:", trace_content=False) as quiet:
            selector: ExperienceSelector = quiet.experiences(filled.path).selector(model=SelectingModel(["charts"]))
            config = {"callbacks": [quiet.audit.handler()]}
            await do(selector, "invoke", PLOT, config)
            assert [entry.kind for entry in quiet.audit.last()] == ["call"]


def test_additions_and_duplicates_are_traced(library, collector):
    tea = Experience("tea", ["Planner"], "Use when somebody wants tea.", "Offer milk.")
    path = collector.under(lambda: library.add(tea))
    with pytest.raises(Exception, match="already"):
        collector.under(lambda: library.add(FILES))
    assert collector.shapes == [("mine", [("memory.experience.add", [])])] * 2
    added, refused = collector.ours()
    assert added.inputs == {"exp_id": "tea", "who": ["Planner"], "when": tea.when, "what": tea.what}
    assert added.outputs == {"file": path.name}
    assert "already" in refused.error
