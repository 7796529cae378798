"""What a context was compacted to, as it is kept: the database's side of a compaction.

A record names the messages that stayed as they were, from one to another, and holds those that were made: a summary, a
shortened tool output. With the messages it gives the very same context again, in any process. Who edits or removes a
message takes away the records that stand for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.clock import EPOCH, moment
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MessageError, StorageError
from langchain_agentmem.messages.langchain_messages import from_langchain, to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body
from langchain_agentmem.storage import Transaction, query

STATE, LOG = "state", "log"
"""Lanes: the context of a graph's state, and that of the conversation's own log. A role has a lane of its own."""
PAGE = 200


class KeySpan(NamedTuple):
    """Messages that stand one after the other, named by the first and the last of them."""

    first: str
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRecord:
    """What a context was compacted to.

    Attributes:
        digest: Of everything up to where it reaches.
        reached: How many messages that are.
        items: The context up to there: messages as they were, and messages that were made. Empty without the body.
        dropped: The keys of the messages that left the context with this compaction, and not before. They are named one
            by one, since the log of a thread that was rewound holds other messages between them.
        parent: The compaction that this one went on from.
        provisional: Whether a summary in it was made without a model.
        tried: Whether a model was asked for it.
        slot: The row of the last message, where it is a record of the log.
        id: Its number; 0 before it is kept.
        saved: How many tokens the context is shorter by than everything up to there, uncalibrated. Records that were
            kept before this was noted have 0.
        lane: Whose context: "state" for that of a graph, "log" for the conversation's own; else a role's. "" where it
            was not read.
        created_at: When, in UTC; 1970 where it was not read.
    """

    digest: bytes
    reached: int
    items: tuple[KeySpan | BaseMessage, ...] = ()
    dropped: tuple[str, ...] = ()
    parent: int | None = None
    provisional: bool = False
    tried: bool = False
    slot: int | None = None
    id: int = 0
    saved: int = 0
    lane: str = ""
    created_at: datetime = EPOCH

    @property
    def made(self) -> list[BaseMessage]:
        """The messages that it made: a summary, which `messages_behind` leads from, shortened tool outputs."""
        return [each for each in self.items if isinstance(each, BaseMessage)]


def headers(tx: Transaction, at: ThreadKey, lane: str) -> list[CompactionRecord]:
    """Return the newest records of a lane, the newest first, without their bodies."""
    rows = message_log.rows_of(tx, at, query.compactions, lane=lane, before=message_log.ALL, limit=PAGE)
    return [CompactionRecord(**_header(row)) for row in rows]


def identity(tx: Transaction, at: ThreadKey) -> tuple[int, int] | None:
    """What tells a conversation from one of the same name that was there before; None where it does not exist."""
    rows = query.branch_counts(tx, path=at.path, kind=message_log.CONVERSATION, name=at.name)
    return (int(rows[0]["id"]), int(rows[0]["created_at"])) if rows else None


def newest(tx: Transaction, at: ThreadKey, limit: int) -> list[CompactionRecord]:
    """Return the newest compactions of a conversation that are in use, the newest first.

    Raises:
        StorageError: One is damaged.
    """
    return list(map(_read, message_log.rows_of(tx, at, query.newest_compactions, limit=limit)))


def newest_dropped(tx: Transaction, at: ThreadKey) -> list[str]:
    """Return the keys of the messages that the newest context in use of a conversation has lost.

    Raises:
        StorageError: A record is damaged.
    """
    found = newest(tx, at, 1)
    return all_dropped(tx, at, found[0]) if found else []


def all_dropped(tx: Transaction, at: ThreadKey, record: CompactionRecord) -> list[str]:
    """What left a context with a compaction and with those it went on from, in the order of the conversation."""
    keys = record.dropped
    # Where a message of a record was changed, the record was taken away.
    while record.parent is not None and (before := load(tx, at, record.parent)) is not None:
        record, keys = before, before.dropped + keys
    return [*keys]


def load(tx: Transaction, at: ThreadKey, number: int) -> CompactionRecord | None:
    """One record; None where it is gone.

    Raises:
        StorageError: It is damaged.
    """
    rows = message_log.rows_of(tx, at, query.compaction, id=number)
    return _read(rows[0]) if rows else None


def keep(tx: Transaction, at: ThreadKey, lane: str, record: CompactionRecord, *, now: int) -> CompactionRecord:
    """Keep a record.

    Args:
        tx: The transaction.
        at: The conversation. The record is not kept where it does not exist.
        lane: Whose context.
        record: What to keep.
        now: When, in microseconds since 1970.
    """
    found = message_log.locked(tx, at)
    if found is None:
        return record  # the conversation was deleted meanwhile
    body, fields = _written(record), {"digest": record.digest, "reached": record.reached, "slot": record.slot}
    [row] = query.insert_compaction(
        tx, branch=found[0], checksum=zlib.crc32(body), body=body, lane=lane, now=now, **fields
    )
    return replace(record, id=int(row["id"]))


def problems(tx: Transaction) -> list[str]:
    """What is wrong with the records, in sentences."""
    found: list[str] = []
    after = 0
    while rows := query.compactions_after(tx, after=after, limit=PAGE):
        for row in rows:
            try:
                _checked(row)
            except StorageError as error:
                found.append(str(error))
        after = rows[-1]["id"]
    return found


def renumber(row: dict[str, Any], ids: Mapping[int, int]) -> None:
    """Have a record that comes from another database name the record before it by its id here."""
    body = _checked(row)
    body["parent"] = ids.get(body["parent"])
    row["body"] = write_plain(body)
    row["checksum"] = zlib.crc32(row["body"])


# -- the parts of the above ----------------------------------------------------------------------------------------


def _header(row: Any) -> dict[str, Any]:
    return {"id": row["id"], "digest": bytes(row["digest"]), "reached": row["reached"], "slot": row["slot"]}


def _read(row: Any) -> CompactionRecord:
    try:
        body = _checked(row)
        items = tuple(map(_made, body.pop("items")))
        dropped = tuple(map(str, body.pop("dropped")))
        beside = {"lane": row["lane"], "created_at": moment(row["created_at"])}
        return CompactionRecord(items=items, dropped=dropped, **body, **_header(row), **beside)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(_DAMAGED.format(row["id"])) from error


_DAMAGED = "The compaction {} is not what was stored."


def _checked(row: Any) -> dict[str, Any]:
    body = bytes(row["body"])
    if zlib.crc32(body) != row["checksum"]:
        raise StorageError(_DAMAGED.format(row["id"]))
    fields = read_plain(body)
    if not isinstance(fields, dict):
        raise StorageError(_DAMAGED.format(row["id"]))
    return fields


def _written(record: CompactionRecord) -> bytes:
    beside = {name: getattr(record, name) for name in ("dropped", "parent", "provisional", "tried", "saved")}
    return write_plain({"items": [_item(each) for each in record.items], **beside})


def _item(item: KeySpan | BaseMessage) -> Any:
    if isinstance(item, KeySpan):
        return list(item)
    message = storable(item)
    return {"id": item.id, "body": read_plain(encode_body(message))}


def _made(item: Any) -> KeySpan | BaseMessage:
    if isinstance(item, list):
        return KeySpan(*item)
    message = to_langchain(decode_body(write_plain(item["body"]), item["id"] or "-"))
    message.id = item["id"]
    return message


def storable(message: BaseMessage) -> Message:
    """A message as it can be stored: without what no database can hold, such as an object in an artifact."""
    made = from_langchain(message)
    try:
        encode_body(made)
    except MessageError:
        return from_langchain(_without_objects(message))
    return made


def _without_objects(message: BaseMessage) -> BaseMessage:
    bare: dict[str, Any] = {"content": message.text, "additional_kwargs": {}, "response_metadata": {}}
    if hasattr(message, "artifact"):
        bare["artifact"] = None
    return message.model_copy(update=bare)


def spans(keys: Iterable[str], places: dict[str, int]) -> list[KeySpan]:
    """Keys of a history as few spans.

    Args:
        keys: In the order of the history.
        places: Where each key stands in it.
    """
    found: list[list[str]] = []
    for key in keys:
        if found and places[found[-1][1]] + 1 == places[key]:
            found[-1][1] = key
        else:
            found.append([key, key])
    return [KeySpan(*each) for each in found]
