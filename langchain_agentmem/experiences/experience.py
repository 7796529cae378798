"""`Experience`: an instruction, with the condition under which it applies.

    Experience("file-validation", ["CodeInterpreter"], "Use when files are read.", "Check that the file exists first.")

The selector reads the condition. It inserts the instruction into the prompt, before the question for which it was
chosen. Markup in an instruction is escaped, so that an instruction cannot end its section.

    These instructions hold for what is asked now.
    <experiences>
    <experience id="file-validation">
    Check that the file exists first.
    </experience>
    </experiences>

An `ExperienceFolder` reads `*.yaml` and `*.yml` files. Each contains one experience or a list of experiences. Every
load reads the current files. An unusable file does not prevent the others from being loaded: its problem is reported,
and logged once. Every value in a file except null is read as text, so that `exp_id: 1` is "1" and `exp_id: no` is "no".
A new file is written completely or not at all, and never replaces another file.
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

from langchain_agentmem.base.argument_checks import check_flag, parse_texts
from langchain_agentmem.base.fencing import fence_text, sanitize_text
from langchain_agentmem.base.files import check_path
from langchain_agentmem.base.namespaces import check_id
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message_marks import memory_block
from langchain_agentmem.messages.role_rounds import Portable, check_dict

logger = logging.getLogger(__name__)

MAX_TEXT_LENGTH = 100_000
"""The maximum number of characters of a condition or an instruction."""


@dataclass(frozen=True, slots=True)
class Experience(Portable):
    """An instruction with its condition. Its fields are ordered as in TaskWeaver.

    Attributes:
        exp_id: The id, unique within a library. A number becomes text.
        who: The names of the roles to which the experience applies; empty for all roles. A single name, a list, a set
            or None is converted to a tuple.
        when: The condition, which the selector reads. Required.
        what: The instruction, which is inserted into the prompt. Required.

    Raises:
        InvalidInput: `exp_id`, `when` or `what` is empty or too long, or a field has a wrong type.
    """

    exp_id: str
    who: tuple[str, ...] = ()
    when: str = ""
    what: str = ""

    def __post_init__(self) -> None:
        exp_id: Any = self.exp_id
        if isinstance(exp_id, str | int | float) and not isinstance(exp_id, bool):
            exp_id = str(exp_id).strip()
        object.__setattr__(self, "exp_id", check_id(exp_id, "experience"))
        names = [] if self.who is None else parse_texts(self.who, "The roles of an experience")
        object.__setattr__(self, "who", tuple(dict.fromkeys(filter(None, map(str.strip, names)))))
        for name in ("when", "what"):
            text: Any = getattr(self, name)
            owner = f"the experience {safe_repr(self.exp_id)}"
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"'{name}' is missing from {owner}. Write it as a text.")
            if len(text) > MAX_TEXT_LENGTH:
                raise InvalidInput(f"'{name}' of {owner} has {len(text):,} characters, more than {MAX_TEXT_LENGTH:,}.")

    def is_for(self, role: str | None) -> bool:
        """Return whether the experience applies to a role.

        Args:
            role: The name of the role; case is ignored. For None or "", the result is True.
        """
        name = (role or "").strip().casefold()
        return not name or not self.who or name in (each.casefold() for each in self.who)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary: ``exp_id``, ``who``, ``when`` and ``what``."""
        return {"exp_id": self.exp_id, "who": list(self.who), "when": self.when, "what": self.what}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an experience.

        Args:
            data: The result of `to_dict`. If ``when`` or ``what`` is missing, the value of the older key
                ``experience_text`` is used. Other keys are ignored.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        fields = check_dict(cls, data, "exp_id")
        legacy: Any = fields.get("experience_text")
        when, what = (legacy if fields.get(name) is None else fields[name] for name in ("when", "what"))
        return cls(fields["exp_id"], fields.get("who") or (), when, what)


PROMPT_PART: Final = "experiences"
"""The name of the section in a prompt."""


def section(experiences: Iterable[Experience]) -> str:
    """Format the instructions of experiences as a section of a prompt; "" if there are none.

    The section contains the instructions without the conditions. Text that could end the section or the message is
    escaped.

    Args:
        experiences: The chosen experiences, the most important first.
    """
    text = format_instructions(experiences)
    return memory_block(PROMPT_PART, text) if text else ""


def format_instructions(experiences: Iterable[Experience]) -> str:
    """Format instructions, each in its own tags, without the tags of the section.

    Args:
        experiences: The chosen experiences.
    """
    return "\n".join(fence_text("experience", sanitize_text(each.what.strip()), id=each.exp_id) for each in experiences)


PREFIX, SUFFIX = "handcrafted_exp_", ".yaml"
"""The prefix and suffix of the names of new files."""
MAX_FILE_BYTES = 300_000
"""The maximum number of bytes of a file."""
_FIELDS = {"exp_id", "who", "when", "what", "experience_text"}
_YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The errors that PyYAML raises for invalid YAML, or for a tag that does not match its value."""


class FileProblem(NamedTuple):
    """A problem with a file.

    Attributes:
        path: The path of the file, relative to the folder.
        reason: The problem, and how to solve it.
        is_loaded: True if the experience is loaded despite the problem.
    """

    path: str
    reason: str
    is_loaded: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class LibraryCheck(NamedTuple):
    """The result of loading a folder of experiences, from `load`, `read` or `validate`.

    Attributes:
        experiences: The loaded experiences, in the order of their files: by depth, then by name.
        problems: The problems with files, in the same order. They include problems that do not prevent loading.
        files: The path of each experience's file, relative to the folder, by `exp_id`.
    """

    experiences: tuple[Experience, ...]
    problems: tuple[FileProblem, ...]
    files: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """True if no problem prevents an experience from being loaded."""
        return all(problem.is_loaded for problem in self.problems)


FileContent: TypeAlias = tuple[Sequence[Experience], Sequence[tuple[str, bool]]]
"""The valid experiences of a file, and the `reason` and `is_loaded` of each `FileProblem`."""


class ExperienceFolder:
    """A folder with YAML files of experiences. Thread-safe.

    Args:
        directory: The folder.
        subfolders: True to also read the files in subfolders. Default: False.

    Raises:
        InvalidInput: The folder does not exist.
    """

    def __init__(self, directory: str | os.PathLike[str], *, subfolders: bool = False) -> None:
        self.directory = check_path(directory)
        if not os.path.isdir(self.directory):  # noqa: PTH112 - `Path.is_dir` raises for a path that is too long
            name = safe_repr(str(self.directory))
            raise InvalidInput(f"The folder {name} of experiences does not exist. Create it, or pass another.")
        self._subfolders = check_flag("subfolders", subfolders)

    def load(self, sub_path: str | None = None) -> LibraryCheck:
        """Read every file like `read`, and log each unusable file once per reason.

        Args:
            sub_path: The subfolder to read. Default: the folder itself.
        """
        check = self.read(sub_path)
        for problem in check.problems:
            if not problem.is_loaded:
                _warn_once(str(self.directory / (sub_path or "")), problem)
        return check

    def read(self, sub_path: str | None = None) -> LibraryCheck:
        """Read every file, and return the experiences and problems.

        Args:
            sub_path: The subfolder to read. Default: the folder itself.

        Raises:
            InvalidInput: The subfolder is outside of the folder, or does not exist.
        """
        if sub_path is not None:
            path = check_path(sub_path)
            subfolder = (self.directory / path).resolve()
            if path.is_absolute() or not subfolder.is_relative_to(self.directory.resolve()):
                raise InvalidInput(f"The folder {safe_repr(str(path))} is not below {safe_repr(str(self.directory))}.")
            return ExperienceFolder(subfolder, subfolders=self._subfolders).read()
        errors: list[OSError] = []
        contents: dict[Path, FileContent] = {}
        for folder, folders, files in os.walk(self.directory, onerror=errors.append):
            names = files if self._subfolders else [*files, *folders]  # a folder "x.yaml" is reported as a problem
            if not self._subfolders:
                folders.clear()
            for name in names:
                # Skip hidden files, and `raw_exp_*` files, in which TaskWeaver records sessions.
                if name.lower().endswith((SUFFIX, ".yml")) and not name.startswith((".", "raw_exp_")):
                    contents[Path(folder, name)] = _read_file(Path(folder, name))
        for error in errors:
            contents[Path(error.filename)] = _file_failure(f"The folder cannot be read: {error.strerror or error}.")
        by_name = {path.relative_to(self.directory).as_posix(): content for path, content in contents.items()}
        return _check_files(sorted(by_name.items(), key=lambda each: (each[0].count("/"), each[0].split("/"))))


@lru_cache(maxsize=1_000)
def _warn_once(folder: str, problem: FileProblem) -> None:
    """Log that a file cannot be used.

    The cache suppresses repeated warnings for the same file and reason.
    """
    logger.warning("An experience file in %s cannot be used: %s", folder, problem)


def _check_files(contents: Sequence[tuple[str, FileContent]]) -> LibraryCheck:
    experiences: dict[str, Experience] = {}
    files: dict[str, str] = {}
    problems: list[FileProblem] = []
    for name, (loaded, file_problems) in contents:
        problems += [FileProblem(name, *problem) for problem in file_problems]
        for each in loaded:
            if each.exp_id in experiences:
                first = safe_repr(files[each.exp_id])
                reason = f"The exp_id {safe_repr(each.exp_id)} is already used in {first}. Choose another exp_id."
                problems.append(FileProblem(name, reason))
            else:
                experiences[each.exp_id], files[each.exp_id] = each, name
    return LibraryCheck(tuple(experiences.values()), tuple(problems), files)


def _read_file(path: Path) -> FileContent:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return _file_failure("It is not a regular file.")
        if status.st_size > MAX_FILE_BYTES:
            return _file_failure(f"It has {status.st_size:,} bytes; {MAX_FILE_BYTES:,} are allowed.")
        return parse_file(path.read_bytes())
    except OSError as error:
        return _file_failure(f"It cannot be read: {error.strerror or error}.")


def _file_failure(reason: str) -> FileContent:
    return (), ((reason, False),)


@lru_cache(maxsize=10_000)
def parse_file(data: bytes) -> FileContent:
    """Parse the content of a file: one experience, or a list of them.

    Because of the cache, unchanged files are not parsed again.
    """
    try:
        content = yaml.load(data.decode("utf-8-sig"), Loader=_TextLoader)  # noqa: S506 - a safe loader
    except UnicodeDecodeError as error:
        return _file_failure(f"It is not UTF-8: {error.reason} at byte {error.start:,}. Save it as UTF-8.")
    except _YAML_ERRORS as error:
        hint = " Put a text that contains ': ' in quotes." if "mapping values" in str(error) else ""
        return _file_failure(f"It is not valid YAML: {' '.join(str(error).split()):.300}.{hint}")
    is_list = isinstance(content, list) and bool(content)
    experiences: list[Experience] = []
    problems: list[tuple[str, bool]] = []
    for number, each in enumerate(content if is_list else [content], 1):
        prefix = f"Item {number}: " if is_list else ""
        if not isinstance(each, dict):
            problems.append((f"{prefix}It is not a mapping. Write exp_id, who, when and what.", False))
            continue
        try:
            experiences.append(Experience.from_dict(each))
        except InvalidInput as error:
            problems.append((f"{prefix}{error}", False))
            continue
        if unknown := ", ".join(repr(str(key)) for key in each if key not in _FIELDS):
            problems.append((f"{prefix}Unknown keys: {unknown:.200}. Valid keys: exp_id, who, when, what.", True))
    return experiences, problems


class _TextLoader(yaml.SafeLoader):
    """A safe YAML loader: every value except null is text, and duplicate keys are refused."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        keys: set[str] = set()
        for key in (each.value for each, _ in node.value if isinstance(each.value, str)):
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {safe_repr(key)}", node.start_mark)
            keys.add(key)
        return dict(super().construct_mapping(node, deep))


# PyYAML finds the types of unquoted values by their first character. Keep only the type null.
_TextLoader.yaml_implicit_resolvers = {
    first_character: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first_character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def write_new_file(folder: Path, exp_id: str, text: str) -> Path:
    """Write a new file whose name contains the id of an experience.

    Args:
        folder: The folder.
        exp_id: The id of the experience.
        text: The text to write.

    Returns:
        The path of the file.

    Raises:
        InvalidInput: The file cannot be written.
    """
    # Replace the characters of the id that are unsafe in a file name.
    stem = re.sub(r"[^\w.-]+", "_", exp_id).strip("._").encode()[:120].decode(errors="ignore")
    name = f"{PREFIX}{stem or 'experience'}"
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=f".{PREFIX}") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            path = folder / f"{name}{SUFFIX}"
            number = 1
            while True:
                with contextlib.suppress(FileExistsError):
                    os.link(file.name, path)  # fails if the path exists, so no file is replaced
                    return path
                number += 1
                path = folder / f"{name}-{number}{SUFFIX}"
    except OSError as error:
        raise InvalidInput(f"No file can be written in {safe_repr(str(folder))}: {error.strerror or error}.") from error
