"""`index={"score": "cosine"}`: the plain cosine of the vectors, as LangGraph's other stores give it."""

import pytest
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search import memory_search
from tests.living import one_node, thread
from tests.word_embeddings import DIMENSIONS, WordEmbeddings

NS = ("users", "ana")
TEXTS = {
    "tea": "green tea",
    "teas": "green tea green tea",
    "cake": "tea and cake",
    "rain": "it rains again",
    "sea": "the green sea at night",
}
QUESTIONS = ("green tea", "tea", "cake at night", "nothing of it")


def index(embeddings=None, **more):
    return {"dims": DIMENSIONS, "embed": embeddings or WordEmbeddings(), "fields": ["text"], "score": "cosine", **more}


@pytest.fixture
def store(url):
    with AgentMemoryStore.from_conn_string(url, index=index()) as opened:
        yield opened


def fill(store):
    for number, (key, text) in enumerate(TEXTS.items()):
        store.put(NS, key, {"text": text, "even": number % 2 == 0})


def scores(store, question, namespace=("users",), **arguments):
    return {item.key: round(item.score, 4) for item in store.search(namespace, query=question, **arguments)}


class TestScore:
    def test_it_is_that_of_the_store_that_comes_with_langgraph(self, store):
        other = InMemoryStore(index={"dims": DIMENSIONS, "embed": WordEmbeddings(), "fields": ["text"]})
        fill(store)
        fill(other)
        for question in QUESTIONS:
            ours, theirs = scores(store, question), scores(other, question)
            assert ours == pytest.approx(theirs, abs=1e-3)
            assert list(ours.values()) == sorted(ours.values(), reverse=True)

    def test_of_several_fields_the_nearest_counts(self, url):
        with AgentMemoryStore.from_conn_string(url, index=index(fields=["a", "b"])) as store:
            for number in range(9):
                store.put(NS, str(number), {"a": "rain", "b": "green tea"})
            assert list(scores(store, "green tea", limit=9).values()) == pytest.approx([1] * 9, abs=1e-3)
            assert list(scores(store, "green tea", limit=9)) == [str(number) for number in reversed(range(9))]


class TestFinding:
    def test_a_filter_and_pages_go_on_until_there_are_enough(self, store):
        fill(store)
        every = list(scores(store, "green tea"))
        assert list(scores(store, "green tea", filter={"even": True})) == [
            k for k in every if k in {"tea", "cake", "sea"}
        ]
        assert [key for at in range(5) for key in scores(store, "green tea", limit=1, offset=at)] == every

    def test_what_is_kept_among_many_other_things_is_found(self, url, monkeypatch):
        monkeypatch.setattr(memory_search, "MOST_RANGES", 1)
        with AgentMemory(url, index=index()) as memory:
            fill(memory.store)
            for number in range(20):
                memory.conversation(f"c{number}", namespace=NS).add(role="user", content="green tea")
                memory.store.put((*NS, str(number)), "k", {"text": "rain"})
            assert list(scores(memory.store, "green tea", limit=3))[:2] in (["teas", "tea"], ["tea", "teas"])


class TestThreads:
    def test_the_store_of_a_thread_gives_it_too_and_rewinds(self, url):
        with AgentMemory(url, index=index()) as memory:

            def node(state):
                memory.thread_store.put(NS, "tea", {"text": "rain" if state["n"] else "green tea"})
                return {"n": state["n"] + 1}

            graph = one_node(node, memory)
            graph.invoke({"n": 0}, thread())
            first = graph.get_state(thread()).config
            graph.invoke({"n": 1}, thread())
            memory.settle()
            assert scores(memory.thread_store.at(first), "green tea") == pytest.approx({"tea": 1}, abs=1e-3)
            assert scores(memory.thread_store.at(thread()), "green tea") == pytest.approx({"tea": 0}, abs=1e-3)


class TestRefusing:
    def test_what_makes_no_sense_is_refused(self):
        for wrong, said in (({"score": "cosine"}, "embed"), (index(score="dot"), "cosine"), (index(score=1), "cosine")):
            with pytest.raises(InvalidInput, match=said):
                AgentMemory(index=wrong)

    def test_embeddings_that_fail_fail_the_search(self, store, monkeypatch):
        fill(store)

        def fails(text):
            raise ConnectionError("no model")

        monkeypatch.setattr(store.embeddings, "embed_query", fails)
        with pytest.raises(ConnectionError, match="no model"):
            store.search(NS, query="tea")
        assert len(store.search(NS)) == len(TEXTS)
