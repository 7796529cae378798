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
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import NamedTuple

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import REFLECTION, AuditEntry
from langchain_agentmem.audit.audit_store import EntrySizes, is_said
from langchain_agentmem.audit.junk_rules import RULES, JunkRule, pattern, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import counted, one_line, size_of
from langchain_agentmem.search.analysis import STOP_WORDS, terms
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row

MOST_READ = 20_000
"""So many entries are read, the newest; all of them are counted."""
PAGE = 100


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
_LOOKED_AT_OF_REPLY = 10_000
_SHOWN = 160
_ENOUGH = 2 / 3
"""The share of a todo's words that a sentence holds which says that it is done."""
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\n")
_SAYS_DONE, _SAYS_NOT = (re.compile(pattern(name), re.IGNORECASE) for name in ("done", "not_done"))
_STOPS = frozenset(each for word in STOP_WORDS for each in terms(word))


class Growth(NamedTuple):
    """How much was added of late.

    Attributes:
        days: In how many days; fewer than were asked for where the first entry is younger.
        entries: How many entries.
        size: How many bytes; the messages of model calls are shared out evenly among the calls.
    """

    days: float
    entries: int
    size: int


class RateAnomaly(NamedTuple):
    """An hour with far more entries than usual.

    Attributes:
        hour: When the hour begins, in UTC.
        entries: The number of entries.
        usual: The entries of the median hour.
    """

    hour: datetime
    entries: int
    usual: float


class ConversationSize(NamedTuple):
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


class OpenTodo(NamedTuple):
    """A todo that is not done, with what can be said of it.

    Attributes:
        id: Its id.
        text: What is to be done.
        age: How long it has been open.
        done_by: The latest entry that says that it is done; None where none does.
        quote: The sentence that says so.
    """

    id: str
    text: str
    age: timedelta
    done_by: str | None
    quote: str


class ArchiveSuggestion(NamedTuple):
    """What could be archived.

    Attributes:
        before: Entries made before this time, that are not archived yet.
        entries: How many there are.
        size: Their bytes.
    """

    before: datetime
    entries: int
    size: int


class JunkCheck(NamedTuple):
    """How the rules for junk do.

    Attributes:
        hidden: How many entries each rule hides, by its name; an entry may be hidden by several.
        idle: The rules by which no entry is junk.
        to_hide: How many of the entries that were read are shown, and junk by the rules as they are now.
        to_show: How many of them are hidden, and are none.
    """

    hidden: Mapping[str, int]
    idle: tuple[str, ...]
    to_hide: int
    to_show: int


class Health(NamedTuple):
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
    read: int
    growth: tuple[Growth, ...]
    runaway: tuple[RateAnomaly, ...]
    conversations: int
    patterns: tuple[ConversationSize, ...]
    open_todos: int
    todos: tuple[OpenTodo, ...]
    archiving: ArchiveSuggestion | None
    junk: JunkCheck

    @property
    def size(self) -> int:
        """Bytes of entries, and of the messages of model calls."""
        return self.sizes.entry_bytes + self.sizes.message_bytes

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(found: Health) -> Iterator[str]:
    sizes, junk, old = found.sizes, found.junk, found.archiving
    hidden = f"{sizes.junk:,} hidden as junk, {sizes.archived:,} archived."
    yield f"{counted(sizes.entries, 'entries')}, {size_of(found.size)}; {hidden}"
    if found.read < sizes.entries:
        yield f"All are counted, and the newest {found.read:,} are read."
    for growth in dict.fromkeys(found.growth):
        daily = f"{growth.entries / growth.days:,.1f} entries and {size_of(growth.size / growth.days)} a day."
        yield f"Last {counted(round(growth.days, 1), 'days')}: {daily}"
    if old is not None and old.entries:
        from_before = f"{counted(old.entries, 'entries')} from before {old.before:%Y-%m-%d}"
        yield f"It is large. Archive {from_before}, which take {size_of(old.size)}."
    elif old is not None:
        yield "It is large. Nothing old is left to archive."
    hours = [f"{each.hour:%Y-%m-%d %H}:00: {each.entries:,}, usual are {each.usual:,.0f}" for each in found.runaway]
    yield from _section("Hours with too many entries", hours, len(hours))
    talks = [
        f"{'/'.join((*each.namespace, each.conversation_id))}: {counted(each.entries, 'entries')}, "
        f"{each.junk / each.entries:.0%} junk, last {each.last_at:%Y-%m-%d %H:%M}"
        for each in found.patterns
    ]
    yield from _section(counted(found.conversations, "conversations"), talks, found.conversations)
    todos = [
        f"{each.text} ({each.id}, open for {counted(each.age.days, 'days')})"
        + (f"; done, it seems: {each.done_by} says: {each.quote}" if each.done_by else "")
        for each in found.todos
    ]
    yield from _section(counted(found.open_todos, "open todos"), todos, found.open_todos)
    yield from (f"Junk by {name}: {count:,}, {count / sizes.entries:.1%}" for name, count in junk.hidden.items())
    if junk.to_hide or junk.to_show:
        yield f"By the rules as they are, filter_junk() would hide {junk.to_hide:,} more, and show {junk.to_show:,}."


def _section(title: str, lines: Sequence[str], count: int) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:_TOLD_OF_SECTION])
        if count > _TOLD_OF_SECTION:
            yield f"  … and {count - _TOLD_OF_SECTION:,} more"


def examine(
    tx: Transaction, low: str, high: str, *, now: datetime, rules: Sequence[JunkRule] = RULES, large: int = LARGE
) -> Health:
    """Look how the audit trail of the namespaces in a range of paths fares.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path behind the last.
        now: What time it is.
        rules: By which entries are junk. Default: `RULES`.
        large: From how many bytes on an archive is suggested. Default 10,000,000.
    """
    now, where = now.astimezone(UTC), {"low": low, "high": high}
    sizes = audit_store.sizes(tx, low, high)
    [ever] = query.audit_sizes(tx, **where, since=audit_store.EVER)
    todos = audit_rows.entries(tx, query.audit_open_todos(tx, **where, limit=MOST_TODOS))
    about = [(each, frozenset(terms(_text_of(each))) - _STOPS) for each in todos]
    done: dict[str, tuple[str, str]] = {}
    read, differing = 0, Counter[bool]()
    for entry in _newest(tx, low, high):
        read += 1
        is_junk = bool(reasons(entry.kind, entry.prompt, entry.reply, rules))
        differing[is_junk] += is_junk != bool(entry.junk)
        for sentence in _sentences_of_completion(entry):
            words = set(terms(sentence))
            for todo, told in about:
                if told and todo.created_at <= entry.created_at and len(words & told) >= _ENOUGH * len(told):
                    done[todo.id] = entry.id, one_line(sentence, _SHOWN)
    hidden: Counter[str] = Counter()
    for row in query.audit_junk_counts(tx, **where):
        hidden.update(dict.fromkeys(json.loads(row["junk"]), int(row["entries"])))
    [conversations] = query.audit_count_conversations(tx, **where)
    [old] = query.audit_archivable(tx, **where, before=micros(now - OLD))
    archiving = ArchiveSuggestion(now - OLD, int(old["entries"]), int(old["bytes"]))
    return Health(
        at=now,
        sizes=sizes,
        read=read,
        growth=_growth(tx, where, now, ever, sizes.message_bytes),
        runaway=_runaway_hours(tx, where, micros(now - RECENT)),
        conversations=int(conversations["found"]),
        patterns=tuple(
            ConversationSize(
                row["conversation"], namespace_of(row["path"]), int(row["entries"]), int(row["junk"]),
                moment(row["first_at"]), moment(row["last_at"]),
            )
            for row in query.audit_conversations(tx, **where, limit=MOST_CONVERSATIONS)
        ),
        open_todos=int(ever["todos"]),
        todos=tuple(
            OpenTodo(
                each.id, one_line(_text_of(each), _SHOWN), max(now - each.created_at, timedelta(0)),
                *done.get(each.id, (None, "")),
            )
            for each in sorted(todos, key=lambda each: each.created_at)
        ),
        archiving=archiving if sizes.entry_bytes + sizes.message_bytes > large else None,
        junk=JunkCheck(
            dict(hidden.most_common()),
            tuple(dict.fromkeys(rule.name for rule in rules if rule.name not in hidden)),
            to_hide=differing[True],
            to_show=differing[False],
        ),
    )  # fmt: skip


def _newest(tx: Transaction, low: str, high: str) -> Iterator[AuditEntry]:
    """The newest entries of the namespaces in a range of paths, the oldest of them first."""
    before = query.audit_newest_within(tx, low=low, high=high, skip=MOST_READ)
    after = before[0]["sequence"] if before else 0
    while found := query.audit_within(tx, low=low, high=high, after=after, limit=PAGE):
        yield from audit_rows.entries(tx, found, messages=False)
        after = found[-1]["sequence"]


def _sentences_of_completion(entry: AuditEntry) -> Iterator[str]:
    """The sentences of a reply, or of a self-reflection, that say that something was completed."""
    text = entry.reply[:_LOOKED_AT_OF_REPLY]
    if not entry.junk and (entry.kind == REFLECTION or is_said(entry)) and _SAYS_DONE.search(text):
        for sentence in _SENTENCE.split(text):
            if _SAYS_DONE.search(sentence) and not _SAYS_NOT.search(sentence):
                yield sentence


def _growth(
    tx: Transaction, where: Mapping[str, str], now: datetime, ever: Row, message_bytes: int
) -> tuple[Growth, ...]:
    if not ever["entries"]:
        return ()
    of_call = message_bytes / ever["calls"] if ever["calls"] else 0.0
    age = (now - moment(ever["first_at"])) / timedelta(days=1)
    found = []
    for days in _SPANS:
        [late] = query.audit_sizes(tx, **where, since=micros(now - timedelta(days=days)))
        size = round(int(late["bytes"]) + of_call * int(late["calls"]))
        found.append(Growth(min(max(age, 1.0), float(days)), int(late["entries"]), size))
    return tuple(found)


def _runaway_hours(tx: Transaction, where: Mapping[str, str], since: int) -> tuple[RateAnomaly, ...]:
    rows = query.audit_count_hours(tx, **where, since=since)
    usual = float(median(row["entries"] for row in rows)) if rows else 0.0
    most = max(LEAST_IN_HOUR, TIMES_USUAL * usual)
    many = sorted((row for row in rows if row["entries"] > most), key=lambda row: -row["entries"])
    return tuple(RateAnomaly(moment(row["hour"] * _HOUR), int(row["entries"]), usual) for row in many[:MOST_RUNAWAYS])


def _text_of(todo: AuditEntry) -> str:
    return todo.prompt.removeprefix(MARKS["todo"][0]).strip()
