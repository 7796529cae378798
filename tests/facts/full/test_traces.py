"""Traces of fact operations: one run per call, with inputs and outputs."""

import itertools
import json
from functools import partial

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import StepFinished
from tests.facts.scripted import CASES, Scripted
from tests.support.graphs import at, line
from tests.support.models import ScriptedModel
from tests.tracing.trees import Collector

HERE = {"namespace": "ada", "branch": "b"}
THREAD = at(namespace=("ada",))
SECRET = "Xanadu"
pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def facts(memory):
    return memory.facts("b", namespace=("ada",))


class TestNodeTraces:
    async def test_node_is_one_run_with_child_runs(self, memory, collector, do):
        told = {"message": 1, "subject": "Maya", "predicate": "lives in", "object": "Lisbon"}
        model = FakeListChatModel(responses=[json.dumps({"facts": [told]})])
        graph = line(memory.checkpointer, memory.remember_facts(model))
        given = {"messages": [HumanMessage("Maya | lives in | Lisbon", id="m1")]}
        config = {**THREAD, "callbacks": [collector]}
        await do(graph, "invoke", given, config)
        [(_, [(_, [(_, [shape])])])] = (
            collector.shapes
        )  # of the graph, its node, the runnable in that, and what is ours
        beneath = [("memory.facts.extract", [("FakeListChatModel", [])]), ("memory.facts.learn", [])]
        assert shape == ("memory.facts.remember", beneath)
        whose = {"namespace": "ada", "thread_id": "t"}
        remembered, extracted, learned = collector.ours()
        assert remembered.inputs == {**whose, "message_ids": ["m1"]}
        [fact] = memory.facts(THREAD).as_of()
        assert remembered.outputs == {"new_ids": ["m1"], "message_count": 1, "failure": None, "fact_ids": [fact.id]}
        assert remembered.outputs.keys() - {"new_ids"} <= learned.outputs.keys()
        assert extracted.inputs["said"][0]["content"] == "Maya | lives in | Lisbon"
        assert json.loads(extracted.outputs["answer"])["facts"][0]["object"] == "Lisbon"
        assert learned.inputs == {**whose, "message_ids": ["m1"]}
        assert (learned.outputs["message_count"], learned.outputs["fact_ids"]) == (1, [fact.id])
        for run in collector.ours():
            metadata = run.extra["metadata"]
            assert (metadata["thread_id"], metadata["agentmem_namespace"]) == ("t", "ada")
            assert metadata["agentmem_database"] == "sqlite"
            assert metadata["checkpoint_id"]

    def test_failure_is_traced_in_the_failing_run(self, memory, collector):
        given = {"messages": [HumanMessage("Maya | likes | tea", id="m1")]}
        failing = ScriptedModel(ValueError("no tea today")).reply
        line(memory.checkpointer, memory.remember_facts(failing)).invoke(given, {**THREAD, "callbacks": [collector]})
        remembered, extracted, learned = collector.ours()
        assert "ValueError" in extracted.error
        for run in (learned, remembered):
            assert run.outputs["failure"] == "The model gave no answer: ValueError: no tea today"
            assert run.outputs["message_count"] == 0
        assert remembered.error is learned.error is None

    async def test_trace_content_can_be_disabled(self, collector, do):
        steps = []
        with AgentMemory(":memory:", hooks=[steps.append], trace_content=False) as quiet:
            given = [HumanMessage(f"Maya | lives in | {SECRET}", id="m1")]
            config = {**THREAD, "callbacks": [collector]}
            branch = quiet.remember_facts(ScriptedModel(Scripted()), branch="b")
            await do(branch, "invoke", given, config)
            facts = quiet.facts("b", namespace=("ada",))
            facts.merge("Maya", SECRET)
            facts.aliases()
            facts.search(SECRET)
        beneath = [("memory.facts.extract", []), ("memory.facts.learn", [])]
        assert collector.shapes == [("memory.facts.remember", beneath)]
        assert SECRET not in str([run.model_dump() for run in collector.runs])
        told = [step for step in steps if isinstance(step, StepFinished)]
        assert SECRET not in str(told)
        assert [step.name for step in told][-1] == "memory.facts.search"
        assert collector.ours()[0].inputs["message_ids"] == ["m1"]


def test_add_prompt_and_file_calls_are_traced(facts, collector, tmp_path):
    added = []

    def work():
        added.append(facts.add_fact("user", "Maya", "lives in", "Porto", source="m2"))
        facts.format_for_prompt("Where does Maya live?", 500)
        facts.save_to_file(tmp_path / "facts.json")
        facts.load_from_file(tmp_path / "facts.json")

    collector.under(work)
    assert collector.run("memory.facts.add_fact").outputs == {"result": added[0]}
    assert "Maya lives in Porto" in collector.run("memory.facts.format_for_prompt").outputs["text"]
    assert collector.run("memory.facts.save").outputs["count"] == 1
    assert collector.run("memory.facts.load").inputs["records"] == 1


def test_search_is_traced_as_a_retriever(facts, collector):
    tea = facts.add_fact("user", "Maya", "likes", "tea", source="m1")
    facts.add(role="user", content="Tea is nice.")
    [found, said] = collector.under(lambda: facts.search("Maya tea", 5))
    run = collector.only()
    assert (run.name, run.run_type, run.inputs) == ("memory.facts.search", "retriever", {"query": "Maya tea"})
    first, second = run.outputs["documents"]
    assert (first.id, first.page_content) == (tea, "Maya likes tea")
    assert first.metadata["kind"] == "fact"
    assert first.metadata["score"] == round(found.score, 4)
    assert first.metadata["why"] == str(found.why)
    assert second.id == said.id
    where = {"limit": 5, "agentmem_namespace": "ada", "agentmem_branch": "b"}
    assert where.items() <= run.extra["metadata"].items()


CALLS = CASES["traced"]
"""Methods with their arguments, the step that a trace shows of each, and how many items, or what, came of it."""


async def test_each_call_is_one_traced_run(do):
    for name, (method, given, named, verb, came) in CALLS.items():
        collector, numbers = Collector(), itertools.count(1)
        with AgentMemory(":memory:", new_id=lambda numbers=numbers: f"id-{next(numbers)}") as memory:
            facts = memory.facts("b", namespace=("ada",))
            facts.add_fact("user", "Maya", "lives in", "Lisbon", source="m1")
            await collector.aunder(partial(do, facts, method, *given, **named))
        run = collector.only()
        told = next(run.outputs[key] for key in ("count", "result", "id") if key in run.outputs)
        assert (run.name, told, run.error) == (f"memory.facts.{verb}", came, None), name
        assert run.inputs.items() >= HERE.items(), name
