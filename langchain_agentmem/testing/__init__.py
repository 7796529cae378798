"""Checks that every provider accepts a list of messages.

    from langchain_core.messages import AIMessage, HumanMessage

    from langchain_agentmem.testing import assert_valid_for_providers

    assert_valid_for_providers([HumanMessage("Hello."), AIMessage("Good morning!")])

The rules combine those of OpenAI's chat completions and responses, Anthropic's messages (with thinking), Gemini,
Mistral, and Bedrock's Converse, for messages as LangChain's clients send them. A conversation that obeys all rules can
continue with another model. The rules, each with the providers that require it:

- The list is not empty: Anthropic ("messages: at least one message is required"). It contains a user message, and only
  system messages precede the first user message: Anthropic ('messages: first message must use the "user" role'), Gemini
  ("Please ensure that function call turn comes immediately after a user turn or after a function response turn").
- System messages are consecutive at the beginning: langchain-anthropic ("Received multiple non-consecutive system
  messages"). langchain-google-genai silently omits later system messages if the first message is not one.
- Assistant messages are not consecutive: Gemini refuses calls directly after another assistant message ("Please ensure
  that function call turn comes immediately after a user turn or after a function response turn").
- No user message directly follows a tool message: Mistral ("Unexpected role 'user' after role 'tool'", 3230).
- Every call has an id and a name, and all ids are different: Anthropic ("`tool_use` ids must be unique"). If several
  calls have one id, langchain-google-genai sends the first result with this id for all of them. A content block with
  the id of a call in `tool_calls` is the same call. langchain-anthropic also sends the other call blocks, so each of
  them counts as a call.
- There are no `invalid_tool_calls`: langchain-aws and langchain-google-genai omit these calls but send their results,
  which then have no call. langchain-openai and langchain-anthropic send these calls.
- The ids of calls have at most 40 characters: OpenAI's chat completions ("string too long. Expected a string with
  maximum length 40"; OpenAI's responses and Bedrock accept 64). They consist of letters, digits, "_" and "-": Bedrock,
  Anthropic ("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'").
- Every call has one result, directly after the message with the call: OpenAI ("An assistant message with 'tool_calls'
  must be followed by tool messages responding to each 'tool_call_id'"), Anthropic ("`tool_use` ids were found without
  `tool_result` blocks immediately after"), Gemini ("Please ensure that the number of function response parts is equal
  to the number of function call parts of the function call turn"). A second result of a call is refused by OpenAI
  ("Duplicate value for 'tool_call_id'") and Anthropic ("each tool_use must have a single result").
- Every result has a call: OpenAI ("messages with role 'tool' must be a response to a preceeding message with
  'tool_calls'"), Anthropic ("unexpected `tool_use_id` found in `tool_result` blocks").
- No message is empty, except those of tools: Anthropic ("all messages must have non-empty content", "text content
  blocks must be non-empty", "text content blocks must contain non-whitespace text"), OpenAI ("Invalid value for
  'content': expected a string, got null"), Gemini ("Unable to submit request because it must include at least one parts
  field").
- Only user and tool messages contain images: OpenAI ("Image URLs are only allowed for messages with role 'user'").
- Names have at most 64 letters, digits, "_" and "-": OpenAI ("string does not match pattern"), Bedrock.
- Only assistant messages contain reasoning, together with text or calls. Reasoning precedes text and calls, or follows
  the result of a tool that the provider runs. Reasoning of Anthropic has a signature: Anthropic ("The final block in an
  assistant message cannot be `thinking`", "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
  "thinking.signature: Field required"). A `reasoning` block is not repeated: OpenAI's responses ("Duplicate item found
  with id rs_…").
- No text contains half of a surrogate pair: the clients of OpenAI and of Anthropic (`UnicodeEncodeError`).

The rules are from the documentation of OpenAI (https://platform.openai.com/docs/guides/function-calling,
https://platform.openai.com/docs/guides/reasoning), Anthropic
(https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use,
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking), Gemini
(https://ai.google.dev/gemini-api/docs/function-calling), Mistral
(https://docs.mistral.ai/capabilities/function_calling/, and its validator:
https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py), and Bedrock
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html). Undocumented rules are from the
providers' error messages.

Two things are not checked: the role of the last message, since a conversation may end with any role, and blocks that
only one provider supports. For example, langchain-openai refuses `redacted_thinking` of Anthropic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, ToolMessage

from langchain_agentmem.base.encoding import replace_surrogates
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.messages.history_repair import make_encodable

_Problem: TypeAlias = tuple[int, str]
"""The index of a message, and a problem as the end of the sentence "Message 1 (user) …"."""

_ROLES = ("system", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_FORBIDDEN_PAIRS = {("assistant", "assistant"), ("tool", "user")}
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})
_CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call"})
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_SIGNATURE_KEYS = {"thinking": "signature", "redacted_thinking": "data"}
_NAME_RULE = "a name has at most 64 letters, digits, '_' and '-'"


class _Call(NamedTuple):
    """A tool call; `parsed` is False if LangChain could not parse its arguments."""

    id: Any
    name: Any
    parsed: bool = True


class _AnyMessage(NamedTuple):
    """The checked fields of a message, in one form for all types of messages."""

    role: str
    content: list[Mapping[str, Any]]
    calls: Sequence[_Call] = ()
    call_id: Any = None
    name: Any = None


def provider_problems(messages: Iterable[BaseMessage | Mapping[str, Any]]) -> list[str]:
    """Return the reasons why a provider would refuse messages.

    Args:
        messages: LangChain messages, or dictionaries in the form of OpenAI's chat completions.

    Returns:
        A sentence for each problem, in the order of the messages, which are counted from 0. Empty if every provider
        accepts them.
    """
    messages = list(messages)
    parsed = [_parse_message(message) for message in messages]
    if not parsed:
        return ["There is no message."]
    problems = sorted(
        [*_text_problems(messages), *_role_problems(parsed), *_call_problems(parsed), *_content_problems(parsed)],
        key=lambda problem: problem[0],
    )
    return [f"Message {index} ({parsed[index].role}) {sentence}." for index, sentence in problems]


def assert_valid_for_providers(messages: Iterable[BaseMessage | Mapping[str, Any]]) -> None:
    """Raise an error unless every provider would accept messages.

    Args:
        messages: As for `provider_problems`.

    Raises:
        AssertionError: A provider would refuse the messages. The error lists all problems.
    """
    __tracebackhide__ = True
    if problems := provider_problems(messages):
        raise AssertionError("A provider would refuse these messages:\n" + "\n".join(problems))


def _text_problems(messages: Sequence[BaseMessage | Mapping[str, Any]]) -> Iterator[_Problem]:
    for index, message in enumerate(messages):
        clean = make_encodable(message) if isinstance(message, BaseMessage) else replace_surrogates(message)
        if clean is not message:
            yield index, "has half of a surrogate pair, which cannot be sent"


def _role_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    roles = [message.role for message in parsed]
    for index, role in enumerate(roles):
        if role not in _ROLES:
            yield index, f"has none of the roles {', '.join(_ROLES)}"
        elif role == "system" and any(other != "system" for other in roles[:index]):
            yield index, "is a system message after other messages"
        elif index and (roles[index - 1], role) in _FORBIDDEN_PAIRS:
            yield index, f"follows a message of the role {roles[index - 1]}"
    first_index = next((index for index, role in enumerate(roles) if role != "system"), None)
    if first_index is not None and roles[first_index] != "user":
        yield first_index, "comes before any user message"
    if "user" not in roles:
        yield len(parsed) - 1, "is the last message, and no message has the role user"


def _call_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    has_result: dict[Any, bool] = {}  # for each call id of the last message that is not a tool message
    earlier_ids: set[str] = set()
    caller_index = 0
    for index, message in enumerate([*parsed, _AnyMessage("end", [])]):  # "end" completes the last calls
        if message.role == "tool":
            quoted_id = safe_repr(message.call_id)
            if message.call_id not in has_result:
                yield index, f"answers call {quoted_id}, which the assistant message before does not make"
            elif has_result[message.call_id]:
                yield index, f"is a second result of call {quoted_id}"
            else:
                has_result[message.call_id] = True
            continue
        for call_id, is_answered in has_result.items():
            if not is_answered:
                yield caller_index, f"makes call {safe_repr(call_id)}, which has no result directly after the message"
        ids = [call.id for call in message.calls if isinstance(call.id, str) and call.id]
        for call_id, times in Counter(ids).items():
            if times > 1:
                yield index, f"makes {times} calls with the id {safe_repr(call_id)}"
            if call_id in earlier_ids:
                yield index, f"makes call {safe_repr(call_id)}, but an earlier call has the same id"
        earlier_ids.update(ids)
        caller_index, has_result = index, dict.fromkeys(ids, False)
        yield from ((index, problem) for problem in _call_form_problems(message))


def _call_form_problems(message: _AnyMessage) -> Iterator[str]:
    """Yield the problems of the ids and names of the calls of a message."""
    for call in message.calls:
        if not isinstance(call.id, str) or not call.id:
            yield "makes a call without an id"
        elif not _CALL_ID.fullmatch(call.id):
            yield f"makes call {safe_repr(call.id)}: an id has at most 40 letters, digits, '_' and '-'"
        if not _is_name(call.name):
            yield f"makes a call of a tool named {safe_repr(call.name)}: {_NAME_RULE}"
        if not call.parsed:
            yield f"makes call {safe_repr(call.id)} with invalid arguments, which some clients omit"


def _content_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    reasoning_ids: set[Any] = set()
    for index, message in enumerate(parsed):
        kinds = [block.get("type") for block in message.content]
        if message.role not in _ROLES:
            continue
        if message.role != "tool" and not kinds and not message.calls:
            yield index, "is empty"
        texts = [block.get("text") for block in message.content if block.get("type") in _TEXT_TYPES]
        if not all(str(text or "").strip() for text in texts):
            yield index, "has an empty text block"
        if message.role in {"system", "assistant"} and not _IMAGE_TYPES.isdisjoint(kinds):
            yield index, "contains an image, but only user and tool messages may"
        if message.role != "tool" and message.name is not None and not _is_name(message.name):
            yield index, f"is named {safe_repr(message.name)}: {_NAME_RULE}"
        if not _REASONING_TYPES.isdisjoint(kinds):
            yield from ((index, problem) for problem in _reasoning_problems(message, kinds))
            ids = {block.get("id") for block in message.content if block.get("type") == "reasoning"} - {None, ""}
            repeated_ids = map(safe_repr, ids & reasoning_ids)
            yield from ((index, f"repeats the reasoning block {each} of an earlier message") for each in repeated_ids)
            reasoning_ids |= ids


def _reasoning_problems(message: _AnyMessage, kinds: Sequence[Any]) -> Iterator[str]:
    if message.role != "assistant":
        yield "contains reasoning, but only assistant messages may"
        return
    if _REASONING_TYPES.issuperset(kinds) and not message.calls:
        yield "contains only reasoning"
    has_output = False
    for kind in kinds:
        if kind in _REASONING_TYPES and has_output:
            yield "contains reasoning after text or calls"
            break
        # Reasoning may follow the result of a tool that the provider runs.
        has_output = (has_output or kind in _TEXT_TYPES | _CALL_TYPES) and not str(kind).endswith("tool_result")
    for kind, block in zip(kinds, message.content, strict=True):
        if kind in _SIGNATURE_KEYS and not block.get(_SIGNATURE_KEYS[kind]):
            yield f"has a {kind} block without its {_SIGNATURE_KEYS[kind]}"


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


# --- Conversion of messages to one form -----------------------------------------------------------------------------


def _parse_message(message: Any) -> _AnyMessage:
    if isinstance(message, Mapping):
        role = message.get("role")
        content = _content_blocks(message.get("content"))
        return _AnyMessage(
            role="system" if role == "developer" else str(role),
            content=content,
            calls=_collect_calls([], message.get("tool_calls") or (), content),
            call_id=message.get("tool_call_id"),
            name=message.get("name"),
        )
    if not isinstance(message, BaseMessage):
        return _AnyMessage(role=type(message).__name__, content=[])
    content = _content_blocks(message.content)
    name = message.name if message.name is not None else message.additional_kwargs.get("name")
    if isinstance(message, AIMessage):
        calls = [_Call(call["id"], call["name"]) for call in message.tool_calls]
        calls += [_Call(call["id"], call["name"], parsed=False) for call in message.invalid_tool_calls]
        # langchain-openai sends the raw calls if the message has no other calls.
        raw_calls = () if calls else message.additional_kwargs.get("tool_calls") or ()
        return _AnyMessage("assistant", content, _collect_calls(calls, raw_calls, content), name=name)
    kind = message.type.removesuffix("MessageChunk").lower()
    role = message.role if isinstance(message, ChatMessage) else kind.replace("human", "user")
    call_id = message.tool_call_id if isinstance(message, ToolMessage) else None
    return _AnyMessage("system" if role == "developer" else role, content, call_id=call_id, name=name)


def _content_blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return [block if isinstance(block, Mapping) else {"type": "text", "text": block} for block in content or ()]


def _collect_calls(
    calls: list[_Call], openai_calls: Iterable[Mapping[str, Any]], content: Iterable[Mapping[str, Any]]
) -> list[_Call]:
    """Return `calls`, `openai_calls` and the calls that occur only as content blocks."""
    calls = [*calls, *(_Call(call.get("id"), (call.get("function") or {}).get("name")) for call in openai_calls)]
    unmatched = Counter(call.id for call in calls)  # by id, the number of calls without a content block so far
    for block in content:
        if block.get("type") in _CALL_TYPES:
            call = _Call(block.get("call_id") or block.get("id"), block.get("name"))
            if unmatched[call.id] > 0:
                unmatched[call.id] -= 1
            else:
                calls.append(call)
    return calls
