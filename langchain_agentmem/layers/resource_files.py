"""Resource files: the file that names an agent's resources, and excerpts of what it names.

    local:
      - {name: data, host_path: data, mount_path: /workspace/input/data}
    github:
      - {name: solver, repo: https://github.com/example/solver, ref: v1.2, dest: /workspace/solver, as: library}
    huggingface:
      - {name: small, type: model, repo_id: example/small, revision: main, dest: /workspace/small}
    items:
      - {name: baseline, class: template, source: local, resource: data, path: baseline, include_files: [main.c]}

A resource file is YAML or JSON. An item may name its source directly (`{class: github, repo: example/solver}`,
`{class: local_data, path: notes.md}`), and a source that no item names is an item itself. The file is checked before
anything is read; unknown keys are ignored.

Nothing outside of the workspace is read: each path is resolved first, links included, and checked. A link in a folder
is listed and not followed. Folders that only tools write (`.git`, `node_modules`) are left out. Secrets are removed
before a text is cut, since half a secret is not recognized; files that usually hold secrets are listed and not shown.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

from langchain_agentmem.base.data_tables import data_table, read_yaml
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.options import check_value, describe_fault
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.layers.compression import truncated

T = TypeVar("T")

SourceKind: TypeAlias = Literal["local", "github", "huggingface"]

CLASSES: dict[SourceKind, str] = {"local": "local_data", "github": "github", "huggingface": "huggingface"}
"""The class of an item in a snapshot, by its source."""
LARGEST = 500_000

_TABLES = data_table("layers/resource_tables.yaml")
_SOURCES: Mapping[str, SourceKind] = {**{each: each for each in CLASSES}, "local_data": "local"}
_LONGEST_ID = 480
"""The longest id of an item, which has to fit into a tag."""
_OURS = ("id", "place")


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"The text {safe_repr(text)} has characters that cannot be shown.")
    return text


_lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
Line: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=1_000), AfterValidator(_check_printable)
]
Notes: TypeAlias = Annotated[
    str, StringConstraints(max_length=10_000), AfterValidator(lambda text: " ".join(text.split()))
]
SourceName: TypeAlias = Annotated[Literal["local", "github", "huggingface", "local_data"], _lower]
ItemKind: TypeAlias = Annotated[
    Literal["template", "setup", "document", "library", "dataset", "model", "local_data", "github", "huggingface", ""],
    _lower,
]


class _Entry(BaseModel):
    """An entry of a resource file, without its nulls, empty texts and keys that are ours. Unknown keys are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, entry: dict[Any, Any]) -> dict[Any, Any]:
        return {name: value for name, value in entry.items() if value not in (None, "") and name not in _OURS}


class ResourceSource(_Entry):
    """A place that items come from.

    Attributes:
        source: The kind of place.
        name: The name by which items refer to it; empty for the workspace.
        host_path: A local folder, relative to the resource file or absolute.
        mount_path: The path by which the agent sees it; empty for no other path. The `dest` of repositories.
        repo: The repository: its address or `owner/name`.
        ref: The commit, tag, branch or revision; empty for the newest.
        use: The `as` or `type` in the file: "library", "data", "model", "dataset", or empty.
        read_only: Whether the agent may only read it. Default: True.
    """

    source: SourceKind
    name: Line = ""
    host_path: Line = Field(default="", validation_alias=AliasChoices("host_path", "path"))
    mount_path: Line = Field(default="", validation_alias=AliasChoices("mount_path", "dest"), pattern="^(/|$)")
    repo: Line = Field(default="", validation_alias=AliasChoices("repo", "repo_id", "url"))
    ref: Line = Field(default="", validation_alias=AliasChoices("ref", "revision"))
    use: Annotated[Literal["library", "data", "dataset", "model", ""], _lower] = Field(
        default="", validation_alias=AliasChoices("as", "type")
    )
    read_only: bool = True


class Item(_Entry):
    """A file or folder of a source.

    Attributes:
        id: `class:name:source:resource:path`; empty until the source is known.
        name: Its name.
        kind: Its class; empty where the file names only the source.
        source: The kind of its source, where the file names it.
        resource: The name of its source, or its repository.
        repo: The repository, of an item that names no source.
        ref: The commit, tag, branch or revision of that.
        path: Its path there; "." for all of the source.
        notes: The notes in the file.
        include_files: The files that are shown; empty for a choice.
        include_tree: Whether its files are listed.
        include_content: Whether the beginnings of its files are shown.
        max_files: The most files that are shown.
        max_chars: The most characters of each; 0 for all that fit into the item.
        max_total_chars: The most characters of all together; 0 for `ITEM_CHARS`.
        place: Its source; the workspace until that is known.
    """

    id: str = ""
    name: Line = ""
    kind: ItemKind = Field(default="", validation_alias="class")
    source: SourceName | None = None
    resource: Line = ""
    repo: Line = Field(default="", exclude=True)
    repo_id: Line = Field(default="", exclude=True)
    ref: Line = Field(default="", validation_alias=AliasChoices("ref", "revision"), exclude=True)
    path: Line = ""
    notes: Notes = Field(default="", validation_alias=AliasChoices("notes", "description"))
    include_files: list[str] = []
    include_tree: bool = False
    include_content: bool = False
    max_files: NonNegativeInt = 4
    max_chars: NonNegativeInt = 3_000
    max_total_chars: NonNegativeInt = 8_000
    place: ResourceSource = Field(default=ResourceSource(source="local"), exclude=True)


EntryT = TypeVar("EntryT", bound=_Entry)


class ResourceFile(NamedTuple):
    """The content of a resource file.

    Attributes:
        folder: The folder of the file, with links resolved.
        sha: The SHA-256 of its bytes, in hexadecimal.
        sources: Its sources, by kind and name.
        items: Its items, by id.
    """

    folder: Path
    sha: str
    sources: list[ResourceSource]
    items: list[Item]


def read_resource_file(path: Any) -> ResourceFile:
    """Read a resource file.

    Args:
        path: The path of the file.

    Raises:
        InvalidInput: The file cannot be read, is neither YAML nor JSON, or holds a wrong entry, which is named.
    """
    file = path_of_file(path)
    shown = safe_repr(str(file))
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise InvalidInput(f"The resource file {shown} cannot be read: {error.strerror or error}.") from error
    if len(data) > LARGEST:
        raise InvalidInput(f"The resource file {shown} has more than {LARGEST:,} bytes.")
    content = _parsed(data, shown)
    if isinstance(content, list):
        content = {"items": content}
    if not isinstance(content, Mapping):
        raise InvalidInput(f"The resource file {shown} must hold an object with local, github, huggingface, items.")
    sources = [_source(entry, kind, where) for kind in CLASSES for where, entry in _entries(content, kind)]
    named = _unique("name", (((each.source, each.name), each) for each in sources))
    key = "items" if "items" in content else "resources"
    items = [_item(entry, named, where) for where, entry in _entries(content, key)]
    used = {(item.place.source, item.place.name) for item in items}
    for (kind, name), source in named.items():
        if (kind, name) not in used:
            whole = {"source": kind, "resource": name, "class": _TABLES["kinds_of_use"].get(source.use, "")}
            items.append(_item(whole, named, name))
    by_id = _unique("id", ((item.id, item) for item in items))
    if too_long := [key for key in by_id if len(key) > _LONGEST_ID]:
        raise InvalidInput(f"The id {safe_repr(too_long[0])} has more than {_LONGEST_ID} characters. Shorten its name.")
    return ResourceFile(
        Path(os.path.realpath(file.parent)),
        hashlib.sha256(data).hexdigest(),
        [named[key] for key in sorted(named)],
        [by_id[key] for key in sorted(by_id)],
    )


def _parsed(data: bytes, shown: str) -> Any:
    try:
        text = data.decode("utf-8-sig")
        with suppress(ValueError):
            return json.loads(text)
        return read_yaml(text)
    except (ValueError, RecursionError, InvalidInput) as error:
        raise InvalidInput(f"The resource file {shown} is neither JSON nor YAML: {error!s:.300}") from error


def _entries(content: Mapping[str, Any], key: str) -> list[tuple[str, dict[Any, Any]]]:
    """Return the entries of a list, each with its place."""
    entries = check_value(list[dict[Any, Any]] | None, content.get(key), key) or ()
    return [(f"{key}[{number}]", entry) for number, entry in enumerate(entries)]


def _unique(what: str, given: Iterable[tuple[Any, T]]) -> dict[Any, T]:
    found: dict[Any, T] = {}
    for key, each in given:
        if key in found:
            raise InvalidInput(f"Two entries of the resource file have the {what} {safe_repr(key)}.")
        found[key] = each
    return found


def _checked(kind: type[EntryT], entry: Mapping[str, Any], where: str) -> EntryT:
    try:
        return kind.model_validate(entry)
    except ValidationError as error:
        raise InvalidInput(f"{where} of the resource file is wrong: {describe_fault(error)}") from error


def _source(entry: Mapping[str, Any], kind: SourceKind, where: str) -> ResourceSource:
    made = _checked(ResourceSource, {**entry, "source": kind}, where)
    for key in ("name", "host_path" if kind == "local" else "repo"):
        if not getattr(made, key):
            raise InvalidInput(f"{where} of the resource file has no {key}.")
    return made


def _item(entry: Mapping[str, Any], named: Mapping[tuple[str, str], ResourceSource], where: str) -> Item:
    item = _checked(Item, entry, where)
    place = _place_of(item, named, where)
    origin, path = place.name or place.repo, item.path or "."
    if not item.path and not origin:
        raise InvalidInput(f"{where} of the resource file has no path.")
    name = item.name or (origin if path == "." else path).rstrip("/").rpartition("/")[2]
    kind = "" if item.kind in _SOURCES else item.kind
    limits = {"include_content": bool(item.include_files), **_TABLES["limits"].get(kind, {})}
    found = {
        "id": f"{item.kind or CLASSES[place.source]}:{name}:{place.source}:{origin}:{path}",
        "name": name,
        "kind": kind,
        "source": place.source,
        "resource": origin,
        "path": path,
        "place": place,
    }
    return item.model_copy(update={**limits, **item.model_dump(include=item.model_fields_set & {*limits}), **found})


def _place_of(item: Item, named: Mapping[tuple[str, str], ResourceSource], where: str) -> ResourceSource:
    kind = _SOURCES.get(item.source or item.kind)
    if item.resource:
        found = [source for (of, name), source in named.items() if name == item.resource and kind in (None, of)]
        if len(found) != 1:
            fault = "several" if found else "no"
            raise InvalidInput(
                f"{where} is of the resource {safe_repr(item.resource)}, and there is {fault} {kind or 'such'} one "
                "with that name in the file. Give its name, or leave out resource and give repo or repo_id."
            )
        return found[0]
    repo = item.repo_id or item.repo
    kind = kind or ("huggingface" if item.repo_id else "github" if repo else "local")
    if kind != "local" and not repo:
        raise InvalidInput(f"{where} names neither a resource nor a repository.")
    return ResourceSource(source=kind, repo="" if kind == "local" else repo, ref="" if kind == "local" else item.ref)


ITEM_CHARS = 6_000
"""The most characters of an item that are kept in memory."""

_IGNORED = frozenset(_TABLES["ignored"].split())
_SECRET_FILES, _SECRET_ENDS = _TABLES["secret_files"].split(), tuple(_TABLES["secret_ends"].split())
_TEXT_NAMES, _TEXT_ENDS = _TABLES["text_names"].split(), tuple(_TABLES["text_ends"].split())
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_SIGNS = {"folder": "/", "link": "@", "file": "", "other": "?"}

_MOST_ENTRIES = 2_000
_DEEPEST = 8
_MOST_LINES = 200
_TREE_CHARS = 2_000
_READ = 1 << 18
_HASHED = 1 << 23
_MORE = "\u2026 and more"


class Unreachable(AgentMemoryError):
    """There is nothing here that may be read."""


class FolderEntry(NamedTuple):
    """An entry of a folder or of one below it: a "file", a "folder", a "link" or something "other"."""

    parts: tuple[str, ...]
    kind: str
    size: int


class FileBeginning(NamedTuple):
    """The beginning of a file.

    Attributes:
        data: Its first bytes.
        size: Its size in bytes.
        sha: The SHA-256 of its first 8 MiB.
    """

    data: bytes
    size: int
    sha: str


class ItemExcerpt(NamedTuple):
    """The part of an item that a snapshot shows.

    Attributes:
        status: "pending", "available" or "failed".
        tree: A list of its files.
        excerpt: The beginnings of its files.
        reason: The reason why it is not available, or incomplete.
        found: Everything that its digest depends on.
    """

    status: str
    tree: str = ""
    excerpt: str = ""
    reason: str = ""
    found: Any = None


def read_item(item: Item, root: Path, path: Path, clean: Callable[[str], str]) -> ItemExcerpt:
    """Read the part of a local item that a snapshot shows.

    Args:
        item: The item.
        root: The workspace, with links resolved.
        path: The path of the item.
        clean: Removes secrets from a text.

    Raises:
        Unreachable: The item cannot be read, or is outside of the workspace.
    """
    path = _within(root, path)
    if path.is_file():
        read = _beginning(path)
        excerpt = _excerpt({path.name: read}, item, clean) if item.include_content else ""
        return ItemExcerpt("available", excerpt=excerpt, found={"file": [read.size, read.sha]})
    if not path.is_dir():
        raise Unreachable("There is no file or folder at this path.")
    found, more = _walked(path)
    reads: dict[str, FileBeginning | None] = {}
    reason = ""
    for name, file in _chosen(item, found, root, path) if item.include_content else ():
        try:
            reads[name] = _beginning(file)
        except Unreachable as error:
            reads[name] = None
            reason = reason or f"{name}: {error}"
    files = {name: read and [read.size, read.sha] for name, read in reads.items()}
    return ItemExcerpt(
        "available",
        tree=_tree(found, more=more) if item.include_tree else "",
        excerpt=_excerpt(reads, item, clean),
        reason=reason,
        found={"tree": [[_printable(each.parts), each.kind, each.size] for each in found], "files": files},
    )


def _within(root: Path, path: Path) -> Path:
    """Resolve a path, links included.

    Raises:
        Unreachable: It is outside of the workspace.
    """
    try:
        resolved = Path(os.path.realpath(path))
    except ValueError as error:
        raise Unreachable("This cannot be a path.") from error
    if not resolved.is_relative_to(root):
        raise Unreachable("It is outside of the workspace.")
    return resolved


def _beginning(path: Path) -> FileBeginning:
    try:
        if not path.is_file():  # a pipe would block
            raise Unreachable("There is no file at this path.")
        with path.open("rb") as file:
            data = file.read(_HASHED)
            return FileBeginning(data[:_READ], os.fstat(file.fileno()).st_size, hashlib.sha256(data).hexdigest())
    except OSError as error:
        raise Unreachable(f"It cannot be read: {error.strerror or error}.") from error


def _walked(root: Path) -> tuple[list[FolderEntry], bool]:
    """List a folder and the folders below it, and return whether there is more. Links are not followed."""
    found: list[FolderEntry] = []
    folders: list[tuple[str, ...]] = [()]
    more = False
    for folder in folders:  # grows meanwhile; the folders nearest to the root come first
        if len(found) >= _MOST_ENTRIES or len(folder) > _DEEPEST:
            more = True
            continue
        try:
            there = sorted(_entry(folder, each) for each in root.joinpath(*folder).iterdir())
        except OSError as error:
            if not folder:
                raise Unreachable(f"It cannot be read: {error.strerror or error}.") from error
            continue
        there = [each for each in there if each.parts[-1] not in _IGNORED]
        found += there
        folders += [each.parts for each in there if each.kind == "folder"]
    return sorted(found[:_MOST_ENTRIES]), more or len(found) > _MOST_ENTRIES


def _entry(folder: tuple[str, ...], path: Path) -> FolderEntry:
    status = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return FolderEntry((*folder, path.name), kind, status.st_size if kind == "file" else 0)


def _chosen(item: Item, found: Sequence[FolderEntry], root: Path, folder: Path) -> list[tuple[str, Path]]:
    """Return the files whose beginnings are shown, by name: those that the item names, else the most informative."""
    if item.include_files:
        named = [(_printable([each]), _within(root, folder / each)) for each in dict.fromkeys(item.include_files)]
        return named[: item.max_files or None]
    names = [(each.parts, each.parts[-1].lower()) for each in found if each.kind == "file"]
    texts = [parts for parts, name in names if name.endswith(_TEXT_ENDS) or name in _TEXT_NAMES]
    texts = [parts for parts in texts if not _is_secret_name(parts[-1].lower())]
    texts.sort(key=lambda parts: (not parts[-1].lower().startswith("readme"), len(parts), parts))
    return [(_printable(parts), folder.joinpath(*parts)) for parts in texts[: item.max_files]]


def _is_secret_name(name: str) -> bool:
    return name in _SECRET_FILES or name.startswith(".env") or name.endswith(_SECRET_ENDS)


def _tree(found: Sequence[FolderEntry], *, more: bool) -> str:
    """Format a folder as lines: a file by its path, a folder with a slash, a link with an at sign."""
    lines = [_printable(each.parts) + _SIGNS[each.kind] for each in found[:_MOST_LINES]]
    while sum(len(line) + 1 for line in lines) > _TREE_CHARS:
        lines.pop()
    return "\n".join([*lines, _MORE] if more or len(lines) < len(found) else lines)


def _excerpt(reads: Mapping[str, FileBeginning | None], item: Item, clean: Callable[[str], str]) -> str:
    """Format the beginnings of files, within the limits of an item."""
    most, text = item.max_total_chars or ITEM_CHARS, ""
    for name, read in reads.items():
        if len(text) < most:
            text += ("\n\n" if text else "") + _piece(name, read, item.max_chars, clean)
    return truncated(text, most)


def _piece(name: str, read: FileBeginning | None, most: int, clean: Callable[[str], str]) -> str:
    if read is None:
        return f"File: {name} (not readable)"
    if _is_secret_name(name.rpartition("/")[2].lower()):
        return f"File: {name} ({read.size} bytes, not shown)"
    text = _text_of(read.data)
    if text is None:
        return f"File: {name} ({read.size} bytes, binary)"
    text = clean(text)  # before it is cut, since half a secret is not recognized
    return f"File: {name} ({read.size} bytes)\n{truncated(text, most) if most else text}"


def _text_of(data: bytes) -> str | None:
    """Decode the beginning of a file; return None if it is binary."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").replace("\0", "\ufffd")  # no database keeps a NUL
    text = data.decode("utf-8-sig", "replace")
    if "\0" in text or text.count("\ufffd") * 20 > len(text):
        return None
    return text.rstrip("\ufffd")  # the last character may be cut


def below(path: str, mount: str) -> PurePosixPath:
    """Return the rest of a path below a mount, or the path if it is not below it.

    Args:
        path: `/workspace/data/a.txt`.
        mount: `/workspace`; `/workspace2` is not below it. "" for none.
    """
    whole = PurePosixPath(path)
    return whole.relative_to(mount) if mount and whole.is_relative_to(mount) else whole


def _printable(parts: Iterable[str]) -> str:
    """Format a path as text in which every character can be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in "/".join(parts))
