"""Every command and every program in `docs/moving.md` does what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from langchain_agentmem.importers.moving import KINDS
from tests.forking import COMMAND

from .sources import SOURCES

GUIDE = (Path(__file__).parents[2] / "docs" / "moving.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if "postgresql://" not in line]


@pytest.fixture
def run(tmp_path, forks):
    """Runs a program in a folder with a source of each kind, under the names that the guide gives them."""
    for name, (_, make) in SOURCES.items():
        if name != "langmem":
            make(tmp_path)
    (tmp_path / "owners.json").write_text('{"ada": "u-1", "bob": "u-2"}')
    return lambda program, *arguments: forks.run(f"import os\nos.chdir({str(tmp_path)!r})\n{program}", *arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_brings_something(command, run):
    program, *arguments = shlex.split(command)
    done = run(COMMAND, *arguments)
    assert program == "agentmem"
    assert done.returncode in (0, 1), done.stderr
    assert re.match(
        r"(Left out: .*\n)*\d+ \w+( of \d+ \w+)?(, \d+ \w+( of \d+ \w+)?)* (came|would come)\.", done.stdout
    )


@pytest.mark.parametrize("code", blocks("python"))
def test_a_program_runs(code, run):
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_kind_has_a_command():
    assert {shlex.split(each)[2] for each in COMMANDS} == set(KINDS)
