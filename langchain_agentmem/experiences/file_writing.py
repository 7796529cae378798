"""A new file for an experience: whole or not at all, and never in the place of another."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience_files import SUFFIX

_LONGEST_NAME = 120
"""Bytes of an id that the name of a file shows."""
_MOST = 10_000
"""How many files may be called after one id."""


def name_for(exp_id: str) -> str:
    """What of an id can stand in the name of a file: letters, digits, dots and hyphens."""
    plain = re.sub(r"[^\w.-]+", "_", exp_id).strip("._")
    return plain.encode()[:_LONGEST_NAME].decode(errors="ignore") or "experience"


def places(folder: Path, prefix: str, exp_id: str) -> Iterator[Path]:
    """The files that may be called after an experience, the best name first."""
    name = f"{prefix}{name_for(exp_id)}"
    marks = itertools.chain([""], (f"-{number}" for number in range(2, _MOST)))
    return (folder / f"{name}{mark}{SUFFIX}" for mark in marks)


def write_new(folder: Path, prefix: str, exp_id: str, text: str) -> Path:
    """Write a file that is not there yet, called after an experience.

    Args:
        folder: Where to.
        prefix: How its name begins.
        exp_id: The experience.
        text: What is written.

    Returns:
        The file.

    Raises:
        InvalidInput: It cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{prefix}")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            for path in places(folder, prefix, exp_id):
                if not os.path.lexists(path) and _claimed(Path(name), path):
                    return path
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"No file can be written in {safe_repr(str(folder))}: {error.strerror or error}.") from error
    raise InvalidInput(
        f"There are too many files called {safe_repr(prefix + name_for(exp_id))} in {safe_repr(str(folder))}."
    )


def _claimed(file: Path, path: Path) -> bool:
    """Give a file its name, unless another took it meanwhile."""
    try:
        os.link(file, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            path.open("x").close()
        except FileExistsError:
            return False
        file.replace(path)
    return True
