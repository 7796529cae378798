"""What something that is remembered rests on, to any depth.

Each version names all that it rests on, and what that rested on when it was written. So it is found by one look at an
index, and it is not lost on the way: what stood between may have been changed or deleted since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from langchain_agentmem.base.encoding import as_json, read_plain
from langchain_agentmem.base.namespaces import namespace_of, range_of
from langchain_agentmem.base.origins import BROUGHT, ITEM, MESSAGE, SOURCES, THREAD, MemoryOrigin, as_plain
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import Standpoint
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, FACT, RECORD, RESTS, SAID, Kept, RowDraft, View
from langchain_agentmem.storage import Steps, query

RESTING = (CORE, EVENT, RECORD)
"""The kinds whose versions rest on something as a whole; of facts each event does."""
THREAD_ITEM = "thread_item"
"""The kind of an item of a thread."""
_SEEN = frozenset({*RESTING, FACT, ITEM})
_LISTED = ("archival", "recall")
"""The parts of what a prompt was shown for a question."""


def all_behind(view: View, path: str, origins: Iterable[MemoryOrigin]) -> Steps[tuple[MemoryOrigin, ...]]:
    """Some origins, with all that they rest on.

    Args:
        view: What is seen where something is written that rests on them.
        path: The path of its namespace.
        origins: They.
    """
    found = dict.fromkeys((yield from _looked_up(path, origins)))
    for kind in (*RESTING, FACT):
        keys = [each.name for each in found if each.kind == kind and each.name is not None]
        for kept in (yield from memory_rows.named(view, kind, keys)).values() if keys else ():
            found.update(dict.fromkeys(behind(kept)))
    items = {each.name for each in found if each.kind == ITEM and each.name is not None}
    for extra in (yield from _items(view, path, items)) if items else ():
        found.update(dict.fromkeys(memory_rows.origins_in(extra)))
    return tuple(found)


def behind_at(point: Standpoint, origins: Iterable[MemoryOrigin], now: int) -> Steps[tuple[MemoryOrigin, ...]]:
    """The same as a standpoint sees it, which is asked only where something is to be looked up.

    Args:
        point: Where.
        origins: They.
        now: When.
    """
    found = yield from _looked_up(point.path, origins)
    if {each.kind for each in found}.isdisjoint(_SEEN):
        return found
    return (yield from all_behind((yield from point.view(now)), point.path, found))


def _items(view: View, path: str, keys: Collection[str]) -> Steps[list[Mapping[str, Any]]]:
    """What items rest on that are seen from somewhere: those of a thread, and those of its namespace and below."""
    low, high = range_of(namespace_of(path))
    shared = yield query.items_of_keys(keys=as_json(sorted(keys)), low=low, high=high)
    own = yield from memory_rows.current(view, THREAD_ITEM)
    mine = [each.extra for each in own if each.extra["key"] in keys]
    return [*mine, *(memory_rows.extra_of(row) for row in shared if row["extra"] is not None)]


def behind(kept: Kept) -> list[MemoryOrigin]:
    """What something is, as an origin of others, and all that it rests on.

    A fact that several messages tell of is not named by these: it stays as long as one of them does.
    """
    found = [MemoryOrigin(kept.kind, kept.key)]
    if kept.source in SOURCES and kept.kind != FACT:
        found.append(MemoryOrigin(kept.source, kept.actor))
    if kept.kind != FACT:
        return [*found, *memory_rows.origins_in({RESTS: kept.extra.get(RESTS)})]
    said = [event for event in kept.extra["told"] if event["do"] == SAID]
    return [*found, *origins_of_event(said[0])] if len(said) == 1 else found


def moved(draft: RowDraft, *there: Kept) -> RowDraft:
    """A version that holds the words of others, and comes from where they come from.

    Args:
        draft: The version.
        there: The others.
    """
    found = [behind(each) for each in there]
    made = resting(draft, [origin for each in found if len(each) > 1 for origin in each])
    sources = {(each.source, each.actor) for each in there}
    source, actor = sources.pop() if len(sources) == 1 else (None, None)
    return made._replace(source=source, actor=actor, moved=True)


def origins_of_event(event: Mapping[str, Any]) -> list[MemoryOrigin]:
    """What an event of a fact rests on."""
    found = memory_rows.origins_in({RESTS: event.get(RESTS)})
    if event.get("id") is not None:
        found.append(MemoryOrigin(MESSAGE, event["id"], event.get("in")))
    return found


def resting(draft: RowDraft, origins: Iterable[MemoryOrigin]) -> RowDraft:
    """A version that rests on something, beside what it says itself.

    Args:
        draft: The version.
        origins: What else it rests on.
    """
    origins = tuple(origins)
    if not origins or draft.body is None or draft.kind not in RESTING:
        return draft
    extra = dict(draft.extra or {})
    there = memory_rows.origins_in({RESTS: extra.get(RESTS)})
    own = MemoryOrigin(draft.kind, draft.key)
    return draft._replace(extra={**extra, RESTS: as_plain({*there, *origins} - {own})})


def told_by(rests: Iterable[MemoryOrigin], source: str | None, actor: str | None, thread: str | None) -> dict[str, Any]:
    """What an event of a fact says that it rests on, where no message tells of it.

    Args:
        rests: What it rests on.
        source: Where it comes from.
        actor: Who that is.
        thread: The thread in which it was told.
    """
    found = [*rests]
    if source in SOURCES:
        found.append(MemoryOrigin(source, actor))
    if thread is not None:
        found.append(MemoryOrigin(THREAD, thread))
    return {RESTS: as_plain(found)} if found else {}


def _looked_up(path: str, origins: Iterable[MemoryOrigin]) -> Steps[tuple[MemoryOrigin, ...]]:
    """Some origins, with what a prompt was shown in the place of the questions for which it was."""
    found: dict[MemoryOrigin, None] = {}
    for each in origins:
        found.update(dict.fromkeys((yield from _brought(path, each)) if each.kind == BROUGHT else [each]))
    return tuple(found)


def _brought(path: str, question: MemoryOrigin) -> Steps[list[MemoryOrigin]]:
    """What a prompt was shown for a question, as its notes tell."""
    keys = as_json([question.name])
    notes = yield query.prompt_notes(path=path, name=question.thread, reader=None, keys=keys)
    items = [item for note in notes if note["part"] in _LISTED for item in read_plain(bytes(note["body"]))["items"]]
    known = {*_SEEN, MESSAGE}
    # Of a message the thread is not noted.
    return [MemoryOrigin(item[0], item[1]) for item in items if item[0] in known]
