"""A write that is cancelled at any moment is there or not."""

import asyncio
import random

import pytest

from langchain_agentmem import AgentMemory


class TestCancellingAWrite:
    @pytest.mark.slow
    async def test_at_any_moment_it_is_all_or_nothing_and_nothing_runs_on(self, url):
        moments = random.Random(7)
        async with AgentMemory(url) as memory:
            chat, outcome = memory.conversation("c"), {}

            async def add(n):
                message_id = f"m{n}"
                try:
                    await chat.aadd({"role": "user", "content": f"text {n}", "message_id": message_id})
                except asyncio.CancelledError:
                    outcome[message_id] = await asyncio.to_thread(chat.retrieve_by_id, message_id)
                    raise
                outcome[message_id] = "stored"

            for wave in range(15):
                tasks = [asyncio.create_task(add(wave * 8 + n)) for n in range(8)]
                for task in tasks:
                    for _ in range(moments.randrange(3)):
                        await asyncio.sleep(moments.random() * 0.004)
                    task.cancel()
                    if moments.random() < 0.5:
                        await asyncio.sleep(0)
                        task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            there = {message.id for message in chat.messages}
            assert len(there) == len(chat.messages)
            # What was seen when the cancellation was heard is how it stayed.
            for message_id, seen in outcome.items():
                assert (message_id in there) == (seen is not None)
            assert memory.admin.verify().problems == ()
