"""With a key, no plaintext is written to disk; a missing or wrong key is an error."""

import asyncio
import re
import shutil
import sqlite3
import sys
import traceback
from contextlib import closing, nullcontext, suppress
from itertools import product
from pathlib import Path

import pytest

import langchain_agentmem
from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, ConversationMemory
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.errors import (
    DatabaseReadOnly,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    MissingExtra,
    NewerDatabase,
)
from langchain_agentmem.storage import encrypted_database, engine
from langchain_agentmem.storage.encrypted_database import connect, load_sqlcipher
from langchain_agentmem.upkeep.admin import Admin
from langchain_agentmem.upkeep.integrity import diagnose
from tests.conftest import KEY
from tests.everything import DIMS, WordEmbeddings, fill

SECRET = "hunter2 of the heron"
READABLE = re.compile(rb"[ -~]{24,}")
WORDS = b"SQLite format|heron|quince|Lisbon|Porto|Maria|conversation|search_index|create".split(b"|")
PACKAGE = str(Path(langchain_agentmem.__file__).parent)


@pytest.fixture
def cheap_passphrases(monkeypatch):
    """A passphrase that costs little."""
    monkeypatch.setattr(encrypted_database, "PBKDF2_ROUNDS", 10)


def readable(folder: Path, *but: str) -> list[str]:
    """The files that show a word, or a long run of what looks like a text."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in but]
    assert files
    found = {path: path.read_bytes() for path in files}
    return [f"{path.name}: {hit}" for path, held in found.items()
            for hit in [*READABLE.findall(held)[:3], *(word for word in WORDS if word in held)]]  # fmt: skip


def memory_with_vectors(path, key) -> AgentMemory:
    return AgentMemory(path, key=key, index={"embed": WordEmbeddings(DIMS), "dims": DIMS})


def test_no_file_ever_contains_plaintext(tmp_path):
    folder = tmp_path / "encrypted"
    folder.mkdir()
    opened: set[str] = set()
    before = {link_target(each) for each in Path("/proc/self/fd").iterdir()}

    def look() -> int:
        opened.update(link for each in Path("/proc/self/fd").iterdir() if (link := link_target(each)))
        return 0

    with memory_with_vectors(folder / "memory.db", KEY) as memory:
        fill(memory)
        memory.settle()
        assert (folder / "memory.db-wal").stat().st_size > 100_000
        assert readable(folder) == []
        assert memory.search("herons", everything=True)
        engine = memory.database.engine
        writer = engine._writer
        writer.set_progress_handler(look, 1000)
        writer.execute("begin immediate")
        writer.execute("create table t as select hex(randomblob(500)) as a from search_document limit 5000")
        writer.execute("savepoint one")
        writer.execute("update t set a = a || 'heron of the savepoint'")
        writer.execute("create index i on t (a desc)")
        assert readable(folder) == []
        writer.execute("rollback to one")
        writer.execute("rollback")
        engine.scrub()
        writer.set_progress_handler(None, 0)
        memory.admin.backup(folder / "backup.db")
        memory.admin.copy(folder / "copy.db")
        memory.export(folder / "export", key=KEY)
        memory.erase(conversation_id="managed")
        assert readable(folder) == []
        assert memory.admin.verify().ok
    assert readable(folder) == []
    assert opened
    assert {path for path in opened - before if "etilqs" in path or "deleted" in path} == set()


def link_target(handle: Path) -> str:
    try:
        return str(handle.readlink())
    except OSError:
        return ""


class TestKey:
    def test_key_opens_every_part_and_entry_point(self, tmp_path, monkeypatch, cheap_passphrases):
        path = tmp_path / "memory.db"
        with AgentMemory(path, key=lambda: SECRET) as memory:
            memory.conversation("c").add_user_message("a heron")
        with AgentMemorySaver.from_conn_string(path, key=SECRET) as saver:
            assert list(saver.list(None)) == []
        with AgentMemoryStore.from_conn_string(path, key=SECRET) as store:
            store.put(("docs",), "one", {"text": "a heron"})
        with AgentMemory(path, key=SECRET, read_only=True) as memory:
            assert memory.search("heron", everything=True)
        monkeypatch.setenv("AGENTMEM_KEY", SECRET)
        assert ConversationMemory(path, "c").messages[0].content == "a heron"

    def test_key_is_derived_once_and_matches_sqlcipher(self, tmp_path, monkeypatch):
        made = []
        real = encrypted_database.hashlib.pbkdf2_hmac
        monkeypatch.setattr(encrypted_database.hashlib, "pbkdf2_hmac", lambda *given: made.append(1) or real(*given))
        with AgentMemory(tmp_path / "memory.db", key=SECRET) as memory:
            memory.conversation("c").add_user_message("a heron")
            snapshot = memory.database.engine.snapshot
            with snapshot(), snapshot(), snapshot():
                pass
        assert made == [1]
        with closing(load_sqlcipher().connect(str(tmp_path / "memory.db"))) as connection:
            connection.set_key(SECRET)
            [[applied]] = connection.execute("select count(*) from agentmem_migration").fetchall()
        assert applied == len(engine.migrations("sqlite"))

    def test_key_is_never_shown(self, tmp_path, cheap_passphrases, caplog, capfd):
        caplog.set_level(0)
        events, path = [], tmp_path / "memory.db"
        with AgentMemory(path, key=SECRET, hooks=[events.append]) as memory:
            memory.conversation("c").add_user_message("said")
            memory.admin.backup(tmp_path / "backup.db", key=f"{SECRET} of the backup")
            memory.export(tmp_path / "export", key=SECRET)
            engine = memory.database.engine
            shown = [repr(memory), repr(engine.options), repr(vars(engine)), repr(events),
                     repr(memory.admin.diagnose()), repr(memory.admin.stats())]  # fmt: skip
            doors = memory.admin.backup, memory.admin.copy, memory.export, memory.import_
            raised = [error_with_locals(lambda door=door: door(tmp_path / "none" / "x", key=SECRET)) for door in doors]
            raised.append(error_with_locals(lambda: asyncio.run(memory.aexport(tmp_path / "none" / "x", key=SECRET))))
            shown += [
                repr(vars(engine.cipher)),
                repr(engine.cipher.key),
                *map(repr, engine.cipher._derived_keys.values()),
            ]
        raised += [*(error_with_locals(lambda key=key: AgentMemory(path, key=key)) for key in
                     (f"{SECRET}, not", SECRET.encode().ljust(32), SECRET.encode())),
                  error_with_locals(lambda: AgentMemorySaver.from_conn_string(path, key=f"{SECRET}, not")),
                  error_with_locals(lambda: AgentMemory("postgresql://nowhere/x", key=SECRET)),
                  error_with_locals(lambda: Admin.rekey(path, key=f"{SECRET}, not", new_key=SECRET)),
                  error_with_locals(lambda: Admin.rekey(tmp_path / "none.db", new_key=SECRET)),
                  error_with_locals(lambda: Admin.restore(path, tmp_path / "r.db", key=f"{SECRET}, not"))]  # fmt: skip
        for text in (*shown, *raised, caplog.text, *capfd.readouterr()):
            assert "hunter2" not in text
            assert SECRET.encode().hex() not in text


def error_with_locals(call) -> str:
    """What a failure says, with the local variables of our own frames."""
    with pytest.raises(langchain_agentmem.AgentMemoryError) as raised:
        call()
    said, error = "".join(traceback.format_exception(raised.value)), raised.value
    for each in filter(None, (error, error.__cause__, error.__context__)):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if frame.f_code.co_filename.startswith(PACKAGE):
                said += repr({name: value for name, value in frame.f_locals.items() if name != "self"})
    return said


class TestWrongKeys:
    @pytest.fixture
    def path(self, tmp_path, new_database, monkeypatch) -> Path:
        path = Path(new_database("encrypted"))
        monkeypatch.delenv("AGENTMEM_KEY")
        return path

    def test_wrong_missing_and_needless_keys_are_rejected(self, path, tmp_path, cheap_passphrases):
        for key, is_open in product((bytes(32), "a passphrase"), (False, True)):
            opened = AgentMemory(path, key=KEY) if is_open else nullcontext()
            with opened, pytest.raises(DatabaseUnreadable, match="The key does not fit"):
                AgentMemory(path, key=key)
        with pytest.raises(DatabaseUnreadable, match=r"is not a database, or an encrypted one.*pass its key \(key=…"):
            AgentMemory(path)
        with closing(sqlite3.connect(path)) as plain, pytest.raises(sqlite3.DatabaseError, match="not a database"):
            plain.execute("select * from sqlite_master")
        AgentMemory(tmp_path / "plain.db").close()
        before = (tmp_path / "plain.db").read_bytes()
        with pytest.raises(DatabaseUnreadable, match=r"is not encrypted\. Open it without a key, or encrypt"):
            AgentMemory(tmp_path / "plain.db", key=KEY)
        assert (tmp_path / "plain.db").read_bytes() == before
        with AgentMemory(tmp_path / "plain.db"), pytest.raises(InvalidInput, match="in this process, without a key"):
            AgentMemory(tmp_path / "plain.db", key=KEY)
        with AgentMemory(path, key=KEY), pytest.raises(InvalidInput, match="already open in this process, with a key"):
            AgentMemory(path)
        with pytest.raises(InvalidInput, match=r"To encrypt PostgreSQL, see docs/guides/security.md"):
            AgentMemory("postgresql://localhost/x", key=KEY)
        for url in (":memory:", tmp_path / "new.db"):
            for key in ("", b"short", 5):
                with pytest.raises(InvalidInput, match="A key is a passphrase, 32 bytes, or a function"):
                    AgentMemory(url, key=key)
        assert not (tmp_path / "new.db").exists()
        with AgentMemory() as memory, pytest.raises(InvalidInput, match="exists and is no export"):
            memory.export(path)

    def test_truncated_or_corrupt_encrypted_file_is_reported(self, path):
        held, copy = path.read_bytes(), path.with_name("damaged.db")
        for size in (10, 100, 3_000, 4_096, 20_000):
            copy.write_bytes(held[:size])
            with pytest.raises(DatabaseUnreadable):
                AgentMemory(copy, key=KEY)
        for place in range(1000, len(held), 7 * 4096):
            copy.write_bytes(held[:place] + bytes([held[place] ^ 1]) + held[place + 1 :])
            with suppress(DatabaseUnreadable), AgentMemory(copy, key=KEY) as memory:
                assert not memory.admin.verify().ok

    def test_encrypted_file_of_another_program_is_rejected(self, tmp_path):
        with closing(connect(tmp_path / "other.db", EncryptionKey(KEY))) as other:
            other.execute("create table theirs (a)")
        with pytest.raises(ForeignDatabase):
            AgentMemory(tmp_path / "other.db", key=KEY)

    def test_keyed_backup_of_plain_database_is_rejected(self, tmp_path):
        with AgentMemory(tmp_path / "plain.db") as memory:
            memory.conversation("c").add_user_message("a heron")
            with pytest.raises(InvalidInput, match=r"For an encrypted copy, call copy\(path, key=…\)"):
                memory.admin.backup(tmp_path / "backup.db", key=KEY)
            memory.admin.copy(tmp_path / "copy.db", key=KEY)
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("backup")] == []
        with AgentMemory(tmp_path / "copy.db", key=KEY) as memory:
            assert memory.search("heron")


def test_backup_and_export_need_their_key(tmp_path):
    other = bytes(32)
    with AgentMemory(tmp_path / "memory.db", key=KEY) as memory:
        memory.conversation("c").add_user_message("a heron")
        memory.admin.backup(tmp_path / "backup.db")
        memory.admin.backup(tmp_path / "other.db", key=other)
        memory.export(tmp_path / "export", key=KEY)
        for each in tmp_path.glob("memory.db*"):  # as it is while it is in use
            shutil.copy(each, tmp_path / each.name.replace("memory", "taken"))
        with pytest.raises(DatabaseUnreadable, match="The key does not fit"):
            memory.admin.copy(tmp_path / "other.db", force=True)
        memory.admin.copy(tmp_path / "target.db")
        with pytest.raises(InvalidInput, match="already holds memories"):
            memory.admin.copy(tmp_path / "target.db")
    for name, key in (("backup.db", KEY), ("taken.db", KEY), ("other.db", other), ("export", KEY)):
        with pytest.raises((DatabaseUnreadable, InvalidInput), match="The key does not fit"):
            Admin.restore(tmp_path / name, tmp_path / "not.db", key=b"x" * 32)
        Admin.restore(tmp_path / name, tmp_path / f"restored {name}", key=key)
        with AgentMemory(tmp_path / f"restored {name}", key=key) as memory:
            assert memory.search("heron")
    assert not (tmp_path / "not.db").exists()
    with AgentMemory(tmp_path / "new.db") as memory:
        for key in (other, None):
            with pytest.raises(InvalidInput, match="key"):
                memory.import_(tmp_path / "export", key=key)
        assert memory.admin.stats()["messages"] == 0
        assert memory.import_(tmp_path / "export", key=KEY).entries == 1


def test_older_encrypted_file_upgrades_newer_is_rejected(tmp_path, monkeypatch):
    path, every = tmp_path / "memory.db", engine.migrations
    AgentMemory(path, key=KEY).close()
    later = engine.Migration("0999_later", "create table later (id integer);")
    with monkeypatch.context() as patched:
        patched.setattr(engine, "migrations", lambda dialect: (*every(dialect), later))
        with pytest.raises(DatabaseReadOnly, match="older version"):
            AgentMemory(path, key=KEY, migrate=False)
        with AgentMemory(path, key=KEY) as memory:
            memory.conversation("c").add_user_message("a heron")
            assert memory.admin.verify().ok
    held = path.read_bytes()
    with pytest.raises(NewerDatabase, match="0999_later"):
        AgentMemory(path, key=KEY)
    assert path.read_bytes() == held
    assert readable(tmp_path) == []


def test_doctor_reports_key_problems(tmp_path, monkeypatch):
    def found(**given):
        return {each.name: each for each in diagnose(str(path), deep=True, **given)}

    path = tmp_path / "memory.db"
    with AgentMemory(path, key=KEY) as memory:
        memory.conversation("c").add_user_message("a heron")
        assert {each.name: each.level for each in memory.admin.diagnose()}["encryption"] == "ok"
    assert found(key=KEY)["encryption"].text.startswith("every page is encrypted, by SQLCipher")
    assert found(key=KEY)["verify"].level == "ok"
    assert "pass its key" in found()["database"].text
    assert "does not fit" in found(key=bytes(32))["database"].text
    AgentMemory(tmp_path / "plain.db").close()
    path = tmp_path / "plain.db"
    assert "is not encrypted" in found(key=KEY)["database"].text
    load_sqlcipher.cache_clear()
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    assert "langchain-agentmem[encryption]" in found(key=KEY)["database"].remedy
    with pytest.raises(MissingExtra, match=r"pip install 'langchain-agentmem\[encryption\]'"):
        AgentMemory(path, key=KEY)
    load_sqlcipher.cache_clear()
