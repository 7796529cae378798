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
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import yaml

from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

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
class Source:
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
    source: Source
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
    sources: tuple[Source, ...] = field(default=())
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


def _source(entry: Mapping[str, Any], source: SourceKind, where: str) -> Source:
    if source == "local":
        made = Source(
            source=source,
            name=_text(entry, "name", where),
            host_path=_text(entry, "host_path", where) or _text(entry, "path", where),
            mount_path=_text(entry, "mount_path", where),
            read_only=_flag(entry, "read_only", where, default=True),
        )
        needed = {"name": made.name, "host_path": made.host_path}
    else:
        github = source == "github"
        made = Source(
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


def _item(entry: Mapping[str, Any], named: Mapping[tuple[str, str], Source], where: str) -> Item:
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
    entry: Mapping[str, Any], told: str | None, named: Mapping[tuple[str, str], Source], where: str
) -> Source:
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
        return Source(source="local")
    repo = _repo(entry, kind, where)
    if not repo:
        raise InvalidInput(f"{where} names neither a resource nor a repository.")
    return Source(source=kind, repo=repo, ref=_text(entry, "ref", where) or _text(entry, "revision", where))


def _whole(source: Source) -> Item:
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
