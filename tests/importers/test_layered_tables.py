"""Core, recall and archival memory are imported by branch; forks keep their view."""

import pytest

from langchain_agentmem import InvalidInput

from .sources import AI_SCIENTIST, MEMGPT, ai_scientist, database, memgpt

pytestmark = pytest.mark.sqlite_suffices


def changed(tmp_path, script):
    return database(tmp_path / "changed.db", MEMGPT + script)


def texts(events):
    return [each.content for each in events]


class TestBranches:
    def test_root_becomes_main_with_importance_and_times(self, memory, tmp_path):
        memory.import_from("memgpt", memgpt(tmp_path), namespace=("lab",))
        main = memory.layers(namespace=("lab",))
        name, goal = sorted(main.core.entries(), key=lambda each: -each.importance)
        assert (name.key, name.value, name.importance, name.created_at.timestamp()) == ("name", "Ada", 5, 1000)
        assert goal.value == "find herons"
        assert texts(main.recall.recent(None)) == ["Where are herons?", "Where are herons?", "Where are they now?"]
        record = main.archival.get("a-1")
        assert (record.tags, record.created_at.timestamp()) == (("bird", "fish"), 1500)

    def test_fork_sees_the_state_at_its_creation(self, memory, tmp_path):
        memory.import_from("memgpt", memgpt(tmp_path))
        child = memory.layers("child")
        assert child.core.get() == {"name": "Ada", "plan": "look at the pond"}
        assert memory.layers().core.get() == {"name": "Ada", "goal": "find herons"}
        assert texts(child.recall.recent(None)) == ["Where are herons?", "Where are herons?", "A heron at the pond."]
        assert {each.id for each in child.archival.all()} == {"a-1", "a-2"}
        assert [(each.name, each.parent) for each in memory.admin.branches()] == [("main", None), ("child", "main")]

    def test_local_values_are_kept_and_new_ones_added(self, memory, tmp_path):
        memory.layers().core.set("name", "Grace")
        memory.import_from("memgpt", memgpt(tmp_path))
        assert memory.layers().core.get("name") == {"name": "Grace"}
        more = (
            "insert into recall_memory (branch_id, event_type, content, timestamp) values ('c', 'found', 'Two!', 5000);"
        )
        assert memory.import_from("memgpt", changed(tmp_path, more)).added == {"memories": 1}
        assert texts(memory.layers("child").recall.recent(1)) == ["Two!"]

    def test_empty_timestamps_are_tolerated(self, memory, tmp_path):
        script = "update branches set created_at = null; update core_memory set created_at = null, updated_at = null;"
        report = memory.import_from("memgpt", changed(tmp_path, script))
        assert memory.layers("child").core.get()["name"] == "Ada"
        assert not report.known
        assert memory.admin.verify().ok

    def test_cyclic_branches_and_orphan_rows_are_skipped(self, memory, tmp_path):
        script = """
            insert into branches values ('x', 'y', 'x', 1), ('y', 'x', 'y', 1), ('o', null, 'other', 1);
            insert into archival_memory values ('a-9', 'nowhere', 'Lost.', null, 1);
        """
        report = memory.import_from("memgpt", changed(tmp_path, script))
        assert {each.name for each in memory.admin.branches()} >= {"root", "child", "other"}  # each root keeps its name
        whys = {each.why for each in report.left_out}
        assert whys == {"it has expired.", "its ancestors form a cycle.", "the branch 'nowhere' does not exist."}

    def test_ttl_is_seconds_or_a_timestamp(self, memory, clock, tmp_path):
        at = int(clock.now.timestamp())
        script = f"""
            insert into core_memory (branch_id, key, value, ttl, created_at, updated_at) values
                ('r', 'soon', 'x', 3600, {at}, {at}), ('r', 'then', 'x', {at + 7200}, {at}, {at});
        """
        memory.import_from("memgpt", changed(tmp_path, script))
        ends = {each.key: each.expires_at for each in memory.layers().core.entries()}
        assert (ends["then"] - ends["soon"]).total_seconds() == 3600


class TestAiScientistLayout:
    def test_fork_inherits_parent_values_and_overrides_them(self, memory, tmp_path):
        memory.import_from("memgpt", ai_scientist(tmp_path))
        assert memory.layers().core.get() == {"name": "Ada"}
        [child] = [each.name for each in memory.admin.branches() if each.parent]
        layers = memory.layers(child)
        assert layers.core.get() == {"name": "Ada L."}
        assert (texts(layers.recall.recent()), layers.archival.all()[0].tags) == (["Where are herons?"], ("bird",))

    def test_another_database_is_rejected(self, memory, tmp_path):
        path = database(tmp_path / "x.db", AI_SCIENTIST + "drop table events;")
        with pytest.raises(InvalidInput, match="no tables of core, recall and archival memory"):
            memory.import_from("memgpt", path)
