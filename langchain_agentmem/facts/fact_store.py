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

from langchain_agentmem.base.clock import LATEST, NewId, from_micros
from langchain_agentmem.base.concurrency import pause_gc
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.conversations.log_entries import change_message, entry_of
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
from langchain_agentmem.messages.message import ROLE_SOURCES, Message, decode_body, escape_name, is_same_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MemorySession, PendingWrite
from langchain_agentmem.rewinding.memory_rows import (
    FACT,
    FACT_DUE,
    FACT_FAILURE,
    FACT_TEXT,
    FORMER_FACT,
    OTHER_SOURCES,
    STATEMENT,
    MemoryVersion,
    VersionDraft,
)
from langchain_agentmem.rewinding.message_sources import SET, UNDO, remove_statements
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.tracing import drop_none

DESCRIPTION = "description"
"""The key of the text with which a memory begins."""

T = TypeVar("T")


PAGE_START = (LATEST, 2**63 - 1)
"""The start of the pages of facts, which are ordered by the time they were learned, then by row number."""
MAX_PAGE_ROWS = 1_000


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
        for version in self.rows_of_kind(fact_values.RULE):
            _, _, key = version.key.partition(":")
            if version.label == fact_values.ALIAS:
                aliases[key] = fact_values.Alias(name=version.extra["name"], into=version.extra["into"])
            elif version.label == fact_values.SINGLE:
                is_single[key] = version.extra["single"]
        return FactRules(aliases, frozenset(key for key, single in is_single.items() if single))

    @cached_property
    def fact_rows(self) -> dict[str, MemoryVersion]:
        """The rows of all facts, by their ids, in the order in which they were written."""
        return {version.key: version for version in self.rows_of_kind(FACT)}

    @cached_property
    def description(self) -> str | None:
        """The text with which the memory begins, if one was written."""
        return next((version.text for version in self.rows_by_key(fact_values.RULE, [DESCRIPTION]).values()), None)

    def rows_of_kind(self, kind: str) -> list[MemoryVersion]:
        """Return all rows of a kind, in the order in which they were written."""
        return memory_rows.load_current(self.tx, self.view, kind)

    def rows_by_key(self, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
        """Return the rows of a kind with some keys, by key."""
        wanted = sorted(keys)
        return memory_rows.load_named(self.tx, self.view, kind, wanted) if wanted else {}

    def row(self, fact_id: str) -> MemoryVersion:
        """Return the row of a fact.

        Raises:
            MessageError: There is no such fact.
        """
        if fact_id not in (found := self.rows_by_key(FACT, [fact_id])):
            raise MessageError(f"There is no fact or message {safe_repr(fact_id)} here.")
        return found[fact_id]

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact or a message by its id; None if there is none."""
        if facts := self.resolve_facts(self.rows_by_key(FACT, [fact_id])):
            return facts[0]
        return next(map(raw_fact, self.rows_by_key(FACT_TEXT, [fact_id]).values()), None)

    def to_facts(self, rows: Iterable[MemoryVersion]) -> dict[str, Fact]:
        """Return facts and messages by their ids, without those that were taken back."""
        by_key = {version.key: version for version in rows}
        facts = self.resolve_facts({key: version for key, version in by_key.items() if version.kind == FACT})
        return {fact.id: fact for fact in facts} | {
            key: raw_fact(version) for key, version in by_key.items() if version.kind == FACT_TEXT
        }

    def facts_of_message(self, message_id: str, path: str) -> list[Fact]:
        """Return the facts that a message states.

        Args:
            message_id: The id of the message.
            path: The path of the namespace.
        """
        facts = self.resolve_facts(self.rows_of_message(message_id, path))
        return [fact for fact in facts if message_id in fact.sources]

    def rows_of_message(self, message_id: str, path: str) -> dict[str, MemoryVersion]:
        """Return the facts that have a version resting on a message."""
        sources = as_json([memory_rows.message_source(message_id)])
        found = query.memory_with_sources(self.tx, keys=sources, low=path, high=path + "\x01")
        return self.rows_by_key(FACT, {row["key"] for row in found if row["kind"] == FACT})

    def message_rows(self, messages: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], MemoryVersion]:
        """Return the rows of messages, each given with its conversation if that is known."""
        by_key = self.rows_by_key(FACT_TEXT, {key for each in messages for key in (each[0], _foreign_key(*each))})
        found = {each: by_key.get(_foreign_key(*each)) or by_key.get(each[0]) for each in messages}
        return {each: row for each, row in found.items() if row is not None}

    def rows_about(
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
            found = self.fact_rows
        else:
            found = self._look_up(*wanted)
            if recorded is not None:
                found |= self.rows_by_key(
                    FACT, {version.key for version in self.rows_of_kind(FORMER_FACT)} - found.keys()
                )
            elif self.view.scope is None and (predicates is not None or None in (subjects, objects)):
                return found

        def is_about(version: MemoryVersion) -> bool:
            names = fact_values.names_of(version.extra, recorded)
            keys = entity_key(names[0]), predicate_key(names[1]), entity_key(names[2])
            return all(some is None or key in some for some, key in zip(wanted, keys, strict=True))

        if wanted == [None, None, None]:
            return found
        return {key: version for key, version in found.items() if is_about(version)}

    def _look_up(
        self, subjects: set[str] | None, labels: set[str] | None, objects: set[str] | None
    ) -> dict[str, MemoryVersion]:
        """Look up facts by names; in a scope, also by the names that other lines state."""
        params = {**self.view.parameters(), "scope": None, "before": None}  # other lines are looked up separately
        keys: Iterable[Any] | None
        if subjects is None:
            statement, keys = query.facts_of_objects, objects
            params["labels"] = _keys_json(labels)
        elif labels is None:
            statement, keys = query.facts_of_subjects, subjects
        elif objects is None:
            statement, keys = query.facts_of_predicates, product(subjects, labels)
        else:
            statement, keys = query.facts_of_triples, product(subjects, labels, objects)
        rows = statement(self.tx, **params, keys=_keys_json(keys), kind=FACT)
        if self.view.scope is None:
            return {row["key"]: memory_rows.version_of(row) for row in rows}
        scope = {"scope": self.view.scope, "author": self.view.author, "before": self.view.max_stamp}
        names = {"subjects": _keys_json(subjects), "labels": _keys_json(labels), "objects": _keys_json(objects)}
        others = query.fact_keys(self.tx, **scope, kind=FACT, **names)
        return self.rows_by_key(FACT, {row["key"] for row in (*rows, *others)})

    def pages(
        self,
        kind: str,
        size: int,
        before: tuple[int, int] = PAGE_START,
        *,
        names: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
    ) -> Iterator[dict[str, MemoryVersion]]:
        """Yield pages of rows by key, those learned last first, each longer than the last.

        Args:
            kind: `FACT` or `FACT_TEXT`.
            size: The number of rows of the first page.
            before: Only rows learned before this time, or at this time with a smaller row number.
            names: Only rows whose subject or object has one of these keys. Default: any.
            predicates: Only rows whose predicate has one of these keys. Default: any.
        """
        cursor: tuple[int, int] | None = before
        params = {**self.view.parameters(), "kind": kind, "labels": _keys_json(predicates)}
        while cursor is not None and size > 0:
            position = {"learned_at": cursor[0], "number": cursor[1]}
            if names is None:
                rows = query.latest_facts(self.tx, **params, **position, limit=size)
            else:
                rows = query.latest_facts_of_entities(self.tx, **params, **position, limit=size, keys=_keys_json(names))
            cursor = (rows[-1]["created_at"], rows[-1]["number"]) if len(rows) == size else None
            size = min(4 * size, MAX_PAGE_ROWS)
            if kind == FACT and self.view.scope is not None:
                visible = self.rows_by_key(kind, [row["key"] for row in rows])
                yield {row["key"]: visible[row["key"]] for row in rows if row["key"] in visible}
            else:
                yield {row["key"]: memory_rows.version_of(row) for row in rows}

    def resolve_facts(
        self,
        found: Mapping[str, MemoryVersion],
        recorded: int | None = None,
        *,
        is_complete: bool = False,
        at: int | None = None,
    ) -> list[Fact]:
        """Return rows as facts, in the same order, with the ends that follow from other facts.

        Args:
            found: The rows, by the ids of the facts.
            recorded: Ignore events learned later than this. Default: use all events.
            is_complete: Whether `found` has all facts of the same subjects and predicates.
            at: Only facts that held at this time. Default: all.
        """
        if not found:
            return []
        rules = self.rules
        states = all_states = states_of(found, recorded)
        # Nothing else ends a fact with a stated end.
        lasting = [state for state in states.values() if state.end is None]
        predicates = rules.single & {predicate_key(state.predicate) for state in lasting}
        if predicates and not is_complete:
            single = [state for state in lasting if predicate_key(state.predicate) in predicates]
            subjects = rules.keys_of(rules.canonical(state.subject) for state in single)
            others = self.rows_about(subjects=subjects, predicates=predicates, recorded=recorded)
            all_states = {**states_of(others, recorded), **states}
        if self.view.scope is not None:  # two lines may state the same fact
            all_states = fact_values.unite_facts(all_states, states, rules)
            states = {key: all_states[key] for key in states if key in all_states}
        with pause_gc():
            ended = fact_values.apply_endings(all_states, rules)
            return [
                Fact(
                    id=key,
                    role=state.role,
                    subject=rules.display_name(state.subject),
                    predicate=state.predicate,
                    object=rules.display_name(state.object),
                    valid_from=from_micros(state.start),
                    valid_to=None if (end := ended[key].end) is None else from_micros(end),
                    recorded_at=from_micros(state.learned_at),
                    mentions=tuple(map(_to_mention, state.statements)),
                    confidence=state.sure,
                    ended_by=ended[key].ended_by,
                )
                for key, state in states.items()
                if at is None or fact_values.overlaps(ended[key], at, at + 1)
            ]


def _keys_json(keys: Iterable[Any] | None) -> str | None:
    return None if keys is None else as_json(sorted(set(keys)))


def _to_mention(event: fact_values.Event) -> FactMention:
    return FactMention(
        message_id=event.get("id"),
        conversation_id=event.get("in"),
        role=event["role"],
        recorded_at=from_micros(event["at"]),
        source=event.get("source"),
        actor=event.get("actor"),
    )


def states_of(found: Mapping[str, MemoryVersion], recorded: int | None = None) -> dict[str, FactState]:
    """Return the states of facts by id, without those taken back or not known yet."""
    return {
        key: state
        for key, version in found.items()
        if (state := fact_values.compute_state(version.extra, recorded)) is not None
    }


def raw_fact(version: MemoryVersion) -> Fact:
    """Return a message as a fact with `raw` set."""
    message, recorded_at = message_of(version), from_micros(version.written_at)
    return Fact(
        id=version.key,
        role=message.role,
        subject=message.name or message.role,
        predicate=fact_values.RAW_PREDICATE,
        object=message.text,
        valid_from=from_micros(version.created_at),
        recorded_at=recorded_at,
        mentions=(FactMention(message_id=version.key, role=message.role, recorded_at=recorded_at),),
        raw=True,
    )


def message_of(version: MemoryVersion) -> Message:
    """Return the message that a row holds."""
    return decode_body(version.body, version.extra["told"][0]["id"])


def conversation_of(version: MemoryVersion) -> Any:
    """Return the conversation or thread of a message; None if it is not known."""
    return version.extra["told"][0].get("in")


def _foreign_key(message_id: str, conversation: str | None) -> str:
    """Return the key of a message that another part of memory owns.

    The key of a message that belongs here is its id.
    """
    return f"{message_id}\x1f{conversation or ''}"


def source_event(number: int, now: int, message_id: str, conversation: str | None) -> dict[str, Any]:
    """Return the event that makes a row rest on a message."""
    return drop_none({"n": number, "at": now, "do": STATEMENT, "id": message_id, "in": conversation})


def fact_draft(key: str, extra: Mapping[str, Any], created_at: int) -> VersionDraft:
    """Return the row of a fact, which is found by its subject, predicate and object.

    Args:
        key: The id of the fact.
        extra: Its names as first spelled, its role and its events.
        created_at: When it was first known.
    """
    state = fact_values.compute_state(extra)
    subject, predicate, obj, *_ = state or (extra["subject"], extra["predicate"], extra["object"])
    return VersionDraft(
        FACT,
        key,
        memory_rows.encode_text(fact_values.sentence(subject, predicate, obj)),
        created_at,
        label=predicate_key(predicate),
        extra=extra,
        subject=entity_key(subject),
        object=entity_key(obj),
        findable=state is not None,
        source=ROLE_SOURCES.get(extra["role"]),
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
        confidence: The confidence, from 0 to 1; None if not stated.
        message: The id of the message that states it, if any.
        conversation: The conversation or thread of the message, if it is known.
        stated_at: When it was stated. Default: now.
    """

    role: str
    subject: str
    predicate: str
    object: str
    start: int | None = None
    end: int | None = None
    confidence: float | None = None
    message: str | None = None
    conversation: str | None = None
    stated_at: int | None = None


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

    def record_statement(self, statement: FactStatement, fact: str | None = None) -> tuple[str, bool]:
        """Record a statement of a fact.

        Args:
            statement: The statement.
            fact: The id of the fact, if another source stated it just before. Default: find a matching fact, or make
                one.

        Returns:
            The id of the fact, and whether it is new.
        """
        rules, now = self.rules, self.change.now
        subject, predicate = rules.canonical(statement.subject), predicate_key(statement.predicate)
        value = rules.canonical(statement.object)
        # If a predicate may have many values at a time, other values do not affect this one.
        found = self._find_rows(subject, predicate, None if predicate in rules.single else value)
        states = states_of(found)
        ended = fact_values.apply_endings(states, rules)
        start = statement.start
        if start is None:
            start = now if statement.stated_at is None else statement.stated_at
            start = start if statement.end is None else min(start, statement.end - 1)
        number = self._next_number(found.values())
        event = {"n": number, "at": now, "do": STATEMENT, "role": statement.role, "from": start, "to": statement.end}
        start_given = statement.start is not None or None
        optional: dict[str, Any] = {
            "id": statement.message,
            "in": statement.conversation,
            "given": start_given,
            "sure": statement.confidence,
        }
        if statement.message is None:  # erasing the thread finds it by "in"
            optional |= {"in": statement.conversation or self.change.thread, **self.change.writer._asdict()}
        event |= drop_none(optional)
        same = [
            key
            for key, state in states.items()
            if rules.canonical(state.object) == value
            and (
                fact_values.overlaps(ended[key], start, statement.end)
                or (
                    statement.message is not None
                    and statement.start is None
                    and not fact_values.adds_statement(state, event)
                )
            )
        ]
        if fact is None and not same:
            key, names = (
                self.new_id(),
                {"subject": statement.subject, "predicate": statement.predicate, "object": statement.object},
            )
            unwritten = MemoryVersion(0, None, FACT, key, None, None, None, now, now, None, None, None, b"", {})
            self.write_events(unwritten, {**names, "role": statement.role, "told": [event]})
            return key, True
        key = fact or min(same, key=lambda key: (states[key].start, key))
        version, own_state = found[key], states[key]
        if (own := version.extra.get("own")) is not None:  # statements of other lines are not stated here yet
            own_state = own_state._replace(statements=tuple(each for each in own_state.statements if each["n"] in own))
        if fact_values.adds_statement(own_state, event):
            self._add_event(version, event)
        return key, False

    def correct_fact(self, version: MemoryVersion, changes: Mapping[str, Any]) -> None:
        """Correct a fact.

        Args:
            version: The fact.
            changes: The changes, as `KGMemory.update` takes them.

        Raises:
            InvalidInput: A value is invalid.
            MessageError: A change does not fit, or the fact was taken back.
        """
        state = fact_values.compute_state(version.extra)
        if state is None:
            raise MessageError(f"The fact {safe_repr(version.key)} was taken back. Call undo() to have it again first.")
        self._add_event(version, {"do": SET, "fields": fact_values.parse_changes(state, changes)})

    def undo_last(self, version: MemoryVersion) -> None:
        """Take back the last event of a fact; if that is an undo, restore what it took back."""
        last = version.extra["told"][-1]
        self.toggle_events(version, [last["of" if last["do"] == UNDO else "n"]])

    def toggle_events(self, version: MemoryVersion, events: Sequence[int]) -> None:
        """Undo some events of a fact; restore those that are undone already.

        Args:
            version: The fact.
            events: Their numbers.
        """
        for number in events:
            self._add_event(self.written.get(version.key, version), {"do": UNDO, "of": number})

    def retract_message(self, message: MemoryVersion) -> None:
        """Remove what a message stated that was deleted or changed."""
        name, conversation = message_of(message).message_id, conversation_of(message)

        def is_retracted(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == name and event.get("in", conversation) == conversation)

        for version in self.rows_of_message(name, self.path).values():
            extra = remove_statements(version.extra, is_retracted)
            if extra is None:
                self.change.remove(FACT, version.key)
            elif extra != version.extra:
                self.write_events(version, extra)

    def write_events(self, version: MemoryVersion, extra: Mapping[str, Any]) -> None:
        """Write a fact anew from its events.

        Args:
            version: The fact as it was; a new one has no `extra`.
            extra: Its `extra` from now on.
        """
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in version.extra:  # statements of other lines stay theirs
            other_events = {event["n"] for event in version.extra["told"]} - set(version.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in other_events]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        draft = fact_draft(version.key, extra, version.created_at)
        if version.extra and fact_values.names_of(version.extra) != fact_values.names_of(extra):
            self.change.drafts.append(VersionDraft(FORMER_FACT, version.key, b"", self.change.now))
        self.written[version.key] = version._replace(body=draft.body or b"", extra=extra)
        self.change.drafts.append(draft._replace(extra=stored))

    def _add_event(self, version: MemoryVersion, event: Mapping[str, Any]) -> None:
        """Add an event to a fact."""
        events = version.extra["told"]
        event = {"n": self._next_number([version]), "at": self.change.now, **event}
        own = version.extra.get("own")
        if event["do"] == SET and own is not None:  # its text may come from sources that may be erased
            others = [each for each in events if each["n"] not in own and each["do"] == STATEMENT]
            if sources := [[each.get("id"), each.get("in")] for each in others]:
                event[OTHER_SOURCES] = sources
        self.write_events(version, {**version.extra, "told": [*events, event]})

    def _next_number(self, rows: Iterable[MemoryVersion]) -> int:
        """Return the number of a new event.

        In a scope other lines number events too, so the number is taken from the clock.
        """
        following = 1 + max([event["n"] for version in rows for event in version.extra["told"]], default=0)
        return following if self.change.view.scope is None else max(following, self.change.now)

    def _find_rows(self, thing: str, predicate: str, value: str | None = None) -> dict[str, MemoryVersion]:
        """Return the facts of a subject and a predicate, including those changed here.

        Args:
            thing: The key of the subject.
            predicate: The key of the predicate.
            value: The key of the object of facts that were not changed here. Default: any.
        """
        rules = self.rules
        objects = None if value is None else rules.keys_of([value])
        found = self.rows_about(subjects=rules.keys_of([thing]), predicates=[predicate], objects=objects)
        for key, version in self.written.items():
            found.pop(key, None)
            state = fact_values.compute_state(version.extra)
            if state and rules.canonical(state.subject) == thing and predicate_key(state.predicate) == predicate:
                found[key] = version
        return found

    # -- messages --------------------------------------------------------------------------------------------------

    def add_messages(
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
        self.set_description(description)
        new: list[str] = []
        keys = [each.message_id if own else _foreign_key(each.message_id, conversation) for each in messages]
        existing = self.rows_by_key(FACT_TEXT, keys)
        for key, message in zip(keys, messages, strict=True):
            entry = entry_of(message, self.change.now)
            known = existing.get(key)
            if known is not None and is_same_body(known.body, entry.body):
                continue
            if known is not None and own:
                raise MessageError(f"There is another message {safe_repr(entry.key)} here. Use update() to change it.")
            if known is not None:
                self.retract_message(known)
            self._put_message(key, message, entry.created_at, conversation=conversation, listed=own)
            new.append(entry.key)
        return new

    def _put_message(self, key: str, message: Message, sent_at: int, *, conversation: str | None, listed: bool) -> None:
        """Keep a message in place of any under its key, and queue it for extraction.

        Args:
            key: The key of the message.
            message: The message.
            sent_at: When it was said.
            conversation: The conversation or thread of the message, if it is known.
            listed: Whether it is shown and found together with the facts.
        """
        entry, now = entry_of(message, sent_at), self.change.now
        events = [source_event(1, now, entry.key, conversation)]
        text = VersionDraft(
            FACT_TEXT,
            key,
            entry.body,
            entry.created_at,
            label=None if listed else "read",
            extra={"told": events, "words": message.text, "role": entry.role, "speaker": entry.sender},
            subject=escape_name(message.role) or "",
            findable=listed,
        )
        self.change.drafts.append(text)
        if message.text.strip():
            self.change.drafts.append(VersionDraft(FACT_DUE, key, b"", now, extra={"told": events, "attempts": 0}))

    def update(self, key: str, changes: Mapping[str, Any]) -> bool:
        """Change a fact or a message. Return True if a message was changed.

        Raises:
            MessageError: There is neither, or a change does not fit.
        """
        message_row = self.rows_by_key(FACT_TEXT, [key]).get(key)
        if message_row is not None:
            message = change_message(message_of(message_row), changes)
            self.retract_message(message_row)
            self._put_message(
                key,
                message,
                message_row.created_at,
                conversation=conversation_of(message_row),
                listed=message_row.label is None,
            )
            return True
        self.correct_fact(self.row(key), changes)
        return False

    def remove(self, key: str) -> bool:
        """Remove a fact or a message. Return whether it existed."""
        if (message_row := self.rows_by_key(FACT_TEXT, [key]).get(key)) is not None:
            self.retract_message(message_row)
            self.change.remove(FACT_TEXT, key)
            self.change.remove(FACT_DUE, key)
            return True
        if self.rows_by_key(FACT, [key]):
            self.change.remove(FACT, key)
            return True
        return False

    def clear(self, *, rules: bool = False) -> int:
        """Remove facts, messages and aliases. Return the number of removed rows.

        With `rules`, also remove declarations and the description.
        """
        removed = [
            version
            for kind in (FACT, FORMER_FACT, FACT_TEXT, FACT_DUE, FACT_FAILURE, fact_values.RULE)
            for version in self.rows_of_kind(kind)
            if kind != fact_values.RULE or rules or version.label == fact_values.ALIAS
        ]
        for version in removed:
            self.change.remove(version.kind, version.key)
        return len(removed)

    def set_rule(self, label: str, name: str, rule: Mapping[str, Any] | None) -> None:
        """Set or remove a rule on a name.

        Args:
            label: `ALIAS`, or `SINGLE` for a rule on a predicate.
            name: The name.
            rule: The content of the rule; None removes it.
        """
        key = f"{label}:{predicate_key(name) if label == fact_values.SINGLE else entity_key(name)}"
        body = None if rule is None else name.encode()
        self.change.drafts.append(VersionDraft(fact_values.RULE, key, body, self.change.now, label=label, extra=rule))

    def set_description(self, description: str | None) -> None:
        """Set the text that the memory begins with; None leaves it unchanged."""
        if description is not None and self.description != description:
            body = memory_rows.encode_text(description)
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

    def read_facts(self, name: str | None, find: Callable[[FactView], T], **inputs: Any) -> T:
        """Run `read` with the facts that the memory shows."""
        return self.read(name, lambda tx, view: find(FactView(tx, view)), **inputs)

    def write_facts(self, name: str | None, make: Callable[[FactChanges], T], **inputs: Any) -> T:
        """Run `write` with the facts that are to be changed."""
        return self.write(name, lambda tx, change: make(self.changes(tx, change)), **inputs)

    def changes(self, tx: Transaction, change: PendingWrite) -> FactChanges:
        """Return the facts that are to be changed in a transaction."""
        return FactChanges(tx, change, self.point.path, self.database.new_id)
