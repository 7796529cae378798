"""What is done with a layered memory can be seen where it is done: each operation is one run that says what it did."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph.message import add_messages

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from tests.support.models import ScriptedModel
from tests.tracing.trees import Collector, drawn

WORD = "quetzalcoatl"
"""What no trace may show where content is withheld."""
MAIN = {"namespace": "ada", "branch": "main"}
FOUND = {"agentmem_database": "sqlite", "agentmem_namespace": "ada", "agentmem_branch": "main"}

CALLS = json.loads(Path(__file__).parent.with_name("cases.json").read_text("utf-8"))["traced"]
"""What is called, with what, and the run that it is: its name, its inputs, its outputs."""


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    llm_input_messages: list[AnyMessage]


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def memory(new_database, clock, new_id):
    with AgentMemory(new_database("sqlite"), clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def layers(memory):
    return memory.layers("main", namespace=("ada",))


def call(layers, method, arguments, prefix=""):
    *parts, name = method.split(".")
    return getattr(getattr(layers, parts[0]) if parts else layers, prefix + name)(*arguments)


def within(collector, work):
    """Do something within a run."""
    return RunnableLambda(lambda _: work(), name="turn").invoke(None, {"callbacks": [collector]})


def trees(collector):
    return "\n".join(map(drawn, collector.shapes)).splitlines()


def where(run):
    """What the metadata say of where it happened."""
    ours = ("agentmem_", "thread_id", "checkpoint_id")
    return {name: value for name, value in run.extra["metadata"].items() if name.startswith(ours)}


def dumped(runs):
    return json.dumps(
        [(run.inputs, run.outputs, run.error, run.extra, run.events, run.tags) for run in runs], default=str
    )


class TestAnOperation:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_is_one_run_that_says_what_was_done_and_where(self, collector, layers, asynchronous):
        if asynchronous:

            async def work(_):
                for method, arguments, *_rest in CALLS:
                    await call(layers, method, arguments, "a")

            asyncio.run(RunnableLambda(work, name="turn").ainvoke(None, {"callbacks": [collector]}))
        else:
            within(collector, lambda: [call(layers, method, arguments) for method, arguments, *_ in CALLS])
        [turn] = collector.roots
        seen = [(run.name, run.run_type, run.inputs, run.outputs, where(run)) for run in turn.child_runs]
        assert seen == [
            (f"memory.{name}", "chain", {**MAIN, **inputs}, outputs, FOUND) for _, _, name, inputs, outputs in CALLS
        ]
        assert [run.child_runs for run in turn.child_runs] == [[]] * len(CALLS)

    def test_that_fails_is_a_run_that_failed(self, collector, memory):
        layers = memory.layers("main", settings=LayersConfig(core_max_chars=3))

        def work():
            with pytest.raises(InvalidInput):
                layers.core.set("key", "value")

        within(collector, work)
        run = collector.run("memory.core.set")
        assert "has no room" in run.error
        assert (run.inputs["entries"][0]["key"], run.outputs) == ("key", {})

    def test_long_texts_and_lists_are_cut(self, collector, layers):
        layers.write(recall=[f"event {number}" for number in range(30)])
        within(collector, lambda: [layers.archival.write("x" * 5_000), layers.recall.recent(None)])
        written, recent = collector.roots[0].child_runs
        assert len(written.inputs["content"]) < 400
        assert written.inputs["characters"] == 5_000
        assert (recent.outputs["count"], len(recent.outputs["events"])) == (30, 20)


class TestWhatIsMadeOfSeveral:
    def test_a_consolidation_shows_the_model_s_work_and_what_was_written(self, collector, memory):
        settings = LayersConfig(recall_max_events=2, core_max_chars=10, section_budgets={"archival_snippet": 60})
        layers = memory.layers("main", namespace=("ada",), settings=settings, model=ScriptedModel("much was said"))
        layers.write(recall=["one " * 20, "two", "three"])
        layers.core.set("k", "1234567", importance=1)
        within(collector, layers.consolidate)
        assert trees(collector) == [
            "turn",
            "  memory.layers.consolidate",
            "    memory.recall.consolidate",
            "      memory.layers.compress",
            "        ScriptedModel",
            "    memory.core.relieve",
        ]
        whole = collector.run("memory.layers.consolidate").outputs
        assert (whole["level"], whole["events"], whole["evicted"]) == ("critical", 1, ["k"])
        assert collector.run("memory.recall.consolidate").outputs["record_ids"] == whole["record_ids"]
        assert collector.run("memory.core.relieve").outputs == {"evicted": ["k"]}

    def test_a_diff_says_how_much_differs(self, collector, layers):
        layers.fork("try").archival.write("A fig", ["garden"])
        within(collector, lambda: layers.diff("try"))
        nothing = {"mine": 0, "theirs": 0, "changed": 0}
        assert collector.run("memory.layers.diff").outputs == {"archival": nothing | {"theirs": 1}}


class TestInjection:
    def test_in_a_chain_it_says_what_was_put_in_and_why(self, collector, memory, layers):
        layers.core.set("name", "Ada")
        layers.recall.append("said", "Ada waters figs")
        layers.archival.write("Ada planted a fig")
        memory.conversation("chat", namespace=("ada",)).add(HumanMessage("Figs are ripe in August."))
        chain = memory.inject("main", namespace=("ada",)) | RunnableLambda(len)
        chain.invoke([HumanMessage("When are figs ripe?")], {"callbacks": [collector]})
        run = collector.run("memory.injection.inject")
        assert run.inputs == {
            **MAIN,
            "query": "When are figs ripe?",
            "messages": 1,
            "limit": 8,
        }
        outputs = run.outputs
        assert (outputs["core"], outputs["event_ids"]) == (["name"], ["id-1"])
        assert [(each["kind"], each["text"]) for each in outputs["records"]] == [
            ("record", "Ada planted a fig"),
            ("message", "Figs are ripe in August."),
        ]
        assert all(each["score"] > 0 and each["why"] for each in outputs["records"])
        texts = collector.run("MemoryInjection").outputs["output"]
        assert 0 < outputs["characters"] < sum(len(each.text) for each in texts)
        assert {run.name: run.run_type for run in collector.ours() if "search" in run.name} == {
            "memory.archival.search": "retriever",
            "memory.facts.search": "retriever",
            "memory.retrieval.search": "retriever",
        }
        assert where(run) == FOUND


class TestWithheldContent:
    @pytest.fixture
    def seen(self, new_database, new_id, collector):
        """Everything done, with one word in all that is content, and a tracer that saw it."""

        def do(shown):
            with AgentMemory(new_database("sqlite"), trace_content=shown, new_id=new_id) as memory:
                settings = LayersConfig(core_max_chars=60)
                model = ScriptedModel(f"{WORD} in short")
                layers = memory.layers("main", namespace=("ada",), settings=settings, model=model)

                def work():
                    layers.core.set("status", WORD)
                    layers.core.set(f"{WORD}", "much " * 20)
                    layers.core.get(["status", WORD])
                    layers.core.entries()
                    layers.recall.append(WORD, f"{WORD} came")
                    layers.recall.recent(kind=WORD)
                    layers.recall.search(WORD)
                    layers.archival.write(f"{WORD} " * 9, [WORD])
                    layers.archival.all([WORD])
                    layers.archival.search(WORD)
                    layers.write({"kind": WORD}, {"kind": WORD, "content": WORD}, {"content": WORD, "tags": [WORD]})
                    layers.fork("try").core.set("status", f"{WORD}!")
                    layers.core.set("status", f"{WORD}?")
                    layers.recall.summarize(WORD, 0)
                    layers.format_for_prompt(WORD)
                    layers.context(WORD)
                    layers.resources.track_usage(WORD, "read", WORD)
                    with pytest.raises(InvalidInput, match="'try'"):
                        layers.fork("try")
                    memory.inject("main", namespace=("ada",)).invoke([HumanMessage(WORD)])
                    asyncio.run(memory.inject("main", namespace=("ada",)).ainvoke([HumanMessage(WORD)]))

                RunnableLambda(lambda _: work(), name="turn").invoke(None, {"callbacks": [collector]})
            return collector

        return do

    def test_is_nowhere_in_what_is_ours(self, seen):
        collector = seen(shown=False)
        ours = collector.ours()
        assert [run.name for run in ours if WORD in dumped([run])] == []
        [failed] = [run for run in ours if run.error]
        assert "'try'" not in failed.error
        names = [run.name for run in collector.runs]
        assert len(ours) > 30
        assert {"MemoryInjection", "ScriptedModel"}.isdisjoint(names)
        assert names.count("memory.injection.inject") == 2
        injected = next(run for run in ours if run.name == "memory.injection.inject")
        assert injected.inputs["branch"] == "main"
        assert [each["id"] for each in injected.outputs["records"]]

    def test_is_there_otherwise(self, seen):
        collector = seen(shown=True)
        assert WORD in dumped(collector.ours())
        names = [run.name for run in collector.runs]
        assert names.count("MemoryInjection") == 2
        assert "ScriptedModel" in names

    def test_may_be_masked_instead(self, seen):
        collector = seen(shown=lambda text: text.replace(WORD, "***"))
        assert [run.name for run in collector.ours() if WORD in dumped([run])] == []
        assert "***" in collector.runs[1].inputs["entries"][0]["value"]
