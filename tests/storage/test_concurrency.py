"""Many threads, tasks and processes on one database lose nothing, and nobody hears that it is locked."""

import threading
from concurrent.futures import ThreadPoolExecutor

from langchain_agentmem import AgentMemory
from langchain_agentmem.conversations import message_log
from langchain_agentmem.storage import query

AT = message_log.Address("", "c")


def entry(key, body=b'{"content":"x","role":"user"}', **more):
    return message_log.LogEntry(key, body, "x", created_at=1, role="user", **more)


class TestReaders:
    def test_a_reader_does_not_wait_for_a_writer_and_sees_the_state_before(self, url):
        with AgentMemory(url) as memory:
            chat = memory.conversation("c")
            chat.add(role="user", content="old")
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield from message_log.append(AT, [entry("new")], now=1, tail=64)
                inside.set()
                assert go_on.wait(120)

            writer = threading.Thread(target=lambda: memory.database.engine.write(slow))
            writer.start()
            try:
                assert inside.wait(120)
                assert len(chat) == 1
                assert [m["content"] for m in chat.retrieve_all()] == ["old"]
                assert len(memory.search("old x")) == 1
                assert memory.admin.stats()["messages"] == 1
            finally:
                go_on.set()
                writer.join()
            assert len(chat) == 2

    def test_a_read_is_one_snapshot(self, url):
        with AgentMemory(url) as memory:
            chat = memory.conversation("c")
            chat.add(role="user", content="old")

            def twice():
                before = yield query.statistics()
                chat.add(role="user", content="new")
                after = yield query.statistics()
                return before[0]["messages"], after[0]["messages"]

            assert memory.database.engine.read(twice) == (1, 1)
            assert len(chat) == 2


class TestWriters:
    def test_several_memories_on_one_database_wait_for_each_other_and_lose_nothing(self, url):
        def write(name):
            with AgentMemory(url) as memory:
                started.wait()
                for number in range(25):
                    memory.conversation("c").add(role="user", content=f"{name} {number}", name=name)
                    memory.store.put(("notes",), f"{name} {number}", {"by": name})

        with AgentMemory(url) as memory, ThreadPoolExecutor(4) as threads:
            started = threading.Barrier(4)
            list(threads.map(write, "abcd"))
            said = [message.content for message in memory.conversation("c").messages]
            stored = [item.key for item in memory.store.search(("notes",), limit=200)]
        everything = sorted(f"{name} {number}" for name in "abcd" for number in range(25))
        assert (sorted(said), sorted(stored)) == (everything, everything)
        assert [text for text in said if text.startswith("a")] == [f"a {number}" for number in range(25)]
