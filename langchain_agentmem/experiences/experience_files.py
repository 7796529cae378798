"""The files of a library: `handcrafted_exp_*.yaml` in a folder, read again when they change (document 000).

A file that cannot be used is reported with its reason, and the others are loaded. Everything in a file is text, so that
`exp_id: 1` is "1" and `exp_id: no` is "no".
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from langchain_agentmem.base import forks
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.tracing.measures import Measures

CACHE = "files of experiences"
"""What the measures call them."""
PREFIX, SUFFIX = "handcrafted_exp_", ".yaml"
LARGEST = 300_000
"""Bytes that a file may have."""
_FIELDS = {"exp_id", "who", "when", "what", "experience_text"}
_SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file surely shows in its time."""
_REASON = 300
_UNREADABLE = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What PyYAML raises for what is no YAML, or for a tag that does not fit what it stands before."""


class Problem(NamedTuple):
    """What is wrong with a file.

    Attributes:
        path: The file, within the folder.
        reason: What is wrong with it, and what to do.
        is_loaded: Whether it counts nevertheless.
    """

    path: str
    reason: str
    is_loaded: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Shelf(NamedTuple):
    """What a folder held when it was looked at.

    Attributes:
        experiences: By the order of their files: those of a folder before those below it, then by name.
        problems: What is wrong with the others, in the same order.
        files: The file of each experience, within the folder, by its id.
    """

    experiences: tuple[Experience, ...] = ()
    problems: tuple[Problem, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})


class _Read(NamedTuple):
    """A file as it was when it was read: what it held, or why that is no experience."""

    stamp: tuple[int, ...]
    read_at: int
    found: Experience | str
    unknown: tuple[str, ...] = ()

    def is_still(self, stamp: tuple[int, ...]) -> bool:
        # Somebody may write twice within what the clock of a file system tells apart.
        return stamp == self.stamp and self.read_at - max(stamp[:2]) > _SETTLED


class Folder:
    """A folder with files of experiences. May be looked at from any thread.

    Args:
        directory: The folder.
        subfolders: Whether what lies in folders below it counts too.
        measures: Is told how many files were as they were. Default: nobody is.
    """

    def __init__(self, directory: Path, *, subfolders: bool = False, measures: Measures | None = None) -> None:
        self.directory = directory
        self._measures = measures
        self._subfolders = subfolders
        self._read: dict[str, _Read] = {}
        self._lock = forks.lock()

    def look(self) -> Shelf:
        """What it holds now. Only files that have changed since the last look are read."""
        with self._lock:
            locked: dict[str, _Read] = {}
            try:
                found = [*self._names(self.directory, locked), *locked]
            except OSError as error:
                self._read = {}
                return Shelf(problems=(Problem(".", f"The folder cannot be read: {error.strerror or error}."),))
            names = sorted(found, key=lambda name: (name.count("/"), name.split("/")))
            before, self._read = self._read, {name: locked.get(name) or self._of(name) for name in names}
            if self._measures is not None:
                hits = sum(read is before.get(name) for name, read in self._read.items())
                self._measures.cache(CACHE, hits, len(names) - hits)
            return _shelf(self._read)

    def _names(self, folder: Path, locked: dict[str, _Read], below: str = "") -> Iterator[str]:
        """The files that are meant to be experiences, as paths within the folder; those below it that are locked."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if self._subfolders and entry.is_dir(follow_symlinks=False):
                    try:
                        yield from self._names(Path(entry.path), locked, f"{below}{entry.name}/")
                    except OSError as error:
                        reason = f"The folder cannot be read: {error.strerror or error}."
                        locked[below + entry.name] = _Read((), 0, reason)
                elif entry.name.startswith(PREFIX) and entry.name.lower().endswith((SUFFIX, ".yml")):
                    yield below + entry.name

    def _of(self, name: str) -> _Read:
        path = self.directory / name
        try:
            about = path.stat()
            # The time of a file can be set at will; that of its change cannot.
            stamp = about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino
            if (known := self._read.get(name)) is not None and known.is_still(stamp):
                return known
            read_at = time.time_ns()
            return _Read(stamp, read_at, *_found(path, about))
        except OSError as error:
            return _Read((), 0, f"It cannot be read: {error.strerror or error}.")


def _shelf(read: dict[str, _Read]) -> Shelf:
    experiences: dict[str, Experience] = {}
    files: dict[str, str] = {}
    problems = []
    for name, each in read.items():
        if isinstance(each.found, str):
            problems.append(Problem(name, each.found))
            continue
        exp_id = each.found.exp_id
        if exp_id in experiences:
            first = safe_repr(files[exp_id])
            reason = f"The exp_id {safe_repr(exp_id)} is that of {first} already, which counts. Give it another."
            problems.append(Problem(name, reason))
            continue
        experiences[exp_id], files[exp_id] = each.found, name
        if each.unknown:
            told = ", ".join(map(repr, each.unknown))
            reason = f"It has what no experience has: {told:.200}. There are exp_id, who, when and what."
            problems.append(Problem(name, reason, is_loaded=True))
    return Shelf(tuple(experiences.values()), tuple(problems), files)


def _unfit(path: Path, about: os.stat_result) -> str:
    """Why a file is not even read; "" if it is."""
    if not path.name.endswith(SUFFIX):
        return f"It is not read, since its name does not end with {safe_repr(SUFFIX)}. Rename it."
    if not stat.S_ISREG(about.st_mode):
        return "It is no file."
    return f"It has {about.st_size:,} bytes; {LARGEST:,} are allowed." if about.st_size > LARGEST else ""


def _found(path: Path, about: os.stat_result) -> tuple[Experience | str, tuple[str, ...]]:
    """What a file holds, or why that is no experience; and what of it nobody reads."""
    if unfit := _unfit(path, about):
        return unfit, ()
    try:
        held = yaml.load(path.read_bytes().decode("utf-8-sig"), Loader=_Texts)  # noqa: S506 - a loader that is safe
    except UnicodeDecodeError as error:
        return f"It is not UTF-8: {error.reason} at byte {error.start:,}. Save it as UTF-8.", ()
    except _UNREADABLE as error:
        return f"It is not YAML that can be read: {' '.join(str(error).split()):.{_REASON}}.", ()
    if not isinstance(held, dict):
        return "It holds no mapping. Write exp_id, who, when and what, one experience a file.", ()
    try:
        return Experience.from_dict(held), tuple(str(key) for key in held if key not in _FIELDS)
    except InvalidInput as error:
        return str(error), ()


class _Texts(yaml.SafeLoader):
    """Plain YAML in which every value is text, but for null; what stands twice is refused."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key in (each.value for each, _ in node.value if isinstance(each.value, str)):
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{safe_repr(key)} stands twice", node.start_mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


_Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
