"""Fast conversion of LangChain messages to stored bodies and back.

A checkpoint of a long chat has thousands of messages, so reading a message must take only a microsecond or two. The
usual kinds of messages are read directly from their bodies, the stored bytes. All others are read through `Message`,
with the same result but slower. A message that would not be restored exactly has no body.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langchain_agentmem.base.encoding import TAG
from langchain_agentmem.messages.langchain_messages import EXACT_CLASSES, from_langchain, json_object, to_langchain
from langchain_agentmem.messages.message import decode_body, encode_body

_TAG_BYTES = f'"{TAG}"'.encode()

_EMPTIES: dict[str, BaseMessage] = {
    "user": HumanMessage(content=""),
    "assistant": AIMessage(content=""),
    "system": SystemMessage(content=""),
    "tool": ToolMessage(content="", tool_call_id=""),
}


def _find_fields(message: BaseMessage, kind: type) -> tuple[str, ...]:
    return tuple(name for name, value in message.__dict__.items() if type(value) is kind)


_CONTAINER_FIELDS = {type(empty): (_find_fields(empty, dict), _find_fields(empty, list)) for empty in _EMPTIES.values()}
_FIELD_NAMES = {type(empty): set(empty.__dict__) for empty in _EMPTIES.values()}
_CONTAINER_NAMES = {name for names in _CONTAINER_FIELDS.values() for name in (*names[0], *names[1])}
_SCALARS = {str, int, float, bool, bytes, type(None)}
_get_class, _get_fields_set = attrgetter("message_class"), attrgetter("fields_set")
_set_fields, _set_fields_set, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_LANGCHAIN_FIELDS = {
    "user": {"additional_kwargs", "response_metadata"},
    "assistant": {"additional_kwargs", "response_metadata", "usage_metadata"},
    "system": {"response_metadata"},
    "tool": {"additional_kwargs", "response_metadata", "artifact", "status"},
}
_FIELDS = {"content", "role", "name", "langchain", "tool_calls", "tool_call_id"}


class MessagePrototype:
    """A message that was read once, and from which copies are made.

    Attributes:
        body: The stored bytes of the message.
        fields: The values of the fields. If `flat`, a message equals this one if its values are equal.
        flat: True if all fields are texts, None or empty containers, so that equal values also have equal types.
        fields_set: The value of `__pydantic_fields_set__`: the names of all fields. The copies share this set.
        message_class: The class of the message.
    """

    __slots__ = ("body", "fields", "fields_set", "flat", "message_class")

    def __init__(self, message_class: type[BaseMessage], fields: dict[str, Any], body: bytes, *, flat: bool) -> None:
        self.body = body
        self.fields = fields
        self.flat = flat
        self.fields_set = _FIELD_NAMES[message_class]
        self.message_class = message_class

    def copy(self) -> BaseMessage:
        """Return a new message, with containers of its own."""
        return copy_messages([self])[0]

    def copy_fields(self) -> dict[str, Any]:
        """Return the fields of a new message."""
        if not self.flat:
            return _copy_lists_and_dicts(self.fields)  # type: ignore[no-any-return]  # a dictionary
        fields = self.fields.copy()
        dicts, lists = _CONTAINER_FIELDS[self.message_class]
        for name in dicts:
            fields[name] = {}
        for name in lists:
            fields[name] = []
        return fields


def copy_messages(prototypes: Sequence[MessagePrototype]) -> list[BaseMessage]:
    """Return a new message for each prototype, with containers of its own.

    The messages are made like with pydantic's `model_construct`, but without setting defaults. Each attribute is set on
    all messages together, which takes half the time.
    """
    messages: list[BaseMessage] = list(map(object.__new__, map(_get_class, prototypes)))
    for set_attribute, values in (
        (_set_fields, [prototype.copy_fields() for prototype in prototypes]),
        (_set_fields_set, map(_get_fields_set, prototypes)),
        (_set_extra, [{} for _ in prototypes]),
        (_set_private, itertools.repeat(None)),
    ):
        deque(map(set_attribute, messages, values), maxlen=0)
    return messages


def encode_message(message: BaseMessage) -> tuple[bytes, MessagePrototype | None] | None:
    """Encode a message as the body that a conversation would store for it.

    Args:
        message: Any message.

    Returns:
        The body, and the result of `read_prototype` for the body. None for a message that would not be restored
        exactly: a message of a user's own class, or one that contains objects or enums.
    """
    if type(message) not in EXACT_CLASSES:
        return None
    try:
        body = encode_body(from_langchain(message))
        prototype = read_prototype(body, message.id)
        is_exact = (prototype.copy() if prototype else read_message(body, message.id)) == message
        if is_exact and not (prototype and prototype.flat):
            is_exact = not (_has_enums(message.__dict__) or _has_enums(message.__pydantic_extra__))
    except Exception:  # noqa: BLE001 - it has values that cannot be stored
        return None
    return (body, prototype) if is_exact else None


def read_prototype(body: bytes, message_id: str | None) -> MessagePrototype | None:
    """Read a body of a usual kind of message.

    Args:
        body: The body from `encode_message`.
        message_id: The message's id, if any.

    Returns:
        The prototype to copy the message from, or None if `read_message` must read the body.
    """
    try:
        stored = orjson.loads(body)
    except orjson.JSONDecodeError:  # lone surrogates, or damage
        return None
    role = str(stored.get("role")) if type(stored) is dict else ""
    if (empty := _EMPTIES.get(role)) is None:
        return None
    content = stored.get("content")
    fields = {**empty.__dict__, "content": content, "id": message_id}
    if len(stored) == 2 and role != "tool" and type(content) is str:  # noqa: PLR2004 - content and role
        return MessagePrototype(type(empty), fields, body, flat=True)
    if _TAG_BYTES in body or (type(content) is not str and (type(content) is not list or _may_be_rounded(content))):
        return None
    if not _fill_fields(fields, stored, role):
        return None
    return MessagePrototype(type(empty), fields, body, flat=_is_flat(fields))


def read_message(body: bytes, message_id: str | None) -> BaseMessage:
    """Read any stored body as a LangChain message.

    Args:
        body: The body from `encode_message`.
        message_id: The message's id, if any.

    Returns:
        A new message.

    Raises:
        DatabaseUnreadable: The body is damaged.
    """
    message = to_langchain(decode_body(body, message_id or "-"))
    message.__dict__["id"] = message_id
    return message


def _fill_fields(fields: dict[str, Any], stored: dict[str, Any], role: str) -> bool:
    """Set all fields but the content. Return False if the body must be read through `Message`."""
    langchain = stored.get("langchain", {})
    if not stored.keys() <= _FIELDS or not langchain.keys() <= _LANGCHAIN_FIELDS[role] or _may_be_rounded(langchain):
        return False
    if "agentmem" in langchain.get("additional_kwargs", {}):
        return False
    fields["name"] = stored.get("name")
    fields.update(langchain)
    if role == "tool":
        if type(fields["content"]) is str and '"tool_call_id"' in fields["content"]:  # may be a wrapped tool result
            return False
        fields["tool_call_id"] = stored.get("tool_call_id") or ""
    elif "tool_call_id" in stored:
        return False
    return "tool_calls" not in stored or (role == "assistant" and _set_tool_calls(fields, stored["tool_calls"]))


def _set_tool_calls(fields: dict[str, Any], calls: list[dict[str, Any]]) -> bool:
    """Set the field "tool_calls". Return False if the body must be read through `Message`."""
    fields["tool_calls"] = []
    for call in calls:
        function = call["function"]
        args = json_object(function["arguments"])
        if args is None or call.keys() != {"id", "type", "function"} or call["type"] != "function":
            return False
        tool_call = {"name": function["name"], "args": args, "id": call["id"] or None, "type": "tool_call"}
        fields["tool_calls"].append(tool_call)
    return True


def _may_be_rounded(value: Any) -> bool:
    """Return whether a value has a float that may have been an integer of more than 64 bits.

    orjson rounds such integers to floats, whose magnitude is at least 2**53.
    """
    if type(value) is dict:
        return any(_may_be_rounded(item) for item in value.values())
    if type(value) is list:
        return any(map(_may_be_rounded, value))
    return type(value) is float and abs(value) >= 2.0**53


def _has_enums(value: Any) -> bool:
    """Return whether a value has enum members.

    A body restores an enum member as a plain value. The two can be equal, so a comparison does not detect the change.
    """
    if isinstance(value, dict):
        items: Iterable[Any] = itertools.chain(value, value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        items = value
    else:
        return isinstance(value, Enum)
    for item in items:  # noqa: SIM110 - a generator would take twice as long
        if type(item) not in _SCALARS and _has_enums(item):
            return True
    return False


def _is_flat(fields: dict[str, Any]) -> bool:
    """Return whether all fields are texts, None or empty containers."""
    return all(
        type(value) is str or value is None or (name in _CONTAINER_NAMES and not value)
        for name, value in fields.items()
    )


def _copy_lists_and_dicts(value: Any) -> Any:
    """Copy lists and dictionaries. Other values in a prototype are immutable."""
    kind = type(value)
    if kind is dict:
        return {key: _copy_lists_and_dicts(item) for key, item in value.items()} if value else {}
    if kind is list:
        return list(map(_copy_lists_and_dicts, value)) if value else []
    return value
