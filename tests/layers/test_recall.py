"""Recall memory: ordered events with ids, kinds and times."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import RECALL_EVICTED
from tests.layers.made import contents

pytestmark = pytest.mark.sqlite_suffices


class TestEvents:
    def test_an_event_has_id_kind_and_time(self, layers, clock):
        before = clock.now
        event_id = layers.recall.append("metric", "accuracy 0.93")
        event = layers.recall.get(event_id)
        assert (event.id, event.kind, event.content) == (event_id, "metric", "accuracy 0.93")
        assert before < event.created_at <= clock.now
        assert layers.recall.get("nobody") is None

    def test_append_accepts_an_explicit_time(self, layers):
        at = datetime(2020, 5, 1, 12, tzinfo=UTC)
        aware = layers.recall.append("k", "x", at=at)
        naive = layers.recall.append("k", "x", at=at.replace(tzinfo=None))
        assert layers.recall.get(aware).created_at == layers.recall.get(naive).created_at == at

    def test_invalid_arguments_are_rejected(self, layers):
        for wrong in ((None, "x"), ("", "x"), ("a\nb", "x"), ("k", None), ("k", 5), ("k", "x", "now")):
            with pytest.raises(InvalidInput):
                layers.recall.append(*wrong)
        assert layers.recall.recent() == []
        for limit in (-1, 1.5, "3", True):
            with pytest.raises(InvalidInput, match="limit"):
                layers.recall.recent(limit)

    def test_append_accepts_only_times_within_utc_range(self, layers):
        for at in (datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1969, 7, 20, tzinfo=UTC)):
            event_id = layers.recall.append("k", "x", at=at)
            assert abs(layers.recall.get(event_id).created_at - at) < timedelta(seconds=1)
        east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
        for at in (datetime.min.replace(tzinfo=east), datetime.max.replace(tzinfo=west)):
            with pytest.raises(InvalidInput, match="years 1 to 9999"):
                layers.recall.append("k", "x", at=at)
        assert len(layers.recall.recent()) == 3


class TestWindow:
    def test_recent_returns_the_newest_events_in_order(self, layers):
        for number in range(30):
            layers.recall.append("ab"[number % 2], str(number))
        assert contents(layers.recall.recent()) == [str(number) for number in range(10, 30)]
        assert contents(layers.recall.recent(3)) == ["27", "28", "29"]
        assert len(layers.recall.recent(None)) == 30
        assert contents(layers.recall.recent(2, kind="a")) == ["26", "28"]
        assert len(layers.recall.recent(None, kind="b")) == 15
        assert layers.recall.recent(0) == []

    def test_events_with_equal_times_keep_their_order(self, url):
        with AgentMemory(url, clock=lambda: datetime.fromisoformat("2026-01-01T12:00:00+00:00")) as memory:
            layers = LayeredMemory(memory, "main")
            for number in range(20):
                layers.recall.append("k", str(number))
            assert contents(layers.recall.recent(None)) == [str(number) for number in range(20)]

    def test_window_size_follows_the_settings(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=3))
        layers.write(recall=["0", "1", "2", "3", "4"])
        assert contents(layers.recall.recent()) == ["2", "3", "4"]


class TestSearch:
    def test_search_finds_events_by_words(self, layers):
        layers.recall.append("error", "the disk is full")
        layers.recall.append("error", "the network is down")
        [event] = layers.recall.search("disk")
        assert event.content == "the disk is full"
        assert event.score > 0
        assert "disk" in event.why.terms

    def test_a_star_query_returns_all_events_newest_first(self, layers):
        for number in range(30):
            layers.recall.append("k", str(number))
        assert contents(layers.recall.search("*")) == [str(number) for number in range(29, 19, -1)]
        assert len(layers.recall.search("*", limit=None)) == 30


class TestEviction:
    @pytest.fixture
    def layers(self, layers):
        self.ids = [layers.recall.append("ab"[number % 2], f"event {number}") for number in range(6)]
        return layers

    def test_evict_by_oldest_or_kind(self, layers):
        assert layers.recall.evict(oldest=2) == 2
        assert layers.recall.evict(kind="a") == 2
        assert contents(layers.recall.recent()) == ["event 3", "event 5"]

    def test_evict_by_ids_kind_and_count(self, layers):
        assert layers.recall.evict(ids=[self.ids[1], self.ids[4], "nobody", self.ids[1]]) == 2
        assert layers.recall.get(self.ids[1]) is layers.recall.get(self.ids[4]) is None
        assert layers.recall.evict(ids=self.ids[2:], kind="b", oldest=1) == 1
        assert layers.recall.get(self.ids[3]) is None

    def test_evicted_events_become_archival_records(self, layers):
        layers.recall.evict(ids=[self.ids[0]])
        assert layers.recall.search("0") == []
        [record] = layers.archival.all(tags=[RECALL_EVICTED])
        assert record.content == "[a] event 0"
        assert record.tags == (RECALL_EVICTED, "kind:a", f"event:{self.ids[0]}")

    def test_evict_without_criteria_is_rejected(self, layers):
        with pytest.raises(InvalidInput, match="no events to move"):
            layers.recall.evict()
        assert layers.recall.evict(ids=[]) == 0
        assert len(layers.recall.recent()) == 6
