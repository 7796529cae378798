"""Export, import, copy and restore a database of either engine.

An export is a SQLite database with the rows of a namespace. A copy has all rows, in a file or on a server.
`storage/transfer.py` copies the rows. To restore a backup to a file, the whole file is copied instead.

A file is written under a temporary name and renamed when it is complete. An import is one transaction. A copy to a
server writes all rows in one transaction. After the commit, the copy is verified and its indexes are built.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem import errors, storage
from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import UNLIMITED, check_flag
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.encryption_key import EncryptionKey, KeyLike, key_from_env
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.files import check_path, is_database, looks_encrypted, replace_atomically, write_atomically
from langchain_agentmem.base.hooks import Watch, check_callable
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of, path_range
from langchain_agentmem.conversations.message_log import ROUND
from langchain_agentmem.errors import InvalidInput, StorageError, safe_repr
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.search import search_index
from langchain_agentmem.storage import DatabaseOptions, Engine, Transaction, encrypted_database, query, transfer
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.encrypted_database import APPLICATION_ID
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.tracing import drop_none
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.integrity import VerifyReport

_APPLICATION_ID_BYTES = slice(68, 72)
"""The position of the application id in the header of a SQLite file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """The counts of the objects that an export wrote or an import added.

    Attributes:
        conversations: Number of conversations in the file, including those to which an import adds nothing.
        entries: Number of messages and rounds written, versions included.
        threads: Number of LangGraph threads in the file, including those to which an import adds nothing.
        checkpoints: Number of checkpoints of these threads written.
        blobs: Number of values of byte stores written.
        items: Number of long-term items written.
        branches: Number of named branches of memory written.
        memories: Number of memory versions written, on branches and in threads.
        audit: Number of entries of the audit trail written.
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
    """The result of a copy.

    Attributes:
        source: The path or URL of the source.
        target: The path or URL of the copy.
        taken_at: The time of the snapshot. Later writes to the source are not in the copy.
        rows: Number of rows copied, by the name of the table.
        documents: Number of searchable documents in the copy.
    """

    source: str
    target: str
    taken_at: datetime
    rows: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0


# -- export and import ---------------------------------------------------------------------------------------------


def export(
    engine: Engine, path: Path, progress: Watch | None, key: EncryptionKey | None, namespace: Namespace = ()
) -> TransferReport:
    """Write a snapshot of a namespace to a SQLite file.

    If PostgreSQL closes the connection, the export begins again, once, and its progress too.

    Args:
        engine: The database.
        path: The file. An existing file is replaced when the new one is complete.
        progress: Receives the number of rows written.
        key: The key to encrypt the file. None for an unencrypted file.
        namespace: The namespace. Namespaces below it are included. Default: all namespaces.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: A database failed, or the source is damaged.
    """
    for is_last in (False, True):
        try:
            with replace_atomically(path) as temp, contextlib.closing(_open_unlimited(temp, key)) as file:
                with transfer.open_rows(engine) as source:
                    file.write(lambda tx: transfer.copy_rows(source, tx, namespace=namespace, progress=progress))
                _check_verified(file, "The database is damaged and cannot be exported (verify() reports details)")
                counts = file.read(integrity.statistics)
            break
        except StorageError as error:
            if is_last or not isinstance(error.__cause__, engine.disconnections):
                raise
    return TransferReport(
        entries=counts["messages"] + counts["rounds"] + counts["edits"],
        **{each.name: counts[each.name] for each in fields(TransferReport) if each.name != "entries"},
    )


def check_replaceable(path: Path, key: EncryptionKey | None) -> None:
    """Check that an export may be written to a path.

    The file may be missing, be empty, or be an export that was never opened as a database.

    Raises:
        InvalidInput: Another file exists at the path.
    """
    if path.is_file() and path.stat().st_size and not transfer.is_unused_export(path, key):
        raise InvalidInput(f"{safe_repr(str(path))} exists and is no export. Pass another path, or remove the file.")


def import_file(
    database: Database, path: Path, namespace: Namespace, progress: Watch | None, key: EncryptionKey | None
) -> TransferReport:
    """Merge an export into a database, in one transaction.

    Args:
        database: The database.
        path: The export.
        namespace: All rows of the export must be in this namespace or below it.
        progress: Receives the progress.
        key: The key of the file, if it is encrypted.

    Raises:
        InvalidInput: The file is missing, damaged or of another kind. Or the database has an object of the same name
            with other content.
    """
    from langchain_agentmem.upkeep.memory_import import MemoryImport  # noqa: PLC0415 - only for imports

    _check_database(path, "export")
    with contextlib.ExitStack() as stack:
        try:
            engine = stack.enter_context(_open_upgraded(path, None if encrypted_database.is_plain_file(path) else key))
            _check_export(engine, namespace, progress)
        except StorageError as error:
            raise InvalidInput(f"{safe_repr(str(path))} cannot be imported: {error}") from error
        rows = stack.enter_context(transfer.open_rows(engine))

        def merge(export_tx: Transaction) -> MemoryImport:
            return database.write(None, lambda tx: MemoryImport(rows, export_tx, tx, database, progress).run())

        merged = engine.read(merge)
    for namespace_path, conversation_id, message_ids in merged.conversations:
        if message_ids:
            event = partial(MessagesStored, namespace=namespace_of(namespace_path), conversation_id=conversation_id)
            database.emit(partial(event, message_ids=tuple(dict.fromkeys(message_ids))))
    return TransferReport(**{each.name: merged.added[each.name] for each in fields(TransferReport)})


def _check_database(path: Path, kind: str) -> None:
    if not path.is_file():
        raise InvalidInput(f"There is no {kind} at {safe_repr(str(path))}.")
    if not is_database(path):
        raise InvalidInput(f"{safe_repr(str(path))} is no {kind}: it is no SQLite database, or it is truncated.")


@contextlib.contextmanager
def _open_upgraded(path: Path, key: EncryptionKey | None) -> Iterator[SqliteEngine]:
    """Open a temporary copy of a file, and upgrade the copy to the current schema."""
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        encrypted_database.copy_file(path, file := Path(folder) / "export.db", key)
        with contextlib.closing(_open_unlimited(file, key)) as engine:
            yield engine


def _open_unlimited(path: Path, key: EncryptionKey | None) -> SqliteEngine:
    """Open a file without limits on the sizes of values, which were checked at their writes."""
    return SqliteEngine(str(path), DatabaseOptions(key=key, limits=UNLIMITED))


def _check_export(engine: Engine, allowed: Namespace, progress: Watch | None) -> None:
    """Check that a file is undamaged, and that all its namespaces are allowed.

    Raises:
        InvalidInput: The file has a namespace that is not the allowed one or below it.
        StorageError: The file is damaged.
    """
    low, high = path_range(allowed)
    with (
        contextlib.closing(SqliteEngine(":memory:")) as empty,
        transfer.open_rows(empty) as reference,
        transfer.open_rows(engine) as source,
    ):
        transfer.check_file(source, reference)
        for row in source.find_rows("namespace"):
            namespace = namespace_of(row["path"])
            if not low <= row["path"] < high or path_of(namespace) != row["path"]:
                raise InvalidInput(f"The file has {safe_repr(namespace)}, which is not within {safe_repr(allowed)}.")
    _check_verified(engine, "it is damaged", progress)


# -- JSON ----------------------------------------------------------------------------------------------------------

_REPORT_FIELDS_BY_KIND = {"message": "entries", "description": "entries", ROUND: "entries", "item": "items"}


def export_json(engine: Engine, path: Path, namespace: Namespace = ()) -> TransferReport:
    """Write the messages, items and memory of a namespace to a JSON file.

    The file is a list of objects, each with its namespace. `import_` cannot read it.

    Args:
        engine: The database.
        path: The file. An existing file is replaced, unless it is a database.
        namespace: The namespace. Namespaces below it are included. Default: all namespaces.

    Returns:
        The numbers of entries, items and memories in the file.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: The database is damaged.
    """
    counts: Counter[str] = Counter()
    with write_atomically(path) as file, transfer.open_rows(engine) as source:
        file.write("[")
        for item in _iter_objects(source, namespace):
            file.write(",\n" if counts else "\n")
            json.dump(item, file, default=str)
            counts[_REPORT_FIELDS_BY_KIND.get(item["kind"], "memories")] += 1
        file.write("\n]\n")
    return TransferReport(**counts)


def _iter_objects(source: transfer.RowSource, namespace: Namespace) -> Iterator[dict[str, Any]]:
    from langchain_agentmem.stores import item_rows  # noqa: PLC0415 - only for JSON

    low, high = path_range(namespace)
    for row in source.run(query.plain_messages, low=low, high=high):
        text = encoding.decode(row["body"])["user_query"] if row["kind"] == ROUND else body_text(row["body"])
        chat, role, sender = row["name"], row["role"], row["sender"]
        yield _make_object(row, row["kind"], conversation=chat, role=role, name=sender, text=text)
    for row in source.run(query.plain_memory, low=low, high=high):
        text = row["body"].decode("utf-8", "surrogatepass")
        yield _make_object(row, row["kind"], key=row["key"], label=row["label"], source=row["source"], text=text)
    for row in source.run(query.plain_items, low=low, high=high):
        value = item_rows.decode_value(row["value"], row["path"], row["key"])
        yield _make_object(row, "item", key=row["key"], value=value)


def _make_object(row: dict[str, Any], kind: str, **fields: Any) -> dict[str, Any]:
    created_at = from_micros(row["created_at"]).isoformat()
    return {"kind": kind, "namespace": namespace_of(row["path"]), "created_at": created_at, **drop_none(fields)}


# -- copies --------------------------------------------------------------------------------------------------------


def copy(source: Engine, target: str, *, force: bool, progress: Watch | None, key: EncryptionKey | None) -> CopyReport:
    """Copy a whole database.

    Args:
        source: The database to copy. It may be in use.
        target: The path of a file or a `postgresql://` URL without stored data.
        force: True to replace existing data at the target.
        progress: Receives the progress. If it raises an exception, the copy ends.
        key: The key to encrypt a SQLite file. None for the key of the source, else that in the environment.

    Raises:
        InvalidInput: The target is the source itself, cannot store a value, or has data and `force` is False.
        StorageError: A database failed, or the source is damaged. A target file is then unchanged. A target server may
            already contain the copied rows.
    """
    check_flag("force", force)
    if storage.is_postgres(target):
        with contextlib.closing(storage.open_engine(target, DatabaseOptions(key=key, limits=UNLIMITED))) as engine:
            if _server_identity(engine) == _server_identity(source):
                raise InvalidInput(f"{safe_repr(engine.path)} is the source itself. Pass another target.")
            return _copy_all(source, engine, engine.path, force=force, progress=progress)
    key = key or source.options.key or key_from_env()
    file = _check_target_file(target, key, force=force)
    if source in SqliteEngine.find_open(file):
        raise InvalidInput(f"{safe_repr(target)} is the source itself. Pass another target.")
    with replace_atomically(file) as temp, contextlib.closing(_open_unlimited(temp, key)) as engine:
        return _copy_all(source, engine, str(file), force=False, progress=progress)


def _server_identity(engine: Engine) -> list[dict[str, Any]]:
    """Return the values that identify a PostgreSQL schema and its server; [] for SQLite."""
    sql = "select current_database(), current_schema(), cast(pg_postmaster_start_time() as text) as began"
    return [] if engine.dialect == "sqlite" else engine.read(lambda tx: [dict(row) for row in tx.run_sql(sql, {})])


def _copy_all(source: Engine, target: Engine, name: str, *, force: bool, progress: Watch | None) -> CopyReport:
    from langchain_agentmem.search import vectors  # noqa: PLC0415 - only for copies

    def write(tx: Transaction) -> tuple[datetime, Mapping[str, int]]:
        if force:
            search_index.empty_index(tx)
            vectors.empty_pgvector(tx)
            transfer.delete_all(tx)
        elif transfer.is_filled(tx):
            raise _target_not_empty(name)
        with transfer.open_rows(source) as rows:
            return datetime.now(UTC), transfer.copy_rows(rows, tx, progress=progress)

    taken_at, rows = target.write(write)
    _check_verified(target, f"The copy at {safe_repr(name)} is damaged (run `verify` on the source)", progress)
    target.write(search_index.rebuild_if_old)
    after: int | None = 0  # each call copies the vectors of a page to pgvector's table, and returns the end of the page
    while after is not None:
        after = target.write(partial(vectors.copy_to_pgvector, after=after))
    documents = target.read(search_index.count_documents)
    return CopyReport(source=source.path, target=name, taken_at=taken_at, rows=rows, documents=documents)


def _target_not_empty(name: str) -> InvalidInput:
    return InvalidInput(f"{safe_repr(name)} already holds memories. Pass another target, or --force (force=True).")


def _check_target_file(path: str, key: EncryptionKey | None, *, force: bool) -> Path:
    """Check that a copy may create or replace a file.

    Raises:
        InvalidInput: `path` is not a file path, or the file has stored data and `force` is False.
        ForeignDatabase: The file belongs to another program, or its header is damaged.
    """
    if path == ":memory:" or path.startswith("file:"):
        raise InvalidInput(f"target must be a file path or a postgresql:// URL, not {safe_repr(path)}.")
    file = check_path(path)
    if file.is_file() and file.stat().st_size:
        with file.open("rb") as stream:
            header = stream.read(_APPLICATION_ID_BYTES.stop)
        is_plain = header.startswith(encrypted_database.SQLITE_MAGIC)
        is_ours = is_plain and int.from_bytes(header[_APPLICATION_ID_BYTES]) == APPLICATION_ID
        if not is_ours and not looks_encrypted(file, header):
            raise errors.ForeignDatabase(
                f"{safe_repr(path)} is no database of langchain-agentmem, or its beginning is damaged, so it is not "
                "replaced. Move the file away, or pass another target."
            )
        if not (force and is_ours):  # an encrypted file is replaced only if the key opens it
            with contextlib.closing(_open_unlimited(file, key)) as engine:
                if engine.read(transfer.is_filled) and not force:
                    raise _target_not_empty(path)
    return file


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Watch | None = None,
    key: KeyLike | None = None,
) -> VerifyReport:
    """Create a database from a backup or an export.

    Args:
        source: The file that `backup` or `export` wrote. It is not changed.
        target: A path or a `postgresql://` URL without stored data.
        force: True to replace existing data at the target. Default: False.
        progress: Receives the progress.
        key: The key of the file. A new SQLite database has the same key. Default: the key in the environment, if any.

    Returns:
        The report of the verification of the backup.

    Raises:
        InvalidInput: The file is missing, of another kind, or not encrypted although a key was given. Or the target has
            stored data and `force` is False.
        StorageError: The backup is damaged, or a database failed. A target file is then unchanged. A target server may
            already contain the restored rows, but never those of a damaged backup.
    """
    key = EncryptionKey.of(key) or key_from_env()
    check_callable(progress, "progress")
    check_flag("force", force)
    file, address = check_path(source), storage.check_database_url(target)
    if not storage.is_postgres(address) and file.exists() and Path(address).exists() and file.samefile(address):
        raise InvalidInput(f"{safe_repr(address)} is the backup itself. Pass another target.")
    _check_database(file, "backup")
    if key is not None and encrypted_database.is_plain_file(file):
        raise InvalidInput(
            f"{safe_repr(str(file))} is not encrypted. Restore it without a key, and then encrypt the database: "
            "agentmem key DATABASE encrypt."
        )
    damage_message = f"{safe_repr(str(file))} is damaged, and was not restored"
    if storage.is_postgres(address):
        with _open_upgraded(file, key) as engine:
            report = _check_verified(engine, damage_message, progress)
            copy(engine, address, force=force, progress=progress, key=None)
    else:
        with replace_atomically(_check_target_file(address, key, force=force)) as temp:
            encrypted_database.copy_file(file, temp, key)
            with contextlib.closing(Database(temp, options=DatabaseOptions(key=key, limits=UNLIMITED))) as database:
                report = _check_verified(database.engine, damage_message, progress, index=True)
    return report


def _check_verified(engine: Engine, prefix: str, progress: Watch | None = None, *, index: bool = False) -> VerifyReport:
    """Verify a database, with `index` also its full-text index.

    Raises:
        DatabaseUnreadable: The verification found a problem. The message begins with `prefix`.
    """
    report = integrity.verify(engine, progress, index=index)
    if not report.ok:
        more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        raise errors.DatabaseUnreadable(f"{prefix}: {report.problems[0]}{more}.")
    return report


def rekey(
    path: str | os.PathLike[str],
    *,
    key: KeyLike | None = None,
    new_key: KeyLike | None = None,
    progress: Watch | None = None,
) -> None:
    """Encrypt a SQLite database, change its key, or decrypt it.

    No program may have the database open. The database is written to a new file with the new key. The new file is
    verified and then replaces the old one. After an interruption, either the old file or the new one is at the path.

    The old file is deleted, but most of its content is not overwritten. The disk may still contain this content.
    Existing backups and exports are not changed.

    Args:
        path: The database.
        key: The current key. Default: None, for a database that is not encrypted.
        new_key: The new key. Default: None, to decrypt the database.
        progress: Receives the progress.

    Raises:
        InvalidInput: The file does not exist, cannot be written, or would stay unchanged.
        DatabaseBusy: This process or another program has the database open.
        StorageError: The key is wrong, the file belongs to another program, or it is damaged. The file is unchanged.
        MissingExtra: SQLCipher is not installed.
    """
    key, new_key = EncryptionKey.of(key), EncryptionKey.of(new_key)
    check_callable(progress, "progress")
    address = storage.check_database_url(path)
    if storage.is_postgres(address) or address == ":memory:" or address.startswith("file:"):
        raise InvalidInput(f"path must be the file of a SQLite database, not {safe_repr(address)}.")
    if key is None and new_key is None:
        raise InvalidInput("Pass key= to decrypt a database, new_key= to encrypt it, or both to change its key.")
    if SqliteEngine.find_open(Path(address)):
        raise errors.DatabaseBusy(f"{safe_repr(address)} is open in this process. Close it first.")
    encrypted_database.rewrite_file(Path(address), key, new_key, progress)
