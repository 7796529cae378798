"""What the commands share: how a database, a namespace and a time are named, how is counted, and JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import unquote

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.files import file_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search.memory_search import Recollection
from langchain_agentmem.storage import is_postgres, name_of

DATABASE_VARIABLE = "AGENTMEM_DATABASE"
"""The environment variable that names the database where no option does."""
LIMIT = 50
"""How many lines a list has unless somebody asks for more."""

EPILOG = """A namespace is written with a slash between its labels. Within a label, / is %2F and % is %25.

Exit codes:

\b
0    all is well
1    a check found problems, or an import what could not be read
2    a command that cannot be understood, or that names what is not there or not installed
3    the database cannot be opened or read, or could not do its work
130  interrupted
"""

Existing = Annotated[
    str,
    typer.Option(
        "--database", metavar="PATH", envvar=DATABASE_VARIABLE, help="The database: a path or a postgresql:// URL."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Within = Annotated[
    str, typer.Option("--namespace", metavar="A/B", help="Only this namespace and all below it. Default: everything.")
]
Whose = Annotated[
    str | None,
    typer.Option("--namespace", metavar="A/B", help="This namespace, or one below it. Default: whichever fits."),
]
Most = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Print at most so many. Default: 50, and in JSON all.")
]


def existing(database: str) -> AgentMemory:
    """Open a database that is there; a mistyped path must not become an empty one.

    Args:
        database: A path, a "file:" URI such as `file:agent.db?mode=ro`, or the URL of a server.

    Raises:
        InvalidInput: There is none.
    """
    if not is_postgres(name_of(database)) and not file_of(database).is_file():
        raise InvalidInput(f"There is no database at {safe_repr(database)}.")
    return AgentMemory(database, strict=True)  # nothing that is shown needs a class of the user's


def namespace_named(path: str) -> tuple[str, ...]:
    """The namespace that is written as "a/b", a slash within a label as in URLs: "%2F"."""
    return tuple(unquote(label) for label in path.split("/") if label)


def named(namespace: tuple[str, ...], *more: str) -> str:
    """A namespace, and what is in it, as a person writes it: `namespace_named` reads it."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in (*namespace, *more)) or "/"


def time_named(text: str) -> datetime:
    """The time that is written as ISO 8601 has it; without a time zone, in UTC.

    Raises:
        BadParameter: It is none.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{safe_repr(text)} is no time such as 2026-05-31 or 2026-05-31T18:30+02:00."
        ) from error


def minute(time: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number of things: "1 thread", "1,203 threads"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def counted(number: int, things: str) -> str:
    """A number of what is named as several: "1 thread", "2 branches", "1 memory"."""
    for several, one in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if things.endswith(several):
            return count(number, things.removesuffix(several) + one, things)
    return f"{number:,} {things}"


def size(number: float) -> str:
    """A number of bytes: "812 B", "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - what makes a kilo
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def hit(found: Recollection) -> dict[str, Any]:
    """What a search found, as JSON has it."""
    return {
        "kind": found.kind,
        "id": found.id,
        "text": found.text,
        "score": found.score,
        "namespace": list(found.namespace),
        "conversation_id": found.conversation_id,
        "created_at": found.created_at.isoformat(),
        "why": {"terms": dict(found.why.terms), "signals": dict(found.why.signals)},
    }


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in ASCII, so that no console and no encoding can spoil it.

    Args:
        value: The value.
        indent: By how many spaces what lies within is moved; None for all on one line.
    """
    typer.echo(json.dumps(value, indent=indent))
