"""The README: its code, its configuration and its commands."""

from __future__ import annotations

import json

from click.testing import CliRunner
from langgraph_cli.cli import cli

from langchain_agentmem import Retention

from .readme import BLOCKS, CONFIG, PYTHON
from .serving import APP, QUIET


def test_every_readme_block_is_tested():
    assert {kind for kind, _ in BLOCKS} == {"sh", "json", "python"}
    assert PYTHON.keys() == {"agent.py", "client.py", "users.py", "memories.py"}
    assert json.loads(CONFIG) == json.loads((APP / "langgraph.json").read_text())


def test_readme_configuration_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "langgraph.json").write_text(CONFIG)
    (tmp_path / "agent.py").write_text(PYTHON["agent.py"])
    told = CliRunner().invoke(cli, ["validate"])
    assert "is valid" in told.output
    assert "warning" not in told.output


def test_readme_client_recalls_messages_of_another_thread(server, capsys):
    code = PYTHON["client.py"].replace("http://127.0.0.1:2024", server.url).replace('"agent"', '"readme"')
    names = {}
    exec(code, names)
    names["client"].close()
    assert "] My sister Ana lives in Lisbon.\n" in capsys.readouterr().out


def test_readme_environment_equals_the_test_environment():
    assert "".join(f"{name}={value} " for name, value in QUIET.items()) in "".join(code for _, code in BLOCKS)


async def test_memory_with_custom_arguments_is_mounted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memories = {}
    exec(PYTHON["memories.py"], memories)

    async with memories["checkpointer"]() as saver, memories["store"]() as store:
        assert saver.retention == Retention(keep_last=50)
        await store.aput(("ada",), "k", {"v": 1})
        assert (await memories["memory"]().store.aget(("ada",), "k")).value == {"v": 1}
