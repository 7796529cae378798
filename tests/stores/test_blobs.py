"""`AgentMemoryByteStore`: keys, values, namespaces and maintenance."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib

import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import BaseStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, StorageError
from langchain_agentmem.stores.byte_store import MAX_KEY_BYTES, PAGE_SIZE

LONGEST_KEY = "k" * MAX_KEY_BYTES
ODD_KEYS = [
    "", " ", "plain", "100%", "under_score", "back\\slash", "quote'\"", "NUL\0in the middle", "\0", "\x1f",
    "\ud800",  # a lone surrogate
    "\ud800\udc00",  # two of them, which are not "\U00010000"
    "\U00010000", "👩‍👩‍👧", "e\u0301", "é", "ключ", "\U0010ffff", LONGEST_KEY, LONGEST_KEY[:-1],
]  # fmt: skip


class StandardStoreFixtures:
    @pytest.fixture
    def kv_store(self, memory):
        return memory.byte_store()

    @pytest.fixture
    def three_values(self):
        return (b"one", b"", b"\x00\xff")


@pytest.mark.sqlite_suffices
class TestStandardSync(StandardStoreFixtures, BaseStoreSyncTests[bytes]):
    """LangChain's standard tests of a store."""


@pytest.mark.sqlite_suffices
class TestStandardAsync(StandardStoreFixtures, BaseStoreAsyncTests[bytes]):
    """LangChain's standard tests of an async store."""


@pytest.fixture
def store(memory):
    return memory.byte_store(("alice",))


def rows(memory, raw, table="blob"):
    [row] = raw(memory, f"select count(*) as number from {table}")
    return row["number"]


@pytest.mark.sqlite_suffices
class TestReads:
    def test_mget_returns_values_in_key_order(self, store):
        store.mset([("a", b"1"), ("b", b"2"), ("c", b"3")])
        assert store.mget(["c", "missing", "a", "c"]) == [b"3", None, b"1", b"3"]
        assert store.mget([]) == []
        assert store.namespace == ("alice",)
        assert isinstance(store, BaseStore)
        assert store.mget(("b", "a")) == [b"2", b"1"]

    def test_mget_with_more_keys_than_one_statement(self, store):
        many = [f"key {number}" for number in range(PAGE_SIZE * 2 + 1)]
        store.mset([(key, key.encode()) for key in many])
        assert store.mget([*reversed(many), "missing"]) == [*(key.encode() for key in reversed(many)), None]
        assert sorted(many) == list(store.yield_keys())

    def test_unusual_keys_are_distinct(self, store):
        store.mset([(key, str(number).encode()) for number, key in enumerate(ODD_KEYS)])
        assert store.mget(ODD_KEYS) == [str(number).encode() for number in range(len(ODD_KEYS))]

    def test_large_value_round_trips(self, store):
        value = bytes(range(256)) * 40_000
        store.mset([("large", value), ("small", b"")])
        assert store.mget(["large", "small"]) == [value, b""]


@pytest.mark.sqlite_suffices
class TestKeys:
    def test_yield_keys_sorts_and_matches_prefixes_literally(self, store):
        for key in sorted(ODD_KEYS, reverse=True):  # so that they do not lie in the order they are to come in
            store.mset([(key, b"value")])
        assert list(store.yield_keys()) == sorted(ODD_KEYS)
        for prefix in (
            None, "", "%", "_", "under_", "underx", "100%", "*", "\\", "NUL\0", "\0", "\ud800", "\U00010000", "e", "é",
            "к", "k", "P", LONGEST_KEY, LONGEST_KEY + "a", LONGEST_KEY[:-1], "\U0010ffff",
        ):  # fmt: skip
            expected = sorted(key for key in ODD_KEYS if key.startswith(prefix or ""))
            assert list(store.yield_keys(prefix=prefix)) == expected, ascii(prefix)[:30]

    def test_yield_keys_reads_one_page_at_a_time(self, store, memory):
        store.mset([(f"{number:05}", b"") for number in range(PAGE_SIZE * 3)])
        keys = store.yield_keys()
        assert next(keys) == "00000"
        store.mdelete([f"{number:05}" for number in range(PAGE_SIZE, PAGE_SIZE * 3)])
        assert list(keys) == [f"{number:05}" for number in range(1, PAGE_SIZE)]


@pytest.mark.sqlite_suffices
class TestInvalidInput:
    def test_invalid_input_is_rejected_without_writes(self, store):
        values = ("text", None, 1, bytearray(b"x"), memoryview(b"x"), ["x"])
        pairs = [([("good", b"1"), ("bad", value)], "must be a valid bytes, got") for value in values]
        pairs += [
            ([("good", b"1"), (key, b"2")], "must be an instance of str, got") for key in (None, 1, b"bytes", ("a",))
        ]
        pairs += [([("good", b"1"), (LONGEST_KEY + "k", b"2")], "at most 2000 bytes, not 2001")]
        pairs += [(wrong, "key_value_pairs must") for wrong in ("ab", {"a": b"1"}, None)]
        pairs += [([pair], r"key_value_pairs\[0\]") for pair in ("ab", ("a",), ("a", b"1", 2), None)]
        keys = [(["good", key], r"keys\[1\] must be an instance of str, got") for key in (None, 1, b"bytes", ("a",))]
        keys += [(wrong, "keys must be") for wrong in ("a", None)]
        prefixes = [(prefix, "prefix must be") for prefix in (1, b"a", ["a"])]
        for call, refused in (
            (store.mset, pairs),
            (store.mget, keys),
            (store.mdelete, keys),
            (lambda prefix: store.yield_keys(prefix=prefix), prefixes),
            (lambda prefix: store.ayield_keys(prefix=prefix), prefixes),
        ):
            for wrong, says in refused:
                with pytest.raises(InvalidInput, match=says):
                    call(wrong)
        assert list(store.yield_keys()) == []


class TestAtomicity:
    def test_failed_mset_writes_nothing(self, store, memory, raw):
        store.mset([("a", b"old")])
        if memory.database.engine.dialect == "sqlite":
            raw(
                memory,
                "create trigger fails before insert on blob when new.key = cast('m' as blob) "
                "begin select raise(abort, 'broken'); end",
            )
        else:
            raw(memory, "alter table blob add check (key <> 'm'::bytea)")
        with pytest.raises(StorageError):
            store.mset([("a", b"new"), ("b", b"new"), ("m", b"new"), ("z", b"new")])
        assert store.mget(["a", "b", "m", "z"]) == [b"old", None, None, None]
        assert list(store.yield_keys()) == ["a"]


class TestNamespaces:
    def test_namespaces_are_isolated(self, memory):
        namespaces = [(), ("a",), ("a", "b"), ("ab",), ("b",)]
        for number, namespace in enumerate(namespaces):
            memory.byte_store(namespace).mset([("k", str(number).encode()), (f"only {number}", b"")])
        for number, namespace in enumerate(namespaces):
            store = memory.byte_store(namespace)
            assert store.mget(["k"]) == [str(number).encode()]
            assert list(store.yield_keys()) == ["k", f"only {number}"]
        memory.byte_store(("a",)).mdelete(["k", "only 1", "only 2"])
        assert list(memory.byte_store(("a", "b")).yield_keys()) == ["k", "only 2"]

    def test_namespace_defaults_to_that_of_the_run(self, memory):
        config = {"configurable": {"agentmem_namespace": ("alice",)}}
        RunnableLambda(lambda _: memory.byte_store().mset([("k", b"v")])).invoke(None, config)
        assert memory.byte_store(("alice",)).mget(["k"]) == [b"v"]
        assert memory.byte_store().mget(["k"]) == [None]


class CountingEmbeddings(DeterministicFakeEmbedding):
    """Embeddings that record their calls."""

    asked: list[str]

    def embed_documents(self, texts):
        self.asked.extend(texts)
        return super().embed_documents(texts)


def test_cache_backed_embeddings_call_the_model_once(memory):
    store, models = memory.byte_store(("cache",)), [CountingEmbeddings(size=8, asked=[]) for _ in range(2)]
    options = {"namespace": "fake%model_", "key_encoder": "blake2b", "query_embedding_cache": True}
    cached, other = (CacheBackedEmbeddings.from_bytes_store(each, store, **options) for each in models)
    first = cached.embed_documents(["one", "two", "one"])
    assert cached.embed_documents(["two", "one", "three"])[:2] == [first[1], first[0]]
    assert sorted(set(models[0].asked)) == ["one", "three", "two"]
    assert models[0].asked.count("two") == 1
    assert len(list(store.yield_keys(prefix="fake%model_"))) == 3
    assert other.embed_documents(["one"]) == [first[0]]
    assert cached.embed_query("one") == other.embed_query("one")
    assert models[1].asked == []


class TestMaintenance:
    def test_erased_values_leave_no_bytes_in_file(self, tmp_path):
        with AgentMemory(tmp_path / "memory.db") as memory:
            memory.byte_store(("a",)).mset([(f"quandaryjib{n}", b"zyxquorvex" * 1_000) for n in range(20)])
            memory.byte_store(("b",)).mset([("kept", b"wubblefrond"), ("deleted", b"snarkfennel" * 1_000)])
            memory.byte_store(("b",)).mdelete(["deleted"])
            memory.erase(namespace=("a",))
            stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        words = (b"wubblefrond", b"zyxquorvex", b"quandaryjib", b"snarkfennel")
        assert [word in stored for word in words] == [True, False, False, False]

    def test_import_keeps_existing_values(self, memory, new_database, tmp_path):
        memory.byte_store().mset([("a", b"exported"), ("b", b"exported")])
        memory.export(tmp_path / "all.jsonl")
        memory.byte_store().mset([("a", b"newer")])
        memory.byte_store().mdelete(["b"])
        assert memory.import_(tmp_path / "all.jsonl").blobs == 1
        assert memory.byte_store().mget(["a", "b"]) == [b"newer", b"exported"]

    def test_import_rejects_invalid_keys(self, memory, tmp_path):
        memory.byte_store().mset([("a", b"1")])
        for number, key in enumerate((b"k" * (MAX_KEY_BYTES + 1), b"\xc3\x28")):
            path = tmp_path / f"{number}.db"
            memory.export(path)
            with contextlib.closing(sqlite3.connect(path)) as export, export:
                export.execute("update blob set key = ?, checksum = ?", (key, zlib.crc32(b"1", zlib.crc32(key))))
            with pytest.raises(InvalidInput, match="is damaged"):
                memory.import_(path)
        assert list(memory.byte_store().yield_keys()) == ["a"]

    def test_verify_detects_changed_values_and_keys(self, memory, raw):
        store = memory.byte_store(("a",))
        store.mset([("k", b"value"), ("lll", b"value"), ("good", b"value")])
        assert memory.admin.verify().checked["blobs"] == 3
        assert (memory.admin.stats()["blobs"], memory.admin.stats()["blob_bytes"]) == (3, 15)
        text = "x'ff'" if memory.database.engine.dialect == "sqlite" else r"'\xff'::bytea"
        raw(memory, f"update blob set value = {text} where length(key) = 1")
        raw(memory, f"update blob set key = {text} where length(key) = 3")
        problems = memory.admin.verify().problems
        assert len(problems) == 2
        assert "the stored value of the key 'k' is damaged (checksum mismatch)" in problems
        assert "the keys of 1 stored values are damaged" in problems
