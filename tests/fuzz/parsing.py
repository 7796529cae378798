"""A fuzzer of the parsers of foreign input.

    python -m tests.fuzz.parsing                            300 inputs for each reader, with a seed that is printed
    python -m tests.fuzz.parsing --inputs 5000 queries      more of them for some
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
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from tests.fuzz.fence import raise_fence
from tests.fuzz.parsers import Target, inputs, targets

PATIENCE = 60
"""Seconds of the processor that one input may take."""
ROOM = 6 * 2**30
"""Bytes of memory that all of it may take."""


def target_of(name: str, folder: Path) -> Target:
    """Make a target, whose temporary files are in its folder."""
    tempfile.tempdir = str(folder)
    return targets(folder)[name]()


def told(error: BaseException) -> str:
    """What came out, and where from."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "langchain_agentmem/" in each.filename]
    at = " > ".join(f"{each.filename.split('langchain_agentmem/')[-1]}:{each.lineno}" for each in frames[-4:])
    return f"{type(error).__name__}: {error!s:.200} at {at or 'nowhere of ours'}"


def with_seed(names: list[str], count: int, seed: int) -> int:
    """Read inputs that a seed decides, and tell what fails; gives how many failures there are."""
    failures: dict[str, Path] = {}
    kept = Path(tempfile.mkdtemp(prefix="agentmem-fuzz-"))
    raise_fence(kept)
    for name in names:
        folder = kept / name
        folder.mkdir()
        target, slowest, begun = target_of(name, folder), (0.0, b""), time.process_time()
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.parsing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="Default: all.")
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--read", type=Path)
    given = parser.parse_args()
    names = given.names or list(targets(Path()))
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    if given.read is not None:
        data = given.read.read_bytes()
        target_of(names[0], Path(tempfile.mkdtemp(prefix="agentmem-fuzz-")))(data)
        return 0
    print(f"seed {given.seed}", flush=True)
    return 1 if with_seed(names, given.inputs, given.seed) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
