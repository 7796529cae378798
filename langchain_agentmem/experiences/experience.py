"""`Experience`: an instruction, with the condition under which it applies.

    Experience("file-validation", ["CodeInterpreter"], "Use when files are read.", "Check that the file exists first.")

The selector sees the condition. The prompt gets the instruction, in a section that its content cannot end, before the
question that it was chosen for.

    These instructions hold for what is asked now.
    <experiences>
    <experience id="file-validation">
    Check that the file exists before it is read.
    </experience>
    </experiences>

Experiences are the `*.yaml` and `*.yml` files of an `ExperienceFolder`, each with one experience or a list of them.
They are read again when they change. A file that cannot be used is reported with its reason, and logged once when
experiences are loaded; the others are loaded. Everything in a file is text, so that `exp_id: 1` is "1" and `exp_id:
no` is "no". A new file is written whole or not at all, and never in the place of another.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

import yaml

from langchain_agentmem.base.argument_checks import check_flag, texts_given
from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message_marks import block
from langchain_agentmem.messages.role_rounds import Portable, fields_of

logger = logging.getLogger(__name__)

LONGEST = 100_000
"""The maximum number of characters of a condition or an instruction."""


@dataclass(frozen=True, slots=True)
class Experience(Portable):
    """An instruction with its condition; the fields are ordered as in the original system.

    Attributes:
        exp_id: Its id, unique within a library. A number becomes text.
        who: The roles it is meant for, as a tuple; empty for all. A list or set of names, one name or None is accepted.
        when: The condition, which the selector sees.
        what: The instruction, which is put into the prompt.

    Raises:
        InvalidInput: A field is empty, too long or of a wrong type.
    """

    exp_id: str
    who: tuple[str, ...] = ()
    when: str = ""
    what: str = ""

    def __post_init__(self) -> None:
        exp_id: Any = self.exp_id
        if isinstance(exp_id, str | int | float) and not isinstance(exp_id, bool):
            exp_id = str(exp_id).strip()
        object.__setattr__(self, "exp_id", id_of(exp_id, "experience"))
        object.__setattr__(self, "who", _roles(self.who))
        for name in ("when", "what"):
            text: Any = getattr(self, name)
            of = f"the experience {safe_repr(self.exp_id)}"
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"'{name}' is missing from {of}. Write it as a text.")
            if len(text) > LONGEST:
                raise InvalidInput(f"'{name}' of {of} has {len(text):,} characters; {LONGEST:,} are allowed.")

    def is_for(self, role: str | None) -> bool:
        """Return whether the experience is meant for a role.

        Args:
            role: Its name, in any case; None or "" for no role, which every experience is meant for.
        """
        name = (role or "").strip().casefold()
        return not name or not self.who or name in (each.casefold() for each in self.who)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"exp_id", "who", "when", "what"}``."""
        return {"exp_id": self.exp_id, "who": list(self.who), "when": self.when, "what": self.what}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an experience.

        Args:
            data: The result of `to_dict`. An older form has ``experience_text``, which replaces a missing ``when`` or
                ``what``; other keys are ignored.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        fields = fields_of(cls, data, "exp_id")
        legacy: Any = fields.get("experience_text")
        when, what = (legacy if fields.get(name) is None else fields[name] for name in ("when", "what"))
        return cls(fields["exp_id"], fields.get("who") or (), when, what)


def _roles(given: Any) -> tuple[str, ...]:
    """Return the names of roles, each once."""
    names = [] if given is None else texts_given(given, "The roles of an experience")
    return tuple(dict.fromkeys(filter(None, map(str.strip, names))))


PART: Final = "experiences"


def section(experiences: Iterable[Experience]) -> str:
    """Format the instructions of experiences as a section of a prompt; "" if there are none.

    Only the instructions are shown, not the conditions. Text that could end the section, or a message, is escaped.

    Args:
        experiences: The chosen experiences, the most important first.
    """
    text = told(experiences)
    return block(PART, text) if text else ""


def told(experiences: Iterable[Experience]) -> str:
    """Format instructions, each in a fence of its own, without the fence around them all.

    Args:
        experiences: The chosen experiences.
    """
    return "\n".join(fenced("experience", harmless(each.what.strip()), id=each.exp_id) for each in experiences)


PREFIX, SUFFIX = "handcrafted_exp_", ".yaml"
"""The beginning and end of the names of new files."""
LARGEST = 300_000
"""The maximum number of bytes of a file."""
_FIELDS = {"exp_id", "who", "when", "what", "experience_text"}
_UNREADABLE = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The errors that PyYAML raises for invalid YAML, or for a tag that does not fit its value."""


class FileProblem(NamedTuple):
    """A problem with a file.

    Attributes:
        path: The path of the file within the folder.
        reason: The problem, and how to solve it.
        is_loaded: Whether the experience is loaded nevertheless.
    """

    path: str
    reason: str
    is_loaded: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class LibraryCheck(NamedTuple):
    """The result of reading every file of a folder.

    Attributes:
        experiences: The loaded experiences, in the order of their files: those of a folder before those below it, then
            by name.
        problems: The problems with files, in the same order, including those of loaded experiences.
        files: The path of the file of each experience, within the folder, by the id of the experience.
    """

    experiences: tuple[Experience, ...]
    problems: tuple[FileProblem, ...]
    files: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """True if no problem keeps an experience from being loaded."""
        return all(problem.is_loaded for problem in self.problems)


FileContent: TypeAlias = tuple[Sequence[Experience], Sequence[tuple[str, bool]]]
"""The valid experiences of a file, and its problems: reasons, with whether the experience is loaded."""


class ExperienceFolder:
    """A folder with files of experiences. Safe to read from any thread.

    Args:
        directory: The folder.
        subfolders: Whether files in folders below it are read, too. Default: False.

    Raises:
        InvalidInput: The folder does not exist.
    """

    def __init__(self, directory: str | os.PathLike[str], *, subfolders: bool = False) -> None:
        self.directory = path_of_file(directory)
        if not os.path.isdir(self.directory):  # noqa: PTH112 - the method of a path raises where it is too long
            raise InvalidInput(
                f"There is no folder {safe_repr(str(self.directory))} with experiences. Make it, or name another."
            )
        self._subfolders = check_flag("subfolders", subfolders)

    def load(self, sub_path: str | None = None) -> LibraryCheck:
        """Read every file as `look` does, and log each unusable file once per reason.

        Args:
            sub_path: As for `look`.
        """
        shelf = self.look(sub_path)
        for problem in shelf.problems:
            if not problem.is_loaded:
                _warn(str(self.directory / (sub_path or "")), problem)
        return shelf

    def look(self, sub_path: str | None = None) -> LibraryCheck:
        """Read every file, and return the experiences and problems.

        Args:
            sub_path: A folder below it to read instead.

        Raises:
            InvalidInput: That folder is not below it, or does not exist.
        """
        if sub_path is not None:
            path = path_of_file(sub_path)
            inside = (self.directory / path).resolve()
            if path.is_absolute() or not inside.is_relative_to(self.directory.resolve()):
                raise InvalidInput(f"The folder {safe_repr(str(path))} is not below {safe_repr(str(self.directory))}.")
            return ExperienceFolder(inside, subfolders=self._subfolders).look()
        locked: list[OSError] = []
        found: dict[Path, FileContent] = {}
        for folder, below, files in os.walk(self.directory, onerror=locked.append):
            names = files if self._subfolders else [*files, *below]
            if not self._subfolders:
                below.clear()
            for name in names:
                # Hidden files and TaskWeaver's sessions are not read.
                if name.lower().endswith((SUFFIX, ".yml")) and not name.startswith((".", "raw_exp_")):
                    found[Path(folder, name)] = _read(Path(folder, name))
        for error in locked:
            found[Path(error.filename)] = _refused(f"The folder cannot be read: {error.strerror or error}.")
        named = {path.relative_to(self.directory).as_posix(): content for path, content in found.items()}
        return _shelf(sorted(named.items(), key=lambda each: (each[0].count("/"), each[0].split("/"))))


@lru_cache(maxsize=1_000)
def _warn(folder: str, problem: FileProblem) -> None:
    """Log that a file cannot be used. The cache limits it to once for each file and reason."""
    logger.warning("An experience file in %s cannot be used: %s", folder, problem)


def _shelf(found: Sequence[tuple[str, FileContent]]) -> LibraryCheck:
    experiences: dict[str, Experience] = {}
    files: dict[str, str] = {}
    problems: list[FileProblem] = []
    for name, (held, faults) in found:
        problems += [FileProblem(name, *fault) for fault in faults]
        for each in held:
            if each.exp_id in experiences:
                first = safe_repr(files[each.exp_id])
                reason = f"The exp_id {safe_repr(each.exp_id)} is that of {first} already, which counts. Give another."
                problems.append(FileProblem(name, reason))
            else:
                experiences[each.exp_id], files[each.exp_id] = each, name
    return LibraryCheck(tuple(experiences.values()), tuple(problems), files)


def _read(path: Path) -> FileContent:
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return _refused("It is no file.")
        if about.st_size > LARGEST:
            return _refused(f"It has {about.st_size:,} bytes; {LARGEST:,} are allowed.")
        return read_file(path.read_bytes())
    except OSError as error:
        return _refused(f"It cannot be read: {error.strerror or error}.")


def _refused(reason: str) -> FileContent:
    return (), ((reason, False),)


@lru_cache(maxsize=10_000)
def read_file(data: bytes) -> FileContent:
    """Read the experiences that the text of a file holds: one, or a list of them.

    Thanks to the cache, unchanged files are not parsed again.
    """
    try:
        held = yaml.load(data.decode("utf-8-sig"), Loader=_TextLoader)  # noqa: S506 - a loader that is safe
    except UnicodeDecodeError as error:
        return _refused(f"It is not UTF-8: {error.reason} at byte {error.start:,}. Save it as UTF-8.")
    except _UNREADABLE as error:
        hint = " Put a text that contains ': ' in quotes." if "mapping values" in str(error) else ""
        return _refused(f"It is not YAML that can be read: {' '.join(str(error).split()):.300}.{hint}")
    several = isinstance(held, list) and bool(held)
    experiences: list[Experience] = []
    problems: list[tuple[str, bool]] = []
    for number, each in enumerate(held if several else [held], 1):
        place = f"Item {number}: " if several else ""
        if not isinstance(each, dict):
            problems.append((f"{place}It holds no mapping. Write exp_id, who, when and what.", False))
            continue
        try:
            experiences.append(Experience.from_dict(each))
        except InvalidInput as error:
            problems.append((f"{place}{error}", False))
            continue
        if unknown := ", ".join(repr(str(key)) for key in each if key not in _FIELDS):
            reason = f"{place}It has what no experience has: {unknown:.200}. There are exp_id, who, when and what."
            problems.append((reason, True))
    return experiences, problems


class _TextLoader(yaml.SafeLoader):
    """A loader of plain YAML: every value but null is text, and duplicate keys are refused."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key in (each.value for each, _ in node.value if isinstance(each.value, str)):
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{safe_repr(key)} stands twice", node.start_mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def write_new(folder: Path, exp_id: str, text: str) -> Path:
    """Write a new file, named after an experience.

    Args:
        folder: The folder.
        exp_id: The id of the experience.
        text: The text to write.

    Returns:
        The path of the file.

    Raises:
        InvalidInput: The file cannot be written.
    """
    # Letters, digits, dots and hyphens of an id can stand in the name of a file.
    plain = re.sub(r"[^\w.-]+", "_", exp_id).strip("._").encode()[:120].decode(errors="ignore")
    name = f"{PREFIX}{plain or 'experience'}"
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=f".{PREFIX}") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            path = folder / f"{name}{SUFFIX}"
            number = 1
            while True:
                with contextlib.suppress(FileExistsError):
                    os.link(file.name, path)  # which replaces no file
                    return path
                number += 1
                path = folder / f"{name}-{number}{SUFFIX}"
    except OSError as error:
        raise InvalidInput(f"No file can be written in {safe_repr(str(folder))}: {error.strerror or error}.") from error
