"""The audit handler records each model call of a graph and changes nothing else."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.audit.model_call_capture import UNFINISHED
from tests.support.graphs import at
from tests.support.models import LIMIT, StreamingModel

from .entries import echo, model_graph


@pytest.fixture
def handler(trail):
    return trail.handler()


def within(handler, thread, **configurable):
    return {"callbacks": [handler], **at(thread, **configurable)}


def say(text):
    return {"messages": [HumanMessage(text)]}


def chat(saver, reply=echo):
    return model_graph(StreamingModel(reply), saver)


def counted(messages):
    usage = {"input_tokens": 10 * len(messages), "output_tokens": 7, "total_tokens": 10 * len(messages) + 7}
    return AIMessage(f"You said: {messages[-1].text}", usage_metadata=usage)


@pytest.mark.sqlite_suffices
class TestChat:
    def test_every_model_call_is_recorded(self, memory, trail, handler):
        graph = chat(memory.checkpointer, counted)
        for thread in ("monday", "tuesday"):
            for text in ("Where is the heron?", "And the stork?"):
                graph.invoke(say(text), within(handler, thread))

        entries = trail.last(9)
        assert [(each.thread_id, each.prompt) for each in entries] == [
            (thread, text) for thread in ("monday", "tuesday") for text in ("Where is the heron?", "And the stork?")
        ]
        second = entries[1]
        assert (second.kind, second.reply, second.model) == ("call", "You said: And the stork?", "scripted-1")
        assert (second.input_tokens, second.output_tokens, second.error) == (30, 7, None)
        assert [each.text for each in second.messages] == [
            "Where is the heron?",
            "You said: Where is the heron?",
            "And the stork?",
            "You said: And the stork?",
        ]
        assert second.duration >= 0
        assert second.extra["node"] == "node0"
        assert second.extra["checkpoint_ns"].startswith("node0:")
        assert "tags" not in second.extra  # LangGraph counts steps by tags; the user gave none
        assert second.messages[:2] == entries[0].messages  # known again, ids and all
        assert None not in (second.run_id, second.parent_run_id)
        assert len({each.run_id for each in entries}) == 4
        assert trail.last(9, kinds=["call"]) == entries
        assert memory.admin.verify().ok

    def test_small_talk_is_hidden(self, memory, trail, handler):
        chat(memory.checkpointer, "You're welcome!").invoke(say("thanks!"), within(handler, "t"))
        assert trail.last() == []
        (entry,) = trail.last(include_junk=True)
        assert (entry.junk, entry.reply) == (("small talk",), "You're welcome!")

    def test_entries_use_the_namespace_of_the_run(self, memory, trail, handler):
        graph = chat(memory.checkpointer)
        graph.invoke(say("I am Ann."), within(handler, "t", agentmem_namespace=("ann",)))
        bobs = AuditTrail(memory, ("bob",))
        graph.invoke(say("I am Bob."), within(bobs.handler(), "t", agentmem_namespace=("ann",)))

        assert [each.prompt for each in AuditTrail(memory, ("ann",)).last()] == ["I am Ann."]
        assert [each.prompt for each in bobs.last()] == ["I am Bob."]
        assert bobs.last()[0].namespace == ("bob",)
        assert trail.last() == []


@pytest.mark.sqlite_suffices
class TestFailures:
    def test_model_error_is_recorded_and_raised(self, memory, trail, handler):
        graph = chat(memory.checkpointer, ValueError("no such model"))
        with pytest.raises(ValueError, match="no such model"):
            graph.invoke(say("Where is Ann?"), within(handler, "t"))
        (entry,) = trail.last(include_junk=True)
        assert entry.error == "ValueError: no such model"
        assert (entry.prompt, entry.reply, entry.thread_id) == ("Where is Ann?", "", "t")
        assert entry.junk == ()

    async def test_failed_audit_write_does_not_fail_the_run(self, memory, trail, handler, raw):
        graph = chat(InMemorySaver())
        await graph.ainvoke(say("one"), within(handler, "t"))
        raw(memory, "alter table audit_head rename to gone")
        result = await graph.ainvoke(say("two"), within(handler, "t"))
        raw(memory, "alter table gone rename to audit_head")
        await graph.ainvoke(say("three"), within(handler, "t"))

        assert result["messages"][-1].text == "Well, two"
        assert [each.prompt for each in trail.last()] == ["one", "three"]
        assert trail.verify().ok

    def test_unfinished_calls_are_recorded_on_close(self, url):
        memory, model = AgentMemory(url), StreamingModel("Late.")
        model.free.clear()
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(model_graph(model).invoke, say("Where is Ann?"), within(memory.audit.handler(), "t"))
            assert model.began.acquire(timeout=LIMIT)
            memory.close()
            model.free.set()
            assert run.result()["messages"][-1].text == "Late."
        with AgentMemory(url) as memory:
            (entry,) = memory.audit.last()
            assert (entry.prompt, entry.error, entry.thread_id) == ("Where is Ann?", UNFINISHED, "t")
            assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
class TestConcurrency:
    def test_graphs_in_threads_record_all_calls(self, memory, trail, handler):
        graphs = [chat(memory.checkpointer), chat(InMemorySaver())]

        def talk(number):
            for turn in range(3):
                graphs[number % 2].invoke(say(f"Number {number}, turn {turn}"), within(handler, f"t{number}"))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(talk, range(6)))
        entries = trail.last(99)
        for number in range(6):
            mine = [each for each in entries if each.thread_id == f"t{number}"]
            assert [each.prompt for each in mine] == [f"Number {number}, turn {turn}" for turn in range(3)]
            assert [len(each.messages) for each in mine] == [2, 4, 6]
        assert len(entries) == 18
        assert memory.admin.verify().ok
