"""The command line: plain text, JSON where asked for, one line for an error, and an exit code that tells."""

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

from .commands import execute, fine, refused, told


@pytest.fixture
def database(path) -> str:
    with AgentMemory(path) as memory:
        for label, text in (("ada", "A grey heron at the pond \x1b[31m"), ("ben", "A heron on the roof")):
            memory.conversation("one", (label, "private")).add_message(HumanMessage(text, id=f"{label}-1"))
    return path


class TestSearch:
    def test_it_finds_and_says_why(self, agentmem, database):
        assert fine(agentmem("search", database, "grey heron")) == (
            "Nothing was found in the root namespace. Elsewhere there is something: --namespace ada/private, "
            "--namespace ben/private. Or say --everything.\n"
        )
        found = fine(agentmem("search", database, "grey", "heron", "--everything"))
        assert found == fine(agentmem("search", database, "grey heron", "--everything"))
        assert "ada/private/one  ada-1" in found
        assert "why: the words grey +" in found

    def test_a_namespace_sees_only_its_own_and_a_slash_alone_everything(self, agentmem, database):
        for namespace, all_of_it in (("ben", False), ("ben/private", False), ("/", True)):
            shown = fine(agentmem("search", database, "heron", "--namespace", namespace))
            assert ("roof" in shown, "pond" in shown) == (True, all_of_it), namespace

    def test_json_holds_everything_and_of_nothing_comes_with_where_there_is_something(self, agentmem, database):
        [found] = told(agentmem("search", database, "heron", "--json", "--namespace", "ada", "--limit", "1"))
        assert (found["id"], found["text"]) == ("ada-1", "A grey heron at the pond \x1b[31m")
        assert (found["namespace"], found["why"]["terms"].keys()) == (["ada", "private"], {"heron"})
        run = agentmem("search", database, "heron", "--json")
        assert (run.returncode, run.stdout) == (0, "[]\n")
        assert "--namespace ada/private" in run.stderr

    def test_in_the_order_of_time_it_says_what_was_replaced(self, agentmem, tmp_path):
        path = str(tmp_path / "moved.db")
        with AgentMemory(path) as memory:
            for number, text in enumerate(["The heron lives here.", "The heron does not live here."]):
                memory.conversation("one").add_message(HumanMessage(text, id=f"m{number}"))
        asked = ("search", path, "Where does the heron live?", "--order", "time")
        shown = fine(agentmem(*asked))
        assert shown.index("m0") < shown.index("replaced by: message m1") < shown.index("2. ")
        assert [each["replaced_by"] for each in told(agentmem(*asked, "--json"))] == [["message", "m1"], None]


def test_stats_count_what_is_stored_and_looking_changes_nothing(agentmem, database):
    before = Path(database).read_bytes()
    assert "messages                      2" in fine(agentmem("stats", database))
    counted = told(agentmem("stats", database, "--json"))
    assert counted["messages"] == 2
    assert counted["bytes"] > 0
    assert Path(database).read_bytes() == before


def test_problems_that_verify_finds_are_printed_and_the_exit_code_is_one(agentmem, database):
    assert fine(agentmem("verify", database)).startswith("All is well: checked 2 contents")
    execute(database, "update content set body = x'7b7d'")
    run = agentmem("verify", database)
    assert (run.returncode, run.stderr) == (1, "")
    assert "is not what was stored" in run.stdout
    run = agentmem("verify", database, "--json")
    assert (run.returncode, '"ok": false' in run.stdout) == (1, True)


def test_the_first_argument_is_the_database(agentmem, database):
    for words in ("verify DB", "audit verify DB", "threads list DB", "search --everything DB heron"):
        fine(agentmem(*(database if each == "DB" else each for each in words.split())))
    for words in ("verify", "audit report", "threads list"):
        run = agentmem(*words.split())
        assert (run.returncode, run.stdout) == (2, ""), words
        assert "Missing argument 'DATABASE'" in run.stderr
    assert "DATABASE" in fine(agentmem("search", "--help")).splitlines()[0]


def test_a_mistyped_path_is_told_and_does_not_become_a_database(agentmem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in ("verify no.db", "threads list no.db", "backup no.db copy.db", "studio no.db", "copy no.db a.db"):
        assert refused(agentmem(*words.split())) == "There is no database at 'no.db'.", words
    assert "There is no backup" in refused(agentmem("restore", "new.db", "nothing"))
    assert "There is no export" in refused(agentmem("import", "new.db", "nothing"))
    assert refused(agentmem("demo", "--studio", "--json"))
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_cannot_be_understood(agentmem, database):
    for words in ("nonsense", f"search {database}", "search x --order size", "demo --process one", "threads mvoe"):
        run = agentmem(*words.split())
        assert run.returncode == 2
        assert "Error" in run.stderr
    assert "No such command 'mvoe'" in run.stderr


def test_what_a_terminal_would_obey_is_shown_as_its_number(agentmem, database):
    with AgentMemory(database) as memory:
        for label in ("x", "y"):
            memory.conversation("two", (f"{label}\x9b31m",)).add(role="user", content="x")
    assert "x\\x9b31m, y\\x9b31m" in refused(agentmem("show", database, "two"))


def test_studio_is_open_to_no_network_by_accident(agentmem, database):
    for host in ("0.0.0.0", "::", "0", "::ffff:0.0.0.0"):
        assert "every network" in refused(agentmem("studio", database, "--host", host))


def every(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands that do something, by their names."""
    for name, each in getattr(command, "commands", {}).items():
        if "commands" in vars(each):
            yield from every(each, (*path, name))
        else:
            yield " ".join((*path, name)), each


EVERY = dict(every(build_cli()))


def test_every_command_knows_json_and_no_color():
    assert {"demo", "import-from", "search", "stats", "verify", "audit report", "experiences check"} <= EVERY.keys()
    for name, command in EVERY.items():
        assert {"--no-color", "--json"} <= {option for each in command.params for option in each.opts}, name


def test_the_summary_of_a_command_is_not_cut_in_the_list_of_all(agentmem):
    for group in ((), ("audit",), ("experiences",), ("threads",)):
        listed = fine(agentmem(*group, "--help", COLUMNS="80")).partition("Commands:")[2]
        assert listed.strip()
        assert "..." not in listed


class TestScreen:
    def test_a_table_is_as_wide_as_it_has_to_be_where_nobody_watches(self):
        printed = io.StringIO()
        Output(Console(file=printed, width=80)).print_table(
            ("what", "n"), [("x" * 200, "1"), ("[b]", "20")], right=("n",)
        )
        first, *rows = printed.getvalue().splitlines()
        assert first.split() == ["what", "n"]
        assert [row.split() for row in rows] == [["x" * 200, "1"], ["[b]", "20"]]
        assert len(set(map(len, map(str.rstrip, rows)))) == 1
