"""A folder that nothing is read outside of, whatever paths and links say.

Each step of a path is opened below the one before it, and never through a link: a link is read, and its target is
walked in the same way. So nothing that others change meanwhile leads out either. Where the system cannot open below a
folder (Windows), a path is resolved first and checked then.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError

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


class Entry(NamedTuple):
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

    def entries(self, parts: Parts, most: int) -> tuple[list[Entry], bool]:
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


def _entry(found: os.DirEntry[str]) -> Entry:
    try:
        if found.is_symlink():
            return Entry(found.name, "link", 0)
        if found.is_dir(follow_symlinks=False):
            return Entry(found.name, "folder", 0)
        if found.is_file(follow_symlinks=False):
            return Entry(found.name, "file", found.stat(follow_symlinks=False).st_size)
    except OSError:  # it is gone
        pass
    return Entry(found.name, "other", 0)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "There is nothing at this path."
    return f"It cannot be read: {error.strerror or error}."
