"""Full-text search of items."""

from itertools import chain

import pytest
from langgraph.store.base import PutOp

from langchain_agentmem import AgentMemoryStore
from langchain_agentmem.errors import InvalidInput

NS = ("users", "ana")
VALUE = {"title": "Apples", "body": "about pears", "parts": [{"t": "plums"}, {"t": "figs"}], "n": 7}


def found(store, question, namespace=("users",), **arguments):
    return [item.key for item in store.search(namespace, query=question, **arguments)]


def count_indexed(memory, raw):
    return raw(memory, "select count(*) as n from search_document")[0]["n"]


class TestQueries:
    def test_matching_items_are_found_best_first(self, store):
        store.put(NS, "tea", {"likes": "green tea, garden"})
        store.put(NS, "both", {"likes": "tea", "also": ["tea", {"deep": "tea"}]})
        store.put(NS, "coffee", {"likes": "coffee"})
        results = store.search(("users",), query="Who drinks tea?")
        assert {item.key for item in results} == {"tea", "both"}
        assert results[0].score >= results[1].score > 0
        assert found(store, "green tea")[0] == "tea"

        store.put(NS, "k", {"deep": {"list": [{"year": 1984}, "Orwell"]}})
        assert found(store, "1984") == found(store, "orwell") == ["k"]
        for question in ("Oslo", "the and of", "likes"):  # a key is no text
            assert found(store, question) == [], question

    def test_empty_query_lists_all_items(self, store):
        store.put(NS, "k", {"text": "words"})
        assert found(store, "") == found(store, None) == ["k"]
        with pytest.raises(InvalidInput, match="query must be a string"):
            store.search(NS, query=7)

    def test_filters_apply_before_limit_and_offset(self, store):
        ops = [PutOp(NS, f"{i:03}", {"text": "apples and pears", "odd": i % 2}) for i in range(150)]
        store.batch([*ops, PutOp(NS, "rare", {"text": "an apple among much else " + "and more " * 40, "odd": 2})])
        assert found(store, "apples", filter={"odd": 2}) == ["rare"]
        whole = found(store, "apples", filter={"odd": 1}, limit=200)
        assert len(whole) == len(set(whole)) == 75
        pages = [found(store, "apples", filter={"odd": 1}, limit=10, offset=at) for at in range(0, 80, 10)]
        assert list(chain(*pages)) == whole

    def test_memory_search_finds_items_with_explanation(self, memory, store):
        store.put(NS, "home", {"city": "Lisbon", "since": 2020})
        memory.conversation("c", NS).add_user_message("I was in Lisbon")
        results = memory.search("Lisbon", namespace=("users",))
        assert sorted(each.kind for each in results) == ["item", "message"]
        [item] = memory.search("Lisbon", namespace=NS, kinds=["item"])
        assert (item.id, item.value, item.namespace) == ("home", {"city": "Lisbon", "since": 2020}, NS)
        assert item.conversation_id is None
        assert "lisbon" in str(item.why).casefold()
        assert item.text == "Lisbon\n2020"
        assert item.created_at == store.get(NS, "home").created_at


@pytest.mark.sqlite_suffices
class TestFields:
    def test_put_index_selects_the_searchable_fields(self, store):
        store.put(NS, "k", VALUE, index=["title", "parts[*].t"])
        assert found(store, "apples") == found(store, "plums") == found(store, "figs") == ["k"]
        assert found(store, "pears") == []

    def test_store_index_config_selects_default_fields(self, memory):
        for index in ({"fields": ["body"]}, {"text_fields": ["body"]}, {"text_fields": "body"}):
            store = AgentMemoryStore(memory, index=index)
            store.put(NS, "k", VALUE)
            assert found(store, "pears") == ["k"]
            assert found(store, "apples") == []
            store.put(NS, "own", VALUE, index=["title"])
            assert found(store, "apples") == ["own"]
            store.delete(NS, "own")

        for fields in (["$"], ["$", "title"], [""]):  # the whole value
            store = AgentMemoryStore(memory, index={"fields": fields})
            store.put(NS, "k", VALUE)
            assert found(store, "plums") == found(store, "7") == ["k"], fields

    def test_unindexed_values_are_not_found(self, memory, store, raw):
        for index in (False, [], ["missing"], ["parts[9].t"]):
            store.put(NS, "k", VALUE, index=index)
            assert found(store, "apples pears plums") == [], index
            assert count_indexed(memory, raw) == 0
        for index in (True, 7, [1], {"a": 1}):
            with pytest.raises(InvalidInput, match="list of paths"):
                store.batch([PutOp(NS, "k", {}, index)])


@pytest.mark.sqlite_suffices
class TestIndexUpdates:
    """The index follows the values."""

    CHANGES = (
        ("an update", lambda store: store.put(NS, "k", {"text": "pears"}), ["k"]),
        ("a value that shrinks", lambda store: store.put(NS, "k", {"other": "pears"}), ["k"]),
        ("an empty value", lambda store: store.put(NS, "k", {}), []),
        ("index=False", lambda store: store.put(NS, "k", {"text": "pears"}, index=False), []),
        ("another field", lambda store: store.put(NS, "k", {"text": "apples", "t": "pears"}, index=["t"]), ["k"]),
        ("a deletion", lambda store: store.delete(NS, "k"), []),
        ("a batch", lambda store: store.batch([PutOp(NS, "k", None), PutOp(NS, "k", {"text": "pears"})]), ["k"]),
    )

    @pytest.mark.parametrize("before", [None, ["text"], ["text", "parts[*]"]], ids=["whole", "field", "fields"])
    def test_changed_items_are_not_found_by_old_text(self, memory, store, raw, before):
        store.put(NS, "other", {"text": "grapes"})
        for name, act, expected in self.CHANGES:
            store.put(NS, "k", {"text": "apples", "parts": ["apples", "plums"]}, index=before)
            assert found(store, "apples") == ["k"]
            act(store)
            assert found(store, "apples") == found(store, "plums") == [], name
            assert (found(store, "pears"), found(store, "grapes")) == (expected, ["other"]), name
            assert count_indexed(memory, raw) == 1 + len(expected), name
            assert memory.admin.verify().problems == (), name

    def test_index_stays_consistent_after_many_batches(self, memory, store):
        for turn in range(6):
            values = [{"text": f"word{turn} same"} if (i + turn) % 3 else None for i in range(90)]
            hidden = [False if i % 5 == turn else None for i in range(90)]
            store.batch([PutOp((f"n{i % 3}",), str(i), values[i], hidden[i]) for i in range(90)])
        assert memory.admin.verify().problems == ()
        now = {(item.namespace, item.key) for item in store.search((), query="word5", limit=200)}
        assert now == {((f"n{i % 3}",), str(i)) for i in range(90) if (i + 5) % 3 and i % 5 != 5}
        assert store.search((), query="word4") == []
