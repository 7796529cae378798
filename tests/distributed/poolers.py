"""Poolers in front of a server: PgBouncer and pgpool, on free ports, in a folder of their own."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg

from .servers import HOST, USER, Postgres, Server, folder, hand_over, takes_clients


class PgBouncer(Server):
    """PgBouncer in front of any database of a server; see `pgbouncer`."""

    def __init__(self, folder: Path, server: Postgres, settings: Mapping[str, str]) -> None:
        super().__init__(folder, last="TERM")
        users, self._ini = folder / "users", folder / "pgbouncer.ini"
        own = {
            "listen_addr": HOST, "listen_port": str(self.port), "unix_socket_dir": "", "admin_users": USER,
            "auth_type": "trust", "auth_file": str(users), "auth_user": USER, "max_client_conn": "5000",
        }  # fmt: skip
        users.write_text(f'"{USER}" ""\n', encoding="utf-8")
        lines = ["[databases]", f"* = host={HOST} port={server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in (own | dict(settings)).items()]
        self._ini.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for path in (users, self._ini):
            hand_over(path)

    def command(self) -> Sequence[str | Path]:
        return shutil.which("pgbouncer") or "pgbouncer", self._ini

    def answers(self) -> bool:
        try:
            self.admin("show version")
        except psycopg.OperationalError:
            return False
        return True

    def admin(self, command: str) -> list[tuple[object, ...]]:
        """Say something on the console."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True, connect_timeout=2) as console:
            cursor = console.execute(command)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def reconnecting(self, every: float = 2.0) -> Iterator[None]:
        """Let each connection to the server be replaced once it is free, again and again."""
        over = threading.Event()

        def reconnect() -> None:
            while not over.wait(every):
                self.admin("reconnect")

        thread = threading.Thread(target=reconnect, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextlib.contextmanager
def pgbouncer(
    server: Postgres, *, pool_mode: str = "transaction", default_pool_size: int = 10, **settings: str
) -> Iterator[PgBouncer]:
    """PgBouncer in front of any database of a server.

    Args:
        server: The server.
        pool_mode: "transaction", "session" or "statement".
        default_pool_size: How many connections to the server the clients of a database share.
        settings: More of `pgbouncer.ini`.
    """
    ours = {"pool_mode": pool_mode, "default_pool_size": str(default_pool_size)}
    with folder() as place:
        pooler = PgBouncer(place, server, ours | settings)
        try:
            yield pooler.start()
        finally:
            pooler.stop()


class Pgpool(Server):
    """pgpool in front of servers, of which the first is the primary; see `pgpool`."""

    def __init__(self, folder: Path, servers: Sequence[Postgres], settings: Mapping[str, str]) -> None:
        super().__init__(folder, last="INT")
        self._conf = folder / "pgpool.conf"
        own = {
            "backend_clustering_mode": "streaming_replication", "listen_addresses": HOST, "port": str(self.port),
            "unix_socket_directories": str(folder), "pcp_listen_addresses": "", "pcp_socket_dir": str(folder),
            "pid_file_name": str(folder / "pid"), "logdir": str(folder), "enable_pool_hba": "off",
            "sr_check_user": USER, "sr_check_database": "postgres", "health_check_period": "0",
            "failover_on_backend_error": "off",
        }  # fmt: skip
        for number, server in enumerate(servers):
            own |= {f"backend_hostname{number}": HOST, f"backend_port{number}": str(server.port)}
            own |= {f"backend_weight{number}": "1", f"backend_data_directory{number}": str(server.data)}
        lines = [f"{name} = '{value}'" for name, value in (own | dict(settings)).items()]
        self._conf.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hand_over(self._conf)

    def command(self) -> Sequence[str | Path]:
        return shutil.which("pgpool") or "pgpool", "-n", "-f", self._conf

    def answers(self) -> bool:
        return takes_clients(self.url())


@contextlib.contextmanager
def pgpool(*servers: Postgres, load_balance: bool = False, **settings: str) -> Iterator[Pgpool]:
    """pgpool in front of a primary, and of its replicas.

    Args:
        servers: The primary first.
        load_balance: Whether what reads may be sent to a replica.
        settings: More of `pgpool.conf`.
    """
    with folder() as place:
        pooler = Pgpool(place, servers, {"load_balance_mode": "on" if load_balance else "off"} | settings)
        try:
            yield pooler.start()
        finally:
            pooler.stop()
