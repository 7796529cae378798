"""Vectors: a query finds what is like it, and vectors always follow the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import BaseStore, SearchItem

from tests.contracts.store_calling import Calls, Contract, Namespace, PutOp, Way
from tests.word_embeddings import WordEmbeddings

MakeCalls = Callable[..., Calls]


class _SettledCalls(Calls):
    """Calls that wait before a search until all is embedded."""

    def __init__(self, store: BaseStore, way: Way, settle: Callable[[BaseStore], None]) -> None:
        super().__init__(store, way)
        self._settle = settle

    async def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        self._settle(self.store)
        return await super().search(prefix, **options)


class IndexedStoreContract(Contract):
    """What a store with embeddings must do. The fixture `make_store` is to be supplied.

    The tests ask for orders, not for scores. Their queries share no word with what they are to find, only the meaning,
    so that a store may blend vectors with words as it likes.
    """

    @pytest.fixture
    def make_store(self) -> Callable[..., BaseStore]:
        """Gives a function that opens an empty store, `make_store(index={"dims": …, "embed": …})`. To be supplied."""
        raise NotImplementedError(f"{type(self).__name__} must have a fixture make_store")

    @pytest.fixture
    def embeddings(self) -> WordEmbeddings:
        """The embeddings that the tests configure: no model, and the same everywhere."""
        return WordEmbeddings(same={"fruit": "apple", "citrus": "pear", "rock": "gravel"})

    @pytest.fixture
    def settle(self) -> Callable[[BaseStore], None]:
        """Gives a function that waits until a store has embedded all that was put. Default: `put` has done so."""
        return lambda _: None

    @pytest.fixture
    def calls_of(
        self,
        make_store: Callable[..., BaseStore],
        embeddings: WordEmbeddings,
        settle: Callable[[BaseStore], None],
        way: Way,
    ) -> MakeCalls:
        """Opens a store that indexes fields, called in one of its ways."""

        def open_store(*fields: str, **index: Any) -> Calls:
            given = {"dims": embeddings.dims, "embed": embeddings, **({"fields": list(fields)} if fields else {})}
            return _SettledCalls(make_store(index={**given, **index}), way, settle)

        return open_store

    async def test_what_is_like_the_query_comes_first(self, calls_of: MakeCalls) -> None:
        """Results are in the order of their scores, and have them."""
        calls = calls_of("text")
        await calls.put_all(
            ("a",),
            {
                "stone": {"text": "stone gravel sand"},
                "both": {"text": "apple stone pear"},
                "fruit": {"text": "apple pear"},
            },
        )
        found = await calls.search(("a",), query="fruit citrus")
        assert [item.key for item in found][:2] == ["fruit", "both"], "the nearest must come first"
        scores = [item.score for item in found[:2]]
        assert all(isinstance(score, float) for score in scores), f"a query must give scores, not {scores}"
        assert scores == sorted(scores, reverse=True), "results must come in the order of their scores"  # type: ignore[type-var]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("text", {"text": "apple"}),
            ("in.text", {"in": {"text": "apple"}}),
            ("parts[*].text", {"parts": [{"text": "sand"}, {"text": "apple"}]}),
            ("parts[0]", {"parts": ["apple", "sand"]}),
            ("parts[-1]", {"parts": ["sand", "apple"]}),
            ("$", {"any": {"deep": ["apple"]}}),
        ],
        ids=str,
    )
    async def test_paths_name_what_is_indexed(self, calls_of: MakeCalls, field: str, value: dict[str, Any]) -> None:
        """Nested fields, and one or all elements of a list."""
        calls = calls_of(*([field] if field != "$" else []))  # the whole value, by default
        elsewhere = {"other": "apple"} if field != "$" else {"other": "sand"}
        await calls.put_all(("a",), {"elsewhere": elsewhere, "named": {**value, "more": "gravel"}})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["named"], f"{field} must be indexed"

    async def test_a_put_may_name_its_own_fields(self, calls_of: MakeCalls) -> None:
        """`index=[…]` goes before the configuration."""
        calls = calls_of("text")
        await calls.put(("a",), "own", {"text": "gravel", "title": "apple"}, index=["title"])
        await calls.put(("a",), "default", {"text": "gravel", "title": "apple"})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["own"], "index=['title'] must index the title"
        assert (await calls.keys(("a",), query="rock"))[:1] == ["default"], "index=['title'] must index nothing else"

    async def test_a_put_may_ask_not_to_be_indexed(self, calls_of: MakeCalls, embeddings: WordEmbeddings) -> None:
        """With `index=False` nothing is embedded, and what is indexed comes first."""
        calls = calls_of("text")
        await calls.put(("a",), "not", {"text": "apple pear"}, index=False)
        assert embeddings.embedded == [], "index=False must embed nothing"
        await calls.put(("a",), "indexed", {"text": "apple pear tree"})
        assert (await calls.keys(("a",), query="fruit citrus"))[:1] == ["indexed"], "what is indexed must come first"
        assert (await calls.existing(("a",), "not")).value == {"text": "apple pear"}, "it must be there"

    async def test_one_text_may_come_twice_in_a_batch(self, calls_of: MakeCalls) -> None:
        """Both items are found, and rank the same."""
        calls = calls_of("text")
        await calls.batch(
            [
                PutOp(("a",), "one", {"text": "apple"}),
                PutOp(("a",), "two", {"text": "apple"}),
                PutOp(("b",), "one", {"text": "apple"}),
                PutOp(("a",), "stone", {"text": "gravel"}),
            ]
        )
        found = await calls.keys(("a",), query="fruit")
        assert set(found[:2]) == {"one", "two"}, "both items of one text must be found"
        assert await calls.keys(("b",), query="fruit") == ["one"], "and the one in another namespace"

    async def test_an_update_leaves_no_old_vector(self, calls_of: MakeCalls) -> None:
        """What a value said before is not found any more."""
        calls = calls_of("text")
        await calls.put(("a",), "changed", {"text": "apple"})
        await calls.put(("a",), "fruit", {"text": "apple tree garden sun"})
        await calls.put(("a",), "changed", {"text": "gravel"})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "an old vector must not count"
        assert (await calls.keys(("a",), query="rock"))[:1] == ["changed"], "the new one must"

    @pytest.mark.parametrize(
        ("field", "before", "after", "index"),
        [
            ("parts[*]", {"parts": ["gravel", "apple"]}, {"parts": ["gravel"]}, None),
            ("text", {"text": "apple"}, {"text": "gravel"}, False),
            ("text", {"text": "apple"}, {"other": "gravel"}, None),
            ("text", {"text": "apple", "title": "gravel"}, {"text": "apple", "title": "gravel"}, ["title"]),
        ],
        ids=["a shorter list", "not indexed", "no text", "other fields"],
    )
    async def test_what_is_indexed_no_more_leaves_no_old_vector(self, calls_of, field, before, after, index) -> None:
        """Neither elements that went, nor fields that are not indexed any more."""
        calls, name = calls_of(field), field.removesuffix("[*]")
        await calls.put(("a",), "changed", before)
        await calls.put(
            ("a",), "fruit", {name: ["apple tree garden sun"] if name == "parts" else "apple tree garden sun"}
        )
        await calls.put(("a",), "changed", after, index=index)
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "an old vector must not count"

    async def test_the_last_put_of_a_batch_is_the_one_indexed(self, calls_of: MakeCalls) -> None:
        """Vectors of a value that never was must not be found."""
        calls = calls_of("text")
        await calls.put(("a",), "fruit", {"text": "apple tree garden sun"})
        await calls.batch([PutOp(("a",), "k", {"text": "apple"}), PutOp(("a",), "k", {"text": "gravel"})])
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "only the last put must be indexed"
        assert (await calls.keys(("a",), query="rock"))[:1] == ["k"], "the last put must be indexed"

    async def test_a_deleted_item_is_not_found(self, calls_of: MakeCalls) -> None:
        """Nor is its vector there when the key is used again."""
        calls = calls_of("text")
        await calls.put(("a",), "k", {"text": "apple"})
        await calls.put(("b",), "k", {"text": "apple"})
        await calls.put(("a",), "fruit", {"text": "apple tree garden sun"})
        await calls.delete(("a",), "k")
        assert await calls.keys(("a",), query="fruit") == ["fruit"], "a deleted item must not be found"
        assert await calls.keys(("b",), query="fruit") == ["k"], "the same key elsewhere must be found"
        await calls.put(("a",), "k", {"text": "gravel"})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "an old vector must not count"

    async def test_a_query_keeps_to_prefix_and_filter(self, calls_of: MakeCalls) -> None:
        """However near what lies beyond may be."""
        calls = calls_of("text")
        await calls.put_all(("a",), {"far": {"text": "apple tree garden", "n": 1}, "near": {"text": "apple", "n": 2}})
        await calls.put(("ab",), "other", {"text": "apple", "n": 1})
        await calls.put(("a", "b"), "below", {"text": "apple tree", "n": 1})
        found = [(item.namespace, item.key) for item in await calls.search(("a",), query="fruit", filter={"n": 1})]
        assert found == [(("a", "b"), "below"), (("a",), "far")], "a query must keep to prefix and filter"

    async def test_pages_of_a_query_follow_each_other(self, calls_of: MakeCalls) -> None:
        """In the order of the scores, each item once."""
        calls = calls_of("text")
        await calls.put_all(("a",), {f"k{n}": {"text": "apple" + " gravel" * n} for n in range(9)})
        expected = [f"k{n}" for n in range(9)]
        pages = [await calls.keys(("a",), query="fruit", limit=4, offset=offset) for offset in (0, 4, 8)]
        assert [key for page in pages for key in page] == expected, "pages must follow each other"

    async def test_an_item_with_many_vectors_is_found_once(self, calls_of: MakeCalls) -> None:
        """By the nearest of them."""
        calls = calls_of("parts[*]")
        await calls.put(("a",), "many", {"parts": ["apple", "apple pear", "gravel", "apple sand"]})
        await calls.put(("a",), "one", {"parts": ["apple gravel"]})
        assert await calls.keys(("a",), query="fruit") == ["many", "one"], "each must be found once"
        assert await calls.keys(("a",), query="fruit", limit=2) == ["many", "one"], "a limit must count items"

    async def test_a_function_may_embed(self, calls_of: MakeCalls, embeddings: WordEmbeddings) -> None:
        """`embed` may be a plain function of a list of texts."""
        calls = calls_of("text", embed=lambda texts: [embeddings.embed_query(text) for text in texts])
        await calls.put_all(("a",), {"fruit": {"text": "apple"}, "stone": {"text": "gravel"}})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "a function must serve as embeddings"
