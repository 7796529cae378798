"""The audit trail as records, to leave one database and enter another.

Entries leave in the order of the chain, and each message of model calls once, before the first entry that names it.
Here they are added at the end of the chain, with their ids and times; an entry whose id is here already is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from langchain_agentmem.audit import audit_rows, audit_store, model_messages
from langchain_agentmem.audit.audit_entry import REFERENCE
from langchain_agentmem.audit.audit_rows import Draft
from langchain_agentmem.base.clock import is_time, moment
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import id_of, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, DatabaseUnreadable, InvalidInput
from langchain_agentmem.messages import decode_body
from langchain_agentmem.messages.message import plain
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.steps import Row

AUDIT, ENTRY, MESSAGE = "audit", "audit_entry", "audit_message"
HOLDS = {AUDIT: {ENTRY, MESSAGE}}
"""What the records of an export hold."""
PAGE = 100

Record = Mapping[str, Any]


def dump(low: str, high: str, write: Callable[[Mapping[str, Any]], object]) -> Steps[int]:
    """Write the entries of the namespaces in a range of paths as records that JSON can hold.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        write: Is given each record.

    Returns:
        How many entries there were.

    Raises:
        DatabaseUnreadable: An entry is damaged, or a message of one.
    """
    sent: dict[int, list[model_messages.Range]] = {}
    written = after = 0
    while found := (yield query.audit_within(low=low, high=high, after=after, limit=PAGE)):
        for path, group in groupby(found, lambda row: row["path"]):
            write({"record": AUDIT, "namespace": namespace_of(path)})
            for row in group:
                told = _told(row)
                if row["messages"] is not None:
                    yield from _dump_messages(row, sent, write)
                write(told)
        written += len(found)
        after = found[-1]["sequence"]
    return written


class Arriving:
    """An audit trail on its way in."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, int], dict[int, model_messages.Part]] = {}
        self._hashes: set[bytes] = set()

    def take(self, path: str, given: Sequence[Record]) -> Steps[int]:
        """Write records into a namespace, but for the entries that it holds.

        Args:
            path: The path of the namespace.
            given: What one `dump` wrote, in its order.

        Returns:
            How many entries were added.

        Raises:
            InvalidInput: A record is damaged.
        """
        yield from self._keep(path, [record for record in given if record["record"] == MESSAGE])
        drafts = [self._draft(path, record) for record in given if record["record"] == ENTRY]
        added = yield from audit_store.add_new(path, drafts)
        new = {entry.id for entry in added if entry.kind == REFERENCE}
        marks = [draft.mark for draft in drafts if draft.entry.id in new and isinstance(draft.mark, bytes)]
        if marks:
            yield from audit_store.show_newest(path, marks)
        return len(added)

    def finish(self) -> Steps[None]:
        """Let go of the messages that no entry needed."""
        yield from queries.collect(self._hashes)

    def _keep(self, path: str, given: Sequence[Record]) -> Steps[None]:
        bodies: dict[bytes, bytes] = {}
        for record in given:
            try:
                number, owner, name, body = record["number"], record["shelf"], record["id"], write_plain(record["body"])
                decode_body(body, name)
                sound = type(number) is int and type(owner) is int and isinstance(name, str) and plain(name) == name
            except (AttributeError, KeyError, TypeError, ValueError, AgentMemoryError) as error:
                raise _damaged(record) from error
            if not sound:
                raise _damaged(record)
            key = queries.digest(body)
            bodies[key] = body
            self._messages.setdefault((path, owner), {})[number] = model_messages.Part(name, key, None)
        self._hashes.update(bodies)
        yield from queries.store(bodies)

    def _draft(self, path: str, record: Record) -> Draft:
        try:
            return self._read(path, record)
        except (AttributeError, KeyError, TypeError, ValueError, AgentMemoryError) as error:
            raise _damaged(record) from error

    def _read(self, path: str, record: Record) -> Draft:
        body, written = record["body"], write_plain(record["body"])
        parts: list[model_messages.Part] = []
        if record["messages"] is not None:
            there = self._messages[path, record["shelf"]]
            parts = [
                there[number]
                for number in model_messages.numbers_in(model_messages.read(json.dumps(record["messages"])))
            ]
        for text, place in (("prompt", "said"), ("reply", "answered")):
            if (place in body) == (text in body) or (place in body and body[place] not in range(len(parts))):
                raise ValueError(text)
            if type(body.get(place, 0)) is not int:
                raise ValueError(place)
        junk, extra = record["junk"], body.get("extra", {})
        if not isinstance(junk, list) or not all(isinstance(name, str) for name in junk) or not isinstance(extra, dict):
            raise ValueError("junk or extra")
        if not is_time(record["created_at"]):
            raise ValueError("created_at")
        mark = None if record["mark"] is None else bytes.fromhex(record["mark"])
        if mark is not None and len(mark) != audit_rows.MARK_BYTES:
            raise ValueError("mark")
        entry = audit_rows.entry_of(
            body,
            id=id_of(record["id"], "entry"),
            kind=record["kind"],
            prompt=body.get("prompt", ""),
            reply=body.get("reply", ""),
            created_at=moment(record["created_at"]),
            conversation_id=None if record["conversation"] is None else id_of(record["conversation"], "conversation"),
            thread_id=None if record["thread"] is None else id_of(record["thread"], "thread"),
            namespace=namespace_of(path),
            junk=tuple(junk),
            status=record["status"],
            archived=record["archived"] is True,
        )
        return Draft(entry, mark, record["replaced"] is True, written, parts)


def _dump_messages(
    row: Row, sent: dict[int, list[model_messages.Range]], write: Callable[[Mapping[str, Any]], object]
) -> Steps[None]:
    """Write the messages that an entry names and none before it did."""
    ranges, before = model_messages.read(row["messages"]), sent.get(row["shelf_id"], [])
    new = model_messages.apart(model_messages.covered([ranges]), before)
    if not new:
        return
    sent[row["shelf_id"]] = model_messages.covered([before, ranges])
    found = yield query.audit_messages_in(shelf=row["shelf_id"], ranges=json.dumps(new))
    for each in found:
        body = bytes(each["body"])
        decode_body(body, each["key"])  # what is damaged could not come back
        write(
            {
                "record": MESSAGE,
                "shelf": row["shelf_id"],
                "number": each["number"],
                "id": each["key"],
                "body": read_plain(body),
            }
        )


def _told(row: Row) -> dict[str, Any]:
    try:
        body = read_plain(audit_rows.plain_body(row["body"]))
        ranges = None if row["messages"] is None else model_messages.read(row["messages"])
    except (ValueError, AgentMemoryError) as error:
        raise DatabaseUnreadable(f"The entry {safe_repr(row['key'])} of the audit trail is damaged.") from error
    return {
        "record": ENTRY,
        "id": row["key"],
        "kind": row["kind"],
        "created_at": row["created_at"],
        "conversation": row["conversation"],
        "thread": row["thread"],
        "junk": json.loads(row["junk"]) if row["junk"] else [],
        "status": row["status"],
        "mark": None if row["mark"] is None else bytes(row["mark"]).hex(),
        "replaced": row["hidden"] == audit_rows.REPLACED,
        "archived": bool(row["archived"]),
        "shelf": row["shelf_id"],
        "messages": ranges,
        "body": body,
    }


def _damaged(record: Record) -> InvalidInput:
    return InvalidInput(f"The record of the audit trail's {safe_repr(record.get('id'))} is damaged.")
