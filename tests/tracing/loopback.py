"""A local server that implements as much of LangSmith's ingestion as its client needs.

    with LangSmith() as server:
        threading.Thread(target=server.serve_forever).start()
        client = langsmith.Client(api_url=server.url, api_key="x")

It keeps every run that it is sent, put together of its parts as LangSmith does: the beginning of a run is posted, its
end is a patch. It can be told to be ill: to refuse everything, to answer nothing, or to hang up.
"""

from __future__ import annotations

import json
import threading
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith import Client

from .trees import Shape

Illness = Literal["refuses", "hangs", "hangs up"]


class LangSmith(ThreadingHTTPServer):
    """The server.

    Attributes:
        runs: Every run that came, by id, as it is now.
        asked: Whether any request came.
        ill: What is wrong with it, if anything.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Ingestion)
        self.runs: dict[str, dict[str, Any]] = {}
        self.asked = threading.Event()
        self.ill: Illness | None = None
        self._healthy = threading.Event()
        self._keeping = threading.Lock()
        self._ended: dict[str, set[str]] = {}  # what of each run was told when it had ended

    @property
    def url(self) -> str:
        """The endpoint for a client."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def roots(self) -> list[dict[str, Any]]:
        """The runs that are beneath no other, in their order."""
        return self.children(None)

    @property
    def shapes(self) -> list[Shape]:
        """The trees, as (name, [children])."""
        return [self._shape(run) for run in self.roots]

    def children(self, of: str | None) -> list[dict[str, Any]]:
        """The runs beneath another, in their order."""
        found = [run for run in self.runs.values() if run.get("parent_run_id") == of]
        return sorted(found, key=lambda run: run["dotted_order"])

    def run(self, name: str) -> dict[str, Any]:
        """The only run of this name."""
        (found,) = [run for run in self.runs.values() if run["name"] == name]
        return found

    def keep(self, run_id: str, told: dict[str, Any], *, ended: bool) -> None:
        """Put together what is told of a run when it begins and when it has ended, whichever comes first.

        The client sends from several threads when it has much to send.
        """
        with self._keeping:
            run, last = self.runs.setdefault(run_id, {"id": run_id}), self._ended.setdefault(run_id, set())
            if ended:
                last.update(told)
            run.update({name: value for name, value in told.items() if ended or name not in last})

    def let_go(self) -> None:
        """Let those go on who hang."""
        self._healthy.set()

    def hang(self) -> None:
        """Wait until it is let go."""
        self._healthy.wait(60)

    def _shape(self, run: dict[str, Any]) -> Shape:
        return (run["name"], [self._shape(child) for child in self.children(run["id"])])


def arrive(client: Client) -> None:
    """Wait until everything that the client was given has arrived."""
    wait_for_all_tracers()
    client.flush()


class _Ingestion(BaseHTTPRequestHandler):
    server: LangSmith

    def do_GET(self) -> None:
        self._answer(b"{}")

    def do_POST(self) -> None:
        self.server.asked.set()
        form = self._form()
        if self.server.ill == "hangs":
            self.server.hang()
        if self.server.ill == "hangs up":
            self.close_connection = True
            return
        if self.server.ill == "refuses":
            self._answer(b"{}", 500)
            return
        self._keep(form)
        self._answer(b"{}", 202)

    def _form(self) -> bytes:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        if self.headers.get("Transfer-Encoding") != "chunked":
            return head + self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return head + body

    def _keep(self, form: bytes) -> None:
        """Each part is named "post.<id>" or "patch.<id>", with the name of a field where it is only that."""
        for part in message_from_bytes(form, policy=policy.HTTP).iter_parts():
            kind, run_id, *field = part.get_param("name", header="Content-Disposition").split(".")
            value = json.loads(part.get_payload(decode=True))
            self.server.keep(run_id, {field[0]: value} if field else value, ended=kind == "patch")

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass
