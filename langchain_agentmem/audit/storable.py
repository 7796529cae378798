"""Whatever a library left in a message, as data that storage keeps.

A run may hand a model anything: a tool's artifact that is a table, a parsed reply that is an object of the user's own
class, a message that somebody changed into none. Storage refuses such things, and a trail may not: what cannot be kept
as it is, is kept as what can be told of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message

from langchain_agentmem.base.encoding import MAX_DEPTH, is_plain, to_plain
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages import Message, from_langchain
from langchain_agentmem.messages.message import kept_fields

_DEEPEST = MAX_DEPTH - 16  # what is told stands inside of messages and entries
_MOST = 100_000
_LONGEST = 500
_ELSEWHERE = "…"
_LOOSE = ("content", "structured_data", "reasoning_details", "langchain")
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}


def message_of(given: Any) -> Message:
    """Anything that a model was given or answered with, as a message that storage keeps.

    Args:
        given: A message of LangChain; anything else is taken for the text of a user.

    Returns:
        What `from_langchain` gives, wherever that can be stored. A chunk of a reply becomes a whole message.
    """
    if not isinstance(given, BaseMessage):
        return Message(role="user", content=given if isinstance(given, str) else _text_of(given))
    try:
        message = from_langchain(_whole(given))
    except (InvalidInput, ValueError, TypeError, KeyError, AttributeError):
        message = _remains(given)
    try:
        kept_fields(message, copied=False)
    except MessageError:
        loose: dict[str, Any] = {name: storable(getattr(message, name)) for name in _LOOSE}
        message = replace(message, **loose)
    return message


def storable(value: Any) -> Any:
    """A value as storage keeps it.

    Args:
        value: Anything.

    Returns:
        The value itself where it can be stored. Otherwise a copy in which objects are their fields, or, where they have
        none, a few words. What is nested too deeply or refers to itself ends in `…`.
    """
    return value if is_plain(value, _DEEPEST) else _Telling().told(value, _DEEPEST)


class _Telling:
    """One value being told, so that neither cycles nor what branches without end take long."""

    def __init__(self) -> None:
        self.left = _MOST
        self.within: set[int] = set()

    def told(self, value: Any, depth: int) -> Any:
        if value is None or type(value) is str:
            return value
        self.left -= 1
        if depth <= 0 or self.left <= 0 or id(value) in self.within:
            return _ELSEWHERE
        self.within.add(id(value))
        try:
            return self.parts(value, depth - 1)
        finally:
            self.within.discard(id(value))

    def parts(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return {self.key(key): self.told(item, depth) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self.told(item, depth) for item in value]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, set | frozenset):
            return [self.told(item, depth) for item in value]
        try:
            to_plain(value)
        except InvalidInput:
            return self.of_object(value, depth)
        return value

    def key(self, key: Any) -> Any:
        return key if isinstance(key, str | int | float | bool | None) else _text_of(key)

    def of_object(self, value: Any, depth: int) -> Any:
        try:
            if not isinstance(value, type) and is_dataclass(value):
                return {each.name: self.told(getattr(value, each.name), depth) for each in fields(value)}
            if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
                return self.told(dump(), depth)
        except Exception:  # noqa: BLE001 - it is somebody's own code, and may do anything
            return _name_of(value)
        return _text_of(value)


def _whole(message: BaseMessage) -> BaseMessage:
    return message_chunk_to_message(message) if isinstance(message, AIMessageChunk) else message


def _remains(message: BaseMessage) -> Message:
    """What is left of a message that no message can be, since somebody has set its fields to anything."""
    held = message.__dict__
    kind, content, key, name, answers = (held.get(at) for at in ("type", "content", "id", "name", "tool_call_id"))
    if isinstance(content, list):
        content = [each if isinstance(each, str | dict) else _text_of(each) for each in content]
    elif not isinstance(content, str | dict | None):
        content = _text_of(content)
    return Message(
        role=_ROLES.get(kind, kind) if isinstance(kind, str) and kind else "unknown",
        content=storable(content),
        message_id=key if isinstance(key, str) else "",
        name=name if isinstance(name, str) else None,
        tool_call_id=answers if isinstance(answers, str) else None,
        structured_data={"tool_calls": storable(held["tool_calls"])} if held.get("tool_calls") else None,
    )


def _text_of(value: Any) -> str:
    """A few words about an object; not where it lies in memory, so that it is told alike each time."""
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__:
        return _name_of(value)
    try:
        said = repr(value)
    except Exception:  # noqa: BLE001 - it is somebody's own code, and may do anything
        return _name_of(value)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + _ELSEWHERE


def _name_of(value: Any) -> str:
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
