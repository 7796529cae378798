"""`agentmem studio`: the local web application that shows a database and lets a person correct it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from langchain_agentmem.cli.console import AsJson, FirstDatabase, database_given, existing, tell
from langchain_agentmem.errors import MissingExtra


def studio(
    *,
    database: Annotated[
        str | None, typer.Argument(metavar="DATABASE", help="A path or a postgresql:// URL. Default: as --database.")
    ] = None,
    named: FirstDatabase = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 for any that is free.")] = 8642,
    host: Annotated[str, typer.Option(help="The address to listen at, by which it is known, too.")] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Open the database so that nothing changes.")] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser there.")] = False,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who makes corrections. Default: who you are logged in as.")
    ] = None,
    experiences: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A library of experiences whose proposals can be approved.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See in a browser what is remembered, and correct it.

    It listens on this machine alone, and opens once by the address that it prints. Ctrl-C ends it.

    JSON: an object with url.
    """
    try:
        from langchain_agentmem.studio.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("Studio", "studio") from error
    with existing(database_given(database or named), read_only=read_only) as memory:
        library = None if experiences is None else memory.experiences(experiences)
        serve(
            memory,
            host=host,
            port=port,
            user=user,
            experiences=library,
            tell=lambda where: tell(f"Studio is at {where} (Ctrl-C ends it)", {"url": where}, as_json=as_json),
            open_browser=open_browser,
        )
