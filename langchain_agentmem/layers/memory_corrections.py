"""`Corrections`: people correct what is remembered. Each change records who made it and when, and can be undone.

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.layers(namespace=("users", "ada")).core.set("city", "Lisbon")
        made = memory.corrections.core("city", "Porto", by="Maria", namespace=("users", "ada"))
        print(made.by, made.at, made.before, made.after)
        memory.corrections.undo(made.id, by="Maria", namespace=("users", "ada"))
        print([each.after for each in memory.corrections.history("core", "city", namespace=("users", "ada"))])

If threads share a namespace, their memory is corrected on the branch "main", for all of them. A thread that shares
nothing is corrected at its newest checkpoint, with `thread_id`; its past stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Required, TypeAlias, TypedDict, Unpack

from langchain_agentmem.base.argument_checks import NO_LIMIT, check_integer, check_name, check_value, parse_limit
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encoding import read_column, write_plain
from langchain_agentmem.base.namespaces import Namespace, check_id, namespace_of, path_of, path_range
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, Outdated, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import redraft, redraft_record
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MAIN, PendingWrite, thread_id_of
from langchain_agentmem.rewinding.memory_rows import (
    CORE,
    FACT,
    RECORD,
    STATEMENT,
    MemoryVersion,
    MemoryView,
    VersionDraft,
    decode_text,
    encode_text,
)
from langchain_agentmem.rewinding.thread_memory import amending_position
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database

CorrectedKind: TypeAlias = Literal["core", "record", "fact"]
_KEY_LABEL, _PERSON_LABEL = "the key of what is corrected", "the name of who corrects"
_COLUMNS = ("label", "importance", "expires_at", "created_at")
_FACT_FIELDS = ("role", "subject", "predicate", "object", "start", "end", "sure")
Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A change that a person made.

    The values of "core" have `value`, `importance` and `expires_at`; of "record" `content` and `tags`; of "fact"
    `role`, `subject`, `predicate`, `object`, `valid_from`, `valid_to` and `confidence`.

    Attributes:
        id: Its id, unique in the namespace.
        kind: The kind of value: "core", "record" or "fact".
        key: The key, or the id of the record or fact.
        namespace: The namespace of the value.
        branch: The branch; for the memory of one thread alone the thread's id.
        by: The name of the person.
        at: The time of the correction, in UTC.
        before: The previous value; None if there was none.
        after: The corrected value; None if it was deleted.
        undoes: The id of the correction that this one undoes; None for others.
        thread_id: The thread, for the memory of one thread alone; else None.
    """

    id: str
    kind: str
    key: str
    namespace: Namespace
    branch: str
    by: str
    at: datetime
    before: Values | None
    after: Values | None
    undoes: str | None = None
    thread_id: str | None = None
    _data: Values = field(default_factory=dict, repr=False, compare=False)


class CurrentValue(NamedTuple):
    """A value that can be corrected, as it is now.

    Attributes:
        value: The fields of the value, as in a `Correction`; None if there is none.
        version: The version of the value: passed as `expected`, it keeps a correction from replacing a value that
            nobody has looked at.
        at: The time this version was written, in UTC.
        source: Its source: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: The name of the source.
        thread_id: The thread that wrote it; None for a branch.
    """

    value: Values | None
    version: str
    at: datetime | None = None
    source: str | None = None
    actor: str | None = None
    thread_id: str | None = None


class CorrectionTarget(TypedDict, total=False):
    """The location of the value to correct.

    Attributes:
        namespace: Its namespace. Default: that of the running config, else the root.
        branch: Its branch. Default: "main", which the threads of a namespace see.
        thread_id: A thread that shares nothing with others, at its newest checkpoint, in place of a branch.
    """

    namespace: Sequence[str] | None
    branch: str
    thread_id: str | None


class CorrectionOptions(CorrectionTarget, total=False):
    """The location of the value to correct, the person, and the expected version.

    Attributes:
        namespace: Its namespace. Default: that of the running config, else the root.
        branch: Its branch. Default: "main", which the threads of a namespace see.
        thread_id: A thread that shares nothing with others, at its newest checkpoint, in place of a branch.
        by: The name of the person who corrects the value.
        expected: The `version` that `present` returned for it. Default: any.
    """

    by: Required[str]
    expected: str | None


_Edit: TypeAlias = Callable[[LayeredMemory, Transaction, PendingWrite, Any], None]
"""A function that adds the next version of the present value to a change."""


class Corrections:
    """The corrections that people make; each method has an async twin, prefixed with `a`.

    A correction is a version with the source "person", which names the person. It stays in the history when newer
    versions follow, until its value, or the source of the value before, is erased.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    # -- correcting --------------------------------------------------------------------------------------------------

    def core(
        self, key: str, value: str, *, importance: int | None = None, **options: Unpack[CorrectionOptions]
    ) -> Correction:
        """Correct a value of core memory, or add one.

        Its expiry stays, and no other value is evicted.

        Args:
            key: The key of the value.
            value: The new value.
            importance: From 1 to 5. Default: unchanged; 3 for a new value.
            **options: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or nothing would change.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion | None) -> None:
            setting = layers.core._check_value(key, value, DEFAULT_IMPORTANCE if importance is None else importance)
            draft = VersionDraft(CORE, setting.key, None, change.now, importance=setting.importance)
            if old is not None:
                draft = redraft(old, importance=old.importance if importance is None else importance)
            change.drafts.append(draft._replace(body=encode_text(setting.value)))

        return self._correct(CORE, key, edit, may_add=True, **options)

    acore = awaited(core, writes=True)

    def record(
        self,
        record_id: str,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        **options: Unpack[CorrectionOptions],
    ) -> Correction:
        """Correct the content or tags of a record of archival memory.

        Args:
            record_id: The id of the record.
            content: Its new content. Default: unchanged.
            tags: Its new tags; an empty list removes all. Default: unchanged.
            **options: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, the record does not exist, or nothing would change.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            clean_content = None if content is None else layers.archival._clean_content(content)
            clean_tags = None if tags is None else layers.archival._clean_tags(tags)
            change.drafts.append(redraft_record(old, clean_content, clean_tags))

        return self._correct(RECORD, record_id, edit, **options)

    arecord = awaited(record, writes=True)

    def fact(self, fact_id: str, /, *, by: str, expected: str | None = None, **changes: Any) -> Correction:
        """Correct a fact. It keeps its earlier values, as after `KGMemory.update`.

        Args:
            fact_id: The id of the fact.
            by: The name of the person who corrects it.
            expected: The `version` that `current` returned for it. Default: any.
            **changes: `role`, `subject`, `predicate`, `obj`, `valid_from`, `valid_to` (None: no end) and
                `confidence`; and `namespace`, and `branch` or `thread_id`, see `CorrectionTarget`.

        Raises:
            InvalidInput: A value is wrong, the fact does not exist, or nothing would change.
            Outdated: The value has another version.
        """
        location = {name: changes.pop(name) for name in ("namespace", "branch", "thread_id") if name in changes}

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            layers._facts_context.changes(tx, change).correct_fact(old, changes)

        return self._correct(FACT, fact_id, edit, by=by, expected=expected, **location)

    afact = awaited(fact, writes=True)

    def delete(self, kind: CorrectedKind, key: str, **options: Unpack[CorrectionOptions]) -> Correction:
        """Delete a value, a record or a fact, so that the deletion can be undone.

        To leave no trace, erase it instead.

        Args:
            kind: "core", "record" or "fact".
            key: The key, or the id.
            **options: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or the value does not exist.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind != FACT:
                change.remove(kind, old.key)
                return
            statements = [
                event["n"] for event in fact_values.effective_events(old.extra["told"]) if event["do"] == STATEMENT
            ]
            layers._facts_context.changes(tx, change).toggle_events(old, statements)

        return self._correct(kind, key, edit, **options)

    adelete = awaited(delete, writes=True)

    def undo(self, correction_id: str, *, by: str, namespace: Sequence[str] | None = None) -> Correction:
        """Undo a correction. The undo is a correction, too, and can be undone.

        Args:
            correction_id: The id of the correction.
            by: The name of the person who undoes it.
            namespace: The namespace of the value. Default: the running config's, else the root.

        Raises:
            InvalidInput: The correction does not exist, or the version before is no longer kept.
            Outdated: The value was changed since.
        """
        path = path_of(self._database.scopes.resolve(namespace))
        name = check_id(correction_id, "correction")
        corrections = self._database.read(None, lambda tx: self._read_corrections(tx, path, path + "\x01"))
        correction = next((each for each in corrections if each.id == name), None)
        if correction is None:
            raise InvalidInput(f"There is no correction {safe_repr(name)} in {safe_repr(namespace_of(path))}.")
        kind, key, row, expected = (
            correction.kind,
            correction.key,
            correction._data["before"],
            _value_digest(correction._data["after"]),
        )

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind == FACT:
                layers._facts_context.changes(tx, change).toggle_events(old, correction._data["events"])
            elif row is None:
                change.remove(kind, key)
            else:
                columns = {name: row[name] for name in _COLUMNS}
                draft = VersionDraft(kind, key, encode_text(row["text"]), findable=kind != CORE, **columns)
                change.drafts.append(draft._replace(extra=row["extra"] or None))

        location = {"namespace": correction.namespace, "branch": correction.branch, "thread_id": correction.thread_id}
        return self._correct(
            kind, key, edit, undoes=correction, may_add=kind != FACT, by=by, expected=expected, **location
        )

    aundo = awaited(undo, writes=True)

    # -- reading -----------------------------------------------------------------------------------------------------

    def current(self, kind: CorrectedKind, key: str, **location: Unpack[CorrectionTarget]) -> CurrentValue:
        """Return the present value, with the version to pass to a correction as `expected`.

        Args:
            kind: "core", "record" or "fact".
            key: The key, or the id.
            **location: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        check_value(CorrectedKind, kind, "kind")
        key = check_name(key, _KEY_LABEL)

        def look(tx: Transaction, view: MemoryView) -> CurrentValue:
            version = memory_rows.load_named(tx, view, kind, [key]).get(key)
            row = _stored_fields(kind, version)
            if version is None or row is None:
                return CurrentValue(None, _value_digest(None))
            at = from_micros(version.written_at)
            return CurrentValue(
                _public_value(kind, row), _value_digest(row), at, version.source, version.actor, version.thread
            )

        return self._memory_at(**location)._context.read("corrections.present", look, key=key)

    acurrent = awaited(current)

    def history(
        self,
        kind: CorrectedKind | None = None,
        key: str | None = None,
        *,
        limit: int | None = 50,
        offset: int = 0,
        **location: Unpack[CorrectionTarget],
    ) -> list[Correction]:
        """List corrections, the newest first.

        Args:
            kind: "core", "record" or "fact"; with the key, only the corrections of that value. Default: all that
                were made in the namespace and all below it.
            key: The key, or the id.
            limit: The maximum number of corrections; None for all. Default: 50.
            offset: The number of first corrections to omit. Default: 0.
            **location: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if (kind is None) != (key is None):
            raise InvalidInput("Give the kind and the key of what was corrected, or neither.")
        most = parse_limit(limit)
        check_integer("offset", offset)
        low, high = path_range(self._database.scopes.resolve(location.get("namespace"), optional=kind is None))
        filters: dict[str, Any] = {}
        if kind is not None and key is not None:
            thread = location.get("thread_id")
            thread = None if thread is None else check_id(thread, "thread")
            branch = check_id(location.get("branch", MAIN), "branch")
            filters = self._value_filters(
                low, check_value(CorrectedKind, kind, "kind"), check_name(key, _KEY_LABEL), branch, thread
            )
            high = low + "\x01"
        return self._database.read(
            "corrections.history",
            lambda tx: self._read_corrections(tx, low, high, limit=most, offset=offset, **filters),
        )

    ahistory = awaited(history)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _memory_at(
        self, namespace: Sequence[str] | None = None, branch: str = MAIN, thread_id: str | None = None
    ) -> LayeredMemory:
        if thread_id is None:
            return LayeredMemory(self._database, check_id(branch, "branch"), namespace=namespace)
        path = path_of(self._database.scopes.resolve(namespace))
        return LayeredMemory(self._database, amending_position(self._database, check_id(thread_id, "thread"), path))

    def _read_corrections(
        self, tx: Transaction, /, low: str, high: str, *, limit: int = NO_LIMIT, offset: int = 0, **filters: str | None
    ) -> list[Correction]:
        """Read the corrections of some namespaces, or those of one value, the newest first.

        Raises:
            DatabaseUnreadable: One is damaged.
        """
        filters = filters or dict.fromkeys(("kind", "key", "name", "thread"))
        rows = query.corrections_within(tx, low=low, high=high, limit=limit, offset=offset, **filters)
        found: list[Correction] = []
        for row in rows:
            # A thread that has moved into a namespace is corrected on the branch that its threads share.
            is_alone = row["branch_kind"] == "thread" and not self._database.scopes.is_shared(row["path"])
            slot = (row["path"], row["kind"], row["key"], row["name"], row["thread"] if is_alone else None)
            try:
                found.append(_make_correction(*slot, row["written_at"], read_column(row["correction"], dict)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise DatabaseUnreadable(
                    f"A correction of {safe_repr(row['key'])} is damaged. Restore it from a backup."
                ) from error
        return found

    def _value_filters(self, path: str, kind: str, key: str, branch: str, thread: str | None) -> dict[str, Any]:
        """Return the query parameters that select the corrections of one value."""
        if thread is None and branch == MAIN and self._database.scopes.is_shared(path):
            thread = ""  # any thread that has moved here
        return {"kind": kind, "key": key, "name": None if thread else branch, "thread": thread}

    def _correct(
        self,
        kind: str,
        key: str,
        edit: _Edit,
        *,
        undoes: Correction | None = None,
        may_add: bool = False,
        **options: Any,
    ) -> Correction:
        """Write a version that is a correction; with `may_add` also if there is no present value."""
        check_value(CorrectedKind, kind, "kind")
        person, expected = check_name(options.pop("by", None), _PERSON_LABEL), options.pop("expected", None)
        layers = self._memory_at(**options)
        key = layers.core._clean_key(key) if kind == CORE else check_name(key, _KEY_LABEL)
        thread, path = thread_id_of(layers._context.point), path_of(layers.namespace)

        def make(tx: Transaction, change: PendingWrite) -> Correction:
            change.writer = SourceNote("person", person)
            old = memory_rows.load_named(tx, change.view, kind, [key]).get(key)
            before = _stored_fields(kind, old)
            if expected not in (None, _value_digest(before)):
                raise Outdated
            if old is None and not may_add:
                raise InvalidInput(
                    f"There is no {kind} {safe_repr(key)} here. What is a thread's that shares nothing with others is "
                    "named by thread_id."
                )
            last = self._read_corrections(
                tx, path, path + "\x01", limit=1, **self._value_filters(path, kind, key, layers.name, thread)
            )
            edit(layers, tx, change, old)
            number = max(n for n, draft in enumerate(change.drafts) if (draft.kind, draft.key) == (kind, key))
            new = change.drafts[number]
            if _value_digest(_stored_fields(kind, new)) == _value_digest(before):
                raise InvalidInput("It says so already: nothing was changed.")
            known = {event["n"] for event in _events_of(old)}
            sources = {event["in"] for event in _events_of(old) if event.get("in") is not None}
            sources |= {each for each in (thread, old and old.thread) if each}
            # A correction may still contain words from the sources of its predecessor.
            for earlier in (*(each for each in last if each._data["after"] == before), *([undoes] if undoes else ())):
                sources.update(earlier._data["sources"])
            data = {
                "id": self._database.new_id(),
                "by": person,
                "undoes": undoes and undoes.id,
                "before": before,
                "after": _stored_fields(kind, new),
                "sources": sorted(sources),
                "events": [event.get("of", event["n"]) for event in _events_of(new) if event["n"] not in known],
            }
            change.drafts[number] = new._replace(correction=data)
            return _make_correction(path, kind, key, layers.name, thread, change.now, data)

        name = "corrections.correct" if undoes is None else "corrections.undo"
        inputs = {"kind": kind, "key": key, "by": person}
        return layers._context.write(name, make, outputs=lambda correction: {"correction_id": correction.id}, **inputs)


def _make_correction(
    path: str, kind: str, key: str, name: str | None, thread: str | None, at: int, data: dict[str, Any]
) -> Correction:
    return Correction(
        **{field: data[field] for field in ("id", "by", "undoes")},
        kind=kind,
        key=key,
        namespace=namespace_of(path),
        branch=thread or name or MAIN,
        at=from_micros(at),
        before=_public_value(kind, data["before"]),
        after=_public_value(kind, data["after"]),
        thread_id=thread,
        _data=data,
    )


def _events_of(version: MemoryVersion | VersionDraft | None) -> Sequence[Mapping[str, Any]]:
    """Return the events of a fact; nothing for other kinds."""
    events: Sequence[Mapping[str, Any]] = ((version and version.extra) or {}).get("told", ())
    return events


def _stored_fields(kind: str, version: MemoryVersion | VersionDraft | None) -> Values | None:
    """Return the fields that a correction stores of a value; None if it does not exist."""
    if version is None or version.body is None:
        return None
    if kind != FACT:
        columns = {name: getattr(version, name) for name in _COLUMNS}
        return {"text": decode_text(version.body), **columns, "extra": dict(version.extra or {})}
    fact = fact_values.compute_state(version.extra or {})
    return None if fact is None else {name: getattr(fact, name) for name in _FACT_FIELDS}


def _public_value(kind: str, row: Any) -> Values | None:
    """Return a value in the form that users see."""
    if row is None:
        return None
    if kind == CORE:
        return {
            "value": row["text"],
            "importance": row["importance"],
            "expires_at": _optional_moment(row["expires_at"]),
        }
    if kind == RECORD:
        return {"content": row["text"], "tags": tuple(row["extra"].get("tags", ()))}
    named = {name: row[name] for name in ("role", "subject", "predicate", "object")}
    times = {"valid_from": _optional_moment(row["start"]), "valid_to": _optional_moment(row["end"])}
    return {**named, **times, "confidence": row["sure"]}


def _optional_moment(time: int | None) -> datetime | None:
    return None if time is None else from_micros(time)


def _value_digest(row: Any) -> str:
    """Return a digest of a value."""
    return queries.digest(write_plain(row)).hex()
