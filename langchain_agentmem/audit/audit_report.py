"""The health report of an audit trail: size, growth, rate, todos, archiving, and junk rules.

    print(memory.audit.report())

Counts come from the database and cover all entries. Only the texts of the newest `MOST_READ` entries are read, so that
a report takes seconds whatever the length of the trail. A report is computed on demand, in one transaction, and changes
nothing.

**Runaway hours**: hours with more than `TIMES_USUAL` times the entries of the median hour. Hours below a floor of
`LEAST_IN_HOUR` entries are ignored.

**Open todos**: a todo that seems done is listed with a later reply or self-reflection as evidence: one of its sentences
reports a completion, in words of the todo. The report closes no todo. English only; in other languages todos are listed
without suggestions.
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
"""The number of newest entries that are read; all entries are counted."""
PAGE = 100
LARGE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB."""
OLD = timedelta(days=30)
"""The least age of archivable entries, and the period of growth and runaway hours."""
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10
MOST_TODOS = 1_000
"""The most open todos that are listed and compared with later entries; further ones are only counted."""
LEAST_IN_HOUR, TIMES_USUAL = 200, 10
"""A runaway hour has more than `LEAST_IN_HOUR` entries, and more than `TIMES_USUAL` times the median hour's."""

_COUNTED = ("entries", "junk", "archived", "recent", "open_todos", "archivable", "archivable_size")
_HOUR = 3_600_000_000
_TOLD_OF_SECTION = 5
_LOOKED_AT_OF_REPLY = 10_000
_SHOWN = 160
_ENOUGH = 2 / 3
"""The share of a todo's words that a sentence must have as evidence of its completion."""
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
    """The size of a conversation in exchanges and model calls.

    Attributes:
        conversation_id: Its id.
        namespace: Its namespace.
        entries: The number of its entries.
        junk: The number of entries hidden as junk.
        last_at: The creation time of its last entry.
    """

    conversation_id: str
    namespace: Namespace
    entries: int
    junk: int
    last_at: datetime


class OpenTodo(NamedTuple):
    """An open todo, with evidence of its completion if there is any.

    Attributes:
        id: Its id.
        text: Its text.
        age: The time since its creation.
        done_by: The id of the latest entry that reports its completion, or None.
        quote: The sentence that reports the completion.
    """

    id: str
    text: str
    age: timedelta
    done_by: str | None
    quote: str


class AuditHealth(NamedTuple):
    """The health report of an audit trail.

    Attributes:
        entries: The number of entries, without erased ones.
        junk: The number of entries hidden as junk.
        archived: The number of archived entries.
        size: Bytes of the entries, and of the messages of model calls; conversations and checkpoints may share these.
        recent: The number of entries of the last 30 days.
        read: The number of newest entries that were read, for completed todos and changed junk rules.
        runaway: Hours of the last 30 days with far more entries than usual.
        conversations: The number of conversations.
        largest: The conversations with the most entries.
        open_todos: The number of open todos.
        todos: The open todos, the oldest first, with evidence of their completion.
        is_large: True if the trail has more than 10 MB, so that old entries should be archived.
        archivable: The number of entries that are more than 30 days old and not archived.
        archivable_size: The bytes of the archivable entries.
        hidden: The number of entries that each junk rule hides, by its name; several rules may hide one entry.
        to_hide: The number of read entries that are shown, but junk by the current rules.
        to_show: The number of read entries that are hidden, but not junk by the current rules.
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
    """Make the health report for the namespaces in a range of paths.

    Args:
        tx: The transaction.
        low: The first path of the namespaces.
        high: The path after the last.
        now: The current time.
        rules: The junk rules.
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
    """Yield the newest entries of the namespaces in a range of paths, in ascending order."""
    before = query.audit_newest_within(tx, low=low, high=high, skip=MOST_READ)
    after = before[0]["sequence"] if before else 0
    while found := query.audit_within(tx, low=low, high=high, after=after, limit=PAGE):
        yield from audit_rows.entries(tx, found, messages=False)
        after = found[-1]["sequence"]


def _sentences_of_completion(entry: AuditEntry) -> Iterator[str]:
    """Yield the sentences of a reply or self-reflection that report a completion."""
    text = entry.reply[:_LOOKED_AT_OF_REPLY]
    if not entry.junk and (entry.kind == "reflection" or _is_said(entry)) and _SAYS_DONE.search(text):
        for sentence in _SENTENCE.split(text):
            if _SAYS_DONE.search(sentence) and not _SAYS_NOT.search(sentence):
                yield sentence


def _is_said(entry: AuditEntry) -> bool:
    """Return whether an entry is an exchange, or a model call that the memory did not make."""
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
