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

from langchain_agentmem.base.namespaces import ThreadKey, id_of
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import newest_dropped, storable
from langchain_agentmem.conversations.log_entries import entry_of
from langchain_agentmem.conversations.message_log import copy, forget
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body, plain
from langchain_agentmem.messages.message_marks import MARKS, is_filler, is_made
from langchain_agentmem.rewinding.outlook import SearchView, said_from
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import CheckpointMessage, RecordedMessage
from langchain_agentmem.storage.transaction import Row

__all__ = ["copy", "current_turn", "forget", "named", "note"]

_NEWEST, _MOST = 200, 4_000
"""The number of messages read at first to find a user's newest message, and the maximum number."""


def named(messages: Sequence[CheckpointMessage], now: int) -> dict[str, RecordedMessage]:
    """Return the messages to record, by their names; the last one if an id is repeated.

    A message without an id is named by its content, and by the number of earlier messages with this content.

    Args:
        messages: The messages of a checkpoint. Generated messages are left out.
        now: The time of messages that have none.
    """
    found: dict[str, RecordedMessage] = {}
    times: Counter[str] = Counter()
    for given, body in messages:
        if isinstance(body, RemoveMessage):
            continue
        stored = None if isinstance(body, BaseMessage) else body
        message = storable(body) if stored is None else decode_body(stored, given or "-")
        marked = not MARKS.isdisjoint((message.langchain or {}).get("additional_kwargs") or ())
        shown = to_langchain(message) if marked else None
        if shown is not None and is_filler(shown):
            continue
        entry = _entry(message, stored, now)
        digest = queries.digest(entry.body)
        key = ""
        with suppress(InvalidInput):
            key = id_of(given, "message")
        if nameless := not key:
            key = f"msg-{digest.hex()}"
            times[key] += 1
            key = key if times[key] == 1 else f"{key}-{times[key]}"
        made = shown is not None and is_made(shown)
        found[key] = RecordedMessage(entry._replace(key=key, follows=True), digest, nameless, made)
    return found


def note(
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
        messages: The result of `named`.
        known: The messages that the thread's line shows under these names: digests of their bodies, or None for a
            removed message.
        now: The time, in microseconds since 1970.
    """
    unknown = [
        (key, each)
        for key, each in messages.items()
        if key not in known or not (each.made or each.nameless or known[key] == each.hash)
    ]
    if not unknown:
        return []
    entries = [each.entry for _, each in unknown]
    made = {key for key, each in unknown if each.made}
    stored = message_log.append(tx, ThreadKey(path, name), entries, now=now, newer=True, made=made)
    new = set(stored.keys)
    return [each._replace(new=key in new) for key, each in unknown if key in new or not each.made]


def current_turn(tx: Transaction, outlook: SearchView, now: int) -> frozenset[int]:
    """Return the documents of the current turn's messages in the running model's context.

    They include later messages that the run does not see: its own messages may be stored before the run sees them.
    """
    if outlook.turn is None:
        return frozenset()
    at, before = ThreadKey(*outlook.turn[:2]), outlook.turn.before
    turn, unseen = _newest_turn(tx, at, outlook, now)
    if turn and before is not None and turn[-1]["follows"]:
        there = outlook._replace(point=before, view=before.view(tx, now))
        if said_from(tx, there, {turn[-1]["slot"]}, now):
            turn = []
    left = outlook.context
    if turn and left is None:
        left = frozenset(row["key"] for row in turn).difference(newest_dropped(tx, at))
    rows = [*(() if outlook.abandoned else unseen), *(row for row in turn if row["key"] in (left or ()))]
    return frozenset(row["document_id"] for row in rows)


def _newest_turn(tx: Transaction, at: ThreadKey, outlook: SearchView, now: int) -> tuple[list[Row], list[Row]]:
    """Return visible messages since the user's newest, newest first, and unseen later ones."""
    limit = _NEWEST
    while True:
        turn: list[Row] = []
        unseen: list[Row] = []
        rows = query.newest_documents(tx, **at._asdict(), kind=message_log.CONVERSATION, limit=limit)
        seen = {row["slot"] for row in said_from(tx, outlook, {row["slot"] for row in rows if row["follows"]}, now)}
        for row in rows:
            if turn and turn[-1]["role"] == "user" and row["slot"] != turn[-1]["slot"]:
                return turn, unseen
            (turn if not row["follows"] or row["slot"] in seen else unseen).append(row)
        if turn and turn[-1]["role"] == "user":
            return turn, unseen
        if not rows or limit == _MOST:
            return [], unseen
        limit = _MOST


def _entry(message: Message, body: bytes | None, now: int) -> message_log.LogEntry:
    try:
        entry = entry_of(message, now, body=body)
    except MessageError:  # its time or its id is invalid
        whole = encode_body(message) if body is None else body
        entry = message_log.LogEntry("", whole, message.text, now, role=plain(message.role), sender=plain(message.name))
    return entry._replace(kept=body is not None)
