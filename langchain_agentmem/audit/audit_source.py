"""Entries of the audit trail as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from langchain_agentmem.audit import audit_check, audit_rows, audit_store, audit_transfer, keeping
from langchain_agentmem.base.namespaces import path_of, range_of
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Erasure, Found, Import, Part, Record, WriteRecord


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


def _erase(erasure: Erasure) -> Steps[None]:
    erasure.removed["audit"] += yield from keeping.erase(erasure.low, erasure.high, erasure.name)


def _dump(write: WriteRecord) -> Steps[Mapping[str, int]]:
    return {"audit": (yield from audit_transfer.dump(*range_of(()), write))}


def _arriving(into: Import) -> audit_transfer.Arriving:
    del into
    return audit_transfer.Arriving()


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    arriving = into.kept(_arriving)
    into.added["audit"] += yield from arriving.take(path_of(head.get("namespace")), records)


def _finish(into: Import) -> Steps[None]:
    yield from into.kept(_arriving).finish()


PART = Part(
    found={"audit": (Found(stored_as=audit_store.KIND, texts=texts, recollections=recollections),)},
    usual=False,  # the audit trail repeats what messages say
    unsettled=audit_store.waiting,
    settle=audit_store.settle,
    tables={"audit": ("audit", "audit_namespace", "audit_shelf", "audit_message", "audit_document", "audit_head")},
    verify={"audit": audit_check.problems},
    erase=_erase,
    records=audit_transfer.HOLDS,
    dump=_dump,
    load=_load,
    finish=_finish,
)
