"""An event loop goes on while a memory works: what takes a while is done in threads, and nothing is imported on it."""

import asyncio
import threading

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.concurrency import LARGE, aside, is_large
from langchain_agentmem.language_models.model_calls import Do, aperform
from langchain_agentmem.messages.message import Message


class TestWhatIsLarge:
    def test_a_long_text_wherever_it_stands_and_many_values(self):
        for wrap in (str, str.encode, lambda text: {"a": [(text,)]}, lambda text: Message(role="user", content=text)):
            assert is_large(wrap("x" * LARGE))
            assert not is_large(wrap("x" * (LARGE // 8)))
        endless: list[object] = []
        endless.append(endless)
        for many in (list(range(LARGE)), dict.fromkeys(range(LARGE)), endless):
            assert is_large(many)

        with AgentMemory(":memory:") as memory:  # of which a part is a handle
            memory.layers("main").core.set("k", "x" * LARGE)
            assert not is_large((memory, memory.layers("main"), memory.conversation("c")))

    def test_nothing_that_it_is_given_is_asked_for_more_than_it_is(self):
        refusing = dict.fromkeys(("__len__", "__iter__"), lambda _: pytest.fail("it was asked"))
        assert not is_large(type("Wild", (list,), refusing)("ab"))


class TestAside:
    async def test_little_is_done_here_and_much_in_a_thread(self):
        here = threading.get_ident()

        def where(_):
            return threading.get_ident()

        assert await aside(where, "x") == here
        assert await aside(where, "x" * LARGE) != here

    async def test_who_leaves_waits_for_what_has_begun(self):
        begun, go_on, ended = asyncio.Event(), threading.Event(), []
        loop = asyncio.get_running_loop()

        def work(_):
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(60)
            ended.append(True)

        task = asyncio.ensure_future(aside(work, "x" * LARGE))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    async def test_work_that_was_given_much_goes_on_in_a_thread_to_its_end(self):
        here, seen = threading.get_ident(), []

        def work(text):
            seen.append(threading.get_ident())
            yield Do(lambda: None, lambda: asyncio.sleep(0))
            seen.append(threading.get_ident())
            return len(text)

        assert await aperform(work("x" * LARGE)) == LARGE
        assert here not in seen
        seen.clear()
        assert await aperform(work("x")) == 1
        assert seen == [here, here]

    async def test_a_listener_is_told_on_the_loop_of_the_caller(self):
        heard = []

        async def hook(event):
            heard.append(asyncio.get_running_loop())

        with AgentMemory(":memory:", hooks=[hook]) as memory:
            chat = memory.conversation("c")
            await aside(lambda text: chat._announce_reset(), "x" * LARGE)
            await memory.database.hooks.settle()
        assert set(heard) == {asyncio.get_running_loop()}
