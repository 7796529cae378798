"""Encrypted SQLite files. SQLCipher encrypts every page of a file and of its log, including indexes.

For every connection, SQLCipher needs half a second to derive a key from a passphrase (PBKDF2, 256,000 rounds). This
module derives the key once for a file, and passes the derived key to each connection. SQLCipher can still open the file
with the passphrase. The derivation needs the file's salt, which this module reads through SQLCipher: if the module
opened and closed the file itself, the process would lose SQLite's locks on the file.

`rewrite_file` encrypts a file, decrypts it, or changes its key. It writes a new file, which then replaces the old one.
Meanwhile it holds SQLite's exclusive lock, so no other process uses the old file. It overwrites the first page of the
old file before it releases the lock. So a process that waited for the lock cannot write to the old file by mistake.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from langchain_agentmem import errors
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.files import create_private, replace_atomically
from langchain_agentmem.base.hooks import Progress, Watch
from langchain_agentmem.errors import safe_repr

APPLICATION_ID = 0x41474D45
"""The application id in SQLite's header ("AGME"), which identifies databases of this package."""
SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of an unencrypted SQLite file."""
PBKDF2_ROUNDS = 256_000
"""The number of rounds of PBKDF2 in SQLCipher 4."""


@cache
def load_sqlcipher() -> Any:
    """Return the driver for encrypted files, which has the interface of Python's `sqlite3`.

    Raises:
        MissingExtra: The driver is not installed.
    """
    try:
        from sqlcipher3 import dbapi2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise errors.MissingExtra("An encrypted database", "encryption") from error
    with contextlib.closing(dbapi2.connect(":memory:")) as connection:
        connection.execute("pragma cipher_log_level = none")  # the log would go to standard error
    return dbapi2


class Cipher:
    """The cipher that unlocks the connections to one file.

    Args:
        key: The key of the file. If it is a function that returns the key, the constructor calls the function once.
    """

    def __init__(self, key: EncryptionKey) -> None:
        self.driver = load_sqlcipher()
        self.key = key.resolve()
        self._derived_keys: dict[str, EncryptionKey] = {}

    def unlock(self, connection: Any) -> None:
        """Set the key of a connection that has not read or written anything yet."""
        if isinstance(self.key(), str):
            connection.set_key(f"x'{'0' * 64}'")  # any raw key suffices to read the salt, and needs no derivation
            salt = connection.execute("pragma cipher_salt").fetchone()[0]
            connection.set_key(self._derive_key(salt))
        else:
            connection.set_key(self.create_file_key())

    def create_file_key(self) -> str:
        """Return the key for a new file in SQLCipher's form. A passphrase gets a new salt."""
        key = self.key()
        return f"x'{key.hex()}'" if isinstance(key, bytes) else self._derive_key(os.urandom(16).hex())

    def _derive_key(self, salt: str) -> str:
        if salt not in self._derived_keys:
            derived = hashlib.pbkdf2_hmac("sha512", str(self.key()).encode(), bytes.fromhex(salt), PBKDF2_ROUNDS, 32)
            self._derived_keys = {salt: EncryptionKey(f"x'{derived.hex()}{salt}'")}
        return str(self._derived_keys[salt]())


def get_error_class(key: EncryptionKey | None) -> type[Exception]:
    """Return the base class of the errors of the driver for a file.

    Args:
        key: The file's key; None for a plain file.
    """
    return sqlite3.Error if key is None else load_sqlcipher().Error


def connect(path: Path | str, key: EncryptionKey | None, *, driver: Any = None, **options: Any) -> Any:
    """Open a connection to a file, with the driver for its encryption.

    Args:
        path: The file. A missing file is created.
        key: The file's key; None for a plain file.
        driver: The driver for a plain file. Default: Python's `sqlite3`.
        **options: Other arguments of the driver's `connect`.
    """
    cipher = None if key is None else Cipher(key)
    connection = (cipher.driver if cipher else driver or sqlite3).connect(path, **options)
    try:
        if cipher is not None:
            cipher.unlock(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def is_plain_file(path: Path) -> bool:
    """Return whether a file begins with the header of an unencrypted SQLite file."""
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def rewrite_file(path: Path, key: EncryptionKey | None, new_key: EncryptionKey | None, progress: Watch | None) -> None:
    """Rewrite a file with another key.

    Args:
        path: The file, which no process may have open.
        key: The file's current key; None for a plain file.
        new_key: The new key; None to decrypt the file.
        progress: Receives the progress.

    Raises:
        InvalidInput: The file does not exist, or cannot be read or written.
        DatabaseBusy: Another process has the file open.
        DatabaseUnreadable: The key does not fit, or the file is damaged.
        ForeignDatabase: The file belongs to another program.
        StorageError: The driver failed otherwise.
        MissingExtra: SQLCipher is not installed.
    """
    driver, name = load_sqlcipher(), safe_repr(str(path))
    path = path.resolve()
    key, new_key = (None if each is None else each.resolve() for each in (key, new_key))
    report = progress if progress is not None else lambda _: None
    try:
        # Closing `old_file` drops SQLite's locks, so it is closed after SQLite's connection.
        with path.open("rb+") as old_file, _connect_exclusive(path, key) as source:
            if source.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
                raise errors.ForeignDatabase(f"{name} is not a database of langchain-agentmem.")
            _check_integrity(source, path)
            with replace_atomically(path) as temp:
                report(Progress("copying", 0, 2))
                _export(source, temp, new_key)
                report(Progress("checking", 1, 2))
                with _connect_exclusive(temp, new_key) as copy:
                    _check_integrity(copy, path)
                    copy.execute("pragma journal_mode = wal").fetchone()
                # Delete the old file's log and other side files: SQLite must not use them with the new file.
                source.execute("pragma journal_mode = delete").fetchone()
                for suffix in ("-shm", "-journal"):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
            _sync_folder(path.parent)
            os.pwrite(old_file.fileno(), bytes(4_096), 0)  # the first page, which contains the salt
            report(Progress("checking", 2, 2))
    except (OSError, driver.Error) as error:
        raise convert_file_error(error, path, "rewritten", has_key=key is not None) from error


@contextlib.contextmanager
def _connect_exclusive(path: Path, key: EncryptionKey | None) -> Iterator[Any]:
    """Open a connection that holds an exclusive lock until it is closed."""
    connection = connect(path, key, driver=load_sqlcipher(), timeout=0, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute("pragma locking_mode = exclusive").fetchone()  # the lock then outlasts its transaction
        for statement in ("pragma temp_store = memory", "begin exclusive", "commit"):
            connection.execute(statement)
        yield connection


def _check_integrity(connection: Any, path: Path) -> None:
    problem = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise errors.DatabaseUnreadable(f"{safe_repr(str(path))} or its new file is damaged: {problem}.")


def _export(source: Any, target: Path, key: EncryptionKey | None) -> None:
    """Write the database of a connection to an empty file.

    Args:
        source: The connection.
        target: The empty file.
        key: The key of the empty file; None for a plain file.
    """
    source.execute("attach ? as target key ?", (str(target), "" if key is None else Cipher(key).create_file_key()))
    for pragma in ("auto_vacuum", "application_id", "user_version"):
        [value] = source.execute(f"pragma main.{pragma}").fetchone()
        source.execute(f"pragma target.{pragma} = {value}")
    source.execute("pragma target.journal_mode = off").fetchone()
    source.execute("select sqlcipher_export('target')").fetchone()
    source.execute("detach target")


def _sync_folder(folder: Path) -> None:
    """Sync a folder's directory entries to the disk, if the operating system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def convert_file_error(error: Exception, path: Path, action: str, *, has_key: bool) -> errors.AgentMemoryError:
    """Convert an error during the rewriting or copying of a file to an error of this package.

    Args:
        error: The error of the operating system or of the driver.
        path: The file.
        action: The failed action, as a participle such as "rewritten".
        has_key: True if a key was given.
    """
    name = safe_repr(str(path))
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return errors.DatabaseBusy(f"{name} is open in another program. Close it there first.")
    if "file is not a database" in str(error):  # SQLCipher's driver sets no error code if a backup fails
        return errors.DatabaseUnreadable(format_unreadable_message(str(path), has_key=has_key))
    error_class = errors.InvalidInput if isinstance(error, OSError) else errors.StorageError
    return error_class(f"{name} cannot be {action}: {error}. The file is unchanged.")


def format_unreadable_message(path: str, *, has_key: bool) -> str:
    """Return the error message for a file that SQLite cannot read as a database.

    Args:
        path: The file.
        has_key: True if a key was given.
    """
    name = safe_repr(path)
    if has_key:
        return (
            f"The key does not fit {name}, or the file is damaged or is not encrypted. Open it without a key, or "
            "encrypt it first: agentmem key DATABASE encrypt."
        )
    return (
        f"{name} is not a database, or an encrypted one. If it is encrypted, pass its key (key=…, or AGENTMEM_KEY). "
        "To import files of other programs, run: agentmem import-from."
    )


def copy_file(file: Path, target: Path, key: EncryptionKey | None = None) -> None:
    """Copy a database's file, including the data that is still in its write-ahead log.

    Args:
        file: The file.
        target: The path of the copy. No file may exist there.
        key: The key of the database and its copy. Default: None, not encrypted.

    Raises:
        InvalidInput: The file cannot be read, or the copy cannot be written.
        DatabaseBusy: Another program has locked the file.
        DatabaseUnreadable: The key does not fit, or the file is not a database.
        StorageError: The driver failed otherwise.
    """
    try:
        create_private(target)
        logs = (Path(f"{file}-wal"), Path(f"{file}-journal"))
        if not any(log.exists() and log.stat().st_size for log in logs):
            shutil.copyfile(file, target)
            return
        with contextlib.closing(connect(file, key)) as source, contextlib.closing(connect(target, key)) as copy:
            source.backup(copy)
    except (OSError, get_error_class(key)) as error:
        raise convert_file_error(error, file, f"copied to {safe_repr(str(target))}", has_key=bool(key)) from error
