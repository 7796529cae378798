"""Streamable HTTP with the real command: tokens, concurrent clients and shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

import httpx2
import pytest
from langchain_agentmem_mcp import create_server, tokens_of

from langchain_agentmem import AgentMemory

from .conftest import asking
from .served import ALICE, BOB, INITIALIZE, TOKENS, listening, over_http, serving

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def test_concurrent_clients_see_only_their_namespace(url):
    async def work(client, name, fruit="pear"):
        ask = asking(client)
        for number in range(3):
            await ask("remember", text=f"{fruit} {number} of {name}")
            await ask("set_core_memory", key=f"key {number}", value=name)
            await ask("add_fact", subject=name, predicate="has", object=f"pear {number}")
        found = (await ask("search_memory", query=fruit, limit=100))["results"]
        core = (await ask("read_core_memory"))["entries"]
        return {each["text"].split()[-1] for each in found if each["kind"] == "record"}, {
            each["value"] for each in core
        }

    with AgentMemory(url) as memory:
        async with (
            listening(create_server(memory, tokens=tokens_of(TOKENS))) as address,
            over_http(address, ALICE) as alice,
            over_http(address, BOB, "legacy") as bob,
            over_http(address, ALICE, "legacy") as alice_too,
        ):
            both = await asyncio.gather(work(alice, "Alice"), work(bob, "Bob"), work(alice_too, "Alice", "fig"))
        assert both == [({"Alice"}, {"Alice"}), ({"Bob"}, {"Bob"}), ({"Alice"}, {"Alice"})]
        assert memory.layers("main", ("alice",)).core.get("key 1") == {"key 1": "Alice"}
        assert memory.layers("main", ("bob", "notes")).core.get("key 1") == {"key 1": "Bob"}
        assert len(memory.layers("main", ("alice",)).archival.all()) == 6
        assert memory.admin.verify().ok


async def test_missing_wrong_or_foreign_credentials_are_refused(memory):
    server = create_server(memory, tokens=tokens_of(TOKENS))
    async with listening(server) as address, httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:

        async def post(token, body=INITIALIZE, **more):
            headers = {} if token is None else {"Authorization": token}
            return await http.post(address, json=body, headers={**headers, **more})

        for token in (None, "", "Bearer", "Bearer wrong-0123456789abcdef", f"Basic {ALICE}", f"Bearer {ALICE}x"):
            refused = await post(token)
            assert refused.status_code == 401
            assert "alice" not in refused.text
        opened = await post(f"Bearer {ALICE}")
        assert opened.status_code == 200
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await post(f"Bearer {BOB}", listing, **session)).status_code == 404
        assert (await post(f"Bearer {ALICE}", listing, **session)).status_code == 200


async def test_cross_site_requests_are_refused_without_tokens(memory):
    async with listening(create_server(memory)) as address:
        async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
            assert (await http.post(address, json=INITIALIZE, headers={"Host": "evil.example"})).status_code == 421
            assert (
                await http.post(address, json=INITIALIZE, headers={"Origin": "http://evil.example"})
            ).status_code == 403
            assert (await http.post(address, content=b" " * 5_000_000)).status_code == 413
            assert (await http.post(address, content=b"{nonsense")).status_code == 400
        async with over_http(address) as client:
            assert await asking(client)("read_core_memory") == {"entries": []}


@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_signal_stops_the_server_with_connected_clients(tmp_path, told, code):
    database, tokens = str(tmp_path / "agent.db"), tmp_path / "tokens.json"
    tokens.write_text(TOKENS)
    options, more = ([], {"AGENTMEM_MCP_TOKENS": TOKENS}) if code == 143 else (["--tokens", str(tokens)], {})
    with serving(database, *options, **more) as (process, address):
        async with over_http(address, ALICE, "legacy") as client:
            await asking(client)("remember", text="A pear.")
            process.send_signal(told)
            assert await asyncio.to_thread(process.wait, 60) == code
        where = urlsplit(address)
        socket.create_server((where.hostname, where.port)).close()
        assert "Traceback" not in process.stderr.read()
    with AgentMemory(database) as memory:
        assert [each.content for each in memory.layers("main", ("alice",)).archival.all()] == ["A pear."]


class Waiting(AgentMemory):
    """A memory whose searches take until they are cancelled."""

    def __init__(self, url):
        super().__init__(url)
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def asearch(self, *args, **kwargs):
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelled_call_ends_and_others_continue(sqlite_url, mode):
    with Waiting(sqlite_url) as memory:
        async with listening(create_server(memory)) as address, over_http(address, mode=mode) as client:
            search = asyncio.create_task(client.call_tool("search_memory", {"query": "x"}))
            await memory.began.wait()
            await asking(client)("remember", text="A pear.")
            search.cancel()
            await memory.ended.wait()
            await asking(client)("remember", text="A fig.")
        assert [each.content for each in memory.layers("main").archival.all()] == ["A pear.", "A fig."]


async def test_cancelled_write_is_atomic(sqlite_url):
    with AgentMemory(sqlite_url) as memory, closing(sqlite3.connect(sqlite_url, isolation_level=None)) as other:
        async with listening(create_server(memory)) as address, over_http(address) as client:
            ask = asking(client)
            await ask("set_core_memory", key="first", value="1")
            other.execute("begin immediate")  # so that writes wait
            write = asyncio.create_task(client.call_tool("add_fact", {"subject": "a", "predicate": "b", "object": "c"}))
            await ask("read_core_memory")
            write.cancel()
            other.execute("rollback")
            await ask("set_core_memory", key="second", value="2")
        assert memory.layers("main").core.get() == {"first": "1", "second": "2"}
        assert [fact.text for fact in memory.facts("main").history("a")] in ([], ["a b c"])
        assert memory.admin.verify().ok
