"""Programs that need no start of Python: an interpreter with their imports forks for each of them.

A program runs in a process of its own and ends as any other does. What only a fresh interpreter would show (what it
imports, environment variables that Python reads as it starts) takes a real start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

FORKS = """
import gc, importlib, json, os, signal, sys, types

for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()  # what ends need not look at all that was imported
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.clear()
os.environ.update(order["environment"])
os.chdir(order["folder"])
for number, (path, flags) in enumerate(
    ((os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_APPEND) for path in order["outputs"]))
):
    os.dup2(os.open(path, flags), number)
sys.argv = order["arguments"]
main = sys.modules["__main__"] = types.ModuleType("__main__")  # where a program's classes are looked for
exec(compile(order["program"], "<program>", "exec"), main.__dict__)
"""

COMMAND = "import runpy; runpy.run_module('langchain_agentmem', run_name='__main__', alter_sys=True)"
"""The program that is our command line."""

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what one program has compiled, the many after it need not
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANGSMITH")} | {
    "PYTHONPATH": str(Path(__file__).parent.parent),
    "PYTHONIOENCODING": "utf-8",
}
"""Nobody traces what runs here."""


class Forks:
    """One interpreter, which runs one program at a time.

    Args:
        folder: Where outputs are kept.
        imports: The modules that it imports before all.
        home: Where programs run, and can import what lies there. By default, where whoever starts them is.
    """

    def __init__(self, folder: Path, *imports: str, home: Path | None = None) -> None:
        self._home = home
        self._outputs = [folder / "output.txt", folder / "errors.txt"]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", FORKS, *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def start(self, program: str, *arguments: str, **environment: str) -> int:
        """Start a program, and give the number of its process."""
        for path in self._outputs:
            path.write_bytes(b"")
        order = {
            "program": program,
            "arguments": ["program", *arguments],
            "environment": ENVIRONMENT | environment,
            "folder": str(self._home or Path.cwd()),
            "outputs": [str(path) for path in self._outputs],
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._number()

    def end(self) -> subprocess.CompletedProcess[str]:
        """Wait until the program has ended."""
        code = self._number()
        output, errors = (path.read_text(encoding="utf-8") for path in self._outputs)
        return subprocess.CompletedProcess([], code, output, errors)

    def run(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        self.start(program, *arguments, **environment)
        return self.end()

    def run_killed(self, program: str, *arguments: str, lines: int, after: float) -> subprocess.CompletedProcess[str]:
        """Run a program, and kill it so many seconds after it has printed so many lines."""
        number = self.start(program, *arguments)
        deadline = time.monotonic() + 240
        while self._outputs[0].read_bytes().count(b"\n") < lines and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):  # it has ended before
            os.kill(number, signal.SIGKILL)
        return self.end()

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())
