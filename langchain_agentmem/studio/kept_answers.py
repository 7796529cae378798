"""What takes long to find out: it is found beside the requests, and kept for a minute.

    seen = await studio.kept.look("figures", lambda: memory.admin.stats())
    if seen is None: ...      # it is not known yet: the page says so, and is loaded again

No page waits longer than `PATIENCE`. What is a minute old is found anew, and shown until that is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE = 0.03
"""Seconds that a page waits for something."""
LASTS = timedelta(minutes=1)
MOST = 100
"""Things that are kept."""


class Seen(NamedTuple, Generic[T]):
    """What was found out.

    Attributes:
        value: It.
        at: When, in UTC.
    """

    value: T
    at: datetime


class KeptAnswers:
    """What was found out lately, by name."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, Seen[Any]] = {}
        self._finding: dict[Hashable, Future[Seen[Any]]] = {}
        self._threads = ThreadPoolExecutor(2, "agentmem-studio")

    async def look(self, name: Hashable, find: Callable[[], T], *, patience: float = PATIENCE) -> Seen[T] | None:
        """What is known of something; None if nothing is known yet.

        Args:
            name: What it is.
            find: Finds it out, in a thread.
            patience: Seconds to wait for it. Default: `PATIENCE`.

        Raises:
            AgentMemoryError: It could not be found out. Whoever asks next has it tried again.
        """
        finding = self._finding.get(name)
        if finding is not None and finding.done():  # since somebody looked
            self._collected(name, finding)
            finding = None
        known = self._seen.get(name)
        if finding is None:
            if known is not None and datetime.now(UTC) - known.at < LASTS:
                return known
            finding = self._finding[name] = self._threads.submit(lambda: Seen(find(), datetime.now(UTC)))
        await asyncio.to_thread(wait, [finding], patience)
        return self._collected(name, finding) if finding.done() else known

    def _collected(self, name: Hashable, finding: Future[Seen[Any]]) -> Seen[Any]:
        if self._finding.get(name) is not finding:  # somebody else has collected it, or it is out of date
            return finding.result()
        del self._finding[name]
        found = finding.result()
        self._seen.pop(name, None)
        self._seen[name] = found
        while len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]
        return found

    def forget(self) -> None:
        """Find out everything anew, as after something was erased."""
        self._seen.clear()
        self._finding.clear()
