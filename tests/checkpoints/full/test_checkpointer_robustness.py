"""Concurrency, cancellation and `kill -9`: acknowledged puts are stored and nothing is half-written."""

import asyncio
import contextlib
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem import AgentMemory
from tests.checkpoints.graphs import Line, at, everything, ids, logging_graph, new_checkpoint

pytestmark = [pytest.mark.sqlite_suffices, pytest.mark.verified]


def in_threads(function, arguments):
    """Call a function once per argument, each in its own thread, and raise their errors."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


class TestConcurrency:
    def test_concurrent_puts_in_one_thread_are_all_stored(self, saver, memory):
        root = Line(saver).put({"a": ["root"], "b": "carried"})

        def put(n):
            line = Line(saver).fork(root)
            for step in range(5):
                saver.put_writes(line.put({"a": ["root", n, step]}), [("a", n), ("a", step)], f"task {n}")
                saver.put_writes(root, [("a", step)], f"task {n}-{step}")
            return line.config

        tips = in_threads(put, range(8))
        for n, tip in enumerate(tips):
            found = saver.get_tuple(tip)
            assert found.checkpoint["channel_values"] == {"a": ["root", n, 4], "b": "carried"}
            assert found.pending_writes == [(f"task {n}", "a", n), (f"task {n}", "a", 4)]
        assert len(saver.get_tuple(root).pending_writes) == 40
        listed = ids(saver.list(at()))
        assert len(listed) == len(set(listed)) == 41

    async def test_identical_concurrent_puts_are_stored_once(self, saver, memory):
        checkpoint = new_checkpoint({"a": ["x" * 1000]}, {"a": "1"})
        config = at(checkpoint_id=checkpoint["id"])

        async def put(n):
            await saver.aput(at(), checkpoint, {"step": 1}, {"a": "1"})
            await saver.aput_writes(config, [("a", "same"), ("b", "same")], "task")

        def put_too(n):
            saver.put_writes(config, [("a", "same"), ("b", "same")], "task")
            saver.put(at(), checkpoint, {"step": 1}, {"a": "1"})

        await asyncio.gather(asyncio.to_thread(in_threads, put_too, range(8)), *map(put, range(8)))
        [found] = saver.list(at())
        assert found.checkpoint == checkpoint
        assert found.pending_writes == [("task", "a", "same"), ("task", "b", "same")]

    def test_a_running_thread_can_be_pruned_and_copied(self, saver, memory):
        graph, ended = logging_graph(saver, "a", "b"), threading.Event()

        def disturb(n):
            while not ended.is_set():
                saver.prune(["t"])
                saver.copy_thread("t", f"copy {n}")
                for found in saver.list(at(f"copy {n}")):
                    assert {*found.checkpoint["channel_values"]} <= {"log", "__start__", "branch:to:a", "branch:to:b"}
                saver.delete_thread(f"copy {n}")

        with ThreadPoolExecutor(2) as threads:
            disturbing = [threads.submit(disturb, n) for n in range(2)]
            try:
                for turn in range(15):
                    graph.invoke({"log": [f"in {turn}"]}, at())
            finally:
                ended.set()
            for each in disturbing:
                each.result()
        log = [text for turn in range(15) for text in (f"in {turn}", "a", "b")]
        assert graph.get_state(at()).values["log"] == log


class TestCancellation:
    async def test_a_cancelled_put_is_atomic(self, url):
        luck, known = random.Random(7), []
        async with AgentMemory(url) as memory:
            saver = memory.checkpointer

            async def put(n):
                line = Line(saver, f"t{n % 5}")
                checkpoint, metadata, new = line.next({"a": [n], "b": f"b{n}"})
                config = at(f"t{n % 5}", checkpoint["id"])
                told = [n, config, "nothing"]
                known.append(told)
                await saver.aput(line.config, checkpoint, metadata, new)
                told[2] = "put"
                await saver.aput_writes(config, [("a", n), ("b", n)], "task")
                told[2] = "written"

            while len(known) < 96 or {heard for *_, heard in known} < {"nothing", "put", "written"}:
                tasks = [asyncio.create_task(put(len(known) + n)) for n in range(8)]
                for each in tasks:
                    for _ in range(luck.randrange(2_000)):
                        await asyncio.sleep(0)
                    each.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for n, config, heard in known:
                found = await saver.aget_tuple(config)
                if found is None:
                    assert heard == "nothing"
                    continue
                assert found.checkpoint["channel_values"] == {"a": [n], "b": f"b{n}"}
                both = [("task", "a", n), ("task", "b", n)]
                assert found.pending_writes == both or (heard != "written" and found.pending_writes == [])
            assert memory.admin.verify().problems == ()

    async def test_a_cancelled_run_can_be_resumed(self, saver, memory):
        began = asyncio.Event()

        async def waiting(_):
            began.set()
            await asyncio.Event().wait()

        whole = ["in", "a", "b", "c"]
        for durability in ("sync", "async", "exit"):
            graph = logging_graph(saver, "a", "b", "c", nodes={"b": waiting})
            running = asyncio.create_task(graph.ainvoke({"log": ["in"]}, at(durability), durability=durability))
            await began.wait()
            began.clear()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            # LangGraph lets its last puts run on; its CancelledError carries the task that they are in.
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
            graph = logging_graph(saver, "a", "b", "c")
            state = await graph.aget_state(at(durability))
            assert state.values.get("log", []) in ([["in", "a"]] if durability == "sync" else [[], ["in"], ["in", "a"]])
            again = None if state.tasks else {"log": ["in"]}
            assert (await graph.ainvoke(again, at(durability), durability=durability))["log"] == whole


@pytest.fixture
def killed(run_script):
    """Run a script that must end by `kill -9`."""

    def run(script, *arguments):
        done = run_script(script, *arguments)
        assert done.returncode == -signal.SIGKILL, done.stderr

    return run


class TestProcessKill:
    def test_a_thread_resumes_after_a_process_kill(self, url, killed):
        script = """
            import os, signal, sys
            from graphs import at, logging_graph
            from langchain_agentmem import AgentMemorySaver

            def kill(_):
                os.kill(os.getpid(), signal.SIGKILL)

            with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
                logging_graph(saver, "a", "b", "c").invoke({"log": ["1"]}, at(sys.argv[2]))
                graph = logging_graph(saver, "a", "b", "c", nodes={"b": kill})
                graph.invoke({"log": ["2"]}, at(sys.argv[2]), durability=sys.argv[2])
        """
        first = ["1", "a", "b", "c"]
        for durability in ("sync", "async", "exit"):
            killed(script, url, durability)
            with AgentMemory(url) as memory:
                graph = logging_graph(memory.checkpointer, "a", "b", "c")
                state = graph.get_state(at(durability))
                log = state.values["log"]
                if durability == "sync":
                    assert (log, state.next) == ([*first, "2", "a"], ("b",))
                assert log == [*first, "2", "a"][: len(log)]
                assert len(log) >= len(first)
                resumed = graph.invoke(None if state.tasks else {"log": ["2"]}, at(durability))
                assert resumed["log"] == [*first, "2", "a", "b", "c"]
                assert memory.admin.verify().problems == ()

    def test_puts_are_atomic_when_killed_at_any_statement(self, url, run_script):
        """One child for each statement, killed just before it; the last children finish."""
        script = """
            import os, signal, sys
            from graphs import Line
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.storage.engine import Engine
            from tests.support.transactions import Watched

            write = Engine.write

            def fatal(number):
                counted = iter(range(10_000))

                def pass_one(query):
                    if next(counted) == number:
                        os.kill(os.getpid(), signal.SIGKILL)

                def writing(engine, do):
                    def steps(tx):
                        value = do(Watched(tx, pass_one))
                        pass_one("commit")
                        return value
                    return write(engine, steps)

                return writing

            def work(number):
                with AgentMemory(sys.argv[1]) as memory:
                    line = Line(memory.checkpointer, f"t{number}")
                    line.put({"a": ["first"], "b": "carried"})
                    Engine.write = fatal(number)
                    line.put({"a": ["second", "x" * 100]})
                    line.saver.put_writes(line.config, [("a", 1), ("b", 2)], "task")

            for number in range(200):
                child = os.fork()
                if child == 0:
                    try:
                        work(number)
                    finally:
                        os._exit(0)
                _, status = os.waitpid(child, 0)
                if os.waitstatus_to_exitcode(status) == 0:
                    print(number)
                    break
        """
        done = run_script(script, url)
        assert done.returncode == 0, done.stderr
        seen = set()
        with AgentMemory(url) as memory:
            saver, last = memory.checkpointer, int(done.stdout)
            for number in range(last + 1):
                found = saver.get_tuple(at(f"t{number}"))
                if found.metadata["step"] == 0:
                    assert found.checkpoint["channel_values"] == {"a": ["first"], "b": "carried"}
                    assert found.pending_writes == []
                else:
                    assert found.checkpoint["channel_values"] == {"a": ["second", "x" * 100], "b": "carried"}
                    assert found.pending_writes in ([], [("task", "a", 1), ("task", "b", 2)])
                seen.add((found.metadata["step"], len(found.pending_writes)))
                assert len(everything(saver, f"t{number}")) == found.metadata["step"] + 1
            assert seen == {(0, 0), (1, 0), (1, 2)}
            assert memory.admin.verify().problems == ()
