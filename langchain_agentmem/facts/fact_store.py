"""The reading and writing of the rows of facts and messages.

A `FactsContext` opens the transactions on one memory of facts. In a transaction, a `FactView` reads facts in three
forms:

- a `MemoryVersion`: the stored row of a fact
- a `FactState`: the result of the row's events
- a `Fact`: the state, with its end if another fact ended it

`FactChanges` is a `FactView` that also collects changes. A fact that is stated twice while it holds is one fact with
two sources.

A message is stored unchanged, and queued for extraction in the same transaction.
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
from langchain_agentmem.conversations.log_entries import change_message, make_entry
from langchain_agentmem.errors import MessageError, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts.fact import Fact, FactMention, FactRules, FactState, entity_key, predicate_key
from langchain_agentmem.messages.message import ROLE_SOURCES, Message, decode_body, escape_name, is_same_body
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MemorySession, PendingWrite
from langchain_agentmem.rewinding.memory_rows import FACT, FACT_DUE, FACT_TEXT, STATEMENT, MemoryVersion, VersionDraft
from langchain_agentmem.rewinding.message_sources import SET, UNDO, remove_statements
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.tracing import drop_none

DESCRIPTION = "description"
"""The key and the label of the row with the description of a memory."""

T = TypeVar("T")


PAGE_START = (LATEST, 2**63 - 1)
"""The start of the first page of facts: a time and a row number that follow those of all rows."""
MAX_PAGE_ROWS = 1_000
"""The maximum number of rows of a page."""


class FactView:
    """The visible facts of a memory, read in one transaction.

    Args:
        tx: The transaction.
        view: The view of the memory.
    """

    def __init__(self, tx: Transaction, view: memory_rows.MemoryView) -> None:
        self.tx, self.view = tx, view

    @cached_property
    def rules(self) -> FactRules:
        """The merged names and the single-valued predicates."""
        aliases: dict[str, fact_values.Alias] = {}
        single_valued = {predicate_key(name): True for name in fact_values.SINGLE_VALUED}
        for version in self.rows_of_kind(fact_values.RULE):
            _, _, key = version.key.partition(":")
            if version.label == fact_values.ALIAS:
                aliases[key] = fact_values.Alias(name=version.extra["name"], into=version.extra["into"])
            elif version.label == fact_values.SINGLE:
                single_valued[key] = version.extra["single"]
        return FactRules(aliases, frozenset(key for key, is_single in single_valued.items() if is_single))

    @cached_property
    def fact_rows(self) -> dict[str, MemoryVersion]:
        """The rows of all facts, by their ids, in the order in which they were written."""
        return {version.key: version for version in self.rows_of_kind(FACT)}

    @cached_property
    def description(self) -> str | None:
        """The description of the memory; None if it has none."""
        return next((version.text for version in self.rows_by_key(fact_values.RULE, [DESCRIPTION]).values()), None)

    def rows_of_kind(self, kind: str) -> list[MemoryVersion]:
        """Return all rows of a kind, in the order in which they were written."""
        return memory_rows.load_current(self.tx, self.view, kind)

    def rows_by_key(self, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
        """Return the rows of a kind with these keys, by key."""
        sorted_keys = sorted(keys)
        return memory_rows.load_named(self.tx, self.view, kind, sorted_keys) if sorted_keys else {}

    def row(self, fact_id: str) -> MemoryVersion:
        """Return the row of a fact.

        Raises:
            MessageError: The fact does not exist.
        """
        if fact_id not in (rows := self.rows_by_key(FACT, [fact_id])):
            raise MessageError(f"There is no fact or message {safe_repr(fact_id)} here. Pass the id of a visible fact.")
        return rows[fact_id]

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact or a message by its id; None if it does not exist."""
        if facts := self.resolve_facts(self.rows_by_key(FACT, [fact_id])):
            return facts[0]
        return next(map(message_to_fact, self.rows_by_key(FACT_TEXT, [fact_id]).values()), None)

    def to_facts(self, rows: Iterable[MemoryVersion]) -> dict[str, Fact]:
        """Convert rows of facts and messages to facts by their ids, without undone facts."""
        by_id = {row.key: row for row in rows}
        facts = self.resolve_facts({id_: row for id_, row in by_id.items() if row.kind == FACT})
        messages = {id_: message_to_fact(row) for id_, row in by_id.items() if row.kind == FACT_TEXT}
        return {fact.id: fact for fact in facts} | messages

    def facts_of_message(self, message_id: str, path: str) -> list[Fact]:
        """Return the facts that a message states.

        Args:
            message_id: The id of the message.
            path: The path of the namespace.
        """
        facts = self.resolve_facts(self.rows_of_message(message_id, path))
        return [fact for fact in facts if message_id in fact.sources]

    def rows_of_message(self, message_id: str, path: str) -> dict[str, MemoryVersion]:
        """Return the rows of facts of which any stored version has this message as a source."""
        sources = as_json([memory_rows.format_message_source(message_id)])
        rows = query.memory_with_sources(self.tx, keys=sources, low=path, high=path + "\x01")  # only this namespace
        return self.rows_by_key(FACT, {row["key"] for row in rows if row["kind"] == FACT})

    def message_rows(self, messages: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], MemoryVersion]:
        """Return the rows of messages by message id and conversation (None if unknown)."""
        keys = {key for message in messages for key in (message[0], _make_unlisted_key(*message))}
        rows = self.rows_by_key(FACT_TEXT, keys)
        by_message = {message: rows.get(_make_unlisted_key(*message)) or rows.get(message[0]) for message in messages}
        return {message: row for message, row in by_message.items() if row is not None}

    def rows_about(
        self,
        *,
        subjects: Iterable[str] | None = None,
        predicates: Iterable[str] | None = None,
        objects: Iterable[str] | None = None,
        recorded: int | None = None,
    ) -> dict[str, MemoryVersion]:
        """Return the rows of facts with some subjects, predicates and objects, by the facts' ids.

        If neither subjects nor objects are passed, all rows of facts are read.

        Args:
            subjects: The keys of subjects. Default: any.
            predicates: The keys of predicates. Default: any.
            objects: The keys of objects. Default: any.
            recorded: Compare the names that the facts had at this time. Default: their present names.
        """
        key_sets = [None if keys is None else set(keys) for keys in (subjects, predicates, objects)]
        if set() in key_sets:
            return {}
        if subjects is None and objects is None:
            rows = self.fact_rows
        else:
            rows = self._look_up(*key_sets)
            if recorded is not None:
                renamed = {row.key for row in self.rows_of_kind(memory_rows.FORMER_FACT)}
                rows |= self.rows_by_key(FACT, renamed - rows.keys())
            elif self.view.scope is None and (predicates is not None or None in (subjects, objects)):
                return rows  # the query has compared all names

        def is_match(version: MemoryVersion) -> bool:
            names = fact_values.get_indexed_names(version.extra, recorded)
            keys = entity_key(names[0]), predicate_key(names[1]), entity_key(names[2])
            return all(key_set is None or key in key_set for key_set, key in zip(key_sets, keys, strict=True))

        if key_sets == [None, None, None]:
            return rows
        return {key: version for key, version in rows.items() if is_match(version)}

    def _look_up(
        self, subjects: set[str] | None, predicates: set[str] | None, objects: set[str] | None
    ) -> dict[str, MemoryVersion]:
        """Find facts by their names on this branch and, in a scope, on other branches."""
        params = {**self.view.parameters(), "scope": None, "before": None}  # `fact_keys` reads the other branches
        keys: Iterable[Any] | None
        if subjects is None:
            select, keys = query.facts_of_objects, objects
            params["labels"] = _keys_json(predicates)
        elif predicates is None:
            select, keys = query.facts_of_subjects, subjects
        elif objects is None:
            select, keys = query.facts_of_predicates, product(subjects, predicates)
        else:
            select, keys = query.facts_of_triples, product(subjects, predicates, objects)
        rows = select(self.tx, **params, keys=_keys_json(keys), kind=FACT)
        if self.view.scope is None:
            return {row["key"]: memory_rows.read_version(row) for row in rows}
        scope = {"scope": self.view.scope, "author": self.view.author, "before": self.view.max_stamp}
        names = {"subjects": _keys_json(subjects), "labels": _keys_json(predicates), "objects": _keys_json(objects)}
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
        """Yield pages of rows by key, the newest rows first. The page size grows.

        Args:
            kind: `FACT` or `FACT_TEXT`.
            size: The maximum number of rows of the first page.
            before: Only rows recorded before this time, or at this time with a smaller row number.
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
                yield {row["key"]: memory_rows.read_version(row) for row in rows}

    def resolve_facts(
        self,
        rows: Mapping[str, MemoryVersion],
        recorded: int | None = None,
        *,
        is_complete: bool = False,
        at: int | None = None,
    ) -> list[Fact]:
        """Convert rows to facts, in the same order, with the ends that other facts cause.

        Args:
            rows: The rows, by the ids of the facts.
            recorded: Ignore events recorded after this time. Default: use all events.
            is_complete: True if `rows` contains all facts of each of their subjects and predicates.
            at: Only facts that held at this time. Default: all.
        """
        if not rows:
            return []
        rules = self.rules
        states = all_states = compute_states(rows, recorded)
        # Other facts do not end a fact with a stated end.
        without_end = [state for state in states.values() if state.end is None]
        predicates = rules.single & {predicate_key(state.predicate) for state in without_end}
        if predicates and not is_complete:
            single = [state for state in without_end if predicate_key(state.predicate) in predicates]
            subjects = rules.expand_entities(rules.resolve(state.subject) for state in single)
            others = self.rows_about(subjects=subjects, predicates=predicates, recorded=recorded)
            all_states = {**compute_states(others, recorded), **states}
        if self.view.scope is not None:  # merge equal facts of several branches
            all_states = fact_values.unite_facts(all_states, states, rules)
            states = {id_: all_states[id_] for id_ in states if id_ in all_states}
        with pause_gc():
            ended = fact_values.apply_endings(all_states, rules)
            return [
                Fact(
                    id=id_,
                    role=state.role,
                    subject=rules.display_name(state.subject),
                    predicate=state.predicate,
                    object=rules.display_name(state.object),
                    valid_from=from_micros(state.start),
                    valid_to=None if (end := ended[id_].end) is None else from_micros(end),
                    recorded_at=from_micros(state.learned_at),
                    mentions=tuple(map(_to_mention, state.statements)),
                    confidence=state.sure,
                    ended_by=ended[id_].ended_by,
                )
                for id_, state in states.items()
                if at is None or fact_values.overlaps(ended[id_], at, at + 1)
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


def compute_states(rows: Mapping[str, MemoryVersion], recorded: int | None = None) -> dict[str, FactState]:
    """Compute the states of facts by id as of the time `recorded`, without undone facts."""
    states = {id_: fact_values.compute_state(row.extra, recorded) for id_, row in rows.items()}
    return {id_: state for id_, state in states.items() if state is not None}


def message_to_fact(version: MemoryVersion) -> Fact:
    """Convert the row of a message to a `Fact` whose `raw` is True."""
    message, recorded_at = decode_message(version), from_micros(version.written_at)
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


def decode_message(version: MemoryVersion) -> Message:
    """Return the message in a row."""
    return decode_body(version.body, version.extra["told"][0]["id"])


def get_conversation(version: MemoryVersion) -> Any:
    """Return the conversation or thread of a message; None if unknown."""
    return version.extra["told"][0].get("in")


def _make_unlisted_key(message_id: str, conversation: str | None) -> str:
    """Return the key of a message that is only a source, and is not listed with the facts.

    A listed message has its id as the key.
    """
    return f"{message_id}\x1f{conversation or ''}"


def make_source_event(number: int, now: int, message_id: str, conversation: str | None) -> dict[str, Any]:
    """Return the event that records a message as a source of a row."""
    return drop_none({"n": number, "at": now, "do": STATEMENT, "id": message_id, "in": conversation})


def draft_fact(id_: str, extra: Mapping[str, Any], created_at: int) -> VersionDraft:
    """Return the draft of a fact's row, which is indexed by its subject, predicate and object.

    Args:
        id_: The id of the fact.
        extra: Its original names, its role and its events.
        created_at: The time it was first recorded, in microseconds since 1970.
    """
    state = fact_values.compute_state(extra)
    subject, predicate, obj, *_ = state or (extra["subject"], extra["predicate"], extra["object"])
    body = memory_rows.encode_text(fact_values.format_sentence(subject, predicate, obj))
    draft = VersionDraft(FACT, id_, body, created_at, label=predicate_key(predicate), extra=extra)
    draft = draft._replace(subject=entity_key(subject), object=entity_key(obj), findable=state is not None)
    return draft._replace(source=ROLE_SOURCES.get(extra["role"]))


class FactStatement(NamedTuple):
    """A statement of a fact.

    Attributes:
        role: The role that states it.
        subject: The subject.
        predicate: The predicate.
        object: The object.
        start: The time the fact began to hold, in microseconds since 1970; None if not stated.
        end: The time it ended; None if no end was stated.
        confidence: The confidence, from 0 to 1; None if not stated.
        message: The id of the message that states it; None if there is none.
        conversation: The conversation or thread of the message; None if unknown.
        stated_at: The time it was stated. Default: now.
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
        change: The pending write that collects the changes.
        path: The path of the namespace.
        new_id: The function that generates ids.
        written: The rows changed by this object, by the ids of the facts. The drafts in `change` are stored later.
    """

    def __init__(self, tx: Transaction, change: PendingWrite, path: str, new_id: NewId) -> None:
        super().__init__(tx, change.view)
        self.change, self.path, self.new_id = change, path, new_id
        self.written: dict[str, MemoryVersion] = {}

    def record_statement(self, statement: FactStatement, fact_id: str | None = None) -> tuple[str, bool]:
        """Record a statement of a fact.

        Args:
            statement: The statement.
            fact_id: The id of the fact to which another source is added. Default: a matching fact, or a new one.

        Returns:
            The id of the fact, and True if it is new.
        """
        rules, now = self.rules, self.change.now
        subject, predicate = rules.resolve(statement.subject), predicate_key(statement.predicate)
        value = rules.resolve(statement.object)
        # Other values affect this one only if the predicate is single-valued.
        rows = self._find_rows(subject, predicate, None if predicate in rules.single else value)
        states = compute_states(rows)
        ended = fact_values.apply_endings(states, rules)
        start = statement.start
        if start is None:
            start = now if statement.stated_at is None else statement.stated_at
            start = start if statement.end is None else min(start, statement.end - 1)
        number = self._next_number(rows.values())
        event = {"n": number, "at": now, "do": STATEMENT, "role": statement.role, "from": start, "to": statement.end}
        optional: dict[str, Any] = {"id": statement.message, "in": statement.conversation}
        optional |= {"given": None if statement.start is None else True, "sure": statement.confidence}
        if statement.message is None:  # with "in", an erasure of the thread also removes the statement
            optional |= {"in": statement.conversation or self.change.thread, **self.change.writer._asdict()}
        event |= drop_none(optional)
        is_undated = statement.message is not None and statement.start is None
        # A fact matches if it holds in the stated period, or if the same undated message states it again.
        matching = [
            id_
            for id_, state in states.items()
            if rules.resolve(state.object) == value
            if fact_values.overlaps(ended[id_], start, statement.end)
            or (is_undated and not fact_values.adds_statement(state, event))
        ]
        if fact_id is None and not matching:
            id_ = self.new_id()
            names = {"subject": statement.subject, "predicate": statement.predicate, "object": statement.object}
            unwritten = MemoryVersion(0, None, FACT, id_, None, None, None, now, now, None, None, None, b"", {})
            self.write_events(unwritten, {**names, "role": statement.role, "told": [event]})
            return id_, True
        id_ = fact_id or min(matching, key=lambda id_: (states[id_].start, id_))
        version, state = rows[id_], states[id_]
        if (own := version.extra.get("own")) is not None:  # compare only statements of this branch
            state = state._replace(statements=tuple(known for known in state.statements if known["n"] in own))
        if fact_values.adds_statement(state, event):
            self._add_event(version, event)
        return id_, False

    def correct_fact(self, version: MemoryVersion, changes: Mapping[str, Any]) -> None:
        """Correct a fact.

        Args:
            version: The row of the fact.
            changes: The changes, as for `KGMemory.update`.

        Raises:
            InvalidInput: A value is wrong.
            MessageError: A field is unknown, no field was passed, or the fact was undone.
        """
        state = fact_values.compute_state(version.extra)
        if state is None:
            raise MessageError(f"The fact {safe_repr(version.key)} was undone. Call undo() to restore it first.")
        self._add_event(version, {"do": SET, "fields": fact_values.parse_changes(state, changes)})

    def undo_last(self, version: MemoryVersion) -> None:
        """Undo the last event of a fact; if that is an undo, restore the undone event."""
        last = version.extra["told"][-1]
        self.toggle_events(version, [last["of" if last["do"] == UNDO else "n"]])

    def toggle_events(self, version: MemoryVersion, events: Sequence[int]) -> None:
        """Undo events of a fact, or restore them if they are undone.

        Args:
            version: The row of the fact.
            events: The numbers of the events.
        """
        for number in events:
            self._add_event(self.written.get(version.key, version), {"do": UNDO, "of": number})

    def retract_message(self, message: MemoryVersion) -> None:
        """Remove the statements of a message that is deleted or changed."""
        message_id, conversation = decode_message(message).message_id, get_conversation(message)

        def is_retracted(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == message_id and event.get("in", conversation) == conversation)

        for version in self.rows_of_message(message_id, self.path).values():
            extra = remove_statements(version.extra, is_retracted)
            if extra is None:
                self.change.remove(FACT, version.key)
            elif extra != version.extra:
                self.write_events(version, extra)

    def write_events(self, version: MemoryVersion, extra: Mapping[str, Any]) -> None:
        """Write the next version of a fact from its events.

        Args:
            version: The present row of the fact. Its `extra` is empty for a new fact. In a scope, `extra["own"]` has
                the numbers of the events of this branch, and `extra["told"]` the events of all branches.
            extra: Its new `extra`.
        """
        # "foreign" lists the events that a copied thread has from its original.
        stored = {name: value for name, value in extra.items() if name != "own" and (name != "foreign" or value)}
        if "own" in version.extra:  # do not store statements of other branches
            other_events = {event["n"] for event in version.extra["told"]} - set(version.extra["own"])
            stored["told"] = [event for event in extra["told"] if event["n"] not in other_events]
            extra = {**extra, "own": [event["n"] for event in stored["told"]]}
        draft = draft_fact(version.key, extra, version.created_at)
        if version.extra and fact_values.get_indexed_names(version.extra) != fact_values.get_indexed_names(extra):
            self.change.drafts.append(VersionDraft(memory_rows.FORMER_FACT, version.key, b"", self.change.now))
        self.written[version.key] = version._replace(body=draft.body or b"", extra=extra)
        self.change.drafts.append(draft._replace(extra=stored))

    def _add_event(self, version: MemoryVersion, event: Mapping[str, Any]) -> None:
        """Add an event to a fact."""
        events = version.extra["told"]
        event = {"n": self._next_number([version]), "at": self.change.now, **event}
        own = version.extra.get("own")
        if event["do"] == SET and own is not None:  # erasing a source on another branch must also erase the correction
            others = [other for other in events if other["n"] not in own and other["do"] == STATEMENT]
            if sources := [[other.get("id"), other.get("in")] for other in others]:
                event[memory_rows.OTHER_SOURCES] = sources
        self.write_events(version, {**version.extra, "told": [*events, event]})

    def _next_number(self, rows: Iterable[MemoryVersion]) -> int:
        """Return the number of a new event.

        In a scope, other branches number events too, so the number is taken from the clock.
        """
        number = 1 + max([event["n"] for version in rows for event in version.extra["told"]], default=0)
        return number if self.change.view.scope is None else max(number, self.change.now)

    def _find_rows(self, subject: str, predicate: str, value: str | None = None) -> dict[str, MemoryVersion]:
        """Return rows by subject and predicate; rows in `written` replace the stored ones.

        Args:
            subject: The key of the subject.
            predicate: The key of the predicate.
            value: The key of the object. Facts in `written` are returned with any object. Default: any.
        """
        rules = self.rules
        objects = None if value is None else rules.expand_entities([value])
        rows = self.rows_about(subjects=rules.expand_entities([subject]), predicates=[predicate], objects=objects)
        for id_, version in self.written.items():
            rows.pop(id_, None)
            state = fact_values.compute_state(version.extra)
            if state and rules.resolve(state.subject) == subject and predicate_key(state.predicate) == predicate:
                rows[id_] = version
        return rows

    # -- messages --------------------------------------------------------------------------------------------------

    def add_messages(
        self,
        messages: Sequence[Message],
        *,
        description: str | None = None,
        conversation: str | None = None,
        listed: bool = True,
    ) -> list[str]:
        """Store messages unchanged, and queue them for extraction.

        A message with unchanged content is not written again. If its content changed, its old statements are removed.

        Args:
            messages: The messages.
            description: The description of the memory. Default: unchanged.
            conversation: The conversation or thread of the messages; None if unknown.
            listed: True to list and find the messages together with the facts. If False, the messages belong to a
                thread, and a message replaces an earlier one with the same id and conversation. Default: True.

        Returns:
            The ids of the messages that are new or changed.

        Raises:
            MessageError: With `listed`, another message has the same id.
        """
        self.set_description(description)
        new_ids: list[str] = []
        keys = [each.message_id if listed else _make_unlisted_key(each.message_id, conversation) for each in messages]
        rows = self.rows_by_key(FACT_TEXT, keys)
        for key, message in zip(keys, messages, strict=True):
            entry = make_entry(message, self.change.now)
            existing = rows.get(key)
            if existing is not None and is_same_body(existing.body, entry.body):
                continue
            if existing is not None and listed:
                raise MessageError(f"Another message has the id {safe_repr(entry.key)}. Call update() to change it.")
            if existing is not None:
                self.retract_message(existing)
            self._put_message(key, message, entry.created_at, conversation=conversation, listed=listed)
            new_ids.append(entry.key)
        return new_ids

    def _put_message(self, key: str, message: Message, sent_at: int, *, conversation: str | None, listed: bool) -> None:
        """Store a message, or the next version of it, and queue it for extraction.

        Args:
            key: The key of the message.
            message: The message.
            sent_at: The time of the message, in microseconds since 1970.
            conversation: The conversation or thread of the message; None if unknown.
            listed: True to list and find it together with the facts.
        """
        entry, now = make_entry(message, sent_at), self.change.now
        events = [make_source_event(1, now, entry.key, conversation)]
        extra = {"told": events, "words": message.text, "role": entry.role, "speaker": entry.sender}
        role = escape_name(message.role) or ""
        draft = VersionDraft(FACT_TEXT, key, entry.body, entry.created_at, extra=extra, subject=role, findable=listed)
        self.change.drafts.append(draft if listed else draft._replace(label="read"))  # listed messages have no label
        if message.text.strip():
            self.change.drafts.append(VersionDraft(FACT_DUE, key, b"", now, extra={"told": events, "attempts": 0}))

    def update(self, key: str, changes: Mapping[str, Any]) -> bool:
        """Change a message or a fact. Return True for a message, False for a fact.

        Raises:
            MessageError: No message or fact has this key, or a change is not possible.
        """
        row = self.rows_by_key(FACT_TEXT, [key]).get(key)
        if row is not None:
            message, conversation = change_message(decode_message(row), changes), get_conversation(row)
            self.retract_message(row)
            self._put_message(key, message, row.created_at, conversation=conversation, listed=row.label is None)
            return True
        self.correct_fact(self.row(key), changes)
        return False

    def remove(self, key: str) -> bool:
        """Remove a fact or a message. Return whether it existed."""
        if (row := self.rows_by_key(FACT_TEXT, [key]).get(key)) is not None:
            self.retract_message(row)
            self.change.remove(FACT_TEXT, key)
            self.change.remove(FACT_DUE, key)
            return True
        if self.rows_by_key(FACT, [key]):
            self.change.remove(FACT, key)
            return True
        return False

    def clear(self, *, rules: bool = False) -> int:
        """Remove facts, messages and aliases. Return the number of removed rows.

        With `rules`, also remove the description and the rules on predicates.
        """
        removed = [
            version
            for kind in (FACT, memory_rows.FORMER_FACT, FACT_TEXT, FACT_DUE, memory_rows.FACT_FAILURE, fact_values.RULE)
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
        """Set the description of the memory; None leaves it unchanged."""
        if description is not None and self.description != description:
            body = memory_rows.encode_text(description)
            draft = VersionDraft(fact_values.RULE, DESCRIPTION, body, self.change.now, label=DESCRIPTION)
            self.change.drafts.append(draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsContext(MemorySession):
    """A database, a position and settings: the access to the facts of one memory.

    Attributes:
        settings: The settings of the memory.
        description: The description of the memory; None if none was passed.
    """

    settings: fact_values.FactsConfig = field(default_factory=fact_values.FactsConfig)
    description: str | None = None

    def read_facts(self, name: str | None, read: Callable[[FactView], T], **inputs: Any) -> T:
        """Call `read` with a `FactView` in a read transaction, and return its result."""
        return self.read(name, lambda tx, view: read(FactView(tx, view)), **inputs)

    def write_facts(self, name: str | None, write: Callable[[FactChanges], T], **inputs: Any) -> T:
        """Call `write` with a `FactChanges` in a write transaction, and return its result."""
        return self.write(name, lambda tx, change: write(self.changes(tx, change)), **inputs)

    def changes(self, tx: Transaction, change: PendingWrite) -> FactChanges:
        """Return a `FactChanges` that adds its changes to a pending write."""
        return FactChanges(tx, change, self.point.path, self.database.new_id)
