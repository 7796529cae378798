"""The command line: plain text, JSON where asked for, one line for an error, and an exit code that tells."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from rich.console import Console

from langchain_agentmem import AgentMemory, AgentMemorySaver, __version__
from langchain_agentmem.checkpoints import saver_import
from langchain_agentmem.cli.console import Screen
from tests.checkpoints.graphs import Line, at, id_in
from tests.emptying import direct
from tests.forking import COMMAND, Forks
from tests.threads.filled import THREADS, everything, fill, go_on

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "langchain_agentmem", *arguments]


INTERPRETERS: list[Forks] = []


@pytest.fixture(autouse=True)
def _interpreter(forks) -> None:
    INTERPRETERS[:] = [forks]


def agentmem(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command; in an interpreter of its own if something is said of its environment."""
    if not environment:
        return INTERPRETERS[0].run(COMMAND, *arguments)
    return subprocess.run(
        command(*arguments),
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def refused(run: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """The one line that a refused command printed."""
    assert run.returncode == code
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
    @pytest.mark.slow
    def test_it_finds_and_says_why(self, database):
        run = agentmem("search", database, "grey heron")
        assert run.stdout == (
            "Nothing was found in the root namespace. Elsewhere there is something: --namespace ada/private, "
            "--namespace ben/private. Or say --everything.\n"
        )
        run = agentmem("search", database, "grey", "heron", "--everything")
        assert run.stdout == agentmem("search", database, "grey heron", "--everything").stdout
        assert (run.returncode, run.stderr) == (0, "")
        assert "ada/private/one  ada-1" in run.stdout
        assert "why: the words grey +" in run.stdout
        assert "\x1b" not in run.stdout

    def test_a_namespace_sees_only_its_own(self, database):
        for namespace in ("ben", "ben/private"):
            run = agentmem("search", database, "heron", "--namespace", namespace)
            assert "roof" in run.stdout
            assert "pond" not in run.stdout

    def test_a_slash_alone_is_every_namespace(self, database):
        run = agentmem("search", database, "heron", "--namespace", "/")
        assert "roof" in run.stdout
        assert "pond" in run.stdout

    def test_json_of_nothing_comes_with_where_there_is_something(self, database):
        run = agentmem("search", database, "heron", "--json")
        assert (run.returncode, json.loads(run.stdout)) == (0, [])
        assert "--namespace ada/private" in run.stderr

    def test_json_holds_everything(self, database):
        run = agentmem("search", database, "heron", "--json", "--namespace", "ada", "--limit", "1")
        [found] = json.loads(run.stdout)
        assert found["id"] == "ada-1"
        assert found["text"] == "A grey heron at the pond \x1b[31m"
        assert found["namespace"] == ["ada", "private"]
        assert found["why"]["terms"].keys() == {"heron"}

    def test_in_the_order_of_time_it_says_what_was_replaced(self, tmp_path):
        path = str(tmp_path / "moved.db")
        with AgentMemory(path) as memory:
            for number, text in enumerate(["The heron lives here.", "The heron does not live here."]):
                memory.conversation("one").add_message(HumanMessage(text, id=f"m{number}"))
        run = agentmem("search", path, "Where does the heron live?", "--order", "time")
        assert run.stdout.index("m0") < run.stdout.index("replaced by: message m1") < run.stdout.index("2. ")
        run = agentmem("search", path, "Where does the heron live?", "--order", "time", "--json")
        assert [each["replaced_by"] for each in json.loads(run.stdout)] == [["message", "m1"], None]

    def test_nothing_found_is_no_error(self, database):
        assert agentmem("search", database, "ocelot", "--everything").stdout == "Nothing was found.\n"
        assert json.loads(agentmem("search", database, "ocelot", "--json", "--everything").stdout) == []

    @pytest.mark.slow
    def test_a_console_that_lacks_a_character_shows_another(self, tmp_path):
        path = str(tmp_path / "memory.db")
        with AgentMemory(path) as memory:
            memory.conversation("one").add(role="user", content="heron \N{BIRD} ä")
        run = agentmem("search", path, "heron", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert run.returncode == 0
        assert "heron ? ?" in run.stdout


class TestStats:
    @pytest.mark.slow
    def test_as_text_and_as_json(self, database):
        run = agentmem("stats", database, PYTHONPATH=str(ROOT))
        assert "messages                      2" in run.stdout
        counted = json.loads(agentmem("stats", database, "--json").stdout)
        assert counted["messages"] == 2
        assert counted["bytes"] > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["sqlite", "postgres"])
    def test_it_tells_the_sizes_of_parts(self, engine, new_database):
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

    def test_looking_changes_nothing(self, database):
        before = Path(database).read_bytes()
        for _ in range(2):
            assert agentmem("stats", database).returncode == 0
        assert Path(database).read_bytes() == before


class TestVerify:
    @pytest.mark.slow
    def test_all_is_well(self, database):
        run = agentmem("verify", database, PYTHONPATH=str(ROOT))
        assert run.returncode == 0
        assert run.stdout.startswith("All is well: checked 2 contents")

    def test_problems_are_printed_and_the_exit_code_is_one(self, database):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("update content set body = x'7b7d'")
            connection.commit()
        run = agentmem("verify", database)
        assert run.returncode == 1
        assert "is not what was stored" in run.stdout
        assert run.stderr == ""


@dataclass
class Ticket:
    """A class of an application, as states of graphs hold."""

    number: int


def stock(path, make=fill):
    """The file of a SqliteSaver, with some threads."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        make(saver)
        return str(path), {thread: everything(saver, thread) for thread in THREADS}


class TestClassesOfTheUser:
    @pytest.mark.slow
    def test_a_thread_of_them_is_shown_as_plain_data_and_nothing_is_said_or_imported(self, tmp_path):
        """A database may be another's: what it names is not run, nor is whoever looks told how to allow it."""
        imported, database = tmp_path / "imported", str(tmp_path / "memory.db")
        body = f"import dataclasses, pathlib\npathlib.Path({str(imported)!r}).touch()\n@dataclasses.dataclass\n"
        (tmp_path / "spied_plan.py").write_text(f"{body}class Plan:\n    title: str\n")
        with pytest.MonkeyPatch.context() as patched, AgentMemory(database) as memory:
            patched.syspath_prepend(tmp_path)
            Line(memory.checkpointer).put({"plan": importlib.import_module("spied_plan").Plan("Portugal")})
        imported.unlink()
        run = agentmem("show", database, "t", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
        assert (run.returncode, run.stderr) == (0, "")
        assert "Portugal" in run.stdout
        assert not imported.exists()


def imported(source: str, database: str, *arguments: str, **environment: str):
    return agentmem("import-from", database, "langgraph-saver", source, *arguments, **environment)


class TestImportingASaver:
    @pytest.fixture
    def source(self, tmp_path):
        return stock(tmp_path / "stock.db")

    @pytest.mark.slow
    def test_every_thread_comes_and_it_is_said_in_one_plain_line(self, source, tmp_path):
        path, before = source
        database, count = str(tmp_path / "ours.db"), sum(map(len, before.values()))
        run = imported(path, database)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout == f"{count} checkpoints of {len(THREADS)} threads came. Here already: 0. Left out: 0.\n"
        assert {file.name for file in tmp_path.iterdir()} == {"stock.db", "ours.db"}
        again = imported(path, database)
        assert again.stdout == f"Nothing came. Here already: {count} checkpoints. Left out: 0.\n"
        with AgentMemory(database) as memory:
            assert memory.admin.verify().problems == ()
            go_on(memory.checkpointer)

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("same", [True, False], ids=["into the same database", "into a file"])
    def test_from_postgres(self, new_database, tmp_path, same):
        url = new_database("postgres")
        try:
            with PostgresSaver.from_conn_string(direct(url)) as saver:
                saver.setup()
                fill(saver)
                before = {thread: everything(saver, thread) for thread in THREADS}
            database = url if same else str(tmp_path / "ours.db")
            run = imported(url, database, "--json")
            assert (run.returncode, run.stderr) == (0, "")
            assert json.loads(run.stdout)["added"]["checkpoints"] == sum(map(len, before.values()))
            with AgentMemory(database) as memory:
                assert {thread: everything(memory.checkpointer, thread) for thread in THREADS} == before
                go_on(memory.checkpointer)
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
                    connection.execute(f"drop table if exists {table}")

    def test_a_long_thread_is_read_from_postgres_a_page_at_a_time(self, new_database, monkeypatch):
        """Copies of a thread share their ids, so a page may end among equal ones."""
        url, asked = new_database("postgres"), []
        monkeypatch.setattr(saver_import, "PAGE", 4)
        try:
            with PostgresSaver.from_conn_string(direct(url)) as saver:
                saver.setup()
                line = Line(saver)
                for n in range(10):
                    checkpoint, metadata, new = line.next({"n": n})
                    for thread in ("t", "u", "v"):
                        saver.put(at(thread), checkpoint, metadata, new)
                expected = sorted(
                    (each.config["configurable"]["thread_id"], id_in(each.config)) for each in saver.list(None)
                )
                assert len(expected) == 30
            listing = PostgresSaver.list
            monkeypatch.setattr(
                PostgresSaver,
                "list",
                lambda *given, **options: asked.append(options["limit"]) or listing(*given, **options),
            )
            with saver_import.open_source(url) as source:
                found = [(each.config["configurable"]["thread_id"], id_in(each.config)) for each in source.list(None)]
                assert sorted(found) == expected
                assert [each[1] for each in found] == sorted((each[1] for each in found), reverse=True)
                assert max(asked) <= 4 + 3
                only = [id_in(each.config) for each in source.list(at("u"))]
                assert only == sorted({each[1] for each in expected}, reverse=True)
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
                    connection.execute(f"drop table if exists {table}")

    def test_the_source_is_left_as_it_was(self, source, tmp_path):
        path, before = source
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma journal_mode = delete")
        for mode in (0o644, 0o444):
            Path(path).chmod(mode)
            content, names = Path(path).read_bytes(), {file.name for file in tmp_path.iterdir()}
            run = agentmem("import-from", str(tmp_path / f"ours{mode}.db"), "langgraph-saver", path, "--json")
            assert (run.returncode, run.stderr) == (0, "")
            assert json.loads(run.stdout)["added"]["checkpoints"] == sum(map(len, before.values()))
            assert Path(path).read_bytes() == content
            assert {file.name for file in tmp_path.iterdir()} - names == {f"ours{mode}.db"}

    def test_one_that_is_being_written_is_read(self, tmp_path):
        path = str(tmp_path / "stock.db")
        with SqliteSaver.from_conn_string(path) as saver:
            line = Line(saver)
            line.put({"n": 1})
            run = imported(path, str(tmp_path / "ours.db"), "--json")
            assert json.loads(run.stdout)["added"]["checkpoints"] == 1
            line.put({"n": 2})
            run = imported(path, str(tmp_path / "ours.db"), "--json")
            report = json.loads(run.stdout)
            assert (report["added"]["checkpoints"], report["known"]["checkpoints"]) == (1, 1)

    def test_one_of_an_old_version_is_read_and_not_altered(self, tmp_path):
        """Its table of writes has no column for the paths of tasks yet."""
        path, before = stock(tmp_path / "stock.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("alter table writes drop column task_path")
        run = imported(path, str(tmp_path / "ours.db"), "--json")
        assert (run.returncode, run.stderr) == (0, "")
        assert json.loads(run.stdout)["added"]["checkpoints"] == sum(map(len, before.values()))
        with closing(sqlite3.connect(path)) as connection:
            assert "task_path" not in [row[1] for row in connection.execute("pragma table_info(writes)")]

    @pytest.mark.slow
    def test_a_class_of_the_user_is_imported_only_where_it_is_allowed(self, tmp_path):
        path, _ = stock(tmp_path / "stock.db", lambda saver: Line(saver).put({"ticket": Ticket(7), "n": 1}))
        database, name = str(tmp_path / "ours.db"), f"{Ticket.__module__}.Ticket"
        for unknown in ("nowhere.Thing", "json.Nothing", "Thing", ""):
            assert "no class" in refused(imported(path, database, "--allow", unknown))
            assert not Path(database).exists()
        run = imported(path, database)
        assert (run.returncode, run.stderr) == (1, "")
        assert "Left out: the thread 't': The thread 't' holds objects" in run.stdout
        assert f"--allow {name}\nNothing came." in run.stdout
        run = imported(path, database, "--allow", name)
        assert (run.returncode, run.stderr) == (0, "")
        with AgentMemory(database) as memory:
            serde = JsonPlusSerializer(allowed_msgpack_modules=[(Ticket.__module__, "Ticket")])
            saver = AgentMemorySaver(memory, serde=serde)
            assert saver.get(at())["channel_values"] == {"ticket": Ticket(7), "n": 1}

    def test_a_damaged_thread_is_left_out_as_a_whole_and_the_others_come(self, tmp_path):
        def make(saver):
            for thread in ("t", "u"):
                line = Line(saver, thread)
                for n in range(4):
                    line.put({"n": n})

        path, _ = stock(tmp_path / "stock.db", make)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "update checkpoints set checkpoint = x'c1' where thread_id = 't' "
                "and checkpoint_id = (select max(checkpoint_id) from checkpoints where thread_id = 't')"
            )
            connection.commit()
        run = imported(path, str(tmp_path / "ours.db"))
        assert (run.returncode, run.stderr) == (1, "")
        assert "Left out: the thread 't' (4 checkpoints): No checkpoints of a stock saver can be read" in run.stdout
        assert run.stdout.endswith(
            "4 checkpoints of 1 thread came. Here already: 0. Left out: 4 checkpoints of 1 thread.\n"
        )
        with AgentMemory(tmp_path / "ours.db") as memory:
            assert [each.thread_id for each in memory.admin.threads().threads] == ["u"]

    @pytest.mark.slow
    def test_a_source_that_is_none_is_refused_and_nothing_is_made(self, tmp_path, database):
        (tmp_path / "text.txt").write_text("not a database " * 100)
        (tmp_path / "empty.db").touch()
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("create table checkpoints (x)")
        names = {file.name for file in tmp_path.iterdir()}
        for source in ("missing.db", ".", "text.txt", "empty.db", "other.db", Path(database).name):
            path = tmp_path / source
            before = path.read_bytes() if path.is_file() else None
            line = refused(imported(str(path), str(tmp_path / "ours.db")))
            assert source in line or str(tmp_path) in line
            assert {file.name for file in tmp_path.iterdir()} == names
            assert (path.read_bytes() if path.is_file() else None) == before

    def test_a_server_without_checkpoints_or_that_is_not_there_is_refused(self, new_database, tmp_path):
        for url in (
            new_database("postgres"),
            "postgresql://ada:s3cret@127.0.0.1:1/db",
            "postgresql://ada:s3cret@host/db?nonsense=1",
        ):
            line = refused(imported(url, str(tmp_path / "ours.db")))
            assert "PostgreSQL" in line
            assert "s3cret" not in line
            assert not (tmp_path / "ours.db").exists()

    def test_into_another_programs_database_nothing_is_written(self, source, tmp_path):
        path, _ = source
        before = Path(path).read_bytes()
        assert "another program" in refused(imported(path, path), 3)
        assert Path(path).read_bytes() == before
        assert "folder" in refused(imported(path, str(tmp_path / "nowhere" / "ours.db")), 3)

    @pytest.mark.slow
    def test_without_the_extra_it_says_what_to_install(self, source, tmp_path):
        (tmp_path / "hidden").mkdir()
        (tmp_path / "hidden" / "sitecustomize.py").write_text(
            "import sys\nsys.modules['langgraph.checkpoint.sqlite'] = None\n"
        )
        environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "hidden"), str(ROOT)])}
        line = refused(imported(source[0], str(tmp_path / "ours.db"), **environment))
        assert line.endswith("pip install 'langchain-agentmem[import]'")


class TestTheFirstArgument:
    """It names the database."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "words", ["verify DB", "audit verify DB", "threads list DB", "search --everything DB heron"]
    )
    def test_is_the_database(self, database, words):
        run = agentmem(*(database if each == "DB" else each for each in words.split()))
        assert (run.returncode, run.stderr) == (0, "")

    @pytest.mark.slow
    @pytest.mark.parametrize("words", ["verify", "audit report", "threads list"])
    def test_without_one_it_says_what_is_missing(self, words):
        run = agentmem(*words.split())
        assert (run.returncode, run.stdout) == (2, "")
        assert "Missing argument 'DATABASE'" in run.stderr

    @pytest.mark.slow
    @pytest.mark.parametrize("words", ["verify no.db", "show no.db one", "threads list no.db", "backup no.db copy.db"])
    def test_a_mistyped_one_is_told(self, words):
        assert refused(agentmem(*words.split())) == "There is no database at 'no.db'."
        assert not Path("no.db").exists()

    def test_a_mistyped_command_is_told(self):
        run = agentmem("threads", "mvoe")
        assert (run.returncode, "No such command 'mvoe'" in run.stderr) == (2, True)
        assert "DATABASE" in agentmem("search", "--help").stdout.splitlines()[0]


class TestErrors:
    def test_a_command_that_cannot_be_understood(self, database):
        for arguments in (
            ["nonsense"],
            ["search", database],
            ["search", "x", "--order", "size"],
            ["demo", "--process", "one"],
        ):
            run = agentmem(*arguments)
            assert run.returncode == 2
            assert "Error" in run.stderr
            assert "Traceback" not in run.stderr

    @pytest.mark.slow
    def test_without_psycopg_it_says_what_to_install(self, database, tmp_path):
        (tmp_path / "psycopg.py").write_text("raise ImportError('not here')")
        environment, url = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}, "postgresql://localhost/x"
        install = "pip install 'langchain-agentmem[postgres]'"
        assert refused(agentmem("copy", database, url, **environment)).endswith(install)
        looked = agentmem("doctor", url, "--quick", **environment)
        assert (looked.returncode, looked.stderr) == (1, "")
        assert f"what to do: {install}" in looked.stdout

    def test_what_a_terminal_would_obey_is_shown_as_its_number(self, database):
        with AgentMemory(database) as memory:
            for label in ("x", "y"):
                memory.conversation("two", (f"{label}\x9b31m",)).add(role="user", content="x")
        assert "x\\x9b31m, y\\x9b31m" in refused(agentmem("show", database, "two"))

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra_it_says_what_to_install(self, missing, tmp_path):
        (tmp_path / f"{missing}.py").write_text("raise ImportError('not here')")
        line = refused(agentmem("demo", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])))
        assert line.endswith("pip install 'langchain-agentmem[cli]'")

    @pytest.mark.slow
    @pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
    def test_ctrl_c_leaves_quietly_and_leaves_nothing_behind(self, tmp_path):
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)}
        with subprocess.Popen(
            command("demo"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            assert run.stdout is not None
            while "talks with" not in run.stdout.readline():
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
        assert all(f"  {name} " in listed for name in ("demo", "import-from", "search", "stats", "verify"))


class TestScreen:
    def test_what_memory_holds_cannot_command_the_terminal(self):
        printed = io.StringIO()
        screen = Screen(Console(file=printed, force_terminal=True, color_system=None))
        screen.line("red \x1b[31m bell \x07 [bold]markup[/bold] \ud800 \x9b2J")
        assert printed.getvalue() == "red \\x1b[31m bell \\x07 [bold]markup[/bold] \\ud800 \\x9b2J\n"

    def test_a_table_is_as_wide_as_it_has_to_be_where_nobody_watches(self):
        printed = io.StringIO()
        Screen(Console(file=printed, width=80)).table(("what", "n"), [("x" * 200, "1"), ("[b]", "20")], right=("n",))
        first, *rows = printed.getvalue().splitlines()
        assert first.split() == ["what", "n"]
        assert [row.split() for row in rows] == [["x" * 200, "1"], ["[b]", "20"]]
        assert len(set(map(len, map(str.rstrip, rows)))) == 1
