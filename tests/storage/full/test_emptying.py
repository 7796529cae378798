"""Every test gets a database in the state after its first opening."""

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from tests.emptying import GROWN, direct


def rows_and_identities(url):
    """All rows of all tables and the next value of each identity, as far as they do not tell when it was migrated."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "select relname, relkind from pg_class where relnamespace = 'agentmem'::regnamespace "
            "and relkind in ('r', 'S') order by relname"
        ).fetchall()
        named = {
            name: "select last_value, is_called from agentmem.%s"
            if kind == "S"
            else "select t::text from agentmem.%s t"
            for name, kind in tables
        } | {"agentmem_migration": "select name from agentmem.%s order by name"}
        return {name: connection.execute(query % f'"{name}"').fetchall() for name, query in named.items()}


CHANGES = (
    "update search_state set analysis = 7; update agentmem_migration set name = name || 'x'",
    "delete from search_state; truncate item restart identity cascade",
    "alter table item add column more bigint",
    "drop index entry_content",
    "create table more (id bigint)",
    "drop schema agentmem cascade",
    "analyze",
    f"insert into content (hash, body) select n::text::bytea, 'x' from generate_series(1, {GROWN // 40}) n",
)


@pytest.mark.slow("in every form")
def test_database_is_reset_completely_between_tests(postgres_databases):
    fresh = rows_and_identities(postgres_databases.migrated(0))
    assert not any(rows for name, rows in fresh.items() if name in ("entry", "item", "namespace"))
    for deed in CHANGES:
        url = postgres_databases.migrated(0)
        with AgentMemory(url) as memory:
            memory.conversation("c", ("a",)).add_messages([HumanMessage(f"said {n}") for n in range(100)])
            memory.store.put(("a",), "key", {"text": "kept"})
        with psycopg.connect(direct(url), autocommit=True, options="-c search_path=agentmem") as connection:
            connection.execute(deed)
        assert rows_and_identities(postgres_databases.migrated(0)) == fresh, deed
        with psycopg.connect(url) as connection:
            sampled = "select * from pg_stats where schemaname = 'agentmem'"
            assert connection.execute(sampled).fetchall() == [], deed
            [[size]] = connection.execute("select pg_total_relation_size('agentmem.content')").fetchall()
        assert size < GROWN
