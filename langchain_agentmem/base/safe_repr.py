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
from enum import Enum
from itertools import islice
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

HIDDEN = "***"
"""What stands in place of a password."""

SECRET_NAME = re.compile(
    r"(?i)(?:(?P<password>passw(?:or)?d|passphrase|passcode|pwd|[_-]pass)"
    r"|(?P<key>(?:api|access|secret|private|auth|account|signing|encryption)[ _-]?key"
    r"|(?:access|refresh|auth|bearer|session|api)[ _-]?token|client[ _-]?secret)"
    r"|(?P<vague>secret|token|credentials?))\d{0,4}\Z"
)
"""The end of a name of a secret: `DB_PASSWORD`, `X-Api-Key`, `accessToken`. The vague ones have other meanings, too."""

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
_PARAMETER = re.compile(r"(?P<name>[\w-]{1,80})\s{0,8}=\s{0,8}")
_NEXT = re.compile(
    r"[\s&;]{1,8}(?:host|hostaddr|port|dbname|user|password|passfile|options|service|application_name|connect_timeout"
    r"|client_encoding|target_session_attrs|ssl\w{1,30}|gss\w{1,30}|krb\w{1,30}|keepalives\w{0,30})\s{0,8}="
)
"""Where the value of a parameter ends: an & in a password that was not escaped is no such place."""

Write: TypeAlias = Callable[[Any, int, int], str]
"""Writes a value: with so many characters, and so many levels of containers."""


def safe_repr(value: object, most: int = MOST) -> str:
    """A value as an error shows it: like `repr`, but brief, in bounded time, and without passwords.

    Args:
        value: Anything.
        most: Characters, more or less. Default `MOST`.

    Returns:
        Printable text on one line, with an ellipsis where something was left out. Of an object of a class that is
        not Python's own, only the class is told.
    """
    text = _written(value, most, _DEEPEST)
    return text if len(text) <= most + len("'…'") else f"{text[:most]}…"


def counted(number: float, things: str) -> str:
    """A number of what is named as several: "1 thread", "1,203 entries", "2 branches"."""
    if number != 1:
        return f"{number:,} {things}"
    for several, one in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if things.endswith(several):
            return f"{number:g} {things.removesuffix(several)}{one}"
    return f"{number:g} {things}"


def size_of(number: float) -> str:
    """A number of bytes: "812 B", "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - what makes a kilo
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def one_line(text: str, most: int) -> str:
    """A text on one line, cut where it has more characters than that."""
    joined = " ".join(text.split())
    return joined if len(joined) <= most else joined[: most - 1] + "…"


def printable(text: str, *, lines: bool = False) -> str:
    """The text with characters that a terminal would obey, or that cannot be seen, as their numbers.

    Args:
        text: Any text.
        lines: Whether tabs and ends of lines stay as they are. Default: they become spaces.
    """
    if text.isprintable():
        return text
    return "".join(each if lines and each in "\t\n" else _shown(each) for each in text)


def _shown(character: str) -> str:
    if character in "\t\n":
        return " "
    if unicodedata.category(character) not in _UNSEEN or character in _JOINERS:
        return character
    return character.encode("ascii", "backslashreplace").decode() if character >= "\x80" else f"\\x{ord(character):02x}"


def without_passwords(text: str) -> str:
    """A text without the passwords in the addresses of databases that it holds.

    Args:
        text: A path, a URL, a connection string `host=… password=…`, or the message of a driver.

    Returns:
        The text with `***` in place of each password, in a URL also where its characters were not escaped, and in
        place of parameters that are named like a secret. Of a text of more than 4,000 characters only the beginning.
    """
    text = text[:_READ]
    if "=" in text:
        text = _without_parameters(text)
    if ":/" in text:
        text = _LOGIN.sub(rf"\g<before>{HIDDEN}@", text)
        text = _CUT_LOGIN.sub(rf"\g<before>{HIDDEN}", text)
    return text


def _without_parameters(text: str) -> str:
    parts: list[str] = []
    end = 0
    for parameter in _PARAMETER.finditer(text):
        start = parameter.end()
        if start < end or not SECRET_NAME.search(parameter["name"]):
            continue
        behind = _NEXT.search(text, start)
        stop = len(text) if behind is None else behind.start()
        if stop > start:
            parts += (text[end:start], HIDDEN)
            end = stop
    return "".join((*parts, text[end:]))


def _written(value: object, most: int, depth: int) -> str:
    kind = type(value)  # and not the class that an object says it is of
    if kind in _PLAIN or (kind in _TIMES and type(value.tzinfo) in _ZONES):  # type: ignore[attr-defined]  # it has one
        return repr(value)
    if kind in _PATHS:
        return f"{_name(kind)}({_text(str(value), most)})"
    for family, told in _TOLD:
        if issubclass(kind, family):
            return told(value)
    for family, write in _WRITTEN:
        if issubclass(kind, family):
            text = write(value, most, depth)
            return text if kind is family else f"{_name(kind)}({text})"
    return f"<{_full_name(kind)} object>"


def _text(value: Any, most: int, depth: int = 0) -> str:  # noqa: ARG001 - a text has no levels
    given = str.__getitem__(value, slice(_READ + 1))
    plain = without_passwords(given)
    if len(plain) > most:  # its end tells more than its middle, as of a path
        end = 0 if len(given) > _READ else most // 3
        plain = f"{plain[: most - end]}…{plain[len(plain) - end :]}"
    return repr(plain)


def _bytes(value: Any, most: int, depth: int) -> str:  # noqa: ARG001 - bytes have no levels
    text = bytes(memoryview(value)[: _READ + 1]).decode("latin-1")
    told = without_passwords(text)
    return repr(told[:most].encode("latin-1")) + ("…" if len(told) > most or len(text) > _READ else "")


def _list(value: Any, most: int, depth: int) -> str:
    return f"[{_items(list.__iter__(value), most, depth)}]"


def _tuple(value: Any, most: int, depth: int) -> str:
    return f"({_items(tuple.__iter__(value), most, depth)}{',' if tuple.__len__(value) == 1 else ''})"


def _set(value: Any, most: int, depth: int) -> str:
    return f"{{{_items(set.__iter__(value), most, depth)}}}" if set.__len__(value) else "set()"


def _frozenset(value: Any, most: int, depth: int) -> str:
    return f"frozenset({{{_items(frozenset.__iter__(value), most, depth)}}})"


def _dict(value: Any, most: int, depth: int) -> str:
    return f"{{{_some(dict.items(value), most, depth, _pair)}}}"


def _pair(item: tuple[object, object], most: int, depth: int) -> str:
    key, value = item
    named = str.__getitem__(key, slice(_READ)) if issubclass(type(key), str) else ""  # type: ignore[index]  # it is a str
    secret = value is not None and SECRET_NAME.search(named) is not None
    return f"{_written(key, most, depth)}: {repr(HIDDEN) if secret else _written(value, most, depth)}"


def _error(value: Any, most: int, depth: int) -> str:
    return _items(BaseException.args.__get__(value), most, depth)  # type: ignore[attr-defined]  # a descriptor


def _items(items: Iterable[object], most: int, depth: int) -> str:
    return _some(items, most, depth, _written)


def _some(items: Iterable[Any], most: int, depth: int, write: Write) -> str:
    """The first items of a container, as long as there is room for them."""
    told: list[str] = []
    room = most
    for number, item in enumerate(list(islice(items, _ITEMS + 1))):
        if number == _ITEMS or room < 0 or not depth:
            told.append("…")
            break
        told.append(write(item, most, depth - 1))
        room -= len(told[-1])
    return ", ".join(told)


def _whole_number(value: Any) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= _LARGE else f"<a whole number of {bits:,} bits>"


def _enum(value: Any) -> str:
    return f"{_name(type(value))}.{object.__getattribute__(value, '__dict__').get('_name_')}"


def _decimal(value: Any) -> str:
    return f"Decimal('{Decimal.__format__(value, '.28g')}')"


def _class(value: Any) -> str:
    return f"<class {_full_name(value)}>"


def _function(value: Any) -> str:
    return f"<function {value.__qualname__[:MOST]}>"


def _method(value: Any) -> str:
    function = value.__func__
    return _function(function) if type(function) is FunctionType else f"<method of {_full_name(type(value.__self__))}>"


def _name(kind: type) -> str:
    name: str = type.__dict__["__name__"].__get__(kind)
    return name[:MOST]


def _full_name(kind: type) -> str:
    module = type.__getattribute__(kind, "__module__")
    return f"{module[:MOST]}.{_name(kind)}" if issubclass(type(module), str) and module != "builtins" else _name(kind)


_PLAIN = frozenset({type(None), bool, float, complex, range, UUID, date, timedelta})
_PATHS = frozenset({PosixPath, WindowsPath, PurePosixPath, PureWindowsPath})
_TIMES = frozenset({datetime, time})
_ZONES = frozenset({type(None), timezone, ZoneInfo})
_TOLD: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Enum, _enum),
    (int, _whole_number),
    (type, _class),
    (FunctionType, _function),
    (BuiltinFunctionType, _function),
    (MethodType, _method),
    (Decimal, _decimal),
)
_WRITTEN: tuple[tuple[type, Write], ...] = (
    (str, _text),
    (list, _list),
    (tuple, _tuple),
    (dict, _dict),
    (set, _set),
    (frozenset, _frozenset),
    (bytes, _bytes),
    (bytearray, _bytes),
    (BaseException, _error),
)
