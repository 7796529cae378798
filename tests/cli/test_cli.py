"""The command line: plain text, JSON, one-line errors and exit codes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from rich.console import Console

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.app import build_cli
from langchain_agentmem.cli.console import Output

from .commands import error_of, execute, read_json, stdout_of


@pytest.fixture
def database(path) -> str:
    with AgentMemory(path) as memory:
        for label, text in (("ada", "A grey heron at the pond \x1b[31m"), ("ben", "A heron on the roof")):
            memory.conversation("one", (label, "private")).add_message(HumanMessage(text, id=f"{label}-1"))
    return path


class TestSearch:
    def test_search_prints_results_with_reasons(self, agentmem, database):
        assert stdout_of(agentmem("search", database, "grey heron")) == (
            "No results in the root namespace. Entries exist under --namespace ada/private, "
            "--namespace ben/private. Or search with --everything.\n"
        )
        found = stdout_of(agentmem("search", database, "grey", "heron", "--everything"))
        assert found == stdout_of(agentmem("search", database, "grey heron", "--everything"))
        assert "ada/private/one  ada-1" in found
        assert "why: the words grey +" in found

    def test_namespace_limits_results_and_slash_means_all(self, agentmem, database):
        for namespace, all_of_it in (("ben", False), ("ben/private", False), ("/", True)):
            shown = stdout_of(agentmem("search", database, "heron", "--namespace", namespace))
            assert ("roof" in shown, "pond" in shown) == (True, all_of_it), namespace

    def test_json_has_results_and_hints_go_to_stderr(self, agentmem, database):
        [found] = read_json(agentmem("search", database, "heron", "--json", "--namespace", "ada", "--limit", "1"))
        assert (found["id"], found["text"]) == ("ada-1", "A grey heron at the pond \x1b[31m")
        assert (found["namespace"], found["why"]["terms"].keys()) == (["ada", "private"], {"heron"})
        run = agentmem("search", database, "heron", "--json")
        assert (run.returncode, run.stdout) == (0, "[]\n")
        assert "--namespace ada/private" in run.stderr

    def test_time_order_marks_replaced_messages(self, agentmem, tmp_path):
        path = str(tmp_path / "moved.db")
        with AgentMemory(path) as memory:
            for number, text in enumerate(["The heron lives here.", "The heron does not live here."]):
                memory.conversation("one").add_message(HumanMessage(text, id=f"m{number}"))
        asked = ("search", path, "Where does the heron live?", "--order", "time")
        shown = stdout_of(agentmem(*asked))
        assert shown.index("m0") < shown.index("replaced by: message m1") < shown.index("2. ")
        assert [each["replaced_by"] for each in read_json(agentmem(*asked, "--json"))] == [["message", "m1"], None]


def test_stats_count_messages_and_change_nothing(agentmem, database):
    before = Path(database).read_bytes()
    assert "messages                      2" in stdout_of(agentmem("stats", database))
    counted = read_json(agentmem("stats", database, "--json"))
    assert counted["messages"] == 2
    assert counted["bytes"] > 0
    assert Path(database).read_bytes() == before


def test_verify_prints_problems_and_exits_one(agentmem, database):
    assert stdout_of(agentmem("verify", database)).startswith("No problems found: checked 2 contents")
    execute(database, "update entry set body = x'7b7d'")
    run = agentmem("verify", database)
    assert (run.returncode, run.stderr) == (1, "")
    assert "is damaged" in run.stdout
    run = agentmem("verify", database, "--json")
    assert (run.returncode, '"ok": false' in run.stdout) == (1, True)


def test_database_is_the_first_argument(agentmem, database):
    for words in ("verify DB", "audit verify DB", "threads list DB", "search --everything DB heron"):
        stdout_of(agentmem(*(database if each == "DB" else each for each in words.split())))
    for words in ("verify", "audit report", "threads list"):
        run = agentmem(*words.split())
        assert (run.returncode, run.stdout) == (2, ""), words
        assert "Missing argument 'DATABASE'" in run.stderr
    assert "DATABASE" in stdout_of(agentmem("search", "--help")).splitlines()[0]


def test_missing_path_is_refused_and_not_created(agentmem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in ("verify no.db", "threads list no.db", "backup no.db copy.db", "studio no.db", "copy no.db a.db"):
        assert error_of(agentmem(*words.split())) == "There is no database at 'no.db'.", words
    assert "There is no backup" in error_of(agentmem("restore", "new.db", "nothing"))
    assert "There is no export" in error_of(agentmem("import", "new.db", "nothing"))
    for words in ("demo --studio --json", "demo --no-open", "stats no.db --key-file a --key-command b"):
        assert "--" in error_of(agentmem(*words.split())), words
    assert list(tmp_path.iterdir()) == []


def test_invalid_command_line_exits_two(agentmem, database):
    for words in ("nonsense", f"search {database}", "search x --order size", "demo --process one", "threads mvoe"):
        run = agentmem(*words.split())
        assert run.returncode == 2
        assert "Error" in run.stderr
    assert "No such command 'mvoe'" in run.stderr


def test_control_characters_are_escaped_in_output(agentmem, database):
    with AgentMemory(database) as memory:
        for label in ("x", "y"):
            memory.conversation("two", (f"{label}\x9b31m",)).add(role="user", content="x")
    assert "x\\x9b31m, y\\x9b31m" in error_of(agentmem("show", database, "two"))


def test_studio_refuses_to_listen_on_every_network(agentmem, database):
    for host in ("0.0.0.0", "::", "0", "::ffff:0.0.0.0"):
        assert "every network" in error_of(agentmem("studio", database, "--host", host))


def every(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands that do something, by their names."""
    for name, each in getattr(command, "commands", {}).items():
        if "commands" in vars(each):
            yield from every(each, (*path, name))
        else:
            yield " ".join((*path, name)), each


EVERY = dict(every(build_cli()))


def test_every_command_has_json_and_no_color_options():
    assert {"demo", "import-from", "search", "stats", "verify", "audit report", "experiences check"} <= EVERY.keys()
    for name, command in EVERY.items():
        assert {"--no-color", "--json"} <= {option for each in command.params for option in each.opts}, name


def test_command_summaries_are_not_truncated_in_help(agentmem):
    for group in ((), ("audit",), ("experiences",), ("threads",)):
        listed = stdout_of(agentmem(*group, "--help", COLUMNS="80")).partition("Commands:")[2]
        assert listed.strip()
        assert "..." not in listed


def test_table_is_not_truncated_outside_a_terminal():
    printed = io.StringIO()
    Output(Console(file=printed, width=80)).print_table(("what", "n"), [("x" * 200, "1"), ("[b]", "20")], right=("n",))
    first, *rows = printed.getvalue().splitlines()
    assert first.split() == ["what", "n"]
    assert [row.split() for row in rows] == [["x" * 200, "1"], ["[b]", "20"]]
    assert len(set(map(len, map(str.rstrip, rows)))) == 1
