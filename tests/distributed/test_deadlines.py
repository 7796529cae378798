"""Timeouts on frozen servers, frozen connections and locks."""

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


class TestFrozenServer:
    @pytest.mark.parametrize("name", CALLS)
    @pytest.mark.parametrize("connected", [True, False])
    def test_every_call_times_out(self, server, memory, name, connected):
        with server.frozen():
            if not connected:
                with pytest.raises(DatabaseTimeout):
                    memory.search("apple")
            with pytest.raises(DatabaseTimeout, match="did not answer in time"):
                CALLS[name](memory)

    async def test_awaited_call_times_out_and_memory_stays_usable(self, server, memory):
        with server.frozen(), pytest.raises(DatabaseTimeout):
            await memory.asearch("apple")
        assert [each.text for each in memory.search("apple")] == ["an apple"]

    def test_opening_times_out(self, server, database):
        with server.frozen(), pytest.raises(DatabaseTimeout):
            opened(server.url(database))

    def test_copy_to_a_frozen_server_times_out(self, server, database, tmp_path):
        with opened(tmp_path / "memory.db") as memory:
            say(memory)
            with server.frozen(), pytest.raises(DatabaseTimeout):
                memory.admin.copy(server.url(database))

    @pytest.mark.parametrize("embedded", [False, True])
    def test_closing_returns(self, server, database, embedded):
        index = {"dims": 3, "embed": lambda texts: [[1.0, 2.0, 3.0]] * len(texts)} if embedded else None
        memory = opened(server.url(database), index=index)
        say(memory)
        with server.frozen():
            memory.close()

    def test_closing_ends_a_running_call(self, server, database):
        memory = opened(server.url(database))
        say(memory)
        with server.frozen(), ThreadPoolExecutor(1) as executor:
            answer = executor.submit(memory.search, "apple")
            until(lambda: memory.database.engine._calls.running, "it asks")
            memory.close()
            assert isinstance(answer.exception(10), StorageError)

    def test_call_on_a_frozen_server_can_be_interrupted(self, server, database):
        with opened(server.url(database), timeout=60.0) as memory:
            say(memory)
            with server.frozen():
                main = threading.main_thread().ident
                threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
                with pytest.raises(KeyboardInterrupt):
                    memory.search("apple")


class TestFrozenConnection:
    def test_query_times_out_and_connection_is_replaced(self, server, memory):
        [(pid,)] = server.run_sql(
            "select pid from pg_stat_activity where query like '%commit%' and pid <> pg_backend_pid()"
        )
        with server.held(pid), pytest.raises(DatabaseTimeout):
            memory.search("apple")
        assert memory.search("apple")


class TestLocks:
    @pytest.mark.parametrize("name", ["search", "write"])
    def test_locked_table_raises_database_busy(self, server, database, memory, name):
        with locked(server, database), pytest.raises(DatabaseBusy):
            CALLS[name](memory)

    def test_verify_reports_a_locked_table(self, server, database, memory):
        with locked(server, database):
            assert any("lock" in each for each in memory.admin.verify().problems)

    def test_scrub_of_a_locked_table_raises_database_busy(self, server, database, memory):
        with psycopg.connect(server.url(database)) as other:
            other.execute("lock table agentmem.item in access share mode")
            with pytest.raises(DatabaseBusy):
                memory.database.engine.scrub()

    def test_opening_during_a_migration_raises_database_busy(self, server, database):
        with psycopg.connect(server.url(database)) as other:
            other.execute("select pg_advisory_xact_lock(%s)", [postgres._ADVISORY_LOCK])
            with pytest.raises(DatabaseBusy):
                opened(server.url(database))


def test_slow_query_does_not_time_out(server, memory):
    with memory.database.engine.connection() as connection:
        began = time.monotonic()
        assert connection.execute("select 1 as n from pg_sleep(3)").fetchall() == [{"n": 1}]
        assert time.monotonic() - began >= 3
