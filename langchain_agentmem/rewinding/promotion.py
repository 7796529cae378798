"""What of one kind goes from a child to its parent: what only the child changed since the fork.

What both changed is a conflict: it is reported, and stays as the parent has it unless the child is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from langchain_agentmem.rewinding.branch_merge import same
from langchain_agentmem.rewinding.memory_rows import Kept

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
