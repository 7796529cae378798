"""The suites of PostgreSQL pass on Citus, unchanged."""

import contextlib

import psycopg
import pytest

from tests.emptying import PostgresDatabases

from .on_citus import SUITES, run

LONG = {"checkpointer"}
"""What takes a quarter of an hour there, and is run before a release: `pytest -m deep tests/distributed`."""


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "arguments",
    [pytest.param(each, id=name, marks=[pytest.mark.deep] * (name in LONG)) for name, each in SUITES.items()],
)
def test_postgres_suites_pass_on_citus(coordinator, arguments):
    assert run(coordinator, arguments) == 0


def test_every_table_is_distributed(coordinator):
    with contextlib.closing(PostgresDatabases(coordinator)) as databases, psycopg.connect(databases.migrated(0)) as one:
        tables = one.execute("select count(*) from pg_tables where schemaname = 'agentmem'").fetchone()
        placed = one.execute("select count(*) from citus_shards where citus_table_type = 'schema'").fetchone()
        assert placed == tables > (0,)
