"""Kill writers of every kind, have their disks fail and their tasks cancelled, and look what is left.

    python -m tests.faults                              200 kills and 50 other faults of each sort on each engine
    python -m tests.faults --engine sqlite --kills 1000 --others 0
    python -m tests.faults --engine sqlite --seed 7     the same again; a seed is printed first
    python -m tests.faults --kind erase --kills 100     of one kind of writer

PostgreSQL is a server of its own. Exits with 1 if anything acknowledged is lost, anything is half-written, or a
database does not open or verify.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.conftest import IN_MEMORY
from tests.distributed.servers import postgres
from tests.forking import Forks

from .kills import ENGINES, FAULTS, IMPORTS, Databases, Striker, strike
from .writers import KINDS


def main() -> int:
    """Kill, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--others", type=int, default=50)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    failed = False
    for engine in ENGINES:
        if given.engine in (None, engine):
            wanted = {fault: given.kills if fault == "die" else given.others for fault in FAULTS}
            failed |= _strike(engine, wanted, given)
    return failed


def _strike(engine: str, wanted: dict[str, int], given: argparse.Namespace) -> bool:
    failed = False
    with contextlib.ExitStack() as stack:
        home = IN_MEMORY if IN_MEMORY.is_dir() else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentmem-faults-", dir=home)))
        server = stack.enter_context(postgres(fsync="on", full_page_writes="on")).url() if engine == "postgres" else ""
        forks = stack.enter_context(Forks(folder, *IMPORTS))
        striker = Striker(Databases(engine, folder, server), forks, [given.kind] if given.kind else KINDS)
        for fault, count in wanted.items():
            if not (count and striker.kinds(fault)):
                continue
            began = time.monotonic()
            outcome = strike(striker, fault, count, given.seed, partial(print, file=sys.stderr, flush=True))
            failed |= bool(outcome.problems)
            found = Counter(each.what for _, each in outcome.problems)
            print(
                f"{engine:8} {fault:6} {sum(outcome.strikes.values()):5} times, {len(outcome.strikes)} kinds of "
                f"writers: {found['lost']} lost, {found['half-written']} half-written, {found['unopened']} unopened, "
                f"{found['stuck']} of no use, {found['unclean']} unclean; {time.monotonic() - began:.0f} s",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    sys.exit(main())
