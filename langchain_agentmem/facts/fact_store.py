"""What a memory shows of facts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import moment
from langchain_agentmem.facts import fact_events, validity
from langchain_agentmem.facts.fact import RAW_PREDICATE, Fact, Source, maybe_moment
from langchain_agentmem.facts.fact_events import State
from langchain_agentmem.facts.predicate_rules import Rules
from langchain_agentmem.facts.validity import Ending
from langchain_agentmem.messages import Message, decode_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER, Kept, View, version_of
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row


def about(
    view: View,
    *,
    subjects: Iterable[str] | None = None,
    objects: Iterable[str] | None = None,
    predicates: Iterable[str] | None = None,
    former: bool = False,
) -> Steps[dict[str, Kept]]:
    """The facts that a view shows of some subjects, or of some objects, by their ids.

    Args:
        view: From where.
        subjects: The keys of subjects; or:
        objects: The keys of objects; with subjects and predicates as well, those of such triples.
        predicates: Only those with one of these predicates, by their keys. Default: any.
        former: Whether facts count also that said so once and have been corrected since.
    """
    asked: dict[str, Any] = view.parameters()
    labels = None if predicates is None else sorted(set(predicates))
    if subjects is None:
        wanted: list[Any] = sorted(set(objects or ()))
        make = query.facts_of_objects
        asked["labels"] = None if labels is None else as_json(labels)
    elif labels is None:
        wanted, make = sorted(set(subjects)), query.facts_of_subjects
    else:
        wanted, make = list(product(sorted(set(subjects)), labels)), query.facts_of_things
        if objects is not None:
            wanted, make = list(product(sorted(set(subjects)), labels, sorted(set(objects)))), query.facts_of_triples
    if not wanted:
        return {}
    asked["keys"] = as_json(wanted)
    found = _kept((yield make(**asked, kind=FACT)))
    if former:
        once = _kept((yield make(**asked, kind=FORMER)))
        missing = {kept.extra["fact"] for kept in once.values()} - found.keys()
        if missing:
            found |= yield from memory_rows.named(view, FACT, sorted(missing))
    return found


def latest(view: View, kind: str, limit: int) -> Steps[list[Kept]]:
    """The last facts, or texts, that a view shows, by when they were learned first, oldest first."""
    found = yield query.latest_facts(**view.parameters(), kind=kind, limit=limit)
    return list(reversed(_kept(found).values()))


def everything(view: View, kind: str) -> Steps[list[Kept]]:
    """All facts, or texts, that a view shows, in the order in which they were learned first."""
    found = yield from memory_rows.current(view, kind)
    return sorted(found, key=lambda kept: kept.created_at)


def states_of(found: Mapping[str, Kept], recorded: int | None = None) -> dict[str, State]:
    """What rows say, by the ids of the facts; those that were taken back, or not known yet, are left out."""
    states = ((key, fact_events.state(kept.extra, recorded)) for key, kept in found.items())
    return {key: known for key, known in states if known is not None}


class Standing(NamedTuple):
    """A fact, and how it stands among others.

    Attributes:
        key: Its id.
        known: What is known of it.
        ending: When it ended.
    """

    key: str
    known: State
    ending: Ending

    def holds_at(self, at: int) -> bool:
        """Whether it held at a time, in microseconds since 1970."""
        return self.known.start <= at and (self.ending.at is None or at < self.ending.at)


def standing(
    view: View,
    agreed: Rules,
    found: Mapping[str, Kept],
    recorded: int | None = None,
    *,
    whole: bool | Collection[str] = False,
) -> Steps[list[Standing]]:
    """What rows say, with the ends that other facts gave them, in the order in which they came.

    Args:
        view: From where.
        agreed: What is agreed on names.
        found: The rows, by the ids of the facts.
        recorded: What was learned later does not count. Default: everything counts.
        whole: Whether all facts of the same subjects and predicates are among them; or the subjects, as they are
            compared, of which that is true.
    """
    states = states_of(found, recorded)
    if whole is True:
        every = states
    else:
        every = yield from with_others(view, agreed, states, recorded, whole or ())
    ends = validity.endings(every, agreed)
    return [Standing(key, known, ends[key]) for key, known in states.items()]


def settled(
    view: View,
    agreed: Rules,
    found: Mapping[str, Kept],
    recorded: int | None = None,
    *,
    whole: bool = False,
    at: int | None = None,
) -> Steps[list[Fact]]:
    """The same as facts.

    Args:
        view: From where.
        agreed: What is agreed on names.
        found: The rows, by the ids of the facts.
        recorded: What was learned later does not count. Default: everything counts.
        whole: Whether all facts of the same subjects and predicates are among them.
        at: Only what held then. Default: all.
    """
    every = yield from standing(view, agreed, found, recorded, whole=whole)
    return [fact_of(*each, agreed) for each in every if at is None or each.holds_at(at)]


def with_others(
    view: View, agreed: Rules, states: Mapping[str, State], recorded: int | None, whole: Collection[str] = ()
) -> Steps[dict[str, State]]:
    """Facts together with all that may have ended them.

    Args:
        view: From where.
        agreed: What is agreed on names.
        states: The facts.
        recorded: What was learned later does not count.
        whole: The subjects, as they are compared, of which all such facts are among them.
    """
    # What was given an end is ended by nothing else.
    open_ones = (known for known in states.values() if known.end is None)
    things = [thing for thing in validity.single(open_ones, agreed) if thing[0] not in whole]
    if not things:
        return dict(states)
    subjects = agreed.keys_of(subject for subject, _ in things)
    others = yield from about(
        view, subjects=subjects, predicates=[predicate for _, predicate in things], former=recorded is not None
    )
    return {**states_of(others, recorded), **states}


def fact_of(key: str, known: State, ending: Ending, agreed: Rules) -> Fact:
    """A fact as a value."""
    return Fact(
        id=key,
        role=known.role,
        subject=agreed.spelled(known.subject),
        predicate=known.predicate,
        object=agreed.spelled(known.object),
        valid_from=moment(known.start),
        valid_to=maybe_moment(ending.at),
        recorded_at=moment(known.learned),
        told=tuple(
            Source(
                message_id=event.get("id"),
                conversation_id=event.get("in"),
                role=event["role"],
                recorded_at=moment(event["at"]),
            )
            for event in known.said
        ),
        confidence=known.sure,
        ended_by=ending.by,
    )


def raw_fact(kept: Kept) -> Fact:
    """What was said, as a fact."""
    message = message_of(kept)
    told_at = moment(kept.written_at)
    return Fact(
        id=kept.key,
        role=message.role,
        subject=message.name or message.role,
        predicate=RAW_PREDICATE,
        object=message.text,
        valid_from=moment(kept.created_at),
        recorded_at=told_at,
        told=(Source(message_id=kept.key, role=message.role, recorded_at=told_at),),
        raw=True,
    )


def message_of(kept: Kept) -> Message:
    """The message that a row holds."""
    return decode_body(kept.body, kept.extra["told"][0]["id"])


def _kept(found: Sequence[Row]) -> dict[str, Kept]:
    """Rows by their keys; a version and its copies are one."""
    return {row["key"]: version_of(row) for row in found}


def state_of(extra: Mapping[str, Any]) -> State:
    """What a fact says, also if it was taken back."""
    return fact_events.state(extra) or fact_events.told(extra)


def names_of(extra: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a fact is found by. What was taken back stays, to be had again, and is found under its old names."""
    known = state_of(extra)
    return known.subject, known.predicate, known.object


def as_json(value: Any) -> str:
    """A value as queries take lists."""
    return json.dumps(value, separators=(",", ":"))
