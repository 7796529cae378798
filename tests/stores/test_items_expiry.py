"""Expiry of items: TTL, refresh on read and sweeping."""

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from langchain_agentmem import AgentMemoryStore
from langchain_agentmem.errors import InvalidInput

NS = ("a", "b")


def keys(found):
    return [item.key for item in found]


@pytest.mark.sqlite_suffices
class TestExpiry:
    def test_expired_items_are_not_returned(self, memory, store, clock):
        store.put(NS, "soon", {"text": "apples"}, ttl=1)
        store.put(("a", "other"), "soon", {"text": "apples"}, ttl=1)
        store.put(NS, "later", {"text": "apples"}, ttl=60)
        store.put(NS, "never", {"text": "apples"})
        clock.pass_time(minutes=2)
        assert store.get(NS, "soon") is None
        assert [each and each.key for each in store.batch([GetOp(NS, "soon"), GetOp(NS, "later")])] == [None, "later"]
        assert sorted(keys(store.search(("a",), query="apples"))) == ["later", "never"]
        assert store.list_namespaces() == [NS]
        [found] = memory.search("apples", kinds=["item"], everything=True)  # equal texts are one hit
        assert sorted([(found.kind, found.id), *found.also]) == [("item", "later"), ("item", "never")]
        store.put(NS, "soon", {"text": "pears"})
        assert store.get(NS, "soon").created_at == store.get(NS, "soon").updated_at
        assert len(store.search(NS, query="apples")) == 2
        assert memory.admin.verify().ok

    def test_expired_items_and_duplicates_do_not_use_limit(self, memory, store, clock):
        for i in range(60):
            store.put(NS, f"gone{i:03}", {"text": "apples apples"}, ttl=1)
            store.put(NS, f"equal{i:03}", {"text": "apples apples"})
            store.put(NS, f"soon{i:03}", {"text": f"apples {i}"}, ttl=1)
        store.batch([PutOp(NS, f"kept{i:03}", {"text": f"apples and {i} more besides"}) for i in range(20)])
        clock.pass_time(minutes=2)
        for limit in (1, 15, 100):
            found = memory.search("apples", limit=limit, everything=True)
            assert [each.id[:4] for each in found] == ["equa", *["kept"] * 20][:limit]
        assert [len(each.also) for each in found] == [59, *[0] * 20]

    def test_reads_refresh_the_ttl(self, store, clock):
        for read in (
            lambda: store.get(NS, "k"),
            lambda: store.search(NS),
            lambda: store.search(NS, query="words"),
            lambda: store.batch([GetOp(NS, "k"), PutOp(NS, "x", {}), SearchOp(NS)]),
            lambda: store.search(NS, filter={"v": "words"}),
        ):
            store.put(NS, "k", {"v": "words"}, ttl=10)
            for _ in range(3):
                clock.pass_time(minutes=9)
                assert read()
                assert store.get(NS, "k", refresh_ttl=False)
                assert store.list_namespaces()
            clock.pass_time(minutes=11)
            assert store.get(NS, "k") is None

    def test_search_refreshes_only_returned_items(self, store, clock):
        store.batch([PutOp(NS, key, {"is": key}, ttl=10) for key in "abc"])
        clock.pass_time(minutes=9)
        assert keys(store.search(NS, limit=1)) == ["a"]
        assert keys(store.search(NS, filter={"is": "b"})) == ["b"]
        clock.pass_time(minutes=5)
        assert keys(store.search(NS)) == ["a", "b"]

    def test_write_in_batch_overrides_ttl_refresh(self, store, clock):
        store.put(NS, "k", {}, ttl=60)
        store.batch([GetOp(NS, "k"), PutOp(NS, "k", {}, ttl=1)])
        clock.pass_time(minutes=2)
        assert store.get(NS, "k") is None

    def test_invalid_ttl_is_rejected(self, store):
        for ttl in (0, -1, float("nan"), float("inf"), "5", True, 1e10):
            with pytest.raises(InvalidInput, match="ttl must be"):
                store.put(NS, "k", {}, ttl=ttl)

    def test_read_only_store_reads_items_with_ttl(self, tmp_path):
        path = tmp_path / "memory.db"
        with AgentMemoryStore.from_conn_string(path) as store:
            store.put(NS, "k", {"v": 1}, ttl=10)
        with AgentMemoryStore.from_conn_string(f"file:{path}?mode=ro") as store:
            assert store.get(NS, "k").value == {"v": 1}


class TestSweep:
    def test_sweep_deletes_expired_items_and_counts_them(self, memory, store, clock, raw):
        store.batch([PutOp((f"n{i % 5}",), str(i), {"text": f"words {i}"}, ttl=1) for i in range(1_100)])
        store.put(("n1",), "kept", {"text": "words"})
        assert store.sweep_ttl() == 0
        clock.pass_time(minutes=2)
        assert store.sweep_ttl() == 1_100
        assert store.sweep_ttl() == 0
        for table in ("item", "search_document", "namespace"):
            assert raw(memory, f"select count(*) as n from {table}") == [{"n": 1}]
        assert memory.admin.verify().ok

    async def test_sweep_ttl_result_can_be_awaited(self, store, clock):
        for deleted in (0, 1):
            swept = store.sweep_ttl()
            assert (swept, f"{swept}", await swept, type(await swept)) == (deleted, f"{deleted}", deleted, int)
            store.put(NS, "k", {}, ttl=1)
            clock.pass_time(minutes=2)
        assert await store.sweep_ttl() == await store.asweep_ttl() + 1

    def test_close_stops_the_sweeper(self):
        store = AgentMemoryStore.from_conn_string(":memory:")
        future = store.start_ttl_sweeper(0.0001)
        store.close()
        assert future.result(timeout=120) is None
