"""The stored results of compactions.

A record contains the messages that a compaction generated: a summary and shortened tool outputs. It also contains the
keys of the messages that stayed in the context unchanged. From a record and the stored messages, any process can
restore the compacted context. Editing or removing a message deletes the records that include the message.

A conversation has several contexts, which are compacted separately: the graph's state, the log, and one context per
role. The name of a context is its *lane*.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.clock import EPOCH, from_micros
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MessageError, StorageError
from langchain_agentmem.messages.langchain_messages import from_langchain, to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body
from langchain_agentmem.storage import Transaction, query

STATE, LOG = "state", "log"
"""The lanes of the graph's state and of the log."""
PAGE_SIZE = 200
"""The maximum number of records that one query reads."""


class KeySpan(NamedTuple):
    """A sequence of consecutive messages, as the keys of the first and the last one."""

    first: str
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRecord:
    """The result of a compaction of a context.

    `load_headers` loads only `id`, `digest`, `reached` and `slot`. The other attributes then have their defaults.

    Attributes:
        digest: A digest that identifies the compacted messages.
        reached: The number of compacted messages. In the lane of a role: the number of summarized rounds.
        items: The compacted context: spans of unchanged messages, and generated messages.
        dropped: The keys of the messages that this compaction removed from the context. These are single keys, because
            the log of a rewound thread has other messages between them.
        parent: The id of the compaction that this one continues.
        provisional: True if a summary in `items` was made without a model.
        tried: True if a model was available for the compaction.
        slot: The `LogEntry.slot` of the last compacted message. None for the graph's state.
        id: The row id of the record. 0 before the record is stored.
        saved: The number of tokens that this compaction and its predecessors saved, as the token counter reports it. 0
            in records of earlier versions of this package.
        lane: The lane: "state" for the graph's state, "log" for the log, or "role:" and the name of a role.
        created_at: The time of the compaction, in UTC.
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
    def generated_messages(self) -> list[BaseMessage]:
        """The generated messages: a summary and shortened tool outputs."""
        return [item for item in self.items if isinstance(item, BaseMessage)]


def load_headers(tx: Transaction, at: ThreadKey, lane: str) -> list[CompactionRecord]:
    """Return the headers of the newest records of a lane, the newest first."""
    page = {"before": message_log.NO_LIMIT, "limit": PAGE_SIZE}
    rows = message_log.branch_rows(tx, at, query.compactions, context=lane, **page)
    return [CompactionRecord(**_header_fields(row)) for row in rows]


def find_branch_identity(tx: Transaction, at: ThreadKey) -> tuple[int, int] | None:
    """Return the branch id and creation time of a conversation, or None if it does not exist.

    The two values distinguish a conversation from a deleted one of the same name.
    """
    rows = query.conversation_state(tx, path=at.path, kind=message_log.CONVERSATION, name=at.name)
    return (int(rows[0]["id"]), int(rows[0]["created_at"])) if rows else None


def load_newest(tx: Transaction, at: ThreadKey, limit: int) -> list[CompactionRecord]:
    """Return the newest records of a conversation, of any lane, the newest first.

    Raises:
        StorageError: A record is damaged.
    """
    return list(map(_record_from_row, message_log.branch_rows(tx, at, query.newest_compactions, limit=limit)))


def load_newest_dropped_keys(tx: Transaction, at: ThreadKey) -> list[str]:
    """Return the keys of the messages that are not in the newest compacted context.

    Raises:
        StorageError: A record is damaged.
    """
    records = load_newest(tx, at, 1)
    return load_dropped_keys(tx, at, records[0]) if records else []


def load_dropped_keys(tx: Transaction, at: ThreadKey, record: CompactionRecord) -> list[str]:
    """Return the keys that a compaction and its predecessors dropped, in conversation order."""
    keys = record.dropped
    # Changing a message deletes the records that include it, so a parent may be missing.
    while record.parent is not None and (parent := load_record(tx, at, record.parent)) is not None:
        record, keys = parent, parent.dropped + keys
    return [*keys]


def load_record(tx: Transaction, at: ThreadKey, record_id: int) -> CompactionRecord | None:
    """Return a record by its id; None if it was deleted.

    Raises:
        StorageError: The record is damaged.
    """
    rows = message_log.branch_rows(tx, at, query.compaction, id=record_id)
    return _record_from_row(rows[0]) if rows else None


def store_record(tx: Transaction, at: ThreadKey, lane: str, record: CompactionRecord, *, now: int) -> CompactionRecord:
    """Store a record.

    Args:
        tx: The transaction.
        at: The conversation. If it does not exist, the record is not stored.
        lane: The lane of the context.
        record: The record.
        now: The time, in microseconds since 1970.
    """
    if (branch_head := message_log.lock_conversation(tx, at)) is None:
        return record  # the conversation was deleted meanwhile
    other_fields = {name: getattr(record, name) for name in ("dropped", "parent", "provisional", "tried", "saved")}
    body = write_plain({"items": list(map(_encode_item, record.items)), **other_fields})
    fields = {"context": lane, "digest": record.digest, "message_count": record.reached, "slot": record.slot}
    [row] = query.insert_compaction(tx, branch=branch_head[0], checksum=zlib.crc32(body), body=body, now=now, **fields)
    return replace(record, id=int(row["id"]))


def find_problems(tx: Transaction) -> list[str]:
    """Return a sentence for each damaged record."""
    problems: list[str] = []
    after = 0
    while rows := query.compactions_after(tx, after=after, limit=PAGE_SIZE):
        for row in rows:
            try:
                _decode_body(row)  # raises if the record is damaged
            except StorageError as error:
                problems.append(str(error))
        after = rows[-1]["id"]
    return problems


def renumber_parent(row: dict[str, Any], ids: Mapping[int, int]) -> None:
    """Replace the parent id in the row of an imported record.

    Args:
        row: The row, which is changed.
        ids: The ids of the imported records in this database, by their ids in the source database.
    """
    body = _decode_body(row)
    body["parent"] = ids.get(body["parent"])
    row["body"] = write_plain(body)
    row["checksum"] = zlib.crc32(row["body"])


# -- encoding and decoding of records ----------------------------------------------------------------------------------


def _header_fields(row: Any) -> dict[str, Any]:
    return {"id": row["id"], "digest": bytes(row["digest"]), "reached": row["message_count"], "slot": row["slot"]}


def _record_from_row(row: Any) -> CompactionRecord:
    try:
        body = _decode_body(row)
        items = tuple(map(_decode_item, body.pop("items")))
        dropped = tuple(map(str, body.pop("dropped")))
        other_fields = {"lane": row["context"], "created_at": from_micros(row["created_at"])}
        return CompactionRecord(items=items, dropped=dropped, **body, **_header_fields(row), **other_fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(_DAMAGED_RECORD.format(row["id"])) from error


_DAMAGED_RECORD = "Compaction {} is damaged: the stored data does not match its checksum or format."


def _decode_body(row: Any) -> dict[str, Any]:
    body = bytes(row["body"])
    fields = read_plain(body) if zlib.crc32(body) == row["checksum"] else None
    if not isinstance(fields, dict):
        raise StorageError(_DAMAGED_RECORD.format(row["id"]))
    return fields


def _encode_item(item: KeySpan | BaseMessage) -> Any:
    if isinstance(item, KeySpan):
        return list(item)
    return {"id": item.id, "body": read_plain(encode_body(to_storable(item)))}


def _decode_item(item: Any) -> KeySpan | BaseMessage:
    if isinstance(item, list):
        return KeySpan(*item)
    message = to_langchain(decode_body(write_plain(item["body"]), item["id"] or "-"))
    message.id = item["id"]
    return message


def to_storable(message: BaseMessage) -> Message:
    """Convert a message for storage, without values that cannot be stored, such as artifacts."""
    converted = from_langchain(message)
    try:
        encode_body(converted)
    except MessageError:
        return from_langchain(_drop_unstorable(message))
    return converted


def _drop_unstorable(message: BaseMessage) -> BaseMessage:
    replacements: dict[str, Any] = {"content": message.text, "additional_kwargs": {}, "response_metadata": {}}
    if hasattr(message, "artifact"):
        replacements["artifact"] = None
    return message.model_copy(update=replacements)


def make_key_spans(keys: Iterable[str], indexes: dict[str, int]) -> list[KeySpan]:
    """Combine keys of a history into as few spans as possible.

    Args:
        keys: The keys, in the order of the history.
        indexes: The index of each key in the history.
    """
    spans: list[list[str]] = []
    for key in keys:
        if spans and indexes[spans[-1][1]] + 1 == indexes[key]:  # the key follows the last span directly
            spans[-1][1] = key
        else:
            spans.append([key, key])
    return [KeySpan(*span) for span in spans]
