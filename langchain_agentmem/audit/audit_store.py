"""Statements that write, read, search, verify, archive and erase the entries of the audit trail.

Every entry gets the next place in one chain (`audit_entry`), in the order of the commits: a transaction that adds
entries locks the end of the chain until it ends. Adding an entry inserts a row and moves the head. Indexing for the
search takes longer, but little for many entries together, so new entries wait. They *settle* when `TAIL` entries wait,
or before a search that could find them.

Only columns outside of the digest ever change: the junk rules of an entry, the status of a todo, and whether the entry
is archived. Every function here takes a transaction.

**Reading.** The cost of reading the last entries of a conversation does not depend on the size of the trail: each list
of entries is a few ranges of an index, one for each kind and visibility, which are merged here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from langchain_agentmem.audit import audit_entry, audit_rows
from langchain_agentmem.audit.audit_entry import KINDS, AuditEntry, ChainHead, ChainReport
from langchain_agentmem.audit.audit_rows import JUNK, REPLACED, SHOWN, EntryDraft
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import encode_body
from langchain_agentmem.rewinding.outlook import recollections_of
from langchain_agentmem.search import search_index
from langchain_agentmem.search.memory_search import Recollection, SearchHit
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import Erasure, Part, SearchableKind
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.value_store import LOOSE, StorePosition, shelve_messages

LIST_PAGE = 200
WithJunk: TypeAlias = bool | Literal["only"]
"""True includes entries hidden as junk; "only" excludes the others."""
ONLY_JUNK: Final = "only"
_END = 2**62


class EntryFilter(TypedDict, total=False):
    """A filter of entries.

    Attributes:
        conversation: Only entries of this conversation. Default: entries with any or no conversation.
        kinds: Only these kinds. Default: all.
        include_junk: True includes entries hidden as junk; "only" excludes the others. Default: False.
    """

    conversation: str | None
    kinds: Collection[str] | None
    include_junk: WithJunk


def last(
    tx: Transaction,
    path: str,
    n: int,
    *,
    before: str | None = None,
    messages: bool = True,
    **wanted: Unpack[EntryFilter],
) -> list[AuditEntry]:
    """Return the last entries, from the oldest to the newest.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        n: The number of entries; 0 or less returns none.
        before: The id of an entry: only entries before it. Default: all.
        messages: True loads the messages of model calls. Default: True.
        **wanted: The filter.

    Raises:
        InvalidInput: No entry has the id `before`.
    """
    if n <= 0:
        return []
    end = _END
    if before is not None:
        found = query.audit_named(tx, path=path, keys=json.dumps([before]))
        if not found:
            raise InvalidInput(f"There is no entry {safe_repr(before)} in this audit trail.")
        end = found[0]["sequence"]
    numbers = _numbers(tx, path, wanted, query.audit_newest, query.audit_newest_in, before=end, limit=n)
    return of_numbers(tx, numbers[-n:], messages=messages)


def page(
    tx: Transaction, path: str, after: int = 0, *, limit: int = LIST_PAGE, **wanted: Unpack[EntryFilter]
) -> tuple[list[AuditEntry], int | None]:
    """Return a page of entries, the oldest first, and `after` for the next page, if any.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        after: The number after which to begin, as returned with the previous page. Default: 0, the beginning.
        limit: The most entries of a page.
        **wanted: The filter.
    """
    numbers = following(tx, path, after, limit, wanted)
    return of_numbers(tx, numbers), numbers[-1] if len(numbers) == limit else None


def following(tx: Transaction, path: str, after: int, limit: int, wanted: EntryFilter) -> list[int]:
    """Return the numbers of the first entries after a number."""
    return _numbers(tx, path, wanted, query.audit_following, query.audit_following_in, after=after, limit=limit)[:limit]


def of_numbers(tx: Transaction, numbers: Sequence[int], *, messages: bool = True) -> list[AuditEntry]:
    """Return the entries with these numbers, in the order of the chain, without erased ones."""
    if not numbers:
        return []
    found = query.audit_rows(tx, sequences=json.dumps(list(numbers)))
    return audit_rows.entries(tx, found, messages=messages)


def get(tx: Transaction, path: str, entry_id: str) -> AuditEntry | None:
    """Return the entry with an id, hidden or not; None if it does not exist."""
    named = query.audit_named(tx, path=path, keys=json.dumps([entry_id]))
    found = of_numbers(tx, [row["sequence"] for row in named])
    return found[0] if found else None


def of_status(tx: Transaction, path: str, status: str) -> list[AuditEntry]:
    """Return the todos that are open, or done, the oldest first.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        status: "open" or "done".
    """
    return audit_rows.entries(tx, query.audit_of_status(tx, path=path, status=status))


def head(tx: Transaction) -> ChainHead:
    """Return the end of the chain."""
    [row] = query.audit_head(tx)
    return ChainHead(int(row["sequence"]), bytes(row["link"]))


def _numbers(tx: Transaction, path: str, wanted: EntryFilter, of_all: Query, of_one: Query, **ends: int) -> list[int]:
    """Return the numbers of filtered entries, in order: one query per kind and visibility."""
    look, where = of_all, {"path": path, **ends}
    if (conversation := wanted.get("conversation")) is not None:
        look, where = of_one, {**where, "conversation": conversation}
    junk, kinds = wanted.get("include_junk", False), wanted.get("kinds")
    states = (JUNK,) if junk == ONLY_JUNK else (SHOWN, JUNK) if junk else (SHOWN,)
    found = [
        look.ahead(tx, **where, kind=kind, hidden=hidden)
        for kind in KINDS
        if kinds is None or kind in kinds
        for hidden in states
    ]
    return sorted(row["sequence"] for each in found for row in each)


KIND = "audit"
"""The kind of entries in the search index."""
TAIL = 128
"""The number of waiting entries at which they enter the search index."""
PAGE = 500


class EntryPage(NamedTuple):
    """The result of changing one page of entries.

    Attributes:
        entries: The number of changed entries.
        after: The next page begins after this number; None after the last page.
    """

    entries: int
    after: int | None


def add(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[int]:
    """Add entries at the end of the chain, all of them or none.

    Args:
        tx: The transaction.
        path: The path of the namespace, which is created if needed.
        drafts: The entries. Their ids must be new, and their namespace that of `path`.

    Returns:
        Their numbers in the chain.

    Raises:
        InvalidInput: An entry has a value that cannot be stored.
    """
    if not drafts:
        return []
    held = query.audit_lock.ahead(tx)
    found = query.find_namespace(tx, path=path)
    [head] = held
    namespace = int(found[0]["id"]) if found else queries.number_of(tx, path)
    sequence, link, indexed = int(head["sequence"]), bytes(head["link"]), int(head["indexed"])
    shelves: dict[bytes, StorePosition] = {}
    added: list[dict[str, Any]] = []
    for draft in drafts:
        call = None
        if bodies := [encode_body(each) for each in draft.entry.messages]:
            mark = audit_rows.call_mark(draft.entry)
            if mark not in shelves:
                shelves[mark] = _shelf(tx, namespace, mark)
            call = audit_rows.StoredCall(shelves[mark].shelf, *shelve_messages(tx, shelves[mark], bodies))
            draft = draft._replace(mark=mark)  # noqa: PLW2901
        row = audit_rows.row_of(path, draft, call)
        sequence, link = sequence + 1, queries.next_link(link, row["digest"])
        added.append(row | {"sequence": sequence, "link": link, "namespace": namespace})
    query.audit_add(tx, **added[0]) if len(added) == 1 else query.audit_add.many(tx, added)
    query.audit_move_head(tx, sequence=sequence, link=link)
    if sequence - indexed >= TAIL:
        _settle(tx, indexed, sequence)
    return [row["sequence"] for row in added]


def add_new(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> int:
    """Add the entries with new ids, and show only the newest version of each reference.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The entries.

    Returns:
        The number of added entries.
    """
    query.audit_lock(tx)
    known = query.audit_named(tx, path=path, keys=json.dumps([draft.entry.id for draft in drafts]))
    there = {row["key"] for row in known}
    fresh: dict[str, EntryDraft] = {}
    for draft in drafts:
        if draft.entry.id not in there:
            fresh.setdefault(draft.entry.id, draft)
    add(tx, path, list(fresh.values()))
    marks = {audit_rows.mark_of(draft.mark) for draft in fresh.values() if draft.entry.kind == "reference"}
    _show_newest(tx, path, marks)
    return len(fresh)


def add_once(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[AuditEntry]:
    """Add the todos whose marks no open todo has.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The todos, with their marks.

    Returns:
        The added todos.
    """
    query.audit_lock(tx)
    new: dict[bytes | None, EntryDraft] = {}
    for draft in drafts:
        mark = audit_rows.mark_of(draft.mark)
        found = query.audit_marked(tx, path=path, kind="todo", mark=mark)
        if not any(row["status"] == "open" for row in found):
            new.setdefault(mark, draft)
    add(tx, path, list(new.values()))
    return [draft.entry for draft in new.values()]


def put_reference(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> AuditEntry:
    """Add a reference and hide the version with the same mark, which stays in the chain.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The reference, with its mark.

    Returns:
        The current reference: the existing one if its content is the same.
    """
    [(new, mark, _)] = drafts
    query.audit_lock(tx)
    versions = query.audit_marked(tx, path=path, kind="reference", mark=audit_rows.mark_of(mark))
    shown = [row["sequence"] for row in versions if row["hidden"] != REPLACED]
    for row in query.audit_rows(tx, sequences=json.dumps(shown[-1:])):
        [there] = audit_rows.entries(tx, [row])
        if (there.title, there.prompt, there.reply) == (new.title, new.prompt, new.reply):
            return there
        _change(tx, [(row, REPLACED, row["junk"])])
    add(tx, path, drafts)
    return new


def judge(
    tx: Transaction, path: str, reasons: Callable[[str, str, str], Sequence[str]], *, after: int = 0, limit: int = PAGE
) -> EntryPage:
    """Apply the junk rules to one page of entries.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        reasons: Returns the names of the matching rules for a kind, a prompt and a reply.
        after: The number after which to begin.
        limit: The most entries of a page.
    """
    query.audit_lock(tx)
    numbers = following(tx, path, after, limit, {"include_junk": True})
    found = query.audit_rows(tx, sequences=json.dumps(numbers))
    said = audit_rows.said(found)
    changes = []
    for row in found:
        if row["sequence"] in said:
            names = reasons(row["kind"], *said[row["sequence"]])
            written = json.dumps(list(names)) if names else None
            if written != row["junk"]:
                changes.append((row, row["hidden"] if row["hidden"] == REPLACED else JUNK if names else SHOWN, written))
    _change(tx, changes)
    return EntryPage(len(changes), numbers[-1] if len(numbers) == limit else None)


def set_status(tx: Transaction, path: str, todo_id: str, status: str) -> bool:
    """Set the status of a todo.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        todo_id: Its id.
        status: "open" or "done".

    Returns:
        Whether the status changed.

    Raises:
        InvalidInput: No todo has this id.
    """
    query.audit_lock(tx)  # otherwise the update could overwrite a concurrent erasure
    found = query.audit_named(tx, path=path, keys=json.dumps([todo_id]))
    if not found or found[0]["kind"] != "todo":
        raise InvalidInput(f"There is no todo {safe_repr(todo_id)}. todos() lists them, with their ids.")
    query.audit_set_status(tx, sequence=found[0]["sequence"], status=status)
    return bool(found[0]["status"] != status)


def waiting(tx: Transaction) -> bool:
    """Return whether entries wait to enter the search index."""
    [head] = query.audit_head(tx)
    return bool(head["sequence"] > head["indexed"])


def settle(tx: Transaction) -> None:
    """Put the waiting entries into the search index. Locks the end of the chain."""
    [head] = query.audit_lock(tx)
    _settle(tx, head["indexed"], head["sequence"])


def taken_out(tx: Transaction, found: Sequence[Row]) -> None:
    """Remove entries from the search index."""
    there = [row for row in found if row["document_id"] is not None]
    if there:
        said = audit_rows.texts(there)
        search_index.remove(tx, [(row["document_id"], said[row["sequence"]]) for row in there])
        query.audit_set_document.many(tx, [{"sequence": row["sequence"], "document": None} for row in there])


def series_of(row: Row) -> search_index.DocumentSeries:
    """Return the series of an entry in the search index, by its conversation or thread."""
    return search_index.DocumentSeries(row["path"], KIND, row["conversation"] or row["thread"] or "")


# -- the parts of the above ----------------------------------------------------------------------------------------


def _shelf(tx: Transaction, namespace: int, mark: bytes) -> StorePosition:
    """Return the shelf of the calls with a mark; create it for the first call."""
    [row] = query.audit_find_shelf(tx, namespace=namespace, mark=mark) or query.create_shelf(tx, loose=LOOSE)
    return StorePosition(row["id"], row["swept"])


def _show_newest(tx: Transaction, path: str, marks: Iterable[bytes | None]) -> None:
    """Show only the newest of several references with one mark."""
    for mark in sorted(mark for mark in marks if mark is not None):
        found = query.audit_marked(tx, path=path, kind="reference", mark=mark)
        numbers = [row["sequence"] for row in found if row["hidden"] != REPLACED]
        if len(numbers) > 1:
            versions = query.audit_rows(tx, sequences=json.dumps(numbers))
            *older, _ = sorted(versions, key=lambda row: (row["created_at"], row["sequence"]))
            _change(tx, [(row, REPLACED, row["junk"]) for row in older])


def _change(tx: Transaction, changes: Sequence[tuple[Row, int, str | None]]) -> None:
    """Show or hide entries, and update the search index."""
    if not changes:
        return
    query.audit_set_junk.many(
        tx, [{"sequence": row["sequence"], "hidden": hidden, "junk": junk} for row, hidden, junk in changes]
    )
    taken_out(tx, [row for row, hidden, _ in changes if hidden != SHOWN])
    _enter(tx, [row for row, hidden, _ in changes if hidden == SHOWN])


def _settle(tx: Transaction, indexed: int, upto: int) -> None:
    after = indexed
    while found := query.audit_between(tx, after=after, upto=upto, limit=PAGE):
        _enter(tx, [row for row in found if row["hidden"] == SHOWN])
        after = found[-1]["sequence"]
    query.audit_note_indexed(tx, sequence=upto)


def _enter(tx: Transaction, found: Sequence[Row]) -> None:
    """Put the entries that are missing from the search index into it."""
    missing = [row for row in found if row["document_id"] is None]
    said = audit_rows.texts(missing)
    series: dict[search_index.DocumentSeries, list[Row]] = {}
    for row in missing:
        series.setdefault(series_of(row), []).append(row)
    documents: list[dict[str, int]] = []
    for each in sorted(series):
        owners = [row["sequence"] for row in series[each]]
        new = [search_index.IndexedDocument(said[row["sequence"]], row["created_at"]) for row in series[each]]
        placed = search_index.places(tx, each, new)._replace(embeds=False, waiting=0)  # entries get no vectors
        search_index.write(tx, placed, owners, waits=False)
        pairs = zip(owners, placed.numbers, strict=True)
        documents += [{"sequence": owner, "document": number} for owner, number in pairs]
    if documents:
        query.audit_set_document.many(tx, documents)


def archive(tx: Transaction, low: str, high: str, before: int, *, after: int = 0, limit: int = PAGE) -> EntryPage:
    """Compress a page of old entries in place. Reading and search work as before.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path after the last.
        before: Entries created before this time, in microseconds since 1970.
        after: The number after which to begin.
        limit: The most entries of a page.
    """
    query.audit_lock(tx)
    found = query.audit_to_archive(tx, low=low, high=high, before=before, after=after, limit=limit)
    if found:
        bodies = [{"sequence": row["sequence"], "body": audit_rows.compressed(bytes(row["body"]))} for row in found]
        query.audit_set_body.many(tx, bodies)
    return EntryPage(len(found), found[-1]["sequence"] if len(found) == limit else None)


def erase(tx: Transaction, low: str, high: str, name: str | None = None) -> int:
    """Erase entries. The chain keeps a stub of each, which reveals nothing of its content.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path after the last.
        name: Only entries of the conversation or thread with this name. Default: all.

    Returns:
        The number of erased entries.
    """
    query.audit_lock(tx)
    look, where = (query.audit_in_range, {}) if name is None else (query.audit_of_name, {"name": name})
    erased = 0
    shelves: set[tuple[str, bytes, int]] = set()
    series: set[search_index.DocumentSeries] = set()
    while found := look(tx, low=low, high=high, **where, limit=PAGE):
        taken_out(tx, found)
        query.audit_erase.many(tx, [{"sequence": row["sequence"]} for row in found])
        erased += len(found)
        calls = [row for row in found if row["shelf_id"] is not None and row["mark"] is not None]
        shelves |= {(row["path"], bytes(row["mark"]), row["shelf_id"]) for row in calls}
        series |= {series_of(row) for row in found}
    for path, mark, shelf in sorted(shelves):
        audit_rows.free(tx, path, mark, shelf)
    for each in sorted(series):
        search_index.close(tx, *each)
    for path in sorted({each.path for each in series}):
        query.delete_empty_namespaces(tx, path=path)
    return erased


# -- searched and verified -----------------------------------------------------------------------------------------


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the searchable texts of entries, by their numbers.

    Args:
        tx: The transaction.
        owners: Their numbers in the chain.
    """
    found = query.audit_rows(tx, sequences=json.dumps(list(owners)))
    said = audit_rows.texts(found)
    return {number: (text,) for number, text in said.items()}


def recollections(tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: object) -> Mapping[int, Recollection]:
    """Convert hits to results for the user, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: The entries found by a search. Entries hidden or erased meanwhile are left out.
        now: Not used, since entries do not expire.
        outlook: Not used, since entries are visible from everywhere.
    """
    del now, outlook
    found = query.audit_rows(tx, sequences=json.dumps([hit.owner for hit in hits]))
    shown = {row["sequence"]: row for row in found if row["hidden"] == SHOWN}
    entries = audit_rows.entries(tx, list(shown.values()))
    values = {number: (entry.text, entry) for number, entry in zip(shown, entries, strict=True)}
    return recollections_of(hits, shown, values)


CHAIN_PAGE, MESSAGES = 100, 200
"""The places of the chain, and the messages, that are checked in one query."""
MOST_PROBLEMS = 100
"""The most problems that a check lists; further ones are only counted."""
_ALWAYS = ("sequence", "link", "digest", "path")
"""The columns that an erased entry keeps; the path comes from its namespace."""


def verify(tx: Transaction, since: ChainHead | None = None) -> ChainReport:
    """Check the whole chain: that each entry is unchanged and in its place.

    Args:
        tx: The transaction.
        since: A head kept elsewhere. It proves that nothing up to this head changed except by erasure, even if an
            attacker recomputed the chain.
    """
    noted = query.audit_head(tx)
    end = ChainHead(int(noted[0]["sequence"]), bytes(noted[0]["link"])) if noted else None
    since = since or audit_entry.START
    link_then = audit_entry.START.link if since == audit_entry.START else None
    found: list[str] = []
    at, entries, erased, shelves = audit_entry.START, 0, 0, set[int]()
    while rows := query.audit_chain(tx, after=at.sequence, limit=CHAIN_PAGE):
        if rows[-1]["sequence"] <= at.sequence:  # an index that is damaged leads back
            found.append(f"the audit trail cannot be followed beyond its number {at.sequence}")
            break
        digests = audit_rows.digests(tx, rows)
        for row in rows:
            found += _wrong_with(row, at, digests.get(row["shelf_id"], {}))
            at = ChainHead(row["sequence"], bytes(row["link"]))
            link_then = at.link if at.sequence == since.sequence else link_then
            erased += row["kind"] is None
        entries += len(rows)
        shelves.update(row["shelf_id"] for row in rows if row["shelf_id"] is not None)
    for shelf in sorted(shelves):
        found += _wrong_messages(tx, shelf)
    if end != at:
        noted_end = "nothing" if end is None else f"number {end.sequence}"
        found.append(f"of the end of the chain {noted_end} is noted, which does not fit its last entry, {at.sequence}")
    if link_then != since.link:
        found.append(f"what the chain holds up to number {since.sequence} is not what it was when the head was taken")
    if (more := len(found) - MOST_PROBLEMS) > 0:
        found[MOST_PROBLEMS:] = [f"there are {more} more problems"]
    return ChainReport(entries=entries, erased=erased, problems=tuple(found), head=end or at)


def problems(tx: Transaction) -> list[str]:
    """Return the problems of the audit trail, as sentences."""
    report = verify(tx)
    found = list(report.problems)
    unfound = query.audit_wrong_documents(tx)
    found += [
        f"number {row['sequence']} of the audit trail is "
        + ("not in the search index" if row["hidden"] == SHOWN else "hidden, but in the search index")
        for row in unfound
    ]
    return found


def _wrong_with(row: Row, before: ChainHead, messages: Mapping[int, bytes]) -> Iterator[str]:
    """Yield the problems of a place of the chain, given the place before it."""
    called = f"number {row['sequence']} of the audit trail"
    if row["kind"] is not None and row["key"] is not None:
        called = f"the entry {safe_repr(row['key'])} (number {row['sequence']})"
    digest = bytes(row["digest"])
    if row["sequence"] != before.sequence + 1:
        yield f"numbers {before.sequence + 1} to {row['sequence'] - 1} of the audit trail are missing"
    elif queries.next_link(before.link, digest) != bytes(row["link"]):
        yield f"{called} does not follow from what stands before it in the chain"
    if row["kind"] is None:
        if left := [name for name in row.keys() if name not in _ALWAYS and row[name] is not None]:  # noqa: SIM118
            yield f"{called} was erased, but still has {', '.join(left)}"
        return
    try:
        is_whole = audit_rows.digest_of(row, messages) == digest
    except (KeyError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        yield f"{called} is not what was stored"
    elif amiss := _amiss(row):
        yield f"{called} is marked as no entry can be: {', '.join(amiss)}"


def _amiss(row: Row) -> list[str]:
    """Return the changeable columns whose values are impossible and would hide the entry."""
    hidden, junk = row["hidden"], row["junk"]
    is_sound = {
        "hidden": hidden in (SHOWN, JUNK, REPLACED),
        "junk": hidden == REPLACED or (junk is not None) == (hidden == JUNK),
        "status": (row["status"] in audit_entry.STATUSES) if row["kind"] == "todo" else row["status"] is None,
        "archived": row["archived"] in (0, 1),
        "shelf_id": (row["shelf_id"] is None) == (row["messages"] is None),
    }
    return [name for name, sound in is_sound.items() if not sound]


def _wrong_messages(tx: Transaction, shelf: int) -> list[str]:
    """Return the problems of the messages of model calls on a shelf."""
    found: list[str] = []
    after = -1
    while page := query.parts_after(tx, shelf=shelf, after=after, limit=MESSAGES):
        found += [
            f"message {row['number']} of shelf {shelf} in the audit trail is not what was stored"
            for row in page
            if row["body"] is None or queries.digest(bytes(row["body"])) != bytes(row["hash"])
        ]
        if page[-1]["number"] <= after:  # an index that is damaged leads back
            return [*found, f"the messages of shelf {shelf} cannot be followed beyond number {after}"]
        after = page[-1]["number"]
    return found


def _erase_part(tx: Transaction, erasure: Erasure) -> None:
    erasure.removed["audit"] += erase(tx, erasure.low, erasure.high, erasure.name)


PART = Part(
    found={"audit": (SearchableKind(stored_as=KIND, texts=texts, recollections=recollections),)},
    usual=False,  # the audit trail repeats the texts of messages
    unsettled=waiting,
    settle=settle,
    tables={"audit": ("audit", "audit_head")},
    verify={"audit": problems},
    erase=_erase_part,
)
