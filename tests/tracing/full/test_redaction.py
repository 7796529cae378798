"""Redaction with every kind of tracer attached."""

from contextvars import ContextVar
from functools import partial

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers import context
from langchain_core.tracers.context import collect_runs, register_configure_hook, tracing_v2_enabled
from langsmith import traceable, tracing_context

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.language_models.model_calls import ask_model
from tests.tracing.agent import agent, converse, scripted
from tests.tracing.loopback import arrive
from tests.tracing.test_redaction import dumped, quoted
from tests.tracing.trees import Collector, shape


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

    @staticmethod
    def asked(database, model=None):
        for timeout in (None, 60):  # with a limit it is asked in a thread
            ask_model(
                database, model or scripted("summarizer"), [SystemMessage("Ana")], "compaction.summarize", timeout
            )

    @pytest.fixture
    def database(self, redacted_memory):
        return redacted_memory.database

    @pytest.mark.parametrize("way", ["callbacks", "collect_runs", "hook", "tracing_v2_enabled", "traceable"])
    async def test_model_calls_are_hidden_from_every_tracer(self, database, way, client, server, monkeypatch):
        monkeypatch.setattr(context, "_configure_hooks", [*context._configure_hooks])
        watchful, collector = Watchful(), Collector()

        async def both(_):
            self.asked(database)
            await run_in_worker(partial(self.asked, database))

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

    def test_tracers_hear_other_models_after_a_failure(self, database, collector):
        def fail(messages):
            raise RuntimeError("Ana")

        def node(_):
            with pytest.raises(RuntimeError):
                self.asked(database, fail)
            scripted("summarizer").invoke("What tea?")

        with collect_runs() as collected:
            RunnableLambda(node).invoke(None, {"callbacks": [collector]})
            self.asked(database)
            scripted("summarizer").invoke("What tea?")

        assert [run.name for run in collected.traced_runs][-1] == "Scripted"
        assert collector.shapes == [("node", [("memory.compaction.summarize", []), ("Scripted", [])])]
        assert "RedactedError('RuntimeError: <3 characters>')" in collector.run("memory.compaction.summarize").error


class TestAgent:
    def test_environment_tracing_sends_no_content(self, redacted_memory, tmp_path, server, langsmith_on):
        converse(agent(redacted_memory, tmp_path / "experience"))
        arrive(langsmith_on)

        ours = [run for run in server.runs.values() if run["name"].startswith("memory.")]
        beneath = [child for run in ours for child in server.children(run["id"])]
        assert len(ours) > 20
        assert {run["name"][:7] for run in beneath} <= {"memory."}
        assert [quoted(dumped(run)) for run in ours] == [[]] * len(ours)

    def test_token_usage_and_audited_calls_survive_redaction(self, tmp_path):
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
