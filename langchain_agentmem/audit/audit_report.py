"""The health report of an audit trail: size, growth, rate, todos, archiving, and junk rules.

    print(memory.audit.report())

The database computes the counts, which cover all entries. Only the texts of the newest `MOST_READ` entries are read, so
that a report takes seconds for a trail of any length. A report is computed in one transaction, which changes nothing.

**Runaway hours**: hours with more than `RUNAWAY_MIN_ENTRIES` entries, and more than `RUNAWAY_FACTOR` times as
many as the median hour.

**Open todos**: a todo that seems done is listed with evidence: a sentence of a later reply or reflection that reports a
completion and repeats words of the todo. The report does not close the todo. Evidence is found in English texts only.
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
from langchain_agentmem.audit.junk_rules import JunkRule, junk_reasons, load_pattern
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import format_count, format_size, join_lines
from langchain_agentmem.language_models.model_calls import NO_STREAM
from langchain_agentmem.search.analysis import STOP_WORDS, extract_terms
from langchain_agentmem.storage import Transaction, query

MOST_READ = 20_000
"""The maximum number of newest entries whose texts are read; all entries are counted."""
PAGE = 100
"""The number of entries that one query reads."""
LARGE_SIZE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB."""
ARCHIVE_AGE = timedelta(days=30)
"""The minimum age of archivable entries, and the period of growth and runaway hours."""
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10
"""The maximum numbers of listed conversations and runaway hours."""
MOST_TODOS = 1_000
"""The maximum number of open todos that are listed and compared with later entries; all are counted."""
RUNAWAY_MIN_ENTRIES, RUNAWAY_FACTOR = 200, 10
"""An hour is a runaway hour if its entries exceed this number, and this multiple of the median hour's entries."""

_COUNT_FIELDS = ("entries", "junk", "archived", "recent", "open_todos", "archivable", "archivable_size")
_HOUR = 3_600_000_000  # microseconds
_SECTION_LINES = 5  # the maximum lines of a section of the printed report
_REPLY_CHARS = 10_000  # the maximum characters of a reply that are searched for evidence
_QUOTE_CHARS = 160  # the maximum characters of a quoted todo or sentence
_MIN_OVERLAP = 2 / 3
"""The share of a todo's words that a sentence must contain to be evidence of its completion."""
_SENTENCE_END = re.compile(r"(?<=[.!?;\n])\s+|\n")
_REPORTS_DONE, _REPORTS_NOT_DONE = (re.compile(load_pattern(name), re.IGNORECASE) for name in ("done", "not_done"))
_STOP_TERMS = frozenset(term for word in STOP_WORDS for term in extract_terms(word))


class RateAnomaly(NamedTuple):
    """An hour with far more entries than usual.

    Attributes:
        hour: The start of the hour, in UTC.
        entries: The number of entries.
        usual: The number of entries of the median hour.
    """

    hour: datetime
    entries: int
    usual: float


class ConversationSize(NamedTuple):
    """The size of a conversation in exchanges and model calls.

    Attributes:
        conversation_id: The id.
        namespace: The namespace.
        entries: The number of entries.
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
        id: The id.
        text: The text.
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
        size: The bytes of the entries and of the messages of model calls. These messages may be shared with
            conversations and checkpoints.
        recent: The number of entries of the last 30 days.
        read: The number of newest entries that were read to find completed todos and to apply the junk rules.
        runaway: The hours of the last 30 days with far more entries than usual.
        conversations: The number of conversations.
        largest: The conversations with the most entries.
        open_todos: The number of open todos.
        todos: The open todos, the oldest first, with any evidence of their completion.
        is_large: True if the trail has more than 10 MB, so that old entries should be archived.
        archivable: The number of unarchived entries older than 30 days.
        archivable_size: The bytes of the archivable entries.
        hidden: The number of entries that each junk rule hides, by rule name. Several rules may hide one entry.
        to_hide: The number of read entries that are visible, but junk by the current rules.
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
        return "\n".join(_format_report(self))


def _format_report(report: AuditHealth) -> Iterator[str]:
    hidden = f"{report.junk:,} hidden as junk, {report.archived:,} archived."
    yield f"{format_count(report.entries, 'entries')}, {format_size(report.size)}; {hidden}"
    if report.read < report.entries:
        yield f"The counts cover all entries. Texts were read only from the newest {report.read:,}."
    if report.entries:
        yield f"Last 30 days: {format_count(report.recent, 'entries')}."
    if report.is_large:
        archivable = f"{format_count(report.archivable, 'entries')} ({format_size(report.archivable_size)})"
        yield f"The trail is large. Not archived and older than 30 days: {archivable}. Call archive() to compress them."
    hours = [f"{each.hour:%Y-%m-%d %H}:00: {each.entries:,}, usually {each.usual:,.0f}" for each in report.runaway]
    yield from _format_section("Hours with too many entries", hours, len(hours))
    conversations = [
        f"{'/'.join((*each.namespace, each.conversation_id))}: {format_count(each.entries, 'entries')}, "
        f"{each.junk / each.entries:.0%} junk, last {each.last_at:%Y-%m-%d %H:%M}"
        for each in report.largest
    ]
    yield from _format_section(format_count(report.conversations, "conversations"), conversations, report.conversations)
    todos = [
        f"{each.text} ({each.id}, open for {format_count(each.age.days, 'days')})"
        + (f"; seems done, see {each.done_by}: {each.quote}" if each.done_by else "")
        for each in report.todos
    ]
    yield from _format_section(format_count(report.open_todos, "open todos"), todos, report.open_todos)
    yield from (f"Junk by {name}: {count:,}, {count / report.entries:.1%}" for name, count in report.hidden.items())
    if report.to_hide or report.to_show:
        yield f"With the current rules, filter_junk() would hide {report.to_hide:,} more, and show {report.to_show:,}."


def _format_section(title: str, lines: Sequence[str], count: int) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:_SECTION_LINES])
        if count > _SECTION_LINES:
            yield f"  … and {count - _SECTION_LINES:,} more"


def make_report(tx: Transaction, low: str, high: str, *, now: datetime, rules: Sequence[JunkRule]) -> AuditHealth:
    """Make the health report for the namespaces in a range of paths.

    Args:
        tx: The transaction.
        low: The lower end of the range, inclusive.
        high: The upper end of the range, exclusive.
        now: The current time.
        rules: The junk rules.
    """
    now, path_range = now.astimezone(UTC), {"low": low, "high": high}
    since = to_micros(now - ARCHIVE_AGE)
    [sizes] = query.audit_sizes(tx, **path_range, since=since)
    [messages] = query.audit_message_sizes(tx, **path_range)
    todos = audit_rows.load_entries(tx, query.audit_open_todos(tx, **path_range, limit=MOST_TODOS))
    todo_terms = [(todo, frozenset(extract_terms(_todo_text(todo))) - _STOP_TERMS) for todo in todos]
    evidence: dict[str, tuple[str, str]] = {}  # for each todo, the id of an entry and its sentence
    read, to_change = 0, Counter[bool]()  # to_change[True] counts the entries to hide, to_change[False] those to show
    for entry in _newest_entries(tx, low, high):
        read += 1
        is_junk = bool(junk_reasons(entry.kind, entry.prompt, entry.reply, rules))
        to_change[is_junk] += is_junk != bool(entry.junk)
        for sentence in _completion_sentences(entry):
            words = set(extract_terms(sentence))
            for todo, terms in todo_terms:
                if todo.created_at <= entry.created_at and terms and len(words & terms) >= _MIN_OVERLAP * len(terms):
                    evidence[todo.id] = entry.id, join_lines(sentence, _QUOTE_CHARS)
    hidden: Counter[str] = Counter()
    for row in query.audit_junk_counts(tx, **path_range):
        hidden.update(dict.fromkeys(json.loads(row["junk"]), int(row["entries"])))
    conversations = query.audit_conversations(tx, **path_range, limit=MOST_CONVERSATIONS)
    size = int(sizes["bytes"]) + int(messages["bytes"])
    return AuditHealth(
        **{name: int(sizes[name]) for name in _COUNT_FIELDS},
        size=size,
        read=read,
        runaway=_runaway_hours(tx, path_range, since),
        conversations=int(conversations[0]["total"]) if conversations else 0,
        largest=tuple(
            ConversationSize(
                row["conversation"], namespace_of(row["path"]), int(row["entries"]), int(row["junk"]),
                from_micros(row["last_at"]),
            )
            for row in conversations
        ),
        todos=tuple(
            OpenTodo(
                todo.id, join_lines(_todo_text(todo), _QUOTE_CHARS), max(now - todo.created_at, timedelta(0)),
                *evidence.get(todo.id, (None, "")),
            )
            for todo in sorted(todos, key=lambda todo: todo.created_at)
        ),
        is_large=size > LARGE_SIZE,
        hidden=dict(hidden.most_common()),
        to_hide=to_change[True],
        to_show=to_change[False],
    )  # fmt: skip


def _newest_entries(tx: Transaction, low: str, high: str) -> Iterator[AuditEntry]:
    """Yield the newest `MOST_READ` entries of the namespaces in a range, the oldest first."""
    last_skipped = query.audit_newest_start(tx, low=low, high=high, skip=MOST_READ)
    after = last_skipped[0]["sequence"] if last_skipped else 0
    while rows := query.audit_entries_within(tx, low=low, high=high, after=after, limit=PAGE):
        yield from audit_rows.load_entries(tx, rows, messages=False)
        after = rows[-1]["sequence"]


def _completion_sentences(entry: AuditEntry) -> Iterator[str]:
    """Yield the sentences of a reply or reflection that report a completion."""
    text = entry.reply[:_REPLY_CHARS]
    if not entry.junk and (entry.kind == "reflection" or _is_agent_entry(entry)) and _REPORTS_DONE.search(text):
        for sentence in _SENTENCE_END.split(text):
            if _REPORTS_DONE.search(sentence) and not _REPORTS_NOT_DONE.search(sentence):
                yield sentence


def _is_agent_entry(entry: AuditEntry) -> bool:
    """Return whether an entry is an exchange, or a model call that the agent made."""
    tags = entry.extra.get("tags")  # an imported entry may contain anything
    is_memory_call = isinstance(tags, list | tuple) and NO_STREAM in tags  # the memory's own calls have this tag
    return entry.kind == "exchange" or (entry.kind == "call" and not is_memory_call)


def _runaway_hours(tx: Transaction, path_range: Mapping[str, str], since: int) -> tuple[RateAnomaly, ...]:
    rows = query.audit_counts_by_hour(tx, **path_range, since=since)
    usual = float(median(row["entries"] for row in rows)) if rows else 0.0
    limit = max(RUNAWAY_MIN_ENTRIES, RUNAWAY_FACTOR * usual)
    peaks = sorted((row for row in rows if row["entries"] > limit), key=lambda row: -row["entries"])
    return tuple(RateAnomaly(from_micros(row["hour"] * _HOUR), row["entries"], usual) for row in peaks[:MOST_RUNAWAYS])


def _todo_text(todo: AuditEntry) -> str:
    return todo.prompt.removeprefix(MARKS["todo"][0]).strip()
