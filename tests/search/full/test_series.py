"""Document series: numbering, overflow, totals and concurrent writers."""

import json
import random
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.search import memory_search as module
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import PLACE_BITS, SERIES_BITS
from langchain_agentmem.storage import query
from tests.emptying import direct
from tests.support.waiting import all_at_once

TABLES = [f"search_{name}" for name in ("scope", "total", "series", "speaker", "document", "vector", "unembedded")]


def texts(memory, query, **options):
    return sorted(
        each.text for each in memory.search(query, limit=1000, everything="namespace" not in options, **options)
    )


def say(memory, name, said, namespace=("a",)):
    memory.conversation(name, namespace).add_messages([HumanMessage(text) for text in said])


def places(memory, raw):
    rows = raw(memory, "select id from search_document order by owner")
    numbers = [row["id"] for row in rows]
    return [
        (n >> PLACE_BITS + SERIES_BITS, (n >> PLACE_BITS) % (1 << SERIES_BITS), n % (1 << PLACE_BITS)) for n in numbers
    ]


def counts(memory, raw, tables=TABLES):
    return {table: raw(memory, f"select count(*) as n from {table}")[0]["n"] for table in tables}


@pytest.mark.sqlite_suffices
class TestPlaces:
    def test_full_series_continues_in_a_new_one(self, memory, raw):
        chat = memory.conversation("c", ("a",))
        chat.add(role="user", content="cat first")
        raw(memory, "update search_series set next = :next", next=(1 << PLACE_BITS) - 2)
        for n in range(3):
            chat.add(role="user", content=f"cat {n}")
        say(memory, "c", ["cat 3", "cat 4"])
        [first, *rest] = [each[1:] for each in places(memory, raw)]
        last = (1 << PLACE_BITS) - 1
        assert first == (0, 0)
        assert rest == [(0, last - 1), (0, last), (1, 0), (1, 1), (1, 2)]
        say(memory, "c", ["cat after"])
        assert places(memory, raw)[-1][1:] == (1, 3)

        everything = sorted(["cat first", "cat after", *(f"cat {n}" for n in range(5))])
        assert texts(memory, "cat") == everything
        assert texts(memory, "cat", conversation_id="c", namespace=("a",)) == everything
        assert [each.text for each in memory.search("cat", limit=2, everything=True)] == ["cat after", "cat 4"]
        assert memory.admin.verify().problems == ()

        ids = [message.id for message in chat.messages]
        chat.update(ids[2], content="dog")
        chat.remove_by_id(ids[4])
        assert texts(memory, "dog") == ["dog"]
        assert texts(memory, "cat") == [text for text in everything if text not in {"cat 1", "cat 3"}]
        assert memory.admin.verify().problems == ()
        memory.erase(namespace=("a",), conversation_id="c")
        assert set(counts(memory, raw).values()) == {0}

    def test_full_scope_continues_in_a_new_one(self, memory, raw):
        say(memory, "c", ["cat first"])
        say(memory, "x", ["cat other"], ("b",))
        raw(memory, "update search_scope set series = :series", series=(1 << SERIES_BITS) - 1)
        for name in ("d", "e", "f"):
            say(memory, name, [f"cat {name}"])
        say(memory, "c", ["cat again"])
        scopes = [each[0] for each in places(memory, raw)]
        assert [each[1] for each in places(memory, raw)] == [0, 0, (1 << SERIES_BITS) - 1, 0, 1, 0]
        assert scopes == [scopes[0], scopes[0] + 1, scopes[0], scopes[0] + 2, scopes[0] + 2, scopes[0]]
        assert texts(memory, "cat", namespace=("a",)) == ["cat again", "cat d", "cat e", "cat f", "cat first"]
        assert texts(memory, "cat", namespace=("a",), conversation_id="e") == ["cat e"]
        assert memory.admin.verify().problems == ()
        memory.erase(namespace=("a",))
        assert counts(memory, raw, ["search_scope", "search_document"]) == {"search_scope": 1, "search_document": 1}


@pytest.mark.sqlite_suffices
class TestErasure:
    @pytest.mark.parametrize("how", ["erase", "clear", "namespace", "everything"])
    def test_erased_documents_leave_no_rows(self, memory, raw, how):
        chat = memory.conversation("c", ("a",))
        for n in range(70):
            chat.add(role="user", content=f"word{n}", name="Ann Brown")
        memory.store.put(("a",), "k", {"text": "an item"})
        if how in ("clear", "erase"):
            chat.clear() if how == "clear" else memory.erase(namespace=("a",), conversation_id="c")
            memory.store.delete(("a",), "k")
        else:
            memory.erase(namespace=("a",) if how == "namespace" else ())
        tables = [*TABLES, *(["search_unindexed"] if memory.database.engine.dialect == "sqlite" else ["search_index"])]
        assert set(counts(memory, raw, tables).values()) == {0}
        assert memory.admin.verify().problems == ()


def totals(memory, raw):
    return raw(memory, "select sum(series) as s, sum(documents) as d, sum(words) as w from search_total")[0]


class TestTotals:
    def test_reindexing_recomputes_the_totals(self, memory, raw):
        say(memory, "c", ["one two", "three"])
        say(memory, "c", ["four"], ("b",))
        memory.database.engine.write(search_index.index_waiting)
        raw(memory, "update search_total set series = 7, documents = 8, words = 9")
        [scope, _] = raw(memory, "select id from search_scope order by id")
        told = f"the totals of the scope {scope['id']} (message) are not those of its series"
        assert told in memory.admin.verify().problems
        raw(memory, "update search_series set documents = 9 where documents = 2")
        assert "the series 'c' counts 9 documents, not 2" in memory.admin.verify().problems
        raw(memory, "update search_series set documents = 2 where documents = 9")
        raw(memory, "update search_state set analysis = 0")
        memory.database.engine.write(search_index.rebuild_if_old)
        assert tuple(totals(memory, raw).values()) == (2, 3, 4)
        assert memory.admin.verify().problems == ()

    @pytest.mark.parametrize("seed", range(3))
    def test_totals_count_every_document_and_no_place_is_assigned_twice(self, memory, raw, seed):  # noqa: C901, PLR0912
        rng, owners, state = random.Random(seed), {}, f"update search_state set analysis = {seed - 1}"
        write, chats = memory.database.engine.write, [memory.conversation(name, ("a",)) for name in "cd"]
        for number in range(120):
            chat, key = rng.choice(chats), f"k{rng.randrange(4)}"
            keys = [each.id for each in chat.messages]
            match rng.choice("aaaammuurrppppdxnie"):
                case "a":
                    at = datetime.fromtimestamp(rng.randrange(2**30), UTC)
                    chat.add(role="user", content=f"cat {number}", created_at=at)
                case "m":
                    say(memory, rng.choice("cd"), [f"a cat {n}" for n in range(rng.choice((2, 30, 70)))])
                case "u" if keys:
                    chat.update(rng.choice(keys), content=f"one more cat {number}")
                case "r" if keys:
                    chat.remove_by_id(rng.choice((keys[-1], rng.choice(keys))))
                case "p":
                    memory.store.put(("a",), key, {"text": rng.choice(("cat", f"cat {number}"))})
                case "d":
                    memory.store.delete(("a",), key)
                case "x":
                    chat.clear()
                case "n":
                    memory.erase(namespace=("a",)) if number % 3 == 0 else None
                case "i":
                    write(search_index.index_waiting)
                case "e" if seed == 0:
                    raw(memory, state)
                    write(search_index.rebuild_if_old)
            rows = raw(memory, "select id, owner, length, created_at from search_document")
            for bits in (PLACE_BITS, PLACE_BITS + SERIES_BITS):
                for part in {row["id"] >> bits for row in rows}:
                    inside = [row for row in rows if row["id"] >> bits == part]
                    ranges = json.dumps([[part << bits, (part + 1) << bits]])
                    [found] = memory.database.engine.select(query.search_totals, ranges=ranges)
                    latest = max(row["created_at"] for row in inside)
                    expected = (len(inside), sum(row["length"] for row in inside))
                    assert (found["documents"], found["words"]) == expected, number
                    assert found["last_at"] >= latest
            for row in rows if seed else ():  # a new analysis may assign the places of removed documents
                assert owners.setdefault(row["id"], row["owner"]) == row["owner"], number
        assert memory.admin.verify().problems == ()

    def test_write_does_not_wait_for_locked_totals(self, new_database, raw):
        url = new_database("postgres")
        with AgentMemory(url) as memory:
            say(memory, "c", ["cat"])
            with psycopg.connect(url) as other:
                other.execute("update agentmem.search_total set documents = documents + 1")
                done = all_at_once([lambda: say(memory, "d", ["cat two"])])
                other.rollback()
            say(memory, "e", ["cat three"])
            assert done == [None]
            assert tuple(totals(memory, raw).values()) == (3, 3, 5)
            assert len(texts(memory, "cat")) == 3
            assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
class TestConcurrentWriters:
    def test_concurrent_writers_of_one_namespace_stay_consistent(self, url, raw):
        with AgentMemory(url) as one, AgentMemory(url) as two:

            def begin(memory, n):
                for each in range(10):
                    memory.conversation("same", ("b",)).add(role="user", content=f"cat {n} {each}")
                    say(memory, f"c{n}", [f"cat {n} {each}", "dog"])
                    memory.store.put(("c", f"n{each % 3}"), f"k{n} {each}", {"text": f"cat {n} {each}"})

            all_at_once([partial(begin, memory, n) for n, memory in enumerate([one, two, one, two])])
            for n in range(4):
                found = texts(one, "cat", namespace=("a",), conversation_id=f"c{n}")
                assert found == sorted(f"cat {n} {each}" for each in range(10))
            assert len(texts(one, "cat", namespace=("b",), conversation_id="same")) == 40
            assert len(texts(one, "cat", namespace=("c",))) == 40
            series = {row["id"] >> PLACE_BITS for row in raw(one, "select id from search_document")}
            assert len(series) == 4 + 1 + 3
            assert one.admin.verify().problems == ()
            all_at_once([lambda: one.erase(namespace=("c",)), lambda: two.store.put(("c", "n1"), "k", {"text": "cat"})])
            assert one.admin.verify().problems == ()

    def test_append_does_not_wait_for_other_conversations(self, new_database):
        url = new_database("postgres")
        with AgentMemory(url, busy_timeout=3) as memory:
            for name in ("one", "two"):
                say(memory, name, ["cat"])
            with psycopg.connect(direct(url), options="-c search_path=agentmem") as other, other.transaction():
                other.execute("select 1 from branch where name = 'one' for update")
                other.execute("update search_series set next = next + 1 where name = 'one'")
                say(memory, "two", ["cat again"])  # with a lock that it needs, this raises DatabaseBusy
                assert texts(memory, "again") == ["cat again"]


class TestUnindexedDocuments:
    """On SQLite new documents are searchable before they are indexed."""

    @pytest.fixture
    def memory(self, new_database):
        with AgentMemory(new_database("sqlite")) as memory:
            yield memory

    def waiting(self, memory, raw):
        return counts(memory, raw, ["search_unindexed"])["search_unindexed"]

    def test_unindexed_documents_are_searchable_and_indexed_in_batches(self, memory, raw):
        tail = memory.database.engine.read(lambda tx: tx.max_unindexed)
        chat = memory.conversation("c", ("a",))
        for n in range(tail - 1):
            chat.add(role="user", content=f"cat {n}")
        assert self.waiting(memory, raw) == tail - 1
        assert len(texts(memory, "cat")) == tail - 1
        assert texts(memory, "cat", namespace=("b",)) == []
        before = [(each.id, each.score) for each in memory.search("cat 7", limit=100, everything=True)]
        memory.database.engine.write(search_index.index_waiting)
        assert self.waiting(memory, raw) == 0
        assert [(each.id, each.score) for each in memory.search("cat 7", limit=100, everything=True)] == before
        say(memory, "d", [f"another cat {n}" for n in range(tail - 1)])
        assert self.waiting(memory, raw) == tail - 1
        chat.add(role="user", content="the last cat")
        assert self.waiting(memory, raw) == 0
        assert len(texts(memory, "cat")) == 2 * tail - 1
        assert memory.admin.verify().problems == ()


class TestCommonTerms:
    """Terms with more documents than the posting limit."""

    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch):
        monkeypatch.setattr(module, "MAX_POSTINGS", 10)

    def test_newest_and_best_matching_documents_are_found(self, memory):
        said = [f"cat {n}" for n in range(150)]
        said[75] = "cat zebra"
        say(memory, "c", said)
        newest = [each.text for each in memory.search("cat", limit=5, everything=True)]
        assert newest == [f"cat {n}" for n in range(149, 144, -1)]
        [first, *_] = memory.search("a zebra with a cat", everything=True)
        assert first.text == "cat zebra"
        assert set(first.why.terms) == {"cat", "zebra"}
