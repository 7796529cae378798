"""Opening and closing a database from several threads and processes."""

import contextlib
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import MemoryClosed, MissingExtra
from langchain_agentmem.storage import encrypted_database

pytestmark = pytest.mark.bare


@pytest.mark.slow
def test_close_during_calls_completes_or_raises_memory_closed(url):
    for _ in range(5):
        memory = AgentMemory(url)
        chat = memory.conversation("c")
        chat.add(role="user", content="x")
        begun = threading.Barrier(9)

        def work(n, chat=chat, memory=memory, begun=begun):
            begun.wait()
            with contextlib.suppress(MemoryClosed):
                while True:
                    if n % 2:
                        chat.add(role="user", content="more")
                    else:
                        chat.retrieve_recent(5)
                        memory.search("more")

        with ThreadPoolExecutor(8) as threads:
            working = [threads.submit(work, n) for n in range(8)]
            begun.wait()
            chat.add(role="user", content="last")
            memory.close()
        assert [future.exception() for future in working] == [None] * 8
    with AgentMemory(url) as memory:
        assert memory.admin.verify().ok


class TestProcesses:
    @pytest.mark.slow
    def test_two_processes_can_create_one_database_concurrently(self, tmp_path, new_database, monkeypatch):
        """And agree on the salt of one that is encrypted."""
        monkeypatch.setattr(encrypted_database, "PBKDF2_ROUNDS", 10)
        script = """
            import sys
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.storage import encrypted_database

            encrypted_database.PBKDF2_ROUNDS = 10
            print("ready", flush=True)
            for line in sys.stdin:
                url, *key = line.split()
                with AgentMemory(url, key=key[0] if key else None) as memory:
                    memory.conversation("c").add(role="user", content="hello")
                print("done", flush=True)
        """
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
        workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        databases = [(str(tmp_path / f"{n}.db"), "passphrase" if n % 4 == 0 else None) for n in range(20)]
        try:
            for worker in workers:
                assert worker.stdout.readline() == "ready\n"
            for url, key in [*databases, *((new_database("postgres"), None) for _ in range(3))]:
                for worker in workers:
                    worker.stdin.write(f"{url} {key or ''}\n")
                    worker.stdin.flush()
                for worker in workers:
                    assert worker.stdout.readline() == "done\n"
                with AgentMemory(url, key=key) as memory:
                    assert len(memory.conversation("c")) == 2
                    assert memory.admin.verify().ok
        finally:
            for worker in workers:
                worker.communicate()
        assert [worker.returncode for worker in workers] == [0, 0]


class TestExtras:
    def test_postgres_without_psycopg_names_the_extra(self):
        script = """
            import sys
            sys.modules["psycopg"] = None
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.errors import MissingExtra
            with AgentMemory(":memory:") as memory:
                memory.conversation("c").add(role="user", content="no driver needed")
            try:
                AgentMemory("postgresql://host/db")
            except MissingExtra as error:
                print(error.extra, error)
        """
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert out.count("postgres ") == out.count("pip install 'langchain-agentmem[postgres]'") == 1
        assert issubclass(MissingExtra, ImportError)
