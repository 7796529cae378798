"""The contract of LangGraph stores, which tests of a `BaseStore` inherit.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self):
            with AgentMemoryStore.from_conn_string(":memory:") as store:
                yield store

`IndexedStoreContract` is what a store must do with vectors, `ExpiringStoreContract` with a time to live. Every test
runs once through the synchronous methods and once through the awaited ones.

LangGraph publishes no such suite, and where the stores that it ships disagree, this one takes a side: `$ne` matches a
missing key and the operators of order do not; nested and dotted keys both match; without a query the item that was
updated last comes first, and of those of one time the smaller key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)


class Calls:
    """A store, called through its synchronous methods ("sync") or through the awaited ones ("async")."""

    def __init__(self, store: BaseStore, way: str) -> None:
        self.store, self.way = store, way

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.way == "sync":
            return getattr(self.store, name)(*arguments, **options)
        return await getattr(self.store, f"a{name}")(*arguments, **options)

    async def batch(self, ops: Any) -> Any:
        return await self._call("batch", ops)

    async def put(self, namespace: Any, key: str, value: Any, index: Any = None, *, ttl: Any = NOT_PROVIDED) -> None:
        await self._call("put", namespace, key, value, index, ttl=ttl)

    async def put_all(self, namespace: tuple[str, ...], values: Mapping[str, Any]) -> None:
        await self.batch([PutOp(namespace, key, value) for key, value in values.items()])

    async def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Any:
        return await self._call("get", namespace, key, refresh_ttl=refresh_ttl)

    async def existing(self, namespace: tuple[str, ...], key: str) -> Item:
        """Return the item, which must be there."""
        item = await self.get(namespace, key)
        assert isinstance(item, Item), (namespace, key)
        return item

    async def delete(self, namespace: tuple[str, ...], key: str) -> None:
        await self._call("delete", namespace, key)

    async def search(self, prefix: tuple[str, ...], **options: Any) -> list[SearchItem]:
        found: list[SearchItem] = await self._call("search", prefix, **options)
        return found

    async def keys(self, prefix: tuple[str, ...], **options: Any) -> list[str]:
        return [item.key for item in await self.search(prefix, **options)]

    async def namespaces(self, **options: Any) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = await self._call("list_namespaces", **options)
        return found


class Contract:
    """Tests that each run synchronously and asynchronously. The fixture `store` is to be supplied."""

    @pytest.fixture(params=["sync", "async"])
    def way(self, request):
        return request.param

    @pytest.fixture
    def calls(self, store, way):
        return Calls(store, way)


def conditions(**paths):
    return tuple(MatchCondition(match_type=kind, path=path) for kind, path in paths.items())


KEYS = (
    "plain", "with space", "a.b", "a/b", "a:b", "100%", "_", "*", "it's", 'say "so"', "back\\slash", "ключ", "👩‍👩‍👧",
    "x" * 300,
)  # fmt: skip
VALUES = (
    {},
    {"text": "x", "whole": 1, "part": 1.5, "yes": True, "no": False, "none": None, "large": 2**53 + 1},
    {"a": {"b": {"c": [1, [2, {"d": []}]]}}, "e": {}},
    {"text": "naïve 漢字 👩‍👩‍👧 \u2028 'quoted' \"twice\" back\\slash %_*", "ke\0y": "before\0after"},
    {"": 1, "a.b": 2, "$eq": 3, "[0]": 4, "it's": 5, 'say "so"': 6},
    {"text": "word " * 20_000},
    {"set": {1, 2}, "bytes": b"\xff", "time": datetime(2026, 5, 1, tzinfo=UTC), "complex": 1j},
)
UNSERIALIZABLE = (object(), len, Item, iter(()))


class ItemContract(Contract):
    """Putting, getting, updating and deleting."""

    async def test_put_items_can_be_read(self, calls):
        assert await calls.get(("a",), "missing") is None
        await calls.delete(("a",), "missing")
        await calls.put(("a", "b"), "k", {"n": 1})
        item = await calls.existing(("a", "b"), "k")
        assert (item.namespace, item.key, item.value) == (("a", "b"), "k", {"n": 1})
        assert isinstance(item.namespace, tuple)
        await calls.put(("a", "b"), "for a while", {"n": 2}, ttl=60)
        assert (await calls.existing(("a", "b"), "for a while")).value == {"n": 2}
        assert await calls.get(("a", "b"), "missing") is await calls.get(("b",), "k") is None

    async def test_update_replaces_the_value_and_keeps_created_at(self, calls, tick):
        await calls.put(("a",), "k", {"old": 1, "both": 1})
        first = await calls.existing(("a",), "k")
        tick()
        [read] = await calls.search(("a",))
        assert (read.created_at, read.updated_at) == (first.created_at, first.updated_at), "reading changes no time"
        await calls.put(("a",), "k", {"both": 2})
        second = await calls.existing(("a",), "k")
        assert second.value == {"both": 2}, "an update is no merge"
        assert await calls.keys(("a",)) == ["k"]
        assert second.created_at == first.created_at
        assert second.updated_at > first.updated_at
        for moment in (second.created_at, second.updated_at, read.created_at, read.updated_at):
            assert moment.utcoffset() == timedelta(0)

    async def test_deleted_items_are_gone_and_can_be_recreated(self, calls, tick):
        await calls.put_all(("a",), {"k": {"n": 1}, "other": {"n": 2}})
        await calls.put(("b",), "k", {"n": 3})
        before = (await calls.existing(("a",), "k")).created_at
        await calls.delete(("a",), "k")
        assert await calls.get(("a",), "k") is None
        assert await calls.keys(("a",)) == ["other"]
        assert (await calls.existing(("b",), "k")).value == {"n": 3}
        tick()
        await calls.put(("a",), "k", {"n": 2})
        after = await calls.existing(("a",), "k")
        assert after.value == {"n": 2}
        assert after.created_at > before

    async def test_any_text_is_a_valid_key(self, calls):
        for number, key in enumerate(KEYS):
            at = (f"n{number}",)
            await calls.put(at, key, {"n": 1})
            await calls.put(at, key + "x", {"n": 2})
            item = await calls.existing(at, key)
            assert (item.key, item.value) == (key, {"n": 1})
            await calls.delete(at, key)
            assert await calls.keys(at) == [key + "x"], key

    async def test_any_data_is_returned_unchanged(self, calls):
        for value in VALUES:
            await calls.put(("a",), "k", value)
            found = (await calls.existing(("a",), "k")).value
            assert found == value
            assert repr(found) == repr(value), "with its types, and its keys in order"

    async def test_stored_values_are_copies(self, calls):
        def change(value):
            value["list"].append(2)
            value["nested"]["n"] = 2
            value["new"] = True

        given, kept = ({"list": [1], "nested": {"n": 1}} for _ in range(2))
        await calls.put(("a",), "k", given)
        change(given)
        for read in (await calls.existing(("a",), "k"), *(await calls.search(("a",)))):
            assert read.value == kept
            change(read.value)
            assert (await calls.existing(("a",), "k")).value == kept

    async def test_unserializable_values_are_rejected(self, calls):
        for wrong in UNSERIALIZABLE:
            for value in ({"wrong": wrong}, {"deep": [{"wrong": wrong}]}):
                with pytest.raises((TypeError, ValueError)):
                    await calls.put(("a",), "k", value)
        assert await calls.get(("a",), "k") is None

    async def test_sync_and_async_calls_see_the_same(self, calls):
        await calls.put(("a",), "k", {"n": 1})
        other = Calls(calls.store, "async" if calls.way == "sync" else "sync")
        assert (await other.existing(("a",), "k")).value == {"n": 1}
        assert await other.keys(("a",)) == ["k"]
        await other.delete(("a",), "k")
        assert await calls.get(("a",), "k") is None


INVALID = ((), ("a", ""), ("a.b",), ("a", 1), ("a\0b",), ("langgraph", "a"))
NAMES = [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab",), ("b", "c")]
NAMESPACE_CASES = (
    ({}, NAMES),
    ({"prefix": ("a",)}, [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c")]),
    ({"prefix": ("a", "b")}, [("a", "b"), ("a", "b", "c"), ("a", "b", "d")]),
    ({"prefix": ("a", "b", "c", "d")}, []),
    ({"prefix": ("none",)}, []),
    ({"suffix": ("c",)}, [("a", "b", "c"), ("a", "x", "c"), ("b", "c")]),
    ({"suffix": ("b", "c")}, [("a", "b", "c"), ("b", "c")]),
    ({"suffix": ("b",)}, [("a", "b")]),
    ({"prefix": ("a",), "suffix": ("c",)}, [("a", "b", "c"), ("a", "x", "c")]),
    ({"prefix": ("a", "*", "c")}, [("a", "b", "c"), ("a", "x", "c")]),
    ({"prefix": ("*", "c")}, [("b", "c")]),
    ({"prefix": ("*", "*")}, [("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("b", "c")]),
    ({"suffix": ("a", "*")}, [("a", "b")]),
    ({"suffix": ("*", "c")}, [("a", "b", "c"), ("a", "x", "c"), ("b", "c")]),
    ({"suffix": ("a", "*", "*")}, [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c")]),
    ({"max_depth": 1}, [("a",), ("ab",), ("b",)]),
    ({"max_depth": 2}, [("a",), ("a", "b"), ("a", "x"), ("ab",), ("b", "c")]),
    ({"max_depth": 9}, NAMES),
    ({"max_depth": 2, "prefix": ("a",)}, [("a",), ("a", "b"), ("a", "x")]),
    ({"max_depth": 2, "suffix": ("c",)}, [("a", "b"), ("a", "x"), ("b", "c")]),
    ({"max_depth": 1, "limit": 2}, [("a",), ("ab",)]),
    ({"max_depth": 1, "limit": 2, "offset": 1}, [("ab",), ("b",)]),
    *(({"limit": 3, "offset": at}, NAMES[at : at + 3]) for at in (0, 3, 6, 9)),
)
"""Whole labels are compared, and "*" stands for exactly one; namespaces are then cut, and counted, each once."""


class NamespaceContract(Contract):
    """Isolation and listing of namespaces."""

    @pytest.fixture
    async def filled(self, calls):
        await calls.batch([PutOp(namespace, key, {"n": 1}) for namespace in NAMES for key in ("k", "l")])
        return calls

    async def test_an_invalid_namespace_is_refused(self, calls):
        for namespace in INVALID:
            with pytest.raises(InvalidNamespaceError):
                await calls.put(namespace, "k", {"n": 1})
        for label in ("", "a.b", "a\0b"):  # operations given to `batch` bypass the methods of LangGraph that check
            at = ("x", label)
            for op in (PutOp(at, "k", {}), GetOp(at, "k"), SearchOp(at), ListNamespacesOp(conditions(prefix=at))):
                with pytest.raises(InvalidNamespaceError):
                    await calls.batch([PutOp(("good",), "k", {"n": 1}), op])
        assert await calls.namespaces() == []

    async def test_namespaces_isolate_items(self, filled):
        await filled.put(("a",), "k", {"n": "own"})
        assert (await filled.existing(("a", "b"), "k")).value == {"n": 1}
        for prefix in (("a",), ("a", "b"), ()):
            found = await filled.search(prefix, limit=100)
            expected = [name for name in NAMES if name[: len(prefix)] == prefix]
            assert sorted({item.namespace for item in found}) == expected, "below the prefix, of whole labels"
            assert len(found) == 2 * len(expected)

    async def test_label_characters_have_no_special_meaning(self, calls):
        labels = ["%", "_", "*", "?", "[ab]", "a_c", "\\", "it's", "ключ", "👩‍👩‍👧", "a b", "A"]
        others = ["abc", "a", "zzz", *(label + "x" for label in labels), *("x" + label for label in labels)]
        await calls.batch([PutOp((label, "below"), "k", {"n": 1}) for label in (*labels, *others)])
        for label in labels:
            assert [item.namespace for item in await calls.search((label,), limit=100)] == [(label, "below")], label
            if label != "*":
                assert await calls.namespaces(prefix=(label,)) == [(label, "below")], label

    async def test_conditions_and_depth_select_namespaces(self, filled):
        for options, expected in NAMESPACE_CASES:
            assert await filled.namespaces(**options) == expected, options
        both = (*conditions(prefix=("a",)), *conditions(prefix=("*", "b")), *conditions(suffix=("d",)))
        assert await filled.batch([ListNamespacesOp(both)]) == [[("a", "b", "d")]], "all of them must hold"

    async def test_a_namespace_without_items_is_not_listed(self, calls):
        assert await calls.namespaces() == []
        await calls.put(("a",), "k", {"n": 1})
        await calls.put(("b",), "k", {"n": 1})
        await calls.delete(("a",), "k")
        await calls.get(("got",), "k")
        await calls.search(("found",))
        await calls.delete(("deleted",), "k")
        assert await calls.namespaces() == [("b",)]


class SearchContract(Contract):
    """Searches without vectors: what is found, in which order, page by page."""

    async def test_found_item_has_all_fields(self, calls):
        assert await calls.search(("a",)) == []
        await calls.put(("a", "b"), "k", {"n": 1})
        item = await calls.existing(("a", "b"), "k")
        [found] = await calls.search(("a",))
        assert isinstance(found, SearchItem)
        assert (found.namespace, found.key, found.value) == (("a", "b"), "k", {"n": 1})
        assert (found.created_at, found.updated_at) == (item.created_at, item.updated_at)
        assert found.score is None

    async def test_limit_and_offset_page_through_results(self, calls):
        keys = [f"k{n:02}" for n in range(25)]
        await calls.put_all(("a",), {key: {"even": int(key[1:]) % 2 == 0} for key in keys})
        assert [len(await calls.search(("a",), limit=limit)) for limit in (1, 100)] == [1, 25]
        assert len(await calls.search(("a",))) == 10, "unless a limit says otherwise"
        for options, expected in (({}, keys), ({"filter": {"even": True}}, keys[::2])):
            pages = [await calls.keys(("a",), limit=9, offset=at, **options) for at in (0, 9, 18, 27)]
            assert [key for page in pages for key in page] == expected, "of one time, the smaller key comes first"

    async def test_latest_updated_items_come_first(self, calls, tick):
        for key in ("b", "a", "c"):
            await calls.put(("a",), key, {"n": 1})
            tick()
        assert await calls.keys(("a",)) == ["c", "a", "b"]
        await calls.put(("a",), "b", {"n": 2})
        assert await calls.keys(("a",)) == ["b", "c", "a"]
        assert await calls.keys(("a",), limit=2) == ["b", "c"]

    async def test_any_text_is_a_valid_query(self, calls):
        await calls.put_all(("a",), {"k": {"text": "a word"}, "l": {"text": "another word", "not": True}})
        await calls.put(("ab",), "m", {"text": "a word"})
        for query in ("word", "two words", "", "'quoted\" NEAR( OR *", "👩‍👩‍👧", "word " * 2_000):
            assert set(await calls.keys(("a",), query=query, filter={"text": "a word"})) <= {"k"}, query


WHOLE = {"text": "one's 100% \"own\" _ \\ ключ", "n": 1, "f": 1.5, "yes": True, "no": False, "list": ["a", "b"],
         "it's \"so\"": 1, "a b": 1, "100%": 1}  # fmt: skip
OTHER = {"text": "one's 100x \"own\" x \\ ключ", "n": 10, "f": 1.25, "yes": False, "no": True, "list": ["b", "a"],
         "it's \"so\"": 2, "a b": 2, "100%": 2}  # fmt: skip
ITEMS: dict[str, Any] = {
    "one": {"n": 1, "t": "a", "in": {"a": 1, "b": {"c": 1}}},
    "two": {"n": 2, "t": "b", "in": {"a": 2, "b": {"c": 2}}},
    "half": {"n": 2.5, "t": "10"},
    "text": {"n": "many", "in": 2},
    "list": {"n": [1]},
    "none": {"n": None},
    "without": {},
}
FILTER_CASES = (
    ({"n": 2}, "two"), ({"n": {"$eq": 2}}, "two"), ({"n": {"$ne": 2}}, "one half text list none without"),
    ({"n": {"$gt": 2}}, "half"), ({"n": {"$gte": 2}}, "two half"), ({"n": {"$lt": 2}}, "one"),
    ({"n": {"$lte": 2}}, "one two"), ({"n": {"$gt": 1.5, "$lt": 2.4}}, "two"), ({"n": {"$gte": 2, "$ne": 2.5}}, "two"),
    ({"n": {"$gt": 3}}, ""), ({"n": {"$lt": 10}}, "one two half"),
    ({"t": {"$gt": "a"}}, "two"), ({"t": {"$gte": "a"}}, "one two"), ({"t": {"$lte": "a"}}, "one half"),
    ({"t": {"$lt": "9"}}, "half"),
    ({"in": {"a": 2}}, "two"), ({"in": {"b": {"c": 2}}}, "two"), ({"in": {"a": 2, "b": {"c": 1}}}, ""),
    ({"in": {"a": {"$gte": 1, "$lt": 2}}}, "one"),
    ({"in.a": 2}, "two"), ({"in.b.c": 1}, "one"), ({"in.a": {"$gt": 1}}, "two"), ({"in.missing": 1}, ""),
    ({"n": {"$gte": 1}, "t": {"$ne": "b"}, "missing": {"$ne": 1}}, "one half"), ({}, " ".join(ITEMS)),
)  # fmt: skip
"""Numbers are compared as numbers, texts by their code points; values of other kinds and missing keys have no order."""


class FilterContract(Contract):
    """Every operator, nested and dotted keys, and keys that are missing."""

    async def test_filter_values_must_be_equal(self, calls):
        await calls.put_all(("a",), {"whole": WHOLE, "other": OTHER, "empty": {}})
        for name, value in WHOLE.items():
            for condition in (value, {"$eq": value}):
                assert await calls.keys(("a",), filter={name: condition}) == ["whole"], name
        assert await calls.keys(("a",), filter=WHOLE) == ["whole"]
        await calls.put(("a",), "whole", {"n": 2})
        assert await calls.keys(("a",), filter={"n": 1}) == [], "an old value does not match"
        assert await calls.keys(("a",), filter={"n": 2}) == ["whole"]

    async def test_filter_conditions_are_combined_with_and(self, calls):
        await calls.put_all(("a",), ITEMS)
        for wanted, expected in FILTER_CASES:
            found = await calls.keys(("a",), filter=wanted, limit=100)
            assert sorted(found) == sorted(expected.split()), wanted

    async def test_an_unknown_operator_is_refused(self, calls):
        await calls.put(("a",), "k", {"n": 1})
        for operator in ("$regex", "$in", "$and", "$"):
            with pytest.raises(ValueError):
                await calls.search(("a",), filter={"n": {operator: 1}})


def value_of(item):
    return None if item is None else item.value


class BatchContract(Contract):
    """One result for each operation, and reads that see the state before the writes."""

    large = 2_000
    """More operations than one statement of a database takes."""

    async def test_batch_reads_see_the_state_before_writes(self, calls):
        await calls.put_all(("a",), {"k": {"n": 1}, "l": {"n": 2}})
        got, put, found, missing, listed, deleted, again, none, everything = await calls.batch(
            [
                GetOp(("a",), "l"),
                PutOp(("b",), "m", {"n": 3}),
                SearchOp(("a",), filter={"n": 1}),
                GetOp(("b",), "m"),
                ListNamespacesOp(),
                PutOp(("a",), "k", None),
                GetOp(("a",), "k"),
                SearchOp(("nowhere",)),
                SearchOp(()),
            ]
        )
        assert (value_of(got), value_of(again), missing) == ({"n": 2}, {"n": 1}, None)
        assert (put, deleted, none) == (None, None, [])
        assert ([item.key for item in found], [item.key for item in everything]) == (["k"], ["k", "l"])
        assert listed == [("a",)]
        assert sorted(await calls.keys(())) == ["l", "m"]
        assert await calls.batch([]) == []

    async def test_last_put_of_a_key_wins(self, calls):
        await calls.batch(
            [
                PutOp(("a",), "put twice", {"n": 1, "old": True}),
                PutOp(("a",), "deleted last", {"n": 1}),
                PutOp(("a",), "put last", None),
                PutOp(("b",), "put twice", {"n": 9}),
                PutOp(("a",), "put twice", {"n": 2}),
                PutOp(("a",), "deleted last", None),
                PutOp(("a",), "put last", {"n": 3}),
            ]
        )
        found = {(*item.namespace, item.key): item.value["n"] for item in await calls.search(())}
        assert found == {("a", "put twice"): 2, ("b", "put twice"): 9, ("a", "put last"): 3}

    async def test_batch_is_atomic(self, calls):
        await calls.put(("a",), "there", {"n": 1})
        bad = PutOp(("a",), "bad", {"wrong": object()})
        with pytest.raises((TypeError, ValueError)):
            await calls.batch([PutOp(("a",), "good", {}), PutOp(("a",), "there", None), bad, PutOp(("a",), "more", {})])
        assert await calls.keys(("a",)) == ["there"]

    async def test_large_batch_is_executed_completely(self, calls):
        many = [f"k{n:04}" for n in range(self.large)]
        assert list(await calls.batch(PutOp(("a",), key, {"key": key}) for key in many)) == [None] * self.large
        results = await calls.batch([GetOp(("a",), key) for key in reversed(many)])
        assert [item.key for item in results] == many[::-1]
        await calls.batch([PutOp(("a",), key, None) for key in many])
        assert await calls.search(("a",)) == []

    async def test_concurrent_calls_lose_nothing(self, calls):
        await asyncio.gather(*(calls.put((f"n{n % 3}",), f"k{n:02}", {"n": n}) for n in range(30)))
        found = {item.key: item.value["n"] for item in await calls.search((), limit=100)}
        assert found == {f"k{n:02}": n for n in range(30)}


class StoreContract(ItemContract, NamespaceContract, SearchContract, FilterContract, BatchContract):
    """The whole contract. The fixtures `store` and `tick`, which moves the store's clock on, are to be supplied."""
