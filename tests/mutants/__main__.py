"""How many small changes of the code the tests notice.

    python -m tests.mutants --map                    first of all: which tests run which lines; takes as long as they do
    python -m tests.mutants                          500 mutants of cosmic-ray's, with a seed that is printed
    python -m tests.mutants --seed 7 --jobs 2        the same again, two at a time
    python -m tests.mutants --seed 7 --again         those that survived, once more
    python -m tests.mutants --seed 7 --control       the tests that noticed something, on the original

Mutants are made of the code for storage, rewinding, compaction and scopes (`mutants.py`). On each those tests are run
that reach what it changes (`choosing.py`), the quickest of each file first, until one fails (`running.py`). A mutant
that survives a few is given more, twice. Tests that take three times as long as they should, and a minute, fail, too.

What was found stays in the folder of `--folder`, one line each, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.choosing import Reach, Timed, is_loaded, within
from tests.mutants.mutants import FOLDERS, ROOT, Mutant, read, sample
from tests.mutants.running import OPTIONS, Collected, Outcome, on_fresh, server

TESTS = (
    "base/test_namespaces.py", "test_scopes.py", "storage", "rewinding", "compaction", "test_whole_memory.py",
    "test_agent_memory.py", "conversations", "checkpoints", "stores", "threads", "upkeep", "injection", "layers",
    "facts",
)  # fmt: skip
"""Those that may run what mutants change."""
STAGES = ((6.0, 30), (25.0, 150), (100.0, 400))
"""Seconds that tests took when lines were written down, and how many tests; each stage adds its own."""


def main() -> int:
    """Run, and print how many were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="decides which mutants are sampled; printed")
    parser.add_argument("--sample", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "agentmem-mutants"))
    parser.add_argument("--map", nargs="*", metavar="TEST", help="write down which lines tests run; of some, or of all")
    parser.add_argument("--only", default="", help="only mutants whose path begins so")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so long")
    parser.add_argument("--stages", type=int, default=len(STAGES), help="after how many a mutant is taken to survive")
    parser.add_argument("--again", action="store_true", help="run again what survived")
    parser.add_argument("--control", action="store_true", help="run the tests that noticed something on the original")
    asked = parser.parse_args()
    if sys.version_info < (3, 12):
        parser.error("it needs Python 3.12 or newer, for sys.monitoring")
    if importlib.util.find_spec("cosmic_ray") is None:
        parser.error("it needs cosmic-ray: pip install -e '.[dev,mutants]'")
    asked.folder.mkdir(parents=True, exist_ok=True)
    lines = asked.folder / "lines.jsonl"
    if asked.map is not None:
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "tests.mutants.lines"]
        tests = asked.map or [f"tests/{each}" for each in TESTS]
        environment = os.environ | {"MUTANTS_LINES": str(lines)}
        return subprocess.run([*command, *tests], cwd=ROOT, env=environment, check=False).returncode
    if not lines.exists():
        parser.error("which tests run which lines is not known yet: run it with --map first")
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    sampled, count = kept(asked.folder / f"sample-{seed}-{asked.sample}.json", seed, asked.sample)
    print(f"{len(sampled)} of {count} mutants", flush=True)
    run = Run(Reach(lines), asked.folder / f"results-{seed}.jsonl", time.monotonic() + 60 * asked.minutes, asked.stages)
    found = run.found()
    with server():
        if asked.control:
            return control(run.reach, found)
        done = {key for key, each in found.items() if each["killed"] or not asked.again}
        todo = {each: text for each, text in sampled.items() if each not in done and each.path.startswith(asked.only)}
        run.judge(todo, asked.jobs)
    tell(sampled, run.found())
    return 0


def kept(file: Path, seed: int, count: int) -> tuple[dict[Mutant, str], int]:
    """A sample, which is made once."""
    if not file.exists():
        made, every = sample(seed, count)
        file.write_text(json.dumps([every, [*made.items()]]), "utf-8")
    every, pairs = json.loads(file.read_text("utf-8"))
    return {Mutant(*mutant): text for mutant, text in pairs}, every


class Run:
    """Judges mutants, several at a time.

    Args:
        reach: Which tests run what.
        file: Where results are kept, one a line.
        end: When to begin no more, on the clock that `time.monotonic` reads.
        stages: After how many a mutant is taken to survive.
    """

    def __init__(self, reach: Reach, file: Path, end: float, stages: int) -> None:
        self.reach, self.file, self.end, self.stages = reach, file, end, stages

    def found(self) -> dict[Mutant, dict[str, Any]]:
        """The results that there are; of a mutant that was judged again, the newest."""
        lines = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        return {Mutant(*each["mutant"]): each for each in map(json.loads, lines)}

    def judge(self, todo: dict[Mutant, str], jobs: int) -> None:
        """Judge mutants."""
        run, before = self, self.found()

        class Forking:
            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                collected = Collected(session)
                run._spread(jobs, lambda number: run._functions(collected, [*todo.items()][number::jobs]))
                return True

        tests = {test.file for mutant in todo for test in self.reach.tests(mutant)}
        child = os.fork()
        if not child:
            code = pytest.main([*OPTIONS, *sorted(tests)], plugins=[Forking()])
            os._exit(int(code))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        done = self.found()
        rest = [each for each in todo.items() if done.get(each[0]) == before.get(each[0])]
        self._spread(jobs, lambda number: self._loaded(rest[number::jobs]))

    def _spread(self, jobs: int, work: Callable[[int], None]) -> None:
        children = []
        for number in range(jobs):
            if not (child := os.fork()):
                os.setsid()
                work(number)
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def _functions(self, collected: Collected, todo: list[tuple[Mutant, str]]) -> None:
        for mutant, text in todo:
            changes = {} if is_loaded(mutant) else collected.changes(mutant, text)
            if changes:
                self._judged(mutant, text, lambda tests, changes=changes: collected.on(tests, changes))

    def _loaded(self, todo: list[tuple[Mutant, str]]) -> None:
        for mutant, text in todo:
            self._judged(mutant, text, lambda tests, at=(mutant, text): on_fresh(tests, *at))

    def _judged(self, mutant: Mutant, text: str, on: Callable[[list[Timed]], Outcome]) -> None:
        begun, ran = time.monotonic(), 0
        if begun > self.end:
            return
        tests = left = self.reach.tests(mutant)
        outcome = Outcome(False, how="no test runs it")
        for seconds, count in STAGES[: self.stages]:
            chosen = within(left, seconds, count)
            if chosen and not outcome.killed:
                ran += len(chosen)
                outcome = on(chosen)
                left = [test for test in left if test not in set(chosen)]
        lines = difflib.ndiff(read(mutant.path).splitlines(), text.splitlines())
        result = outcome._asdict() | {
            "mutant": mutant, "change": [each for each in lines if each[0] in "+-"], "tests": ran, "of": len(tests),
            "seconds": round(time.monotonic() - begun, 1),
        }  # fmt: skip
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def control(reach: Reach, found: dict[Mutant, dict[str, Any]]) -> int:
    """Whether the tests that noticed something pass on the original."""
    by = {each["by"] for each in found.values() if each["killed"]}
    tests = [test for test in reach.named() if test.name in by]
    outcome = on_fresh(tests)
    print(f"{len(tests)} tests on the original: {f'{outcome.by} {outcome.how}' if outcome.killed else 'all pass'}")
    return int(outcome.killed)


def tell(sampled: Collection[Mutant], found: dict[Mutant, dict[str, Any]]) -> None:
    """Print what survived, and how many were noticed."""
    killed, every = Counter[str](), Counter[str]()
    for mutant in sampled:
        if mutant in found:
            result = found[mutant]
            every[mutant.part] += 1
            killed[mutant.part] += result["killed"]
            if not result["killed"]:
                print(f"{mutant.path}:{mutant.line} {mutant.operator} {result['how']}", *result["change"], sep="\n  ")
    for part in FOLDERS:
        print(f"{part:12} {killed[part]:4} of {every[part]:4} noticed")
    print(f"{'together':12} {killed.total():4} of {every.total():4} noticed")


if __name__ == "__main__":
    sys.exit(main())
