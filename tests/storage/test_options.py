"""How a database is opened: by whom, where, with how many connections, and what this opening may do."""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import psycopg
import psycopg_pool
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore
from langchain_agentmem.errors import DatabaseBusy, DatabaseReadOnly, InvalidInput, StorageError
from langchain_agentmem.storage import engine
from langchain_agentmem.storage.postgres_health import server
from tests import everything
from tests.checkpoints.graphs import at, chat_graph
from tests.emptying import direct
from tests.forking import COMMAND
from tests.pages import blocks_of

pytestmark = pytest.mark.bare


def say(memory, *said, conversation="c"):
    memory.conversation(conversation).add_messages([HumanMessage(text) for text in said])


def said(memory, conversation="c"):
    return [message.text for message in memory.conversation(conversation).messages]


@pytest.fixture
def postgres(new_database):
    """An empty database, in which other schemas than ours are not left."""
    url = new_database("postgres")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema if exists one, two, tenant, ada cascade")
        connection.execute("drop table if exists public.mine")


class TestWrongOptions:
    @pytest.mark.parametrize(
        "option",
        [
            {"schema": "Agent"}, {"schema": "a; drop table x"}, {"schema": "pg_x"}, {"schema": ""}, {"schema": 1},
            {"pool_size": 0}, {"pool_size": True}, {"pool_size": "10"}, {"timeout": -1}, {"timeout": "60"},
            {"timeout": float("nan")}, {"timeout": 604_801}, {"timeout": 1e12}, {"busy_timeout": None},
            {"read_only": 1}, {"migrate": None},
        ],
    )  # fmt: skip
    def test_they_are_refused_before_anything_is_made(self, url, tmp_path, option):
        with pytest.raises(InvalidInput, match=next(iter(option))):
            AgentMemory(url, **option)
        assert not list(tmp_path.glob("*.db"))

    @pytest.mark.parametrize("option", [{"schema": "other"}, {"pool_size": 3}])
    def test_what_only_postgres_has(self, tmp_path, option):
        with pytest.raises(InvalidInput, match="PostgreSQL"):
            AgentMemory(tmp_path / "memory.db", **option)


class TestSchema:
    @pytest.mark.slow
    def test_two_schemas_of_a_database_know_nothing_of_each_other(self, postgres):
        with AgentMemory(postgres, schema="one") as one, AgentMemory(postgres, schema="two") as two:
            everything.fill(one)
            say(two, "only here")
            assert two.search("heron", everything=True) == []
            assert [each.text for each in two.search("here", everything=True)] == ["only here"]
            assert one.admin.verify().problems == two.admin.verify().problems == ()
            assert two.admin.stats()["messages"] == 1
            with psycopg.connect(postgres) as connection:
                rows = connection.execute(
                    "select nspname from pg_namespace where nspname in ('one', 'two', 'agentmem')"
                )
                assert sorted(rows.fetchall()) == [("one",), ("two",)]

    def test_parts_that_are_opened_alone_take_the_same_options(self, postgres):
        with AgentMemory(postgres, schema="one") as memory:
            memory.store.put(("a",), "k", {"n": 1})
            chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("heron")]}, at("t"))
        with AgentMemoryStore.from_conn_string(postgres, schema="one", read_only=True) as store:
            assert store.get(("a",), "k").value == {"n": 1}
            with pytest.raises(DatabaseReadOnly):
                store.put(("a",), "k", {"n": 2})
        with AgentMemorySaver.from_conn_string(postgres, schema="one", pool_size=1) as saver:
            assert saver.get_tuple(at("t")) is not None
        for part in (AgentMemoryStore, AgentMemorySaver):
            with pytest.raises(TypeError, match="shema"):
                part.from_conn_string(postgres, shema="one")

    def test_erasing_in_one_leaves_the_other(self, postgres):
        with AgentMemory(postgres, schema="one") as one, AgentMemory(postgres, schema="two") as two:
            say(one, "heron")
            say(two, "heron")
            one.erase(namespace=())
            assert (said(one), said(two)) == ([], ["heron"])


def pool_of(url, size):
    kept = {"prepare_threshold": None}  # as its owner has to say to psycopg behind a pooler
    return psycopg_pool.ConnectionPool(url, min_size=1, max_size=size, open=True, kwargs=kept)


class TestNames:
    def test_a_word_of_sql_is_no_name_of_a_schema(self, postgres):
        with pytest.raises(InvalidInput, match="word of SQL"):
            AgentMemory(postgres, schema="select")


class TestPools:
    def test_one_connection_is_enough(self, postgres):
        with AgentMemory(postgres, pool_size=1) as memory, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: say(memory, f"heron {n}"), range(40)))
            assert len(memory.search("heron", limit=100)) == 40
            assert len(memory.database.engine._pool._idle) == 1

    def test_when_it_is_in_use_for_too_long_one_hears_why(self, postgres):
        with AgentMemory(postgres, pool_size=1, busy_timeout=0.1) as memory:
            session = memory.database.engine._pool.take()
            with pytest.raises(DatabaseBusy, match="connections"):
                say(memory, "heron")
            memory.database.engine._pool.give_back(session)

    @pytest.mark.slow
    def test_a_pool_of_ones_own_is_used_and_never_closed(self, postgres):
        with pool_of(postgres, 3) as pool:
            with AgentMemory(pool) as memory:
                everything.fill(memory)
                graph = chat_graph(memory.checkpointer)
                graph.invoke({"messages": [HumanMessage("a heron")]}, at("t"))
                with ThreadPoolExecutor(8) as threads:
                    list(threads.map(lambda n: say(memory, f"quince {n}", conversation="many"), range(40)))
                assert len(said(memory, "many")) == 40
                assert memory.admin.verify().problems == ()
                told = memory.admin.stats()["pool"]
                assert (told["size"], told["in_use"] + told["idle"]) == (3, 3)
                memory.erase(conversation_id="many")
            assert not pool.closed
            for _ in range(4):
                with pool.connection() as connection:
                    assert not connection.autocommit
                    assert connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF
                    assert connection.execute("show search_path").fetchone() == ('"$user", public',)
                    assert connection.execute("show lock_timeout").fetchone() == ("0",)
            with AgentMemory(pool) as memory:
                assert said(memory, "many") == []

    async def test_it_serves_what_is_awaited_and_its_owner_at_once(self, postgres):
        with pool_of(postgres, 2) as pool, AgentMemory(pool) as memory:
            with pool.connection() as connection:
                connection.execute("create table mine (n int)")

            def owner():
                with pool.connection() as connection:
                    connection.execute("insert into mine values (1)")

            async def one(number):
                await memory.conversation("c").aadd_messages([HumanMessage(f"heron {number}")])
                await asyncio.to_thread(owner)

            await asyncio.gather(*(one(number) for number in range(20)))
            assert len(said(memory)) == 20
            with pool.connection() as connection:
                assert connection.execute("select count(*) from public.mine").fetchone() == (20,)

    def test_a_pool_that_is_exhausted_is_told(self, postgres):
        with pool_of(postgres, 1) as pool, AgentMemory(pool, busy_timeout=0.2) as memory:
            with pool.connection(), pytest.raises(DatabaseBusy, match="pool"):
                say(memory, "heron")
            say(memory, "heron")

    def test_a_connection_that_was_lost_is_replaced(self, postgres):
        with (
            psycopg_pool.ConnectionPool(postgres, min_size=1, max_size=1, open=True) as pool,
            AgentMemory(pool) as memory,
        ):
            say(memory, "one")
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()"
                )
            say(memory, "two")
            assert said(memory) == ["one", "two"]

    def test_whatever_wants_a_connection_says_that_a_pool_is_exhausted(self, postgres, tmp_path):
        with pool_of(postgres, 1) as pool, AgentMemory(pool, busy_timeout=0.2) as memory, pool.connection():
            for call in (memory.admin.stats, lambda: memory.admin.copy(tmp_path / "copy.db")):
                with pytest.raises(DatabaseBusy, match="pool"):
                    call()

    def test_one_that_would_garble_texts_is_refused(self, postgres):
        kept = {"prepare_threshold": None, "client_encoding": "latin1"}
        with psycopg_pool.ConnectionPool(postgres, min_size=1, open=True, kwargs=kept) as pool:
            with pytest.raises(StorageError, match=r"(?i)LATIN1.*client_encoding"):
                AgentMemory(pool)
            assert pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"]

    @pytest.mark.parametrize("encoding", ["utf8", "UTF-8", "unicode"])
    def test_one_in_utf_8_is_used_however_that_is_spelt(self, postgres, encoding):
        kept = {"prepare_threshold": None, "client_encoding": encoding}
        with (
            psycopg_pool.ConnectionPool(postgres, min_size=1, open=True, kwargs=kept) as pool,
            AgentMemory(pool) as memory,
        ):
            say(memory, "größe")
            assert said(memory) == ["größe"]

    async def test_one_whose_connections_are_awaited_is_refused(self, postgres):
        with pytest.raises(InvalidInput, match="ConnectionPool"):
            AgentMemory(psycopg_pool.AsyncConnectionPool(postgres, open=False))

    def test_a_fork_leaves_the_pool_of_its_parent_alone(self, postgres):
        with pool_of(postgres, 1) as pool, AgentMemory(pool) as memory:
            say(memory, "one")
            child = os.fork()
            if child == 0:
                try:
                    say(memory, "never")
                except StorageError as error:
                    os._exit("fork" in str(error))
                os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            say(memory, "two")
            assert said(memory) == ["one", "two"]


class TestReadOnly:
    @pytest.mark.slow
    def test_everything_is_read_and_nothing_written(self, url):
        with AgentMemory(url) as memory:
            everything.fill(memory)
            say(memory, "a heron", conversation="of herons")
        with AgentMemory(url, read_only=True) as memory:
            assert said(memory, "of herons") == ["a heron"]
            assert len(memory.search("heron", everything=True)) == 10
            assert memory.store.get(("docs", "ana"), "one").value["n"] == 1.5
            assert list(memory.checkpointer.list(None))
            assert memory.admin.stats()["messages"] > 0
            assert memory.admin.verify().problems == ()
            for write in (
                lambda: say(memory, "no"),
                lambda: memory.store.put(("a",), "k", {"v": 1}),
                lambda: memory.erase(namespace=()),
                lambda: memory.layers().core.set("k", "v"),
                lambda: chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("no")]}, at("new")),
            ):
                with pytest.raises(DatabaseReadOnly, match="read_only"):
                    write()
            assert said(memory, "of herons") == ["a heron"]

    def test_nothing_is_made(self, url, tmp_path):
        with pytest.raises(DatabaseReadOnly):
            AgentMemory(url, read_only=True)
        assert not list(tmp_path.glob("*.db"))

    def test_a_standby_can_be_read(self, postgres):
        """What a server says that only reads, without being told."""
        with AgentMemory(postgres) as memory:
            say(memory, "a heron")
        separator = "&" if "?" in postgres else "?"
        standby = f"{direct(postgres)}{separator}options=-cdefault_transaction_read_only%3Don"
        with AgentMemory(standby, read_only=True) as memory:
            assert said(memory) == ["a heron"]


class TestMigrating:
    @pytest.mark.slow
    def test_it_is_left_to_others(self, url, tmp_path, forks):
        with pytest.raises(DatabaseReadOnly, match="agentmem migrate" if url.startswith("postgres") else "makes none"):
            AgentMemory(url, migrate=False)
        assert not list(tmp_path.glob("*.db"))
        done = forks.run(COMMAND, "migrate", url)
        assert engine.newest_migration("sqlite") in done.stdout
        with AgentMemory(url, migrate=False) as memory:
            say(memory, "a heron")
            assert said(memory) == ["a heron"]

    def test_an_older_database_is_refused(self, url, monkeypatch):
        engine_of(url)
        every, later = engine.migrations, engine.Migration("0999_later", "create table later (id integer);")
        monkeypatch.setattr(engine, "migrations", lambda dialect: (*every(dialect), later))
        for option in ({"migrate": False}, {"read_only": True}):
            with pytest.raises(DatabaseReadOnly, match="older version"):
                AgentMemory(url, **option)
        AgentMemory(url).close()
        AgentMemory(url, migrate=False, read_only=True).close()

    def test_a_schema_of_ones_own(self, postgres, forks):
        forks.run(COMMAND, "migrate", postgres, "--schema", "tenant")
        with AgentMemory(postgres, schema="tenant", migrate=False) as memory:
            say(memory, "a heron")


def engine_of(url):
    from langchain_agentmem.storage import open_engine

    open_engine(url).close()


ONE_SCHEMA, *_, ROLES = blocks_of("docs/postgresql.md", "sql")


class TestRoles:
    @pytest.fixture
    def roles(self, postgres):
        """An owner of the schema, and a user who may use its rows; neither may make schemas."""
        with psycopg.connect(postgres, autocommit=True) as connection:
            [name] = connection.execute("select current_database()").fetchone()
            owner, user = f"owner_{name}", f"user_{name}"
            connection.execute(f"revoke create on database {name} from public")
            connection.execute(ROLES.replace("memory_owner", owner).replace("memory_user", user))
        parts = psycopg.conninfo.conninfo_to_dict(postgres)
        yield tuple(psycopg.conninfo.make_conninfo(**{**parts, "user": role}) for role in (owner, user))
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("drop schema agentmem cascade")
            connection.execute(f"drop owned by {owner}, {user}")
            connection.execute(f"drop role {owner}, {user}")

    def test_a_role_of_one_schema_sees_nothing_else(self, postgres):
        for schema in ("agentmem", "ada"):
            with AgentMemory(postgres, schema=schema) as memory:
                say(memory, f"herons of {schema}")
        with psycopg.connect(postgres, autocommit=True) as connection:
            [name] = connection.execute("select current_database()").fetchone()
            role = f"ada_{name}"
            connection.execute(ONE_SCHEMA.replace("ada_user", role))
        try:
            url = psycopg.conninfo.make_conninfo(postgres, user=role)
            with AgentMemory(url, schema="ada", migrate=False) as memory:
                say(memory, "and quinces")
                assert said(memory) == ["herons of ada", "and quinces"]
                assert len(memory.search("herons quinces", everything=True)) == 2
                memory.layers().core.set("k", "v")
            with psycopg.connect(url, autocommit=True) as connection:
                for table in ("namespace", "content", "entry"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute(f"select * from agentmem.{table}")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("create schema mine")
        finally:
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(f"drop owned by {role}")
                connection.execute(f"drop role {role}")

    def test_who_may_only_write_rows_can_do_everything(self, roles, caplog):
        owner, user = roles
        with pytest.raises(DatabaseReadOnly, match=r"role.*agentmem migrate URL"):
            AgentMemory(user)
        AgentMemory(owner).close()
        with AgentMemory(user, migrate=False) as memory:
            everything.fill(memory)
            chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("a heron")]}, at("t"))
            assert memory.search("heron", everything=True)
            assert memory.admin.verify().problems == ()
            memory.erase(conversation_id="c")
            memory.erase(namespace=())
            assert "VACUUM FULL" in caplog.text
            assert memory.admin.verify().problems == ()

    def test_who_may_not_look_into_the_schema_is_told(self, roles):
        owner, user = roles
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(f"revoke all on schema agentmem from {name_of(user)}")
        with pytest.raises(DatabaseReadOnly, match="role"):
            AgentMemory(user)
        AgentMemory(owner).close()
        for options in ({}, {"migrate": False}, {"read_only": True}):
            with pytest.raises(DatabaseReadOnly, match="role"):
                AgentMemory(user, **options)

    def test_doctor_says_what_a_role_may_not_do(self, roles):
        owner, user = roles
        assert "make tables" in permissions_of(user)
        AgentMemory(owner).close()
        assert permissions_of(user) == "this user may write"
        for revoked, told in (
            ("insert on agentmem.entry", "and not write all"),
            ("select on agentmem.entry", "may not read all tables"),
            ("all on schema agentmem", "may not use the schema"),
        ):
            with psycopg.connect(owner, autocommit=True) as connection:
                connection.execute(f"revoke {revoked} from {name_of(user)}")
            assert told in permissions_of(user)


def name_of(role):
    return psycopg.conninfo.conninfo_to_dict(role)["user"]


def permissions_of(url):
    findings = {finding.name: finding for finding in server(url)}
    assert "connection" not in findings
    return findings["permissions"].text


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
    def test_others_than_utf_8_are_refused(self, postgres_server, encoding):
        name = f"in_{encoding.lower()}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"drop database if exists {name}")
            connection.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
            try:
                parts = psycopg.conninfo.conninfo_to_dict(postgres_server) | {"dbname": name}
                with pytest.raises(StorageError, match="UTF8"):
                    AgentMemory(psycopg.conninfo.make_conninfo(**parts))
                findings = list(server(psycopg.conninfo.make_conninfo(**parts)))
                assert [each.level for each in findings if each.name == "encoding"] == ["problem"]
            finally:
                with contextlib.suppress(psycopg.Error):
                    connection.execute(f"drop database {name}")
