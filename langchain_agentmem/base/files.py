"""Atomic writing of files: a file exists completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from langchain_agentmem.errors import InvalidInput, safe_repr

_PRIVATE_MODE = 0o600
_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES, _PAGE_BYTES = 64, 4_096
_SIDE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Ends of the names of files that SQLite keeps next to a database."""


def check_path(path: Any) -> Path:
    """Check the path of a file.

    Raises:
        InvalidInput: It is no path, or no file can be called so.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"A file is named by a path, not by {safe_repr(path)}.")
    try:
        os.lstat(name)
    except (ValueError, OSError) as error:
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:  # a NUL, or half of a surrogate pair
            reason = "too long" if isinstance(error, OSError) else "a character in it cannot be in one"
            raise InvalidInput(f"A file is named by a path, and not by {safe_repr(name)}: {reason}.") from error
    return Path(name)


def file_of(database: str) -> Path:
    """Return the path of a database's file.

    Args:
        database: A path, or a "file:" URI such as `file:agent.db?mode=ro`.
    """
    return Path(unquote(urlsplit(database).path) if database.startswith("file:") else database)


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read and write, whatever the umask.

    An existing file stays as it is.

    If creation fails, the code that opens the file reports the reason.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE_MODE))
        path.chmod(_PRIVATE_MODE)  # the umask may have taken some of it


def check_no_file(path: Path, *, force: bool) -> None:
    """Check that no file is replaced unasked.

    Raises:
        InvalidInput: One is there.
    """
    if path.is_file() and not force:
        raise InvalidInput(
            f"{safe_repr(str(path))} is there already. Write elsewhere, or replace it with --force (force=True)."
        )


@contextlib.contextmanager
def _replace_file(target: Path, *, make_folder: bool = False) -> Iterator[Path]:
    """Create a private file next to another, and replace that if the block succeeds."""
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        try:
            Path(name).chmod(_PRIVATE_MODE)  # the umask may have taken some of it
            yield Path(name)
            with Path(name).open("rb+") as file:
                os.fsync(file.fileno())
            Path(name).replace(target)
        finally:
            for suffix in ("", *_SIDE_SUFFIXES):
                Path(f"{name}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise _write_error(target, error) from error


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str], *, make_folder: bool = False) -> Iterator[TextIO]:
    """Open a text file to write, which takes its name only if the block succeeds.

    A crash leaves the old file or the new one, never half of either.

    Args:
        path: Where the file goes. A file that is there is replaced.
        make_folder: Create a missing folder. Default: False.

    Raises:
        InvalidInput: The file cannot be written, or `path` is a SQLite database.
    """
    target = check_path(path)
    with _replace_file(target, make_folder=make_folder) as temp:
        if target.is_file() and is_database(target):
            raise InvalidInput(f"{safe_repr(str(target))} is a database, which a text would replace. Write elsewhere.")
        with temp.open("w", encoding="utf-8") as file:
            yield file


@contextlib.contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Reserve a path for a SQLite file that takes its name only if the block succeeds.

    Args:
        path: Where the file goes. A file that is there is replaced.

    Raises:
        InvalidInput: The file cannot be written, or `path` is a database in use.
    """
    target = check_path(path)
    with _replace_file(target) as temp:
        if target.is_dir():
            raise InvalidInput(f"{safe_repr(str(target))} cannot be written: it is a folder.")
        if target.exists():
            temp.chmod(target.stat().st_mode & 0o777)
        yield temp
        wal = Path(f"{target}-wal")
        if wal.exists() and wal.stat().st_size:
            raise InvalidInput(
                f"{safe_repr(str(target))} is a database in use: its write-ahead log holds commits. Close "
                "it first, or write elsewhere."
            )
        side_files = [Path(f"{target}{suffix}") for suffix in _SIDE_SUFFIXES]
        stale = [each for each in side_files if each.exists()]  # who opens the new file may make others
    for each in stale:
        each.unlink(missing_ok=True)


def _write_error(target: Path, error: OSError) -> InvalidInput:
    """Return the error for an unwritable file. It never names a temporary file."""
    folder = target.parent
    reason = (
        error.strerror or error if folder.is_dir() else f"there is no folder {safe_repr(str(folder))}. Make it first"
    )
    return InvalidInput(f"{safe_repr(str(target))} cannot be written: {reason}.")


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database, or looks like an encrypted one.

    An encrypted database has whole pages of bytes that are no text.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        return header.startswith(_SQLITE_MAGIC) or looks_encrypted(path, header)
    except OSError:  # nobody here may read it
        return False


def looks_encrypted(path: Path, header: bytes) -> bool:
    """Return whether a file that begins with `header` looks like an encrypted database.

    All bytes of an encrypted database look random.
    """
    return not header.startswith(_SQLITE_MAGIC) and not (header.isascii() or path.stat().st_size % _PAGE_BYTES)
