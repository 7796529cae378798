"""How the values of `langchain_agentmem.model` travel: to dictionaries, JSON and YAML, and back.

Reading is strict about types and generous about age: what is malformed is refused with a sentence that names
it, and ids that older dumps lack are made.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from langchain_agentmem.base.encoding import is_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput


def new_id(prefix: str) -> str:
    """Make an id such as ``"conv-20260102-030405-1a2b3c4d"``.

    Args:
        prefix: What the id names. Document 000 uses ``conv``, ``round``, ``post``, ``atta`` and ``sme``.

    Returns:
        The prefix, the time in UTC to the second, and four random bytes in hexadecimal.
    """
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


class Portable:
    """A value that goes to a dictionary, to JSON or to YAML, and comes back equal."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Give a dictionary made of JSON's own types."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Build the value from what `to_dict` gave.

        Args:
            data: A dictionary, from this package or from an older system.

        Returns:
            The value. None only for an attachment of a type that no longer exists.

        Raises:
            InvalidInput: The data is not a mapping, or has a wrong type inside.
        """
        raise NotImplementedError

    def to_json(self, *, indent: int | None = None) -> str:
        """Write the value as JSON text.

        Args:
            indent: Spaces to indent by. Default: all on one line.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the value from JSON text.

        Raises:
            InvalidInput: The text is not JSON, or does not describe this kind of value.
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"This is not JSON: {error}") from error
        return cls._required(data)

    def to_yaml(self) -> str:
        """Write the value as YAML text."""
        import yaml  # noqa: PLC0415 - only those who write YAML pay for it

        data = self.to_dict()
        text = str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
        if yaml.safe_load(text) == data:
            return text
        # Some rare characters (NEL, line separators, a byte order mark) survive only when they are escaped.
        return str(yaml.safe_dump(data, default_style='"', sort_keys=False))

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Read the value from YAML text. Only plain YAML is read; tags that name Python objects are refused.

        Raises:
            InvalidInput: The text is not YAML, or does not describe this kind of value.
        """
        import yaml  # noqa: PLC0415

        try:
            data = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
            raise InvalidInput(f"This is not YAML that can be read: {error}") from error
        return cls._required(data)

    @classmethod
    def _required(cls, data: Any) -> Self:
        value = cls.from_dict(data)
        if value is None:
            raise InvalidInput(f"{cls.__name__}: the type {safe_repr(data.get('type'))} no longer exists.")
        return value


def fields_of(cls: type, data: Any, *required: str) -> dict[str, Any]:
    """Check that data is a dictionary with these keys, and copy it."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{cls.__name__}: expected a dictionary, not {type(data).__name__}.")
    for key in required:
        if data.get(key) is None:
            raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} is missing from {sorted(map(str, data))}.")
    return dict(data)


def id_of(cls: type, fields: Mapping[str, Any]) -> str:
    """Give the id that data holds, or nothing."""
    given = fields.get("id")
    if given is not None and not isinstance(given, str):
        raise InvalidInput(f"{cls.__name__}: 'id' must be text, not {safe_repr(given)}.")
    return given or ""


def list_of(cls: type, fields: Mapping[str, Any], key: str) -> list[Any]:
    """Give a list that data holds under a key; a missing one is empty."""
    items = fields.get(key)
    if items is None:
        return []
    if not isinstance(items, list | tuple):
        raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} must be a list, not {type(items).__name__}.")
    return list(items)


def settle_id(value: Any, prefix: str) -> None:
    """Give a new value an id, unless it has one."""
    if not isinstance(value.id, str):
        raise InvalidInput(f"{type(value).__name__}: 'id' must be text, not {safe_repr(value.id)}.")
    if not value.id:
        object.__setattr__(value, "id", new_id(prefix))


def check_text(value: Any, *names: str) -> None:
    """Check that these fields are text."""
    for name in names:
        text = getattr(value, name)
        if not isinstance(text, str):
            raise InvalidInput(f"{type(value).__name__}: {safe_repr(name)} must be text, not {type(text).__name__}.")


def settle_tuple(value: Any, name: str, kind: type) -> None:
    """Turn a field into a tuple, and check what it holds."""
    try:
        items = tuple(getattr(value, name))
    except TypeError as error:
        raise InvalidInput(f"{type(value).__name__}: {safe_repr(name)} must be a list of {kind.__name__}.") from error
    for item in items:
        if not isinstance(item, kind):
            raise InvalidInput(
                f"{type(value).__name__}: {safe_repr(name)} holds a {type(item).__name__}, not a {kind.__name__}."
            )
    object.__setattr__(value, name, items)


def json_copy(value: Any) -> Any:
    """Copy JSON-able data; a tuple becomes a list, as JSON would make it."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidInput("Attachment: the keys of 'extra' must be text.")
        return {key: json_copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_copy(item) for item in value]
    if not is_plain(value):
        raise InvalidInput(
            f"Attachment: 'extra' must be JSON-able; {type(value).__name__} {safe_repr(value, 60)} is not."
        )
    return value
