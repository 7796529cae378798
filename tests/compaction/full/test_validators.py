"""Each judge of a provider refuses what its provider does, and lets pass what all accept."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.compaction.validators import JUDGES, SOURCES, refusals

ASK = HumanMessage("What is the weather in Oslo?")
BROKEN = {"name": "weather", "args": '{"city": ', "id": "call_9", "error": "cut", "type": "invalid_tool_call"}


def called(key="call_1"):
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": key}
    return [AIMessage("", tool_calls=[call]), ToolMessage("Rain.", tool_call_id=key, name="weather")]


REFUSED = {
    "openai chat": [ASK, *called("c" * 41)],
    "openai responses": [ASK, *called("c" * 65)],
    "anthropic": [ASK, *called(), AIMessage("Rain."), ASK, *called()],
    "gemini": [ASK, AIMessage("One moment."), *called()],
    "mistral": [ASK, *called(), ASK],
    "bedrock": [ASK, AIMessage("Hm.", invalid_tool_calls=[BROKEN]), ToolMessage("No.", tool_call_id="call_9")],
}


def test_each_provider_has_a_judge_and_a_source():
    assert {*JUDGES} == {*SOURCES} == {*REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_is_told(name):
    assert any(each.startswith(f"{name}: message") for each in refusals(REFUSED[name]))


def test_what_all_accept_is_let_pass():
    said = [SystemMessage("Be brief."), ASK, *called(), *called("call_2"), AIMessage("Rain."), ASK, AIMessage("Still.")]
    assert refusals(said) == []
