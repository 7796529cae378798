"""A process that has a memory open may fork at any time; both processes go on with it, and nothing hangs or is lost."""

import os
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

BEGIN = """
import asyncio, os, select, signal, sys, threading, warnings
from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage import sqlite
from tests.word_embeddings import WordEmbeddings

warnings.simplefilter("ignore", DeprecationWarning)  # that other threads run

def in_child(function, *arguments):
    '''Call it in a child of this process, and return its answer; the child has a minute.'''
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

def say(text, to="c"):
    memory.conversation(to).add(role="user", content=text)

def said(to="c"):
    return [each.content for each in memory.conversation(to).messages]

memory = AgentMemory(sys.argv[1], index={"embed": WordEmbeddings(16), "dims": 16})
"""


@pytest.fixture
def run(forks):
    def run(script, url):
        done = forks.run(BEGIN + textwrap.dedent(script), url)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return run


class TestChildProcess:
    @pytest.mark.slow
    def test_child_and_writer_threads_lose_nothing(self, run, url):
        out = run(
            """
            over, wrote = threading.Event(), [0, 0, 0]

            def write(number):
                while not over.is_set():
                    say("said by a thread", f"thread {number}")
                    wrote[number] += 1

            def child(number):
                before = len(said("children"))
                say(f"said by child {number}", "children")
                return before

            threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
            for each in threads:
                each.start()
            print([in_child(child, n) for n in range(15)] == [str(n) for n in range(15)])
            over.set()
            for each in threads:
                each.join()
            print([len(said(f"thread {n}")) for n in range(3)] == wrote, len(said("children")))
            print(memory.admin.verify().ok)
            """,
            url,
        )
        assert out == ["True", "True 15", "True"]

    def test_child_writes_survive_parent_close(self, run, url):
        out = run(
            """
            say("before")
            closed, told = os.pipe(), os.pipe()
            if not os.fork():
                say("child, at first")
                os.write(told[1], b"x")
                os.read(closed[0], 1)
                say("child, at last")
                memory.close()
                os._exit(0)
            os.read(told[0], 1)
            print(said())
            memory.close()
            os.write(closed[1], b"x")
            os.wait()
            memory = AgentMemory(sys.argv[1])
            print(said(), memory.admin.verify().ok)
            """,
            url,
        )
        assert out == ["['before', 'child, at first']", "['before', 'child, at first', 'child, at last'] True"]

    @pytest.mark.sqlite_suffices
    def test_child_copies_memory_database_and_reopens_file_path(self, run, tmp_path):
        out = run(
            f"""
            say("before")
            print(in_child(lambda: (say("in the child"), said())), said())
            os.chdir({str(tmp_path)!r})
            memory = AgentMemory("here.db")
            say("before")
            os.mkdir("elsewhere")
            os.chdir("elsewhere")
            print(in_child(said), said(), os.listdir())
            """,
            ":memory:",
        )
        assert out == ["(None, ['before', 'in the child']) ['before']", "['before'] ['before'] []"]


class TestForkDuringCalls:
    def test_fork_during_a_call_does_not_hang(self, run, url):
        out = run(
            """
            sqlite.PATIENCE = 0.1
            inside, over = threading.Event(), threading.Event()

            def within(tx):
                inside.set()
                over.wait()

            def attempt(function):
                try:
                    return function()
                except StorageError as error:
                    return "forked during a call" in str(error)

            def child():
                answers = attempt(said), attempt(lambda: bool(AgentMemory(sys.argv[1]))), memory.close()
                del globals()["memory"]
                return answers

            say("before")
            thread = threading.Thread(target=lambda: memory.database.engine.write(within))
            thread.start()
            inside.wait()
            print(in_child(child))
            over.set()
            thread.join()
            say("after")
            print(said(), memory.admin.verify().ok, in_child(said))
            """,
            url,
        )
        # A server tells its clients apart; SQLite's locks do not hold in the child, which is told so.
        first = "['before']" if url.startswith("postgresql://") else "True"
        assert out == [f"({first}, True, None)", "['before', 'after'] True ['before', 'after']"]
