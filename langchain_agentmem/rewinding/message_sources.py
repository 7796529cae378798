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
from langchain_agentmem.base.namespaces import thread_around
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import view_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

UNDO = "undo"
"""The action of an event that makes another event, `of`, no longer count, or count again."""
SET = "set"
"""The action of an event that corrects something: it has the new values of `fields`."""
_NAMES = ("subject", "predicate", "object")


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

    def gone(event: Mapping[str, Any]) -> bool:
        if ids is not None:
            return event.get("id") in ids and event.get("in", conversation) == conversation
        there = event.get("in") or ""
        return conversation in (there, thread_around(there))

    found = _resting_on(tx, low, high, names)
    unfounded = []
    retold = set()
    for row in found:
        try:
            extra = memory_rows.extra_of(row)
            left = without(extra, gone) if "told" in extra else dict(extra)
        except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):  # and it is not to stay for that
            extra, left = {}, None
        if left is None:
            unfounded.append(row)
        elif left != extra:
            if row["kind"] == memory_rows.FACT:  # one version of it may rest on other messages than the next
                retold.add(row["key"])
            query.retell(tx, id=row["id"], extra=as_json(left))
            lost = memory_rows.sources_of(extra) - memory_rows.sources_of(left)
            query.delete_sources.many(tx, [{"memory": row["id"], "source": name} for name in sorted(lost)])
    retold |= {row["key"] for row in unfounded}
    corrected: list[Row] = []
    for key in sorted(retold):
        corrected += query.forget_corrected_facts(tx, key=key, low=low, high=high)
    held = hiding(tx, unfounded)
    memory_rows.bury(tx, [row for row in unfounded if number_of(row) in held])
    memory_rows.discard(tx, [row for row in unfounded if number_of(row) not in held])
    memory_rows.release(tx, [row["id"] for row in corrected if row["until"] < memory_rows.FOREVER])
    return len(unfounded)


def without(extra: Mapping[str, Any], gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """Remove some statements of a fact; return None if nobody states it any more.

    Args:
        extra: The extra of its row.
        gone: Whether a statement, or its message and conversation, no longer counts.
    """
    events = extra["told"]
    lost = {event["n"] for event in events if event["do"] == memory_rows.SAID and gone(event)}
    if lost and extra.get("rests_on_all"):
        return None
    left = [event for event in events if event["n"] not in lost and not (event["do"] == UNDO and event["of"] in lost)]
    left = [_without_others(event, gone) if memory_rows.OTHERS in event else event for event in left]
    said = [event["n"] for event in left if event["do"] == memory_rows.SAID]
    if not said:  # a correction of what others say lasts as long as one of them does
        return {**extra, "told": left} if not lost and any(event.get(memory_rows.OTHERS) for event in left) else None
    return {**extra, **(_corrected(left, min(said)) if lost else {}), "told": left}


def _without_others(event: Mapping[str, Any], gone: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    others = event[memory_rows.OTHERS]
    left = [[message, there] for message, there in others if not gone({"id": message, "in": there})]
    return {**event, memory_rows.OTHERS: left}


def _corrected(events: Sequence[Mapping[str, Any]], first: int) -> dict[str, Any]:
    """Return the values of the corrections before the first statement that is left.

    The values before these corrections are forgotten.
    """
    off: set[int] = set()
    for event in events:
        if event["do"] == UNDO:
            off ^= {event["of"]}
    set_before = [event for event in events if event["do"] == SET and event["n"] < first and event["n"] not in off]
    return {name: value for event in set_before for name, value in event["fields"].items() if name in _NAMES}


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
    found = query.corrected_memory(tx, low=low, high=high)
    rows = [row for row in found if name in correction_of(row).get("sources", ())]
    said: set[tuple[int, str, str, str]] = set()
    own: set[tuple[int, str, str, str]] = set()
    for row in rows:
        told = correction_of(row)
        before, after = ((told[side] or {}).get("text") for side in ("before", "after"))
        slot = (row["branch_id"], row["kind"], row["key"])
        said |= {(*slot, text) for text in (before, after) if text is not None}
        if told["undoes"] is None and after is not None and after != before:
            own.add((*slot, after))
    query.sign_memory.many(tx, [{"id": row["id"], "correction": None} for row in rows])
    restored = [
        row
        for row in rows
        if take_back
        and row["body"] is not None
        and (row["branch_id"], row["kind"], row["key"], memory_rows.text_of(bytes(row["body"]))) in said - own
    ]
    memory_rows.bury(tx, restored)
    memory_rows.release(tx, [row["id"] for row in rows if row["until"] < memory_rows.FOREVER])


def correction_of(row: Row) -> dict[str, Any]:
    """Return the correction that a version is; empty if it cannot be read."""
    try:
        return read_column(row["correction"], dict)
    except DatabaseUnreadable:
        return {}


def _resting_on(tx: Transaction, low: str, high: str, names: list[str]) -> list[Row]:
    """Return the rows that rest on sources in some namespaces.

    Rows of a deleted thread are included if its copies need them.
    """
    found = query.resting_on(tx, keys=json.dumps(names), low=low, high=high)
    if any(row["path"] is None for row in found):
        mentioned = query.mentioned_within(tx, low=low, high=high)
        known = {row["group_id"] for row in mentioned}
        found = [row for row in found if row["path"] is not None or row["group_id"] in known]
    return list(found)


def hiding(tx: Transaction, some: Sequence[Row]) -> set[int]:
    """Return the numbers of the given rows that may hide an older version.

    An older version that rests on other messages must not come back.

    A branch without a parent has no hidden version, since each version ends where the next begins. What has no place
    yet, and what lies on a fork, hides what lies before.
    """
    # A version of a fact alone may rest on other messages than the next one.
    facts = [row for row in some if row["kind"] == memory_rows.FACT]
    found = {number_of(row) for row in facts if row["branch_id"] is None}
    for branch in {row["branch_id"] for row in facts} - {None}:
        there = [row for row in facts if row["branch_id"] == branch]
        line = view_of(tx, branch, memory_rows.FOREVER, 0)
        before = memory_rows.MemoryView(line.line[1:], line.groups, 0)
        older = memory_rows.named(tx, before, memory_rows.FACT, [row["key"] for row in there])
        found |= {number_of(row) for row in there if row["key"] in older}
    return found


def number_of(row: Row) -> int:
    """Return the number of a version, which its copies share."""
    return int(row["id"] if row["origin"] is None else row["origin"])
