"""Searches without vectors: what is found, in which order, page by page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langgraph.store.base import SearchItem

from tests.contracts.store_calling import Calls, Contract


class SearchContract(Contract):
    """`search` in a store without an index."""

    async def test_a_found_item_has_everything(self, calls: Calls) -> None:
        """It is a `SearchItem` like the item that `get` gives, and has no score without a query."""
        assert await calls.search(("a",)) == [], "a search of nothing must give an empty list"
        await calls.put(("a", "b"), "k", {"n": 1})
        item = await calls.existing(("a", "b"), "k")
        [found] = await calls.search(("a",))
        assert isinstance(found, SearchItem), "search() must give SearchItems"
        assert (found.namespace, found.key, found.value) == (("a", "b"), "k", {"n": 1}), "the item must be the one put"
        assert (found.created_at, found.updated_at) == (item.created_at, item.updated_at), "times must be the item's"
        assert found.score is None, "without a query there must be no score"

    async def test_ten_are_found_unless_a_limit_says_otherwise(self, calls: Calls) -> None:
        """The default limit is 10."""
        await calls.put_all(("a",), {f"k{n:02}": {"n": n} for n in range(25)})
        assert len(await calls.search(("a",))) == 10, "the default limit must be 10"
        assert len(await calls.search(("a",), limit=100)) == 25, "a larger limit must find all"
        assert len(await calls.search(("a",), limit=1)) == 1, "a limit must be kept to"

    async def test_pages_follow_each_other(self, calls: Calls) -> None:
        """Offsets give every item once, and nothing behind the last."""
        keys = [f"k{n:02}" for n in range(25)]
        await calls.put_all(("a",), {key: {"n": 1} for key in keys})
        pages = [await calls.keys(("a",), limit=10, offset=offset) for offset in (0, 10, 20, 30)]
        assert [len(page) for page in pages] == [10, 10, 5, 0], "pages must be full until the last"
        assert sorted(key for page in pages for key in page) == keys, "pages must give every item once"

    async def test_what_was_updated_last_comes_first(self, calls: Calls, tick: Callable[[], None]) -> None:
        """Without a query the order is that of `updated_at`, newest first; an update moves an item to the front."""
        for key in ("b", "a", "c"):
            await calls.put(("a",), key, {"n": 1})
            tick()
        assert await calls.keys(("a",)) == ["c", "a", "b"], "the newest must come first"
        await calls.put(("a",), "b", {"n": 2})
        assert await calls.keys(("a",)) == ["b", "c", "a"], "an updated item must come first"
        assert await calls.keys(("a",), limit=2) == ["b", "c"], "a limit must keep the newest"

    async def test_of_one_time_the_smaller_key_comes_first(self, calls: Calls) -> None:
        """Items of one batch have one time."""
        await calls.put_all(("a",), {key: {"n": 1} for key in ("b", "d", "a", "c")})
        assert await calls.keys(("a",)) == ["a", "b", "c", "d"], "of one time, the smaller key must come first"

    @pytest.mark.parametrize(
        "query",
        ["word", "two words", "", "'quoted\" NEAR( OR *", "👩‍👩‍👧", "word " * 2_000],
        ids=lambda q: ascii(q[:20]),
    )
    async def test_any_text_is_a_query(self, calls: Calls, query: str) -> None:
        """A store without vectors may look for words or leave the query aside, but it keeps to prefix and filter."""
        await calls.put_all(("a",), {"k": {"text": "a word"}, "l": {"text": "another word", "not": True}})
        await calls.put(("ab",), "m", {"text": "a word"})
        found = await calls.keys(("a",), query=query, filter={"text": "a word"})
        assert set(found) <= {"k"}, "a query must not reach beyond prefix and filter"
