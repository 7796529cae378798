"""Concurrent threads, tasks and processes lose nothing and get no lock errors."""

import asyncio
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory

EACH = 12


WRITER = """
import sys
from langchain_agentmem import AgentMemory
with AgentMemory(sys.argv[1]) as memory:
    for i in range(int(sys.argv[3])):
        memory.conversation("c").add(role="user", content=f"{sys.argv[2]} {i}", name=sys.argv[2])
"""


def writing_process(url, name):
    return subprocess.Popen([sys.executable, "-c", WRITER, url, name, str(EACH)])


def in_threads(function, arguments):
    """Calls a function once for each argument, each in a thread of its own, and raises what they raise."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        list(threads.map(function, arguments))


class TestConcurrentWriters:
    @pytest.mark.slow
    async def test_threads_tasks_and_processes_append_to_one_conversation(self, url):
        with AgentMemory(url) as memory:
            chat = memory.conversation("c")
            counts = {f"{kind}{n}": EACH for kind in ("thread", "task") for n in range(16)} | {"a": EACH, "b": EACH}
            processes = [writing_process(url, name) for name in ("a", "b")]

            def write(writer):
                for i in range(EACH):
                    chat.add(role="user", content=f"{writer} {i}", name=writer)

            async def awrite(writer):
                for i in range(EACH):
                    await chat.aadd_messages([HumanMessage(f"{writer} {i}", name=writer)])

            await asyncio.gather(
                asyncio.to_thread(in_threads, write, [f"thread{n}" for n in range(16)]),
                *(awrite(f"task{n}") for n in range(16)),
            )
            assert [await asyncio.to_thread(process.wait) for process in processes] == [0, 0]
            said = defaultdict(list)
            for message in chat.messages:
                said[message.name].append(message.content)
            assert said == {name: [f"{name} {i}" for i in range(count)] for name, count in counts.items()}
            assert len({message.id for message in chat.messages}) == sum(counts.values())
            assert memory.admin.verify().problems == ()
            assert len(memory.search("thread1 0 1 2", limit=1000)) > 0

    @pytest.mark.slow
    def test_content_stored_concurrently_is_deduplicated(self, url):
        texts = [f"shared text {n} " * 40 for n in range(30)]
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
