"""`provider_problems` reports messages that OpenAI, Anthropic, Gemini, Mistral or Bedrock refuse."""

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_agentmem.testing import assert_valid_for_providers, provider_problems

ASK = HumanMessage("What is the weather in Oslo and in Rome?")
OSLO = {"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}
ROME = {"name": "weather", "args": {"city": "Rome"}, "id": "call_2"}
BOTH = AIMessage("", tool_calls=[OSLO, ROME])
RAIN = ToolMessage("Rain.", tool_call_id="call_1")
SUN = ToolMessage("Sun.", tool_call_id="call_2")
ANSWER = AIMessage("Rain in Oslo, sun in Rome.")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
THOUGHT = {"type": "thinking", "thinking": "Two cities.", "signature": "EqQBCgIYAhIM"}
SAYING = {"type": "text", "text": "Let me look."}
USE = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}}
BROKEN = {"type": "invalid_tool_call", "name": "weather", "args": '{"city": ', "id": "call_9", "error": "cut off"}
ONE = AIMessage("", tool_calls=[OSLO])
BRIEF = SystemMessage("Be brief.")
AND = HumanMessage("And?")


def with_hidden_calls():
    """Return a message with emptied `tool_calls` whose raw calls langchain-openai still sends."""
    raw = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message = AIMessage("Later.", additional_kwargs={"tool_calls": [raw]})
    return message.model_copy(update={"tool_calls": []})


def openai(role, content=None, **more):
    return {"role": role, "content": content, **more}


def openai_call(call_id="call_1"):
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}


REFUSED = [
    # OpenAI, Anthropic: UnicodeEncodeError
    ([HumanMessage("\ud83d")], "half of a surrogate pair"),
    # OpenAI, Anthropic: UnicodeEncodeError (block)
    ([HumanMessage([{"type": "text", "text": "\ud83d"}])], "half of a"),
    # OpenAI, Anthropic: UnicodeEncodeError (arguments)
    ([ASK, AIMessage("", tool_calls=[{**OSLO, "args": {"a\udc00": 1}}]), RAIN], "Message 1 (assistant) has half of a"),
    # OpenAI, Anthropic: UnicodeEncodeError (raw)
    ([ASK, AIMessage("Hm.", additional_kwargs={"refusal": "\ud83d"})], "half"),
    # OpenAI, Anthropic: UnicodeEncodeError (dictionary)
    ([openai("user", "\ud83d\ude00")], "half of a surrogate pair"),
    # Anthropic: messages: at least one message is required
    ([], "There is no message."),
    # Anthropic: messages: at least one message is required (system only)
    ([BRIEF], "no message has the role user"),
    # Anthropic: messages: first message must use the "user" role
    ([AIMessage("Hello."), ASK], "before any user"),
    # Gemini: Please ensure that function call turn comes immediately after a user turn
    ([BRIEF, BOTH, RAIN, SUN, ASK], "Message 1 (assistant) comes before any user message"),
    # Anthropic: no user at all
    ([AIMessage("Hello."), ANSWER], "no message has the role user"),
    # langchain-anthropic: Received multiple non-consecutive system messages.
    ([BRIEF, ASK, SystemMessage("Be kind."), ANSWER], "Message 2 (system) is a system message after other messages"),
    # OpenAI: An assistant message with 'tool_calls' must be followed by tool messages responding to each
    ([ASK, BOTH, RAIN], "Message 1 (assistant) makes call 'call_2', which has no result directly after the message"),
    # Anthropic: `tool_use` ids…
    ([ASK, BOTH, RAIN, AND, SUN, ANSWER], "makes call 'call_2', which has no result"),
    # OpenAI: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'
    ([ASK, RAIN, ANSWER], "Message 1 (tool) answers call 'call_1', which the assistant message before does not make"),
    # Anthropic: unexpected `tool_use_id` found in `tool_result` blocks: call_1
    (
        [ASK, BOTH, RAIN, SUN, HumanMessage("Thanks."), RAIN],
        "Message 5 (tool) answers call 'call_1', which the assistant message before does not make",
    ),
    # Gemini: Please ensure that function response turn comes immediately after a function call turn
    ([ASK, ONE, RAIN, AIMessage("", tool_calls=[ROME]), RAIN, SUN, ANSWER], "Message 4 (tool) answers call 'call_1'"),
    # OpenAI: Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and messages[3].
    ([ASK, BOTH, RAIN, RAIN, SUN], "Message 3 (tool) is a second result of call 'call_1'"),
    # Anthropic: messages.1.content.1: `tool_use` ids must be unique
    (
        [ASK, AIMessage("", tool_calls=[OSLO, {**ROME, "id": "call_1"}]), RAIN, ANSWER],
        "makes 2 calls with the id 'call_1'",
    ),
    # Anthropic: `tool_use` ids must be unique (a block said twice)
    ([ASK, AIMessage([USE, USE], tool_calls=[OSLO]), RAIN], "makes 2 calls with the id 'call_1'"),
    # Anthropic: tool_use without tool_result (a block that `tool_calls` does not have)
    ([ASK, AIMessage([SAYING, {**USE, "id": "call_7"}]), ANSWER], "makes call 'call_7'"),
    # OpenAI: did not have response messages (an item of the Responses API)
    (
        [ASK, AIMessage([{"type": "function_call", "id": "fc_1", "call_id": "call_7", "name": "weather"}]), ANSWER],
        "makes call 'call_7'",
    ),
    # OpenAI: did not have response messages: call_9 (an invalid call)
    ([ASK, AIMessage("", invalid_tool_calls=[BROKEN]), AND], "makes call 'call_9'"),
    # OpenAI: did not have response messages (calls that only additional_kwargs still has)
    ([ASK, with_hidden_calls(), AND], "makes call 'call_1'"),
    # OpenAI: Missing required parameter: 'messages[1].tool_calls[0].id'.
    ([ASK, AIMessage("", tool_calls=[{**OSLO, "id": None}]), ANSWER], "makes a call without an id"),
    # OpenAI: Invalid 'messages[1].tool_calls[0].function.name': empty string
    ([ASK, AIMessage("", tool_calls=[{**OSLO, "name": ""}]), RAIN], "makes a call of a tool named ''"),
    # OpenAI: Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern.
    (
        [ASK, AIMessage("", tool_calls=[{**OSLO, "name": "the weather"}]), RAIN],
        "makes a call of a tool named 'the weather'",
    ),
    # OpenAI: Invalid 'messages[0].name': string…
    ([HumanMessage("Hello.", name="Dr. Who")], "is named 'Dr. Who'"),
    # Anthropic: messages.1: all…
    ([ASK, AIMessage(""), AND], "Message 1 (assistant) is empty"),
    # Gemini: it must include at least one parts field
    ([HumanMessage("")], "Message 0 (user) is empty"),
    # Gemini: it must include at least one parts field (a list)
    ([HumanMessage([])], "is empty"),
    # Anthropic: system: text content blocks must be non-empty
    ([SystemMessage(""), ASK], "(system) is empty"),
    # Anthropic: messages: text content blocks must…
    ([ASK, AIMessage("\n\n"), AND], "is empty"),
    # Anthropic: messages: text…
    ([HumanMessage([{"type": "text", "text": ""}, IMAGE])], "has an empty text block"),
    # Anthropic: text content blocks must be non-empty (a plain string)
    ([HumanMessage(["", "Hello."])], "empty text"),
    # Anthropic: messages.2.content.0.tool_result.content.0.text: text content blocks must be non-empty
    (
        [ASK, ONE, ToolMessage([{"type": "text", "text": " "}], tool_call_id="call_1")],
        "Message 2 (tool) has an empty text block",
    ),
    # OpenAI: Image URLs are only allowed…
    ([ASK, AIMessage([SAYING, IMAGE])], "Message 1 (assistant) contains an image"),
    # OpenAI: Image URLs are only allowed for messages with role 'user', but this message with role 'system'
    (
        [SystemMessage([SAYING, {"type": "image", "url": "https://example.org/a.png"}]), ASK],
        "Message 0 (system) contains an image",
    ),
    # Anthropic: messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`
    ([ASK, AIMessage([USE, THOUGHT], tool_calls=[OSLO]), RAIN], "contains reasoning after text or calls"),
    # Anthropic: Expected `thinking` or `redacted_thinking`, but found `text`
    (
        [ASK, AIMessage([SAYING, {"type": "redacted_thinking", "data": "EmwKAhgB"}])],
        "contains reasoning after text or calls",
    ),
    # Anthropic: messages.1: The…
    ([ASK, AIMessage([THOUGHT]), AND], "contains only reasoning"),
    # Anthropic: messages.1.content.0.thinking.signature: Field required
    ([ASK, AIMessage([{"type": "thinking", "thinking": "Hm."}, SAYING])], "has a thinking block without its signature"),
    # Anthropic: messages.1.content.0.redacted_thinking.data: Field required
    ([ASK, AIMessage([{"type": "redacted_thinking"}, SAYING])], "has a redacted_thinking block without its data"),
    # Anthropic: thinking blocks may only be in assistant messages
    ([HumanMessage([THOUGHT, SAYING])], "contains reasoning"),
    # langchain-anthropic: no such type (a removal)
    ([ASK, RemoveMessage(id="1")], "(remove) has none of the roles system"),
    # langchain-anthropic: no such type (a function)
    ([ASK, FunctionMessage("1", name="f")], "(function) has none of the roles"),
    # langchain: unexpected message type
    ([ASK, 7], "(int) has none of the roles"),
    # OpenAI: Invalid value for…
    ([openai("user", "Hello."), openai("assistant")], "Message 1 (assistant) is empty"),
    # OpenAI: An assistant message with 'tool_calls' must be followed (its own form)
    (
        [openai("user", "Hello."), openai("assistant", tool_calls=[openai_call()]), openai("user", "And?")],
        "makes call 'call_1'",
    ),
    # OpenAI: messages with role 'tool' must be a response (its own form)
    ([openai("user", "Hello."), openai("tool", "Rain.", tool_call_id="call_1")], "answers call 'call_1'"),
    # Anthropic: messages.4.content.0: `tool_use` ids must be unique
    ([*[ASK, ONE, RAIN, ANSWER], *[ASK, ONE, RAIN]], "makes call 'call_1', but an earlier call has the same id"),
    # OpenAI: Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40
    (
        [ASK, AIMessage("", tool_calls=[{**OSLO, "id": "c" * 41}]), ToolMessage("Rain.", tool_call_id="c" * 41)],
        "at most 40",
    ),
    # Bedrock: messages.1.member.content.1.member.toolUse.toolUseId failed to satisfy constraint: pattern
    (
        [
            ASK,
            AIMessage("", tool_calls=[{**OSLO, "id": "functions.weather:0"}]),
            ToolMessage("", tool_call_id="functions.weather:0"),
        ],
        "makes call 'functions.weather:0': an id has at most 40 letters, digits, '_' and '-'",
    ),
    # Bedrock: The number of toolResult blocks exceeds the number of toolUse blocks of previous turn
    (
        [ASK, AIMessage("", invalid_tool_calls=[BROKEN]), ToolMessage("No arguments.", tool_call_id="call_9")],
        "makes call 'call_9' with invalid arguments",
    ),
    # Mistral: Unexpected role 'user' after role 'tool'
    ([ASK, ONE, RAIN, AND], "Message 3 (user) follows a message of the role tool"),
    # Gemini: Please ensure that function call turn comes immediately after a user turn
    ([ASK, AIMessage("One moment."), ONE, RAIN], "Message 2 (assistant) follows a message of the role assistant"),
    # OpenAI: Duplicate item found with id rs_1. Remove duplicate items from your input and try again.
    (
        [ASK, AIMessage([REASONING, SAYING]), AND, AIMessage([REASONING, SAYING])],
        "repeats the reasoning block 'rs_1' of an earlier message",
    ),
    # OpenAI: Invalid 'messages[0].name': string too long
    ([HumanMessage("Hello.", name="a" * 65)], "at most 64"),
    # OpenAI: Invalid value: 'bot'. Supported values are: 'system', ...
    ([openai("bot", "Hello.")], "(bot) has none"),
]
"""Invalid messages and the reported problem, each after the provider and its error message."""

VALID = {
    "one user message": [ASK],
    "parallel calls, answered in another order": [ASK, BOTH, SUN, RAIN, ANSWER],
    "a second round of calls": [ASK, ONE, RAIN, AIMessage("", tool_calls=[ROME]), SUN],
    "several system messages at the beginning": [BRIEF, SystemMessage("Be kind."), ASK, ANSWER],
    "a developer's instructions": [ChatMessage("Be brief.", role="developer"), ASK, ANSWER],
    "several user messages in a row": [HumanMessage("Hello."), ASK, ANSWER],
    "a tool that says nothing": [ASK, ONE, ToolMessage("", tool_call_id="call_1")],
    "calls that the content repeats": [ASK, AIMessage([SAYING, USE], tool_calls=[OSLO]), RAIN],
    "a call that only the content makes": [ASK, AIMessage([SAYING, USE]), RAIN],
    "an item of the Responses API beside its call": [
        ASK,
        AIMessage(
            [{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}],
            tool_calls=[OSLO],
        ),
        RAIN,
    ],
    "reasoning before a call": [ASK, AIMessage([THOUGHT, SAYING, USE], tool_calls=[OSLO]), RAIN, ANSWER],
    "reasoning, and calls in their field": [ASK, AIMessage([THOUGHT], tool_calls=[OSLO]), RAIN, ANSWER],
    "two thoughts, one of them hidden": [ASK, AIMessage([THOUGHT, {"type": "redacted_thinking", "data": "E"}, SAYING])],
    "reasoning of OpenAI": [ASK, AIMessage([{"type": "reasoning", "id": "rs_1", "summary": []}, SAYING])],
    "reasoning after the result of a tool of the provider's": [
        ASK,
        AIMessage(
            [
                THOUGHT,
                SAYING,
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                THOUGHT,
                {"type": "text", "text": "Rain."},
            ]
        ),
    ],
    "images of the user": [HumanMessage([{"type": "text", "text": "What is this?"}, IMAGE]), ANSWER],
    "an image and no word": [HumanMessage([IMAGE])],
    "an image of a tool": [ASK, ONE, ToolMessage([IMAGE], tool_call_id="call_1")],
    "names": [HumanMessage("Hello.", name="Ada_L-1"), AIMessage("Hello.", name="agent")],
    "a tool's name, which is not sent": [ASK, ONE, ToolMessage("Rain.", tool_call_id="call_1", name="the weather")],
    "content of plain strings": [HumanMessage(["Hello.", "And good day."])],
    "a chunk": [ASK, AIMessageChunk("", tool_calls=[OSLO]), RAIN],
    "roles that are given by name": [ChatMessage("Be brief.", role="system"), ChatMessage("Hello.", role="user")],
    "OpenAI's own form": [
        openai("developer", "Be brief."),
        openai("user", [{"type": "text", "text": "Hello."}, IMAGE]),
        openai("assistant", tool_calls=[openai_call("call_1"), openai_call("call_2")]),
        openai("tool", "", tool_call_id="call_2"),
        openai("tool", "Rain.", tool_call_id="call_1"),
        openai("assistant", "Rain."),
    ],
}


def test_invalid_messages_are_reported():
    for messages, said in REFUSED:
        problems = provider_problems(messages)
        assert any(said in problem for problem in problems), (said, problems)
        assert all(problem.endswith(".") for problem in problems)
        with pytest.raises(AssertionError) as failure:
            assert_valid_for_providers(messages)
        assert problems[0] in str(failure.value)


def test_valid_messages_pass():
    for name, messages in VALID.items():
        assert provider_problems(messages) == [], name
        assert_valid_for_providers(iter(messages))


def test_problems_are_listed_once_in_message_order():
    messages = [ASK, BOTH, RAIN, RAIN, HumanMessage(""), SUN, BRIEF]
    assert provider_problems(messages) == [
        "Message 1 (assistant) makes call 'call_2', which has no result directly after the message.",
        "Message 3 (tool) is a second result of call 'call_1'.",
        "Message 4 (user) follows a message of the role tool.",
        "Message 4 (user) is empty.",
        "Message 5 (tool) answers call 'call_2', which the assistant message before does not make.",
        "Message 6 (system) is a system message after other messages.",
    ]


def test_checking_does_not_change_messages():
    messages = [ASK, AIMessage([THOUGHT, USE], tool_calls=[OSLO]), RAIN]
    before = [message.model_dump() for message in messages]
    provider_problems(messages)
    assert [message.model_dump() for message in messages] == before
