"""The contract of vector search: queries find similar items, and vectors follow the value."""

import pytest
from langgraph.store.base import PutOp

from tests.contracts.store_contract import Calls, Contract
from tests.word_embeddings import WordEmbeddings

TREE = "apple tree garden sun"
INDEX_PATHS = (
    ("text", {"text": "apple"}),
    ("in.text", {"in": {"text": "apple"}}),
    ("parts[*].text", {"parts": [{"text": "sand"}, {"text": "apple"}]}),
    ("parts[0]", {"parts": ["apple", "sand"]}),
    ("parts[-1]", {"parts": ["sand", "apple"]}),
    (None, {"any": {"deep": ["apple"]}}),  # the whole value
)
REINDEX_CASES = (
    (["gravel", "apple"], ["gravel"], None),
    ("apple", "gravel", None),
    ("apple", "gravel", False),
    ("apple", None, None),
    ("apple", "apple", ["title"]),
)
"""The field before and after a put, and what that put has indexed: the vector of "apple" must be gone."""


class IndexedStoreContract(Contract):
    """What a store with embeddings must do. The fixture `make_store`, which opens an empty store, is to be supplied.

    The tests ask for orders, not for scores. Their queries share no word with what they are to find, only the meaning,
    so that a store may blend vectors with words as it likes.
    """

    @pytest.fixture
    def embeddings(self):
        return WordEmbeddings(same={"fruit": "apple", "citrus": "pear", "rock": "gravel"})

    @pytest.fixture
    def calls_of(self, make_store, embeddings, way):
        """Opens a store that indexes fields."""

        def open_store(*fields, **index):
            given = {"dims": embeddings.dims, "embed": embeddings, **({"fields": list(fields)} if fields else {})}
            return Calls(make_store({**given, **index}), way)

        return open_store

    async def test_most_similar_items_come_first(self, calls_of):
        calls = calls_of("text")
        texts = {"stone": "stone gravel sand", "both": "apple stone pear", "fruit": "apple pear"}
        await calls.put_all(("a",), {key: {"text": text} for key, text in texts.items()})
        found = await calls.search(("a",), query="fruit citrus")
        assert [item.key for item in found][:2] == ["fruit", "both"]
        assert found[0].score > found[1].score

    async def test_index_paths_select_the_indexed_text(self, calls_of):
        for field, value in INDEX_PATHS:
            calls = calls_of(*([field] if field else []))
            elsewhere = {"other": "apple" if field else "sand"}
            await calls.put_all((f"{field}".encode().hex(),), {"elsewhere": elsewhere, "named": {**value, "more": "x"}})
            found = await calls.keys((f"{field}".encode().hex(),), query="fruit")
            assert found[:1] == ["named"], field

    async def test_put_can_override_the_indexed_fields(self, calls_of, embeddings):
        calls, value = calls_of("text"), {"text": "gravel", "title": "apple"}
        await calls.put(("a",), "not", value, index=False)
        assert embeddings.embedded == []
        await calls.put(("a",), "own", value, index=["title"])
        await calls.put(("a",), "default", value)
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["own"]
        assert (await calls.keys(("a",), query="rock"))[:1] == ["default"]
        assert (await calls.existing(("a",), "not")).value == value

    async def test_duplicate_texts_in_a_batch_are_indexed(self, calls_of):
        calls = calls_of("text")
        places = ((("a",), "one"), (("a",), "two"), (("b",), "one"))
        await calls.batch([*(PutOp(*at, {"text": "apple"}) for at in places), PutOp(("a",), "x", {"text": "gravel"})])
        assert set((await calls.keys(("a",), query="fruit"))[:2]) == {"one", "two"}
        assert await calls.keys(("b",), query="fruit") == ["one"]

    async def test_outdated_vectors_are_removed(self, calls_of):
        for number, (before, after, index) in enumerate(REINDEX_CASES):
            calls, at = calls_of("text", "text[*]"), (f"n{number}",)
            await calls.put(at, "changed", {"text": before, "title": "gravel"})
            await calls.put(at, "fruit", {"text": TREE})
            await calls.put(at, "changed", {"title": "gravel", **({"text": after} if after else {})}, index=index)
            assert (await calls.keys(at, query="fruit"))[:1] == ["fruit"], number
            if after == "gravel" and index is None:
                assert (await calls.keys(at, query="rock"))[:1] == ["changed"]

    async def test_a_deleted_item_is_not_found(self, calls_of):
        calls = calls_of("text")
        await calls.put(("a",), "k", {"text": "apple"})
        await calls.put(("b",), "k", {"text": "apple"})
        await calls.put(("a",), "fruit", {"text": TREE})
        await calls.delete(("a",), "k")
        assert await calls.keys(("a",), query="fruit") == ["fruit"]
        assert await calls.keys(("b",), query="fruit") == ["k"]
        await calls.put(("a",), "k", {"text": "gravel"})
        assert (await calls.keys(("a",), query="fruit"))[:1] == ["fruit"], "an old vector must not count"

    async def test_query_respects_prefix_and_filter(self, calls_of):
        calls = calls_of("text")
        await calls.put_all(("a",), {"far": {"text": "apple tree garden", "n": 1}, "near": {"text": "apple", "n": 2}})
        await calls.put(("ab",), "other", {"text": "apple", "n": 1})
        await calls.put(("a", "b"), "below", {"text": "apple tree", "n": 1})
        assert await calls.keys(("a",), query="fruit", filter={"n": 1}) == ["below", "far"]

    async def test_query_pages_are_consecutive(self, calls_of):
        calls = calls_of("text")
        await calls.put_all(("a",), {f"k{n}": {"text": "apple" + " gravel" * n} for n in range(9)})
        pages = [await calls.keys(("a",), query="fruit", limit=4, offset=offset) for offset in (0, 4, 8)]
        assert [key for page in pages for key in page] == [f"k{n}" for n in range(9)]

    async def test_an_item_with_many_vectors_is_found_once(self, calls_of):
        calls = calls_of("parts[*]")
        await calls.put(("a",), "many", {"parts": ["apple", "apple pear", "gravel", "apple sand"]})
        await calls.put(("a",), "one", {"parts": ["apple gravel"]})
        for limit in (2, 10):
            assert await calls.keys(("a",), query="fruit", limit=limit) == ["many", "one"]
