"""The health report of an audit trail: size, growth, rate, todos, what to archive, and the rules for junk.

    print(memory.audit.report())

Counts come from the database and cover all entries. Texts are read of the newest `MOST_READ` entries, so that a report
takes seconds however long the trail is. A report is computed on demand, in one transaction, and changes nothing.

**Runaway hours**: hours with more than `TIMES_USUAL` times the entries of the median hour. Hours below a floor of
`LEAST_IN_HOUR` entries never count.

**Open todos**: a todo that seems done comes with the later reply or self-reflection that says so: one of its sentences
says that something was completed, in words of the todo. Nobody closes a todo for it. English only; in other languages
todos are listed without suggestions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import NamedTuple

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import REFLECTION, AuditEntry
from langchain_agentmem.audit.audit_store import EntrySizes, is_said
from langchain_agentmem.audit.junk_rules import RULES, WORDS, JunkRule, patterns, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import counted, size_of
from langchain_agentmem.search.analysis import STOP_WORDS, terms
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row

MOST_READ = 20_000
"""So many entries are read, the newest; all of them are counted."""
PAGE = 100


def _read(low: str, high: str, take: Callable[[AuditEntry], object]) -> Steps[int]:
    """Give the newest entries of the namespaces in a range of paths, the oldest first, and say how many there were."""
    before = yield query.audit_newest_within(low=low, high=high, skip=MOST_READ)
    after, count = (before[0]["sequence"] if before else 0), 0
    while found := (yield query.audit_within(low=low, high=high, after=after, limit=PAGE)):
        for entry in (yield from audit_rows.entries(found, messages=False)):
            take(entry)
        after, count = found[-1]["sequence"], count + len(found)
    return count


# -- health ----------------------------------------------------------------------------------------------------------

LARGE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB."""
OLD = timedelta(days=30)
"""How old entries are that could be archived."""
RECENT = timedelta(days=30)
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10
MOST_TODOS = 1_000
"""So many open todos are looked for among later entries; of the rest only the number is told."""
LEAST_IN_HOUR, TIMES_USUAL = 200, 10
"""An hour runs away with more entries than the first, and more than the second times those of the median hour."""

_HOUR = 3_600_000_000
_SPANS = (7, 30)
_TOLD_OF_SECTION = 5
_EXAMPLES = 5
_LOOKED_AT_OF_REPLY = 10_000
_SHOWN = 160
_MOST_QUOTES = 3
_ENOUGH = 2 / 3
_FEW = 2  # words, all of which must be there
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\n")
_LISTS = WORDS["report"]["lists"]
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns("report").items()}
_TODO_STOPS = frozenset(each for word in STOP_WORDS for each in terms(word)) | frozenset(terms(_LISTS["asking"]))
_VERBS = frozenset(terms(_LISTS["verbs"]))


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
class RateAnomaly:
    """An hour with far more entries than usual.

    Attributes:
        hour: When the hour begins, in UTC.
        entries: The number of entries.
        usual: The entries of the median hour.
    """

    hour: datetime
    entries: int
    usual: float

    def __str__(self) -> str:
        return f"the hour from {self.hour:%Y-%m-%d %H}:00 has {self.entries:,} entries; usual are {self.usual:,.0f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationSize:
    """A conversation, by what was said in it: exchanges and model calls.

    Attributes:
        conversation_id: Its id.
        namespace: Where it is.
        entries: How many entries it has.
        junk: How many of them are hidden as junk.
        first_at: When its first entry was made.
        last_at: When its last.
    """

    conversation_id: str
    namespace: Namespace
    entries: int
    junk: int
    first_at: datetime
    last_at: datetime

    def __str__(self) -> str:
        name = "/".join((*self.namespace, self.conversation_id))
        junk = f"{100 * self.junk / self.entries:.0f}% junk"
        return f"{name}: {counted(self.entries, 'entries')}, {junk}, last {self.last_at:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What suggests that a todo is done.

    Attributes:
        entry_id: The entry that says so.
        quote: Its sentence.
    """

    entry_id: str
    quote: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTodo:
    """A todo that is not done, with what can be said of it.

    Attributes:
        id: Its id.
        text: What is to be done.
        age: How long it has been open.
        signs: What suggests that it is done, the latest first.
    """

    id: str
    text: str
    age: timedelta
    signs: tuple[Sign, ...] = ()

    def __str__(self) -> str:
        told = f"{self.text} ({self.id}, open for {counted(self.age // timedelta(days=1), 'days')})"
        if self.signs:
            told += f"; done, it seems: {self.signs[0].entry_id} says: {self.signs[0].quote}"
        return told


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSuggestion:
    """What could be archived.

    Attributes:
        before: Entries made before this time, that are not archived yet.
        entries: How many there are.
        size: Their bytes.
    """

    before: datetime
    entries: int
    size: int

    def __str__(self) -> str:
        if not self.entries:
            return "It is large, but has no old entries that are not archived: what it needs is room, or to erase some."
        return (
            f"It is large. Archive {counted(self.entries, 'entries')} from before {self.before:%Y-%m-%d}, which take "
            f"{size_of(self.size)}. They are found as before."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JunkCheck:
    """How the rules for junk do.

    Attributes:
        hidden: How many entries each rule hides, by its name; an entry may be hidden by several.
        idle: The rules by which no entry is junk.
        gone: Names by which entries are hidden, of which there is no rule any more.
        to_hide: How many of the entries that were read are shown, and junk by the rules as they are now.
        to_show: How many of them are hidden, and are none.
        examples: The ids of some of both.
    """

    hidden: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    to_hide: int = 0
    to_show: int = 0
    examples: tuple[str, ...] = ()

    def _lines(self, sizes: EntrySizes) -> Iterable[str]:
        if not sizes.entries:
            return
        yield f"Junk: {100 * sizes.junk / sizes.entries:.1f}% of all entries are hidden."
        for name, count in self.hidden.items():
            gone = " (there is no such rule any more)" if name in self.gone else ""
            yield f"  {name}: {count:,}, {100 * count / sizes.entries:.1f}%{gone}"
        if self.idle:
            yield f"  Nothing is junk by: {', '.join(self.idle)}"
        if self.to_hide or self.to_show:
            yield (
                f"  By the rules as they are, {self.to_hide:,} would be hidden and {self.to_show:,} shown, such as "
                f"{', '.join(self.examples)}. filter_junk() judges all anew."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How an audit trail fares.

    Attributes:
        at: When it was looked at.
        sizes: Entries and bytes.
        read: How many entries were read, the newest: for signs of todos, and what is junk by now.
        growth: The last 7 and the last 30 days.
        runaway: Hours of the last 30 days with far more entries than usual.
        conversations: How many conversations there are.
        patterns: Those of them with most entries.
        open_todos: How many todos are open.
        todos: The open todos, the oldest first, with what suggests that they are done.
        archiving: What could be archived, where it is large; else None.
        junk: How the rules for junk do.
    """

    at: datetime
    sizes: EntrySizes
    read: int = 0
    growth: tuple[Growth, ...] = ()
    runaway: tuple[RateAnomaly, ...] = ()
    conversations: int = 0
    patterns: tuple[ConversationSize, ...] = ()
    open_todos: int = 0
    todos: tuple[OpenTodo, ...] = ()
    archiving: ArchiveSuggestion | None = None
    junk: JunkCheck = field(default_factory=JunkCheck)

    @property
    def size(self) -> int:
        """Bytes of entries, and of the messages of model calls."""
        return self.sizes.entry_bytes + self.sizes.message_bytes

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        sizes = self.sizes
        yield (
            f"{counted(sizes.entries, 'entries')}, {size_of(self.size)}; {sizes.junk:,} hidden as junk, "
            f"{sizes.archived:,} archived."
        )
        if self.read < sizes.entries:
            yield f"All are counted, and the newest {self.read:,} are read."
        for growth in dict.fromkeys(self.growth):
            yield (
                f"Last {counted(round(growth.days, 1), 'days')}: {growth.entries_a_day:,.1f} entries and "
                f"{size_of(growth.bytes_a_day)} a day."
            )
        if self.archiving is not None:
            yield str(self.archiving)
        yield from _section("Too many entries", self.runaway, len(self.runaway))
        yield from _section(counted(self.conversations, "conversations"), self.patterns, self.conversations)
        yield from _section(counted(self.open_todos, "open todos"), self.todos, self.open_todos)
        yield from self.junk._lines(sizes)


def examine(
    low: str, high: str, *, now: datetime, rules: Sequence[JunkRule] = RULES, large: int = LARGE
) -> Steps[Health]:
    """Look how the audit trail of the namespaces in a range of paths fares.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        now: What time it is.
        rules: By which entries are junk. Default: `RULES`.
        large: From how many bytes on an archive is suggested. Default 10,000,000.
    """
    now = now.astimezone(UTC)
    where = {"low": low, "high": high}
    sizes = yield from audit_store.sizes(low, high)
    [ever] = yield query.audit_sizes(**where, since=audit_store.EVER)
    found = yield query.audit_open_todos(**where, limit=MOST_TODOS)
    todos = _OpenTodos((yield from audit_rows.entries(found)))
    judged = _Judged(rules)

    def take(entry: AuditEntry) -> None:
        judged.take(entry)
        todos.take(entry)

    read = yield from _read(low, high, take)
    [conversations] = yield query.audit_count_conversations(**where)
    largest = yield query.audit_conversations(**where, limit=MOST_CONVERSATIONS)
    size = sizes.entry_bytes + sizes.message_bytes
    return Health(
        at=now,
        sizes=sizes,
        read=read,
        growth=(yield from _growth(where, now, ever, sizes.message_bytes)),
        runaway=(yield from _runaway_hours(where, micros(now - RECENT))),
        conversations=int(conversations["found"]),
        patterns=tuple(
            ConversationSize(
                conversation_id=row["conversation"],
                namespace=namespace_of(row["path"]),
                entries=int(row["entries"]),
                junk=int(row["junk"]),
                first_at=moment(row["first_at"]),
                last_at=moment(row["last_at"]),
            )
            for row in largest
        ),
        open_todos=int(ever["todos"]),
        todos=todos.found(now),
        archiving=(yield from _archivable(where, now - OLD)) if size > large else None,
        junk=judged.found((yield query.audit_junk_counts(**where))),
    )


def _growth(where: Mapping[str, str], now: datetime, ever: Row, message_bytes: int) -> Steps[tuple[Growth, ...]]:
    if not ever["entries"]:
        return ()
    of_call = message_bytes / ever["calls"] if ever["calls"] else 0.0
    age = (now - moment(ever["first_at"])) / timedelta(days=1)
    found = []
    for days in _SPANS:
        [late] = yield query.audit_sizes(**where, since=micros(now - timedelta(days=days)))
        size = round(int(late["bytes"]) + of_call * int(late["calls"]))
        found.append(Growth(days=min(max(age, 1.0), float(days)), entries=int(late["entries"]), size=size))
    return tuple(found)


def _runaway_hours(where: Mapping[str, str], since: int) -> Steps[tuple[RateAnomaly, ...]]:
    rows = yield query.audit_count_hours(**where, since=since)
    usual = float(median(row["entries"] for row in rows)) if rows else 0.0
    most = max(LEAST_IN_HOUR, TIMES_USUAL * usual)
    many = sorted((row for row in rows if row["entries"] > most), key=lambda row: -row["entries"])
    return tuple(
        RateAnomaly(hour=moment(row["hour"] * _HOUR), entries=int(row["entries"]), usual=usual)
        for row in many[:MOST_RUNAWAYS]
    )


def _archivable(where: Mapping[str, str], before: datetime) -> Steps[ArchiveSuggestion]:
    [row] = yield query.audit_archivable(**where, before=micros(before))
    return ArchiveSuggestion(before=before, entries=int(row["entries"]), size=int(row["bytes"]))


class _Judged:
    """Sees how the rules for junk do."""

    def __init__(self, rules: Sequence[JunkRule]) -> None:
        self._rules = rules
        self._to_hide = self._to_show = 0
        self._examples: list[str] = []

    def take(self, entry: AuditEntry) -> None:
        now = reasons(entry.kind, entry.prompt, entry.reply, self._rules)
        if bool(now) == bool(entry.junk):
            return
        self._to_hide += bool(now)
        self._to_show += bool(entry.junk)
        if len(self._examples) < _EXAMPLES:
            self._examples.append(entry.id)

    def found(self, counts: Sequence[Row]) -> JunkCheck:
        hidden: Counter[str] = Counter()
        for row in counts:
            hidden.update(dict.fromkeys(json.loads(row["junk"]), int(row["entries"])))
        names = list(dict.fromkeys(rule.name for rule in self._rules))
        return JunkCheck(
            hidden=dict(hidden.most_common()),
            idle=tuple(name for name in names if name not in hidden),
            gone=tuple(sorted(hidden.keys() - set(names))),
            to_hide=self._to_hide,
            to_show=self._to_show,
            examples=tuple(self._examples),
        )


class _Todo(NamedTuple):
    entry: AuditEntry
    about: frozenset[str]
    signs: list[Sign]


class _OpenTodos:
    """Finds what suggests that open todos are done."""

    def __init__(self, todos: Iterable[AuditEntry]) -> None:
        self._todos = [_Todo(entry, _about(_text_of(entry)), []) for entry in todos]
        self._by_term: dict[str, list[_Todo]] = {}
        for todo in self._todos:
            for term in todo.about:
                self._by_term.setdefault(term, []).append(todo)

    def take(self, entry: AuditEntry) -> None:
        text = entry.reply[:_LOOKED_AT_OF_REPLY]
        if entry.junk or not (entry.kind == REFLECTION or is_said(entry)) or not _PATTERNS["done"].search(text):
            return
        for sentence in _SENTENCE.split(text):
            if not _PATTERNS["done"].search(sentence) or _PATTERNS["not_done"].search(sentence):
                continue
            told = set(terms(sentence)) & self._by_term.keys()
            for todo in {todo.entry.id: todo for term in told for todo in self._by_term[term]}.values():
                about = len(todo.about)
                enough = len(todo.about & told) >= (about if about <= _FEW else _ENOUGH * about)
                if enough and entry.created_at >= todo.entry.created_at:
                    todo.signs.append(Sign(entry_id=entry.id, quote=_short(sentence)))

    def found(self, now: datetime) -> tuple[OpenTodo, ...]:
        """The open todos, the oldest first."""
        return tuple(
            OpenTodo(
                id=todo.entry.id,
                text=_short(_text_of(todo.entry)),
                age=max(now - todo.entry.created_at, timedelta(0)),
                signs=tuple(reversed(todo.signs[-_MOST_QUOTES:])),
            )
            for todo in sorted(self._todos, key=lambda todo: todo.entry.created_at)
        )


def _text_of(todo: AuditEntry) -> str:
    return todo.prompt.removeprefix(MARKS["todo"][0]).strip()


def _about(text: str) -> frozenset[str]:
    """What a todo is about: without the verb that says what to do, unless that leaves a word that many share."""
    said = [term for term in terms(text) if term not in _TODO_STOPS]
    return frozenset(said[1:] if len(set(said)) > _FEW and said[0] in _VERBS else said)


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _SHOWN else f"{joined[: _SHOWN - 1]}\u2026"


def _section(title: str, items: Sequence[object], count: int) -> Iterable[str]:
    if not items:
        return
    yield f"{title}:"
    yield from (f"  {each}" for each in items[:_TOLD_OF_SECTION])
    if count > _TOLD_OF_SECTION:
        yield f"  … and {count - _TOLD_OF_SECTION:,} more"
