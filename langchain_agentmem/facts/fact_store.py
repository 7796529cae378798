"""The rows of facts, read and written, and what a trace shows of them.

Reading gives `Kept` rows, their `State`s, or settled `Fact`s with the ends that other facts gave them. A `Book`
collects the changes of one transaction. What is told twice is one fact with two sources, as long as it holds.

A trace shows what came of a statement: which facts it added or changed, and which were known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

from langchain_agentmem.base.clock import LATEST, NewId, moment
from langchain_agentmem.base.concurrency import collecting_later
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MessageError
from langchain_agentmem.facts import fact_events
from langchain_agentmem.facts.fact import RAW_PREDICATE, Fact, Source, entity_key, maybe_moment, predicate_key, sentence
from langchain_agentmem.facts.fact_events import Event, FactEnding, Rules, State
from langchain_agentmem.messages.message import SOURCES, Message, decode_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import LISTED, Change
from langchain_agentmem.rewinding.memory_access import listed as counted
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER, OTHERS, SAID, TEXT, Kept, RowDraft, View
from langchain_agentmem.rewinding.message_sources import SET, UNDO, without
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.tracing import brief


def about(
    tx: Transaction,
    view: View,
    *,
    subjects: Iterable[str] | None = None,
    objects: Iterable[str] | None = None,
    predicates: Iterable[str] | None = None,
    former: bool = False,
) -> dict[str, Kept]:
    """The facts that a view shows of some subjects, or of some objects, by their ids.

    Args:
        tx: The transaction.
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
    asked |= {"scope": None, "before": None}  # what others tell is looked up apart

    def look_up(tx: Transaction, kind: str) -> dict[str, Kept]:
        here = _kept(make(tx, **asked, kind=kind))
        if view.scope is None:
            return here
        others = _told_by_others(tx, view, kind, subjects=subjects, objects=objects, labels=labels)
        everywhere = memory_rows.named(tx, view, kind, [*here, *(row["key"] for row in others)])
        if kind != FACT:
            return everywhere
        return {key: kept for key, kept in everywhere.items() if _is_about(kept, subjects, objects, labels)}

    found = look_up(tx, FACT)
    if former:
        once = look_up(tx, FORMER)
        missing = {kept.extra["fact"] for kept in once.values()} - found.keys()
        if missing:
            found |= memory_rows.named(tx, view, FACT, sorted(missing))
    return found


def _told_by_others(
    tx: Transaction,
    view: View,
    kind: str,
    *,
    subjects: Iterable[str] | None = None,
    objects: Iterable[str] | None = None,
    labels: Sequence[str] | None = None,
) -> Sequence[Row]:
    """The keys of what others tell in the scope of a view."""

    def listed(names: Iterable[str] | None) -> str | None:
        return None if names is None else as_json(sorted(set(names)))

    return query.fact_keys(
        tx,
        scope=view.scope,
        author=view.author,
        before=view.before,
        kind=kind,
        subjects=listed(subjects),
        objects=listed(objects),
        labels=listed(labels),
    )


def _is_about(
    kept: Kept, subjects: Iterable[str] | None, objects: Iterable[str] | None, labels: Sequence[str] | None
) -> bool:
    """Whether a fact, as all lines tell it, has one of some names."""
    subject, predicate, obj = names_of(kept.extra)
    return (
        (subjects is None or entity_key(subject) in set(subjects))
        and (objects is None or entity_key(obj) in set(objects))
        and (labels is None or predicate_key(predicate) in labels)
    )


def latest(tx: Transaction, view: View, kind: str, limit: int | None = None) -> list[Kept]:
    """The last facts, or texts, that a view shows, by when they were learned first, oldest first; None for all."""
    if limit is None:
        return sorted(memory_rows.current(tx, view, kind), key=lambda kept: kept.created_at)
    there, _ = _last_learned(tx, view, kind, limit)
    return list(reversed(there.values()))


class LearnedAt(NamedTuple):
    """The place of a fact among all, in the order in which they were learned.

    Attributes:
        learned_at: When it was learned first.
        number: The number of its row, by which those are told apart that were learned at one time.
    """

    learned_at: int
    number: int


BEHIND_ALL = LearnedAt(LATEST, 2**63 - 1)
MOST_AT_ONCE = 1_000
"""Most facts that are looked through at once for those of a page that held at some time."""


def learned(
    tx: Transaction,
    view: View,
    agreed: Rules,
    limit: int,
    before: LearnedAt,
    *,
    names: Iterable[str] | None = None,
    predicates: Iterable[str] | None = None,
    recorded: int | None = None,
    at: int | None = None,
) -> list[Fact]:
    """The facts that were learned last, the last first.

    Args:
        tx: The transaction.
        view: From where.
        agreed: What is agreed on names.
        limit: Most facts.
        before: Only what was learned before this.
        names: Only what has one of these as its subject or object, by their keys. Default: any.
        predicates: Only what has one of these, by their keys. Default: any.
        recorded: What was learned later does not count. Default: everything counts.
        at: Only what held then. Default: all, whether or not it holds still.
    """
    found: list[Fact] = []
    behind: LearnedAt | None = before
    wanted, looked_through = limit, 0
    while behind is not None and len(found) < limit:
        there, behind = _last_learned(tx, view, FACT, wanted, behind, names, predicates)
        found += settled(tx, view, agreed, there, recorded, at=at)  # some were taken back, or did not hold
        looked_through += wanted
        wanted = min(1 + (limit - len(found)) * looked_through // max(1, len(found)), MOST_AT_ONCE)
    return found[:limit]


def _last_learned(
    tx: Transaction,
    view: View,
    kind: str,
    limit: int,
    before: LearnedAt = BEHIND_ALL,
    names: Iterable[str] | None = None,
    predicates: Iterable[str] | None = None,
) -> tuple[dict[str, Kept], LearnedAt | None]:
    """The facts, or texts, that were learned last, by their keys, the last first; and before what more may come."""
    if limit == 0:
        return {}, None
    labels = None if predicates is None else as_json(sorted(set(predicates)))
    asked = {**view.parameters(), **before._asdict(), "kind": kind, "labels": labels, "limit": limit}
    if names is None:
        rows = query.latest_facts(tx, **asked)
    else:
        rows = query.facts_naming(tx, **asked, keys=as_json(sorted(set(names))))
    more = LearnedAt(rows[-1]["created_at"], rows[-1]["number"]) if len(rows) == limit else None
    if kind != FACT or view.scope is None:
        return _kept(rows), more
    there = memory_rows.named(tx, view, kind, [row["key"] for row in rows])
    return {row["key"]: there[row["key"]] for row in rows if row["key"] in there}, more


def states_of(found: Mapping[str, Kept], recorded: int | None = None) -> dict[str, State]:
    """What rows say, by the ids of the facts; those that were taken back, or not known yet, are left out."""
    return {key: known for key, kept in found.items() if (known := fact_events.state(kept.extra, recorded)) is not None}


def settled(
    tx: Transaction,
    view: View,
    agreed: Rules,
    found: Mapping[str, Kept],
    recorded: int | None = None,
    *,
    whole: bool | Collection[str] = False,
    at: int | None = None,
) -> list[Fact]:
    """What rows say as facts, with the ends that other facts gave them, in the order in which they came.

    Args:
        tx: The transaction.
        view: From where.
        agreed: What is agreed on names.
        found: The rows, by the ids of the facts.
        recorded: What was learned later does not count. Default: everything counts.
        whole: Whether all facts of the same subjects and predicates are among them; or the subjects, as they are
            compared, of which that is true.
        at: Only what held then. Default: all.
    """
    states = every = states_of(found, recorded)
    if view.scope is not None:
        states = every = fact_events.united(states, {}, agreed)
    if whole is not True:
        # What was given an end is ended by nothing else.
        open_ones = [known for known in states.values() if known.end is None]
        things = [thing for thing in fact_events.single(open_ones, agreed) if not whole or thing[0] not in whole]
        if things:
            subjects = agreed.keys_of(subject for subject, _ in things)
            predicates = [predicate for _, predicate in things]
            others = about(tx, view, subjects=subjects, predicates=predicates, former=recorded is not None)
            every = {**states_of(others, recorded), **states}
            if view.scope is not None:
                every = fact_events.united(states, every, agreed)
                states = {key: every[key] for key in states}
    with collecting_later():
        ends = fact_events.endings(every, agreed)
        return [
            fact_of(key, known, ends[key], agreed)
            for key, known in states.items()
            if at is None or fact_events.overlaps(known, ends[key].at, at, at + 1)
        ]


def fact_of(key: str, known: State, ending: FactEnding, agreed: Rules) -> Fact:
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
        told=tuple(map(_source, known.said)),
        confidence=known.sure,
        ended_by=ending.by,
    )


def _source(event: Event) -> Source:
    message, conversation, at = event.get("id"), event.get("in"), moment(event["at"])
    who = {"source": event.get("source"), "actor": event.get("actor")}
    return Source(message_id=message, conversation_id=conversation, role=event["role"], recorded_at=at, **who)


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
    with collecting_later():
        return {row["key"]: memory_rows.version_of(row) for row in found}


def state_of(extra: Mapping[str, Any]) -> State:
    """What a fact says, also if it was taken back."""
    return fact_events.state(extra) or first_told(extra)


def first_told(extra: Mapping[str, Any]) -> State:
    """What was told of a fact in the first place, also if it was taken back."""
    first = next((event for event in extra["told"] if event["do"] == SAID), None)
    if first is None:  # another line tells of it
        first = {"n": 0, "at": 0, "do": SAID, "role": extra["role"], "from": 0, "to": None}
    known = fact_events.state({**extra, "told": [first]})
    assert known is not None  # noqa: S101 - what is told of by an event is known
    return known


def names_of(extra: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a fact is found by. What was taken back stays, to be had again, and is found under its old names."""
    known = state_of(extra)
    return known.subject, known.predicate, known.object


class FactStatement(NamedTuple):
    """What somebody says.

    Attributes:
        role: Who says it.
        subject: What it is about.
        predicate: What it says.
        object: Of what.
        start: Since when it holds, in microseconds since 1970; None if they did not say.
        end: When it ended; None if it did not, or they did not say.
        sure: How sure they are, from 0 to 1; None if they did not say.
        message: The message that says so, if any.
        conversation: The conversation or thread of that, if it is known.
        said_at: When it was said. Default: now.
    """

    role: str
    subject: str
    predicate: str
    object: str
    start: int | None = None
    end: int | None = None
    sure: float | None = None
    message: str | None = None
    conversation: str | None = None
    said_at: int | None = None


class SpokenTurn(NamedTuple):
    """A statement that was kept.

    Attributes:
        key: The id of the fact that it tells of.
        text: The fact as it is now.
        outcome: Whether that was added, changed, or known.
    """

    key: str
    text: str
    outcome: Literal["added", "changed", "known"]


@dataclass(slots=True, kw_only=True)
class Book:
    """Facts that are about to be changed.

    Attributes:
        change: The transaction, and what it is about to write.
        agreed: What is agreed on names.
        new_id: Makes ids.
        written: The rows that were changed here and are not stored yet, by the ids of the facts.
        turns: What somebody said, in its order.
    """

    change: Change
    agreed: Rules
    new_id: NewId
    written: dict[str, Kept] = field(default_factory=dict)
    turns: list[SpokenTurn] = field(default_factory=list)

    def tell(self, tx: Transaction, said: FactStatement, fact: str | None = None) -> str:
        """Somebody says something. Returns the id of the fact.

        Args:
            tx: The transaction.
            said: What they say.
            fact: The fact that it tells of, where somebody else told of it just now. Default: which one it is, is found
                out.
        """
        thing = self.agreed.canonical(said.subject)
        predicate = predicate_key(said.predicate)
        value = self.agreed.canonical(said.object)
        # Of what may have many values at a time, the others say nothing of this one.
        found = self._of(tx, thing, predicate, None if self.agreed.is_single(predicate) else value)
        states = states_of(found)
        ends = fact_events.endings(states, self.agreed)
        moment = self.change.now if said.said_at is None else said.said_at
        start = said.start
        if start is None:
            start = moment if said.end is None else min(moment, said.end - 1)
        event: dict[str, Any] = {
            "n": self._number(max([_next_number(kept.extra) for kept in found.values()], default=1)),
            "at": self.change.now,
            "do": SAID,
            "role": said.role,
            "from": start,
            "to": said.end,
        }
        given = said.start is not None or None
        more: dict[str, Any] = {"id": said.message, "in": said.conversation, "given": given, "sure": said.sure}
        if said.message is None:  # erasing the thread finds it by "in"
            more |= {"in": said.conversation or self.change.thread, **self.change.writer._asdict()}
        event |= {name: value for name, value in more.items() if value is not None}
        same = [
            key
            for key, known in states.items()
            if self.agreed.canonical(known.object) == value
            and (
                fact_events.overlaps(known, ends[key].at, event["from"], event["to"])
                or (said.message is not None and said.start is None and not fact_events.says_more(known, event))
            )
        ]
        if fact is not None or same:
            key = fact or min(same, key=lambda key: (states[key].start, key))
            says_more = fact_events.says_more(_told_here(states[key], found[key]), event)
            if says_more:
                self._happens(found[key], event)
            known = fact_events.state(self.written[key].extra) if says_more else states[key]
            if known is not None:
                self.turns.append(SpokenTurn(key, _text(known), "changed" if says_more else "known"))
            return key
        extra = {
            "subject": said.subject,
            "predicate": said.predicate,
            "object": said.object,
            "role": said.role,
            "told": [event],
        }
        key = self.new_id()
        self.restate(_unwritten(key, self.change.now), extra)
        self.turns.append(SpokenTurn(key, sentence(said.subject, said.predicate, said.object), "added"))
        return key

    def correct(self, kept: Kept, fields: Mapping[str, Any]) -> None:
        """Somebody corrects a fact.

        Args:
            kept: The fact.
            fields: Those of its `State` that change.
        """
        self._happens(kept, {"do": SET, "fields": dict(fields)})

    def undo(self, tx: Transaction, kept: Kept) -> None:
        """Take back the last thing that happened to a fact: that another ended it, or an event of its own.

        Args:
            tx: The transaction.
            kept: The fact.
        """
        ender = self._ended_last(tx, kept)
        if ender is None:
            self._happens(kept, {"do": UNDO, "of": fact_events.undone(kept.extra["told"])})
        else:
            self._happens(kept, {"do": fact_events.BESIDE, "of": [ender]})

    def switch(self, kept: Kept, events: Sequence[int]) -> None:
        """Have some events of a fact not count; those that do not already count again.

        Args:
            kept: The fact.
            events: Their numbers.
        """
        for number in events:
            self._happens(self.written.get(kept.key, kept), {"do": UNDO, "of": number})

    def remove(self, tx: Transaction, kept: Kept) -> None:
        """Have a fact be gone, with what it said before it was corrected."""
        self.written.pop(kept.key, None)
        self.change.remove(FACT, kept.key)
        if any(event["do"] == SET for event in kept.extra["told"]):
            for former in memory_rows.current(tx, self.change.view, FORMER):
                if former.extra["fact"] == kept.key:
                    self.change.remove(FORMER, former.key)

    def forsake(self, tx: Transaction, message: Kept, path: str) -> None:
        """A message that was kept here is gone, or says something else: what it said does not count.

        Args:
            tx: The transaction.
            message: It, as it was kept.
            path: The path of the namespace.
        """
        name, conversation = message_of(message).message_id, message.extra["told"][0].get("in")

        def gone(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == name and event.get("in", conversation) == conversation)

        sources = [memory_rows.message_source(name)]
        found = query.resting_on(tx, keys=as_json(sources), low=path, high=path + "\x01")
        for kept in self._named(tx, FACT, found):
            extra = without(kept.extra, gone)
            if extra is None:
                self.remove(tx, kept)
            elif extra != kept.extra:
                self.restate(kept, extra)
        for kept in self._named(tx, FORMER, found):
            if without(kept.extra, gone) is None:
                self.change.remove(FORMER, kept.key)

    def restate(self, kept: Kept, extra: Mapping[str, Any]) -> None:
        """Have a fact be what was told of it.

        Args:
            kept: The fact as it was; one that is new has no `extra`.
            extra: What belongs to it now.
        """
        known = fact_events.state(extra)
        names = names_of(extra)
        if kept.extra and names_of(kept.extra) != names:
            self._write_former(kept)
        body = memory_rows.body_of(sentence(*names))
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in kept.extra:  # what other lines tell of it stays theirs
            theirs = {event["n"] for event in kept.extra["told"]} - set(kept.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in theirs]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        self.written[kept.key] = kept._replace(body=body, extra=extra)
        draft = RowDraft(FACT, kept.key, body, kept.created_at, extra=stored, findable=known is not None)
        draft = draft._replace(source=SOURCES.get(extra["role"]))
        self.change.drafts.append(looked_up_by(draft, names))

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _happens(self, kept: Kept, event: Mapping[str, Any]) -> None:
        """Add an event to what was told of a fact."""
        told = kept.extra["told"]
        event = {"n": self._number(_next_number(kept.extra)), "at": self.change.now, **event}
        if event["do"] == SET:  # its words may be those of others, who may have to be forgotten
            own = kept.extra.get("own")
            others = [] if own is None else [each for each in told if each["n"] not in own]
            if named := [[each.get("id"), each.get("in")] for each in others if each["do"] == SAID]:
                event[OTHERS] = named
        self.restate(kept, {**kept.extra, "told": [*told, event]})

    def _number(self, following: int) -> int:
        """The number of a new event. In a scope other lines give numbers too, so it is taken from the clock."""
        return following if self.change.view.scope is None else max(following, self.change.now)

    def _named(self, tx: Transaction, kind: str, found: Sequence[Row]) -> list[Kept]:
        """What can be seen here of some versions of a kind."""
        keys = sorted({row["key"] for row in found if row["kind"] == kind})
        return list(memory_rows.named(tx, self.change.view, kind, keys).values())

    def _of(self, tx: Transaction, thing: str, predicate: str, value: str | None = None) -> dict[str, Kept]:
        """All that is known of a subject and a predicate, what was changed here included.

        Args:
            tx: The transaction.
            thing: The subject, as it is compared.
            predicate: Likewise.
            value: Of what was not changed here, only what has this object. Default: any.
        """
        subjects = self.agreed.keys_of([thing])
        objects = None if value is None else self.agreed.keys_of([value])
        found = about(tx, self.change.view, subjects=subjects, objects=objects, predicates=[predicate])
        for key, kept in self.written.items():
            found.pop(key, None)
            known = fact_events.state(kept.extra)
            if known and self.agreed.canonical(known.subject) == thing and predicate_key(known.predicate) == predicate:
                found[key] = kept
        return found

    def _ended_last(self, tx: Transaction, kept: Kept) -> str | None:
        """The fact that ended another, if nothing happened to that since."""
        known = fact_events.state(kept.extra)
        if known is None:
            return None
        found = self._of(tx, self.agreed.canonical(known.subject), predicate_key(known.predicate))
        states = states_of(found)
        ender = fact_events.endings(states, self.agreed)[kept.key].by
        if ender is None:
            return None
        last = kept.extra["told"][-1]
        if (states[ender].learned, states[ender].rank) > (last["at"], last["n"]):
            return ender
        # It was known before; but it may be by a later correction, or another source, that it comes next.
        before = states_of({key: found[key] for key in (kept.key, ender)}, last["at"])
        did = kept.key in before and fact_events.endings(before, self.agreed)[kept.key].by == ender
        return None if did else ender

    def _write_former(self, kept: Kept) -> None:
        names = names_of(kept.extra)
        said = [event for event in kept.extra["told"] if event["do"] == SAID]
        extra = {"fact": kept.key, "names": names, "told": said}
        key = f"{kept.key} {_next_number(kept.extra)}"
        draft = RowDraft(FORMER, key, memory_rows.body_of(sentence(*names)), self.change.now, extra=extra)
        self.change.drafts.append(looked_up_by(draft, names))


def looked_up_by(draft: RowDraft, names: Sequence[str]) -> RowDraft:
    """A fact, or what it said once, to be found by its subject, predicate and object."""
    subject, predicate, obj = names
    return draft._replace(label=predicate_key(predicate), subject=entity_key(subject), object=entity_key(obj))


def fact_there(tx: Transaction, view: memory_rows.View, key: str) -> Kept:
    """A fact by its id.

    Args:
        tx: The transaction.
        view: From where.
        key: The id.

    Raises:
        MessageError: There is none.
    """
    found = memory_rows.named(tx, view, FACT, [key])
    if key not in found:
        raise MessageError(f"There is no fact or message {safe_repr(key)} here.")
    return found[key]


def _told_here(known: State, kept: Kept) -> State:
    """What is known of a fact, of which only what its own line tells counts as said."""
    own = kept.extra.get("own")
    return known if own is None else known._replace(said=tuple(event for event in known.said if event["n"] in own))


def _unwritten(key: str, now: int) -> Kept:
    return Kept(0, None, FACT, key, None, None, None, now, now, None, None, None, b"", {})


def _next_number(extra: Mapping[str, Any]) -> int:
    return 1 + max([int(event["n"]) for event in extra["told"]], default=0)


def facts_shown(facts: Sequence[Fact]) -> dict[str, Any]:
    """Facts that were read."""
    return counted("facts", facts, _fact)


def messages_shown(some: Sequence[Message]) -> list[dict[str, Any]]:
    """The first of the messages that are given."""
    return [{"id": each.message_id, "role": each.role, "text": brief(each.text)} for each in some[:LISTED]]


def turns_shown(turns: Iterable[SpokenTurn], refused: Sequence[str] = ()) -> dict[str, Any]:
    """What came of statements.

    Args:
        turns: The statements, in their order.
        refused: What was said and is no fact, in sentences.
    """
    facts: dict[str, dict[str, str]] = {"added": {}, "changed": {}, "known": {}}
    for turn in turns:
        # What a batch added, and was told another source of, is shown once.
        if turn.outcome != "changed" or turn.key not in facts["added"]:
            facts[turn.outcome][turn.key] = brief(turn.text)
    known = list(facts.pop("known"))
    shown: dict[str, Any] = {
        outcome: [{"id": key, "text": text} for key, text in some.items()] for outcome, some in facts.items()
    }
    shown["refused"] = [brief(each) for each in refused]
    return {**shown, "known_ids": known} if known else shown


def removed_shown(drafts: Iterable[RowDraft]) -> dict[str, Any]:
    """The ids of what is gone, by its kind."""
    ids: dict[str, list[str]] = {FACT: [], TEXT: []}
    for draft in drafts:
        if draft.body is None and draft.kind in ids:
            ids[draft.kind].append(draft.key)
    return {"fact_ids": ids[FACT], "message_ids": ids[TEXT]}


def kinds_shown(kinds: Iterable[str]) -> dict[str, int]:
    """How many facts and messages there are among things of some kinds."""
    counts = Counter(kinds)
    return {"facts": counts[FACT], "messages": counts[TEXT]}


def state_shown(known: State | None) -> dict[str, Any]:
    """What is known of a fact that was changed; nothing where it was taken back."""
    return {"taken_back": known is None, "text": None if known is None else brief(_text(known))}


def _fact(fact: Fact) -> dict[str, Any]:
    told_of: dict[str, Any] = {"id": fact.id, "text": brief(fact.text), "valid_from": fact.valid_from}
    return {**told_of, "valid_to": fact.valid_to} if fact.valid_to is not None else told_of


def _text(known: State) -> str:
    return sentence(known.subject, known.predicate, known.object)
