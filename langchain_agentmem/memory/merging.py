"""A child's memory is merged into its parent's: what it learned is promoted, and nobody's work is overwritten unseen.

Three states of a thing are compared: as it was at the fork, as it is in the child, and as it is in the parent. What
only the child changed is promoted. What both changed is a conflict: it is reported, and stays as the parent has it
unless the child is preferred.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.memory.branching import by_key, named_branch, same
from langchain_agentmem.memory.core import CoreMemory, leaving
from langchain_agentmem.memory.layer import Change, Ground, changing
from langchain_agentmem.memory.values import CORE, EVENT, RECORD
from langchain_agentmem.rewinding.branches import Standpoint
from langchain_agentmem.rewinding.rows import Draft, Kept, View
from langchain_agentmem.storage import Steps
from langchain_agentmem.work import Work

Prefer = Literal["parent", "child"]
LayerName = Literal["core", "recall", "archival"]
LAYERS: Mapping[str, LayerName] = {CORE: "core", EVENT: "recall", RECORD: "archival"}
"""The layers, by what they are kept as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Something that parent and child both changed since the fork.

    Attributes:
        layer: "core" or "archival"; events do not change.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeReport:
    """What a merge did.

    Attributes:
        core: The keys that have the child's value now.
        recall: The ids of the events that were added.
        archival: The ids of the records that were added or changed.
        removed: Keys and ids of what the child had deleted, or moved to a record, and is gone here too now.
        conflicts: What both had changed. It has the child's state where that was preferred, else the parent's.
        evicted: The keys that left core memory to make room.
    """

    core: tuple[str, ...] = ()
    recall: tuple[str, ...] = ()
    archival: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    evicted: tuple[str, ...] = ()


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


def merging(
    ground: Ground, core: CoreMemory, child: Standpoint, keys: Collection[str] | None, prefer: Any
) -> Work[MergeReport]:
    """Promote what a child learned, as work.

    Args:
        ground: The parent.
        core: Its core memory.
        child: The child.
        keys: Only these keys of core memory; None for everything.
        prefer: Whose state counts where both changed it.

    Raises:
        InvalidInput: The one is no child of the other, or an argument is wrong.
    """
    if prefer not in ("parent", "child"):
        raise InvalidInput(f'prefer must be "parent" or "child", not {prefer!r:.100}.')
    named_branch(ground.point)
    named_branch(child)

    def make(change: Change) -> Steps[MergeReport]:
        theirs = yield from child.view(change.now)
        base = _at_fork(change.view, theirs)
        if base is None:
            raise InvalidInput(
                f"{child.name!r:.100} was not forked from {ground.point.name!r:.100}; only a fork can be merged."
            )
        return (yield from _merge(core, change, base, theirs, keys, prefer))

    return (yield from changing(ground, "layers.merge", make, child=child.name))


def promoted(
    layer: LayerName,
    base: Mapping[str, Kept],
    parent: Mapping[str, Kept],
    child: Mapping[str, Kept],
    prefer: Prefer,
) -> Promoted:
    """What of a layer goes from a child to its parent.

    Args:
        layer: Which layer.
        base: What was there at the fork.
        parent: What the parent has.
        child: What the child has.
        prefer: Whose state counts where both changed it.
    """
    found = Promoted([], [], [])
    for key in dict.fromkeys([*base, *child]):
        was, is_there, theirs = base.get(key), parent.get(key), child.get(key)
        if same(was, theirs) or same(is_there, theirs):
            continue
        if not same(was, is_there):
            found.conflicts.append(
                Conflict(layer=layer, key=key, base=_text(was), parent=_text(is_there), child=_text(theirs))
            )
            if prefer == "parent":
                continue
        if theirs is None:
            found.gone.append(key)
        else:
            found.new.append(theirs)
    return found


def _merge(
    core: CoreMemory, change: Change, base: View, theirs: View, keys: Collection[str] | None, prefer: Prefer
) -> Steps[MergeReport]:
    found: dict[str, Promoted] = {}
    parent: dict[str, dict[str, Kept]] = {}
    for kind in LAYERS:
        parent[kind] = yield from by_key(change.view, kind)
        was, child = (yield from by_key(base, kind)), (yield from by_key(theirs, kind))
        if keys is not None:
            wanted = keys if kind == CORE else ()
            was, child = ({key: each for key, each in side.items() if key in wanted} for side in (was, child))
        found[kind] = promoted(LAYERS[kind], was, parent[kind], child, prefer)
    for kind, each in found.items():
        for key in each.gone:
            change.remove(kind, key)
        change.drafts += map(_draft, each.new)
    evicted = _out_of_budget(core, change, parent[CORE].values(), found[CORE])
    return MergeReport(
        core=tuple(each.key for each in found[CORE].new if each.key not in evicted),
        recall=tuple(each.key for each in found[EVENT].new),
        archival=tuple(each.key for each in found[RECORD].new),
        removed=tuple(key for each in found.values() for key in each.gone),
        conflicts=tuple(conflict for each in found.values() for conflict in each.conflicts),
        evicted=tuple(evicted),
    )


def _out_of_budget(core: CoreMemory, change: Change, there: Iterable[Kept], found: Promoted) -> list[str]:
    """Move to archival memory what has no room once the child's values are there, which may be one of them."""
    after = {each.key: each for each in there if each.key not in found.gone}
    after.update({each.key: each for each in found.new})
    gone = leaving(after.values(), core.settings) if found.new else []
    core.evict(change, gone)
    return [each.key for each in gone]


def _at_fork(parent: View, child: View) -> View | None:
    """What the parent showed where the child's line left it; None where it never did."""
    if not parent.line:
        return None
    branches = [branch for branch, _ in child.line]
    at = branches.index(parent.line[0][0]) if parent.line[0][0] in branches[1:] else 0
    return View(child.line[at:], (), child.at) if at else None


def _draft(kept: Kept) -> Draft:
    return Draft(
        kept.kind,
        kept.key,
        kept.body,
        kept.created_at,
        label=kept.label,
        importance=kept.importance,
        expires_at=kept.expires_at,
        extra=kept.extra or None,
        findable=kept.kind != CORE,
    )


def _text(kept: Kept | None) -> str | None:
    return None if kept is None else kept.text
