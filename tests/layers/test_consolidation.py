"""Consolidation: old events become records by kind, and nothing of them is lost."""

from concurrent.futures import wait

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompressionFellShort
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.memory_layers import AUTOMATIC, CONSOLIDATED, digest_events, events_text
from langchain_agentmem.rewinding.memory_rows import MemoryVersion
from langchain_agentmem.storage import background
from tests.layers.made import contents
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices

BEGUN = []


@pytest.fixture(autouse=True, scope="module")
def _begun():
    submit = background._workers.submit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background._workers, "submit", lambda function: BEGUN.append(submit(function)))
        yield


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=4))


def summarizing(memory, model, events=4):
    config = LayersConfig(recall_max_events=events, section_budgets={"archival_snippet": 150})
    return LayeredMemory(memory, "main", settings=config, model=model)


def happen(layers, count, length=10):
    for number in range(count):
        layers.recall.append("ab"[number % 2], f"event {number} " + "x" * length)
    wait(BEGUN)  # a model is asked in the background


class TestByItself:
    def test_beyond_one_and_a_half_windows_the_old_ones_go_by_kind(self, layers):
        happen(layers, 6)
        assert layers.archival.all() == []
        happen(layers, 1)
        assert len(layers.recall.recent(None)) == 4
        a, b = layers.archival.all()
        assert a.tags == (CONSOLIDATED, AUTOMATIC, "kind:a", "event_count:2")
        assert b.tags == (CONSOLIDATED, AUTOMATIC, "kind:b", "event_count:1")

    def test_however_many_come_there_is_never_much_more_than_a_window(self, layers):
        for _ in range(40):
            happen(layers, 1)
            assert len(layers.recall.recent(None)) <= 6
        layers.write(recall=[f"event {number}" for number in range(50)])
        assert len(layers.recall.recent(None)) == 4


class TestNothingIsLost:
    def test_a_record_that_is_too_short_for_them_keeps_the_events_beside_it(self, memory):
        settings = LayersConfig(recall_max_events=4, section_budgets={"archival_snippet": 100})
        layers = LayeredMemory(memory, "main", settings=settings)
        ids = [layers.recall.append("a", f"event {number} " + "x" * 80 + f" needle{number}") for number in range(7)]
        [record] = layers.archival.all()
        assert len(record.content) <= 100
        assert [each[0] for each in record.details["events"]] == ids[:3]
        assert record.details["events"][1][2].endswith("needle1")
        assert [each.id for each in layers.archival.search("needle1")] == [record.id]

    def test_a_record_that_stands_for_events_is_found_by_them_after_it_was_changed(self, layers):
        happen(layers, 7, length=0)
        [record] = layers.archival.search("event 0", limit=1)
        layers.archival.update(record.id, "nothing to see")
        assert record.id in {each.id for each in layers.archival.search("event")}
        layers.archival.update(record.id, tags=["zebra"])
        assert [each.id for each in layers.archival.search("zebra")] == [record.id]

    def test_very_many_events_become_several_records_and_do_not_come_back(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=400))
        layers.write(recall=["the oldest otter", *(f"event {number}" for number in range(1, 454))])
        assert contents(layers.recall.search("otter")) == ["the oldest otter"]
        report = layers.recall.summarize(keep=4)
        assert (report.events, len(report.records)) == (450, 3)
        kept = [each[2] for record in layers.archival.all() for each in record.details["events"]]
        assert kept[1:] == [f"event {number}" for number in range(1, 450)]
        assert layers.recall.search("otter") == []
        assert [CONSOLIDATED in each.tags for each in layers.archival.search("otter", limit=1)] == [True]

    def test_inherited_events_are_hidden_here_alone(self, layers):
        happen(layers, 6)
        fork = layers.fork("fork")
        grandchild = fork.fork("grandchild")
        happen(fork, 1)
        assert len(fork.recall.recent(None)) == 4
        assert len(layers.recall.recent(None)) == len(grandchild.recall.recent(None)) == 6
        assert layers.archival.all() == grandchild.archival.all() == []


def test_when_asked_all_but_the_window_or_one_kind_and_as_many_as_one_likes(layers):
    happen(layers, 6)
    report = layers.recall.summarize(kind="b", keep=2)
    assert (report.level, report.events, len(report.records)) == (None, 1, 1)
    assert [event.kind for event in layers.recall.recent(None)] == ["a", "a", "b", "a", "b"]
    assert AUTOMATIC not in layers.archival.get(report.records[0]).tags
    assert [layers.recall.summarize().events for _ in range(2)] == [1, 0]


class TestWithAModel:
    def test_it_is_asked_outside_of_any_transaction_and_its_words_are_kept(self, memory):
        def answer(messages):
            LayeredMemory(memory, "other").core.set("k", "written meanwhile")
            return "They went well."

        layers = summarizing(memory, model := ScriptedModel(answer))
        happen(layers, 7, length=70)
        a, _ = layers.archival.all()
        assert a.content == "They went well."
        assert a.details["events"][0][2].startswith("event 0")
        [asked] = model.asked  # of the other kind there was one event, which fits as it is
        assert "<text" in asked[-1].content

    def test_a_model_that_fails_does_not_stand_in_the_way_and_is_told_of(self, url):
        told = []
        with AgentMemory(url, hooks=[told.append]) as memory:
            layers = summarizing(memory, ScriptedModel(ValueError("no")))
            happen(layers, 7, length=70)
            assert len(layers.recall.recent(None)) == 4
            a, _ = layers.archival.all()
            assert a.content.startswith("2 events of kind a")
        assert [type(each.error) for each in told if isinstance(each, CompressionFellShort)] == [ValueError]

    def test_what_was_evicted_while_it_was_asked_is_not_summed_up(self, memory):
        layers = summarizing(memory, None, 8)
        happen(layers, 8, length=100)
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
def test_a_digest_is_never_longer_than_it_may_be(events, limit):
    text, whole = digest_events(events, limit), events_text(events)
    assert len(text) <= limit
    if len(whole) <= limit:
        assert text == whole


def test_a_digest_of_events_whose_beginnings_fit_has_all_of_them():
    lines = digest_events([kept(f"{number} {'word ' * 40}") for number in range(20)], 3_000).splitlines()
    assert [line.split()[3] for line in lines[1:]] == [str(number) for number in range(20)]


def test_a_digest_of_too_many_events_has_the_first_and_the_latest():
    events = [kept(f"{number} happened") for number in range(150)]
    lines = digest_events(events, 3_000).splitlines()
    assert lines[1].endswith(" 0 happened")
    assert lines[-1].endswith(" 149 happened")
    [gap] = [line for line in lines if line.endswith(" more")]
    assert len(lines) - 2 + int(gap.split()[2]) == 150
