"""Detection and erasure of damaged memory, and transfer of memory between databases."""

import itertools
from dataclasses import replace

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from tests.rewinding.adapters import Real
from tests.rewinding.oracle import World, followed
from tests.rewinding.test_care import MEMORIES, NS, WORDS, State, at, counted, say, traces, write_distinctive_words
from tests.rewinding.worlds import random_script
from tests.support.graphs import line
from tests.support.plans import sampled_columns

DAMAGE = {
    "update branch set head = 0 where name = 'root'": "ends at 0, but a version begins",
    "update checkpoint_position set position = 99": "but a checkpoint is at 99",
    "update branch set parent_position = 99 where name = 'fork'": "but a branch begins at 99",
    "update branch_base set base_position = 99": "but a subgraph begins at 99",
    "update sealed_group set position = 99": "but a group was sealed at 99",
    "update memory set until = 99 where until < 99": "but a version ends at 99",
    "update branch set parent_id = id, parent_position = 0 where name = 'root'": "begins on a branch that is not older",
    "update branch set parent_position = null where name = 'deep'": "or at an incomplete place",
    "update memory set until = 4611686018427387904 where kind = 'core'": "is visible next to a newer version",
    "update memory set content_id = null where kind = 'event'": "lacks a place or a body",
    "update memory set position = null where kind = 'event'": "lacks a place or a body",
    "delete from sealed_group": "where its group was not sealed",
    "update memory set document_id = null where kind = 'event'": "of the search index has no owner",
    "update memory set document_id = 7 where kind = 'record'": "is not in the index",
    "update memory set extra = '{' where kind = 'record'": "cannot be read",
    "update memory set extra = '{\"told\":[7]}' where kind = 'record'": "the extra data of memory",
    "update finished_task set groups = '[true]'": "had written cannot be read",
    "update branch_base set groups = '[[1]]'": "had written cannot be read",
    "update finished_task set groups = '[9223372036854775808]'": "had written cannot be read",
    "update branch_base set groups = '[[1,-9223372036854775809]]'": "had written cannot be read",
    "update memory set branch_id = null, position = null, group_id = 5 where kind = 'core'": "refers to group 5",
}
"""SQL that damages a database, and the problem that `verify` reports."""


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_reports_damage_and_erase_removes_it(filled, raw, damage):
    raw(filled, damage)
    problems = " | ".join(filled.admin.verify().problems)
    assert DAMAGE[damage] in problems, problems
    if "document_id = 7" not in damage:
        filled.erase(namespace=())
        assert counted(filled) | {"contents": 0} == dict.fromkeys(MEMORIES, 0)


class TestErasure:
    def test_postgres_statistics_contain_no_memory(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            write_distinctive_words(memory)
            sampled = sampled_columns(memory, raw)
        tables = {"memory", "memory_group", "sealed_group", "finished_task", "checkpoint_position", "branch_base"}
        ours = {each for each in sampled if each.partition(".")[0] in tables | {"branch"}}
        assert ours <= {"branch.kind", "memory.kind", "memory_group.ended"}

    def test_erasing_a_thread_leaves_no_bytes(self, url):
        with AgentMemory(url) as memory:
            say(memory, WORDS["value"], WORDS["thread"])
            say(memory, f"ask {WORDS['event']}", WORDS["thread"])
            memory.conversation(WORDS["thread"]).add_user_message(WORDS["record"])
            say(memory, "something else", "other")
            assert len(traces(memory, url)) == 4
            report = memory.erase(thread_id=WORDS["thread"])
            assert (report.threads, report.conversations, report.branches) == (1, 1, 0)
            assert report.memories > 4
            assert traces(memory, url) == []
            assert memory.admin.verify().problems == ()


@pytest.fixture
def moved(memory, another, tmp_path):
    """Return a function that transfers a memory to the other database and returns the report."""

    def move():
        written = memory.export(tmp_path / "all.jsonl")
        another.import_(tmp_path / "all.jsonl")
        assert another.admin.verify().problems == ()
        return written

    return move


class TestTransfer:
    def test_imported_memory_keeps_search_results_and_expiry(self, filled, another, clock, exported):
        another.import_(exported)
        for asked in ("quinces", "medlars", "somebody said three", "moved", "please do one", "thing"):
            mine, theirs = (
                {
                    (each.kind, each.id, each.text, each.conversation_id, each.namespace)
                    for each in memory.search(asked, everything=True)
                }
                for memory in (filled, another)
            )
            assert mine == theirs != set()
        assert another.layers("deep", NS).core.get("soon") == {"soon": "gone"}
        clock.pass_time(hours=2)
        assert another.layers("deep", NS).core.get("soon") == {}

    def test_a_restored_checkpoint_ignores_later_memory(self, memory, another, moved):
        def tell(where, said, **more):
            def node(state, config):
                where.layers(config).core.set(*state["said"][-1].split("="))

            line(where.checkpointer, node, state=State).invoke({"said": [said]}, at(**more))

        for said in ("k=1", "k=2"):
            tell(memory, said)
        early = list(memory.checkpointer.list(at()))[3].config
        moved()
        another.checkpointer.prune(["t"])
        moved()
        assert another.layers(early).core.get() == {"k": "1"}
        tell(another, "j=1", checkpoint_id=early["configurable"]["checkpoint_id"], checkpoint_ns="")
        assert another.layers(at()).core.get() == {"k": "1", "j": "1"}

    def test_imported_forks_ignore_clock_differences(self, memory, another, clock, moved):
        root = memory.layers("root")
        root.core.set("name", "Ana")
        clock.pass_time(hours=-1)
        root.fork("fork").core.set("name", "Bea")
        moved()
        assert another.layers("fork").core.get() == {"name": "Bea"}
        assert another.layers("root").core.get() == {"name": "Ana"}

    def test_import_rejects_a_fork_of_a_changed_parent(self, memory, another, moved):
        root = memory.layers("root")
        root.core.set("name", "Ana")
        moved()
        another.layers("root").core.set("name", "Bea")
        root.fork("fork")
        with pytest.raises(InvalidInput, match="has newer entries here"):
            moved()
        assert another.admin.stats()["branches"] == 1

    def test_import_keeps_text_and_order_across_pages(self, memory, another, moved):
        layers = memory.layers("x", settings=LayersConfig(recall_max_events=1_000))
        for text in ("half of one \ud83d", "\ude00 the other", "NUL \0, line \u2028 \x85", " "):
            layers.archival.write(text, tags=["tag ünïcode"])
        layers.write(recall=[f"event {n} \ud83d \0" for n in range(450)])
        fork = layers.fork("y")
        layers.write(recall=[f"later {n}" for n in range(250)])
        fork.write(recall=[f"on the fork {n}" for n in range(3)], core={"k": "v"})
        assert moved().memories == 708
        for name in ("x", "y"):
            assert another.layers(name).read() == memory.layers(name).read()

    @pytest.mark.parametrize(
        "damage",
        [
            "update memory set extra = '{' where kind = 'record'",
            "update finished_task set groups = '[true]'",
            "update branch_base set groups = '[[1]]'",
            "update memory set content_id = (select min(id) from content) where kind = 'event'",
        ],
    )
    def test_export_rejects_damaged_memory(self, filled, raw, tmp_path, damage):
        if "content" in damage:
            raw(filled, "update content set body = :body where id = (select min(id) from content)", body=b"{}")
        raw(filled, damage)
        with pytest.raises(DatabaseUnreadable, match="verify"):
            filled.export(tmp_path / "all.jsonl")
        assert not (tmp_path / "all.jsonl").exists()


class MovingMemory(Real):
    """A memory that is transferred to a database of the other engine at each reopening."""

    def __init__(self, urls, folder):
        super().__init__(next(urls))
        self.urls, self.path, self.moved = urls, folder / "all.jsonl", 0

    def reopen(self):
        assert self.memory.admin.verify().problems == ()
        written = self.memory.export(self.path)
        self.memory.close()
        self.url = next(self.urls)
        self.memory = AgentMemory(self.url)
        read = self.memory.import_(self.path)
        assert replace(read, memories=0) == replace(written, memories=0)
        assert read.memories <= written.memories, "what only copies were made of stays behind"
        again = self.memory.import_(self.path)
        assert (again.memories, again.branches, again.checkpoints) == (0, 0, 0)
        assert self.memory.admin.verify().problems == ()
        self.moved += written.memories


def with_moves(script):
    """Return a script that reopens its database after every third action and at the end."""
    reopen = {"do": "reopen", "thread": "graph 1", "awaited": False}
    actions = [[each, reopen] if number % 3 == 2 else [each] for number, each in enumerate(script["actions"])]
    return {"actions": [*itertools.chain(*actions), reopen]}


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("seed", range(12))
def test_memory_equals_graph_state_after_each_transfer(seed, new_database, tmp_path):
    urls = (new_database(kind) for kind in itertools.cycle(["sqlite", "postgres"]))
    world = followed(with_moves(random_script(seed)), lambda: World(MovingMemory(urls, tmp_path)))
    assert world.differences == []
