"""Messages of threads, each recorded once in the conversation whose name is the thread's id.

The checkpointer passes the messages of a checkpoint to this module. The transaction that stores the checkpoint also
adds the messages to the conversation. These entries *follow* the thread. A run in the thread sees the messages that its
checkpoint contains. All other readers see the messages that the newest checkpoint contains. A message that is removed
from the graph's state stays in the conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem.base.namespaces import ThreadKey, check_id
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import load_newest_dropped_keys, to_storable
from langchain_agentmem.conversations.log_entries import make_entry
from langchain_agentmem.conversations.message_log import LogEntry, copy_thread_entries, delete_thread_entries
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body, escape_name
from langchain_agentmem.messages.message_marks import MARKS, is_from_compaction, is_synthetic
from langchain_agentmem.rewinding.search_view import SearchView, visible_messages
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage
from langchain_agentmem.storage.transaction import Row

__all__ = ["copy_thread_entries", "current_turn", "delete_thread_entries", "name_messages", "record_messages"]

_FIRST_LIMIT, _MAX_LIMIT = 200, 4_000
"""The number of messages that are read first to find the user's newest message, and the maximum number."""


def name_messages(messages: Sequence[CheckpointMessage], now: int) -> dict[str, RecordedMessage]:
    """Return the messages to record, by their keys.

    The key of a message is its id. If several messages have the same id, only the last one is returned. A message
    without a valid id gets a key from its content. If several have equal content, a number is added to the key.

    Args:
        messages: The messages of a checkpoint. Summaries, injected memory, texts that compaction inserted, and
            `RemoveMessage`s are left out.
        now: The time for messages without a time, in microseconds since 1970.
    """
    named: dict[str, RecordedMessage] = {}
    repeats: Counter[str] = Counter()
    for message_id, body in messages:
        if isinstance(body, RemoveMessage):
            continue
        stored_body = None if isinstance(body, BaseMessage) else body
        message = to_storable(body) if stored_body is None else decode_body(stored_body, message_id or "-")
        has_mark = not MARKS.isdisjoint((message.langchain or {}).get("additional_kwargs") or ())
        marked = to_langchain(message) if has_mark else None
        if marked is not None and is_synthetic(marked):
            continue
        entry = _make_entry(message, stored_body, now)
        digest = queries.digest(entry.body)
        key = ""
        with suppress(InvalidInput):
            key = check_id(message_id, "message")
        if has_no_id := not key:
            key = f"msg-{digest.hex()}"
            repeats[key] += 1
            key = key if repeats[key] == 1 else f"{key}-{repeats[key]}"
        is_compacted = marked is not None and is_from_compaction(marked)
        named[key] = RecordedMessage(entry._replace(key=key, follows=True), digest, has_no_id, is_compacted)
    return named


def record_messages(
    tx: Transaction,
    path: str,
    name: str,
    messages: Mapping[str, RecordedMessage],
    known: Mapping[str, bytes | None],
    *,
    now: int,
) -> list[RecordedMessage]:
    """Record the messages of a checkpoint that are new to its thread, or have changed.

    Args:
        tx: The transaction.
        path: The path of the thread's namespace.
        name: The thread's id.
        messages: The result of `name_messages`.
        known: The digests of the messages that the thread's branch shows already, by key; None for a removed message.
        now: The time, in microseconds since 1970.

    Returns:
        The recorded messages. `new` is True for messages that the conversation did not have.
    """
    unrecorded = [
        (key, each)
        for key, each in messages.items()
        if key not in known or not (each.is_compacted or each.has_no_id or known[key] == each.hash)
    ]
    if not unrecorded:
        return []
    entries = [each.entry for _, each in unrecorded]
    compacted = {key for key, each in unrecorded if each.is_compacted}
    new = set(message_log.append(tx, ThreadKey(path, name), entries, now=now, newer=True, generated=compacted).keys)
    return [each._replace(new=key in new) for key, each in unrecorded if key in new or not each.is_compacted]


def current_turn(tx: Transaction, search_view: SearchView, now: int) -> frozenset[int]:
    """Return the document numbers of the current turn's messages in the model's context.

    A turn begins with the user's newest message. A search leaves these documents out. Later messages that the run's
    view hides are included, since a run may store its own messages before its view shows them.
    """
    if search_view.turn is None:
        return frozenset()
    at, run_start = ThreadKey(*search_view.turn[:2]), search_view.turn.run_start
    turn, hidden = _load_newest_turn(tx, at, search_view, now)
    if turn and run_start is not None and turn[-1]["follows"]:
        view_at_start = search_view._replace(point=run_start, view=run_start.view(tx, now))
        if visible_messages(tx, view_at_start, {turn[-1]["slot"]}, now):
            turn = []  # the user's newest message is older than the run: it belongs to an earlier turn
    context_keys = search_view.context_ids
    if turn and context_keys is None:
        context_keys = frozenset(row["key"] for row in turn).difference(load_newest_dropped_keys(tx, at))
    rows = [*(() if search_view.abandoned else hidden), *(row for row in turn if row["key"] in (context_keys or ()))]
    return frozenset(row["document_id"] for row in rows)


def _load_newest_turn(tx: Transaction, at: ThreadKey, search_view: SearchView, now: int) -> tuple[list[Row], list[Row]]:
    """Return the visible messages since the user's newest one, and later hidden messages.

    In both lists, the newest message is first. The first list is empty if no message of the user is found.
    """
    limit = _FIRST_LIMIT
    while True:
        turn: list[Row] = []
        hidden: list[Row] = []
        rows = query.newest_documents(tx, **at._asdict(), kind=message_log.CONVERSATION, limit=limit)
        thread_slots = {row["slot"] for row in rows if row["follows"]}
        visible = {row["slot"] for row in visible_messages(tx, search_view, thread_slots, now)}
        for row in rows:
            if turn and turn[-1]["role"] == "user" and row["slot"] != turn[-1]["slot"]:
                return turn, hidden
            (turn if not row["follows"] or row["slot"] in visible else hidden).append(row)
        if turn and turn[-1]["role"] == "user":
            return turn, hidden
        if not rows or limit == _MAX_LIMIT:
            return [], hidden
        limit = _MAX_LIMIT


def _make_entry(message: Message, body: bytes | None, now: int) -> LogEntry:
    try:
        entry = make_entry(message, now, body=body)
    except MessageError:  # an invalid time or id: store the body as it is
        data = encode_body(message) if body is None else body
        entry = LogEntry("", data, message.text, now, role=escape_name(message.role), sender=escape_name(message.name))
    return entry._replace(body_stored=body is not None)
