"""What is said in threads, recorded in the conversations of their names: each message once, whoever records it.

The checkpointer tells of the messages that a checkpoint brings. They enter the conversation in the transaction that
stores the checkpoint, and follow the thread from then on: they are shown where its newest checkpoint shows them, and in
its runs where the run does. A message that leaves the state was said all the same, and stays.
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
"""Messages that are read first to find the newest of a user's, and how many at most."""


def named(messages: Sequence[CheckpointMessage], now: int) -> dict[str, RecordedMessage]:
    """Return the messages to be recorded, by the name of each; of two of one id the last.

    A message without an id is named by its content, and by how often that was named before.

    Args:
        messages: The messages of a checkpoint. Those that nobody said are left out.
        now: The time of those that tell none.
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
        path: The path of its namespace.
        name: Its id.
        messages: The result of `named`.
        known: The messages that its line shows under some of these names: digests of their bodies, or None for a
            message that somebody removed.
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
    """Return the documents of the messages of the current turn that the context of the running model still has.

    Messages after them that the run does not see are among them: its own may be stored, and not be known to it yet.
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
    """The messages since the newest of a user's that is seen, the newest first; and those after it that are not."""
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
    except MessageError:  # it tells a time that is none, or has an id that cannot be one
        whole = encode_body(message) if body is None else body
        entry = message_log.LogEntry("", whole, message.text, now, role=plain(message.role), sender=plain(message.name))
    return entry._replace(kept=body is not None)
