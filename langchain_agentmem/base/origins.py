"""The source and the actor of a memory, and the levels of trust in sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias, cast

from langchain_agentmem.base.argument_checks import parse_texts
from langchain_agentmem.errors import InvalidInput, safe_repr

SourceName: TypeAlias = Literal["user", "person", "model", "tool", "import"]
"""The source of a memory.

"user" is the user of the agent, and "person" is a person who maintains the memory. "import" marks memory imported from
another program.
"""
TrustLevel: TypeAlias = Literal["user", "person", "model", "tool", "import", "unknown"]
"""The levels of trust, the highest first. Each source is a level. A memory without a source has the level "unknown"."""
Trust: TypeAlias = "TrustLevel | Collection[str]"
"""The lowest trusted level, or a collection of the trusted levels."""

SOURCES: tuple[SourceName, ...] = ("user", "person", "model", "tool", "import")
TRUST_LEVELS: tuple[TrustLevel, ...] = (*SOURCES, "unknown")
"""The levels of trust, the highest first."""
UNKNOWN_SOURCE = "unknown"


def parse_trust(trust: Any) -> frozenset[str] | None:
    """Return the set of trusted levels, or None if `trust` is None.

    Args:
        trust: The lowest trusted level, a collection of the trusted levels, or None to trust all.

    Raises:
        InvalidInput: A level does not exist, or the collection is empty.
    """
    if trust is None:
        return None
    levels = parse_texts(trust, "Levels of trust")
    if not levels or not set(levels) <= set(TRUST_LEVELS):
        raise InvalidInput(f"trust must be one or more of {', '.join(TRUST_LEVELS)}, not {safe_repr(trust)}.")
    if isinstance(trust, str):
        return frozenset(TRUST_LEVELS[: TRUST_LEVELS.index(cast("TrustLevel", trust)) + 1])
    return frozenset(levels)


def trust_rank(source: str | None) -> int:
    """Return the rank of a source in the order of trust, 0 for the most trusted.

    An unknown source has the last rank.
    """
    return SOURCES.index(source) if source in SOURCES else len(SOURCES)


def describe_origin(source: str | None, actor: str | None) -> str:
    """Return a source and its actor as text, such as "tool web_search".

    The text is "" if the source is unknown.
    """
    return f"{source} {actor or ''}".strip() if source in SOURCES else ""
