"""The message log: operations on the entries of one conversation.

A conversation is stored as a branch: a sequence of positions, numbered from 1. The last position is the head. Each call
that writes adds one position, which all its entries share. An entry is a message or a round, with one or more versions.
The versions of an entry have the same key, which is unique within the conversation. Adding a message again under its
key changes nothing; adding other content under the key is an error. An edit adds a version; nothing is overwritten.

A checkpointer adds the messages of a thread to the conversation whose name is the thread's id. These entries *follow*
the thread: they are visible while the newest checkpoint of the thread contains them.

Every function runs within a transaction. The argument `at` is the conversation, `now` the current time. Times are
microseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base import namespaces
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.namespaces import NESTED_SEPARATOR, Namespace, ThreadKey, is_nested, namespace_of
from langchain_agentmem.errors import BranchMoved, InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import body_text, is_same_body
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Rows

if TYPE_CHECKING:
    from langchain_agentmem.messages.role_rounds import Retention

CONVERSATION = "conversation"
MESSAGE, ROUND, DESCRIPTION = "message", "round", "description"
NESTED_MESSAGE = "nested_message"
"""The kind of the messages of nested graphs in the search index. A search of all conversations excludes them."""
SHARED_BYTES = 500
"""The size from which the table `content` stores a body, so that equal bodies are stored once."""
NO_LIMIT = 2**62
"""A number greater than any number of rows, position or row id."""
_BEFORE_FIRST, _AFTER_LAST = {"position": -1, "slot": -1}, {"position": NO_LIMIT, "slot": NO_LIMIT}
"""Positions before the first message of a conversation, and after the last."""


class LogEntry(NamedTuple):
    """A version of an entry (a message or a round), to store or as stored.

    Attributes:
        key: The id of the message or round, unique within the conversation.
        body: The encoded message or round.
        text: The text for the search index; "" for an entry that was read.
        created_at: The time of the message or round.
        kind: MESSAGE, ROUND or DESCRIPTION.
        role: The role of the speaker, such as "user" or "assistant".
        sender: The name of the speaker.
        recipient: The name of the recipient.
        round_key: The key of the round that a post belongs to.
        attachments: The encoded list of attachments.
        written_at: The time at which this version was written; 0 before that.
        slot: The row id of the first version, which identifies the message or round; 0 before it is written.
        new_key: True if the key is newly generated, so that no stored entry can have it.
        follows: True if the entry belongs to the thread whose id is the conversation's name.
        body_stored: True if the same transaction has already stored the body.
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
    body_stored: bool = False

    @property
    def is_searchable(self) -> bool:
        """True for messages and for rounds with a query, which a search can find."""
        return self.kind != ROUND or bool(self.text)

    @property
    def search_text(self) -> str:
        """The text for the search index, with the arguments of tool calls."""
        return body_text(self.body, with_calls=True) if b'"type"' in self.body else self.text


class AppendResult(NamedTuple):
    """The result of an append.

    Attributes:
        keys: The keys of the entries that were new, or got a new version.
        dropped: The keys of the messages that the retention dropped.
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
    generated: Collection[str] = (),
) -> AppendResult:
    """Add entries at the end of a conversation, all of them or none.

    An entry that repeats a stored version under its key changes nothing: later edits are kept.

    Args:
        tx: The transaction.
        at: The conversation; it is created when it does not exist.
        entries: The entries to add, in order.
        now: The time.
        retention: The limit on the messages to keep. Older messages are dropped afterwards. Default: no limit.
        newer: True to store other content under an existing key as a new version, as a checkpoint does. False: other
            content raises an error. Default: False.
        generated: The keys of messages that a compaction generated. Such a message is ignored if its key exists, and
            never becomes a new version. Default: none.

    Returns:
        The keys of the entries that were new or have changed, and of those that were dropped.

    Raises:
        MessageError: The key of an entry exists with other content, and `newer` is false.
    """
    branch_head: tuple[int, int] | None = None
    new = entries
    changed: list[LogEntry] = []
    dropped: list[str] = []
    thread_keys: list[str] = []
    if lookup_keys := [entry.key for entry in entries if not entry.new_key]:
        locked_rows = query.lock_branch.lazy(tx, path=at.path, kind=CONVERSATION, name=at.name)
        rows = query.known_entries(tx, path=at.path, kind=CONVERSATION, name=at.name, keys=json.dumps(lookup_keys))
        existing = {row["key"]: row for row in rows}
        branch_head = (locked_rows[0]["id"], locked_rows[0]["head"]) if locked_rows else _lock_or_create(tx, at, now)
        if branch_head[1] and not locked_rows:
            raise BranchMoved  # another writer has just created the conversation: run the transaction again
        new, conflicts = _split_new(tx, branch_head[0], entries, existing, manual=not newer)
        if conflicts and not newer:
            raise key_taken_error(conflicts[0].key)
        changed = [entry for entry in conflicts if entry.key not in generated]
        unfollowing = {key for key, row in existing.items() if not row["follows"]}
        thread_keys = [entry.key for entry in entries if entry.follows and entry.key in unfollowing]
    if new:
        branch = _write_entries(tx, at, branch_head, new, now=now)
        if retention:
            dropped = _drop_oldest(tx, at, branch, retention, now)
    if branch_head is not None and thread_keys:
        _set_follows(tx, branch_head[0], thread_keys)
    for entry in changed:
        update(tx, at, entry.key, lambda _, new=entry: new, now=now)
    return AppendResult([entry.key for entry in (*new, *changed)], dropped)


def set_description(tx: Transaction, at: ThreadKey, entry: LogEntry, *, now: int) -> None:
    """Set the description of a conversation: a system message that a reset keeps.

    In an empty conversation, the description becomes the first message. An existing description gets a new version. A
    conversation that began without a description stays unchanged.
    """
    branch, head = _lock_or_create(tx, at, now)
    first = query.messages_after(tx, branch=branch, **_BEFORE_FIRST, limit=1, offset=0)
    if not first:
        _write_entries(tx, at, (branch, head), [entry], now=now)
    elif first[0]["kind"] == DESCRIPTION and bytes(first[0]["body"]) != entry.body:
        update(tx, at, first[0]["key"], lambda old: entry._replace(key=old.key), now=now)


def is_described(tx: Transaction, at: ThreadKey, entry: LogEntry) -> bool:
    """Return whether `set_description` would change nothing."""
    first = branch_rows(tx, at, query.messages_after, **_BEFORE_FIRST, limit=1, offset=0)
    return bool(first) and (first[0]["kind"] != DESCRIPTION or bytes(first[0]["body"]) == entry.body)


def update(tx: Transaction, at: ThreadKey, key: str, change: Any, *, now: int) -> bool:
    """Store a new version of one entry.

    Facts extracted from an edited message are kept, since most edits are small corrections. The evidence of these facts
    shows the new text. To delete these facts, remove the message or the facts.

    A *wording* is a version with its own document in the search index. A changed message in a checkpoint is a new
    wording, so a search in a rewound thread finds the earlier wording. An edit by a caller replaces the document of the
    current wording. If the thread was rewound to an earlier wording, an edit makes this wording the newest again.

    Args:
        tx: The transaction.
        at: The conversation.
        key: The entry's key.
        change: The function that takes the stored entry and returns the new one.
        now: The time.

    Returns:
        True if the new version differs from the old one. If False, nothing was written.

    Raises:
        MessageError: No entry has this key.
    """
    branch_head = lock_conversation(tx, at)
    row = _current_row(tx, branch_head[0], key) if branch_head else None
    if branch_head is None or row is None:
        raise unknown_key_error(key, at)
    branch, head = branch_head
    entry: LogEntry = change(_entry_from_row(row))
    if (queries.digest(entry.body), _digest(entry.attachments)) == (_body_digest(row), row["attachments_hash"]):
        return False
    bodies: dict[bytes, bytes] = {}
    new = _insert_params(entry, now, bodies, shared=bool(row["follows"])) | {"branch": branch, "position": head + 1}
    new |= {"replaces": row["slot"], "kind": row["kind"], "document": None}
    queries.store_bodies(tx, bodies)
    if not query.move_head(tx, branch=branch, expected=head, position=head + 1, added=0):
        raise BranchMoved
    document = _make_document(entry)
    if row["document_id"] is None or (not entry.follows and row["wording"] == row["newest"]):
        query.insert_entry(tx, **new)
        if row["document_id"] is not None:  # an edit of the newest wording
            old_text = body_text(bytes(row["body"]), with_calls=True)
            search_index.replace(tx, row["document_id"], old_text, row["wording"], document)
        return True
    placed = search_index.reserve_places(tx, make_series(at), [document])
    if entry.follows:
        [wording] = query.insert_entry(tx, **new | {"document": placed.numbers[0]})
    else:  # an edit of an earlier wording, which becomes the newest again
        new_wording = {"wording": row["wording"], "position": head + 1, "document": placed.numbers[0]}
        [wording] = query.copy_wording(tx, **new_wording, now=now)
        query.insert_entry(tx, **new)
    search_index.write(tx, placed, [wording["id"]])
    return True


def remove(tx: Transaction, at: ThreadKey, keys: Sequence[str]) -> list[str]:
    """Delete entries with all their versions, and the facts that have no other source.

    Returns:
        The keys that existed.
    """
    if (branch_head := lock_conversation(tx, at)) is None:
        return []
    removed: list[str] = []
    for key in dict.fromkeys(keys):
        if (row := _current_row(tx, branch_head[0], key)) is not None:
            _delete_entry(tx, row["slot"])
            if row["kind"] == MESSAGE:
                query.decrement_messages(tx, branch=branch_head[0])
            removed.append(key)
    _mark_deleted(tx, at, removed)
    _forget_sources(tx, at, removed)
    return removed


def apply_retention(tx: Transaction, at: ThreadKey, retention: Retention, *, now: int) -> int:
    """Drop the messages that exceed a retention, as `append` does, and return their number."""
    branch_head = lock_conversation(tx, at)
    return 0 if branch_head is None else len(_drop_oldest(tx, at, branch_head[0], retention, now))


def clear(tx: Transaction, at: ThreadKey, *, keep_description: bool) -> int:
    """Delete a conversation, or all but its description, and the facts with no other source.

    Facts from messages that a retention dropped earlier are deleted too, unless the description is kept.

    Returns:
        The number of deleted entries, versions included.
    """
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    if (branch_head := lock_conversation(tx, at)) is None:
        return 0
    branch, _ = branch_head
    rows = query.slots_to_drop(tx, branch=branch, everything=int(not keep_description))
    _unindex_rows(tx, rows)
    if keep_description:
        query.delete_compactions(tx, branch=branch, slot=0)
        query.delete_all_but_description(tx, branch=branch)
        query.reset_messages(tx, branch=branch)
    else:
        _delete_branch(tx, at, branch)
    queries.collect_bodies(tx, _content_hashes(rows))
    _forget_sources(tx, at, sorted({row["key"] for row in rows}))
    _mark_deleted(tx, at)
    if not keep_description:
        _forget_sources(tx, at)
    return len(rows)


def copy_thread_entries(tx: Transaction, at: ThreadKey, name: str, *, now: int) -> None:
    """Copy the entries that follow a thread, in all versions, to another conversation.

    Args:
        tx: The transaction.
        at: The conversation of the thread.
        name: The name of the other conversation, in the same namespace. Its existing entries stay.
        now: The time.
    """
    target = ThreadKey(at.path, name)
    rows = branch_rows(tx, at, query.following_versions)
    if first_versions := [_copy_entry(row) for row in rows if row["replaces"] is None]:
        new_keys = set(append(tx, target, first_versions, now=now, newer=True).keys)
        for row in rows:
            if row["replaces"] is not None and row["key"] in new_keys:
                update(tx, target, row["key"], lambda _, row=row: _copy_entry(row), now=now)


def find_nested_conversations(tx: Transaction, low: str, high: str, thread: str) -> Rows:
    """Return the conversations of the graphs nested in a thread: rows with "path" and "name".

    Args:
        tx: The transaction.
        low: The first path of the range of namespaces.
        high: The end of the range, excluded.
        thread: The thread's id.
    """
    first, last = namespaces.nested_range(thread)
    return query.nested_conversations(tx, low=low, high=high, kind=CONVERSATION, first=first, last=last)


def delete_thread_entries(tx: Transaction, at: ThreadKey) -> None:
    """Delete the entries of a deleted thread and its nested graphs, but not extracted facts."""
    for row in find_nested_conversations(tx, *_namespace_range(at), at.name):
        delete_thread_entries(tx, ThreadKey(row["path"], row["name"]))
    from langchain_agentmem.rewinding import memory_rows  # noqa: PLC0415 - imported when needed

    memory_rows.delete_rows(tx, query.thread_messages(tx, path=at.path, name=at.name, keys=None))
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    if (branch_head := lock_conversation(tx, at)) is None:
        return
    branch, _ = branch_head
    nested = is_nested(at.name)
    is_empty_after = nested or not query.has_unfollowing(tx, branch=branch)
    for row in query.following_messages(tx, branch=branch, all_messages=int(nested)):
        _delete_entry(tx, row["slot"])
        query.decrement_messages(tx, branch=branch)
    if is_empty_after:
        _delete_branch(tx, at, branch)


def prepare_move(tx: Transaction, at: ThreadKey, path: str) -> list[int]:
    """Prepare a move to another namespace: lock the conversation, and delete its prompt notes.

    Args:
        tx: The transaction.
        at: The conversation.
        path: The path of the other namespace.

    Returns:
        A list with the branch of the conversation; an empty list if the conversation does not exist.

    Raises:
        InvalidInput: The other namespace has a conversation of this name.
    """
    if find_branch(tx, ThreadKey(path, at.name)) is not None:
        raise InvalidInput(f"There is a conversation {safe_repr(at.name)} in {safe_repr(namespace_of(path))} already.")
    query.delete_prompt_notes(tx, path=at.path, name=at.name)
    branch_head = lock_conversation(tx, at)
    return [] if branch_head is None else [branch_head[0]]


# -- reading -------------------------------------------------------------------------------------------------------


def find_message_at(tx: Transaction, at: ThreadKey, idx: int) -> LogEntry | None:
    """Lock a conversation for a write, and return the message at an index, or None.

    Negative indexes count from the end.
    """
    lock_conversation(tx, at)
    if idx >= 0:
        entries = messages(tx, at, limit=1, offset=idx)
    else:
        entries = _load_entries(tx, at, query.messages_before, **_AFTER_LAST, limit=1, offset=-idx - 1)
    return entries[0] if entries else None


def messages(tx: Transaction, at: ThreadKey, *, limit: int = NO_LIMIT, offset: int = 0) -> list[LogEntry]:
    """Return messages in conversation order."""
    return _load_entries(tx, at, query.messages_after, **_BEFORE_FIRST, limit=limit, offset=offset)


def recent(tx: Transaction, at: ThreadKey, *, limit: int = NO_LIMIT, role: str | None = None) -> list[LogEntry]:
    """Return the last messages, oldest first; with `role`, only those of this role."""
    if role is None:
        return _load_entries(tx, at, query.messages_before, **_AFTER_LAST, limit=limit, offset=0)
    return _load_entries(tx, at, query.messages_of_role, limit=limit, role=role)[::-1]


def recent_turns(tx: Transaction, at: ThreadKey, *, limit: int) -> list[LogEntry]:
    """Return the last messages, oldest first, and the call if the first one is a tool result.

    Results between the call and this result are returned too, so the list may be longer than `limit`.
    """
    read_limit = limit
    while len(entries := recent(tx, at, limit=read_limit)) == read_limit and entries and entries[0].role == "tool":
        read_limit += 16  # read further back to find the call
    start = max(0, len(entries) - limit)
    while 0 < start < len(entries) and entries[start].role == "tool":
        start -= 1
    return entries[start:]


def messages_around(tx: Transaction, at: ThreadKey, key: str, *, before: int, after: int) -> list[LogEntry]:
    """Return a message with some messages before and after it, in conversation order.

    Raises:
        MessageError: No message has this key.
    """
    if not (rows := branch_rows(tx, at, query.message_position, key=key)):
        raise unknown_key_error(key, at)
    bound = {"position": rows[0]["position"], "slot": rows[0]["slot"]}
    limit = min(before, NO_LIMIT - 1) + 1  # the message itself is read with the earlier ones
    earlier = _load_entries(tx, at, query.messages_before, **bound, limit=limit, offset=0)
    return earlier + _load_entries(tx, at, query.messages_after, **bound, limit=after, offset=0)


def get(tx: Transaction, at: ThreadKey, key: str) -> LogEntry | None:
    """Return the newest version of one entry by its key, or None."""
    entries = _load_entries(tx, at, query.current_entry, key=key)
    return entries[0] if entries else None


def history(tx: Transaction, at: ThreadKey, key: str) -> list[LogEntry]:
    """Return every version of one entry, oldest first; empty if no entry has this key."""
    return _load_entries(tx, at, query.message_versions, key=key)


def count_messages(tx: Transaction, at: ThreadKey) -> int:
    """Count the messages of a conversation."""
    rows = branch_rows(tx, at, query.count_messages)
    return int(rows[0]["messages"]) if rows else 0


def rounds(tx: Transaction, at: ThreadKey) -> tuple[list[LogEntry], list[LogEntry]]:
    """Return the rounds and the messages of a conversation, both in order, from one snapshot."""
    if (branch := find_branch(tx, at)) is None:
        return [], []
    round_rows = query.rounds(tx, branch=branch)
    message_rows = query.messages_after(tx, branch=branch, **_BEFORE_FIRST, limit=NO_LIMIT, offset=0)
    return list(map(_entry_from_row, round_rows)), list(map(_entry_from_row, message_rows))


def delete_compactions(tx: Transaction, at: ThreadKey, entry: LogEntry) -> None:
    """Delete the compactions that include a message, before it is changed or removed."""
    if (branch := find_branch(tx, at)) is not None:
        query.delete_compactions(tx, branch=branch, slot=entry.slot)


class ListedConversation(NamedTuple):
    """A conversation in a list, without its messages.

    Attributes:
        conversation_id: The id of the conversation.
        namespace: The namespace of the conversation.
        messages: The number of messages.
        first_at: The time of the first message, in UTC.
        last_at: The time of the last message, in UTC.
    """

    conversation_id: str
    namespace: Namespace
    messages: int
    first_at: datetime
    last_at: datetime


def list_conversations(tx: Transaction, namespace: Namespace, limit: int, offset: int) -> list[ListedConversation]:
    """Return the conversations of a namespace and those below it, most recently used first.

    Raises:
        InvalidInput: `limit` or `offset` is negative or not a whole number.
    """
    low, high = namespaces.path_range(namespace)
    counts = {"limit": check_count("limit", limit), "offset": check_count("offset", offset)}
    rows = query.newest_conversations(tx, low=low, high=high, kind=CONVERSATION, nested_mark=NESTED_SEPARATOR, **counts)
    return list(map(_listed_conversation, rows))


def _listed_conversation(row: Any) -> ListedConversation:
    first, last = from_micros(row["first_at"]), from_micros(row["last_at"])
    return ListedConversation(row["name"], namespace_of(row["path"]), row["messages"], first, last)


def check_count(name: str, number: Any, error: type[InvalidInput] = InvalidInput) -> int:
    """Check a requested number of rows, and return it, at most `NO_LIMIT`.

    Raises:
        InvalidInput: The number is negative or not a whole number.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise error(f"{name} must be a whole number of at least 0, not {safe_repr(number)}.")
    return min(number, NO_LIMIT)


# -- helpers -------------------------------------------------------------------------------------------------------


def _delete_branch(tx: Transaction, at: ThreadKey, branch: int) -> None:
    """Delete a conversation's branch and index series, and its namespace if it is empty.

    The caller has already removed the messages from the search index.
    """
    query.delete_branch(tx, branch=branch)
    search_index.delete_series(tx, *make_series(at))
    query.delete_empty_namespaces(tx, path=at.path)


def _namespace_range(at: ThreadKey) -> tuple[str, str]:
    """Return a range of paths that contains only a conversation's own namespace."""
    return at.path, at.path + "\x01"


def branch_rows(tx: Transaction, at: ThreadKey, statement: Query, **params: Any) -> Rows:
    """Run a query on a conversation's branch; return no rows if it does not exist."""
    branch = find_branch(tx, at)
    return [] if branch is None else statement(tx, branch=branch, **params)


def _load_entries(tx: Transaction, at: ThreadKey, statement: Query, **params: Any) -> list[LogEntry]:
    return list(map(_entry_from_row, branch_rows(tx, at, statement, **params)))


def find_branch(tx: Transaction, at: ThreadKey) -> int | None:
    """Return a conversation's branch, or None."""
    rows = query.find_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return rows[0]["id"] if rows else None


def lock_conversation(tx: Transaction, at: ThreadKey) -> tuple[int, int] | None:
    """Lock a conversation for a write, and return its branch and head, or None."""
    rows = query.lock_branch(tx, path=at.path, kind=CONVERSATION, name=at.name)
    return (rows[0]["id"], rows[0]["head"]) if rows else None


def _advance_head(tx: Transaction, at: ThreadKey, branch_head: tuple[int, int] | None, added: int) -> Rows:
    """Advance the head of a conversation by one position, and add to its number of messages.

    If the branch and head are given, the head must be unchanged. Returns no rows if nothing was advanced.
    """
    if branch_head is None:
        return query.advance_head.lazy(tx, path=at.path, kind=CONVERSATION, name=at.name, added=added)
    branch, head = branch_head
    return query.move_head.lazy(tx, branch=branch, expected=head, position=head + 1, added=added)


def _lock_or_create(tx: Transaction, at: ThreadKey, now: int) -> tuple[int, int]:
    if (branch_head := lock_conversation(tx, at)) is None:
        query.create_namespace(tx, path=at.path)
        query.create_branch(tx, path=at.path, kind=CONVERSATION, name=at.name, now=now)
        if (branch_head := lock_conversation(tx, at)) is None:
            raise BranchMoved  # another writer has deleted the conversation meanwhile: run the transaction again
    return branch_head


def _write_entries(
    tx: Transaction, at: ThreadKey, branch_head: tuple[int, int] | None, entries: Sequence[LogEntry], *, now: int
) -> int:
    """Write entries at the end of a conversation, and return its branch.

    Args:
        tx: The transaction.
        at: The conversation.
        branch_head: The branch and head of the locked conversation. None: the conversation is not locked yet, and may
            not exist. It is then created.
        entries: The entries; none of their keys exists in the conversation.
        now: The time.
    """
    bodies: dict[bytes, bytes] = {}
    rows = [_insert_params(entry, now, bodies) for entry in entries]
    added = sum(1 for entry in entries if entry.kind == MESSAGE)
    advanced = _advance_head(tx, at, branch_head, added)
    queries.store_bodies(tx, bodies)
    documents = [_make_document(entry) for entry in entries if entry.is_searchable]
    placed = search_index.reserve_places(tx, make_series(at), documents) if documents else None
    if not advanced and branch_head is None:
        _lock_or_create(tx, at, now)
        advanced = _advance_head(tx, at, branch_head, added)
    if not advanced:
        raise BranchMoved
    [branch_row] = advanced
    new_position = {"branch": branch_row["id"], "position": branch_row["head"]}
    numbers = iter(placed.numbers if placed else ())
    for row, entry in zip(rows, entries, strict=True):
        row.update(new_position, document=next(numbers) if entry.is_searchable else None)
    if len(rows) == 1:
        written = query.insert_entry(tx, **rows[0])
    else:
        query.insert_entries.run_many(tx, rows)
        written = query.entries_of_call(tx, **new_position)
    if placed:
        owners = [row["id"] for row, entry in zip(written, entries, strict=True) if entry.is_searchable]
        search_index.write(tx, placed, owners)
    return int(branch_row["id"])


def make_series(at: ThreadKey) -> search_index.DocumentSeries:
    """Return the document series of a conversation's messages in the search index."""
    return search_index.DocumentSeries(at.path, NESTED_MESSAGE if is_nested(at.name) else MESSAGE, at.name)


def _make_document(entry: LogEntry) -> search_index.IndexedDocument:
    speaker = None if entry.role == "tool" else entry.sender  # the name of a tool is no speaker
    return search_index.IndexedDocument(entry.search_text, entry.created_at, speaker=speaker, role=entry.role)


def _drop_oldest(tx: Transaction, at: ThreadKey, branch: int, retention: Retention, now: int) -> list[str]:
    """Drop the oldest messages, and rounds without posts; return the keys of the messages.

    A tool's result is never separated from the call before it. Facts extracted from dropped messages are kept: facts
    are meant to outlive messages.
    """
    surplus = 0  # the number of messages beyond `keep_last`
    if retention.keep_last:
        [row] = query.droppable_count(tx, branch=branch)
        surplus = max(0, row["messages"] - retention.keep_last)
    min_time = now - int(retention.max_age.total_seconds() * 1_000_000) if retention.max_age else None
    # Read from the beginning to the first message that stays, so that the cost depends only on the dropped messages.
    limit = surplus + 8
    while True:
        rows = query.oldest_messages(tx, branch=branch, limit=limit)
        first_kept = surplus
        while min_time is not None and first_kept < len(rows) and rows[first_kept]["created_at"] < min_time:
            first_kept += 1
        if first_kept < len(rows) or len(rows) < limit:
            break
        limit *= 4
    while 0 < first_kept < len(rows) and rows[first_kept]["role"] == "tool":
        first_kept -= 1  # keep the call of a kept result
    for row in rows[:first_kept]:
        _delete_entry(tx, row["slot"])
        query.decrement_messages(tx, branch=branch)
    if 0 < first_kept < len(rows):
        for row in query.empty_rounds(tx, branch=branch, position=rows[first_kept]["position"]):
            _delete_entry(tx, row["slot"])
    _mark_deleted(tx, at, [row["key"] for row in rows[:first_kept] if row["follows"]])
    return [row["key"] for row in rows[:first_kept]]


def _mark_deleted(tx: Transaction, at: ThreadKey, keys: Sequence[str] | None = None) -> None:
    """Mark messages as deleted in the memory of their thread. None marks all its messages."""
    if keys is None or keys:
        from langchain_agentmem.rewinding import memory_rows  # noqa: PLC0415 - imported when needed

        keys_json = None if keys is None else json.dumps(keys)
        memory_rows.mark_deleted(tx, query.thread_messages(tx, path=at.path, name=at.name, keys=keys_json))


def _forget_sources(tx: Transaction, at: ThreadKey, keys: Sequence[str] | None = None) -> None:
    """Call `message_sources.forget` for deleted messages. None means all messages."""
    from langchain_agentmem.rewinding import message_sources  # noqa: PLC0415 - imported when needed

    message_sources.forget(tx, *_namespace_range(at), at.name, keys)


def _delete_entry(tx: Transaction, slot: int) -> None:
    rows = query.slot_versions(tx, slot=slot)
    _unindex_rows(tx, rows)
    query.delete_entry(tx, id=slot)
    queries.collect_bodies(tx, _content_hashes(rows))


def _unindex_rows(tx: Transaction, rows: Sequence[Any]) -> None:
    indexed = [row for row in rows if row["body"] is not None and row["document_id"] is not None]
    texts = (body_text(bytes(row["body"]), with_calls=True) for row in indexed)
    search_index.remove(tx, [(row["document_id"], text) for row, text in zip(indexed, texts, strict=True)])


def _content_hashes(rows: Sequence[Any]) -> list[bytes]:
    return [bytes(data) for row in rows for data in (row["content_hash"], row["attachments_hash"]) if data is not None]


def _current_row(tx: Transaction, branch: int, key: str) -> Any:
    rows = query.current_entry(tx, branch=branch, key=key)
    return rows[0] if rows else None


def _digest(body: bytes | None) -> bytes | None:
    return None if body is None else queries.digest(body)


def _entry_identity(entry: LogEntry) -> tuple[Any, ...]:
    """Return the values by which two entries under one key are compared."""
    return entry.kind, queries.digest(entry.body), _digest(entry.attachments), entry.recipient, entry.round_key


def is_same_content(old: LogEntry, entry: LogEntry) -> bool:
    """Return whether an entry repeats a stored one, ignoring the order of keys in its body."""
    same_body = old.body == entry.body or (entry.kind != ROUND and is_same_body(old.body, entry.body))
    same_columns = (entry.kind, entry.attachments, entry.recipient, entry.round_key)
    return same_body and (old.kind, old.attachments, old.recipient, old.round_key) == same_columns


def _split_new(
    tx: Transaction, branch: int, entries: Sequence[LogEntry], existing: Mapping[str, Any], *, manual: bool
) -> tuple[list[LogEntry], list[LogEntry]]:
    """Return the entries with new keys, and those with other content under an existing key.

    Args:
        tx: The transaction.
        branch: The branch of the conversation.
        entries: The entries to add.
        existing: The rows of the existing entries, by key.
        manual: True if a caller adds the entries; False for a checkpoint.
    """
    new: dict[str, LogEntry] = {}
    conflicts: list[LogEntry] = []
    for entry in entries:
        if (row := existing.get(entry.key)) is not None:
            if _row_identity(row) != _entry_identity(entry) and not _repeats_version(tx, branch, entry, manual=manual):
                conflicts.append(entry)
        elif (first := new.setdefault(entry.key, entry)) is not entry and not is_same_content(first, entry):
            conflicts.append(entry)
    return list(new.values()), conflicts


def _repeats_version(tx: Transaction, branch: int, entry: LogEntry, *, manual: bool) -> bool:
    """Return whether an entry repeats a stored version under its key.

    An entry that a caller adds (`manual`) also repeats a version from a checkpoint with the same text and role.
    """
    for row in query.message_versions(tx, branch=branch, key=entry.key):
        if is_same_content(_entry_from_row(row), entry):
            return True
        if manual and row["follows"] and (body_text(bytes(row["body"])), row["role"]) == (entry.text, entry.role):
            return True
    return False


def _row_identity(row: Any) -> tuple[Any, ...]:
    attachments = row["attachments_hash"] and bytes(row["attachments_hash"])
    return row["kind"], _body_digest(row), attachments, row["recipient"], row["round_key"]


def _body_digest(row: Any) -> bytes:
    return queries.digest(bytes(row["body"])) if row["content_hash"] is None else bytes(row["content_hash"])


def _set_follows(tx: Transaction, branch: int, keys: Sequence[str]) -> None:
    """Mark existing messages as messages that follow the thread, and share their bodies."""
    selection = {"branch": branch, "keys": json.dumps(keys)}
    bodies = {row["id"]: bytes(row["body"]) for row in query.unshared_versions(tx, **selection)}
    queries.store_bodies(tx, {queries.digest(body): body for body in bodies.values()})
    query.share_body.run_many(tx, [{"id": number, "hash": queries.digest(body)} for number, body in bodies.items()])
    query.set_follows(tx, **selection)


def _copy_entry(row: Any) -> LogEntry:
    """Return a version as an entry for another conversation."""
    body, attachments = bytes(row["body"]), None if row["attachments"] is None else bytes(row["attachments"])
    entry = _entry_from_row(row)._replace(body=body, text=body_text(body), attachments=attachments)
    return entry._replace(follows=bool(row["follows"]), written_at=0, slot=0)


def _insert_params(entry: LogEntry, now: int, bodies: dict[bytes, bytes], *, shared: bool = False) -> dict[str, Any]:
    """Return the parameters that insert an entry, except its position.

    Args:
        entry: The entry.
        now: The time.
        bodies: Receives the bodies and attachments to store in the table `content`, by their digests.
        shared: True to store a small body there too. The body of an entry that follows a thread is always stored there.
    """
    content_hash = None
    if shared or entry.follows or entry.body_stored or len(entry.body) >= SHARED_BYTES:
        content_hash = queries.digest(entry.body)
        if not entry.body_stored:
            bodies[content_hash] = entry.body
    attachments_hash = _digest(entry.attachments)
    if entry.attachments is not None and attachments_hash is not None:
        bodies[attachments_hash] = entry.attachments
    return entry._asdict() | {
        "replaces": None,
        "content_hash": content_hash,
        "attachments_hash": attachments_hash,
        "written_at": now,
        "follows": int(entry.follows),
        "checksum": zlib.crc32(entry.body) if content_hash is None else None,
        "body": entry.body if content_hash is None else None,
    }


_row_values = itemgetter(
    "created_at", "kind", "role", "sender", "recipient", "round_key", "attachments", "written_at", "slot"
)


def _entry_from_row(row: Any) -> LogEntry:
    return LogEntry(row["key"], row["body"], "", *_row_values(row))


def key_taken_error(key: str) -> MessageError:
    """Make the error for a key under which other content is stored."""
    return MessageError(
        f"The conversation already holds other content under the id {safe_repr(key)}. Call update() to change the "
        "message, or add it under another id."
    )


def unknown_key_error(key: str, at: ThreadKey) -> MessageError:
    """Make the error for a key that no entry has."""
    return MessageError(f"The conversation {safe_repr(at.name)} holds no message with the id {safe_repr(key)}.")
