"""Processes that use one memory concurrently, and report their acknowledged writes.

    python -m tests.distributed.clients URL NAME

Each is told on its standard input for how many seconds it works, and answers with a report. In that time it says
something, searches for it, puts items and gets them, and runs two small graphs, one of them awaited, all at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import faulthandler
import json
import operator
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Self, TypedDict

from langchain_agentmem import AgentMemory
from tests.support.graphs import line

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
"""Seconds that a process may take beyond those that it was given; then it says where it hangs."""
CHAT, ITEMS = ("chat",), ("items",)
SHARED = "shared"


class State(TypedDict):
    turns: Annotated[int, operator.add]


@dataclasses.dataclass
class Report:
    """A report of a client.

    Attributes:
        name: Of the client.
        said: Messages in its own conversation.
        shared: Messages in the conversation of all.
        items: Items that it put.
        turns: Runs of its graph.
        awaited: Runs of the graph that it awaits.
        slowest: Seconds that the slowest step took.
        errors: What failed.
    """

    name: str
    said: int = 0
    shared: int = 0
    items: int = 0
    turns: int = 0
    awaited: int = 0
    slowest: float = 0.0
    errors: list[str] = dataclasses.field(default_factory=list)


def graph(memory: AgentMemory) -> Any:
    """A graph that counts its turns."""
    return line(memory.checkpointer, ("turn", lambda state: {"turns": 1}), state=State)


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


class Client:
    """One client; see the module."""

    def __init__(self, memory: AgentMemory, name: str) -> None:
        self.memory, self.name = memory, name
        self.report = Report(name)
        self._deadline = 0.0
        self._graph = graph(memory)

    def work(self, seconds: float) -> None:
        """Do everything at once."""
        self._deadline = time.monotonic() + seconds
        jobs = [self._say, self._say_to_all, self._put, self._turn]
        with ThreadPoolExecutor(len(jobs) + 1) as executor:
            for job in jobs:
                executor.submit(self._again, job)
            executor.submit(self._guarded, lambda: asyncio.run(self._await()))

    def _again(self, step: Callable[[], None]) -> None:
        def steps() -> None:
            while time.monotonic() < self._deadline:
                began = time.monotonic()
                step()
                self.report.slowest = max(self.report.slowest, time.monotonic() - began)

        self._guarded(steps)

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:  # noqa: BLE001 - told to the test
            self.report.errors.append(traceback.format_exc())

    def _say(self) -> None:
        text = f"{self.name} saw pelican{self.report.said}"
        self.memory.conversation(self.name, CHAT).add(role="user", content=text)
        self.report.said += 1
        found = self.memory.search(text, namespace=CHAT, conversation_id=self.name)
        assert text in [each.text for each in found], f"{text} was not found"

    def _say_to_all(self) -> None:
        self.memory.conversation(SHARED, CHAT).add(role="user", content=f"{self.name} {self.report.shared}")
        self.report.shared += 1

    def _put(self) -> None:
        value = {"n": self.report.items}
        self.memory.store.put((*ITEMS, self.name), str(self.report.items), value)
        self.report.items += 1
        item = self.memory.store.get((*ITEMS, self.name), str(value["n"]))
        assert item is not None, f"{value} is not there"
        assert item.value == value

    def _turn(self) -> None:
        state = self._graph.invoke({"turns": 0}, thread(self.name))
        self.report.turns += 1
        assert state == {"turns": self.report.turns}

    async def _await(self) -> None:
        while time.monotonic() < self._deadline:
            state = await self._graph.ainvoke({"turns": 0}, thread(f"{self.name} awaits"))
            self.report.awaited += 1
            assert state == {"turns": self.report.awaited}


class Process:
    """A client in a process of its own."""

    def __init__(self, url: str, name: str) -> None:
        self._open = ExitStack()
        self._problems = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is
        command = [sys.executable, "-m", __spec__.name, url, name]
        self._process = self._open.enter_context(
            subprocess.Popen(
                command, cwd=ROOT, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._problems
            )
        )
        self._open.callback(self._process.kill)

    def begin(self, seconds: float) -> None:
        """Let it work."""
        with suppress(BrokenPipeError):  # it could not open the memory, and `end` says why
            self._process.stdin.write(b"%r\n" % seconds)

    def end(self) -> Report:
        """Wait until it has worked.

        Raises:
            AssertionError: It hung, or could not open the memory.
        """
        line = self._process.stdout.readline()
        assert line, self._problem()
        return Report(**json.loads(line))

    def use(self, seconds: float = 1.0) -> None:
        """Let it work, which must succeed."""
        self.begin(seconds)
        assert self.end().errors == []

    def close(self) -> None:
        """Let it close the memory, and end.

        Raises:
            AssertionError: It hung.
        """
        self._process.stdin.close()
        assert self._process.wait(2 * PATIENCE) == 0, self._problem()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._open:
            if kind is None:
                self.close()

    def _problem(self) -> str:
        self._process.wait(2 * PATIENCE)
        self._problems.seek(0)
        return self._problems.read().decode(errors="replace")


def run_clients(url: str, count: int = 3, seconds: float = 6.0) -> list[Report]:
    """Let processes use a memory at the same time, and close it."""
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(url, f"client {number}")) for number in range(count)]
        for process in processes:
            process.begin(seconds)
        return [process.end() for process in processes]


def missing(memory: AgentMemory, reports: Sequence[Report]) -> list[str]:
    """Return the reported writes that a memory does not contain exactly."""
    shared = [message.text for message in memory.conversation(SHARED, CHAT).messages]
    run, problems = graph(memory), []
    for each in reports:
        items = memory.store.search((*ITEMS, each.name), limit=each.items + 100)
        found = {
            "said": [message.text for message in memory.conversation(each.name, CHAT).messages],
            "shared": [text for text in shared if text.startswith(f"{each.name} ")],
            "items": sorted(item.value["n"] for item in items),
            "turns": run.get_state(thread(each.name)).values,
            "awaited": run.get_state(thread(f"{each.name} awaits")).values,
        }
        expected = {
            "said": [f"{each.name} saw pelican{number}" for number in range(each.said)],
            "shared": [f"{each.name} {number}" for number in range(each.shared)],
            "items": list(range(each.items)),
            "turns": {"turns": each.turns},
            "awaited": {"turns": each.awaited},
        }
        problems += [f"{each.name}, {kind}: {found[kind]}" for kind in expected if found[kind] != expected[kind]]
    return problems


def main(url: str, name: str) -> None:
    """Be a client."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    with AgentMemory(url) as memory:
        client = Client(memory, name)
        for seconds in map(float, sys.stdin):
            faulthandler.dump_traceback_later(seconds + PATIENCE, exit=True)
            client.work(seconds)
            print(json.dumps(dataclasses.asdict(client.report)), flush=True)
            faulthandler.dump_traceback_later(10 * PATIENCE, exit=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
