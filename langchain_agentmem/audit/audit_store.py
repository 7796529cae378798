"""Functions that write, read, search, verify, archive and erase the entries of the audit trail in a transaction.

All entries of a database form one chain (`audit_entry`). Their sequence numbers follow the order of the commits: a
transaction that adds entries locks the head of the chain until it ends. Adding an entry inserts a row and moves the
head. Indexing an entry for the search takes longer, but many entries are indexed faster together. So new entries wait.
They are indexed when `INDEX_THRESHOLD` entries wait, or before a search that could find them.

The digest of an entry excludes data that can change: its visibility and junk rules, the status of a todo, its document
in the search index, and its archiving, which only compresses the body.

**Reading.** The cost of reading the last entries of a conversation does not depend on the size of the trail. One query
per kind and visibility reads a range of a database index. This module merges the results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from langchain_agentmem.audit import audit_rows
from langchain_agentmem.audit.audit_entry import EMPTY_CHAIN, KINDS, STATUSES, AuditEntry, ChainHead, ChainReport
from langchain_agentmem.audit.audit_rows import JUNK, REPLACED, VISIBLE, EntryDraft
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import encode_body
from langchain_agentmem.rewinding.search_view import make_recollections
from langchain_agentmem.search import search_index
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.value_store import LOOSE_START, StorePosition, write_messages

LIST_PAGE = 200
"""The number of entries of a page that `AuditTrail` reads."""
WithJunk: TypeAlias = bool | Literal["only"]
"""True includes entries hidden as junk, False excludes them, and "only" excludes all other entries."""
ONLY_JUNK: Final = "only"
_MAX_NUMBER = 2**62  # greater than every sequence number


class EntryFilter(TypedDict, total=False):
    """A filter of entries. Replaced versions of references never pass it.

    Attributes:
        conversation: The conversation of the entries. Default: None, entries with any or no conversation.
        kinds: The kinds of the entries. Default: None, all kinds.
        include_junk: True to include entries hidden as junk, "only" to exclude all others. Default: False.
    """

    conversation: str | None
    kinds: Collection[str] | None
    include_junk: WithJunk


def load_last(
    tx: Transaction,
    path: str,
    n: int,
    *,
    before: str | None = None,
    messages: bool = True,
    **filters: Unpack[EntryFilter],
) -> list[AuditEntry]:
    """Return the last entries, from the oldest to the newest.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        n: The maximum number of entries. 0 or less returns none.
        before: The id of the entry before which to end. Default: None, the end of the trail.
        messages: True to load the messages of model calls. Default: True.
        **filters: The filter.

    Raises:
        InvalidInput: No entry has the id `before`.
    """
    if n <= 0:
        return []
    end = _MAX_NUMBER
    if before is not None:
        rows = query.audit_entries_of_keys(tx, path=path, keys=json.dumps([before]))
        if not rows:
            raise InvalidInput(f"Unknown entry {safe_repr(before)}: this audit trail has no entry with this id.")
        end = rows[0]["sequence"]
    numbers = _find_numbers(tx, path, filters, query.audit_newest, query.audit_conversation_newest, before=end, limit=n)
    return load_by_number(tx, numbers[-n:], messages=messages)


def load_page(
    tx: Transaction, path: str, after: int = 0, *, limit: int = LIST_PAGE, **filters: Unpack[EntryFilter]
) -> tuple[list[AuditEntry], int | None]:
    """Return a page of entries, the oldest first, and the value of `after` for the next page.

    The value is None for the last page.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        after: The sequence number after which to begin, as returned with the previous page. Default: 0, the beginning.
        limit: The maximum number of entries of a page. Default: `LIST_PAGE`.
        **filters: The filter.
    """
    numbers = numbers_after(tx, path, after, limit, filters)
    return load_by_number(tx, numbers), numbers[-1] if len(numbers) == limit else None


def numbers_after(tx: Transaction, path: str, after: int, limit: int, filters: EntryFilter) -> list[int]:
    """Return the sequence numbers of the first `limit` entries after a sequence number."""
    bounds = {"after": after, "limit": limit}
    return _find_numbers(tx, path, filters, query.audit_next, query.audit_conversation_next, **bounds)[:limit]


def load_by_number(tx: Transaction, numbers: Sequence[int], *, messages: bool = True) -> list[AuditEntry]:
    """Return the entries with these sequence numbers, in their order. Omit erased ones."""
    if not numbers:
        return []
    rows = query.audit_entries(tx, sequences=json.dumps(list(numbers)))
    return audit_rows.load_entries(tx, rows, messages=messages)


def get(tx: Transaction, path: str, entry_id: str) -> AuditEntry | None:
    """Return the entry with an id, even a hidden one. Return None if it does not exist."""
    rows = query.audit_entries_of_keys(tx, path=path, keys=json.dumps([entry_id]))
    entries = load_by_number(tx, [row["sequence"] for row in rows])
    return entries[0] if entries else None


def load_todos(tx: Transaction, path: str, status: str) -> list[AuditEntry]:
    """Return the visible todos with a status, the oldest first.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        status: "open" or "done".
    """
    return audit_rows.load_entries(tx, query.audit_todos(tx, path=path, status=status))


def load_head(tx: Transaction) -> ChainHead:
    """Return the head of the chain."""
    [row] = query.audit_head(tx)
    return ChainHead(int(row["sequence"]), bytes(row["link"]))


def _find_numbers(
    tx: Transaction, path: str, filters: EntryFilter, all_query: Query, conversation_query: Query, **bounds: int
) -> list[int]:
    """Return the sorted sequence numbers of entries that pass a filter.

    One query per kind and visibility finds the numbers within `bounds`.
    """
    find, params = all_query, {"path": path, **bounds}
    if (conversation := filters.get("conversation")) is not None:
        find, params = conversation_query, {**params, "conversation": conversation}
    junk, kinds = filters.get("include_junk", False), filters.get("kinds")
    states = (JUNK,) if junk == ONLY_JUNK else (VISIBLE, JUNK) if junk else (VISIBLE,)
    wanted_kinds = [kind for kind in KINDS if kinds is None or kind in kinds]
    results = [find.lazy(tx, **params, kind=kind, hidden=hidden) for kind in wanted_kinds for hidden in states]
    return sorted(row["sequence"] for rows in results for row in rows)


KIND = "audit"
"""The kind of document that represents an entry in the search index."""
INDEX_THRESHOLD = 128
"""The number of waiting entries that causes them to be indexed."""
PAGE = 500
"""The number of entries that one query reads or one transaction changes."""


class EntryPage(NamedTuple):
    """The result of changing one page of entries.

    Attributes:
        entries: The number of changed entries.
        after: The sequence number after which the next page begins. None for the last page.
    """

    entries: int
    after: int | None


def add(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[int]:
    """Append entries to the chain, all of them or none.

    Args:
        tx: The transaction.
        path: The path of the namespace, which is created if needed.
        drafts: The entries, with new ids and the namespace of `path`.

    Returns:
        The sequence numbers of the entries.

    Raises:
        InvalidInput: An entry has a value that cannot be stored.
    """
    if not drafts:
        return []
    head_rows = query.lock_audit_head.lazy(tx)
    namespace_rows = query.find_namespace(tx, path=path)
    [head] = head_rows
    namespace = int(namespace_rows[0]["id"]) if namespace_rows else queries.ensure_namespace(tx, path)
    sequence, link, indexed = int(head["sequence"]), bytes(head["link"]), int(head["indexed"])
    stores: dict[bytes, StorePosition] = {}
    added: list[dict[str, Any]] = []
    for draft in drafts:
        call = None
        if bodies := [encode_body(message) for message in draft.entry.messages]:
            mark = audit_rows.call_mark(draft.entry)
            if mark not in stores:
                found = query.audit_find_store(tx, namespace=namespace, mark=mark)
                [store] = found or query.create_store(tx, next_part=LOOSE_START)
                stores[mark] = StorePosition(store["id"], store["sweep_count"])
            call = audit_rows.StoredCall(stores[mark].store_id, *write_messages(tx, stores[mark], bodies))
            draft = draft._replace(mark=mark)  # noqa: PLW2901
        row = audit_rows.make_row(path, draft, call)
        sequence, link = sequence + 1, queries.next_link(link, row["digest"])
        added.append(row | {"sequence": sequence, "link": link, "namespace": namespace})
    query.audit_add(tx, **added[0]) if len(added) == 1 else query.audit_add.run_many(tx, added)
    query.audit_move_head(tx, sequence=sequence, link=link)
    if sequence - indexed >= INDEX_THRESHOLD:
        _index_range(tx, indexed, sequence)
    return [row["sequence"] for row in added]


def add_new(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> int:
    """Add the entries whose ids are new, and hide the older versions of added references.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The entries.

    Returns:
        The number of added entries.
    """
    query.lock_audit_head(tx)
    existing = query.audit_entries_of_keys(tx, path=path, keys=json.dumps([draft.entry.id for draft in drafts]))
    existing_ids = {row["key"] for row in existing}
    new: dict[str, EntryDraft] = {}
    for draft in drafts:
        if draft.entry.id not in existing_ids:
            new.setdefault(draft.entry.id, draft)
    add(tx, path, list(new.values()))
    marks = {audit_rows.encode_mark(draft.mark) for draft in new.values() if draft.entry.kind == "reference"}
    _hide_older_versions(tx, path, marks)
    return len(new)


def add_todos(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[AuditEntry]:
    """Add todos, except those that have the same mark as an open todo.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The todos with their marks.

    Returns:
        The added todos.
    """
    query.lock_audit_head(tx)
    new: dict[bytes | None, EntryDraft] = {}
    for draft in drafts:
        mark = audit_rows.encode_mark(draft.mark)
        equivalent = query.audit_entries_of_mark(tx, path=path, kind="todo", mark=mark)
        if not any(row["status"] == "open" for row in equivalent):
            new.setdefault(mark, draft)
    add(tx, path, list(new.values()))
    return [draft.entry for draft in new.values()]


def put_reference(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> AuditEntry:
    """Add a reference and hide its previous version, which has the same mark.

    The previous version stays in the chain.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: A list with one reference and its mark.

    Returns:
        The existing reference if its title, prompt and text are equal, else the new one.
    """
    [(new, mark, _)] = drafts
    query.lock_audit_head(tx)
    versions = query.audit_entries_of_mark(tx, path=path, kind="reference", mark=audit_rows.encode_mark(mark))
    current_numbers = [row["sequence"] for row in versions if row["hidden"] != REPLACED]
    for row in query.audit_entries(tx, sequences=json.dumps(current_numbers[-1:])):
        [current] = audit_rows.load_entries(tx, [row])
        if (current.title, current.prompt, current.reply) == (new.title, new.prompt, new.reply):
            return current
        _set_visibility(tx, [(row, REPLACED, row["junk"])])
    add(tx, path, drafts)
    return new


def apply_rules(
    tx: Transaction, path: str, reasons: Callable[[str, str, str], Sequence[str]], *, after: int = 0, limit: int = PAGE
) -> EntryPage:
    """Apply the junk rules to one page of entries. Skip replaced versions of references.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        reasons: A function from a kind, a prompt and a reply to the names of the matching rules.
        after: The sequence number after which to begin. Default: 0.
        limit: The maximum number of entries of a page. Default: `PAGE`.
    """
    query.lock_audit_head(tx)
    numbers = numbers_after(tx, path, after, limit, {"include_junk": True})
    rows = query.audit_entries(tx, sequences=json.dumps(numbers))
    texts = audit_rows.read_texts(rows)
    changes = []
    for row in (each for each in rows if each["sequence"] in texts):
        names = reasons(row["kind"], *texts[row["sequence"]])
        junk = json.dumps(list(names)) if names else None
        if junk != row["junk"]:
            changes.append((row, REPLACED if row["hidden"] == REPLACED else JUNK if names else VISIBLE, junk))
    _set_visibility(tx, changes)
    return EntryPage(len(changes), numbers[-1] if len(numbers) == limit else None)


def set_status(tx: Transaction, path: str, todo_id: str, status: str) -> bool:
    """Set the status of a todo.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        todo_id: The id of the todo.
        status: "open" or "done".

    Returns:
        True if the status changed.

    Raises:
        InvalidInput: No todo has this id.
    """
    query.lock_audit_head(tx)  # otherwise the update could overwrite a concurrent erasure
    rows = query.audit_entries_of_keys(tx, path=path, keys=json.dumps([todo_id]))
    if not rows or rows[0]["kind"] != "todo":
        raise InvalidInput(f"Unknown todo {safe_repr(todo_id)}. todos() lists the todos with their ids.")
    query.audit_set_status(tx, sequence=rows[0]["sequence"], status=status)
    return bool(rows[0]["status"] != status)


def has_unindexed(tx: Transaction) -> bool:
    """Return whether entries wait for the search index."""
    [head] = query.audit_head(tx)
    return bool(head["sequence"] > head["indexed"])


def settle(tx: Transaction) -> None:
    """Add the waiting entries to the search index, with the head of the chain locked."""
    [head] = query.lock_audit_head(tx)
    _index_range(tx, head["indexed"], head["sequence"])


def remove_from_index(tx: Transaction, rows: Sequence[Row]) -> None:
    """Remove entries from the search index."""
    indexed = [row for row in rows if row["document_id"] is not None]
    if indexed:
        texts = audit_rows.search_texts(indexed)
        search_index.remove(tx, [(row["document_id"], texts[row["sequence"]]) for row in indexed])
        query.audit_set_document.run_many(tx, [{"sequence": row["sequence"], "document": None} for row in indexed])


def _series_of(row: Row) -> search_index.DocumentSeries:
    """Return the document series of an entry: one for each conversation, or else each thread."""
    return search_index.DocumentSeries(row["path"], KIND, row["conversation"] or row["thread"] or "")


# -- helpers -------------------------------------------------------------------------------------------------------


def _hide_older_versions(tx: Transaction, path: str, marks: Iterable[bytes | None]) -> None:
    """Hide, for each mark, all references with this mark except the newest."""
    for mark in sorted(mark for mark in marks if mark is not None):
        rows = query.audit_entries_of_mark(tx, path=path, kind="reference", mark=mark)
        numbers = [row["sequence"] for row in rows if row["hidden"] != REPLACED]
        if len(numbers) > 1:
            versions = query.audit_entries(tx, sequences=json.dumps(numbers))
            *older, _ = sorted(versions, key=lambda row: (row["created_at"], row["sequence"]))
            _set_visibility(tx, [(row, REPLACED, row["junk"]) for row in older])


def _set_visibility(tx: Transaction, changes: Sequence[tuple[Row, int, str | None]]) -> None:
    """Set `hidden` and `junk` of entries, and update the search index."""
    if not changes:
        return
    values = [{"sequence": row["sequence"], "hidden": hidden, "junk": junk} for row, hidden, junk in changes]
    query.audit_set_junk.run_many(tx, values)
    remove_from_index(tx, [row for row, hidden, _ in changes if hidden != VISIBLE])
    _index_missing(tx, [row for row, hidden, _ in changes if hidden == VISIBLE])


def _index_range(tx: Transaction, after: int, upto: int) -> None:
    """Add the entries from `after` (exclusive) to `upto` (inclusive) to the search index."""
    while rows := query.audit_entries_between(tx, after=after, upto=upto, limit=PAGE):
        _index_missing(tx, [row for row in rows if row["hidden"] == VISIBLE])
        after = rows[-1]["sequence"]
    query.audit_set_indexed(tx, sequence=upto)


def _index_missing(tx: Transaction, rows: Sequence[Row]) -> None:
    """Add the entries that are not indexed yet to the search index."""
    missing = [row for row in rows if row["document_id"] is None]
    texts = audit_rows.search_texts(missing)
    rows_by_series: dict[search_index.DocumentSeries, list[Row]] = {}
    for row in missing:
        rows_by_series.setdefault(_series_of(row), []).append(row)
    documents: list[dict[str, int]] = []
    for series, series_rows in sorted(rows_by_series.items()):
        numbers = [row["sequence"] for row in series_rows]
        new = [search_index.IndexedDocument(texts[row["sequence"]], row["created_at"]) for row in series_rows]
        # Entries get no vectors and are indexed immediately.
        placed = search_index.reserve_places(tx, series, new)._replace(has_vectors=False, waiting_count=0)
        search_index.write(tx, placed, numbers, defer=False)
        pairs = zip(numbers, placed.numbers, strict=True)
        documents += [{"sequence": number, "document": document} for number, document in pairs]
    if documents:
        query.audit_set_document.run_many(tx, documents)


def archive(tx: Transaction, low: str, high: str, before: int, *, after: int = 0, limit: int = PAGE) -> EntryPage:
    """Compress a page of old entries in place. Reading and search work as before.

    Args:
        tx: The transaction.
        low: The lower end of the path range of the namespaces, inclusive.
        high: The upper end of the range, exclusive.
        before: The time in microseconds since 1970. Only entries created earlier are compressed.
        after: The sequence number after which to begin. Default: 0.
        limit: The maximum number of entries of a page. Default: `PAGE`.
    """
    query.lock_audit_head(tx)
    rows = query.audit_to_archive(tx, low=low, high=high, before=before, after=after, limit=limit)
    if rows:
        bodies = [{"sequence": row["sequence"], "body": audit_rows.compress_body(bytes(row["body"]))} for row in rows]
        query.audit_set_body.run_many(tx, bodies)
    return EntryPage(len(rows), rows[-1]["sequence"] if len(rows) == limit else None)


def erase(tx: Transaction, low: str, high: str, name: str | None = None) -> int:
    """Erase entries. The digest and the link of each entry remain and reveal no content.

    Args:
        tx: The transaction.
        low: The lower end of the path range of the namespaces, inclusive.
        high: The upper end of the range, exclusive.
        name: The id of the conversation or thread of the entries. Default: None, all entries.

    Returns:
        The number of erased entries.
    """
    query.lock_audit_head(tx)
    find, params = (query.audit_page_within, {}) if name is None else (query.audit_page_of_conversation, {"name": name})
    erased = 0
    stores: set[tuple[str, bytes, int]] = set()
    all_series: set[search_index.DocumentSeries] = set()
    while rows := find(tx, low=low, high=high, **params, limit=PAGE):
        remove_from_index(tx, rows)
        query.audit_erase.run_many(tx, [{"sequence": row["sequence"]} for row in rows])
        erased += len(rows)
        calls = [row for row in rows if row["store_id"] is not None and row["mark"] is not None]
        stores |= {(row["path"], bytes(row["mark"]), row["store_id"]) for row in calls}
        all_series |= {_series_of(row) for row in rows}
    for path, mark, store_id in sorted(stores):
        audit_rows.free_parts(tx, path, mark, store_id)
    for series in sorted(all_series):
        search_index.delete_series(tx, *series)
    for path in sorted({series.path for series in all_series}):
        query.delete_empty_namespaces(tx, path=path)
    return erased


# -- search and verification ---------------------------------------------------------------------------------------


def load_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of entries, by sequence number.

    Args:
        tx: The transaction.
        owners: The sequence numbers of the entries.
    """
    rows = query.audit_entries(tx, sequences=json.dumps(list(owners)))
    return {number: (text,) for number, text in audit_rows.search_texts(rows).items()}


def recollections(tx: Transaction, hits: Sequence[SearchHit], now: int, view: object) -> Mapping[int, Recollection]:
    """Convert hits to recollections, by document number.

    Args:
        tx: The transaction.
        hits: The hits of a search. Entries that were hidden or erased since the search are omitted.
        now: Unused, because entries do not expire.
        view: Unused, because entries are visible to every thread.
    """
    del now, view
    rows = query.audit_entries(tx, sequences=json.dumps([hit.owner for hit in hits]))
    visible = {row["sequence"]: row for row in rows if row["hidden"] == VISIBLE}
    entries = audit_rows.load_entries(tx, list(visible.values()))
    values = {number: (entry.text, entry) for number, entry in zip(visible, entries, strict=True)}
    return make_recollections(hits, visible, values)


CHAIN_PAGE, MESSAGE_PAGE = 100, 200
"""The numbers of entries and of messages that one query of `verify` reads."""
MOST_PROBLEMS = 100
"""The maximum number of problems that `verify` lists. Further problems are only counted."""
_CHAIN_COLUMNS = ("sequence", "link", "digest", "path")
"""The columns that may have values in an erased entry. `path` comes from another table."""


def verify(tx: Transaction, since: ChainHead | None = None) -> ChainReport:
    """Check that each entry of the chain is unchanged and in its place.

    Args:
        tx: The transaction.
        since: A head that was stored elsewhere. The check then detects changes up to this head, except erasures, even
            if an attacker recomputed the chain. Default: None.
    """
    head_rows = query.audit_head(tx)
    end = ChainHead(int(head_rows[0]["sequence"]), bytes(head_rows[0]["link"])) if head_rows else None
    since = since or EMPTY_CHAIN
    since_link = EMPTY_CHAIN.link if since == EMPTY_CHAIN else None
    problems: list[str] = []
    last, entries, erased, stores = EMPTY_CHAIN, 0, 0, set[int]()  # `last` is the head up to the last checked entry
    while rows := query.audit_chain(tx, after=last.sequence, limit=CHAIN_PAGE):
        if rows[-1]["sequence"] <= last.sequence:  # a damaged index can return the same rows again
            problems.append(f"the audit trail cannot be read beyond number {last.sequence}")
            break
        digests = audit_rows.load_digests(tx, rows)
        for row in rows:
            problems += _entry_problems(row, last, digests.get(row["store_id"], {}))
            last = ChainHead(row["sequence"], bytes(row["link"]))
            since_link = last.link if last.sequence == since.sequence else since_link
            erased += row["kind"] is None
        entries += len(rows)
        stores.update(row["store_id"] for row in rows if row["store_id"] is not None)
    for store_id in sorted(stores):
        problems += _message_problems(tx, store_id)
    if end != last:
        stored_end = "none" if end is None else f"number {end.sequence}"
        problems.append(f"the stored head ({stored_end}) does not match the last entry (number {last.sequence})")
    if since_link != since.link:
        problems.append(f"the chain up to number {since.sequence} has changed since the given head was read")
    if (more := len(problems) - MOST_PROBLEMS) > 0:
        problems[MOST_PROBLEMS:] = [f"there are {more} more problems"]
    return ChainReport(entries=entries, erased=erased, problems=tuple(problems), head=end or last)


def find_problems(tx: Transaction) -> list[str]:
    """Return descriptions of the problems of the chain and of its entries in the search index."""
    problems = list(verify(tx).problems)
    for row in query.audit_wrong_documents(tx):
        problem = "not in the search index" if row["hidden"] == VISIBLE else "hidden, but in the search index"
        problems.append(f"number {row['sequence']} of the audit trail is {problem}")
    return problems


def _entry_problems(row: Row, before: ChainHead, messages: Mapping[int, bytes]) -> Iterator[str]:
    """Yield the problems of an entry. `before` is the head of the chain before the entry."""
    label = f"number {row['sequence']} of the audit trail"
    if row["kind"] is not None and row["key"] is not None:
        label = f"the entry {safe_repr(row['key'])} (number {row['sequence']})"
    digest = bytes(row["digest"])
    if row["sequence"] != before.sequence + 1:
        yield f"numbers {before.sequence + 1} to {row['sequence'] - 1} of the audit trail are missing"
    elif queries.next_link(before.link, digest) != bytes(row["link"]):
        yield f"{label} does not follow from the entry before it in the chain"
    if row["kind"] is None:
        if remaining := [name for name in row.keys() if name not in _CHAIN_COLUMNS and row[name] is not None]:  # noqa: SIM118
            yield f"{label} was erased, but still has {', '.join(remaining)}"
        return
    try:
        is_intact = audit_rows.compute_digest(row, messages) == digest
    except (KeyError, TypeError, ValueError):
        is_intact = False
    if not is_intact:
        yield f"{label} is damaged (checksum mismatch)"
    elif columns := _invalid_columns(row):
        yield f"{label} has impossible values: {', '.join(columns)}"


def _invalid_columns(row: Row) -> list[str]:
    """Return columns outside the digest with impossible values, which could hide entries."""
    hidden, junk = row["hidden"], row["junk"]
    is_valid = {
        "hidden": hidden in (VISIBLE, JUNK, REPLACED),
        "junk": hidden == REPLACED or (junk is not None) == (hidden == JUNK),
        "status": (row["status"] in STATUSES) if row["kind"] == "todo" else row["status"] is None,
        "archived": row["archived"] in (0, 1),
        "store_id": (row["store_id"] is None) == (row["messages"] is None),
    }
    return [name for name, valid in is_valid.items() if not valid]


def _message_problems(tx: Transaction, store_id: int) -> list[str]:
    """Return the problems of the messages of model calls in a part store."""
    problems: list[str] = []
    after = -1
    while page := query.parts_after(tx, store=store_id, after=after, limit=MESSAGE_PAGE):
        problems += [
            f"message {row['number']} of part store {store_id} in the audit trail is damaged (checksum mismatch)"
            for row in page
            if row["body"] is None or queries.digest(bytes(row["body"])) != bytes(row["hash"])
        ]
        if page[-1]["number"] <= after:  # a damaged index can return the same rows again
            return [*problems, f"the messages of part store {store_id} cannot be read beyond number {after}"]
        after = page[-1]["number"]
    return problems


def _erase_part(tx: Transaction, erasure: Erasure) -> None:
    erasure.removed["audit"] += erase(tx, erasure.low, erasure.high, erasure.name)


PART = Part(
    search_kinds={"audit": (SearchableKind(index_name=KIND, texts=load_texts, recollections=recollections),)},
    is_default=False,  # the audit trail repeats the texts of messages
    has_pending=has_unindexed,
    settle=settle,
    tables={"audit": ("audit", "audit_head")},
    verify={"audit": find_problems},
    erase=_erase_part,
)
