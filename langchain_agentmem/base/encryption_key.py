"""Keys that encrypt data on disk, and their sources. Nothing shows the keys.

A key is a passphrase (a text), or 32 random bytes, also written as SQLCipher writes them: "x'" and 64 hexadecimal
digits "'". Bytes are used as they are; a passphrase is made slow to guess first, once for each file that it opens.
The package holds a function that returns the key, so that the key appears in no `repr` and, once handed over, in no
local variable of a traceback. A user's function is called whenever a database or a file is opened.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

from langchain_agentmem.errors import InvalidInput

KeyLike: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A passphrase, 32 bytes, or a function that returns one of these."""

SIZE = 32
"""Bytes of a key that is used as it is."""
VARIABLE, NEW_VARIABLE, EXPORT_VARIABLE = "AGENTMEM_KEY", "AGENTMEM_NEW_KEY", "AGENTMEM_EXPORT_KEY"
"""The environment variables with the key of a database, with the one that it gets, and with that of an export; with
_FILE behind them the path of a file that holds it, with _COMMAND a command that prints it."""
_PATIENCE = 60.0
"""Seconds that a command may take."""
_RAW = re.compile(r"[xX]'([0-9a-fA-F]{64})'")


class EncryptionKey:
    """A key that nothing shows; calling it returns a passphrase or 32 bytes.

    Args:
        given: The key, or a function that returns it.
    """

    __slots__ = ("_asks", "_give")

    def __init__(self, given: KeyLike) -> None:
        self._asks = callable(given)
        self._give: Callable[[], str | bytes] = given if callable(given) else lambda: given

    @classmethod
    def of(cls, given: KeyLike | None) -> EncryptionKey | None:
        """Wrap a given key, or return None. `check` and `asked` validate the key."""
        return given if given is None or isinstance(given, cls) else cls(given)

    def check(self) -> None:
        """Check a constant key; a function that provides a key is not called.

        Raises:
            InvalidInput: The value cannot be a key.
        """
        if not self._asks and (wrong := _wrong(self._give())):
            raise InvalidInput(wrong)

    def asked(self) -> EncryptionKey:
        """Return the current key as a constant, calling the function that provides it once.

        Raises:
            InvalidInput: The value cannot be a key, or the function that provides it failed.
        """
        try:
            given = self._give()
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"The function that gives the key failed with {type(error).__name__}.") from error
        if wrong := _wrong(given):
            del given
            raise InvalidInput(wrong)
        return EncryptionKey(given)

    def __call__(self) -> str | bytes:
        """Return the passphrase, or the 32 bytes."""
        given = self._give()
        raw = _RAW.fullmatch(given) if isinstance(given, str) else None
        return given if raw is None else bytes.fromhex(raw[1])

    def __repr__(self) -> str:
        return "EncryptionKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key is not written down.")


def _wrong(given: object) -> str:
    """Return why a value cannot be a key, without any part of it; "" if it can."""
    if isinstance(given, str):
        halves = any("\ud800" <= each <= "\udfff" for each in given)
        wrong = "a text with half of a surrogate pair" if halves else "" if given else "an empty text"
    elif isinstance(given, bytes):
        wrong = "" if len(given) == SIZE else f"{len(given)} bytes"
    else:
        wrong = f"a {type(given).__name__}"
    return wrong and f"A key is a passphrase, {SIZE} bytes, or a function that gives one of them, not {wrong}."


def key_in_environment(variable: str = VARIABLE) -> EncryptionKey | None:
    """Return the key that the environment names, if any.

    Its file is read, or its command run, when the key is needed.

    Args:
        variable: The variable with the key itself.

    Raises:
        InvalidInput: More than one variable names a key.
    """
    named = [name for name in (variable, f"{variable}_FILE", f"{variable}_COMMAND") if os.environ.get(name)]
    if len(named) > 1:
        raise InvalidInput(f"The key is given {len(named)} times: by {' and '.join(named)}.")
    return EncryptionKey(partial(_read, named[0])) if named else None


def _read(name: str) -> str:
    """Return the key that a variable holds or leads to."""
    given = os.environ[name]
    try:
        if name.endswith("_FILE"):
            given = Path(given).read_text(encoding="utf-8").rstrip("\r\n")
        elif name.endswith("_COMMAND"):
            told = subprocess.run(shlex.split(given), stdout=subprocess.PIPE, check=True, timeout=_PATIENCE)  # noqa: S603
            given = told.stdout.decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        told, reason = None, getattr(error, "strerror", None) or type(error).__name__  # which show no part of the key
    else:
        return given
    raise InvalidInput(f"{name} gives no key: {reason}.")
