"""A backup or an export becomes a database again, which takes its place when it was checked as a whole.

It is made beside its place, or, for a PostgreSQL database, in a file of its own that is copied there. So what is not
whole is refused, and leaves what is there as it was.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.files import is_database, path_of_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Import
from langchain_agentmem.storage.table_copy import copied_file
from langchain_agentmem.upkeep import export, integrity
from langchain_agentmem.upkeep.database_copy import Progress, copy, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was restored.

    Attributes:
        source: The file.
        kind: What it is: "database" or "export".
        target: Where it was restored.
        checked: How much was looked at, by name, as `verify` tells it.
    """

    source: str
    kind: str
    target: str
    checked: Mapping[str, int] = field(default_factory=dict)


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
    checking: Callable[[str], object] | None = None,
) -> RestoreReport:
    """Make a database of a backup or an export.

    Args:
        source: The file that `backup` or `export` wrote. It is only read.
        target: Where to: a path or a `postgresql://` URL, where nothing is stored yet.
        force: Whether what is stored there is replaced.
        progress: Is told how far the copy to PostgreSQL has come.
        checking: Is told what is being checked.

    Raises:
        InvalidInput: The file is missing or of another kind, or something is stored at the target.
        StorageError: What was restored is not whole, or a database failed. The target is as it was.
    """
    for what, told in (("progress", progress), ("checking", checking)):
        listener_given(told, what)
    file, name = path_of_file(source), name_of(target)
    if not file.is_file():
        raise InvalidInput(f"There is no backup at {safe_repr(str(file))}.")
    if not is_postgres(name) and Path(name).exists() and file.samefile(name):
        raise InvalidInput(f"{safe_repr(name)} is the backup itself. Restore it to another place.")
    kind = "database" if is_database(file) else "export"
    place = place_of(name)
    place.check(force=force)
    if is_postgres(name):
        with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
            made = Path(folder) / "restored.db"
            checked = _made(file, kind, made, checking)
            with contextlib.closing(Database(made)) as database:
                copy(database.engine, name, force=force, progress=progress)
    else:
        with place.alone():
            place.drop()
            try:
                checked = _made(file, kind, Path(f"{name}.copying"), checking)
                place.take(force=force)
            finally:
                place.drop()
    return RestoreReport(source=str(file), kind=kind, target=place.name, checked=checked)


def _made(file: Path, kind: str, place: Path, checking: Callable[[str], object] | None) -> Mapping[str, int]:
    """Make the database, and check it."""
    if kind == "database":
        copied_file(file, place)
    with contextlib.closing(Database(place)) as database:
        if kind == "export":
            into = Import(now=database.now(), tail=database.tail)
            database.write("care.import", partial(export.load, file, into), shown=False)
        report = database.run("care.check", partial(integrity.verify, database.engine, checking), shown=False)
    if not report.ok:
        more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        raise DatabaseUnreadable(
            f"{safe_repr(str(file))} is damaged, and was not restored: {report.problems[0]}{more}."
        )
    return report.checked
