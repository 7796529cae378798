"""How a database is named: what is understood, what is refused, and that no password is shown."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, ConversationMemory
from langchain_agentmem.checkpoints.saver_import import open_source
from langchain_agentmem.cli.app import app
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, StorageError
from langchain_agentmem.storage.postgres import address_of
from langchain_agentmem.upkeep.database_copy import restore
from langchain_agentmem.upkeep.database_report import diagnose

pytestmark = [pytest.mark.bare, pytest.mark.sqlite_suffices]

SECRETS = ("s3/cret", "s3@cret", "s3:cret", "s3#cret", "s3?cret", "s3%zzcret", "s3 cret", "12/34cret", "s3&cret=")
ADDRESSES = (
    "postgresql://ada:{}@127.0.0.1:1/db",
    "postgresql://ada:{}@[::1",
    "postgresql://ada@corp.example:{}@127.0.0.1:1/db",
    "postgresql://:{}@127.0.0.1:port/db",
    "postgresql://127.0.0.1:1/db?user=ada&password={}",
    "postgresql://127.0.0.1:1/db?sslpassword={}&connect_timeout=1",
    "postgresql:/ada:{}@127.0.0.1:1/db",
    "POSTGRESQL://ada:{}@127.0.0.1:1/db",
    "postgresql+psycopg://ada:{}@127.0.0.1:1/db",
    "mysql://ada:{}@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 user=ada password={} dbname=db",
    "host=127.0.0.1 port=1 password='{}' nonsense=1",
    "password={}",
)


def whole_chain(error: BaseException | None) -> Iterator[str]:
    """What an error says, and all that led to it."""
    while error is not None:
        yield from (str(error), repr(error), *map(repr, error.args))
        error = error.__cause__ or error.__context__


def told(call: Callable[[], Any]) -> str:
    with pytest.raises(AgentMemoryError) as caught:
        call()
    return "\n".join(whole_chain(caught.value))


def pieces(secret: str, text: str) -> list[str]:
    return [piece for piece in ("s3", "cret", "34cret") if piece in text]


class TestPasswords:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path, monkeypatch):
        """What is taken for the path of a file makes none in the folder of the tests."""
        monkeypatch.chdir(tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("address", ADDRESSES)
    def test_no_error_tells_a_password(self, address, tmp_path, caplog):
        caplog.set_level(logging.DEBUG)
        (tmp_path / "source.db").touch()
        with AgentMemory() as memory:
            for secret in SECRETS:
                url = address.format(secret)
                said = [
                    told(lambda url=url: AgentMemory(url, busy_timeout=1)),
                    told(lambda url=url: memory.admin.copy(url)),
                    told(lambda url=url: restore(tmp_path / "source.db", url)),
                    told(lambda url=url: open_source(url).__enter__()),
                    *(f"{finding.text} {finding.remedy}" for finding in diagnose(url)),
                ]
                assert pieces(secret, "\n".join(said)) == []
        assert pieces("s3cret", caplog.text) == []
        assert [file.name for file in tmp_path.iterdir()] == ["source.db"]

    @pytest.mark.slow
    @pytest.mark.parametrize("address", [ADDRESSES[0], ADDRESSES[-3]])
    @pytest.mark.parametrize(
        "command",
        [
            ("stats",), ("doctor",), ("search",), ("copy",), ("copy", "source.db"), ("restore",),
            ("import-from", "new.db", "langgraph-saver"),
        ],
        ids=" ".join,
    )  # fmt: skip
    def test_no_command_prints_a_password(self, address, command, tmp_path):
        with AgentMemory("source.db") as memory:
            memory.conversation("c").add(role="user", content="hello")
        for secret in SECRETS:
            more = {"copy": ("target.db",), "restore": ("source.db",), "search": ("x",)}.get(" ".join(command), ())
            done = CliRunner().invoke(app, [*command, address.format(secret), *more])
            assert done.exit_code
            assert pieces(secret, done.output) == []

    def test_no_part_of_an_open_memory_shows_the_password(self, new_database, caplog):
        caplog.set_level(logging.DEBUG)
        url = new_database("postgres")
        login = url.split("://")[1].split("@")[0]
        secret = url.replace(f"{login}@", f"{login.split(':')[0]}:s3cret%2F@", 1)
        events: list[Any] = []
        with AgentMemory(secret, hooks=[events.append]) as memory:
            chat = memory.conversation("c")
            chat.add(role="user", content="hello")
            parts = [
                memory, memory.database, memory.database.engine, memory.checkpointer, memory.store, memory.audit, chat,
                memory.layers("main"), memory.facts("main"), memory.byte_store(("a",)), memory.session("s"),
                memory.admin.stats(), memory.admin.verify(), memory.retriever(), *memory.tools("main"),
                memory.database.tracing.metadata,
            ]  # fmt: skip
            memory.settle()
        shown = "\n".join(map(repr, [*parts, *events])) + caplog.text
        assert "s3cret" not in shown


class TestUnescapedCharacters:
    @pytest.mark.parametrize("secret", ["s3/cret", "s3@cret", "s3%zzcret", "s3 cret"])
    def test_the_error_says_how_to_write_them(self, secret):
        with pytest.raises(InvalidInput, match=r"ada:\*\*\*@host.*%40 for @"):
            AgentMemory(f"postgresql://ada:{secret}@host/db")

    def test_what_has_no_password_is_told_as_the_driver_does(self):
        with pytest.raises(InvalidInput, match="nonsense"):
            AgentMemory("postgresql://host/db?nonsense=1")

    @pytest.mark.parametrize(
        "rest", ["host/a%40b", "host:5432,other:5433/db", "/db?host=/var/run", "host/db?application_name=a@b"]
    )
    def test_what_is_escaped_is_understood(self, rest):
        assert address_of(f"postgresql://ada:p%40w@{rest}").startswith("postgresql://ada:***@")


class TestConnectionStrings:
    def test_one_opens_postgresql_and_makes_no_file(self, new_database, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        dsn = psycopg.conninfo.make_conninfo(new_database("postgres"))
        assert "host=" in dsn
        with AgentMemory(dsn) as memory:
            assert memory.database.engine.dialect == "postgres"
            memory.conversation("c").add(role="user", content="hello")
        assert [message.content for message in ConversationMemory(dsn, "c").messages] == ["hello"]
        with AgentMemorySaver.from_conn_string(dsn) as saver, AgentMemoryStore.from_conn_string(dsn) as store:
            assert "***" not in repr(saver) + repr(store)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.slow
    def test_a_copy_goes_to_one(self, new_database, tmp_path):
        dsn = psycopg.conninfo.make_conninfo(new_database("postgres"))
        with AgentMemory(tmp_path / "a.db") as memory:
            memory.conversation("c").add(role="user", content="hello")
            memory.admin.copy(dsn)
        with AgentMemory(dsn) as copied:
            assert len(copied.conversation("c")) == 1

    def test_a_port_that_nobody_listens_on_is_an_error_of_ours(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(StorageError, match=str(port)):
                AgentMemory(f"host=127.0.0.1 port={port} user=ada password=s3cret dbname=db")
        assert list(tmp_path.iterdir()) == []

    def test_a_file_may_still_be_called_so(self, tmp_path):
        path = tmp_path / "host=a.db"
        with AgentMemory(path) as memory:
            memory.conversation("c").add(role="user", content="hello")
        assert path.exists()


class TestPathsOfNoFile:
    @pytest.mark.parametrize(
        "path",
        [
            "a" * 5_000, "aaaa/" * 2_000 + "a.db", "\ud800.db", "a\0b", b"a.db", Path("\udcff\ud800.db"), "",
            5, None, ["a.db"], "file:\ud800.db", "file:" + "a" * 5_000, "\ud800" * 5_000,
        ],
        ids=lambda path: repr(path)[:30],
    )  # fmt: skip
    def test_an_error_of_ours_says_so(self, path, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        target = tmp_path / "a.db"
        for call in (
            lambda: AgentMemory(path),
            lambda: ConversationMemory(path, "c"),
            lambda: AgentMemorySaver.from_conn_string(path),
            lambda: AgentMemoryStore.from_conn_string(path),
        ):
            with pytest.raises(AgentMemoryError) as caught:
                call().close()
            assert len(str(caught.value)) < 1_000
        with AgentMemory(target) as memory:
            for write in (memory.admin.backup, memory.export, memory.admin.copy, memory.import_):
                with pytest.raises(AgentMemoryError) as caught:
                    write(path)
                assert len(str(caught.value)) < 1_000
        with pytest.raises(AgentMemoryError):
            restore(path, tmp_path / "b.db")
        with pytest.raises(AgentMemoryError):
            restore(target, path)
