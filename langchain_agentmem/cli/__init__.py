"""The command line `agentmem`: it runs a command and turns errors into exit codes.

0    success
1    a check found problems, or an import skipped entries
2    usage error: unknown command or option, missing optional dependency, or a missing thread, branch or file
3    database error: the database cannot be opened or read, or an operation failed
130  interrupted by Ctrl-C

An error is printed as one line on standard error, wrapped to the width of the terminal.
`agentmem --install-completion` installs shell completion of commands and options.
Begin reading with `app.py`, which lists the commands. Shared helpers are in `console.py`. Where possible, commands use
only the public class `AgentMemory`.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import textwrap
from collections.abc import Callable
from typing import NoReturn

from langchain_agentmem.errors import AgentMemoryError, MissingExtra, StorageError

SILENCED_LOGGERS = ("langchain_agentmem.checkpoints.checkpoint_codec", "langgraph.checkpoint.serde.jsonplus")
"""Loggers that warn about stored objects whose classes are not imported. The commands need none of these classes."""
_DEFAULT_WIDTH = 80
"""The assumed width of a terminal that does not report its width, in columns."""
USAGE_ERROR, STORAGE_ERROR, INTERRUPTED = 2, 3, 130


def main() -> None:
    """Run the command in `sys.argv`, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # messages may contain characters that the console lacks
    for name in SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        _load_app()()
    except AgentMemoryError as error:
        _exit(" ".join(str(error).split()), STORAGE_ERROR if isinstance(error, StorageError) else USAGE_ERROR)
    except KeyboardInterrupt:  # raised while the commands load; `handle_interrupt` catches later ones
        _exit("Interrupted.", INTERRUPTED)


def _load_app() -> Callable[[], object]:
    try:
        import rich  # noqa: F401, PLC0415
        import typer  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtra("The command line", "cli") from error
    from langchain_agentmem.cli.app import build_cli  # noqa: PLC0415

    return build_cli()


def _exit(message: str, code: int) -> NoReturn:
    # The message may quote a name with control characters, which a terminal would execute.
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)
    sys.exit(code)
