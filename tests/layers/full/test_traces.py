"""What is done with a layered memory can be seen where it is done: each operation is one run that says what it did."""

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
"""What no trace may show where content is withheld."""
MAIN = {"namespace": "ada", "branch": "main"}
FOUND = {"agentmem_database": "sqlite", "agentmem_namespace": "ada", "agentmem_branch": "main"}

pytestmark = pytest.mark.sqlite_suffices
CALLS = json.loads(Path(__file__).parent.with_name("cases.json").read_text("utf-8"))["traced"]
"""What is called, with what, and the run that it is: its name, its inputs, its outputs."""


@pytest.fixture
def layers(memory):
    return memory.layers("main", namespace=("ada",))


def where(run):
    """What the metadata say of where it happened."""
    ours = ("agentmem_", "thread_id", "checkpoint_id")
    return {name: value for name, value in run.extra["metadata"].items() if name.startswith(ours)}


class TestAnOperation:
    async def test_is_one_run_that_says_what_was_done_and_where(self, collector, layers, do):
        async def work():
            for method, arguments, *_ in CALLS:
                *parts, name = method.split(".")
                await do(getattr(layers, *parts) if parts else layers, name, *arguments)

        await collector.aunder(work)
        [turn] = collector.roots
        seen = [(run.name, run.run_type, run.inputs, run.outputs, where(run)) for run in turn.child_runs]
        assert seen == [
            (f"memory.{name}", "chain", {**MAIN, **inputs}, outputs, FOUND) for _, _, name, inputs, outputs in CALLS
        ]
        assert [run.child_runs for run in turn.child_runs] == [[]] * len(CALLS)


def test_a_consolidation_shows_the_model_s_work_and_what_was_written(collector, memory):
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


def test_an_injection_in_a_chain_says_what_was_put_in_and_why(collector, memory, layers):
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
    assert where(run) == FOUND


@pytest.mark.parametrize("shown", [False, True, lambda text: text.replace(WORD, "***")], ids=["no", "yes", "masked"])
async def test_content_is_shown_withheld_or_masked_as_one_likes(collector, new_id, shown):
    """Everything is done with one word in all that is content."""
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
