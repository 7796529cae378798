"""Which times a search query speaks of, so that what was said then can be ranked higher.

A query becomes a string with one character for each word or number (`date_tokens`). One pattern finds the times in it,
a second puts them together ("between A and B", "two weeks before A"). Both take linear time. All is in UTC.

What a query leaves open is read as someone does who looks back: "in May" and "8 May" are the latest that have begun,
"Monday" the latest Monday, today included, and "last Monday" one before today. Weeks begin on Monday, seasons are those
of the northern half, and winter 2022 begins in December 2022. "Two weeks ago" is as long as its unit, around that day.
"Since A" lasts until now. After, before, until and by A are open, and what a search wants is near A: they reach a week
from it, or as long as A itself if that is more. "Recently" names no time, so it finds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from langchain_agentmem.search import date_periods as calendar
from langchain_agentmem.search.date_periods import DAY, FIRST_YEAR, LAST_YEAR, Period
from langchain_agentmem.search.date_times import Time, counted, number_of, times
from langchain_agentmem.search.date_tokens import LONGEST, Tokens, names_a_time, tokens

_EARLIEST, _LATEST = calendar.years(FIRST_YEAR, LAST_YEAR)
_REACH = 7 * DAY  # of what is open at one end


class Span(NamedTuple):
    """A time that a query names.

    Attributes:
        start: Its first microsecond since 1970, UTC.
        end: The first microsecond after it.
        words: The words that said so.
    """

    start: int
    end: int
    words: str


def spans(text: str, now: int) -> list[Span]:
    """Every time that a text names, in the order of the text.

    Args:
        text: Anything; no text is invalid. The first 1,000 characters are read.
        now: The time that "yesterday" is meant from, in microseconds since 1970, UTC.

    Returns:
        One span for each, none that begins before 1900 or ends after 2200.
    """
    if len(text) > LONGEST:
        text = " ".join(text[:LONGEST].rsplit(None, 1)[:1])  # not a part of a number
    if not names_a_time(text) or not _EARLIEST <= now < _LATEST:
        return []
    cut = tokens(text)
    found = list(times(cut, now))
    return [
        Span(*time.period, text[cut.starts[time.first] : cut.ends[time.last]])
        for time in (_joined(cut, found, now) if found else ())
        if _EARLIEST <= time.period[0] < time.period[1] <= _LATEST
    ]


# How times are put together, each found one being an E. What fits none of these stands alone.
_TOGETHER = re.compile(
    r"(?P<range>(?:[fb][rn]?)?E[>Ui][rn]?E|b[rn]?E[&p][rn]?E)"
    r"|(?P<offset>(?:i?[c10ij]o?|L)?[dknye][BFV][rno]*E|E[BF][rno]*E)"
    r"|(?P<within>[ek]o[rn]?E)"
    r"|(?P<open>[CFBVUY][rno]*E)"
    r"|E"
)


def _joined(cut: Tokens, found: list[Time], now: int) -> Iterator[Time]:
    kinds: list[str] = []
    where: list[int] = []  # of each character its token, or of an E its time
    at = 0
    for number, time in enumerate(found):
        kinds += cut.kinds[at : time.first]
        where += range(at, time.first)
        kinds.append("E")
        where.append(number)
        at = time.last + 1
    for match in _TOGETHER.finditer("".join(kinds)):
        start, end = match.span()
        parts = [found[where[i]] for i in range(start, end) if kinds[i] == "E"]
        first = parts[0].first if kinds[start] == "E" else where[start]
        period = None
        try:
            if match["range"]:
                period = _range(parts[0], parts[1])
            elif match["offset"]:
                period = _offset(cut, parts, range(first, parts[-1].first))
            elif match["within"]:
                period = _within(parts[0], kinds[start])
            elif match["open"]:
                period = _open(parts[0], kinds[start], now)
        except (ValueError, OverflowError):
            continue
        if period:
            yield Time(first, parts[-1].last, period, None, "")
        else:
            yield from parts


def _range(one: Time, two: Time) -> Period | None:
    """From the first to the end of the second; a year said of one holds for both."""
    start, end = one.period, two.period
    if one.yearly and not two.yearly:
        year = calendar.date_at(end[0]).year
        start = one.yearly(year) or start
        if start[0] > end[0]:
            start = one.yearly(year - 1) or start
    elif two.yearly:
        year = calendar.date_at(start[0]).year
        end = two.yearly(year) or end
        if end[0] < start[0]:
            end = two.yearly(year + 1) or end
    return (start[0], end[1]) if start[0] <= end[0] else None


def _offset(cut: Tokens, parts: list[Time], where: range) -> Period | None:
    """So long before or after a time: a whole unit next to it, or a unit around the day that far away."""
    start, end = parts[-1].period
    before = any(cut.kinds[i] in "BV" for i in where)
    if len(parts) > 1:
        if parts[0].name != "weekday":
            return None
        return calendar.weekday_near(start if before else end - 1, number_of(cut, where, "Ww"), -1 if before else 1)
    unit = next(cut.kinds[i] for i in where if cut.kinds[i] in "dknye")
    if unit == "e":
        weekend = calendar.unit_around(start, "e", 0)
        passed = weekend[1] <= start if before else weekend[0] >= end
        return weekend if passed else calendar.unit_around(start, "e", -1 if before else 1)
    if any(cut.kinds[i] in "c10ij" for i in where):
        _, low, high = counted(cut, where)
        return calendar.around(start, unit, -high, -low) if before else calendar.around(end - DAY, unit, low, high)
    return (calendar.shifted(start, unit, -1), start) if before else (end, calendar.shifted(end, unit, 1))


def _within(time: Time, unit: str) -> Period | None:
    """The week or weekend of a day."""
    start, end = time.period
    return calendar.unit_around(start, unit, 0) if end - start == DAY else None


def _open(time: Time, kind: str, now: int) -> Period | None:
    """Since, after, before, until or by a time."""
    start, end = time.period
    reach = max(_REACH, end - start)
    if kind == "C":
        return (start, max(end, now + 1)) if start <= now else None
    if kind == "F":
        return end, end + reach
    return (start - reach, start) if kind in "BV" else (end - reach, end)
