"""Readers do not wait for writers, and each read is one snapshot."""

import threading
from functools import partial

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import query
from tests.storage.sessions import HeldOperation, add_texts, appending, entry, texts_of
from tests.support.waiting import all_at_once


class TestReaders:
    def test_reader_sees_previous_state_without_waiting(self, url):
        with AgentMemory(url) as memory:
            add_texts(memory, "old")
            held = HeldOperation(appending(entry("new")))
            writer = threading.Thread(target=lambda: memory.database.engine.write(held))
            writer.start()
            try:
                assert held.inside.wait(120)
                assert texts_of(memory) == ["old"]
                assert len(memory.search("old x")) == 1
                assert memory.admin.stats()["messages"] == 1
            finally:
                held.go_on.set()
                writer.join()
            assert len(texts_of(memory)) == 2

    def test_a_read_is_one_snapshot(self, url):
        with AgentMemory(url) as memory:
            add_texts(memory, "old")

            def twice(tx):
                before = query.statistics(tx)
                add_texts(memory, "new")
                after = query.statistics(tx)
                return before[0]["messages"], after[0]["messages"]

            assert memory.database.engine.read(twice) == (1, 1)
            assert len(texts_of(memory)) == 2


class TestWriters:
    def test_several_memories_on_one_database_lose_nothing(self, url):
        def write(name):
            with AgentMemory(url) as memory:
                for number in range(25):
                    add_texts(memory, f"{name} {number}")
                    memory.store.put(("notes",), f"{name} {number}", {"by": name})

        with AgentMemory(url) as memory:
            all_at_once([partial(write, name) for name in "abcd"])
            texts = texts_of(memory)
            stored = [item.key for item in memory.store.search(("notes",), limit=200)]
        everything = sorted(f"{name} {number}" for name in "abcd" for number in range(25))
        assert (sorted(texts), sorted(stored)) == (everything, everything)
        assert [text for text in texts if text.startswith("a")] == [f"a {number}" for number in range(25)]

    def test_concurrent_clears_and_writes_stay_consistent(self, url):
        said = [HumanMessage("one"), HumanMessage("two"), HumanMessage("three")]

        def work(number):
            chat = memory.conversation("c", ("tenant",))
            do = (chat.clear, chat.reset_memory, *2 * [partial(chat.add_messages, said)])[number]
            for _ in range(10):
                do()

        with AgentMemory(url) as memory:
            all_at_once([partial(work, number) for number in range(4)])
            left = [message.content for message in memory.conversation("c", ("tenant",)).messages]
            assert left == ["one", "two", "three"] * (len(left) // 3)
            assert memory.admin.verify().ok
