"""Events and records as what serves all features knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.layers.layer_values import event_of, record_of
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, Kept, kept_of
from langchain_agentmem.rewinding.outlook import Outlook, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.part import Found, Part

VALUES: Mapping[str, Callable[[Kept], Any]] = {EVENT: event_of, RECORD: record_of}


def recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Events or records that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    seen = {number for sight in sights for number in sight.numbers}
    return {
        hit.document: Recollection(
            kind=hit.kind,
            id=row["key"],
            text=memory_rows.text_of(bytes(row["body"])),
            score=hit.score,
            namespace=namespace_of(row["path"]),
            conversation_id=row["name"],
            created_at=moment(row["created_at"]),
            value=VALUES[hit.kind](kept_of(row)),
            why=hit.why,
        )
        for hit in hits
        if (row := there.get(hit.owner)) is not None and hit.owner in seen
    }


PART = Part(
    found={kind: (Found(stored_as=kind, texts=row_texts, recollections=recollections),) for kind in (EVENT, RECORD)}
)
