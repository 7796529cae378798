"""Items as rows: their keys and values, and the operations get, write, put off their end, sweep, erase.

A value is kept as JSON, with tags for what JSON has no word for, and is found by its text. What has expired is gone for
every reader from that moment on; a sweep only frees its room. The search index follows in the same transaction: what is
overwritten, shrunk, no longer to be found, deleted or swept leaves nothing behind in it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from langchain_agentmem.base.encoding import TAG, decode, is_plain, json_value, read_column, to_plain, write_plain
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import IndexedDocument
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

KIND = "item"


LONGEST_KEY = 2_000
"""Bytes; PostgreSQL's indexes have no room for more."""
LONGEST_TTL = 1e9
"""Minutes: some 1,900 years."""

_TAGGED = TAG.encode()
_LONG = 19
_LONG_NUMBER = re.compile(rb"\d{%d}" % _LONG)
_NO_DIGITS = bytes(code for code in range(256) if code not in b"0123456789")
_UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")


def key_of(key: Any) -> str:
    """Check the key of an item.

    Raises:
        InvalidInput: It is no text, empty, too long, or has characters that no database can keep.
    """
    if isinstance(key, str) and key.isascii() and 0 < len(key) <= LONGEST_KEY and "\0" not in key:
        return key
    if not isinstance(key, str) or not key or _UNUSABLE.search(key) or len(key.encode()) > LONGEST_KEY:
        raise InvalidInput(
            f"{safe_repr(key)} cannot be the key of an item: keys are strings of 1 to {LONGEST_KEY} bytes "
            "without NULs and unpaired surrogates."
        )
    return key


def ttl_of(ttl: Any) -> float | None:
    """Check a time to live.

    Raises:
        InvalidInput: It is no positive number of minutes.
    """
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be a positive number of minutes, or None for no end, not {safe_repr(ttl)}.")
    return float(ttl)


def written(value: Mapping[str, Any]) -> bytes:
    """The value as it is stored: JSON, keys in their order, with tags for what JSON has no word for.

    Raises:
        InvalidInput: It is no dictionary, or holds what cannot be stored as JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The value of an item is a dictionary, not {type(value).__name__}.")
    plain = dict(value)
    return write_plain(plain if is_plain(plain) else to_plain(plain))


def read(data: bytes, path: str, key: str) -> dict[str, Any]:
    """The value of an item, made anew.

    Raises:
        DatabaseUnreadable: The stored bytes are damaged.
    """
    try:
        value = _decoded(data)
    except InvalidInput as error:
        raise damaged(path, key) from error
    if not isinstance(value, dict):
        raise damaged(path, key)
    return value


def damaged(path: str, key: str) -> DatabaseUnreadable:
    """The error for an item whose value cannot be read."""
    return DatabaseUnreadable(
        f"The item {safe_repr(key)} in {safe_repr(namespace_of(path))} is damaged. Delete it, or restore a backup."
    )


def whole_text(value: Mapping[str, Any]) -> str:
    """All text and numbers of a value, one a line. Its keys and truth values are none."""
    texts: list[str] = []
    _gather(value, texts)
    return "\n".join(texts)


def text_of(value: Mapping[str, Any], data: bytes) -> str:
    """The text of a value that is about to be stored, exactly as it will be read from the stored bytes again.

    Args:
        value: The value.
        data: What `written` gave.
    """
    return whole_text(value) if _TAGGED not in data else found_by(data, None)


def _gather(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, int | float):
        if not isinstance(value, bool):
            texts.append(str(value))
    elif isinstance(value, dict | Mapping):  # an abstract class takes long to tell
        for inner in value.values():
            _gather(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _gather(inner, texts)
    elif value is not None:
        _gather(json_value(value), texts)


def _decoded(data: bytes) -> Any:
    """The same as `decode`, quicker for what is usual."""
    long = len(data.translate(None, _NO_DIGITS)) >= _LONG and _LONG_NUMBER.search(data)
    if _TAGGED in data or long:  # orjson would make a float of a number of more than 64 bits
        return decode(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # text that UTF-8 alone cannot hold, or damage
        return decode(data)


def noted(named: tuple[str, ...] | None) -> str | None:
    """Texts of named fields as they are kept beside the item; None where the whole value is meant."""
    return None if named is None else json.dumps(named)


def passages(data: bytes | None, indexed: str | None) -> tuple[str, ...]:
    """The texts that a stored item is in the index with.

    Args:
        data: Its value; needed only where the whole of it is in the index.
        indexed: What `noted` gave.
    """
    try:
        if indexed is not None:
            return tuple(map(str, read_column(indexed, list)))
        return (whole_text(_decoded(bytes(data or b"{}"))),)
    except (InvalidInput, DatabaseUnreadable, AttributeError):  # damaged: whoever deletes it must be able to
        return ("",)


def found_by(data: bytes | None, indexed: str | None) -> str:
    """The same as one text."""
    return "\n".join(passages(data, indexed))


MINUTE = 60_000_000
"""Microseconds."""
PAGE = 500
"""Items that go through memory together."""


class ItemPlace(NamedTuple):
    """Where an item is: the path of its namespace, and its key."""

    path: str
    key: str


class ItemTimes(NamedTuple):
    """When an item of another database was made and last written, and when it expires, if ever; in microseconds."""

    created_at: int
    updated_at: int
    expires_at: int | None


class ItemDraft(NamedTuple):
    """An item that is to be written.

    Attributes:
        value: As `values.written` gives it.
        ttl: Minutes after which it expires when nobody reads or writes it; None for never.
        text: What it is found by; empty for nothing.
        named: The texts of the fields that were named for that; None where the whole value is meant.
        times: Those that it keeps; None where it is written now.
        source: Where it comes from, see `Writer`.
        actor: Who that is.
    """

    value: bytes
    ttl: float | None = None
    text: str = ""
    named: tuple[str, ...] | None = None
    times: ItemTimes | None = None
    source: str | None = None
    actor: str | None = None


class StoredItem(NamedTuple):
    """An item as it is stored."""

    id: int
    at: ItemPlace
    value: bytes
    created_at: int
    updated_at: int
    ttl: float | None


Locked = dict[str, dict[str, Row]]
"""Rows by the path of their namespace and their key."""


def get(tx: Transaction, places: Iterable[ItemPlace], *, now: int) -> dict[ItemPlace, StoredItem]:
    """The items at some places, but for those that are not there or have expired."""
    found: dict[ItemPlace, StoredItem] = {}
    wanted = set(places)
    for path, keys in _by_namespace(wanted) if len(wanted) > 1 else [(at.path, [at.key]) for at in wanted]:
        if len(keys) == 1:
            rows = query.find_item(tx, path=path, key=keys[0], now=now)
        else:
            rows = query.find_items(tx, path=path, keys=json.dumps(keys), now=now)
        for row in rows:
            item = stored(row, path)
            found[item.at] = item
    return found


def lock(tx: Transaction, places: Iterable[ItemPlace]) -> Locked:
    """The rows at places that will be written, expired or not: until then nobody else writes over them.

    Where there is none, a row that somebody else adds meanwhile has the transaction run again, as both would add one.
    """
    locked: Locked = {}
    for path, keys in _by_namespace(places):
        rows = query.items_to_write(tx, path=path, keys=json.dumps(keys))
        locked[path] = {row["key"]: row for row in rows}
    return locked


def write(
    tx: Transaction, changes: Mapping[ItemPlace, ItemDraft | None], locked: Locked | None = None, *, now: int
) -> None:
    """Write items, or delete them where there is no draft.

    An item that is there keeps the time at which it was made; one that has expired is made anew.

    Args:
        tx: The transaction.
        changes: What to write, by place.
        locked: What `lock` gave of these places, earlier in this transaction. Default: they are locked now.
        now: When.
    """
    locked = lock(tx, changes) if locked is None else locked
    emptied = set()
    for path, keys in _by_namespace(changes):
        known = locked[path]
        drafts = [(key, draft) for key in keys if (draft := changes[ItemPlace(path, key)]) is not None]
        if drafts:
            _write(tx, path, drafts, known, now=now)
        if gone := [known[key] for key in keys if changes[ItemPlace(path, key)] is None and key in known]:
            _delete(tx, gone)
            emptied.add(path)
    _tidy(tx, emptied)


def touch(tx: Transaction, items: Iterable[StoredItem], *, now: int) -> None:
    """Put off the end of items that were read."""
    rows = {
        item.id: {"id": item.id, "updated_at": item.updated_at, "expires_at": end_of(item.ttl, now), "now": now}
        for item in items
        if item.ttl is not None
    }
    if rows:
        query.touch_item.many(tx, [row for _, row in sorted(rows.items())])


def sweep(tx: Transaction, *, now: int, limit: int = PAGE) -> int:
    """Delete items that have expired.

    Args:
        tx: The transaction.
        now: When.
        limit: Most items to delete at once.

    Returns:
        How many were deleted.
    """
    rows = query.expired_items(tx, now=now, limit=limit)
    if rows:
        _delete(tx, rows)
        _tidy(tx, {row["path"] for row in rows})
    return len(rows)


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete every item of the namespaces in a range of paths. Returns how many there were."""
    erased = 0
    paths = set()
    while rows := query.items_within(tx, path=low, key="", high=high, limit=PAGE):
        _delete(tx, rows)
        erased += len(rows)
        paths |= {row["path"] for row in rows}
    _tidy(tx, paths)
    return erased


def problems(tx: Transaction, low: str, high: str) -> list[str]:
    """What is wrong with the items of the namespaces in a range of paths, in sentences."""
    found: list[str] = []
    path, key = low, ""
    while rows := query.items_within(tx, path=path, key=key, high=high, limit=PAGE):
        found += [str(damaged(*_place(row))) for row in rows if zlib.crc32(bytes(row["value"])) != row["checksum"]]
        path, key = _place(rows[-1])
    rows = query.lost_items(tx)
    found += [
        f"the item {safe_repr(row['key'])} in {safe_repr(namespace_of(row['path']))} is not in the index"
        for row in rows
    ]
    return found


def stored(row: Row, path: str) -> StoredItem:
    """A row as an item of the namespace with this path."""
    at = ItemPlace(path, row["key"])
    return StoredItem(row["id"], at, bytes(row["value"]), row["created_at"], row["updated_at"], row["ttl"])


def _write(
    tx: Transaction, path: str, drafts: Sequence[tuple[str, ItemDraft]], known: Mapping[str, Row], *, now: int
) -> None:
    """Write the drafts of one namespace, and have the index follow what they are found by."""
    times = {key: _times(draft, known.get(key), now) for key, draft in drafts}
    numbers: dict[str, int] = {}
    entering, leaving = {}, []
    for key, draft in drafts:
        row = known.get(key)
        if row is not None and row["document_id"] is not None:
            old, created_at = found_by(row["value"], row["indexed"]), row["created_at"]
            if (old, row["indexed"], created_at) == (draft.text, noted(draft.named), times[key].created_at):
                numbers[key] = row["document_id"]
                continue
            leaving.append((row["document_id"], old))
        if draft.text:
            entering[key] = IndexedDocument(draft.text, times[key].created_at)
    search_index.remove(tx, leaving)
    if entering:
        placed = search_index.places(tx, search_index.DocumentSeries(path, KIND), list(entering.values()))
        numbers |= zip(entering, placed.numbers, strict=True)
    elif not known:
        query.create_namespace(tx, path=path)
    rows = {key: _values(draft, times[key], numbers.get(key)) for key, draft in drafts}
    ids = {key: row["id"] for key, row in known.items()}
    ids |= _insert(tx, path, [{"path": path, "key": key, **row} for key, row in rows.items() if key not in known])
    if changed := [{"id": ids[key], **row} for key, row in rows.items() if key in known]:
        query.update_item.many(tx, changed) if len(changed) > 1 else query.update_item(tx, **changed[0])
    if entering:
        search_index.write(tx, placed, [ids[key] for key in entering])


def _insert(tx: Transaction, path: str, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Insert items, and give their rows by their keys."""
    if not rows:
        return {}
    if len(rows) == 1:
        told = query.add_item(tx, **rows[0])
    else:
        query.insert_item.many(tx, rows)
        told = query.item_ids(tx, path=path, keys=json.dumps([row["key"] for row in rows]))
    return {row["key"]: row["id"] for row in told}


def _delete(tx: Transaction, rows: Sequence[Row]) -> None:
    documents = [
        (row["document_id"], found_by(row["value"], row["indexed"])) for row in rows if row["document_id"] is not None
    ]
    if documents:
        search_index.remove(tx, documents)
    query.delete_item.many(tx, [{"id": row["id"]} for row in rows])


def _tidy(tx: Transaction, paths: Iterable[str]) -> None:
    """Leave nothing of namespaces whose last item is gone."""
    for path in sorted(paths):
        if not query.any_item(tx, path=path):
            search_index.close(tx, path, KIND)
            query.delete_empty_namespaces(tx, path=path)


def _by_namespace(places: Iterable[ItemPlace]) -> list[tuple[str, list[str]]]:
    """Keys by the path of their namespace, both in order."""
    return [(path, [at.key for at in group]) for path, group in groupby(sorted(set(places)), lambda at: at.path)]


def _values(draft: ItemDraft, times: ItemTimes, number: int | None) -> dict[str, Any]:
    """The columns of an item that is written over another one, or as a new one."""
    return {
        **times._asdict(),
        "checksum": zlib.crc32(draft.value),
        "ttl": draft.ttl,
        "document": number,
        "indexed": noted(draft.named) if number is not None else None,
        "value": draft.value,
        "source": draft.source,
        "actor": draft.actor,
    }


def _times(draft: ItemDraft, row: Row | None, now: int) -> ItemTimes:
    """When an item was made and written, and when it ends; one that has expired is made anew."""
    lives = row is not None and (row["expires_at"] is None or row["expires_at"] > now)
    return draft.times or ItemTimes(
        created_at=row["created_at"] if row is not None and lives else now,
        updated_at=now,
        expires_at=None if draft.ttl is None else end_of(draft.ttl, now),
    )


def end_of(ttl: float, now: int) -> int:
    """When what is written or read now ends."""
    return now + round(ttl * MINUTE)


def _place(row: Row) -> ItemPlace:
    return ItemPlace(row["path"], row["key"])
