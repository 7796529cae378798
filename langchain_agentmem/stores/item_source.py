"""Items as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.rewinding.memory_rows import extra_of, kept_of, words_of
from langchain_agentmem.rewinding.outlook import Outlook, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Found, Part
from langchain_agentmem.stores import thread_items
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


PART = Part(
    found={
        "item": (
            Found(stored_as="item", texts=texts, recollections=recollections),
            Found(stored_as="thread_item", texts=rewound_texts, recollections=rewound_recollections),
        )
    }
)
