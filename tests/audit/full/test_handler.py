"""The audit handler records calls of real clients, agents and nested graphs."""

from __future__ import annotations

import re

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langchain_agentmem.audit.model_call_capture import AuditHandler
from tests.audit.entries import model_graph
from tests.audit.test_handler import Trail, agents, model, weather
from tests.compaction.loopback import calls, loopback

SETTINGS = {"api_key": "x", "model": "gpt-test", "max_retries": 0}


@pytest.fixture
def trail():
    return Trail()


@pytest.fixture
def run_config(trail):
    return {"callbacks": [AuditHandler(trail)]}


class TestOpenAI:
    """The real client, and a server on this machine."""

    def test_openai_completion_is_recorded(self, trail, run_config):
        with loopback(script=lambda request: "Hello there.") as server:
            ChatOpenAI(base_url=server.url, **SETTINGS).invoke("Hi", run_config)

        (entry,) = trail
        assert (entry.prompt, entry.reply, entry.model) == ("Hi", "Hello there.", "gpt-test")
        assert (entry.extra["provider"], entry.extra["stop_reason"]) == ("openai", "stop")
        assert entry.input_tokens == server.sizes[0] > 0
        assert entry.output_tokens > 0

    async def test_openai_stream_is_recorded(self, trail, run_config):
        with loopback(script=lambda request: "Hello there.") as server:
            model = ChatOpenAI(base_url=server.url, stream_usage=True, **SETTINGS)
            chunks = [each.text async for each in model.astream("Hi", run_config)]
            list(model.stream("Hi", run_config))

        assert "there." in chunks
        assert trail.said == [("Hi", "Hello there.")] * 2
        assert {each.model for each in trail} == {"gpt-test"}
        assert {each.input_tokens for each in trail} == {server.sizes[0]}
        assert {each.extra["stop_reason"] for each in trail} == {"stop"}

    def test_streaming_agent_records_tool_calls(self, trail, run_config):
        def script(request):
            last = request["messages"][-1]
            return last["content"] if last["role"] == "tool" else calls(("c1", "weather", {"city": "Rome"}))

        with loopback(script=script) as server:
            agent = create_agent(ChatOpenAI(base_url=server.url, streaming=True, **SETTINGS), [weather])
            agent.invoke({"messages": [("user", "Weather?")]}, run_config)

        asked, answered = trail
        assert asked.messages[-1].tool_calls[0].arguments == '{"city": "Rome"}'
        assert (asked.extra["stop_reason"], asked.extra["tools"]) == ("tool_calls", ["weather"])
        assert answered.reply == "Sunny in Rome."
        assert asked.messages[-1] == answered.messages[1]

    def test_server_error_is_recorded(self, trail, run_config):
        with loopback(script=lambda request: 1 / 0) as server:
            with pytest.raises(Exception, match="Error code: 500"):
                ChatOpenAI(base_url=server.url, **SETTINGS).invoke("Hi", run_config)
            server.failures.clear()

        (entry,) = trail
        assert re.match(r"\w+Error: Error code: 500 - ", entry.error)
        assert (entry.reply, entry.model, entry.extra["status_code"]) == ("", "gpt-test", 500)
        assert (entry.input_tokens, entry.output_tokens) == (None, None)


def test_nested_models_and_graphs_are_recorded(trail, run_config):
    inner = model_graph(model(model="inner"), InMemorySaver())

    @tool("weather")
    def look(city: str) -> str:
        """The weather in a city."""
        return inner.invoke({"messages": [("user", city)]})["messages"][-1].text

    agent = create_agent(agents(), [look], checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Weather?")]}, {**run_config, "configurable": {"thread_id": "t1"}})

    assert [(each.model, each.prompt, each.reply) for each in trail] == [
        ("scripted-1", "Weather?", ""),
        ("inner", "Rome", "Well, Rome"),
        ("scripted-1", "Weather?", "It is Well, Rome"),
    ]
    assert {each.thread_id for each in trail} == {"t1"}
