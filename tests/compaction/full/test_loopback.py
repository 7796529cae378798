"""The loopback server is to LangChain's real clients what the providers' APIs are: answers, streams and refusals."""

import pytest

from langchain_agentmem.language_models.model_calls import refusal
from tests.compaction.loopback import loopback
from tests.compaction.provider_clients import CLIENTS

LONG = "The harbour of Oslo is quiet in the morning. " * 400


async def streamed(model, text):
    return "".join([part.text async for part in model.astream(text)])


async def awaited(model, text):
    return (await model.ainvoke(text)).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "ask"), [*((client, awaited) for client in CLIENTS), *((client, streamed) for client in CLIENTS[:3])]
)
async def test_each_api_answers_and_refuses_what_is_too_large_as_its_client_expects(client, ask):
    with loopback(limit_tokens=200) as server:
        assert await ask(client(server), "Hello.") == "Well."
        with pytest.raises(Exception) as failure:
            await ask(client(server), LONG)
    assert refusal(failure.value) == "tokens"
    assert len(server.refusals) == 1
