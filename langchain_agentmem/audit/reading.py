"""The audit trail in the database: what reads it.

The last entries of a conversation among a million cost what they are: every list of entries is a few ranges of an
index, one for each kind and for what is hidden, which are put together here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_rows, chain
from langchain_agentmem.audit.audit_entry import KINDS, AuditEntry
from langchain_agentmem.audit.audit_rows import JUNK, REPLACED, SHOWN
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row

PAGE = 200
DAY = 86_400_000_000
"""Microseconds."""
EVER = -(2**62)
_END = 2**62


class Listed(NamedTuple):
    """A page of entries, in the order of the chain.

    Attributes:
        entries: The entries.
        after: Where the next page begins, behind this number; None after the last page.
    """

    entries: list[AuditEntry]
    after: int | None


class Count(NamedTuple):
    """How many entries there are of one conversation, kind, or span of time.

    Attributes:
        name: The conversation, None for those of none; the kind; or when the span begins, in microseconds since 1970.
        entries: How many.
        junk: How many of them are hidden as junk.
        first_at: When the first of them was made, in microseconds since 1970.
        last_at: When the last.
    """

    name: Any
    entries: int
    junk: int
    first_at: int
    last_at: int


class Sizes(NamedTuple):
    """How large an audit trail is.

    Attributes:
        entries: Entries, without those that were erased.
        junk: Those of them that are hidden as junk.
        archived: Those of them that are archived.
        entry_bytes: Bytes of their texts, as they are kept.
        messages: Different messages that model calls were given or answered with.
        message_bytes: Their bytes. Conversations and checkpoints may share them.
    """

    entries: int
    junk: int
    archived: int
    entry_bytes: int
    messages: int
    message_bytes: int


def last(
    path: str,
    n: int,
    *,
    conversation: str | None = None,
    kinds: Collection[str] | None = None,
    include_junk: bool = False,
    messages: bool = True,
) -> Steps[list[AuditEntry]]:
    """The last entries, from the oldest to the newest.

    Args:
        path: The path of the namespace.
        n: How many; none where it is 0 or less.
        conversation: Only those of this conversation. Default: of all, and of none.
        kinds: Only these kinds. Default: all.
        include_junk: Whether those are wanted that are hidden as junk. Default: no.
        messages: Whether model calls are given with their messages. Default: yes.
    """
    if n <= 0:
        return []
    numbers = yield from _waiting(path, _wanted(conversation, kinds, include_junk))
    if len(numbers) < n:  # what waits is newer than the rest
        look = query.audit_newest if conversation is None else query.audit_newest_in
        where: dict[str, Any] = {} if conversation is None else {"conversation": conversation}
        found = []
        for kind, hidden in _groups(kinds, include_junk):
            each = yield look.ahead(path=path, kind=kind, hidden=hidden, before=_END, limit=n, **where)
            found.append(each)
        numbers |= {row["sequence"] for each in found for row in each}
    return (yield from of_numbers(sorted(numbers)[-n:], messages=messages))


def page(
    path: str,
    after: int = 0,
    *,
    limit: int = PAGE,
    conversation: str | None = None,
    kinds: Collection[str] | None = None,
    include_junk: bool = False,
    messages: bool = True,
) -> Steps[Listed]:
    """A page of the entries, from the oldest to the newest.

    Args:
        path: The path of the namespace.
        after: The number behind which to begin, as the page before says. Default: from the beginning.
        limit: Most entries of a page.
        conversation: As for `last`, and so the rest.
        kinds: See there.
        include_junk: See there.
        messages: See there.
    """
    numbers = yield from following(
        path, after, limit=limit, conversation=conversation, kinds=kinds, include_junk=include_junk
    )
    found = yield from of_numbers(numbers, messages=messages)
    return Listed(found, numbers[-1] if len(numbers) == limit else None)


def following(
    path: str,
    after: int,
    *,
    limit: int,
    conversation: str | None = None,
    kinds: Collection[str] | None = None,
    include_junk: bool = False,
) -> Steps[list[int]]:
    """The numbers of the entries behind a number; arguments as for `page`."""
    look = query.audit_following if conversation is None else query.audit_following_in
    where: dict[str, Any] = {} if conversation is None else {"conversation": conversation}
    found = []
    for kind, hidden in _groups(kinds, include_junk):
        each = yield look.ahead(path=path, kind=kind, hidden=hidden, after=after, limit=limit, **where)
        found.append(each)
    numbers = {row["sequence"] for each in found for row in each}
    waiting = yield from _waiting(path, _wanted(conversation, kinds, include_junk))
    return sorted(numbers | {number for number in waiting if number > after})[:limit]


def of_numbers(numbers: Sequence[int], *, messages: bool = True) -> Steps[list[AuditEntry]]:
    """The entries of some numbers, in the order of the chain; what was erased is left out."""
    if not numbers:
        return []
    found = yield query.audit_rows(sequences=json.dumps(list(numbers)))
    return (yield from audit_rows.entries(found, messages=messages))


def get(path: str, ids: Sequence[str]) -> Steps[dict[str, AuditEntry]]:
    """The entries of some ids, by their ids; hidden ones too. What is not there is left out."""
    found = yield query.audit_named(path=path, keys=json.dumps(list(ids)))
    numbers = {row["sequence"] for row in found}
    numbers |= yield from _waiting(path, lambda row: row["key"] in ids)
    return {each.id: each for each in (yield from of_numbers(sorted(numbers)))}


def of_status(path: str, status: str) -> Steps[list[AuditEntry]]:
    """The todos that are open, or done, the oldest first.

    Args:
        path: The path of the namespace.
        status: "open" or "done".
    """
    numbers: set[int] = set()
    after = 0
    while some := (yield query.audit_of_status(path=path, status=status, after=after, limit=PAGE)):
        numbers |= {row["sequence"] for row in some}
        after = some[-1]["sequence"]
    numbers |= yield from _waiting(path, lambda row: row["status"] == status and row["hidden"] == SHOWN)
    return (yield from of_numbers(sorted(numbers)))


def marked(path: str, kind: str, mark: str) -> Steps[AuditEntry | None]:
    """The newest entry of a kind that bears a mark, such as the todo of a key or the reference of a title."""
    newest = yield from newest_marked(path, kind, audit_rows.mark_of(mark))
    read = yield from of_numbers([] if newest is None else [newest])
    return read[0] if read else None


def newest_marked(path: str, kind: str, mark: bytes | None) -> Steps[int | None]:
    """The number of the newest entry of a kind that bears a mark; of a reference, the version that is shown."""
    found = yield from _marked(path, kind, mark)
    numbers = [number for number, hidden in found.items() if hidden != REPLACED] or list(found)
    return max(numbers, default=None)


def head() -> Steps[chain.Head]:
    """The end of the chain, which somebody may keep elsewhere."""
    [row] = yield query.audit_head()
    return chain.Head(int(row["sequence"]), bytes(row["link"]))


def by_time(low: str, high: str, *, width: int = DAY, since: int = EVER, limit: int = _END) -> Steps[list[Count]]:
    """Counts by spans of time, the newest first; spans without entries are left out.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        width: How long a span is, in microseconds; it begins at a whole multiple of that since 1970. Default: a day.
        since: Only entries from then on, in microseconds since 1970. Default: all.
        limit: Most spans.
    """
    found = yield from _counts(query.audit_count_spans(low=low, high=high, width=width, since=since, limit=limit))
    return [each._replace(name=each.name * width) for each in found]


def sizes(low: str, high: str) -> Steps[Sizes]:
    """How large the audit trail is, in the namespaces of a range of paths."""
    [row] = yield query.audit_sizes(low=low, high=high)
    [said] = yield query.audit_message_sizes(low=low, high=high)
    counted = (row["entries"], row["junk"], row["archived"], row["bytes"], said["messages"], said["bytes"])
    return Sizes(*map(int, counted))


def _marked(path: str, kind: str, mark: bytes | None) -> Steps[dict[int, int]]:
    """The entries of a kind that bear a mark: by their numbers, whether and why they are hidden."""
    found = yield query.audit_marked(path=path, kind=kind, mark=mark)
    waiting = yield query.audit_unsettled(path=path)
    mine = [row for row in waiting if row["kind"] == kind and row["mark"] is not None and bytes(row["mark"]) == mark]
    return {row["sequence"]: row["hidden"] for row in (*found, *mine)}


def _waiting(path: str, is_wanted: Callable[[Row], bool]) -> Steps[set[int]]:
    """The numbers of those entries of a namespace that are in no index yet, and wanted."""
    found = yield query.audit_unsettled(path=path)
    return {row["sequence"] for row in found if is_wanted(row)}


def _wanted(conversation: str | None, kinds: Collection[str] | None, include_junk: bool) -> Callable[[Row], bool]:  # noqa: FBT001
    groups = set(_groups(kinds, include_junk))
    return lambda row: (
        (row["kind"], row["hidden"]) in groups and (conversation is None or row["conversation"] == conversation)
    )


def _groups(kinds: Collection[str] | None, include_junk: bool) -> list[tuple[str, int]]:  # noqa: FBT001 - as given
    states = (SHOWN, JUNK) if include_junk else (SHOWN,)
    return [(kind, hidden) for kind in KINDS if kinds is None or kind in kinds for hidden in states]


def _counts(asked: Any) -> Steps[list[Count]]:
    found = yield asked
    numbers = ("entries", "junk", "first_at", "last_at")
    return [Count(row["name"], *(int(row[number]) for number in numbers)) for row in found]
