"""Memory of deleted, erased and pruned threads of a scope."""

import asyncio
from functools import partial

import pytest

from langchain_agentmem import AgentMemory, Message
from tests.support import graphs as support

ADA = ("users", "ada")
DELETIONS = {
    "delete_thread": lambda saver, thread: saver.delete_thread(thread),
    "adelete_thread": lambda saver, thread: asyncio.run(saver.adelete_thread(thread)),
    "prune": lambda saver, thread: saver.prune([thread], strategy="delete"),
    "aprune": lambda saver, thread: asyncio.run(saver.aprune([thread], strategy="delete")),
}


at = partial(support.at, user_id="ada")


def run(memory, work, thread="t", **more):
    """Run `work` in a node of a thread of Ada's, with its layers and facts."""

    def node(state, config):
        work(memory.layers(config), memory.facts(config))

    graph = support.line(memory.checkpointer, node, state=support.Log)
    graph.invoke({"log": ["one"]}, at(thread, **more), durability="sync")


def keep(memory, key, value, thread="t", **more):
    run(memory, lambda layers, facts: layers.core.set(key, value), thread, **more)


def seen(memory, *threads):
    """Return the memory of Ada that threads, or main, show."""
    found = []
    for view in [(at(thread),) for thread in threads] or [("main", ADA)]:
        layers, facts = memory.layers(*view), memory.facts(*view)
        found.append(
            (
                layers.core.get(),
                sorted(each.content for each in layers.recall.recent(limit=None)),
                sorted(each.content for each in layers.archival.all()),
                sorted((each.subject, each.object) for each in facts.as_of()),
            )
        )
    return found


@pytest.fixture
def memory(url):
    with AgentMemory(url, namespace=("users", "{user_id}")) as memory:
        yield memory
        assert memory.admin.verify().problems == ()


def fill_threads(memory):
    """Write main, a thread that changes and deletes main's memory, and another thread."""
    main = memory.layers("main", ADA)
    main.write(core={"home": "Turin", "pet": "cat", "name": "Ada"})

    def first(layers, facts):
        layers.core.set("home", "Lisbon")
        layers.core.delete("pet")
        layers.recall.append("moved", "to Lisbon")
        layers.archival.write("Ada grows quinces")
        facts.add_fact("user", "Ada", "lives in", "Lisbon", source="m1")

    run(memory, first)
    keep(memory, "name", "Ada Lovelace", "other")
    return memory


class TestDeletion:
    @pytest.mark.parametrize("way", DELETIONS)
    def test_deleting_a_thread_keeps_its_shared_memory(self, memory, way):
        fill_threads(memory)
        before = seen(memory), seen(memory, "other", "new")
        assert before[0][0][0] == {"home": "Lisbon", "name": "Ada Lovelace"}
        assert before[0][0][1:] == (["to Lisbon"], ["Ada grows quinces"], [("Ada", "Lisbon")])
        DELETIONS[way](memory.checkpointer, "t")
        assert (seen(memory), seen(memory, "other", "new")) == before
        assert memory.admin.threads(ADA, thread_id="t").total == 0

    def test_facts_from_a_deleted_threads_messages_are_kept(self, memory):
        memory.conversation("t", ADA).add(Message(role="user", content="I live in Lisbon", message_id="m1"))
        fill_threads(memory)
        memory.checkpointer.delete_thread("t")
        assert seen(memory)[0][3] == [("Ada", "Lisbon")]

    @pytest.mark.parametrize("way", DELETIONS)
    @pytest.mark.parametrize("scope", ["forgets", "none"])
    def test_forget_deletes_the_threads_memory(self, url, way, scope):
        options = {} if scope == "none" else {"namespace": ("users", "{user_id}"), "on_thread_delete": "forget"}
        with AgentMemory(url, **options) as memory:
            fill_threads(memory)
            DELETIONS[way](memory.checkpointer, "t")
            if scope == "none":
                memory.checkpointer.delete_thread("other")
                assert memory.layers("main").core.get() == {}
            else:
                assert seen(memory, "other") == seen(memory)
                assert seen(memory)[0] == ({"home": "Turin", "pet": "cat", "name": "Ada Lovelace"}, [], [], [])
            assert memory.admin.verify().problems == ()


class TestErasure:
    def test_erasing_a_thread_removes_its_shared_memory(self, memory):
        fill_threads(memory)
        memory.checkpointer.delete_thread("t")
        memory.erase(thread_id="t")
        assert seen(memory, "other") == seen(memory)
        assert seen(memory)[0] == ({"name": "Ada Lovelace"}, [], [], [])
        memory.erase(thread_id="other")
        assert seen(memory)[0][0] == {"name": "Ada"}

    def test_erasing_a_copied_thread_hides_its_values(self, memory):
        keep(memory, "home", "Turin", "a")
        memory.checkpointer.copy_thread("a", "b")
        keep(memory, "home", "Lisbon", "b")
        memory.checkpointer.copy_thread("b", "c")
        keep(memory, "pet", "cat", "c")
        memory.erase(thread_id="b")
        assert memory.layers(at("c"), scope="thread").core.get() == {"pet": "cat"}
        assert seen(memory, "c")[0][0] == {"pet": "cat"}
        assert seen(memory, "new") == seen(memory)
        assert seen(memory)[0][0] == {"home": "Turin", "pet": "cat"}
        assert "Lisbon" not in {each.text for each in memory.search("Lisbon", namespace=ADA)}

    def test_erasing_by_id_includes_deleted_predecessors(self, memory):
        keep(memory, "home", "Turin")
        memory.checkpointer.delete_thread("t")
        keep(memory, "pet", "cat")
        assert memory.layers(at()).core.get() == {"home": "Turin", "pet": "cat"}
        assert memory.layers(at(), scope="thread").core.get() == {"pet": "cat"}
        memory.erase(thread_id="t")
        assert seen(memory)[0][0] == {}
        assert memory.admin.stats()["memories"] == 0


def test_pruning_does_not_change_visible_memory(memory):
    fill_threads(memory)
    for number in range(3):
        keep(memory, "home", f"home {number}")
    before = seen(memory), seen(memory, "t", "other", "new")
    memory.checkpointer.prune(["t", "other"])
    assert len(list(memory.checkpointer.list(at()))) == 1
    assert (seen(memory), seen(memory, "t", "other", "new")) == before
    memory.admin.prune(namespace=ADA, keep_checkpoints=1)
    assert (seen(memory), seen(memory, "t", "other", "new")) == before
    run(memory, lambda layers, facts: layers.core.delete("home"))
    assert "home" not in seen(memory, "other")[0][0]
    memory.checkpointer.prune(["t"])
    assert "home" not in seen(memory, "other")[0][0]
