"""The parts of a history, and its repair to a form that every provider accepts.

    system messages | first instruction | summary | other messages … | current request | protected tail

The protected tail consists of the newest messages, which a compaction does not change.

Providers refuse:

- a tool result without its call, or a call without its result;
- a system message in the middle, or an empty message;
- a conversation that does not begin with a user message;
- two consecutive turns of the assistant, or a user message right after a result;
- ids of calls that are too long or have unsupported characters.

`repair_messages` fixes all this in a copy, and loses no text. It moves system messages to the beginning, and results to
their calls. All other messages keep their order. A placeholder replaces a missing result. A result without a call
becomes a user message. Short filler messages restore the alternation of roles. A refused id is replaced by its hash, so
that repeated repairs result in the same id. An invalid call, whose arguments LangChain could not parse, becomes a call
whose argument is the raw text, since some clients do not send invalid calls.

Content that only some providers support is not changed, since the provider is unknown here. To move a conversation from
Anthropic to another provider, remove `redacted_thinking` blocks from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count, pairwise
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.modifier import RemoveMessage
from langchain_core.messages.tool import ToolCall, tool_call

from langchain_agentmem.base import encoding
from langchain_agentmem.base.fencing import fence_text
from langchain_agentmem.messages import message_marks as marks
from langchain_agentmem.messages.message_marks import GENERATED_MARK, M, alter_message, is_injected, is_synthetic
from langchain_agentmem.messages.provider_content import generated_image

_ROLE_NAMES = {"human": "user", "ai": "assistant", "function": "tool"}
_CALL_BLOCKS = frozenset({"tool_use", "tool_call"})


def role_of(message: BaseMessage) -> str:
    """Return the role of a message: "system", "user", "assistant", "tool", or another."""
    if isinstance(message, ChatMessage):
        return "system" if message.role == "developer" else message.role
    kind = message.type.removesuffix("MessageChunk").lower()
    return _ROLE_NAMES.get(kind, kind)


def calls_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Return the tool calls of a message, with its invalid calls, which some clients send too."""
    if not isinstance(message, AIMessage):
        return []
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    if not calls and isinstance(message.content, list):
        calls = [block for block in message.content if encoding.block_type(block) in _CALL_BLOCKS]
    return calls


class MessageGroup(NamedTuple):
    """A range of messages to keep or remove together: one message, or calls with results.

    Attributes:
        start: The index of the first message.
        stop: The index after the last.
    """

    start: int
    stop: int


def group_messages(messages: Sequence[BaseMessage], start: int, stop: int) -> list[MessageGroup]:
    """Split a valid history into groups: calls with their results, or single messages.

    Args:
        messages: A history in which results follow their calls.
        start: The first index.
        stop: The index after the last.
    """
    starts = [index for index in range(start, stop) if index == start or not isinstance(messages[index], ToolMessage)]
    return [MessageGroup(*pair) for pair in pairwise([*starts, stop])] if start < stop else []


def tail_start(messages: Sequence[BaseMessage], grace: int) -> int:
    """Return the index at which the protected tail begins.

    The tail begins at the first of the last `grace` assistant messages. Without assistant messages, it begins at the
    last user message. Without a user message, it begins at the last message that is not a tool result.

    Args:
        messages: The history.
        grace: The number of protected assistant messages. 0 protects the last user message and all messages after it.
    """
    replies = [index for index, each in enumerate(messages) if isinstance(each, AIMessage) and not is_synthetic(each)]
    if grace and replies:
        return replies[-grace] if grace <= len(replies) else replies[0]
    users = [index for index, message in enumerate(messages) if is_from_user(message)]
    others = [index for index, message in enumerate(messages) if role_of(message) != "tool"]
    return (users or others or [max(0, len(messages) - 1)])[-1]


def is_from_user(message: BaseMessage) -> bool:
    """Return whether a user wrote a message.

    A message with the role "user" may also be a summary, memory, a filler or a tool result.
    """
    if role_of(message) != "user" or message.additional_kwargs.get(GENERATED_MARK) in (marks.FILLER, marks.RESULT):
        return False
    return marks.summary_in(message) is None and not is_injected(message)


class HistoryShape(NamedTuple):
    """The parts of a valid history, as indexes.

    Attributes:
        system_end: The index after the system messages at the beginning.
        opening: The filler message with the role "user" at the beginning, or None.
        first: The first instruction: the first message before the tail that a user wrote. None if there is none, or if
            it may be dropped.
        summary: The summary of earlier messages, or None.
        request: The current request: the last message that a user wrote. None if it is `first` or in the tail.
        tail: The beginning of the protected tail.
    """

    system_end: int
    opening: int | None
    first: int | None
    summary: int | None
    request: int | None
    tail: int

    @property
    def pinned_indexes(self) -> frozenset[int]:
        """The indexes before the tail whose messages always stay."""
        indexes = (index for index in (self.opening, self.first, self.summary, self.request) if index is not None)
        return frozenset({*range(self.system_end), *indexes})


def find_shape(messages: Sequence[BaseMessage], *, grace: int, keep_first: bool = True) -> HistoryShape:
    """Find the parts of a valid history.

    Args:
        messages: The history: system messages first, and results after their calls.
        grace: See `tail_start`.
        keep_first: True protects the first message that a user wrote. Default: True.
    """
    system_end = next((index for index, each in enumerate(messages) if role_of(each) != "system"), len(messages))
    tail = max(system_end, tail_start(messages, grace))
    users = [index for index in range(system_end, len(messages)) if is_from_user(messages[index])]
    summary = next((index for index in range(system_end, tail) if marks.summary_in(messages[index]) is not None), None)
    first = users[0] if keep_first and users and users[0] < tail else None
    request = users[-1] if users and users[-1] < tail and users[-1] != first else None
    mark = messages[system_end].additional_kwargs.get(GENERATED_MARK) if system_end < len(messages) else None
    return HistoryShape(system_end, system_end if mark == marks.FILLER else None, first, summary, request, tail)


def droppable_groups(messages: Sequence[BaseMessage], shape: HistoryShape) -> list[MessageGroup]:
    """Return the groups that may be removed, oldest first: neither pinned nor in the tail."""
    groups = group_messages(messages, shape.system_end, shape.tail)
    return [group for group in groups if group.start not in shape.pinned_indexes]


_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_REFUSED_NEXT_ROLES = {"assistant": "assistant", "tool": "user"}  # the role that providers refuse after each role
_CLASSES_BY_ROLE: Mapping[str, type[BaseMessage]] = {"system": SystemMessage, "assistant": AIMessage}
_SENT_FIELDS = ("content", "invalid_tool_calls", "name", "tool_call_id", "tool_calls")
_FILLER_KWARGS = {GENERATED_MARK: marks.FILLER}


def valid_length(messages: Sequence[BaseMessage], start: int = 0) -> int:
    """Return the number of messages at the beginning that are valid without a repair.

    Args:
        messages: The history.
        start: The length that this function returned for a beginning of `messages`. Only later messages are checked.
            Default: 0.
    """
    length = start
    previous_role = role_of(messages[start - 1]) if start else "system"
    open_ids: set[str] = set()
    for index in range(start, len(messages)):
        message = messages[index]
        role = role_of(message)
        if open_ids:
            is_valid = role == "tool" and getattr(message, "tool_call_id", None) in open_ids
        elif previous_role == "system":
            is_valid = role in ("system", "user")
        else:
            is_valid = role not in ("system", "tool", _REFUSED_NEXT_ROLES.get(previous_role))
        if not is_valid or _clean_message(message) is not message:
            return length
        if open_ids:
            open_ids.discard(message.tool_call_id)  # type: ignore[attr-defined]  # a tool message has it
        else:
            open_ids = {call["id"] for call in calls_of(message)}
        previous_role = role
        if not open_ids and role != "system":  # system messages alone are not valid: a user message must follow
            length = index + 1
    return length


def repair_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a history that every provider accepts. Unchanged messages are the same objects.

    Args:
        messages: Any history. It is not changed.
    """
    if valid_length(messages) == len(messages):
        return _make_ids_unique(messages)
    cleaned = [each for message in _copy_images(messages) if (each := _clean_message(message)) is not None]
    systems = [each for each in cleaned if role_of(each) == "system"]
    body = _pair_results([each for each in cleaned if role_of(each) != "system"])
    if (systems or body) and (not body or role_of(body[0]) != "user"):
        body.insert(0, HumanMessage(content=marks.BEGINNING, id="agentmem-opening", additional_kwargs=_FILLER_KWARGS))
    return _make_ids_unique(systems + _insert_fillers(body))


def _copy_images(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    """Yield messages, and copies of the assistant's images as user messages.

    Providers accept images only from users.
    """
    previous_role, images_id = "", None
    images: list[Any] = []
    for message in [*messages, None]:
        role = "" if message is None else role_of(message)
        if images and previous_role == "assistant" and role != "tool":
            texts = [{"type": "text", "text": marks.ASSISTANT_IMAGES}]
            yield HumanMessage([*texts, *images], id=images_id, additional_kwargs={GENERATED_MARK: marks.RESULT})
            images = []
        if message is not None:
            yield message
            previous_role, content = role, message.content
            if role == "assistant" and isinstance(content, list):
                images += [image for block in content if (image := generated_image(block)) is not None]
                images_id = message.id and f"{message.id}:images"


def _insert_fillers(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Insert a filler message between two consecutive messages whose roles providers refuse."""
    turns: list[BaseMessage] = []
    for message in messages:
        if turns and _REFUSED_NEXT_ROLES.get(role_of(turns[-1])) == role_of(message):
            is_user = role_of(message) == "user"
            filler_id = message.id and f"{message.id}:before"
            filler_class, text = (AIMessage, marks.NO_ANSWER) if is_user else (HumanMessage, marks.CONTINUATION)
            turns.append(filler_class(text, id=filler_id, additional_kwargs=_FILLER_KWARGS))
        turns.append(message)
    return turns


def _make_ids_unique(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Assign a new id to each call that repeats an earlier id, and to the result of the call.

    Some models restart the numbers of their calls each turn. Anthropic refuses a repeated id.

    Args:
        messages: A history in which results follow their calls.
    """
    call_ids = [call["id"] for message in messages if isinstance(message, AIMessage) for call in calls_of(message)]
    if len({*call_ids}) == len(call_ids):
        return list(messages)
    seen_ids: set[str] = set()
    new_ids: dict[str, str] = {}
    unique: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            new_id = new_ids.get(message.tool_call_id)
            unique.append(message if new_id is None else alter_message(message, tool_call_id=new_id))
            continue
        own_ids = [call["id"] for call in calls_of(message)]
        new_ids = {call_id: _make_unused_id(call_id, seen_ids) for call_id in own_ids if call_id in seen_ids}
        seen_ids.update(new_ids.get(call_id, call_id) for call_id in own_ids)
        unique.append(_replace_call_ids(message, new_ids) if new_ids and isinstance(message, AIMessage) else message)
    return unique


def _make_unused_id(call_id: str, seen: set[str]) -> str:
    return next(name for number in count(2) if (name := _make_valid_id(f"{call_id}-{number}")) not in seen)


def _make_valid_id(call_id: str) -> str:
    """Return the id of a call in a form that every provider accepts."""
    if _CALL_ID_PATTERN.fullmatch(call_id):
        return call_id
    return f"call_{blake2b(call_id.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _make_valid_name(name: str) -> str:
    """Return a name in a form that every provider accepts."""
    return name if _NAME_PATTERN.fullmatch(name) else re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


def _replace_call_ids(message: AIMessage, new_ids: Mapping[Any, str]) -> AIMessage:
    """Return a message with new ids of its calls, in the fields and in the content."""
    changes: dict[str, Any] = {
        "tool_calls": [call | {"id": new_ids.get(call["id"], call["id"])} for call in message.tool_calls],
        "additional_kwargs": _drop_raw_calls(message),
    }
    if isinstance(message.content, list):
        changes["content"] = [_replace_block_id(block, new_ids) for block in message.content]
    return alter_message(message, **changes)


def _drop_raw_calls(message: AIMessage) -> dict[str, Any]:
    """Return `additional_kwargs` without OpenAI's raw calls, which are in `tool_calls` too."""
    return {name: value for name, value in message.additional_kwargs.items() if name != "tool_calls"}


def _replace_block_id(block: Any, new_ids: Mapping[Any, str]) -> Any:
    if not _is_call(block):
        return block
    key = "call_id" if block.get("call_id") else "id"
    return block | {key: new_ids.get(block[key], block[key])}


def _pair_results(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Put each result right after its call, and add a placeholder for each missing result."""
    results = _match_results(messages)
    matched = {index for each in results.values() for index in each.values()}
    paired: list[BaseMessage] = []
    for index, message in enumerate(messages):
        if role_of(message) == "tool":
            if index not in matched:
                paired.append(_quote_result(message))
            continue
        paired.append(message)
        result_indexes = results.get(index, {})
        paired += [messages[result_index] for result_index in sorted(result_indexes.values())]
        paired += [_make_placeholder(message, call) for call in calls_of(message) if call["id"] not in result_indexes]
    return paired


def _match_results(messages: Sequence[BaseMessage]) -> dict[int, dict[str, int]]:
    """Map the index of each message with calls to the indexes of the results, by call id.

    Later calls may reuse an id. A result belongs to the last earlier call with its id, if this call has no result yet.
    """
    open_calls: dict[str, int] = {}
    results: dict[int, dict[str, int]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if (caller_index := open_calls.pop(message.tool_call_id, None)) is not None:
                results.setdefault(caller_index, {})[message.tool_call_id] = index
        else:
            open_calls.update((call["id"], index) for call in calls_of(message))
    return results


def _make_placeholder(message: BaseMessage, call: dict[str, Any]) -> ToolMessage:
    fields = {"id": f"{message.id}:{call['id']}:missing" if message.id else None, "additional_kwargs": _FILLER_KWARGS}
    return ToolMessage(content=marks.NO_RESULT, tool_call_id=call["id"], name=call["name"], status="error", **fields)


def drop_placeholders(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Remove placeholders at the end of a history, since the real results may still follow."""
    last_other = next((index for index in range(len(messages) - 1, -1, -1) if role_of(messages[index]) != "tool"), 0)
    others, results = messages[: last_other + 1], messages[last_other + 1 :]
    return [
        *others,
        *(each for each in results if each.content != marks.NO_RESULT or GENERATED_MARK not in each.additional_kwargs),
    ]


def _quote_result(message: BaseMessage) -> HumanMessage:
    """Convert a result without a call to a user message that quotes it."""
    name = {"name": message.name} if message.name else {}
    content: Any = fence_text("tool_result", message.text, **name)
    if isinstance(message.content, list):
        images = [block for block in message.content if encoding.block_type(block) in encoding.IMAGE_TYPES]
        content = [{"type": "text", "text": content}, *images] if images else content
    return HumanMessage(content=content, id=message.id, additional_kwargs={GENERATED_MARK: marks.RESULT})


def _clean_message(message: BaseMessage) -> BaseMessage | None:
    """Return a message without content that providers refuse; None if nothing is left."""
    if isinstance(message, RemoveMessage):
        return None
    if isinstance(message, ChatMessage) and role_of(message) != "tool":
        message = _convert_chat(message)
    changes: dict[str, Any] = {}
    if message.name is not None and (name := _make_valid_name(message.name) or None) != message.name:
        changes["name"] = name
    if isinstance(message, ToolMessage) and (call_id := _make_valid_id(message.tool_call_id)) != message.tool_call_id:
        changes["tool_call_id"] = call_id
    if isinstance(message, AIMessage):
        changes |= _clean_calls(message)
    content = changes.get("content", message.content)
    role = role_of(message)
    if isinstance(content, str) and content and not content.strip() and calls_of(message):
        changes["content"] = ""
    if isinstance(content, list):
        blocks = [each for block in content if (each := _clean_block(block, role)) is not None]
        if len(blocks) != len(content) or any(new is not old for new, old in zip(blocks, content, strict=True)):
            changes["content"] = blocks
    cleaned = alter_message(message, **changes) if changes else message
    return None if role != "tool" and _is_empty(cleaned) else make_encodable(cleaned)


def make_encodable(message: M) -> M:
    """Return a message without lone surrogates, which clients cannot encode.

    If the message has none, return the message itself.
    """
    sent = {name: value for name, value in message.__dict__.items() if value and name in _SENT_FIELDS}
    encodable = {name: encoding.replace_surrogates(value) for name, value in sent.items()}
    changes = {name: value for name, value in encodable.items() if value is not sent[name]}
    if kwargs := message.additional_kwargs:
        internal = {name: value for name, value in kwargs.items() if name.startswith("agentmem")}  # never sent
        others = {name: value for name, value in kwargs.items() if name not in internal}
        if (clean := encoding.replace_surrogates(others)) is not others:
            changes["additional_kwargs"] = clean | internal
    return alter_message(message, **changes) if changes else message


def _convert_chat(message: ChatMessage) -> BaseMessage:
    """Convert a `ChatMessage` to its role's class, or to a user message named after the role."""
    role, kwargs = role_of(message), {GENERATED_MARK: marks.ALTERED, **message.additional_kwargs}
    name = message.name or (None if role in (*_CLASSES_BY_ROLE, "user") else role)
    make = _CLASSES_BY_ROLE.get(role, HumanMessage)
    return make(content=message.content, id=message.id, name=name, additional_kwargs=kwargs)


def has_no_content(message: BaseMessage) -> bool:
    """Return whether `repair_messages` removes a message, as it has no valid content."""
    return _clean_message(message) is None


def _is_empty(message: BaseMessage) -> bool:
    """Return whether a message has neither content nor calls; reasoning does not count."""
    if isinstance(content := message.content, str):
        return not content.strip() and not calls_of(message)
    return all(encoding.block_type(block) in encoding.REASONING_TYPES for block in content) and not calls_of(message)


def _clean_calls(message: AIMessage) -> dict[str, Any]:
    """Return new field values in which no call occurs twice and each has a valid id and name."""
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    raw_calls = [*message.tool_calls]
    raw_calls += [  # the raw text becomes the argument
        tool_call(name=each["name"] or "", args={"unreadable": each["args"] or ""}, id=each["id"])
        for each in message.invalid_tool_calls
    ]
    for block in blocks if not raw_calls else ():  # without `tool_calls`, the calls are in the blocks only
        if _is_call(block):
            arguments_value = block.get("input", block.get("args"))
            arguments = arguments_value if isinstance(arguments_value, dict) else {}
            raw_calls.append(tool_call(name=block.get("name"), args=arguments, id=_call_id(block)))
    calls: dict[str, ToolCall] = {}
    for call in raw_calls:
        if call["id"] and call["name"] and isinstance(call["name"], str):
            valid_call = call | {"name": _make_valid_name(call["name"]), "id": _make_valid_id(call["id"])}
            calls.setdefault(call["id"], valid_call)
    changes: dict[str, Any] = {}
    if [*calls.values()] != message.tool_calls:
        changes["tool_calls"] = [*calls.values()]
    if message.invalid_tool_calls:
        changes["invalid_tool_calls"] = []
    call_blocks = [each for block in blocks if (each := _clean_call_block(block, calls)) is not None]
    if call_blocks != blocks:
        changes["content"] = call_blocks
    if "tool_calls" in message.additional_kwargs and (changes or not message.tool_calls):
        changes["additional_kwargs"] = _drop_raw_calls(message)
    return changes


def _clean_call_block(block: Any, calls: dict[str, ToolCall]) -> Any:
    """Return a call block with the id and name of its call, and remove that call from `calls`.

    Return any other block unchanged. Return None if no call of this id is left.
    """
    if not _is_call(block):
        return block
    call = calls.pop(_call_id(block) or "", None)
    if call is None or encoding.block_type(block) == "invalid_tool_call":
        return None
    key = "call_id" if block.get("call_id") else "id"
    return block | {"name": call["name"], key: call["id"]}


def _clean_block(block: Any, role: str) -> Any:
    """Return a block that providers accept in this role, or None to remove the block."""
    if isinstance(block, str):
        return block if block.strip() else None
    if encoding.block_type(block) in encoding.TEXT_TYPES and not str(block.get("text") or "").strip():
        return None
    # A call with an id and no image data refers to an image that OpenAI stores.
    is_reference = encoding.block_type(block) == "image_generation_call" and not generated_image(block)
    if role not in ("user", "tool") and encoding.is_image(block) and not is_reference:
        return {"type": "text", "text": "[An image was here.]"}
    return block


def _is_call(block: Any) -> bool:
    return encoding.block_type(block) in encoding.CALL_TYPES


def _call_id(block: Mapping[str, Any]) -> str | None:
    call_id = block.get("call_id") or block.get("id")
    return call_id if isinstance(call_id, str) else None
