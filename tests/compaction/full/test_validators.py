"""Each judge of a provider refuses what its provider does, and lets pass what all accept."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.compaction.validators import JUDGES, refusals
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


def test_each_provider_has_a_judge_that_refuses_what_it_does():
    assert JUDGES.keys() == REFUSED.keys()
    for name, said in REFUSED.items():
        assert any(each.startswith(f"{name}: message") for each in refusals(said)), name


def test_what_all_accept_is_let_pass():
    said = [SystemMessage("Be brief."), ASK, *called(), *called("call_2"), AIMessage("Rain."), ASK, AIMessage("Still.")]
    assert refusals(said) == []
