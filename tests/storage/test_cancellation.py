"""A cancelled write is stored fully or not at all, and has ended when the cancellation is raised."""

import asyncio
from functools import partial

import pytest

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.conversations import message_log
from tests.storage.sessions import THREAD, HeldOperation, appending, awrite, entry, keys
from tests.support.waiting import cancelled


@pytest.fixture
def engine(memory):
    return memory.database.engine


@pytest.fixture
def held():
    return HeldOperation(appending(entry("held")))


async def begun(held):
    assert await asyncio.to_thread(held.inside.wait, 120)


class TestWriteCancellation:
    async def test_cancelled_before_start_never_runs(self, engine):
        task = asyncio.create_task(awrite(engine, lambda tx: pytest.fail("it began")))
        await cancelled(task)
        assert keys(engine) == []

    async def test_cancelled_while_queued_never_runs(self, engine):
        # All writing workers are taken, by operations that do not wait for each other.
        holders = [
            HeldOperation(lambda tx: message_log.count_messages(tx, THREAD))
            for _ in range(concurrency.write_workers.size)
        ]
        holding = [asyncio.create_task(run_in_worker(partial(engine.read, held), writes=True)) for held in holders]
        try:
            for held in holders:
                await begun(held)
            queued = asyncio.create_task(awrite(engine, appending(entry("queued"))))
            await asyncio.sleep(0)
            await cancelled(queued)
        finally:
            for held in holders:
                held.go_on.set()
        await asyncio.gather(*holding)
        assert keys(engine) == []
        assert all(held.ended for held in holders)

    async def test_cancelled_while_running_completes_silently(self, engine, caplog):
        for error, stored in ((ZeroDivisionError, []), (None, ["held"])):
            held = HeldOperation(appending(entry("held")))

            def steps(tx, held=held, error=error):
                held(tx)
                if error:
                    raise error

            task = asyncio.create_task(awrite(engine, steps))
            await begun(held)
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0)
            assert not task.done()
            held.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert held.ended
            assert (keys(engine), caplog.text) == (stored, "")

    async def test_cancelled_at_the_end_still_raises_cancellation(self, engine, held):
        task = asyncio.create_task(awrite(engine, held))
        await begun(held)
        held.go_on.set()
        while not keys(engine):  # the event loop is kept from hearing of the end
            pass
        await cancelled(task)
        assert keys(engine) == ["held"]

    async def test_timeout_during_write_raises_timeout_error(self, engine, held):
        limit = asyncio.timeout(None)

        async def write():
            async with limit:
                await awrite(engine, held)

        task = asyncio.create_task(write())
        await begun(held)
        limit.reschedule(0)  # its time was over long ago
        while not task.cancelling():  # noqa: ASYNC110 - a timeout has no event
            await asyncio.sleep(0)
        held.go_on.set()
        with pytest.raises(TimeoutError):
            await task
        assert held.ended
        assert keys(engine) == ["held"]


async def test_a_cancelled_read_leaves_the_engine_usable(engine):
    held = HeldOperation(lambda tx: message_log.count_messages(tx, THREAD))
    task = asyncio.create_task(run_in_worker(partial(engine.read, held)))
    await begun(held)
    task.cancel()
    held.go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    await awrite(engine, appending(entry("kept")))
    assert [
        row.key for row in await run_in_worker(partial(engine.read, lambda tx: message_log.messages(tx, THREAD)))
    ] == ["kept"]


@pytest.mark.sqlite_suffices
async def test_waiting_writers_do_not_block_readers(engine):
    held = HeldOperation(appending(entry("held")))
    writing = asyncio.create_task(awrite(engine, held))
    await begun(held)
    others = [
        asyncio.create_task(run_in_worker(partial(engine.write, appending(entry(f"other {number}")))))
        for number in range(2 * concurrency.read_workers.size)
    ]
    count = partial(engine.read, lambda tx: message_log.count_messages(tx, THREAD))
    assert await asyncio.wait_for(run_in_worker(count), 60) == 0
    held.go_on.set()
    await asyncio.gather(writing, *others)
    assert await run_in_worker(count) == 1 + len(others)
