"""Memory rows of whole namespaces: erased, whatever state they are in, and exported as records for another database.

Branches and versions have numbers in an export: those that they had where they came from. Parents come before their
branches, and versions in the order in which they were written, with the copies of one beside each other; so whoever
reads an export needs no look ahead. Groups keep their numbers, which are random.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import KIND
from langchain_agentmem.rewinding.memory_rows import FOREVER, bounds_of, groups_of, lost_groups
from langchain_agentmem.rewinding.sealing import drop_group
from langchain_agentmem.rewinding.thread_memory import BATCH
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.part import Record, WriteRecord
from langchain_agentmem.storage.steps import Row


class Total(NamedTuple):
    """How many rows there are, and the last of them."""

    rows: int
    last: int


def erase(low: str, high: str) -> Steps[int]:
    """Delete the branches of some namespaces with all that lies on them, after their threads are gone.

    Groups that belong to nobody, which only an accident leaves, go with any erasure.

    Args:
        low: The first namespace path.
        high: Path after the last.

    Returns:
        How many named branches there were.
    """
    branches = yield query.remembering_branches(low=low, high=high)
    ids = json.dumps([row["id"] for row in branches])
    yield query.unhook_places(ids=ids)
    yield query.unhook_bases(ids=ids)
    yield query.unhook_branches(ids=ids)
    for row in branches:
        while page := (yield query.memory_on(branch=row["id"], limit=BATCH)):
            yield from memory_rows.discard(page)
        yield query.delete_branch(branch=row["id"])
    for group in (yield from lost_groups()):
        yield from drop_group(group)
    for path in sorted({row["path"] for row in branches}):
        yield from memory_rows.close(path)
    return sum(row["kind"] == KIND for row in branches)


def total() -> Steps[Total]:
    """How much is remembered."""
    [row] = yield query.memory_total(last=None)
    return Total(row["found"], row["last"])


def fewer_than(before: Total) -> Steps[int]:
    """How many of the rows that there were are there no more; what others write meanwhile does not count."""
    [row] = yield query.memory_total(last=before.last)
    return max(0, before.rows - int(row["found"]))


PAGE = 200
THREAD, BRANCHES, MEMORIES = "thread_memory", "branches", "memories"
HOLDS: Mapping[str, set[str]] = {
    THREAD: {"place", "finished", "group"},
    BRANCHES: {"branch"},
    MEMORIES: {"memory"},
}
"""The records of an export that hold others, and which."""


class Moved(NamedTuple):
    """How much was written: named branches, and versions of what is remembered."""

    branches: int
    memories: int


def dump(low: str, high: str, tell: WriteRecord) -> Steps[Moved]:
    """Tell all that is remembered, a page at a time.

    Args:
        low: The first path of the namespaces whose threads there are.
        high: The path behind the last.
        tell: Takes each record.

    Raises:
        DatabaseUnreadable: Something is damaged.
    """
    waiting = {row["group_id"] for row in (yield query.unplaced_groups())}
    needed: set[int] = set()
    for row in (yield query.threads_within(low=low, high=high, name=None)):
        head = {"record": THREAD, "namespace": namespace_of(row["path"]), "id": row["name"]}
        needed |= waiting & (yield from _dump_thread(row["id"], head, tell))
    branches = yield from _dump_branches(tell, waiting, needed)
    memories = yield from _dump_memories(tell, sorted(needed))
    return Moved(branches, memories)


def _dump_thread(thread: int, head: Record, tell: WriteRecord) -> Steps[set[int]]:
    """Tell where the checkpoints of a thread stand, and which tasks finished. Gives the groups of those."""
    mentioned: set[int] = set()
    ns, checkpoint = "", ""
    while page := (yield query.places_after(thread=thread, ns=ns, checkpoint=checkpoint, limit=PAGE)):
        ns, checkpoint = page[-1]["ns"], page[-1]["checkpoint"]
        _tell_page(tell, head, (
            {"record": "place", "ns": row["ns"], "checkpoint": row["checkpoint"], "branch": row["branch_id"],
             "position": row["position"]}
            for row in page
        ))  # fmt: skip
    task = ""
    while page := (yield query.thread_finished_after(thread=thread, task=task, limit=PAGE)):
        task = page[-1]["task"]
        told = []
        for row in page:
            if (groups := groups_of(row["groups"])) is None:
                raise _damaged(f"what the task {safe_repr(row['task'])} had written")
            mentioned |= set(groups)
            told.append({"record": "finished", **_fields(row), "groups": groups})
        _tell_page(tell, head, told)
    after = -1
    while page := (yield query.thread_groups_after(thread=thread, after=after, limit=PAGE)):
        after = page[-1]["id"]
        _tell_page(tell, head, ({"record": "group", **_fields(row)} for row in page))
    return mentioned


def _dump_branches(tell: WriteRecord, waiting: set[int], needed: set[int]) -> Steps[int]:
    """Tell all branches, and note which groups those of subgraphs need. Gives the number of named ones."""
    named, after = 0, 0
    while page := (yield query.branches_after(after=after, limit=PAGE)):
        after = page[-1]["id"]
        seals: dict[int, list[tuple[int, int, str | None]]] = {row["id"]: [] for row in page}
        for row in (yield query.seals_on(ids=json.dumps(list(seals)))):
            seals[row["branch_id"]].append((row["group_id"], row["position"], row["thread"]))
        told = []
        for row in page:
            base = None
            if row["groups"] is not None:
                if (bounds := bounds_of(row["groups"])) is None:
                    raise _damaged(f"what branch {row['id']} stands on")
                needed |= waiting & set(bounds)
                base = {
                    "branch": row["base_id"],
                    "position": row["base_position"],
                    "checkpoint": row["checkpoint"],
                    "groups": [(group, None if last == FOREVER else last) for group, last in bounds.items()],
                }
            told.append(
                {
                    "record": "branch",
                    "number": row["id"],
                    "kind": row["kind"],
                    "namespace": namespace_of(row["path"]),
                    "name": row["name"],
                    "thread": row["thread"],
                    "parent": row["parent_id"],
                    "parent_position": row["parent_position"],
                    "head": row["head"],
                    "created_at": row["created_at"],
                    "base": base,
                    "seals": seals[row["id"]],
                }
            )
            named += row["kind"] == KIND
        _tell_page(tell, {"record": BRANCHES}, told)
    return named


def _dump_memories(tell: WriteRecord, groups: list[int]) -> Steps[int]:
    """Tell every version that somebody can see, and those of some groups. Gives their number."""
    count, after = 0, 0
    while page := (yield query.memory_after(after=after, limit=PAGE, ids=json.dumps(groups))):
        after = page[-1]["number"]
        told = [_told(row) for row in page if row["id"] is not None]
        _tell_page(tell, {"record": MEMORIES}, told)
        count += len(told)
    return count


def _told(row: Row) -> dict[str, Any]:
    body = None if row["body"] is None else bytes(row["body"])
    whole = bool(row["deleted"]) if body is None else queries.digest(body) == bytes(row["hash"])
    try:
        extra = None if row["extra"] is None else json.loads(row["extra"])
    except (ValueError, RecursionError) as error:
        raise _damaged(f"memory {row['id']}") from error
    if not whole:
        raise _damaged(f"memory {row['id']}")
    return {
        "record": "memory",
        "number": row["number"],
        "branch": row["branch_id"],
        "position": row["position"],
        "until": None if row["until"] == FOREVER else row["until"],
        "group": row["group_id"],
        "kind": row["kind"],
        "key": row["key"],
        "label": row["label"],
        "subject": row["subject"],
        "object": row["object"],
        "body": None if body is None else b64encode(body).decode("ascii"),
        "checksum": None if body is None else zlib.crc32(body),
        "importance": row["importance"],
        "expires_at": row["expires_at"],
        "extra": extra,
        "found": None if row["series"] is None else {"namespace": namespace_of(row["path"]), "series": row["series"]},
        "created_at": row["created_at"],
        "written_at": row["written_at"],
    }


def _tell_page(tell: WriteRecord, head: Record, records: Iterable[Record]) -> None:
    first = True
    for record in records:
        if first:
            tell(head)
        first = False
        tell(record)


def _fields(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - a database row, not a dict


def _damaged(what: str) -> DatabaseUnreadable:
    return DatabaseUnreadable(f"{what[0].upper()}{what[1:]} is damaged and cannot be exported; verify() tells more.")
