"""Fixtures for every test: both engines, a stepping clock and counting ids."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.conversations import prompt_notes
from langchain_agentmem.search import vectors
from langchain_agentmem.storage.queries import number_parameters

from .emptying import PostgresDatabases, SqliteDatabases, direct, quick_in_memory, started
from .forking import Forks
from .tracing.trees import Collector

ENGINES = ("sqlite", "postgres")
IN_MEMORY = Path("/dev/shm")
"""Linux's folder for files in memory: a server creates many files, which are slow on a disk."""
KEY = bytes(range(32))
"""Of encrypted files."""
ROOM = 4 << 30
"""Bytes that must be free there, for the servers and the files of several workers."""

# How quick a machine is says nothing of what holds on it.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("patient"), max_examples=20)
hypothesis.settings.load_profile("patient")
vectors.SEARCH_WAIT = 60.0  # nor whether a search found what had just been said,
prompt_notes.WRITE_TIMEOUT = 60.0  # or notes on prompts were kept


gc.disable()  # until all tests are collected
# A shell starts background jobs with SIGINT ignored, and so would all processes be that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def in_memory() -> bool:
    """Return whether there is a folder in memory with enough space."""
    return IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM


if in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto` means one worker more than there are cores: some tests wait, for a disk, a server, or a process."""
    return 1 + (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="the full ring: also the folders `full`, and PostgreSQL")
    parser.addoption("--rest", action="store_true", help="of --full, what the quick ring leaves out, and nothing slow")
    parser.addoption(
        "--every-engine", action="store_true", help="run on PostgreSQL, too, what is marked as `sqlite_suffices`"
    )
    parser.addoption(
        "--encrypted", action="store_true", help="run what runs on both engines on an encrypted SQLite file alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.full:
        hypothesis.settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect the folders `full` with --full; pyproject.toml leaves them out otherwise."""
    return False if collection_path.name == "full" and config.option.full else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the engines of a test: SQLite in the quick ring, else both, or SQLite alone where that suffices."""
    test, asked = metafunc.definition, metafunc.config.getoption
    if "url" not in metafunc.fixturenames or any("url" in mark.args[0] for mark in test.iter_markers("parametrize")):
        return
    if asked("encrypted"):
        kinds = ["encrypted"]
    else:
        one = test.get_closest_marker("sqlite_suffices") is not None or not asked("full")
        kinds = ["sqlite"] if one and not asked("every_engine") else [*ENGINES]
        if asked("full") and test.get_closest_marker("encrypted_too") is not None:
            kinds.append("encrypted")
        if kinds == [*ENGINES]:
            return
    test.add_marker(pytest.mark.parametrize("url", kinds, indirect=True))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless its marker is asked for: in the quick ring all, else all but the first form."""
    full, rest = config.option.full, config.option.rest
    kept, left_out, seen = [], [], set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("slow")
        again = mark is not None and (not full or rest or bool(mark.args) or test in seen or test == item.nodeid)
        quick = mark is None and "full" not in item.path.parts and not _is_of_another_engine(item)
        leave_out = (again and "slow" not in config.option.markexpr) or (quick and rest)
        (left_out if leave_out else kept).append(item)
        seen.add(test)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _is_of_another_engine(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("url", "sqlite") != "sqlite"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests were collected, and stay: no collection of garbage has to look at them, now or later."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # most of what tests make goes when its last user does


class SteppingClock:
    """A clock that moves on by one second each time it is read, and otherwise when told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def pass_time(self, **parts: float) -> None:
        self.now += timedelta(**parts)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL server: the one that AGENTMEM_TEST_POSTGRES names, or one of our own."""
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        yield url
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    folder = tmp_path_factory.mktemp("postgres")
    if in_memory():
        folder = Path(tempfile.mkdtemp(prefix="agentmem-", dir=IN_MEMORY))
    server = started(folder)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("autovacuum", "fsync", "full_page_writes", "synchronous_commit"):
            # It need not survive a power cut, and its planner is not to take tables for empty that tests have emptied.
            connection.execute(f"alter system set {setting} = off")
        connection.execute("alter system set max_wal_size = '128MB'")
        connection.execute("select pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str) -> Iterator[PostgresDatabases]:
    databases = PostgresDatabases(postgres_server)
    yield databases
    if "AGENTMEM_TEST_POSTGRES" in os.environ:
        databases.drop()
    else:  # our own server is deleted whole
        databases.close()


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session", autouse=True)
def _quick_in_memory() -> Iterator[None]:
    with quick_in_memory():
        yield


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Makes an empty database of a kind, "sqlite", "encrypted" or "postgres", and gives its path or URL.

    It is migrated already, as a first opening leaves it; for tests that are marked as `bare`, it was never opened.
    """
    numbers = itertools.count()
    bare = request.node.get_closest_marker("bare") is not None
    keeping = "memory" in request.fixturenames

    def make(kind: str) -> str:
        number = next(numbers)
        if kind == "postgres":
            databases: PostgresDatabases = request.getfixturevalue("postgres_databases")
            return databases.bare(number) if bare else databases.migrated(number, keeping=keeping)
        path, key = tmp_path / f"memory{number}.db", None
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        if kind == "encrypted":
            key = KEY
            request.getfixturevalue("monkeypatch").setenv("AGENTMEM_KEY", f"x'{KEY.hex()}'")
        if not bare:
            files.migrated(path, key)
        return str(path)

    return make


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """The path or URL of an empty database; a test that asks for it runs on both engines."""
    return new_database(request.param)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """An interpreter that has imported the commands and what examples import, and forks for each program."""
    ours = (
        "checkpoints.checkpoint_saver", "cli.app", "compaction.compaction_node",
        "experiences.experience_library", "facts.kg_memory", "layers.layered_memory", "parts", "storage.postgres",
    )  # fmt: skip
    modules = ("langgraph.graph", "langchain.agents", *(f"langchain_agentmem.{name}" for name in ours))
    with Forks(tmp_path_factory.mktemp("forks"), *modules) as forks:
        yield forks


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


class CountingIds:
    """Ids that count, from one."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"id-{self.count}"


@pytest.fixture
def new_id() -> CountingIds:
    return CountingIds()


@pytest.fixture
def memory(
    request: pytest.FixtureRequest, url: str, clock: SteppingClock, new_id: CountingIds
) -> Iterator[AgentMemory]:
    """An open memory on an empty database, on both engines, with a counting clock and counting ids."""
    opened = partial(AgentMemory, url, clock=clock, new_id=new_id)
    on_postgres = url.startswith("postgresql://")
    with request.getfixturevalue("postgres_databases").opened(url, opened) if on_postgres else opened() as memory:
        yield memory
        if request.node.get_closest_marker("verified"):
            assert memory.admin.verify().problems == ()


def run_raw(memory: AgentMemory, sql: str, **parameters: object) -> list[dict[str, object]]:
    """Run SQL on an open memory behind its back, as an accident or another program would; parameters as `:name`."""
    engine = memory.database.engine
    if engine.dialect == "sqlite":
        with engine._write_lock:
            return [dict(row) for row in engine._writer.execute(sql, parameters)]
    with psycopg.connect(
        direct(engine._url), autocommit=True, options="-c search_path=agentmem", row_factory=psycopg.rows.dict_row
    ) as connection:
        text, names = number_parameters(sql, "$")
        cursor = psycopg.RawCursor(connection).execute(text, [parameters[name] for name in names])
        return cursor.fetchall() if cursor.description else []


TWINS = {"messages": "aget_messages", "get_messages": "aget_message_dicts"}
"""Awaited twins whose name is not that of the method after an "a"."""


@pytest.fixture(params=("sync", "async"))
def do(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a method, or read a property, by its synchronous name: as it is, or through its twin."""

    async def call(target: Any, name: str, /, *arguments: Any, **options: Any) -> Any:
        if request.param == "async":
            return await getattr(target, TWINS.get(name, f"a{name}"))(*arguments, **options)
        value = getattr(target, name)
        return value(*arguments, **options) if callable(value) else value

    return call


@pytest.fixture
def collector() -> Collector:
    """A tracer, for what a test runs with it."""
    return Collector()


@pytest.fixture
def raw() -> Callable[..., list[dict[str, object]]]:
    """`run_raw`."""
    return run_raw
