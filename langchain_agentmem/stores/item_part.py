"""Items and values of byte stores as a part: found by a search, verified, erased, exported as records and imported."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.rewinding.memory_rows import extra_of, kept_of, words_of
from langchain_agentmem.rewinding.outlook import Outlook, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Found, Import, Part, Record, WriteRecord
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.stores import byte_store, item_rows, thread_items
from langchain_agentmem.stores.item_rows import (
    ItemDraft,
    ItemPlace,
    damaged,
    key_of,
    passages,
    read,
)


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The texts by which items are found, by their rows.

    Args:
        tx: The transaction.
        owners: The rows.
    """
    rows = query.item_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: passages(row["value"], row["indexed"]) for row in rows}


def recollections(tx: Transaction, hits: Sequence[Hit], now: int, outlook: object) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: Items that a search found. What was deleted meanwhile, or has expired, is left out.
        now: When.
        outlook: From where it looks. They are seen from everywhere.
    """
    del outlook
    rows = query.items_by_id(tx, ids=json.dumps([hit.owner for hit in hits]), now=now)
    found = {row["id"]: row for row in rows}
    return {
        hit.document: Recollection(
            kind=hit.kind,
            id=row["key"],
            text="\n".join(passages(row["value"], row["indexed"])),
            score=hit.score,
            namespace=namespace_of(row["path"]),
            conversation_id=None,
            created_at=moment(row["created_at"]),
            value=read(bytes(row["value"]), row["path"], row["key"]),
            why=hit.why,
            row=(hit.kind, hit.owner),
            source=row["source"],
            actor=row["actor"],
        )
        for hit in hits
        if (row := found.get(hit.owner)) is not None
    }


def rewound_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The texts by which items of threads are found, by their rows.

    Args:
        tx: The transaction.
        owners: The rows.
    """
    found = query.memory_texts(tx, ids=json.dumps(list(owners)))
    extras = {row["id"]: extra_of(row) for row in found}
    return {number: tuple(extra.get("named") or (extra["words"],)) for number, extra in extras.items()}


def rewound_recollections(
    tx: Transaction, hits: Sequence[Hit], now: int, outlook: Outlook | None
) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        tx: The transaction.
        hits: Items of threads that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = sighted(tx, hits, now, outlook)
    seen = {}
    for sight in sights:
        if sight.view is not None and sight.numbers:
            kept = [kept_of(there[number]) for number in sorted(sight.numbers)]
            seen.update({each.number: each for each in thread_items.alive(tx, sight.view, kept)})
    return {
        hit.document: Recollection(
            kind="item",
            id=thread_items.place_of(each).key,
            text=words_of(each.body, each.extra),
            score=hit.score,
            namespace=namespace_of(there[hit.owner]["path"]),
            conversation_id=there[hit.owner]["name"],
            created_at=moment(each.created_at),
            value=thread_items.value_of(each),
            why=hit.why,
            row=(hit.kind, hit.owner),
            source=each.source,
            actor=each.actor,
        )
        for hit in hits
        if (each := seen.get(hit.owner)) is not None
    }


class ItemPage(NamedTuple):
    """Some records, and after which item the next page begins; None after the last."""

    records: list[dict[str, Any]]
    after: ItemPlace | None


def dump(tx: Transaction, after: ItemPlace, high: str) -> ItemPage:
    """A page of items as records that JSON can hold, by namespace and key.

    Args:
        tx: The transaction.
        after: Where to begin: behind this item. For the first page, the first path and an empty key.
        high: The path behind the last.

    Raises:
        DatabaseUnreadable: An item is damaged.
    """
    rows = query.items_within(tx, path=after.path, key=after.key, high=high, limit=item_rows.PAGE)
    following = ItemPlace(rows[-1]["path"], rows[-1]["key"]) if len(rows) == item_rows.PAGE else None
    return ItemPage([_told(row) for row in rows], following)


def restore(tx: Transaction, path: str, records: Sequence[Record], *, now: int, tail: int) -> int:
    """Write records into a namespace, but where a key has an item already, and without what has expired since.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        records: What `dump` gave.
        now: When.
        tail: How many documents may wait for the search index.

    Returns:
        How many were added.

    Raises:
        InvalidInput: A record is damaged.
    """
    return add_new(tx, dict(_read(path, record) for record in records), now=now, tail=tail)


def add_new(tx: Transaction, drafts: Mapping[ItemPlace, ItemDraft], *, now: int, tail: int) -> int:
    """Write items, but where a key has an item already, and without what has expired since.

    Args:
        tx: The transaction.
        drafts: The items.
        now: When.
        tail: How many documents may wait for the search index.

    Returns:
        How many were added.
    """
    there = item_rows.get(tx, drafts, now=now)
    new: dict[ItemPlace, ItemDraft | None] = {
        at: draft
        for at, draft in drafts.items()
        if at not in there and (draft.times is None or draft.times.expires_at is None or draft.times.expires_at > now)
    }
    item_rows.write(tx, new, now=now, tail=tail)
    return len(new)


def _told(row: Row) -> dict[str, Any]:
    if zlib.crc32(bytes(row["value"])) != row["checksum"]:
        raise damaged(row["path"], row["key"])
    return {"record": "item", "namespace": namespace_of(row["path"]), "key": row["key"], **item_rows.told_of(row)}


def _read(path: str, record: Record) -> tuple[ItemPlace, ItemDraft]:
    try:
        at = ItemPlace(path, key_of(record["key"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"A record of an item is damaged: {safe_repr(error)}.") from error
    return at, item_rows.draft_of(at, record)


def _erase(tx: Transaction, erasure: Erasure) -> None:
    if erasure.name is None:  # items and values of byte stores belong to no thread
        erasure.removed["blobs"] += byte_store.erase(tx, erasure.low, erasure.high)
        erasure.removed["items"] += item_rows.erase(tx, erasure.low, erasure.high)


def _dump(tx: Transaction, write: WriteRecord, low: str, high: str) -> Mapping[str, int]:
    blobs = items = 0
    for path, held in byte_store.counts(tx, low, high):
        blobs += held
        start: bytes | None = b""
        while start is not None:
            values, start = byte_store.dump(tx, path, start)
            write({"record": "blobs", "namespace": namespace_of(path)})
            for value in values:
                write(value)
    after: ItemPlace | None = ItemPlace(low, "")
    while after is not None:
        records, after = dump(tx, after, high)
        items += len(records)
        for namespace, group in groupby(records, lambda record: record["namespace"]):
            write({"record": "items", "namespace": namespace})
            for record in group:
                write(record)
    return {"blobs": blobs, "items": items}


def _load(tx: Transaction, into: Import, head: Record, records: Sequence[Record]) -> None:
    path = path_of(head.get("namespace"))
    if head["record"] == "blobs":
        into.added["blobs"] += byte_store.restore(tx, path, records)
    else:
        into.added["items"] += restore(tx, path, records, now=into.now, tail=into.tail)


PART = Part(
    found={
        "item": (
            Found(stored_as="item", texts=texts, recollections=recollections),
            Found(stored_as="thread_item", texts=rewound_texts, recollections=rewound_recollections),
        )
    },
    tables={"items": ("item",), "blobs": ("blob",)},
    verify={
        "blobs": lambda tx: byte_store.problems(tx, *range_of(())),
        "items": lambda tx: item_rows.problems(tx, *range_of(())),
    },
    erase=_erase,
    records={"blobs": {"blob"}, "items": {"item"}},
    dump=_dump,
    load=_load,
)
