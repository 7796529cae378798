"""Runs tests on a mutant, in a process that is forked for it. No file is changed.

A process that has collected all tests forks for each mutant of a function, and the child gives the functions that are
loaded the mutant's code: so nothing but the tests themselves takes time. What a module does when it is loaded (a
constant, a default, a decorator) is done already there; its mutants get a process that loads our code, the one module
from what the mutant compiles to. What a test starts as a program of its own runs the original.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

import pytest

from tests.mutants.choosing import Timed
from tests.mutants.mutants import ROOT, Mutant, compiled, original, paths

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
OPTIONS = ("-x", "-q", "-s", "-n", "0", "-p", "no:cacheprovider")
PATIENCE = 60
"""Seconds that tests may take beyond three times as long as they should."""
SERVER = """
import sys
from pathlib import Path
import psycopg
from tests.emptying import started
server = started(Path(sys.argv[1]))
with psycopg.connect(server.get_uri(), autocommit=True) as connection:
    for setting in ("autovacuum", "fsync", "full_page_writes", "synchronous_commit"):
        connection.execute(f"alter system set {setting} = off")
    connection.execute("select pg_reload_conf()")
print(server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
"""


class Outcome(NamedTuple):
    """How tests ended on a mutant.

    Attributes:
        killed: Whether one of them noticed.
        by: That test; empty where nothing could be run at all, or nothing ended in time.
        how: What it said, shortened.
    """

    killed: bool
    by: str = ""
    how: str = ""


class _First:
    """Remembers the first failure."""

    failed: tuple[str, str] | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed = report.nodeid, str(report.longrepr if crash is None else crash.message)[:200]

    pytest_collectreport = pytest_runtest_logreport


class _Changed(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Changed(fullname, spec.origin)
        spec.loader.code = self._code
        return spec


@contextlib.contextmanager
def server() -> Iterator[None]:
    """A PostgreSQL server for all tests, unless AGENTMEM_TEST_POSTGRES names one."""
    if "AGENTMEM_TEST_POSTGRES" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        data = Path(folder, "data")
        data.mkdir()
        command = [sys.executable, "-c", SERVER, str(data)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            os.environ["AGENTMEM_TEST_POSTGRES"] = process.stdout.readline().strip()
            yield
            process.communicate()


def load(mutant: Mutant, text: str) -> None:
    """Have a module that is not loaded yet be loaded from another text."""
    code = compiled(text, mutant.path)
    assert code is not None
    sys.meta_path.insert(0, _Finder(mutant.module, code))


def on_fresh(tests: list[Timed], mutant: Mutant | None = None, text: str = "") -> Outcome:
    """Run tests, until one fails, where nothing of ours is loaded yet: on a mutant, or on the original."""

    def work(first: _First) -> str:
        if mutant is not None:
            load(mutant, text)
        code = pytest.main([*OPTIONS, *(test.name for test in tests)], plugins=[first])
        return "" if code in {0, 1} else f"ended with {code}"

    return _forked(work, tests)


class Collected:
    """All tests, collected once, with the functions that mutants change.

    Args:
        session: pytest's, with its items.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._session = session
        files = {str(ROOT / path) for path in paths()}
        gc.unfreeze()
        self._functions = [
            each for each in gc.get_objects() if type(each) is FunctionType and each.__code__.co_filename in files
        ]
        gc.collect()
        gc.freeze()

    def changes(self, mutant: Mutant, text: str) -> dict[FunctionType, CodeType]:
        """What the loaded functions become that a mutant changes; empty where it has to be loaded."""
        code = compiled(text, mutant.path)
        assert code is not None
        became = dict(_pairs(original(mutant.path), code))
        file = str(ROOT / mutant.path)
        found = [each for each in self._functions if each.__code__.co_filename == file and each.__code__ in became]
        changed = {each: became[each.__code__] for each in found}
        same = all(each.__code__.co_freevars == code.co_freevars for each, code in changed.items())
        return changed if same else {}

    def on(self, tests: list[Timed], changes: dict[FunctionType, CodeType]) -> Outcome:
        """Run tests, until one fails, with functions changed."""

        def work(first: _First) -> str:
            for function, code in changes.items():
                function.__code__ = code
            self._session.config.pluginmanager.register(first)
            items = [self._items[test.name] for test in tests]
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if first.failed is not None:
                    with contextlib.suppress(Exception):
                        self._session._setupstate.teardown_exact(None)
                    break
            return ""

        return _forked(work, tests)


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The pieces of code of a module that differ, with what became of them."""
    if old != new:
        yield old, new
        nested = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
        for pair in zip(*nested, strict=False):
            if pair[0].co_name == pair[1].co_name:
                yield from _pairs(*pair)


def _forked(work: Callable[[_First], str], tests: list[Timed]) -> Outcome:
    folder = tempfile.mkdtemp(prefix="agentmem-mutant-", dir=IN_MEMORY)
    child = os.fork()
    if not child:
        _child(work, Path(folder))
    patience = 3 * sum(test.seconds for test in tests) + PATIENCE
    deadline = time.monotonic() + patience
    ended = False
    while not ended and time.monotonic() < deadline:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if not ended:
            time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it has started goes, too
    os.waitpid(child, 0)
    told = Path(folder, "told.json")
    outcome = Outcome(*json.loads(told.read_text("utf-8"))) if told.exists() else None
    output = Path(folder, "output.txt").read_text("utf-8", "replace").strip()[-300:]
    shutil.rmtree(folder, ignore_errors=True)
    if outcome is None:
        return Outcome(True, how=f"died: {output}" if ended else f"did not end in {patience:.0f} seconds")
    if outcome.how.startswith("harness: "):
        raise AssertionError(f"{outcome.how} {output}")
    return outcome


def _child(work: Callable[[_First], str], folder: Path) -> NoReturn:
    first = _First()
    try:
        os.setsid()
        output = os.open(folder / "output.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, output, output)):
            os.dup2(file, number)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        os.chdir(ROOT)
        ended = work(first)
        outcome = Outcome(first.failed is not None or bool(ended), *(first.failed or ("", ended)))
    except BaseException as error:  # noqa: BLE001 - told to whoever waits for it
        outcome = Outcome(False, how=f"harness: {error!r}")
    with contextlib.suppress(BaseException):
        Path(folder, "told.json").write_text(json.dumps(outcome), "utf-8")
    os._exit(0)
