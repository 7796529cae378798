"""Opening a foreign file names `agentmem import-from`; the output of that command."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseUnreadable, ForeignDatabase
from tests.cli.commands import invoked

from .sources import SOURCES, memgpt


@pytest.mark.parametrize("name", SOURCES)
def test_foreign_file_error_names_the_import_command(name, tmp_path):
    path = SOURCES[name][1](tmp_path)
    if path.is_dir():
        path = next(each for each in sorted(path.rglob("*")) if each.suffix in (".yaml", ".json"))
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase if path.suffix == ".db" else DatabaseUnreadable) as raised:
        AgentMemory(path)
    assert "agentmem import-from" in str(raised.value)
    assert path.read_bytes() == before


def test_command_reports_imported_and_skipped(tmp_path):
    target, path = tmp_path / "new.db", memgpt(tmp_path)
    dry, first, again = (
        invoked("import-from", str(target), "memgpt", str(path), *more) for more in (["--dry-run"], [], [])
    )
    assert (dry.exit_code, first.exit_code) == (1, 1)
    assert "Would import: 10 memories." in dry.output
    assert "Imported: 10 memories. Already here: 0. Skipped: 1 memory." in first.output
    assert "Skipped: core_memory 5: it has expired.\n" in first.output
    assert "Imported: nothing. Already here: 10 memories." in again.output
