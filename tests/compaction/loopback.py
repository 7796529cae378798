"""A server on this machine that acts as the APIs of OpenAI and Anthropic, for their real clients.

    with loopback(limit_tokens=4_000, script=lambda request: {"content": "Hello."}) as server:
        model = ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test")
        model.invoke("Hi")
    assert len(server.requests) == 1

It counts what it is sent, and refuses, in the forms of the real APIs, a context that is too large, a payload that is
too large, and messages that the provider does not accept. `provider_apis` has what differs between them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

from langchain_agentmem.language_models.tokens import TokenCounter

from .provider_apis import APIS, ChatCompletions, Refusal

Script = Callable[[dict[str, Any]], "dict[str, Any] | str"]
"""From a request to the assistant's message, or its text."""

TOO_LARGE = b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n\
<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"


def calls(*made: tuple[str, str, Mapping[str, Any]], content: str | None = None) -> dict[str, Any]:
    """The message of an assistant that calls tools, each given as id, name and arguments."""
    functions = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for key, name, arguments in made
    ]
    return {"content": content, "tool_calls": functions}


class Loopback:
    """The server's state, for assertions.

    Attributes:
        url: What OpenAI's client is given as `base_url`.
        origin: What the others are given.
        requests: Every request that was answered or refused, in the form of a chat completion, the oldest first.
        refusals: Of each refusal its status and its code, or its message where it has no code.
        sizes: The tokens of each request that could be counted.
    """

    def __init__(self, limit_tokens: int, limit_bytes: int | None, script: Script | None) -> None:
        self.limit_tokens = limit_tokens
        self.limit_bytes = limit_bytes
        self.script = script or (lambda request: "Well.")
        self.url = self.origin = ""
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[tuple[int, str]] = []
        self.sizes: list[int] = []
        self.failures: list[Exception] = []
        self.lock = threading.Lock()
        self.counter = TokenCounter("estimate")

    def reply(self, api: ChatCompletions, request: dict[str, Any], length: int) -> tuple[int, Any]:
        """Status and body of the answer."""
        with self.lock:
            heard = api.heard(request)
            self.requests.append(heard)
            if self.limit_bytes is not None and length > self.limit_bytes:
                self.refusals.append((413, "Request Entity Too Large"))
                return 413, TOO_LARGE
            if problems := api.problems(request):
                return self.refused(api.invalid(problems[0]))
            tools = [tool["function"] for tool in heard.get("tools") or ()]
            size = self.counter.count(heard["messages"], tools=tools)
            self.sizes.append(size)
            if size > self.limit_tokens:
                return self.refused(api.overflow(self.limit_tokens, size, self.counter.count(heard["messages"])))
            said = self.script(heard)
            message = {"content": said} if isinstance(said, str) else said
            return 200, api.answer(message, size, self.counter.count_message({"role": "assistant", **message}))

    def refused(self, refusal: Refusal) -> tuple[int, Any]:
        """A refusal, which is remembered."""
        self.refusals.append((refusal.status, refusal.code))
        return refusal.status, refusal.body


@contextmanager
def loopback(
    *, limit_tokens: int = 128_000, limit_bytes: int | None = None, script: Script | None = None
) -> Iterator[Loopback]:
    """Serve while the block runs.

    Args:
        limit_tokens: More tokens than this, of messages and tools, are refused.
        limit_bytes: A longer payload than this is refused with status 413, as a gateway in front of the API does.
        script: Answers; one request at a time. Default: says "Well.".

    Yields:
        The server.

    Raises:
        Exception: What the script raised first. The client was told status 500.
    """
    server = Loopback(limit_tokens, limit_bytes, script)
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"loopback": server}))
    http.daemon_threads = True
    server.origin = f"http://127.0.0.1:{http.server_address[1]}"
    server.url = f"{server.origin}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
        if server.failures:
            raise server.failures[0]


def chat_client(server: Loopback) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test", max_retries=0)


def anthropic_client(server: Loopback) -> ChatAnthropic:
    return ChatAnthropic(base_url=server.origin, api_key="x", model="claude-test", max_retries=0, max_tokens=1_000)


CLIENTS = [chat_client, anthropic_client]
"""LangChain's real clients of both APIs."""


class _Handler(BaseHTTPRequestHandler):
    """One request a connection: a client that keeps connections would keep this server from ending."""

    loopback: Loopback
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        payload = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(payload)
        path = self.path.partition("?")[0]
        api = next((api for api in APIS if api.path.search(path)), None)
        if api is None:
            self.answer(404, {"error": {"message": f"Unknown request URL: POST {self.path}.", "code": "unknown_url"}})
            return
        try:
            status, body = self.loopback.reply(api, request, len(payload))
        except Exception as error:  # noqa: BLE001 - it is raised where the test ends
            self.loopback.failures.append(error)
            status, body = 500, {"error": {"message": str(error), "type": "server_error", "param": None, "code": None}}
        if request.get("stream") and status == 200:
            self.stream(api.stream(request, body))
        else:
            self.answer(status, body)

    def answer(self, status: int, body: Any) -> None:
        page = isinstance(body, bytes)
        content = body if page else json.dumps(body).encode()
        self.begin(status, "text/html" if page else "application/json", length=len(content))
        self.wfile.write(content)

    def stream(self, events: Iterable[Mapping[str, Any] | str]) -> None:
        self.begin(200, "text/event-stream")
        for event in events:
            if isinstance(event, Mapping) and "type" in event:
                self.wfile.write(f"event: {event['type']}\n".encode())
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"data: {data}\n\n".encode())

    def begin(self, status: int, kind: str, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
