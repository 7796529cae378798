"""Conversations as a part: searched, verified, erased, exported as plain records and imported.

An export needs plain records. A record is one JSON-able version of a message or round. Records are in the order of
writing. An edit names the replaced entry by its key, and records of one call share one `call` number. So an import
restores a conversation with its ids, times, rounds, attachments and earlier versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.clock import EARLIEST, LATEST, moment
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey, id_of, is_nested, namespace_of
from langchain_agentmem.conversations import compaction_records, message_log
from langchain_agentmem.conversations.log_entries import USER, check_langchain
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import SOURCES, Message, body_text, decode_body, found_by, plain
from langchain_agentmem.messages.role_rounds import Attachment, Round
from langchain_agentmem.rewinding.outlook import EVERYWHERE, SearchView, row_texts, said_from, sighted
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.transaction import Row


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of messages, by the rows of their wordings.

    Args:
        tx: The transaction.
        owners: The rows of the wordings.
    """
    rows = query.found_entries(tx, owners=json.dumps(list(owners)))
    return {row["wording"]: (body_text(bytes(row["body"]), with_calls=True),) for row in rows}


def recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert search hits to `Recollection`s, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: Messages that a search found. Messages deleted meanwhile are left out.
        now: The time, in microseconds since 1970.
        outlook: The view of the search. Messages that follow no thread are visible in every view, the others only in
            the wording that this view shows.
    """
    rows = query.found_entries(tx, owners=json.dumps([hit.owner for hit in hits]))
    found = {row["wording"]: dict(row) for row in rows}
    here = outlook or EVERYWHERE
    if (following := {row["slot"] for row in rows if row["follows"]}) and not here.abandoned:
        says = {row["wording"] for row in said_from(tx, here, following, now)}
        found = {key: row for key, row in found.items() if key in says or not row["follows"]}
    return {hit.document: _recollection(hit, found[hit.owner], "conversation") for hit in hits if hit.owner in found}


def rewound_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert visible hits in threads' sessions to `Recollection`s, by their document numbers.

    Args:
        tx: The transaction.
        hits: Posts and rounds that a search found. Those that the view does not show are left out.
        now: The time, in microseconds since 1970.
        outlook: The view of the search.
    """
    there, sights = sighted(tx, hits, now, outlook)
    seen = {number for _, numbers in sights for number in numbers}
    return {hit.document: _recollection(hit, dict(there[hit.owner]), "name") for hit in hits if hit.owner in seen}


def _recollection(hit: SearchHit, row: Mapping[str, Any], conversation: str) -> Recollection:
    body = bytes(row["body"])
    if row["kind"] in {message_log.ROUND, "thread_round"}:
        query = encoding.decode(body)["user_query"]
        message = Message(role="user", name=USER, content=query, message_id=row["key"])
    else:
        message = decode_body(body, row["key"])
    source = SOURCES.get(str(message.role))
    return Recollection(
        kind="message",
        id=message.message_id,
        text=message.text or found_by(message),
        score=hit.score,
        namespace=namespace_of(row["path"]),
        conversation_id=row[conversation],
        created_at=moment(row["created_at"]),
        value=message,
        why=hit.why,
        row=(hit.kind, hit.owner),
        thread_id=row[conversation] if row.get("follows") else None,
        source="model" if source == "user" and is_nested(row[conversation]) else source,  # its caller's words
        actor=message.name,
    )


TEXTS = ("role", "sender", "recipient", "round_key")
_COLUMNS = ("key", "kind", *TEXTS, "created_at", "written_at")
_DAMAGES = (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable)


_Time: TypeAlias = Annotated[int, Ge(EARLIEST), Le(LATEST)]


class EntryRecord(Options):
    """A JSON-able version of an entry.

    Attributes:
        call: The number that records of one call share.
        edit: Whether it replaces another version.
        body: The fields of the message or round.
        follows: Whether it follows the thread of the conversation's name.
    """

    call: _Time
    key: str
    kind: Literal["message", "round", "description"]
    edit: bool
    role: str | None = None
    sender: str | None = None
    recipient: str | None = None
    round_key: str | None = None
    created_at: _Time
    written_at: _Time
    body: Any
    attachments: Any = None
    follows: bool = False

    def entry(self, *, following: bool) -> message_log.LogEntry:
        """Return the entry to store.

        Args:
            following: Whether it still follows a thread if the record does.

        Raises:
            MessageError: The key cannot be an id, or the message cannot be read.
        """
        key, body = id_of(self.key, "message", MessageError), write_plain(self.body)
        attachments = None if self.attachments is None else write_plain(self.attachments)
        text = _readable(self.kind, body, attachments, key)
        entry = message_log.LogEntry(key, body, text, self.created_at, self.kind, attachments=attachments)
        names: dict[str, Any] = {name: plain(getattr(self, name)) for name in TEXTS}
        return entry._replace(follows=following and self.follows, **names)


def dump(tx: Transaction, at: ThreadKey) -> list[dict[str, Any]]:
    """Return every version of every entry of a conversation as records.

    Raises:
        DatabaseUnreadable: An entry is damaged, so that `restore` would refuse it.
    """
    rows = message_log.rows_of(tx, at, query.dump_entries)
    try:
        return list(map(_record_of, rows))
    except _DAMAGES as error:
        raise DatabaseUnreadable(
            f"The conversation {safe_repr(at.name)} is damaged and cannot be exported; verify() tells more. {error}"
        ) from error


def _record_of(row: Row) -> dict[str, Any]:
    """Return a version of an entry as a record."""
    _readable(row["kind"], row["body"], row["attachments"], row["key"])
    record = {"call": row["position"], "edit": row["replaces"] is not None, "follows": bool(row["follows"])}
    record |= {name: row[name] for name in _COLUMNS if row[name] is not None}
    return record | {name: read_plain(row[name]) for name in ("body", "attachments") if row[name] is not None}


def restore(
    tx: Transaction, at: ThreadKey, records: Sequence[Mapping[str, Any]], *, now: int, following: bool = False
) -> list[str]:
    """Write records into a conversation, and keep its existing entries.

    Existing entries stay unchanged, with one exception: a message from the same source that was not edited here gets
    the edits made at the source since its last import.

    Args:
        tx: The transaction.
        at: The conversation; it is created when it does not exist.
        records: The records, as `dump` returned them.
        now: The time of writing, in microseconds since 1970.
        following: Whether entries follow the thread here too, which is imported with them. Default: False.

    Returns:
        The keys of the versions that were written.

    Raises:
        InvalidInput: A record is damaged.
        MessageError: The conversation holds other content under one of the ids.
    """
    try:
        read = [EntryRecord(**record) for record in records]
        given = [((each.call, each.edit, each.written_at), each.entry(following=following)) for each in read]
    except _DAMAGES as error:
        raise InvalidInput(f"This record is damaged: {safe_repr(error)}.") from error
    written: list[str] = []
    here: dict[str, list[bytes]] = {}  # the versions of entries that existed before
    for (_, edit, written_at), group in groupby(given, key=itemgetter(0)):
        entries = [entry for _, entry in group]
        if edit:
            for entry in entries:
                versions = here.get(entry.key)
                if versions is None or (
                    # The newest version here is one of theirs, so this one comes after it.
                    entry.body not in versions
                    and any(other.key == entry.key and other.body == versions[-1] for _, other in given)
                ):
                    message_log.update(tx, at, entry.key, lambda _, new=entry: new, now=written_at)
                    written.append(entry.key)
            continue
        for entry in entries:
            bodies = [bytes(row.body) for row in message_log.history(tx, at, entry.key)]
            if entry.body in bodies:
                here[entry.key] = bodies
        new = [entry for entry in entries if entry.key not in here]
        written += message_log.append(tx, at, new, now=written_at or now).keys
    return written


def _readable(kind: str, body: bytes, attachments: bytes | None, key: str) -> str:
    """Return an entry's searchable text, after checking that every view can read the entry."""
    if attachments is not None:
        for each in encoding.decode(attachments):
            Attachment.from_dict(each)
    if kind in {message_log.MESSAGE, message_log.DESCRIPTION}:
        message = decode_body(body, key)
        check_langchain(message)
        return message.text
    fields = encoding.decode(body)
    return Round.create(fields["user_query"], id=key, state=fields["state"]).user_query


def problems(tx: Transaction) -> list[str]:
    """Return a sentence for each inconsistency of conversations, their heads and entries."""
    heads = query.wrong_heads(tx)
    found = [f"the head of the conversation {safe_repr(row['name'])} is behind its newest entry" for row in heads]
    counts = query.wrong_counts(tx)
    found += [
        f"the conversation {safe_repr(row['name'])} counts {row['messages']} messages, not {row['found']}"
        for row in counts
    ]
    found += [f"entry {row['id']} is of an unknown kind, {safe_repr(row['kind'])}" for row in query.unknown_entries(tx)]
    versions = query.wrong_versions(tx)
    return found + [f"entry {row['id']} is a version of something it does not belong to" for row in versions]


def _erase(tx: Transaction, erasure: Erasure) -> None:
    within = {"low": erasure.low, "high": erasure.high, "name": erasure.name}
    query.erase_prompt_notes(tx, **within)
    rows = query.list_branches(tx, kind=message_log.CONVERSATION, **within)
    if erasure.threads and erasure.name is not None:
        rows = [*rows, *message_log.nested_in(tx, erasure.low, erasure.high, erasure.name)]
    for row in rows:
        at = ThreadKey(row["path"], row["name"])
        erasure.removed["entries"] += message_log.clear(tx, at, keep_description=False)
        erasure.removed["conversations"] += 1
        erasure.conversations.append((at.path, at.name))


PART = Part(
    found={
        "message": (
            SearchableKind(stored_as=message_log.MESSAGE, texts=texts, recollections=recollections),
            SearchableKind(stored_as=message_log.NESTED_MESSAGE, texts=texts, recollections=recollections, named=True),
            SearchableKind(stored_as="thread_post", texts=row_texts, recollections=rewound_recollections),
            SearchableKind(stored_as="thread_round", texts=row_texts, recollections=rewound_recollections),
        )
    },
    tables={"conversations": ("branch", "entry"), "compactions": ("compaction",), "prompts": ("prompt_note",)},
    verify={"conversations": problems, "compactions": compaction_records.problems},
    erase=_erase,
)
