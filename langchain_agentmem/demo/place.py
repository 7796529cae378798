"""A value in a JSON document that knows where it stands, so that an error can say what is wrong, and where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from langchain_agentmem.base.namespaces import id_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

T = TypeVar("T")


class Place:
    """A value in a JSON document that knows where it stands, so that an error can say so.

    Args:
        value: The value.
        where: The way to it, for a reader.
    """

    def __init__(self, value: Any, where: str) -> None:
        self.value, self.where = value, where

    def wrong(self, what: str) -> InvalidInput:
        """The error that says what is wrong here."""
        return InvalidInput(f"{self.where}: {what}")

    def of(self, kind: type[T], called: str) -> T:
        """The value, which must be of this type."""
        if not isinstance(self.value, kind) or isinstance(self.value, bool):
            raise self.wrong(f"this must be {called}, not {_shown(self.value)}")
        return self.value

    def has(self, name: str) -> bool:
        """Whether the object has this key, with a value."""
        return self.of(dict, "an object").get(name) is not None

    def at(self, name: str) -> Place:
        """What the object holds under a key that it must have."""
        held = self.of(dict, "an object")
        if name not in held:
            raise self.wrong(f"{json.dumps(name)} is missing")
        return Place(held[name], f"{self.where}, {name}")

    def each(self, called: str) -> Iterator[Place]:
        """The members of a list, counted from 1."""
        for number, value in enumerate(self.of(list, "a list"), 1):
            yield Place(value, f"{self.where}, {called} {number}")

    def text(self) -> str:
        """The value as text; numbers are written as such."""
        if isinstance(self.value, int | float) and not isinstance(self.value, bool):
            return str(self.value)
        return self.of(str, "text")

    def filled(self) -> str:
        """The value as text that is not empty."""
        text = self.text()
        if not text.strip():
            raise self.wrong("this must not be empty")
        return text

    def optional_text(self, name: str) -> str | None:
        """The text under a key, or None where there is none."""
        return self.at(name).text() if self.has(name) else None

    def id(self, what: str, taken: set[str]) -> str:
        """The value as an id that nothing else has yet."""
        try:
            found = id_of(self.text(), what)
        except InvalidInput as error:
            raise self.wrong(str(error)) from error
        if found in taken:
            raise self.wrong(f"another {what} has the id {safe_repr(found)} already")
        taken.add(found)
        return found

    def label(self, taken: set[str]) -> str:
        """The value as the name of a transcript, which becomes the label of a namespace."""
        found = self.id("transcript", taken)
        try:
            path_of((found,))
        except InvalidInput as error:
            raise self.wrong(str(error)) from error
        return found


def _shown(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
