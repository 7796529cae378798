"""Tracing of compactions: each is one run, with the calls of the model and the recorded messages."""

import json
from contextvars import ContextVar

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tracers import context as tracers

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import CompactionMiddleware, ManagedMemoryConfig, replaced_messages, summary_in
from langchain_agentmem.compaction.role_compactor import CompactorConfig, ContextCompactor
from tests.compaction.summarizers import COUNTER, AgentModel, Summarizer, budget, build, only_summary, question, talk
from tests.tracing.trees import shape

CONFIG = budget(600)
HERE = {"conversation_id": "t", "namespace": ["ada"]}
FOUND = {"agentmem_database": "sqlite", "conversation_id": "t", "agentmem_namespace": "ada"}
SUMMARY = "Summary number 1: many things were counted, one after the other."
COMPACT, RECORD, SUMMARIZE = (
    "memory.compaction.compact",
    ("memory.compaction.record", []),
    "memory.compaction.summarize",
)
RECOVER = "memory.compaction.recover"
THREAD = {"thread_id": "t", "agentmem_namespace": ("ada",)}
SUMMARIZED = (SUMMARIZE, [("Summarizer", [])])


@pytest.fixture
def call(do, collector):
    """Invokes a Runnable on a thread, with the collector listening."""
    config = {"configurable": THREAD, "callbacks": [collector]}
    return lambda runnable, given: do(runnable, "invoke", given, config)


@pytest.fixture
def memory():
    with AgentMemory(":memory:", record=()) as memory:  # what the checkpointer recorded is not recorded again
        yield memory


async def test_compaction_in_graph_is_one_traced_run(memory, collector, call):
    graph, shown = build(memory, memory.compaction(Summarizer(), CONFIG))
    before = [*talk(15), question(15)]
    await call(graph, {"messages": before})
    compact = collector.roots[0].child_runs[0]
    assert shape(compact) == ("node0", [("CompactionNode", [(COMPACT, [RECORD, SUMMARIZED])])])
    step = collector.run(COMPACT)
    limits = {"threshold_tokens": 600, "target_tokens": 360}
    assert (step.run_type, step.inputs) == ("chain", {**HERE, "trigger": "turn", "messages": len(before), **limits})
    summary = only_summary(shown[-1])
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
    assert {**FOUND, "thread_id": "t"}.items() <= step.extra["metadata"].items()
    record, summarize = step.child_runs
    assert (record.inputs, record.outputs["dropped"]) == ({**HERE, "messages": 31}, [])
    assert record.outputs["keys"][:20] == [each.id for each in before[:20]]
    assert json.loads(summarize.outputs["answer"])["summary"] == SUMMARY


async def test_overflow_recovery_is_traced_between_model_calls(memory, collector, call):
    model = AgentModel(limit=1_500)
    large = ManagedMemoryConfig(token_counter="estimate")
    agent = create_agent(model, middleware=[CompactionMiddleware(memory, Summarizer(), large, tools=False)])
    await call(agent, {"messages": [*talk(40), question(40)]})
    turn, asked = collector.run("model"), ("AgentModel", [])
    assert shape(turn) == ("model", [(COMPACT, [RECORD]), asked, (RECOVER, [SUMMARIZED]), asked])
    compact, refused, recover, answered = turn.child_runs
    assert (compact.outputs["status"], bool(refused.error), answered.error) == ("nothing to do", True, None)
    assert recover.inputs == {**HERE, "trigger": "refused", "provider": None, "attempt": 1, "messages": 81}
    told, shown = recover.outputs, model.asked[-1]
    assert (told["status"], told["messages_before"], told["messages_after"]) == ("compacted", 81, len(shown))
    assert (told["tokens_before"], told["tokens_after"]) == (COUNTER.count(model.asked[0]), COUNTER.count(shown))
    assert told["bytes_before"] > told["bytes_after"] > 0


def test_background_summary_is_a_separate_run(memory, collector, monkeypatch):
    listening = ContextVar("listening", default=collector)  # in every thread, as LangSmith's tracer does
    monkeypatch.setattr(tracers, "_configure_hooks", [(listening, True, None, None)])
    monkeypatch.setattr("langchain_agentmem.tracing.may_be_traced", lambda config: True)
    session = memory.session("t", namespace=("ada",))
    for number in range(4):
        session.finish_round(session.create_round(f"query {number}").id)
    compactor = ContextCompactor(session, "Planner", Summarizer(), CompactorConfig(threshold=3, retain_recent=1))
    compactor.start()
    assert compactor.wait(60)
    compactor.stop()
    step = next(run for run in collector.roots if run.name == COMPACT)
    assert (shape(step), step.inputs) == ((COMPACT, [SUMMARIZED]), {**HERE, "trigger": "rounds", "role": "Planner"})
    assert (step.outputs["summary"], step.outputs["messages_after"]) == (SUMMARY, 1)
    assert step.extra["metadata"] == FOUND


@pytest.mark.parametrize("content", [False, lambda text: "…"], ids=["all of it", "by a function"])
async def test_withheld_content_is_not_traced(collector, call, content):
    said = [HumanMessage(f"The password is sesame {number}.") for number in range(80)]
    with AgentMemory(":memory:", trace_content=content) as memory:
        model = Summarizer(things="sesame things").reply
        shown = await call(memory.compaction(model, CONFIG), said)
        chat = memory.managed_conversation("c", namespace=("ada",), config=CONFIG, model=model)
        with tracers.collect_runs() as heard:
            chat.add_messages(said)
            chat.get_context()
            chat.compact_for_payload_error()
            replaced_messages(memory, chat.get_context()[1], conversation_id="c", namespace=("ada",))
        recall, expand = memory.tools(include=["recall_dropped", "expand"])
        await call(recall, {"query": "sesame"})
        await call(expand, {"id": "sum-x"})
    assert any("sesame" in str(summary_in(each)) for each in shown)
    assert [shape(run) for run in collector.roots] == [
        (COMPACT, [RECORD, (SUMMARIZE, [])]),
        ("recall_dropped", [("memory.compaction.recall", [])]),
        ("expand", [("memory.compaction.expand", [])]),
    ]
    collector.roots += heard.traced_runs
    ours = collector.ours()
    assert {RECOVER, "memory.conversation.context"} < {run.name for run in ours}
    assert not [run for run in ours if "sesame" in repr((run.inputs, run.outputs, run.extra, run.error))]
