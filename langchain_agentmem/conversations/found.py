"""Messages as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from langchain_agentmem.clock import moment
from langchain_agentmem.messages import body_text, decode_body
from langchain_agentmem.namespaces import namespace_of
from langchain_agentmem.retrieval.search import Hit, Recollection
from langchain_agentmem.storage import Steps, query


def texts(owners: Sequence[int]) -> Steps[dict[int, tuple[str, ...]]]:
    """The texts by which messages are found, by their rows.

    Args:
        owners: The rows of their first versions.
    """
    rows = yield query.found_entries(owners=json.dumps(list(owners)))
    return {row["slot"]: (body_text(bytes(row["body"])),) for row in rows}


def recollections(hits: Sequence[Hit], now: int) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        hits: Messages that a search found. What was deleted meanwhile is left out.
        now: When. Messages do not expire.
    """
    del now
    rows = yield query.found_entries(owners=json.dumps([hit.owner for hit in hits]))
    found = {row["slot"]: row for row in rows}
    given = {}
    for hit in hits:
        row = found.get(hit.owner)
        if row is None:
            continue
        message = decode_body(bytes(row["body"]), row["key"])
        given[hit.document] = Recollection(
            kind=hit.kind,
            id=message.message_id,
            text=message.text,
            score=hit.score,
            namespace=namespace_of(row["path"]),
            conversation_id=row["conversation"],
            created_at=moment(row["created_at"]),
            value=message,
            why=hit.why,
        )
    return given
