"""The removal of messages from the memory that was derived from them.

The history of a fact is a list of *events*, under the key "told" of the column "extra" (`facts/fact.py` lists the keys
of an event). An event with the action "said" is a *statement*: the message "id" of the conversation "in" stated the
fact. When a message is removed from its conversation, its statements are also removed from every version of every
branch. A version without a remaining statement is deleted. The rows that one execution of a task writes are a *group*.
They are *unsealed* until a checkpoint gives them positions on a branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.encoding import as_json, read_column
from langchain_agentmem.base.namespaces import outer_thread
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import load_view
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

UNDO = "undo"
"""The action of an event that undoes another one, whose number is its "of". A second undo restores the event."""
SET = "set"
"""The action of an event that corrects a fact; its "fields" hold the new values."""
_FACT_FIELDS = ("subject", "predicate", "object")


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
        names = [memory_rows.format_conversation_source(conversation)]
    else:
        names = [memory_rows.format_message_source(message) for message in sorted(ids)]

    def removes(event: Mapping[str, Any]) -> bool:
        if ids is not None:
            return event.get("id") in ids and event.get("in", conversation) == conversation
        event_conversation = event.get("in") or ""
        return conversation in (event_conversation, outer_thread(event_conversation))

    rows = _find_rows_with_sources(tx, low, high, names)
    unsupported = []  # the rows without a remaining statement
    changed_keys = set()
    for row in rows:
        try:
            extra = memory_rows.read_extra(row)
            remaining = remove_statements(extra, removes) if "told" in extra else dict(extra)
        except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):  # damaged: delete it
            extra, remaining = {}, None
        if remaining is None:
            unsupported.append(row)
        elif remaining != extra:
            if row["kind"] == memory_rows.FACT:
                changed_keys.add(row["key"])
            query.set_extra(tx, id=row["id"], extra=as_json(remaining))
            removed = memory_rows.list_sources(extra) - memory_rows.list_sources(remaining)
            query.delete_source.run_many(tx, [{"memory": row["id"], "source": name} for name in sorted(removed)])
    changed_keys |= {row["key"] for row in unsupported}
    corrected: list[Row] = []
    for key in sorted(changed_keys):
        corrected += query.clear_fact_corrections(tx, key=key, low=low, high=high)
    hiding = find_hiding_numbers(tx, unsupported)
    memory_rows.mark_deleted(tx, [row for row in unsupported if get_number(row) in hiding])
    memory_rows.delete_rows(tx, [row for row in unsupported if get_number(row) not in hiding])
    memory_rows.delete_unseen(tx, [row["id"] for row in corrected if row["until"] < memory_rows.FOREVER])
    return len(unsupported)


def remove_statements(extra: Mapping[str, Any], removes: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """Remove some statements of a fact; return None if no statement remains.

    Args:
        extra: The column "extra" of its row.
        removes: The function that returns True for a source to remove. Its argument has the key "id" (the message)
            and may have "in" (its conversation): a statement, or a mapping for a further source of a correction.
    """
    events = extra["told"]
    removed = {event["n"] for event in events if event["do"] == memory_rows.STATEMENT and removes(event)}
    if removed and extra.get("rests_on_all"):  # the fact was derived from all its statements together
        return None
    remaining = [event for event in events if event["n"] not in removed]
    remaining = [event for event in remaining if not (event["do"] == UNDO and event["of"] in removed)]
    remaining = [_remove_others(event, removes) if memory_rows.OTHER_SOURCES in event else event for event in remaining]
    statements = [event["n"] for event in remaining if event["do"] == memory_rows.STATEMENT]
    if not statements:  # a fork's row with only a correction is kept while a statement of another branch supports it
        has_sources = not removed and any(event.get(memory_rows.OTHER_SOURCES) for event in remaining)
        return {**extra, "told": remaining} if has_sources else None
    return {**extra, **(_find_corrected_values(remaining, min(statements)) if removed else {}), "told": remaining}


def _remove_others(event: Mapping[str, Any], removes: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Remove some of the further sources of a correction."""
    others = event[memory_rows.OTHER_SOURCES]
    remaining = [[message, thread] for message, thread in others if not removes({"id": message, "in": thread})]
    return {**event, memory_rows.OTHER_SOURCES: remaining}


def effective_events(events: Sequence[Mapping[str, Any]], recorded: int | None = None) -> list[Mapping[str, Any]]:
    """Return the statements and corrections that were recorded by a time and not undone."""
    past_events = [event for event in events if recorded is None or event["at"] <= recorded]
    undone: set[int] = set()
    for event in past_events:
        if event["do"] == UNDO:
            undone ^= {event["of"]}  # a second undo of an event restores it
    return [event for event in past_events if event["do"] != UNDO and event["n"] not in undone]


def _find_corrected_values(events: Sequence[Mapping[str, Any]], first: int) -> dict[str, Any]:
    """Return the subject, predicate and object that corrections set before event `first`.

    The event is the first remaining statement. The values replace those of removed statements.
    """
    set_before = [event for event in effective_events(events) if event["do"] == SET and event["n"] < first]
    return {name: value for event in set_before for name, value in event["fields"].items() if name in _FACT_FIELDS}


def forget_corrections(tx: Transaction, low: str, high: str, name: str, *, delete_restored: bool) -> None:
    """Remove the details of corrections whose sources include a thread or conversation.

    The details quote texts of the thread. Values that people wrote themselves remain in memory.

    Args:
        tx: The transaction.
        low: The lowest namespace path.
        high: The upper bound of the namespace paths, exclusive.
        name: The id of the thread or conversation.
        delete_restored: True to also delete versions in which a person restored a text of the thread.
    """
    corrected = query.corrected_memory(tx, low=low, high=high)
    rows = [row for row in corrected if name in read_correction(row).get("sources", ())]
    # The texts that corrections quote, and those that people wrote: tuples of branch, kind, key and text.
    quoted: set[tuple[int, str, str, str]] = set()
    manual: set[tuple[int, str, str, str]] = set()
    for row in rows:
        correction = read_correction(row)
        before, after = ((correction[side] or {}).get("text") for side in ("before", "after"))
        entry = (row["branch_id"], row["kind"], row["key"])
        quoted |= {(*entry, text) for text in (before, after) if text is not None}
        if correction["undoes"] is None and after is not None and after != before:
            manual.add((*entry, after))
    query.set_correction.run_many(tx, [{"id": row["id"], "correction": None} for row in rows])
    restored = [
        row
        for row in rows
        if delete_restored
        and row["body"] is not None
        and (row["branch_id"], row["kind"], row["key"], memory_rows.decode_text(bytes(row["body"]))) in quoted - manual
    ]
    memory_rows.mark_deleted(tx, restored)
    memory_rows.delete_unseen(tx, [row["id"] for row in rows if row["until"] < memory_rows.FOREVER])


def read_correction(row: Row) -> dict[str, Any]:
    """Return the correction details of a version; empty if they cannot be read."""
    try:
        return read_column(row["correction"], dict)
    except DatabaseUnreadable:
        return {}


def _find_rows_with_sources(tx: Transaction, low: str, high: str, names: list[str]) -> list[Row]:
    """Return the rows with certain sources in some namespaces.

    Unsealed rows of a deleted thread have no namespace. They are included if tasks or subgraphs in these namespaces
    still refer to their groups.
    """
    rows = query.memory_with_sources(tx, keys=json.dumps(names), low=low, high=high)
    if any(row["path"] is None for row in rows):
        referenced = {row["group_id"] for row in query.referenced_groups_within(tx, low=low, high=high)}
        rows = [row for row in rows if row["path"] is not None or row["group_id"] in referenced]
    return list(rows)


def find_hiding_numbers(tx: Transaction, rows: Sequence[Row]) -> set[int]:
    """Return the numbers of the given rows that may hide an older version.

    Such a row must remain as a deletion mark, so that the older version does not become visible again. A row hides no
    version of its own branch, since each version ends where the next one begins. On a fork it may hide a version of an
    ancestor branch. An unsealed row may hide any older version.
    """
    # Older versions of other kinds have the same source messages, so they are deleted too: only facts can hide one.
    facts = [row for row in rows if row["kind"] == memory_rows.FACT]
    numbers = {get_number(row) for row in facts if row["branch_id"] is None}
    for branch in {row["branch_id"] for row in facts} - {None}:
        on_branch = [row for row in facts if row["branch_id"] == branch]
        branch_view = load_view(tx, branch, memory_rows.FOREVER, 0)
        older_view = memory_rows.MemoryView(branch_view.branches[1:], branch_view.groups, 0)
        older = memory_rows.load_named(tx, older_view, memory_rows.FACT, [row["key"] for row in on_branch])
        numbers |= {get_number(row) for row in on_branch if row["key"] in older}
    return numbers


def get_number(row: Row) -> int:
    """Return the number of a version, which its copies share."""
    return int(row["id"] if row["copy_of"] is None else row["copy_of"])
