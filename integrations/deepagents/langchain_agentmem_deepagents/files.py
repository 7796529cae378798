"""Files as items of a store, and checks of their paths.

A file is two items whose key is its path. One has the content, as in deepagents' `StoreBackend`. The other, the entry,
has the size and times, so that listing files does not read their content.
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
"""The label below the namespace for the contents of files. The keys of the items are their paths."""
ENTRIES: Final = "deepagents_entries"
"""The label below the namespace for the entries of files: sizes and times, without the content."""

_PAGE_BYTES = 8_000_000
_PAGE_FILES = 500
_MAX_PATH_BYTES = 2_000
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INVALID_CHARS = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")

_INVALID_TEXT = "invalid_text"
_ADVICE = {
    INVALID_PATH: "{path} is no path. Paths begin with '/', have no '..', '.', '//', '\\', and at most 2,000 bytes.",
    IS_DIRECTORY: "{path} is a folder. Pass the path of a file.",
    PERMISSION_DENIED: "{path} belongs to a checkpoint, where files are read-only.",
    _INVALID_TEXT: "the text for {path} cannot be encoded as UTF-8. Upload it as bytes.",
}

# -- files as items ------------------------------------------------------------------------------------------------


def put_ops(namespace: tuple[str, ...], path: str, data: FileData) -> list[Op]:
    """Return the operations that write a file and its entry."""
    text = data["encoding"] != "base64"
    entry = {name: value for name, value in data.items() if name != "content"}
    entry["size"] = len(data["content"].encode())
    return [
        PutOp((*namespace, FILES), path, cast("dict[str, Any]", data), index=["content"] if text else False),
        PutOp((*namespace, ENTRIES), path, entry, index=False),
    ]


def delete_ops(namespace: tuple[str, ...], path: str) -> list[Op]:
    """Return the operations that delete a file and its entry."""
    return [PutOp((*namespace, FILES), path, None), PutOp((*namespace, ENTRIES), path, None)]


def replace_text(data: FileData, old: str, new: str, *, replace_all: bool) -> tuple[FileData, int] | str:
    """Replace a text in a file; return the new file and the number of replacements, or an error."""
    if data["encoding"] == "base64":
        return "Error: Cannot edit binary files with text replacements."
    result = perform_string_replacement(data["content"], old, new, replace_all)
    return result if isinstance(result, str) else (update_file_data(data, result[0]), result[1])


def pages(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[list[str]]:
    """Yield lists of paths whose files fit into memory together."""
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


def file_info(path: str, entry: Mapping[str, Any]) -> FileInfo:
    """Return the `FileInfo` of a file."""
    return FileInfo(path=path, is_dir=False, size=entry["size"], modified_at=entry.get("modified_at", ""))


def bytes_of(data: FileData) -> bytes:
    """Return the content of a file as bytes."""
    content = data["content"]
    return base64.standard_b64decode(content) if data["encoding"] == "base64" else content.encode()


def text_of(content: bytes) -> tuple[str, str]:
    """Convert bytes to text, and return it with its encoding: UTF-8 if possible, else base64."""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.standard_b64encode(content).decode(), "base64"


# -- paths ---------------------------------------------------------------------------------------------------------


def normalize_folder(path: Any) -> Any:
    """Return the path of a folder without the slash at its end; "" for the root."""
    if not isinstance(path, str):
        return "" if path is None else path
    return (path if path.startswith(("/", "~")) or not path else "/" + path).rstrip("/")


def path_error(path: Any) -> str | None:
    """Return the protocol's error code for the path of a file; None if it is valid."""
    if not isinstance(path, str) or not path.startswith("/") or _INVALID_CHARS.search(path):
        return INVALID_PATH
    if len(path.encode()) > _MAX_PATH_BYTES or not {".", ".."}.isdisjoint(path.split("/")):
        return INVALID_PATH
    if path.endswith("/"):
        return IS_DIRECTORY
    return INVALID_PATH if "//" in path else None


def text_error(text: Any) -> str | None:
    """Return the error code for a text that cannot be written; None if it can."""
    return None if isinstance(text, str) and not _SURROGATE.search(text) else _INVALID_TEXT


def format_error(code: str, path: Any) -> str:
    """Return the text of an error for a model."""
    return f"Error: {code}: {_ADVICE[code].format(path=repr(path)[:200])}"
