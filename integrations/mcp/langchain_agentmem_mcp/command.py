"""The command `agentmem-mcp`: serves the memory of a database over stdin and stdout, or over HTTP."""

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
from langchain_agentmem_mcp.access import TOKENS_VARIABLE, Namespace, parse_namespace, tokens_of
from langchain_agentmem_mcp.server import create_server

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
"""Addresses that other machines cannot reach."""
SHUTDOWN_TIMEOUT = 3
"""The seconds that requests have to finish when the server is stopped."""

DESCRIPTION = f"""Serve the memory of langchain-agentmem to MCP clients, over stdin and stdout, or over streamable HTTP.

Without tokens, a client can reach the namespace of the server and those below it. With tokens, a client can reach only
the namespace of its bearer token and those below it. Tokens are a JSON object, in a file or in {TOKENS_VARIABLE}:

  {{"a-long-random-token": "alice", "another-long-token": "team/bob"}}

Exit codes: 0 client disconnected, 2 wrong options, 3 the database cannot be opened, 130 interrupted, 143 terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command-line arguments. Default: those of this process.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    try:
        address = None if options.http is None else _parse_address(options.http)
        tokens = _read_tokens(options.tokens)
        _check_safety(address, tokens)
        with AgentMemory(options.database, schema=options.schema, migrate=not options.read_only) as memory:
            server = create_server(
                memory,
                namespace=parse_namespace(options.namespace),
                branch=options.branch,
                read_only=options.read_only,
                tokens=tokens,
            )
            if address is None:
                _exit_on_signals(memory)
                server.run()
            else:
                _serve(server, *address)
    except (InvalidInput, MissingExtra) as error:
        _report(f"agentmem-mcp: {error}")
        return 2
    except StorageError as error:
        _report(f"agentmem-mcp: {error}")
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentmem-mcp",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "database", metavar="DATABASE", help="a SQLite file, which is created if missing, or postgresql://…"
    )
    parser.add_argument(
        "--namespace",
        metavar="A/B",
        default="",
        help="the namespace of the server (default: everything in the database)",
    )
    parser.add_argument(
        "--branch", default="main", help="the branch of core memory, records and facts (default: %(default)s)"
    )
    parser.add_argument(
        "--schema",
        metavar="NAME",
        default=os.environ.get("AGENTMEM_SCHEMA") or "agentmem",
        help="the PostgreSQL schema (default: AGENTMEM_SCHEMA, or agentmem)",
    )
    parser.add_argument(
        "--read-only", action="store_true", help="leave out the tools that write, and do not create a missing database"
    )
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="serve http://HOST:PORT/mcp; port 0 selects a free port and prints it"
    )
    parser.add_argument(
        "--tokens", metavar="FILE", help=f"a file of bearer tokens and their namespaces (default: {TOKENS_VARIABLE})"
    )
    return parser


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        raise InvalidInput(f"--http must be HOST:PORT, such as 127.0.0.1:8765, not {text!r:.100}.")
    return host, int(port)


def _read_tokens(path: str | None) -> Mapping[str, Namespace] | None:
    if path is None:
        text = os.environ.get(TOKENS_VARIABLE)
        return None if text is None else tokens_of(text)
    try:
        return tokens_of(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The token file {path!r} cannot be read: {error}.") from error


def _check_safety(address: tuple[str, int] | None, tokens: Mapping[str, Namespace] | None) -> None:
    """Check that the tokens fit the address.

    Raises:
        InvalidInput: Tokens are given without HTTP, or other machines could connect without a token.
    """
    if address is None and tokens is not None:
        raise InvalidInput(f"Tokens require HTTP: add --http HOST:PORT, or remove --tokens and {TOKENS_VARIABLE}.")
    if address is not None and tokens is None and address[0] not in LOOPBACK_HOSTS:
        raise InvalidInput(f"Other machines can reach {address[0]!r}. Pass --tokens, or serve 127.0.0.1.")


def _exit_on_signals(memory: AgentMemory) -> None:
    """Let signals end this process. Its thread waits for input and cannot be interrupted otherwise."""

    def close(number: int) -> None:
        memory.close()
        os._exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: threading.Thread(target=close, args=(number,)).start())


def _serve(server: MCPServer[Any], host: str, port: int) -> None:
    """Serve HTTP until the process is stopped."""
    app = server.streamable_http_app(host=host)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InvalidInput(f"{host}:{port} cannot be served: {error.strerror or error}.") from error
    # uvicorn shuts down on these signals and then raises them again, so that this process ends too.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: sys.exit(128 + number))
    with listening:
        url_host = f"[{host}]" if ":" in host else host
        _report(f"Serving MCP on http://{url_host}:{listening.getsockname()[1]}/mcp")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=SHUTDOWN_TIMEOUT)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def _report(text: str) -> None:
    """Write to stderr; the client reads stdout."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
