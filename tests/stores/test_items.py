"""`AgentMemoryStore`: long-term items according to LangGraph's contract."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import chain

import pytest
from langchain_core.tracers.context import collect_runs
from langgraph.graph import MessagesState
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import AgentMemoryError, DatabaseUnreadable, InvalidInput, MemoryClosed
from tests.support.graphs import line

NS = ("users", "ana")


def keys(found):
    return [item.key for item in found]


@pytest.mark.sqlite_suffices
class TestSetup:
    async def test_store_opens_from_path_and_setup_is_harmless(self, url):
        with AgentMemoryStore.from_conn_string(url) as store:
            store.setup()
            store.put(NS, "k", {"a": 1})
        async with AgentMemoryStore.from_conn_string(url) as store:
            await store.setup()
            assert (await store.aget(NS, "k")).value == {"a": 1}
        with pytest.raises(AgentMemoryError):
            store.get(NS, "k")

    def test_memory_has_a_single_store(self, memory):
        assert memory.store is memory.store
        AgentMemoryStore(memory).put(NS, "k", {"a": 1})
        assert memory.store.get(NS, "k").value == {"a": 1}
        memory.store.close()
        assert memory.store.get(NS, "k") is not None

    def test_invalid_configuration_is_rejected(self):
        for wrong in (
            {"index": "text"}, {"index": {"dims": 0}}, {"index": {"dims": True}}, {"index": {"fields": [1]}},
            {"index": {"embed": 7}}, {"ttl": 5}, {"ttl": {"default_ttl": -1}}, {"ttl": {"default_ttl": "1"}},
            {"ttl": {"sweep_interval_minutes": 0}},
        ):  # fmt: skip
            for make in (AgentMemoryStore, AgentMemoryStore.from_conn_string):
                with pytest.raises(InvalidInput):
                    make(":memory:", **wrong)

    def test_store_exposes_its_configuration(self):
        store = AgentMemoryStore(
            ":memory:",
            index={"dims": 2, "embed": lambda texts: [[0.0, 1.0] for _ in texts], "text_fields": ["title"]},
            ttl={"default_ttl": 5, "refresh_on_read": False},
        )
        assert store.index_config["fields"] == ["title"]
        assert store.embeddings.embed_query("x") == [0.0, 1.0]
        assert store.ttl_config == {"default_ttl": 5, "refresh_on_read": False}
        assert isinstance(store, BaseStore)
        assert store.supports_ttl


@pytest.mark.sqlite_suffices
class TestItems:
    def test_damaged_value_is_reported(self, memory, store, raw):
        store.put(NS, "k", {"a": 1})
        raw(memory, "update item set value = :value", value=b'{"a":')
        with pytest.raises(DatabaseUnreadable, match=r"'k' in \('users', 'ana'\)"):
            store.get(NS, "k")
        assert any("'k'" in problem for problem in memory.admin.verify().problems)
        store.delete(NS, "k")
        assert memory.admin.verify().ok

    def test_numeric_keys_equal_their_text(self, store):
        for each in (store, InMemoryStore()):
            each.put(NS, 5, {"a": 1})
            assert each.get(NS, "5").value == each.get(NS, 5).value == {"a": 1}


def test_invalid_operation_rejects_the_whole_batch(store):
    store.put(NS, "k", {"v": 1})
    for wrong in (
        PutOp(NS, "x", {"bad": object()}), PutOp(("a.b",), "x", {}), PutOp(NS, "", {}), PutOp(NS, "x", {}, ttl=-1),
        SearchOp(NS, filter={"x": {"$no": 1}}), GetOp(NS, None), GetOp(NS, 5), PutOp(NS, 5, {}), "no operation",
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            store.batch([PutOp(NS, "k", {"v": 2}), PutOp(NS, "y", {}), wrong])
        assert store.get(NS, "k").value == {"v": 1}
        assert keys(store.search(NS)) == ["k"]


class TestSearch:
    def test_pages_are_complete_and_disjoint(self, store):
        store.batch([PutOp(("p", str(i % 3)), f"{i:03}", {"even": i % 2 == 0}) for i in range(260)])
        for given in (None, {"even": True}):
            whole = keys(store.search(("p",), filter=given, limit=1_000))
            assert len(whole) == (130 if given else 260)
            pages = [keys(store.search(("p",), filter=given, limit=7, offset=at)) for at in range(0, 270, 7)]
            assert list(chain(*pages)) == whole
        assert keys(store.search(("p",), limit=0)) == []
        assert keys(store.search(("p",), filter={"even": True}, limit=3, offset=129)) == [whole[-1]]
        assert keys(store.search(("p",), offset=1_000)) == []

    def test_unfiltered_page_reads_only_its_values(self, memory, store, raw):
        store.batch([PutOp(NS, f"{i:02}", {}) for i in range(10)])
        raw(memory, "update item set value = :value where key <> :key", value=b"{", key="03")
        assert keys(store.search(NS, limit=1, offset=3)) == ["03"]


@pytest.mark.sqlite_suffices
class TestNamespaceListing:
    def test_pages_are_complete_and_disjoint(self, store):
        store.batch([PutOp(("p", f"{i // 2:03}", str(i)), "k", {}) for i in range(230)])
        for depth in (None, 2):
            whole = store.list_namespaces(max_depth=depth, limit=1_000)
            assert len(whole) == (115 if depth else 230)
            pages = [store.list_namespaces(max_depth=depth, limit=20, offset=at) for at in range(0, 240, 20)]
            assert list(chain(*pages)) == whole
        for wrong in (0, -1, "1"):
            with pytest.raises(InvalidInput, match="max_depth"):
                store.list_namespaces(max_depth=wrong)

    def test_conversation_namespaces_are_not_listed(self, memory, store):
        memory.conversation("c", ("only", "talk")).add_user_message("Hello")
        assert store.list_namespaces() == []

    def test_unknown_match_type_is_rejected(self, store):
        with pytest.raises(InvalidInput, match="match_type"):
            store.batch([ListNamespacesOp((MatchCondition("infix", ("a",)),))])


@pytest.mark.sqlite_suffices
class TestNamespaces:
    def test_invalid_namespaces_are_rejected_by_every_operation(self, store):
        for at in (("a.b",), ("",), ("a", ""), ("a\0",), (1,), ("a\x1fb",), ("x" * 201,), "ab", 7):
            ops = [GetOp(at, "k"), PutOp(at, "k", {}), PutOp(at, "k", None), SearchOp(at)]
            for op in ops + [ListNamespacesOp((MatchCondition(kind, at),)) for kind in ("prefix", "suffix")]:
                with pytest.raises(InvalidInput) as raised:
                    store.batch([op])
                assert isinstance(raised.value, InvalidNamespaceError), op

    def test_batch_allows_the_langgraph_namespace(self, store):
        class Get(GetOp):
            """A user-defined operation."""

        namespace = ("langgraph", "x")
        told = []
        for each in (store, InMemoryStore()):
            ops = [Get(namespace, "k"), SearchOp(("langgraph",)), ListNamespacesOp()]
            answers = each.batch([PutOp(namespace, "k", {"n": 1})]) + each.batch(ops)
            told.append([answers[0], answers[1].value, [item.key for item in answers[2]], answers[3]])
            each.batch([PutOp(namespace, "k", None)])
            assert each.get(namespace, "k") is None
        assert told[0] == told[1] == [None, {"n": 1}, ["k"], [namespace]]
        with pytest.raises(InvalidInput):
            store.batch([PutOp((), "k", {})])

    def test_invalid_limits_and_offsets_are_rejected(self, store):
        for name, value in itertools.product(("limit", "offset"), (-1, True, 1.5, "1", None, 2**70)):
            for call in (partial(store.search, ()), store.list_namespaces):
                with pytest.raises(InvalidInput, match=name):
                    call(**{name: value})

    def test_empty_namespace_leaves_no_rows(self, memory, store, raw):
        store.put(NS, "k", {"a": "words"})
        store.put(NS, "j", {})
        store.delete(NS, "k")
        assert raw(memory, "select path from namespace")
        store.delete(NS, "j")
        for table in ("namespace", "item", "search_document", "search_series", "search_scope"):
            assert raw(memory, f"select count(*) as n from {table}") == [{"n": 0}]

    def test_namespace_with_conversation_survives_item_deletion(self, memory, store):
        memory.conversation("c", NS).add_user_message("Hello")
        store.put(NS, "k", {"a": "words"})
        store.delete(NS, "k")
        assert len(memory.conversation("c", NS)) == 1
        store.put(NS, "k", {"a": "words"})
        memory.conversation("c", NS).clear()
        assert store.get(NS, "k") is not None
        assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
class TestConcurrency:
    def test_batch_reads_and_writes_atomically(self, url):
        with AgentMemory(url) as memory, ThreadPoolExecutor(6) as pool:

            def exchange(value):
                before, _ = memory.store.batch([GetOp(NS, "k"), PutOp(NS, "k", {"v": value})])
                return before and before.value["v"]

            seen = [*pool.map(exchange, range(60)), memory.store.get(NS, "k").value["v"]]
            assert sorted(seen, key=str) == sorted([None, *range(60)], key=str), "each was seen once"

    def test_graph_shares_the_store_across_threads(self, memory):
        def node(state: MessagesState, *, store: BaseStore):
            seen = store.get(NS, "seen")
            store.put(NS, "seen", {"times": (seen.value["times"] if seen else 0) + 1})
            return {}

        graph = line(memory.checkpointer, node, store=memory.store)
        for thread in "ab":
            graph.invoke({"messages": []}, {"configurable": {"thread_id": thread, "agentmem_namespace": ("tenant",)}})
        assert memory.store.get(NS, "seen").value == {"times": 2}
        assert memory.store.list_namespaces() == [NS]


class TestGet:
    """A get without listeners takes a short path, which must equal a batch of one `GetOp`."""

    NAMESPACES = (NS, ["users", "ana"], ("users",), ("a.b",), ("",), (1,), "ana", (), ("langgraph",), None)
    KEYS = ("k", "ttl", "expired", "none", 7, "", "\0", "k" * 3000, "damaged")

    def test_short_path_equals_a_traced_batch(self, memory, raw, clock):
        store = AgentMemoryStore(memory, ttl={"refresh_on_read": True})
        for key, ttl in (("k", None), ("ttl", 60), ("expired", 0.001), ("damaged", None), ("7", None)):
            store.put(NS, key, {"key": key}, ttl=ttl)
        raw(memory, "update item set value = :value where key = 'damaged'", value=b"{")
        clock.now += timedelta(seconds=30)

        def expiry():
            return [row["expires_at"] for row in raw(memory, "select expires_at from item where key = 'ttl'")]

        def outcome(*call, **options):
            before = expiry()
            try:
                item = store.get(*call, **options)
            except AgentMemoryError as error:
                return type(error), str(error)
            return item and item.dict(), before != expiry()

        for namespace, key, refresh in itertools.product(self.NAMESPACES, self.KEYS, (None, False, True)):
            short = outcome(namespace, key, refresh_ttl=refresh)
            with collect_runs() as collected:
                assert outcome(namespace, key, refresh_ttl=refresh) == short, (namespace, key, refresh)
            assert len(collected.traced_runs) <= 1
        assert outcome(NS, "ttl")[1]
        assert not outcome(NS, "ttl", refresh_ttl=False)[1]
        memory.close()
        with pytest.raises(MemoryClosed):
            store.get(NS, "k")
