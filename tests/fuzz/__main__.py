"""A fuzzer of the whole public interface.

    python -m tests.fuzz                          2,000 calls, with a seed that is printed
    python -m tests.fuzz --calls 200000           as many as before a release
    python -m tests.fuzz --seed 7                 the same calls again
    python -m tests.fuzz --sweep                  each hostile value for each argument of each method, instead
    python -m tests.fuzz --url postgresql://…     on a server, in a database that it may empty

Methods are found by looking, arguments are ordinary and hostile, calls are made and awaited on a living database.
Nothing but our own errors may come out, those that the method's docstring names, and Python's own where a call does not
fit the signature. No call may take longer than `PATIENCE`. After each sequence the database verifies, and its export
can be imported and is the same then. In a sweep of a SQLite file, a call that is refused leaves every row as it was. A
failure is told once for each place, with the number of its call.

What reads what others wrote has a fuzzer of its own: `parsing.py`.

It runs in a process of its own, in a temporary folder with a fence around it (`fence.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import inspect
import itertools
import os
import secrets
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import MAX_ERROR_CHARS, AgentMemoryError
from langchain_agentmem.storage.sqlite import SqliteEngine
from tests.fuzz.fence import OutsideError, raise_fence
from tests.fuzz.surface import Method, is_expected, is_part, learns, methods_of, parts_of
from tests.fuzz.values import HOSTILE, Values
from tests.upkeep.random_memory import differences, readable

PATIENCE = 60
"""Seconds that one call may take, and the checks after a sequence."""
SEQUENCE = 250
"""Calls on one database."""


class Fuzzer:
    """Makes calls, and gathers what goes wrong.

    Args:
        seed: Decides everything.
        url: A server's database, that is emptied for each sequence. Default: files.
        folder: Where files are.
    """

    def __init__(self, seed: int, url: str | None, folder: Path) -> None:
        self.random = Random(seed)
        self.url = url
        self.folder = folder
        self.failures: dict[str, str] = {}
        self.came: Counter[str] = Counter()
        self.methods: set[str] = set()
        self.runner = asyncio.Runner()

    def run(self, calls: int) -> None:
        """Make so many calls."""
        made = 0
        for number in itertools.count():
            if made >= calls:
                break
            count = min(SEQUENCE, calls - made)
            self._sequence(number, made, count)
            made += count
        self.runner.close()

    def sweep(self) -> None:
        """Give each argument of each method each hostile value, beside ordinary ones."""
        for number in itertools.count():
            with self._database(number) as (values, memory):
                if number == len(values.parts):
                    break
                self.sweep_part(values.parts[number], values, memory)
        self.runner.close()

    def sweep_part(
        self, part: Any, values: Values, memory: AgentMemory, hostile: Sequence[Any] = HOSTILE, *, awaited: bool = True
    ) -> None:
        """Give each argument of each method of a part each hostile value. A call that is refused writes nothing."""
        stored = self._stored(memory)
        for method in methods_of(part):
            if not awaited and (method.name.endswith(".ainvoke") or hasattr(type(part), method.name.partition("a")[2])):
                continue
            for name, (at, make) in itertools.product(method.signature.parameters, enumerate(hostile)):
                values.wrong = {name: make}
                what = f"{name}=HOSTILE[{at}] of {_name(method)}"
                came = self._guarded(what, partial(self._call, method, values), method)
                before, stored = stored, self._stored(memory)
                if not came and not learns(part) and stored != before and _rows(before) != _rows(stored):
                    self.failures.setdefault(f"written {what}", f"{what}: it was refused, and something was written")

    def _stored(self, memory: AgentMemory) -> bytes:
        """Every byte of a SQLite database."""
        engine = memory.database.engine
        if not isinstance(engine, SqliteEngine):
            return b""
        with engine._write_lock:
            return engine._writer.serialize()

    def _sequence(self, number: int, first: int, count: int) -> None:
        with self._database(number) as (values, _):
            for call in range(first, first + count):
                # Its own state, so that a call can be made again without those before it having given the same.
                method = self.random.choice(list(methods_of(self.random.choice(values.parts))))
                self._guarded(f"call {call} of {_name(method)}", partial(self._call, method, values), method)

    @contextlib.contextmanager
    def _database(self, number: int) -> Iterator[tuple[Values, AgentMemory]]:
        folder = self.folder / f"s{number}"
        (folder / "experiences").mkdir(parents=True)
        os.chdir(folder)
        values = Values(self.random, folder)
        with AgentMemory(self.url or str(folder / "memory.db")) as memory:
            if self.url is not None:
                memory.erase(namespace=())
            values.parts = parts_of(memory, folder)
            yield values, memory
            self._guarded(f"the checks of database {number}", lambda: self._check(memory, folder), None)

    def _call(self, method: Method, values: Values) -> None:
        arguments, named = self._arguments(method, values)
        self.methods.add(_name(method))
        fits = False
        try:
            method.signature.bind(*arguments, **named)
            fits = True
            if inspect.iscoroutinefunction(method.call):
                value = self.runner.run(method.call(*arguments, **named))
            else:
                value = method.call(*arguments, **named)
            value = self._consumed(value)
        except TypeError:
            if fits:
                raise
        else:
            values.learn(value)
            if is_part(value) and len(values.parts) < 60:
                values.parts.append(value)

    def _consumed(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            return list(itertools.islice(value, 50))
        if isinstance(value, AsyncIterator):

            async def some() -> list[Any]:
                found = []
                async with contextlib.aclosing(value) as every:  # type: ignore[type-var]
                    async for each in every:
                        found.append(each)
                        if len(found) >= 50:
                            break
                return found

            return self.runner.run(some())
        return value

    def _arguments(self, method: Method, values: Values) -> tuple[list[Any], dict[str, Any]]:
        arguments: list[Any] = []
        named: dict[str, Any] = {}
        for each in method.signature.parameters.values():
            if each.kind is each.VAR_POSITIONAL or (each.kind is each.VAR_KEYWORD and self.random.random() < 0.8):
                continue
            if each.kind is each.VAR_KEYWORD:
                named[self.random.choice(["limit", "content", "namespace", "obj", "x"])] = values.argument("x", "Any")
                continue
            if each.name not in values.wrong and each.default is not each.empty and self.random.random() < 0.6:
                continue
            named[each.name] = values.argument(each.name, str(each.annotation))
        if self.random.random() < 0.01:
            named["no_such_argument"] = 1
        return arguments, named

    def _guarded(self, what: str, do: Any, method: Method | None) -> bool:
        """Do something, and gather what goes wrong; tell whether nothing was raised."""
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        sys.stderr.write("")
        threads, came = threading.active_count(), False
        try:
            do()
            self.came["a value"] += 1
            came = True
        except OutsideError:
            raise
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            self.came[type(error).__name__] += 1
            if method is None or not is_expected(error, method.raises):
                self._failed(what, error)
            else:
                self._check_text(what, error)
        finally:
            faulthandler.cancel_dump_traceback_later()
            if threading.active_count() > threads + 200:
                self.failures.setdefault("threads", f"{what}: {threading.active_count()} threads")
        return came

    def _check_text(self, what: str, error: Exception) -> None:
        try:
            text = str(error)
            text.encode()
        except Exception as failure:  # noqa: BLE001 - as above
            self._failed(f"the text of what came of {what}", failure)
        else:
            if isinstance(error, AgentMemoryError) and len(text) > MAX_ERROR_CHARS:
                self.failures.setdefault(f"long {_place(error)}", f"{what}: a text of {len(text)} characters")

    def _failed(self, what: str, error: BaseException) -> None:
        key = f"{type(error).__name__} at {_place(error)}"
        if key not in self.failures:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "langchain_agentmem" in frame.filename][-4:]
            told = " > ".join(f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in ours)
            try:
                text = str(error)[:200]
            except Exception:  # noqa: BLE001 - as above
                text = "(which cannot be shown)"
            self.failures[key] = f"{what}: {type(error).__name__}: {text!a}\n    {told}"

    def _check(self, memory: AgentMemory, folder: Path) -> None:
        """The database is whole, and so is what is imported from its export, which exports the same."""
        report = memory.admin.verify()
        assert report.ok, f"verify(): {report.problems[:3]}"
        time.sleep(1.1)  # what an odd value gave a second to live has ended
        shown = readable(memory)
        memory.export(folder / "0.export")
        for number in (1, 2):
            with AgentMemory(":memory:") as other:
                other.import_(folder / f"{number - 1}.export")
                report = other.admin.verify()
                assert report.ok, f"verify() of the import: {report.problems[:3]}"
                other.export(folder / f"{number}.export")
                assert (differs := differences(shown, readable(other))) == {}, f"an import shows otherwise: {differs}"


def _rows(stored: bytes) -> list[str]:
    """The rows of a SQLite database."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(stored[:18] + b"\1\1" + stored[20:])  # a database in memory has no write-ahead log
        return [*connection.iterdump()]


def _name(method: Method) -> str:
    return f"{type(method.part).__name__}.{method.name}"


def _place(error: BaseException) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "langchain_agentmem/" in each.filename]
    return (
        f"{frames[-1].filename.split('langchain_agentmem/')[-1]}:{frames[-1].lineno}" if frames else "nowhere of ours"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--url")
    parser.add_argument("--sweep", action="store_true")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    warnings.simplefilter("ignore")
    faulthandler.enable()
    with tempfile.TemporaryDirectory(prefix="agentmem-fuzz-") as name:
        home = Path(name).resolve()
        inner = home / "a" / "b"  # whatever climbs by ".." stays within the fence
        inner.mkdir(parents=True)
        os.environ["TMPDIR"] = os.environ["HOME"] = tempfile.tempdir = str(home)
        os.chdir(inner)
        raise_fence(home)
        fuzzer = Fuzzer(given.seed, given.url, inner)
        try:
            fuzzer.sweep() if given.sweep else fuzzer.run(given.calls)
        finally:
            os.chdir(home)
            for failure in fuzzer.failures.values():
                print(f"FAILED {failure}")
            print(f"{len(fuzzer.methods)} methods; {dict(fuzzer.came.most_common())}", flush=True)
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that are under way are nobody's any more
