"""Who may read and write the files of a database, and what works where only reading is allowed."""

import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseReadOnly, DatabaseUnreadable
from langchain_agentmem.storage import engine
from langchain_agentmem.upkeep.admin import diagnose
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

    def test_only_their_owner_may_read_them(self, folder):
        for number, name in enumerate(("a.db", "a b%20#?.db", "file:{}/c.db", "file:{}/a%20b.db?mode=rwc"), 1):
            with AgentMemory(name.format(folder) if "{}" in name else folder / name) as memory:
                memory.conversation("c").add(role="user", content="hello")
                found = modes(folder)
            assert len(found) == number + 2  # the files, the log of the last one, and the index of the log
            assert set(found.values()) == {"0o600"}

    def test_neither_may_others_read_what_is_made_of_them(self, folder):
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

    def test_a_file_that_is_there_keeps_its_mode_and_none_is_made_unasked(self, folder):
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a database that may not be written."""
    place = tmp_path / "only to be read"
    place.mkdir()
    with AgentMemory(place / "a.db") as memory:
        memory.conversation("c").add_messages([HumanMessage(f"quince number {number}") for number in range(20)])
        memory.layers("main").core.set("name", "Ana")
        memory.store.put(("a",), "k", {"text": "an item"})
    place.chmod(0o555)
    yield place
    place.chmod(0o755)


@pytest.mark.parametrize("mode", [0o644, 0o444], ids=["the folder", "the folder and the file"])
class TestFoldersThatMayNotBeWritten:
    @pytest.fixture(autouse=True)
    def _mode(self, folder: Path, mode: int) -> None:
        (folder / "a.db").chmod(mode)

    def test_a_database_in_one_is_read(self, folder):
        def read(url: str, number: int) -> list[Any]:
            with AgentMemory(url) as memory:
                memory.admin.backup(folder.parent / f"backup{number}.db")
                memory.export(folder.parent / "all.jsonl")
                return [
                    len(memory.conversation("c")), len(memory.search("quince", limit=5)),
                    memory.layers("main").core.get("name"), memory.store.get(("a",), "k").value["text"],
                    memory.admin.verify().ok, memory.admin.stats()["messages"],
                ]  # fmt: skip

        escaped = str(folder).replace(" ", "%20")
        for number, url in enumerate((f"{folder}/a.db", f"file:{escaped}/a.db?mode=ro", f"file:{escaped}/a.db")):
            found = without_privileges(lambda url=url, number=number: read(url, number))
            assert found == [20, 5, {"name": "Ana"}, "an item", True, 20], url
            with AgentMemory(folder.parent / f"backup{number}.db") as backup:
                assert len(backup.conversation("c")) == 20
        assert list(folder.iterdir()) == [folder / "a.db"]
        found = {finding.name: finding for finding in without_privileges(lambda: list(diagnose(str(folder / "a.db"))))}
        assert (found["permissions"].level, found["verify"].level) == ("note", "ok")

    def test_to_write_is_an_error_that_says_why(self, folder):
        def write() -> None:
            with AgentMemory(folder / "a.db") as memory:
                chat = memory.conversation("c")
                for change in (
                    lambda: chat.add(role="user", content="more"), chat.clear, lambda: memory.erase(namespace=()),
                    lambda: memory.store.put(("a",), "k", {}), lambda: memory.layers("main").core.set("name", "Eva"),
                ):  # fmt: skip
                    with pytest.raises(DatabaseReadOnly, match="permissions of the file and of its folder"):
                        change()
                assert len(chat) == 20

        without_privileges(write)

    def test_what_only_the_log_holds_is_not_overlooked(self, folder):
        path = folder / "a.db"
        folder.chmod(0o755)
        path.chmod(0o644)
        with AgentMemory(path) as memory:
            memory.conversation("c").add(role="user", content="in the log")
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{path}{suffix}", f"{folder.parent / 'b.db'}{suffix}")
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{folder.parent / 'b.db'}{suffix}", f"{path}{suffix}")
            Path(f"{path}{suffix}").chmod(0o444)
        folder.chmod(0o555)
        with pytest.raises(DatabaseUnreadable, match="keeps its log there"):
            without_privileges(lambda: AgentMemory(path))


class TestFilesThatMayNotBeRead:
    def test_the_error_says_so_and_an_older_schema_is_refused_too(self, tmp_path, monkeypatch):
        path = tmp_path / "old" / "a.db"
        path.parent.mkdir()
        AgentMemory(path).close()
        path.chmod(0)
        with pytest.raises(DatabaseUnreadable, match="cannot be opened"):
            without_privileges(lambda: AgentMemory(path))
        path.chmod(0o600)
        every, later = engine.migrations, engine.Migration("0999_later", "create table later (id integer);")
        monkeypatch.setattr(engine, "migrations", lambda dialect: (*every(dialect), later))
        path.parent.chmod(0o555)
        with pytest.raises(DatabaseReadOnly):
            without_privileges(lambda: AgentMemory(path))
        path.parent.chmod(0o755)
