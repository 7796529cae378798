"""What may be wrong around a PostgreSQL database: the server, its clock, who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Iterator

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.storage.engine import SCHEMA
from langchain_agentmem.storage.postgres import address_of, translated
from langchain_agentmem.storage.postgres_copy import STAGE
from langchain_agentmem.storage.storage_health import Finding, clocks, known_schema, vectors

try:
    import psycopg
    from psycopg.rows import DictRow, dict_row
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

OLDEST = 130_000
APART = 5.0
"""Seconds by which the server's clock may differ from ours."""
PATIENCE = 5.0
"""Seconds to wait for a table that somebody else has locked."""

_WAITING = """
    select a.pid, a.application_name as name, extract(epoch from now() - a.query_start)::bigint as seconds,
        array_to_string(pg_blocking_pids(a.pid), ', ') as others
    from pg_stat_activity a
    where a.datname = current_database() and cardinality(pg_blocking_pids(a.pid)) > 0
"""


def server(url: str) -> Iterator[Finding]:
    """The server and the database, as far as this user may look.

    Args:
        url: A `postgresql://` URL, or a connection string.

    Raises:
        DatabaseBusy: Somebody else has locked a table.
        StorageError: The server cannot be reached.
    """
    path = address_of(url)
    with (
        translated(path),
        psycopg.connect(url, autocommit=True, row_factory=dict_row, connect_timeout=10) as connection,
        connection.transaction(),  # behind a pooler settings are nobody's own for longer
    ):
        connection.execute("select set_config('lock_timeout', %s, true)", (f"{PATIENCE * 1000:.0f}ms",))
        yield from _itself(connection)
        rows = connection.execute("select tablename from pg_tables where schemaname = %s", (SCHEMA,)).fetchall()
        tables = {row["tablename"] for row in rows}
        if tables and "agentmem_migration" not in tables:
            yield Finding(
                "schema",
                "problem",
                f"The schema {safe_repr(SCHEMA)} is another program's.",
                "Give langchain-agentmem a database of its own.",
            )
        elif not tables:
            yield Finding(
                "schema", "note", "Nothing was stored here yet.", "The first program that opens it begins it."
            )
        else:
            yield from _inside(connection)
        if connection.execute("select to_regnamespace(%s) is not null as there", (STAGE,)).fetchall()[0]["there"]:
            yield Finding(
                "interrupted",
                "note",
                f"The schema {STAGE} is what an interrupted copy to this place left.",
                f"Run the copy again, which goes on where it was, or: drop schema {STAGE} cascade",
            )
        yield _locks(connection)


def _itself(connection: psycopg.Connection[DictRow]) -> Iterator[Finding]:
    number, version = connection.info.server_version, connection.info.parameter_status("server_version")
    if number < OLDEST:
        yield Finding("postgresql", "problem", f"PostgreSQL {version} is too old.", "Use 13 or newer.")
    else:
        yield Finding("postgresql", "ok", f"PostgreSQL {version}")
    [row] = connection.execute(
        "select pg_is_in_recovery() as replica, "
        "has_database_privilege(current_database(), 'create') as creates, "
        "has_schema_privilege(to_regnamespace(%s), 'usage') as uses, "
        "extract(epoch from clock_timestamp())::float8 as time, "
        "(select count(*) from pg_extension where extname = 'vector') as pgvector, "
        "(select count(*) from pg_available_extensions where name = 'vector') as offered",
        (SCHEMA,),
    ).fetchall()
    if row["replica"]:
        yield Finding("permissions", "note", "The server is a replica, which is only read.", "Write to the primary.")
    elif row["uses"] is None and not row["creates"]:
        yield Finding(
            "permissions",
            "problem",
            f"This user may not make the schema {safe_repr(SCHEMA)}.",
            "Let an owner run: grant create on database ... to ...",
        )
    elif row["uses"] is False:
        yield Finding(
            "permissions",
            "problem",
            f"This user may not use the schema {safe_repr(SCHEMA)}.",
            f"Connect as the user who made it, or let that user run: grant all on schema {SCHEMA} to ...",
        )
    else:
        yield Finding("permissions", "ok", "this user may write")
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


def _inside(connection: psycopg.Connection[DictRow]) -> Iterator[Finding]:
    rows = connection.execute(f"select name from {SCHEMA}.agentmem_migration").fetchall()  # noqa: S608 - our own name
    schema = known_schema("postgres", {row["name"] for row in rows})
    yield schema
    if schema.level == "ok":
        [row] = connection.execute(
            f"select (select max(written_at) from {SCHEMA}.entry) as newest, "  # noqa: S608 - our own name
            f"(select coalesce(max(dimensions), 0) from {SCHEMA}.search_state) as dimensions, "
            f"(select count(*) from {SCHEMA}.search_unembedded) as waiting"
        ).fetchall()
        yield clocks(row["newest"])
        yield vectors(row["dimensions"], row["waiting"])


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
