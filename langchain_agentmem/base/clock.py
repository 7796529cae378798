"""Time and new ids, as functions that a test can replace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from uuid_utils import uuid7

from langchain_agentmem.errors import InvalidInput, safe_repr

Clock: TypeAlias = Callable[[], datetime]
NewId: TypeAlias = Callable[[], str]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """Return the current time as a `datetime` with the time zone UTC."""
    return datetime.now(UTC)


def new_uuid() -> str:
    """Return a new id: a UUID of version 7. Such ids sort by their creation time."""
    return str(uuid7())


def to_micros(moment: datetime) -> int:
    """Convert a time to its stored form: the microseconds since 1970-01-01 in UTC."""
    return (moment - EPOCH) // _MICROSECOND


EARLIEST, LATEST = to_micros(datetime.min.replace(tzinfo=UTC)), to_micros(datetime.max.replace(tzinfo=UTC))
"""The range of stored times: the years 1 to 9999, in microseconds."""


def from_micros(micros: int) -> datetime:
    """Convert the stored microseconds since 1970-01-01 in UTC back to a time."""
    return EPOCH + timedelta(microseconds=micros)


def check_time(value: Any, label: str) -> int:
    """Check a caller's time, and convert it to microseconds since 1970.

    A time without a time zone is interpreted as UTC.

    Raises:
        InvalidInput: The value is not a datetime, or lies outside the years 1 to 9999 in UTC.
    """
    if not isinstance(value, datetime):
        raise InvalidInput(f"{label} must be a datetime, not {type(value).__name__}.")
    try:
        return to_micros(value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC))
    except OverflowError as error:  # `from_micros` could not convert such a value back
        raise InvalidInput(f"{label} must be in the years 1 to 9999 in UTC, not {value!s}.") from error


def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time, and convert it to UTC.

    A time without a time zone is interpreted as UTC.

    Raises:
        InvalidInput: The text is not an ISO 8601 time, or lies outside the years 1 to 9999 in UTC.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"Invalid time {safe_repr(text)}. Write 2026-05-31 or 2026-05-31T18:30+02:00.") from error
