"""The layers of a memory: `ArchivalMemory`, `CoreMemory` and `RecallMemory`.

Archival memory contains permanent records, which are found by search.

Core memory contains a few keys and values that are always in the prompt. Its budget limits the characters of its
`key: value` lines. If a write exceeds the budget, the least important values are evicted: they move to archival
memory. Among equally important values, the least recently written are evicted first. Protected keys are never evicted,
and a write never evicts the values that it sets.

Recall memory is the timeline of events. Every event has an id, a kind and a time; equal events are stored separately.
The kind is stored as the `label`. If there are more than 1.5 times `recall_max_events` events, all but the newest
`recall_max_events` are consolidated: they become records of archival memory, one or more for each kind. A record
contains the full text of its events if the text fits into `archival_snippet` of the section budgets, else a summary. If
the memory has a model, the model writes the summary. Each record also stores its events with ids and times, and search
finds it by the words of the events. If a fork consolidates inherited events, its parent branch still has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from types import EllipsisType
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_agentmem.base.argument_checks import MATCH_ALL, check_name, check_text, parse_limit, parse_texts
from langchain_agentmem.base.clock import check_time, from_micros, to_micros
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.origins import trust_rank
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.base.safe_repr import format_count
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import SourceNote, compaction_key
from langchain_agentmem.layers import layer
from langchain_agentmem.layers.compression import truncate
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE, CoreEntry, Event, Layer, LayerContext, Record
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition, PendingWrite
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, RECORD, MemoryVersion, MemoryView, VersionDraft
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.tracing import format_result

# -- archival memory -----------------------------------------------------------------------------------------------


class ArchivalMemory(Layer):
    """The records of a layered memory; each method has an async twin, prefixed with `a`."""

    def write(self, content: str, tags: Sequence[str] = ()) -> str:
        """Write a record, or add tags to an existing record with the same content.

        Args:
            content: The content of the record.
            tags: Its tags, by which records can be filtered. Default: none.

        Returns:
            The id of the record.

        Raises:
            InvalidInput: An argument is wrong.
        """
        text, tags = self._check_record(content, tags)
        id_ = self._context.database.new_id()

        def add(tx: Transaction, change: PendingWrite) -> str:
            return add_record(tx, change, id_, text, tags)

        inputs = {"content": text, "characters": len(text), "tags": tags}
        return self._context.write("archival.write", add, outputs=lambda id_: {"record_id": id_}, **inputs)

    awrite = awaited(write, writes=True)

    def update(self, record_id: str, content: str | None = None, tags: Sequence[str] | None = None) -> bool:
        """Change the content or tags of a record.

        Args:
            record_id: The id of the record.
            content: Its new content. Default: unchanged.
            tags: Its new tags; an empty list removes all. Default: unchanged.

        Returns:
            True if the record exists.

        Raises:
            InvalidInput: Neither content nor tags are passed, or an argument is wrong.
        """
        if content is None and tags is None:
            raise InvalidInput("update() got no changes. Pass the new content of the record, its new tags, or both.")
        clean_content = None if content is None else self._clean_content(content)
        clean_tags = None if tags is None else self._clean_tags(tags)
        id_ = check_name(record_id, "the id of a record")

        def replace(tx: Transaction, change: PendingWrite) -> bool:
            visible = memory_rows.load_named(tx, change.view, RECORD, [id_])
            if id_ in visible:
                change.drafts.append(redraft_record(visible[id_], clean_content, clean_tags))
            return id_ in visible

        return self._context.write("archival.update", replace, record_id=id_, content=clean_content, tags=clean_tags)

    aupdate = awaited(update, writes=True)

    def get(self, record_id: str) -> Record | None:
        """Return a record by its id; None if it does not exist."""
        return self._get_one(RECORD, check_name(record_id, "the id of a record"), layer.convert_record)

    aget = awaited(get)

    def delete(self, record_id: str) -> bool:
        """Delete a record. Return whether it existed."""
        id_ = check_name(record_id, "the id of a record")
        return self._delete(RECORD, id_, record_id=id_)

    adelete = awaited(delete, writes=True)

    def search(self, query: str, limit: int | None = None, tags: Sequence[str] | None = None) -> list[Record]:
        """Find records.

        Args:
            query: Any text. "*" returns all records, the newest first.
            limit: The maximum number of records. Default: `retrieval_k` of the settings (8); all for "*".
            tags: Only records that have all of these tags. Default: any.

        Returns:
            The records, the best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        match_all = check_text(query, "A query").strip() == MATCH_ALL
        max_records = self.settings.retrieval_k if limit is None and not match_all else parse_limit(limit)
        return self._search(RECORD, query, max_records, self._clean_tags(() if tags is None else tags))

    asearch = awaited(search)

    def all(self, tags: Sequence[str] | None = None, limit: int | None = None) -> list[Record]:
        """Return records, in the order in which they were last written.

        Args:
            tags: Only records that have all of these tags. Default: any.
            limit: The maximum number of records, the newest ones. Default: all.
        """
        max_records, clean_tags = parse_limit(limit), self._clean_tags(() if tags is None else tags)
        return self._list_newest("archival.all", RECORD, max_records, clean_tags)

    aall = awaited(all)  # noqa: A003 - a method may be named like a builtin

    def _check_record(self, content: Any, tags: Any = ()) -> tuple[str, list[str]]:
        """Check content and tags, and remove secrets from them.

        Raises:
            InvalidInput: The content or a tag is wrong.
        """
        return self._clean_content(content), self._clean_tags(tags)

    def _clean_content(self, content: Any) -> str:
        return self._context.remove_secrets(check_text(content, "The content of a record"))

    def _clean_tags(self, tags: Any) -> list[str]:
        """Check tags, and return them without duplicates and secrets."""
        remove_secrets, names = self._context.remove_secrets, parse_texts(tags, "Tags")
        self._context.database.limits.check("tags", len(names), "The list of tags")
        return list(dict.fromkeys(remove_secrets(check_name(name, "a tag")) for name in names))


def draft_record(id_: str, content: str, tags: Sequence[str], now: int, **details: Any) -> VersionDraft:
    """Build the draft of a record.

    Args:
        id_: Its id.
        content: Its content.
        tags: Its tags.
        now: The time at which it is written, in microseconds since 1970.
        details: Its other fields. The values are JSON values.
    """
    extra = {"tags": list(tags), **details}
    return VersionDraft(RECORD, id_, memory_rows.encode_text(content), now, extra=extra, findable=True)


def add_record(tx: Transaction, change: PendingWrite, id_: str, content: str, tags: Sequence[str]) -> str:
    """Add a record to a pending write; if its content is stored, update that record instead.

    Nothing is added if that record would not change. A record of another thread is also written to this thread, so that
    it stays when the other thread is rewound. A more trusted source replaces the source of the record.

    Args:
        tx: The transaction.
        change: The pending write.
        id_: The id for a new record.
        content: The content of the record.
        tags: Its tags.

    Returns:
        The id of the record.
    """
    new = change.add_writer(draft_record(id_, content, tags, change.now))
    digest = queries.digest(memory_rows.encode_text(content))
    rows = query.keys_with_content(tx, **change.view.parameters(), kind=RECORD, hash=digest)
    visible = memory_rows.load_named(tx, change.view, RECORD, [row["key"] for row in rows]) if rows else {}
    # Records with a label are resources.
    same = [version for version in visible.values() if version.text == content and version.label is None]
    if not same:
        change.drafts.append(new)
        return id_
    old = min(same, key=lambda version: trust_rank(version.source))
    all_tags = list(dict.fromkeys([*old.extra.get("tags", ()), *tags]))
    draft = redraft_record(old, None, all_tags)._replace(expires_at=None)
    if layer.has_tags(old, tags) and trust_rank(new.source) >= trust_rank(old.source):
        if old.thread == change.thread and old.expires_at is None:
            return old.key
        draft = draft._replace(moved=True, source=old.source, actor=old.actor)  # keep the more trusted source
    change.drafts.append(draft)
    return old.key


_COPIED_FIELDS = ("kind", "key", "body", "created_at", "label", "importance", "expires_at")


def redraft(version: MemoryVersion, **changes: Any) -> VersionDraft:
    """Build a draft of the next version of a value, record or event, with changes."""
    columns = {name: getattr(version, name) for name in _COPIED_FIELDS}
    return VersionDraft(**columns, extra=version.extra or None, findable=version.kind != CORE)._replace(**changes)


def redraft_record(version: MemoryVersion, content: str | None, tags: Sequence[str] | None) -> VersionDraft:
    """Build a draft of the next version of a record; None leaves a field unchanged."""
    extra = dict(version.extra)
    if tags is not None:
        extra["tags"] = list(tags)
    body = version.body if content is None else memory_rows.encode_text(content)
    if "words" in extra:  # a consolidated record is also found by the words of its events
        texts = [text for _, _, text in extra.get("events", ())]
        extra["words"] = "\n".join([memory_rows.decode_text(body), *texts, *extra["tags"]])
    return redraft(version, body=body, extra=extra)


# -- core memory ---------------------------------------------------------------------------------------------------

PROTECTED_KEYS = ("RESOURCE_INDEX", "resource_digest", "idea_md_summary", "phase0_summary")
"""The keys of core memory that are never evicted."""
CORE_EVICTED = "CORE_EVICT"
"""The tag of the records of evicted values."""
MAX_IMPORTANCE = 5
"""The highest importance of a value of core memory."""
_SECOND = 1_000_000  # in microseconds
_LATEST_EXPIRY = to_micros(datetime.max.replace(tzinfo=UTC))
"""The latest possible expiry, in microseconds since 1970."""


class CoreValue(NamedTuple):
    """A value to set.

    Attributes:
        key: Its key.
        value: Its text.
        importance: From 1 to 5.
        expires_at: The time at which it expires, in microseconds since 1970; None for never.
    """

    key: str
    value: str
    importance: int = DEFAULT_IMPORTANCE
    expires_at: int | None = None


class CoreMemory(Layer):
    """The core memory: keys and values; each method has an async twin, prefixed with `a`."""

    def get(self, keys: Sequence[str] | set[str] | None = None) -> dict[str, str]:
        """Return values by key.

        Args:
            keys: The keys; missing ones are omitted. Default: all, in the order in which they were first set. Keys of
                one write are sorted by name.

        Raises:
            InvalidInput: The keys are not texts, or not valid.
        """
        wanted = None if keys is None else [self._clean_key(key) for key in parse_texts(keys, "Keys")]

        def load(tx: Transaction, view: MemoryView) -> dict[str, str]:
            if wanted is None:
                return {each.key: each.text for each in load_core(tx, view)}
            visible = memory_rows.load_named(tx, view, CORE, wanted)
            return {key: visible[key].text for key in wanted if key in visible}

        with self._context.step("core.get", keys=wanted) as step:
            # Several keys are read by `load`: a statement for any number of keys would make a single key slower.
            values = self._context.select_texts(CORE, *wanted or ()) if wanted is None or len(wanted) == 1 else None
            values = self._context.read(None, load) if values is None else values
            step.finish(lambda: format_result(values))
        return values

    aget = awaited(get)

    def entries(self) -> list[CoreEntry]:
        """Return all values with importance and times, in the order the keys were first set."""
        return self._context.read("core.read", lambda tx, view: [*map(layer.convert_core_entry, load_core(tx, view))])

    aentries = awaited(entries)

    def set(
        self, key: str, value: str, importance: int = DEFAULT_IMPORTANCE, ttl: float | datetime | None = None
    ) -> None:
        """Set a value.

        Args:
            key: Its key: 1 to 500 characters, none of them a control character.
            value: Its text.
            importance: From 1 to 5. The least important values are evicted first. Default: 3.
            ttl: The number of seconds until the value expires, or the time at which it expires (without a time zone:
                UTC). Default: never.

        Raises:
            InvalidInput: An argument is wrong, or the value does not fit into the budget.
        """
        new = self._check_value(key, value, importance, ttl)

        def add(tx: Transaction, change: PendingWrite) -> list[str]:
            self._add_values(tx, change, [new])
            return change.evicted

        self._context.write("core.set", add, outputs=lambda evicted: {"evicted": evicted}, entries=[new])

    aset = awaited(set, writes=True)  # noqa: A003 - a method may be named like a builtin

    def delete(self, key: str) -> bool:
        """Delete a value. Return whether it existed."""
        wanted = self._clean_key(key)
        return self._delete(CORE, wanted, key=wanted)

    adelete = awaited(delete, writes=True)

    def _check_value(self, key: Any, value: Any, importance: Any = DEFAULT_IMPORTANCE, ttl: Any = None) -> CoreValue:
        """Check a value to set, and remove secrets from it.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if isinstance(importance, bool) or not isinstance(importance, int) or not 1 <= importance <= MAX_IMPORTANCE:
            got = safe_repr(importance)
            raise InvalidInput(f"importance must be a whole number from 1 to {MAX_IMPORTANCE}, not {got}.")
        clean_key, text = check_name(key, "a key of core memory"), check_text(value, "A value of core memory")
        if self.settings.redact_secrets:  # the key can show that the value is a secret: {"db_password": "x"}
            [(clean_key, text)] = redact_value({clean_key: text}).items()
        return CoreValue(clean_key, text, importance, self._parse_ttl(ttl))

    def _count_free_chars(self, entries: Iterable[MemoryVersion], new: Sequence[CoreValue]) -> int:
        """Return the budget minus the size of new values and protected keys, in characters."""
        required = {each.key: each.text for each in entries if each.key in PROTECTED_KEYS}
        required |= {each.key: each.value for each in new}
        return self.settings.core_max_chars - count_core_chars(required.items())

    def _add_values(self, tx: Transaction, change: PendingWrite, new: Sequence[CoreValue]) -> None:
        """Set values in a pending write, and evict others if the budget requires it.

        Raises:
            InvalidInput: The values do not fit into the budget.
        """
        sizes = {each.key: count_value_chars(each.key, each.value) for each in new}
        max_size = self.settings.core_max_chars + 1  # the last line has no line break
        created = memory_rows.find_creation_times(tx, change.view, CORE, sizes, max_size)
        evicted: list[MemoryVersion] = []
        if created is None:
            visible = load_core(tx, change.view)
            if self._count_free_chars(visible, new) < 0:
                raise InvalidInput(
                    "Core memory is too small: the new values and the protected keys need more than its "
                    f"{self.settings.core_max_chars:,} characters. Delete or shorten values, or raise core_max_chars."
                )
            created = {each.key: each.created_at for each in visible}
            others = [each for each in visible if each.key not in sizes]
            evicted = choose_evicted(others, max_size - sum(sizes.values()) - 1)
        for each in new:
            draft = VersionDraft(CORE, each.key, memory_rows.encode_text(each.value), created.get(each.key, change.now))
            change.drafts.append(draft._replace(importance=each.importance, expires_at=each.expires_at))
        self._evict(change, evicted)

    def _evict(self, change: PendingWrite, entries: Iterable[MemoryVersion]) -> None:
        """Move values to archival memory in a pending write."""
        for each in entries:
            change.remove(CORE, each.key)
            change.evicted.append(each.key)
            # Two threads that evict the same version create one record, with this id.
            id_ = str(uuid5(NAMESPACE_OID, f"{each.key}\x1f{each.number}"))
            content, tags = f"Core evicted: {each.key}\n{each.text}", [CORE_EVICTED, f"core_key:{each.key}"]
            details = {"value": each.text, "importance": each.importance, "since": each.created_at}
            archived = draft_record(id_, content, tags, change.now, **details)._replace(expires_at=each.expires_at)
            change.drafts.append(memory_rows.inherit_source(archived, each))

    def _clean_key(self, key: Any) -> str:
        return self._context.remove_secrets(check_name(key, "a key of core memory"))

    def _parse_ttl(self, ttl: Any) -> int | None:
        if ttl is None:
            return None
        now = self._context.now()
        if isinstance(ttl, datetime):
            end = check_time(ttl, "ttl")
        elif isinstance(ttl, int | float) and not isinstance(ttl, bool):
            # Infinity, NaN and very large integers fail this comparison, and the check below refuses them.
            end = now + int(ttl * _SECOND) if abs(ttl) < _LATEST_EXPIRY / _SECOND else _LATEST_EXPIRY + 1
        else:
            raise InvalidInput(f"ttl must be a number of seconds or a datetime, not {safe_repr(ttl)}.")
        if not now < end <= _LATEST_EXPIRY:
            is_naive = isinstance(ttl, datetime) and ttl.tzinfo is None
            note = ", which was read as UTC, since it has no time zone" if is_naive else ""
            raise InvalidInput(
                f"ttl must end in the future and before the year 10000, got {ttl!s:.100}{note}. "
                "Pass a number of seconds, a later time, or None for no expiry."
            )
        return end


def load_core(tx: Transaction, view: MemoryView) -> list[MemoryVersion]:
    """Load core memory, in the order in which the keys were first set."""
    return sorted(memory_rows.load_current(tx, view, CORE), key=lambda each: (each.created_at, each.key))


def count_value_chars(key: str, value: str) -> int:
    """Count the characters of a value: those of its line, and the line break."""
    return len(f"{key}: {value}") + 1


def count_core_chars(pairs: Iterable[tuple[str, str]]) -> int:
    """Count the characters of values in core memory. The last line has no line break."""
    return max(0, sum(count_value_chars(*each) for each in pairs) - 1)


def choose_evicted(
    entries: Sequence[MemoryVersion], limit: int, candidates: Iterable[MemoryVersion] | None = None
) -> list[MemoryVersion]:
    """Choose values of core memory to evict, so that the others fit into `limit`.

    The least important values are chosen first. If values are equally important, the least recently written are first.
    Protected keys are never chosen.

    Args:
        entries: All values of core memory.
        limit: The maximum size of the values that remain, in characters.
        candidates: The values that may be chosen. Default: all values.
    """
    total = sum(count_value_chars(each.key, each.text) for each in entries) - 1  # the last line has no line break
    chosen: list[MemoryVersion] = []
    candidates = entries if candidates is None else candidates
    for each in sorted(candidates, key=lambda row: (row.importance or DEFAULT_IMPORTANCE, row.written_at, row.number)):
        if total <= limit:
            break
        if each.key not in PROTECTED_KEYS:
            chosen.append(each)
            total -= count_value_chars(each.key, each.text)
    return chosen


# -- recall memory -------------------------------------------------------------------------------------------------

RECALL_EVICTED = "RECALL_EVICT"
"""The tag of a record that contains an evicted event."""
CONSOLIDATED = "RECALL_CONSOLIDATED"
"""The tag of a consolidated record."""
AUTOMATIC = "AUTO_CONSOLIDATE"
"""The tag of a record that was consolidated automatically."""
MAX_RECORD_EVENTS = 200
"""The maximum number of events of one record."""
MAX_RECORD_BYTES = 100_000
"""The maximum total size of the events of one record, in bytes. A larger event gets a record of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationReport:
    """The result of a consolidation.

    Attributes:
        level: The level of `MemoryPressure`, "low" to "critical"; None for `summarize` and automatic consolidation.
        events: The number of consolidated events.
        records: The ids of the records that replace the events.
        evicted: The keys that were evicted from core memory.
    """

    level: str | None = None
    events: int = 0
    records: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


def consolidate(
    context: LayerContext,
    *,
    keep: int,
    kind: str | None = None,
    automatic: bool = False,
    name: str = "recall.consolidate",
) -> ConsolidationReport:
    """Replace old events with records.

    If an event changes while the text for a record is composed, that record is not written and all its events remain.

    Args:
        context: The context of the layers.
        keep: The number of newest events (of `kind`, if passed) that remain.
        kind: Only events of this kind. Default: all.
        automatic: True if neither a user nor a model requested the consolidation. Default: False.
        name: The name of the step in a trace.
    """
    limit = context.settings.section_budgets.get("archival_snippet", layer.SNIPPET_CHARS)
    with context.step(name, keep=keep, event_type=kind, automatic=automatic) as step:
        event_texts: list[tuple[list[MemoryVersion], str]] = []
        for events in context.read(None, lambda tx, view: list_old_events(tx, _own_view(context, view), keep, kind)):
            full_text, hint = format_events(events), f"{len(events)} events of kind {events[0].label}, oldest first"
            text = context.compressor.compress(full_text, limit, hint)
            has_no_summary = text == truncate(full_text, limit)  # the text fits, there is no model, or the model failed
            event_texts.append((events, shorten_events(events, limit) if has_no_summary else text))

        def replace(tx: Transaction, change: PendingWrite) -> ConsolidationReport:
            if context.compressor.model is not None:
                change.writer = SourceNote("model")
            keys = [each.key for events, _ in event_texts for each in events]
            current_numbers = {each.number for each in memory_rows.load_named(tx, change.view, EVENT, keys).values()}
            unchanged = [pair for pair in event_texts if current_numbers.issuperset(each.number for each in pair[0])]
            records = [_replace_events(context, change, *pair, automatic=automatic) for pair in unchanged]
            return ConsolidationReport(events=sum(len(events) for events, _ in unchanged), records=tuple(records))

        report = context.write(None, replace) if event_texts else ConsolidationReport()
        step.finish(lambda: asdict(report))
    return report


def needs_consolidation(tx: Transaction, context: LayerContext, change: PendingWrite, new_events: int) -> bool:
    """Return whether old events must be consolidated because a write adds new ones.

    Args:
        tx: The transaction.
        context: The context of the layers.
        change: The pending write that adds events.
        new_events: The number of events that it adds.
    """
    limit, view = int(context.settings.recall_max_events * 1.5), _own_view(context, change.view)
    if not new_events:
        return False
    branch = view.single_branch  # its number of versions is not less than the number of visible events
    if branch is not None and query.count_branch_memory(tx, **branch, kind=EVENT)[0]["total"] + new_events <= limit:
        return False
    return count_versions(tx, view, EVENT) + new_events > limit


def consolidate_excess_events(context: LayerContext) -> None:
    """Consolidate old events: in the background for a branch with a model, else now."""
    run = partial(consolidate, context, keep=context.settings.recall_max_events, automatic=True)
    if context.compressor.model is not None and isinstance(context.point, BranchPosition):
        context.database.background.start_once(compaction_key((context.point.path, context.point.name), "layers"), run)
    else:
        run()


def _own_view(context: LayerContext, view: MemoryView) -> MemoryView:
    """Return the view to consolidate: a thread's own events, or all events of a branch."""
    return view if isinstance(context.point, BranchPosition) else view._replace(scope=None)


def count_versions(tx: Transaction, view: MemoryView, kind: str) -> int:
    """Count the visible versions of a kind of memory: `CORE`, `RECORD` or `EVENT`."""
    [row] = query.count_memory(tx, **view.parameters(), kind=kind, at=view.time)
    return int(row["total"])


def list_old_events(tx: Transaction, view: MemoryView, keep: int, kind: str | None = None) -> list[list[MemoryVersion]]:
    """List the old events of a view, grouped by kind, in parts small enough for one record.

    Args:
        tx: The transaction.
        view: The view.
        keep: The number of newest events (of `kind`, if passed) to omit.
        kind: Only events of this kind. Default: all.
    """
    matching = [each for each in memory_rows.load_current(tx, view, EVENT) if kind is None or each.label == kind]
    parts_by_kind: dict[str | None, list[list[MemoryVersion]]] = {}
    for each in matching[: max(0, len(matching) - keep)]:
        parts = parts_by_kind.setdefault(each.label, [[]])
        size = sum(len(event.body) for event in parts[-1])
        if parts[-1] and (len(parts[-1]) >= MAX_RECORD_EVENTS or size + len(each.body) > MAX_RECORD_BYTES):
            parts.append([])
        parts[-1].append(each)
    return [events for parts in parts_by_kind.values() for events in parts]


def format_heading(events: Sequence[MemoryVersion]) -> str:
    """Format the heading of events of one kind: their number, kind and times."""
    times = sorted(map(_format_time, events))
    span = times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}"
    return f"{format_count(len(times), 'events')} of kind {events[0].label}, {span}:"


def format_events(events: Sequence[MemoryVersion]) -> str:
    """Format events of one kind as a heading, and a line for each event."""
    return "\n".join([format_heading(events), *(f"- {_format_time(each)} {each.text}" for each in events)])


def shorten_events(events: Sequence[MemoryVersion], limit: int) -> str:
    """Shorten events without a model.

    The result is their full text, the beginning of each event, or the beginnings of the first and the last events.

    Args:
        events: Events of one kind.
        limit: The maximum number of characters of the result.
    """
    if len(text := format_events(events)) <= limit:
        return text
    heading = format_heading(events)
    space = limit - len(heading)
    line_chars = min(200, max(40, space // len(events) - 1))
    lines = [truncate(f"- {_format_time(each)} {' '.join(each.text.split())}", line_chars) for each in events]
    half = max(1, (space - 20) // (line_chars + 1) // 2)  # 20 characters for the line "- … 123 more"
    if len(lines) > 2 * half and sum(len(each) + 1 for each in lines) > space:
        lines[half:-half] = [f"- … {len(lines) - 2 * half} more"]
    return truncate("\n".join([heading, *lines]), limit)


def _replace_events(
    context: LayerContext, change: PendingWrite, events: Sequence[MemoryVersion], text: str, *, automatic: bool
) -> str:
    """Replace events of one kind with a record. Return its id."""
    id_ = context.database.new_id()
    automatic_tags = [AUTOMATIC] if automatic else []
    tags = [CONSOLIDATED, *automatic_tags, f"kind:{events[0].label}", f"event_count:{len(events)}"]
    words = "\n".join([text, *(each.text for each in events), *tags])
    event_rows = [[each.key, each.created_at, each.text] for each in events]
    draft = draft_record(id_, text, tags, change.now, words=words, events=event_rows)
    draft = memory_rows.inherit_source(draft, *events)
    source, actor = change.writer
    change.drafts.append(draft if source is None else draft._replace(source=source, actor=actor))
    for each in events:
        change.remove(EVENT, each.key)
    return id_


def _format_time(event: MemoryVersion) -> str:
    return from_micros(event.created_at).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


_format_outputs = partial(format_result, kind="event_type")
"""The function that returns the fields of events for a trace."""


class RecallMemory(Layer):
    """The events of a layered memory; each method has an async twin, prefixed with `a`."""

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
            kind: The kind of event.
            content: Its text.
            at: The time at which it happened (without a time zone: UTC). Default: now.
            event_type: An alias of `kind`.

        Returns:
            The id of the event.

        Raises:
            InvalidInput: An argument is wrong.
        """
        new = self._check_event(event_type if kind is None else kind, content, at)

        def add(tx: Transaction, change: PendingWrite) -> bool:
            change.drafts.append(new)
            return needs_consolidation(tx, self._context, change, 1)

        text = memory_rows.decode_text(new.body or b"")
        with self._context.step("recall.append", event_type=new.label, content=text) as step:
            if self._context.write(None, add):
                consolidate_excess_events(self._context)
            step.finish(lambda: {"event_id": new.key})
        return new.key

    aappend = awaited(append, writes=True)

    def recent(self, limit: int | EllipsisType | None = ..., kind: str | None = None) -> list[Event]:
        """Return the newest events, in the order in which they were appended.

        Args:
            limit: The maximum number of events; None for all. Default: `recall_max_events` of the settings (20).
            kind: Only events of this kind. Default: all.

        Raises:
            InvalidInput: An argument is wrong.
        """
        max_events = self.settings.recall_max_events if limit is ... else parse_limit(limit)
        label = None if kind is None else self._clean_kind(kind)
        return self._list_newest("recall.recent", EVENT, max_events, label=label, outputs=_format_outputs)

    arecent = awaited(recent)

    def get(self, event_id: str) -> Event | None:
        """Return an event by its id; None if it does not exist."""
        id_ = check_name(event_id, "the id of an event")
        return self._get_one(EVENT, id_, layer.convert_event, outputs=_format_outputs)

    aget = awaited(get)

    def search(self, query: str, limit: int | None = 10) -> list[Event]:
        """Find events.

        Args:
            query: Any text. "*" returns all events, the newest first.
            limit: The maximum number of events; None for all. Default: 10.

        Returns:
            The events, the best first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._search(EVENT, check_text(query, "A query"), parse_limit(limit))

    asearch = awaited(search)

    def evict(self, ids: Sequence[str] | None = None, kind: str | None = None, oldest: int | None = None) -> int:
        """Move events to archival memory, each as a record with its text.

        Args:
            ids: The ids of events; unknown ids are ignored. Default: any.
            kind: Only events of this kind. Default: any.
            oldest: The maximum number of events, the oldest first. Default: all that match.

        Returns:
            The number of events moved.

        Raises:
            InvalidInput: No argument is passed, or an argument is wrong.
        """
        if ids is None and kind is None and oldest is None:
            raise InvalidInput("evict() got no events to move. Pass ids, a kind, or the number of oldest events.")
        wanted = None if ids is None else set(parse_texts(ids, "Ids"))
        label = None if kind is None else self._clean_kind(kind)
        max_events = parse_limit(oldest)

        def archive(tx: Transaction, change: PendingWrite) -> int:
            visible = memory_rows.load_newest(tx, change.view, EVENT, limit=None, label=label)
            evicted = [each for each in visible if wanted is None or each.key in wanted][:max_events]
            for each in evicted:
                change.remove(EVENT, each.key)
                change.drafts.append(self._draft_archived_event(each, change.now))
            return len(evicted)

        event_ids = None if wanted is None else sorted(wanted)
        return self._context.write("recall.evict", archive, event_ids=event_ids, event_type=label, oldest=oldest)

    aevict = awaited(evict, writes=True)

    def summarize(self, kind: str | None = None, keep: int | EllipsisType = ...) -> ConsolidationReport:
        """Consolidate old events into records of archival memory, even if they are few.

        Args:
            kind: Only events of this kind. Default: all.
            keep: The number of newest events (of `kind`, if passed) that remain. Default: `recall_max_events` (20).

        Returns:
            The report, with the number of consolidated events and the ids of the records.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = None if kind is None else self._clean_kind(kind)
        count = self.settings.recall_max_events if keep is ... else parse_limit(keep)
        return consolidate(self._context, keep=count, kind=label, name="recall.summarize")

    asummarize = awaited(summarize, writes=True)

    def _check_event(self, kind: str | None, content: str | None, at: datetime | None = None) -> VersionDraft:
        """Check an event to append, and remove secrets from it.

        Raises:
            InvalidInput: An argument is wrong.
        """
        label = self._clean_kind(kind)
        if content is None:
            raise InvalidInput('An event needs a kind and a content, for example append("note", "Ana called.").')
        text = self._context.remove_secrets(check_text(content, "The content of an event"))
        time = self._context.now() if at is None else check_time(at, "The time of an event")
        id_, body = self._context.database.new_id(), memory_rows.encode_text(text)
        return VersionDraft(EVENT, id_, body, time, label=label, findable=True)

    def _clean_kind(self, kind: str | None) -> str:
        return self._context.remove_secrets(check_name(kind, "a kind of event"))

    def _draft_archived_event(self, version: MemoryVersion, now: int) -> VersionDraft:
        tags = [RECALL_EVICTED, f"kind:{version.label}", f"event:{version.key}"]
        event_rows = [[version.key, version.created_at, version.text]]
        id_, text = self._context.database.new_id(), f"[{version.label}] {version.text}"
        return memory_rows.inherit_source(draft_record(id_, text, tags, now, events=event_rows), version)
