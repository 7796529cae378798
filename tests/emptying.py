"""Databases that are as a first opening leaves them, for one test after the other.

To migrate a database takes a hundred milliseconds on PostgreSQL, and to delete the few rows that a test left takes
five. So a database is migrated once, and emptied for each test: its tables are discovered, what they held after the
migrations comes back, and identities begin at one again. A database is made anew where more than rows has changed (a
test altered tables), where it has grown, and where the planner has sampled what was in it. On SQLite a file that was
migrated once is copied.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import psycopg

from langchain_agentmem.storage import open_engine

GROWN = 4_000_000
"""Bytes of tables and indexes, deleted rows included, from which on a schema is made anew."""

ALONE = """
select pg_terminate_backend(pid, 30000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""

EMPTYING = """
drop schema if exists emptying cascade;
create schema emptying;
create table emptying."shape of the schema" (shape text);

create function emptying.tables() returns table (id oid, name name) language sql stable as $$
    select oid, relname from pg_class where relnamespace = to_regnamespace('agentmem') and relkind in ('r', 'p')
$$;

-- What a schema is made of, without its rows: any change of a definition gives its row of the catalogue a new xmin.
create function emptying.shape() returns text language sql stable as $$
    with relation as (select oid, relname from pg_class where relnamespace = to_regnamespace('agentmem')),
    definition (id) as (
        select xmin from pg_attribute where attrelid in (select oid from relation)
        union all select xmin from pg_constraint where connamespace = to_regnamespace('agentmem')
        union all select xmin from pg_index where indrelid in (select oid from relation)
        union all select xmin from pg_trigger where tgrelid in (select oid from relation)
        union all select xmin from pg_proc where pronamespace = to_regnamespace('agentmem')
    )
    select (select string_agg(oid || relname, ' ' order by oid) from relation)
        || (select count(*) || ' ' || sum(id::text::bigint) from definition)
$$;

create function emptying.keep() returns void language plpgsql as $$
declare found record; filled bool;
begin
    for found in select * from emptying.tables() loop
        execute format('select exists (select from agentmem.%I)', found.name) into filled;
        if filled then
            execute format('create table emptying.%I as table agentmem.%1$I', found.name);
        end if;
    end loop;
    insert into emptying."shape of the schema" values (emptying.shape());
end $$;

-- Whether the schema is as it was when it was kept; false if only making it anew would help.
create function emptying.empty(grown bigint) returns boolean language plpgsql as $$
declare found record; same bool;
begin
    if emptying.shape() is distinct from (select shape from emptying."shape of the schema") or emptying.shape() is null
        or exists (select from pg_statistic where starelid in (select id from emptying.tables()))
        or (select sum(pg_total_relation_size(id)) from emptying.tables()) > grown
    then
        return false;
    end if;
    set local session_replication_role = replica;  -- all tables are emptied: no row is looked for that names another
    for found in select id, name, to_regclass(format('emptying.%I', name)) as kept from emptying.tables() loop
        if found.kept is not null then
            execute format(
                'select not exists (table agentmem.%1$I except all table emptying.%1$I)'
                ' and not exists (table emptying.%1$I except all table agentmem.%1$I)', found.name
            ) into same;
            if not same then
                execute format('delete from agentmem.%I', found.name);
                execute format('insert into agentmem.%1$I overriding system value table emptying.%1$I', found.name);
            end if;
        elsif pg_relation_size(found.id) > 0 then
            execute format('delete from agentmem.%I', found.name);
        end if;
    end loop;
    for found in select oid as id from pg_class where relnamespace = 'agentmem'::regnamespace and relkind = 'S' loop
        if pg_sequence_last_value(found.id) is not null then
            perform setval(found.id::regclass, 1, false);
        end if;
    end loop;
    return true;
end $$;
"""


class PostgresDatabases:
    """A few databases of one server, which serve all tests, because making one is slow.

    Args:
        server: The URL of the server. Where its user is no superuser, a schema is made anew for each test.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: list[str] = []
        self._connections: dict[str, psycopg.Connection] = {}

    def migrated(self, number: int) -> str:
        """The URL of the n-th database, as a first opening leaves it."""
        url = self._url(number)
        self._alone(url)
        if not self._emptied(url):
            self._run(url, "drop schema if exists agentmem cascade")
            open_engine(url).close()
            self._run(url, EMPTYING)
            self._run(url, "select emptying.keep()")
        return url

    def bare(self, number: int) -> str:
        """The URL of the n-th database, as if this package had never seen it."""
        url = self._url(number)
        self._alone(url)
        self._run(url, "drop schema if exists agentmem cascade")
        return url

    def close(self) -> None:
        """Close what is open."""
        for connection in self._connections.values():
            connection.close()

    def drop(self) -> None:
        """Take the databases away."""
        self.close()
        with psycopg.connect(self._server, autocommit=True) as connection:
            for name in self._names:
                connection.execute(f"drop database if exists {name} with (force)")

    def _url(self, number: int) -> str:
        while len(self._names) <= number:
            self._names.append(f"agentmem_{uuid.uuid4().hex}")
            with psycopg.connect(self._server, autocommit=True) as connection:
                connection.execute(f"create database {self._names[-1]}")
            self._run(url_of(self._server, self._names[-1]), EMPTYING)
        return url_of(self._server, self._names[number])

    def _emptied(self, url: str) -> bool:
        try:
            return bool(self._run(url, "select emptying.empty(%s)", GROWN))
        except psycopg.errors.InsufficientPrivilege:  # not a superuser
            return False

    def _alone(self, url: str) -> None:
        """Nobody else is connected, and we are: a test may have ended our connection too."""
        try:
            self._run(url, ALONE)
        except psycopg.OperationalError:
            self._connections.pop(url).close()
            self._run(url, ALONE)

    def _run(self, url: str, sql: str, *parameters: object) -> object:
        if url not in self._connections:
            self._connections[url] = psycopg.connect(url, autocommit=True)
        cursor = self._connections[url].execute(sql, parameters or None)
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def url_of(server: str, database: str) -> str:
    """The URL of another database of a server."""
    parts = psycopg.conninfo.conninfo_to_dict(server)
    user, host = parts.get("user", "postgres"), parts["host"]
    password = f":{parts['password']}" if parts.get("password") else ""
    port = f"&port={parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{password}@/{database}?host={host}{port}"


class SqliteDatabases:
    """Copies of a file that was migrated once.

    Args:
        folder: Where that file lies.
    """

    def __init__(self, folder: Path) -> None:
        self._original = folder / "migrated.db"
        open_engine(self._original).close()

    def migrated(self, path: Path) -> None:
        """Put a database at a path, as a first opening leaves it."""
        shutil.copyfile(self._original, path)
