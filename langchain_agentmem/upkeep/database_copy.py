"""A database is exported, imported, copied and restored, of whichever engine.

All of these carry rows by `storage/transfer.py`. An export is a SQLite database with the rows of a namespace; a copy
has all rows, in a file or on a server. Either is made whole or not at all: a file is written beside its place and takes
its name when it is whole, and what goes to a server or is imported is one transaction.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import MEASURED_BEFORE, check_flag
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike, key_in_environment
from langchain_agentmem.base.events import Watch, listener_given
from langchain_agentmem.base.files import is_database, looks_encrypted, path_of_file, whole_copy, whole_file
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of, range_of
from langchain_agentmem.conversations.message_log import ROUND
from langchain_agentmem.errors import (
    DatabaseBusy,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    StorageError,
    safe_repr,
)
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import (
    DatabaseOptions,
    Engine,
    Transaction,
    encrypted_database,
    is_postgres,
    name_of,
    open_engine,
    query,
    transfer,
)
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.encrypted_database import APPLICATION_ID
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.integrity import VerifyReport

_OWNER = slice(68, 72)
"""Where the header of a SQLite file names the program that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """What an export wrote or an import added.

    Attributes:
        conversations: How many conversations were in the file.
        entries: How many messages and rounds were written, versions included.
        threads: How many LangGraph threads were in the file.
        checkpoints: How many of their checkpoints were written.
        blobs: How many values of byte stores were written.
        items: How many long-term items were written.
        branches: How many named branches of memory were written.
        memories: How many versions of what is remembered were written, on branches and in threads.
        audit: How many entries of the audit trail were written.
    """

    conversations: int = 0
    entries: int = 0
    threads: int = 0
    checkpoints: int = 0
    blobs: int = 0
    items: int = 0
    branches: int = 0
    memories: int = 0
    audit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a copy holds.

    Attributes:
        source: What was copied.
        target: Where it is.
        taken_at: As of when. What is written to the source later is not in the copy.
        rows: How many rows of each table were copied.
        documents: How many documents can be found.
    """

    source: str
    target: str
    taken_at: datetime
    rows: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0


# -- export and import ---------------------------------------------------------------------------------------------


def export(
    engine: Engine, path: Path, within: Namespace = (), progress: Watch | None = None, key: EncryptionKey | None = None
) -> TransferReport:
    """Write the rows of a namespace to a SQLite file, as of one moment.

    Args:
        engine: The database.
        path: The file. An older export there is replaced when the new one is whole.
        within: The namespace. Default: everything.
        progress: Is told how many of the rows were written.
        key: What encrypts the file. Default: nothing does.

    Raises:
        InvalidInput: The file cannot be written, or something else is there.
        StorageError: A database failed, or the source is damaged.
    """
    with whole_copy(path) as made, contextlib.closing(_made(made, key)) as file:
        with transfer.reading(engine) as source:
            file.write(lambda tx: transfer.fill(source, tx, within=within, progress=progress))
        _verified(file, "The database is damaged and cannot be exported (verify() tells more)")
        counts = file.read(integrity.statistics)
    return TransferReport(
        entries=counts["messages"] + counts["rounds"] + counts["edits"],
        **{each.name: counts[each.name] for each in fields(TransferReport) if each.name != "entries"},
    )


def check_replaceable(path: Path, key: EncryptionKey | None) -> None:
    """Check that no file is replaced by an export but an older one, which nobody has used as a database since.

    Raises:
        InvalidInput: Another is there.
    """
    if path.is_file() and path.stat().st_size and not transfer.is_unused_export(path, key):
        name = safe_repr(str(path))
        raise InvalidInput(f"{name} is no export, and would be replaced. Write elsewhere, or remove it.")


def import_file(
    database: Database,
    path: Path,
    within: Namespace,
    progress: Watch | None,
    key: EncryptionKey | None,
    tell: Callable[..., object],
) -> TransferReport:
    """Merge an export into a database, in one transaction.

    Args:
        database: The database.
        path: The export.
        within: The namespace in which all of it must lie.
        progress: Is told how far it has come.
        key: What the file is encrypted with, if it is.
        tell: Is told the path, name and `message_ids` of each conversation that got messages.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind, or this database holds something else in its
            place.
    """
    from langchain_agentmem.upkeep.memory_import import MemoryImport  # noqa: PLC0415 - who needs it pays

    _check_database(path, "export")
    with contextlib.ExitStack() as stack:
        try:
            engine = stack.enter_context(_opened(path, None if encrypted_database.begins_plain(path) else key))
            _check(engine, within, progress)
        except StorageError as error:
            raise InvalidInput(f"{safe_repr(str(path))} cannot be imported: {error}") from error
        rows = stack.enter_context(transfer.reading(engine))

        def merge(file: Transaction) -> MemoryImport:
            return database.write(None, lambda tx: MemoryImport(rows, file, tx, database, progress).run())

        merged = engine.read(merge)
    for at_path, name, keys in merged.conversations:
        if keys:
            tell(at_path, name, message_ids=tuple(dict.fromkeys(keys)))
    return TransferReport(**{each.name: merged.added[each.name] for each in fields(TransferReport)})


def _check_database(path: Path, what: str) -> None:
    if not path.is_file():
        raise InvalidInput(f"There is no {what} at {safe_repr(str(path))}.")
    if not is_database(path):
        raise InvalidInput(f"{safe_repr(str(path))} is no {what}: it is not a SQLite database, or was cut off.")


@contextlib.contextmanager
def _opened(path: Path, key: EncryptionKey | None) -> Iterator[SqliteEngine]:
    """Open a copy of a file, which is brought up to date where an older version wrote it."""
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        encrypted_database.copied_file(path, file := Path(folder) / "export.db", key)
        with contextlib.closing(_made(file, key)) as engine:
            yield engine


def _made(path: Path, key: EncryptionKey | None) -> SqliteEngine:
    """Open a file whose rows were measured when they were written."""
    return SqliteEngine(str(path), DatabaseOptions(key=key, limits=MEASURED_BEFORE))


def _check(engine: Engine, within: Namespace, progress: Watch | None) -> None:
    """Refuse a file that is damaged, or holds what was not asked for.

    Raises:
        InvalidInput: It holds another namespace than it may.
        StorageError: It is damaged.
    """
    low, high = range_of(within)
    with (
        contextlib.closing(SqliteEngine(":memory:")) as empty,
        transfer.reading(empty) as ours,
        transfer.reading(engine) as source,
    ):
        transfer.check_file(source, ours)
        for row in source.matching("namespace"):
            namespace = namespace_of(row["path"])
            if not low <= row["path"] < high or path_of(namespace) != row["path"]:
                raise InvalidInput(f"The file holds {safe_repr(namespace)}, which is not within {safe_repr(within)}.")
    _verified(engine, "it is damaged", progress)


# -- plain data -----------------------------------------------------------------------------------------------------

_IN_REPORT = {"message": "entries", "description": "entries", ROUND: "entries", "item": "items"}


def plain_export(engine: Engine, path: Path, within: Namespace = ()) -> TransferReport:
    """Write what a person said, and what was learned about them, to a JSON file: for who asks for their data.

    The file is a list of objects, each with its namespace. `import_` does not read it.

    Args:
        engine: The database.
        path: The file. A file that is there is replaced, unless it is a database.
        within: The namespace. Default: everything.

    Returns:
        How many entries, items and memories the file has.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: Something is damaged.
    """
    counts: Counter[str] = Counter()
    with whole_file(path) as file, transfer.reading(engine) as source:
        file.write("[")
        for each in _objects(source, within):
            file.write(",\n" if counts else "\n")
            json.dump(each, file, default=str)
            counts[_IN_REPORT.get(each["kind"], "memories")] += 1
        file.write("\n]\n")
    return TransferReport(**counts)


def _objects(source: transfer.RowSource, within: Namespace) -> Iterator[dict[str, Any]]:
    from langchain_agentmem.stores import item_rows  # noqa: PLC0415 - who needs it pays

    low, high = range_of(within)
    for row in source.run(query.plain_messages, low=low, high=high):
        said = encoding.decode(row["body"])["user_query"] if row["kind"] == ROUND else body_text(row["body"])
        yield _object(row, row["kind"], conversation=row["name"], role=row["role"], name=row["sender"], text=said)
    for row in source.run(query.plain_memory, low=low, high=high):
        text = row["body"].decode("utf-8", "surrogatepass")
        yield _object(row, row["kind"], key=row["key"], label=row["label"], source=row["source"], text=text)
    for row in source.run(query.plain_items, low=low, high=high):
        yield _object(row, "item", key=row["key"], value=item_rows.read(row["value"], row["path"], row["key"]))


def _object(row: dict[str, Any], kind: str, **fields: Any) -> dict[str, Any]:
    told = {name: value for name, value in fields.items() if value is not None}
    at = moment(row["created_at"]).isoformat()
    return {"kind": kind, "namespace": namespace_of(row["path"]), "created_at": at, **told}


# -- copies --------------------------------------------------------------------------------------------------------


def copy(
    source: Engine, target: str, *, force: bool = False, progress: Watch | None = None, key: EncryptionKey | None = None
) -> CopyReport:
    """Copy a whole database.

    Args:
        source: What is copied. It may be written to meanwhile.
        target: Where to: the path of a file or a `postgresql://` URL, where nothing is stored yet.
        force: Whether what is stored there is replaced.
        progress: Is told how far it has come. What it raises ends the copy.
        key: What encrypts a SQLite file. Default: the key of the source, if it has one, or of the environment.

    Raises:
        InvalidInput: Something is stored there, it is the source itself, or it cannot store a value.
        StorageError: A database failed, or the source is damaged. What is there is as it was.
    """
    check_flag("force", force)
    if is_postgres(target):
        with contextlib.closing(open_engine(target, DatabaseOptions(key=key, limits=MEASURED_BEFORE))) as engine:
            if _server_of(engine) == _server_of(source):
                raise InvalidInput(f"{safe_repr(engine.path)} is the database itself. Copy it to another place.")
            return _copied(source, engine, engine.path, force=force, progress=progress)
    key = key or source.opening.key or key_in_environment()
    file = _free_file(target, key, force=force)
    if source in SqliteEngine.open_here(file):
        raise InvalidInput(f"{safe_repr(target)} is the database itself. Copy it to another place.")
    with whole_copy(file) as made, contextlib.closing(_made(made, key)) as engine:
        return _copied(source, engine, str(file), force=False, progress=progress)


def _server_of(engine: Engine) -> list[dict[str, Any]]:
    """Return what tells the schema of a PostgreSQL database from all others; nothing for SQLite."""
    which = "select current_database(), current_schema(), cast(pg_postmaster_start_time() as text) as began"
    return [] if engine.dialect == "sqlite" else engine.read(lambda tx: [dict(row) for row in tx.run_sql(which, {})])


def _copied(source: Engine, target: Engine, name: str, *, force: bool, progress: Watch | None) -> CopyReport:
    from langchain_agentmem.search import vectors  # noqa: PLC0415 - who copies pays

    def write(tx: Transaction) -> tuple[datetime, Mapping[str, int]]:
        if force:
            _empty(tx)
        elif transfer.is_filled(tx):
            raise _occupied(name)
        with transfer.reading(source) as rows:
            return datetime.now(UTC), transfer.fill(rows, tx, progress=progress)

    taken_at, rows = target.write(write)
    _verified(target, f"The copy at {safe_repr(name)} is not whole (see what `verify` says of the source)", progress)
    target.write(search_index.refresh)
    after: int | None = 0
    while after is not None:
        after = target.write(partial(vectors.copy_to_pgvector, after=after))
    return CopyReport(
        source=source.path, target=name, taken_at=taken_at, rows=rows, documents=target.read(search_index.counted)
    )


def _empty(tx: Transaction) -> None:
    from langchain_agentmem.search import vectors  # noqa: PLC0415 - who copies pays

    search_index.emptied(tx)
    vectors.server_side_emptied(tx)
    transfer.delete_all(tx)


def _occupied(name: str) -> InvalidInput:
    return InvalidInput(f"{safe_repr(name)} holds memories already. Name another place, or say --force (force=True).")


def _free_file(path: str, key: EncryptionKey | None, *, force: bool) -> Path:
    """Check that a copy may go to a file.

    Raises:
        InvalidInput: It is no path of a file, or something is stored there.
        ForeignDatabase: It is another program's.
    """
    if path == ":memory:" or path.startswith("file:"):
        raise InvalidInput(f"A copy goes to the path of a file or to a postgresql:// URL, not to {safe_repr(path)}.")
    file = path_of_file(path)
    if file.is_file() and file.stat().st_size:
        with file.open("rb") as opened:
            begins = opened.read(_OWNER.stop)
        ours = begins.startswith(encrypted_database.PLAIN_BEGINS) and int.from_bytes(begins[_OWNER]) == APPLICATION_ID
        if not ours and not looks_encrypted(file, begins):
            raise ForeignDatabase(
                f"{safe_repr(path)} is not ours to replace: it is no database of langchain-agentmem, or its "
                "beginning is damaged. Move the file away, or name another."
            )
        if not (force and ours):  # what is encrypted is ours where the key opens it
            with contextlib.closing(_made(file, key)) as engine:
                if engine.read(transfer.is_filled) and not force:
                    raise _occupied(path)
    return file


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Watch | None = None,
    key: KeyLike | None = None,
) -> VerifyReport:
    """Make a database of a backup or an export.

    Args:
        source: The file that `backup` or `export` wrote. It is only read.
        target: Where to: a path or a `postgresql://` URL, where nothing is stored yet.
        force: Whether what is stored there is replaced.
        progress: Is told how far it has come.
        key: The key of the file, and of the SQLite database that is made. Default: the key in the environment, if any.

    Returns:
        How much was verified.

    Raises:
        InvalidInput: The file is missing or of another kind, or something is stored at the target.
        StorageError: What was restored is not whole, or a database failed. The target is as it was.
    """
    key = EncryptionKey.of(key) or key_in_environment()
    listener_given(progress, "progress")
    check_flag("force", force)
    file, name = path_of_file(source), name_of(target)
    if not is_postgres(name) and file.exists() and Path(name).exists() and file.samefile(name):
        raise InvalidInput(f"{safe_repr(name)} is the backup itself. Restore it to another place.")
    _check_database(file, "backup")
    if key is not None and encrypted_database.begins_plain(file):
        raise InvalidInput(
            f"{safe_repr(str(file))} is not encrypted. Restore it without a key, and encrypt what was restored: "
            "agentmem key DATABASE encrypt."
        )
    damaged = f"{safe_repr(str(file))} is damaged, and was not restored"
    if is_postgres(name):
        with _opened(file, key) as engine:
            report = _verified(engine, damaged, progress)
            copy(engine, name, force=force, progress=progress)
    else:
        with whole_copy(_free_file(name, key, force=force)) as made:
            encrypted_database.copied_file(file, made, key)
            opening = DatabaseOptions(key=key, limits=MEASURED_BEFORE)
            with contextlib.closing(Database(made, opening=opening)) as database:
                report = _verified(database.engine, damaged, progress, index=True)
    return report


def _verified(engine: Engine, damaged: str, progress: Watch | None = None, *, index: bool = False) -> VerifyReport:
    """Verify a database.

    Raises:
        DatabaseUnreadable: Something is wrong; the error begins with `damaged`.
    """
    report = integrity.verify(engine, progress, index=index)
    if not report.ok:
        more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        raise DatabaseUnreadable(f"{damaged}: {report.problems[0]}{more}.")
    return report


def rekey(
    path: str | os.PathLike[str],
    *,
    key: KeyLike | None = None,
    new_key: KeyLike | None = None,
    progress: Watch | None = None,
) -> None:
    """Encrypt a SQLite database, give it another key, or decrypt it.

    It is written into a new file under the new key, which is checked and then takes the place of the old one; an
    interruption leaves the one or the other, whole. Nobody may have it open meanwhile. The old file is deleted, not
    overwritten: backups, exports, the disk and the file system may still hold what it held.

    Args:
        path: The database.
        key: Its key. Default: it is not encrypted.
        new_key: The key that it gets. Default: none, so that it is decrypted.
        progress: Is told how far it has come.

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
    encrypted_database.rewrite(Path(name), key, new_key, progress)
