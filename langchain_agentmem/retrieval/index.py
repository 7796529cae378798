"""The full-text index follows the log, in the transactions that write it.

SQLite's FTS5 pays for each transaction and hardly for each row: indexing one message in a commit of its own
costs thirteen times what it costs among sixty-four. So new entries wait in a short tail that a search reads
directly, and enter the index together. An engine with `index_tail` 0 indexes each entry as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_agentmem.retrieval import analysis
from langchain_agentmem.storage import Steps, query

TextOf = Callable[[bytes], str]
"""Gives the searchable text of a stored body."""

EVERYTHING = 2**62
REBUILD_BATCH = 1_000


def follow(ids: Sequence[int], texts: Sequence[str | None], *, tail: int, text_of: TextOf) -> Steps[None]:
    """Index entries that were just written, now or with their neighbours.

    Args:
        ids: Row ids of the new entries, ascending.
        texts: Their searchable texts, in the same order; None for what is not to be found, such as a round. It
            counts all the same: whoever fills the tail empties it.
        tail: How many entries may wait, 0 for none.
        text_of: Reads the texts of those that waited.
    """
    found = [(number, text) for number, text in zip(ids, texts, strict=True) if text is not None]
    if not tail:
        if found:
            yield query.index_terms.many(_rows(found))
    elif (ids[0] - 1) // tail != ids[-1] // tail:
        yield from absorb(text_of, before=ids[0])
        if found:
            yield query.index_terms.many(_rows(found))
        yield query.set_index_state(analysis=analysis.VERSION, up_to=ids[-1])


def absorb(text_of: TextOf, *, before: int = EVERYTHING, limit: int = EVERYTHING) -> Steps[int]:
    """Put the tail into the index.

    Args:
        text_of: Gives the searchable text of a body.
        before: Take entries with smaller ids only.
        limit: Most entries to take at once.

    Returns:
        How many entries were indexed.
    """
    rows = yield query.tail_to_index(before=before, limit=limit)
    if rows:
        yield query.index_terms.many(_rows((row["id"], text_of(row["body"])) for row in rows))
        yield query.set_index_state(analysis=analysis.VERSION, up_to=rows[-1]["id"])
    return len(rows)


def forget(entries: Iterable[tuple[int, str]]) -> Steps[None]:
    """Take entries out of the index, before they are deleted or replaced.

    Args:
        entries: Row id and searchable text of each.
    """
    if rows := _rows(entries):
        yield query.unindex_terms.many(rows)


def refresh(text_of: TextOf, *, tail: int) -> Steps[int]:
    """Index everything anew if another version of the analysis indexed it.

    Args:
        text_of: Gives the searchable text of a body.
        tail: How many entries the engine lets wait, 0 for none.

    Returns:
        How many entries were indexed.
    """
    [state] = yield query.index_state()
    if state["analysis"] == analysis.VERSION:
        return 0
    yield query.empty_index()
    yield query.set_index_state(analysis=analysis.VERSION, up_to=0)
    total = 0
    while count := (yield from absorb(text_of, limit=REBUILD_BATCH)):
        total += count
    if not tail:
        yield query.set_index_state(analysis=analysis.VERSION, up_to=0)
    return total


def problems(*, tail: int) -> Steps[list[str]]:
    """What the index and the log disagree on; empty when nothing.

    Args:
        tail: How many entries the engine lets wait.
    """
    [indexed] = yield query.count_index()
    [entries] = yield query.count_indexable()
    waiting: Sequence[Any] = ()
    if tail:
        waiting = yield query.tail_to_index(before=EVERYTHING, limit=EVERYTHING)
    if indexed["entries"] + len(waiting) == entries["entries"]:
        return []
    held, waits, all_of_them = indexed["entries"], len(waiting), entries["entries"]
    return [f"the full-text index holds {held} entries and {waits} wait for it, but the log has {all_of_them} to find"]


def _rows(entries: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"id": number, "terms": " ".join(analysis.terms(text))} for number, text in entries]
