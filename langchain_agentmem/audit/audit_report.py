"""Reports on an audit trail: `examine` makes the health report, `learn` the insights. No model is asked.

    print(memory.audit.report())
    print(memory.audit.insights())

What can be counted the database counts, of all entries. What has to be read is read of the newest `MOST_READ`, so that
a report takes seconds however long the trail is. A report is computed on demand, in one transaction, and changes
nothing.

**Runaways.** What of an audit trail runs away: far more entries than is usual, or the same one again and again. What is
usual is the median, and how much it varies is told by the distances from it, of which again the median counts: neither
is moved by the few that run away. Where little is going on anything looks like much, so nothing below a floor counts.

**Open todos**, and what suggests that one of them is done: a later reply, or the agent's report on itself, that says in
one sentence that something was completed, in words of what the todo is about. Nobody closes a todo for it. English
words only; in other languages todos are listed, and nothing is suggested.

**Topics**: words that come up in many conversations, and not in all of them. A word is counted once a conversation, so
that one long talk about a thing does not make it a common topic. Its weight is that number, times how rare it is among
the conversations. What nearly all of many conversations have is how people speak there, and no topic.

**Outcomes**: whether what users asked was done, by what went wrong, what the agent said, and what the user said next. A
turn is one prompt of the user with all model calls and the reply that answer it. It *failed* where

- its last call ended with an error, or
- its reply says that it could not be done ("I was unable to …", "Something went wrong"), or
- the next prompt of its conversation corrects it, complains ("No, I meant …", "Still broken", "Try again"), or asks the
  same again,

and *succeeded* where the next prompt thanks, or goes on. What came last in its conversation, or is in none, may have
been either: it is not counted, unless it failed by itself. The words that are known are English; where users write in
another language, only errors and repeated prompts tell of failures.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import CALL, EXCHANGE, REFLECTION, AuditEntry
from langchain_agentmem.audit.audit_store import EntrySizes, is_said
from langchain_agentmem.audit.junk_rules import RULES, WORDS, JunkRule, patterns, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import counted, size_of
from langchain_agentmem.search.analysis import STOP_WORDS, question, terms
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
LEAST_IN_HOUR, LEAST_REPEATED = 200, 25
"""So many entries of an hour, or that are the same, are never too many."""

What: TypeAlias = Literal["hour", "repeated"]

_HOUR = 3_600_000_000
_SPANS = (7, 30)
_TOLD_OF_SECTION = 5
_EXAMPLES = 5
_DEVIATIONS = 8.0
_OF_NORMAL = 1.4826  # by which the median distance tells the standard deviation of what is normally distributed
_COMPARED = 300
_SHOWN_OF_PROMPT = 120
_NUMBERS = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+", re.IGNORECASE)
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
class Runaway:
    """Something of which there are too many entries.

    Attributes:
        what: "hour" for the entries of one hour, "repeated" for those that say the same but for numbers, letter case
            and blanks.
        name: The hour in ISO 8601, or how the repeated entries begin.
        entries: How many there are.
        usual: How many are usual: the median. None for what is repeated.
        first_at: When the first of them was made.
        last_at: When the last.
        example: The id of the last of the repeated entries. Default None.
    """

    what: What
    name: str
    entries: int
    usual: float | None
    first_at: datetime
    last_at: datetime
    example: str | None = None

    def __str__(self) -> str:
        if self.what == "repeated":
            span = f"{self.first_at:%Y-%m-%d %H:%M} to {self.last_at:%Y-%m-%d %H:%M}"
            return f"{self.entries:,} entries say the same, {span}: {self.name} ({self.example})"
        return f"the hour from {self.first_at:%Y-%m-%d %H}:00 has {self.entries:,} entries; usual are {self.usual:,.0f}"


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
        read: How many entries were read, the newest: for repeated entries, signs of todos, and what is junk by now.
        growth: The last 7 and the last 30 days.
        runaway: Of what there are too many entries, in the last 30 days.
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
    runaway: tuple[Runaway, ...] = ()
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
    judged, repeats = _Judged(rules), _Repeats(now - RECENT)

    def take(entry: AuditEntry) -> None:
        judged.take(entry)
        repeats.take(entry)
        todos.take(entry)

    read = yield from _read(low, high, take)
    hours = yield from _hours(where, micros(now - RECENT))
    [conversations] = yield query.audit_count_conversations(**where)
    largest = yield query.audit_conversations(**where, limit=MOST_CONVERSATIONS)
    size = sizes.entry_bytes + sizes.message_bytes
    return Health(
        at=now,
        sizes=sizes,
        read=read,
        growth=(yield from _growth(where, now, ever, sizes.message_bytes)),
        runaway=(*hours, *repeats.found()),
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


def too_many(counts: Sequence[int], least: int) -> tuple[float, int]:
    """What is usual among some counts of entries: the median, and how many are not too many.

    Args:
        counts: How many entries there were each time.
        least: So many are never too many.
    """
    if not counts:
        return 0.0, least
    middle = float(median(counts))
    distance = median(abs(count - middle) for count in counts)
    # Counts vary by chance at least as much as their root says, also where most of them are equal.
    spread = max(_OF_NORMAL * distance, middle**0.5, 1.0)
    return middle, max(least, round(middle + _DEVIATIONS * spread))


def _hours(where: Mapping[str, str], since: int) -> Steps[list[Runaway]]:
    rows = yield query.audit_count_spans(**where, width=_HOUR, since=since)
    middle, most = too_many([row["entries"] for row in rows], LEAST_IN_HOUR)
    many = sorted((row for row in rows if row["entries"] > most), key=lambda row: -row["entries"])
    return [
        Runaway(
            what="hour",
            name=f"{moment(row['span'] * _HOUR):%Y-%m-%dT%H}:00Z",
            entries=int(row["entries"]),
            usual=middle,
            first_at=moment(row["first_at"]),
            last_at=moment(row["last_at"]),
        )
        for row in many[:MOST_RUNAWAYS]
    ]


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


class _Repeats:
    """Finds entries that say the same again and again; what is hidden as junk may be said as often as one likes."""

    def __init__(self, since: datetime) -> None:
        self._since = since
        self._same: dict[tuple[str, ...], Runaway] = {}

    def take(self, entry: AuditEntry) -> None:
        at = entry.created_at
        if entry.junk or not is_said(entry) or at < self._since:
            return
        key = tuple(_without_numbers(text) for text in (entry.prompt, entry.reply, entry.error or ""))
        if (same := self._same.get(key)) is None:
            name = " ".join(entry.prompt[:_SHOWN_OF_PROMPT].split())
            same = Runaway(what="repeated", name=name, entries=0, usual=None, first_at=at, last_at=at)
        first, last = min(same.first_at, at), max(same.last_at, at)
        self._same[key] = replace(same, entries=same.entries + 1, first_at=first, last_at=last, example=entry.id)

    def found(self) -> list[Runaway]:
        """What is repeated too often, most often first."""
        often = [same for same in self._same.values() if same.entries > LEAST_REPEATED]
        return sorted(often, key=lambda same: -same.entries)[:MOST_RUNAWAYS]


def _without_numbers(text: str) -> str:
    """How a text begins and ends, but for numbers, letter case and blanks."""
    ends = text if len(text) <= 2 * _COMPARED else f"{text[:_COMPARED]} \u2026 {text[-_COMPARED:]}"
    return " ".join(_NUMBERS.sub("0", ends.casefold()).split())


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


# -- insights --------------------------------------------------------------------------------------------------------

MOST_TOPICS = 20
MOST_WORDS = 100_000
"""So many different words are counted at a time; then those that came up least are forgotten."""

_TOLD = 10
_LOOKED_AT = 2_000
_MANY = 20
_NEARLY_ALL = 0.6
_EVEN = 0.7  # weight of what all conversations have
_LONGEST_CODE = 12
_LEAST_LETTERS = 3
_STOPS = frozenset(term for word in (*STOP_WORDS, *_LISTS["plain"].split()) for term in terms(word))
_BEGINS, _ENDS = 300, 200
_BLANKS = re.compile(r"\W+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """What users often speak of.

    Attributes:
        name: The word as it was first written, in lower case and without accents.
        conversations: In how many conversations; a prompt that belongs to none counts as one.
        prompts: In how many prompts.
        example: The id of an entry that has it.
    """

    name: str
    conversations: int
    prompts: int
    example: str

    def __str__(self) -> str:
        return f"{self.name}: {self.conversations:,} conversations, {self.prompts:,} prompts ({self.example})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Success:
    """How often what was asked was done.

    Attributes:
        turns: Prompts of users.
        succeeded: Those after which the user thanked or went on.
        failed: Those that failed.
        unknown: The rest.
        because: What told, and how often: "thanked", "went on"; "error", "gave up", "corrected", "asked again".
    """

    turns: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    because: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """The share of those that succeeded in those that are known, 0 to 1; None where none is known."""
        known = self.succeeded + self.failed
        return self.succeeded / known if known else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUse:
    """What a model did.

    Attributes:
        model: Its name; None where the provider gave none.
        calls: How often it was called.
        errors: How many of the calls failed.
        input_tokens: Tokens that it was given, as far as they are known.
        output_tokens: Tokens that it answered with, as far as they are known.
        median_duration: Seconds that half of the calls took at most. None where it is not known.
    """

    model: str | None
    calls: int
    errors: int
    input_tokens: int
    output_tokens: int
    median_duration: float | None

    def __str__(self) -> str:
        took = "" if self.median_duration is None else f", median {self.median_duration:,.2f} s"
        return (
            f"{self.model or 'unknown'}: {counted(self.calls, 'calls')}, {self.errors:,} failed, "
            f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out{took}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Insights:
    """What the newest entries of an audit trail tell of its use. Entries that are hidden as junk are no prompts here.

    Attributes:
        read: How many entries were read: all, or the newest 20,000.
        topics: What users often speak of, those of most weight first.
        success: How often what was asked was done.
        models: The models that were called, those with most calls first.
    """

    read: int = 0
    topics: tuple[Topic, ...] = ()
    success: Success = field(default_factory=Success)
    models: tuple[ModelUse, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        success = self.success
        if success.turns:
            told = "".join(f"; {name} {count:,}" for name, count in success.because.items())
            known = success.succeeded + success.failed
            of = f"{known:,} of {success.turns:,} prompts have an end that is known{told}."
            yield f"Success: {of}" if success.rate is None else f"Success: {100 * success.rate:.1f}%; {of}"
        for title, items in (("Common topics", self.topics), ("Models", self.models)):
            if items:
                yield f"{title}:"
                yield from (f"  {each}" for each in items[:_TOLD])


def learn(low: str, high: str, *, topics: int = MOST_TOPICS) -> Steps[Insights]:
    """What the audit trail of the namespaces in a range of paths tells of its use.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        topics: Most topics.
    """
    outcomes, words = _Outcomes(), _Words()
    calls: dict[str | None, list[_Call]] = {}

    def take(entry: AuditEntry) -> None:
        if entry.kind == CALL:
            calls.setdefault(entry.model, []).append(_Call.of(entry))
        if is_said(entry) and outcomes.take(entry):
            words.take(entry)

    read = yield from _read(low, high, take)
    return Insights(
        read=read,
        topics=words.found(topics),
        success=outcomes.found(),
        models=tuple(sorted(itertools.starmap(_use, calls.items()), key=lambda use: (-use.calls, use.model or ""))),
    )


class _Call(NamedTuple):
    failed: bool
    input_tokens: int
    output_tokens: int
    duration: float | None

    @classmethod
    def of(cls, entry: AuditEntry) -> _Call:
        return cls(entry.error is not None, entry.input_tokens or 0, entry.output_tokens or 0, entry.duration)


def _use(model: str | None, calls: Sequence[_Call]) -> ModelUse:
    durations = [call.duration for call in calls if call.duration is not None]
    return ModelUse(
        model=model,
        calls=len(calls),
        errors=sum(call.failed for call in calls),
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        median_duration=median(durations) if durations else None,
    )


class _Turn(NamedTuple):
    prompt: str
    kind: str
    failure: str | None
    asked_back: bool


class _Outcomes:
    """Tells turns apart, and counts how they ended."""

    def __init__(self) -> None:
        self._open: dict[tuple[Namespace, str], _Turn] = {}
        self._turns = 0
        self._ends: Counter[str] = Counter()

    def take(self, entry: AuditEntry) -> bool:
        """Look at what was said, and say whether a turn begins with it, which is not hidden."""
        key = (entry.namespace, entry.conversation_id or entry.thread_id or f"\x1f{entry.id}")
        prompt = _plainly(entry.prompt)
        before = self._open.get(key)
        # Calls with tools, retries, and what is both captured and added are one turn.
        same = before is not None and prompt == before.prompt and CALL in (before.kind, entry.kind)
        if before is not None and not same:
            self._ends[_ended(before, entry.prompt, prompt)] += 1
            del self._open[key]
        if entry.junk:
            return False
        self._turns += not same
        self._open[key] = _Turn(prompt, entry.kind, _failure(entry), entry.reply[-_ENDS:].rstrip().endswith("?"))
        return not same

    def found(self) -> Success:
        """How often what was asked so far was done."""
        ends = self._ends + Counter(turn.failure or "" for turn in self._open.values())
        succeeded = ends["thanked"] + ends["went on"]
        unknown = ends.pop("", 0)
        return Success(
            turns=self._turns,
            succeeded=succeeded,
            failed=ends.total() - succeeded,
            unknown=unknown,
            because=dict(sorted(ends.items())),
        )


def _failure(entry: AuditEntry) -> str | None:
    """How a turn failed by itself, if it did."""
    if entry.error is not None:
        return "error"
    return "gave up" if _PATTERNS["gives_up"].search(_straight(entry.reply)) else None


def _ended(turn: _Turn, following: str, plainly: str) -> str:
    """What the next prompt tells of a turn."""
    if turn.failure is not None:
        return turn.failure
    begins = _straight(following)
    if _PATTERNS["complains"].search(begins) or (not turn.asked_back and _PATTERNS["refuses"].search(begins)):
        return "corrected"
    if turn.kind == EXCHANGE and plainly and plainly == turn.prompt:
        return "asked again"
    return "thanked" if _PATTERNS["thanks"].search(begins) else "went on"


def _straight(text: str) -> str:
    """How a text begins, with straight apostrophes."""
    return text[:_BEGINS].replace("\u2019", "'")


def _plainly(text: str) -> str:
    """What tells prompts apart: how one begins, but for letter case and marks, and how long a long one is."""
    begins = _BLANKS.sub(" ", text[: 2 * _BEGINS].casefold()).strip()
    return begins if len(text) <= 2 * _BEGINS else f"{begins} {len(text)}"


@dataclass(slots=True)
class _Tally:
    """What is known of a word: where it was found, by numbers of conversations, and in how many prompts."""

    name: str
    example: str
    conversations: set[int] = field(default_factory=set)
    prompts: int = 0


class _Words:
    """Counts words of prompts."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._numbers: dict[tuple[Namespace, str], int] = {}
        self._given_up = 0

    def take(self, entry: AuditEntry) -> None:
        """Count the words of a prompt."""
        key = (entry.namespace, entry.conversation_id or entry.thread_id or f"\x1f{entry.id}")
        number = self._numbers.setdefault(key, len(self._numbers))
        written: dict[str, str] = {}
        for word, term in question(entry.prompt[:_LOOKED_AT]).words.items():
            written.setdefault(term, word)
        for term, word in written.items():
            if _tells(term):
                tally = self._tallies.setdefault(term, _Tally(word, entry.id))
                tally.conversations.add(number)
                tally.prompts += 1
        if len(self._tallies) > MOST_WORDS:
            while len(self._tallies) > MOST_WORDS // 2:
                self._given_up += 1
                kept = {term: tally for term, tally in self._tallies.items() if tally.prompts > self._given_up}
                self._tallies = kept

    def found(self, most: int) -> tuple[Topic, ...]:
        """The most common topics, those of most weight first.

        Args:
            most: How many.
        """
        total = len(self._numbers)
        speech = _NEARLY_ALL * total if total >= _MANY else total
        common = (
            (-count * (math.log((total + 1) / count) + _EVEN), -tally.prompts, tally.name, tally)
            for tally in self._tallies.values()
            if tally.prompts > 1 and min(2, total) <= (count := len(tally.conversations)) <= speech
        )
        return tuple(
            Topic(name=name, conversations=len(tally.conversations), prompts=tally.prompts, example=tally.example)
            for _, _, name, tally in sorted(common, key=lambda each: each[:3])[:most]
        )


def _tells(term: str) -> bool:
    """Whether a term can be what a text is about: no plain word, no number, no code."""
    if term in _STOPS or (term.isascii() and len(term) < _LEAST_LETTERS):
        return False
    digits = sum(map(str.isdigit, term))
    return digits == 0 or (digits < len(term) / 2 and len(term) <= _LONGEST_CODE)
