"""Branches: a fork sees its parent up to the fork and nothing after, at any depth."""

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from tests.layers.made import contents

pytestmark = pytest.mark.sqlite_suffices


class TestForking:
    def test_a_fork_does_not_see_later_parent_writes(self, main):
        main.core.set("k", "before")
        main.recall.append("k", "event before")
        record_id = main.archival.write("record before")
        fork = main.fork("fork")
        main.core.set("k", "after")
        main.core.set("new", "after")
        main.recall.append("k", "event after")
        main.archival.write("record after")
        main.archival.update(record_id, "changed after")
        assert fork.core.get() == {"k": "before"}
        fork.core.set("k", "child")
        main.core.set("k", "later")
        assert fork.core.get() == {"k": "child"}
        assert contents(fork.recall.recent()) == ["event before"]
        assert contents(fork.archival.all()) == ["record before"]
        assert contents(fork.archival.search("after")) == []

    def test_branch_names_are_unique_within_a_namespace(self, memory):
        for namespace in (("a",), ("b",)):
            layers = LayeredMemory(memory, "main", namespace=namespace)
            layers.core.set("k", namespace[0])
            layers.fork("fork")
            for name in ("fork", "main"):
                with pytest.raises(InvalidInput, match="already"):
                    layers.fork(name)
        assert LayeredMemory(memory, "fork", namespace=("b",)).core.get() == {"k": "b"}
        with pytest.raises(InvalidInput, match="one namespace"):
            layers.diff(LayeredMemory(memory, "main", namespace=("a",)))

    def test_eviction_by_id_does_not_affect_other_branches(self, main):
        mine = main.recall.append("k", "parent's")
        one, two = main.fork("one"), main.fork("two")
        theirs = two.recall.append("k", "sibling's")
        assert one.recall.evict(ids=[mine, theirs]) == 1
        assert contents(main.recall.recent()) == ["parent's"]
        assert contents(two.recall.recent()) == ["parent's", "sibling's"]

    def test_reading_a_branch_does_not_create_it(self, main, memory, raw):
        main.read()
        main.context("hint")
        main.ancestors()
        assert raw(memory, "select * from branch") == []

    def test_forking_copies_no_rows(self, main, memory, raw):
        main.write(core={"k": "v"}, recall=["event"] * 50, archival=["record"] * 50)
        before = raw(memory, "select count(*) as n from memory")
        main.fork("fork").fork("deeper")
        assert raw(memory, "select count(*) as n from memory") == before

    def test_old_versions_are_kept_only_for_forks(self, main, memory, raw):
        main.core.set("k", "first")
        main.core.set("k", "second")
        main.fork("fork")
        main.core.set("k", "third")
        main.core.set("k", "fourth")
        assert [row["id"] for row in raw(memory, "select id from memory")] == [2, 4]


class TestSearchOnForks:
    def test_hits_of_other_branches_do_not_use_up_limit(self, main):
        main.archival.write("otters")
        fork = main.fork("fork")
        main.write(archival=[f"otters otters otters {number}" for number in range(50)])
        assert contents(fork.archival.search("otters", limit=1)) == ["otters"]

    def test_search_uses_the_branchs_version_of_a_record(self, main):
        record_id = main.archival.write("about otters")
        fork = main.fork("fork")
        fork.archival.update(record_id, "about badgers")
        assert contents(fork.archival.search("otters")) == []
        assert contents(fork.archival.search("badgers")) == ["about badgers"]
        assert contents(main.archival.search("otters")) == ["about otters"]
        assert contents(main.archival.search("badgers")) == []


class TestReadAndWrite:
    def test_write_and_read_cover_all_layers(self, main):
        written = main.write(
            core={"a": "1", "b": {"value": "2", "importance": 5, "ttl": 3600}},
            recall=["plain", {"type": "metric", "content": "0.93"}],
            archival=["text", {"text": "tagged", "tags": ["t"]}],
        )
        read = main.read()
        assert read["core"] == {"a": "1", "b": "2"}
        told = [(each["id"], each["type"], each["content"]) for each in read["recall"]]
        assert told == [(written.recall[0], "note", "plain"), (written.recall[1], "metric", "0.93")]
        kept = [(each["id"], each["content"], each["tags"]) for each in read["archival"]]
        assert kept == [(written.archival[0], "text", []), (written.archival[1], "tagged", ["t"])]
        for scope in read:
            assert main.read(scope) == {scope: read[scope]}
        with pytest.raises(InvalidInput, match="scope"):
            main.read("everything")

    def test_an_invalid_write_stores_nothing(self, main):
        for name, values in {
            "core": (["k"], {"k": {"importance": 1}}, {"k": {"value": "v", "colour": "red"}}, {"k": 5}),
            "recall": (5, [5], {"kind": "k"}, {"knd": "k", "content": "x"}),
            "archival": ({"content": "x", "tag": ["t"]}, [None], {"tags": ["t"]}),
        }.items():
            for wrong in values:
                with pytest.raises(InvalidInput):
                    main.write(**{"core": {"good": "v"}, "recall": ["good"], "archival": ["good"], name: wrong})
        assert main.read() == {"core": {}, "recall": [], "archival": []}

    def test_keys_written_together_do_not_evict_each_other(self, memory):
        layers = LayeredMemory(memory, "main", settings=LayersConfig(core_max_chars=20))
        layers.core.set("old", "x" * 10, importance=5)
        layers.write(core={"a": {"value": "1", "importance": 1}, "b": "y" * 9})
        assert layers.core.get() == {"a": "1", "b": "y" * 9}


def test_tree_is_the_same_from_every_branch(main):
    assert str(main.tree()) == "main"
    one = main.fork("one")
    two = main.fork("two")
    one.fork("one a")
    one.fork("one b")
    assert str(two.tree()) == str(main.tree()) == "main\n  one\n    one a\n    one b\n  two"
    one, two = main.tree().children
    assert main.tree().created_at <= one.created_at < two.created_at


def test_diff_reports_added_and_changed_items_per_branch(main):
    record_id = main.archival.write("record")
    main.core.set("both", "v")
    main.core.set("gone", "v")
    fork = main.fork("fork")
    main.core.set("mine", "v")
    fork.core.set("both", "w")
    fork.core.delete("gone")
    event_id = fork.recall.append("k", "event")
    fork.archival.update(record_id, tags=["t"])
    found = main.diff("fork")
    assert found.core.mine == {"gone": "v", "mine": "v"}
    assert found.core.theirs == {}
    assert {key: (each.mine, each.theirs) for key, each in found.core.changed.items()} == {"both": ("v", "w")}
    assert found.recall.theirs == {event_id: "event"}
    assert list(found.archival.changed) == [record_id]
    assert fork.diff(main).recall.mine == {event_id: "event"}
