"""Helpers that run commands and check their exit codes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

from typer import testing

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.app import app, build_cli


def invoked(*arguments: str, **given: Any) -> testing.Result:
    """Run a command in this process; its errors are exceptions."""
    with mock.patch.object(testing, "_get_command", return_value=build_cli()):
        return testing.CliRunner().invoke(app, arguments, **given)


def stdout_of(run: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that found nothing wrong."""
    assert (run.returncode, run.stderr) == (0, "")
    assert "\x1b" not in run.stdout
    return run.stdout


def read_json(run: subprocess.CompletedProcess[str]) -> Any:
    """The JSON of a command that found nothing wrong."""
    output = stdout_of(run)
    assert output.isascii()
    return json.loads(output)


def error_of(run: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """The one line that a refused command printed."""
    assert (run.returncode, run.stdout) == (code, "")
    [line] = run.stderr.splitlines()
    return line


def messages(path: str, namespace: tuple[str, ...] = ("ada", "private")) -> list[str]:
    with AgentMemory(path) as memory:
        return [message.text for message in memory.conversation("one", namespace).messages]


def execute(path: str | Path, sql: str) -> None:
    """Run a statement on a file behind the memory's back, as an accident or another program would."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()
