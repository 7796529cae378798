"""Database addresses: accepted forms, rejected forms, and hidden passwords."""

import socket
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, ConversationMemory
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, StorageError
from langchain_agentmem.storage.postgres import mask_address
from langchain_agentmem.upkeep.database_copy import restore

pytestmark = [pytest.mark.bare, pytest.mark.sqlite_suffices]


class TestUnescapedCharacters:
    def test_error_explains_escaping(self):
        for secret in ("s3/cret", "s3@cret", "s3%zzcret", "s3 cret"):
            with pytest.raises(InvalidInput, match=r"ada:\*\*\*@host.*%40 for @"):
                AgentMemory(f"postgresql://ada:{secret}@host/db")
        with pytest.raises(InvalidInput, match="nonsense"):
            AgentMemory("postgresql://host/db?nonsense=1")

    def test_escaped_characters_are_accepted(self):
        for rest in ("host/a%40b", "host:5432,other:5433/db", "/db?host=/var/run", "host/db?application_name=a@b"):
            assert mask_address(f"postgresql://ada:p%40w@{rest}").startswith("postgresql://ada:***@")


class TestConnectionStrings:
    def test_unreachable_port_raises_storage_error(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(StorageError, match=str(port)):
                AgentMemory(f"host=127.0.0.1 port={port} user=ada password=s3cret dbname=db")
        assert list(tmp_path.iterdir()) == []

    def test_file_name_may_resemble_a_connection_string(self, tmp_path):
        path = tmp_path / "host=a.db"
        with AgentMemory(path) as memory:
            memory.conversation("c").add(role="user", content="hello")
        assert path.exists()


def test_invalid_path_is_rejected_by_every_entry_point(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "a.db"
    for path in (
        "a" * 5_000, "aaaa/" * 2_000 + "a.db", "\ud800.db", "a\0b", b"a.db", Path("\udcff\ud800.db"), "",
        5, None, ["a.db"], "file:\ud800.db", "file:" + "a" * 5_000, "\ud800" * 5_000,
    ):  # fmt: skip
        with AgentMemory(target) as memory:
            for call in (
                AgentMemory, lambda given: ConversationMemory(given, "c"), AgentMemorySaver.from_conn_string,
                AgentMemoryStore.from_conn_string, memory.admin.backup, memory.admin.copy, memory.export,
                memory.import_, lambda given: restore(given, tmp_path / "b.db"), lambda given: restore(target, given),
            ):  # fmt: skip
                with pytest.raises(AgentMemoryError) as caught:
                    pytest.fail(f"{path!r:.30} gave {call(path)}")
                assert len(str(caught.value)) < 1_000
