"""Whoever opens a file of another program learns of `agentmem import-from`, and what that says."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseUnreadable, ForeignDatabase
from tests.cli.commands import invoked

from .sources import SOURCES, memgpt


class TestOpeningAForeignFile:
    @pytest.mark.parametrize("name", SOURCES)
    def test_names_the_import(self, name, tmp_path):
        path = SOURCES[name][1](tmp_path)
        if path.is_dir():
            path = next(each for each in sorted(path.rglob("*")) if each.suffix in (".yaml", ".json"))
        before = path.read_bytes()
        with pytest.raises(ForeignDatabase if path.suffix == ".db" else DatabaseUnreadable) as raised:
            AgentMemory(path)
        assert "agentmem import-from" in str(raised.value)
        assert path.read_bytes() == before


def test_the_command_says_what_came_and_what_is_left_out(tmp_path):
    target, path = tmp_path / "new.db", memgpt(tmp_path)
    dry, first, again = (
        invoked("import-from", str(target), "memgpt", str(path), *more) for more in (["--dry-run"], [], [])
    )
    assert (dry.exit_code, first.exit_code) == (1, 1)
    assert "10 memories would come." in dry.output
    assert "10 memories came. Here already: 0. Left out: 1 memory." in first.output
    assert "Left out: core_memory 5: it has expired.\n" in first.output
    assert "Nothing came. Here already: 10 memories." in again.output
