"""Which messages a summary stands for, and what they say: nothing that left a context is lost.

A compaction names what left the context with it, and the compaction that it went on from; so a summary leads to all
messages that it goes back to. They stand in the conversation as they always did.

    for message in messages_behind(memory, view.messages[2], conversation_id="support-7"):
        print(message.role, message.text)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import id_of, path_of, resolve
from langchain_agentmem.compaction.places import place_of
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import Record, load
from langchain_agentmem.conversations.log_entries import MOST_TRACED
from langchain_agentmem.messages import Message, decode_body
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.database import database_of
from langchain_agentmem.tracing import Thunk

SUMMARY = "sum-"
"""What the id of a summary begins with."""
EXPAND = "compaction.expand"
"""What it is called in a trace to bring back what stands behind an id."""
_PAGE = 500


class Said(NamedTuple):
    """A message of a conversation, with its time."""

    message: Message
    at: datetime


def messages_behind(
    memory: Any, summary: str | BaseMessage, *, conversation_id: str, namespace: Sequence[str] | None = None
) -> list[Message]:
    """The messages that a summary stands for, word for word, in the order in which they were said.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        summary: The summary's message in a compacted context, or its id.
        conversation_id: The conversation, which for a graph is its thread.
        namespace: Whose it is. Default: the running config's, else the root.

    Returns:
        The messages. Those that were deleted since are missing; empty if the conversation has no such summary.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: What is kept of the compaction is damaged.
    """
    at, name = (
        message_log.Address(path_of(resolve(namespace)), id_of(conversation_id, "conversation")),
        _name_of(summary),
    )
    found = database_of(memory).read(EXPAND, lambda: behind(at, name), expanding(at, name), expanded) or []
    return [each.message for each in found]


async def amessages_behind(
    memory: Any, summary: str | BaseMessage, *, conversation_id: str, namespace: Sequence[str] | None = None
) -> list[Message]:
    """`messages_behind`, awaited."""
    at, name = (
        message_log.Address(path_of(resolve(namespace)), id_of(conversation_id, "conversation")),
        _name_of(summary),
    )
    database = database_of(memory)
    found = await database.aread(EXPAND, lambda: behind(at, name), expanding(at, name), expanded) or []
    return [each.message for each in found]


def expanding(at: message_log.Address, name: str, **more: Any) -> Thunk:
    """What a trace shows before something is brought back: of which conversation, by which id, and what else."""
    return lambda: {**place_of(at), "id": name, **more}


def expanded(found: Sequence[Said] | None) -> dict[str, Any]:
    """What a trace shows of what was brought back."""
    said = found or ()
    return {
        "status": "no such id" if found is None else "found",
        "count": len(said),
        "ids": [each.message.message_id for each in said[:MOST_TRACED]],
        "characters": sum(len(each.message.text) for each in said),
    }


def behind(at: message_log.Address, summary: str) -> Steps[list[Said] | None]:
    """The messages that a summary stands for, in their order; None if the conversation has no such summary.

    Args:
        at: The conversation.
        summary: The id of the summary.
    """
    keys = yield from dropped_keys(at, summary)
    return None if keys is None else (yield from said(at, keys))


def dropped_keys(at: message_log.Address, summary: str) -> Steps[list[str] | None]:
    """The keys of the messages that a summary stands for, in their order; None if there is no such summary.

    A summary that was part of the history itself, as in a state that is shrunk, stands for what it stood for.
    """
    record = yield from _first_with(at, summary)
    if record is None:
        return None
    keys: list[str] = []
    open_ = [*(yield from _all_dropped(at, record))]
    known = {summary}
    while open_:
        key = open_.pop(0)
        if key in known:
            continue
        known.add(key)
        inner = (yield from _first_with(at, key)) if key.startswith(SUMMARY) else None
        if inner is None:
            keys.append(key)
        else:
            open_ = [*(yield from _all_dropped(at, inner)), *open_]
    return keys


def said(at: message_log.Address, keys: Sequence[str]) -> Steps[list[Said]]:
    """Messages of a conversation by their keys; those that are not there any more are left out."""
    rows = yield query.find_branch(path=at.path, kind=message_log.CONVERSATION, name=at.name)
    if not rows:
        return []
    branch, found = rows[0]["id"], {}
    for page in _pages(keys):
        for row in (yield query.messages_of_keys(branch=branch, keys=json.dumps(page))):
            message = decode_body(bytes(row["body"]), row["key"])
            found[row["key"]] = Said(message, moment(row["created_at"]))
    return [found[key] for key in keys if key in found]


def _all_dropped(at: message_log.Address, record: Record) -> Steps[list[str]]:
    """What left a context with a compaction and with those it went on from, in the order of the conversation."""
    parts = [record.dropped]
    while record.parent is not None:
        before = yield from load(at, record.parent)
        if before is None:  # a message of it was changed, and it was taken away
            break
        record = before
        parts.append(record.dropped)
    return [key for part in reversed(parts) for key in part]


def _first_with(at: message_log.Address, summary: str) -> Steps[Record | None]:
    """The compaction that a summary was made by."""
    rows = yield query.find_branch(path=at.path, kind=message_log.CONVERSATION, name=at.name)
    if not rows or not summary:
        return None
    word = summary.encode("utf-8", "replace")
    for row in (yield query.compactions_naming(branch=rows[0]["id"], word=word)):
        record = yield from load(at, int(row["id"]))
        if record is not None and any(getattr(item, "id", None) == summary for item in record.items):
            return record
    return None


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _PAGE):
        yield [*keys[start : start + _PAGE]]


def _name_of(summary: str | BaseMessage) -> str:
    return id_of(summary.id if isinstance(summary, BaseMessage) else summary, "summary")
