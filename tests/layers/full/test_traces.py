"""Traces of layered memory: each operation is one run with its inputs, outputs and location."""

import json
from operator import attrgetter
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from tests.support.models import ScriptedModel

WORD = "quetzalcoatl"
"""Word that no trace may contain when content is hidden."""
MAIN = {"namespace": "ada", "branch": "main"}
FOUND = {"agentmem_database": "sqlite", "agentmem_namespace": "ada", "agentmem_branch": "main"}

pytestmark = pytest.mark.sqlite_suffices
CALLS = json.loads(Path(__file__).parent.with_name("cases.json").read_text("utf-8"))["traced"]
"""Method, arguments, and the name, inputs and outputs of the expected run."""


@pytest.fixture
def layers(memory):
    return memory.layers("main", namespace=("ada",))


def location_of(run):
    """Return the metadata of a run that say where it happened."""
    ours = ("agentmem_", "thread_id", "checkpoint_id")
    return {name: value for name, value in run.extra["metadata"].items() if name.startswith(ours)}


async def test_each_operation_is_one_run_with_its_location(collector, layers, do):
    async def work():
        for method, arguments, *_ in CALLS:
            *parts, name = method.split(".")
            await do(getattr(layers, *parts) if parts else layers, name, *arguments)

    await collector.aunder(work)
    [turn] = collector.roots
    seen = [(run.name, run.run_type, run.inputs, run.outputs, location_of(run)) for run in turn.child_runs]
    assert seen == [
        (f"memory.{name}", "chain", {**MAIN, **inputs}, outputs, FOUND) for _, _, name, inputs, outputs in CALLS
    ]
    assert [run.child_runs for run in turn.child_runs] == [[]] * len(CALLS)


def test_a_consolidation_run_contains_compression_and_eviction(collector, memory):
    settings = LayersConfig(recall_max_events=2, core_max_chars=10, section_budgets={"archival_snippet": 60})
    layers = memory.layers("main", namespace=("ada",), settings=settings, model=ScriptedModel("much was said"))
    layers.write(recall=["one " * 20, "two", "three"])
    layers.core.set("k", "1234567", importance=1)
    collector.under(layers.consolidate)
    compressed = ("memory.layers.compress", [("ScriptedModel", [])])
    beneath = [("memory.recall.consolidate", [compressed]), ("memory.core.relieve", [])]
    assert collector.shapes == [("mine", [("memory.layers.consolidate", beneath)])]
    whole = collector.run("memory.layers.consolidate").outputs
    assert (whole["level"], whole["events"], whole["evicted"]) == ("critical", 1, ["k"])
    assert collector.run("memory.recall.consolidate").outputs["records"] == whole["records"]
    assert collector.run("memory.core.relieve").outputs["items"] == ["k"]


def test_an_injection_run_lists_injected_memory_and_scores(collector, memory, layers):
    layers.core.set("name", "Ada")
    layers.recall.append("said", "Ada waters figs")
    layers.archival.write("Ada planted a fig")
    memory.conversation("chat", namespace=("ada",)).add(HumanMessage("Figs are ripe in August."))
    chain = memory.inject("main", namespace=("ada",)) | RunnableLambda(len)
    chain.invoke([HumanMessage("When are figs ripe?")], {"callbacks": [collector]})
    run = collector.run("memory.injection.inject")
    assert run.inputs == {**MAIN, "query": "When are figs ripe?", "messages": 1, "limit": 8}
    outputs = run.outputs
    assert (outputs["core"], outputs["event_ids"]) == (["name"], ["id-1"])
    told = [(each["kind"], each["text"]) for each in outputs["records"]]
    assert told == [("record", "Ada planted a fig"), ("message", "Figs are ripe in August.")]
    assert all(each["score"] > 0 and each["why"] for each in outputs["records"])
    searches = {run.name for run in collector.ours() if run.run_type == "retriever"}
    assert searches == {f"memory.{part}.search" for part in ("archival", "facts", "retrieval")}
    assert location_of(run) == FOUND


@pytest.mark.parametrize("shown", [False, True, lambda text: text.replace(WORD, "***")], ids=["no", "yes", "masked"])
async def test_trace_content_shows_hides_or_masks_content(collector, new_id, shown):
    """Every operation is called with one word as its content."""
    settings = LayersConfig(core_max_chars=60, section_budgets={"archival_snippet": 20})
    with AgentMemory(":memory:", trace_content=shown, new_id=new_id) as memory:
        layers = memory.layers("main", ("ada",), settings=settings, model=ScriptedModel(f"{WORD} in short"))

        def work():
            layers.core.set("status", WORD)
            layers.core.set(WORD, "much " * 9)
            layers.write({"kind": WORD}, {"kind": WORD, "content": WORD}, {"content": WORD, "tags": [WORD]})
            for method, *arguments in (
                ("core.get", ["status", WORD]), ("core.entries",), ("recall.append", WORD, WORD),
                ("recall.search", WORD), ("recall.recent",), ("archival.write", f"{WORD} " * 9, [WORD]),
                ("archival.all", [WORD]),
                ("archival.search", WORD), ("fork", "try"), ("recall.summarize", WORD, 0), ("diff", "try"),
                ("format_for_prompt", WORD), ("context", WORD), ("resources.track_usage", WORD, "read", WORD),
            ):  # fmt: skip
                attrgetter(method)(layers)(*arguments)
            with pytest.raises(InvalidInput, match="'try'"):
                layers.fork("try")
            memory.inject("main", namespace=("ada",)).invoke([HumanMessage(WORD)])

        collector.under(work)
        await memory.inject("main", namespace=("ada",)).ainvoke([HumanMessage(WORD)], {"callbacks": [collector]})
    ours = collector.ours()
    told = [json.dumps([each.inputs, each.outputs, each.error, each.extra, each.events], default=str) for each in ours]
    assert any(WORD in each for each in told) == (shown is True)
    assert any("***" in each for each in told) == callable(shown)
    [failed] = [run for run in ours if run.error]
    assert ("'try'" in failed.error) == (shown is not False)
    assert ("ScriptedModel" in {run.name for run in collector.runs}) == (shown is True)
    injected, _ = [run for run in ours if run.name == "memory.injection.inject"]
    assert injected.inputs["branch"] == "main"
    assert all(each["id"] for each in injected.outputs["records"])
