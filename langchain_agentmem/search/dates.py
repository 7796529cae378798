"""Which times a search query speaks of, so that what was said then can be ranked higher.

A query becomes a string of kinds, one character for each word or number (`tokens`). One pattern finds single times in
it ("last week", "3 May"), a second puts them together ("between A and B", "two weeks before A"). Both take linear time.
All is in UTC. To teach another time, add a pattern to `_TIMES` and its reader to `_READ`; another language is a matter
of more words in `dates.yaml`.

What a query leaves open is read as someone does who looks back: "in May" and "8 May" are the latest that have begun,
"Monday" the latest Monday, today included, and "last Monday" one before today. Weeks begin on Monday, seasons are those
of the northern half, and winter 2022 begins in December 2022. "Two weeks ago" is as long as its unit, around that day.
"Since A" lasts until now. After, before, until and by A are open, and what a search wants is near A: they reach a week
from it, or as long as A itself if that is more. "Recently" names no time, so it finds none.

The kinds of words stand in `dates.yaml`. Numbers have kinds too: `1` could be a day of a month, `4` a year, `0` is only
a count, `=` is two days ("3-9"), `#` a whole date ("2023-05-08") or years, `!` anything else, such as a price, a
version or a telephone number. `x` is "may" or "march" in lower case, `.` any other word, and `|` the end of a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from typing import NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import data_table

_TELLING = "MmWwSsHhtdknyequQ"
"""Kinds that name a time by themselves."""


def bare(word: str) -> str:
    """A word in lower case without its accents."""
    word = unicodedata.normalize("NFKD", word.lower())
    return "".join(character for character in word if not "\u0300" <= character <= "\u036f")


class Vocabulary(NamedTuple):
    """The words of `dates.yaml`.

    Attributes:
        kinds: Single words to their kind and number.
        phrases: What takes two to four words, likewise.
        telling: Without one of these and without a digit, a text names no time.
        sets: The other lists, by name.
        not_after: What some words do not name a day next to.
    """

    kinds: dict[str, tuple[str, int]]
    phrases: dict[tuple[str, ...], tuple[str, int]]
    telling: frozenset[str]
    sets: dict[str, frozenset[str]]
    not_after: dict[str, frozenset[str]]


@cache
def vocabulary() -> Vocabulary:
    """Read the words that name times, once."""
    table = data_table("search/dates.yaml")
    entries = {
        word: (kind, number)
        for kind, numbers in table.pop("kinds").items()
        for number, words in numbers.items()
        for word in words.split()
    }
    phrases = {tuple(word.split("-")): entry for word, entry in entries.items() if "-" in word[1:-1]}
    return Vocabulary(
        {word: entry for word, entry in entries.items() if tuple(word.split("-")) not in phrases},
        phrases,
        frozenset(bare(max(word.split("-"), key=len)) for word, (kind, _) in entries.items() if kind in _TELLING),
        not_after={word: frozenset(words.split()) for word, words in table.pop("not_after").items()},
        sets={name: frozenset(words.split()) for name, words in table.items()},
    )


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
    return days(_period_month(year, month))[0], days(_period_month(year, month + count))[0]


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
    first = _period_month(day.year, day.month + count * {"n": 1, "q": 3, "y": 12}[unit])
    last = _period_month(first.year, first.month + 1).toordinal() - 1
    return days(date.fromordinal(min(first.toordinal() + day.day - 1, last)))[0]


def weekday_near(now: int, weekday: int, step: int) -> Period:
    """A day of the week: 0 the latest, -1 the one before today, 1 the first after today."""
    today = date_at(now).toordinal()
    behind = (date_at(now).weekday() - weekday) % 7
    if step < 0:
        behind = behind or 7
    return days(date.fromordinal(today - behind + (7 if step > 0 else 0)))


def _period_month(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


LONGEST = 1_000
"""Characters of a query that are looked at."""

_WORD = re.compile(r"[^\W\d_]+|\d")
_DIGIT = re.compile(r"\d")
_TOKEN = re.compile(
    r"(\d{4})\s?[年년](?:\s?(\d{1,2})\s?[月월](?:\s?(\d{1,2})\s?[日号號일])?)?|(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号號일]"
    r"|(\d+(?:[.,:/\u2013-]\d+)*)([^\W\d_]*)"  # a number and what is written to it
    r"|[A-Za-z]+\d+|(?:[^\W\d_][\u0300-\u036f]*)+"
    r"|[\u2013\u2014]|(?<=\s)-(?=\s)"
)
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")
_MONTH_YEAR = re.compile(r"(\d{1,2})/(\d{4})")
_DAY_YEAR = re.compile(r"(\d{1,2}),(\d{4})")
_PAIR = re.compile(r"(\d{1,4})[-\u2013](\d{1,4})")
_NOT_BEFORE = frozenset("$€£¥#+@_/\\.:=~,*^<>'\u2019")
_NOT_AFTER = frozenset("%$€£¥°@_/\\*^=+")
_CURRENCIES = frozenset("$€£¥#")
_LABEL_GAPS = frozenset({" ", ". ", ".", "-", ": "})
_JOINS = frozenset({" ", ", ", "", ",", "'", "\u2019", "-"})
_MONTHS = (["M"], ["m"], ["x"], ["v"])
_TWO, _YEAR_DIGITS, _LAST_DAY, _MONTHS_OF_A_YEAR = 2, 4, 31, 12

Whole: TypeAlias = tuple[int | None, ...]


class Tokens(NamedTuple):
    """A query, taken apart.

    Attributes:
        kinds: One character each.
        numbers: What each stands for: a month, an offset, a day, a year, a count.
        words: Each in lower case.
        starts: Where each begins in the text.
        ends: Where each ends.
        whole: By position, dates in one piece: year, month and day, where what is not said is None; or two years, or
            two days of a month.
    """

    kinds: list[str]
    numbers: list[int]
    words: list[str]
    starts: list[int]
    ends: list[int]
    whole: dict[int, Whole]


def names_a_time(text: str) -> bool:
    """Whether a text could name a time at all: quick, and often wrong about yes."""
    if _DIGIT.search(text):
        return True
    return not vocabulary().telling.isdisjoint(_WORD.findall(text.lower() if text.isascii() else bare(text)))


def tokens(text: str) -> Tokens:
    """Take a text apart."""
    found = Tokens([], [], [], [], [], {})
    matches = list(_TOKEN.finditer(text))
    words = [match[0].lower() for match in matches]
    skip_to = 0
    for i, match in enumerate(matches):
        if i < skip_to:
            continue
        start, end = match.span()
        if found.kinds and (gap := text[found.ends[-1] : start]) not in _JOINS and _is_break(gap, found):
            _add(found, "|", 0, "", start, start)
        if match[6]:  # digits
            _add_number(found, match, text, words[i + 1] if i + 1 < len(words) else "")
        elif match[1] or match[4]:
            parts = match.group(1, 2, 3) if match[1] else (None, *match.group(4, 5))
            found.whole[len(found.kinds)] = tuple(int(part) if part else None for part in parts)
            _add(found, "#", 0, match[0], start, end)
        else:
            kind, number, length = _word(words, i, match[0])
            skip_to = i + length
            _add(found, kind, number, words[i], start, matches[skip_to - 1].end())
    return found


def _word(words: list[str], i: int, written: str) -> tuple[str, int, int]:
    """The kind and number of a word, and how many words it takes."""
    known, word = vocabulary(), words[i]
    if not word.isascii():
        word = unicodedata.normalize("NFC", word)
        word = word if word in known.kinds else bare(word)
    for length in (4, 3, 2):
        phrase = tuple(map(bare, words[i : i + length]))
        if phrase in known.phrases:
            return *known.phrases[phrase], len(phrase)
    kind, number = known.kinds.get(word, (".", 0))
    if word in known.sets["verbs"] and kind == "m":
        if i + 1 < len(words) and words[i + 1] in known.sets["no_month_before"]:
            kind = "."
        elif not written.istitle():
            kind = "x"
    elif word in known.not_after and (word != written or _is_other_word(word, words, i)):
        kind = "."
    return kind, number, 1


def _is_other_word(word: str, words: list[str], i: int) -> bool:
    others = vocabulary().not_after[word]
    if word == "hier":  # what language this is, any word may tell
        return not others.isdisjoint(words)
    return i > 0 and words[i - 1] in others


def _is_break(gap: str, found: Tokens) -> bool:
    """Whether what lies between two words ends a sentence or a part of it."""
    marks = gap.strip(" \t\r\n\xa0,'\u2019-\u2013\u2014")
    if marks != ".":
        return bool(marks)
    return found.kinds[-1] not in "1mvwz"  # "8. Mai", "Aug. 8"


def _add(found: Tokens, kind: str, number: int, word: str, start: int, end: int) -> None:
    found.kinds.append(kind)
    found.numbers.append(number)
    found.words.append(word)
    found.starts.append(start)
    found.ends.append(end)


def _add_number(found: Tokens, match: re.Match[str], text: str, following: str) -> None:
    digits, suffix = match.group(6, 7)
    start, end = match.span()
    month_before = found.kinds[-1:] in _MONTHS and found.ends[-1] >= start - 2
    if _is_something_else(found, text, start, end, month_before=month_before):
        kind, number, whole = "!", 0, None
    elif month_before and not suffix and (pair := _DAY_YEAR.fullmatch(digits)) and _is_year(int(pair[2])):
        _add(found, "1", int(pair[1]), digits, start, start + pair.end(1))
        kind, number, whole = "4", int(pair[2]), None
        start += pair.start(2)
    elif suffix:
        kind, number, whole = _with_suffix(digits, suffix.lower())
        end -= suffix in "tTzZ"  # where a time of day begins
    else:
        kind, number, whole = _bare_number(digits, following)
    if whole:
        found.whole[len(found.kinds)] = whole
    _add(found, kind, number, digits, start, end)


def _with_suffix(digits: str, suffix: str) -> tuple[str, int, Whole | None]:
    if digits.isdecimal() and suffix in vocabulary().sets["ordinals"]:
        kind, number, _ = _bare_number(digits, "")
        return ("1", number, None) if kind == "1" else ("!", 0, None)
    if suffix == "s" and re.fullmatch(r"\d{3}0", digits) and _is_year(int(digits)):
        return "#", 0, (int(digits), int(digits) + 9)
    if suffix in "tz" and (whole := numeric(digits)):
        return "#", 0, whole
    return "!", 0, None


def _bare_number(digits: str, following: str) -> tuple[str, int, Whole | None]:
    if not digits.isdecimal():
        whole = numeric(digits)
        if whole is None:
            return "!", 0, None
        return ("=" if (whole[0] or 0) <= _LAST_DAY and len(whole) == _TWO else "#"), 0, whole
    number = int(digits) if len(digits) <= _YEAR_DIGITS else 0
    if len(digits) == _YEAR_DIGITS and _is_year(number) and following not in vocabulary().sets["counted"]:
        return "4", number, None
    if 1 <= number <= _LAST_DAY and len(digits) <= _TWO:
        return "1", number, None
    return ("0" if number else "!"), number, None


def _is_something_else(found: Tokens, text: str, start: int, end: int, *, month_before: bool) -> bool:
    """Whether a number is part of a price, a name, an address or the like."""
    far, near = text[start - 2 : start - 1] if start > 1 else "", text[start - 1 : start]
    after, beyond = text[end : end + 1], text[end + 1 : end + 2]
    dated = month_before or found.kinds[-1:] == ["Q"]
    labels = vocabulary().sets["labels"]
    return (
        (near in _NOT_BEFORE and not (dated and near in "./"))
        or (near == "-" and not month_before and far.strip() != "")  # GPT-4
        or (near.isalnum() and near.isascii())
        or after in _NOT_AFTER
        or (after == "." and beyond.isalpha() and end - start > _TWO)  # a file's name, but not "8.Mai"
        or (near == " " and far in _CURRENCIES)
        or (after == " " and beyond in _CURRENCIES)
        or (found.words != [] and found.words[-1] in labels and text[found.ends[-1] : start] in _LABEL_GAPS)
    )


def numeric(digits: str) -> Whole | None:
    """Year, month and day of a date in digits, or two years, or two days of a month; None for any other number."""
    if match := _YEAR_FIRST.fullmatch(digits):
        year, month, day = int(match[1]), int(match[3]), match[4]
        if day is None and (match[2] == "." or len(match[3]) == 1):
            return None
        parts: Whole = (year, month, int(day) if day else None)
    elif match := _YEAR_LAST.fullmatch(digits):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        month_first = second > _MONTHS_OF_A_YEAR or (match[2] == "/" and first <= _MONTHS_OF_A_YEAR)
        parts = (year, first, second) if month_first else (year, second, first)
    elif match := _MONTH_YEAR.fullmatch(digits):
        parts = (int(match[2]), int(match[1]), None)
    elif match := _PAIR.fullmatch(digits):
        low, high = int(match[1]), int(match[2])
        days = low >= 1 and high <= _LAST_DAY
        return (low, high) if low < high and (days or (_is_year(low) and _is_year(high))) else None
    else:
        return None
    return parts if _is_year(parts[0] or 0) and _is_date(parts) else None


def _is_date(parts: Whole) -> bool:
    year, month, day = parts
    try:
        date(year or 1, month or 1, day or 1)
    except ValueError:
        return False
    return month != 0 and day != 0


def _is_year(number: int) -> bool:
    return FIRST_YEAR <= number <= LAST_YEAR


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
            return at(date_at(now).year + _direction(cut, where)), None
    if any(cut.kinds[i] in "LTXl" for i in where):
        step = _direction(cut, where)
        if step == 0:
            return at(date_at(now).year), None
        return (latest(at, now, ended=True) if step < 0 else following(at, now)), None
    return latest(at, now), at


def _direction(cut: Tokens, where: range) -> int:
    return next((cut.numbers[i] for i in where if cut.kinds[i] in "LTXl"), 0)


def number_of(cut: Tokens, where: range, kinds: str) -> int:
    """What the first token of these kinds stands for."""
    return next(cut.numbers[i] for i in where if cut.kinds[i] in kinds)


def _date(cut: Tokens, where: range, now: int) -> _Reading:
    month = number_of(cut, where, "Mmxva")
    said = [day for i in where for day in _days_of(cut, i)]
    return _any_year(yearly_days(month, said[0], said[-1]), cut, where, now)


def _days_of(cut: Tokens, i: int) -> tuple[int, ...]:
    if cut.kinds[i] == "=":
        return tuple(day or 0 for day in cut.whole[i])
    return (cut.numbers[i],) if cut.kinds[i] == "1" else ()


def _whole(cut: Tokens, where: range, now: int) -> _Reading:
    parts = cut.whole[where[0]]
    if len(parts) == 2:  # noqa: PLR2004 - two years
        return years(parts[0] or 0, parts[1] or 0), None
    year, month, day = parts
    if year is None:
        at = yearly_days(month or 0, day or 0, day or 0)
        return latest(at, now), at
    if month is None:
        return years(year, year), None
    return (months(year, month) if day is None else yearly_days(month, day, day)(year)), None


def _month(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(yearly_months(number_of(cut, where, "Mmx"), 1), cut, where, now)


def _quarter(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(yearly_months(number_of(cut, where, "Q") * 3 - 2, 3), cut, where, now)


def _season(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(yearly_months(number_of(cut, where, "Ss") * 3 + 3, 3), cut, where, now)


def _feast(cut: Tokens, where: range, now: int) -> _Reading:
    return _any_year(yearly_feast(number_of(cut, where, "Hh")), cut, where, now)


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
        return (now - int((high + half) * MINUTE), now - int((low - half) * MINUTE)), None
    return around(now, unit, -high, -low), None


def _rolling(cut: Tokens, where: range, now: int) -> _Reading:
    unit, _, high = counted(cut, where)
    today = days(date_at(now))
    if cut.kinds[where[0]] == "X":
        return (today[0], shifted(now, unit, high) + DAY) if unit != "u" else None, None
    if unit == "u":
        return (now - high * MINUTE, now + 1), None
    return (shifted(now, unit, -high), today[1]), None


def _unit(cut: Tokens, where: range, now: int) -> _Reading:
    unit = next(cut.kinds[i] for i in where if cut.kinds[i] in "knyeq")
    return unit_around(now, unit, _direction(cut, where)), None


def _weekday(cut: Tokens, where: range, now: int) -> _Reading:
    weekday = number_of(cut, where, "Ww")
    if any(cut.kinds[i] == "T" for i in where):
        return around(unit_around(now, "k", 0)[0], "d", weekday, weekday), None
    return weekday_near(now, weekday, _direction(cut, where)), None


def _day(cut: Tokens, where: range, now: int) -> _Reading:
    offset = cut.numbers[where[0]]
    return around(now, "d", offset, offset), None


def _year(cut: Tokens, where: range, _: int) -> _Reading:
    """A number by itself is a year if nothing tells that it counts something."""
    i = where[0]
    year, before = cut.numbers[i], cut.kinds[i - 1] if i else "|"
    after = cut.kinds[i + 1] if i + 1 < len(cut.kinds) else "|"
    among_numbers = after in "01!=" or before in "01!="  # as in a telephone number
    counts = before not in "poCFBUYfby>&LTX" and after == "." and _is_counted(cut.words[i + 1], year)
    return (None if among_numbers or counts else years(year, year)), None


def _is_counted(word: str, year: int) -> bool:
    plural = word.endswith("s") and not word.endswith("ss") and word not in vocabulary().sets["no_plural"]
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


_EARLIEST, _LATEST = years(FIRST_YEAR, LAST_YEAR)
_REACH = 7 * DAY  # of what is open at one end


class TimeSpan(NamedTuple):
    """A time that a query names.

    Attributes:
        start: Its first microsecond since 1970, UTC.
        end: The first microsecond after it.
        words: The words that said so.
    """

    start: int
    end: int
    words: str


def spans(text: str, now: int) -> list[TimeSpan]:
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
        TimeSpan(*time.period, text[cut.starts[time.first] : cut.ends[time.last]])
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
        year = date_at(end[0]).year
        start = one.yearly(year) or start
        if start[0] > end[0]:
            start = one.yearly(year - 1) or start
    elif two.yearly:
        year = date_at(start[0]).year
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
        return weekday_near(start if before else end - 1, number_of(cut, where, "Ww"), -1 if before else 1)
    unit = next(cut.kinds[i] for i in where if cut.kinds[i] in "dknye")
    if unit == "e":
        weekend = unit_around(start, "e", 0)
        passed = weekend[1] <= start if before else weekend[0] >= end
        return weekend if passed else unit_around(start, "e", -1 if before else 1)
    if any(cut.kinds[i] in "c10ij" for i in where):
        _, low, high = counted(cut, where)
        return around(start, unit, -high, -low) if before else around(end - DAY, unit, low, high)
    return (shifted(start, unit, -1), start) if before else (end, shifted(end, unit, 1))


def _within(time: Time, unit: str) -> Period | None:
    """The week or weekend of a day."""
    start, end = time.period
    return unit_around(start, unit, 0) if end - start == DAY else None


def _open(time: Time, kind: str, now: int) -> Period | None:
    """Since, after, before, until or by a time."""
    start, end = time.period
    reach = max(_REACH, end - start)
    if kind == "C":
        return (start, max(end, now + 1)) if start <= now else None
    if kind == "F":
        return end, end + reach
    return (start - reach, start) if kind in "BV" else (end - reach, end)
