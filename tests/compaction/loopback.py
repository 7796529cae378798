"""A server on this machine that acts as OpenAI's chat completions, for a real client.

    with loopback(limit_tokens=4_000, script=lambda request: {"content": "Hello."}) as server:
        model = ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test")
        model.invoke("Hi")
    assert len(server.requests) == 1

It counts what it is sent, and refuses, in the forms of the real API, a context that is too large, a payload that is too
large, and messages that some provider does not accept.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.testing import provider_problems

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
    """The server, as a test sees it.

    Attributes:
        url: What a client is given as `base_url`.
        requests: Every request that was answered or refused, as it came, the oldest first.
        refusals: Of each refusal its status and its code, or its message where it has no code.
        sizes: The tokens of each request that could be counted.
    """

    def __init__(self, limit_tokens: int, limit_bytes: int | None, script: Script | None) -> None:
        self.limit_tokens = limit_tokens
        self.limit_bytes = limit_bytes
        self.script = script or (lambda request: "Well.")
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[tuple[int, str]] = []
        self.sizes: list[int] = []
        self.failures: list[Exception] = []
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.counter = TokenCounter("estimate")

    @property
    def answered(self) -> int:
        """How many requests were answered."""
        return len(self.requests) - len(self.refusals)

    def refuse(self, status: int, error: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """A refusal in OpenAI's form."""
        body = {"message": "", "type": "invalid_request_error", "param": None, "code": None, **error}
        self.refusals.append((status, body["code"] or body["message"]))
        return status, {"error": body}

    def reply(self, request: dict[str, Any], length: int) -> tuple[int, Any]:
        """Status and body of the answer."""
        with self.lock:
            self.requests.append(request)
            if self.limit_bytes is not None and length > self.limit_bytes:
                self.refusals.append((413, "Request Entity Too Large"))
                return 413, TOO_LARGE
            if problems := provider_problems(request.get("messages") or []):
                return self.refuse(400, {"message": problems[0], "param": "messages"})
            tools = [tool["function"] for tool in request.get("tools") or ()]
            size = self.counter.count(request["messages"], tools=tools)
            self.sizes.append(size)
            if size > self.limit_tokens:
                in_messages = self.counter.count(request["messages"])
                return self.refuse(400, overflow(self.limit_tokens, in_messages, size - in_messages))
            return 200, self.completion(request, size)

    def completion(self, request: dict[str, Any], size: int) -> dict[str, Any]:
        """What the script says, as a completion."""
        said = self.script(request)
        message = {"role": "assistant", "content": None, **({"content": said} if isinstance(said, str) else said)}
        length = self.counter.count_message(message)
        return {
            "id": f"chatcmpl-{next(self.numbers)}",
            "object": "chat.completion",
            "created": 1_767_225_600,
            "model": request.get("model"),
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
            ],
            "usage": {"prompt_tokens": size, "completion_tokens": length, "total_tokens": size + length},
        }


@contextmanager
def loopback(
    *,
    limit_tokens: int = 128_000,
    limit_bytes: int | None = None,
    script: Script | None = None,
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
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
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


def overflow(limit: int, in_messages: int, in_functions: int) -> dict[str, Any]:
    """OpenAI's error for a context that is too large."""
    message = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
        f"{in_messages + in_functions} tokens ({in_messages} in the messages, {in_functions} in the functions). "
        "Please reduce the length of the messages or functions."
    )
    return {"message": message, "param": "messages", "code": "context_length_exceeded"}


def chunks(completion: Mapping[str, Any], *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """A completion as the chunks of a stream: a word at a time, then each call in two parts, then how it ended."""
    choice = completion["choices"][0]
    message = choice["message"]
    words = re.findall(r"\S+\s*|\s+", message.get("content") or "")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        deltas.append({"tool_calls": [{"index": number, **call, "function": {**function, "arguments": ""}}]})
        deltas.append({"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]})
    head = {**{key: completion[key] for key in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if with_usage:
        yield {**head, "choices": [], "usage": completion["usage"]}


class _Handler(BaseHTTPRequestHandler):
    """One request a connection: a client that keeps connections would keep this server from ending."""

    loopback: Loopback
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        payload = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(payload)
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"message": f"Unknown request URL: POST {self.path}.", "code": "unknown_url"}})
            return
        try:
            status, body = self.loopback.reply(request, len(payload))
        except Exception as error:  # noqa: BLE001 - it is raised where the test ends
            self.loopback.failures.append(error)
            status, body = 500, {"error": {"message": str(error), "type": "server_error", "param": None, "code": None}}
        if status == 200 and request.get("stream"):
            self.stream(body, with_usage=bool((request.get("stream_options") or {}).get("include_usage")))
        else:
            self.answer(status, body)

    def answer(self, status: int, body: Any) -> None:
        page = isinstance(body, bytes)
        content = body if page else json.dumps(body).encode()
        self.begin(status, "text/html" if page else "application/json", length=len(content))
        self.wfile.write(content)

    def stream(self, completion: Mapping[str, Any], *, with_usage: bool) -> None:
        self.begin(200, "text/event-stream")
        for chunk in chunks(completion, with_usage=with_usage):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def begin(self, status: int, kind: str, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
