"""README and documentation pages: code that runs, output as shown, and valid links."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand, TyperGroup

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.app import build_cli
from langchain_agentmem.importers.import_runner import READERS
from tests.forking import COMMAND, Forks
from tests.importers.sources import SOURCES
from tests.pages import NAMES, ROOT, Step, anchors_of, is_shown, links_of, named_in, steps_of

DOCS = ROOT / "docs"
MARK = "<the next block>"
NOT_RUN = {
    r"pip install ": "It asks a package index; `tests/full/test_wheel.py` has what is shipped, .ci/run installs it.",
    r"python3 -m venv ": "It makes an environment; .ci/run makes one, and runs the second command of README in it.",
    r"python -m langchain_agentmem demo --studio": "It serves: `tests/cli/full/test_demo_story.py`.",
    r"agentmem import-from \S+ \S+ postgresql://": "A server of theirs: `importers/test_langgraph_sources.py` has one.",
    r"create role ada_user": "Roles are of the whole server: `tests/storage/test_options.py` makes these.",
    r"create role memory_owner": "The same: `tests/storage/test_options.py`.",
    r"select citus_schema_distribute": "It takes Citus: `tests/distributed/on_citus.py`.",
    r'agentmem verify "\$': "The same: `tests/distributed/test_backups.py` verifies what was restored.",
    r"AGENTMEM_KEY_FILE=agent.key AGENTMEM_NEW_KEY_FILE=": "Two keys of a file: `tests/upkeep/test_rekey.py`.",
    r"agentmem-mcp ": "A distribution of its own: `integrations/mcp/tests` has the command.",
    r"pg_ctl ": "A standby: `tests/distributed/test_failover.py`.",
    r"pg_dump |pg_restore |pg_basebackup |cp -a ": "Programs of a server: `tests/distributed/test_backups.py`.",
}
"""How what is not run begins, each with the reason, and what runs it instead."""


def is_run(step: Step) -> bool:
    return not any(re.match(beginning, step.text) for beginning in NOT_RUN)


def materials(page: str, folder: Path) -> None:
    """Put into a folder what a page takes for granted that its reader has: a memory, the files of other programs."""
    if page == "docs/studio.md":
        AgentMemory(folder / "agent.db").close()
    if page == "docs/moving.md":
        for name, (_, make) in SOURCES.items():
            if name != "langmem":  # the same file as that of the store
                make(folder)
        (folder / "owners.json").write_text('{"ada": "u-1", "bob": "u-2"}')


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    modules = ("langgraph.graph", "langchain.agents", "langchain_agentmem.cli.app", "langchain_agentmem.studio")
    with Forks(tmp_path_factory.mktemp("outputs"), *modules, home=tmp_path_factory.mktemp("home")) as forks:
        yield forks


class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    def __init__(self, forks: Forks, folder: Path, url: str) -> None:
        self._forks, self._here = forks, f"import os; os.chdir({str(folder)!r})\nurl = {url!r}\n"

    def do(self, kind: str, steps: list[Step]) -> None:
        """Take steps of one kind that follow each other; a program goes on with what those before have made."""
        if kind == "python":
            self._run_programs(steps)
            return
        for step in steps:
            if kind == "command":
                self._run_command(step)
            else:
                assert kind == "json", f"Nothing runs this, and NOT_RUN has no reason: {step.text}"
                check_settings(json.loads(step.text))

    def _run_programs(self, steps: list[Step]) -> None:
        run = self._forks.run(self._here + f"\nprint({MARK!r})\n".join(step.text for step in steps))
        assert run.returncode == 0, f"{steps[0].text}\n{run.stderr}"
        for step, printed in zip(steps, run.stdout.split(f"{MARK}\n"), strict=True):
            assert printed.strip() or not re.search(r"^ *print\(", step.text, re.MULTILINE)
            assert step.output is None or is_shown(step.output, printed), f"{step.text}\nprints\n{printed}"

    def _run_command(self, step: Step) -> None:
        name, *arguments = shlex.split(step.text, comments=True)
        assert name == "agentmem", f"Nothing runs this, and NOT_RUN has no reason: {step.text}"
        if arguments[0] == "studio":  # it serves until it is ended
            options = [each for each in arguments if each != "--open"]
            run = self._forks.run_killed(self._here + COMMAND, *options, "--port", "0", lines=1, after=0)
            assert "http://127.0.0.1:" in run.stdout
            return
        run = self._forks.run(self._here + COMMAND, *arguments)
        printed = run.stdout + run.stderr
        left_out = run.returncode == 1 and arguments[0] == "import-from" and printed.startswith("Skipped: ")
        assert run.returncode == 0 or left_out, f"{step.text}\n{printed}"
        assert step.output is None or is_shown(step.output, printed), f"{step.text}\nprints\n{printed}"


def check_settings(settings: dict) -> None:
    """Settings are those of a client of MCP, and name a command of ours, which its own tests give these arguments."""
    scripts = tomllib.loads((ROOT / "integrations" / "mcp" / "pyproject.toml").read_text())["project"]["scripts"]
    assert [*settings] == ["mcpServers"]
    for server in settings["mcpServers"].values():
        assert server.keys() == {"command", "args"}
        assert server["command"] in scripts


@pytest.mark.timeout(900)  # some pages have thirty commands
@pytest.mark.parametrize("page", NAMES)
def test_code_of_each_page_prints_its_shown_output(page, forks, tmp_path, request):
    materials(page, tmp_path)
    databases = request.getfixturevalue("postgres_databases") if page == "docs/postgresql.md" else None
    reader = Reader(forks, tmp_path, databases.bare("page") if databases else "")
    for kind, steps in itertools.groupby(filter(is_run, steps_of(page)), key=lambda step: step.kind):
        reader.do(kind, [*steps])


@pytest.mark.parametrize("beginning", NOT_RUN)
def test_skipped_blocks_exist(beginning):
    assert [page for page in NAMES for step in steps_of(page) if re.match(beginning, step.text)] != []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a heron", "a heron\n", True),
        ("a   heron", "a heron   \n", True),
        ("a …", "a heron\n", True),
        ("a …", "a heron\nand more\n", False),
        ("a\n…\nc", "a\nb\nb\nc\n", True),
        ("a\n…", "a\n", True),
        ("a\n…", "b\na\n", False),
        ("a", "a\nb\n", False),
        ("", "a\n", False),
        ("a.c", "abc\n", False),
        ("12 of …", "13 of 14\n", False),
    ],
)
def test_shown_output_matches_with_wildcards(shown, printed, same):
    assert is_shown(shown, printed) == same


def test_every_import_source_has_a_documented_command():
    commands = [shlex.split(step.text) for step in steps_of("docs/moving.md") if step.kind == "command"]
    assert {command[3] for command in commands if command[:2] == ["agentmem", "import-from"]} == set(READERS)


def test_diagrams_match_their_generator(tmp_path):
    runpy.run_path(str(DOCS / "diagrams.py"))["main"](tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    for drawn in tmp_path.iterdir():
        assert drawn.read_text(encoding="utf-8") == (DOCS / "images" / drawn.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NAMES)
def test_every_link_leads_to_a_page_and_heading(page):
    for link, path, anchor in links_of(page):
        assert path.exists(), link
        assert not anchor or anchor in anchors_of(path), link


def command_of(words: list[str]) -> TyperCommand | TyperGroup:
    """The command that these words begin with: `agentmem threads move CHAT` is `agentmem threads move`."""
    command: Any = build_cli()
    for word in words:
        if not isinstance(command, TyperGroup) or word.startswith("-"):
            break
        assert word in command.commands, f"There is no command {word!r}."
        command = command.commands[word]
    return command


@pytest.mark.parametrize("page", NAMES)
def test_documented_commands_options_and_methods_exist(page):
    for said in named_in(page):
        assert all(hasattr(AgentMemory, name) for name in re.findall(r"\bmemory\.(\w+)", said)), said
        if said.startswith("agentmem "):
            parameters = command_of(said.split()[1:]).params
            known = {"--help", *(name for each in parameters for name in (*each.opts, *each.secondary_opts))}
            assert {*re.findall(r"(?<![^\s\[])--[a-z-]+", said)} <= known, said


def test_every_page_is_in_the_navigation():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in NAMES[1:] if page.removeprefix("docs/") not in contents] == []
