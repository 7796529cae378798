"""What can be opened, what is refused, and what the error says."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    StorageError,
)
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.postgres import _ADVISORY_LOCK, PostgresEngine
from langchain_agentmem.storage.queries import number_of
from langchain_agentmem.storage.sqlite import SqliteEngine
from tests.emptying import direct

pytestmark = pytest.mark.bare


def run_python(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_whole(path):
    """Whether a database can be opened and verifies; what is damaged may fail at either, with an error of ours."""
    try:
        with AgentMemory(path) as memory:
            return memory.admin.verify().ok
    except DatabaseUnreadable:
        return False


def filled(path, count=200):
    with AgentMemory(path) as memory:
        chat = memory.conversation("c")
        for i in range(count):
            chat.add(role="user", content=f"message number {i} " + "x" * 100)
    return path


class TestAddresses:
    @pytest.mark.parametrize("url", ["", " ", "a\0b.db", "mysql://host/db", "sqlite:///a.db", "http://host"])
    def test_what_is_no_database_is_refused(self, url):
        with pytest.raises(InvalidInput):
            AgentMemory(url)

    def test_an_unknown_kind_is_named(self):
        with pytest.raises(InvalidInput, match="mysql"):
            AgentMemory("mysql://host/db")

    def test_bytes_are_refused(self):
        with pytest.raises(InvalidInput):
            AgentMemory(b"agent.db")

    def test_a_path_object_will_do(self, tmp_path):
        filled(tmp_path / "a b ü%20?.db", 1)
        assert [p.name for p in tmp_path.iterdir()] == ["a b ü%20?.db"]

    def test_every_database_in_memory_is_its_own(self):
        with AgentMemory() as one, AgentMemory(":memory:") as other:
            one.conversation("c").add(role="user", content="here")
            assert len(one.conversation("c")) == 1
            assert len(other.conversation("c")) == 0

    @pytest.mark.parametrize("uri", ["file::memory:", "file:x?mode=memory", "file:y?mode=memory&cache=shared"])
    def test_a_uri_may_name_a_database_in_memory(self, uri):
        with AgentMemory(uri) as memory:
            memory.conversation("c").add(role="user", content="here")
            assert len(memory.conversation("c")) == 1
            assert len(memory.search("here")) == 1
            assert memory.admin.verify().ok

    def test_a_wrong_durability_is_refused(self, tmp_path):
        with pytest.raises(InvalidInput, match="synchronous"):
            AgentMemory(tmp_path / "a.db", synchronous="OFF; drop table entry")
        assert list(tmp_path.iterdir()) == []

    def test_full_durability_works(self, tmp_path):
        with AgentMemory(tmp_path / "a.db", synchronous="FULL") as memory:
            memory.conversation("c").add(role="user", content="here")
            assert memory.admin.verify().ok


class TestForeignFiles:
    def test_another_programs_database_is_refused(self, tmp_path):
        path = tmp_path / "notes.db"
        connection = sqlite3.connect(path)
        connection.execute("create table notes (id integer)")
        connection.commit()
        connection.close()
        before = path.read_bytes()

        with pytest.raises(ForeignDatabase, match="notes"):
            AgentMemory(path)

        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["notes.db"]

    def test_another_programs_schema_is_refused(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema agentmem")
            connection.execute("create table agentmem.secrets (id integer)")

        with pytest.raises(ForeignDatabase, match="secrets"):
            AgentMemory(url)

    def test_a_postgres_database_can_be_shared_with_an_application(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table entry (mine integer)")
        with AgentMemory(url) as memory:
            memory.conversation("c").add(role="user", content="here")
            assert memory.admin.verify().ok
            memory.erase(namespace=())
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("select count(*) from entry").fetchone() == (0,)

    def test_a_text_file_is_refused_and_kept(self, tmp_path):
        path = tmp_path / "readme.txt"
        path.write_text("This is not a database at all. " * 100)
        before = path.read_bytes()

        with pytest.raises(DatabaseUnreadable):
            AgentMemory(path)

        assert path.read_bytes() == before

    def test_an_empty_file_is_an_empty_database(self, tmp_path):
        path = tmp_path / "empty.db"
        path.touch()
        filled(path, 1)

    def test_a_folder_is_refused(self, tmp_path):
        with pytest.raises(DatabaseUnreadable, match="is a folder"):
            AgentMemory(tmp_path)

    def test_a_missing_folder_is_named(self, tmp_path):
        with pytest.raises(DatabaseUnreadable, match="nowhere"):
            AgentMemory(tmp_path / "nowhere" / "a.db")
        assert list(tmp_path.iterdir()) == []


class TestDamagedFiles:
    @pytest.mark.parametrize("keep", [0.9, 0.5, 0.1, 0.02])
    def test_a_truncated_database_is_an_error_of_ours(self, tmp_path, keep):
        path = filled(tmp_path / "a.db")
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])

        assert not is_whole(path)

    def test_overwritten_pages_are_found(self, tmp_path):
        path = filled(tmp_path / "a.db")
        content = bytearray(path.read_bytes())
        for start in range(8 * 4096, len(content), 3 * 4096):
            content[start : start + 2048] = b"\xa5" * 2048
        path.write_bytes(content)

        assert not is_whole(path)

    def test_a_destroyed_header_is_found(self, tmp_path):
        path = filled(tmp_path / "a.db")
        content = bytearray(path.read_bytes())
        content[:100] = b"\0" * 100
        path.write_bytes(content)

        with pytest.raises(DatabaseUnreadable):
            AgentMemory(path)


class TestAnotherSqlite:
    """What this package needs of SQLite is looked for before anything is written."""

    def test_one_that_is_too_old_is_told(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
            with pytest.raises(StorageError, match=r"too old; 3\.35 or newer"):
                AgentMemory(tmp_path / "agent.db")
        assert (tmp_path / "agent.db").stat().st_size == 0
        assert is_whole(tmp_path / "agent.db")

    def test_one_without_full_text_search_is_told(self, tmp_path, monkeypatch):
        connected = SqliteEngine._connect

        def without_fts5(engine):
            connection = connected(engine)
            connection.create_function("sqlite_compileoption_used", 1, lambda option: int(option != "ENABLE_FTS5"))
            return connection

        with monkeypatch.context() as patched:
            patched.setattr(SqliteEngine, "_connect", without_fts5)
            with pytest.raises(StorageError, match="built without FTS5"):
                AgentMemory(tmp_path / "agent.db")
        assert (tmp_path / "agent.db").stat().st_size == 0
        assert is_whole(tmp_path / "agent.db")


class TestReadOnly:
    def test_reading_works_and_writing_says_why_not(self, tmp_path):
        path = filled(tmp_path / "a.db", 3)
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            chat = memory.conversation("c")
            assert len(chat) == 3
            assert len(memory.search("message")) == 3
            for write in (
                lambda: chat.add(role="user", content="more"),
                chat.clear,
                lambda: memory.erase(namespace=()),
            ):
                with pytest.raises(DatabaseReadOnly):
                    write()
            assert len(chat) == 3

    def test_a_read_only_database_can_be_verified_and_copied(self, tmp_path):
        path = filled(tmp_path / "a.db", 3)
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            assert memory.admin.verify().problems == ()
            assert memory.admin.stats()["messages"] == 3
            memory.admin.backup(tmp_path / "copy.db")
            memory.export(tmp_path / "copy.jsonl")
        with AgentMemory(tmp_path / "copy.db") as copy:
            assert len(copy.conversation("c")) == 3

    def test_postgres_says_so_too(self, new_database):
        url = new_database("postgres")
        filled(url, 1)
        with AgentMemory(direct(url) + "&options=-c%20default_transaction_read_only%3Don") as memory:
            assert len(memory.conversation("c")) == 1
            with pytest.raises(DatabaseReadOnly):
                memory.conversation("c").add(role="user", content="more")


class TestFullDisk:
    @pytest.mark.parametrize("batch", [1, 50])
    def test_a_full_disk_is_said_and_nothing_is_half_written(self, tmp_path, batch, raw):
        with AgentMemory(tmp_path / "a.db") as memory:
            chat = memory.conversation("c")
            chat.add(role="user", content="first")
            pages = raw(memory, "pragma page_count")[0]["page_count"]
            raw(memory, f"pragma max_page_count = {pages + 40}")
            stored = []

            def fill():
                for i in range(1000):
                    chat.add_messages([HumanMessage(f"{i} {j} " + "abc " * 300) for j in range(batch)])
                    stored.append(batch)

            with pytest.raises(DatabaseFull):
                fill()

            assert len(chat) == 1 + sum(stored)
            assert memory.admin.verify().ok
            raw(memory, "pragma max_page_count = 1000000")
            chat.add(role="user", content="again")
            assert len(chat) == 2 + sum(stored)
            assert memory.admin.verify().ok


class TestBusy:
    def test_a_lock_held_for_too_long_is_said(self, tmp_path):
        path = filled(tmp_path / "a.db", 1)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        try:
            with AgentMemory(path, busy_timeout=0.1) as memory:
                assert len(memory.conversation("c")) == 1
                with pytest.raises(DatabaseBusy, match="busy_timeout"):
                    memory.conversation("c").add(role="user", content="more")
                other.execute("rollback")
                memory.conversation("c").add(role="user", content="more")
                assert len(memory.conversation("c")) == 2
        finally:
            other.close()

    def test_one_that_another_takes_while_both_make_a_database_is_waited_for_as_long(self, tmp_path, monkeypatch):
        path, patiently, refused = tmp_path / "a.db", SqliteEngine._patiently, []
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

        def later(engine, attempt):
            other.execute("begin immediate")
            patiently(engine, attempt)

        def open_it():
            with pytest.raises(DatabaseBusy, match="busy_timeout") as busy:
                AgentMemory(path, busy_timeout=0.1)
            refused.append(busy)

        with contextlib.closing(other), monkeypatch.context() as patched:
            patched.setattr(SqliteEngine, "_patiently", later)
            opening = threading.Thread(target=open_it, daemon=True)
            opening.start()
            opening.join(20)
        assert refused
        assert is_whole(path)

    def test_a_short_wait_for_a_lock_shortens_no_later_one(self, tmp_path):
        with contextlib.closing(SqliteEngine(str(tmp_path / "a.db"), Opening(busy_timeout=12.5))) as engine:
            engine.write_at_once(lambda: number_of("a\x1f"), patience=0.5)
            with engine.writer() as connection:
                assert connection.execute("pragma busy_timeout").fetchone()[0] == 12_500

    def test_postgres_waits_no_longer_either(self, new_database):
        url = new_database("postgres")
        filled(url, 1)
        with psycopg.connect(url) as other, AgentMemory(url, busy_timeout=0.2) as memory:
            other.execute("select * from agentmem.branch for update")
            with pytest.raises(DatabaseBusy, match="busy_timeout"):
                memory.conversation("c").add(role="user", content="more")
            other.rollback()
            memory.conversation("c").add(role="user", content="more")
            assert len(memory.conversation("c")) == 2

    def test_who_would_not_wait_at_all_does_not_wait_for_one_who_makes_the_tables(self, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url) as other:
            other.execute(f"select pg_advisory_lock({_ADVISORY_LOCK})")
            with pytest.raises(DatabaseBusy, match="lock timeout"):  # and not only since `timeout` has passed
                PostgresEngine(url, Opening(busy_timeout=0, timeout=1.0))


class TestClosing:
    def test_a_closed_memory_says_so(self, url):
        memory = AgentMemory(url)
        chat = memory.conversation("c")
        memory.close()
        memory.close()
        for call in (
            lambda: chat.add(role="user", content="x"),
            lambda: len(chat),
            lambda: memory.search("x"),
            memory.admin.verify,
            memory.admin.stats,
            lambda: memory.erase(namespace=()),
            lambda: memory.admin.backup("never.db"),
            lambda: memory.export("never.jsonl"),
        ):
            with pytest.raises(MemoryClosed):
                call()

    async def test_a_closed_memory_says_so_when_it_is_awaited(self, url):
        memory = AgentMemory(url)
        await memory.conversation("c").aadd(role="user", content="x")
        await memory.aclose()
        for call in (
            lambda: memory.conversation("c").aadd(role="user", content="x"),
            lambda: memory.asearch("x"),
            memory.admin.averify,
            memory.admin.astats,
        ):
            with pytest.raises(MemoryClosed):
                await call()

    @pytest.mark.slow
    def test_closing_while_others_work_ends_each_call_well_or_with_memory_closed(self, url):
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
    def test_a_child_that_closes_or_ends_does_not_disturb_its_parent(self, url):
        run_python(
            """
            import asyncio, os, sys
            from langchain_agentmem import AgentMemory

            memory = AgentMemory(sys.argv[1])
            chat = memory.conversation("c")
            asyncio.run(chat.aadd(role="user", content="before"))
            asyncio.run(chat.aget_messages())
            for closes in (True, False):
                child = os.fork()
                if child == 0:
                    if closes:
                        memory.close()
                    sys.exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                chat.add(role="user", content="after")
            assert len(chat) == 3
            assert memory.admin.verify().ok
            """,
            url,
        )

    @pytest.mark.slow
    def test_two_processes_may_create_one_database_at_the_same_moment(self, tmp_path, new_database):
        script = """
            import sys
            from langchain_agentmem import AgentMemory

            print("ready", flush=True)
            for line in sys.stdin:
                with AgentMemory(line.strip()) as memory:
                    memory.conversation("c").add(role="user", content="hello")
                print("done", flush=True)
        """
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        try:
            for worker in workers:
                assert worker.stdout.readline() == "ready\n"
            for url in [*(str(tmp_path / f"{n}.db") for n in range(20)), *(new_database("postgres") for _ in range(3))]:
                for worker in workers:
                    worker.stdin.write(f"{url}\n")
                    worker.stdin.flush()
                for worker in workers:
                    assert worker.stdout.readline() == "done\n"
                with AgentMemory(url) as memory:
                    assert len(memory.conversation("c")) == 2
                    assert memory.admin.verify().ok
        finally:
            for worker in workers:
                worker.communicate()
        assert [worker.returncode for worker in workers] == [0, 0]


class TestExtras:
    def test_postgres_without_psycopg_names_the_extra(self):
        out = run_python(
            """
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
        )
        assert out.count("postgres ") == out.count("pip install 'langchain-agentmem[postgres]'") == 1
        assert issubclass(MissingExtra, ImportError)

    def test_sqlite_needs_no_environment(self, tmp_path):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        script = "from langchain_agentmem import AgentMemory; AgentMemory('a.db').close()"
        subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)
        assert [p.name for p in tmp_path.iterdir()] == ["a.db"]
