"""Time and new ids, as functions that a test can replace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from langchain_core.utils.uuid import uuid7

Clock: TypeAlias = Callable[[], datetime]
NewId: TypeAlias = Callable[[], str]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """The time, aware of being UTC."""
    return datetime.now(UTC)


def new_uuid() -> str:
    """An id for a message: a UUID that begins with the time, so that what is said together lies together."""
    return str(uuid7())


def micros(moment: datetime) -> int:
    """A time as the database keeps it: microseconds since 1970 in UTC."""
    return (moment - EPOCH) // _MICROSECOND


EARLIEST, LATEST = micros(datetime.min.replace(tzinfo=UTC)), micros(datetime.max.replace(tzinfo=UTC))
"""What a stored number can stand for: the years 1 to 9999."""


def is_time(number: object) -> bool:
    """Whether a stored number stands for a time that can be read again."""
    return isinstance(number, int) and not isinstance(number, bool) and EARLIEST <= number <= LATEST


def moment(micros: int) -> datetime:
    """The time that a stored number stands for."""
    return EPOCH + timedelta(microseconds=micros)
