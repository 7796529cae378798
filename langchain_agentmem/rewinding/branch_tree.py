"""Named branches of memory: how they descend from each other, and how two of them differ.

A fork sees its parent up to the fork, and nothing after. Siblings never see each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from langchain_agentmem.base.clock import moment
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint, fork, names_of
from langchain_agentmem.rewinding.memory_access import MemorySession
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, FACT, RECORD, Kept, View
from langchain_agentmem.storage import Transaction, query

_KINDS = {"core": CORE, "recall": EVENT, "archival": RECORD, "facts": FACT}
_NO_BRANCH = (
    "The memory of a thread is forked by LangGraph, when a run begins at an old checkpoint. Branches that are forked "
    'by hand have a name: memory.layers("name").'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """Something that two branches have, and not the same.

    Attributes:
        mine: What this one has.
        theirs: What the other has.
    """

    mine: str
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How one layer of two branches differs.

    Attributes:
        mine: What only this one has, by key or id.
        theirs: What only the other has.
        changed: What both have, and not the same.
    """

    mine: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, Changed] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.mine or self.theirs or self.changed)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchDiff:
    """How two branches differ.

    Attributes:
        core: In their core memories, by key.
        recall: In their events, by id.
        archival: In their records, by id.
        facts: In their facts, by id; one of which more was told on one of them has changed.
    """

    core: Difference
    recall: Difference
    archival: Difference
    facts: Difference = field(default_factory=Difference)

    def __bool__(self) -> bool:
        return bool(self.core or self.recall or self.archival or self.facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchTree:
    """A branch with those that were forked from it.

    Attributes:
        name: Its name.
        created_at: When it was made, in UTC; None where it is not yet.
        children: Its forks, the first one first.
    """

    name: str
    created_at: datetime | None
    children: tuple[BranchTree, ...] = ()

    def __str__(self) -> str:
        lines = []
        waiting = [(self, 0)]
        while waiting:
            branch, depth = waiting.pop()
            lines.append(f"{'  ' * depth}{branch.name}")
            waiting += [(each, depth + 1) for each in reversed(branch.children)]
        return "\n".join(lines)


def forking(ground: MemorySession, name: str) -> BranchAt:
    """Fork a branch."""
    point, now = named_branch(ground.point), ground.now()
    return ground.database.write(
        "layers.fork",
        lambda tx: fork(tx, point, name, now),
        lambda: ground.trace_inputs(into=name),
        lambda new: {"branch": new.name, "from_branch": point.name},
    )


def tracing_back(ground: MemorySession) -> list[str]:
    """The names of a branch and of those before it, the root first."""
    if not isinstance(ground.point, BranchAt):
        return [ground.point.name]

    def look(tx: Transaction, view: View) -> list[str]:
        names = names_of(tx, [branch for branch, _ in view.line])
        return names[::-1] or [ground.point.name]

    return ground.read("layers.ancestors", look)


def growing(ground: MemorySession) -> BranchTree:
    """The tree that a branch is part of, as work."""
    named_branch(ground.point)

    def look(tx: Transaction, view: View) -> BranchTree:
        if not view.line:
            return BranchTree(name=ground.point.name, created_at=None)
        found = query.branch_family(tx, branch=view.line[-1][0])
        children: dict[int, list[BranchTree]] = {}
        for row in reversed(found):  # a fork has a greater number than what it was forked from
            below = tuple(reversed(children.pop(row["id"], [])))
            tree = BranchTree(name=row["name"], created_at=moment(row["created_at"]), children=below)
            children.setdefault(row["parent_id"], []).append(tree)
        [root] = children.popitem()[1]
        return root

    return ground.read("layers.tree", look)


def comparing(ground: MemorySession, other: Standpoint) -> BranchDiff:
    """How two memories differ, as work."""

    def look(tx: Transaction, view: View) -> BranchDiff:
        theirs = other.view(tx, view.at)
        found = {}
        for layer, kind in _KINDS.items():
            keys = memory_rows.keys_apart(tx, view, theirs, kind)
            found[layer] = difference(*(by_key(tx, each, kind, keys) for each in (view, theirs)))
        return BranchDiff(**found)

    return ground.read("layers.diff", look, from_branch=other.name, outputs=_diff_shown)


def _diff_shown(diff: BranchDiff) -> dict[str, Any]:
    return {
        name: {side: len(getattr(each, side)) for side in ("mine", "theirs", "changed")}
        for name in _KINDS
        if (each := getattr(diff, name))
    } or {"differences": 0}


def named_branch(point: Standpoint) -> BranchAt:
    """The branch that a standpoint is.

    Raises:
        InvalidInput: It is a thread.
    """
    if not isinstance(point, BranchAt):
        raise InvalidInput(_NO_BRANCH)
    return point


def difference(mine: Mapping[str, Kept], theirs: Mapping[str, Kept]) -> Difference:
    """How two states of a layer differ."""
    return Difference(
        mine={key: each.text for key, each in mine.items() if key not in theirs},
        theirs={key: each.text for key, each in theirs.items() if key not in mine},
        changed={
            key: Changed(mine=each.text, theirs=theirs[key].text)
            for key, each in mine.items()
            if key in theirs and _content(each) != _content(theirs[key])
        },
    )


_content = attrgetter("body", "label", "importance", "expires_at", "extra")


def by_key(tx: Transaction, view: View, kind: str, keys: Sequence[str] | None = None) -> dict[str, Kept]:
    """What a view shows of a kind, or of some keys of it, by key or id."""
    if keys is not None:
        return memory_rows.named(tx, view, kind, keys) if keys else {}
    return {each.key: each for each in memory_rows.current(tx, view, kind)}
