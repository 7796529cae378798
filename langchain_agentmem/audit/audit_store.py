"""Statements that write, read, archive and erase the entries of the audit trail.

Every entry gets the next place in one chain (`audit_entry`), in the order of the commits: whoever adds holds the end of
the chain until its transaction ends. To add an entry alone is to insert a row and to move the head. The search costs
more, and costs little where many entries enter it together, so new ones wait: `TAIL` of them *settle* with the one that
makes them so many, and a search that could find them has them settle first.

Entries never change but for what is no part of their digest: by which rules they are junk, whether a todo is done, and
whether they are archived. Everything here is a function of a transaction.

**Reading.** The last entries of a conversation among a million cost what they are: every list of entries is a few
ranges of an index, one for each kind and for what is hidden, which are put together here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from langchain_agentmem.audit import audit_entry, audit_rows
from langchain_agentmem.audit.audit_entry import CALL, EXCHANGE, KINDS, OPEN, REFERENCE, TODO, AuditEntry
from langchain_agentmem.audit.audit_rows import JUNK, REPLACED, SHOWN, EntryDraft
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import NO_STREAM
from langchain_agentmem.messages.message import encode_body
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.queries import Query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.value_store import LOOSE, StorePlace, shelve_messages

LIST_PAGE = 200
WithJunk: TypeAlias = bool | Literal["only"]
"""Whether entries are wanted that are hidden as junk, or only those."""
ONLY_JUNK: Final = "only"
_END = 2**62


class EntryFilter(TypedDict, total=False):
    """Which entries are wanted.

    Attributes:
        conversation: Only those of this conversation. Default: of all, and of none.
        kinds: Only these kinds. Default: all.
        include_junk: Whether those are wanted that are hidden as junk, or "only" those. Default: no.
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
    """The last entries, from the oldest to the newest.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        n: How many; none where it is 0 or less.
        before: The id of an entry: only those that stand before it. Default: all.
        messages: Whether model calls are given with their messages. Default: yes.
        **wanted: Which entries.

    Raises:
        InvalidInput: There is no entry of the id `before`.
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
    """A page of the entries, from the oldest to the newest, and the number behind which the next one begins, if any.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        after: The number behind which to begin, as the page before says. Default: from the beginning.
        limit: Most entries of a page.
        **wanted: Which entries.
    """
    numbers = following(tx, path, after, limit, wanted)
    return of_numbers(tx, numbers), numbers[-1] if len(numbers) == limit else None


def following(tx: Transaction, path: str, after: int, limit: int, wanted: EntryFilter) -> list[int]:
    """The numbers of the first entries behind a number."""
    return _numbers(tx, path, wanted, query.audit_following, query.audit_following_in, after=after, limit=limit)[:limit]


def of_numbers(tx: Transaction, numbers: Sequence[int], *, messages: bool = True) -> list[AuditEntry]:
    """The entries of some numbers, in the order of the chain; what was erased is left out."""
    if not numbers:
        return []
    found = query.audit_rows(tx, sequences=json.dumps(list(numbers)))
    return audit_rows.entries(tx, found, messages=messages)


def get(tx: Transaction, path: str, entry_id: str) -> AuditEntry | None:
    """The entry of an id, also if it is hidden; None if there is none."""
    named = query.audit_named(tx, path=path, keys=json.dumps([entry_id]))
    found = of_numbers(tx, [row["sequence"] for row in named])
    return found[0] if found else None


def of_status(tx: Transaction, path: str, status: str) -> list[AuditEntry]:
    """The todos that are open, or done, the oldest first.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        status: "open" or "done".
    """
    return audit_rows.entries(tx, query.audit_of_status(tx, path=path, status=status))


def head(tx: Transaction) -> audit_entry.Head:
    """The end of the chain, which somebody may keep elsewhere."""
    [row] = query.audit_head(tx)
    return audit_entry.Head(int(row["sequence"]), bytes(row["link"]))


def _numbers(tx: Transaction, path: str, wanted: EntryFilter, of_all: Query, of_one: Query, **ends: int) -> list[int]:
    """The numbers of the wanted entries, in order: a range of an index for each kind and visibility."""
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
"""What a search knows entries as."""
TAIL = 128
"""So many entries may wait for the search."""
PAGE = 500


class EntryPage(NamedTuple):
    """What was done with one page of entries.

    Attributes:
        entries: How many entries were changed.
        after: Where the next page begins, behind this number; None after the last page.
        saved: How many bytes that saved.
    """

    entries: int
    after: int | None
    saved: int = 0


def add(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[int]:
    """Add entries at the end of the chain, all of them or none.

    Args:
        tx: The transaction.
        path: The path of the namespace; it is made if need be.
        drafts: The entries. Their ids are new, and their namespace is that of `path`.

    Returns:
        Their numbers in the chain.

    Raises:
        InvalidInput: One holds what cannot be stored.
    """
    if not drafts:
        return []
    held = query.audit_lock.ahead(tx)
    found = query.find_namespace(tx, path=path)
    [head] = held
    namespace = int(found[0]["id"]) if found else queries.number_of(tx, path)
    sequence, link, indexed = int(head["sequence"]), bytes(head["link"]), int(head["indexed"])
    shelves: dict[bytes, StorePlace] = {}
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
    """Add those entries whose ids the namespace does not hold. Of a reference the newest version is shown.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The entries.

    Returns:
        How many were added.
    """
    query.audit_lock(tx)
    known = query.audit_named(tx, path=path, keys=json.dumps([draft.entry.id for draft in drafts]))
    there = {row["key"] for row in known}
    fresh: dict[str, EntryDraft] = {}
    for draft in drafts:
        if draft.entry.id not in there:
            fresh.setdefault(draft.entry.id, draft)
    add(tx, path, list(fresh.values()))
    marks = {audit_rows.mark_of(draft.mark) for draft in fresh.values() if draft.entry.kind == REFERENCE}
    _show_newest(tx, path, marks)
    return len(fresh)


def add_once(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> list[AuditEntry]:
    """Add those todos whose marks no open todo bears.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The todos, with their marks.

    Returns:
        Those that were added.
    """
    query.audit_lock(tx)
    new: dict[bytes | None, EntryDraft] = {}
    for draft in drafts:
        mark = audit_rows.mark_of(draft.mark)
        found = query.audit_marked(tx, path=path, kind=TODO, mark=mark)
        if not any(row["status"] == OPEN for row in found):
            new.setdefault(mark, draft)
    add(tx, path, list(new.values()))
    return [draft.entry for draft in new.values()]


def put_reference(tx: Transaction, path: str, drafts: Sequence[EntryDraft]) -> AuditEntry:
    """Add a reference, in the place of the one of its mark; that one stays in the chain, and is not shown.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        drafts: The reference, with its mark.

    Returns:
        The reference as it is now: the one that was there, if it says the same.
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
    """Say of one page of entries by which rules they are junk.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        reasons: Gives the names of the rules, of a kind, a prompt and a reply.
        after: The number behind which to begin.
        limit: Most entries of a page.
    """
    query.audit_lock(tx)
    numbers = following(tx, path, after, limit, {"include_junk": True})
    found = query.audit_rows(tx, sequences=json.dumps(numbers))
    said = audit_rows.said(tx, found)
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
    """Say of a todo that it is open, or done.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        todo_id: Its id.
        status: "open" or "done".

    Returns:
        Whether this changes it.

    Raises:
        InvalidInput: There is no such todo.
    """
    found = query.audit_named(tx, path=path, keys=json.dumps([todo_id]))
    if not found or found[0]["kind"] != TODO:
        raise InvalidInput(f"There is no todo {safe_repr(todo_id)}. todos() lists them, with their ids.")
    query.audit_set_status(tx, sequence=found[0]["sequence"], status=status)
    return bool(found[0]["status"] != status)


def waiting(tx: Transaction) -> bool:
    """Whether entries wait for the search."""
    [head] = query.audit_head(tx)
    return bool(head["sequence"] > head["indexed"])


def settle(tx: Transaction) -> None:
    """Put the entries that wait into the search. Holds the end of the chain."""
    [head] = query.audit_lock(tx)
    _settle(tx, head["indexed"], head["sequence"])


def taken_out(tx: Transaction, found: Sequence[Row]) -> None:
    """Take entries out of the search index."""
    there = [row for row in found if row["document_id"] is not None]
    if there:
        said = audit_rows.texts(tx, there)
        search_index.remove(tx, [(row["document_id"], said[row["sequence"]]) for row in there])
        query.audit_set_document.many(tx, [{"sequence": row["sequence"], "document": None} for row in there])


def series_of(row: Row) -> search_index.Series:
    """Where an entry stands in the search index: with those of its conversation, or of its thread."""
    return search_index.Series(row["path"], KIND, row["conversation"] or row["thread"] or "")


# -- the parts of the above ----------------------------------------------------------------------------------------


def _shelf(tx: Transaction, namespace: int, mark: bytes) -> StorePlace:
    """The shelf of the calls with a mark, which is made for the first one."""
    [row] = query.audit_find_shelf(tx, namespace=namespace, mark=mark) or query.create_shelf(tx, loose=LOOSE)
    return StorePlace(row["id"], row["swept"])


def _show_newest(tx: Transaction, path: str, marks: Iterable[bytes | None]) -> None:
    """Of several references of one mark show the newest."""
    for mark in sorted(mark for mark in marks if mark is not None):
        found = query.audit_marked(tx, path=path, kind=REFERENCE, mark=mark)
        numbers = [row["sequence"] for row in found if row["hidden"] != REPLACED]
        if len(numbers) > 1:
            versions = query.audit_rows(tx, sequences=json.dumps(numbers))
            *older, _ = sorted(versions, key=lambda row: (row["created_at"], row["sequence"]))
            _change(tx, [(row, REPLACED, row["junk"]) for row in older])


def _change(tx: Transaction, changes: Sequence[tuple[Row, int, str | None]]) -> None:
    """Show or hide entries, and have the search index follow."""
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
    """Put those entries into the search that are not in it."""
    missing = [row for row in found if row["document_id"] is None]
    said = audit_rows.texts(tx, missing)
    series: dict[search_index.Series, list[Row]] = {}
    for row in missing:
        series.setdefault(series_of(row), []).append(row)
    for each in sorted(series):
        owners = [row["sequence"] for row in series[each]]
        new = [search_index.IndexedDocument(said[row["sequence"]], row["created_at"]) for row in series[each]]
        placed = search_index.places(tx, each, new)._replace(embeds=False, waiting=0)  # no model is asked for vectors
        search_index.write(tx, placed, owners, tail=0)
        documents = zip(owners, placed.numbers, strict=True)
        query.audit_set_document.many(tx, [{"sequence": owner, "document": number} for owner, number in documents])


def archive(tx: Transaction, low: str, high: str, before: int, *, after: int = 0, limit: int = PAGE) -> EntryPage:
    """Compress a page of old entries where they are. They are read and found as before.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path behind the last.
        before: Entries made before then, in microseconds since 1970.
        after: The number behind which to begin.
        limit: Most entries of a page.
    """
    query.audit_lock(tx)
    found = query.audit_to_archive(tx, low=low, high=high, before=before, after=after, limit=limit)
    bodies = {row["sequence"]: audit_rows.compressed(bytes(row["body"])) for row in found}
    if found:
        query.audit_set_body.many(tx, [{"sequence": number, "body": body} for number, body in bodies.items()])
    saved = sum(len(row["body"]) - len(bodies[row["sequence"]]) for row in found)
    return EntryPage(len(found), found[-1]["sequence"] if len(found) == limit else None, saved)


def erase(tx: Transaction, low: str, high: str, name: str | None = None) -> int:
    """Erase entries; of each the chain keeps a stub of which nothing can be known.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path behind the last.
        name: Only those of the conversation or thread of this name. Default: all.

    Returns:
        How many entries were erased.
    """
    query.audit_lock(tx)
    look, where = (query.audit_in_range, {}) if name is None else (query.audit_of_name, {"name": name})
    erased = 0
    shelves: set[tuple[str, bytes, int]] = set()
    series: set[search_index.Series] = set()
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


def is_said(entry: AuditEntry) -> bool:
    """Whether an entry is something that a user asked: no todo and the like, and no call that memory makes itself."""
    tags = entry.extra.get("tags")  # another database may have sent anything
    is_own = isinstance(tags, list | tuple) and NO_STREAM in tags
    return entry.kind == EXCHANGE or (entry.kind == CALL and not is_own)
