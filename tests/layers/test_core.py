"""Core memory: keys and values with importance and an end, within a budget that loses nothing."""

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


def small(memory, chars=40, name="main", **more):
    return LayeredMemory(memory, name, settings=LayersConfig(core_max_chars=chars, **more))


def taken(core):
    return len("\n".join(f"{key}: {value}" for key, value in core.get().items()))


class TestKeysAndValues:
    def test_keys_stay_in_the_order_in_which_they_were_first_set(self, layers):
        for key in "cab":
            layers.core.set(key, "1")
        layers.core.set("c", "2")
        assert list(layers.core.get()) == ["c", "a", "b"]
        assert list(layers.core.get(["b", "c"])) == ["b", "c"]

    def test_an_entry_knows_its_importance_and_its_times(self, layers, clock):
        layers.core.set("name", "Ada", importance=5, ttl=3600)
        layers.core.set("name", "Ada L.", importance=2)
        [entry] = layers.core.entries()
        assert (entry.key, entry.value, entry.importance, entry.expires_at) == ("name", "Ada L.", 2, None)
        assert entry.created_at < entry.updated_at <= clock.now

    def test_secrets_do_not_enter(self, layers):
        layers.core.set("db_password", "hunter2!")
        layers.core.set("config", "api_key=abcdef1234567890abcd and max_token: 4096")
        assert layers.core.get() == {"db_password": "***", "config": "api_key=*** and max_token: 4096"}


def test_what_cannot_be_is_refused(layers):
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


class TestAnEnd:
    def test_an_absolute_time(self, layers, clock):
        end = clock.now + timedelta(minutes=1)
        for ttl in (end, end.replace(tzinfo=None)):
            layers.core.set("k", "v", ttl=ttl)
            [entry] = layers.core.entries()
            assert entry.expires_at == end.astimezone(UTC)
        clock.pass_time(minutes=2)
        assert layers.core.get() == {}

    def test_what_has_expired_is_swept_away_by_the_next_write(self, layers, memory, clock, raw):
        layers.core.set("k", "v", ttl=60)
        clock.pass_time(minutes=2)
        layers.core.set("other", "v")
        assert [row["key"] for row in raw(memory, "select key from memory")] == ["other"]
        assert [bytes(row["body"]) for row in raw(memory, "select body from content")] == [b"v"]

    def test_what_expires_on_a_fork_does_not_bring_back_what_it_stood_before(self, layers, clock):
        layers.core.set("k", "parent")
        fork = layers.fork("fork")
        fork.core.set("k", "child", ttl=60)
        clock.pass_time(minutes=2)
        assert fork.core.get() == {}
        fork.core.set("other", "v")  # which sweeps
        assert fork.core.get() == {"other": "v"}
        assert layers.core.get() == {"k": "parent"}

    def test_what_has_expired_takes_no_room_and_comes_back_from_nowhere(self, memory, clock):
        layers = small(memory)
        layers.core.set("a", "x" * 20, ttl=60)
        layers.core.set("b", "x" * 20, ttl=60)
        assert [each.details["value"] for each in layers.archival.all()] == ["x" * 20]
        clock.pass_time(minutes=2)
        layers.core.set("c", "y" * 30)
        assert layers.archival.all() == []


class TestTheBudget:
    def test_of_equals_the_least_recently_updated_leaves_and_not_the_first_in_the_alphabet(self, memory):
        layers = small(memory)
        for key, value in (("a", "x" * 10), ("b", "x" * 10), ("a", "y" * 10), ("c", "x" * 13)):
            layers.core.set(key, value)
        assert list(layers.core.get()) == ["a", "c"]

    def test_exactly_the_budget_fits(self, memory):
        layers = small(memory, chars=9)
        layers.write(core={"a": "1", "b": "2"})  # "a: 1", a break, "b: 2"
        assert layers.core.get() == {"a": "1", "b": "2"}
        layers.core.set("b", "22")
        assert layers.core.get() == {"b": "22"}

    def test_what_cannot_be_archived_is_not_deleted(self, memory, monkeypatch):
        layers, places = small(memory, chars=20), "langchain_agentmem.rewinding.memory_rows.search_index.reserve_places"
        layers.core.set("old", "x" * 12)
        with monkeypatch.context() as patch:
            patch.setattr(places, Mock(side_effect=RuntimeError))
            with pytest.raises(RuntimeError):
                layers.core.set("new", "y" * 12)
        assert layers.core.get() == {"old": "x" * 12}
        layers.core.set("new", "y" * 12)
        assert [each.content for each in layers.archival.all(tags=[CORE_EVICTED])] == ["Core evicted: old\n" + "x" * 12]

    def test_what_leaves_keeps_its_importance_and_its_end(self, memory, clock):
        layers = small(memory)
        layers.core.set("old", "x" * 20, importance=2, ttl=60)
        layers.core.set("new", "y" * 20)
        [record] = layers.archival.all()
        assert record.tags == (CORE_EVICTED, "core_key:old")
        assert (record.details["value"], record.details["importance"]) == ("x" * 20, 2)
        clock.pass_time(minutes=2)
        assert layers.archival.all() == []


class TestAValueThatIsTooLarge:
    def test_is_refused_and_nothing_leaves_for_it(self, memory):
        layers = small(memory)
        layers.core.set("old", "x")
        with pytest.raises(InvalidInput, match="no room"):
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
def test_whatever_is_set_the_budget_holds_and_nothing_is_lost(memory, calls):
    layers = small(memory, chars=50, name=f"branch {next(NAMES)}")
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
