"""What listeners are promised, and what is promised to those they listen to."""

import asyncio
import logging
from contextvars import ContextVar

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base import events
from langchain_agentmem.base.events import EventContext, Hooks, MessagesStored
from langchain_agentmem.errors import InvalidInput

from .listening import RESET, STORED, UPDATED, warnings_in

pytestmark = pytest.mark.sqlite_suffices


class TestHooks:
    def test_every_hook_hears_every_event_in_order(self, heard):
        hooks = Hooks([lambda event: heard.append((1, event)), lambda event: heard.append((2, event))])

        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert heard == [(1, STORED), (2, STORED), (1, UPDATED), (2, UPDATED)]

    def test_hooks_are_true_when_somebody_listens_and_what_is_none_is_refused(self):
        assert Hooks([print])
        assert not Hooks()
        with pytest.raises(InvalidInput, match="'print' is not a hook"):
            Hooks(["print"])

    def test_a_failing_hook_is_logged_once_with_its_traceback_and_reaches_nobody(self, heard, caplog):
        def broken(event):
            raise ValueError("no")

        async def also_broken(event):
            raise KeyError("no")

        hooks = Hooks([broken, also_broken, heard.append])
        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert heard == [STORED, UPDATED]
        assert [record.exc_info[0] for record in warnings_in(caplog)] == [ValueError, KeyError]
        assert (warnings_in(caplog)[0].levelno, "broken" in caplog.text) == (logging.WARNING, True)

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

    async def test_on_a_loop_emit_does_not_wait_and_a_failure_is_logged_once(self, heard, caplog):
        gate = asyncio.Event()

        async def hook(event):
            await gate.wait()
            heard.append(event)
            raise ValueError("no")

        hooks = Hooks([hook])
        await hooks.settle()
        hooks.emit(STORED)
        hooks.emit(STORED)
        await asyncio.sleep(0)
        assert heard == []

        gate.set()
        await hooks.settle()
        assert heard == [STORED, STORED]
        (record,) = warnings_in(caplog)
        assert record.exc_info[0] is ValueError


class TestTheContextOfAHook:
    def test_the_hook_sees_the_context_of_the_caller(self, heard):
        variable = ContextVar("variable", default="unset")
        hooks = Hooks([lambda event: heard.append(variable.get())])

        hooks.emit(STORED)
        variable.set("mine")
        hooks.emit(STORED)

        assert heard == ["unset", "mine"]

    async def test_a_hook_is_not_told_of_what_it_causes_and_another_is(self, heard):
        def causes(event):
            heard.append(event)
            hooks.emit(UPDATED)

        async def causes_later(event):
            heard.append(event)
            hooks.emit(UPDATED)

        for hook in (causes, causes_later):
            others = []
            hooks = Hooks([hook, others.append])
            hooks.emit(STORED)
            await hooks.settle()
            assert (heard, len(others), UPDATED in others) == ([STORED], 2, True)
            heard.clear()

    def test_a_hook_may_use_the_memory(self, url, heard):
        def copy(event):
            if isinstance(event, MessagesStored) and event.conversation_id == "chat":
                memory.conversation("copies").add_user_message("One message came.")
                heard.extend(hit.text for hit in memory.search("message came"))

        with AgentMemory(url, hooks=[copy]) as memory:
            memory.conversation("chat").add_user_message("Call Ada on Monday.")

        assert heard == ["One message came."]

    async def test_an_asynchronous_hook_runs_on_the_callers_loop_and_may_close_the_memory(self, heard):
        async def closes(event):
            if isinstance(event, MessagesStored):
                await memory.aclose()
                heard.append(asyncio.get_running_loop())

        memory = AgentMemory(":memory:", hooks=[closes])
        await memory.conversation("chat").aadd_messages([HumanMessage("Call Ada on Monday.")])
        await memory.aclose()
        await asyncio.to_thread(heard.wait, 1)
        assert heard == [asyncio.get_running_loop()]

    async def test_closing_does_not_wait_for_ever(self, monkeypatch):
        async def hangs(event):
            await asyncio.Event().wait()

        monkeypatch.setattr(events, "SETTLE_SECONDS", 0.01)
        hooks = Hooks([hangs])
        hooks.emit(STORED)
        await hooks.settle()


class Bus(list):
    async def emit(self, event):
        await asyncio.sleep(0)
        self.append(event)


class TestEventContext:
    async def test_any_bus_hears_of_a_reset_whether_or_not_a_loop_runs(self, heard):
        buses = [Bus(), type("Emitting", (list,), {"emit": list.append})(), heard.append]
        for bus in buses:  # an empty bus is still a bus
            context = EventContext("Researcher", bus, session_id="run_123")
            assert context
            context.emit(RESET)
            await context.settle()
            await asyncio.to_thread(context.emit, RESET)
            assert (heard if callable(bus) else bus) == [RESET, RESET], bus

    def test_no_bus_is_silence_and_what_is_none_is_refused(self):
        context = EventContext("Researcher", None)
        context.emit(RESET)
        assert not context
        with pytest.raises(InvalidInput, match="is not an event bus"):
            EventContext("Researcher", 42)
