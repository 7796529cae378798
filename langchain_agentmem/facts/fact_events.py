"""What was told of a fact, and what follows from it: its state, the rules on names, and when it held.

Nothing that was told is ever overwritten. A fact is a list of events; `state` computes what the fact is, or what it was
as far as it was known at some time. So a message can be taken out of a fact again, and a change can be undone.

An event is a JSON object: `n` is its number, `at` when it was learned, and `do` what it does:

    said    A message or a person tells of the fact: `id`, `in`, `role`, `from`, `to`, `sure`; `given` if it said when.
    set     Somebody corrects it: `fields` with their new values.
    beside  Somebody says that other facts, `of`, do not end it.
    undo    The event `of` does not count, or counts again.

`Rules` say which names are one and which predicates have one value at a time. Facts keep the names that they were told
with; merged names are looked up together, so that a merge can be taken back.

`endings` computes when facts ended: a new value of what has one at a time ends the value before it. It looks at all
values of the same thing, so it is also right when facts are learned late and out of order, when names are merged or
parted, and when a message is erased.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.facts.fact import SINGLE_VALUED, Alias, entity_key, predicate_key
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import SAID, RowDraft, View
from langchain_agentmem.rewinding.message_sources import SET, UNDO
from langchain_agentmem.storage import Transaction

BESIDE = "beside"
_TELLING = ("id", "in", "source", "actor", "role", "to")
"""What two events by which the same is told have in common."""

Event: TypeAlias = Mapping[str, Any]


class State(NamedTuple):
    """What is known of a fact, of itself alone: others may have ended it.

    Attributes:
        subject: As it was first spelled, like the next two.
        predicate: What it says.
        object: Of what.
        role: Who said it first.
        start: When it began, in microseconds since 1970.
        end: When it ended, if anybody said so.
        given: Whether anybody said when it began; else it is when it was said.
        lasting: Whether anybody said that it goes on, so that it ends what was before it.
        sure: The confidence, if there is any.
        learned: When it was learned first.
        rank: Its place among what was learned at one time.
        said: What told of it.
        beside: The facts that do not end it.
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
    beside: frozenset[str] = frozenset()


def state(extra: Mapping[str, Any], recorded: int | None = None) -> State | None:
    """What a fact is.

    Args:
        extra: What belongs to its row: the names as they were first spelled, the role, and the events.
        recorded: What was learned later does not count. Default: everything counts.

    Returns:
        None if it was not known, or was taken back.
    """
    names = extra["subject"], extra["predicate"], extra["object"], extra["role"]
    if len(extra["told"]) == 1:  # as most facts have, which this reads three times as fast
        [event] = extra["told"]
        if event["do"] != SAID or (recorded is not None and event["at"] > recorded):
            return None
        given, lasting = bool(event.get("given")), event["to"] is None
        times = event["from"], event["to"], given, lasting, event.get("sure"), event["at"], event["n"]
        return State(*names, *times, (event,))
    known = counting(extra["told"], recorded)
    said = tuple(event for event in known if event["do"] == SAID)
    if not said:
        return None
    start = min(event["from"] for event in said)
    ends = [event["to"] for event in said if event["to"] is not None]
    found = State(
        *names,
        start=start,
        end=max(ends, default=None),
        given=any(event["from"] == start and event.get("given") for event in said),
        lasting=len(ends) < len(said),
        sure=max((event["sure"] for event in said if event.get("sure") is not None), default=None),
        learned=said[0]["at"],
        rank=said[0]["n"],
        said=said,
    )
    for event in known if len(known) > len(said) else ():
        if event["do"] == SET:
            found = found._replace(**event["fields"])
        elif event["do"] == BESIDE:
            found = found._replace(beside=found.beside.union(event["of"]))
    return found


def counting(events: Sequence[Event], recorded: int | None = None) -> list[Event]:
    """The events that count, as far as they were known at some time; an undone one does not."""
    known = [event for event in events if recorded is None or event["at"] <= recorded]
    off: set[int] = set()
    for event in known:
        if event["do"] == UNDO:
            off ^= {event["of"]}
    return [event for event in known if event["do"] != UNDO and event["n"] not in off]


def says_more(known: State, event: Event) -> bool:
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
_ALIAS, _SINGLE = "alias", "single"


class Rules(NamedTuple):
    """What is agreed on names.

    Attributes:
        aliases: Names that are merged, or proposed to be, by their keys.
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
        if key not in self.aliases:
            return key
        seen = {key}
        while (alias := self.aliases.get(key)) is not None and alias.merged:
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
        merged = (key for key, alias in self.aliases.items() if alias.merged and self.followed(key) in wanted)
        return sorted({*wanted, *merged})

    def spelled(self, name: str) -> str:
        """The name that something goes by, once names are merged."""
        if not self.aliases:
            return name
        key = entity_key(name)
        target = self.followed(key)
        if target == key:
            return name
        return next(
            (alias.into for alias in self.aliases.values() if alias.merged and entity_key(alias.into) == target), name
        )

    def is_single(self, predicate: str) -> bool:
        """Whether a predicate has one value at a time."""
        return predicate_key(predicate) in self.single


def rules_in(tx: Transaction, view: View) -> Rules:
    """What is agreed where somebody stands, by what they see."""
    aliases: dict[str, Alias] = {}
    one = {predicate_key(name) for name in SINGLE_VALUED}
    for kept in memory_rows.current(tx, view, RULE):
        _, _, key = kept.key.partition(":")
        if kept.label == _SINGLE:
            (one.add if kept.extra["single"] else one.discard)(key)
        elif kept.label == _ALIAS:
            aliases[key] = Alias(**{name: kept.extra[name] for name in ("name", "into", "merged", "why")})
    return Rules(aliases, frozenset(one))


def declared(predicate: str, *, single: bool, now: int) -> RowDraft:
    """That a predicate has one value at a time, or has not.

    Args:
        predicate: Its name.
        single: Whether it has.
        now: When it is declared.
    """
    key = predicate_key(predicate)
    return RowDraft(RULE, f"{_SINGLE}:{key}", predicate.encode(), now, label=_SINGLE, extra={"single": single})


def named_alike(alias: Alias, now: int, *, told: Sequence[Mapping[str, Any]] = ()) -> RowDraft:
    """That two names are one, or may be.

    Args:
        alias: The names.
        now: When that is said.
        told: The events of the messages that it was made of, with any of which it goes. Default: somebody says so.
    """
    extra = asdict(alias) | ({"told": list(told), "rests_on_all": True} if told else {})
    return RowDraft(RULE, _alias_key(alias.name), alias.name.encode(), now, label=_ALIAS, extra=extra)


def apart(name: str, now: int) -> RowDraft:
    """That a name means nothing but itself.

    Args:
        name: The name.
        now: When that is said.
    """
    return RowDraft(RULE, _alias_key(name), None, now)


def _alias_key(name: str) -> str:
    return f"{_ALIAS}:{entity_key(name)}"


class FactEnding(NamedTuple):
    """When a fact ended.

    Attributes:
        at: When, in microseconds since 1970; None if it has not.
        by: The fact that ended it, if one did.
    """

    at: int | None
    by: str | None = None


def endings(states: Mapping[str, State], agreed: Rules) -> dict[str, FactEnding]:
    """When facts ended.

    A fact that nobody gave an end ends where the next value begins that was said to last. Of two values that began at
    one moment the one that was learned later is the next, unless it was said that it began just then: then they
    contradict each other.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        agreed: What is agreed on names.
    """
    found = {key: FactEnding(known.end) for key, known in states.items()}
    for values in _values(states, agreed):
        for place, value in enumerate(values):
            if value.known.end is None:
                following = (later for later in values[place + 1 :] if _follows(later, value))
                found[value.key] = next(
                    (FactEnding(each.known.start, each.key) for each in following), FactEnding(None)
                )
    return found


def clashes(states: Mapping[str, State], agreed: Rules) -> list[tuple[str, str, int, int | None]]:
    """The pairs of values of one thing that held at the same time, with the time from and to which both did.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        agreed: What is agreed on names.
    """
    ends = endings(states, agreed)
    found: list[tuple[str, str, int, int | None]] = []
    for values in _values(states, agreed):
        for place, one in enumerate(values):
            end = ends[one.key].at
            for other in values[place + 1 :]:
                start = other.known.start
                if end is not None and start >= end:
                    break
                stop = min((at for at in (end, ends[other.key].at) if at is not None), default=None)
                if one.object != other.object and (stop is None or start < stop):
                    found.append((one.key, other.key, start, stop))
    return found


def united(states: Mapping[str, State], others: Mapping[str, State], agreed: Rules) -> dict[str, State]:
    """Facts of which those are one that say the same of the same time: two lines told of them apart.

    Args:
        states: Facts by their ids; of those that are one the id that was learned first stays.
        others: More of them, whose ids stay only where none of the first is the same.
        agreed: What is agreed on names.
    """
    every = {**others, **states}
    until: dict[str, int | None] = {key: ending.at for key, ending in endings(every, agreed).items()}
    found: dict[str, State] = {}
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key, known in sorted(every.items(), key=lambda each: (each[0] not in states, each[1].learned, each[0])):
        there = alike[agreed.canonical(known.subject), predicate_key(known.predicate), agreed.canonical(known.object)]
        same = next((each for each in there if overlaps(found[each], until[each], known.start, until[key])), None)
        if same is None:
            there.append(key)
            found[key] = known
        else:
            found[same] = _together(found[same], known)
            until[same] = _later(until[same], until[key])
    return {key: found[key] for key in (*states, *others) if key in found}


def _later(one: int | None, other: int | None) -> int | None:
    """The later of two ends, of which None is the last."""
    return None if one is None or other is None else max(one, other)


def _together(one: State, other: State) -> State:
    """Two facts that are one."""
    first, second = sorted((one, other), key=lambda known: known.start)
    return one._replace(
        start=first.start,
        given=first.given or (first.start == second.start and second.given),
        end=_later(one.end, other.end),
        lasting=one.lasting or other.lasting,
        sure=max((known.sure for known in (one, other) if known.sure is not None), default=None),
        learned=min(one.learned, other.learned),
        said=tuple(sorted((*one.said, *other.said), key=lambda event: (event["at"], event["n"]))),
        beside=one.beside | other.beside,
    )


def overlaps(known: State, end: int | None, start: int, stop: int | None) -> bool:
    """Whether a fact held at some time between two.

    Args:
        known: The fact.
        end: When it ended.
        start: The first moment.
        stop: The moment behind the last; None for ever.
    """
    return (end is None or start < end) and (stop is None or known.start < stop)


def single(states: Iterable[State], agreed: Rules) -> set[tuple[str, str]]:
    """The subjects and predicates of facts whose predicate has one value at a time, by their keys."""
    return {
        (agreed.canonical(known.subject), predicate_key(known.predicate))
        for known in states
        if agreed.is_single(known.predicate)
    }


class _Value(NamedTuple):
    """A fact as a value of something: its id, the key of its object, and what is known of it."""

    key: str
    object: str
    known: State


def _values(states: Mapping[str, State], agreed: Rules) -> Iterable[list[_Value]]:
    """The values of each thing that has one at a time, in their order."""
    found: dict[tuple[str, str], list[_Value]] = defaultdict(list)
    for key, known in states.items():
        if agreed.is_single(known.predicate):
            value = _Value(key, agreed.canonical(known.object), known)
            found[agreed.canonical(known.subject), predicate_key(known.predicate)].append(value)
    for values in found.values():
        values.sort(key=lambda value: (value.known.start, value.known.learned, value.known.rank, value.key))
    return found.values()


def _follows(later: _Value, value: _Value) -> bool:
    """Whether a value that comes later is the one by which another ended."""
    if later.object == value.object or not later.known.lasting or later.key in value.known.beside:
        return False
    return later.known.start > value.known.start or not later.known.given
