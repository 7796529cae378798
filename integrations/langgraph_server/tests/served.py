"""`langgraph dev` as a process that ends with its test and reports every outside call."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

sleep = asyncio.sleep
CALLS = "calls-to-the-outside.txt"
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


def end_with_the_test() -> None:
    sys.stdin.read()  # the pipe closes, however the test ends
    os._exit(1)


async def not_so_long(seconds: float, *more: Any) -> Any:
    """`langgraph dev` looks for new runs twice a second; tests have many."""
    return await sleep(0.02 if seconds == 0.5 else seconds, *more)


def stay_inside(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"
    elif event == "socket.getaddrinfo":
        host = arguments[0] or "localhost"
    else:
        return
    if not str(host).startswith(LOOPBACK):
        with Path(CALLS).open("a") as calls:
            calls.write(f"{event} {host}\n")
        raise OSError(f"{host} is outside.")


if __name__ == "__main__":
    if os.environ.get("WITHOUT_UVLOOP"):
        sys.modules["uvloop"] = None  # type: ignore[assignment] - its connections are not Python's, and are not seen
    threading.Thread(target=end_with_the_test, daemon=True).start()
    asyncio.sleep = not_so_long
    sys.addaudithook(stay_inside)
    from langgraph_cli.cli import cli

    cli()
