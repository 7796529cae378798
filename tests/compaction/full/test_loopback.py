"""The loopback server is to LangChain's real client what OpenAI's API is: answers, calls, streams and refusals."""

from __future__ import annotations

import openai
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from langchain_agentmem.language_models.overflow import refusal
from tests.compaction.loopback import calls, loopback
from tests.compaction.provider_clients import CLIENTS

ASK = HumanMessage("What is the weather in Oslo?")
LOOK = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}])
LONG = "The harbour of Oslo is quiet in the morning. " * 400


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def client(server, **more):
    return ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test", max_retries=0, **more)


def test_what_a_script_raises_is_told_to_the_test():
    with (
        pytest.raises(ZeroDivisionError),
        loopback(script=lambda request: 1 / 0) as server,
        pytest.raises(openai.InternalServerError),
    ):
        client(server).invoke("Hello.")


async def test_streams_are_put_together_again():
    made = [("call_1", "weather", {"city": "Oslo"}), ("call_2", "weather", {"city": "Rome"})]
    with loopback(script=lambda request: calls(*made, content="Let me\nlook.")) as server:
        model = client(server, stream_usage=True).bind_tools([weather])
        parts = [*model.stream([ASK])]
        awaited = [part async for part in model.astream([ASK])]
    assert "".join(part.text for part in awaited) == "Let me\nlook."
    assert sum(bool(part.text) for part in parts) == 3
    whole = sum(parts[1:], parts[0])
    assert whole.text == "Let me\nlook."
    assert [(call["id"], call["name"], call["args"]) for call in whole.tool_calls] == made
    assert whole.usage_metadata["input_tokens"] == server.sizes[0]


def test_a_context_over_the_limit_is_refused():
    with loopback(limit_tokens=100) as server:
        with pytest.raises(openai.BadRequestError) as failure:
            client(server).invoke(LONG)
        with pytest.raises(openai.BadRequestError):
            next(client(server).stream(LONG))
        assert client(server).invoke("Hello.").content == "Well."
    assert not isinstance(failure.value, ContextOverflowError), "LangChain does not know it by these words"
    assert (failure.value.status_code, failure.value.code) == (400, "context_length_exceeded")
    assert server.refusals == [(400, "context_length_exceeded")] * 2
    with loopback(limit_tokens=server.sizes[0]) as same:
        client(same).invoke(LONG)


class TestEachApi:
    @pytest.mark.slow
    @pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
    @pytest.mark.parametrize("client", CLIENTS)
    async def test_answers_and_refuses_what_is_too_large_as_its_client_expects(self, client, way):
        async def ask(text):
            match way:
                case "invoke":
                    return model.invoke(text).text
                case "ainvoke":
                    return (await model.ainvoke(text)).text
                case "stream":
                    return "".join(part.text for part in model.stream(text))
                case _:
                    return "".join([part.text async for part in model.astream(text)])

        with loopback(limit_tokens=200) as server:
            model = client(server)
            assert await ask("Hello.") == "Well."
            with pytest.raises(Exception) as failure:
                await ask(LONG)
        assert refusal(failure.value) == "tokens"
        assert len(server.refusals) == 1

    @pytest.mark.parametrize("client", CLIENTS)
    def test_refuses_a_call_without_its_result_and_calls_tools(self, client):
        with loopback() as server, pytest.raises(Exception) as failure:
            client(server).bind_tools([weather]).invoke([ASK, LOOK, ASK])
        assert refusal(failure.value) == "unclear"
        assert not server.sizes
        with loopback(script=lambda request: calls(("call_1", "weather", {"city": "Oslo"}), content="So.")) as server:
            said = client(server).bind_tools([weather]).invoke([ASK])
        assert said.text == "So."
        assert [(call["name"], call["args"]) for call in said.tool_calls] == [("weather", {"city": "Oslo"})]
        assert server.requests[0]["messages"][-1]["content"] == ASK.text
