"""Fixtures that run commands of `agentmem` in this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, cli
from langchain_agentmem.audit import audit_store as audit
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from tests.checkpoints.graphs import at, chat_graph

Run = subprocess.CompletedProcess[str]


@pytest.fixture
def agentmem(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Runs a command in this process, with environment variables by name."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, **environment: str) -> Run:
        # Some options set variables of the environment.
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(sys, "argv", ["agentmem", *map(str, arguments)]),
            pytest.raises(SystemExit) as left,
        ):
            cli.main()
        code, printed = left.value.code, capsys.readouterr()
        assert isinstance(code, int | None)
        assert "Traceback" not in printed.err
        return subprocess.CompletedProcess(sys.argv, code or 0, printed.out, printed.err)

    return run


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a new database."""
    return str(tmp_path / "memory.db")


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a database with two conversations, a thread and audit entries of long ago."""
    path = str(tmp_path_factory.mktemp("stock") / "memory.db")
    with AgentMemory(path) as memory:
        for label, text in (("ada", "a grey heron at the pond"), ("ben", "a heron on the roof")):
            chat = memory.conversation("one", (label, "private"))
            chat.add_messages([HumanMessage(f"{text}, {n}", id=f"{label}-{n}") for n in range(30)])
        for said in ("one", "two", "three"):
            chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage(said)]}, at("t"))
        long_ago = datetime.now(UTC) - timedelta(days=100)
        for n in range(5):
            entry = AuditEntry(id=f"a{n}", kind="call", prompt="why " * 500, reply="so " * 500, created_at=long_ago)
            memory.database.write("audit", lambda tx, entry=entry: audit.add(tx, "", [EntryDraft(entry, "why")]))
    return path


@pytest.fixture
def database(stock: str, tmp_path: Path) -> str:
    return str(shutil.copy(stock, tmp_path / "memory.db"))
