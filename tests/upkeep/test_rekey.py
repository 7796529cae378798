"""Encryption, decryption and key changes of a database."""

import hashlib
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.errors import DatabaseBusy, DatabaseUnreadable, ForeignDatabase, InvalidInput, StorageError
from langchain_agentmem.storage import encrypted_database
from langchain_agentmem.storage.encrypted_database import connect, load_sqlcipher
from langchain_agentmem.upkeep.admin import Admin
from tests.conftest import KEY
from tests.storage.test_encryption import readable

OTHER = bytes(32)


def digest(path, key=None) -> str:
    """Of all that a database holds."""
    seen = hashlib.sha256()
    with closing(connect(path, EncryptionKey.of(key))) as connection:
        tables = connection.execute("select name, sql from sqlite_master where rootpage > 0 order by name").fetchall()
        for name, sql in tables:
            seen.update(repr((name, sql)).encode())
            if sql is not None and sql.startswith("CREATE TABLE"):
                for row in connection.execute(f'select * from "{name}"'):
                    seen.update(repr(row).encode("utf-8", "surrogatepass"))
    return seen.hexdigest()


def test_rekey_keeps_every_row_and_leaves_no_plaintext(path):
    path.chmod(0o640)
    with AgentMemory(path), pytest.raises(DatabaseBusy, match=r"is open in this process\. Close it first"):
        Admin.rekey(path, new_key=KEY)
    held, names, seen = digest(path), {"memory.db"}, []
    with path.open("rb") as old:
        Admin.rekey(path, new_key=KEY, progress=seen.append)
        assert old.read(16) == bytes(16)  # who waited for the old file finds no database
    assert seen == [("copying", 0, 2), ("checking", 1, 2), ("checking", 2, 2)]
    assert {each.name for each in path.parent.iterdir()} == names
    assert readable(path.parent) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert digest(path, KEY) == held
    Admin.rekey(path, key=KEY, new_key=OTHER)
    with pytest.raises(DatabaseUnreadable, match="The key does not fit"):
        AgentMemory(path, key=KEY)
    assert readable(path.parent) == []
    Admin.rekey(path, key=OTHER)
    assert digest(path) == held
    with AgentMemory(path) as memory:
        assert memory.admin.verify().ok
        [[mode]] = memory.database.engine._writer.execute("pragma journal_mode").fetchall()
        [[vacuum]] = memory.database.engine._writer.execute("pragma auto_vacuum").fetchall()
        assert (mode, vacuum) == ("wal", 2)
        assert memory.search("herons", everything=True)


class TestRefusals:
    def test_missing_key_or_invalid_path_is_refused(self, path, tmp_path, monkeypatch):
        before = path.read_bytes()
        for given, says in (
            ({}, "Pass key= to decrypt a database, new_key= to encrypt it, or both"),
            ({"new_key": b"short"}, "A key is a passphrase, 32 bytes"),
            ({"new_key": lambda: ""}, "not an empty text"),
        ):
            with pytest.raises(InvalidInput, match=says):
                Admin.rekey(path, **given)
        assert path.read_bytes() == before
        assert [each.name for each in path.parent.iterdir()] == ["memory.db"]
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty.db").touch()
        for name in ("nowhere.db", "empty.db", ":memory:", "postgresql://localhost/x", ""):
            with pytest.raises((InvalidInput, ForeignDatabase)):
                Admin.rekey(name, new_key=KEY)
        assert {each.name for each in tmp_path.iterdir()} == {"empty.db", "folder"}

    def test_foreign_damaged_or_wrongly_keyed_file_is_refused(self, path, tmp_path):
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("create table theirs (a)")
        with pytest.raises(ForeignDatabase):
            Admin.rekey(tmp_path / "other.db", new_key=KEY)
        with pytest.raises(DatabaseUnreadable, match="is not encrypted"):
            Admin.rekey(path, key=KEY)
        Admin.rekey(path, new_key=KEY)
        for given in ({"new_key": OTHER}, {"key": OTHER, "new_key": KEY}):
            with pytest.raises(DatabaseUnreadable, match=r"The key does not fit|not a database, or an encrypted one"):
                Admin.rekey(path, **given)
        held = bytearray(path.read_bytes())
        held[5 * 4096 + 100] ^= 1
        path.write_bytes(held)
        with pytest.raises(StorageError):
            Admin.rekey(path, key=KEY, new_key=OTHER)
        assert path.read_bytes() == held

    def test_waiting_connection_with_old_key_finds_no_database(self, path, monkeypatch):
        key, export = EncryptionKey.of("a passphrase"), encrypted_database._export
        Admin.rekey(path, new_key="a passphrase")
        with closing(connect(path, key, timeout=60, isolation_level=None, check_same_thread=False)) as late:

            def exported(*given):
                waiting.append(pool.submit(late.execute, "begin immediate"))
                export(*given)

            waiting = []
            monkeypatch.setattr(encrypted_database, "_export", exported)
            with ThreadPoolExecutor(1) as pool:
                Admin.rekey(path, key="a passphrase", new_key=KEY)
                with pytest.raises(load_sqlcipher().DatabaseError, match="not a database"):
                    waiting[0].result(60)

    def test_incomplete_or_unwritable_new_file_is_discarded(self, path, monkeypatch):
        before, export = digest(path), encrypted_database._export

        def damaged(source, made, key):
            export(source, made, key)
            with made.open("rb+") as file:
                file.seek(4096 * 5)
                file.write(b"x" * 4096)

        def full(*_):
            raise OSError(28, "No space")

        for broken, error, says in (
            (damaged, StorageError, r"not a database|is damaged"),
            (full, InvalidInput, r"No space"),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(encrypted_database, "_export", broken)
                with pytest.raises(error, match=says):
                    Admin.rekey(path, new_key=KEY)
            assert [each.name for each in path.parent.iterdir()] == ["memory.db"]
            assert digest(path) == before
