"""Another process on the same database that executes the actions of a script one by one.

Every action has a process of its own, forked from one that has loaded everything and holds nothing open. It may be
told to kill itself, with `kill -9`, between two statements. Two processes may do one action each at the same time.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from langchain_agentmem.storage.postgres import PostgresEngine
from langchain_agentmem.storage.sqlite import SqliteEngine
from langchain_agentmem.storage.transaction import Transaction
from tests.support.transactions import Watched

from .adapters import Real
from .graphs import Now
from .oracle import World
from .worlds import random_script

ROOT = Path(__file__).parents[2]
SERVE = "from tests.rewinding.processes import serve; serve()"


APART = 1_000_000
"""Number of names reserved for each process."""


class Statements:
    """Counts the statements and commits of this process, in all its threads, and ends it before a certain one.

    Args:
        last: How many to let pass. Default: all.

    Attributes:
        count: How many there were.
    """

    def __init__(self, last: int | None = None) -> None:
        self.count, self._last = 0, last
        self._lock = threading.Lock()
        for each in (SqliteEngine, PostgresEngine):
            each.read = self._counted(each.read)  # type: ignore[method-assign]
            each.write = self._counted(each.write)  # type: ignore[method-assign]

    def _pass_one(self, query: str) -> None:
        del query
        with self._lock:
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1

    def _counted(self, run: Any) -> Any:
        def counted(engine: Any, do: Any) -> Any:
            def operation(tx: Transaction) -> Any:
                value = do(Watched(tx, self._pass_one))
                self._pass_one("commit")
                return value

            return run(engine, operation)

        return counted


def act(url: str, known: dict[str, Any], action: dict[str, Any], last: int | None, beside: int) -> dict[str, Any]:
    """Do an action.

    Args:
        url: The database.
        known: What the world knows.
        action: The action.
        last: How many statements to let pass before the end of this process.
        beside: Which of several processes this is that do something at the same time; 0 if it is alone.
    """
    world = World(Real(url))
    world.learn(known)
    Now.world = world
    statements = Statements(last)
    if beside:
        world.strangers, world.names = True, world.names + beside * APART
        world.differences, world.checks, world.excused, world.outcomes = [], 0, 0, Counter()
        world.do(0, action)
    else:
        world.perform(0, action)
    count = statements.count
    world.close()
    return world.known() | {"statements": count}


def serve() -> None:
    """Fork for each line, after a graph has run: what is imported only then is not imported in every fork."""
    with contextlib.closing(World(Real(":memory:"))) as world:
        for number, action in enumerate(random_script(0)["actions"][:4]):
            world.perform(number, action)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                found: Any = act(*pickle.loads(base64.b64decode(line)))
            except BaseException as error:  # noqa: BLE001 - it is told to who asked
                found = repr(error)
            with os.fdopen(writing, "wb") as answer:
                answer.write(base64.b64encode(pickle.dumps(found)))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            said = answer.read().decode()
        os.waitpid(child, 0)
        print(said, flush=True)


class Processes:
    """Runs actions in other processes."""

    def __enter__(self) -> Self:
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.server.communicate()

    def perform(self, world: World, action: dict[str, Any], last: int | None = None) -> int | None:
        """Do an action in another process and take over its results.

        Returns:
            How many statements it took, or None where it was killed before the end.
        """
        self._ask(world, action, last, 0)
        found = self._answer()
        if found is None:
            return None
        count: int = found.pop("statements")
        world.learn(found)
        return count

    def perform_with(self, other: Processes, world: World, actions: Sequence[dict[str, Any]]) -> None:
        """Do two actions at the same time in two processes, and take over their results."""
        both = (self, other)
        for number, (processes, action) in enumerate(zip(both, actions, strict=True)):
            processes._ask(world, action, None, number + 1)
        world.learn_beside([found for each in both if (found := each._answer()) is not None])

    def _ask(self, world: World, action: dict[str, Any], last: int | None, beside: int) -> None:
        asked = pickle.dumps((world.adapter.url, world.known(), action, last, beside))  # type: ignore[attr-defined]
        assert self.server.stdin is not None
        self.server.stdin.write(base64.b64encode(asked).decode() + "\n")
        self.server.stdin.flush()

    def _answer(self) -> dict[str, Any] | None:
        assert self.server.stdout is not None
        said = self.server.stdout.readline().strip()
        if not said:
            return None
        found = pickle.loads(base64.b64decode(said))
        assert isinstance(found, dict), found
        return found
