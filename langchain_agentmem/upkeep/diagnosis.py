"""What may be wrong with a database and around it, told with what to do about it. Nothing is changed by looking.

    for finding in diagnose("agent.db"):
        print(finding.level, finding.text, finding.remedy)

It looks also where the database cannot be opened.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable, Iterator
from contextlib import closing

from packaging.requirements import InvalidRequirement, Requirement

from langchain_agentmem.base.files import file_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, DatabaseBusy, InvalidInput, MissingExtra
from langchain_agentmem.language_models.vocabulary import FILES, tiktoken_file_present
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.storage_health import Finding, interrupted, sqlite_file, sqlite_itself
from langchain_agentmem.upkeep import integrity

PACKAGE = "langchain-agentmem"
EXTRAS = {
    "postgres": "psycopg",
    "agents": "langchain",
    "vectors": "numpy",
    "cli": "typer",
    "import": "langgraph.checkpoint.sqlite",
    "graph": "networkx",
    "otel": "opentelemetry",
}
"""What each extra brings."""


def diagnose(
    url: str | None = None, *, deep: bool = True, checking: Callable[[str], object] | None = None
) -> Iterator[Finding]:
    """Look for trouble.

    Args:
        url: A path or a `postgresql://` URL. Default: only what is around every database.
        deep: Whether the whole database is verified too, which reads all of it.
        checking: Is told what is being verified.

    Yields:
        What was found, good and bad, one thing after the other.
    """
    yield from _environment()
    if url is None:
        return
    sound = True
    for finding in _place(url):
        sound = sound and not (finding.name in {"file", "schema", "locks", "connection"} and finding.level != "ok")
        yield finding
    if deep and sound:
        yield from _verified(url, checking)
    elif deep:
        yield Finding("verify", "note", "The content was not verified.", "Mend what is told above, and look again.")


def _environment() -> Iterator[Finding]:
    yield Finding("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from _packages()
    yield from sqlite_itself()
    there = [name for name, module in EXTRAS.items() if _is_there(module)]
    lacking = [name for name in EXTRAS if name not in there]
    yield Finding(
        "extras",
        "ok",
        f"installed: {', '.join(there) or 'none'}; not installed: {', '.join(lacking) or 'none'}",
        f"pip install '{PACKAGE}[{','.join(lacking)}]' where one is wanted" if lacking else "",
    )
    missing = [encoding for encoding in FILES if tiktoken_file_present(encoding) is None]
    if missing:
        yield Finding(
            "tokenizer",
            "note",
            f"tiktoken's vocabulary is not on this machine ({', '.join(missing)}), so tokens of OpenAI's models are "
            "estimated, a little too high. Nothing is ever downloaded.",
            "Where there is a network, load it once with tiktoken, and set TIKTOKEN_CACHE_DIR to its folder.",
        )
    else:
        yield Finding("tokenizer", "ok", "tiktoken's vocabulary is here: tokens are counted")


def _packages() -> Iterator[Finding]:
    """Whether what the package needs is installed in the versions that it needs."""
    try:
        needed = importlib.metadata.requires(PACKAGE) or []
        versions = [f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", "note", f"{PACKAGE} was not installed with pip.", f"pip install {PACKAGE}")
        return
    wrong = []
    for text in needed:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        versions.append(f"{requirement.name} {version}")
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}, needed is {requirement.specifier}")
    if wrong:
        yield Finding("packages", "problem", f"{'; '.join(wrong)}.", f"pip install --upgrade {PACKAGE}")
    yield Finding("packages", "ok", ", ".join(versions))


def _place(url: str) -> Iterator[Finding]:
    try:
        name = name_of(url)
    except InvalidInput as error:
        yield Finding("file", "problem", str(error), "Check the path; the first opening makes a database.")
        return
    if not is_postgres(name):
        path = file_of(name)
        yield from interrupted(path)
        if path.is_file():
            yield from sqlite_file(path)
        else:
            what = "is a folder" if path.is_dir() else "does not exist"
            problem = f"{safe_repr(name)} {what}."
            yield Finding("file", "problem", problem, "Check the path; the first opening makes a database.")
        return
    try:
        from langchain_agentmem.storage.postgres_health import server  # noqa: PLC0415 - an extra

        yield from server(name)
    except MissingExtra as error:
        yield Finding("connection", "problem", str(error), f"pip install '{PACKAGE}[{error.extra}]'")
    except DatabaseBusy as error:
        yield Finding("locks", "problem", str(error), "Look again in a moment. If it stays, end what holds the lock.")
    except AgentMemoryError as error:
        yield Finding("connection", "problem", str(error), "Check the address, the password and whether it runs.")


def _verified(url: str, checking: Callable[[str], object] | None) -> Iterator[Finding]:
    try:
        with closing(Database(url)) as database:
            problems = integrity.verify(database.engine, checking).problems
    except AgentMemoryError as error:
        problems = (str(error),)
    for problem in problems:
        yield Finding(
            "verify",
            "problem",
            problem,
            "Make a copy of the database, then restore the newest backup.",
        )
    if not problems:
        yield Finding("verify", "ok", "the content is whole")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


__all__ = ["Finding", "diagnose"]
