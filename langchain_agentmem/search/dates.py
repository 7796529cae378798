"""The times that a text names, so that ranking can favour documents of these times.

Words and patterns are in `dates.yaml`. A text is split into tokens, and each kind of token has a letter. The patterns
are regular expressions over the string of these letters. The first pattern finds times ("last week", "3 May") and
replaces their tokens with one time token. The second combines such times ("between A and B", "two weeks before A"). To
support another form of time, add a pattern to `dates.yaml`, and a function to this module if no existing one fits.

All times are in UTC. Ambiguous times refer to the past: "in May" means the latest May that has begun, "Monday" the
latest Monday including today, and "last Monday" the latest Monday before today. Weeks begin on Monday. Seasons are
those of the northern hemisphere, and winter 2022 begins in December 2022. "Two weeks ago" is the span of one week
around that day. "Since A" lasts until now. "After A", "before A", "until A" and "by A" name only one bound. Their span
is a week long, or as long as A if that is longer, because documents near A are wanted. "Recently" is no time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from functools import cache
from string import ascii_letters
from typing import NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import load_data_table

MAX_CHARS = 1_000
"""The maximum number of characters of a text that are read."""

_MINUTE = 60 * 1_000_000  # microseconds
_DAY = 86_400_000_000  # microseconds
# `dates.yaml` identifies each unit of time by its length in minutes.
_WEEK, _WEEKEND = 7 * 24 * 60, 2 * 24 * 60
_MONTHS = {43_200: 1, 131_040: 3, 525_600: 12}  # the months in a month, a quarter and a year
_EPOCH = date(1970, 1, 1).toordinal()
_MAX_MONTH = 12
_WORD_GAP = r"[\s\u2019'-]{1,2}"
"""The pattern between the words of a phrase."""


class TimeSpan(NamedTuple):
    """A time that a text names.

    Attributes:
        start: The first microsecond of the time, since 1970, UTC.
        end: The first microsecond after it.
        words: The words that name the time, in Unicode's form NFKC.
    """

    start: int
    end: int
    words: str


class _Time(NamedTuple):
    """A span of time.

    Attributes:
        start: Its first microsecond.
        end: The first microsecond after it.
        yearly: Returns the same time in another year. None if the text names the year.
    """

    start: int
    end: int
    yearly: Callable[[int], _Time] | None = None


_Yearly: TypeAlias = Callable[[int], _Time]
"""A function from a year to a time in it. It raises ValueError if the year has no such time, such as 29 February."""


class _Token(NamedTuple):
    """A word, number or mark of a text, or a time that replaces several tokens.

    `kind` and `value` come from `dates.yaml`. `start` and `end` are its position in the text.
    """

    kind: str
    value: int
    start: int
    end: int
    time: _Time = _Time(0, 0)


class _Table(NamedTuple):
    """The contents of `dates.yaml`.

    Attributes:
        words: The kind and the value of each word.
        letters: The letter of each kind of token in the patterns.
        token: The pattern of a token.
        passes: The pattern that finds times, and the pattern that combines times.
    """

    words: dict[str, tuple[str, int]]
    letters: dict[str, str]
    token: re.Pattern[str]
    passes: list[re.Pattern[str]]


@cache
def _load_table() -> _Table:
    table = load_data_table("search/dates.yaml")
    words = {
        word: (kind, value)
        for kind, values in table["words"].items()
        for value, word_list in values.items()
        for word in word_list.split()
    }
    kinds = [*table["words"], *table["tokens"], "time"]
    letters = dict(zip(kinds, ascii_letters, strict=False)) | {"space": " ", "foreign_word": "?"}

    def expand(template: str) -> str:  # replaces each {name} by the letter of that kind, or by that part
        spaced, parts = template.replace(" ", "{gap}"), table["parts"]
        return re.sub(r"{(\w+)}", lambda name: letters.get(name[1]) or f"(?:{expand(parts[name[1]])})", spaced)

    def any_of(patterns: dict[str, list[str]]) -> str:
        return "|".join(f"(?P<{name}>{'|'.join(alternatives)})" for name, alternatives in patterns.items())

    phrases = sorted((word for word in words if "-" in word or word[-1].isdigit()), key=len, reverse=True)
    phrase = rf"(?i:{'|'.join(phrases).replace('-', _WORD_GAP)})\b"
    passes = [re.compile(expand(f"{{start}}(?:{any_of(table[name])}){{end}}")) for name in ("times", "together")]
    return _Table(words, letters, re.compile(f"{phrase}|{any_of(table['tokens'])}|."), passes)


def find_times(text: str, now: int) -> list[TimeSpan]:
    """Return every time that a text names, in the order of the text.

    Args:
        text: Any text. The first 1,000 characters are read.
        now: The current time, to which "yesterday" refers, in microseconds since 1970, UTC.

    Returns:
        One span for each time. Spans that begin before 1900 or end after 2200 are omitted.
    """
    if len(text) > MAX_CHARS:
        text = " ".join(text[:MAX_CHARS].rsplit(None, 1)[:1])  # cut at a space, so that no number is cut
    text = unicodedata.normalize("NFKC", text)
    earliest, latest, _ = _days(date(1900, 1, 1), date(2200, 12, 31))
    if not earliest <= now < latest:
        return []
    tokens = _tokenize(text)
    for pattern in _load_table().passes:
        tokens = _replace_times(tokens, pattern, now)
    return [
        TimeSpan(token.time.start, token.time.end, text[token.start : token.end])
        for token in tokens
        if earliest <= token.time.start < token.time.end <= latest and token.kind == "time"
    ]


def _tokenize(text: str) -> list[_Token]:
    table = _load_table()
    tokens = []
    for match in table.token.finditer(text):
        part = match[0]
        word = part if len(part) == 1 or part.isalpha() else re.sub(_WORD_GAP, "-", part)
        default = (match.lastgroup or part, int(part) if part.isdecimal() else 0)
        kind, value = table.words.get(word) or table.words.get(word.lower(), default)
        tokens.append(_Token(kind, value, *match.span()))
    return tokens


def _replace_times(tokens: list[_Token], pattern: re.Pattern[str], now: int) -> list[_Token]:
    """Replace the tokens that a pattern matches with times."""
    letters = _load_table().letters
    result, position = list[_Token](), 0
    for match in pattern.finditer("".join(letters.get(token.kind, token.kind) for token in tokens)):
        matched = tokens[match.start() : match.end()]
        try:
            time = _READERS[match.lastgroup or ""](matched, now)
        except (ValueError, OverflowError):  # outside the calendar, such as 31 June or 9,999 years ago
            continue
        if time and time.start < time.end:
            result += [*tokens[position : match.start()], _Token("time", 0, matched[0].start, matched[-1].end, time)]
            position = match.end()
    return result + tokens[position:]


def _values(tokens: Sequence[_Token], *kinds: str) -> list[int]:
    """Return the values of the tokens whose kind begins with any of `kinds`, in order."""
    return [token.value for token in tokens if token.kind.startswith(kinds)]


def _count_range(tokens: Sequence[_Token]) -> tuple[int, int]:
    """Return the lowest and the highest count that the tokens can mean. Default: 1."""
    count = [1, *_values(tokens, "number", "other_number", "count")][-1]
    return (2, 5) if count < 0 else (count, count)  # -1 means "a few"


# -- the calendar --------------------------------------------------------------------------------------------------


def _date_at(moment: int) -> date:
    return date.fromordinal(_EPOCH + moment // _DAY)


def _days(first: date, last: date) -> _Time:
    return _Time((first.toordinal() - _EPOCH) * _DAY, (last.toordinal() - _EPOCH + 1) * _DAY)


def _day(moment: int, offset: int = 0) -> _Time:
    day = _date_at(moment + offset * _DAY)
    return _days(day, day)


def _months(year: int, month: int, count: int) -> _Time:
    """Return a span of months. Months below 1 or above 12 are in the years before or after."""
    first, end = (date(year + (number - 1) // 12, (number - 1) % 12 + 1, 1) for number in (month, month + count))
    return _Time(_days(first, first).start, _days(end, end).start)


def _yearly(months: Sequence[int], days: Sequence[int]) -> _Yearly:
    """Return a function from a year to these days of the month, or to a range of months."""
    if days:
        return lambda year: _days(date(year, months[0], days[0]), date(year, months[0], days[-1]))
    return lambda year: _months(year, date(year, months[0], 1).month, (months[-1] - months[0]) % 12 + 1)


def _times_near(time_in: _Yearly, now: int) -> list[_Time]:
    """Return a yearly time in each of the 8 years before and after now.

    The nearest 29 February may be eight years away.
    """
    times = []
    for year in range(_date_at(now).year - 8, _date_at(now).year + 9):
        with suppress(ValueError):
            times.append(time_in(year))
    return times


def _latest_time(time_in: _Yearly, now: int, *, ended: bool = False) -> _Time | None:
    return max((time for time in _times_near(time_in, now) if (time.end if ended else time.start) <= now), default=None)


def _next_time(time_in: _Yearly, now: int) -> _Time | None:
    return min((time for time in _times_near(time_in, now) if time.start > now), default=None)


def _weekday_by(moment: int, weekday: int) -> _Time:
    """Return the latest occurrence of a weekday that has begun by a moment."""
    return _day(moment, -((_date_at(moment).weekday() - weekday) % 7))


def _unit_around(now: int, unit: int, offset: int) -> _Time:
    """Return the week, weekend, month, quarter or year `offset` units after the current one."""
    today = _date_at(now)
    if count := _MONTHS.get(unit):
        return _months(today.year, (today.month - 1) // count * count + 1 + count * offset, count)
    monday = _day(now, 7 * offset - today.weekday()).start
    return _Time(monday + (5 * _DAY if unit == _WEEKEND else 0), monday + 7 * _DAY)


def _shift(moment: int, unit: int, count: int) -> int:
    """Return the start of the day `count` units away, or the exact time for units below a day.

    Moving by months keeps the day of the month, or uses the last day of a shorter month.
    """
    if unit == _WEEKEND:
        return _unit_around(moment, unit, count).start
    if months := _MONTHS.get(unit):
        day = _date_at(moment)
        month = _months(day.year, day.month + months * count, 1)
        return min(month.start + (day.day - 1) * _DAY, month.end - _DAY)
    return (moment if unit * _MINUTE < _DAY else _day(moment).start) + count * unit * _MINUTE


def _span_around(moment: int, unit: int, low: int, high: int) -> _Time:
    """Return the span from `low` to `high` units away, extended by half a unit on both sides.

    Negative units are in the past.
    """
    length = unit * _MINUTE
    half, day = (length // _DAY // 2 * _DAY, _DAY) if length >= _DAY else (length // 2, 0)
    return _Time(_shift(moment, unit, low) - half, _shift(moment, unit, high) + half + day)


# -- readers of times ----------------------------------------------------------------------------------------------
# Each function has the name of a list of patterns in `dates.yaml`. It converts the tokens of a match to a time.


def _numeric(tokens: Sequence[_Token], now: int) -> _Time | None:
    numbers = _values(tokens, "number")[:2]
    year_last = tokens[-1].kind == "year" and len(numbers) > 1
    if year_last and (numbers[0] > _MAX_MONTH or (tokens[1].kind != "/" and numbers[1] <= _MAX_MONTH)):
        numbers.reverse()  # 8.5.2023 begins with the day, 5/8/2023 with the month, unless the number exceeds 12
    return _resolve_year(_yearly(numbers[:1], numbers[1:]), tokens, now)


def _calendar(tokens: Sequence[_Token], now: int) -> _Time | None:
    months, days = _values(tokens, "month"), _values(tokens, "number")
    if season := _values(tokens, "season"):
        months = [season[0], season[0] + 2]
    if feast := _values(tokens, "feast"):
        months, days = [feast[0] // 100], [feast[0] % 100]
    return _resolve_year(_yearly(months, days), tokens, now)


def _resolve_year(time_in: _Yearly, tokens: Sequence[_Token], now: int) -> _Time | None:
    """Return a yearly time in the named year, or its last, this or next occurrence.

    By default, return the latest occurrence that has begun. A direction is -1 for "last", 0 for "this", 1 for "next".
    """
    year, direction = _values(tokens, "year"), _values(tokens, "direction")
    # The year is named by "2020", by "of last year" (only this form has a unit), or by "this May".
    if year or _values(tokens, "unit") or direction == [0]:
        return time_in(year[0] if year else _date_at(now).year + direction[-1])
    if direction:
        return _next_time(time_in, now) if direction == [1] else _latest_time(time_in, now, ended=True)
    time = _latest_time(time_in, now)
    return time and time._replace(yearly=time_in)


def _years(tokens: Sequence[_Token], _now: int) -> _Time:
    years = _values(tokens, "year")
    return _months(years[0], 1, 12 * (years[-1] - years[0] + 1 + sum(_values(tokens, "decade"))))


def _ago(tokens: Sequence[_Token], now: int) -> _Time:
    low, high = _count_range(tokens)
    return _span_around(now, _values(tokens, "unit")[0], -high, -low)


def _window(tokens: Sequence[_Token], now: int) -> _Time:
    (_, high), [unit], today = _count_range(tokens), _values(tokens, "unit"), _day(now)
    if _values(tokens, "direction") == [1]:
        return _Time(today.start, _shift(now, unit, high) + _DAY)
    return _Time(_shift(now, unit, -high), today.end)


def _unit(tokens: Sequence[_Token], now: int) -> _Time:
    return _unit_around(now, _values(tokens, "unit")[0], _values(tokens, "direction")[0])


def _weekday(tokens: Sequence[_Token], now: int) -> _Time:
    direction, [weekday] = _values(tokens, "direction"), _values(tokens, "weekday")
    if direction == [0]:
        now = _unit_around(now, _WEEK, 0).end - 1
    elif direction:
        now += 7 * _DAY if direction == [1] else -_DAY
    return _weekday_by(now, weekday)


def _today(tokens: Sequence[_Token], now: int) -> _Time:
    return _day(now, tokens[0].value)


# -- combinations of times -----------------------------------------------------------------------------------------


def _times(tokens: Sequence[_Token]) -> list[_Time]:
    return [token.time for token in tokens if token.kind == "time"]


def _between(tokens: Sequence[_Token], _now: int) -> _Time:
    """Return the span from one time to the end of another.

    A time without a year gets the nearest year that keeps the order.
    """
    first, last = _times(tokens)
    if first.yearly and not last.yearly:
        first = _latest_time(first.yearly, last.start) or first
    elif last.yearly and (not first.yearly or last.start < first.start):
        last = _next_time(last.yearly, first.start) or last
    return _Time(first.start, last.end)


def _next_to(tokens: Sequence[_Token], _now: int) -> _Time:
    """Return a time before or after another: "the week before A", or "two weeks before A".

    Without a number, the time is the adjacent unit, else a span of one unit around the day at that distance.
    """
    [(start, end, _)], before = _times(tokens), _values(tokens, "before") != []
    if weekday := _values(tokens, "weekday"):
        return _weekday_by(start - 1 if before else end - 1 + 7 * _DAY, weekday[0])
    [unit] = _values(tokens, "unit")
    if unit == _WEEKEND:
        return _unit_around(start - 7 * _DAY if before else end + _DAY, unit, 0)
    if _values(tokens, "number", "other_number", "count"):
        low, high = _count_range(tokens)
        return _span_around(start, unit, -high, -low) if before else _span_around(end - _DAY, unit, low, high)
    return _Time(_shift(start, unit, -1), start) if before else _Time(end, _shift(end, unit, 1))


def _within(tokens: Sequence[_Token], _now: int) -> _Time | None:
    """Return the week or weekend that contains a day."""
    [(start, end, _)] = _times(tokens)
    return _unit_around(start, tokens[0].value, 0) if end - start == _DAY else None


def _open(tokens: Sequence[_Token], now: int) -> _Time:
    """Return the span since, after, before, until or by a time."""
    [(start, end, _)] = _times(tokens)
    length = max(7 * _DAY, end - start)
    since = (start, max(end, now + 1))
    spans = {"after": (end, end + length), "before": (start - length, start), "until": (end - length, end)}
    return _Time(*spans.get(tokens[0].kind, since))


_FUNCTIONS = (_numeric, _calendar, _years, _ago, _window, _unit, _weekday, _today, _between, _next_to, _within, _open)
_READERS: dict[str, Callable[[Sequence[_Token], int], _Time | None]] = {read.__name__[1:]: read for read in _FUNCTIONS}
"""The function for each list of patterns, by the name of the list."""
