"""The command line `agentmem`: starts the commands (`app.py`) and turns errors into exit codes.

0    all is well
1    a check found problems, or an import left something out
2    a command that cannot be understood, or that names what is not there or not installed
3    the database cannot be opened or read, or could not do its work
130  Ctrl-C

An error is one line of standard error, broken where a terminal is too narrow for it. `agentmem --install-completion`
has the shell complete commands and options.
Begin reading with `app.py`, which lists the commands; what they share is in `console.py`. They use the facade
`AgentMemory` alone, wherever it can do what they want.
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
"""Who logs which classes are not imported: what is shown here needs none."""
_DEFAULT_WIDTH = 80
"""Of a terminal that does not know its own."""
USAGE_ERROR, STORAGE_ERROR, INTERRUPTED = 2, 3, 130


def main() -> None:
    """Run the command that `sys.argv` names, and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what was said may have characters that the console lacks
    for name in SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        _load_app()()
    except AgentMemoryError as error:
        _exit(" ".join(str(error).split()), STORAGE_ERROR if isinstance(error, StorageError) else USAGE_ERROR)
    except KeyboardInterrupt:  # while the commands were being loaded; later the framework sees to it
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
    # A name may have characters that a terminal would obey.
    text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in message)
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)
    sys.exit(code)
