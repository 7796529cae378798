"""`agentmem import-from`, as a process."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import get_args

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.importers import SourceKind
from tests.forking import COMMAND
from tests.importers.sources import chat_history, mem0, memgpt, saver

INTERRUPTING = """
import os, signal
from langchain_agentmem.cli import console
console.Bar.watch = lambda self, at: os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.fixture
def agentmem(forks):
    return lambda *arguments: forks.run(COMMAND, *map(str, arguments))


class TestTheCommand:
    @pytest.mark.slow
    def test_it_says_what_came(self, agentmem, tmp_path):
        run = agentmem("import-from", tmp_path / "new.db", "chat-history", chat_history(tmp_path))
        assert run.stdout == "12 messages of 2 conversations came. Here already: 0. Left out: 0.\n"
        assert run.returncode == 0
        again = agentmem("import-from", tmp_path / "new.db", "chat-history", tmp_path / "chat.db")
        assert again.stdout == "Nothing came. Here already: 12 messages. Left out: 0.\n"

    def test_a_dry_run_makes_no_database(self, agentmem, tmp_path):
        target = tmp_path / "new.db"
        run = agentmem("import-from", target, "mem0", mem0(tmp_path), "--dry-run")
        assert (run.returncode, run.stdout) == (0, "3 memories would come. Here already: 0. Left out: 0.\n")
        assert not target.exists()

    def test_json_has_all_of_the_report(self, agentmem, tmp_path):
        path = memgpt(tmp_path)
        run = agentmem("import-from", tmp_path / "new.db", "memgpt", path, "--namespace", "a/b", "--json")
        left = {"what": "core_memory 5", "why": "it has expired.", "count": 1, "holds": "memories"}
        assert run.returncode == 1
        assert json.loads(run.stdout) == {
            "kind": "memgpt", "source": str(path), "dry_run": False, "added": {"memories": 9}, "known": {},
            "added_to": {}, "left_out": [left], "left": 1, "left_by": {"memories": 1}, "places": [],
        }  # fmt: skip
        with AgentMemory(tmp_path / "new.db") as memory:
            assert memory.layers(namespace=("a", "b")).core.get("name") == {"name": "Ada"}

    def test_what_is_left_out_of_a_saver_is_told_in_threads_too(self, agentmem, tmp_path):
        source, target = saver(tmp_path), tmp_path / "new.db"
        run = agentmem("import-from", target, "langgraph-saver", source, "--namespace", "users/{user_id}")
        assert run.stdout.endswith("Nothing came. Here already: 0. Left out: 12 checkpoints of 2 threads.\n")
        assert "Left out: the thread 'ada' (6 checkpoints): nothing says whose it is: it has no user_id." in run.stdout
        assert "--owners FILE" in run.stdout

    def test_owners_and_what_is_chosen_are_named(self, agentmem, tmp_path):
        owners = tmp_path / "owners.json"
        owners.write_text('{"ada": "u-1", "bob": "u-2"}')
        given = ("--namespace", "users/{user_id}", "--owners", owners, "--only", "u-1", "--only", "eve")
        source = saver(tmp_path)
        run = agentmem("import-from", tmp_path / "n.db", "langgraph-saver", source, *given, "--dry-run")
        assert "\nada goes to users/u-1.\n6 checkpoints of 1 thread would come" in run.stdout
        run = agentmem("import-from", tmp_path / "new.db", "langgraph-saver", source, *given)
        assert run.stdout == (
            "Left out: 'eve': the source has nothing of this id.\n"
            "6 checkpoints of 1 thread came. Here already: 0. Left out: 1 thing.\n"
        )
        with AgentMemory(tmp_path / "new.db", namespace=("users", "{user_id}")) as memory:
            assert [each.namespace for each in memory.admin.threads().threads] == [("users", "u-1")]

    def test_an_unknown_kind_and_a_missing_source_are_errors_of_use(self, agentmem, tmp_path):
        kind = agentmem("import-from", tmp_path / "new.db", "mem1", "x")
        source = agentmem("import-from", tmp_path / "new.db", "mem0", tmp_path / "x.json")
        assert (kind.returncode, source.returncode) == (2, 2)
        assert "langgraph-saver" in kind.stderr
        assert "There is no file at" in source.stderr

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", get_args(SourceKind))
    def test_a_wrong_source_or_option_makes_no_database(self, kind, agentmem, tmp_path):
        (tmp_path / "text.txt").write_text("no source of any kind")
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("create table other (x)")
        good, names = mem0(tmp_path), {each.name for each in tmp_path.iterdir()}
        wrong = [(tmp_path / "missing.db",), (good, "--namespace", "a//b"), (good, "--owners", tmp_path / "no.json")]
        if kind != "opus":  # it reads any file, however damaged
            wrong += [(tmp_path / "text.txt",), (tmp_path / "other.db",)]
        for source, *options in wrong:
            run = agentmem("import-from", tmp_path / "new.db", kind, source, *options)
            assert (run.returncode, run.stdout) == (2, ""), source
            assert {each.name for each in tmp_path.iterdir()} == names

    def test_an_interruption_says_what_is_kept(self, forks, tmp_path):
        target = tmp_path / "new.db"
        arguments = ("import-from", str(target), "chat-history", str(chat_history(tmp_path)))
        run = forks.run(INTERRUPTING + COMMAND, *arguments)
        assert (run.returncode, run.stderr) == (130, "Interrupted. What was brought is kept: run it again to go on.\n")
        with AgentMemory(target) as memory:
            assert len(memory.conversations()) == 1


class TestOpeningAForeignFile:
    def test_from_any_command_too(self, agentmem, tmp_path):
        run = agentmem("stats", saver(tmp_path))
        assert run.returncode == 3
        assert f"agentmem import-from DATABASE langgraph-saver {tmp_path / 'threads.db'}" in run.stderr
