"""When facts held: a new value of what has one at a time ends the value before it.

Nothing of that is stored. What ended when is found out by looking at all values of the same thing, so that it is right
also when facts are learned late and out of order, when names are merged or parted, and when a message is erased.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from langchain_agentmem.facts.entity_names import predicate_key
from langchain_agentmem.facts.fact_events import State
from langchain_agentmem.facts.predicate_rules import Rules


class Ending(NamedTuple):
    """When a fact ended.

    Attributes:
        at: When, in microseconds since 1970; None if it has not.
        by: The fact that ended it, if one did.
    """

    at: int | None
    by: str | None = None


def endings(states: Mapping[str, State], agreed: Rules) -> dict[str, Ending]:
    """When facts ended.

    A fact that nobody gave an end ends where the next value begins that was said to last. Of two values that began at
    one moment the one that was learned later is the next, unless it was said that it began just then: then they
    contradict each other.

    Args:
        states: Facts by their ids, with all that have the same subject and predicate.
        agreed: What is agreed on names.
    """
    found = {key: Ending(known.end) for key, known in states.items()}
    for values in _values(states, agreed):
        for place, value in enumerate(values):
            if value.known.end is not None:
                continue
            for later in values[place + 1 :]:
                if _follows(later, value):
                    found[value.key] = Ending(later.known.start, later.key)
                    break
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
                if one.object != other.object:
                    stops = [at for at in (end, ends[other.key].at) if at is not None]
                    stop = min(stops, default=None)
                    if stop is None or start < stop:
                        found.append((one.key, other.key, start, stop))
    return found


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
