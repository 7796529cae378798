"""Query plans of a database, and the columns that its planner samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.queries import load_queries


def plan_of(memory: AgentMemory, raw: Callable[..., Any], name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the lines of the plan of a stored query, of what is given for its parameters and more."""
    dialect = memory.database.engine.dialect
    explain, column = ("explain query plan", "detail") if dialect == "sqlite" else ("explain", "QUERY PLAN")
    sql = load_queries(dialect)[name].replace(":memory", ":row")
    asked = {key: value for key, value in given.items() if f":{key}" in sql}
    return [str(row[column]) for row in raw(memory, f"{explain} {sql}", **asked)]


def sampled_columns(memory: AgentMemory, raw: Callable[..., Any]) -> set[str]:
    """Return the columns of which a PostgreSQL server samples values, but those of big integers and of floats.

    A sample outlives the rows, and may hold them compressed.
    """
    raw(memory, "analyze")
    rows = raw(
        memory,
        "select s.tablename || '.' || s.attname as sampled from pg_stats s join information_schema.columns c "
        "on (c.table_schema, c.table_name, c.column_name) = (s.schemaname, s.tablename, s.attname) "
        "where s.schemaname = 'agentmem' and c.data_type not in ('bigint', 'double precision')",
    )
    return {row["sampled"] for row in rows}
