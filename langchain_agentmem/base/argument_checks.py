"""Checks of what callers give: texts, names, numbers, lists. Each raises an `InvalidInput` that says what is wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from langchain_agentmem.base.options import check_value
from langchain_agentmem.errors import InvalidInput, safe_repr

LONGEST_NAME = 500


EVERYTHING = "*"
"""The query that means all."""


ALL = 2**31 - 1


_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def text_given(value: Any, what: str) -> str:
    """A text that a user gave.

    Args:
        value: What was given.
        what: What it is, for the error.

    Raises:
        InvalidInput: It is no text.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is text, not {type(value).__name__}.")
    return value


def name_given(value: Any, what: str) -> str:
    """A name that a user gave: of a key, of a kind of event, a tag.

    Args:
        value: What was given.
        what: What it is, for the error.

    Raises:
        InvalidInput: It is empty, too long, or has control characters.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_NAME or _FORBIDDEN.search(value):
        raise InvalidInput(
            f"{safe_repr(value)} cannot be {what}: that is a text of 1 to {LONGEST_NAME} characters without control "
            "characters."
        )
    return value


def limit_given(value: Any) -> int:
    """How many things a user wants at most; None for all.

    Raises:
        InvalidInput: It is no number of 0 or more.
    """
    if value is None:
        return ALL
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"A limit is a whole number of 0 or more, or None for all, not {safe_repr(value)}.")
    return min(value, ALL)


def texts_given(values: Any, what: str) -> list[str]:
    """Texts that a user gave: one, or several.

    Raises:
        InvalidInput: It is something else.
    """
    if isinstance(values, str):
        return [values]
    if isinstance(values, Mapping) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInput(f"{what} are a list of texts, not {type(values).__name__}.")
    if wrong := [each for each in values if not isinstance(each, str)]:
        raise InvalidInput(f"{what} are texts, and {safe_repr(wrong[0])} is none.")
    return list(values)


def channels_given(record: Any) -> tuple[str, ...]:
    """The names of channels whose messages a user wants recorded.

    Raises:
        InvalidInput: They are no list of names.
    """
    is_list = isinstance(record, Sequence) and not isinstance(record, str)
    if not is_list or not all(isinstance(name, str) and name and "\0" not in name for name in record):
        raise InvalidInput(f'record is a list of names of channels, such as ("messages",), not {safe_repr(record)}.')
    return tuple(dict.fromkeys(record))


def check_whole(name: str, value: Any, least: int = 0) -> None:
    """Check an option that is a whole number.

    Raises:
        InvalidInput: It is something else, or less than the least that it may be.
    """
    check_value(Annotated[int, Ge(least)], value, name)


def check_timeout(value: Any, *, zero: bool = True) -> None:
    """Check a time to wait in seconds; None waits for ever.

    Args:
        value: The time.
        zero: Whether it may be 0, to not wait at all.

    Raises:
        InvalidInput: It is no number of seconds, or more than the system can wait.
    """
    check_value(Annotated[float, Ge(0) if zero else Gt(0), Le(threading.TIMEOUT_MAX)] | None, value, "timeout")


def check_flag(name: str, value: Any) -> bool:
    """Check an option that is on or off, and return it.

    Raises:
        InvalidInput: It is neither True nor False.
    """
    return check_value(bool, value, name)  # type: ignore[no-any-return]  # which it is


def listed_field(name: str, values: Any) -> list[Any]:
    """The list that a field of a configuration is given; a text is none."""
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInput(f"{name} must be a list, not {safe_repr(values)}.")
    return list(values)
