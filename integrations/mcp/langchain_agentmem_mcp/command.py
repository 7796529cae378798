"""The command `agentmem-mcp`: opens a database, and serves its memory over stdin and stdout, or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

from langchain_agentmem import AgentMemory, InvalidInput, MissingExtra, StorageError
from langchain_agentmem_mcp.access import TOKENS_VARIABLE, Namespace, namespace_given, tokens_of
from langchain_agentmem_mcp.server import create_server

OWN_MACHINE = ("127.0.0.1", "::1", "localhost")
"""Addresses that nobody else can reach."""
GRACE = 3
"""Seconds that requests have to end when the server is stopped."""

ABOUT = f"""Serve the memory of langchain-agentmem to MCP clients, over stdin and stdout, or over streamable HTTP.

A client sees the namespace of the server and those below it, or, where there are tokens, the one below it that its
bearer token stands for. Tokens are a JSON object, in a file or in {TOKENS_VARIABLE}:

  {{"a-long-random-token": "alice", "another-long-token": "team/bob"}}

Exit codes: 0 the client went away, 2 wrong options, 3 the database cannot be opened, 130 interrupted, 143 terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What follows the command's name. Default: that of this process.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    try:
        address = None if options.http is None else _address(options.http)
        tokens = _tokens(options.tokens)
        _check(address, tokens)
        with AgentMemory(options.database, schema=options.schema, migrate=not options.read_only) as memory:
            server = create_server(
                memory,
                namespace=namespace_given(options.namespace),
                branch=options.branch,
                read_only=options.read_only,
                tokens=tokens,
            )
            if address is None:
                _end_when_told(memory)
                server.run()
            else:
                _serve(server, *address)
    except (InvalidInput, MissingExtra) as error:
        _say(f"agentmem-mcp: {error}")
        return 2
    except StorageError as error:
        _say(f"agentmem-mcp: {error}")
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentmem-mcp", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "database", metavar="DATABASE", help="a SQLite file, which is made if need be, or postgresql://…"
    )
    parser.add_argument(
        "--namespace", metavar="A/B", default="", help="whose memory (default: everything in the database)"
    )
    parser.add_argument(
        "--branch", default="main", help="the branch of core memory, records and facts (default: %(default)s)"
    )
    parser.add_argument(
        "--schema",
        metavar="NAME",
        default=os.environ.get("AGENTMEM_SCHEMA") or "agentmem",
        help="the schema of PostgreSQL in which everything is (default: AGENTMEM_SCHEMA, or agentmem)",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="leave out the tools that write, and make no database that is not there",
    )
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="serve http://HOST:PORT/mcp; port 0 takes a free one, which is told"
    )
    parser.add_argument(
        "--tokens", metavar="FILE", help=f"bearer tokens and their namespaces (default: {TOKENS_VARIABLE})"
    )
    return parser


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        raise InvalidInput(f"--http takes HOST:PORT, such as 127.0.0.1:8765, not {text!r:.100}.")
    return host, int(port)


def _tokens(path: str | None) -> Mapping[str, Namespace] | None:
    if path is None:
        text = os.environ.get(TOKENS_VARIABLE)
        return None if text is None else tokens_of(text)
    try:
        return tokens_of(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The file of tokens {path!r} cannot be read: {error}.") from error


def _check(address: tuple[str, int] | None, tokens: Mapping[str, Namespace] | None) -> None:
    """Check that it is safe to serve.

    Raises:
        InvalidInput: It is not.
    """
    if address is None and tokens is not None:
        raise InvalidInput(f"Tokens are for HTTP: add --http HOST:PORT, or take away --tokens and {TOKENS_VARIABLE}.")
    if address is not None and tokens is None and address[0] not in OWN_MACHINE:
        raise InvalidInput(f"Others can reach {address[0]!r}: give their tokens with --tokens, or serve 127.0.0.1.")


def _end_when_told(memory: AgentMemory) -> None:
    """Have signals end this process, though a thread waits for what the client sends, and cannot be interrupted."""

    def close(number: int) -> None:
        memory.close()
        os._exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: threading.Thread(target=close, args=(number,)).start())


def _serve(server: MCPServer[Any], host: str, port: int) -> None:
    """Serve HTTP until somebody stops it."""
    app = server.streamable_http_app(host=host)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InvalidInput(f"{host}:{port} cannot be served: {error.strerror or error}.") from error
    # uvicorn ends in good order on these signals, and then sends them again, so that whoever serves can end too.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: sys.exit(128 + number))
    with listening:
        shown = f"[{host}]" if ":" in host else host
        _say(f"Serving MCP on http://{shown}:{listening.getsockname()[1]}/mcp")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def _say(text: str) -> None:
    """Tell whoever started this; the client reads the other stream."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
