"""The audit trail in the database: what writes it.

Every entry gets the next place in one chain (`chain.py`), in the order of the commits: whoever adds holds the end of
the chain until its transaction ends. To add an entry alone is to insert a row and to move the head. Indexes and the
search cost more, and cost little where many entries enter them together, so new ones wait: `TAIL` of them *settle* with
the one that makes them so many. Until then whoever reads looks through those that wait as well, and a search that could
find them has them settle first.

Entries never change but for what is no part of their digest: by which rules they are junk, whether a todo is done, and
whether they are archived. Everything here is written as steps and does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_rows, chain, model_messages, reading
from langchain_agentmem.audit.audit_entry import DIGEST, REFERENCE, STATUSES, AuditEntry
from langchain_agentmem.audit.audit_rows import JUNK, REPLACED, SHOWN, Draft
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, InvalidInput
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row

KIND = "audit"
"""What a search knows entries as."""
TAIL = 128
"""So many entries may wait for the indexes and the search."""
PAGE = 500


class Page(NamedTuple):
    """What was done with one page of entries.

    Attributes:
        changed: How many entries were changed.
        after: Where the next page begins, behind this number; None after the last page.
    """

    changed: int
    after: int | None


class _End(NamedTuple):
    """The end of the chain, held until the transaction ends.

    Attributes:
        sequence: The place of the last entry.
        link: Its link.
        indexed: The last entry that does not wait.
        namespace: The row of the namespace; None where it has no entries.
    """

    sequence: int
    link: bytes
    indexed: int
    namespace: int | None


def add(path: str, drafts: Sequence[Draft]) -> Steps[list[int]]:
    """Add entries at the end of the chain, all of them or none.

    Args:
        path: The path of the namespace; it is made if need be.
        drafts: The entries. Their ids are new, and their namespace is that of `path`.

    Returns:
        Their numbers in the chain.

    Raises:
        InvalidInput: One holds what cannot be stored.
    """
    if not drafts:
        return []
    end = yield from _hold(path)
    return (yield from _append(path, end, drafts))


def add_new(path: str, drafts: Sequence[Draft]) -> Steps[list[AuditEntry]]:
    """Add those entries whose ids the namespace does not hold.

    Args:
        path: The path of the namespace.
        drafts: The entries.

    Returns:
        Those that were added.
    """
    end = yield from _settled(path)
    known = yield query.audit_known_keys(path=path, keys=json.dumps([draft.entry.id for draft in drafts]))
    there = {row["key"] for row in known}
    fresh: dict[str, Draft] = {}
    for draft in drafts:
        if draft.entry.id not in there:
            fresh.setdefault(draft.entry.id, draft)
    new = list(fresh.values())
    yield from _append(path, end, new)
    return [draft.entry for draft in new]


def add_once(path: str, drafts: Sequence[Draft], *, statuses: Collection[str] = STATUSES) -> Steps[list[AuditEntry]]:
    """Add those entries whose marks no entry of their kind bears, such as todos that are not there yet.

    Args:
        path: The path of the namespace.
        drafts: The entries, with their marks.
        statuses: The statuses of todos that stand in the way of an equal one. Default: all.

    Returns:
        Those that were added.
    """
    if not drafts:
        return []
    end = yield from _settled(path)
    new: dict[Any, Draft] = {}
    for draft in drafts:
        mark = audit_rows.mark_of(draft.mark)
        if (draft.entry.kind, mark) in new:
            continue
        found = yield query.audit_marked(path=path, kind=draft.entry.kind, mark=mark)
        if not any(row["status"] is None or row["status"] in statuses for row in found):
            new[draft.entry.kind, mark if mark is not None else draft.entry.id] = draft
    yield from _append(path, end, list(new.values()))
    return [draft.entry for draft in new.values()]


def put_reference(path: str, draft: Draft) -> Steps[tuple[AuditEntry, bool]]:
    """Add a reference or digest, in the place of the one of its mark; that one stays in the chain, and is not shown.

    Args:
        path: The path of the namespace.
        draft: The reference or digest, with its mark.

    Returns:
        The reference as it is now, and whether it is new or has changed.
    """
    if draft.mark is None or draft.entry.kind not in (REFERENCE, DIGEST):
        raise InvalidInput("A reference that can be updated has the kind 'reference' and a mark, such as its title.")
    end = yield from _settled(path)
    newest = yield from reading.newest_marked(path, draft.entry.kind, audit_rows.mark_of(draft.mark))
    if newest is not None:
        found = yield query.audit_rows(sequences=json.dumps([newest]))
        [there] = yield from audit_rows.entries(found)
        if (there.title, there.prompt, there.reply) == (draft.entry.title, draft.entry.prompt, draft.entry.reply):
            return there, False
        yield from _change([(found[0], REPLACED, found[0]["junk"])])
    yield from _append(path, end, [draft])
    return draft.entry, True


def judge(
    path: str,
    reasons: Callable[[str, str, str], Sequence[str]],
    *,
    after: int = 0,
    limit: int = PAGE,
) -> Steps[Page]:
    """Say of one page of entries by which rules they are junk.

    Args:
        path: The path of the namespace.
        reasons: Gives the names of the rules, of a kind, a prompt and a reply.
        after: The number behind which to begin.
        limit: Most entries of a page.
    """
    yield from _settled(path)
    numbers = yield from reading.following(path, after, limit=limit, include_junk=True)
    found = yield query.audit_rows(sequences=json.dumps(numbers))
    said = yield from audit_rows.said(found)
    judged = [(row, reasons(row["kind"], *said[row["sequence"]])) for row in found if row["sequence"] in said]
    changed = yield from _judged(judged)
    return Page(changed, numbers[-1] if len(numbers) == limit else None)


def show_newest(path: str, marks: Iterable[bytes]) -> Steps[None]:
    """Of several references of one mark, as an import may bring them, show the newest."""
    yield from _settled(path)
    for mark in sorted(set(marks)):
        found = yield query.audit_marked(path=path, kind=REFERENCE, mark=mark)
        numbers = [row["sequence"] for row in found if row["hidden"] != REPLACED]
        if len(numbers) > 1:
            versions = yield query.audit_rows(sequences=json.dumps(numbers))
            *older, _ = sorted(versions, key=lambda row: (row["created_at"], row["sequence"]))
            yield from _change([(row, REPLACED, row["junk"]) for row in older])


def set_status(path: str, ids: Iterable[str], status: str) -> Steps[int]:
    """Say of todos that they are open, or done.

    Args:
        path: The path of the namespace.
        ids: Their ids; those that are not there, or no todos, are ignored.
        status: "open" or "done".

    Returns:
        How many this changes.
    """
    if status not in STATUSES:
        raise InvalidInput(f"A todo is 'open' or 'done', not {safe_repr(status)}.")
    yield from _settled(path)
    found = yield query.audit_named(path=path, keys=json.dumps(list(ids)))
    changed = [row["sequence"] for row in found if row["status"] not in (None, status)]
    if changed:
        yield query.audit_set_status.many([{"sequence": number, "status": status} for number in changed])
    return len(changed)


def waiting() -> Steps[bool]:
    """Whether entries wait for the search."""
    [head] = yield query.audit_head()
    return bool(head["sequence"] > head["indexed"])


def settle() -> Steps[None]:
    """Put the entries that wait into the indexes and the search. Holds the end of the chain."""
    yield from _settled("")


def taken_out(found: Sequence[Row]) -> Steps[None]:
    """Take entries out of the search index."""
    there = [row for row in found if row["document_id"] is not None]
    if there:
        said = yield from audit_rows.texts(there)
        yield from search_index.remove([(row["document_id"], said[row["sequence"]]) for row in there])
        yield query.audit_no_document.many([{"sequence": row["sequence"]} for row in there])


def series_of(row: Row) -> search_index.Series:
    """Where an entry stands in the search index: with those of its conversation, or of its thread."""
    return search_index.Series(row["path"], KIND, row["conversation"] or row["thread"] or "")


# -- the parts of the above ----------------------------------------------------------------------------------------


def _hold(path: str) -> Steps[_End]:
    """The end of the chain, at which nobody else can write until the transaction ends."""
    held = yield query.audit_lock.ahead()
    found = yield query.audit_find_namespace(path=path)
    [row] = held
    namespace = found[0]["namespace_id"] if found else None
    return _End(int(row["sequence"]), bytes(row["link"]), int(row["indexed"]), namespace)


def _settled(path: str) -> Steps[_End]:
    """The same, when nothing waits any more."""
    end = yield from _hold(path)
    if end.indexed < end.sequence:
        yield from _settle(end.indexed, end.sequence)
    return end._replace(indexed=end.sequence)


def _append(path: str, end: _End, drafts: Sequence[Draft]) -> Steps[list[int]]:
    if not drafts:
        return []
    namespace = end.namespace
    if namespace is None:
        namespace = yield from _namespace(path)
    sequence, link = end.sequence, end.link
    added: list[dict[str, Any]] = []
    for draft in drafts:
        placed = None
        if parts := model_messages.parts_of(draft.entry.messages) if draft.parts is None else draft.parts:
            name = draft.entry.conversation_id or draft.entry.thread_id or ""
            placed = yield from model_messages.put(path, namespace, name, parts)
        row = audit_rows.row_of(path, draft, placed)
        sequence, link = sequence + 1, chain.following(link, row["digest"])
        row |= {"sequence": sequence, "link": link, "namespace": namespace, "settled": int(len(drafts) >= TAIL)}
        added.append(row)
    yield query.audit_add(**added[0]) if len(added) == 1 else query.audit_add.many(added)
    yield query.audit_move_head(sequence=sequence, link=link)
    if sequence - end.indexed >= TAIL:
        yield from _settle(end.indexed, sequence)
    return [row["sequence"] for row in added]


def _namespace(path: str) -> Steps[int]:
    yield query.create_namespace(path=path)
    found = yield query.audit_open_namespace(path=path)
    if not found:
        raise BranchMoved  # somebody else removed it between the two: begin again
    return int(found[0]["namespace_id"])


def _judged(judged: Iterable[tuple[Row, Sequence[str]]]) -> Steps[int]:
    changes = []
    for row, names in judged:
        written = json.dumps(list(names)) if names else None
        if written != row["junk"]:
            changes.append((row, row["hidden"] if row["hidden"] == REPLACED else JUNK if names else SHOWN, written))
    yield from _change(changes)
    return len(changes)


def _change(changes: Sequence[tuple[Row, int, str | None]]) -> Steps[None]:
    """Show or hide entries, and have the search index follow."""
    if not changes:
        return
    yield query.audit_set_junk.many(
        [{"sequence": row["sequence"], "hidden": hidden, "junk": junk} for row, hidden, junk in changes]
    )
    yield from taken_out([row for row, hidden, _ in changes if hidden != SHOWN])
    yield from _enter([row for row, hidden, _ in changes if hidden == SHOWN and row["document_id"] is None])


def _settle(indexed: int, upto: int) -> Steps[None]:
    yield query.audit_settle(after=indexed, upto=upto)
    while indexed < upto:
        found = yield query.audit_between(after=indexed, upto=upto, limit=PAGE)
        yield from _enter([row for row in found if row["hidden"] == SHOWN and row["document_id"] is None])
        indexed = found[-1]["sequence"] if len(found) == PAGE else upto
    yield query.audit_note_indexed(sequence=upto)


def _enter(found: Sequence[Row]) -> Steps[None]:
    """Put entries into the search index."""
    if not found:
        return
    said = yield from audit_rows.texts(found)
    series: dict[search_index.Series, list[Row]] = {}
    for row in found:
        series.setdefault(series_of(row), []).append(row)
    placed: list[search_index.Placed] = []
    for each in sorted(series):
        documents = [search_index.Document(said[row["sequence"]], row["created_at"]) for row in series[each]]
        placed.append((yield from search_index.places(each, documents)))
    owners = [row["sequence"] for each in sorted(series) for row in series[each]]
    together = search_index.Placed(
        [number for each in placed for number in each.numbers],
        [document for each in placed for document in each.documents],
        [analysed for each in placed for analysed in each.found],
        embeds=False,  # every call of every model would be a call of the embeddings
        waiting=0,
    )
    yield from search_index.write(together, owners, tail=0)
    entered = zip(owners, together.numbers, strict=True)
    yield query.audit_set_document.many([{"sequence": owner, "document": document} for owner, document in entered])
