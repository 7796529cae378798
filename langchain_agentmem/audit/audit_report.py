"""Reports on an audit trail: `examining` makes the health report, `learning` the insights. No model is asked.

    print(memory.audit.report())
    print(memory.audit.insights())

Both walk along the trail once; a report is computed on demand and changes nothing.

**Runaways.** What of an audit trail runs away: far more entries than is usual, or the same one again and again.

What is usual is the median, and how much it varies is told by the distances from it, of which again the median counts:
neither is moved by the few that run away. Where little is going on anything looks like much, so nothing below a floor
counts.

**Open todos**, and what suggests that one of them is done, or stands there twice.

A todo looks done where a later reply, or the agent's report on itself, says in one sentence that something was
completed, in words of what the todo is about. It is a suggestion with the entry's id: nobody closes a todo for it.
English words only; in other languages todos are listed, and nothing is suggested.

**Topics**: words and short phrases that come up in many conversations, and not in all of them.

No model is asked. A word is counted once a conversation, so that one long talk about a thing does not make it a common
topic. Its weight is that number, times how rare it is among the conversations. What nearly all of many conversations
have is how people speak there, and no topic. Where a word mostly stands in one phrase, the phrase is the topic.

Of many prompts those of some conversations are counted, chosen by their names' digests, and stand for the others.

**Outcomes**: whether what users asked was done, by what went wrong, what the agent said, and what the user said next.

A turn is one prompt of the user with all model calls and the reply that answer it. It *failed* where

- its last call ended with an error, or
- its reply says that it could not be done ("I was unable to …", "Something went wrong"), or
- the next prompt of its conversation corrects it, complains ("No, I meant …", "Still broken", "Try again"), or asks the
  same again,

and *succeeded* where the next prompt thanks, or goes on. What came last in its conversation, or is in none, may have
been either: it is not counted, unless it failed by itself. The words that are known are English; where users write in
another language, only errors and repeated prompts tell of failures.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from hashlib import blake2b
from itertools import chain, pairwise
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import CALL, EXCHANGE, OPEN, REFLECTION, TODO, AuditEntry
from langchain_agentmem.audit.audit_rows import compressed
from langchain_agentmem.audit.audit_store import DAY, EntrySizes, SeenEntry, is_said, walk
from langchain_agentmem.audit.junk_rules import RULES, WORDS, JunkRule, patterns, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.clock import EPOCH, LATEST, micros, moment
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.language_models.model_calls import Run, Work, across
from langchain_agentmem.search.analysis import STOP_WORDS, question, terms
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.steps import Row

MOST_JUDGED = 100_000
"""Of more entries some are judged anew."""

_TRIED = 500
_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSuggestion:
    """What could be archived.

    Attributes:
        before: Entries made before this time, that are not archived yet.
        entries: How many there are.
        size: Their bytes.
        saved: About how many bytes would be saved, by trying some of them.
    """

    before: datetime
    entries: int
    size: int
    saved: int

    def __str__(self) -> str:
        if not self.entries:
            return "It is large, but has no old entries that are not archived: what it needs is room, or to erase some."
        return (
            f"It is large. Archive {self.entries:,} entries from before {self.before:%Y-%m-%d}: of their "
            f"{self.size / 1e6:,.1f} MB about {self.saved / 1e6:,.1f} MB would be saved. They are found as before."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JunkCheck:
    """How the rules for junk do.

    Attributes:
        hidden: How many entries each rule hides, by its name; an entry may be hidden by several.
        idle: The rules by which no entry is junk.
        gone: Names by which entries are hidden, of which there is no rule any more.
        to_hide: How many entries are shown that are junk by the rules as they are now. Of more than 100,000 entries
            some are tried, evenly spread, and this is about how many there are; as is `to_show`.
        to_show: How many are hidden that are not.
        examples: The ids of some of both.
    """

    hidden: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    to_hide: int = 0
    to_show: int = 0
    examples: tuple[str, ...] = ()

    def lines(self, sizes: EntrySizes) -> Iterable[str]:
        """What it says, line by line.

        Args:
            sizes: How many entries there are.
        """
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


class Lengths:
    """Tells how long the entries of some conversations are; walks along the audit trail.

    Args:
        wanted: The conversations: where they are, and their ids.
    """

    def __init__(self, wanted: Collection[tuple[Namespace, str]]) -> None:
        self._found = {each: [0, 0] for each in wanted}

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry."""
        entry = seen.entry
        if entry.conversation_id is None:
            return
        if (found := self._found.get((entry.namespace, entry.conversation_id))) is not None:
            found[0] += 1
            found[1] += len(entry.prompt) + len(entry.reply)

    def mean(self, namespace: Namespace, conversation: str) -> float:
        """How many characters an entry of a conversation has on average, prompt and reply."""
        entries, characters = self._found[namespace, conversation]
        return characters / entries if entries else 0.0


class Days:
    """Counts entries by the day on which they were made; walks along the audit trail.

    Attributes:
        found: By day since 1970, how many entries were made, their bytes, and how many of them were model calls.
    """

    def __init__(self) -> None:
        self.found: dict[int, list[int]] = {}

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry."""
        found = self.found.setdefault((seen.entry.created_at - EPOCH).days, [0, 0, 0])
        found[0] += 1
        found[1] += len(seen.body)
        found[2] += seen.entry.kind == CALL


class Archivable:
    """Finds what could be archived, and tries some of it; walks along the audit trail.

    Args:
        before: Entries made before this time are old.
    """

    def __init__(self, before: datetime) -> None:
        self._before = before
        self._entries = self._size = 0
        self._tried = self._packed = 0
        self._every = 1

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry."""
        if seen.entry.archived or seen.entry.created_at >= self._before:
            return
        self._entries += 1
        self._size += len(seen.body)
        # The more there are, the fewer of them are tried: of any number about as many.
        if self._entries % self._every == 0:
            self._tried += len(seen.body)
            self._packed += len(compressed(seen.body))
        if self._entries >= self._every * _TRIED:
            self._every *= 2

    def found(self, size: int, large: int) -> ArchiveSuggestion | None:
        """What could be archived of an audit trail of so many bytes; None where it is not that large."""
        if size <= large:
            return None
        share = 1 - self._packed / self._tried if self._tried else 0.0
        saved = round(self._size * share)
        return ArchiveSuggestion(before=self._before, entries=self._entries, size=self._size, saved=saved)


class JudgedConversation:
    """Sees how the rules for junk do; walks along the audit trail.

    Args:
        rules: By which entries are junk.
        expected: About how many entries there will be.
    """

    def __init__(self, rules: Sequence[JunkRule], expected: int) -> None:
        self._rules = rules
        self._every = 1 + expected // (MOST_JUDGED + 1)
        self._count = 0
        self._hidden: Counter[str] = Counter()
        self._now: set[str] = set()
        self._to_hide = self._to_show = 0
        self._examples: list[str] = []

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry."""
        entry = seen.entry
        self._hidden.update(entry.junk)
        self._count += 1
        if self._count % self._every:
            return
        now = reasons(entry.kind, entry.prompt, entry.reply, self._rules)
        self._now.update(now)
        if bool(now) == bool(entry.junk):
            return
        if now:
            self._to_hide += 1
        else:
            self._to_show += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(entry.id)

    def found(self) -> JunkCheck:
        """How the rules do."""
        names = list(dict.fromkeys(rule.name for rule in self._rules))
        return JunkCheck(
            hidden=dict(self._hidden.most_common()),
            idle=tuple(name for name in names if name not in self._now and name not in self._hidden),
            gone=tuple(sorted(self._hidden.keys() - set(names))),
            to_hide=self._to_hide * self._every,
            to_show=self._to_show * self._every,
            examples=tuple(self._examples),
        )


LEAST_IN_HOUR, LEAST_IN_CONVERSATION, LEAST_REPEATED = 200, 200, 25
"""So many entries of an hour, of a conversation, or that are the same, are never too many."""

What: TypeAlias = Literal["hour", "conversation", "repeated"]

_DEVIATIONS = 8.0
_OF_NORMAL = 1.4826  # by which the median distance tells the standard deviation of what is normally distributed
_COMPARED = 300
_MOST_KINDS = 20_000
_SHOWN_OF_PROMPT = 120
_NUMBERS = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+", re.IGNORECASE)
_WHITESPACE = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Runaway:
    """Something of which there are too many entries.

    Attributes:
        what: "hour" for the entries of one hour, "conversation" for those of one conversation, "repeated" for those
            that say the same but for numbers, letter case and blanks.
        name: The hour in ISO 8601, the conversation's id, or how the repeated entries begin.
        entries: How many there are.
        usual: How many are usual: the median. None for what is repeated.
        first_at: When the first of them was made.
        last_at: When the last.
        namespace: Where the conversation is. Default: the root.
        example: The id of the last of the repeated entries. Default None.
    """

    what: What
    name: str
    entries: int
    usual: float | None
    first_at: datetime
    last_at: datetime
    namespace: Namespace = ()
    example: str | None = None

    def __str__(self) -> str:
        if self.what == "repeated":
            span = f"{self.first_at:%Y-%m-%d %H:%M} to {self.last_at:%Y-%m-%d %H:%M}"
            return f"{self.entries:,} entries say the same, {span}: {self.name} ({self.example})"
        where = f"the hour from {self.first_at:%Y-%m-%d %H}:00" if self.what == "hour" else f"conversation {self.name}"
        return f"{where} has {self.entries:,} entries; usual are {self.usual:,.0f}"


class Usual(NamedTuple):
    """What is usual.

    Attributes:
        median: As many entries as this is usual.
        most: More than these are too many.
    """

    median: float
    most: int


def usual(counts: Iterable[tuple[int, int]], least: int) -> Usual:
    """What is usual among some counts of entries.

    Args:
        counts: How many entries, and how often there were so many.
        least: So many are never too many.
    """
    values = [value for value, times in counts for _ in range(times)]
    if not values:
        return Usual(0.0, least)
    middle = float(median(values))
    distance = median(abs(value - middle) for value in values)
    # Counts vary by chance at least as much as their root says, also where most of them are equal.
    spread = max(_OF_NORMAL * distance, middle**0.5, 1.0)
    return Usual(middle, max(least, round(middle + _DEVIATIONS * spread)))


@dataclass(slots=True)
class _Same:
    name: str
    example: str
    entries: int
    first_at: datetime
    last_at: datetime


class Repeats:
    """Finds entries that say the same again and again; walks along the audit trail.

    Args:
        since: Entries from then on are looked at.
        least: So many of the same are not too many.
    """

    def __init__(self, since: datetime, least: int = LEAST_REPEATED) -> None:
        self._since = since
        self._least = least
        self._same: dict[bytes, _Same] = {}
        self._given_up = 0

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry; what is hidden as junk may be said as often as one likes."""
        entry = seen.entry
        if entry.junk or not is_said(entry) or entry.created_at < self._since:
            return
        key = _key(entry)
        if (same := self._same.get(key)) is None:
            if len(self._same) >= _MOST_KINDS:
                self._forget()
            name = _WHITESPACE.sub(" ", entry.prompt[:_SHOWN_OF_PROMPT]).strip()
            self._same[key] = _Same(name, entry.id, 1, entry.created_at, entry.created_at)
            return
        same.entries += 1
        same.example = entry.id
        same.first_at = min(same.first_at, entry.created_at)
        same.last_at = max(same.last_at, entry.created_at)

    def found(self, most: int) -> tuple[Runaway, ...]:
        """What is repeated too often, most often first."""
        too_often = [same for same in self._same.values() if same.entries > self._least]
        too_often.sort(key=lambda same: (-same.entries, same.example))
        return tuple(
            Runaway(
                what="repeated",
                name=same.name,
                entries=same.entries,
                usual=None,
                first_at=same.first_at,
                last_at=same.last_at,
                example=same.example,
            )
            for same in too_often[:most]
        )

    def _forget(self) -> None:
        """Forget what was said least often so far."""
        while len(self._same) > _MOST_KINDS // 2:
            self._given_up += 1
            self._same = {key: same for key, same in self._same.items() if same.entries > self._given_up}


def _key(entry: AuditEntry) -> bytes:
    told = "\x1f".join(_without_numbers(text) for text in (entry.prompt, entry.reply, entry.error or ""))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _without_numbers(text: str) -> str:
    """How a text begins and ends, but for numbers, letter case and blanks."""
    ends = text if len(text) <= 2 * _COMPARED else f"{text[:_COMPARED]} \u2026 {text[-_COMPARED:]}"
    return _WHITESPACE.sub(" ", _NUMBERS.sub("0", ends.casefold())).strip()


MOST_TODOS = 1_000
"""So many open todos are looked for among later entries; of the rest only the number is told."""

_MARK = MARKS["todo"][0]
_LOOKED_AT_OF_REPLY = 10_000
_SHOWN = 160
_MOST_QUOTES = 3
_ENOUGH = 2 / 3
_ALIKE = 0.8
_FEW = 2  # words, all of which must be there
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\n")
_LISTS = WORDS["report"]["lists"]
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns("report").items()}
_TODO_STOPS = frozenset(each for word in STOP_WORDS for each in terms(word)) | frozenset(terms(_LISTS["asking"]))
_VERBS = frozenset(terms(_LISTS["verbs"]))


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
        same_as: The id of an older open todo that says nearly the same. Default None.
    """

    id: str
    text: str
    age: timedelta
    signs: tuple[Sign, ...] = ()
    same_as: str | None = None

    def __str__(self) -> str:
        days = self.age // timedelta(days=1)
        told = f"{self.text} ({self.id}, open for {days:,} {'day' if days == 1 else 'days'})"
        if self.same_as is not None:
            told += f"; nearly the same as {self.same_as}"
        if self.signs:
            told += f"; done, it seems: {self.signs[0].entry_id} says: {self.signs[0].quote}"
        return told


@dataclass(slots=True)
class _Todo:
    id: str
    text: str
    created_at: datetime
    terms: frozenset[str]
    about: frozenset[str]
    signs: list[Sign] = field(default_factory=list)
    same_as: str | None = None


class OpenTodos:
    """Gathers the open todos; walks along the audit trail."""

    def __init__(self) -> None:
        self.count = 0
        self._todos: list[_Todo] = []
        self._about: dict[str, list[int]] = {}

    def take(self, seen: SeenEntry) -> None:
        """Look at an entry."""
        entry = seen.entry
        if entry.junk:
            return
        if entry.kind == TODO:
            if entry.status == OPEN:
                self.count += 1
                if len(self._todos) < MOST_TODOS:
                    self._add(entry.id, entry.prompt.removeprefix(_MARK).strip(), entry.created_at)
        elif self._todos and (entry.kind == REFLECTION or is_said(entry)):
            text = entry.reply[:_LOOKED_AT_OF_REPLY]
            if _PATTERNS["done"].search(text):
                self._look(entry.id, text, entry.created_at)

    def found(self, now: datetime) -> tuple[OpenTodo, ...]:
        """The open todos, the oldest first."""
        return tuple(
            OpenTodo(
                id=each.id,
                text=_short(each.text),
                age=max(now - each.created_at, timedelta(0)),
                signs=tuple(reversed(each.signs[-_MOST_QUOTES:])),
                same_as=each.same_as,
            )
            for each in sorted(self._todos, key=lambda todo: todo.created_at)
        )

    def _add(self, key: str, text: str, at: datetime) -> None:
        said = [term for term in terms(text) if term not in _TODO_STOPS]
        # What it is about: without the verb that says what to do, unless that leaves a single word, which many share.
        about = frozenset(said[1:] if len(set(said)) > _FEW and said[0] in _VERBS else said)
        todo = _Todo(key, text, at, frozenset(said), about)
        shared = Counter(place for term in about for place in self._about.get(term, ()))
        for place, _ in shared.most_common():
            other = self._todos[place]
            if len(todo.terms & other.terms) >= _ALIKE * len(todo.terms | other.terms):
                todo.same_as = other.same_as or other.id
                break
        for term in about:
            self._about.setdefault(term, []).append(len(self._todos))
        self._todos.append(todo)

    def _look(self, entry_id: str, text: str, at: datetime) -> None:
        for sentence in _SENTENCE.split(text):
            if not _PATTERNS["done"].search(sentence) or _PATTERNS["not_done"].search(sentence):
                continue
            told = {term for term in terms(sentence) if term in self._about}
            hits = Counter(place for term in told for place in self._about[term])
            for place, count in hits.items():
                todo = self._todos[place]
                needed = len(todo.about) if len(todo.about) <= _FEW else _ENOUGH * len(todo.about)
                if count >= needed and at >= todo.created_at:
                    todo.signs.append(Sign(entry_id=entry_id, quote=_short(sentence)))
                    del todo.signs[:-_MOST_QUOTES]


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _SHOWN else f"{joined[: _SHOWN - 1]}\u2026"


MOST_PHRASES = 100_000
"""So many different words and phrases are counted at a time; then those that came up least are forgotten."""
MOST_PROMPTS = 50_000
"""Of more prompts than these a half is counted, or a quarter, and so on."""

_LOOKED_AT = 2_000
_LONGEST = 3  # words of a phrase
_DIFFERENT, _DIFFERENT_IN_ALL = 64, 4_096
_MANY = 20
_NEARLY_ALL = 0.6
_MOSTLY = 0.6
_EVEN = 0.7  # weight of what all conversations have
_LONGEST_CODE = 12
_FIRST_UNSPACED = "\u0e00"  # scripts without spaces, of which a word comes as overlapping pairs, begin here
_LEAST_LETTERS = 3
_STOPS = frozenset(term for word in (*STOP_WORDS, *_LISTS["plain"].split()) for term in terms(word))


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """What users often speak of.

    Attributes:
        name: The word or phrase as it was first written, in lower case and without accents.
        conversations: In how many conversations; a prompt that belongs to none counts as one. Of more than 64 about so
            many, within an eighth in most cases.
        prompts: In how many prompts, or about so many, where not all are counted.
        example: The id of an entry that has it.
    """

    name: str
    conversations: int
    prompts: int
    example: str

    def __str__(self) -> str:
        return f"{self.name}: {self.conversations:,} conversations, {self.prompts:,} prompts ({self.example})"


class _Different:
    """Counts how many different things there are, while few of them are remembered.

    Of many those are remembered whose digests end in enough zeros, and each stands for as many as are not.
    """

    __slots__ = ("_digests", "_most", "_zeros")

    def __init__(self, most: int) -> None:
        self._most = most
        self._zeros = 0
        self._digests: set[int] = set()

    def add(self, digest: int) -> None:
        if digest & ((1 << self._zeros) - 1):
            return
        self._digests.add(digest)
        while len(self._digests) > self._most:
            self._zeros += 1
            mask = (1 << self._zeros) - 1
            self._digests = {each for each in self._digests if not each & mask}

    def __len__(self) -> int:
        return len(self._digests) << self._zeros


class _Tally:
    """What is known of a phrase; of the many that come up once, little is kept."""

    __slots__ = ("_first", "_where", "example", "name", "prompts")

    def __init__(self, name: str, example: str, digest: int) -> None:
        self.name = name
        self.example = example
        self.prompts = 1
        self._first = digest
        self._where: _Different | None = None

    def add(self, digest: int) -> None:
        self.prompts += 1
        if self._where is None:
            if digest == self._first:
                return
            self._where = _Different(_DIFFERENT)
            self._where.add(self._first)
        self._where.add(digest)

    @property
    def conversations(self) -> int:
        return 1 if self._where is None else max(1, len(self._where))


class Topics:
    """Counts words and phrases of prompts.

    Args:
        expected: About how many prompts there will be.
    """

    def __init__(self, expected: int) -> None:
        self._tallies: dict[tuple[str, ...], _Tally] = {}
        self._where = _Different(_DIFFERENT_IN_ALL)
        self._given_up = 0
        self._halvings = max(0, math.ceil(math.log2(max(expected, 1) / MOST_PROMPTS)))

    def count(self, entry: AuditEntry) -> None:
        """Count the words of a prompt."""
        digest = _digest(entry)
        if (digest >> 48) & ((1 << self._halvings) - 1):
            return
        self._where.add(digest)
        phrases, written = _phrases(entry.prompt[:_LOOKED_AT])
        for phrase in phrases:
            if (tally := self._tallies.get(phrase)) is not None:
                tally.add(digest)
                continue
            if len(self._tallies) >= MOST_PHRASES:
                self._forget()
            name = written[phrase[0]] if len(phrase) == 1 else _joined([written[term] for term in phrase])
            self._tallies[phrase] = _Tally(name, entry.id, digest)

    def found(self, most: int) -> tuple[Topic, ...]:
        """The most common topics, those of most weight first.

        Args:
            most: How many.
        """
        total = len(self._where)
        least = 2 if total > 1 else 1
        speech = {
            phrase[0]
            for phrase, tally in self._tallies.items()
            if len(phrase) == 1 and total >= _MANY and tally.conversations > _NEARLY_ALL * total
        }
        tallies = {
            phrase: tally
            for phrase, tally in self._tallies.items()
            if tally.prompts > 1 and tally.conversations >= least and speech.isdisjoint(phrase)
        }
        covered = {
            part
            for phrase, tally in tallies.items()
            for part in _parts(phrase)
            if part in tallies and tally.prompts >= _MOSTLY * tallies[part].prompts
        }
        kept = [
            (-_weight(tally, total), -tally.prompts, -len(phrase), phrase)
            for phrase, tally in tallies.items()
            if phrase not in covered
        ]
        return tuple(self._topic(phrase) for *_, phrase in sorted(kept)[:most])

    def _topic(self, phrase: tuple[str, ...]) -> Topic:
        tally, times = self._tallies[phrase], 1 << self._halvings
        return Topic(
            name=tally.name,
            conversations=tally.conversations * times,
            prompts=tally.prompts * times,
            example=tally.example,
        )

    def _forget(self) -> None:
        while len(self._tallies) > MOST_PHRASES // 2:
            self._given_up += 1
            self._tallies = {phrase: tally for phrase, tally in self._tallies.items() if tally.prompts > self._given_up}


def _digest(entry: AuditEntry) -> int:
    """What stands for the conversation of an entry."""
    name = entry.conversation_id or entry.thread_id or f"\x1f{entry.id}"
    told = "\x1f".join((*entry.namespace, "", name)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big")


def _phrases(text: str) -> tuple[set[tuple[str, ...]], dict[str, str]]:
    """The words and phrases of a text, each as its terms, and how the terms are written."""
    written: dict[str, str] = {}
    for word, term in question(text).words.items():
        written.setdefault(term, word)
    found: set[tuple[str, ...]] = set()
    before: tuple[str, ...] = ()
    for term in terms(text):
        if term not in written or not _tells(term):
            before = ()
            continue
        before = (*before[1 - _LONGEST :], term)
        for length in range(1, len(before) + 1):
            phrase = before[-length:]
            if len(set(phrase)) == length:
                found.add(phrase)
    return found, written


def _joined(words: Sequence[str]) -> str:
    """A phrase as it is written."""
    text = words[0]
    for before, word in pairwise(words):
        overlap = word[0] >= _FIRST_UNSPACED and before[-1] == word[0]
        text += word[1:] if overlap else f" {word}"
    return text


def _tells(term: str) -> bool:
    """Whether a term can be what a text is about: no plain word, no number, no code."""
    if term in _STOPS or (term.isascii() and len(term) < _LEAST_LETTERS):
        return False
    digits = sum(map(str.isdigit, term))
    return digits == 0 or (digits < len(term) / 2 and len(term) <= _LONGEST_CODE)


def _parts(phrase: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        phrase[start : start + length] for length in range(1, len(phrase)) for start in range(len(phrase) - length + 1)
    ]


def _weight(tally: _Tally, total: int) -> float:
    return tally.conversations * (math.log((total + 1) / tally.conversations) + _EVEN)


OPEN_CONVERSATIONS = 10_000
"""Of so many conversations the last turn is remembered, until the next is seen."""

_BEGINS, _ENDS = 300, 200
_BLANKS = re.compile(r"\W+")


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


@dataclass(slots=True)
class _Turn:
    prompt: str
    kind: str
    failure: str | None
    asked_back: bool


class Outcomes:
    """Tells turns apart, and counts how they ended; walks along the audit trail."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[object, ...], _Turn] = OrderedDict()
        self._turns = 0
        self._ends: Counter[str] = Counter()

    def take(self, seen: SeenEntry) -> bool:
        """Look at an entry.

        Returns:
            Whether a turn begins with it, which is not hidden.
        """
        entry = seen.entry
        if not is_said(entry):
            return False
        name = entry.conversation_id or entry.thread_id
        key = (entry.namespace, name)
        prompt = _plainly(entry.prompt)
        before = self._open.pop(key, None) if name is not None else None
        # Calls with tools, retries, and what is both captured and added are one turn.
        same = before is not None and prompt == before.prompt and CALL in (before.kind, entry.kind)
        if before is not None and not same:
            self._ends[_ended(before, entry.prompt, prompt)] += 1
        if entry.junk:
            if before is not None and same:
                self._open[key] = before
            return False
        self._turns += not same
        turn = _Turn(prompt, entry.kind, _failure(entry), entry.reply[-_ENDS:].rstrip().endswith("?"))
        if name is None:
            self._ends[turn.failure or ""] += 1
        else:
            self._open[key] = turn
            if len(self._open) > OPEN_CONVERSATIONS:
                _, oldest = self._open.popitem(last=False)
                self._ends[oldest.failure or ""] += 1
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


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_TOPICS = 20
MOST_MODELS = 200

_SAMPLE = 4_096
_TOLD = 10
_BUSIEST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUse:
    """What a model did.

    Attributes:
        model: Its name; None where the provider gave none.
        calls: How often it was called.
        errors: How many of the calls failed.
        input_tokens: Tokens that it was given, as far as they are known.
        output_tokens: Tokens that it answered with, as far as they are known.
        median_duration: Seconds that half of the calls took at most; of more than 4,096 calls, by a sample spread over
            all of them. None where it is not known.
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
            f"{self.model or 'unknown'}: {self.calls:,} call{'s' * (self.calls != 1)}, {self.errors:,} failed, "
            f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out{took}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Insights:
    """What an audit trail tells of its use. Entries that are hidden as junk are no prompts here.

    Attributes:
        topics: What users often speak of, those of most weight first.
        success: How often what was asked was done.
        hours: Prompts by hour of the day, from 0 to 23.
        weekdays: Prompts by day of the week, from Monday.
        timezone: The time zone of both.
        models: The models that were called, those with most calls first.
    """

    topics: tuple[Topic, ...] = ()
    success: Success = field(default_factory=Success)
    hours: tuple[int, ...] = (0,) * 24
    weekdays: tuple[int, ...] = (0,) * 7
    timezone: str = "UTC"
    models: tuple[ModelUse, ...] = ()

    @property
    def busiest_hours(self) -> tuple[int, ...]:
        """The hours of the day with most prompts, at most three, the busiest first."""
        return _busiest(self.hours)

    @property
    def busiest_weekdays(self) -> tuple[str, ...]:
        """The days of the week with most prompts, at most three, the busiest first."""
        return tuple(WEEKDAYS[day] for day in _busiest(self.weekdays))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterable[str]:
        """The report, line by line."""
        success = self.success
        if success.turns:
            told = "".join(f"; {name} {count:,}" for name, count in success.because.items())
            known = success.succeeded + success.failed
            of = f"{known:,} of {success.turns:,} prompts have an end that is known{told}."
            yield f"Success: {of}" if success.rate is None else f"Success: {100 * success.rate:.1f}%; {of}"
            hours = ", ".join(f"{hour:02d}:00" for hour in self.busiest_hours)
            yield f"Busiest: {hours}; {', '.join(self.busiest_weekdays)} ({self.timezone})."
        for title, items in (("Common topics", self.topics), ("Models", self.models)):
            if items:
                yield f"{title}:"
                yield from (f"  {each}" for each in items[:_TOLD])


def learning(
    databases: Sequence[Database], low: str, high: str, *, timezone: tzinfo = UTC, topics: int = MOST_TOPICS
) -> Work[Insights]:
    """What the audit trail of the namespaces in a range of paths tells of its use.

    Args:
        databases: Where it is, see `Database.below`.
        low: The first path of the namespaces.
        high: The path behind the last.
        timezone: Of the hours and weekdays. Default: UTC.
        topics: Most topics.
    """
    run = Run("audit.count", partial(audit_store.sizes, low, high), shown=False)
    sizes: list[EntrySizes] = yield from across(databases, run)
    found = _Found(timezone, sum(each.entries for each in sizes))
    yield from walk(databases, low, high, [found])
    return found.insights(topics)


class _Found:
    """Gathers what there is to tell; walks along the audit trail."""

    def __init__(self, timezone: tzinfo, expected: int) -> None:
        self._timezone = timezone
        self._outcomes = Outcomes()
        self._topics = Topics(expected)
        self._hours = [0] * 24
        self._weekdays = [0] * 7
        self._models: dict[str | None, _Use] = {}

    def take(self, seen: SeenEntry) -> None:
        entry = seen.entry
        if entry.kind == CALL:
            self._called(entry)
        if self._outcomes.take(seen):
            at = _local(entry.created_at, self._timezone)
            self._hours[at.hour] += 1
            self._weekdays[at.weekday()] += 1
            self._topics.count(entry)

    def insights(self, topics: int) -> Insights:
        models = (use.told(name) for name, use in self._models.items())
        return Insights(
            topics=self._topics.found(topics),
            success=self._outcomes.found(),
            hours=tuple(self._hours),
            weekdays=tuple(self._weekdays),
            timezone=str(self._timezone),
            models=tuple(sorted(models, key=lambda use: (-use.calls, use.model or ""))),
        )

    def _called(self, entry: AuditEntry) -> None:
        if entry.model not in self._models and len(self._models) >= MOST_MODELS:
            return  # names that were made up, and no models
        self._models.setdefault(entry.model, _Use()).add(entry)


class _Use:
    def __init__(self) -> None:
        self._calls = self._errors = self._input = self._output = 0
        self._durations: list[float] = []
        self._timed = 0
        self._every = 1

    def add(self, entry: AuditEntry) -> None:
        self._calls += 1
        self._errors += entry.error is not None
        self._input += entry.input_tokens or 0
        self._output += entry.output_tokens or 0
        if entry.duration is not None:
            if self._timed % self._every == 0:
                self._durations.append(entry.duration)
            self._timed += 1
            if len(self._durations) > _SAMPLE:  # from here on every second one, as if it had been so from the beginning
                self._durations = self._durations[::2]
                self._every *= 2

    def told(self, model: str | None) -> ModelUse:
        return ModelUse(
            model=model,
            calls=self._calls,
            errors=self._errors,
            input_tokens=self._input,
            output_tokens=self._output,
            median_duration=median(self._durations) if self._durations else None,
        )


def _local(at: datetime, timezone: tzinfo) -> datetime:
    try:
        return at.astimezone(timezone)
    except OverflowError:  # in the first or last hours of all time
        return at


def _busiest(counts: Sequence[int]) -> tuple[int, ...]:
    order = sorted((-count, place) for place, count in enumerate(counts) if count)
    return tuple(place for _, place in order[:_BUSIEST])


LARGE = 10_000_000
"""Bytes above which an archive is suggested: 10 MB."""
ARCHIVE_AFTER = timedelta(days=30)
RECENT = timedelta(days=30)
MOST_CONVERSATIONS, MOST_RUNAWAYS = 20, 10

_HOUR = 3_600_000_000
_SPANS = (7, 30)
_TOLD_OF_SECTION = 5
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
class ConversationSize:
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
    sizes: EntrySizes
    growth: tuple[Growth, ...] = ()
    large: int = LARGE
    large_at: datetime | None = None
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

    sizes: EntrySizes
    runaway: list[Runaway]
    patterns: Sequence[Row]
    conversations: int

    @classmethod
    def added(cls, parts: Sequence[_Counted]) -> _Counted:
        """What was counted in several places, each by itself, in one."""
        sizes, runaway, patterns, conversations = zip(*parts, strict=True)
        return cls(
            EntrySizes(*map(sum, zip(*sizes, strict=True))),
            sorted(chain.from_iterable(runaway), key=lambda each: (each.what != "hour", -each.entries)),
            sorted(chain.from_iterable(patterns), key=lambda row: -row["entries"])[:MOST_CONVERSATIONS],
            sum(conversations),
        )


def examining(
    databases: Sequence[Database],
    low: str,
    high: str,
    *,
    clock: Callable[[], datetime],
    rules: Sequence[JunkRule] = RULES,
    large: int = LARGE,
) -> Work[Health]:
    """Look how the audit trail of the namespaces in a range of paths fares.

    Args:
        databases: Where it is, see `Database.below`.
        low: The first path of the namespaces.
        high: The path behind the last.
        clock: Tells the time.
        rules: By which entries are junk. Default: `RULES`.
        large: From how many bytes on an archive is suggested. Default 10,000,000.
    """
    now = clock().astimezone(UTC)
    parts = yield from across(databases, Run("audit.count", partial(_count_all, low, high, now), shown=False))
    counted = _Counted.added(parts)
    patterns = [(namespace_of(row["path"]), row["conversation"]) for row in counted.patterns]
    lengths, todos, judged = Lengths(patterns), OpenTodos(), JudgedConversation(rules, counted.sizes.entries)
    repeats, archivable, each_day = Repeats(now - RECENT), Archivable(now - ARCHIVE_AFTER), Days()
    yield from walk(databases, low, high, (lengths, todos, judged, repeats, archivable, each_day))
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
            ConversationSize(
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
    sizes = yield from audit_store.sizes(low, high)
    since = micros(now - RECENT)
    runaway = yield from _hours(low, high, since)
    runaway += yield from _conversations(low, high, since)
    patterns = yield query.audit_patterns(low=low, high=high, limit=MOST_CONVERSATIONS)
    [row] = yield query.audit_conversation_count(low=low, high=high)
    return _Counted(sizes, runaway, patterns, int(row["conversations"]))


def _hours(low: str, high: str, since: int) -> Steps[list[Runaway]]:
    spans = yield from audit_store.by_time(low, high, width=_HOUR, since=since)
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
    yield from (f"  {each}" for each in items[:_TOLD_OF_SECTION])
    if count > _TOLD_OF_SECTION:
        yield f"  … and {count - _TOLD_OF_SECTION:,} more"


def _count(number: float, what: str) -> str:
    if number == 1:
        return f"{number:g} {what}"
    return f"{number:,} {what[:-1]}ies" if what.endswith("ry") else f"{number:,} {what}s"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"
