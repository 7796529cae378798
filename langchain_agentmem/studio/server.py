"""The server of `agentmem studio`, on loopback by default, for one session."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvicorn

from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.studio.application import User, application

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

HOST, PORT = "127.0.0.1", 8642


def serve(
    memory: AgentMemory,
    *,
    host: str = HOST,
    port: int = PORT,
    user: User | None = None,
    experiences: ExperienceLibrary | None = None,
    announce: Callable[[str], object] = print,
    open_browser: bool = False,
) -> None:
    """Serve Studio until Ctrl-C.

    Args:
        memory: The memory to show.
        host: The address to listen on, and the host name that requests must use. With a loopback host, requests may
            use any of the loopback host names. Default: "127.0.0.1".
        port: The port; 0 for any free port. Default: 8642.
        user: The author of corrections. Default: the user who runs this process.
        experiences: The experience library to show. Default: none.
        announce: A function that is called once with the address that opens Studio. Default: `print`.
        open_browser: Open a browser at the address. Default: False.

    Raises:
        InvalidInput: The host is a wildcard address, or Studio cannot listen on it.
    """
    listener = _open_listener(host, port)
    with listener:
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(32)
        base_url = f"http://{_url_host(host)}:{port}/"
        names = map(_url_host, (host, *(_LOOPBACK if host in _LOOPBACK or host.startswith("127.") else ())))
        hosts = {name if port == _HTTP_PORT else f"{name}:{port}" for name in names}
        app = application(memory, user=user, experiences=experiences, token=token, hosts=hosts)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        announce(f"{base_url}?token={token}")
        if open_browser:
            webbrowser.open(f"{base_url}?token={token}")
        with suppress(KeyboardInterrupt):  # raised by uvicorn after a regular shutdown
            uvicorn.Server(config).run(sockets=[listener])


_LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The host names of the loopback interface."""
_HTTP_PORT = 80
"""The default port of HTTP, which browsers omit from `Host`."""


def _open_listener(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{safe_repr(host)} is not an address of this machine.") from error
    address: Any = ipaddress.ip_address(socket_address[0])
    if (getattr(address, "ipv4_mapped", None) or address).is_unspecified:
        listener.close()
        raise InvalidInput(f"host must be a single address, not {safe_repr(host)}, which listens on every network.")
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen()  # connections now wait until the server runs
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"Port {port} of {safe_repr(host)} is not free. Choose another port, or 0 for any free port."
        ) from error
    return listener


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
