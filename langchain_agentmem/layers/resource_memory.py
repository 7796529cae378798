r"""Resource memory: the resources that an agent was given, and its uses of them.

    layers.resources.load("resources.yaml")          # snapshots of all items in the file
    layers.resources.items()                         # the remembered items
    layers.resources.track_usage("template:baseline:local:data:baseline", "read", "as a starting point")
    layers.resources.used()

Each item is one record of archival memory, tagged so that a search finds it by id, class, name, source and path. An
index of all items, and the digest of the last snapshot, are kept in core memory. Each use is recorded.

A resource file is YAML or JSON:

    local:
      - {name: data, host_path: data, mount_path: /workspace/input/data}
    github:
      - {name: solver, repo: https://github.com/example/solver, ref: v1.2, dest: /workspace/solver, as: library}
    huggingface:
      - {name: small, type: model, repo_id: example/small, revision: main, dest: /workspace/small}
    items:
      - {name: baseline, class: template, source: local, resource: data, path: baseline, include_files: [main.c]}

An item may name its source directly (`{class: github, repo: example/solver}`, `{class: local_data, path: notes.md}`),
and a source that no item names is an item itself. The file is checked before anything is read; unknown keys are
ignored.

A snapshot has a digest that shows whether the resources changed, and the beginning of each of them:

    {"digest": "sha256:…", "resource_file_sha": "…", "config_normalized": {…}, "items": [
        {"id": "template:baseline:local:data:baseline", "class": "local_data", "fetch_status": "available",
         "path": "/workspace/input/data/baseline", "tree_summary": "main.c\nMakefile", "content_excerpt": "File: …"}]}

Nothing is fetched: an item on GitHub or Hugging Face is "pending"; clone it and name it under `local` to have it read.
Nothing outside of the workspace is read: each path is resolved first, links included, and checked. A link in a folder
is listed and not followed. Folders that only tools write (`.git`, `node_modules`) are left out. Secrets are removed
before a text is cut, since half a secret is not recognized; files that usually hold secrets are listed and not shown.
A digest depends on the names and contents of files, and not on the place of the workspace, the times of files, or the
order of entries.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, NonNegativeInt, StringConstraints, ValidationError

from langchain_agentmem.base.argument_checks import Options, check_value, describe_fault
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.data_tables import load_data_table, parse_yaml
from langchain_agentmem.base.encoding import encode
from langchain_agentmem.base.files import check_path
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.layers.compression import truncate
from langchain_agentmem.layers.layer import Layer, LayerContext
from langchain_agentmem.layers.memory_layers import ArchivalMemory, CoreMemory, CoreValue, core_versions, record_draft
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import PendingWrite
from langchain_agentmem.rewinding.memory_rows import RECORD, MemoryVersion, MemoryView
from langchain_agentmem.storage import Transaction

EntryT = TypeVar("EntryT", bound=BaseModel)

MAX_FILE_BYTES = 500_000
"""The most bytes of a resource file."""
ITEM_CHARS = 6_000
"""The most characters of an item that are kept in memory."""
CLASS_OF_SOURCE = {"local": "local_data", "github": "github", "huggingface": "huggingface"}
"""The class of an item in a snapshot, by its source."""

_TABLES = load_data_table("layers/resource_tables.yaml")
_SOURCE_OF_CLASS = {**{each: each for each in CLASS_OF_SOURCE}, "local_data": "local"}
_LONGEST_ID = 480
"""The longest id of an item, which has to fit into a tag."""
_IGNORED_NAMES = frozenset(_TABLES["ignored"].split())
_SECRET_FILES, _SECRET_SUFFIXES = _TABLES["secret_files"].split(), tuple(_TABLES["secret_ends"].split())
_TEXT_NAMES, _TEXT_SUFFIXES = _TABLES["text_names"].split(), tuple(_TABLES["text_ends"].split())
_MOST_ENTRIES = 2_000
_TREE_CHARS = 2_000

Line: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=1_000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
]


class ResourceSource(BaseModel):
    """A place that items come from.

    Attributes:
        name: The name by which items refer to it; empty for the workspace.
        host_path: A local folder, relative to the resource file or absolute.
        mount_path: The path by which the agent sees it; empty for no other path. The `dest` of repositories.
        repo: The repository: its address or `owner/name`.
        ref: The commit, tag, branch or revision; empty for the newest.
        use: The `as` or `type` in the file: "library", "data", "model", "dataset", or empty.
        read_only: Whether the agent may only read it. Default: True.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    name: Line = ""
    host_path: Line = Field(default="", validation_alias=AliasChoices("host_path", "path"))
    mount_path: Line = Field(default="", validation_alias=AliasChoices("mount_path", "dest"), pattern="^(/|$)")
    repo: Line = Field(default="", validation_alias=AliasChoices("repo", "repo_id", "url"))
    ref: Line = Field(default="", validation_alias=AliasChoices("ref", "revision"))
    use: Literal["library", "data", "dataset", "model", ""] = Field(
        default="", validation_alias=AliasChoices("as", "type")
    )
    read_only: bool = True


class ResourceItem(BaseModel):
    """A file or folder of a source.

    Attributes:
        name: Its name.
        kind: Its class; empty if the file names only the source.
        source: The kind of its source.
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
    """

    model_config = ConfigDict(strict=True, frozen=True)

    name: Line = ""
    kind: Literal[
        "template", "setup", "document", "library", "dataset", "model", "local_data", "github", "huggingface", ""
    ] = Field(default="", validation_alias="class")
    source: Literal["local", "github", "huggingface", "local_data", ""] = ""
    resource: Line = ""
    repo: Line = Field(default="", validation_alias=AliasChoices("repo", "repo_id", "url"))
    ref: Line = Field(default="", validation_alias=AliasChoices("ref", "revision"))
    path: Line = ""
    notes: str = Field(default="", validation_alias=AliasChoices("notes", "description"), max_length=10_000)
    include_files: list[Line] = []
    include_tree: bool = False
    include_content: bool = False
    max_files: NonNegativeInt = 4
    max_chars: NonNegativeInt = 3_000
    max_total_chars: NonNegativeInt = 8_000


Sources: TypeAlias = dict[tuple[str, str], ResourceSource]
"""The sources of a resource file, by kind and name."""
Items: TypeAlias = dict[str, tuple[ResourceItem, ResourceSource]]
"""Its items, each with its source, by their ids `class:name:source:resource:path`."""


def build_resource_snapshot(
    resource_file: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
) -> dict[str, Any]:
    """Take a snapshot of the resources that a file names.

    Args:
        resource_file: A YAML or JSON file, see `resource_memory.py`.
        config: "workspace_root", the folder outside of which nothing is read (default: that of the resource file), and
            "redact_secrets" (default: True). Other keys are ignored.
        resolve_paths: Whether local paths are read. If not, every item is "pending", with its path as written.
            Default: True.

    Returns:
        "digest", "resource_file_sha", "config_normalized" and "items", as the original has them. An item has "id",
        "class" (local_data, github, huggingface), "fetch_status" (pending, available, failed), "path", "tree_summary"
        and "content_excerpt", and also "name", "kind" (its class in the file), "notes", "digest" and "reason" (the
        reason why it is not available, or incomplete). An item that cannot be read, or is outside of the workspace,
        has failed.

    Raises:
        InvalidInput: The resource file or the config is wrong.
    """
    options = check_value(Mapping[Any, Any] | None, config, "config") or {}
    file = check_path(resource_file)
    data, content = _read_resource_file(file)
    sources, items = _parse_resources(content)
    folder = Path(os.path.realpath(file.parent))
    root = folder if options.get("workspace_root") is None else options["workspace_root"]
    if not isinstance(root, str | os.PathLike) or not Path(root).is_dir():
        raise InvalidInput(f"workspace_root must be the path of a folder, not {safe_repr(root)}.")
    clean = redact if options.get("redact_secrets", True) else str
    workspace = Path(os.path.realpath(root)) if resolve_paths else None
    snapshots = [_snapshot_item(key, *each, folder, workspace, clean) for key, each in items.items()]
    normalized: dict[str, Any] = {
        kind: [each.model_dump() for (source_kind, _), each in sources.items() if source_kind == kind]
        for kind in CLASS_OF_SOURCE
    }
    normalized["items"] = [{"id": key, **item.model_dump()} for key, (item, _) in items.items()]
    stable_config = normalized | {"local": [entry | {"host_path": ""} for entry in normalized["local"]]}
    return {
        "digest": _digest({"config": stable_config, "items": {item["id"]: item["digest"] for item in snapshots}}),
        "resource_file_sha": hashlib.sha256(data).hexdigest(),
        "config_normalized": normalized,
        "items": snapshots,
    }


# -- the file ------------------------------------------------------------------------------------------------------


def _read_resource_file(file: Path) -> tuple[bytes, Mapping[str, Any]]:
    label = f"The resource file {safe_repr(str(file))}"
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{label} cannot be read: {error.strerror or error}.") from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"{label} has more than {MAX_FILE_BYTES:,} bytes.")
    try:
        text = data.decode("utf-8-sig")
        try:
            content = json.loads(text)
        except ValueError:
            content = parse_yaml(text)
    except (ValueError, RecursionError, InvalidInput) as error:
        raise InvalidInput(f"{label} is neither JSON nor YAML: {error!s:.300}") from error
    if isinstance(content, list):
        content = {"items": content}
    if not isinstance(content, Mapping):
        raise InvalidInput(f"{label} must hold an object with local, github, huggingface, items.")
    return data, content


def _parse_resources(content: Mapping[str, Any]) -> tuple[Sources, Items]:
    """Check the content of a resource file.

    Raises:
        InvalidInput: It holds a wrong entry, which is named.
    """
    sources: Sources = {}
    for kind in CLASS_OF_SOURCE:
        for where, entry in _list_entries(content, kind):
            source = _validate(ResourceSource, entry, where)
            for field in ("name", "host_path" if kind == "local" else "repo"):
                if not getattr(source, field):
                    raise InvalidInput(f"{where} of the resource file has no {field}.")
            _add_unique(sources, (kind, source.name), source)
    items: Items = {}
    for where, entry in _list_entries(content, "items" if "items" in content else "resources"):
        _add_unique(items, *_parse_item(entry, sources, where))
    named = {(item.source, item.resource) for item, _ in items.values()}
    for (kind, name), source in sources.items():
        if (kind, name) not in named:
            implied = {"source": kind, "resource": name, "class": _TABLES["kinds_of_use"].get(source.use, "")}
            _add_unique(items, *_parse_item(implied, sources, name))
    return dict(sorted(sources.items())), dict(sorted(items.items()))


def _list_entries(content: Mapping[str, Any], key: str) -> list[tuple[str, dict[Any, Any]]]:
    """Return the entries of a list, each with its place and without its nulls and empty texts."""
    entries = check_value(list[dict[Any, Any]] | None, content.get(key), key) or ()
    return [
        (f"{key}[{number}]", {name: value for name, value in entry.items() if value not in (None, "")})
        for number, entry in enumerate(entries)
    ]


def _add_unique(found: dict[Any, Any], key: Any, value: Any) -> None:
    if key in found:
        raise InvalidInput(f"Two entries of the resource file are called {safe_repr(key)}.")
    found[key] = value


def _validate(kind: type[EntryT], entry: Mapping[str, Any], where: str) -> EntryT:
    try:
        return kind.model_validate(entry)
    except ValidationError as error:
        raise InvalidInput(f"{where} of the resource file is wrong: {describe_fault(error)}") from error


def _parse_item(
    entry: Mapping[str, Any], sources: Sources, where: str
) -> tuple[str, tuple[ResourceItem, ResourceSource]]:
    """Return the id of an item, and the item with its source."""
    class_name = str(entry.get("class", ""))
    limits = _TABLES["limits"].get("" if class_name in _SOURCE_OF_CLASS else class_name, {})
    item = _validate(ResourceItem, {"include_content": "include_files" in entry, **limits, **entry}, where)
    source_kind = _SOURCE_OF_CLASS.get(item.source or item.kind)
    if item.resource:
        found = [key for key in sources if key[1] == item.resource and source_kind in (None, key[0])]
        if len(found) != 1:
            raise InvalidInput(
                f"{where} is of the resource {safe_repr(item.resource)}, and there is {'several' if found else 'no'} "
                f"{source_kind or 'such'} one with that name in the file. Give its name and source, or repo or repo_id."
            )
        source_kind, source = found[0][0], sources[found[0]]
    else:
        source_kind = source_kind or ("huggingface" if "repo_id" in entry else "github" if item.repo else "local")
        if source_kind != "local" and not item.repo:
            raise InvalidInput(f"{where} names neither a resource nor a repository.")
        source = ResourceSource(repo=item.repo, ref=item.ref)
    origin, path = source.name or source.repo, item.path or "."
    if not item.path and not origin:
        raise InvalidInput(f"{where} of the resource file has no path.")
    name = item.name or (origin if path == "." else path).rstrip("/").rpartition("/")[2]
    key = f"{item.kind or CLASS_OF_SOURCE[source_kind]}:{name}:{source_kind}:{origin}:{path}"
    if len(key) > _LONGEST_ID:
        raise InvalidInput(f"The id {safe_repr(key)} has more than {_LONGEST_ID} characters. Shorten its name.")
    kind = "" if item.kind in _SOURCE_OF_CLASS else item.kind
    resolved = {"name": name, "kind": kind, "source": source_kind, "resource": origin, "path": path}
    return key, (item.model_copy(update=resolved), source)


# -- snapshots -----------------------------------------------------------------------------------------------------


def _snapshot_item(
    key: str, item: ResourceItem, source: ResourceSource, folder: Path, root: Path | None, clean: Callable[[str], str]
) -> dict[str, Any]:
    """Take the snapshot of one item."""
    path, status = item.path, "pending"
    tree, excerpt, reason, digest_input = "", "", "", None
    if root is not None and item.source == "local":
        local = folder / source.host_path / path_below(path, source.mount_path)
        try:
            tree, excerpt, reason, digest_input = _read_item(item, root, local, clean)
            path, status = os.path.normpath(local), "available"
        except OSError as error:
            reason, status = _error_reason(error), "failed"
    return {
        "id": key,
        "class": CLASS_OF_SOURCE[item.source],
        "fetch_status": status,
        "path": str(PurePosixPath(source.mount_path, item.path)) if source.mount_path else path,
        "tree_summary": tree,
        "content_excerpt": excerpt,
        "name": item.name,
        "kind": item.kind,
        "notes": clean(item.notes),
        "digest": _digest({"id": key, "notes": item.notes, "status": status, "found": digest_input}),
        "reason": truncate(clean(reason), 300),
    }


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(encode(value)).hexdigest()}"


def path_below(path: str, mount: str) -> PurePosixPath:
    """Return the rest of a path below a mount, or the path if it is not below it.

    Args:
        path: `/workspace/data/a.txt`.
        mount: `/workspace`; `/workspace2` is not below it. "" for none.
    """
    full = PurePosixPath(path)
    return full.relative_to(mount) if mount and full.is_relative_to(mount) else full


def _read_item(
    item: ResourceItem, root: Path, path: Path, clean: Callable[[str], str]
) -> tuple[str, str, str, dict[str, Any]]:
    """Return the tree, content, read error and digest input of a local item.

    Raises:
        OSError: The item cannot be read, or is outside of the workspace.
    """
    path = _resolve_within(root, path)
    most = item.max_total_chars or ITEM_CHARS
    if path.is_file():
        piece, stamp = _excerpt_file(path.name, path, item.max_chars, clean)
        return "", truncate(piece, most) if item.include_content else "", "", {"file": stamp}
    if not path.is_dir():
        raise OSError("There is no file or folder at this path.")
    entries = _list_folder(path)
    pieces: list[str] = []
    stamps: dict[str, list[Any] | None] = {}
    reason = ""
    for name, file in _choose_files(item, entries, root, path) if item.include_content else ():
        try:
            piece, stamps[name] = _excerpt_file(name, file, item.max_chars, clean)
        except OSError as error:
            piece, stamps[name] = f"File: {name} (not readable)", None
            reason = reason or f"{name}: {_error_reason(error)}"
        pieces.append(piece)
    tree = _format_tree(entries) if item.include_tree else ""
    digest_input = {"tree": [(_printable(each), *more) for each, *more in entries[:_MOST_ENTRIES]], "files": stamps}
    return tree, truncate("\n\n".join(pieces), most), reason, digest_input


def _error_reason(error: OSError) -> str:
    return f"It cannot be read: {error.strerror}." if error.strerror else str(error)


def _resolve_within(root: Path, path: Path) -> Path:
    """Resolve a path, links included.

    Raises:
        OSError: It is outside of the workspace.
    """
    resolved = Path(os.path.realpath(path))
    if not resolved.is_relative_to(root):
        raise OSError("It is outside of the workspace.")
    return resolved


def _list_folder(root: Path) -> list[tuple[str, str, int]]:
    """List paths, marks and file sizes of a folder and its subfolders; follow no links.

    More paths than `_MOST_ENTRIES` mean that the listing is incomplete.
    """
    entries: list[tuple[str, str, int]] = []
    next(root.iterdir(), None)  # raises if it cannot be read
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in sorted(folders) if name not in _IGNORED_NAMES]
        for path in (Path(folder, name) for name in (*folders, *files) if name not in _IGNORED_NAMES):
            kind = "@" if path.is_symlink() else "/" if path.is_dir() else "" if path.is_file() else "?"
            entries.append((path.relative_to(root).as_posix(), kind, 0 if kind else path.lstat().st_size))
        if len(entries) > _MOST_ENTRIES:
            break
    return sorted(entries, key=lambda entry: entry[0].split("/"))


def _format_tree(entries: Sequence[tuple[str, str, int]]) -> str:
    """Format a folder as lines of paths; folders end with a slash, links with an at sign."""
    lines = [_printable(path) + mark for path, mark, _ in entries[:200]]
    while sum(len(line) + 1 for line in lines) > _TREE_CHARS:
        lines.pop()
    return "\n".join([*lines, "… and more"] if len(lines) < len(entries) else lines)


def _choose_files(
    item: ResourceItem, entries: Sequence[tuple[str, str, int]], root: Path, folder: Path
) -> list[tuple[str, Path]]:
    """Return the files to excerpt: those the item names, else the most informative."""
    if item.include_files:
        paths = [Path(each) for each in dict.fromkeys(item.include_files)]
        return [(_printable(each.as_posix()), _resolve_within(root, folder / each)) for each in paths][
            : item.max_files or None
        ]
    texts = []
    for path, mark, _ in entries:
        name = path.rpartition("/")[2].lower()
        if not mark and (name.endswith(_TEXT_SUFFIXES) or name in _TEXT_NAMES) and not _is_secret_name(name):
            texts.append((not name.startswith("readme"), path.count("/"), path))
    return [(_printable(path), folder / path) for *_, path in sorted(texts)[: item.max_files]]


def _excerpt_file(name: str, path: Path, most: int, clean: Callable[[str], str]) -> tuple[str, list[Any]]:
    """Return the beginning of a file, and its size and digest, which detect changes.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.is_file():  # a pipe would block
        raise OSError("There is no file at this path.")
    with path.open("rb") as file:
        data, size = file.read(1 << 23), os.fstat(file.fileno()).st_size
    stamp, header = [size, hashlib.sha256(data).hexdigest()], f"File: {name} ({size} bytes"
    if _is_secret_name(name.rpartition("/")[2].lower()):
        return f"{header}, not shown)", stamp
    text = data[: 1 << 18].decode("utf-8-sig", "replace")
    if "\0" in text or text.count("\ufffd") * 20 > len(text):
        return f"{header}, binary)", stamp
    text = clean(text.rstrip("\ufffd"))  # the last character may be cut; half a secret is not recognized
    return f"{header})\n{truncate(text, most) if most else text}", stamp


def _is_secret_name(name: str) -> bool:
    return name in _SECRET_FILES or name.startswith(".env") or name.endswith(_SECRET_SUFFIXES)


def _printable(path: str) -> str:
    """Format a path as text in which every character can be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in path)


# -- the memory of resources -------------------------------------------------------------------------------------

RESOURCE_INDEX, RESOURCE_DIGEST = "RESOURCE_INDEX", "resource_digest"
"""The keys of core memory."""
RESOURCE_ITEM, RESOURCE_PENDING, RESOURCE_USED = "RESOURCE_ITEM", "RESOURCE_PENDING", "RESOURCE_USED"
"""The tags of archival memory."""
_LABEL = "resource"
_IMPORTANCE = 5


class ResourceUse(Options):
    """A use of a resource, which a record of archival memory holds as JSON.

    Attributes:
        resource_id: The id of the resource.
        usage_type: "read", "reference" or "include".
        context: The purpose; None if unknown.
        timestamp: Seconds since 1970; None for the time of the record.
    """

    resource_id: str = Field(pattern=r"\S")
    usage_type: Literal["read", "reference", "include"] = "reference"
    context: str | None = None
    timestamp: float | None = Field(default=None, ge=0, le=253_402_300_799)  # the last second of the year 9999


def use_of(content: str, tags: Sequence[str], at: datetime) -> dict[str, Any] | None:
    """Return the use of a resource that a record holds; None if it holds none.

    Args:
        content: Its content.
        tags: Its tags.
        at: The time it was written, which is the time of a use that names none.
    """
    if RESOURCE_USED not in tags:
        return None
    try:
        use = ResourceUse(**json.loads(content))
    except (InvalidInput, ValueError, TypeError, RecursionError):
        return None
    return use.model_dump() | {"timestamp": at.timestamp() if use.timestamp is None else use.timestamp}


class ResourceMemory(Layer):
    """The resources of a layered memory; each method has an async twin, prefixed with `a`.

    Args:
        ground: The context of the memory.
        core: Its core memory.
        archival: Its archival memory.
    """

    def __init__(self, context: LayerContext, core: CoreMemory, archival: ArchivalMemory) -> None:
        super().__init__(context)
        self._core = core
        self._archival = archival

    def load(
        self,
        resource_file: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
    ) -> dict[str, Any]:
        """Take a snapshot of the items that a file names, and remember it.

        All items are remembered, or none is. Items that the same file no longer names are forgotten; unchanged items
        stay as they are.

        Args:
            resource_file: As for `build_resource_snapshot`.
            config: As for `build_resource_snapshot`. The default of "redact_secrets" is that of the memory's settings.
            resolve_paths: As for `build_resource_snapshot`.

        Returns:
            The snapshot. Of each item at most 6,000 characters are remembered.

        Raises:
            InvalidInput: The file or an argument is wrong, or core memory has no room for the index.
        """
        options = check_value(Mapping[Any, Any] | None, config, "config") or {}
        options = {"redact_secrets": self.settings.redact_secrets, **options}
        snapshot = build_resource_snapshot(resource_file, options, resolve_paths)
        name = self._context.remove_secrets(Path(os.fsdecode(resource_file)).name)
        items = [{**item, "file": name} for item in snapshot["items"]]
        if self._context.settings.redact_secrets:
            items = redact_value(items)
        for item in items:
            item["content_excerpt"] = truncate(item["content_excerpt"], ITEM_CHARS)

        def make(tx: Transaction, change: PendingWrite) -> None:
            known_items = {each.extra["resource"]["id"]: each for each in _item_versions(tx, change.view)}
            named = {item["id"] for item in items}
            others = []
            for key, old in known_items.items():
                if old.extra["resource"]["file"] != name and key not in named:
                    others.append(old.extra["resource"])
                elif key not in named:
                    change.remove(RECORD, old.key)
            for item in items:
                known = known_items.get(item["id"])
                if known is None or known.extra["resource"] != item:
                    key = self._context.database.new_id() if known is None else known.key
                    body = truncate(_item_body(item), ITEM_CHARS)
                    draft = record_draft(key, body, _item_tags(item), change.now, resource=item)
                    change.drafts.append(draft._replace(label=_LABEL))
            self._write_index(tx, change, snapshot["digest"], [*items, *others])

        outputs = {"resource_ids": [item["id"] for item in items], "digest": snapshot["digest"]}
        self._context.write("resources.load", make, file=name, outputs=lambda _: outputs)
        return snapshot

    aload = awaited(load, writes=True)

    def track_usage(
        self, resource_id: str, usage_type: Literal["read", "reference", "include"], context: str | None = None
    ) -> str:
        """Record a use of a resource.

        Args:
            resource_id: The id of an item.
            usage_type: "read", "reference" or "include".
            context: The purpose. Default: none.

        Returns:
            The id of the record.

        Raises:
            InvalidInput: An argument is wrong.
        """
        time = from_micros(self._context.now()).timestamp()
        use = ResourceUse(resource_id=resource_id, usage_type=usage_type, context=context, timestamp=time)
        content = json.dumps(use.model_dump(), ensure_ascii=False)
        return self._archival.write(content, [RESOURCE_USED, f"resource_id:{resource_id}"])

    atrack_usage = awaited(track_usage, writes=True)

    def items(self) -> list[dict[str, Any]]:
        """Return the remembered items in the form of snapshots, ordered by id."""

        def look(tx: Transaction, view: MemoryView) -> list[dict[str, Any]]:
            items = [dict(each.extra["resource"]) for each in _item_versions(tx, view)]
            for item in items:
                del item["file"]
            return sorted(items, key=lambda item: str(item["id"]))

        return self._context.read("resources.items", look)

    aitems = awaited(items)

    def uses(self) -> list[dict[str, Any]]:
        """Return uses, oldest first: "resource_id", "usage_type", "context", "timestamp"."""
        records = self._archival.all([RESOURCE_USED])
        return [use for each in records if (use := use_of(each.content, each.tags, each.created_at))]

    auses = awaited(uses)

    def _write_index(self, tx: Transaction, change: PendingWrite, digest: str, items: list[dict[str, Any]]) -> None:
        """Write an index of all items to core memory."""
        lines = [f"- {item['id']} ({item['fetch_status']})" for item in sorted(items, key=lambda item: str(item["id"]))]
        index = "\n".join([f"{len(items)} resources; each is a record tagged resource_id:<id>", *lines])
        index_value, digest_value = (
            CoreValue(RESOURCE_INDEX, "", _IMPORTANCE),
            CoreValue(RESOURCE_DIGEST, digest, _IMPORTANCE),
        )
        room = self._core._room_left(core_versions(tx, change.view), [index_value, digest_value])
        most = max(0, min(room, 1_000, self.settings.core_max_chars // 2))
        self._core._add_values(tx, change, [index_value._replace(value=truncate(index, most)), digest_value])


def _item_versions(tx: Transaction, view: MemoryView) -> list[MemoryVersion]:
    return memory_rows.load_newest(tx, view, RECORD, limit=None, label=_LABEL)


def _item_tags(item: Mapping[str, Any]) -> list[str]:
    kind = item["kind"] or item["class"]
    named = {"id": item["id"], "class": kind, "name": item["name"], "source": item["class"], "path": item["path"]}
    tags = [RESOURCE_ITEM, *(f"resource_{name}:{value}" for name, value in named.items())]
    tags.append(f"resource:{kind}:{item['name']}")
    return tags if item["fetch_status"] == "available" else [*tags, RESOURCE_PENDING]


def _item_body(item: Mapping[str, Any]) -> str:
    """Format an item as text for a model."""
    status, reason = item["fetch_status"], item["reason"]
    lines = {
        "Resource": item["name"],
        "Id": item["id"],
        "Class": item["kind"] or item["class"],
        "Status": f"{status}: {reason}" if reason else status,
        "Path": item["path"],
        "Notes": item["notes"],
        "Files": item["tree_summary"] and f"\n{item['tree_summary']}",
        "Content": item["content_excerpt"] and f"\n{item['content_excerpt']}",
    }
    return "\n".join(f"{title}: {text}" for title, text in lines.items() if text)
