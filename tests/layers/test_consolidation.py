"""Consolidation: old events become records by kind, without loss."""

from concurrent.futures import wait

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompressionFellShort
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import AUTOMATIC, CONSOLIDATED, format_events, shorten_events
from langchain_agentmem.rewinding.memory_rows import MemoryVersion
from langchain_agentmem.storage import background
from tests.layers.made import contents
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices

SUBMITTED = []


@pytest.fixture(autouse=True, scope="module")
def _record_submitted():
    submit = background._workers.submit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background._workers, "submit", lambda function: SUBMITTED.append(submit(function)))
        yield


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=4))


def summarizing(memory, model, events=4):
    config = LayersConfig(recall_max_events=events, section_budgets={"archival_snippet": 150})
    return LayeredMemory(memory, "main", settings=config, model=model)


def append_events(layers, count, length=10):
    for number in range(count):
        layers.recall.append("ab"[number % 2], f"event {number} " + "x" * length)
    wait(SUBMITTED)  # a model is asked in the background


class TestAutomaticConsolidation:
    def test_events_beyond_1_5_windows_are_consolidated_by_kind(self, layers):
        append_events(layers, 6)
        assert layers.archival.all() == []
        append_events(layers, 1)
        assert len(layers.recall.recent(None)) == 4
        a, b = layers.archival.all()
        assert a.tags == (CONSOLIDATED, AUTOMATIC, "kind:a", "event_count:2")
        assert b.tags == (CONSOLIDATED, AUTOMATIC, "kind:b", "event_count:1")

    def test_recall_never_exceeds_1_5_windows(self, layers):
        for _ in range(40):
            append_events(layers, 1)
            assert len(layers.recall.recent(None)) <= 6
        layers.write(recall=[f"event {number}" for number in range(50)])
        assert len(layers.recall.recent(None)) == 4


class TestLosslessness:
    def test_a_truncated_summary_keeps_the_events_in_details(self, memory):
        settings = LayersConfig(recall_max_events=4, section_budgets={"archival_snippet": 100})
        layers = LayeredMemory(memory, "main", settings=settings)
        ids = [layers.recall.append("a", f"event {number} " + "x" * 80 + f" needle{number}") for number in range(7)]
        [record] = layers.archival.all()
        assert len(record.content) <= 100
        assert [each[0] for each in record.details["events"]] == ids[:3]
        assert record.details["events"][1][2].endswith("needle1")
        assert [each.id for each in layers.archival.search("needle1")] == [record.id]

    def test_an_updated_summary_is_still_found_by_events(self, layers):
        append_events(layers, 7, length=0)
        [record] = layers.archival.search("event 0", limit=1)
        layers.archival.update(record.id, "nothing to see")
        assert record.id in {each.id for each in layers.archival.search("event")}
        layers.archival.update(record.id, tags=["zebra"])
        assert [each.id for each in layers.archival.search("zebra")] == [record.id]

    def test_many_events_are_split_into_several_records(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=400))
        layers.write(recall=["the oldest otter", *(f"event {number}" for number in range(1, 454))])
        assert contents(layers.recall.search("otter")) == ["the oldest otter"]
        report = layers.recall.summarize(keep=4)
        assert (report.events, len(report.records)) == (450, 3)
        kept = [each[2] for record in layers.archival.all() for each in record.details["events"]]
        assert kept[1:] == [f"event {number}" for number in range(1, 450)]
        assert layers.recall.search("otter") == []
        assert [CONSOLIDATED in each.tags for each in layers.archival.search("otter", limit=1)] == [True]

    def test_consolidation_on_a_fork_leaves_other_branches_unchanged(self, layers):
        append_events(layers, 6)
        fork = layers.fork("fork")
        grandchild = fork.fork("grandchild")
        append_events(fork, 1)
        assert len(fork.recall.recent(None)) == 4
        assert len(layers.recall.recent(None)) == len(grandchild.recall.recent(None)) == 6
        assert layers.archival.all() == grandchild.archival.all() == []


def test_summarize_accepts_a_kind_and_a_keep_count(layers):
    append_events(layers, 6)
    report = layers.recall.summarize(kind="b", keep=2)
    assert (report.level, report.events, len(report.records)) == (None, 1, 1)
    assert [event.kind for event in layers.recall.recent(None)] == ["a", "a", "b", "a", "b"]
    assert AUTOMATIC not in layers.archival.get(report.records[0]).tags
    assert [layers.recall.summarize().events for _ in range(2)] == [1, 0]


class TestConsolidationModel:
    def test_the_model_is_called_outside_of_transactions(self, memory):
        def answer(messages):
            LayeredMemory(memory, "other").core.set("k", "written meanwhile")
            return "They went well."

        layers = summarizing(memory, model := ScriptedModel(answer))
        append_events(layers, 7, length=70)
        a, _ = layers.archival.all()
        assert a.content == "They went well."
        assert a.details["events"][0][2].startswith("event 0")
        [asked] = model.asked  # of the other kind there was one event, which fits as it is
        assert "<text" in asked[-1].content

    def test_a_failing_model_falls_back_to_a_digest(self, url):
        told = []
        with AgentMemory(url, hooks=[told.append]) as memory:
            layers = summarizing(memory, ScriptedModel(ValueError("no")))
            append_events(layers, 7, length=70)
            assert len(layers.recall.recent(None)) == 4
            a, _ = layers.archival.all()
            assert a.content.startswith("2 events of kind a")
        assert [type(each.error) for each in told if isinstance(each, CompressionFellShort)] == [ValueError]

    def test_events_evicted_during_the_model_call_are_skipped(self, memory):
        layers = summarizing(memory, None, 8)
        append_events(layers, 8, length=100)
        first = layers.recall.recent(None)[0]

        def model(_):
            layers.recall.evict(ids=[first.id])
            return "They went well."

        report = summarizing(memory, model).recall.summarize()
        assert report.events == 2  # the other kind's
        assert not [each for each in layers.archival.all(tags=[CONSOLIDATED]) if "kind:a" in each.tags]


def kept(text):
    body = text.encode("utf-8", "surrogatepass")
    return MemoryVersion(1, 1, "event", "id", "k", None, None, 0, 0, None, None, None, body, {})


@given(events=st.lists(st.text().map(kept), min_size=1, max_size=30), limit=st.integers(0, 400))
@settings(deadline=None)
def test_a_digest_never_exceeds_its_limit(events, limit):
    text, whole = shorten_events(events, limit), format_events(events)
    assert len(text) <= limit
    if len(whole) <= limit:
        assert text == whole


def test_a_digest_lists_all_events_with_shortened_texts():
    lines = shorten_events([kept(f"{number} {'word ' * 40}") for number in range(20)], 3_000).splitlines()
    assert [line.split()[3] for line in lines[1:]] == [str(number) for number in range(20)]


def test_a_long_digest_keeps_first_and_latest_events():
    events = [kept(f"{number} happened") for number in range(150)]
    lines = shorten_events(events, 3_000).splitlines()
    assert lines[1].endswith(" 0 happened")
    assert lines[-1].endswith(" 149 happened")
    [gap] = [line for line in lines if line.endswith(" more")]
    assert len(lines) - 2 + int(gap.split()[2]) == 150
