"""What this process measured of one open database: how long operations took, and how often caches helped.

    measures = Measures()
    measures.ended("memory.retrieval.search", 0.004)
    measures.cache("compactions", hits=1)

Every operation adds to it, heard by anybody or not, so adding costs well under a microsecond. It holds numbers by
name and nothing else: no id, no text, no namespace. What is here has not been written yet: `take` hands it to
whoever writes it, so that what the database holds and what is here always add up to everything.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TypeVar

from langchain_agentmem.base.concurrency import PerProcess

T = TypeVar("T")

MOST_NAMES = 300
"""Names that are kept apart, of operations and of caches."""
OTHERS = "others"
"""What came when there were as many names already."""


@dataclass(slots=True, kw_only=True)
class OperationTally:
    """How often an operation ended, and how long it took.

    Attributes:
        calls: How often it ended.
        failures: How often of these with an error.
        total: Seconds of all of them.
        slowest: Seconds of the slowest.
    """

    calls: int = 0
    failures: int = 0
    total: float = 0.0
    slowest: float = 0.0


@dataclass(slots=True, kw_only=True)
class CacheTally:
    """How often a cache was asked.

    Attributes:
        hits: How often it had what was wanted.
        misses: How often it had not.
    """

    hits: int = 0
    misses: int = 0


@dataclass(slots=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        operations: By name.
        caches: By name.
        prompts: How many prompts were given a context shorter than its history.
        kept_out: By how many tokens they were shorter, in all.
        since: When it began, in microseconds since 1970.
    """

    operations: dict[str, OperationTally] = field(default_factory=dict)
    caches: dict[str, CacheTally] = field(default_factory=dict)
    prompts: int = 0
    kept_out: int = 0
    since: int = field(default_factory=lambda: time.time_ns() // 1000)

    def __bool__(self) -> bool:
        """Whether anything was measured."""
        return bool(self.operations or self.caches or self.prompts)

    def add(self, other: Measured) -> None:
        """Add what else was measured."""
        for name, tally in other.operations.items():
            mine = _entry(self.operations, name, OperationTally)
            mine.calls += tally.calls
            mine.failures += tally.failures
            mine.total += tally.total
            mine.slowest = max(mine.slowest, tally.slowest)
        for name, asked in other.caches.items():
            cache = _entry(self.caches, name, CacheTally)
            cache.hits += asked.hits
            cache.misses += asked.misses
        self.prompts += other.prompts
        self.kept_out += other.kept_out
        self.since = min(self.since, other.since)


class Measures:
    """What was measured and is not written yet. Any thread may add to it at any time."""

    # Held for a fraction of a microsecond; a finalizer may run while a thread holds it, and add too.
    _adding = PerProcess(threading.RLock)
    _measured = PerProcess(Measured)  # a parent writes its own

    def ended(self, name: str, seconds: float, failed: bool = False) -> None:  # noqa: FBT001, FBT002 - told each time
        """An operation ended.

        Args:
            name: "memory.<part>.<verb>".
            seconds: How long it took.
            failed: Whether with an error. Default: not.
        """
        with self._adding:
            tally = self._measured.operations.get(name)
            if tally is None:
                tally = _entry(self._measured.operations, name, OperationTally)
            tally.calls += 1
            tally.total += seconds
            if failed:
                tally.failures += 1
            if seconds > tally.slowest:  # noqa: PLR1730 - twice as fast as max
                tally.slowest = seconds

    def cache(self, name: str, hits: int = 0, misses: int = 0) -> None:
        """A cache was asked.

        Args:
            name: What it holds, in words that a person understands: "compactions".
            hits: How often it had what was wanted. Default: never.
            misses: How often it had not. Default: never.
        """
        with self._adding:
            tally = self._measured.caches.get(name)
            if tally is None:
                tally = _entry(self._measured.caches, name, CacheTally)
            tally.hits += hits
            tally.misses += misses

    def shortened(self, tokens: int) -> None:
        """A prompt was given a context that is shorter than its history.

        Args:
            tokens: By how many.
        """
        with self._adding:
            self._measured.prompts += 1
            self._measured.kept_out += tokens

    def so_far(self) -> Measured:
        """A copy of what was measured and is not written yet."""
        with self._adding:
            copy = Measured(since=self._measured.since)
            copy.add(self._measured)
            return copy

    def take(self) -> Measured:
        """What was measured and is not written yet; whoever takes it writes it, or gives it back."""
        with self._adding:
            taken, self._measured = self._measured, Measured()
            return taken

    def give_back(self, measured: Measured) -> None:
        """What was taken could not be written."""
        with self._adding:
            self._measured.add(measured)


def _entry(entries: dict[str, T], name: str, make: type[T]) -> T:
    """The entry of a name, made now if there is room for another, else that of all others."""
    if (entry := entries.get(name)) is None:
        if len(entries) >= MOST_NAMES:
            name = OTHERS
        entry = entries.setdefault(name, make())
    return entry
