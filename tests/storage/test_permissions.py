"""File permissions of a database, and access to read-only folders."""

import ctypes
import os
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseReadOnly, DatabaseUnreadable
from langchain_agentmem.upkeep.database_copy import restore


def without_privileges(function: Callable[[], Any]) -> Any:
    """What a function gives in a thread that permissions hold for, also where root runs the tests."""

    def run() -> Any:
        if sys.platform == "linux" and os.geteuid() == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the structure, and this thread
            sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, and the same for higher numbers
            assert libc.capget(header, sets) == 0
            for each in (0, 1):
                sets[each] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())
        return function()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def modes(folder: Path) -> dict[str, str]:
    """The modes of the files in a folder."""
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in sorted(folder.rglob("*")) if file.is_file()}


class TestNewFiles:
    @pytest.fixture(params=[0o000, 0o022, 0o277], ids=oct, autouse=True)
    def _umask(self, request: pytest.FixtureRequest) -> Iterator[None]:
        before = os.umask(request.param)
        yield
        os.umask(before)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        place = tmp_path / "memories"
        place.mkdir()
        place.chmod(0o755)
        return place

    def test_new_files_are_private(self, folder):
        for number, name in enumerate(("a.db", "a b%20#?.db", "file:{}/c.db", "file:{}/a%20b.db?mode=rwc"), 1):
            with AgentMemory(name.format(folder) if "{}" in name else folder / name) as memory:
                memory.conversation("c").add(role="user", content="hello")
                found = modes(folder)
            assert len(found) == number + 2  # the files, the log of the last one, and the index of the log
            assert set(found.values()) == {"0o600"}

    def test_derived_files_are_private(self, folder):
        seen: list[dict[str, str]] = []
        with AgentMemory(folder / "a.db") as memory:
            memory.conversation("c").add(role="user", content="hello")
            memory.audit.add(prompt="hello", reply="hello")
            memory.admin.backup(folder / "backup.db")
            memory.export(folder / "export.jsonl")
            memory.admin.copy(folder / "copy.db", progress=lambda _: seen.append(modes(folder)))
            memory.conversation("c").save_to_file(folder / "conversation.json")
            looking = {"progress": lambda _: seen.append(modes(folder))}
            restore(folder / "backup.db", folder / "restored.db", **looking)
            restore(folder / "export.jsonl", folder / "imported.db", **looking)
            restore(folder / "a.db", folder / "from log.db", **looking)
            seen.append(modes(folder))
        assert {name for each in seen for name in each} >= {
            "backup.db", "export.jsonl", "copy.db", "from log.db", "imported.db", "conversation.json",
        }  # fmt: skip
        assert [(name, mode) for each in seen for name, mode in each.items() if mode != "0o600"] == []

    def test_existing_file_keeps_its_mode(self, folder):
        for mode in ("ro", "rw"):
            with pytest.raises(DatabaseUnreadable):
                AgentMemory(f"file:{folder}/none.db?mode={mode}")
        assert modes(folder) == {}
        with AgentMemory(folder / "a.db") as memory:
            memory.conversation("c").add(role="user", content="hello")
        (folder / "a.db").chmod(0o640)
        (folder / "empty.db").touch()
        (folder / "empty.db").chmod(0o660)
        with AgentMemory(folder / "a.db") as memory, AgentMemory(folder / "empty.db") as empty:
            for each in (memory, empty):
                each.conversation("c").add(role="user", content="hello")
            found = modes(folder)
        for name, mode in (("a.db", "0o640"), ("empty.db", "0o660")):
            assert {found[f"{name}{suffix}"] for suffix in ("", "-wal", "-shm")} == {mode}
        with AgentMemory(folder / "a.db") as memory:
            memory.admin.copy(folder / "empty.db", force=True)
        assert modes(folder)["empty.db"] == "0o660"


def test_database_in_read_only_folder_opens_by_uri(tmp_path):
    place = tmp_path / "only to be read"
    place.mkdir()
    with AgentMemory(place / "a.db") as memory:
        memory.conversation("c").add_user_message("a quince")
    place.chmod(0o555)

    def read() -> None:
        with pytest.raises(DatabaseReadOnly, match="permissions of the file and its folder"):
            AgentMemory(place / "a.db")
        with AgentMemory(f"file:{str(place).replace(' ', '%20')}/a.db?immutable=1", read_only=True) as memory:
            assert (len(memory.search("quince", everything=True)), memory.admin.verify().ok) == (1, True)

    without_privileges(read)
    place.chmod(0o755)


def test_unreadable_file_is_an_error(tmp_path):
    path = tmp_path / "old" / "a.db"
    path.parent.mkdir()
    AgentMemory(path).close()
    path.chmod(0)
    with pytest.raises(DatabaseUnreadable, match="cannot be opened"):
        without_privileges(lambda: AgentMemory(path))
