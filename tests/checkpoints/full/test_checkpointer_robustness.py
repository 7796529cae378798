"""Threads, processes, cancellations and `kill -9`: what was acknowledged is there, and nothing is half-written."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.checkpoints import checkpoint_codec
from langchain_agentmem.threads.thread_lines import ThreadAt
from tests.checkpoints.graphs import (
    Line,
    at,
    everything,
    id_in,
    ids,
    logging_graph,
    new_checkpoint,
    parallel_graph,
    run_script,
    start_script,
)

pytestmark = pytest.mark.sqlite_suffices


def in_threads(function, arguments):
    """Calls a function once for each argument, each in a thread of its own, and raises what they raise."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


class TestManyThreads:
    @pytest.mark.slow
    def test_each_runs_a_thread_of_its_own(self, saver, memory):
        graph = logging_graph(saver, "a", "b", "c")

        def run(n):
            for turn in range(4):
                graph.invoke({"log": [f"{n} {turn}"]}, at(f"t{n}"))
            return graph.get_state(at(f"t{n}")).values["log"]

        logs = in_threads(run, range(16))
        assert logs == [[text for turn in range(4) for text in (f"{n} {turn}", "a", "b", "c")] for n in range(16)]
        assert memory.admin.verify().problems == ()

    def test_many_put_in_one_thread(self, saver, memory):
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
        assert memory.admin.verify().problems == ()

    def test_who_writes_in_one_thread_takes_turns(self, saver, memory, monkeypatch):
        engine, root = memory.database.engine, Line(saver).put({"a": "root"})
        write, inside, seen = engine.write, [], []

        def writing(steps):
            inside.append(steps)
            time.sleep(0.01)
            seen.append(len(inside))
            inside.remove(steps)
            return write(steps)

        monkeypatch.setattr(engine, "write", writing)
        in_threads(lambda n: saver.put_writes(root, [("a", n)], f"task {n}"), range(6))
        assert seen == [1] * 6
        assert len(saver.get_tuple(root).pending_writes) == 6

    def test_nobody_waits_for_ever_for_a_turn(self, saver, monkeypatch):
        monkeypatch.setattr(checkpoint_codec, "LONGEST_TURN", 0.01)
        root = Line(saver).put({"a": "root"})
        with saver._coding.turn(ThreadAt("", "t")):
            saver.put_writes(root, [("a", "said")], "task")
        saver.put_writes(root, [("a", "again")], "task 2")
        assert len(saver.get_tuple(root).pending_writes) == 2

    async def test_the_same_put_many_times_at_once_is_stored_once(self, saver, memory):
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
        assert memory.admin.verify().problems == ()

    def test_a_thread_can_be_pruned_copied_and_deleted_while_it_runs(self, saver, memory):
        graph, ended = logging_graph(saver, "a", "b"), threading.Event()

        def disturb(n):
            while not ended.is_set():
                saver.prune(["t"])
                saver.copy_thread("t", f"copy {n}")
                for found in saver.list(at(f"copy {n}")):
                    assert found.checkpoint["channel_values"].keys() <= {
                        "log",
                        "__start__",
                        "branch:to:a",
                        "branch:to:b",
                    }
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
        assert memory.admin.verify().problems == ()


class TestTwoProcesses:
    SCRIPT = """
        import sys
        from graphs import Line, at, logging_graph
        from langchain_agentmem import AgentMemorySaver

        with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
            graph, root = logging_graph(saver, "a", "b"), saver.get_tuple(at("shared")).config
            line = Line(saver).fork(root)
            print("ready", flush=True)
            sys.stdin.readline()
            for turn in range(10):
                graph.invoke({"log": [f"in {turn}"]}, at(sys.argv[2]))
                saver.put_writes(root, [("a", turn)], f"{sys.argv[2]}-{turn}")
                line.put({"a": [sys.argv[2], turn]})
    """

    @pytest.mark.slow("in every form")
    def test_they_use_one_database_and_one_thread(self, url):
        with AgentMemory(url) as memory:
            saver = memory.checkpointer
            graph = logging_graph(saver, "a", "b")
            root = Line(saver, "shared").put({"a": []})
            processes = [start_script(self.SCRIPT, url, f"p{n}") for n in range(2)]
            for process in processes:
                assert process.stdout.readline() == "ready\n"
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
            for turn in range(10):
                graph.invoke({"log": [f"in {turn}"]}, at("p2"))
                saver.put_writes(root, [("a", turn)], f"p2-{turn}")
            for process in processes:
                process.communicate(timeout=60)
            assert [process.returncode for process in processes] == [0, 0]
            log = [text for turn in range(10) for text in (f"in {turn}", "a", "b")]
            assert [graph.get_state(at(f"p{n}")).values["log"] for n in range(3)] == [log] * 3
            assert len(saver.get_tuple(root).pending_writes) == 30
            values = [found.checkpoint["channel_values"]["a"] for found in saver.list(at("shared"))]
            assert sorted(map(str, values)) == sorted(
                ["[]", *(str([f"p{n}", turn]) for n in range(2) for turn in range(10))]
            )
            assert memory.admin.verify().problems == ()


async def cancelled_at_random(moments, *tasks):
    for each in tasks:
        for _ in range(moments.randrange(4)):
            await asyncio.sleep(moments.random() * 0.004)
        each.cancel()
        if moments.random() < 0.5:
            await asyncio.sleep(0)
            each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class TestCancellation:
    async def test_a_put_is_there_whole_or_not_at_all(self, url):
        moments, known = random.Random(7), []
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
                await cancelled_at_random(moments, *tasks)
            for n, config, heard in known:
                found = await saver.aget_tuple(config)
                if found is None:
                    assert heard == "nothing"
                    continue
                assert found.checkpoint["channel_values"] == {"a": [n], "b": f"b{n}"}
                both = [("task", "a", n), ("task", "b", n)]
                assert found.pending_writes == both or (heard != "written" and found.pending_writes == [])
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_cancelled_run_can_be_resumed(self, url, durability):
        moments = random.Random(3)
        names = ["a", "b", "c", "d"]

        def slow(name):
            async def node(_):
                await asyncio.sleep(0.001)
                return {"log": [name]}

            return node

        async with AgentMemory(url) as memory:
            graph = logging_graph(memory.checkpointer, *names, nodes={name: slow(name) for name in names})
            whole = ["in", *names]
            for n in range(20):
                config = at(f"t{n}")
                running = asyncio.create_task(graph.ainvoke({"log": ["in"]}, config, durability=durability))
                await asyncio.sleep(moments.random() * 0.03)
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    assert (await running)["log"] == whole
                # LangGraph lets its last puts run on; its CancelledError carries the task that they are in.
                await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
                state = await graph.aget_state(config)
                log = state.values.get("log", [])
                assert log == whole[: len(log)]
                if log != whole:
                    again = None if state.tasks else {"log": ["in"]}
                    assert (await graph.ainvoke(again, config, durability=durability))["log"] == whole
                assert (await graph.aget_state(config)).values["log"] == whole
            assert memory.admin.verify().problems == ()


def killed(script, *arguments):
    """Run a script that is to end by `kill -9`."""
    done = run_script(script, *arguments)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout


class TestKilledInARun:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_the_thread_goes_on_where_it_was(self, url, durability):
        script = """
            import os, signal, sys
            from graphs import at, logging_graph
            from langchain_agentmem import AgentMemorySaver

            def kill(_):
                os.kill(os.getpid(), signal.SIGKILL)

            with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
                logging_graph(saver, "a", "b", "c").invoke({"log": ["1"]}, at())
                graph = logging_graph(saver, "a", "b", "c", nodes={"b": kill})
                graph.invoke({"log": ["2"]}, at(), durability=sys.argv[2])
        """
        killed(script, url, durability)
        with AgentMemory(url) as memory:
            graph = logging_graph(memory.checkpointer, "a", "b", "c")
            state, first = graph.get_state(at()), ["1", "a", "b", "c"]
            log = state.values["log"]
            if durability == "sync":
                assert (log, state.next) == ([*first, "2", "a"], ("b",))
            assert log == [*first, "2", "a"][: len(log)]
            assert len(log) >= len(first)
            resumed = graph.invoke(None if state.tasks else {"log": ["2"]}, at())
            assert resumed["log"] == [*first, "2", "a", "b", "c"]
            assert memory.admin.verify().problems == ()

    def test_what_a_sibling_had_finished_is_not_done_again(self, url):
        script = """
            import os, signal, sys, time
            from graphs import at, parallel_graph
            from langchain_agentmem import AgentMemorySaver

            with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
                def kill(_):
                    while not any(value == ["left"] for _, _, value in saver.get_tuple(at()).pending_writes):
                        time.sleep(0.005)
                    os.kill(os.getpid(), signal.SIGKILL)

                graph = parallel_graph(saver, left=lambda _: {"log": ["left"]}, right=kill)
                graph.invoke({"log": ["in"]}, at(), durability="sync")
        """
        killed(script, url)
        with AgentMemory(url) as memory:
            never = {"left": lambda _: pytest.fail("it ran again")}
            graph = parallel_graph(memory.checkpointer, **never, right=lambda _: {"log": ["right"]})
            assert graph.invoke(None, at())["log"] == ["in", "left", "right"]
            assert memory.admin.verify().problems == ()

    def test_at_every_statement_a_put_and_its_writes_are_all_or_nothing(self, url):
        """One child for each statement, killed just before it; the last children get to their ends."""
        script = """
            import os, signal, sys
            from graphs import Line
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.storage.engine import Engine

            write = Engine.write

            def fatal(number):
                counted = iter(range(10_000))

                def writing(engine, make):
                    def steps():
                        inner = make()
                        answer = None
                        while True:
                            if next(counted) == number:
                                os.kill(os.getpid(), signal.SIGKILL)
                            try:
                                statement = inner.send(answer)
                            except StopIteration as done:
                                if next(counted) == number:
                                    os.kill(os.getpid(), signal.SIGKILL)
                                return done.value
                            answer = yield statement
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


# Forks one runner for each line it is sent, so that a runner costs no start of Python; the runners are what is killed.
FORKS = """
    import os, random, sys
    from graphs import at, logging_graph
    from langchain_agentmem import AgentMemorySaver

    def run(url, number):
        luck = random.Random(number)
        out = os.fdopen(os.dup(1), "w", buffering=1)
        graph, config = logging_graph(AgentMemorySaver(url), "a", "b", "c"), at(f"t{number % 3}")
        for turn in range(1000):
            waiting = graph.get_state(config).tasks  # not `next`, where a task is missing that had finished
            durability = luck.choice(["sync", "async", "exit"])
            state = graph.invoke(None if waiting else {"log": [f"in {number}-{turn}"]}, config, durability=durability)
            print("did", config["configurable"]["thread_id"], len(state["log"]), file=out)

    for line in sys.stdin:
        url, number = line.split()
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.read(told, 1)  # nothing is said before the line that names this child
                run(url, int(number))
            finally:
                os._exit(1)
        print("child", child, flush=True)
        os.write(tell, b"!")
        os.close(told)
        os.close(tell)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


class TestKilledAtAnyPoint:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize(("kind", "kills"), [("sqlite", 30), ("postgres", 8)])
    def test_every_acknowledged_turn_is_there_and_every_thread_goes_on(self, kind, kills, new_database):
        url, pauses, did = new_database(kind), random.Random(5), {}
        forker = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(FORKS)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            for number in range(kills):
                forker.stdin.write(f"{url} {number}\n")
                forker.stdin.flush()
                _, pid = forker.stdout.readline().split()
                heard = [forker.stdout.readline()] if pauses.random() < 0.9 else []  # that one turn was done
                time.sleep(pauses.random() * 0.1)
                os.kill(int(pid), signal.SIGKILL)
                while "ended" not in (line := forker.stdout.readline()):
                    heard.append(line)
                for _, thread, length in map(str.split, heard):
                    did[thread] = int(length)
                assert line.endswith(f"ended -{signal.SIGKILL.value}\n")
                with AgentMemory(url) as memory:
                    check(memory, did)
                    if number % 10 == 0:
                        assert memory.admin.verify().problems == ()
        finally:
            os.killpg(forker.pid, signal.SIGKILL)  # with whatever runner is left
            forker.communicate()
        assert sum(did.values()) > kills  # they did get to run
        with AgentMemory(url) as memory:
            graph = logging_graph(memory.checkpointer, "a", "b", "c")
            for thread in did:
                if graph.get_state(at(thread)).tasks:
                    graph.invoke(None, at(thread))
                assert len(graph.invoke({"log": ["in"]}, at(thread))["log"]) % 4 == 0
            check(memory, did)
            assert memory.admin.verify().problems == ()


def check(memory, did):
    """Each thread holds what was acknowledged, in whole turns but for the last."""
    graph = logging_graph(memory.checkpointer, "a", "b", "c")
    for thread, length in did.items():
        state = graph.get_state(at(thread))
        log = state.values["log"]
        assert len(log) >= length
        for start in range(0, len(log), 4):
            turn = log[start : start + 4]
            assert turn[0].startswith("in")
            assert turn[1:] == ["a", "b", "c"][: len(turn) - 1]
        assert state.tasks or len(log) % 4 == 0
        assert id_in(state.config) == next(iter(ids(memory.checkpointer.list(at(thread), limit=1))))
