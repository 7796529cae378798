"""Conversion of audit entries to rows, and of rows to entries.

Each model call receives the whole history again. To store each message only once, the calls of a conversation share a
part store (`threads/value_store.py`). Each message is one numbered part of the store. A call stores a *recipe*: encoded
ranges of part numbers, usually one range. Part stores, conversations and checkpoints share the bodies of messages, so
an existing body is not stored again.

Messages are identified by their content and not by their ids, because a graph without a checkpointer makes new ids for
each call. The id of a loaded message consists of the digest of its body and the number of its part.

An entry stores its prompt and its reply as separate texts, even if a message contains them. So lists of entries, the
search and the junk rules do not read messages.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_agentmem.audit.audit_entry import SALT_BYTES, AuditEntry, entry_digest
from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.encoding import from_plain, is_plain, read_column, read_plain, to_plain, write_plain
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.errors import AgentMemoryError, DatabaseUnreadable, InvalidInput, safe_repr
from langchain_agentmem.messages.message import Message, decode_body
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.value_store import Range, delete_unneeded, ranges_of, to_ranges, unpack

VISIBLE, JUNK, REPLACED = range(3)
"""The values of the column `hidden`: visible, hidden as junk, or replaced by a newer version."""
MARK_BYTES = 16
MOST_MESSAGES = 1_000_000
"""The maximum number of messages of a call. A recipe of more messages is treated as damaged."""
PAGE = 500
"""The number of rows that one query reads."""

_JSON_PREFIX = b"{"  # an uncompressed body is a JSON object
_OPTIONAL_FIELDS = ("title", "model", "error", "run_id", "parent_run_id", "duration")


class EntryDraft(NamedTuple):
    """An entry to add.

    Attributes:
        entry: The entry.
        mark: A value that related entries share: equivalent todos share `todo_key(text)`, the versions of a reference
            its title, and the calls of a conversation `call_mark(entry)`. Default: None.
        replaced: True if a newer version of the entry exists. Default: False.
    """

    entry: AuditEntry
    mark: str | bytes | None = None
    replaced: bool = False


class StoredCall(NamedTuple):
    """The stored messages of a call.

    Attributes:
        store_id: The id of the part store with the messages.
        recipe: The packed recipe of the messages.
        digests: The digests of the message bodies, in order.
    """

    store_id: int
    recipe: bytes
    digests: Sequence[bytes]


def call_mark(entry: AuditEntry) -> bytes:
    """Return the mark of a call, which calls of one conversation or thread share."""
    return _hash_mark(entry.conversation_id or entry.thread_id or "")


def part_numbers(recipe: bytes) -> list[int]:
    """Return the numbers of the parts in a packed recipe, in order.

    Raises:
        ValueError: The recipe is damaged.
    """
    ranges = list(ranges_of(unpack(recipe)))
    if sum(high - low for low, high in ranges) > MOST_MESSAGES:
        raise ValueError(f"{len(ranges)} ranges contain more than {MOST_MESSAGES:,} messages")
    return [number for low, high in ranges for number in range(low, high)]


def load_digests(tx: Transaction, rows: Iterable[Row]) -> dict[int, dict[int, bytes]]:
    """Load the digests of the message bodies of rows, by part store and part number."""
    digests: dict[int, dict[int, bytes]] = {}
    for store_id, numbers in _numbers_by_store(rows).items():
        digests[store_id] = {}
        for low, high in to_ranges(sorted(numbers)):
            for row in query.part_hashes(tx, store=store_id, low=low, high=high):
                digests[store_id][row["number"]] = bytes(row["hash"])
    return digests


def _numbers_by_store(rows: Iterable[Row]) -> dict[int, set[int]]:
    """Return the part numbers of the messages of rows, by part store. Omit damaged rows."""
    numbers: dict[int, set[int]] = {}
    for row in rows:
        if row["store_id"] is not None:
            with suppress(TypeError, ValueError):
                numbers.setdefault(row["store_id"], set()).update(part_numbers(row["messages"]))
    return numbers


def free_parts(tx: Transaction, path: str, mark: bytes, store_id: int) -> None:
    """Delete the parts of a store that no call uses, and the store if no part is used.

    Nothing is deleted if the recipe of a call is damaged.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        mark: The mark of the calls that use the store.
        store_id: The id of the part store.
    """
    used: set[Range] = set()
    after = 0
    while rows := query.audit_recipes(tx, path=path, mark=mark, store=store_id, after=after, limit=PAGE):
        try:
            used.update(part_range for row in rows for part_range in ranges_of(unpack(row["messages"])))
        except ValueError:
            return  # the parts in a damaged recipe are unknown
        after = rows[-1]["sequence"]
    delete_unneeded(tx, store_id, used)
    if not used:
        query.delete_idle_store(tx, store=store_id)


def encode_mark(mark: str | bytes | None) -> bytes | None:
    """Convert a mark to its stored form: a text becomes a digest."""
    return _hash_mark(mark) if isinstance(mark, str) else mark


def _hash_mark(mark: str) -> bytes:
    return blake2b(mark.encode("utf-8", "surrogatepass"), digest_size=MARK_BYTES).digest()


def make_row(path: str, draft: EntryDraft, call: StoredCall | None) -> dict[str, Any]:
    """Make the row of an entry, with its digest but without its sequence number and link.

    Args:
        path: The path of the entry's namespace.
        draft: The entry.
        call: The stored messages of the call. None for an entry without messages.

    Raises:
        InvalidInput: A field of the entry, such as `extra`, has a value that cannot be stored.
    """
    entry = draft.entry
    body = _encode_body(entry)
    salt = os.urandom(SALT_BYTES)
    row: dict[str, Any] = {
        "salt": salt,
        "key": entry.id,
        "kind": entry.kind,
        "hidden": REPLACED if draft.replaced else JUNK if entry.junk else VISIBLE,
        "conversation": entry.conversation_id,
        "thread": entry.thread_id,
        "created_at": to_micros(entry.created_at),
        "junk": json.dumps(entry.junk) if entry.junk else None,
        "status": entry.status,
        "mark": encode_mark(draft.mark),
        "archived": int(entry.archived),
        "store": None if call is None else call.store_id,
        "messages": None if call is None else call.recipe,
        "body": compress_body(body) if entry.archived else body,
    }
    row["digest"] = entry_digest(salt, _fixed_columns(path, row), body, () if call is None else call.digests)
    return row


def compute_digest(row: Row, messages: Mapping[int, bytes]) -> bytes:
    """Compute the digest of a stored row.

    Args:
        row: The row.
        messages: The digests of the parts in the row's part store, by part number.

    Raises:
        ValueError: The row is damaged.
        KeyError: A message of the row is missing.
    """
    digests = [] if row["messages"] is None else [messages[number] for number in part_numbers(row["messages"])]
    body = decompress_body(row["body"])
    return entry_digest(bytes(row["salt"]), _fixed_columns(row["path"], row), body, digests)


def load_entries(tx: Transaction, rows: Sequence[Row], *, messages: bool = True) -> list[AuditEntry]:
    """Convert rows to entries, in the same order.

    Args:
        tx: The transaction.
        rows: The rows from the queries.
        messages: True to load the messages of calls. False is faster for long histories. Default: True.

    Raises:
        DatabaseUnreadable: A row or one of its messages is damaged.
    """
    parts = _load_messages(tx, rows) if messages else {}
    return [_entry_from_row(row, parts, messages=messages) for row in rows]


def read_texts(rows: Iterable[Row]) -> dict[int, tuple[str, str]]:
    """Return the prompts and replies of rows, by sequence number. Omit damaged rows."""
    texts: dict[int, tuple[str, str]] = {}
    for row in rows:
        with suppress(KeyError, TypeError, ValueError, AgentMemoryError):
            body = read_plain(decompress_body(row["body"]))
            texts[row["sequence"]] = (str(body["prompt"]), str(body["reply"]))
    return texts


def search_texts(rows: Sequence[Row]) -> dict[int, str]:
    """Return the searchable texts of rows, by sequence number. Damaged rows have empty texts."""
    texts = read_texts(rows)
    return {row["sequence"]: "\n".join(texts.get(row["sequence"], ())) for row in rows}


def compress_body(body: bytes) -> bytes:
    """Compress a body for the archive. Return it unchanged if compression does not shorten it."""
    packed = zlib.compress(body, 9)
    return packed if len(packed) < len(body) else body


def decompress_body(body: Any) -> bytes:
    """Return the uncompressed form of a body.

    Raises:
        ValueError: The body is damaged.
    """
    data = bytes(body)
    if data.startswith(_JSON_PREFIX):
        return data
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _fixed_columns(path: str, row: Row) -> list[Any]:
    """Return the values of the columns that never change, as `entry_digest` expects them."""
    mark = None if row["mark"] is None else bytes(row["mark"]).hex()
    return [path, *(row[name] for name in ("key", "kind", "conversation", "thread", "created_at")), mark]


def _encode_body(entry: AuditEntry) -> bytes:
    fields: dict[str, Any] = {"prompt": entry.prompt, "reply": entry.reply}
    fields |= {name: value for name in _OPTIONAL_FIELDS if (value := getattr(entry, name)) is not None}
    if entry.input_tokens is not None or entry.output_tokens is not None:
        fields["tokens"] = [entry.input_tokens, entry.output_tokens]
    if entry.extra:
        extra = dict(entry.extra)
        fields["extra"] = extra if is_plain(extra) else to_plain(extra)
    try:
        return write_plain(fields)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The entry {safe_repr(entry.id)} cannot be stored: {error}.") from error


def _load_messages(tx: Transaction, rows: Iterable[Row]) -> dict[tuple[int, int], Message]:
    """Load the messages of rows, by part store and part number. Omit damaged messages."""
    messages: dict[tuple[int, int], Message] = {}
    for store_id, numbers in _numbers_by_store(rows).items():
        for row in query.parts_in_ranges(tx, store=store_id, ranges=json.dumps(to_ranges(sorted(numbers)))):
            number, body = row["number"], bytes(row["body"] or b"")
            with suppress(DatabaseUnreadable):
                messages[store_id, number] = decode_body(body, f"{queries.digest(body).hex()}-{number}")
    return messages


def _entry_from_row(row: Row, parts: Mapping[tuple[int, int], Message], *, messages: bool) -> AuditEntry:
    try:
        body = read_plain(decompress_body(row["body"]))
        numbers = part_numbers(row["messages"]) if messages and row["store_id"] is not None else ()
        input_tokens, output_tokens = body.get("tokens", (None, None))
        return AuditEntry(
            id=row["key"],
            kind=row["kind"],
            prompt=str(body["prompt"]),
            reply=str(body["reply"]),
            created_at=from_micros(row["created_at"]),
            conversation_id=row["conversation"],
            namespace=namespace_of(row["path"]),
            junk=tuple(read_column(row["junk"], list)),
            status=row["status"],
            thread_id=row["thread"],
            messages=tuple(parts[row["store_id"], number] for number in numbers),
            archived=bool(row["archived"]),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            extra=from_plain(body.get("extra", {})),
            **{name: body.get(name) for name in _OPTIONAL_FIELDS},
        )
    except (AttributeError, KeyError, TypeError, ValueError, AgentMemoryError) as error:
        raise DatabaseUnreadable(
            f"The entry {safe_repr(row['key'])} of the audit trail, number {row['sequence']}, is damaged. Restore "
            "it from a backup, or erase its conversation or namespace."
        ) from error
