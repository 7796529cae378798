"""How events come to listeners: at any moment, from any thread, and whatever a listener does."""

import asyncio
import gc
import itertools
import os
import signal
import sys
import textwrap
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from langchain_agentmem.base import events
from langchain_agentmem.base.events import Hooks
from tests.base.listening import RESET, STORED, UPDATED, warnings_in

pytestmark = pytest.mark.sqlite_suffices


@pytest.mark.usefixtures("patient")
class TestAHookThatHangs:
    def test_what_stands_in_line_is_bounded(self, hung, heard, caplog, monkeypatch):
        def hangs(event):
            hung.wait()
            heard.append(event)

        monkeypatch.setattr(events, "MOST", 10)
        hooks = Hooks([hangs])
        for _ in range(25):
            hooks.emit(STORED)
        hung.set()
        heard.wait(11)  # those that stood in line, and the one that it was at
        assert ["does not answer" in each.getMessage() for each in warnings_in(caplog)] == [True, False]
        assert "10 events behind" in warnings_in(caplog)[1].getMessage()

        # It has caught up, and hears what happens from now on.
        hooks.emit(UPDATED)
        heard.wait(12)
        assert heard == [*[STORED] * 11, UPDATED]

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
        await asyncio.to_thread(heard.wait, 2)

        here = asyncio.get_running_loop()
        assert heard == [(STORED, here), (UPDATED, here)]

    def test_what_it_gives_when_the_loop_is_closed_is_dropped(self, hung, heard, caplog):
        async def tell(event):
            raise AssertionError

        def hangs(event):
            hung.wait()
            heard.append(event)
            return tell(event) if event is STORED else None

        async def program():
            hooks.emit(STORED)

        hooks = Hooks([hangs])
        asyncio.run(program())
        hung.set()
        hooks.emit(UPDATED)
        heard.wait(2)  # when it hears of another, it is done with the first
        assert len(warnings_in(caplog)) == 1

    async def test_settling_does_not_wait_for_ever(self, caplog, monkeypatch):
        async def hangs(event):
            await asyncio.Event().wait()

        hooks = Hooks([hangs])
        hooks.emit(STORED)
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        await hooks.settle()
        monkeypatch.setattr(events, "PATIENCE", 600)
        hooks.emit(STORED)
        await hooks.settle()
        (record,) = warnings_in(caplog)
        assert "does not answer" in record.getMessage()

    async def test_tasks_that_never_end_are_bounded(self, heard, caplog, monkeypatch):
        begun = []

        async def never_ends(event):
            begun.append(event)
            await asyncio.Event().wait()

        def hangs(event):
            heard.append(event)
            return never_ends(event)

        monkeypatch.setattr(events, "MOST", 10)
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        hooks = Hooks([hangs])
        hooks.emit(STORED)
        await hooks.settle()
        for number in range(25):
            hooks.emit(STORED)
            await asyncio.to_thread(heard.wait, number + 2)

        assert len(warnings_in(caplog)) == 2
        assert len(begun) == 10
        assert "10 events behind" in warnings_in(caplog)[1].getMessage()


@pytest.mark.usefixtures("patient")
class TestTheThreadOfAHook:
    """A hook does not notice that it has one."""

    def test_everything_is_heard_though_it_is_always_about_to_end(self, monkeypatch):
        monkeypatch.setattr(events, "IDLE", 0)
        heard = Counter()
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(Hooks([lambda number: heard.update([number])]).emit, range(500)))
        assert heard == Counter(range(500))

    def test_it_does_not_keep_the_hook_in_being(self, monkeypatch):
        class Hook:
            def __call__(self, event):
                pass

        class Other(Hook):
            serve = Hook.__call__

        monkeypatch.setattr(events, "IDLE", 60)
        hook, other, let_go = Hook(), Other(), threading.Event()
        hooks = Hooks([hook])
        hooks.emit(STORED)
        alive = weakref.ref(hook)
        weakref.finalize(other, let_go.set)
        hooks._deliveries[0][1]._line.put((other, None))
        del other
        assert let_go.wait(30)  # and of the call before it, too
        del hooks, hook
        gc.collect()
        assert alive() is None

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

    def test_it_can_be_interrupted_and_a_signals_handler_may_tell_something(self, new_hooks, caplog):
        for telling, other in ((False, [UPDATED]), (True, [UPDATED, STORED])):
            for moment in itertools.count():
                heard = []
                hooks = new_hooks(heard.append)
                heard.clear()
                act = (lambda hooks=hooks: hooks.emit(UPDATED)) if telling else interrupt
                with suppress(KeyboardInterrupt):
                    if not at(moment, act, lambda hooks=hooks: hooks.emit(STORED)):
                        break
                if not telling:
                    hooks.emit(UPDATED)
                assert heard in ([STORED, UPDATED], other), moment
                assert hooks._deliveries[0][1]._line.empty(), moment
            assert heard == [STORED]
            assert moment > 100
        assert warnings_in(caplog) == []


@pytest.fixture
def run(forks):
    """Run a program as a process of its own, and give what it prints."""

    def run(program):
        done = forks.run(textwrap.dedent(program))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


class TestProcesses:
    def test_one_ends_though_a_hook_hangs(self, run):
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
    def test_one_can_be_interrupted_while_it_waits(self, run):
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

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_a_child_tells_its_hooks_too(self, run):
        out = run("""
            import os, threading, warnings
            from langchain_agentmem.base import events as delivery
            from langchain_agentmem.base.events import Hooks, MessageUpdated
            warnings.simplefilter("ignore", DeprecationWarning)  # that other threads run
            delivery.PATIENCE = 0.05

            def event(name):
                return MessageUpdated(namespace=(), conversation_id="c", message_id=name)

            parent = os.getpid()

            def hook(event):
                if os.getpid() == parent:
                    threading.Event().wait()
                heard.append(event.message_id)

            heard = []
            hooks = Hooks([hook])
            hooks.emit(event("in the parent"))
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
