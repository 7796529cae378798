"""Reading and writing of the rows of facts and messages.

`FactsContext` is the access to one memory of facts. In a transaction a `FactView` reads `MemoryVersion` rows, their
`FactState`s, or settled `Fact`s with the ends that other facts gave them; `FactChanges` is a view that also collects
what is written. A fact that is stated twice while it holds is one fact with two sources.

A message is kept as it was said, and queued for extraction in the same transaction.
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
"""The start of the pages of facts, which are ordered by the time they were learned, then by row number."""
LONGEST_PAGE = 1_000


class FactView:
    """The facts that a view shows, read in one transaction.

    Args:
        tx: The transaction.
        view: The view that is read.
    """

    def __init__(self, tx: Transaction, view: memory_rows.MemoryView) -> None:
        self.tx, self.view = tx, view

    @cached_property
    def rules(self) -> FactRules:
        """The rules on names: merged names and single-valued predicates."""
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
        """Return all rows of a kind, in the order in which they were written."""
        return memory_rows.current(self.tx, self.view, kind)

    def named(self, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
        """Return the rows of a kind with some keys, by key."""
        wanted = sorted(keys)
        return memory_rows.named(self.tx, self.view, kind, wanted) if wanted else {}

    def row(self, fact_id: str) -> MemoryVersion:
        """Return the row of a fact.

        Raises:
            MessageError: There is no such fact.
        """
        if fact_id not in (found := self.named(FACT, [fact_id])):
            raise MessageError(f"There is no fact or message {safe_repr(fact_id)} here.")
        return found[fact_id]

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact or a message by its id; None if there is none."""
        if facts := self.settled(self.named(FACT, [fact_id])):
            return facts[0]
        return next(map(raw_fact, self.named(TEXT, [fact_id]).values()), None)

    def shown(self, rows: Iterable[MemoryVersion]) -> dict[str, Fact]:
        """Return facts and messages by their ids, without those that were taken back."""
        there = {kept.key: kept for kept in rows}
        facts = self.settled({key: kept for key, kept in there.items() if kept.kind == FACT})
        return {fact.id: fact for fact in facts} | {
            key: raw_fact(kept) for key, kept in there.items() if kept.kind == TEXT
        }

    def told_by(self, message_id: str, path: str) -> list[Fact]:
        """Return the facts that a message states.

        Args:
            message_id: The id of the message.
            path: The path of the namespace.
        """
        facts = self.settled(self.resting_on(message_id, path))
        return [fact for fact in facts if message_id in fact.sources]

    def resting_on(self, message_id: str, path: str) -> dict[str, MemoryVersion]:
        """Return the facts that have a version resting on a message."""
        sources = as_json([memory_rows.message_source(message_id)])
        found = query.resting_on(self.tx, keys=sources, low=path, high=path + "\x01")
        return self.named(FACT, {row["key"] for row in found if row["kind"] == FACT})

    def texts(self, messages: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], MemoryVersion]:
        """Return the rows of messages, each given with its conversation if that is known."""
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
        """Return the facts with some subjects, predicates and objects, by their ids.

        Without subjects and objects, all facts are read.

        Args:
            subjects: The keys of subjects. Default: any.
            predicates: The keys of predicates. Default: any.
            objects: The keys of objects. Default: any.
            recorded: Compare the names that the facts had at this time. Default: their names now.
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
        """Look up facts by names; in a scope, also by the names that other lines state."""
        alone = {**self.view.parameters(), "scope": None, "before": None}  # other lines are looked up separately
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
        """Yield pages of rows by key, those learned last first, each longer than the last.

        Args:
            kind: `FACT` or `TEXT`.
            size: The number of rows of the first page.
            before: Only rows learned before this time, or at this time with a smaller row number.
            names: Only rows whose subject or object has one of these keys. Default: any.
            predicates: Only rows whose predicate has one of these keys. Default: any.
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
        """Return rows as facts, in the same order, with the ends that follow from other facts.

        Args:
            found: The rows, by the ids of the facts.
            recorded: Ignore events learned later than this. Default: use all events.
            whole: Whether `found` has all facts of the same subjects and predicates.
            at: Only facts that held at this time. Default: all.
        """
        if not found:
            return []
        agreed = self.rules
        states = every = states_of(found, recorded)
        # Nothing else ends a fact with a stated end.
        lasting = [known for known in states.values() if known.end is None]
        predicates = agreed.single & {predicate_key(known.predicate) for known in lasting}
        if predicates and not whole:
            single = [known for known in lasting if predicate_key(known.predicate) in predicates]
            subjects = agreed.keys_of(agreed.canonical(known.subject) for known in single)
            others = self.about(subjects=subjects, predicates=predicates, recorded=recorded)
            every = {**states_of(others, recorded), **states}
        if self.view.scope is not None:  # two lines may state the same fact
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
    """Return the states of facts by id, without those taken back or not known yet."""
    return {key: known for key, kept in found.items() if (known := fact_values.state(kept.extra, recorded)) is not None}


def raw_fact(kept: MemoryVersion) -> Fact:
    """Return a message as a fact with `raw` set."""
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
    """Return the message that a row holds."""
    return decode_body(kept.body, kept.extra["told"][0]["id"])


def conversation_of(kept: MemoryVersion) -> Any:
    """Return the conversation or thread of a message; None if it is not known."""
    return kept.extra["told"][0].get("in")


def _read_key(message_id: str, conversation: str | None) -> str:
    """Return the key of a message that another part of memory owns.

    The key of a message that belongs here is its id.
    """
    return f"{message_id}\x1f{conversation or ''}"


def said_event(number: int, now: int, message_id: str, conversation: str | None) -> dict[str, Any]:
    """Return the event that makes a row rest on a message."""
    return given_only({"n": number, "at": now, "do": SAID, "id": message_id, "in": conversation})


def draft_of(key: str, extra: Mapping[str, Any], created_at: int) -> VersionDraft:
    """Return the row of a fact, which is found by its subject, predicate and object.

    Args:
        key: The id of the fact.
        extra: Its names as first spelled, its role and its events.
        created_at: When it was first known.
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
    """A statement of a fact.

    Attributes:
        role: The role that states it.
        subject: The subject.
        predicate: The predicate.
        object: The object.
        start: When the fact began to hold, in microseconds since 1970; None if not stated.
        end: When it ended; None if it did not end, or no end was stated.
        sure: The confidence, from 0 to 1; None if not stated.
        message: The id of the message that states it, if any.
        conversation: The conversation or thread of the message, if it is known.
        said_at: When it was stated. Default: now.
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
    """A view of facts and messages that also collects changes to them.

    Attributes:
        change: The write that collects the changes.
        path: The path of the namespace.
        new_id: Makes ids.
        written: The rows that were changed here and are not stored yet, by the ids of the facts.
    """

    def __init__(self, tx: Transaction, change: PendingWrite, path: str, new_id: NewId) -> None:
        super().__init__(tx, change.view)
        self.change, self.path, self.new_id = change, path, new_id
        self.written: dict[str, MemoryVersion] = {}

    def tell(self, said: FactStatement, fact: str | None = None) -> tuple[str, bool]:
        """Record a statement of a fact.

        Args:
            said: The statement.
            fact: The id of the fact, if another source stated it just before. Default: find a matching fact, or make
                one.

        Returns:
            The id of the fact, and whether it is new.
        """
        agreed, now = self.rules, self.change.now
        thing, predicate = agreed.canonical(said.subject), predicate_key(said.predicate)
        value = agreed.canonical(said.object)
        # If a predicate may have many values at a time, other values do not affect this one.
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
        if (own := kept.extra.get("own")) is not None:  # statements of other lines are not stated here yet
            told_here = told_here._replace(said=tuple(each for each in told_here.said if each["n"] in own))
        if fact_values.says_more(told_here, event):
            self._happens(kept, event)
        return key, False

    def correct(self, kept: MemoryVersion, changes: Mapping[str, Any]) -> None:
        """Correct a fact.

        Args:
            kept: The fact.
            changes: The changes, as `KGMemory.update` takes them.

        Raises:
            InvalidInput: A value is invalid.
            MessageError: A change does not fit, or the fact was taken back.
        """
        known = fact_values.state(kept.extra)
        if known is None:
            raise MessageError(f"The fact {safe_repr(kept.key)} was taken back. Call undo() to have it again first.")
        self._happens(kept, {"do": SET, "fields": fact_values.fields_given(known, changes)})

    def undo(self, kept: MemoryVersion) -> None:
        """Take back the last event of a fact; if that is an undo, restore what it took back."""
        last = kept.extra["told"][-1]
        self.switch(kept, [last["of" if last["do"] == UNDO else "n"]])

    def switch(self, kept: MemoryVersion, events: Sequence[int]) -> None:
        """Undo some events of a fact; restore those that are undone already.

        Args:
            kept: The fact.
            events: Their numbers.
        """
        for number in events:
            self._happens(self.written.get(kept.key, kept), {"do": UNDO, "of": number})

    def forsake(self, message: MemoryVersion) -> None:
        """Remove what a message stated that was deleted or changed."""
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
        """Write a fact anew from its events.

        Args:
            kept: The fact as it was; a new one has no `extra`.
            extra: Its `extra` from now on.
        """
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in kept.extra:  # statements of other lines stay theirs
            theirs = {event["n"] for event in kept.extra["told"]} - set(kept.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in theirs]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        draft = draft_of(kept.key, extra, kept.created_at)
        if kept.extra and fact_values.names_of(kept.extra) != fact_values.names_of(extra):
            self.change.drafts.append(VersionDraft(FORMER, kept.key, b"", self.change.now))
        self.written[kept.key] = kept._replace(body=draft.body or b"", extra=extra)
        self.change.drafts.append(draft._replace(extra=stored))

    def _happens(self, kept: MemoryVersion, event: Mapping[str, Any]) -> None:
        """Add an event to a fact."""
        told = kept.extra["told"]
        event = {"n": self._next_number([kept]), "at": self.change.now, **event}
        own = kept.extra.get("own")
        if event["do"] == SET and own is not None:  # its text may come from sources that may be erased
            others = [each for each in told if each["n"] not in own and each["do"] == SAID]
            if named := [[each.get("id"), each.get("in")] for each in others]:
                event[OTHERS] = named
        self.restate(kept, {**kept.extra, "told": [*told, event]})

    def _next_number(self, rows: Iterable[MemoryVersion]) -> int:
        """Return the number of a new event.

        In a scope other lines number events too, so the number is taken from the clock.
        """
        following = 1 + max([event["n"] for kept in rows for event in kept.extra["told"]], default=0)
        return following if self.change.view.scope is None else max(following, self.change.now)

    def _of(self, thing: str, predicate: str, value: str | None = None) -> dict[str, MemoryVersion]:
        """Return the facts of a subject and a predicate, including those changed here.

        Args:
            thing: The key of the subject.
            predicate: The key of the predicate.
            value: The key of the object of facts that were not changed here. Default: any.
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

    # -- messages --------------------------------------------------------------------------------------------------

    def keep(
        self,
        messages: Sequence[Message],
        *,
        description: str | None = None,
        conversation: str | None = None,
        own: bool = True,
    ) -> list[str]:
        """Keep messages as they are, and queue them for extraction.

        A message that exists already stays; new content under its id replaces what it said.

        Args:
            messages: The messages.
            description: The text with which the memory begins. Default: its present one, if any.
            conversation: The conversation or thread of the messages, if it is known.
            own: Whether the messages belong here, and are shown and found here. If not, they belong to another part of
                memory, and of two messages of a conversation with one id the later one applies. Two conversations may
                have different messages with one id.

        Returns:
            The ids of the messages that are new or changed.

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
        """Keep a message in place of any under its key, and queue it for extraction.

        Args:
            key: The key of the message.
            message: The message.
            said_at: When it was said.
            conversation: The conversation or thread of the message, if it is known.
            listed: Whether it is shown and found together with the facts.
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
        """Change a fact or a message. Return True if a message was changed.

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
        """Remove a fact or a message. Return whether it existed."""
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
        """Remove facts, messages and aliases. Return the number of removed rows.

        With `rules`, also remove declarations and the description.
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
        """Set or remove a rule on a name.

        Args:
            label: `ALIAS`, or `SINGLE` for a rule on a predicate.
            name: The name.
            rule: The content of the rule; None removes it.
        """
        key = f"{label}:{predicate_key(name) if label == fact_values.SINGLE else entity_key(name)}"
        body = None if rule is None else name.encode()
        self.change.drafts.append(VersionDraft(fact_values.RULE, key, body, self.change.now, label=label, extra=rule))

    def describe(self, description: str | None) -> None:
        """Set the text that the memory begins with; None leaves it unchanged."""
        if description is not None and self.description != description:
            body = memory_rows.body_of(description)
            self.change.drafts.append(
                VersionDraft(fact_values.RULE, DESCRIPTION, body, self.change.now, label=DESCRIPTION)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsContext(MemorySession):
    """The access to the facts of one memory.

    Attributes:
        settings: How facts are kept and learned.
        description: The text with which the memory begins, if one was given.
    """

    settings: FactsConfig = field(default_factory=FactsConfig)
    description: str | None = None

    def look(self, name: str | None, find: Callable[[FactView], T], **inputs: Any) -> T:
        """Run `read` with the facts that the memory shows."""
        return self.read(name, lambda tx, view: find(FactView(tx, view)), **inputs)

    def edit(self, name: str | None, make: Callable[[FactChanges], T], **inputs: Any) -> T:
        """Run `write` with the facts that are to be changed."""
        return self.write(name, lambda tx, change: make(self.changes(tx, change)), **inputs)

    def changes(self, tx: Transaction, change: PendingWrite) -> FactChanges:
        """Return the facts that are to be changed in a transaction."""
        return FactChanges(tx, change, self.point.path, self.database.new_id)
