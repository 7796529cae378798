"""What is put can be got: items, their times, and values that are the store's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import Item

from langchain_agentmem.base.safe_repr import safe_repr
from tests.contracts.store_calling import Calls, Contract, Way

KEYS = [
    "plain", "with space", "a.b", "a/b", "a:b", "100%", "_", "*", "it's", 'say "so"', "back\\slash", "ключ", "👩‍👩‍👧",
    "x" * 300,
]  # fmt: skip

VALUES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "scalars": {"text": "x", "whole": 1, "part": 1.5, "yes": True, "no": False, "none": None},
    "nested": {"a": {"b": {"c": [1, [2, {"d": []}]]}}, "e": {}},
    "large number": {"n": 2**53 + 1},
    "scripts": {"text": "naïve 漢字 👩‍👩‍👧 \u2028 'quoted' \"twice\" back\\slash %_*"},
    "odd keys": {"": 1, "a.b": 2, "$eq": 3, "[0]": 4, "it's": 5, 'say "so"': 6},
    "long": {"text": "word " * 20_000},
}

NOT_JSON = {"an object": object(), "a function": len, "a class": Item, "a generator": iter(())}
BEYOND_JSON = {"a set": {1, 2}, "bytes": b"\xff", "a time": datetime(2026, 5, 1, tzinfo=UTC), "a complex number": 1j}


class KeepingContract(Contract):
    """Putting, getting, updating and deleting."""

    async def test_what_is_not_there_is_none(self, calls: Calls) -> None:
        """`get` of an unknown item gives None, and deleting it does nothing."""
        assert await calls.get(("a",), "missing") is None, "get() of an item that is not there must give None"
        await calls.delete(("a",), "missing")
        await calls.put(("a",), "k", {"n": 1})
        assert await calls.get(("a",), "missing") is None, "get() of another key must give None"
        assert await calls.get(("b",), "k") is None, "get() in another namespace must give None"

    async def test_what_is_put_can_be_got(self, calls: Calls) -> None:
        """An item has the value, key and namespace that it was put with."""
        await calls.put(("a", "b"), "k", {"n": 1})
        item = await calls.existing(("a", "b"), "k")
        assert isinstance(item, Item), "get() must give an Item"
        assert (item.namespace, item.key, item.value) == (("a", "b"), "k", {"n": 1}), "the item must be the one put"
        assert isinstance(item.namespace, tuple), "an item's namespace must be a tuple"

    async def test_putting_again_replaces_the_whole_value(self, calls: Calls) -> None:
        """An update is no merge."""
        await calls.put(("a",), "k", {"old": 1, "both": 1})
        await calls.put(("a",), "k", {"both": 2})
        assert (await calls.existing(("a",), "k")).value == {"both": 2}, "put() must replace the value, not merge it"
        assert await calls.keys(("a",)) == ["k"], "an updated item must be there once"

    async def test_an_update_keeps_created_at(self, calls: Calls, tick: Callable[[], None]) -> None:
        """`created_at` stays when an item is updated; `updated_at` moves on."""
        await calls.put(("a",), "k", {"n": 1})
        first = await calls.existing(("a",), "k")
        created, updated = first.created_at, first.updated_at
        tick()
        [read] = await calls.search(("a",))
        assert (read.created_at, read.updated_at) == (created, updated), "reading must change no time"
        await calls.put(("a",), "k", {"n": 2})
        second = await calls.existing(("a",), "k")
        assert second.created_at == created, "created_at must stay when the item is updated"
        assert second.updated_at > updated, "updated_at must move on when the item is updated"

    async def test_times_are_in_utc(self, calls: Calls) -> None:
        """Times have a time zone, and it is UTC."""
        await calls.put(("a",), "k", {"n": 1})
        item = await calls.existing(("a",), "k")
        [found] = await calls.search(("a",))
        for moment in (item.created_at, item.updated_at, found.created_at, found.updated_at):
            assert isinstance(moment, datetime), f"times must be datetimes, not {type(moment).__name__}"
            assert moment.utcoffset() == timedelta(0), f"times must be in UTC and say so, unlike {safe_repr(moment)}"
        assert item.created_at <= item.updated_at, "an item cannot be updated before it was created"

    async def test_what_is_deleted_is_gone(self, calls: Calls) -> None:
        """A deleted item is neither got nor found; its neighbours stay."""
        await calls.put_all(("a",), {"k": {"n": 1}, "other": {"n": 2}})
        await calls.put(("b",), "k", {"n": 3})
        await calls.delete(("a",), "k")
        assert await calls.get(("a",), "k") is None, "a deleted item must be gone"
        assert await calls.keys(("a",)) == ["other"], "search() must not find a deleted item"
        assert (await calls.existing(("b",), "k")).value == {"n": 3}, "the same key elsewhere must stay"

    async def test_what_is_put_after_a_deletion_is_new(self, calls: Calls, tick: Callable[[], None]) -> None:
        """An item that was deleted and put again has new times."""
        await calls.put(("a",), "k", {"n": 1})
        before = (await calls.existing(("a",), "k")).created_at
        await calls.delete(("a",), "k")
        tick()
        await calls.put(("a",), "k", {"n": 2})
        after = await calls.existing(("a",), "k")
        assert after.value == {"n": 2}, "the new value must be there"
        assert after.created_at > before, "created_at must be new after a deletion"

    @pytest.mark.parametrize("key", KEYS, ids=ascii)
    async def test_any_text_is_a_key(self, calls: Calls, key: str) -> None:
        """No character in a key has a meaning."""
        await calls.put(("a",), key, {"n": 1})
        await calls.put(("a",), key + "x", {"n": 2})
        item = await calls.existing(("a",), key)
        assert (item.key, item.value) == (key, {"n": 1}), "the key must come back as it was put"
        await calls.delete(("a",), key)
        assert await calls.keys(("a",)) == [key + "x"], "deleting a key must delete no other"

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
    async def test_any_json_value_comes_back_as_it_is(self, calls: Calls, value: dict[str, Any]) -> None:
        """What JSON can hold is kept exactly, with its types."""
        await calls.put(("a",), "k", value)
        found = (await calls.existing(("a",), "k")).value
        assert found == value, "the value must come back as it was put"
        assert repr(found) == repr(value), "the value must come back with its types, and its keys in order"

    async def test_a_nul_in_a_text_is_kept(self, calls: Calls) -> None:
        """U+0000 is a character like any other."""
        value = {"text": "before\0after", "ke\0y": 1}
        await calls.put(("a",), "k", value)
        assert (await calls.existing(("a",), "k")).value == value, "a NUL must be kept as it is"

    async def test_what_was_put_stays_the_callers(self, calls: Calls) -> None:
        """Changing a value after it was put changes nothing in the store."""
        value: dict[str, Any] = {"list": [1], "nested": {"n": 1}}
        await calls.put(("a",), "k", value)
        value["list"].append(2)
        value["nested"]["n"] = 2
        value["new"] = True
        kept = (await calls.existing(("a",), "k")).value
        assert kept == {"list": [1], "nested": {"n": 1}}, "a stored value must not follow the caller's object"

    async def test_what_was_got_stays_the_stores(self, calls: Calls) -> None:
        """Changing a value that was got or found changes nothing in the store."""
        value = {"list": [1], "nested": {"n": 1}}
        await calls.put(("a",), "k", {"list": [1], "nested": {"n": 1}})
        for item in (await calls.existing(("a",), "k"), *(await calls.search(("a",)))):
            item.value["list"].append(2)
            item.value["nested"]["n"] = 2
            item.value["new"] = True
            kept = (await calls.existing(("a",), "k")).value
            assert kept == value, "a stored value must not follow what a caller does with the one it was given"

    @pytest.mark.parametrize("wrong", NOT_JSON.values(), ids=NOT_JSON.keys())
    async def test_what_is_not_json_is_refused(self, calls: Calls, wrong: object) -> None:
        """What is no data at all raises a TypeError or ValueError, and nothing is stored."""
        for value in ({"wrong": wrong}, {"deep": [{"wrong": wrong}]}):
            assert not await _accepts(calls, value), f"put() of {safe_repr(value)} must raise a TypeError or ValueError"
        assert await calls.get(("a",), "k") is None, "a refused value must not be stored"

    @pytest.mark.parametrize("data", BEYOND_JSON.values(), ids=BEYOND_JSON.keys())
    async def test_what_json_has_no_word_for_is_refused_or_kept_exactly(self, calls: Calls, data: object) -> None:
        """A store may keep more than JSON can hold, but nothing comes back as something else."""
        for value in ({"data": data}, {"deep": [{"data": data}]}):
            if await _accepts(calls, value):
                kept = (await calls.existing(("a",), "k")).value
                assert kept == value, f"{safe_repr(value)} must be refused, or come back as it was put"
                assert repr(kept) == repr(value), f"{safe_repr(value)} must be refused, or come back with its types"
            else:
                assert await calls.get(("a",), "k") is None, "a refused value must not be stored"

    async def test_a_time_to_live_is_honoured_or_refused(self, calls: Calls) -> None:
        """A store without expiry says so instead of keeping an item for ever."""
        if calls.store.supports_ttl:
            await calls.put(("a",), "k", {"n": 1}, ttl=60)
            assert (await calls.existing(("a",), "k")).value == {"n": 1}, "an item must live until its time is over"
        else:
            with pytest.raises(NotImplementedError):
                await calls.put(("a",), "k", {"n": 1}, ttl=60)
            assert await calls.get(("a",), "k") is None, "a refused item must not be stored"

    async def test_both_ways_see_the_same(self, calls: Calls) -> None:
        """What is put through one way can be got, found and deleted through the other."""
        await calls.put(("a",), "k", {"n": 1})
        for way in self.ways:
            other = Calls(calls.store, way)
            assert (await other.existing(("a",), "k")).value == {"n": 1}, f"the {way} get must see what was put"
            assert await other.keys(("a",)) == ["k"], f"the {way} search must see what was put"
        other = Calls(calls.store, _other(self.ways, calls.way))
        await other.delete(("a",), "k")
        assert await calls.get(("a",), "k") is None, f"the {calls.way} get must see what was deleted"


async def _accepts(calls: Calls, value: dict[str, Any]) -> bool:
    try:
        await calls.put(("a",), "k", value)
    except (TypeError, ValueError):
        return False
    return True


def _other(ways: tuple[Way, ...], way: Way) -> Way:
    return next((each for each in ways if each != way), way)
