"""What of an audit trail runs away: far more entries than is usual, or the same one again and again.

What is usual is the median, and how much it varies is told by the distances from it, of which again the median counts:
neither is moved by the few that run away. Where little is going on anything looks like much, so nothing below a floor
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.walking import Seen, is_said
from langchain_agentmem.base.namespaces import Namespace

LEAST_IN_HOUR, LEAST_IN_CONVERSATION, LEAST_REPEATED = 200, 200, 25
"""So many entries of an hour, of a conversation, or that are the same, are never too many."""

What: TypeAlias = Literal["hour", "conversation", "repeated"]

_DEVIATIONS = 8.0
_OF_NORMAL = 1.4826  # by which the median distance tells the standard deviation of what is normally distributed
_COMPARED = 300
_MOST_KINDS = 20_000
_SHOWN = 120
_NUMBERS = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Runaway:
    """Something of which there are too many entries.

    Attributes:
        what: "hour" for the entries of one hour, "conversation" for those of one conversation, "repeated" for those
            that say the same but for numbers, letter case and blanks.
        name: The hour in ISO 8601, the conversation's id, or how the repeated entries begin.
        entries: How many there are.
        usual: How many are usual: the median. None for what is repeated.
        first_at: When the first of them was made.
        last_at: When the last.
        namespace: Where the conversation is. Default: the root.
        example: The id of the last of the repeated entries. Default None.
    """

    what: What
    name: str
    entries: int
    usual: float | None
    first_at: datetime
    last_at: datetime
    namespace: Namespace = ()
    example: str | None = None

    def __str__(self) -> str:
        if self.what == "repeated":
            span = f"{self.first_at:%Y-%m-%d %H:%M} to {self.last_at:%Y-%m-%d %H:%M}"
            return f"{self.entries:,} entries say the same, {span}: {self.name} ({self.example})"
        where = f"the hour from {self.first_at:%Y-%m-%d %H}:00" if self.what == "hour" else f"conversation {self.name}"
        return f"{where} has {self.entries:,} entries; usual are {self.usual:,.0f}"


class Usual(NamedTuple):
    """What is usual.

    Attributes:
        median: As many entries as this is usual.
        most: More than these are too many.
    """

    median: float
    most: int


def usual(counts: Iterable[tuple[int, int]], least: int) -> Usual:
    """What is usual among some counts of entries.

    Args:
        counts: How many entries, and how often there were so many.
        least: So many are never too many.
    """
    weighed = sorted((float(value), times) for value, times in counts)
    if not weighed:
        return Usual(0.0, least)
    middle = _median(weighed)
    distance = _median(sorted((abs(value - middle), times) for value, times in weighed))
    # Counts vary by chance at least as much as their root says, also where most of them are equal.
    spread = max(_OF_NORMAL * distance, middle**0.5, 1.0)
    return Usual(middle, max(least, round(middle + _DEVIATIONS * spread)))


def _median(weighed: list[tuple[float, int]]) -> float:
    left = sum(times for _, times in weighed) / 2
    for place, (value, times) in enumerate(weighed):
        left -= times
        if left < 0:
            return value
        if left == 0:
            return (value + weighed[place + 1][0]) / 2 if place + 1 < len(weighed) else value
    return weighed[-1][0]


@dataclass(slots=True)
class _Same:
    name: str
    example: str
    entries: int
    first_at: datetime
    last_at: datetime


class Repeats:
    """Finds entries that say the same again and again; walks along the audit trail.

    Args:
        since: Entries from then on are looked at.
        least: So many of the same are not too many.
    """

    def __init__(self, since: datetime, least: int = LEAST_REPEATED) -> None:
        self._since = since
        self._least = least
        self._same: dict[bytes, _Same] = {}
        self._given_up = 0

    def take(self, seen: Seen) -> None:
        """Look at an entry; what is hidden as junk may be said as often as one likes."""
        entry = seen.entry
        if entry.junk or not is_said(entry) or entry.created_at < self._since:
            return
        key = _key(entry)
        if (same := self._same.get(key)) is None:
            if len(self._same) >= _MOST_KINDS:
                self._forget()
            name = _BLANKS.sub(" ", entry.prompt[:_SHOWN]).strip()
            self._same[key] = _Same(name, entry.id, 1, entry.created_at, entry.created_at)
            return
        same.entries += 1
        same.example = entry.id
        same.first_at = min(same.first_at, entry.created_at)
        same.last_at = max(same.last_at, entry.created_at)

    def found(self, most: int) -> tuple[Runaway, ...]:
        """What is repeated too often, most often first."""
        too_often = [same for same in self._same.values() if same.entries > self._least]
        too_often.sort(key=lambda same: (-same.entries, same.example))
        return tuple(
            Runaway(
                what="repeated",
                name=same.name,
                entries=same.entries,
                usual=None,
                first_at=same.first_at,
                last_at=same.last_at,
                example=same.example,
            )
            for same in too_often[:most]
        )

    def _forget(self) -> None:
        """Forget what was said least often so far."""
        while len(self._same) > _MOST_KINDS // 2:
            self._given_up += 1
            self._same = {key: same for key, same in self._same.items() if same.entries > self._given_up}


def _key(entry: AuditEntry) -> bytes:
    told = "\x1f".join(_plainly(text) for text in (entry.prompt, entry.reply, entry.error or ""))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _plainly(text: str) -> str:
    """How a text begins and ends, but for numbers, letter case and blanks."""
    ends = text if len(text) <= 2 * _COMPARED else f"{text[:_COMPARED]} \u2026 {text[-_COMPARED:]}"
    return _BLANKS.sub(" ", _NUMBERS.sub("0", ends.casefold())).strip()
