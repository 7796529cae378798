"""`agentmem import-from`, as a process."""

import json
import sqlite3
from contextlib import closing

import pytest

from langchain_agentmem import AgentMemory
from tests.forking import COMMAND
from tests.importers.sources import chat_history, mem0, memgpt, saver

INTERRUPTING = """
import os, signal
from rich.progress import Progress
Progress.update = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.fixture
def agentmem(forks):
    return lambda *arguments: forks.run(COMMAND, *map(str, arguments))


class TestCommand:
    def test_dry_run_creates_nothing_then_import_reports(self, agentmem, tmp_path):
        arguments = ("import-from", tmp_path / "new.db", "chat-history", chat_history(tmp_path))
        for options, said in (
            (
                ["--dry-run"],
                "bob: namespace /\nWould import: 12 messages of 2 conversations. Already here: 0. Skipped: 0.\n",
            ),
            ([], "Imported: 12 messages of 2 conversations. Already here: 0. Skipped: 0.\n"),
            ([], "Imported: nothing. Already here: 12 messages. Skipped: 0.\n"),
        ):
            run = agentmem(*arguments, *options)
            assert (run.returncode, run.stdout.endswith(said)) == (0, True), run.stdout
            assert (tmp_path / "new.db").exists() == (not options)

    def test_json_output_has_the_full_report(self, agentmem, tmp_path):
        path = memgpt(tmp_path)
        run = agentmem("import-from", tmp_path / "new.db", "memgpt", path, "--namespace", "a/b", "--json")
        left = {"what": "core_memory 5", "why": "it has expired.", "count": 1, "holds": "memories"}
        assert run.returncode == 1
        assert json.loads(run.stdout) == {
            "kind": "memgpt", "source": str(path), "dry_run": False, "added": {"memories": 10}, "known": {},
            "added_to": {}, "left_out": [left], "left": 1, "left_by": {"memories": 1}, "places": [],
        }  # fmt: skip
        with AgentMemory(tmp_path / "new.db") as memory:
            assert memory.layers(namespace=("a", "b")).core.get("name") == {"name": "Ada"}

    def test_owners_and_selection_are_applied(self, agentmem, tmp_path):
        owners = tmp_path / "owners.json"
        owners.write_text('{"ada": "u-1", "bob": "u-2"}')
        source, target = saver(tmp_path), tmp_path / "new.db"
        given = ("--namespace", "users/{user_id}")
        run = agentmem("import-from", target, "langgraph-saver", source, *given)
        assert run.stdout.endswith("Imported: nothing. Already here: 0. Skipped: 12 checkpoints of 2 threads.\n")
        skipped = "Skipped: the thread 'ada' (6 checkpoints): its owner is unknown: its metadata has no user_id."
        assert skipped in run.stdout
        given = (*given, "--owners", owners, "--only", "u-1", "--only", "eve")
        run = agentmem("import-from", tmp_path / "n.db", "langgraph-saver", source, *given, "--dry-run")
        assert "\nada: namespace users/u-1\nWould import: 6 checkpoints of 1 thread." in run.stdout
        run = agentmem("import-from", target, "langgraph-saver", source, *given)
        assert run.stdout == (
            "Skipped: 'eve': the source has no object with this id.\n"
            "Imported: 6 checkpoints of 1 thread. Already here: 0. Skipped: 1 thing.\n"
        )
        with AgentMemory(tmp_path / "new.db", namespace=("users", "{user_id}")) as memory:
            assert [each.namespace for each in memory.admin.threads().threads] == [("users", "u-1")]

    def test_invalid_source_or_option_creates_no_database(self, agentmem, tmp_path):
        (tmp_path / "text.txt").write_text("no source of any kind")
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("create table other (x)")
        good, names = mem0(tmp_path), {each.name for each in tmp_path.iterdir()}
        wrong = [("mem0", tmp_path / name) for name in ("missing.json", "other.db", "text.txt")]
        wrong += [("mem1", good), ("mem0", good, "--namespace", "a//b"), ("mem0", good, "--owners", "no.json")]
        for arguments in wrong:
            run = agentmem("import-from", tmp_path / "new.db", *arguments)
            assert (run.returncode, run.stdout) == (2, ""), arguments
            assert {each.name for each in tmp_path.iterdir()} == names

    def test_interruption_reports_kept_progress(self, forks, tmp_path):
        target = tmp_path / "new.db"
        arguments = ("import-from", str(target), "chat-history", str(chat_history(tmp_path)))
        run = forks.run(INTERRUPTING + COMMAND, *arguments)
        assert (run.returncode, run.stderr) == (
            130,
            "Interrupted. Imported data is kept. To continue, run the command again.\n",
        )
        with AgentMemory(target) as memory:
            assert len(memory.conversations()) == 1
