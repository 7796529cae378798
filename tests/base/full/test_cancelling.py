"""A thousand calls cancelled at random moments leave nothing half-written and no waiter."""

import asyncio
import gc
import random

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, ManagedMemoryConfig
from langchain_agentmem.layers.layer import LayersConfig
from tests.facts.scripted import Scripted

CANCELLATIONS = 1000
TOGETHER = 25
KINDS = ("archival", "core", "compress", "store", "messages", "context", "learn", "node")


class Calls:
    """Awaited calls that write, some of them by way of a model, each with a check that what it wrote is whole.

    Attributes:
        doubts: What a cancelled call left half-written.
    """

    def __init__(self, memory, seed):
        self.memory, self.random, self.doubts, self.open, self.loop = memory, random.Random(seed), [], 0, None
        extracted = Scripted()

        def slow(answer):
            async def model(messages):
                here = asyncio.get_running_loop() is self.loop  # else it is asked in the background
                self.open += here
                try:
                    await asyncio.sleep(self.random.random() / 50)
                    return answer(messages)
                finally:
                    self.open -= here

            return model

        short = slow(lambda messages: "short")
        self.layers = memory.layers("b", settings=LayersConfig(core_max_chars=40), model=short)
        self.facts = memory.facts("f", model=slow(extracted))
        self.managed = memory.managed_conversation("m", config=ManagedMemoryConfig(threshold_tokens=500), model=short)

    async def archival(self, number):
        key = await self.layers.archival.awrite(f"record {number}")
        return lambda: self.layers.archival.get(key) is not None

    async def core(self, number):
        layers = self.memory.layers(f"branch {number}", settings=self.layers.settings)
        await layers.core.aset("key", f"value {number}")
        return lambda: layers.core.get() == {"key": f"value {number}"}

    async def compress(self, number):
        assert await self.layers.acompress(f"text {number} " * 20, 40) == "short"
        return lambda: True

    async def store(self, number):
        await self.memory.store.aput(("items",), f"key {number}", {"number": number})
        return lambda: self.memory.store.get(("items",), f"key {number}").value == {"number": number}

    async def messages(self, number):
        here = self.memory.conversation(f"conversation {number}")
        some = [HumanMessage(f"message {number}", id=f"{number}-{each}") for each in range(3)]
        try:
            await here.aadd_messages(some)
        finally:
            if (count := len(here.messages)) not in (0, 3):
                self.doubts.append((number, count))
        return lambda: len(here.messages) == 3

    async def context(self, number):
        await self.managed.aadd(role="user", content=f"question {number}: " + "many words " * 50)
        await self.managed.aget_context()
        return lambda: any(
            each.content.startswith(f"question {number}:") for each in self.memory.conversation("m").messages
        )

    async def learn(self, number):
        facts = await self.facts.aextract_and_update_from_text(f"Maya likes number {number}.")
        return lambda: all(self.facts.get(each.id) is not None for each in facts)

    async def node(self, number):
        """What a task in a group of tasks does: several calls at a time."""
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(self.store(f"{number} {each}")) for each in range(2)]
            made.append(group.create_task(self.archival(f"{number} too")))
        return lambda: all(each.result()() for each in made)

    def any(self, number):
        return getattr(self, KINDS[number % len(KINDS)])(number)


@pytest.mark.slow
@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.timeout(120)
def test_random_cancellations_leave_nothing_half_written(hooked, tmp_path, caplog):
    seen, complaints = [], []

    async def hook(event):
        seen.append(event)

    async def main(calls):
        calls.loop = loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context))
        cancelled, number, checks = 0, 0, []
        while cancelled < CANCELLATIONS // 2:
            tasks = [asyncio.create_task(calls.any(number + each)) for each in range(TOGETHER)]
            number += TOGETHER
            for each in tasks:
                loop.call_later(calls.random.random() ** 3 / 5, each.cancel)
            async with asyncio.timeout(60):
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled += sum(isinstance(each, asyncio.CancelledError) for each in outcomes)
            failed = [each for each in outcomes if isinstance(each, BaseException)]
            assert [each for each in failed if not isinstance(each, asyncio.CancelledError)] == []
            checks += [each for each in outcomes if callable(each)]
        async with asyncio.timeout(30):  # a thread reports its result a moment before its call is over
            while calls.open:
                await asyncio.to_thread(dict)
        await calls.memory.database.hooks.settle()
        return number, checks

    with AgentMemory(tmp_path / "memory.db", hooks=[hook] if hooked else []) as memory:
        calls = Calls(memory, seed=int(hooked))
        number, checks = asyncio.run(main(calls))
        gc.collect()
        assert [each.__qualname__ for each in checks if not each()] == []
        assert (len(checks) > number // 20, calls.doubts, complaints, caplog.messages) == (True, [], [], [])
        assert memory.admin.verify().ok
    assert bool(seen) == hooked
