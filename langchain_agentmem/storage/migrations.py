"""The schema, as named files that are applied once, in order, and never edited after a release.

Each file in `schema/<dialect>/` is applied together with its record in one transaction. A database that
records a migration this package does not know was written by a newer version: it is refused, unread.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import NewerDatabase

RECORD = """create table if not exists agentmem_migration (name text primary key, applied_at bigint not null)"""

NAME = re.compile(r"^\d{4}_[a-z][a-z0-9_]*$")
"""What a migration may be called: its place in the order, then what it brings."""


class Migration(NamedTuple):
    """One step of the schema: its name and the SQL that takes it."""

    name: str
    sql: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """All migrations of a dialect, in order."""
    folder = resources.files(__package__).joinpath("schema", dialect)
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(Migration(f.name.removesuffix(".sql"), f.read_text(encoding="utf-8")) for f in files)


def pending(dialect: str, applied: set[str]) -> list[Migration]:
    """The migrations that a database still lacks.

    Args:
        dialect: "sqlite" or "postgres".
        applied: Names recorded in the database.

    Raises:
        NewerDatabase: The database records a migration that this version does not know.
    """
    known = {migration.name for migration in migrations(dialect)}
    if unknown := sorted(applied - known):
        raise NewerDatabase(
            f"The database has the schema change {safe_repr(unknown[0])}, which this version of langchain-agentmem "
            "does not know. Upgrade the package to open it."
        )
    return [migration for migration in migrations(dialect) if migration.name not in applied]
