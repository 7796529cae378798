"""Items as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of, path_of, range_of
from langchain_agentmem.rewinding.memory_rows import extra_of, kept_of, words_of
from langchain_agentmem.rewinding.outlook import Outlook, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Erasure, Found, Import, Part, Record, WriteRecord
from langchain_agentmem.stores import byte_rows, item_rows, item_transfer, thread_items
from langchain_agentmem.stores.item_values import passages, read


def texts(owners: Sequence[int]) -> Steps[dict[int, tuple[str, ...]]]:
    """The texts by which items are found, by their rows.

    Args:
        owners: The rows.
    """
    rows = yield query.item_texts(ids=json.dumps(list(owners)))
    return {row["id"]: passages(row["value"], row["indexed"]) for row in rows}


def recollections(hits: Sequence[Hit], now: int, outlook: object) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        hits: Items that a search found. What was deleted meanwhile, or has expired, is left out.
        now: When.
        outlook: From where it looks. They are seen from everywhere.
    """
    del outlook
    rows = yield query.items_by_id(ids=json.dumps([hit.owner for hit in hits]), now=now)
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
        )
        for hit in hits
        if (row := found.get(hit.owner)) is not None
    }


def rewound_texts(owners: Sequence[int]) -> Steps[dict[int, tuple[str, ...]]]:
    """The texts by which items of threads are found, by their rows.

    Args:
        owners: The rows.
    """
    found = yield query.memory_texts(ids=json.dumps(list(owners)))
    extras = {row["id"]: extra_of(row) for row in found}
    return {number: tuple(extra.get("named") or (extra["words"],)) for number, extra in extras.items()}


def rewound_recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Items of threads that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    seen = {}
    for sight in sights:
        if sight.view is not None and sight.numbers:
            kept = [kept_of(there[number]) for number in sorted(sight.numbers)]
            seen.update({each.number: each for each in (yield from thread_items.alive(sight.view, kept))})
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
        )
        for hit in hits
        if (each := seen.get(hit.owner)) is not None
    }


def _erase(erasure: Erasure) -> Steps[None]:
    if erasure.name is None:  # items and values of byte stores belong to no thread
        erasure.removed["blobs"] += yield from byte_rows.erase(erasure.low, erasure.high)
        erasure.removed["items"] += yield from item_rows.erase(erasure.low, erasure.high)


def _dump(write: WriteRecord) -> Steps[Mapping[str, int]]:
    low, high = range_of(())
    blobs = items = 0
    for path, held in (yield from byte_rows.counts(low, high)):
        blobs += held
        start: bytes | None = b""
        while start is not None:
            records, start = yield from byte_rows.dump(path, start)
            write({"record": "blobs", "namespace": namespace_of(path)})
            for record in records:
                write(record)
    after: item_rows.Place | None = item_rows.Place(low, "")
    while after is not None:
        records, after = yield from item_transfer.dump(after, high)
        items += len(records)
        for namespace, group in groupby(records, lambda record: record["namespace"]):
            write({"record": "items", "namespace": namespace})
            for record in group:
                write(record)
    return {"blobs": blobs, "items": items}


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    path = path_of(head.get("namespace"))
    if head["record"] == "blobs":
        into.added["blobs"] += yield from byte_rows.restore(path, records)
    else:
        into.added["items"] += yield from item_transfer.restore(path, records, now=into.now, tail=into.tail)


PART = Part(
    found={
        "item": (
            Found(stored_as="item", texts=texts, recollections=recollections),
            Found(stored_as="thread_item", texts=rewound_texts, recollections=rewound_recollections),
        )
    },
    tables={"items": ("item",), "blobs": ("blob",)},
    verify={
        "blobs": partial(byte_rows.problems, *range_of(())),
        "items": partial(item_rows.problems, *range_of(())),
    },
    erase=_erase,
    records={"blobs": {"blob"}, "items": {"item"}},
    dump=_dump,
    load=_load,
)
