"""A query as a string of kinds, one character for each word or number (see `date_words`), and what each stands for.

Numbers have kinds too: `1` could be a day of a month, `4` a year, `0` is only a count, `=` is two days ("3-9"), `#` a
whole date ("2023-05-08") or years, `!` anything else, such as a price, a version or a telephone number. `x` is "may" or
"march" in lower case, `.` any other word, and `|` the end of a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from typing import NamedTuple, TypeAlias

from langchain_agentmem.search.date_periods import FIRST_YEAR, LAST_YEAR
from langchain_agentmem.search.date_words import (
    COUNTED,
    KINDS,
    LABELS,
    NO_MONTH_BEFORE,
    NOT_AFTER,
    ORDINALS,
    PHRASE_STARTS,
    PHRASES,
    TELLING,
    VERBS,
    bare,
)

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
    return not TELLING.isdisjoint(_WORD.findall(text.lower() if text.isascii() else bare(text)))


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
    word = words[i]
    if not word.isascii():
        word = unicodedata.normalize("NFC", word)
        word = word if word in KINDS else bare(word)
    if word in PHRASE_STARTS:
        for length in (4, 3, 2):
            phrase = tuple(map(bare, words[i : i + length]))
            if phrase in PHRASES:
                return *PHRASES[phrase], len(phrase)
    kind, number = KINDS.get(word, (".", 0))
    if word in VERBS and kind == "m":
        if i + 1 < len(words) and words[i + 1] in NO_MONTH_BEFORE:
            kind = "."
        elif not written.istitle():
            kind = "x"
    elif word in NOT_AFTER and (word != written or _is_other_word(word, words, i)):
        kind = "."
    return kind, number, 1


def _is_other_word(word: str, words: list[str], i: int) -> bool:
    if word == "hier":  # what language this is, any word may tell
        return not NOT_AFTER[word].isdisjoint(words)
    return i > 0 and words[i - 1] in NOT_AFTER[word]


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
    if digits.isdecimal() and suffix in ORDINALS:
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
    if len(digits) == _YEAR_DIGITS and _is_year(number) and following not in COUNTED:
        return "4", number, None
    if 1 <= number <= _LAST_DAY and len(digits) <= _TWO:
        return "1", number, None
    return ("0" if number else "!"), number, None


def _is_something_else(found: Tokens, text: str, start: int, end: int, *, month_before: bool) -> bool:
    """Whether a number is part of a price, a name, an address or the like."""
    far, near = text[start - 2 : start - 1] if start > 1 else "", text[start - 1 : start]
    after, beyond = text[end : end + 1], text[end + 1 : end + 2]
    dated = month_before or found.kinds[-1:] == ["Q"]
    return (
        (near in _NOT_BEFORE and not (dated and near in "./"))
        or (near == "-" and not month_before and far.strip() != "")  # GPT-4
        or (near.isalnum() and near.isascii())
        or after in _NOT_AFTER
        or (after == "." and beyond.isalpha() and end - start > _TWO)  # a file's name, but not "8.Mai"
        or (near == " " and far in _CURRENCIES)
        or (after == " " and beyond in _CURRENCIES)
        or (found.words != [] and found.words[-1] in LABELS and text[found.ends[-1] : start] in _LABEL_GAPS)
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
