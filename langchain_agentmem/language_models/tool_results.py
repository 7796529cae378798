"""What a model is told of its memory: short text or JSON, in which nothing that was stored can pass for anything else.

What is told is data. Characters that steer a terminal or a reader, hide text, or turn it around are written as escapes,
and so are marks with which a model writes to its memory, so that quoting what was stored cannot do it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

PASSAGE = 1_000
"""How much of one text a list shows, in characters."""
MOST = 20_000
"""How long a list may be, in characters; what does not fit is counted."""

# Controls, what turns text around or hides it, halves of characters, private and tag characters.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)
_MARK = re.compile(r"<(?=[^\w<]*memory_)", re.IGNORECASE)


def told(value: Any) -> str:
    """Write a value for a model: a sentence as it is, anything else as JSON, on one line.

    Args:
        value: A text, or what JSON knows, or a value of this package.
    """
    if isinstance(value, str):
        return _MARK.sub("&lt;", _STEERING.sub(_escape, value))
    # Outside of its texts, JSON that is written on one line has none of these characters.
    text = json.dumps(plain(value), ensure_ascii=False)
    return _MARK.sub(r"\\u003c", _STEERING.sub(_escape, text))


def listed(name: str, values: Sequence[Any], **more: Any) -> dict[str, Any]:
    """A list of results under its name, as many as may be shown, and how many there are beyond.

    Args:
        name: What they are.
        values: The results, the most important first.
        more: What else is told of them; None is left out.
    """
    shown: list[Any] = []
    room = MOST
    for value in map(plain, values):
        room -= len(json.dumps(value, ensure_ascii=False))
        if room < 0 and shown:
            break
        shown.append(value)
    left_out = len(values) - len(shown)
    told_too = {"left_out": left_out or None, **more}
    return {name: shown, **{key: value for key, value in told_too.items() if value is not None}}


def passage(text: str, note: str = "", most: int = PASSAGE) -> str:
    """The beginning of a text.

    Args:
        text: Any text.
        note: What is said where it was cut.
        most: How much of it is shown, in characters.
    """
    return text if len(text) <= most else f"{text[:most]} … {note}".rstrip()


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if not each.name.startswith("_")}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFFFF:  # noqa: PLR2004 - what one escape can say
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
