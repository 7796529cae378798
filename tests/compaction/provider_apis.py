"""The wire formats of two provider APIs: how a request is read, answered, streamed and refused.

A script sees each request in one form, that of OpenAI's chat completions, and answers in it; see `loopback`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_agentmem.testing import provider_problems

from . import validators

Said = Mapping[str, Any]
"""An assistant's message: `content`, a text or None, and `tool_calls`."""
_NUMBERS = itertools.count(1)


class Refusal(NamedTuple):
    """An error response."""

    status: int
    code: str
    body: dict[str, Any]


class ChatCompletions:
    """OpenAI's chat completions."""

    path = re.compile(r"/v1/chat/completions$")

    def heard(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request in the form that scripts see: messages and tools."""
        return request

    def problems(self, request: dict[str, Any]) -> list[str]:
        """Return why the provider would refuse the request."""
        sent = request.get("messages") or []
        return provider_problems(sent) + _told(validators.openai_chat(sent))

    def invalid(self, message: str) -> Refusal:
        """The refusal of a request that it does not accept."""
        return self.refusal(message, "messages", None)

    def overflow(self, limit: int, size: int, in_messages: int) -> Refusal:
        """The refusal of a context that is too large."""
        message = (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens "
            f"({in_messages} in the messages, {size - in_messages} in the functions). Please reduce the length of the "
            "messages or functions."
        )
        return self.refusal(message, "messages", "context_length_exceeded")

    def refusal(self, message: str, param: str, code: str | None) -> Refusal:
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        return Refusal(400, code or message, {"error": error})

    def answer(self, said: Said, size: int, length: int) -> dict[str, Any]:
        """The body of an answer."""
        ended = "tool_calls" if said.get("tool_calls") else "stop"
        return {
            "id": f"chatcmpl-{next(_NUMBERS)}",
            "object": "chat.completion",
            "created": 1_767_225_600,
            "model": "gpt-test",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": None, **said}, "finish_reason": ended}
            ],
            "usage": {"prompt_tokens": size, "completion_tokens": length, "total_tokens": size + length},
        }

    def stream(self, request: dict[str, Any], answer: dict[str, Any]) -> Iterator[Mapping[str, Any] | str]:
        """The events of a stream: a word at a time, then each call in two parts, then how it ended."""
        choice = answer["choices"][0]
        message = choice["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in words(message.get("content"))]
        for number, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            deltas.append({"tool_calls": [{"index": number, **call, "function": {**function, "arguments": ""}}]})
            deltas.append({"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]})
        head = {**{key: answer[key] for key in ("id", "created", "model")}, "object": "chat.completion.chunk"}
        for delta in deltas:
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        if (request.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": answer["usage"]}
        yield "[DONE]"


class Messages(ChatCompletions):
    """Anthropic's messages."""

    path = re.compile(r"/v1/messages$")

    def heard(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": "system", "content": text_in(request["system"])}] if request.get("system") else []
        for turn in request["messages"]:
            blocks = _blocks(turn["content"])
            calls = [
                _call(block["id"], block["name"], json.dumps(block["input"]))
                for block in blocks
                if block["type"] == "tool_use"
            ]
            messages += [
                {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_in(block.get("content") or "")}
                for block in blocks
                if block["type"] == "tool_result"
            ]
            texts = [{"role": turn["role"], "content": block["text"]} for block in blocks if block["type"] == "text"]
            if calls:
                texts = [*(texts or [{"role": "assistant", "content": None}])]
                texts[-1]["tool_calls"] = calls
            messages += texts
        tools = [
            {"function": {"name": tool["name"], "parameters": tool["input_schema"]}}
            for tool in request.get("tools") or ()
        ]
        return {**request, "messages": messages, "tools": tools}

    def problems(self, request: dict[str, Any]) -> list[str]:
        return _told(validators.anthropic(request["messages"]))

    def invalid(self, message: str) -> Refusal:
        error = {"type": "invalid_request_error", "message": message}
        return Refusal(400, message, {"type": "error", "error": error, "request_id": "req_1"})

    def overflow(self, limit: int, size: int, in_messages: int) -> Refusal:
        message = f"prompt is too long: {size} tokens > {limit} maximum"
        return self.invalid(message)._replace(code="prompt is too long")

    def answer(self, said: Said, size: int, length: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": said["content"]}] if said.get("content") else []
        for call in said.get("tool_calls") or ():
            function = call["function"]
            arguments = json.loads(function["arguments"])
            content.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
        base = {"id": f"msg_{next(_NUMBERS)}", "type": "message", "role": "assistant", "model": "claude-test"}
        ended = "tool_use" if said.get("tool_calls") else "end_turn"
        usage = {"input_tokens": size, "output_tokens": length}
        return {**base, "content": content, "stop_reason": ended, "stop_sequence": None, "usage": usage}

    def stream(self, request: dict[str, Any], answer: dict[str, Any]) -> Iterator[Mapping[str, Any] | str]:
        yield {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
        for n, block in enumerate(answer["content"]):
            empty = {"text": ""} if block["type"] == "text" else {"input": {}}
            deltas = [{"type": "text_delta", "text": word} for word in words(block.get("text"))]
            if block["type"] == "tool_use":
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            yield {"type": "content_block_start", "index": n, "content_block": {**block, **empty}}
            yield from ({"type": "content_block_delta", "index": n, "delta": delta} for delta in deltas)
            yield {"type": "content_block_stop", "index": n}
        ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": answer["usage"]["output_tokens"]}}
        yield {"type": "message_stop"}


APIS = (ChatCompletions(), Messages())


def _told(problems: Iterable[validators.Problem]) -> list[str]:
    return [problem for _, problem in problems]


def words(text: str | None) -> list[str]:
    """A text in words, with the blanks behind them."""
    return re.findall(r"\S+\s*|\s+", text or "")


def text_in(content: Any) -> str:
    """The text of a text or of blocks."""
    return "\n".join(block.get("text") or "" for block in _blocks(content))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _call(key: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
