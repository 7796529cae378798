"""The folders of a library: its own, and those below it that sessions name (document 000)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain_agentmem.base import forks
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience_files import Folder, Shelf
from langchain_agentmem.storage.database import Database


class Folders:
    """What a library reads from. May be used from any thread.

    Args:
        database: Where feedback is kept.
        directory: Its own folder.
        subfolders: Whether what lies below it counts too.

    Raises:
        InvalidInput: There is no such folder.
    """

    def __init__(self, database: Database, directory: str | os.PathLike[str], *, subfolders: bool) -> None:
        self.database = database
        self.directory = path_of_file(directory)
        if not os.path.isdir(self.directory):  # noqa: PTH112 - the method of a path raises where it is too long
            raise InvalidInput(
                f"There is no folder {safe_repr(str(self.directory))} with experiences. Make it, or name another."
            )
        if not isinstance(subfolders, bool):
            raise InvalidInput(f"subfolders must be True or False, not {safe_repr(subfolders)}.")
        self._subfolders = subfolders
        self._folders: dict[str, Folder] = {}
        self._lock = forks.lock()

    def look(self, sub_path: str | None = None) -> Shelf:
        """What a folder holds now.

        Args:
            sub_path: Which folder below the library's own. Default: that itself.

        Raises:
            InvalidInput: It is not below the library's own, or not there.
        """
        path = self.directory if sub_path is None else self._below(sub_path)
        with self._lock:
            folder = self._folders.setdefault(
                str(path), Folder(path, subfolders=self._subfolders, measures=self.database.measures)
            )
        return folder.look()

    def look_below(self) -> Shelf:
        """What any folder holds now that a session may name."""
        return Folder(self.directory, subfolders=True).look()

    def _below(self, sub_path: Any) -> Path:
        path = path_of_file(sub_path)
        inside = (self.directory / path).resolve()
        if path.is_absolute() or not inside.is_relative_to(self.directory.resolve()):
            raise InvalidInput(f"The folder {safe_repr(str(path))} is not below {safe_repr(str(self.directory))}.")
        if not os.path.isdir(inside):  # noqa: PTH112 - see above
            raise InvalidInput(f"There is no folder {safe_repr(str(path))} below {safe_repr(str(self.directory))}.")
        return inside
