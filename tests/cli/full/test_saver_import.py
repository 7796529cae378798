"""`agentmem import-from … langgraph-saver`: complete threads from an unchanged source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.importers import langchain_sources
from tests.checkpoints.graphs import Line, at, id_in
from tests.cli.commands import error_of, execute, read_json, stdout_of
from tests.emptying import direct
from tests.threads.filled import THREADS, everything, fill, go_on


@dataclass
class Ticket:
    """A class of an application, as states of graphs hold."""

    number: int


def stock(path, make=fill):
    """The file of a SqliteSaver with some threads, and how many checkpoints these have."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        make(saver)
        return str(path), sum(len(everything(saver, thread)) for thread in THREADS)


@pytest.fixture
def imported(agentmem, tmp_path):
    """Imports from a source, by default into a new file."""

    def run(source, *options, into=tmp_path / "ours.db"):
        return agentmem("import-from", into, "langgraph-saver", source, *options)

    return run


@pytest.fixture
def server(new_database):
    """A server with a PostgresSaver's tables, which are dropped afterwards."""
    url = new_database("postgres")
    with PostgresSaver.from_conn_string(direct(url)) as saver:
        saver.setup()
        yield url, saver
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
            connection.execute(f"drop table if exists {table}")


def test_every_thread_is_imported_with_one_line_report(imported, tmp_path):
    path, count = stock(tmp_path / "stock.db")
    assert stdout_of(imported(path)) == (
        f"Imported: {count} checkpoints of {len(THREADS)} threads. Already here: 0. Skipped: 0.\n"
    )
    assert {file.name for file in tmp_path.iterdir()} == {"stock.db", "ours.db"}
    assert stdout_of(imported(path)) == f"Imported: nothing. Already here: {count} checkpoints. Skipped: 0.\n"
    with AgentMemory(tmp_path / "ours.db") as memory:
        assert memory.admin.verify().problems == ()
        go_on(memory.checkpointer)


@pytest.mark.parametrize("same", [True, False], ids=["into the same database", "into a file"])
def test_threads_are_imported_from_postgres(imported, server, tmp_path, same):
    url, saver = server
    fill(saver)
    before = {thread: everything(saver, thread) for thread in THREADS}
    into = url if same else str(tmp_path / "ours.db")
    assert read_json(imported(url, "--json", into=into))["added"]["checkpoints"] == sum(map(len, before.values()))
    with AgentMemory(into) as memory:
        assert {thread: everything(memory.checkpointer, thread) for thread in THREADS} == before
        go_on(memory.checkpointer)


def test_long_postgres_thread_is_read_in_pages(server, monkeypatch):
    """Copies of a thread share their ids, so a page may end among equal ones."""
    (url, saver), asked = server, []
    monkeypatch.setattr(langchain_sources, "CHECKPOINT_PAGE", 4)
    line = Line(saver)
    for n in range(10):
        checkpoint, metadata, new = line.next({"n": n})
        for thread in ("t", "u", "v"):
            saver.put(at(thread), checkpoint, metadata, new)
    expected = sorted((each.config["configurable"]["thread_id"], id_in(each.config)) for each in saver.list(None))
    assert len(expected) == 30
    listing = PostgresSaver.list
    monkeypatch.setattr(
        PostgresSaver, "list", lambda *given, **options: asked.append(options["limit"]) or listing(*given, **options)
    )
    with langchain_sources.open_source(url) as source:
        found = [(each.config["configurable"]["thread_id"], id_in(each.config)) for each in source.list(None)]
        assert sorted(found) == expected
        assert [each[1] for each in found] == sorted((each[1] for each in found), reverse=True)
        assert max(asked) <= 4 + 3
        only = [id_in(each.config) for each in source.list(at("u"))]
        assert only == sorted({each[1] for each in expected}, reverse=True)


def test_import_leaves_read_only_or_old_source_unchanged(imported, tmp_path):
    path, count = stock(tmp_path / "stock.db")
    execute(path, "alter table writes drop column task_path")  # as old versions had it
    execute(path, "pragma journal_mode = delete")
    for mode in (0o644, 0o444):
        Path(path).chmod(mode)
        content, names = Path(path).read_bytes(), {file.name for file in tmp_path.iterdir()}
        into = tmp_path / f"ours{mode}.db"
        assert read_json(imported(path, "--json", into=into))["added"]["checkpoints"] == count
        assert Path(path).read_bytes() == content
        assert {file.name for file in tmp_path.iterdir()} - names == {into.name}


def test_custom_class_is_imported_only_if_allowed(imported, tmp_path):
    path, _ = stock(tmp_path / "stock.db", lambda saver: Line(saver).put({"ticket": Ticket(7), "n": 1}))
    database, name = tmp_path / "ours.db", f"{Ticket.__module__}.Ticket"
    for unknown in ("nowhere.Thing", "json.Nothing", "Thing", ""):
        assert "Unknown class" in error_of(imported(path, "--allow", unknown))
        assert not database.exists()
    run = imported(path)
    assert (run.returncode, run.stderr) == (1, "")
    assert "Skipped: the thread 't': The thread 't' contains objects" in run.stdout
    assert f"--allow {name}\nImported: nothing." in run.stdout
    stdout_of(imported(path, "--allow", name))
    with AgentMemory(database) as memory:
        saver = AgentMemorySaver(memory, serde=JsonPlusSerializer(allowed_msgpack_modules=[Ticket]))
        assert saver.get(at())["channel_values"] == {"ticket": Ticket(7), "n": 1}


def test_damaged_thread_is_skipped_and_others_are_imported(imported, tmp_path):
    def make(saver):
        for line in (Line(saver, "t"), Line(saver, "u")):
            for n in range(4):
                line.put({"n": n})

    path, _ = stock(tmp_path / "stock.db", make)
    newest = "(select max(checkpoint_id) from checkpoints where thread_id = 't')"
    execute(path, f"update checkpoints set checkpoint = x'c1' where thread_id = 't' and checkpoint_id = {newest}")
    run = imported(path)
    assert (run.returncode, run.stderr) == (1, "")
    assert "cannot be read (ValueError: " in run.stdout
    assert run.stdout.endswith(
        "Imported: 4 checkpoints of 1 thread. Already here: 0. Skipped: 4 checkpoints of 1 thread.\n"
    )
    with AgentMemory(tmp_path / "ours.db") as memory:
        assert [each.thread_id for each in memory.admin.threads().threads] == ["u"]


def test_invalid_source_is_refused_and_creates_nothing(imported, tmp_path, new_database):
    (tmp_path / "text.txt").write_text("not a database " * 100)
    (tmp_path / "empty.db").touch()
    execute(tmp_path / "other.db", "create table checkpoints (x)")
    AgentMemory(tmp_path / "memory.db").close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for source in ("missing.db", ".", "text.txt", "empty.db", "other.db", "memory.db"):
        line = error_of(imported(tmp_path / source))
        assert source in line or str(tmp_path) in line
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before, source
    ada = "postgresql://ada:s3cret"
    for url in (new_database("postgres"), f"{ada}@127.0.0.1:1/db", f"{ada}@host/db?nonsense=1"):
        line = error_of(imported(url))
        assert "PostgreSQL" in line
        assert "s3cret" not in line
        assert not (tmp_path / "ours.db").exists()
