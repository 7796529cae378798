"""The value of an item as bytes, and the text that it is found by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from langchain_agentmem.base.encoding import TAG, decode, is_plain, to_plain, write_plain
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput

LONGEST_KEY = 2_000
"""Bytes; PostgreSQL's indexes have no room for more."""
LONGEST_TTL = 1e9
"""Minutes: some 1,900 years."""

_TAGGED = TAG.encode()
_LONG_NUMBER = re.compile(rb"\d{19}")
_UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")


def key_of(key: Any) -> str:
    """Check the key of an item.

    Raises:
        InvalidInput: It is no text, empty, too long, or has characters that no database can keep.
    """
    if isinstance(key, str) and key.isascii() and 0 < len(key) <= LONGEST_KEY and "\0" not in key:
        return key
    if not isinstance(key, str) or not key or _UNUSABLE.search(key) or len(key.encode()) > LONGEST_KEY:
        raise InvalidInput(
            f"{safe_repr(key)} cannot be the key of an item: keys are strings of 1 to {LONGEST_KEY} bytes "
            "without NULs and unpaired surrogates."
        )
    return key


def ttl_of(ttl: Any) -> float | None:
    """Check a time to live.

    Raises:
        InvalidInput: It is no positive number of minutes.
    """
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be a positive number of minutes, or None for no end, not {safe_repr(ttl)}.")
    return float(ttl)


def written(value: Mapping[str, Any]) -> bytes:
    """The value as it is stored: JSON, keys in their order, with tags for what JSON has no word for.

    Raises:
        InvalidInput: It is no dictionary, or holds what cannot be stored as JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The value of an item is a dictionary, not {type(value).__name__}.")
    plain = dict(value)
    return write_plain(plain if is_plain(plain) else to_plain(plain))


def read(data: bytes, path: str, key: str) -> dict[str, Any]:
    """The value of an item, made anew.

    Raises:
        DatabaseUnreadable: The stored bytes are damaged.
    """
    try:
        value = _decoded(data)
    except InvalidInput as error:
        raise damaged(path, key) from error
    if not isinstance(value, dict):
        raise damaged(path, key)
    return value


def damaged(path: str, key: str) -> DatabaseUnreadable:
    """The error for an item whose value cannot be read."""
    return DatabaseUnreadable(
        f"The item {safe_repr(key)} in {safe_repr(namespace_of(path))} is damaged. Delete it, or restore a backup."
    )


def plain_view(value: Any) -> Any:
    """A value in JSON's own types, for those who look for text in it: times in ISO 8601, no bytes."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_view(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_view(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain_view, value), key=str)  # in an order that every process finds
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | UUID) else None


def whole_text(value: Mapping[str, Any]) -> str:
    """All text and numbers of a value, one a line. Its keys and truth values are none."""
    texts: list[str] = []
    _gather(value, texts)
    return "\n".join(texts)


def text_of(value: Mapping[str, Any], data: bytes) -> str:
    """The text of a value that is about to be stored, exactly as it will be read from the stored bytes again.

    Args:
        value: The value.
        data: What `written` gave.
    """
    return whole_text(value) if _TAGGED not in data else found_by(data, None)


def _gather(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            _gather(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _gather(inner, texts)
    elif isinstance(value, int | float):
        if not isinstance(value, bool):
            texts.append(str(value))
    elif value is not None:
        _gather(plain_view(value), texts)


def _decoded(data: bytes) -> Any:
    """The same as `decode`, quicker for what is usual."""
    if _TAGGED in data or _LONG_NUMBER.search(data):  # orjson would make a float of a number of more than 64 bits
        return decode(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # text that UTF-8 alone cannot hold, or damage
        return decode(data)


def noted(named: tuple[str, ...] | None) -> str | None:
    """Texts of named fields as they are kept beside the item; None where the whole value is meant."""
    return None if named is None else json.dumps(named)


def passages(data: bytes | None, indexed: str | None) -> tuple[str, ...]:
    """The texts that a stored item is in the index with.

    Args:
        data: Its value; needed only where the whole of it is in the index.
        indexed: What `noted` gave.
    """
    if indexed is not None:
        return tuple(json.loads(indexed))
    try:
        return (whole_text(_decoded(bytes(data or b"{}"))),)
    except (InvalidInput, AttributeError):  # damaged: whoever deletes it must be able to
        return ("",)


def found_by(data: bytes | None, indexed: str | None) -> str:
    """The same as one text."""
    return "\n".join(passages(data, indexed))
