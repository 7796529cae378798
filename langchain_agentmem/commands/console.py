"""What the commands share: how a database is named and opened, and how JSON is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.errors import InvalidInput

Existing = Annotated[
    str, typer.Option("--database", metavar="PATH", help="The database: a path or a postgresql:// URL.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def existing(database: str) -> AgentMemory:
    """Open a database that is there; a mistyped path must not become an empty one.

    Raises:
        InvalidInput: There is none.
    """
    if "://" not in database and not Path(database).is_file():
        raise InvalidInput(f"There is no database at {database!r}.")
    return AgentMemory(database)


def namespace_named(path: str) -> tuple[str, ...]:
    """The namespace that is written as "a/b"."""
    return tuple(filter(None, path.split("/")))


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII, so that no console and no encoding can spoil it."""
    typer.echo(json.dumps(value, indent=2))
