"""Fast conversion of LangChain messages to stored bodies and back.

A checkpoint of a long chat has thousands of messages, so reading a message must take only a microsecond or two. The
usual shapes are read directly from the stored bytes. All others are read through `Message`, which has the same result
but is slower. A message that would not be restored exactly has no body, and the caller stores it in another way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import Enum
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem.base.encoding import TAG
from langchain_agentmem.messages.langchain_messages import EXACT_CLASSES, from_langchain, json_object, to_langchain
from langchain_agentmem.messages.message import decode_body, encode_body

_TAG_BYTES = f'"{TAG}"'.encode()

_EMPTY: dict[str, BaseMessage] = {
    "user": HumanMessage(content=""),
    "assistant": AIMessage(content=""),
    "system": SystemMessage(content=""),
    "tool": ToolMessage(content="", tool_call_id=""),
}


def _fields_of_type(message: BaseMessage, kind: type) -> tuple[str, ...]:
    return tuple(name for name, value in message.__dict__.items() if type(value) is kind)


_CONTAINERS = {type(each): (_fields_of_type(each, dict), _fields_of_type(each, list)) for each in _EMPTY.values()}
_FIELD_NAMES = {type(empty): set(empty.__dict__) for empty in _EMPTY.values()}
_CONTAINER_NAMES = {name for names in _CONTAINERS.values() for name in (*names[0], *names[1])}
_SCALARS = {str, int, float, bool, bytes, type(None)}
_set = object.__setattr__
_LANGCHAIN_FIELDS = {
    "user": {"additional_kwargs", "response_metadata"},
    "assistant": {"additional_kwargs", "response_metadata", "usage_metadata"},
    "system": {"response_metadata"},
    "tool": {"additional_kwargs", "response_metadata", "artifact", "status"},
}
_FIELDS = {"content", "role", "name", "langchain", "tool_calls", "tool_call_id"}


class MessagePrototype:
    """A message from which copies are made.

    Attributes:
        body: The bytes that are stored for it.
        fields: Its fields. If `flat`, a message is equal if its fields are equal.
        flat: True if all fields are texts, None or empty containers, so that equal fields have equal types.
        given: The value of `__pydantic_fields_set__`: the names of all fields. The copies share this set.
    """

    __slots__ = ("_kind", "body", "fields", "flat", "given")

    def __init__(self, kind: type[BaseMessage], fields: dict[str, Any], body: bytes, *, flat: bool) -> None:
        self.body = body
        self.fields = fields
        self.flat = flat
        self.given = _FIELD_NAMES[kind]
        self._kind = kind

    def copy(self) -> BaseMessage:
        """Return a new message, with containers of its own."""
        kind = self._kind
        fields = self.fields.copy()
        if self.flat:
            dicts, lists = _CONTAINERS[kind]
            for name in dicts:
                fields[name] = {}
            for name in lists:
                fields[name] = []
        else:
            fields = _copy_lists_and_dicts(fields)
        message = kind.__new__(kind)  # as pydantic's model_construct does, without looking for defaults
        _set(message, "__dict__", fields)
        _set(message, "__pydantic_fields_set__", self.given)
        _set(message, "__pydantic_extra__", {})
        _set(message, "__pydantic_private__", None)
        return message


def body_of(message: BaseMessage) -> tuple[bytes, MessagePrototype | None] | None:
    """Encode a message as the body that a conversation would store for it.

    Args:
        message: Any message.

    Returns:
        The body, and the result of `prototype_of` for it. None for a message that would not be restored exactly: one
        of a user's own class, or one that contains objects or enums.
    """
    if type(message) not in EXACT_CLASSES:
        return None
    try:
        body = encode_body(from_langchain(message))
        prototype = prototype_of(body, message.id)
        same = (prototype.copy() if prototype else message_of(body, message.id)) == message
        if same and not (prototype and prototype.flat):
            same = not (_has_enums(message.__dict__) or _has_enums(message.__pydantic_extra__))
    except Exception:  # noqa: BLE001 - it has values that cannot be stored
        return None
    return (body, prototype) if same else None


def prototype_of(body: bytes, message_id: str | None) -> MessagePrototype | None:
    """Read a stored body of a usual shape.

    Args:
        body: The body from `body_of`.
        message_id: The message's id, if any.

    Returns:
        The prototype to copy the message from, or None if `message_of` must read it.
    """
    stored = _untagged_fields(body)
    role, content = stored.get("role"), stored.get("content")
    empty = _EMPTY.get(role) if type(role) is str else None
    if empty is None or (type(content) is not str and (type(content) is not list or _has_lost_integers(content))):
        return None
    fields = {**empty.__dict__, "content": content, "id": message_id}
    if len(stored) == 2 and role != "tool":  # noqa: PLR2004 - content and role
        return MessagePrototype(type(empty), fields, body, flat=type(content) is str)
    if not _fill_fields(fields, stored, str(role)):
        return None
    return MessagePrototype(type(empty), fields, body, flat=_is_flat(fields))


def message_of(body: bytes, message_id: str | None) -> BaseMessage:
    """Read any stored body as a LangChain message.

    Args:
        body: The body from `body_of`.
        message_id: The message's id, if any.

    Returns:
        A new message.

    Raises:
        DatabaseUnreadable: The body is damaged.
    """
    message = to_langchain(decode_body(body, message_id or "-"))
    message.__dict__["id"] = message_id
    return message


def _untagged_fields(body: bytes) -> dict[str, Any]:
    """Return the fields of a body.

    The result is empty if the body has type tags or must be read through `Message`.
    """
    if _TAG_BYTES in body:
        return {}
    try:
        stored = orjson.loads(body)
    except orjson.JSONDecodeError:  # lone surrogates, or damage
        return {}
    return stored if type(stored) is dict else {}


def _fill_fields(fields: dict[str, Any], stored: dict[str, Any], role: str) -> bool:
    """Set all fields but the content; return False if the body must be read through `Message`."""
    langchain = stored.get("langchain", {})
    if not stored.keys() <= _FIELDS or not langchain.keys() <= _LANGCHAIN_FIELDS[role] or _has_lost_integers(langchain):
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
    """Set the field "tool_calls"; return False if the body must be read through `Message`."""
    fields["tool_calls"] = []
    for call in calls:
        function = call["function"]
        args = json_object(function["arguments"])
        if args is None or call.keys() != {"id", "type", "function"} or call["type"] != "function":
            return False
        tool_call = {"name": function["name"], "args": args, "id": call["id"] or None, "type": "tool_call"}
        fields["tool_calls"].append(tool_call)
    return True


def _has_lost_integers(value: Any) -> bool:
    """Return whether a value has a float that may have been an integer of more than 64 bits.

    orjson rounds such integers to floats, whose magnitude is at least 2**53.
    """
    if type(value) is dict:
        return any(_has_lost_integers(item) for item in value.values())
    if type(value) is list:
        return any(map(_has_lost_integers, value))
    return type(value) is float and abs(value) >= 2.0**53


def _has_enums(value: Any) -> bool:
    """Return whether a value has enum members.

    A body restores an enum member as a plain value. The two may be equal, so a comparison cannot detect the loss.
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
