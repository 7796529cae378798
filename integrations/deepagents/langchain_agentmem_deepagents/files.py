"""Files as items of a store, and their paths.

A file is two items whose key is its path: what it holds, as deepagents' `StoreBackend` keeps it, and what is told of
it, so that nobody who lists files reads them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from deepagents.backends.protocol import INVALID_PATH, IS_DIRECTORY, PERMISSION_DENIED, FileData, FileInfo
from deepagents.backends.utils import perform_string_replacement, update_file_data
from langgraph.store.base import Op, PutOp

FILES: Final = "deepagents_files"
"""The label, below that of the namespace, under which files lie: as items whose keys are their paths."""
ENTRIES: Final = "deepagents_entries"
"""The label under which lies what is told of files, so that nobody who lists them reads what they hold."""

_PAGE_BYTES = 8_000_000
_PAGE_FILES = 500
_LONGEST_PATH = 2_000
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")

_NO_TEXT = "invalid_text"
_ADVICE = {
    INVALID_PATH: "{path} names no file. Paths begin with '/', have no '..', '.', '//' or '\\', and at most "
    "2,000 bytes.",
    IS_DIRECTORY: "{path} is a folder. Give the path of a file.",
    PERMISSION_DENIED: "{path} is seen at a checkpoint, where files can only be read.",
    _NO_TEXT: "what was to be written to {path} cannot be kept as UTF-8. Upload it as bytes.",
}

# -- files as items ------------------------------------------------------------------------------------------------


def putting(namespace: tuple[str, ...], path: str, data: FileData) -> list[Op]:
    """A file, as deepagents' `StoreBackend` would keep it, and what is told of it."""
    text = data["encoding"] != "base64"
    entry = {name: value for name, value in data.items() if name != "content"}
    entry["size"] = len(data["content"].encode())
    return [
        PutOp((*namespace, FILES), path, cast("dict[str, Any]", data), index=["content"] if text else False),
        PutOp((*namespace, ENTRIES), path, entry, index=False),
    ]


def removing(namespace: tuple[str, ...], path: str) -> list[Op]:
    """Nothing in the place of a file."""
    return [PutOp((*namespace, FILES), path, None), PutOp((*namespace, ENTRIES), path, None)]


def edited(data: FileData, old: str, new: str, *, replace_all: bool) -> tuple[FileData, int] | str:
    """A file with a text replaced, and how often it was; or why not."""
    if data["encoding"] == "base64":
        return "Error: Cannot edit binary files with text replacements."
    made = perform_string_replacement(data["content"], old, new, replace_all)
    return made if isinstance(made, str) else (update_file_data(data, made[0]), made[1])


def pages(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[list[str]]:
    """Paths of files that can be read together."""
    page: list[str] = []
    size = 0
    for path, entry in entries:
        if page and (size + entry["size"] > _PAGE_BYTES or len(page) == _PAGE_FILES):
            yield page
            page, size = [], 0
        page.append(path)
        size += entry["size"]
    if page:
        yield page


def info(path: str, entry: Mapping[str, Any]) -> FileInfo:
    """What the protocol tells of a file."""
    return FileInfo(path=path, is_dir=False, size=entry["size"], modified_at=entry.get("modified_at", ""))


def bytes_of(data: FileData) -> bytes:
    """What a file holds."""
    content = data["content"]
    return base64.standard_b64decode(content) if data["encoding"] == "base64" else content.encode()


def text_of(content: bytes) -> tuple[str, str]:
    """Bytes as text, and its encoding: base64 for what is not UTF-8."""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.standard_b64encode(content).decode(), "base64"


# -- paths ---------------------------------------------------------------------------------------------------------


def folder(path: Any) -> Any:
    """A folder without the slash at its end, which leaves nothing of the root."""
    if not isinstance(path, str):
        return "" if path is None else path
    return (path if path.startswith(("/", "~")) or not path else "/" + path).rstrip("/")


def fault(path: Any) -> str | None:
    """The protocol's word for what is wrong with the path of a file; None if nothing is."""
    if not isinstance(path, str) or not path.startswith("/") or _UNUSABLE.search(path):
        return INVALID_PATH
    if len(path.encode()) > _LONGEST_PATH or not {".", ".."}.isdisjoint(path.split("/")):
        return INVALID_PATH
    if path.endswith("/"):
        return IS_DIRECTORY
    return INVALID_PATH if "//" in path else None


def no_text(text: Any) -> str | None:
    """What is wrong with a text; None if nothing is."""
    return None if isinstance(text, str) and not _SURROGATE.search(text) else _NO_TEXT


def told(fault: str, path: Any) -> str:
    """An error as a model can make use of it."""
    return f"Error: {fault}: {_ADVICE[fault].format(path=repr(path)[:200])}"
