"""Break each promise on purpose, and see whether the tests notice.

    python -m tests.mutants.sabotages [--full] [NUMBER …]

Each sabotage changes one place of a copy of the package, and runs the ring on it until a test fails. `tests/README.md`
has the results.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Sabotage(NamedTuple):
    """A change that breaks a promise of the package.

    Attributes:
        what: The number of the promise, and what is broken.
        module: The module that is changed.
        old: The text that is replaced; it stands there once.
        new: The text in its place.
        where: The folder of tests that is run before all others.
    """

    what: str
    module: str
    old: str
    new: str
    where: str


SABOTAGES = (
    Sabotage(
        "1: the last of several messages is not stored",
        "conversations/message_log.py",
        "    new = entries\n",
        "    new = entries[:-1] if len(entries) > 1 else entries\n",
        "conversations",
    ),
    Sabotage(
        "1: conversations keep fifty messages without a setting",
        "conversations/log_memory.py",
        "now, retention = self._now_argument(), self._retention",
        "from langchain_agentmem.messages.role_rounds import Retention\n"
        "        now, retention = self._now_argument(), self._retention or Retention(keep_last=50)",
        "conversations",
    ),
    Sabotage(
        "2: histories are not repaired",
        "messages/history_repair.py",
        "    if valid_length(messages) == len(messages):\n",
        "    if messages:\n",
        "messages",
    ),
    Sabotage(
        "2: calls without a result get no result",
        "messages/history_repair.py",
        'for call in calls_of(message) if call["id"] not in result_indexes]',
        "for call in ()]",
        "messages",
    ),
    Sabotage(
        "2: halves of characters are sent",
        "messages/history_repair.py",
        "return alter_message(message, **changes) if changes else message",
        "return message",
        "messages",
    ),
    Sabotage(
        "3: a failing hook ends the run",
        "base/hooks.py",
        "result)\n            except Exception as error:  # noqa: BLE001",
        "result)\n            except KeyError as error:  #",
        "base",
    ),
    Sabotage(
        "3: a failing tracer ends the run",
        "tracing.py",
        "except Exception as error:  # noqa: BLE001 - tracing",
        "except KeyError as error:  #",
        "tracing",
    ),
    Sabotage(
        "3: a failing model ends a compression",
        "layers/compression.py",
        "except Exception as error:  # if the model",
        "except KeyError as error:  #",
        "layers",
    ),
    Sabotage(
        "3: failing embeddings end a search",
        "search/vectors.py",
        "            if is_graph_bubble_up(error):\n                raise\n",
        "            raise\n",
        "search",
    ),
    Sabotage(
        "4: a failed transaction is committed",
        "storage/sqlite.py",
        "                self._connection.rollback()\n\n    def run(",
        '                self._connection.execute("commit")\n\n    def run(',
        "storage",
    ),
    Sabotage(
        "4: writes are not flushed to the disk",
        "storage/sqlite.py",
        "pragma synchronous = {self.options.synchronous}",
        "pragma synchronous = off",
        "storage",
    ),
    Sabotage(
        "5: writers do not wait for each other",
        "storage/sqlite.py",
        "timeout=self.options.busy_timeout,",
        "timeout=0.0,",
        "storage",
    ),
    Sabotage(
        "5: writers begin as readers",
        "storage/sqlite.py",
        'begin = "begin immediate" if write else "begin"',
        'begin = "begin"',
        "storage",
    ),
    Sabotage(
        "6: names are not checked",
        "base/argument_checks.py",
        "    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_CHARS",
        "    if False",
        "layers",
    ),
    Sabotage(
        "6: ids are not checked",
        "base/namespaces.py",
        "    if not all(part and len(part) <= MAX_ID_CHARS and not CONTROL_CHARS.search(part) for part in parts):",
        "    if False:",
        "conversations",
    ),
    Sabotage(
        "7: memory can close its fence",
        "base/fencing.py",
        "return _CONTROL_TOKENS.sub(",
        "return text or _CONTROL_TOKENS.sub(",
        "experiences",
    ),
    Sabotage(
        "7: a summary is placed in the system role",
        "messages/message_marks.py",
        "    return HumanMessage(content=content",
        "    return __import__('langchain_core.messages').messages.SystemMessage(content=content",
        "compaction",
    ),
    Sabotage(
        "8: a vocabulary is downloaded",
        "language_models/tokens.py",
        "    if _lacks_offline_tokenizer(counter):\n",
        "    if False:\n",
        "language_models",
    ),
    Sabotage(
        "9: a namespace shows all namespaces after it",
        "base/namespaces.py",
        "return (path, path[:-1] + _RANGE_END) if path",
        "return (path, _LAST_PATH) if path",
        "search",
    ),
    Sabotage(
        "9: a memory within a namespace reaches outside it",
        "base/namespaces.py",
        "        if namespace[: len(boundary)] != boundary:\n            raise InvalidInput(",
        "        if False:\n            raise InvalidInput(",
        "test_scopes.py",
    ),
)
"""The number of the promise in `tests/README.md`, and what is broken."""


def noticed(sabotage: Sabotage, options: list[str]) -> str:
    """Run the tests on a copy with the sabotage, and return the first test that noticed, or what else came of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__"))
        path = copy / "langchain_agentmem" / sabotage.module
        text = path.read_text("utf-8")
        if text.count(sabotage.old) != 1:
            return f"NOT MADE: {text.count(sabotage.old)} places in {sabotage.module}"
        path.write_text(text.replace(sabotage.old, sabotage.new), "utf-8")
        command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        for where in (["tests/" + sabotage.where], []):
            run = subprocess.run(
                [*command, *options, *where], cwd=copy, env=environment, capture_output=True, text=True, check=False
            )
            results = [line for line in run.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
            failed = [line.split()[1] for line in results]
            if failed:
                return failed[0]
        return "not noticed" if run.returncode == 0 else f"pytest ended with {run.returncode}"


def main() -> None:
    """Print a line for each sabotage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="run the full ring")
    parser.add_argument("numbers", nargs="*", type=int)
    given, more = parser.parse_known_args()
    for number, sabotage in enumerate(SABOTAGES, 1):
        if not given.numbers or number in given.numbers:
            found = noticed(sabotage, [*(["--full"] if given.full else []), *more])
            print(f"{number:>2}  {sabotage.what:<52}  {found}", flush=True)


if __name__ == "__main__":
    main()
