"""What is old is removed or made smaller: checkpoints, messages, entries of the audit trail.

Each thread, conversation and page is a transaction of its own, so that nobody waits for long. A rehearsal does the same
in transactions that are taken back, so that what it tells is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from langchain_agentmem.audit import audit_store
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, Run, Work
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import thread_memory_lifecycle as memories
from langchain_agentmem.storage import Engine, Operation, Steps, query
from langchain_agentmem.threads import thread_lifecycle
from langchain_agentmem.threads.thread_lines import ThreadAt

T = TypeVar("T")

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a pruning removed or made smaller, or would.

    Attributes:
        threads: How many threads lost checkpoints.
        checkpoints: How many checkpoints.
        conversations: How many conversations lost messages.
        messages: How many messages.
        archived: How many entries of the audit trail were compressed.
        saved_bytes: How many bytes that saved.
        dry_run: Whether it only would.
    """

    threads: int = 0
    checkpoints: int = 0
    conversations: int = 0
    messages: int = 0
    archived: int = 0
    saved_bytes: int = 0
    dry_run: bool = False


def pruned(
    engine: Engine,
    low: str,
    high: str,
    *,
    now: int,
    keep_checkpoints: int | None = None,
    retention: Retention | None = None,
    archive_before: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Work[PruneReport]:
    """Prune.

    Args:
        engine: The database.
        low: The first path of the namespaces.
        high: The path behind the last.
        now: When, in microseconds since 1970.
        keep_checkpoints: How many of each line of a thread stay. Default: all.
        retention: Which messages of each conversation stay. Default: all.
        archive_before: Entries of the audit trail that were made before are compressed. Default: none.
        dry_run: Whether it is a rehearsal.
        progress: Is told how many threads and conversations were looked at, and how many there are.

    Raises:
        InvalidInput: Nothing is to be pruned, or fewer than one checkpoint is to stay.
    """
    if keep_checkpoints is None and (retention is None or retention.off) and archive_before is None:
        raise InvalidInput("Say what to prune: keep_checkpoints=, retention= or archive_before=.")
    if keep_checkpoints is not None and (type(keep_checkpoints) is not int or keep_checkpoints < 1):
        raise InvalidInput(f"keep_checkpoints is a whole number of at least 1, not {safe_repr(keep_checkpoints)}.")
    threads: list[ThreadAt] = []
    talks: list[message_log.Address] = []
    if keep_checkpoints is not None:
        threads = yield Run("care.threads", lambda: _threads(low, high), shown=False)
    if retention is not None and not retention.off:
        talks = yield Run("care.conversations", lambda: _conversations(low, high), shown=False)
    keep, kept, before = keep_checkpoints or 1, retention or Retention(), archive_before or 0
    do = partial(_done, engine, rehearsed=dry_run)
    removed, dropped = [], []
    for number, at in enumerate(threads):
        more, count = True, 0
        while more:
            some = yield from do(partial(_pruned if dry_run else memories.prune, at, keep=keep, now=now))
            count += some
            more = some >= thread_lifecycle.BATCH and not dry_run
        removed.append(count)
        _tell(progress, number + 1, len(threads) + len(talks))
    for number, address in enumerate(talks):
        dropped.append((yield from do(partial(message_log.shorten, address, kept, now=now))))
        _tell(progress, len(threads) + number + 1, len(threads) + len(talks))
    archived = saved = 0
    after: int | None = None if archive_before is None else 0
    while after is not None:
        # A rehearsal of one page leaves the page as it was, and goes on behind it all the same.
        page = yield from do(partial(audit_store.archive, low, high, before, after=after))
        archived, saved, after = archived + page.entries, saved + page.saved, page.after
    if not dry_run:
        yield Do(engine.release)
    return PruneReport(
        threads=sum(map(bool, removed)),
        checkpoints=sum(removed),
        conversations=sum(map(bool, dropped)),
        messages=sum(dropped),
        archived=archived,
        saved_bytes=saved,
        dry_run=dry_run,
    )


def _done(engine: Engine, make: Operation[T], *, rehearsed: bool) -> Work[T]:
    do = engine.rehearse if rehearsed else engine.write
    value: T = yield Do(partial(do, make), partial(engine.in_thread, do, make, write=True))
    return value


def _pruned(at: ThreadAt, *, keep: int, now: int) -> Steps[int]:
    """All batches in one transaction."""
    removed = 0
    while True:
        some = yield from memories.prune(at, keep=keep, now=now)
        removed += some
        if some < thread_lifecycle.BATCH:
            return removed


def _threads(low: str, high: str) -> Steps[list[ThreadAt]]:
    rows = yield query.threads_within(low=low, high=high, name=None)
    return [ThreadAt(row["path"], row["name"]) for row in rows]


def _conversations(low: str, high: str) -> Steps[list[message_log.Address]]:
    rows = yield query.list_branches(low=low, high=high, kind=message_log.CONVERSATION, name=None)
    return [message_log.Address(row["path"], row["name"]) for row in rows]


def _tell(progress: Progress | None, *numbers: Any) -> None:
    if progress is not None:
        progress(*numbers)
