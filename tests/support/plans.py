"""How a database looks something up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.queries import load


def plan_of(memory: AgentMemory, raw: Callable[..., Any], name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the lines of the plan of a stored query, of what is given for its parameters and more."""
    dialect = memory.database.engine.dialect
    explain, column = ("explain query plan", "detail") if dialect == "sqlite" else ("explain", "QUERY PLAN")
    sql = load(dialect)[name].replace(":memory", ":row")
    asked = {key: value for key, value in given.items() if f":{key}" in sql}
    return [str(row[column]) for row in raw(memory, f"{explain} {sql}", **asked)]
