"""Terminal output of all commands: 80 columns, colors, interruption and shell completion."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from tests.checkpoints.graphs import at, chat_graph
from tests.cli.test_cli import EVERY
from tests.forking import COMMAND, ENVIRONMENT

with contextlib.suppress(ImportError):
    import fcntl
    import struct
    import termios  # Windows has none of them

pytestmark = pytest.mark.sqlite_suffices

WIDE = 80
THREAD = "6f1f6c1e-4a53-4d0f-8f3e-3d9b6f1d2a10"
NAMESPACE = ("users", "ada-lovelace-0123456789", "projects-of-hers")
COMMANDS = {
    "threads": ["threads", "list", "memory.db"],
    "show": ["show", "memory.db", THREAD],
    "show a branch": ["show", "memory.db", "--branch", "main", "--namespace", "/".join(NAMESPACE)],
    "show a conversation": ["show", "memory.db", "talk", "--limit", "3"],
    "why": ["why", "memory.db", "talk"],
    "search": ["search", "memory.db", "grey", "heron", "--everything"],
    "nothing here": ["search", "memory.db", "grey", "heron"],
    "branches": ["branches", "memory.db"],
    "branches of a thread": ["branches", "memory.db", THREAD],
    "diff": ["diff", "memory.db", "main", "draft"],
    "facts": ["facts", "memory.db", "--namespace", "/".join(NAMESPACE)],
    "neighbours": ["facts", "memory.db", "Ada", "Lovelace", "--neighbours", "--namespace", "/".join(NAMESPACE)],
    "stats": ["stats", "memory.db"],
    "namespaces": ["namespaces", "memory.db"],
    "verify": ["verify", "memory.db"],
    "doctor": ["doctor", "memory.db", "--quick"],
    "audit": ["audit", "report", "memory.db"],
    "audit entries": ["audit", "list", "memory.db", "--limit", "3", "--namespace", "/".join(NAMESPACE)],
    "audit todos": ["audit", "todos", "memory.db"],
    "audit verify": ["audit", "verify", "memory.db"],
    "erase": ["erase", "memory.db", "--namespace", "/".join(NAMESPACE), "--dry-run"],
    "prune": ["prune", "memory.db", "--keep-messages", "1", "--dry-run"],
    "backup": ["backup", "memory.db", "backup.db"],
    "export": ["export", "memory.db", "export.jsonl"],
    "copy": ["copy", "memory.db", "copy.db"],
    "restore": ["restore", "restored.db", "memory.db"],
    "migrate": ["migrate", "memory.db"],
}
RUN_COMMANDS = """
import sys
from langchain_agentmem import cli

for name, arguments in COMMANDS.items():
    print(f"<<{name}>>", flush=True)
    sys.argv = ["agentmem", *arguments]
    try:
        cli.main()
    except SystemExit as left:
        sys.stdout.flush()
        print(f"<<left {left.code or 0}>>", flush=True)
"""
ONCE = {"backup", "export", "copy", "restore", "stats", "doctor", "audit"}
"""Commands whose output varies, as sizes change."""
CHANGING = {"erase", "prune", "backup", "export", "copy", "restore", "migrate", "verify"}
PLAIN = {name: value for name, value in ENVIRONMENT.items() if name not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}}
ANSI_SEQUENCES = r"\x1b\[[\d;?]*[a-zA-Z]|\r"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a database that has something of everything, with ids and namespaces that are long."""
    folder = tmp_path_factory.mktemp("home")
    with AgentMemory(folder / "memory.db") as memory:
        config = at(THREAD)
        config["configurable"]["agentmem_namespace"] = NAMESPACE
        for said in ("A grey heron at the pond", "Another grey heron, on the roof of the boat house"):
            chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage(said)]}, config)
        chat = memory.conversation("talk", NAMESPACE)
        for number in range(5):
            chat.add(role="user", content=f"The grey heron {number} " + "stood in the reeds and waited for frogs. " * 4)
        main = memory.layers("main", NAMESPACE)
        main.core.set("name", "Ada")
        main.archival.write("The key of the boat house hangs behind the door of the kitchen, on the left. " * 3)
        main.fork("draft").core.set("name", "Ada Lovelace, who looks for herons at every pond between here and the sea")
        facts = memory.facts("main", NAMESPACE)
        facts.add_fact(
            "user", "Ada Lovelace", "lives in the small white house at the end of", "Lisbon Road", source="m1"
        )
        asked = [HumanMessage("Where is the key of the boat house?", id=THREAD)]
        memory.inject("main", namespace=NAMESPACE).invoke(
            asked, {"configurable": {"thread_id": "talk", "agentmem_namespace": NAMESPACE}}
        )
        memory.within(NAMESPACE).audit.add("Where does the grey heron stand all day long? " * 3, "At the pond.")
    (folder / "notes.txt").write_text("Where is the grey heron?")
    return folder


def run_commands(home: Path, commands: Mapping[str, Sequence[str]], **environment: str) -> dict[str, str]:
    """Run commands in one program, and return their outputs."""
    program = f"COMMANDS = {commands!r}\n{RUN_COMMANDS}"
    run = subprocess.run(
        [sys.executable, "-c", program], env=PLAIN | environment, cwd=home, capture_output=True, text=True, check=True
    )
    return parted(run.stdout, commands)


def run_on_terminal(
    home: Path, commands: Mapping[str, Sequence[str]], code: int = 0, **environment: str
) -> dict[str, str]:
    """Run commands on a terminal of 80 columns, and return their outputs."""
    program = f"COMMANDS = {commands!r}\n{RUN_COMMANDS}"
    own, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDE, 0, 0))
    run = subprocess.Popen(
        [sys.executable, "-c", program],
        env=PLAIN | {"TERM": "xterm-256color"} | environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""  # read while it runs: a terminal holds only so much
    with contextlib.suppress(OSError), os.fdopen(own, "rb", buffering=0) as watching:
        while read := watching.read(65_536):
            shown += read
    assert run.wait() == 0, shown.decode()
    return parted(shown.decode(), commands, code)


def parted(printed: str, commands: Mapping[str, Sequence[str]], left: int = 0) -> dict[str, str]:
    parts = re.findall(r"<<([\w ]+)>>\r?\n(.*?)<<left (\d+)>>", printed, re.DOTALL)
    assert [name for name, _, _ in parts] == [*commands]
    assert {name: said for name, said, code in parts if int(code) != left} == {}
    return {name: said for name, said, _ in parts}


def words(text: str) -> set[str]:
    return {word.strip(",") for word in re.sub(ANSI_SEQUENCES, " ", text).split()}


@pytest.fixture(scope="module")
def shown(home) -> dict[str, str]:
    return run_on_terminal(home, COMMANDS)


@pytest.fixture(scope="module")
def plain(home, shown) -> dict[str, str]:
    return run_commands(home, {name: arguments for name, arguments in COMMANDS.items() if name not in ONCE})


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
class TestTerminalWidth:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_lines_fit_the_terminal_unless_one_word(self, shown, name):
        lines = [line.rpartition("\x1b[2K")[2] for line in shown[name].splitlines()]  # without bars that are gone
        lines = [re.sub(ANSI_SEQUENCES, "", line) for line in lines]
        assert any(line.strip() for line in lines)
        assert [line for line in lines if len(line) > WIDE and len(line.split()) > 1] == []

    def test_help_fits_the_terminal(self, home):
        helps = {f"help of {name.replace('-', ' ')}": [*name.split(), "--help"] for name in EVERY}
        lines = [line for said in run_on_terminal(home, helps).values() for line in said.splitlines()]
        assert [line for line in lines if len(re.sub(ANSI_SEQUENCES, "", line)) > WIDE] == []

    def test_error_wraps_between_words(self, home):
        asked = {"a text": ["stats", "notes.txt"]}
        [said] = run_on_terminal(home, asked, code=3).values()
        assert len(said.splitlines()) > 1
        assert max(map(len, said.splitlines())) <= WIDE
        assert "agentmem import-from" in " ".join(said.split())

    @pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ONCE])
    def test_headings_and_ids_are_never_truncated(self, shown, plain, name):
        assert words(plain[name]) - words(shown[name]) == set()

    @pytest.mark.parametrize("name", ["backup", "copy", "prune", "restore", "verify"])
    def test_long_commands_show_progress(self, shown, name):
        assert re.search(r"\d of \d", shown[name])

    def test_no_color_prints_no_escape_sequences(self, home):
        some = {name: [*COMMANDS[name], "--no-color"] for name in ("threads", "diff", "search", "why", "audit entries")}
        for shown in (
            run_on_terminal(home, some),
            run_on_terminal(home, {name: COMMANDS[name] for name in some}, NO_COLOR="1"),
        ):
            assert [name for name, said in shown.items() if "\x1b" in said] == []
        assert "\x1b" in run_on_terminal(home, {"diff": COMMANDS["diff"]})["diff"]


class TestInterruption:
    PROGRAM = """
import os, signal
from langchain_agentmem.storage.database import Database
def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
Database.__init__ = interrupted
"""

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
    @pytest.mark.parametrize("name", [name for name in COMMANDS if name != "doctor"])
    def test_interrupted_command_reports_its_state_and_exits_130(self, forks, home, name):
        paths = {"memory.db": str(home / "memory.db")}
        arguments = [paths.get(each, each) for each in COMMANDS[name]]
        run = forks.run(self.PROGRAM + COMMAND, *arguments)
        assert run.returncode == 130
        [line] = run.stderr.splitlines()
        assert line.startswith("Interrupted.")
        assert name not in CHANGING or len(line) > len("Interrupted.")


def test_shell_completion_offers_commands_and_options(forks):
    program = "import sys; sys.argv = ['agentmem']; from langchain_agentmem.cli import main; main()"
    for typed, offered in (
        ("agentmem sea", "search"),
        ("agentmem facts --neigh", "--neighbours"),
        ("agentmem audit tod", "todos"),
    ):
        asked = {"_AGENTMEM_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        run = forks.run(program, **asked)
        assert run.stdout.split() == [offered], (typed, run.stderr)
