"""What four provider APIs look like on the wire: how a request is read, answered, streamed and refused.

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
    """An answer that is none."""

    status: int
    code: str
    body: dict[str, Any]


class ChatCompletions:
    """OpenAI's chat completions."""

    path = re.compile(r"/v1/chat/completions$")
    refuses_late = False
    """Whether a refusal comes in the stream that was asked for, with status 200."""

    def heard(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request in the form that scripts see: messages and tools."""
        return request

    def problems(self, request: dict[str, Any]) -> list[str]:
        """What the provider does not accept."""
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


class Responses(ChatCompletions):
    """OpenAI's responses."""

    path = re.compile(r"/v1/responses$")
    refuses_late = True

    def heard(self, request: dict[str, Any]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        for item in request["input"]:
            match item.get("type", "message"):
                case "message":
                    role = "system" if item["role"] == "developer" else item["role"]
                    messages.append({"role": role, "content": text_in(item["content"])})
                case "function_call":
                    called = _call(item["call_id"], item["name"], item["arguments"])
                    if messages[-1]["role"] != "assistant":
                        messages.append({"role": "assistant", "content": None})
                    messages[-1].setdefault("tool_calls", []).append(called)
                case "function_call_output":
                    told = {"tool_call_id": item["call_id"], "content": text_in(item["output"])}
                    messages.append({"role": "tool", **told})
        tools = [
            {"function": {key: tool[key] for key in tool.keys() - {"type"}}} for tool in request.get("tools") or ()
        ]
        return {**request, "messages": messages, "tools": tools}

    def problems(self, request: dict[str, Any]) -> list[str]:
        return _told(validators.openai_responses(request["input"]))

    def invalid(self, message: str) -> Refusal:
        return self.refusal(message, "input", None)

    def overflow(self, limit: int, size: int, in_messages: int) -> Refusal:
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return self.refusal(message, "input", "context_length_exceeded")

    def answer(self, said: Said, size: int, length: int) -> dict[str, Any]:
        output = []
        if said.get("content"):
            text = {"type": "output_text", "text": said["content"], "annotations": []}
            base = {"type": "message", "id": f"msg_{next(_NUMBERS)}", "role": "assistant", "status": "completed"}
            output.append({**base, "content": [text]})
        for call in said.get("tool_calls") or ():
            base = {"type": "function_call", "id": f"fc_{next(_NUMBERS)}", "status": "completed"}
            output.append({**base, "call_id": call["id"], **call["function"]})
        usage = {"input_tokens": size, "output_tokens": length, "total_tokens": size + length}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        base = {"id": f"resp_{next(_NUMBERS)}", "object": "response", "created_at": 1, "model": "gpt-test"}
        base |= {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "tools": []}
        base |= {"parallel_tool_calls": True, "tool_choice": "auto", "temperature": 1, "top_p": 1}
        return {**base, "status": "completed", "output": output, "usage": usage}

    def stream(self, request: dict[str, Any], answer: dict[str, Any]) -> Iterator[Mapping[str, Any] | str]:
        if isinstance(error := answer["error"], Mapping):
            yield {"type": "error", "sequence_number": 0, **{key: error[key] for key in ("code", "message", "param")}}
            return
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**answer, "output": [], "status": "in_progress"}}
        ]
        for place, item in enumerate(answer["output"]):
            at = {"item_id": item["id"], "output_index": place}
            key = "content" if item["type"] == "message" else "arguments"
            begun = {**item, key: [] if key == "content" else "", "status": "in_progress"}
            events.append({"type": "response.output_item.added", "output_index": place, "item": begun})
            if item["type"] == "message":
                for word in words(item["content"][0]["text"]):
                    told = {"content_index": 0, "delta": word, "logprobs": []}
                    events.append({"type": "response.output_text.delta", **at, **told})
            else:
                told = {"delta": item["arguments"]}
                events.append({"type": "response.function_call_arguments.delta", **at, **told})
            events.append({"type": "response.output_item.done", "output_index": place, "item": item})
        events.append({"type": "response.completed", "response": answer})
        yield from ({**event, "sequence_number": number} for number, event in enumerate(events))


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


class GenerateContent(ChatCompletions):
    """Gemini's generateContent."""

    path = re.compile(r":generateContent$")

    def heard(self, request: dict[str, Any]) -> dict[str, Any]:
        system = (request.get("systemInstruction") or {}).get("parts")
        messages: list[dict[str, Any]] = [{"role": "system", "content": _parts_text(system)}] if system else []
        for n, turn in enumerate(request["contents"]):
            calls = [
                _call(f"{n}-{k}", part["functionCall"]["name"], json.dumps(part["functionCall"].get("args") or {}))
                for k, part in enumerate(turn["parts"])
                if "functionCall" in part
            ]
            messages += [
                {"role": "tool", "tool_call_id": f"{n}-{k}", "content": _output(part["functionResponse"]["response"])}
                for k, part in enumerate(turn["parts"])
                if "functionResponse" in part
            ]
            said = _parts_text(turn["parts"])
            if calls or said:
                made = {"tool_calls": calls} if calls else {}
                role = "assistant" if turn.get("role") == "model" else "user"
                messages.append({"role": role, "content": said or None, **made})
        declared = [each for tool in request.get("tools") or () for each in tool.get("functionDeclarations") or ()]
        return {**request, "messages": messages, "tools": [{"function": each} for each in declared]}

    def problems(self, request: dict[str, Any]) -> list[str]:
        sent = [(turn.get("role", "user"), [*map(_kind, turn["parts"])]) for turn in request["contents"]]
        return _told(validators.gemini(sent))

    def invalid(self, message: str) -> Refusal:
        return Refusal(400, message, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})

    def overflow(self, limit: int, size: int, in_messages: int) -> Refusal:
        message = f"The input token count ({size}) exceeds the maximum number of tokens allowed ({limit})."
        return self.invalid(message)._replace(code="input token count")

    def answer(self, said: Said, size: int, length: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": said["content"]}] if said.get("content") else []
        for call in said.get("tool_calls") or ():
            function = call["function"]
            parts.append({"functionCall": {"name": function["name"], "args": json.loads(function["arguments"])}})
        usage = {"promptTokenCount": size, "candidatesTokenCount": length, "totalTokenCount": size + length}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-test"}


APIS = (ChatCompletions(), Responses(), Messages(), GenerateContent())


def _told(problems: Iterable[validators.Problem]) -> list[str]:
    return [problem for _, problem in problems]


def _kind(part: Mapping[str, Any]) -> str:
    """What a part of Gemini's is, as its judge calls it."""
    if "functionCall" in part or "functionResponse" in part:
        return "call" if "functionCall" in part else "response"
    return "empty" if part.get("text") == "" else "other"


def words(text: str | None) -> list[str]:
    """A text in words, with the blanks behind them."""
    return re.findall(r"\S+\s*|\s+", text or "")


def text_in(content: Any) -> str:
    """The text of a text or of blocks."""
    return "\n".join(block.get("text") or "" for block in _blocks(content))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _parts_text(parts: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if "text" in part)


def _output(response: Any) -> str:
    told = response.get("output", response) if isinstance(response, Mapping) else response
    return told if isinstance(told, str) else json.dumps(told)


def _call(key: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
