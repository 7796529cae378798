"""What was measured is kept in the database, so that it adds up over all processes that used it.

A process adds what it measured when it closes the database, and every ten minutes beside something that it writes
anyway. It only does so if it wrote something else there: who only reads goes on only reading. And it waits for nobody:
where the database is busy, full, read only or gone, it is the measures that are lost, and nothing else.
"""

from __future__ import annotations

import logging
import time

from langchain_agentmem.base import forks
from langchain_agentmem.storage import Engine, Steps, query
from langchain_agentmem.tracing.measures import CacheTally, Measured, Measures, Tally

logger = logging.getLogger(__name__)

EVERY = 600.0
"""Seconds between two times that what was measured is written."""
MOST_ROWS = 500
"""Names that the database keeps, give or take those that were last written together."""

OPERATION, CACHE, TOKENS = "operation", "cache", "tokens"
_KEPT_OUT = "kept out of prompts"
_SECOND = 1_000_000


def add(measured: Measured, *, now: int) -> Steps[None]:
    """Add what was measured to what the database holds.

    Args:
        measured: What was measured.
        now: When, in microseconds since 1970.
    """
    rows = [
        _row(OPERATION, name, tally.calls, tally.failures, round(tally.total * _SECOND), round(tally.slowest * _SECOND))
        for name, tally in measured.operations.items()
    ]
    rows += [_row(CACHE, name, each.hits + each.misses, each.misses) for name, each in measured.caches.items()]
    if measured.prompts:
        rows.append(_row(TOKENS, _KEPT_OUT, measured.prompts, 0, measured.kept_out))
    # In one order everywhere, so that no two processes can wait for each other.
    rows.sort(key=lambda row: (row["kind"], row["name"]))
    yield query.add_measure.many([{**row, "since": measured.since, "until": now} for row in rows])
    yield query.forget_old_measures(limit=MOST_ROWS)


def load() -> Steps[Measured]:
    """What all processes wrote."""
    found = Measured()
    for row in (yield query.measures()):
        calls, failures, total = int(row["calls"]), int(row["failures"]), int(row["total"])
        if row["kind"] == OPERATION:
            found.operations[row["name"]] = Tally(
                calls=calls, failures=failures, total=total / _SECOND, slowest=int(row["slowest"]) / _SECOND
            )
        elif row["kind"] == CACHE:
            found.caches[row["name"]] = CacheTally(hits=calls - failures, misses=failures)
        elif row["kind"] == TOKENS:
            found.prompts, found.kept_out = found.prompts + calls, found.kept_out + total
        found.since = min(found.since, int(row["since"]))
    return found


def forget() -> Steps[None]:
    """Forget everything that was written."""
    yield query.delete_measures()


class Keeper:
    """Writes what was measured of one database. It may be called from any thread, and raises nothing of its own.

    Args:
        engine: The database. It calls `now_and_then` after everything that it writes, until `close`.
        measures: What was measured.
    """

    def __init__(self, engine: Engine, measures: Measures) -> None:
        self._engine = engine
        self._measures = measures
        self._next = time.monotonic() + EVERY
        self._writing = forks.lock()
        engine.afterwards = self.now_and_then
        forks.renewed(self)

    def renew(self) -> None:
        """Begin with nothing: what was measured so far, the parent writes."""
        self._measures.take()

    def now_and_then(self) -> None:
        """Write what was measured, if that was not done lately."""
        if time.monotonic() >= self._next:
            self.keep()

    def keep(self) -> None:
        """Write what was measured, if anything else was written, and if it can be done without waiting."""
        engine = self._engine
        if not (engine.lasting and engine.usable and engine.wrote) or not self._writing.acquire(blocking=False):
            return
        try:
            self._next = time.monotonic() + EVERY
            if measured := self._measures.take():
                try:
                    engine.write_at_once(lambda: add(measured, now=time.time_ns() // 1000))
                except BaseException:
                    self._measures.give_back(measured)
                    raise
        except Exception:  # measures are worth nobody's failure
            logger.debug("What was measured could not be written now.", exc_info=True)
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write what was measured; the engine is about to close."""
        self._engine.afterwards = None
        self.keep()


def _row(kind: str, name: str, calls: int, failures: int, total: int = 0, slowest: int = 0) -> dict[str, object]:
    return {"kind": kind, "name": name, "calls": calls, "failures": failures, "total": total, "slowest": slowest}
