"""Representations of values for errors, logs and reports: short, safe, and without passwords.

Use `safe_repr` instead of `repr` for values from a user, a file or a server. Its time is bounded, however large or deep
the value is. It calls no method that a class outside Python itself defines. `mask_passwords` masks the passwords of
database addresses in a text, even if an address is malformed.
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

from langchain_agentmem.base.lazy_imports import lazy_pattern

MASK = "***"
"""The replacement for a password."""


def _preceded_by(word: str, words: str, sign: str = "<=") -> str:
    """Return a pattern for a word after one of `words`; with sign "<!", after none of them.

    The pattern begins with the word and then looks back, because such a pattern is fast.
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
"""The end of the name of a secret: `DB_PASSWORD`, `X-Api-Key`, `accessToken`. Vague names can have other meanings."""
SECRET_NAME_REGEX = lazy_pattern(rf"(?i){SECRET_NAME}\Z")

MAX_CHARS = 200
"""The approximate maximum length of a representation, in characters."""

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""Invisible characters that some languages and combined emoji require."""
_MAX_DEPTH = 4  # levels of containers
_MAX_ITEMS = 8  # of one container
_MAX_READ_CHARS = 4_000
"""The number of characters that are examined at the start of a text."""
_MAX_BITS = 256
"""The maximum size in bits of a whole number that is shown in full."""

_LOGIN = re.compile(r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:\s]*:).*@", re.DOTALL)
"""A login in a URL. The match ends at the last @ of the text, since passwords may contain an unescaped /, @, : or #."""
_CUT_LOGIN = re.compile(
    r"(?P<before>\b(?!file:)[A-Za-z][\w+.-]{0,30}:/+[^:/@\[\s]*:)(?=\S)(?!\*\*\*@|\d+(?:[/?,\s'\")]|$)).*", re.DOTALL
)
"""A login in a URL without the @ and the host. The text after the colon is a password, unless it is a port."""
_PARAMETER = lazy_pattern(
    rf"(?is)(?P<before>{SECRET_NAME}\s{{0,8}}=\s{{0,8}}).+?(?=[\s&;]{{1,8}}(?:host|hostaddr|port|dbname|user|password|passfile"
    r"|options|service|application_name|connect_timeout|client_encoding|target_session_attrs|ssl\w{1,30}|gss\w{1,30}"
    r"|krb\w{1,30}|keepalives\w{0,30})\s{0,8}=|\Z)"
)
"""A connection parameter that holds a secret. Its value ends at the next known parameter, so it may contain &."""


def safe_repr(value: object, max_chars: int = MAX_CHARS) -> str:
    """Format a value like `repr`, but short, without passwords, and in bounded time.

    Args:
        value: Any object.
        max_chars: Approximate number of characters. Default: `MAX_CHARS`.

    Returns:
        Printable text on one line with an ellipsis for each omission. Texts, bytes, integers, containers and exceptions
        are shown with their content, and so are instances of their subclasses. Simple objects of Python, such as dates
        and paths, are shown like `repr`. Of any other object, only the name of its class is shown.
    """
    text = _format_value(value, max_chars, _MAX_DEPTH)
    return text if len(text) <= max_chars + len("'…'") else f"{text[:max_chars]}…"


def format_count(number: float, noun: str) -> str:
    """Format a number with a noun: "1 thread", "1,203 entries", "2 branches".

    Pass the plural of the noun. For 1, it is converted to the singular.
    """
    if number != 1:
        return f"{number:,} {noun}"
    for plural, singular in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if noun.endswith(plural):
            return f"{number:g} {noun.removesuffix(plural)}{singular}"
    return f"{number:g} {noun}"


def format_size(number: float) -> str:
    """Format a number of bytes in decimal units: "812 B", "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - the factor of the next unit
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def join_lines(text: str, max_chars: int) -> str:
    """Join the lines of a text, and cut the result to at most `max_chars` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= max_chars else joined[: max_chars - 1] + "…"


def escape_unprintable(text: str, *, lines: bool = False) -> str:
    """Replace control characters and invisible characters with their escape sequences.

    Joiners are kept, because some languages and emoji require them.

    Args:
        text: Any text.
        lines: True to keep tabs and newlines. False replaces them with spaces. Default: False.
    """
    if text.isprintable():
        return text
    chars = []
    for each in text:
        if each in "\t\n":
            chars.append(each if lines else " ")
        elif unicodedata.category(each) in _INVISIBLE_CATEGORIES and each not in _JOINERS:
            chars.append(ascii(each)[1:-1])
        else:
            chars.append(each)
    return "".join(chars)


def mask_passwords(text: str) -> str:
    """Mask the passwords of database addresses in a text.

    Args:
        text: A path, a URL, a connection string `host=… password=…`, or the message of a driver.

    Returns:
        The first 4,000 characters of the text, with `***` in place of each password. The value of each parameter with
        the name of a secret is also masked. A password in a URL is masked even if its characters are not escaped.
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
"""The containers, each with the function that reads its items, and the template of its representation."""
_BARE_TYPES = frozenset({str, bytes, bytearray, int, *_CONTAINERS})
"""The types whose values are shown without the name of the type."""


def _format_value(value: Any, max_chars: int, depth: int) -> str:
    """Format a value by its real type, with at most `depth` levels of containers.

    The attribute `__class__` of the value is ignored.
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
    elif container := next((each for each in _CONTAINERS if issubclass(kind, each)), None):
        read_items, template = _CONTAINERS[container]
        items = _format_items(read_items(value), max_chars, depth, _format_pair if container is dict else _format_value)
        if container is tuple and tuple.__len__(value) == 1:
            items += ","
        text = template.format(items) if items or container is not set else "set()"
    else:
        return f"<{_class_name(kind)} object>"
    return text if kind in _BARE_TYPES else f"{_class_name(kind).rpartition('.')[2]}({text})"


def _class_name(kind: type) -> str:
    """Return the name of a class, with its module if it is not a builtin.

    No method of a metaclass is called.
    """
    return type.__repr__(kind).removeprefix("<class '").removesuffix("'>")[-MAX_CHARS:]


def _format_text(text: str, max_chars: int) -> str:
    masked = mask_passwords(text)
    if len(masked) > max_chars:  # the end of a path is more useful than its middle
        end_chars = 0 if len(text) > _MAX_READ_CHARS else max_chars // 3
        masked = f"{masked[: max_chars - end_chars]}…{masked[len(masked) - end_chars :]}"
    return repr(masked)


def _format_items(items: Iterable[Any], max_chars: int, depth: int, format_item: Callable[[Any, int, int], str]) -> str:
    """Format the first items of a container.

    An ellipsis replaces the items after `_MAX_ITEMS` items or `max_chars` characters, and all items at depth 0.
    """
    parts: list[str] = []
    for item in list(islice(items, _MAX_ITEMS + 1)):
        if len(parts) == _MAX_ITEMS or not depth or sum(map(len, parts)) > max_chars:
            parts.append("…")
            break
        parts.append(format_item(item, max_chars, depth - 1))
    return ", ".join(parts)


def _format_pair(item: tuple[Any, Any], max_chars: int, depth: int) -> str:
    key, value = item
    is_secret = value is not None and type(key) is str and SECRET_NAME_REGEX.search(key[:_MAX_READ_CHARS])
    text = repr(MASK) if is_secret else _format_value(value, max_chars, depth)
    return f"{_format_value(key, max_chars, depth)}: {text}"
