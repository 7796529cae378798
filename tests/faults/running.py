"""Runs a kind of writer in its own process, and injects a fault.

The process leaves nothing to chance: clock, ids and what is random count, and nothing is done in the background. So it
writes the same each time, and what goes wrong goes wrong at the same place.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg

from langchain_agentmem import AgentMemory
from langchain_agentmem.base import clock
from langchain_agentmem.base.clock import EPOCH
from langchain_agentmem.errors import AgentMemoryError
from langchain_agentmem.messages import role_rounds
from langchain_agentmem.storage.background import Task
from tests.conftest import CountingIds, SteppingClock
from tests.word_embeddings import WordEmbeddings

from .states import State, committed, looking
from .steps import STEPS, dying_at
from .writers import KINDS, Kind, Place

DIMS = 16
PAGE = 4096
STARTED = datetime(2026, 2, 1, tzinfo=UTC) - EPOCH
GOES_ON = "goes on"
"""The output of a process whose memory is still usable."""
REFUSED = "refused"
"""The prefix of the error that ended its calls."""


def opened(url: str, name: str, now: Callable[[], datetime] | None = None) -> AgentMemory:
    """The memory as a kind of writer has it, with ids that count and a clock that steps."""
    stepping, ids = SteppingClock(), CountingIds()
    stepping.pass_time(days=30)
    ids.count = 1_000_000
    options: dict[str, Any] = {}
    if KINDS[name].base == "embedded":
        options["index"] = {"embed": WordEmbeddings(DIMS), "dims": DIMS}
    return AgentMemory(url, clock=now or stepping, new_id=ids, **options)


def run(kind: Kind, at: Place, done: Callable[[str], object] = lambda _: None) -> None:
    """Make a kind's calls, and tell the name of each when it has returned."""
    calls, result = kind.calls(at), None
    while True:
        try:
            wanted = calls.send(result)
        except StopIteration:
            return
        result = wanted.wait()
        done(wanted.name)


async def arun(kind: Kind, at: Place, done: Callable[[str], object]) -> None:
    """The same, awaited."""
    calls, result = kind.calls(at), None
    while True:
        try:
            wanted = calls.send(result)
        except StopIteration:
            return
        result = await wanted.aawait()
        done(wanted.name)


def settled() -> None:
    """Have nothing left to chance in this process."""
    counted = itertools.count(1)
    began = STARTED // timedelta(microseconds=1) * 1000
    Task.wake = lambda _: None  # type: ignore[method-assign,assignment,misc]
    os.urandom = lambda size: next(counted).to_bytes(size, "big")
    secrets.token_hex = lambda size=32: f"{next(counted):0{2 * (size or 32)}x}"
    time.time_ns = lambda: began + 1000 * next(counted)
    clock.uuid7 = lambda: UUID(int=next(counted))  # type: ignore[assignment]
    role_rounds.datetime = _Still  # type: ignore[misc]


class _Still(datetime):
    """The time stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return (EPOCH + STARTED).astimezone(tz)


class Written:
    """One run of a writer.

    Args:
        url: Of the database.
        name: The kind.
        folder: For files.
        seen: The file for what is committed.
        number: Where something goes wrong; a negative one means nowhere.
    """

    def __init__(self, url: str, name: str, folder: str, seen: str, number: int) -> None:
        self.url, self.kind, self.folder, self.seen, self.number = url, KINDS[name], Path(folder), Path(seen), number

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def die(self) -> int:
        """The process is killed before a step. If it is not, what is committed is looked at before each."""
        STEPS.before = dying_at(self.number)
        states: list[State] = []
        with contextlib.ExitStack() as stack:
            if self.number < 0:
                look = stack.enter_context(contextlib.closing(looking(self.url)))
                STEPS.before = lambda _: states.append(look.state())
            with self._opened() as memory:
                run(self.kind, self._place(memory), self._acknowledge)
            STEPS.step()
            STEPS.before = None
        self.seen.write_text(json.dumps(states), encoding="utf-8")
        return STEPS.count - 1

    def live(self) -> int:
        """Nothing goes wrong; somebody else may end the process."""
        STEPS.before = lambda _: None
        with self._opened() as memory:
            run(self.kind, self._place(memory), self._acknowledge)
        return 0

    def cancel(self) -> int:
        """The task is cancelled at an await."""
        return asyncio.run(self._cancelled())

    async def _cancelled(self) -> int:
        memory = self._opened()
        cancelling = _Cancelling(arun(self.kind, self._place(memory), self._acknowledge), self.number)
        try:
            await cancelling
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        self._look()
        await memory.conversation("afterwards").aadd(role="user", content="life goes on")
        self._check(memory)
        await memory.aclose()
        return cancelling.count

    def limit(self) -> int:
        """No file can be written beyond so many pages, as if the disk failed there: SQLite hears of an I/O error."""
        log = Path(f"{self.url}-wal")
        with self._opened() as memory:
            if self.number >= 0:
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                size = log.stat().st_size if log.exists() else 0
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + PAGE * self.number + PAGE // 2, hard))
            self._try(memory)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            pages = log.stat().st_size // PAGE
            self._go_on(memory)
        return pages

    def full(self) -> int:
        """The database may not grow by more than so many pages, as if the disk were full."""
        with self._opened() as memory:
            engine: Any = memory.database.engine
            [before] = engine._writer.execute("pragma page_count").fetchone()
            if self.number >= 0:
                engine._writer.execute(f"pragma max_page_count = {before + self.number}")
            self._try(memory)
            engine._writer.execute("pragma max_page_count = 4294967294")
            [after] = engine._writer.execute("pragma page_count").fetchone()
            self._go_on(memory)
        return int(after - before)

    def cut(self) -> int:
        """All connections to the server are cut before a step."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            mine = admin.info.backend_pid

            def before(number: int) -> None:
                if number == self.number:
                    admin.execute(
                        "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                        "where datname = current_database() and pid <> %s and backend_type = 'client backend'",
                        [mine],
                    )

            STEPS.before = before
            try:
                memory = self._opened()
            except AgentMemoryError as error:
                _say(f"{REFUSED} {error!r}")
                memory = self._opened()
            with memory:
                self._try(memory)
                STEPS.before = None
                self._go_on(memory)
        return STEPS.count

    def leap(self) -> int:
        """The clock leaps, forwards and backwards, by up to years."""
        luck = Random(self.number)
        real = time.time_ns

        def by() -> timedelta:
            return luck.choice((0, 0, 1, -1)) * timedelta(seconds=luck.choice((1e-6, 1, 3600, 40_000_000)))

        time.time_ns = lambda: real() + by() // timedelta(microseconds=1) * 1000
        with opened(self.url, self.kind.name, lambda: EPOCH + STARTED + by()) as memory:
            self._acknowledge("open")
            run(self.kind, self._place(memory), self._acknowledge)
            self._go_on(memory)
        return 0

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _opened(self) -> AgentMemory:
        memory = opened(self.url, self.kind.name)
        self._acknowledge("open")
        return memory

    def _place(self, memory: AgentMemory) -> Place:
        return Place(memory, self.url, self.folder)

    def _acknowledge(self, name: str) -> None:
        STEPS.step()
        _say(f"acknowledged {STEPS.count} {name}")

    def _try(self, memory: AgentMemory) -> None:
        try:
            run(self.kind, self._place(memory), self._acknowledge)
        except AgentMemoryError as error:
            _say(f"{REFUSED} {error!r}")

    def _go_on(self, memory: AgentMemory) -> None:
        """See that the same memory is still of use."""
        self._look()
        memory.conversation("afterwards").add(role="user", content="life goes on")
        self._check(memory)

    def _look(self) -> None:
        self.seen.write_text(json.dumps(committed(self.url)), encoding="utf-8")

    def _check(self, memory: AgentMemory) -> None:
        assert len(memory.conversation("afterwards")) == 1
        assert (report := memory.admin.verify()).ok, report.problems
        engine: Any = memory.database.engine
        assert not engine._calls.running, "a call is still running"
        if engine.dialect == "postgres":
            assert engine._pool._count == len(engine._pool._idle), "a connection is not given back"
        _say(GOES_ON)


class _Cancelling:
    """Awaits something, and cancels the task at one of its awaits.

    Attributes:
        count: How many there were.
    """

    def __init__(self, coroutine: Any, last: int) -> None:
        self._inner, self._last, self.count = coroutine.__await__(), last, 0

    def __await__(self) -> Iterator[Any]:
        step: Callable[[], Any] = partial(self._inner.send, None)
        while True:
            try:
                wanted = step()
            except StopIteration:
                return
            task = asyncio.current_task()
            if self.count == self._last and task is not None:
                task.cancel()
            self.count += 1
            try:
                step = partial(self._inner.send, (yield wanted))
            except BaseException as error:  # noqa: BLE001 - it is raised where it belongs
                step = partial(self._inner.throw, error)


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Write, as a program of its own: `url kind folder seen fault number`.

    It prints a line after each call, and in the end at how many places the fault can happen.
    """
    url, name, folder, seen, fault, number = sys.argv[1:]
    settled()
    STEPS.install(Path(folder))
    size = getattr(Written(url, name, folder, seen, int(number)), fault)()
    _say(f"size {size}")
