"""The bugs of the original's documentation (D) and source (A), by their names in the list; its promises hold here.

Those of compression and secrets (A14, A15, A17), of resources (A19), and of the context and the export (D4 in part,
A16) are tested with these.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.consolidation import CONSOLIDATED, LATER
from langchain_agentmem.layers.core_memory import EVICTED
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory

pytestmark = pytest.mark.sqlite_suffices

MANUAL = LayersConfig(recall_max_events=1_000)


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "main", settings=MANUAL)


def contents(things):
    return [each.content for each in things]


class TestTheDocument:
    def test_d1_every_row_has_its_times_whatever_sqlite_knows(self, layers, clock):
        """`unixepoch('subsec')` gave NULL for every time before SQLite 3.42."""
        layers.write(core={"k": "v"}, recall="event", archival="record")
        [entry], [event], [record] = layers.core.entries(), layers.recall.recent(), layers.archival.all()
        times = [entry.created_at, entry.updated_at, event.created_at, record.created_at, record.updated_at]
        assert all(
            isinstance(each, datetime) and each.tzinfo and abs(each - clock.now) < timedelta(minutes=1)
            for each in times
        )

    def test_d2_the_search_finds_what_was_written_changed_and_deleted(self, layers, memory):
        """The full-text table had no triggers, so nothing was ever found; and VACUUM renumbered what it pointed to."""
        record_id = layers.archival.write("about otters")
        gone = layers.archival.write("about weasels")
        assert [each.id for each in layers.archival.search("otters")] == [record_id]
        layers.archival.update(record_id, "about badgers")
        layers.archival.delete(gone)
        if memory.database.engine.dialect == "sqlite":
            memory.database.engine._writer.execute("vacuum")
        assert layers.archival.search("otters") == layers.archival.search("weasels") == []
        assert [each.id for each in layers.archival.search("badgers")] == [record_id]

    def test_d3_an_end_is_seconds_from_now_or_a_time_and_is_kept_to(self, layers, clock):
        """It was ambiguous, nothing enforced it, and a fork copied what had expired."""
        end = clock.now + timedelta(minutes=1)
        layers.core.set("relative", "v", ttl=60)
        layers.core.set("absolute", "v", ttl=end)
        assert [entry.expires_at is not None for entry in layers.core.entries()] == [True, True]
        clock.pass_time(minutes=5)
        assert layers.core.get() == layers.fork("fork").core.get() == {}

    def test_d4_a_hint_brings_records_into_the_prompt(self, layers):
        """`format_memory_for_prompt` passed none, so no record was ever shown."""
        layers.archival.write("Otters are mustelids.")
        assert "## Retrieved Context\n- Otters are mustelids." in layers.format_for_prompt("otters")
        assert "Retrieved" not in layers.format_for_prompt()

    def test_d5_every_operation_belongs_to_a_branch(self, layers, memory):
        """Core, recall and archival operations had no branch at all."""
        other = LayeredMemory(memory, "other")
        layers.write(core={"k": "v"}, recall="event", archival="record")
        assert other.read() == {"core": {}, "recall": [], "archival": []}

    def test_d5_a_branch_cannot_be_its_own_ancestor(self, layers):
        """The walk through ancestors had no guard against cycles."""
        fork = layers.fork("fork")
        with pytest.raises(InvalidInput, match="already"):
            fork.fork("main")

    def test_d6_all_three_layers_are_seen_as_they_were_at_the_fork(self, layers):
        """Core was copied at the fork, but recall and archival memory of the parent leaked in later."""
        fork = layers.fork("fork")
        layers.write(core={"k": "v"}, recall="event", archival="record")
        assert fork.read() == {"core": {}, "recall": [], "archival": []}
        assert fork.archival.search("record") == fork.recall.search("event") == []


class TestItsSource:
    def test_a1_what_has_expired_is_not_read_not_counted_and_not_found(self, layers, clock):
        layers.core.set("k", "v", ttl=1)
        clock.pass_time(minutes=1)
        assert layers.core.get() == {}
        assert layers.pressure().core_chars == 0
        assert layers.context()["core"] == {}
        assert "k" not in layers.format_for_prompt()

    def test_a2_ties_go_by_age_and_never_what_was_just_written(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=25))
        layers.core.set("z", "x" * 8)
        layers.core.set("a", "y" * 8)
        layers.core.set("m", "w" * 8)
        assert list(layers.core.get()) == ["a", "m"]

    def test_a2_a_value_larger_than_the_budget_is_still_there(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=20))
        layers.core.set("k", "x" * 500)
        assert layers.core.get()["k"].startswith("x")

    def test_a2_what_cannot_be_archived_is_not_deleted(self, memory, monkeypatch):
        """An error while archiving was passed over, and the value was deleted all the same."""
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=20))
        layers.core.set("old", "x" * 12)

        def broken(*_, **__):
            raise RuntimeError

        with monkeypatch.context() as patch:
            patch.setattr("langchain_agentmem.rewinding.memory_rows.search_index.places", broken)
            with pytest.raises(RuntimeError):
                layers.core.set("new", "y" * 12)
        assert layers.core.get() == {"old": "x" * 12}
        layers.core.set("new", "y" * 12)
        assert contents(layers.archival.all(tags=[EVICTED])) == ["Core evicted: old\n" + "x" * 12]

    def test_a3_a_later_write_of_the_parent_does_not_override_the_childs_own(self, layers):
        layers.core.set("k", "before")
        fork = layers.fork("fork")
        fork.core.set("k", "child")
        layers.core.set("k", "parent, later")
        assert fork.core.get() == {"k": "child"}

    def test_a4_core_memory_is_inherited_and_missing_keys_are_missing(self, layers):
        layers.core.set("k", "v")
        assert layers.fork("fork").core.get(["k", "nobody"]) == {"k": "v"}

    def test_a6_eviction_by_id_reaches_nobody_elses_events_and_counts_right(self, layers):
        mine = layers.recall.append("k", "parent's")
        one, two = layers.fork("one"), layers.fork("two")
        theirs = two.recall.append("k", "sibling's")
        assert one.recall.evict(ids=[mine, theirs]) == 1
        assert contents(layers.recall.recent()) == ["parent's"]
        assert contents(two.recall.recent()) == ["parent's", "sibling's"]

    def test_a7_an_event_without_content_is_refused_and_not_stored_empty(self, layers):
        with pytest.raises(InvalidInput):
            layers.recall.append("k", None)
        assert layers.recall.recent() == []
        layers.write(recall={"content": "the documented form"})
        assert contents(layers.recall.recent()) == ["the documented form"]

    def test_a8_an_update_of_the_text_leaves_the_tags_and_the_index_follows_the_tags(self, layers):
        record_id = layers.archival.write("text", tags=["first"])
        layers.archival.update(record_id, "other text")
        assert layers.archival.get(record_id).tags == ("first",)
        layers.archival.update(record_id, tags=["second"])
        assert contents(layers.archival.search("second")) == ["other text"]
        assert layers.archival.search("first") == []

    def test_a9_tags_are_looked_at_before_the_limit(self, layers):
        wanted = layers.archival.write("openmp scheduling", tags=["wanted"])
        for number in range(30):
            layers.archival.write(f"openmp scheduling {number}", tags=["other"])
        assert [each.id for each in layers.archival.search("openmp", limit=1, tags=["wanted"])] == [wanted]

    def test_a9_words_need_not_all_be_there_and_no_hit_is_without_a_score(self, layers):
        best = layers.archival.write("openmp loop scheduling")
        layers.archival.write("openmp pragmas")
        layers.archival.write("something else")
        found = layers.archival.search("openmp scheduling of tasks")
        assert found[0].id == best
        assert len(found) == 2
        assert all(each.score > 0 for each in found)

    @pytest.mark.parametrize(
        "query", ["AND", "openmp AND", "openmp?", "it's openmp.", "a/b openmp", '"openmp', "openmp*"]
    )
    def test_a9_no_sign_is_a_syntax_error(self, layers, query):
        layers.archival.write("openmp pragmas")
        layers.archival.write("something else")
        assert contents(layers.archival.search(query)) in ([], ["openmp pragmas"])
        assert "openmp" not in query or len(layers.archival.search(query)) == 1

    def test_a9_stems_and_other_scripts(self, layers):
        layers.archival.write("The scheduler was scheduling.")
        layers.archival.write("\u6771\u4eac\u306e\u5929\u6c17\u306f\u6674\u308c")
        assert len(layers.archival.search("schedules")) == 1
        assert len(layers.archival.search("\u6771\u4eac")) == 1

    def test_a10_equal_events_are_all_kept_with_their_own_times(self, layers, clock):
        at = clock.now - timedelta(days=3)
        for _ in range(3):
            layers.recall.append("tick", "same", at=at)
        assert [event.created_at for event in layers.recall.recent()] == [at] * 3

    def test_a11_consolidated_events_do_not_come_back_and_old_ones_are_found(self, layers):
        layers.recall.append("k", "the oldest otter")
        for number in range(40):
            layers.recall.append("k", f"event {number}")
        assert contents(layers.recall.search("otter")) == ["the oldest otter"]
        layers.recall.summarize(keep=20)
        assert layers.recall.search("otter") == []
        assert [CONSOLIDATED in each.tags for each in layers.archival.search("otter", limit=1)] == [True]

    def test_a12_grandchildren_inherit_what_was_consolidated_and_ask_no_model_again(self, memory):
        asked = []

        def model(messages):
            asked.append(messages)
            return "a summary"

        config = LayersConfig(recall_max_events=4, section_budgets={"archival_snippet": 200})
        layers = LayeredMemory(memory, "main", settings=config, model=model)
        for number in range(6):
            layers.recall.append("k", f"event {number} " + "x" * 100)
        fork = layers.fork("fork")
        fork.recall.append("k", "the one that makes it too many")
        assert LATER.wait(120)
        assert len(asked) == 1
        grandchild = fork.fork("grandchild")
        grandchild.recall.append("k", "one more")
        assert len(asked) == 1
        assert len(grandchild.recall.recent(None)) == 5
        assert contents(grandchild.archival.all()) == ["a summary"]
        assert len(layers.recall.recent(None)) == 6

    def test_a12_very_many_events_are_not_too_many_variables(self, layers):
        layers.write(recall=[f"event {number}" for number in range(1_200)])
        fork = layers.fork("fork")
        assert fork.recall.summarize(keep=20).events == 1_180
        assert len(fork.recall.recent(None)) == 20
        assert layers.recall.evict(oldest=1_200) == 1_200

    def test_a13_consolidation_without_a_model_keeps_importance_and_end(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=100))
        layers.core.set("k", "v", importance=5, ttl=3600)
        layers.core.set("l", "v" * 80, importance=1)
        for number in range(40):
            layers.recall.append("k", str(number))
        before = {entry.key: entry for entry in layers.core.entries()}
        layers.consolidate("critical")
        assert layers.core.entries() == [before["k"]]

    def test_a18_many_threads_share_one_memory(self, memory):
        """They shared a connection without a lock, and retried insertions that had succeeded."""
        layers = LayeredMemory(memory, "main", settings=MANUAL)

        def write(name):
            for number in range(10):
                layers.recall.append("k", f"{name} {number}")

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(contents(layers.recall.recent(None)))) == len(layers.recall.recent(None)) == 40

    def test_a18_who_begins_a_branch_at_the_same_time_begins_the_same_one(self, url):
        """Two who looked first and inserted then made two."""
        barrier = threading.Barrier(4)

        def begin(name):
            with AgentMemory(url) as memory:
                barrier.wait()
                LayeredMemory(memory, "main").core.set(name, "v")

        threads = [threading.Thread(target=begin, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with AgentMemory(url) as memory:
            assert set(LayeredMemory(memory, "main").core.get()) == set("abcd")

    def test_a18_looking_at_a_branch_does_not_make_it(self, layers, memory, raw):
        """An unknown node became a branch when it was read."""
        layers.read()
        layers.context("hint")
        layers.ancestors()
        assert raw(memory, "select * from branch") == []

    def test_a18_events_of_one_moment_keep_their_order(self, url):
        with AgentMemory(url, clock=lambda: datetime.fromisoformat("2026-01-01T12:00:00+00:00")) as memory:
            layers = LayeredMemory(memory, "main", settings=MANUAL)
            for number in range(20):
                layers.recall.append("k", str(number))
            assert contents(layers.recall.recent(None)) == [str(number) for number in range(20)]
