"""Hooks and event buses: delivery, failures and isolation."""

import asyncio
import logging
from contextvars import ContextVar

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.base.hooks import EventContext, Hooks
from langchain_agentmem.errors import InvalidInput

from .listening import RESET, STORED, UPDATED, warnings_in

pytestmark = pytest.mark.sqlite_suffices


class TestHooks:
    def test_every_hook_receives_every_event_in_order(self, received):
        hooks = Hooks([lambda event: received.append((1, event)), lambda event: received.append((2, event))])

        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert received == [(1, STORED), (2, STORED), (1, UPDATED), (2, UPDATED)]

    def test_hooks_are_truthy_and_non_hooks_are_rejected(self):
        assert Hooks([print])
        assert not Hooks()
        with pytest.raises(InvalidInput, match="'print' is not a hook"):
            Hooks(["print"])

    def test_failing_hook_is_logged_once_and_isolated(self, received, caplog):
        def broken(event):
            raise ValueError("no")

        async def also_broken(event):
            raise KeyError("no")

        hooks = Hooks([broken, also_broken, received.append])
        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert received == [STORED, UPDATED]
        assert [record.exc_info[0] for record in warnings_in(caplog)] == [ValueError, KeyError]
        assert (warnings_in(caplog)[0].levelno, "broken" in caplog.text) == (logging.WARNING, True)

    def test_keyboard_interrupt_propagates(self):
        def interrupted(event):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Hooks([interrupted]).emit(STORED)


class TestAsynchronousHooks:
    def test_async_hook_completes_without_a_running_loop(self, received):
        async def hook(event):
            await asyncio.sleep(0)
            received.append(event)

        Hooks([hook]).emit(STORED)

        assert received == [STORED]

    async def test_async_hook_runs_later_and_logs_failure_once(self, received, caplog):
        gate = asyncio.Event()

        async def hook(event):
            await gate.wait()
            received.append(event)
            raise ValueError("no")

        hooks = Hooks([hook])
        await hooks.settle()
        hooks.emit(STORED)
        hooks.emit(STORED)
        await asyncio.sleep(0)
        assert received == []

        gate.set()
        await hooks.settle()
        assert received == [STORED, STORED]
        (record,) = warnings_in(caplog)
        assert record.exc_info[0] is ValueError


class TestHookContext:
    def test_the_hook_sees_the_context_of_the_caller(self, received):
        variable = ContextVar("variable", default="unset")
        hooks = Hooks([lambda event: received.append(variable.get())])

        hooks.emit(STORED)
        variable.set("mine")
        hooks.emit(STORED)

        assert received == ["unset", "mine"]

    async def test_hook_does_not_receive_events_it_causes(self, received):
        def causes(event):
            received.append(event)
            hooks.emit(UPDATED)

        async def causes_later(event):
            received.append(event)
            hooks.emit(UPDATED)

        for hook in (causes, causes_later):
            others = []
            hooks = Hooks([hook, others.append])
            hooks.emit(STORED)
            await hooks.settle()
            assert (received, len(others), UPDATED in others) == ([STORED], 2, True)
            received.clear()

    def test_a_hook_may_use_the_memory(self, url, received):
        def copy(event):
            if isinstance(event, MessagesStored) and event.conversation_id == "chat":
                memory.conversation("copies").add_user_message("One message came.")
                received.extend(hit.text for hit in memory.search("message came"))

        with AgentMemory(url, hooks=[copy]) as memory:
            memory.conversation("chat").add_user_message("Call Ada on Monday.")

        assert received == ["One message came."]

    async def test_async_hook_runs_on_callers_loop_may_close(self, received):
        async def closes(event):
            if isinstance(event, MessagesStored):
                await memory.aclose()
                received.append(asyncio.get_running_loop())

        memory = AgentMemory(":memory:", hooks=[closes])
        await memory.conversation("chat").aadd_messages([HumanMessage("Call Ada on Monday.")])
        await memory.aclose()
        await asyncio.to_thread(received.wait, 1)
        assert received == [asyncio.get_running_loop()]

    async def test_settling_hooks_is_limited_in_time(self, monkeypatch):
        async def hangs(event):
            await asyncio.Event().wait()

        monkeypatch.setattr("langchain_agentmem.base.hooks.SETTLE_SECONDS", 0.01)
        hooks = Hooks([hangs])
        hooks.emit(STORED)
        await hooks.settle()


class Bus(list):
    async def emit(self, event):
        await asyncio.sleep(0)
        self.append(event)


class TestEventContext:
    async def test_any_bus_receives_a_reset(self, received):
        buses = [Bus(), type("Emitting", (list,), {"emit": list.append})(), received.append]
        for bus in buses:  # an empty bus is still a bus
            context = EventContext("Researcher", bus, session_id="run_123")
            assert context
            context.emit(RESET)
            await context.settle()
            await asyncio.to_thread(context.emit, RESET)
            assert (received if callable(bus) else bus) == [RESET, RESET], bus

    def test_missing_bus_is_silent_invalid_one_is_rejected(self):
        context = EventContext("Researcher", None)
        context.emit(RESET)
        assert not context
        with pytest.raises(InvalidInput, match="is not an event bus"):
            EventContext("Researcher", 42)
