"""`Tenants`: opening, pooling and isolation."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import psycopg
import psycopg_pool
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, InvalidInput, Tenants, tenants
from langchain_agentmem.errors import ForeignDatabase, MemoryClosed
from langchain_agentmem.tenants import schema_of_tenant
from tests.apart import check_apart, fill, seen
from tests.pages import blocks_of
from tests.support.waiting import cancelled


@pytest.fixture(scope="module")
def pool(postgres_databases):
    with psycopg_pool.ConnectionPool(postgres_databases.bare("tenants"), min_size=1, max_size=4, open=True) as pool:
        yield pool


@pytest.fixture
def made(pool):
    """Makes tenants, whose schemas are dropped afterwards."""
    all_made = []

    def make(*arguments, **options):
        all_made.append(Tenants(pool, *arguments, **options))
        return all_made[-1]

    yield make
    for each in all_made:
        each.close()
    with pool.connection() as connection:
        for (name,) in connection.execute(
            "select nspname from pg_namespace where nspname ~ '^(tenant|shared|memory)_'"
        ):
            connection.execute(f"drop schema {name} cascade")


class TestSchemaPerTenant:
    def test_tenants_are_isolated_and_find_their_data_again(self, made):
        with made() as all_of_them:
            for tenant in ("ada", "Bob"):
                with all_of_them.of(tenant) as memory:
                    fill(memory, tenant)
        with made() as all_of_them, all_of_them.of("ada") as ada, all_of_them.of("Bob") as bob:
            assert "Bob" not in str(seen(ada))
            assert "ada" not in str(seen(bob))
            assert ada.admin.verify().ok
            bob.erase(namespace=())
            assert ada.conversation("c").messages
            with all_of_them.of("ada") as same:
                assert same is ada

    async def test_cancelled_exit_releases_the_tenant(self, made, monkeypatch):
        all_of_them = made()
        with pytest.raises(asyncio.CancelledError):
            async with all_of_them.of("ada"):
                monkeypatch.setattr(asyncio, "to_thread", mock.AsyncMock(side_effect=asyncio.CancelledError))
        assert all_of_them._memories["tenant_ada"].holders == 0

    def test_schema_names_are_valid_and_unique(self):
        ids = [
            "ada", "Ada", "ADA", "ad a", "ad_a", "ad-a", "a" * 56, "a" * 57, "a" * 500, "ä", "ö", "\u30c6", "日本", "0",
            "select", "pg_x", "; drop table x", '"', "'", "%s", "tenant_ada", "tenant_", "_", "__", "-", "a.b", "a_b",
        ]  # fmt: skip
        ids += [schema_of_tenant(each).removeprefix("tenant_") for each in ids]  # as who wants to meet another
        names = {schema_of_tenant(each) for each in ids}
        assert len(names) == len(set(ids))
        assert all(re.fullmatch("tenant_[a-z0-9_]{1,56}", name) for name in names)
        assert schema_of_tenant("acme_7") == "tenant_acme_7"


class TestSharedSchema:
    def test_tenants_of_one_schema_are_isolated(self, made, tmp_path):
        with made(lambda tenant: "shared_one") as both, both.of("heron") as heron, both.of("quince") as quince:
            check_apart({"heron": heron, "quince": quince}, tmp_path)

    def test_foreign_namespace_is_refused(self, made):
        with made(lambda tenant: "shared_one") as both, both.of("heron") as memory:
            for there in (("quince",), ("quince", "notes"), ("her",)):
                for reach in (memory.byte_store, memory.conversations, memory.within):
                    with pytest.raises(InvalidInput, match="not within"):
                        reach(there)
                with pytest.raises(InvalidInput, match="limited to"):
                    memory.checkpointer.get_tuple({"configurable": {"thread_id": "t", "agentmem_namespace": there}})

    def test_sole_tenant_of_a_schema_is_limited_too(self, made):
        with made(lambda tenant: "shared_two") as one, one.of("heron") as memory:
            memory.layers().core.set("fruit", "none")
            assert memory.within(("heron", "users", "ada")).layers().core.get() == {}
            with pytest.raises(InvalidInput, match="not within"):
                memory.search("fruit", namespace=("other",))


class TestPooling:
    def test_memories_in_use_and_recently_used_stay_open(self, made):
        few = made(max_open=2)
        with few.of("a") as first, few.of("b"), few.of("c") as third:
            for each in (first, third):
                each.conversation("c").add_user_message("heron")
        assert not third.database.engine.is_open
        with few.of("a") as again, few.of("d"):
            assert again is first
        with few.of("b"), few.of("c") as third:
            assert [each.text for each in third.conversation("c").messages] == ["heron"]
        assert not first.database.engine.is_open

    def test_closed_memory_is_opened_again(self, made):
        with made() as all_of_them:
            for _ in range(2):
                with all_of_them.of("a") as memory:
                    assert memory.admin.stats()["messages"] == 0
                    memory.close()

    async def test_async_tenants_share_the_open_limit(self, made):
        async with made(max_open=1) as one, one.of("a") as first, one.of("b") as second:
            await first.conversation("c").aadd_messages([HumanMessage("heron")])
            assert await second.asearch("heron") == []
        assert not first.database.engine.is_open
        with pytest.raises(MemoryClosed):
            await one.of("a").__aenter__()

    @pytest.fixture
    def held_up(self, monkeypatch):
        """An event until which the opening of the tenant "slow" waits, one that it does, and what was opened."""
        go_on, asked, opened = threading.Event(), threading.Event(), []

        class Opened(AgentMemory):
            def __init__(self, *arguments, schema="agentmem", **options):
                opened.append(schema)
                if schema == "tenant_slow":
                    asked.set()
                    assert go_on.wait(60)
                super().__init__(*arguments, schema=schema, **options)

        monkeypatch.setattr(tenants, "AgentMemory", Opened)
        return go_on, asked, opened

    def test_concurrent_opening_shares_one_memory_without_blocking_others(self, made, held_up):
        go_on, _, opened = held_up
        all_of_them = made()

        def use(tenant):
            with all_of_them.of(tenant) as memory:
                return memory

        with ThreadPoolExecutor(4) as threads:
            slow = [threads.submit(use, "slow") for _ in range(3)]
            threads.submit(use, "quick").result(60)
            go_on.set()
            assert len({each.result(60) for each in slow}) == 1
        assert sorted(opened) == ["tenant_quick", "tenant_slow"]

    async def test_cancelled_opening_leaves_nothing_open(self, made, held_up):
        go_on, asked, _ = held_up
        one = made(max_open=1)
        waiting = asyncio.create_task(one.of("slow").__aenter__())
        await asyncio.to_thread(asked.wait, 60)
        await cancelled(waiting)
        left = one._memories["tenant_slow"]
        go_on.set()
        async with one.of("quick"):
            assert list(one._memories) == ["tenant_quick"]
        assert left.memory is None or not left.memory.database.engine.is_open

    def test_failed_opening_leaves_nothing_open(self, made):
        some = made(lambda tenant: "information_schema" if tenant == "bad" else "shared_three")
        with pytest.raises(ForeignDatabase), some.of("bad"):
            pass
        with some.of("good"):
            assert list(some._memories) == ["shared_three"]


class TestDocumentation:
    @pytest.mark.parametrize("code", blocks_of("docs/postgresql.md", "python"))
    def test_documented_code_runs(self, made, pool, code):
        shared = "def schema_of" in code
        exec(code, {"url": pool.conninfo})
        with made((lambda tenant: "memory_08") if shared else None).of("ada") as memory:
            assert memory.search("Lisbon")


class TestClosing:
    def test_closing_closes_memories_but_not_the_pool(self, made, pool):
        some = made()
        with some, some.of("a") as memory:
            some.close()
            with pytest.raises(MemoryClosed):
                memory.search("heron")
        with pytest.raises(MemoryClosed, match="Tenants"), some.of("a"):
            pass
        with pool.connection() as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_wrong_arguments_are_refused(made):
    for tenant in ("", " " * 501, "a\x00", "\ud800", None, ("a",)):
        with pytest.raises(InvalidInput, match="tenant"):
            made().of(tenant)
    for schema in (None, "", "Ada", "pg_x", "a" * 64, "a b", ["a"], 5):
        with pytest.raises(InvalidInput, match="schema must"):
            made(lambda tenant, schema=schema: schema).of("ada")
    for pool in (None, "postgresql://host/name", psycopg.Connection):
        with pytest.raises(InvalidInput, match="psycopg_pool"):
            Tenants(pool)
    template = {"schema_of": str, "namespace": ("users", "{user_id}")}
    wrong = {"without schema": {"schema": "a"}, "url": {"url": "a"}, "pool_siz": {"pool_siz": 1}, "namespace": template}
    wrong |= {"max_open": {"max_open": 0}, "schema_of must be a function": {"schema_of": "a"}}
    for told, options in wrong.items():
        with pytest.raises(InvalidInput, match=told):
            made(**options)
