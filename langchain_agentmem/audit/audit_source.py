"""Entries of the audit trail as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Found, Part


def texts(owners: Sequence[int]) -> Steps[dict[int, tuple[str, ...]]]:
    """The texts by which entries are found, by their numbers.

    Args:
        owners: Their numbers in the chain.
    """
    found = yield query.audit_rows(sequences=json.dumps(list(owners)))
    said = yield from audit_rows.texts(found)
    return {number: (text,) for number, text in said.items()}


def recollections(hits: Sequence[Hit], now: int, outlook: object) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        hits: Entries that a search found. What was hidden or erased meanwhile is left out.
        now: When. Entries do not expire.
        outlook: From where it looks. They are seen from everywhere.
    """
    del now, outlook
    found = yield query.audit_rows(sequences=json.dumps([hit.owner for hit in hits]))
    shown = [row for row in found if row["hidden"] == audit_rows.SHOWN]
    read = yield from audit_rows.entries(shown)
    there = {row["sequence"]: entry for row, entry in zip(shown, read, strict=True)}
    return {
        hit.document: Recollection(
            kind="audit",
            id=entry.id,
            text=entry.text,
            score=hit.score,
            namespace=entry.namespace,
            conversation_id=entry.conversation_id,
            created_at=entry.created_at,
            value=entry,
            why=hit.why,
        )
        for hit in hits
        if (entry := there.get(hit.owner)) is not None
    }


PART = Part(
    found={"audit": (Found(stored_as=audit_store.KIND, texts=texts, recollections=recollections),)},
    usual=False,  # the audit trail repeats what messages say
    unsettled=audit_store.waiting,
    settle=audit_store.settle,
)
