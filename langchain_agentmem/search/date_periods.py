"""Calendar arithmetic on periods: from when (inclusive) to when (exclusive), in microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TypeAlias

Period: TypeAlias = tuple[int, int]
Yearly: TypeAlias = Callable[[int], "Period | None"]
"""What comes around every year: its period in a given year, None where that year has none."""

MINUTE = 60 * 1_000_000
DAY = 24 * 60 * MINUTE
FIRST_YEAR, LAST_YEAR = 1900, 2200

_EPOCH = date(1970, 1, 1).toordinal()
_UNIT_DAYS = {"d": 1, "k": 7, "n": 30.4375, "q": 91.3125, "y": 365.25}
_FEASTS = ((12, 24, 3), (12, 24, 1), (12, 31, 1), (10, 31, 1), (1, 1, 1), (2, 14, 1))
"""Month, day and length in days, in the order of the words."""


def date_at(moment: int) -> date:
    """The day of a moment.

    Raises:
        ValueError, OverflowError: It is outside the calendar.
    """
    return date.fromordinal(_EPOCH + moment // DAY)


def days(first: date, count: int = 1) -> Period:
    """So many whole days."""
    start = (first.toordinal() - _EPOCH) * DAY
    return start, start + count * DAY


def months(year: int, month: int, count: int = 1) -> Period:
    """So many whole months; a month beyond December is of a later year, one below January of an earlier."""
    return days(_month(year, month))[0], days(_month(year, month + count))[0]


def years(first: int, last: int) -> Period:
    """Whole years, the last included."""
    return months(first, 1, 12 * (last - first + 1))


def yearly_days(month: int, first: int, last: int) -> Yearly:
    """Days of a month, each year that has them."""

    def at(year: int) -> Period | None:
        try:
            return days(date(year, month, first), date(year, month, last).day - first + 1)
        except ValueError:
            return None

    return at


def yearly_months(month: int, count: int) -> Yearly:
    """Months that begin with this one, each year."""
    return lambda year: months(year, month, count)


def yearly_feast(number: int) -> Yearly:
    """A feast, by its number in the table of words."""
    month, day, count = _FEASTS[number]
    return lambda year: days(date(year, month, day), count)


def latest(at: Yearly, now: int, *, ended: bool = False) -> Period | None:
    """The latest that has begun, or ended, by now."""
    this_year = date_at(now).year
    for year in range(this_year, this_year - 9, -1):  # 29 February may be eight years away
        period = at(year)
        if period and (period[1] if ended else period[0]) <= now:
            return period
    return None


def following(at: Yearly, now: int) -> Period | None:
    """The first that begins after now."""
    this_year = date_at(now).year
    return next((period for year in range(this_year, this_year + 9) if (period := at(year)) and period[0] > now), None)


def unit_around(now: int, unit: str, offset: int) -> Period:
    """A whole week, weekend, month, quarter or year: this one, or so many later."""
    today = date_at(now)
    if unit in "ke":
        monday = today.toordinal() - today.weekday() + 7 * offset
        return days(date.fromordinal(monday + 5), 2) if unit == "e" else days(date.fromordinal(monday), 7)
    if unit == "n":
        return months(today.year, today.month + offset)
    if unit == "q":
        return months(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * offset, 3)
    return years(today.year + offset, today.year + offset)


def around(moment: int, unit: str, low: int, high: int) -> Period:
    """So many units from a moment, as long as the unit; negative before it."""
    if unit == "u":
        return moment + low * MINUTE, moment + high * MINUTE
    if unit == "d":
        return days(date_at(moment + low * DAY))[0], days(date_at(moment + high * DAY))[1]
    half = length(unit, 1) // 2
    return shifted(moment, unit, low) - half // DAY * DAY, shifted(moment, unit, high) + (half // DAY + 1) * DAY


def length(unit: str, count: int) -> int:
    """How long so many units are, in microseconds."""
    return int(count * _UNIT_DAYS[unit] * DAY)


def shifted(moment: int, unit: str, count: int) -> int:
    """The first microsecond of the day so many units from a moment, on the same day of the month where it exists."""
    day = date_at(moment)
    if unit in "dk":
        return days(day)[0] + count * DAY * (7 if unit == "k" else 1)
    first = _month(day.year, day.month + count * {"n": 1, "q": 3, "y": 12}[unit])
    last = _month(first.year, first.month + 1).toordinal() - 1
    return days(date.fromordinal(min(first.toordinal() + day.day - 1, last)))[0]


def weekday_near(now: int, weekday: int, step: int) -> Period:
    """A day of the week: 0 the latest, -1 the one before today, 1 the first after today."""
    today = date_at(now).toordinal()
    behind = (date_at(now).weekday() - weekday) % 7
    if step < 0:
        behind = behind or 7
    return days(date.fromordinal(today - behind + (7 if step > 0 else 0)))


def _month(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
