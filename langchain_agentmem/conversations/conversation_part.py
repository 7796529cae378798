"""Search, verification, erasure, export and import of conversations.

An export consists of records in the order of writing. A record is one version of a message, round or description, in
a form that can be written as JSON. An edit has its own record, with the key of the edited entry. The records of
messages that were added in one call have the same number `call`. An import restores a conversation with its ids, times,
rounds, attachments and earlier versions.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.clock import EARLIEST, LATEST, from_micros
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey, check_id, is_nested, namespace_of
from langchain_agentmem.conversations import compaction_records, message_log
from langchain_agentmem.conversations.log_entries import USER, check_langchain
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import ROLE_SOURCES, Message, body_text, decode_body, escape_name, search_text
from langchain_agentmem.messages.role_rounds import Attachment, Round
from langchain_agentmem.rewinding.search_view import EVERYWHERE, SearchView, row_texts, visible_messages, visible_rows
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.transaction import Row


def load_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of messages, by row id.

    Args:
        tx: The transaction.
        owners: The row ids of the indexed versions of messages (column `wording`).
    """
    rows = query.entry_hits(tx, owners=json.dumps(list(owners)))
    return {row["wording"]: (body_text(bytes(row["body"]), with_calls=True),) for row in rows}


def message_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, view: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert hits in conversations to `Recollection`s, by document number.

    Args:
        tx: The transaction.
        hits: Messages that a search found. Messages that were deleted after the search are left out.
        now: The time, in microseconds since 1970.
        view: The view of the search. A message that belongs to a thread and rewinds with it (column `follows`) is
            visible only in the version that this view shows. Any other message is visible in every view.
    """
    rows = query.entry_hits(tx, owners=json.dumps([hit.owner for hit in hits]))
    shown = {row["wording"]: dict(row) for row in rows}  # the key is the `owner` of a hit
    view = view or EVERYWHERE
    if (thread_slots := {row["slot"] for row in rows if row["follows"]}) and not view.abandoned:
        visible = {row["wording"] for row in visible_messages(tx, view, thread_slots, now)}
        shown = {owner: row for owner, row in shown.items() if owner in visible or not row["follows"]}
    return {hit.document: _to_recollection(hit, shown[hit.owner], "conversation") for hit in hits if hit.owner in shown}


def session_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, view: SearchView | None
) -> Mapping[int, Recollection]:
    """Convert visible hits in sessions of threads to `Recollection`s, by document number.

    Args:
        tx: The transaction.
        hits: Posts and rounds that a search found. Hits that the view does not show are left out.
        now: The time, in microseconds since 1970.
        view: The view of the search.
    """
    rows, views = visible_rows(tx, hits, now, view)
    visible = {owner for _, owners in views for owner in owners}
    return {hit.document: _to_recollection(hit, dict(rows[hit.owner]), "name") for hit in hits if hit.owner in visible}


def _to_recollection(hit: SearchHit, row: Mapping[str, Any], id_column: str) -> Recollection:
    body = bytes(row["body"])
    if row["kind"] in {message_log.ROUND, "thread_round"}:
        message = Message(role="user", name=USER, content=encoding.decode(body)["user_query"], message_id=row["key"])
    else:
        message = decode_body(body, row["key"])
    source = ROLE_SOURCES.get(str(message.role))
    return Recollection(
        kind="message",
        id=message.message_id,
        text=message.text or search_text(message),
        score=hit.score,
        namespace=namespace_of(row["path"]),
        conversation_id=row[id_column],
        created_at=from_micros(row["created_at"]),
        value=message,
        why=hit.why,
        row=(hit.kind, hit.owner),
        thread_id=row[id_column] if row.get("follows") else None,
        # In a nested graph, the model of the outer graph wrote the messages of the user.
        source="model" if source == "user" and is_nested(row[id_column]) else source,
        actor=message.name,
    )


TEXT_COLUMNS = ("role", "sender", "recipient", "round_key")
"""The columns of an entry that contain optional text."""
_RECORD_COLUMNS = ("key", "kind", *TEXT_COLUMNS, "created_at", "written_at")
_DAMAGE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable)
"""The errors that reading a damaged entry or record can raise."""
_Micros: TypeAlias = Annotated[int, Ge(EARLIEST), Le(LATEST)]
_Position: TypeAlias = _Micros  # the bounds of times also suit positions


class EntryRecord(Options):
    """A version of an entry, in a form that can be written as JSON.

    Attributes:
        call: The position of this version in the conversation. Messages that were added in one call share a position.
        key: The id of the message or round.
        kind: The kind of the entry.
        edit: True if this version replaces an earlier one.
        role: The role of the message. Default: none.
        sender: The name of the sender. Default: none.
        recipient: The recipient of a post. Default: none.
        round_key: The id of the round that the post belongs to. Default: none.
        created_at: The time of the message or round, in microseconds since 1970.
        written_at: The time at which this version was written, in microseconds since 1970.
        body: The fields of the message or round.
        attachments: The attachments of the post. Default: none.
        follows: True if the entry belongs to the thread of the conversation's id, and rewinds with it. Default: False.
    """

    call: _Position
    key: str
    kind: Literal["message", "round", "description"]
    edit: bool
    role: str | None = None
    sender: str | None = None
    recipient: str | None = None
    round_key: str | None = None
    created_at: _Micros
    written_at: _Micros
    body: Any
    attachments: Any = None
    follows: bool = False

    def to_entry(self, *, has_thread: bool) -> message_log.LogEntry:
        """Return the entry to store.

        Args:
            has_thread: True if the import has the thread too. Otherwise, the entry belongs to no thread.

        Raises:
            MessageError: The key is not a valid id, or the message cannot be read.
        """
        key, body = check_id(self.key, "message", MessageError), write_plain(self.body)
        attachments = None if self.attachments is None else write_plain(self.attachments)
        text = _check_readable(self.kind, body, attachments, key)
        entry = message_log.LogEntry(key, body, text, self.created_at, self.kind, attachments=attachments)
        columns: dict[str, Any] = {name: escape_name(getattr(self, name)) for name in TEXT_COLUMNS}
        return entry._replace(follows=has_thread and self.follows, **columns)


def dump_records(tx: Transaction, at: ThreadKey) -> list[dict[str, Any]]:
    """Return a record for each version of a conversation's entries, in the order of writing.

    Raises:
        DatabaseUnreadable: An entry is damaged, and `restore_records` would refuse it.
    """
    rows = message_log.branch_rows(tx, at, query.dump_entries)
    try:
        return list(map(_to_record, rows))
    except _DAMAGE_ERRORS as error:
        problem = f"The conversation {safe_repr(at.name)} is damaged and cannot be exported."
        raise DatabaseUnreadable(f"{problem} Run verify() for details. {error}") from error


def _to_record(row: Row) -> dict[str, Any]:
    """Convert the row of an entry's version to a record."""
    _check_readable(row["kind"], row["body"], row["attachments"], row["key"])
    record = {"call": row["position"], "edit": row["replaces"] is not None, "follows": bool(row["follows"])}
    record |= {name: row[name] for name in _RECORD_COLUMNS if row[name] is not None}
    return record | {name: read_plain(row[name]) for name in ("body", "attachments") if row[name] is not None}


def restore_records(
    tx: Transaction, at: ThreadKey, records: Sequence[Mapping[str, Any]], *, now: int, has_thread: bool = False
) -> list[str]:
    """Write records into a conversation, and keep its existing entries.

    An existing entry must have the imported first version. It gets the imported edits that it lacks, unless it was
    edited otherwise: it stays unchanged if its newest version is not among the imported versions.

    Args:
        tx: The transaction.
        at: The conversation. It is created if it does not exist.
        records: The records, as `dump_records` returned them.
        now: The time of writing, in microseconds since 1970, for first versions whose `written_at` is 0.
        has_thread: True if the import has the thread too, see `EntryRecord.to_entry`. Default: False.

    Returns:
        The key of each version that was written.

    Raises:
        InvalidInput: A record is damaged.
        MessageError: An existing entry lacks the imported first version.
    """
    try:
        parsed = [EntryRecord(**record) for record in records]
        # The first element groups the records that were written together.
        imported = [((each.call, each.edit, each.written_at), each.to_entry(has_thread=has_thread)) for each in parsed]
    except _DAMAGE_ERRORS as error:
        raise InvalidInput(f"This record is damaged: {safe_repr(error)}.") from error
    written: list[str] = []
    existing: dict[str, list[bytes]] = {}  # the stored versions of entries that existed before the import
    for (_, edit, written_at), group in groupby(imported, key=itemgetter(0)):
        entries = [entry for _, entry in group]
        if edit:
            for entry in entries:
                versions = existing.get(entry.key)
                if versions is None or (
                    # This edit is not stored yet, and the newest stored version is among the imported ones.
                    entry.body not in versions
                    and any(other.key == entry.key and other.body == versions[-1] for _, other in imported)
                ):
                    message_log.update(tx, at, entry.key, lambda _, new=entry: new, now=written_at)
                    written.append(entry.key)
            continue
        for entry in entries:
            bodies = [bytes(row.body) for row in message_log.history(tx, at, entry.key)]
            if entry.body in bodies:
                existing[entry.key] = bodies
        new = [entry for entry in entries if entry.key not in existing]
        written += message_log.append(tx, at, new, now=written_at or now).keys
    return written


def _check_readable(kind: str, body: bytes, attachments: bytes | None, key: str) -> str:
    """Check that an entry can be read as a message or round, and return its text."""
    if attachments is not None:
        for each in encoding.decode(attachments):
            Attachment.from_dict(each)  # raises if the attachment is malformed
    if kind in {message_log.MESSAGE, message_log.DESCRIPTION}:
        message = decode_body(body, key)
        check_langchain(message)
        return message.text
    fields = encoding.decode(body)
    return Round.create(fields["user_query"], id=key, state=fields["state"]).user_query


def find_problems(tx: Transaction) -> list[str]:
    """Describe the conversations with a wrong head or count, and the inconsistent entries."""
    rows = query.wrong_heads(tx)
    problems = [f"the head of the conversation {safe_repr(row['name'])} is behind its newest entry" for row in rows]
    for row in query.wrong_message_counts(tx):
        count = f"{row['messages']} messages, not {row['actual']}"
        problems.append(f"the conversation {safe_repr(row['name'])} counts {count}")
    rows = query.unknown_entries(tx)
    problems += [f"entry {row['id']} is of an unknown kind, {safe_repr(row['kind'])}" for row in rows]
    after = 0
    while page := query.bodies_after(tx, after=after, limit=500):
        damaged = (row["id"] for row in page if zlib.crc32(bytes(row["body"])) != row["checksum"])
        problems += [f"the body of entry {number} is damaged (checksum mismatch)" for number in damaged]
        after = page[-1]["id"]
    problem = "replaces an entry of another conversation or id, or a later version"
    return problems + [f"entry {row['id']} {problem}" for row in query.wrong_versions(tx)]


def _erase_conversations(tx: Transaction, erasure: Erasure) -> None:
    selection = {"low": erasure.low, "high": erasure.high, "name": erasure.name}
    query.erase_prompt_notes(tx, **selection)
    rows = query.list_branches(tx, kind=message_log.CONVERSATION, **selection)
    if erasure.threads and erasure.name is not None:
        rows = [*rows, *message_log.find_nested_conversations(tx, erasure.low, erasure.high, erasure.name)]
    for row in rows:
        at = ThreadKey(row["path"], row["name"])
        erasure.removed["entries"] += message_log.clear(tx, at, keep_description=False)
        erasure.removed["conversations"] += 1
        erasure.conversations.append((at.path, at.name))


_of_messages = partial(SearchableKind, texts=load_texts, recollections=message_recollections)
_of_sessions = partial(SearchableKind, texts=row_texts, recollections=session_recollections)
PART = Part(
    search_kinds={
        "message": (
            _of_messages(index_name=message_log.MESSAGE),
            _of_messages(index_name=message_log.NESTED_MESSAGE, needs_conversation=True),
            _of_sessions(index_name="thread_post"),
            _of_sessions(index_name="thread_round"),
        )
    },
    tables={"conversations": ("branch", "entry"), "compactions": ("compaction",), "prompts": ("prompt_note",)},
    verify={"conversations": find_problems, "compactions": compaction_records.find_problems},
    erase=_erase_conversations,
)
