"""The layers of a memory: archival memory, core memory and recall memory.

Archival memory holds records that are kept for good, and found by search.

Core memory holds a few keys and values that are always in the prompt. It has a budget, counted in the characters of its
`key: value` lines. When a call exceeds it, what matters least, and of that what was written least recently, goes to
archival memory. What the call wrote stays, and so do the protected keys.

Recall memory is the timeline of what happened. Every event has an id, a kind and a time, and repeats are kept. The
newest events are in the prompt. When there are many more, the old ones are consolidated: they become records of
archival memory, one for each kind. Nothing is lost. A record that is short enough says all that the events said. Else
it is a summary, by a model or without one. In both cases it keeps the events with their ids and times, and is found by
their words. Events that a branch inherited are hidden on that branch alone: who else sees them, sees them still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from types import EllipsisType
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_agentmem.base.argument_checks import EVERYTHING, limit_given, name_given, text_given, texts_given
from langchain_agentmem.base.clock import micros, moment, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.origins import rank_of
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.base.safe_repr import counted
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import SourceNote, compaction_key
from langchain_agentmem.layers import layer
from langchain_agentmem.layers.compression import truncated
from langchain_agentmem.layers.layer import USUAL, CoreEntry, Event, Layer, LayerContext, Record
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition, PendingWrite
from langchain_agentmem.rewinding.memory_rows import (
    CORE,
    EVENT,
    RECORD,
    MemoryVersion,
    MemoryView,
    VersionDraft,
    body_of,
)
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.tracing import outcome

# -- archival memory -----------------------------------------------------------------------------------------------


class ArchivalMemory(Layer):
    """The records of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    def write(self, content: str, tags: Sequence[str] = ()) -> str:
        """Write a record. A record that says the same already gets the tags that it lacks instead.

        Args:
            content: What it says.
            tags: By which it can be told from others. Default: none.

        Returns:
            Its id.

        Raises:
            InvalidInput: An argument is wrong.
        """
        clean, marks = self._checked(content, tags)
        key = self._ground.database.new_id()

        def make(tx: Transaction, change: PendingWrite) -> str:
            return add_record(tx, change, key, clean, marks)

        shown = {"content": clean, "characters": len(clean), "tags": marks}
        return self._ground.write("archival.write", make, outputs=lambda key: {"record_id": key}, **shown)

    awrite = awaited(write, writes=True)

    def update(self, record_id: str, content: str | None = None, tags: Sequence[str] | None = None) -> bool:
        """Change a record; what is not given stays as it is.

        Args:
            record_id: Which record.
            content: What it says now. Default: the same.
            tags: Its tags now; an empty list takes them all. Default: the same.

        Returns:
            Whether there is such a record.

        Raises:
            InvalidInput: Neither is given, or one is wrong.
        """
        if content is None and tags is None:
            raise InvalidInput("Give the new content of the record, its new tags, or both.")
        clean = None if content is None else self._clean(content)
        marks = None if tags is None else self._marks(tags)
        key = name_given(record_id, "the id of a record")

        def make(tx: Transaction, change: PendingWrite) -> bool:
            there = memory_rows.named(tx, change.view, RECORD, [key])
            if key in there:
                change.drafts.append(next_version(there[key], clean, marks))
            return key in there

        return self._ground.write("archival.update", make, record_id=key, content=clean, tags=marks)

    aupdate = awaited(update, writes=True)

    def get(self, record_id: str) -> Record | None:
        """One record by its id, or None."""
        return self._one(RECORD, name_given(record_id, "the id of a record"), layer.record_of)

    aget = awaited(get)

    def delete(self, record_id: str) -> bool:
        """Delete a record. Returns whether it was there."""
        key = name_given(record_id, "the id of a record")
        return self._deleted(RECORD, key, record_id=key)

    adelete = awaited(delete, writes=True)

    def search(self, query: str, limit: int | None = None, tags: Sequence[str] | None = None) -> list[Record]:
        """Find records.

        Args:
            query: Any text; "*" stands for every record, the newest first.
            limit: Most records. Default: `retrieval_k` of the settings (8); with "*", all.
            tags: Only records that have all of these tags. Default: any.

        Returns:
            The best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        everything = text_given(query, "A query").strip() == EVERYTHING
        most = self.settings.retrieval_k if limit is None and not everything else limit_given(limit)
        marks = [] if tags is None else self._marks(tags)

        return self._found(RECORD, query, most, marks)

    asearch = awaited(search)

    def all(self, tags: Sequence[str] | None = None, limit: int | None = None) -> list[Record]:
        """The records, in the order in which they were last written.

        Args:
            tags: Only records that have all of these tags. Default: any.
            limit: Most records, the newest ones. Default: all.
        """
        return self._newest("archival.all", RECORD, limit_given(limit), [] if tags is None else self._marks(tags))

    aall = awaited(all)  # noqa: A003 - the method

    def _checked(self, content: Any, tags: Any = ()) -> tuple[str, list[str]]:
        """Content and tags, checked and without secrets.

        Raises:
            InvalidInput: One is wrong.
        """
        return self._clean(content), self._marks(tags)

    def _clean(self, content: Any) -> str:
        return self._ground.clean(text_given(content, "The content of a record"))

    def _marks(self, tags: Any) -> list[str]:
        """Tags that a user gave, each once."""
        clean, given = self._ground.clean, texts_given(tags, "Tags")
        self._ground.database.limits.check("tags", len(given), "The list of tags")
        return list(dict.fromkeys(clean(name_given(each, "a tag")) for each in given))


def record(key: str, content: str, tags: Sequence[str], now: int, **details: Any) -> VersionDraft:
    """A record to be written.

    Args:
        key: Its id.
        content: What it says.
        tags: Its tags.
        now: When it is written.
        details: What else belongs to it, as JSON knows it.
    """
    extra = {"tags": list(tags), **details}
    return VersionDraft(RECORD, key, body_of(content), now, extra=extra, findable=True)


def add_record(tx: Transaction, change: PendingWrite, key: str, content: str, tags: Sequence[str]) -> str:
    """Add a record to a change, unless what is seen there has one that says the same: that is told again.

    Nothing is written where that adds nothing. What another thread wrote is written on this one's own line as well, so
    that it stays when the other is rewound; a more trusted source replaces the record's.

    Args:
        tx: The transaction.
        change: The change.
        key: The id of a new record.
        content: What it says.
        tags: Its tags.

    Returns:
        The id of the record.
    """
    new = change.signed(record(key, content, tags, change.now))
    found = query.keys_saying(tx, **change.view.parameters(), kind=RECORD, hash=queries.digest(body_of(content)))
    there = memory_rows.named(tx, change.view, RECORD, [row["key"] for row in found]) if found else {}
    same = [kept for kept in there.values() if kept.text == content and kept.label is None]
    if not same:
        change.drafts.append(new)
        return key
    old = min(same, key=lambda kept: rank_of(kept.source))
    marks = list(dict.fromkeys([*old.extra.get("tags", ()), *tags]))
    draft = next_version(old, None, marks)._replace(expires_at=None)
    if layer.has_tags(old, tags) and rank_of(new.source) >= rank_of(old.source):
        if old.thread == change.thread and old.expires_at is None:
            return old.key
        draft = draft._replace(moved=True, source=old.source, actor=old.actor)
    change.drafts.append(draft)
    return old.key


_KEPT = ("kind", "key", "body", "created_at", "label", "importance", "expires_at")


def redraft(kept: MemoryVersion, **changes: Any) -> VersionDraft:
    """The next version of something, the same but for some changes."""
    columns = {name: getattr(kept, name) for name in _KEPT}
    draft = VersionDraft(**columns, extra=kept.extra or None, findable=kept.kind != CORE)
    return draft._replace(**changes)


def next_version(kept: MemoryVersion, content: str | None, tags: Sequence[str] | None) -> VersionDraft:
    """The next version of a record, which is the same but for what is given."""
    extra = dict(kept.extra)
    if tags is not None:
        extra["tags"] = list(tags)
    body = kept.body if content is None else body_of(content)
    if "words" in extra:  # what stands for other texts is found by them, too
        texts = [text for _, _, text in extra.get("events", ())]
        extra["words"] = "\n".join([memory_rows.text_of(body), *texts, *extra["tags"]])
    return redraft(kept, body=body, extra=extra)


# -- core memory ---------------------------------------------------------------------------------------------------

PROTECTED_KEYS = ("RESOURCE_INDEX", "resource_digest", "idea_md_summary", "phase0_summary")
"""Keys of core memory that never leave it by themselves."""
CORE_EVICTED = "CORE_EVICT"
"""The tag of what left core memory to make room."""
MOST = 5
_SECOND = 1_000_000
_LAST = micros(datetime.max.replace(tzinfo=UTC))
"""The last end that there can be."""


class CoreValue(NamedTuple):
    """A value to be set.

    Attributes:
        key: Its key.
        value: What it says.
        importance: From 1 to 5.
        expires_at: When it ends, in microseconds since 1970.
    """

    key: str
    value: str
    importance: int = USUAL
    expires_at: int | None = None


class CoreMemory(Layer):
    """The keys and values of a layered memory. Every method has an awaited twin, with an `a` before its name."""

    def get(self, keys: Sequence[str] | set[str] | None = None) -> dict[str, str]:
        """Values by key.

        Args:
            keys: Which keys; those that are not there are left out. Default: all, in the order in which they were
                first set, those of one write by name.

        Raises:
            InvalidInput: The keys are no texts.
        """
        wanted = None if keys is None else [self._key(key) for key in texts_given(keys, "Keys")]

        def look(tx: Transaction, view: MemoryView) -> dict[str, str]:
            if wanted is None:
                return {each.key: each.text for each in everything(tx, view)}
            there = memory_rows.named(tx, view, CORE, wanted)
            return {key: there[key].text for key in wanted if key in there}

        return self._ground.read("core.get", look, keys=wanted)

    aget = awaited(get)

    def entries(self) -> list[CoreEntry]:
        """Everything, with importance and times, in the order in which the keys were first set."""

        def look(tx: Transaction, view: MemoryView) -> list[CoreEntry]:
            return [layer.entry_of(each) for each in everything(tx, view)]

        return self._ground.read("core.read", look)

    aentries = awaited(entries)

    def set(self, key: str, value: str, importance: int = USUAL, ttl: float | datetime | None = None) -> None:
        """Set a value.

        Args:
            key: Its key: 1 to 500 characters, none of them a control character.
            value: What it says.
            importance: From 1 to 5; the least important leaves first when room is needed. Default: 3.
            ttl: How long it holds: seconds from now, or the time when it ends (without a time zone: UTC). Default: for
                ever.

        Raises:
            InvalidInput: An argument is wrong, or there is no room for the value.
        """
        setting = self._setting_of(key, value, importance, ttl)

        def make(tx: Transaction, change: PendingWrite) -> list[str]:
            self._add_to(tx, change, [setting])
            return change.evicted

        self._ground.write("core.set", make, outputs=lambda evicted: {"evicted": evicted}, entries=[setting])

    aset = awaited(set, writes=True)  # noqa: A003 - the method

    def delete(self, key: str) -> bool:
        """Delete a value. Returns whether it was there."""
        wanted = self._key(key)
        return self._deleted(CORE, wanted, key=wanted)

    adelete = awaited(delete, writes=True)

    def _setting_of(self, key: Any, value: Any, importance: Any = USUAL, ttl: Any = None) -> CoreValue:
        """A value to be set, checked and without secrets.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if isinstance(importance, bool) or not isinstance(importance, int) or not 1 <= importance <= MOST:
            raise InvalidInput(f"importance must be a whole number from 1 to {MOST}, not {safe_repr(importance)}.")
        clean, said = name_given(key, "a key of core memory"), text_given(value, "A value of core memory")
        if self.settings.redact_secrets:  # a name tells what is a secret too: {"db_password": "x"}
            [(clean, said)] = redact_value({clean: said}).items()
        return CoreValue(clean, said, importance, self._ending(ttl))

    def _room(self, entries: Iterable[MemoryVersion], settings: Sequence[CoreValue]) -> int:
        """Return how many characters are left beside some values and the protected keys, whatever else leaves."""
        protected = {each.key: each.text for each in entries if each.key in PROTECTED_KEYS}
        return self.settings.core_max_chars - size({**protected, **{each.key: each.value for each in settings}}.items())

    def _add_to(self, tx: Transaction, change: PendingWrite, settings: Sequence[CoreValue]) -> None:
        """Add what sets some values to a change, and what moves others out of the way.

        Raises:
            InvalidInput: There is no room for them.
        """
        there = {each.key: each for each in everything(tx, change.view)}
        if self._room(there.values(), settings) < 0:
            raise InvalidInput(
                f"Core memory has no room for this: with protected keys and what is set with it, it needs more than "
                f"{self.settings.core_max_chars:,} characters. Delete or shorten some, or raise core_max_chars."
            )
        for each in settings:
            begun = there[each.key].created_at if each.key in there else change.now
            draft = VersionDraft(CORE, each.key, body_of(each.value), begun, importance=each.importance)
            change.drafts.append(draft._replace(expires_at=each.expires_at))
        new = {each.key: each.value for each in settings}
        others = [each for each in there.values() if each.key not in new]
        self._evict(change, leaving(others, self.settings.core_max_chars - size(new.items()) - 1))

    def _evict(self, change: PendingWrite, entries: Iterable[MemoryVersion]) -> None:
        """Add to a change what moves values to archival memory."""
        for each in entries:
            change.remove(CORE, each.key)
            change.evicted.append(each.key)
            # Two threads that have the same version leave archive one record.
            key = str(uuid5(NAMESPACE_OID, f"{each.key}\x1f{each.number}"))
            content, tags = f"Core evicted: {each.key}\n{each.text}", [CORE_EVICTED, f"core_key:{each.key}"]
            details = {"value": each.text, "importance": each.importance, "since": each.created_at}
            archived = record(key, content, tags, change.now, **details)._replace(expires_at=each.expires_at)
            change.drafts.append(memory_rows.moved(archived, each))

    def _key(self, key: Any) -> str:
        return self._ground.clean(name_given(key, "a key of core memory"))

    def _ending(self, ttl: Any) -> int | None:
        if ttl is None:
            return None
        now = self._ground.now()
        if isinstance(ttl, datetime):
            end = time_given(ttl, "ttl")
        elif isinstance(ttl, int | float) and not isinstance(ttl, bool):
            # Infinite, and what is no number, is not below the bound; nor is an int that no float can be.
            end = now + int(ttl * _SECOND) if abs(ttl) < _LAST / _SECOND else _LAST + 1
        else:
            raise InvalidInput(f"ttl must be a number of seconds or a datetime, not {safe_repr(ttl)}.")
        if not now < end <= _LAST:
            is_local = isinstance(ttl, datetime) and ttl.tzinfo is None
            read = ", which was read as UTC, since it has no time zone" if is_local else ""
            raise InvalidInput(
                "ttl must end in the future and before the year 10000: give seconds from now, a later time, or None to "
                f"keep it, not {ttl!s:.100}{read}."
            )
        return end


def everything(tx: Transaction, view: MemoryView) -> list[MemoryVersion]:
    """Core memory, in the order in which the keys were first set."""
    there = memory_rows.current(tx, view, CORE)
    return sorted(there, key=lambda each: (each.created_at, each.key))


def cost(key: str, value: str) -> int:
    """What a value takes of the budget, in characters: its line, and the break that ends it."""
    return len(f"{key}: {value}") + 1


def size(pairs: Iterable[tuple[str, str]]) -> int:
    """What keys and values take of the budget, in characters. The last line needs no break."""
    return max(0, sum(cost(*each) for each in pairs) - 1)


def leaving(
    entries: Sequence[MemoryVersion], limit: int, among: Iterable[MemoryVersion] | None = None
) -> list[MemoryVersion]:
    """What leaves core memory first, the least important, of that the least recently written, until the rest fits.

    Args:
        entries: What is in it.
        limit: The characters that the rest may take.
        among: What may leave at all, protected keys apart. Default: everything.
    """
    total = sum(cost(each.key, each.text) for each in entries) - 1
    gone: list[MemoryVersion] = []
    some = entries if among is None else among
    for each in sorted(some, key=lambda each: (each.importance or USUAL, each.written_at, each.number)):
        if total <= limit:
            break
        if each.key not in PROTECTED_KEYS:
            gone.append(each)
            total -= cost(each.key, each.text)
    return gone


# -- recall memory -------------------------------------------------------------------------------------------------

RECALL_EVICTED = "RECALL_EVICT"
"""The tag of the record of an event that was evicted."""
CONSOLIDATED = "RECALL_CONSOLIDATED"
"""The tag of a record that stands for events."""
AUTOMATIC = "AUTO_CONSOLIDATE"
"""The tag of one that was made without being asked for."""
MOST_EVENTS = 200
"""So many events one record stands for at most."""
MOST_CHARS = 100_000
"""So many characters they have in all at most, unless one alone has more."""


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
    ground: LayerContext,
    *,
    keep: int,
    kind: str | None = None,
    automatic: bool = False,
    name: str = "recall.consolidate",
) -> ConsolidationReport:
    """Consolidate old events: put records in their place, as far as the events are still there.

    Args:
        ground: The memory.
        keep: How many of the newest stay.
        kind: Only events of this kind. Default: all.
        automatic: Whether nobody asked for it. Default: False.
        name: What the step is called in a trace.
    """
    limit = ground.settings.section_budgets.get("archival_snippet", layer.SNIPPET_CHARS)
    with ground.step(name, keep=keep, event_type=kind, automatic=automatic) as step:
        texts: list[tuple[list[MemoryVersion], str]] = []
        for events in ground.read(None, lambda tx, view: old(tx, _own(ground, view), keep, kind)):
            whole, context = said_by(events), f"{len(events)} events of kind {events[0].label}, oldest first"
            text = ground.compressor.compress(whole, limit, context)
            no_help = text == truncated(whole, limit)  # it fits as it is, there is no model, or it failed
            texts.append((events, digest(events, limit) if no_help else text))

        def make(tx: Transaction, change: PendingWrite) -> ConsolidationReport:
            if ground.compressor.model is not None:
                change.writer = SourceNote("model")
            there = memory_rows.named(tx, change.view, EVENT, [each.key for events, _ in texts for each in events])
            numbers = {each.number for each in there.values()}
            whole = [each for each in texts if numbers.issuperset(event.number for event in each[0])]
            records = [_replace(ground, change, *each, automatic=automatic) for each in whole]
            return ConsolidationReport(events=sum(len(events) for events, _ in whole), records=tuple(records))

        report = ground.write(None, make) if texts else ConsolidationReport()
        step.finish(lambda: asdict(report))
    return report


def too_many(tx: Transaction, ground: LayerContext, change: PendingWrite, new: int) -> bool:
    """Whether there are so many events, once some more are added, that old ones are to be consolidated.

    Args:
        tx: The transaction.
        ground: The memory.
        change: What adds them.
        new: How many are added.
    """
    most = int(ground.settings.recall_max_events * 1.5)
    return new > 0 and count(tx, _own(ground, change.view), EVENT) + new > most


def make_room(ground: LayerContext) -> None:
    """Consolidate old events: of a branch with a model in the background, else immediately."""
    make = partial(consolidate, ground, keep=ground.settings.recall_max_events, automatic=True)
    if ground.compressor.model is not None and isinstance(ground.point, BranchPosition):
        key = compaction_key((ground.point.path, ground.point.name), "layers")
        ground.database.background.begin(key, make)
    else:
        make()


def _own(ground: LayerContext, view: MemoryView) -> MemoryView:
    """What may be summed up: of a thread its own line, as what others remember is theirs; of a branch all it shows."""
    return view if isinstance(ground.point, BranchPosition) else view._replace(scope=None)


def count(tx: Transaction, view: MemoryView, kind: str) -> int:
    """How much of a kind a view shows."""
    [row] = query.count_memory(tx, **view.parameters(), kind=kind, at=view.at)
    return int(row["found"])


def old(tx: Transaction, view: MemoryView, keep: int, kind: str | None = None) -> list[list[MemoryVersion]]:
    """The old events that a view shows: by kind, each part small enough for one record.

    Args:
        tx: The transaction.
        view: From where.
        keep: How many of the newest are not old.
        kind: Only events of this kind. Default: all.
    """
    there = memory_rows.current(tx, view, EVENT)
    mine = [each for each in there if kind is None or each.label == kind]
    kinds: dict[str | None, list[list[MemoryVersion]]] = {}
    for each in mine[: max(0, len(mine) - keep)]:
        parts = kinds.setdefault(each.label, [[]])
        chars = sum(len(event.body) for event in parts[-1])
        if parts[-1] and (len(parts[-1]) >= MOST_EVENTS or chars + len(each.body) > MOST_CHARS):
            parts.append([])
        parts[-1].append(each)
    return [events for parts in kinds.values() for events in parts]


def heading(events: Sequence[MemoryVersion]) -> str:
    """What events of one kind are."""
    times = sorted(map(_time, events))
    span = times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}"
    return f"{counted(len(times), 'events')} of kind {events[0].label}, {span}:"


def said_by(events: Sequence[MemoryVersion]) -> str:
    """All that events of one kind say, a line each."""
    return "\n".join([heading(events), *(f"- {_time(each)} {each.text}" for each in events)])


def digest(events: Sequence[MemoryVersion], limit: int) -> str:
    """What can be said of events without a model: all of it, or the beginning of each, or the first and the latest.

    Args:
        events: Events of one kind.
        limit: The most characters that the result has.
    """
    if len(text := said_by(events)) <= limit:
        return text
    head = heading(events)
    space = limit - len(head)
    most = min(200, max(40, space // len(events) - 1))
    lines = [truncated(f"- {_time(each)} {' '.join(each.text.split())}", most) for each in events]
    half = max(1, (space - 20) // (most + 1) // 2)
    if len(lines) > 2 * half and sum(len(each) + 1 for each in lines) > space:
        lines[half:-half] = [f"- … {len(lines) - 2 * half} more"]
    return truncated("\n".join([head, *lines]), limit)


def _replace(
    ground: LayerContext, change: PendingWrite, events: Sequence[MemoryVersion], text: str, *, automatic: bool
) -> str:
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


def _time(event: MemoryVersion) -> str:
    return moment(event.created_at).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


_SHOWN = partial(outcome, kind="event_type")  # somebody made it up
"""What a trace shows of events."""


class RecallMemory(Layer):
    """The events of a layered memory. Every method has an awaited twin, with an `a` before its name."""

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

        def make(tx: Transaction, change: PendingWrite) -> bool:
            change.drafts.append(new)
            return too_many(tx, self._ground, change, 1)

        text = memory_rows.text_of(new.body or b"")
        with self._ground.step("recall.append", event_type=new.label, content=text) as step:
            if self._ground.write(None, make):
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
        label = None if kind is None else self._kind(kind)
        return self._newest("recall.recent", EVENT, most, label=label, outputs=_SHOWN)

    arecent = awaited(recent)

    def get(self, event_id: str) -> Event | None:
        """One event by its id, or None."""
        return self._one(EVENT, name_given(event_id, "the id of an event"), layer.event_of, _SHOWN)

    aget = awaited(get)

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
        return self._found(EVENT, text_given(query, "A query"), limit_given(limit))

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

        def make(tx: Transaction, change: PendingWrite) -> int:
            there = memory_rows.newest(tx, change.view, EVENT, limit=None, label=label)
            gone = [each for each in there if wanted is None or each.key in wanted][:most]
            for each in gone:
                change.remove(EVENT, each.key)
                change.drafts.append(self._archived(each, change.now))
            return len(gone)

        given = None if wanted is None else sorted(wanted)
        return self._ground.write("recall.evict", make, event_ids=given, event_type=label, oldest=oldest)

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

    def _event_of(self, kind: str | None, content: str | None, at: datetime | None = None) -> VersionDraft:
        """An event to be appended, checked and without secrets.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = self._kind(kind)
        if content is None:
            raise InvalidInput('An event has a kind and a content: append("note", "Ana called."), for example.')
        text = self._ground.clean(text_given(content, "The content of an event"))
        time = self._ground.now() if at is None else time_given(at, "The time of an event")
        return VersionDraft(EVENT, self._ground.database.new_id(), body_of(text), time, label=label, findable=True)

    def _kind(self, kind: str | None) -> str:
        return self._ground.clean(name_given(kind, "a kind of event"))

    def _archived(self, kept: MemoryVersion, now: int) -> VersionDraft:
        tags = [RECALL_EVICTED, f"kind:{kept.label}", f"event:{kept.key}"]
        said = [[kept.key, kept.created_at, kept.text]]
        text = f"[{kept.label}] {kept.text}"
        return memory_rows.moved(record(self._ground.database.new_id(), text, tags, now, events=said), kept)
