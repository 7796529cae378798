"""The statistics of a PostgreSQL server hold nothing of what was said."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory
from tests.facts.test_sources import SECRETS, tell_secrets


@pytest.mark.sqlite_suffices
def test_the_servers_statistics_sample_nothing_of_it(new_database, raw):
    with AgentMemory(new_database("postgres")) as memory:
        tell_secrets(memory)
        for number in range(70):
            memory.facts("user").add_fact("user", SECRETS[number % 3], *SECRETS[3:5], source=f"m{number % 3}")
        raw(memory, "analyze")
        samples = raw(
            memory,
            "select s.tablename || '.' || s.attname as sampled from pg_stats s "
            "join information_schema.columns c on c.table_schema = s.schemaname "
            "and c.table_name = s.tablename and c.column_name = s.attname "
            "where s.schemaname = 'agentmem' and c.data_type not in ('bigint', 'integer') and s.tablename in "
            "('memory', 'memory_source')",
        )
    assert {row["sampled"] for row in samples} <= {"memory.kind"}
