"""Vectors come later than what they stand for, and nothing waits for them, nor is lost with them."""

import asyncio

import pytest

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import BATCH_SIZE, embedder_of
from tests.word_embeddings import WordEmbeddings

from .conftest import DIMS, SAME, WORDS, found, held_up, said, waiting


class Counting(WordEmbeddings):
    """Words that mean the same have the same vector; counts what it is asked."""

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
    return Counting()


@pytest.mark.sqlite_suffices
class TestFinding:
    def test_what_means_the_same_is_found_at_once(self, opened):
        memory = opened()
        said(memory, "My cat sleeps.", "Bread is cheap.")
        [first, *_] = memory.search("feline", everything=True)
        assert first.text == "My cat sleeps."
        assert first.why.signals["vectors"] > 0

    def test_walls_hold_for_vectors_too(self, opened):
        memory = opened()
        said(memory, "My cat sleeps.", namespace=("a",))
        said(memory, "My dog barks.", namespace=("b",))
        memory.store.put(("b",), "1", {"text": "cat"})
        assert found(memory, "feline", namespace=("b",), kinds=["message"]) in (["My dog barks."], [])
        assert "My cat sleeps." not in found(memory, "feline", namespace=("b",))
        assert found(memory, "feline", namespace=("a",), roles=["assistant"]) == []

    def test_what_is_edited_or_removed_is_found_by_what_it_means_now_only(self, opened):
        memory = opened()
        [message, other] = said(memory, "My cat sleeps.", "A cat purrs.")
        assert memory.search("feline", everything=True)[0].why.signals["vectors"] > 0.3
        memory.conversation("c").update(message, content="Bread is cheap.")
        memory.conversation("c").remove_by_id(other)
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in memory.search("feline", everything=True))
        assert memory.admin.verify().problems == ()

    def test_the_question_is_put_as_the_one_it_names_would_speak(self, opened, embeddings):
        memory = opened()
        memory.conversation("c").add(role="user", content="I bought a car.", name="Ana")
        memory.search("What is Ana's car, and did Ana pay?", everything=True)
        assert embeddings.queries[-1] == "What is my car, and did I pay?"

    def test_vectors_of_a_model_that_does_not_know_the_language_leave_the_order_to_the_words(self, opened, embeddings):
        embeddings.knows_nothing = True
        memory = opened()
        said(memory, *(f"Der Hund Nummer {n} bellt." if n % 9 else f"Katze {n} schläft." for n in range(90)))
        assert all("Katze" in text for text in found(memory, "Wo schläft die Katze?", limit=10))


@pytest.mark.sqlite_suffices
class TestWaiting:
    def test_what_another_process_stores_waits_for_whoever_has_the_embeddings(self, url, opened):
        opened().close()
        with AgentMemory(url) as plain:
            said(plain, "My cat sleeps.")
            assert found(plain, "feline") == []
            assert found(plain, "cat") == ["My cat sleeps."]
        assert found(opened(), "feline") == ["My cat sleeps."]

    def test_a_crash_before_the_vectors_loses_none(self, url, opened, embeddings):
        embeddings.broken = True
        memory = opened()
        said(memory, *(f"cat number{n}" for n in range(BATCH_SIZE + 5)))
        memory.close()
        embeddings.broken = False
        memory = opened()
        memory.settle()
        assert sorted(embeddings.texts) == sorted(f"cat number{n}" for n in range(BATCH_SIZE + 5))
        memory.settle()
        assert len(embeddings.texts) == BATCH_SIZE + 5

    def test_an_embedding_that_takes_long_delays_no_write_and_no_search(self, opened, embeddings, monkeypatch):
        monkeypatch.setattr(vectors, "SEARCH_WAIT", 0.05)
        going, go_on = held_up(embeddings)
        memory = opened()
        said(memory, "My cat sleeps.")
        assert going.wait(120)
        said(memory, "My dog barks.")  # while the first is being embedded
        assert len(memory.conversation("c").messages) == 2
        assert (found(memory, "cat"), found(memory, "feline")) == (["My cat sleeps."], [])
        go_on.set()
        memory.settle()
        assert found(memory, "hound")[0] == "My dog barks."

    def test_a_vector_of_a_text_that_has_changed_meanwhile_is_thrown_away(self, opened, embeddings, monkeypatch):
        memory = opened()
        embedder_of(memory.database).close()
        [message] = said(memory, "My cat sleeps.")
        real = embeddings.embed_documents

        def meanwhile(texts):
            if "My cat sleeps." in texts:
                memory.conversation("c").update(message, content="Bread is cheap.")
            return real(texts)

        monkeypatch.setattr(embeddings, "embed_documents", meanwhile)
        memory.settle()
        assert embeddings.texts == ["My cat sleeps.", "Bread is cheap."]
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in memory.search("feline", everything=True))


class TestFailing:
    def test_a_failing_model_leaves_the_search_to_the_words(self, opened, embeddings, caplog):
        embeddings.broken = True
        memory = opened()
        said(memory, "My cat sleeps.")
        assert found(memory, "cat") == ["My cat sleeps."]
        assert "words alone" in caplog.text
        with pytest.raises(ConnectionError):
            memory.settle()
        embeddings.broken = False
        assert found(memory, "feline") == ["My cat sleeps."]

    def test_vectors_that_are_none_are_not_kept(self, opened, embeddings, monkeypatch):
        memory = opened()
        embedder_of(memory.database).close()
        said(memory, "My cat sleeps.")
        for wrong, says in (
            ([[1.0, 2.0]], r"the shape \(2,\)"), ([["a"] * 64], None), ([], None), (None, None),
            ([[float("nan")] * DIMS], "must be finite"),
        ):  # fmt: skip
            monkeypatch.setattr(embeddings, "embed_documents", lambda texts, wrong=wrong: wrong)
            with pytest.raises((InvalidInput, TypeError), match=says):
                memory.settle()
            assert waiting(memory) == 1, wrong
        assert found(memory, "cat") == ["My cat sleeps."]

    def test_vectors_of_another_size_are_refused(self, url, opened):
        opened().close()
        with pytest.raises(InvalidInput, match="dimensions"):
            AgentMemory(url, index={"dims": 3, "embed": WORDS})
        opened()

    def test_a_configuration_that_makes_no_sense_is_refused(self):
        for index in ({"embed": WORDS}, {"dims": 0, "embed": WORDS}, {"dims": 3, "embed": 7}, 5):
            with pytest.raises(InvalidInput):
                AgentMemory(index=index)

    def test_without_numpy_the_extra_is_named(self, monkeypatch):
        def missing():
            raise MissingExtra("Search by vectors", "vectors")

        monkeypatch.setattr(vectors, "numpy", missing)
        with pytest.raises(MissingExtra, match=r"\[vectors\]"):
            AgentMemory(index={"dims": 3, "embed": WORDS})

    def test_a_text_that_is_refused_keeps_no_other_from_its_vector(self, opened, embeddings, monkeypatch):
        real, asked = embeddings.embed_documents, []

        def choosy(texts):
            asked.append(texts)
            if any("poison" in text for text in texts):
                raise ValueError("I do not like this text")
            return real(texts)

        monkeypatch.setattr(embeddings, "embed_documents", choosy)
        memory = opened()
        embedder_of(memory.database).close()
        said(memory, "This is poison.", "My cat sleeps.", *(f"rain {n}" for n in range(BATCH_SIZE)), "A dog barks.")
        with pytest.raises(ValueError, match="do not like"):
            memory.settle()
        assert waiting(memory) == 1
        assert (found(memory, "feline")[0], found(memory, "hound")[0]) == ("My cat sleeps.", "A dog barks.")
        said(memory, *(f"poison {n}" for n in range(BATCH_SIZE)))
        asked.clear()
        with pytest.raises(ValueError, match="do not like"):
            memory.settle()
        assert len(asked) < 10  # embeddings that refuse everything are soon left alone


class TestEmbeddings:
    async def test_a_function_will_do_even_one_that_can_only_be_awaited(self, new_database):
        async def awaited(texts):
            await asyncio.sleep(0)
            return WORDS.embed_documents(texts)

        for embed in (WORDS.embed_documents, awaited):
            with AgentMemory(new_database("sqlite"), index={"dims": DIMS, "embed": embed}) as memory:
                said(memory, "My cat sleeps.", "Rain falls.")
                assert (await memory.asearch("feline", everything=True))[0].text == "My cat sleeps."
                assert found(memory, "feline")[0] == "My cat sleeps."

    def test_a_store_by_itself_has_embeddings_too(self, url, embeddings):
        index = {"dims": DIMS, "embed": embeddings, "fields": ["title"]}
        with AgentMemoryStore.from_conn_string(url, index=index) as store:
            store.put(("a",), "1", {"title": "A car", "text": "dog"})
            store.put(("a",), "2", {"title": "Rain", "text": "car"})
            assert store.search(("a",), query="automobile")[0].key == "1"

    def test_nothing_is_left_of_what_is_erased(self, opened, raw):
        memory = opened()
        said(memory, "My cat sleeps.", namespace=("a",))
        memory.store.put(("a",), "1", {"text": "cat"})
        memory.settle()
        memory.erase(namespace=("a",))
        for table in ("search_vector", "search_unembedded", "search_document", "search_series", "search_scope"):
            assert raw(memory, f"select count(*) as n from {table}")[0]["n"] == 0, table
