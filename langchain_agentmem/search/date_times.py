"""Finds single times in tokens: a day, a month, a season, "last week", "three days ago".

Every time has a pattern over the kinds of the tokens, and a function that reads it. To teach another one, add both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from langchain_agentmem.search import date_periods as calendar
from langchain_agentmem.search.date_periods import DAY, Period, Yearly
from langchain_agentmem.search.date_tokens import Tokens
from langchain_agentmem.search.date_words import NO_PLURAL

_A_FEW = (2, 5)


class Time(NamedTuple):
    """A time within the tokens.

    Attributes:
        first: Its first token.
        last: Its last.
        period: When.
        yearly: The same in other years, if no year was said.
        name: Which pattern found it.
    """

    first: int
    last: int
    period: Period
    yearly: Yearly | None
    name: str


# The times themselves. `_` stands for the year, said or relative; `~` for words that a date may follow.
_TIMES = {
    "days": r"(?:f?[rn]?1[>Ui]|b[rn]?1[&p])[rn]?1o?[Mmx]_?|(?:[Mmx]1[>U]|b[Mmx]1[&p])1(?!o?[Mm])_?",
    "date": r"(?:[Wwz][rn]?)?(?:[1=](?:o?[Mm]|ox|x(?=4|\||$)|(?<=~[1=])x|o?v(?=o?4)|a(?=4))"
    r"|[Mm][rn]?[1=]|x[rn]?[1=](?=4|\||$)|(?<=~)x[rn]?[1=])(?:_|(?!0))|4[Mm]1",
    "whole": r"#",
    "month": r"M_|[mx]o?4|m_|(?<!r)[LX]o?[Mmx]|T[Mm]|[Mm]l|M|(?<=p)[mx]_?|(?<=[pkn]o)[mx]_?|(?<=[CFBUfb])[mx](?![1=])"
    r"|(?<=[Mm4]>)m|m(?=>[Mm])|(?<=b[Mmx]&)[mx]",
    "quarter": r"Q_|4Q|(?<=[pofCFBU])Q|[LTX]Q",
    "season": r"[Ss]_|[LTXl][Ss]|[Ss]l|S|(?<=p)s",
    "feast": r"[hH]_|[LTXl]h|hl|H|(?<=[pnijCFBUY])h",
    "ago": r"i?[c10ij]o?[dknyuj]a|[AV][c10ij]c?o?[dknyuj]",
    "rolling": r"[PLX][c10]o?[dknyu]|P[knyq]|rL[kny](?!o)",
    "unit": r"[LTXl][knyeq](?!o|[BFV][rn]*[1=Mm4#Wt])|[knyeq]l",
    "weekday": r"[LTXl]W|Wl|[LTXn]w|W",
    "day": r"t",
    "year": r"4",
}
_TIME = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _TIMES.items())
    .replace("_", r"(?:o?[rn]?(?:4|[LTX]y|yl|ly))")
    .replace("~", "[nrfbCFBUYpWz>&]")
)


def times(cut: Tokens, now: int) -> Iterator[Time]:
    """The times that tokens name, one after another.

    Args:
        cut: The tokens.
        now: What "today" means, in microseconds since 1970, UTC.
    """
    for match in _TIME.finditer("".join(cut.kinds)):
        name = match.lastgroup or ""
        first, after = match.span()
        try:
            period, yearly = _READ[name](cut, range(first, after), now)
        except (ValueError, OverflowError):  # outside the calendar, as 9,999 years ago is
            continue
        if period:
            yield Time(first, after - 1, period, yearly, name)


_Reading: TypeAlias = tuple[Period | None, Yearly | None]


def _any_year(at: Yearly, cut: Tokens, where: range, now: int) -> _Reading:
    """What comes around every year, in the year that was said or the latest."""
    for i in where:
        kind = cut.kinds[i]
        if kind == "4":
            return at(cut.numbers[i]), None
        if kind == "y":
            return at(calendar.date_at(now).year + _direction(cut, where)), None
    if any(cut.kinds[i] in "LTXl" for i in where):
        step = _direction(cut, where)
        if step == 0:
            return at(calendar.date_at(now).year), None
        return (calendar.latest(at, now, ended=True) if step < 0 else calendar.following(at, now)), None
    return calendar.latest(at, now), at


def _direction(cut: Tokens, where: range) -> int:
    return next((cut.numbers[i] for i in where if cut.kinds[i] in "LTXl"), 0)


def number_of(cut: Tokens, where: range, kinds: str) -> int:
    """What the first token of these kinds stands for."""
    return next(cut.numbers[i] for i in where if cut.kinds[i] in kinds)


def _date(cut: Tokens, where: range, now: int) -> _Reading:
    month = number_of(cut, where, "Mmxva")
    said = [day for i in where for day in _days_of(cut, i)]
    return _any_year(calendar.yearly_days(month, said[0], said[-1]), cut, where, now)


def _days_of(cut: Tokens, i: int) -> tuple[int, ...]:
    if cut.kinds[i] == "=":
        return tuple(day or 0 for day in cut.whole[i])
    return (cut.numbers[i],) if cut.kinds[i] == "1" else ()


def _whole(cut: Tokens, where: range, now: int) -> _Reading:
    parts = cut.whole[where[0]]
    if len(parts) == 2:  # noqa: PLR2004 - two years
        return calendar.years(parts[0] or 0, parts[1] or 0), None
    year, month, day = parts
    if year is None:
        at = calendar.yearly_days(month or 0, day or 0, day or 0)
        return calendar.latest(at, now), at
    if month is None:
        return calendar.years(year, year), None
    return (calendar.months(year, month) if day is None else calendar.yearly_days(month, day, day)(year)), None


def _month(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(calendar.yearly_months(number_of(cut, where, "Mmx"), 1), cut, where, now)


def _quarter(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(calendar.yearly_months(number_of(cut, where, "Q") * 3 - 2, 3), cut, where, now)


def _season(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(calendar.yearly_months(number_of(cut, where, "Ss") * 3 + 3, 3), cut, where, now)


def _feast(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(calendar.yearly_feast(number_of(cut, where, "Hh")), cut, where, now)


def counted(cut: Tokens, where: range) -> tuple[str, int, int]:
    """Unit, and the least and most of it that is meant; of "u" so many minutes.

    Args:
        cut: The tokens.
        where: Which of them hold the unit and perhaps a count.
    """
    unit, times_minutes, count = "", 1, 1
    for i in where:
        kind = cut.kinds[i]
        if kind in "dknyuq":
            unit, times_minutes = kind, cut.numbers[i] or 1
        elif kind == "j" and (i + 1 not in where or cut.kinds[i + 1] not in "dknyuq"):  # "il y a un an"
            unit = "y"
        elif kind in "c10ij":
            count = cut.numbers[i]
    low, high = (count, count) if count else _A_FEW
    return unit, low * times_minutes, high * times_minutes


def _ago(cut: Tokens, where: range, now: int) -> _Reading:
    unit, low, high = counted(cut, where)
    if unit == "u":
        half = number_of(cut, where, "u") / 2
        return (now - int((high + half) * calendar.MINUTE), now - int((low - half) * calendar.MINUTE)), None
    return calendar.around(now, unit, -high, -low), None


def _rolling(cut: Tokens, where: range, now: int) -> _Reading:
    unit, _, high = counted(cut, where)
    today = calendar.days(calendar.date_at(now))
    if cut.kinds[where[0]] == "X":
        return (today[0], calendar.shifted(now, unit, high) + DAY) if unit != "u" else None, None
    if unit == "u":
        return (now - high * calendar.MINUTE, now + 1), None
    return (calendar.shifted(now, unit, -high), today[1]), None


def _unit(cut: Tokens, where: range, now: int) -> _Reading:
    unit = next(cut.kinds[i] for i in where if cut.kinds[i] in "knyeq")
    return calendar.unit_around(now, unit, _direction(cut, where)), None


def _weekday(cut: Tokens, where: range, now: int) -> _Reading:
    weekday = number_of(cut, where, "Ww")
    if any(cut.kinds[i] == "T" for i in where):
        return calendar.around(calendar.unit_around(now, "k", 0)[0], "d", weekday, weekday), None
    return calendar.weekday_near(now, weekday, _direction(cut, where)), None


def _day(cut: Tokens, where: range, now: int) -> _Reading:
    offset = cut.numbers[where[0]]
    return calendar.around(now, "d", offset, offset), None


def _year(cut: Tokens, where: range, _: int) -> _Reading:
    """A number by itself is a year if nothing tells that it counts something."""
    i = where[0]
    year, before = cut.numbers[i], cut.kinds[i - 1] if i else "|"
    after = cut.kinds[i + 1] if i + 1 < len(cut.kinds) else "|"
    among_numbers = after in "01!=" or before in "01!="  # as in a telephone number
    counts = before not in "poCFBUYfby>&LTX" and after == "." and _is_counted(cut.words[i + 1], year)
    return (None if among_numbers or counts else calendar.years(year, year)), None


def _is_counted(word: str, year: int) -> bool:
    plural = word.endswith("s") and not word.endswith("ss") and word not in NO_PLURAL
    return len(word) > 1 and (plural or year % 100 == 0)


_READ: dict[str, Callable[[Tokens, range, int], _Reading]] = {
    "days": _date,
    "date": _date,
    "whole": _whole,
    "month": _month,
    "quarter": _quarter,
    "season": _season,
    "feast": _feast,
    "ago": _ago,
    "rolling": _rolling,
    "unit": _unit,
    "weekday": _weekday,
    "day": _day,
    "year": _year,
}
