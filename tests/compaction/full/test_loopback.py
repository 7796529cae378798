"""The loopback server is to LangChain's real client what OpenAI's API is: answers, calls, streams and refusals."""

from __future__ import annotations

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from langchain_agentmem.language_models.overflow import refusal
from tests.compaction.loopback import loopback
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
