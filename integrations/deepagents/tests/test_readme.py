"""The code of the README runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("agents", ["sync"], indirect=True)
def test_readme_code_runs(agents, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write = agents.call("write_file", file_path="/plan.md", content="By train.")
    remember = agents.call("write_file", file_path="/memories/AGENTS.md", content="Likes trains.")
    names = {"model": agents.model(write, remember, AIMessage("Done."))}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(block, names)
    names["memory"].close()
    told = capsys.readouterr().out
    assert "['/memories/', '/plan.md']" in told
    assert "'/memories/AGENTS.md', '/plan.md'" in told or "'/plan.md', '/memories/AGENTS.md'" in told
    assert told.endswith("Be brief.\n")
