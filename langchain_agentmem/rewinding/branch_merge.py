"""Branches of a layered memory: how they descend from each other, and what tells two of them apart.

A fork sees its parent up to the fork, and nothing after; siblings never see each other. What a child learned is
promoted by a merge.

What of one kind goes from a child to its parent: what only the child changed since the fork.

What both changed is a conflict: it is reported, and stays as the parent has it unless the child is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import In, Run, Work
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint, fork, names_of
from langchain_agentmem.rewinding.memory_access import LISTED, Change, Footing, looking, whose
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, FACT, RECORD, Kept, View
from langchain_agentmem.storage import Steps, query

_NO_BRANCH = (
    "The memory of a thread is forked by LangGraph, when a run begins at an old checkpoint. Branches that are forked "
    'and merged by hand have a name: memory.layers("name").'
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


def forking(ground: Footing, name: str) -> Work[BranchAt]:
    """Fork a branch, as work."""
    point, now = named_branch(ground.point), ground.now()
    run = Run(
        "layers.fork",
        lambda: fork(point, name, now),
        write=True,
        inputs=lambda: whose(ground, into=name),
        outputs=lambda new: {"branch": new.name, "from_branch": point.name},
    )
    made: BranchAt = yield In(ground.database, run)
    return made


def tracing_back(ground: Footing) -> Work[list[str]]:
    """The names of a branch and of those before it, the root first, as work."""
    if not isinstance(ground.point, BranchAt):
        return [ground.point.name]

    def look(view: View) -> Steps[list[str]]:
        names = yield from names_of([branch for branch, _ in view.line])
        return names[::-1] or [ground.point.name]

    return (yield from looking(ground, "layers.ancestors", look, outputs=lambda names: {"branches": names}))


def growing(ground: Footing) -> Work[BranchTree]:
    """The tree that a branch is part of, as work."""
    named_branch(ground.point)

    def look(view: View) -> Steps[BranchTree]:
        if not view.line:
            return BranchTree(name=ground.point.name, created_at=None)
        found = yield query.branch_family(branch=view.line[-1][0])
        children: dict[int, list[BranchTree]] = {}
        for row in reversed(found):  # a fork has a greater number than what it was forked from
            tree = BranchTree(
                name=row["name"],
                created_at=moment(row["created_at"]),
                children=tuple(reversed(children.pop(row["id"], []))),
            )
            children.setdefault(row["parent_id"], []).append(tree)
        [root] = children.popitem()[1]
        return root

    return (yield from looking(ground, "layers.tree", look, outputs=_tree_shown))


def comparing(ground: Footing, other: Standpoint) -> Work[BranchDiff]:
    """How two memories differ, as work."""

    def look(view: View) -> Steps[BranchDiff]:
        theirs = yield from other.view(view.at)
        found = []
        for kind in (CORE, EVENT, RECORD, FACT):
            keys = yield from memory_rows.keys_apart(view, theirs, kind)
            mine = yield from by_key(view, kind, keys)
            found.append(difference(mine, (yield from by_key(theirs, kind, keys))))
        return BranchDiff(core=found[0], recall=found[1], archival=found[2], facts=found[3])

    return (yield from looking(ground, "layers.diff", look, from_branch=other.name, outputs=_diff_shown))


def _tree_shown(tree: BranchTree) -> dict[str, Any]:
    names = [line.strip() for line in str(tree).splitlines()]
    return {"count": len(names), "branches": names[:LISTED]}


def _diff_shown(diff: BranchDiff) -> dict[str, Any]:
    return {
        name: {side: len(getattr(each, side)) for side in ("mine", "theirs", "changed")}
        for name in ("core", "recall", "archival", "facts")
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
            if key in theirs and not same(each, theirs[key])
        },
    )


def same(one: Kept | None, other: Kept | None) -> bool:
    """Whether two versions say the same, or neither is there."""
    if one is None or other is None:
        return one is other
    return (one.body, one.label, one.importance, one.expires_at, one.extra) == (
        other.body,
        other.label,
        other.importance,
        other.expires_at,
        other.extra,
    )


def by_key(view: View, kind: str, keys: Sequence[str] | None = None) -> Steps[dict[str, Kept]]:
    """What a view shows of a kind, or of some keys of it, by key or id."""
    if keys is not None:
        return (yield from memory_rows.named(view, kind, keys)) if keys else {}
    return {each.key: each for each in (yield from memory_rows.current(view, kind))}


Prefer = Literal["parent", "child"]
LayerName = Literal["core", "recall", "archival", "facts"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Something that parent and child both changed since the fork.

    Attributes:
        layer: "core" or "archival", or "facts" for a message that is kept there and for what is agreed on names and
            predicates. Events do not change, and what was told of a fact on two branches goes together.
        key: Its key or id.
        base: What it was at the fork; None where it was not there.
        parent: What it is in the parent; None where it is gone.
        child: What it is in the child; None where it is gone.
    """

    layer: LayerName
    key: str
    base: str | None
    parent: str | None
    child: str | None


class Promoted(NamedTuple):
    """What of one kind goes from a child to its parent.

    Attributes:
        new: What is written.
        gone: Keys of what is deleted.
        conflicts: What both changed.
    """

    new: list[Kept]
    gone: list[str]
    conflicts: list[Conflict]


class Sides(NamedTuple):
    """Things of one kind that a child changed, by key: at the fork, in the parent and in the child."""

    base: Mapping[str, Kept]
    parent: Mapping[str, Kept]
    child: Mapping[str, Kept]


def sides_of(change: Change, base: View, child: View, kind: str) -> Steps[Sides]:
    """What a child changed of a kind since it was forked; nothing else is read.

    Args:
        change: The transaction of the parent.
        base: What the child saw at the fork.
        child: What it sees.
        kind: The kind.
    """
    touched: dict[str, None] = {}
    for branch, up_to in child.line[: len(child.line) - len(base.line)]:
        rows = yield query.touched_keys(branch=branch, kind=kind, position=up_to)
        touched.update((row["key"], None) for row in rows)
    return Sides(
        base=(yield from memory_rows.named(base, kind, touched)),
        parent=(yield from memory_rows.named(change.view, kind, touched)),
        child=(yield from memory_rows.named(child, kind, touched)),
    )


def promoted(
    layer: LayerName,
    base: Mapping[str, Kept],
    parent: Mapping[str, Kept],
    child: Mapping[str, Kept],
    prefer: Prefer,
    say: Callable[[Kept], str] = lambda kept: kept.text,
) -> Promoted:
    """What of a layer goes from a child to its parent.

    Args:
        layer: Which layer.
        base: What was there at the fork.
        parent: What the parent has.
        child: What the child has.
        prefer: Whose state counts where both changed it.
        say: Puts something into words. Default: its text.
    """
    found = Promoted([], [], [])
    for key in dict.fromkeys([*base, *child]):
        was, is_there, theirs = base.get(key), parent.get(key), child.get(key)
        if same(was, theirs) or same(is_there, theirs):
            continue
        if not same(was, is_there):
            base_says, parent_says, child_says = (
                None if each is None else say(each) for each in (was, is_there, theirs)
            )
            found.conflicts.append(Conflict(layer=layer, key=key, base=base_says, parent=parent_says, child=child_says))
            if prefer == "parent":
                continue
        if theirs is None:
            found.gone.append(key)
        else:
            found.new.append(theirs)
    return found
