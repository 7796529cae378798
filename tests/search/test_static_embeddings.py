"""Static embeddings, which need no model server or network."""

import sys

import pytest

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import STATIC_DIMENSIONS, StaticEmbeddings


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


class TestVectors:
    def test_similar_texts_have_higher_cosine_similarity(self):
        guitar, music, train = StaticEmbeddings().embed_documents(
            ["She plays the guitar.", "He is a musician in a band.", "The train leaves at noon."]
        )
        assert cosine(guitar, music) > cosine(guitar, train) + 0.1

    def test_vectors_are_normalized_with_documented_dimensions(self):
        vector = StaticEmbeddings().embed_query("Where does Ana live?")
        assert len(vector) == STATIC_DIMENSIONS
        assert cosine(vector, vector) == pytest.approx(1)

    def test_batch_and_query_vectors_are_equal(self):
        texts = ["Ana lives in Lisbon.", "", "日本語のテキスト", "\x00\ud800", "word " * 5_000]
        embeddings = StaticEmbeddings()
        assert embeddings.embed_documents(texts) == [StaticEmbeddings().embed_query(text) for text in texts]

    def test_empty_text_has_a_zero_vector(self):
        assert set(StaticEmbeddings().embed_query("")) == {0.0}


class TestConfiguration:
    def test_memory_and_store_search_with_static_embeddings(self, url):
        with AgentMemory(url, index={"embed": "static"}) as memory:
            chat = memory.conversation("c")
            for text in ("The kitten sleeps on the sofa.", "Bread became expensive.", "We leave on Friday."):
                chat.add(role="user", content=text)
            [first, *_] = memory.search("cat", everything=True)
            assert first.text == "The kitten sleeps on the sofa."
            assert first.why.signals["vectors"] > 0
        with AgentMemoryStore.from_conn_string(url, index={"embed": "static"}) as store:
            assert isinstance(store.embeddings, StaticEmbeddings)
            assert store.index_config["dims"] == STATIC_DIMENSIONS

    def test_other_dimensions_are_rejected(self):
        AgentMemory(index={"embed": "static", "dims": STATIC_DIMENSIONS}).close()
        with pytest.raises(InvalidInput, match=str(STATIC_DIMENSIONS)):
            AgentMemory(index={"embed": "static", "dims": 64})

    @pytest.mark.parametrize("module", ["tokenizers", "wordllama"])
    def test_missing_extra_error_names_the_extra(self, monkeypatch, module):
        vectors._load_model.cache_clear()
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=r"langchain-agentmem\[static\]"):
            AgentMemory(index={"embed": "static"})
