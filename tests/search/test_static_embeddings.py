"""Vectors without a model server: read from a wheel, the same everywhere, and nothing asks the network."""

import sys

import pytest

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import STATIC_DIMENSIONS, StaticEmbeddings


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


class TestVectors:
    def test_texts_of_like_meaning_lie_nearer_than_others(self):
        guitar, music, train = StaticEmbeddings().embed_documents(
            ["She plays the guitar.", "He is a musician in a band.", "The train leaves at noon."]
        )
        assert cosine(guitar, music) > cosine(guitar, train) + 0.1

    def test_they_have_length_one_and_the_dimensions_that_are_told(self):
        vector = StaticEmbeddings().embed_query("Where does Ana live?")
        assert len(vector) == STATIC_DIMENSIONS
        assert cosine(vector, vector) == pytest.approx(1)

    def test_a_text_has_one_vector_alone_or_among_others(self):
        texts = ["Ana lives in Lisbon.", "", "日本語のテキスト", "\x00\ud800", "word " * 5_000]
        embeddings = StaticEmbeddings()
        assert embeddings.embed_documents(texts) == [StaticEmbeddings().embed_query(text) for text in texts]

    def test_a_text_of_nothing_has_no_direction(self):
        assert set(StaticEmbeddings().embed_query("")) == {0.0}


class TestOpening:
    def test_a_memory_and_a_store_find_what_means_the_same(self, url):
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

    def test_no_other_dimensions_are_accepted(self):
        AgentMemory(index={"embed": "static", "dims": STATIC_DIMENSIONS}).close()
        with pytest.raises(InvalidInput, match=str(STATIC_DIMENSIONS)):
            AgentMemory(index={"embed": "static", "dims": 64})

    @pytest.mark.parametrize("module", ["tokenizers", "wordllama"])
    def test_without_the_extra_its_name_is_told(self, monkeypatch, module):
        vectors._model.cache_clear()
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=r"langchain-agentmem\[static\]"):
            AgentMemory(index={"embed": "static"})
