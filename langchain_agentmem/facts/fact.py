"""The types of facts, such as `Fact` and `Entity`, the state of a fact from its events, and the comparison of names.

Names are compared by fixed rules, which ignore spelling details such as case and spaces. Any other name of the same
entity must be declared as an alias.

No statement is ever overwritten. A fact is a list of events. `compute_state` computes the fact as it is known now, or
as it was known at some time. A message can therefore be removed from a fact, and a change can be undone.

An event of a fact (not of recall memory) is a JSON object. `n` is its number, `at` its recording time, `do` its type:

    said    A message or a person states the fact: `id` of the message, `in` its conversation, `role`, `from`, `to`,
            `sure` (the confidence). `given` is true if the start `from` was stated, not assumed.
    set     A correction: `fields` with their new values.
    undo    The event with the number `of` is disabled, or enabled again.

A `FactRules` contains the merged names and the single-valued predicates. Facts keep their original names, and a query
for one name also reads the names merged with it. A merge can therefore be undone.

`apply_endings` computes when facts ended: a new value of a single-valued predicate ends the previous value. It reads
all values of a subject and predicate. The result is therefore correct when facts are recorded late and out of order,
when names are merged or unmerged, and when a message is erased.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
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
from langchain_agentmem.rewinding.message_sources import SET, effective_events
from langchain_agentmem.search.memory_search import Explanation

MAX_CHARS = 2_000
"""The maximum number of characters of a subject, predicate or object."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_CACHED_CHARS = 100
"""The maximum number of characters of a name whose key is cached."""


def parse_name(value: Any, label: str) -> str:
    """Check a name from a caller, and replace its white space with single spaces.

    Args:
        value: The name.
        label: The description of the name, for the error.

    Raises:
        InvalidInput: The name is not text, is empty, or has more than 2,000 characters.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{label} of a fact must be text, not {type(value).__name__}.")
    name = _SPACE.sub(" ", replace_surrogates(value)).strip()
    if not entity_key(name):
        raise InvalidInput(f"{label} of a fact cannot be empty: {safe_repr(value)}.")
    if len(name) > MAX_CHARS:
        raise InvalidInput(
            f"{label} of a fact has {len(name)} characters; the maximum is {MAX_CHARS}. Store long texts with add() or "
            "in archival memory."
        )
    return name


def entity_key(name: str) -> str:
    """Return the key by which names of entities are compared.

    The key ignores case, kinds of space, invisible characters, surrounding quotes and punctuation at the end.
    """
    return _cached_key(name) if len(name) <= _MAX_CACHED_CHARS else _compute_key(name)


@lru_cache(maxsize=512)
def predicate_key(predicate: str) -> str:
    """Return the key by which predicates are compared: the same for "lives in" and "livesIn"."""
    return entity_key(_CAMEL_BOUNDARY.sub(" ", predicate).replace("_", " ").replace("-", " "))


def _compute_key(name: str) -> str:
    if name.isascii() and name.replace(" ", "").isalnum() and "  " not in name:
        return name.strip().lower()  # the usual case, which the steps below would not change further
    normalized = unicodedata.normalize("NFKC", replace_surrogates(name))  # names are stored without surrogates
    visible = "".join(char for char in normalized if unicodedata.category(char) != "Cf")  # "Cf": invisible characters
    lowered = _SPACE.sub(" ", visible).casefold().strip()
    trimmed = lowered.strip(_QUOTES + " ").rstrip(".,;:!?").rstrip().strip(_QUOTES + " ")
    return unicodedata.normalize("NFKC", trimmed or lowered)


_cached_key = lru_cache(maxsize=8_192)(_compute_key)


SINGLE_VALUED = ("lives in", "works at")
"""The predicates that have one value at a time, unless `KGMemory.declare` changes that."""
RAW_PREDICATE = "said"
"""The predicate of a message that is returned as a `Fact`."""


class FactsConfig(Options):
    """The settings of a memory of facts.

    Attributes:
        max_attempts: The number of attempts to extract facts from a message before it is parked. A parked message is
            retried once a day, after all other messages. Default: 3.
        timeout: The maximum number of seconds to wait for the model; None for no limit. Default: 120.
        instructions: Additional instructions for the model. Default: none.

    Raises:
        InvalidInput: A value is wrong.
    """

    max_attempts: int = Field(default=3, ge=1)
    timeout: float | None = Field(default=120.0, gt=0, le=TIMEOUT_MAX)
    instructions: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactMention:
    """One statement of a fact.

    Attributes:
        message_id: The id of the message that states the fact; None if it was stated without a message.
        conversation_id: The conversation or thread of the message; None if unknown.
        role: The role of the author.
        recorded_at: The time it was recorded, in UTC.
        source: The kind of writer, such as "tool" or "import"; None if the role implies it.
        actor: The name of the writer, such as the name of a tool.
    """

    message_id: str | None
    conversation_id: str | None = None
    role: str | None = None
    recorded_at: datetime
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A statement with the period in which it holds, or a message that a search returned.

    Attributes:
        id: The id of the fact, or of the message if `raw` is set.
        role: The role that stated it first.
        subject: The entity that it is about.
        predicate: The relation, such as "lives in".
        object: The value, or the related entity.
        valid_from: The time it began to hold, in UTC.
        valid_to: The time it ended, in UTC; None if no end is known.
        recorded_at: The time it was first recorded, in UTC.
        mentions: The statements of the fact, in the order in which they were added.
        confidence: The stated confidence, from 0 to 1; None if none was stated.
        ended_by: The id of the fact that ended it; None if no other value ended it.
        raw: True for a message, False for a fact.
        score: Its relevance to the query; None if it is not the result of a search.
        why: The explanation of the score.
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
        """The ids of the messages that state the fact, without duplicates."""
        return tuple(dict.fromkeys(each.message_id for each in self.mentions if each.message_id is not None))

    @property
    def text(self) -> str:
        """The fact as a sentence, or the text of the message."""
        return self.object if self.raw else format_sentence(self.subject, self.predicate, self.object)

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
        facts: The two facts, sorted by their start.
        valid_from: The start of the overlap, in UTC.
        valid_to: The end of the overlap, in UTC; None if both facts still hold.
    """

    facts: tuple[Fact, Fact]
    valid_from: datetime
    valid_to: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence(FactMention):
    """One source of a fact, with the text of its message.

    Attributes:
        text: The text of the message; None if the message is not stored.
    """

    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A subject or object of facts.

    Attributes:
        name: The name.
        aliases: Other names that are merged into it.
        facts: The number of facts with this subject or object.
    """

    name: str
    aliases: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An entity that facts connect with another entity.

    Attributes:
        name: The name of the connected entity.
        distance: The number of facts that connect the two, at least 1.
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
        into: The name into which it is merged.
    """

    name: str
    into: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionFailure:
    """A failed extraction: an unusable or missing answer. Its messages remain pending.

    Attributes:
        message_ids: The ids of the messages in the prompt.
        error: The reason.
        answer: The text of the answer, cut to 2,000 characters.
        at: The time of the failure, in UTC.
    """

    message_ids: tuple[str, ...]
    error: str
    answer: str
    at: datetime


def format_sentence(subject: str, predicate: str, obj: str) -> str:
    """Return a fact as a sentence."""
    return f"{subject} {predicate.replace('_', ' ')} {obj}"


def parse_optional_time(value: Any, label: str) -> int | None:
    """Return a caller's time as microseconds since 1970; None for None."""
    return None if value is None else check_time(value, label)


# -- events ------------------------------------------------------------------------------------------------------------


_STATEMENT_FIELDS = ("id", "in", "source", "actor", "role", "to")
"""The fields by which `adds_statement` compares two events."""

Event: TypeAlias = Mapping[str, Any]


class FactState(NamedTuple):
    """The state of a fact, computed from its own events.

    `apply_endings` adds the end if another fact ended it. Times are in microseconds since 1970. Stored corrections
    contain the field names, so the names cannot change.

    Attributes:
        subject: The subject, in its first spelling.
        predicate: The predicate, in its first spelling.
        object: The object, in its first spelling.
        role: The role that stated it first.
        start: The time it began.
        end: The time it ended; None if no end was stated, and no other fact ended it.
        given: True if the start was stated. If False, `start` is the time of the statement.
        lasting: True if it was stated without an end, so that it ends the previous value.
        sure: The confidence; None if none was stated.
        learned_at: The time it was first recorded.
        rank: The number of its first event, which sorts facts that were recorded at the same time.
        statements: The events that state it.
        ended_by: The id of the fact that ended it, see `apply_endings`.
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
        extra: The `extra` of its row: the names in their first spelling, the role, and the events.
        recorded: Ignore events recorded after this time. Default: use all events.

    Returns:
        The state; None if no statement was recorded by then, or all statements were undone.
    """
    names = extra["subject"], extra["predicate"], extra["object"], extra["role"]
    events, state = extra["told"], None
    if len(events) > 1 or recorded is not None:
        events = effective_events(events, recorded)
    for event in events:
        if event["do"] == STATEMENT:
            given, lasting = bool(event.get("given")), event["to"] is None
            fields = event["from"], event["to"], given, lasting, event.get("sure"), event["at"], event["n"]
            new_state = FactState(*names, *fields, (event,))
            state = new_state if state is None else _combine_states(state, new_state)
    for event in events:
        if event["do"] == SET and state is not None:
            state = state._replace(**event["fields"])
    return state


def get_indexed_names(extra: Mapping[str, Any], recorded: int | None = None) -> tuple[str, str, str]:
    """Return the subject, predicate and object under which a fact is indexed.

    An undone fact is indexed under its original names, so that it can be found and restored.
    """
    state = compute_state(extra, recorded)
    return (extra["subject"], extra["predicate"], extra["object"]) if state is None else state[:3]


def adds_statement(state: FactState, event: Event) -> bool:
    """Return whether an event adds information to a fact.

    Args:
        state: The state of the fact.
        event: An event that states the fact.
    """
    sure = event.get("sure")
    if sure is not None and all(known.get("sure", -1) < sure for known in state.statements):
        return True
    return not any(
        all(known.get(name) == event.get(name) for name in _STATEMENT_FIELDS)
        and (not event.get("given") or (known.get("given") and known["from"] == event["from"]))
        for known in state.statements
    )


RULE = "fact_rule"  # the kind of the rows that contain rules
ALIAS, SINGLE = "alias", "single"
"""The labels of rows of rules: `ALIAS` for a merged name, `SINGLE` for whether a predicate is single-valued."""


class FactRules(NamedTuple):
    """The rules on names: merged names and single-valued predicates.

    Attributes:
        aliases: The merged names, each by its `entity_key`.
        single: The keys of the single-valued predicates.
    """

    aliases: Mapping[str, Alias]
    single: frozenset[str]

    def resolve(self, name: str) -> str:
        """Return the key of the entity to which a name refers."""
        return self.follow_merges(entity_key(name))

    def follow_merges(self, key: str) -> str:
        """Follow merges from the key of a name to the key of its entity.

        Merges can form a cycle after two branches were merged. Then the smallest key of the cycle is returned.
        """
        visited = {key}
        while (alias := self.aliases.get(key)) is not None:
            key = entity_key(alias.into)
            if key in visited:
                return min(visited)
            visited.add(key)
        return key

    def expand_entities(self, entities: Iterable[str]) -> list[str]:
        """Return the keys of some entities, and of all names that are merged into them.

        Args:
            entities: The keys of the entities, as `resolve` returns them.
        """
        entity_keys = set(entities)
        merged = (key for key in self.aliases if self.follow_merges(key) in entity_keys)
        return sorted({*entity_keys, *merged})

    def display_name(self, name: str) -> str:
        """Return the main name of the entity to which a name refers."""
        target = self.resolve(name)
        if target == entity_key(name):
            return name
        return next((alias.into for alias in self.aliases.values() if entity_key(alias.into) == target), name)


def apply_endings(states: Mapping[str, FactState], rules: FactRules) -> dict[str, FactState]:
    """Return the states of facts with the ends that result from other facts.

    A fact without a stated end ends when the next `lasting` value begins. If two values began at the same time, the
    one recorded later ends the other. If the start of the later one was stated, they contradict each other instead.

    Args:
        states: The states by fact id. They must include all facts of each subject and predicate.
        rules: The rules on names.
    """
    ended = dict(states)
    single = [pair for pair in states.items() if predicate_key(pair[1].predicate) in rules.single]
    single.sort(key=lambda pair: (pair[1].start, pair[1].learned_at, pair[1].rank, pair[0]))
    # The ids and objects of the facts that have not ended yet, by subject and predicate.
    open_facts: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for fact_id, state in single:
        topic, value = (rules.resolve(state.subject), predicate_key(state.predicate)), rules.resolve(state.object)
        earlier_facts, open_facts[topic] = open_facts[topic], []
        for earlier_id, earlier_value in earlier_facts:
            is_later = state.start > states[earlier_id].start or not state.given
            if earlier_value != value and state.lasting and is_later:
                ended[earlier_id] = states[earlier_id]._replace(end=state.start, ended_by=fact_id)
            else:
                open_facts[topic].append((earlier_id, earlier_value))
        if state.end is None:
            open_facts[topic].append((fact_id, value))
    return ended


def unite_facts(states: Mapping[str, FactState], preferred: Collection[str], rules: FactRules) -> dict[str, FactState]:
    """Unite equal facts with overlapping periods, which two branches stated independently.

    Args:
        states: The states by fact id. They must include all facts of each subject and predicate.
        preferred: The ids that united facts get if possible. Among several of them, or if none of them fits, a united
            fact gets the id of the fact that was recorded first.
        rules: The rules on names.
    """
    ended = apply_endings(states, rules)
    united: dict[str, FactState] = {}
    ids_by_triple: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for id_, state in sorted(states.items(), key=lambda pair: (pair[0] not in preferred, pair[1].learned_at, pair[0])):
        triple = rules.resolve(state.subject), predicate_key(state.predicate), rules.resolve(state.object)
        equal_ids = ids_by_triple[triple]
        target = next((other for other in equal_ids if overlaps(ended[other], state.start, ended[id_].end)), None)
        if target is None:
            equal_ids.append(id_)
            united[id_] = state
        else:
            united[target] = _combine_states(united[target], state)
            later = max(ended[target], ended[id_], key=lambda each: LATEST if each.end is None else each.end)
            ended[target] = later._replace(start=min(ended[target].start, state.start))
    return {id_: united[id_] for id_ in states if id_ in united}


def _combine_states(base: FactState, other: FactState) -> FactState:
    """Combine two states of one fact. The names are those of `base`."""
    earliest = min(base, other, key=lambda state: (state.start, not state.given))
    return base._replace(
        start=earliest.start,
        given=earliest.given,
        end=max((state.end for state in (base, other) if state.end is not None), default=None),
        lasting=base.lasting or other.lasting,
        sure=max((state.sure for state in (base, other) if state.sure is not None), default=None),
        learned_at=min(base.learned_at, other.learned_at),
        statements=tuple(sorted((*base.statements, *other.statements), key=lambda event: (event["at"], event["n"]))),
    )


def overlaps(state: FactState, start: int, stop: int | None) -> bool:
    """Return whether a fact held at some time from `start` to before `stop` (None: no end)."""
    return (state.end is None or start < state.end) and (stop is None or state.start < stop)


# -- arguments ---------------------------------------------------------------------------------------------------------


FactSource: TypeAlias = "str | MessageLike | tuple[str, str]"
"""The source of a fact: a message, its id, or a pair of its id and the id of its conversation."""


def parse_sources(source: Any, *, nested: bool = False) -> list[tuple[str, str | None]]:
    """Return sources as pairs of message id and conversation id (None if unknown)."""
    if source is None:
        return []
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(each, str) for each in source):  # noqa: PLR2004
        return [(check_id(source[0], "message", MessageError), check_id(source[1], "conversation"))]
    if isinstance(source, list | set | frozenset | tuple) and not nested:
        return [pair for each in source for pair in parse_sources(each, nested=True)]
    message_id = source.id if isinstance(source, BaseMessage) else getattr(source, "message_id", source)
    if not isinstance(message_id, str):
        raise InvalidInput(
            "source must be a message with an id, the id of a message, a pair of the ids of a message and its "
            f"conversation, or a list of these, not {safe_repr(source)}."
        )
    return [(check_id(message_id, "message", MessageError), None)]


def check_confidence(confidence: Any) -> float | None:
    """Check and return a confidence; None for None."""
    return check_value(Annotated[float, Ge(0), Le(1)] | None, confidence, "confidence")  # type: ignore[no-any-return]


def check_order(start: int | None, end: int | None) -> None:
    """Check that a fact begins before it ends."""
    if end is not None and (EARLIEST if start is None else start) >= end:
        raise InvalidInput("valid_to must come after valid_from. A fact no longer holds at valid_to.")


def parse_entity(value: Any, label: str) -> str:
    """Check a caller's subject or object, and return it without secrets such as passwords."""
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
"""The fields that can be changed, each with a function that converts its value to fields of a `FactState`."""


def parse_changes(state: FactState, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert requested changes of a fact to fields of its state."""
    if not changes or (unknown := [name for name in changes if name not in _FACT_FIELDS]):
        problem = f"Unknown field {safe_repr(unknown[0])}" if changes else "No field was passed"
        raise MessageError(f"{problem}. The fields of a fact that can be changed are {', '.join(_FACT_FIELDS)}.")
    fields: dict[str, Any] = {}
    for name, value in changes.items():
        fields |= _FACT_FIELDS[name](value)
    check_order(fields.get("start", state.start), fields.get("end", state.end))
    return fields
