"""The code and the settings of the README and the guide work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from langchain_agentmem_mcp import tokens_of
from langchain_agentmem_mcp.command import _parser

from .served import COMMAND

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "several_agents.md").read_text(encoding="utf-8")


def blocks(language, page=README):
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_readme_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [code] = blocks("python")
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "My sister Ana lives in Lisbon.\n"


@pytest.mark.parametrize(("page", "namespace"), [(README, "me"), (GUIDE, "teams/trip")])
def test_client_configuration_starts_the_command(page, namespace):
    [block] = blocks("json", page)
    given = json.loads(block)["mcpServers"]["memory"]
    assert given["command"] == Path(COMMAND).name
    options = _parser().parse_args(given["args"])
    assert (options.database, options.namespace, options.http) == ("/home/me/agent.db", namespace, None)


async def test_readme_lists_valid_commands_and_every_tool(client):
    _, served = blocks("sh")
    tokens, command = served.splitlines()
    assert len(tokens_of(shlex.split(tokens)[1])) == 2
    options = _parser().parse_args(shlex.split(command)[1:])
    assert (options.http, options.tokens) == ("127.0.0.1:8765", "tokens.json")
    shown = {name for line in README.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert shown == {tool.name for tool in (await client.list_tools()).tools}
