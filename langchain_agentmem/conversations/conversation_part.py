"""Conversations as a part: found by a search, verified, erased, exported as plain records and imported.

An export needs plain records. A record is one version of one message or round, in the order in which it was written;
JSON can hold it exactly. An edit names what it replaces by key, and records of one call stay together under one `call`
number, so that a conversation comes back with its ids, times, rounds, attachments and earlier versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import name_given
from langchain_agentmem.base.clock import is_time, moment
from langchain_agentmem.base.encoding import read_column, read_plain, write_plain
from langchain_agentmem.base.namespaces import id_of, is_nested, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import compaction_records, message_log, prompt_notes, recorded_messages
from langchain_agentmem.conversations.log_entries import USER, check_langchain
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError
from langchain_agentmem.messages.message import SOURCES, Message, body_text, decode_body, found_by, plain
from langchain_agentmem.messages.role_rounds import Attachment, Round
from langchain_agentmem.rewinding.outlook import EVERYWHERE, Outlook, row_texts, said_from, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.part import Erasure, Found, Part
from langchain_agentmem.storage.transaction import Row


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The texts by which messages are found, by their rows.

    Args:
        tx: The transaction.
        owners: The rows of their wordings.
    """
    rows = query.found_entries(tx, owners=json.dumps(list(owners)))
    return {row["wording"]: (body_text(bytes(row["body"]), with_calls=True),) for row in rows}


def recollections(
    tx: Transaction, hits: Sequence[Hit], now: int, outlook: Outlook | None
) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: Messages that a search found. What was deleted meanwhile is left out.
        now: When.
        outlook: From where it looks. Those that follow no thread are seen from everywhere, the others in the wording
            that is shown there.
    """
    rows = query.found_entries(tx, owners=json.dumps([hit.owner for hit in hits]))
    found = {row["wording"]: _fields(row) for row in rows}
    following = {row["slot"] for row in found.values() if row["follows"]}
    if following:
        here = outlook or EVERYWHERE
        shown = said_from(tx, here, following, now)
        says = {row["wording"] for row in shown}
        found = {
            wording: row
            for wording, row in found.items()
            if wording in says or here.abandoned or row["slot"] not in following
        }
    return {hit.document: _recollection(hit, found[hit.owner], "conversation") for hit in hits if hit.owner in found}


def rewound_recollections(
    tx: Transaction, hits: Sequence[Hit], now: int, outlook: Outlook | None
) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        tx: The transaction.
        hits: Posts of the sessions of threads that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = sighted(tx, hits, now, outlook)
    seen = {number for _, numbers in sights for number in numbers}
    return {hit.document: _recollection(hit, _fields(there[hit.owner]), "name") for hit in hits if hit.owner in seen}


def _fields(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - a database row, not a dict


def _recollection(hit: Hit, row: Mapping[str, Any], conversation: str) -> Recollection:
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


Record: TypeAlias = Mapping[str, Any]
"""A version of an entry, as JSON can hold it."""
TEXTS = ("role", "sender", "recipient", "round_key")
_CORRECTION = ("id", "by", "undoes")
"""The fields of the correction that an edit is."""


def dump(tx: Transaction, at: message_log.Address) -> list[dict[str, Any]]:
    """Every version of everything in a conversation, as records.

    Raises:
        DatabaseUnreadable: Something is damaged, so that `restore` would refuse it.
    """
    rows = message_log.rows_of(tx, at, query.dump_entries)
    for row in rows:
        _check(row, at)
    return [_record(row) for row in rows]


def _record(row: Row) -> dict[str, Any]:
    record = record_of(row, row["position"], edit=row["replaces"] is not None)
    if row["correction"] is not None:
        record["correction"] = read_column(row["correction"], dict)
    return record | {"follows": True} if row["follows"] else record


def record_of(row: Row, call: int, *, edit: bool) -> dict[str, Any]:
    """A version of an entry as a record.

    Args:
        row: The version.
        call: What those that were written at once have in common.
        edit: Whether it took the place of another one.
    """
    record = {"call": call, "key": row["key"], "kind": row["kind"], "edit": edit}
    record |= {name: row[name] for name in TEXTS if row[name] is not None}
    record |= {"created_at": row["created_at"], "written_at": row["written_at"], "body": read_plain(row["body"])}
    return record if row["attachments"] is None else record | {"attachments": read_plain(row["attachments"])}


def restore(
    tx: Transaction,
    at: message_log.Address,
    records: Sequence[Record],
    *,
    now: int,
    tail: int,
    into: message_log.Log = message_log,
    following: bool = False,
) -> list[str]:
    """Write records into a conversation, keeping what is there.

    What is there already is left alone. A message that was edited since it came here from the same source gets the
    edits it lacks; one that was edited here stays as it is.

    Args:
        tx: The transaction.
        at: The conversation; it is created when it does not exist.
        records: What `dump` gave.
        now: When.
        tail: How many entries may wait for the index.
        into: The log. Default: that of conversations.
        following: Whether what followed a thread does here too, which comes with it. Default: it stands by itself.

    Returns:
        The key of every version that was written.

    Raises:
        InvalidInput: A record is damaged.
        MessageError: The conversation holds other content under one of the ids.
    """
    try:
        given = [(_call(record), _entry(record, following=following)) for record in records]
    except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable) as error:
        raise InvalidInput(f"This record is damaged: {safe_repr(error)}.") from error
    written: list[str] = []
    here: dict[str, list[bytes]] = {}  # the versions of those that were here before
    for (_, edit, written_at), group in groupby(given, key=itemgetter(0)):
        entries = [entry for _, entry in group]
        if edit:
            for entry in entries:
                versions = here.get(entry.key)
                if versions is None or (entry.body not in versions and _is_behind(versions, entry.key, records)):
                    into.update(tx, at, entry.key, lambda _, new=entry: new, now=written_at, tail=tail)
                    written.append(entry.key)
            continue
        for entry in entries:
            rows = into.history(tx, at, entry.key)
            if any(bytes(row.body) == entry.body for row in rows):
                here[entry.key] = [bytes(row.body) for row in rows]
        new = [entry for entry in entries if entry.key not in here]
        written += into.append(tx, at, new, now=written_at or now, tail=tail).keys
    return written


def _is_behind(versions: Sequence[bytes], key: str, records: Sequence[Record]) -> bool:
    """Whether the newest version here is one of those that the records tell of, so that theirs come after it."""
    told = (write_plain(record["body"]) for record in records if record.get("key") == key)
    return versions[-1] in told


def _check(row: Row, at: message_log.Address) -> None:
    try:
        _readable(row["kind"], row["body"], row["attachments"], row["key"])
    except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable) as error:
        raise DatabaseUnreadable(
            f"{safe_repr(row['key'])} of the conversation {safe_repr(at.name)} is damaged and cannot be "
            f"exported; verify() tells more. {error}"
        ) from error


def _call(record: Record) -> tuple[int, bool, int]:
    return _whole(record["call"]), bool(record["edit"]), _whole(record["written_at"])


def _entry(record: Record, *, following: bool) -> message_log.LogEntry:
    key = id_of(record["key"], "message", MessageError)
    body = write_plain(record["body"])
    attachments = write_plain(record["attachments"]) if "attachments" in record else None
    names: dict[str, Any] = {name: _name(record.get(name)) for name in TEXTS}
    text = _readable(record["kind"], body, attachments, key)
    created_at = _whole(record["created_at"])
    names["follows"] = following and record.get("follows") is True
    if (made := record.get("correction")) is not None:
        told = {name: made[name] for name in _CORRECTION}
        names["correction"] = {name: text if text is None else name_given(text, name) for name, text in told.items()}
    return message_log.LogEntry(key, body, text, created_at, kind=record["kind"], attachments=attachments, **names)


def _readable(kind: str, body: bytes, attachments: bytes | None, key: str) -> str:
    """What a search should find an entry by, once it is known that every view can read the entry."""
    if attachments is not None:
        for each in encoding.decode(attachments):
            Attachment.from_dict(each)
    if kind in {message_log.MESSAGE, message_log.DESCRIPTION}:
        message = decode_body(body, key)
        check_langchain(message)
        return message.text
    if kind != message_log.ROUND:
        raise InvalidInput(f"{safe_repr(kind)} is no kind of entry.")
    fields = encoding.decode(body)
    return Round.create(fields["user_query"], id=key, state=fields["state"]).user_query


def _name(text: Any) -> str | None:
    """A name as a column can hold it."""
    if text is not None and (not isinstance(text, str) or plain(text) != text):
        raise InvalidInput(f"{safe_repr(text)} is no name.")
    return text


def _whole(number: Any) -> int:
    """A time or position; what is outside the years 1 to 9999 could not be read again."""
    if not is_time(number):
        raise InvalidInput(f"This record is damaged: {safe_repr(number)} is no time or position.")
    return int(number)


def problems(tx: Transaction) -> list[str]:
    """What is wrong with what conversations say of their messages."""
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
    prompt_notes.erase(tx, erasure.low, erasure.high, erasure.name)
    rows = query.list_branches(tx, kind=message_log.CONVERSATION, **within)
    if erasure.threads and erasure.name is not None:
        rows = [*rows, *message_log.nested_in(tx, erasure.low, erasure.high, erasure.name)]
    for row in rows:
        at = message_log.Address(row["path"], row["name"])
        erasure.removed["entries"] += message_log.clear(tx, at, keep_description=False)
        erasure.removed["conversations"] += 1
        erasure.conversations.append((at.path, at.name))


PART = Part(
    found={
        "message": (
            Found(stored_as=message_log.MESSAGE, texts=texts, recollections=recollections),
            Found(stored_as=message_log.NESTED_MESSAGE, texts=texts, recollections=recollections, named=True),
            Found(stored_as="thread_post", texts=row_texts, recollections=rewound_recollections),
            Found(stored_as="thread_round", texts=row_texts, recollections=rewound_recollections),
        )
    },
    tables={
        "conversations": ("branch", "entry"),
        "compactions": ("compaction",),
        "prompts": ("prompt_note",),
    },
    verify={"conversations": problems, "compactions": compaction_records.problems},
    erase=_erase,
    listener=recorded_messages,
)
