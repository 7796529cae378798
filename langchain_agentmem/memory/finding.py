"""The search of a layer: that of `memory.search`, within what a memory shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from langchain_agentmem.memory.found import Outlook
from langchain_agentmem.memory.layer import Ground, looking
from langchain_agentmem.retrieval.search import Recollection, Walls, Why, inquiry
from langchain_agentmem.rewinding import rows
from langchain_agentmem.rewinding.branches import families
from langchain_agentmem.rewinding.rows import Kept, View
from langchain_agentmem.storage import Steps
from langchain_agentmem.work import Find, Work

MORE = 4
"""So many times as much is asked for where something is left out of what was found."""


class FoundHere(NamedTuple):
    """Something that a search found.

    Attributes:
        kept: What it is.
        score: How well it fits.
        why: What led to it.
    """

    kept: Kept
    score: float
    why: Why


def found(ground: Ground, kind: str, query: str, limit: int, wanted: Callable[[Kept], bool]) -> Work[list[FoundHere]]:
    """Find what a memory shows.

    Args:
        ground: The memory.
        kind: What is looked for.
        query: Any text.
        limit: Most hits.
        wanted: Which of them count; the others do not take their places.

    Returns:
        The best first.
    """
    if not limit:
        return []
    names: tuple[str, ...] = yield from looking(ground, f"{kind}.family", lambda view: families(ground.point, view))
    walls = Walls(ground.point.path, ground.point.path + "\x1f", kinds=(kind,), conversations=names)
    asked = inquiry(query, ground.now())
    many = limit
    while True:
        given: list[Recollection] = yield Find(f"{kind}.search", asked, walls, many, Outlook(ground.point, alone=True))
        there: dict[str, Kept] = yield from looking(ground, f"{kind}.read", partial(_named, kind, given))
        hits = [
            FoundHere(there[each.id], each.score, each.why)
            for each in given
            if each.id in there and wanted(there[each.id])
        ]
        if len(hits) >= limit or len(given) < many:
            return hits[:limit]
        many *= MORE


def _named(kind: str, given: list[Recollection], view: View) -> Steps[dict[str, Kept]]:
    return (yield from rows.named(view, kind, [each.id for each in given]))
