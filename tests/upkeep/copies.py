"""Helpers that copy and compare databases."""

from contextlib import closing

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import open_engine
from langchain_agentmem.storage.transfer import TABLES, open_rows


def rows(url: str) -> dict:
    """Everything that is stored but the index."""
    with closing(open_engine(url)) as engine, open_rows(engine) as found:
        return {table.name: list(found.table_rows(table)[1]) for table in TABLES}


def copied(source: str, target: str, **options):
    with AgentMemory(source) as memory:
        return memory.admin.copy(target, **options)


def same(one: str, other: str) -> bool:
    """Return whether two databases have equal content, except for audit entries that were indexed since."""
    mine, theirs = rows(one), rows(other)
    moving = {"audit", "audit_head", "search_series", "search_document", "search_scope"}
    return {name: mine[name] for name in mine if name not in moving} == {
        name: theirs[name] for name in theirs if name not in moving
    }
