"""What compactions do can be seen where it happens: each is one run, with the model's calls and what was written."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers import context as tracers
from langchain_core.tracers.base import BaseTracer

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import (
    CompactionMiddleware,
    ManagedMemoryConfig,
    messages_behind,
    summary_in,
)
from langchain_agentmem.compaction.role_compactor import CompactorConfig, ContextCompactor
from langchain_agentmem.language_models.tokens import TokenCounter
from tests.compaction.summarizers import Summarizer, budget, question, talk
from tests.compaction.test_middleware import Scripted, calling
from tests.compaction.test_node import build

CONFIG = budget(600)
BUDGET = {"threshold_tokens": 600, "target_tokens": 360}
COUNTER = TokenCounter("estimate")
HERE = {"conversation_id": "t", "namespace": ["ada"]}
FOUND = {"agentmem_database": "sqlite", "conversation_id": "t", "agentmem_namespace": "ada"}
SUMMARY = "Summary number 1: many things were counted, one after the other."
COMPACT, RECORD, SUMMARIZE = "memory.compaction.compact", "memory.compaction.record", "memory.compaction.summarize"
WHEN = ("before", "after")
LIMIT = 60
"""Seconds in which whatever happens in the background has happened."""


class Collector(BaseTracer):
    """A LangChain tracer that keeps the finished trees."""

    def __init__(self):
        super().__init__()
        self.roots: list[Any] = []

    def _persist_run(self, run):
        self.roots.append(run)

    def named(self, name):
        return [run for run in self.runs() if run.name == name]

    def runs(self):
        waiting = [*self.roots]
        while waiting:
            run = waiting.pop(0)
            yield run
            waiting += run.child_runs


def shape(run):
    return (run.name, [shape(child) for child in run.child_runs]) if run.child_runs else run.name


def ids(messages):
    """How many messages there are, and which the first of them are."""
    return {"count": len(messages), "ids": [each.id for each in messages[:20]]}


def unchanged(tokens, messages):
    """The outputs of a step that had nothing to do."""
    sizes = {f"{name}_{when}": n for name, n in (("tokens", tokens), ("messages", messages)) for when in WHEN}
    return {"status": "nothing to do", **sizes}


def metadata(run):
    return run.extra["metadata"]


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def memory():
    with AgentMemory(":memory:", record=()) as memory:  # what the checkpointer recorded is not recorded again
        yield memory


@pytest.fixture(params=["waiting", "awaiting"])
def call(request, collector):
    """Invokes a Runnable on a thread, with the collector listening; once for each way to wait."""

    def invoke(runnable, given, **configurable):
        config = {"configurable": configurable, "callbacks": [collector]}
        return (
            runnable.invoke(given, config)
            if request.param == "waiting"
            else asyncio.run(runnable.ainvoke(given, config))
        )

    return invoke


def of_thread(thread="t"):
    return {"thread_id": thread, "agentmem_namespace": ("ada",)}


class TestATurn:
    def test_in_a_graph_is_one_run_with_what_was_recorded_and_what_the_model_was_asked(self, memory, collector, call):
        graph, shown = build(memory, memory.compaction(Summarizer(), CONFIG))
        before = [*talk(15), question(15)]
        call(graph, {"messages": before}, **of_thread())
        compact, answer = collector.roots[0].child_runs
        assert (shape(compact), answer.name) == (
            ("node0", [("CompactionNode", [(COMPACT, [RECORD, SUMMARIZE])])]),
            "answer",
        )
        [step] = collector.named(COMPACT)
        assert step.run_type == "chain"
        assert step.inputs == {**HERE, "trigger": "turn", "messages": len(before), **BUDGET}
        summary = next(each for each in shown[-1] if summary_in(each))
        assert step.outputs == {
            "status": "compacted",
            "tokens_before": COUNTER.count(before),
            "tokens_after": COUNTER.count(shown[-1]),
            "messages_before": len(before),
            "messages_after": len(shown[-1]),
            "processors": ["tool_truncation", "summarization"],
            "dropped": summary_in(summary).stands_for,
            "summary_id": summary.id,
            "summary": SUMMARY,
        }
        where = metadata(step)
        assert FOUND.items() <= where.items()
        assert where["thread_id"] == "t"
        history = list(memory.checkpointer.list({"configurable": {"thread_id": "t"}}))
        assert where["checkpoint_id"] in {each.config["configurable"]["checkpoint_id"] for each in history}
        record, summarize = step.child_runs
        assert (record.inputs, record.outputs) == ({**HERE, "messages": 31}, ids(before))
        assert summarize.inputs["messages"] == 2
        assert json.loads(summarize.outputs["answer"])["summary"] == SUMMARY

    def test_without_anything_to_do_is_one_short_run(self, memory, collector, call):
        node, history = memory.compaction(Summarizer(), CONFIG), talk(4)
        for _ in range(2):
            call(node, history, **of_thread())
        first, second = collector.roots
        assert shape(first) == ("CompactionNode", [(COMPACT, [RECORD])])
        assert first.child_runs[0].child_runs[0].outputs == ids(history)
        assert shape(second) == ("CompactionNode", [COMPACT])
        assert second.child_runs[0].outputs == unchanged(COUNTER.count(history), 8)

    def test_in_a_chain_without_a_thread_records_nothing(self, memory, collector, call):
        shown = call(memory.compaction(Summarizer(), CONFIG), talk(20))
        assert shape(collector.roots[0]) == ("CompactionNode", [(COMPACT, [SUMMARIZE])])
        [step] = collector.named(COMPACT)
        assert step.inputs == {"trigger": "turn", "messages": 40, **BUDGET}
        assert step.outputs["messages_after"] == len(shown)
        assert metadata(step) == {"agentmem_database": "sqlite"}

    def test_tells_that_the_model_failed_and_what_came_of_it(self, memory, collector, call):
        def failing(messages):
            raise ConnectionError("nobody answers")

        call(memory.compaction(failing, CONFIG), talk(20), **of_thread())
        [step] = collector.named(COMPACT)
        assert step.error is None
        assert step.outputs["status"] == "compacted"
        assert step.outputs["failures"] == [{"stage": "summarization", "error_type": "ConnectionError"}]
        assert step.outputs["summary"].startswith("(16 messages not listed)")
        assert "nobody answers" in collector.named(SUMMARIZE)[0].error

    def test_tells_that_it_fell_short_or_failed(self, memory, collector, call, raw):
        huge = [HumanMessage(f"One {'word ' * 2_000}", id="q")]
        node = memory.compaction(Summarizer(), CONFIG)
        call(node, huge, **of_thread())
        told = collector.named(COMPACT)[0].outputs
        assert told["fell_short"].startswith(f"{COUNTER.count(huge)} tokens in 1 messages are left")
        assert {"summary_id", "summary", "failures"}.isdisjoint(told)
        raw(memory, "ALTER TABLE content RENAME TO gone")
        with pytest.raises(Exception, match="no such table"):
            call(node, talk(1), **of_thread())
        assert [run.name for run in collector.runs() if run.error] == ["CompactionNode", COMPACT, RECORD]


class TestAnAgent:
    def test_shows_a_recovery_between_the_call_that_was_refused_and_the_next(self, memory, collector, call):
        model = Scripted(limit=1_500)
        large = ManagedMemoryConfig(token_counter="estimate")
        agent = create_agent(model, middleware=[CompactionMiddleware(memory, Summarizer(), large, tools=False)])
        call(agent, {"messages": [*talk(40), question(40)]}, **of_thread())
        [turn] = collector.named("model")
        assert shape(turn) == (
            "model",
            [(COMPACT, [RECORD]), "Scripted", ("memory.compaction.recover", [SUMMARIZE]), "Scripted"],
        )
        compact, refused, recover, answered = turn.child_runs
        assert compact.outputs["status"] == "nothing to do"
        assert (bool(refused.error), bool(answered.error)) == (True, False)
        assert recover.inputs == {**HERE, "trigger": "refused", "provider": None, "attempt": 1, "messages": 81}
        told = recover.outputs
        shown = model.shown[-1]
        assert (told["status"], told["processors"]) == ("compacted", ["summarization"])
        assert (told["messages_before"], told["messages_after"]) == (81, len(shown))
        assert (told["tokens_before"], told["tokens_after"]) == (COUNTER.count(model.shown[0]), COUNTER.count(shown))
        assert told["bytes_before"] > told["bytes_after"] > 0
        assert told["summary_id"] == next(each.id for each in shown if summary_in(each))

    def test_shows_what_the_tools_looked_for_and_found(self, memory, collector, call):
        replies = iter(
            [calling("recall_dropped", query="basket", limit=1), calling("expand", id="q-1"), AIMessage("7")]
        )
        agent = create_agent(
            Scripted(lambda messages: next(replies)), memory.tools(include=["recall_dropped", "expand"])
        )
        memory.compaction(config=CONFIG).invoke(talk(2), {"configurable": of_thread()})
        call(agent, {"messages": [HumanMessage("How many?")]}, **of_thread())
        assert shape(collector.named("recall_dropped")[0]) == ("recall_dropped", ["memory.compaction.recall"])
        assert shape(collector.named("expand")[0]) == ("expand", ["memory.compaction.expand"])
        [recall] = collector.named("memory.compaction.recall")
        assert recall.run_type == "retriever"
        assert recall.inputs == {"query": "basket"}
        [found] = recall.outputs["documents"]
        assert found.id in {"q-0", "q-1"}
        assert found.page_content == question(int(found.id[-1])).text
        assert found.metadata["score"] > 0
        assert {**FOUND, "limit": 1, "thread_id": "t"}.items() <= metadata(recall).items()
        [expand] = collector.named("memory.compaction.expand")
        assert expand.inputs == {**HERE, "id": "q-1", "page": 1}
        assert expand.outputs == {"status": "found", "count": 1, "ids": ["q-1"], "characters": len(question(1).text)}
        assert FOUND.items() <= metadata(expand).items()


def test_a_conversation_in_plain_code_shows_what_was_done_and_why(memory):
    def runs(chat, method, *given):
        with tracers.collect_runs() as heard:
            getattr(chat, method)(*given)
        return heard.traced_runs

    chat = memory.managed_conversation(
        "t", namespace=("ada",), model=Summarizer(), config=replace(CONFIG, trigger_events=["get_messages"])
    )
    chat.add_messages(talk(20))
    [first], [second] = runs(chat, "get_context"), runs(chat, "get_context")
    assert shape(first) == ("memory.conversation.context", [(COMPACT, [SUMMARIZE])])
    assert shape(second) == "memory.conversation.context"
    shown = chat.get_context()
    size = {"messages": len(shown), "tokens": COUNTER.count(shown)}
    assert (first.inputs, first.outputs) == (HERE, {**size, "compacted": True})
    assert (second.inputs, second.outputs) == (HERE, {**size, "compacted": False})
    assert metadata(first) == FOUND
    [step] = first.child_runs
    assert step.inputs == {**HERE, "trigger": "get_messages"}
    assert (step.outputs["status"], step.outputs["summary_id"]) == ("compacted", shown[1].id)
    [step] = runs(chat, "compact_if_needed")
    assert (step.inputs, step.outputs) == (
        {**HERE, "trigger": "compact_if_needed"},
        unchanged(*reversed(size.values())),
    )
    chat.add_messages(talk(20, "more "))
    [step] = runs(chat, "compact_for_payload_error", {"provider": "openai"})
    assert shape(step) == ("memory.compaction.recover", [SUMMARIZE])
    assert step.inputs == {**HERE, "trigger": "refused", "provider": "openai"}
    assert step.outputs["bytes_before"] > step.outputs["bytes_after"]
    nothing = memory.managed_conversation("empty")
    assert runs(nothing, "compact_for_payload_error")[-1].outputs == {"status": "nothing to do"}
    chat = memory.managed_conversation("added", model=Summarizer(), config=replace(CONFIG, trigger_events=["add"]))
    *_, step = runs(chat, "add_messages", talk(20))
    assert (shape(step), step.inputs["trigger"]) == ((COMPACT, [SUMMARIZE]), "add")


class TestInTheBackground:
    @pytest.fixture
    def everywhere(self, collector, monkeypatch):
        """The collector listens in every thread of the process, as LangSmith's tracer does."""
        listening = ContextVar("listening", default=collector)
        monkeypatch.setattr(tracers, "_configure_hooks", [(listening, True, None, None)])
        return collector

    def test_the_summary_of_a_roles_rounds_is_a_run_of_its_own(self, memory, everywhere):
        session = memory.session("t", namespace=("ada",))
        compactor = ContextCompactor(session, "Planner", Summarizer(), CompactorConfig(threshold=3, retain_recent=1))
        for number in range(4):
            new = session.create_round(f"query {number}")
            session.add_post(new.id, send_from="User", send_to="Planner", message=f"Question {number}.")
            session.add_post(new.id, send_from="Planner", send_to="User", message=f"Answer {number}.")
            session.finish_round(new.id)
        everywhere.roots.clear()
        writing = RunnableLambda(lambda _: compactor.start(), name="writing")
        try:
            writing.invoke("")
            assert compactor.wait(LIMIT)
        finally:
            compactor.stop()
        step = next(run for run in everywhere.roots if run.name == COMPACT)
        assert shape(next(run for run in everywhere.roots if run.name == "writing")) == "writing"
        assert (shape(step), step.parent_run_id) == ((COMPACT, [SUMMARIZE]), None)
        assert step.inputs == {**HERE, "trigger": "rounds", "role": "Planner"}
        assert (step.outputs["status"], step.outputs["summary"]) == ("compacted", SUMMARY)
        assert step.outputs["messages_after"] == 1
        assert metadata(step) == FOUND


class TestWhatIsWithheld:
    @pytest.mark.parametrize("content", [False, lambda text: "…"], ids=["all of it", "by a function"])
    def test_is_whatever_was_said(self, collector, call, content):
        class Marked(Summarizer):
            def __call__(self, messages):
                return super().__call__(messages).replace("many things", "sesame things")

        said = [HumanMessage(f"The password is sesame {number}.") for number in range(80)]
        with AgentMemory(":memory:", trace_content=content) as memory:
            node = memory.compaction(Marked(), CONFIG)
            shown = call(node, said, **of_thread())
            chat = memory.managed_conversation("c", namespace=("ada",), config=CONFIG, model=Marked())
            with tracers.collect_runs() as heard:
                chat.add_messages(said)
                chat.get_context()
                chat.compact_for_payload_error()
                messages_behind(memory, chat.get_context()[1], conversation_id="c", namespace=("ada",))
            recall, expand = memory.tools(include=["recall_dropped", "expand"])
            call(recall, {"query": "sesame"}, **of_thread())
            call(expand, {"id": "sum-x"}, **of_thread())
        assert any("sesame" in str(summary_in(each)) for each in shown)
        assert [shape(run) for run in collector.roots] == [
            (COMPACT, [RECORD, SUMMARIZE]),
            ("recall_dropped", ["memory.compaction.recall"]),
            ("expand", ["memory.compaction.expand"]),
        ]
        collector.roots += heard.traced_runs
        ours = [run for run in collector.runs() if run.name.startswith("memory.")]
        assert {"memory.compaction.recover", "memory.conversation.context"} < {run.name for run in ours}
        assert not [run for run in ours if "sesame" in repr((run.inputs, run.outputs, run.extra, run.error))]
        [step] = [run for run in collector.roots if run.name == COMPACT and run.inputs.get("trigger") == "turn"]
        assert {
            "status": "compacted",
            "processors": ["tool_truncation", "summarization"],
        }.items() <= step.outputs.items()

    def test_is_not_shown_by_langchain_either_and_the_step_stands_in_the_nodes_place(self, collector, call):
        with AgentMemory(":memory:", trace_content=False) as memory:
            graph, _ = build(memory, memory.compaction(Summarizer(), CONFIG))
            call(graph, {"messages": [question(0)]}, **of_thread())
        assert shape(collector.roots[0]) == ("LangGraph", [("node0", [(COMPACT, [RECORD])]), "answer"])

    @pytest.mark.parametrize(
        ("content", "told"), [(False, "RuntimeError: <9 characters>"), (True, "RuntimeError('no sesame')")]
    )
    def test_is_what_a_stage_that_failed_quotes_to_the_custom_stream(self, content, told):
        def fail(messages):
            raise RuntimeError("no sesame")

        with AgentMemory(":memory:", trace_content=content) as memory:
            graph, _ = build(memory, memory.compaction(fail, CONFIG))
            streamed = list(graph.stream({"messages": talk(15)}, {"configurable": of_thread()}, stream_mode="custom"))
        assert [each["error"] for each in streamed if each["event"] == "CompactionStageFailed"] == [told]
        assert ("sesame" in repr(streamed)) == content
