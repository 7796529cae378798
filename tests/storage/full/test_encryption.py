"""Encrypted files of processes, of other engines and of older versions."""

import signal

import pytest

from langchain_agentmem import AgentMemory
from tests.conftest import KEY
from tests.everything import fill
from tests.storage.test_encryption import memory_with_vectors, readable


class TestNoPlaintext:
    def test_killed_process_leaves_no_plaintext(self, tmp_path, forks):
        program = """
import os, signal, sys
from langchain_agentmem import AgentMemory
memory = AgentMemory(sys.argv[1])
chat = memory.conversation("c")
for number in range(60):
    chat.add_user_message(f"a grey heron, number {number}")
print("acknowledged", flush=True)
writer = memory.database.engine._writer
writer.execute("pragma cache_size = 10")
writer.execute("begin immediate")
writer.execute("create table t as select 'the heron that nobody acknowledged' || hex(randomblob(200)) as a "
               "from search_document a, search_document b")
os.kill(os.getpid(), signal.SIGKILL)
"""
        folder = tmp_path / "encrypted"
        folder.mkdir()
        run = forks.run(program, str(folder / "memory.db"), AGENTMEM_KEY=f"x'{KEY.hex()}'")
        assert (run.returncode, run.stdout) == (-signal.SIGKILL, "acknowledged\n")
        assert (folder / "memory.db-wal").stat().st_size > 1_000_000
        assert readable(folder) == []
        with AgentMemory(folder / "memory.db", key=KEY) as memory:
            assert len(memory.conversation("c").messages) == 60
            assert memory.admin.verify().ok


def test_environment_key_applies_to_files_only(monkeypatch, tmp_path, new_database):
    plain = new_database("postgres")
    monkeypatch.setenv("AGENTMEM_KEY", f"x'{KEY.hex()}'")
    for url in (":memory:", plain):
        with AgentMemory(url) as memory:
            memory.conversation("c").add_user_message("a heron")


@pytest.mark.slow
def test_encrypted_memory_moves_to_postgresql_and_back(tmp_path, new_database):
    server = new_database("postgres")
    with memory_with_vectors(tmp_path / "memory.db", KEY) as memory:
        fill(memory)
        memory.settle()
        memory.admin.copy(server)
    with AgentMemory(server) as memory:
        back = memory.admin.copy(tmp_path / "back.db", key=KEY)
    with AgentMemory(tmp_path / "back.db", key=KEY) as memory:
        assert memory.admin.verify().ok
        again = memory.admin.copy(server, force=True)
    assert (again.rows, again.documents) == (back.rows, back.documents)
    assert readable(tmp_path) == []
