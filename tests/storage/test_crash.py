"""The database file survives a crash at any moment; `full/test_crash.py` kills writers."""

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.bare


def test_copied_file_and_log_are_always_valid(tmp_path, raw):
    """As a machine that stops finds its disk: the file and its write-ahead log as they were."""
    path = tmp_path / "a.db"
    with AgentMemory(path) as memory:
        chat = memory.conversation("c")
        for n in range(100):
            chat.add(role="user", content=f"message {n}")
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal"):
            (tmp_path / f"copy.db{suffix}").write_bytes((tmp_path / f"a.db{suffix}").read_bytes())
    with AgentMemory(copy) as memory:
        assert len(memory.conversation("c")) == 100
        assert memory.admin.verify().problems == ()
        assert raw(memory, "pragma journal_mode") == [{"journal_mode": "wal"}]
