"""Sources in databases of PostgreSQL."""

import json
from datetime import UTC, datetime

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict
from langgraph.store.postgres import PostgresStore

from tests.emptying import direct
from tests.importers.sources import LETTA_TABLES

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def server(new_database):
    """A database in whose public schema other programs may have tables, and a connection to it."""
    url = direct(new_database("postgres"))
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        assert found == []
        yield url, connection
        for (table,) in connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall():
            connection.execute(f"drop table if exists {table} cascade")


def test_postgres_store_is_imported(memory, server):
    with PostgresStore.from_conn_string(server[0]) as theirs:
        theirs.setup()
        theirs.put(("users", "ada"), "bird", {"text": "likes herons"}, ttl=90)
    assert memory.import_from("langgraph-store", server[0]).added == {"items": 1}
    assert memory.store.get(("users", "ada"), "bird").value == {"text": "likes herons"}


def test_postgres_chat_history_keeps_times(memory, server):
    url, connection = server
    connection.execute(
        "create table chat (id serial primary key, session_id uuid, message jsonb, created_at timestamptz)"
    )
    session = "0b0f4e8e-8d4b-4cb6-8b1c-2d9f3f6c2f10"
    for message in (HumanMessage("Hi"), AIMessage("Hello")):
        values = (session, json.dumps(message_to_dict(message)), datetime(2025, 5, 1, tzinfo=UTC))
        connection.execute("insert into chat (session_id, message, created_at) values (%s, %s, %s)", values)
    report = memory.import_from("chat-history", url.replace("postgresql://", "postgresql+psycopg://"))
    assert report.added == {"messages": 2}
    [listed] = memory.conversations()
    assert (listed.conversation_id, listed.last_at.year) == (session, 2025)


def test_letta_server_on_postgresql_is_imported(memory, server):
    url, connection = server
    connection.execute(LETTA_TABLES.replace("datetime", "timestamptz").replace("blob", "bytea"))
    assert memory.import_from("letta", url).added == {"messages": 1, "memories": 1}
