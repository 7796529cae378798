"""`AgentMemoryByteStore`: values by key, whatever the key, and nobody else's."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import BaseStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_agentmem import AgentMemory, AgentMemoryByteStore
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, StorageError
from langchain_agentmem.storage.queries import load
from langchain_agentmem.stores.byte_store import BYTES_AT_ONCE, HEAD_BYTES, KEYS_AT_ONCE

LONG = "k" * HEAD_BYTES
ODD_KEYS = [
    "",
    " ",
    "plain",
    "100%",
    "under_score",
    "back\\slash",
    "quote'\"",
    "NUL\0in the middle",
    "\0",
    "\x1f",
    "\ud800",  # a lone surrogate
    "\ud800\udc00",  # two of them, which are not "\U00010000"
    "\U00010000",
    "👩‍👩‍👧",
    "e\u0301",  # not the same key as "é"
    "é",
    "ключ",
    "\U0010ffff",
    LONG,
    LONG + "a",
    LONG + "b",
    LONG + "a" * 100_000,
    LONG[:-1] + "é",  # cut in the middle of a character
    LONG[:-1] + "è",
]


@pytest.mark.sqlite_suffices
class TestStandardSync(BaseStoreSyncTests[bytes]):
    """LangChain's own tests of a store."""

    @pytest.fixture
    def kv_store(self, memory):
        return memory.byte_store()

    @pytest.fixture
    def three_values(self):
        return (b"one", b"", b"\x00\xff")


@pytest.mark.sqlite_suffices
class TestStandardAsync(BaseStoreAsyncTests[bytes]):
    """LangChain's own tests of a store that is awaited."""

    @pytest.fixture
    async def kv_store(self, memory):
        return memory.byte_store()

    @pytest.fixture
    def three_values(self):
        return (b"one", b"", b"\x00\xff")


@pytest.fixture
def store(memory):
    return memory.byte_store(("alice",))


def rows(memory, raw, table="blob"):
    [row] = raw(memory, f"select count(*) as number from {table}")
    return row["number"]


@pytest.mark.sqlite_suffices
class TestGetting:
    def test_values_come_in_the_order_of_the_keys_asked_for(self, store):
        store.mset([("a", b"1"), ("b", b"2"), ("c", b"3")])
        assert store.mget(["c", "missing", "a", "c"]) == [b"3", None, b"1", b"3"]
        assert store.mget([]) == []
        assert store.mget(iter(["b", "a"])) == [b"2", b"1"]

    def test_more_keys_than_one_statement_takes(self, store):
        many = [f"key {number}" for number in range(KEYS_AT_ONCE * 2 + 1)]
        store.mset([(key, key.encode()) for key in many])
        assert store.mget([*reversed(many), "missing"]) == [*(key.encode() for key in reversed(many)), None]
        assert sorted(many) == list(store.yield_keys())

    @pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key)[:30])
    def test_any_text_is_a_key(self, store, key):
        store.mset([(key, b"value"), (key + "x", b"other")])
        assert store.mget([key]) == [b"value"]
        assert list(store.yield_keys()) == [key, key + "x"]
        store.mdelete([key])
        assert store.mget([key, key + "x"]) == [None, b"other"]

    def test_odd_keys_are_told_apart(self, store):
        store.mset([(key, str(number).encode()) for number, key in enumerate(ODD_KEYS)])
        assert store.mget(ODD_KEYS) == [str(number).encode() for number in range(len(ODD_KEYS))]

    def test_the_last_value_of_a_key_counts(self, store):
        store.mset([("a", b"1"), ("b", b"2"), ("a", b"3")])
        assert store.mget(["a", "b"]) == [b"3", b"2"]
        store.mset([("a", b"4")])
        assert store.mget(["a", "b"]) == [b"4", b"2"]
        assert list(store.yield_keys()) == ["a", "b"]

    def test_a_large_value_comes_back_whole(self, store):
        value = bytes(range(256)) * 40_000
        store.mset([("large", value), ("small", b"")])
        assert store.mget(["large", "small"]) == [value, b""]

    def test_a_key_that_is_not_there_may_be_deleted(self, store):
        store.mset([("a", b"1")])
        store.mdelete(["missing", "a", "a", "missing"])
        store.mdelete([])
        assert store.mget(["a"]) == [None]

    def test_it_lasts(self, url):
        with AgentMemory(url) as memory:
            memory.byte_store(("a",)).mset([("k", b"v")])
        store = AgentMemoryByteStore(url, namespace=("a",))
        assert store.mget(["k"]) == [b"v"]
        assert store.namespace == ("a",)
        assert isinstance(store, BaseStore)


@pytest.mark.sqlite_suffices
class TestKeys:
    @pytest.fixture
    def filled(self, store):
        for key in sorted(ODD_KEYS, reverse=True):  # so that they do not lie in the order they are to come in
            store.mset([(key, b"value")])
        return store

    def test_they_come_in_the_order_of_their_code_points(self, filled):
        assert list(filled.yield_keys()) == sorted(ODD_KEYS)
        assert list(filled.yield_keys(prefix="")) == sorted(ODD_KEYS)
        assert list(filled.yield_keys(prefix=None)) == sorted(ODD_KEYS)

    @pytest.mark.parametrize(
        "prefix",
        ["%", "_", "under_", "underx", "100%", "*", "\\", "NUL\0", "\0", "\ud800", "\U00010000", "e", "é", "к", "k",
         "P", LONG, LONG + "a", LONG[:-1], "\U0010ffff"],
        ids=lambda prefix: ascii(prefix)[:30],
    )  # fmt: skip
    def test_a_prefix_is_just_text(self, filled, prefix):
        assert list(filled.yield_keys(prefix=prefix)) == sorted(key for key in ODD_KEYS if key.startswith(prefix))

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        keys=st.sets(st.text(st.characters(exclude_categories=()), max_size=4), max_size=12),
        prefix=st.text(st.characters(exclude_categories=()), max_size=2),
        cut=st.integers(0, 4),
    )
    def test_any_keys_and_any_prefix(self, store, keys, prefix, cut):
        """Keys behave as in a dictionary, also those that differ only behind what the index holds."""
        keys = {"p" * (HEAD_BYTES - cut) + key if number % 2 else key for number, key in enumerate(sorted(keys))}
        prefix = prefix if cut % 2 else "p" * (HEAD_BYTES - cut) + prefix
        store.mset([(key, ascii(key).encode()) for key in keys])
        assert list(store.yield_keys()) == sorted(keys)
        assert list(store.yield_keys(prefix=prefix)) == sorted(key for key in keys if key.startswith(prefix))
        assert store.mget(sorted(keys)) == [ascii(key).encode() for key in sorted(keys)]
        store.mdelete(list(store.yield_keys()))
        assert list(store.yield_keys()) == []

    def test_they_are_generators(self, store):
        assert inspect.isgenerator(store.yield_keys())
        assert inspect.isasyncgen(store.ayield_keys())

    def test_a_listing_reads_a_page_at_a_time(self, store, memory):
        store.mset([(f"{number:05}", b"") for number in range(KEYS_AT_ONCE * 3)])
        keys = store.yield_keys()
        assert next(keys) == "00000"
        store.mdelete([f"{number:05}" for number in range(KEYS_AT_ONCE, KEYS_AT_ONCE * 3)])
        assert list(keys) == [f"{number:05}" for number in range(1, KEYS_AT_ONCE)]

    def test_the_caller_may_write_inside_the_loop(self, store):
        store.mset([(f"{number:05}", b"") for number in range(KEYS_AT_ONCE + 10)])
        seen = []
        for key in store.yield_keys():
            seen.append(key)
            store.mdelete([key])
            store.mset([("!" + key, b"")])  # sorts before all that is still to come
        assert seen == [f"{number:05}" for number in range(KEYS_AT_ONCE + 10)]
        assert list(store.yield_keys()) == ["!" + key for key in seen]

    async def test_so_may_an_awaiting_caller(self, store):
        await store.amset([(f"{number:05}", b"") for number in range(KEYS_AT_ONCE + 10)])
        seen = []
        async for key in store.ayield_keys(prefix="0"):
            seen.append(key)
            await store.amdelete([key])
        assert seen == [f"{number:05}" for number in range(KEYS_AT_ONCE + 10)]
        assert [key async for key in store.ayield_keys()] == []

    def test_what_stays_is_listed_while_others_write(self, url):
        with AgentMemory(url) as memory, AgentMemory(url) as other:
            store = memory.byte_store()
            stays = [f"{number:05}" for number in range(0, KEYS_AT_ONCE * 4, 2)]
            store.mset([(key, b"") for key in stays])
            done = threading.Event()

            def write():
                mine = other.byte_store()
                for number in range(1, KEYS_AT_ONCE * 4, 50):
                    mine.mset([(f"{number:05}", b"x")])
                    mine.mdelete([f"{number:05}"])
                done.set()

            thread = threading.Thread(target=write)
            thread.start()
            listings = 0
            while not done.is_set() or not listings:
                found = list(store.yield_keys())
                assert [key for key in found if int(key) % 2 == 0] == stays
                assert found == sorted(set(found))
                listings += 1
            thread.join()


@pytest.mark.sqlite_suffices
class TestReadingLittle:
    """What a call costs follows what it asks for, not how much the namespace holds."""

    def plan(self, memory, raw, name, **parameters):
        dialect = memory.database.engine.dialect
        explain = "explain query plan " if dialect == "sqlite" else "explain "
        return "\n".join(str(row) for row in raw(memory, explain + load(dialect)[name], **parameters))

    @pytest.fixture
    def filled(self, memory):
        for namespace in ((), ("a",), ("b",)):
            memory.byte_store(namespace).mset([(f"key {number}", b"value") for number in range(2_000)])
        return memory

    @pytest.mark.parametrize("analysed", [False, True])
    def test_keys_are_looked_up_one_by_one(self, filled, raw, analysed):
        if analysed:
            raw(filled, "analyze")
        plan = self.plan(filled, raw, "find_blobs", path="a\x1f", keys=json.dumps([["6b", ""]] * 400))
        assert ("AND head=? AND mark=?" in plan) or ("(head = decode(" in plan and "Index Cond" in plan), plan

    @pytest.mark.parametrize("analysed", [False, True])
    def test_a_page_of_keys_sorts_no_more_than_itself(self, filled, raw, analysed):
        if analysed:
            raw(filled, "analyze")
        parameters = {"low_head": b"", "low_rest": b"", "high_head": b"\xff", "high_rest": b"", "limit": 10}
        plan = self.plan(filled, raw, "blob_keys", path="a\x1f", **parameters)
        assert "RIGHT PART OF ORDER BY" in plan or "Presorted Key: b.head" in plan, plan


@pytest.mark.sqlite_suffices
class TestWrongInput:
    @pytest.mark.parametrize("value", ["text", None, 1, bytearray(b"x"), memoryview(b"x"), ["x"]])
    def test_a_value_that_is_not_bytes_is_refused_and_nothing_is_written(self, store, value):
        with pytest.raises(InvalidInput, match="must be bytes, not"):
            store.mset([("good", b"1"), ("bad", value)])
        assert list(store.yield_keys()) == []

    @pytest.mark.parametrize("key", [None, 1, b"bytes", ("a",)])
    def test_a_key_that_is_not_a_string_is_refused(self, store, key):
        for refused in (
            lambda: store.mset([("good", b"1"), (key, b"2")]),
            lambda: store.mget(["good", key]),
            lambda: store.mdelete(["good", key]),
        ):
            with pytest.raises(InvalidInput, match="A key is a string, not"):
                refused()
        assert list(store.yield_keys()) == []

    def test_one_string_is_not_a_list_of_keys(self, store):
        store.mset([("a", b"1")])
        for refused in (lambda: store.mget("a"), lambda: store.mdelete("a"), lambda: store.mget(None)):
            with pytest.raises(InvalidInput, match="Keys come as a list of strings"):
                refused()
        for pairs in ("ab", {"a": b"1"}, None):
            with pytest.raises(InvalidInput, match="come as a list of pairs"):
                store.mset(pairs)
        for pair in ("ab", ("a",), ("a", b"1", 2), None):
            with pytest.raises(InvalidInput, match=r"come as pairs, \(key, value\)"):
                store.mset([pair])
        assert store.mget(["a"]) == [b"1"]

    @pytest.mark.parametrize("prefix", [1, b"a", ["a"]])
    def test_a_prefix_that_is_not_a_string_is_refused_at_once(self, store, prefix):
        with pytest.raises(InvalidInput, match="A prefix is a string"):
            store.yield_keys(prefix=prefix)
        with pytest.raises(InvalidInput, match="A prefix is a string"):
            store.ayield_keys(prefix=prefix)

    @pytest.mark.parametrize("namespace", ["alice", ("a", ""), ("a\x1f",), 7])
    def test_a_wrong_namespace_is_refused(self, memory, namespace):
        with pytest.raises(InvalidInput):
            memory.byte_store(namespace)

    def test_every_awaited_method_refuses_the_same(self, store):
        async def refused():
            for call in (store.amget("a"), store.amset([("a", "text")]), store.amdelete([1])):
                with pytest.raises(AgentMemoryError):
                    await call

        asyncio.run(refused())


class TestAtomicity:
    def test_a_failure_in_the_middle_leaves_nothing(self, store, memory, raw):
        store.mset([("a", b"old")])
        if memory.database.engine.dialect == "sqlite":
            raw(
                memory,
                "create trigger fails before insert on blob when new.head = cast('m' as blob) "
                "begin select raise(abort, 'broken'); end",
            )
        else:
            raw(memory, "alter table blob add check (head <> 'm'::bytea)")
        with pytest.raises(StorageError):
            store.mset([("a", b"new"), ("b", b"new"), ("m", b"new"), ("z", b"new")])
        assert store.mget(["a", "b", "m", "z"]) == [b"old", None, None, None]
        assert list(store.yield_keys()) == ["a"]

    def test_writers_of_the_same_keys_leave_the_values_of_one(self, url):
        with AgentMemory(url) as memory:
            keys = [f"k{number}" for number in range(20)]
            failures = []

            def write(name):
                store = memory.byte_store(("shared",))
                try:
                    for _ in range(5):
                        store.mset([(key, name) for key in (keys if name < b"2" else reversed(keys))])
                        values = store.mget(keys)
                        assert len(set(values) - {None}) <= 1, values
                        store.mdelete(keys)
                except (AgentMemoryError, AssertionError) as error:
                    failures.append(error)

            threads = [threading.Thread(target=write, args=(str(number).encode(),)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            assert memory.admin.verify().problems == ()


class TestNamespaces:
    def test_each_sees_only_its_own_keys(self, memory):
        namespaces = [(), ("a",), ("a", "b"), ("ab",), ("b",)]
        for number, namespace in enumerate(namespaces):
            memory.byte_store(namespace).mset([("k", str(number).encode()), (f"only {number}", b"")])
        for number, namespace in enumerate(namespaces):
            store = memory.byte_store(namespace)
            assert store.mget(["k"]) == [str(number).encode()]
            assert list(store.yield_keys()) == ["k", f"only {number}"]
        memory.byte_store(("a",)).mdelete(["k", "only 1", "only 2"])
        assert list(memory.byte_store(("a", "b")).yield_keys()) == ["k", "only 2"]

    def test_the_namespace_of_the_run_is_meant_where_none_is_given(self, memory):
        from langchain_core.runnables import RunnableLambda

        config = {"configurable": {"agentmem_namespace": ("alice",)}}
        RunnableLambda(lambda _: memory.byte_store().mset([("k", b"v")])).invoke(None, config)
        assert memory.byte_store(("alice",)).mget(["k"]) == [b"v"]
        assert memory.byte_store().mget(["k"]) == [None]

    def test_an_emptied_namespace_is_gone_but_not_one_that_holds_something_else(self, memory):
        chat = memory.conversation("c", ("a",))
        chat.add_user_message("hello")
        for namespace in (("a",), ("b",)):
            store = memory.byte_store(namespace)
            store.mset([("k", b"v")])
        assert memory.admin.stats()["namespaces"] == 2
        chat.clear()
        assert memory.byte_store(("a",)).mget(["k"]) == [b"v"]
        memory.byte_store(("b",)).mdelete(["k"])
        assert memory.admin.stats()["namespaces"] == 1
        memory.byte_store(("a",)).mdelete(["k"])
        assert memory.admin.stats()["namespaces"] == 0


class Counting(DeterministicFakeEmbedding):
    """Embeddings that count what they are asked for."""

    asked: list[str]

    def embed_documents(self, texts):
        self.asked.extend(texts)
        return super().embed_documents(texts)


class TestUnderLangChain:
    def cached(self, memory):
        counting = Counting(size=8, asked=[])
        return counting, CacheBackedEmbeddings.from_bytes_store(
            counting,
            memory.byte_store(("cache",)),
            namespace="fake%model_",
            key_encoder="blake2b",
            query_embedding_cache=True,
        )

    def test_cached_embeddings_ask_the_model_once(self, memory):
        counting, cached = self.cached(memory)
        first = cached.embed_documents(["one", "two", "one"])
        assert cached.embed_documents(["two", "one", "three"])[:2] == [first[1], first[0]]
        assert sorted(set(counting.asked)) == ["one", "three", "two"]
        assert counting.asked.count("two") == 1
        keys = list(memory.byte_store(("cache",)).yield_keys(prefix="fake%model_"))
        assert len(keys) == 3
        again, other = self.cached(memory)
        assert other.embed_documents(["one"]) == [first[0]]
        assert cached.embed_query("one") == other.embed_query("one")
        assert again.asked == []

    async def test_so_do_awaited_ones(self, memory):
        counting, cached = self.cached(memory)
        first = await cached.aembed_documents(["one", "two"])
        assert await cached.aembed_documents(["two", "one"]) == [first[1], first[0]]
        assert await cached.aembed_query("q") == await cached.aembed_query("q")
        assert counting.asked == ["one", "two"]


class TestCare:
    def fill(self, memory):
        for namespace in ((), ("a",), ("a", "b"), ("ab",)):
            memory.byte_store(namespace).mset(
                [(key, f"{namespace} {number}".encode()) for number, key in enumerate(ODD_KEYS)]
            )
        return memory

    def told(self, memory):
        found = {}
        for namespace in ((), ("a",), ("a", "b"), ("ab",)):
            store = memory.byte_store(namespace)
            found[namespace] = [(key, store.mget([key])) for key in store.yield_keys()]
        return found

    def test_they_are_counted(self, memory):
        memory.byte_store().mset([("a", b"123"), ("b", b"4567")])
        stats = memory.admin.stats()
        assert (stats["blobs"], stats["blob_bytes"]) == (2, 7)
        assert memory.admin.verify().checked["blobs"] == 2

    @pytest.mark.slow
    def test_an_erased_namespace_takes_those_below_with_it(self, memory, raw):
        self.fill(memory)
        assert memory.erase(namespace=("a",)).blobs == 2 * len(ODD_KEYS)
        assert [namespace for namespace, found in self.told(memory).items() if found] == [(), ("ab",)]
        assert memory.erase(conversation_id="a").blobs == memory.erase(thread_id="a").blobs == 0
        assert memory.erase(namespace=()).blobs == 2 * len(ODD_KEYS)
        assert (rows(memory, raw), rows(memory, raw, "namespace")) == (0, 0)

    def test_nothing_of_it_is_left_in_the_file(self, tmp_path):
        with AgentMemory(tmp_path / "memory.db") as memory:
            memory.byte_store(("a",)).mset([(f"quandaryjib{n}" + LONG, b"zyxquorvex" * 1_000) for n in range(100)])
            memory.byte_store(("b",)).mset([("kept", b"wubblefrond")])
            memory.erase(namespace=("a",))
            stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"wubblefrond" in stored
        assert b"zyxquorvex" not in stored
        assert b"quandaryjib" not in stored

    @pytest.mark.slow
    def test_the_server_samples_nothing_of_it(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            memory.byte_store(("a",)).mset([(f"key {number}", b"value") for number in range(300)])
            raw(memory, "analyze")
            sampled = raw(memory, "select attname from pg_stats where schemaname = 'agentmem' and tablename = 'blob'")
        assert {row["attname"] for row in sampled} <= {"id", "namespace_id", "checksum", "updated_at"}

    @pytest.mark.slow
    def test_an_export_holds_them_all(self, memory, new_database, tmp_path):
        self.fill(memory)
        report = memory.export(tmp_path / "all.jsonl")
        assert report.blobs == 4 * len(ODD_KEYS)
        for kind in ("sqlite", "postgres"):
            with AgentMemory(new_database(kind)) as other:
                assert other.import_(tmp_path / "all.jsonl").blobs == 4 * len(ODD_KEYS)
                assert self.told(other) == self.told(memory)
                assert other.import_(tmp_path / "all.jsonl").blobs == 0
                assert other.admin.verify().problems == ()

    def test_an_import_keeps_what_is_there(self, memory, new_database, tmp_path):
        memory.byte_store().mset([("a", b"exported"), ("b", b"exported")])
        memory.export(tmp_path / "all.jsonl")
        memory.byte_store().mset([("a", b"newer")])
        memory.byte_store().mdelete(["b"])
        assert memory.import_(tmp_path / "all.jsonl").blobs == 1
        assert memory.byte_store().mget(["a", "b"]) == [b"newer", b"exported"]

    @pytest.mark.slow
    def test_an_export_goes_through_memory_in_parts(self, memory, new_database, tmp_path):
        large = [(f"large {number}", bytes((number,)) * (BYTES_AT_ONCE // 2 + 1)) for number in range(3)]
        memory.byte_store().mset([*large, *((f"small {number:04}", b"x") for number in range(KEYS_AT_ONCE + 5))])
        memory.export(tmp_path / "all.jsonl")
        groups = []
        for line in (tmp_path / "all.jsonl").read_text().splitlines()[1:]:
            record = json.loads(line)
            groups += [0] if record["record"] == "blobs" else []
            groups[-1] += record["record"] == "blob"
        assert sum(groups) == KEYS_AT_ONCE + 8
        assert groups[:2] == [1, 1]
        with AgentMemory(new_database("sqlite")) as other:
            other.import_(tmp_path / "all.jsonl")
            assert other.byte_store().mget([key for key, _ in large]) == [value for _, value in large]
            assert len(list(other.byte_store().yield_keys())) == KEYS_AT_ONCE + 8

    @pytest.mark.slow
    @pytest.mark.parametrize("field", ["key", "value", "checksum", "updated_at"])
    def test_a_damaged_export_adds_nothing(self, memory, tmp_path, field):
        memory.byte_store().mset([("a", b"1"), ("b", b"2")])
        memory.export(tmp_path / "all.jsonl")
        memory.erase(namespace=())
        lines = (tmp_path / "all.jsonl").read_text().splitlines()[:-1]
        end = json.dumps({"record": "end"})
        for wrong in (None, "!", "/w==", 1.5, True, []):
            if (field, wrong) == ("value", "/w=="):
                continue  # other bytes in good form: the checksum tells
            damaged = json.dumps(json.loads(lines[-1]) | {field: wrong})
            (tmp_path / "damaged.jsonl").write_text("\n".join([*lines[:-1], damaged, end]))
            with pytest.raises(InvalidInput, match="damaged"):
                memory.import_(tmp_path / "damaged.jsonl")
        other = json.dumps(json.loads(lines[-1]) | {"value": "/w=="})
        (tmp_path / "damaged.jsonl").write_text("\n".join([*lines[:-1], other, end]))
        with pytest.raises(InvalidInput, match="damaged"):
            memory.import_(tmp_path / "damaged.jsonl")
        assert memory.admin.stats()["blobs"] == 0

    def test_a_changed_value_or_key_is_noticed(self, memory, raw):
        store = memory.byte_store(("a",))
        store.mset([("k", b"value"), ("l" * 5_000, b"value"), ("good", b"value")])
        assert memory.admin.verify().ok
        text = "x'ff'" if memory.database.engine.dialect == "sqlite" else r"'\xff'::bytea"
        raw(memory, f"update blob set value = {text} where length(rest) = 0 and length(head) = 1")
        raw(memory, "update blob set mark = head where length(rest) > 0")
        problems = memory.admin.verify().problems
        assert len(problems) == 2
        assert "the stored value of the key 'k' is not what was stored" in problems
        assert any("the key 'lll" in problem for problem in problems)
