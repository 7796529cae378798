"""Messages as a search finds them: their texts for the index, and what a hit is to the user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import compaction_records, conversation_transfer, message_log
from langchain_agentmem.messages import body_text, decode_body
from langchain_agentmem.rewinding.outlook import Outlook, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Erasure, Found, Import, Part, Record, WriteRecord
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


def problems() -> Steps[list[str]]:
    """What is wrong with what conversations say of their messages."""
    heads = yield query.wrong_heads()
    found = [f"the head of the conversation {safe_repr(row['name'])} is behind its newest entry" for row in heads]
    counts = yield query.wrong_counts()
    found += [
        f"the conversation {safe_repr(row['name'])} counts {row['messages']} messages, not {row['found']}"
        for row in counts
    ]
    versions = yield query.wrong_versions()
    return found + [f"entry {row['id']} is a version of something it does not belong to" for row in versions]


def _erase(erasure: Erasure) -> Steps[None]:
    within = {"low": erasure.low, "high": erasure.high, "name": erasure.name}
    for row in (yield query.list_branches(kind=message_log.CONVERSATION, **within)):
        at = message_log.Address(row["path"], row["name"])
        erasure.removed["entries"] += yield from message_log.clear(at, keep_description=False)
        erasure.removed["conversations"] += 1
        erasure.conversations.append((at.path, at.name))


def _dump(write: WriteRecord) -> Steps[Mapping[str, int]]:
    written: Counter[str] = Counter()
    low, high = range_of(())
    for row in (yield query.list_branches(low=low, high=high, kind=message_log.CONVERSATION, name=None)):
        at = message_log.Address(row["path"], row["name"])
        entries = yield from conversation_transfer.dump(at)
        write({"record": "conversation", "namespace": namespace_of(at.path), "id": at.name})
        for entry in entries:
            write({"record": "entry", **entry})
        for record in (yield from compaction_records.dump(row["id"])):
            write({"record": "compaction", **record})
        written.update(conversations=1, entries=len(entries))
    return written


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    at = message_log.Address(path_of(head.get("namespace")), id_of(head.get("id"), "conversation"))
    entries = [record for record in records if record["record"] == "entry"]
    keys = yield from conversation_transfer.restore(at, entries, now=into.now, tail=into.tail)
    yield from compaction_records.restore(at, [record for record in records if record["record"] == "compaction"])
    into.conversations.append((at.path, at.name, keys))
    into.added.update(conversations=1, entries=len(keys))


PART = Part(
    found={
        "message": (
            Found(stored_as="message", texts=texts, recollections=recollections),
            Found(stored_as="thread_post", texts=row_texts, recollections=rewound_recollections),
        )
    },
    tables={"conversations": ("branch", "entry", "token_count"), "compactions": ("compaction",)},
    verify={"conversations": problems, "compactions": compaction_records.problems},
    erase=_erase,
    records={"conversation": {"entry", "compaction"}},
    dump=_dump,
    load=_load,
)
