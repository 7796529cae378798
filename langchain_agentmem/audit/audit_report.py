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

from langchain_agentmem.audit import audit_rows
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.junk_rules import JunkRule, pattern, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import counted, one_line, size_of
from langchain_agentmem.language_models.model_calls import NO_STREAM
from langchain_agentmem.search.analysis import STOP_WORDS, terms
from langchain_agentmem.storage import Transaction, query

MOST_READ = 20_000
"""So many entries are read, the newest; all of them are counted."""
PAGE = 100
LARGE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB."""
OLD = timedelta(days=30)
"""How old entries are that could be archived, and how far back growth and runaway hours reach."""
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10
MOST_TODOS = 1_000
"""So many open todos are looked for among later entries; of the rest only the number is told."""
LEAST_IN_HOUR, TIMES_USUAL = 200, 10
"""An hour runs away with more entries than the first, and more than the second times those of the median hour."""

_COUNTED = ("entries", "junk", "archived", "recent", "open_todos", "archivable", "archivable_size")
_HOUR = 3_600_000_000
_TOLD_OF_SECTION = 5
_LOOKED_AT_OF_REPLY = 10_000
_SHOWN = 160
_ENOUGH = 2 / 3
"""The share of a todo's words that a sentence holds which says that it is done."""
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\n")
_SAYS_DONE, _SAYS_NOT = (re.compile(pattern(name), re.IGNORECASE) for name in ("done", "not_done"))
_STOPS = frozenset(each for word in STOP_WORDS for each in terms(word))


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
        last_at: When its last entry was made.
    """

    conversation_id: str
    namespace: Namespace
    entries: int
    junk: int
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


class AuditHealth(NamedTuple):
    """How an audit trail fares.

    Attributes:
        entries: Entries, without those that were erased.
        junk: Those of them that are hidden as junk.
        archived: Those of them that are archived.
        size: Bytes of the entries, and of the messages of model calls; conversations and checkpoints may share these.
        recent: Entries of the last 30 days.
        read: How many entries were read, the newest: for signs of todos, and what is junk by now.
        runaway: Hours of the last 30 days with far more entries than usual.
        conversations: How many conversations there are.
        largest: Those of them with most entries.
        open_todos: How many todos are open.
        todos: The open todos, the oldest first, with what suggests that they are done.
        is_large: Whether the trail is so large that its old entries should be archived.
        archivable: How many entries are more than 30 days old, and not archived.
        archivable_size: Their bytes.
        hidden: How many entries each rule for junk hides, by its name; an entry may be hidden by several.
        to_hide: How many of the entries that were read are shown, and junk by the rules as they are now.
        to_show: How many of them are hidden, and are none.
    """

    entries: int
    junk: int
    archived: int
    size: int
    recent: int
    read: int
    runaway: tuple[RateAnomaly, ...]
    conversations: int
    largest: tuple[ConversationSize, ...]
    open_todos: int
    todos: tuple[OpenTodo, ...]
    is_large: bool
    archivable: int
    archivable_size: int
    hidden: Mapping[str, int]
    to_hide: int
    to_show: int

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(found: AuditHealth) -> Iterator[str]:
    hidden = f"{found.junk:,} hidden as junk, {found.archived:,} archived."
    yield f"{counted(found.entries, 'entries')}, {size_of(found.size)}; {hidden}"
    if found.read < found.entries:
        yield f"All are counted, and the newest {found.read:,} are read."
    if found.entries:
        yield f"Last 30 days: {counted(found.recent, 'entries')}."
    if found.is_large:
        yield (
            f"It is large. Archive {counted(found.archivable, 'entries')} of more than 30 days ago, which take "
            f"{size_of(found.archivable_size)}."
        )
    hours = [f"{each.hour:%Y-%m-%d %H}:00: {each.entries:,}, usual are {each.usual:,.0f}" for each in found.runaway]
    yield from _section("Hours with too many entries", hours, len(hours))
    talks = [
        f"{'/'.join((*each.namespace, each.conversation_id))}: {counted(each.entries, 'entries')}, "
        f"{each.junk / each.entries:.0%} junk, last {each.last_at:%Y-%m-%d %H:%M}"
        for each in found.largest
    ]
    yield from _section(counted(found.conversations, "conversations"), talks, found.conversations)
    todos = [
        f"{each.text} ({each.id}, open for {counted(each.age.days, 'days')})"
        + (f"; done, it seems: {each.done_by} says: {each.quote}" if each.done_by else "")
        for each in found.todos
    ]
    yield from _section(counted(found.open_todos, "open todos"), todos, found.open_todos)
    yield from (f"Junk by {name}: {count:,}, {count / found.entries:.1%}" for name, count in found.hidden.items())
    if found.to_hide or found.to_show:
        yield f"By the rules as they are, filter_junk() would hide {found.to_hide:,} more, and show {found.to_show:,}."


def _section(title: str, lines: Sequence[str], count: int) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:_TOLD_OF_SECTION])
        if count > _TOLD_OF_SECTION:
            yield f"  … and {count - _TOLD_OF_SECTION:,} more"


def examine(tx: Transaction, low: str, high: str, *, now: datetime, rules: Sequence[JunkRule]) -> AuditHealth:
    """Look how the audit trail of the namespaces in a range of paths fares.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path behind the last.
        now: What time it is.
        rules: By which entries are junk.
    """
    now, where = now.astimezone(UTC), {"low": low, "high": high}
    since = micros(now - OLD)
    [sizes] = query.audit_sizes(tx, **where, since=since)
    [messages] = query.audit_message_sizes(tx, **where)
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
    for each in query.audit_junk_counts(tx, **where):
        hidden.update(dict.fromkeys(json.loads(each["junk"]), int(each["entries"])))
    conversations = query.audit_conversations(tx, **where, limit=MOST_CONVERSATIONS)
    size = int(sizes["bytes"]) + int(messages["bytes"])
    return AuditHealth(
        **{name: int(sizes[name]) for name in _COUNTED},
        size=size,
        read=read,
        runaway=_runaway_hours(tx, where, since),
        conversations=int(conversations[0]["found"]) if conversations else 0,
        largest=tuple(
            ConversationSize(
                each["conversation"], namespace_of(each["path"]), int(each["entries"]), int(each["junk"]),
                moment(each["last_at"]),
            )
            for each in conversations
        ),
        todos=tuple(
            OpenTodo(
                each.id, one_line(_text_of(each), _SHOWN), max(now - each.created_at, timedelta(0)),
                *done.get(each.id, (None, "")),
            )
            for each in sorted(todos, key=lambda each: each.created_at)
        ),
        is_large=size > LARGE,
        hidden=dict(hidden.most_common()),
        to_hide=differing[True],
        to_show=differing[False],
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
    if not entry.junk and (entry.kind == "reflection" or _is_said(entry)) and _SAYS_DONE.search(text):
        for sentence in _SENTENCE.split(text):
            if _SAYS_DONE.search(sentence) and not _SAYS_NOT.search(sentence):
                yield sentence


def _is_said(entry: AuditEntry) -> bool:
    """Whether an entry is something that a user asked: no todo and the like, and no call that memory makes itself."""
    tags = entry.extra.get("tags")  # another database may have sent anything
    is_own = isinstance(tags, list | tuple) and NO_STREAM in tags
    return entry.kind == "exchange" or (entry.kind == "call" and not is_own)


def _runaway_hours(tx: Transaction, where: Mapping[str, str], since: int) -> tuple[RateAnomaly, ...]:
    rows = query.audit_count_hours(tx, **where, since=since)
    usual = float(median(row["entries"] for row in rows)) if rows else 0.0
    most = max(LEAST_IN_HOUR, TIMES_USUAL * usual)
    many = sorted((row for row in rows if row["entries"] > most), key=lambda row: -row["entries"])
    return tuple(RateAnomaly(moment(row["hour"] * _HOUR), int(row["entries"]), usual) for row in many[:MOST_RUNAWAYS])


def _text_of(todo: AuditEntry) -> str:
    return todo.prompt.removeprefix(MARKS["todo"][0]).strip()
