"""A server that stands still, or a lock that others hold, is waited for as long as was said, and no longer."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy, DatabaseTimeout, StorageError
from langchain_agentmem.storage import postgres

from .servers import postgres as server_of_its_own
from .servers import until


@pytest.fixture(scope="module")
def server():
    with server_of_its_own() as server:
        yield server


def opened(url, **options):
    return AgentMemory(url, **{"timeout": 1.0, "busy_timeout": 0.5} | options)


def say(memory):
    memory.conversation("c").add_user_message("an apple")


CALLS = {
    "search": lambda memory: memory.search("apple"),
    "write": say,
    "read": lambda memory: memory.conversation("c").messages,
    "put": lambda memory: memory.store.put(("notes",), "1", {"text": "apple"}),
    "stats": lambda memory: memory.admin.stats(),
    "verify": lambda memory: memory.admin.verify(),
    "erase": lambda memory: memory.erase(conversation_id="c"),
    "export": lambda memory: memory.export("/dev/null"),
}


@pytest.fixture
def memory(server, database):
    with opened(server.url(database)) as memory:
        say(memory)
        memory.search("apple")
        yield memory


@contextmanager
def locked(server, database, table="entry"):
    with psycopg.connect(server.url(database)) as other:
        other.execute(f"lock table agentmem.{table} in access exclusive mode")
        yield
        other.rollback()


class TestAServerThatStandsStill:
    @pytest.mark.parametrize("name", CALLS)
    @pytest.mark.parametrize("connected", [True, False])
    def test_every_call_ends(self, server, memory, name, connected):
        with server.frozen():
            if not connected:
                with pytest.raises(DatabaseTimeout):
                    memory.search("apple")
            with pytest.raises(DatabaseTimeout, match="did not answer in time"):
                CALLS[name](memory)

    async def test_so_do_those_that_are_awaited_and_afterwards_all_is_as_it_was(self, server, memory):
        with server.frozen(), pytest.raises(DatabaseTimeout):
            await memory.asearch("apple")
        assert [each.text for each in memory.search("apple")] == ["an apple"]

    def test_opening_ends(self, server, database):
        with server.frozen(), pytest.raises(DatabaseTimeout):
            opened(server.url(database))

    def test_a_copy_to_it_ends(self, server, database, tmp_path):
        with opened(tmp_path / "memory.db") as memory:
            say(memory)
            with server.frozen(), pytest.raises(DatabaseTimeout):
                memory.admin.copy(server.url(database))

    @pytest.mark.parametrize("embedded", [False, True])
    def test_closing_ends(self, server, database, embedded):
        index = {"dims": 3, "embed": lambda texts: [[1.0, 2.0, 3.0]] * len(texts)} if embedded else None
        memory = opened(server.url(database), index=index)
        say(memory)
        with server.frozen():
            memory.close()

    def test_closing_ends_beside_a_call(self, server, database):
        memory = opened(server.url(database))
        say(memory)
        with server.frozen(), ThreadPoolExecutor(1) as executor:
            answer = executor.submit(memory.search, "apple")
            until(lambda: memory.database.engine._calls.running, "it asks")
            memory.close()
            assert isinstance(answer.exception(10), StorageError)

    def test_who_interrupts_a_call_is_not_kept(self, server, database):
        with opened(server.url(database), timeout=60.0) as memory:
            say(memory)
            with server.frozen():
                main = threading.main_thread().ident
                threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
                with pytest.raises(KeyboardInterrupt):
                    memory.search("apple")


class TestAConnectionThatStandsStill:
    def test_what_it_was_asked_ends(self, server, memory):
        [(pid,)] = server.run_sql(
            "select pid from pg_stat_activity where query like '%commit%' and pid <> pg_backend_pid()"
        )
        with server.held(pid), pytest.raises(DatabaseTimeout):
            memory.search("apple")
        assert memory.search("apple")


class TestALockThatOthersHold:
    @pytest.mark.parametrize("name", ["search", "write"])
    def test_is_told(self, server, database, memory, name):
        with locked(server, database), pytest.raises(DatabaseBusy):
            CALLS[name](memory)

    def test_by_what_looks_at_every_table_too(self, server, database, memory):
        with locked(server, database):
            assert any("lock" in each for each in memory.admin.verify().problems)

    def test_when_erased_rows_are_to_leave_the_files(self, server, database, memory):
        with psycopg.connect(server.url(database)) as other:
            other.execute("lock table agentmem.item in access share mode")
            with pytest.raises(DatabaseBusy):
                memory.database.engine.scrub()

    def test_while_another_makes_the_tables(self, server, database):
        with psycopg.connect(server.url(database)) as other:
            other.execute("select pg_advisory_xact_lock(%s)", [postgres._ADVISORY_LOCK])
            with pytest.raises(DatabaseBusy):
                opened(server.url(database))


def test_what_takes_long_is_waited_for(server, memory):
    with memory.database.engine.connection() as connection:
        began = time.monotonic()
        assert connection.execute("select 1 as n from pg_sleep(3)").fetchall() == [{"n": 1}]
        assert time.monotonic() - began >= 3
