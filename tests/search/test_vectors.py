"""Vector search, pending vectors and embedding errors."""

import asyncio

import pytest

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import BATCH_SIZE, embedder_of
from tests.word_embeddings import WordEmbeddings

from .conftest import DIMS, SAME, WORDS, add_texts, block_embeddings, count_pending, search_texts


class CountingEmbeddings(WordEmbeddings):
    """Word embeddings with equal vectors for synonyms, which record their calls."""

    def __init__(self):
        super().__init__(same=SAME)
        self.texts, self.queries, self.broken, self.knows_nothing = [], [], False, False

    def embed_documents(self, texts):
        if self.broken:
            raise ConnectionError("no model")
        self.texts += texts
        return super().embed_documents(texts)

    def embed_query(self, text):
        if self.broken:
            raise ConnectionError("no model")
        if self.knows_nothing:
            text = "cat" if "Hund" in text or "Wo" in text else "dog"
        self.queries.append(text)
        return super().embed_query(text)


@pytest.fixture
def embeddings():
    return CountingEmbeddings()


@pytest.mark.sqlite_suffices
class TestVectorSearch:
    def test_synonyms_are_found_immediately(self, opened):
        memory = opened()
        add_texts(memory, "My cat sleeps.", "Bread is cheap.")
        [first, *_] = memory.search("feline", everything=True)
        assert first.text == "My cat sleeps."
        assert first.why.signals["vectors"] > 0

    def test_vector_search_respects_namespaces_and_roles(self, opened):
        memory = opened()
        add_texts(memory, "My cat sleeps.", namespace=("a",))
        add_texts(memory, "My dog barks.", namespace=("b",))
        memory.store.put(("b",), "1", {"text": "cat"})
        assert search_texts(memory, "feline", namespace=("b",), kinds=["message"]) in (["My dog barks."], [])
        assert "My cat sleeps." not in search_texts(memory, "feline", namespace=("b",))
        assert search_texts(memory, "feline", namespace=("a",), roles=["assistant"]) == []

    def test_edited_and_removed_messages_lose_old_vectors(self, opened):
        memory = opened()
        [message, other] = add_texts(memory, "My cat sleeps.", "A cat purrs.")
        assert memory.search("feline", everything=True)[0].why.signals["vectors"] > 0.3
        memory.conversation("c").update(message, content="Bread is cheap.")
        memory.conversation("c").remove_by_id(other)
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in memory.search("feline", everything=True))
        assert memory.admin.verify().problems == ()

    def test_query_is_embedded_in_first_person(self, opened, embeddings):
        memory = opened()
        memory.conversation("c").add(role="user", content="I bought a car.", name="Ana")
        memory.search("What is Ana's car, and did Ana pay?", everything=True)
        assert embeddings.queries[-1] == "What is my car, and did I pay?"

    def test_uninformative_vectors_do_not_change_the_order(self, opened, embeddings):
        embeddings.knows_nothing = True
        memory = opened()
        add_texts(memory, *(f"Der Hund Nummer {n} bellt." if n % 9 else f"Katze {n} schläft." for n in range(90)))
        assert all("Katze" in text for text in search_texts(memory, "Wo schläft die Katze?", limit=10))


@pytest.mark.sqlite_suffices
class TestPendingVectors:
    def test_messages_stored_without_embeddings_are_embedded_later(self, url, opened):
        opened().close()
        with AgentMemory(url) as plain:
            add_texts(plain, "My cat sleeps.")
            assert search_texts(plain, "feline") == []
            assert search_texts(plain, "cat") == ["My cat sleeps."]
        assert search_texts(opened(), "feline") == ["My cat sleeps."]

    def test_pending_vectors_survive_a_crash(self, url, opened, embeddings):
        embeddings.broken = True
        memory = opened()
        add_texts(memory, *(f"cat number{n}" for n in range(BATCH_SIZE + 5)))
        memory.close()
        embeddings.broken = False
        memory = opened()
        memory.settle()
        assert sorted(embeddings.texts) == sorted(f"cat number{n}" for n in range(BATCH_SIZE + 5))
        memory.settle()
        assert len(embeddings.texts) == BATCH_SIZE + 5

    def test_slow_embeddings_do_not_block_writes_or_searches(self, opened, embeddings, monkeypatch):
        monkeypatch.setattr(vectors, "SEARCH_WAIT", 0.05)
        going, go_on = block_embeddings(embeddings)
        memory = opened()
        add_texts(memory, "My cat sleeps.")
        assert going.wait(120)
        add_texts(memory, "My dog barks.")  # while the first is being embedded
        assert len(memory.conversation("c").messages) == 2
        assert (search_texts(memory, "cat"), search_texts(memory, "feline")) == (["My cat sleeps."], [])
        go_on.set()
        memory.settle()
        assert search_texts(memory, "hound")[0] == "My dog barks."

    def test_vector_of_a_changed_text_is_discarded(self, opened, embeddings, monkeypatch):
        memory = opened()
        embedder_of(memory.database).close()
        [message] = add_texts(memory, "My cat sleeps.")
        real = embeddings.embed_documents

        def meanwhile(texts):
            if "My cat sleeps." in texts:
                memory.conversation("c").update(message, content="Bread is cheap.")
            return real(texts)

        monkeypatch.setattr(embeddings, "embed_documents", meanwhile)
        memory.settle()
        assert embeddings.texts == ["My cat sleeps.", "Bread is cheap."]
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in memory.search("feline", everything=True))


class TestEmbeddingErrors:
    def test_failing_embeddings_fall_back_to_keyword_search(self, opened, embeddings, caplog):
        embeddings.broken = True
        memory = opened()
        add_texts(memory, "My cat sleeps.")
        assert search_texts(memory, "cat") == ["My cat sleeps."]
        assert "keyword search" in caplog.text
        with pytest.raises(ConnectionError):
            memory.settle()
        embeddings.broken = False
        assert search_texts(memory, "feline") == ["My cat sleeps."]

    def test_invalid_vectors_are_rejected(self, opened, embeddings, monkeypatch):
        memory = opened()
        embedder_of(memory.database).close()
        add_texts(memory, "My cat sleeps.")
        for wrong, says in (
            ([[1.0, 2.0]], r"of shape \(2,\)"), ([["a"] * 64], None), ([], None), (None, None),
            ([[float("nan")] * DIMS], "must be finite"),
        ):  # fmt: skip
            monkeypatch.setattr(embeddings, "embed_documents", lambda texts, wrong=wrong: wrong)
            with pytest.raises((InvalidInput, TypeError), match=says):
                memory.settle()
            assert count_pending(memory) == 1, wrong
        assert search_texts(memory, "cat") == ["My cat sleeps."]

    def test_other_dimensions_are_rejected(self, url, opened):
        opened().close()
        with pytest.raises(InvalidInput, match="dimensions"):
            AgentMemory(url, index={"dims": 3, "embed": WORDS})
        opened()

    def test_invalid_index_configuration_is_rejected(self):
        for index in ({"embed": WORDS}, {"dims": 0, "embed": WORDS}, {"dims": 3, "embed": 7}, 5):
            with pytest.raises(InvalidInput):
                AgentMemory(index=index)

    def test_missing_numpy_error_names_the_extra(self, monkeypatch):
        def missing():
            raise MissingExtra("Search by vectors", "vectors")

        monkeypatch.setattr(vectors, "numpy", missing)
        with pytest.raises(MissingExtra, match=r"\[vectors\]"):
            AgentMemory(index={"dims": 3, "embed": WORDS})

    def test_rejected_text_does_not_block_other_vectors(self, opened, embeddings, monkeypatch):
        real, asked = embeddings.embed_documents, []

        def choosy(texts):
            asked.append(texts)
            if any("poison" in text for text in texts):
                raise ValueError("I do not like this text")
            return real(texts)

        monkeypatch.setattr(embeddings, "embed_documents", choosy)
        memory = opened()
        embedder_of(memory.database).close()
        add_texts(
            memory, "This is poison.", "My cat sleeps.", *(f"rain {n}" for n in range(BATCH_SIZE)), "A dog barks."
        )
        with pytest.raises(ValueError, match="do not like"):
            memory.settle()
        assert count_pending(memory) == 1
        assert (search_texts(memory, "feline")[0], search_texts(memory, "hound")[0]) == (
            "My cat sleeps.",
            "A dog barks.",
        )
        add_texts(memory, *(f"poison {n}" for n in range(BATCH_SIZE)))
        asked.clear()
        with pytest.raises(ValueError, match="do not like"):
            memory.settle()
        assert len(asked) < 10  # embeddings that refuse everything are soon left alone


class TestEmbeddings:
    async def test_sync_and_async_functions_work_as_embeddings(self, new_database):
        async def awaited(texts):
            await asyncio.sleep(0)
            return WORDS.embed_documents(texts)

        for embed in (WORDS.embed_documents, awaited):
            with AgentMemory(new_database("sqlite"), index={"dims": DIMS, "embed": embed}) as memory:
                add_texts(memory, "My cat sleeps.", "Rain falls.")
                assert (await memory.asearch("feline", everything=True))[0].text == "My cat sleeps."
                assert search_texts(memory, "feline")[0] == "My cat sleeps."

    def test_standalone_store_searches_by_vectors(self, url, embeddings):
        index = {"dims": DIMS, "embed": embeddings, "fields": ["title"]}
        with AgentMemoryStore.from_conn_string(url, index=index) as store:
            store.put(("a",), "1", {"title": "A car", "text": "dog"})
            store.put(("a",), "2", {"title": "Rain", "text": "car"})
            assert store.search(("a",), query="automobile")[0].key == "1"

    def test_erasure_removes_vectors_and_index_rows(self, opened, raw):
        memory = opened()
        add_texts(memory, "My cat sleeps.", namespace=("a",))
        memory.store.put(("a",), "1", {"text": "cat"})
        memory.settle()
        memory.erase(namespace=("a",))
        for table in ("search_vector", "search_unembedded", "search_document", "search_series", "search_scope"):
            assert raw(memory, f"select count(*) as n from {table}")[0]["n"] == 0, table
