"""Corrections as they are kept, and as a feature (`PART`).

Of core memory, records and facts a correction holds what was there before and after. Of a message it holds the digests
of its versions, which the log keeps: so what is removed from a conversation stays nowhere. Each names the threads and
conversations from which came what it replaced, however often it was corrected before, and is erased with any of them.
Those of a fact go with a message that told it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_agentmem.base.argument_checks import name_given
from langchain_agentmem.base.clock import is_time
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import id_of, namespace_of, of_thread, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import CORE, FACT, RECORD
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.part import Erasure, Import, Part, Record, WriteRecord
from langchain_agentmem.storage.steps import Row

MESSAGE = "message"
CorrectedKind: TypeAlias = Literal["core", "record", "fact", "message"]
KINDS = (CORE, RECORD, FACT, MESSAGE)
"""What can be corrected."""
CORRECTIONS = "corrections"
PERSON = "person"
"""Where what is corrected comes from, see `Writer`."""
PAGE = 100
"""Rows that go through memory together."""


class KeptCorrection(NamedTuple):
    """A correction as it is kept.

    Attributes:
        path: The path of the namespace.
        id: Its id, one of its own in the namespace.
        kind: What was corrected, one of `KINDS`.
        name: The branch; of a message the conversation; of what is a thread's alone `of_thread` of its id.
        key: The key or id of what was corrected.
        actor: Who corrected it.
        undoes: The correction that this one takes back.
        created_at: When, in microseconds since 1970.
        before: What was there, as plain values; None where nothing was.
        after: What is there since.
        sources: The threads and conversations from which came what was there.
        events: Of a fact, the numbers of those of its events that an undoing switches.
    """

    path: str
    id: str
    kind: str
    name: str
    key: str
    actor: str
    undoes: str | None
    created_at: int
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    sources: Sequence[str] = ()
    events: Sequence[int] = ()

    @property
    def thread(self) -> str | None:
        """The thread, where what was corrected is that thread's alone."""
        return self.name.removeprefix(_THREAD) if self.name.startswith(_THREAD) else None


_THREAD = of_thread("")


_BODY = ("before", "after", "sources", "events")
_COLUMNS = ("kind", "name", "key", "actor", "undoes", "created_at")


def add(correction: KeptCorrection) -> Steps[bool]:
    """Keep a correction. Returns whether it was not there."""
    row = {name: getattr(correction, name) for name in _COLUMNS}
    body = write_plain({name: getattr(correction, name) for name in _BODY})
    namespace = yield from queries.number_of(correction.path)
    return bool((yield query.add_correction(namespace=namespace, correction_id=correction.id, body=body, **row)))


def find(path: str, correction_id: str) -> Steps[KeptCorrection | None]:
    """A correction by its id."""
    rows = yield query.find_correction(path=path, correction_id=correction_id)
    return sound(rows[0]) if rows else None


def within(low: str, high: str, *, limit: int, offset: int) -> Steps[list[KeptCorrection]]:
    """The corrections in a range of paths, the newest first."""
    return [sound(row) for row in (yield query.corrections_within(low=low, high=high, limit=limit, offset=offset))]


def of_one(path: str, kind: str, name: str, key: str, *, limit: int, offset: int) -> Steps[list[KeptCorrection]]:
    """The corrections of one thing, the newest first."""
    rows = yield query.corrections_of(path=path, kind=kind, name=name, key=key, limit=limit, offset=offset)
    return [sound(row) for row in rows]


def version_of_message(path: str, name: str, key: str, version: Mapping[str, Any] | None) -> Steps[bytes | None]:
    """The body of a version of a message; None where that is not kept any more.

    Args:
        path: The path of the namespace.
        name: The conversation.
        key: The id of the message.
        version: What a correction holds of it.
    """
    if version is None:
        return None
    digest = bytes.fromhex(version["digest"])
    rows = yield query.message_version(path=path, name=name, key=key, hash=digest)
    return bytes(rows[0]["body"]) if rows else None


def sound(row: Row) -> KeptCorrection:
    """The correction that a row is.

    Raises:
        DatabaseUnreadable: It is damaged.
    """
    try:
        told = {name: row[name] for name in _COLUMNS} | read_plain(bytes(row["body"]))
        return _checked(row["path"], told | {"id": row["correction_id"]})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DatabaseUnreadable(
            f"The correction {safe_repr(row['correction_id'])} is damaged: {error} Restore it from a backup."
        ) from error


def _checked(path: str, told: Mapping[str, Any]) -> KeptCorrection:
    """A correction, of a row or a record.

    Raises:
        InvalidInput: It cannot be one.
        KeyError: Something is missing.
        TypeError: Something is of another type.
    """
    found = KeptCorrection(
        path,
        id_of(told["id"], "correction"),
        told["kind"],
        _name_of(told["name"]),
        name_given(told["key"], "the key of what is corrected"),
        name_given(told["actor"], "who corrects it"),
        None if told["undoes"] is None else id_of(told["undoes"], "correction"),
        told["created_at"],
        _held(told["kind"], told["before"]),
        _held(told["kind"], told["after"]),
        tuple(id_of(each, "thread") for each in told["sources"]),
        tuple(map(int, told["events"])),
    )
    if not is_time(found.created_at):
        raise InvalidInput(f"{safe_repr(found.created_at)} is not a time.")
    return found


_MAYBE_WHOLE = int | None
_ROW = {"text": str, "label": str | None, "importance": _MAYBE_WHOLE, "expires_at": _MAYBE_WHOLE, "created_at": int,
        "extra": dict}  # fmt: skip
_FORMS: Mapping[str, Mapping[str, Any]] = {
    CORE: _ROW,
    RECORD: _ROW,
    FACT: {"role": str, "subject": str, "predicate": str, "object": str, "start": int, "end": _MAYBE_WHOLE,
           "sure": float | None},
    MESSAGE: {"digest": str},
}  # fmt: skip
"""What a correction holds of each kind, and of which types."""


def _name_of(name: str) -> str:
    """The name of a branch or a conversation, or what stands for a thread.

    Raises:
        InvalidInput: It cannot be one.
    """
    return name[: name.startswith(_THREAD)] + id_of(name.removeprefix(_THREAD), "branch")


def _held(kind: str, given: Any) -> Mapping[str, Any] | None:
    """What was there before a correction, or after."""
    if given is None:
        return None
    form = _FORMS[kind]
    if given.keys() != form.keys() or not all(isinstance(given[name], form[name]) for name in form):
        raise InvalidInput(f"It holds what is no {kind}: {safe_repr(given)}.")
    bytes.fromhex(given.get("digest", ""))
    return dict(given)


def rows_of(path: str) -> Steps[list[Row]]:
    """The rows of a namespace, in the order in which they were made."""
    rows: list[Row] = []
    after = -1
    while page := (yield query.corrections_after(path=path, after=after, limit=PAGE)):
        rows += page
        after = page[-1]["id"]
    return rows


def _erase(erasure: Erasure) -> Steps[None]:
    """Delete corrections; with an id those of what came from there, and with a thread what they left there of it."""
    for held in (yield query.corrected_namespaces(low=erasure.low, high=erasure.high)):
        rows = yield from rows_of(held["path"])
        gone = [row for row in rows if erasure.name is None or erasure.name in _sources_left(row)]
        yield from _drop(held["path"], gone, take_back=erasure.name is not None and erasure.threads)
        erasure.removed["corrections"] += len(gone)


def _forget(path: str, name: str) -> Steps[None]:
    """Delete the corrections that hold words of a thread of which nothing is kept, and what people restored of it."""
    rows = yield from rows_of(path)
    yield from _drop(path, [row for row in rows if name in _sources_left(row)], take_back=True)


def _drop(path: str, rows: Sequence[Row], *, take_back: bool) -> Steps[None]:
    if take_back:
        yield from _take_back(rows)
    if rows:
        yield query.delete_correction.many([{"id": row["id"]} for row in rows])
        yield query.delete_empty_namespaces(path=path)


def _take_back(rows: Sequence[Row]) -> Steps[None]:
    """Have what people restored, or left as it was, be gone where it is there still: somebody else had said it."""
    said: set[tuple[str, str, str, str, str]] = set()
    own = set(said)
    for made in map(sound, rows):
        texts = [None if held is None else held.get("text") for held in (made.before, made.after)]
        said |= {(made.path, made.name, made.kind, made.key, text) for text in texts if text is not None}
        if made.undoes is None and texts[1] is not None and texts[0] != texts[1]:
            own.add((made.path, made.name, made.kind, made.key, texts[1]))
    for path, name, kind, key, text in sorted(said - own):
        digest = queries.digest(memory_rows.body_of(text))
        yield from memory_rows.bury(
            (yield query.memory_saying(path=path, name=name, kind=kind, key=key, hash=digest, source=PERSON))
        )


def _dump(write: WriteRecord, low: str, high: str) -> Steps[Mapping[str, int]]:
    dumped = 0
    for held in (yield query.corrected_namespaces(low=low, high=high)):
        found = sorted(map(sound, (yield from rows_of(held["path"]))), key=_owner)
        for owner, some in groupby(found, key=_owner):
            head = {"record": CORRECTIONS, "namespace": namespace_of(held["path"])}
            write(head | ({"id": owner} if owner else {}))
            for each in some:
                told = each._asdict()
                del told["path"]
                write({"record": "correction", **told})
        dumped += len(found)
    return {CORRECTIONS: dumped}


def _owner(correction: KeptCorrection) -> str:
    """The conversation or thread that it belongs to; "" for the namespace."""
    return correction.name if correction.kind == MESSAGE else correction.thread or ""


def _sources_left(row: Row) -> Sequence[str]:
    """The sources of a correction that may be damaged, as far as they can be read."""
    try:
        return sound(row).sources
    except DatabaseUnreadable:
        return ()


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    path = path_of(head.get("namespace"))
    for record in records:
        try:
            correction = _checked(path, record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"A record of a correction is damaged: {safe_repr(error)}.") from error
        into.added[CORRECTIONS] += int((yield from add(correction)))


def _verify() -> Steps[list[str]]:
    """What is wrong with any row, in sentences."""
    found: list[str] = []
    low, high = range_of(())
    for held in (yield query.corrected_namespaces(low=low, high=high)):
        for row in (yield from rows_of(held["path"])):
            try:
                sound(row)
            except DatabaseUnreadable as error:
                found.append(str(error))
    return found


PART = Part(
    tables={CORRECTIONS: ("correction",)},
    verify={CORRECTIONS: _verify},
    erase=_erase,
    forget=_forget,
    records={CORRECTIONS: {"correction"}},
    dump=_dump,
    load=_load,
)
