"""Fuzzes what reads what others wrote.

    python -m tests.fuzz.parsing                            300 inputs for each reader, with a seed that is printed
    python -m tests.fuzz.parsing --inputs 5000 queries      more of them for some
    python -m tests.fuzz.parsing --seconds 300              guided by coverage; pip install atheris
    python -m tests.fuzz.parsing --read INPUT queries       an input that was found

Readers are the targets of `parsers.py`. A reader may return, or raise one of our errors. It may take no more than
`PATIENCE` seconds of the processor, nor more memory than `ROOM`. What is found is kept in the folder that is printed.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

PATIENCE = 60
"""Seconds of the processor that one input may take."""
ROOM = 3 * 2**30
"""Bytes of memory that all of it may take."""
TARGETS = ("queries", "dates", "answers", "prompts", "yaml", "stored", "asked", "configs", "imports",
           "foreign", "exports", "database")  # fmt: skip
"""Their names; to look them up would load what is to be loaded with its coverage watched."""
SIZE = 4_096
"""Bytes of an input that is guided by coverage."""


def made(name: str, folder: Path) -> Any:
    """The target of a name."""
    from tests.fuzz.parsers import targets

    tempfile.tempdir = str(folder)
    return targets(folder)[name]()


def told(error: BaseException) -> str:
    """What came out, and where from."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "langchain_agentmem/" in each.filename]
    at = " > ".join(f"{each.filename.split('langchain_agentmem/')[-1]}:{each.lineno}" for each in frames[-4:])
    return f"{type(error).__name__}: {error!s:.200} at {at or 'nowhere of ours'}"


def with_seed(names: list[str], count: int, seed: int) -> int:
    """Read inputs that a seed decides, and tell what fails; gives how many failures there are."""
    from tests.fuzz.fence import raise_fence
    from tests.fuzz.parsers import inputs

    failures: dict[str, Path] = {}
    kept = Path(tempfile.mkdtemp(prefix="agentmem-fuzz-"))
    raise_fence(kept)
    for name in names:
        folder = kept / name
        folder.mkdir()
        target, slowest, begun = made(name, folder), (0.0, b""), time.process_time()
        for number, data in enumerate(inputs(target, count, Random(f"{seed} {name}"))):
            faulthandler.dump_traceback_later(10 * PATIENCE, exit=True)
            before = time.process_time()
            try:
                target(data)
            except Exception as error:  # noqa: BLE001 - it is what is looked for
                if (what := f"{name}: {told(error)}") not in failures:
                    failures[what] = folder / f"failed-{number}"
                    failures[what].write_bytes(data)
            slowest = max(slowest, (time.process_time() - before, data))
        faulthandler.cancel_dump_traceback_later()
        if slowest[0] > 1:
            (folder / "slow").write_bytes(slowest[1])
        if slowest[0] > PATIENCE:
            failures[f"{name}: {slowest[0]:.0f} s"] = folder / "slow"
        print(f"{name}: {time.process_time() - begun:.1f} s, the slowest {slowest[0]:.2f} s", flush=True)
    for what, path in failures.items():
        print(f"FAILED {what}\n    {path}", flush=True)
    return len(failures)


def by_coverage(name: str, seconds: int, folder: Path) -> None:
    """Read inputs that lead to code that was not run before, in this process, which ends with it."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["langchain_agentmem"]):
        from tests.fuzz.parsers import LONG, twisted

        target = made(name, folder)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def read(data: bytes) -> None:
        target(data * (LONG // len(data)) if target.repeats and data[:1] == b"\xfe" and len(data) < 20 else data)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        return twisted(data, random)[:most] if random.random() < 0.5 else atheris.Mutate(data, most)

    largest = max(SIZE, *(2 * len(each) for each in target.seeds))
    options = {"max_total_time": seconds, "timeout": PATIENCE, "rss_limit_mb": ROOM >> 20, "max_len": largest,
               "artifact_prefix": f"{folder}/found-", "print_final_stats": 1}  # fmt: skip
    given = [name, *(f"-{option}={value}" for option, value in options.items()), str(corpus)]
    atheris.Setup(given, read, custom_mutator=mutated)
    atheris.Fuzz()


def guided(names: list[str], seconds: int) -> int:
    """Have each target fuzzed in a process of its own; gives how many failed."""
    failed = 0
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix=f"agentmem-fuzz-{name}-"))
        with (folder / "log").open("w") as log:
            code = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--seconds", str(seconds), "--in", str(folder), name],
                stdout=log, stderr=log, check=False,
            ).returncode  # fmt: skip
        lines = (folder / "log").read_text(errors="replace").splitlines()
        runs = next((line for line in lines if "number_of_executed_units" in line), "?").split(":")[-1].strip()
        print(f"{name}: {runs} inputs{'' if code == 0 else f', FAILED: {folder}'}", flush=True)
        failed += code != 0
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.parsing")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Of {', '.join(TARGETS)}. Default: all.")
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--read", type=Path)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.names or list(TARGETS)
    if given.folder is not None:
        by_coverage(names[0], given.seconds, given.folder)
    if given.seconds is not None:
        return guided(names, given.seconds)
    resource.setrlimit(resource.RLIMIT_AS, (2 * ROOM, 2 * ROOM))
    if given.read is not None:
        data = given.read.read_bytes()
        made(names[0], Path(tempfile.mkdtemp(prefix="agentmem-fuzz-")))(data)
        return 0
    print(f"seed {given.seed}", flush=True)
    return 1 if with_seed(names, given.inputs, given.seed) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
