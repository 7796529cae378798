"""Tenants as shards: one memory in several schemas of a PostgreSQL database.

Every schema has all tables. The one that the memory is known by holds nothing but the map: the other schemas, how many
labels name a tenant, and *pins*. A tenant is in the schema that a hash of its name says, or where a pin says; all that
is its own is there. The numbers of rows are different in all schemas, so that a tenant moves with them, and nothing
that a process knows becomes wrong by it: each schema counts in steps of as many as there can be, from a number of its
own, and goes on behind the greatest that ever moved there, since what came later has the greater number.

Who writes holds the tenant where it is until the transaction ends, by a lock that only a move does not share; and
whoever finds, on its own snapshot, that the tenant has left the schema does nothing there, looks at the map, and begins
again where the tenant is now. Both are statements that nobody waits for. So processes need not tell each other, and a
tenant that was never moved costs no look at the map.

One pool of connections serves all schemas, since each transaction says which it looks in.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.encryption_key import EncryptionKey
from langchain_agentmem.base.events import Watch
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseBusy, DatabaseUnreadable, InvalidInput, MissingExtra
from langchain_agentmem.storage import Engine, Opening, Sizes, open_engine, query, tenant_move
from langchain_agentmem.storage.engine import MOST_SHARDS
from langchain_agentmem.storage.part import bring_up_to_date
from langchain_agentmem.storage.postgres import PostgresEngine, look_in
from langchain_agentmem.storage.steps import Operation, Rows, Steps
from langchain_agentmem.storage.tenant_move import Link, Moving

try:
    import psycopg
    from psycopg.rows import DictRow
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

T = TypeVar("T")

_PAUSE = 0.1
"""Most seconds between two looks at the map, where it has not heard of a move yet."""


class Shards:
    """One memory in several schemas.

    Args:
        url: A `postgresql://` URL, a connection string, or a psycopg pool.
        opening: How it is opened. Without `shards`, it has as many as it was made with.

    Attributes:
        home: The schema that the memory is known by, which holds the map.
        tenant_depth: How many labels name a tenant.
        met: Is called with the engine of each schema that was made since.

    Raises:
        InvalidInput: It was made with other `shards` or another `tenant_depth`, or without.
        StorageError: It cannot be opened, or a schema of the map is gone.
    """

    def __init__(self, url: Any, opening: Opening) -> None:
        asked, depth = opening.shards, opening.tenant_depth
        self._url = url
        self._pinned: dict[str, int] = {}  # where tenants were found that are not where their hash says
        self._opened: dict[int, PostgresEngine] = {}
        self._opening = concurrency.lock()
        self.met: Callable[[PostgresEngine], object] = lambda _: None
        home = open_engine(url, opening._replace(shards=1 if asked is None else asked))
        assert isinstance(home, PostgresEngine)  # noqa: S101 - others know no shards
        self.home = home
        try:
            rows = home.read(_shards) or self._made(asked, depth)
            depths = [int(row["tenant_depth"]) for row in rows if row["tenant_depth"] is not None]
            self._count, self.tenant_depth = len(depths), depths[0]
            if asked is not None and (asked, depth) != (self._count, self.tenant_depth):
                raise InvalidInput(  # noqa: TRY301 - what was opened is closed
                    f"The memory in {safe_repr(home.path)} was made with shards={self._count} and "
                    f"tenant_depth={self.tenant_depth}: open it with these, or with shards=0."
                )
            if gone := [row["name"] for row in rows if not row["there"]]:
                raise DatabaseUnreadable(  # noqa: TRY301 - what is lost is not made anew, empty
                    f"The memory in {safe_repr(home.path)} has lost schemas ({', '.join(gone)}): restore them from a "
                    "backup."
                )
            for row in rows:
                self.engine(row["number"], row["name"])
        except BaseException:
            self.close()
            raise

    @property
    def engines(self) -> Sequence[Engine]:
        """One for each schema that is known here, those of a single tenant included."""
        return [engine for _, engine in sorted(self._opened.items())]

    def look_around(self) -> None:
        """Look at the map whether there are schemas that were made since, by whatever process."""
        for row in self.home.read(_shards):
            self.engine(row["number"], row["name"])

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Have no tenant move meanwhile, and know all schemas.

        Raises:
            DatabaseBusy: A move takes too long.
        """
        with self._looking_at_the_map() as connection:
            connection.execute("lock table pin in share mode")  # which moves do not share, and others who wait do
            self.look_around()
            yield

    def of(self, tenant: str) -> Engine:
        """The engine of what one tenant does, wherever the tenant is.

        Args:
            tenant: Its name, as `Scopes.tenant_of` gives it.
        """
        return TenantEngine(self, tenant)

    def close(self) -> None:
        """Wait for what runs, then close. Closing twice is harmless."""
        for each in (*self._opened.values(), self.home):
            each.close()

    def engine(self, number: int, name: str) -> PostgresEngine:
        """The engine of a schema, which is made if it is not there.

        Args:
            number: Its number, which no other has.
            name: Its name.
        """
        found = self._opened.get(number)
        if found is None:
            with self._opening:
                found = self._opened.get(number)
                if found is None:
                    opening = self.home.opening._replace(schema=name, shards=None)
                    found = type(self.home)(self._url, opening, first=self.home)
                    self.met(found)
                    self._opened[number] = found
        return found

    def hashed(self, tenant: str) -> int:
        """The number of the schema in which a tenant is, unless it is pinned to another."""
        return int.from_bytes(tenant_move.digest_of(tenant)) % self._count

    def where(self, tenant: str) -> PostgresEngine:
        """The engine of the schema in which a tenant is, as far as is known here."""
        number = self._pinned.get(tenant)
        return self._opened[self.hashed(tenant) if number is None else number]

    def look_again(self, tenant: str) -> PostgresEngine:
        """The engine of the schema in which a tenant is, as the map says now."""

        def steps() -> Steps[Rows]:
            return (yield query.pinned(tenant=tenant))

        rows = self.home.read(steps)
        if rows:
            self.engine(rows[0]["number"], rows[0]["name"])
            self._pinned[tenant] = rows[0]["number"]
        else:
            self._pinned.pop(tenant, None)
        return self.where(tenant)

    def keep_together(self, tenant: str, like: str) -> None:
        """Have a thread of the root be where another one is, since it is about to share what that one holds.

        Args:
            tenant: The thread, as a tenant.
            like: The other one.
        """
        there = self.look_again(like)
        if self.look_again(tenant) is not there:
            self._move(tenant, there.schema, None)

    def move(
        self,
        tenant: str,
        schema: str | None,
        link: Link,
        *,
        own: bool = False,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> Moved:
        """Move all that is a tenant's into another schema, in one transaction; see `tenant_move.py`.

        Args:
            tenant: The tenant.
            schema: Where to. Default: where its hash says.
            link: How the audit trail goes on.
            own: Whether that is a schema of its own, which is made if need be.
            dry_run: Whether to tell only how many rows would move.
            progress: Is told of how many of the tables the rows were moved.

        Raises:
            InvalidInput: There is no such schema, it is not for this tenant, no such tenant can be, or it shares what
                it remembers with another.
            StorageError: The database failed, or was busy for too long. Everything is as it was.
        """
        if not tenant.startswith("\x1f") and len(namespace_of(tenant)) > self.tenant_depth:
            raise InvalidInput(
                f"A tenant of this memory has {self.tenant_depth} label(s) at most, so "
                f"{safe_repr(namespace_of(tenant))} is none by itself."
            )
        if own and schema is not None and not dry_run:
            self._make_own(schema)
        return self._move(tenant, schema, link, new=own, dry_run=dry_run, progress=progress)

    def _move(
        self,
        tenant: str,
        schema: str | None,
        link: Link | None,
        *,
        new: bool = False,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> Moved:
        home = self.home
        with self._looking_at_the_map() as connection:
            if not dry_run:
                connection.execute("lock table pin in row exclusive mode")
                tenant_move.hold(connection, [tenant])
            numbers = {row["name"]: row["number"] for row in connection.execute("select name, number from shard")}
            pins = connection.execute("select number from pin where tenant = %s", (tenant,)).fetchall()
            names = {number: name for name, number in numbers.items()}
            hashed = self.hashed(tenant)
            source, target = names[pins[0]["number"] if pins else hashed], schema or names[hashed]
            if target not in numbers and not (new and dry_run):
                raise InvalidInput(f"{safe_repr(target)} is none of the schemas of this memory ({', '.join(numbers)}).")
            if link is not None and target in numbers:  # a copy goes where its source is
                _check_room(connection, target, tenant, own=new)
            if source == target:
                return Moved(source, target, {})
            look_in(connection, source)
            if dry_run:
                return Moved(source, target, tenant_move.count(connection, tenant, self.tenant_depth))
            moving = Moving(home.schema, source, target, numbers[target], self.hashed, self.tenant_depth)
            return Moved(source, target, tenant_move.move(connection, tenant, moving, link, progress))

    def _make_own(self, name: str) -> None:
        """Make the schema of a single tenant, unless it is there."""
        self.home.opening._replace(schema=name).checked()
        with self._making() as connection:
            known = {row["name"]: row["number"] for row in connection.execute("select name, number from shard")}
            if name in known:
                return
            number = max(known.values()) + 1
            if number >= MOST_SHARDS or name == self.home.schema:
                raise InvalidInput(
                    f"The schema {safe_repr(name)} cannot be added: it is that of the map, or there are "
                    f"{MOST_SHARDS} already, which is the most that a memory can have."
                )
            self._make(number, name)
            connection.execute("insert into shard (number, name) values (%s, %s)", (number, name))

    def _made(self, count: int | None, depth: int) -> Rows:
        """Make all schemas, and the map."""
        with self._making() as connection:
            if not connection.execute("select from shard limit 1").rowcount:  # nobody was quicker
                if count is None or connection.execute("select from namespace limit 1").rowcount:
                    raise InvalidInput(
                        f"The memory in {safe_repr(self.home.path)} was made without shards: leave shards out. To "
                        "spread it, export it, and import that into a memory in another schema."
                    )
                for number in range(count):
                    name = f"{self.home.schema}_{number:02}"
                    self._make(number, name)
                    connection.execute("insert into shard values (%s, %s, %s)", (number, name, depth))
        return self.home.read(_shards)

    @contextlib.contextmanager
    def _looking_at_the_map(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A transaction that waits for no lock for long, and sees what was committed before each of its statements."""
        wait = f"{max(1, round(self.home.opening.busy_timeout * 1000))}ms"
        with self.home.connection() as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with connection.transaction():
                connection.execute("select set_config('lock_timeout', %s, true)", (wait,))
                look_in(connection, self.home.schema)
                yield connection

    @contextlib.contextmanager
    def _making(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A transaction in the map, in which nobody else makes a schema."""
        with self.home.connection() as connection, connection.transaction():
            look_in(connection, self.home.schema)
            connection.execute("lock table shard in share row exclusive mode")
            yield connection

    def _make(self, number: int, name: str) -> None:
        """Make a schema, which on Citus can be moved from node to node."""
        engine = self.engine(number, name)
        with engine.connection() as connection, connection.transaction():
            look_in(connection, name)
            if connection.execute("select from namespace limit 1").rowcount:
                raise InvalidInput(f"The schema {safe_repr(name)} holds another memory.")
            for row in connection.execute(_NUMBERS, {"schema": name}).fetchall():  # no two schemas give one number
                connection.execute(
                    f"alter table {row['table']} alter column {row['column']} "
                    f"set increment by {MOST_SHARDS} restart with {number or MOST_SHARDS}"
                )
            if connection.execute("select from pg_extension where extname = 'citus'").rowcount:
                connection.execute(_DISTRIBUTED, {"name": name})
        bring_up_to_date(engine)  # which a role that only writes rows may not do


def _check_room(connection: psycopg.Connection[DictRow], schema: str, tenant: str, *, own: bool) -> None:
    """Refuse what would have somebody else in the schema of a single tenant."""
    [found] = connection.execute(_TENANTS, {"schema": schema}).fetchall()
    if found["shared"] and own:
        raise InvalidInput(
            f"In {safe_repr(schema)} are all tenants whose hash says so: name a schema that is none of those."
        )
    if not found["shared"] and found["pinned"] and tenant not in found["pinned"]:
        raise InvalidInput(f"{safe_repr(schema)} is another tenant's own: name another schema.")


_TENANTS = """
    select tenant_depth is not null as shared, array(select tenant from pin where pin.number = shard.number) as pinned
    from shard where name = %(schema)s
"""
_NUMBERS = """
    select table_name as table, column_name as column from information_schema.columns
    where table_schema = %(schema)s and is_identity = 'YES'
"""
_DISTRIBUTED = """
    select citus_schema_distribute(%(name)s::regnamespace)
    where not exists (select from pg_dist_schema where schemaid = %(name)s::regnamespace)
"""


class Moved(NamedTuple):
    """What a move did.

    Attributes:
        source: The schema in which the tenant was.
        target: That in which it is.
        rows: How many rows of each table were moved.
    """

    source: str
    target: str
    rows: Mapping[str, int]


class TenantEngine(Engine):
    """What one tenant does, wherever the tenant is. It has no connections or threads of its own.

    Args:
        shards: All schemas.
        tenant: The tenant.
    """

    dialect = PostgresEngine.dialect
    index_tail = PostgresEngine.index_tail

    def __init__(self, shards: Shards, tenant: str) -> None:
        self._shards = shards
        self._tenant = tenant
        self.opening = shards.home.opening
        self.path = shards.home.path

    def _run(self, make: Operation[T], *, write: bool) -> T:
        return self._wherever(lambda here: (here.write if write else here.read)(self._staying(make, write=write)))

    def _run_at_once(self, make: Operation[T], patience: float) -> T:
        return self._wherever(lambda here: here.write_at_once(self._staying(make, write=True), patience))

    def _wherever(self, run: Callable[[PostgresEngine], T]) -> T:
        here, until = self._shards.where(self._tenant), time.monotonic() + self.opening.busy_timeout
        while True:
            try:
                return run(here)
            except _MovedError:
                if time.monotonic() > until:
                    raise DatabaseBusy(f"Where {safe_repr(self._tenant)} was moved to cannot be found out.") from None
            before, here = here, self._shards.look_again(self._tenant)
            if here is before:  # the map, on another node, has not heard of it yet
                time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads them

    def _staying(self, make: Operation[T], *, write: bool) -> Operation[T]:
        """The operation, unless the tenant is elsewhere."""
        attempts = itertools.count()

        def steps() -> Steps[T]:
            if write:
                yield query.hold_tenant.ahead(lock=tenant_move.lock_of(self._tenant))
            if next(attempts):  # what failed may have failed since the tenant is elsewhere
                if (yield query.moved_tenant(tenant=self._tenant)):
                    raise _MovedError
                return (yield from make())
            gone = yield query.moved_tenant.ahead(tenant=self._tenant)
            work = make()
            try:
                statement = next(work)
                while True:  # what holds where the tenant is not must not be seen
                    statement = work.send(_Checked((yield statement), gone))
            except StopIteration as done:
                if gone:
                    raise _MovedError from None
                return done.value  # type: ignore[no-any-return]  # StopIteration is not generic
            finally:
                work.close()

        return steps

    @property
    def home(self) -> Engine:
        """The engine of the schema in which the tenant is, as far as is known here."""
        return self._here

    @property
    def _here(self) -> PostgresEngine:
        return self._shards.where(self._tenant)

    async def in_thread(self, function: Any, *arguments: Any, write: bool) -> Any:
        """Run a blocking function in a thread that all schemas share; see `Engine.in_thread`."""
        return await self._shards.home.in_thread(function, *arguments, write=write)

    @property
    def usable(self) -> bool:
        """Whether the memory is open, in this process."""
        return self._shards.home.usable

    @property
    def wrote(self) -> bool:
        """Whether anything was written since the memory was opened."""
        return self._shards.home.wrote

    def problems(self) -> list[str]:
        """What is wrong with the tables of the schema."""
        return self._here.problems()

    def sizes(self) -> Sizes:
        """How many bytes the schema takes."""
        return self._here.sizes()

    def scrub(self) -> None:
        """Rewrite the tables of the schema."""
        self._here.scrub()

    def release(self) -> None:
        """Let the server do so."""

    def backup(self, path: Path, progress: Watch | None = None, key: EncryptionKey | None = None) -> bool:
        """There is no file to copy."""
        return self._here.backup(path, progress, key)

    def _enter(self) -> None:
        """Nothing: the engine of the schema is entered."""

    def _leave(self) -> None:
        """Nothing."""

    def _close(self) -> None:
        """Nothing."""

    def _rest(self) -> None:
        """Nothing."""

    def _renew(self) -> None:
        """Nothing."""


class _MovedError(Exception):
    """The tenant is in another schema."""


class _Checked(Sequence[Any]):
    """Rows that nobody sees before it is known that the tenant is where they were read.

    Args:
        rows: The rows.
        gone: A row, if the tenant is elsewhere; as a rule it is known when the rows are.
    """

    __slots__ = ("_gone", "_rows")

    def __init__(self, rows: Rows, gone: Rows) -> None:
        self._rows, self._gone = rows, gone

    def _here(self) -> Rows:
        if self._gone:
            raise _MovedError
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        return self._here()[index]

    def __len__(self) -> int:
        return len(self._here())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._here())


def is_sharded(url: Any, opening: Opening) -> bool:
    """Whether a memory was made with shards.

    Args:
        url: What names it.
        opening: How it is opened.
    """
    with contextlib.closing(open_engine(url, opening._replace(shards=1))) as engine:
        return bool(engine.read(_shards))


def _shards() -> Steps[Rows]:
    return (yield query.shards())
