"""The real command as a process, and its clients."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

COMMAND = str(Path(sys.executable).with_name("agentmem-mcp"))
ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdefgh"
TOKENS = f'{{"{ALICE}": "alice", "{BOB}": ["bob", "notes"]}}'

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTMEM_MCP", "AGENTMEM_DATA"))}
    return {**kept, **more}


def over_stdio(*options, mode="auto"):
    return Client(StdioServerParameters(command=COMMAND, args=list(options), env=environment()), mode=mode)


@asynccontextmanager
async def over_http(url, token=None, mode="auto"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@contextmanager
def serving(*options, **more):
    """The command with --http on a free port: its process, and its URL."""
    command = [COMMAND, "--http", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**more))
    try:
        line = process.stderr.readline()
        assert line.startswith("Serving MCP on "), line + process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def listening(server):
    """A server on loopback, within this process; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=3)
        serving = uvicorn.Server(config)
        serving.capture_signals = nullcontext  # they are pytest's
        running = asyncio.create_task(serving.serve(sockets=[taken]))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        serving.should_exit = True
        await running
