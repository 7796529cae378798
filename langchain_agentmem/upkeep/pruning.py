"""Pruning removes what is old, or makes it smaller: checkpoints, messages, entries of the audit trail.

Each thread, conversation and page is a transaction of its own, so that nobody waits for long. A rehearsal does the same
in transactions that are rolled back, so that its report is exact. Notes on prompts that are too old go with whatever is
pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.namespaces import Namespace, range_of
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import Operation, Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.transaction import Rows


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


def prune(
    database: Database,
    namespace: Namespace,
    *,
    now: int,
    keep_checkpoints: int | None = None,
    retention: Retention | None = None,
    archive_before: int | None = None,
    dry_run: bool = False,
    progress: Watch | None = None,
) -> PruneReport:
    """Prune.

    Args:
        database: Where.
        namespace: In this namespace, and all below it.
        now: When, in microseconds since 1970.
        keep_checkpoints: How many of each line of a thread stay. Default: all.
        retention: Which messages of each conversation stay. Default: all.
        archive_before: Entries of the audit trail that were made before are compressed. Default: none.
        dry_run: Whether it is a rehearsal.
        progress: Is told how many of the threads and conversations were looked at.

    Raises:
        InvalidInput: Nothing is to be pruned, or fewer than one checkpoint is to stay.
    """
    from langchain_agentmem.base.namespaces import ThreadKey  # noqa: PLC0415 - who needs it pays

    shortens = retention is not None and not retention.off
    _check_prune(keep_checkpoints, shortens or archive_before is not None)
    low, high = range_of(namespace)
    do: Callable[[Operation[Any]], Any] = database.engine.rehearse if dry_run else database.engine.write

    def look(tx: Transaction) -> tuple[Rows, Rows]:
        threads = query.threads_within(tx, low=low, high=high, name=None) if keep_checkpoints is not None else []
        kind = message_log.CONVERSATION
        return threads, query.list_branches(tx, low=low, high=high, kind=kind, name=None) if shortens else []

    threads, talks = database.read(None, look)
    removed, dropped = [], []
    for number, row in enumerate([*threads, *talks], 1):
        if number <= len(threads):
            more, count = True, 0
            at = ThreadKey(row["path"], row["name"])
            while more:
                some, more = do(partial(_pruned, at=at, keep=keep_checkpoints or 1, now=now, at_once=dry_run))
                count += some
            removed.append(count)
        else:
            address = ThreadKey(row["path"], row["name"])
            dropped.append(do(partial(message_log.shorten, at=address, retention=retention or Retention(), now=now)))
        if progress is not None:
            progress(Progress("pruning", number, len(threads) + len(talks)))
    archived, saved = _archive(do, low, high, archive_before)
    if not dry_run:
        database.write(None, lambda tx: prompt_notes.sweep(tx, now=now))
        database.engine.release()
    return PruneReport(
        threads=sum(map(bool, removed)),
        checkpoints=sum(removed),
        conversations=sum(map(bool, dropped)),
        messages=sum(dropped),
        archived=archived,
        saved_bytes=saved,
        dry_run=dry_run,
    )


def _check_prune(keep_checkpoints: Any, others: bool) -> None:  # noqa: FBT001
    if keep_checkpoints is None and not others:
        raise InvalidInput("Say what to prune: keep_checkpoints=, retention= or archive_before=.")
    if keep_checkpoints is not None and (type(keep_checkpoints) is not int or keep_checkpoints < 1):
        raise InvalidInput(f"keep_checkpoints is a whole number of at least 1, not {safe_repr(keep_checkpoints)}.")


def _pruned(tx: Transaction, at: Any, *, keep: int, now: int, at_once: bool) -> tuple[int, bool]:
    """How many checkpoints a batch removed, or all of them in one transaction, and whether there are more."""
    from langchain_agentmem.rewinding.thread_memory import prune  # noqa: PLC0415 - who needs it pays
    from langchain_agentmem.threads.thread_lines import BATCH  # noqa: PLC0415

    removed, more = 0, True
    while more:
        some = prune(tx, at, keep=keep, now=now)
        removed, more = removed + some, some >= BATCH
        if not at_once:
            break
    return removed, more


def _archive(do: Callable[[Operation[Any]], Any], low: str, high: str, before: int | None) -> tuple[int, int]:
    """Compress old entries of the audit trail. Return how many, and how many bytes that saves."""
    from langchain_agentmem.audit.audit_store import archive  # noqa: PLC0415 - who needs it pays

    archived, saved = 0, 0
    after: int | None = None if before is None else 0
    while before is not None and after is not None:
        # A rehearsal of one page leaves the page as it was, and goes on behind it all the same.
        page = do(partial(archive, low=low, high=high, before=before, after=after))
        archived, saved, after = archived + page.entries, saved + page.saved, page.after
    return archived, saved
