"""A connection that fails as networks do: a proxy in front of a server, which does what a test tells it."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

from .servers import HOST, USER

_FIRST = struct.Struct("!II")
_ASKS = (80877103, 80877104)
"""What a client may say before it says who it is: that it would rather speak TLS, or GSSAPI."""
_COMMITTED = b"COMMIT\0"
"""How a server says that it has committed."""


class _Statements:
    """Follows what a client says, to know when it commits."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._greeted = False
        self._commits: set[bytes] = set()  # the names of prepared statements that do

    def commits(self, said: bytes) -> int:
        """How many transactions a client that says this has committed."""
        self._buffer += said
        return sum(self._commits_in(kind, body) for kind, body in self._messages())

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        while len(self._buffer) >= _FIRST.size:
            if not self._greeted:
                size, code = _FIRST.unpack_from(self._buffer)
                self._greeted = code not in _ASKS
                del self._buffer[:size]
                continue
            size = 1 + struct.unpack_from("!I", self._buffer, 1)[0]
            if len(self._buffer) < size:
                return
            kind, body = bytes(self._buffer[:1]), bytes(self._buffer[5:size])
            del self._buffer[:size]
            yield kind, body

    def _commits_in(self, kind: bytes, body: bytes) -> bool:
        if kind == b"Q":
            return _is_commit(body)
        first, _, rest = body.partition(b"\0")
        if kind == b"P":
            self._commits.discard(first)
            if _is_commit(rest):
                self._commits.add(first)
        return kind == b"B" and rest.partition(b"\0")[0] in self._commits


def _is_commit(sql: bytes) -> bool:
    return re.match(rb"\s*(commit|end)\b", sql, re.IGNORECASE) is not None


class Proxy:
    """Passes on what a client and a server say, until it is told otherwise; see `proxy`.

    Attributes:
        delay: Seconds that each piece is held up, in either direction.
        commits: How many commits were passed on.
        cuts: How many connections `cut_at_commit` has cut.
    """

    def __init__(self, port: int) -> None:
        self.delay = 0.0
        self.commits = self.cuts = 0
        self._server = port
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = threading.Event()
        self._open.set()
        self._cut_at_commit: bool | None = None
        self._links: set[_Link] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str = "postgres") -> str:
        """The URL of a database."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}"

    @contextlib.contextmanager
    def black_hole(self) -> Iterator[None]:
        """Pass on nothing, and close nothing, as long as the block lasts; then what was held up goes on its way."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def cut(self) -> None:
        """End all connections at once."""
        for link in list(self._links):
            link.close()

    def cut_at_commit(self, *, reaching: bool = True) -> None:
        """End the connection that commits next.

        Args:
            reaching: Whether the server gets the commit, and carries it out: then only its answer is lost.
        """
        self._cut_at_commit = reaching

    def close(self) -> None:
        """Take no more connections, and end those that are there."""
        self._listener.close()
        self._open.set()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self._server))
                except OSError:
                    client.close()
                    continue
                link = _Link(self, client, server)
                self._links.add(link)
                link.start()


class _Link:
    """One connection, on both of its sides."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._statements = _Statements()
        self._dying = False  # whether it ends when the server has committed

    def start(self) -> None:
        for side in (self._forward, self._back):
            threading.Thread(target=self._pump, args=(side,), daemon=True).start()

    def close(self) -> None:
        self._proxy._links.discard(self)
        for side in (self._client, self._server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def _pump(self, side) -> None:
        with contextlib.suppress(OSError):  # either side was closed
            while side():
                pass
        self.close()

    def _held_up(self, piece: bytes) -> bytes:
        if self._proxy.delay:
            time.sleep(self._proxy.delay)
        self._proxy._open.wait()
        return piece

    def _forward(self) -> bool:
        piece = self._held_up(self._client.recv(65536))
        if commits := self._statements.commits(piece):
            reaching, self._proxy._cut_at_commit = self._proxy._cut_at_commit, None
            if reaching is not None:
                self._proxy.cuts += 1
                self._dying = reaching
            if reaching is False:
                return False
            self._proxy.commits += commits
        self._server.sendall(piece)
        return bool(piece)

    def _back(self) -> bool:
        piece = self._held_up(self._server.recv(65536))
        if self._dying:
            return _COMMITTED not in piece and bool(piece)
        self._client.sendall(piece)
        return bool(piece)


@contextlib.contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """A proxy in front of a port of this machine."""
    ours = Proxy(port)
    try:
        yield ours
    finally:
        ours.close()
