"""Deletion of a running thread: it stays deleted and never sees the memory of others."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage

from langchain_agentmem import AgentMemory, CompactionState
from langchain_agentmem.errors import StepIsOver
from langchain_agentmem.rewinding import thread_memory
from tests.support import graphs as support
from tests.support.graphs import line

ADA, BOB = ("users", "ada"), ("users", "bob")


def at(thread, namespace):
    return support.at(thread, namespace=namespace)


def graph(memory, node):
    return line(memory.checkpointer, node)


def replied(state):
    return {"messages": [AIMessage("reply")]}


def elsewhere(url):
    """Erase through another AgentMemory, as another process would."""
    with AgentMemory(url) as other:
        other.erase(namespace=ADA)


def deleted(memory, url, how):
    ada = memory.within(ADA)
    ways = {
        "by another process": lambda: elsewhere(url),
        "deleted": lambda: ada.checkpointer.delete_thread("t"),
        "pruned": lambda: ada.checkpointer.prune(["t"], strategy="delete"),
        "erased": lambda: memory.erase(namespace=ADA),
    }
    ways[how]()


WAYS = ("by another process", "deleted", "pruned", "erased")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_compaction_does_not_record_a_deleted_thread(memory, durability):
    def ada(state):
        memory.within(ADA).checkpointer.delete_thread("t")

    running = line(memory.checkpointer, ada, ("compact", memory.compaction()), state=CompactionState)
    graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))
    running.invoke({"messages": [("user", "forget me")]}, at("t", ADA), durability=durability)
    assert memory.conversations(namespace=ADA) == memory.search("hello", namespace=ADA) == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("how", WAYS)
class TestDeletionDuringRun:
    @pytest.mark.slow
    def test_a_deleted_threads_run_sees_no_new_memory(self, url, how, durability):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))
            seen = []

            def bob(state):
                memory.layers().core.set("pin", "bob's")
                return replied(state)

            def ada(state):
                def others():
                    deleted(memory, url, how)
                    graph(memory, bob).invoke({"messages": [("user", "hi")]}, at("b", BOB))

                thread = threading.Thread(target=others)
                thread.start()
                thread.join()
                seen.append(memory.layers().core.get())
                return {"messages": [AIMessage("late")]}

            graph(memory, ada).invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            seen.append(memory.layers(at("t", ADA)).core.get())
            assert seen == [{}, {}]
            assert memory.layers(at("b", BOB)).core.get() == {"pin": "bob's"}
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_a_deleted_threads_id_can_be_reused(self, url, how, durability, raw):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))

            def ada(state):
                deleted(memory, url, how)
                return {"messages": [AIMessage("late")]}

            running = graph(memory, ada)
            found = running.invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            assert [message.text for message in found["messages"]] == ["hello", "reply", "again", "late"]
            assert running.get_state(at("t", ADA)).values == {}
            assert len(memory.conversation("t", ADA).messages) == 0
            for table in ("thread", "checkpoint", "pending_write"):
                assert raw(memory, f"select 1 from {table}") == [], table
            found = graph(memory, replied).invoke({"messages": [("user", "hi")]}, at("t", ADA), durability=durability)
            assert [message.text for message in found["messages"]] == ["hi", "reply"]
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_a_deleted_threads_run_cannot_change_its_successor(self, url, how, durability):
        with AgentMemory(url) as memory:
            graph(memory, replied).invoke({"messages": [("user", "hello")]}, at("t", ADA))

            def other():
                graph(memory, replied).invoke({"messages": [("user", "hi")]}, at("t", ADA), durability=durability)

            def ada(state):
                deleted(memory, url, how)
                with pytest.raises(StepIsOver):
                    memory.layers().core.set("key", "value")
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
                with pytest.raises(StepIsOver):
                    memory.layers().core.set("key", "value")
                return {"messages": [AIMessage("late")]}

            running = graph(memory, ada)
            running.invoke({"messages": [("user", "again")]}, at("t", ADA), durability=durability)
            texts = [message.text for message in running.get_state(at("t", ADA)).values["messages"]]
            assert texts == [message.text for message in memory.conversation("t", ADA).messages] == ["hi", "reply"]
            assert memory.layers(at("t", ADA)).core.get() == {}
            assert memory.admin.verify().problems == ()


@pytest.mark.parametrize("call", [lambda saver: saver.prune(["t"]), lambda saver: saver.copy_thread("t", "u")])
def test_deletion_during_prune_or_copy_removes_the_thread(new_database, monkeypatch, call):
    find, found = thread_memory.find_thread, []

    def found_and_deleted(*args, **options):
        found.append(find(*args, **options))
        if len(found) == 1:
            pool.submit(saver.delete_thread, "t").result()
        return found[-1]

    with AgentMemory(new_database("postgres")) as memory, ThreadPoolExecutor(1) as pool:
        saver = memory.checkpointer
        graph(memory, replied).invoke({"messages": [("user", "hello")]}, {"configurable": {"thread_id": "t"}})
        monkeypatch.setattr(thread_memory, "find_thread", found_and_deleted)
        call(saver)
        assert found[0] is not None
        assert list(saver.list(None)) == []
