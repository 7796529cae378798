"""What the layers give: events and records, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from langchain_agentmem.base.clock import moment
from langchain_agentmem.rewinding.memory_rows import Kept
from langchain_agentmem.search.memory_search import Why


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        id: Its id.
        kind: What kind of thing, such as "execution_result".
        content: What happened.
        created_at: When, in UTC.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
    """

    id: str
    kind: str
    content: str
    created_at: datetime
    score: float | None = None
    why: Why | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record of archival memory.

    Attributes:
        id: Its id.
        content: What it says.
        tags: Its tags, in the order in which they were given.
        created_at: When it was written first, in UTC.
        updated_at: When this version of it was written.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
        details: Whatever else belongs to it: of a consolidated record the `events` that it stands for.
    """

    id: str
    content: str
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    why: Why | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def event_of(kept: Kept, score: float | None = None, why: Why | None = None) -> Event:
    """The event that a row is."""
    return Event(
        id=kept.key,
        kind=kept.label or "",
        content=kept.text,
        created_at=moment(kept.created_at),
        score=score,
        why=why,
    )


def record_of(kept: Kept) -> Record:
    """The record that a row is."""
    return Record(
        id=kept.key,
        content=kept.text,
        tags=tuple(kept.extra.get("tags", ())),
        created_at=moment(kept.created_at),
        updated_at=moment(kept.written_at),
        details=MappingProxyType({name: value for name, value in kept.extra.items() if name not in ("tags", "words")}),
    )
