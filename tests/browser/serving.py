"""A server of Studio, started by its command, and its pages."""

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
NAMESPACE_QUERY = "namespace=irena"
THREAD = f"/thread?{NAMESPACE_QUERY}&id={sample.GIFT}"
PAGES = {
    "overview": "/",
    "threads": "/threads",
    "thread": THREAD,
    "thread-memory": f"{THREAD}&show=memory",
    "thread-step": f"{THREAD}&number=7&show=diff",
    "thread-compactions": f"{THREAD}&show=compaction",
    "thread-prompts": f"{THREAD}&show=prompts",
    "conversation": f"/conversation?{NAMESPACE_QUERY}&id={sample.GIFT}",
    "memory": f"/memory?{NAMESPACE_QUERY}",
    "search": f"/search?q=walnuts&{NAMESPACE_QUERY}",
    "facts": f"/facts?{NAMESPACE_QUERY}",
    "experiences": "/experiences",
    "audit": f"/audit?{NAMESPACE_QUERY}",
    "chain": f"/audit/chain?{NAMESPACE_QUERY}&verify=1",
    "corrections": "/corrections",
    "correct": f"/correct?kind=core&{NAMESPACE_QUERY}&key=home",
    "erase": f"/erase?{NAMESPACE_QUERY}",
}
"""Paths of the pages by name."""


@contextmanager
def serving(database: Path, *options: str) -> Iterator[str]:
    """Serve Studio on a database by the command, and give the address that opens it."""
    command = [sys.executable, "-m", "langchain_agentmem", "studio", str(database), "--port", "0", "--user", "ada"]
    with subprocess.Popen([*command, *options], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            process.send_signal(signal.SIGINT)
