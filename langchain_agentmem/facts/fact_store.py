"""The rows of facts and of what was said, read and written.

`FactsContext` is the access to one memory of facts. In a transaction a `FactView` reads `MemoryVersion` rows, their
`FactState`s, or settled `Fact`s with the ends that other facts gave them; `FactChanges` is a view that also collects
what is written. What is told twice is one fact with two sources, as long as it holds.

What was said is kept as it was, and waits until a model has extracted its facts, in the transaction that kept it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeVar

from langchain_agentmem.base.clock import LATEST, NewId, moment
from langchain_agentmem.base.concurrency import collecting_later
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.conversations.log_entries import changed, entry_of
from langchain_agentmem.errors import MessageError, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts.fact import (
    Fact,
    FactMention,
    FactRules,
    FactsConfig,
    FactState,
    entity_key,
    predicate_key,
)
from langchain_agentmem.messages.message import SOURCES, Message, decode_body, plain, same_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MemorySession, PendingWrite
from langchain_agentmem.rewinding.memory_rows import (
    DUE,
    FACT,
    FAILURE,
    FORMER,
    OTHERS,
    SAID,
    TEXT,
    MemoryVersion,
    VersionDraft,
)
from langchain_agentmem.rewinding.message_sources import SET, UNDO, without
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.tracing import given_only

DESCRIPTION = "description"
"""The key of the text with which a memory begins."""

T = TypeVar("T")


BEHIND_ALL = (LATEST, 2**63 - 1)
"""Where the pages of facts begin: a fact stands where it was learned, and behind others of that time by its number."""
LONGEST_PAGE = 1_000


class FactView:
    """The facts that a view shows, read in one transaction.

    Args:
        tx: The transaction.
        view: From where.
    """

    def __init__(self, tx: Transaction, view: memory_rows.MemoryView) -> None:
        self.tx, self.view = tx, view

    @cached_property
    def rules(self) -> FactRules:
        """What is agreed on names."""
        aliases: dict[str, fact_values.Alias] = {}
        is_single = {predicate_key(name): True for name in fact_values.SINGLE_VALUED}
        for kept in self.every(fact_values.RULE):
            _, _, key = kept.key.partition(":")
            if kept.label == fact_values.ALIAS:
                aliases[key] = fact_values.Alias(name=kept.extra["name"], into=kept.extra["into"])
            elif kept.label == fact_values.SINGLE:
                is_single[key] = kept.extra["single"]
        return FactRules(aliases, frozenset(key for key, single in is_single.items() if single))

    @cached_property
    def stored(self) -> dict[str, MemoryVersion]:
        """The rows of all facts, by their ids, in the order in which they were written."""
        return {kept.key: kept for kept in self.every(FACT)}

    @cached_property
    def description(self) -> str | None:
        """The text with which the memory begins, if one was written."""
        return next((kept.text for kept in self.named(fact_values.RULE, [DESCRIPTION]).values()), None)

    def every(self, kind: str) -> list[MemoryVersion]:
        """All rows of a kind, in the order in which they were written."""
        return memory_rows.current(self.tx, self.view, kind)

    def named(self, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
        """The rows of a kind under some keys."""
        wanted = sorted(keys)
        return memory_rows.named(self.tx, self.view, kind, wanted) if wanted else {}

    def row(self, fact_id: str) -> MemoryVersion:
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

    def shown(self, rows: Iterable[MemoryVersion]) -> dict[str, Fact]:
        """Facts, and what was said, by their ids; what was taken back is left out."""
        there = {kept.key: kept for kept in rows}
        facts = self.settled({key: kept for key, kept in there.items() if kept.kind == FACT})
        return {fact.id: fact for fact in facts} | {
            key: raw_fact(kept) for key, kept in there.items() if kept.kind == TEXT
        }

    def told_by(self, message_id: str, path: str) -> list[Fact]:
        """The facts that a message tells of.

        Args:
            message_id: The message.
            path: The path of the namespace.
        """
        facts = self.settled(self.resting_on(message_id, path))
        return [fact for fact in facts if message_id in fact.sources]

    def resting_on(self, message_id: str, path: str) -> dict[str, MemoryVersion]:
        """The facts of which a version rests on a message."""
        sources = as_json([memory_rows.message_source(message_id)])
        found = query.resting_on(self.tx, keys=sources, low=path, high=path + "\x01")
        return self.named(FACT, {row["key"] for row in found if row["kind"] == FACT})

    def texts(self, messages: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], MemoryVersion]:
        """The rows of some messages, each given with its conversation, if that is known."""
        here = self.named(TEXT, {key for each in messages for key in (each[0], _read_key(*each))})
        kept = {each: here.get(_read_key(*each)) or here.get(each[0]) for each in messages}
        return {each: row for each, row in kept.items() if row is not None}

    def about(
        self,
        *,
        subjects: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
        objects: Iterable[str] | None = None,
        recorded: int | None = None,
    ) -> dict[str, MemoryVersion]:
        """The facts with some subjects, predicates and objects, by their ids.

        All facts are read where neither subjects nor objects are given.

        Args:
            subjects: The keys of subjects. Default: any.
            predicates: Those of predicates. Default: any.
            objects: Those of objects. Default: any.
            recorded: What they said at this time counts. Default: what they say now.
        """
        wanted = [None if keys is None else set(keys) for keys in (subjects, predicates, objects)]
        if set() in wanted:
            return {}
        if subjects is None and objects is None:
            found = self.stored
        else:
            found = self._looked_up(*wanted)
            if recorded is not None:
                found |= self.named(FACT, {kept.key for kept in self.every(FORMER)} - found.keys())
            elif self.view.scope is None and (predicates is not None or None in (subjects, objects)):
                return found

        def is_about(kept: MemoryVersion) -> bool:
            names = fact_values.names_of(kept.extra, recorded)
            keys = entity_key(names[0]), predicate_key(names[1]), entity_key(names[2])
            return all(some is None or key in some for some, key in zip(wanted, keys, strict=True))

        if wanted == [None, None, None]:
            return found
        return {key: kept for key, kept in found.items() if is_about(kept)}

    def _looked_up(
        self, subjects: set[str] | None, labels: set[str] | None, objects: set[str] | None
    ) -> dict[str, MemoryVersion]:
        """The facts with some names; in a scope also those of which another line says that they have them."""
        alone = {**self.view.parameters(), "scope": None, "before": None}  # what others tell is looked up apart
        keys: Iterable[Any] | None
        if subjects is None:
            make, keys = query.facts_of_objects, objects
            alone["labels"] = _json(labels)
        elif labels is None:
            make, keys = query.facts_of_subjects, subjects
        elif objects is None:
            make, keys = query.facts_of_things, product(subjects, labels)
        else:
            make, keys = query.facts_of_triples, product(subjects, labels, objects)
        rows = make(self.tx, **alone, keys=_json(keys), kind=FACT)
        if self.view.scope is None:
            return {row["key"]: memory_rows.version_of(row) for row in rows}
        scope = {"scope": self.view.scope, "author": self.view.author, "before": self.view.before}
        names = {"subjects": _json(subjects), "labels": _json(labels), "objects": _json(objects)}
        others = query.fact_keys(self.tx, **scope, kind=FACT, **names)
        return self.named(FACT, {row["key"] for row in (*rows, *others)})

    def pages(
        self,
        kind: str,
        size: int,
        before: tuple[int, int] = BEHIND_ALL,
        *,
        names: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
    ) -> Iterator[dict[str, MemoryVersion]]:
        """Yield what was learned last, the last first, by its keys. Each page is longer than the one before it.

        Args:
            kind: Facts or texts.
            size: How many rows the first page has.
            before: Only what was learned before this: when, and the number of its row.
            names: Only what has one of these as its subject or object, by their keys. Default: any.
            predicates: Only what has one of these, by their keys. Default: any.
        """
        behind: tuple[int, int] | None = before
        asked = {**self.view.parameters(), "kind": kind, "labels": _json(predicates)}
        while behind is not None and size > 0:
            place = {"learned_at": behind[0], "number": behind[1]}
            if names is None:
                rows = query.latest_facts(self.tx, **asked, **place, limit=size)
            else:
                rows = query.facts_naming(self.tx, **asked, **place, limit=size, keys=_json(names))
            behind = (rows[-1]["created_at"], rows[-1]["number"]) if len(rows) == size else None
            size = min(4 * size, LONGEST_PAGE)
            if kind == FACT and self.view.scope is not None:
                there = self.named(kind, [row["key"] for row in rows])
                yield {row["key"]: there[row["key"]] for row in rows if row["key"] in there}
            else:
                yield {row["key"]: memory_rows.version_of(row) for row in rows}

    def settled(
        self,
        found: Mapping[str, MemoryVersion],
        recorded: int | None = None,
        *,
        whole: bool = False,
        at: int | None = None,
    ) -> list[Fact]:
        """What rows say as facts, with the ends that other facts gave them, in the order in which they came.

        Args:
            found: The rows, by the ids of the facts.
            recorded: What was learned later does not count. Default: everything counts.
            whole: Whether all facts of the same subjects and predicates are among them.
            at: Only what held then. Default: all.
        """
        if not found:
            return []
        agreed = self.rules
        states = every = states_of(found, recorded)
        # What was given an end is ended by nothing else.
        lasting = [known for known in states.values() if known.end is None]
        predicates = agreed.single & {predicate_key(known.predicate) for known in lasting}
        if predicates and not whole:
            single = [known for known in lasting if predicate_key(known.predicate) in predicates]
            subjects = agreed.keys_of(agreed.canonical(known.subject) for known in single)
            others = self.about(subjects=subjects, predicates=predicates, recorded=recorded)
            every = {**states_of(others, recorded), **states}
        if self.view.scope is not None:  # two lines may tell of one
            every = fact_values.united(every, states, agreed)
            states = {key: every[key] for key in states if key in every}
        with collecting_later():
            ended = fact_values.endings(every, agreed)
            return [
                Fact(
                    id=key,
                    role=known.role,
                    subject=agreed.spelled(known.subject),
                    predicate=known.predicate,
                    object=agreed.spelled(known.object),
                    valid_from=moment(known.start),
                    valid_to=None if (end := ended[key].end) is None else moment(end),
                    recorded_at=moment(known.learned),
                    told=tuple(map(_source, known.said)),
                    confidence=known.sure,
                    ended_by=ended[key].ended_by,
                )
                for key, known in states.items()
                if at is None or fact_values.overlaps(ended[key], at, at + 1)
            ]


def _json(keys: Iterable[Any] | None) -> str | None:
    return None if keys is None else as_json(sorted(set(keys)))


def _source(event: fact_values.Event) -> FactMention:
    return FactMention(
        message_id=event.get("id"),
        conversation_id=event.get("in"),
        role=event["role"],
        recorded_at=moment(event["at"]),
        source=event.get("source"),
        actor=event.get("actor"),
    )


def states_of(found: Mapping[str, MemoryVersion], recorded: int | None = None) -> dict[str, FactState]:
    """What rows say, by the ids of the facts; those that were taken back, or not known yet, are left out."""
    return {key: known for key, kept in found.items() if (known := fact_values.state(kept.extra, recorded)) is not None}


def raw_fact(kept: MemoryVersion) -> Fact:
    """What was said, as a fact."""
    message, told_at = message_of(kept), moment(kept.written_at)
    return Fact(
        id=kept.key,
        role=message.role,
        subject=message.name or message.role,
        predicate=fact_values.RAW_PREDICATE,
        object=message.text,
        valid_from=moment(kept.created_at),
        recorded_at=told_at,
        told=(FactMention(message_id=kept.key, role=message.role, recorded_at=told_at),),
        raw=True,
    )


def message_of(kept: MemoryVersion) -> Message:
    """The message that a row holds."""
    return decode_body(kept.body, kept.extra["told"][0]["id"])


def conversation_of(kept: MemoryVersion) -> Any:
    """Return the conversation or thread of a message; None where it is not known."""
    return kept.extra["told"][0].get("in")


def _read_key(message_id: str, conversation: str | None) -> str:
    """The key of a message that another part of memory has; one that belongs here is kept under its id."""
    return f"{message_id}\x1f{conversation or ''}"


def said_event(number: int, now: int, message_id: str, conversation: str | None) -> dict[str, Any]:
    """The event by which a row rests on a message."""
    return given_only({"n": number, "at": now, "do": SAID, "id": message_id, "in": conversation})


def draft_of(key: str, extra: Mapping[str, Any], created_at: int) -> VersionDraft:
    """Return the row of a fact, which is found by its subject, predicate and object.

    Args:
        key: Its id.
        extra: What was told of it.
        created_at: When it began to be known.
    """
    known = fact_values.state(extra)
    subject, predicate, obj, *_ = known or (extra["subject"], extra["predicate"], extra["object"])
    return VersionDraft(
        FACT,
        key,
        memory_rows.body_of(fact_values.sentence(subject, predicate, obj)),
        created_at,
        label=predicate_key(predicate),
        extra=extra,
        subject=entity_key(subject),
        object=entity_key(obj),
        findable=known is not None,
        source=SOURCES.get(extra["role"]),
    )


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


class FactChanges(FactView):
    """Facts, and what was said, that are about to be changed.

    Attributes:
        change: What is about to be written.
        path: The path of the namespace.
        new_id: Makes ids.
        written: The rows that were changed here and are not stored yet, by the ids of the facts.
    """

    def __init__(self, tx: Transaction, change: PendingWrite, path: str, new_id: NewId) -> None:
        super().__init__(tx, change.view)
        self.change, self.path, self.new_id = change, path, new_id
        self.written: dict[str, MemoryVersion] = {}

    def tell(self, said: FactStatement, fact: str | None = None) -> tuple[str, bool]:
        """Somebody says something.

        Args:
            said: What they say.
            fact: The fact that it tells of, where somebody else told of it just now. Default: which one it is, is found
                out.

        Returns:
            The id of the fact, and whether it is new.
        """
        agreed, now = self.rules, self.change.now
        thing, predicate = agreed.canonical(said.subject), predicate_key(said.predicate)
        value = agreed.canonical(said.object)
        # Of what may have many values at a time, the others say nothing of this one.
        found = self._of(thing, predicate, None if predicate in agreed.single else value)
        states = states_of(found)
        ended = fact_values.endings(states, agreed)
        start = said.start
        if start is None:
            start = now if said.said_at is None else said.said_at
            start = start if said.end is None else min(start, said.end - 1)
        number = self._next_number(found.values())
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
                fact_values.overlaps(ended[key], start, said.end)
                or (said.message is not None and said.start is None and not fact_values.says_more(known, event))
            )
        ]
        if fact is None and not same:
            key, names = self.new_id(), {"subject": said.subject, "predicate": said.predicate, "object": said.object}
            unwritten = MemoryVersion(0, None, FACT, key, None, None, None, now, now, None, None, None, b"", {})
            self.restate(unwritten, {**names, "role": said.role, "told": [event]})
            return key, True
        key = fact or min(same, key=lambda key: (states[key].start, key))
        kept, told_here = found[key], states[key]
        if (own := kept.extra.get("own")) is not None:  # what other lines tell is not said here yet
            told_here = told_here._replace(said=tuple(each for each in told_here.said if each["n"] in own))
        if fact_values.says_more(told_here, event):
            self._happens(kept, event)
        return key, False

    def correct(self, kept: MemoryVersion, changes: Mapping[str, Any]) -> None:
        """Somebody corrects a fact.

        Args:
            kept: The fact.
            changes: What changes of it, as `KGMemory.update` takes it.

        Raises:
            InvalidInput: A value cannot be one.
            MessageError: A change does not fit, or the fact was taken back.
        """
        known = fact_values.state(kept.extra)
        if known is None:
            raise MessageError(f"The fact {safe_repr(kept.key)} was taken back. Call undo() to have it again first.")
        self._happens(kept, {"do": SET, "fields": fact_values.fields_given(known, changes)})

    def undo(self, kept: MemoryVersion) -> None:
        """Take back the last event of a fact; what was taken back last counts again."""
        last = kept.extra["told"][-1]
        self.switch(kept, [last["of" if last["do"] == UNDO else "n"]])

    def switch(self, kept: MemoryVersion, events: Sequence[int]) -> None:
        """Have some events of a fact not count; those that do not already count again.

        Args:
            kept: The fact.
            events: Their numbers.
        """
        for number in events:
            self._happens(self.written.get(kept.key, kept), {"do": UNDO, "of": number})

    def forsake(self, message: MemoryVersion) -> None:
        """A message that was kept here is gone, or says something else: what it said does not count."""
        name, conversation = message_of(message).message_id, conversation_of(message)

        def gone(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == name and event.get("in", conversation) == conversation)

        for kept in self.resting_on(name, self.path).values():
            extra = without(kept.extra, gone)
            if extra is None:
                self.change.remove(FACT, kept.key)
            elif extra != kept.extra:
                self.restate(kept, extra)

    def restate(self, kept: MemoryVersion, extra: Mapping[str, Any]) -> None:
        """Have a fact be what was told of it.

        Args:
            kept: The fact as it was; one that is new has no `extra`.
            extra: What belongs to it now.
        """
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in kept.extra:  # what other lines tell of it stays theirs
            theirs = {event["n"] for event in kept.extra["told"]} - set(kept.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in theirs]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        draft = draft_of(kept.key, extra, kept.created_at)
        if kept.extra and fact_values.names_of(kept.extra) != fact_values.names_of(extra):
            self.change.drafts.append(VersionDraft(FORMER, kept.key, b"", self.change.now))
        self.written[kept.key] = kept._replace(body=draft.body or b"", extra=extra)
        self.change.drafts.append(draft._replace(extra=stored))

    def _happens(self, kept: MemoryVersion, event: Mapping[str, Any]) -> None:
        """Add an event to what was told of a fact."""
        told = kept.extra["told"]
        event = {"n": self._next_number([kept]), "at": self.change.now, **event}
        own = kept.extra.get("own")
        if event["do"] == SET and own is not None:  # its words may be those of others, who may have to be forgotten
            others = [each for each in told if each["n"] not in own and each["do"] == SAID]
            if named := [[each.get("id"), each.get("in")] for each in others]:
                event[OTHERS] = named
        self.restate(kept, {**kept.extra, "told": [*told, event]})

    def _next_number(self, rows: Iterable[MemoryVersion]) -> int:
        """The number of a new event. In a scope other lines give numbers too, so it is taken from the clock."""
        following = 1 + max([event["n"] for kept in rows for event in kept.extra["told"]], default=0)
        return following if self.change.view.scope is None else max(following, self.change.now)

    def _of(self, thing: str, predicate: str, value: str | None = None) -> dict[str, MemoryVersion]:
        """All that is known of a subject and a predicate, what was changed here included.

        Args:
            thing: The subject, as it is compared.
            predicate: Likewise.
            value: Of what was not changed here, only what has this object. Default: any.
        """
        agreed = self.rules
        objects = None if value is None else agreed.keys_of([value])
        found = self.about(subjects=agreed.keys_of([thing]), predicates=[predicate], objects=objects)
        for key, kept in self.written.items():
            found.pop(key, None)
            known = fact_values.state(kept.extra)
            if known and agreed.canonical(known.subject) == thing and predicate_key(known.predicate) == predicate:
                found[key] = kept
        return found

    # -- what was said ---------------------------------------------------------------------------------------------

    def keep(
        self,
        messages: Sequence[Message],
        *,
        description: str | None = None,
        conversation: str | None = None,
        own: bool = True,
    ) -> list[str]:
        """Keep messages as they are, and have them wait.

        One that is here already stays; where it says something else now, that takes the place of what it said.

        Args:
            messages: The messages.
            description: The text with which the memory begins. Default: the one that it has, if any.
            conversation: The conversation or thread that they belong to, if it is known.
            own: Whether they belong here, are shown and found here. If not, another part of memory does that, and says
                which of two messages of a conversation with one id counts: the one that comes later. Two conversations
                may have different messages with one id.

        Returns:
            The ids of those that were not here.

        Raises:
            MessageError: The id of a message that belongs here is taken by other content.
        """
        self.describe(description)
        new: list[str] = []
        keys = [each.message_id if own else _read_key(each.message_id, conversation) for each in messages]
        here = self.named(TEXT, keys)
        for key, message in zip(keys, messages, strict=True):
            entry = entry_of(message, self.change.now)
            known = here.get(key)
            if known is not None and same_body(known.body, entry.body):
                continue
            if known is not None and own:
                raise MessageError(f"There is another message {safe_repr(entry.key)} here. Use update() to change it.")
            if known is not None:
                self.forsake(known)
            self._put(key, message, entry.created_at, conversation=conversation, listed=own)
            new.append(entry.key)
        return new

    def _put(self, key: str, message: Message, said_at: int, *, conversation: str | None, listed: bool) -> None:
        """Keep a message, whatever was there, and have it wait.

        Args:
            key: Its key.
            message: The message.
            said_at: When it was said.
            conversation: The conversation or thread that it belongs to, if it is known.
            listed: Whether it is shown and found beside the facts.
        """
        entry, now = entry_of(message, said_at), self.change.now
        told = [said_event(1, now, entry.key, conversation)]
        text = VersionDraft(
            TEXT,
            key,
            entry.body,
            entry.created_at,
            label=None if listed else "read",
            extra={"told": told, "words": message.text, "role": entry.role, "speaker": entry.sender},
            subject=plain(message.role) or "",
            findable=listed,
        )
        self.change.drafts.append(text)
        if message.text.strip():
            self.change.drafts.append(VersionDraft(DUE, key, b"", now, extra={"told": told, "attempts": 0}))

    def update(self, key: str, changes: Mapping[str, Any]) -> bool:
        """Change a fact, or what was said. Returns whether something waits to be extracted now.

        Raises:
            MessageError: There is neither, or a change does not fit.
        """
        said = self.named(TEXT, [key]).get(key)
        if said is not None:
            message = changed(message_of(said), changes)
            self.forsake(said)
            self._put(key, message, said.created_at, conversation=conversation_of(said), listed=said.label is None)
            return True
        self.correct(self.row(key), changes)
        return False

    def remove(self, key: str) -> bool:
        """Have a fact, or what was said, be gone. Returns whether it was there."""
        if (said := self.named(TEXT, [key]).get(key)) is not None:
            self.forsake(said)
            self.change.remove(TEXT, key)
            self.change.remove(DUE, key)
            return True
        if self.named(FACT, [key]):
            self.change.remove(FACT, key)
            return True
        return False

    def clear(self, *, rules: bool = False) -> int:
        """Have facts, texts and aliases be gone; with `rules` also what is declared, and the description.

        Returns how much is gone.
        """
        gone = [
            kept
            for kind in (FACT, FORMER, TEXT, DUE, FAILURE, fact_values.RULE)
            for kept in self.every(kind)
            if kind != fact_values.RULE or rules or kept.label == fact_values.ALIAS
        ]
        for kept in gone:
            self.change.remove(kept.kind, kept.key)
        return len(gone)

    def rule(self, label: str, name: str, rule: Mapping[str, Any] | None) -> None:
        """Make a rule on a name.

        Args:
            label: `ALIAS`, or `SINGLE`, whose names are those of predicates.
            name: The name.
            rule: What it says; None where it no longer counts.
        """
        key = f"{label}:{predicate_key(name) if label == fact_values.SINGLE else entity_key(name)}"
        body = None if rule is None else name.encode()
        self.change.drafts.append(VersionDraft(fact_values.RULE, key, body, self.change.now, label=label, extra=rule))

    def describe(self, description: str | None) -> None:
        """See that the memory begins with a text; None leaves it as it is."""
        if description is not None and self.description != description:
            body = memory_rows.body_of(description)
            self.change.drafts.append(
                VersionDraft(fact_values.RULE, DESCRIPTION, body, self.change.now, label=DESCRIPTION)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsContext(MemorySession):
    """The access to the facts of one memory.

    Attributes:
        settings: How they are kept and learned.
        description: The text with which the memory begins, if somebody gave one.
    """

    settings: FactsConfig = field(default_factory=FactsConfig)
    description: str | None = None

    def look(self, name: str | None, find: Callable[[FactView], T], **inputs: Any) -> T:
        """`read`, given the facts that the memory shows."""
        return self.read(name, lambda tx, view: find(FactView(tx, view)), **inputs)

    def edit(self, name: str | None, make: Callable[[FactChanges], T], **inputs: Any) -> T:
        """`write`, given the facts that are to be changed."""
        return self.write(name, lambda tx, change: make(self.changes(tx, change)), **inputs)

    def changes(self, tx: Transaction, change: PendingWrite) -> FactChanges:
        """The facts that are to be changed, in a transaction."""
        return FactChanges(tx, change, self.point.path, self.database.new_id)
