"""Sources in databases of PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore

from tests.checkpoints.graphs import at, chat_graph
from tests.emptying import direct
from tests.importers.sources import LETTA_TABLES

pytestmark = pytest.mark.sqlite_suffices


def clear(url):
    """Leave nothing of PostgresSaver for the tests that get this database next."""
    tables = "checkpoints, checkpoint_blobs, checkpoint_writes, checkpoint_migrations"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"drop table if exists {tables}")


class TestSavers:
    def test_threads_of_postgresql_come_one_by_one(self, memory, new_database):
        url = direct(new_database("postgres"))
        clear(url)
        try:
            with PostgresSaver.from_conn_string(url) as theirs:
                theirs.setup()
                for thread in ("ada", "bob"):
                    chat_graph(theirs).invoke({"messages": [HumanMessage("Hi")]}, at(thread))
            told = []
            report = memory.import_from("langgraph-saver", url, progress=told.append)
        finally:
            clear(url)
        assert [each.doing for each in told] == ["the thread 'ada'", "the thread 'bob'"]
        assert told[-1].done == told[-1].total == report.added["checkpoints"]


class TestStores:
    def test_a_store_of_postgresql_is_read_from_its_tables(self, memory, new_database):
        url = direct(new_database("postgres"))
        drop = "drop table if exists store, store_migrations, vector_migrations"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(drop)
            try:
                with PostgresStore.from_conn_string(url) as theirs:
                    theirs.setup()
                    theirs.put(("users", "ada"), "bird", {"text": "likes herons"}, ttl=90)
                report = memory.import_from("langgraph-store", url)
            finally:
                connection.execute(drop)
        assert report.added == {"items": 1}
        assert memory.store.get(("users", "ada"), "bird").value == {"text": "likes herons"}


class TestTables:
    def test_tables_of_postgresql_come_with_their_times(self, memory, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop table if exists chat")
            connection.execute(
                "create table chat (id serial primary key, session_id uuid, message jsonb, created_at timestamptz)"
            )
            session = "0b0f4e8e-8d4b-4cb6-8b1c-2d9f3f6c2f10"
            for message in (HumanMessage("Hi"), AIMessage("Hello")):
                told = json.dumps(message_to_dict(message))
                values = (session, told, datetime(2025, 5, 1, tzinfo=UTC))
                connection.execute("insert into chat (session_id, message, created_at) values (%s, %s, %s)", values)
            try:
                report = memory.import_from("chat-history", url.replace("postgresql://", "postgresql+psycopg://"))
            finally:
                connection.execute("drop table chat")
        assert report.added == {"messages": 2}
        [listed] = memory.conversations()
        assert (listed.conversation_id, listed.last_at.year) == (session, 2025)


class TestTheServer:
    def test_it_is_read_on_postgresql(self, memory, new_database):
        url = direct(new_database("postgres"))
        script = LETTA_TABLES.replace("datetime", "timestamptz").replace("blob", "bytea")
        names = ("agents", "block", "blocks_agents", "messages", "archival_passages", "archives_agents")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script)
            try:
                report = memory.import_from("letta", url)
            finally:
                connection.execute(f"drop table {', '.join(names)}")
        assert report.added == {"messages": 1, "memories": 1}
