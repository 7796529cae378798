"""Trees as lines of text: the checkpoints of a thread beside each other, as git shows commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

_DEEPEST = 30
"""Levels of a tree that are still set off from each other."""


class Drawn(NamedTuple):
    """A line of a drawing.

    Attributes:
        text: The line.
        node: Which node stands on it, by its place in what was given; None for a line that only connects.
    """

    text: str
    node: int | None


def graph(nodes: Sequence[tuple[str, str | None]], *, complete: bool) -> Iterator[Drawn]:
    """Draw nodes with their parents, a line for each, and lines where they part.

    Args:
        nodes: Their ids, with those of their parents; children stand before their parents.
        complete: Whether these are all. If not, lines go on to parents that are not among them.
    """
    known = {name for name, _ in nodes}
    lanes: list[str | None] = []  # each waits for a parent
    for place, (name, parent) in enumerate(nodes):
        mine = [lane for lane, waits_for in enumerate(lanes) if waits_for == name]
        if not mine:
            mine = [lanes.index(None) if None in lanes else len(lanes)]
            lanes[mine[0] : mine[0] + 1] = [name]
        if len(mine) > 1:
            yield Drawn(_joined(lanes, mine), None)
            for lane in mine[1:]:
                lanes[lane] = None
        marks = ["|" if waits_for is not None else " " for waits_for in lanes]
        marks[mine[0]] = "*"
        yield Drawn(" ".join(marks).rstrip(), place)
        lanes[mine[0]] = parent if parent in known or not complete else None
        while lanes and lanes[-1] is None:
            lanes.pop()


def indented(depth: int) -> str:
    """What stands before a branch that is so many forks away from its root."""
    return "" if depth == 0 else "   " * (min(depth, _DEEPEST) - 1) + "+- "


def _joined(lanes: Sequence[str | None], mine: Sequence[int]) -> str:
    """The line on which several lanes become the first of them."""
    marks = [" "] * (2 * len(lanes) - 1)
    marks[::2] = [
        "|" if waits_for is not None and lane not in mine[1:] else " " for lane, waits_for in enumerate(lanes)
    ]
    for before, lane in pairwise(mine):
        for column in range(2 * before, 2 * lane - 1):
            if marks[column] == " ":
                marks[column] = "_"
        marks[2 * lane - 1] = "/"
    return "".join(marks).rstrip()
