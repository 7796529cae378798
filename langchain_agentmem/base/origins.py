"""The source and the actor of a memory, and the trust in sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias, cast

from langchain_agentmem.base.argument_checks import parse_texts
from langchain_agentmem.errors import InvalidInput, safe_repr

SourceName: TypeAlias = Literal["user", "person", "model", "tool", "import"]
"""The source of a memory: the user of the agent, a person who maintains the memory, a model, a tool, or the memory of
another program."""
TrustLevel: TypeAlias = Literal["user", "person", "model", "tool", "import", "unknown"]
"""The levels of trust, the most trusted first. Each source is a level; a memory without a source is "unknown"."""
Trust: TypeAlias = "TrustLevel | Collection[str]"
"""The lowest trusted level, or the set of trusted sources."""

SOURCES: tuple[SourceName, ...] = ("user", "person", "model", "tool", "import")
TRUST_LEVELS: tuple[TrustLevel, ...] = (*SOURCES, "unknown")
"""The levels of trust, the highest first."""
UNKNOWN_SOURCE = "unknown"


def parse_trust(trust: Any) -> frozenset[str] | None:
    """Return the trusted sources; None for all.

    Args:
        trust: A level, which includes all levels above it; or the trusted sources; or None.

    Raises:
        InvalidInput: A level or source is unknown.
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
    """Return the rank of a source in the order of trust, 0 for the most trusted."""
    return SOURCES.index(source) if source in SOURCES else len(SOURCES)


def describe_origin(source: str | None, actor: str | None) -> str:
    """Return a source and its actor as shown to readers; "" if the source is unknown."""
    return f"{source} {actor or ''}".strip() if source in SOURCES else ""
