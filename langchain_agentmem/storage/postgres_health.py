"""What may be wrong around a PostgreSQL database: the server, its settings and clock, the tables, who waits for whom.

What a role may not see of the server is left out, and said once. Whatever is counted is counted of one schema, so that
several can be added up.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import LiteralString

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.storage.engine import SCHEMA, migrations
from langchain_agentmem.storage.postgres import address_of, translated
from langchain_agentmem.storage.postgres_copy import STAGE
from langchain_agentmem.storage.storage_health import Finding, Level, clocks, known_schema, vectors

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.rows import DictRow, dict_row
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

OLDEST = 130_000
APART = 5.0
"""Seconds by which the server's clock may differ from ours."""
PATIENCE = 5.0
"""Seconds to wait for a table that somebody else has locked."""

CROWDED = 0.8
"""Share of the server's connections that is worth a word."""
LONG = 300.0
"""Seconds after which a transaction is long, and a replica late."""
MUCH_LOG = 1 << 30
"""Bytes of the server's log that a replica or a slot may be behind."""
MANY_DEAD = 10_000
"""Dead rows of a table that are worth a word, where they are more than a fifth of it."""
SLOW = 100.0
"""Milliseconds that a statement may take on average."""
SHORT = 60_000
"""Milliseconds below which a limit of the server's hinders what takes long, such as migrations and erasing."""
NAMED = 3
"""How many of a kind are named."""

_SERVER = """
    select current_setting('max_connections')::int as most,
        (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
        pg_has_role('pg_read_all_stats', 'usage') as sees, pg_is_in_recovery() as replica,
        case when pg_is_in_recovery() and pg_last_wal_receive_lsn() is distinct from pg_last_wal_replay_lsn()
            then extract(epoch from now() - pg_last_xact_replay_timestamp()) end::float8 as late
"""
_RIGHTS = """
    select pg_is_in_recovery() as replica, has_database_privilege(current_database(), 'create') as creates,
        has_schema_privilege(n.oid, 'usage') as uses, has_schema_privilege(n.oid, 'create') as makes, t.*
    from (
        select bool_and(has_table_privilege(oid, 'select')) as reads,
            bool_and(
                has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update')
                and has_table_privilege(oid, 'delete')
            ) as writes
        from pg_class where relnamespace = to_regnamespace(quote_ident(%(schema)s)) and relkind = 'r'
    ) t left join pg_namespace n on n.nspname = %(schema)s
"""
"""What this role may do in the database, in the schema (null if there is none), with its tables (null if none)."""
_LATE = """
    select coalesce(nullif(application_name, ''), host(client_addr), pid::text) as name,
        pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint as behind
    from pg_stat_replication order by behind desc nulls last
"""
_SLOTS = """
    select slot_name as name, active, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint as behind
    from pg_replication_slots where restart_lsn is not null order by behind desc
"""
_OPEN = """
    select * from (
        select 'session ' || pid as name, extract(epoch from now() - xact_start)::bigint as seconds
        from pg_stat_activity
        where backend_type = 'client backend' and datname = current_database()
        union all
        select 'prepared ' || gid, extract(epoch from now() - prepared)::bigint from pg_prepared_xacts
        where database = current_database()
    ) o
    where seconds > %s order by seconds desc
"""
_TABLES = """
    select s.relname as name, s.n_live_tup as rows, s.n_dead_tup as dead,
        greatest(s.last_vacuum, s.last_autovacuum)::timestamp(0)::text as vacuumed,
        s.last_analyze is null and s.last_autoanalyze is null as unknown,
        coalesce('autovacuum_enabled=false' = any(c.reloptions), false) as neglected
    from pg_stat_all_tables s join pg_class c on c.oid = s.relid
    where s.schemaname = %s and c.relkind = 'r' order by s.n_dead_tup desc, s.relname
"""
_INDEXES = """
    select c.relname as name, i.indisvalid and i.indisready as whole
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = to_regnamespace(quote_ident(%s))
"""
_STATEMENTS = """
    select left(regexp_replace(query, '\\s+', ' ', 'g'), 60) as name, mean_exec_time as mean, calls
    from {}.pg_stat_statements
    where dbid = (select oid from pg_database where datname = current_database())
        and query <> '<insufficient privilege>' and calls > 1 and mean_exec_time > %s
    order by total_exec_time desc
"""
_OPERATIONS = """
    select name, total / 1000.0 / calls as mean, calls from {}.measure
    where kind = 'operation' and calls > 1 and total / 1000.0 / calls > %s
    order by total desc
"""
_UNREADABLE = pg.InsufficientPrivilege, pg.ObjectNotInPrerequisiteState, pg.UndefinedTable
"""Why statements are not counted, or not for everybody."""
_HARMFUL: dict[str, tuple[Level, str, str]] = {
    "fsync": ("problem", "a crash of the machine may destroy the database", "alter system set fsync = on"),
    "full_page_writes": (
        "problem",
        "a crash of the machine may destroy pages",
        "alter system set full_page_writes = on, unless the file system writes pages as one",
    ),
    "synchronous_commit": (
        "note",
        "a crash of the server may take what was acknowledged last",
        "alter database ... set synchronous_commit = on, unless that is wanted",
    ),
    "track_counts": ("problem", "autovacuum does not know what to do", "alter system set track_counts = on"),
    "autovacuum": (
        "problem",
        "dead rows stay, and the planner goes by what was there long ago",
        "alter system set autovacuum = on",
    ),
}
"""What it means where a setting is off, and what to do."""
_LIMITS = ("statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout")

_WAITING = """
    select a.pid, a.application_name as name, extract(epoch from now() - a.query_start)::bigint as seconds,
        array_to_string(pg_blocking_pids(a.pid), ', ') as others
    from pg_stat_activity a
    where a.datname = current_database() and cardinality(pg_blocking_pids(a.pid)) > 0
"""


def server(url: str, schema: str = SCHEMA) -> Iterator[Finding]:
    """The server and the database, as far as this user may look.

    Args:
        url: A `postgresql://` URL, or a connection string.
        schema: The schema in which everything is.

    Raises:
        DatabaseBusy: Somebody else has locked a table.
        StorageError: The server cannot be reached.
    """
    path = address_of(url)
    with (
        translated(path),
        psycopg.connect(
            url, autocommit=True, row_factory=dict_row, connect_timeout=10, client_encoding="utf8"
        ) as connection,
        connection.transaction(),  # behind a pooler settings are nobody's own for longer
    ):
        connection.execute("select set_config('lock_timeout', %s, true)", (f"{PATIENCE * 1000:.0f}ms",))
        yield from _itself(connection)
        permissions = _permissions(connection, schema)
        yield permissions
        yield from _around(connection)
        yield from _settings(connection)
        rows = connection.execute("select tablename from pg_tables where schemaname = %s", (schema,)).fetchall()
        tables = {row["tablename"] for row in rows}
        if tables and "agentmem_migration" not in tables:
            yield Finding(
                "schema",
                "problem",
                f"The schema {safe_repr(schema)} is another program's.",
                "Give langchain-agentmem a database of its own.",
            )
        elif not tables:
            yield Finding(
                "schema", "note", "Nothing was stored here yet.", "The first program that opens it begins it."
            )
        elif permissions.level != "problem":
            yield from _inside(connection, schema)
        if connection.execute("select to_regnamespace(%s) is not null as there", (STAGE,)).fetchall()[0]["there"]:
            yield Finding(
                "interrupted",
                "note",
                f"The schema {STAGE} is what an interrupted copy to this place left.",
                f"Run the copy again, which goes on where it was, or: drop schema {STAGE} cascade",
            )
        yield _locks(connection)


def memory_schemas(url: str) -> list[str]:
    """The schemas of a database that hold a memory, or a part of one that has shards.

    Args:
        url: A `postgresql://` URL, or a connection string.

    Raises:
        StorageError: The server cannot be reached.
    """
    with translated(address_of(url)), psycopg.connect(url, row_factory=dict_row, connect_timeout=10) as connection:
        rows = connection.execute("select schemaname from pg_tables where tablename = 'agentmem_migration' order by 1")
        return [row["schemaname"] for row in rows]


def _itself(connection: psycopg.Connection[DictRow]) -> Iterator[Finding]:
    number, version = connection.info.server_version, connection.info.parameter_status("server_version")
    if number < OLDEST:
        yield Finding("postgresql", "problem", f"PostgreSQL {version} is too old.", "Use 13 or newer.")
    else:
        yield Finding("postgresql", "ok", f"PostgreSQL {version}")
    [row] = connection.execute(
        "select extract(epoch from clock_timestamp())::float8 as time, "
        "(select count(*) from pg_extension where extname = 'vector') as pgvector, "
        "(select count(*) from pg_available_extensions where name = 'vector') as offered"
    ).fetchall()
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        yield Finding(
            "encoding",
            "problem",
            f"The database stores texts as {encoding}, which lacks characters.",
            "Make it anew with encoding 'UTF8'.",
        )
    apart = abs(row["time"] - time.time())
    if apart > APART:
        yield Finding(
            "server_clock",
            "note",
            f"The server's clock and ours are {apart:,.0f} s apart.",
            "Set both by the same time server.",
        )
    if row["pgvector"]:
        yield Finding("pgvector", "ok", "installed: vectors can be compared in the server")
    elif row["offered"]:
        yield Finding(
            "pgvector",
            "note",
            "pgvector is there and not installed in this database, so vectors are compared in Python.",
            "Before vectors are first wanted: create extension vector",
        )
    else:
        yield Finding("pgvector", "ok", "not there: vectors are compared in Python")


def _permissions(connection: psycopg.Connection[DictRow], schema: str) -> Finding:
    [row] = connection.execute(_RIGHTS, {"schema": schema}).fetchall()
    named = safe_repr(schema)
    if row["uses"] is None and not row["creates"]:
        says, remedy = f"make the schema {named}", "Let an owner run: grant create on database ... to ..."
    elif row["uses"] is False:
        says, remedy = f"use the schema {named}", f"Let its owner run: grant usage on schema {schema} to ..."
    elif row["reads"] is None and row["makes"] is False:
        says, remedy = f"make tables in the schema {named}", "Let its owner run: agentmem migrate URL"
    elif row["reads"] is False:
        grant = f"grant select, insert, update, delete on all tables in schema {schema} to ..."
        says, remedy = f"read all tables of the schema {named}", f"Let their owner run: {grant}"
    elif row["replica"]:
        return Finding("permissions", "note", "The server is a replica, which is only read.", "Write to the primary.")
    elif row["writes"] is False:
        return Finding(
            "permissions",
            "note",
            f"This user may read the tables of the schema {named}, and not write all of them.",
            "Open the memory with read_only=True, or let their owner run: "
            f"grant insert, update, delete on all tables in schema {schema} to ...",
        )
    else:
        return Finding("permissions", "ok", "this user may write")
    return Finding("permissions", "problem", f"This user may not {says}.", remedy)


def _around(connection: psycopg.Connection[DictRow]) -> Iterator[Finding]:
    """Connections, replicas, and what keeps the server from cleaning up."""
    [row] = connection.execute(_SERVER).fetchall()
    if row["connections"] > row["most"] * CROWDED:
        yield Finding(
            "connections",
            "problem",
            f"{row['connections']:,} of {row['most']:,} connections are in use; who comes when there are none fails.",
            "Lower pool_size in the programs, put a pooler in front, or raise max_connections.",
        )
    else:
        yield Finding("connections", "ok", f"{row['connections']:,} of {row['most']:,} are in use")
    if not row["sees"]:
        yield Finding(
            "unseen",
            "note",
            "This role may not see what others do: their transactions and statements, and replicas, are left out.",
            "Let a superuser run: grant pg_monitor to ...",
        )
        return
    if row["replica"]:
        yield _late(f"{row['late'] or 0:,.0f} s", late=(row["late"] or 0) > LONG)
    else:
        behind = [(each["name"], each["behind"] or 0) for each in connection.execute(_LATE)]
        told = ", ".join(f"{name} by {size / 1e6:,.0f} MB" for name, size in behind) or "there are no replicas"
        yield _late(told, late=any(size > MUCH_LOG for _, size in behind))
        for slot in connection.execute(_SLOTS):
            if not slot["active"] or slot["behind"] > MUCH_LOG:
                who = "which nobody reads" if not slot["active"] else "whose reader is late"
                yield Finding(
                    "slots",
                    "problem" if slot["behind"] > MUCH_LOG else "note",
                    f"The slot {safe_repr(slot['name'])}, {who}, holds {slot['behind'] / 1e6:,.0f} MB of the log.",
                    "Let its reader catch up, or: select pg_drop_replication_slot(...); else the disk fills up.",
                )
    lasting = connection.execute(_OPEN, (LONG,)).fetchall()
    if lasting:
        told = _some(f"{each['name']} ({each['seconds']:,} s)" for each in lasting)
        yield Finding(
            "transactions",
            "problem",
            f"Transactions are open for long, and no vacuum takes what was deleted since: {told}.",
            "End them (pg_terminate_backend, rollback prepared), or have idle_in_transaction_session_timeout do it.",
        )
    else:
        yield Finding("transactions", "ok", f"none is open for more than {LONG:,.0f} s")


def _late(told: str, *, late: bool) -> Finding:
    if late:
        return Finding(
            "replication", "note", f"Replicas are behind: {told}.", "Look at their network, disks and long queries."
        )
    return Finding("replication", "ok", f"behind the primary: {told}")


def _settings(connection: psycopg.Connection[DictRow]) -> Iterator[Finding]:
    settings = {row["name"]: row["setting"] for row in connection.execute("select name, setting from pg_settings")}
    harmless = True
    for name, (level, meaning, remedy) in _HARMFUL.items():
        if settings[name] == "off":
            harmless = False
            yield Finding(name, level, f"{name} is off: {meaning}.", remedy)
    for name in _LIMITS:
        if 0 < (limit := int(settings.get(name, "0"))) < SHORT:
            harmless = False
            yield Finding(
                name,
                "note",
                f"{name} is {limit:,} ms: migrations, erasing and what else is long may fail.",
                f"alter role ... set {name} = 0 for who does that; a mere call has timeout and busy_timeout.",
            )
    if settings["default_transaction_read_only"] == "on":
        harmless = False
        yield Finding(
            "default_transaction_read_only",
            "note",
            "Transactions only read unless they say otherwise: nothing can be written.",
            "alter role ... reset default_transaction_read_only, or alter database ...",
        )
    if harmless:
        yield Finding("settings", "ok", "none is known to hurt")


def _inside(connection: psycopg.Connection[DictRow], schema: str) -> Iterator[Finding]:
    rows = connection.execute(f"select name from {schema}.agentmem_migration").fetchall()  # noqa: S608 - checked
    applied = {row["name"] for row in rows}
    known = known_schema("postgres", applied)
    yield known
    yield _indexes(connection, schema, applied)
    yield from _tables(connection, schema)
    if known.level == "ok":
        [row] = connection.execute(
            f"select (select max(written_at) from {schema}.entry) as newest, "  # noqa: S608 - checked
            f"(select coalesce(max(dimensions), 0) from {schema}.search_state) as dimensions, "
            f"(select count(*) from {schema}.search_unembedded) as waiting"
        ).fetchall()
        yield clocks(row["newest"])
        yield vectors(row["dimensions"], row["waiting"])
        yield _statements(connection, schema)


@cache
def _made() -> dict[str, tuple[str, ...]]:
    """The indexes that each migration makes."""
    return {
        each.name: tuple(re.findall(r"create (?:unique )?index (\w+)", each.sql)) for each in migrations("postgres")
    }


def _indexes(connection: psycopg.Connection[DictRow], schema: str, applied: set[str]) -> Finding:
    there = {row["name"]: row["whole"] for row in connection.execute(_INDEXES, (schema,))}
    broken = sorted(name for name, whole in there.items() if not whole)
    lacking = sorted(name for migration in applied for name in _made().get(migration, ()) if name not in there)
    if broken:
        return Finding(
            "indexes",
            "problem",
            f"Indexes are not valid, so that nothing is found by them: {_some(broken)}.",
            f"reindex index concurrently {schema}.{broken[0]}, and so on",
        )
    if lacking:
        return Finding(
            "indexes",
            "problem",
            f"Indexes are missing, so that whole tables are read: {_some(lacking)}.",
            "Make them as langchain_agentmem/storage/schema/postgres does, or restore the database from a backup.",
        )
    return Finding("indexes", "ok", f"all {len(there):,} are there and valid")


def _tables(connection: psycopg.Connection[DictRow], schema: str) -> Iterator[Finding]:
    tables = connection.execute(_TABLES, (schema,)).fetchall()
    bloated = [each for each in tables if each["dead"] > max(MANY_DEAD, (each["rows"] + each["dead"]) / 5)]
    unknown = [each["name"] for each in tables if each["unknown"] and each["rows"] > MANY_DEAD]
    neglected = [each["name"] for each in tables if each["neglected"]]
    if bloated:
        told = _some(f"{each['name']} ({each['dead']:,}, vacuumed {each['vacuumed'] or 'never'})" for each in bloated)
        yield Finding(
            "bloat",
            "note",
            f"Many rows are dead: {told}.",
            f"vacuum analyze {schema}.{bloated[0]['name']}, and so on. If it comes back: see transactions and "
            "autovacuum, or lower autovacuum_vacuum_scale_factor.",
        )
    else:
        yield Finding("bloat", "ok", f"{sum(each['dead'] for each in tables):,} dead rows")
    if unknown:
        yield Finding(
            "analyze",
            "note",
            f"The planner knows nothing of tables that were never analysed: {_some(unknown)}.",
            f"analyze {schema}.{unknown[0]}, and so on; autovacuum does it where it is on.",
        )
    if neglected:
        yield Finding(
            "neglected",
            "problem",
            f"Autovacuum is off for {_some(neglected)}.",
            f"alter table {schema}.{neglected[0]} reset (autovacuum_enabled), and so on",
        )


def _statements(connection: psycopg.Connection[DictRow], schema: str) -> Finding:
    """The slowest statements that the server has counted, or else operations that we have."""
    place = connection.execute(
        "select n.nspname as name from pg_extension e join pg_namespace n on n.oid = e.extnamespace "
        "where e.extname = 'pg_stat_statements'"
    ).fetchall()
    what, by, rows = "Statements", "pg_stat_statements", None
    if place:
        with contextlib.suppress(*_UNREADABLE), connection.transaction():
            rows = _slow(connection, _STATEMENTS, place[0]["name"])
    if rows is None:
        what, by = "Operations", "our own measures, as pg_stat_statements cannot be read"
        rows = _slow(connection, _OPERATIONS, schema)
    if not rows:
        return Finding("slow", "ok", f"nothing takes more than {SLOW:g} ms on average, by {by}")
    told = _some(f"{each['name']} ({each['mean']:,.0f} ms, {each['calls']:,} times)" for each in rows)
    return Finding(
        "slow",
        "note",
        f"{what} take more than {SLOW:g} ms on average: {told}.",
        "See what is said of bloat, analyze and indexes; then explain (analyze, buffers) tells where the time goes.",
    )


def _slow(connection: psycopg.Connection[DictRow], sql: LiteralString, schema: str) -> list[DictRow]:
    return connection.execute(psycopg.sql.SQL(sql).format(psycopg.sql.Identifier(schema)), (SLOW,)).fetchall()


def _some(names: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    return f"{', '.join(every[:NAMED])}{more}"


def _locks(connection: psycopg.Connection[DictRow]) -> Finding:
    waiting = connection.execute(_WAITING).fetchall()
    if not waiting:
        return Finding("locks", "ok", "nobody waits for a lock")
    told = ", ".join(
        f"{row['pid']} ({row['name'] or 'unnamed'}, {row['seconds']} s) for {row['others']}" for row in waiting
    )
    return Finding(
        "locks",
        "problem",
        f"Sessions wait for locks of others: {told}.",
        "If it stays: select pg_terminate_backend(...) of the one that is waited for.",
    )
