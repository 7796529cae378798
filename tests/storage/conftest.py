"""Databases that were opened, and an engine with statements for a table of numbers."""

import psycopg
import pytest

from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.postgres import PostgresEngine, prepare_query


@pytest.fixture
def engine(new_database):
    engine = PostgresEngine(new_database("postgres"))
    extra = {
        "add": "insert into blob_test (n) values (:n)",
        "all": "select n from blob_test order by n",
        "echo": "select cast(:a as bigint) as a, cast(:b as text) as b, cast(:c as bytea) as c,"
        " cast(:d as float8) as d, cast(:e as boolean) as e",
    }
    engine._sql = dict(engine._sql) | {name: prepare_query(sql) for name, sql in extra.items()}
    with psycopg.connect(engine._url, autocommit=True) as connection:
        connection.execute("create table agentmem.blob_test (n bigint primary key)")
    yield engine
    engine.close()


@pytest.fixture
def postgres(new_database):
    """An empty database, in which other schemas than ours are not left."""
    url = new_database("postgres")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema if exists one, two, tenant, ada cascade")
        connection.execute("drop table if exists public.mine")


@pytest.fixture
def opened(url):
    """Opens the database, as often as one asks; each is closed at the end."""
    databases = []

    def open_():
        databases.append(Database(url))
        return databases[-1]

    yield open_
    for database in databases:
        database.close()


@pytest.fixture
def database(opened):
    return opened()
