"""`agentmem studio` shows a database in a browser and lets a person correct it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from langchain_agentmem.cli.console import AsJson, Existing, emit, existing
from langchain_agentmem.errors import MissingExtra

if TYPE_CHECKING:
    from langchain_agentmem.stores.agent_store import IndexGiven


def studio(
    *,
    database: Existing,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 for any that is free.")] = 8642,
    host: Annotated[str, typer.Option(help="The address to listen at, by which it is known, too.")] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Open the database so that nothing changes.")] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser there.")] = False,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who makes corrections. Default: who you are logged in as.")
    ] = None,
    index: Annotated[
        Literal["static"] | None,
        typer.Option(help="The embeddings of the memory, where a search is to go by vectors too. Default: by words."),
    ] = None,
    experiences: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A library of experiences to show.")
    ] = None,
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
