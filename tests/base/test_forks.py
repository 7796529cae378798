"""A process that has a memory open may fork at any time; both processes go on with it, and nothing hangs or is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.forking import ENVIRONMENT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

PATIENCE = 240

BEGIN = """
import os, select, signal, sys, threading, warnings
from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError, StorageError

warnings.simplefilter("ignore", DeprecationWarning)  # that other threads run

def in_child(function, *arguments):
    '''Call it in a child of this process, and say what it gave; the child has a minute.'''
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            answer = str(function(*arguments))
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    answer = b""
    while select.select([reading], [], [], 60)[0]:
        if not (part := os.read(reading, 10_000)):
            break
        answer += part
    else:
        os.kill(child, signal.SIGKILL)
        answer = b"it hangs"
    os.close(reading)
    os.waitpid(child, 0)
    return answer.decode()

memory = AgentMemory(sys.argv[1])
"""


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


class TestBesideWriters:
    @pytest.mark.slow
    def test_children_read_and_write_and_nothing_is_lost(self, url):
        out = run(
            """
            over, wrote = threading.Event(), [0, 0, 0]
            memory.layers("main").archival.all()  # and so loads what it needs, which no child has to

            def write(number):
                chat = memory.conversation(f"thread {number}")
                while not over.is_set():
                    chat.add(role="user", content="said by a thread")
                    wrote[number] += 1

            def child(number):
                before = len(memory.conversation("children"))
                memory.conversation("children").add(role="user", content=f"said by child {number}")
                memory.layers("main").archival.write(f"record of child {number}")
                return before

            threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
            for each in threads:
                each.start()
            print([in_child(child, n) for n in range(25)] == [str(n) for n in range(25)])
            over.set()
            for each in threads:
                each.join()
            print([len(memory.conversation(f"thread {n}")) for n in range(3)] == wrote)
            print(len(memory.layers("main").archival.all()), memory.admin.verify().ok)
            """,
            url,
        )
        assert out == ["True", "True", "25 True"]

    @pytest.mark.slow
    @pytest.mark.sqlite_suffices
    def test_a_child_has_a_copy_of_what_is_in_memory(self):
        out = run(
            """
            over = threading.Event()

            def write():
                while not over.is_set():
                    memory.conversation("other").add(role="user", content="said by a thread")

            def child():
                memory.conversation("c").add(role="user", content="said by the child")
                return len(memory.conversation("c")), memory.admin.verify().ok

            memory.conversation("c").add(role="user", content="said before")
            thread = threading.Thread(target=write)
            thread.start()
            print([in_child(child) for _ in range(20)] == ["(2, True)"] * 20)
            over.set()
            thread.join()
            print(len(memory.conversation("c")), memory.admin.verify().ok)
            """,
            ":memory:",
        )
        assert out == ["True", "1 True"]


class TestAChild:
    @pytest.mark.slow
    def test_what_it_writes_when_its_parent_has_closed_the_memory_stays(self, url):
        out = run(
            """
            memory.conversation("c").add(role="user", content="before")
            closed, told = os.pipe(), os.pipe()
            if not os.fork():
                memory.conversation("c").add(role="user", content="child, at first")
                os.write(told[1], b"x")
                os.read(closed[0], 1)
                memory.conversation("c").add(role="user", content="child, at last")
                memory.close()
                os._exit(0)
            os.read(told[0], 1)
            memory.close()
            os.write(closed[1], b"x")
            os.wait()
            with AgentMemory(sys.argv[1]) as memory:
                print([each.content for each in memory.conversation("c").messages], memory.admin.verify().ok)
            """,
            url,
        )
        assert out == ["['before', 'child, at first', 'child, at last'] True"]

    @pytest.mark.slow
    def test_it_awaits_does_jobs_and_searches_as_its_parent_does(self, url):
        out = run(
            """
            import asyncio
            from tests.word_embeddings import WordEmbeddings

            memory.close()
            memory = AgentMemory(sys.argv[1], index={"embed": WordEmbeddings(16), "dims": 16})
            asyncio.run(memory.conversation("c").aadd(role="user", content="herons nest in alders"))
            memory.settle()
            memory.search("herons")

            async def child():
                await memory.conversation("c").aadd(role="user", content="quinces ripen in October")
                await memory.asettle()
                return [each.text for each in await memory.asearch("quinces", limit=1)]

            print(in_child(lambda: asyncio.run(child())))
            memory.settle()
            print(len(memory.conversation("c")), memory.admin.verify().ok)
            """,
            url,
        )
        assert out == ["['quinces ripen in October']", "2 True"]

    @pytest.mark.slow
    def test_it_tells_nobody_twice_what_its_parent_has_measured(self, url):
        out = run(
            """
            def child():
                memory.conversation("c").add(role="user", content="in the child")
                memory.close()

            for _ in range(5):
                memory.conversation("c").add(role="user", content="in the parent")
            print(in_child(child))
            memory.close()
            with AgentMemory(sys.argv[1]) as memory:
                measured = memory.admin.stats()["operations"]
                [calls] = [each["calls"] for each in measured if each["name"] == "memory.conversation.add"]
                print(calls)
            """,
            url,
        )
        assert out == ["None", "6"]

    @pytest.mark.sqlite_suffices
    def test_it_opens_the_file_that_its_parent_had_opened_wherever_it_is(self, tmp_path):
        out = run(
            f"""
            os.chdir({str(tmp_path)!r})
            memory = AgentMemory("here.db")
            memory.conversation("c").add(role="user", content="before")
            os.mkdir("elsewhere")
            os.chdir("elsewhere")
            print(in_child(lambda: len(memory.conversation("c"))), len(memory.conversation("c")))
            print(os.listdir())
            """,
            ":memory:",
        )
        assert out == ["1 1", "[]"]


class TestInTheMidst:
    @pytest.mark.slow
    def test_a_child_that_is_forked_within_a_call_is_told_so_and_harms_nothing(self, url):
        out = run(
            """
            def refused(attempt):
                try:
                    attempt()
                except StorageError as error:
                    return "forked in the midst of a call" in str(error)

            def child():
                answers = refused(lambda: len(memory.conversation("c"))), refused(lambda: AgentMemory(sys.argv[1]))
                memory.close()
                return answers

            def within():
                answers.append(in_child(child))
                return
                yield

            answers = []
            memory.database.engine.write(within)
            print(answers[0])
            memory.conversation("c").add(role="user", content="after")
            print(len(memory.conversation("c")), memory.admin.verify().ok)
            """,
            url,
        )
        # A server knows its clients apart, so there the child can open the memory again; in a file it would do harm.
        assert out == ["(True, None)" if url.startswith("postgresql://") else "(True, True)", "1 True"]
