"""Key changes of open databases, after crashes, and by commands."""

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from typer import testing

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.cli.app import build_cli
from langchain_agentmem.errors import DatabaseBusy, DatabaseUnreadable
from langchain_agentmem.storage.encrypted_database import connect
from langchain_agentmem.storage.engine import DatabaseOptions
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.upkeep.admin import Admin
from tests.cli.commands import invoked
from tests.conftest import KEY
from tests.forking import COMMAND
from tests.storage.test_encryption import readable
from tests.upkeep.test_rekey import digest

OTHER = bytes(32)


OPEN = """
import sys
from langchain_agentmem import AgentMemory
memory = AgentMemory(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""
KILLED = """
import os, signal, sys
from langchain_agentmem import Admin
key, new_key = (None if each == "-" else bytes.fromhex(each) for each in sys.argv[2:4])
left = int(sys.argv[4])
def hook(event, arguments):
    global left
    if event in {"open", "os.rename", "os.remove", "os.chmod", "sqlite3.connect"}:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
def look():
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0
from langchain_agentmem.storage import encrypted_database as rekeying
connect = rekeying.connect
def watched(*given, **options):
    connection = connect(*given, **options)
    connection.set_progress_handler(look, 2000)
    return connection
rekeying.connect = watched
overwrite = os.pwrite
def counted(*given):
    look()
    return overwrite(*given)
os.pwrite = counted
sys.addaudithook(hook)
Admin.rekey(sys.argv[1], key=key, new_key=new_key)
print("done")
"""


class TestRekey:
    async def test_async_rekey_keeps_commits_in_the_wal(self, path, forks):
        program = (
            "import os, signal, sys\nfrom langchain_agentmem import AgentMemory\nmemory = AgentMemory(sys.argv[1])\n"
            "memory.conversation('late').add_user_message('the last heron')\nos.kill(os.getpid(), signal.SIGKILL)"
        )
        forks.run(program, str(path))
        await Admin.arekey(path, new_key=KEY)
        with AgentMemory(path, key=KEY) as memory:
            assert memory.conversation("late").messages[-1].content == "the last heron"
        assert readable(path.parent) == []


def test_rekey_of_an_open_database_is_refused(path):
    command = [sys.executable, "-c", OPEN, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "open\n"
        with pytest.raises(DatabaseBusy, match="is open in another program"):
            Admin.rekey(path, new_key=KEY)
        running.communicate()
    assert {each.name for each in path.parent.iterdir()} <= {"memory.db", "memory.db-wal", "memory.db-shm"}
    Admin.rekey(path, new_key=KEY)


class TestCrashes:
    @pytest.fixture
    def path(self, tmp_path) -> Path:
        (tmp_path / "folder").mkdir()
        with AgentMemory(tmp_path / "folder" / "memory.db") as memory:
            memory.conversation("c").add_messages([HumanMessage(f"heron {number}") for number in range(200)])
        return tmp_path / "folder" / "memory.db"

    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("key", "new_key"), [(None, KEY), (KEY, OTHER), (KEY, None)])
    def test_killed_rekey_leaves_one_complete_database(self, path, forks, key, new_key):
        if key is not None:
            Admin.rekey(path, new_key=key)
        held, original = digest(path, key), path.read_bytes()
        given = ["-" if each is None else each.hex() for each in (key, new_key)]
        point, ended, after = 1, False, set()
        while not ended:
            for each in path.parent.iterdir():
                each.unlink()
            path.write_bytes(original)
            run = forks.run(KILLED, str(path), *given, str(point))
            ended = run.returncode == 0
            assert run.returncode in {0, -signal.SIGKILL}, run.stderr
            now = opened_with(path, key, new_key)
            after.add(now == new_key)
            assert digest(path, now) == held
            if now == key:
                Admin.rekey(path, key=key, new_key=new_key)
            assert digest(path, new_key) == held
            assert {each.name for each in path.parent.iterdir() if each.name[0] != "."} == {"memory.db"}
            point += max(1, point // 2)
        assert after == {True, False}
        assert point > 20


def opened_with(path, *keys) -> bytes | None:
    """The key that opens a database, which is in its usual mode afterwards."""
    for key in keys:
        try:
            engine = SqliteEngine(str(path), DatabaseOptions.of({"key": key}))
        except DatabaseUnreadable:
            continue
        with closing(engine):
            assert engine._writer.execute("pragma journal_mode").fetchone()[0] == "wal"
            assert engine.problems() == []
        return key
    raise AssertionError("no key opens it")


class TestCommands:
    @pytest.fixture
    def agentmem(self, forks):
        return lambda *arguments, **environment: forks.run(COMMAND, *arguments, **environment)

    @pytest.mark.slow
    def test_key_commands_encrypt_change_and_decrypt(self, path, agentmem, tmp_path):
        (tmp_path / "key").write_text(f"x'{KEY.hex()}'\n")
        file, key, given = str(path), str(tmp_path / "key"), {"AGENTMEM_KEY": f"x'{KEY.hex()}'"}
        new, export = str(tmp_path / "new.db"), str(tmp_path / "export")
        for arguments, environment, code, told in (
            (("--key-file", key, "key", file, "encrypt"), {}, 0, "Remains of the old file are not encrypted"),
            (("search", file, "herons", "--everything"), {}, 3, "pass its key"),
            (("search", file, "herons", "--everything"), given, 0, "herons"),
            (("search", file, "herons", "--everything", "--key-file", key), {}, 0, "herons"),
            (("--key-command", f"cat {key}", "search", file, "herons", "--everything"), {}, 0, "herons"),
            (("doctor", file), given, 0, ""),
            (("export", file, export, "--encrypt"), given, 0, ""),
            (("import", new, export), {"AGENTMEM_EXPORT_KEY": given["AGENTMEM_KEY"]}, 0, ""),
            (("key", file, "change", "--json"), {**given, "AGENTMEM_NEW_KEY": "the heron's"}, 0, '"encrypted": true'),
            (("key", file, "decrypt"), given, 3, "The key does not fit"),
            (("key", file, "decrypt"), {"AGENTMEM_KEY": "the heron's"}, 0, "is no longer encrypted"),
            (("key", file, "encrypt"), {}, 2, "Set AGENTMEM_KEY, AGENTMEM_KEY_FILE or AGENTMEM_KEY_COMMAND"),
        ):
            run = agentmem(*arguments, **environment)
            assert (run.returncode, told in run.stdout + run.stderr) == (code, True), (arguments, run.stderr)
            assert "Traceback" not in run.stderr
        assert not Path(export).read_bytes().startswith(b"SQLite format")

    def test_no_option_takes_a_key_value(self):
        options = {
            option for command in build_cli().commands.values() for each in command.params for option in each.opts
        }
        assert {each for each in options if "key" in each or "pass" in each} == {"--key-file", "--key-command"}

    def test_typed_key_is_not_echoed(self, path, monkeypatch):
        monkeypatch.setattr(testing._NamedTextIOWrapper, "isatty", lambda _: True)
        run = invoked("key", str(path), "encrypt", input="hunter2\nhunter2\n")
        assert (run.exit_code, "hunter2" in run.output) == (0, False), run.output
        with closing(connect(path, EncryptionKey.of("hunter2"))) as connection:
            assert connection.execute("select count(*) from agentmem_migration").fetchone()[0]
