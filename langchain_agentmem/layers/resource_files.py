"""The file that names an agent's resources: folders of this machine, repositories, models and data sets (document 004).

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
before anything is looked at; keys that nobody knows are left out.

A folder that nothing is read outside of, whatever paths and links say.

Each step of a path is opened below the one before it, and never through a link: a link is read, and its target is
walked in the same way. So nothing that others change meanwhile leads out either. Where the system cannot open below a
folder (Windows), a path is resolved first and checked then.

What can be seen of a file or folder: what lies in it, and how its files begin.

A folder is listed to a certain depth, a link is named and not followed, and what only tools write (`.git`,
`node_modules`) is left out. Secrets go before anything is cut, since half a secret is not recognised; files that are
known to hold some are named and not shown.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import heapq
import json
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput
from langchain_agentmem.layers.compression import truncated

SourceKind: TypeAlias = Literal["local", "github", "huggingface"]

CLASSES: dict[SourceKind, str] = {"local": "local_data", "github": "github", "huggingface": "huggingface"}
"""The class that a snapshot gives an item, by where it comes from."""

KINDS = ("template", "setup", "document", "library", "dataset", "model")
"""The classes that a file may give an item, beside those of `CLASSES`."""

_SOURCE_NAMES = {"local_data": "local", "local": "local", "github": "github", "huggingface": "huggingface"}
_KIND_OF_USE = {"library": "library", "data": "dataset", "dataset": "dataset", "model": "model"}
_LARGEST = 500_000
_LONGEST = 1_000
_LONGEST_ID = 480
"""So that a tag has room for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much of an item is shown.

    Attributes:
        include_tree: Whether its files are listed.
        include_content: Whether their beginnings are shown.
        max_files: Of how many files.
        max_chars: How many characters of each; 0 for all that fits into the item.
        max_total_chars: How many of all together; 0 for all that fits into the item.
    """

    include_tree: bool
    include_content: bool
    max_files: int
    max_chars: int
    max_total_chars: int


_DOCUMENT = Limits(include_tree=False, include_content=True, max_files=4, max_chars=3_000, max_total_chars=8_000)
_TEMPLATE = Limits(include_tree=True, include_content=True, max_files=12, max_chars=3_500, max_total_chars=12_000)
_SETUP = Limits(include_tree=True, include_content=True, max_files=8, max_chars=3_000, max_total_chars=8_000)
_NOTHING = Limits(include_tree=False, include_content=False, max_files=4, max_chars=3_000, max_total_chars=8_000)
LIMITS = {"template": _TEMPLATE, "setup": _SETUP, "document": _DOCUMENT, "": _TEMPLATE}
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
    path: str
    notes: str
    include_files: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceFile:
    """What a resource file says.

    Attributes:
        name: Its name, without the folder.
        folder: Where it lies.
        sha: The SHA-256 of its bytes, in hexadecimal.
        sources: What it names, by kind and name.
        items: Its items, by id.
    """

    name: str
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
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        raise InvalidInput(
            f"The resource file {safe_repr(str(file))} cannot be read: {error.strerror or error}."
        ) from error
    if len(data) > _LARGEST:
        raise InvalidInput(f"The resource file {safe_repr(str(file))} has more than {_LARGEST:,} bytes.")
    said = _parsed(data, file.name)
    if isinstance(said, list):
        said = {"items": said}
    if not isinstance(said, Mapping):
        raise InvalidInput(
            f"The resource file {safe_repr(str(file))} must hold an object with local, github, huggingface, items."
        )
    sources = [
        _source(entry, kind, f"{kind}[{number}]")
        for kind in CLASSES
        for number, entry in enumerate(_entries(said, kind))
    ]
    named = _unique({(source.source, source.name): source for source in sources}, sources, "name")
    key = "items" if "items" in said else "resources"
    items = [_item(entry, named, f"{key}[{number}]") for number, entry in enumerate(_entries(said, key))]
    used = {(item.source.source, item.source.name) for item in items}
    items += [_whole(source) for key, source in named.items() if key not in used]
    by_id = _unique({item.id: item for item in items}, items, "id")
    for item in items:
        if len(item.id) > _LONGEST_ID:
            raise InvalidInput(
                f"The id {safe_repr(item.id)} has more than {_LONGEST_ID} characters. Give it a shorter name."
            )
    return ResourceFile(
        name=file.name,
        folder=os.path.realpath(file.parent),
        sha=hashlib.sha256(data).hexdigest(),
        sources=tuple(sorted(sources, key=lambda source: (source.source, source.name))),
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


def _entries(said: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = said.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise InvalidInput(f"{key} of a resource file must be a list, not {safe_repr(entries)}.")
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise InvalidInput(f"{key}[{number}] of a resource file must be an object, not {safe_repr(entry)}.")
    return entries


def _unique(found: dict[Any, Any], given: list[Any], what: str) -> dict[Any, Any]:
    if len(found) < len(given):
        seen: set[Any] = set()
        for each in given:
            name = each.id if isinstance(each, Item) else f"{each.source} {each.name}"
            if name in seen:
                raise InvalidInput(f"Two entries of the resource file have the {what} {safe_repr(name)}.")
            seen.add(name)
    return found


def _source(entry: Mapping[str, Any], source: SourceKind, where: str) -> ResourceSource:
    if source == "local":
        made = ResourceSource(
            source=source,
            name=_text(entry, "name", where),
            host_path=_text(entry, "host_path", where) or _text(entry, "path", where),
            mount_path=_text(entry, "mount_path", where),
            read_only=_flag(entry, "read_only", where, default=True),
        )
        needed = {"name": made.name, "host_path": made.host_path}
    else:
        github = source == "github"
        made = ResourceSource(
            source=source,
            name=_text(entry, "name", where),
            repo=_repo(entry, source, where),
            ref=_text(entry, "ref" if github else "revision", where),
            mount_path=_text(entry, "dest", where),
            use=_text(entry, "as" if github else "type", where).lower(),
        )
        needed = {"name": made.name, "repo" if github else "repo_id": made.repo}
        if made.use and made.use not in _KIND_OF_USE:
            raise InvalidInput(
                f"{where} of the resource file is used as {safe_repr(made.use, 50)}: say one of {_list(_KIND_OF_USE)}."
            )
    for key, value in needed.items():
        if not value:
            raise InvalidInput(f"{where} of the resource file has no {key}.")
    if made.mount_path and not made.mount_path.startswith("/"):
        raise InvalidInput(
            f"{where} of the resource file is mounted at {safe_repr(made.mount_path)}, which is not absolute."
        )
    return made


def _item(entry: Mapping[str, Any], named: Mapping[tuple[str, str], ResourceSource], where: str) -> Item:
    written = _text(entry, "class", where).lower()
    kind = "" if written in _SOURCE_NAMES else written
    if kind and kind not in KINDS:
        raise InvalidInput(
            f"The class of {where} is {safe_repr(written, 50)}: say one of {_list([*KINDS, *CLASSES.values()])}."
        )
    source = _source_of(entry, _SOURCE_NAMES.get(written), named, where)
    path = _text(entry, "path", where)
    if not path and source.source == "local" and not source.name:
        raise InvalidInput(f"{where} of the resource file has no path.")
    path = path or "."
    name = (
        _text(entry, "name", where)
        or (path.rstrip("/") if path != "." else source.name or source.repo).rpartition("/")[2]
    )
    files = entry.get("include_files")
    if files is not None and not (isinstance(files, list) and all(isinstance(each, str) for each in files)):
        raise InvalidInput(f"include_files of {where} must be a list of paths, not {safe_repr(files)}.")
    default = LIMITS.get(kind, _NOTHING)
    limits = Limits(
        include_tree=_flag(entry, "include_tree", where, default=default.include_tree),
        include_content=_flag(entry, "include_content", where, default=default.include_content or bool(files)),
        max_files=_whole_number(entry, "max_files", where, default.max_files),
        max_chars=_whole_number(entry, "max_chars", where, default.max_chars),
        max_total_chars=_whole_number(entry, "max_total_chars", where, default.max_total_chars),
    )
    return Item(
        id=f"{written or CLASSES[source.source]}:{name}:{source.source}:{source.name or source.repo}:{path}",
        name=name,
        kind=kind,
        source=source,
        path=path,
        notes=" ".join(
            (_text(entry, "notes", where, lines=True) or _text(entry, "description", where, lines=True)).split()
        ),
        include_files=tuple(files or ()),
        limits=limits,
    )


def _source_of(
    entry: Mapping[str, Any], told: str | None, named: Mapping[tuple[str, str], ResourceSource], where: str
) -> ResourceSource:
    said = _text(entry, "source", where).lower()
    if said and said not in _SOURCE_NAMES:
        raise InvalidInput(f"The source of {where} is {safe_repr(said, 50)}: say one of {_list(CLASSES)}.")
    kind: Any = _SOURCE_NAMES.get(said) or told
    resource = _text(entry, "resource", where)
    if resource:
        found = [source for (of, name), source in named.items() if name == resource and kind in (None, of)]
        if len(found) != 1:
            fault = "several" if found else "no"
            raise InvalidInput(
                f"{where} is of the resource {safe_repr(resource)}, and there is {fault} {kind or 'such'} one "
                "with that name in the file. Give its name, or leave out resource and give repo or repo_id."
            )
        return found[0]
    if kind is None:
        kind = "huggingface" if "repo_id" in entry else "github" if "repo" in entry else "local"
    if kind == "local":
        return ResourceSource(source="local")
    repo = _repo(entry, kind, where)
    if not repo:
        raise InvalidInput(f"{where} names neither a resource nor a repository.")
    return ResourceSource(source=kind, repo=repo, ref=_text(entry, "ref", where) or _text(entry, "revision", where))


def _whole(source: ResourceSource) -> Item:
    """A source that no item speaks of."""
    kind = _KIND_OF_USE.get(source.use, "")
    return Item(
        id=f"{kind or CLASSES[source.source]}:{source.name}:{source.source}:{source.name}:.",
        name=source.name,
        kind=kind,
        source=source,
        path=".",
        notes="",
        include_files=(),
        limits=LIMITS.get(kind, _NOTHING),
    )


def _repo(entry: Mapping[str, Any], source: str, where: str) -> str:
    keys = ("repo", "url") if source == "github" else ("repo_id", "repo", "url")
    return next((said for key in keys if (said := _text(entry, key, where))), "")


def _text(entry: Mapping[str, Any], key: str, where: str, *, lines: bool = False) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{key} of {where} must be a text, not {safe_repr(value)}. Put it in quotes.")
    if len(value) > _LONGEST * (10 if lines else 1) or not (lines or value.isprintable()):
        raise InvalidInput(f"{key} of {where} is too long, or has characters that cannot be shown: {safe_repr(value)}.")
    return value.strip()


def _flag(entry: Mapping[str, Any], key: str, where: str, *, default: bool) -> bool:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{key} of {where} must be true or false, not {safe_repr(value)}.")
    return default if value is None else value


def _whole_number(entry: Mapping[str, Any], key: str, where: str, default: int) -> int:
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidInput(f"{key} of {where} must be a whole number, 0 or more, not {safe_repr(value)}.")
    return default if value is None else value


def _list(names: Any) -> str:
    return ", ".join(names)


Parts: TypeAlias = tuple[str, ...]

OPENS_BELOW = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""Whether the system can open a file below an open folder."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # what was replaced by a pipe does not keep us waiting
)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_MOST_LINKS = 40
_CHUNK = 1 << 16


class Unreachable(AgentMemoryError):
    """There is nothing here that may be read."""


class FolderEntry(NamedTuple):
    """What lies in a folder."""

    name: str
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
        steps = self._steps(path)
        if ".." in steps or "\0" in path:
            raise Unreachable(f"{safe_repr(path)} goes up, and could lead out of the workspace.")
        return steps if Path(path).is_absolute() else (*below, *steps)

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

    def _steps(self, path: str) -> Parts:
        if not Path(path).is_absolute():
            return tuple(step for step in path.replace(os.sep, "/").split("/") if step not in ("", "."))
        for root in (self.root, self._given):
            with contextlib.suppress(ValueError):
                return tuple(step for step in Path(path).relative_to(root).parts if step != ".")
        raise Unreachable(f"{safe_repr(path)} is outside of the workspace.")

    @contextlib.contextmanager
    def _opened(self, parts: Parts) -> Iterator[int | str]:
        """What lies at a place: an open file or folder, or its path where nothing can be opened below a folder."""
        try:
            if not OPENS_BELOW:
                yield self._resolved(parts)
                return
            at = self._reached(parts)
            try:
                yield at
            finally:
                os.close(at)
        except OSError as error:
            raise Unreachable(_why(error)) from error

    def _reached(self, parts: Parts) -> int:
        way = [os.open(self.root, _FLAGS | _FOLDER)]
        steps, links = deque(parts), 0
        try:
            while steps:
                step = steps.popleft()
                if step in ("", "."):
                    continue
                if step == "..":
                    if len(way) == 1:
                        raise Unreachable("A link leads out of the workspace.")
                    os.close(way.pop())
                    continue
                mode = os.stat(step, dir_fd=way[-1], follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    links += 1
                    if links > _MOST_LINKS:
                        raise Unreachable("Links go round in a circle.")
                    steps.extendleft(reversed(self._target(step, way)))
                elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                    flags = _FLAGS | (_FOLDER if stat.S_ISDIR(mode) else 0)
                    way.append(os.open(step, flags, dir_fd=way[-1]))
                else:
                    raise Unreachable("It is neither a file nor a folder.")
            return way.pop()
        finally:
            for each in way:
                os.close(each)

    def _target(self, link: str, way: list[int]) -> Parts:
        """The steps that a link stands for, from where they begin: where it lies, or the root."""
        target = os.readlink(link, dir_fd=way[-1])
        if not Path(target).is_absolute():
            return tuple(target.split("/"))
        while len(way) > 1:
            os.close(way.pop())
        try:
            return self._steps(target)
        except Unreachable:
            raise Unreachable("A link leads out of the workspace.") from None

    def _resolved(self, parts: Parts) -> str:
        try:
            path = self.root.joinpath(*parts).resolve(strict=True)
        except RuntimeError as error:
            raise Unreachable("Links go round in a circle.") from error
        if not path.is_relative_to(self.root):
            raise Unreachable("A link leads out of the workspace.")
        if not (path.is_file() or path.is_dir()):
            raise Unreachable("It is neither a file nor a folder.")
        return str(path)


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
    try:
        if found.is_symlink():
            return FolderEntry(found.name, "link", 0)
        if found.is_dir(follow_symlinks=False):
            return FolderEntry(found.name, "folder", 0)
        if found.is_file(follow_symlinks=False):
            return FolderEntry(found.name, "file", found.stat(follow_symlinks=False).st_size)
    except OSError:  # it is gone
        pass
    return FolderEntry(found.name, "other", 0)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "There is nothing at this path."
    return f"It cannot be read: {error.strerror or error}."


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
class SeenFile:
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


def look(item: Item, workspace: Workspace, parts: Parts, options: Options, path: str) -> SeenFile:
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
        return SeenFile(status="available", path=path, excerpt=excerpt, found={"file": [read.size, read.sha]})
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
