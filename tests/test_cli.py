"""The command line: plain text, JSON where asked for, one line for an error, and an exit code that tells."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, __version__

ROOT = Path(__file__).parent.parent


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "langchain_agentmem", *arguments]


def agentmem(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line that a refused command printed."""
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    return line


@pytest.fixture
def database(tmp_path) -> str:
    path = str(tmp_path / "memory.db")
    with AgentMemory(path) as memory:
        for label, text in (("ada", "A grey heron at the pond \x1b[31m"), ("ben", "A heron on the roof")):
            memory.conversation("one", (label, "private")).add_message(HumanMessage(text, id=f"{label}-1"))
    return path


class TestSearch:
    def test_it_finds_and_says_why(self, database):
        run = agentmem("search", "grey heron", "--database", database)
        assert (run.returncode, run.stderr) == (0, "")
        assert "ada/private/one  ada-1" in run.stdout
        assert "why: grey +" in run.stdout
        assert "\x1b" not in run.stdout

    def test_a_namespace_sees_only_its_own(self, database):
        for namespace in ("ben", "ben/private", "/ben/"):
            run = agentmem("search", "heron", "--database", database, "--namespace", namespace)
            assert "roof" in run.stdout
            assert "pond" not in run.stdout

    def test_json_holds_everything(self, database):
        run = agentmem("search", "heron", "--database", database, "--json", "--namespace", "ada", "--limit", "1")
        [found] = json.loads(run.stdout)
        assert found["id"] == "ada-1"
        assert found["text"] == "A grey heron at the pond \x1b[31m"
        assert found["namespace"] == ["ada", "private"]
        assert found["why"]["terms"].keys() == {"heron"}

    def test_nothing_found_is_no_error(self, database):
        assert agentmem("search", "ocelot", "--database", database).stdout == "Nothing was found.\n"
        assert json.loads(agentmem("search", "ocelot", "--database", database, "--json").stdout) == []

    def test_a_console_that_lacks_a_character_shows_another(self, tmp_path):
        path = str(tmp_path / "memory.db")
        with AgentMemory(path) as memory:
            memory.conversation("one").add(role="user", content="heron \N{BIRD} ä")
        run = agentmem("search", "heron", "--database", path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert run.returncode == 0
        assert "heron ? ?" in run.stdout


class TestStats:
    def test_as_text_and_as_json(self, database):
        assert "messages                      2" in agentmem("stats", "--database", database).stdout
        counted = json.loads(agentmem("stats", "--database", database, "--json").stdout)
        assert counted["messages"] == 2
        assert counted["bytes"] > 0


class TestVerify:
    def test_all_is_well(self, database):
        run = agentmem("verify", "--database", database)
        assert run.returncode == 0
        assert run.stdout.startswith("All is well: checked 2 contents")

    def test_problems_are_printed_and_the_exit_code_is_one(self, database):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("update content set body = x'7b7d'")
            connection.commit()
        run = agentmem("verify", "--database", database)
        assert run.returncode == 1
        assert "is not what was stored" in run.stdout
        assert run.stderr == ""


class TestErrors:
    @pytest.mark.parametrize("name", ["search heron", "stats", "verify"])
    def test_a_mistyped_path_does_not_become_a_database(self, name, tmp_path):
        path = tmp_path / "typo.db"
        assert "There is no database at" in refused(agentmem(*name.split(), "--database", str(path)))
        assert not path.exists()

    def test_a_file_that_is_no_database(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("not a database " * 100)
        assert "not a database" in refused(agentmem("stats", "--database", str(path)))

    def test_a_malformed_transcript(self, tmp_path):
        path = tmp_path / "bad.json"
        path.write_text('{"name": "x", "sessions": [{"id": "s"}]}')
        line = refused(agentmem("demo", "--transcript", str(path)))
        assert line == f'{path}, sessions, session 1: "time" is missing'

    def test_a_command_that_cannot_be_understood(self, database):
        for arguments in (["nonsense"], ["search", "--database", database], ["demo", "--limit", "0"]):
            run = agentmem(*arguments)
            assert run.returncode == 2
            assert "Error" in run.stderr
            assert "Traceback" not in run.stderr

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra_it_says_what_to_install(self, missing, tmp_path):
        (tmp_path / f"{missing}.py").write_text("raise ImportError('not here')")
        line = refused(agentmem("demo", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])))
        assert line.endswith("pip install 'langchain-agentmem[cli]'")

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
    def test_ctrl_c_leaves_quietly_and_leaves_nothing_behind(self, tmp_path):
        turns = [{"id": f"{n}", "speaker": "Ada", "text": f"heron number {n}"} for n in range(20_000)]
        session = {"id": "s", "time": "2024-01-01", "turns": turns}
        path, temporary = tmp_path / "long.json", tmp_path / "temporary"
        path.write_text(json.dumps({"name": "long", "sessions": [session]}))
        temporary.mkdir()
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)}
        with subprocess.Popen(
            command("demo", "--transcript", str(path)),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            assert run.stdout is not None
            while "Living" not in run.stdout.readline():
                pass
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate()
        assert run.returncode == 130
        assert "Traceback" not in errors
        assert list(temporary.iterdir()) == []


class TestHelp:
    def test_the_version(self):
        assert agentmem("--version").stdout == f"agentmem {__version__}\n"

    def test_every_command_is_listed(self):
        listed = agentmem("--help").stdout
        assert all(f"  {name} " in listed for name in ("demo", "search", "stats", "verify"))

    def test_the_format_of_a_transcript_is_shown_as_one_can_write_it(self, tmp_path):
        shown = agentmem("demo", "--help").stdout
        path = tmp_path / "shown.json"
        path.write_text(shown[shown.index("{") : shown.rindex("}") + 1])
        run = agentmem("demo", "--transcript", str(path))
        assert (run.returncode, run.stderr) == (0, "")
        assert "recall@10         1.000" in run.stdout
