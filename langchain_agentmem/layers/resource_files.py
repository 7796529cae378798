"""The file that names an agent's resources, and what can be seen of them.

    local:
      - {name: data, host_path: data, mount_path: /workspace/input/data}
    github:
      - {name: solver, repo: https://github.com/example/solver, ref: v1.2, dest: /workspace/solver, as: library}
    huggingface:
      - {name: small, type: model, repo_id: example/small, revision: main, dest: /workspace/small}
    items:
      - {name: baseline, class: template, source: local, resource: data, path: baseline, include_files: [main.c]}

It is YAML or JSON. An item may name its source at once (`{class: github, repo: example/solver}`,
`{class: local_data, path: notes.md}`), and a source that no item speaks of is one itself. What a file says is checked
before anything is looked at; unknown keys are ignored.

Nothing is read outside of the workspace, whatever paths and links say. A path is resolved first, links included, and
checked. Then each step of it is opened below the one before it, and never through a link, so that a link which others
put there meanwhile does not lead out either. Systems that cannot open below a folder (Windows) open the resolved path.

A folder is listed to a certain depth, a link is named and not followed, and what only tools write (`.git`,
`node_modules`) is left out. Secrets are removed before anything is cut, since half a secret is not recognised; files
that are known to hold some are named and not shown.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import heapq
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import yaml

from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.layers.compression import truncated

T = TypeVar("T")

SourceKind: TypeAlias = Literal["local", "github", "huggingface"]

CLASSES: dict[SourceKind, str] = {"local": "local_data", "github": "github", "huggingface": "huggingface"}
"""The class that a snapshot gives an item, by where it comes from."""

KINDS = ("template", "setup", "document", "library", "dataset", "model")
"""The classes that a file may give an item, beside those of `CLASSES`."""

_TABLES = data_table("layers/resource_tables.yaml")
SOURCE_KEYS: Mapping[SourceKind, Mapping[str, Sequence[str]]] = _TABLES["sources"]
"""What a file calls the attributes of a `ResourceSource`; the first name is the usual one."""

_SOURCE_NAMES: Mapping[str, SourceKind] = {each: each for each in CLASSES} | {"local_data": "local"}
_KIND_OF_USE: Mapping[str, str] = _TABLES["kinds_of_use"]
LARGEST = 500_000
_LONGEST = 1_000
_LONGEST_ID = 480
"""So that a tag has room for it."""
_WANTED = {str: "a text", bool: "true or false", int: "a whole number, 0 or more"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcerptLimits:
    """How much of an item is shown.

    Attributes:
        include_tree: Whether its files are listed.
        include_content: Whether their beginnings are shown.
        max_files: Of how many files.
        max_chars: How many characters of each; 0 for all that fits into the item.
        max_total_chars: How many of all together; 0 for all that fits into the item.
    """

    include_tree: bool = False
    include_content: bool = False
    max_files: int = 4
    max_chars: int = 3_000
    max_total_chars: int = 8_000


LIMITS = {kind: ExcerptLimits(**limits) for kind, limits in _TABLES["limits"].items()}
"""How much is shown where an item does not say; of libraries, data sets and models, nothing is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceSource:
    """Where items come from.

    Attributes:
        source: What kind of place.
        name: What items call it; empty for the workspace itself.
        host_path: A local folder, relative to the resource file or absolute.
        mount_path: Where the agent sees it; empty for no other place. The `dest` of repositories.
        repo: The repository, its address or `owner/name`.
        ref: Which commit, tag, branch or revision; empty for the newest.
        use: The `as` or `type` of the file: "library", "data", "model" or "dataset"; empty if it says nothing.
        read_only: Whether the agent may only read it. Default True.
    """

    source: SourceKind
    name: str = ""
    host_path: str = ""
    mount_path: str = ""
    repo: str = ""
    ref: str = ""
    use: str = ""
    read_only: bool = True

    def as_written(self) -> dict[str, Any]:
        """What a resource file says of it, by the usual names."""
        return {names[0]: getattr(self, key) for key, names in SOURCE_KEYS[self.source].items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A file or folder of a source.

    Attributes:
        id: `class:name:source:resource:path`.
        name: What it is called.
        kind: One of `KINDS`; empty where the file only says where it comes from.
        source: Where it comes from.
        path: Where it lies there; "." for the whole.
        notes: What the file says of it.
        include_files: The files that are shown; empty for a choice.
        limits: How much of it is shown.
    """

    id: str
    name: str
    kind: str
    source: ResourceSource
    path: str = "."
    notes: str = ""
    include_files: tuple[str, ...] = ()
    limits: ExcerptLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceFile:
    """What a resource file says.

    Attributes:
        folder: Where it lies.
        sha: The SHA-256 of its bytes, in hexadecimal.
        sources: What it names, by kind and name.
        items: Its items, by id.
    """

    folder: str
    sha: str
    sources: tuple[ResourceSource, ...] = field(default=())
    items: tuple[Item, ...] = field(default=())


def read_resource_file(path: Any) -> ResourceFile:
    """Read a resource file.

    Args:
        path: Where it lies.

    Raises:
        InvalidInput: It cannot be read, is neither YAML nor JSON, or says what cannot be. The message names the place.
    """
    file = path_of_file(path)
    name = safe_repr(str(file))
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise InvalidInput(f"The resource file {name} cannot be read: {error.strerror or error}.") from error
    if len(data) > LARGEST:
        raise InvalidInput(f"The resource file {name} has more than {LARGEST:,} bytes.")
    said = _parsed(data, file.name)
    if isinstance(said, list):
        said = {"items": said}
    if not isinstance(said, Mapping):
        raise InvalidInput(f"The resource file {name} must hold an object with local, github, huggingface, items.")
    sources = [_source(entry, kind, where) for kind in CLASSES for where, entry in _entries(said, kind)]
    named = _unique("name", (((each.source, each.name), each) for each in sources))
    items = [_item(entry, named, where) for where, entry in _entries(said, "items" if "items" in said else "resources")]
    used = {(item.source.source, item.source.name) for item in items}
    items += [_whole(source) for key, source in named.items() if key not in used]
    by_id = _unique("id", ((item.id, item) for item in items))
    if too_long := [key for key in by_id if len(key) > _LONGEST_ID]:
        raise InvalidInput(f"The id {safe_repr(too_long[0])} has more than {_LONGEST_ID} characters. Shorten its name.")
    return ResourceFile(
        folder=os.path.realpath(file.parent),
        sha=hashlib.sha256(data).hexdigest(),
        sources=tuple(named[key] for key in sorted(named)),
        items=tuple(by_id[key] for key in sorted(by_id)),
    )


def _parsed(data: bytes, name: str) -> Any:
    try:
        text = data.decode("utf-8-sig")
        if not name.lower().endswith((".yaml", ".yml")):
            try:
                return json.loads(text)
            except ValueError:
                if name.lower().endswith(".json"):
                    raise
        return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InvalidInput(f"The resource file {safe_repr(name)} is neither JSON nor YAML: {error!s:.300}") from error


def _entries(said: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of a list, each with its place."""
    entries = said.get(key)
    if entries is not None and not isinstance(entries, list):
        raise InvalidInput(f"{key} of a resource file must be a list, not {safe_repr(entries)}.")
    for number, entry in enumerate(entries or ()):
        if not isinstance(entry, Mapping):
            raise InvalidInput(f"{key}[{number}] of a resource file must be an object, not {safe_repr(entry)}.")
        yield f"{key}[{number}]", entry


def _unique(what: str, given: Iterable[tuple[Any, T]]) -> dict[Any, T]:
    found: dict[Any, T] = {}
    for key, each in given:
        if key in found:
            raise InvalidInput(f"Two entries of the resource file have the {what} {safe_repr(key)}.")
        found[key] = each
    return found


def _source(entry: Mapping[str, Any], source: SourceKind, where: str) -> ResourceSource:
    keys, plain = SOURCE_KEYS[source], ResourceSource(source=source)
    values = {key: _value(entry, names, where, getattr(plain, key)) for key, names in keys.items()}
    made = ResourceSource(source=source, **values | {"use": values.get("use", "").lower()})
    for key in ("name", "host_path", "repo"):
        if key in keys and not values[key]:
            raise InvalidInput(f"{where} of the resource file has no {keys[key][0]}.")
    if made.use:
        _one_of(made.use, _KIND_OF_USE, f"The use of {where}")
    if made.mount_path and not made.mount_path.startswith("/"):
        raise InvalidInput(f"{where} is mounted at {safe_repr(made.mount_path)}, which is not absolute.")
    return made


def _item(entry: Mapping[str, Any], named: Mapping[tuple[str, str], ResourceSource], where: str) -> Item:
    written = _text(entry, "class", where).lower()
    kind = "" if written in _SOURCE_NAMES else written
    if kind:
        _one_of(kind, KINDS, f"The class of {where}", *CLASSES.values())
    source = _source_of(entry, _SOURCE_NAMES.get(written), named, where)
    path = _text(entry, "path", where)
    if not path and source.source == "local" and not source.name:
        raise InvalidInput(f"{where} of the resource file has no path.")
    path = path or "."
    last = path.rstrip("/") if path != "." else source.name or source.repo
    name = _text(entry, "name", where) or last.rpartition("/")[2]
    named_files = [] if entry.get("include_files") is None else entry["include_files"]
    if not (isinstance(named_files, list) and all(isinstance(each, str) for each in named_files)):
        raise InvalidInput(f"include_files of {where} must be a list of paths, not {safe_repr(named_files)}.")
    usual = {each.name: getattr(LIMITS.get(kind, ExcerptLimits()), each.name) for each in fields(ExcerptLimits)}
    usual["include_content"] |= bool(named_files)
    return Item(
        id=f"{written or CLASSES[source.source]}:{name}:{source.source}:{source.name or source.repo}:{path}",
        name=name,
        kind=kind,
        source=source,
        path=path,
        notes=" ".join(_value(entry, ("notes", "description"), where, "", most=10 * _LONGEST).split()),
        include_files=tuple(named_files),
        limits=ExcerptLimits(**{key: _value(entry, (key,), where, default) for key, default in usual.items()}),
    )


def _source_of(
    entry: Mapping[str, Any], told: SourceKind | None, named: Mapping[tuple[str, str], ResourceSource], where: str
) -> ResourceSource:
    said = _text(entry, "source", where).lower()
    if said:
        _one_of(said, _SOURCE_NAMES, f"The source of {where}")
    kind = _SOURCE_NAMES.get(said) or told
    if resource := _text(entry, "resource", where):
        found = [source for (of, name), source in named.items() if name == resource and kind in (None, of)]
        if len(found) != 1:
            fault = "several" if found else "no"
            raise InvalidInput(
                f"{where} is of the resource {safe_repr(resource)}, and there is {fault} {kind or 'such'} one "
                "with that name in the file. Give its name, or leave out resource and give repo or repo_id."
            )
        return found[0]
    kind = kind or ("huggingface" if "repo_id" in entry else "github" if "repo" in entry else "local")
    if kind == "local":
        return ResourceSource(source=kind)
    repo = _value(entry, SOURCE_KEYS[kind]["repo"], where, "")
    if not repo:
        raise InvalidInput(f"{where} names neither a resource nor a repository.")
    return ResourceSource(source=kind, repo=repo, ref=_value(entry, ("ref", "revision"), where, ""))


def _whole(source: ResourceSource) -> Item:
    """A source that no item speaks of."""
    kind = _KIND_OF_USE.get(source.use, "")
    key = f"{kind or CLASSES[source.source]}:{source.name}:{source.source}:{source.name}:."
    return Item(id=key, name=source.name, kind=kind, source=source, limits=LIMITS.get(kind, ExcerptLimits()))


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    return str(_value(entry, (key,), where, ""))


def _value(entry: Mapping[str, Any], names: Sequence[str], where: str, default: Any, *, most: int = _LONGEST) -> Any:
    """A value of an entry, of the type of its default; the first that is given under one of some names."""
    for name in names:
        value = entry.get(name)
        if value is None:
            continue
        fits = type(value) is type(default) and not (isinstance(value, int) and value < 0)
        if not fits:
            hint = " Put it in quotes." if isinstance(default, str) else ""
            wanted = _WANTED[type(default)]
            raise InvalidInput(f"{name} of {where} must be {wanted}, not {safe_repr(value)}.{hint}")
        if not isinstance(value, str):
            return value
        if len(value) > most or (most == _LONGEST and not value.isprintable()):
            fault = "is too long, or has characters that cannot be shown"
            raise InvalidInput(f"{name} of {where} {fault}: {safe_repr(value)}.")
        if value := value.strip():
            return value
    return default


def _one_of(value: str, known: Iterable[str], what: str, *more: str) -> None:
    if value not in known:
        raise InvalidInput(f"{what} is {safe_repr(value, 50)}: say one of {', '.join([*known, *more])}.")


Parts: TypeAlias = tuple[str, ...]

OPENS_BELOW = {os.open, os.stat} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""Whether the system can open a file below an open folder."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # what was replaced by a pipe does not keep us waiting
)
_CHUNK = 1 << 16


class Unreachable(AgentMemoryError):
    """There is nothing here that may be read."""


class FolderEntry(NamedTuple):
    """What lies in a folder, or below it."""

    parts: Parts
    kind: Literal["file", "folder", "link", "other"]
    size: int


class Beginning(NamedTuple):
    """The beginning of a file.

    Attributes:
        data: Its first bytes.
        size: How many it has in all.
        sha: The SHA-256 of as many of them as were looked at.
    """

    data: bytes
    size: int
    sha: str


class Workspace:
    """A folder that nothing is read outside of.

    Args:
        root: The folder. It may be reached through links itself.

    Raises:
        Unreachable: It is no folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        self._given = Path(os.path.abspath(root))  # noqa: PTH100
        if not self.root.is_dir():
            raise Unreachable(f"There is no folder {safe_repr(str(self._given))}.")

    def parts_of(self, path: str, below: Parts = ()) -> Parts:
        """A path as its steps from the root.

        Args:
            path: Relative, or absolute and within the root.
            below: The steps of the folder that a relative path begins in.

        Raises:
            Unreachable: It leads out of the root, or goes up.
        """
        if Path(path).is_absolute():
            root = next((each for each in (self.root, self._given) if Path(path).is_relative_to(each)), None)
            if root is None:
                raise Unreachable(f"{safe_repr(path)} is outside of the workspace.")
            steps = Path(path).relative_to(root).parts
        else:
            steps = (*below, *(step for step in path.replace(os.sep, "/").split("/") if step not in ("", ".")))
        if ".." in steps or "\0" in path:
            raise Unreachable(f"{safe_repr(path)} goes up, and could lead out of the workspace.")
        return steps

    def kind(self, parts: Parts) -> Literal["file", "folder"]:
        """What lies at a place.

        Raises:
            Unreachable: Nothing does that may be read.
        """
        with self._opened(parts) as at:
            return "folder" if stat.S_ISDIR(os.stat(at).st_mode) else "file"  # noqa: PTH116

    def entries(self, parts: Parts, most: int) -> tuple[list[FolderEntry], bool]:
        """What lies in a folder, by name.

        Args:
            parts: The folder.
            most: How many entries are given, the first.

        Returns:
            The entries, and whether there are more.

        Raises:
            Unreachable: It cannot be read.
        """
        with self._opened(parts) as at, os.scandir(at) as found:
            first = heapq.nsmallest(most + 1, found, key=lambda entry: entry.name)
            return [_entry(each) for each in first[:most]], len(first) > most

    def beginning(self, parts: Parts, most: int, hashed: int) -> Beginning:
        """The beginning of a file.

        Args:
            parts: The file.
            most: How many bytes are given.
            hashed: How many bytes are looked at.

        Raises:
            Unreachable: It cannot be read, or is none.
        """
        with self._opened(parts) as at:
            # What is open was looked at before it was opened, and may be something else by now.
            if not stat.S_ISREG((now := os.stat(at)).st_mode):  # noqa: PTH116
                raise Unreachable("It is not a file.")
            with open(os.dup(at) if isinstance(at, int) else at, "rb") as file:  # noqa: PTH123
                digest, kept, seen = hashlib.sha256(), bytearray(), 0
                while seen < hashed and (chunk := file.read(min(_CHUNK, hashed - seen))):
                    digest.update(chunk)
                    kept += chunk[: max(0, most - len(kept))]
                    seen += len(chunk)
            return Beginning(bytes(kept), now.st_size, digest.hexdigest())

    @contextlib.contextmanager
    def _opened(self, parts: Parts) -> Iterator[int | str]:
        """What lies at a place: an open file or folder, or its path where nothing can be opened below a folder."""
        path = Path(os.path.realpath(self.root.joinpath(*parts)))
        if not path.is_relative_to(self.root):
            raise Unreachable("A link leads out of the workspace.")
        try:
            if not (stat.S_ISREG(mode := path.stat().st_mode) or stat.S_ISDIR(mode)):
                raise Unreachable("It is neither a file nor a folder.")
            if not OPENS_BELOW:
                yield str(path)
                return
            with contextlib.ExitStack() as way:
                at = os.open(self.root, _FLAGS)
                way.callback(os.close, at)
                for step in path.relative_to(self.root).parts:
                    at = os.open(step, _FLAGS, dir_fd=at)
                    way.callback(os.close, at)
                yield at
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unreachable("There is nothing at this path.") from error
        except OSError as error:
            raise Unreachable(f"It cannot be read: {error.strerror or error}.") from error


def under(path: str, mount: str) -> str | None:
    """What is left of a path below a mount, step by step; None where it does not lie there.

    Args:
        path: `/workspace/data/a.txt`.
        mount: `/workspace`; `/workspace2` is not below it.
    """
    try:
        return str(PurePosixPath(path).relative_to(PurePosixPath(mount)))
    except ValueError:
        return None


def shown(parts: Sequence[str]) -> str:
    """A path as text, in which every character can be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in "/".join(parts))


def _entry(found: os.DirEntry[str]) -> FolderEntry:
    with contextlib.suppress(OSError):  # it may be gone
        if found.is_symlink():
            return FolderEntry((found.name,), "link", 0)
        if found.is_dir(follow_symlinks=False):
            return FolderEntry((found.name,), "folder", 0)
        if found.is_file(follow_symlinks=False):
            return FolderEntry((found.name,), "file", found.stat(follow_symlinks=False).st_size)
    return FolderEntry((found.name,), "other", 0)


ITEM_CHARS = 6_000
"""How many characters are kept of an item in memory."""

IGNORED = frozenset(_TABLES["ignored"].split())
"""What is neither listed nor looked into."""

_SECRET_FILES, _SECRET_ENDS = _TABLES["secret_files"].split(), tuple(_TABLES["secret_ends"].split())
_TEXT_NAMES, _TEXT_ENDS = _TABLES["text_names"].split(), tuple(_TABLES["text_ends"].split())

_MOST_ENTRIES = 2_000
_MOST_IN_FOLDER = 500
_DEEPEST = 8
_MOST_LINES = 200
_TREE_CHARS = 2_000
_READ = 1 << 18
_HASHED = 1 << 23
_MORE = "\u2026 and more"


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
class SeenFile:
    """What was seen of an item.

    Attributes:
        status: "pending", "available" or "failed".
        tree: What lies in it.
        excerpt: How its files begin.
        reason: Why it is not available, or not whole.
        found: All that its digest depends on.
    """

    status: str
    tree: str = ""
    excerpt: str = ""
    reason: str = ""
    found: Any = None


def look(item: Item, workspace: Workspace, parts: Parts, options: Options) -> SeenFile:
    """What can be seen of an item that lies in a workspace.

    Args:
        item: The item.
        workspace: Where it lies.
        parts: The steps to it.
        options: What is shown.

    Raises:
        Unreachable: It cannot be read.
    """
    limits = item.limits
    if workspace.kind(parts) == "file":
        read = workspace.beginning(parts, _READ, _HASHED)
        excerpt = _excerpt({parts[-1:]: read}, item, options) if limits.include_content else ""
        return SeenFile(status="available", excerpt=excerpt, found={"file": [read.size, read.sha]})
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
    return SeenFile(
        status="available",
        tree=tree,
        excerpt=_excerpt(reads, item, options),
        reason=reason,
        found={
            "tree": [[shown(each.parts), each.kind, each.size] for each in found],
            "files": {shown(each): read and [read.size, read.sha] for each, read in reads.items()},
        },
    )


def _walked(workspace: Workspace, root: Parts, ignored: frozenset[str]) -> tuple[list[FolderEntry], bool]:
    """What lies in a folder and below it, by path, and whether there is more. Links are named, and not followed."""
    found: list[FolderEntry] = []
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
        kept = [each._replace(parts=folder + each.parts) for each in entries if each.parts[0] not in ignored]
        more = more or cut or len(kept) > room
        found += kept[:room]
        folders += [each.parts for each in kept[:room] if each.kind == "folder"]
    return sorted(found), more


def _chosen(item: Item, found: list[FolderEntry], workspace: Workspace) -> list[Parts]:
    """The files whose beginnings are shown: those that the item names, else those that tell most."""
    if item.include_files:
        named = dict.fromkeys(workspace.parts_of(name) for name in item.include_files)
        return list(named)[: item.limits.max_files or None]
    texts = [each.parts for each in found if each.kind == "file" and _is_text_name(each.parts[-1].lower())]
    texts.sort(key=lambda parts: (not parts[-1].lower().startswith("readme"), len(parts), parts))
    return texts[: item.limits.max_files]


def _is_text_name(name: str) -> bool:
    return (name.endswith(_TEXT_ENDS) or name in _TEXT_NAMES) and not _is_secret_name(name)


def _is_secret_name(name: str) -> bool:
    return name in _SECRET_FILES or name.startswith(".env") or name.endswith(_SECRET_ENDS)


def _tree(found: Sequence[FolderEntry], *, more: bool) -> str:
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
    text = _excerpt_text(read.data)
    if text is None:
        return f"File: {name} ({read.size} bytes, binary)"
    # What is secret goes before anything is cut: half a secret is not recognised.
    text = options.redact(plain(text))
    return f"File: {name} ({read.size} bytes)\n{truncated(text, most) if most else text}"


def plain(text: str) -> str:
    """A text without characters that no database keeps."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _excerpt_text(data: bytes) -> str | None:
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
