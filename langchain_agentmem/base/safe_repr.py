"""Values as errors, logs and reports show them: briefly, safely, and without passwords.

`safe_repr` takes the place of `repr` for whatever a user, a file or a server gave. Its work is bounded however large or
deep a value is, and it calls no method of a foreign class. `mask_passwords` does the same for a text that may hold
the address of a database, and may be that address itself, however wrongly it is written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import FunctionType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

MASK = "***"
"""What stands in place of a password."""


def _preceded_by(word: str, words: str, sign: str = "<=") -> str:
    """Return a pattern of a word behind one of some others, or with `<!` behind none.

    The pattern begins with the word, which makes it fast.
    """
    lookbehinds = [f"(?{sign}{each}{gap}{word})" for each in words.split() for gap in ("", "[ _-]")]
    return f"{word}(?:{'|'.join(lookbehinds) if sign == '<=' else ''.join(lookbehinds)})"


SECRET_NAME = (
    r"(?=[pktsc_-])(?:(?P<password>passw(?:or)?d|passphrase|passcode|pwd|[_-]pass)"
    rf"|(?P<key>{_preceded_by('key', 'api access secret private auth account signing encryption')}"
    rf"|{_preceded_by('token', 'access refresh auth bearer session api')}|{_preceded_by('secret', 'client')})"
    rf"|(?P<vague>secret|{_preceded_by('token', 'next page continuation max min pad eos bos per', '<!')}|credentials?))"
    r"\d{0,4}"
)
"""The end of a name of a secret: `DB_PASSWORD`, `X-Api-Key`, `accessToken`. The vague ones have other meanings, too."""
SECRET_NAME_REGEX = re.compile(rf"(?i){SECRET_NAME}\Z")

MAX_CHARS = 200
"""Characters that are shown of a value unless more or fewer are asked for."""

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""They belong to the spelling of some languages, and to pictures that are made of several."""
_MAX_DEPTH = 4
_MAX_ITEMS = 8
_MAX_READ_CHARS = 4_000
"""Characters of a text that are looked at."""
_MAX_BITS = 256
"""Bits of the largest whole number that is written out."""

_LOGIN = re.compile(r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:\s]*:).*@", re.DOTALL)
"""All up to the last @: a password in which /, @, : or # was not escaped ends nowhere else."""
_CUT_LOGIN = re.compile(
    r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:/@\[\s]*:)(?=\S)(?!\*\*\*@|\d+(?:[/?,\s'\")]|$)).*", re.DOTALL
)
"""What stands where a port should: a password behind which the host is missing."""
_PARAMETER = re.compile(
    rf"(?is)(?P<before>{SECRET_NAME}\s{{0,8}}=\s{{0,8}}).+?(?=[\s&;]{{1,8}}(?:host|hostaddr|port|dbname|user|password|passfile"
    r"|options|service|application_name|connect_timeout|client_encoding|target_session_attrs|ssl\w{1,30}|gss\w{1,30}"
    r"|krb\w{1,30}|keepalives\w{0,30})\s{0,8}=|\Z)"
)
"""A value ends at the next parameter: an & in a password that was not escaped is no such place."""


def safe_repr(value: object, max_chars: int = MAX_CHARS) -> str:
    """Format a value for an error: like `repr`, but short and without passwords.

    The time is bounded.

    Args:
        value: Anything.
        max_chars: Approximate number of characters. Default: `MAX_CHARS`.

    Returns:
        Printable text on one line, with an ellipsis for each omission. For an object of a class that is
        not Python's own, the text names only the class.
    """
    text = _format_value(value, max_chars, _MAX_DEPTH)
    return text if len(text) <= max_chars + len("'…'") else f"{text[:max_chars]}…"


def format_count(number: float, noun: str) -> str:
    """Format a number with a plural noun: "1 thread", "1,203 entries", "2 branches"."""
    if number != 1:
        return f"{number:,} {noun}"
    for plural, singular in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if noun.endswith(plural):
            return f"{number:g} {noun.removesuffix(plural)}{singular}"
    return f"{number:g} {noun}"


def format_size(number: float) -> str:
    """Format a number of bytes: "812 B", "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - what makes a kilo
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def join_lines(text: str, max_chars: int) -> str:
    """Join a text into one line, cut to at most `max_chars` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= max_chars else joined[: max_chars - 1] + "…"


def escape_unprintable(text: str, *, lines: bool = False) -> str:
    """Replace control and invisible characters by their numbers.

    These are characters that a terminal would obey, or that cannot be seen.

    Args:
        text: Any text.
        lines: Keep tabs and line breaks. Default: False, they become spaces.
    """
    if text.isprintable():
        return text
    characters = []
    for each in text:
        if each in "\t\n":
            characters.append(each if lines else " ")
        elif unicodedata.category(each) in _INVISIBLE_CATEGORIES and each not in _JOINERS:
            characters.append(ascii(each)[1:-1])
        else:
            characters.append(each)
    return "".join(characters)


def mask_passwords(text: str) -> str:
    """Mask the passwords of database addresses in a text.

    Args:
        text: A path, a URL, a connection string `host=… password=…`, or the message of a driver.

    Returns:
        The text with `***` in place of each password, in a URL also where its characters were not escaped, and in
        place of parameters that are named like a secret. A text is cut to its first 4,000 characters.
    """
    text = text[:_MAX_READ_CHARS]
    if "=" in text:
        text = _PARAMETER.sub(rf"\g<before>{MASK}", text)
    if ":/" in text:
        text = _LOGIN.sub(rf"\g<before>{MASK}@", text)
        text = _CUT_LOGIN.sub(rf"\g<before>{MASK}", text)
    return text


_PLAIN_TYPES = frozenset({type(None), bool, float, complex, range, UUID, date, timedelta, Decimal})
_PATH_TYPES = frozenset({type(Path()), PurePosixPath, PureWindowsPath})
_ZONE_TYPES = frozenset({type(None), timezone, ZoneInfo})
_CONTAINERS: dict[type, tuple[Callable[[Any], Iterable[Any]], str]] = {
    list: (list.__iter__, "[{}]"),
    tuple: (tuple.__iter__, "({})"),
    set: (set.__iter__, "{{{}}}"),
    frozenset: (frozenset.__iter__, "frozenset({{{}}})"),
    dict: (dict.items, "{{{}}}"),
    BaseException: (BaseException.args.__get__, "{}"),  # type: ignore[attr-defined]  # a descriptor
}
_BARE_TYPES = frozenset({str, bytes, bytearray, int, *_CONTAINERS})


def _format_value(value: Any, max_chars: int, depth: int) -> str:
    """Format a value by its real class, with at most `depth` levels of containers.

    The class that the value claims to have is ignored.
    """
    kind = type(value)
    if kind in _PLAIN_TYPES or (kind in (datetime, time) and type(value.tzinfo) in _ZONE_TYPES):
        return repr(value)
    if issubclass(kind, type):
        return f"<class {_class_name(value)}>"
    if kind is FunctionType:
        return f"<function {value.__qualname__[:MAX_CHARS]}>"
    if kind in _PATH_TYPES:
        text = _format_text(str(value), max_chars)
    elif issubclass(kind, str):
        text = _format_text(str.__getitem__(value, slice(_MAX_READ_CHARS + 1)), max_chars)
    elif issubclass(kind, bytes | bytearray):
        text = f"b{_format_text(bytes(memoryview(value)[: _MAX_READ_CHARS + 1]).decode('latin-1'), max_chars)}"
    elif issubclass(kind, int):
        bits = int.bit_length(value)
        text = int.__repr__(value) if bits <= _MAX_BITS else f"<a whole number of {bits:,} bits>"
    elif family := next((each for each in _CONTAINERS if issubclass(kind, each)), None):
        read, template = _CONTAINERS[family]
        items = _format_items(read(value), max_chars, depth, _format_pair if family is dict else _format_value)
        if family is tuple and tuple.__len__(value) == 1:
            items += ","
        text = template.format(items) if items or family is not set else "set()"
    else:
        return f"<{_class_name(kind)} object>"
    return text if kind in _BARE_TYPES else f"{_class_name(kind).rpartition('.')[2]}({text})"


def _class_name(kind: type) -> str:
    """Return the name of a class, with its module if it is not Python's own.

    No method of a metaclass is called.
    """
    return type.__repr__(kind).removeprefix("<class '").removesuffix("'>")[-MAX_CHARS:]


def _format_text(text: str, max_chars: int) -> str:
    masked = mask_passwords(text)
    if len(masked) > max_chars:  # its end tells more than its middle, as of a path
        end = 0 if len(text) > _MAX_READ_CHARS else max_chars // 3
        masked = f"{masked[: max_chars - end]}…{masked[len(masked) - end :]}"
    return repr(masked)


def _format_items(items: Iterable[Any], max_chars: int, depth: int, write: Callable[[Any, int, int], str]) -> str:
    """Write the first items of a container, as long as there is room for them."""
    parts: list[str] = []
    for item in list(islice(items, _MAX_ITEMS + 1)):
        if len(parts) == _MAX_ITEMS or not depth or sum(map(len, parts)) > max_chars:
            parts.append("…")
            break
        parts.append(write(item, max_chars, depth - 1))
    return ", ".join(parts)


def _format_pair(item: tuple[Any, Any], max_chars: int, depth: int) -> str:
    key, value = item
    is_secret = value is not None and type(key) is str and SECRET_NAME_REGEX.search(key[:_MAX_READ_CHARS])
    return (
        f"{_format_value(key, max_chars, depth)}: {repr(MASK) if is_secret else _format_value(value, max_chars, depth)}"
    )
