"""A fence for fuzzers: no file outside of a folder is written, and nothing is sent over the network."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS = {
    "os.chmod": 1, "os.chown": 1, "os.link": 2, "os.mkdir": 1, "os.remove": 1, "os.rename": 2, "os.rmdir": 1,
    "os.symlink": 2, "os.truncate": 1, "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "sqlite3.connect": 1,
    "shutil.rmtree": 1, "shutil.copyfile": 2, "shutil.move": 2, "shutil.make_archive": 1, "tempfile.mkstemp": 1,
}  # fmt: skip
"""How many of the arguments of an event are paths of what is changed."""
NEVER = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen", "os.putenv"}


class OutsideError(BaseException):
    """What is fuzzed wanted to change something outside of its folder, or to reach the network."""


def raise_fence(folder: Path, *others: Path) -> None:  # noqa: C901 - one look at each event
    """From now on whatever touches what is outside of a folder, and of other folders, raises `OutsideError`."""
    allowed = [os.path.realpath(each) for each in (folder, *others, "/dev/null")]

    def is_inside(path: Any) -> bool:
        if path is None or isinstance(path, int) or path in ("", ":memory:", b""):
            return True
        try:
            text = os.fsdecode(path)
            if text.startswith("file:"):
                text = text[5:].split("?")[0]
            real = os.path.realpath(text)
        except (TypeError, ValueError):  # no path: it will be refused by whoever opens it
            return True
        return any(real == each or real.startswith(each + os.sep) for each in allowed)

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & WRITING) if isinstance(flags, int) else bool(set(str(mode)) & set("wax+"))
            if writes and not is_inside(path):
                raise OutsideError(f"{path!r:.200} was opened to be written.")
        elif event in PATHS:
            paths = arguments[: PATHS[event]]
            if event in ("os.remove", "os.rmdir") and arguments[1] != -1:  # by the number of the open folder around it
                paths = (os.path.join(f"/proc/self/fd/{arguments[1]}", arguments[0]),)  # noqa: PTH118 - as it is
            for path in paths:
                if not is_inside(path):
                    raise OutsideError(f"{event} of {path!r:.200}.")
        elif event == "socket.connect":
            if arguments[0].family != socket.AF_UNIX:
                raise OutsideError(f"A connection to {arguments[1]!r:.200}.")
        elif event in NEVER:
            raise OutsideError(f"{event} {arguments!r:.200}.")

    sys.dont_write_bytecode = True  # what is imported from now on is compiled for this process alone
    sys.addaudithook(look)
