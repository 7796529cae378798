"""The validator of each provider refuses what the provider refuses, and accepts valid messages."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.compaction.validators import VALIDATORS, refusals
from tests.support.models import calling

ASK = HumanMessage("What is the weather in Oslo?")
BROKEN = {"name": "weather", "args": '{"city": ', "id": "call_9", "error": "cut", "type": "invalid_tool_call"}


def called(key="call_1"):
    return [calling("weather", key, city="Oslo"), ToolMessage("Rain.", tool_call_id=key, name="weather")]


REFUSED = {
    "openai chat": [ASK, *called("c" * 41)],
    "openai responses": [ASK, *called("c" * 65)],
    "anthropic": [ASK, *called(), AIMessage("Rain."), ASK, *called()],
    "gemini": [ASK, AIMessage("One moment."), *called()],
    "mistral": [ASK, *called(), ASK],
    "bedrock": [ASK, AIMessage("Hm.", invalid_tool_calls=[BROKEN]), ToolMessage("No.", tool_call_id="call_9")],
}


def test_each_validator_refuses_invalid_messages():
    assert VALIDATORS.keys() == REFUSED.keys()
    for name, said in REFUSED.items():
        assert any(each.startswith(f"{name}: message") for each in refusals(said)), name


def test_valid_messages_pass_every_validator():
    said = [SystemMessage("Be brief."), ASK, *called(), *called("call_2"), AIMessage("Rain."), ASK, AIMessage("Still.")]
    assert refusals(said) == []
