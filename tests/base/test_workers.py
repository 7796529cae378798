"""Async twins: the method runs in a worker, its coroutines on the caller's loop; cancellation."""

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
import random
import threading
from contextvars import ContextVar
from functools import partial
from unittest import mock

import pytest

from langchain_agentmem.base import concurrency
from langchain_agentmem.base.concurrency import (
    Workers,
    awaited,
    check_cancelled,
    is_in_worker,
    iterate_in_worker,
    release_slot,
    run_cancellable,
    run_in_worker,
    run_on_callers_loop,
)
from tests.support.waiting import cancelled

WHO = ContextVar("who", default=None)


class Part:
    def get(self, key: str, *, count: int = 1) -> str:
        """Read a value."""
        return f"{key} {count} {threading.current_thread().name}"

    aget = awaited(get)


class TestAsyncTwins:
    async def test_twin_keeps_signature_and_docstring(self):
        assert inspect.iscoroutinefunction(Part.aget)
        assert (Part.aget.__name__, Part.aget.__qualname__, Part.aget.__doc__) == ("aget", "Part.aget", "Read a value.")
        assert inspect.signature(Part.aget) == inspect.signature(Part.get)
        assert await Part().aget("a", count=2) == f"a 2 {concurrency.THREAD_NAME}"

    async def test_twin_calls_overridden_methods(self):
        class Other(Part):
            def get(self, key, *, count=1):
                return super().get(key, count=count + 1)

        assert (await Other().aget("a")).startswith("a 2 ")

    async def test_functions_can_have_twins(self):
        assert await awaited(len)([1, 2]) == 2
        assert await awaited(lambda number: 2 * number)(2) == 4

    async def test_worker_sees_but_cannot_change_callers_context(self):
        def look():
            seen = WHO.get()
            WHO.set("changed")
            return seen, is_in_worker()

        WHO.set("caller")
        assert await run_in_worker(look) == ("caller", True)
        assert (WHO.get(), is_in_worker()) == ("caller", False)

    async def test_exceptions_propagate_stop_iteration_as_runtime_error(self):
        for error, expected in ((KeyError("k"), KeyError), (StopIteration(), RuntimeError)):

            def fail(error=error):
                raise error

            with pytest.raises(expected):
                await run_in_worker(fail)

    async def test_iterator_runs_in_a_worker(self):
        names = (threading.current_thread().name for _ in range(3))
        assert [each async for each in iterate_in_worker(names)] == [concurrency.THREAD_NAME] * 3


class TestCallersLoop:
    async def test_coroutine_runs_on_callers_loop_with_worker_context(self):
        async def answer():
            return asyncio.get_running_loop(), WHO.get(), is_in_worker()

        def work():
            WHO.set("worker")
            return run_on_callers_loop(answer)

        assert await run_in_worker(work) == (asyncio.get_running_loop(), "worker", False)

    async def test_waiting_worker_frees_its_place(self, monkeypatch):
        monkeypatch.setattr(concurrency, "read_workers", Workers(1))
        begun, go_on = asyncio.Semaphore(0), asyncio.Event()

        async def answer():
            begun.release()
            return await go_on.wait()

        waiting = [asyncio.create_task(run_in_worker(partial(run_on_callers_loop, answer))) for _ in range(3)]
        assert await run_in_worker(lambda: "served") == "served"
        for _ in waiting:
            await begun.acquire()
        go_on.set()
        assert await asyncio.gather(*waiting) == [True] * 3

    async def test_scheduled_user_code_is_not_in_a_worker(self):
        loop = asyncio.get_running_loop()

        async def look():
            return is_in_worker()

        def work():
            return asyncio.run_coroutine_threadsafe(look(), loop)  # copies the context of the worker

        assert await asyncio.wrap_future(await run_in_worker(work)) is False

    @pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutError, KeyError])
    async def test_error_before_coroutine_is_raised_in_worker(self, error):
        def make():
            raise error

        with pytest.raises(error):
            await asyncio.wait_for(run_in_worker(partial(run_on_callers_loop, make)), 60)

    async def test_nested_event_loop_needs_no_other_worker(self, monkeypatch):
        monkeypatch.setattr(concurrency, "read_workers", Workers(1))

        async def answer():
            return asyncio.get_running_loop()

        def nested():
            WHO.set("nested")
            return run_on_callers_loop(answer), threading.current_thread()

        def work():
            return asyncio.run(run_in_worker(nested)), threading.current_thread(), WHO.get()

        (loop, inner), outer, who = await asyncio.wait_for(run_in_worker(work), 60)
        assert (loop, inner, who) == (asyncio.get_running_loop(), outer, None)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
    async def test_forked_child_is_not_a_worker(self):
        def work():
            child = os.fork()
            if not child:
                os._exit(is_in_worker())
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert await run_in_worker(work) == 0


class TestClosedLoop:
    @pytest.mark.parametrize("begun", [True, False])
    def test_waiting_worker_is_cancelled_when_loop_closes(self, begun, monkeypatch):
        monkeypatch.setattr(concurrency, "LOOP_CHECK_SECONDS", 0.01)
        loop, closed, ended, outcomes = asyncio.new_event_loop(), threading.Event(), threading.Event(), []
        stop = partial(loop.call_soon_threadsafe, loop.stop)

        async def answer():
            asyncio.current_task()._log_destroy_pending = False
            stop()
            await asyncio.Event().wait()

        def work():
            try:
                if not begun:
                    stop()
                    closed.wait(60)
                run_on_callers_loop(answer)
            except BaseException as error:
                outcomes.append(type(error))
                for always in (False, True):
                    with contextlib.suppress(asyncio.CancelledError, RuntimeError):
                        outcomes.append(run_on_callers_loop(answer, always=always))
                raise
            finally:
                ended.set()

        task = loop.create_task(run_in_worker(work))
        loop.run_forever()
        loop.close()
        closed.set()
        assert ended.wait(60)
        assert outcomes == [asyncio.CancelledError]
        task._log_destroy_pending = False

    def test_asyncio_run_waits_for_started_calls(self):
        async def main():
            call, task = await Begun.in_a_worker()
            threading.Timer(0.05, call.go_on.set).start()
            return call, task

        call, task = asyncio.run(main())
        assert (call.ended, task.cancelled()) == (True, True)


class Begun:
    """A function that says that it has begun, and waits until it may go on."""

    def __init__(self):
        self.begun, self.go_on, self.ended = asyncio.Event(), threading.Event(), False
        self._loop = asyncio.get_running_loop()

    def __call__(self):
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(60)
        self.ended = True
        check_cancelled()

    @classmethod
    async def in_a_worker(cls):
        """One that has begun there, and its task."""
        call = cls()
        task = asyncio.create_task(run_in_worker(call))
        await call.begun.wait()
        return call, task


class TestCancellation:
    async def test_cancelled_coroutine_skips_exception_handlers(self):
        heard, begun = [], asyncio.Event()

        async def answer():
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard.append(True)
                raise

        def work():
            try:
                return run_on_callers_loop(answer)
            except Exception as error:  # noqa: BLE001 - none is to be caught
                pytest.fail(f"{error!r} was handled")

        task = asyncio.create_task(run_in_worker(work))
        await begun.wait()
        await cancelled(task)
        assert heard == [True]

    @pytest.mark.parametrize("error", [None, KeyError("k"), concurrent.futures.CancelledError(), StopIteration()])
    async def test_possibly_hanging_calls_get_their_own_thread(self, error, caplog):
        go_on, names, ended = threading.Event(), [], threading.Event()

        def hang():
            names.append((threading.current_thread().name, WHO.get(), is_in_worker()))
            assert go_on.wait(60)
            ended.set()
            if error is not None:
                raise error
            return "answer"

        def work():
            try:
                return run_cancellable(hang)
            except Exception as failure:  # noqa: BLE001 - a cancellation is none
                return failure

        WHO.set("caller")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await run_in_worker(work)
        go_on.set()
        assert ended.wait(60)
        found = await run_in_worker(work)
        assert isinstance(found, RuntimeError) if isinstance(error, StopIteration) else found == (error or "answer")
        assert names == [(f"{concurrency.THREAD_NAME}-call", "caller", False)] * 2
        assert caplog.text == ""


class TestWorkerPool:
    async def test_readers_do_not_wait_behind_writers(self):
        calls = [Begun() for _ in range(concurrency.write_workers.size + 2)]
        writing = [asyncio.create_task(run_in_worker(call, writes=True)) for call in calls]
        await calls[0].begun.wait()
        assert await run_in_worker(lambda: "read") == "read"
        for call in calls:
            call.go_on.set()
        await asyncio.gather(*writing)

    async def test_thread_count_is_limited(self, monkeypatch):
        monkeypatch.setattr(concurrency, "read_workers", Workers(3))
        lock, now, most = threading.Lock(), [], []

        def work(number):
            with lock:
                now.append(number)
                most.append(len(now))
            threading.Event().wait(0.001)
            with lock:
                now.remove(number)

        await asyncio.gather(*(run_in_worker(partial(work, number)) for number in range(40)))
        assert max(most) == 3

    async def test_no_call_waits_while_places_are_free(self, monkeypatch):
        workers, random_ = Workers(3), random.Random(1)
        monkeypatch.setattr(concurrency, "read_workers", workers)
        state, wrong = workers._state, []

        def stuck():
            with state.lock:
                return not state.queue.empty() and state.threads < workers.size

        def look():
            for _ in range(1000):  # between two steps of `submit` it may be so
                if not stuck():
                    return
                threading.Event().wait(0.001)
            wrong.append(True)

        def work(seconds, *, elsewhere):
            with release_slot() if elsewhere else contextlib.nullcontext():
                threading.Event().wait(seconds)
            look()

        for _ in range(30):
            calls = [partial(work, random_.random() / 500, elsewhere=random_.random() < 0.5) for _ in range(50)]
            await asyncio.gather(*map(run_in_worker, calls))
            await asyncio.sleep(random_.random() / 500)
        assert not wrong
        assert (state.idle, state.queue.empty()) == (state.threads, True)

    async def test_unstartable_thread_fails_call_without_losing_place(self, monkeypatch):
        workers = Workers(2)
        monkeypatch.setattr(concurrency, "read_workers", workers)

        refused = mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread"))
        with refused, pytest.raises(RuntimeError, match="new thread"):
            await run_in_worker(dict)
        call, first = await Begun.in_a_worker()
        with refused:
            second = asyncio.create_task(run_in_worker(lambda: "later"))
            await asyncio.sleep(0.01)  # it begins in the next turn of the loop and asks for a thread in another
        call.go_on.set()
        await first
        assert (await second, workers._state.threads) == ("later", 1)
