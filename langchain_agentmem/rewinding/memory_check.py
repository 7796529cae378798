"""Whether what is remembered is whole: what the database itself cannot check."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.rewinding.memory_rows import sources_of
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row

PAGE = 500
PAIR = 2


def problems() -> Steps[list[str]]:
    """What is wrong with branches, and with what lies on them.

    Returns:
        Sentences; empty when all is well.
    """
    rows = yield query.short_branches()
    found = [f"branch {row['id']} ends at {row['head']}, but {row['what']} at {row['position']}" for row in rows]
    rows = yield query.wrong_parents()
    found += [f"branch {row['id']} begins on a branch that is not older, or nowhere" for row in rows]
    rows = yield query.overlapping_memory()
    found += [f"memory {row['id']} is seen beside a newer version of it" for row in rows]
    rows = yield query.hollow_memory()
    found += [f"memory {row['id']} lacks a place or a body, or ends before it begins" for row in rows]
    rows = yield query.unsealed_memory()
    found += [f"memory {row['id']} lies where its group was not sealed" for row in rows]
    rows = yield query.unfindable_memory()
    found += [f"memory {row['id']} is not in the index" for row in rows]
    after = 0
    while page := (yield query.extras_after(after=after, limit=PAGE)):
        found += [f"what belongs to memory {row['id']} cannot be read" for row in page if not _is_object(row["extra"])]
        found += yield from _wrong_sources(after, page)
        after = page[-1]["id"]
    rows = yield query.sources_of_nothing()
    found += [f"memory {row['memory_id']} says nothing, and rests on messages" for row in rows]
    found += [f"nothing refers to group {group} of memory" for group in (yield from lost_groups(found))]
    return found


def lost_groups(found: list[str] | None = None) -> Steps[list[int]]:
    """Groups that lie nowhere, and that no task and no subgraph knows.

    Args:
        found: Gets a sentence for each list of groups that cannot be read.
    """
    unknown = {row["group_id"] for row in (yield query.unplaced_groups()) if not row["known"]}
    thread, task = 0, ""
    while page := (yield query.finished_after(thread=thread, task=task, limit=PAGE)):
        for row in page:
            if (groups := groups_of(row["groups"])) is None and found is not None:
                found.append(f"what the task {safe_repr(row['task'])} had written cannot be read")
            unknown.difference_update(groups or ())
        thread, task = page[-1]["thread_id"], page[-1]["task"]
    after = 0
    while page := (yield query.bases_after(after=after, limit=PAGE)):
        for row in page:
            if (bounds := bounds_of(row["groups"])) is None and found is not None:
                found.append(f"what branch {row['branch_id']} stands on cannot be read")
            unknown.difference_update(bounds or ())
        after = page[-1]["branch_id"]
    return sorted(unknown)


def _wrong_sources(after: int, page: Sequence[Row]) -> Steps[list[str]]:
    """Sentences about versions that would not go with the messages that they rest on, or would go with others."""
    noted: dict[int, set[str]] = {row["id"]: set() for row in page}
    for row in (yield query.sources_between(after=after, last=page[-1]["id"])):
        noted.setdefault(row["memory_id"], set()).add(row["source"])
    found = []
    for row in page:
        extra = _read(row["extra"])
        try:
            told = sources_of(extra if isinstance(extra, Mapping) else {})
            if row["origin"] is not None:  # a copy is found by what it is a copy of
                told = set()
        except (AttributeError, KeyError, TypeError):
            found.append(f"what memory {row['id']} rests on cannot be read")
        else:
            if told != noted[row["id"]]:
                found.append(f"memory {row['id']} rests on other messages than is noted of it")
    return found


def groups_of(text: str) -> list[int] | None:
    """The groups that a task had written when it finished; None if that cannot be read."""
    groups = _read(text)
    return groups if isinstance(groups, list) and are_whole(groups) else None


def bounds_of(text: str) -> dict[int, int] | None:
    """The groups that a subgraph stands on, each with the last row that counts; None if that cannot be read."""
    pairs = _read(text)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == PAIR for pair in pairs):
        return None
    return dict(pairs) if are_whole(each for pair in pairs for each in pair) else None


def are_whole(numbers: Iterable[Any]) -> bool:
    """Whether these are numbers that a database can hold."""
    return all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers)


def _is_object(text: str) -> bool:
    return isinstance(_read(text), Mapping)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
