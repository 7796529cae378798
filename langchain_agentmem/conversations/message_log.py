"""The message log: operations on the entries of one conversation.

A conversation is a branch; what one call writes is a group at the next position of that branch. An entry is
one version of a message or of a round. Its key is unique within the conversation: the same content again is a
repeat and changes nothing, other content is an error. An edit adds a version; nothing is overwritten.

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
"""What the index calls the messages of nested graphs, so that searches elsewhere do not meet them."""
ALL = 2**62
_FIRST, _LAST = {"position": -1, "slot": -1}, {"position": ALL, "slot": ALL}
"""Places before the first message of a conversation, and behind the last."""


class LogEntry(NamedTuple):
    """A version of a message or round: one that is to be stored, or the newest as it was read.

    Attributes:
        key: Its id, unique within the conversation.
        body: Its canonical bytes.
        text: What a search should find it by; "" where it was read.
        created_at: Its own time.
        kind: MESSAGE, ROUND or DESCRIPTION.
        role: Who speaks, as models name it.
        sender: Who speaks, by name.
        recipient: To whom, by name.
        round_key: The round it belongs to.
        attachments: Canonical bytes of the list of its attachments.
        written_at: When it was written; 0 before that.
        slot: The row of its first version; 0 before it is written.
        new_key: Whether the key was made for this entry, so that nothing can hold it yet.
        follows: Whether it follows the thread of the conversation's name, and is shown where that shows it.
        kept: Whether its body is stored already, by the same transaction.
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
        """Whether a search finds it: a round is found by its query."""
        return self.kind != ROUND or bool(self.text)

    @property
    def words(self) -> str:
        """What a search finds it by, as `body_text` reads it: most messages call nothing, and are text alone."""
        return body_text(self.body, with_calls=True) if b'"type"' in self.body else self.text


class AppendResult(NamedTuple):
    """What an append did.

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

    An entry that repeats a version of what its key holds changes nothing: what was edited since stays edited.

    Args:
        tx: The transaction.
        at: The conversation; it is created when it does not exist.
        entries: What to add, in order.
        now: When.
        retention: What to drop from the beginning afterwards.
        newer: Whether other content under a key that is taken is its newer version, as in a checkpoint. Default: an
            error.
        made: The keys of entries that are no newer version of anything: they are left out where the key is taken.

    Returns:
        The keys of the entries that were new or have changed, and of those that were dropped.

    Raises:
        MessageError: A key is taken by other content.
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
            raise BranchMoved  # others have made it, and written to it, just now: begin again
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
    """Give a conversation its description: a system message that a reset keeps.

    An empty conversation begins with it. One that has another description gets the new text as an edit; one that
    began without any stays as it is.
    """
    branch, head = _open(tx, at, now)
    first = query.messages_after(tx, branch=branch, **_FIRST, limit=1, offset=0)
    if not first:
        _write(tx, at, (branch, head), [entry], now=now)
    elif first[0]["kind"] == DESCRIPTION and bytes(first[0]["body"]) != entry.body:
        update(tx, at, first[0]["key"], lambda old: entry._replace(key=old.key), now=now)


def is_described(tx: Transaction, at: ThreadKey, entry: LogEntry) -> bool:
    """Whether `describe` would change nothing."""
    first = rows_of(tx, at, query.messages_after, **_FIRST, limit=1, offset=0)
    return bool(first) and (first[0]["kind"] != DESCRIPTION or bytes(first[0]["body"]) == entry.body)


def update(tx: Transaction, at: ThreadKey, key: str, change: Any, *, now: int) -> bool:
    """Store a new version of one entry.

    Facts that rest on a message still do when it was edited: nobody knows which of them it says still, and most edits
    correct a word. Their evidence shows what it says now. Who wants them gone removes the message, or the facts.

    What a checkpoint brings is another wording, with a document of its own: the thread may go back to the one before,
    which is found by then. What somebody writes is an edit of the wording that counts. If the thread has gone back to
    that, it is the newest again.

    Args:
        tx: The transaction.
        at: The conversation.
        key: The entry's key.
        change: Takes the stored entry and gives the new one.
        now: When.

    Returns:
        Whether the new version differs from the old one; if not, nothing was written.

    Raises:
        MessageError: Nothing has this key.
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
    """Delete entries with all their versions, and the facts that nothing else tells of.

    Returns:
        The keys that were there.
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
    """Drop what a retention does not keep, as an addition does. Gives how many messages that were."""
    found = locked(tx, at)
    return 0 if found is None else len(_retain(tx, at, found[0], retention, now))


def clear(tx: Transaction, at: ThreadKey, *, keep_description: bool) -> int:
    """Delete everything in a conversation, or everything but its description, and the facts that rest on it alone.

    What rests on messages that a retention dropped before goes with the whole conversation, and stays if the
    description does.

    Returns:
        How many entries were deleted, versions included.
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
    """Have another conversation begin with what follows a thread in this one, in all its versions.

    Args:
        tx: The transaction.
        at: The conversation.
        name: The id of the other one, in the same namespace. What it has already stays.
        now: When.
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
        high: Path after the last.
        thread: The thread's id.
    """
    first, last = nested_range(thread)
    return query.nested_conversations(tx, low=low, high=high, kind=CONVERSATION, first=first, last=last)


def forget(tx: Transaction, at: ThreadKey) -> None:
    """Delete what follows a thread that is deleted, and its nested conversations. What was learned from it stays."""
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
    """Prepare a conversation to be moved into another namespace: lock it, and delete the notes on its prompts.

    Args:
        tx: The transaction.
        at: The conversation.
        path: The path of the other namespace.

    Returns:
        Its branch; none where there is no such conversation.

    Raises:
        InvalidInput: There is one of its name in the namespace.
    """
    if find(tx, ThreadKey(path, at.name)) is not None:
        raise InvalidInput(f"There is a conversation {safe_repr(at.name)} in {safe_repr(namespace_of(path))} already.")
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    found = locked(tx, at)
    return [] if found is None else [found[0]]


def at_index(tx: Transaction, at: ThreadKey, idx: int) -> LogEntry | None:
    """The message at an index, counted from the end where it is negative; the conversation is locked for a write."""
    locked(tx, at)
    if idx >= 0:
        found = messages(tx, at, limit=1, offset=idx)
    else:
        found = _entries(tx, at, query.messages_before, **_LAST, limit=1, offset=-idx - 1)
    return found[0] if found else None


def messages(tx: Transaction, at: ThreadKey, *, limit: int = ALL, offset: int = 0) -> list[LogEntry]:
    """Messages in the order they were said."""
    return _entries(tx, at, query.messages_after, **_FIRST, limit=limit, offset=offset)


def recent(tx: Transaction, at: ThreadKey, *, limit: int = ALL, role: str | None = None) -> list[LogEntry]:
    """The last messages, oldest first; only one role's when it is named."""
    if role is None:
        return _entries(tx, at, query.messages_before, **_LAST, limit=limit, offset=0)
    return _entries(tx, at, query.messages_of_role, limit=limit, role=role)[::-1]


def recent_turns(tx: Transaction, at: ThreadKey, *, limit: int) -> list[LogEntry]:
    """Return the last messages, oldest first, and where they begin with results of tools the calls of these."""
    most = limit
    while len(found := recent(tx, at, limit=most)) == most and found and found[0].role == "tool":
        most += 16
    start = max(0, len(found) - limit)
    while 0 < start < len(found) and found[start].role == "tool":
        start -= 1
    return found[start:]


def around(tx: Transaction, at: ThreadKey, key: str, *, before: int, after: int) -> list[LogEntry]:
    """A message, with some of those before and after it, in the order they were said.

    Raises:
        MessageError: Nothing has this key.
    """
    found = rows_of(tx, at, query.where_said, key=key)
    if not found:
        raise unknown(key, at)
    place = {"position": found[0]["position"], "slot": found[0]["slot"]}
    earlier = _entries(tx, at, query.messages_before, **place, limit=min(before, ALL - 1) + 1, offset=0)
    return earlier + _entries(tx, at, query.messages_after, **place, limit=after, offset=0)


def get(tx: Transaction, at: ThreadKey, key: str) -> LogEntry | None:
    """One entry by its key, or None."""
    found = _entries(tx, at, query.current_entry, key=key)
    return found[0] if found else None


def history(tx: Transaction, at: ThreadKey, key: str) -> list[LogEntry]:
    """Every version of one entry, oldest first; empty when nothing has this key."""
    return _entries(tx, at, query.versions, key=key)


def count(tx: Transaction, at: ThreadKey) -> int:
    """How many messages a conversation holds."""
    rows = rows_of(tx, at, query.count_messages)
    return int(rows[0]["messages"]) if rows else 0


def rounds(tx: Transaction, at: ThreadKey) -> tuple[list[LogEntry], list[LogEntry]]:
    """The rounds of a conversation and all its messages, each in order, on one snapshot."""
    branch = find(tx, at)
    if branch is None:
        return [], []
    begun = query.rounds(tx, branch=branch)
    said = query.messages_after(tx, branch=branch, **_FIRST, limit=ALL, offset=0)
    return list(map(_stored, begun)), list(map(_stored, said))


def disown(tx: Transaction, at: ThreadKey, entry: LogEntry) -> None:
    """Delete the compactions that stand for a message, since it is about to be changed or removed."""
    if (branch := find(tx, at)) is not None:
        query.delete_compactions(tx, branch=branch, slot=entry.slot)


class ListedConversation(NamedTuple):
    """A conversation, without what was said in it.

    Attributes:
        conversation_id: Its id.
        namespace: Whose it is.
        messages: How many messages it has.
        first_at: When its first message was said, in UTC.
        last_at: When its last message was said.
    """

    conversation_id: str
    namespace: Namespace
    messages: int
    first_at: datetime
    last_at: datetime


def conversations(tx: Transaction, namespace: Namespace, limit: int, offset: int) -> list[ListedConversation]:
    """The conversations of a namespace and of all below it.

    Raises:
        InvalidInput: A number is none, or negative.
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
    """A number of rows that somebody wants.

    Raises:
        InvalidInput: It is none, or negative.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise error(f"{name} must be a whole number of 0 or more, not {safe_repr(number)}.")
    return min(number, ALL)


# -- the parts of the above ----------------------------------------------------------------------------------------


def _delete(tx: Transaction, at: ThreadKey, branch: int) -> None:
    """Delete the branch of a conversation, whose documents are gone, and what only it had."""
    query.delete_branch(tx, branch=branch)
    search_index.close(tx, *series_of(at))
    query.delete_empty_namespaces(tx, path=at.path)


def _own(at: ThreadKey) -> tuple[str, str]:
    """The path of a conversation's namespace, and the one behind it."""
    return at.path, at.path + "\x01"


def rows_of(tx: Transaction, at: ThreadKey, asked: Query, **given: Any) -> Rows:
    """What a query gives of a conversation; nothing where there is none."""
    branch = find(tx, at)
    return [] if branch is None else asked(tx, branch=branch, **given)


def _entries(tx: Transaction, at: ThreadKey, asked: Query, **given: Any) -> list[LogEntry]:
    return list(map(_stored, rows_of(tx, at, asked, **given)))


def find(tx: Transaction, at: ThreadKey) -> int | None:
    """A conversation's branch; None where there is none."""
    rows = query.find_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return rows[0]["id"] if rows else None


def locked(tx: Transaction, at: ThreadKey) -> tuple[int, int] | None:
    """A conversation's branch and head, locked for a write; None where there is none."""
    rows = query.lock_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return (rows[0]["id"], rows[0]["head"]) if rows else None


def _moved_on(tx: Transaction, at: ThreadKey, spot: tuple[int, int] | None, added: int) -> Rows:
    """Move the head of a conversation on: to the next position, or to that behind the one that was locked."""
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
            raise BranchMoved  # created and deleted by others in between: begin again
    return found


def _write(
    tx: Transaction, at: ThreadKey, spot: tuple[int, int] | None, entries: Sequence[LogEntry], *, now: int
) -> int:
    """Write entries at the end of a conversation, and give its branch.

    Args:
        tx: The transaction.
        at: The conversation.
        spot: Its branch and head, locked. None where nothing has to be known of it: it is made if need be.
        entries: What to write; nothing there holds their keys.
        now: When.
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
    """Drop the oldest messages, and rounds that have no post left. Gives the keys of the messages.

    A tool's result is kept only with the call that stands before it. Facts that rest on what is dropped stay: to know
    them without the messages is what they are for.
    """
    surplus = 0
    if retention.keep_last:
        [row] = query.droppable(tx, branch=branch)
        surplus = max(0, row["messages"] - retention.keep_last)
    oldest = now - int(retention.max_age.total_seconds() * 1_000_000) if retention.max_age else None
    # Read from the beginning until something stays, so that an append costs what it drops.
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
    """Have the thread of a conversation's name say some messages no more, wherever it did. Default: all."""
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
    """What makes two entries under one key the same."""
    return entry.kind, queries.digest(entry.body), _hash(entry.attachments), entry.recipient, entry.round_key


def says_the_same(old: LogEntry, entry: LogEntry) -> bool:
    """Whether an entry is a repeat of what is stored, in whatever order the keys of its dictionaries stand."""
    alike = old.body == entry.body or (entry.kind != ROUND and same_body(old.body, entry.body))
    beside = (entry.kind, entry.attachments, entry.recipient, entry.round_key)
    return alike and (old.kind, old.attachments, old.recipient, old.round_key) == beside


def _told_apart(
    tx: Transaction, branch: int, entries: Sequence[LogEntry], known: Mapping[str, Any], *, by_hand: bool
) -> tuple[list[LogEntry], list[LogEntry]]:
    """Return the entries that are new, and those that say something else under a key that is taken; no repeats."""
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

    What somebody writes by hand also repeats what a checkpoint brought: the same text, said by the same.
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
    """Return a version as another conversation is to have it."""
    body, attachments = bytes(row["body"]), None if row["attachments"] is None else bytes(row["attachments"])
    entry = _stored(row)._replace(body=body, text=body_text(body), attachments=attachments)
    return entry._replace(follows=bool(row["follows"]), written_at=0, slot=0)


def _row(entry: LogEntry, now: int, bodies: dict[bytes, bytes]) -> dict[str, Any]:
    """The parameters of an insert, without its place; what it refers to by digest goes into `bodies`."""
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
    """The error for a key under which there is other content."""
    return MessageError(
        f"The conversation already holds other content under the id {safe_repr(key)}. Use update() to change a "
        "message, or another id to add one."
    )


def unknown(key: str, at: ThreadKey) -> MessageError:
    """The error for a key that nothing has."""
    return MessageError(f"The conversation {safe_repr(at.name)} holds no message with the id {safe_repr(key)}.")
