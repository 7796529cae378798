"""No error, log or command shows the password of an address."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError, StorageError
from langchain_agentmem.importers.langchain_sources import open_source
from langchain_agentmem.upkeep.database_copy import restore
from langchain_agentmem.upkeep.integrity import diagnose
from tests.cli.commands import invoked

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


def error_text(call: Callable[[], Any]) -> str:
    """Return what an error says, and all that led to it."""
    with pytest.raises(AgentMemoryError) as caught:
        call()
    said, error = "", caught.value
    while error is not None:
        said += f"{error} {error!r} {error.args}"
        error = error.__cause__ or error.__context__
    return said


def leaked_pieces(text: str) -> list[str]:
    return [piece for piece in ("s3", "cret", "34cret") if piece in text]


COMMANDS = (
    "stats|{url}", "doctor|{url}", "search|{url}|x", "copy|{url}|target.db", "copy|source.db|{url}",
    "restore|{url}|source.db", "import-from|new.db|langgraph-saver|{url}",
)  # fmt: skip


class TestPasswords:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path, monkeypatch):
        """What is taken for the path of a file makes none in the folder of the tests."""
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("address", ADDRESSES)
    def test_errors_and_commands_hide_passwords(self, address, tmp_path, caplog):
        caplog.set_level(logging.DEBUG)
        (tmp_path / "source.db").touch()
        with AgentMemory() as memory:
            for number, secret in enumerate(SECRETS):
                url = address.format(secret)
                said = [
                    error_text(lambda url=url: AgentMemory(url, busy_timeout=1)),
                    error_text(lambda url=url: memory.admin.copy(url)),
                    error_text(lambda url=url: restore(tmp_path / "source.db", url)),
                    error_text(lambda url=url: open_source(url).__enter__()),
                    *(f"{finding.text} {finding.remedy}" for finding in diagnose(url)),
                ]
                command = COMMANDS[number % len(COMMANDS)].format(url=url).split("|")
                done = invoked(*command)
                assert done.exit_code, command
                assert leaked_pieces("\n".join([*said, done.output])) == [], url
        assert leaked_pieces(caplog.text) == []
        assert [file.name for file in tmp_path.iterdir()] == ["source.db"]

    def test_open_memory_hides_the_password(self, new_database, caplog):
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


def test_longest_timeout_still_reaches_the_server():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def turn_away():
            connection, _ = server.accept()
            connection.close()

        turning_away = threading.Thread(target=turn_away, daemon=True)
        turning_away.start()
        with pytest.raises(StorageError, match="closed the connection"):
            AgentMemory(f"postgresql://127.0.0.1:{server.getsockname()[1]}/x?sslmode=disable", timeout=7 * 24 * 3600)
        turning_away.join()
