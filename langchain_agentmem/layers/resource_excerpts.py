"""What can be seen of a file or folder: what lies in it, and how its files begin.

A folder is listed to a certain depth, a link is named and not followed, and what only tools write (`.git`,
`node_modules`) is left out. Secrets go before anything is cut, since half a secret is not recognised; files that are
known to hold some are named and not shown.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_agentmem.base.redaction import redact
from langchain_agentmem.layers.resource_files import Item
from langchain_agentmem.layers.resource_workspace import Beginning, Parts, Unreachable, Workspace, shown
from langchain_agentmem.layers.truncation import truncated


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ITEM_CHARS = 6_000
"""How many characters are kept of an item in memory."""

IGNORED = frozenset(
    _words(
        ".git .hg .svn __pycache__ node_modules .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache .idea "
        ".vscode .DS_Store .ipynb_checkpoints .eggs .cache"
    )
)
"""What is neither listed nor looked into."""

_SECRET_FILES = (".env", ".netrc", ".npmrc", ".pypirc", "id_rsa", "id_ed25519", "id_ecdsa", "credentials")
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".keystore")
_TEXT_ENDS = _words(
    ".c .cc .cpp .cu .h .hpp .py .pyi .ipynb .js .ts .tsx .jsx .java .go .rs .rb .r .jl .f90 .sh .sql .md .rst .txt "
    ".tex .json .jsonl .csv .tsv .yaml .yml .ini .cfg .toml .cmake .mk .html .xml"
)
_TEXT_NAMES = _words("makefile cmakelists.txt dockerfile readme license requirements.txt")

_MOST_ENTRIES = 2_000
_MOST_IN_FOLDER = 500
_DEEPEST = 8
_MOST_LINES = 200
_TREE_CHARS = 2_000
_READ = 1 << 18
_HASHED = 1 << 23
_MORE = "\u2026 and more"


class _Found(NamedTuple):
    """A file or folder below an item."""

    parts: Parts
    kind: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the `config` of a snapshot may say.

    Attributes:
        workspace_root: The folder that nothing is read outside of; None for that of the resource file.
        item_chars: The most characters of an item that sets no limit itself.
        ignored: Names that are left out.
        redact: Takes secrets out of a text.
    """

    workspace_root: str | None = None
    item_chars: int = ITEM_CHARS
    ignored: frozenset[str] = IGNORED
    redact: Callable[[str], str] = redact


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What was seen of an item.

    Attributes:
        status: "pending", "available" or "failed".
        path: Where the agent finds it.
        tree: What lies in it.
        excerpt: How its files begin.
        reason: Why it is not available, or not whole.
        found: All that its digest depends on.
    """

    status: str
    path: str
    tree: str = ""
    excerpt: str = ""
    reason: str = ""
    found: Any = None


def look(item: Item, workspace: Workspace, parts: Parts, options: Options, path: str) -> Seen:
    """What can be seen of an item that lies in a workspace.

    Args:
        item: The item.
        workspace: Where it lies.
        parts: The steps to it.
        options: What is shown.
        path: Where the agent finds it.

    Raises:
        Unreachable: It cannot be read.
    """
    limits = item.limits
    if workspace.kind(parts) == "file":
        read = workspace.beginning(parts, _READ, _HASHED)
        excerpt = _excerpt({parts[-1:]: read}, item, options) if limits.include_content else ""
        return Seen(status="available", path=path, excerpt=excerpt, found={"file": [read.size, read.sha]})
    found, more = _walked(workspace, parts, options.ignored)
    reads: dict[Parts, Beginning | None] = {}
    reason = ""
    if limits.include_content:
        for chosen in _chosen(item, found, workspace):
            try:
                reads[chosen] = workspace.beginning((*parts, *chosen), _READ, _HASHED)
            except Unreachable as error:
                if "leads out" in str(error):
                    raise
                reads[chosen] = None
                reason = reason or f"{shown(chosen)}: {error}"
    tree = _tree(found, more=more) if limits.include_tree else ""
    return Seen(
        status="available",
        path=path,
        tree=tree,
        excerpt=_excerpt(reads, item, options),
        reason=reason,
        found={
            "tree": [[shown(each.parts), each.kind, each.size] for each in found],
            "files": {shown(each): read and [read.size, read.sha] for each, read in reads.items()},
        },
    )


def _walked(workspace: Workspace, root: Parts, ignored: frozenset[str]) -> tuple[list[_Found], bool]:
    """What lies in a folder and below it, by path, and whether there is more. Links are named, and not followed."""
    found: list[_Found] = []
    folders: list[Parts] = [()]
    more = False
    for folder in folders:  # which grows: those nearest to the root come first
        room = min(_MOST_IN_FOLDER, _MOST_ENTRIES - len(found))
        if room <= 0 or len(folder) > _DEEPEST:
            more = True
            continue
        try:
            entries, cut = workspace.entries((*root, *folder), room + len(ignored))
        except Unreachable:
            if not folder:
                raise
            continue
        kept = [each for each in entries if each.name not in ignored]
        more = more or cut or len(kept) > room
        for each in kept[:room]:
            found.append(_Found((*folder, each.name), each.kind, each.size))
            if each.kind == "folder":
                folders.append((*folder, each.name))
    return sorted(found), more


def _chosen(item: Item, found: list[_Found], workspace: Workspace) -> list[Parts]:
    """The files whose beginnings are shown: those that the item names, else those that tell most."""
    if item.include_files:
        named = dict.fromkeys(workspace.parts_of(name) for name in item.include_files)
        return list(named)[: item.limits.max_files or None]
    files = [each.parts for each in found if each.kind == "file" and _is_text_name(each.parts[-1].lower())]
    files.sort(key=lambda parts: (not parts[-1].lower().startswith("readme"), len(parts), parts))
    return files[: item.limits.max_files]


def _is_text_name(name: str) -> bool:
    return (name.endswith(_TEXT_ENDS) or name in _TEXT_NAMES) and not _is_secret_name(name)


def _is_secret_name(name: str) -> bool:
    return name in _SECRET_FILES or name.startswith(".env") or name.endswith(_SECRET_ENDS)


def _tree(found: Sequence[_Found], *, more: bool) -> str:
    """A folder as lines: a file by its path, a folder with a slash, a link with an at sign."""
    signs = {"folder": "/", "link": "@", "other": "?"}
    lines = [shown(each.parts) + signs.get(each.kind, "") for each in found[:_MOST_LINES]]
    kept = truncated("\n".join(lines), _TREE_CHARS, mark="")
    if len(kept) < len("\n".join(lines)) and "\n" in kept:
        kept = kept[: kept.rindex("\n")]  # no half names
    return f"{kept}\n{_MORE}" if more or kept.count("\n") + 1 < len(found) else kept


def _excerpt(reads: Mapping[Parts, Beginning | None], item: Item, options: Options) -> str:
    """The beginnings of files, within the limits of an item."""
    most = limit_of(item, options)
    pieces: list[str] = []
    room = most
    for parts, read in reads.items():
        piece = _piece(parts, read, item.limits.max_chars, options)
        if room <= 0:
            break
        pieces.append(truncated(piece, room))
        room -= len(piece) + 2
    return truncated("\n\n".join(pieces), most)


def _piece(parts: Parts, read: Beginning | None, most: int, options: Options) -> str:
    name = shown(parts)
    if read is None:
        return f"File: {name} (not readable)"
    if _is_secret_name(parts[-1].lower()):
        return f"File: {name} ({read.size} bytes, not shown)"
    text = _text(read.data)
    if text is None:
        return f"File: {name} ({read.size} bytes, binary)"
    # What is secret goes before anything is cut: half a secret is not recognised.
    text = options.redact(plain(text))
    return f"File: {name} ({read.size} bytes)\n{truncated(text, most) if most else text}"


def plain(text: str) -> str:
    """A text without characters that no database keeps."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _text(data: bytes) -> str | None:
    """The text of a file's beginning; None where it is none."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)  # the last character may be cut
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    return text if text.count("\ufffd") * 20 < len(text) else None


def limit_of(item: Item, options: Options) -> int:
    """How many characters an item's content may have."""
    return item.limits.max_total_chars or options.item_chars
