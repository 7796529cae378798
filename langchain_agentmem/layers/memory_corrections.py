r"""`Corrections`: changes that people make to memory. Each records the person and the time, and can be undone.

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.layers(namespace=("users", "ada")).core.set("city", "Lisbon")
        correction = memory.corrections.core("city", "Porto", by="Maria", namespace=("users", "ada"))
        print(correction.by, correction.at, correction.before, correction.after)
        memory.corrections.undo(correction.id, by="Maria", namespace=("users", "ada"))
        print([each.after for each in memory.corrections.history("core", "city", namespace=("users", "ada"))])

If threads share a namespace, a correction on the branch "main" applies to all of them. To correct the memory of a
thread that shares no memory, pass `thread_id`. The correction then applies at its newest checkpoint. Earlier
checkpoints do not change. In queries, the range from `path` to `path + "\x01"` contains one namespace without those
below it.
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
from langchain_agentmem.rewinding import memory_rows, message_sources
from langchain_agentmem.rewinding.branches import MAIN, PendingWrite, get_thread_id
from langchain_agentmem.rewinding.memory_rows import CORE, FACT, RECORD, MemoryVersion, MemoryView, VersionDraft
from langchain_agentmem.rewinding.thread_memory import amending_position
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database

CorrectedKind: TypeAlias = Literal["core", "record", "fact"]
_KEY_LABEL, _PERSON_LABEL = "the key of the value to correct", "the name of the person who corrects"
_COLUMNS = ("label", "importance", "expires_at", "created_at")
"""The columns of a core value or record that a correction stores."""
_FACT_FIELDS = ("role", "subject", "predicate", "object", "start", "end", "sure")
"""The fields of a fact that a correction stores; "sure" is the confidence."""
Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A change that a person made to a value.

    The fields of `before` and `after` depend on the kind:

    - "core": `value`, `importance` and `expires_at`.
    - "record": `content` and `tags`.
    - "fact": `role`, `subject`, `predicate`, `object`, `valid_from`, `valid_to` and `confidence`.

    Attributes:
        id: The id of the correction, unique in the namespace.
        kind: The kind of value: "core", "record" or "fact".
        key: The key of the core value, or the id of the record or fact.
        namespace: The namespace of the value.
        branch: The name of the branch; for a thread that shares no memory, the id of the thread.
        by: The name of the person.
        at: The time of the correction, in UTC.
        before: The previous value; None if the value did not exist.
        after: The corrected value; None if it was deleted.
        undoes: The id of the correction that this one undoes; None if it undoes none.
        thread_id: The id of the thread, if it shares no memory; else None.
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
    """The current value of a key, record or fact.

    Attributes:
        value: The fields of the value, as in a `Correction`; None if the value does not exist.
        version: The version of the value. Pass it as `expected`: the correction then fails if the value has changed.
        at: The time at which this version was written, in UTC; None if the value does not exist.
        source: Its source: "user", "model", "tool", "import" or "person"; None for the application's code.
        actor: The name of the source; None if unknown.
        thread_id: The id of the thread that wrote it; None if it was written on a branch.
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
        namespace: The namespace of the value. Default: that of the current run, else the root.
        branch: The name of the branch. Default: "main", which the threads of a shared namespace read.
        thread_id: The id of a thread that shares no memory; replaces `branch`. The value is corrected at its newest
            checkpoint. Default: None.
    """

    namespace: Sequence[str] | None
    branch: str
    thread_id: str | None


class CorrectionOptions(CorrectionTarget, total=False):
    """The location of the value to correct, the person, and the expected version.

    Attributes:
        namespace: The namespace of the value. Default: that of the current run, else the root.
        branch: The name of the branch. Default: "main", which the threads of a shared namespace read.
        thread_id: The id of a thread that shares no memory; replaces `branch`. The value is corrected at its newest
            checkpoint. Default: None.
        by: The name of the person who corrects the value.
        expected: The expected `version` of the value, as `current` returned it. Default: any.
    """

    by: Required[str]
    expected: str | None


_Edit: TypeAlias = Callable[[LayeredMemory, Transaction, PendingWrite, Any], None]
"""A function that adds the next version of a value to a pending write. The last argument is the current version."""


class Corrections:
    """The corrections of memory by people. Each method has an async twin, prefixed with `a`.

    A correction is a version of a value with the source "person" and the person's name. The history still contains the
    correction after newer versions. If the value or a source of the previous value is erased, so is the correction.

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

        The expiry of the value does not change, and no other value is evicted.

        Args:
            key: The key of the value.
            value: The new value.
            importance: Its importance, from 1 to 5. Default: unchanged; 3 for a new value.
            **options: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or nothing would change.
            Outdated: The current version is not the expected one.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion | None) -> None:
            new = layers.core._check_value(key, value, DEFAULT_IMPORTANCE if importance is None else importance)
            draft = VersionDraft(CORE, new.key, None, change.now, importance=new.importance)
            if old is not None:
                draft = redraft(old, importance=old.importance if importance is None else importance)
            change.drafts.append(draft._replace(body=memory_rows.encode_text(new.value)))

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
            Outdated: The current version is not the expected one.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            clean_content = None if content is None else layers.archival._clean_content(content)
            clean_tags = None if tags is None else layers.archival._clean_tags(tags)
            change.drafts.append(redraft_record(old, clean_content, clean_tags))

        return self._correct(RECORD, record_id, edit, **options)

    arecord = awaited(record, writes=True)

    def fact(self, fact_id: str, /, *, by: str, expected: str | None = None, **changes: Any) -> Correction:
        """Correct a fact. Its earlier values stay in its history, like after `KGMemory.update`.

        Args:
            fact_id: The id of the fact.
            by: The name of the person who corrects it.
            expected: The expected `version` of the value, as `current` returned it. Default: any.
            **changes: The new values: `role`, `subject`, `predicate`, `obj`, `valid_from`, `valid_to` (None: no end)
                and `confidence`. Also `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: A value is wrong, the fact does not exist, or nothing would change.
            Outdated: The current version is not the expected one.
        """
        location = {name: changes.pop(name) for name in ("namespace", "branch", "thread_id") if name in changes}

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            layers._facts_context.changes(tx, change).correct_fact(old, changes)

        return self._correct(FACT, fact_id, edit, by=by, expected=expected, **location)

    afact = awaited(fact, writes=True)

    def delete(self, kind: CorrectedKind, key: str, **options: Unpack[CorrectionOptions]) -> Correction:
        """Delete a value, a record or a fact. The deletion can be undone.

        To remove it permanently, erase it instead.

        Args:
            kind: "core", "record" or "fact".
            key: The key of the core value, or the id of the record or fact.
            **options: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or the value does not exist.
            Outdated: The current version is not the expected one.
        """

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind != FACT:
                change.remove(kind, old.key)
                return
            events = message_sources.effective_events(old.extra["told"])
            statements = [event["n"] for event in events if event["do"] == memory_rows.STATEMENT]
            layers._facts_context.changes(tx, change).toggle_events(old, statements)

        return self._correct(kind, key, edit, **options)

    adelete = awaited(delete, writes=True)

    def undo(self, correction_id: str, *, by: str, namespace: Sequence[str] | None = None) -> Correction:
        """Undo a correction. The undo is itself a correction, and can be undone.

        Args:
            correction_id: The id of the correction.
            by: The name of the person who undoes it.
            namespace: The namespace of the value. Default: that of the current run, else the root.

        Raises:
            InvalidInput: The correction does not exist, or the corrected fact no longer exists.
            Outdated: The value has changed since the correction.
        """
        path = path_of(self._database.scopes.resolve(namespace))
        wanted_id = check_id(correction_id, "correction")
        corrections = self._database.read(None, lambda tx: self._read_corrections(tx, path, path + "\x01"))
        correction = next((each for each in corrections if each.id == wanted_id), None)
        if correction is None:
            raise InvalidInput(f"There is no correction {safe_repr(wanted_id)} in {safe_repr(namespace_of(path))}.")
        kind, key, data = correction.kind, correction.key, correction._data
        previous, expected = data["before"], _hash_fields(data["after"])

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind == FACT:
                layers._facts_context.changes(tx, change).toggle_events(old, data["events"])  # by their numbers
            elif previous is None:
                change.remove(kind, key)
            else:
                columns = {name: previous[name] for name in _COLUMNS}
                columns |= {"body": memory_rows.encode_text(previous["text"]), "extra": previous["extra"] or None}
                change.drafts.append(VersionDraft(kind, key, findable=kind != CORE, **columns))

        options = {"namespace": correction.namespace, "branch": correction.branch, "thread_id": correction.thread_id}
        options |= {"by": by, "expected": expected}
        return self._correct(kind, key, edit, undoes=correction, may_add=kind != FACT, **options)

    aundo = awaited(undo, writes=True)

    # -- reading -----------------------------------------------------------------------------------------------------

    def current(self, kind: CorrectedKind, key: str, **location: Unpack[CorrectionTarget]) -> CurrentValue:
        """Return the current value, with the version to pass to a correction as `expected`.

        Args:
            kind: "core", "record" or "fact".
            key: The key of the core value, or the id of the record or fact.
            **location: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        check_value(CorrectedKind, kind, "kind")
        key = check_name(key, _KEY_LABEL)

        def load(tx: Transaction, view: MemoryView) -> CurrentValue:
            row = memory_rows.load_named(tx, view, kind, [key]).get(key)
            fields = _extract_fields(kind, row)
            value, version = _convert_fields(kind, fields), _hash_fields(fields)
            if row is None or fields is None:
                return CurrentValue(value, version)
            return CurrentValue(value, version, from_micros(row.written_at), row.source, row.actor, row.thread)

        return self._open_memory(**location)._context.read("corrections.current", load, key=key)

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
            kind: "core", "record" or "fact". With `kind` and `key`, only the corrections of this value are listed.
                Default: all corrections in the namespace and in the namespaces below it.
            key: The key of the core value, or the id of the record or fact.
            limit: The maximum number of corrections; None for all. Default: 50.
            offset: The number of newest corrections to skip. Default: 0.
            **location: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`. Without `kind` and `key`, only
                `namespace` has an effect.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if (kind is None) != (key is None):
            raise InvalidInput("history() needs kind and key together, or neither. Pass both, or omit both.")
        max_corrections = parse_limit(limit)
        check_integer("offset", offset)
        low, high = path_range(self._database.scopes.resolve(location.get("namespace"), optional=kind is None))
        filters: dict[str, Any] = {}
        if kind is not None and key is not None:
            thread = location.get("thread_id")
            thread = None if thread is None else check_id(thread, "thread")
            branch = check_id(location.get("branch", MAIN), "branch")
            check_value(CorrectedKind, kind, "kind")
            filters = self._build_filters(low, kind, check_name(key, _KEY_LABEL), branch, thread)
            high = low + "\x01"
        filters |= {"limit": max_corrections, "offset": offset}
        return self._database.read("corrections.history", lambda tx: self._read_corrections(tx, low, high, **filters))

    ahistory = awaited(history)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _open_memory(
        self, namespace: Sequence[str] | None = None, branch: str = MAIN, thread_id: str | None = None
    ) -> LayeredMemory:
        if thread_id is None:
            return LayeredMemory(self._database, check_id(branch, "branch"), namespace=namespace)
        path = path_of(self._database.scopes.resolve(namespace))
        return LayeredMemory(self._database, amending_position(self._database, check_id(thread_id, "thread"), path))

    def _read_corrections(
        self, tx: Transaction, /, low: str, high: str, *, limit: int = NO_LIMIT, offset: int = 0, **filters: str | None
    ) -> list[Correction]:
        """Read the corrections in a range of namespaces, or those of one value, the newest first.

        Raises:
            DatabaseUnreadable: A correction is damaged.
        """
        filters = filters or dict.fromkeys(("kind", "key", "name", "thread"))
        rows = query.corrections_within(tx, low=low, high=high, limit=limit, offset=offset, **filters)
        corrections: list[Correction] = []
        for row in rows:
            # If a thread moved into a shared namespace, its corrections belong to the branch "main" of the namespace.
            is_separate = row["branch_kind"] == "thread" and not self._database.scopes.is_shared(row["path"])
            location = (row["path"], row["kind"], row["key"], row["name"], row["thread"] if is_separate else None)
            try:
                corrections.append(_make_correction(*location, row["written_at"], read_column(row["correction"], dict)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                key = safe_repr(row["key"])
                raise DatabaseUnreadable(f"A correction of {key} is damaged. Restore it from a backup.") from error
        return corrections

    def _build_filters(self, path: str, kind: str, key: str, branch: str, thread: str | None) -> dict[str, Any]:
        """Return the query parameters that select the corrections of one value."""
        if thread is None and branch == MAIN and self._database.scopes.is_shared(path):
            thread = ""  # the query also selects any thread that moved into this namespace
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
        """Write a correction. With `may_add`, the value need not exist."""
        check_value(CorrectedKind, kind, "kind")
        person, expected = check_name(options.pop("by", None), _PERSON_LABEL), options.pop("expected", None)
        layers = self._open_memory(**options)
        key = layers.core._clean_key(key) if kind == CORE else check_name(key, _KEY_LABEL)
        thread, path = get_thread_id(layers._context.point), path_of(layers.namespace)

        def correct(tx: Transaction, change: PendingWrite) -> Correction:
            change.writer = SourceNote("person", person)
            old = memory_rows.load_named(tx, change.view, kind, [key]).get(key)
            before = _extract_fields(kind, old)
            if expected not in (None, _hash_fields(before)):
                raise Outdated
            if old is None and not may_add:
                raise InvalidInput(f"There is no {kind} {safe_repr(key)} here. To correct a thread, pass thread_id.")
            filters = self._build_filters(path, kind, key, layers.name, thread)
            newest = self._read_corrections(tx, path, path + "\x01", limit=1, **filters)
            edit(layers, tx, change, old)
            index = max(i for i, draft in enumerate(change.drafts) if (draft.kind, draft.key) == (kind, key))
            new = change.drafts[index]
            if _hash_fields(_extract_fields(kind, new)) == _hash_fields(before):
                raise InvalidInput(f"The {kind} entry {safe_repr(key)} already has this value. Nothing was changed.")
            old_numbers = {event["n"] for event in _list_events(old)}
            sources = {event["in"] for event in _list_events(old) if event.get("in") is not None}
            sources |= {each for each in (thread, old and old.thread) if each}
            # The value may still contain text from the sources of the previous correction.
            for earlier in (*(each for each in newest if each._data["after"] == before), *([undoes] if undoes else ())):
                sources.update(earlier._data["sources"])
            data = {
                "id": self._database.new_id(),
                "by": person,
                "undoes": undoes and undoes.id,
                "before": before,
                "after": _extract_fields(kind, new),
                "sources": sorted(sources),
                "events": [event.get("of", event["n"]) for event in _list_events(new) if event["n"] not in old_numbers],
            }
            change.drafts[index] = new._replace(correction=data)
            return _make_correction(path, kind, key, layers.name, thread, change.now, data)

        name = "corrections.correct" if undoes is None else "corrections.undo"
        inputs = {"kind": kind, "key": key, "by": person}
        return layers._context.write(name, correct, outputs=lambda new: {"correction_id": new.id}, **inputs)


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
        before=_convert_fields(kind, data["before"]),
        after=_convert_fields(kind, data["after"]),
        thread_id=thread,
        _data=data,
    )


def _list_events(version: MemoryVersion | VersionDraft | None) -> Sequence[Mapping[str, Any]]:
    """Return the events of a fact; empty for other kinds.

    An event has its number "n", its action "do", its conversation "in", and, for an undo, the undone number "of".
    """
    events: Sequence[Mapping[str, Any]] = ((version and version.extra) or {}).get("told", ())
    return events


def _extract_fields(kind: str, version: MemoryVersion | VersionDraft | None) -> Values | None:
    """Return the fields of a value that a correction stores; None if the value does not exist."""
    if version is None or version.body is None:
        return None
    if kind != FACT:
        columns = {name: getattr(version, name) for name in _COLUMNS}
        return {"text": memory_rows.decode_text(version.body), **columns, "extra": dict(version.extra or {})}
    fact = fact_values.compute_state(version.extra or {})
    return None if fact is None else {name: getattr(fact, name) for name in _FACT_FIELDS}


def _convert_fields(kind: str, data: Any) -> Values | None:
    """Convert stored fields to the public form of a value."""
    if data is None:
        return None
    if kind == CORE:
        return {"value": data["text"], "importance": data["importance"], "expires_at": _to_datetime(data["expires_at"])}
    if kind == RECORD:
        return {"content": data["text"], "tags": tuple(data["extra"].get("tags", ()))}
    statement = {name: data[name] for name in ("role", "subject", "predicate", "object")}
    times = {"valid_from": _to_datetime(data["start"]), "valid_to": _to_datetime(data["end"])}
    return {**statement, **times, "confidence": data["sure"]}


def _to_datetime(time: int | None) -> datetime | None:
    return None if time is None else from_micros(time)


def _hash_fields(fields: Any) -> str:
    """Return a digest of the stored fields of a value."""
    return queries.digest(write_plain(fields)).hex()
