"""Validators of the payloads that LangChain's clients send, by the documents of each provider.

    refusals(messages)      # ["mistral: message 3: Unexpected role 'user' after role 'tool'"]; [] where all accept them

Each provider has a validator of the payload that its own client makes of messages. The validators are written from the
providers' documents, independently of how this package repairs histories.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_aws.chat_models.bedrock_converse import _messages_to_bedrock
from langchain_core.messages import BaseMessage
from langchain_google_genai.chat_models import _parse_chat_history
from langchain_mistralai.chat_models import _convert_message_to_mistral_chat_message
from langchain_openai import ChatOpenAI

from tests.support.histories import PIXEL

IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
logging.getLogger("langchain_google_genai").setLevel(logging.ERROR)  # which tell of each block that they leave out
logging.getLogger("langchain_aws").setLevel(logging.ERROR)

Problem = tuple[int, str]
"""The place in the payload, and what is refused there."""


def refusals(messages: Sequence[BaseMessage]) -> list[str]:
    """Return which providers would refuse the messages, and why."""
    found = []
    for name, (payload, judge) in VALIDATORS.items():
        sent = [_moved(message, name).model_copy(deep=True) for message in messages]
        try:
            made = payload(sent)
            json.dumps(made, ensure_ascii=False, default=repr).encode()
            found += [f"{name}: message {place}: {problem}" for place, problem in judge(made)]
        except Exception as error:  # noqa: BLE001 - a client that cannot send them refuses them, too
            found.append(f"{name}: the client raised {error!r}")
    return found


def _moved(message: BaseMessage, name: str) -> BaseMessage:
    """Convert a message for another provider: images as data, in the form that all clients accept, and without blocks
    that only Anthropic reads."""
    if not isinstance(message.content, list):
        return message
    kept = [
        IMAGE if isinstance(block, dict) and block["type"] in ("image", "image_url") else block
        for block in message.content
        if name == "anthropic" or not isinstance(block, dict) or block["type"] != "redacted_thinking"
    ]
    return message.model_copy(update={"content": kept})


# --- OpenAI -----------------------------------------------------------------------------------------------------------


@cache
def _chat() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4.1", api_key="x")


@cache
def _responses() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5", api_key="x", use_responses_api=True)


# https://platform.openai.com/docs/guides/function-calling; ids: https://github.com/agno-agi/agno/issues/5382
def openai_chat(sent: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:  # noqa: C901, PLR0912 - a list of rules
    if not sent:
        yield 0, "there is no message"
    waiting: list[str] = []
    for place, message in enumerate(sent):
        role, content, calls = message["role"], message.get("content"), message.get("tool_calls") or []
        if message.get("name") is not None and not _NAME.fullmatch(message["name"]):
            yield place, "name: string does not match pattern"
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield place, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield place, f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}"
        waiting = [call["id"] for call in calls]
        for call in calls:
            if not call["id"] or len(call["id"]) > 40:
                yield place, "tool_calls.id: expected a string with maximum length 40"
            if not _NAME.fullmatch(call["function"]["name"] or ""):
                yield place, "tool_calls.function.name: string does not match pattern"
        if not content and not calls:
            yield place, "content: expected a string, got null"
        kinds = [block["type"] for block in content] if isinstance(content, list) else []
        if role != "user" and "image_url" in kinds:
            yield place, "image URLs are only allowed for messages with role 'user'"
        if strange := {*kinds} - {"text", "image_url", "input_audio", "file", "refusal"}:
            yield place, f"invalid content type {strange}"
    if waiting:
        yield len(sent), f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}"


# https://platform.openai.com/docs/guides/reasoning; pairs: https://github.com/vercel/ai/issues/7099
def openai_responses(sent: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:  # noqa: C901 - a list of rules
    if not sent:
        yield 0, "there is no item"
    calls = [item["call_id"] for item in sent if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in sent if item.get("type") == "function_call_output"]
    if missing := {*calls} - {*outputs}:
        yield 0, f"no tool output found for function call {missing}"
    if missing := {*outputs} - {*calls}:
        yield 0, f"no tool call found for function call output {missing}"
    for key, times in Counter(item["id"] for item in sent if item.get("id")).items():
        if times > 1:
            yield 0, f"duplicate item found with id {key}"
    for place, item in enumerate(sent):
        if item.get("type") in ("function_call", "function_call_output") and not 0 < len(item["call_id"]) <= 64:
            yield place, "call_id: expected a string with maximum length 64"
        if item.get("type") == "function_call" and not _NAME.fullmatch(item["name"]):
            yield place, "name: string does not match pattern"
        if item.get("type") == "reasoning":
            then = sent[place + 1] if place + 1 < len(sent) else {}
            if then.get("type") not in ("reasoning", "function_call") and then.get("role") != "assistant":
                yield place, "reasoning was provided without its required following item"


# --- Anthropic --------------------------------------------------------------------------------------------------------


@cache
def _claude() -> ChatAnthropic:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return ChatAnthropic(model="claude-sonnet-4-5", api_key="x", max_tokens=4096, thinking=thinking)


# https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use;
# thinking: https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
def anthropic(sent: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:  # noqa: C901 - a list of rules
    turns = _turns(sent)
    if not turns or turns[0][0] != "user":
        yield 0, "first message must use the user role"
    used: set[str] = set()
    before: list[str] = []
    for place, (role, blocks) in enumerate(turns):
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if not blocks:
            yield place, "all messages must have non-empty content"
        if missing := {*before} - {*results}:
            yield place, f"tool_use ids were found without tool_result blocks immediately after: {missing}"
        if unexpected := {*results} - {*before}:
            yield place, f"unexpected tool_use_id found in tool_result blocks: {unexpected}"
        if len({*results}) < len(results):
            yield place, "each tool_use must have a single result"
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield place, "tool_result blocks must come first"
        if role == "assistant" and kinds and kinds[-1] in ("thinking", "redacted_thinking"):
            yield place, "the final block in an assistant message cannot be thinking"
        before = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not used.isdisjoint(before) or len({*before}) < len(before):
            yield place, "tool_use ids must be unique"
        used.update(before)
        for block in blocks:
            yield from ((place, problem) for problem in _of_block(block, role))
    if before:
        yield len(turns), f"tool_use ids were found without tool_result blocks immediately after: {before}"


def _turns(sent: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The turns: what one role says one after the other is combined."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in sent:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], blocks))
    return turns


def _of_block(block: Mapping[str, Any], role: str) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        yield "text content blocks must contain non-whitespace text"
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"] or ""):
        yield "tool_use.id: string should match pattern"
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"] or ""):
        yield "tool_use.name: string should match pattern"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking.signature: field required"
    if kind == "image" and role == "assistant":
        yield "images are the user's"
    if kind not in ("text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking", "document"):
        yield f"input tag {kind!r} does not match any of the expected tags"


# --- Gemini -----------------------------------------------------------------------------------------------------------


def _contents(messages: Sequence[BaseMessage]) -> list[tuple[str, list[str]]]:
    """Roles, and which parts each content has."""
    _, contents = _parse_chat_history(messages, model="gemini-2.5-pro")
    return [(content.role or "", [_part(part) for part in content.parts or ()]) for content in contents]


def _part(part: Any) -> str:
    if part.function_call is not None:
        return "call"
    if part.function_response is not None:
        return "response"
    return "empty" if part.text == "" else "other"


# https://ai.google.dev/gemini-api/docs/function-calling;
# order: https://github.com/google-gemini/gemini-cli/issues/11814
def gemini(sent: Sequence[tuple[str, list[str]]]) -> Iterator[Problem]:
    if not sent or sent[0][0] != "user":
        yield 0, "contents must begin with a user"
    role_before, before = "", Counter[str]()
    for place, (role, parts) in enumerate(sent):
        kinds = Counter(parts)
        if not parts or kinds["empty"]:
            yield place, "unable to submit request because it must include at least one parts field"
        if role == "model" == role_before:
            yield place, "function call turn comes immediately after a user turn or after a function response turn"
        if kinds["response"] != before["call"]:
            yield place, "the number of function response parts is equal to the number of function call parts"
        role_before, before = role, kinds
    if before["call"]:
        yield len(sent), "the number of function response parts is equal to the number of function call parts"


# --- Mistral ----------------------------------------------------------------------------------------------------------

_AFTER = {
    "system": {"system", "user", "assistant"},
    "user": {"system", "user", "assistant"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}


# https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py
def mistral(sent: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if not sent or sent[0]["role"] not in ("system", "user"):
        yield 0, "a conversation must begin with a user"
    before, open_calls = "system", 0
    for place, message in enumerate(sent):
        role, calls = message["role"], message.get("tool_calls") or []
        if role not in _AFTER[before]:
            yield place, f"unexpected role {role!r} after role {before!r}"
        ids = [message["tool_call_id"]] if role == "tool" else [call["id"] for call in calls]
        if not all(re.fullmatch(r"[a-zA-Z0-9]{9}", key or "") for key in ids):
            yield place, "tool call id must be a-z, A-Z, 0-9, with a length of 9"
        open_calls -= role == "tool"
        if role == "assistant":
            if open_calls:
                yield place, "not the same number of function calls and responses"
            open_calls = len(calls)
            if not message.get("content") and not calls:
                yield place, "assistant message must have either content or tool_calls"
        before = role
    if open_calls:
        yield len(sent), "not the same number of function calls and responses"


# --- Bedrock ----------------------------------------------------------------------------------------------------------


# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html,
# API_runtime_Converse.html; counts: https://github.com/strands-agents/harness-sdk/issues/1435
def bedrock(sent: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if not sent or sent[0]["role"] != "user":
        yield 0, "a conversation must start with a user message"
    role_before, before = "", set[str]()
    for place, message in enumerate(sent):
        content = message["content"]
        if message["role"] == role_before:
            yield place, "roles must alternate"
        if not content or any("text" in block and not str(block["text"]).strip() for block in content):
            yield place, "the text field in the ContentBlock is blank"
        results = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
        if {*results} - before or len({*results}) < len(results):
            yield place, "the number of toolResult blocks exceeds the number of toolUse blocks of previous turn"
        if before - {*results}:
            yield place, "expected toolResult blocks for the toolUse blocks of previous turn"
        calls = [block["toolUse"] for block in content if "toolUse" in block]
        if not all(_NAME.fullmatch(word or "") for call in calls for word in (call["toolUseId"], call["name"])):
            yield place, "toolUseId or name failed to satisfy constraint"
        role_before, before = message["role"], {call["toolUseId"] for call in calls}
    if before:
        yield len(sent), "expected toolResult blocks for the toolUse blocks of previous turn"


VALIDATORS: Mapping[str, tuple[Callable[[list[BaseMessage]], Any], Callable[[Any], Iterator[Problem]]]] = {
    "openai chat": (lambda messages: _chat()._get_request_payload(messages)["messages"], openai_chat),
    "openai responses": (lambda messages: _responses()._get_request_payload(messages)["input"], openai_responses),
    "anthropic": (lambda messages: _claude()._get_request_payload(messages)["messages"], anthropic),
    "gemini": (_contents, gemini),
    "mistral": (lambda messages: list(map(_convert_message_to_mistral_chat_message, messages)), mistral),
    "bedrock": (lambda messages: _messages_to_bedrock(messages)[0], bedrock),
}
"""For each provider what its client makes of messages, and what it refuses of that."""
