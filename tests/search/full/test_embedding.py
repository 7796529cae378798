"""Embeddings may be slow, broken or only awaitable, and many may work on one database: nobody is kept from anything."""

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
from langchain_agentmem.search.memory_search import SearchFilter, ranges_of
from langchain_agentmem.search.memory_search import make_vector_query as near_question
from langchain_agentmem.search.vectors import embedder_of
from langchain_agentmem.storage import background, query
from tests.conftest import run_raw
from tests.search.conftest import DIMS, WORDS, found, held_up, in_thread, said, waiting
from tests.word_embeddings import WordEmbeddings


class Choosy(Embeddings):
    """Keeps what it is asked; a question may be held up."""

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


class AnyDirection(WordEmbeddings):
    """Texts have directions by chance, the same each time."""

    def embed_query(self, text):
        chance = random.Random(text)
        return [chance.gauss(0, 1) for _ in range(self.dims)]


class OnlyAwaited(Embeddings):
    """Can only be awaited, and remembers on which event loops."""

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
    """A PostgreSQL database with pgvector, in whatever schema."""
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
    return memory.database.engine.read(lambda tx: near.nearest(tx, ranges_of(tx, walls)[0], 10))


def slowly(operation):
    """An operation that waits before its end; with the events that say so and let it go on."""
    going, go_on = threading.Event(), threading.Event()

    def run(tx):
        value = operation(tx)
        going.set()
        assert go_on.wait(120)
        return value

    return run, going, go_on


def blocked_or_done(memory, thread):
    """Wait until a thread is done or waits for a lock on PostgreSQL; SQLite lets nobody write beside another."""
    waiting = "select 1 as one from pg_locks join pg_stat_activity using (pid) where not granted and datname = "
    while memory.database.engine.dialect == "postgres" and thread.is_alive():
        if run_raw(memory, f"{waiting} current_database()"):
            break


def _settle_in_child(memory):
    said(memory, "A dog barks.")
    memory.settle()
    assert found(memory, "feline", limit=1) == ["My cat sleeps."]
    assert [each.text for each in asyncio.run(memory.asearch("feline", limit=1, everything=True))] == ["My cat sleeps."]


class TestRefusing:
    def test_a_message_that_is_damaged_keeps_no_other_from_its_vector(self, opened, raw):
        memory = opened()
        embedder_of(memory.database).close()
        said(memory, "This is damaged.", "My cat sleeps.")
        raw(memory, "update content set body = :body where id = (select min(id) from content)", body=b"x")
        with pytest.raises(DatabaseUnreadable):
            memory.settle()
        assert waiting(memory) == 1


@pytest.mark.sqlite_suffices
class TestWaiting:
    @pytest.fixture
    def hanging(self, opened):
        """A memory with an item, whose embeddings hang until an event is set."""
        memory = opened(embeddings := Choosy())
        memory.store.put(("a",), "1", {"text": "cat"})
        memory.settle()
        embeddings.go_on.clear()
        return memory, embeddings

    async def test_searches_that_wait_for_the_model_keep_nobody_from_reading(self, hanging):
        memory, embeddings = hanging
        searches = [asyncio.create_task(memory.asearch("feline", everything=True)) for _ in range(read_workers.size)]
        searches += [
            asyncio.create_task(memory.store.asearch(("a",), query="feline")) for _ in range(read_workers.size)
        ]
        await asyncio.to_thread(embeddings.began.wait, 120)
        assert (await asyncio.wait_for(memory.store.aget(("a",), "1"), 120)).value == {"text": "cat"}
        embeddings.go_on.set()
        assert all(await asyncio.gather(*searches))

    async def test_a_search_whose_model_hangs_can_be_cancelled(self, hanging):
        memory, embeddings = hanging
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await memory.asearch("feline", everything=True)
        embeddings.go_on.set()
        assert await memory.asearch("feline", everything=True)

    def test_a_search_for_no_results_asks_nobody(self, opened):
        embeddings = Choosy()
        memory = opened(embeddings)
        memory.store.put(("a",), "1", {"text": "cat"})
        assert memory.store.search(("a",), query="cat", limit=0) == []
        assert memory.search("cat", limit=0, everything=True) == []
        assert embeddings.asked == []

    async def test_after_the_end_a_search_says_so(self, opened):
        memory = opened()
        said(memory, "My cat sleeps.")
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
    def test_a_child_of_the_process_embeds_and_searches_too(self, opened):
        memory = opened()
        said(memory, "My cat sleeps.")
        memory.settle()
        child = multiprocessing.get_context("fork").Process(target=_settle_in_child, args=(memory,))
        child.start()
        child.join(120)
        assert child.exitcode == 0
        assert found(memory, "feline", limit=1) == ["My cat sleeps."]


class TestAwaiting:
    async def test_embeddings_that_can_only_be_awaited_stay_on_one_loop_whoever_asks(self, opened):
        embeddings = OnlyAwaited()
        memory = opened(embeddings)
        said(memory, "My cat sleeps.", "Rain falls.")
        assert found(memory, "feline")[0] == "My cat sleeps."  # within a running loop
        assert (await memory.asearch("feline", everything=True))[0].text == "My cat sleeps."
        assert len(embeddings.loops) >= 3
        assert len(set(map(id, embeddings.loops))) == 1


class TestTogether:
    @pytest.mark.slow
    def test_vectors_that_are_kept_late_are_not_overlooked(self, url, opened):
        memory, other = opened(), opened()
        for each in (memory, other):
            embedder_of(each.database).close()
        said(memory, "My cat sleeps.", conversation="a")
        said(memory, "A dog barks.", conversation="b")
        first, second = memory.database.engine.read(lambda tx: vectors.load_pending(tx, 2))
        vector = vectors.pack_vector(WORDS.embed_query("cat"), DIMS)
        late, going, go_on = slowly(lambda tx: vectors.store_vectors(tx, {first: [vector]}))
        threads = [in_thread(lambda: memory.database.engine.write(late))]
        assert going.wait(120)
        threads.append(
            in_thread(lambda: other.database.engine.write(lambda tx: vectors.store_vectors(tx, {second: [vector]})))
        )
        blocked_or_done(memory, threads[1])
        found(memory, "feline")
        go_on.set()
        for thread in threads:
            thread.join()
        assert set(found(memory, "feline")) == {"A dog barks.", "My cat sleeps."}

    @pytest.mark.slow
    def test_what_is_being_written_when_vectors_are_first_wanted_gets_one_too(self, url, opened):
        with AgentMemory(url) as plain:
            said(plain, "Rain falls.")
            engine, real = plain.database.engine, plain.database.engine.write
            events = queue.SimpleQueue()

            def write(make):
                late, *both = slowly(make)
                events.put(both)
                return real(late)

            engine.write = write
            writing = in_thread(lambda: said(plain, "My cat sleeps."))
            going, go_on = events.get(timeout=120)
            assert going.wait(120)
            memories = []
            opening = in_thread(lambda: memories.append(opened()))
            blocked_or_done(plain, opening)
            go_on.set()
            writing.join()
            opening.join()
        memories[0].settle()
        assert found(memories[0], "feline")[0] == "My cat sleeps."

    def test_another_memory_sees_changes_behind_what_it_remembers(self, opened):
        memory, other = opened(), opened()
        [message] = said(memory, "My cat sleeps.")
        memory.store.put(("a",), "1", {"text": "a cat"})
        assert set(found(other, "feline")) == {"My cat sleeps.", "a cat"}
        memory.store.put(("a",), "1", {"text": "a cat"}, index=False)
        memory.conversation("c").update(message, content="A dog barks.")
        assert all(each.why.signals.get("vectors", 0) < 0.1 for each in other.search("feline", everything=True))
        memory.store.put(("a",), "1", {"text": "a cat"})
        assert found(other, "feline")[0] == "a cat"
        memory.store.delete(("a",), "1")
        assert "a cat" not in found(other, "feline")

    def test_a_search_waits_for_what_another_process_embeds(self, opened):
        going, go_on = held_up(slow := Choosy())
        said(opened(slow), "My cat sleeps.")
        assert going.wait(120)
        other = opened(embeddings := Choosy())
        hits = []
        search = in_thread(lambda: hits.extend(found(other, "feline")))
        assert not embeddings.began.is_set()  # it has not come to its question yet
        go_on.set()
        search.join()
        assert hits == ["My cat sleeps."]
        assert embeddings.documents == []

    def test_a_database_with_nothing_to_embed_is_not_written(self, opened, monkeypatch):
        monkeypatch.setattr(background, "POLL_SECONDS", 0.01)
        memory = opened()
        said(memory, "My cat sleeps.")
        memory.settle()
        engine, looks, writes = memory.database.engine, threading.Semaphore(0), []
        read, write = engine.read, engine.write
        monkeypatch.setattr(engine, "read", lambda make: (looks.release(), read(make))[1])
        monkeypatch.setattr(engine, "write", lambda make: (writes.append(make), write(make))[1])
        for _ in range(2):
            writes.clear()  # of one who had looked before the last job was done
            assert all(looks.acquire(timeout=120) for _ in range(20))
        assert writes == []


class TestShelf:
    @pytest.mark.slow
    @pytest.mark.parametrize("most", [2**20, 600])
    def test_what_is_read_in_many_parts_is_found_all_the_same(self, opened, monkeypatch, most):
        monkeypatch.setattr(vectors, "PAGE_SIZE", 3)
        monkeypatch.setattr(vectors, "MAX_CACHE_BYTES", most)
        memory = opened()
        for name in ("a", "b", "c"):
            said(memory, *(f"rain {name} {n}" for n in range(7)), f"The cat of {name}.", namespace=(name,))
        memory.settle()
        for _ in range(2):
            assert {f"The cat of {name}." for name in "abc"} <= set(found(memory, "feline", limit=5))
            assert found(memory, "feline", namespace=("b",), limit=1) == ["The cat of b."]
            said(memory, "Another cat.", namespace=("c",))
        assert "Another cat." in found(memory, "feline", namespace=("c",), limit=2)

    def test_what_was_erased_is_not_remembered(self, opened):
        memory = opened()
        said(memory, "My cat sleeps.", namespace=("a",))
        assert found(memory, "feline") == ["My cat sleeps."]
        assert embedder_of(memory.database)._cache._blocks
        memory.erase(namespace=("a",))
        assert not embedder_of(memory.database)._cache._blocks


@pytest.mark.sqlite_suffices
class TestPgvector:
    @pytest.fixture
    def indexed(self, with_pgvector, opened, monkeypatch):
        """A memory with so many messages that it has an index."""
        monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 10)
        memory = opened(where=with_pgvector)
        memory.conversation("c", namespace=("a",)).add_messages([HumanMessage(f"cat {n}") for n in range(30)])
        memory.settle()
        memory.database.background.settle()
        return memory

    @pytest.mark.slow
    def test_it_compares_where_it_is_installed_and_finds_the_same(self, with_pgvector, opened, raw, tmp_path):
        memory, other = opened(where=with_pgvector), opened(where=str(tmp_path / "other.db"))
        for each in (memory, other):
            said(each, "My cat sleeps.", "Rain falls.", "A dog barks.", namespace=("a",))
            said(each, "The cat eats.", namespace=("b",))
            each.store.put(("a",), "1", {"text": "cat"})
            each.settle()
        assert raw(memory, "select pgvector from search_state")[0]["pgvector"] == 1
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 5
        for options in ({}, {"namespace": ("a",)}, {"namespace": ("b",)}, {"kinds": ["item"]}):
            assert found(memory, "feline", **options) == found(other, "feline", **options) != []
        assert memory.admin.verify().problems == ()

    def test_it_compares_what_comes_after_a_copy_that_had_no_vectors_yet(self, with_pgvector, opened, raw, tmp_path):
        opened(where=str(tmp_path / "empty.db")).admin.copy(with_pgvector)
        assert raw(opened(where=with_pgvector), "select pgvector from search_state")[0]["pgvector"] == 1

    @pytest.mark.slow
    def test_nothing_is_left_in_it_of_what_is_erased_nor_sampled(self, with_pgvector, opened, raw):
        memory = opened(where=with_pgvector)
        [message, *_] = said(memory, "My cat sleeps.", "Rain falls.", namespace=("a",))
        memory.settle()
        raw(memory, "analyze")
        assert raw(memory, "select * from pg_stats where tablename = 'search_pgvector' and attname = 'vector'") == []
        memory.conversation("c", namespace=("a",)).remove_by_id(message)
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 1
        memory.erase(namespace=("a",))
        assert raw(memory, "select count(*) as n from search_pgvector")[0]["n"] == 0

    @pytest.mark.slow("in every form")
    def test_its_index_finds_what_is_nearest_where_there_are_many(self, with_pgvector, opened, raw, monkeypatch):
        monkeypatch.setattr(vectors, "INDEX_THRESHOLD", 400)
        memory = opened(AnyDirection(), where=with_pgvector)
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
    def test_where_its_index_finds_too_little_it_looks_everywhere(self, indexed, monkeypatch):
        monkeypatch.setattr(vectors, "INDEX_SHARE", 0)
        real = query.nearest_indexed
        monkeypatch.setattr(query, "nearest_indexed", lambda tx, **given: real(tx, **given | {"limit": 2}))
        assert len(nearest(indexed, ("a",), 0)) == 10

    @pytest.mark.slow
    def test_an_index_that_was_not_finished_is_made_anew(self, indexed, raw):
        memory = indexed
        raw(memory, "update pg_index set indisvalid = false where indexrelid = 'search_pgvector_near'::regclass")
        assert memory.database.engine.read(vectors._index_delay) == 0
        memory.database.background.settle()
        assert memory.database.engine.read(vectors._index_delay) is None

    @pytest.mark.slow
    def test_vectors_that_are_too_long_for_it_are_compared_without_it(self, with_pgvector, raw):
        with AgentMemory(with_pgvector) as memory:
            memory.database.engine.write(lambda tx: vectors.enable_vectors(tx, 16_001))
            assert raw(memory, "select pgvector from search_state")[0]["pgvector"] == 0
