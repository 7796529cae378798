"""A whole database is copied into another place, of the same engine or of the other one.

Rows are copied as they are, table by table, in portions, each of which is one transaction. So a copy holds what its
source holds, numbers, vectors and jobs included; the index of words, which each engine makes for itself, is
made anew. All is read as of one moment. The copy is made beside its place, in a file or schema of another name, and
takes its place when it is whole, and every row of it was read again and found equal. Where something is stored already,
it is only looked whether that is the whole copy.

An interruption, of whatever kind, leaves what was made so far. Who begins again walks through both sides: rows that are
there already are only compared, and those that have changed in the source meanwhile are brought up to date.

`restore` makes a database of a backup or an export. It is made beside its place, or, for a PostgreSQL database, in a
file of its own that is copied there. So what is not whole is refused, and leaves what is there as it was.

`prune` removes what is old, or makes it smaller: checkpoints, messages, entries of the audit trail. Each thread,
conversation and page is a transaction of its own, so that nobody waits for long. A rehearsal does the same in
transactions that are taken back, so that what it tells is exact. Notes on prompts that are too old go with whatever is
pruned.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike, key_in_environment
from langchain_agentmem.base.events import Progress, Watch, listener_given
from langchain_agentmem.base.files import is_database, path_of_file
from langchain_agentmem.base.limits import MEASURED_BEFORE
from langchain_agentmem.base.namespaces import Namespace, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.errors import DatabaseBusy, DatabaseReadOnly, DatabaseUnreadable, InvalidInput, StorageError
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import Engine, Opening, Operation, Transaction, is_postgres, name_of, open_engine, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.encrypted_database import RekeyReport, begins_plain, rewrite
from langchain_agentmem.storage.part import Import, all_parts
from langchain_agentmem.storage.sqlite import APPLICATION_ID, SqliteEngine
from langchain_agentmem.storage.table_copy import (
    ALWAYS,
    TABLES,
    CopyPlace,
    Occupied,
    Reader,
    SqlitePlace,
    TableShape,
    Values,
    Writer,
    copied_file,
    reading,
    writing,
)
from langchain_agentmem.upkeep import export, integrity

if TYPE_CHECKING:
    from langchain_agentmem.threads.thread_lines import ThreadAt

__all__ = ["CopyReport", "copy", "place_of"]

PORTION_ROWS = 2_000
PORTION_BYTES = 4 * 2**20
"""A portion is complete when it has so many rows, or so many bytes of texts and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a copy holds.

    Attributes:
        source: What was copied.
        target: Where it is.
        taken_at: As of when. What is written to the source later is not in the copy.
        rows: How many rows each table has, on both sides.
        digest: A BLAKE2b-160 over every row, the same on both sides, in hexadecimal.
        known: How many rows an interrupted copy had left, and are as they were.
        documents: How many documents can be found.
        was_complete: Whether everything was there already, so that nothing was written.
    """

    source: str
    target: str
    taken_at: datetime
    rows: Mapping[str, int] = field(default_factory=dict)
    digest: str
    known: int = 0
    documents: int = 0
    was_complete: bool = False


def place_of(target: str | os.PathLike[str], key: EncryptionKey | None = None) -> CopyPlace:
    """Where a copy goes.

    Args:
        target: The path of a file, or the URL or connection string of a PostgreSQL database.
        key: What encrypts the file. Default: the key in the environment, if any.

    Raises:
        InvalidInput: It is neither.
    """
    name = name_of(target)
    if is_postgres(name):
        from langchain_agentmem.storage.postgres_copy import PostgresPlace  # noqa: PLC0415 - an extra

        return PostgresPlace(name)
    return SqlitePlace(name, key)


def copy(
    source: Engine, target: str, *, force: bool = False, progress: Watch | None = None, key: EncryptionKey | None = None
) -> CopyReport:
    """Copy a whole database.

    Args:
        source: What is copied. It may be written to meanwhile.
        target: Where to: the path of a file or a `postgresql://` URL, where nothing is stored yet, or the whole copy.
        force: Whether what is stored there is replaced.
        progress: Is told how far it has come. What it raises ends the copy.
        key: What encrypts a SQLite file. Default: the key of the source, if it has one, or of the environment.

    Raises:
        InvalidInput: Something else is stored there, it is the source itself, or it cannot store a value.
        StorageError: A database failed, or the source is damaged. What was copied is kept: the same call goes on.
    """
    if is_postgres(target):
        opening = Opening(key=key)
    else:
        own = source.cipher if isinstance(source, SqliteEngine) else None
        opening = Opening(key=key if key is not None or own is None else own.key)
    place = place_of(target, opening.key)
    if place.is_of(source):
        raise InvalidInput(f"{safe_repr(place.name)} is the database itself. Copy it to another place.")
    try:
        place.check(force=check_flag("force", force))
    except Occupied:
        with contextlib.closing(open_engine(target, opening)) as held:
            complete = _compared(source, place, held, progress)
        if complete is None:
            raise
        return complete
    with place.alone():
        try:
            made = _made(source, place, progress)
        except _NotOne:  # what is there cannot be brought up to date
            place.drop()
            made = _made(source, place, progress)
        place.take(force=force)
    return made


class _NotOne(StorageError):
    """What an interrupted copy left is in the way of what there is now."""


class _Telling:
    """Counts what was done."""

    def __init__(self, progress: Watch | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def more(self, doing: str, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(Progress(doing, min(self._done, self._total), self._total))


class _Filled(NamedTuple):
    rows: int
    known: int
    changed: int
    digest: bytes


def _made(source: Engine, place: CopyPlace, progress: Watch | None) -> CopyReport:
    with contextlib.closing(place.open()) as made:
        rows: dict[str, int] = {}
        known = changed = 0
        seen: dict[TableShape, bytes] = {}
        with reading(source) as theirs:
            taken_at = datetime.now(UTC)
            counts = {table.name: theirs.count(table) for table in TABLES}
            telling = _Telling(progress, 2 * sum(counts.values()) + counts["search_document"])
            try:
                with reading(made) as ours:
                    shapes = [theirs.shape(table) for table in TABLES]
                    filled = any(ours.count(table) for table in TABLES if table.name not in ALWAYS)
                    if filled:  # rows that are no longer there go first, the last tables before
                        changed += sum(_cleared(theirs, ours, made, shape) for shape in reversed(shapes))
                for shape in shapes:
                    with reading(made) as ours, writing(made) as into:
                        result = _filled(theirs, ours, into, shape, telling)
                    rows[shape.table.name], seen[shape] = result.rows, result.digest
                    known += result.known
                    changed += result.changed
            except InvalidInput:
                raise
            except StorageError as error:
                if filled and "constraint" in str(error).lower():
                    raise _NotOne from error
                raise
            numbers = theirs.numbers()
        with writing(made) as into:
            into.go_on_after(numbers)
        with reading(made) as ours:
            for shape, digest in seen.items():
                if _digest(ours, shape, telling) != digest:
                    raise StorageError(
                        f"The table {shape.table.name} of {safe_repr(place.name)} is not as it was written."
                    )
        documents = _indexed(made, telling, anew=bool(filled and changed))
        _settle(made)  # an engine that lets nothing wait would not look for it
        if problems := made.read(search_index.problems):
            raise StorageError(f"The copy at {safe_repr(place.name)} is not whole: {problems[0]}.")
    return CopyReport(
        source=source.path,
        target=place.name,
        taken_at=taken_at,
        rows=rows,
        digest=_digest_of_all(seen),
        known=known if filled else 0,
        documents=documents,
    )


def _compared(source: Engine, place: CopyPlace, held: Engine, progress: Watch | None) -> CopyReport | None:
    """Tell of a copy that is complete; None where anything differs."""
    with contextlib.suppress(DatabaseReadOnly):
        _settle(source)  # what waits there had entered the indexes of the copy
    with reading(source) as theirs, reading(held) as ours:
        taken_at = datetime.now(UTC)
        rows = {table.name: theirs.count(table) for table in TABLES}
        shapes = [theirs.shape(table) for table in TABLES]
        if any(rows[shape.table.name] != ours.count(shape.table) for shape in shapes):
            return None
        telling = _Telling(progress, sum(rows.values()))
        seen = {}
        for shape in shapes:
            seen[shape] = _digest(theirs, shape, telling)
            if _digest(ours, shape, _Telling(None, 0)) != seen[shape]:
                return None
    return CopyReport(
        source=source.path,
        target=place.name,
        taken_at=taken_at,
        rows=rows,
        digest=_digest_of_all(seen),
        known=sum(rows.values()),
        documents=rows["search_document"],
        was_complete=True,
    )


def _settle(engine: Engine) -> None:
    """Enter in the index what waits for it."""
    for part in all_parts().all:
        if part.unsettled is not None and part.settle is not None and engine.read(part.unsettled):
            engine.write(part.settle)


def _digest_of_all(seen: Mapping[TableShape, bytes]) -> str:
    return hashlib.blake2b(b"".join(seen.values()), digest_size=20).hexdigest()


def _cleared(theirs: Reader, ours: Reader, made: Engine, shape: TableShape) -> int:
    """Delete what the source has no more, the last rows first: those that refer to others of their table come later."""
    rows = _merged(theirs.rows(shape), ours.rows(shape), shape)
    keys = [shape.key(our) for their, our in rows if their is None and our is not None][::-1]
    for start in range(0, len(keys), PORTION_ROWS):
        with writing(made) as into:
            into.remove(shape, keys[start : start + PORTION_ROWS])
    return len(keys)


def _filled(theirs: Reader, ours: Reader, into: Writer, shape: TableShape, telling: _Telling) -> _Filled:
    """Copy a table."""
    count = known = altered = size = told = 0
    new: list[Values] = []
    changed: list[Values] = []
    digest = hashlib.blake2b(digest_size=20)
    for their, our in _merged(theirs.rows(shape), ours.rows(shape), shape):
        if their is None:
            continue
        count += 1
        digest.update(_bytes(their))
        if their == our:
            known += 1
        else:
            (new if our is None else changed).append(their)
            size += sum(len(value) for value in their if isinstance(value, str | bytes))
        if len(new) + len(changed) >= PORTION_ROWS or size >= PORTION_BYTES or count - told >= PORTION_ROWS:
            if new or changed:
                into.put(shape, new, changed)
            altered += len(new) + len(changed)
            telling.more("copying", count - told)
            new, changed, size, told = [], [], 0, count
    if new or changed:
        into.put(shape, new, changed)
        altered += len(new) + len(changed)
    telling.more("copying", count - told)
    return _Filled(count, known, altered, digest.digest())


def _digest(rows: Reader, shape: TableShape, telling: _Telling) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    count = 0
    for row in rows.rows(shape):
        digest.update(_bytes(row))
        count += 1
        if count % PORTION_ROWS == 0:
            telling.more("checking", PORTION_ROWS)
    telling.more("checking", count % PORTION_ROWS)
    return digest.digest()


def _bytes(row: Values) -> bytes:
    """A row as it is digested: as Python writes numbers, texts and bytes, the same for both engines."""
    return repr(row).encode("utf-8", "surrogatepass")


def _indexed(made: Engine, telling: _Telling, *, anew: bool) -> int:
    """Index what can be found, from where an interrupted copy was; and how many documents there are."""
    from langchain_agentmem.search import vectors  # noqa: PLC0415 - who needs it pays

    if anew:
        made.write(search_index.emptied)
        made.write(vectors.server_side_emptied)
    after: int | None = made.read(search_index.last_indexed)
    while after is not None:
        try:
            indexed, after = made.write(partial(search_index.anew, texts=all_parts().texts, after=after))
        except InvalidInput as error:
            raise DatabaseUnreadable(f"The source is damaged (see what `verify` says of it): {error}") from error
        telling.more("indexing", indexed)
    beside: int | None = made.write(vectors.begin_server_side)
    while beside is not None:
        beside = made.write(partial(vectors.server_side, after=beside))
    return made.read(search_index.counted)


def _merged(
    theirs: Iterator[Values], ours: Iterator[Values], shape: TableShape
) -> Iterator[tuple[Values | None, Values | None]]:
    """The rows of both sides with the same keys, one of them None where a side has none."""
    their, our = next(theirs, None), next(ours, None)
    while their is not None or our is not None:
        if our is None or (their is not None and shape.key(their) < shape.key(our)):
            yield their, None
            their = next(theirs, None)
        elif their is None or shape.key(our) < shape.key(their):
            yield None, our
            our = next(ours, None)
        else:
            yield their, our
            their, our = next(theirs, None), next(ours, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was restored.

    Attributes:
        source: The file.
        kind: What it is: "database" or "export".
        target: Where it was restored.
        checked: How much was looked at, by name, as `verify` tells it.
    """

    source: str
    kind: str
    target: str
    checked: Mapping[str, int] = field(default_factory=dict)


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Watch | None = None,
    key: KeyLike | None = None,
) -> RestoreReport:
    """Make a database of a backup or an export.

    Args:
        source: The file that `backup` or `export` wrote. It is only read.
        target: Where to: a path or a `postgresql://` URL, where nothing is stored yet.
        force: Whether what is stored there is replaced.
        progress: Is told how far it has come.
        key: The key of the file, and of the SQLite database that is made: of an encrypted backup or export, or of a
            plain export that becomes an encrypted database. Default: the key in the environment, if any.

    Raises:
        InvalidInput: The file is missing or of another kind, or something is stored at the target.
        StorageError: What was restored is not whole, or a database failed. The target is as it was.
    """
    key = EncryptionKey.of(key) or key_in_environment()
    listener_given(progress, "progress")
    file, name = path_of_file(source), name_of(target)
    if not file.is_file():
        raise InvalidInput(f"There is no backup at {safe_repr(str(file))}.")
    if not is_postgres(name) and Path(name).exists() and file.samefile(name):
        raise InvalidInput(f"{safe_repr(name)} is the backup itself. Restore it to another place.")
    kind = "database" if is_database(file) else "export"
    if kind == "database" and key is not None and begins_plain(file):
        raise InvalidInput(
            f"{safe_repr(str(file))} is not encrypted. Restore it without a key, and encrypt what was restored: "
            "agentmem key DATABASE encrypt."
        )
    place = place_of(name, None if is_postgres(name) else key)
    place.check(force=check_flag("force", force))
    if is_postgres(name):
        with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
            made = Path(folder) / "restored.db"
            checked = _checked_database(file, kind, made, progress, key)
            with contextlib.closing(Database(made, opening=Opening(key=key))) as database:
                copy(database.engine, name, force=force, progress=progress)
    else:
        with place.alone():
            place.drop()
            try:
                checked = _checked_database(file, kind, Path(f"{name}.copying"), progress, key)
                place.take(force=force)
            finally:
                place.drop()
    return RestoreReport(source=str(file), kind=kind, target=place.name, checked=checked)


def _checked_database(
    file: Path, kind: str, place: Path, progress: Watch | None, key: EncryptionKey | None
) -> Mapping[str, int]:
    """Make the database, and check it."""
    if kind == "database":
        copied_file(file, place, key)
    with contextlib.closing(Database(place, opening=Opening(key=key, limits=MEASURED_BEFORE))) as database:
        if kind == "export":
            into = Import(now=database.now(), tail=database.tail, limits=MEASURED_BEFORE)
            database.write(None, lambda tx: export.load(tx, file, into, progress=progress, key=key))
        report = integrity.verify(database.engine, progress)
    if not report.ok:
        more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        raise DatabaseUnreadable(
            f"{safe_repr(str(file))} is damaged, and was not restored: {report.problems[0]}{more}."
        )
    return report.checked


def rekey(
    path: str | os.PathLike[str],
    *,
    key: KeyLike | None = None,
    new_key: KeyLike | None = None,
    progress: Watch | None = None,
) -> RekeyReport:
    """Encrypt a SQLite database, give it another key, or decrypt it.

    It is written into a new file under the new key, read again and compared row by row, and only then takes the place
    of the old one; whatever interrupts it leaves the one or the other, whole. Nobody may have it open meanwhile. What
    the old file and its log held is overwritten; backups and exports are as they were, and so is what the file system,
    the disk or earlier deletions left elsewhere.

    Args:
        path: The database.
        key: Its key. Default: it is not encrypted.
        new_key: The key that it gets. Default: none, so that it is decrypted.
        progress: Is told how far it has come.

    Returns:
        What was written.

    Raises:
        InvalidInput: There is no such file, it cannot be written, or it would stay as it is.
        DatabaseBusy: A program has it open.
        StorageError: The key does not fit, or the file is another program's or damaged. It is as it was.
        MissingExtra: SQLCipher is not installed.
    """
    key, new_key = EncryptionKey.of(key), EncryptionKey.of(new_key)
    listener_given(progress, "progress")
    name = name_of(path)
    if is_postgres(name) or name == ":memory:" or name.startswith("file:"):
        raise InvalidInput(f"What has a key is the file of a SQLite database, not {safe_repr(name)}.")
    if key is None and new_key is None:
        raise InvalidInput("Give key= to decrypt a database, new_key= to encrypt it, or both to give it another key.")
    if SqliteEngine.open_here(Path(name)):
        raise DatabaseBusy(f"{safe_repr(name)} is open in this process. Close it first.")
    return rewrite(Path(name), key, new_key, APPLICATION_ID, progress)


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a pruning removed or made smaller, or would.

    Attributes:
        threads: How many threads lost checkpoints.
        checkpoints: How many checkpoints.
        conversations: How many conversations lost messages.
        messages: How many messages.
        archived: How many entries of the audit trail were compressed.
        saved_bytes: How many bytes that saved.
        dry_run: Whether it only would.
    """

    threads: int = 0
    checkpoints: int = 0
    conversations: int = 0
    messages: int = 0
    archived: int = 0
    saved_bytes: int = 0
    dry_run: bool = False


def prune(
    database: Database,
    namespace: Namespace,
    *,
    now: int,
    keep_checkpoints: int | None = None,
    retention: Retention | None = None,
    archive_before: int | None = None,
    dry_run: bool = False,
    progress: Watch | None = None,
) -> PruneReport:
    """Prune.

    Args:
        database: Where.
        namespace: In this namespace, and all below it.
        now: When, in microseconds since 1970.
        keep_checkpoints: How many of each line of a thread stay. Default: all.
        retention: Which messages of each conversation stay. Default: all.
        archive_before: Entries of the audit trail that were made before are compressed. Default: none.
        dry_run: Whether it is a rehearsal.
        progress: Is told how many of the threads and conversations were looked at.

    Raises:
        InvalidInput: Nothing is to be pruned, or fewer than one checkpoint is to stay.
    """
    _check_prune(keep_checkpoints, retention, archive_before)
    low, high = range_of(namespace)
    engine = database.engine
    threads: list[ThreadAt] = []
    talks: list[message_log.Address] = []
    if keep_checkpoints is not None:
        threads = database.read(None, lambda tx: _threads(tx, low, high))
    if retention is not None and not retention.off:
        talks = database.read(None, lambda tx: _conversations(tx, low, high))
    keep, kept = keep_checkpoints or 1, retention or Retention()
    do: Callable[[Operation[Any]], Any] = engine.rehearse if dry_run else engine.write
    removed, dropped = [], []
    for number, at in enumerate(threads):
        more, count = True, 0
        while more:
            some, more = do(partial(_pruned, at=at, keep=keep, now=now, at_once=dry_run))
            count += some
        removed.append(count)
        _tell(progress, number + 1, len(threads) + len(talks))
    for number, address in enumerate(talks):
        dropped.append(do(partial(message_log.shorten, at=address, retention=kept, now=now)))
        _tell(progress, len(threads) + number + 1, len(threads) + len(talks))
    archived = saved = 0
    if archive_before is not None:
        archived, saved = _archived(do, low, high, archive_before)
    if not dry_run:
        database.write(None, lambda tx: prompt_notes.sweep(tx, now=now))
        engine.release()
    return PruneReport(
        threads=sum(map(bool, removed)),
        checkpoints=sum(removed),
        conversations=sum(map(bool, dropped)),
        messages=sum(dropped),
        archived=archived,
        saved_bytes=saved,
        dry_run=dry_run,
    )


def _check_prune(keep_checkpoints: Any, retention: Retention | None, archive_before: int | None) -> None:
    if keep_checkpoints is None and (retention is None or retention.off) and archive_before is None:
        raise InvalidInput("Say what to prune: keep_checkpoints=, retention= or archive_before=.")
    if keep_checkpoints is not None and (type(keep_checkpoints) is not int or keep_checkpoints < 1):
        raise InvalidInput(f"keep_checkpoints is a whole number of at least 1, not {safe_repr(keep_checkpoints)}.")


def _archived(do: Callable[..., Any], low: str, high: str, before: int) -> tuple[int, int]:
    """Compress old entries of the audit trail. Gives how many, and how many bytes that saves."""
    archived = saved = 0
    after: int | None = 0
    while after is not None:
        # A rehearsal of one page leaves the page as it was, and goes on behind it all the same.
        page = do(partial(_page_archived, low=low, high=high, before=before, after=after))
        archived, saved, after = archived + page.entries, saved + page.saved, page.after
    return archived, saved


def _page_archived(tx: Transaction, low: str, high: str, before: int, after: int) -> Any:
    from langchain_agentmem.audit.audit_store import archive  # noqa: PLC0415 - who needs it pays

    return archive(tx, low, high, before, after=after)


def _pruned(tx: Transaction, at: ThreadAt, *, keep: int, now: int, at_once: bool) -> tuple[int, bool]:
    """How many checkpoints a batch removed, or all of them in one transaction, and whether there are more."""
    from langchain_agentmem.rewinding.thread_memory import prune  # noqa: PLC0415 - who needs it pays
    from langchain_agentmem.threads.thread_lines import BATCH  # noqa: PLC0415

    removed, more = 0, True
    while more:
        some = prune(tx, at, keep=keep, now=now)
        removed, more = removed + some, some >= BATCH
        if not at_once:
            break
    return removed, more


def _threads(tx: Transaction, low: str, high: str) -> list[ThreadAt]:
    from langchain_agentmem.threads.thread_lines import ThreadAt  # noqa: PLC0415 - who needs it pays

    rows = query.threads_within(tx, low=low, high=high, name=None)
    return [ThreadAt(row["path"], row["name"]) for row in rows]


def _conversations(tx: Transaction, low: str, high: str) -> list[message_log.Address]:
    rows = query.list_branches(tx, low=low, high=high, kind=message_log.CONVERSATION, name=None)
    return [message_log.Address(row["path"], row["name"]) for row in rows]


def _tell(progress: Watch | None, done: int, total: int) -> None:
    if progress is not None:
        progress(Progress("pruning", done, total))
