"""Recall memory: the timeline of what happened. Every event has an id, a kind and a time, and repeats are kept.

The newest events are in the prompt. When there are many more, the old ones are consolidated: they become records of
archival memory, one for each kind. Nothing is lost. A record that is short enough says all that the events said. Else
it is a summary, by a model or without one. In both cases it keeps the events with their ids and times, and is found by
their words. Events that a branch inherited are hidden on that branch alone: who else sees them, sees them still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from types import EllipsisType

from langchain_agentmem.base.argument_checks import limit_given, name_given, text_given, texts_given
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.safe_repr import counted
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Writer, compaction_key
from langchain_agentmem.layers.archival_memory import record
from langchain_agentmem.layers.compression import truncated
from langchain_agentmem.layers.layer import Event, Ground, Layer, bounded, event_of
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Change
from langchain_agentmem.rewinding.memory_rows import EVENT, Kept, RowDraft, View, body_of, text_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.tracing import outcome_with

EVICTED = "RECALL_EVICT"
"""The tag of the record of an event that was evicted."""
CONSOLIDATED = "RECALL_CONSOLIDATED"
"""The tag of a record that stands for events."""
AUTOMATIC = "AUTO_CONSOLIDATE"
"""The tag of one that was made without being asked for."""
MOST_EVENTS = 200
"""So many events one record stands for at most."""
MOST_CHARS = 100_000
"""So many characters they have in all at most, unless one alone has more."""
CONSOLIDATES_AT = 1.5
"""Old events are consolidated at more than so many times `recall_max_events`."""
LANE = "layers"
"""The lane of consolidation among what is done in the background."""
_LINE = 200
_LEAST_LINE = 40
_GAP = 20


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


def consolidate(
    ground: Ground, *, keep: int, kind: str | None = None, automatic: bool = False, name: str = "recall.consolidate"
) -> ConsolidationReport:
    """Consolidate old events: put records in their place, as far as the events are still there.

    Args:
        ground: The memory.
        keep: How many of the newest stay.
        kind: Only events of this kind. Default: all.
        automatic: Whether nobody asked for it. Default: False.
        name: What the step is called in a trace.
    """
    limit = ground.settings.section_budgets["archival_snippet"]
    with ground.step(name, keep=keep, event_type=kind, automatic=automatic) as step:
        texts: list[tuple[list[Kept], str]] = []
        for events in ground.read(None, lambda tx, view: old(tx, _own(ground, view), keep, kind)):
            whole, context = said_by(events), f"{len(events)} events of kind {events[0].label}, oldest first"
            text = ground.compressor.compress(whole, limit, context)
            no_help = text == truncated(whole, limit)  # it fits as it is, there is no model, or it failed
            texts.append((events, digest(events, limit) if no_help else text))

        def make(tx: Transaction, change: Change) -> ConsolidationReport:
            if ground.compressor.model is not None:
                change.writer = Writer("model")
            there = memory_rows.named(tx, change.view, EVENT, [each.key for events, _ in texts for each in events])
            numbers = {each.number for each in there.values()}
            whole = [each for each in texts if numbers.issuperset(event.number for event in each[0])]
            records = [_replace(ground, change, *each, automatic=automatic) for each in whole]
            return ConsolidationReport(events=sum(len(events) for events, _ in whole), records=tuple(records))

        report = ground.write(None, make) if texts else ConsolidationReport()
        step.finish(lambda: asdict(report))
    return report


def too_many(tx: Transaction, ground: Ground, change: Change, new: int) -> bool:
    """Whether there are so many events, once some more are added, that old ones are to be consolidated.

    Args:
        tx: The transaction.
        ground: The memory.
        change: What adds them.
        new: How many are added.
    """
    most = int(ground.settings.recall_max_events * CONSOLIDATES_AT)
    return new > 0 and count(tx, _own(ground, change.view), EVENT) + new > most


def make_room(ground: Ground) -> None:
    """Consolidate old events: of a branch with a model in the background, else immediately."""
    make = partial(consolidate, ground, keep=ground.settings.recall_max_events, automatic=True)
    if ground.compressor.model is not None and isinstance(ground.point, BranchAt):
        key = compaction_key((ground.point.path, ground.point.name), LANE)
        ground.database.background.begin(key, make)
    else:
        make()


def _own(ground: Ground, view: View) -> View:
    """What may be summed up: of a thread its own line, as what others remember is theirs; of a branch all it shows."""
    return view if isinstance(ground.point, BranchAt) else view._replace(scope=None)


def count(tx: Transaction, view: View, kind: str) -> int:
    """How much of a kind a view shows."""
    [row] = query.count_memory(tx, **view.parameters(), kind=kind, at=view.at)
    return int(row["found"])


def old(tx: Transaction, view: View, keep: int, kind: str | None = None) -> list[list[Kept]]:
    """The old events that a view shows: by kind, each part small enough for one record.

    Args:
        tx: The transaction.
        view: From where.
        keep: How many of the newest are not old.
        kind: Only events of this kind. Default: all.
    """
    there = memory_rows.current(tx, view, EVENT)
    mine = [each for each in there if kind is None or each.label == kind]
    kinds: dict[str | None, list[list[Kept]]] = {}
    for each in mine[: max(0, len(mine) - keep)]:
        parts = kinds.setdefault(each.label, [[]])
        chars = sum(len(event.body) for event in parts[-1])
        if parts[-1] and (len(parts[-1]) >= MOST_EVENTS or chars + len(each.body) > MOST_CHARS):
            parts.append([])
        parts[-1].append(each)
    return [events for parts in kinds.values() for events in parts]


def heading(events: Sequence[Kept]) -> str:
    """What events of one kind are."""
    times = sorted(map(_time, events))
    span = times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}"
    return f"{counted(len(times), 'events')} of kind {events[0].label}, {span}:"


def said_by(events: Sequence[Kept]) -> str:
    """All that events of one kind say, a line each."""
    return "\n".join([heading(events), *(f"- {_time(each)} {each.text}" for each in events)])


def digest(events: Sequence[Kept], limit: int) -> str:
    """What can be said of events without a model: all of it, or the beginning of each, or the first and the latest.

    Args:
        events: Events of one kind.
        limit: The most characters that the result has.
    """
    if len(text := said_by(events)) <= limit:
        return text
    head = heading(events)
    space = limit - len(head)
    most = min(_LINE, max(_LEAST_LINE, space // len(events) - 1))
    lines = [truncated(f"- {_time(each)} {' '.join(each.text.split())}", most) for each in events]
    half = max(1, (space - _GAP) // (most + 1) // 2)
    if len(lines) > 2 * half:
        lines[half:-half] = [f"- … {len(lines) - 2 * half} more"]
    return truncated("\n".join([head, *lines]), limit)


def _replace(ground: Ground, change: Change, events: Sequence[Kept], text: str, *, automatic: bool) -> str:
    """Put a record in the place of events of one kind. Return its id."""
    key = ground.database.new_id()
    marks = [AUTOMATIC] if automatic else []
    tags = [CONSOLIDATED, *marks, f"kind:{events[0].label}", f"event_count:{len(events)}"]
    words = "\n".join([text, *(each.text for each in events), *tags])
    said = [[each.key, each.created_at, each.text] for each in events]
    made = memory_rows.moved(record(key, text, tags, change.now, words=words, events=said), *events)
    source, actor = change.writer
    change.drafts.append(made if source is None else made._replace(source=source, actor=actor))
    for each in events:
        change.remove(EVENT, each.key)
    return key


def _time(event: Kept) -> str:
    return moment(event.created_at).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


_SHOWN = partial(outcome_with, kind="event_type")  # somebody made it up
"""What a trace shows of events."""


class RecallMemory(Layer):
    """The events of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    _part = "recall"

    def append(
        self,
        kind: str | None = None,
        content: str | None = None,
        at: datetime | None = None,
        *,
        event_type: str | None = None,
    ) -> str:
        """Append an event.

        Args:
            kind: What kind of thing happened.
            content: What happened.
            at: When it happened; without a time zone it is taken as UTC. Default: now.
            event_type: The same as `kind`.

        Returns:
            Its id.

        Raises:
            InvalidInput: An argument is wrong.
        """
        new = self._event_of(event_type if kind is None else kind, content, at)

        def make(tx: Transaction, change: Change) -> bool:
            change.drafts.append(new)
            return too_many(tx, self._ground, change, 1)

        with self._step("append", event_type=new.label, content=text_of(new.body or b"")) as step:
            if self._change(None, make):
                make_room(self._ground)
            step.finish(lambda: {"event_id": new.key})
        return new.key

    aappend = awaited(append, writes=True)

    def recent(self, limit: int | EllipsisType | None = ..., kind: str | None = None) -> list[Event]:
        """The newest events, in the order in which they were appended, whatever time they were said to be of.

        Args:
            limit: How many; None for all. Default: `recall_max_events` of the settings (20).
            kind: Only events of this kind. Default: all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        most = self.settings.recall_max_events if limit is ... else limit_given(limit)
        return self._listed("recent", most, None if kind is None else self._kind(kind))

    arecent = awaited(recent)

    def get(self, event_id: str) -> Event | None:
        """One event by its id, or None."""
        return self._one(EVENT, "event", name_given(event_id, "the id of an event"), event_of, outputs=_SHOWN)

    aget = awaited(get)

    def _listed(self, verb: str | None, most: int, label: str | None = None) -> list[Event]:
        """List the newest events, perhaps as a detail of another step."""
        limit = bounded(most)

        def look(tx: Transaction, view: View) -> list[Event]:
            return [event_of(each) for each in memory_rows.newest(tx, view, EVENT, limit=limit, label=label)]

        return self._look(verb, look, outputs=_SHOWN, limit=limit, event_type=label)

    def search(self, query: str, limit: int | None = 10) -> list[Event]:
        """Find events.

        Args:
            query: Any text; "*" stands for every event, the newest first.
            limit: Most events; None for all. Default: 10.

        Returns:
            The best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        most = limit_given(limit)
        return self._found(EVENT, text_given(query, "A query"), most, lambda: self._listed(None, most))

    asearch = awaited(search)

    def evict(self, ids: Sequence[str] | None = None, kind: str | None = None, oldest: int | None = None) -> int:
        """Move events to archival memory, each as a record with its text.

        Args:
            ids: These events; those that this memory does not show are left alone. Default: any.
            kind: Only events of this kind. Default: any.
            oldest: Only so many, the oldest. Default: all that are meant.

        Returns:
            How many were moved.

        Raises:
            InvalidInput: Nothing says which events, or an argument is wrong.
        """
        if ids is None and kind is None and oldest is None:
            raise InvalidInput("Say which events: give ids, a kind, or how many of the oldest.")
        wanted = None if ids is None else set(texts_given(ids, "Ids"))
        label = None if kind is None else self._kind(kind)
        most = limit_given(oldest)

        def make(tx: Transaction, change: Change) -> int:
            there = memory_rows.newest(tx, change.view, EVENT, limit=None, label=label)
            gone = [each for each in there if wanted is None or each.key in wanted][:most]
            for each in gone:
                change.remove(EVENT, each.key)
                change.drafts.append(self._archived(each, change.now))
            return len(gone)

        given = None if wanted is None else sorted(wanted)
        return self._change("evict", make, event_ids=given, event_type=label, oldest=oldest)

    aevict = awaited(evict, writes=True)

    def summarize(self, kind: str | None = None, keep: int | EllipsisType = ...) -> ConsolidationReport:
        """Consolidate old events now, however few they are: they become records of archival memory.

        Args:
            kind: Only events of this kind. Default: all.
            keep: How many of the newest stay. Default: `recall_max_events` of the settings (20).

        Returns:
            How many events, and the ids of the records.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = None if kind is None else self._kind(kind)
        staying = self.settings.recall_max_events if keep is ... else limit_given(keep)
        return consolidate(self._ground, keep=staying, kind=label, name="recall.summarize")

    asummarize = awaited(summarize, writes=True)

    def _event_of(self, kind: str | None, content: str | None, at: datetime | None = None) -> RowDraft:
        """An event to be appended, checked and without secrets.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = self._kind(kind)
        if content is None:
            raise InvalidInput('An event has a kind and a content: append("note", "Ana called."), for example.')
        text = self._ground.clean(text_given(content, "The content of an event"))
        time = self._ground.now() if at is None else time_given(at, "The time of an event")
        return RowDraft(EVENT, self._ground.database.new_id(), body_of(text), time, label=label, findable=True)

    def _kind(self, kind: str | None) -> str:
        return self._ground.clean(name_given(kind, "a kind of event"))

    def _archived(self, kept: Kept, now: int) -> RowDraft:
        key, content = self._ground.database.new_id(), f"[{kept.label}] {kept.text}"
        tags, said = [EVICTED, f"kind:{kept.label}", f"event:{kept.key}"], [[kept.key, kept.created_at, kept.text]]
        return memory_rows.moved(record(key, content, tags, now, events=said), kept)
