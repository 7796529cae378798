"""Layered memory as a feature (`PART`): how search finds its events and records, and how a child branch is merged.

A merge compares three states of a value: as it was at the fork, as it is in the child, and as it is in the parent. What
only the child changed is promoted. What both changed is a conflict: it is reported, and stays as the parent has it
unless the child is preferred. What was told of a fact on either is told of it then (`facts/fact_part.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts.fact_part import PromotedFacts, promote_facts
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.layers.core_memory import CoreMemory, everything, leaving
from langchain_agentmem.layers.layer import Ground, event_of, record_of, redraft
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branch_merge import (
    Conflict,
    LayerName,
    Prefer,
    Promoted,
    Sides,
    named_branch,
    promoted,
    sides_of,
)
from langchain_agentmem.rewinding.branches import Standpoint
from langchain_agentmem.rewinding.memory_access import Change, changing
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, RECORD, Kept, View, kept_of
from langchain_agentmem.rewinding.outlook import Outlook, recollections_of, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.part import Found, Part

VALUES: Mapping[str, Callable[[Kept], Any]] = {EVENT: event_of, RECORD: record_of}


def recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Events or records that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    seen = {number: there[number] for sight in sights for number in sight.numbers}
    values = {
        number: (memory_rows.text_of(bytes(row["body"])), VALUES[row["kind"]](kept_of(row)))
        for number, row in seen.items()
    }
    return recollections_of(hits, there, values)


PART = Part(
    found={kind: (Found(stored_as=kind, texts=row_texts, recollections=recollections),) for kind in (EVENT, RECORD)}
)


LAYERS: Mapping[str, LayerName] = {CORE: "core", EVENT: "recall", RECORD: "archival"}
"""The layers, by what they are kept as."""


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
        facts: The ids of the facts that were added, or of which more is told now.
        texts: The ids of the messages beside the facts that were added or changed. Those that wait to have facts
            extracted wait here too.
        rules: What is agreed on names and predicates now as the child has it, by keys such as "alias:bob".
    """

    core: tuple[str, ...] = ()
    recall: tuple[str, ...] = ()
    archival: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    evicted: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


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
    chosen: Any = prefer if isinstance(prefer, str) else None
    if chosen not in ("parent", "child"):
        raise InvalidInput(f'prefer must be "parent" or "child", not {safe_repr(prefer)}.')
    named_branch(ground.point)
    named_branch(child)

    def make(change: Change) -> Steps[MergeReport]:
        theirs = yield from child.view(change.now)
        base = _at_fork(change.view, theirs)
        if base is None:
            raise InvalidInput(
                f"{safe_repr(child.name)} was not forked from {safe_repr(ground.point.name)}; only a fork can "
                "be merged."
            )
        facts = PromotedFacts([], [], [], [], [])
        if keys is None:
            facts = yield from promote_facts(change, base, theirs, chosen, ground.database.new_id)
        return (yield from _merge(core, change, base, theirs, keys, chosen, facts))

    told = {"from_branch": child.name, "prefer": prefer, "keys": None if keys is None else list(keys)}
    return changing(ground, "layers.merge", make, outputs=_report_shown, **told)


def _merge(
    core: CoreMemory,
    change: Change,
    base: View,
    theirs: View,
    keys: Collection[str] | None,
    prefer: Prefer,
    facts: PromotedFacts,
) -> Steps[MergeReport]:
    found: dict[str, Promoted] = {}
    for kind, layer in LAYERS.items():
        sides = yield from sides_of(change, base, theirs, kind)
        if keys is not None:
            wanted = keys if kind == CORE else ()
            sides = Sides(*({key: each for key, each in side.items() if key in wanted} for side in sides))
        found[kind] = promoted(layer, *sides, prefer)
    for kind, each in found.items():
        for key in each.gone:
            change.remove(kind, key)
        change.drafts += map(redraft, each.new)
    evicted = _out_of_budget(core, change, (yield from everything(change.view)), found[CORE])
    return MergeReport(
        core=tuple(each.key for each in found[CORE].new if each.key not in evicted),
        recall=tuple(each.key for each in found[EVENT].new),
        archival=tuple(each.key for each in found[RECORD].new),
        removed=(*(key for each in found.values() for key in each.gone), *facts.removed),
        conflicts=(*(conflict for each in found.values() for conflict in each.conflicts), *facts.conflicts),
        evicted=tuple(evicted),
        facts=tuple(facts.facts),
        texts=tuple(facts.texts),
        rules=tuple(facts.rules),
    )


def _report_shown(report: MergeReport) -> dict[str, Any]:
    """What a trace shows of a merge: what there was to do."""
    names = {"recall": "event_ids", "archival": "record_ids", "facts": "fact_ids", "texts": "message_ids"}
    told = {names.get(each.name, each.name): getattr(report, each.name) for each in fields(report)}
    told["conflicts"] = [{"layer": each.layer, "key": each.key} for each in report.conflicts]
    return {name: value for name, value in told.items() if value} or {"promoted": 0}


def _out_of_budget(core: CoreMemory, change: Change, there: Iterable[Kept], found: Promoted) -> list[str]:
    """Move to archival memory what has no room once the child's values are there, which may be one of them."""
    after = {each.key: each for each in there if each.key not in found.gone}
    after.update({each.key: each for each in found.new})
    gone = leaving(after.values(), core.settings) if found.new else []
    core._evict(change, gone)
    return [each.key for each in gone]


def _at_fork(parent: View, child: View) -> View | None:
    """What the parent showed where the child's line left it; None where it never did."""
    if not parent.line:
        return None
    branches = [branch for branch, _ in child.line]
    at = branches.index(parent.line[0][0]) if parent.line[0][0] in branches[1:] else 0
    return View(child.line[at:], (), child.at) if at else None
