"""Messages as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.messages import body_text, decode_body
from langchain_agentmem.rewinding.outlook import Outlook, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Found, Part
from langchain_agentmem.storage.steps import Row


def texts(owners: Sequence[int]) -> Steps[dict[int, tuple[str, ...]]]:
    """The texts by which messages are found, by their rows.

    Args:
        owners: The rows of their first versions.
    """
    rows = yield query.found_entries(owners=json.dumps(list(owners)))
    return {row["slot"]: (body_text(bytes(row["body"])),) for row in rows}


def recollections(hits: Sequence[Hit], now: int, outlook: object) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        hits: Messages that a search found. What was deleted meanwhile is left out.
        now: When. Messages do not expire.
        outlook: From where it looks. They are seen from everywhere.
    """
    del now, outlook
    rows = yield query.found_entries(owners=json.dumps([hit.owner for hit in hits]))
    found = {row["slot"]: row for row in rows}
    return {hit.document: _found(hit, row, "conversation") for hit in hits if (row := found.get(hit.owner)) is not None}


def rewound_recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Posts of the sessions of threads that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    seen = {number for sight in sights for number in sight.numbers}
    return {hit.document: _found(hit, there[hit.owner], "name") for hit in hits if hit.owner in seen}


def _found(hit: Hit, row: Row, conversation: str) -> Recollection:
    message = decode_body(bytes(row["body"]), row["key"])
    return Recollection(
        kind="message",
        id=message.message_id,
        text=message.text,
        score=hit.score,
        namespace=namespace_of(row["path"]),
        conversation_id=row[conversation],
        created_at=moment(row["created_at"]),
        value=message,
        why=hit.why,
    )


PART = Part(
    found={
        "message": (
            Found(stored_as="message", texts=texts, recollections=recollections),
            Found(stored_as="thread_post", texts=row_texts, recollections=rewound_recollections),
        )
    }
)
