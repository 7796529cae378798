"""Studio as its command serves it, and its pages."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_agentmem.studio import sample
from tests.forking import ENVIRONMENT

CHROMIUM = shutil.which("chromium")
WHOSE = "namespace=irena"
THREAD = f"/thread?{WHOSE}&id={sample.GIFT}"
PAGES = {
    "overview": "/",
    "threads": "/threads",
    "thread": THREAD,
    "thread-memory": f"{THREAD}&show=memory",
    "thread-step": f"{THREAD}&number=7&show=diff",
    "thread-compactions": f"{THREAD}&show=compaction",
    "thread-prompts": f"{THREAD}&show=prompts",
    "conversation": f"/conversation?{WHOSE}&id={sample.GIFT}",
    "memory": f"/memory?{WHOSE}",
    "search": f"/search?q=walnuts&{WHOSE}",
    "facts": f"/facts?{WHOSE}",
    "experiences": "/experiences",
    "audit": f"/audit?{WHOSE}",
    "chain": f"/audit/chain?{WHOSE}&verify=1",
    "corrections": "/corrections",
    "correct": f"/correct?kind=core&{WHOSE}&key=home",
    "erase": f"/erase?{WHOSE}",
}
"""What is shown of the life, by what it is called."""


@contextmanager
def serving(database: Path, *options: str) -> Iterator[str]:
    """Serve Studio on a database by the command, and give the address that opens it."""
    command = [sys.executable, "-m", "langchain_agentmem", "studio", str(database), "--port", "0", "--user", "ada"]
    with subprocess.Popen([*command, *options], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            process.send_signal(signal.SIGINT)
