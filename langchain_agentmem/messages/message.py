"""A message of a conversation, and its stored form.

A `Message` is made from its fields or from a provider's reply. `encode_body` returns the bytes that are stored for it,
and `decode_body` reads them. A body does not include the id: two messages that differ only in their ids have equal
bodies, and large ones are stored once. Dictionaries keep the order of their keys, since a prompt may depend on it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Self, TypeAlias, TypedDict
from uuid import uuid4

from langchain_core.messages import BaseMessage

from langchain_agentmem.base import encoding
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages import provider_content
from langchain_agentmem.messages.provider_content import PartOf, image_part


def _read_reply(reply: Any) -> dict[str, Any]:
    """Read the fields of a message from a reply, which is an object or a dictionary.

    Raises:
        MessageError: The reply has no field of a message.
    """
    fields = _read_fields(reply, ("role", "content", "name", "structured_data", "reasoning_details", "tool_call_id"))
    fields |= _read_fields(reply, ("tool_calls", "agent_calls"))
    if not fields:
        raise MessageError(f"A reply must be an object or a dictionary with a message, not {safe_repr(reply)}.")
    fields["tool_calls"] = [_read_call(call) for call in fields.get("tool_calls") or ()]
    thinking = _read_value(reply, "thinking") or _read_value(reply, "reasoning")
    if isinstance(thinking, str):
        fields.setdefault("reasoning_details", [{"type": "reasoning.text", "text": thinking}])
    metadata = _read_value(reply, "metadata")
    if hasattr(metadata, "model_dump"):
        metadata = metadata.model_dump(mode="json")
    if metadata := metadata if isinstance(metadata, Mapping) else getattr(metadata, "__dict__", None):
        fields["langchain"] = {"response_metadata": dict(metadata)}
    return fields


def _read_value(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _read_call(call: Any) -> Any:
    fields = _read_fields(call, ("id", "call_id", "type", "name", "arguments", "args"))
    if (function := _read_value(call, "function")) is not None:
        fields["function"] = _read_fields(function, ("name", "arguments"))
    return fields


def _read_fields(source: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := _read_value(source, name)) is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallMsg:
    """A request to call a tool.

    Attributes:
        id: The id that the tool's result refers to. Empty if the model sent none.
        call_id: A second id that some providers use. Default: equal to ``id``.
        type: The type of the tool. Default: ``"function"``.
        name: The tool's name.
        arguments: The arguments as JSON text, as the model wrote it. A dictionary is converted to JSON text. Default:
            ``"{}"``.
    """

    id: str
    call_id: str = ""
    type: str = "function"
    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        if not self.call_id:
            object.__setattr__(self, "call_id", self.id)
        if not isinstance(self.arguments, str):
            object.__setattr__(self, "arguments", provider_content.json_text(self.arguments))
        for name in ("id", "call_id", "type", "name"):
            _check_text(self, "tool call", name)

    def to_dict(self) -> dict[str, Any]:
        """Return OpenAI's form: ``{"id", "type", "function": {"name", "arguments"}}``.

        ``call_id`` is added only if it differs from ``id``.
        """
        second_id = {"call_id": self.call_id} if self.call_id != self.id else {}
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": self.type, "function": function, **second_id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a tool call.

        Args:
            data: The form of the OpenAI API, the flat form ``{"id", "call_id", "type", "name",
                "arguments"}``, or LangChain's ``{"name", "args", "id", "type": "tool_call"}``.

        Raises:
            MessageError: The data has none of these forms.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"A tool call must be a dictionary, not {type(data).__name__}.")
        nested = data.get("function")
        function = nested if isinstance(nested, Mapping) else data
        if (name := function.get("name")) is None:
            raise MessageError(f"A tool call needs a 'name', got only the keys {sorted(map(str, data))}.")
        call_type = data.get("type")
        fields = {
            "id": data.get("call_id") if data.get("id") is None else data["id"],
            "call_id": data.get("call_id"),
            "type": None if call_type in ("tool_call", "invalid_tool_call") else call_type,
            "arguments": function.get("arguments", function.get("args")),
        }
        fields = {field: value for field, value in fields.items() if value is not None}
        return cls(**{"id": "", **fields, "name": name})


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCallMsg:
    """A request to call another agent.

    Attributes:
        agent_name: The agent's name.
        request: The request to it, of any storable type. Default None.
    """

    agent_name: str
    request: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.agent_name, str) or not self.agent_name:
            raise MessageError(f"An agent call needs the name of an agent, not {safe_repr(self.agent_name)}.")

    def __hash__(self) -> int:
        return hash(self.agent_name)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"agent_name", "request"}``. Values of types that JSON lacks get a type tag.

        Raises:
            InvalidInput: The request contains an object that cannot be stored as JSON.
        """
        return {"agent_name": self.agent_name, "request": encoding.to_plain(self.request)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an agent call from the result of `to_dict`.

        Raises:
            MessageError: The data is not a dictionary with an ``agent_name``.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"An agent call must be a dictionary, not {type(data).__name__}.")
        return cls(agent_name=data.get("agent_name", ""), request=encoding.from_plain(data.get("request")))


MEMORY_MARK = "agentmem_memory"
"""The key in `additional_kwargs` of a message with memory. The value is the part of memory, such as "core"."""

ROLE_SOURCES = {"user": "user", "assistant": "model", "tool": "tool"}
"""The source of a message, by its role."""
RECALL_TOOLS = frozenset({"recall_dropped", "expand"})
"""The tools with which a model searches for content that was dropped from its context."""
OWN_TOOLS = RECALL_TOOLS | {
    *("mem_core_set", "mem_core_get", "mem_core_del", "mem_archival_write", "mem_archival_update", "mem_archival_get"),
    *("mem_archival_search", "mem_recall_append", "mem_recall_search", "mem_recall_evict", "mem_recall_summarize"),
    *("mem_node_fork", "mem_node_write", "mem_node_read", "consolidate", "fact_add", "fact_search", "fact_history"),
}
"""All tools of `AgentMemory.tools`. Their results only repeat memory, or confirm that it was changed."""
LANGCHAIN_ROLES = {"human": "user", "ai": "assistant"}
"""The roles of messages, by LangChain's name for their type."""


Content: TypeAlias = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None
"""The content that a message accepts: text, a dictionary, or a list of texts and blocks."""
ToolCallLike: TypeAlias = ToolCallMsg | Mapping[str, Any]
AgentCallLike: TypeAlias = AgentCallMsg | Mapping[str, Any]
MessageLike: TypeAlias = "Message | BaseMessage | Mapping[str, Any]"
"""A `Message`, a LangChain message, or a dictionary with fields of `Message`."""


class MessageFields(TypedDict, total=False):
    """The fields of a `Message` except its id, as arguments."""

    role: str
    content: Content
    name: str | None
    tool_calls: Sequence[ToolCallLike] | None
    agent_calls: Sequence[AgentCallLike] | None
    structured_data: Mapping[str, Any] | None
    images: Sequence[str] | None
    tool_call_id: str | None
    reasoning_details: Sequence[Any] | None
    created_at: datetime | str | None
    langchain: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a conversation. Lists are copied, and an empty list becomes None.

    Attributes:
        role: The role of the speaker: ``"system"``, ``"user"``, ``"assistant"``, ``"tool"``, or any other name.
        content: Text, a list of texts and blocks, a dictionary (structured content), or None. Default None.
        message_id: The id. Default: a random UUID as text.
        name: The name of the speaker or of the tool. Default None.
        tool_calls: The tools to call; dictionaries are accepted, see `ToolCallMsg.from_dict`. Default None.
        agent_calls: The agents to call; dictionaries are accepted. Default None.
        structured_data: Structured data of the message. Default None.
        images: Paths and URLs of images. Files are read when the message is sent to a provider. Default None.
        tool_call_id: The id of the call that a tool message answers. Default None. Content of the form
            ``{"tool_call_id", "output"}`` may contain it instead.
        reasoning_details: A model's reasoning in the provider's own form. Default None.
        created_at: The time of the message. A time without a zone is UTC; ISO text is accepted. Default None: unknown.
        langchain: The fields that only LangChain has, see `langchain_messages.from_langchain`. Default None.

    Raises:
        MessageError: A field has a type that no message can have.
    """

    role: str
    content: str | dict[str, Any] | list[str | dict[str, Any]] | None = None
    message_id: str = ""
    name: str | None = None
    tool_calls: list[ToolCallMsg] | None = None
    agent_calls: list[AgentCallMsg] | None = None
    structured_data: dict[str, Any] | None = None
    images: list[str] | None = None
    tool_call_id: str | None = None
    reasoning_details: list[Any] | None = None
    created_at: datetime | None = None
    langchain: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        role: Any = self.role
        if not isinstance(role, str) or not role:
            raise MessageError(f"A message needs a role such as 'user' or 'assistant', not {safe_repr(role)}.")
        if not self.message_id:
            object.__setattr__(self, "message_id", str(uuid4()))
        content = self.content
        if type(content) is not str and content is not None:
            object.__setattr__(self, "content", _copy_content(content))
        for name in ("message_id", "name", "tool_call_id"):
            value = getattr(self, name)
            if type(value) is not str and value is not None:
                _check_text(self, "message", name)
        for name, normalize in _NORMALIZERS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, normalize(name, value) or None)
        if self.created_at is not None:
            object.__setattr__(self, "created_at", parse_time(self.created_at))

    def __hash__(self) -> int:
        return hash(self.message_id)

    @property
    def text(self) -> str:
        """The content's text and the captions of its blocks, without reasoning and calls."""
        return self.content if isinstance(self.content, str) else provider_content.readable_text(self.content)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole message as a dictionary of JSON types, without fields that are None.

        Raises:
            MessageError: A value cannot be stored as JSON. The error names the path and the type of the value.
        """
        return {"message_id": self.message_id, **stored_fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, tagged: bool = True) -> Self:
        """Build the message from the result of `to_dict`, also if it was written and read as JSON.

        Args:
            data: The dictionary. Unknown keys are refused.
            tagged: True converts type tags to values. False is faster if there are no tags. Default: True.

        Raises:
            MessageError: A field is unknown, damaged, or has a wrong type.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"A message must be a dictionary, not {type(data).__name__}.")
        fields = dict(data)
        try:
            for name in _TAGGED_FIELDS & fields.keys() if tagged else ():
                fields[name] = encoding.from_plain(fields[name])
        except InvalidInput as error:
            raise MessageError(str(error)) from error
        return cls._build(fields)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        try:
            return cls(**fields)
        except TypeError as error:
            check_fields(fields, [each.name for each in dataclasses.fields(cls)])
            raise MessageError(f"These fields do not form a message: {error}") from error

    def to_llm_dict(self, *, include_id: bool = False, part_of: PartOf = image_part) -> dict[str, Any]:
        """Return the message in the form that providers accept.

        Args:
            include_id: True adds ``message_id``. Default: False.
            part_of: The function that converts the path or URL of an image to a part of the content. Default:
                `image_part`, which reads files into data URLs.

        Returns:
            ``role`` and ``content``, and, if they are set, ``name``, ``tool_calls``, ``tool_call_id`` and
            ``reasoning_details``. Structured content is JSON text. Agent calls are omitted. All keys are fields of
            `Message`, so `Message(**result)` works.

        Raises:
            MessageError: An image file cannot be read.
        """
        content: Any = self.content
        call_id = self.tool_call_id
        if self.role == "tool":
            content, call_id = provider_content.unwrap_result(content, call_id)
        if content is None and self.structured_data is not None:
            content = self.structured_data
        if self.tool_calls and isinstance(content, list):  # the field `tool_calls` has the calls
            content = [block for block in content if encoding.block_type(block) not in encoding.CALL_TYPES]
        is_empty = content is None and not self.images and self.tool_calls
        optional: dict[str, Any] = {
            "name": self.name,
            "tool_calls": [call.to_dict() for call in self.tool_calls or ()] or None,
            "tool_call_id": call_id,
            "reasoning_details": deepcopy(self.reasoning_details),
        }
        data: dict[str, Any] = {
            "role": self.role,
            "content": None if is_empty else provider_content.convert_content(content, self.images, part_of),
            **{name: value for name, value in optional.items() if value is not None},
        }
        return encoding.replace_surrogates(data) | ({"message_id": self.message_id} if include_id else {})

    def to_api_format(self) -> dict[str, Any]:
        """Return the message in the strict form of the OpenAI chat API.

        The result is like that of `to_llm_dict`, but without reasoning and ``call_id``, and with a valid name.

        Raises:
            MessageError: An image file cannot be read.
        """
        data = self.to_llm_dict()
        data.pop("reasoning_details", None)
        if isinstance(data["content"], list):  # the API accepts no calls and no reasoning in the content
            data["content"] = [
                {"type": "text", "text": part.get("text", "")}
                if encoding.block_type(part) in encoding.TEXT_TYPES
                else part
                for part in data["content"]
                if encoding.block_type(part) not in encoding.CALL_TYPES | encoding.REASONING_TYPES
            ]
        if name := data.pop("name", ""):
            data["name"] = re.sub(r"[\s<|\\/>]", "_", name)[:64]
        for call in data.get("tool_calls", ()):
            call.pop("call_id", None)
        return data

    @classmethod
    def from_harmonized_response(
        cls,
        response: object,
        *,
        default_role: str = "assistant",
        default_name: str | None = None,
        message_id: str | None = None,
    ) -> Self:
        """Build a message from a provider's reply. The name of this method is that of MARSYS.

        Args:
            response: An object or a dictionary with ``role``, ``content``, ``tool_calls``, ``reasoning_details``,
                ``thinking`` and ``metadata``, as attributes or as keys. Each of them may be missing.
            default_role: The role if the reply has none. Default: ``"assistant"``.
            default_name: The name if the reply has none. Default: None.
            message_id: The id. Default: a new id.

        Raises:
            MessageError: The reply has no message, or a field has a type that no message can have.
        """
        fields = _read_reply(response)
        fields["role"] = fields.get("role") or default_role
        fields["name"] = fields.get("name") or default_name
        if message_id is not None:
            fields["message_id"] = message_id
        return cls._build(fields)

    from_response_dict = from_harmonized_response


def check_fields(names: Iterable[str], valid_names: Sequence[str]) -> None:
    """Check that names are valid names of fields.

    Raises:
        MessageError: A name is not valid.
    """
    if unknown := [name for name in names if name not in valid_names]:
        raise MessageError(f"Unknown field {safe_repr(unknown[0])}. A message has {', '.join(valid_names)}.")


STORED_FIELDS = tuple(each.name for each in dataclasses.fields(Message) if each.name != "message_id")
"""The stored fields of a message: all except its id."""
_get_stored_values = attrgetter(*STORED_FIELDS)
_TAGGED_FIELDS = frozenset({"content", "structured_data", "reasoning_details", "langchain"})


def stored_fields(message: Message, *, copied: bool = True) -> dict[str, Any]:
    """Return the stored fields of a message: `Message.to_dict` without ``message_id``.

    Args:
        message: The message.
        copied: True copies nested values, so that changes to the result do not change the message. Default: True.

    Raises:
        MessageError: A value cannot be stored as JSON. The error names the path and the type of the value.
    """
    data: dict[str, Any] = {}
    for name, value in zip(STORED_FIELDS, _get_stored_values(message), strict=True):
        if type(value) is str:
            data[name] = value
        elif value is not None:
            data[name] = value.isoformat() if name == "created_at" else _encode_field(name, value, copied=copied)
    return data


def _encode_field(name: str, value: Any, *, copied: bool) -> Any:
    try:
        if not copied and encoding.is_plain(value, encoding.MAX_DEPTH - 1):
            return value
        if name in ("tool_calls", "agent_calls"):
            return [call.to_dict() for call in value]
        return encoding.to_plain({name: value})[name]
    except InvalidInput as error:
        raise MessageError(str(error).removeprefix("langchain.")) from error


def parse_time(value: Any) -> datetime:
    """Read a time.

    Args:
        value: A datetime, or ISO 8601 text. ``Z`` and a time without a zone mean UTC.

    Returns:
        A datetime with a fixed offset.

    Raises:
        MessageError: The value is neither a datetime nor ISO 8601 text.
    """
    try:
        time = datetime.fromisoformat(value.isoformat() if isinstance(value, datetime) else value)
    except (TypeError, ValueError) as error:
        raise MessageError(f"created_at must be a datetime or ISO 8601 text, not {safe_repr(value)}.") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _copy_list(name: str, value: Any, item_type: type = object) -> list[Any]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, item_type) for item in value):
        texts = " of texts" if item_type is str else ""
        raise MessageError(f"A message's {safe_repr(name)} must be a list{texts}, not {safe_repr(value)}.")
    return list(value)


def _copy_content(value: Any) -> str | dict[str, Any] | list[Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple) and all(isinstance(block, str | dict) for block in value):
        return list(value)
    if isinstance(value, str):
        return value
    raise MessageError(
        f"The content must be text, a dictionary, a list of texts and blocks, or None, not {safe_repr(value)}."
    )


def _convert_calls(call_class: type[ToolCallMsg | AgentCallMsg], name: str, value: Any) -> list[Any]:
    return [call if isinstance(call, call_class) else call_class.from_dict(call) for call in _copy_list(name, value)]


def _copy_mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise MessageError(f"A message's {safe_repr(name)} must be a dictionary, not {type(value).__name__}.")
    return dict(value)


_NORMALIZERS = (
    ("tool_calls", partial(_convert_calls, ToolCallMsg)),
    ("agent_calls", partial(_convert_calls, AgentCallMsg)),
    ("images", partial(_copy_list, item_type=str)),
    ("reasoning_details", _copy_list),
    ("structured_data", _copy_mapping),
    ("langchain", _copy_mapping),
)


def column_role(name: str) -> str | None:
    """Return a role in the form of its database column; accept LangChain's "human" and "ai"."""
    return escape_name(LANGCHAIN_ROLES.get(name, name))


def escape_name(text: str | None) -> str | None:
    """Escape the characters of a name that databases refuse in text columns.

    The stored body of the message keeps the original name.
    """
    if text is None or text.isprintable():
        return text
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


_TAG_IN_QUOTES = f'"{encoding.TAG}"'.encode()


def encode_body(message: Message) -> bytes:
    """Encode a message without its id as bytes.

    Args:
        message: Any message.

    Returns:
        JSON in UTF-8: `Message.to_dict` without ``message_id``, keys in their order.

    Raises:
        MessageError: A value cannot be stored as JSON, such as an object in an artifact. The error names the path and
            the type of the value, and the remedy.
    """
    return encoding.write_plain(stored_fields(message, copied=False))


def decode_body(body: bytes, message_id: str) -> Message:
    """Decode a message from its stored bytes.

    Args:
        body: The result of `encode_body`.
        message_id: The message's id.

    Returns:
        A message that equals the encoded one, with values of equal types.

    Raises:
        DatabaseUnreadable: The bytes are damaged.
    """
    try:
        fields = encoding.read_plain(body)
        if not isinstance(fields, dict):
            raise MessageError("The body is not a dictionary.")
        fields["message_id"] = message_id
        return Message.from_dict(fields, tagged=_TAG_IN_QUOTES in body)
    except InvalidInput as error:
        subject = f"The message {safe_repr(message_id)}" if message_id else "A message"
        raise DatabaseUnreadable(f"{subject} is damaged. verify() reports the details. {error}") from error


def is_same_body(body: bytes, other: bytes) -> bool:
    """Return whether two bodies are equal, regardless of the order of keys in dictionaries.

    Args:
        body: A result of `encode_body`.
        other: Another result of `encode_body`.
    """
    return body == other or encoding.encode(encoding.read_plain(body)) == encoding.encode(encoding.read_plain(other))


def body_text(body: bytes, *, with_calls: bool = False) -> str:
    """Return `Message.text` of a stored message, or the user query of a stored round.

    In most cases, the function does not build the `Message`, and so is faster than `decode_body`.

    Args:
        body: The result of `encode_body`, or the stored body of a round, whose text is its user query.
        with_calls: True adds the arguments of calls, as `search_text` does for the search index. Default: False.

    Raises:
        DatabaseUnreadable: The bytes are damaged.
    """
    if _TAG_IN_QUOTES not in body:
        with suppress(InvalidInput):
            fields = encoding.read_plain(body)
            if isinstance(fields, dict) and isinstance(text := fields.get("content", fields.get("user_query")), str):
                calls = (fields.get("tool_calls") if with_calls else None) or []
                if isinstance(calls, list) and all(isinstance(call, dict) for call in calls):
                    return _join_arguments(text, map(encoding.parse_call, calls))
    message = decode_body(body, "")
    return search_text(message) if with_calls else message.text


def search_text(message: Message) -> str:
    """Return the searchable text of a message: its text and the arguments of its calls.

    Calls are read from blocks if `tool_calls` is empty. Calls of `RECALL_TOOLS` are left out, so that a search does not
    find earlier search queries.
    """
    calls = [(call.name, call.arguments) for call in message.tool_calls or ()]
    if not calls and isinstance(message.content, list):
        blocks: list[Any] = message.content
        calls = [encoding.parse_call(each) for each in blocks if encoding.block_type(each) in encoding.CALL_TYPES]
    return _join_arguments(message.text, calls)


def _join_arguments(text: str, calls: Iterable[tuple[str, Any]]) -> str:
    values = [_argument_values(arguments) for name, arguments in calls if name not in RECALL_TOOLS]
    return "\n".join(filter(None, [text, *values]))


def _argument_values(arguments: Any) -> str:
    """Return a call's argument values as text. Return arguments that are not JSON unchanged."""
    text = arguments if isinstance(arguments, str) else provider_content.json_text(arguments)
    try:
        return provider_content.readable_text(json.loads(text, parse_int=str, parse_float=str))
    except (ValueError, RecursionError):
        return text


def message_time(message: Message) -> datetime | None:
    """Return the time of a message, or None.

    Args:
        message: The message, with ``created_at``, or with LangChain's ``additional_kwargs["created_at"]``: a datetime
            or ISO 8601 text.

    Returns:
        A datetime with an offset (UTC if the value has none), or None if the message has no time.

    Raises:
        MessageError: The value is not a time.
    """
    if message.created_at is not None:
        return message.created_at
    value = ((message.langchain or {}).get("additional_kwargs") or {}).get("created_at")
    return None if value is None else parse_time(value)


def _check_text(value: Any, owner: str, name: str) -> None:
    text = getattr(value, name)
    if not isinstance(text, str):
        raise MessageError(f"A {owner}'s {safe_repr(name)} must be text, not {type(text).__name__}.")
