"""The search of a layer: that of `memory.search`, within what a memory shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import families
from langchain_agentmem.rewinding.memory_access import Footing, looking
from langchain_agentmem.rewinding.memory_rows import Kept, View
from langchain_agentmem.rewinding.outlook import Outlook
from langchain_agentmem.search.finding import Search
from langchain_agentmem.search.memory_search import Recollection, Walls, Why, inquiry
from langchain_agentmem.storage import Steps

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


def found(
    ground: Footing,
    kinds: Sequence[str],
    query: str,
    limit: int,
    wanted: Callable[[Kept], bool] = lambda _: True,
) -> Work[list[FoundHere]]:
    """Find what a memory shows; the caller makes it the step of a trace.

    Args:
        ground: The memory.
        kinds: What is looked for; of two kinds no two have the same key.
        query: Any text.
        limit: Most hits.
        wanted: Which of them count; the others do not take their places. Default: all.

    Returns:
        The best first.
    """
    if not limit:
        return []
    names: tuple[str, ...] = yield from looking(
        ground, f"{kinds[0]}.family", lambda view: families(ground.point, view), shown=False
    )
    walls = Walls(ground.point.path, ground.point.path + "\x1f", kinds=tuple(kinds), conversations=names)
    asked = inquiry(query, ground.now())
    many = limit
    while True:
        given: list[Recollection] = yield Search(
            asked, walls, many, outlook=Outlook(ground.point, alone=True), name=f"{kinds[0]}.search", shown=False
        )
        there: dict[str, Kept] = yield from looking(
            ground, f"{kinds[0]}.read", partial(_named, kinds, given), shown=False
        )
        hits = [
            FoundHere(there[each.id], each.score, each.why)
            for each in given
            if each.id in there and wanted(there[each.id])
        ]
        if len(hits) >= limit or len(given) < many:
            return hits[:limit]
        many *= MORE


def _named(kinds: Sequence[str], given: Sequence[Recollection], view: View) -> Steps[dict[str, Kept]]:
    there: dict[str, Kept] = {}
    for kind in kinds:
        there |= yield from memory_rows.named(view, kind, [each.id for each in given])
    return there
