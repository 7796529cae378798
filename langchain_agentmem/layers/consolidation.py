"""Consolidation: when there are many events, the old ones become records of archival memory, one for each kind.

Nothing is lost. A record that is short enough says all that the events said. Else it is a summary, by a model or
without one. In both cases it keeps the events with their ids and times beside it, and is found by their words. Events
that a branch inherited are hidden on that branch alone: who else sees them, sees them still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.language_models.background_work import Ahead
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.layers.archival_memory import record
from langchain_agentmem.layers.layer import Ground
from langchain_agentmem.layers.layers_config import LayersConfig
from langchain_agentmem.layers.truncation import truncated
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt
from langchain_agentmem.rewinding.memory_access import Change, as_step, changing, looking
from langchain_agentmem.rewinding.memory_rows import EVENT, Kept, View
from langchain_agentmem.storage import Steps, query

CONSOLIDATED = "RECALL_CONSOLIDATED"
"""The tag of a record that stands for events."""
AUTOMATIC = "AUTO_CONSOLIDATE"
"""The tag of one that was made without being asked for."""
MOST_EVENTS = 200
"""So many events one record stands for at most."""
MOST_CHARS = 100_000
"""So many characters they have in all at most, unless one alone has more."""
LATER = Ahead()
"""Consolidates in the background."""
LANE = "layers"
_LINE = 200
_LEAST_LINE = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationReport:
    """What a consolidation did.

    Attributes:
        level: The pressure that it answered to; None where somebody just asked for a summary of old events.
        events: How many events became part of records.
        records: The ids of these records.
        evicted: The keys that left core memory.
    """

    level: str | None = None
    events: int = 0
    records: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


class Bundle(NamedTuple):
    """Events of one kind that become one record.

    Attributes:
        kind: Their kind.
        events: The events, oldest first; at least one.
    """

    kind: str
    events: tuple[Kept, ...]

    @property
    def text(self) -> str:
        """All that they say, a line each."""
        return "\n".join([self.heading, *(f"- {_time(each)} {each.text}" for each in self.events)])

    @property
    def heading(self) -> str:
        """What they are."""
        first, last = min(map(_time, self.events)), max(map(_time, self.events))
        if len(self.events) == 1:
            return f"1 event of kind {self.kind}, {first}:"
        return f"{len(self.events)} events of kind {self.kind}, {first} to {last}:"


def consolidating(
    ground: Ground,
    *,
    keep: int,
    kind: str | None = None,
    automatic: bool = False,
    name: str = "recall.consolidate",
) -> Work[ConsolidationReport]:
    """Consolidate old events.

    Args:
        ground: The memory.
        keep: How many of the newest stay.
        kind: Only events of this kind. Default: all.
        automatic: Whether nobody asked for it. Default: False.
        name: What the step is called in a trace.
    """
    return (
        yield from as_step(
            ground,
            name,
            _consolidating(ground, keep, kind, automatic=automatic),
            keep=keep,
            event_type=kind,
            automatic=automatic,
            outputs=report_shown,
        )
    )


def _consolidating(ground: Ground, keep: int, kind: str | None, *, automatic: bool) -> Work[ConsolidationReport]:
    limit = room(ground.settings)
    if ground.compressor.model is None:
        return (
            yield from changing(
                ground,
                "recall.replace",
                lambda change: at_once(ground, change, keep, kind, automatic=automatic),
                shown=False,
            )
        )
    bundles: list[Bundle] = yield from looking(ground, "recall.old", lambda view: old(view, keep, kind), shown=False)
    texts = []
    for bundle in bundles:
        context = f"{len(bundle.events)} events of kind {bundle.kind}, oldest first"
        texts.append((yield from ground.compressor.compressing(bundle.text, limit, context)))
    if not bundles:
        return ConsolidationReport()
    return (
        yield from changing(
            ground,
            "recall.replace",
            lambda change: _replaced(ground, change, list(zip(bundles, texts, strict=True)), automatic=automatic),
            shown=False,
        )
    )


def at_once(
    ground: Ground, change: Change, keep: int, kind: str | None = None, *, automatic: bool = False
) -> Steps[ConsolidationReport]:
    """The same without a model, as part of another change."""
    bundles = yield from old(change.view, keep, kind)
    limit = room(ground.settings)
    ids = [_consolidate(ground, change, each, digest(each, limit), automatic=automatic) for each in bundles]
    return ConsolidationReport(events=sum(len(each.events) for each in bundles), records=tuple(ids))


def adding(ground: Ground, change: Change, new: int) -> Steps[bool]:
    """What follows when events are added: where they are too many then, and there is no model, old ones go at once.

    Args:
        ground: The memory.
        change: What adds them.
        new: How many are added.

    Returns:
        Whether they are too many and a model is to be asked: see `asking`.
    """
    settings = ground.settings
    if not settings.auto_consolidate or not new:
        return False
    if (yield from count(change.view, EVENT)) + new <= settings.consolidates_at:
        return False
    if ground.compressor.model is None:
        yield from at_once(ground, change, max(0, settings.recall_max_events - new), automatic=True)
    return ground.compressor.model is not None


def made_of_old_events(records: Sequence[str]) -> dict[str, Any]:
    """What a trace shows of records that old events became, where that was done with something else."""
    return {"consolidated_record_ids": list(records)} if records else {}


def report_shown(report: ConsolidationReport) -> dict[str, Any]:
    """What a trace shows of a consolidation."""
    told = {"level": report.level, "events": report.events, "record_ids": report.records, "evicted": report.evicted}
    return {name: value for name, value in told.items() if value is not None}


def asking(ground: Ground) -> Work[None]:
    """Have a model consolidate old events: in the background, where settings and memory allow it."""
    make = partial(consolidating, ground, keep=ground.settings.recall_max_events, automatic=True)
    if ground.settings.consolidate_later and isinstance(ground.point, BranchAt):
        LATER.begin(ground.database, (ground.point.path, ground.point.name), LANE, make)
    else:
        yield from make()


def count(view: View, kind: str) -> Steps[int]:
    """How much of a kind a view shows."""
    [row] = yield query.count_memory(**view.parameters(), kind=kind, at=view.at)
    return int(row["found"])


def old(view: View, keep: int, kind: str | None = None) -> Steps[list[Bundle]]:
    """The old events that a view shows, as bundles: by kind, in the order in which their kinds first came.

    Args:
        view: From where.
        keep: How many of the newest are not old.
        kind: Only events of this kind. Default: all.
    """
    there = yield from memory_rows.current(view, EVENT)
    mine = [each for each in there if kind is None or each.label == kind]
    groups: dict[str, list[Kept]] = {}
    for each in mine[: max(0, len(mine) - keep)]:
        groups.setdefault(each.label or "", []).append(each)
    return [Bundle(name, tuple(part)) for name, events in groups.items() for part in _parts(events)]


def digest(bundle: Bundle, limit: int) -> str:
    """What can be said of events without a model: all of it, or a line each, or the first and the latest.

    Args:
        bundle: The events.
        limit: The most characters that the result has.
    """
    if len(text := bundle.text) <= limit:
        return text
    space = limit - len(bundle.heading)
    lines = [f"- {_time(each)} {_first_line(each.text)}" for each in bundle.events]
    longest = max(_LEAST_LINE, space // len(lines) - 1)
    lines = [truncated(each, longest) for each in lines]
    gap = "- … {} more"
    if sum(len(each) + 1 for each in lines) > space:
        fitting = max(1, (space - len(gap) - len(str(len(lines)))) // (longest + 1))
        first = (fitting + 1) // 2
        latest = fitting - first
        lines = [
            *lines[:first],
            gap.format(len(lines) - fitting),
            *lines[len(lines) - latest :],
        ]
    return truncated("\n".join([bundle.heading, *lines]), limit)


def room(settings: LayersConfig) -> int:
    """How long a record may be that stands for events."""
    return min(settings.section_budgets["archival_snippet"], settings.archival_max_chars or MOST_CHARS)


def _replaced(
    ground: Ground, change: Change, texts: Sequence[tuple[Bundle, str]], *, automatic: bool
) -> Steps[ConsolidationReport]:
    """Write what a model made of events, of those bundles that are still whole."""
    keys = [each.key for bundle, _ in texts for each in bundle.events]
    there = yield from memory_rows.named(change.view, EVENT, keys)
    whole = [
        (bundle, text)
        for bundle, text in texts
        if all(each.key in there and there[each.key].number == each.number for each in bundle.events)
    ]
    limit = room(ground.settings)
    ids = []
    for bundle, text in whole:
        no_help = text == truncated(bundle.text, limit)  # it fits as it is, or the model failed
        said = digest(bundle, limit) if no_help else text
        ids.append(_consolidate(ground, change, bundle, said, automatic=automatic))
    return ConsolidationReport(events=sum(len(bundle.events) for bundle, _ in whole), records=tuple(ids))


def _consolidate(ground: Ground, change: Change, bundle: Bundle, text: str, *, automatic: bool) -> str:
    """Put a record in the place of events."""
    key = ground.database.new_id()
    change.consolidated.append(key)
    tags = [CONSOLIDATED, f"kind:{bundle.kind}", f"event_count:{len(bundle.events)}"]
    if automatic:
        tags.insert(1, AUTOMATIC)
    change.drafts.append(
        record(
            key,
            text,
            tags,
            change.now,
            words="\n".join([text, *(each.text for each in bundle.events), *tags]),
            events=[[each.key, each.created_at, each.text] for each in bundle.events],
        )
    )
    for each in bundle.events:
        change.remove(EVENT, each.key)
    return key


def _parts(events: Sequence[Kept]) -> Iterator[list[Kept]]:
    part: list[Kept] = []
    chars = 0
    for each in events:
        if part and (len(part) >= MOST_EVENTS or chars + len(each.body) > MOST_CHARS):
            yield part
            part, chars = [], 0
        part.append(each)
        chars += len(each.body)
    yield part


def _first_line(text: str) -> str:
    return truncated(" ".join(text.split()), _LINE)


def _time(event: Kept) -> str:
    return moment(event.created_at).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
