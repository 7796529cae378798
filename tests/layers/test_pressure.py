"""Memory pressure: levels, recommendations and relief."""

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory, compute_pressure
from langchain_agentmem.layers.memory_layers import CONSOLIDATED, CORE_EVICTED

pytestmark = pytest.mark.sqlite_suffices

SETTINGS = LayersConfig(core_max_chars=100, recall_max_events=10)


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "main", settings=SETTINGS)


class TestLevels:
    def test_pressure_weighs_core_60_and_recall_40_percent(self):
        for core, events, level in (
            (0, 0, "low"), (50, 5, "low"), (100, 2, "low"), (100, 3, "medium"), (100, 7, "high"), (100, 10, "critical")
        ):  # fmt: skip
            pressure = compute_pressure(core, events, 0, SETTINGS)
            assert pressure.level == level, (core, events)
            assert pressure.overall == pytest.approx(0.6 * core / 100 + 0.4 * min(events / 10, 1))

    def test_recommendations_follow_the_pressure(self):
        assert compute_pressure(0, 0, 0, SETTINGS).recommendations == ()
        assert compute_pressure(80, 8, 0, SETTINGS).recommendations == ("compress_core", "summarize_recall")
        full = compute_pressure(100, 11, 101, SETTINGS).recommendations
        assert " ".join(full) == "consolidate_recall evict_core compress_core summarize_recall prune_archival"

    def test_pressure_counts_inherited_memory(self, layers):
        layers.core.set("k", "x" * 47)
        layers.recall.append("k", "event")
        layers.archival.write("record")
        fork = layers.fork("fork")
        fork.recall.append("k", "event")
        pressure = fork.pressure()
        assert (pressure.core_chars, pressure.events, pressure.records) == (50, 2, 1)
        assert (pressure.core, pressure.recall) == (0.5, 0.2)


class TestRelief:
    def fill(self, layers):
        for key, importance in (("a", 1), ("b", 2), ("c", 3), ("d", 5)):
            layers.core.set(key, key * 20, importance=importance)
        layers.write(recall=[{"kind": "k", "content": f"event {number}"} for number in range(15)])

    def test_low_pressure_changes_nothing(self, layers):
        self.fill(layers)
        before = layers.read()
        report = layers.consolidate("low")
        assert (report.level, report.events, report.records, report.evicted) == ("low", 0, (), ())
        assert layers.read() == before

    def test_medium_consolidates_events_and_high_evicts_core(self, layers):
        self.fill(layers)
        report = layers.consolidate("medium")
        assert report.events == 5
        assert [record.id for record in layers.archival.all(tags=[CONSOLIDATED])] == list(report.records)
        assert (len(layers.recall.recent(None)), len(layers.core.get())) == (10, 4)
        assert layers.consolidate("high").evicted == ("a", "b")
        assert list(layers.core.get()) == ["c", "d"]
        assert len(layers.archival.all(tags=[CORE_EVICTED])) == 2

    def test_critical_enforces_the_core_budget(self, layers, memory):
        self.fill(layers)
        tighter = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=30))
        assert tighter.consolidate("critical").evicted == ("a", "b", "c")
        assert list(tighter.core.get()) == ["d"]

    def test_consolidate_defaults_to_the_current_level(self, layers):
        self.fill(layers)
        assert layers.pressure().level == "critical"
        assert layers.consolidate().level == "critical"
        assert layers.pressure().level in {"low", "medium"}
        with pytest.raises(InvalidInput, match="level must be 'low'"):
            layers.consolidate("extreme")
