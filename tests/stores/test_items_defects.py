"""The defects of the stores that come with LangGraph: none of them is here. Each is shown in the store in memory first,
where it has it, so that this says when one of them is mended."""

from __future__ import annotations

from datetime import UTC, timedelta
from itertools import pairwise

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemoryStore
from langchain_agentmem.errors import InvalidInput

NS = ("docs",)


def embed(texts):
    return [[float(len(text)), 1.0] for text in texts]


INDEX = {"dims": 2, "embed": embed, "fields": ["a", "b"]}


@pytest.fixture
def store(memory):
    return memory.store


def keys(found):
    return [item.key for item in found]


def filled(store):
    store.put(NS, "k", {"tag": "x", "n": 3, "nested": {"a": 2}})
    return store


class TestKnownDefects:
    def test_created_at_survives_an_update(self, store):
        stock = InMemoryStore()
        made = []
        for each in (stock, store):
            each.put(NS, "k", {"v": 1})
            made.append(each.get(NS, "k").created_at)
            each.put(NS, "k", {"v": 2})
        assert stock.get(NS, "k").created_at != made[0]
        assert store.get(NS, "k").created_at == made[1]

    def test_times_are_aware_and_exact(self, url):
        with AgentMemoryStore.from_conn_string(url) as store:
            items = []
            for number in range(5):
                store.put(NS, str(number), {})
                items.append(store.get(NS, str(number)))
        assert all(item.created_at.tzinfo is UTC for item in items)
        assert any(item.created_at.microsecond for item in items)
        made = [item.created_at for item in items]
        assert all(a < b < a + timedelta(minutes=1) for a, b in pairwise(made))

    def test_one_text_may_come_twice_in_a_batch(self, memory):
        ops = [PutOp(NS, key, {"a": "same text"}) for key in "xy"]
        with pytest.raises(ValueError, match="does not match"):
            InMemoryStore(index=INDEX).batch(ops)
        store = AgentMemoryStore(memory, index=INDEX)
        store.batch(ops)
        assert sorted(keys(store.search(NS, query="same text"))) == ["x", "y"]

    @pytest.mark.parametrize("index", [None, False])
    def test_nothing_stale_is_found_after_a_value_shrank(self, memory, index):
        stock, store = InMemoryStore(index=INDEX), AgentMemoryStore(memory, index=INDEX)
        for each in (stock, store):
            each.put(NS, "k", {"a": "plums", "b": "apples"})
            each.put(NS, "k", {"a": "pears"}, index=index)
        assert stock.search(NS, query="apples")[0].score == pytest.approx(1.0)
        store.put(("never", "more"), "k", {"a": "pears"}, index=index)
        never_more = store.search(("never", "more"), query="apples")
        assert [each.score for each in store.search(NS, query="apples")] == [each.score for each in never_more]
        assert all(each.score < 0.9 for each in never_more)

    @pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
    def test_an_ordering_of_a_missing_key_matches_nothing(self, store, operator):
        with pytest.raises(TypeError):
            filled(InMemoryStore()).search(NS, filter={"missing": {operator: 1}})
        assert filled(store).search(NS, filter={"missing": {operator: 1}}) == []

    def test_nested_conditions_and_dotted_keys_both_match(self, store):
        assert keys(filled(InMemoryStore()).search(NS, filter={"nested.a": 2})) == []
        filled(store)
        assert keys(store.search(NS, filter={"nested": {"a": 2}})) == ["k"]
        assert keys(store.search(NS, filter={"nested.a": 2})) == ["k"]
        assert keys(store.search(NS, filter={"nested": {"a": {"$lt": 2}}})) == []

    def test_text_has_an_order(self, store):
        with pytest.raises(ValueError, match="could not convert"):
            filled(InMemoryStore()).search(NS, filter={"tag": {"$gt": "w"}})
        assert keys(filled(store).search(NS, filter={"tag": {"$gt": "w"}})) == ["k"]
        assert keys(store.search(NS, filter={"tag": {"$gt": 1}})) == []

    def test_not_equal_matches_a_missing_key(self, store):
        assert keys(filled(store).search(NS, filter={"missing": {"$ne": 1}})) == ["k"]

    def test_what_is_returned_is_the_callers_own(self, store):
        stock = InMemoryStore()
        for each in (stock, store):
            mine = {"list": [1]}
            each.put(NS, "k", mine)
            each.get(NS, "k").value["list"].append(2)
            mine["list"].append(3)
            each.search(NS)[0].value["list"].append(4)
        assert stock.get(NS, "k").value == {"list": [1, 2, 3, 4]}
        assert store.get(NS, "k").value == {"list": [1]}

    def test_what_cannot_be_stored_is_refused_at_once(self, store):
        InMemoryStore().put(NS, "k", {"x": object()})
        with pytest.raises(InvalidInput, match=r"x: an object of type builtins\.object"):
            store.put(NS, "k", {"x": object()})
        assert store.get(NS, "k") is None

    def test_a_namespace_goes_with_its_last_item(self, store):
        stock = InMemoryStore()
        for each in (stock, store):
            each.put(NS, "k", {})
            each.delete(NS, "k")
        assert stock.list_namespaces() == [NS]
        assert store.list_namespaces() == []

    def test_without_a_query_the_last_updated_comes_first(self, store):
        stock = InMemoryStore()
        for each in (stock, store):
            for key in "abc":
                each.put(NS, key, {})
            each.put(NS, "a", {})
        assert keys(stock.search(NS)) == ["a", "b", "c"]
        assert keys(store.search(NS)) == ["a", "c", "b"]

    async def test_one_class_serves_async_code(self, store):
        await store.aput(NS, "k", {"v": 1})
        assert store.get(NS, "k") == await store.aget(NS, "k")

    def test_a_query_needs_no_index_and_finds_only_what_fits(self, store):
        stock = InMemoryStore()
        for each in (stock, store):
            each.put(NS, "k", {"likes": "tea"})
        assert keys(stock.search(NS, query="Oslo")) == ["k"]
        assert store.search(NS, query="Oslo") == []
        assert keys(store.search(NS, query="tea")) == ["k"]

    def test_what_has_expired_is_not_read_before_the_sweep(self, store, clock):
        store.put(NS, "k", {}, ttl=1)
        clock.pass_time(minutes=2)
        assert store.get(NS, "k") is None
        assert store.sweep_ttl() == 1
