"""Servers, roles and external connection pools."""

import asyncio
import contextlib

import psycopg
import psycopg_pool
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, StorageError
from langchain_agentmem.storage import engine
from langchain_agentmem.upkeep.integrity import diagnose
from tests import everything
from tests.checkpoints.graphs import at, chat_graph
from tests.forking import COMMAND
from tests.pages import blocks_of
from tests.storage.sessions import add_texts, pool_of, texts_of

pytestmark = pytest.mark.bare


class TestPools:
    @pytest.mark.slow
    async def test_given_pool_is_used_and_never_closed(self, postgres):
        with pool_of(postgres, 3) as pool:
            with AgentMemory(pool) as memory:
                everything.fill(memory)
                graph = chat_graph(memory.checkpointer)
                graph.invoke({"messages": [HumanMessage("a heron")]}, at("t"))
                with pool.connection() as connection:
                    connection.execute("create table mine (n int)")

                async def one(number):
                    await memory.conversation("many").aadd_messages([HumanMessage(f"quince {number}")])
                    with pool.connection() as connection:  # its owner uses it meanwhile
                        connection.execute("insert into mine values (1)")

                await asyncio.gather(*map(one, range(40)))
                assert len(texts_of(memory, "many")) == 40
                assert memory.admin.verify().problems == ()
                memory.erase(conversation_id="many")
            assert not pool.closed
            with pool.connection() as connection:
                assert connection.execute("select count(*) from public.mine").fetchone() == (40,)
            for _ in range(4):
                with pool.connection() as connection:
                    assert not connection.autocommit
                    assert connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF
                    assert connection.execute("show search_path").fetchone() == ('"$user", public',)
                    assert connection.execute("show lock_timeout").fetchone() == ("0",)
            with AgentMemory(pool) as memory:
                assert texts_of(memory, "many") == []

    async def test_async_and_wrongly_encoded_pools_are_rejected(self, postgres):
        with pytest.raises(InvalidInput, match="ConnectionPool"):
            AgentMemory(psycopg_pool.AsyncConnectionPool(postgres, open=False))
        with AgentMemory(postgres, schema="select") as memory:  # a word of SQL
            assert memory.admin.verify().ok
            memory.admin.stats()
        kept = {"prepare_threshold": None, "client_encoding": "latin1"}
        with psycopg_pool.ConnectionPool(postgres, min_size=1, open=True, kwargs=kept) as pool:
            with pytest.raises(StorageError, match=r"(?i)LATIN1.*client_encoding"):
                AgentMemory(pool)
            assert pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"]


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

    def test_role_sees_only_its_schema(self, postgres):
        for schema in ("agentmem", "ada"):
            with AgentMemory(postgres, schema=schema) as memory:
                add_texts(memory, f"herons of {schema}")
        with psycopg.connect(postgres, autocommit=True) as connection:
            [name] = connection.execute("select current_database()").fetchone()
            role = f"ada_{name}"
            connection.execute(ONE_SCHEMA.replace("ada_user", role))
        try:
            url = psycopg.conninfo.make_conninfo(postgres, user=role)
            with AgentMemory(url, schema="ada", migrate=False) as memory:
                add_texts(memory, "and quinces")
                assert texts_of(memory) == ["herons of ada", "and quinces"]
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

    def test_role_with_row_privileges_can_do_everything(self, roles, caplog):
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

    def test_doctor_reports_missing_privileges(self, roles):
        owner, user = roles
        AgentMemory(owner).close()
        assert permissions_of(user) == "this user may read and write all tables"
        for revoked, told in (
            ("insert on agentmem.entry", "but not write all"),
            ("select on agentmem.entry", "may not read all tables"),
        ):
            with psycopg.connect(owner, autocommit=True) as connection:
                connection.execute(f"revoke {revoked} from {name_of(user)}")
            assert told in permissions_of(user)
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(f"revoke all on schema agentmem from {name_of(user)}")
        for options in ({}, {"migrate": False}, {"read_only": True}):  # who may not look into the schema
            with pytest.raises(DatabaseReadOnly, match="role"):
                AgentMemory(user, **options)


def name_of(role):
    return psycopg.conninfo.conninfo_to_dict(role)["user"]


def permissions_of(url):
    findings = {finding.name: finding for finding in diagnose(url, deep=False)}
    assert "database" not in findings
    return findings["permissions"].text


def test_encodings_other_than_utf_8_are_rejected(postgres_server):
    name, encoding = "in_latin1", "LATIN1"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name}")
        connection.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
        try:
            parts = psycopg.conninfo.conninfo_to_dict(postgres_server) | {"dbname": name}
            with pytest.raises(StorageError, match="UTF8"):
                AgentMemory(psycopg.conninfo.make_conninfo(**parts))
        finally:
            with contextlib.suppress(psycopg.Error):
                connection.execute(f"drop database {name}")


@pytest.mark.slow
def test_migration_can_be_left_to_the_command(url, tmp_path, forks):
    with pytest.raises(
        DatabaseReadOnly, match="agentmem migrate" if url.startswith("postgres") else "may not be created"
    ):
        AgentMemory(url, migrate=False)
    assert not list(tmp_path.glob("*.db"))
    done = forks.run(COMMAND, "migrate", url)
    assert engine.migrations("sqlite")[-1].name in done.stdout
    with AgentMemory(url, migrate=False) as memory:
        add_texts(memory, "a heron")
        assert texts_of(memory) == ["a heron"]
