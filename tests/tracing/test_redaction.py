"""What was said and remembered is left out of traces, or masked, where the user wants that; what happened is shown."""

import json
import re

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import collect_runs, register_configure_hook, tracing_v2_enabled
from langsmith import traceable, tracing_context

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import Hooks
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Ask, aperform, perform
from langchain_agentmem.tracing import Tracing
from tests.conftest import CountingIds, SteppingClock

from .agent import ANSWERS, CONFIG, OWN_WORDS, TURNS, aconverse, agent, converse, scripted
from .loopback import arrive
from .trees import Collector, shape, walk

CONTENT = ("tea", "Ana", "Lisbon", "sister", "Name one thing only", "bring a gift", *OWN_WORDS[:1], "predicate")
"""Words that stand only in what was said and remembered."""


def quoted(dumped):
    """Which content is quoted; names of tools, steps and experiences are none."""
    return [word for word in CONTENT if re.search(rf"\b{word}\b", dumped)]


def dumped(run):
    return json.dumps(run, default=str)


def all_of(run):
    """Everything that a trace holds of a run, and of what is beneath it."""
    return "\n".join(
        dumped([each.name, each.inputs, each.outputs, each.error, each.extra, each.events, each.tags, each.serialized])
        for each in walk(run)
    )


def highest_of_ours(roots):
    """The steps of memory that are beneath no other."""
    for root in roots:
        if root.name.startswith("memory."):
            yield root
        else:
            yield from highest_of_ours(root.child_runs)


@pytest.fixture
def withheld(tmp_path, heard):
    with AgentMemory(tmp_path / "a.db", hooks=[heard.append], trace_content=False) as memory:
        yield memory


class TestAgent:
    """The whole agent, of which everything that memory shows is looked through."""

    def test_nothing_that_was_said_is_shown(self, withheld, tmp_path, collector, heard):
        graph = agent(withheld, tmp_path / "experience")
        answers, streamed = [], []
        for turn in TURNS:
            for mode, event in graph.stream(
                {"messages": [HumanMessage(turn)]},
                {**CONFIG, "callbacks": [collector]},
                stream_mode=["custom", "values"],
            ):
                if mode == "custom":
                    streamed.append(event)
                else:
                    answers.append(event["messages"][-1].text)

        assert [answer for answer in answers if answer in ANSWERS] == [*ANSWERS]
        shown = list(highest_of_ours(collector.roots))
        assert len(shown) > 20
        assert [quoted(all_of(run)) for run in shown] == [[]] * len(shown)
        assert {run.name[:7] for each in shown for run in walk(each)} == {"memory."}  # no model's own runs
        assert quoted(dumped(streamed)) == []
        steps = [event for event in heard if type(event).__name__.startswith("Step")]
        assert len(steps) > 20
        assert quoted(dumped(list(map(str, steps)))) == []

    async def test_nor_where_it_is_awaited(self, withheld, tmp_path, collector):
        graph = agent(withheld, tmp_path / "experience")
        assert await aconverse(graph, callbacks=[collector]) == [*ANSWERS]

        shown = list(highest_of_ours(collector.roots))
        assert [quoted(all_of(run)) for run in shown] == [[]] * len(shown)
        assert {run.name[:7] for each in shown for run in walk(each)} == {"memory."}

    def test_everything_else_is_shown_as_before(self, tmp_path):
        seen = {}
        for shown in (True, False):
            collector = Collector()
            # Where the checkpointer records, too, whoever comes first does.
            options = {"clock": SteppingClock(), "new_id": CountingIds(), "trace_content": shown, "record": ()}
            with AgentMemory(tmp_path / f"{shown}.db", **options) as memory:
                converse(agent(memory, tmp_path / "experience"), callbacks=[collector])
            seen[shown] = [
                (run.name, run.run_type, numbers(run.inputs), numbers(run.outputs)) for run in collector.ours()
            ]
        assert seen[True] == seen[False]

    def test_nothing_reaches_langsmith_by_the_environment(self, withheld, tmp_path, server, langsmith_on):
        converse(agent(withheld, tmp_path / "experience"))
        arrive(langsmith_on)

        ours = [run for run in server.runs.values() if run["name"].startswith("memory.")]
        beneath = [child for run in ours for child in server.children(run["id"])]
        assert len(ours) > 20
        assert {run["name"][:7] for run in beneath} <= {"memory."}
        assert [quoted(dumped(run)) for run in ours] == [[]] * len(ours)

    def test_tokens_are_counted_and_calls_are_kept_all_the_same(self, tmp_path):
        counted, kept = [], []
        for shown in (True, False):
            usage = UsageMetadataCallbackHandler()
            with (
                AgentMemory(tmp_path / f"{shown}.db", trace_content=shown) as memory,
                get_usage_metadata_callback() as surrounding,
            ):
                graph = agent(memory, tmp_path / "experience")
                converse(graph, callbacks=[usage, memory.audit.handler()])
                kept.append(memory.admin.stats()["audit"])
            assert usage.usage_metadata == surrounding.usage_metadata
            assert {"agent", "summarizer", "chooser", "extractor"} == set(usage.usage_metadata)
            counted.append(usage.usage_metadata)

        assert counted[0] == counted[1]
        assert kept[0] == kept[1] > 0


def numbers(values):
    """Every number and key of some values, in their order, without the texts, and tokens, as random ids count too."""
    if isinstance(values, dict):
        return [(key, numbers(value)) for key, value in values.items() if not key.startswith("tokens_")]
    if isinstance(values, list | tuple):
        return [numbers(each) for each in values]
    return values if isinstance(values, int | float) else None


class Watchful(BaseCallbackHandler):
    """Hears every model."""

    def __init__(self):
        self.heard = []

    def on_chat_model_start(self, serialized, messages, **_):
        self.heard.append(messages)

    def on_chain_start(self, serialized, inputs, **_):
        self.heard.append(inputs)


class TestModels:
    """The calls of memory's models, which LangChain would show with every word."""

    ASK = Ask(scripted("summarizer"), [SystemMessage("Ana")], "compaction.summarize")

    def asked(self):
        yield self.ASK
        yield self.ASK._replace(timeout=60)  # asked in a thread

    @pytest.fixture
    def database(self, withheld):
        return withheld.database

    @pytest.mark.parametrize("way", ["callbacks", "collect_runs", "hook", "tracing_v2_enabled", "traceable"])
    async def test_no_tracer_hears_them_however_it_was_attached(self, database, way, client, server, monkeypatch):
        from contextvars import ContextVar

        from langchain_core.tracers import context

        monkeypatch.setattr(context, "_configure_hooks", [*context._configure_hooks])
        watchful, collector = Watchful(), Collector()

        async def both(_):
            perform(self.asked(), database)
            await aperform(self.asked(), database)

        if way == "callbacks":
            await RunnableLambda(both).ainvoke(None, {"callbacks": [collector, watchful]})
            assert collector.shapes == [("both", [("memory.compaction.summarize", [])] * 4)]
        elif way == "collect_runs":
            with collect_runs() as collected:
                await both(None)
            assert [shape(run) for run in collected.traced_runs] == [("memory.compaction.summarize", [])] * 4
        elif way == "hook":
            variable = ContextVar("watchful", default=None)
            register_configure_hook(variable, inheritable=True)
            variable.set(watchful)
            await both(None)
            assert [inputs["messages"] for inputs in watchful.heard] == [1] * 4
        elif way == "tracing_v2_enabled":
            with tracing_v2_enabled(client=client):
                await both(None)
        else:
            with tracing_context(enabled=True, client=client):
                await traceable(name="mine")(both)(None)

        arrive(client)
        assert "Ana" not in dumped([server.runs, watchful.heard])
        assert {run["name"] for run in server.runs.values()} <= {"mine", "memory.compaction.summarize"}

    def test_after_a_call_everybody_hears_again(self, database, collector):
        def twice(_):
            perform(self.asked(), database)
            scripted("summarizer").invoke("What tea?")

        with collect_runs() as collected:
            RunnableLambda(twice).invoke(None, {"callbacks": [collector]})
            scripted("summarizer").invoke("What tea?")

        assert [run.name for run in collector.runs][-1] == "Scripted"
        assert [run.name for run in collected.traced_runs][-1] == "Scripted"

    def test_a_model_that_fails_gives_the_surroundings_back(self, database, collector):
        def fail(messages):
            raise RuntimeError("Ana")

        def work():
            yield self.ASK._replace(model=fail)

        def node(_):
            with pytest.raises(RuntimeError):
                perform(work(), database)
            scripted("summarizer").invoke("What tea?")

        RunnableLambda(node).invoke(None, {"callbacks": [collector]})

        assert collector.shapes == [("node", [("memory.compaction.summarize", []), ("Scripted", [])])]
        assert collector.run("memory.compaction.summarize").error.startswith("Withheld('RuntimeError: <3 characters>')")


def searched(tracing, config, text="Ana lives in Lisbon.", error=None):
    """A search that shows a bit of everything."""
    options = {"query": text, "limit": 3, "kinds": ["fact"], "thread_id": "t1", "tags": [text]}
    with tracing.step("memory.store.search", run_type="retriever", inputs=lambda: options, config=config) as step:
        if error is not None:
            raise error
        step.finish(
            lambda: {
                "documents": [
                    {"id": "m1", "page_content": text, "metadata": {"kind": "fact", "score": 0.5, "why": text}}
                ]
            }
        )


class TestValues:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (False, "<20 characters>"),
            (lambda text: text.upper(), "ANA LIVES IN LISBON."),
            (True, "Ana lives in Lisbon."),
        ],
    )
    def test_texts_are_shown_as_wanted_and_names_and_numbers_always(self, collector, traced_by, heard, content, told):
        searched(Tracing(Hooks([heard.append]), {"agentmem_database": "sqlite"}, content=content), traced_by)

        (run,) = collector.roots
        assert run.inputs == {"query": told}
        assert run.extra["metadata"] == {
            "agentmem_database": "sqlite",
            "limit": 3,
            "kinds": ["fact"],
            "thread_id": "t1",
            "tags": [told],
        }
        (document,) = run.outputs["documents"]
        assert (document.id, document.page_content) == ("m1", told)
        assert document.metadata == {"kind": "fact", "score": 0.5, "why": told}
        assert [event.inputs["query"] for event in heard] == [told] * 2

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (False, "<38 characters>"),
            (lambda text: text.replace("Ana", "***"), '{"status": "*** is ill", "user_id": 7}'),
        ],
    )
    def test_what_a_user_gave_is_content_whatever_its_keys(self, collector, traced_by, content, told):
        value = {"status": "Ana is ill", "user_id": 7}
        with Tracing(content=content).step(
            "memory.store.put", inputs=lambda: {"namespace": ("ada",), "value": value}, config=traced_by
        ) as step:
            step.finish(lambda: {"value": [value], "status": "stored"})

        (run,) = collector.roots
        assert run.inputs == {"namespace": ["ada"], "value": told}
        assert run.outputs["status"] == "stored"
        assert "Ana" not in str(run.outputs)

    def test_the_key_of_an_item_is_content_where_it_is_put_and_where_it_is_found(self, withheld, collector, heard):
        def put_and_find(_):
            withheld.store.put(("ada",), "Ana", {"text": "tea of Lisbon"})
            assert withheld.store.search(("ada",), query="tea")[0].key == "Ana"
            assert withheld.search("tea", namespace=("ada",))[0].id == "Ana"
            assert "Lisbon" in str(withheld.inject().invoke("tea", CONFIG))

        RunnableLambda(put_and_find).invoke(None, {"callbacks": [collector]})

        (found,) = collector.run("memory.store.search").outputs["documents"]
        assert (found.id, found.metadata["id"], found.metadata["kind"]) == ("<3 characters>", "<3 characters>", "item")
        assert [quoted(all_of(run)) for run in collector.ours()] == [[]] * len(collector.ours())
        assert quoted(repr(heard)) == []

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_the_text_of_an_error_is_content(self, collector, traced_by, heard, caplog, asynchronous):
        mine = InvalidInput("Ana is no namespace.")
        mine.__cause__ = KeyError("Ana")
        tracing = Tracing(Hooks([heard.append]), content=False)

        async def fail():
            if not asynchronous:
                searched(tracing, traced_by, error=mine)
            async with tracing.step("memory.core.append", config=traced_by):
                raise mine

        with pytest.raises(InvalidInput) as raised:
            await fail()

        assert raised.value is mine
        assert "InvalidInput: <20 characters>" in collector.roots[0].error
        assert str(heard[-1].error) == "InvalidInput: <20 characters>"
        assert "Ana" not in collector.roots[0].error + repr(heard[-1]).replace("Ana lives in", "") + caplog.text

    def test_a_function_that_fails_lets_nothing_through(self, collector, traced_by, heard, caplog):
        def fail(text):
            raise ValueError(f"cannot mask {text}")

        tracing = Tracing(Hooks([heard.append]), {"agentmem_database": "sqlite"}, content=fail)
        searched(tracing, traced_by)
        with pytest.raises(InvalidInput):
            searched(tracing, traced_by, error=InvalidInput("Ana is no namespace."))

        good, failed = collector.roots
        assert (good.inputs, good.outputs) == ({"query": ""}, {"documents": []})
        assert "InvalidInput" in failed.error
        assert good.extra["metadata"]["agentmem_database"] == "sqlite"
        assert "cannot be shown" not in caplog.text
        everything = all_of(good) + all_of(failed) + "".join(map(repr, heard)) + caplog.text
        assert quoted(everything) == []
        assert caplog.text.count("Tracing failed") == 3

    def test_a_function_gives_text_whatever_it_returns(self, collector, traced_by):
        searched(Tracing(content=lambda text: None), traced_by)
        assert collector.roots[0].inputs == {"query": "None"}

    @pytest.mark.parametrize("content", [None, "no", 1, 0])
    def test_anything_else_is_refused(self, content):
        with pytest.raises(InvalidInput, match="trace_content must be True, False or a function"):
            Tracing(content=content)
        with pytest.raises(InvalidInput, match="trace_content must be True, False or a function"):
            AgentMemory(trace_content=content)
