"""The servers, poolers and proxies of this folder do what they say."""

import psycopg
import pytest

from .poolers import pgbouncer, pgpool
from .servers import pair, until


def connect(url, **options):
    return psycopg.connect(url, autocommit=True, connect_timeout=5, **options)


@pytest.mark.usefixtures("needs_pgbouncer")
class TestPgBouncer:
    def test_in_transaction_mode_what_one_client_sets_another_one_has(self, server, database):
        with (
            pgbouncer(server, default_pool_size=1) as pooler,
            connect(pooler.url(database)) as one,
            connect(pooler.url(database)) as other,
        ):
            one.execute("set lock_timeout = '7s'")
            assert other.execute("show lock_timeout").fetchone() == ("7s",)

    def test_reconnecting_replaces_the_connections_to_the_server(self, server, database):
        with pgbouncer(server) as pooler, connect(pooler.url(database)) as one, pooler.reconnecting(0.1):
            pid = one.execute("select pg_backend_pid()").fetchone()
            until(lambda: one.execute("select pg_backend_pid()").fetchone() != pid, "another connection")


@pytest.mark.usefixtures("needs_pgpool")
def test_pgpool_reads_from_the_replica_and_writes_to_the_primary():
    with (
        pair() as both,
        pgpool(both.primary, both.replica, load_balance=True, backend_weight0="0") as pooler,
        connect(pooler.url()) as one,
    ):
        one.execute("create table t (n int)")
        one.execute("insert into t values (1)")
        both.catch_up()
        assert one.execute("select n, inet_server_port() from t").fetchall() == [(1, both.replica.port)]
