"""`agentmem studio` shows a database in a browser and lets a person correct it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_agentmem.cli.console import (
    AsJson,
    Existing,
    emit,
    existing,
    flag,
    option,
)
from langchain_agentmem.errors import MissingExtra

if TYPE_CHECKING:
    from langchain_agentmem.stores.agent_store import IndexGiven


def studio(
    *,
    database: Existing,
    port: int = option("0 for any that is free.", default=8642, min=0, max=65_535),
    host: str = option("The address to listen at, by which it is known, too.", default="127.0.0.1"),
    read_only: bool = flag("--read-only", "Open the database so that nothing changes."),
    open_browser: bool = flag("--open", "Open a browser there."),
    user: str | None = option("Who makes corrections. Default: who you are logged in as.", "NAME"),
    index: Literal["static"] | None = option(
        "The embeddings of the memory, for searches by vectors. Default: by words."
    ),
    experiences: Path | None = option("A library of experiences to show.", "FOLDER"),
    as_json: AsJson = False,
) -> None:
    """See in a browser what is remembered, and correct it.

    It listens on this machine alone, and opens once by the address that it prints. Ctrl-C ends it.

    JSON: an object with url.
    """
    serve = server()
    vectors: IndexGiven | None = None if index is None else {"embed": index}
    with existing(database, read_only=read_only, index=vectors) as memory:
        library = None if experiences is None else memory.experiences(experiences)
        serve(
            memory,
            host=host,
            port=port,
            user=user,
            experiences=library,
            tell=lambda where: emit({"url": where}, f"Studio is at {where} (Ctrl-C ends it)", as_json=as_json),
            open_browser=open_browser,
        )


def server() -> Callable[..., None]:
    """Return the function that serves Studio.

    Raises:
        MissingExtra: The extra [studio] is not installed.
    """
    try:
        serve: Callable[..., None] = import_module("langchain_agentmem.studio.server").serve
    except ModuleNotFoundError as error:
        raise MissingExtra("Studio", "studio") from error
    return serve
