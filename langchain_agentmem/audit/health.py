"""How an audit trail fares: what document 002 has its daemon look after, as one report.

    report = memory.audit.report()
    print(report)                           # a page of text
    report.growth[0].entries_a_day, report.runaway, report.todos, report.archiving, report.junk

It is computed when it is asked for, and changes nothing: todos are closed, entries archived and rules changed by
whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from langchain_agentmem.audit import reading
from langchain_agentmem.audit.junk_rules import RULES, JunkRule
from langchain_agentmem.audit.reading import DAY, Sizes
from langchain_agentmem.audit.runaway import LEAST_IN_CONVERSATION, LEAST_IN_HOUR, Repeats, Runaway, usual
from langchain_agentmem.audit.surveys import Archivable, ArchiveSuggestion, Days, Judged, JunkCheck, Lengths
from langchain_agentmem.audit.undone import OpenTodo, OpenTodos
from langchain_agentmem.audit.walking import walk
from langchain_agentmem.base.clock import EPOCH, LATEST, micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.language_models.model_calls import Run, Work
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row

LARGE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB, as document 002 has it."""
ARCHIVE_AFTER = timedelta(days=30)
RECENT = timedelta(days=30)
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10

_HOUR = 3_600_000_000
_SPANS = (7, 30)
_TOLD = 5
_STEP = 1_000
_FAR = 3_650  # days


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """How much was added of late.

    Attributes:
        days: In how many days; fewer than were asked for where the first entry is younger.
        entries: How many entries.
        size: How many bytes; the messages of model calls are shared out evenly among the calls.
    """

    days: float
    entries: int
    size: int

    @property
    def entries_a_day(self) -> float:
        """How many entries a day."""
        return self.entries / self.days

    @property
    def bytes_a_day(self) -> float:
        """How many bytes a day."""
        return self.size / self.days


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A conversation, by what was said in it.

    Attributes:
        conversation_id: Its id.
        namespace: Where it is.
        entries: How many entries it has.
        junk: How many of them are hidden as junk.
        mean_length: Characters of prompt and reply together, on average.
        first_at: When its first entry was made.
        last_at: When its last.
    """

    conversation_id: str
    namespace: Namespace
    entries: int
    junk: int
    mean_length: float
    first_at: datetime
    last_at: datetime

    def __str__(self) -> str:
        name = "/".join((*self.namespace, self.conversation_id))
        return (
            f"{name}: {_count(self.entries, 'entry')}, {_percent(self.junk, self.entries)} junk, "
            f"{self.mean_length:,.0f} characters each, last {self.last_at:%Y-%m-%d %H:%M}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How an audit trail fares.

    Attributes:
        at: When it was looked at.
        sizes: Entries and bytes.
        growth: The last 7 and the last 30 days.
        large: From how many bytes on an archive is suggested.
        large_at: When it became so large, or will at the pace of the last 30 days. None: not within ten years.
        runaway: Of what there are too many entries, in the last 30 days.
        conversations: How many conversations there are.
        patterns: Those of them with most entries.
        open_todos: How many todos are open.
        todos: The open todos, the oldest first, with what suggests that they are done or stand there twice.
        archiving: What could be archived, where it is large; else None.
        junk: How the rules for junk do.
    """

    at: datetime
    sizes: Sizes
    growth: tuple[Growth, ...] = ()
    large: int = LARGE
    large_at: datetime | None = None
    runaway: tuple[Runaway, ...] = ()
    conversations: int = 0
    patterns: tuple[Conversation, ...] = ()
    open_todos: int = 0
    todos: tuple[OpenTodo, ...] = ()
    archiving: ArchiveSuggestion | None = None
    junk: JunkCheck = field(default_factory=JunkCheck)

    @property
    def size(self) -> int:
        """Bytes of entries, and of the messages of model calls."""
        return self.sizes.entry_bytes + self.sizes.message_bytes

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterable[str]:
        """The report, line by line."""
        sizes = self.sizes
        yield (
            f"{_count(sizes.entries, 'entry')}, {size_of(self.size)}; {sizes.junk:,} hidden as junk, "
            f"{sizes.archived:,} archived."
        )
        for growth in dict.fromkeys(self.growth):
            yield (
                f"Last {_count(round(growth.days, 1), 'day')}: {growth.entries_a_day:,.1f} entries and "
                f"{size_of(growth.bytes_a_day)} a day."
            )
        if self.large_at is not None:
            verb = "It passed" if self.size > self.large else "At this pace it passes"
            yield f"{verb} {size_of(self.large)} on {self.large_at:%Y-%m-%d}."
        if self.archiving is not None:
            yield str(self.archiving)
        yield from _section("Too many entries", self.runaway, len(self.runaway))
        yield from _section(f"{_count(self.conversations, 'conversation')}", self.patterns, self.conversations)
        yield from _section(f"{_count(self.open_todos, 'open todo')}", self.todos, self.open_todos)
        yield from self.junk.lines(sizes)


class _Counted(NamedTuple):
    """What is counted by the database."""

    sizes: Sizes
    runaway: list[Runaway]
    patterns: Sequence[Row]
    conversations: int


def examining(
    low: str,
    high: str,
    *,
    clock: Callable[[], datetime],
    rules: Sequence[JunkRule] = RULES,
    large: int = LARGE,
) -> Work[Health]:
    """Look how the audit trail of the namespaces in a range of paths fares.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        clock: Tells the time.
        rules: By which entries are junk. Default: those of document 002.
        large: From how many bytes on an archive is suggested. Default 10,000,000.
    """
    now = clock().astimezone(UTC)
    counted: _Counted = yield Run("audit.count", partial(_count_all, low, high, now), shown=False)
    patterns = [(namespace_of(row["path"]), row["conversation"]) for row in counted.patterns]
    lengths, todos, judged = Lengths(patterns), OpenTodos(), Judged(rules, counted.sizes.entries)
    repeats, archivable, each_day = Repeats(now - RECENT), Archivable(now - ARCHIVE_AFTER), Days()
    yield from walk(low, high, (lengths, todos, judged, repeats, archivable, each_day))
    days = _with_messages(each_day, counted.sizes.message_bytes)
    growth = _growth(days, now)
    size = counted.sizes.entry_bytes + counted.sizes.message_bytes
    return Health(
        at=now,
        sizes=counted.sizes,
        growth=growth,
        large=large,
        large_at=_when_large(days, growth, now, large),
        runaway=(*counted.runaway, *repeats.found(MOST_RUNAWAYS)),
        conversations=counted.conversations,
        patterns=tuple(
            Conversation(
                conversation_id=name,
                namespace=namespace,
                entries=int(row["entries"]),
                junk=int(row["junk"]),
                mean_length=lengths.mean(namespace, name),
                first_at=moment(row["first_at"]),
                last_at=moment(row["last_at"]),
            )
            for (namespace, name), row in zip(patterns, counted.patterns, strict=True)
        ),
        open_todos=todos.count,
        todos=todos.found(now),
        archiving=archivable.found(size, large),
        junk=judged.found(),
    )


def size_of(size: float) -> str:
    """A number of bytes as people write it."""
    if size < _STEP:
        return f"{size:,.0f} bytes"
    for unit in ("kB", "MB"):
        size /= _STEP
        if size < _STEP:
            return f"{size:,.1f} {unit}"
    return f"{size / _STEP:,.1f} GB"


def _count_all(low: str, high: str, now: datetime) -> Steps[_Counted]:
    sizes = yield from reading.sizes(low, high)
    since = micros(now - RECENT)
    runaway = yield from _hours(low, high, since)
    runaway += yield from _conversations(low, high, since)
    patterns = yield query.audit_patterns(low=low, high=high, limit=MOST_CONVERSATIONS)
    [row] = yield query.audit_conversation_count(low=low, high=high)
    return _Counted(sizes, runaway, patterns, int(row["conversations"]))


def _hours(low: str, high: str, since: int) -> Steps[list[Runaway]]:
    spans = yield from reading.by_time(low, high, width=_HOUR, since=since)
    normal = usual([(span.entries, 1) for span in spans], LEAST_IN_HOUR)
    found = [
        Runaway(
            what="hour",
            name=f"{moment(span.name):%Y-%m-%dT%H}:00Z",
            entries=span.entries,
            usual=normal.median,
            first_at=moment(span.first_at),
            last_at=moment(span.last_at),
        )
        for span in spans
        if span.entries > normal.most
    ]
    return sorted(found, key=lambda each: -each.entries)[:MOST_RUNAWAYS]


def _conversations(low: str, high: str, since: int) -> Steps[list[Runaway]]:
    counts = yield query.audit_conversation_sizes(low=low, high=high, since=since)
    normal = usual([(row["entries"], row["conversations"]) for row in counts], LEAST_IN_CONVERSATION)
    found = yield query.audit_large_conversations(
        low=low, high=high, since=since, most=normal.most, limit=MOST_RUNAWAYS
    )
    return [
        Runaway(
            what="conversation",
            name=row["conversation"],
            namespace=namespace_of(row["path"]),
            entries=int(row["entries"]),
            usual=normal.median,
            first_at=moment(row["first_at"]),
            last_at=moment(row["last_at"]),
        )
        for row in found
    ]


def _with_messages(days: Days, message_bytes: int) -> list[tuple[int, int, float]]:
    """By day since 1970: how many entries, and how many bytes, with those of messages shared out among the calls."""
    calls = sum(calls for _, _, calls in days.found.values())
    each = message_bytes / calls if calls else 0.0
    return [(day, entries, size + each * calls) for day, (entries, size, calls) in sorted(days.found.items())]


def _growth(days: Sequence[tuple[int, int, float]], now: datetime) -> tuple[Growth, ...]:
    if not days:
        return ()
    found = []
    for wanted in _SPANS:
        # Whole days, today included, which has only begun.
        first = max(micros(now) // DAY - wanted + 1, days[0][0])
        of_late = [(entries, size) for day, entries, size in days if first <= day <= micros(now) // DAY]
        passed = (now - EPOCH) / timedelta(days=1) - first
        entries, size = (sum(each) for each in zip(*of_late, strict=True)) if of_late else (0, 0)
        found.append(Growth(days=min(max(passed, 1.0), float(wanted)), entries=entries, size=round(size)))
    return tuple(found)


def _when_large(
    days: Sequence[tuple[int, int, float]], growth: Sequence[Growth], now: datetime, large: int
) -> datetime | None:
    size = 0.0
    for day, _, each in days:
        size += each
        if size > large:
            return moment(day * DAY)
    pace = growth[-1].bytes_a_day if growth else 0.0
    left = (large - size) / pace if pace > 0 else float("inf")
    if left > _FAR or micros(now) + left * DAY > LATEST:
        return None
    return now + timedelta(days=left)


def _section(title: str, items: Sequence[object], count: int) -> Iterable[str]:
    if not items:
        return
    yield f"{title}:"
    yield from (f"  {each}" for each in items[:_TOLD])
    if count > _TOLD:
        yield f"  … and {count - _TOLD:,} more"


def _count(number: float, what: str) -> str:
    if number == 1:
        return f"{number:g} {what}"
    return f"{number:,} {what[:-1]}ies" if what.endswith("ry") else f"{number:,} {what}s"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"
