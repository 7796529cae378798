"""How names are compared: of entities, and of predicates.

The rules are few and always give the same; nothing that could be another name is taken for this one. Whatever else
means the same is said by somebody: an alias.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

LONGEST = 2_000
"""Most characters of a subject, predicate or object."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HALVES = re.compile(r"[\ud800-\udfff]")
_SHORT = 100
"""Names up to so many characters are kept with their keys, of the last few thousand that were asked for."""


def name_of(value: Any, what: str) -> str:
    """A name that somebody gave, as it is kept: one line, without space around it.

    Args:
        value: What was given.
        what: What it names, for the error.

    Raises:
        InvalidInput: It is no text, says nothing, or is too long.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} of a fact is text, not {type(value).__name__}.")
    name = _SPACE.sub(" ", _HALVES.sub("\ufffd", value)).strip()
    if not entity_key(name):
        raise InvalidInput(f"{what} of a fact cannot be empty: {safe_repr(value)}.")
    if len(name) > LONGEST:
        raise InvalidInput(
            f"{what} of a fact has {len(name)} characters, and may have {LONGEST}. Keep long texts with add(), or in "
            "archival memory."
        )
    return name


def entity_key(name: str) -> str:
    """What an entity is compared by: case, kinds of space, quotes around it and a full stop after it do not count.

    Neither do characters that nobody sees.
    """
    return _key_of_short(name) if len(name) <= _SHORT else _key(name)


@lru_cache(maxsize=512)
def predicate_key(predicate: str) -> str:
    """What a predicate is compared by: "lives in", "LIVES_IN" and "livesIn" are one."""
    return entity_key(_HUMP.sub(" ", predicate).replace("_", " ").replace("-", " "))


def _key(name: str) -> str:
    if name.isascii() and name.replace(" ", "").isalnum() and "  " not in name:
        return name.strip().lower()  # what comes of the rest, sooner
    whole = _HALVES.sub("\ufffd", name)  # as it is kept
    seen = "".join(sign for sign in unicodedata.normalize("NFKC", whole) if unicodedata.category(sign) != "Cf")
    plain = _SPACE.sub(" ", seen).casefold().strip()
    bare = plain.strip(_QUOTES + " ").rstrip(".,;:!?").rstrip().strip(_QUOTES + " ")
    return unicodedata.normalize("NFKC", bare or plain)


_key_of_short = lru_cache(maxsize=8_192)(_key)
