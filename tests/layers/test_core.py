"""Core memory: keys and values with importance and expiry, within a budget, without loss."""

import itertools
from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import CORE_EVICTED

pytestmark = pytest.mark.sqlite_suffices


def small_memory(memory, chars=40, name="main", **more):
    return LayeredMemory(memory, name, settings=LayersConfig(core_max_chars=chars, **more))


def taken(core):
    return len("\n".join(f"{key}: {value}" for key, value in core.get().items()))


class TestKeysAndValues:
    def test_keys_keep_their_insertion_order(self, layers):
        for key in "cab":
            layers.core.set(key, "1")
        layers.core.set("c", "2")
        assert list(layers.core.get()) == ["c", "a", "b"]
        assert list(layers.core.get(["b", "c"])) == ["b", "c"]

    def test_an_entry_has_importance_and_timestamps(self, layers, clock):
        layers.core.set("name", "Ada", importance=5, ttl=3600)
        layers.core.set("name", "Ada L.", importance=2)
        [entry] = layers.core.entries()
        assert (entry.key, entry.value, entry.importance, entry.expires_at) == ("name", "Ada L.", 2, None)
        assert entry.created_at < entry.updated_at <= clock.now

    def test_secrets_are_redacted(self, layers):
        layers.core.set("db_password", "hunter2!")
        layers.core.set("config", "api_key=abcdef1234567890abcd and max_token: 4096")
        assert layers.core.get() == {"db_password": "***", "config": "api_key=*** and max_token: 4096"}


def test_invalid_arguments_are_rejected(layers):
    for key in ("", " ", "a\nb", "\x00", "k" * 501, 5, None, "\ud800"):
        with pytest.raises(InvalidInput, match="cannot be a key"):
            layers.core.set(key, "v")
    for importance in (0, 6, 2.5, "3", True, None):
        with pytest.raises(InvalidInput, match="from 1 to 5"):
            layers.core.set("k", "v", importance=importance)
    nan, inf, west = float("nan"), float("inf"), timezone(timedelta(hours=-14))
    # Of an end that no calendar has it could never be read.
    for ttl in (0, -1, nan, inf, "60", True, datetime(2000, 1, 1), 1e12, 10**400, datetime.max.replace(tzinfo=west)):
        with pytest.raises(InvalidInput, match="ttl"):
            layers.core.set("k", "v", ttl=ttl)
    assert layers.core.entries() == []
    layers.core.set("k", "v", ttl=datetime.max)
    assert [each.key for each in layers.core.entries()] == ["k"]


class TestExpiry:
    def test_ttl_accepts_an_absolute_time(self, layers, clock):
        end = clock.now + timedelta(minutes=1)
        for ttl in (end, end.replace(tzinfo=None)):
            layers.core.set("k", "v", ttl=ttl)
            [entry] = layers.core.entries()
            assert entry.expires_at == end.astimezone(UTC)
        clock.pass_time(minutes=2)
        assert layers.core.get() == {}

    def test_expired_entries_are_deleted_by_the_next_write(self, layers, memory, clock, raw):
        layers.core.set("k", "v", ttl=60)
        clock.pass_time(minutes=2)
        layers.core.set("other", "v")
        assert [row["key"] for row in raw(memory, "select key from memory")] == ["other"]
        assert [bytes(row["body"]) for row in raw(memory, "select body from content")] == [b"v"]

    def test_expiry_on_a_fork_does_not_reveal_parent_values(self, layers, clock):
        layers.core.set("k", "parent")
        fork = layers.fork("fork")
        fork.core.set("k", "child", ttl=60)
        clock.pass_time(minutes=2)
        assert fork.core.get() == {}
        fork.core.set("other", "v")  # which sweeps
        assert fork.core.get() == {"other": "v"}
        assert layers.core.get() == {"k": "parent"}

    def test_expired_entries_do_not_count_towards_the_budget(self, memory, clock):
        layers = small_memory(memory)
        layers.core.set("a", "x" * 20, ttl=60)
        layers.core.set("b", "x" * 20, ttl=60)
        assert [each.details["value"] for each in layers.archival.all()] == ["x" * 20]
        clock.pass_time(minutes=2)
        layers.core.set("c", "y" * 30)
        assert layers.archival.all() == []


class TestBudget:
    def test_ties_evict_the_least_recently_updated_entry(self, memory):
        layers = small_memory(memory)
        for key, value in (("a", "x" * 10), ("b", "x" * 10), ("a", "y" * 10), ("c", "x" * 13)):
            layers.core.set(key, value)
        assert list(layers.core.get()) == ["a", "c"]

    def test_entries_filling_the_budget_exactly_are_kept(self, memory):
        layers = small_memory(memory, chars=9)
        layers.write(core={"a": "1", "b": "2"})  # "a: 1", a break, "b: 2"
        assert layers.core.get() == {"a": "1", "b": "2"}
        layers.core.set("b", "22")
        assert layers.core.get() == {"b": "22"}

    def test_eviction_fails_if_archiving_fails(self, memory, monkeypatch):
        layers, places = (
            small_memory(memory, chars=20),
            "langchain_agentmem.rewinding.memory_rows.search_index.reserve_places",
        )
        layers.core.set("old", "x" * 12)
        with monkeypatch.context() as patch:
            patch.setattr(places, Mock(side_effect=RuntimeError))
            with pytest.raises(RuntimeError):
                layers.core.set("new", "y" * 12)
        assert layers.core.get() == {"old": "x" * 12}
        layers.core.set("new", "y" * 12)
        assert [each.content for each in layers.archival.all(tags=[CORE_EVICTED])] == ["Core evicted: old\n" + "x" * 12]

    def test_evicted_entries_keep_importance_and_expiry(self, memory, clock):
        layers = small_memory(memory)
        layers.core.set("old", "x" * 20, importance=2, ttl=60)
        layers.core.set("new", "y" * 20)
        [record] = layers.archival.all()
        assert record.tags == (CORE_EVICTED, "core_key:old")
        assert (record.details["value"], record.details["importance"]) == ("x" * 20, 2)
        clock.pass_time(minutes=2)
        assert layers.archival.all() == []


def test_oversized_values_are_rejected_without_eviction(memory):
    layers = small_memory(memory)
    layers.core.set("old", "x")
    with pytest.raises(InvalidInput, match="Core memory is too small"):
        layers.core.set("k", "y" * 50)
    layers.core.set("resource_digest", "x" * 15)
    with pytest.raises(InvalidInput, match="protected keys"):
        layers.core.set("k", "y" * 20)
    assert list(layers.core.get()) == ["old", "resource_digest"]


KEYS = st.sampled_from(["a", "b", "c", "resource_digest"])
SETS = st.lists(st.tuples(KEYS, st.text("xy ", min_size=1, max_size=60), st.integers(1, 5)), max_size=15)


NAMES = itertools.count()


@given(calls=SETS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_writes_respect_the_budget_without_loss(memory, calls):
    layers = small_memory(memory, chars=50, name=f"branch {next(NAMES)}")
    last = {}
    for key, value, importance in calls:
        try:
            layers.core.set(key, value, importance)
        except InvalidInput:  # it is too long, or protected keys leave no room
            assert "resource_digest" in layers.core.get() or len(f"{key}: {value}") > 50
            continue
        last[key] = value
        assert layers.core.get()[key] == value  # what was just written is there
        assert taken(layers.core) <= 50
    if "resource_digest" in last:
        assert layers.core.get()["resource_digest"] == last["resource_digest"]
    archived = {tag: record.details["value"] for record in layers.archival.all() for tag in record.tags[1:]}
    for key, value in last.items():
        assert layers.core.get().get(key, archived.get(f"core_key:{key}")) == value
