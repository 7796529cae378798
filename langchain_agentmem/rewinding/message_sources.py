"""The removal of messages from the memory that was derived from them.

Each statement of an entry is one of its events (`facts/fact.py`). When a message is removed from its conversation, it
is also removed from every version that has it as a source, in every branch. A version without a remaining statement is
deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.encoding import as_json, read_column
from langchain_agentmem.base.namespaces import outer_thread
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

UNDO = "undo"
"""The action of an event that undoes the event with the number `of`. A second undo of that event restores it."""
SET = "set"
"""The action of an event that corrects an entry; its `fields` hold the new values."""
_FACT_NAMES = ("subject", "predicate", "object")


def forget(tx: Transaction, low: str, high: str, conversation: str, messages: Collection[str] | None = None) -> int:
    """Remove messages from every version that has them as sources.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        conversation: The id of the conversation or thread that the messages belong to.
        messages: The ids of the messages. Default: all messages of the conversation.

    Returns:
        The number of versions that were deleted, since no statement remained or they could not be read.
    """
    ids = None if messages is None else set(messages)
    if ids is None:
        names = [memory_rows.conversation_source(conversation)]
    else:
        names = [memory_rows.message_source(each) for each in sorted(ids)]

    def is_gone(event: Mapping[str, Any]) -> bool:
        if ids is not None:
            return event.get("id") in ids and event.get("in", conversation) == conversation
        source = event.get("in") or ""
        return conversation in (source, outer_thread(source))

    rows = _rows_with_sources(tx, low, high, names)
    orphaned = []
    changed_keys = set()
    for row in rows:
        try:
            extra = memory_rows.extra_of(row)
            remaining = remove_statements(extra, is_gone) if "told" in extra else dict(extra)
        except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):  # damaged: delete it
            extra, remaining = {}, None
        if remaining is None:
            orphaned.append(row)
        elif remaining != extra:
            if row["kind"] == memory_rows.FACT:  # versions of a fact may differ in their sources
                changed_keys.add(row["key"])
            query.set_extra(tx, id=row["id"], extra=as_json(remaining))
            lost = memory_rows.sources_of(extra) - memory_rows.sources_of(remaining)
            query.delete_source.run_many(tx, [{"memory": row["id"], "source": name} for name in sorted(lost)])
    changed_keys |= {row["key"] for row in orphaned}
    corrected: list[Row] = []
    for key in sorted(changed_keys):
        corrected += query.clear_fact_corrections(tx, key=key, low=low, high=high)
    numbers = hiding_numbers(tx, orphaned)
    memory_rows.mark_deleted(tx, [row for row in orphaned if number_of(row) in numbers])
    memory_rows.delete_rows(tx, [row for row in orphaned if number_of(row) not in numbers])
    memory_rows.delete_unseen(tx, [row["id"] for row in corrected if row["until"] < memory_rows.FOREVER])
    return len(orphaned)


def remove_statements(extra: Mapping[str, Any], is_gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """Remove some statements of a fact; return None if no statement remains.

    Args:
        extra: The extra of its row.
        is_gone: Returns True if a source is removed. The source is the event of a statement, or a mapping with a
            message id as "id" and its conversation as "in".
    """
    events = extra["told"]
    lost = {event["n"] for event in events if event["do"] == memory_rows.STATEMENT and is_gone(event)}
    if lost and extra.get("rests_on_all"):
        return None
    remaining = [each for each in events if each["n"] not in lost and not (each["do"] == UNDO and each["of"] in lost)]
    remaining = [_remove_others(event, is_gone) if memory_rows.OTHER_SOURCES in event else event for event in remaining]
    statements = [event["n"] for event in remaining if event["do"] == memory_rows.STATEMENT]
    if not statements:  # only a correction with another source keeps the fact
        has_sources = not lost and any(event.get(memory_rows.OTHER_SOURCES) for event in remaining)
        return {**extra, "told": remaining} if has_sources else None
    return {**extra, **(_corrected_fields(remaining, min(statements)) if lost else {}), "told": remaining}


def _remove_others(event: Mapping[str, Any], is_gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    others = event[memory_rows.OTHER_SOURCES]
    remaining = [[message, source] for message, source in others if not is_gone({"id": message, "in": source})]
    return {**event, memory_rows.OTHER_SOURCES: remaining}


def _corrected_fields(events: Sequence[Mapping[str, Any]], first: int) -> dict[str, Any]:
    """Return the names that corrections before the first remaining statement have set.

    They replace the original names of the fact, which came from removed statements.
    """
    undone: set[int] = set()
    for event in events:
        if event["do"] == UNDO:
            undone ^= {event["of"]}
    set_before = [event for event in events if event["do"] == SET and event["n"] < first and event["n"] not in undone]
    return {name: value for event in set_before for name, value in event["fields"].items() if name in _FACT_NAMES}


def forget_corrections(tx: Transaction, low: str, high: str, name: str, *, take_back: bool) -> None:
    """Remove the details of corrections whose sources include a thread or conversation.

    Values that people wrote themselves remain in memory.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        name: The id of the thread or conversation.
        take_back: True to also delete versions in which a person restored a value of the thread.
    """
    corrected = query.corrected_memory(tx, low=low, high=high)
    rows = [row for row in corrected if name in correction_of(row).get("sources", ())]
    quoted: set[tuple[int, str, str, str]] = set()
    own: set[tuple[int, str, str, str]] = set()
    for row in rows:
        correction = correction_of(row)
        before, after = ((correction[side] or {}).get("text") for side in ("before", "after"))
        slot = (row["branch_id"], row["kind"], row["key"])
        quoted |= {(*slot, text) for text in (before, after) if text is not None}
        if correction["undoes"] is None and after is not None and after != before:
            own.add((*slot, after))
    query.set_correction.run_many(tx, [{"id": row["id"], "correction": None} for row in rows])
    restored = [
        row
        for row in rows
        if take_back
        and row["body"] is not None
        and (row["branch_id"], row["kind"], row["key"], memory_rows.decode_text(bytes(row["body"]))) in quoted - own
    ]
    memory_rows.mark_deleted(tx, restored)
    memory_rows.delete_unseen(tx, [row["id"] for row in rows if row["until"] < memory_rows.FOREVER])


def correction_of(row: Row) -> dict[str, Any]:
    """Return the correction details of a version; empty if they cannot be read."""
    try:
        return read_column(row["correction"], dict)
    except DatabaseUnreadable:
        return {}


def _rows_with_sources(tx: Transaction, low: str, high: str, names: list[str]) -> list[Row]:
    """Return the rows with certain sources in some namespaces.

    Rows of a deleted thread are included if tasks or subgraphs in these namespaces still refer to their groups.
    """
    rows = query.memory_with_sources(tx, keys=json.dumps(names), low=low, high=high)
    if any(row["path"] is None for row in rows):
        mentioned = query.referenced_groups_within(tx, low=low, high=high)
        known = {row["group_id"] for row in mentioned}
        rows = [row for row in rows if row["path"] is not None or row["group_id"] in known]
    return list(rows)


def hiding_numbers(tx: Transaction, rows: Sequence[Row]) -> set[int]:
    """Return the numbers of the given rows that may hide an older version.

    The older version may have other source messages, so it must not become visible again. On its own branch a
    version hides nothing, since each version ends where the next one begins. On a fork it may hide a version of an
    ancestor branch. A version without a place may hide any older version.
    """
    # Only facts have versions with different source messages.
    facts = [row for row in rows if row["kind"] == memory_rows.FACT]
    numbers = {number_of(row) for row in facts if row["branch_id"] is None}
    for branch in {row["branch_id"] for row in facts} - {None}:
        on_branch = [row for row in facts if row["branch_id"] == branch]
        branch_view = view_of(tx, branch, memory_rows.FOREVER, 0)
        older_view = memory_rows.MemoryView(branch_view.branches[1:], branch_view.groups, 0)
        older = memory_rows.load_named(tx, older_view, memory_rows.FACT, [row["key"] for row in on_branch])
        numbers |= {number_of(row) for row in on_branch if row["key"] in older}
    return numbers


def number_of(row: Row) -> int:
    """Return the number of a version, which its copies share."""
    return int(row["id"] if row["copy_of"] is None else row["copy_of"])
