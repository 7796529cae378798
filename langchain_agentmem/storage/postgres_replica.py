"""A replica that answers what need not be asked of the primary, as long as it can be relied upon.

What this memory wrote is seen: before the replica answers, it is asked how far it is, and if anything was written since
it was last used, the primary how far it should be. Writes cost nothing more. A replica that is away, lags behind, was
promoted, or has an older schema is left alone for a while, and the primary answers.

Each time the very connection is asked that answers next, so that the URL may lead to several replicas.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.safe_repr import safe_repr, without_passwords
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage.engine import SCHEMA, Opening
from langchain_agentmem.storage.postgres import PostgresEngine, address_of, prepared
from langchain_agentmem.storage.postgres_session import Session
from langchain_agentmem.storage.steps import Operation

logger = logging.getLogger(__name__)

T = TypeVar("T")

BRIEF = 2.0
"""Seconds to wait until the replica can be reached, says how far it is, or has a connection free."""
CATCH_UP = 0.5
"""Seconds that a replica may be behind."""
PAUSES = 1.0, 60.0
"""Seconds until a replica that could not be used is tried again: the first time, and most."""

_PLACE = prepared(  # what was committed without waiting for the disk is not yet part of what is written
    "select pg_is_in_recovery() as replica, pg_wal_lsn_diff(case when pg_is_in_recovery() then "
    "pg_last_wal_replay_lsn() when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn() "
    "else pg_current_wal_lsn() end, '0/0')::bigint as position, (select system_identifier from pg_control_system()) "
    "|| '/' || (select oid from pg_database where datname = current_database()) as database"
)


class _Place(NamedTuple):
    """Where a server is.

    Attributes:
        replica: Whether it follows another one.
        position: How far its log goes, or is followed, in bytes.
        database: Which database of which cluster is open, the same on a primary and its replicas.
    """

    replica: bool
    position: int
    database: str


class _Replica(PostgresEngine):
    """The replica.

    Args:
        url: Where it is; or a psycopg pool that leads there.
        opening: How the primary was opened.

    Raises:
        StorageError: It cannot be used now.
    """

    def __init__(self, url: Any, opening: Opening) -> None:
        if isinstance(url, str):
            given = psycopg.conninfo.conninfo_to_dict(url)
            several = {"target_session_attrs": "standby"} if "," in str(given.get("host", "")) else {}
            url = psycopg.conninfo.make_conninfo("", **{"connect_timeout": f"{BRIEF:.0f}", **several, **given})
        timeout, busy_timeout = min(opening.timeout, BRIEF), min(opening.busy_timeout, BRIEF)
        brief = opening._replace(read_url=None, read_only=True, timeout=timeout, busy_timeout=busy_timeout)
        super().__init__(url, brief)
        self._timeout = opening.timeout  # for a search

    def answer(self, make: Operation[T], wanted: _Place, schema: str) -> T:
        """Run an operation that reads in a schema, and sees what a primary had written at a place."""
        with self._in_use():
            return self._transaction(self._following(wanted), make, write=False, schema=schema)

    def give_up(self) -> None:
        """Close all connections; those that are in use, when they are free."""
        self._pool.close()

    def _following(self, wanted: _Place) -> Session:
        """A session on a server that shows what was written up to a place."""
        session, deadline, pause = self._pool.take(), time.monotonic() + CATCH_UP, 0.001
        try:
            while (behind := wanted.position - self._position(session, wanted.database)) > 0:
                if time.monotonic() > deadline:
                    raise StorageError(f"it is {behind:,} bytes behind")  # noqa: TRY301 - undone as any failure
                time.sleep(pause)
                pause *= 2
        except BaseException as error:
            self._undone(session, error)
            raise
        return session

    def _position(self, session: Session, database: str) -> int:
        here = _place(session)
        if not here.replica:
            raise StorageError("it is no replica, or was promoted")
        if here.database != database:
            raise StorageError("it is a replica of another database")
        return here.position


class ReplicatedEngine(PostgresEngine):
    """A PostgreSQL database with a replica, `opening.read_url`; else as `PostgresEngine`."""

    def __init__(self, url: Any, opening: Opening, *, first: ReplicatedEngine | None = None) -> None:
        read_url = opening.read_url
        self._lead: ReplicatedEngine = self if first is None else first  # knows the replica of all schemas
        self._replica_path = address_of(read_url if isinstance(read_url, str) else str(read_url.conninfo))
        self._replica: _Replica | None = None
        self._connecting = concurrency.lock()
        self._left = self._again = self._pause = 0.0  # when it was left alone, until when, and for how long
        self._news = object()  # another one whenever something was written, or shown that may be newer
        self._seen: tuple[object, _Place] | None = None  # where the primary was, at which news
        super().__init__(url, opening, first=first)

    def _run(self, make: Operation[T], *, write: bool) -> T:
        try:
            return super()._run(make, write=write)
        finally:
            if write:
                self._lead.changed()

    def _run_at_once(self, make: Operation[T], patience: float) -> T:
        try:
            return super()._run_at_once(make, patience)
        finally:
            self._lead.changed()

    def _run_on_replica(self, make: Operation[T]) -> T:
        return self._lead.answer(make, self.schema, partial(super()._run, make, write=False))

    def changed(self) -> None:
        """Something was written, in whatever schema."""
        self._news = object()

    def answer(self, make: Operation[T], schema: str, otherwise: Callable[[], T]) -> T:
        """Run an operation that reads on the replica, as long as that can be relied upon.

        Args:
            make: Makes the operation.
            schema: Where it looks.
            otherwise: Runs it on the primary.
        """
        if (began := time.monotonic()) >= self._again:
            self._again = began + self._pause  # nobody else needs to find out meanwhile
            try:
                if (wanted := self._written()) is not None and (replica := self._connected_replica()) is not None:
                    value = replica.answer(make, wanted, schema)
                    self._rely(began)
                    return value
            except Exception as error:  # noqa: BLE001 - the primary says whether it is true
                if isinstance(error, psycopg.Error | StorageError) and not isinstance(error, psycopg.DataError):
                    self._leave_alone(error, began)
        try:
            return otherwise()
        finally:
            self.changed()  # what the primary shows, the replica has to show from now on

    def _written(self) -> _Place | None:
        """Where the primary was when this memory had last written; None where it cannot be asked."""
        news, seen = self._news, self._seen
        if seen is not None and seen[0] is news:
            return seen[1]
        session = None
        try:
            session = self._pool.take()
            place = _place(session)
        except BaseException as error:
            if session is not None:
                self._undone(session, error)
            if isinstance(error, psycopg.Error | StorageError):
                return None
            raise
        self._pool.give_back(session)
        self._seen = news, place
        return place

    def _connected_replica(self) -> _Replica | None:
        """The replica; None while another thread connects."""
        if self._replica is None and self._connecting.acquire(blocking=False):
            try:
                self._replica = self._replica or _Replica(self.opening.read_url, self.opening)
            finally:
                self._connecting.release()
        return self._replica

    def _rely(self, began: float) -> None:
        if self._pause and began > self._left:
            self._again = self._pause = 0.0
            logger.info("The replica %s answers again.", safe_repr(self._replica_path))

    def _leave_alone(self, error: Exception, began: float) -> None:
        if began < self._left:  # that was another thread
            return
        if not self._pause:
            problem = without_passwords(str(error)).strip()
            logger.warning("The primary answers for the replica %s for now: %s", safe_repr(self._replica_path), problem)
        first, most = PAUSES
        self._pause = min(2 * self._pause, most) or first
        self._left = time.monotonic()
        self._again = self._left + self._pause
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.give_up()

    def _close(self) -> None:
        super()._close()
        if self._replica is not None:
            self._replica.close()


def _place(session: Session) -> _Place:
    session.begin(SCHEMA, write=False, lock=BRIEF, patience=BRIEF)
    [row] = session.rows(session.execute(_PLACE, {}))
    session.commit(wait=False)
    return _Place(**row)
