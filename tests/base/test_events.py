"""What listeners are promised, and what is promised to those they listen to."""

import asyncio
import gc
import itertools
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base import events
from langchain_agentmem.base.events import (
    EventContext,
    Hooks,
    MemoryEvent,
    MemoryResetEvent,
    MessagesStored,
    MessageUpdated,
)
from langchain_agentmem.errors import InvalidInput

pytestmark = pytest.mark.sqlite_suffices

STORED = MessagesStored(namespace=("acme",), conversation_id="c", message_ids=("m1", "m2"))
UPDATED = MessageUpdated(namespace=("acme",), conversation_id="c", message_id="m1")
RESET = MemoryResetEvent(agent_name="Researcher", timestamp=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def heard():
    return []


def warnings_in(caplog):
    return [record for record in caplog.records if record.name == "langchain_agentmem.base.events"]


class TestEvents:
    def test_an_event_is_a_value(self):
        again = MessagesStored(namespace=("acme",), conversation_id="c", message_ids=("m1", "m2"))

        assert again == STORED
        assert hash(again) == hash(STORED)
        assert isinstance(STORED, MemoryEvent)
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


@pytest.fixture
def patient(monkeypatch):
    """So patient that a test which waits for a listener in vain ends by its timeout."""
    monkeypatch.setattr(events, "PATIENCE", 600)


class Hung(threading.Event):
    """Whoever is told that a listener waits for this has lost patience with it, and with no other."""

    def wait(self, timeout=None):
        if not self.is_set():
            events.PATIENCE = 0
        return super().wait(timeout)


@pytest.fixture
def hung(patient):
    """Listeners may wait for this, and are let go when the test is over."""

    def noted(record):
        if "does not answer" in record.msg:
            events.PATIENCE = 600
        return True

    gate, logger = Hung(), logging.getLogger("langchain_agentmem.base.events")
    logger.addFilter(noted)
    yield gate
    gate.set()
    logger.removeFilter(noted)


def until(condition):
    """Wait for what another thread will do."""
    while not condition():
        time.sleep(0.001)


async def auntil(condition):
    while not condition():  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.001)


def listening_threads():
    return [thread for thread in threading.enumerate() if thread.name == "agentmem-listener"]


@pytest.mark.usefixtures("patient")
class TestAHookThatHangs:
    def test_it_holds_nobody_up_and_is_waited_for_once(self, hung, caplog):
        def hangs(event):
            hung.wait()

        hooks = Hooks([hangs])
        hooks.emit(STORED)
        for _ in range(100):
            hooks.emit(UPDATED)

        (record,) = warnings_in(caplog)
        assert "hangs" in record.getMessage()
        assert "does not answer; memory goes on without waiting for it" in record.getMessage()

    def test_the_others_have_heard_when_the_operation_goes_on(self, hung, heard):
        hooks = Hooks([lambda event: hung.wait(), heard.append])

        hooks.emit(STORED)
        hooks.emit(UPDATED)

        assert heard == [STORED, UPDATED]

    def test_once_it_goes_on_it_hears_everything_in_order(self, hung, heard):
        def hangs(event):
            hung.wait()
            heard.append(event)

        hooks = Hooks([hangs])
        for _ in range(3):
            hooks.emit(STORED)
            hooks.emit(UPDATED)
        assert heard == []
        hung.set()

        until(lambda: len(heard) == 6)
        assert heard == [STORED, UPDATED] * 3

    def test_it_hears_to_the_end_though_the_memory_is_gone(self, hung, heard):
        def hangs(event):
            hung.wait()
            heard.append(event)

        hooks = Hooks([hangs])
        hooks.emit(STORED)
        hooks.emit(UPDATED)
        del hooks
        gc.collect()
        hung.set()

        until(lambda: len(heard) == 2)

    def test_what_stands_in_line_is_bounded(self, hung, heard, caplog, monkeypatch):
        def hangs(event):
            hung.wait()
            heard.append(event)

        monkeypatch.setattr(events, "MOST", 10)
        hooks = Hooks([hangs])
        for _ in range(25):
            hooks.emit(STORED)
        hung.set()
        until(lambda: len(heard) == 11)  # those that stood in line, and the one that it was at
        assert ["does not answer" in each.getMessage() for each in warnings_in(caplog)] == [True, False]
        assert "10 events behind" in warnings_in(caplog)[1].getMessage()

        # It has caught up, and hears what happens from now on.
        hooks.emit(UPDATED)
        until(lambda: len(heard) == 12)
        assert heard[-1] == UPDATED

    def test_an_awaitable_that_is_seen_through_holds_nobody_up_either(self, hung, caplog):
        async def hangs(event):
            hung.wait()

        Hooks([hangs]).emit(STORED)

        assert "does not answer" in warnings_in(caplog)[0].getMessage()

    def test_an_interrupt_of_one_that_nobody_waits_for_is_logged(self, hung, caplog):
        def interrupted(event):
            hung.wait()
            raise KeyboardInterrupt

        Hooks([interrupted]).emit(STORED)
        hung.set()

        until(lambda: len(warnings_in(caplog)) == 2)
        assert warnings_in(caplog)[1].exc_info[0] is KeyboardInterrupt

    async def test_what_it_gives_at_last_is_awaited_on_the_callers_loop(self, hung, heard):
        async def tell(event):
            heard.append((event, asyncio.get_running_loop()))

        def hangs(event):
            hung.wait()
            return tell(event)

        hooks = Hooks([hangs])
        hooks.emit(STORED)
        hooks.emit(UPDATED)
        hung.set()
        await auntil(lambda: len(heard) == 2)

        here = asyncio.get_running_loop()
        assert heard == [(STORED, here), (UPDATED, here)]

    async def test_what_it_causes_at_last_reaches_the_others_on_that_loop(self, hung, heard):
        async def later(event):
            heard.append((event, threading.get_ident()))

        def hangs(event):
            if event == STORED:
                hung.wait()
                hooks.emit(UPDATED)

        asyncio.get_running_loop().set_debug(True)  # which finds out who comes near it in another thread
        hooks = Hooks([hangs, later])
        hooks.emit(STORED)
        hung.set()
        await auntil(lambda: len(heard) == 2)

        here = threading.get_ident()
        assert heard == [(STORED, here), (UPDATED, here)]

    def test_what_it_gives_when_the_loop_is_closed_is_dropped(self, hung, caplog):
        async def tell(event):
            raise AssertionError

        left = threading.Event()

        def hangs(event):
            hung.wait()
            left.set()
            return tell(event)

        async def program():
            hooks.emit(STORED)

        hooks = Hooks([hangs])
        asyncio.run(program())
        hung.set()
        left.wait()

        until(hooks._deliveries[0][1]._line.empty)
        assert len(warnings_in(caplog)) == 1

    async def test_settling_does_not_wait_for_ever(self, caplog, monkeypatch):
        async def hangs(event):
            await asyncio.Event().wait()

        hooks = Hooks([hangs])
        hooks.emit(STORED)
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        await hooks.settle()
        monkeypatch.setattr(events, "PATIENCE", 600)
        begun = asyncio.all_tasks()
        hooks.emit(STORED)
        await hooks.settle()
        for _ in range(1_000):  # else the loop could end before what was given to it has begun
            if asyncio.all_tasks() > begun:
                break
            await asyncio.sleep(0.005)

        (record,) = warnings_in(caplog)
        assert "does not answer" in record.getMessage()

    async def test_tasks_that_never_end_are_bounded(self, caplog, monkeypatch):
        begun = []

        async def hangs(event):
            begun.append(event)
            await asyncio.Event().wait()

        monkeypatch.setattr(events, "MOST", 10)
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        hooks = Hooks([hangs])
        hooks.emit(STORED)
        await hooks.settle()
        for _ in range(25):
            hooks.emit(STORED)
            await auntil(hooks._deliveries[0][1]._line.empty)

        await auntil(lambda: len(warnings_in(caplog)) == 2)
        assert len(begun) == 10
        assert "10 events behind" in warnings_in(caplog)[1].getMessage()

    async def test_tasks_that_the_loop_had_no_time_for_are_not(self, heard, monkeypatch):
        async def prompt(event):
            heard.append(event)

        monkeypatch.setattr(events, "MOST", 10)
        hooks = Hooks([prompt])
        for _ in range(25):
            hooks.emit(STORED)
        await hooks.settle()

        assert len(heard) == 25

    def test_an_agent_does_its_work(self, url, hung, caplog):
        with AgentMemory(url, hooks=[lambda event: hung.wait()]) as memory:
            conversation = memory.conversation("chat")
            conversation.add_user_message("Call Ada on Monday.")
            assert [hit.text for hit in memory.search("Ada")] == ["Call Ada on Monday."]

        assert len(warnings_in(caplog)) == 1

    async def test_an_agent_that_awaits_does_its_work(self, url, hung, caplog, monkeypatch):
        async def hangs(event):
            await asyncio.Event().wait()

        async with AgentMemory(url, hooks=[lambda event: hung.wait(), hangs]) as memory:
            conversation = memory.conversation("chat")
            await conversation.aadd_messages([HumanMessage("Call Ada on Monday.")])
            assert [hit.text for hit in await memory.asearch("Ada")] == ["Call Ada on Monday."]
            monkeypatch.setattr(events, "PATIENCE", 0.05)

        assert len(warnings_in(caplog)) == 2


@pytest.mark.usefixtures("patient")
class TestTheThreadOfAHook:
    """A hook does not notice that it has one."""

    def test_there_is_one_for_each_hook(self):
        threads = []
        hooks = Hooks([lambda event: threads.append(threading.get_ident())] * 2)

        hooks.emit(STORED)
        hooks.emit(STORED)

        first, second, *again = threads
        assert again == [first, second]
        assert len({first, second, threading.get_ident()}) == 3

    def test_it_ends_when_there_is_nothing_to_do_and_begins_again(self, heard, monkeypatch):
        monkeypatch.setattr(events, "IDLE", 0.01)
        before = listening_threads()
        hooks = Hooks([heard.append])

        for count in range(1, 4):
            hooks.emit(STORED)
            until(lambda: set(listening_threads()) <= set(before))
            assert len(heard) == count

    def test_everything_is_heard_though_it_is_always_about_to_end(self, monkeypatch):
        monkeypatch.setattr(events, "IDLE", 0)
        heard = Counter()
        hooks = Hooks([lambda number: heard.update([number])])

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(hooks.emit, range(500)))

        assert heard == Counter(range(500))

    def test_there_is_but_one_though_its_beginning_is_interrupted(self, heard, monkeypatch):
        def interrupted(self):
            start(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(events, "IDLE", 600)
        before = set(listening_threads())
        hooks = Hooks([heard.append])
        start = threading.Thread.start
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hooks.emit(STORED)
        hooks.emit(UPDATED)

        until(lambda: len(set(listening_threads()) - before) == 1)

        monkeypatch.setattr(events, "IDLE", 0)
        hooks.emit(RESET)
        assert heard == [STORED, UPDATED, RESET]

    def test_it_does_not_keep_the_hook_in_being(self):
        class Hook:
            def __call__(self, event):
                pass

        hook = Hook()
        hooks = Hooks([hook])
        hooks.emit(STORED)
        alive = weakref.ref(hook)
        del hooks, hook

        until(lambda: gc.collect() is not None and alive() is None)

    def test_the_hook_sees_the_context_of_the_caller(self, heard):
        variable = ContextVar("variable", default="unset")
        hooks = Hooks([lambda event: heard.append(variable.get())])

        hooks.emit(STORED)
        variable.set("mine")
        hooks.emit(STORED)

        assert heard == ["unset", "mine"]

    def test_events_of_many_threads_have_been_heard_when_each_goes_on(self, monkeypatch):
        monkeypatch.setattr(events, "MOST", 1)  # only what nobody waits for is ever lost
        heard = set()

        def hook(event):
            heard.add(event.message_id)

        hooks = Hooks([hook])
        missing = []

        def work(name):
            for number in range(50):
                event = MessageUpdated(namespace=("acme",), conversation_id="c", message_id=f"{name}-{number}")
                hooks.emit(event)
                if event.message_id not in heard:
                    missing.append(event)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))

        assert missing == []
        assert len(heard) == 400

    def test_a_hook_may_cause_events_to_itself(self, heard):
        def echo(event):
            heard.append(event)
            if event == STORED:
                hooks.emit(UPDATED)
                heard.append("and now?")

        hooks = Hooks([echo])
        hooks.emit(STORED)
        until(lambda: len(heard) == 3)

        assert heard == [STORED, "and now?", UPDATED]

    def test_hooks_may_cause_events_to_each_other_at_the_same_time(self, heard):
        both = threading.Barrier(2, timeout=60)

        def first(event):
            heard.append(("first", event))
            if event == RESET:
                both.wait()
                hooks.emit(UPDATED)

        def second(event):
            heard.append(("second", event))
            if event == STORED:
                both.wait()
                hooks.emit(UPDATED)

        hooks = Hooks([first, second])
        with ThreadPoolExecutor(2) as threads:
            one = threads.submit(hooks.emit, STORED)
            until(lambda: ("second", STORED) in heard)
            threads.submit(hooks.emit, RESET).result()
            one.result()

        until(lambda: len(heard) == 8)
        assert Counter(name for name, event in heard if event == UPDATED) == {"first": 2, "second": 2}

    async def test_an_awaitable_of_an_event_that_a_hook_caused_is_awaited(self, heard):
        async def later(event):
            heard.append(event)

        def causes(event):
            if event == STORED:
                hooks.emit(UPDATED)

        hooks = Hooks([causes, later])
        hooks.emit(STORED)
        await auntil(lambda: len(heard) == 2)

        assert set(heard) == {STORED, UPDATED}

    def test_a_hook_may_use_the_memory(self, url, heard):
        def copy(event):
            if isinstance(event, MessagesStored) and event.conversation_id == "chat":
                memory.conversation("copies").add_user_message("One message came.")
                heard.extend(hit.text for hit in memory.search("message came"))

        with AgentMemory(url, hooks=[copy]) as memory:
            memory.conversation("chat").add_user_message("Call Ada on Monday.")

        assert heard == ["One message came."]

    async def test_an_asynchronous_hook_may_close_the_memory(self, heard):
        async def closes(event):
            if isinstance(event, MessagesStored):
                await memory.aclose()
                heard.append("closed")

        memory = AgentMemory(":memory:", hooks=[closes])
        await memory.conversation("chat").aadd_messages([HumanMessage("Call Ada on Monday.")])
        await memory.aclose()
        await auntil(lambda: bool(heard))

    def test_where_no_thread_can_be_made_the_hook_is_called_all_the_same(self, heard, monkeypatch):
        def cannot(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", cannot)
        Hooks([heard.append]).emit(STORED)

        assert heard == [STORED]


def at(moment, act, tell):
    """Tell, and act when the delivery is at a moment of it: before one of its instructions. Whether it came to that."""
    left = moment

    def trace(frame, kind, argument):
        nonlocal left
        if frame.f_code.co_filename != events.__file__:
            return None
        frame.f_trace_opcodes = True
        left -= kind == "opcode"
        if left < 0:
            sys.settrace(None)
            act()
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # which Python 3.12 wants to know before it traces
    sys.settrace(trace)
    try:
        tell()
    finally:
        sys.settrace(before)
    return left < 0


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("told_before", [False, True])
class TestAtAnyMoment:
    """Of a delivery, whether the thread of the hook has to begin or is there already."""

    @pytest.fixture
    def new_hooks(self, told_before, monkeypatch):
        def make(hook):
            hooks = Hooks([hook])
            if told_before:
                hooks.emit(RESET)
            return hooks

        monkeypatch.setattr(events, "IDLE", 0.01)
        return make

    def test_it_can_be_interrupted_and_the_next_event_is_heard(self, new_hooks, caplog):
        for moment in itertools.count():
            heard = []
            hooks = new_hooks(heard.append)
            heard.clear()
            with suppress(KeyboardInterrupt):
                if not at(moment, interrupt, lambda hooks=hooks: hooks.emit(STORED)):
                    break
            hooks.emit(UPDATED)
            assert heard in ([STORED, UPDATED], [UPDATED]), moment
            assert hooks._deliveries[0][1]._line.empty(), moment
        assert heard == [STORED]
        assert moment > 100
        assert warnings_in(caplog) == []

    def test_the_handler_of_a_signal_may_tell_something(self, new_hooks, caplog):
        for moment in itertools.count():
            heard = []
            hooks = new_hooks(heard.append)
            heard.clear()
            if not at(moment, lambda hooks=hooks: hooks.emit(UPDATED), lambda hooks=hooks: hooks.emit(STORED)):
                break
            assert heard in ([STORED, UPDATED], [UPDATED, STORED]), moment
        assert heard == [STORED]
        assert moment > 100
        assert warnings_in(caplog) == []


def run(program):
    """Run it as a process of its own, and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestProcesses:
    def test_one_ends_though_a_hook_hangs(self):
        out = run("""
            import threading
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.base import events as delivery
            delivery.PATIENCE = 0.05
            memory = AgentMemory(":memory:", hooks=[lambda event: threading.Event().wait()])
            memory.conversation("chat").add_user_message("Hello")
            print("done")
        """)
        assert out == "done\n"

    @pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a thread cannot be sent a signal")
    def test_one_can_be_interrupted_while_it_waits(self):
        out = run("""
            import logging, signal, threading
            from langchain_agentmem.base import events as delivery
            from langchain_agentmem.base.events import Hooks
            delivery.PATIENCE = 600

            def hook(event):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                gate.wait()
                raise SystemExit

            def logged(record):
                print(record.exc_info[0].__name__, flush=True)
                told.set()

            logging.getLogger("langchain_agentmem.base.events").addFilter(logged)
            gate, told = threading.Event(), threading.Event()
            hooks = Hooks([hook])
            try:
                hooks.emit("event")
            except KeyboardInterrupt:
                print("interrupted")
            gate.set()
            told.wait()
        """)
        assert out == "interrupted\nSystemExit\n"

    @pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a signal is not of a thread")
    def test_one_can_be_interrupted_just_before_it_waits(self):
        """When the signal is there already, the wait that then begins does not notice it."""
        out = run("""
            import ctypes, operator, signal, threading
            from collections import deque
            from functools import partial
            from langchain_agentmem.base import events as delivery
            from langchain_agentmem.base.events import Hooks
            delivery.PATIENCE = 600
            signal_comes = partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)

            class Call(delivery._Call):
                def __init__(self, *arguments, **options):
                    super().__init__(*arguments, **options)
                    self.ended = Ended(self.ended)

            class Ended:
                def __init__(self, lock):
                    self.release, self.wait = lock.release, lock.acquire
                def acquire(self, timeout):
                    # In one step of the interpreter, so that nobody looks for signals between the two.
                    [_, ended] = deque(map(operator.call, [signal_comes, partial(self.wait, timeout=timeout)]))
                    return ended

            delivery._Call = Call
            try:
                Hooks([lambda event: threading.Event().wait()]).emit("event")
            except KeyboardInterrupt:
                print("interrupted")
        """)
        assert out == "interrupted\n"

    def test_one_may_tell_while_it_ends(self):
        out = run("""
            from langchain_agentmem.base.events import Hooks, MessageUpdated

            class Last:
                def __init__(self):
                    self.hooks = Hooks([lambda event, say=print: say(event.message_id)])
                def __del__(self):
                    self.hooks.emit(self.event)

            last = Last()
            last.event = MessageUpdated(namespace=(), conversation_id="c", message_id="at last")
            last.hooks.emit(MessageUpdated(namespace=(), conversation_id="c", message_id="at first"))
        """)
        assert out == "at first\nat last\n"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.parametrize("hanging", [False, True])
    def test_a_child_tells_its_hooks_too(self, hanging):
        out = run(f"""
            import os, threading, warnings
            from langchain_agentmem.base import events as delivery
            from langchain_agentmem.base.events import Hooks, MessageUpdated
            warnings.simplefilter("ignore", DeprecationWarning)  # that other threads run
            delivery.PATIENCE = 0.05 if {hanging} else 600

            def event(name):
                return MessageUpdated(namespace=(), conversation_id="c", message_id=name)

            parent = os.getpid()

            def hook(event):
                if {hanging} and os.getpid() == parent:
                    threading.Event().wait()
                heard.append(event.message_id)

            heard = []
            hooks = Hooks([hook])
            hooks.emit(event("in the parent"))
            hooks.emit(event("in the parent, too"))
            child = os.fork()
            if not child:
                heard.clear()
                hooks.emit(event("in the child"))
                while not heard:
                    pass
                print(heard, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        """)
        assert out == "['in the child']\n"


class BusOfTheOriginal:
    """As the bus of the original: `emit_nowait` needs a running loop, and drops the event without one."""

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

    async def test_the_bus_hears_where_a_loop_runs(self):
        bus = BusOfTheOriginal()
        context = EventContext("Researcher", bus)
        context.emit(RESET)
        await context.settle()

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

    def test_a_bus_that_hangs_holds_nobody_up(self, hung, caplog):
        class Bus:
            def emit(self, event):
                hung.wait()

        bus = Bus()
        EventContext("Researcher", bus).emit(RESET)
        # Whoever gives the same bus to another conversation waits no more.
        EventContext("Researcher", bus, session_id="another").emit(RESET)

        (record,) = warnings_in(caplog)
        assert "does not answer" in record.getMessage()
