"""Atomic writes: a reader sees the complete old file or the complete new file, never a part of one."""

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
_HEADER_BYTES, _PAGE_BYTES = 64, 4_096  # the tested start of a file, and a page of an encrypted database
_SIDE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""


def check_path(path: Any) -> Path:
    """Check the path of a file.

    Raises:
        InvalidInput: The argument is not a path, or not a valid file name.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"A file path must be a non-empty str or os.PathLike, got {safe_repr(path)}.")
    try:
        os.lstat(name)
    except (ValueError, OSError) as error:
        # ValueError: the path contains a NUL or an unpaired surrogate.
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            reason = "it is too long" if isinstance(error, OSError) else "it has a character that is invalid in paths"
            raise InvalidInput(f"Invalid path {safe_repr(name)}: {reason}.") from error
    return Path(name)


def file_of(database: str) -> Path:
    """Return the path of a database's file.

    Args:
        database: A path, or a "file:" URI such as `file:agent.db?mode=ro`.
    """
    return Path(unquote(urlsplit(database).path) if database.startswith("file:") else database)


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read and write, whatever the umask.

    An existing file is not changed. If creation fails, the code that opens the file reports the reason.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE_MODE))
        path.chmod(_PRIVATE_MODE)  # the umask may have removed a permission


def check_no_file(path: Path, *, force: bool) -> None:
    """Check that no file would be replaced without `force`.

    Raises:
        InvalidInput: The file exists.
    """
    if path.is_file() and not force:
        raise InvalidInput(f"{safe_repr(str(path))} exists. Choose another path, or pass --force (force=True).")


@contextlib.contextmanager
def _replace_file(target: Path, *, make_folder: bool = False) -> Iterator[Path]:
    """Create a private file next to the target, and move it there if the block succeeds."""
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        handle, temp_name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        try:
            Path(temp_name).chmod(_PRIVATE_MODE)  # the umask may have removed a permission
            yield Path(temp_name)
            with Path(temp_name).open("rb+") as file:
                os.fsync(file.fileno())
            Path(temp_name).replace(target)
        finally:
            for suffix in ("", *_SIDE_SUFFIXES):
                Path(f"{temp_name}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise _write_error(target, error) from error


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str], *, make_folder: bool = False) -> Iterator[TextIO]:
    """Open a temporary text file, and move it to `path` if the block succeeds.

    After a crash, `path` has either the complete old file or the complete new file.

    Args:
        path: The path of the file. An existing file is replaced.
        make_folder: True to create a missing folder. Default: False.

    Raises:
        InvalidInput: The file cannot be written, or `path` is a SQLite database.
    """
    target = check_path(path)
    with _replace_file(target, make_folder=make_folder) as temp:
        if target.is_file() and is_database(target):
            raise InvalidInput(f"{safe_repr(str(target))} is a database. Choose another path for the text.")
        with temp.open("w", encoding="utf-8") as file:
            yield file


@contextlib.contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a temporary SQLite file, and move it to `path` if the block succeeds.

    Args:
        path: The path of the file. An existing file is replaced.

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
                f"{safe_repr(str(target))} is a database in use: its write-ahead log contains commits. Close it "
                "first, or choose another path."
            )
        side_files = [Path(f"{target}{suffix}") for suffix in _SIDE_SUFFIXES]
        # Listed before the move, because opening the new file may create new side files.
        stale_files = [each for each in side_files if each.exists()]
    for each in stale_files:
        each.unlink(missing_ok=True)


def _write_error(target: Path, error: OSError) -> InvalidInput:
    """Return the error for an unwritable file, without the name of the temporary file."""
    folder, reason = target.parent, error.strerror or error
    if not folder.is_dir():
        reason = f"the folder {safe_repr(str(folder))} does not exist. Create it first"
    return InvalidInput(f"{safe_repr(str(target))} cannot be written: {reason}.")


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database, or looks like an encrypted one.

    See `looks_encrypted` for the second test.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        return header.startswith(_SQLITE_MAGIC) or looks_encrypted(path, header)
    except OSError:  # the file cannot be read
        return False


def looks_encrypted(path: Path, header: bytes) -> bool:
    """Return whether a file that begins with `header` looks like an encrypted database.

    An encrypted database has no SQLite header, contains non-ASCII bytes, and its size is a multiple of the page size.
    """
    return not header.startswith(_SQLITE_MAGIC) and not (header.isascii() or path.stat().st_size % _PAGE_BYTES)
