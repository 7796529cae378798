"""Tenants as shards: a memory in several schemas, and tenants that move between them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Opening, query
from langchain_agentmem.storage.queries import number_of
from langchain_agentmem.storage.shards import Shards
from tests import everything

pytestmark = pytest.mark.bare

COUNT = 3
LINK = audit_entry.following


@pytest.fixture
def postgres(new_database):
    """An empty database, in which other schemas than ours are not left."""
    url = new_database("postgres")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        made = connection.execute("select nspname from pg_namespace where nspname ~ '^(agentmem_|vault)'")
        for (name,) in made.fetchall():
            connection.execute(f"drop schema {name} cascade")


@pytest.fixture
def opened(postgres):
    """Opens the shards, and closes them in the end."""
    every = []

    def opens(shards=COUNT, **options):
        every.append(Shards(postgres, Opening(shards=shards, **options)))
        return every[-1]

    yield opens
    for each in every:
        each.close()


@pytest.fixture
def shards(opened):
    return opened()


def schemas(url):
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname ~ '^agentmem' order by 1")
        return [name for (name,) in rows]


def is_here(path):
    """Whether a schema has a namespace."""

    def steps():
        return bool((yield query.find_namespace(path=path)))

    return steps


class TestMaking:
    def test_all_schemas_are_made_and_migrated_together(self, postgres, shards):
        assert schemas(postgres) == ["agentmem", *(f"agentmem_{n:02}" for n in range(COUNT))]
        assert len(shards.engines) == COUNT
        for each in shards.engines:
            assert each.problems() == []

    def test_numbers_of_rows_are_different_in_all_schemas(self, shards):
        numbers = [each.write(lambda: number_of("a\x1f")) for each in shards.engines]
        assert [number >> 40 for number in numbers] == list(range(COUNT))

    def test_it_is_opened_as_it_was_made(self, opened, postgres):
        opened().close()
        opened(None).close()
        opened(COUNT).close()
        for options in ({"shards": COUNT + 1}, {"tenant_depth": 2}):
            with pytest.raises(InvalidInput, match=f"shards={COUNT}"):
                opened(**{"shards": COUNT, **options})
        with pytest.raises(InvalidInput, match="shards="):
            AgentMemory(postgres)

    def test_a_memory_without_shards_stays_one(self, opened, postgres):
        with AgentMemory(postgres) as memory:
            memory.conversation("c").add(role="user", content="herons")
        for shards in (COUNT, None):
            with pytest.raises(InvalidInput, match="without shards"):
                opened(shards)
        assert schemas(postgres) == ["agentmem"]

    def test_two_that_make_it_at_once_make_one(self, opened):
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(opened, [COUNT, COUNT])
        assert [each.schema for each in one.engines] == [each.schema for each in other.engines]

    @pytest.mark.parametrize("options", [{"shards": 0}, {"shards": 65}, {"shards": True}, {"shards": "4"}])
    def test_what_cannot_be_is_refused(self, opened, options):
        with pytest.raises(InvalidInput, match="shards"):
            opened(**options)

    def test_sqlite_has_none(self, tmp_path):
        with pytest.raises(InvalidInput, match="PostgreSQL"):
            Shards(tmp_path / "memory.db", Opening(shards=COUNT))


class TestTenants:
    def test_each_is_where_its_hash_says_in_every_process(self, shards, opened):
        other = opened()
        names = [f"t{n}\x1f" for n in range(50)]
        for name in names:
            shards.of(name).write(lambda name=name: number_of(name))
        held = [[name for name in names if each.read(is_here(name))] for each in shards.engines]
        assert sorted(chain(*held)) == sorted(names)
        assert all(held)
        assert all(other.of(name).read(is_here(name)) for name in names)


def inside(postgres, schema):
    """The memory in one schema."""
    return AgentMemory(postgres, schema=schema)


class TestMoving:
    def test_all_that_is_a_tenants_moves_and_nothing_else(self, postgres, shards):
        tenant, source = "ada\x1f", "agentmem_00"
        with inside(postgres, source) as memory:
            everything.fill(memory)
            everything.fill(memory.within(namespace=("ada",)))
        shards.move(tenant, source, LINK)
        with inside(postgres, source) as here, inside(postgres, "agentmem_01") as there:
            before = here.within(namespace=("ada",)).stats()
            rest = here.stats()["messages"]
            assert shards.count(tenant)["entry"]
            moved = shards.move(tenant, "agentmem_01", LINK)
            assert moved.source == source
            assert moved.rows["entry"]
            assert shards.count(tenant) == moved.rows
            assert there.within(namespace=("ada",)).stats() == before
            assert here.verify().problems == there.verify().problems == ()
            assert here.stats()["messages"] == rest - before["messages"]
            assert there.stats()["messages"] == before["messages"]
            assert shards.move(tenant, source, LINK).rows == moved.rows
            assert here.within(namespace=("ada",)).stats() == before
            assert here.verify().problems == there.verify().problems == ()
            assert not any(there.stats()[name] for name in ("messages", "threads", "items", "memories"))
