"""Many threads, tasks and processes on one database lose nothing, and nobody hears that it is locked."""

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.storage import query
from langchain_agentmem.storage.queries import load

AT = message_log.Address("", "c")
EACH = 12

WRITER = """
    import sys
    from langchain_agentmem import AgentMemory

    with AgentMemory(sys.argv[1]) as memory:
        chat = memory.conversation("c")
        print("ready", flush=True)
        sys.stdin.readline()
        for i in range(int(sys.argv[3])):
            chat.add(role="user", content=f"{sys.argv[2]} {i}", name=sys.argv[2])
"""


def entry(key, body=b'{"content":"x","role":"user"}', **more):
    return message_log.LogEntry(key, body, "x", created_at=1, role="user", **more)


def append(memory, at, *entries):
    return memory.database.engine.write(lambda: message_log.append(at, list(entries), now=1, tail=memory.database.tail))


def in_threads(function, arguments):
    """Calls a function once for each argument, each in a thread of its own, and raises what they raise."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        list(threads.map(function, arguments))


def writing_process(url, name):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), url, name, str(EACH * 3)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


class TestManyWriters:
    @pytest.mark.slow
    async def test_threads_tasks_and_processes_append_to_one_conversation(self, url):
        with AgentMemory(url) as memory:
            chat = memory.conversation("c")
            processes = [writing_process(url, f"process{n}") for n in range(2)]

            def write(writer):
                for i in range(EACH):
                    chat.add(role="user", content=f"{writer} {i}", name=writer)

            async def awrite(writer):
                for i in range(EACH):
                    await chat.aadd_messages([HumanMessage(f"{writer} {i}", name=writer)])

            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
            await asyncio.gather(
                asyncio.to_thread(in_threads, write, [f"thread{n}" for n in range(16)]),
                *(awrite(f"task{n}") for n in range(16)),
            )
            for process in processes:
                await asyncio.to_thread(process.communicate)
            assert [process.returncode for process in processes] == [0, 0]

            said = defaultdict(list)
            for message in chat.messages:
                said[message.name].append(message.content)
            counts = {f"thread{n}": EACH for n in range(16)} | {f"task{n}": EACH for n in range(16)}
            counts |= {f"process{n}": EACH * 3 for n in range(2)}
            assert said == {name: [f"{name} {i}" for i in range(count)] for name, count in counts.items()}
            assert len({message.id for message in chat.messages}) == sum(counts.values())
            assert memory.admin.verify().problems == ()
            assert len(memory.search("process1 0 1 2", limit=1000)) > 0

    @pytest.mark.slow
    def test_the_same_content_stored_by_many_at_once_is_stored_once(self, url):
        texts = [f"shared text {n}" for n in range(30)]
        with AgentMemory(url) as memory:

            def write(n):
                chat = memory.conversation(f"c{n}")
                order = texts if n % 2 else texts[::-1]
                for start in range(0, 30, 10):
                    chat.add_messages([HumanMessage(text) for text in order[start : start + 10]])
                for message in chat.messages[::3]:
                    chat.remove_by_id(message.id)
                if n % 4 == 0:
                    chat.clear()

            in_threads(write, range(12))
            assert memory.admin.verify().problems == ()
            assert memory.admin.stats()["contents"] == 30
            assert memory.admin.stats()["messages"] == 9 * 20

    def test_writers_and_those_who_delete_everything_do_not_disturb_each_other(self, url):
        with AgentMemory(url) as memory:

            def work(n):
                for i in range(15):
                    chat = memory.conversation(f"c{i % 2}", ("tenant",))
                    if n == 0:
                        chat.clear()
                    elif n == 1:
                        chat.reset_memory()
                    else:
                        chat.add_messages([HumanMessage("one"), HumanMessage("two"), HumanMessage(f"{n} {i}")])

            in_threads(work, range(8))
            assert memory.admin.verify().problems == ()
            for n in range(2):
                said = [m.content for m in memory.conversation(f"c{n}", ("tenant",)).messages]
                assert len(said) % 3 == 0
                assert all(said[i : i + 2] == ["one", "two"] for i in range(0, len(said), 3))


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

    def test_a_reading_operation_cannot_write_on_postgres(self, new_database):
        from langchain_agentmem.errors import DatabaseReadOnly

        with AgentMemory(new_database("postgres")) as memory, pytest.raises(DatabaseReadOnly):
            memory.database.engine.read(lambda: message_log.append(AT, [entry("m")], now=1, tail=0))


class TestCompareAndSet:
    def test_an_append_whose_head_moved_is_run_again(self, new_database):
        """Without the lock that makes writers queue, the compare-and-set alone must hold."""
        with AgentMemory(new_database("postgres")) as memory:
            engine = memory.database.engine
            append(memory, AT, entry("first"))
            attempts, once = [], threading.Event()

            def racing():
                attempts.append("begun")
                steps = message_log.append(AT, [entry("mine")], now=1, tail=0)
                statement = next(steps)
                while True:
                    if statement.query == "move_head" and not once.is_set():
                        once.set()
                        append(memory, AT, entry("theirs"))
                    try:
                        rows = yield statement
                        statement = steps.send(rows)
                    except StopIteration as done:
                        return done.value
                    except BranchMoved:
                        attempts.append("moved")
                        raise

            engine._sql = dict(engine._sql) | {"lock_branch": engine._sql["find_branch"]}
            assert engine.write(racing).keys == ["mine"]
            assert attempts == ["begun", "moved", "begun"]
            keys = [row.key for row in engine.read(lambda: message_log.messages(AT))]
            assert keys == ["first", "theirs", "mine"]
            assert memory.admin.verify().problems == ()

    def test_without_the_lock_no_append_is_lost_either(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            engine = memory.database.engine
            engine._sql = dict(engine._sql) | {"lock_branch": engine._sql["find_branch"]}

            def write(n):
                for i in range(5):
                    append(memory, AT, entry(f"{n}-{i}"))

            in_threads(write, range(6))
            assert len(engine.read(lambda: message_log.messages(AT))) == 30
            assert memory.admin.verify().problems == ()

    def test_writers_of_one_conversation_queue_instead_of_losing(self, new_database):
        assert "for update" in load("postgres")["lock_branch"]
        with AgentMemory(new_database("postgres")) as memory:
            append(memory, AT, entry("first"))
            engine, attempts = memory.database.engine, []
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield query.lock_branch(path="", kind=message_log.CONVERSATION, name="c")
                inside.set()
                assert go_on.wait(120)
                return (yield from message_log.append(AT, [entry("slow")], now=1, tail=0))

            def quick():
                attempts.append("begun")
                return message_log.append(AT, [entry("quick")], now=1, tail=0)

            threads = [threading.Thread(target=engine.write, args=(slow,))]
            threads[0].start()
            assert inside.wait(120)
            threads.append(threading.Thread(target=engine.write, args=(quick,)))
            threads[1].start()
            while not attempts:
                time.sleep(0.01)
            go_on.set()
            for thread in threads:
                thread.join()
            assert attempts == ["begun"]
            assert [row.key for row in engine.read(lambda: message_log.messages(AT))] == ["first", "slow", "quick"]


class TestSharedContent:
    @pytest.mark.parametrize("where", ["body", "attachments"])
    def test_content_that_is_collected_between_being_found_and_being_named_is_stored_again(self, new_database, where):
        """One writer finds the content there; another drops the last reference before the first can name it."""
        with AgentMemory(new_database("postgres")) as memory:
            engine, other = memory.database.engine, message_log.Address("", "other")
            shared = b'{"content":"shared","role":"user"}' if where == "body" else b"[]"
            given = {"body": shared} if where == "body" else {"attachments": shared}
            append(memory, other, entry("last reference", **given))
            append(memory, AT, entry("first"))
            once = threading.Event()

            def racing():
                steps = message_log.append(AT, [entry("mine", **given)], now=1, tail=0)
                statement = next(steps)
                while True:
                    if statement.query == "insert_entry" and not once.is_set():
                        once.set()
                        engine.write(lambda: message_log.remove(other, ["last reference"]))
                    try:
                        statement = steps.send((yield statement))
                    except StopIteration as done:
                        return done.value

            assert engine.write(racing).keys == ["mine"]
            stored = engine.read(lambda: message_log.get(AT, "mine"))
            assert bytes(stored.body if where == "body" else stored.attachments) == shared
            assert memory.admin.verify().problems == ()


class TestSharedNamespaces:
    def test_deleting_a_namespaces_last_conversation_spares_the_one_that_is_just_beginning(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            engine, leaving, coming = (
                memory.database.engine,
                message_log.Address("t\x1f", "old"),
                message_log.Address("t\x1f", "new"),
            )
            append(memory, leaving, entry("m"))
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield from message_log.append(coming, [entry("kept")], now=1, tail=0)
                inside.set()
                assert go_on.wait(120)

            writer = threading.Thread(target=engine.write, args=(slow,))
            writer.start()
            assert inside.wait(120)
            clearer = threading.Thread(
                target=engine.write, args=(lambda: message_log.clear(leaving, keep_description=False),)
            )
            clearer.start()
            threading.Event().wait(0.2)
            go_on.set()
            writer.join()
            clearer.join()
            assert [row.key for row in engine.read(lambda: message_log.messages(coming))] == ["kept"]
            assert engine.read(lambda: message_log.messages(leaving)) == []
            assert memory.admin.verify().problems == ()

    def test_two_who_drop_the_last_two_references_at_once_leave_no_orphan(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            engine, one, two = memory.database.engine, message_log.Address("", "one"), message_log.Address("", "two")
            append(memory, one, entry("m"))
            append(memory, two, entry("m"))
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield from message_log.remove(one, ["m"])
                inside.set()
                assert go_on.wait(120)

            threads = [threading.Thread(target=engine.write, args=(slow,))]
            threads[0].start()
            assert inside.wait(120)
            threads.append(threading.Thread(target=engine.write, args=(lambda: message_log.remove(two, ["m"]),)))
            threads[1].start()
            threading.Event().wait(0.2)
            go_on.set()
            for thread in threads:
                thread.join()
            assert memory.admin.stats()["contents"] == 0
            assert memory.admin.verify().problems == ()
