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

from langchain_agentmem.base.argument_checks import ALL, check_value, check_whole, limit_given, name_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encoding import read_column, write_plain
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, range_of
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, Outdated, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.layers.layer import USUAL
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import next_version, redraft
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MAIN, PendingWrite, thread_id_of
from langchain_agentmem.rewinding.memory_rows import (
    CORE,
    FACT,
    RECORD,
    SAID,
    MemoryVersion,
    MemoryView,
    VersionDraft,
    body_of,
    text_of,
)
from langchain_agentmem.rewinding.thread_memory import amending
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database

CorrectedKind: TypeAlias = Literal["core", "record", "fact"]
_KEY, _WHO = "the key of what is corrected", "the name of who corrects"
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
    _stored: Values = field(default_factory=dict, repr=False, compare=False)


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
        self, key: str, value: str, *, importance: int | None = None, **how: Unpack[CorrectionOptions]
    ) -> Correction:
        """Correct a value of core memory, or add one.

        Its expiry stays, and no other value is evicted.

        Args:
            key: The key of the value.
            value: The new value.
            importance: From 1 to 5. Default: unchanged; 3 for a new value.
            **how: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or nothing would change.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion | None) -> None:
            setting = layers.core._setting_of(key, value, USUAL if importance is None else importance)
            draft = VersionDraft(CORE, setting.key, None, change.now, importance=setting.importance)
            if old is not None:
                draft = redraft(old, importance=old.importance if importance is None else importance)
            change.drafts.append(draft._replace(body=body_of(setting.value)))

        return self._correcting(CORE, key, edit, adds=True, **how)

    acore = awaited(core, writes=True)

    def record(
        self,
        record_id: str,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        **how: Unpack[CorrectionOptions],
    ) -> Correction:
        """Correct the content or tags of a record of archival memory.

        Args:
            record_id: The id of the record.
            content: Its new content. Default: unchanged.
            tags: Its new tags; an empty list removes all. Default: unchanged.
            **how: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, the record does not exist, or nothing would change.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, _: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            clean = None if content is None else layers.archival._clean(content)
            marks = None if tags is None else layers.archival._marks(tags)
            change.drafts.append(next_version(old, clean, marks))

        return self._correcting(RECORD, record_id, edit, **how)

    arecord = awaited(record, writes=True)

    def fact(self, fact_id: str, /, *, by: str, expected: str | None = None, **changes: Any) -> Correction:
        """Correct a fact. It keeps its earlier values, as after `KGMemory.update`.

        Args:
            fact_id: The id of the fact.
            by: The name of the person who corrects it.
            expected: The `version` that `present` returned for it. Default: any.
            **changes: `role`, `subject`, `predicate`, `obj`, `valid_from`, `valid_to` (None: no end) and
                `confidence`; and `namespace`, and `branch` or `thread_id`, see `CorrectionTarget`.

        Raises:
            InvalidInput: A value is wrong, the fact does not exist, or nothing would change.
            Outdated: The value has another version.
        """
        place = {name: changes.pop(name) for name in ("namespace", "branch", "thread_id") if name in changes}

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            layers._facts_ground.changes(tx, change).correct(old, changes)

        return self._correcting(FACT, fact_id, edit, by=by, expected=expected, **place)

    afact = awaited(fact, writes=True)

    def delete(self, kind: CorrectedKind, key: str, **how: Unpack[CorrectionOptions]) -> Correction:
        """Delete a value, a record or a fact, so that the deletion can be undone.

        To leave no trace, erase it instead.

        Args:
            kind: "core", "record" or "fact".
            key: The key, or the id.
            **how: `by`, `expected`, `namespace`, and `branch` or `thread_id`; see `CorrectionOptions`.

        Raises:
            InvalidInput: An argument is wrong, or the value does not exist.
            Outdated: The value has another version.
        """

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind != FACT:
                change.remove(kind, old.key)
                return
            told = [event["n"] for event in fact_values.counting(old.extra["told"]) if event["do"] == SAID]
            layers._facts_ground.changes(tx, change).switch(old, told)

        return self._correcting(kind, key, edit, **how)

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
        name = id_of(correction_id, "correction")
        every = self._database.read(None, lambda tx: self._stored(tx, path, path + "\x01"))
        made = next((each for each in every if each.id == name), None)
        if made is None:
            raise InvalidInput(f"There is no correction {safe_repr(name)} in {safe_repr(namespace_of(path))}.")
        kind, key, row, expected = made.kind, made.key, made._stored["before"], _version_of(made._stored["after"])

        def edit(layers: LayeredMemory, tx: Transaction, change: PendingWrite, old: MemoryVersion) -> None:
            if kind == FACT:
                layers._facts_ground.changes(tx, change).switch(old, made._stored["events"])
            elif row is None:
                change.remove(kind, key)
            else:
                columns = {name: row[name] for name in _COLUMNS}
                draft = VersionDraft(kind, key, body_of(row["text"]), findable=kind != CORE, **columns)
                change.drafts.append(draft._replace(extra=row["extra"] or None))

        place = {"namespace": made.namespace, "branch": made.branch, "thread_id": made.thread_id}
        return self._correcting(kind, key, edit, undone=made, adds=kind != FACT, by=by, expected=expected, **place)

    aundo = awaited(undo, writes=True)

    # -- reading -----------------------------------------------------------------------------------------------------

    def present(self, kind: CorrectedKind, key: str, **place: Unpack[CorrectionTarget]) -> CurrentValue:
        """Return the present value, with the version to pass to a correction as `expected`.

        Args:
            kind: "core", "record" or "fact".
            key: The key, or the id.
            **place: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        check_value(CorrectedKind, kind, "kind")
        key = name_given(key, _KEY)

        def look(tx: Transaction, view: MemoryView) -> CurrentValue:
            kept = memory_rows.named(tx, view, kind, [key]).get(key)
            row = _row_of(kind, kept)
            if kept is None or row is None:
                return CurrentValue(None, _version_of(None))
            at = moment(kept.written_at)
            return CurrentValue(_shown(kind, row), _version_of(row), at, kept.source, kept.actor, kept.thread)

        return self._layers(**place)._ground.read("corrections.present", look, key=key)

    apresent = awaited(present)

    def history(
        self,
        kind: CorrectedKind | None = None,
        key: str | None = None,
        *,
        limit: int | None = 50,
        offset: int = 0,
        **place: Unpack[CorrectionTarget],
    ) -> list[Correction]:
        """List corrections, the newest first.

        Args:
            kind: "core", "record" or "fact"; with the key, only the corrections of that value. Default: all that
                were made in the namespace and all below it.
            key: The key, or the id.
            limit: The maximum number of corrections; None for all. Default: 50.
            offset: The number of first corrections to omit. Default: 0.
            **place: `namespace`, and `branch` or `thread_id`; see `CorrectionTarget`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if (kind is None) != (key is None):
            raise InvalidInput("Give the kind and the key of what was corrected, or neither.")
        most = limit_given(limit)
        check_whole("offset", offset)
        low, high = range_of(self._database.scopes.resolve(place.get("namespace"), bare=kind is None))
        of: dict[str, Any] = {}
        if kind is not None and key is not None:
            thread = place.get("thread_id")
            thread = None if thread is None else id_of(thread, "thread")
            branch = id_of(place.get("branch", MAIN), "branch")
            of = self._slot(low, check_value(CorrectedKind, kind, "kind"), name_given(key, _KEY), branch, thread)
            high = low + "\x01"
        return self._database.read(
            "corrections.history", lambda tx: self._stored(tx, low, high, limit=most, offset=offset, **of)
        )

    ahistory = awaited(history)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _layers(
        self, namespace: Sequence[str] | None = None, branch: str = MAIN, thread_id: str | None = None
    ) -> LayeredMemory:
        if thread_id is None:
            return LayeredMemory(self._database, id_of(branch, "branch"), namespace=namespace)
        path = path_of(self._database.scopes.resolve(namespace))
        return LayeredMemory(self._database, amending(self._database, id_of(thread_id, "thread"), path))

    def _stored(
        self, tx: Transaction, /, low: str, high: str, *, limit: int = ALL, offset: int = 0, **of: str | None
    ) -> list[Correction]:
        """Read the corrections of some namespaces, or those of one value, the newest first.

        Raises:
            DatabaseUnreadable: One is damaged.
        """
        of = of or dict.fromkeys(("kind", "key", "name", "thread"))
        rows = query.corrections_within(tx, low=low, high=high, limit=limit, offset=offset, **of)
        found: list[Correction] = []
        for row in rows:
            # A thread that has moved into a namespace is corrected on the branch that its threads share.
            is_alone = row["place"] == "thread" and not self._database.scopes.shared(row["path"])
            slot = (row["path"], row["kind"], row["key"], row["name"], row["thread"] if is_alone else None)
            try:
                found.append(_correction(*slot, row["written_at"], read_column(row["correction"], dict)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise DatabaseUnreadable(
                    f"A correction of {safe_repr(row['key'])} is damaged. Restore it from a backup."
                ) from error
        return found

    def _slot(self, path: str, kind: str, key: str, branch: str, thread: str | None) -> dict[str, Any]:
        """Return the query parameters that select the corrections of one value."""
        if thread is None and branch == MAIN and self._database.scopes.shared(path):
            thread = ""  # any thread that has moved here
        return {"kind": kind, "key": key, "name": None if thread else branch, "thread": thread}

    def _correcting(
        self, kind: str, key: str, edit: _Edit, *, undone: Correction | None = None, adds: bool = False, **how: Any
    ) -> Correction:
        """Write a version that is a correction; with `adds` also if there is no present value."""
        check_value(CorrectedKind, kind, "kind")
        who, expected = name_given(how.pop("by", None), _WHO), how.pop("expected", None)
        layers = self._layers(**how)
        key = layers.core._key(key) if kind == CORE else name_given(key, _KEY)
        thread, path = thread_id_of(layers._ground.point), path_of(layers.namespace)

        def make(tx: Transaction, change: PendingWrite) -> Correction:
            change.writer = SourceNote("person", who)
            old = memory_rows.named(tx, change.view, kind, [key]).get(key)
            before = _row_of(kind, old)
            if expected not in (None, _version_of(before)):
                raise Outdated
            if old is None and not adds:
                raise InvalidInput(
                    f"There is no {kind} {safe_repr(key)} here. What is a thread's that shares nothing with others is "
                    "named by thread_id."
                )
            last = self._stored(tx, path, path + "\x01", limit=1, **self._slot(path, kind, key, layers.name, thread))
            edit(layers, tx, change, old)
            number = max(n for n, draft in enumerate(change.drafts) if (draft.kind, draft.key) == (kind, key))
            new = change.drafts[number]
            if _version_of(_row_of(kind, new)) == _version_of(before):
                raise InvalidInput("It says so already: nothing was changed.")
            known = {event["n"] for event in _events_of(old)}
            sources = {event["in"] for event in _events_of(old) if event.get("in") is not None}
            sources |= {each for each in (thread, old and old.thread) if each}
            # A correction may still contain words from the sources of its predecessor.
            for made in (*(each for each in last if each._stored["after"] == before), *([undone] if undone else ())):
                sources.update(made._stored["sources"])
            told = {
                "id": self._database.new_id(),
                "by": who,
                "undoes": undone and undone.id,
                "before": before,
                "after": _row_of(kind, new),
                "sources": sorted(sources),
                "events": [event.get("of", event["n"]) for event in _events_of(new) if event["n"] not in known],
            }
            change.drafts[number] = new._replace(correction=told)
            return _correction(path, kind, key, layers.name, thread, change.now, told)

        name = "corrections.correct" if undone is None else "corrections.undo"
        shown = {"kind": kind, "key": key, "by": who}
        return layers._ground.write(name, make, outputs=lambda made: {"correction_id": made.id}, **shown)


def _correction(
    path: str, kind: str, key: str, name: str | None, thread: str | None, at: int, told: dict[str, Any]
) -> Correction:
    return Correction(
        **{field: told[field] for field in ("id", "by", "undoes")},
        kind=kind,
        key=key,
        namespace=namespace_of(path),
        branch=thread or name or MAIN,
        at=moment(at),
        before=_shown(kind, told["before"]),
        after=_shown(kind, told["after"]),
        thread_id=thread,
        _stored=told,
    )


def _events_of(version: MemoryVersion | VersionDraft | None) -> Sequence[Mapping[str, Any]]:
    """Return the events of a fact; nothing for other kinds."""
    events: Sequence[Mapping[str, Any]] = ((version and version.extra) or {}).get("told", ())
    return events


def _row_of(kind: str, given: MemoryVersion | VersionDraft | None) -> Values | None:
    """Return the fields that a correction stores of a value; None if it does not exist."""
    if given is None or given.body is None:
        return None
    if kind != FACT:
        columns = {name: getattr(given, name) for name in _COLUMNS}
        return {"text": text_of(given.body), **columns, "extra": dict(given.extra or {})}
    known = fact_values.state(given.extra or {})
    return None if known is None else {name: getattr(known, name) for name in _FACT_FIELDS}


def _shown(kind: str, row: Any) -> Values | None:
    """Return a value in the form that users see."""
    if row is None:
        return None
    if kind == CORE:
        return {"value": row["text"], "importance": row["importance"], "expires_at": _moment(row["expires_at"])}
    if kind == RECORD:
        return {"content": row["text"], "tags": tuple(row["extra"].get("tags", ()))}
    named = {name: row[name] for name in ("role", "subject", "predicate", "object")}
    times = {"valid_from": _moment(row["start"]), "valid_to": _moment(row["end"])}
    return {**named, **times, "confidence": row["sure"]}


def _moment(time: int | None) -> datetime | None:
    return None if time is None else moment(time)


def _version_of(row: Any) -> str:
    """Return a digest of a value."""
    return queries.digest(write_plain(row)).hex()
