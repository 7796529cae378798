"""Every test gets a database that is as a first opening leaves it, whatever the test before did to it."""

import sqlite3

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from tests.emptying import GROWN, direct


def held(url):
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


def use(url):
    with AgentMemory(url) as memory:
        memory.conversation("c", ("a",)).add_messages([HumanMessage(f"said {n}") for n in range(100)])
        memory.store.put(("a",), "key", {"text": "kept"})
        memory.byte_store().mset([("key", b"value")])


def on(url, *statements):
    with psycopg.connect(direct(url), autocommit=True, options="-c search_path=agentmem") as connection:
        for statement in statements:
            connection.execute(statement)


DEEDS = {
    "rows that came and went": ["delete from job", "truncate item restart identity cascade"],
    "what the migrations wrote": [
        "update search_state set analysis = 7",
        "update agentmem_migration set name = name || 'x'",
    ],
    "what the migrations wrote is gone": ["delete from search_state"],
    "a column more": ["alter table item add column more bigint"],
    "a rule more": ["alter table item add check (id > 0)"],
    "a table more": ["create table more (id bigint)"],
    "a table less": ["drop table blob"],
    "another name": ["alter table blob rename to other"],
    "an index less": ["drop index entry_content"],
    "no schema": ["drop schema agentmem cascade"],
    "what the planner sampled": ["analyze"],
    "much": [
        f"insert into token_count select 1, n::text, 1 from generate_series(1, {GROWN // 40}) n",
    ],
}


class TestPostgres:
    @pytest.mark.slow
    @pytest.mark.parametrize("deed", DEEDS)
    def test_nothing_is_left_of_a_test(self, deed, postgres_databases):
        fresh = held(postgres_databases.migrated(0))
        assert not any(rows for name, rows in fresh.items() if name in ("entry", "item", "namespace"))
        url = postgres_databases.migrated(0)
        use(url)
        on(url, *DEEDS[deed])

        assert held(postgres_databases.migrated(0)) == fresh

        with psycopg.connect(url) as connection:
            assert connection.execute("select * from pg_stats where schemaname = 'agentmem'").fetchall() == []
            [[size]] = connection.execute("select pg_total_relation_size('agentmem.token_count')").fetchall()
        assert size < GROWN

    def test_who_is_still_connected_is_not_any_more(self, postgres_databases):
        url = postgres_databases.migrated(0)
        with psycopg.connect(url) as left:
            left.execute("insert into agentmem.namespace (path) values ('never committed')")
            assert postgres_databases.migrated(0) == url
            with pytest.raises(psycopg.OperationalError):
                left.execute("select 1")

    def test_a_bare_one_holds_no_schema(self, postgres_databases):
        with psycopg.connect(postgres_databases.bare(0)) as connection:
            assert connection.execute("select 1 from pg_namespace where nspname = 'agentmem'").fetchall() == []


class TestSqlite:
    def test_it_is_migrated_and_empty(self, new_database):
        with sqlite3.connect(new_database("sqlite")) as connection:
            assert connection.execute("select count(*) from agentmem_migration").fetchone() > (0,)
            assert connection.execute("select count(*) from namespace").fetchone() == (0,)
        connection.close()

    @pytest.mark.bare
    def test_a_bare_one_is_not_there(self, new_database, tmp_path):
        assert new_database("sqlite").startswith(str(tmp_path))
        assert list(tmp_path.iterdir()) == []
