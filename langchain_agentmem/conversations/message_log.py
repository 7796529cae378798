"""The message log: operations on the entries of one conversation.

A conversation is a branch. The entries that one call writes form a group at the next position of that branch. An entry
is one version of a message or of a round. Its key is unique within the conversation: adding the same content again
changes nothing, other content is an error. An edit adds a version; nothing is overwritten.

Everything here is a function of a transaction. Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import (
    NESTED,
    Namespace,
    ThreadKey,
    is_nested,
    namespace_of,
    nested_range,
    range_of,
)
from langchain_agentmem.errors import BranchMoved, InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import body_text, same_body
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import memory_rows, message_sources
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Rows

CONVERSATION = "conversation"
MESSAGE, ROUND, DESCRIPTION = "message", "round", "description"
NESTED_MESSAGE = "nested_message"
"""The index kind for messages of nested graphs, which keeps them out of other searches."""
ALL = 2**62
_FIRST, _LAST = {"position": -1, "slot": -1}, {"position": ALL, "slot": ALL}
"""Positions before the first message of a conversation, and after the last."""


class LogEntry(NamedTuple):
    """A version of a message or round: one to store, or the newest version as read.

    Attributes:
        key: Its id, unique within the conversation.
        body: Its canonical bytes.
        text: The text for the search index; "" for an entry that was read.
        created_at: Its own time.
        kind: MESSAGE, ROUND or DESCRIPTION.
        role: The role of the speaker, in the terms of models.
        sender: The name of the speaker.
        recipient: The name of the recipient.
        round_key: The round that it belongs to.
        attachments: Canonical bytes of the list of its attachments.
        written_at: The time of writing; 0 before that.
        slot: The row of its first version; 0 before it is written.
        new_key: Whether the key is new, so that no entry can have it yet.
        follows: Whether it follows the thread of the conversation's name, and is visible where the thread shows it.
        kept: Whether the same transaction has already stored its body.
    """

    key: str
    body: bytes
    text: str
    created_at: int
    kind: str = MESSAGE
    role: str | None = None
    sender: str | None = None
    recipient: str | None = None
    round_key: str | None = None
    attachments: bytes | None = None
    written_at: int = 0
    slot: int = 0
    new_key: bool = False
    follows: bool = False
    kept: bool = False

    @property
    def findable(self) -> bool:
        """True for messages and for rounds with a query, which a search can find."""
        return self.kind != ROUND or bool(self.text)

    @property
    def words(self) -> str:
        """The searchable text, as `body_text` reads it; without calls, this is `text`."""
        return body_text(self.body, with_calls=True) if b'"type"' in self.body else self.text


class AppendResult(NamedTuple):
    """The result of an append.

    Attributes:
        keys: Keys of the entries that were new.
        dropped: Keys of the messages that the retention dropped.
    """

    keys: list[str]
    dropped: list[str]


# -- writing -------------------------------------------------------------------------------------------------------


def append(
    tx: Transaction,
    at: ThreadKey,
    entries: Sequence[LogEntry],
    *,
    now: int,
    retention: Retention | None = None,
    newer: bool = False,
    made: Collection[str] = (),
) -> AppendResult:
    """Add entries at the end of a conversation, all of them or none.

    An entry that repeats a stored version under its key changes nothing: later edits are kept.

    Args:
        tx: The transaction.
        at: The conversation; it is created when it does not exist.
        entries: The entries to add, in order.
        now: The time.
        retention: The limit by which to drop the oldest messages afterwards. Default: none.
        newer: Whether other content under a used key is a newer version, as in a checkpoint. Default: False, which
            makes it an error.
        made: The keys of entries that never replace an entry: they are left out if the key is used. Default: none.

    Returns:
        The keys of the entries that were new or have changed, and of those that were dropped.

    Raises:
        MessageError: An entry with other content has the key.
    """
    spot: tuple[int, int] | None = None
    new = entries
    changed: list[LogEntry] = []
    dropped: list[str] = []
    following: list[str] = []
    if given := [entry.key for entry in entries if not entry.new_key]:
        found = query.lock_branch.ahead(tx, path=at.path, kind=CONVERSATION, name=at.name)
        rows = query.known_in(tx, path=at.path, kind=CONVERSATION, name=at.name, keys=json.dumps(given))
        known = {row["key"]: row for row in rows}
        spot = (found[0]["id"], found[0]["head"]) if found else _open(tx, at, now)
        if spot[1] and not found:
            raise BranchMoved  # another writer has just created it and written to it: begin again
        new, others = _told_apart(tx, spot[0], entries, known, by_hand=not newer)
        if others and not newer:
            raise taken(others[0].key)
        changed = [entry for entry in others if entry.key not in made]
        following = [entry.key for entry in entries if entry.follows and entry.key in known]
    if new:
        branch = _write(tx, at, spot, new, now=now)
        if retention:
            dropped = _retain(tx, at, branch, retention, now)
    if spot is not None and following:
        query.follow(tx, branch=spot[0], keys=json.dumps(following))
    for entry in changed:
        update(tx, at, entry.key, lambda _, new=entry: new, now=now)
    return AppendResult([entry.key for entry in (*new, *changed)], dropped)


def describe(tx: Transaction, at: ThreadKey, entry: LogEntry, *, now: int) -> None:
    """Set the description of a conversation: a system message that a reset keeps.

    An empty conversation begins with it. An existing description is edited to the new text. A conversation that began
    without a description stays unchanged.
    """
    branch, head = _open(tx, at, now)
    first = query.messages_after(tx, branch=branch, **_FIRST, limit=1, offset=0)
    if not first:
        _write(tx, at, (branch, head), [entry], now=now)
    elif first[0]["kind"] == DESCRIPTION and bytes(first[0]["body"]) != entry.body:
        update(tx, at, first[0]["key"], lambda old: entry._replace(key=old.key), now=now)


def is_described(tx: Transaction, at: ThreadKey, entry: LogEntry) -> bool:
    """Return whether `describe` would change nothing."""
    first = rows_of(tx, at, query.messages_after, **_FIRST, limit=1, offset=0)
    return bool(first) and (first[0]["kind"] != DESCRIPTION or bytes(first[0]["body"]) == entry.body)


def update(tx: Transaction, at: ThreadKey, key: str, change: Any, *, now: int) -> bool:
    """Store a new version of one entry.

    Facts that rest on an edited message are kept: it is unknown which of them it still supports, and most edits correct
    a word. Their evidence shows the new text. To delete them, remove the message or the facts.

    A version from a checkpoint is another wording, with a document of its own: the thread may go back to the wording
    before, which a search finds then. A version written by a caller edits the current wording. If the thread has gone
    back to an earlier wording, the edit makes this wording the newest again.

    Args:
        tx: The transaction.
        at: The conversation.
        key: The entry's key.
        change: Takes the stored entry and returns the new one.
        now: The time.

    Returns:
        Whether the new version differs from the old one; if not, nothing was written.

    Raises:
        MessageError: No entry has this key.
    """
    found = locked(tx, at)
    row = _current(tx, found[0], key) if found else None
    if found is None or row is None:
        raise unknown(key, at)
    branch, head = found
    entry: LogEntry = change(_stored(row))
    if queries.digest(entry.body) == bytes(row["content_hash"]) and _hash(entry.attachments) == row["attachments_hash"]:
        return False
    bodies: dict[bytes, bytes] = {}
    new = _row(entry, now, bodies) | {"branch": branch, "position": head + 1}
    new |= {"replaces": row["slot"], "kind": row["kind"], "document": None}
    queries.store(tx, bodies)
    if not query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0):
        raise BranchMoved
    document = _document(entry)
    if row["document_id"] is None or (not entry.follows and row["wording"] == row["newest"]):
        query.insert_entry(tx, **new)
        if row["document_id"] is not None:
            old = body_text(bytes(row["body"]), with_calls=True)
            search_index.replace(tx, row["document_id"], old, row["wording"], document)
        return True
    placed = search_index.places(tx, series_of(at), [document])
    if entry.follows:
        [wording] = query.insert_entry(tx, **new | {"document": placed.numbers[0]})
    else:
        again = {"wording": row["wording"], "position": head + 1, "document": placed.numbers[0]}
        [wording] = query.say_again(tx, **again, now=now)
        query.insert_entry(tx, **new)
    search_index.write(tx, placed, [wording["id"]])
    return True


def remove(tx: Transaction, at: ThreadKey, keys: Sequence[str]) -> list[str]:
    """Delete entries with all their versions, and the facts without any other source.

    Returns:
        The keys that existed.
    """
    found = locked(tx, at)
    removed: list[str] = []
    if found is None:
        return removed
    for key in dict.fromkeys(keys):
        row = _current(tx, found[0], key)
        if row is not None:
            _drop(tx, row["slot"])
            if row["kind"] == MESSAGE:
                query.message_dropped(tx, branch=found[0])
            removed.append(key)
    _unsay(tx, at, removed)
    message_sources.forget(tx, *_own(at), at.name, removed)
    return removed


def shorten(tx: Transaction, at: ThreadKey, retention: Retention, *, now: int) -> int:
    """Drop the messages that a retention does not keep, as `append` does; return their number."""
    found = locked(tx, at)
    return 0 if found is None else len(_retain(tx, at, found[0], retention, now))


def clear(tx: Transaction, at: ThreadKey, *, keep_description: bool) -> int:
    """Delete a conversation, or all but its description, and the facts that rest on it alone.

    Facts that rest on messages dropped earlier by a retention are deleted with the whole conversation, and kept if the
    description is kept.

    Returns:
        The number of deleted entries, versions included.
    """
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    found = locked(tx, at)
    if found is None:
        return 0
    branch, _ = found
    rows = query.slots_to_drop(tx, branch=branch, everything=int(not keep_description))
    _unindex(tx, rows)
    if keep_description:
        query.delete_compactions(tx, branch=branch, slot=0)
        query.delete_all_but_description(tx, branch=branch)
        query.no_messages(tx, branch=branch)
    else:
        _delete(tx, at, branch)
    queries.collect(tx, _hashes(rows))
    message_sources.forget(tx, *_own(at), at.name, sorted({row["key"] for row in rows}))
    _unsay(tx, at)
    if not keep_description:
        message_sources.forget(tx, *_own(at), at.name)
    return len(rows)


def copy(tx: Transaction, at: ThreadKey, name: str, *, now: int) -> None:
    """Copy the entries that follow a thread, in all versions, to another conversation.

    Args:
        tx: The transaction.
        at: The conversation.
        name: The id of the other one, in the same namespace. Its existing entries stay.
        now: The time.
    """
    target = ThreadKey(at.path, name)
    rows = rows_of(tx, at, query.following_versions)
    first = [_copied(row) for row in rows if row["replaces"] is None]
    if first:
        new = set(append(tx, target, first, now=now, newer=True).keys)
        for row in rows:
            if row["replaces"] is not None and row["key"] in new:
                update(tx, target, row["key"], lambda _, row=row: _copied(row), now=now)


def nested_in(tx: Transaction, low: str, high: str, thread: str) -> Rows:
    """Return the conversations of the graphs nested in a thread: rows with "path" and "name".

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: The path after the last.
        thread: The thread's id.
    """
    first, last = nested_range(thread)
    return query.nested_conversations(tx, low=low, high=high, kind=CONVERSATION, first=first, last=last)


def forget(tx: Transaction, at: ThreadKey) -> None:
    """Delete the entries and nested conversations of a deleted thread, but no learned facts."""
    for row in nested_in(tx, *_own(at), at.name):
        forget(tx, ThreadKey(row["path"], row["name"]))
    memory_rows.discard(tx, query.said_of(tx, path=at.path, name=at.name, keys=None))
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    found = locked(tx, at)
    if found is None:
        return
    branch, _ = found
    nested = is_nested(at.name)
    whole = nested or not query.unbound(tx, branch=branch)
    for row in query.following(tx, branch=branch, every=int(nested)):
        _drop(tx, row["slot"])
        query.message_dropped(tx, branch=branch)
    if whole:
        _delete(tx, at, branch)


# -- reading -------------------------------------------------------------------------------------------------------


def leave(tx: Transaction, at: ThreadKey, path: str) -> list[int]:
    """Prepare a move to another namespace: lock the conversation, and delete its prompt notes.

    Args:
        tx: The transaction.
        at: The conversation.
        path: The path of the other namespace.

    Returns:
        Its branch; an empty list if the conversation does not exist.

    Raises:
        InvalidInput: The other namespace has a conversation of this name.
    """
    if find(tx, ThreadKey(path, at.name)) is not None:
        raise InvalidInput(f"There is a conversation {safe_repr(at.name)} in {safe_repr(namespace_of(path))} already.")
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    found = locked(tx, at)
    return [] if found is None else [found[0]]


def at_index(tx: Transaction, at: ThreadKey, idx: int) -> LogEntry | None:
    """Lock a conversation for a write, and return the message at an index, or None.

    A negative index counts from the end.
    """
    locked(tx, at)
    if idx >= 0:
        found = messages(tx, at, limit=1, offset=idx)
    else:
        found = _entries(tx, at, query.messages_before, **_LAST, limit=1, offset=-idx - 1)
    return found[0] if found else None


def messages(tx: Transaction, at: ThreadKey, *, limit: int = ALL, offset: int = 0) -> list[LogEntry]:
    """Return messages in conversation order."""
    return _entries(tx, at, query.messages_after, **_FIRST, limit=limit, offset=offset)


def recent(tx: Transaction, at: ThreadKey, *, limit: int = ALL, role: str | None = None) -> list[LogEntry]:
    """Return the last messages, oldest first; with `role`, only those of this role."""
    if role is None:
        return _entries(tx, at, query.messages_before, **_LAST, limit=limit, offset=0)
    return _entries(tx, at, query.messages_of_role, limit=limit, role=role)[::-1]


def recent_turns(tx: Transaction, at: ThreadKey, *, limit: int) -> list[LogEntry]:
    """Return the last messages, oldest first, extended to the calls of leading tool results."""
    most = limit
    while len(found := recent(tx, at, limit=most)) == most and found and found[0].role == "tool":
        most += 16
    start = max(0, len(found) - limit)
    while 0 < start < len(found) and found[start].role == "tool":
        start -= 1
    return found[start:]


def around(tx: Transaction, at: ThreadKey, key: str, *, before: int, after: int) -> list[LogEntry]:
    """Return a message with some messages before and after it, in conversation order.

    Raises:
        MessageError: No message has this key.
    """
    found = rows_of(tx, at, query.where_said, key=key)
    if not found:
        raise unknown(key, at)
    place = {"position": found[0]["position"], "slot": found[0]["slot"]}
    earlier = _entries(tx, at, query.messages_before, **place, limit=min(before, ALL - 1) + 1, offset=0)
    return earlier + _entries(tx, at, query.messages_after, **place, limit=after, offset=0)


def get(tx: Transaction, at: ThreadKey, key: str) -> LogEntry | None:
    """Return one entry by its key, or None."""
    found = _entries(tx, at, query.current_entry, key=key)
    return found[0] if found else None


def history(tx: Transaction, at: ThreadKey, key: str) -> list[LogEntry]:
    """Return every version of one entry, oldest first; empty if no entry has this key."""
    return _entries(tx, at, query.versions, key=key)


def count(tx: Transaction, at: ThreadKey) -> int:
    """Count the messages of a conversation."""
    rows = rows_of(tx, at, query.count_messages)
    return int(rows[0]["messages"]) if rows else 0


def rounds(tx: Transaction, at: ThreadKey) -> tuple[list[LogEntry], list[LogEntry]]:
    """Return the rounds and all messages of a conversation, each in order, of one snapshot."""
    branch = find(tx, at)
    if branch is None:
        return [], []
    begun = query.rounds(tx, branch=branch)
    said = query.messages_after(tx, branch=branch, **_FIRST, limit=ALL, offset=0)
    return list(map(_stored, begun)), list(map(_stored, said))


def disown(tx: Transaction, at: ThreadKey, entry: LogEntry) -> None:
    """Delete the compactions that include a message, before it is changed or removed."""
    if (branch := find(tx, at)) is not None:
        query.delete_compactions(tx, branch=branch, slot=entry.slot)


class ListedConversation(NamedTuple):
    """A conversation in a list, without its messages.

    Attributes:
        conversation_id: Its id.
        namespace: Its namespace.
        messages: The number of its messages.
        first_at: The time of its first message, in UTC.
        last_at: The time of its last message, in UTC.
    """

    conversation_id: str
    namespace: Namespace
    messages: int
    first_at: datetime
    last_at: datetime


def conversations(tx: Transaction, namespace: Namespace, limit: int, offset: int) -> list[ListedConversation]:
    """Return the conversations of a namespace and of all below it.

    Raises:
        InvalidInput: `limit` or `offset` is negative or not a whole number.
    """
    low, high = range_of(namespace)
    counts = {"limit": count_given("limit", limit), "offset": count_given("offset", offset)}
    rows = query.newest_conversations(tx, low=low, high=high, kind=CONVERSATION, mark=NESTED, **counts)
    return [
        ListedConversation(
            row["name"], namespace_of(row["path"]), row["messages"], moment(row["first_at"]), moment(row["last_at"])
        )
        for row in rows
    ]


def count_given(name: str, number: Any, error: type[InvalidInput] = InvalidInput) -> int:
    """Check a requested number of rows, and limit it to `ALL`.

    Raises:
        InvalidInput: The number is negative or not a whole number.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise error(f"{name} must be a whole number of 0 or more, not {safe_repr(number)}.")
    return min(number, ALL)


# -- the parts of the above ----------------------------------------------------------------------------------------


def _delete(tx: Transaction, at: ThreadKey, branch: int) -> None:
    """Delete a conversation's branch and index series, and its namespace if it is empty.

    The caller has deleted its documents.
    """
    query.delete_branch(tx, branch=branch)
    search_index.close(tx, *series_of(at))
    query.delete_empty_namespaces(tx, path=at.path)


def _own(at: ThreadKey) -> tuple[str, str]:
    """Return the range of paths that holds only a conversation's namespace."""
    return at.path, at.path + "\x01"


def rows_of(tx: Transaction, at: ThreadKey, asked: Query, **given: Any) -> Rows:
    """Run a query on a conversation's branch; return no rows if it does not exist."""
    branch = find(tx, at)
    return [] if branch is None else asked(tx, branch=branch, **given)


def _entries(tx: Transaction, at: ThreadKey, asked: Query, **given: Any) -> list[LogEntry]:
    return list(map(_stored, rows_of(tx, at, asked, **given)))


def find(tx: Transaction, at: ThreadKey) -> int | None:
    """Return a conversation's branch, or None."""
    rows = query.find_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return rows[0]["id"] if rows else None


def locked(tx: Transaction, at: ThreadKey) -> tuple[int, int] | None:
    """Lock a conversation for a write, and return its branch and head, or None."""
    rows = query.lock_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return (rows[0]["id"], rows[0]["head"]) if rows else None


def _moved_on(tx: Transaction, at: ThreadKey, spot: tuple[int, int] | None, added: int) -> Rows:
    """Advance the head of a conversation by one position, from the locked head if it is given."""
    if spot is None:
        return query.move_on.ahead(tx, path=at.path, kind=CONVERSATION, name=at.name, added=added)
    return query.move_head.ahead(tx, branch=spot[0], expected=spot[1], position=spot[1] + 1, added=added)


def _open(tx: Transaction, at: ThreadKey, now: int) -> tuple[int, int]:
    found = locked(tx, at)
    if found is None:
        query.create_namespace(tx, path=at.path)
        query.create_branch(tx, path=at.path, kind=CONVERSATION, name=at.name, now=now)
        found = locked(tx, at)
        if found is None:
            raise BranchMoved  # another writer has created and deleted it in between: begin again
    return found


def _write(
    tx: Transaction, at: ThreadKey, spot: tuple[int, int] | None, entries: Sequence[LogEntry], *, now: int
) -> int:
    """Write entries at the end of a conversation, and return its branch.

    Args:
        tx: The transaction.
        at: The conversation.
        spot: Its branch and head, locked. None if the head need not be known: the conversation is created if missing.
        entries: The entries; none of their keys exists in the conversation.
        now: The time.
    """
    bodies: dict[bytes, bytes] = {}
    rows = [_row(entry, now, bodies) for entry in entries]
    added = sum(1 for entry in entries if entry.kind == MESSAGE)
    moved = _moved_on(tx, at, spot, added)
    queries.store(tx, bodies)
    documents = [_document(entry) for entry in entries if entry.findable]
    placed = search_index.places(tx, series_of(at), documents) if documents else None
    if not moved and spot is None:
        _open(tx, at, now)
        moved = _moved_on(tx, at, spot, added)
    if not moved:
        raise BranchMoved
    [here] = moved
    place = {"branch": here["id"], "position": here["head"]}
    numbers = iter(placed.numbers if placed else ())
    for row, entry in zip(rows, entries, strict=True):
        row.update(place, document=next(numbers) if entry.findable else None)
    if len(rows) == 1:
        written = query.insert_entry(tx, **rows[0])
    else:
        query.insert_entries.many(tx, rows)
        written = query.entries_at(tx, **place)
    if placed:
        owners = [row["id"] for row, entry in zip(written, entries, strict=True) if entry.findable]
        search_index.write(tx, placed, owners)
    return int(here["id"])


def series_of(at: ThreadKey) -> search_index.DocumentSeries:
    """Return the series of the messages of a conversation in the index."""
    return search_index.DocumentSeries(at.path, NESTED_MESSAGE if is_nested(at.name) else MESSAGE, at.name)


def _document(entry: LogEntry) -> search_index.IndexedDocument:
    speaker = None if entry.role == "tool" else entry.sender  # a tool's name is what it does, not who it is
    return search_index.IndexedDocument(entry.words, entry.created_at, speaker=speaker, role=entry.role)


def _retain(tx: Transaction, at: ThreadKey, branch: int, retention: Retention, now: int) -> list[str]:
    """Drop the oldest messages, and rounds without posts; return the keys of the messages.

    A cut never separates a tool's result from the call before it. Facts that rest on dropped messages are kept: facts
    exist to outlive the messages.
    """
    surplus = 0
    if retention.keep_last:
        [row] = query.droppable(tx, branch=branch)
        surplus = max(0, row["messages"] - retention.keep_last)
    oldest = now - int(retention.max_age.total_seconds() * 1_000_000) if retention.max_age else None
    # Read from the beginning until a message stays, so that an append costs only the messages that it drops.
    limit = surplus + 8
    while True:
        rows = query.oldest_messages(tx, branch=branch, limit=limit)
        cut = surplus
        while oldest is not None and cut < len(rows) and rows[cut]["created_at"] < oldest:
            cut += 1
        if cut < len(rows) or len(rows) < limit:
            break
        limit *= 4
    while 0 < cut < len(rows) and rows[cut]["role"] == "tool":
        cut -= 1
    for row in rows[:cut]:
        _drop(tx, row["slot"])
        query.message_dropped(tx, branch=branch)
    if 0 < cut < len(rows):
        for row in query.emptied_rounds(tx, branch=branch, position=rows[cut]["position"]):
            _drop(tx, row["slot"])
    _unsay(tx, at, [row["key"] for row in rows[:cut] if row["follows"]])
    return [row["key"] for row in rows[:cut]]


def _unsay(tx: Transaction, at: ThreadKey, keys: Sequence[str] | None = None) -> None:
    """Turn rows of the thread of this name into deletion marks, by message. Default: all."""
    if keys is None or keys:
        asked = None if keys is None else json.dumps(keys)
        memory_rows.bury(tx, query.said_of(tx, path=at.path, name=at.name, keys=asked))


def _drop(tx: Transaction, slot: int) -> None:
    rows = query.slot_versions(tx, slot=slot)
    _unindex(tx, rows)
    query.delete_entry(tx, id=slot)
    queries.collect(tx, _hashes(rows))


def _unindex(tx: Transaction, rows: Sequence[Any]) -> None:
    search_index.remove(
        tx,
        [
            (row["document_id"], body_text(bytes(row["body"]), with_calls=True))
            for row in rows
            if row["body"] is not None and row["document_id"] is not None
        ],
    )


def _hashes(rows: Sequence[Any]) -> list[bytes]:
    return [bytes(h) for row in rows for h in (row["content_hash"], row["attachments_hash"]) if h is not None]


def _current(tx: Transaction, branch: int, key: str) -> Any:
    rows = query.current_entry(tx, branch=branch, key=key)
    return rows[0] if rows else None


def _hash(body: bytes | None) -> bytes | None:
    return None if body is None else queries.digest(body)


def _identity(entry: LogEntry) -> tuple[Any, ...]:
    """Return the values by which two entries under one key are compared."""
    return entry.kind, queries.digest(entry.body), _hash(entry.attachments), entry.recipient, entry.round_key


def says_the_same(old: LogEntry, entry: LogEntry) -> bool:
    """Return whether an entry repeats a stored one, regardless of the order of keys in it."""
    alike = old.body == entry.body or (entry.kind != ROUND and same_body(old.body, entry.body))
    beside = (entry.kind, entry.attachments, entry.recipient, entry.round_key)
    return alike and (old.kind, old.attachments, old.recipient, old.round_key) == beside


def _told_apart(
    tx: Transaction, branch: int, entries: Sequence[LogEntry], known: Mapping[str, Any], *, by_hand: bool
) -> tuple[list[LogEntry], list[LogEntry]]:
    """Return the new entries, and those with other content under a used key, without repeats."""
    new: dict[str, LogEntry] = {}
    others: list[LogEntry] = []
    for entry in entries:
        if (row := known.get(entry.key)) is not None:
            if _row_identity(row) != _identity(entry) and not _repeats(tx, branch, entry, by_hand=by_hand):
                others.append(entry)
        elif (first := new.setdefault(entry.key, entry)) is not entry and not says_the_same(first, entry):
            others.append(entry)
    return list(new.values()), others


def _repeats(tx: Transaction, branch: int, entry: LogEntry, *, by_hand: bool) -> bool:
    """Return whether an entry repeats a stored version of it.

    An entry written manually also repeats one from a checkpoint, if text and role are the same.
    """
    for row in query.versions(tx, branch=branch, key=entry.key):
        if says_the_same(_stored(row), entry):
            return True
        if by_hand and row["follows"] and (body_text(bytes(row["body"])), row["role"]) == (entry.text, entry.role):
            return True
    return False


def _row_identity(row: Any) -> tuple[Any, ...]:
    hashes = (None if row[name] is None else bytes(row[name]) for name in ("content_hash", "attachments_hash"))
    return row["kind"], *hashes, row["recipient"], row["round_key"]


def _copied(row: Any) -> LogEntry:
    """Return a version as an entry for another conversation."""
    body, attachments = bytes(row["body"]), None if row["attachments"] is None else bytes(row["attachments"])
    entry = _stored(row)._replace(body=body, text=body_text(body), attachments=attachments)
    return entry._replace(follows=bool(row["follows"]), written_at=0, slot=0)


def _row(entry: LogEntry, now: int, bodies: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the parameters of an insert, except its position, and add its bodies to `bodies`."""
    key = queries.digest(entry.body)
    if not entry.kept:
        bodies[key] = entry.body
    attachments = _hash(entry.attachments)
    if entry.attachments is not None and attachments is not None:
        bodies[attachments] = entry.attachments
    return {
        **dict(zip(_COLUMNS, _columns_of(entry), strict=True)),
        "replaces": None,
        "content_hash": key,
        "attachments_hash": attachments,
        "written_at": now,
        "follows": int(entry.follows),
    }


_COLUMNS = ("kind", "key", "role", "sender", "recipient", "round_key", "created_at")
_columns_of = attrgetter(*_COLUMNS)
_fields_of_row = itemgetter(
    "created_at", "kind", "role", "sender", "recipient", "round_key", "attachments", "written_at", "slot"
)


def _stored(row: Any) -> LogEntry:
    return LogEntry(row["key"], row["body"], "", *_fields_of_row(row))


def taken(key: str) -> MessageError:
    """Make the error for a key that an entry with other content has."""
    return MessageError(
        f"The conversation already holds other content under the id {safe_repr(key)}. Use update() to change a "
        "message, or another id to add one."
    )


def unknown(key: str, at: ThreadKey) -> MessageError:
    """Make the error for a key that no entry has."""
    return MessageError(f"The conversation {safe_repr(at.name)} holds no message with the id {safe_repr(key)}.")
