"""The beginning of a text, never longer than was asked for, and never ending within what is read as one character."""

from __future__ import annotations

import unicodedata

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

MARK = "\u2026"
"""What stands where a text was cut."""

_NEAR = 40
"""How many characters before the end a blank is looked for."""

_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc"})


def truncated(text: str, max_chars: int, *, mark: str = MARK) -> str:
    """Cut a text that is too long: at a blank where one is near, and never within a character.

    Marks, joined emoji, flags, Korean syllables in parts, and surrogate pairs stay whole; where not even the first
    character fits, nothing is left.

    Args:
        text: Any text.
        max_chars: The most characters that the result may have, as `len` counts them; 0 or more.
        mark: What stands where it was cut. It is left out where it would take all the room. Default "…".

    Returns:
        The text itself, where it is short enough.

    Raises:
        InvalidInput: `max_chars` is no whole number, or negative.
    """
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < 0:
        raise InvalidInput(f"max_chars must be a whole number, 0 or more, not {safe_repr(max_chars)}.")
    if len(text) <= max_chars:
        return text
    if len(mark) >= max_chars:
        mark = ""
    end = _boundary(text, max_chars - len(mark))
    if not text[end].isspace():
        blank = next((at for at in range(end - 1, max(end // 2, end - _NEAR), -1) if text[at].isspace()), 0)
        end = blank or end
    return text[:end].rstrip() + mark


def _boundary(text: str, end: int) -> int:
    """The last place up to this one at which a character ends."""
    while 0 < end < len(text) and _is_within(text, end):
        end -= 1
    return end


def _is_within(text: str, at: int) -> bool:
    """Whether what stands before a place and what stands after it are read as one character."""
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return after == "\n" and before == "\r"
    return (
        unicodedata.category(after) in _MARKS
        or _JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colour of a skin
        or "\U000e0020" <= after <= "\U000e007f"  # the tags of a flag
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or ("\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\u11ff")
        or (_is_regional(after) and _regionals_before(text, at) % 2 == 1)
    )


def _is_regional(character: str) -> bool:
    """Whether it is one of the two letters of a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals_before(text: str, at: int) -> int:
    start = at
    while start and _is_regional(text[start - 1]):
        start -= 1
    return at - start
