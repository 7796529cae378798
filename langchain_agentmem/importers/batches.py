"""The batches and skipped entries that readers yield, and the functions that all readers use.

In this package, an object is anything that an import writes: a message, an item, a memory, an audit entry or a
checkpoint. A source entry, or entry for short, is an `ImportBatch` or a `SkippedEntry`.
"""

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

from langchain_agentmem.base import namespaces
from langchain_agentmem.base.argument_checks import MemoryLimits, check_text
from langchain_agentmem.base.clock import check_time, new_uuid, to_micros
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.files import check_path
from langchain_agentmem.base.namespaces import Namespace, Scopes, ThreadKey, check_id, namespace_of, path_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import escape_unprintable
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.log_entries import make_entry, parse_message
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MAIN, BranchPosition, PendingWrite, apply_change
from langchain_agentmem.rewinding.memory_rows import VersionDraft
from langchain_agentmem.storage import Transaction, is_postgres
from langchain_agentmem.storage.encrypted_database import is_plain_file
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.storage.transfer import split_pages

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

T = TypeVar("T")

ContentKind: TypeAlias = Literal["messages", "items", "memories", "entries", "checkpoints"]
"""The kinds of objects that a batch may have."""
MALFORMED_ERRORS = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""The errors that a malformed value of a source can cause. They include `InvalidInput`."""

_TIME_ADAPTER = TypeAdapter(datetime)
_SQLALCHEMY_SQLITE = re.compile(r"\Asqlite(\+\w+)?:///")
_SQLALCHEMY_POSTGRES = re.compile(r"\A(postgres(?:ql)?)\+\w+://")
_LANGGRAPH_KEYS = {"source", "step", "parents", "writes", "thread_id", "run_id", "counters_since_delta_snapshot"}
"""Keys of LangGraph in a checkpoint's metadata. They never name the owner of a thread."""


class ImportTarget(NamedTuple):
    """The destination and the options of an import.

    Attributes:
        kind: The kind of the source, which is recorded as the origin of memories.
        namespace: The namespace to import into. It may contain keys in braces, as in ("users", "{user_id}"). Each
            conversation is then imported into the namespace of its owner.
        scopes: The rules by which namespaces share their memory.
        now: The time of objects without their own time, in microseconds since 1970.
        allow: The classes, as "module.Class", whose objects a checkpoint may contain.
        only: The ids of the conversations, threads, users or agents to import. Empty: everything.
        found_ids: The ids of `only` that the source contains. Updated while the source is read.
        owners: The owner of each conversation, by the id of the conversation. Used only if the namespace has a key.
        limits: The limits of the memory. They include the maximum size of a file.
    """

    kind: SourceKind
    namespace: Namespace
    scopes: Scopes
    now: int
    allow: Sequence[str]
    only: frozenset[str]
    found_ids: set[str]
    owners: Mapping[str, str]
    limits: MemoryLimits

    @property
    def keys(self) -> list[str]:
        """The keys of the namespace that have no value yet."""
        return Scopes(template=self.namespace).keys

    def wants(self, *ids: Any) -> bool:
        """Return whether `only` is empty or has one of these ids; record these in `found_ids`."""
        matches = self.only.intersection(map(str, ids))
        self.found_ids.update(matches)
        return bool(matches) or not self.only

    def target_for(self, conversation_id: Any, metadata: Iterable[Mapping[str, Any]] = ()) -> ImportTarget | None:
        """Return the target of a conversation. If the namespace has keys, fill them for its owner.

        Args:
            conversation_id: The id of the conversation. It is also the value of the keys "thread_id" and "session_id".
            metadata: Dictionaries of the source that may contain values of the keys, such as the metadata of
                checkpoints. They are read until every key has a value.

        Returns:
            The target. None if `only` excludes the conversation.

        Raises:
            InvalidInput: The owner of the conversation is unknown, or the owner's namespace is invalid.
        """
        if not self.keys:
            return self if self.wants(conversation_id) else None
        values = {"thread_id": conversation_id, "session_id": conversation_id}
        if str(conversation_id) in self.owners:
            values |= dict.fromkeys(self.keys, self.owners[str(conversation_id)])
        known_keys: set[str] = set()
        for fields in chain([{}], metadata):  # the empty dictionary: metadata is not read if every key has a value
            known_keys.update(map(str, fields))
            values = {key: fields[key] for key in self.keys if fields.get(key) is not None} | values
            if values.keys() >= set(self.keys):
                break
        if not self.wants(conversation_id, *(values[key] for key in self.keys if key in values)):
            return None
        if missing := [key for key in self.keys if key not in values]:
            others = ", ".join(sorted(map(escape_unprintable, known_keys - _LANGGRAPH_KEYS))[:10])
            raise InvalidInput(
                f"its owner is unknown: its metadata has no {', '.join(missing)}{others and f', only {others}'}. "
                "Pass the owners with owners=…, or on the command line with --owners FILE."
            )
        filled = Scopes(template=self.namespace).fill_template({key: check_id(values[key], key) for key in self.keys})
        return self._replace(namespace=self.scopes.resolve(filled))

    def path(self, *labels: str) -> str:
        """Return the path of the namespace, extended by the labels.

        Raises:
            InvalidInput: A label is invalid.
        """
        return path_of((*self.namespace, *labels))


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """One or more objects that were not imported, with the reason.

    Attributes:
        what: The name of the objects in a report, such as "the conversation 'a'".
        why: The reason.
        count: The number of objects. Default: 1.
        holds: The kind of the objects, such as "messages" or "items". Default: "things", for an unknown kind.
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
        namespace: The namespace.
    """

    id: str
    namespace: Namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportBatch:
    """A batch of objects that one call writes.

    Attributes:
        holds: The kind of the objects.
        what: The name of the batch in a report, such as "the conversation 'a'".
        count: The number of objects.
        store: A function that takes the memory and `dry_run`. It writes the new objects, or only counts them in a dry
            run. It returns the numbers of new and of existing objects. It raises `InvalidInput` if an object cannot be
            stored. Then it writes no object of a batch from `make_batch`. Of a batch of checkpoints, the checkpoints
            before the failed one stay written.
        place: The thread or conversation of the objects. Default: None.
    """

    holds: ContentKind
    what: str
    count: int
    store: Callable[..., tuple[int, int]]
    place: ThreadTarget | None = None


WriteOperation: TypeAlias = Callable[[Transaction, int], Collection[Any]]
"""A function of a transaction and its time. It writes objects, and returns one element (an id, if any) per new one."""


def make_batch(
    holds: ContentKind, title: str, count: int, path: str, write: WriteOperation, conversation_id: str | None = None
) -> ImportBatch:
    """Return a batch that is written in one transaction.

    Args:
        holds: The kind of the objects.
        title: The name of the batch in a report, such as "the conversation 'a'".
        count: The number of objects.
        path: The path of the namespace.
        write: The function that writes the objects.
        conversation_id: The id of the conversation of the objects. Default: None.
    """
    place = None if conversation_id is None else ThreadTarget(id=conversation_id, namespace=namespace_of(path))

    def store(memory: AgentMemory, *, dry_run: bool) -> tuple[int, int]:
        database = memory.database
        now = database.now()

        if dry_run:
            new = database.engine.rehearse(lambda tx: write(tx, now))
        else:
            new = database.write(None, lambda tx: write(tx, now))
            if place is not None and new:
                event = partial(MessagesStored, namespace=place.namespace, conversation_id=place.id)
                database.emit(partial(event, message_ids=tuple(new)))
        return len(new), count - len(new)

    return ImportBatch(holds=holds, what=title, count=count, store=store, place=place)


SourceEntry: TypeAlias = ImportBatch | SkippedEntry
Reader: TypeAlias = Callable[[Any, ImportTarget], Generator[SourceEntry]]
"""A generator function that takes a source and the target. It opens the source, yields its entries, and closes it."""


def batch_or_skip(
    target: ImportTarget,
    conversation_id: Any,
    title: str,
    count: int,
    build: Callable[[ImportTarget], ImportBatch],
    *,
    metadata: Iterable[Mapping[str, Any]] = (),
    holds: ContentKind = "messages",
) -> Iterator[SourceEntry]:
    """Yield the batch of a conversation, or a skipped entry if it cannot be imported.

    Nothing is yielded if `ImportTarget.only` excludes the conversation.

    Args:
        target: The target of the import.
        conversation_id: The id of the conversation.
        title: The name of the conversation in a report.
        count: The number of its objects.
        build: A function that takes the target of the conversation and returns the batch.
        metadata: The `metadata` of `ImportTarget.target_for`.
        holds: The kind of the objects.
    """
    try:
        owner_target = target.target_for(conversation_id, metadata)
        if owner_target is not None:
            yield build(owner_target)
    except MALFORMED_ERRORS as error:
        yield SkippedEntry(title, skip_reason(error), count, holds)


def skip_reason(error: BaseException) -> str:
    """Return the text of an error as the reason for a skipped entry."""
    text = str(error) if isinstance(error, InvalidInput) else f"it is malformed ({type(error).__name__}: {error})"
    return " ".join(text.split())[:500]


def read_or_raise(name: str, read: Callable[[], T]) -> T:
    """Read from a source, and raise `InvalidInput` if its content is malformed."""
    try:
        return read()
    except InvalidInput:
        raise
    except MALFORMED_ERRORS as error:
        raise InvalidInput(f"{name} cannot be read: {skip_reason(error)}.") from error


class StableIds:
    """A generator of unique ids for objects. It returns the same ids in each import."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def next_id(self, own_id: Any, *content: Any) -> str:
        """Return the id of the next object. Append a number to an id that was returned before.

        Args:
            own_id: The object's id in the source, or None.
            *content: The object's content. Without `own_id`, the id is a digest of the content.
        """
        text = json.dumps(content, sort_keys=True, default=str)
        base_id = own_id if own_id and isinstance(own_id, str) else f"imported-{digest(text.encode()).hex()[:32]}"
        self._counts[base_id] += 1
        return base_id if self._counts[base_id] == 1 else f"{base_id}-{self._counts[base_id]}"


def conversation_batch(target: ImportTarget, conversation_id: Any, entries: Sequence[LogEntry]) -> ImportBatch:
    """Return the batch of a conversation.

    Args:
        target: The target.
        conversation_id: The id of the conversation.
        entries: The messages, rounds and posts, in their order.
    """
    key = ThreadKey(target.path(), check_id(conversation_id, "conversation"))

    def write(tx: Transaction, now: int) -> Collection[Any]:
        return message_log.append(tx, key, entries, now=now).keys

    return make_batch("messages", f"the conversation {safe_repr(key.name)}", len(entries), key.path, write, key.name)


def log_entry(message: Mapping[str, Any], created_at: int) -> LogEntry:
    """Return the log entry of a message.

    Args:
        message: The fields of the message: role, content, id and so on.
        created_at: The time of the message, in microseconds since 1970.
    """
    return make_entry(parse_message(message, new_id=new_uuid)[0], created_at)


def redact_text(value: Any, label: str) -> str:
    """Return a text with its secrets redacted.

    Args:
        value: The text.
        label: The first words of an error, such as "A record".

    Raises:
        InvalidInput: The value is not text.
    """
    return redact(check_text(value, label))


def memory_batch(target: ImportTarget, title: str, drafts: Sequence[VersionDraft], *labels: str) -> ImportBatch:
    """Return the batch of memories on the branch "main", which a namespace's threads can read.

    Args:
        target: The target.
        title: The name of the batch in a report.
        drafts: The memories.
        *labels: The labels to append to the target's namespace.
    """
    position = BranchPosition(target.path(*labels), MAIN, target.scopes)
    add = partial(add_new_drafts, drafts=drafts)

    def write(tx: Transaction, now: int) -> Collection[Any]:
        return apply_change(tx, position, add, now, SourceNote("import", target.kind))

    return make_batch("memories", title, len(drafts), position.path, write)


def memory_batches(
    target: ImportTarget,
    rows: Iterable[T],
    make_draft: Callable[[T], VersionDraft | None],
    describe_row: Callable[[T], str],
    *labels: str,
) -> Iterator[SourceEntry]:
    """Yield a batch for each page of rows, and a skipped entry for each malformed row.

    Args:
        target: The target.
        rows: The rows.
        make_draft: A function that returns the memory of a row, or None for a row to ignore.
        describe_row: A function that returns the name of a skipped row in a report.
        *labels: The labels to append to the target's namespace.
    """
    title = f"memories in {describe_target(target, *labels)}"
    for page in split_pages(rows):
        drafts: dict[str, VersionDraft] = {}
        for row in page:
            try:
                if (draft := make_draft(row)) is not None:
                    drafts[draft.key] = draft
            except MALFORMED_ERRORS as error:
                yield SkippedEntry(describe_row(row), skip_reason(error), holds="memories")
        if drafts:
            try:
                yield memory_batch(target, title, [*drafts.values()], *labels)
            except MALFORMED_ERRORS as error:
                yield SkippedEntry(title, skip_reason(error), len(drafts), "memories")


def add_new_drafts(tx: Transaction, change: PendingWrite, drafts: Sequence[VersionDraft]) -> list[VersionDraft]:
    """Add to a pending write the drafts whose kind and key do not exist. Return these drafts."""
    existing = set()
    for kind in {draft.kind for draft in drafts}:
        keys = [draft.key for draft in drafts if draft.kind == kind]
        existing |= {(kind, key) for key in memory_rows.load_named(tx, change.view, kind, keys)}
    by_key = {(draft.kind, draft.key): draft for draft in drafts}
    new = [draft for kind_and_key, draft in by_key.items() if kind_and_key not in existing]
    change.drafts += new
    return new


def describe_target(target: ImportTarget, *labels: str) -> str:
    """Return the target's namespace, extended by the labels, as text for a report."""
    return namespaces.format_namespace((*target.namespace, *labels))


# -- sources -------------------------------------------------------------------------------------------------------


def path_or_url(source: Any) -> Path | str:
    """Return the path of a file or folder, or the URL of a PostgreSQL database.

    Args:
        source: A path, a `postgresql://` URL, a connection string, or a SQLAlchemy URL of SQLite or PostgreSQL.

    Raises:
        InvalidInput: The source is none of these, or the file does not exist.
    """
    text = source if isinstance(source, str) else ""
    if is_postgres(url := _SQLALCHEMY_POSTGRES.sub(r"\1://", text)):
        return url
    path = check_path(_SQLALCHEMY_SQLITE.sub("", text) if text else source)
    if not path.exists():
        raise InvalidInput(f"The file {safe_repr(str(path))} does not exist.")
    return path


def parse_path(source: Any) -> Path:
    """Return the path of a file or folder.

    Raises:
        InvalidInput: The source is a PostgreSQL database, is not a path, or does not exist.
    """
    path = path_or_url(source)
    if not isinstance(path, Path):
        raise InvalidInput("This kind of source must be a file or a folder, not a PostgreSQL database.")
    return path


def is_sqlite(source: Path | str) -> bool:
    """Return True for an unencrypted SQLite file."""
    return isinstance(source, Path) and source.is_file() and is_plain_file(source)


FileReader: TypeAlias = Callable[[Path, str, ImportTarget], Iterator[SourceEntry]]
"""A function that takes a file's path, its name and the target. The name is the path in the folder, without suffix."""


def read_files(path: Path, endings: Sequence[str], read: FileReader, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the entries of a file, or of all files in a folder and its subfolders.

    A malformed file in a folder results in a skipped entry.

    Args:
        path: The file or folder.
        endings: The suffixes of the files to read in a folder, such as ".json".
        read: A function that reads a file.
        target: The target.

    Raises:
        InvalidInput: The file cannot be read, or the folder has no file with one of the suffixes.
    """
    if not path.is_dir():
        yield from [*read(path, path.stem, target)]
        return
    files = sorted(each for each in path.rglob("*") if each.suffix.lower() in endings and each.is_file())
    if not files:
        raise InvalidInput(f"The folder {safe_repr(str(path))} has no file that ends in {' or '.join(endings)}.")
    for file in files:
        name = file.relative_to(path).with_suffix("").as_posix()
        try:
            yield from [*read(file, name, target)]  # the list: a file that fails later yields nothing
        except MALFORMED_ERRORS as error:
            yield SkippedEntry(f"the file {safe_repr(file.name)}", skip_reason(error))


def parse_file(path: Path, limits: MemoryLimits, read: Callable[[str], Any] = json.loads) -> Any:
    """Parse a UTF-8 file, and return its value.

    Args:
        path: The file.
        limits: The limits, with the maximum size of a file.
        read: A function that parses the text. Default: `json.loads`.

    Raises:
        InvalidInput: The file cannot be read, or is too large.
    """
    limits.check_file(path)
    try:
        return read(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{safe_repr(str(path))} is not UTF-8 (byte {error.start:,}). Save it as UTF-8.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{safe_repr(str(path))} cannot be read: {str(error).rstrip('.')}.") from error


def to_json_types(value: Any) -> Any:
    """Convert a value to JSON types. Objects that JSON lacks are converted to strings."""
    return json.loads(json.dumps(value, default=str))


def time_of_file(path: Path) -> int:
    """Return the time of the last change of a file, in microseconds since 1970."""
    return to_micros(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def time_of(value: Any, default: int) -> int:
    """Convert a time to microseconds since 1970. A time without a time zone is in UTC.

    Args:
        value: A datetime, a string in ISO 8601, or a number of seconds since 1970. As in pydantic, a number greater
            than 2e10 is in milliseconds.
        default: The result if the value is None or empty.

    Raises:
        InvalidInput: The value is not a time in the years 1 to 9999.
    """
    if value is None or value == "":
        return default
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else _TIME_ADAPTER.validate_python(value)
        return check_time(time, "A time")
    except ValueError as error:  # includes pydantic's ValidationError
        raise InvalidInput(f"{safe_repr(value)} is not a time in the years 1 to 9999.") from error
