"""The values of facts: `Fact`, `Entity`, `FactsConfig` and others; what events make of a fact; how names are compared.

Comparing follows a few fixed rules that never take one name for another. Anything else that means the same is an alias,
which somebody has to declare.

Nothing that was told is ever overwritten. A fact is a list of events; `state` computes what the fact is, or what it was
as far as it was known at some time. So a message can be taken out of a fact again, and a change can be undone.

An event is a JSON object: `n` is its number, `at` when it was learned, and `do` what it does:

    said    A message or a person tells of the fact: `id`, `in`, `role`, `from`, `to`, `sure`; `given` if it said when.
    set     Somebody corrects it: `fields` with their new values.
    undo    The event `of` does not count, or counts again.

`FactRules` list which names are one and which predicates have one value at a time. Facts keep their original names.
Merged names are looked up together, so that a merge can be undone.

`endings` computes when facts ended: a new value of what has one at a time ends the value before it. It looks at all
values of the same thing, so it is also right when facts are learned late and out of order, when names are merged or
parted, and when a message is erased.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from threading import TIMEOUT_MAX
from typing import Annotated, Any, NamedTuple, TypeAlias

from annotated_types import Ge, Le
from langchain_core.messages import BaseMessage
from pydantic import Field

from langchain_agentmem.base.argument_checks import Options, check_value, name_given, text_given
from langchain_agentmem.base.clock import EARLIEST, LATEST, time_given
from langchain_agentmem.base.encoding import json_value, replace_surrogates
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import MessageLike
from langchain_agentmem.rewinding.memory_rows import SAID
from langchain_agentmem.rewinding.message_sources import SET, UNDO
from langchain_agentmem.search.memory_search import Explanation

LONGEST = 2_000
"""Most characters of a subject, predicate or object."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = 100
"""Names up to so many characters are kept with their keys, of the last few thousand that were asked for."""


def name_of(value: Any, what: str) -> str:
    """A name that somebody gave, as it is kept: one line, without space around it.

    Args:
        value: What was given.
        what: What it names, for the error.

    Raises:
        InvalidInput: It is no text, says nothing, or is too long.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} of a fact is text, not {type(value).__name__}.")
    name = _SPACE.sub(" ", replace_surrogates(value)).strip()
    if not entity_key(name):
        raise InvalidInput(f"{what} of a fact cannot be empty: {safe_repr(value)}.")
    if len(name) > LONGEST:
        raise InvalidInput(
            f"{what} of a fact has {len(name)} characters, and may have {LONGEST}. Keep long texts with add(), or in "
            "archival memory."
        )
    return name


def entity_key(name: str) -> str:
    """What an entity is compared by: case, kinds of space, quotes around it and a full stop after it do not count.

    Neither do characters that nobody sees.
    """
    return _key_of_short(name) if len(name) <= _SHORT else _key(name)


@lru_cache(maxsize=512)
def predicate_key(predicate: str) -> str:
    """What a predicate is compared by: "lives in", "LIVES_IN" and "livesIn" are one."""
    return entity_key(_HUMP.sub(" ", predicate).replace("_", " ").replace("-", " "))


def _key(name: str) -> str:
    if name.isascii() and name.replace(" ", "").isalnum() and "  " not in name:
        return name.strip().lower()  # what comes of the rest, sooner
    whole = replace_surrogates(name)  # as it is kept
    seen = "".join(sign for sign in unicodedata.normalize("NFKC", whole) if unicodedata.category(sign) != "Cf")
    plain = _SPACE.sub(" ", seen).casefold().strip()
    bare = plain.strip(_QUOTES + " ").rstrip(".,;:!?").rstrip().strip(_QUOTES + " ")
    return unicodedata.normalize("NFKC", bare or plain)


_key_of_short = lru_cache(maxsize=8_192)(_key)


SINGLE_VALUED = ("lives in", "works at")
"""The predicates that have one value at a time, where `KGMemory.declare` does not say otherwise."""
RAW_PREDICATE = "said"
"""The predicate of what was said and is kept as it was."""


class FactsConfig(Options):
    """How facts are kept and learned.

    Attributes:
        max_attempts: How often the model is asked about a message before that is parked: others go before it, and the
            model is asked about it once a day. Default: 3.
        timeout: Seconds to wait for the model. Default: 120; None for ever.
        instructions: What the model is told beside the form of its answer. Default: nothing.

    Raises:
        InvalidInput: A value cannot work.
    """

    max_attempts: int = Field(default=3, ge=1)
    timeout: float | None = Field(default=120.0, gt=0, le=TIMEOUT_MAX)
    instructions: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactMention:
    """One time that a fact was told of.

    Attributes:
        message_id: The message that says so; None where somebody stated it without one.
        conversation_id: The conversation or thread in which that was said, if it is known.
        role: Who said it.
        recorded_at: When it was learned, in UTC.
        source: The source, if another than the role's: "tool", "import", ….
        actor: The name of that source, such as a tool's.
    """

    message_id: str | None
    conversation_id: str | None = None
    role: str | None = None
    recorded_at: datetime
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """Something that held, or holds.

    Attributes:
        id: Its id; that of a message where it is what was said, as it was.
        role: Who said it first.
        subject: What it is about.
        predicate: What it says.
        object: Of what, or whom.
        valid_from: When it began to hold, in UTC.
        valid_to: When it ceased to; None if it holds still, as far as we know.
        recorded_at: When it was learned first.
        told: Its sources, in the order in which they came.
        confidence: How sure whoever told it was, from 0 to 1, if anybody said.
        ended_by: The fact that ended it, where another value of the same thing did.
        raw: Whether it is what was said, as it was, and not yet a fact of its own.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
    """

    id: str
    role: str
    subject: str
    predicate: str
    object: str
    valid_from: datetime
    valid_to: datetime | None = None
    recorded_at: datetime
    told: tuple[FactMention, ...] = ()
    confidence: float | None = None
    ended_by: str | None = None
    raw: bool = False
    score: float | None = None
    why: Explanation | None = field(default=None, repr=False)

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of the messages that it comes from, each once."""
        return tuple(dict.fromkeys(each.message_id for each in self.told if each.message_id is not None))

    @property
    def text(self) -> str:
        """It as a sentence; what was said, as it was."""
        return self.object if self.raw else sentence(self.subject, self.predicate, self.object)

    @property
    def period(self) -> str:
        """The days on which it began and ended, in words."""
        if self.valid_to is None:
            return f"since {self.valid_from:%Y-%m-%d}"
        return f"from {self.valid_from:%Y-%m-%d} until {self.valid_to:%Y-%m-%d}"

    def holds_at(self, at: datetime) -> bool:
        """Whether it held at a time, which knows its time zone."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it; times are ISO 8601 in UTC."""
        names = ("id", "role", "subject", "predicate", "object", "valid_from", "valid_to", "recorded_at", "sources")
        return {name: json_value(getattr(self, name)) for name in (*names, "confidence", "ended_by")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two values of what has one at a time, both said to have held.

    Attributes:
        facts: The two, the one that began first before the other.
        valid_from: From when on both held, in UTC.
        valid_to: Until when; None if they do so still.
    """

    facts: tuple[Fact, Fact]
    valid_from: datetime
    valid_to: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence(FactMention):
    """How we know of a fact: one message that says so.

    Attributes:
        text: What it says; None if the message is not kept here.
    """

    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """Something that facts are about, or that they name.

    Attributes:
        name: Its name.
        aliases: Other names that are merged into it.
        facts: How many facts name it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An entity that is connected with another.

    Attributes:
        name: Its name.
        distance: How many facts lie between them, at least 1.
        fact: The last of these.
    """

    name: str
    distance: int
    fact: Fact

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """Two names that are one.

    Attributes:
        name: The name that is merged.
        into: The name of what it is merged into.
    """

    name: str
    into: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionFailure:
    """An answer of a model that could not be used, or a model that gave none. The messages go on waiting.

    Attributes:
        message_ids: The messages that it was asked about.
        error: What was wrong.
        answer: What it said, clipped.
        at: When, in UTC.
    """

    message_ids: tuple[str, ...]
    error: str
    answer: str
    at: datetime


def sentence(subject: str, predicate: str, obj: str) -> str:
    """A fact as a sentence."""
    return f"{subject} {predicate.replace('_', ' ')} {obj}"


def maybe_time(value: Any, what: str) -> int | None:
    """A time that a user gave, see `time_given`; None if they gave none."""
    return None if value is None else time_given(value, what)


# -- events ------------------------------------------------------------------------------------------------------------


_TELLING = ("id", "in", "source", "actor", "role", "to")
"""What two events by which the same is told have in common."""

Event: TypeAlias = Mapping[str, Any]


class FactState(NamedTuple):
    """What is known of a fact, of itself alone: others may have ended it.

    Attributes:
        subject: As it was first spelled, like the next two.
        predicate: What it says.
        object: Of what.
        role: Who said it first.
        start: When it began, in microseconds since 1970.
        end: When it ended, if anybody said so, or another fact ended it.
        given: Whether anybody said when it began; else it is when it was said.
        lasting: Whether anybody said that it goes on, so that it ends what was before it.
        sure: The confidence, if there is any.
        learned: When it was learned first.
        rank: Its place among what was learned at one time.
        said: What told of it.
        ended_by: The fact that ended it, see `endings`.
    """

    subject: str
    predicate: str
    object: str
    role: str
    start: int
    end: int | None
    given: bool
    lasting: bool
    sure: float | None
    learned: int
    rank: int
    said: tuple[Event, ...]
    ended_by: str | None = None


def state(extra: Mapping[str, Any], recorded: int | None = None) -> FactState | None:
    """What a fact is.

    Args:
        extra: What belongs to its row: the names as they were first spelled, the role, and the events.
        recorded: What was learned later does not count. Default: everything counts.

    Returns:
        None if it was not known, or was taken back.
    """
    names = extra["subject"], extra["predicate"], extra["object"], extra["role"]
    known, found = extra["told"], None
    if len(known) > 1 or recorded is not None:
        known = counting(known, recorded)
    for event in known:
        if event["do"] == SAID:
            given, lasting = bool(event.get("given")), event["to"] is None
            times = event["from"], event["to"], given, lasting, event.get("sure"), event["at"], event["n"]
            told = FactState(*names, *times, (event,))
            found = told if found is None else _together(found, told)
    for event in known:
        if event["do"] == SET and found is not None:
            found = found._replace(**event["fields"])
    return found


def counting(events: Sequence[Event], recorded: int | None = None) -> list[Event]:
    """The events that count, as far as they were known at some time; an undone one does not."""
    known = [event for event in events if recorded is None or event["at"] <= recorded]
    off: set[int] = set()
    for event in known:
        if event["do"] == UNDO:
            off ^= {event["of"]}
    return [event for event in known if event["do"] != UNDO and event["n"] not in off]


def names_of(extra: Mapping[str, Any], recorded: int | None = None) -> tuple[str, str, str]:
    """Return what a fact is found by. What was taken back is found by its first names, to be had again."""
    known = state(extra, recorded)
    return (extra["subject"], extra["predicate"], extra["object"]) if known is None else known[:3]


def says_more(known: FactState, event: Event) -> bool:
    """Whether a fact is not the same any more once an event tells of it.

    Args:
        known: The fact.
        event: By which it is told of.
    """
    sure = event.get("sure")
    if sure is not None and all(each.get("sure", -1) < sure for each in known.said):
        return True
    return not any(
        all(each.get(name) == event.get(name) for name in _TELLING)
        and (not event.get("given") or (each.get("given") and each["from"] == event["from"]))
        for each in known.said
    )


RULE = "fact_rule"
ALIAS, SINGLE = "alias", "single"
"""What a rule is about: a name that is merged into another, or how many values a predicate has at a time."""


class FactRules(NamedTuple):
    """What is agreed on names.

    Attributes:
        aliases: Names that are merged, by their keys.
        single: The keys of the predicates that have one value at a time.
    """

    aliases: Mapping[str, Alias]
    single: frozenset[str]

    def canonical(self, name: str) -> str:
        """The key of what a name means.

        Args:
            name: A name.
        """
        return self.followed(entity_key(name))

    def followed(self, key: str) -> str:
        """The same, of the key of a name. What merges run in a circle after two branches became one ends somewhere."""
        seen = {key}
        while (alias := self.aliases.get(key)) is not None:
            key = entity_key(alias.into)
            if key in seen:
                return min(seen)
            seen.add(key)
        return key

    def keys_of(self, names: Iterable[str]) -> list[str]:
        """The keys of all names that mean the same as some names.

        Args:
            names: Canonical keys.
        """
        wanted = set(names)
        merged = (key for key in self.aliases if self.followed(key) in wanted)
        return sorted({*wanted, *merged})

    def spelled(self, name: str) -> str:
        """The name that something goes by, once names are merged."""
        target = self.canonical(name)
        if target == entity_key(name):
            return name
        return next((alias.into for alias in self.aliases.values() if entity_key(alias.into) == target), name)


def endings(states: Mapping[str, FactState], agreed: FactRules) -> dict[str, FactState]:
    """Return facts with the ends that other facts gave them.

    A fact that nobody gave an end ends where the next value begins that was said to last. Of two values that began at
    one moment the one that was learned later is the next, unless it was said that it began just then: then they
    contradict each other.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        agreed: What is agreed on names.
    """
    found = dict(states)
    single = [(key, known) for key, known in states.items() if predicate_key(known.predicate) in agreed.single]
    single.sort(key=lambda each: (each[1].start, each[1].learned, each[1].rank, each[0]))
    lasting: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)  # ids and values of what goes on so far
    for key, known in single:
        thing, value = (agreed.canonical(known.subject), predicate_key(known.predicate)), agreed.canonical(known.object)
        before, lasting[thing] = lasting[thing], []
        for earlier, other in before:
            follows = known.start > states[earlier].start or not known.given
            if other != value and known.lasting and follows:
                found[earlier] = states[earlier]._replace(end=known.start, ended_by=key)
            else:
                lasting[thing].append((earlier, other))
        if known.end is None:
            lasting[thing].append((key, value))
    return found


def united(states: Mapping[str, FactState], first: Collection[str], agreed: FactRules) -> dict[str, FactState]:
    """Facts of which those are one that say the same of the same time: two lines told of them apart.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        first: The ids that stay where facts are one; of several, and of the others, the one that was learned first.
        agreed: What is agreed on names.
    """
    ended = endings(states, agreed)
    found: dict[str, FactState] = {}
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key, known in sorted(states.items(), key=lambda each: (each[0] not in first, each[1].learned, each[0])):
        there = alike[agreed.canonical(known.subject), predicate_key(known.predicate), agreed.canonical(known.object)]
        same = next((each for each in there if overlaps(ended[each], known.start, ended[key].end)), None)
        if same is None:
            there.append(key)
            found[key] = known
        else:
            found[same] = _together(found[same], known)
            later = max(ended[same], ended[key], key=lambda each: LATEST if each.end is None else each.end)
            ended[same] = later._replace(start=min(ended[same].start, known.start))
    return {key: found[key] for key in states if key in found}


def _together(one: FactState, other: FactState) -> FactState:
    """Return what two tell of one fact. The first of them gives the names."""
    first = min(one, other, key=lambda known: (known.start, not known.given))
    return one._replace(
        start=first.start,
        given=first.given,
        end=max((known.end for known in (one, other) if known.end is not None), default=None),
        lasting=one.lasting or other.lasting,
        sure=max((known.sure for known in (one, other) if known.sure is not None), default=None),
        learned=min(one.learned, other.learned),
        said=tuple(sorted((*one.said, *other.said), key=lambda event: (event["at"], event["n"]))),
    )


def overlaps(known: FactState, start: int, stop: int | None) -> bool:
    """Return whether a fact held at some time from a moment on, up to another; None for ever."""
    return (known.end is None or start < known.end) and (stop is None or known.start < stop)


# -- arguments ---------------------------------------------------------------------------------------------------------


FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""A message that says something: its id, or the message; or a pair of its id and that of its conversation."""


def sources_given(source: Any, *, listed: bool = False) -> list[tuple[str, str | None]]:
    """The messages that somebody names as sources, each with its conversation, if they know it."""
    if source is None:
        return []
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(each, str) for each in source):  # noqa: PLR2004
        return [(id_of(source[0], "message", MessageError), id_of(source[1], "conversation"))]
    if isinstance(source, list | set | frozenset | tuple) and not listed:
        return [pair for each in source for pair in sources_given(each, listed=True)]
    key = source.id if isinstance(source, BaseMessage) else getattr(source, "message_id", source)
    if not isinstance(key, str):
        raise InvalidInput(
            "A source is the id of a message, a message that has one, a pair of the ids of a message and its "
            f"conversation, or a list of such, not {safe_repr(source)}."
        )
    return [(id_of(key, "message", MessageError), None)]


def confidence_given(confidence: Any) -> float | None:
    """A confidence that somebody gave, if they gave one."""
    sure: float | None = check_value(Annotated[float, Ge(0), Le(1)] | None, confidence, "confidence")
    return sure


def check_order(start: int | None, end: int | None) -> None:
    """Check that a fact begins before it ends."""
    if end is not None and (EARLIEST if start is None else start) >= end:
        raise InvalidInput("valid_to must come after valid_from: a fact holds up to, but not at, valid_to.")


def thing_given(value: Any, what: str) -> str:
    """A subject or object that somebody gave, without secrets."""
    return name_of(redact(text_given(value, what)), what)


def _end_given(value: Any) -> dict[str, Any]:
    return {"end": None, "lasting": True} if value is None else {"end": time_given(value, "valid_to")}


_FACT_FIELDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "role": lambda value: {"role": name_given(value, "a role")},
    "subject": lambda value: {"subject": thing_given(value, "The subject")},
    "predicate": lambda value: {"predicate": name_of(value, "The predicate")},
    "obj": lambda value: {"object": thing_given(value, "The object")},
    "object": lambda value: {"object": thing_given(value, "The object")},
    "valid_from": lambda value: {"start": time_given(value, "valid_from"), "given": True},
    "valid_to": _end_given,
    "confidence": lambda value: {"sure": confidence_given(value)},
}
"""What can be changed of a fact, and the fields of its state that a value stands for."""


def fields_given(known: FactState, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes that somebody wants of a fact, as fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        what = f"{safe_repr(unknown[0])} is none of them" if changes else "none is given"
        raise MessageError(f"What can be changed of a fact is {', '.join(_FACT_FIELDS)}; {what}.")
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        fields |= _FACT_FIELDS[name](value)
    check_order(fields.get("start", known.start), fields.get("end", known.end))
    return fields
