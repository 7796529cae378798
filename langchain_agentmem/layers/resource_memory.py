r"""Resource memory: the files and repositories available to an agent, and its uses of them.

    layers.resources.load("resources.yaml")          # stores a snapshot of each item in the file
    layers.resources.items()                         # the remembered items
    layers.resources.track_usage("template:baseline:local:data:baseline", "read", "as a starting point")
    layers.resources.uses()

Each item is one record of archival memory. Its tags are its id, class, name, source and path. Core memory contains an
index of all items and the digest of the last snapshot. Each use is a record, too.

A resource file is YAML or JSON:

    local:
      - {name: data, host_path: data, mount_path: /workspace/input/data}
    github:
      - {name: solver, repo: https://github.com/example/solver, ref: v1.2, dest: /workspace/solver, as: library}
    huggingface:
      - {name: small, type: model, repo_id: example/small, revision: main, dest: /workspace/small}
    items:
      - {name: baseline, class: template, source: local, resource: data, path: baseline, include_files: [main.c]}

An item may contain its source (`{class: github, repo: example/solver}`, `{class: local_data, path: notes.md}`). A
source to which no item refers is itself an item. The file is checked before any resource is read. Unknown keys are
ignored.

A snapshot contains a digest, which changes if the resources change, and the beginning of each resource:

    {"digest": "sha256:…", "resource_file_sha": "…", "config_normalized": {…}, "items": [
        {"id": "template:baseline:local:data:baseline", "class": "local_data", "fetch_status": "available",
         "path": "/workspace/input/data/baseline", "tree_summary": "main.c\nMakefile", "content_excerpt": "File: …"}]}

Nothing is downloaded: an item on GitHub or Hugging Face is "pending". To include its content, clone it and add it under
`local`. Nothing outside of the workspace is read: each path is resolved, including links, and checked first. Links in a
folder are listed, but not followed. Folders that only tools write (`.git`, `node_modules`) are skipped. Secrets are
removed before a text is cut, since a cut secret would not be recognized. Files that usually contain secrets are listed
without content. The digest depends on the names and contents of files. It does not depend on the location of the
workspace, the times of files, or the order of entries.
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
from langchain_agentmem.layers.memory_layers import ArchivalMemory, CoreMemory, CoreValue, draft_record, load_core
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import PendingWrite
from langchain_agentmem.rewinding.memory_rows import RECORD, MemoryVersion, MemoryView
from langchain_agentmem.storage import Transaction

EntryT = TypeVar("EntryT", bound=BaseModel)

MAX_FILE_BYTES = 500_000
"""The maximum size of a resource file, in bytes."""
ITEM_CHARS = 6_000
"""The maximum number of characters of an item in memory."""
CLASS_OF_SOURCE = {"local": "local_data", "github": "github", "huggingface": "huggingface"}
"""The class of an item in a snapshot, by its source."""

_TABLES = load_data_table("layers/resource_tables.yaml")
# The source of an item, by a class that is only a kind of source.
_SOURCE_OF_CLASS = {**{each: each for each in CLASS_OF_SOURCE}, "local_data": "local"}
_MAX_ID_CHARS = 480
"""The maximum length of the id of an item, which must fit into a tag."""
_IGNORED_NAMES = frozenset(_TABLES["ignored"].split())
_SECRET_FILES, _SECRET_SUFFIXES = _TABLES["secret_files"].split(), tuple(_TABLES["secret_ends"].split())
_TEXT_NAMES, _TEXT_SUFFIXES = _TABLES["text_names"].split(), tuple(_TABLES["text_ends"].split())
_MAX_ENTRIES = 2_000
"""The number of paths after which the listing of a folder ends."""
_TREE_CHARS = 2_000
"""The maximum length of the tree of a folder."""

_ONE_LINE = StringConstraints(strip_whitespace=True, max_length=1_000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
Line: TypeAlias = Annotated[str, _ONE_LINE]
Cleaner: TypeAlias = Callable[[str], str]  # a function that removes secrets from a text


class ResourceSource(BaseModel):
    """A source of items: a local folder or a repository.

    Attributes:
        name: The name by which items refer to it; empty for the workspace.
        host_path: A local folder, absolute or relative to the resource file.
        mount_path: The path of the source for the agent (`dest` for a repository); empty for the same path.
        repo: The repository: its URL or `owner/name`.
        ref: The commit, tag, branch or revision; empty for the newest.
        use: The value of `as` or `type` in the file: "library", "data", "model", "dataset", or empty.
        read_only: True if the agent may only read it. Default: True.
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
        kind: Its class in the file, such as "template"; empty if the class is a kind of source.
        source: The kind of its source.
        resource: The name of its source, or its repository.
        repo: The repository of an item without a named source.
        ref: The commit, tag, branch or revision of that repository.
        path: Its path in the source; "." for the whole source.
        notes: The notes in the file.
        include_files: The files to excerpt; empty for an automatic choice.
        include_tree: True to list its files.
        include_content: True to excerpt its files.
        max_files: The maximum number of files to excerpt. 0: all `include_files`, but no automatically chosen files.
        max_chars: The maximum number of characters of each file; 0 for no limit.
        max_total_chars: The maximum total number of characters; 0 for `ITEM_CHARS`.
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
Item: TypeAlias = tuple[ResourceItem, ResourceSource]
"""An item of a resource file, with its source."""
Items: TypeAlias = dict[str, Item]
"""The items of a resource file, by their ids `class:name:source:resource:path`."""


def build_resource_snapshot(
    resource_file: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the signature of AI-Scientist-v2-HPC
) -> dict[str, Any]:
    """Build a snapshot of the resources in a resource file.

    Args:
        resource_file: A YAML or JSON file, see `resource_memory.py`.
        config: "workspace_root", the folder outside of which nothing is read (default: that of the resource file), and
            "redact_secrets" (default: True). Other keys are ignored.
        resolve_paths: True to read local paths. If False, every item is "pending", with its path as written.
            Default: True.

    Returns:
        "digest", "resource_file_sha", "config_normalized" and "items", as in AI-Scientist-v2-HPC. An item has "id",
        "class" (local_data, github, huggingface), "fetch_status" (pending, available, failed), "path", "tree_summary",
        "content_excerpt", "name", "kind" (its class in the file), "notes", "digest" and "reason" (why it is unavailable
        or incomplete). The status of an item that is unreadable or outside of the workspace is "failed".

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
    snapshots = [_snapshot_item(item_id, *each, folder, workspace, clean) for item_id, each in items.items()]
    normalized: dict[str, Any] = {
        kind: [each.model_dump() for (source_kind, _), each in sources.items() if source_kind == kind]
        for kind in CLASS_OF_SOURCE
    }
    normalized["items"] = [{"id": item_id, **item.model_dump()} for item_id, (item, _) in items.items()]
    # The digest must not depend on the location of the workspace.
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
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
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
        raise InvalidInput(f"{label} must be an object with the keys local, github, huggingface and items.")
    return data, content


def _parse_resources(content: Mapping[str, Any]) -> tuple[Sources, Items]:
    """Check the content of a resource file.

    Raises:
        InvalidInput: An entry is wrong.
    """
    sources: Sources = {}
    for kind in CLASS_OF_SOURCE:
        for label, entry in _list_entries(content, kind):
            source = _validate(ResourceSource, entry, label)
            for field in ("name", "host_path" if kind == "local" else "repo"):
                if not getattr(source, field):
                    raise InvalidInput(f"{label} of the resource file has no {field}. Add it.")
            _add_unique(sources, (kind, source.name), source)
    items: Items = {}
    for label, entry in _list_entries(content, "items" if "items" in content else "resources"):
        _add_unique(items, *_parse_item(entry, sources, label))
    referenced = {(item.source, item.resource) for item, _ in items.values()}
    for (kind, name), source in sources.items():
        if (kind, name) not in referenced:
            implied = {"source": kind, "resource": name, "class": _TABLES["kinds_of_use"].get(source.use, "")}
            _add_unique(items, *_parse_item(implied, sources, name))
    return dict(sorted(sources.items())), dict(sorted(items.items()))


def _list_entries(content: Mapping[str, Any], key: str) -> list[tuple[str, dict[Any, Any]]]:
    """Return the entries of a list with their positions, without nulls and empty texts."""
    entries = check_value(list[dict[Any, Any]] | None, content.get(key), key) or ()
    return [
        (f"{key}[{number}]", {name: value for name, value in entry.items() if value not in (None, "")})
        for number, entry in enumerate(entries)
    ]


def _add_unique(entries: dict[Any, Any], key: Any, value: Any) -> None:
    if key in entries:
        raise InvalidInput(f"Two entries of the resource file have the name {safe_repr(key)}. Rename one.")
    entries[key] = value


def _validate(model: type[EntryT], entry: Mapping[str, Any], label: str) -> EntryT:
    """Parse an entry of the resource file as a `ResourceSource` or a `ResourceItem`."""
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        raise InvalidInput(f"{label} of the resource file is wrong: {describe_fault(error)}") from error


def _parse_item(entry: Mapping[str, Any], sources: Sources, label: str) -> tuple[str, Item]:
    """Return the id of an item, and the item with its source."""
    class_name = str(entry.get("class", ""))
    limits = _TABLES["limits"].get("" if class_name in _SOURCE_OF_CLASS else class_name, {})
    item = _validate(ResourceItem, {"include_content": "include_files" in entry, **limits, **entry}, label)
    source_kind = _SOURCE_OF_CLASS.get(item.source or item.kind)
    if item.resource:
        matches = [key for key in sources if key[1] == item.resource and source_kind in (None, key[0])]
        if len(matches) != 1:
            raise InvalidInput(
                f"{label} needs one resource {safe_repr(item.resource)}, but the file has {len(matches)} "
                f"{source_kind or 'local or remote'} resources of that name. Correct resource and source, or add repo."
            )
        source_kind, source = matches[0][0], sources[matches[0]]
    else:
        source_kind = source_kind or ("huggingface" if "repo_id" in entry else "github" if item.repo else "local")
        if source_kind != "local" and not item.repo:
            raise InvalidInput(f"{label} has neither a resource nor a repository. Add resource, repo or repo_id.")
        source = ResourceSource(repo=item.repo, ref=item.ref)
    origin, path = source.name or source.repo, item.path or "."
    if not item.path and not origin:
        raise InvalidInput(f"{label} of the resource file has no path. Add it.")
    name = item.name or (origin if path == "." else path).rstrip("/").rpartition("/")[2]
    item_id = f"{item.kind or CLASS_OF_SOURCE[source_kind]}:{name}:{source_kind}:{origin}:{path}"
    if len(item_id) > _MAX_ID_CHARS:
        raise InvalidInput(f"The id {safe_repr(item_id)} has more than {_MAX_ID_CHARS} characters. Shorten the name.")
    kind = "" if item.kind in _SOURCE_OF_CLASS else item.kind
    resolved = {"name": name, "kind": kind, "source": source_kind, "resource": origin, "path": path}
    return item_id, (item.model_copy(update=resolved), source)


# -- snapshots -----------------------------------------------------------------------------------------------------


def _snapshot_item(
    id_: str, item: ResourceItem, source: ResourceSource, folder: Path, workspace: Path | None, clean: Cleaner
) -> dict[str, Any]:
    """Build the snapshot of one item."""
    path, status = item.path, "pending"
    tree, excerpt, reason, digest_input = "", "", "", None
    if workspace is not None and item.source == "local":
        local = folder / source.host_path / path_below(path, source.mount_path)
        try:
            tree, excerpt, reason, digest_input = _read_item(item, workspace, local, clean)
            path, status = os.path.normpath(local), "available"
        except OSError as error:
            reason, status = _describe_error(error), "failed"
    return {
        "id": id_,
        "class": CLASS_OF_SOURCE[item.source],
        "fetch_status": status,
        "path": str(PurePosixPath(source.mount_path, item.path)) if source.mount_path else path,
        "tree_summary": tree,
        "content_excerpt": excerpt,
        "name": item.name,
        "kind": item.kind,
        "notes": clean(item.notes),
        "digest": _digest({"id": id_, "notes": item.notes, "status": status, "found": digest_input}),
        "reason": truncate(clean(reason), 300),
    }


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(encode(value)).hexdigest()}"


def path_below(path: str, mount: str) -> PurePosixPath:
    """Return a path relative to a mount, or the path itself if it is not below the mount.

    Args:
        path: The path, such as `/workspace/data/a.txt`.
        mount: The mount, such as `/workspace`; "" for none. `/workspace2` is not below `/workspace`.
    """
    full = PurePosixPath(path)
    return full.relative_to(mount) if mount and full.is_relative_to(mount) else full


def _read_item(item: ResourceItem, workspace: Path, path: Path, clean: Cleaner) -> tuple[str, str, str, dict[str, Any]]:
    """Return the tree, the excerpts, the first read error and the digest input of an item.

    Raises:
        OSError: The item does not exist, cannot be read, or is outside of the workspace.
    """
    path = _resolve_within(workspace, path)
    max_chars = item.max_total_chars or ITEM_CHARS
    if path.is_file():
        excerpt, fingerprint = _excerpt_file(path.name, path, item.max_chars, clean)
        return "", truncate(excerpt, max_chars) if item.include_content else "", "", {"file": fingerprint}
    if not path.is_dir():
        raise OSError("There is no file or folder at this path.")
    entries = _list_folder(path)
    excerpts: list[str] = []
    fingerprints: dict[str, list[Any] | None] = {}
    reason = ""
    for name, file in _choose_files(item, entries, workspace, path) if item.include_content else ():
        try:
            excerpt, fingerprints[name] = _excerpt_file(name, file, item.max_chars, clean)
        except OSError as error:
            excerpt, fingerprints[name] = f"File: {name} (not readable)", None
            reason = reason or f"{name}: {_describe_error(error)}"
        excerpts.append(excerpt)
    tree = _format_tree(entries) if item.include_tree else ""
    listing = [(_printable(each), mark, size) for each, mark, size in entries[:_MAX_ENTRIES]]
    return tree, truncate("\n\n".join(excerpts), max_chars), reason, {"tree": listing, "files": fingerprints}


def _describe_error(error: OSError) -> str:
    return f"It cannot be read: {error.strerror}." if error.strerror else str(error)


def _resolve_within(workspace: Path, path: Path) -> Path:
    """Resolve a path, including links.

    Raises:
        OSError: The path is outside of the workspace.
    """
    resolved = Path(os.path.realpath(path))
    if not resolved.is_relative_to(workspace):
        raise OSError("It is outside of the workspace.")
    return resolved


def _list_folder(root: Path) -> list[tuple[str, str, int]]:
    """List a folder and its subfolders as paths, type marks and file sizes.

    A mark is "" for a file, "/" for a folder, "@" for a link, which is not followed, and "?" otherwise. A result of
    more than `_MAX_ENTRIES` paths is incomplete.
    """
    entries: list[tuple[str, str, int]] = []
    next(root.iterdir(), None)  # raises if the folder cannot be read
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in sorted(folders) if name not in _IGNORED_NAMES]
        for path in (Path(folder, name) for name in (*folders, *files) if name not in _IGNORED_NAMES):
            mark = "@" if path.is_symlink() else "/" if path.is_dir() else "" if path.is_file() else "?"
            entries.append((path.relative_to(root).as_posix(), mark, 0 if mark else path.lstat().st_size))
        if len(entries) > _MAX_ENTRIES:
            break
    return sorted(entries, key=lambda entry: entry[0].split("/"))


def _format_tree(entries: Sequence[tuple[str, str, int]]) -> str:
    """Format a folder as lines of paths. Folders end with a slash, links with an at sign."""
    lines = [_printable(path) + mark for path, mark, _ in entries[:200]]
    while sum(len(line) + 1 for line in lines) > _TREE_CHARS:
        lines.pop()
    return "\n".join([*lines, "… and more"] if len(lines) < len(entries) else lines)


def _choose_files(
    item: ResourceItem, entries: Sequence[tuple[str, str, int]], workspace: Path, folder: Path
) -> list[tuple[str, Path]]:
    """Return the files to excerpt: `include_files` of the item, else the most informative."""
    if item.include_files:
        paths = [Path(each) for each in dict.fromkeys(item.include_files)]
        files = [(_printable(each.as_posix()), _resolve_within(workspace, folder / each)) for each in paths]
        return files[: item.max_files or None]
    ranked_paths = []  # first read-me files, then files of few parent folders
    for path, mark, _ in entries:
        name = path.rpartition("/")[2].lower()
        if not mark and (name.endswith(_TEXT_SUFFIXES) or name in _TEXT_NAMES) and not _is_secret_name(name):
            ranked_paths.append((not name.startswith("readme"), path.count("/"), path))
    return [(_printable(path), folder / path) for *_, path in sorted(ranked_paths)[: item.max_files]]


def _excerpt_file(name: str, path: Path, max_chars: int, clean: Cleaner) -> tuple[str, list[Any]]:
    """Return the beginning of a file, and a fingerprint of it: its size and digest.

    At most 8 MiB are hashed, and at most 256 KiB are excerpted.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.is_file():  # a pipe would block
        raise OSError("There is no file at this path.")
    with path.open("rb") as file:
        data, size = file.read(8 * 1024 * 1024), os.fstat(file.fileno()).st_size
    fingerprint, header = [size, hashlib.sha256(data).hexdigest()], f"File: {name} ({size} bytes"
    if _is_secret_name(name.rpartition("/")[2].lower()):
        return f"{header}, not shown)", fingerprint
    text = data[: 256 * 1024].decode("utf-8-sig", "replace")
    if "\0" in text or text.count("\ufffd") * 20 > len(text):  # more than 5 % is not UTF-8
        return f"{header}, binary)", fingerprint
    text = clean(text.rstrip("\ufffd"))  # the last character may be incomplete; remove secrets before cutting
    return f"{header})\n{truncate(text, max_chars) if max_chars else text}", fingerprint


def _is_secret_name(name: str) -> bool:
    return name in _SECRET_FILES or name.startswith(".env") or name.endswith(_SECRET_SUFFIXES)


def _printable(path: str) -> str:
    """Escape the characters of a path that are not printable."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in path)


# -- the memory of resources -------------------------------------------------------------------------------------

RESOURCE_INDEX, RESOURCE_DIGEST = "RESOURCE_INDEX", "resource_digest"
"""The keys of core memory for the index and the digest."""
RESOURCE_ITEM, RESOURCE_PENDING, RESOURCE_USED = "RESOURCE_ITEM", "RESOURCE_PENDING", "RESOURCE_USED"
"""The tags of the records of items, unavailable items, and uses."""
_ITEM_LABEL = "resource"
_INDEX_IMPORTANCE = 5


class ResourceUse(Options):
    """A use of a resource, stored as JSON in a record of archival memory.

    Attributes:
        resource_id: The id of the resource.
        usage_type: "read", "reference" or "include".
        context: The purpose; None if unknown.
        timestamp: The time in seconds since 1970; None for the time of the record.
    """

    resource_id: str = Field(pattern=r"\S")
    usage_type: Literal["read", "reference", "include"] = "reference"
    context: str | None = None
    timestamp: float | None = Field(default=None, ge=0, le=253_402_300_799)  # the last second of the year 9999


def parse_use(content: str, tags: Sequence[str], at: datetime) -> dict[str, Any] | None:
    """Return the use of a resource in a record; None if the record contains none.

    Args:
        content: The content of the record.
        tags: The tags of the record.
        at: The time at which the record was written, which is the default time of the use.
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
        context: The context that the layers share.
        core: The core memory of the same layered memory.
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
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the signature of AI-Scientist-v2-HPC
    ) -> dict[str, Any]:
        """Build a snapshot of the items in a resource file, and store the items.

        Either all items are stored, or none. Unchanged items are not written again. Items of an earlier version of the
        file are deleted if the file no longer contains them. Only the name of the file identifies it, not its folder.

        Args:
            resource_file: As for `build_resource_snapshot`.
            config: As for `build_resource_snapshot`. The default of "redact_secrets" is that of the memory's settings.
            resolve_paths: As for `build_resource_snapshot`.

        Returns:
            The snapshot. At most 6,000 characters of each item are stored.

        Raises:
            InvalidInput: The file or an argument is wrong, or the index does not fit into core memory.
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

        def store(tx: Transaction, change: PendingWrite) -> None:
            old_items = {each.extra["resource"]["id"]: each for each in _load_items(tx, change.view)}
            new_ids = {item["id"] for item in items}
            other_items = []
            for item_id, old in old_items.items():
                if old.extra["resource"]["file"] != name and item_id not in new_ids:
                    other_items.append(old.extra["resource"])
                elif item_id not in new_ids:
                    change.remove(RECORD, old.key)
            for item in items:
                old_item = old_items.get(item["id"])
                if old_item is None or old_item.extra["resource"] != item:
                    id_ = self._context.database.new_id() if old_item is None else old_item.key
                    body = truncate(_format_resource(item), ITEM_CHARS)
                    draft = draft_record(id_, body, _make_item_tags(item), change.now, resource=item)
                    change.drafts.append(draft._replace(label=_ITEM_LABEL))
            self._write_index(tx, change, snapshot["digest"], [*items, *other_items])

        outputs = {"resource_ids": [item["id"] for item in items], "digest": snapshot["digest"]}
        self._context.write("resources.load", store, file=name, outputs=lambda _: outputs)
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
        """Return the stored items in the form of snapshots, sorted by id."""

        def load(tx: Transaction, view: MemoryView) -> list[dict[str, Any]]:
            items = [dict(each.extra["resource"]) for each in _load_items(tx, view)]
            for item in items:
                del item["file"]
            return sorted(items, key=lambda item: str(item["id"]))

        return self._context.read("resources.items", load)

    aitems = awaited(items)

    def uses(self) -> list[dict[str, Any]]:
        """Return uses, oldest first, with "resource_id", "usage_type", "context", "timestamp"."""
        records = self._archival.all([RESOURCE_USED])
        return [use for each in records if (use := parse_use(each.content, each.tags, each.created_at))]

    auses = awaited(uses)

    def _write_index(self, tx: Transaction, change: PendingWrite, digest: str, items: list[dict[str, Any]]) -> None:
        """Write an index of all items, and the digest of the snapshot, to core memory."""
        lines = [f"- {item['id']} ({item['fetch_status']})" for item in sorted(items, key=lambda item: str(item["id"]))]
        index = "\n".join([f"{len(items)} resources; each is a record tagged resource_id:<id>", *lines])
        new = [CoreValue(RESOURCE_INDEX, "", _INDEX_IMPORTANCE), CoreValue(RESOURCE_DIGEST, digest, _INDEX_IMPORTANCE)]
        room = self._core._count_free_chars(load_core(tx, change.view), new)
        limit = max(0, min(room, 1_000, self.settings.core_max_chars // 2))
        new[0] = new[0]._replace(value=truncate(index, limit))
        self._core._add_values(tx, change, new)


def _load_items(tx: Transaction, view: MemoryView) -> list[MemoryVersion]:
    return memory_rows.load_newest(tx, view, RECORD, limit=None, label=_ITEM_LABEL)


def _make_item_tags(item: Mapping[str, Any]) -> list[str]:
    kind = item["kind"] or item["class"]
    fields = {"id": item["id"], "class": kind, "name": item["name"], "source": item["class"], "path": item["path"]}
    tags = [RESOURCE_ITEM, *(f"resource_{name}:{value}" for name, value in fields.items())]
    tags.append(f"resource:{kind}:{item['name']}")
    return tags if item["fetch_status"] == "available" else [*tags, RESOURCE_PENDING]


def _format_resource(item: Mapping[str, Any]) -> str:
    """Format a stored item as text for a model."""
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
