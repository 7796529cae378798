"""The values of facts: `Fact`, `Entity`, `FactsConfig` and others; what events make of a fact; how names are compared.

Comparing follows a few fixed rules that never confuse two names. Any other name of the same entity is an alias, which
must be declared.

No statement is ever overwritten. A fact is a list of events; `compute_state` computes what the fact is, or what it was
as far as it was known at some time. So a message can be taken out of a fact again, and a change can be undone.

An event is a JSON object: `n` is its number, `at` when it was learned, and `do` what it does:

    said    A message or a person states the fact: `id`, `in`, `role`, `from`, `to`, `sure`; `given` for a stated start.
    set     A correction: `fields` with their new values.
    undo    The event `of` does not count, or counts again.

`FactRules` list which names are merged and which predicates have one value at a time. Facts keep their original names.
Merged names are looked up together, so that a merge can be undone.

`apply_endings` computes when facts ended: a new value of a single-valued predicate ends the value before. It reads all
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

from langchain_agentmem.base.argument_checks import Options, check_name, check_text, check_value
from langchain_agentmem.base.clock import EARLIEST, LATEST, check_time
from langchain_agentmem.base.encoding import json_value, replace_surrogates
from langchain_agentmem.base.namespaces import check_id
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.messages.message import MessageLike
from langchain_agentmem.rewinding.memory_rows import STATEMENT
from langchain_agentmem.rewinding.message_sources import SET, UNDO
from langchain_agentmem.search.memory_search import Explanation

MAX_CHARS = 2_000
"""Most characters of a subject, predicate or object."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CACHED_CHARS = 100
"""Names up to so many characters are kept with their keys, of the last few thousand that were asked for."""


def parse_name(value: Any, label: str) -> str:
    """Return a name that a caller gave as one line, without surrounding space.

    Args:
        value: The name as given.
        label: The role of the name, for the error.

    Raises:
        InvalidInput: The name is no text, is empty, or has more than 2,000 characters.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{label} of a fact is text, not {type(value).__name__}.")
    name = _SPACE.sub(" ", replace_surrogates(value)).strip()
    if not entity_key(name):
        raise InvalidInput(f"{label} of a fact cannot be empty: {safe_repr(value)}.")
    if len(name) > MAX_CHARS:
        raise InvalidInput(
            f"{label} of a fact has {len(name)} characters, and may have {MAX_CHARS}. Keep long texts with add(), or "
            "in archival memory."
        )
    return name


def entity_key(name: str) -> str:
    """Return the key that entities are compared by.

    The key ignores case, kinds of space, invisible characters, surrounding quotes and punctuation at the end.
    """
    return _cached_key(name) if len(name) <= _CACHED_CHARS else _compute_key(name)


@lru_cache(maxsize=512)
def predicate_key(predicate: str) -> str:
    """Return a predicate's key; "lives in", "LIVES_IN" and "livesIn" have the same key."""
    return entity_key(_CAMEL_BOUNDARY.sub(" ", predicate).replace("_", " ").replace("-", " "))


def _compute_key(name: str) -> str:
    if name.isascii() and name.replace(" ", "").isalnum() and "  " not in name:
        return name.strip().lower()  # a shortcut with the same result
    cleaned = replace_surrogates(name)  # as it is kept
    visible = "".join(sign for sign in unicodedata.normalize("NFKC", cleaned) if unicodedata.category(sign) != "Cf")
    plain = _SPACE.sub(" ", visible).casefold().strip()
    trimmed = plain.strip(_QUOTES + " ").rstrip(".,;:!?").rstrip().strip(_QUOTES + " ")
    return unicodedata.normalize("NFKC", trimmed or plain)


_cached_key = lru_cache(maxsize=8_192)(_compute_key)


SINGLE_VALUED = ("lives in", "works at")
"""The predicates that have one value at a time, where `KGMemory.declare` does not say otherwise."""
RAW_PREDICATE = "said"
"""The predicate of a message that is kept as it was said."""


class FactsConfig(Options):
    """Settings for keeping and learning facts.

    Attributes:
        max_attempts: Attempts to extract facts from a message before it is parked. Other messages then go before it,
            and the model is asked about it once a day. Default: 3.
        timeout: Seconds to wait for the model. Default: 120; None for no limit.
        instructions: Instructions for the model in addition to the form of its answer. Default: none.

    Raises:
        InvalidInput: A value cannot work.
    """

    max_attempts: int = Field(default=3, ge=1)
    timeout: float | None = Field(default=120.0, gt=0, le=TIMEOUT_MAX)
    instructions: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactMention:
    """One statement of a fact.

    Attributes:
        message_id: The message that states the fact; None if it was stated without a message.
        conversation_id: The conversation or thread of the message, if it is known.
        role: Who said it.
        recorded_at: When it was learned, in UTC.
        source: The source, if it differs from the role's: "tool", "import", ….
        actor: The name of that source, such as a tool's name.
    """

    message_id: str | None
    conversation_id: str | None = None
    role: str | None = None
    recorded_at: datetime
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A statement with the period in which it holds.

    Attributes:
        id: The id of the fact, or of the message if `raw` is set.
        role: The role that stated it first.
        subject: The entity that it is about.
        predicate: The relation, such as "lives in".
        object: The value or entity that the relation names.
        valid_from: When it began to hold, in UTC.
        valid_to: When it ceased to hold; None if it still holds, as far as known.
        recorded_at: When it was first learned.
        mentions: Its sources, in the order in which they came.
        confidence: The stated confidence, from 0 to 1; None if none was stated.
        ended_by: The id of the fact that ended it, if another value of the same thing did.
        raw: True for a message kept as it was said, False for a fact.
        score: The score in the search that found it; None outside of searches.
        why: The explanation of the search that found it.
    """

    id: str
    role: str
    subject: str
    predicate: str
    object: str
    valid_from: datetime
    valid_to: datetime | None = None
    recorded_at: datetime
    mentions: tuple[FactMention, ...] = ()
    confidence: float | None = None
    ended_by: str | None = None
    raw: bool = False
    score: float | None = None
    why: Explanation | None = field(default=None, repr=False)

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of the messages that state the fact, each once."""
        return tuple(dict.fromkeys(each.message_id for each in self.mentions if each.message_id is not None))

    @property
    def text(self) -> str:
        """The fact as a sentence, or the message as it was said."""
        return self.object if self.raw else sentence(self.subject, self.predicate, self.object)

    @property
    def period(self) -> str:
        """The days on which the fact began and ended, in words."""
        if self.valid_to is None:
            return f"since {self.valid_from:%Y-%m-%d}"
        return f"from {self.valid_from:%Y-%m-%d} until {self.valid_to:%Y-%m-%d}"

    def holds_at(self, at: datetime) -> bool:
        """Return whether the fact held at a time, which must have a time zone."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)

    def to_dict(self) -> dict[str, Any]:
        """Return the fact as a dictionary for JSON; times are ISO 8601 in UTC."""
        names = ("id", "role", "subject", "predicate", "object", "valid_from", "valid_to", "recorded_at", "sources")
        return {name: json_value(getattr(self, name)) for name in (*names, "confidence", "ended_by")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two values of a single-valued predicate that were stated for overlapping periods.

    Attributes:
        facts: The two facts, the one that began first before the other.
        valid_from: The start of the overlap, in UTC.
        valid_to: The end of the overlap; None if both facts still hold.
    """

    facts: tuple[Fact, Fact]
    valid_from: datetime
    valid_to: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence(FactMention):
    """One source of a fact, with the text of its message.

    Attributes:
        text: The text of the message; None if the message is not kept here.
    """

    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A subject or object of facts.

    Attributes:
        name: The name.
        aliases: Other names that are merged into it.
        facts: The number of facts that name it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An entity that is connected with another.

    Attributes:
        name: The name of the connected entity.
        distance: The number of facts between the two, at least 1.
        fact: The last of these facts.
    """

    name: str
    distance: int
    fact: Fact

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """Two names of one entity.

    Attributes:
        name: The name that is merged.
        into: The name that it is merged into.
    """

    name: str
    into: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionFailure:
    """A model answer that was unusable or missing. Its messages keep waiting.

    Attributes:
        message_ids: The messages that the model was asked about.
        error: The reason.
        answer: The text of the answer, clipped.
        at: The time of the failure, in UTC.
    """

    message_ids: tuple[str, ...]
    error: str
    answer: str
    at: datetime


def sentence(subject: str, predicate: str, obj: str) -> str:
    """Return a fact as a sentence."""
    return f"{subject} {predicate.replace('_', ' ')} {obj}"


def parse_optional_time(value: Any, label: str) -> int | None:
    """Return the time that a caller gave, see `check_time`; None if there is none."""
    return None if value is None else check_time(value, label)


# -- events ------------------------------------------------------------------------------------------------------------


_STATEMENT_FIELDS = ("id", "in", "source", "actor", "role", "to")
"""The fields that two events with the same statement have in common."""

Event: TypeAlias = Mapping[str, Any]


class FactState(NamedTuple):
    """The state of a fact from its own events alone; other facts may have ended it.

    Attributes:
        subject: The subject as first spelled.
        predicate: The predicate as first spelled.
        object: The object as first spelled.
        role: The role that stated it first.
        start: When it began, in microseconds since 1970.
        end: When it ended, if an end was stated or another fact ended it.
        given: Whether the start was stated; if not, `start` is the time of the statement.
        lasting: Whether it was stated without an end, so that it ends the value before it.
        sure: The confidence, if there is any.
        learned_at: When it was first learned.
        rank: The position among facts learned at the same time.
        statements: The events that state it.
        ended_by: The fact that ended it, see `apply_endings`.
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
    learned_at: int
    rank: int
    statements: tuple[Event, ...]
    ended_by: str | None = None


def compute_state(extra: Mapping[str, Any], recorded: int | None = None) -> FactState | None:
    """Compute the state of a fact from its events.

    Args:
        extra: The `extra` of its row: the names as first spelled, the role, and the events.
        recorded: Ignore events learned later than this. Default: use all events.

    Returns:
        The state; None if the fact was not known, or was taken back.
    """
    names = extra["subject"], extra["predicate"], extra["object"], extra["role"]
    events, found = extra["told"], None
    if len(events) > 1 or recorded is not None:
        events = effective_events(events, recorded)
    for event in events:
        if event["do"] == STATEMENT:
            given, lasting = bool(event.get("given")), event["to"] is None
            times = event["from"], event["to"], given, lasting, event.get("sure"), event["at"], event["n"]
            stated = FactState(*names, *times, (event,))
            found = stated if found is None else _combine_states(found, stated)
    for event in events:
        if event["do"] == SET and found is not None:
            found = found._replace(**event["fields"])
    return found


def effective_events(events: Sequence[Event], recorded: int | None = None) -> list[Event]:
    """Return the events known by a time, without those that were undone."""
    learned = [event for event in events if recorded is None or event["at"] <= recorded]
    undone: set[int] = set()
    for event in learned:
        if event["do"] == UNDO:
            undone ^= {event["of"]}
    return [event for event in learned if event["do"] != UNDO and event["n"] not in undone]


def names_of(extra: Mapping[str, Any], recorded: int | None = None) -> tuple[str, str, str]:
    """Return the names that a fact is found by.

    A fact that was taken back is found by its first names, so that it can be restored.
    """
    state = compute_state(extra, recorded)
    return (extra["subject"], extra["predicate"], extra["object"]) if state is None else state[:3]


def adds_statement(state: FactState, event: Event) -> bool:
    """Return whether an event adds anything to a fact.

    Args:
        state: The fact.
        event: An event that states the fact.
    """
    sure = event.get("sure")
    if sure is not None and all(each.get("sure", -1) < sure for each in state.statements):
        return True
    return not any(
        all(each.get(name) == event.get(name) for name in _STATEMENT_FIELDS)
        and (not event.get("given") or (each.get("given") and each["from"] == event["from"]))
        for each in state.statements
    )


RULE = "fact_rule"
ALIAS, SINGLE = "alias", "single"
"""The labels of rules: a name merged into another, or the number of values of a predicate at a time."""


class FactRules(NamedTuple):
    """The rules on names: merged names and single-valued predicates.

    Attributes:
        aliases: Names that are merged, by their keys.
        single: The keys of the predicates that have one value at a time.
    """

    aliases: Mapping[str, Alias]
    single: frozenset[str]

    def canonical(self, name: str) -> str:
        """Return the key of the entity that a name refers to.

        Args:
            name: A name.
        """
        return self.follow_merges(entity_key(name))

    def follow_merges(self, key: str) -> str:
        """Follow merges from the key of a name to the key of its entity.

        Merges can form a circle after two branches were merged; the smallest key passed is returned then.
        """
        seen = {key}
        while (alias := self.aliases.get(key)) is not None:
            key = entity_key(alias.into)
            if key in seen:
                return min(seen)
            seen.add(key)
        return key

    def keys_of(self, names: Iterable[str]) -> list[str]:
        """Return the keys of all names that refer to some entities.

        Args:
            names: Canonical keys.
        """
        wanted = set(names)
        merged = (key for key in self.aliases if self.follow_merges(key) in wanted)
        return sorted({*wanted, *merged})

    def display_name(self, name: str) -> str:
        """Return the spelling of a name after merges."""
        target = self.canonical(name)
        if target == entity_key(name):
            return name
        return next((alias.into for alias in self.aliases.values() if entity_key(alias.into) == target), name)


def apply_endings(states: Mapping[str, FactState], rules: FactRules) -> dict[str, FactState]:
    """Return facts with the ends that follow from other facts.

    A fact without a stated end ends when the next lasting value begins. Of two values that began at the same moment,
    the one learned later follows, unless its start was stated: then the two values contradict each other.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        rules: The rules on names.
    """
    found = dict(states)
    single = [(key, state) for key, state in states.items() if predicate_key(state.predicate) in rules.single]
    single.sort(key=lambda each: (each[1].start, each[1].learned_at, each[1].rank, each[0]))
    lasting: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)  # ids and values without an end
    for key, state in single:
        thing, value = (rules.canonical(state.subject), predicate_key(state.predicate)), rules.canonical(state.object)
        open_values, lasting[thing] = lasting[thing], []
        for earlier, other in open_values:
            follows = state.start > states[earlier].start or not state.given
            if other != value and state.lasting and follows:
                found[earlier] = states[earlier]._replace(end=state.start, ended_by=key)
            else:
                lasting[thing].append((earlier, other))
        if state.end is None:
            lasting[thing].append((key, value))
    return found


def unite_facts(states: Mapping[str, FactState], first: Collection[str], rules: FactRules) -> dict[str, FactState]:
    """Unite facts that state the same for overlapping periods, as two lines stated them.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        first: The ids that stay when facts are united; among several, and among others, the one learned first stays.
        rules: The rules on names.
    """
    ended = apply_endings(states, rules)
    found: dict[str, FactState] = {}
    by_triple: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key, state in sorted(states.items(), key=lambda each: (each[0] not in first, each[1].learned_at, each[0])):
        candidates = by_triple[
            rules.canonical(state.subject), predicate_key(state.predicate), rules.canonical(state.object)
        ]
        same = next((each for each in candidates if overlaps(ended[each], state.start, ended[key].end)), None)
        if same is None:
            candidates.append(key)
            found[key] = state
        else:
            found[same] = _combine_states(found[same], state)
            later = max(ended[same], ended[key], key=lambda each: LATEST if each.end is None else each.end)
            ended[same] = later._replace(start=min(ended[same].start, state.start))
    return {key: found[key] for key in states if key in found}


def _combine_states(one: FactState, other: FactState) -> FactState:
    """Combine two states of one fact. The names are those of `one`."""
    first = min(one, other, key=lambda state: (state.start, not state.given))
    return one._replace(
        start=first.start,
        given=first.given,
        end=max((state.end for state in (one, other) if state.end is not None), default=None),
        lasting=one.lasting or other.lasting,
        sure=max((state.sure for state in (one, other) if state.sure is not None), default=None),
        learned_at=min(one.learned_at, other.learned_at),
        statements=tuple(sorted((*one.statements, *other.statements), key=lambda event: (event["at"], event["n"]))),
    )


def overlaps(state: FactState, start: int, stop: int | None) -> bool:
    """Return whether a fact held at some time from `start` up to `stop`; None for no end."""
    return (state.end is None or start < state.end) and (stop is None or state.start < stop)


# -- arguments ---------------------------------------------------------------------------------------------------------


FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""The source of a fact: a message, its id, or a pair of its id and its conversation's id."""


def parse_sources(source: Any, *, nested: bool = False) -> list[tuple[str, str | None]]:
    """Return sources as pairs of message id and conversation id, None if not known."""
    if source is None:
        return []
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(each, str) for each in source):  # noqa: PLR2004
        return [(check_id(source[0], "message", MessageError), check_id(source[1], "conversation"))]
    if isinstance(source, list | set | frozenset | tuple) and not nested:
        return [pair for each in source for pair in parse_sources(each, nested=True)]
    key = source.id if isinstance(source, BaseMessage) else getattr(source, "message_id", source)
    if not isinstance(key, str):
        raise InvalidInput(
            "A source is the id of a message, a message that has one, a pair of the ids of a message and its "
            f"conversation, or a list of such, not {safe_repr(source)}."
        )
    return [(check_id(key, "message", MessageError), None)]


def check_confidence(confidence: Any) -> float | None:
    """Check and return a confidence; None if none was given."""
    checked: float | None = check_value(Annotated[float, Ge(0), Le(1)] | None, confidence, "confidence")
    return checked


def check_order(start: int | None, end: int | None) -> None:
    """Check that a fact begins before it ends."""
    if end is not None and (EARLIEST if start is None else start) >= end:
        raise InvalidInput("valid_to must come after valid_from: a fact holds up to, but not at, valid_to.")


def parse_entity(value: Any, label: str) -> str:
    """Return a subject or object that a caller gave, without secrets."""
    return parse_name(redact(check_text(value, label)), label)


def _parse_end(value: Any) -> dict[str, Any]:
    return {"end": None, "lasting": True} if value is None else {"end": check_time(value, "valid_to")}


_FACT_FIELDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "role": lambda value: {"role": check_name(value, "a role")},
    "subject": lambda value: {"subject": parse_entity(value, "The subject")},
    "predicate": lambda value: {"predicate": parse_name(value, "The predicate")},
    "obj": lambda value: {"object": parse_entity(value, "The object")},
    "object": lambda value: {"object": parse_entity(value, "The object")},
    "valid_from": lambda value: {"start": check_time(value, "valid_from"), "given": True},
    "valid_to": _parse_end,
    "confidence": lambda value: {"sure": check_confidence(value)},
}
"""The changeable fields of a fact, each with a function from a value to fields of the state."""


def parse_changes(state: FactState, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert requested changes of a fact to fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        problem = f"{safe_repr(unknown[0])} is none of them" if changes else "none is given"
        raise MessageError(f"What can be changed of a fact is {', '.join(_FACT_FIELDS)}; {problem}.")
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        fields |= _FACT_FIELDS[name](value)
    check_order(fields.get("start", state.start), fields.get("end", state.end))
    return fields
