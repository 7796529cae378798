"""Items and values of byte stores as a part: found by a search, verified, erased, exported as records and imported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of, range_of
from langchain_agentmem.rewinding.memory_rows import extra_of, kept_of, words_of
from langchain_agentmem.rewinding.outlook import Outlook, recollections_of, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Found, Part
from langchain_agentmem.stores import byte_store, item_rows, item_search
from langchain_agentmem.stores.item_rows import ItemDraft, ItemPlace, passages, read


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
    for view, numbers in sights:
        if view is not None and numbers:
            kept = [kept_of(there[number]) for number in sorted(numbers)]
            seen.update({each.number: each for each in item_search.alive(tx, view, kept)})
    values = {number: (words_of(each.body, each.extra), item_search.value_of(each)) for number, each in seen.items()}
    shown = recollections_of(hits, there, values, "item")
    keys = {hit.document: item_search.place_of(seen[hit.owner]).key for hit in hits if hit.document in shown}
    return {document: replace(shown[document], id=key) for document, key in keys.items()}


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


def _erase(tx: Transaction, erasure: Erasure) -> None:
    if erasure.name is None:  # items and values of byte stores belong to no thread
        erasure.removed["blobs"] += byte_store.erase(tx, erasure.low, erasure.high)
        erasure.removed["items"] += item_rows.erase(tx, erasure.low, erasure.high)


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
)
