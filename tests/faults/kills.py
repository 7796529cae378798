"""Faults during writes, above all `kill -9`, and checks of the state after them.

A writer writes the same each time, so what is committed before each of its steps is known from one that is let live.
One that is killed before a step has to leave exactly that: so nothing is lost, and nothing is half-written. One that is
killed at any time has to leave one of the states from its last acknowledgement up to the next one, and so has one that
is cancelled, or whose disk fails.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

import psycopg

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError
from tests.conftest import CountingIds, SteppingClock
from tests.emptying import url_of
from tests.everything import fill
from tests.forking import Forks
from tests.importers import sources

from .running import REFUSED, opened, run
from .states import State, committed, counts
from .writers import KINDS, NS, Kind, Place

ENGINES = ("sqlite", "postgres")
IMPORTS = (
    "tests.faults.running",
    "tests.everything",
    "langchain_agentmem.parts",
    "langchain_agentmem.importers.import_runner",
)
PROGRAM = "from tests.faults.running import main; main()"
FAULTS: dict[str, str | None] = {
    "die": None, "cancel": None, "limit": "sqlite", "full": "sqlite", "cut": "postgres", "leap": None,
}  # fmt: skip
"""The faults of `running.Written`, each with its only engine, if it has one."""
KILLS = ("die", "live")
TRIED_AGAIN = ("lease", "search_unembedded", "search_vector")
"""Leases of background work; documents that could not be embedded together are embedded one by one."""
SEEN = "seen.json"
PATIENCE = 60.0
_OTHERS = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"


class Databases:
    """Databases that hold something of everything, as many as are wanted; and files to be imported.

    Args:
        engine: "sqlite" or "postgres".
        folder: Where files are.
        server: The URL of a PostgreSQL server.
    """

    def __init__(self, engine: str, folder: Path, server: str = "") -> None:
        self.engine, self.folder, self.server = engine, folder, server
        self.given = folder / "given"
        (self.given / "experiences").mkdir(parents=True)
        shutil.copy(sources.DATA / "file_chat_message_history.json", self.given / "chat.json")
        sources.opus(self.given).rename(self.given / "opus.json")
        with AgentMemory(clock=SteppingClock(), new_id=CountingIds()) as other:
            other.conversation("of another", NS).add(role="user", content="imported")
            other.layers("of another", NS).core.set("city", "Faro")
            other.store.put(("other",), "one", {"text": "thing"})
            other.export(self.given / "other.export")
        self._base = cache(self._made)

    def fresh(self, base: str) -> Place:
        """A copy of a base, and a folder with files; the memory is not open."""
        folder = self.folder / uuid.uuid4().hex
        shutil.copytree(self.given, folder)
        source = self._base("full" if base == "embedded" else base)
        if self.engine == "sqlite":
            return Place(None, str(shutil.copy(source, folder / "a.db")), folder)  # type: ignore[arg-type]
        return Place(None, self._create(source), folder)  # type: ignore[arg-type]

    def drop(self, at: Place) -> None:
        """Delete a copy."""
        shutil.rmtree(at.folder)
        if self.engine == "postgres":
            self._run(f'drop database "{_name_of(at.url)}" with (force)')

    def alone(self, url: str) -> None:
        """Wait until nobody is connected any more: the server may not know yet that a client is gone."""
        deadline = time.monotonic() + PATIENCE
        while self.engine == "postgres" and self._run(_OTHERS, _name_of(url)) != [(0,)]:
            assert time.monotonic() < deadline, "a killed client is still connected"
            time.sleep(0.002)

    def _made(self, base: str) -> str:
        url = str(self.folder / f"{base}.db") if self.engine == "sqlite" else self._create("template0")
        if base == "empty":
            if self.engine == "sqlite":
                Path(url).touch()
        else:
            with AgentMemory(url, clock=SteppingClock(), new_id=CountingIds()) as memory:
                fill(memory)
                memory.conversation("of a tenant", NS).add(role="user", content="I may move")
                memory.layers("of a tenant", NS).core.set("city", "Lisbon")
                memory.facts("of a tenant", NS).add_fact("user", "Ana", "lives in", "Lisbon")
                memory.store.put(NS, "one", {"text": "Ana grows quinces"})
        self.alone(url)
        return url if self.engine == "sqlite" else _name_of(url)

    def _create(self, template: str) -> str:
        name = f"faults_{uuid.uuid4().hex}"
        self._run(f'create database "{name}" template "{template}"')
        return url_of(self.server, name)

    def _run(self, sql: str, *given: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server, autocommit=True) as connection:
            cursor = connection.execute(sql, given or None)
            return cursor.fetchall() if cursor.description else []


class Course(NamedTuple):
    """The course of a writer without faults.

    Attributes:
        states: What is committed before each of its steps, and in the end.
        acknowledged: How many steps were done when opening was acknowledged, and each call.
    """

    states: list[State]
    acknowledged: list[int]


class Finding(NamedTuple):
    """A finding after a fault.

    Attributes:
        what: "lost", "half-written", "unopened", "unclean" or "stuck"; or "ended" if the writer came to its end before.
        details: More of it.
    """

    what: str
    details: str


class Striker:
    """Lets something go wrong while writers write.

    Args:
        databases: On copies of which they write.
        forks: What runs them.
        names: The only kinds of writers. Default: all.
    """

    def __init__(self, databases: Databases, forks: Forks, names: Collection[str] = KINDS) -> None:
        self.databases, self._forks, self._names = databases, forks, names
        self.course, self.size, self._seconds = cache(self._course), cache(self._size), cache(self._timed)

    def kinds(self, fault: str) -> list[Kind]:
        """The kinds of writers that a fault can happen to."""
        engine = self.databases.engine
        if FAULTS[fault] not in (None, engine):
            return []
        return [each for each in KINDS.values() if each.name in self._names and (each.awaits or fault != "cancel")]

    def strike(self, kind: Kind, fault: str, number: int) -> Finding | None:
        """Let a fault happen at one of its places."""
        return self._struck(kind, fault, number, None)

    def kill_after(self, kind: Kind, share: float) -> Finding | None:
        """Kill one after a share of the time that it takes."""
        return self._struck(kind, "live", -1, share * self._seconds(kind))

    def _course(self, kind: Kind) -> Course:
        at = self.databases.fresh(kind.base)
        done = self._run(kind, at, "die", -1)
        states = json.loads((at.folder / SEEN).read_text(encoding="utf-8"))
        self.databases.drop(at)
        course = Course(states, _acknowledged(done.stdout))
        names = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("acknowledged")]
        for name, first, end in zip(names, [0, *course.acknowledged], course.acknowledged, strict=False):
            commits = sum(one != other for one, other in pairwise(states[first:end]))
            assert commits <= 1 or name in kind.in_parts, f"{kind.name}: {name} is committed in {commits} parts"
        return course

    def _size(self, kind: Kind, fault: str) -> int:
        """At how many places a fault can happen."""
        if fault == "die":
            return len(self.course(kind).states) - 1
        if fault == "leap":
            return 2**32
        at = self.databases.fresh(kind.base)
        done = self._run(kind, at, fault, -1)
        self.databases.drop(at)
        return int(done.stdout.split()[-1])

    def _timed(self, kind: Kind) -> float:
        at = self.databases.fresh(kind.base)
        began = time.monotonic()
        self._run(kind, at, "live", -1)
        seconds = time.monotonic() - began
        self.databases.drop(at)
        return seconds

    def _run(self, kind: Kind, at: Place, fault: str, number: int) -> subprocess.CompletedProcess[str]:
        done = self._forks.run(*self._program(kind, at, fault, number))
        assert (done.returncode, done.stderr) == (0, ""), f"{kind.name}: {done.stderr}"
        return done

    def _program(self, kind: Kind, at: Place, fault: str, number: int) -> tuple[str, ...]:
        return PROGRAM, at.url, kind.name, str(at.folder), str(at.folder / SEEN), fault, str(number)

    def _struck(self, kind: Kind, fault: str, number: int, after: float | None) -> Finding | None:
        at = self.databases.fresh(kind.base)
        given = self._program(kind, at, fault, number)
        done = self._forks.run(*given) if after is None else self._forks.run_killed(*given, lines=0, after=after)
        try:
            if after is not None and done.returncode == 0:
                return Finding("ended", "")
            if (done.returncode, done.stderr) != (-signal.SIGKILL if fault in KILLS else 0, ""):
                return Finding("stuck", f"{done.returncode} {done.stderr[-3000:]}")
            self.databases.alone(at.url)
            killed = fault in KILLS
            found = committed(at.url) if killed else json.loads((at.folder / SEEN).read_text(encoding="utf-8"))
            count = len(_acknowledged(done.stdout))
            if f"{REFUSED} " in done.stdout and fault == "cut" and not kind.refusing:
                return Finding("stuck", done.stdout[-3000:])
            return self._judged(kind, fault, number, found, done.stdout) or self._opened(kind, at, count)
        finally:
            self.databases.drop(at)

    def _judged(self, kind: Kind, fault: str, number: int, found: State, output: str) -> Finding | None:
        """Whether what is committed may be."""
        course, count = self.course(kind), len(_acknowledged(output))
        if fault == "leap":
            return None  # times are others
        if fault == "cut" and f"{REFUSED} " not in output:  # so are ids where work began again
            last = course.states[-1]
            return None if counts(found) == counts(last) else self._differing(kind, found, last, count)
        steps = [0, *course.acknowledged, len(course.states)]
        may_be = [course.states[number]] if fault == "die" else course.states[steps[count] : steps[count + 1] + 1]
        left_out = TRIED_AGAIN if fault in ("limit", "full") else ()
        if _without(left_out, found) in [_without(left_out, each) for each in may_be]:
            return None
        return self._differing(kind, found, may_be[0], count)

    def _differing(self, kind: Kind, found: State, wanted: State, count: int) -> Finding:
        known = found in self.course(kind).states
        differs = sorted(name for name in found | wanted if found.get(name) != wanted.get(name))
        return Finding("lost" if known else "half-written", f"after {count - 1} calls, in {differs}")

    def _opened(self, kind: Kind, at: Place, count: int) -> Finding | None:
        try:
            with opened(at.url, kind.name) as memory:
                if problems := memory.admin.verify().problems:
                    return Finding("unclean", str(problems[:3]))
                memory.conversation("since then").add(role="user", content="life goes on")
                assert len(memory.conversation("since then")) == 1
                if kind.files is not None:
                    return self._files(kind, at._replace(memory=memory), count)
                if kind.in_parts:
                    return self._again(kind, at._replace(memory=memory))
        except AgentMemoryError as error:
            return Finding("unopened", repr(error))
        return None

    def _again(self, kind: Kind, at: Place) -> Finding | None:
        """Whether what was done in parts can be done again."""
        try:
            run(kind, at)
        except AgentMemoryError as error:
            return Finding("stuck", repr(error))
        problems = at.memory.admin.verify().problems
        return Finding("unclean", f"when it was called again: {problems[:3]}") if problems else None

    def _files(self, kind: Kind, at: Place, count: int) -> Finding | None:
        """Whether each file is whole or not there; and is, when it is written again."""
        assert kind.files is not None
        again = False
        try:
            for again in (False, True):
                if again:
                    for path in kind.files(at.folder):
                        path.unlink(missing_ok=True)
                    run(kind, at)
                for path, opening in kind.files(at.folder).items():
                    if not path.exists():
                        if count > 1 or again:
                            return Finding("lost", f"no {path.name}")
                        continue
                    with closing(opening(path)) as memory:
                        if problems := memory.admin.verify().problems:
                            return Finding("half-written", f"{path.name}: {problems[:3]}")
        except AgentMemoryError as error:
            return Finding("stuck" if again else "half-written", repr(error))
        return None


Strike: TypeAlias = tuple[Kind, str, Callable[[], Finding | None]]


def plan(striker: Striker, fault: str, count: int, seed: int) -> Iterator[Strike]:
    """So many faults, as many for each kind of writer, spread over all places; of kills one of three is at any time.

    Args:
        striker: Who lets them happen.
        fault: What goes wrong.
        count: How often.
        seed: Decides where.
    """
    kinds, luck = striker.kinds(fault), Random(f"{fault} {seed}")
    for number, kind in enumerate(kinds):
        share = count * (number + 1) // len(kinds) - count * number // len(kinds)
        if not share:
            continue
        size = striker.size(kind, fault)
        at_places = min(share - (share // 3 if fault == "die" else 0), size)
        for each in range(at_places):
            place = luck.randrange(size * each // at_places, size * (each + 1) // at_places)
            yield kind, f"{fault} {place} of {size}", partial(striker.strike, kind, fault, place)
        for _ in range(share - at_places if fault == "die" else 0):
            part = luck.random()
            yield kind, f"killed after {part:.3f} of its time", partial(striker.kill_after, kind, part)


class Outcome(NamedTuple):
    """The outcome of many faults.

    Attributes:
        strikes: How often each kind of writer was hit.
        problems: What was found, with where it was.
    """

    strikes: Counter[str]
    problems: list[tuple[str, Finding]]


def strike(striker: Striker, fault: str, count: int, seed: int) -> Outcome:
    """Let a fault happen many times.

    Args:
        striker: Who lets it happen.
        fault: What goes wrong.
        count: How often.
        seed: Decides where.
    """
    strikes, problems = Counter[str](), []
    for kind, where, happen in plan(striker, fault, count, seed):
        found = happen()
        if found is not None and found.what == "ended":
            continue
        strikes[kind.name] += 1
        if found is not None:
            problems.append((f"{striker.databases.engine} {kind.name}, {where}", found))
    return Outcome(strikes, problems)


def _acknowledged(output: str) -> list[int]:
    return [int(line.split()[1]) for line in output.splitlines() if line.startswith("acknowledged")]


def _without(names: Sequence[str], state: State) -> State:
    return {name: told for name, told in state.items() if name not in names}


def _name_of(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
