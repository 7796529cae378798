"""The rows of facts, read and written.

A `FactView` reads `Kept` rows, their `State`s, or settled `Fact`s with the ends that other facts gave them. A `Book`
collects the changes of one transaction. What is told twice is one fact with two sources, as long as it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

from langchain_agentmem.base.clock import LATEST, NewId, moment
from langchain_agentmem.base.concurrency import collecting_later
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MessageError
from langchain_agentmem.facts import fact_events
from langchain_agentmem.facts.fact import RAW_PREDICATE, Fact, Source, entity_key, maybe_moment, predicate_key, sentence
from langchain_agentmem.facts.fact_events import Event, Rules, State, rules_in
from langchain_agentmem.messages.message import SOURCES, Message, decode_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER, OTHERS, SAID, TEXT, Kept, RowDraft, View
from langchain_agentmem.rewinding.message_sources import SET, UNDO, without
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.tracing import given_only


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


class FactView:
    """The facts that a view shows, read in one transaction.

    Args:
        tx: The transaction.
        view: From where.
    """

    def __init__(self, tx: Transaction, view: View) -> None:
        self.tx, self.view = tx, view

    @cached_property
    def rules(self) -> Rules:
        """What is agreed on names."""
        return rules_in(self.tx, self.view)

    def every(self, kind: str) -> list[Kept]:
        """All rows of a kind, in the order in which they were written."""
        return memory_rows.current(self.tx, self.view, kind)

    def named(self, kind: str, keys: Iterable[str]) -> dict[str, Kept]:
        """The rows of a kind under some keys."""
        wanted = sorted(keys)
        return memory_rows.named(self.tx, self.view, kind, wanted) if wanted else {}

    def row(self, fact_id: str) -> Kept:
        """The row of a fact.

        Raises:
            MessageError: There is none.
        """
        if fact_id not in (found := self.named(FACT, [fact_id])):
            raise MessageError(f"There is no fact or message {safe_repr(fact_id)} here.")
        return found[fact_id]

    def fact(self, fact_id: str) -> Fact | None:
        """A fact, or what was said."""
        if facts := self.settled(self.named(FACT, [fact_id])):
            return facts[0]
        return next(map(raw_fact, self.named(TEXT, [fact_id]).values()), None)

    def told_by(self, message_id: str, path: str) -> list[Fact]:
        """The facts that a message tells of.

        Args:
            message_id: The message.
            path: The path of the namespace.
        """
        facts = self.settled(self.resting_on(FACT, message_id, path))
        return [fact for fact in facts if message_id in fact.sources]

    def resting_on(self, kind: str, message_id: str, path: str) -> dict[str, Kept]:
        """The rows of a kind of which a version rests on a message."""
        sources = as_json([memory_rows.message_source(message_id)])
        found = query.resting_on(self.tx, keys=sources, low=path, high=path + "\x01")
        return self.named(kind, {row["key"] for row in found if row["kind"] == kind})

    def about(
        self,
        *,
        subjects: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
        objects: Iterable[str] | None = None,
        former: bool = False,
    ) -> dict[str, Kept]:
        """The facts with some subjects, predicates or objects, by their ids.

        Args:
            subjects: The keys of subjects. Default: any.
            predicates: Those of predicates; alone they find nothing. Default: any.
            objects: Those of objects. Default: any.
            former: Whether facts count also that said so once and have been corrected since.
        """
        given = {"subjects": subjects, "labels": predicates, "objects": objects}
        asked = {name: None if keys is None else sorted(set(keys)) for name, keys in given.items()}
        if [] in asked.values():
            return {}
        found = self._about(FACT, asked)
        if former:
            once = self._about(FORMER, asked)
            found |= self.named(FACT, {kept.extra["fact"] for kept in once.values()} - found.keys())
        return found

    def _about(self, kind: str, asked: Mapping[str, list[str] | None]) -> dict[str, Kept]:
        subjects, labels, objects = asked.values()
        alone = {**self.view.parameters(), "scope": None, "before": None}  # what others tell is looked up apart
        keys: Sequence[Any] | None
        if subjects is None:
            make, keys = query.facts_of_objects, objects
            alone["labels"] = _json(labels)
        elif labels is None:
            make, keys = query.facts_of_subjects, subjects
        elif objects is None:
            make, keys = query.facts_of_things, list(product(subjects, labels))
        else:
            make, keys = query.facts_of_triples, list(product(subjects, labels, objects))
        here = _kept(make(self.tx, **alone, keys=_json(keys), kind=kind))
        if self.view.scope is None:
            return here
        scope = {"scope": self.view.scope, "author": self.view.author, "before": self.view.before}
        others = query.fact_keys(self.tx, **scope, kind=kind, **{name: _json(some) for name, some in asked.items()})
        found = self.named(kind, {*here, *(row["key"] for row in others)})
        if kind != FACT:
            return found
        wanted = [None if some is None else set(some) for some in asked.values()]

        def is_about(kept: Kept) -> bool:
            names = _keys_of(names_of(kept.extra))
            return all(some is None or name in some for some, name in zip(wanted, names, strict=True))

        return {key: kept for key, kept in found.items() if is_about(kept)}

    def latest(self, kind: str, limit: int | None = None) -> list[Kept]:
        """The last facts, or texts, by when they were learned first, oldest first; None for all."""
        if limit is None:
            return sorted(self.every(kind), key=lambda kept: kept.created_at)
        there, _ = self._last_learned(kind, limit)
        return list(reversed(there.values()))

    def learned(
        self,
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
            there, behind = self._last_learned(FACT, wanted, behind, names, predicates)
            found += self.settled(there, recorded, at=at)  # some were taken back, or did not hold
            looked_through += wanted
            wanted = min(1 + (limit - len(found)) * looked_through // max(1, len(found)), MOST_AT_ONCE)
        return found[:limit]

    def _last_learned(
        self,
        kind: str,
        limit: int,
        before: LearnedAt = BEHIND_ALL,
        names: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
    ) -> tuple[dict[str, Kept], LearnedAt | None]:
        """What was learned last, by its keys, the last first; and before what more may come."""
        if limit == 0:
            return {}, None
        asked = {**self.view.parameters(), **before._asdict(), "kind": kind, "labels": _json(predicates)}
        if names is None:
            rows = query.latest_facts(self.tx, **asked, limit=limit)
        else:
            rows = query.facts_naming(self.tx, **asked, limit=limit, keys=_json(names))
        more = LearnedAt(rows[-1]["created_at"], rows[-1]["number"]) if len(rows) == limit else None
        if kind != FACT or self.view.scope is None:
            return _kept(rows), more
        there = self.named(kind, [row["key"] for row in rows])
        return {row["key"]: there[row["key"]] for row in rows if row["key"] in there}, more

    def settled(
        self,
        found: Mapping[str, Kept],
        recorded: int | None = None,
        *,
        whole: bool | Collection[str] = False,
        at: int | None = None,
    ) -> list[Fact]:
        """What rows say as facts, with the ends that other facts gave them, in the order in which they came.

        Args:
            found: The rows, by the ids of the facts.
            recorded: What was learned later does not count. Default: everything counts.
            whole: Whether all facts of the same subjects and predicates are among them; or the subjects, as they are
                compared, of which that is true.
            at: Only what held then. Default: all.
        """
        if not found:
            return []
        agreed, is_shared = self.rules, self.view.scope is not None
        states = every = self.states(found, recorded)
        if whole is not True:
            # What was given an end is ended by nothing else.
            open_ones = [known for known in states.values() if known.end is None]
            things = [thing for thing in fact_events.single(open_ones, agreed) if not whole or thing[0] not in whole]
            if things:
                subjects = agreed.keys_of(subject for subject, _ in things)
                predicates = [predicate for _, predicate in things]
                others = self.about(subjects=subjects, predicates=predicates, former=recorded is not None)
                every = {**states_of(others, recorded), **states}
                if is_shared:
                    every = fact_events.united(states, every, agreed)
                    states = {key: every[key] for key in states}
        with collecting_later():
            ends = fact_events.endings(every, agreed)
            return [
                Fact(
                    id=key,
                    role=known.role,
                    subject=agreed.spelled(known.subject),
                    predicate=known.predicate,
                    object=agreed.spelled(known.object),
                    valid_from=moment(known.start),
                    valid_to=maybe_moment(ends[key].at),
                    recorded_at=moment(known.learned),
                    told=tuple(map(_source, known.said)),
                    confidence=known.sure,
                    ended_by=ends[key].by,
                )
                for key, known in states.items()
                if at is None or fact_events.overlaps(known, ends[key].at, at, at + 1)
            ]

    def states(self, found: Mapping[str, Kept], recorded: int | None = None) -> dict[str, State]:
        """What rows say, as `states_of`; what two lines say of the same is one."""
        states = states_of(found, recorded)
        return states if self.view.scope is None else fact_events.united(states, {}, self.rules)


def _json(keys: Iterable[Any] | None) -> str | None:
    return None if keys is None else as_json(sorted(set(keys)))


def _kept(found: Sequence[Row]) -> dict[str, Kept]:
    """Rows by their keys; a version and its copies are one."""
    with collecting_later():
        return {row["key"]: memory_rows.version_of(row) for row in found}


def _source(event: Event) -> Source:
    return Source(
        message_id=event.get("id"),
        conversation_id=event.get("in"),
        role=event["role"],
        recorded_at=moment(event["at"]),
        source=event.get("source"),
        actor=event.get("actor"),
    )


def states_of(found: Mapping[str, Kept], recorded: int | None = None) -> dict[str, State]:
    """What rows say, by the ids of the facts; those that were taken back, or not known yet, are left out."""
    return {key: known for key, kept in found.items() if (known := fact_events.state(kept.extra, recorded)) is not None}


def raw_fact(kept: Kept) -> Fact:
    """What was said, as a fact."""
    message, told_at = message_of(kept), moment(kept.written_at)
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


def state_of(extra: Mapping[str, Any]) -> State:
    """What a fact says; if it was taken back, what was told of it in the first place."""
    if (known := fact_events.state(extra)) is None:
        unsaid = {"n": 0, "at": 0, "do": SAID, "role": extra["role"], "from": 0, "to": None}  # another line tells of it
        first = next((event for event in extra["told"] if event["do"] == SAID), unsaid)
        known = fact_events.state({**extra, "told": [first]})
        assert known is not None  # noqa: S101 - what is told of by an event is known
    return known


def names_of(extra: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a fact is found by. What was taken back stays, to be had again, and is found under its old names."""
    known = state_of(extra)
    return known.subject, known.predicate, known.object


def _keys_of(names: Sequence[str]) -> tuple[str, str, str]:
    subject, predicate, obj = names
    return entity_key(subject), predicate_key(predicate), entity_key(obj)


def draft_of(kind: str, key: str, names: Sequence[str], created_at: int, **more: Any) -> RowDraft:
    """A fact, or what it said once, to be found by its subject, predicate and object.

    Args:
        kind: Which of the two.
        key: Its key.
        names: Its subject, predicate and object.
        created_at: When it began to be known.
        **more: Other fields of the draft.
    """
    subject, label, obj = _keys_of(names)
    body = memory_rows.body_of(sentence(*names))
    return RowDraft(kind, key, body, created_at, label=label, subject=subject, object=obj, **more)


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
        fact_id: The fact that it tells of.
        text: The fact as it is now.
        operation: Whether that was added, changed, or known.
    """

    fact_id: str
    text: str
    operation: Literal["added", "changed", "known"]


@dataclass(slots=True, kw_only=True)
class Book:
    """Facts that are about to be changed.

    Attributes:
        facts: The facts as they were.
        change: What is about to be written.
        path: The path of the namespace.
        new_id: Makes ids.
        written: The rows that were changed here and are not stored yet, by the ids of the facts.
    """

    facts: FactView
    change: Change
    path: str
    new_id: NewId
    written: dict[str, Kept] = field(default_factory=dict)

    def tell(self, said: FactStatement, fact: str | None = None) -> SpokenTurn:
        """Somebody says something.

        Args:
            said: What they say.
            fact: The fact that it tells of, where somebody else told of it just now. Default: which one it is, is found
                out.
        """
        agreed, now = self.facts.rules, self.change.now
        thing, predicate = agreed.canonical(said.subject), predicate_key(said.predicate)
        value = agreed.canonical(said.object)
        # Of what may have many values at a time, the others say nothing of this one.
        found = self._of(thing, predicate, None if agreed.is_single(predicate) else value)
        states = states_of(found)
        ends = fact_events.endings(states, agreed)
        start = said.start
        if start is None:
            start = now if said.said_at is None else said.said_at
            start = start if said.end is None else min(start, said.end - 1)
        number = self._number(max([_next_number(kept.extra) for kept in found.values()], default=1))
        event = {"n": number, "at": now, "do": SAID, "role": said.role, "from": start, "to": said.end}
        given = said.start is not None or None
        more: dict[str, Any] = {"id": said.message, "in": said.conversation, "given": given, "sure": said.sure}
        if said.message is None:  # erasing the thread finds it by "in"
            more |= {"in": said.conversation or self.change.thread, **self.change.writer._asdict()}
        event |= given_only(more)
        same = [
            key
            for key, known in states.items()
            if agreed.canonical(known.object) == value
            and (
                fact_events.overlaps(known, ends[key].at, start, said.end)
                or (said.message is not None and said.start is None and not fact_events.says_more(known, event))
            )
        ]
        if fact is None and not same:
            key, names = self.new_id(), {"subject": said.subject, "predicate": said.predicate, "object": said.object}
            unwritten = Kept(0, None, FACT, key, None, None, None, now, now, None, None, None, b"", {})
            self.restate(unwritten, {**names, "role": said.role, "told": [event]})
            return SpokenTurn(key, self.written[key].text, "added")
        key = fact or min(same, key=lambda key: (states[key].start, key))
        kept, told_here = found[key], states[key]
        if (own := kept.extra.get("own")) is not None:  # what other lines tell is not said here yet
            told_here = told_here._replace(said=tuple(each for each in told_here.said if each["n"] in own))
        if not fact_events.says_more(told_here, event):
            return SpokenTurn(key, kept.text, "known")
        self._happens(kept, event)
        return SpokenTurn(key, self.written[key].text, "changed")

    def correct(self, kept: Kept, fields: Mapping[str, Any]) -> None:
        """Somebody corrects a fact.

        Args:
            kept: The fact.
            fields: Those of its `State` that change.
        """
        self._happens(kept, {"do": SET, "fields": dict(fields)})

    def undo(self, kept: Kept) -> None:
        """Take back the last thing that happened to a fact: that another ended it, or an event of its own.

        What was taken back last is had again.
        """
        if (ender := self._ended_last(kept)) is not None:
            self._happens(kept, {"do": fact_events.BESIDE, "of": [ender]})
        else:
            last = kept.extra["told"][-1]
            self._happens(kept, {"do": UNDO, "of": last["of" if last["do"] == UNDO else "n"]})

    def switch(self, kept: Kept, events: Sequence[int]) -> None:
        """Have some events of a fact not count; those that do not already count again.

        Args:
            kept: The fact.
            events: Their numbers.
        """
        for number in events:
            self._happens(self.written.get(kept.key, kept), {"do": UNDO, "of": number})

    def remove(self, kept: Kept) -> None:
        """Have a fact be gone, with what it said before it was corrected."""
        self.written.pop(kept.key, None)
        self.change.remove(FACT, kept.key)
        if any(event["do"] == SET for event in kept.extra["told"]):
            for former in self.facts.every(FORMER):
                if former.extra["fact"] == kept.key:
                    self.change.remove(FORMER, former.key)

    def forsake(self, message: Kept) -> None:
        """A message that was kept here is gone, or says something else: what it said does not count."""
        name, conversation = message_of(message).message_id, message.extra["told"][0].get("in")

        def gone(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == name and event.get("in", conversation) == conversation)

        for kept in self.facts.resting_on(FACT, name, self.path).values():
            extra = without(kept.extra, gone)
            if extra is None:
                self.remove(kept)
            elif extra != kept.extra:
                self.restate(kept, extra)
        for kept in self.facts.resting_on(FORMER, name, self.path).values():
            if without(kept.extra, gone) is None:
                self.change.remove(FORMER, kept.key)

    def restate(self, kept: Kept, extra: Mapping[str, Any]) -> None:
        """Have a fact be what was told of it.

        Args:
            kept: The fact as it was; one that is new has no `extra`.
            extra: What belongs to it now.
        """
        names = names_of(extra)
        if kept.extra and (before := names_of(kept.extra)) != names:
            said = [event for event in kept.extra["told"] if event["do"] == SAID]
            once = {"fact": kept.key, "names": before, "told": said}
            key = f"{kept.key} {_next_number(kept.extra)}"
            self.change.drafts.append(draft_of(FORMER, key, before, self.change.now, extra=once))
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in kept.extra:  # what other lines tell of it stays theirs
            theirs = {event["n"] for event in kept.extra["told"]} - set(kept.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in theirs]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        findable, source = fact_events.state(extra) is not None, SOURCES.get(extra["role"])
        draft = draft_of(FACT, kept.key, names, kept.created_at, extra=stored, findable=findable, source=source)
        self.written[kept.key] = kept._replace(body=draft.body or b"", extra=extra)
        self.change.drafts.append(draft)

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _happens(self, kept: Kept, event: Mapping[str, Any]) -> None:
        """Add an event to what was told of a fact."""
        told = kept.extra["told"]
        event = {"n": self._number(_next_number(kept.extra)), "at": self.change.now, **event}
        own = kept.extra.get("own")
        if event["do"] == SET and own is not None:  # its words may be those of others, who may have to be forgotten
            others = [each for each in told if each["n"] not in own and each["do"] == SAID]
            if named := [[each.get("id"), each.get("in")] for each in others]:
                event[OTHERS] = named
        self.restate(kept, {**kept.extra, "told": [*told, event]})

    def _number(self, following: int) -> int:
        """The number of a new event. In a scope other lines give numbers too, so it is taken from the clock."""
        return following if self.change.view.scope is None else max(following, self.change.now)

    def _of(self, thing: str, predicate: str, value: str | None = None) -> dict[str, Kept]:
        """All that is known of a subject and a predicate, what was changed here included.

        Args:
            thing: The subject, as it is compared.
            predicate: Likewise.
            value: Of what was not changed here, only what has this object. Default: any.
        """
        agreed = self.facts.rules
        objects = None if value is None else agreed.keys_of([value])
        found = self.facts.about(subjects=agreed.keys_of([thing]), predicates=[predicate], objects=objects)
        for key, kept in self.written.items():
            found.pop(key, None)
            known = fact_events.state(kept.extra)
            if known and agreed.canonical(known.subject) == thing and predicate_key(known.predicate) == predicate:
                found[key] = kept
        return found

    def _ended_last(self, kept: Kept) -> str | None:
        """The fact that ended another, if nothing happened to that since."""
        known, agreed = fact_events.state(kept.extra), self.facts.rules
        if known is None:
            return None
        found = self._of(agreed.canonical(known.subject), predicate_key(known.predicate))
        states = states_of(found)
        ender = fact_events.endings(states, agreed)[kept.key].by
        if ender is None:
            return None
        last = kept.extra["told"][-1]
        if (states[ender].learned, states[ender].rank) > (last["at"], last["n"]):
            return ender
        # It was known before; but it may be by a later correction, or another source, that it comes next.
        before = states_of({key: found[key] for key in (kept.key, ender)}, last["at"])
        did = kept.key in before and fact_events.endings(before, agreed)[kept.key].by == ender
        return None if did else ender


def _next_number(extra: Mapping[str, Any]) -> int:
    return 1 + max([int(event["n"]) for event in extra["told"]], default=0)
