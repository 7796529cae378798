"""Checks of a PostgreSQL database for `agentmem doctor`: version, encoding, rights, connections, schema, vectors."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.storage.engine import SCHEMA
from langchain_agentmem.storage.postgres import address_of, look_in, translated
from langchain_agentmem.storage.storage_health import Finding, content

try:
    import psycopg
    from psycopg.rows import DictRow, dict_row, tuple_row
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

OLDEST = 130_000
PATIENCE = 5.0
"""Seconds to wait for a table that another session has locked."""
CROWDED = 0.8
"""The share of the server's connections in use from which they are reported as a problem."""

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


_GRANT = "grant {}insert, update, delete "


def server(url: str, schema: str = SCHEMA) -> Iterator[Finding]:
    """Check the server and the database, as far as this role may look.

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
        yield _connections(connection)
        rows = connection.execute("select tablename from pg_tables where schemaname = %s", (schema,)).fetchall()
        tables = {row["tablename"] for row in rows}
        if not tables:
            remedy = "The first program that opens it begins it."
            yield Finding("schema", "note", "Nothing was stored here yet.", remedy)
        elif "agentmem_migration" not in tables:
            problem = f"The schema {safe_repr(schema)} is another program's."
            yield Finding("schema", "problem", problem, "Give langchain-agentmem a database of its own.")
        elif permissions.level != "problem":
            look_in(connection, schema)
            cursor = connection.cursor(row_factory=tuple_row)
            yield from content("postgres", lambda sql: cursor.execute(sql.encode()).fetchall())


def memory_schemas(url: str) -> list[str]:
    """The schemas of a database that hold a memory.

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
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        problem = f"The database stores texts as {encoding}, which lacks characters."
        yield Finding("encoding", "problem", problem, "Make it anew with encoding 'UTF8'.")


def _permissions(connection: psycopg.Connection[DictRow], schema: str) -> Finding:
    [row] = connection.execute(_RIGHTS, {"schema": schema}).fetchall()
    named, tables = safe_repr(schema), f"on all tables in schema {schema} to ..."
    uses, reads = row["uses"], row["reads"]
    for lacks, what, remedy in (
        (uses is None and not row["creates"], "make the schema", "an owner run: grant create on database ... to ..."),
        (uses is False, "use the schema", f"its owner run: grant usage on schema {schema} to ..."),
        (reads is None and row["makes"] is False, "make tables in the schema", "its owner run: agentmem migrate URL"),
        (reads is False, "read all tables of the schema", f"their owner run: {_GRANT.format('select, ')}{tables}"),
    ):
        if lacks:
            return Finding("permissions", "problem", f"This user may not {what} {named}.", f"Let {remedy}")
    if row["replica"]:
        return Finding("permissions", "note", "The server is a replica, which is only read.", "Write to the primary.")
    if row["writes"] is False:
        note = f"This user may read the tables of the schema {named}, and not write all of them."
        remedy = f"Open the memory with read_only=True, or let their owner run: {_GRANT.format('')}{tables}"
        return Finding("permissions", "note", note, remedy)
    return Finding("permissions", "ok", "this user may write")


def _connections(connection: psycopg.Connection[DictRow]) -> Finding:
    [row] = connection.execute(
        "select current_setting('max_connections')::int as most, sum(numbackends)::int as used from pg_stat_database"
    ).fetchall()
    used = f"{row['used']:,} of {row['most']:,}"
    if row["used"] > row["most"] * CROWDED:
        remedy = "Lower pool_size in the programs, put a pooler in front, or raise max_connections."
        return Finding("connections", "problem", f"{used} connections are in use; opening more will fail.", remedy)
    return Finding("connections", "ok", f"{used} are in use")
