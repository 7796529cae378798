"""Commands on both engines."""

import json
import os
import re
from pathlib import Path

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from tests.cli.commands import messages, read_json, stdout_of
from tests.cli.test_thread_commands import EVERY, fill, on


@pytest.mark.bare
class TestEmptyDatabase:
    LOOKING = ("verify",), ("threads list",), ("search", "heron"), ("erase", "--namespace", "ada", "--dry-run")

    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_commands_report_an_empty_database_and_create_nothing(self, kind, new_database, agentmem, tmp_path):
        url = new_database(kind)
        if kind == "sqlite":
            Path(url).touch()  # it is there, and nothing is in it
        for name, *arguments in self.LOOKING[: 1 if kind == "sqlite" else None]:
            run = agentmem(*name.split(), url, *arguments)
            assert (run.returncode, run.stdout) == (2, "")
            assert run.stderr.startswith("Nothing is stored in")
        if kind == "sqlite":
            assert Path(url).stat().st_size == 0
        else:
            with psycopg.connect(url) as connection:
                assert connection.execute("select from pg_namespace where nspname = 'agentmem'").fetchall() == []

    def test_commands_accept_another_schema(self, new_database, agentmem):
        url = new_database("postgres")
        with AgentMemory(url, schema="bot") as memory:
            memory.conversation("one").add_user_message("a heron")
        run = agentmem("search", url, "heron")
        assert run.returncode == 2
        assert "Nothing is stored in" in run.stderr
        for arguments in (("search", url, "heron"), ("audit", "verify", url)):
            stdout_of(agentmem(*arguments, "--schema", "bot"))
        assert agentmem("search", url, "heron", "--schema", "Bot;").returncode == 2


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_export_and_backup_are_restored_to_either_engine(engine, agentmem, database, tmp_path, new_database):
    for what in ("export", "backup"):
        file, target = str(tmp_path / what), new_database(engine)
        stdout_of(agentmem(what, database, file))
        report = read_json(agentmem("restore", target, file, "--json"))
        assert report["ok"]
        assert report["checked"]["messages"] == 66
        assert messages(target) == messages(database)


def test_copy_to_the_other_engine_and_back(agentmem, database, tmp_path, new_database):
    there, back = new_database("postgres"), str(tmp_path / "back.db")
    read_json(agentmem("copy", database, there, "--json"))
    said = stdout_of(agentmem("copy", there, back))
    assert "The copy is verified, and " in said
    assert messages(back) == messages(there) == messages(database)
    assert "password" not in said


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_stats_show_sizes_by_part(engine, agentmem, new_database):
    database = new_database(engine)
    with AgentMemory(database) as memory:
        memory.byte_store().mset([("a", os.urandom(2_000_000))])
    run = agentmem("stats", database)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    largest, second = lines[lines.index("Bytes by part") + 2 :][:2]
    assert re.fullmatch(r"blobs +[\d,]+ +\d+%  #{30} *", largest)
    assert "#" * 30 not in second
    assert run.stdout.isascii()

    counted = json.loads(agentmem("stats", database, "--json").stdout)
    assert counted["bytes_by_part"]["blobs"] > 2_000_000


def test_reading_commands_print_the_same_on_postgres(agentmem, new_database):
    def masked(text):
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|post-\d+-\d+-\w+", "ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:[\d.+:]+)?", "TIME", text)
        return re.sub(r'("bytes"|"score"|"length"|[\d.]+ [kM]?B)[^,}]*', "SIZE", text)

    said = []
    for url in map(new_database, ("sqlite", "postgres")):
        with AgentMemory(url) as memory:
            fill(memory)
        shown = [arguments for name, arguments in EVERY.items() if name not in {"search", "threads"}]
        said.append([masked(str(read_json(agentmem(*on(url, each), "--json")))) for each in shown])
        listed = (["threads", "list"], ["show", "trip"], ["branches", "trip"])
        said[-1] += [len(stdout_of(agentmem(*on(url, each))).splitlines()) for each in listed]
    assert said[0] == said[1]
