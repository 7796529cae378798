"""The loopback server is to LangChain's real client what OpenAI's API is: answers, calls, streams and refusals."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from .loopback import calls, loopback

ASK = HumanMessage("What is the weather in Oslo?")
LOOK = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}])
RAIN = ToolMessage("Rain.", tool_call_id="call_1")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
LONG = "The harbour of Oslo is quiet in the morning. " * 400


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def client(server, **more):
    return ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test", max_retries=0, **more)


def weather_script(request):
    """Looks up the weather, then tells it."""
    last = request["messages"][-1]
    if last["role"] == "user":
        return calls(("call_1", "weather", {"city": "Oslo"}))
    return f"It says: {last['content']}"


class TestAnswers:
    def test_the_client_gets_the_text_and_what_it_cost(self):
        with loopback(script=lambda request: f"You said {request['messages'][-1]['content']!r}.") as server:
            reply = client(server).invoke([SystemMessage("Be brief."), HumanMessage("Hello.")])
        assert reply.content == "You said 'Hello.'."
        assert reply.response_metadata["finish_reason"] == "stop"
        assert reply.usage_metadata["input_tokens"] == server.sizes[0] > 0
        assert reply.usage_metadata["output_tokens"] > 0
        assert [message["role"] for message in server.requests[0]["messages"]] == ["system", "user"]

    def test_the_client_gets_calls(self):
        with loopback(script=weather_script) as server:
            reply = client(server).bind_tools([weather]).invoke([ASK])
        assert reply.tool_calls == [{"name": "weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}]
        assert reply.response_metadata["finish_reason"] == "tool_calls"
        assert server.requests[0]["tools"][0]["function"]["name"] == "weather"

    def test_an_agent_runs_to_its_end(self):
        with loopback(script=weather_script) as server:
            state = create_agent(client(server), [weather]).invoke({"messages": [ASK]})
        assert state["messages"][-1].content == "It says: Rain in Oslo."
        assert server.answered == 2

    async def test_awaited_as_well(self):
        with loopback(script=weather_script) as server:
            state = await create_agent(client(server), [weather]).ainvoke({"messages": [ASK]})
        assert state["messages"][-1].content == "It says: Rain in Oslo."

    def test_tools_cost_tokens_too(self):
        with loopback() as server:
            client(server).invoke([ASK])
            client(server).bind_tools([weather]).invoke([ASK])
        assert server.sizes[0] < server.sizes[1]

    def test_without_a_script_it_says_well(self):
        with loopback() as server:
            assert client(server).invoke("Hello.").content == "Well."

    def test_what_a_script_raises_is_told_to_the_test(self):
        def broken(request):
            raise LookupError("no line left")

        with (
            pytest.raises(LookupError, match="no line left"),
            loopback(script=broken) as server,
            pytest.raises(openai.InternalServerError),
        ):
            client(server).invoke("Hello.")


class TestStreams:
    def test_text_comes_a_word_at_a_time(self):
        with loopback(script=lambda request: "One word after\nthe other.") as server:
            parts = [*client(server, stream_usage=True).stream("Hello.")]
        assert "".join(part.text for part in parts) == "One word after\nthe other."
        assert sum(bool(part.text) for part in parts) == 5
        whole = sum(parts[1:], parts[0])
        assert whole.usage_metadata["input_tokens"] == server.sizes[0]
        assert server.requests[0]["stream"] is True

    def test_calls_are_put_together_again(self):
        made = [("call_1", "weather", {"city": "Oslo"}), ("call_2", "weather", {"city": "Rome"})]
        with loopback(script=lambda request: calls(*made, content="Let me look.")) as server:
            parts = [*client(server).bind_tools([weather]).stream([ASK])]
        whole = sum(parts[1:], parts[0])
        assert whole.text == "Let me look."
        assert [(call["id"], call["name"], call["args"]) for call in whole.tool_calls] == made
        assert whole.response_metadata["finish_reason"] == "tool_calls"

    async def test_awaited_as_well(self):
        with loopback(script=lambda request: "One word.") as server:
            parts = [part async for part in client(server).astream("Hello.")]
        assert "".join(part.text for part in parts) == "One word."

    def test_a_refusal_comes_before_the_first_word(self):
        with loopback(limit_tokens=50) as server, pytest.raises(openai.BadRequestError) as failure:
            next(client(server).stream(LONG))
        assert failure.value.code == "context_length_exceeded"


class TestTooLarge:
    def test_a_context_over_the_limit_is_refused_in_openai_s_words(self):
        with loopback(limit_tokens=100) as server:
            with pytest.raises(openai.BadRequestError) as failure:
                client(server).invoke(LONG)
            assert client(server).invoke("Hello.").content == "Well."
        assert failure.value.status_code == 400
        assert failure.value.code == "context_length_exceeded"
        assert failure.value.param == "messages"
        assert str(failure.value) == (
            "Error code: 400 - This model's maximum context length is 100 tokens. However, your messages resulted in "
            f"{server.sizes[0]} tokens. Please reduce the length of the messages."
        )
        assert server.refusals == [(400, "context_length_exceeded")]
        assert (len(server.requests), server.answered) == (2, 1)

    @pytest.mark.parametrize(
        ("words", "kind"), [("maximum", ModelInvalidRequestError), ("configured", ContextOverflowError)]
    )
    def test_langchain_s_class_depends_on_the_words(self, words, kind):
        with loopback(limit_tokens=100, words=words) as server, pytest.raises(kind) as failure:
            client(server).invoke(LONG)
        assert isinstance(failure.value, ContextOverflowError) == (words == "configured")
        assert failure.value.code == "context_length_exceeded"

    def test_the_limit_itself_fits(self):
        with loopback() as server:
            client(server).invoke(LONG)
        with loopback(limit_tokens=server.sizes[0]) as same:
            client(same).invoke(LONG)
        with loopback(limit_tokens=server.sizes[0] - 1) as smaller, pytest.raises(openai.BadRequestError):
            client(smaller).invoke(LONG)

    def test_tools_are_named_in_the_refusal(self):
        refused = pytest.raises(openai.BadRequestError, match=r"\(\d+ in the messages, \d+ in the functions\)")
        with loopback(limit_tokens=100) as server, refused:
            client(server).bind_tools([weather]).invoke(LONG)

    def test_a_payload_over_the_limit_is_refused_by_the_gateway(self):
        with loopback(limit_bytes=2_000) as server:
            with pytest.raises(openai.APIStatusError) as failure:
                client(server).invoke(LONG)
            assert client(server).invoke("Hello.").content == "Well."
        assert failure.value.status_code == 413
        assert str(failure.value) == "Error code: 413"  # the page itself is only in the body
        assert "413 Request Entity Too Large" in failure.value.body
        assert not isinstance(failure.value, ContextOverflowError)
        assert server.refusals == [(413, "Request Entity Too Large")]

    def test_the_client_does_not_try_again_by_itself(self):
        with loopback(limit_tokens=100, limit_bytes=100_000) as server:
            for content in (LONG, LONG * 10):
                with pytest.raises(openai.APIStatusError):
                    ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test").invoke(content)
        assert [status for status, _ in server.refusals] == [400, 413]


# What is sent, and how OpenAI refuses it: words, param and code.
REFUSED = {
    "a call without its result": (
        [ASK, LOOK, HumanMessage("And?")],
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "messages.[2].role",
        None,
    ),
    "an open call at the end": ([ASK, LOOK], "did not have response messages: call_1", "messages.[2].role", None),
    "an invalid call that nobody answered": (
        [
            ASK,
            AIMessage("", invalid_tool_calls=[{"name": "weather", "args": "{", "id": "call_9", "error": None}]),
            HumanMessage("And?"),
        ],
        "did not have response messages: call_9",
        "messages.[2].role",
        None,
    ),
    "a result without its call": (
        [ASK, RAIN],
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "messages.[1].role",
        None,
    ),
    "a late result": (
        [ASK, LOOK, HumanMessage("And?"), RAIN],
        "did not have response messages",
        "messages.[2].role",
        None,
    ),
    "a result twice": (
        [ASK, LOOK, RAIN, RAIN],
        "Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and messages[3].",
        "messages.[3].tool_call_id",
        None,
    ),
    "an image of the assistant": (
        [ASK, AIMessage([IMAGE])],
        "Image URLs are only allowed for messages with role 'user', but this message with role 'assistant' contains",
        "messages[1]",
        "invalid_value",
    ),
    "a name with a blank": (
        [HumanMessage("Hello.", name="Dr. Who")],
        "Invalid 'messages[0].name': string does not match pattern.",
        "messages[0].name",
        "invalid_value",
    ),
    "a tool's name with a blank": (
        [ASK, AIMessage("", tool_calls=[{"name": "the weather", "args": {}, "id": "call_1"}]), RAIN],
        "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern.",
        "messages[1].tool_calls[0].function.name",
        "invalid_value",
    ),
    "a block of another provider": (
        [ASK, AIMessage([{"type": "redacted_thinking", "data": "E"}, {"type": "text", "text": "Rain."}])],
        "Invalid value: 'redacted_thinking'. Supported values are: 'text', 'refusal'.",
        "messages[1].content[0].type",
        "invalid_value",
    ),
    "nothing": ([], "Invalid 'messages': empty array.", "messages", "empty_array"),
}

# What other providers refuse, and OpenAI does not.
ACCEPTED = {
    "the assistant first": [AIMessage("Hello."), ASK],
    "a system message in the middle": [ASK, SystemMessage("Be brief."), ASK],
    "no user": [SystemMessage("Be brief.")],
    "an empty message": [HumanMessage(""), AIMessage(""), ASK],
    "an id used again": [ASK, LOOK, RAIN, ASK, LOOK, RAIN],
    "an image of the user and of a tool": [HumanMessage([IMAGE]), LOOK, ToolMessage([IMAGE], tool_call_id="call_1")],
    "calls and reasoning in Anthropic's blocks": [
        ASK,
        AIMessage(
            [
                {"type": "thinking", "thinking": "Hm.", "signature": "E"},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
            ],
            tool_calls=LOOK.tool_calls,
        ),
        RAIN,
    ],
}


class TestValidity:
    @pytest.mark.parametrize(("messages", "words", "param", "code"), REFUSED.values(), ids=REFUSED)
    def test_what_openai_refuses_is_refused_in_its_words(self, messages, words, param, code):
        with loopback() as server, pytest.raises(ModelInvalidRequestError) as failure:
            client(server).invoke(messages)
        assert isinstance(failure.value, openai.BadRequestError)
        assert words in failure.value.body["message"]
        assert (failure.value.param, failure.value.code) == (param, code)
        assert not server.sizes

    @pytest.mark.parametrize("messages", ACCEPTED.values(), ids=ACCEPTED)
    def test_what_only_others_refuse_is_answered(self, messages):
        with loopback() as server:
            assert client(server).invoke(messages).content == "Well."


def test_another_address_is_not_found():
    with loopback() as server:
        request = urllib.request.Request(f"{server.url}/embeddings", json.dumps({}).encode())
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(request)
        failure.value.close()
    assert failure.value.code == 404
    assert server.requests == []
