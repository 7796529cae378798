"""Whether every provider would accept a list of messages: what one of them refuses is a problem.

    from langchain_core.messages import AIMessage, HumanMessage

    from langchain_agentmem.testing import assert_valid_for_providers

    assert_valid_for_providers([HumanMessage("Hello."), AIMessage("Good morning!")])

The rules are those of OpenAI's chat completions and responses, of Anthropic's messages (with thinking), of Gemini, of
Mistral, and of Bedrock's Converse taken together, for messages as LangChain's clients send them. Whoever passes here
can change the model in the middle of a conversation. Each rule, and who refuses what breaks it:

- There are messages: Anthropic ("messages: at least one message is required"). One of them is the user's, and the first
  that is no system message is: Anthropic ('messages: first message must use the "user" role'), Gemini ("Please ensure
  that function call turn comes immediately after a user turn or after a function response turn").
- System messages stand together at the beginning: langchain-anthropic ("Received multiple non-consecutive system
  messages"), and langchain-google-genai leaves later ones out, without a word, where none stands first.
- No two assistant messages stand in a row: Gemini, where the second calls tools ("Please ensure that function call turn
  comes immediately after a user turn or after a function response turn"), whose turns alternate.
- No user speaks right after a tool: Mistral ("Unexpected role 'user' after role 'tool'", 3230).
- Every call has an id and a name, and no two calls have one id: Anthropic ("`tool_use` ids must be unique"), and
  langchain-google-genai gives every call of an id the first result of that id. Content blocks that repeat what is in
  `tool_calls` are the same call, those that do not are calls too, since langchain-anthropic sends them.
  `invalid_tool_calls` are none, since langchain-openai and langchain-anthropic send them, and langchain-aws and
  langchain-google-genai do not, so that with some client their results have no call.
- The ids of calls have at most 40 signs: OpenAI's chat completions ("string too long. Expected a string with maximum
  length 40"; its responses and Bedrock take 64). They are of letters, digits, "_" and "-": Bedrock, Anthropic
  ("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'").
- Every call is answered once, directly after the message that makes it, before anything else: OpenAI ("An assistant
  message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"), Anthropic
  ("`tool_use` ids were found without `tool_result` blocks immediately after"), Gemini ("Please ensure that the number
  of function response parts is equal to the number of function call parts of the function call turn"). Twice: OpenAI
  ("Duplicate value for 'tool_call_id'"), Anthropic ("each tool_use must have a single result").
- Every answer has a call: OpenAI ("messages with role 'tool' must be a response to a preceeding message with
  'tool_calls'"), Anthropic ("unexpected `tool_use_id` found in `tool_result` blocks").
- No message is empty, but that of a tool may be: Anthropic ("all messages must have non-empty content", "text content
  blocks must be non-empty", "text content blocks must contain non-whitespace text"), OpenAI ("Invalid value for
  'content': expected a string, got null"), Gemini ("Unable to submit request because it must include at least one parts
  field").
- Images are the user's or a tool's: OpenAI ("Image URLs are only allowed for messages with role 'user'").
- Names are of letters, digits, "_" and "-", at most 64 of them: OpenAI ("string does not match pattern"), Bedrock.
- Reasoning is the assistant's, is not all that a message says, stands before text and calls, or after the result of a
  tool that the provider runs, and is as it was signed: Anthropic ("The final block in an assistant message cannot be
  `thinking`", "Expected `thinking` or `redacted_thinking`, but found `tool_use`", "thinking.signature: Field
  required"). A `reasoning` block comes once: OpenAI's responses ("Duplicate item found with id rs_…").
- No text has half of a surrogate pair: the clients of OpenAI and of Anthropic (`UnicodeEncodeError`).

They are from the documents of OpenAI (https://platform.openai.com/docs/guides/function-calling,
https://platform.openai.com/docs/guides/reasoning), Anthropic
(https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use,
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking), Gemini
(https://ai.google.dev/gemini-api/docs/function-calling), Mistral
(https://docs.mistral.ai/capabilities/function_calling/, and what it checks:
https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py), and Bedrock
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html), and what they do not say from the
words with which they refuse.

Not looked at is who speaks last, since a conversation may end with anyone, and blocks that one provider alone knows:
langchain-openai refuses `redacted_thinking` of Anthropic.
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
"""The place of a message, from 0, and a sentence about it."""

_ROLES = ("system", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_FORBIDDEN_PAIRS = {("assistant", "assistant"), ("tool", "user")}
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})
_CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call"})
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_SIGNATURE_KEYS = {"thinking": "signature", "redacted_thinking": "data"}
_NAME_RULE = "at most 64 letters, digits, '_' and '-' are a name"


class _Call(NamedTuple):
    id: Any
    name: Any
    parsed: bool = True


class _AnyMessage(NamedTuple):
    """A message as it is looked at here, whatever its form."""

    role: str
    content: list[Mapping[str, Any]]
    calls: Sequence[_Call] = ()
    call_id: Any = None
    name: Any = None


def provider_problems(messages: Iterable[BaseMessage | Mapping[str, Any]]) -> list[str]:
    """Say why a provider would refuse messages.

    Args:
        messages: LangChain messages, or dictionaries in the form of OpenAI's chat completions.

    Returns:
        A sentence for each problem, in the order of the messages, which are counted from 0. Empty: every provider takes
        them.
    """
    messages = list(messages)
    parsed = [_parse_message(message) for message in messages]
    if not parsed:
        return ["There is no message."]
    problems = sorted(
        [*_text_problems(messages), *_role_problems(parsed), *_call_problems(parsed), *_content_problems(parsed)],
        key=lambda problem: problem[0],
    )
    return [f"Message {place} ({parsed[place].role}) {sentence}." for place, sentence in problems]


def assert_valid_for_providers(messages: Iterable[BaseMessage | Mapping[str, Any]]) -> None:
    """Fail unless every provider would accept messages.

    Args:
        messages: As for `provider_problems`.

    Raises:
        AssertionError: A provider would refuse them; it names all problems.
    """
    __tracebackhide__ = True
    if problems := provider_problems(messages):
        raise AssertionError("A provider would refuse these messages:\n" + "\n".join(problems))


def _text_problems(messages: Sequence[BaseMessage | Mapping[str, Any]]) -> Iterator[_Problem]:
    for place, message in enumerate(messages):
        clean = make_encodable(message) if isinstance(message, BaseMessage) else replace_surrogates(message)
        if clean is not message:
            yield place, "has half of a surrogate pair, which cannot be sent"


def _role_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    roles = [message.role for message in parsed]
    for place, role in enumerate(roles):
        if role not in _ROLES:
            yield place, f"is none of {', '.join(_ROLES)}"
        elif role == "system" and any(other != "system" for other in roles[:place]):
            yield place, "is a system message after others"
        elif place and (roles[place - 1], role) in _FORBIDDEN_PAIRS:
            yield place, f"comes right after a message of the {roles[place - 1]}"
    first = next((place for place, role in enumerate(roles) if role != "system"), None)
    if first is not None and roles[first] != "user":
        yield first, "comes before any user message"
    if "user" not in roles:
        yield len(parsed) - 1, "is the last, and none is the user's"


def _call_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    calls: dict[Any, bool] = {}  # of the last message that is not a tool's, and whether each was answered
    earlier_ids: set[str] = set()
    caller = 0
    for place, message in enumerate([*parsed, _AnyMessage("end", [])]):
        if message.role == "tool":
            answered = calls.get(message.call_id)
            if answered:
                yield place, f"answers call {safe_repr(message.call_id)} a second time"
            elif answered is None:
                answer = safe_repr(message.call_id)
                yield place, f"answers {answer}, and the assistant message before it makes no such call"
            else:
                calls[message.call_id] = True
            continue
        for call, answered in calls.items():
            if not answered:
                yield caller, f"makes call {safe_repr(call)}, which is not answered right after it"
        ids = [call.id for call in message.calls if isinstance(call.id, str) and call.id]
        for call, times in Counter(ids).items():
            if times > 1:
                yield place, f"makes {times} calls of the id {safe_repr(call)}"
            if call in earlier_ids:
                yield place, f"makes call {safe_repr(call)}, whose id an earlier call has"
        earlier_ids.update(ids)
        caller, calls = place, dict.fromkeys(ids, False)
        yield from ((place, problem) for problem in _call_form_problems(message))


def _call_form_problems(message: _AnyMessage) -> Iterator[str]:
    """What is wrong with the words of the calls of a message."""
    for call in message.calls:
        if not isinstance(call.id, str) or not call.id:
            yield "makes a call without an id"
        elif not _CALL_ID.fullmatch(call.id):
            yield f"makes call {safe_repr(call.id)}: at most 40 letters, digits, '_' and '-' are an id"
        if not _is_name(call.name):
            yield f"makes a call of a tool named {safe_repr(call.name)}: {_NAME_RULE}"
        if not call.parsed:
            yield f"makes call {safe_repr(call.id)}, which could not be parsed, so that not every client sends it"


def _content_problems(parsed: Sequence[_AnyMessage]) -> Iterator[_Problem]:
    reasoning_ids: set[Any] = set()
    for place, message in enumerate(parsed):
        kinds = [block.get("type") for block in message.content]
        if message.role not in _ROLES:
            continue
        if message.role != "tool" and not kinds and not message.calls:
            yield place, "is empty"
        texts = [block.get("text") for block in message.content if block.get("type") in _TEXT_TYPES]
        if not all(str(text or "").strip() for text in texts):
            yield place, "has an empty text block"
        if message.role in {"system", "assistant"} and not _IMAGE_TYPES.isdisjoint(kinds):
            yield place, "shows an image, which only users and tools may"
        if message.role != "tool" and message.name is not None and not _is_name(message.name):
            yield place, f"is named {safe_repr(message.name)}: {_NAME_RULE}"
        if not _REASONING_TYPES.isdisjoint(kinds):
            yield from ((place, problem) for problem in _reasoning_problems(message, kinds))
            own = {block.get("id") for block in message.content if block.get("type") == "reasoning"} - {None, ""}
            yield from (
                (place, f"reasons as an earlier message does: {safe_repr(each)}") for each in own & reasoning_ids
            )
            reasoning_ids |= own


def _reasoning_problems(message: _AnyMessage, kinds: Sequence[Any]) -> Iterator[str]:
    if message.role != "assistant":
        yield "reasons, which only an assistant may"
        return
    if _REASONING_TYPES.issuperset(kinds) and not message.calls:
        yield "reasons, and says nothing"
    has_answered = False
    for kind in kinds:
        if kind in _REASONING_TYPES and has_answered:
            yield "reasons after it has begun to answer"
            break
        has_answered = not str(kind).endswith("tool_result") and (
            has_answered or kind in _TEXT_TYPES or kind in _CALL_TYPES
        )
    for kind, block in zip(kinds, message.content, strict=True):
        if kind in _SIGNATURE_KEYS and not block.get(_SIGNATURE_KEYS[kind]):
            yield f"has a {kind} block without its {_SIGNATURE_KEYS[kind]}"


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


# --- Reading -----------------------------------------------------------------------------------------------------


def _parse_message(message: Any) -> _AnyMessage:
    if isinstance(message, Mapping):
        role = message.get("role")
        content = _blocks(message.get("content"))
        return _AnyMessage(
            role="system" if role == "developer" else str(role),
            content=content,
            calls=_collect_calls([], message.get("tool_calls") or (), content),
            call_id=message.get("tool_call_id"),
            name=message.get("name"),
        )
    if not isinstance(message, BaseMessage):
        return _AnyMessage(role=type(message).__name__, content=[])
    content = _blocks(message.content)
    name = message.name if message.name is not None else message.additional_kwargs.get("name")
    if isinstance(message, AIMessage):
        calls = [_Call(call["id"], call["name"]) for call in message.tool_calls]
        calls += [_Call(call["id"], call["name"], parsed=False) for call in message.invalid_tool_calls]
        sent_instead = message.additional_kwargs.get("tool_calls") or ()  # what langchain-openai sends without them
        return _AnyMessage(
            "assistant", content, _collect_calls(calls, () if calls else sent_instead, content), name=name
        )
    kind = message.type.removesuffix("MessageChunk").lower()
    role = message.role if isinstance(message, ChatMessage) else kind.replace("human", "user")
    call_id = message.tool_call_id if isinstance(message, ToolMessage) else None
    return _AnyMessage("system" if role == "developer" else role, content, call_id=call_id, name=name)


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return [block if isinstance(block, Mapping) else {"type": "text", "text": block} for block in content or ()]


def _collect_calls(
    calls: list[_Call], openai_calls: Iterable[Mapping[str, Any]], content: Iterable[Mapping[str, Any]]
) -> list[_Call]:
    """All calls of a message: its fields, calls in OpenAI's form, and blocks that say something new."""
    calls = [*calls, *(_Call(call.get("id"), (call.get("function") or {}).get("name")) for call in openai_calls)]
    unmatched = Counter(call.id for call in calls)
    for block in content:
        if block.get("type") in _CALL_TYPES:
            call = _Call(block.get("call_id") or block.get("id"), block.get("name"))
            if unmatched[call.id] > 0:
                unmatched[call.id] -= 1
            else:
                calls.append(call)
    return calls
