"""The audit handler records every model call of a run and does not affect the run."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import threading
from uuid import UUID, uuid4

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import CallbackManager
from langchain_core.language_models import FakeListLLM, FakeStreamingListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from langchain_agentmem.audit import model_call_capture as module
from langchain_agentmem.audit.model_call_capture import ABANDONED, UNFINISHED, AuditHandler
from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.language_models.model_calls import ask_model
from tests.support.graphs import at, line
from tests.support.models import LIMIT, StreamingModel, calling

from .entries import echo, model_graph


class Trail(list):
    """Entries as they were written, and the threads that they were written in."""

    def __init__(self):
        super().__init__()
        self.threads = []

    def __call__(self, entry):
        self.threads.append(threading.current_thread())
        self.append(entry)

    @property
    def said(self):
        return [(each.prompt, each.reply) for each in self]


@pytest.fixture
def trail():
    return Trail()


@pytest.fixture
def handler(trail, new_id, clock):
    return AuditHandler(trail, new_id, clock)


@pytest.fixture
def run_config(handler):
    return {"callbacks": [handler]}


@pytest.fixture(autouse=True)
def no_unexpected_warnings(caplog):
    """Nothing is logged that a test has not seen and cleared."""
    yield
    assert warnings(caplog.get_records("call")) == []


def model(*replies, **options):
    return StreamingModel(*(replies or [echo]), **options)


def agents():
    """Asks for the weather, then says it."""
    return model(calling("weather", city="Rome"), lambda messages: f"It is {messages[-1].text}")


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}."


class TestModelCalls:
    """Each kind of call is one entry."""

    def test_direct_model_call_is_recorded(self, trail, run_config, new_id, clock):
        begun = clock.now
        model().invoke("hello", {**run_config, "tags": ["mine"], "metadata": {"thread_id": "t1"}, "run_name": "greet"})

        (entry,) = trail
        assert (entry.kind, entry.prompt, entry.reply, entry.model) == ("call", "hello", "Well, hello", "scripted-1")
        assert (entry.id, entry.thread_id, entry.error) == ("id-1", "t1", None)
        assert 0 < (entry.created_at - begun).total_seconds() <= 1
        assert entry.duration >= 0
        assert UUID(entry.run_id)
        assert (entry.extra["tags"], entry.extra["name"], entry.extra["provider"]) == (
            ["mine"],
            "greet",
            "streamingmodel",
        )

    def test_handler_attached_twice_records_once(self, trail, handler, run_config):
        model(callbacks=[handler]).invoke("hi")
        model().with_config(run_config).invoke("hi")
        model(callbacks=[handler]).with_config(run_config).invoke("hi", run_config)

        assert trail.said == [("hi", "Well, hi")] * 3

    def test_chain_config_gives_thread_and_namespace(self, trail, run_config):
        chain = ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{q}")]) | model()
        place = {"thread_id": "t1", "agentmem_namespace": ("acme", "ann")}

        chain.invoke({"q": "hi"}, {**run_config, "configurable": place})

        (entry,) = trail
        assert (entry.thread_id, entry.conversation_id, entry.namespace) == ("t1", "t1", ("acme", "ann"))
        assert entry.parent_run_id != entry.run_id
        assert [each.role for each in entry.messages] == ["system", "user", "assistant"]

    def test_completion_model_is_recorded(self, trail, run_config):
        FakeListLLM(responses=["there was a king."]).invoke("Once upon a time", run_config)
        list(FakeStreamingListLLM(responses=["abc"]).stream("letters", run_config))

        assert trail.said == [("Once upon a time", "there was a king."), ("letters", "abc")]

    def test_cached_answer_is_marked(self, trail, run_config):
        cached = model(cache=InMemoryCache())

        for _ in range(2):
            cached.invoke("hi", run_config)

        assert trail.said == [("hi", "Well, hi")] * 2
        assert [each.extra.get("cached") for each in trail] == [None, True]
        assert (trail[1].input_tokens, trail[1].output_tokens) == (0, 0)

    def test_internal_model_calls_have_name_and_tags(self, trail, run_config):
        def shorten(_):
            return ask_model(None, model(), [HumanMessage("Shorten this.")], "compaction.summarize")

        async def ashorten(_):
            return await run_in_worker(lambda: shorten(None))

        RunnableLambda(shorten).invoke(None, run_config)
        asyncio.run(RunnableLambda(shorten, ashorten).ainvoke(None, run_config))

        assert trail.said == [("Shorten this.", "Well, Shorten this.")] * 2
        assert {each.extra["name"] for each in trail} == {"memory.compaction.summarize"}
        assert all("nostream" in each.extra["tags"] and "metadata" not in each.extra for each in trail)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_handler_does_not_change_the_graph_stream(trail, handler, asynchronous):
    def stream(callbacks):
        counting = model("one two three")
        graph = model_graph(counting)
        config = {"callbacks": callbacks, "configurable": {"thread_id": "t1"}}
        given = {"messages": [("user", "count")]}

        async def gather():
            return [each async for each in graph.astream(given, config, stream_mode=["messages", "updates"])]

        parts = (
            asyncio.run(gather())
            if asynchronous
            else list(graph.stream(given, config, stream_mode=["messages", "updates"]))
        )
        told = [(mode, part[0].text if mode == "messages" else list(part)) for mode, part in parts]
        graph.invoke(given, config)
        return told, counting.streamed

    alone, listened = stream([]), stream([handler])

    assert listened == alone
    assert alone[1] == ["stream", "whole"]
    assert trail.said == [("count", "one two three")] * 2


class TestFailedCalls:
    def test_broken_stream_keeps_the_partial_reply(self, trail, run_config):
        with pytest.raises(ConnectionError):
            list(model("The answer is FAIL").stream("hi", run_config))

        assert (trail[0].reply, trail[0].error) == ("The answer is ", "ConnectionError: cut off")
        assert (trail[0].extra["partial"], trail[0].extra["answers"]) == (True, 1)
        assert trail[0].duration >= 0

    def test_closed_stream_keeps_the_partial_reply(self, trail, run_config):
        stream = model("one two three").stream("hi", run_config)
        next(stream)
        stream.close()

        assert (trail[0].reply, trail[0].error) == ("one ", "GeneratorExit")

    async def test_cancelled_stream_keeps_the_partial_reply(self, trail, run_config):
        async def read():
            async for _ in slow.astream("hi", run_config):
                slow.free.clear()
                first.set()

        first, slow = asyncio.Event(), model("one two")
        task = asyncio.create_task(read())
        await first.wait()
        task.cancel()
        await asyncio.wait([task])
        slow.free.set()

        assert [(each.reply, each.error) for each in trail] == [("one ", "CancelledError")]

    async def test_abandoned_call_in_cancelled_graph_is_recorded(self, trail, handler, run_config):
        begun = asyncio.Event()

        class Endless(StreamingModel):
            async def _agenerate(self, *_, **__):
                begun.set()
                await asyncio.Event().wait()

        graph = model_graph(Endless())
        task = asyncio.create_task(graph.ainvoke({"messages": [("user", "hi")]}, {**run_config, **at("t1")}))
        await begun.wait()
        assert handler._open_calls
        task.cancel()
        await asyncio.wait([task])
        del task
        await collected()

        await model().ainvoke("next", run_config)

        assert [(each.prompt, each.error, each.thread_id) for each in trail if each.error] == [("hi", ABANDONED, "t1")]
        assert not handler._open_calls

    def test_reused_run_id_is_not_an_abandoned_call(self, trail, run_config):
        run_id = str(uuid4())
        for _ in range(2):
            model().invoke("hi", {**run_config, "run_id": UUID(run_id)})
            gc.collect()
        assert [each.error for each in trail] == [None, None]

    async def test_call_outliving_a_cancelled_graph_is_recorded_normally(self, trail, handler, run_config):
        going_on, slow = [], model()
        slow.free.clear()

        async def node(state):
            going_on.append(asyncio.create_task(slow.ainvoke(state["messages"])))
            await asyncio.shield(going_on[0])

        task = asyncio.create_task(line(None, node).ainvoke({"messages": [("user", "hi")]}, run_config))
        assert await asyncio.to_thread(slow.began.acquire, timeout=LIMIT)
        task.cancel()
        await asyncio.wait([task])
        slow.free.set()
        await going_on[0]

        assert [(each.reply, each.error) for each in trail] == [("Well, hi", None)]

    def test_unfinished_call_is_recorded_once_on_close(self, trail, handler, run_config):
        run = uuid4()
        handler.on_chat_model_start({}, [[HumanMessage("hi")]], run_id=run)
        assert trail == []

        handler.close()
        handler.close()
        handler.on_llm_end(result("x"), run_id=uuid4())  # an end without a beginning is nobody's
        handler.on_llm_error(ValueError(), run_id=uuid4())
        handler.on_llm_end(result("late"), run_id=run)

        assert [(each.prompt, each.reply, each.error) for each in trail] == [("hi", "", UNFINISHED)]
        model().invoke("after", run_config)
        assert trail.said[-1] == ("after", "Well, after")


class TestRobustness:
    def test_recording_failure_is_logged_once_and_run_continues(self, caplog):
        def record(entry):
            raise OSError("disk full")

        config = {"callbacks": [AuditHandler(record)]}

        assert [model().invoke("hi", config).text for _ in range(3)] == ["Well, hi"] * 3
        assert asyncio.run(model().ainvoke("hi", config)).text == "Well, hi"
        assert {each.name for each in caplog.records if each.levelno >= logging.WARNING} == {module.__name__}
        assert len(warnings(caplog.records)) == 1
        assert "disk full" in caplog.text
        caplog.clear()

    def test_other_handler_failures_are_logged_once(self, trail, caplog):
        def fail():
            raise RuntimeError("broken")

        for broken in ("new_id", "clock"):
            config = {"callbacks": [AuditHandler(trail, **{broken: fail})]}
            assert [model().invoke("hi", config).text for _ in range(2)] == ["Well, hi"] * 2
            assert len(warnings(caplog.records)) == 1
            caplog.clear()

    def test_malformed_callbacks_are_recorded_as_far_as_possible(self, trail, handler):
        for given in (None, [], [[]], [[None, 7, object()]], [["text"]]):
            run = uuid4()
            handler.on_chat_model_start(None, given, run_id=run, tags=7, metadata=[1], name=object())
            handler.on_llm_end(object(), run_id=run)
        for given in (None, [], [None], ["text"]):
            run = uuid4()
            handler.on_llm_start(None, given, run_id=run)
            handler.on_llm_end(None, run_id=run)

        assert len(trail) == 9

    async def test_recording_does_not_block_the_event_loop(self, trail):
        written, begun, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

        def record(entry):
            # The loop has to run for this to be set: on the loop's own thread it never would.
            loop.call_soon_threadsafe(begun.set)
            assert written.wait(120)
            trail(entry)

        call = asyncio.create_task(model().ainvoke("hi", {"callbacks": [AuditHandler(record)]}))
        await begun.wait()
        assert not call.done()  # what has returned has been written
        written.set()
        await call

        assert trail.said == [("hi", "Well, hi")]
        assert threading.main_thread() not in trail.threads

    def test_config_copies_share_the_handler(self, handler):
        assert copy.copy(handler) is handler
        assert copy.deepcopy({"callbacks": [handler]})["callbacks"][0] is handler
        manager = CallbackManager([handler])
        manager.add_handler(handler)
        assert manager.handlers == [handler]


class TestSecrets:
    def test_secrets_are_redacted_on_request(self, trail, run_config):
        key = "sk-proj-Abc123def456Ghi789jkl012Mno345"
        hide = AuditHandler(trail, redact=lambda text: text.replace("Ann", "X"))
        model().invoke(f"key: {key}", run_config)
        model().invoke(f"My key is {key}", {"callbacks": [AuditHandler(trail, redact=True)]})
        agents().invoke("Ann asks", {"callbacks": [hide], "metadata": {"users": ["Ann"]}})

        kept, taken_out, changed = trail
        assert key in kept.reply
        assert key not in repr(taken_out)
        assert taken_out.prompt == "My key is ***"
        assert changed.prompt == changed.messages[0].text == "X asks"
        assert changed.extra["metadata"] == {"users": ["X"]}
        assert changed.messages[-1].tool_calls[0].name == "weather"

    @pytest.mark.parametrize("redact", [lambda text: 1 / 0, lambda text: None, lambda text: (text, 1)])
    def test_failed_redaction_records_no_content(self, trail, redact, caplog):
        with pytest.raises(ValueError, match="Ann"):
            model(ValueError("Ann")).invoke("Ann", {"callbacks": [AuditHandler(trail, redact=redact)]})

        (entry,) = trail
        assert "Ann" not in repr(entry)
        assert (entry.error, entry.model) == ("ValueError", "scripted-1")
        assert entry.extra["withheld"]
        assert len(warnings(caplog.records)) == 1
        assert "Ann" not in caplog.text
        caplog.clear()


def warnings(records):
    return [each.getMessage() for each in records if each.levelno >= logging.WARNING]


def result(text):
    return LLMResult(generations=[[ChatGeneration(message=AIMessage(text))]])


async def collected():
    """The loop lets go of what was cancelled, and garbage is collected."""
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
