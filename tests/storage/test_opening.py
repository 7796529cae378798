"""Opening a database: accepted files, rejected files, and the errors."""

import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

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
    StorageError,
)
from langchain_agentmem.storage import database
from langchain_agentmem.storage.sqlite import SqliteEngine

pytestmark = pytest.mark.bare


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
    def test_unsupported_address_is_rejected(self):
        for url in (" ", "mysql://host/db", "sqlite:///a.db", "http://host"):
            with pytest.raises(InvalidInput, match=url.partition("://")[0]):
                AgentMemory(url)

    def test_empty_file_opens_and_memory_databases_are_separate(self, tmp_path):
        (tmp_path / "a b ü%20?.db").touch()
        filled(tmp_path / "a b ü%20?.db", 1)
        assert [p.name for p in tmp_path.iterdir()] == ["a b ü%20?.db"]
        with AgentMemory() as one, AgentMemory(":memory:") as other:
            one.conversation("c").add(role="user", content="here")
            assert (len(one.conversation("c")), len(other.conversation("c"))) == (1, 0)

    def test_uri_can_name_an_in_memory_database(self):
        for uri in ("file::memory:", "file:x?mode=memory", "file:y?mode=memory&cache=shared"):
            with AgentMemory(uri) as memory:
                memory.conversation("c").add(role="user", content="here")
                assert len(memory.conversation("c")) == len(memory.search("here")) == 1
                assert memory.admin.verify().ok

    def test_synchronous_is_validated_and_applied_to_connections(self, tmp_path):
        with pytest.raises(InvalidInput, match="synchronous"):
            AgentMemory(tmp_path / "a.db", synchronous="OFF; drop table entry")
        assert list(tmp_path.iterdir()) == []
        for given, kept in (({}, 1), ({"synchronous": "NORMAL"}, 1), ({"synchronous": "FULL"}, 2)):
            with AgentMemory(tmp_path / "a.db", **given) as memory:
                memory.conversation("c").add(role="user", content="here")
                engine = memory.database.engine
                with engine._reader() as reader:
                    for connection in (engine._writer, reader):
                        assert connection.execute("pragma synchronous").fetchone()[0] == kept, given
                assert memory.admin.verify().ok


def test_foreign_files_are_rejected_and_unmodified(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "notes.db")) as connection:
        connection.execute("create table notes (id integer)")
    (tmp_path / "readme.txt").write_text("This is not a database at all. " * 100)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name, error, says in (
        ("notes.db", ForeignDatabase, "notes"),
        ("readme.txt", DatabaseUnreadable, "readme"),
        (".", DatabaseUnreadable, "Check that it is a file"),
        ("nowhere/a.db", DatabaseUnreadable, "nowhere"),
    ):
        with pytest.raises(error, match=says):
            AgentMemory(tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_damaged_file_raises_an_agentmem_error(tmp_path):
    path = filled(tmp_path / "a.db")
    content = path.read_bytes()
    overwritten = bytearray(content)
    for start in range(8 * 4096, len(content), 3 * 4096):
        overwritten[start : start + 2048] = b"\xa5" * 2048
    cut = {keep: content[: int(len(content) * keep)] for keep in (0.9, 0.5, 0.1, 0.02)}
    for what, damaged in {**cut, "no header": b"\0" * 100 + content[100:], "pages": overwritten}.items():
        path.write_bytes(damaged)
        assert not is_whole(path), what


def test_incomplete_sqlite_is_rejected_before_writing(tmp_path, monkeypatch):
    connected, path = SqliteEngine._connect, tmp_path / "agent.db"

    def without_fts5(engine):
        connection = connected(engine)
        connection.create_function("sqlite_compileoption_used", 1, lambda option: int(option != "ENABLE_FTS5"))
        return connection

    for where, name, value, says in (
        (sqlite3, "sqlite_version_info", (3, 34, 1), r"too old.* 3\.35 or newer"),
        (SqliteEngine, "_connect", without_fts5, "lacks FTS5"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, value)
            with pytest.raises(StorageError, match=says):
                AgentMemory(path)
        assert path.stat().st_size == 0
    assert is_whole(path)


def test_read_only_file_can_be_verified_and_copied(tmp_path):
    path = filled(tmp_path / "a.db", 3)
    with AgentMemory(f"file:{path}?mode=ro") as memory:
        chat = memory.conversation("c")
        assert len(chat) == len(memory.search("message")) == memory.admin.stats()["messages"] == 3
        assert memory.admin.threads().total == 1
        for write in (lambda: chat.add(role="user", content="more"), chat.clear, lambda: memory.erase(namespace=())):
            with pytest.raises(DatabaseReadOnly):
                write()
        assert memory.admin.verify().problems == ()
        memory.admin.backup(tmp_path / "copy.db")
        memory.export(tmp_path / "copy.jsonl")
    with AgentMemory(tmp_path / "copy.db") as copy:
        assert len(copy.conversation("c")) == 3


def fill(chat, batch, stored):
    while True:
        chat.add_messages([HumanMessage(f"{n} " + "abc " * 300) for n in range(batch)])
        stored.append(batch)


def test_full_disk_is_reported_without_partial_writes(tmp_path, raw):
    for batch in (1, 50):
        with AgentMemory(tmp_path / f"{batch}.db") as memory:
            chat = memory.conversation("c")
            pages = raw(memory, "pragma page_count")[0]["page_count"]
            raw(memory, f"pragma max_page_count = {pages + 40}")
            stored = []
            with pytest.raises(DatabaseFull):
                fill(chat, batch, stored)
            assert len(chat) == sum(stored)
            assert memory.admin.verify().ok
            raw(memory, "pragma max_page_count = 1000000")
            chat.add(role="user", content="again")
            assert len(chat) == 1 + sum(stored)
            assert memory.admin.verify().ok


class TestBusy:
    def test_long_lock_raises_database_busy(self, tmp_path):
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

    def test_lock_during_creation_waits_for_busy_timeout(self, tmp_path, monkeypatch):
        path, patiently = tmp_path / "a.db", SqliteEngine._retry_until_timeout
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:

            def later(engine, attempt):
                other.execute("begin immediate")
                return patiently(engine, attempt)

            with monkeypatch.context() as patched:
                patched.setattr(SqliteEngine, "_retry_until_timeout", later)
                with pytest.raises(DatabaseBusy, match="busy_timeout"):
                    AgentMemory(path, busy_timeout=0.1)
        assert is_whole(path)


def test_opening_does_not_block_other_databases(tmp_path, monkeypatch):
    began, go_on, open_engine = threading.Event(), threading.Event(), database.open_engine

    def opened(url, opening):
        if "slow" in url:
            began.set()
            assert go_on.wait(60)
        return open_engine(url, opening)

    monkeypatch.setattr(database, "open_engine", opened)
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(database.shared_database, tmp_path / "slow.db") for _ in range(2)]
        assert began.wait(60)
        database.shared_database(tmp_path / "quick.db").close()
        go_on.set()
        one, other = (each.result(60) for each in slow)
    assert one is other
    one.close()


async def test_closed_memory_raises_memory_closed(url):
    memory = AgentMemory(url)
    chat = memory.conversation("c")
    await chat.aadd(role="user", content="x")
    await memory.aclose()
    memory.close()
    for call in (
        lambda: chat.add(role="user", content="x"), lambda: len(chat), lambda: memory.search("x"), memory.admin.verify,
        memory.admin.stats, lambda: memory.erase(namespace=()), lambda: memory.admin.backup("never.db"),
        lambda: memory.export("never.jsonl"),
    ):  # fmt: skip
        with pytest.raises(MemoryClosed):
            call()
    for awaited in (
        lambda: chat.aadd(role="user", content="x"), lambda: memory.asearch("x"), memory.admin.averify,
        memory.admin.astats,
    ):  # fmt: skip
        with pytest.raises(MemoryClosed):
            await awaited()
