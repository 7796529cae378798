"""Items as database rows: their keys, values and times, and how they are read and written.

A value is stored as JSON, with tags for types that JSON lacks. Its text is searchable. No function returns an expired
item, even before `sweep` deletes its row. Each write updates the search index in the same transaction. Replaced and
deleted texts are removed from the index completely.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import orjson

from langchain_agentmem.base.encoding import TAG, decode, is_plain, json_value, read_column, to_plain, write_plain
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import DocumentSeries, IndexedDocument
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

ITEM_KIND = "item"


MAX_KEY_BYTES = 2_000
"""The maximum length of a key in UTF-8. PostgreSQL cannot index longer keys."""
MAX_TTL = 1e9
"""The maximum time to live, in minutes: about 1,900 years."""

_TAG_BYTES = TAG.encode()
_NUMBER_TYPES, _DICT_TYPES = (int, float), (dict, Mapping)  # dict first: a check for an abstract class is slow
_LONG_DIGITS = 19  # integers of fewer digits fit into 64 bits
_LONG_NUMBER = re.compile(rb"\d{%d}" % _LONG_DIGITS)
_NON_DIGITS = bytes(code for code in range(256) if code not in b"0123456789")
_INVALID_CHARS = re.compile(r"[\x00\ud800-\udfff]")


def check_key(key: Any) -> str:
    """Check the key of an item, and return it.

    Raises:
        InvalidInput: The key is not a string, is empty or too long, or contains a NUL or an unpaired surrogate.
    """
    if isinstance(key, str) and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES and "\0" not in key:
        return key
    if not isinstance(key, str) or not key or _INVALID_CHARS.search(key) or len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidInput(
            f"The key of an item must be a string of 1 to {MAX_KEY_BYTES} bytes without NULs and unpaired surrogates, "
            f"got {safe_repr(key)}."
        )
    return key


def check_ttl(ttl: Any) -> float | None:
    """Check a time to live in minutes, and return it as a float.

    Raises:
        InvalidInput: The time is neither None nor a positive number of at most `MAX_TTL`.
    """
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= MAX_TTL:
        raise InvalidInput(f"ttl must be a positive number of minutes, or None for no expiry, not {safe_repr(ttl)}.")
    return float(ttl)


def encode_value(value: Mapping[str, Any]) -> bytes:
    """Encode a value as JSON for storage.

    The keys keep their order. Objects of types that JSON lacks are tagged.

    Raises:
        InvalidInput: The value is not a dictionary, or contains an object that cannot be stored as JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The value of an item must be a dictionary, not {type(value).__name__}.")
    plain = dict(value)
    return write_plain(plain if is_plain(plain) else to_plain(plain))


def decode_value(data: bytes, path: str, key: str) -> dict[str, Any]:
    """Decode the stored value of an item.

    Raises:
        DatabaseUnreadable: The stored bytes are damaged.
    """
    try:
        value = _decode(data)
    except InvalidInput as error:
        raise damaged_item_error(path, key) from error
    if not isinstance(value, dict):
        raise damaged_item_error(path, key)
    return value


def damaged_item_error(path: str, key: str) -> DatabaseUnreadable:
    """Return the error for an item whose value cannot be read."""
    item = f"{safe_repr(key)} in {safe_repr(namespace_of(path))}"
    return DatabaseUnreadable(f"The item {item} is damaged. Delete it, or restore a backup.")


def full_text(value: Mapping[str, Any]) -> str:
    """Return all strings and numbers of a value, one per line. Keys and booleans are omitted."""
    texts: list[str] = []
    _collect_texts(value, texts)
    return "\n".join(texts)


def stored_text(value: Mapping[str, Any], data: bytes) -> str:
    """Return the text to index for a value.

    `write` later computes the text again from the stored bytes, to remove it from the index. Both texts must be equal.

    Args:
        value: The value.
        data: The result of `encode_value`.
    """
    return full_text(value) if _TAG_BYTES not in data else indexed_text(data, None)


def _collect_texts(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, _NUMBER_TYPES):
        if not isinstance(value, bool):
            texts.append(str(value))
    elif isinstance(value, _DICT_TYPES):
        for inner in value.values():
            if type(inner) is str:
                texts.append(inner)
            else:
                _collect_texts(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _collect_texts(inner, texts)
    elif value is not None:
        _collect_texts(json_value(value), texts)


def _decode(data: bytes) -> Any:
    """Decode a value with orjson, which is faster than `decode`, if both give the same result."""
    # Counting the digits first is faster than a search for a long number.
    has_long_number = len(data.translate(None, _NON_DIGITS)) >= _LONG_DIGITS and _LONG_NUMBER.search(data)
    if _TAG_BYTES in data or has_long_number:  # orjson reads integers beyond 64 bits as floats
        return decode(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # text that is not valid UTF-8, or damaged bytes
        return decode(data)


def encode_texts(field_texts: tuple[str, ...] | None) -> str | None:
    """Encode the texts of indexed fields for storage; None if the whole value is indexed."""
    return None if field_texts is None else json.dumps(field_texts)


def indexed_texts(data: bytes | None, indexed: str | None) -> tuple[str, ...]:
    """Return the indexed texts of a stored item.

    Args:
        data: The stored value. Needed only if the whole value is indexed.
        indexed: The result of `encode_texts`.
    """
    try:
        if indexed is not None:
            return tuple(map(str, read_column(indexed, list)))
        return (full_text(_decode(bytes(data or b"{}"))),)
    except (InvalidInput, DatabaseUnreadable, AttributeError):  # a damaged item can still be deleted
        return ("",)


def indexed_text(data: bytes | None, indexed: str | None) -> str:
    """Return the result of `indexed_texts` as one text, joined by newlines."""
    return "\n".join(indexed_texts(data, indexed))


MINUTE_MICROS = 60_000_000
"""The number of microseconds in a minute."""
PAGE_SIZE = 500
"""The maximum number of items that one query reads, or one sweep deletes."""


class ItemPlace(NamedTuple):
    """The place of an item: the path of its namespace, and its key."""

    path: str
    key: str


class ItemTimes(NamedTuple):
    """The times of an item, in microseconds since 1970.

    `expires_at` is None if the item never expires.
    """

    created_at: int
    updated_at: int
    expires_at: int | None


class ItemDraft(NamedTuple):
    """An item to write.

    Attributes:
        value: The result of `encode_value`.
        ttl: Minutes from the last write, or the last read that postpones the expiry, until the item expires. None if
            it never expires.
        text: The text to index. An empty text is not indexed.
        field_texts: The texts of the fields to index. None if the whole value is indexed.
        times: The times of an imported item. None for an item that is written now.
        source: The kind of writer, such as "user" or "model". None if unknown.
        actor: The name of the writer.
    """

    value: bytes
    ttl: float | None = None
    text: str = ""
    field_texts: tuple[str, ...] | None = None
    times: ItemTimes | None = None
    source: str | None = None
    actor: str | None = None


class StoredItem(NamedTuple):
    """An item as it is stored."""

    id: int
    place: ItemPlace
    value: bytes
    created_at: int
    updated_at: int
    ttl: float | None


LockedRows = dict[str, dict[str, Row]]
"""Locked rows of items, by the path of their namespace, and then by their key."""
ItemChanges: TypeAlias = Mapping[ItemPlace, ItemDraft | None]
"""The drafts of items by place. None deletes the item."""


def get(tx: Transaction, places: Iterable[ItemPlace], *, now: int) -> dict[ItemPlace, StoredItem]:
    """Return the items at the given places, except missing and expired ones."""
    items: dict[ItemPlace, StoredItem] = {}
    by_path: dict[str, dict[str, ItemPlace]] = {}
    for place in places:
        by_path.setdefault(place.path, {})[place.key] = place
    for path, by_key in by_path.items():
        if len(by_key) == 1:
            rows = query.find_item(tx, path=path, key=next(iter(by_key)), now=now)
        else:
            rows = query.find_items(tx, path=path, keys=json.dumps(list(by_key)), now=now)
        items |= {(place := by_key[row["key"]]): item_from_row(row, place) for row in rows}
    return items


def lock(tx: Transaction, places: Iterable[ItemPlace]) -> LockedRows:
    """Lock and return the rows of items that will be written, including expired items.

    A missing row cannot be locked. If another writer inserts it before this transaction does, the transaction is
    retried.
    """
    locked: LockedRows = {}
    for path, keys in _by_namespace(places):
        locked[path] = {row["key"]: row for row in query.items_to_write(tx, path=path, keys=json.dumps(keys))}
    return locked


def write(tx: Transaction, changes: ItemChanges, locked: LockedRows | None = None, *, now: int) -> None:
    """Write items, or delete those without a draft.

    An existing item keeps its creation time. An expired item gets a new one.

    Args:
        tx: The transaction.
        changes: The drafts by place.
        locked: The result of `lock` for these items in this transaction. Default: the items are locked now.
        now: The current time, in microseconds since 1970.
    """
    locked = lock(tx, changes) if locked is None else locked
    paths_of_deleted = set()
    for path, keys in _by_namespace(changes):
        existing = locked[path]
        drafts = [(key, draft) for key in keys if (draft := changes[ItemPlace(path, key)]) is not None]
        if drafts:
            _write(tx, path, drafts, existing, now=now)
        if deleted := [existing[key] for key in keys if changes[ItemPlace(path, key)] is None and key in existing]:
            _delete(tx, deleted)
            paths_of_deleted.add(path)
    _delete_empty(tx, paths_of_deleted)


def touch(tx: Transaction, items: Iterable[StoredItem], *, now: int) -> None:
    """Postpone the expiry of items that were read. Items without a ttl are ignored."""
    rows = {
        item.id: {"id": item.id, "updated_at": item.updated_at, "expires_at": compute_expiry(item.ttl, now), "now": now}
        for item in items
        if item.ttl is not None
    }
    if rows:
        query.touch_item.run_many(tx, [row for _, row in sorted(rows.items())])


def sweep(tx: Transaction, *, now: int, limit: int = PAGE_SIZE) -> int:
    """Delete expired items.

    Args:
        tx: The transaction.
        now: The current time, in microseconds since 1970.
        limit: The maximum number of items to delete. Default: 500.

    Returns:
        The number of deleted items.
    """
    if rows := query.expired_items(tx, now=now, limit=limit):
        _delete(tx, rows)
        _delete_empty(tx, {row["path"] for row in rows})
    return len(rows)


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete all items of the namespaces in a range of paths. Return the number of items."""
    erased = 0
    paths = set()
    while rows := query.items_within(tx, path=low, key="", high=high, limit=PAGE_SIZE):
        _delete(tx, rows)
        erased += len(rows)
        paths |= {row["path"] for row in rows}
    _delete_empty(tx, paths)
    return erased


def find_problems(tx: Transaction, low: str, high: str) -> list[str]:
    """Describe the damaged items in a range of paths, and all items missing from the index."""
    problems: list[str] = []
    path, key = low, ""
    while rows := query.items_within(tx, path=path, key=key, high=high, limit=PAGE_SIZE):
        damaged = (row for row in rows if zlib.crc32(bytes(row["value"])) != row["checksum"])
        problems += [str(damaged_item_error(*_parse_place(row))) for row in damaged]
        path, key = _parse_place(rows[-1])
    lost = ((safe_repr(row["key"]), safe_repr(namespace_of(row["path"]))) for row in query.lost_items(tx))
    return problems + [f"the item {key} in {namespace} is not in the index" for key, namespace in lost]


def item_from_row(row: Row, place: ItemPlace) -> StoredItem:
    """Convert a row to the item at a place."""
    return StoredItem(row["id"], place, bytes(row["value"]), row["created_at"], row["updated_at"], row["ttl"])


def _write(
    tx: Transaction, path: str, drafts: Sequence[tuple[str, ItemDraft]], existing: Mapping[str, Row], *, now: int
) -> None:
    """Write the drafts of one namespace, and update the index.

    An item whose indexed text and creation time stay equal keeps its document in the index.
    """
    times = {key: _item_times(draft, existing.get(key), now) for key, draft in drafts}
    documents: dict[str, int] = {}  # document numbers by item key
    new_documents, old_texts = {}, []
    for key, draft in drafts:
        row = existing.get(key)
        if row is not None and row["document_id"] is not None:
            old_text = indexed_text(row["value"], row["indexed"])
            new = draft.text, encode_texts(draft.field_texts), times[key].created_at
            if (old_text, row["indexed"], row["created_at"]) == new:
                documents[key] = row["document_id"]
                continue
            old_texts.append((row["document_id"], old_text))
        if draft.text:
            new_documents[key] = IndexedDocument(draft.text, times[key].created_at)
    search_index.remove(tx, old_texts)
    if new_documents:
        placed = search_index.reserve_places(tx, DocumentSeries(path, ITEM_KIND), list(new_documents.values()))
        documents |= zip(new_documents, placed.numbers, strict=True)
    elif not existing:
        query.create_namespace(tx, path=path)
    rows = {key: _item_columns(draft, times[key], documents.get(key)) for key, draft in drafts}
    ids = {key: row["id"] for key, row in existing.items()}
    ids |= _insert(tx, path, [{"path": path, "key": key, **row} for key, row in rows.items() if key not in existing])
    if changed := [{"id": ids[key], **row} for key, row in rows.items() if key in existing]:
        query.update_item.run_many(tx, changed) if len(changed) > 1 else query.update_item(tx, **changed[0])
    if new_documents:
        search_index.write(tx, placed, [ids[key] for key in new_documents])


def _insert(tx: Transaction, path: str, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Insert items, and return their row ids by key."""
    if not rows:
        return {}
    if len(rows) == 1:
        inserted = query.insert_item_returning(tx, **rows[0])
    else:
        query.insert_item.run_many(tx, rows)
        inserted = query.item_ids(tx, path=path, keys=json.dumps([row["key"] for row in rows]))
    return {row["key"]: row["id"] for row in inserted}


def _delete(tx: Transaction, rows: Sequence[Row]) -> None:
    indexed = [row for row in rows if row["document_id"] is not None]
    search_index.remove(tx, [(row["document_id"], indexed_text(row["value"], row["indexed"])) for row in indexed])
    query.delete_item.run_many(tx, [{"id": row["id"]} for row in rows])


def _delete_empty(tx: Transaction, paths: Iterable[str]) -> None:
    """Delete the index series of the namespaces that have no items left, and empty namespaces."""
    for path in sorted(paths):
        if not query.has_items(tx, path=path):
            search_index.delete_series(tx, path, ITEM_KIND)
            query.delete_empty_namespaces(tx, path=path)


def _by_namespace(places: Iterable[ItemPlace]) -> list[tuple[str, list[str]]]:
    """Group keys by the path of their namespace. Both paths and keys are sorted."""
    groups = groupby(sorted(set(places)), lambda place: place.path)
    return [(path, [place.key for place in group]) for path, group in groups]


def _item_columns(draft: ItemDraft, times: ItemTimes, document: int | None) -> dict[str, Any]:
    """Return the columns of an item. `document` is its number in the search index."""
    return {
        **times._asdict(),
        "checksum": zlib.crc32(draft.value),
        "ttl": draft.ttl,
        "document": document,
        "indexed": encode_texts(draft.field_texts) if document is not None else None,
        "value": draft.value,
        "source": draft.source,
        "actor": draft.actor,
    }


def _item_times(draft: ItemDraft, row: Row | None, now: int) -> ItemTimes:
    """Return the times of an item to write. An expired item gets a new creation time."""
    is_unexpired = row is not None and (row["expires_at"] is None or row["expires_at"] > now)
    return draft.times or ItemTimes(
        created_at=row["created_at"] if row is not None and is_unexpired else now,
        updated_at=now,
        expires_at=None if draft.ttl is None else compute_expiry(draft.ttl, now),
    )


def compute_expiry(ttl: float, now: int) -> int:
    """Return the expiry of an item that is written or read now. `ttl` is in minutes."""
    return now + round(ttl * MINUTE_MICROS)


def _parse_place(row: Row) -> ItemPlace:
    return ItemPlace(row["path"], row["key"])
