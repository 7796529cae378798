"""Values as errors, logs and reports show them: briefly, safely, and without passwords.

`safe_repr` takes the place of `repr` for whatever a user, a file or a server gave. Its work is bounded however large or
deep a value is, and it calls no method of a foreign class. `without_passwords` does the same for a text that may hold
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

HIDDEN = "***"
"""What stands in place of a password."""


def _behind(word: str, before: str, sign: str = "<=") -> str:
    """Return a pattern of a word behind one of some others, or with `<!` behind none.

    The pattern begins with the word, which makes it fast.
    """
    behind = [f"(?{sign}{each}{gap}{word})" for each in before.split() for gap in ("", "[ _-]")]
    return f"{word}(?:{'|'.join(behind) if sign == '<=' else ''.join(behind)})"


NAMES = (
    r"(?=[pktsc_-])(?:(?P<password>passw(?:or)?d|passphrase|passcode|pwd|[_-]pass)"
    rf"|(?P<key>{_behind('key', 'api access secret private auth account signing encryption')}"
    rf"|{_behind('token', 'access refresh auth bearer session api')}|{_behind('secret', 'client')})"
    rf"|(?P<vague>secret|{_behind('token', 'next page continuation max min pad eos bos per', '<!')}|credentials?))"
    r"\d{0,4}"
)
"""The end of a name of a secret: `DB_PASSWORD`, `X-Api-Key`, `accessToken`. The vague ones have other meanings, too."""
SECRET_NAME = re.compile(rf"(?i){NAMES}\Z")

MOST = 200
"""Characters that are shown of a value unless more or fewer are asked for."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""They belong to the spelling of some languages, and to pictures that are made of several."""
_DEEPEST = 4
_ITEMS = 8
_READ = 4_000
"""Characters of a text that are looked at."""
_LARGE = 256
"""Bits of the largest whole number that is written out."""

_LOGIN = re.compile(r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:\s]*:).*@", re.DOTALL)
"""All up to the last @: a password in which /, @, : or # was not escaped ends nowhere else."""
_CUT_LOGIN = re.compile(
    r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:/@\[\s]*:)(?=\S)(?!\*\*\*@|\d+(?:[/?,\s'\")]|$)).*", re.DOTALL
)
"""What stands where a port should: a password behind which the host is missing."""
_PARAMETER = re.compile(
    rf"(?is)(?P<before>{NAMES}\s{{0,8}}=\s{{0,8}}).+?(?=[\s&;]{{1,8}}(?:host|hostaddr|port|dbname|user|password|passfile"
    r"|options|service|application_name|connect_timeout|client_encoding|target_session_attrs|ssl\w{1,30}|gss\w{1,30}"
    r"|krb\w{1,30}|keepalives\w{0,30})\s{0,8}=|\Z)"
)
"""A value ends at the next parameter: an & in a password that was not escaped is no such place."""


def safe_repr(value: object, most: int = MOST) -> str:
    """Format a value for an error: like `repr`, but short and without passwords.

    The time is bounded.

    Args:
        value: Anything.
        most: Approximate number of characters. Default: `MOST`.

    Returns:
        Printable text on one line, with an ellipsis for each omission. For an object of a class that is
        not Python's own, the text names only the class.
    """
    text = _written(value, most, _DEEPEST)
    return text if len(text) <= most + len("'…'") else f"{text[:most]}…"


def counted(number: float, things: str) -> str:
    """Format a number with a plural noun: "1 thread", "1,203 entries", "2 branches"."""
    if number != 1:
        return f"{number:,} {things}"
    for several, one in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if things.endswith(several):
            return f"{number:g} {things.removesuffix(several)}{one}"
    return f"{number:g} {things}"


def size_of(number: float) -> str:
    """Format a number of bytes: "812 B", "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - what makes a kilo
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def one_line(text: str, most: int) -> str:
    """Join a text into one line, cut to at most `most` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= most else joined[: most - 1] + "…"


def printable(text: str, *, lines: bool = False) -> str:
    """Replace control and invisible characters by their numbers.

    These are characters that a terminal would obey, or that cannot be seen.

    Args:
        text: Any text.
        lines: Keep tabs and line breaks. Default: False, they become spaces.
    """
    if text.isprintable():
        return text
    shown = []
    for each in text:
        if each in "\t\n":
            shown.append(each if lines else " ")
        elif unicodedata.category(each) in _UNSEEN and each not in _JOINERS:
            shown.append(ascii(each)[1:-1])
        else:
            shown.append(each)
    return "".join(shown)


def without_passwords(text: str) -> str:
    """Mask the passwords of database addresses in a text.

    Args:
        text: A path, a URL, a connection string `host=… password=…`, or the message of a driver.

    Returns:
        The text with `***` in place of each password, in a URL also where its characters were not escaped, and in
        place of parameters that are named like a secret. A text is cut to its first 4,000 characters.
    """
    text = text[:_READ]
    if "=" in text:
        text = _PARAMETER.sub(rf"\g<before>{HIDDEN}", text)
    if ":/" in text:
        text = _LOGIN.sub(rf"\g<before>{HIDDEN}@", text)
        text = _CUT_LOGIN.sub(rf"\g<before>{HIDDEN}", text)
    return text


_PLAIN = frozenset({type(None), bool, float, complex, range, UUID, date, timedelta, Decimal})
_PATHS = frozenset({type(Path()), PurePosixPath, PureWindowsPath})
_ZONES = frozenset({type(None), timezone, ZoneInfo})
_CONTAINERS: dict[type, tuple[Callable[[Any], Iterable[Any]], str]] = {
    list: (list.__iter__, "[{}]"),
    tuple: (tuple.__iter__, "({})"),
    set: (set.__iter__, "{{{}}}"),
    frozenset: (frozenset.__iter__, "frozenset({{{}}})"),
    dict: (dict.items, "{{{}}}"),
    BaseException: (BaseException.args.__get__, "{}"),  # type: ignore[attr-defined]  # a descriptor
}
_NAMELESS = frozenset({str, bytes, bytearray, int, *_CONTAINERS})


def _written(value: Any, most: int, depth: int) -> str:
    """Format a value by its real class, with at most `depth` levels of containers.

    The class that the value claims to have is ignored.
    """
    kind = type(value)
    if kind in _PLAIN or (kind in (datetime, time) and type(value.tzinfo) in _ZONES):
        return repr(value)
    if issubclass(kind, type):
        return f"<class {_name(value)}>"
    if kind is FunctionType:
        return f"<function {value.__qualname__[:MOST]}>"
    if kind in _PATHS:
        text = _text(str(value), most)
    elif issubclass(kind, str):
        text = _text(str.__getitem__(value, slice(_READ + 1)), most)
    elif issubclass(kind, bytes | bytearray):
        text = f"b{_text(bytes(memoryview(value)[: _READ + 1]).decode('latin-1'), most)}"
    elif issubclass(kind, int):
        bits = int.bit_length(value)
        text = int.__repr__(value) if bits <= _LARGE else f"<a whole number of {bits:,} bits>"
    elif family := next((each for each in _CONTAINERS if issubclass(kind, each)), None):
        read, form = _CONTAINERS[family]
        items = _items(read(value), most, depth, _pair if family is dict else _written)
        if family is tuple and tuple.__len__(value) == 1:
            items += ","
        text = form.format(items) if items or family is not set else "set()"
    else:
        return f"<{_name(kind)} object>"
    return text if kind in _NAMELESS else f"{_name(kind).rpartition('.')[2]}({text})"


def _name(kind: type) -> str:
    """Return the name of a class, with its module if it is not Python's own.

    No method of a metaclass is called.
    """
    return type.__repr__(kind).removeprefix("<class '").removesuffix("'>")[-MOST:]


def _text(given: str, most: int) -> str:
    plain = without_passwords(given)
    if len(plain) > most:  # its end tells more than its middle, as of a path
        end = 0 if len(given) > _READ else most // 3
        plain = f"{plain[: most - end]}…{plain[len(plain) - end :]}"
    return repr(plain)


def _items(items: Iterable[Any], most: int, depth: int, write: Callable[[Any, int, int], str]) -> str:
    """Write the first items of a container, as long as there is room for them."""
    shown: list[str] = []
    for item in list(islice(items, _ITEMS + 1)):
        if len(shown) == _ITEMS or not depth or sum(map(len, shown)) > most:
            shown.append("…")
            break
        shown.append(write(item, most, depth - 1))
    return ", ".join(shown)


def _pair(item: tuple[Any, Any], most: int, depth: int) -> str:
    key, value = item
    hidden = value is not None and type(key) is str and SECRET_NAME.search(key[:_READ])
    return f"{_written(key, most, depth)}: {repr(HIDDEN) if hidden else _written(value, most, depth)}"
