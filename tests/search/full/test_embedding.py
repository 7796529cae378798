"""Slow, failing, async-only and concurrent embeddings, the vector cache and pgvector."""

import asyncio
import multiprocessing
import queue
import random
import threading

import psycopg
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.concurrency import read_workers
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import DatabaseUnreadable, MemoryClosed
from langchain_agentmem.search import vectors
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import SearchFilter, find_ranges
from langchain_agentmem.search.memory_search import make_vector_query as near_question
from langchain_agentmem.search.vectors import embedder_of
from langchain_agentmem.storage import background, query
from tests.conftest import run_raw
from tests.search.conftest import DIMS, WORDS, add_texts, block_embeddings, count_pending, search_texts, start_thread
from tests.word_embeddings import WordEmbeddings


class BlockingEmbeddings(Embeddings):
    """Embeddings that record their calls and can block a query."""

    def __init__(self):
        self.asked, self.documents = [], []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def embed_documents(self, texts):
        self.documents.append(texts)
        return WORDS.embed_documents(texts)

    def embed_query(self, text):
        self.asked.append(text)
        self.began.set()
        assert self.go_on.wait(120)
        return WORDS.embed_query(text)


class RandomEmbeddings(WordEmbeddings):
    """Embeddings that give each text a fixed random vector."""

    def embed_query(self, text):
        chance = random.Random(text)
        return [chance.gauss(0, 1) for _ in range(self.dims)]


class AsyncOnlyEmbeddings(Embeddings):
    """Embeddings with async methods only, which record their event loops."""

    def __init__(self):
        self.loops = []

    def embed_documents(self, texts):
        raise NotImplementedError

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        self.loops.append(asyncio.get_running_loop())
        return WORDS.embed_documents(texts)

    async def aembed_query(self, text):
        return (await self.aembed_documents([text]))[0]


@pytest.fixture(params=["public", "Some Extensions"])
def with_pgvector(request, new_database):
    """A PostgreSQL database with pgvector, in either schema."""
    url = new_database("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create schema if not exists "{request.param}"')
        connection.execute(f'create extension vector schema "{request.param}"')
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema agentmem cascade")
        connection.execute("drop extension vector")


def nearest(memory, path, number):
    """The ten documents of a namespace that lie nearest to a question, with their cosines."""
    walls = SearchFilter(path_of(path), path_of(path) + "\x1f")
    near = near_question(memory.database, analyze_query(f"question {number}"), walls)
    return memory.database.engine.read(lambda tx: near.nearest(tx, find_ranges(tx, walls)[0], 10))


def slowly(operation):
    """Wrap an operation so that it blocks before returning; with the events that signal and release it."""
    going, go_on = threading.Event(), threading.Event()

    def run(tx):
        value = operation(tx)
        going.set()
        assert go_on.wait(120)
        return value

    return run, going, go_on


def wait_until_blocked_or_done(memory, thread):
    """Wait until a thread is done or waits for a lock on PostgreSQL; SQLite lets nobody write beside another."""
    waiting = "select 1 as one from pg_locks join pg_stat_activity using (pid) where not granted and datname = "
    while memory.database.engine.dialect == "postgres" and thread.is_alive():
        if run_raw(memory, f"{waiting} current_database()"):
            break


def _settle_in_child(memory):
    add_texts(memory, "A dog barks.")
    memory.settle()
    assert search_texts(memory, "feline", limit=1) == ["My cat sleeps."]
    assert [each.text for each in asyncio.run(memory.asearch("feline", limit=1, everything=True))] == ["My cat sleeps."]


def test_damaged_message_does_not_block_other_vectors(opened, raw):
    memory = opened()
    embedder_of(memory.database).close()
    add_texts(memory, "This is damaged.", "My cat sleeps.")
    raw(memory, "update entry set body = :body where id = (select min(id) from entry)", body=b"x")
    with pytest.raises(DatabaseUnreadable):
        memory.settle()
    assert count_pending(memory) == 1


@pytest.mark.sqlite_suffices
class TestSlowEmbeddings:
    @pytest.fixture
    def hanging(self, opened):
        """A memory with an item, whose embeddings hang until an event is set."""
        memory = opened(embeddings := BlockingEmbeddings())
        memory.store.put(("a",), "1", {"text": "cat"})
        memory.settle()
        embeddings.go_on.clear()
        return memory, embeddings

    async def test_pending_searches_do_not_block_reads(self, hanging):
        memory, embeddings = hanging
        searches = [asyncio.create_task(memory.asearch("feline", everything=True)) for _ in range(read_workers.size)]
        searches += [
            asyncio.create_task(memory.store.asearch(("a",), query="feline")) for _ in range(read_workers.size)
        ]
        await asyncio.to_thread(embeddings.began.wait, 120)
        assert (await asyncio.wait_for(memory.store.aget(("a",), "1"), 120)).value == {"text": "cat"}
        embeddings.go_on.set()
        assert all(await asyncio.gather(*searches))

    async def test_search_with_hanging_model_can_be_cancelled(self, hanging):
        memory, embeddings = hanging
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await memory.asearch("feline", everything=True)
        embeddings.go_on.set()
        assert await memory.asearch("feline", everything=True)

    def test_search_with_limit_zero_embeds_nothing(self, opened):
        embeddings = BlockingEmbeddings()
        memory = opened(embeddings)
        memory.store.put(("a",), "1", {"text": "cat"})
        assert memory.store.search(("a",), query="cat", limit=0) == []
        assert memory.search("cat", limit=0, everything=True) == []
        assert embeddings.asked == []

    async def test_search_after_close_raises_memory_closed(self, opened):
        memory = opened()
        add_texts(memory, "My cat sleeps.")
        await memory.asearch("feline", everything=True)
        memory.close()
        searches = (memory.asearch("feline", everything=True), memory.store.asearch(("a",), query="feline"))
        for search in (*searches, memory.asettle()):
            with pytest.raises(MemoryClosed):
                await search
        for search in (memory.settle, lambda: memory.search("feline", everything=True)):
            with pytest.raises(MemoryClosed):
                search()

    @pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
    def test_forked_child_can_embed_and_search(self, opened):
        memory = opened()
        add_texts(memory, "My cat sleeps.")
        memory.settle()
        child = multiprocessing.get_context("fork").Process(target=_settle_in_child, args=(memory,))
        child.start()
        child.join(120)
        assert child.exitcode == 0
        assert search_texts(memory, "feline", limit=1) == ["My cat sleeps."]


async def test_async_only_embeddings_run_on_one_loop(opened):
    embeddings = AsyncOnlyEmbeddings()
    memory = opened(embeddings)
    add_texts(memory, "My cat sleeps.", "Rain falls.")
    assert search_texts(memory, "feline")[0] == "My cat sleeps."  # within a running loop
    assert (await memory.asearch("feline", everything=True))[0].text == "My cat sleeps."
    assert len(embeddings.loops) >= 3
    assert len(set(map(id, embeddings.loops))) == 1


class TestConcurrency:
    @pytest.mark.slow
    def test_late_committed_vectors_are_found(self, url, opened):
        memory, other = opened(), opened()
        for each in (memory, other):
            embedder_of(each.database).close()
        add_texts(memory, "My cat sleeps.", conversation="a")
        add_texts(memory, "A dog barks.", conversation="b")
        first, second = memory.database.engine.read(lambda tx: vectors.load_pending(tx, 2))
        vector = vectors.pack_vector(WORDS.embed_query("cat"), DIMS)
        late, going, go_on = slowly(lambda tx: vectors.store_vectors(tx, {first: [vector]}))
        threads = [start_thread(lambda: memory.database.engine.write(late))]
        assert going.wait(120)
        threads.append(
            start_thread(lambda: other.database.engine.write(lambda tx: vectors.store_vectors(tx, {second: [vector]})))
        )
        wait_until_blocked_or_done(memory, threads[1])
        search_texts(memory, "feline")
        go_on.set()
        for thread in threads:
            thread.join()
        assert set(search_texts(memory, "feline")) == {"A dog barks.", "My cat sleeps."}

    @pytest.mark.slow
    def test_concurrent_write_while_enabling_vectors_is_embedded(self, url, opened):
        with AgentMemory(url) as plain:
            add_texts(plain, "Rain falls.")
            engine, real = plain.database.engine, plain.database.engine.write
            events = queue.SimpleQueue()

            def write(make):
                late, *both = slowly(make)
                events.put(both)
                return real(late)

            engine.write = write
            writing = start_thread(lambda: add_texts(plain, "My cat sleeps."))
            going, go_on = events.get(timeout=120)
            assert going.wait(120)
            memories = []
            opening = start_thread(lambda: memories.append(opened()))
            wait_until_blocked_or_done(plain, opening)
            go_on.set()
            writing.join()
            opening.join()
        memories[0].settle()
        assert search_texts(memories[0], "feline")[0] == "My cat sleeps."

    def test_vector_cache_sees_changes_of_other_memory(self, opened):
        memory, other = opened(), opened()
        [message] = add_texts(memory, "My cat sleeps.")
        memory.store.put(("a",), "1", {"text": "a cat"})
        assert set(search_texts(other, "feline")) == {"My cat sleeps.", "a cat"}
        memory.store.put(("a",), "1", {"text": "a cat"}, index=False)
        memory.conversation("c").update(message, content="A dog barks.")
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in other.search("feline", everything=True))
        memory.store.put(("a",), "1", {"text": "a cat"})
        assert search_texts(other, "feline")[0] == "a cat"
        memory.store.delete(("a",), "1")
        assert "a cat" not in search_texts(other, "feline")

    def test_search_waits_for_embeddings_of_another_process(self, opened):
        going, go_on = block_embeddings(slow := BlockingEmbeddings())
        add_texts(opened(slow), "My cat sleeps.")
        assert going.wait(120)
        other = opened(embeddings := BlockingEmbeddings())
        hits = []
        search = start_thread(lambda: hits.extend(search_texts(other, "feline")))
        assert not embeddings.began.is_set()  # it has not come to its question yet
        go_on.set()
        search.join()
        assert hits == ["My cat sleeps."]
        assert embeddings.documents == []

    def test_background_job_without_pending_texts_writes_nothing(self, opened, monkeypatch):
        monkeypatch.setattr(background, "POLL_SECONDS", 0.01)
        memory = opened()
        add_texts(memory, "My cat sleeps.")
        memory.settle()
        engine, looks, writes = memory.database.engine, threading.Semaphore(0), []
        read, write = engine.read, engine.write
        monkeypatch.setattr(engine, "read", lambda make: (looks.release(), read(make))[1])
        monkeypatch.setattr(engine, "write", lambda make: (writes.append(make), write(make))[1])
        for _ in range(2):
            writes.clear()  # of one who had looked before the last job was done
            assert all(looks.acquire(timeout=120) for _ in range(20))
        assert writes == []


class TestVectorCache:
    @pytest.mark.slow
    @pytest.mark.parametrize("most", [2**20, 600])
    def test_search_works_with_small_pages_and_cache(self, opened, monkeypatch, most):
        monkeypatch.setattr(vectors, "PAGE_SIZE", 3)
        monkeypatch.setattr(vectors, "MAX_CACHE_BYTES", most)
        memory = opened()
        for name in ("a", "b", "c"):
            add_texts(memory, *(f"rain {name} {n}" for n in range(7)), f"The cat of {name}.", namespace=(name,))
        memory.settle()
        for _ in range(2):
            assert {f"The cat of {name}." for name in "abc"} <= set(search_texts(memory, "feline", limit=5))
            assert search_texts(memory, "feline", namespace=("b",), limit=1) == ["The cat of b."]
            add_texts(memory, "Another cat.", namespace=("c",))
        assert "Another cat." in search_texts(memory, "feline", namespace=("c",), limit=2)

    def test_erasure_clears_the_vector_cache(self, opened):
        memory = opened()
        add_texts(memory, "My cat sleeps.", namespace=("a",))
        assert search_texts(memory, "feline") == ["My cat sleeps."]
        assert embedder_of(memory.database)._cache._blocks
        memory.erase(namespace=("a",))
        assert not embedder_of(memory.database)._cache._blocks


@pytest.mark.sqlite_suffices
class TestPgvector:
    @pytest.fixture
    def indexed(self, with_pgvector, opened, monkeypatch):
        """A memory with enough messages for a pgvector index."""
        monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 10)
        memory = opened(where=with_pgvector)
        memory.conversation("c", namespace=("a",)).add_messages([HumanMessage(f"cat {n}") for n in range(30)])
        memory.settle()
        memory.database.background.settle()
        return memory

    @pytest.mark.slow
    def test_pgvector_finds_the_same_as_sqlite(self, with_pgvector, opened, raw, tmp_path):
        memory, other = opened(where=with_pgvector), opened(where=str(tmp_path / "other.db"))
        for each in (memory, other):
            add_texts(each, "My cat sleeps.", "Rain falls.", "A dog barks.", namespace=("a",))
            add_texts(each, "The cat eats.", namespace=("b",))
            each.store.put(("a",), "1", {"text": "cat"})
            each.settle()
        assert raw(memory, "select pgvector from search_state")[0]["pgvector"] == 1
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 5
        for options in ({}, {"namespace": ("a",)}, {"namespace": ("b",)}, {"kinds": ["item"]}):
            assert search_texts(memory, "feline", **options) == search_texts(other, "feline", **options) != []
        assert memory.admin.verify().problems == ()

    def test_pgvector_is_enabled_after_copying_empty_memory(self, with_pgvector, opened, raw, tmp_path):
        opened(where=str(tmp_path / "empty.db")).admin.copy(with_pgvector)
        assert raw(opened(where=with_pgvector), "select pgvector from search_state")[0]["pgvector"] == 1

    @pytest.mark.slow
    def test_erasure_removes_pgvector_rows_and_statistics(self, with_pgvector, opened, raw):
        memory = opened(where=with_pgvector)
        [message, *_] = add_texts(memory, "My cat sleeps.", "Rain falls.", namespace=("a",))
        memory.settle()
        raw(memory, "analyze")
        assert raw(memory, "select * from pg_stats where tablename = 'search_pgvector' and attname = 'vector'") == []
        memory.conversation("c", namespace=("a",)).remove_by_id(message)
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 1
        memory.erase(namespace=("a",))
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 0

    @pytest.mark.slow("in every form")
    def test_pgvector_index_recall_on_many_vectors(self, with_pgvector, opened, raw, monkeypatch):
        monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 400)
        memory = opened(RandomEmbeddings(), where=with_pgvector)
        for name, count in (("large", 900), ("middle", 450), ("small", 40)):
            texts = [HumanMessage(f"{name} {number}") for number in range(count)]
            memory.conversation("c", namespace=(name,)).add_messages(texts)
        memory.settle()
        memory.database.background.settle()
        assert memory.database.engine.read(lambda tx: vectors._is_index_usable(tx, [(0, 2**62)], 1_390))
        asked, real = [], query.nearest_indexed
        monkeypatch.setattr(query, "nearest_indexed", lambda tx, **given: asked.append(given) or real(tx, **given))
        for path, least in ((("large",), 0.95), (("middle",), 0.95), (("small",), 1.0)):
            found = [nearest(memory, path, number) for number in range(20)]
            monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 2**60)
            exact = [nearest(memory, path, number) for number in range(20)]
            monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 400)
            shared = sum(len(one.keys() & other.keys()) for one, other in zip(found, exact, strict=True))
            assert shared / sum(map(len, exact)) >= least
        assert len(asked) == 40  # not in the small one, nor where there are not many
        assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_insufficient_index_results_fall_back_to_scan(self, indexed, monkeypatch):
        monkeypatch.setattr(vectors, "INDEX_SHARE", 0)
        real = query.nearest_indexed
        monkeypatch.setattr(query, "nearest_indexed", lambda tx, **given: real(tx, **given | {"limit": 2}))
        assert len(nearest(indexed, ("a",), 0)) == 10

    @pytest.mark.slow
    def test_unfinished_pgvector_index_is_rebuilt(self, indexed, raw):
        memory = indexed
        raw(memory, "update pg_index set indisvalid = false where indexrelid = 'search_pgvector_near'::regclass")
        assert memory.database.engine.read(vectors._index_delay) == 0
        memory.database.background.settle()
        assert memory.database.engine.read(vectors._index_delay) is None

    @pytest.mark.slow
    def test_too_many_dimensions_disable_pgvector(self, with_pgvector, raw):
        with AgentMemory(with_pgvector) as memory:
            memory.database.engine.write(lambda tx: vectors.enable_vectors(tx, 16_001))
            assert raw(memory, "select pgvector from search_state")[0]["pgvector"] == 0
