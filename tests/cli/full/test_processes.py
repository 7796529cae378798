"""Commands as processes: environment, missing extras, signals and terminals."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_agentmem import AgentMemory
from tests.checkpoints.graphs import Line
from tests.cli.commands import error_of, stdout_of
from tests.forking import ENVIRONMENT

with contextlib.suppress(ImportError):
    import pty  # Windows has none

ROOT = Path(__file__).parents[3]
AGENTMEM = [sys.executable, "-W", "error", "-m", "langchain_agentmem"]


def agentmem(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; options in capitals are variables of its environment."""
    environment = ENVIRONMENT | {name: str(options.pop(name)) for name in [*options] if name.isupper()}
    streams = {"capture_output": True, "text": True, "encoding": "utf-8"}
    return subprocess.run([*AGENTMEM, *arguments], env=environment, check=False, **streams, **options)


def started(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*AGENTMEM, *arguments], env=ENVIRONMENT | environment, **streams)


@pytest.fixture
def database(path) -> str:
    with AgentMemory(path) as memory:
        memory.conversation("one", ("ada",)).add_message(HumanMessage("heron \N{BIRD} ä", id="ada-1"))
    return path


def test_unsupported_characters_are_replaced_in_output(database, tmp_path):
    ascii_alone = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert "heron ? ?" in stdout_of(agentmem("search", database, "heron", "--everything", **ascii_alone))
    (tmp_path / "handcrafted_exp_files.yaml").write_text("exp_id: äx\nwhen: naïve 界\nwhat: x\n", encoding="utf-8")
    shown = stdout_of(agentmem("experiences", "check", str(tmp_path), **ascii_alone))
    assert shown == "?x  (all roles)\n   na?ve ?\n1 experience; 0 files not loaded.\n"


def test_custom_classes_are_shown_without_importing_them(tmp_path):
    """A database may be another's: what it names is not run, nor is whoever looks told how to allow it."""
    imported, database = tmp_path / "imported", str(tmp_path / "memory.db")
    body = f"import dataclasses, pathlib\npathlib.Path({str(imported)!r}).touch()\n@dataclasses.dataclass\n"
    (tmp_path / "spied_plan.py").write_text(f"{body}class Plan:\n    title: str\n")
    with pytest.MonkeyPatch.context() as patched, AgentMemory(database) as memory:
        patched.syspath_prepend(tmp_path)
        Line(memory.checkpointer).put({"plan": importlib.import_module("spied_plan").Plan("Portugal")})
    imported.unlink()
    assert "Portugal" in stdout_of(agentmem("show", database, "t", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}"))
    assert not imported.exists()


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        ("psycopg", "postgres", "copy DB postgresql://localhost/x"),
        ("typer", "cli", "demo"),
        ("rich", "cli", "demo"),
        ("langgraph.checkpoint.sqlite", "import", "import-from DB langgraph-saver SAVER"),
    ],
)
def test_missing_extra_error_names_the_pip_command(missing, extra, command, database, tmp_path):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    path = os.pathsep.join([str(tmp_path / "hidden"), str(ROOT)])
    with SqliteSaver.from_conn_string(str(tmp_path / "x.db")) as saver:
        saver.setup()
    words = [{"DB": database, "SAVER": str(tmp_path / "x.db")}.get(each, each) for each in command.split()]
    install = f"pip install 'langchain-agentmem[{extra}]'"
    assert error_of(agentmem(*words, PYTHONPATH=path)).endswith(install)
    if missing == "psycopg":
        looked = agentmem("doctor", words[-1], "--quick", PYTHONPATH=path)
        assert (looked.returncode, looked.stderr) == (1, "")
        assert f"remedy: {install}" in looked.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_exits_130_without_traceback_or_files(tmp_path):
    with started("demo", PYTHONUNBUFFERED="1", TMPDIR=str(tmp_path)) as run:
        while "Conversation" not in run.stdout.readline():
            pass
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate()
    assert run.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_erase_asks_for_confirmation_on_a_terminal(database):
    typed, stdin = pty.openpty()
    os.write(typed, b"y\n")
    run = agentmem("erase", database, "--namespace", "ada", stdin=stdin)
    for handle in (stdin, typed):
        os.close(handle)
    assert "Erase? [y/N]" in run.stderr
    assert run.returncode == 0
    with AgentMemory(database) as memory:
        assert memory.admin.stats()["messages"] == 0


def test_studio_serves_read_only_and_stops_on_sigint(database):
    with started("studio", database, "--port", "0", "--read-only") as process:
        try:
            where = urlsplit(re.search(r"http://\S+", process.stdout.readline())[0])
            connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)

            def get(path, **headers):
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer, answer.read().decode()

            opened, _ = get(f"/?{where.query}")
            _, page = get("/", Cookie=opened.getheader("Set-Cookie").partition(";")[0])
            stranger, _ = get("/")
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
        _, failed = process.communicate()
    assert (opened.status, opened.getheader("Location"), stranger.status) == (303, "/", 403)
    assert "read-only" in page
    assert (process.returncode, failed) == (0, "")
