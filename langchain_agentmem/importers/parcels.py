"""The content of an import: batches, each written in one operation, and skipped entries."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import TypeAdapter

from langchain_agentmem.base.argument_checks import MemoryLimits, text_given
from langchain_agentmem.base.clock import micros, new_uuid, time_given
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import Namespace, Scopes, ThreadKey, id_of, named, namespace_of, path_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import printable
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.log_entries import entry_of, message_of
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MAIN, BranchPosition, PendingWrite, changed
from langchain_agentmem.rewinding.memory_rows import VersionDraft
from langchain_agentmem.storage import Transaction, is_postgres
from langchain_agentmem.storage.encrypted_database import begins_plain
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.storage.transfer import pages

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

T = TypeVar("T")

Holds: TypeAlias = Literal["messages", "items", "memories", "entries", "checkpoints"]
"""The content of a parcel."""
MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""The errors that reading a malformed value raises. They include `InvalidInput`."""

_TIME = TypeAdapter(datetime)
_SQLALCHEMY_SQLITE = re.compile(r"\Asqlite(\+\w+)?:///")
_SQLALCHEMY_POSTGRES = re.compile(r"\A(postgres(?:ql)?)\+\w+://")
_OF_LANGGRAPH = {"source", "step", "parents", "writes", "thread_id", "run_id", "counters_since_delta_snapshot"}
"""Keys of a checkpoint's metadata that name no owner."""


class ImportTarget(NamedTuple):
    """The destination and the options of an import.

    Attributes:
        kind: The kind of the source, which is recorded as the origin of memories.
        namespace: The parent of all imported namespaces; with keys in braces, as in ("users", "{user_id}"), each
            conversation goes to its owner.
        scopes: The rules by which namespaces share their memory.
        now: The time of objects without their own time, in microseconds since 1970.
        allow: Classes whose objects may be imported.
        only: The ids to import; all if empty.
        met: The ids of `only` found so far.
        owners: The owners of conversations, by the ids of these, if the namespace has a key.
        limits: The limits on the size of files that are read as a whole.
    """

    kind: SourceKind
    namespace: Namespace
    scopes: Scopes
    now: int
    allow: Sequence[str]
    only: frozenset[str]
    met: set[str]
    owners: Mapping[str, str]
    limits: MemoryLimits

    @property
    def keys(self) -> list[str]:
        """The keys of the namespace to fill."""
        return Scopes(template=self.namespace).keys

    def wants(self, *ids: Any) -> bool:
        """Return True if an object with one of these ids is to be imported."""
        met = self.only.intersection(map(str, ids))
        self.met.update(met)
        return bool(met) or not self.only

    def of(self, name: Any, told: Iterable[Mapping[str, Any]] = ()) -> ImportTarget | None:
        """Return the target of a conversation: its owner's, if the namespace has keys.

        Args:
            name: Its id, also used for the keys "thread_id" and "session_id".
            told: Metadata of the source, read only until every key has a value.

        Returns:
            The target; None if the conversation is not wanted.

        Raises:
            InvalidInput: The conversation has no known owner, or the owner's namespace is not valid.
        """
        if not self.keys:
            return self if self.wants(name) else None
        values = {"thread_id": name, "session_id": name}
        if str(name) in self.owners:
            values |= dict.fromkeys(self.keys, self.owners[str(name)])
        has: set[str] = set()
        for each in chain([{}], told):  # which is not read where nothing is missing
            has.update(map(str, each))
            values = {key: each[key] for key in self.keys if each.get(key) is not None} | values
            if values.keys() >= set(self.keys):
                break
        if not self.wants(name, *(values[key] for key in self.keys if key in values)):
            return None
        if missing := [key for key in self.keys if key not in values]:
            others = ", ".join(sorted(map(printable, has - _OF_LANGGRAPH))[:10])
            raise InvalidInput(
                f"nothing says whose it is: it has no {', '.join(missing)}{others and f', but {others}'}. "
                "Name its owner with owners=…, "
                "or to the command: --owners FILE."
            )
        filled = Scopes(template=self.namespace).filled({key: id_of(values[key], key) for key in self.keys})
        return self._replace(namespace=self.scopes.resolve(filled))

    def path(self, *labels: str) -> str:
        """Return the path of a namespace below that of the target.

        Raises:
            InvalidInput: A label is not valid.
        """
        return path_of((*self.namespace, *labels))


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An object that was not imported.

    Attributes:
        what: The name of the object in a report.
        why: The reason.
        count: The number of objects in it.
        holds: The kind of these: "messages", "items" and so on.
    """

    what: str
    why: str
    count: int = 1
    holds: str = "things"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTarget:
    """The id and namespace of a thread or a conversation.

    Attributes:
        id: The id.
        namespace: Its namespace.
    """

    id: str
    namespace: Namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportBatch:
    """Objects that are written in one operation.

    Attributes:
        holds: The kind of the objects.
        what: The name of the batch in a report, such as "the conversation 'a'".
        count: The number of objects.
        store: Writes the new objects, or counts them in a `dry_run`; returns the numbers of new and of existing
            objects. Raises `InvalidInput` if they cannot be stored; then none was.
        place: The thread or conversation of the objects. Default: none.
    """

    holds: Holds
    what: str
    count: int
    store: Callable[..., tuple[int, int]]
    place: ThreadTarget | None = None


Make: TypeAlias = Callable[[Transaction, int], Collection[Any]]
"""Writes objects at a time; returns the new ones."""


def written(holds: Holds, what: str, count: int, path: str, make: Make, name: str | None = None) -> ImportBatch:
    """Return a batch that one operation writes.

    Args:
        holds: See `ImportBatch`.
        what: See `ImportBatch`.
        count: See `ImportBatch`.
        path: The path of the namespace.
        make: The operation.
        name: The conversation of the objects. Default: none.
    """
    place = None if name is None else ThreadTarget(id=name, namespace=namespace_of(path))

    def store(memory: AgentMemory, *, dry_run: bool) -> tuple[int, int]:
        database = memory.database
        now = database.now()

        def operation(tx: Transaction) -> Collection[Any]:
            return make(tx, now)

        if dry_run:
            new = database.engine.rehearse(operation)
        else:
            new = database.write(None, operation)
            if place is not None and new:
                event = partial(MessagesStored, namespace=place.namespace, conversation_id=place.id)
                database.emit(partial(event, message_ids=tuple(new)))
        return len(new), count - len(new)

    return ImportBatch(holds=holds, what=what, count=count, store=store, place=place)


Thing: TypeAlias = ImportBatch | SkippedEntry
Reader: TypeAlias = Callable[[Any, ImportTarget], Generator[Thing]]
"""Opens a source, yields its batches and skipped entries, and closes it."""


def owned(
    to: ImportTarget,
    name: Any,
    what: str,
    count: int,
    build: Callable[[ImportTarget], ImportBatch],
    *,
    told: Iterable[Mapping[str, Any]] = (),
    holds: Holds = "messages",
) -> Iterator[Thing]:
    """Yield the batch of a conversation, or its skipped entry; nothing if it is not wanted.

    Args:
        to: The target of the import.
        name: The id of the conversation.
        what: Its name in a report.
        count: The number of objects in it.
        build: Makes the batch for a target.
        told: Metadata of the source that names the owner, see `ImportTarget.of`.
        holds: The kind of these objects.
    """
    try:
        home = to.of(name, told)
        if home is not None:
            yield build(home)
    except MALFORMED as error:
        yield SkippedEntry(what, why(error), count, holds)


def why(error: BaseException) -> str:
    """Return the text of an error as the reason for a skipped entry."""
    text = str(error) if isinstance(error, InvalidInput) else f"it is malformed ({type(error).__name__}: {error})"
    return " ".join(text.split())[:500]


def whole(name: str, read: Callable[[], T]) -> T:
    """Read from a source, and raise `InvalidInput` if its content is malformed."""
    try:
        return read()
    except InvalidInput:
        raise
    except MALFORMED as error:
        raise InvalidInput(f"{name} cannot be read: {why(error)}.") from error


class StableIds:
    """A generator of ids that are the same each time a source is read."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def given(self, own: Any, *said: Any) -> str:
        """Return the id of the next object.

        Args:
            own: Its own id, with a number appended if it is taken; None for none.
            said: Its content, from which an id is made if it has none.
        """
        text = json.dumps(said, sort_keys=True, default=str)
        name = own if own and isinstance(own, str) else f"imported-{digest(text.encode()).hex()[:32]}"
        self._times[name] += 1
        return name if self._times[name] == 1 else f"{name}-{self._times[name]}"


def conversation(to: ImportTarget, name: Any, entries: Sequence[LogEntry]) -> ImportBatch:
    """Return the batch of a conversation.

    Args:
        to: The target.
        name: Its id.
        entries: Its messages, rounds and posts, in their order.
    """
    at = ThreadKey(to.path(), id_of(name, "conversation"))

    def make(tx: Transaction, now: int) -> Collection[Any]:
        return message_log.append(tx, at, entries, now=now).keys

    return written("messages", f"the conversation {safe_repr(name)}", len(entries), at.path, make, name)


def said(given: Mapping[str, Any], said_at: int) -> LogEntry:
    """Return the log entry of a message.

    Args:
        given: Its role, content, id and so on.
        said_at: Its time, in microseconds since 1970.
    """
    return entry_of(message_of(given, new_id=new_uuid)[0], said_at)


def clean(value: Any, what: str) -> str:
    """Return a text with its secrets redacted.

    Args:
        value: The text.
        what: Its name in errors, such as "A record".

    Raises:
        InvalidInput: The value is no text.
    """
    return redact(text_given(value, what))


def memories(to: ImportTarget, what: str, drafts: Sequence[VersionDraft], *labels: str) -> ImportBatch:
    """Return the batch of memories in a namespace, on its branch "main", seen by its threads.

    Args:
        to: The target.
        what: The name of the batch in a report.
        drafts: The memories.
        *labels: The labels below the namespace of the import.
    """
    at = BranchPosition(to.path(*labels), MAIN, to.scopes)
    add = partial(add_unknown, drafts=drafts)

    def make(tx: Transaction, now: int) -> Collection[Any]:
        return changed(tx, at, add, now, SourceNote("import", to.kind))

    return written("memories", what, len(drafts), at.path, make)


def remembered(
    to: ImportTarget,
    rows: Iterable[T],
    make: Callable[[T], VersionDraft | None],
    name: Callable[[T], str],
    *labels: str,
) -> Iterator[Thing]:
    """Yield rows as batches of memories, one per page; malformed rows are skipped.

    Args:
        to: The target.
        rows: The rows.
        make: Returns the memory of a row; None if the row is not wanted.
        name: Returns the name of a skipped row.
        *labels: The labels below the namespace of the import.
    """
    what = f"memories in {where(to, *labels)}"
    for page in pages(rows):
        drafts: dict[str, VersionDraft] = {}
        for row in page:
            try:
                if (draft := make(row)) is not None:
                    drafts[draft.key] = draft
            except MALFORMED as error:
                yield SkippedEntry(name(row), why(error), holds="memories")
        if drafts:
            try:
                yield memories(to, what, [*drafts.values()], *labels)
            except MALFORMED as error:
                yield SkippedEntry(what, why(error), len(drafts), "memories")


def add_unknown(tx: Transaction, change: PendingWrite, drafts: Sequence[VersionDraft]) -> list[VersionDraft]:
    """Add the drafts whose kind and key are not visible yet to a change, and return them."""
    there = set()
    for kind in {draft.kind for draft in drafts}:
        keys = [draft.key for draft in drafts if draft.kind == kind]
        there |= {(kind, key) for key in memory_rows.named(tx, change.view, kind, keys)}
    given = {(draft.kind, draft.key): draft for draft in drafts}
    new = [draft for name, draft in given.items() if name not in there]
    change.drafts += new
    return new


def where(to: ImportTarget, *labels: str) -> str:
    """Return the name of a namespace for a report."""
    return named((*to.namespace, *labels))


# -- sources -------------------------------------------------------------------------------------------------------


def path_or_url(source: Any) -> Path | str:
    """Return the path of a file or folder, or the URL of a PostgreSQL database.

    Args:
        source: A path, or a URL or connection string; also in the form of SQLAlchemy's URLs.

    Raises:
        InvalidInput: The source is none of these, or the file does not exist.
    """
    text = source if isinstance(source, str) else ""
    if is_postgres(url := _SQLALCHEMY_POSTGRES.sub(r"\1://", text)):
        return url
    path = path_of_file(_SQLALCHEMY_SQLITE.sub("", text) if text else source)
    if not path.exists():
        raise InvalidInput(f"There is no file at {safe_repr(str(path))}.")
    return path


def path_given(source: Any) -> Path:
    """Return the path of a file or folder; errors as for `path_or_url`."""
    path = path_or_url(source)
    if not isinstance(path, Path):
        raise InvalidInput("This kind of source is a file or a folder, and no PostgreSQL database.")
    return path


def is_sqlite(source: Path | str) -> bool:
    """Return True for a SQLite file."""
    return isinstance(source, Path) and source.is_file() and begins_plain(source)


FileReader: TypeAlias = Callable[[Path, str, ImportTarget], Iterator[Thing]]
"""Reads a file, given its name: the path within the folder, without its ending."""


def of_files(path: Path, endings: Sequence[str], read: FileReader, to: ImportTarget) -> Generator[Thing]:
    """Yield the content of a file, or of each file in a folder and below it.

    Unreadable files of a folder are skipped.

    Args:
        path: The file or folder.
        endings: The endings of the files of a folder to read.
        read: Reads a file.
        to: The target.

    Raises:
        InvalidInput: The given file cannot be read, or the folder has no such file.
    """
    if not path.is_dir():
        yield from [*read(path, path.stem, to)]
        return
    files = sorted(each for each in path.rglob("*") if each.suffix.lower() in endings and each.is_file())
    if not files:
        raise InvalidInput(f"In {safe_repr(str(path))} and below it no file ends in {' or '.join(endings)}.")
    for each in files:
        name = each.relative_to(path).with_suffix("").as_posix()
        try:
            yield from [*read(each, name, to)]
        except MALFORMED as error:
            yield SkippedEntry(f"the file {safe_repr(each.name)}", why(error))


def value_of_file(path: Path, limits: MemoryLimits, read: Callable[[str], Any] = json.loads) -> Any:
    """Return the value that a file in UTF-8 contains.

    Args:
        path: The file.
        limits: The limit on its size.
        read: Parses its text. Default: as JSON.

    Raises:
        InvalidInput: The file cannot be read, or is too large.
    """
    limits.check_file(path)
    try:
        return read(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{safe_repr(str(path))} is not UTF-8 (byte {error.start:,}): save it as UTF-8.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{safe_repr(str(path))} cannot be read: {error}.") from error


def json_plain(value: Any) -> Any:
    """Return a value in JSON types; values without a JSON form become texts."""
    return json.loads(json.dumps(value, default=str))


def time_of_file(path: Path) -> int:
    """Return the time of the last change of a file, in microseconds since 1970."""
    return micros(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def time_of(value: Any, otherwise: int) -> int:
    """Return a time as microseconds since 1970. Without a time zone it is taken as UTC.

    Args:
        value: A datetime, ISO 8601, or seconds since 1970.
        otherwise: The result if the value is None or empty.

    Raises:
        InvalidInput: The value is no time in the years 1 to 9999.
    """
    if value is None or value == "":
        return otherwise
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else _TIME.validate_python(value)
        return time_given(given, "A time")
    except ValueError as error:  # pydantic's, too
        raise InvalidInput(f"{safe_repr(value)} is no time in the years 1 to 9999.") from error
