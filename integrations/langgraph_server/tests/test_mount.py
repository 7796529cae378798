"""The mount without a server."""

from __future__ import annotations

import asyncio
import tempfile
import threading

import langchain_agentmem_langgraph_server as served
import pytest
from blockbuster import blockbuster_ctx
from langchain_agentmem_langgraph_server import Mount, by_user
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph_sdk import Auth

from langchain_agentmem import AgentMemory, AgentMemoryError, AgentMemorySaver, InvalidInput


class Opened:
    """Opens memories in a folder, and knows them."""

    def __init__(self, folder):
        self.folder, self.memories = folder, []

    def __call__(self):
        self.memories.append(AgentMemory(self.folder / "agent.db"))
        return self.memories[-1]


def is_open(memory):
    try:
        memory.search("anything")
    except AgentMemoryError:
        return False
    return True


@pytest.fixture
def opened(tmp_path):
    opened = Opened(tmp_path)
    yield opened
    for memory in opened.memories:
        memory.close()


async def test_parts_share_one_memory_closed_after_the_last(opened):
    mount = Mount(opened)
    assert opened.memories == []

    async with mount.checkpointer() as saver:
        async with mount.store() as store:
            assert isinstance(saver, AgentMemorySaver)
            assert (saver, store) == (mount.memory().checkpointer, mount.memory().store)
        assert is_open(mount.memory())

    [memory] = opened.memories
    assert not is_open(memory)


async def test_mount_reopens_after_closing(opened):
    mount = Mount(opened)
    async with mount.store() as store:
        await store.aput(("a",), "k", {"v": 1})

    async with mount.store() as store:
        assert (await store.aget(("a",), "k")).value == {"v": 1}
    assert len(opened.memories) == 2


async def test_mount_closes_after_an_exception(opened):
    mount = Mount(opened)
    with pytest.raises(ZeroDivisionError):
        async with mount.checkpointer():
            raise ZeroDivisionError

    assert not is_open(opened.memories[0])


def test_concurrent_loops_share_one_memory(opened):
    mount, start, given = Mount(opened), threading.Barrier(8), []

    async def hold():
        async with mount.checkpointer() as saver:
            given.append(saver)
            await asyncio.to_thread(start.wait)

    def run():
        start.wait()
        asyncio.run(hold())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(given), len(set(map(id, given))), len(opened.memories)) == (8, 1, 1)
    assert not is_open(opened.memories[0])


async def test_async_operations_do_not_block_the_loop(opened, monkeypatch, caplog):
    monkeypatch.setattr(tempfile, "tempdir", None)  # as in a process that has just begun
    mount = Mount(opened)
    config = {"configurable": {"thread_id": "t", "agentmem_namespace": ["ada"]}}

    async with mount.checkpointer() as saver, mount.store() as store:
        memory = mount.memory()
        with blockbuster_ctx() as watch:
            for allowed in ("os.stat", "threading.Lock.acquire", "io.BufferedReader.read"):  # by the server
                watch.functions[allowed].deactivate()
            context = await memory.compaction().ainvoke([HumanMessage("Ana lives in Lisbon.")], config)
            assert [message.text for message in await memory.inject().ainvoke(context, config)][-1] == context[-1].text
            await store.aput(("ada",), "k", {"text": "Ana plays the violin."})
            assert len(await memory.asearch("Ana", namespace=("ada",))) == 2
            assert await saver.aget_tuple(config) is None
            assert [each async for each in saver.alist(config)] == []

    assert caplog.records == []


async def test_prune_accepts_the_strategies_of_the_server(opened):
    mount, configs = Mount(opened), [{"configurable": {"thread_id": name, "checkpoint_ns": ""}} for name in "ab"]
    async with mount.checkpointer() as saver:
        for config in configs * 2:
            await saver.aput(config, empty_checkpoint(), {"source": "input", "step": -1}, {})

        await saver.aprune(["a"], strategy="keep_latest")
        await saver.aprune(["b"], strategy="delete_all")

        assert [len([each async for each in saver.alist(config)]) for config in configs] == [1, 0]


async def test_factory_without_memory_is_refused():
    with pytest.raises(InvalidInput, match=r"must return an AgentMemory, not 'agent\.db'"):
        async with Mount(lambda: "agent.db").checkpointer():
            pass


async def test_environment_variable_selects_the_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value, name in (("elsewhere.db", "elsewhere.db"), ("", "agentmem.db")):
        monkeypatch.setenv(served.DATABASE, value)
        async with served.checkpointer(), served.store():
            assert served.memory().search("anything") == []
        assert (tmp_path / name).exists()


async def test_user_without_namespace_is_refused():
    auth = by_user(Auth(), namespace=lambda user: ())
    [handler] = auth._handlers[("store", "*")]

    with pytest.raises(Auth.exceptions.HTTPException, match="no namespace"):
        await handler(ctx=type("Context", (), {"user": None}), value={"namespace": ("ada",)})
