"""What listeners are promised, and what is promised to those they listen to."""

import asyncio
import logging
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.events import (
    Event,
    EventContext,
    Hooks,
    MemoryResetEvent,
    MessagesStored,
    MessageUpdated,
)

STORED = MessagesStored(namespace=("acme",), conversation_id="c", message_ids=("m1", "m2"))
UPDATED = MessageUpdated(namespace=("acme",), conversation_id="c", message_id="m1")
RESET = MemoryResetEvent(agent_name="Researcher", timestamp=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def heard():
    return []


def warnings_in(caplog):
    return [record for record in caplog.records if record.name == "langchain_agentmem.events"]


class TestEvents:
    def test_an_event_is_a_value(self):
        again = MessagesStored(namespace=("acme",), conversation_id="c", message_ids=("m1", "m2"))

        assert again == STORED
        assert hash(again) == hash(STORED)
        assert isinstance(STORED, Event)
        with pytest.raises(FrozenInstanceError):
            STORED.conversation_id = "d"

    def test_an_event_is_made_with_names_only(self):
        with pytest.raises(TypeError):
            MemoryResetEvent("Researcher", datetime(2026, 1, 2, tzinfo=UTC))


class TestHooks:
    def test_every_hook_hears_every_event_in_order(self, heard):
        hooks = Hooks([lambda event: heard.append((1, event)), lambda event: heard.append((2, event))])

        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert heard == [(1, STORED), (2, STORED), (1, UPDATED), (2, UPDATED)]

    def test_hooks_are_true_when_somebody_listens(self):
        assert Hooks([print])
        assert not Hooks()
        assert list(Hooks([print])) == [print]

    def test_something_that_is_no_hook_is_refused(self):
        with pytest.raises(InvalidInput, match="'print' is not a hook"):
            Hooks(["print"])

    def test_a_failing_hook_reaches_neither_the_caller_nor_the_next_hook(self, heard):
        def broken(event):
            raise ValueError("no")

        Hooks([broken, heard.append]).emit(STORED)

        assert heard == [STORED]

    def test_a_failing_hook_is_logged_once_with_its_traceback(self, caplog):
        def broken(event):
            raise ValueError("no")

        hooks = Hooks([broken])
        hooks.emit(STORED)
        hooks.emit(UPDATED)

        (record,) = warnings_in(caplog)
        assert record.levelno == logging.WARNING
        assert record.exc_info[0] is ValueError
        assert "broken" in record.getMessage()

    def test_each_failing_hook_is_logged(self, caplog):
        def broken(event):
            raise ValueError("no")

        def also_broken(event):
            raise KeyError("no")

        hooks = Hooks([broken, also_broken])
        hooks.emit(STORED)
        hooks.emit(STORED)

        assert [record.exc_info[0] for record in warnings_in(caplog)] == [ValueError, KeyError]

    def test_an_interrupt_goes_through(self):
        def interrupted(event):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Hooks([interrupted]).emit(STORED)


class TestAsynchronousHooks:
    def test_without_a_loop_the_hook_is_done_when_emit_returns(self, heard):
        async def hook(event):
            await asyncio.sleep(0)
            heard.append(event)

        Hooks([hook]).emit(STORED)

        assert heard == [STORED]

    def test_without_a_loop_a_failing_hook_is_logged_once(self, caplog):
        async def broken(event):
            raise ValueError("no")

        hooks = Hooks([broken])
        hooks.emit(STORED)
        hooks.emit(STORED)

        assert len(warnings_in(caplog)) == 1

    async def test_on_a_loop_emit_does_not_wait(self, heard):
        gate = asyncio.Event()

        async def hook(event):
            await gate.wait()
            heard.append(event)

        hooks = Hooks([hook])
        hooks.emit(STORED)
        await asyncio.sleep(0)
        assert heard == []

        gate.set()
        await hooks.settle()
        assert heard == [STORED]

    async def test_on_a_loop_a_failing_hook_is_logged_once(self, caplog):
        async def broken(event):
            await asyncio.sleep(0)
            raise ValueError("no")

        hooks = Hooks([broken])
        hooks.emit(STORED)
        hooks.emit(STORED)
        await hooks.settle()

        (record,) = warnings_in(caplog)
        assert record.exc_info[0] is ValueError

    async def test_settling_with_nothing_under_way_returns_at_once(self):
        await Hooks([print]).settle()

    def test_a_loop_that_ends_first_leaves_no_complaint(self, heard, caplog):
        async def hook(event):
            await asyncio.sleep(3600)
            heard.append(event)

        async def program():
            Hooks([hook]).emit(STORED)

        asyncio.run(program())

        assert heard == []
        assert warnings_in(caplog) == []


class BusOfTheOriginal:
    """As document 003's bus: `emit_nowait` needs a running loop, and drops the event without one."""

    def __init__(self):
        self.events = []

    async def emit(self, event):
        self.events.append(event)

    def emit_nowait(self, event):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.events.append(event)


class TestEventContext:
    def test_the_bus_hears_of_a_reset_where_no_loop_runs(self):
        bus = BusOfTheOriginal()

        EventContext("Researcher", bus, session_id="run_123").emit(RESET)

        assert bus.events == [RESET]

    async def test_the_bus_hears_at_once_where_a_loop_runs(self):
        bus = BusOfTheOriginal()

        EventContext("Researcher", bus).emit(RESET)

        assert bus.events == [RESET]

    async def test_a_bus_with_only_an_asynchronous_emit_is_seen_through(self, heard):
        class Bus:
            async def emit(self, event):
                await asyncio.sleep(0)
                heard.append(event)

        context = EventContext("Researcher", Bus())
        context.emit(RESET)
        await context.settle()

        assert heard == [RESET]

    def test_a_bus_with_only_emit_nowait_is_called_without_a_loop_too(self, heard):
        class Bus:
            def emit_nowait(self, event):
                heard.append(event)

        EventContext("Researcher", Bus()).emit(RESET)

        assert heard == [RESET]

    def test_a_callable_is_bus_enough(self, heard):
        EventContext("Researcher", heard.append).emit(RESET)

        assert heard == [RESET]

    def test_an_empty_bus_is_still_a_bus(self, heard):
        class Bus(list):
            def emit(self, event):
                heard.append(event)

        context = EventContext("Researcher", Bus())
        context.emit(RESET)

        assert context
        assert heard == [RESET]

    def test_no_bus_is_silence(self):
        context = EventContext("Researcher", None)
        context.emit(RESET)

        assert not context

    def test_something_that_is_no_bus_is_refused(self):
        with pytest.raises(InvalidInput, match="is not an event bus"):
            EventContext("Researcher", 42)

    def test_a_failing_bus_is_logged_once(self, caplog):
        class Bus:
            def emit(self, event):
                raise OSError("gone")

        context = EventContext("Researcher", Bus())
        context.emit(RESET)
        context.emit(RESET)

        assert len(warnings_in(caplog)) == 1
