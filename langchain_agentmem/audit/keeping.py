"""Old entries of the audit trail are compressed, and what must go is erased."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_rows, audit_store, model_messages
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.queries import Query

PAGE = 500


class Archived(NamedTuple):
    """What was done with one page of entries.

    Attributes:
        entries: How many entries were archived, or brought back.
        saved: How many bytes that saved; less than nothing where they were brought back.
        after: Where the next page begins, behind this number; None after the last page.
    """

    entries: int
    saved: int
    after: int | None


def archive(low: str, high: str, before: int, *, after: int = 0, limit: int = PAGE) -> Steps[Archived]:
    """Compress a page of old entries where they are. They are read and found as before.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        before: Entries made before then, in microseconds since 1970.
        after: The number behind which to begin.
        limit: Most entries of a page.
    """
    return (yield from _rewritten(low, high, before, after, limit, archived=0, change=audit_rows.compressed))


def unarchive(low: str, high: str, before: int = 2**62, *, after: int = 0, limit: int = PAGE) -> Steps[Archived]:
    """Bring a page of archived entries back; arguments as for `archive`."""
    return (yield from _rewritten(low, high, before, after, limit, archived=1, change=audit_rows.plain_body))


def erase(low: str, high: str, name: str | None = None) -> Steps[int]:
    """Erase entries; of each the chain keeps a stub of which nothing can be known.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        name: Only those of the conversation or thread of this name. Default: all.

    Returns:
        How many entries were erased.
    """
    yield from audit_store.settle()
    if name is None:
        return (yield from _erased(query.audit_in_range, {"low": low, "high": high}))
    where = {"low": low, "high": high, "name": name}
    said = yield from _erased(query.audit_in_conversation, where)
    # Digests hold what they are of, so they go with it, and can be made again of what is left.
    said += yield from _erased(query.audit_digests_of_thread, where)
    said += yield from _erased(query.audit_in_thread, where)
    return said and said + (yield from _erased(query.audit_digests_of_spans, {"low": low, "high": high}))


def _erased(look: Query, where: dict[str, Any]) -> Steps[int]:
    erased = 0
    shelves: set[int] = set()
    series: set[search_index.Series] = set()
    paths: set[str] = set()
    while found := (yield look(**where, limit=PAGE)):
        yield from audit_store.taken_out(found)
        yield query.audit_erase.many([{"sequence": row["sequence"]} for row in found])
        erased += len(found)
        shelves |= {row["shelf_id"] for row in found if row["shelf_id"] is not None}
        series |= {audit_store.series_of(row) for row in found}
        paths |= {row["path"] for row in found}
    for number in sorted(shelves):
        yield from model_messages.free(number)
    for each in sorted(series):
        yield from search_index.close(*each)
    for path in sorted(paths):
        yield query.audit_close_namespace(path=path)
        yield query.delete_empty_namespaces(path=path)
    return erased


def _rewritten(
    low: str, high: str, before: int, after: int, limit: int, *, archived: int, change: Callable[[Any], bytes]
) -> Steps[Archived]:
    yield query.audit_lock()
    found = yield query.audit_to_archive(low=low, high=high, before=before, archived=archived, after=after, limit=limit)
    changed: list[dict[str, Any]] = []
    saved = 0
    for row in found:
        try:
            body = change(bytes(row["body"]))
        except ValueError:
            continue  # it is damaged, and stays as it is
        saved += len(row["body"]) - len(body)
        changed.append({"sequence": row["sequence"], "body": body, "archived": 1 - archived})
    if changed:
        yield query.audit_set_body.many(changed)
    return Archived(len(changed), saved, found[-1]["sequence"] if len(found) == limit else None)
