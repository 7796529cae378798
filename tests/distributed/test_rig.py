"""The servers, poolers and proxies of this folder do what they say."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from .poolers import pgbouncer, pgpool
from .proxy import proxy
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

    def test_in_statement_mode_there_are_no_transactions(self, server, database):
        with (
            pgbouncer(server, pool_mode="statement") as pooler,
            connect(pooler.url(database)) as one,
            pytest.raises(psycopg.Error, match="statement pooling mode"),
        ):
            one.execute("begin")

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


class TestPair:
    @pytest.mark.parametrize("synchronous", [False, True])
    def test_the_replica_takes_over_what_was_written(self, synchronous):
        with pair(synchronous=synchronous) as both:
            with connect(both.url()) as one:
                one.execute("create table t (n int)")
                one.execute("insert into t values (1)")
            if not synchronous:
                both.catch_up()
            both.fail_over()
            with connect(both.url()) as one:
                one.execute("insert into t values (2)")
                assert one.execute("select array_agg(n) from t").fetchone() == ([1, 2],)

    def test_a_server_comes_back_with_what_it_had(self, server, database):
        server.run_sql("create table t (n int)", database)
        server.kill()
        server.start()
        server.run_sql("insert into t values (1)", database)
        server.stop()
        server.start()
        assert server.run_sql("select n from t", database) == [(1,)]


def test_a_process_of_the_server_stands_still(server, database):
    with connect(server.url(database)) as one, ThreadPoolExecutor(1) as executor:
        with server.held(one.info.backend_pid):
            answer = executor.submit(one.execute, "select 1")
            time.sleep(0.3)
            assert not answer.done()
        assert answer.result(10).fetchone() == (1,)


class TestProxy:
    @pytest.fixture
    def between(self, server, database):
        server.run_sql("create table t (n int)", database)
        with proxy(server.port) as between:
            yield between

    def count(self, server, database):
        [(count,)] = server.run_sql("select count(*) from t", database)
        return count

    def test_a_black_hole_answers_nothing_and_closes_nothing(self, between, database):
        with connect(between.url(database)) as one, ThreadPoolExecutor(1) as executor:
            with between.black_hole():
                answer = executor.submit(one.execute, "select 1")
                time.sleep(0.3)
                assert not answer.done()
            assert answer.result(10).fetchone() == (1,)

    def test_delays(self, between, database):
        with connect(between.url(database)) as one:
            between.delay = 0.2
            began = time.monotonic()
            one.execute("select 1")
            assert time.monotonic() - began > 0.4

    def test_cuts(self, between, database):
        with connect(between.url(database)) as one:
            between.cut()
            with pytest.raises(psycopg.OperationalError):
                one.execute("select 1")

    @pytest.mark.parametrize("prepared", [False, True])
    @pytest.mark.parametrize("reaching", [False, True])
    def test_cuts_at_a_commit(self, between, server, database, prepared, reaching):
        with connect(between.url(database)) as one:
            for number in (1, 2):
                one.execute("begin")
                one.execute("insert into t values (1)")
                if number == 2:
                    between.cut_at_commit(reaching=reaching)
                    with pytest.raises(psycopg.OperationalError):
                        one.execute("commit", prepare=prepared)
                else:
                    one.execute("commit", prepare=prepared)
        assert between.cuts == 1
        until(lambda: self.count(server, database) == 1 + reaching, "the rows that were committed")
