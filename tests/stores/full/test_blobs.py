"""Byte stores with arbitrary keys and concurrent writers."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.queries import load_queries
from langchain_agentmem.stores.byte_store import PAGE_SIZE
from tests.stores.test_blobs import ODD_KEYS, rows


@pytest.fixture
def store(memory):
    return memory.byte_store(("alice",))


@pytest.mark.sqlite_suffices
class TestAnyKeys:
    @pytest.mark.parametrize("analysed", [False, True])
    def test_reads_use_the_key_index(self, memory, raw, analysed):
        """The cost of a read depends on its keys, not on the size of the namespace."""
        for namespace in ((), ("a",), ("b",)):
            memory.byte_store(namespace).mset([(f"key {number}", b"value") for number in range(2_000)])
        if analysed:
            raw(memory, "analyze")
        dialect = memory.database.engine.dialect
        explain = "explain query plan " if dialect == "sqlite" else "explain "
        keys = json.dumps(["6b"] * 400)
        plan = str(raw(memory, explain + load_queries(dialect)["find_blobs"], path="a\x1f", keys=keys))
        assert ("AND key=?" in plan) or ("(key = decode(" in plan and "Index Cond" in plan), plan

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        keys=st.sets(st.text(st.characters(exclude_categories=()), max_size=4), max_size=12),
        prefix=st.text(st.characters(exclude_categories=()), max_size=2),
    )
    def test_any_keys_and_prefixes_behave_like_dictionary(self, store, keys, prefix):
        """Keys behave as in a dictionary."""
        store.mset([(key, ascii(key).encode()) for key in keys])
        assert list(store.yield_keys()) == sorted(keys)
        assert list(store.yield_keys(prefix=prefix)) == sorted(key for key in keys if key.startswith(prefix))
        assert store.mget(sorted(keys)) == [ascii(key).encode() for key in sorted(keys)]
        store.mdelete(list(store.yield_keys()))
        assert list(store.yield_keys()) == []

    def test_listing_is_complete_during_concurrent_writes(self, url):
        with AgentMemory(url) as memory, AgentMemory(url) as other:
            keys = [f"{number:05}" for number in range(PAGE_SIZE * 2)]
            memory.byte_store().mset([(key, b"") for key in keys[::2]])

            def write():
                for key in keys[1::50]:
                    other.byte_store().mset([(key, b"x")])
                    other.byte_store().mdelete([key])

            with ThreadPoolExecutor(1) as pool:
                writing, found = pool.submit(write), []
                while not writing.done() or not found:
                    found = list(memory.byte_store().yield_keys())
                    assert [key for key in found if int(key) % 2 == 0] == keys[::2]
                    assert found == sorted(set(found))
                writing.result()

    def test_concurrent_writers_of_equal_keys_are_atomic(self, url):
        with AgentMemory(url) as memory:
            keys = [f"k{number}" for number in range(20)]

            def write(name):
                store = memory.byte_store(("shared",))
                for _ in range(5):
                    store.mset([(key, name) for key in (keys if name < b"2" else reversed(keys))])
                    values = store.mget(keys)
                    assert len(set(values) - {None}) <= 1, values
                    store.mdelete(keys)

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(write, (b"0", b"1", b"2", b"3")))
            assert memory.admin.verify().problems == ()


class TestMaintenance:
    def test_namespace_erasure_includes_child_namespaces(self, memory, raw):
        stores = [memory.byte_store(namespace) for namespace in ((), ("a",), ("a", "b"), ("ab",))]
        for store in stores:
            store.mset([(key, b"x") for key in ODD_KEYS])
        assert memory.erase(namespace=("a",)).blobs == 2 * len(ODD_KEYS)
        assert [len(list(store.yield_keys())) for store in stores] == [len(ODD_KEYS), 0, 0, len(ODD_KEYS)]
        assert memory.erase(conversation_id="a").blobs == memory.erase(thread_id="a").blobs == 0
        assert memory.erase(namespace=()).blobs == 2 * len(ODD_KEYS)
        assert (rows(memory, raw), rows(memory, raw, "namespace")) == (0, 0)

    def test_postgres_statistics_contain_no_blob_content(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            memory.byte_store(("a",)).mset([(f"key {number}", b"value") for number in range(300)])
            raw(memory, "analyze")
            sampled = raw(memory, "select attname from pg_stats where schemaname = 'agentmem' and tablename = 'blob'")
        assert {row["attname"] for row in sampled} <= {"id", "namespace_id", "checksum", "updated_at"}
