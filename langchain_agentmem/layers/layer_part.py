"""Layered memory as a feature (`PART`): how search finds its events and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_agentmem.layers.layer import event_of, record_of
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, Kept, kept_of
from langchain_agentmem.rewinding.outlook import Outlook, recollections_of, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.part import Found, Part

VALUES: Mapping[str, Callable[[Kept], Any]] = {EVENT: event_of, RECORD: record_of}


def recollections(
    tx: Transaction, hits: Sequence[Hit], now: int, outlook: Outlook | None
) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        tx: The transaction.
        hits: Events or records that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = sighted(tx, hits, now, outlook)
    seen = {number: there[number] for sight in sights for number in sight.numbers}
    values = {
        number: (memory_rows.text_of(bytes(row["body"])), VALUES[row["kind"]](kept_of(row)))
        for number, row in seen.items()
    }
    return recollections_of(hits, there, values)


PART = Part(
    found={kind: (Found(stored_as=kind, texts=row_texts, recollections=recollections),) for kind in (EVENT, RECORD)}
)
