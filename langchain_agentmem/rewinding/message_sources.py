"""Memory that rests on messages, and is forgotten with them.

Each statement of a thing is one of its events (`facts/fact.py`). A message that is removed from its conversation is
removed from every version that rests on it, wherever the version lies; a version that nobody states any more is
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
"""The action of an event that makes another event, `of`, no longer count, or count again."""
SET = "set"
"""The action of an event that corrects something: it has the new values of `fields`."""
_FACT_NAMES = ("subject", "predicate", "object")


def forget(tx: Transaction, low: str, high: str, conversation: str, messages: Collection[str] | None = None) -> int:
    """Remove messages from every version that rests on them.

    Args:
        tx: The transaction.
        low: The first path of the namespaces in which to look.
        high: The path behind the last.
        conversation: The conversation or thread that they belong to.
        messages: Their ids. Default: all of it.

    Returns:
        The number of deleted versions: those that no message states any more.
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
        except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):  # and it is not to stay for that
            extra, remaining = {}, None
        if remaining is None:
            orphaned.append(row)
        elif remaining != extra:
            if row["kind"] == memory_rows.FACT:  # one version of it may rest on other messages than the next
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
    """Remove some statements of a fact; return None if nobody states it any more.

    Args:
        extra: The extra of its row.
        is_gone: Whether a statement, or its message and conversation, no longer counts.
    """
    events = extra["told"]
    lost = {event["n"] for event in events if event["do"] == memory_rows.STATEMENT and is_gone(event)}
    if lost and extra.get("rests_on_all"):
        return None
    remaining = [
        event for event in events if event["n"] not in lost and not (event["do"] == UNDO and event["of"] in lost)
    ]
    remaining = [_remove_others(event, is_gone) if memory_rows.OTHER_SOURCES in event else event for event in remaining]
    statements = [event["n"] for event in remaining if event["do"] == memory_rows.STATEMENT]
    if not statements:  # a correction of what others say lasts as long as one of them does
        return (
            {**extra, "told": remaining}
            if not lost and any(event.get(memory_rows.OTHER_SOURCES) for event in remaining)
            else None
        )
    return {**extra, **(_corrected_fields(remaining, min(statements)) if lost else {}), "told": remaining}


def _remove_others(event: Mapping[str, Any], is_gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    others = event[memory_rows.OTHER_SOURCES]
    remaining = [[message, source] for message, source in others if not is_gone({"id": message, "in": source})]
    return {**event, memory_rows.OTHER_SOURCES: remaining}


def _corrected_fields(events: Sequence[Mapping[str, Any]], first: int) -> dict[str, Any]:
    """Return the values of the corrections before the first statement that is left.

    The values before these corrections are forgotten.
    """
    undone: set[int] = set()
    for event in events:
        if event["do"] == UNDO:
            undone ^= {event["of"]}
    set_before = [event for event in events if event["do"] == SET and event["n"] < first and event["n"] not in undone]
    return {name: value for event in set_before for name, value in event["fields"].items() if name in _FACT_NAMES}


def forget_corrections(tx: Transaction, low: str, high: str, name: str, *, take_back: bool) -> None:
    """Forget the corrections that hold words of a thread or conversation.

    The values that people wrote themselves stay.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.
        name: The id of the thread or conversation.
        take_back: Whether a value of the thread that a person restored goes, too.
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
    """Return the correction that a version is; empty if it cannot be read."""
    try:
        return read_column(row["correction"], dict)
    except DatabaseUnreadable:
        return {}


def _rows_with_sources(tx: Transaction, low: str, high: str, names: list[str]) -> list[Row]:
    """Return the rows that rest on sources in some namespaces.

    Rows of a deleted thread are included if its copies need them.
    """
    rows = query.memory_with_sources(tx, keys=json.dumps(names), low=low, high=high)
    if any(row["path"] is None for row in rows):
        mentioned = query.referenced_groups_within(tx, low=low, high=high)
        known = {row["group_id"] for row in mentioned}
        rows = [row for row in rows if row["path"] is not None or row["group_id"] in known]
    return list(rows)


def hiding_numbers(tx: Transaction, rows: Sequence[Row]) -> set[int]:
    """Return the numbers of the given rows that may hide an older version.

    An older version that rests on other messages must not come back.

    A branch without a parent has no hidden version, since each version ends where the next begins. What has no place
    yet, and what lies on a fork, hides what lies before.
    """
    # A version of a fact alone may rest on other messages than the next one.
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
