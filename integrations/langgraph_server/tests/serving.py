"""A real server for tests: started on a free port, and always stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
from langgraph_sdk import get_client, get_sync_client

from .served import CALLS

APP = Path(__file__).parent.parent / "app"
QUIET = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true", "LANGSMITH_TRACING": "false"}
"""The environment in which `langgraph dev` makes no network requests."""
TURN = {"configurable": {"agentmem_namespace": ["ada"]}}


class Server:
    """One process of `langgraph dev`.

    Args:
        folder: Where it runs.
        **env: More variables of its environment.
    """

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self._env = folder, env
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, *, uvloop: bool = False) -> None:
        """Start it, and wait until it answers.

        Args:
            uvloop: Whether it runs on the loop that it would choose. Without, every call to the outside is seen.
        """
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LANGSMITH", "LANGCHAIN", "LANGGRAPH", "AGENTMEM"))
        }
        more = {"LSD_CACHE_PACKAGES_DISTRIBUTIONS": "false"}  # a second less to start
        if not uvloop:
            more["WITHOUT_UVLOOP"] = "1"
        served = str(Path(__file__).parent / "served.py")
        with (self.folder / "log.txt").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, served, "dev", "--no-browser", "--no-reload"),
                    *("--port", str(self.port), "--n-jobs-per-worker", "8"),
                ],
                cwd=self.folder,
                env={**inherited, **QUIET, **more, **self._env},
                stdin=subprocess.PIPE,  # it ends when this is closed, as it is however we end
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self) -> None:
        until = time.monotonic() + 120
        while self._process.poll() is None and time.monotonic() < until:
            try:
                if httpx.get(f"{self.url}/ok").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError(f"The server did not start:\n{self.log()[-4000:]}")

    def log(self) -> str:
        """Return its output."""
        return (self.folder / "log.txt").read_text()

    def calls(self) -> str:
        """Whom it called that is not on this machine."""
        path = self.folder / CALLS
        return path.read_text() if path.exists() else ""

    def client(self, **headers: str) -> Any:
        return get_sync_client(url=self.url, headers=headers)

    def aclient(self, **headers: str) -> Any:
        return get_client(url=self.url, headers=headers)

    def stop(self) -> int:
        """Stop it as Ctrl+C does, and give its exit code. Its port is free again."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process.stdin.close()
        with socket.create_server(("127.0.0.1", self.port)):
            return self._process.returncode

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def said(text: str) -> dict[str, Any]:
    """The input of a turn."""
    return {"messages": [{"role": "user", "content": text}]}


def texts(values: Mapping[str, Any]) -> list[str]:
    """Return the texts of the messages of a state."""
    return [message["content"] for message in values.get("messages", [])]


def tells(answer: str, text: str) -> bool:
    """Return whether an answer has a line of memory with a text, after its source."""
    return any(line.startswith("- ") and line.endswith(text) for line in answer.splitlines())


def ask(client: Any, thread_id: str, text: str, **options: Any) -> str:
    """Say something, and give the answer."""
    options.setdefault("config", TURN)
    return texts(client.runs.wait(thread_id, "agent", input=said(text), **options))[-1]
