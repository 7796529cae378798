"""Messages of threads, each recorded once in the conversation of the thread's name.

The checkpointer passes the messages of a checkpoint. They are added to the conversation in the transaction that stores
the checkpoint, and follow the thread from then on: they are visible if its newest checkpoint shows them, and within a
run if the run shows them. A message that leaves the state stays in the conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem.base.namespaces import ThreadKey, check_id
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import newest_dropped_keys, to_storable
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.conversations.message_log import copy_thread_entries, delete_thread_entries
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body, escape_name
from langchain_agentmem.messages.message_marks import MARKS, is_filler, is_from_compaction
from langchain_agentmem.rewinding.search_view import SearchView, visible_messages
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage
from langchain_agentmem.storage.transaction import Row

__all__ = ["copy_thread_entries", "current_turn", "delete_thread_entries", "name_messages", "record_messages"]

_FIRST_LIMIT, _MAX_LIMIT = 200, 4_000
"""The number of messages read at first to find a user's newest message, and the maximum number."""


def name_messages(messages: Sequence[CheckpointMessage], now: int) -> dict[str, RecordedMessage]:
    """Return the messages to record, by their names; the last one if an id is repeated.

    A message without an id is named by its content, and by the number of earlier messages with this content.

    Args:
        messages: The messages of a checkpoint. Generated messages are left out.
        now: The time of messages that have none.
    """
    found: dict[str, RecordedMessage] = {}
    repeats: Counter[str] = Counter()
    for message_id, body in messages:
        if isinstance(body, RemoveMessage):
            continue
        stored_body = None if isinstance(body, BaseMessage) else body
        message = to_storable(body) if stored_body is None else decode_body(stored_body, message_id or "-")
        marked = not MARKS.isdisjoint((message.langchain or {}).get("additional_kwargs") or ())
        converted = to_langchain(message) if marked else None
        if converted is not None and is_filler(converted):
            continue
        entry = _make_entry(message, stored_body, now)
        digest = queries.digest(entry.body)
        key = ""
        with suppress(InvalidInput):
            key = check_id(message_id, "message")
        if is_nameless := not key:
            key = f"msg-{digest.hex()}"
            repeats[key] += 1
            key = key if repeats[key] == 1 else f"{key}-{repeats[key]}"
        is_generated = converted is not None and is_from_compaction(converted)
        found[key] = RecordedMessage(entry._replace(key=key, follows=True), digest, is_nameless, is_generated)
    return found


def record_messages(
    tx: Transaction,
    path: str,
    name: str,
    messages: Mapping[str, RecordedMessage],
    known: Mapping[str, bytes | None],
    *,
    now: int,
) -> list[RecordedMessage]:
    """Record the messages that are new to a thread.

    Args:
        tx: The transaction.
        path: The path of the thread's namespace.
        name: The thread's id.
        messages: The result of `name_messages`.
        known: The messages that the thread's line shows under these names: digests of their bodies, or None for a
            removed message.
        now: The time, in microseconds since 1970.
    """
    unrecorded = [
        (key, each)
        for key, each in messages.items()
        if key not in known or not (each.is_compacted or each.has_no_id or known[key] == each.hash)
    ]
    if not unrecorded:
        return []
    entries = [each.entry for _, each in unrecorded]
    generated = {key for key, each in unrecorded if each.is_compacted}
    stored = message_log.append(tx, ThreadKey(path, name), entries, now=now, newer=True, generated=generated)
    new = set(stored.keys)
    return [each._replace(new=key in new) for key, each in unrecorded if key in new or not each.is_compacted]


def current_turn(tx: Transaction, search_view: SearchView, now: int) -> frozenset[int]:
    """Return the documents of the current turn's messages in the running model's context.

    They include later messages that the run does not see: its own messages may be stored before the run sees them.
    """
    if search_view.turn is None:
        return frozenset()
    at, before = ThreadKey(*search_view.turn[:2]), search_view.turn.run_start
    turn, unseen = _newest_turn(tx, at, search_view, now)
    if turn and before is not None and turn[-1]["follows"]:
        earlier_view = search_view._replace(point=before, view=before.view(tx, now))
        if visible_messages(tx, earlier_view, {turn[-1]["slot"]}, now):
            turn = []
    context_keys = search_view.context_ids
    if turn and context_keys is None:
        context_keys = frozenset(row["key"] for row in turn).difference(newest_dropped_keys(tx, at))
    rows = [*(() if search_view.abandoned else unseen), *(row for row in turn if row["key"] in (context_keys or ()))]
    return frozenset(row["document_id"] for row in rows)


def _newest_turn(tx: Transaction, at: ThreadKey, search_view: SearchView, now: int) -> tuple[list[Row], list[Row]]:
    """Return visible messages since the user's newest, newest first, and unseen later ones."""
    limit = _FIRST_LIMIT
    while True:
        turn: list[Row] = []
        unseen: list[Row] = []
        rows = query.newest_documents(tx, **at._asdict(), kind=message_log.CONVERSATION, limit=limit)
        seen = {
            row["slot"]
            for row in visible_messages(tx, search_view, {row["slot"] for row in rows if row["follows"]}, now)
        }
        for row in rows:
            if turn and turn[-1]["role"] == "user" and row["slot"] != turn[-1]["slot"]:
                return turn, unseen
            (turn if not row["follows"] or row["slot"] in seen else unseen).append(row)
        if turn and turn[-1]["role"] == "user":
            return turn, unseen
        if not rows or limit == _MAX_LIMIT:
            return [], unseen
        limit = _MAX_LIMIT


def _make_entry(message: Message, body: bytes | None, now: int) -> message_log.LogEntry:
    try:
        entry = entry_of(message, now, body=body)
    except MessageError:  # its time or its id is invalid
        encoded = encode_body(message) if body is None else body
        entry = message_log.LogEntry(
            "", encoded, message.text, now, role=escape_name(message.role), sender=escape_name(message.name)
        )
    return entry._replace(body_stored=body is not None)
